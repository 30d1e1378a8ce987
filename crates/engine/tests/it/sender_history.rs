//! Records of senders from other filters: counted once, as far as windows reach, and without grades.

use std::sync::Arc;

use engine::{Engine, HistoryError, HistoryOutcome, SenderHistory};
use event::{Event, Span, Time};
use judge::Action;
use plan::{Config, Grade, Overrides, Pipeline, Plan};
use proptest::prelude::*;

use crate::pipeline::NOW;

const CONFIG: &str = r#"
name = "forum"
[[field]]
name = "user"
type = "string"
[[kind]]
name = "user"
of = "user"
[[kind]]
name = "hours"
of = "user"
[[statistic]]
name = "counts"
keys = ["user"]
counts = ["seen", "refused", "passed", "complaint"]
windows = ["10m x 144", "1d x 30"]
[statistic.admit]
after = 2
rotate = "7d"
keys = 1000
[[statistic]]
name = "short"
keys = ["hours"]
counts = ["seen"]
windows = ["1h x 24"]
[observe]
add = ["seen"]
[settle]
refused = ["reject"]
passed = ["accept"]
"#;

const JUDGED: &str = r#"
[feedback]
complaint = ["complaint"]
[[reputation]]
name = "account"
of = "user"
half_life = "7d"
parts = [{ counter = "refused", weight = -5.0 }, { counter = "passed", weight = 5.0 }, { counter = "complaint", weight = -5.0 }]
"#;

fn engine(text: &str) -> (Engine, Arc<Pipeline>) {
    let plan = Plan::compile(&Config::from_text("forum.toml", text, &Overrides::default()))
        .unwrap_or_else(|problems| panic!("{problems}"));
    let engine = Engine::ephemeral(plan).unwrap();
    let pipeline = Arc::clone(&engine.plan().pipelines[0]);
    (engine, pipeline)
}

fn judged() -> (Engine, Arc<Pipeline>) {
    engine(&format!("{CONFIG}{JUDGED}"))
}

fn record(user: &str, count: u64, verdict: Option<Action>, last: Time) -> SenderHistory {
    let mut event = Event::default();
    event.push("user", user);
    SenderHistory { name: format!("test\0{user}"), event, count, verdict, last }
}

fn count(engine: &Engine, pipeline: &Arc<Pipeline>, records: Vec<SenderHistory>) -> Vec<HistoryOutcome> {
    pollster::block_on(engine.count_history(pipeline, records, NOW, false)).unwrap()
}

/// All counts of a user: seen, refused, passed.
fn known(engine: &Engine, pipeline: &Arc<Pipeline>, user: &str) -> [u64; 3] {
    let known = pollster::block_on(engine.timeline(pipeline, "user", user, NOW)).unwrap();
    for reputation in &known.reputations {
        assert_eq!(reputation.grade, Grade::Unknown, "{user}");
    }
    let buckets = known.timeline.map(|timeline| timeline.buckets).unwrap_or_default();
    [0, 1, 2].map(|counter| buckets.iter().map(|bucket| bucket.counts[counter]).sum())
}

#[test]
fn messages_and_verdicts_are_counted_once() {
    let (engine, pipeline) = judged();
    let day = NOW - Span::days(3);
    let records = || {
        vec![
            record("ann", 400, Some(Action::Accept), day),
            record("eve", 30, Some(Action::Reject), day),
            record("bob", 7, None, day),
            record("old", 7, None, NOW - Span::days(31)),
            record("ann", 400, Some(Action::Accept), day),
            SenderHistory { event: Event::default(), ..record("nobody", 7, None, day) },
        ]
    };
    let pretended = pollster::block_on(engine.count_history(&pipeline, records(), NOW, true)).unwrap();
    assert_eq!(pretended[0], HistoryOutcome::Counted(400));
    assert_eq!(known(&engine, &pipeline, "ann"), [0, 0, 0]);
    let (expired, keyless) = (HistoryOutcome::Expired, HistoryOutcome::Keyless);
    let (counted, again) = (HistoryOutcome::Counted, HistoryOutcome::Duplicate);
    let first = count(&engine, &pipeline, records());
    assert_eq!(first, [counted(400), counted(30), counted(7), expired, again, keyless]);
    for _ in 0..2 {
        assert_eq!(known(&engine, &pipeline, "ann"), [400, 0, 400]);
        assert_eq!(known(&engine, &pipeline, "eve"), [30, 30, 0]);
        assert_eq!(known(&engine, &pipeline, "bob"), [7, 0, 0]);
        assert_eq!(known(&engine, &pipeline, "old"), [0, 0, 0]);
        let second = count(&engine, &pipeline, records());
        assert_eq!(second, [again, again, again, expired, again, keyless]);
    }
}

#[test]
fn nothing_that_is_imported_is_of_the_last_day() {
    let (engine, pipeline) = judged();
    count(&engine, &pipeline, vec![record("ann", 400, None, NOW + Span::days(9))]);
    assert_eq!(known(&engine, &pipeline, "ann"), [400, 0, 0]);
    let ann = pollster::block_on(engine.timeline(&pipeline, "user", "ann", NOW)).unwrap();
    assert!(
        ann.timeline.unwrap().buckets.iter().all(|bucket| bucket.start + bucket.width < NOW - Span::days(1))
    );
    let short = pollster::block_on(engine.timeline(&pipeline, "hours", "ann", NOW)).unwrap();
    assert!(short.timeline.is_none(), "no window of this kind reaches so far");
}

#[test]
fn a_pipeline_without_feedback_refuses() {
    let (engine, pipeline) = engine(CONFIG);
    let refused = pollster::block_on(engine.count_history(&pipeline, Vec::new(), NOW, false));
    assert!(matches!(refused, Err(HistoryError::Forgetful(_))), "{refused:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// However often and in whichever steps a record is imported, all that it ever said is counted once.
    #[test]
    fn what_a_record_ever_said_counts_once(counts in prop::collection::vec(1..1000u64, 1..8)) {
        let (engine, pipeline) = judged();
        let mut most = 0;
        for said in &counts {
            let outcome = count(&engine, &pipeline, vec![record("ann", *said, None, NOW - Span::days(2))]);
            let expected = match said.saturating_sub(most) {
                0 => HistoryOutcome::Duplicate,
                fresh => HistoryOutcome::Counted(fresh),
            };
            prop_assert_eq!(outcome, vec![expected]);
            most = most.max(*said);
        }
        // A message that came once waits in front of the sketch.
        let waits = u64::from(counts[0] == 1);
        prop_assert_eq!(known(&engine, &pipeline, "ann")[0], most - waits);
    }
}
