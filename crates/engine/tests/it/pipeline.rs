//! The whole way of an event, and what is said about it afterwards.

use std::sync::Arc;

use engine::{Decision, Directory, Engine, FeedbackError};
use event::{Event, Span, Time, Value};
use judge::Action;
use plan::{Config, Overrides, Plan};

pub(crate) const CONFIG: &str = r#"
name = "signup"
space = 7

[time]
skew_max = "5m"
dedupe = "1h"

[[field]]
name = "user.ip"
type = "ip"

[[field]]
name = "user.mail"
type = "string"

[[field]]
name = "form.seconds"
type = "float"

[[kind]]
name = "ip"
of = "user.ip"

[[kind]]
name = "net"
of = "user.ip_net"

[[kind]]
name = "mail"
of = "user.mail"
normalise = "address"

[[kind]]
name = "hasty_ip"
of = "user.ip"
when = "form.seconds < 2.0"

[[statistic]]
name = "counts"
keys = ["ip", "net", "mail", "hasty_ip"]
counts = ["seen", "bad", "complaint"]
windows = ["10m x 144", "1d x 14"]
readings = ["1h"]

[[distinct]]
name = "mails"
per = "ip"
of = "user.mail"
window = "1d"

[settle]
bad = ["reject"]

[feedback]
spam = ["complaint"]

[[rule]]
name = "REPEATED"
when = "ip.seen('1h') >= 3"
score = 5
description = "many from one address"

[[rule]]
name = "MANY_MAILS"
when = "distinct('mails', '1d') >= 2"
score = 1

[[rule]]
name = "HASTY"
when = "hasty_ip.seen('1h') >= 1"
score = 2

[[rule]]
name = "COMPLAINT"
when = "mail.complaint('1h') > 0"
score = 3

[[rule]]
name = "WATCHED"
when = "ip.seen('1h') == 0"
score = 100
mode = "shadow"

[[band]]
at = 3
action = "challenge"

[[band]]
at = 5
action = "reject"
"#;

pub(crate) fn plan() -> Plan {
    let config = Config::from_text("signup.toml", CONFIG, &Overrides::default());
    Plan::compile(&config).unwrap_or_else(|problems| panic!("{problems}"))
}

pub(crate) const NOW: Time = Time::from_seconds(1_700_000_000);

pub(crate) fn event(ip: &str, mail: &str) -> Event {
    let mut event = Event::default();
    event.push("user.ip", ip);
    event.push("user.mail", mail);
    event.push("form.seconds", 9.0);
    event
}

pub(crate) fn decide_at(engine: &Engine, event: Event, arrival: Time) -> Decision {
    let prepared = engine.prepare(&Arc::clone(&engine.plan().pipelines[0]), event, arrival);
    pollster::block_on(engine.decide(vec![prepared])).remove(0)
}

fn rules(decision: &Decision) -> Vec<&str> {
    decision.verdict.reasons.iter().map(|reason| reason.rule.as_str()).collect()
}

#[test]
fn readings_are_from_before_the_event() {
    let engine = Engine::ephemeral(plan()).unwrap();
    let first = decide_at(&engine, event("192.0.2.1", "a@example.org"), NOW);
    assert_eq!((first.verdict.action, rules(&first)), (Action::Accept, vec![]));
    assert_eq!(first.verdict.shadow[0].rule, "WATCHED", "a rule in shadow is reported and changes nothing");
    for _ in 0..2 {
        decide_at(&engine, event("192.0.2.1", "a@example.org"), NOW);
    }
    let fourth = decide_at(&engine, event("192.0.2.1", "a@example.org"), NOW);
    assert_eq!((fourth.verdict.action, rules(&fourth)), (Action::Reject, vec!["REPEATED"]));
    assert_eq!(fourth.verdict.reasons[0].detail, "ip.seen('1h') = 3");
    let later = decide_at(&engine, event("192.0.2.1", "a@example.org"), NOW + Span::hours(3));
    assert_eq!(later.verdict.action, Action::Accept, "the hour is over");
}

#[test]
fn a_batch_counts_like_its_events_one_by_one() {
    let (batch, single) = (Engine::ephemeral(plan()).unwrap(), Engine::ephemeral(plan()).unwrap());
    let events: Vec<Event> =
        (0..6).map(|index| event("192.0.2.9", &format!("u{index}@example.org"))).collect();
    let pipeline = Arc::clone(&batch.plan().pipelines[0]);
    let prepared = events.iter().map(|event| batch.prepare(&pipeline, event.clone(), NOW)).collect();
    let together = pollster::block_on(batch.decide(prepared));
    for (decision, event) in together.iter().zip(events) {
        assert_eq!(rules(decision), rules(&decide_at(&single, event, NOW)));
    }
}

#[test]
fn distinct_values_networks_and_conditions_are_counted() {
    let engine = Engine::ephemeral(plan()).unwrap();
    for mail in ["a@example.org", "A@EXAMPLE.org", "b@example.org"] {
        decide_at(&engine, event("192.0.2.1", mail), NOW);
    }
    let mut hasty = event("192.0.2.2", "c@example.org");
    hasty.push("form.seconds", 0.5);
    assert_eq!(rules(&decide_at(&engine, hasty.clone(), NOW)), Vec::<&str>::new());
    assert_eq!(rules(&decide_at(&engine, hasty, NOW)), ["HASTY"]);
    let pipeline = Arc::clone(&engine.plan().pipelines[0]);
    let net = pollster::block_on(engine.timeline(&pipeline, "net", "192.0.2.0/24", NOW)).unwrap();
    assert_eq!(net.windows, [(Span::hours(1), vec![5, 0, 0])]);
    let net = net.timeline.unwrap();
    assert_eq!(net.buckets.iter().map(|bucket| bucket.counts[0]).sum::<u64>(), 5);
    let mails =
        pollster::block_on(engine.timeline(&pipeline, "mails", "192.0.2.1", NOW)).unwrap().timeline.unwrap();
    // The value counted is the fact as it came: normalising is the kind's.
    assert_eq!(mails.buckets[0].counts, [3]);
}

#[test]
fn what_an_event_brings_itself_is_not_in_its_reading() {
    let text =
        CONFIG.replace("name = \"user.mail\"\ntype = \"string\"", "name = \"user.mail\"\ntype = \"list\"");
    let config = Config::from_text("signup.toml", &text, &Overrides::default());
    let engine = Engine::ephemeral(Plan::compile(&config).unwrap()).unwrap();
    let many = |from: usize| {
        let mut event = Event::default();
        event.push("user.ip", "192.0.2.1");
        event.push(
            "user.mail",
            (from..from + 5).map(|index| format!("u{index}@example.org")).collect::<Vec<_>>(),
        );
        event
    };
    let first = decide_at(&engine, many(0), NOW);
    assert_eq!(rules(&first), Vec::<&str>::new(), "{:?}", first.verdict.reasons);
    let second = decide_at(&engine, many(3), NOW);
    assert_eq!(second.verdict.reasons[0].detail, "distinct('mails', '1d') = 5");
    assert_eq!(decide_at(&engine, many(0), NOW).verdict.reasons[0].detail, "distinct('mails', '1d') = 8");
}

#[test]
fn an_id_counts_once() {
    let engine = Engine::ephemeral(plan()).unwrap();
    let mut named = event("192.0.2.1", "a@example.org");
    named.id = Some("order-1".to_owned());
    for round in 0..6 {
        let decision = decide_at(&engine, named.clone(), NOW);
        assert_eq!((decision.duplicate, decision.verdict.action), (round > 0, Action::Accept));
    }
}

#[test]
fn the_future_is_clamped_and_the_past_counts_where_it_belongs() {
    let engine = Engine::ephemeral(plan()).unwrap();
    let mut ahead = event("192.0.2.1", "a@example.org");
    ahead.time = Some(NOW + Span::days(400));
    assert_eq!(decide_at(&engine, ahead, NOW).time, NOW + Span::minutes(5));
    let mut late = event("192.0.2.1", "a@example.org");
    late.time = Some(NOW - Span::hours(5));
    assert_eq!(decide_at(&engine, late, NOW).time, NOW - Span::hours(5));
}

#[test]
fn peeking_leaves_no_trace() {
    let engine = Engine::ephemeral(plan()).unwrap();
    let pipeline = Arc::clone(&engine.plan().pipelines[0]);
    for _ in 0..9 {
        let prepared = engine.prepare(&pipeline, event("192.0.2.1", "a@example.org"), NOW);
        let seen = pollster::block_on(engine.peek(prepared)).unwrap();
        assert!(seen.keys.iter().all(|key| key.counts.is_empty() && key.first.is_none()), "{:?}", seen.keys);
    }
    assert_eq!(engine.census().cells, 0);
}

#[test]
fn everything_is_there_after_a_restart() {
    let parent = tempfile::tempdir().unwrap();
    let directory = Directory::create(&parent.path().join("data"), &[]).unwrap();
    let engine = Engine::open(&directory, plan()).unwrap();
    let mut ids = Vec::new();
    for _ in 0..3 {
        ids.push(decide_at(&engine, event("192.0.2.1", "a@example.org"), NOW).id);
    }
    assert!(Engine::open(&directory, plan()).is_err(), "one process owns a data directory");
    engine.close().unwrap();
    drop(engine);

    let engine = Engine::open(&directory, plan()).unwrap();
    let fourth = decide_at(&engine, event("192.0.2.1", "a@example.org"), NOW);
    assert_eq!(fourth.verdict.action, Action::Reject);
    assert!(ids.iter().all(|id| *id < fourth.id), "ids go on rising");
    let told = engine.explain(ids[1]).unwrap();
    let fact = |name: &str| told.facts.iter().find(|(fact, _)| fact == name).map(|(_, value)| value.clone());
    assert_eq!(fact("user.mail"), Some(Value::from("a@example.org")));
    assert_eq!(fact("ip.seen('1h')"), Some(Value::Integer(1)), "as it was seen then");
    let ip = told.keys.iter().find(|key| key.kind == "ip").unwrap();
    assert_eq!((ip.piece.as_deref(), ip.counts.len()), (Some("192.0.2.1"), 1));
    assert_eq!(
        engine.explain(journal::RecordId(5)).unwrap_err().to_string().split(':').next(),
        Some("there is no decision 0000000000005")
    );

    let pipeline = Arc::clone(&engine.plan().pipelines[0]);
    let asked = engine::Ranking { kind: "ip", counter: "seen", window: Span::hours(1), limit: 5 };
    let hot = pollster::block_on(engine.hottest(&pipeline, asked, NOW, &|| false)).unwrap();
    assert_eq!((hot.len(), hot[0].count, hot[0].piece.as_deref()), (1, 4, Some("192.0.2.1")));
}

#[test]
fn what_is_said_counts_once_and_for_the_same_keys() {
    let parent = tempfile::tempdir().unwrap();
    let directory = Directory::create(&parent.path().join("data"), &[]).unwrap();
    let engine = Engine::open(&directory, plan()).unwrap();
    let id = decide_at(&engine, event("192.0.2.1", "a@example.org"), NOW).id;
    let say = |class: &str| pollster::block_on(engine.feedback(id, class, NOW));
    assert!(!say("spam").unwrap().duplicate);
    assert!(say("spam").unwrap().duplicate);
    let error = say("spma").unwrap_err();
    assert!(matches!(error, FeedbackError::Class(_)), "{error}");
    assert!(error.to_string().contains("did you mean `spam`?"), "{error}");
    let next = decide_at(&engine, event("198.51.100.1", "a@example.org"), NOW);
    assert_eq!((next.verdict.action, rules(&next)), (Action::Challenge, vec!["COMPLAINT"]));

    let pipeline = Arc::clone(&engine.plan().pipelines[0]);
    let learn = |id: &str| {
        let prepared = engine.prepare(&pipeline, event("203.0.113.5", "z@example.org"), NOW);
        pollster::block_on(engine.learn(prepared, id, "spam")).unwrap().duplicate
    };
    assert_eq!([learn("m1"), learn("m1"), learn("m2")], [false, true, false]);
    let told = pollster::block_on(engine.timeline(&pipeline, "mail", "z@example.org", NOW))
        .unwrap()
        .timeline
        .unwrap();
    assert_eq!(told.buckets[0].counts, [0, 0, 2]);
}
