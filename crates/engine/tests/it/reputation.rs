//! Reputations, from the configuration to the verdict: who is unknown, what outcomes do, what verdicts cannot do, and what is
//! handed on.

use std::sync::Arc;

use engine::{Engine, ExplainedReputation, FeedbackInput, ReputationRanking};
use event::{Event, Shingle, Span, Time, Value};
use judge::Action;
use plan::{Config, Overrides, Plan};

use crate::pipeline::{NOW, decide_at};

const CONFIG: &str = r#"
name = "forum"

[[field]]
name = "user"
type = "string"

[[field]]
name = "ip"
type = "ip"

[[field]]
name = "abuse"
type = "bool"

[[kind]]
name = "ip"
of = "ip"

[[kind]]
name = "net"
of = "ip_net"

[[kind]]
name = "account"
of = "user"

[[kind]]
name = "karma"
of = "user"

[[statistic]]
name = "counts"
keys = ["ip", "net", "account"]
counts = ["seen", "complaint", "liked", "refused"]
windows = ["10m x 144", "1d x 30"]

[[statistic]]
name = "karma"
keys = ["karma"]
aggregate = ["count"]
decay = ["30d"]
keep = "365d"
observe = false

[[distinct]]
name = "bad_addresses"
per = "net"
of = "ip"
window = "1d x 30"

[settle]
refused = ["reject"]

[feedback]
complaint = ["complaint", "bad_addresses"]
liked = ["liked"]

[[reputation]]
name = "account"
of = "account"
half_life = "7d"
parts = [
    { counter = "liked", weight = 1.0 },
    { counter = "complaint", weight = -5.0 },
    { decayed = "30d", kind = "karma", weight = 0.5, source = "outcome" },
]
includes = [{ reputation = "address", weight = 10.0 }]

[[reputation]]
name = "address"
of = "ip"
half_life = "1d"
parts = [
    { counter = "liked", weight = 1.0 },
    { counter = "complaint", weight = -5.0 },
    { counter = "refused", weight = -1.0 },
]
inherits = { from = "network" }

[[reputation]]
name = "network"
of = "net"
half_life = "7d"
parts = [
    { distinct = "bad_addresses", weight = -5.0 },
    { counter = "refused", weight = -1.0 },
]

[[rule]]
name = "ABUSE"
when = "abuse"
score = 9
effects = ["add karma by -20"]

[[rule]]
name = "BAD_ADDRESS"
when = "grade('address') == 'bad' || grade('network') == 'bad'"
score = 9

[[rule]]
name = "SUSPECT"
when = "reputation('address') <= -25.0"
score = 2

[[band]]
at = 5.0
action = "reject"
"#;

fn plan(text: &str) -> Result<Plan, String> {
    let config = Config::from_text("forum.toml", text, &Overrides::default());
    Plan::compile(&config).map_err(|problems| problems.to_string())
}

fn engine() -> Engine {
    Engine::ephemeral(plan(CONFIG).unwrap()).unwrap()
}

fn post(user: &str, ip: &str, abuse: bool) -> Event {
    let mut event = Event::default();
    event.push("user", user);
    event.push("ip", ip);
    event.push("abuse", abuse);
    event
}

/// Feedback on an event of an account at an address.
fn say(engine: &Engine, id: &str, class: &str, (user, ip): (&str, &str), at: Time) {
    let pipeline = Arc::clone(&engine.plan().pipelines[0]);
    let prepared = engine.prepare(&pipeline, post(user, ip, false), at);
    pollster::block_on(engine.learn(prepared, id, FeedbackInput::from(class))).unwrap();
}

/// The reputations of an account and its address.
fn known(engine: &Engine, user: &str, ip: &str, at: Time) -> Vec<ExplainedReputation> {
    let pipeline = Arc::clone(&engine.plan().pipelines[0]);
    let prepared = engine.prepare(&pipeline, post(user, ip, false), at);
    let seen = pollster::block_on(engine.peek(prepared)).unwrap();
    for reputation in &seen.reputations {
        // What rules see is what is explained.
        let fact = |function: &str| {
            let name = format!("{function}('{}')", reputation.name);
            seen.facts.iter().find(|(known, _)| *known == name).map(|(_, value)| value.clone())
        };
        assert_eq!(fact("reputation"), Some(Value::Float(reputation.score)));
        assert_eq!(fact("grade"), Some(Value::from(reputation.grade.name())));
        assert_eq!(fact("evidence"), Some(Value::Float(reputation.evidence)));
    }
    seen.reputations
}

/// Score, to a tenth, and grade of one reputation.
fn one(engine: &Engine, name: &str, user: &str, ip: &str) -> (f64, &'static str) {
    let known = known(engine, user, ip, NOW);
    let found = known.iter().find(|known| known.name == name).unwrap();
    ((found.score * 10.0).round() / 10.0, found.grade.name())
}

#[test]
fn who_is_new_is_unknown() {
    let engine = engine();
    for name in ["account", "address", "network"] {
        assert_eq!(one(&engine, name, "ann", "192.0.2.1"), (0.0, "unknown"), "{name}");
    }
    let decision = decide_at(&engine, post("ann", "192.0.2.1", false), NOW);
    assert_eq!(decision.verdict.action, Action::Accept);
}

#[test]
fn one_abuser_in_an_office_does_not_make_its_address_bad() {
    let engine = engine();
    for round in 0..300 {
        let at = NOW + Span::seconds(round);
        let abuse = decide_at(&engine, post("eve", "192.0.2.1", true), at);
        assert_eq!(abuse.verdict.action, Action::Reject);
        for user in ["ann", "bob", "cid", "dan", "fay", "gus", "hal", "ida", "jim"] {
            let decision = decide_at(&engine, post(user, "192.0.2.1", false), at);
            assert_eq!(
                decision.verdict.action,
                Action::Accept,
                "{user} in round {round}: {:?}",
                decision.verdict
            );
            let rules = decision.verdict.reasons;
            assert!(rules.is_empty(), "{user} in round {round}: {rules:?}");
        }
    }
    let at = NOW + Span::seconds(300);
    let office = known(&engine, "ann", "192.0.2.1", at);
    let of = |name: &str| office.iter().find(|known| known.name == name).unwrap();
    assert_eq!((of("address").score, of("address").grade.name()), (-15.0, "unknown"));
    assert_eq!((of("address").evidence, of("network").evidence), (0.0, 0.0));
    assert_eq!((of("network").score, of("account").score), (-15.0, 0.0));
    // Neighbours have nothing of it.
    let neighbour = known(&engine, "kim", "192.0.2.2", at);
    let address = neighbour.iter().find(|known| known.name == "address").unwrap();
    assert_eq!((address.score, address.grade.name(), address.reasons.len()), (0.0, "unknown", 0));
}

#[test]
fn a_network_is_judged_by_how_many_of_its_addresses_misbehaved() {
    let (loud, many) = (engine(), engine());
    for number in 0..20 {
        let id = number.to_string();
        say(&loud, &id, "complaint", ("eve", "192.0.2.1"), NOW);
        let other = format!("192.0.2.{}", 100 + number % 5);
        say(&many, &id, "complaint", ("eve", &other), NOW);
    }
    assert_eq!(one(&loud, "network", "ann", "192.0.2.9"), (-33.3, "suspicious"));
    assert_eq!(one(&loud, "address", "ann", "192.0.2.1").1, "bad");
    // Inherited at half, so that a new address is not bad before it did anything.
    assert_eq!(one(&loud, "address", "ann", "192.0.2.9"), (-16.7, "unknown"));
    assert_eq!(one(&many, "network", "ann", "192.0.2.9"), (-71.4, "bad"));
    assert_eq!(one(&many, "address", "ann", "192.0.2.9"), (-35.7, "suspicious"));
    assert_eq!(one(&many, "address", "ann", "198.51.100.9"), (0.0, "unknown"));
    // What is good of an address soon outweighs what it began with.
    for number in 0..10 {
        say(&many, &format!("good {number}"), "liked", ("ann", "192.0.2.9"), NOW);
    }
    assert_eq!(one(&many, "address", "ann", "192.0.2.9"), (32.1, "known"));
}

#[test]
fn karma_sums_up_what_belongs_to_an_account_and_is_spent() {
    let engine = engine();
    for number in 0..30 {
        say(&engine, &number.to_string(), "liked", ("ann", "192.0.2.1"), NOW);
    }
    // 30 of its own and ten times 0.75 of its address.
    assert_eq!(one(&engine, "address", "ann", "192.0.2.1"), (75.0, "trusted"));
    assert_eq!(one(&engine, "account", "ann", "192.0.2.1"), (78.9, "trusted"));
    assert_eq!(one(&engine, "account", "ann", "198.51.100.9"), (75.0, "trusted"));
    assert_eq!(one(&engine, "account", "bob", "192.0.2.1"), (42.9, "known"), "of the address alone");
    decide_at(&engine, post("ann", "192.0.2.1", true), NOW);
    let (score, grade) = one(&engine, "account", "ann", "198.51.100.9");
    assert_eq!((score, grade), (40.0, "known"), "20 of karma, at a weight of a half");
}

/// Takes something of what addresses are known for, once a day for each that an account comes from.
const COMPANY: &str = r#"
[[distinct]]
name = "addresses_used"
per = "account"
of = "ip"
window = "1d"

[[rule]]
name = "BAD_COMPANY"
when = "is_new('addresses_used') && reputation('address') < 0.0"
share = "-reputation('address') / 100.0"
score = 0
effects = ["add karma by -40 times share"]
"#;

#[test]
fn karma_remembers_every_address_that_an_account_used() {
    let engine = Engine::ephemeral(plan(&format!("{CONFIG}{COMPANY}")).unwrap()).unwrap();
    let bad = ["192.0.2.1", "198.51.100.1", "203.0.113.1"];
    for (ip, complaints) in bad.iter().zip([2, 6, 18]) {
        for number in 0..complaints {
            say(&engine, &format!("{ip} {number}"), "complaint", ("mal", ip), NOW);
        }
    }
    let karma = || {
        let pipeline = Arc::clone(&engine.plan().pipelines[0]);
        let told = pollster::block_on(engine.timeline(&pipeline, "karma", "ann", NOW)).unwrap();
        told.values.iter().find(|(name, _)| name.starts_with("decayed")).map(|(_, value)| value.clone())
    };
    let mut expected = 0.0;
    for ip in bad {
        expected -= (0.4 * -one(&engine, "address", "ann", ip).0).round();
        for _ in 0..3 {
            decide_at(&engine, post("ann", ip, false), NOW);
        }
        assert_eq!(karma(), Some(Value::Float(expected)), "{ip}: once a day");
    }
    assert!(expected < -60.0, "{expected}");
    let (score, grade) = one(&engine, "account", "ann", "100.64.0.1");
    assert!(score < -70.0 && grade == "bad", "{score} {grade}: at an address of which nothing is known");
    assert_eq!(one(&engine, "account", "bob", "100.64.0.1"), (0.0, "unknown"));
    // Good addresses take nothing, and neither does one of which nothing is known.
    decide_at(&engine, post("ann", "100.64.0.1", false), NOW);
    assert_eq!(karma(), Some(Value::Float(expected)));
}

#[test]
fn a_part_of_a_value_needs_a_share_and_an_aggregate() {
    let check = |old: &str, new: &str, message: &str| {
        assert!(COMPANY.contains(old), "{old}");
        let found = plan(&format!("{CONFIG}{}", COMPANY.replacen(old, new, 1))).unwrap_err();
        assert!(found.contains(message), "{found}");
    };
    check("share = ", "description = ", "the rule has no share");
    check("karma by -40", "ip.complaint by 40", "counters go up by whole numbers");
    check("by -40", "by 0", "`0` cannot be added");
    check("times share", "times", "`add` is not followed by what it needs");
}

#[test]
fn evidence_is_forgotten_by_half_lives() {
    let engine = engine();
    for number in 0..6 {
        say(&engine, &number.to_string(), "complaint", ("eve", "192.0.2.1"), NOW);
    }
    let score = |days: i64| {
        let known = known(&engine, "ann", "192.0.2.1", NOW + Span::days(days));
        known.iter().find(|known| known.name == "address").map(|known| known.grade.name()).unwrap()
    };
    assert_eq!(score(0), "bad");
    let later: Vec<_> = (1..=8).map(score).collect();
    // It never gets worse again, and what is left is what the network is remembered for.
    assert!(
        later.is_sorted_by_key(|grade| judge::GRADES.iter().position(|known| known == grade)),
        "{later:?}"
    );
    assert_eq!(later.last(), Some(&"unknown"));
}

#[test]
fn the_order_in_which_things_happen_does_not_matter() {
    let happens = |engine: &Engine, number: usize| {
        let (user, ip) =
            (["ann", "bob", "eve"][number % 3], ["192.0.2.1", "192.0.2.2", "192.0.2.77"][number / 3 % 3]);
        let at = NOW - Span::hours((number * 7 % 60) as i64);
        let class = if number % 4 == 1 { "liked" } else { "complaint" };
        say(engine, &number.to_string(), class, (user, ip), at);
    };
    let (forth, back) = (engine(), engine());
    (0..60).for_each(|number| happens(&forth, number));
    (0..60).rev().for_each(|number| happens(&back, number));
    // Each engine has a secret of its own, and so other hashes.
    let known = |engine: &Engine, user: &str, ip: &str| {
        let mut known = known(engine, user, ip, NOW);
        known.iter_mut().for_each(|known| known.shingle = Shingle(0));
        known
    };
    for user in ["ann", "bob", "eve", "new"] {
        for ip in ["192.0.2.1", "192.0.2.2", "192.0.2.77", "192.0.2.200"] {
            assert_eq!(known(&forth, user, ip), known(&back, user, ip), "{user} {ip}");
        }
    }
}

#[test]
fn a_look_at_a_key_says_what_events_see() {
    let engine = engine();
    for number in 0..4 {
        let ip = format!("192.0.2.{number}");
        decide_at(&engine, post("eve", &ip, true), NOW);
        say(&engine, &number.to_string(), "complaint", ("eve", &ip), NOW);
    }
    let pipeline = Arc::clone(&engine.plan().pipelines[0]);
    let look = |kind: &str, value: &str| {
        pollster::block_on(engine.timeline(&pipeline, kind, value, NOW)).unwrap().reputations
    };
    let seen = known(&engine, "ann", "192.0.2.3", NOW);
    let of = |name: &str| seen.iter().filter(|known| known.name == name).cloned().collect::<Vec<_>>();
    assert_eq!(look("ip", "192.0.2.3"), of("address"), "with what its network is known for");
    assert_eq!(look("net", "192.0.2.0/24"), of("network"));
    assert!(look("karma", "eve").is_empty());
    let eve = look("account", "eve");
    assert_eq!(eve.len(), 1);
    let reasons: Vec<_> = eve[0].reasons.iter().map(|reason| (reason.part.as_str(), reason.amount)).collect();
    assert_eq!(reasons, [("account.complaint", 4.0), ("karma.decayed('30d')", -80.0)]);
    // What outcomes add is the score.
    let sum: f64 = eve[0].reasons.iter().map(|reason| reason.adds).sum();
    assert!((sum - eve[0].score).abs() < 0.001, "{eve:?}");
    let source = |part: &str| {
        let network = of("network");
        network[0].reasons.iter().find(|reason| reason.part == part).map(|reason| reason.source)
    };
    assert_eq!(source("distinct('bad_addresses')"), Some("outcome"));
    assert_eq!(source("net.refused"), Some("verdict"));
}

#[test]
fn the_worst_and_the_best_are_ranked() {
    let engine = engine();
    let say = |ip: &str, class: &str, count: usize, at: Time| {
        (0..count).for_each(|number| say(&engine, &format!("{ip} {number}"), class, ("eve", ip), at));
    };
    say("192.0.2.1", "complaint", 6, NOW);
    say("198.51.100.1", "complaint", 1, NOW);
    say("203.0.113.1", "complaint", 2, NOW);
    say("100.64.0.1", "liked", 20, NOW);
    say("198.18.0.1", "complaint", 4, NOW - Span::hours(5));
    let pipeline = Arc::clone(&engine.plan().pipelines[0]);
    let rank = |name: &str, is_best: bool, within: Span, limit: usize| {
        let asked = ReputationRanking { name, is_best, within, limit };
        let ranked = pollster::block_on(engine.rank_reputations(&pipeline, asked, NOW, &|| false));
        ranked.map(|ranked| ranked.iter().map(|one| one.reputation.score.round()).collect::<Vec<_>>())
    };
    let hour = Span::hours(1);
    assert_eq!(rank("address", false, hour, 10).unwrap(), [-75.0, -50.0, -33.0]);
    assert_eq!(rank("address", false, Span::hours(10), 2).unwrap(), [-75.0, -67.0]);
    assert_eq!(rank("address", true, hour, 10).unwrap(), [67.0]);
    assert_eq!(rank("network", false, hour, 10).unwrap(), [-33.0, -33.0, -33.0]);
    assert_eq!(rank("account", true, hour, 10).unwrap(), [0.0; 0]);
    let refused = rank("adress", false, hour, 10).unwrap_err().to_string();
    assert!(refused.contains("adress") && refused.contains("did you mean `address`"), "{refused}");
}

#[test]
fn what_cannot_be_a_reputation_is_refused() {
    let check = |old: &str, new: &str, message: &str| {
        assert!(CONFIG.contains(old), "{old}");
        let found = plan(&CONFIG.replacen(old, new, 1)).unwrap_err();
        assert!(found.contains(message), "{found}");
    };
    let part = "{ counter = \"refused\", weight = -1.0 },\n]\ninherits";
    let with = |part: &str| format!("{part},\n]\ninherits");
    check(part, &with("{ counter = \"refuse\", weight = -1.0 }"), "no counter `refuse`");
    check(part, &with("{ weight = -1.0 }"), "the part has nothing that it counts");
    check(
        part,
        &with("{ counter = \"seen\", decayed = \"30d\", weight = 1.0 }"),
        "the part has `counter` and `decayed`",
    );
    check(part, &with("{ counter = \"refused\" }"), "`parts` has no `weight`");
    check(part, &with("{ counter = \"refused\", weight = 0 }"), "`weight` is 0");
    check(
        part,
        &with("{ counter = \"refused\", kind = \"account\", weight = 1.0 }"),
        "`account` has other keys than `ip`",
    );
    check(part, &with("{ decayed = \"30d\", weight = 1.0 }"), "the aggregate of `ip` has no half-life 30d");
    check(part, &with("{ distinct = \"bad\", weight = 1.0 }"), "nothing distinct is called `bad`");
    check(part, &with("{ distinct = \"bad_addresses\", weight = 1.0 }"), "`net` has other keys than `ip`");
    check(
        part,
        &with("{ counter = \"refused\", weight = -1.0, source = \"outcome\" }"),
        "`ip.refused` counts verdicts: [settle] adds to it",
    );
    check("half_life = \"1d\"\n", "", "the part has no half-life");
    check("half_life = \"1d\"\n", "half_life = \"60d\"\n", "`half_life` is 60d, and 30d are kept");
    check("half_life = \"1d\"\n", "half_life = \"1m\"\n", "no tier can answer the window 1m");
    check(
        "complaint = [\"complaint\", \"bad_addresses\"]",
        "complaint = [\"complaint\"]",
        "every event adds to `bad_addresses`",
    );
    check("{ from = \"network\" }", "{ from = \"networks\" }", "there is no reputation `networks`");
    check("{ from = \"network\" }", "{ from = \"network\", discount = 2 }", "`discount` is 2");
    check(
        "{ from = \"network\" }",
        "{ from = \"network\", discount = 0.6 }",
        "verdicts alone could make the reputation",
    );
    check("{ from = \"network\" }", "{ from = \"account\" }", "reputation `account` depends on itself");
    check(
        "of = \"ip\"\nhalf_life",
        "of = \"ip\"\nverdict_weight_max = 70\nhalf_life",
        "verdicts alone could make",
    );
    check("of = \"ip\"\nhalf_life", "of = \"ip\"\nprior = 0\nhalf_life", "`prior` is 0");
    check("of = \"ip\"\nhalf_life", "of = \"ip\"\nfloor = 10\nhalf_life", "`floor` is 10");
    check(
        "of = \"ip\"\nhalf_life",
        "of = \"ip\"\ngrades = { known = -1 }\nhalf_life",
        "the grades are bad -70",
    );
    check(
        "of = \"ip\"\nhalf_life",
        "of = \"ip\"\ngrades = { hysteresis = 25 }\nhalf_life",
        "`hysteresis` is 25",
    );
    check("name = \"address\"\nof", "name = \"account\"\nof", "reputation `account` is defined twice");
    check("grade('network') == 'bad'", "grade('network') == 'worse'", "no grade is called `worse`");
    check("grade('network') == 'bad'", "grade('net') == 'bad'", "there is no reputation `net`");
    check("grade('network') == 'bad'", "is_new('bad_addresses')", "`bad_addresses` is counted by feedback");
    check(
        "per = \"net\"\nof = \"ip\"\n",
        "per = \"net\"\nof = \"ip\"\nmethod = \"approximate\"\n",
        "feedback cannot add to `bad_addresses`",
    );
    check(
        "per = \"net\"\nof = \"ip\"\n",
        "per = \"net\"\nof = \"abuse\"\n",
        "feedback cannot add to `bad_addresses`",
    );
}

#[test]
fn the_example_of_the_guide_is_taken() {
    let guide = include_str!("../../../../docs/guides/reputation.md");
    let blocks = guide.split("\n```toml\n").skip(1).filter_map(|rest| rest.split("\n```").next());
    let blocks: Vec<&str> = blocks.collect();
    assert_eq!(blocks.len(), 2);
    let karma = "{ decayed = \"30d\", kind = \"karma\", weight = 0.5, source = \"outcome\" }";
    assert!(guide.replace('\n', " ").contains(karma));
    let text = format!("name = \"guide\"\n\n{}", blocks.join("\n"));
    let likes = "half_life = \"7d\"\nparts = [{ counter = \"liked\"";
    assert!(text.contains(likes));
    plan(&text.replace(likes, &format!("half_life = \"7d\"\nparts = [{karma}, {{ counter = \"liked\"")))
        .unwrap();
}
