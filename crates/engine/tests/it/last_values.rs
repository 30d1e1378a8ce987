//! Last values of facts, from the configuration to the verdict and back out of the journal and the export.

use std::sync::Arc;

use engine::{Decision, Directory, Engine};
use event::{Event, Span, Time, Value};
use plan::{Config, Overrides, Plan};

use crate::pipeline::{NOW, decide_at};

const CONFIG: &str = r#"
name = "logins"

[[field]]
name = "user"
type = "string"

[[field]]
name = "country"
type = "string"

[[field]]
name = "attempts"
type = "integer"

[[kind]]
name = "user"
of = "user"
when = "attempts != 0"

[[last]]
name = "home"
per = "user"
of = "country"
keep = "30d"

[[rule]]
name = "MOVED"
when = "last('home') != country"
score = 1

[[rule]]
name = "MOVED_FAST"
when = "last('home') != country && home.last_age() < duration('1h')"
score = 1
"#;

fn plan(text: &str) -> Result<Plan, String> {
    let config = Config::from_text("logins.toml", text, &Overrides::default());
    Plan::compile(&config).map_err(|problems| problems.to_string())
}

fn login(country: Option<&str>) -> Event {
    let mut event = Event::default();
    event.push("user", "ann");
    event.push("attempts", 1i64);
    if let Some(country) = country {
        event.push("country", country);
    }
    event
}

fn rules(decision: &Decision) -> Vec<&str> {
    decision.verdict.reasons.iter().map(|reason| reason.rule.as_str()).collect()
}

#[test]
fn a_rule_sees_that_the_value_is_another_one() {
    let engine = Engine::ephemeral(plan(CONFIG).unwrap()).unwrap();
    let from = |country: &str, at: Time| {
        let decision = decide_at(&engine, login(Some(country)), at);
        rules(&decision).into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    assert!(from("DE", NOW).is_empty(), "nothing is known of a new key");
    assert!(from("DE", NOW + Span::minutes(1)).is_empty());
    assert_eq!(from("FR", NOW + Span::minutes(2)), ["MOVED", "MOVED_FAST"]);
    assert!(from("FR", NOW + Span::minutes(3)).is_empty());
    assert!(
        rules(&decide_at(&engine, login(None), NOW + Span::minutes(4))).is_empty(),
        "an event without one"
    );
    assert_eq!(from("DE", NOW + Span::days(1)), ["MOVED"], "which changes nothing");
    let long = "x".repeat(64);
    assert_eq!(from(&long, NOW + Span::days(2)), ["MOVED"]);
    assert!(from(&long, NOW + Span::days(3)).is_empty(), "a value that is too long is not known");
    assert!(from("DE", NOW + Span::days(4)).is_empty());
    let mut other = login(Some("FR"));
    other.push("attempts", 0i64);
    assert!(rules(&decide_at(&engine, other, NOW + Span::days(5))).is_empty(), "the kind's condition holds");
}

#[test]
fn the_last_value_is_told_and_kept_over_a_restart() {
    let parent = tempfile::tempdir().unwrap();
    let directory = Directory::create(&parent.path().join("data"), &[]).unwrap();
    let engine = Engine::open(&directory, plan(CONFIG).unwrap()).unwrap();
    decide_at(&engine, login(Some("DE")), NOW);
    let id = decide_at(&engine, login(Some("FR")), NOW + Span::minutes(1)).id;
    engine.close().unwrap();
    drop(engine);

    let engine = Engine::open(&directory, plan(CONFIG).unwrap()).unwrap();
    let told = engine.explain(id).unwrap();
    let home = told.facts.iter().find(|(name, _)| name == "last('home')").map(|(_, value)| value.clone());
    assert_eq!(home, Some(Value::from("DE")), "as it was seen then");
    let key = told.keys.iter().find(|key| key.kind == "home").unwrap();
    assert_eq!(key.values, [("value".to_owned(), Value::from("DE"))]);
    assert_eq!(told.verdict.unwrap().reasons[0].detail, "last('home') = \"DE\", country = \"FR\"");
    let pipeline = Arc::clone(&engine.plan().pipelines[0]);
    let now = pollster::block_on(engine.timeline(&pipeline, "home", "ann", NOW + Span::hours(1))).unwrap();
    assert_eq!(now.values, [("value".to_owned(), Value::from("FR"))]);
}

#[test]
fn what_cannot_be_kept_is_refused() {
    let check = |old: &str, new: &str, message: &str| {
        assert!(CONFIG.contains(old), "{old}");
        let found = plan(&CONFIG.replace(old, new)).unwrap_err();
        assert!(found.contains(message), "{found}");
    };
    check("of = \"country\"", "of = \"attempts\"", "`attempts` is of type integer");
    check("of = \"country\"", "of = \"contry\"", "there is no fact `contry`");
    check("per = \"user\"", "per = \"users\"", "there is no kind `users`");
    check("keep = \"30d\"", "keep = \"0s\"", "keep");
    check("name = \"home\"", "name = \"user\"", "`user` is defined twice");
    check("last('home') != country\"", "last('hom') != country\"", "no [[last]] is called `hom`");
    check("last('home') != country\"", "home.first_age() > duration('1h')\"", "not when it was first seen");
    let mail = r#"
        name = "mail"
        input = "message"
        [[kind]]
        name = "text"
        of = "mail.body_text"
        [[last]]
        name = "last_text"
        per = "text"
        of = "mail.body_text"
        keep = "1d"
    "#;
    let found = plan(mail).unwrap_err();
    assert!(found.contains("`mail.body_text` is not journalled"), "{found}");
    check("last('home') != country\"", "home.seen('1h') > 1\"", "unknown counter `seen`");
}
