//! A reader that follows a journal gets every record, in order, wherever it was interrupted and whatever becomes of segments.

use std::collections::HashSet;
use std::path::Path;

use event::{Kind, Schema, Shingle, Span, Time};
use journal::{
    DecisionRow, Journal, JournalPosition, JournalTail, KeyReading, Options, Record, RecordId,
    VersionDescription,
};
use judge::{Action, Verdict};
use stats::{Durability, Reading};

const NOW: Time = Time::from_seconds(1_700_000_000);

fn open(directory: &Path, segment: u64) -> Journal {
    let options = Options { segment, rotate: Span::days(1), keep: Span::days(30), keep_bytes: 1 << 40 };
    let journal = Journal::open(directory, options, Durability::Sync, 7).unwrap();
    let description = VersionDescription {
        columns: Vec::new(),
        kinds: Vec::new(),
        rules: Vec::new(),
        rules_version: None,
        preset: None,
        models: Vec::new(),
    };
    journal.describe("v", &description, "").unwrap();
    journal
}

fn decision(number: u64) -> (RecordId, Time, Record) {
    let time = NOW + Span::seconds(number.cast_signed());
    let verdict = Verdict {
        score: 0.0,
        probability: 0.5,
        action: Action::Accept,
        reasons: Vec::new(),
        shadow: Vec::new(),
        next: None,
        effects: Vec::new(),
    };
    let row = DecisionRow {
        pipeline: "p".to_owned(),
        version: "v".to_owned(),
        event_id: None,
        time,
        arrival: time,
        duplicate: false,
        facts: Schema::from_columns(Vec::new()).empty_row(),
        keys: vec![KeyReading { kind: Kind(1), shingle: Shingle(number % 10), reading: Reading::default() }],
        verdict,
    };
    (RecordId::first_of(time), time, Record::Decision(Box::new(row)))
}

/// Appends decisions, each in a block of its own.
fn append(journal: &Journal, numbers: impl IntoIterator<Item = u64>) {
    numbers.into_iter().for_each(|number| pollster::block_on(journal.append(&[decision(number)])).unwrap());
}

/// Reads what there is, at most so many blocks.
fn read(tail: &mut JournalTail, journal: &Journal, most: usize) -> Vec<u64> {
    let mut found = Vec::new();
    for _ in 0..most {
        let Some(batch) = tail.next_batch(journal).unwrap() else { break };
        assert_eq!(batch.position, tail.position());
        found.extend(batch.records.iter().map(|(id, _)| (id.time().0 - NOW.0).cast_unsigned() / 1_000_000));
    }
    found
}

const ALL: usize = usize::MAX;

#[test]
fn everything_comes_once_and_in_order_though_the_reader_begins_anew() {
    let parent = tempfile::tempdir().unwrap();
    // Segments of some blocks.
    let mut journal = open(parent.path(), 2_000);
    let mut tail = JournalTail::from(JournalPosition::default());
    assert!(read(&mut tail, &journal, ALL).is_empty());
    let mut found = Vec::new();
    for round in 0..20 {
        append(&journal, round * 10..round * 10 + 10);
        if round % 3 == 0 {
            journal.settle();
        }
        if round == 10 {
            drop(journal);
            journal = open(parent.path(), 2_000);
        }
        found.extend(read(&mut tail, &journal, if round % 2 == 0 { 3 } else { ALL }));
        if round % 5 == 4 {
            let written = serde_json::to_string(&tail.position()).unwrap();
            tail = JournalTail::from(serde_json::from_str(&written).unwrap());
        }
    }
    found.extend(read(&mut tail, &journal, ALL));
    assert_eq!(found, (0..200).collect::<Vec<u64>>());
    assert_eq!((tail.lag(&journal), tail.gaps()), (0, 0));
    assert!(journal.census().segments > 3, "{:?}", journal.census());
    // What is appended while a segment is read, too.
    append(&journal, 200..202);
    let mut slow = JournalTail::from(tail.position());
    assert_eq!(read(&mut slow, &journal, 1), [200]);
    append(&journal, 202..203);
    assert_eq!(read(&mut slow, &journal, ALL), [201, 202]);
    assert_eq!(tail.lag(&journal), 3);
    let end = JournalTail::end(&journal).unwrap();
    append(&journal, 203..205);
    assert_eq!(read(&mut JournalTail::from(end), &journal, ALL), [203, 204]);
    assert_eq!(read(&mut tail, &journal, ALL), (200..205).collect::<Vec<u64>>());
}

#[test]
fn where_the_last_record_was_erased_its_segment_comes_again() {
    let parent = tempfile::tempdir().unwrap();
    let journal = open(parent.path(), 1 << 30);
    append(&journal, 0..20);
    let check = |last: u64, erased: u64, expected: &[u64]| {
        let [segment, last] = [0, last].map(|number| Some(decision(number).0));
        let shingles = HashSet::from([Shingle(erased)]);
        journal.erase(&shingles, false, &mut |_| (), &mut |_, _| (), &|| false).unwrap();
        let mut tail = JournalTail::from(JournalPosition { segment, last });
        assert_eq!(read(&mut tail, &journal, ALL), expected, "after {last:?}, {erased} erased");
    };
    check(17, 3, &[18, 19]);
    let left: Vec<u64> = (0..20).filter(|number| ![3, 7].contains(&(number % 10))).collect();
    check(17, 7, &left);
}

#[test]
fn what_was_let_go_before_it_was_read_is_a_gap() {
    let parent = tempfile::tempdir().unwrap();
    let journal = open(parent.path(), 500);
    append(&journal, 0..5);
    let mut tail = JournalTail::from(JournalPosition::default());
    assert_eq!(read(&mut tail, &journal, 1), [0]);
    append(&journal, 5..30);
    journal.settle();
    journal.expire(Some(NOW + Span::days(60))).unwrap();
    let rest = read(&mut tail, &journal, ALL);
    assert!(!rest.is_empty() && rest.last() == Some(&29) && rest[0] > 1, "{rest:?}");
    assert_eq!(tail.gaps(), 1);
}
