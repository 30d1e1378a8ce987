//! Random appends, merges, restarts and crashes against a plain map.

use std::collections::BTreeMap;
use std::sync::Arc;

use store::{MemoryDevice, Options, Record, Store, StoreError};

pub(crate) type Key = [u8; 12];

/// SplitMix64.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }
}

pub(crate) fn key(number: u64) -> Key {
    let mut key = [0; 12];
    key[4..].copy_from_slice(&number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
    key
}

pub(crate) fn open(device: &MemoryDevice) -> Store {
    Store::open(Arc::new(device.clone()), Options { segment_bytes: 2_000 }).unwrap().0
}

#[derive(Clone, Debug, Default, PartialEq)]
struct Model {
    images: BTreeMap<Key, (i64, Vec<u8>)>,
    floor: i64,
}

impl Model {
    fn append(&mut self, key: Key, expires: i64, value: &[u8]) {
        let before = self.images.get(&key).map_or(i64::MIN, |(expires, _)| *expires);
        self.images.insert(key, (expires.max(before).max(self.floor.saturating_add(1)), value.to_vec()));
    }

    fn raise(&mut self, now: i64) {
        self.floor = self.floor.max(now);
        self.images.retain(|_, (expires, _)| *expires > self.floor);
    }

    fn visible(&self) -> BTreeMap<Key, Vec<u8>> {
        self.images.iter().map(|(key, (_, value))| (*key, value.clone())).collect()
    }
}

fn contents(store: &Store) -> BTreeMap<Key, Vec<u8>> {
    let mut all = BTreeMap::new();
    for key in store.keys(b"", i64::MIN) {
        if let Some(image) = store.get(&key).unwrap() {
            assert_eq!(store.position(&key), Some(image.position));
            all.insert(key, image.value);
        }
    }
    all
}

fn check(seed: u64) {
    let mut random = Random(seed);
    let mut device = MemoryDevice::new();
    let mut store = open(&device);
    let mut model = Model { floor: i64::MIN, ..Model::default() };
    // Every state since the last sync: a crash may leave any of them, and no other.
    let mut since_sync = vec![model.clone()];
    let mut now = 0i64;
    for step in 0..400 {
        let context = format!("seed {seed}, step {step}");
        match random.below(100) {
            0..70 => {
                let sync = random.below(3) == 0;
                let mut values = Vec::new();
                let keys = 1 + random.below(40);
                for _ in 0..random.below(8) {
                    let expires = now - 50 + random.below(500) as i64;
                    let mut value = vec![0; random.below(60) as usize];
                    // No two images are equal, so that contents tell states apart.
                    value.extend_from_slice(&random.below(u64::MAX).to_le_bytes());
                    values.push((key(random.below(keys)), expires, value));
                }
                values.sort_by_key(|(key, ..)| *key);
                values.dedup_by_key(|(key, ..)| *key);
                let records: Vec<Record<'_>> = values
                    .iter()
                    .map(|(key, expires, value)| Record { key: *key, expires: *expires, value })
                    .collect();
                store.append(&records, sync).unwrap();
                for (key, expires, value) in &values {
                    model.append(*key, *expires, value);
                }
                if sync {
                    since_sync.clear();
                }
                since_sync.push(model.clone());
            }
            70..82 => now += random.below(100) as i64,
            // The caller's clock may also jump back.
            82..84 => now -= random.below(200) as i64,
            84..94 => {
                store.merge_step(now, random.below(4_000)).unwrap();
                model.raise(now);
                since_sync.push(model.clone());
            }
            _ => {
                if random.below(2) == 0 {
                    device = device.crash(random.below(u64::MAX));
                }
                drop(store);
                store = open(&device);
                let found = contents(&store);
                // The floor may be lower than it was, if nothing was written since: then nothing was dropped by it.
                let held = since_sync.iter().rev().find(|state| {
                    let mut state = (*state).clone();
                    state.floor = i64::MIN;
                    state.raise(store.floor());
                    state.visible() == found
                });
                model =
                    held.unwrap_or_else(|| panic!("{context}: no state since the last sync fits")).clone();
                model.floor = store.floor();
                since_sync = vec![model.clone()];
                continue;
            }
        }
        if step % 10 == 0 {
            let mut expected = model.clone();
            expected.raise(store.floor());
            let (found, expected) = (contents(&store), expected.visible());
            let differing: Vec<&Key> = found
                .keys()
                .chain(expected.keys())
                .filter(|key| found.get(*key) != expected.get(*key))
                .collect();
            assert!(differing.is_empty(), "{context}: {differing:?}");
        }
    }
    assert!(store.verify().unwrap().damage.is_empty(), "seed {seed}");
}

#[test]
fn random_histories_agree_with_a_map() {
    for seed in 0..150 {
        check(seed);
    }
}

#[test]
fn merging_bounds_the_files() {
    let device = MemoryDevice::new();
    let store = open(&device);
    for round in 0..200u64 {
        for number in 0..20 {
            let value = round.to_le_bytes();
            store.append(&[Record { key: key(number), expires: i64::MAX, value: &value }], false).unwrap();
        }
        store.merge_step(0, u64::MAX).unwrap();
    }
    let usage = store.usage();
    assert_eq!(usage.keys, 20);
    assert!(usage.disk_bytes <= 2 * (usage.live_bytes + 20 * 40) + 2_000, "{usage:?}");
    for number in 0..20 {
        assert_eq!(store.get(&key(number)).unwrap().unwrap().value, 199u64.to_le_bytes());
    }
}

#[test]
fn a_forgotten_key_stays_forgotten_when_the_clock_jumps_back() {
    let device = MemoryDevice::new();
    let store = open(&device);
    let filler = [0; 1_990];
    let record = |number, expires, value| Record { key: key(number), expires, value };
    store.append(&[record(1, 1_000, b"old"), record(2, i64::MAX, &filler)], true).unwrap();
    store.append(&[record(1, 10, b"young"), record(3, 10, &filler)], true).unwrap();
    store.append(&[record(4, i64::MAX, &filler)], true).unwrap();
    let merged = store.merge_step(2_000, 0).unwrap();
    assert_eq!((merged.expired, merged.segments), (2, 1), "the middle segment is removed unread");
    drop(store);
    let store = open(&device);
    store.merge_step(0, 0).unwrap();
    assert_eq!(store.get(&key(1)).unwrap(), None);
}

#[test]
fn a_failed_write_or_sync_stops_all_writing_and_no_reading() {
    for successes in 0..3 {
        let device = MemoryDevice::new();
        let store = open(&device);
        let record = |number, value| Record { key: key(number), expires: i64::MAX, value };
        store.append(&[record(1, b"kept")], true).unwrap();
        device.fail_after(successes);
        let mut failed = false;
        for _ in 0..3 {
            failed |= store.append(&[record(2, b"lost?")], true).is_err();
        }
        assert!(failed);
        device.heal();
        let refused = store.append(&[record(3, b"late")], true);
        assert!(matches!(refused, Err(StoreError::Failed(_))), "{refused:?}");
        assert!(matches!(store.merge_step(0, 0), Err(StoreError::Failed(_))));
        assert_eq!(store.get(&key(1)).unwrap().unwrap().value, b"kept");
        drop(store);
        assert_eq!(open(&device).get(&key(1)).unwrap().unwrap().value, b"kept");
    }
}

#[test]
fn large_groups_are_cut_into_frames_and_stay_atomic() {
    let device = MemoryDevice::new();
    let store = open(&device);
    let value = vec![7; store::VALUE_BYTES_MAX];
    let records: Vec<Record<'_>> =
        (0..10).map(|number| Record { key: key(number), expires: i64::MAX, value: &value }).collect();
    store.append(&[Record { key: key(99), expires: i64::MAX, value: b"before" }], true).unwrap();
    store.append(&records, false).unwrap();
    let (mut whole, mut nothing) = (0, 0);
    for seed in 0..40 {
        let store = open(&device.crash(seed));
        match store.usage().keys {
            11 => whole += 1,
            1 | 0 => nothing += 1,
            keys => panic!("{keys} keys of a torn group were found"),
        }
    }
    assert!(nothing > 0, "{whole} {nothing}");
    store.append(&[], true).unwrap();
    assert_eq!(open(&device.crash(1)).usage().keys, 11);
    let long = vec![0; store::VALUE_BYTES_MAX + 1];
    let refused = store.append(&[Record { key: key(1), expires: 0, value: &long }], true);
    assert!(matches!(refused, Err(StoreError::TooLarge(_))));
    assert!(store.get(&key(1)).unwrap().is_some());
}
