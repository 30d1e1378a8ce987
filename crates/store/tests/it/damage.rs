//! Rotten, foreign and future files.

use std::sync::Arc;

use proptest::prelude::*;
use store::{FileDevice, MemoryDevice, Options, Record, Store, StoreError};

use crate::model::{key, open};

const FIRST: &str = "00000000.seg";

fn filled() -> MemoryDevice {
    let device = MemoryDevice::new();
    let store = Store::open(Arc::new(device.clone()), Options::default()).unwrap().0;
    for number in 0..30 {
        store
            .append(&[Record { key: key(number), expires: i64::MAX, value: &[number as u8; 20] }], true)
            .unwrap();
    }
    device
}

#[test]
fn segments_are_as_drawn() {
    let device = MemoryDevice::new();
    let store = open(&device);
    let record = Record { key: *b"abcdefghijkl", expires: 7, value: b"v" };
    store.append(&[record], true).unwrap();
    let bytes = device.read(FIRST).unwrap();
    let number = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
    let floor = i64::MIN.to_le_bytes();
    assert_eq!(bytes[..12], *b"TOLLSEG\n\x01\0\0\0");
    assert_eq!((&bytes[16..24], &bytes[24..32]), (&[0; 8][..], &floor[..]));
    assert_eq!(number(12), crc32fast::hash(&[&bytes[..12], &bytes[16..32]].concat()));
    assert_eq!(bytes[32..36], [0xf5, b'T', b'H', 0x9a]);
    assert_eq!(number(36), crc32fast::hash(&bytes[40..]));
    assert_eq!([40, 44, 48, 52, 56, 60].map(number), [29, 0, 0, 1, 0, 0]);
    assert_eq!(bytes[64..72], floor);
    assert_eq!(number(72), crc32fast::hash(&bytes[76..]));
    assert_eq!(&bytes[76..], [&b"abcdefghijkl"[..], &7i64.to_le_bytes(), &1u32.to_le_bytes(), b"v"].concat());
}

#[test]
fn a_flipped_bit_costs_its_group_only() {
    let original = filled().read(FIRST).unwrap();
    for at in (32..original.len()).step_by(7) {
        let mut bytes = original.clone();
        bytes[at] ^= 0x10;
        let device = MemoryDevice::new();
        device.write(FIRST, &bytes);
        let (store, recovery) = Store::open(Arc::new(device), Options::default()).unwrap();
        assert_eq!(recovery.keys, 29, "byte {at}");
        let skipped: u64 = recovery.damage.iter().map(|damage| damage.to - damage.from).sum();
        assert_eq!(skipped + recovery.truncated_bytes, 40 + 28 + 20, "byte {at}: {recovery:?}");
        for number in 0..30u64 {
            if let Some(image) = store.get(&key(number)).unwrap() {
                assert_eq!(image.value, [number as u8; 20]);
            }
        }
    }
}

#[test]
fn verify_reports_what_recovery_skipped() {
    let device = filled();
    let mut bytes = device.read(FIRST).unwrap();
    bytes[100] ^= 1;
    device.write(FIRST, &bytes);
    let (store, recovery) = Store::open(Arc::new(device), Options::default()).unwrap();
    let verified = store.verify().unwrap();
    assert_eq!((verified.segments, verified.records, recovery.damage.len()), (1, 29, 1));
    assert_eq!(verified.damage, recovery.damage);
}

#[test]
fn a_later_format_is_refused_by_name() {
    let device = filled();
    let mut bytes = device.read(FIRST).unwrap();
    bytes[8] = 2;
    device.write(FIRST, &bytes);
    let refused = Store::open(Arc::new(device), Options::default()).err().unwrap();
    assert!(matches!(&refused, StoreError::Newer { found: 2, supported: 1, .. }));
    assert!(refused.to_string().contains(FIRST), "{refused}");
}

#[test]
fn a_directory_serves_one_process_and_keeps_its_images() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("ledger");
    let record = Record { key: key(1), expires: i64::MAX, value: b"here" };
    {
        let device = FileDevice::open(&path).unwrap();
        let refused = FileDevice::open(&path).err().unwrap();
        assert!(refused.to_string().contains(&path.display().to_string()), "{refused}");
        let store = Store::open(Arc::new(device), Options { segment_bytes: 100 }).unwrap().0;
        for _ in 0..5 {
            store.append(&[record], true).unwrap();
        }
        assert_eq!(store.merge_step(0, u64::MAX).unwrap().segments, 4);
    }
    let device = FileDevice::open(&path).unwrap();
    let (store, recovery) = Store::open(Arc::new(device), Options::default()).unwrap();
    assert_eq!((recovery.keys, recovery.damage.len()), (1, 0));
    assert_eq!(store.get(&key(1)).unwrap().unwrap().value, b"here");
    assert_eq!(store.keys(&[0; 4], i64::MIN), [key(1)]);
    assert!(store.keys(&[1], i64::MIN).is_empty());
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400), header in any::<bool>()) {
        let device = MemoryDevice::new();
        let original = filled().read(FIRST).unwrap();
        let mut file = if header { original[..32].to_vec() } else { Vec::new() };
        file.extend_from_slice(&bytes);
        device.write(FIRST, &file);
        if let Ok((store, _)) = Store::open(Arc::new(device), Options::default()) {
            let record = Record { key: key(1), expires: i64::MAX, value: b"x" };
            store.append(&[record], true).unwrap();
            prop_assert_eq!(store.get(&key(1)).unwrap().unwrap().value, b"x");
        }
    }

    #[test]
    fn mangled_segments_never_panic(cuts in proptest::collection::vec((any::<u16>(), any::<u16>(), any::<u8>()), 1..6)) {
        let device = MemoryDevice::new();
        let mut file = filled().read(FIRST).unwrap();
        for (at, length, byte) in cuts {
            let from = usize::from(at) % file.len();
            let to = (from + usize::from(length) % 200).min(file.len());
            match byte % 3 {
                0 => file[from..to].fill(byte),
                1 => file.extend_from_within(from..to),
                _ => drop(file.drain(from..to.min(from + 60))),
            }
            if file.is_empty() {
                break;
            }
        }
        device.write(FIRST, &file);
        if let Ok((store, recovery)) = Store::open(Arc::new(device), Options::default()) {
            prop_assert!(recovery.keys <= 30);
            for number in 0..30u64 {
                if let Some(image) = store.get(&key(number)).unwrap() {
                    prop_assert_eq!(image.value, [number as u8; 20]);
                }
            }
        }
    }
}
