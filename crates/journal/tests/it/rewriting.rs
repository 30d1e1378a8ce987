//! Rows leave an open journal before their segments do: by erasure, and by the time for which their pipeline keeps them.

use std::cell::Cell;
use std::collections::HashSet;
use std::path::Path;

use event::{Kind, Schema, Shingle, Span, Time};
use journal::{
    DecisionRow, DecisionSource, ErasedRecords, IdRange, Journal, JournalArchive, KeyReading, Options,
    Record, RecordId, ReportRecord, VersionDescription, verify,
};
use judge::{Action, Verdict};
use stats::{Durability, Reading};

const NOW: Time = Time::from_seconds(1_700_000_000);

fn options() -> Options {
    Options { segment: 1 << 30, rotate: Span::days(1), keep: Span::days(30), keep_bytes: 1 << 40 }
}

fn open(directory: &Path) -> Journal {
    let journal = Journal::open(directory, options(), Durability::Sync, 7).unwrap();
    let description = VersionDescription {
        columns: Vec::new(),
        kinds: Vec::new(),
        rules: Vec::new(),
        rules_version: None,
        preset: None,
        models: Vec::new(),
    };
    ["vmail", "vweb"].into_iter().for_each(|version| journal.describe(version, &description, "").unwrap());
    journal
}

/// A decision of so many minutes after the beginning.
fn decision(pipeline: &str, minutes: i64, shingle: u64) -> (RecordId, Time, Record) {
    let time = NOW + Span::minutes(minutes);
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
        pipeline: pipeline.to_owned(),
        version: format!("v{pipeline}"),
        event_id: None,
        time,
        arrival: time,
        duplicate: false,
        facts: Schema::from_columns(Vec::new()).empty_row(),
        keys: vec![KeyReading { kind: Kind(1), shingle: Shingle(shingle), reading: Reading::default() }],
        verdict,
    };
    (RecordId::first_of(time), time, Record::Decision(Box::new(row)))
}

/// Feedback, a minute after the decision and some.
fn feedback(on: i64, minutes: i64) -> (RecordId, Time, Record) {
    let time = NOW + Span::minutes(minutes);
    let report = ReportRecord::judgement(RecordId::first_of(NOW + Span::minutes(on)), "bad", time);
    (RecordId::first_of(time), time, Record::Report(report))
}

fn append(journal: &Journal, records: &[(RecordId, Time, Record)]) {
    pollster::block_on(journal.append(records)).unwrap();
}

/// Returns the minutes of all records.
fn minutes(journal: &Journal) -> Vec<i64> {
    let mut found = Vec::new();
    let skipped = journal.scan(|id, _| {
        found.push((id.time().0 - NOW.0) / 60_000_000);
        true
    });
    assert!(skipped.unwrap().is_empty());
    found
}

/// Returns the minutes of all records as searches come to them, oldest first.
fn searched(journal: &Journal) -> Vec<i64> {
    let (mut found, mut blocks) = (Vec::new(), journal.ranked(IdRange::default()).unwrap());
    while let Some(block) = blocks.next_block().unwrap() {
        found.extend(block.records().unwrap().into_iter().map(|(id, _)| (id.time().0 - NOW.0) / 60_000_000));
    }
    found.sort_unstable();
    found
}

const DAY: i64 = 24 * 60;

/// Two pipelines over three days, each a decision an hour, with feedback.
fn filled(journal: &Journal) -> Vec<i64> {
    for day in 0..3 {
        for hour in 0..24 {
            let at = day * DAY + hour * 60;
            let pipeline = if hour % 2 == 0 { "mail" } else { "web" };
            append(journal, &[decision(pipeline, at, hour as u64 % 4), feedback(at, at + 1)]);
        }
    }
    minutes(journal)
}

#[test]
fn erased_rows_go_while_others_are_written() {
    let parent = tempfile::tempdir().unwrap();
    let journal = open(parent.path());
    let all = filled(&journal);
    assert_eq!(all.len(), 3 * 24 * 2);
    let shingles = HashSet::from([Shingle(2)]);
    let concerned = |minutes: &&i64| (**minutes % DAY) / 60 % 4 == 2;
    let heard = Cell::new(0);
    let erase = |pretend| {
        heard.set(0);
        let mut each = |row: &DecisionRow| {
            assert_eq!(row.keys[0].shingle, Shingle(2));
            heard.set(heard.get() + 1);
        };
        journal.erase(&shingles, pretend, &mut each, &mut |_, _| (), &|| false).unwrap()
    };
    let would = erase(true);
    assert_eq!(would.records, ErasedRecords { decisions: 18, feedback: 18 });
    assert_eq!((heard.get(), minutes(&journal)), (18, all.clone()));
    // Somebody who has begun to read goes on to the end of the segment.
    let mut reading = journal.blocks().unwrap();
    let begun = reading.next().unwrap().unwrap().records().unwrap().len();
    assert_eq!(erase(false), would);
    assert!(begun > 0 && reading.all(|block| block.is_ok()));
    append(&journal, &[decision("mail", 4 * DAY, 2)]);
    let left: Vec<i64> = all.iter().filter(|minutes| !concerned(minutes)).copied().collect();
    assert_eq!(minutes(&journal), [left.clone(), vec![4 * DAY]].concat(), "what comes later is known again");
    let id = |minutes: i64| RecordId::first_of(NOW + Span::minutes(minutes));
    assert!(journal.find(id(120)).unwrap().is_none() && journal.find(id(60)).unwrap().is_some());
    assert_eq!(erase(false).records, ErasedRecords { decisions: 1, feedback: 0 });
    assert_eq!(erase(false).records, ErasedRecords::default());
    journal.close().unwrap();
    let found = verify(parent.path(), None, &mut |_, _| ()).unwrap();
    assert!(found.is_sound() && found.records == left.len() as u64, "{found:?}");
    let journal = open(parent.path());
    assert!(journal.losses().lacking.is_empty(), "{:?}", journal.losses());
    assert_eq!(minutes(&journal), left);
}

#[test]
fn searches_find_nothing_that_is_gone() {
    let parent = tempfile::tempdir().unwrap();
    let journal = open(parent.path());
    let all = filled(&journal);
    // After the first erasure the files are by columns, and what searches read of them is kept.
    for (gone, shingle) in (1..).zip([2, 0, 3]) {
        let shingles = HashSet::from([Shingle(shingle)]);
        journal.erase(&shingles, false, &mut |_| (), &mut |_, _| (), &|| false).unwrap();
        for _ in 0..2 {
            assert_eq!(searched(&journal), minutes(&journal));
        }
        assert_eq!(searched(&journal).len(), all.len() / 4 * (4 - gone));
    }
    let week = Span::days(7);
    journal.expire_pipelines(&[("web".to_owned(), Span::days(1))], NOW + week).unwrap();
    assert_eq!(searched(&journal), minutes(&journal));
    journal.expire(Some(NOW + Span::days(60))).unwrap();
    assert_eq!(searched(&journal), minutes(&journal));
    assert!(searched(&journal).len() < all.len() / 4, "the oldest segments are gone");
}

#[test]
fn an_erasure_that_is_ended_is_begun_again() {
    let parent = tempfile::tempdir().unwrap();
    let journal = open(parent.path());
    let all = filled(&journal);
    let shingles = HashSet::from([Shingle(1)]);
    // However far it comes, what is left is whole.
    for steps in 0u64.. {
        let left = Cell::new(steps);
        let stop = || left.replace(left.get().saturating_sub(1)) == 0;
        let erased = journal.erase(&shingles, false, &mut |_| (), &mut |_, _| (), &stop).unwrap();
        let found = minutes(&journal);
        assert!(found.iter().all(|minutes| all.contains(minutes)));
        let others = found.iter().filter(|minutes| (**minutes % DAY) / 60 % 4 != 1).count();
        assert_eq!(others, all.len() / 4 * 3, "{steps} steps");
        if !erased.is_ended {
            assert!(steps > 1 && found.len() == others);
            break;
        }
    }
    journal.close().unwrap();
    assert!(verify(parent.path(), None, &mut |_, _| ()).unwrap().is_sound());
}

#[test]
fn each_pipeline_keeps_its_rows_for_its_own_time() {
    let parent = tempfile::tempdir().unwrap();
    let journal = open(parent.path());
    let all = filled(&journal);
    append(&journal, &[decision("mail", 3 * DAY + 1, 0)]);
    let day = |days: i64| NOW + Span::days(days);
    let is_web = |minutes: i64| (minutes % DAY) / 60 % 2 == 1;
    let check = |what: &str, kept: &[(&str, i64)], now: Time, expected: &dyn Fn(i64) -> bool| {
        let kept: Vec<(String, Span)> =
            kept.iter().map(|(name, days)| ((*name).to_owned(), Span::days(*days))).collect();
        journal.expire_pipelines(&kept, now).unwrap();
        journal.expire(Some(now)).unwrap();
        let found: Vec<i64> = minutes(&journal).into_iter().filter(|at| *at < 3 * DAY).collect();
        let left: Vec<i64> = all.iter().copied().filter(|at| expected(*at)).collect();
        assert_eq!(found, left, "{what}");
    };
    check("nothing is old", &[("web", 5)], day(5), &|_| true);
    // The last row of the first segment is of the end of its first day.
    check("a segment's rows are old", &[("web", 5)], day(6), &|at| at >= DAY || !is_web(at));
    check("another one's, too", &[("web", 5)], day(7), &|at| at >= 2 * DAY || !is_web(at));
    check("no pipeline is another", &[("other", 1)], day(7), &|at| at >= 2 * DAY || !is_web(at));
    // Longer than the journal: the others go at its time, and the segments stay.
    check("longer", &[("web", 60)], day(40), &|at| at >= 2 * DAY && is_web(at));
    check("all is old", &[("web", 60)], day(90), &|_| false);
    journal.close().unwrap();
    assert!(verify(parent.path(), None, &mut |_, _| ()).unwrap().is_sound());
    let archive = JournalArchive::open(parent.path()).unwrap();
    assert!(archive.oldest_first().all(|block| block.is_ok()));
}
