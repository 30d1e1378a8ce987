//! The linear model of a classifier: what it learns, and what is left of it after a crash.

use std::path::Path;
use std::sync::Arc;

use engine::{Decision, Directory, Engine, KnownModels, ModelCheck, RelearnError, TrainingCounts};
use event::{Event, Value};
use journal::RecordId;
use plan::{Config, Overrides, Plan};
use stats::random::Random;

use crate::pipeline::{NOW, decide_at};

const CONFIGURATION: &str = r#"
name = "forum"
[[field]]
name = "post.text"
type = "string"
[[kind]]
name = "text"
of = "post.text"
[[statistic]]
name = "counts"
keys = ["text"]
counts = ["seen", "spam", "ham"]
windows = ["1d x 14"]
[feedback]
spam = ["spam"]
ham = ["ham"]
forget = []
[reports]
bad = ["spam"]
good = ["ham"]
[[classifier]]
name = "learned"
of = ["post.text"]
runs = ["post.text"]
forget = ["forget"]
[ledger]
durability = "sync"
"#;

fn open(path: &Path) -> Engine {
    let config = Config::from_text("forum.toml", CONFIGURATION, &Overrides::default());
    let plan = Plan::compile(&config).unwrap_or_else(|problems| panic!("{problems}"));
    Engine::open(&Directory::open(path).unwrap(), plan).unwrap()
}

fn post(text: &str) -> Event {
    let mut event = Event::default();
    event.push("post.text", text);
    event
}

/// Learns a text; returns how many tokens changed.
fn learn(engine: &Engine, text: &str, class: &str) -> usize {
    let prepared = engine.prepare(&Arc::clone(&engine.plan().pipelines[0]), post(text), NOW);
    pollster::block_on(engine.learn(prepared, text, class)).unwrap().tokens
}

fn text(is_spam: bool, number: usize) -> String {
    let own = if is_spam { ["cheap pills", "casino bonus"] } else { ["patch review", "meeting notes"] };
    format!("{} number {} at {}", own[number % 2], number * 7919, number % 13)
}

/// Judges a text: log-odds in all, those of the linear model, and the probability.
fn judged(engine: &Engine, text: &str) -> (Option<f64>, Option<f64>, Option<f64>, Decision) {
    let decision = decide_at(engine, post(text), NOW);
    let facts = engine.explain(decision.id).unwrap().facts;
    let float = |name: &str| {
        facts.iter().find(|(other, _)| other == name).and_then(|(_, value)| match value {
            Value::Float(float) => Some(*float),
            _ => None,
        })
    };
    (float("learned.score"), float("learned.linear"), float("learned.probability"), decision)
}

fn linear(engine: &Engine, text: &str) -> Option<f64> {
    judged(engine, text).1
}

#[test]
fn the_linear_model_learns_beside_the_counts() {
    let parent = tempfile::tempdir().unwrap();
    let path = parent.path().join("data");
    Directory::create(&path, &[]).unwrap();
    let engine = open(&path);
    let (score, linear_part, probability, _) = judged(&engine, "cheap pills");
    assert_eq!((score, linear_part, probability), (Some(0.0), None, Some(0.5)), "nothing is known");
    for number in 0..30 {
        learn(&engine, &text(true, number), "spam");
        learn(&engine, &text(false, number), "ham");
    }
    let (score, linear_part, probability, spam) = judged(&engine, &text(true, 100));
    let (score, linear_part) = (score.unwrap(), linear_part.unwrap());
    assert!(linear_part > 1.0 && linear_part <= 9.0 && score > 1.0, "{score} {linear_part}");
    assert!((probability.unwrap() - 1.0 / (1.0 + (-score).exp())).abs() < 1e-9);
    assert!(linear(&engine, &text(false, 100)).unwrap() < -1.0);
    let explained = engine.explain(spam.id).unwrap();
    assert_eq!(explained.classifiers[0].linear, Some(linear_part));

    // Feedback on a decision teaches by the row; forgetting takes it back.
    let odd = "a text of which nobody has ever heard";
    let before = linear(&engine, odd).unwrap();
    let decision = judged(&engine, odd).3;
    for (class, wanted) in [("spam", 1.0), ("ham", -1.0)] {
        pollster::block_on(engine.feedback(decision.id, class, NOW)).unwrap();
        let now = linear(&engine, odd).unwrap();
        assert!(now * wanted > 1.0, "{class}: {now}");
    }
    pollster::block_on(engine.feedback(decision.id, "forget", NOW)).unwrap();
    assert!((linear(&engine, odd).unwrap() - before).abs() < 3.0, "forgetting is not exact");

    // It is there after the end, and in a copy.
    let known = linear(&engine, &text(true, 100));
    let copied = engine.snapshot(NOW, &|| false).unwrap();
    engine.close().unwrap();
    drop(engine);
    for path in [&path, &path.join("snapshots").join(copied)] {
        assert_eq!(linear(&open(path), &text(true, 100)), known);
    }
}

/// The examples of a killed process are in the log; those that a power failure took are learned again when they are taught again.
#[test]
fn a_killed_process_loses_no_example() {
    let parent = tempfile::tempdir().unwrap();
    let path = parent.path().join("data");
    Directory::create(&path, &[]).unwrap();
    let examples = |engine: &Engine, numbers: std::ops::Range<usize>| -> usize {
        let both = numbers.flat_map(|number| [(text(true, number), "spam"), (text(false, number), "ham")]);
        both.map(|(text, class)| learn(engine, &text, class)).sum()
    };
    let known = |engine: &Engine| linear(engine, &text(true, 100));
    let engine = open(&path);
    assert!(examples(&engine, 0..20) > 0);
    // A minute of housekeeping.
    (0..6).for_each(|_| engine.maintain(Some(NOW)).unwrap());
    let kept = known(&engine);
    assert!(examples(&engine, 20..40) > 0);
    assert!(learn(&engine, &text(true, 39), "ham") > 0, "somebody was wrong");
    assert!(learn(&engine, &text(true, 39), "spam") > 0);
    let whole = known(&engine);
    assert!(kept.is_some() && kept != whole);
    // What was written is what a killed process leaves; ledger and journal are synced.
    let [killed, without] = ["killed", "without"].map(|name| parent.path().join(name));
    engine.journal().unwrap().settle();
    copy(&path, &killed);
    copy(&path, &without);
    drop(engine);
    let engine = open(&killed);
    assert_eq!(known(&engine), whole);
    assert_eq!(examples(&engine, 0..40), 0, "the counts know all of it");
    assert_eq!(known(&engine), whole, "and so does the model");
    // Killed again before anything was written, and after.
    for name in ["again", "later"] {
        let killed = parent.path().join(name);
        copy(&parent.path().join("killed"), &killed);
        assert_eq!(known(&open(&killed)), whole, "{name}");
        (0..6).for_each(|_| engine.maintain(Some(NOW)).unwrap());
    }
    let logs = |path: &Path| {
        let entries = std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path());
        let is_log = |path: &std::path::PathBuf| path.extension().is_some_and(|end| end == "log");
        entries.filter(is_log).collect::<Vec<_>>()
    };
    assert_eq!(logs(&killed), [] as [std::path::PathBuf; 0], "the learners have it all");
    let left = logs(&without);
    assert_eq!(left.len(), 1, "{left:?}");
    std::fs::remove_file(&left[0]).unwrap();
    let engine = open(&without);
    assert_eq!(known(&engine), kept);
    assert_eq!(examples(&engine, 0..40), 0);
    let again = known(&engine);
    assert_ne!(again, kept, "what the model lacks is learned, though the counts know it");
    assert_eq!(examples(&engine, 0..40), 0);
    assert_eq!(known(&engine), again, "none of it twice");
}

#[test]
fn an_example_that_the_ledger_lost_is_not_learned_twice() {
    let parent = tempfile::tempdir().unwrap();
    let [path, early, late] = ["data", "early", "late"].map(|name| parent.path().join(name));
    Directory::create(&path, &[]).unwrap();
    let engine = open(&path);
    for number in 0..10 {
        learn(&engine, &text(true, number), "spam");
        learn(&engine, &text(false, number), "ham");
    }
    engine.journal().unwrap().settle();
    copy(&path, &early);
    let lost = text(true, 50);
    assert!(learn(&engine, &lost, "spam") > 0);
    let known = linear(&engine, &lost);
    engine.journal().unwrap().settle();
    copy(&path, &late);
    drop(engine);
    std::fs::remove_dir_all(late.join("ledger")).unwrap();
    copy(&early.join("ledger"), &late.join("ledger"));
    let engine = open(&late);
    assert_eq!(linear(&engine, &lost), known);
    assert!(learn(&engine, &lost, "spam") > 0, "the counts do not know it");
    assert_eq!(linear(&engine, &lost), known);
}

#[test]
fn a_damaged_example_is_told_and_costs_itself() {
    let parent = tempfile::tempdir().unwrap();
    let path = parent.path().join("data");
    let directory = Directory::create(&path, &[]).unwrap();
    let engine = open(&path);
    for number in 0..5 {
        learn(&engine, &text(true, number), "spam");
        learn(&engine, &text(false, number), "ham");
    }
    engine.journal().unwrap().settle();
    let killed = parent.path().join("killed");
    copy(&path, &killed);
    drop((engine, directory));
    let log = killed.join("learners.0.log");
    let mut bytes = std::fs::read(&log).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&log, bytes).unwrap();
    let found = Directory::open(&killed).unwrap().verify(None, &mut |_, _, _| ()).unwrap();
    assert!(format!("{found:?}").contains("learners.0.log") && !found.is_sound(), "{found:?}");
    let engine = open(&killed);
    let told = engine.health().list().into_iter().find(|it| it.name == "settings-damaged").unwrap();
    assert!(
        told.detail.contains("learners.0.log") && told.detail.contains("bytes of training examples"),
        "{told:?}"
    );
    assert!(linear(&engine, &text(true, 0)).unwrap() > 0.0);
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().map(Result::unwrap) {
        let target = to.join(entry.file_name());
        match entry.path().is_dir() {
            true => copy(&entry.path(), &target),
            false => _ = std::fs::copy(entry.path(), target).unwrap(),
        }
    }
}

/// The journal has what was said of decisions, so that models that are lost are made anew: of the last judgement of each, and
/// not of what was taken back.
#[test]
fn lost_models_are_made_anew_from_the_journal() {
    let parent = tempfile::tempdir().unwrap();
    let path = parent.path().join("data");
    Directory::create(&path, &[]).unwrap();
    let engine = open(&path);
    let say = |engine: &Engine, text: &str, classes: &[&str]| {
        let id = judged(engine, text).3.id;
        for class in classes {
            pollster::block_on(engine.feedback(id, *class, NOW)).unwrap();
        }
    };
    for number in 0..20 {
        say(&engine, &text(true, number), &["ham", "spam"]);
        say(&engine, &text(false, number), &["ham"]);
    }
    say(&engine, "a casino bonus that was wanted after all", &["spam", "none"]);
    learn(&engine, "what was never decided", "spam");
    let odds = |engine: &Engine| [linear(engine, &text(true, 100)), linear(engine, &text(false, 100))];
    let known = odds(&engine);
    engine.close().unwrap();
    drop(engine);
    std::fs::remove_file(path.join("learners.bin")).unwrap();
    let engine = open(&path);
    assert_eq!(odds(&engine), [None, None]);
    let pipeline = Arc::clone(&engine.plan().pipelines[0]);
    assert!(engine.relearn(&pipeline, KnownModels::Keep, &mut |_| (), &|| true).is_err());
    assert_eq!(odds(&engine), [None, None], "as it was");
    for round in 0..2 {
        let mut blocks = 0;
        let made =
            engine.relearn(&pipeline, KnownModels::Keep, &mut |read| blocks += read, &|| false).unwrap();
        assert_eq!(
            (made.examples, made.undescribed),
            (TrainingCounts { good: 20, bad: 20 }, 0),
            "round {round}"
        );
        assert!(blocks >= 2 && made.skipped.is_empty());
    }
    let made = odds(&engine);
    for (made, known) in made.iter().zip(known) {
        let (made, known) = (made.unwrap(), known.unwrap());
        assert!(made * known > 1.0, "{made} {known}");
    }
    // It is written, and goes on learning.
    engine.close().unwrap();
    drop(engine);
    let engine = open(&path);
    assert_eq!(odds(&engine), made);
    assert!(learn(&engine, "something else", "spam") > 0);
    // What it learned without a decision is not lost unasked.
    let known = odds(&engine);
    let relearn = |models| engine.relearn(&pipeline, models, &mut |_| (), &|| false);
    let refused = relearn(KnownModels::Keep).unwrap_err().to_string();
    assert!(refused.contains("20 good and 21 bad") && refused.ends_with("only 20 and 20"), "{refused}");
    assert_eq!(odds(&engine), known);
    relearn(KnownModels::Replace).unwrap();
    assert_eq!(odds(&engine), made);
}

/// Models that cannot be written, as on a full disk, are not put into use; another try succeeds once they can be.
#[test]
fn models_that_cannot_be_written_are_not_adopted() {
    let parent = tempfile::tempdir().unwrap();
    let path = parent.path().join("data");
    Directory::create(&path, &[]).unwrap();
    let engine = open(&path);
    for number in 0..20 {
        for (is_spam, class) in [(true, "spam"), (false, "ham")] {
            let id = judged(&engine, &text(is_spam, number)).3.id;
            pollster::block_on(engine.feedback(id, class, NOW)).unwrap();
        }
    }
    // The journal does not have these, so that the models made anew differ.
    (0..5).for_each(|number| _ = learn(&engine, &format!("something else {number}"), "spam"));
    let odds = |engine: &Engine| [linear(engine, &text(true, 100)), linear(engine, &text(false, 100))];
    let known = odds(&engine);
    let pipeline = Arc::clone(&engine.plan().pipelines[0]);
    let made = engine.relearn_beside(&pipeline, &mut |_| (), &|| false).unwrap();
    // What is written first, under another name, has its place taken.
    let half = path.join("learners.bin.half");
    std::fs::create_dir(&half).unwrap();
    for _ in 0..2 {
        let refused = engine.adopt_models(&made, KnownModels::Replace).unwrap_err();
        assert!(refused.to_string().contains("learners.bin"), "{refused}");
        assert_eq!(odds(&engine), known);
    }
    // Both learn on meanwhile, and a killed process loses nothing of it.
    assert!(learn(&engine, "one more casino", "spam") > 0);
    let learned = odds(&engine);
    assert_ne!(learned, known);
    std::fs::remove_dir(&half).unwrap();
    let killed = parent.path().join("killed");
    copy(&path, &killed);
    assert_eq!(odds(&open(&killed)), learned);
    engine.adopt_models(&made, KnownModels::Replace).unwrap();
    let adopted = odds(&engine);
    assert_ne!(adopted, learned);
    let killed = parent.path().join("killed once more");
    copy(&path, &killed);
    assert_eq!(odds(&open(&killed)), adopted);
}

/// Models that are made anew learn what those in use learn meanwhile, so that both know the same judgements whenever one takes the
/// place of the other: held against the last judgement of each event.
#[test]
fn models_made_anew_miss_no_judgement_of_meanwhile() {
    struct Forum<'e> {
        engine: &'e Engine,
        random: Random,
        /// The last judgement of each decision.
        judged: Vec<(RecordId, &'static str)>,
    }
    impl Forum<'_> {
        fn judge(&mut self) {
            let number = self.judged.len();
            let class = *self.random.pick(&["ham", "spam", "none"]);
            if number == 0 || self.random.one_in(2) {
                let id = judged(self.engine, &text(class == "spam", number)).3.id;
                self.judged.push((id, class));
                pollster::block_on(self.engine.feedback(id, class, NOW)).unwrap();
            } else {
                let place = self.random.below(number as u64) as usize;
                self.judged[place].1 = class;
                pollster::block_on(self.engine.feedback(self.judged[place].0, class, NOW)).unwrap();
            }
        }

        fn judge_some(&mut self, most: u64) {
            (0..self.random.below(most)).for_each(|_| self.judge());
        }

        fn expected(&self) -> TrainingCounts {
            let count = |class| self.judged.iter().filter(|(_, last)| *last == class).count() as u64;
            TrainingCounts { good: count("ham"), bad: count("spam") }
        }
    }
    for seed in 0..12 {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("data");
        Directory::create(&path, &[]).unwrap();
        let engine = open(&path);
        let pipeline = Arc::clone(&engine.plan().pipelines[0]);
        let mut forum = Forum { engine: &engine, random: Random::new(seed), judged: Vec::new() };
        for round in 0..4 {
            forum.judge_some(30);
            // At some of the blocks: what is said makes more of them.
            let mut left = 8;
            let mut between = |_| {
                if left > 0 && forum.random.one_in(3) {
                    left -= 1;
                    forum.judge();
                }
            };
            let made = engine.relearn_beside(&pipeline, &mut between, &|| false).unwrap();
            forum.judge_some(6);
            if forum.random.one_in(4) {
                drop(made);
            } else {
                engine.adopt_models(&made, KnownModels::Keep).unwrap();
            }
            let again = engine.relearn_beside(&pipeline, &mut |_| (), &|| false).unwrap();
            let (expected, report) = (forum.expected(), &again.report);
            assert_eq!((report.known, report.examples), (expected, expected), "seed {seed} round {round}");
            let ModelCheck { good, good_wrong, bad, bad_wrong } = report.check;
            assert!(good_wrong <= good && bad_wrong <= bad, "{:?}", report.check);
            assert!(good <= expected.good && bad <= expected.bad, "{:?}", report.check);
            // Others are begun: these no longer learn what is said, and so never take a place.
            let _others = engine.relearn_beside(&pipeline, &mut |_| (), &|| false).unwrap();
            let refused = engine.adopt_models(&again, KnownModels::Replace);
            assert!(matches!(refused, Err(RelearnError::Superseded)), "{refused:?}");
        }
    }
}

/// Texts of `runs` and of `site_runs` are learned apart: each model says what it has learned of its own.
#[test]
fn site_and_contents_have_models_of_their_own() {
    let configured = CONFIGURATION
        .replace("[[kind]]", "[[field]]\nname = \"post.place\"\ntype = \"string\"\n[[kind]]")
        .replace("runs = [\"post.text\"]", "runs = [\"post.text\"]\nsite_runs = [\"post.place\"]");
    let config = Config::from_text("forum.toml", &configured, &Overrides::default());
    let plan = || Plan::compile(&config).unwrap_or_else(|problems| panic!("{problems}"));
    let parent = tempfile::tempdir().unwrap();
    let path = parent.path().join("data");
    let directory = Directory::create(&path, &[]).unwrap();
    let engine = Engine::open(&directory, plan()).unwrap();
    let post = |text: &str, place: &str| {
        let mut event = post(text);
        event.push("post.place", place);
        event
    };
    for number in 0..30 {
        for (is_spam, class, place) in [(true, "spam", "the open board"), (false, "ham", "our members' club")]
        {
            let text = text(is_spam, number);
            let prepared = engine.prepare(&Arc::clone(&engine.plan().pipelines[0]), post(&text, place), NOW);
            pollster::block_on(engine.learn(prepared, &text, class)).unwrap();
        }
    }
    // Log-odds of contents and of the site.
    let odds = |engine: &Engine, text: &str, place: &str| {
        let decision = decide_at(engine, post(text, place), NOW);
        let explained = engine.explain(decision.id).unwrap();
        let fact = |name: &str| {
            explained.facts.iter().find(|(other, _)| other == name).map(|(_, value)| value.clone())
        };
        let classifier = &explained.classifiers[0];
        let told = [classifier.linear, classifier.site];
        assert_eq!([fact("learned.linear"), fact("learned.site")], told.map(|odds| odds.map(Value::Float)));
        told
    };
    let spam = text(true, 100);
    let [Some(contents), Some(site)] = odds(&engine, &spam, "our members' club") else { panic!() };
    assert!(contents > 1.0 && site < -1.0, "{contents} {site}");
    assert_eq!(odds(&engine, "", "our members' club"), [None, Some(site)]);
    assert_eq!(odds(&engine, &spam, "off"), [Some(contents), None], "shorter than a run");
    let pipeline = Arc::clone(&engine.plan().pipelines[0]);
    let refused =
        engine.relearn(&pipeline, KnownModels::Keep, &mut |_| (), &|| false).unwrap_err().to_string();
    assert!(refused.contains("60 good and 60 bad"), "{refused}");
    engine.close().unwrap();
    drop(engine);
    let engine = Engine::open(&Directory::open(&path).unwrap(), plan()).unwrap();
    assert_eq!(odds(&engine, &spam, "our members' club"), [Some(contents), Some(site)]);
}

/// People of different tastes share what they do not judge otherwise, and no more.
#[test]
fn a_classifier_for_each_key_has_one_linear_model_for_all() {
    const READER: &str = "[[field]]\nname = \"reader\"\ntype = \"string\"\n[[kind]]\nname = \"reader\"\nof = \"reader\"\n[[statistic]]";
    let configuration = CONFIGURATION
        .replacen("[[statistic]]", READER, 1)
        .replace("keys = [\"text\"]", "keys = [\"text\", \"reader\"]")
        .replace("runs = ", "per = \"reader\"\nruns = ");
    let config = Config::from_text("forum.toml", &configuration, &Overrides::default());
    let plan = || Plan::compile(&config).unwrap_or_else(|problems| panic!("{problems}"));
    let parent = tempfile::tempdir().unwrap();
    let path = parent.path().join("data");
    Directory::create(&path, &[]).unwrap();
    let engine = Engine::open(&Directory::open(&path).unwrap(), plan()).unwrap();
    let post = |reader: &str, text: &str| {
        let mut event = post(text);
        event.push("reader", reader);
        event
    };
    let learn = |engine: &Engine, reader: &str, text: &str, class: &str| {
        let pipeline = Arc::clone(&engine.plan().pipelines[0]);
        let prepared = engine.prepare(&pipeline, post(reader, text), NOW);
        pollster::block_on(engine.learn(prepared, &format!("{reader} {text}"), class)).unwrap();
    };
    let letter = |number: usize| format!("weekly letter, issue {number}: what is new in the garden");
    for number in 0..20 {
        for (reader, of_letters) in [("ann", "ham"), ("bob", "spam")] {
            learn(&engine, reader, &text(true, number), "spam");
            learn(&engine, reader, &text(false, number), "ham");
            learn(&engine, reader, &letter(number), of_letters);
        }
    }
    let linear = |engine: &Engine, reader: &str, text: &str| {
        let decision = decide_at(engine, post(reader, text), NOW);
        engine.explain(decision.id).unwrap().classifiers.first().and_then(|learned| learned.linear)
    };
    let odds = |engine: &Engine, text: &str| ["ann", "bob", "new"].map(|reader| linear(engine, reader, text));
    let of_letters = odds(&engine, &letter(99));
    let [Some(ann), Some(bob), Some(new)] = of_letters else { panic!("{of_letters:?}") };
    assert!(ann < -2.0 && bob > 2.0 && new.abs() < 2.0, "{of_letters:?}");
    // Whoever has taught nothing goes by what others agree on.
    let (spam, ham) = (odds(&engine, &text(true, 100)), odds(&engine, &text(false, 100)));
    assert!(spam.iter().all(|odds| odds.is_some_and(|odds| odds > 1.0)), "{spam:?}");
    assert!(ham.iter().all(|odds| odds.is_some_and(|odds| odds < -1.0)), "{ham:?}");
    // One changes her mind; the others stay with theirs.
    for number in 0..20 {
        learn(&engine, "ann", &letter(number), "spam");
    }
    let changed = odds(&engine, &letter(99));
    assert!(changed[0] > Some(1.0) && changed[1] > Some(1.0), "{changed:?}");
    engine.close().unwrap();
    drop(engine);
    let engine = Engine::open(&Directory::open(&path).unwrap(), plan()).unwrap();
    assert_eq!(odds(&engine, &letter(99)), changed);
    // What the ledger has and the model has not is learned when it is said again, and no more.
    engine.close().unwrap();
    drop(engine);
    std::fs::remove_file(path.join("learners.bin")).unwrap();
    let engine = Engine::open(&Directory::open(&path).unwrap(), plan()).unwrap();
    let examples = |engine: &Engine| {
        let pipeline = Arc::clone(&engine.plan().pipelines[0]);
        let states = pollster::block_on(engine.classifier_states(&pipeline, NOW)).unwrap();
        states[0].linear[0].learned
    };
    for again in [0, 1] {
        for number in 0..20 {
            learn(&engine, "bob", &text(true, number), "spam");
            learn(&engine, "bob", &text(false, number), "ham");
        }
        assert_eq!(examples(&engine), TrainingCounts { good: 20, bad: 20 }, "{again}");
    }
}
