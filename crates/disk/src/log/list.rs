//! The list of segments, by which a lost one is noticed.
//!
//! ```text
//! of 0123456789abcdef        whose they are, if the log says so: 64 bits
//! 0000002a 17                a segment's name without what follows its first dot, and what the log counts in it
//! # crc32 0123abcd           the CRC-32 of all before
//! ```
//!
//! The file is replaced as a whole.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};

use crate::device::{Device, read_all};
use crate::file::{seal, unseal};

/// The list's name.
pub const SEGMENT_LIST: &str = "segments";
/// More than all segments of a directory take.
const BYTES_MAX: u64 = 64 << 20;

/// The segments that there should be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SegmentList {
    /// The owner of the segments.
    pub owner: Option<u64>,
    /// Counts by name.
    pub segments: BTreeMap<String, u64>,
}

/// The state of the place where a list should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SegmentListState {
    /// Nothing.
    Absent,
    /// The list is not as it was written.
    Damaged,
    /// A list.
    Sound(SegmentList),
}

impl SegmentList {
    /// Reads the list on a device.
    ///
    /// # Errors
    /// The device's.
    pub fn read(device: &dyn Device) -> io::Result<SegmentListState> {
        let blob = match device.open(SEGMENT_LIST) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(SegmentListState::Absent),
            opened => opened?,
        };
        let list = SegmentList::decode(&read_all(&*blob, BYTES_MAX)?);
        Ok(list.map_or(SegmentListState::Damaged, SegmentListState::Sound))
    }

    /// Puts it in the place of the list on a device, durably.
    ///
    /// # Errors
    /// The device's.
    pub fn write(&self, device: &dyn Device) -> io::Result<()> {
        device.replace(SEGMENT_LIST, &self.encode())
    }

    fn encode(&self) -> Vec<u8> {
        let owner = self.owner.map(|owner| format!("of {owner:016x}"));
        let segments = self.segments.iter().map(|(name, count)| format!("{name} {count}"));
        let lines: Vec<String> = owner.into_iter().chain(segments).collect();
        seal(lines.join("\n").as_bytes())
    }

    fn decode(bytes: &[u8]) -> Option<SegmentList> {
        let mut list = SegmentList::default();
        for line in std::str::from_utf8(unseal(bytes)?).ok()?.lines() {
            match line.split_once(' ')? {
                ("of", owner) => list.owner = Some(u64::from_str_radix(owner, 16).ok()?),
                (name, count) => _ = list.segments.insert(name.to_owned(), count.parse().ok()?),
            }
        }
        Some(list)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_reads_back_and_every_flipped_bit_is_noticed() {
        let segments = [("00000000".to_owned(), 0), ("1hf7yat000000".to_owned(), u64::MAX)].into();
        for list in [SegmentList::default(), SegmentList { owner: Some(7), segments }] {
            let text = list.encode();
            assert_eq!(SegmentList::decode(&text), Some(list));
            for bit in 0..text.len() * 8 {
                let mut bytes = text.clone();
                bytes[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(SegmentList::decode(&bytes), None, "bit {bit}");
            }
            for length in 0..text.len() {
                assert_eq!(SegmentList::decode(&text[..length]), None, "{length}");
            }
        }
    }
}
