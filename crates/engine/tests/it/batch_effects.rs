//! Events of a batch are judged as they would be one by one: by what the verdicts on those before them add, too.

use std::sync::Arc;

use engine::backtest::BacktestQuery;
use engine::batch::{BatchCells, BatchColumn, EventBatch};
use engine::{Decision, Directory, Engine};
use event::{Event, Secret, Span, Time, Value};
use plan::{Config, Overrides, Plan};
use stats::random::Random;

use crate::backtest::replayed;

const NOW: Time = Time::from_seconds(1_780_000_000);

/// Addresses, users and lists of tags; the text behind it gives the rules.
const BASE: &str = r#"
name = "door"
input = "json"

[[field]]
name = "ip"
type = "ip"
[[field]]
name = "user"
type = "string"
[[field]]
name = "path"
type = "string"
[[field]]
name = "tags"
type = "list"

[[kind]]
name = "ip"
of = "ip"
[[kind]]
name = "user"
of = "user"
[[kind]]
name = "tag"
of = "tags"
[[kind]]
name = "karma"
of = "user"
[[kind]]
name = "pair"
of = ["ip", "user"]

[[statistic]]
name = "counts"
keys = ["ip", "user", "tag"]
counts = ["seen", "caught", "bad"]
windows = ["1m x 60", "1h x 48"]
[[statistic]]
name = "karma"
keys = ["karma"]
aggregate = ["count", "sum", "min", "max"]
decay = ["1h"]
keep = "30d"
observe = false

[[label]]
name = "scanner"
of = "ip"
keep = "7d"
decision = "ban"
[[label]]
name = "locked"
of = "user"
keep = "7d"
[[label]]
name = "odd"
of = "tag"
keep = "7d"
[[label]]
name = "paired"
of = "pair"
keep = "7d"

[settle]
bad = ["reject"]
"karma by -5" = ["reject"]

[[band]]
at = 5.0
action = "reject"
"#;

fn plan(text: &str) -> Plan {
    let config = Config::from_text("door.toml", text, &Overrides::default());
    Plan::compile(&config).unwrap_or_else(|problems| panic!("{problems}\n{text}"))
}

fn engine(rules: &str) -> Engine {
    Engine::ephemeral_with(plan(&format!("{BASE}{rules}")), Secret::new([7; Secret::BYTES])).unwrap()
}

fn visit(ip: &str, user: &str, path: &str, tags: &[&str]) -> Event {
    let mut event = Event::default();
    event.push("ip", ip);
    event.push("user", user);
    event.push("path", path);
    event.push("tags", Value::List(tags.iter().map(|tag| (*tag).into()).collect()));
    event
}

/// Decides events as one batch, each as of its own arrival.
fn together(engine: &Engine, events: &[(Event, Time)]) -> Vec<Decision> {
    let pipeline = Arc::clone(&engine.plan().pipelines[0]);
    let prepared = events.iter().map(|(event, at)| engine.prepare(&pipeline, event.clone(), *at)).collect();
    pollster::block_on(engine.decide(prepared))
}

fn one_by_one(engine: &Engine, events: &[(Event, Time)]) -> Vec<Decision> {
    events.chunks(1).flat_map(|event| together(engine, event)).collect()
}

/// A way to decide on events that arrive at these times.
type EventDecider = fn(&Engine, &[(Event, Time)]) -> Vec<Decision>;

/// Both ways, which are to come to the same.
const DECIDE: [EventDecider; 2] = [together, one_by_one];

/// A text with its numbers to nine places: decayed sums are added up in another order.
fn rounded(text: &str) -> String {
    let round = |word: &str| {
        let number = word.trim_end_matches([',', ';']);
        match number.parse::<f64>() {
            Ok(value) => format!("{value:.9}{}", &word[number.len()..]),
            Err(_) => word.to_owned(),
        }
    };
    text.split(' ').map(round).collect::<Vec<_>>().join(" ")
}

/// The action, and each reason with the values that the rule saw.
fn told(decision: &Decision) -> (String, Vec<String>) {
    let reasons = decision.verdict.reasons.iter();
    let reasons = reasons.map(|reason| format!("{}: {}", reason.rule, rounded(&reason.detail)));
    (format!("{:?}", decision.verdict.action), reasons.collect())
}

const CONDITIONS: [&str; 20] = [
    "path == '/a'",
    "path == '/b'",
    "ip.seen('1m') >= 2",
    "ip.seen('1h') % 3 == 2",
    "ip.caught('1m') >= 3",
    "ip.caught('1h') == 2",
    "ip.caught('2d') > 8",
    "user.caught('1h') >= 2",
    "tag.caught('1h') >= 2",
    "user.bad('1d') >= 2",
    "ratio(ip.caught('1h'), ip.seen('1h'), 2) > 0.5",
    "ip.marked('scanner')",
    "!ip.marked('scanner')",
    "user.marked('locked')",
    "tag.marked('odd')",
    "!pair.marked('paired')",
    "karma.sum() < -8",
    "karma.count() >= 2",
    "karma.min() < -4 || karma.max() > 2",
    "karma.decayed('1h') < -7.25",
];

const TAGS: [&[&str]; 4] = [&["x"], &["x", "y"], &[], &["z", "y", "x"]];

const EFFECTS: [&str; 15] = [
    "mark ip as 'scanner' for 20s",
    "mark ip as 'scanner' for 2h",
    "mark user as 'locked' for 5m to 10m",
    "mark tag as 'odd' for 1h",
    "mark pair as 'paired' for 1m",
    "add ip.caught",
    "add ip.caught by 2",
    "add user.caught by 3",
    "add tag.caught",
    "add karma by -3",
    "add karma by 3",
    "clear ip.caught",
    "clear user.caught",
    "clear tag.caught",
    "clear user.bad",
];

/// Some rules, each with a condition of two parts at most.
fn rules(random: &mut Random, base: &str, conditions: &[&str], effects: &[&str]) -> String {
    let rule = |number: u64, random: &mut Random| {
        let mut when = (*random.pick(conditions)).to_owned();
        if random.one_in(2) {
            let other = random.pick(conditions);
            let sign = if random.one_in(3) { "||" } else { "&&" };
            when = format!("({when}) {sign} ({other})");
        }
        let mut effects: Vec<&str> = (0..random.below(4)).map(|_| *random.pick(effects)).collect();
        if random.one_in(6) {
            effects.push("set reject");
        }
        let effects: Vec<String> = effects.iter().map(|effect| format!("\"{effect}\"")).collect();
        let score = random.below(5);
        format!(
            "[[rule]]\nname = \"R{number}\"\nwhen = \"{when}\"\nscore = {score}\neffects = [{}]\n",
            effects.join(", ")
        )
    };
    // Some are refused: they can never be true.
    loop {
        let text: String = (0..3 + random.below(8)).map(|number| rule(number, random)).collect();
        let config = Config::from_text("door.toml", &format!("{base}{text}"), &Overrides::default());
        if Plan::compile(&config).is_ok() {
            return text;
        }
    }
}

/// Events of a few addresses and users, some seconds apart, and now and then hours; some come late, if that is wanted.
fn events(random: &mut Random, count: usize, some_are_late: bool) -> Vec<(Event, Time)> {
    let mut arrival = NOW;
    let event = |_| {
        arrival = arrival
            + match random.below(20) {
                0 => Span::hours(random.between(1, 30)),
                1..=3 => Span::minutes(random.between(1, 5)),
                _ => Span::seconds(random.between(0, 9)),
            };
        let ip = random.pick(&["192.0.2.1", "192.0.2.2", "2001:db8::1"]);
        let user = random.pick(&["ann", "bob", "cid", "dan"]);
        let path = random.pick(&["/a", "/b", "/c"]);
        let tags = random.pick(&TAGS);
        let mut event = visit(ip, user, path, tags);
        if some_are_late && random.one_in(8) {
            event.time = Some(arrival - Span::seconds(random.between(0, 300)));
        }
        (event, arrival)
    };
    (0..count).map(event).collect()
}

#[test]
fn a_batch_is_judged_as_its_events_one_by_one() {
    let (mut fired, mut rejected) = (0, 0);
    for seed in 0..120 {
        let random = &mut Random::new(seed);
        // A decayed sum that is read as of before what was added is not quite the same.
        let some_are_late = seed % 2 == 0;
        let conditions = &CONDITIONS[..CONDITIONS.len() - usize::from(some_are_late)];
        let rules = rules(random, BASE, conditions, &EFFECTS);
        let (single, batch) = (engine(&rules), engine(&rules));
        let events = events(random, 150, some_are_late);
        let expected = one_by_one(&single, &events);
        let mut found = Vec::new();
        while found.len() < events.len() {
            let size = 1 + random.below(60) as usize;
            let end = events.len().min(found.len() + size);
            found.extend(together(&batch, &events[found.len()..end]));
        }
        for (at, (expected, found)) in expected.iter().zip(&found).enumerate() {
            assert_eq!(told(found), told(expected), "seed {seed}, event {at}: {:?}\n{rules}", events[at]);
            fired += expected.verdict.reasons.len();
            rejected += usize::from(expected.verdict.action == judge::Action::Reject);
        }
    }
    assert!(fired > 10_000 && rejected > 1_000, "{fired} reasons, {rejected} rejected");
}

/// Limits of all sorts, of which rules read what is left, and clear some.
const LIMITS: &str = r#"
[[limit]]
name = "all"
key = ["user"]
count = 3
per = "1m"
when = "path != '/c'"
[[limit]]
name = "allowed"
key = ["ip"]
count = 2
per = "5m"
mode = "interpolated"
counts = "allowed"
when = "true"
[[limit]]
name = "bucket"
key = ["user"]
count = 4
per = "1h"
burst = 2
mode = "gcra"
when = "path == '/a'"
[[limit]]
name = "daily"
key = ["ip:network", "user"]
count = 5
per = "day"
mode = "calendar"
when = "true"
"#;

/// Conditions on these limits, and on what they stand beside.
const LIMIT_CONDITIONS: [&str; 9] = [
    "path == '/b'",
    "over('all')",
    "over('allowed')",
    "remaining('allowed') >= 1",
    "over('bucket')",
    "remaining('bucket') == 1",
    "remaining('daily') < 3",
    "!over('daily')",
    "user.caught('1h') >= 3",
];
/// Effects on them.
const LIMIT_EFFECTS: [&str; 6] = [
    "clear limit all",
    "clear limit allowed",
    "clear limit bucket",
    "clear limit daily",
    "add user.caught",
    "clear user.caught",
];

#[test]
fn limits_are_cleared_for_later_events_of_a_batch() {
    let base = format!("{BASE}{LIMITS}");
    let (mut fired, mut cleared) = (0, 0);
    for seed in 0..80 {
        let random = &mut Random::new(seed);
        let text = format!("{base}{}", rules(random, &base, &LIMIT_CONDITIONS, &LIMIT_EFFECTS));
        let engine = || Engine::ephemeral_with(plan(&text), Secret::new([7; Secret::BYTES])).unwrap();
        let (single, batch) = (engine(), engine());
        let mut rest = events(random, 150, false);
        while !rest.is_empty() {
            let size = rest.len().min(1 + random.below(40) as usize);
            let mut events: Vec<(Event, Time)> = rest.drain(..size).collect();
            // A limit goes by arrival, and the events of a batch arrive at once.
            let arrival = events.iter().map(|(_, at)| *at).max().unwrap();
            events.iter_mut().for_each(|(_, at)| *at = arrival);
            let (expected, found) = (one_by_one(&single, &events), together(&batch, &events));
            for (at, (expected, found)) in expected.iter().zip(&found).enumerate() {
                assert_eq!(told(found), told(expected), "seed {seed}, event {at}: {:?}\n{text}", events[at]);
                fired += expected.verdict.reasons.len();
                let effects = expected.verdict.effects.iter();
                cleared += effects.filter(|due| matches!(due.effect, judge::Effect::ClearLimit(_))).count();
            }
        }
    }
    assert!(fired > 5_000 && cleared > 2_000, "{fired} reasons, {cleared} cleared");
}

#[test]
fn a_success_gives_a_limit_back() {
    let rules = "[[limit]]\nname = \"failures\"\nkey = [\"ip\"]\ncount = 3\nper = \"10m\"\nwhen = \"path == '/failed'\"\n\
        [[rule]]\nname = \"MANY\"\nwhen = \"over('failures')\"\nscore = 9\n\
        [[rule]]\nname = \"IN\"\nwhen = \"path == '/in'\"\nscore = 0\neffects = [\"clear limit failures\"]\n";
    let paths = [
        "/failed", "/failed", "/failed", "/in", "/failed", "/failed", "/failed", "/failed", "/in", "/failed",
    ];
    let events: Vec<(Event, Time)> =
        paths.iter().map(|path| (visit("192.0.2.1", "ann", path, &[]), NOW)).collect();
    for decide in DECIDE {
        let engine = engine(rules);
        let many = |events: &[(Event, Time)]| fired_by(&decide(&engine, events), "MANY");
        assert_eq!(many(&events), [7]);
        // One was taken behind the last success, and no more.
        assert_eq!(many(&events[..3]), [2]);
    }
    let config = Config::from_text(
        "door.toml",
        &format!("{BASE}{}", rules.replace("clear limit failures", "clear limit failure")),
        &Overrides::default(),
    );
    let problems = Plan::compile(&config).map(|_| ()).unwrap_err().to_string();
    assert!(problems.contains("there is no limit `failure`: did you mean `failures`?"), "{problems}");
}

/// Jails as of fail2ban: an address that fails three times is banned, for longer each time, and one that was banned five times is
/// banned everywhere.
const JAIL: &str = r#"
[[kind]]
name = "jail"
of = "ip"
[[statistic]]
name = "jail"
keys = ["jail"]
counts = ["seen", "bans"]
windows = ["10s x 61", "1d x 31"]
[[label]]
name = "banned"
of = "jail"
keep = "7d"
decision = "ban"
[[label]]
name = "recidive"
of = "jail"
keep = "7d"
decision = "ban"
[[rule]]
name = "JAIL_1"
when = "jail.seen('10m') >= 2 && !jail.marked('banned') && jail.bans('30d') == 0"
score = 0
effects = ["mark jail as 'banned' for 10m", "set reject", "add jail.bans"]
[[rule]]
name = "JAIL_2"
when = "jail.seen('10m') >= 2 && !jail.marked('banned') && jail.bans('30d') >= 1"
score = 0
effects = ["mark jail as 'banned' for 1h", "set reject", "add jail.bans"]
[[rule]]
name = "RECIDIVE"
when = "jail.bans('1d') >= 4 && (rule('JAIL_1') || rule('JAIL_2'))"
score = 0
effects = ["mark jail as 'recidive' for 7d"]
"#;

fn fired(decisions: &[Decision]) -> Vec<(usize, &str)> {
    let reasons = decisions.iter().enumerate().flat_map(|(at, decision)| {
        decision.verdict.reasons.iter().map(move |reason| (at, reason.rule.as_str()))
    });
    reasons.collect()
}

#[test]
fn a_burst_is_one_ban() {
    let engine = engine(JAIL);
    let burst = |at: Time| vec![(visit("192.0.2.1", "root", "/failed", &[]), at); 20];
    assert_eq!(fired(&together(&engine, &burst(NOW))), [(2, "JAIL_1")]);
    assert!(fired(&together(&engine, &burst(NOW + Span::minutes(5)))).is_empty());
    // The ban of ten minutes is over, and the next is the second.
    assert_eq!(fired(&together(&engine, &burst(NOW + Span::minutes(30)))), [(2, "JAIL_2")]);
    let bans = engine.ban_list().of_value("192.0.2.1", NOW + Span::minutes(30));
    let of: Vec<(&str, Time)> = bans.iter().map(|ban| (&*ban.source.label, ban.until)).collect();
    assert_eq!(of, [("banned", NOW + Span::minutes(90))]);
}

/// The guide's sequence, in one batch.
#[test]
fn failures_and_the_success_behind_them_may_be_one_batch() {
    let guide = include_str!("../../../../docs/guides/rules.md");
    let mut blocks = guide.split("\n```toml\n").skip(1).filter_map(|rest| rest.split("\n```").next());
    let text = blocks.find(|block| block.contains("TAKEOVER")).unwrap();
    let engine =
        Engine::ephemeral(plan(&format!("{text}\n[[band]]\nat = 5.0\naction = \"reject\"\n"))).unwrap();
    let login = |name: &str, succeeds: bool| {
        let mut event = Event::default();
        event.push("login", name);
        event.push("succeeds", succeeds);
        (event, NOW)
    };
    let mut events = vec![login("ann", false); 4];
    events.extend([login("bob", true), login("ann", true)]);
    // Hers that succeeded has cleared her four failures, and none of another's.
    events.extend(vec![login("cid", false); 3]);
    events.extend(vec![login("ann", false); 4]);
    events.extend([login("bob", true), login("ann", false), login("ann", true), login("ann", true)]);
    events.extend([login("cid", false), login("cid", false), login("cid", true)]);
    let taken_over = |decisions: &[Decision]| fired_by(decisions, "TAKEOVER");
    assert_eq!(taken_over(&together(&engine, &events)), [15, 19]);
    // What was cleared behind the batch is cleared in the ledger.
    assert!(taken_over(&one_by_one(&engine, &[login("ann", true), login("cid", true)])).is_empty());
    let mut late = vec![login("bob", false); 5];
    late.iter_mut().for_each(|(_, at)| *at = NOW + Span::seconds(5));
    together(&engine, &late);
    let (mut success, at) = login("bob", true);
    success.time = Some(at + Span::seconds(90));
    assert!(taken_over(&together(&engine, &[(success, at + Span::seconds(90))])).is_empty(), "too late");
}

#[test]
fn a_rule_in_shadow_clears_nothing() {
    let rules = |mode: &str| {
        format!(
            "[[rule]]\nname = \"COUNT\"\nwhen = \"path == '/a'\"\nscore = 0\neffects = [\"add ip.caught\"]\n\
             [[rule]]\nname = \"CLEAR\"\nwhen = \"path == '/b'\"\nscore = 0\n{mode}effects = [\"clear ip.caught\"]\n\
             [[rule]]\nname = \"CAUGHT\"\nwhen = \"ip.caught('1h') >= 2\"\nscore = 9\n"
        )
    };
    let events: Vec<(Event, Time)> =
        ["/a", "/a", "/b", "/c"].map(|path| (visit("192.0.2.1", "ann", path, &[]), NOW)).to_vec();
    for (mode, expected) in [("", vec![2]), ("mode = \"shadow\"\n", vec![2, 3])] {
        for decide in DECIDE {
            assert_eq!(fired_by(&decide(&engine(&rules(mode)), &events), "CAUGHT"), expected, "{mode}");
        }
    }
    let decisions = together(&engine(&rules("")), &events);
    let effects: Vec<String> =
        decisions[2].verdict.effects.iter().map(|due| format!("{}: {}", due.rule, due.effect)).collect();
    assert_eq!(effects, ["CLEAR: clear ip.caught"]);
}

#[test]
fn what_cannot_be_cleared_is_refused() {
    let check = |effect: &str, more: &str, expected: &str| {
        let rule =
            format!("[[rule]]\nname = \"R\"\nwhen = \"path == '/a'\"\nscore = 0\neffects = [\"{effect}\"]\n");
        let config = Config::from_text("door.toml", &format!("{BASE}{more}{rule}"), &Overrides::default());
        let problems = Plan::compile(&config).map(|_| ()).unwrap_err().to_string();
        assert!(problems.contains(expected), "{problems}");
    };
    check("clear ip.seen", "", "`ip.seen` cannot be cleared: every event adds to it");
    check("clear karma.sum", "", "`karma` has an aggregate and no counters");
    check("clear ip.cought", "", "did you mean `caught`?");
    check(
        "clear ip.caught",
        "[feedback]\nspam = [\"caught\"]\n",
        "`ip.caught` cannot be cleared: feedback adds to it, and takes that back itself",
    );
}

/// Decides events of one user as columns: every address has so many rows.
fn in_columns(rules: &str, count: usize, of_address: usize) -> Vec<Decision> {
    // Without lists, which are taken row by row.
    let text = format!("{BASE}{rules}").replace("type = \"list\"", "type = \"string\"");
    let engine = Engine::ephemeral(plan(&text)).unwrap();
    let pipeline = Arc::clone(&engine.plan().pipelines[0]);
    let ips: Vec<String> = (0..count).map(|at| format!("192.0.2.{}", at / of_address)).collect();
    let full = |texts: Vec<&'static str>| BatchColumn::full(BatchCells::Texts(texts));
    let batch = EventBatch {
        rows: count,
        columns: vec![
            ("ip".into(), BatchColumn::full(BatchCells::Texts(ips.iter().map(String::as_str).collect()))),
            ("user".into(), full(vec!["ann"; count])),
            ("path".into(), full(vec!["/a"; count])),
        ],
        id: None,
    };
    let prepared = engine.prepare_batch(&pipeline, &batch, NOW, &Default::default()).unwrap();
    pollster::block_on(engine.decide_batch(prepared)).0
}

fn fired_by(decisions: &[Decision], rule: &str) -> Vec<usize> {
    fired(decisions).iter().filter(|(_, other)| *other == rule).map(|(at, _)| *at).collect()
}

/// Columns are decided in parts of 256 rows, and what is due is carried out behind the last.
#[test]
fn columns_are_judged_alike_over_all_their_parts() {
    let rules = "[[rule]]\nname = \"A\"\nwhen = \"path == '/a' && !ip.marked('scanner')\"\nscore = 0\n\
        effects = [\"mark ip as 'scanner' for 1h\", \"add user.caught\"]\n\
        [[rule]]\nname = \"B\"\nwhen = \"user.caught('1h') >= 3\"\nscore = 9\n";
    let count = 700;
    let decisions = in_columns(rules, count, 200);
    assert_eq!(fired_by(&decisions, "A"), [0, 200, 400, 600]);
    // The mark of the third address is the user's third, whatever the part that it is in.
    let of_b = fired_by(&decisions, "B");
    assert_eq!((of_b.first(), of_b.len()), (Some(&401), count - 401));
}

#[test]
fn what_is_cleared_in_one_part_of_columns_is_clear_in_the_next() {
    let rules = "[[limit]]\nname = \"visits\"\nkey = [\"user\"]\ncount = 250\nper = \"1d\"\nwhen = \"true\"\n\
        [[rule]]\nname = \"COUNT\"\nwhen = \"path == '/a'\"\nscore = 0\neffects = [\"add ip.caught\"]\n\
        [[rule]]\nname = \"FULL\"\nwhen = \"ip.caught('1h') >= 299\"\nscore = 0\n\
        effects = [\"clear ip.caught\", \"clear limit visits\"]\n\
        [[rule]]\nname = \"OVER\"\nwhen = \"over('visits')\"\nscore = 0\n";
    let decisions = in_columns(rules, 700, 700);
    // An event's own addition comes behind what it clears, so that the next 298 make it full.
    assert_eq!(fired_by(&decisions, "FULL"), [299, 598]);
    assert_eq!(fired_by(&decisions, "OVER"), (250..=299).chain(550..=598).collect::<Vec<_>>());
}

#[test]
fn a_replay_of_the_journal_judges_a_batch_as_it_was() {
    let limited = format!("{BASE}{LIMITS}");
    let mut cleared = 0;
    for (seed, base, conditions, effects) in [
        (3, BASE, &CONDITIONS[..], &EFFECTS[..]),
        (14, BASE, &CONDITIONS, &EFFECTS),
        (15, BASE, &CONDITIONS, &EFFECTS),
        (16, &limited, &LIMIT_CONDITIONS, &LIMIT_EFFECTS),
        (17, &limited, &LIMIT_CONDITIONS, &LIMIT_EFFECTS),
        (18, &limited, &LIMIT_CONDITIONS, &LIMIT_EFFECTS),
    ] {
        let random = &mut Random::new(seed);
        let text = format!("{base}{}", rules(random, base, conditions, effects));
        let parent = tempfile::tempdir().unwrap();
        let directory = Directory::create(&parent.path().join("data"), &[]).unwrap();
        let engine = Engine::open(&directory, plan(&text)).unwrap();
        let mut events = events(random, 120, false);
        for chunk in events.chunks_mut(40) {
            let arrival = chunk.iter().map(|(_, at)| *at).max().unwrap();
            chunk.iter_mut().for_each(|(_, at)| *at = arrival);
        }
        let decisions: Vec<Decision> =
            events.chunks(40).flat_map(|events| together(&engine, events)).collect();
        let due = decisions.iter().flat_map(|decision| &decision.verdict.effects);
        cleared += due.filter(|due| matches!(due.effect, judge::Effect::ClearLimit(_))).count();
        engine.journal().unwrap().sync().unwrap();
        let report = replayed(&directory, &text, BacktestQuery::default());
        assert_eq!(report.rows, decisions.len() as u64);
        assert_eq!((report.changed, report.rescored), (0, 0), "seed {seed}: {:#?}", report.examples);
        assert!(report.not_logged.is_empty(), "seed {seed}: {:?}", report.not_logged);
    }
    assert!(cleared > 100, "{cleared}");
}
