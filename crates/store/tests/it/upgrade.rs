//! Directories of the first format.

use std::collections::BTreeMap;
use std::sync::Arc;

use store::log::{Log, LogOptions, RecordKey};
use store::{Device, MemoryDevice, StoreError, v1};

use crate::support::name;

const LATER: i64 = 60_000_000_000;

/// A segment of the first format, as it is drawn, with a group for each list of key, expiry and value.
struct Old(Vec<u8>, u64);

impl Old {
    fn new(id: u64, floor: i64) -> Old {
        let mut bytes = b"TOLLSEG\n\x01\0\0\0\0\0\0\0".to_vec();
        bytes.extend_from_slice(&id.to_le_bytes());
        bytes.extend_from_slice(&floor.to_le_bytes());
        let crc = crc32fast::hash(&[&bytes[..12], &bytes[16..]].concat());
        bytes[12..16].copy_from_slice(&crc.to_le_bytes());
        Old(bytes, 100 * id)
    }

    /// Each group in as many frames as it has lists.
    fn group(mut self, floor: i64, frames: &[&[(u8, i64, &str)]]) -> Old {
        for (index, records) in frames.iter().enumerate() {
            let mut body = Vec::new();
            for (key, expires, value) in *records {
                let mut record =
                    [&[*key; 12][..], &expires.to_le_bytes(), &(value.len() as u32).to_le_bytes()].concat();
                record.extend_from_slice(value.as_bytes());
                body.extend_from_slice(&crc32fast::hash(&record).to_le_bytes());
                body.extend_from_slice(&record);
            }
            let remaining = frames.len() - 1 - index;
            let mut frame = Vec::new();
            for number in [body.len(), index, remaining, records.len()] {
                frame.extend_from_slice(&(number as u32).to_le_bytes());
            }
            frame.extend_from_slice(&self.1.to_le_bytes());
            frame.extend_from_slice(&floor.to_le_bytes());
            frame.extend_from_slice(&body);
            self.1 += records.len() as u64;
            self.0.extend_from_slice(&[0xf5, b'T', b'H', 0x9a]);
            self.0.extend_from_slice(&crc32fast::hash(&frame).to_le_bytes());
            self.0.extend_from_slice(&frame);
        }
        self
    }
}

fn filled() -> MemoryDevice {
    let device = MemoryDevice::new();
    let first = Old::new(3, 0)
        .group(0, &[&[(1, LATER, "old"), (2, LATER, "two")]])
        .group(0, &[&[(3, LATER, "three")], &[(4, 500, "expired"), (5, LATER, "five")]]);
    let second =
        Old::new(4, 1_000).group(1_000, &[&[(1, LATER, "new")]]).group(2_000, &[&[(6, LATER, "six")]]);
    device.write(&name(3), &first.0);
    device.write(&name(4), &second.0);
    device
}

type Contents = BTreeMap<u64, u64>;

fn upgrade(device: &MemoryDevice) -> Result<v1::UpgradeReport, StoreError> {
    let device: Arc<dyn Device> = Arc::new(device.clone());
    v1::upgrade(&device, LogOptions { segment_bytes: 200 }, &|_| false, &mut |image, writer| {
        let key = RecordKey { space: 0, kind: 0, shingle: u64::from(image.key[0]) };
        assert_eq!(image.expires, LATER);
        writer.push(key, 0, image.expires, &[image.value.len() as u64, u64::from(image.value[0])])?;
        Ok(())
    })
}

fn contents(device: &MemoryDevice) -> Contents {
    let mut visits = Vec::new();
    let (log, recovery) =
        Log::open(Arc::new(device.clone()), LogOptions { segment_bytes: 200 }, &mut |visit| {
            visits.push(*visit)
        })
        .unwrap();
    assert_eq!(recovery.floor, 2_000);
    let value = |visit: &store::log::VisitedRecord| log.read(visit.position, visit.words).unwrap().words[0];
    let contents: Contents = visits.iter().map(|visit| (visit.key.shingle, value(visit))).collect();
    assert_eq!(contents.len(), visits.len());
    contents
}

fn expected() -> Contents {
    [(1, 3), (2, 3), (3, 5), (5, 4), (6, 3)].into()
}

#[test]
fn the_newest_images_are_brought_over() {
    let device = filled();
    assert!(v1::present(&device).unwrap());
    assert!(matches!(
        Log::open(Arc::new(device.clone()), LogOptions::default(), &mut |_| {}),
        Err(StoreError::Older { found: 1, .. })
    ));
    let upgraded = upgrade(&device).unwrap();
    assert_eq!((upgraded.images, upgraded.segments), (5, 2));
    assert!(upgraded.losses.is_empty() && !v1::present(&device).unwrap());
    assert_eq!(contents(&device), expected());
    assert_eq!(upgrade(&device).unwrap(), v1::UpgradeReport::default(), "there is nothing left to do");
    let untouched = MemoryDevice::new();
    assert_eq!((upgrade(&untouched).unwrap().segments, untouched.used()), (0, 0));
}

#[test]
fn an_upgrade_survives_any_interruption() {
    let mut interrupted = 0;
    for successes in 0..200 {
        let device = filled();
        device.fail_after(successes);
        let failed = upgrade(&device).is_err();
        device.heal();
        interrupted += u64::from(failed);
        for seed in 0..4 {
            let left = device.crash(100 * successes + seed);
            if v1::present(&left).unwrap() {
                upgrade(&left).unwrap();
            }
            assert_eq!(contents(&left), expected(), "after {successes} changes, seed {seed}");
        }
        if !failed {
            break;
        }
    }
    assert!(interrupted > 20, "{interrupted}");
}

#[test]
fn damage_costs_a_group_and_is_said() {
    let whole = filled().read(&name(3)).unwrap();
    for at in 0..whole.len() {
        let device = filled();
        device.flip(&name(3), at, 8);
        let upgraded = upgrade(&device).unwrap();
        assert!(upgraded.images >= 3, "byte {at}: {upgraded:?}");
        assert!(at < 32 || !upgraded.losses.is_empty(), "byte {at}");
        assert_eq!(upgraded.segments, 2, "byte {at}");
        assert!(!v1::present(&device).unwrap());
        let found = contents(&device);
        assert!(found.iter().all(|(key, value)| expected().get(key) == Some(value)), "byte {at}: {found:?}");
    }
}

#[test]
fn what_convert_refuses_leaves_all_as_it_was() {
    let device = filled();
    let shared: Arc<dyn Device> = Arc::new(device.clone());
    let refused =
        v1::upgrade(&shared, LogOptions::default(), &|_| false, &mut |_, _| Err(StoreError::TooLarge("no")));
    assert!(refused.is_err());
    assert_eq!(device.read(&name(3)), filled().read(&name(3)));
    assert!(v1::present(&device).unwrap());
    upgrade(&device).unwrap();
    assert_eq!(contents(&device), expected());
}

#[test]
fn some_keys_can_be_given_before_the_others() {
    let shared: Arc<dyn Device> = Arc::new(filled());
    let mut keys = Vec::new();
    let upgraded =
        v1::upgrade(&shared, LogOptions::default(), &|key| matches!(key[0], 1 | 6), &mut |image, _| {
            keys.push(image.key[0]);
            Ok(())
        });
    assert_eq!((upgraded.unwrap().images, keys), (5, vec![1, 6, 2, 3, 5]));
}

#[test]
fn what_an_earlier_release_has_written_is_brought_over() {
    let bytes =
        std::fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/data-1/ledger/00000000.seg"));
    let device = MemoryDevice::new();
    device.write(&name(0), &bytes.unwrap());
    let shared: Arc<dyn Device> = Arc::new(device.clone());
    let mut keys = Vec::new();
    let upgraded = v1::upgrade(&shared, LogOptions::default(), &|_| false, &mut |image, writer| {
        keys.push(image.key);
        writer.push(RecordKey::default(), 0, image.expires, &[image.value.len() as u64])?;
        Ok(())
    });
    let upgraded = upgraded.unwrap();
    assert_eq!((upgraded.images, upgraded.losses.is_empty(), upgraded.segments), (30, true, 1));
    keys.sort_unstable();
    keys.dedup();
    assert_eq!(keys.len(), 30, "each key once");
}
