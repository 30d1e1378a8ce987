//! Reporters: their weight, their limits, and the withdrawal of their reports.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use engine::backtest::{Backtest, BacktestQuery, BacktestReport};
use engine::{
    Decision, Directory, Engine, FeedbackError, FeedbackInput, FeedbackOutcome, ReporterStanding,
    ReputationRanking,
};
use event::{Event, Span, Time};
use journal::{JournalArchive, RecordId, export};
use plan::{Config, Grade, Overrides, Plan};
use proptest::prelude::*;

use crate::pipeline::{NOW, decide_at};

fn configuration(reports: &str) -> String {
    format!(
        r#"
name = "forum"
space = 7
[[field]]
name = "user.mail"
type = "string"
[[field]]
name = "post.text"
type = "string"
[[kind]]
name = "mail"
of = "user.mail"
normalise = "address"
[[kind]]
name = "text"
of = "post.text"
[[statistic]]
name = "counts"
keys = ["mail", "text"]
counts = ["seen", "complaint", "pardon", "read"]
windows = ["10m x 144", "1d x 14"]
readings = ["1h"]
[feedback]
spam = ["complaint"]
ham = ["pardon"]
read = ["read"]
reply = ["read", "pardon"]
[reports]
bad = ["spam"]
good = ["ham"]
alike = ["text"]
{reports}
[ledger]
durability = "sync"
"#
    )
}

fn plan(reports: &str) -> Plan {
    compiled(&configuration(reports))
}

fn compiled(text: &str) -> Plan {
    Plan::compile(&Config::from_text("forum.toml", text, &Overrides::default()))
        .unwrap_or_else(|problems| panic!("{problems}"))
}

fn post(mail: &str, text: &str) -> Event {
    let mut event = Event::default();
    event.push("user.mail", mail);
    event.push("post.text", text);
    event
}

struct Forum {
    engine: Engine,
    directory: Directory,
    _parent: tempfile::TempDir,
}

impl Forum {
    fn new(reports: &str) -> Forum {
        Forum::of(plan(reports))
    }

    fn of(plan: Plan) -> Forum {
        let parent = tempfile::tempdir().unwrap();
        let directory = Directory::create(&parent.path().join("data"), &[]).unwrap();
        let engine = Engine::open(&directory, plan).unwrap();
        Forum { engine, directory, _parent: parent }
    }

    fn post(&self, mail: &str, text: &str) -> Decision {
        decide_at(&self.engine, post(mail, text), NOW)
    }

    fn say(&self, id: RecordId, class: &str, by: &str) -> FeedbackOutcome {
        say(&self.engine, id, class, Some(by), NOW)
    }

    /// `seen`, `complaint`, `pardon` and `read` of an address in the last hour.
    fn counts(&self, mail: &str) -> Vec<u64> {
        let pipeline = Arc::clone(&self.engine.plan().pipelines[0]);
        let told = pollster::block_on(self.engine.timeline(&pipeline, "mail", mail, NOW)).unwrap();
        assert_eq!(told.counters, ["seen", "complaint", "pardon", "read"]);
        told.windows.into_iter().find(|(window, _)| *window == Span::hours(1)).unwrap().1
    }

    /// A counter of a reporter over all time.
    fn reporter(&self, by: &str, counter: &str) -> u64 {
        let pipeline = Arc::clone(&self.engine.plan().pipelines[0]);
        let told = pollster::block_on(self.engine.timeline(&pipeline, "reporter", by, NOW)).unwrap();
        let index = told.counters.iter().position(|name| name == counter).unwrap();
        told.windows.last().unwrap().1[index]
    }
}

fn say(engine: &Engine, id: RecordId, class: &str, by: Option<&str>, at: Time) -> FeedbackOutcome {
    pollster::block_on(engine.feedback(id, FeedbackInput { class, by }, at)).unwrap()
}

#[test]
fn the_last_vote_of_each_reporter_stands() {
    let forum = Forum::new("");
    let id = forum.post("a@example.org", "buy").id;
    let first = forum.say(id, "spam", "ann");
    assert_eq!(
        (first.keys, first.weight, first.duplicate, first.standing),
        (2, 1, false, ReporterStanding::Reporter(Grade::Unknown))
    );
    assert!(forum.say(id, "spam", " ANN ").duplicate, "the same reporter");
    assert!(!forum.say(id, "spam", "bob").duplicate);
    assert_eq!(forum.counts("a@example.org"), [1, 2, 0, 0]);

    let mended = forum.say(id, "ham", "ann");
    assert_eq!(mended.replaced.as_deref(), Some("spam"));
    assert_eq!(forum.counts("a@example.org"), [1, 1, 1, 0]);
    forum.say(id, "ham", "bob");
    assert_eq!(forum.counts("a@example.org"), [1, 0, 2, 0]);
    let gone = forum.say(id, "none", "ann");
    assert_eq!((gone.keys, gone.replaced.as_deref()), (0, Some("ham")));
    assert!(forum.say(id, "none", "ann").duplicate, "nothing is left to take back");
    assert_eq!(forum.counts("a@example.org"), [1, 0, 1, 0]);
    forum.say(id, "spam", "ann");
    assert_eq!(forum.counts("a@example.org"), [1, 1, 1, 0]);

    let error = pollster::block_on(forum.engine.feedback(id, "spma", NOW)).unwrap_err();
    assert!(matches!(error, FeedbackError::Class(_)), "{error}");
    assert!(
        !say(&forum.engine, id, "spam", None, NOW).duplicate,
        "the operator is another than any reporter"
    );
    assert!(say(&forum.engine, id, "spam", Some("  "), NOW).duplicate, "a name of nothing is the operator");
}

/// The label of each decision in an export, in order.
fn labels(engine: &Engine, labelled: bool) -> Vec<Option<String>> {
    column(engine, labelled, "label")
}

/// A column of an export.
fn column(engine: &Engine, labelled: bool, name: &str) -> Vec<Option<String>> {
    let filter = export::ExportFilter { labelled, ..export::ExportFilter::default() };
    let mut table = Vec::new();
    export::ndjson(&engine.journal().unwrap().archive().unwrap(), &filter, &mut table).unwrap();
    let rows = serde_json::Deserializer::from_slice(&table).into_iter::<serde_json::Value>();
    rows.map(|row| row.unwrap()[name].as_str().map(str::to_owned)).collect()
}

#[test]
fn what_was_done_with_an_event_does_not_unsay_what_it_was() {
    let forum = Forum::new("weight_new = 0");
    let ids: Vec<RecordId> = (0..4).map(|at| forum.post("a@example.org", &format!("{at}")).id).collect();
    let operator = |id: RecordId, class: &str| say(&forum.engine, id, class, None, NOW);
    ids[..3].iter().for_each(|id| drop(operator(*id, "spam")));
    assert_eq!(forum.counts("a@example.org"), [4, 3, 0, 0]);
    let read = operator(ids[0], "read");
    assert_eq!((read.duplicate, read.replaced), (false, None));
    operator(ids[3], "read");
    assert_eq!(forum.counts("a@example.org"), [4, 3, 0, 2], "both are counted");
    // A signal takes the place of a signal, a judgement that of a judgement, and whoever counts nothing takes none.
    assert_eq!(operator(ids[0], "reply").replaced.as_deref(), Some("read"));
    assert_eq!(operator(ids[1], "ham").replaced.as_deref(), Some("spam"));
    forum.say(ids[0], "ham", "nobody");
    let spam = || Some("spam".to_owned());
    assert_eq!(labels(&forum.engine, false), [spam(), Some("ham".to_owned()), spam(), None]);
    assert_eq!(labels(&forum.engine, true).len(), 3, "a signal is no label");
    let signal = |class: &str| Some(class.to_owned());
    let signals = || column(&forum.engine, false, "signal");
    assert_eq!(signals(), [signal("reply"), None, None, signal("read")], "beside the label");
    assert!(column(&forum.engine, false, "signal_time")[3].is_some());
    // Both are taken back at once.
    let gone = operator(ids[0], "none");
    assert_eq!((gone.duplicate, gone.replaced.as_deref()), (false, Some("spam")));
    assert_eq!(forum.counts("a@example.org"), [4, 1, 1, 1]);
    assert!(operator(ids[0], "none").duplicate);
    assert_eq!((labels(&forum.engine, false)[0].clone(), signals()[0].clone()), (None, None));
}

#[test]
fn judgements_are_the_truth_that_backtests_go_by() {
    let forum = Forum::new("");
    for at in 0..6 {
        let id = forum.post("a@example.org", &format!("{at}")).id;
        for class in [["spam", "ham"][at % 2], "read"] {
            say(&forum.engine, id, class, None, NOW);
        }
    }
    let id = forum.post("a@example.org", "only read").id;
    say(&forum.engine, id, "read", None, NOW);
    let report = backtested(&forum, plan(""), &[]);
    let counts = report.quality.after.counts;
    assert_eq!((report.rows, report.labelled), (7, 6));
    assert_eq!((counts.false_negatives, counts.true_negatives), (3, 3));
}

/// Returns what a plan's rules would have decided, where these classes are bad.
fn backtested(forum: &Forum, plan: Plan, bad: &[&str]) -> BacktestReport {
    forum.engine.journal().unwrap().sync().unwrap();
    let archive = JournalArchive::open(&forum.directory.journal_path()).unwrap();
    let question = BacktestQuery {
        bad: bad.iter().map(|class| (*class).to_owned()).collect(),
        ..BacktestQuery::default()
    };
    let pipeline = Arc::clone(&plan.pipelines[0]);
    let backtest = Backtest::new(pipeline, question, &archive.descriptions().unwrap());
    let mut tally = backtest.tally();
    archive.newest_first().for_each(|block| tally.add(backtest.judge(&block.unwrap()).unwrap()));
    tally.report(&backtest, &archive)
}

/// A signal that was logged as a judgement, under a configuration that knew no other, is none once the configuration does.
#[test]
fn what_is_no_judgement_by_now_is_neither_good_nor_bad() {
    let sides = "bad = [\"spam\"]\ngood = [\"ham\"]\n";
    let forum = Forum::of(compiled(&configuration("").replace(sides, "")));
    for (at, class) in ["spam", "ham", "read", "reply"].into_iter().enumerate() {
        let id = forum.post("a@example.org", &format!("{at}")).id;
        say(&forum.engine, id, class, None, NOW);
    }
    for bad in [&[][..], &["spam"]] {
        let counts = backtested(&forum, plan(""), bad).quality.after.counts;
        assert_eq!((counts.false_negatives, counts.true_negatives), (1, 1), "{bad:?}");
    }
    // Unless somebody says so.
    let counts = backtested(&forum, plan(""), &["spam", "read"]).quality.after.counts;
    assert_eq!((counts.false_negatives, counts.true_negatives), (2, 1));
}

#[test]
fn signed_ids_cannot_be_made_by_others() {
    let (forum, other) = (Forum::new(""), Forum::new(""));
    let id = forum.post("a@example.org", "x").id;
    let signed_id = forum.engine.signed_id(id);
    assert_eq!(signed_id.len(), 27, "{signed_id}");
    assert_eq!(forum.engine.decision_of(&format!(" {signed_id}\r\n")), Some(id));
    assert_eq!(other.engine.decision_of(&signed_id), None, "another secret");
    assert_ne!(forum.engine.signed_id(RecordId(id.0 + 1)), signed_id);
    let (_, seal) = signed_id.split_once('-').unwrap();
    for forged in
        [String::new(), id.to_string(), format!("{id}-{id}"), format!("{}-{seal}", RecordId(id.0 + 1))]
    {
        assert_eq!(forum.engine.decision_of(&forged), None, "{forged}");
    }
}

#[test]
fn what_was_learned_is_learned_anew() {
    let forum = Forum::new("");
    let pipeline = Arc::clone(&forum.engine.plan().pipelines[0]);
    let learn = |id: &str, class: &str| {
        let prepared = forum.engine.prepare(&pipeline, post("z@example.org", "x"), NOW);
        pollster::block_on(forum.engine.learn(prepared, id, class)).unwrap()
    };
    assert_eq!(learn("m1", "spam").keys, 2);
    assert!(learn("m1", "spam").duplicate);
    learn("m2", "spam");
    assert_eq!(learn("m1", "ham").replaced.as_deref(), Some("spam"));
    assert_eq!(forum.counts("z@example.org"), [0, 1, 1, 0]);
    learn("m1", "none");
    learn("m2", "none");
    assert_eq!(forum.counts("z@example.org"), [0, 0, 0, 0]);
}

#[test]
fn reporters_gain_trust_by_agreeing_and_lose_it_by_being_contradicted() {
    let forum = Forum::new("");
    for number in 0..10 {
        let id = forum.post("a@example.org", &format!("offer {number}")).id;
        forum.say(id, "spam", "ann");
        assert_eq!(forum.reporter("ann", "agreed"), number, "nobody has confirmed it yet");
        // The same text in another post: reporters agree on what is alike.
        let copy = forum.post("b@example.org", &format!("offer {number}")).id;
        forum.say(copy, "spam", "bob");
        assert_eq!(
            (forum.reporter("ann", "agreed"), forum.reporter("bob", "agreed")),
            (number + 1, number + 1)
        );
        // Again the same is no further agreement.
        let third = forum.post("b@example.org", &format!("offer {number}")).id;
        forum.say(third, "spam", "bob");
        assert_eq!(forum.reporter("ann", "agreed"), number + 1);
    }
    let id = forum.post("c@example.org", "another").id;
    let trusted = forum.say(id, "spam", "ann");
    assert_eq!((trusted.standing, trusted.weight), (ReporterStanding::Reporter(Grade::Trusted), 2));
    assert_eq!(forum.counts("c@example.org"), [1, 2, 0, 0]);
    forum.say(id, "none", "ann");
    assert_eq!(forum.counts("c@example.org"), [1, 0, 0, 0], "as much is taken back as was added");

    // A crowd of new names takes nothing from anybody; the operator's word does.
    for number in 0..3 {
        let id = forum.post("d@example.org", &format!("wanted {number}")).id;
        forum.say(id, "spam", "liar");
        forum.say(id, "ham", "new");
        assert_eq!(forum.reporter("liar", "contradicted"), number);
        say(&forum.engine, id, "ham", None, NOW);
        assert_eq!(forum.reporter("liar", "contradicted"), number + 1);
        assert_eq!(forum.reporter("new", "agreed"), number + 1, "the operator has confirmed it");
        say(&forum.engine, id, "spam", None, NOW);
        assert_eq!(forum.reporter("new", "contradicted"), 0, "each has one voice on a thing");
    }
    let id = forum.post("e@example.org", "fine").id;
    let said = forum.say(id, "spam", "liar");
    assert_eq!((said.standing, said.weight, said.keys), (ReporterStanding::Reporter(Grade::Bad), 0, 0));
    assert_eq!(forum.counts("e@example.org"), [1, 0, 0, 0]);
}

/// A reputation of reporters, with these settings.
fn standing(settings: &str) -> String {
    format!(
        "[[reputation]]\nname = \"standing\"\nof = \"reporter\"\nhalf_life = \"10d\"\n{settings}\n\
         parts = [{{ counter = \"agreed\", weight = 10.0 }}, {{ counter = \"contradicted\", weight = -10.0 }}]\n"
    )
}

#[test]
fn the_standing_of_reporters_is_a_reputation() {
    let forum = Forum::new(&standing("grades = { trusted = 60.0, bad = -60.0 }"));
    let pipeline = Arc::clone(&forum.engine.plan().pipelines[0]);
    let reputation = |by: &str, at: Time| {
        let told = pollster::block_on(forum.engine.timeline(&pipeline, "reporter", by, at)).unwrap();
        let [reputation] = <[_; 1]>::try_from(told.reputations).unwrap();
        reputation
    };
    let unknown = reputation("ann", NOW);
    assert_eq!((unknown.name.as_str(), unknown.score, unknown.grade), ("standing", 0.0, Grade::Unknown));
    for number in 0..2 {
        let id = forum.post("a@example.org", &format!("offer {number}")).id;
        forum.say(id, "spam", "Ann");
        forum.say(id, "ham", "liar");
        say(&forum.engine, id, "spam", None, NOW);
    }
    let told = |by: &str| {
        let reputation = reputation(by, NOW);
        let reasons = reputation.reasons.into_iter().map(|reason| (reason.part, reason.amount));
        (reputation.score, reputation.grade, reasons.collect::<Vec<_>>())
    };
    // 20 of evidence beside the prior of 10.
    assert_eq!(told("ann"), (66.667, Grade::Trusted, vec![("reporter.agreed".to_owned(), 2.0)]));
    assert_eq!(told("liar"), (-66.667, Grade::Bad, vec![("reporter.contradicted".to_owned(), 2.0)]));
    let id = forum.post("b@example.org", "another").id;
    let said = forum.say(id, "spam", "ann");
    assert_eq!((said.standing, said.weight), (ReporterStanding::Reporter(Grade::Trusted), 2));
    let said = forum.say(id, "ham", "liar");
    assert_eq!((said.standing, said.weight), (ReporterStanding::Reporter(Grade::Bad), 0));
    // What was agreed and contradicted is forgotten by halves, and with it the standing.
    let later = NOW + Span::days(25);
    assert_eq!(reputation("ann", later).reasons[0].amount, 0.5);
    let said = say(&forum.engine, id, "ham", Some("liar"), later);
    assert!(said.duplicate, "{said:?}");
    assert_eq!(said.standing, ReporterStanding::Reporter(Grade::Suspicious));

    let asked = |is_best| ReputationRanking { name: "standing", is_best, within: Span::days(1), limit: 9 };
    let ranked = |is_best| {
        let ranked =
            pollster::block_on(forum.engine.rank_reputations(&pipeline, asked(is_best), NOW, &|| false));
        ranked.unwrap().into_iter().map(|one| one.reputation.score).collect::<Vec<_>>()
    };
    assert_eq!((ranked(true), ranked(false)), (vec![66.667], vec![-66.667]));
}

#[test]
fn a_reporter_is_heard_so_often_a_day() {
    let forum = Forum::new("per_day = 2\nothers_per_day = 1");
    let ids: Vec<RecordId> =
        (0..4).map(|number| forum.post("a@example.org", &number.to_string()).id).collect();
    let limited: Vec<bool> = ids.iter().map(|id| forum.say(*id, "spam", "ann").limited).collect();
    assert_eq!(limited, [false, false, true, true]);
    assert_eq!(forum.counts("a@example.org"), [4, 2, 0, 0]);
    assert!(!forum.say(ids[0], "read", "ann").limited, "what takes no side has a bound of its own");
    assert_eq!(forum.counts("a@example.org"), [4, 2, 0, 1]);
    assert!(forum.say(ids[1], "read", "ann").limited);
    assert_eq!(forum.counts("a@example.org"), [4, 2, 0, 1]);
    forum.say(ids[1], "ham", "ann");
    assert_eq!(
        forum.counts("a@example.org"),
        [4, 1, 0, 1],
        "what is beyond the bound takes back what it stands for"
    );
    assert!(!forum.say(ids[2], "spam", "bob").limited, "others are");
    let later = say(&forum.engine, ids[3], "ham", Some("ann"), NOW + Span::days(2));
    assert!(!later.limited);
    assert_eq!(forum.reporter("ann", "limited"), 4);
    assert!((0..9).all(|_| !say(&forum.engine, ids[3], "spam", None, NOW).limited), "the operator always is");
}

#[test]
fn a_reporter_is_erased() {
    let parent = tempfile::tempdir().unwrap();
    let directory = Directory::create(&parent.path().join("data"), &[]).unwrap();
    let engine = Engine::open(&directory, plan("")).unwrap();
    for text in ["x", "y"] {
        let id = decide_at(&engine, post("a@example.org", text), NOW).id;
        say(&engine, id, "spam", Some("ann"), NOW);
        say(&engine, id, "spam", Some("bob"), NOW);
    }
    let pipeline = Arc::clone(&engine.plan().pipelines[0]);
    let secret = directory.secret().unwrap();
    let reporter = &pipeline.reports.as_ref().unwrap().reporter;
    let shingles = reporter.shingles("ANN", &secret).into_iter().collect();
    engine.close().unwrap();
    drop(engine);
    let erased = directory.erase(Some(&plan("")), &shingles, false, &|| false).unwrap();
    assert_eq!((erased.statistics.keys, erased.records.decisions, erased.records.feedback), (1, 0, 2));
    let engine = Engine::open(&directory, plan("")).unwrap();
    let known = |by: &str| {
        pollster::block_on(engine.timeline(&pipeline, "reporter", by, NOW)).unwrap().timeline.is_some()
    };
    assert_eq!((known("ann"), known("bob")), (false, true));
}

fn copied(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copied(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}

fn sum<'a>(counts: impl Iterator<Item = &'a [u64; 3]>) -> [u64; 3] {
    counts.fold([0; 3], |sum, counts| [sum[0] + counts[0], sum[1] + counts[1], sum[2] + counts[2]])
}

const CLASSES: [(&str, [u64; 3]); 5] =
    [("spam", [1, 0, 0]), ("ham", [0, 1, 0]), ("read", [0, 0, 1]), ("reply", [0, 1, 1]), ("none", [0, 0, 0])];

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 12, ..ProptestConfig::default() })]

    /// Counts are what the latest votes alone would have added, bucket by bucket, after any votes, withdrawals, restarts
    /// and crashes.
    #[test]
    fn only_the_last_votes_count(
        words in proptest::collection::vec((0usize..3, 0usize..4, 0usize..5, 0i64..5_000, 0u8..12), 1..40),
    ) {
        // Nobody is ever trusted, or bad.
        let settings = format!("weight_new = 3\n{}", standing("prior = 1e6"));
        let settings = settings.as_str();
        let parent = tempfile::tempdir().unwrap();
        let mut path = parent.path().join("data");
        let mut directory = Directory::create(&path, &[]).unwrap();
        let mut engine = Engine::open(&directory, plan(settings)).unwrap();
        let ids: Vec<RecordId> = (0..3).map(|_| decide_at(&engine, post("a@example.org", "x"), NOW).id).collect();
        let mut last = BTreeMap::new();
        let mut now = NOW;
        for (step, (event, by, class, pause, fate)) in words.iter().enumerate() {
            now = now + Span::seconds(*pause);
            let (name, _) = CLASSES[*class];
            let reporter = ["ann", "bob", "cid"].get(*by).copied();
            let said = say(&engine, ids[*event], name, reporter, now);
            let weight = if reporter.is_some() { 3 } else { 1 };
            // Judgements and signals have places of their own; `none` empties both.
            let places = if name == "none" { 0..2 } else { usize::from(*class >= 2)..usize::from(*class >= 2) + 1 };
            let mut is_new = false;
            for place in places {
                let place = (*event, *by, place);
                let known = last.get(&place).map_or(4, |(class, ..): &(usize, Time, u64)| *class);
                is_new |= known != *class;
                if known != *class {
                    last.insert(place, (*class, now, weight));
                }
            }
            prop_assert_eq!(said.duplicate, !is_new);
            if *fate == 0 {
                engine.close().unwrap();
                drop(engine);
                engine = Engine::open(&directory, plan(settings)).unwrap();
            }
            if *fate == 1 {
                // As the disk is after a crash: what was answered is on it. What is made into columns meanwhile would go
                // while it is copied.
                engine.journal().unwrap().settle();
                let to = parent.path().join(step.to_string());
                copied(&path, &to);
                path.clone_from(&to);
                drop(engine);
                directory = Directory::open(&to).unwrap();
                engine = Engine::open(&directory, plan(settings)).unwrap();
            }
        }
        let mut expected: BTreeMap<Time, [u64; 3]> = BTreeMap::new();
        for (class, time, weight) in last.values() {
            let bucket = Time(time.bucket(Span::minutes(10)) * Span::minutes(10).0);
            let counts = expected.entry(bucket).or_default();
            counts.iter_mut().zip(CLASSES[*class].1).for_each(|(count, add)| *count += add * weight);
        }
        expected.retain(|_, counts| *counts != [0; 3]);
        let pipeline = Arc::clone(&engine.plan().pipelines[0]);
        let told = pollster::block_on(engine.timeline(&pipeline, "mail", "a@example.org", now)).unwrap();
        let buckets = told.timeline.unwrap().buckets;
        prop_assert!(now - NOW > Span::days(1) || buckets.iter().all(|bucket| bucket.width == Span::minutes(10)));
        let mut found: BTreeMap<Time, [u64; 3]> = BTreeMap::new();
        let mut folded = BTreeMap::new();
        for bucket in buckets {
            let of = if bucket.width == Span::minutes(10) { &mut found } else { &mut folded };
            of.insert(bucket.start, [bucket.counts[1], bucket.counts[2], bucket.counts[3]]);
        }
        found.retain(|_, counts| *counts != [0; 3]);
        if folded.is_empty() {
            prop_assert_eq!(found, expected);
        } else {
            // Some are days by now: then all together are compared.
            prop_assert_eq!(sum(found.values().chain(folded.values())), sum(expected.values()));
        }
    }
}

#[test]
fn settings_are_checked() {
    let check = |text: &str, expected: &str| {
        let text = format!("preset = \"mail\"\n{text}\n");
        let config = Config::from_text("test.toml", &text, &Overrides::default());
        let found = Plan::compile(&config).map(|_| ()).unwrap_err().to_string();
        assert!(found.contains(expected), "{found}");
    };
    check("[reports]\nbad = [\"spma\"]", "3:8: error: [feedback] has no class `spma`");
    check("[reports]\ngood = [\"spam\"]", "`spam` is in `bad` and in `good`");
    check("[reports]\nalike = [\"nothing\"]", "there is no kind `nothing`");
    check("[reports]\nweight_trusted = 8", "`weight_trusted` cannot be 8");
    check("[feedback]\nnone = [\"read\"]", "`none` is reserved: it takes feedback back");
    let standing = |settings: &str| {
        format!("[[reputation]]\nname = \"standing\"\nof = \"reporter\"\nhalf_life = \"10d\"\n{settings}")
    };
    check(&standing("parts = [{ counter = \"seen\", weight = 1.0 }]"), "reporters have no counter `seen`");
    check(&standing("parts = [{ distinct = \"x\", weight = 1.0 }]"), "`distinct` does nothing for reporters");
    check(
        &standing("parts = [{ counter = \"agreed\", weight = 1.0, source = \"verdict\" }]"),
        "`source` does nothing for reporters",
    );
    check(
        &standing("includes = [{ reputation = \"author\", weight = 1.0 }]"),
        "`includes` does nothing for reporters",
    );
    let agreed = "parts = [{ counter = \"agreed\", weight = 1.0 }]";
    check(&standing(agreed).replace("10d", "91d"), "`half_life` is 91d, and 90d are kept");
    check(&format!("{}\n{}", standing(agreed), standing(agreed)), "reputation `standing` is defined twice");
    check(
        &format!("{}\n{}", standing(agreed), standing(agreed).replace("\"standing\"", "\"second\"")),
        "reporters have the reputation `standing` already",
    );
    check(
        &format!(
            "{}\n[[rule]]\nname = \"X\"\nwhen = \"reputation('standing') < 0.0\"\nscore = 1.0",
            standing(agreed)
        ),
        "`standing` is the reputation of reporters, and no event has one",
    );
    check("[report_addresses]\nspam = [\"nowhere\"]", "`nowhere` is no address");
    check("[report_addresses]\nspma = [\"spam@example.org\"]", "[feedback] has no class `spma`");
    check("[report_addresses]\nspam = [\"a@b.c\", \"A@b.c\"]", "`A@b.c` is there twice");
    check(
        "[[kind]]\nname = \"reporter\"\nof = \"mail.subject\"",
        "the kind `reporter` has the name of the kind of reporters",
    );
}
