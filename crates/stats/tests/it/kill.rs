//! The promise of each durability, kept by a process that is killed without warning while it works.
//!
//! The child is this test binary again: it adds to three keys at once, and to some of many others so that cells are
//! evicted, read back and merged all the while. It writes a number to its standard output once what was added so often
//! must survive: under `sync` when it was answered, under an interval when two flushes have begun and ended since, without
//! either when it has asked for the writing itself. Whatever the parent could read must be there after the kill, and
//! each request wholly or not at all.
//!
//! `KILLS=70 cargo test -p tollhouse-stats --test it kill` kills 70 times under each of the three.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use disk::FileDevice;
use stats::{EmbeddedLedger, Ledger};

use crate::support::*;

const DIRECTORY: &str = "TOLLHOUSE_KILL_DIRECTORY";
const DURABILITY: &str = "TOLLHOUSE_KILL_DURABILITY";

fn open(path: &Path, durability: &str) -> EmbeddedLedger {
    let device = FileDevice::open(path).unwrap();
    EmbeddedLedger::open(Arc::new(device), catalog(), options(16 << 10, durability)).unwrap().0
}

/// The counts of the three keys: requests, requests again, and distinct values.
fn counts(ledger: &dyn Ledger) -> [u64; 3] {
    let keys = [key(MASS, 1), key(VISITS, 2), key(DISTINCT, 3)];
    let outcome = observe_one(ledger, request(keys.map(|key| peek(key, at(1000))).to_vec()));
    [0, 1, 2].map(|at| outcome.readings[at].sum(0, 0))
}

#[test]
#[ignore = "run by what_was_promised_survives_a_kill, which kills it"]
fn child() {
    let path = std::env::var_os(DIRECTORY).expect("started by the parent test");
    let durability = std::env::var(DURABILITY).expect("started by the parent test");
    let ledger = open(Path::new(&path), &durability);
    let mut random = Random(counts(&ledger)[0]);
    let mut output = std::io::stdout();
    let mut say = |number: u64| {
        writeln!(output, "safe {number}").unwrap();
        output.flush().unwrap();
    };
    // Answered, and how many flushes had written by then.
    let mut answered = VecDeque::new();
    for number in counts(&ledger)[0].. {
        let mut observations = vec![
            add(key(MASS, 1), at(1000), [(0, 1)]),
            add(key(VISITS, 2), at(1000), [(0, 1)]),
            distinct(key(DISTINCT, 3), at(1000), number),
        ];
        observations.extend((0..20).map(|_| add(key(MASS, 10 + random.below(3000)), at(1000), [(1, 1)])));
        assert!(!observe_one(&ledger, once(number, at(1000), observations)).duplicate);
        match durability.as_str() {
            "sync" => say(number + 1),
            "none" if number % 16 == 0 => {
                ledger.maintain(at(1000)).unwrap();
                say(number + 1);
            }
            "none" => {}
            _ => {
                let flushes = ledger.census().flushes;
                answered.push_back((number + 1, flushes));
                while answered.front().is_some_and(|(_, before)| before + 2 <= flushes) {
                    if let Some((number, _)) = answered.pop_front() {
                        say(number);
                    }
                }
            }
        }
        if number % 64 == 0 {
            ledger.maintain(at(1000)).unwrap();
        }
    }
}

fn kill_often(durability: &str, seed: u64) {
    let kills: u64 = std::env::var("KILLS").map_or(4, |kills| kills.parse().expect("KILLS is a number"));
    let directory = tempfile::tempdir().unwrap();
    let mut random = Random(seed);
    let mut total = 0;
    for round in 0..kills {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["kill::child", "--exact", "--ignored", "--nocapture"])
            .env(DIRECTORY, directory.path())
            .env(DURABILITY, durability)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        let safe = |line: String| line.split("safe ").nth(1)?.parse::<u64>().ok();
        let wanted = total + 1 + random.below(60);
        let reached = lines.by_ref().filter_map(safe).find(|safe| *safe >= wanted);
        child.kill().unwrap();
        child.wait().unwrap();
        let safe = lines.filter_map(safe).last().or(reached).expect("the child stopped by itself");
        let ledger = open(directory.path(), durability);
        let counts = counts(&ledger);
        assert_eq!(
            counts, [counts[0]; 3],
            "{durability}, round {round}: a request is kept whole or not at all"
        );
        assert!(safe <= counts[0], "{durability}, round {round}: {safe} promised, {counts:?} kept");
        if durability == "sync" {
            assert!(counts[0] <= safe + 1, "{durability}, round {round}: {safe} answered, {counts:?} kept");
        }
        total = counts[0];
    }
}

#[test]
fn what_was_promised_survives_a_kill() {
    for (durability, seed) in [("sync", 7), ("20ms", 8), ("none", 9)] {
        kill_often(durability, seed);
    }
}
