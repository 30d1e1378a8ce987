//! Bands that promise a share of false positives.

use std::path::Path;
use std::sync::Arc;

use engine::{Decision, Directory, Engine, FeedbackInput, PromisedLine};
use event::Event;
use judge::Action;
use plan::{Config, Overrides, Plan};

use crate::pipeline::{NOW, decide_at};

const CONFIGURATION: &str = r#"
name = "forum"
[[field]]
name = "user.mail"
type = "string"
[[field]]
name = "post.points"
type = "float"
[[kind]]
name = "mail"
of = "user.mail"
[[statistic]]
name = "counts"
keys = ["mail"]
counts = ["seen", "spam", "ham", "read"]
windows = ["10m x 144", "1d x 14"]
[feedback]
spam = ["spam"]
ham = ["ham"]
read = ["read"]
[reports]
bad = ["spam"]
good = ["ham"]
[[rule]]
name = "POINTS"
when = "post.points > 0.0"
score = 1000.0
share = "post.points / 1000.0"
description = "The points of the post"
[[band]]
at = 500.0
action = "tag"
false_positives = "1 %"
[[band]]
at = 600.0
action = "reject"
false_positives = "0.1%"
[ledger]
durability = "sync"
"#;

fn plan() -> Plan {
    Plan::compile(&Config::from_text("forum.toml", CONFIGURATION, &Overrides::default()))
        .unwrap_or_else(|problems| panic!("{problems}"))
}

fn post(engine: &Engine, points: f64) -> Decision {
    let mut event = Event::default();
    event.push("user.mail", "ann@example.org");
    event.push("post.points", points);
    decide_at(engine, event, NOW)
}

fn say(engine: &Engine, decision: &Decision, class: &str, by: Option<&str>) {
    pollster::block_on(engine.feedback(decision.id, FeedbackInput { class, by }, NOW)).unwrap();
}

fn lines(engine: &Engine) -> Vec<PromisedLine> {
    engine.promised_lines(&Arc::clone(&engine.plan().pipelines[0]))
}

fn open(path: &Path) -> Engine {
    Engine::open(&Directory::open(path).unwrap(), plan()).unwrap()
}

#[test]
fn a_band_begins_where_good_events_say() {
    let parent = tempfile::tempdir().unwrap();
    let path = parent.path().join("data");
    Directory::create(&path, &[]).unwrap();
    let engine = open(&path);
    // 98 of them: one too few for 1 %.
    let decisions: Vec<Decision> = (1..=98).map(|points| post(&engine, f64::from(points))).collect();
    decisions.iter().for_each(|decision| say(&engine, decision, "ham", None));
    let [tag, reject] = &lines(&engine)[..] else { panic!("two promises") };
    assert_eq!((tag.line, tag.at, tag.good, tag.needed, tag.recall), (None, 500.0, 98, 99, None));
    assert_eq!((reject.action, reject.line, reject.needed), (Action::Reject, None, 999));
    assert_eq!(post(&engine, 499.0).verdict.action, Action::Accept, "the default");

    let spam = post(&engine, 499.0);
    say(&engine, &spam, "spam", None);
    // Others say nothing of the line: who is new, a signal, and who repeats himself.
    for class in ["ham", "none"] {
        say(&engine, &spam, class, Some("somebody"));
    }
    say(&engine, &decisions[3], "read", None);
    say(&engine, &decisions[3], "ham", None);
    assert_eq!(lines(&engine)[0].good, 98);
    say(&engine, &post(&engine, 99.0), "ham", None);
    let tag = lines(&engine).remove(0);
    assert_eq!((tag.line, tag.good, tag.recall), (Some(99.000_001), 99, Some(1.0)));
    let acted = |engine: &Engine, points: f64| post(engine, points).verdict.action;
    assert_eq!((acted(&engine, 99.0), acted(&engine, 99.1)), (Action::Accept, Action::Tag));
    let decision = post(&engine, 99.5);
    assert_eq!(decision.bands.as_slice()[0].at, 99.000_001);
    assert_eq!(decision.verdict.next.map(|next| (next.action, next.distance)), Some((Action::Reject, 500.5)));
    let explained = engine.explain(decision.id).unwrap();
    let line = explained.facts.iter().find(|(name, _)| name == "line.tag").unwrap();
    assert_eq!(line.1, 99.000_001.into(), "the row says what it was held against");
    let [tag, reject] = &explained.lines[..] else { panic!("two promises: {:?}", explained.lines) };
    assert_eq!((tag.line, tag.good, tag.recall), (Some(99.000_001), 99, Some(1.0)));
    assert_eq!((reject.line, reject.at, reject.good), (None, 600.0, 99), "the default, and of how many");

    // A judgement that is taken back, or turned round, is none.
    say(&engine, &decisions[0], "none", None);
    say(&engine, &decisions[1], "spam", None);
    let tag = lines(&engine).remove(0);
    assert_eq!((tag.good, tag.at, tag.recall), (97, 500.0, Some(0.0)));
    say(&engine, &decisions[0], "ham", None);
    say(&engine, &decisions[1], "ham", None);
    assert_eq!(lines(&engine)[0].at, 99.000_001);

    // What was judged outlives the process: at once where it ends, by housekeeping where it is killed.
    engine.close().unwrap();
    drop(engine);
    let engine = open(&path);
    assert_eq!(lines(&engine)[0].at, 99.000_001);
    say(&engine, &post(&engine, 120.0), "ham", None);
    engine.maintain(Some(NOW)).unwrap();
    let kept = lines(&engine);
    let copied = engine.snapshot(NOW, &|| false).unwrap();
    drop(engine);
    assert_eq!(lines(&open(&path)), kept);
    assert_eq!(lines(&open(&path.join("snapshots").join(copied))), kept);
}

#[test]
fn learned_events_are_scored_before_they_are_learned() {
    let engine = Engine::ephemeral(plan()).unwrap();
    let pipeline = Arc::clone(&engine.plan().pipelines[0]);
    let learn = |points: f64, id: &str, class: &str| {
        let mut event = Event::default();
        event.push("user.mail", "ann@example.org");
        event.push("post.points", points);
        let prepared = engine.prepare(&pipeline, event, NOW);
        pollster::block_on(engine.learn(prepared, id, class)).unwrap();
    };
    (0..120).for_each(|points| learn(f64::from(points), &points.to_string(), "ham"));
    (0..10).for_each(|points| learn(f64::from(points) * 20.0, &format!("spam {points}"), "spam"));
    learn(7.0, "7", "ham");
    let tag = lines(&engine).remove(0);
    // The 120th of 120 smallest, of the scores 0 to 119; three of ten spam lie above.
    assert_eq!((tag.good, tag.line, tag.recall), (120, Some(119.000_001), Some(0.4)));
    learn(119.0, "119", "spam");
    assert_eq!(lines(&engine)[0].line, Some(118.000_001));
}

#[test]
fn the_promise_is_kept_in_a_stream() {
    let engine = Engine::ephemeral_with(plan(), event::Secret::new([7; 16])).unwrap();
    let pipeline = Arc::clone(&engine.plan().pipelines[0]);
    let mut state = 11u64;
    let mut random = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((state >> 11) as f64 + 0.5) / (1u64 << 53) as f64
    };
    let (mut good, mut tagged, mut caught) = (0u32, 0u32, 0u32);
    for number in 0..20_000 {
        let is_spam = number % 4 == 0;
        // Scores overlap: of spam some are as low as most of ham.
        let points = if is_spam { 40.0 + 60.0 * random() } else { 8.0 * -random().ln() };
        let mut event = Event::default();
        event.push("user.mail", format!("{}@example.org", number % 50));
        event.push("post.points", points);
        let time = NOW + event::Span::seconds(number);
        let prepared = engine.prepare(&pipeline, event.clone(), time);
        let held = lines(&engine)[0].line.is_some();
        let verdict = pollster::block_on(engine.consult(prepared)).unwrap();
        if held {
            good += u32::from(!is_spam);
            tagged += u32::from(!is_spam && verdict.action != Action::Accept);
            caught += u32::from(is_spam && verdict.action != Action::Accept);
        }
        let prepared = engine.prepare(&pipeline, event, time);
        let class = if is_spam { "spam" } else { "ham" };
        pollster::block_on(engine.learn(prepared, &number.to_string(), class)).unwrap();
    }
    let share = f64::from(tagged) / f64::from(good);
    assert!((0.01 / 1.3..0.01 * 1.3).contains(&share), "{tagged} of {good}: {share}");
    let recall = lines(&engine)[0].recall.unwrap();
    assert!(caught > 4_000 && recall > 0.9, "{caught} {recall}");
}

#[test]
fn a_probability_goes_by_what_was_judged() {
    let parent = tempfile::tempdir().unwrap();
    let path = parent.path().join("data");
    Directory::create(&path, &[]).unwrap();
    let engine = open(&path);
    let calibration = |engine: &Engine| engine.calibration(&Arc::clone(&engine.plan().pipelines[0]));
    let first = post(&engine, 500.0);
    assert_eq!(first.verdict.probability, 0.5, "even where the lowest band begins");
    assert!(post(&engine, 10.0).verdict.probability < 1e-6 && !calibration(&engine).is_drawn);
    // Of 30 good and 30 bad ones few overlap around 50 points.
    let judged: Vec<(Decision, &str)> = (0..30)
        .flat_map(|number| [(f64::from(20 + number), "ham"), (f64::from(45 + number), "spam")])
        .map(|(points, class)| (post(&engine, points), class))
        .collect();
    judged.iter().for_each(|(decision, class)| say(&engine, decision, class, None));
    let drawn = calibration(&engine);
    assert_eq!((drawn.is_drawn, drawn.judged), (true, [30, 30]));
    let probability = |engine: &Engine, points: f64| post(engine, points).verdict.probability;
    assert!(probability(&engine, 25.0) < 0.1 && probability(&engine, 70.0) > 0.9, "{drawn:?}");
    assert!((0.3..0.7).contains(&probability(&engine, 47.0)), "{drawn:?}");
    // The row and the journal say what it was judged by; what was decided before stays as it was.
    let decision = post(&engine, 47.0);
    let explained = engine.explain(decision.id).unwrap();
    let slope = explained.facts.iter().find(|(name, _)| name == "calibration.slope").unwrap();
    assert_eq!(slope.1, drawn.curve.slope.into());
    assert_eq!(explained.verdict.map(|verdict| verdict.probability), Some(decision.verdict.probability));
    assert_eq!(engine.explain(first.id).unwrap().verdict.map(|verdict| verdict.probability), Some(0.5));
    engine.close().unwrap();
    drop(engine);
    let again = calibration(&open(&path));
    assert_eq!((again.is_drawn, again.judged), (true, [30, 30]));
    assert!((again.curve.slope - drawn.curve.slope).abs() < 0.1, "{again:?} {drawn:?}");
}

/// Returns the condition `drift`, once it is looked at.
fn drift(engine: &Engine) -> Option<String> {
    engine.maintain(Some(NOW)).unwrap();
    let conditions = engine.health().list().into_iter();
    conditions.filter(|condition| condition.name == "drift").map(|drift| drift.detail).next()
}

/// A learner that no rule asks, beside points that tell the classes apart: its own curve is the one that fails.
#[test]
fn a_learner_that_is_right_no_more_is_named() {
    let parent = tempfile::tempdir().unwrap();
    let path = parent.path().join("data");
    Directory::create(&path, &[]).unwrap();
    let learner = r#"
[[field]]
name = "post.text"
type = "string"
[[classifier]]
name = "learned"
of = ["post.text"]
runs = ["post.text"]
"#;
    let open = || {
        let config =
            Config::from_text("forum.toml", &format!("{CONFIGURATION}{learner}"), &Overrides::default());
        let plan = Plan::compile(&config).unwrap_or_else(|problems| panic!("{problems}"));
        Engine::open(&Directory::open(&path).unwrap(), plan).unwrap()
    };
    let engine = open();
    let judge = |number: u32, text: &str, class: &str| {
        let mut event = Event::default();
        event.push("user.mail", "ann@example.org");
        event.push("post.points", if class == "spam" { 900.0 } else { 100.0 });
        event.push("post.text", format!("{text} {number}"));
        say(&engine, &decide_at(&engine, event, NOW), class, None);
    };
    let wanted = "see you at the meeting tomorrow";
    let unwanted = [
        "cheap pills shipped from the shop",
        "win a bonus in our casino tonight",
        "your parcel waits, confirm the fee",
        "hot singles near you want to chat",
        "double your coins within a week",
    ];
    let of = |number: u32| unwanted[number as usize % unwanted.len()];
    for number in 0..150 {
        judge(number, wanted, "ham");
        judge(number, of(number), "spam");
    }
    let drifts = |engine: &Engine| engine.learner_drifts(&Arc::clone(&engine.plan().pipelines[0]));
    assert_eq!(drift(&engine), None, "{:?}", drifts(&engine));
    let counts = drifts(&engine).into_iter().find(|(fact, _)| fact == "learned.score").unwrap().1;
    assert!(counts.judged > 200.0 && counts.brier().unwrap() < 0.05, "{counts:?}");
    // Those who sent all that open a forum of their own here: now it is wanted.
    (0..60).for_each(|number| judge(1000 + number, of(number), "ham"));
    let told = drift(&engine).unwrap();
    assert!(told.contains("where `learned.") && told.contains("it has lost its calibration"), "{told}");
    assert!(!told.contains("their probabilities"), "{told}");
    let counts = |engine: &Engine| -> Vec<(String, f64, f64)> {
        drifts(engine).into_iter().map(|(fact, drift)| (fact, drift.judged, drift.bad)).collect()
    };
    let known = counts(&engine);
    engine.close().unwrap();
    drop(engine);
    assert_eq!(counts(&open()), known, "a start knows it, too");
}

#[test]
fn a_promise_that_is_broken_is_said() {
    let parent = tempfile::tempdir().unwrap();
    let path = parent.path().join("data");
    Directory::create(&path, &[]).unwrap();
    let engine = open(&path);
    let good = |points: f64| say(&engine, &post(&engine, points), "ham", None);
    (0..400).for_each(|number| good(f64::from(number % 100) / 10.0 + 1.0));
    assert_eq!(drift(&engine), None);
    // Good events that score higher each time than all before them.
    (0..40).for_each(|number| good(f64::from(20 + number)));
    let told = drift(&engine).unwrap();
    assert!(told.contains("`tag` of `forum`") && told.contains("more than the 1 %"), "{told}");
}

#[test]
fn a_promise_needs_somebody_who_says_what_is_good() {
    let check = |text: &str, wanted: &str| {
        let config = Config::from_text("forum.toml", text, &Overrides::default());
        let told = match Plan::compile(&config) {
            Ok(plan) => plan.warnings.list().iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"),
            Err(problems) => problems.to_string(),
        };
        assert!(told.contains(wanted), "{told}");
    };
    let replaced = |from: &str, to: &str| CONFIGURATION.replacen(from, to, 1);
    check(
        &replaced("good = [\"ham\"]", ""),
        "nobody can say which events are good, so the band begins at its `at`",
    );
    check(&replaced("\"1 %\"", "\"0.005 %\""), "`0.005 %` cannot be promised");
    for share in ["0 %", "51 %", "-1 %", "0.01", "nan %", "1e0 %", "%"] {
        let wanted = format!("`false_positives` cannot be {share:?}");
        check(&replaced("\"1 %\"", &format!("{share:?}")), &wanted);
    }
    check(
        &replaced(
            "name = \"user.mail\"\n",
            "name = \"line.tag\"\ntype = \"float\"\n[[field]]\nname = \"user.mail\"\n",
        ),
        "line.tag",
    );
}
