//! Uploads to a directory: whole, once, and through faults.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use event::{Span, Time};
use journal::{Options, Record};
use objects::{BucketFilter, BucketJournal, ObjectBucket, ObjectError};

use crate::support::*;

fn bucket(directory: &Path) -> ObjectBucket {
    ObjectBucket::open(&format!("file://{}", directory.display())).unwrap()
}

/// The files below a directory, by their names from there on.
fn names(directory: &Path) -> BTreeSet<String> {
    let (mut open, mut names) = (vec![directory.to_path_buf()], BTreeSet::new());
    while let Some(path) = open.pop() {
        match fs::read_dir(&path) {
            Ok(entries) => open.extend(entries.map(|entry| entry.unwrap().path())),
            Err(_) => _ = names.insert(path.strip_prefix(directory).unwrap().display().to_string()),
        }
    }
    names
}

/// Two nodes, of which the second has uploaded what it has in two lives.
#[test]
fn all_nodes_rows_are_there_by_pipeline_and_day() {
    let parent = tempfile::tempdir().unwrap();
    let to = bucket(&parent.path().join("bucket"));
    let now = START + Span::hours(3);
    for (node, lives) in [(1, vec![(0, 7000)]), (2, vec![(0, 300), (300, 900)])] {
        for life in lives {
            let journal = open(&parent.path().join(format!("node{node}")));
            fill(&journal, node, life.0..life.1);
            let _uploader = upload(&journal, &to, &format!("node{node}"), now);
            wait_for_uploads(&journal);
        }
    }
    assert_all(&to, &[(1, 7000), (2, 900)]);
    let names = names(&parent.path().join("bucket"));
    let folders: BTreeSet<&str> = names
        .iter()
        .filter(|name| name.ends_with(".parquet"))
        .map(|name| name.rsplit_once('/').unwrap().0)
        .collect();
    let days = ["2025-11-26", "2025-11-27"];
    let tables = ["decisions/pipeline=mail", "decisions/pipeline=web", "feedback"];
    let expected: Vec<String> =
        tables.iter().flat_map(|table| days.map(|day| format!("{table}/date={day}"))).collect();
    assert_eq!(folders.into_iter().collect::<Vec<_>>(), expected);
    // Rows of one pipeline, or of one time, are asked for without the files of others.
    let web = BucketFilter { pipeline: Some("web".to_owned()), ..BucketFilter::default() };
    let early = BucketFilter { to: Some(START + Span::minutes(10)), ..BucketFilter::default() };
    let is_web = |record: &Record| match record {
        Record::Decision(row) => row.pipeline == "web",
        Record::Report(_) => true,
    };
    let found = records(&to, &web);
    assert!(found.iter().all(|(_, record)| is_web(record)) && found.len() == 5 * 790, "{}", found.len());
    let found = records(&to, &early);
    let decided = found.iter().filter(|(_, record)| matches!(record, Record::Decision(_))).count();
    assert!((1080..2200).contains(&decided), "{decided}");
    // By id, and what its row means.
    for (node, number) in [(1, 0), (1, 6998), (2, 298), (2, 301), (2, 898)] {
        let found = BucketJournal::find(&to, id(node, number)).unwrap().expect("a decision");
        assert_eq!(found.node, format!("node{node}"));
        let Some(Record::Decision(row)) = found.archive.find(id(node, number)).unwrap() else { panic!() };
        assert_eq!(row.verdict.score, number as f64);
        assert_eq!(found.archive.description(&row.version).unwrap().columns.len(), 1);
    }
    // Feedback, and ids that nobody has.
    for missing in [id(1, 9), id(3, 100), id(2, 900)] {
        assert!(BucketJournal::find(&to, missing).unwrap().is_none(), "{missing}");
    }
    assert_eq!(BucketJournal::open(&to, &web).unwrap().archive().descriptions().unwrap().len(), 2);
}

/// Ids of two nodes, feedback, and what nobody has are asked for together, a few of a file and very many.
#[test]
fn many_decisions_are_found_together() {
    let parent = tempfile::tempdir().unwrap();
    let to = bucket(&parent.path().join("bucket"));
    for (node, count) in [(1, 7000), (2, 900)] {
        let journal = open(&parent.path().join(format!("node{node}")));
        fill(&journal, node, 0..count);
        let _uploader = upload(&journal, &to, &format!("node{node}"), START + Span::hours(3));
        wait_for_uploads(&journal);
    }
    let numbers: Vec<(u64, u64)> =
        (0..300).map(|number| (1, number)).chain([(1, 6998), (2, 5), (2, 898), (3, 7), (2, 900)]).collect();
    let ids = numbers.iter().map(|(node, number)| id(*node, *number)).collect();
    let found = BucketJournal::find_all(&to, &ids).unwrap();
    let is_there = |(node, number): &(u64, u64)| number % 10 != 9 && *node != 3 && *number != 900;
    let expected: BTreeSet<_> =
        numbers.iter().filter(|one| is_there(one)).map(|(node, number)| id(*node, *number)).collect();
    assert_eq!(found.iter().map(|one| one.id).collect::<BTreeSet<_>>(), expected);
    assert_eq!(found.len(), expected.len());
    for one in &found {
        let (node, number) = numbers.iter().find(|(node, number)| id(*node, *number) == one.id).unwrap();
        assert_eq!((&one.node, one.row.verdict.score), (&format!("node{node}"), *number as f64));
        assert!(one.archive.description(&one.row.version).is_ok());
    }
    // Nobody waits for longer than was said, and that is the error wherever the time ends: in a listing, a manifest, an index
    // or the middle of a file.
    let (mut patience, mut late) = (Duration::ZERO, 0);
    loop {
        match BucketJournal::find_all(&to.within(patience), &ids) {
            Err(ObjectError::Late(_)) => late += 1,
            other => break assert_eq!(other.unwrap().len(), expected.len()),
        }
        patience += Duration::from_micros(200).max(patience / 20);
    }
    assert!(late > 0);
}

#[test]
fn feedback_comes_before_its_decision_where_the_newest_is_first() {
    let parent = tempfile::tempdir().unwrap();
    let to = bucket(&parent.path().join("bucket"));
    let journal = open(&parent.path().join("node"));
    fill(&journal, 1, 0..2000);
    let _uploader = upload(&journal, &to, "node", START + Span::hours(3));
    wait_for_uploads(&journal);
    let read = BucketJournal::open(&to, &BucketFilter::default()).unwrap();
    let (mut said, mut labelled) = (BTreeSet::new(), 0);
    for block in read.archive().newest_first() {
        for (id, record) in block.unwrap().records().unwrap() {
            match record {
                Record::Report(report) => _ = said.insert(report.decision),
                Record::Decision(_) => labelled += usize::from(said.contains(&id)),
            }
        }
    }
    assert_eq!((said.len(), labelled), (200, 200));
}

/// A bucket that is away, and comes back: nothing that waits becomes too old, and decisions go on.
#[test]
fn what_cannot_be_uploaded_waits() {
    let parent = tempfile::tempdir().unwrap();
    let place = parent.path().join("bucket");
    // A file where the directory should be.
    fs::write(&place, "").unwrap();
    let to = bucket(&place);
    let journal = open_with(&parent.path().join("node"), Options { keep: Span::minutes(1), ..options() });
    let now = START + Span::days(2);
    let _uploader = upload(&journal, &to, "node", now);
    fill(&journal, 1, 0..1000);
    wait("attempts fail", || journal.upload_census().failures >= 2);
    journal.expire(Some(now)).unwrap();
    let census = journal.upload_census();
    assert_eq!((census.segments, census.lost), (0, 0));
    // As of the first block's end.
    let oldest = census.oldest.unwrap();
    assert!(census.waiting >= 4 && oldest < START + Span::minutes(10), "{census:?}");
    fs::remove_file(&place).unwrap();
    wait_for_uploads(&journal);
    assert_all(&to, &[(1, 1000)]);
    // Now they are too old.
    journal.expire(Some(now)).unwrap();
    assert_eq!(journal.census().segments, 1);
    assert_eq!(journal.upload_census().lost, 0);
}

/// A node that is stopped uploads what is left, and appends nothing to that when it is started again.
#[test]
fn a_closed_journal_is_uploaded_to_its_end() {
    let parent = tempfile::tempdir().unwrap();
    let to = bucket(&parent.path().join("bucket"));
    for life in [0..30, 30..50] {
        let journal = open(&parent.path().join("node"));
        // At a time at which no segment is old.
        let uploader = upload(&journal, &to, "node", START - Span::days(1));
        fill(&journal, 1, life.clone());
        assert_eq!(records(&to, &BucketFilter::default()).len() as u64, life.start);
        journal.close().unwrap();
        uploader.finish(Duration::from_secs(120));
        assert_all(&to, &[(1, life.end)]);
    }
}

#[test]
fn what_is_too_much_goes_and_is_counted() {
    let parent = tempfile::tempdir().unwrap();
    let place = parent.path().join("bucket");
    fs::write(&place, "").unwrap();
    let journal = open_with(&parent.path().join("node"), Options { keep_bytes: 1, ..options() });
    let _uploader = upload(&journal, &bucket(&place), "node", START + Span::hours(2));
    fill(&journal, 1, 0..1000);
    wait("attempts fail", || journal.upload_census().failures >= 1);
    journal.expire(Some(START)).unwrap();
    let lost = journal.upload_census().lost;
    assert!((600..1000).contains(&lost), "{lost}");
}

/// Half an upload is not seen, and is put right.
#[test]
fn half_a_segment_is_not_seen_and_is_made_whole() {
    let parent = tempfile::tempdir().unwrap();
    let (place, home) = (parent.path().join("bucket"), parent.path().join("node"));
    let to = bucket(&place);
    let run = |check: &dyn Fn()| {
        let journal = open(&home);
        check();
        let _uploader = upload(&journal, &to, "node", START + Span::hours(2));
        wait_for_uploads(&journal);
    };
    fill(&open(&home), 1, 0..1000);
    run(&|| ());
    let whole = names(&place);
    let of = |ending: &str| -> Vec<PathBuf> {
        whole.iter().filter(|name| name.ends_with(ending)).map(|name| place.join(name)).collect()
    };
    let (manifests, files) = (of(".manifest"), of(".parquet"));
    assert!(manifests.len() >= 4 && files.len() >= 12, "{whole:?}");
    // Without its manifest a segment is not there, and nor are the files that it has.
    fs::remove_file(&manifests[0]).unwrap();
    fs::write(&files[0], "PAR1 half").unwrap();
    let left = records(&to, &BucketFilter::default()).len();
    assert!((600..1000).contains(&left), "{left}");
    // A damaged manifest is no reason to pass over anything.
    let sound = fs::read(&manifests[1]).unwrap();
    fs::write(&manifests[1], &sound[..sound.len() / 2]).unwrap();
    assert!(BucketJournal::open(&to, &BucketFilter::default()).is_err());
    run(&|| ());
    assert_eq!(names(&place), whole, "the same names");
    assert_all(&to, &[(1, 1000)]);
}

/// Rows that are erased at a node are erased in the bucket, too.
#[test]
fn erased_rows_go_from_the_bucket() {
    let parent = tempfile::tempdir().unwrap();
    let (place, home) = (parent.path().join("bucket"), parent.path().join("node"));
    let to = bucket(&place);
    let journal = open(&home);
    fill(&journal, 1, 0..1000);
    let uploader = upload(&journal, &to, "node", START + Span::hours(2));
    wait_for_uploads(&journal);
    drop((uploader, journal));
    let erased = [shingle(1, 8)].into_iter().collect();
    let gone = journal::erase(&home, &erased, false).unwrap();
    assert_eq!((gone.decisions, gone.feedback), (100, 100));
    let journal = open(&home);
    let _uploader = upload(&journal, &to, "node", START + Span::hours(2));
    wait_for_uploads(&journal);
    let left = records(&to, &BucketFilter::default());
    assert_eq!(left.len(), 800);
    let has_it = |record: &Record| match record {
        Record::Decision(row) => row.keys.iter().any(|key| key.shingle == shingle(1, 8)),
        Record::Report(_) => true,
    };
    assert!(!left.iter().any(|(_, record)| has_it(record)));
    assert!(names(&place).iter().all(|name| !name.starts_with("feedback/")));
}

/// Rows that only the bucket has are erased there, of all nodes, and do not come again.
#[test]
fn rows_are_erased_from_the_bucket_alone() {
    let parent = tempfile::tempdir().unwrap();
    let place = parent.path().join("bucket");
    let to = bucket(&place);
    let run = |node: u64| {
        let journal = open(&parent.path().join(format!("node{node}")));
        if journal.last_id().is_none() {
            fill(&journal, node, 0..1000);
        }
        let _uploader = upload(&journal, &to, &format!("node{node}"), START + Span::hours(2));
        wait_for_uploads(&journal);
    };
    (1..3).for_each(run);
    let scratch = parent.path().join("scratch");
    let keys = [shingle(1, 8), shingle(2, 3)].into_iter().collect();
    let would = to.erase(&keys, true, &scratch).unwrap();
    assert_eq!((would.decisions, would.feedback), (200, 100));
    assert_all(&to, &[(1, 1000), (2, 1000)]);
    assert_eq!(to.erase(&keys, false, &scratch).unwrap(), would);
    assert!(!scratch.exists());
    for _ in 0..2 {
        let left = records(&to, &BucketFilter::default());
        assert_eq!(left.len(), 1700);
        let has = |(_, record): &(_, Record)| match record {
            Record::Decision(row) => row.keys.iter().any(|key| keys.contains(&key.shingle)),
            Record::Report(report) => report.decision.0 & 1023 == 1,
        };
        assert!(!left.iter().any(has));
        assert_eq!(to.erase(&keys, false, &scratch).unwrap(), journal::ErasedRecords::default());
        // The node has them still, and has uploaded them.
        run(1);
    }
    for number in [0, 7, 998] {
        assert_eq!(BucketJournal::find(&to, id(1, number)).unwrap().is_some(), number != 998, "{number}");
    }
}

#[test]
fn segments_in_the_bucket_become_too_old() {
    let parent = tempfile::tempdir().unwrap();
    let (place, home) = (parent.path().join("bucket"), parent.path().join("node"));
    let to = bucket(&place);
    let journal = open(&home);
    fill(&journal, 1, 0..1000);
    let others = open(&parent.path().join("other"));
    let _others = upload(&others, &to, "other", START + Span::days(5));
    // What a node has that still uploads it keeps or removes itself.
    for day in [0, 4] {
        let first = day * 24 * 3600;
        fill(&others, 2, first..first + 100);
        wait_for_uploads(&others);
    }
    let run = |now: Time, expected: usize| {
        let _uploader = upload_kept(&journal, &to, "node", now, Some(Span::days(2)));
        wait_for_uploads(&journal);
        wait("old segments go", || records(&to, &BucketFilter::default()).len() == expected);
    };
    run(START + Span::hours(2), 1200);
    run(START + Span::days(5), 200);
    // And do not come again.
    run(START + Span::days(5), 200);
    assert!(names(&place).iter().all(|name| name.contains("other") || name.contains("versions")));
    // Of one that has uploaded nothing for as long as all is kept, nothing stays.
    run(START + Span::days(10), 0);
    assert!(names(&place).iter().all(|name| name.contains("versions")));
}

const HOME: &str = "TOLLHOUSE_TEST_UPLOAD_HOME";
const URL: &str = "TOLLHOUSE_TEST_UPLOAD_URL";
/// Records that the process that is killed writes.
pub(crate) const KILLED_RECORDS: u64 = 12_000;

/// The process that is killed: it goes on with what is there, and uploads meanwhile.
#[test]
#[ignore = "a process that others kill"]
fn uploading_process() {
    let (Some(home), Ok(url)) = (std::env::var_os(HOME), std::env::var(URL)) else { return };
    let journal = open(Path::new(&home));
    let mut next = 0;
    journal
        .scan(|_, _| {
            next += 1;
            true
        })
        .unwrap();
    let to = ObjectBucket::open(&url).unwrap();
    let _uploader = upload(&journal, &to, "killed", START + Span::days(1));
    fill(&journal, 1, next..KILLED_RECORDS);
    wait_for_uploads(&journal);
}

/// Kills the process some times at moments that are drawn, and lets it end at last.
pub(crate) fn kill_while_uploading(home: &Path, url: &str, kills: u64) {
    for round in 0..=kills {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["uploads::uploading_process", "--exact", "--ignored", "--nocapture"])
            .env(HOME, home)
            .env(URL, url)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        if round < kills {
            std::thread::sleep(Duration::from_millis(150 + 211 * round % 700));
            // SIGKILL.
            let _ = child.kill();
            child.wait().unwrap();
        } else {
            assert!(child.wait().unwrap().success());
        }
    }
}

#[test]
fn a_killed_process_loses_and_doubles_nothing() {
    let parent = tempfile::tempdir().unwrap();
    let place = parent.path().join("bucket");
    fs::create_dir(&place).unwrap();
    kill_while_uploading(&parent.path().join("node"), &format!("file://{}", place.display()), 8);
    assert_all(&bucket(&place), &[(1, KILLED_RECORDS)]);
    let files = names(&place);
    assert!(files.iter().filter(|name| name.ends_with(".manifest")).count() >= 40, "{}", files.len());
}

#[test]
fn addresses_that_name_no_place_are_refused() {
    for address in ["", "bucket", "ftp://a/b", "s3://", "file://host/path", "http://example.org/a"] {
        assert!(ObjectBucket::open(address).is_err(), "{address}");
    }
}
