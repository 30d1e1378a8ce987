//! Tracks, statistics behind a sketch, and approximate distinct counts, from the configuration to the verdict and back
//! out of the journal.

use std::sync::Arc;

use engine::{Decision, Directory, Engine, ExplainedKey, KeyStatisticsError};
use event::{Event, Span, Value};
use journal::export;
use plan::{Config, Overrides, Plan};
use stats::Quality;

use crate::pipeline::{NOW, decide_at};

const CONFIG: &str = r#"
name = "orders"

[[field]]
name = "user"
type = "string"

[[field]]
name = "cards"
type = "list"

[[field]]
name = "cents"
type = "integer"

[[field]]
name = "card"
type = "string"

[[kind]]
name = "user"
of = "user"

[[kind]]
name = "card"
of = "cards"

[[kind]]
name = "visitor"
of = "user"

[[kind]]
name = "guest"
of = "user"

[[statistic]]
name = "orders"
keys = ["user", "card"]
aggregate = ["first", "last", "count", "sum", "min", "max"]
value = "cents"
decay = ["1h", "1d"]
keep = "30d"

[[statistic]]
name = "visitors"
keys = ["visitor"]
aggregate = ["count", "first"]
decay = ["1h"]
keep = "30d"
admit = { after = 3, rotate = "3d", keys = 1000 }

[[statistic]]
name = "guests"
keys = ["guest"]
counts = ["seen", "refused"]
windows = ["10m x 144"]
readings = ["1h"]
admit = { after = 3, rotate = "3d", memory = "1MiB" }

[[distinct]]
name = "cards"
per = "user"
of = "card"
window = "1d x 7"
method = "approximate"

[[rule]]
name = "OFTEN"
when = "user.count() >= 3"
score = 1

[[rule]]
name = "DEAR"
when = "user.max() > 10_000 && user.sum() / user.count() < 10_000"
score = 1

[[rule]]
name = "REFUND"
when = "user.min() < 0"
score = 1

[[rule]]
name = "FAST"
when = "user.decayed('1h') > 300.0"
score = 1

[[rule]]
name = "ADMITTED"
when = "visitor.count() >= 3 && visitor.first_age() > duration('0s')"
score = 1

[[rule]]
name = "CARDS"
when = "distinct('cards', '1d') >= 90 && distinct('cards', '7d') <= 110"
score = 1
"#;

fn plan() -> Plan {
    let config = Config::from_text("orders.toml", &CONFIG.replace("10_000", "10000"), &Overrides::default());
    Plan::compile(&config).unwrap_or_else(|problems| panic!("{problems}"))
}

fn order(user: &str, cents: Option<i64>) -> Event {
    let mut event = Event::default();
    event.push("user", user);
    if let Some(cents) = cents {
        event.push("cents", cents);
    }
    event
}

fn rules(decision: &Decision) -> Vec<&str> {
    let mut rules: Vec<&str> = decision.verdict.reasons.iter().map(|reason| reason.rule.as_str()).collect();
    rules.sort_unstable();
    rules
}

/// Returns what is known before an event, by fact and by key.
fn peek(engine: &Engine, event: Event, at: event::Time) -> (Vec<(String, Value)>, Vec<ExplainedKey>) {
    let prepared = engine.prepare(&Arc::clone(&engine.plan().pipelines[0]), event, at);
    let seen = pollster::block_on(engine.peek(prepared)).unwrap();
    (seen.facts, seen.keys)
}

fn fact(facts: &[(String, Value)], name: &str) -> Option<Value> {
    facts.iter().find(|(other, _)| other == name).map(|(_, value)| value.clone())
}

fn key<'a>(keys: &'a [ExplainedKey], kind: &str) -> &'a ExplainedKey {
    keys.iter().find(|key| key.kind == kind).unwrap_or_else(|| panic!("no {kind}"))
}

#[test]
fn an_aggregate_is_read_by_rules() {
    let engine = Engine::ephemeral(plan()).unwrap();
    let (facts, keys) = peek(&engine, order("ann", None), NOW);
    assert_eq!(fact(&facts, "user.count()"), Some(Value::Integer(0)));
    assert_eq!(fact(&facts, "user.sum()"), Some(Value::Integer(0)));
    assert_eq!(fact(&facts, "user.max()"), None, "there is no value of which it could be the greatest");
    assert_eq!(fact(&facts, "user.decayed('1h')"), Some(Value::Float(0.0)));
    assert_eq!(fact(&facts, "user.first_age()"), Some(Value::Integer(0)));
    assert_eq!(fact(&facts, "user.last_age()"), None);
    assert_eq!(key(&keys, "user").values, []);

    let mut fired = Vec::new();
    for (cents, hours) in [(Some(200), 0), (Some(20_000), 1), (None, 1), (Some(-50), 2), (None, 2)] {
        let decision = decide_at(&engine, order("ann", cents), NOW + Span::hours(hours));
        fired.push(rules(&decision).join(" "));
    }
    // The third order admits the visitor. After one hour 100 of the first 200 are left, and nothing of an order without a value is added.
    assert_eq!(fired, ["", "", "FAST", "ADMITTED DEAR FAST OFTEN", "ADMITTED DEAR FAST OFTEN REFUND"]);

    let (facts, keys) = peek(&engine, order("ann", None), NOW + Span::hours(3));
    let expected = [
        ("user.count()", Value::Integer(5)),
        ("user.sum()", Value::Integer(20_150)),
        ("user.min()", Value::Integer(-50)),
        ("user.max()", Value::Integer(20_000)),
        ("user.decayed('1h')", Value::Float(25.0 + 5000.0 - 25.0)),
        ("user.first_age()", Value::Integer(Span::hours(3).0)),
        ("user.last_age()", Value::Integer(Span::hours(1).0)),
    ];
    for (name, value) in expected {
        assert_eq!(fact(&facts, name), Some(value), "{name}");
    }
    let ann = key(&keys, "user");
    let names: Vec<&str> = ann.values.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["count", "sum", "min", "max", "decayed_1h", "decayed_1d"]);
    assert_eq!((ann.quality, ann.first), (Quality::Exact, Some(NOW)));
}

#[test]
fn the_most_telling_of_several_keys_is_read() {
    let engine = Engine::ephemeral(plan()).unwrap();
    let pay = |cards: &[&str], cents: i64| {
        let mut event = order("bob", Some(cents));
        event.push("cards", cards.iter().map(|card| (*card).to_owned()).collect::<Vec<_>>());
        event
    };
    decide_at(&engine, pay(&["1"], 5), NOW);
    decide_at(&engine, pay(&["2"], 90), NOW);
    decide_at(&engine, pay(&["2"], 7), NOW);
    let (facts, _) = peek(&engine, pay(&["1", "2", "3"], 0), NOW);
    for (name, value) in [("count", 2), ("sum", 97), ("min", 5), ("max", 90)] {
        assert_eq!(fact(&facts, &format!("card.{name}()")), Some(Value::Integer(value)), "{name}");
    }
    assert_eq!(fact(&facts, "card.decayed('1d')"), Some(Value::Float(97.0)));
}

#[test]
fn a_sketch_admits_and_says_what_it_estimates() {
    let engine = Engine::ephemeral(plan()).unwrap();
    let pipeline = Arc::clone(&engine.plan().pipelines[0]);
    let known = |kind: &str| pollster::block_on(engine.timeline(&pipeline, kind, "eve", NOW)).unwrap();
    for (count, quality) in [(0, Quality::Exact), (1, Quality::Estimated), (2, Quality::Estimated)] {
        let (facts, keys) = peek(&engine, order("eve", None), NOW);
        assert_eq!(fact(&facts, "visitor.count()"), Some(Value::Integer(count)), "the sketch counts");
        assert_eq!(fact(&facts, "visitor.first_age()"), Some(Value::Integer(0)), "the rest is a new key's");
        assert_eq!(fact(&facts, "guest.seen('1h')"), Some(Value::Integer(count)), "for counters, too");
        assert_eq!((key(&keys, "visitor").quality, key(&keys, "guest").quality), (quality, quality));
        let values: Vec<_> =
            (count > 0).then(|| ("count".to_owned(), Value::Integer(count))).into_iter().collect();
        assert_eq!(key(&keys, "visitor").values, values);
        let visitor = known("visitor");
        assert_eq!((visitor.timeline, visitor.quality, visitor.values), (None, quality, values));
        decide_at(&engine, order("eve", None), NOW);
    }
    // The third sighting made the cells: counts go on.
    let (facts, keys) = peek(&engine, order("eve", None), NOW + Span::minutes(1));
    assert_eq!(fact(&facts, "visitor.count()"), Some(Value::Integer(3)));
    assert_eq!(fact(&facts, "guest.seen('1h')"), Some(Value::Integer(3)));
    assert_eq!(
        (key(&keys, "visitor").quality, key(&keys, "guest").quality),
        (Quality::Exact, Quality::Exact)
    );
    assert_eq!(known("visitor").timeline.unwrap().first, NOW);
    let fourth = decide_at(&engine, order("eve", None), NOW + Span::minutes(1));
    assert!(rules(&fourth).contains(&"ADMITTED"), "{:?}", rules(&fourth));
}

#[test]
fn approximate_distinct_counts_are_close_and_say_so() {
    let engine = Engine::ephemeral(plan()).unwrap();
    let pay = |number: i64| {
        let mut event = order("bob", None);
        event.push("card", number.to_string());
        event
    };
    for number in 0..100 {
        let at = NOW + Span::days(number / 50);
        decide_at(&engine, pay(number), at);
        decide_at(&engine, pay(number / 2), at);
    }
    let (facts, keys) = peek(&engine, pay(1), NOW + Span::days(1));
    let read = |window: &str| match fact(&facts, &format!("distinct('cards', '{window}')")) {
        Some(Value::Integer(count)) => count,
        other => panic!("{other:?}"),
    };
    // 25 to 99 came on the second day, 0 to 24 on the first alone: united and not added up.
    assert!((70..=80).contains(&read("1d")) && (95..=105).contains(&read("7d")), "{facts:?}");
    let cards = key(&keys, "cards");
    assert_eq!(cards.quality, Quality::Estimated);
    assert_eq!(cards.counts.len(), 2);
    for number in 0..100 {
        decide_at(&engine, pay(number), NOW + Span::days(1));
    }
    assert!(rules(&decide_at(&engine, pay(1), NOW + Span::days(1))).contains(&"CARDS"));
}

#[test]
fn aggregates_have_no_ranking_and_take_no_feedback() {
    let engine = Engine::ephemeral(plan()).unwrap();
    let pipeline = Arc::clone(&engine.plan().pipelines[0]);
    let asked = engine::Ranking { kind: "user", counter: "count", window: Span::hours(1), limit: 5 };
    let hottest = engine.hottest(&pipeline, asked, NOW, &|| false);
    let error = pollster::block_on(hottest).unwrap_err();
    assert!(matches!(&error, KeyStatisticsError::NoCounters(kind) if kind == "user"), "{error}");

    let text = CONFIG.replace("10_000", "10000")
        + "[settle]\nrefused = [\"accept\"]\n[feedback]\nspam = [\"refused\"]\n";
    let config = Config::from_text("orders.toml", &text, &Overrides::default());
    let engine = Engine::ephemeral(Plan::compile(&config).unwrap()).unwrap();
    let pipeline = Arc::clone(&engine.plan().pipelines[0]);
    decide_at(&engine, order("ann", Some(5)), NOW);
    let prepared = engine.prepare(&pipeline, order("ann", Some(5)), NOW);
    let said = pollster::block_on(engine.learn(prepared, "1", "spam")).unwrap();
    assert_eq!(said.keys, 1, "the guest's, which has counters");
    let ann = pollster::block_on(engine.timeline(&pipeline, "user", "ann", NOW)).unwrap();
    assert_eq!(ann.values[0], ("count".to_owned(), Value::Integer(1)), "one event, whatever is said of it");
}

#[test]
fn the_journal_tells_and_exports_them() {
    let parent = tempfile::tempdir().unwrap();
    let directory = Directory::create(&parent.path().join("data"), &[]).unwrap();
    let engine = Engine::open(&directory, plan()).unwrap();
    let mut ids = Vec::new();
    for (cents, card) in [(700, "1"), (300, "2"), (100, "3")] {
        let mut event = order("ann", Some(cents));
        event.push("card", card);
        ids.push(decide_at(&engine, event, NOW).id);
    }
    engine.close().unwrap();
    drop(engine);

    let engine = Engine::open(&directory, plan()).unwrap();
    let told = engine.explain(ids[2]).unwrap();
    assert_eq!(fact(&told.facts, "user.sum()"), Some(Value::Integer(1000)), "as it was seen then");
    let values = &key(&told.keys, "user").values;
    assert_eq!(
        values[..2],
        [("count".to_owned(), Value::Integer(2)), ("sum".to_owned(), Value::Integer(1000))]
    );
    assert_eq!(key(&told.keys, "visitor").quality, Quality::Estimated);
    assert_eq!(key(&told.keys, "cards").quality, Quality::Estimated);

    let mut lines = Vec::new();
    let journal = engine.journal().unwrap();
    assert_eq!(
        export::ndjson(&journal.archive().unwrap(), &export::ExportFilter::default(), &mut lines)
            .unwrap()
            .rows,
        3
    );
    let last = lines.split(|byte| *byte == b'\n').rfind(|line| !line.is_empty()).unwrap();
    let last: serde_json::Value = serde_json::from_slice(last).unwrap();
    assert_eq!(last["user.max()"], 700);
    assert_eq!(last["user.decayed('1h')"], 1000.0);
    assert_eq!(last["visitor.count()"], 2);
    assert_eq!(last["distinct('cards', '1d')"], 2);
    let mut table = Vec::new();
    assert_eq!(
        export::parquet(&journal.archive().unwrap(), &export::ExportFilter::default(), &mut table)
            .unwrap()
            .rows,
        3
    );
    let ann = pollster::block_on(engine.timeline(&engine.plan().pipelines[0], "user", "ann", NOW)).unwrap();
    assert_eq!(ann.values[1], ("sum".to_owned(), Value::Integer(1100)), "kept over a restart");
}
