//! Events judged while the configuration changes.

use std::fs;
use std::path::Path;

use engine::{Directory, Engine, PreparedEvent, Proposal, ReloadError, SnapshotError};
use event::{Event, Time, Value};
use plan::{Config, Overrides, Pipeline, Plan, preset};
use std::sync::atomic::{AtomicUsize, Ordering};

const NOW: Time = Time::from_seconds(1_780_000_000);

const BASE: &str = r#"
name = "hits"
[[field]]
name = "ip"
type = "ip"
[[kind]]
name = "ip"
of = "ip"
[[statistic]]
name = "counts"
keys = ["ip"]
counts = ["seen", "caught"]
windows = ["1m x 60", "1h x 48"]
[[rule]]
name = "SEEN"
when = "ip.seen('1h') < 1000000"
score = 1
"#;

/// Reads a window that sorts before that of the base.
const SHORTER: &str = "[[rule]]\nname = \"SEEN\"\nwhen = \"ip.seen('10m') < 1000000\"\n";

struct Home {
    parent: tempfile::TempDir,
    directory: Directory,
}

impl Home {
    fn new(text: &str) -> Home {
        let parent = tempfile::tempdir().unwrap();
        let directory = Directory::create(&parent.path().join("data"), &[&preset::ALL[0]]).unwrap();
        fs::write(directory.config_path(), text).unwrap();
        Home { parent, directory }
    }

    fn open(&self) -> Engine {
        self.try_open().unwrap_or_else(|error| panic!("{error}"))
    }

    fn try_open(&self) -> Result<Engine, String> {
        open(&self.directory)
    }

    fn path(&self) -> &Path {
        self.parent.path()
    }
}

fn open(directory: &Directory) -> Result<Engine, String> {
    let plan = Plan::compile(&Config::load(&directory.config_path(), &Overrides::default()));
    Engine::open(directory, plan.map_err(|problems| problems.to_string())?).map_err(|error| error.to_string())
}

fn prepare(engine: &Engine, at: Time) -> PreparedEvent {
    let fields = vec![("ip".into(), Value::from("192.0.2.1"))];
    let event = Event { time: Some(at), fields, ..Event::default() };
    engine.prepare(&engine.plan().pipelines[0], event, at)
}

/// The version that judged, and what `SEEN` has read.
fn decide(engine: &Engine, prepared: PreparedEvent) -> (String, String) {
    let decision = pollster::block_on(engine.decide(vec![prepared])).remove(0);
    let seen = decision.verdict.reasons.iter().find(|reason| reason.rule == "SEEN").unwrap();
    (decision.pipeline.version.clone(), seen.detail.clone())
}

fn post<'a>(text: &'a str) -> Proposal<'a> {
    Proposal::Post { pipeline: "hits", text }
}

fn version(engine: &Engine) -> String {
    engine.plan().pipelines[0].version.clone()
}

#[track_caller]
fn refused(engine: &Engine, proposal: Proposal<'_>) -> String {
    match engine.change(proposal, NOW, false) {
        Err(ReloadError::Problems(problems)) => problems.to_string(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_event_is_judged_to_its_end_by_the_version_it_began_with() {
    let home = Home::new(BASE);
    let engine = home.open();
    for minute in 0..30 {
        decide(&engine, prepare(&engine, NOW + event::Span::minutes(minute)));
    }
    let at = NOW + event::Span::minutes(30);
    let before = version(&engine);
    let (early, other) = (prepare(&engine, at), prepare(&engine, at));
    engine.change(post(SHORTER), NOW, false).unwrap();
    let after = version(&engine);
    assert_ne!(before, after);
    // Its window has its place still, though one that is shorter is read as well.
    assert_eq!(decide(&engine, early), (before.clone(), "ip.seen('1h') = 30".to_owned()));
    let late = prepare(&engine, at);
    engine.change(post(""), NOW, false).unwrap();
    assert_eq!(decide(&engine, late), (after, "ip.seen('10m') = 11".to_owned()));
    assert_eq!(decide(&engine, other), (before, "ip.seen('1h') = 32".to_owned()));
}

/// Many regular expressions, each as large as one may be: what is compiled of them is bounded, and nothing more of it once
/// nobody waits. Others change rules then as before.
#[test]
fn posting_many_regular_expressions_is_bounded_and_ends() {
    let home = Home::new(BASE);
    let engine = home.open();
    let before = version(&engine);
    let rules = |count: usize, pattern: &str| {
        let rule = |number| {
            let when = format!("page.matches('{pattern}{number}')");
            format!("[[rule]]\nname = \"R{number}\"\nscore = 1\nwhen = \"{when}\"\n")
        };
        "[[field]]\nname = \"page\"\ntype = \"string\"\n".to_owned()
            + &(0..count).map(rule).collect::<String>()
    };
    let text = rules(1000, "[a-z]{1000}");
    let asked = AtomicUsize::new(0);
    let is_over = || asked.fetch_add(1, Ordering::Relaxed) >= 10;
    let stopped = engine.change_unless(post(&text), None, NOW, true, &is_over);
    assert!(matches!(stopped, Err(ReloadError::Stopped)), "{stopped:?}");
    assert!(asked.load(Ordering::Relaxed) < 100, "it went on, and asked {asked:?} times");
    assert_eq!(version(&engine), before);
    engine.change(post(SHORTER), NOW, false).unwrap();
    // Small ones may be many.
    engine.change(post(&rules(1000, "spam")), NOW, true).unwrap();
}

#[test]
fn what_is_kept_of_keys_does_not_change_under_way() {
    let home = Home::new(BASE);
    let engine = home.open();
    let before = version(&engine);
    let told = refused(&engine, post("[[statistic]]\nname = \"counts\"\ncounts = [\"seen\", \"more\"]\n"));
    assert!(told.contains("what is kept of `ip` by `counts` cannot change while it is counted"), "{told}");
    assert!(told.contains("restart the node to change it"), "{told}");
    let sketch = "[[kind]]\nname = \"net\"\nof = \"ip_net\"\n[[statistic]]\nname = \"new\"\nkeys = [\"net\"]\n\
        aggregate = [\"count\"]\nkeep = \"1d\"\nadmit = { after = 3, rotate = \"3d\", memory = \"1MiB\" }\n";
    let told = refused(&engine, post(sketch));
    assert!(
        told.contains("the sketch of `new` takes memory, which is given out when a node starts"),
        "{told}"
    );
    // More windows than a kind can have, a few at a time.
    let windows = |from: usize| -> String {
        let rule = |minute: usize| {
            let name =
                format!("name = \"W{minute}\"\nwhen = \"ip.seen('{minute}m') < 1000000\"\nscore = 0\n");
            format!("[[rule]]\n{name}")
        };
        (from..from + 30).map(rule).collect()
    };
    engine.change(post(&windows(1)), NOW, false).unwrap();
    engine.change(post(&windows(31)), NOW, false).unwrap();
    let told = refused(
        &engine,
        post(
            "[[rule]]\nname = \"SEEN\"\nwhen = \"ip.seen('2h') + ip.seen('3h') + ip.seen('4h') + ip.seen('5h') + ip.seen('6h') > 0\"\n",
        ),
    );
    assert!(told.contains("more than 64 windows") && told.contains("restart it"), "{told}");
    engine.change(post(""), NOW, false).unwrap();
    assert_eq!(version(&engine), before);
    drop(engine);
    // A restart forgets them, and takes over what could not change.
    fs::write(home.directory.config_path(), BASE.replace("\"caught\"", "\"more\"")).unwrap();
    let plan = home.open().plan();
    assert_eq!(plan.pipelines[0].kinds.as_slice()[0].windows.len(), 1);
}

/// A pipeline that counts nothing has a version like any other, which its kept text is read back as.
#[test]
fn a_pipeline_without_counters_is_gone_back_to() {
    let text = "name = \"hits\"\n[[field]]\nname = \"ip\"\ntype = \"ip\"\n\
        [[rule]]\nname = \"SEEN\"\nwhen = \"ip == '192.0.2.1'\"\nscore = 1\n";
    let home = Home::new(text);
    let engine = home.open();
    let first = version(&engine);
    engine.change(post("[[rule]]\nname = \"SEEN\"\nscore = 2\n"), NOW, false).unwrap();
    assert_ne!(version(&engine), first);
    engine.change(Proposal::Back { pipeline: "hits", version: &first }, NOW, false).unwrap();
    assert_eq!(version(&engine), first);
    drop(engine);
    assert_eq!(version(&home.open()), first, "after a restart, too");
}

#[test]
fn kept_versions_are_what_they_were() {
    for preset in preset::ALL {
        let parent = tempfile::tempdir().unwrap();
        let directory = Directory::create(&parent.path().join("data"), &[preset]).unwrap();
        let set = "[[set]]\nname = \"odd\"\ntype = \"string\"\nfile = \"odd.txt\"\n\
            [[rule]]\nname = \"ODD\"\nwhen = \"rule('ODDER')\"\nscore = 1e-3\n\
            expires = 2030-01-01T00:00:00Z\ndescription = \"\\u00e4 \\\"quoted\\\"\\n\\u007f\"\n";
        let set = format!("{set}[[rule]]\nname = \"ODDER\"\nwhen = \"true\"\nscore = 0\n");
        let text = fs::read_to_string(directory.config_path()).unwrap();
        fs::write(directory.config_path(), format!("{text}\n{set}")).unwrap();
        fs::write(directory.path().join("odd.txt"), "one\ntwo\n").unwrap();
        let engine = open(&directory).unwrap();
        let (first, canonical) = (version(&engine), engine.plan().pipelines[0].canonical.clone());
        fs::write(directory.path().join("odd.txt"), "three\n").unwrap();
        engine.change(Proposal::Files, NOW, false).unwrap();
        assert_ne!(version(&engine), first, "{}", preset.name);
        engine.change(Proposal::Back { pipeline: preset.name, version: &first }, NOW, false).unwrap();
        assert_eq!(engine.plan().pipelines[0].canonical, canonical);
        assert_eq!(version(&engine), first);
        engine.close().unwrap();
        drop(engine);
        assert_eq!(version(&open(&directory).unwrap()), first, "also after a restart");
    }
}

/// A version that was gone back to and is damaged or gone does not keep the node from starting.
#[test]
fn what_cannot_be_gone_back_to_any_more_gives_way() {
    for damage in ["flipped", "gone", "set"] {
        let set = "[[set]]\nname = \"odd\"\ntype = \"string\"\nfile = \"odd.txt\"\n";
        let home = Home::new(&format!("{BASE}{set}"));
        fs::write(home.directory.path().join("odd.txt"), "one\n").unwrap();
        let engine = home.open();
        let first = version(&engine);
        engine.change(post(SHORTER), NOW, false).unwrap();
        let posted = version(&engine);
        engine.change(Proposal::Back { pipeline: "hits", version: &first }, NOW, false).unwrap();
        engine.close().unwrap();
        drop(engine);
        let rules = home.directory.rules_path();
        let kept = rules.join(format!("{first}.toml"));
        let of_set = |entry: fs::DirEntry| {
            entry.path().extension().is_some_and(|it| it == "file").then(|| entry.path())
        };
        match damage {
            "gone" => fs::remove_file(&kept).unwrap(),
            _ => {
                let set = fs::read_dir(&rules).unwrap().find_map(|entry| of_set(entry.unwrap())).unwrap();
                let path = if damage == "set" { set } else { kept };
                let mut bytes = fs::read(&path).unwrap();
                bytes[1] ^= 1;
                fs::write(path, bytes).unwrap();
            }
        }
        let engine = home.open();
        let conditions = engine.health().list();
        let told = &conditions.iter().find(|condition| condition.name == "settings-damaged").unwrap().detail;
        assert!(
            told.contains(&format!("version {first} of `hits`, which was gone back to, cannot be had")),
            "{told}"
        );
        assert_eq!(version(&engine), posted, "{damage}: what was posted stands again");
    }
}

#[test]
fn so_many_versions_are_kept() {
    let home = Home::new(&format!("{BASE}[node]\nversions = 3\n"));
    let engine = home.open();
    let mut versions = vec![version(&engine)];
    for score in 2..7 {
        engine.change(post(&format!("[[rule]]\nname = \"SEEN\"\nscore = {score}\n")), NOW, false).unwrap();
        versions.push(version(&engine));
    }
    let kept = engine.rules_info(&engine.plan().pipelines[0]).versions;
    let kept: Vec<&str> = kept.iter().map(|it| it.version.as_str()).collect();
    assert_eq!(kept, versions.iter().rev().take(3).collect::<Vec<_>>());
    let files = fs::read_dir(home.directory.rules_path()).unwrap().count();
    assert_eq!(files, 4, "three versions and the list of them");
    let gone = engine.change(Proposal::Back { pipeline: "hits", version: &versions[0] }, NOW, false);
    assert!(matches!(gone, Err(ReloadError::Version { .. })), "{gone:?}");
    engine.change(Proposal::Back { pipeline: "hits", version: &versions[3] }, NOW, false).unwrap();
    let by: Vec<String> =
        engine.rules_info(&engine.plan().pipelines[0]).versions.into_iter().map(|it| it.by).collect();
    assert_eq!(by, ["back", "post", "post"]);
}

#[test]
fn what_stands_over_the_files_is_part_of_a_snapshot() {
    let home = Home::new(BASE);
    let engine = home.open();
    engine.change(post(SHORTER), NOW, false).unwrap();
    let name = engine.snapshot(NOW, &|| false).unwrap();
    let copy = home.directory.snapshots_path().join(name);
    let restored = Directory::restore(&copy, &home.path().join("restored"), &mut |_, _, _| {}).unwrap();
    assert_eq!(version(&open(&restored).unwrap()), version(&engine));
}

/// A snapshot that nobody waits for any more ends before its next part, and leaves nothing behind.
#[test]
fn a_snapshot_that_nobody_waits_for_leaves_nothing() {
    let home = Home::new(BASE);
    let engine = home.open();
    for parts in 0..4 {
        let done = AtomicUsize::new(0);
        let is_over = || done.fetch_add(1, Ordering::Relaxed) >= parts;
        let made = engine.snapshot(NOW, &is_over);
        let left = fs::read_dir(home.directory.snapshots_path()).map_or(0, |entries| entries.count());
        match made {
            Err(SnapshotError::Ended) => assert_eq!((left, parts < 3), (0, true)),
            made => assert_eq!((made.is_ok(), left, parts), (true, 1, 3)),
        }
    }
}

#[test]
fn a_start_says_what_does_not_fit_together() {
    let home = Home::new(BASE);
    let engine = home.open();
    engine
        .change(post("[[rule]]\nname = \"CAUGHT\"\nwhen = \"ip.caught('1h') > 0\"\nscore = 1\n"), NOW, false)
        .unwrap();
    drop(engine);
    fs::write(home.directory.config_path(), BASE.replace(", \"caught\"", "")).unwrap();
    let told = home.try_open().err().unwrap();
    assert!(told.contains("posted rules:3:12: error: `CAUGHT`: unknown counter `caught`"), "{told}");
    assert!(told.contains("mend its files, or remove `rules/state.json`"), "{told}");
    fs::write(home.directory.rules_path().join("state.json"), "{").unwrap();
    // A damaged one is put aside: the files are in force.
    let conditions = home.open().health().list();
    let told = &conditions.iter().find(|condition| condition.name == "settings-damaged").unwrap().detail;
    assert!(told.contains("state.json is damaged, and put aside as "), "{told}");
    assert!(home.directory.rules_path().join("state.json.damaged").exists());
}

#[test]
fn an_engine_in_memory_changes_and_keeps_nothing() {
    let config = Config::from_text("test.toml", BASE, &Overrides::default());
    let engine = Engine::ephemeral(Plan::compile(&config).unwrap()).unwrap();
    let before = version(&engine);
    engine.change(post(SHORTER), NOW, false).unwrap();
    assert_ne!(version(&engine), before);
    let back = engine.change(Proposal::Back { pipeline: "hits", version: &before }, NOW, false);
    assert!(matches!(back, Err(ReloadError::NoDirectory)), "{back:?}");
    let none = engine.change(Proposal::Promote { pipeline: "none" }, NOW, false);
    assert!(matches!(none, Err(ReloadError::Pipeline(_))), "{none:?}");
}

#[test]
fn a_candidates_model_may_be_enforced_for_it() {
    let parent = tempfile::tempdir().unwrap();
    let directory = Directory::create(&parent.path().join("data"), &[]).unwrap();
    let model = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpora/model/numeric.cbm");
    fs::copy(model, directory.path().join("june.cbm")).unwrap();
    let fields: String = ["mail.size", "mail.caps", "conn.port"]
        .map(|name| format!("[[field]]\nname = \"{name}\"\ntype = \"float\"\n"))
        .concat();
    let text = format!("{BASE}{fields}[[model]]\nname = \"june\"\nfile = \"june.cbm\"\nmode = \"shadow\"\n");
    fs::write(directory.config_path(), &text).unwrap();
    let engine = open(&directory).unwrap();
    let rule =
        "[[rule]]\nname = \"JUNE\"\nwhen = \"model('june') >= 0.0\"\nscore = 1\neffects = [\"set reject\"]\n";
    let candidate = |text: &str| engine.change(Proposal::Candidate { pipeline: "hits", text }, NOW, false);
    let told = candidate(rule).unwrap_err().to_string();
    assert!(told.contains("candidate:3:15: error: `JUNE`: the model `june` is in shadow"), "{told}");
    let enforced = format!("{rule}[[model]]\nname = \"june\"\nmode = \"enforce\"\n");
    candidate(&enforced).unwrap();
    decide(&engine, prepare(&engine, NOW));
    let of = |pipeline: &Pipeline| engine.comparison(pipeline).map(|it| (it.events, it.disagreements));
    assert_eq!(of(&engine.plan().pipelines[0]), Some((1, 1)));
    engine.change(Proposal::Promote { pipeline: "hits" }, NOW, false).unwrap();
    assert_eq!(of(&engine.plan().pipelines[0]), None);
    let decision = pollster::block_on(engine.decide(vec![prepare(&engine, NOW)])).remove(0);
    assert_eq!(decision.verdict.action, judge::Action::Reject);
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(64))]
    #[test]
    fn no_posted_text_makes_a_change_panic(text in "[ -~\\n\\t\u{e9}]{0,160}", candidate in proptest::bool::ANY) {
        let config = Config::from_text("test.toml", BASE, &Overrides::default());
        let engine = Engine::ephemeral(Plan::compile(&config).unwrap()).unwrap();
        let before = version(&engine);
        let pipeline = "hits";
        let proposal = if candidate {
            Proposal::Candidate { pipeline, text: &text }
        } else {
            Proposal::Post { pipeline, text: &text }
        };
        if engine.change(proposal, NOW, false).is_err() || candidate {
            proptest::prop_assert_eq!(version(&engine), before);
        }
    }
}
