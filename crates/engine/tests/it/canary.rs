//! Candidates that decide for a share of the events, or on some nodes.

use std::collections::BTreeSet;
use std::fs;
use std::net::Ipv4Addr;

use engine::{DECIDED_BY_CANDIDATE, Decision, Directory, Engine, Proposal, ReloadError};
use event::{Event, Time, Value};
use judge::Action;
use plan::{CanaryScope, Config, Overrides, Plan};

use crate::registries::{LoneNode, open_with};

const NOW: Time = Time::from_seconds(1_780_000_000);

const CONFIG: &str = r#"
name = "hits"
[[field]]
name = "ip"
type = "ip"
[[kind]]
name = "ip"
of = "ip"
[[label]]
name = "odd"
of = "ip"
keep = "7d"
[[rule]]
name = "MARKED"
when = "ip.marked('odd')"
score = 0.5
"#;

/// Refuses and marks everybody.
const ALL: &str = "[[rule]]\nname = \"ALL\"\nwhen = \"true\"\nscore = 0\neffects = [\"set reject\", \"mark ip as odd for 1d\"]\n";

struct Home {
    _parent: tempfile::TempDir,
    directory: Directory,
}

impl Home {
    fn new() -> Home {
        let parent = tempfile::tempdir().unwrap();
        let directory = Directory::create(&parent.path().join("data"), &[]).unwrap();
        fs::write(directory.config_path(), CONFIG).unwrap();
        Home { _parent: parent, directory }
    }

    fn open(&self) -> Engine {
        let config = Config::load(&self.directory.config_path(), &Overrides::default());
        Engine::open(&self.directory, Plan::compile(&config).unwrap()).unwrap()
    }
}

fn candidate(engine: &Engine, text: &str) {
    engine.change(Proposal::Candidate { pipeline: "hits", text }, NOW, false).unwrap();
}

fn canary(engine: &Engine, share: f64, nodes: &[u16]) -> Result<(), ReloadError> {
    let scope = CanaryScope::new(share, nodes.to_vec());
    engine.change(Proposal::Canary { pipeline: "hits", scope: scope.as_ref() }, NOW, false).map(|_| ())
}

fn decide(engine: &Engine, ip: Option<u32>, id: Option<&str>) -> Decision {
    let fields = ip.map(|ip| ("ip".into(), Value::Ip(Ipv4Addr::from(ip).into())));
    let event = Event {
        id: id.map(str::to_owned),
        time: Some(NOW),
        fields: fields.into_iter().collect(),
        ..Event::default()
    };
    let prepared = engine.prepare(&engine.plan().pipelines[0], event, NOW);
    pollster::block_on(engine.decide(vec![prepared])).remove(0)
}

/// Returns true if the candidate decided, having checked that the decision is its own from end to end.
#[track_caller]
fn is_of_candidate(engine: &Engine, decision: &Decision) -> bool {
    let plan = engine.plan();
    let pipeline = &plan.pipelines[0];
    let candidate = pipeline.candidate.as_ref().unwrap();
    let is_its = decision.pipeline.version == candidate.version;
    assert!(is_its || decision.pipeline.version == pipeline.version);
    let says = decision.verdict.reasons.iter().any(|reason| reason.rule == DECIDED_BY_CANDIDATE);
    assert_eq!((says, decision.verdict.action == Action::Reject), (is_its, is_its), "{:?}", decision.verdict);
    is_its
}

/// The addresses for which the candidate decides.
fn its(engine: &Engine, addresses: u32) -> BTreeSet<u32> {
    (0..addresses).filter(|ip| is_of_candidate(engine, &decide(engine, Some(*ip), None))).collect()
}

#[test]
fn a_canary_decides_for_its_share_and_for_the_same_every_time() {
    let home = Home::new();
    let engine = home.open();
    assert!(matches!(canary(&engine, 0.25, &[]), Err(ReloadError::NoCandidate(_))));
    candidate(&engine, ALL);
    assert_eq!(its(&engine, 10), BTreeSet::new(), "without a canary it judges only");
    canary(&engine, 0.25, &[]).unwrap();
    let quarter = its(&engine, 2000);
    assert!((300..700).contains(&quarter.len()), "{} of 2000", quarter.len());
    assert_eq!(its(&engine, 2000), quarter);

    let compared = engine.comparison(&engine.plan().pipelines[0]).unwrap();
    let decided = 2 * quarter.len() as u64;
    assert_eq!((compared.events, compared.decided, compared.disagreements), (4000, decided, 4000));
    assert_eq!(compared.actions, [(Action::Accept, Action::Reject, 4000)], "whichever decides");
    assert_eq!(compared.labels, [("odd".to_owned(), 0, 4000)]);
    let unmarked = compared.examples.iter().find(|example| example.enforced.rules.is_empty()).unwrap();
    assert_eq!(unmarked.candidate.rules, ["ALL"]);
    // What it marks is marked.
    let marked = decide(&engine, quarter.first().copied(), None);
    assert!(marked.verdict.reasons.iter().any(|reason| reason.rule == "MARKED"), "{:?}", marked.verdict);

    canary(&engine, 0.5, &[]).unwrap();
    let half = its(&engine, 2000);
    assert!(half.is_superset(&quarter) && half.len() > quarter.len());

    // A restart changes nothing, and the decision is explained by the rules that made it, also when they are gone.
    let explained = decide(&engine, quarter.first().copied(), None).id;
    drop(engine);
    let engine = home.open();
    assert_eq!(its(&engine, 2000), half);
    let version = engine.plan().pipelines[0].candidate.as_ref().unwrap().version.clone();
    engine.change(Proposal::Candidate { pipeline: "hits", text: "" }, NOW, false).unwrap();
    assert!(engine.plan().pipelines[0].candidate.is_none());
    assert_eq!(decide(&engine, quarter.first().copied(), None).verdict.action, Action::Accept);
    let row = engine.explain(explained).unwrap();
    assert_eq!(row.version, version);
    let info = engine.rules_info(&engine.plan().pipelines[0]);
    assert_eq!(info.versions[0].version, info.version, "what is in force comes first");
    let kept = info.versions.iter().find(|kept| kept.version == version).unwrap();
    assert_eq!((&*kept.by, &info.canary), ("canary", &None));
    engine.change(Proposal::Back { pipeline: "hits", version: &version }, NOW, false).unwrap();
    assert_eq!(decide(&engine, Some(1), None).verdict.action, Action::Reject);
}

#[test]
fn what_nothing_tells_apart_is_of_the_whole_only() {
    fn check(share: f64, ip: Option<u32>, id: Option<&str>, of_candidate: Option<bool>) {
        let home = Home::new();
        let engine = home.open();
        candidate(&engine, ALL);
        canary(&engine, share, &[]).unwrap();
        let first = is_of_candidate(&engine, &decide(&engine, ip, id));
        assert_eq!(of_candidate.unwrap_or(first), first, "{share} {ip:?} {id:?}");
        assert_eq!(is_of_candidate(&engine, &decide(&engine, ip, id)), first, "{share} {ip:?} {id:?}");
    }
    check(0.999, None, None, Some(false));
    check(1.0, None, None, Some(true));
    check(0.5, None, Some("one"), None);
    check(0.5, Some(7), Some("one"), None);
}

#[test]
fn a_canary_is_promoted_or_gives_way_to_another_candidate() {
    let home = Home::new();
    let engine = home.open();
    candidate(&engine, ALL);
    canary(&engine, 1.0, &[]).unwrap();
    let decided = decide(&engine, Some(1), None);
    engine.change(Proposal::Promote { pipeline: "hits" }, NOW, false).unwrap();
    let promoted = decide(&engine, Some(1), None);
    assert_eq!(decided.pipeline.version, promoted.pipeline.version, "it is what was tried");
    assert!(!promoted.verdict.reasons.iter().any(|reason| reason.rule == DECIDED_BY_CANDIDATE));

    engine.change(Proposal::Post { pipeline: "hits", text: "" }, NOW, false).unwrap();
    candidate(&engine, ALL);
    canary(&engine, 1.0, &[]).unwrap();
    candidate(&engine, &ALL.replace("ALL", "OTHERS"));
    assert!(!is_of_candidate(&engine, &decide(&engine, Some(1), None)), "another one judges first");
    canary(&engine, 1.0, &[]).unwrap();
    assert!(is_of_candidate(&engine, &decide(&engine, Some(1), None)));
    engine.change(Proposal::Canary { pipeline: "hits", scope: None }, NOW, false).unwrap();
    assert!(!is_of_candidate(&engine, &decide(&engine, Some(1), None)), "it judges only");
}

#[test]
fn a_canary_can_be_of_some_nodes() {
    let home = Home::new();
    let config = Config::load(&home.directory.config_path(), &Overrides::default());
    // This node has the number 1.
    let engine = open_with(&home.directory, &config, LoneNode::registries());
    candidate(&engine, ALL);
    for (nodes, of_candidate) in [(&[][..], true), (&[2, 3], false), (&[2, 1], true)] {
        canary(&engine, 1.0, nodes).unwrap();
        assert_eq!(is_of_candidate(&engine, &decide(&engine, Some(1), None)), of_candidate, "{nodes:?}");
    }
}
