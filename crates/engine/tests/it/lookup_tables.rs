//! Tables in which values are looked up, from their files to the verdict.

use std::fs;
use std::path::Path;

use engine::{Decision, Directory, Engine, Proposal, ReloadError};
use event::{Event, Span, Value};
use plan::{Config, Overrides, Plan, preset};

use crate::pipeline::{NOW, decide_at};

const CONFIG: &str = r#"
name = "cards"

[[field]]
name = "ip"
type = "ip"

[[field]]
name = "email"
type = "string"

[[field]]
name = "bin"
type = "integer"

[[field]]
name = "bank"
type = "string"
value = "lookup('banks', bin)"

[[field]]
name = "owner"
type = "string"
value = "lookup('owners', ip).or('nobody')"

[[table]]
name = "banks"
type = "string"
file = "banks.csv"
separator = "comma"

[[table]]
name = "owners"
type = "ip"
file = "owners.tsv"

[[table]]
name = "providers"
type = "domain"
file = "providers.tsv"

[[kind]]
name = "bank"
of = "bank"
when = "lookup('providers', domain(email)).or('') != 'own'"

[[statistic]]
name = "counts"
keys = ["bank"]
counts = ["seen"]
windows = ["1h x 24"]

[[rule]]
name = "BANK"
when = "bank.seen('1h') >= 1 && owner == 'hosting'"
score = 1

[[rule]]
name = "FREE"
when = "lookup('providers', domain(email)) == 'free'"
score = 1

[[rule]]
name = "KNOWN"
when = "ip in owners"
score = 1
"#;

fn write(folder: &Path, name: &str, text: &str) {
    fs::write(folder.join(name), text).unwrap();
}

fn folder() -> (tempfile::TempDir, Directory) {
    let parent = tempfile::tempdir().unwrap();
    let directory = Directory::create(&parent.path().join("data"), &[&preset::ALL[0]]).unwrap();
    fs::write(directory.config_path(), CONFIG).unwrap();
    write(directory.path(), "banks.csv", "# number,bank\n411111,First, of Example\n5,Second\n");
    write(directory.path(), "owners.tsv", "192.0.2.0/24\thosting\n192.0.2.7\thome\n2001:db8::/32\thosting\n");
    write(directory.path(), "providers.tsv", "mail.example\tfree\nexample.org\town\n");
    (parent, directory)
}

fn plan(directory: &Directory) -> Result<Plan, String> {
    Plan::compile(&Config::load(&directory.config_path(), &Overrides::default()))
        .map_err(|problems| problems.to_string())
}

fn payment(ip: &str, email: &str, bin: i64) -> Event {
    let mut event = Event::default();
    event.push("ip", ip);
    event.push("email", email);
    event.push("bin", bin);
    event
}

fn rules(decision: &Decision) -> Vec<&str> {
    let mut rules: Vec<&str> = decision.verdict.reasons.iter().map(|reason| reason.rule.as_str()).collect();
    rules.sort_unstable();
    rules
}

#[test]
fn values_are_looked_up_in_rules_conditions_and_derived_fields() {
    let (_parent, directory) = folder();
    let engine = Engine::open(&directory, plan(&directory).unwrap()).unwrap();
    let decide = |ip: &str, email: &str, bin: i64, minute: i64| {
        decide_at(&engine, payment(ip, email, bin), NOW + Span::minutes(minute))
    };
    assert_eq!(rules(&decide("192.0.2.9", "a@x.mail.example", 411111, 0)), ["FREE", "KNOWN"]);
    assert_eq!(rules(&decide("192.0.2.9", "a@example.com", 411111, 1)), ["BANK", "KNOWN"]);
    assert_eq!(rules(&decide("192.0.2.9", "a@example.org", 411111, 1)), ["KNOWN"], "the kind's condition");
    assert_eq!(
        rules(&decide("192.0.2.7", "a@example.com", 411111, 2)),
        ["KNOWN"],
        "the longest network counts"
    );
    assert!(rules(&decide("203.0.113.1", "a@example.com", 4, 3)).is_empty());
    let told = engine.explain(decide("192.0.2.9", "a@example.com", 411111, 4).id).unwrap();
    let fact = |name: &str| told.facts.iter().find(|(own, _)| own == name).map(|(_, value)| value.clone());
    assert_eq!(fact("bank"), Some(Value::from("First, of Example")));
    assert_eq!(fact("owner"), Some(Value::from("hosting")));
}

#[test]
fn a_file_that_is_replaced_is_read_again_and_a_damaged_one_is_refused() {
    let (_parent, directory) = folder();
    let engine = Engine::open(&directory, plan(&directory).unwrap()).unwrap();
    let known = || rules(&decide_at(&engine, payment("203.0.113.1", "a@b.example", 4), NOW)).len();
    let version = || engine.plan().pipelines[0].version.clone();
    let first = version();
    assert_eq!(known(), 0);
    write(directory.path(), "owners.tsv", "203.0.113.0/24\thosting\n");
    engine.change(Proposal::Files, NOW, false).unwrap();
    assert_eq!(known(), 1);
    let second = version();
    assert_ne!(second, first);

    write(directory.path(), "owners.tsv", "203.0.113.0/24\thosting\n192.0.2.0/33\tx\n198.51.100.1 y\n");
    let refused = match engine.change(Proposal::Files, NOW, false) {
        Err(ReloadError::Problems(problems)) => problems.to_string(),
        other => panic!("{other:?}"),
    };
    assert!(
        refused.contains("owners.tsv:2:1: error: table `owners`: `192.0.2.0/33` is no address"),
        "{refused}"
    );
    assert!(
        refused.contains("owners.tsv:3:1: error: table `owners`: a line has a key, a tab and a value"),
        "{refused}"
    );
    assert_eq!((known(), version()), (1, second));

    engine.change(Proposal::Back { pipeline: "cards", version: &first }, NOW, false).unwrap();
    assert_eq!(known(), 0, "a version has its tables");
    assert_eq!(version(), first);
}

#[test]
fn what_is_not_replaced_is_not_made_again() {
    let (_parent, directory) = folder();
    let first = plan(&directory).unwrap();
    write(directory.path(), "owners.tsv", "203.0.113.0/24\thosting\n");
    let config = Config::load(&directory.config_path(), &Overrides::default());
    let second = Plan::compile_beside(&config, &first.numbers, Some(&first), &|| false).unwrap();
    let same: Vec<bool> = (first.pipelines[0].tables.iter().zip(&second.pipelines[0].tables))
        .map(|(one, other)| std::sync::Arc::ptr_eq(&one.table, &other.table))
        .collect();
    assert_eq!(same, [true, false, true]);
}

#[test]
fn what_is_wrong_with_a_table_is_told() {
    let check = |old: &str, new: &str, message: &str| {
        let (_parent, directory) = folder();
        assert!(CONFIG.contains(old), "{old}");
        fs::write(directory.config_path(), CONFIG.replace(old, new)).unwrap();
        let found = plan(&directory).unwrap_err();
        assert!(found.contains(message), "{found}");
    };
    check("lookup('owners', ip)", "lookup('owner', ip)", "there is no table `owner`");
    check(
        "lookup('owners', ip)",
        "lookup('owners', email)",
        "the keys of the table `owners` are addresses and networks",
    );
    check("file = \"owners.tsv\"", "file = \"nowhere.tsv\"", "cannot read");
    check("name = \"owners\"", "name = \"bank\"", "`bank` is a");
    check("separator = \"comma\"", "separator = \"pipe\"", "separator");
    check("type = \"domain\"", "type = \"integer\"", "type");
}
