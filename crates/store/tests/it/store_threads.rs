//! Runs, flushes and merges at the same time.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use disk::{Blob, Device, MemoryDevice};
use store::log::RecordKey;
use store::{Options, Store};

use crate::support::Random;
use crate::toy::{Toy, key, open, transact};

/// A device that takes its time to sync, as disks do: whoever writes holds the writer for longer than all else takes.
#[derive(Debug)]
struct Slow(MemoryDevice);

#[derive(Debug)]
struct SlowBlob(Box<dyn Blob>);

impl Device for Slow {
    fn list(&self) -> io::Result<Vec<String>> {
        self.0.list()
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn Blob>> {
        Ok(Box::new(SlowBlob(self.0.create(name)?)))
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn Blob>> {
        Ok(Box::new(SlowBlob(self.0.open(name)?)))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.0.remove(name)
    }

    fn replace(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        self.0.replace(name, bytes)
    }

    fn sync_names(&self) -> io::Result<()> {
        self.0.sync_names()
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.0.rename(from, to)
    }

    fn link(&self, from: &str, to: &str) -> io::Result<()> {
        self.0.link(from, to)
    }

    fn export(&self, name: &str, bytes: Option<u64>, target: &Path) -> io::Result<()> {
        self.0.export(name, bytes, target)
    }
}

impl Blob for SlowBlob {
    fn size(&self) -> io::Result<u64> {
        self.0.size()
    }

    fn append(&self, bytes: &[u8]) -> io::Result<()> {
        self.0.append(bytes)
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<usize> {
        self.0.read_at(offset, into)
    }

    fn overwrite(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.0.overwrite(offset, bytes)
    }

    fn truncate(&self, size: u64) -> io::Result<()> {
        self.0.truncate(size)
    }

    fn sync(&self) -> io::Result<()> {
        std::thread::sleep(std::time::Duration::from_micros(300));
        self.0.sync()
    }
}

const PAIRS: u64 = 60;

/// The keys of a pair, which lie in different shards.
fn pair(number: u64) -> [RecordKey; 2] {
    [key(2 * number), key(2 * number + 1)]
}

/// Counts of all pairs; both keys of a pair must have the same.
fn counts(store: &Store, context: &str) -> BTreeMap<u64, u64> {
    let mut found = BTreeMap::new();
    store
        .each(&Toy, &mut |key, _, words| {
            found.insert(key, words[1]);
        })
        .unwrap();
    let mut counts = BTreeMap::new();
    for number in 0..PAIRS {
        let [one, other] = pair(number).map(|key| found.remove(&key));
        assert_eq!(one, other, "{context}: pair {number}");
        counts.insert(number, one.unwrap_or(0));
    }
    assert!(found.is_empty());
    counts
}

fn count(store: &Store, number: u64, words: u64) -> u64 {
    let epoch = transact(store, &pair(number), 0, |_, cell| {
        let count = cell.get(1).copied().unwrap_or(0) + 1;
        cell.clear();
        cell.resize(2 + words as usize, count);
        cell[0] = i64::MAX.cast_unsigned();
    });
    epoch.unwrap()
}

fn hammer(seed: u64, threads: u64, flushes: u64) {
    let options = Options { memory_bytes: Store::SHARDS * 3_000, segment_bytes: 8_000 };
    let device = MemoryDevice::new();
    let slow: Arc<dyn Device> = Arc::new(Slow(device.clone()));
    let (store, _) = Store::open(slow, options, &mut |_| {}).unwrap();
    let done = AtomicBool::new(false);
    // Per pair, what has been counted, and what of it a crash may not lose.
    let counted: Vec<AtomicU64> = (0..PAIRS).map(|_| AtomicU64::new(0)).collect();
    std::thread::scope(|scope| {
        let working = (0..threads).map(|thread| {
            let (store, counted, done) = (&store, &counted, &done);
            scope.spawn(move || {
                let mut random = Random(seed * 1_000 + thread);
                while !done.load(Ordering::SeqCst) {
                    // A few of them all the time, so that they change between a cut and their collection.
                    let among = [4, PAIRS][random.below(2) as usize];
                    let number = random.below(among);
                    count(store, number, random.below(30));
                    counted[number as usize].fetch_add(1, Ordering::SeqCst);
                    if seed.is_multiple_of(2) {
                        // So that some keys are left alone by several flushes.
                        std::thread::sleep(std::time::Duration::from_micros(100));
                    }
                }
            })
        });
        let working: Vec<_> = working.collect();
        let flushing = scope.spawn(|| {
            let mut random = Random(seed);
            for _ in 0..flushes {
                let before: Vec<u64> = counted.iter().map(|count| count.load(Ordering::SeqCst)).collect();
                // Another may begin at once, before a merge that waits.
                if random.below(4) > 0 {
                    store.flush(true, || Toy).unwrap();
                }
                if random.below(8) == 0 {
                    device.set_capacity(Some(device.used() + random.below(6_000)));
                }
                let flushed = store.flush(true, || Toy);
                device.set_capacity(None);
                let (left, _) = open(&device.crash(random.below(u64::MAX)), options);
                let found = counts(&left, &format!("seed {seed}, a crash"));
                if flushed.is_ok() {
                    let lost = (0..PAIRS).find(|number| found[number] < before[*number as usize]);
                    assert_eq!(lost, None, "seed {seed}: counts of a finished flush are lost");
                }
            }
        });
        let merging = scope.spawn(|| {
            while !done.load(Ordering::SeqCst) {
                // The disk may be full just now.
                let _ = store.merge(0, 1, || Toy);
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
        });
        let flushed = flushing.join();
        done.store(true, Ordering::SeqCst);
        for thread in working {
            thread.join().unwrap();
        }
        flushed.unwrap();
        merging.join().unwrap();
    });
    let expected: BTreeMap<u64, u64> =
        (0..).zip(&counted).map(|(number, count)| (number, count.load(Ordering::SeqCst))).collect();
    assert_eq!(counts(&store, "at the end"), expected);
    store.close(|| Toy).unwrap();
    assert_eq!(counts(&open(&device, options).0, "reopened"), expected);
}

#[test]
fn runs_are_whole_in_every_crash_beside_flushes_and_merges() {
    for seed in 0..4 {
        hammer(seed, 3, 40);
    }
}

#[test]
fn a_store_can_be_closed_while_it_is_merged() {
    for seed in 0..4 {
        let device = MemoryDevice::new();
        let options = Options { memory_bytes: 1 << 20, segment_bytes: 2_000 };
        let (store, _) = open(&device, options);
        for round in 0..40 {
            count(&store, round % PAIRS, round % 40);
            count(&store, round % 5, seed);
            store.flush(false, || Toy).unwrap();
        }
        let before = counts(&store, "before");
        std::thread::scope(|scope| {
            let merging = scope.spawn(|| store.merge(0, u64::MAX, || Toy));
            store.close(|| Toy).unwrap();
            // It is finished before, or finds the store closed.
            let merged = merging.join().unwrap();
            assert!(merged.is_ok() || matches!(merged, Err(store::StoreError::Failed(_))), "{merged:?}");
        });
        assert!(store.flush(true, || Toy).is_err());
        assert_eq!(counts(&store, "closed"), before);
        assert_eq!(counts(&open(&device, options).0, "reopened"), before);
    }
}
