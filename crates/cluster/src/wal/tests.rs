use std::time::Duration;

use disk::MemoryDevice;
use proptest::prelude::*;
use stats::CounterAmounts;
use stats::random::Random;

use super::*;
use crate::cell::CellId;
use crate::delta::CellOperation;
use crate::environment::{BackgroundTask, ThreadedEnvironment};
use crate::remote::Partition;

/// Jobs at once, on the thread that asks for them.
struct AtOnce(ThreadedEnvironment);

impl Environment for AtOnce {
    fn now(&self) -> Duration {
        self.0.now()
    }

    fn spawn(&self, task: BackgroundTask) {
        pollster::block_on(task);
    }

    fn sleep(&self, time: Duration) -> BackgroundTask {
        self.0.sleep(time)
    }

    fn block(&self, job: Box<dyn FnOnce() + Send>) {
        // Not in the lock of whoever asks for it.
        std::thread::spawn(job);
    }

    fn seed(&self) -> u64 {
        1
    }
}

fn open(device: &MemoryDevice, segment_bytes: u64) -> (Arc<WriteAheadLog>, Vec<WalRecord>) {
    let options = WalOptions { durability: Durability::Sync, segment_bytes, partitions: 4 };
    let mut records = Vec::new();
    let environment = Arc::new(AtOnce(ThreadedEnvironment::new(1).unwrap()));
    let device = Arc::new(device.clone());
    let journal =
        WriteAheadLog::open(device, environment, options, &mut |record| records.push(record)).unwrap();
    records.retain(|record| matches!(record, WalRecord::Addition { .. } | WalRecord::Intent(..)));
    (Arc::new(journal), records)
}

fn addition(partition: u16, number: u64) -> WalRecord {
    let op = CellOperation::Counters(Time(number as i64), CounterAmounts::from([(0, number)]));
    let cell = CellId { space: 1, kind: 2, shingle: number };
    let added = WalAddition { partition: Partition(partition), number, cell, form: 7, op };
    let added = [added].into_iter().collect();
    WalRecord::Addition { had: Vec::new(), refused: Vec::new(), added }
}

fn append(journal: &Arc<WriteAheadLog>, record: &WalRecord) {
    let position = journal.append(record, &|_| Some(vec![1, 2]));
    pollster::block_on(journal.settled(position)).unwrap();
}

fn files(device: &MemoryDevice) -> usize {
    numbers(device).len()
}

/// The segments that are there, in order.
fn numbers(device: &MemoryDevice) -> Vec<u64> {
    let mut numbers: Vec<u64> = device.list().unwrap().iter().filter_map(|name| number(name)).collect();
    numbers.sort_unstable();
    numbers
}

#[test]
fn what_was_appended_is_there_again_with_the_latest_numbers() {
    let device = MemoryDevice::new();
    let written: Vec<WalRecord> = (1..50).map(|number| addition((number % 4) as u16, number)).collect();
    let (journal, _) = open(&device, 300);
    written.iter().for_each(|record| append(&journal, record));
    assert_eq!(
        pollster::block_on(journal.reread())
            .unwrap()
            .iter()
            .filter(|record| written.contains(record))
            .count(),
        49
    );
    let (journal, records) = open(&device, 300);
    assert_eq!(records, written);
    assert_eq!(journal.latest(), [48, 49, 46, 47]);
    assert!(files(&device) > 5);
}

#[test]
fn a_torn_tail_is_cut_off_at_every_byte() {
    let device = MemoryDevice::new();
    let written: Vec<WalRecord> = (1..4).map(|number| addition(0, number)).collect();
    let (journal, _) = open(&device, 1 << 20);
    written.iter().for_each(|record| append(&journal, record));
    let name = name(1);
    let bytes = device.read(&name).unwrap();
    let mut counts = Vec::new();
    for kept in 0..=bytes.len() {
        let device = MemoryDevice::new();
        device.write(&name, &bytes[..kept]);
        let (journal, records) = open(&device, 1 << 20);
        assert_eq!(records, written[..records.len()]);
        counts.push(records.len());
        // It goes on behind it.
        append(&journal, &addition(1, 9));
        let (_, again) = open(&device, 1 << 20);
        assert_eq!(again.len(), records.len() + 1, "{kept}");
    }
    assert!(counts.is_sorted() && counts.first() == Some(&0) && counts.last() == Some(&3));
}

#[test]
fn a_flipped_bit_costs_one_record() {
    let device = MemoryDevice::new();
    let written: Vec<WalRecord> = (1..6).map(|number| addition(0, number)).collect();
    let (journal, _) = open(&device, 1 << 20);
    written.iter().for_each(|record| append(&journal, record));
    let name = name(1);
    let bytes = device.read(&name).unwrap();
    let mut lost = 0;
    for at in 0..bytes.len() {
        let mut flipped = bytes.clone();
        flipped[at] ^= 1 << (at % 8);
        let device = MemoryDevice::new();
        device.write(&name, &flipped);
        let (_, records) = open(&device, 1 << 20);
        let expected: Vec<&WalRecord> = written.iter().filter(|record| records.contains(record)).collect();
        assert!(expected.len() >= 4 && records.iter().eq(expected), "byte {at}: {records:?}");
        lost += 5 - records.len();
    }
    assert!(lost > 0);
}

#[test]
fn segments_go_when_no_batch_of_theirs_is_needed_and_no_intent() {
    let device = MemoryDevice::new();
    let (journal, _) = open(&device, 100);
    (1..20).for_each(|number| append(&journal, &addition(0, number)));
    journal.sync().unwrap();
    let before = files(&device);
    journal.trim(&|_| 0);
    assert_eq!(files(&device), before);
    let settle = |condition: &dyn Fn() -> bool| {
        while !condition() {
            std::thread::yield_now();
        }
    };
    settle(&|| {
        journal.trim(&|_| 10);
        files(&device) == journal.state.lock().segments.len() && files(&device) < before
    });
    let (_, records) = open(&device, 100);
    assert!(records.contains(&addition(0, 11)) && !records.contains(&addition(0, 5)));

    let request = stats::ObserveRequest {
        once: Some(stats::DedupeMark { key: CellId { space: 1, kind: 2, shingle: 3 }.key(), time: Time(5) }),
        ..stats::ObserveRequest::default()
    };
    let device = MemoryDevice::new();
    let (journal, _) = open(&device, 100);
    append(&journal, &WalRecord::Intent([5; 16], request));
    (1..20).for_each(|number| append(&journal, &addition(0, number)));
    journal.sync().unwrap();
    let before = files(&device);
    journal.trim(&|_| u64::MAX);
    assert_eq!(files(&device), before, "the intent is not settled");
    let settlement =
        WalRecord::Addition { had: vec![[5; 16]], refused: Vec::new(), added: WalAdditions::default() };
    journal.append(&settlement, &|_| None);
    journal.trim(&|_| u64::MAX);
    assert_eq!(
        journal.state.lock().segments.first().unwrap().number,
        1,
        "what settles it is not on disk yet"
    );
    journal.sync().unwrap();
    settle(&|| {
        journal.trim(&|_| u64::MAX);
        files(&device) == 1
    });
    // The numbers outlast the records.
    assert_eq!(open(&device, 100).0.latest()[0], 19);
}

/// Under load the writer finds more to write whenever it has written.
#[test]
fn segments_go_while_the_writer_is_at_work() {
    let device = MemoryDevice::new();
    let (journal, _) = open(&device, 100);
    (1..20).for_each(|number| append(&journal, &addition(0, number)));
    journal.sync().unwrap();
    let work = |writing: Option<u64>| {
        let mut state = journal.state.lock();
        (state.running, state.writing) = (true, writing);
        state.segments.first().unwrap().number
    };
    let settle = |count: usize| {
        while files(&device) != count {
            std::thread::yield_now();
        }
    };
    let all = files(&device);
    let first = work(Some(0));
    journal.trim(&|_| u64::MAX);
    assert_eq!((work(Some(first + 3)), files(&device)), (first, all), "the writer is at the oldest");
    journal.trim(&|_| u64::MAX);
    settle(all - 3);
    assert_eq!(work(None), first + 3);
    journal.trim_before(first + 5);
    settle(all - 5);
    journal.trim(&|_| u64::MAX);
    settle(1);
}

#[test]
fn segments_that_cannot_be_removed_go_later_and_in_order() {
    let device = MemoryDevice::new();
    let (journal, _) = open(&device, 100);
    (1..20).for_each(|number| append(&journal, &addition(0, number)));
    journal.sync().unwrap();
    let all = files(&device);
    let idle = || {
        while journal.state.lock().removing {
            std::thread::yield_now();
        }
    };
    // After two of them.
    device.fail_after(2);
    journal.trim(&|_| 10);
    idle();
    assert_eq!((files(&device), numbers(&device)[0]), (all - 2, 3));
    device.heal();
    journal.trim(&|_| 10);
    idle();
    assert_eq!(files(&device), journal.state.lock().segments.len());
    assert!(files(&device) < all - 2);
}

#[test]
fn a_checkpoint_stands_for_all_before_it() {
    let device = MemoryDevice::new();
    let (journal, _) = open(&device, 100);
    (1..20).for_each(|number| append(&journal, &addition(0, number)));
    let (segment, position) = journal.checkpoint(&[addition(2, 7)], &|_| Some(vec![1]));
    append(&journal, &addition(3, 8));
    pollster::block_on(journal.wait(position, true)).unwrap();
    let (_, records) = open(&device, 100);
    assert_eq!(records, [addition(2, 7), addition(3, 8)], "though the others are still there");
    assert!(files(&device) < 5, "and then no longer");
    journal.trim_before(segment);
    let read = pollster::block_on(journal.reread()).unwrap();
    assert!(read.contains(&addition(2, 7)) && !read.contains(&addition(0, 1)));
}

#[test]
fn a_full_disk_is_said_and_overcome_and_a_failing_one_is_said_for_good() {
    let device = MemoryDevice::new();
    let (journal, _) = open(&device, 1 << 20);
    append(&journal, &addition(0, 1));
    device.set_capacity(Some(device.used() + 20));
    let position = journal.append(&addition(0, 2), &|_| None);
    let refused = pollster::block_on(journal.settled(position));
    assert!(matches!(refused, Err(LedgerError::Full { .. })), "{refused:?}");
    assert!(matches!(journal.check(), Err(LedgerError::Full { .. })));
    device.set_capacity(None);
    journal.kick(true);
    while journal.check().is_err() {
        std::thread::yield_now();
    }
    pollster::block_on(journal.settled(position)).unwrap();
    append(&journal, &addition(0, 3));
    assert_eq!(open(&device, 1 << 20).1, [addition(0, 1), addition(0, 2), addition(0, 3)]);
    device.fail_after(0);
    let position = journal.append(&addition(0, 4), &|_| None);
    let refused = pollster::block_on(journal.settled(position));
    assert!(matches!(refused, Err(LedgerError::Poisoned { .. })), "{refused:?}");
    device.heal();
    assert!(matches!(journal.check(), Err(LedgerError::Poisoned { .. })));
}

#[test]
fn a_lack_of_descriptors_is_said_and_overcome() {
    let device = MemoryDevice::new();
    let (journal, _) = open(&device, 60);
    append(&journal, &addition(0, 1));
    // Too many open files.
    device.set_lack(Some(24));
    let positions: Vec<u64> = (2..6).map(|number| journal.append(&addition(0, number), &|_| None)).collect();
    let position = positions[3];
    let refused = pollster::block_on(journal.settled(position));
    assert!(matches!(refused, Err(LedgerError::Full { .. })), "{refused:?}");
    device.set_lack(None);
    journal.kick(true);
    while journal.check().is_err() {
        std::thread::yield_now();
    }
    pollster::block_on(journal.settled(position)).unwrap();
    assert_eq!(open(&device, 60).1, (1..6).map(|number| addition(0, number)).collect::<Vec<_>>());
}

/// Records that were settled are there again, in their order and once; one that was refused is there once or not at all, and one
/// that is not there does not come back.
#[test]
fn what_was_settled_outlives_faults_and_crashes() {
    for seed in 0..100 {
        let mut random = Random::new(seed);
        let segment_bytes = *random.pick(&[60, 300, 5000]);
        let mut device = MemoryDevice::new();
        let (mut last, mut safe, mut refused) = (0, HashSet::new(), HashSet::new());
        for _ in 0..6 {
            let (journal, records) = open(&device, segment_bytes);
            assert_eq!(journal.losses(), &WalLosses::default(), "seed {seed}");
            let number_of = |record: &WalRecord| match record {
                WalRecord::Addition { added, .. } => added.batches().next().unwrap().1,
                _ => 0,
            };
            let found: Vec<u64> = records.iter().map(number_of).collect();
            let is_known = |number: &u64| safe.contains(number) || refused.contains(number);
            assert!(
                found.is_sorted_by(|one, next| one < next) && found.iter().all(is_known),
                "seed {seed}: {found:?}"
            );
            assert!(safe.iter().all(|number| found.contains(number)), "seed {seed}: {found:?} of {safe:?}");
            (safe, refused) = (found.into_iter().collect(), HashSet::new());
            let mut is_broken = false;
            for _ in 0..random.below(30) {
                match random.below(12) {
                    0 => device.set_capacity(Some(device.used() + random.below(500))),
                    // An interrupted call, no memory, too many open files.
                    1 => device.set_lack(Some(*random.pick(&[4, 12, 24]))),
                    2 => {
                        device.fail_after(random.below(8));
                        is_broken = true;
                    }
                    3..6 if !is_broken => {
                        device.set_capacity(None);
                        device.set_lack(None);
                        journal.kick(true);
                        while journal.check().is_err() {
                            std::thread::yield_now();
                        }
                    }
                    _ => {
                        last += 1;
                        let position = journal.append(&addition((last % 4) as u16, last), &|_| Some(vec![1]));
                        match pollster::block_on(journal.settled(position)) {
                            Ok(()) => _ = safe.insert(last),
                            Err(LedgerError::Full { .. }) => _ = refused.insert(last),
                            Err(error) => {
                                assert!(is_broken, "seed {seed}: {error}");
                                refused.insert(last);
                            }
                        }
                    }
                }
            }
            device = device.crash(random.bits());
        }
    }
}

#[test]
fn a_node_has_one_name_for_ever() {
    let device = MemoryDevice::new();
    let name = identity(&device).unwrap();
    assert_eq!(identity(&device).unwrap(), name);
    assert_ne!(identity(&MemoryDevice::new()).unwrap(), name);
    let damage = |names: &[&str]| names.iter().for_each(|name| device.write(name, &[1; 20]));
    for file in IDENTITIES {
        damage(&[file]);
        assert_eq!(identity(&device).unwrap(), name, "the other file says it");
        device.remove(file).unwrap();
        assert_eq!(identity(&device).unwrap(), name);
    }
    let (journal, _) = open(&device, 100);
    journal.sync().unwrap();
    damage(&IDENTITIES);
    let other = identity(&device).unwrap();
    assert_ne!(other, name, "both are damaged, and nothing waits that the old name would be needed for");
    assert_eq!(device.read("node.2.damaged"), Some(vec![1; 20]), "what was there is kept");
    append(&journal, &addition(0, 1));
    damage(&IDENTITIES);
    let error = identity(&device).unwrap_err();
    assert!(error.to_string().contains("put `node` back from a backup"), "{error}");
}

#[test]
fn damage_and_gaps_are_said_and_kept() {
    let device = MemoryDevice::new();
    let (journal, _) = open(&device, 100);
    (1..20).for_each(|number| append(&journal, &addition(0, number)));
    journal.sync().unwrap();
    assert_eq!(journal.losses(), &WalLosses::default());
    let numbers: Vec<u64> = journal.state.lock().segments.iter().map(|segment| segment.number).collect();
    let [_, gone, also_gone, _, damaged, ..] = numbers[..] else { panic!("{numbers:?}") };
    drop(journal);
    device.remove(&name(gone)).unwrap();
    device.remove(&name(also_gone)).unwrap();
    device.flip(&name(damaged), 20, 1);
    let before = device.read(&name(damaged)).unwrap();
    for _ in 0..2 {
        let (journal, _) = open(&device, 100);
        let losses = journal.losses();
        assert_eq!(losses.missing, [(gone, also_gone)]);
        let [(file, bytes, kept)] = &losses.damaged[..] else { panic!("{losses:?}") };
        assert_eq!((file, device.read(kept).as_ref()), (&name(damaged), Some(&before)), "{bytes}");
        let said = losses.sentence().unwrap();
        assert!(said.contains("and 1 after it are missing") && said.contains(kept.as_str()), "{said}");
    }
    let kept = |name: &String| name.ends_with(DAMAGED);
    assert_eq!(device.list().unwrap().iter().filter(|name| kept(name)).count(), 1, "once is enough");
}

#[test]
fn a_journal_of_another_release_is_refused() {
    let device = MemoryDevice::new();
    device.write(&name(3), b"thwal001\x07\0\0\0whatever");
    let options = WalOptions { durability: Durability::Sync, segment_bytes: 100, partitions: 4 };
    let environment = Arc::new(AtOnce(ThreadedEnvironment::new(1).unwrap()));
    let opened = WriteAheadLog::open(Arc::new(device.clone()), environment, options, &mut |_| {});
    let error = opened.err().unwrap().to_string();
    assert!(error.contains("another release (format thwal001, this one reads thwal004)"), "{error}");
    // A bit that flipped in a segment's first bytes costs nothing.
    let device = MemoryDevice::new();
    let (journal, _) = open(&device, 1000);
    append(&journal, &addition(0, 1));
    drop(journal);
    device.flip(&name(1), 7, 1);
    assert_eq!(open(&device, 1000).1, [addition(0, 1)]);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_are_a_segment(bytes in proptest::collection::vec(any::<u8>(), 0..300), begins in any::<bool>()) {
        let mut all = if begins { MAGIC.to_vec() } else { Vec::new() };
        all.extend_from_slice(&bytes);
        let device = MemoryDevice::new();
        device.write(&name(1), &all);
        let (journal, records) = open(&device, 100);
        prop_assert!(records.is_empty());
        append(&journal, &addition(0, 1));
        prop_assert_eq!(open(&device, 100).1, [addition(0, 1)]);
    }
}
