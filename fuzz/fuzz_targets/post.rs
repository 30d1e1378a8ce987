//! Any text is posted as rules, or refused whole: then nothing has changed. What a trial run says is what happens, and
//! taking the text away gives back the version that was there before.
#![no_main]

use std::sync::LazyLock;

use engine::{Engine, Proposal, ReloadError, ReloadOutcome};
use event::Time;
use libfuzzer_sys::fuzz_target;
use plan::{Config, Overrides, Plan};

const NOW: Time = Time::from_seconds(1_700_000_000);

static ENGINE: LazyLock<Engine> = LazyLock::new(|| {
    let plan = Plan::compile(&Config::from_preset("web", &Overrides::default())).unwrap();
    Engine::ephemeral(plan).unwrap()
});

fn version() -> String {
    ENGINE.plan().pipelines[0].version.clone()
}

fn change(proposal: Proposal<'_>, dry: bool) -> Result<ReloadOutcome, ReloadError> {
    let before = version();
    let changed = ENGINE.change(proposal, NOW, dry);
    if dry || changed.is_err() {
        assert_eq!(version(), before);
    }
    changed
}

fuzz_target!(|text: &str| {
    let first = version();
    let pipeline = ENGINE.plan().pipelines[0].name.clone();
    let candidate = |text| Proposal::Candidate { pipeline: &pipeline, text };
    let post = |text| Proposal::Post { pipeline: &pipeline, text };
    for proposal in [candidate(text), post(text)] {
        match (change(proposal, true), change(proposal, false)) {
            (Ok(tried), Ok(done)) => assert_eq!(tried.changes, done.changes),
            (Err(tried), Err(refused)) => {
                let told = refused.to_string();
                assert!(!told.is_empty());
                assert_eq!(tried.to_string(), told);
            }
            (tried, done) => panic!("a trial says {tried:?}, and then {done:?}"),
        }
    }
    change(candidate(""), false).unwrap();
    change(post(""), false).unwrap();
    assert_eq!(version(), first);
});
