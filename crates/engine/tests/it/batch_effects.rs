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

const EFFECTS: [&str; 11] = [
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
];

/// Some rules, each with a condition of two parts at most.
fn rules(random: &mut Random, conditions: &[&str]) -> String {
    let rule = |number: u64, random: &mut Random| {
        let mut when = (*random.pick(conditions)).to_owned();
        if random.one_in(2) {
            let other = random.pick(conditions);
            let sign = if random.one_in(3) { "||" } else { "&&" };
            when = format!("({when}) {sign} ({other})");
        }
        let mut effects: Vec<&str> = (0..random.below(4)).map(|_| *random.pick(&EFFECTS)).collect();
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
        let config = Config::from_text("door.toml", &format!("{BASE}{text}"), &Overrides::default());
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
        let rules = rules(random, &CONDITIONS[..CONDITIONS.len() - usize::from(some_are_late)]);
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
    let text = blocks.find(|block| block.contains("GUESSED")).unwrap();
    let engine =
        Engine::ephemeral(plan(&format!("{text}\n[[band]]\nat = 5.0\naction = \"reject\"\n"))).unwrap();
    let login = |name: &str, succeeds: bool| {
        let mut event = Event::default();
        event.push("login", name);
        event.push("succeeds", succeeds);
        (event, NOW)
    };
    let mut events = vec![login("ann", false); 4];
    events.extend([login("bob", true), login("ann", true), login("ann", false), login("ann", true)]);
    let decisions = together(&engine, &events);
    let fired = fired(&decisions).into_iter().filter(|(_, rule)| *rule != "FAILED");
    assert_eq!(fired.collect::<Vec<_>>(), [(7, "GUESSED")]);
}

/// Columns are decided in parts of 256 rows, and what is due is carried out behind the last.
#[test]
fn columns_are_judged_alike_over_all_their_parts() {
    let rules = "[[rule]]\nname = \"A\"\nwhen = \"path == '/a' && !ip.marked('scanner')\"\nscore = 0\n\
        effects = [\"mark ip as 'scanner' for 1h\", \"add user.caught\"]\n\
        [[rule]]\nname = \"B\"\nwhen = \"user.caught('1h') >= 3\"\nscore = 9\n";
    // Without lists, which are taken row by row.
    let text = format!("{BASE}{rules}").replace("type = \"list\"", "type = \"string\"");
    let engine = Engine::ephemeral(plan(&text)).unwrap();
    let pipeline = Arc::clone(&engine.plan().pipelines[0]);
    let count = 700;
    let ips: Vec<String> = (0..count).map(|at| format!("192.0.2.{}", at / 200)).collect();
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
    let (decisions, _) = pollster::block_on(engine.decide_batch(prepared));
    let found = fired(&decisions);
    let of_a: Vec<usize> = found.iter().filter(|(_, rule)| *rule == "A").map(|(at, _)| *at).collect();
    assert_eq!(of_a, [0, 200, 400, 600]);
    // The mark of the third address is the user's third, whatever the part that it is in.
    let of_b: Vec<usize> = found.iter().filter(|(_, rule)| *rule == "B").map(|(at, _)| *at).collect();
    assert_eq!((of_b.first(), of_b.len()), (Some(&401), count - 401));
}

#[test]
fn a_replay_of_the_journal_judges_a_batch_as_it_was() {
    for seed in [3, 14, 15] {
        let random = &mut Random::new(seed);
        let text = format!("{BASE}{}", rules(random, &CONDITIONS));
        let parent = tempfile::tempdir().unwrap();
        let directory = Directory::create(&parent.path().join("data"), &[]).unwrap();
        let engine = Engine::open(&directory, plan(&text)).unwrap();
        let events = events(random, 120, false);
        let decisions: Vec<Decision> =
            events.chunks(40).flat_map(|events| together(&engine, events)).collect();
        engine.journal().unwrap().sync().unwrap();
        let report = replayed(&directory, &text, BacktestQuery::default());
        assert_eq!(report.rows, decisions.len() as u64);
        assert_eq!((report.changed, report.rescored), (0, 0), "seed {seed}: {:#?}", report.examples);
    }
}
