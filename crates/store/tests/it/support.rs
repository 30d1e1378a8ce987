//! Helpers that the tests share.

use std::sync::Arc;

use disk::MemoryDevice;
use store::StoreError;
use store::log::{Log, LogOptions, RecordKey, Recovery, VisitedRecord};

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

pub(crate) const HOUR: i64 = 3_600_000_000;

pub(crate) fn key(number: u64) -> RecordKey {
    RecordKey { space: 1, kind: number as u16 % 7, shingle: number.wrapping_mul(0x9e37_79b9_7f4a_7c15) }
}

pub(crate) fn name(id: u32) -> String {
    format!("{id:08x}.seg")
}

pub(crate) fn hint(id: u32) -> String {
    format!("{id:08x}.hint")
}

/// Opens with short segments, and answers what was visited.
pub(crate) fn open(device: &MemoryDevice, segment_bytes: u32) -> (Log, Recovery, Vec<VisitedRecord>) {
    try_open(device, segment_bytes).unwrap()
}

pub(crate) fn try_open(
    device: &MemoryDevice,
    segment_bytes: u32,
) -> Result<(Log, Recovery, Vec<VisitedRecord>), StoreError> {
    let mut visits = Vec::new();
    let options = LogOptions { segment_bytes };
    let (log, recovery) =
        Log::open(Arc::new(device.clone()), options, &mut |visit: &VisitedRecord| visits.push(*visit))?;
    Ok((log, recovery, visits))
}

/// Appends one group of records that never expire; the value of each is its number and some words more.
pub(crate) fn append(log: &Log, numbers: &[u64], sync: bool) -> Result<(), StoreError> {
    let mut writer = log.begin()?;
    for number in numbers {
        writer.push(key(*number), 3, i64::MAX, &words(*number))?;
    }
    writer.commit(sync)
}

pub(crate) fn words(number: u64) -> Vec<u64> {
    (0..1 + number % 5).map(|word| number + word + 1).collect()
}

/// The numbers of the visited records, each of which is read back and checked.
pub(crate) fn numbers(log: &Log, visits: &[VisitedRecord]) -> Vec<u64> {
    let check = |visit: &VisitedRecord| {
        let record = log.read(visit.position, visit.words).unwrap();
        assert_eq!((record.key, record.tag, record.words.len()), (visit.key, visit.tag, visit.words));
        let number = record.words[0] - 1;
        assert_eq!((record.key, &record.words), (key(number), &words(number)));
        number
    };
    visits.iter().map(check).collect()
}
