//! Damage anywhere in a data directory: it opens and serves all else, and `verify` names the file. `SWEEP=7 cargo test -p
//! tollhouse-engine --test it sweep` flips a bit of every seventh byte, instead of some.

use std::fs;
use std::path::{Path, PathBuf};

use engine::{Directory, DirectoryVerification, Engine};
use event::Span;
use journal::export;

use crate::pipeline::{CONFIG, NOW, event, plan};

/// Decisions of a block.
const BLOCK: usize = 10;
const BLOCKS: usize = 24;

/// A directory with every kind of file but those of the ledger, which has simulations of its own.
fn made(path: &Path) {
    let directory = Directory::create(path, &[]).unwrap();
    fs::write(directory.config_path(), CONFIG).unwrap();
    disk::replace(&directory.limits_path(), &disk::seal(b"[]")).unwrap();
    disk::replace(&directory.values_path(), &disk::seal(br#"{"allowed":[],"notes":[]}"#)).unwrap();
    disk::replace(&path.join("learners.bin"), &disk::seal(&[0; 8])).unwrap();
    let scores = br#"{"pipelines":{"web":{"good":[[1,2.5],[2,-1.0]],"bad":[],"counts":[2.0,0.0],"judged":[2,0],"promises":{},
        "calibration":{"judged":0.0,"bad":0.0,"expected":0.0,"variance":0.0,"squared":0.0}}}}"#;
    disk::replace(&path.join("scores.json"), &disk::seal(scores)).unwrap();
    directory.write_source_positions(&serde_json::json!({"auth": {"files": {}}})).unwrap();
    disk::replace(&path.join("sinks.json"), &disk::seal(br#"{"bus":{"segment":7,"last":9}}"#)).unwrap();
    let mut plan = plan();
    plan.node.journal.segment = 4 << 10;
    let engine = Engine::open(&directory, plan).unwrap();
    let journal = engine.journal().unwrap();
    for block in 0..BLOCKS {
        let prepared = (0..BLOCK).map(|number| {
            let at = NOW + Span::minutes(block as i64);
            let event = event(&format!("192.0.2.{block}"), &format!("user{number}@example.org"));
            engine.prepare(&engine.plan().pipelines[0], event, at)
        });
        pollster::block_on(engine.decide(prepared.collect()));
        journal.sync().unwrap();
    }
    journal.settle();
    let census = journal.census();
    assert!(census.columnar > 1 && census.segments - census.columnar == 1, "{census:?}");
    engine.close().unwrap();
}

fn files(directory: &Path, into: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()) {
        match entry.is_dir() {
            true => files(&entry, into),
            false => into.push(entry),
        }
    }
    into.sort();
}

/// A name for what is done to a file, and what is left of it then.
type DamagedFile = (String, Option<Vec<u8>>);

fn ways(whole: &[u8]) -> Vec<DamagedFile> {
    let flip = |at: usize| {
        let mut bytes = whole.to_vec();
        bytes[at] ^= 1 << (at % 8);
        (format!("bit {} of byte {at}", at % 8), Some(bytes))
    };
    if whole.is_empty() {
        return vec![("the file".to_owned(), None)];
    }
    let (last, middle) = (whole.len() - 1, whole.len() / 2);
    let step = std::env::var("SWEEP").ok().and_then(|step| step.parse().ok());
    let places: Vec<usize> = match step {
        Some(step) => (0..whole.len()).step_by(step).collect(),
        None => vec![0, 9.min(last), 20.min(last), middle, last],
    };
    let mut ways: Vec<DamagedFile> = places.into_iter().map(flip).collect();
    ways.push(("its second half".to_owned(), Some(whole[..middle].to_vec())));
    ways.push(("all of its bytes".to_owned(), Some(Vec::new())));
    ways.push(("zeros".to_owned(), Some(vec![0; whole.len()])));
    ways.push(("the file".to_owned(), None));
    ways
}

fn names(found: &DirectoryVerification, name: &str) -> bool {
    let told = format!("{found:?}");
    let stem = name.split('.').next().unwrap_or(name);
    let is_missed = found.journal.lacking.iter().any(|lack| lack.first.to_string() == stem);
    !found.is_sound() && (told.contains(stem) || is_missed || found.journal.is_unlisted)
}

#[test]
fn damage_to_any_file_costs_no_more_than_what_it_had() {
    let parent = tempfile::tempdir().unwrap();
    let path = parent.path().join("data");
    made(&path);
    let mut all = Vec::new();
    files(&path, &mut all);
    let directory = Directory::open(&path).unwrap();
    all.retain(|file| !file.starts_with(directory.ledger_path()));
    assert!(all.len() > 8, "{all:?}");
    let mut whole = Vec::new();
    files(&path, &mut whole);
    let kept: Vec<(PathBuf, Vec<u8>)> =
        whole.into_iter().map(|file| (file.clone(), fs::read(&file).unwrap())).collect();
    assert!(directory.verify(None, &mut |_, _, _| ()).unwrap().is_sound());
    for file in &all {
        let name = file.file_name().unwrap().to_str().unwrap();
        let before = fs::read(file).unwrap();
        for (what, after) in ways(&before) {
            let (is_flip, is_gone) = (what.starts_with("bit"), after.is_none());
            // A configuration has no checksum: people write it. Counts over time are listed from the next start on.
            let is_noticed = if is_gone { name != "counts.bin" } else { name != "tollhouse.toml" };
            match &after {
                Some(bytes) => fs::write(file, bytes).unwrap(),
                None => fs::remove_file(file).unwrap(),
            }
            let found = directory.verify(None, &mut |_, _, _| ()).unwrap();
            let opened = Engine::open(&directory, plan());
            if name == "secret" {
                // The same digits, or none that would find any key.
                assert_eq!(opened.is_ok(), found.is_sound(), "{what} of {name}: {found:?}");
                drop(opened);
                restore(&path, &kept);
                continue;
            }
            assert!(names(&found, name) || !is_noticed, "{what} of {name} is gone: {found:?}");
            let engine = opened.unwrap_or_else(|error| panic!("{what} of {name}: {error}"));
            if is_gone
                && [
                    "labels.ndjson",
                    "learners.bin",
                    "limits.json",
                    "scores.json",
                    "sinks.json",
                    "sources.json",
                    "state.json",
                    "tollhouse.toml",
                    "values.json",
                ]
                .contains(&name)
            {
                let told =
                    engine.health().list().into_iter().find(|it| it.name == "settings-damaged").unwrap();
                assert!(told.detail.contains(name), "{name}: {}", told.detail);
            }
            let mut lines = Vec::new();
            let table = export::ndjson(
                &engine.journal().unwrap().archive().unwrap(),
                &export::ExportFilter::default(),
                &mut lines,
            )
            .unwrap();
            let lost = BLOCKS * BLOCK - table.rows as usize;
            let bound = match name.rsplit('.').next() {
                Some("journal") if is_flip => BLOCK,
                Some("journal" | "parquet") => records(&kept, name),
                _ => 0,
            };
            assert!(lost <= bound, "{what} of {name} is gone, and {lost} decisions");
            // Nobody needs to be told of what costs nothing.
            let is_reported = !engine.health().list().is_empty()
                || !table.is_whole()
                || engine.journal().unwrap().losses().torn.is_some();
            assert!(is_reported || lost == 0, "{what} of {name} is gone, and nobody is told");
            engine.close().unwrap();
            drop(engine);
            restore(&path, &kept);
        }
    }
}

/// A journal that is gone as a whole is missed, at the start and by `verify`, until a repair or a start has said so.
#[test]
fn a_journal_that_is_gone_is_missed() {
    let parent = tempfile::tempdir().unwrap();
    let path = parent.path().join("data");
    made(&path);
    let directory = Directory::open(&path).unwrap();
    fs::remove_dir_all(directory.journal_path()).unwrap();
    let found = directory.verify(None, &mut |_, _, _| ()).unwrap();
    assert!(!found.is_sound() && found.missing[0].file == "journal/segments", "{found:?}");
    let engine = Engine::open(&directory, plan()).unwrap();
    let told = engine.health().list().into_iter().find(|it| it.name == "journal-damaged").unwrap();
    assert!(told.detail.contains("the decisions that were logged"), "{}", told.detail);
    engine.close().unwrap();
    drop(engine);
    assert!(directory.verify(None, &mut |_, _, _| ()).unwrap().is_sound());
    fs::remove_file(directory.limits_path()).unwrap();
    assert!(!directory.verify(None, &mut |_, _, _| ()).unwrap().is_sound());
    directory.repair(NOW).unwrap();
    assert!(
        directory.verify(None, &mut |_, _, _| ()).unwrap().is_sound(),
        "what is gone is not missed any more"
    );
}

/// Files that others can get at are named one by one; names alone are no more than a note.
#[test]
fn looser_modes_are_told() {
    use std::os::unix::fs::PermissionsExt;
    let parent = tempfile::tempdir().unwrap();
    let path = parent.path().join("data");
    made(&path);
    let directory = Directory::open(&path).unwrap();
    let exposed = || directory.verify(None, &mut |_, _, _| ()).unwrap().exposed;
    let set = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    set(&directory.config_path(), 0o600);
    assert_eq!(exposed(), engine::LooseModes::default());
    set(&path, 0o755);
    let names = exposed();
    assert_eq!((names.files.len(), &names.directories[..]), (0, &[(path.clone(), 0o755)][..]));
    let list = directory.journal_path().join("segments");
    set(&list, 0o644);
    assert_eq!(exposed(), names, "nobody else enters the journal's directory");
    set(&directory.journal_path(), 0o711);
    assert_eq!(exposed().files, [(list.clone(), 0o644)]);
    set(&directory.limits_path(), 0o620);
    assert_eq!(exposed().files, [(list, 0o644), (directory.limits_path(), 0o620)]);
}

/// Returns the number of decisions that a segment had.
fn records(kept: &[(PathBuf, Vec<u8>)], name: &str) -> usize {
    let (_, list) = kept.iter().find(|(file, _)| file.ends_with("journal/segments")).unwrap();
    let lines = std::str::from_utf8(disk::unseal(list).unwrap()).unwrap().lines();
    let mut counts = lines.filter_map(|line| line.split_once(' '));
    counts.find(|(segment, _)| name.split('.').next() == Some(segment)).unwrap().1.parse().unwrap()
}

/// Makes the directory what it was.
fn restore(path: &Path, kept: &[(PathBuf, Vec<u8>)]) {
    let mut there = Vec::new();
    files(path, &mut there);
    for file in there {
        if !kept.iter().any(|(other, _)| *other == file) {
            fs::remove_file(file).unwrap();
        }
    }
    for (file, bytes) in kept {
        if fs::read(file).ok().as_ref() != Some(bytes) {
            disk::replace(file, bytes).unwrap();
        }
    }
}

/// All that can be had is written anew, the damaged file is kept, and nothing is missed any more.
#[test]
fn a_repair_keeps_what_can_be_had() {
    let parent = tempfile::tempdir().unwrap();
    let path = parent.path().join("data");
    made(&path);
    let directory = Directory::open(&path).unwrap();
    let mut all = Vec::new();
    files(&directory.journal_path(), &mut all);
    let of_kind = |kind: &str| all.iter().find(|file| file.extension().is_some_and(|it| it == kind)).unwrap();
    let (rows, columns) = (of_kind("journal"), of_kind("parquet"));
    let segments = all.iter().filter(|file| file.extension().is_some_and(|it| it == "parquet"));
    let gone = segments.clone().nth(1).unwrap();
    for file in [rows, columns] {
        let mut bytes = fs::read(file).unwrap();
        bytes[100] ^= 1;
        fs::write(file, bytes).unwrap();
    }
    fs::remove_file(gone).unwrap();
    let before = directory.verify(None, &mut |_, _, _| ()).unwrap().journal;
    assert_eq!((before.damage.len(), before.lacking.len()), (2, 1), "{before:?}");
    let repaired = directory.repair(NOW + Span::days(60)).unwrap().journal;
    assert_eq!(repaired.len(), 2, "{repaired:?}");
    for repaired in &repaired {
        assert!(repaired.kept.exists() && repaired.skipped.stretches == 1, "{repaired:?}");
    }
    let after = directory.verify(None, &mut |_, _, _| ()).unwrap();
    assert!(after.is_sound() && after.journal.records == before.records, "{after:?}");
    assert_eq!(after.journal.kept.len(), 2);
    assert_eq!(directory.repair(NOW + Span::days(60)).unwrap().journal, [], "once is enough");
}

/// Data of another secret is of no use under this one, and new counts would be mixed in.
#[test]
fn another_secret_is_refused() {
    let parent = tempfile::tempdir().unwrap();
    let path = parent.path().join("data");
    made(&path);
    let secret = path.join("secret");
    let text = fs::read_to_string(&secret).unwrap();
    let other = if text.starts_with('0') { "1" } else { "0" };
    fs::write(&secret, other.to_owned() + &text[1..]).unwrap();
    let directory = Directory::open(&path).unwrap();
    let refused = Engine::open(&directory, plan()).err().unwrap().to_string();
    assert!(refused.contains("secret"), "{refused}");
    assert!(!directory.verify(None, &mut |_, _, _| ()).unwrap().is_sound());
}
