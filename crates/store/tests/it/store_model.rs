//! Random histories of the store against a plain map: runs, flushes, merges, evictions, faults, crashes.

use std::collections::BTreeMap;

use disk::MemoryDevice;
use store::log::{RecordKey, trimmed};
use store::{Options, Store, StoreError};

use crate::support::{HOUR, Random};
use crate::toy::{Toy, expires, key, open, transact};

type Contents = BTreeMap<RecordKey, Vec<u64>>;

struct History {
    random: Random,
    context: String,
    options: Options,
    device: MemoryDevice,
    store: Store,
    /// The contents that there are, flushed or not.
    now: Contents,
    /// The contents that were flushed last.
    flushed: Contents,
    /// The contents that a crash may leave: each state that was flushed since the last sync.
    may: Vec<Contents>,
    /// The time up to which anything that expires may be there or not.
    floor: i64,
    clock: i64,
    keys: u64,
    /// A write has failed: the store answers, and no more.
    dead: bool,
    seen: SeenCounts,
}

/// The counts of the events that the histories have come by.
#[derive(Clone, Copy, Debug, Default)]
struct SeenCounts {
    evictions: u64,
    merged: u64,
    expired: u64,
    full: u64,
    failed: u64,
    crashes: u64,
}

fn live(contents: &Contents, floor: i64) -> Contents {
    contents
        .iter()
        .filter(|(_, words)| expires(words) > floor)
        .map(|(key, words)| (*key, words.clone()))
        .collect()
}

impl History {
    fn new(seed: u64) -> History {
        let mut random = Random(seed);
        let options = Options {
            memory_bytes: [Store::SHARDS * 500, Store::SHARDS * 4_000, 1 << 30][random.below(3) as usize],
            segment_bytes: [700, 4_000, 30_000][random.below(3) as usize],
        };
        let device = MemoryDevice::new();
        let (store, _) = open(&device, options);
        let keys = [3, 20, 150][random.below(3) as usize];
        History {
            random,
            context: String::new(),
            options,
            device,
            store,
            now: Contents::new(),
            flushed: Contents::new(),
            may: vec![Contents::new()],
            floor: i64::MIN,
            clock: HOUR,
            keys,
            dead: false,
            seen: SeenCounts::default(),
        }
    }

    fn words(&mut self, least: i64) -> Vec<u64> {
        let random = &mut self.random;
        let count = match random.below(100) {
            0..60 => 1 + random.below(8),
            60..90 => 1 + random.below(40),
            90..99 => 1 + random.below(900),
            _ => 1 + random.below(9_000),
        };
        let mut words = vec![0; count as usize];
        words[0] = least.max(self.clock - HOUR + random.below(6 * HOUR as u64) as i64).cast_unsigned();
        // No two values are equal, so that contents tell states apart; some end in zeros.
        if let Some(word) = words.get_mut(1) {
            *word = random.below(u64::MAX);
        }
        if random.below(4) > 0
            && let Some(last) = words.get_mut(2..).and_then(<[u64]>::last_mut)
        {
            *last = random.below(u64::MAX);
        }
        words
    }

    fn change(&mut self) {
        let mut keys: Vec<RecordKey> =
            (0..1 + self.random.below(6)).map(|_| key(self.random.below(self.keys))).collect();
        keys.sort_unstable();
        keys.dedup();
        let before = live(&self.now, self.floor);
        let new: Vec<Vec<u64>> = keys
            .iter()
            .map(|key| self.words(before.get(key).map_or(self.floor + 1, |words| expires(words))))
            .collect();
        let context = &self.context;
        let done = transact(&self.store, &keys, self.floor, |at, words| {
            let expected = before.get(&keys[at]).map(Vec::as_slice).unwrap_or_default();
            assert_eq!(trimmed(words), expected, "{context}: {:?}", keys[at]);
            words.clone_from(&new[at]);
        });
        done.unwrap();
        for (key, words) in keys.into_iter().zip(new) {
            self.now.insert(key, trimmed(&words).to_vec());
        }
    }

    /// Takes note of an answer; whether it was good.
    fn went<T>(&mut self, answer: Result<T, StoreError>) -> bool {
        match answer {
            Ok(_) => true,
            Err(StoreError::Full { .. }) => {
                self.seen.full += 1;
                false
            }
            Err(error) => {
                assert!(matches!(error, StoreError::Io { .. } | StoreError::Failed(_)), "{error}");
                self.seen.failed += 1;
                self.dead = true;
                false
            }
        }
    }

    fn flush(&mut self) {
        let sync = self.random.below(2) == 0;
        self.may.push(self.now.clone());
        let flushed = self.store.flush(sync, || Toy);
        if self.went(flushed) {
            self.flushed = self.now.clone();
            assert_eq!(self.store.dirty_bytes(), 0, "{}", self.context);
            if sync {
                self.may = vec![self.now.clone()];
            }
        } else if !self.dead {
            self.may.pop();
        }
    }

    fn put(&mut self) {
        let key = key(self.random.below(self.keys));
        let least = live(&self.now, self.floor).get(&key).map_or(self.floor + 1, |words| expires(words));
        let words = self.words(least);
        let mut after = self.flushed.clone();
        after.insert(key, trimmed(&words).to_vec());
        self.may.push(after.clone());
        let put = self.store.put(&[(key, key.kind, words.clone())], expires(&words));
        if self.went(put) {
            self.now.insert(key, trimmed(&words).to_vec());
            self.flushed = after;
            self.may = vec![self.flushed.clone()];
        } else if !self.dead {
            self.may.pop();
        }
    }

    fn merge(&mut self) {
        self.floor = self.floor.max(self.clock);
        // It flushes, if it finds something to merge.
        self.may.push(self.now.clone());
        let flushes = self.store.usage().flushes;
        let merged = self.store.merge(self.clock, u64::MAX, || Toy);
        if let Ok(merged) = &merged {
            self.seen.merged += merged.segments;
        }
        self.went(merged);
        if self.store.usage().flushes > flushes {
            self.flushed = self.now.clone();
        } else if !self.dead {
            self.may.pop();
        }
    }

    fn reopen(&mut self, device: MemoryDevice) {
        let usage = self.store.usage();
        self.seen.evictions += usage.evictions;
        self.seen.expired += usage.expired;
        device.set_capacity(None);
        device.heal();
        device.set_sync_fails(false);
        self.dead = false;
        let (store, recovery) = open(&device, self.options);
        assert!(recovery.losses.is_empty(), "{}: {recovery:?}", self.context);
        (self.store, self.device) = (store, device);
        let found = live(&self.contents(), self.floor);
        let fits = |state: &&Contents| live(state, self.floor) == found;
        let Some(held) = self.may.iter().rev().find(fits) else {
            panic!("{}: a crash has left none of the {} states that it may", self.context, self.may.len())
        };
        self.now = held.clone();
        self.flushed = self.now.clone();
        self.may = vec![self.now.clone()];
    }

    fn contents(&self) -> Contents {
        let mut contents = Contents::new();
        self.store
            .each(&Toy, &mut |key, tag, words| {
                assert_eq!(tag, key.kind);
                let before = contents.insert(key, trimmed(words).to_vec());
                assert!(before.is_none(), "{}: {key:?} came twice", self.context);
            })
            .unwrap();
        contents
    }

    fn check(&self) {
        let expected = live(&self.now, self.floor);
        assert_eq!(live(&self.contents(), self.floor), expected, "{}", self.context);
        for (key, words) in &expected {
            let (tag, found) = self.store.get(*key).unwrap().unwrap_or_default();
            assert_eq!((tag, trimmed(&found)), (key.kind, words.as_slice()), "{}: {key:?}", self.context);
        }
        let (verified, lost) = self.store.verify(&mut |done, all| assert!(done <= all)).unwrap();
        assert!(verified.losses.is_empty() && lost == 0, "{}: {lost} keys lost, {verified:?}", self.context);
    }

    fn step(&mut self) {
        match self.random.below(100) {
            0..55 => self.change(),
            55..70 if !self.dead => self.flush(),
            70..78 if !self.dead => self.merge(),
            78..81 if !self.dead => self.put(),
            81..86 => {
                self.clock += self.random.below(2 * HOUR as u64) as i64;
                if self.random.below(2) == 0 {
                    self.floor = self.floor.max(self.clock);
                    let of = 1 + self.random.below(4) as usize;
                    self.store.forget_expired(self.clock, self.random.below(of as u64) as usize, of, &Toy);
                }
            }
            86..89 => self.device.set_capacity(Some(self.device.used() + self.random.below(6_000))),
            89..92 => self.device.set_capacity(None),
            92 => self.device.fail_after(self.random.below(12)),
            93 => self.device.set_sync_fails(self.random.below(3) == 0),
            94 if !self.dead => {
                self.may.push(self.now.clone());
                let closed = self.store.close(|| Toy);
                if self.went(closed) {
                    self.may = vec![self.now.clone()];
                    self.reopen(self.device.clone());
                } else {
                    // Either all of it is there by now or nothing.
                    self.reopen(self.device.crash(self.random.0));
                }
            }
            95..97 => {
                self.seen.crashes += 1;
                self.reopen(self.device.crash(self.random.0));
            }
            97 => {
                let kept = self.random.below(5_000) as usize;
                self.reopen(self.device.torn(kept));
            }
            _ => self.check(),
        }
    }
}

fn run(seed: u64) -> SeenCounts {
    let mut history = History::new(seed);
    for step in 0..150 {
        history.context = format!("seed {seed}, step {step}");
        history.step();
    }
    history.context = format!("seed {seed}, at the end");
    history.check();
    history.reopen(history.device.crash(seed));
    history.check();
    history.seen
}

#[test]
fn random_histories_of_the_store_agree_with_a_map() {
    let mut all = SeenCounts::default();
    for seed in 0..150 {
        let seen = run(seed);
        all.evictions += seen.evictions;
        all.merged += seen.merged;
        all.expired += seen.expired;
        all.full += seen.full;
        all.failed += seen.failed;
        all.crashes += seen.crashes;
    }
    let SeenCounts { evictions, merged, expired, full, failed, crashes } = all;
    let rare = [evictions, merged, expired, full, failed, crashes].into_iter().min();
    assert!(rare > Some(50), "{all:?}");
}
