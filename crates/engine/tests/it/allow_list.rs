//! The allow list stands above every ban: of rules, by hand, and of before.

use std::sync::Arc;

use engine::limit::Take;
use engine::{BanError, Directory, Engine, ON_ALLOW_LIST, Proposal};
use event::{Span, Time};
use plan::{Config, Overrides, Plan};

use crate::pipeline::decide_at;

const NOW: Time = Time::from_seconds(1_779_012_000);

const CONFIG: &str = r#"
name = "site"
input = "json"

[[field]]
name = "client.ip"
type = "ip"

[[field]]
name = "user"
type = "string"

[[kind]]
name = "ip"
of = "client.ip"

[[kind]]
name = "net"
of = "client.ip_net"

[[kind]]
name = "user"
of = "user"

[[label]]
name = "abuser"
of = "ip"
keep = "1d"
decision = "ban"

[[label]]
name = "noted"
of = "ip"
keep = "1d"

[[label]]
name = "shady"
of = "net"
keep = "1d"
decision = "captcha"

[[label]]
name = "thief"
of = "user"
keep = "1d"
decision = "ban"

[[rule]]
name = "ABUSES"
when = "true"
score = 1
effects = ["mark ip as abuser for 1h", "mark ip as noted for 1h", "mark net as shady for 1h", "mark user as thief for 1h"]

[[rule]]
name = "BANNED"
when = "ip.marked('abuser')"
score = 1

[[rule]]
name = "NOTED"
when = "ip.marked('noted')"
score = 1

[[rule]]
name = "SHADY"
when = "net.marked('shady')"
score = 1

[[rule]]
name = "THIEF"
when = "user.marked('thief')"
score = 1
"#;

const ALLOW: &str = "[allow]\nnetworks = [\"198.51.100.7\", \"2001:db8:7::/48\"]\naccounts = [\"Ann\"]\n";

fn plan(allow: &str) -> Plan {
    let config = Config::from_text("site.toml", &format!("{CONFIG}{allow}"), &Overrides::default());
    Plan::compile(&config).unwrap()
}

/// Decides twice; returns the rules that fired the second time, and what was said of the allow list.
fn decided(engine: &Engine, user: &str, ip: &str) -> (Vec<String>, Vec<String>) {
    let event = || {
        let pipeline = Arc::clone(&engine.plan().pipelines[0]);
        let text = format!(r#"{{"client.ip": "{ip}", "user": "{user}"}}"#);
        engine.read_json(&pipeline, text.as_bytes(), NOW).unwrap().0
    };
    decide_at(engine, event(), NOW);
    let reasons = decide_at(engine, event(), NOW).verdict.reasons;
    let (said, fired): (Vec<_>, Vec<_>) = reasons.into_iter().partition(|it| it.rule == ON_ALLOW_LIST);
    let mut fired: Vec<String> =
        fired.into_iter().map(|it| it.rule).filter(|rule| rule != "ABUSES").collect();
    fired.sort();
    (fired, said.into_iter().map(|it| it.detail).collect())
}

fn banned(engine: &Engine, value: &str) -> bool {
    !engine.ban_list().of_value(value, NOW).is_empty()
}

#[test]
fn rules_ban_nobody_on_the_list() {
    let check = |allow: &str, user: &str, ip: &str, expected: &[&str], said: &[&str]| {
        let engine = Engine::ephemeral(plan(allow)).unwrap();
        let (fired, told) = decided(&engine, user, ip);
        assert_eq!(fired, expected, "{user} {ip}");
        assert_eq!(told.len(), said.len(), "{told:?}");
        for (told, said) in told.iter().zip(said) {
            assert!(told.contains(said), "{told}");
        }
        assert_eq!(banned(&engine, ip), expected.contains(&"BANNED"), "{ip}");
        assert_eq!(banned(&engine, user), expected.contains(&"THIEF"), "{user}");
    };
    check(ALLOW, "bob", "192.0.2.7", &["BANNED", "NOTED", "SHADY", "THIEF"], &[]);
    // A label without a decision is for rules alone, and bans nobody.
    let own = ["198.51.100.7 is on the allow list ([allow] networks)", "198.51.100.0/24 is on"];
    check(ALLOW, "bob", "198.51.100.7", &["NOTED", "THIEF"], &own);
    // An address beside an allowed one is banned, but not its network.
    let network = ["198.51.100.0/24 is on the allow list ([allow] networks)"];
    check(ALLOW, "bob", "198.51.100.8", &["BANNED", "NOTED", "THIEF"], &network);
    check(
        ALLOW,
        "ann",
        "192.0.2.7",
        &["BANNED", "NOTED", "SHADY"],
        &["ann is on the allow list ([allow] acc"],
    );
    check(
        ALLOW,
        "bob",
        "2001:db8:7:1::9",
        &["NOTED", "THIEF"],
        &["2001:db8:7:1::9 is", "2001:db8:7:1::/64 is"],
    );
    check("", "bob", "192.168.7.7", &["NOTED", "THIEF"], &["([allow] private)", "192.168.7.0/24"]);
    let off = "[allow]\nprivate = false\n";
    check(off, "bob", "192.168.7.7", &["BANNED", "NOTED", "SHADY", "THIEF"], &[]);
}

#[test]
fn a_posted_ban_says_why_it_is_refused() {
    let engine = Engine::ephemeral(plan(ALLOW)).unwrap();
    let post = |kind: &str, label: &str, value: &str| {
        let pipeline = &engine.plan().pipelines[0];
        pollster::block_on(engine.mark(pipeline, kind, label, value, (Span::hours(1), None), NOW))
            .map(|(_, value)| value)
    };
    let check = |kind: &str, label: &str, value: &str, expected: Result<&str, &[&str]>| match (
        post(kind, label, value),
        expected,
    ) {
        (Ok(value), Ok(expected)) => assert_eq!(value, expected),
        (Err(BanError::Allowed { parts, .. }), Err(expected)) => assert_eq!(parts, expected, "{value}"),
        other => panic!("{value}: {other:?}"),
    };
    check("ip", "abuser", "198.51.100.7", Err(&[]));
    check("ip", "abuser", "::ffff:198.51.100.7", Err(&[]));
    check("ip", "abuser", "198.51.100.8", Ok("198.51.100.8"));
    let parts = ["198.51.100.4/31", "198.51.100.6"];
    check("ip", "abuser", "198.51.100.4/30", Err(&parts));
    check("ip", "abuser", "198.51.100.4/31", Ok("198.51.100.4/31"));
    check("ip", "abuser", "8.0.0.0/5", Err(&["8.0.0.0/7", "11.0.0.0/8", "12.0.0.0/6"]));
    check("net", "shady", "198.51.100.0/24", Err(&parts_of_net()));
    check("user", "thief", "ANN", Err(&[]));
    check("user", "thief", "bob", Ok("bob"));
}

fn parts_of_net() -> [&'static str; 8] {
    [
        "198.51.100.0/30",
        "198.51.100.4/31",
        "198.51.100.6",
        "198.51.100.8/29",
        "198.51.100.16/28",
        "198.51.100.32/27",
        "198.51.100.64/26",
        "198.51.100.128/25",
    ]
}

/// A ban of before the list had its value ends at once, for rules and for who polls, also after a restart with another list;
/// and what leaves the list can be banned again.
#[test]
fn the_list_is_reloaded() {
    let parent = tempfile::tempdir().unwrap();
    let directory = Directory::create(&parent.path().join("data"), &[]).unwrap();
    let path = parent.path().join("site.toml");
    let (own, file) = (parent.path().join("own.txt"), "[allow]\nfiles = [\"own.txt\"]\n");
    let read = || Plan::compile(&Config::load(&path, &Overrides::default())).unwrap();
    std::fs::write(&own, "# nobody yet\n").unwrap();
    std::fs::write(&path, format!("{CONFIG}{file}")).unwrap();
    let engine = Engine::open(&directory, read()).unwrap();
    let all = ["BANNED", "NOTED", "SHADY", "THIEF"];
    assert_eq!(decided(&engine, "bob", "192.0.2.7").0, all);
    let before = engine.ban_list().held(NOW);
    std::fs::write(&own, "192.0.2.7 # the office\nbob\n").unwrap();
    engine.change(Proposal::Files, NOW, false).unwrap();
    let changes = engine.ban_list().since(before.next, NOW);
    let mut gone: Vec<_> = changes.deleted.iter().map(|ban| ban.value.to_string()).collect();
    gone.sort();
    assert_eq!(gone, ["192.0.2.0/24", "192.0.2.7", "bob"]);
    assert_eq!(decided(&engine, "bob", "192.0.2.7").0, ["NOTED"]);
    std::fs::write(&own, "").unwrap();
    engine.change(Proposal::Files, NOW, false).unwrap();
    assert_eq!(decided(&engine, "bob", "192.0.2.7").0, all);
    engine.close().unwrap();
    drop(engine);
    std::fs::write(&own, "192.0.2.7\n").unwrap();
    let engine = Engine::open(&directory, read()).unwrap();
    assert!(!banned(&engine, "192.0.2.7") && banned(&engine, "bob"));
    assert_eq!(decided(&engine, "bob", "192.0.2.7").0, ["NOTED", "THIEF"]);
}

#[test]
fn addresses_of_names_are_allowed() {
    let engine = Engine::ephemeral(plan("[allow]\nnames = [\"monitor.example.com\"]\n")).unwrap();
    assert!(decided(&engine, "bob", "192.0.2.7").0.contains(&"BANNED".to_owned()));
    let found = |ip: &str| vec![(Arc::from("monitor.example.com"), vec![ip.parse().unwrap()])];
    engine.allow_addresses(found("192.0.2.7"));
    let (fired, said) = decided(&engine, "bob", "192.0.2.7");
    assert!(
        !fired.contains(&"BANNED".to_owned()) && said[0].contains("names: monitor.example.com"),
        "{said:?}"
    );
    engine.allow_addresses(found("192.0.2.8"));
    assert!(decided(&engine, "bob", "192.0.2.7").0.contains(&"BANNED".to_owned()));
}

#[test]
fn what_is_no_entry_is_refused() {
    let check = |allow: &str, expected: &str| {
        let config =
            Config::from_text("site.toml", &format!("{CONFIG}[allow]\n{allow}\n"), &Overrides::default());
        let problems = Plan::compile(&config).unwrap_err().to_string();
        assert!(problems.contains(expected), "{problems}");
    };
    check("networks = [\"0.0.0.0/0\"]", "`0.0.0.0/0` is everybody");
    check("networks = [\"office\"]", "office");
    check("names = [\"a b\"]", "`a b` is no name of a host");
    check("files = [\"missing.txt\"]", "missing.txt");
}

/// A limit refuses whoever is over it, and bans nobody on the list.
#[test]
fn limits_ban_nobody_on_the_list() {
    let limits = "[[limit]]\nname = \"logins\"\nkey = [\"user\"]\ncount = 2\nper = \"1m\"\n\
        ban = { after = 1, within = \"10m\", for = \"1h\" }\n";
    let engine = Engine::ephemeral(plan(&format!("{limits}{ALLOW}"))).unwrap();
    let limit = Arc::clone(engine.plan().limits.iter().find(|limit| &*limit.name == "logins").unwrap());
    let take = |user: &str, at: Time| {
        let key = engine.limit_key_of(&limit, |_| Some(user)).unwrap();
        let taken = pollster::block_on(engine.take(&[Take { limit: &limit, key, cost: 1 }], at)).remove(0);
        (taken.allowed, taken.banned_until.is_some())
    };
    for (user, is_banned) in [("ann", false), ("bob", true)] {
        assert_eq!([take(user, NOW), take(user, NOW)], [(true, false); 2], "{user}");
        assert_eq!(take(user, NOW), (false, is_banned), "{user}");
        assert_eq!(take(user, NOW + Span::minutes(5)), (!is_banned, is_banned), "{user}");
    }
}
