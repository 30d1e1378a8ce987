//! Rules that mark all values that contributed to a distinct count.

use std::sync::Arc;

use engine::{Decision, Engine};
use event::{Event, Span, Time};
use plan::{Config, Overrides, Plan};

const NOW: Time = Time::from_seconds(1_780_000_200);

const CONFIG: &str = r#"
name = "cards"

[[field]]
name = "ip"
type = "ip"
[[field]]
name = "country"
type = "string"

[[kind]]
name = "ip"
of = "ip"
[[kind]]
name = "country"
of = "country"

[[distinct]]
name = "addresses"
per = "country"
of = "ip"
window = "10m"
keep = 4

[[label]]
name = "tester"
of = "ip"
keep = "7d"
decision = "ban"

[[rule]]
name = "MANY"
when = "distinct('addresses', '10m') >= 3"
score = 0
effects = ["mark contributors of 'addresses' as 'tester' for 1h"]

[[rule]]
name = "TESTER"
when = "ip.marked('tester')"
score = 9

[[band]]
at = 5.0
action = "reject"
"#;

fn compiled(text: &str) -> Result<Plan, String> {
    let config = Config::from_text("cards.toml", text, &Overrides::default());
    Plan::compile(&config).map_err(|problems| problems.to_string())
}

fn payment(address: u8, country: &str, at: Time) -> (Event, Time) {
    let mut event = Event::default();
    event.push("ip", format!("192.0.2.{address}"));
    event.push("country", country);
    (event, at)
}

fn decide(engine: &Engine, events: &[(Event, Time)]) -> Vec<Decision> {
    let pipeline = Arc::clone(&engine.plan().pipelines[0]);
    let prepared = events.iter().map(|(event, at)| engine.prepare(&pipeline, event.clone(), *at)).collect();
    pollster::block_on(engine.decide(prepared))
}

/// The addresses that are banned, by their last number.
fn banned(engine: &Engine, at: Time) -> Vec<u8> {
    let is_banned = |address: &u8| !engine.ban_list().of_value(&format!("192.0.2.{address}"), at).is_empty();
    (0..20).filter(is_banned).collect()
}

#[test]
fn all_that_contributed_are_marked() {
    let events: Vec<(Event, Time)> =
        [1, 2, 2, 3].map(|address| payment(address, "XX", NOW)).into_iter().collect();
    for at_once in [false, true] {
        let engine = Engine::ephemeral(compiled(CONFIG).unwrap()).unwrap();
        let decide = |events: &[(Event, Time)]| -> Vec<Vec<String>> {
            let decisions = match at_once {
                true => decide(&engine, events),
                false => events.chunks(1).flat_map(|event| decide(&engine, event)).collect(),
            };
            let rules = |decision: &Decision| {
                decision.verdict.reasons.iter().map(|reason| reason.rule.clone()).collect()
            };
            decisions.iter().map(rules).collect()
        };
        assert!(decide(&events).iter().all(Vec::is_empty));
        decide(&[payment(9, "YY", NOW)]);
        assert!(banned(&engine, NOW).is_empty());
        // The fourth comes on top of three, and the first of them is known by now, whatever the country.
        let told = decide(&[payment(4, "XX", NOW), payment(1, "YY", NOW), payment(9, "YY", NOW)]);
        assert_eq!(told, [vec!["MANY"], vec!["TESTER"], vec![]]);
        assert_eq!(banned(&engine, NOW), [1, 2, 3, 4]);
        // The fourth and the fifth each mark the four that are the latest by then.
        let later = NOW + Span::minutes(61);
        decide(&[5, 6, 7, 8, 10].map(|address| payment(address, "XX", later)));
        assert_eq!(banned(&engine, later), [5, 6, 7, 8, 10]);
    }
}

#[test]
fn values_of_another_period_and_of_a_rule_in_shadow_are_left_alone() {
    let engine = Engine::ephemeral(compiled(CONFIG).unwrap()).unwrap();
    decide(&engine, &[payment(1, "XX", NOW - Span::minutes(30))]);
    decide(&engine, &[2, 3, 4, 5].map(|address| payment(address, "XX", NOW)));
    assert_eq!(banned(&engine, NOW), [2, 3, 4, 5]);
    let shadow = CONFIG.replacen("score = 0\n", "score = 0\nmode = \"shadow\"\n", 1);
    let engine = Engine::ephemeral(compiled(&shadow).unwrap()).unwrap();
    decide(&engine, &[2, 3, 4, 5].map(|address| payment(address, "XX", NOW)));
    assert!(banned(&engine, NOW).is_empty());
}

#[test]
fn what_cannot_be_marked_is_refused() {
    let check = |from: &str, to: &str, expected: &str| {
        let found = compiled(&CONFIG.replacen(from, to, 1)).map(|_| ()).unwrap_err();
        assert!(found.contains(expected), "{found}");
    };
    check("keep = 4\n", "", "`addresses` remembers no values: add `keep = 16` to its [[distinct]]");
    check("keep = 4\n", "keep = 65\n", "65");
    check("'addresses' as", "'adresses' as", "nothing distinct is called `adresses`");
    check("as 'tester' for", "as 'testor' for", "did you mean `tester`?");
    check("of = \"ip\"\nkeep = \"7d\"", "of = \"country\"\nkeep = \"7d\"", "define it with [[label]]");
    check("'tester' for 1h", "'tester' for 8d", "the label `tester` is kept for 7d, not for 8d");
}
