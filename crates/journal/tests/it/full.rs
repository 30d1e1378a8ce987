//! A disk that is full and has room again. The test runs itself in a process whose files may not grow: a limit that,
//! as a full disk does, lets a part of a write through.

use std::process::Command;
use std::time::Duration;

use event::{Span, Time};
use journal::{Journal, JournalError, Options, Record, RecordId, ReportRecord};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use stats::Durability;

const DIRECTORY: &str = "TOLLHOUSE_TEST_FULL";
const NOW: Time = Time::from_seconds(1_700_000_000);

/// Returns true if segments are so small that there are many.
fn is_small() -> bool {
    std::env::var_os("TOLLHOUSE_TEST_SMALL").is_some()
}

fn plan() -> Options {
    let segment = if is_small() { 2 << 10 } else { 1 << 30 };
    Options { segment, rotate: Span::days(1), keep: Span::days(30), keep_bytes: 1 << 40 }
}

fn record(number: u64) -> (RecordId, Time, Record) {
    let class = (0..20).map(|word| format!("{:x}", (number * 20 + word).wrapping_mul(0x9e37_79b9_7f4a_7c15)));
    let report = ReportRecord::judgement(RecordId(number), class.collect::<String>(), NOW);
    (RecordId(number), NOW + Span(number as i64), Record::Report(report))
}

fn limit(bytes: Option<u64>) {
    let maximum = getrlimit(Resource::Fsize).maximum;
    setrlimit(Resource::Fsize, Rlimit { current: bytes.or(maximum), maximum }).unwrap();
}

/// Does the work of the process whose files may not grow.
fn child(directory: &std::path::Path) {
    let journal = Journal::open(directory, plan(), Durability::Sync, 7).unwrap();
    let append = |number| pollster::block_on(journal.append(&[record(number)]));
    let mut number = 1;
    for round in 1..=3u64 {
        // In the second round there is no room for anything, not even for a segment's head.
        let room = if is_small() { 1_000 } else { round * 20_000 };
        limit(Some(if round == 2 { 0 } else { room }));
        let refused = loop {
            match append(number) {
                Ok(()) => number += 1,
                Err(error) => break error,
            }
        };
        assert!(matches!(refused, JournalError::Full(_)), "{refused}");
        assert!(journal.census().full && !journal.census().poisoned);
        assert!(matches!(append(number + 1), Err(JournalError::Full(_))));
        assert!(matches!(journal.sync(), Err(JournalError::Full(_))));
        assert!(
            journal.find(RecordId(1)).unwrap().is_some_and(|found| found == record(1).2),
            "it is read on"
        );
        // What did not fit is kept.
        assert_eq!(journal.find(RecordId(number)).unwrap(), Some(record(number).2));
        number += 1;
        limit(None);
        while journal.census().full {
            std::thread::sleep(Duration::from_millis(20));
        }
        append(number).unwrap();
        number += 1;
    }
    drop(journal);
    let journal = Journal::open(directory, plan(), Durability::Sync, 7).unwrap();
    assert_eq!(journal.losses().torn, None);
    let mut ids = Vec::new();
    journal
        .scan(|id, _| {
            ids.push(id.0);
            true
        })
        .unwrap();
    assert_eq!(ids, (1..number).collect::<Vec<_>>());
    let found = journal::verify(directory, None, &mut |_, _| ()).unwrap();
    assert!(found.is_sound() && found.records == number - 1 && found.torn_bytes == 0, "{found:?}");
    println!("went on {number}");
}

#[test]
fn the_journal_goes_on_when_there_is_room_again() {
    if let Some(directory) = std::env::var_os(DIRECTORY) {
        return child(directory.as_ref());
    }
    for small in [false, true] {
        let parent = tempfile::tempdir().unwrap();
        // The signal that comes with the limit would end the process.
        let mut command = Command::new("sh");
        command.args(["-c", "trap '' XFSZ; exec \"$0\" \"$@\""]).arg(std::env::current_exe().unwrap());
        command.args(["--exact", "full::the_journal_goes_on_when_there_is_room_again", "--nocapture"]);
        command.env(DIRECTORY, parent.path().join("journal"));
        if small {
            command.env("TOLLHOUSE_TEST_SMALL", "1");
        }
        let ran = command.output().unwrap();
        let said = String::from_utf8_lossy(&ran.stdout);
        assert!(ran.status.success(), "{said}{}", String::from_utf8_lossy(&ran.stderr));
        assert!(said.contains("went on "), "{said}");
    }
}
