//! Fractions that are counted exactly, from the configuration to the verdict and back.

use engine::{Decision, Engine};
use event::{Event, Span, Value};
use plan::{Config, Overrides, Plan};

use crate::pipeline::{NOW, decide_at};

const CONFIG: &str = r#"
name = "shop"

[[field]]
name = "user"
type = "string"

[[field]]
name = "price"
type = "float"

[[kind]]
name = "user"
of = "user"

[[statistic]]
name = "purchases"
keys = ["user"]
counts = ["orders", "paid"]
windows = ["10m x 144"]
value = "price"
amounts = ["paid"]
decimals = 2

[[kind]]
name = "total"
of = "user"

[[statistic]]
name = "total"
keys = ["total"]
aggregate = ["count", "sum", "min", "max"]
decay = ["1d"]
value = "price"
decimals = 2
keep = "30d"

[[kind]]
name = "karma"
of = "user"

[[statistic]]
name = "karma"
keys = ["karma"]
aggregate = ["sum"]
decimals = 1
keep = "30d"
observe = false

[observe]
add = ["orders", "paid"]

[feedback]
fraud = ["karma by -2.5"]

[[rule]]
name = "PAID"
when = "user.paid('1h') >= 0.3 && rate(user.paid('1h'), '1m') < 100.0"
score = 0
effects = ["add karma by 0.5"]

[[rule]]
name = "MEAN"
when = "ratio(user.paid('1h'), user.orders('1h')) > 0.05 && max_bucket(user.paid('1h'), '10m') > 0.05"
score = 0

[[rule]]
name = "TOTAL"
when = "total.sum() + price > 0.0 && total.min() <= total.max() && total.decayed('1d') > 0.0"
score = 0

[[rule.test]]
facts = { "total.sum()" = 12.5, price = 0.5, "total.min()" = 1, "total.max()" = 2.5, "total.decayed('1d')" = 1.0 }
fires = true
"#;

fn plan(text: &str) -> Result<Plan, String> {
    let config = Config::from_text("shop.toml", text, &Overrides::default());
    Plan::compile(&config).map_err(|problems| problems.to_string())
}

fn pay(engine: &Engine, price: impl Into<Value>) -> Decision {
    let mut event = Event::default();
    event.push("user", "ann");
    event.push("price", price);
    decide_at(engine, event, NOW)
}

fn details(decision: &Decision) -> Vec<(&str, &str)> {
    let reasons = decision.verdict.reasons.iter();
    reasons.map(|reason| (reason.rule.as_str(), reason.detail.as_str())).collect()
}

fn values(engine: &Engine, kind: &str) -> Vec<(String, Value)> {
    pollster::block_on(engine.timeline(&engine.plan().pipelines[0], kind, "ann", NOW)).unwrap().values
}

#[test]
fn fractions_add_up_exactly() {
    let engine = Engine::ephemeral(plan(CONFIG).unwrap()).unwrap();
    assert!(details(&pay(&engine, 0.1)).is_empty());
    pay(&engine, 0.1);
    let third = pay(&engine, 0.1);
    assert_eq!(details(&third)[0].0, "MEAN", "0.2 of two orders");
    // As floats, three times 0.1 is more than 0.3, and ten times less than 1.
    let fourth = pay(&engine, 0.1);
    assert_eq!(
        details(&fourth),
        [
            (
                "MEAN",
                "ratio(user.paid('1h'), user.orders('1h'), 1) = 0.1, max_bucket(user.paid('1h'), '10m') = 0.3"
            ),
            ("PAID", "user.paid('1h') = 0.3; add karma by 0.5"),
            (
                "TOTAL",
                "total.sum() = 0.3, price = 0.1, total.min() = 0.1, total.max() = 0.1, total.decayed('1d') = 0.3"
            ),
        ]
    );
    (4..10).for_each(|_| drop(pay(&engine, 0.1)));
    pay(&engine, 12.34);
    let known = pollster::block_on(engine.timeline(&engine.plan().pipelines[0], "user", "ann", NOW)).unwrap();
    let hour = known.windows.iter().find(|(window, _)| *window == Span::hours(1)).unwrap();
    assert_eq!(hour.1, [11, 1334], "what is kept are hundredths");
    let total = values(&engine, "total");
    assert_eq!(total[1], ("sum".to_owned(), Value::Integer(1334)));
    assert_eq!(values(&engine, "karma"), [("sum".to_owned(), Value::Integer(8 * 5))], "halves, by the rule");
    // What is more than fits is the most that does, and what is no amount adds none.
    for price in [f64::NAN, -1.0, 0.004, 1e300] {
        pay(&engine, price);
    }
    let known = pollster::block_on(engine.timeline(&engine.plan().pipelines[0], "user", "ann", NOW)).unwrap();
    let hour = known.windows.iter().find(|(window, _)| *window == Span::hours(1)).unwrap();
    assert_eq!(hour.1, [15, 1334 + (1 << 40)]);
    assert_eq!(values(&engine, "total")[1].1, Value::Integer(i64::MAX), "a sum stops there");
}

#[test]
fn feedback_adds_fractions() {
    let engine = Engine::ephemeral(plan(CONFIG).unwrap()).unwrap();
    let say = |class: &str| {
        let mut event = Event::default();
        event.push("user", "ann");
        let prepared = engine.prepare(&engine.plan().pipelines[0], event, NOW);
        pollster::block_on(engine.learn(prepared, "1", class)).unwrap()
    };
    say("fraud");
    assert_eq!(values(&engine, "karma"), [("sum".to_owned(), Value::Integer(-25))]);
    say("none");
    assert_eq!(values(&engine, "karma"), [("sum".to_owned(), Value::Integer(0))]);
}

#[test]
fn what_has_no_such_decimals_is_refused() {
    let check = |old: &str, new: &str, message: &str| {
        assert!(CONFIG.contains(old), "{old}");
        let found = plan(&CONFIG.replacen(old, new, 1)).unwrap_err();
        assert!(found.contains(message), "{found}");
    };
    check("amounts = [\"paid\"]\ndecimals = 2", "amounts = [\"paid\"]", "`price` is of type float");
    check("value = \"price\"\namounts = [\"paid\"]\n", "", "nothing here has decimals");
    check("decimals = 1", "decimals = 7", "decimals");
    check(
        "karma by 0.5",
        "karma by 0.05",
        "write a number with at most 1 decimals from -1000000 to 1000000, but 0",
    );
    check("karma by -2.5", "karma by -2.55", "`-2.55` cannot be added to `karma`");
    check("decimals = 1\n", "", "write a whole number from -1000000 to 1000000, but 0");
}
