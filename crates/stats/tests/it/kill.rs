//! The promise of `sync`, kept by a process that is killed without warning.
//!
//! The child is this test binary again: it adds to three keys at once, and writes a number to its standard output
//! once the addition was answered. Whatever the parent could read must be there after the kill.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use stats::{Durability, Embedded, Ledger, Options};
use store::FileDevice;

use crate::support::*;

const DIRECTORY: &str = "TOLLHOUSE_KILL_DIRECTORY";

fn open(path: &Path) -> Embedded {
    let device = FileDevice::open(path).unwrap();
    let options = Options { memory_bytes: 16 << 10, segment_bytes: 16_000, durability: Durability::Sync };
    Embedded::open(Arc::new(device), catalog(), options).unwrap().0
}

/// The counts of the three keys: requests, requests again, and distinct values.
fn counts(ledger: &dyn Ledger) -> [u64; 3] {
    let keys = [key(MASS, 1), key(VISITS, 2), key(DISTINCT, 3)];
    let outcome = observe_one(ledger, request(keys.map(|key| peek(key, at(1000))).to_vec()));
    [0, 1, 2].map(|at| outcome.readings[at].sum(0, 0))
}

#[test]
#[ignore = "run by what_was_answered_survives_a_kill, which kills it"]
fn child() {
    let path = std::env::var_os(DIRECTORY).expect("started by the parent test");
    let ledger = open(Path::new(&path));
    let mut output = std::io::stdout();
    for number in counts(&ledger)[0].. {
        let observations = vec![
            add(key(MASS, 1), at(1000), [(0, 1)]),
            add(key(VISITS, 2), at(1000), [(0, 1)]),
            distinct(key(DISTINCT, 3), at(1000), number),
        ];
        assert!(!observe_one(&ledger, once(number, at(1000), observations)).duplicate);
        writeln!(output, "answered {}", number + 1).unwrap();
        output.flush().unwrap();
        if number % 16 == 0 {
            ledger.maintain(at(1000)).unwrap();
        }
    }
}

#[test]
fn what_was_answered_survives_a_kill() {
    let directory = tempfile::tempdir().unwrap();
    let mut random = Random(7);
    let mut total = 0;
    for round in 0..10 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["kill::child", "--exact", "--ignored", "--nocapture"])
            .env(DIRECTORY, directory.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        let answered = |line: String| line.split("answered ").nth(1)?.parse::<u64>().ok();
        let wanted = total + 1 + random.below(40);
        let reached = lines.by_ref().filter_map(answered).find(|answered| *answered >= wanted);
        child.kill().unwrap();
        child.wait().unwrap();
        let answered = lines.filter_map(answered).last().or(reached).expect("the child stopped by itself");
        let ledger = open(directory.path());
        let counts = counts(&ledger);
        assert_eq!(counts, [counts[0]; 3], "round {round}: a request is kept whole or not at all");
        assert!(
            (answered..=answered + 1).contains(&counts[0]),
            "round {round}: {answered} answered, {counts:?} kept"
        );
        total = counts[0];
    }
}
