//! Journalled decisions judged again.

use std::sync::Arc;

use engine::backtest::{Backtest, BacktestQuery, BacktestReport, ConfusionMatrix, Replay};
use engine::{Directory, Engine};
use event::{Event, Span};
use journal::JournalArchive;
use judge::{Action, Mode};
use plan::{Config, Overrides, Pipeline, Plan};

use crate::pipeline::{NOW, decide_at};
use crate::tables::{self, labelled_mail};

struct JudgedJournal {
    _parent: tempfile::TempDir,
    directory: Directory,
    engine: Engine,
    decisions: Vec<engine::Decision>,
    labels: Vec<Option<&'static str>>,
}

/// The samples are of many years, and when a key is forgotten that has expired is nobody's promise: here none is.
const KEPT: &str = "\n[[statistic]]\nname = \"mass\"\nkeep = \"36500d\"\n";

fn judged() -> JudgedJournal {
    let parent = tempfile::tempdir().unwrap();
    let preset = plan::preset::find("mail").unwrap();
    let directory = Directory::create(&parent.path().join("data"), &[preset]).unwrap();
    let text = std::fs::read_to_string(directory.config_path()).unwrap();
    std::fs::write(directory.config_path(), text + KEPT).unwrap();
    let (engine, decisions, _) = labelled_mail(&directory);
    let labels = crate::corpora::mbox().iter().map(|(name, _)| crate::tables::label(name)).collect();
    engine.journal().unwrap().sync().unwrap();
    JudgedJournal { _parent: parent, directory, engine, decisions, labels }
}

fn pipeline(text: &str) -> Arc<Pipeline> {
    let config = Config::from_text("new.toml", text, &Overrides::default());
    let plan = Plan::compile(&config).unwrap_or_else(|problems| panic!("{problems}"));
    Arc::clone(&plan.pipelines[0])
}

impl JudgedJournal {
    fn report(&self, text: &str, question: BacktestQuery) -> BacktestReport {
        // Beside the writer, which has it open.
        let archive = JournalArchive::open(&self.directory.journal_path()).unwrap();
        let backtest = Backtest::new(pipeline(text), question, &archive.descriptions().unwrap());
        let mut tally = backtest.tally();
        for block in archive.newest_first() {
            tally.add(backtest.judge(&block.unwrap()).unwrap());
        }
        tally.report(&backtest, &archive)
    }
}

#[test]
fn the_same_rules_say_the_same() {
    let judged = judged();
    let report = judged.report("preset = \"mail\"", BacktestQuery::default());
    assert_eq!(report.rows, judged.decisions.len() as u64);
    assert_eq!((report.changed, report.rescored, report.undescribed), (0, 0, 0));
    assert!(report.examples.is_empty() && report.not_logged.is_empty(), "{report:?}");
    for rule in &report.rules {
        assert_eq!(rule.before, rule.after, "{}", rule.rule);
        let fired = judged.decisions.iter().filter(|decision| {
            let verdict = &decision.verdict;
            verdict.reasons.iter().chain(&verdict.shadow).any(|reason| reason.rule == rule.rule)
        });
        assert_eq!(rule.before, fired.count() as u64, "{}", rule.rule);
    }
    assert!(report.rules.iter().any(|rule| rule.before > 10));
    assert_eq!(report.quality.before, report.quality.after);
}

#[test]
fn other_bands_change_what_they_should() {
    let judged = judged();
    // 1 is where the preset has 4.
    let text = "preset = \"mail\"\n[[band]]\nat = 1.0\naction = \"tag\"\n[[rule]]\nname = \"NEW\"\nwhen = \"mail.size > 0\"\nmode = \"shadow\"\nscore = 1.0\n";
    let report = judged.report(text, BacktestQuery { caught: vec![Action::Tag], ..BacktestQuery::default() });
    let bands = pipeline(text).rules.bands().in_force(&event::Facts::default());
    let mut counts = ConfusionMatrix::default();
    let mut changed = 0;
    for (decision, label) in judged.decisions.iter().zip(&judged.labels) {
        let verdict = &decision.verdict;
        // What a rule has set stays, whatever the bands.
        let after =
            if tables::is_set(verdict) { verdict.action } else { bands.action(verdict.score, |_| false) };
        changed += u64::from(after != verdict.action);
        let cell = match (label, after == Action::Tag) {
            (Some("spam"), true) => &mut counts.true_positives,
            (Some("spam"), false) => &mut counts.false_negatives,
            (Some(_), true) => &mut counts.false_positives,
            (Some(_), false) => &mut counts.true_negatives,
            (None, _) => continue,
        };
        *cell += 1;
    }
    assert!(changed > 10);
    assert_eq!((report.changed, report.rescored), (changed, 0));
    assert_eq!(report.quality.after.counts, counts);
    assert_ne!(report.quality.before.counts, counts);
    let after = report.quality.after;
    let caught = (counts.true_positives + counts.false_positives) as f64;
    assert_eq!(after.precision, Some(counts.true_positives as f64 / caught));
    let moved: u64 = report.actions.iter().filter(|it| it.before != it.after).map(|it| it.rows).sum();
    assert_eq!(moved, changed);
    assert_eq!(report.actions.iter().map(|it| it.rows).sum::<u64>(), report.rows);
    let new = report.rules.iter().find(|rule| rule.rule == "NEW").unwrap();
    assert_eq!((new.before, new.after, new.mode), (0, report.rows, Some(Mode::Shadow)));
    assert_eq!(report.examples.len() as u64, changed.min(50));
    for example in &report.examples {
        assert_eq!((example.before.action, example.after.action), (Action::Accept, Action::Tag));
        let decision = judged.decisions.iter().find(|it| it.id.to_string() == example.id).unwrap();
        assert_eq!(example.before.score, decision.verdict.score);
    }
}

#[test]
fn the_largest_changes_say_which_rules_turned() {
    let judged = judged();
    let text = "preset = \"mail\"\n[[rule]]\nname = \"NO_DATE\"\nscore = 0.25\n[[rule]]\nname = \"HUGE\"\nwhen = \"!mail.has_date\"\nscore = 20.0\n";
    let report = judged.report(text, BacktestQuery::default());
    let without: Vec<_> = report.rules.iter().filter(|rule| rule.rule == "HUGE").collect();
    assert!(without[0].after > 0 && without[0].before == 0, "{without:?}");
    let first = &report.examples[0];
    assert!(first.fires_now.contains(&"HUGE".to_owned()), "{first:?}");
    assert_eq!(first.after.action, Action::Reject);
    // First those whose action changes, among these those with a label.
    let told: Vec<(bool, bool)> = report
        .examples
        .iter()
        .map(|it| (it.before.action != it.after.action, it))
        .map(|(is_turned, it)| (is_turned, is_turned && it.label.is_some()))
        .collect();
    assert!(told.is_sorted_by(|a, b| a >= b) && told[0] == (true, true), "{told:?}");
    let rejected = report.examples.iter().filter(|it| {
        (it.before.action, it.after.action, it.label.is_some()) == (Action::Accept, Action::Reject, true)
    });
    let moved: Vec<f64> = rejected.map(|it| (it.after.score - it.before.score).abs()).collect();
    assert!(moved.len() > 1 && moved.is_sorted_by(|a, b| a >= b), "{moved:?}");
}

#[test]
fn what_was_not_logged_is_named_and_not_guessed() {
    let judged = judged();
    let text = "preset = \"mail\"\n\
        [[rule]]\nname = \"TEXT\"\nwhen = \"mail.body_text.contains('a')\"\nscore = 20.0\n\
        [[rule]]\nname = \"OF_TEXT\"\nwhen = \"!rule('TEXT')\"\nscore = 20.0\n\
        [[rule]]\nname = \"OTHER_WINDOW\"\nwhen = \"from.seen('3d') == 0\"\nscore = 20.0\n";
    let report = judged.report(text, BacktestQuery::default());
    assert_eq!((report.changed, report.rescored), (0, 0), "{:?}", report.examples);
    let named: Vec<(&str, String, u64)> =
        report.not_logged.iter().map(|it| (it.fact.as_str(), it.needed_by.join(" "), it.rows)).collect();
    let rows = report.rows;
    assert_eq!(
        named,
        [
            ("from.seen('3d')", "OTHER_WINDOW".to_owned(), rows),
            ("mail.body_text", "TEXT".to_owned(), rows),
            ("what other rules say", "OF_TEXT".to_owned(), rows),
        ]
    );
}

#[test]
fn a_time_and_a_pipeline_are_chosen() {
    let judged = judged();
    let middle = judged.decisions[judged.decisions.len() / 2].time;
    let earlier = judged.decisions.iter().filter(|decision| decision.time < middle).count() as u64;
    let before = BacktestQuery { to: Some(middle), ..BacktestQuery::default() };
    assert_eq!(judged.report("preset = \"mail\"", before).rows, earlier);
    let after = BacktestQuery { from: Some(middle), ..BacktestQuery::default() };
    assert_eq!(judged.report("preset = \"mail\"", after).rows, judged.decisions.len() as u64 - earlier);
    assert_eq!(judged.report("preset = \"mail\"\nname = \"other\"", BacktestQuery::default()).rows, 0);
}

#[test]
fn what_is_being_written_is_left_out() {
    let judged = judged();
    judged.engine.close().unwrap();
    let path = judged.directory.journal_path();
    let archive = JournalArchive::open(&path).unwrap();
    let newest: Vec<_> = archive.newest_first().map(Result::unwrap).map(|block| block.head.first).collect();
    let mut oldest: Vec<_> =
        archive.oldest_first().map(Result::unwrap).map(|block| block.head.first).collect();
    oldest.reverse();
    assert_eq!(newest, oldest);
    let segments = std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path());
    let last = segments.filter(|path| path.extension().is_some_and(|it| it == "journal")).max().unwrap();
    let whole = std::fs::read(&last).unwrap();
    for length in [0, 5, 12, 30, whole.len() - 1] {
        std::fs::write(&last, &whole[..length]).unwrap();
        let archive = JournalArchive::open(&path).unwrap();
        let blocks = archive.newest_first().map(Result::unwrap).count();
        assert!(blocks < newest.len(), "{length}");
        assert_eq!(archive.oldest_first().map(Result::unwrap).count(), blocks);
    }
}

impl JudgedJournal {
    fn replayed(&self, text: &str, question: BacktestQuery) -> BacktestReport {
        replayed(&self.directory, &format!("{text}{KEPT}"), question)
    }
}

/// Counts and judges anew what a directory's journal has, by a configuration.
pub(crate) fn replayed(directory: &Directory, text: &str, question: BacktestQuery) -> BacktestReport {
    let config = Config::from_text("new.toml", text, &Overrides::default());
    let plan = Plan::compile(&config).unwrap_or_else(|problems| panic!("{problems}"));
    let archive = JournalArchive::open(&directory.journal_path()).unwrap();
    let secret = directory.secret().unwrap();
    let pipeline = Arc::clone(&plan.pipelines[0]);
    let descriptions = archive.descriptions().unwrap();
    let mut replay = Replay::new(&plan, pipeline, secret, question, &descriptions).unwrap();
    archive.oldest_first().for_each(|block| replay.note(&block.unwrap()).unwrap());
    for block in archive.oldest_first() {
        pollster::block_on(replay.take(&block.unwrap())).unwrap();
    }
    let (backtest, tally) = replay.finish();
    tally.report(&backtest, &archive)
}

#[test]
fn replayed_events_are_judged_as_they_were() {
    let judged = judged();
    let report = judged.replayed("preset = \"mail\"", BacktestQuery::default());
    assert_eq!(report.rows, judged.decisions.len() as u64);
    assert_eq!((report.changed, report.rescored), (0, 0), "{:#?}", report.examples);
    assert!(report.not_logged.is_empty(), "{:?}", report.not_logged);
    assert!(report.labelled > 20);
    for rule in &report.rules {
        assert_eq!(rule.before, rule.after, "{}", rule.rule);
    }
    // The statistics of what came before the question's time are there all the same.
    let middle = judged.decisions[judged.decisions.len() / 2].time;
    let later = judged
        .replayed("preset = \"mail\"", BacktestQuery { from: Some(middle), ..BacktestQuery::default() });
    assert!(later.rows > 0 && later.rows < report.rows);
    assert_eq!(later.rescored, 0, "{:#?}", later.examples);
}

#[test]
fn a_replay_counts_what_had_not_been_counted() {
    let judged = judged();
    let text = "preset = \"mail\"\n\
        [[rule]]\nname = \"TEXT\"\nwhen = \"mail.body_text.contains('a')\"\nscore = 20.0\n\
        [[rule]]\nname = \"SIZED\"\nwhen = \"size.seen('3d') >= 1\"\nscore = 20.0\n\
        [[kind]]\nname = \"size\"\nof = \"mail.size\"\n\
        [[statistic]]\nname = \"sizes\"\nkeys = [\"size\"]\ncounts = [\"seen\"]\nwindows = [\"1d x 30\"]\n";
    let report = judged.replayed(text, BacktestQuery::default());
    let named: Vec<&str> = report.not_logged.iter().map(|it| it.fact.as_str()).collect();
    assert_eq!(named, ["mail.body_text"]);
    let sized = report.rules.iter().find(|rule| rule.rule == "SIZED").unwrap();
    assert!(sized.after > 0, "{sized:?}");
    assert_eq!(
        report.changed,
        report.actions.iter().filter(|it| it.before != it.after).map(|it| it.rows).sum::<u64>()
    );
    assert!(report.examples.iter().all(|it| it.fires_now == ["SIZED"]), "{:?}", report.examples);
}

/// Log-ins, whose failures count until one succeeds.
const LOGINS: &str = r#"
name = "door"
input = "json"
[[field]]
name = "user"
type = "string"
[[field]]
name = "ip"
type = "ip"
[[field]]
name = "token"
type = "string"
journal = false
[[field]]
name = "ok"
type = "bool"
[[limit]]
name = "failures"
key = ["user"]
count = 2
per = "10m"
when = "!ok"
[[limit.override]]
key = ["root"]
count = 0
[[rule]]
name = "MANY"
when = "over('failures')"
score = 9
effects = ["set reject"]
[[rule]]
name = "IN"
when = "ok"
score = 0
effects = ["clear limit failures"]
"#;

#[test]
fn a_replay_counts_limits() {
    let parent = tempfile::tempdir().unwrap();
    let directory = Directory::create(&parent.path().join("data"), &[]).unwrap();
    let config = Config::from_text("door.toml", LOGINS, &Overrides::default());
    let plan = Plan::compile(&config).unwrap_or_else(|problems| panic!("{problems}"));
    let engine = Engine::open(&directory, plan).unwrap();
    let (fails, succeeds) = (false, true);
    let login = |user, ok, minute| {
        let mut event = Event::default();
        event.push("user", user);
        event.push("ip", "192.0.2.1");
        event.push("token", "t");
        event.push("ok", ok);
        decide_at(&engine, event, NOW + Span::minutes(minute));
    };
    let outcomes = [fails, fails, succeeds, fails, fails, fails];
    (0..).zip(outcomes).for_each(|(minute, ok)| login("ann", ok, minute));
    login("root", fails, 6);
    login("bob", fails, 6);
    engine.close().unwrap();
    let many = |text: &str| {
        let report = replayed(&directory, text, BacktestQuery::default());
        let hits = report.rules.iter().find(|it| it.rule == "MANY").unwrap();
        assert_eq!(hits.before, 2);
        let named: Vec<String> = report.not_logged.iter().map(|it| it.fact.clone()).collect();
        (hits.after, named.join(" "))
    };
    // The third failure behind the success, and the one of whom an exception allows none.
    assert_eq!(many(LOGINS), (2, String::new()));
    // Nobody clears.
    assert_eq!(many(&LOGINS.replace("[\"clear limit failures\"]", "[]")), (4, String::new()));
    assert_eq!(many(&LOGINS.replace("count = 2", "count = 1")), (4, String::new()));
    assert_eq!(many(&LOGINS.replace("per = \"10m\"", "per = \"1m\"")), (1, String::new()));
    // What nobody had counted, by another key.
    let other = LOGINS
        .replace("key = [\"user\"]", "key = [\"ip\"]")
        .replace("key = [\"root\"]", "key = [\"192.0.2.9\"]");
    assert_eq!(many(&other), (3, String::new()));
    // A key that the rows do not have.
    let lost = LOGINS.replace("key = [\"user\"]", "key = [\"token\"]");
    assert_eq!(many(&lost), (0, "over('failures')".to_owned()));
    let lost = LOGINS.replace("when = \"!ok\"", "when = \"!ok && token == 't'\"");
    assert_eq!(many(&lost), (0, "over('failures')".to_owned()));
}

#[test]
fn a_replay_marks_nobody_whom_the_allow_list_has() {
    let rules = r#"
name = "door"
input = "json"
[[field]]
name = "ip"
type = "ip"
[[kind]]
name = "ip"
of = "ip"
[[label]]
name = "banned"
of = "ip"
keep = "1d"
decision = "ban"
[[rule]]
name = "FIRST"
when = "!ip.marked('banned')"
score = 0
effects = ["mark ip as 'banned' for 1h"]
"#;
    let parent = tempfile::tempdir().unwrap();
    let directory = Directory::create(&parent.path().join("data"), &[]).unwrap();
    let text = format!("{rules}[allow]\nnetworks = [\"192.0.2.1\"]\n");
    let config = Config::from_text("door.toml", &text, &Overrides::default());
    let plan = Plan::compile(&config).unwrap_or_else(|problems| panic!("{problems}"));
    let engine = Engine::open(&directory, plan).unwrap();
    for minute in 0..4 {
        for ip in ["192.0.2.1", "192.0.2.2"] {
            let mut event = Event::default();
            event.push("ip", ip);
            decide_at(&engine, event, NOW + Span::minutes(minute));
        }
    }
    engine.close().unwrap();
    let report = replayed(&directory, &text, BacktestQuery::default());
    let first = report.rules.iter().find(|it| it.rule == "FIRST").unwrap();
    assert_eq!((first.before, first.after), (5, 5), "{report:?}");
}
