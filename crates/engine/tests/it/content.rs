//! The content of declared fields, from configuration to verdict.

use std::fs;

use engine::{Directory, Engine};
use event::{Event, Time, Value};
use plan::{Config, Overrides, Plan, preset};

const NOW: Time = Time::from_seconds(1_780_000_000);

const COMMENTS: &str = r#"
name = "comments"
[[field]]
name = "user"
type = "string"
[[field]]
name = "body"
type = "string"
content = "text"
[[field]]
name = "site"
type = "string"
content = "link"
[[kind]]
name = "link_domain"
of = "body.link_domains"
[[kind]]
name = "phone"
of = "body.phones"
[[statistic]]
name = "counts"
keys = ["link_domain", "phone"]
counts = ["seen", "spam"]
windows = ["1h x 24"]
[[phrases]]
name = "known"
files = ["known.tsv"]
classes = ["pharma"]
of = ["body.text"]
[[classifier]]
name = "words"
of = ["body.text_start"]
bad = ["spam"]
[feedback]
spam = ["spam"]
"#;

/// A directory with a configuration.
struct Node {
    _parent: tempfile::TempDir,
    directory: Directory,
}

impl Node {
    fn new(config: &str) -> Node {
        let parent = tempfile::tempdir().unwrap();
        let directory = Directory::create(&parent.path().join("data"), &[&preset::ALL[0]]).unwrap();
        fs::write(directory.config_path(), config).unwrap();
        fs::write(directory.config_path().with_file_name("known.tsv"), "pharma\t2\tviagra\n").unwrap();
        Node { _parent: parent, directory }
    }

    fn plan(&self) -> Result<Plan, String> {
        let config = Config::load(&self.directory.config_path(), &Overrides::default());
        Plan::compile(&config).map_err(|problems| problems.to_string())
    }

    fn open(&self) -> Engine {
        Engine::open(&self.directory, self.plan().unwrap()).unwrap()
    }
}

/// The facts of an event of JSON.
fn fact(engine: &Engine, json: &str, name: &str) -> Option<Value> {
    let pipeline = &engine.plan().pipelines[0];
    let (event, _) = engine.read_json(pipeline, json.as_bytes(), NOW).unwrap();
    fact_of(engine, event, name)
}

fn fact_of(engine: &Engine, event: Event, name: &str) -> Option<Value> {
    let pipeline = &engine.plan().pipelines[0];
    let prepared = engine.prepare(pipeline, event, NOW);
    let slot = pipeline.schema.slot(name).unwrap_or_else(|| panic!("no fact {name}"));
    prepared.facts().get(slot).cloned()
}

fn list(items: &[&str]) -> Option<Value> {
    Some(Value::from(items.iter().map(|&item| item.to_owned()).collect::<Vec<_>>()))
}

#[test]
fn a_comment_has_facts_keys_phrases_and_learners() {
    let rules = "[[rule]]\nname = \"PILLS\"\nwhen = \"phrases.known.count > 0 && body.leet_words > 0\"\nscore = 3\n\
                 [[rule]]\nname = \"KNOWN_LINK\"\nwhen = \"link_domain.spam('1h') > 0\"\nscore = 4\n\
                 [[rule]]\nname = \"LEARNED\"\nwhen = \"words.known > 0\"\nscore = 1\n";
    let node = Node::new(&format!("{COMMENTS}{rules}"));
    let engine = node.open();
    let comment = r#"{"user": "u1", "body": "v1agra at https://shop.evil.example.com/x, call 800-555-1239", "site": "t.me/some_name"}"#;
    assert_eq!(fact(&engine, comment, "body.link_domains"), list(&["example.com"]));
    assert_eq!(fact(&engine, comment, "body.phones"), list(&["8005551239"]));
    assert_eq!(fact(&engine, comment, "site.handles"), list(&["telegram:some_name"]));
    let decide = |json: &str| {
        let pipeline = &engine.plan().pipelines[0];
        let (event, warnings) = engine.read_json(pipeline, json.as_bytes(), NOW).unwrap();
        assert_eq!(warnings, [""; 0]);
        pollster::block_on(engine.decide(vec![engine.prepare(pipeline, event, NOW)])).remove(0)
    };
    let fired = |json: &str| {
        let verdict = decide(json).verdict;
        verdict.reasons.iter().map(|reason| reason.rule.clone()).collect::<Vec<_>>()
    };
    let first = decide(comment);
    assert_eq!(first.verdict.score, 3.0);
    pollster::block_on(engine.feedback(first.id, "spam", NOW)).unwrap();
    let mut again = fired(r#"{"body": "nice post, see www.example.com for v1agra"}"#);
    again.sort();
    assert_eq!(again, ["KNOWN_LINK", "LEARNED", "PILLS"]);
    assert_eq!(fired(r#"{"body": "nothing of it"}"#), [""; 0]);
}

#[test]
fn nobody_brings_what_content_shows() {
    let engine = Node::new(COMMENTS).open();
    let comment = r#"{"user": "u1", "body.phones": ["8005551239"], "body.link_count": 7}"#;
    assert_eq!(fact(&engine, comment, "body.phones"), None);
    assert_eq!(fact(&engine, comment, "body.link_count"), None);
    let comment = r#"{"body": "hello", "body.phones": ["8005551239"], "body.link_count": 7}"#;
    assert_eq!(fact(&engine, comment, "body.phones"), None);
    assert_eq!(fact(&engine, comment, "body.link_count"), Some(Value::Integer(0)));
}

#[test]
fn facts_of_an_input_have_content_too() {
    let site = "name = \"site\"\ninput = \"access-log\"\n\
                [[field]]\nname = \"http.referer\"\ntype = \"string\"\ncontent = \"link\"\n";
    let engine = Node::new(site).open();
    let line = "192.0.2.1 - - [17/May/2015:10:05:03 +0000] \"GET / HTTP/1.1\" 200 1 \"http://www.shop.example.co.uk/a\" \"x\"";
    let event = content::web::access_log::event(line.as_bytes()).unwrap();
    assert_eq!(fact_of(&engine, event, "http.referer.link_domains"), list(&["example.co.uk"]));

    let mail = "name = \"mail\"\ninput = \"message\"\n\
                [[field]]\nname = \"mail.subject\"\ntype = \"string\"\ncontent = \"text\"\n\
                [[field]]\nname = \"note\"\ntype = \"string\"\ncontent = \"html\"\n";
    let engine = Node::new(mail).open();
    let raw = b"Subject: call 800-555-1239\n\nhi".as_slice();
    let mut event = content::mail::message::event(raw, Default::default());
    event.push("note", "<b>see</b> <a href=http://example.org/>here</a>");
    assert_eq!(fact_of(&engine, event.clone(), "mail.subject.phones"), list(&["8005551239"]));
    assert_eq!(fact_of(&engine, event.clone(), "note.text"), Some(Value::from("see here")));
    assert_eq!(fact_of(&engine, event, "note.links"), list(&["http://example.org/"]));
}

#[test]
fn what_has_no_content_is_refused() {
    let field =
        |rest: &str| Node::new(&format!("name = \"p\"\n[[field]]\nname = \"a\"\n{rest}")).plan().unwrap_err();
    for (rest, message) in [
        ("type = \"integer\"\ncontent = \"text\"\n", "a field of type integer has no content of kind `text`"),
        ("type = \"list\"\ncontent = \"email\"\n", "a field of type list has no content of kind `email`"),
        ("type = \"string\"\ncontent = \"prose\"\n", "`content`"),
        (
            "type = \"string\"\ncontent = \"link\"\n[[field]]\nname = \"a.links\"\ntype = \"string\"\n",
            "there already is a fact of this name",
        ),
    ] {
        let error = field(rest);
        assert!(error.contains(message), "{rest}: {error}");
    }
}
