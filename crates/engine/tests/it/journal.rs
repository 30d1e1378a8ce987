//! The journal keeps what was appended, across restarts, rotation and torn tails, and gives it back as tables.

use std::ops::Range;
use std::path::{Path, PathBuf};

use engine::{Directory, Engine};
use event::{Span, Time};
use journal::{Journal, Options, Record, RecordId, ReportRecord, export, verify};
use stats::Durability;

use crate::corpora;

const NOW: Time = Time::from_seconds(1_700_000_000);

fn plan() -> Options {
    Options { segment: 16 << 10, rotate: Span::days(1), keep: Span::days(30), keep_bytes: 1 << 30 }
}

fn feedback(number: u64) -> (RecordId, Time, Record) {
    // Does not compress, so that segments fill.
    let class = (0..8).map(|word| format!("{:x}", (number * 8 + word).wrapping_mul(0x9e37_79b9_7f4a_7c15)));
    let report = ReportRecord::judgement(RecordId(number), class.collect::<String>(), NOW);
    (RecordId(number), NOW + Span::seconds(number as i64), Record::Report(report))
}

fn append(journal: &Journal, numbers: std::ops::Range<u64>) {
    let records: Vec<_> = numbers.map(feedback).collect();
    pollster::block_on(journal.append(&records)).unwrap();
}

fn ids(journal: &Journal) -> Vec<u64> {
    let mut ids = Vec::new();
    journal
        .scan(|id, _| {
            ids.push(id.0);
            true
        })
        .unwrap();
    ids
}

#[test]
fn records_are_found_before_and_after_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let journal = Journal::open(directory.path(), plan(), Durability::None, 7).unwrap();
    append(&journal, 1..4);
    assert_eq!(journal.find(RecordId(2)).unwrap(), Some(feedback(2).2), "not written yet");
    for start in (4..1000).step_by(83) {
        append(&journal, start..(start + 83).min(1000));
        journal.sync().unwrap();
    }
    assert!(journal.census().segments > 3, "{:?}", journal.census());
    drop(journal);
    let journal = Journal::open(directory.path(), plan(), Durability::None, 7).unwrap();
    assert_eq!(journal.last_id(), Some(RecordId(999)));
    for number in 1..1000 {
        assert_eq!(journal.find(RecordId(number)).unwrap(), Some(feedback(number).2), "{number}");
    }
    assert_eq!(journal.find(RecordId(1000)).unwrap(), None);
    assert_eq!(ids(&journal), (1..1000).collect::<Vec<_>>());
    let recent: Vec<u64> = journal.recent(10).unwrap().iter().map(|(id, _)| id.0).collect();
    assert!(recent.len() >= 10 && recent.ends_with(&[998, 999]) && recent.is_sorted(), "{recent:?}");
}

#[test]
fn old_segments_go() {
    let directory = tempfile::tempdir().unwrap();
    let journal = Journal::open(directory.path(), plan(), Durability::None, 7).unwrap();
    for start in (1..1000).step_by(100) {
        append(&journal, start..start + 100);
        journal.sync().unwrap();
    }
    let before = journal.census().segments;
    // Their age counts from the latest arrival in them, whatever becomes of the files.
    for file in std::fs::read_dir(directory.path()).unwrap() {
        // One that was made into columns meanwhile is gone.
        let Ok(file) = std::fs::OpenOptions::new().write(true).open(file.unwrap().path()) else { continue };
        file.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
    }
    journal.expire(Some(NOW + Span::days(30))).unwrap();
    assert_eq!(journal.census().segments, before);
    journal.expire(None).unwrap();
    assert_eq!(journal.census().segments, before, "nothing is too old as of no time");
    drop(journal);
    let journal = Journal::open(directory.path(), plan(), Durability::None, 7).unwrap();
    journal.expire(Some(NOW + Span::days(30) + Span::seconds(500))).unwrap();
    let left = journal.census().segments;
    assert!(left > 1 && left < before, "{left} of {before}");
    assert!(ids(&journal)[0] > 1 && ids(&journal)[0] <= 501, "the oldest alone");
    journal.expire(Some(NOW + Span::days(31))).unwrap();
    assert_eq!(journal.census().segments, 1, "the open one stays");
    let left = ids(&journal);
    assert!(left.ends_with(&[1000]) && left.len() < 500, "{left:?}");
}

#[test]
fn a_journal_that_is_too_large_loses_its_oldest_segments() {
    let directory = tempfile::tempdir().unwrap();
    let plan = Options { keep_bytes: 100 << 10, ..plan() };
    let journal = Journal::open(directory.path(), plan, Durability::None, 7).unwrap();
    for start in (1..2000).step_by(50) {
        append(&journal, start..start + 50);
        journal.sync().unwrap();
    }
    journal.settle();
    let before = journal.census();
    assert!(before.bytes > plan.keep_bytes, "{before:?}");
    // Long before any of it is too old.
    journal.expire(Some(NOW)).unwrap();
    let after = journal.census();
    assert!(after.bytes <= plan.keep_bytes && after.segments < before.segments, "{after:?}");
    assert!(after.bytes + 2 * plan.segment > plan.keep_bytes, "no more goes than has to: {after:?}");
    let left = ids(&journal);
    let oldest = left[0];
    assert_eq!(left, (oldest..2001).collect::<Vec<_>>(), "the oldest go");
    assert_eq!(journal.find(RecordId(oldest - 1)).unwrap(), None);
    assert_eq!(journal.find(RecordId(oldest)).unwrap(), Some(feedback(oldest).2));
    let files = std::fs::read_dir(directory.path()).unwrap().count();
    assert_eq!(files, after.segments + 1, "and their list");
    drop(journal);
    let journal = Journal::open(directory.path(), plan, Durability::None, 7).unwrap();
    assert_eq!(ids(&journal), left);
}

/// The one segment of blocks that is there.
fn segment(directory: &Path) -> PathBuf {
    let mut paths = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    paths.find(|path| path.extension().is_some_and(|it| it == "journal")).unwrap()
}

/// A journal of one segment with these blocks, as a killed process leaves it.
fn killed(blocks: &[Range<u64>]) -> (tempfile::TempDir, PathBuf, Vec<u8>) {
    let directory = tempfile::tempdir().unwrap();
    let journal = Journal::open(directory.path(), plan(), Durability::Sync, 7).unwrap();
    let list = directory.path().join("segments");
    let mut listed = Vec::new();
    for block in blocks {
        append(&journal, block.clone());
        listed = std::fs::read(&list).unwrap();
    }
    drop(journal);
    std::fs::write(list, listed).unwrap();
    let path = segment(directory.path());
    let whole = std::fs::read(&path).unwrap();
    (directory, path, whole)
}

#[test]
fn a_torn_tail_costs_only_itself_and_is_kept() {
    let (directory, path, whole) = killed(&[1..10, 10..20]);
    let list = directory.path().join("segments");
    let listed = std::fs::read(&list).unwrap();
    for length in (0..20).chain((20..whole.len()).step_by(7)) {
        std::fs::write(&list, &listed).unwrap();
        std::fs::write(&path, &whole[..length]).unwrap();
        let journal = Journal::open(directory.path(), plan(), Durability::Sync, 7).unwrap();
        let left = ids(&journal);
        assert!([vec![], (1..10).collect()].contains(&left), "cut at {length}: {left:?}");
        assert_eq!(journal.losses().sentence(), None, "cut at {length}");
        if let Some((kept, bytes)) = &journal.losses().torn {
            assert_eq!(
                std::fs::read(kept).unwrap(),
                &whole[length - *bytes as usize..length],
                "cut at {length}"
            );
        }
        append(&journal, 100..101);
        assert_eq!(ids(&journal).last(), Some(&100), "cut at {length}");
        drop(journal);
        // Of so many crashes the newest are kept.
        let torn = std::fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().path());
        assert!(torn.filter(|path| path.extension().is_some_and(|it| it == "torn")).count() <= 17);
    }
}

/// One bit costs the block that it is in, wherever it is and whatever segment that is, and nothing behind it.
#[test]
fn a_flipped_bit_costs_one_block() {
    let blocks = [1..10, 10..20, 20..40, 40..60];
    let (directory, path, whole) = killed(&blocks);
    let list = directory.path().join("segments");
    let listed = std::fs::read(&list).unwrap();
    for is_newest in [true, false] {
        for at in (0..whole.len()).step_by(37) {
            let mut flipped = whole.clone();
            flipped[at] ^= 1 << (at % 8);
            std::fs::write(&list, &listed).unwrap();
            std::fs::write(&path, &flipped).unwrap();
            let later = directory.path().join(format!("{}.journal", RecordId(500)));
            for other in [later.clone(), later.with_file_name(format!("{}.journal", RecordId(600)))] {
                let _ = std::fs::remove_file(other);
            }
            if !is_newest {
                std::fs::write(&later, &whole[..16]).unwrap();
            }
            let journal = Journal::open(directory.path(), plan(), Durability::Sync, 7).unwrap();
            append(&journal, 600..601);
            let left: Vec<u64> = ids(&journal).into_iter().filter(|id| *id < 600).collect();
            let lost: Vec<&Range<u64>> = blocks.iter().filter(|block| !left.contains(&block.start)).collect();
            assert!(lost.len() <= 1, "byte {at}: {left:?}");
            let expected: Vec<u64> =
                blocks.iter().filter(|block| !lost.contains(block)).flat_map(Clone::clone).collect();
            assert_eq!(left, expected, "byte {at}");
            // The last block of the newest segment may as well have been torn.
            let losses = journal.losses();
            assert!(losses.torn.is_some() || losses.sentence().is_some() || !is_newest, "byte {at}");
            drop(journal);
            let found = verify(directory.path(), Some(7), &mut |_, _| ()).unwrap();
            assert!(!found.is_sound() || !found.kept.is_empty(), "a flip at {at} went unnoticed");
            for (name, _) in &found.kept {
                std::fs::remove_file(directory.path().join(name)).unwrap();
            }
        }
    }
}

#[test]
fn a_segment_that_is_gone_is_missed_until_it_is_too_old() {
    let directory = tempfile::tempdir().unwrap();
    let journal = Journal::open(directory.path(), plan(), Durability::None, 7).unwrap();
    for start in (1..1000).step_by(100) {
        append(&journal, start..start + 100);
        journal.sync().unwrap();
    }
    journal.settle();
    drop(journal);
    let mut paths: Vec<PathBuf> =
        std::fs::read_dir(directory.path()).unwrap().map(|it| it.unwrap().path()).collect();
    paths.sort();
    assert!(paths.len() > 4, "{paths:?}");
    let (oldest, newest) = (paths[0].clone(), segment(directory.path()));
    for gone in [&oldest, &newest] {
        let bytes = std::fs::read(gone).unwrap();
        std::fs::remove_file(gone).unwrap();
        let found = verify(directory.path(), Some(7), &mut |_, _| ()).unwrap();
        assert!(
            found.lacking.len() == 1 && found.lacking[0].is_gone && found.lacking[0].records > 0,
            "{found:?}"
        );
        for _ in 0..2 {
            let journal = Journal::open(directory.path(), plan(), Durability::None, 7).unwrap();
            let said = journal.losses().sentence().unwrap();
            assert!(said.contains("is missing, with"), "{said}");
        }
        std::fs::write(gone, bytes).unwrap();
        assert!(verify(directory.path(), Some(7), &mut |_, _| ()).unwrap().is_sound());
    }
    std::fs::remove_file(&oldest).unwrap();
    let journal = Journal::open(directory.path(), plan(), Durability::None, 7).unwrap();
    journal.expire(Some(NOW + Span::days(31))).unwrap();
    drop(journal);
    assert!(verify(directory.path(), Some(7), &mut |_, _| ()).unwrap().is_sound());
    let other = Journal::open(directory.path(), plan(), Durability::None, 8).err().unwrap().to_string();
    assert!(other.contains("belongs to another secret"), "{other}");
}

#[test]
fn decisions_are_exported_as_tables() {
    let parent = tempfile::tempdir().unwrap();
    let directory =
        Directory::create(&parent.path().join("data"), &[plan::preset::find("mail").unwrap()]).unwrap();
    let config = plan::Config::load(&directory.config_path(), &plan::Overrides::default());
    let engine = Engine::open(&directory, plan::Plan::compile(&config).unwrap()).unwrap();
    let mail = corpora::mbox();
    let prepared: Vec<_> = mail.iter().take(60).map(|(_, raw)| corpora::prepare_mail(&engine, raw)).collect();
    let decisions = pollster::block_on(engine.decide(prepared));
    // Long after the decision, and contradicted later.
    pollster::block_on(engine.feedback(decisions[3].id, "ham", NOW + Span::hours(1))).unwrap();
    pollster::block_on(engine.feedback(decisions[3].id, "spam", NOW)).unwrap();

    let journal = engine.journal().unwrap();
    let mut lines = Vec::new();
    assert_eq!(
        export::ndjson(&journal.archive().unwrap(), &export::ExportFilter::default(), &mut lines)
            .unwrap()
            .rows,
        60
    );
    let lines: Vec<serde_json::Value> = lines
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty())
        .map(|line| serde_json::from_slice(line).unwrap())
        .collect();
    for (line, decision) in lines.iter().zip(&decisions) {
        assert_eq!(line["id"], decision.id.to_string());
        assert_eq!(line["score"], decision.verdict.score);
        assert!(line["mail.size"].as_i64().unwrap() > 0);
        assert_eq!(line.get("mail.body_text"), None, "what is transient is not journalled");
        let columns = |line: &serde_json::Value| line.as_object().unwrap().len();
        assert_eq!(columns(line), columns(&lines[0]), "every line has every column");
        assert!(line.as_object().unwrap().values().all(|value| !value.is_array() && !value.is_object()));
        let rules: Vec<String> = serde_json::from_str(line["rules"].as_str().unwrap()).unwrap();
        let reasons: Vec<&str> = decision.verdict.reasons.iter().map(|reason| reason.rule.as_str()).collect();
        assert_eq!(rules, reasons);
    }
    assert_eq!(lines[3]["label"], "ham", "the last word counts");
    assert_eq!(lines[3]["label_time"], (NOW + Span::hours(1)).to_string());

    let day = |time: Time| export::ExportFilter {
        from: Some(time),
        to: Some(time + Span(1)),
        labelled: true,
        ..export::ExportFilter::default()
    };
    let mut only = Vec::new();
    assert_eq!(
        export::ndjson(&journal.archive().unwrap(), &day(decisions[3].time), &mut only).unwrap().rows,
        1,
        "a late label"
    );
    assert_eq!(export::ndjson(&journal.archive().unwrap(), &day(NOW), &mut only).unwrap().rows, 0);

    // Read back by the format's own library.
    use parquet::basic::Repetition;
    use parquet::file::reader::FileReader;
    use parquet::record::RowAccessor;
    let path = parent.path().join("table.parquet");
    let file = std::fs::File::create(&path).unwrap();
    assert_eq!(
        export::parquet(&journal.archive().unwrap(), &export::ExportFilter::default(), file).unwrap().rows,
        60
    );
    let reader = parquet::file::serialized_reader::SerializedFileReader::try_from(path.as_path()).unwrap();
    let fields = reader.metadata().file_metadata().schema().get_fields().to_vec();
    for field in &fields {
        assert!(field.is_primitive() && field.get_basic_info().repetition() == Repetition::OPTIONAL);
    }
    let names: Vec<&str> = fields.iter().map(|field| field.name()).collect();
    let mut of_lines: Vec<&str> = lines[0].as_object().unwrap().keys().map(String::as_str).collect();
    let mut sorted = names.clone();
    sorted.sort_unstable();
    of_lines.sort_unstable();
    assert_eq!(sorted, of_lines, "both formats have the same columns");
    let index =
        |name: &str| names.iter().position(|other| *other == name).unwrap_or_else(|| panic!("no {name}"));
    let rows: Vec<parquet::record::Row> = reader.get_row_iter(None).unwrap().map(Result::unwrap).collect();
    assert_eq!(rows.len(), 60);
    for (row, line) in rows.iter().zip(&lines) {
        assert_eq!(row.get_string(index("id")).unwrap(), line["id"].as_str().unwrap());
        assert_eq!(row.get_double(index("score")).unwrap(), line["score"].as_f64().unwrap());
        assert_eq!(row.get_long(index("mail.size")).unwrap(), line["mail.size"].as_i64().unwrap());
        for list in ["rules", "mail.links"] {
            match line[list].as_str() {
                Some(items) => assert_eq!(row.get_string(index(list)).unwrap(), items),
                None => assert!(row.get_string(index(list)).is_err(), "a missing list is null"),
            }
        }
    }
}

#[test]
fn facts_do_not_take_the_names_of_a_decisions_own_columns() {
    let parent = tempfile::tempdir().unwrap();
    let directory =
        Directory::create(&parent.path().join("data"), &[plan::preset::find("web").unwrap()]).unwrap();
    let text = "[[field]]\nname = \"score\"\ntype = \"string\"\n[[band]]\nat = 1.0\naction = \"reject\"\n";
    let config = plan::Config::from_text("test.toml", text, &plan::Overrides::default());
    let plan = plan::Plan::compile(&config).unwrap_or_else(|problems| panic!("{problems}"));
    let engine = Engine::open(&directory, plan).unwrap();
    let fields = vec![("score".into(), event::Value::from("its own"))];
    let event = event::Event { time: Some(NOW), fields, ..event::Event::default() };
    let prepared = engine.prepare(&engine.plan().pipelines[0], event, NOW);
    pollster::block_on(engine.decide(vec![prepared]));
    let mut out = Vec::new();
    export::ndjson(&engine.journal().unwrap().archive().unwrap(), &export::ExportFilter::default(), &mut out)
        .unwrap();
    let line: serde_json::Value = serde_json::from_slice(&out).unwrap();
    assert_eq!((&line["score"], &line["fact.score"]), (&0.0.into(), &"its own".into()));
}
