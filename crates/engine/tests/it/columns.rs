//! Closed segments become columns in the background, at no moment are they less than whole, and whoever reads the
//! journal does not notice.

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};

use engine::backtest::{Backtest, BacktestQuery, BacktestReport};
use engine::{Directory, Engine};
use event::{Column, Facts, Span, Time, Type, Value};
use journal::{
    DecisionRow, Journal, JournalArchive, Options, Record, RecordId, ReportRecord, VersionDescription,
    export, verify,
};
use judge::{Action, Verdict};
use plan::{Config, Overrides, Plan};
use stats::Durability;

use crate::tables::labelled_mail;

const NOW: Time = Time::from_seconds(1_700_000_000);

/// A journal of mail, written as rows and read, and then the same with its rows as columns.
pub(crate) struct RotatedJournal {
    pub(crate) parent: tempfile::TempDir,
    pub(crate) directory: Directory,
    pub(crate) decisions: Vec<engine::Decision>,
}

impl RotatedJournal {
    /// Writes mail as rows, calls `before`, and lets them become columns.
    pub(crate) fn new(before: impl FnOnce(&Directory, &Engine)) -> RotatedJournal {
        let parent = tempfile::tempdir().unwrap();
        let preset = plan::preset::find("mail").unwrap();
        let directory = Directory::create(&parent.path().join("data"), &[preset]).unwrap();
        // The messages are from many years.
        let mut text =
            fs::read_to_string(directory.config_path()).unwrap() + "\n[journal]\nrotate = \"36500d\"\n";
        fs::write(directory.config_path(), &text).unwrap();
        let (engine, decisions, _) = labelled_mail(&directory);
        engine.journal().unwrap().settle();
        assert_eq!(engine.journal().unwrap().census().columnar, 0, "the newest segment stays rows");
        before(&directory, &engine);
        engine.close().unwrap();
        drop(engine);
        text += "segment = \"4KiB\"\n";
        fs::write(directory.config_path(), text).unwrap();
        let rotated = RotatedJournal { parent, directory, decisions };
        let engine = rotated.open();
        // The operator has said it, too: that would not be logged again.
        let said = engine::FeedbackInput { class: "ham", by: Some("ann@example.org") };
        pollster::block_on(engine.feedback(rotated.decisions[5].id, said, NOW)).unwrap();
        let journal = engine.journal().unwrap();
        journal.sync().unwrap();
        journal.settle();
        let census = journal.census();
        assert_eq!((census.segments, census.columnar), (2, 1), "{census:?}");
        engine.close().unwrap();
        rotated
    }

    pub(crate) fn open(&self) -> Engine {
        let config = Config::load(&self.directory.config_path(), &Overrides::default());
        Engine::open(&self.directory, Plan::compile(&config).unwrap()).unwrap()
    }

    /// The file by columns.
    pub(crate) fn columns(&self) -> PathBuf {
        let files = files(&self.directory.journal_path(), "parquet");
        assert_eq!(files.len(), 1, "{files:?}");
        files[0].clone()
    }
}

/// The files of this kind, by name.
fn files(directory: &Path, extension: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> =
        entries.filter(|path| path.extension().is_some_and(|it| it == extension)).collect();
    files.sort();
    files
}

fn records(journal: &Journal) -> Vec<(RecordId, Record)> {
    let mut records = Vec::new();
    journal
        .scan(|id, record| {
            records.push((id, record));
            true
        })
        .unwrap();
    records
}

fn report(directory: &Directory) -> BacktestReport {
    let archive = JournalArchive::open(&directory.journal_path()).unwrap();
    let text = "preset = \"mail\"\n[[rule]]\nname = \"NEW\"\nwhen = \"mail.size > 3000\"\nscore = 3\n";
    let plan = Plan::compile(&Config::from_text("new.toml", text, &Overrides::default())).unwrap();
    let pipeline = std::sync::Arc::clone(&plan.pipelines[0]);
    let backtest = Backtest::new(pipeline, BacktestQuery::default(), &archive.descriptions().unwrap());
    let mut tally = backtest.tally();
    for block in archive.newest_first() {
        tally.add(backtest.judge(&block.unwrap()).unwrap());
    }
    tally.report(&backtest, &archive)
}

fn table(journal: &Journal) -> Vec<String> {
    let mut lines = Vec::new();
    export::ndjson(&journal.archive().unwrap(), &export::ExportFilter::default(), &mut lines).unwrap();
    String::from_utf8(lines).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn columns_say_what_the_rows_said() {
    let (mut before, mut judged, mut lines) = (Vec::new(), None, Vec::new());
    let rotated = RotatedJournal::new(|directory, engine| {
        let journal = engine.journal().unwrap();
        before = records(journal);
        lines = table(journal);
        judged = Some(report(directory));
    });
    let engine = rotated.open();
    let journal = engine.journal().unwrap();
    let after = records(journal);
    assert_eq!(after[..before.len()], before[..]);
    assert_eq!(after.len(), before.len() + 1);
    for (id, record) in &before {
        assert_eq!(journal.find(*id).unwrap().as_ref(), Some(record));
    }
    assert_eq!(journal.find(RecordId(before[0].0.0 - 1)).unwrap(), None);
    assert_eq!(journal.recent(10_000).unwrap(), after);
    assert!(rotated.decisions.iter().all(|decision| engine.explain(decision.id).is_ok()));
    let labelled = |line: &&String| line.contains(&rotated.decisions[5].id.to_string());
    let others = |lines: &[String]| lines.iter().filter(|line| !labelled(line)).cloned().collect::<Vec<_>>();
    assert_eq!(others(&table(journal)), others(&lines), "but for the label that came");
    let (judged, again) = (judged.unwrap(), report(&rotated.directory));
    assert!(judged.changed > 0 && judged.rows as usize == rotated.decisions.len());
    let said =
        |report: &BacktestReport| (report.rows, report.changed, report.rescored, report.actions.clone());
    assert_eq!((said(&again), &again.rules), (said(&judged), &judged.rules));
    assert_eq!(again.examples.len(), judged.examples.len());
    let found = verify(&rotated.directory.journal_path(), None, &mut |_, _| ()).unwrap();
    assert!(found.is_sound() && found.records == after.len() as u64, "{found:?}");
}

#[test]
fn one_subject_is_erased_from_columns() {
    let rotated = RotatedJournal::new(|_, _| ());
    let path = rotated.columns();
    // What a crash left of a conversion has the same records.
    let half = path.with_extension("half");
    fs::copy(&path, &half).unwrap();
    let engine = rotated.open();
    let all = records(engine.journal().unwrap());
    let key = |id: RecordId| engine.explain(id).unwrap().keys;
    let shingles: HashSet<_> = key(rotated.decisions[3].id)
        .into_iter()
        .filter(|key| key.kind == "from")
        .map(|key| key.shingle)
        .collect();
    assert_eq!(shingles.len(), 1);
    let concerned: HashSet<RecordId> = rotated
        .decisions
        .iter()
        .map(|decision| decision.id)
        .filter(|id| key(*id).iter().any(|key| shingles.contains(&key.shingle)))
        .collect();
    engine.close().unwrap();
    drop(engine);
    let plan = Plan::compile(&Config::load(&rotated.directory.config_path(), &Overrides::default())).unwrap();
    let erased = rotated.directory.erase(Some(&plan), &shingles, false, &|| false).unwrap();
    assert_eq!(erased.records.decisions, concerned.len() as u64);
    assert!(!half.exists());
    let found = verify(&rotated.directory.journal_path(), None, &mut |_, _| ()).unwrap();
    assert!(found.is_sound(), "{found:?}");
    let engine = rotated.open();
    let left = records(engine.journal().unwrap());
    let is_left = |(id, record): &(RecordId, Record)| match record {
        Record::Decision(_) => !concerned.contains(id),
        Record::Report(report) => !concerned.contains(&report.decision),
    };
    assert_eq!(left, all.into_iter().filter(is_left).collect::<Vec<_>>());
}

#[test]
fn snapshots_link_columns_and_can_be_restored() {
    use std::os::unix::fs::MetadataExt;
    let rotated = RotatedJournal::new(|_, _| ());
    let engine = rotated.open();
    let target = rotated.directory.snapshots_path().join(engine.snapshot(NOW, &|| false).unwrap());
    let (path, name) = (rotated.columns(), rotated.columns().file_name().unwrap().to_owned());
    let copy = target.join("journal").join(name);
    assert_eq!(fs::metadata(&path).unwrap().ino(), fs::metadata(&copy).unwrap().ino());
    let again = rotated.parent.path().join("again");
    let restored = Directory::restore(&target, &again, &mut |_, _, _| ()).unwrap();
    let config = Config::load(&restored.config_path(), &Overrides::default());
    let other = Engine::open(&restored, Plan::compile(&config).unwrap()).unwrap();
    assert_eq!(records(other.journal().unwrap()), records(engine.journal().unwrap()));
}

fn plan() -> Options {
    Options { segment: 8 << 10, rotate: Span::days(1), keep: Span::days(30), keep_bytes: 1 << 30 }
}

fn feedback(number: u64) -> (RecordId, Time, Record) {
    let class = format!("{:x}", u128::from(number + 1).wrapping_pow(9)).repeat(4);
    let report = ReportRecord::judgement(RecordId(number), class, NOW);
    (RecordId(number), NOW + Span::seconds(number as i64), Record::Report(report))
}

fn append(journal: &Journal, numbers: std::ops::Range<u64>) {
    for start in numbers.clone().step_by(50) {
        let records: Vec<_> = (start..numbers.end.min(start + 50)).map(feedback).collect();
        pollster::block_on(journal.append(&records)).unwrap();
        journal.sync().unwrap();
    }
}

fn open(directory: &Path) -> Journal {
    Journal::open(directory, plan(), Durability::None, 7).unwrap()
}

fn ids(journal: &Journal) -> Vec<u64> {
    records(journal).into_iter().map(|(id, _)| id.0).collect()
}

/// Tries all that a crash can leave at each step of a conversion. All of it is mended when the journal is opened.
#[test]
fn a_crash_at_any_step_loses_nothing() {
    let source = tempfile::tempdir().unwrap();
    // Rows that nothing has made columns of: the directory as it was before.
    let rows: BTreeMap<String, Vec<u8>> = {
        let journal =
            Journal::open(source.path(), Options { segment: 1 << 30, ..plan() }, Durability::None, 7);
        let journal = journal.unwrap();
        append(&journal, 1..500);
        drop(journal);
        let path = &files(source.path(), "journal")[0];
        [(RecordId(1).to_string(), fs::read(path).unwrap())].into()
    };
    let journal = open(source.path());
    append(&journal, 500..501);
    journal.settle();
    assert_eq!((journal.census().segments, journal.census().columnar), (2, 1));
    drop(journal);
    let name = RecordId(1).to_string();
    let columns = fs::read(source.path().join(format!("{name}.parquet"))).unwrap();
    let newest = RecordId(500).to_string();
    let open_segment = fs::read(source.path().join(format!("{newest}.journal"))).unwrap();
    let rows = &rows[&name];
    let (half, whole) = (&columns[..columns.len() / 2], &columns[..]);
    /// The name of a state, and the files that are there.
    type State<'f> = (&'f str, &'f [(&'f str, &'f [u8])]);
    let states: [State<'_>; 8] = [
        ("nothing begun", &[("journal", rows)]),
        ("an empty file", &[("journal", rows), ("half", &[])]),
        ("half a file", &[("journal", rows), ("half", half)]),
        ("not renamed", &[("journal", rows), ("half", whole)]),
        ("rows not removed", &[("journal", rows), ("parquet", whole)]),
        ("rows not removed, and the disk forgot", &[("journal", rows), ("parquet", half)]),
        ("done", &[("parquet", whole)]),
        ("done, and a half left", &[("parquet", whole), ("half", whole)]),
    ];
    for (state, present) in states {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join(format!("{newest}.journal")), &open_segment).unwrap();
        for (extension, bytes) in present {
            fs::write(directory.path().join(format!("{name}.{extension}")), bytes).unwrap();
        }
        // Whoever does not open it sees everything, too.
        let archive = JournalArchive::open(directory.path()).unwrap();
        let seen: usize = archive.newest_first().map(|block| block.unwrap().records().unwrap().len()).sum();
        assert_eq!(seen, 500, "{state}");
        let journal = open(directory.path());
        assert_eq!(ids(&journal), (1..501).collect::<Vec<_>>(), "{state}");
        journal.settle();
        assert_eq!(ids(&journal), (1..501).collect::<Vec<_>>(), "{state}");
        assert_eq!(journal.find(RecordId(77)).unwrap(), Some(feedback(77).2), "{state}");
        assert_eq!(files(directory.path(), "half"), [] as [PathBuf; 0], "{state}");
        assert_eq!(files(directory.path(), "parquet").len(), 1, "{state}");
        assert_eq!(files(directory.path(), "journal").len(), 1, "{state}");
        // Who looked before still finds it.
        assert_eq!(archive.find(RecordId(77)).unwrap(), Some(feedback(77).2), "{state}");
        assert_eq!(archive.oldest_first().count(), journal.blocks().unwrap().count(), "{state}");
    }
}

#[test]
fn damage_in_columns_is_said_and_the_rest_is_served() {
    let directory = tempfile::tempdir().unwrap();
    let journal = open(directory.path());
    append(&journal, 1..1000);
    journal.settle();
    assert!(journal.census().columnar > 1, "{:?}", journal.census());
    drop(journal);
    let files = files(directory.path(), "parquet");
    let path = &files[1];
    let whole = fs::read(path).unwrap();
    let index = u64::from_le_bytes(whole[16..24].try_into().unwrap()) as usize;
    for at in [0, 5, 13, 20, 41, 44, 100, index - 1, index + 5, whole.len() - 1] {
        let mut flipped = whole.clone();
        flipped[at] ^= 4;
        fs::write(path, &flipped).unwrap();
        let journal = open(directory.path());
        assert_eq!(journal.find(RecordId(1)).unwrap(), Some(feedback(1).2), "byte {at}");
        assert_eq!(journal.find(RecordId(999)).unwrap(), Some(feedback(999).2), "byte {at}");
        // Head and index are there twice, Parquet's own footer is for others, and without a filter the group is read: it ends with one.
        let is_ours = (44..index - 1).contains(&at);
        assert_eq!(!journal.scan(|_, _| true).unwrap().is_empty(), is_ours, "byte {at}");
        drop(journal);
        let found = verify(directory.path(), None, &mut |_, _| ()).unwrap();
        let name = path.file_name().unwrap().to_str().unwrap();
        assert!(found.damage.len() == 1 && found.damage[0].segment == name, "byte {at}: {found:?}");
    }
    // A later format is refused, whatever else is in the directory.
    let mut later = whole.clone();
    later[12] += 1;
    let crc = crc32fast::hash(&later[4..40]);
    later[40..44].copy_from_slice(&crc.to_le_bytes());
    fs::write(path, &later).unwrap();
    let refused = Journal::open(directory.path(), plan(), Durability::None, 7).err().unwrap().to_string();
    assert!(
        refused.ends_with("format 7 is not that of this program, which is 6; use the release that wrote it"),
        "{refused}"
    );
}

#[test]
fn columns_go_by_age_and_size_as_rows_do() {
    let directory = tempfile::tempdir().unwrap();
    let journal = open(directory.path());
    append(&journal, 1..1000);
    journal.settle();
    let before = journal.census();
    assert_eq!(before.columnar + 1, before.segments);
    journal.expire(Some(NOW + Span::days(30))).unwrap();
    assert_eq!(journal.census(), before);
    drop(journal);
    // Whatever the file says: its age is that of the latest arrival in it.
    let oldest = files(directory.path(), "parquet").remove(0);
    fs::OpenOptions::new().write(true).open(&oldest).unwrap().set_modified(std::time::UNIX_EPOCH).unwrap();
    let journal = open(directory.path());
    journal.expire(Some(NOW + Span::days(30))).unwrap();
    assert!(oldest.exists());
    journal.expire(Some(NOW + Span::days(30) + Span::seconds(500))).unwrap();
    let left = journal.census().segments;
    assert!(!oldest.exists() && left > 1 && left < before.segments, "{left} of {}", before.segments);
    journal.expire(Some(NOW + Span::days(31))).unwrap();
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 2, "the open one stays, and the list");
}

/// A reader of the files beside the writer sees no damage where there is none, whatever becomes of segments meanwhile.
#[test]
fn files_are_read_while_segments_come_become_columns_and_go() {
    let directory = tempfile::tempdir().unwrap();
    let plan = Options { segment: 4 << 10, keep_bytes: 60 << 10, ..plan() };
    let journal = Journal::open(directory.path(), plan, Durability::None, 7).unwrap();
    append(&journal, 1..100);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for start in (100..6000).step_by(20) {
                let records: Vec<_> = (start..start + 20).map(feedback).collect();
                pollster::block_on(journal.append(&records)).unwrap();
                journal.sync().unwrap();
                journal.expire(None).unwrap();
                // The thread that converts has a low priority: beside others it may not have its turn all the while.
                if start % 400 == 0 {
                    journal.settle();
                }
            }
        });
        let (mut readings, mut read) = (0, 0);
        while !writer.is_finished() || readings == 0 {
            let archive = JournalArchive::open(directory.path()).unwrap();
            let mut seen = Vec::new();
            let skipped = archive.scan(|id, _| {
                seen.push(id.0);
                true
            });
            assert!(skipped.unwrap().is_empty() && seen.is_sorted());
            assert_eq!(archive.lacking().unwrap(), []);
            for block in archive.newest_first() {
                block.unwrap().records().unwrap();
            }
            if let Some(newest) = seen.last() {
                archive.find(RecordId(*newest)).unwrap();
            }
            (readings, read) = (readings + 1, read + seen.len());
        }
        assert!(read > 0, "{readings} readings");
    });
    journal.settle();
    let archive = journal.archive().unwrap();
    // What is gone without having become too old is missed.
    let oldest = &files(directory.path(), "parquet")[0];
    drop(journal);
    fs::remove_file(oldest).unwrap();
    assert_eq!(archive.lacking().unwrap().len(), 1);
    assert!(JournalArchive::open(directory.path()).unwrap().lacking().unwrap()[0].is_gone);
}

/// Rows that cannot be read are left for whoever can.
#[test]
fn what_is_damaged_stays_rows() {
    let directory = tempfile::tempdir().unwrap();
    {
        let large = Options { segment: 1 << 30, ..plan() };
        let journal = Journal::open(directory.path(), large, Durability::None, 7).unwrap();
        append(&journal, 1..500);
    }
    let path = files(directory.path(), "journal").remove(0);
    let mut bytes = fs::read(&path).unwrap();
    let middle = bytes.len() / 2;
    // An older segment by the time that it is opened, so that it is not cut off.
    fs::write(directory.path().join(format!("{}.journal", RecordId(600))), &bytes[..HEAD_BYTES]).unwrap();
    bytes[middle] ^= 1;
    fs::write(&path, &bytes).unwrap();
    let journal = open(directory.path());
    journal.settle();
    assert_eq!(journal.census().columnar, 0);
    assert_eq!(fs::read(&path).unwrap(), bytes);
    assert_eq!(files(directory.path(), "half"), [] as [PathBuf; 0]);
    assert!(journal.find(RecordId(1)).unwrap().is_some(), "what is before it can be read");
}

/// Appends all of them at once.
fn append_at_once(journal: &Journal, numbers: std::ops::Range<u64>) {
    let records: Vec<_> = numbers.map(feedback).collect();
    pollster::block_on(journal.append(&records)).unwrap();
}

/// A journal whose segment does not end, with many records that were appended at once. Answers the segment.
fn written_at_once(directory: &Path, count: u64) -> PathBuf {
    let large = Options { segment: 1 << 30, ..plan() };
    let journal = Journal::open(directory, large, Durability::None, 7).unwrap();
    append_at_once(&journal, 1..count);
    journal.sync().unwrap();
    files(directory, "journal").remove(0)
}

const HEAD_BYTES: usize = 16;
const BLOCK_HEAD_BYTES: usize = 56;

/// The length of a segment's first block, and whether it is by columns.
fn first_block(segment: &[u8]) -> (usize, bool) {
    let word = |at: usize| u32::from_le_bytes(segment[at..at + 4].try_into().unwrap());
    (BLOCK_HEAD_BYTES + word(HEAD_BYTES + 16) as usize, word(HEAD_BYTES + 20) == 0)
}

#[test]
fn many_records_are_written_by_columns_and_copied_when_their_segment_is_closed() {
    let directory = tempfile::tempdir().unwrap();
    let large = || Options { segment: 1 << 30, ..plan() };
    let journal = Journal::open(directory.path(), large(), Durability::None, 7).unwrap();
    append_at_once(&journal, 1..4000);
    assert_eq!(journal.find(RecordId(77)).unwrap(), Some(feedback(77).2), "on its way");
    assert_eq!(journal.recent(10).unwrap().last().unwrap().0, RecordId(3999));
    journal.sync().unwrap();
    append(&journal, 4000..4100);
    let check = |journal: &Journal, count: u64| {
        assert_eq!(ids(journal), (1..count).collect::<Vec<_>>());
        for number in [1, 77, 3999, 4000, count - 1] {
            assert_eq!(journal.find(RecordId(number)).unwrap(), Some(feedback(number).2), "{number}");
        }
        assert_eq!(journal.find(RecordId(count)).unwrap(), None);
        assert_eq!(journal.recent(1).unwrap().last().unwrap().0, RecordId(count - 1));
        let archive = JournalArchive::open(directory.path()).unwrap();
        assert_eq!(archive.find(RecordId(2000)).unwrap(), Some(feedback(2000).2));
        let found = verify(directory.path(), None, &mut |_, _| ()).unwrap();
        assert!(found.is_sound() && found.records == count - 1, "{found:?}");
    };
    check(&journal, 4100);
    drop(journal);
    let segment = fs::read(&files(directory.path(), "journal")[0]).unwrap();
    let (length, is_columns) = first_block(&segment);
    assert!(is_columns);
    let journal = Journal::open(directory.path(), large(), Durability::None, 7).unwrap();
    append_at_once(&journal, 4100..9000);
    check(&journal, 9000);
    drop(journal);
    let journal = open(directory.path());
    append(&journal, 9000..9001);
    journal.settle();
    assert_eq!((journal.census().segments, journal.census().columnar), (2, 1));
    check(&journal, 9001);
    // The groups are where they would be in a file of their own, byte for byte.
    let columns = fs::read(&files(directory.path(), "parquet")[0]).unwrap();
    let block = &segment[HEAD_BYTES + BLOCK_HEAD_BYTES..HEAD_BYTES + length];
    let index = u64::from_le_bytes(block[16..24].try_into().unwrap()) as usize;
    assert_eq!(columns[44..index], block[44..index]);
}

/// The knowledge of the versions can be more by the time that their segment is closed: then its columns are others.
#[test]
fn columns_are_made_anew_where_they_would_mean_something_else() {
    let directory = tempfile::tempdir().unwrap();
    let row = |number: u64| {
        let facts = Facts::from_values(vec![Some(Value::from("red")), None, Some(Value::Integer(7))]);
        let verdict = Verdict {
            score: 0.5,
            probability: 0.25,
            action: Action::Accept,
            reasons: Vec::new(),
            shadow: Vec::new(),
            next: None,
            effects: Vec::new(),
        };
        let row = DecisionRow {
            pipeline: "mail".to_owned(),
            version: "0123abcd".to_owned(),
            event_id: None,
            time: NOW,
            arrival: NOW,
            duplicate: false,
            facts,
            keys: Vec::new(),
            verdict,
        };
        (RecordId(number), NOW, Record::Decision(Box::new(row)))
    };
    let expected: Vec<_> = (1..9000).map(row).collect();
    {
        let large = Options { segment: 1 << 30, ..plan() };
        let journal = Journal::open(directory.path(), large, Durability::None, 7).unwrap();
        pollster::block_on(journal.append(&expected)).unwrap();
    }
    let segment = fs::read(&files(directory.path(), "journal")[0]).unwrap();
    assert!(first_block(&segment).1);
    let column =
        |name: &str, kind| Column { name: name.to_owned(), kind, doc: String::new(), journalled: true };
    let description = VersionDescription {
        columns: vec![
            column("colour", Type::String),
            column("size", Type::Integer),
            column("weight", Type::Integer),
        ],
        kinds: Vec::new(),
        rules: Vec::new(),
        rules_version: None,
        preset: None,
        models: Vec::new(),
    };
    let text = disk::seal(&serde_json::to_vec(&description).unwrap());
    fs::write(directory.path().join("0123abcd.rows.json"), text).unwrap();
    let journal = open(directory.path());
    append(&journal, 9000..9001);
    journal.settle();
    assert_eq!((journal.census().segments, journal.census().columnar), (2, 1));
    let found = records(&journal);
    assert_eq!(
        found[..found.len() - 1].iter().map(|(id, _)| *id).collect::<Vec<_>>(),
        expected.iter().map(|(id, ..)| *id).collect::<Vec<_>>()
    );
    assert!(found.iter().zip(&expected).all(|((_, found), (.., expected))| found == expected));
    let columns = fs::read(&files(directory.path(), "parquet")[0]).unwrap();
    let names = |bytes: &[u8], name: &[u8]| bytes.windows(name.len()).any(|part| part == name);
    assert!(names(&columns, b"colour") && !names(&segment, b"colour"));
}

#[test]
fn a_torn_block_of_columns_costs_only_itself() {
    let source = tempfile::tempdir().unwrap();
    let path = written_at_once(source.path(), 4000);
    let whole = {
        let large = Options { segment: 1 << 30, ..plan() };
        let journal = Journal::open(source.path(), large, Durability::None, 7).unwrap();
        append_at_once(&journal, 4000..8000);
        drop(journal);
        fs::read(&path).unwrap()
    };
    let first = HEAD_BYTES + first_block(&whole).0;
    let second = whole.len() - first;
    for torn in [0, 1, BLOCK_HEAD_BYTES - 1, BLOCK_HEAD_BYTES, BLOCK_HEAD_BYTES + 50, second / 2, second - 1]
    {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(path.file_name().unwrap());
        fs::write(&path, &whole[..first + torn]).unwrap();
        let journal = open(directory.path());
        let kept = journal.losses().torn.as_ref().map_or(0, |(kept, bytes)| {
            assert_eq!(fs::read(kept).unwrap(), &whole[first..first + torn]);
            *bytes
        });
        assert_eq!(kept, torn as u64);
        assert_eq!(ids(&journal), (1..4000).collect::<Vec<_>>(), "{torn}");
        assert_eq!(fs::metadata(&path).unwrap().len(), first as u64, "{torn}");
    }
    // In an older segment nothing is cut off, and it stays as it is.
    for at in [first + 4, first + 9, first + 60, first + second / 2, whole.len() - 1] {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(path.file_name().unwrap());
        let mut flipped = whole.clone();
        flipped[at] ^= 4;
        fs::write(&path, &flipped).unwrap();
        fs::write(directory.path().join(format!("{}.journal", RecordId(9000))), &whole[..HEAD_BYTES])
            .unwrap();
        let journal = open(directory.path());
        journal.settle();
        assert_eq!(journal.census().columnar, 0, "{at}");
        assert_eq!(fs::read(&path).unwrap(), flipped, "{at}");
        assert_eq!(journal.find(RecordId(77)).unwrap(), Some(feedback(77).2), "{at}");
        assert!(!journal.scan(|_, _| true).unwrap().is_empty(), "{at}");
        drop(journal);
        let found = verify(directory.path(), None, &mut |_, _| ()).unwrap();
        assert!(!found.is_sound() && found.records == 3999, "{at}: {found:?}");
    }
}

/// The number of records that a block gives has to be true, or copying it would lose some.
#[test]
fn a_block_of_columns_has_as_many_records_as_it_says() {
    let directory = tempfile::tempdir().unwrap();
    let path = written_at_once(directory.path(), 4000);
    let mut bytes = fs::read(&path).unwrap();
    let start = HEAD_BYTES;
    bytes[start + 24] ^= 1;
    let crc = crc32fast::hash(&bytes[start + 8..start + BLOCK_HEAD_BYTES]);
    bytes[start + 4..start + 8].copy_from_slice(&crc.to_le_bytes());
    fs::write(&path, &bytes).unwrap();
    fs::write(directory.path().join(format!("{}.journal", RecordId(9000))), &bytes[..HEAD_BYTES]).unwrap();
    let journal = open(directory.path());
    journal.settle();
    assert_eq!(journal.census().columnar, 0);
    assert_eq!(fs::read(&path).unwrap(), bytes);
    assert!(!journal.scan(|_, _| true).unwrap().is_empty());
}
