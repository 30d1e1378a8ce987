//! Damage to every file of a store, one at a time: it opens, all else is served, and what is damaged is named.

use std::collections::BTreeMap;

use disk::{Device, MemoryDevice};
use store::log::RecordKey;
use store::{Options, Repair, Store};

use crate::toy::{Toy, key, open, transact};

const OPTIONS: Options = Options { memory_bytes: 1 << 20, segment_bytes: 4_000 };
const KEYS: u64 = 400;

/// Several segments, and which file has each key's image: every key is written once.
fn filled(close: bool) -> (MemoryDevice, BTreeMap<RecordKey, String>) {
    let device = MemoryDevice::new();
    let (store, _) = open(&device, OPTIONS);
    for number in 0..KEYS {
        transact(&store, &[key(number)], 0, |_, cell| *cell = vec![i64::MAX.cast_unsigned(), number])
            .unwrap();
        if number % 10 == 9 {
            store.flush(true, || Toy).unwrap();
        }
    }
    if close {
        store.close(|| Toy).unwrap();
    }
    let mut found = BTreeMap::new();
    let mut seen = |visit: &store::VisitedRecord| _ = found.insert(visit.key, visit.position.slot());
    drop(store);
    let copy = device.torn(usize::MAX);
    let (again, _) = Store::open(std::sync::Arc::new(copy), OPTIONS, &mut seen).unwrap();
    drop(again);
    // Nothing was removed, so that slots are the segments' numbers.
    let files = found.into_iter().map(|(key, slot)| (key, format!("{slot:08x}.seg")));
    (device, files.collect())
}

/// Returns the damages that a file can suffer: its bytes, or none if it is removed.
fn damages(bytes: &[u8]) -> Vec<(String, Option<Vec<u8>>)> {
    let mut all: Vec<(String, Option<Vec<u8>>)> = vec![
        ("removed".into(), None),
        ("emptied".into(), Some(Vec::new())),
        ("zeroed".into(), Some(vec![0; bytes.len()])),
    ];
    let length = bytes.len();
    for at in [
        0,
        3,
        8,
        11,
        20,
        39,
        41,
        60,
        104,
        110,
        128,
        length / 3,
        length / 2,
        length.saturating_sub(50),
        length - 1,
    ] {
        let at = at.min(length - 1);
        let mut flipped = bytes.to_vec();
        flipped[at] ^= 1 << (at % 8);
        all.push((format!("a bit of byte {at} flipped"), Some(flipped)));
    }
    for kept in [1, 39, 40, 41, length / 2, length - 1] {
        all.push((format!("cut to {kept}"), Some(bytes[..kept.min(length - 1)].to_vec())));
    }
    all
}

#[test]
fn damage_to_any_file_costs_what_lies_there_and_is_named() {
    for close in [true, false] {
        let (device, files) = filled(close);
        let names = device.list().unwrap();
        assert!(
            names.len() > if close { 8 } else { 7 } && names.contains(&"segments".to_owned()),
            "{names:?}"
        );
        let newest = names.iter().filter(|name| name.ends_with(".seg")).max();
        for name in &names {
            let bytes = device.read(name).unwrap();
            // The hint of the segment that is being written to has nothing yet.
            if bytes.is_empty() {
                continue;
            }
            for (what, damaged) in damages(&bytes) {
                let context = format!("{name} {what}, closed {close}");
                let device = device.torn(usize::MAX);
                match damaged {
                    Some(bytes) => device.write(name, &bytes),
                    None => device.remove(name).unwrap(),
                }
                let (store, recovery) = open(&device, OPTIONS);
                let verified = store.verify(&mut |_, _| {}).unwrap();
                let has = |key: &RecordKey| matches!(store.get(*key), Ok(Some(_)));
                let lost: Vec<_> = files.iter().filter(|(key, _)| !has(key)).collect();
                // A group of ten that goes on in the newest segment is not whole without it.
                let beside = lost.iter().filter(|(_, file)| *file != name).count();
                assert!(beside <= 10, "{context}: {lost:?}");
                // A record, or the ten of a frame.
                if what.contains("flipped") {
                    assert!(lost.len() <= 10, "{context}: {} lost", lost.len());
                }
                let losses = [&recovery.losses, &verified.0.losses];
                let is_named = losses.iter().any(|losses| {
                    losses.missing.contains(name) || losses.ranges.iter().any(|range| range.segment == *name)
                });
                let is_tail = recovery.truncated_bytes > 0;
                let is_derived = recovery.hints_ignored.contains(name)
                    || verified.0.hints_ignored.contains(name)
                    || recovery.manifest_made_anew && name == "segments";
                // Of a log that was not closed, what ends behind the head of the newest segment looks like one in which nothing was
                // written yet.
                let is_blank = !close && Some(name) == newest && what == "cut to 40";
                if is_blank {
                    continue;
                }
                assert!(lost.is_empty() || is_named || is_tail, "{context}: {} lost in silence", lost.len());
                // A hint that is not there is written anew without a word: nothing hangs on it.
                let is_hint_gone = name.ends_with(".hint");
                assert!(is_named || is_tail || is_derived || is_hint_gone, "{context}: nothing is said");
                // It goes on, and says so again at the next start as long as something is missing.
                transact(&store, &[key(KEYS + 1)], 0, |_, cell| *cell = vec![i64::MAX.cast_unsigned(), 1])
                    .unwrap();
                store.close(|| Toy).unwrap();
                drop(store);
                let (store, again) = open(&device, OPTIONS);
                assert_eq!(again.losses.missing, recovery.losses.missing, "{context}");
                assert!(has_key(&store, KEYS + 1), "{context}");
                let kept = |store: &Store| {
                    files.keys().filter(|key| matches!(store.get(**key), Ok(Some(_)))).count()
                };
                let before = kept(&store);
                assert!(files.len() - before <= lost.len(), "{context}");
                // After a repair nothing is damaged or missing any more, and nothing more is lost.
                let found = store.verify(&mut |_, _| {}).unwrap().0;
                let damaged = |losses: &store::LogLosses| {
                    losses.ranges.iter().map(|range| range.segment.clone()).collect::<Vec<_>>()
                };
                let segments = [damaged(&found.losses), damaged(&again.losses)].concat();
                store.repair(&Repair { segments, ..Repair::default() }, || Toy).unwrap();
                store.close(|| Toy).unwrap();
                drop(store);
                let (store, recovery) = open(&device, OPTIONS);
                assert!(recovery.losses.is_empty(), "{context}: {:?}", recovery.losses);
                let (found, keys_lost) = store.verify(&mut |_, _| {}).unwrap();
                assert!(found.losses.is_empty() && keys_lost == 0, "{context}: {found:?}");
                assert_eq!(kept(&store), before, "{context}");
            }
        }
    }
}

#[test]
fn keys_that_are_let_go_of_do_not_come_back() {
    let device = MemoryDevice::new();
    let (store, _) = open(&device, OPTIONS);
    // Older images of each key lie in other segments than the newest.
    for round in 0..5 {
        for number in 0..100 {
            let words = vec![i64::MAX.cast_unsigned(), round];
            transact(&store, &[key(number)], 0, |_, cell| cell.clone_from(&words)).unwrap();
        }
        store.flush(true, || Toy).unwrap();
    }
    let keys: Vec<RecordKey> = (0..40).map(key).collect();
    store.repair(&Repair { keys, ..Repair::default() }, || Toy).unwrap();
    for _ in 0..2 {
        for number in 0..100 {
            let expected = (number >= 40).then_some(vec![i64::MAX.cast_unsigned(), 4]);
            let found = store.get(key(number)).unwrap().map(|(_, words)| words);
            assert_eq!(found, expected, "{number}");
        }
    }
    store.close(|| Toy).unwrap();
    drop(store);
    let (store, recovery) = open(&device, OPTIONS);
    assert!(recovery.losses.is_empty());
    let is_there = |number: &u64| has_key(&store, *number);
    assert_eq!((0..100).filter(is_there).collect::<Vec<u64>>(), (40..100).collect::<Vec<u64>>());
}

#[test]
fn a_floor_from_the_future_is_brought_down() {
    const HOUR: i64 = 3_600_000_000;
    let device = MemoryDevice::new();
    let (store, _) = open(&device, OPTIONS);
    let put = |store: &Store, number: u64, expires: i64| {
        transact(store, &[key(number)], 0, |_, cell| *cell = vec![expires.cast_unsigned(), number]).unwrap();
        store.flush(true, || Toy).unwrap();
    };
    (0..60).for_each(|number| put(&store, number, 2_000 * HOUR));
    store.merge(1_000 * HOUR, u64::MAX, || Toy).unwrap();
    put(&store, 60, 2_000 * HOUR);
    let repair = Repair { floor_max: Some(10 * HOUR), ..Repair::default() };
    store.repair(&repair, || Toy).unwrap();
    put(&store, 61, 20 * HOUR);
    store.close(|| Toy).unwrap();
    drop(store);
    let (store, recovery) = open(&device, OPTIONS);
    assert_eq!((store.floor(), recovery.floor), (10 * HOUR, 10 * HOUR));
    assert!((0..62).all(|number| has_key(&store, number)), "one that ends before the old floor is kept, too");
}

fn has_key(store: &Store, number: u64) -> bool {
    matches!(store.get(key(number)), Ok(Some(_)))
}

#[test]
fn a_removal_that_is_interrupted_is_no_loss() {
    // Cut the power after every change while segments are merged and removed.
    for successes in (0..4_000).step_by(3) {
        let device = MemoryDevice::new();
        let (store, _) = open(&device, OPTIONS);
        for number in 0..1_500 {
            transact(&store, &[key(number % 300)], 0, |_, cell| {
                *cell = vec![i64::MAX.cast_unsigned(), number]
            })
            .unwrap();
            if number % 10 == 9 {
                store.flush(true, || Toy).unwrap();
            }
        }
        device.fail_after(successes);
        let done = store.merge(0, u64::MAX, || Toy).is_ok();
        let left = device.crash(successes);
        drop(store);
        let (store, recovery) = open(&left, OPTIONS);
        assert!(recovery.losses.is_empty(), "after {successes}: {recovery:?}");
        assert!((0..300).all(|number| has_key(&store, number)), "after {successes}");
        if done {
            assert!(successes > 10, "a removal takes some changes");
            return;
        }
    }
    panic!("the merge never ended");
}
