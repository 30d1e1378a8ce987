//! Random appends, merges, restarts and crashes of a small key-value store over the log, against a plain map.

use std::collections::BTreeMap;
use std::sync::Arc;

use disk::MemoryDevice;
use store::log::{
    Log, LogOptions, Position, RecordKey, VisitedRecord, micros, minutes_up, record_bytes, trimmed,
};

use crate::support::{HOUR, Random, key};

#[derive(Clone, Copy, Debug)]
struct Place {
    position: Position,
    words: usize,
    expires: u32,
}

/// The duties of a user of the log, in short.
struct Store {
    log: Log,
    places: BTreeMap<RecordKey, Place>,
}

impl Store {
    fn open(device: &MemoryDevice, segment_bytes: u32) -> Store {
        let mut places = BTreeMap::new();
        let mut visit = |visit: &VisitedRecord| {
            let VisitedRecord { key, position, words, expires_minutes, .. } = *visit;
            places.insert(key, Place { position, words, expires: expires_minutes });
        };
        let (log, recovery) =
            Log::open(Arc::new(device.clone()), LogOptions { segment_bytes }, &mut visit).unwrap();
        assert!(recovery.losses.is_empty(), "{recovery:?}");
        places.retain(|_, place| micros(place.expires) > recovery.floor);
        for place in places.values() {
            log.account(place.position, record_bytes(place.words) as i64);
        }
        Store { log, places }
    }

    fn append(&mut self, records: &[(RecordKey, i64, Vec<u64>)], sync: bool) {
        let mut writer = self.log.begin().unwrap();
        for (key, expires, words) in records {
            let before = self.places.get(key);
            let expires = (*expires).max(before.map_or(i64::MIN, |place| micros(place.expires)));
            if let Some(before) = before {
                self.log.account(before.position, -(record_bytes(before.words) as i64));
            }
            let position = writer.push(*key, 0, expires, words).unwrap();
            let expires = minutes_up(expires).max(minutes_up(self.log.floor().saturating_add(1)));
            let words = trimmed(words).len();
            self.log.account(position, record_bytes(words) as i64);
            self.places.insert(*key, Place { position, words, expires });
        }
        writer.commit(sync).unwrap();
    }

    fn merge(&mut self, now: i64) {
        self.log.raise_floor(now);
        let floor = self.log.floor();
        let gone = |place: &Place| micros(place.expires) <= floor;
        for place in self.places.values().filter(|place| gone(place)) {
            self.log.account(place.position, -(record_bytes(place.words) as i64));
        }
        self.places.retain(|_, place| !gone(place));
        let emptiest =
            |segment: &&store::log::SegmentUsage| segment.live_bytes * 2 < segment.record_bytes.max(1);
        let segments = self.log.segments();
        for segment in segments.iter().filter(|segment| segment.sealed).filter(emptiest) {
            let mut live = Vec::new();
            let losses = self
                .log
                .scan(segment.slot, &mut |visit, words| {
                    if self.places.get(&visit.key).is_some_and(|place| place.position == visit.position) {
                        live.push((visit.key, micros(visit.expires_minutes), words.to_vec()));
                    }
                })
                .unwrap();
            assert!(losses.is_empty());
            self.append(&live, false);
            assert!(self.log.remove(segment.slot).unwrap());
        }
    }

    fn contents(&self) -> BTreeMap<RecordKey, Vec<u64>> {
        let wanted: Vec<(Position, usize)> =
            self.places.values().map(|place| (place.position, place.words)).collect();
        let keys: Vec<&RecordKey> = self.places.keys().collect();
        let mut found = BTreeMap::new();
        self.log.read_many(&wanted, &mut |index, record| {
            let record = record.unwrap();
            assert_eq!(&record.key, keys[index]);
            assert!(found.insert(record.key, record.words).is_none(), "answered twice");
        });
        assert_eq!(found.len(), wanted.len());
        found
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
struct Model {
    images: BTreeMap<RecordKey, (i64, Vec<u64>)>,
    floor: i64,
}

impl Model {
    fn append(&mut self, key: RecordKey, expires: i64, words: &[u64]) {
        let before = self.images.get(&key).map_or(i64::MIN, |(expires, _)| *expires);
        let expires = expires.max(before).max(self.floor.saturating_add(1));
        self.images.insert(key, (micros(minutes_up(expires)), words.to_vec()));
    }

    fn raise(&mut self, now: i64) {
        self.floor = self.floor.max(now);
        self.images.retain(|_, (expires, _)| *expires > self.floor);
    }

    fn visible(&self) -> BTreeMap<RecordKey, Vec<u64>> {
        self.images.iter().map(|(key, (_, words))| (*key, words.clone())).collect()
    }
}

fn check(seed: u64) {
    let mut random = Random(seed);
    let mut device = MemoryDevice::new();
    let segment_bytes = [700, 2_000, 6_000][random.below(3) as usize];
    let mut store = Store::open(&device, segment_bytes);
    let mut model = Model { floor: i64::MIN, ..Model::default() };
    // Every state since the last sync: a crash may leave any of them, and no other.
    let mut since_sync = vec![model.clone()];
    let mut now = HOUR;
    for step in 0..300 {
        let context = format!("seed {seed}, step {step}");
        match random.below(100) {
            0..70 => {
                let sync = random.below(3) == 0;
                let (mut records, keys) = (Vec::new(), 1 + random.below(40));
                let most = if random.below(10) == 0 { 60 } else { 6 };
                for _ in 0..random.below(most) {
                    let expires = now - HOUR + random.below(10 * HOUR as u64) as i64;
                    let mut words = vec![0; random.below(8) as usize];
                    // No two images are equal, so that contents tell states apart.
                    words.push(1 + random.below(u64::MAX - 1));
                    records.push((key(random.below(keys)), expires, words));
                }
                records.sort_by_key(|(key, ..)| *key);
                records.dedup_by_key(|(key, ..)| *key);
                store.append(&records, sync);
                for (key, expires, words) in &records {
                    model.append(*key, *expires, words);
                }
                if sync {
                    since_sync.clear();
                }
                since_sync.push(model.clone());
            }
            70..80 => now += random.below(2 * HOUR as u64) as i64,
            // The caller's clock may also jump back.
            80..82 => now -= random.below(3 * HOUR as u64) as i64,
            82..84 => store.log.begin().unwrap().seal().unwrap(),
            84..94 => {
                store.merge(now);
                model.raise(now);
                since_sync.push(model.clone());
            }
            _ => {
                match random.below(4) {
                    0 => store.log.close().unwrap(),
                    1 => {}
                    _ => device = device.crash(random.below(u64::MAX)),
                }
                drop(store);
                store = Store::open(&device, segment_bytes);
                let (found, floor) = (store.contents(), store.log.floor());
                // The floor may be lower than it was, if nothing was written since: then nothing was dropped by it.
                let held = since_sync.iter().rev().find(|state| {
                    let mut state = (*state).clone();
                    state.floor = i64::MIN;
                    state.raise(floor);
                    state.visible() == found
                });
                model =
                    held.unwrap_or_else(|| panic!("{context}: no state since the last sync fits")).clone();
                model.floor = floor;
                since_sync = vec![model.clone()];
                continue;
            }
        }
        if step % 10 == 0 {
            let mut expected = model.clone();
            expected.raise(store.log.floor());
            let mut found = store.contents();
            found.retain(|key, _| micros(store.places[key].expires) > store.log.floor());
            assert_eq!(found, expected.visible(), "{context}");
        }
    }
    let verified = store.log.verify(&mut |done, all| assert!(done <= all), &mut |_| {}).unwrap();
    assert!(verified.losses.is_empty(), "seed {seed}: {verified:?}");
}

#[test]
fn random_histories_agree_with_a_map() {
    for seed in 0..300 {
        check(seed);
    }
}

#[test]
fn merging_bounds_the_files() {
    let device = MemoryDevice::new();
    let mut store = Store::open(&device, 2_000);
    for round in 1..400u64 {
        for number in 0..20 {
            store.append(&[(key(number), i64::MAX, vec![round, number])], false);
        }
        store.merge(0);
    }
    let usage = store.log.usage();
    assert_eq!(usage.live_bytes, 20 * 40 - 8);
    assert!(usage.disk_bytes < 10_000, "{usage:?}");
    assert!(device.used() < 20_000, "the removed segments' hints are gone too");
    let contents = store.contents();
    for number in 0..20 {
        let words = if number == 0 { vec![399] } else { vec![399, number] };
        assert_eq!(contents[&key(number)], words);
    }
}
