//! Content in the journal: as it is, encrypted by a key of its own, or not at all.

use std::path::Path;

use engine::{Directory, Engine, Explanation};
use event::{Event, Span, Value};
use plan::{Config, Overrides, Plan};

use crate::pipeline::{NOW, decide_at};

const CONFIG: &str = r#"
name = "comments"

[[field]]
name = "author"
type = "string"

[[field]]
name = "body"
type = "string"
content = "text"

[[field]]
name = "ip"
type = "ip"

[[field]]
name = "secret"
type = "string"
journal = false

[[field]]
name = "amount"
type = "integer"

[[kind]]
name = "author"
of = "author"


[[rule]]
name = "CHEAP"
when = "body.contains('cheap') && amount > 1"
score = 5

[[rule]]
name = "MUCH"
when = "amount > 1"
score = 1
"#;

/// Words that only the events have.
const WORDS: [&str; 4] = ["ann.example", "cheapwatches", "203.0.113.77", "neverkept"];

fn plan(content: &str) -> Plan {
    let text = format!("journal_content = \"{content}\"\n{CONFIG}");
    let config = Config::from_text("comments.toml", &text, &Overrides::default());
    Plan::compile(&config).unwrap_or_else(|problems| panic!("{problems}"))
}

fn comment() -> Event {
    let mut event = Event::default();
    event.push("author", WORDS[0]);
    event.push("body", format!("buy cheap {} now", WORDS[1]));
    event.push("ip", Value::Ip(WORDS[2].parse().unwrap()));
    event.push("secret", WORDS[3]);
    event.push("amount", 7i64);
    event
}

fn fact<'e>(explained: &'e Explanation, name: &str) -> Option<&'e Value> {
    explained.facts.iter().find(|(own, _)| own == name).map(|(_, value)| value)
}

/// Returns the words that a file below a directory has, of those that only the events have.
fn words_in(directory: &Path) -> Vec<&'static str> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let bytes = std::fs::read(entry.unwrap().path()).unwrap();
        // Addresses are binary.
        let needles = WORDS.map(|word| match word.parse::<std::net::Ipv4Addr>() {
            Ok(address) => address.octets().to_vec(),
            Err(_) => word.as_bytes().to_vec(),
        });
        for (word, needle) in WORDS.iter().zip(needles) {
            if bytes.windows(needle.len()).any(|window| window == needle) {
                found.push(*word);
            }
        }
    }
    found.sort_unstable();
    found.dedup();
    found
}

/// Decides on a comment and says what of it the journal has, what is explained, and what reasons say.
fn logged(content: &str) -> (Vec<&'static str>, Explanation) {
    let parent = tempfile::tempdir().unwrap();
    let directory = Directory::create(&parent.path().join("data"), &[]).unwrap();
    let engine = Engine::open(&directory, plan(content)).unwrap();
    let decision = decide_at(&engine, comment(), NOW);
    assert_eq!(decision.verdict.score, 6.0, "it is judged by all that there is");
    assert!(decision.verdict.reasons[0].detail.contains("cheap"), "the caller is told");
    engine.close().unwrap();
    drop(engine);
    let engine = Engine::open(&directory, plan(content)).unwrap();
    let explained = engine.explain(decision.id).unwrap();
    (words_in(&directory.journal_path()), explained)
}

#[test]
fn content_is_kept_as_the_pipeline_says() {
    let (words, explained) = logged("plain");
    assert!(words.contains(&WORDS[0]), "the test would find them: {words:?}");
    assert_eq!(fact(&explained, "author"), Some(&Value::from(WORDS[0])));

    let (words, explained) = logged("encrypted");
    assert!(words.is_empty(), "{words:?}");
    assert_eq!(fact(&explained, "author"), Some(&Value::from(WORDS[0])));
    assert_eq!(fact(&explained, "ip"), Some(&Value::Ip(WORDS[2].parse().unwrap())));
    assert_eq!(fact(&explained, "secret"), None, "what is not logged is not logged encrypted");
    assert_eq!(fact(&explained, plan::SEALED_COLUMN), None);
    assert_eq!(fact(&explained, "amount"), Some(&Value::Integer(7)));
    let verdict = explained.verdict.as_ref().unwrap();
    assert!(verdict.reasons[0].detail.contains("cheap"), "{verdict:?}");

    let (words, explained) = logged("none");
    assert!(words.is_empty(), "{words:?}");
    assert_eq!((fact(&explained, "author"), fact(&explained, "ip")), (None, None));
    assert_eq!(fact(&explained, "amount"), Some(&Value::Integer(7)));
    let verdict = explained.verdict.as_ref().unwrap();
    assert_eq!(verdict.reasons.iter().map(|it| it.rule.as_str()).collect::<Vec<_>>(), ["CHEAP", "MUCH"]);
    assert!(!format!("{verdict:?}").contains("watches"), "{verdict:?}");
    assert_eq!(verdict.reasons[1].detail, "amount = 7", "what is no content is told");
}

#[test]
fn a_lost_key_costs_the_content_and_nothing_else() {
    let parent = tempfile::tempdir().unwrap();
    let directory = Directory::create(&parent.path().join("data"), &[]).unwrap();
    let keys = directory.path().join("content.keys");
    let open = || Engine::open(&directory, plan("encrypted")).unwrap();
    let engine = open();
    let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&keys).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);
    engine.maintain(Some(NOW)).unwrap();
    let first = decide_at(&engine, comment(), NOW).id;
    let count =
        || std::fs::read_to_string(&keys).unwrap().lines().filter(|line| !line.starts_with('#')).count();
    assert_eq!(count(), 1);
    // A key is used for a month; what it has encrypted stays readable.
    engine.maintain(Some(NOW + Span::days(31))).unwrap();
    assert_eq!(count(), 2);
    let second = decide_at(&engine, comment(), NOW + Span::days(31)).id;
    let author = |engine: &Engine, id| fact(&engine.explain(id).unwrap(), "author").cloned();
    for id in [first, second] {
        assert_eq!(author(&engine, id), Some(Value::from(WORDS[0])));
    }
    let copy = parent.path().join("copy");
    engine.close().unwrap();
    drop(engine);
    directory.snapshot(&copy).unwrap();
    assert!(!copy.join("content.keys").exists(), "a copy has no keys");

    // The file is gone: a new key is made, and what is unreadable says so.
    let saved = std::fs::read_to_string(&keys).unwrap();
    std::fs::remove_file(&keys).unwrap();
    let engine = open();
    let third = decide_at(&engine, comment(), NOW + Span::days(31)).id;
    let explained = engine.explain(first).unwrap();
    assert_eq!((fact(&explained, "author"), fact(&explained, "amount")), (None, Some(&Value::Integer(7))));
    let unknown = explained.unknown.unwrap();
    assert!(unknown.starts_with("its content is encrypted, and `content.keys` has no key `"), "{unknown}");
    assert_eq!(explained.verdict.unwrap().score, 6.0);
    assert_eq!(author(&engine, third), Some(Value::from(WORDS[0])));
    engine.close().unwrap();
    drop(engine);

    // Both files in one, in any order, with what is no key between.
    let fresh = std::fs::read_to_string(&keys).unwrap();
    std::fs::write(&keys, format!("{fresh}no key\n\n{saved}")).unwrap();
    let engine = open();
    for id in [first, second, third] {
        assert_eq!(author(&engine, id), Some(Value::from(WORDS[0])));
    }
    engine.close().unwrap();
    drop(engine);

    // A key of this name that is another one is no key.
    let mut lines: Vec<String> = saved.lines().map(str::to_owned).collect();
    let line = lines.iter_mut().find(|line| !line.starts_with('#')).unwrap();
    *line = format!("{}{}", &line[..line.len() - 64], "0".repeat(64));
    std::fs::write(&keys, lines.join("\n")).unwrap();
    let engine = open();
    let unknown = engine.explain(first).unwrap().unknown.unwrap();
    assert!(unknown.starts_with("its content is encrypted, and damaged"), "{unknown}");
    // The same without a server, from the files alone.
    engine.close().unwrap();
    drop(engine);
    let explained = directory.explain(&plan("encrypted"), second).unwrap();
    assert_eq!(fact(&explained, "author"), Some(&Value::from(WORDS[0])));
}
