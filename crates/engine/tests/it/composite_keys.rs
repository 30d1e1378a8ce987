//! Keys of several fields, from the configuration to the verdict, the ban list, look-ups and erasure.

use std::collections::HashSet;
use std::sync::Arc;

use engine::{Directory, Engine, Ranking};
use event::{Event, Span, Value};
use plan::{Config, Overrides, Plan};

use crate::pipeline::{NOW, decide_at};

const CONFIG: &str = r#"
name = "shop"

[[field]]
name = "user"
type = "string"

[[field]]
name = "device"
type = "string"

[[field]]
name = "ip"
type = "ip"

[[field]]
name = "rcpts"
type = "list"

[[kind]]
name = "user"
of = "user"

[[kind]]
name = "device_of_user"
of = ["user", "device"]
normalise = ["address", "text"]

[[kind]]
name = "pair"
of = ["user", "rcpts"]

[[kind]]
name = "net16"
of = "ip"
prefix = { ipv4 = 16, ipv6 = 48 }

[[kind]]
name = "net32"
of = "ip"
prefix = { ipv4 = 32, ipv6 = 128 }

[[statistic]]
name = "counts"
keys = ["user", "device_of_user", "pair", "net16", "net32"]
counts = ["seen"]
windows = ["10m x 144"]
readings = ["1h"]

[[distinct]]
name = "ways"
per = "user"
of = ["device", "ip"]
window = "1d"

[[last]]
name = "home"
per = "device_of_user"
of = "user"
keep = "30d"

[[label]]
name = "thief"
of = "device_of_user"
keep = "1d"
decision = "ban"

[[label]]
name = "scanners"
of = "net16"
keep = "1d"
decision = "ban"

[[rule]]
name = "SCANNERS"
when = "net16.marked('scanners')"
score = 0

[[rule]]
name = "FIRST"
when = "device_of_user.seen('1h') == 0"
score = 0

[[rule]]
name = "WAYS"
when = "distinct('ways', '1d') >= 2"
score = 0

[[rule]]
name = "STOLEN"
when = "device == 'stolen'"
score = 0
effects = ["mark device_of_user as thief for 1h"]

[[rule]]
name = "THIEF"
when = "device_of_user.marked('thief')"
score = 0
"#;

fn plan() -> Plan {
    let config = Config::from_text("shop.toml", CONFIG, &Overrides::default());
    Plan::compile(&config).unwrap_or_else(|problems| panic!("{problems}"))
}

fn event(user: &str, device: &str, ip: &str) -> Event {
    let mut event = Event::default();
    event.push("user", user);
    event.push("device", device);
    event.push("ip", Value::from(ip));
    event
}

fn rules(engine: &Engine, event: Event) -> Vec<String> {
    let decision = decide_at(engine, event, NOW);
    decision.verdict.reasons.into_iter().map(|reason| reason.rule).collect()
}

fn seen(engine: &Engine, kind: &str, value: &str) -> u64 {
    let pipeline = &engine.plan().pipelines[0];
    pollster::block_on(engine.timeline(pipeline, kind, value, NOW)).unwrap().windows[0].1[0]
}

const ANN: &str = r#"["ann@example.com","phone 0"]"#;

#[test]
fn each_combination_is_a_key() {
    let engine = Engine::ephemeral(plan()).unwrap();
    let rules = |event| rules(&engine, event);
    assert_eq!(rules(event("Ann@example.com", "Phone 7", "192.0.2.1")), ["FIRST"]);
    assert!(rules(event("ann@example.com", "phone  9", "192.0.2.1")).is_empty(), "each field is normalised");
    assert_eq!(rules(event("bob@example.com", "phone 7", "192.0.2.1")), ["FIRST"]);
    assert!(rules(event("ann@example.com", "phone 7", "192.0.2.1")).is_empty());
    // A device by now, and another way of writing it: what is counted is not normalised.
    assert_eq!(rules(event("ann@example.com", "phone 7", "192.0.2.1")), ["WAYS"]);
    assert_eq!(seen(&engine, "device_of_user", r#"["ANN@example.com","Phone 1"]"#), 4);
    assert_eq!(seen(&engine, "device_of_user", ANN), 4);
    assert_eq!(seen(&engine, "user", "Ann@example.com"), 1);

    let mut mail = event("ann", "x", "192.0.2.1");
    mail.push("rcpts", Value::List(["a", "b", "a\",\"c"].map(Into::into).into()));
    let decision = decide_at(&engine, mail, NOW);
    for pair in [r#"["ann","a"]"#, r#"["ann","b"]"#, r#"["ann","a\",\"c"]"#] {
        assert_eq!(seen(&engine, "pair", pair), 1, "{pair}");
    }
    assert_eq!(seen(&engine, "pair", r#"["a","ann"]"#), 0, "fields have an order");
    let told = engine.explain(decision.id);
    assert!(told.is_err(), "nothing is logged here");
    let pipeline = &engine.plan().pipelines[0];
    for value in ["ann", r#"["ann"]"#, r#"["ann","a","b"]"#] {
        let error =
            pollster::block_on(engine.timeline(pipeline, "pair", value, NOW)).unwrap_err().to_string();
        assert!(error.contains(r#"write the values of its 2 fields in order, as ["...","..."]"#), "{error}");
    }
}

const NEW: &str = r#"
[[kind]]
name = "bare"
of = "ip"

[[distinct]]
name = "about"
per = "bare"
of = "device"
window = "1d"
method = "approximate"

[[distinct]]
name = "devices"
per = "user"
of = "device"
window = "30d x 3"

[[rule]]
name = "NEW_USER"
when = "is_new('user')"
score = 0

[[rule]]
name = "NEW_DEVICE"
when = "!is_new('user') && is_new('devices')"
score = 0

[[rule]]
name = "NEW_PAIR"
when = "is_new('device_of_user')"
score = 0
"#;

#[test]
fn what_is_new_is_known_of_keys_and_of_values() {
    let config = Config::from_text("shop.toml", &format!("{CONFIG}{NEW}"), &Overrides::default());
    let engine = Engine::ephemeral(Plan::compile(&config).unwrap()).unwrap();
    let pipeline = Arc::clone(&engine.plan().pipelines[0]);
    let is_new = |rule: &String| rule.starts_with("NEW");
    let rules = |event| rules(&engine, event).into_iter().filter(is_new).collect::<Vec<_>>();
    let peeked = |event: Event| {
        let told = pollster::block_on(engine.peek(engine.prepare(&pipeline, event, NOW))).unwrap();
        ["user", "devices", "device_of_user"].map(|name| {
            let name = format!("is_new('{name}')");
            told.facts.iter().any(|(fact, value)| *fact == name && *value == Value::Bool(true))
        })
    };
    let ann = || event("ann@example.com", "phone", "192.0.2.1");
    for _ in 0..2 {
        assert_eq!(peeked(ann()), [true, true, true], "a look changes nothing");
    }
    assert_eq!(rules(ann()), ["NEW_PAIR", "NEW_USER"]);
    assert_eq!(peeked(ann()), [false, false, false]);
    assert_eq!(rules(ann()), [""; 0]);
    let tablet = || event("ann@example.com", "tablet", "192.0.2.1");
    assert_eq!(peeked(tablet()), [false, true, true]);
    assert_eq!(rules(tablet()), ["NEW_DEVICE", "NEW_PAIR"]);
    assert_eq!(rules(event("bob@example.com", "phone", "192.0.2.1")), ["NEW_PAIR", "NEW_USER"]);

    let refused = |new: &str, message: &str| {
        let text = format!("{CONFIG}{NEW}").replace("is_new('devices')", new);
        let config = Config::from_text("shop.toml", &text, &Overrides::default());
        let found = Plan::compile(&config).unwrap_err().to_string();
        assert!(found.contains(message), "{found}");
    };
    refused("is_new('device')", "unknown kind or distinct statistic `device`");
    refused("is_new('bare')", "nothing is counted for the kind `bare`");
    refused("is_new('about')", "`about` is counted approximately, and does not know its values");
}

#[test]
fn pieces_are_told_banned_and_erased() {
    let parent = tempfile::tempdir().unwrap();
    let directory = Directory::create(&parent.path().join("data"), &[]).unwrap();
    let engine = Engine::open(&directory, plan()).unwrap();
    let stolen = decide_at(&engine, event("ann@example.com", "stolen", "192.0.2.1"), NOW).id;
    let other = decide_at(&engine, event("ann@example.com", "phone 7", "192.0.2.1"), NOW).id;
    let key = r#"["ann@example.com","stolen"]"#;
    let banned = || engine.ban_list().of_value(key, NOW);
    assert_eq!(banned()[0].source.label, "thief");
    assert_eq!(rules(&engine, event("ann@example.com", "stolen", "192.0.2.1")), ["STOLEN", "THIEF", "WAYS"]);
    assert!(rules(&engine, event("bob@example.com", "stolen", "192.0.2.1")).contains(&"FIRST".to_owned()));
    let told = engine.explain(stolen).unwrap();
    let pieces: Vec<_> = told.keys.iter().map(|key| (&*key.kind, key.piece.as_deref())).collect();
    assert!(pieces.contains(&("device_of_user", Some(key))), "{pieces:?}");
    assert!(pieces.contains(&("home", Some(key))), "{pieces:?}");

    let pipeline = &engine.plan().pipelines[0];
    let asked = Ranking { kind: "device_of_user", counter: "seen", window: Span::hours(1), limit: 10 };
    let hot = pollster::block_on(engine.hottest(pipeline, asked, NOW, &|| false)).unwrap();
    assert_eq!((hot[0].piece.as_deref(), hot[0].count), (Some(key), 2));

    assert_eq!(pollster::block_on(engine.lift(key, NOW + Span::seconds(1))).unwrap(), 1);
    assert!(banned().is_empty());
    let marked = engine.mark(pipeline, "device_of_user", "thief", ANN, (Span::hours(1), None), NOW);
    assert_eq!(pollster::block_on(marked).unwrap().1, ANN);
    assert!(rules(&engine, event("ann@example.com", "Phone 1", "192.0.2.1")).contains(&"THIEF".to_owned()));

    let kind = pipeline.kinds.iter().find(|kind| kind.name == "device_of_user").unwrap();
    let shingles: HashSet<_> = kind.shingles(ANN, &directory.secret().unwrap()).into_iter().collect();
    assert_eq!(shingles.len(), 1);
    engine.close().unwrap();
    drop(engine);
    let erased = directory.erase(Some(&plan()), &shingles, false, &|| false).unwrap();
    assert_eq!((erased.statistics.keys, erased.records.decisions), (3, 2), "counters, last value, label");
    let engine = Engine::open(&directory, plan()).unwrap();
    assert!(engine.explain(other).is_err());
    assert!(engine.explain(stolen).is_ok());
    assert_eq!((seen(&engine, "device_of_user", ANN), seen(&engine, "device_of_user", key)), (0, 2));
    assert!(engine.ban_list().of_value(ANN, NOW).is_empty());
}

#[test]
fn an_address_counts_in_networks_of_several_sizes() {
    let engine = Engine::ephemeral(plan()).unwrap();
    for ip in ["198.51.100.7", "198.51.7.7", "198.51.7.7", "2001:db8:1:2::3", "2001:db8:1:9::3"] {
        decide_at(&engine, event("ann", "x", ip), NOW);
    }
    for (kind, value, expected) in [
        ("net16", "198.51.9.9", 3),
        ("net16", "198.51.100.0/24", 3),
        ("net16", "198.51.0.0/16", 3),
        ("net16", "2001:db8:1::9", 2),
        ("net32", "198.51.7.7", 2),
        ("net32", "2001:db8:1:2::3/128", 1),
    ] {
        assert_eq!(seen(&engine, kind, value), expected, "{kind} {value}");
    }
    let pipeline = &engine.plan().pipelines[0];
    let wide = pollster::block_on(engine.timeline(pipeline, "net16", "198.0.0.0/8", NOW));
    assert!(wide.unwrap_err().to_string().contains("gives no piece of the kind `net16`"));
    let marked = engine.mark(pipeline, "net16", "scanners", "203.0.113.7", (Span::hours(1), None), NOW);
    assert_eq!(pollster::block_on(marked).unwrap().1, "203.0.0.0/16");
    assert_eq!(rules(&engine, event("eve", "x", "203.0.7.7")), ["FIRST", "SCANNERS"]);
    assert!(!engine.ban_list().of_address("203.0.1.1".parse().unwrap(), NOW).is_empty());
}

#[test]
fn what_cannot_be_a_key_is_refused() {
    let check = |old: &str, new: &str, message: &str| {
        assert!(CONFIG.contains(old), "{old}");
        let config = Config::from_text("shop.toml", &CONFIG.replacen(old, new, 1), &Overrides::default());
        let found = Plan::compile(&config).unwrap_err().to_string();
        assert!(found.contains(message), "{found}");
    };
    check("of = [\"user\", \"device\"]", "of = []", "`of` is a list");
    check("of = [\"user\", \"device\"]", "of = []", "expected at least one");
    check("of = [\"user\", \"device\"]", "of = [\"user\", 7]", "`of` cannot be 7");
    check("of = [\"user\", \"device\"]", "of = [\"user\", \"devise\"]", "there is no fact `devise`");
    check("of = [\"user\", \"device\"]", "of = [\"user\", \"user\"]", "`of` has `user` twice");
    check("\"address\", \"text\"", "\"address\"", "`normalise` has 1 words, and `of` 2 fields");
    check("\"address\", \"text\"", "\"address\", \"tex\"", "`normalise` cannot be \"tex\"");
    check("of = [\"device\", \"ip\"]", "of = [\"device\", \"device\"]", "`of` has `device` twice");
    let prefix = "prefix = { ipv4 = 16, ipv6 = 48 }";
    check("of = \"ip\"", "of = \"user\"", "`prefix` has no address to cut");
    check(prefix, &format!("{prefix}\nnormalise = \"text\""), "`normalise` does nothing beside `prefix`");
    check(prefix, "prefix = { ipv4 = 33, ipv6 = 48 }", "`ipv4` cannot be 33");
    check(prefix, "prefix = { ipv4 = 16 }", "`prefix` has no `ipv6`");
    let nine: Vec<String> = (0..9).map(|i| format!("\"f{i}\"")).collect();
    let many = format!("of = [{}]", nine.join(", "));
    check("of = [\"user\", \"device\"]", &many, "a key has at most 8");
}

#[test]
fn the_examples_of_the_guide_are_taken() {
    let guide = include_str!("../../../../docs/guides/keys.md");
    let blocks = guide.split("\n```toml\n").skip(1).filter_map(|rest| rest.split("\n```").next());
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("asn.mmdb"), crate::network_databases::city()).unwrap();
    let path = folder.path().join("guide.toml");
    let mut count = 0;
    for block in blocks {
        std::fs::write(&path, format!("name = \"guide\"\n\n{block}")).unwrap();
        let config = Config::load(&path, &Overrides::default());
        Plan::compile(&config).unwrap_or_else(|problems| panic!("{problems}\n{block}"));
        count += 1;
    }
    assert!(count >= 3);
}
