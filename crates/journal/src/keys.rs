//! The bytes of a decision's keys, and of what was known of them. They are most of a row, and most of them say what
//! others say: an aggregate's sums begin with its first and last time, and times are near the event's. `docs/internals/format.md`
//! draws them.

use event::{Key, Kind, Shingle, Time};
use serde::{Deserialize, Serialize};
use stats::{Quality, Reading, ReadingView};

use super::encoding::{RecordFormatError, RecordReader, RecordWrite, Result};

/// The flags in a key's byte of flags, above two bits for the quality.
mod flag {
    pub(super) const FIRST: u8 = 1 << 2;
    pub(super) const LAST: u8 = 1 << 3;
    pub(super) const FRESH: u8 = 1 << 4;
    /// The first sum is the first time.
    pub(super) const SUM_IS_FIRST: u8 = 1 << 5;
    /// The next one is the last time.
    pub(super) const SUM_IS_LAST: u8 = 1 << 6;
}

/// The qualities, by their number in the flags.
const QUALITIES: [Quality; 4] = [Quality::Exact, Quality::Estimated, Quality::Missing, Quality::Lagging];

/// A key of an event and what was known of it before.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KeyReading {
    /// The number of the kind, or of the distinct count.
    pub kind: Kind,
    /// The hashed piece.
    pub shingle: Shingle,
    /// The reading that was known.
    pub reading: Reading,
}

impl KeyReading {
    /// A key with what was known of it.
    pub fn new(key: &Key, reading: &Reading) -> KeyReading {
        KeyReading { kind: key.kind, shingle: key.shingle, reading: reading.clone() }
    }
}

/// A reading, wherever it lies.
pub(super) struct ReadingRef<'a> {
    quality: Quality,
    first: Option<Time>,
    last: Option<Time>,
    fresh: bool,
    counters: u8,
    sums: &'a [u64],
}

impl<'a> From<&'a Reading> for ReadingRef<'a> {
    fn from(reading: &'a Reading) -> ReadingRef<'a> {
        let Reading { quality, first, last, fresh, .. } = *reading;
        ReadingRef { quality, first, last, fresh, counters: reading.counters(), sums: reading.sums() }
    }
}

impl<'a> From<ReadingView<'a>> for ReadingRef<'a> {
    #[inline]
    fn from(view: ReadingView<'a>) -> ReadingRef<'a> {
        ReadingRef {
            quality: view.quality(),
            first: view.first(),
            last: view.last(),
            fresh: view.fresh(),
            counters: view.counters(),
            sums: view.sums(),
        }
    }
}

/// Puts a key of an event of this time, and what was known of it, behind others.
pub(super) fn put(into: &mut Vec<u8>, time: Time, (kind, shingle): (Kind, Shingle), reading: ReadingRef<'_>) {
    let mut sums = reading.sums;
    let mut flags = reading.quality as u8;
    let mut times = [None; 2];
    let said =
        [(reading.first, flag::FIRST, flag::SUM_IS_FIRST), (reading.last, flag::LAST, flag::SUM_IS_LAST)];
    for (place, (said, is_stated, sum_says_it)) in times.iter_mut().zip(said) {
        let Some(said) = said else { continue };
        flags |= is_stated;
        *place = Some(time.0.wrapping_sub(said.0));
        if let [sum, rest @ ..] = sums
            && *sum == said.0 as u64
        {
            flags |= sum_says_it;
            sums = rest;
        }
    }
    if reading.fresh {
        flags |= flag::FRESH;
    }
    into.put_varint(kind.0.into());
    let [a, b, c, d, e, f, g, h] = shingle.0.to_le_bytes();
    into.extend_from_slice(&[a, b, c, d, e, f, g, h, flags]);
    times.into_iter().flatten().for_each(|ago| into.put_signed(ago));
    into.put_behind([reading.counters], sums.len() as u64);
    sums.iter().for_each(|sum| into.put_varint(*sum));
}

/// Hands on the keys without what was known of them.
pub(super) fn names(bytes: &[u8], mut name: impl FnMut(Kind, Shingle)) -> Result<()> {
    let mut reader = RecordReader::new(bytes);
    while !reader.is_at_end() {
        let kind = Kind(reader.varint()?.try_into().map_err(|_| RecordFormatError)?);
        let shingle = Shingle(u64::from_le_bytes(reader.array()?));
        let flags = reader.byte()?;
        for is_stated in [flag::FIRST, flag::LAST] {
            if flags & is_stated != 0 {
                reader.time()?;
            }
        }
        reader.byte()?;
        for _ in 0..reader.varint()? {
            reader.varint()?;
        }
        name(kind, shingle);
    }
    Ok(())
}

/// The keys of an event of this time.
pub(super) fn read(bytes: &[u8], time: Time) -> Result<Vec<KeyReading>> {
    let mut reader = RecordReader::new(bytes);
    let (mut keys, mut sums) = (Vec::new(), Vec::new());
    while !reader.is_at_end() {
        let kind = Kind(reader.varint()?.try_into().map_err(|_| RecordFormatError)?);
        let shingle = Shingle(u64::from_le_bytes(reader.array()?));
        let flags = reader.byte()?;
        let quality = QUALITIES[usize::from(flags & 3)];
        let mut said = |is_stated| {
            let is_stated = flags & is_stated != 0;
            is_stated.then(|| reader.time().map(|ago| Time(time.0.wrapping_sub(ago.0)))).transpose()
        };
        let (first, last) = (said(flag::FIRST)?, said(flag::LAST)?);
        let counters = reader.byte()?;
        sums.clear();
        for (said, sum_says_it) in [(first, flag::SUM_IS_FIRST), (last, flag::SUM_IS_LAST)] {
            if flags & sum_says_it != 0 {
                sums.push(said.ok_or(RecordFormatError)?.0 as u64);
            }
        }
        for _ in 0..reader.varint()? {
            sums.push(reader.varint()?);
        }
        let fresh = flags & flag::FRESH != 0;
        let reading = Reading::of(quality, (first, last), fresh, counters, &sums);
        keys.push(KeyReading { kind, shingle, reading });
    }
    Ok(keys)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn keys_come_back_as_they_were(keys in prop::collection::vec(samples::key(), 0..9), time: i64) {
            let time = Time(time);
            let mut bytes = Vec::new();
            for KeyReading { kind, shingle, reading } in &keys {
                put(&mut bytes, time, (*kind, *shingle), reading.into());
            }
            let mut names = Vec::new();
            super::names(&bytes, |kind, shingle| names.push((kind, shingle))).unwrap();
            let said: Vec<_> = keys.iter().map(|key| (key.kind, key.shingle)).collect();
            prop_assert_eq!(names, said);
            let read = read(&bytes, time).unwrap();
            prop_assert_eq!(&read, &keys);
            for (read, key) in read.iter().zip(&keys) {
                // Readings that nobody could tell apart are equal, and these are the same.
                prop_assert_eq!(read.reading.sums(), key.reading.sums());
                prop_assert_eq!(read.reading.counters(), key.reading.counters());
            }
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..60), time: i64) {
            let _ = names(&bytes, |_, _| ());
            if let Ok(keys) = read(&bytes, Time(time)) {
                prop_assert!(keys.len() <= bytes.len() / 12);
            }
        }
    }
}
