//! Counters that go up by what an event says, from the configuration to the verdict.

use engine::backtest::BacktestQuery;
use engine::{Directory, Engine, FeedbackInput};
use event::{Event, Span, Time, Value};
use plan::{Config, Overrides, Plan};

use crate::backtest::replayed;
use crate::pipeline::{NOW, decide_at};

const CONFIG: &str = r#"
name = "shop"

[[field]]
name = "user"
type = "string"

[[field]]
name = "cents"
type = "integer"

[[kind]]
name = "user"
of = "user"

[[statistic]]
name = "orders"
keys = ["user"]
counts = ["orders", "spent", "refused", "refunded"]
windows = ["10m x 144"]
value = "cents"
amounts = ["spent", "refused", "refunded"]

[observe]
add = ["orders", "spent"]

[settle]
refused = ["reject"]

[[rule]]
name = "SPENDS"
when = "user.spent('1h') + cents > 10000"
score = 9

[[rule]]
name = "REFUND"
when = "cents == 700"
score = 0
effects = ["add user.refunded", "add user.orders by 2"]

[[band]]
at = 5.0
action = "reject"
"#;

fn plan(text: &str) -> Result<Plan, String> {
    let config = Config::from_text("shop.toml", text, &Overrides::default());
    Plan::compile(&config).map_err(|problems| problems.to_string())
}

fn order(cents: Option<i64>) -> Event {
    let mut event = Event::default();
    event.push("user", "ann");
    if let Some(cents) = cents {
        event.push("cents", cents);
    }
    event
}

/// Returns what is counted in an hour: orders, spent, refused, refunded.
fn counted(engine: &Engine) -> Vec<u64> {
    let pipeline = &engine.plan().pipelines[0];
    let told = pollster::block_on(engine.timeline(pipeline, "user", "ann", NOW)).unwrap();
    assert_eq!(told.counters, ["orders", "spent", "refused", "refunded"]);
    told.windows.iter().find(|(window, _)| *window == Span::hours(1)).unwrap().1.clone()
}

#[test]
fn counters_go_up_by_the_amounts_of_events() {
    let engine = Engine::ephemeral(plan(CONFIG).unwrap()).unwrap();
    let spends = |cents| {
        let decision = decide_at(&engine, order(cents), NOW);
        decision.verdict.reasons.iter().any(|reason| reason.rule == "SPENDS")
    };
    assert!(!spends(Some(4000)));
    assert_eq!(counted(&engine), [1, 4000, 0, 0]);
    assert!(!spends(None));
    assert!(!spends(Some(-50)));
    assert!(!spends(Some(0)));
    assert_eq!(
        counted(&engine),
        [4, 4000, 0, 0],
        "what has no amount, or none that can be added, is counted"
    );
    assert!(spends(Some(7000)));
    assert_eq!(counted(&engine), [5, 11_000, 7000, 0], "what was refused is counted as such, too");
    assert!(spends(Some(700)));
    assert_eq!(counted(&engine), [8, 11_700, 7700, 700]);
    for _ in 0..3 {
        spends(Some(i64::MAX));
    }
    let most = 1 << 40;
    assert_eq!(counted(&engine)[1], 11_700 + 3 * most, "one event cannot fill a counter");
}

#[test]
fn what_cannot_be_counted_is_refused() {
    let check = |old: &str, new: &str, message: &str| {
        assert!(CONFIG.contains(old), "{old}");
        let found = plan(&CONFIG.replacen(old, new, 1)).unwrap_err();
        assert!(found.contains(message), "{found}");
    };
    check("value = \"cents\"\n", "", "`amounts` have no value");
    check("value = \"cents\"", "value = \"user\"", "`user` is of type string");
    check("value = \"cents\"", "value = \"cent\"", "there is no fact `cent`");
    check("amounts = [\"spent\",", "amounts = [\"spend\",", "`spend` is none of the `counts` of `orders`");
    check("amounts = [\"spent\", \"refused\", \"refunded\"]\n", "", "`value` is for aggregates");
    let admit = "admit = { after = 3, rotate = \"1d\", keys = 1000 }\n\n[observe]";
    check("[observe]", admit, "`amounts` have no `admit`");
    check("counts = [", "aggregate = [\"sum\"]\nkeep = \"1d\"\ncounts = [", "has `aggregate` and `counts`");
}

/// Votes add what the order was for, and take the same back: on what is learned, on decisions, and in a replay.
#[test]
fn feedback_adds_amounts_and_takes_them_back() {
    let text = CONFIG.replace("[settle]", "[feedback]\nchargeback = [\"refunded\"]\npaid = []\n\n[settle]");
    let parent = tempfile::tempdir().unwrap();
    let directory = Directory::create(&parent.path().join("data"), &[]).unwrap();
    let engine = Engine::open(&directory, plan(&text).unwrap()).unwrap();
    let refunded = || counted(&engine)[3];
    let learn = |class: &str, cents: Option<i64>| {
        let prepared = engine.prepare(&engine.plan().pipelines[0], order(cents), NOW);
        pollster::block_on(engine.learn(prepared, "1", class)).unwrap()
    };
    learn("chargeback", Some(4000));
    assert_eq!(refunded(), 4000);
    assert!(learn("chargeback", Some(4000)).duplicate);
    assert_eq!(refunded(), 4000);
    assert_eq!(learn("none", Some(4000)).replaced.as_deref(), Some("chargeback"));
    assert_eq!(refunded(), 0);
    let say = |id, class, by| {
        pollster::block_on(engine.feedback(id, FeedbackInput { class, by }, NOW)).unwrap();
    };
    let ids = [Some(250), None, Some(-3), Some(700)].map(|cents| decide_at(&engine, order(cents), NOW).id);
    // The last has 700 by a rule of its own.
    assert_eq!(refunded(), 700);
    for id in ids {
        say(id, "chargeback", Some("bank"));
    }
    assert_eq!(refunded(), 700 + 250 + 700, "what has no amount adds none");
    say(ids[0], "chargeback", None);
    assert_eq!(refunded(), 700 + 2 * 250 + 700, "by somebody else, too");
    say(ids[3], "paid", Some("bank"));
    assert_eq!(refunded(), 700 + 2 * 250);
    // A replay counts the same from the journal, but for what was learned.
    decide_at(&engine, order(Some(1)), NOW + Span::minutes(20));
    engine.journal().unwrap().sync().unwrap();
    let report = replayed(&directory, &format!("{text}\n{REFUNDED}"), BacktestQuery::default());
    let hits = report.rules.iter().find(|rule| rule.rule == "REFUNDED").unwrap();
    assert_eq!((report.rows, hits.after), (5, 1), "{report:?}");
}

/// Fires where exactly so much was charged back.
const REFUNDED: &str = r#"
[[rule]]
name = "REFUNDED"
when = "user.refunded('1h') == 1200"
score = 100
"#;

const KARMA: &str = r#"
name = "forum"

[[field]]
name = "user"
type = "string"

[[field]]
name = "spam"
type = "bool"

[[field]]
name = "liked"
type = "bool"

[[kind]]
name = "karma"
of = "user"

[[statistic]]
name = "karma"
keys = ["karma"]
aggregate = ["count", "sum", "min"]
decay = ["30d"]
keep = "365d"
observe = false

[[rule]]
name = "LIKED"
when = "liked"
score = 0
effects = ["add karma by 3"]

[[rule]]
name = "LIKED_MORE"
when = "liked && !spam"
score = 0
effects = ["add karma by 1"]

[[rule]]
name = "SPAM"
when = "spam"
score = 0
effects = ["add karma by -20"]

[[rule]]
name = "FORGIVEN"
when = "karma.decayed('30d') >= 4.0"
score = -1

[[rule]]
name = "BAD"
when = "karma.decayed('30d') <= -10.0"
score = 2
"#;

#[test]
fn effects_add_to_aggregates_and_subtract() {
    let engine = Engine::ephemeral(plan(KARMA).unwrap()).unwrap();
    let rules = |spam: bool, liked: bool, at: Time| {
        let mut event = Event::default();
        event.push("user", "ann");
        event.push("spam", spam);
        event.push("liked", liked);
        let decision = decide_at(&engine, event, at);
        decision.verdict.reasons.into_iter().map(|reason| reason.rule).collect::<Vec<_>>()
    };
    assert_eq!(rules(false, false, NOW), [""; 0]);
    let known = || {
        let pipeline = &engine.plan().pipelines[0];
        pollster::block_on(engine.timeline(pipeline, "karma", "ann", NOW)).unwrap().values
    };
    assert!(known().is_empty(), "events alone add nothing: {:?}", known());
    assert_eq!(rules(false, true, NOW), ["LIKED", "LIKED_MORE"]);
    assert!(known().contains(&("sum".to_owned(), Value::Integer(4))), "{:?}", known());
    assert_eq!(rules(true, false, NOW), ["FORGIVEN", "SPAM"]);
    assert!(known().contains(&("sum".to_owned(), Value::Integer(-16))), "{:?}", known());
    assert!(known().contains(&("min".to_owned(), Value::Integer(-20))), "{:?}", known());
    assert_eq!(rules(false, false, NOW), ["BAD"]);
    assert_eq!(rules(false, false, NOW + Span::days(30)), [""; 0], "what is old counts half");
    let check = |old: &str, new: &str, message: &str| {
        assert!(KARMA.contains(old), "{old}");
        let found = plan(&KARMA.replacen(old, new, 1)).unwrap_err();
        assert!(found.contains(message), "{found}");
    };
    check("observe = false\n", "", "`sum` has no value");
    check(
        "aggregate = [\"count\", \"sum\", \"min\"]",
        "aggregate = [\"count\"]\nvalue = \"user\"",
        "has no `value`",
    );
    check("add karma by 3", "add karma by 2.5", "`2.5` cannot be added");
    check("add karma by 3", "add karma.sum by 3", "has an aggregate and no counters");
    let events = KARMA.replacen("observe = false\n", "", 1).replacen("\"sum\", \"min\"", "\"first\"", 1);
    let found = plan(&events).unwrap_err();
    assert!(found.contains("effects add to an aggregate with `observe = false`"), "{found}");
}
