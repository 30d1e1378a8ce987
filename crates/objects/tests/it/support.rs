//! A journal of a node, and decisions.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use event::{Kind, Schema, Shingle, Span, Time, Value};
use journal::{
    DecisionRow, Journal, KeyReading, KindDescription, Options, Record, RecordId, ReportRecord,
    VersionDescription,
};
use judge::{Action, Verdict};
use objects::{BucketFilter, BucketJournal, ObjectBucket, UploadSettings, Uploader};
use stats::{Durability, Quality, Reading};

/// An hour before midnight, in UTC.
pub(crate) const START: Time = Time::from_seconds(1_764_198_000);

pub(crate) fn options() -> Options {
    Options { segment: 1 << 20, rotate: Span::minutes(5), keep: Span::days(30), keep_bytes: 1 << 40 }
}

pub(crate) fn open(directory: &Path) -> Arc<Journal> {
    open_with(directory, options())
}

pub(crate) fn open_with(directory: &Path, options: Options) -> Arc<Journal> {
    let journal = Journal::open(directory, options, Durability::Sync, 7).unwrap();
    for (version, name) in [("v-mail", "mail.from"), ("v-web", "ip")] {
        let column = event::Column {
            name: name.to_owned(),
            kind: event::Type::String,
            doc: String::new(),
            journalled: true,
        };
        let kind = KindDescription {
            kind: Kind(3),
            name: "from".to_owned(),
            piece: None,
            counters: vec!["seen".to_owned()],
            windows: vec![Span::hours(1)],
            aggregate: Vec::new(),
            further: Vec::new(),
        };
        let description = VersionDescription {
            columns: vec![column],
            kinds: vec![kind],
            rules: vec![("A".to_owned(), "a rule".to_owned())],
            rules_version: None,
            preset: None,
            models: Vec::new(),
        };
        journal.describe(version, &description, "its settings").unwrap();
    }
    journal.begin_anew();
    Arc::new(journal)
}

/// The id of the record of a number, a second after the other; of a node, so that none has that of another.
pub(crate) fn id(node: u64, number: u64) -> RecordId {
    RecordId((((START + Span::seconds(number as i64)).0 as u64 / 1000) << 20) | node)
}

/// A key of which every tenth decision has the same.
pub(crate) fn shingle(node: u64, number: u64) -> Shingle {
    Shingle((node << 32 | (number % 10)).wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

pub(crate) fn decision(node: u64, number: u64, pipeline: &str) -> (RecordId, Time, Record) {
    let time = START + Span::seconds(number as i64);
    let column = event::Column {
        name: "f".to_owned(),
        kind: event::Type::String,
        doc: String::new(),
        journalled: true,
    };
    let mut facts = Schema::from_columns(vec![column]).empty_row();
    facts.set(event::Slot(0), Value::from(format!("{pipeline}-{node}-{number}")));
    let reading = Reading::of(Quality::Exact, (None, None), false, 1, &[number]);
    let row = DecisionRow {
        pipeline: pipeline.to_owned(),
        version: format!("v-{pipeline}"),
        event_id: None,
        time,
        arrival: time,
        duplicate: false,
        facts,
        keys: vec![KeyReading { kind: Kind(3), shingle: shingle(node, number), reading }],
        verdict: Verdict {
            score: number as f64,
            probability: 0.5,
            action: Action::Accept,
            reasons: Vec::new(),
            shadow: Vec::new(),
            next: None,
            effects: Vec::new(),
        },
    };
    (id(node, number), time, Record::Decision(Box::new(row)))
}

pub(crate) fn report(node: u64, number: u64, of: u64) -> (RecordId, Time, Record) {
    let time = START + Span::seconds(number as i64);
    (id(node, number), time, Record::Report(ReportRecord::judgement(id(node, of), "spam", time)))
}

/// Appends records of these numbers: decisions of two pipelines in turn, every tenth feedback on the one before.
pub(crate) fn fill(journal: &Journal, node: u64, numbers: std::ops::Range<u64>) {
    let record = |number: u64| match number % 10 {
        9 => report(node, number, number - 1),
        even if even % 2 == 0 => decision(node, number, "mail"),
        _ => decision(node, number, "web"),
    };
    let all: Vec<u64> = numbers.collect();
    for some in all.chunks(20) {
        let records: Vec<_> = some.iter().map(|number| record(*number)).collect();
        pollster::block_on(journal.append(&records)).unwrap();
    }
}

pub(crate) fn upload(journal: &Arc<Journal>, bucket: &ObjectBucket, node: &str, now: Time) -> Uploader {
    upload_kept(journal, bucket, node, now, None)
}

pub(crate) fn upload_kept(
    journal: &Arc<Journal>,
    bucket: &ObjectBucket,
    node: &str,
    now: Time,
    keep: Option<Span>,
) -> Uploader {
    let settings = UploadSettings { node: node.to_owned(), every: Span(80_000), keep };
    Uploader::start(Arc::clone(journal), bucket.clone(), settings, move || Some(now), |_| ()).unwrap()
}

/// Waits for something that is to come true.
#[track_caller]
pub(crate) fn wait(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < Duration::from_secs(120), "{what} has not come true");
        std::thread::sleep(Duration::from_millis(10));
    }
}

pub(crate) fn wait_for_uploads(journal: &Journal) {
    wait("all is uploaded", || journal.upload_census().waiting == 0);
}

/// All records of a bucket, in the order in which they are read.
pub(crate) fn records(bucket: &ObjectBucket, filter: &BucketFilter) -> Vec<(RecordId, Record)> {
    let journal = BucketJournal::open(bucket, filter).unwrap();
    let mut records = Vec::new();
    let skipped = journal
        .archive()
        .scan(|id, record| {
            records.push((id, record));
            true
        })
        .unwrap();
    assert!(skipped.is_empty(), "{skipped}");
    records
}

/// Checks that a bucket has all records of some nodes, each once.
#[track_caller]
pub(crate) fn assert_all(bucket: &ObjectBucket, nodes: &[(u64, u64)]) {
    let mut ids: Vec<RecordId> =
        records(bucket, &BucketFilter::default()).into_iter().map(|(id, _)| id).collect();
    ids.sort_unstable();
    let mut expected: Vec<RecordId> =
        nodes.iter().flat_map(|(node, count)| (0..*count).map(|number| id(*node, number))).collect();
    expected.sort_unstable();
    assert_eq!(ids.len(), expected.len());
    assert_eq!(ids, expected);
}
