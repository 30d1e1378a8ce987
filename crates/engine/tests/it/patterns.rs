//! Lists of patterns for requests: those of the presets, and files that replace them while a node runs.

use std::fs;

use content::web::access_log;
use engine::{Directory, Engine, Proposal, ReloadError};
use event::Time;
use plan::{Config, Overrides, Plan, preset};

const NOW: Time = Time::from_seconds(1_780_000_000);

const BASE: &str = r#"
name = "site"
input = "access-log"
[patterns]
probes = "probes.txt"
[[kind]]
name = "ip"
of = "client.ip"
[[statistic]]
name = "counts"
keys = ["ip"]
counts = ["seen"]
windows = ["1h x 24"]
[[rule]]
name = "PROBE"
when = "http.probe"
score = 2
[[rule]]
name = "ROBOT"
when = "http.agent_bot"
score = 1
"#;

struct Site {
    _parent: tempfile::TempDir,
    directory: Directory,
}

impl Site {
    fn new(config: &str, probes: &str) -> Site {
        let parent = tempfile::tempdir().unwrap();
        let directory = Directory::create(&parent.path().join("data"), &[&preset::ALL[0]]).unwrap();
        fs::write(directory.config_path(), config).unwrap();
        fs::write(directory.config_path().with_file_name("probes.txt"), probes).unwrap();
        Site { _parent: parent, directory }
    }

    fn plan(&self) -> Result<Plan, String> {
        let config = Config::load(&self.directory.config_path(), &Overrides::default());
        Plan::compile(&config).map_err(|problems| problems.to_string())
    }

    fn fired(&self, path: &str) -> Vec<String> {
        let engine = Engine::open(&self.directory, self.plan().unwrap()).unwrap();
        let line = format!(
            "192.0.2.1 - - [17/May/2015:10:05:03 +0000] \"GET {path} HTTP/1.1\" 200 1 \"-\" \"Googlebot/2.1\""
        );
        let event = access_log::event(line.as_bytes()).unwrap();
        let prepared = engine.prepare(&engine.plan().pipelines[0], event, NOW);
        let decision = pollster::block_on(engine.decide(vec![prepared])).remove(0);
        decision.verdict.reasons.into_iter().map(|reason| reason.rule).collect()
    }
}

#[test]
fn a_file_replaces_the_list_of_its_name_alone() {
    let own = Site::new(BASE, "# Ours.\nsegment\tOld-Admin\n");
    assert_eq!(own.fired("/x/old-admin/"), ["PROBE", "ROBOT"]);
    assert_eq!(own.fired("/.env"), ["ROBOT"]);
    let other = Site::new(BASE, "segment\tadmin\n");
    assert_ne!(own.plan().unwrap().pipelines[0].version, other.plan().unwrap().pipelines[0].version);
    let built_in = Site::new(&BASE.replace("probes = \"probes.txt\"", ""), "");
    assert_eq!(built_in.fired("/.env"), ["PROBE", "ROBOT"]);
    assert_eq!(built_in.fired("/x/old-admin/"), ["ROBOT"]);
}

#[test]
fn a_wrong_file_is_said_with_its_line() {
    let check = |config: &str, probes: &str, wanted: &[&str]| {
        let told = Site::new(config, probes).plan().unwrap_err();
        for wanted in wanted {
            assert!(told.contains(wanted), "{wanted}: {told}");
        }
    };
    check(BASE, "word\ta\nwords\tb\n", &["probes.txt:2", "`words` is no way of matching"]);
    check(&BASE.replace("probes.txt", "none.txt"), "", &["cannot read", "none.txt"]);
    let other =
        BASE.replace("access-log", "json").replace("http.probe", "true").replace("http.agent_bot", "true");
    check(&other, "", &["patterns are looked for in access logs only"]);
}

#[test]
fn a_posted_text_names_no_file() {
    let site = Site::new(BASE, "");
    let engine = Engine::open(&site.directory, site.plan().unwrap()).unwrap();
    let posted = "[patterns]\nrobots = \"/etc/passwd\"\n";
    match engine.change(Proposal::Post { pipeline: "site", text: posted }, NOW, false) {
        Err(ReloadError::Problems(problems)) => {
            let told = problems.to_string();
            assert!(told.contains("cannot name a file"), "{told}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_documented_list_is_one() {
    let page = include_str!("../../../../docs/guides/patterns.md");
    let list = page.split("```").map(|block| block.trim_start_matches("text\n")).nth(3).unwrap();
    let list = content::web::pattern::PatternList::parse(list.trim_start()).unwrap();
    assert!(list.matches("/shop/old-admin/") && list.matches("/backup-2024.zip"));
    assert!(!list.matches("/old-admins") && !list.matches("/backups"));
}
