//! Search in past decisions, held against a filter over a plain list: each decision is on one page, also while others are made,
//! written, and turned into columns.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use engine::{
    DecisionFilter, DecisionPage, DecisionQuery, DecisionSearchError, Directory, Engine, FactSelection,
    FeedbackInput, JudgedCounts, KeyChoice, LabelFilter, ListedDecision, MovedLine, StatisticsQuery,
    WATCHERS_MAX, WatchedEvent,
};
use event::{Event, Span, Time, Value};
use journal::{ReadBudget, RecordId};
use judge::Action;
use plan::{Config, Overrides, Plan};
use stats::random::Random;

use crate::pipeline::NOW;

const FORUM: &str = r#"
name = "forum"
space = 7
[node]
pipelines = ["notes.toml"]
[[field]]
name = "user"
type = "string"
[[field]]
name = "text"
type = "string"
[[field]]
name = "links"
type = "list"
[[field]]
name = "body"
type = "string"
journal = false
[[field]]
name = "size"
type = "integer"
[[field]]
name = "address"
type = "ip"
[[kind]]
name = "user"
of = "user"
normalise = "address"
[[kind]]
name = "user_size"
of = ["user", "size"]
[[kind]]
name = "body"
of = "body"
[[kind]]
name = "address"
of = "address"
[[kind]]
name = "network"
of = "address"
prefix = { ipv4 = 24, ipv6 = 48 }
[[statistic]]
name = "counts"
keys = ["user", "user_size", "body", "network"]
counts = ["seen", "bad"]
windows = ["10m x 144"]
[feedback]
spam = ["bad"]
ham = []
[reports]
bad = ["spam"]
good = ["ham"]
[[rule]]
name = "LARGE"
when = "size > 50"
score = 3.0
[[rule]]
name = "OFTEN"
when = "user.seen('1h') > 4"
score = 2.5
[[rule]]
name = "ODD"
when = "size % 2 == 1"
score = 1.0
mode = "shadow"
[[band]]
at = 2.0
action = "tag"
[[band]]
at = 5.0
action = "reject"
[journal]
segment = "24KiB"
"#;

const OTHER: &str = "
name = \"notes\"
space = 8
[[field]]
name = \"text\"
type = \"string\"
[[rule]]
name = \"BUY\"
when = \"text.contains('buy')\"
score = 9.0
[[band]]
at = 5.0
action = \"reject\"
";

const USERS: [&str; 4] = ["ann@example.org", "Bob@Example.org", "eve@example.net", "no address"];
/// One of version 4, as it is and within version 6.
const ADDRESSES: [&str; 5] =
    ["192.0.2.7", "::ffff:192.0.2.7", "192.0.2.70", "2001:db8::7", "2001:0DB8:0:0:0:0:0:70"];
const TEXTS: [&str; 5] = ["buy NOW", "hello", "GRÜSSE aus Köln", "buy a boat", ""];

fn plan() -> Plan {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("notes.toml"), OTHER).unwrap();
    let file = directory.path().join("tollhouse.toml");
    std::fs::write(&file, FORUM).unwrap();
    let config = Config::load(&file, &Overrides::default());
    Plan::compile(&config).unwrap_or_else(|problems| panic!("{problems}"))
}

/// A decision as the model knows it.
#[derive(Clone, Debug)]
struct Row {
    id: RecordId,
    pipeline: &'static str,
    event_id: Option<String>,
    arrival: Time,
    user: &'static str,
    text: &'static str,
    link: Option<&'static str>,
    body: &'static str,
    size: i64,
    address: Option<IpAddr>,
    action: Action,
    score: f64,
    rules: Vec<String>,
}

#[derive(Default)]
struct Model {
    rows: Vec<Row>,
    labels: BTreeMap<RecordId, &'static str>,
}

struct Forum {
    engine: Engine,
    directory: Directory,
    model: Model,
    now: Time,
    _parent: tempfile::TempDir,
}

impl Forum {
    fn new() -> Forum {
        let parent = tempfile::tempdir().unwrap();
        let directory = Directory::create(&parent.path().join("data"), &[]).unwrap();
        let engine = Engine::open(&directory, plan()).unwrap();
        Forum { engine, directory, model: Model::default(), now: NOW, _parent: parent }
    }

    fn reopen(self) -> Forum {
        let Forum { engine, directory, model, now, _parent } = self;
        drop(engine);
        let engine = Engine::open(&directory, plan()).unwrap();
        Forum { engine, directory, model, now, _parent }
    }

    fn decide(&mut self, random: &mut Random) {
        self.now = self.now + Span(random.between(0, 3_000_000));
        let pipeline = Arc::clone(&self.engine.plan().pipelines[usize::from(random.one_in(4))]);
        let mut row = Row {
            id: RecordId(0),
            pipeline: if pipeline.name == "forum" { "forum" } else { "notes" },
            event_id: random.one_in(2).then(|| format!("event-{}", self.model.rows.len())),
            arrival: self.now,
            user: random.pick::<&str>(&USERS),
            text: random.pick::<&str>(&TEXTS),
            link: random.one_in(3).then_some("https://Shop.example/boat"),
            body: random.pick::<&str>(&["secret one", "secret two"]),
            size: random.between(0, 99),
            address: random.one_in(2).then(|| random.pick::<&str>(&ADDRESSES).parse().unwrap()),
            action: Action::Accept,
            score: 0.0,
            rules: Vec::new(),
        };
        let mut event = Event { id: row.event_id.clone(), ..Event::default() };
        event.push("text", row.text);
        if row.pipeline == "forum" {
            event.push("user", row.user);
            event.push("body", row.body);
            event.push("size", row.size);
            if let Some(address) = row.address {
                event.push("address", address);
            }
            if let Some(link) = row.link {
                event.push("links", Value::from(vec![link.to_owned()]));
            }
        }
        let prepared = self.engine.prepare(&pipeline, event, self.now);
        let decision = pollster::block_on(self.engine.decide(vec![prepared])).remove(0);
        row.id = decision.id;
        row.action = decision.verdict.action;
        row.score = decision.verdict.score;
        let reasons = decision.verdict.reasons.iter().chain(&decision.verdict.shadow);
        row.rules = reasons.map(|reason| reason.rule.clone()).collect();
        self.model.rows.push(row);
    }

    fn say(&mut self, random: &mut Random) {
        if self.model.rows.is_empty() {
            return;
        }
        let row = random.pick(&self.model.rows);
        if row.pipeline != "forum" {
            return;
        }
        let id = row.id;
        let class = *random.pick(&["spam", "ham", "none"]);
        self.now = self.now + Span(1);
        pollster::block_on(self.engine.feedback(id, FeedbackInput::from(class), self.now)).unwrap();
        match class {
            "none" => self.model.labels.remove(&id),
            class => self.model.labels.insert(id, class),
        };
    }
}

impl Model {
    fn fits(&self, row: &Row, filter: &DecisionFilter) -> bool {
        let is_forum = row.pipeline == "forum";
        let millis = |time: Time| time.0.div_euclid(1000);
        let text = |text: &String| {
            let text = text.to_lowercase();
            let link = row.link.filter(|_| is_forum);
            let user = Some(row.user).filter(|_| is_forum);
            [Some(row.text), link, user]
                .into_iter()
                .flatten()
                .any(|found| found.to_lowercase().contains(&text))
        };
        let key = |KeyChoice { kind, value }: &KeyChoice| match kind.as_str() {
            "user" => row.user.to_lowercase() == value.to_lowercase() && row.user.contains('@'),
            "address" => {
                row.address.map(|it| it.to_canonical())
                    == value.parse().ok().map(|it: IpAddr| it.to_canonical())
            }
            "network" => row.address.is_some_and(|it| network_of(it) == value),
            "user_size" => format!("[\"{}\",\"{}\"]", row.user, row.size) == *value,
            _ => row.body == value,
        };
        let label = |filter: &LabelFilter| match (filter, self.labels.get(&row.id)) {
            (LabelFilter::Class(class), label) => label == Some(&class.as_str()),
            (LabelFilter::Labelled, label) => label.is_some(),
            (LabelFilter::Unlabelled, label) => label.is_none(),
        };
        let is_at = |address: &str| row.address.map(|it| it.to_canonical()) == address.parse().ok();
        let condition = |source: &String| match source.as_str() {
            "size >= 90 || text.contains('boat')" => {
                is_forum && (row.size >= 90 || row.text.contains("boat"))
            }
            "text.startsWith('buy')" => row.text.starts_with("buy"),
            "text.startsWith('buy') && size < 20" => is_forum && row.text.starts_with("buy") && row.size < 20,
            "(size < 5 || size > 95) && (user == 'ann@example.org' || text == '')" => {
                let is_outside = row.size < 5 || row.size > 95;
                is_forum && is_outside && (row.user == "ann@example.org" || row.text.is_empty())
            }
            "address == ip('192.0.2.7')" => is_forum && is_at("192.0.2.7"),
            "size > 30 && address == ip('2001:db8::70')" => {
                is_forum && row.size > 30 && is_at("2001:db8::70")
            }
            "!has(address) && 'https://Shop.example/boat' in links" => {
                is_forum && row.address.is_none() && row.link.is_some()
            }
            "has(address) && !(size > 3)" => is_forum && row.address.is_some() && row.size <= 3,
            "user.seen('1h') > 4" => row.rules.iter().any(|rule| rule == "OFTEN"),
            other => panic!("{other}"),
        };
        filter.from.is_none_or(|from| millis(row.id.time()) >= millis(from))
            && filter.to.is_none_or(|to| millis(row.id.time()) < millis(to))
            && filter.pipeline.as_ref().is_none_or(|name| name == row.pipeline)
            && (filter.actions.is_empty() || filter.actions.contains(&row.action))
            && filter.score_from.is_none_or(|from| row.score >= from)
            && filter.score_below.is_none_or(|below| row.score < below)
            && filter.rule.as_ref().is_none_or(|rule| row.rules.contains(rule))
            && filter.event_id.is_none_or_fits(&row.event_id)
            && filter.key.as_ref().is_none_or(|wanted| is_forum && key(wanted))
            && filter.text.as_ref().is_none_or(text)
            && filter.condition.as_ref().is_none_or(condition)
            && filter.label.as_ref().is_none_or(label)
    }
}

fn network_of(address: IpAddr) -> &'static str {
    if address.to_canonical().is_ipv4() { "192.0.2.0/24" } else { "2001:db8::/48" }
}

trait WantedName {
    fn is_none_or_fits(&self, name: &Option<String>) -> bool;
}

impl WantedName for Option<String> {
    fn is_none_or_fits(&self, name: &Option<String>) -> bool {
        self.is_none() || self == name
    }
}

fn filter(random: &mut Random, model: &Model) -> DecisionFilter {
    let mut filter = DecisionFilter::default();
    let time = |random: &mut Random| {
        let at = model.rows.get(random.below(model.rows.len().max(1) as u64) as usize);
        at.map_or(NOW, |row| row.arrival)
    };
    for _ in 0..random.below(3) {
        match random.below(11) {
            0 => filter.from = Some(time(random)),
            1 => filter.to = Some(time(random)),
            2 => filter.pipeline = Some((*random.pick(&["forum", "notes"])).to_owned()),
            3 => filter.actions = vec![*random.pick(&[Action::Reject, Action::Tag]), Action::Accept],
            4 => filter.score_from = Some(random.between(0, 6) as f64),
            5 => filter.score_below = Some(random.between(0, 6) as f64),
            6 => filter.rule = Some((*random.pick(&["LARGE", "OFTEN", "ODD", "BUY", "NONE"])).to_owned()),
            7 => {
                let (kind, value) = *random.pick(&[
                    ("user", "ANN@example.org"),
                    ("user", "bob@example.org"),
                    ("user_size", "[\"ann@example.org\",\"7\"]"),
                    ("body", "secret two"),
                    ("address", "192.0.2.7"),
                    ("address", "::ffff:192.0.2.7"),
                    ("address", "2001:DB8:0::7"),
                    ("network", "192.0.2.0/24"),
                    ("network", "2001:db8::/48"),
                ]);
                filter.key = Some(KeyChoice { kind: kind.to_owned(), value: value.to_owned() });
            }
            8 => {
                filter.text =
                    Some((*random.pick(&["BOAT", "grüsse", "example.net", "shop.EXAMPLE"])).to_owned())
            }
            9 => {
                let conditions = [
                    "size >= 90 || text.contains('boat')",
                    "text.startsWith('buy')",
                    "user.seen('1h') > 4",
                    "text.startsWith('buy') && size < 20",
                    "(size < 5 || size > 95) && (user == 'ann@example.org' || text == '')",
                    "address == ip('192.0.2.7')",
                    "size > 30 && address == ip('2001:db8::70')",
                    "!has(address) && 'https://Shop.example/boat' in links",
                    "has(address) && !(size > 3)",
                ];
                filter.condition = Some((*random.pick(&conditions)).to_owned());
            }
            _ => {
                filter.label = Some(match random.below(4) {
                    0 => LabelFilter::Labelled,
                    1 => LabelFilter::Unlabelled,
                    2 => LabelFilter::Class("spam".to_owned()),
                    _ => LabelFilter::Class("ham".to_owned()),
                });
            }
        }
    }
    // What no searched pipeline knows is refused.
    let is_of_forum =
        filter.key.is_some() || filter.condition.as_ref().is_some_and(|it| it != "text.startsWith('buy')");
    if is_of_forum && filter.pipeline.is_some() {
        filter.pipeline = Some("forum".to_owned());
    }
    if random.one_in(12) {
        filter.event_id = Some(format!("event-{}", random.below(model.rows.len().max(1) as u64)));
    }
    filter
}

fn budget(records: u64) -> ReadBudget<'static> {
    ReadBudget { records, is_over: &|| false }
}

fn check(row: &Row, listed: &ListedDecision, labels: &BTreeMap<RecordId, &'static str>) {
    assert_eq!((&*listed.pipeline, &listed.event_id), (row.pipeline, &row.event_id));
    assert_eq!((listed.action, listed.score, listed.arrival), (row.action, row.score, row.arrival));
    let rules = listed.rules.iter().map(|(rule, _)| rule).chain(&listed.shadow);
    assert_eq!(rules.cloned().collect::<Vec<_>>(), row.rules);
    assert_eq!(listed.label.as_ref().map(|(class, _)| &**class), labels.get(&row.id).copied());
    let size = listed.facts.iter().find(|(name, _)| name == "size").map(|(_, value)| value);
    let wanted = (row.pipeline == "forum").then_some(Value::Integer(row.size));
    assert_eq!(size, wanted.as_ref());
}

/// Goes through all pages of a search, while other decisions are made, and compares them with what the model has.
fn check_search(forum: &mut Forum, random: &mut Random, seed: u64) {
    let filter = filter(random, &forum.model);
    let mut query = DecisionQuery {
        filter: filter.clone(),
        facts: FactSelection::Named(vec!["size".to_owned(), "nothing".to_owned()]),
        limit: random.between(1, 40) as usize,
        ..DecisionQuery::default()
    };
    let before = forum.model.rows.len();
    let in_files = random.one_in(4);
    let archive = in_files.then(|| {
        forum.engine.journal().unwrap().sync().unwrap();
        forum.directory.decisions().unwrap()
    });
    let records = if random.one_in(2) { random.between(1, 300) as u64 } else { u64::MAX };
    let mut found: Vec<RecordId> = Vec::new();
    let mut pages = 0;
    loop {
        let mut budget = budget(records);
        let page: DecisionPage = match &archive {
            Some(archive) => {
                let plan = forum.engine.plan();
                forum.directory.search_archive(archive, &plan, &query, &mut budget).unwrap()
            }
            None => forum.engine.search_decisions(&query, &mut budget).unwrap(),
        };
        assert!(page.decisions.len() <= query.limit);
        assert!(page.skipped.is_empty() && page.labels_from.is_none());
        for listed in &page.decisions {
            let row = forum.model.rows.iter().find(|row| row.id == listed.id).unwrap();
            check(row, listed, &forum.model.labels);
            found.push(listed.id);
        }
        pages += 1;
        assert!(pages < 5_000, "seed {seed}: {query:?}");
        let Some(next) = page.next else { break };
        query.below = Some(next);
        if random.one_in(3) {
            (0..random.below(6)).for_each(|_| forum.decide(random));
        }
        if random.one_in(6) {
            forum.engine.journal().unwrap().sync().unwrap();
        }
    }
    let rows = forum.model.rows[..before].iter().rev();
    let wanted: Vec<RecordId> = rows.filter(|row| forum.model.fits(row, &filter)).map(|row| row.id).collect();
    assert_eq!(found, wanted, "seed {seed}: {filter:?}");
}

#[test]
fn each_decision_that_fits_is_on_one_page() {
    let mut columnar = 0;
    for seed in 0..4 {
        let mut random = Random::new(seed);
        let mut forum = Forum::new();
        for _ in 0..40 {
            match random.below(10) {
                0..4 => (0..random.below(60)).for_each(|_| forum.decide(&mut random)),
                4 => (0..random.below(12)).for_each(|_| forum.say(&mut random)),
                5 => forum.engine.journal().unwrap().sync().unwrap(),
                6 if random.one_in(4) => forum = forum.reopen(),
                _ => check_search(&mut forum, &mut random, seed),
            }
        }
        forum.engine.journal().unwrap().settle();
        columnar += forum.engine.journal().unwrap().census().columnar;
        (0..10).for_each(|_| check_search(&mut forum, &mut random, seed));
    }
    assert!(columnar > 3, "{columnar} segments became columns");
}

/// Summaries of blocks show that nothing in them fits: of rows and of columns.
#[test]
fn blocks_in_which_nothing_fits_are_not_read() {
    let mut random = Random::new(7);
    let mut forum = Forum::new();
    let key = |kind: &str, value: String| Some(KeyChoice { kind: kind.to_owned(), value });
    let filters: [&dyn Fn(usize) -> DecisionFilter; 8] = [
        &|n| DecisionFilter { event_id: Some(format!("no such event {n}")), ..DecisionFilter::default() },
        &|n| DecisionFilter { rule: Some(format!("NO_SUCH_RULE_{n}")), ..DecisionFilter::default() },
        &|n| DecisionFilter {
            key: key("user", format!("nobody{n}@example.com")),
            ..DecisionFilter::default()
        },
        &|n| DecisionFilter { key: key("body", format!("no such body {n}")), ..DecisionFilter::default() },
        &|n| DecisionFilter { text: Some(format!("xylophone {n}")), ..DecisionFilter::default() },
        &|n| DecisionFilter { score_from: Some(1e9 + n as f64), ..DecisionFilter::default() },
        &|_| DecisionFilter { actions: vec![Action::Challenge], ..DecisionFilter::default() },
        &|_| DecisionFilter { label: Some(LabelFilter::Labelled), ..DecisionFilter::default() },
    ];
    for is_columnar in [false, true] {
        (0..600).for_each(|_| forum.decide(&mut random));
        forum.engine.journal().unwrap().sync().unwrap();
        if is_columnar {
            // The newest segment stays as it is.
            forum = forum.reopen();
            forum.decide(&mut random);
            forum.engine.journal().unwrap().sync().unwrap();
            forum.engine.journal().unwrap().settle();
        }
        for filter in filters {
            let reads = |n: usize| {
                let (filter, all) = (filter(n), forum.model.rows.len() as u64);
                let mut budget = budget(1_000_000);
                let query = DecisionQuery { filter: filter.clone(), limit: 50, ..DecisionQuery::default() };
                let page = forum.engine.search_decisions(&query, &mut budget).unwrap();
                assert_eq!((page.decisions.len(), page.looked_at, page.next), (0, all, None), "{filter:?}");
                let spent = 1_000_000 - budget.records;
                spent * 4 >= all && (is_columnar || filter.label.is_none())
            };
            // Summaries let one of about a hundred values pass that a block does not have; which, the secret decides.
            let read: Vec<usize> = (0..8).filter(|n| reads(*n)).collect();
            assert!(read.len() <= 3, "{:?}: {read:?}", filter(0));
        }
    }
}

#[test]
fn newer_decisions_are_asked_for_by_the_newest_one() {
    let (mut forum, mut random) = (Forum::new(), Random::new(1));
    (0..30).for_each(|_| forum.decide(&mut random));
    let above = forum.model.rows[19].id;
    let query = DecisionQuery { above: Some(above), limit: 100, ..DecisionQuery::default() };
    let page = forum.engine.search_decisions(&query, &mut budget(u64::MAX)).unwrap();
    let wanted: Vec<RecordId> = forum.model.rows[20..].iter().rev().map(|row| row.id).collect();
    assert_eq!(page.decisions.iter().map(|listed| listed.id).collect::<Vec<_>>(), wanted);
    assert_eq!((page.next, page.is_partial), (None, false));
}

#[test]
fn what_cannot_be_searched_for_is_said() {
    let forum = Forum::new();
    let check = |filter: DecisionFilter, expected: &str| {
        let query = DecisionQuery { filter, limit: 1, ..DecisionQuery::default() };
        let failure = forum.engine.search_decisions(&query, &mut budget(u64::MAX)).unwrap_err();
        assert!(failure.to_string().contains(expected), "{failure}");
    };
    let key = |kind: &str, value: &str| Some(KeyChoice { kind: kind.to_owned(), value: value.to_owned() });
    let condition = |source: &str| Some(source.to_owned());
    check(
        DecisionFilter { key: key("usr", "a@b.example"), ..DecisionFilter::default() },
        "did you mean `user`",
    );
    check(DecisionFilter { key: key("user", ""), ..DecisionFilter::default() }, "gives no piece");
    check(DecisionFilter { condition: condition("sise > 3"), ..DecisionFilter::default() }, "sise");
    check(DecisionFilter { condition: condition("size"), ..DecisionFilter::default() }, "true or false");
    check(DecisionFilter { condition: condition("body == 'a'"), ..DecisionFilter::default() }, "body");
    check(
        DecisionFilter { condition: condition("user.seen('2h') > 4"), ..DecisionFilter::default() },
        "not logged",
    );
    let long = "size > 1 || ".repeat(1000) + "size > 2";
    check(DecisionFilter { condition: condition(&long), ..DecisionFilter::default() }, "at most 4096 bytes");
    let ephemeral = Engine::ephemeral(plan()).unwrap();
    let asked = ephemeral.search_decisions(&DecisionQuery::default(), &mut budget(1));
    assert!(matches!(asked, Err(DecisionSearchError::NoJournal)));
}

#[test]
fn who_watches_too_slowly_is_told_how_much_is_lost() {
    let (mut forum, mut random) = (Forum::new(), Random::new(2));
    let filter = DecisionFilter { pipeline: Some("forum".to_owned()), ..DecisionFilter::default() };
    let mut watch = forum.engine.watch_decisions(filter, FactSelection::None).unwrap().unwrap();
    (0..700).for_each(|_| forum.decide(&mut random));
    let (queued, lost) = forum.model.rows.split_at(512);
    for row in queued.iter().filter(|row| row.pipeline == "forum") {
        let WatchedEvent::Decision(shown) = pollster::block_on(watch.next()) else { panic!("{row:?}") };
        assert_eq!((shown.id, shown.score), (row.id, row.score));
    }
    assert_eq!(pollster::block_on(watch.next()), WatchedEvent::Lost(lost.len() as u64));
    let others: Vec<_> = (1..WATCHERS_MAX)
        .map(|_| {
            forum.engine.watch_decisions(DecisionFilter::default(), FactSelection::None).unwrap().unwrap()
        })
        .collect();
    let refused = forum.engine.watch_decisions(DecisionFilter::default(), FactSelection::None).unwrap();
    assert!(refused.is_none());
    drop(others);
    forum.decide(&mut random);
    while forum.model.rows.last().unwrap().pipeline != "forum" {
        forum.decide(&mut random);
    }
    let last = forum.model.rows.last().unwrap();
    let WatchedEvent::Decision(shown) = pollster::block_on(watch.next()) else { panic!("{last:?}") };
    assert_eq!(shown.id, last.id);
}

#[test]
fn statistics_are_sums_over_the_decisions_that_fit() {
    for seed in 0..3 {
        let (mut forum, mut random) = (Forum::new(), Random::new(100 + seed));
        (0..300).for_each(|_| forum.decide(&mut random));
        (0..60).for_each(|_| forum.say(&mut random));
        forum.engine.journal().unwrap().sync().unwrap();
        (0..100).for_each(|_| forum.decide(&mut random));
        for _ in 0..12 {
            let mut filter = filter(&mut random, &forum.model);
            filter.pipeline = Some("forum".to_owned());
            let line = Some((Action::Reject, random.between(0, 80) as f64 / 10.0));
            let query = StatisticsQuery { filter: filter.clone(), bin: 1.0, line };
            let made = forum.engine.decision_statistics(&query, &mut budget(u64::MAX)).unwrap();
            let rows: Vec<&Row> =
                forum.model.rows.iter().filter(|row| forum.model.fits(row, &filter)).collect();
            let count = |is_wanted: &dyn Fn(&Row) -> bool| {
                let mut counts = JudgedCounts::default();
                for row in rows.iter().filter(|row| is_wanted(row)) {
                    match forum.model.labels.get(&row.id) {
                        Some(&"spam") => counts.bad += 1,
                        Some(_) => counts.good += 1,
                        None => counts.unjudged += 1,
                    }
                }
                counts
            };
            assert_eq!(made.decisions, count(&|_| true), "{filter:?}");
            assert_eq!((made.reached, made.skipped.is_empty()), (None, true));
            for (action, made) in Action::ALL.into_iter().zip(made.actions) {
                assert_eq!(made, count(&|row| row.action == action).total());
            }
            for sums in &made.rules {
                let has = |row: &Row| row.rules.contains(&sums.rule);
                let fired = if sums.rule == "ODD" { sums.shadow } else { sums.enforced };
                assert_eq!(fired, count(&has), "{sums:?}");
                let enforced = |row: &Row| row.rules.iter().filter(|rule| *rule != "ODD").count();
                let alone = |row: &Row| has(row) && enforced(row) == 1 && row.action != Action::Accept;
                assert_eq!(
                    sums.alone,
                    if sums.rule == "ODD" { JudgedCounts::default() } else { count(&alone) }
                );
            }
            let fired: BTreeSet<&String> = rows.iter().flat_map(|row| &row.rules).collect();
            assert_eq!(made.rules.len(), fired.len());
            for (from, sums) in &made.scores {
                assert_eq!(*sums, count(&|row| (*from..from + 1.0).contains(&row.score)));
            }
            let MovedLine { at, to, between, .. } = made.moved.unwrap();
            assert_eq!((at, Some((Action::Reject, to))), (5.0, line));
            assert_eq!(between, count(&|row| (at.min(to)..at.max(to)).contains(&row.score)));
            let partial = forum.engine.decision_statistics(&query, &mut budget(50)).unwrap();
            assert!(partial.decisions.total() <= made.decisions.total());
        }
    }
}

#[test]
fn decisions_are_counted_over_time_across_restarts() {
    let (mut forum, mut random) = (Forum::new(), Random::new(5));
    (0..80).for_each(|_| forum.decide(&mut random));
    (0..10).for_each(|_| forum.say(&mut random));
    forum.engine.maintain(Some(forum.now)).unwrap();
    (0..40).for_each(|_| forum.decide(&mut random));
    let series = |forum: &Forum| {
        forum.engine.decision_series("forum", NOW, forum.now + Span(1), Span::seconds(60)).unwrap()
    };
    let before = series(&forum);
    let rows: Vec<&Row> = forum.model.rows.iter().filter(|row| row.pipeline == "forum").collect();
    let sum = |rule: &str, place: usize| -> u64 {
        before.buckets.iter().filter_map(|bucket| bucket.rules.get(rule)).map(|fired| fired[place]).sum()
    };
    let fired =
        |rule: &str| rows.iter().filter(|row| row.rules.iter().any(|fired| fired == rule)).count() as u64;
    assert_eq!((sum("LARGE", 0), sum("LARGE", 1)), (fired("LARGE"), 0));
    assert_eq!((sum("ODD", 0), sum("ODD", 1)), (0, fired("ODD")));
    let actions: u64 = before.buckets.iter().flat_map(|bucket| bucket.actions).sum();
    assert_eq!(actions, rows.len() as u64);
    let labels: u64 = before.buckets.iter().flat_map(|bucket| bucket.labels.values()).sum();
    assert!(labels > 0);
    forum.engine.close().unwrap();
    let forum = forum.reopen();
    assert_eq!(series(&forum), before);
}
