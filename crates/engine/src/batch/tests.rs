//! Columns and rows say the same, and what an answer says is what is then kept.

use std::sync::Arc;

use event::{Event, Secret, Span, Time};
use proptest::prelude::*;

use super::*;
use crate::pipeline::observe::ObserveMode;
use plan::{Config, Overrides, Plan};

const CONFIG: &str = r#"
name = "shop"
space = 7
input = "json"

[time]
skew_max = "5m"
dedupe = "1d"

[[field]]
name = "user"
type = "string"

[[field]]
name = "ip"
type = "ip"

[[field]]
name = "card"
type = "string"

[[field]]
name = "cents"
type = "integer"

[[field]]
name = "failed"
type = "bool"

[[kind]]
name = "user"
of = "user"

[[kind]]
name = "net"
of = "ip_net"

[[kind]]
name = "ip"
of = "ip"

[[kind]]
name = "ip_failed"
of = "ip"
when = "failed"

[[kind]]
name = "card"
of = "card"
normalise = "text"

[[kind]]
name = "wide"
of = ["user", "ip"]
prefix = { ipv4 = 16, ipv6 = 48 }

[[kind]]
name = "card_of_user"
of = ["user", "card"]
normalise = ["exact", "text"]

[[kind]]
name = "net_and_cents"
of = ["ip_net", "cents", "ip"]
when = "failed"

[[statistic]]
name = "orders"
keys = ["user", "net", "card_of_user"]
aggregate = ["first", "last", "count", "sum", "min", "max"]
value = "cents"
decay = ["1h", "1d"]
keep = "3000d"

[[kind]]
name = "karma"
of = "user"

[[statistic]]
name = "karma"
keys = ["karma"]
aggregate = ["first", "count", "sum"]
decay = ["1d"]
keep = "3000d"
observe = false

[[statistic]]
name = "visits"
keys = ["ip", "ip_failed", "net_and_cents", "wide"]
counts = ["seen", "refused", "spent"]
value = "cents"
amounts = ["spent"]
windows = ["10m x 14400", "1d x 100"]
readings = ["1h", "1d"]

[[statistic]]
name = "cards"
keys = ["card"]
aggregate = ["last"]
decay = ["1h"]
keep = "3000d"

[[distinct]]
name = "user_cards"
per = "user"
of = "card"
window = "1d x 100"

[[distinct]]
name = "ip_users"
per = "ip"
of = "user"
window = "1d x 100"
method = "approximate"

[[distinct]]
name = "card_ways"
per = "card_of_user"
of = ["ip", "failed"]
window = "1d x 100"

[[distinct]]
name = "bad_users"
per = "ip"
of = "user"
window = "1d x 100"

[feedback]
fraud = ["bad_users"]

[[reputation]]
name = "address"
of = "ip"
half_life = "1d"
parts = [
    { counter = "seen", weight = 0.5 },
    { counter = "refused", weight = -2.0 },
    { distinct = "bad_users", weight = -5.0 },
]

[observe]
add = ["seen", "spent"]

[[label]]
name = "thief"
of = "user"
keep = "1d"

[[rule]]
name = "DEAR"
when = "cents > 900"
score = 1
effects = ["mark user as thief for 1h", "add karma by -5"]

[[rule]]
name = "THIEF"
when = "user.marked('thief')"
score = 1

[[rule]]
name = "MANY_CARDS"
when = "distinct('user_cards', '1d') > 2 && distinct('ip_users', '1d') > 1"
score = 1

[[rule]]
name = "SEEN_ADDRESS"
when = "reputation('address') > 10.0 && grade('address') != 'bad'"
score = 0.5
effects = ["add ip.refused"]

[[band]]
at = 1.0
action = "review_after"
"#;

fn engine(extra: &str) -> (Engine, Arc<Pipeline>) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("shop.toml");
    std::fs::write(&path, format!("{CONFIG}{extra}")).unwrap();
    let config = Config::load(&path, &Overrides::default());
    let plan = Plan::compile(&config).unwrap_or_else(|problems| panic!("{problems}"));
    let pipeline = Arc::clone(&plan.pipelines[0]);
    let mut engine = Engine::ephemeral(plan).unwrap();
    // The same for all: registers of an approximate count meet by chance, under one secret and not under another.
    engine.secret = Secret::new([7; Secret::BYTES]);
    (engine, pipeline)
}

const ARRIVAL: Time = Time::from_seconds(1_779_012_000);

prop_compose! {
    fn events()(rows in proptest::collection::vec(
        (
            proptest::option::weighted(0.9, 0..4u8),
            proptest::option::weighted(0.8, 0..5u8),
            proptest::option::of(0..4u8),
            proptest::option::of(-1000..1000i64),
            any::<bool>(),
            proptest::option::weighted(0.3, 0..8u8),
            -200_000..400i64,
        ),
        1..40,
    )) -> Vec<Event> {
        rows.into_iter().map(|(user, ip, card, cents, failed, id, at)| {
            let mut event = Event {
                id: id.map(|id| format!("e{id}")),
                time: Some(ARRIVAL + Span::seconds(at)),
                ..Event::default()
            };
            if let Some(user) = user {
                event.push("user", format!("user{user}"));
            }
            if let Some(ip) = ip {
                event.push("ip", format!("192.0.{}.{ip}", ip % 2));
            }
            if let Some(card) = card {
                event.push("card", ["Visa 1", "visa  2", "AMEX", ""][usize::from(card)]);
            }
            if let Some(cents) = cents {
                event.push("cents", cents);
            }
            event.push("failed", failed);
            event.push("unknown", 1i64);
            event
        }).collect()
    }
}

/// Counts events one at a time; answers what is kept after each.
fn one_by_one(engine: &Engine, pipeline: &Arc<Pipeline>, events: &[Event]) -> BatchAnswer {
    let (mut answers, mut duplicate) = (BatchAnswerBuilder::new(pipeline, events.len()), Vec::new());
    for event in events {
        let prepare = || engine.prepare(pipeline, event.clone(), ARRIVAL);
        let seen =
            pollster::block_on(observe::observe_one(&*engine.ledger, prepare(), None, ObserveMode::Seen))
                .unwrap();
        let looked = observe::observe_one(&*engine.ledger, prepare(), None, ObserveMode::Nothing);
        let mut looked = pollster::block_on(looked).unwrap();
        // What is looked up after an event says all, as what is looked up for one that was counted before.
        assert!(looked.events().all(|event| !event.duplicate));
        looked.set_duplicates();
        answers.add_observed(&looked);
        duplicate.extend(seen.events().map(|event| event.duplicate));
    }
    BatchAnswer { duplicate, ..answers.finish() }
}

/// Equal, but for the last bits of decayed sums, and for approximate counts, which an answer cannot know exactly.
#[track_caller]
fn same(found: &BatchAnswer, expected: &BatchAnswer) {
    assert_eq!((found.rows, &found.duplicate), (expected.rows, &expected.duplicate));
    for (found, expected) in found.columns.iter().zip(&expected.columns) {
        assert_eq!((&found.name, &found.present), (&expected.name, &expected.present));
        match (&found.cells, &expected.cells) {
            (AnswerCells::Reals(found_cells), AnswerCells::Reals(cells)) => {
                for (one, other) in found_cells.iter().zip(cells) {
                    assert!(
                        (one - other).abs() <= 1e-9 * other.abs().max(1.0),
                        "{}: {one} {other}",
                        found.name
                    );
                }
            }
            (AnswerCells::Counts(found_cells), AnswerCells::Counts(cells))
                if found.name.starts_with("ip_users.") =>
            {
                assert!(found_cells.iter().zip(cells).all(|(one, other)| one <= other && *other <= one + 1));
            }
            (found_cells, cells) => assert_eq!(found_cells, cells, "{}", found.name),
        }
    }
}

fn prepared<'a>(
    engine: &'a Engine,
    pipeline: &'a Arc<Pipeline>,
    batch: &'a EventBatch<'a>,
) -> PreparedBatch<'a> {
    engine.prepare_batch(pipeline, batch, ARRIVAL, &Cancellation::default()).unwrap()
}

fn observed(engine: &Engine, pipeline: &Arc<Pipeline>, batch: &EventBatch<'_>) -> BatchAnswer {
    pollster::block_on(engine.observe_batch(prepared(engine, pipeline, batch))).unwrap()
}

fn decided(
    engine: &Engine,
    pipeline: &Arc<Pipeline>,
    batch: &EventBatch<'_>,
) -> (Vec<Decision>, BatchAnswer) {
    pollster::block_on(engine.decide_batch(prepared(engine, pipeline, batch)))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn an_answer_says_what_is_kept(events in events()) {
        let (engine, pipeline) = engine("");
        let (other, _) = self::engine("");
        let batch = EventBatch::of_events(events.clone());
        prop_assert!(BatchKeys::of(&pipeline, &batch, ARRIVAL, &engine.secret).is_some());
        let found = observed(&engine, &pipeline, &batch);
        same(&found, &one_by_one(&other, &pipeline, &events));
    }

    #[test]
    fn rows_are_answered_as_columns_are(events in events()) {
        // A kind whose pieces may be several takes its events row by row.
        let by_row = "[[kind]]\nname = \"mail\"\nof = \"user\"\nnormalise = \"address\"\n";
        let (engine, pipeline) = engine("");
        let (other, rows) = self::engine(by_row);
        let batch = EventBatch::of_events(events);
        prop_assert!(BatchKeys::of(&rows, &batch, ARRIVAL, &other.secret).is_none());
        let found = observed(&engine, &pipeline, &batch);
        same(&found, &observed(&other, &rows, &batch));
        // Sent again, they are judged the same, whichever way they are taken.
        let (verdicts, found) = decided(&engine, &pipeline, &batch);
        let (by_row, answer) = decided(&other, &rows, &batch);
        same(&found, &answer);
        for (one, other) in verdicts.iter().zip(&by_row) {
            prop_assert_eq!((&one.verdict, &one.event_id), (&other.verdict, &other.event_id));
        }
    }
}

fn event(user: &str) -> Event {
    let mut event = Event::default();
    event.push("user", user);
    event
}

fn counts(answer: &BatchAnswer, name: &str) -> Vec<u64> {
    match &answer.columns.iter().find(|column| column.name == name).unwrap().cells {
        AnswerCells::Counts(cells) => cells.clone(),
        other => panic!("{other:?}"),
    }
}

/// A batch with a name counts once, however many requests the ledger gets for it.
#[test]
fn a_batch_sent_again_counts_once() {
    let (engine, pipeline) = engine("");
    let events: Vec<Event> = (0..2000).map(|at| event(["ann", "bob"][at % 2])).collect();
    let mut batch = EventBatch::of_events(events);
    batch.id = Some("monday".into());
    let send = |batch: &EventBatch<'_>| observed(&engine, &pipeline, batch);
    let first = send(&batch);
    assert_eq!(counts(&first, "user.count")[1998..], [1000, 1000]);
    assert!(first.duplicate.iter().all(|duplicate| !duplicate));
    let again = send(&batch);
    assert_eq!(counts(&again, "user.count")[..2], [1000, 1000]);
    assert!(again.duplicate.iter().all(|duplicate| *duplicate));
    batch.id = Some("tuesday".into());
    assert_eq!(counts(&send(&batch), "user.count")[1998..], [2000, 2000]);
}

#[test]
fn decisions_of_a_batch_count_once_by_row() {
    let (engine, pipeline) = engine("");
    let mut batch = EventBatch::of_events(vec![event("ann"), event("ann")]);
    batch.id = Some("monday".into());
    let send = || decided(&engine, &pipeline, &batch);
    let (decisions, answer) = send();
    assert_eq!((decisions.len(), counts(&answer, "user.count")), (2, vec![1, 2]));
    let (decisions, answer) = send();
    assert!(decisions.iter().all(|decision| decision.duplicate));
    assert_eq!(counts(&answer, "user.count"), [2, 2]);
}

#[test]
fn no_event_is_an_answer_without_rows() {
    let (engine, pipeline) = engine("");
    let answer = observed(&engine, &pipeline, &EventBatch::default());
    assert_eq!((answer.rows, answer.duplicate.len()), (0, 0));
    assert!(answer.columns.iter().any(|column| column.name == "user.first"));
}

/// A batch that nobody waits for any more is read no further, row by row or in columns, and nothing of it is counted.
#[test]
fn a_cancelled_batch_is_read_no_further() {
    let by_row = "[[kind]]\nname = \"mail\"\nof = \"user\"\nnormalise = \"address\"\n";
    for more in ["", by_row] {
        let (engine, pipeline) = engine(more);
        let batch = EventBatch::of_events((0..1000).map(|_| event("ann")).collect());
        let cancellation = Cancellation::new();
        cancellation.cancel();
        assert!(engine.prepare_batch(&pipeline, &batch, ARRIVAL, &cancellation).is_none());
        let read = engine.metrics.fields_events.get_or_create(&label(&pipeline)).get();
        assert_eq!(read, 0, "no event of it was read");
        assert_eq!(counts(&observed(&engine, &pipeline, &batch), "user.count").last(), Some(&1000));
    }
}
