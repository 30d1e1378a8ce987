//! Values that verdicts and feedback add to aggregates, and take back.

use engine::Engine;
use event::{Event, Span, Time, Value};
use plan::{Config, Overrides, Plan};

use crate::pipeline::{NOW, decide_at};

const CONFIG: &str = r#"
name = "posts"

[[field]]
name = "user"
type = "string"

[[field]]
name = "spam"
type = "bool"

[[kind]]
name = "user"
of = "user"

[[statistic]]
name = "posts"
keys = ["user"]
counts = ["seen", "spam"]
windows = ["1d x 30"]

[[kind]]
name = "karma"
of = "user"

[[statistic]]
name = "karma"
keys = ["karma"]
aggregate = ["count", "sum"]
decay = ["30d"]
keep = "365d"
observe = false

[settle]
"karma by -5" = ["reject"]
spam = ["reject"]

[feedback]
spam = ["spam", "karma by -20"]
ham = ["karma by 3"]

[[rule]]
name = "ACTIVE"
when = "user != ''"
score = 0
effects = ["add karma by 1"]

[[rule]]
name = "SPAM"
when = "spam"
score = 9

[[band]]
at = 5.0
action = "reject"
"#;

fn plan(text: &str) -> Result<Plan, String> {
    let config = Config::from_text("posts.toml", text, &Overrides::default());
    Plan::compile(&config).map_err(|problems| problems.to_string())
}

fn post(is_spam: bool) -> Event {
    let mut event = Event::default();
    event.push("user", "ann");
    event.push("spam", is_spam);
    event
}

/// The number of additions to ann's karma, its sum, and what it is worth now.
fn karma(engine: &Engine, at: Time) -> (i64, i64, f64) {
    let told = pollster::block_on(engine.timeline(&engine.plan().pipelines[0], "karma", "ann", at)).unwrap();
    match told.values.iter().map(|(_, value)| value).collect::<Vec<_>>()[..] {
        [Value::Integer(count), Value::Integer(sum), Value::Float(decayed)] => (*count, *sum, *decayed),
        _ => panic!("{told:?}"),
    }
}

#[test]
fn verdicts_add_values() {
    let engine = Engine::ephemeral(plan(CONFIG).unwrap()).unwrap();
    decide_at(&engine, post(false), NOW);
    assert_eq!(karma(&engine, NOW), (1, 1, 1.0), "by the rule alone");
    decide_at(&engine, post(true), NOW);
    assert_eq!(karma(&engine, NOW), (2, -3, -3.0), "by the rule and the verdict at once");
    assert_eq!(karma(&engine, NOW + Span::days(30)), (2, -3, -1.5));
}

#[test]
fn feedback_adds_values_and_takes_them_back() {
    let engine = Engine::ephemeral(plan(CONFIG).unwrap()).unwrap();
    let say = |class: &str, by: Option<&str>| {
        let prepared = engine.prepare(&engine.plan().pipelines[0], post(false), NOW);
        let said = engine::FeedbackInput { class, by };
        pollster::block_on(engine.learn(prepared, "1", said)).unwrap()
    };
    assert_eq!(say("spam", None).keys, 2, "a counter and an aggregate");
    assert_eq!(karma(&engine, NOW), (1, -20, -20.0));
    assert!(say("spam", None).duplicate);
    assert_eq!(say("ham", None).replaced.as_deref(), Some("spam"));
    assert_eq!(karma(&engine, NOW), (3, 3, 3.0), "the first is taken back");
    say("ham", Some("bob"));
    assert_eq!(karma(&engine, NOW).1, 6, "by somebody else, too");
    say("none", None);
    say("none", Some("bob"));
    assert_eq!(karma(&engine, NOW).1, 0);
}

#[test]
fn what_cannot_be_added_is_refused() {
    let check = |old: &str, new: &str, message: &str| {
        assert!(CONFIG.contains(old), "{old}");
        let found = plan(&CONFIG.replacen(old, new, 1)).unwrap_err();
        assert!(found.contains(message), "{found}");
    };
    check("karma by -20", "karma -20", "`karma -20` is neither a counter nor a value for an aggregate");
    check("karma by -5", "karma by 0", "`0` cannot be added to `karma`");
    check("karma by -20", "carma by -20", "there is no kind `carma`");
    check("karma by -20", "user by -20", "events alone are added to `user`");
    check("\nobserve = false", "", "events alone are added to `karma`");
    check("\"sum\"]", "\"sum\", \"max\"]", "`karma` keeps `max`, and feedback can be taken back");
    check("\"spam\", \"karma", "\"spma\", \"karma", "no statistic has a counter `spma`");
}
