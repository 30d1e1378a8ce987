//! Slots of partitions, and the text between braces that leads to each.
//!
//! A cluster of Redis puts a key into one of 16,384 slots, by a CRC16 of what is between the first braces of its name
//! (Redis cluster specification, "Hash tags" and appendix A). Partition `i` of `P` has slot `i * 16384 / P`, so
//! partitions lie as evenly over the slots, and over the shards, as can be.

use crate::remote::{Partition, PartitionCount};

/// The number of slots that a cluster has.
pub const SLOTS: u16 = 1 << 14;

/// CRC-16/XMODEM: polynomial 1021, from zero, nothing reflected.
pub(crate) const fn crc16(bytes: &[u8]) -> u16 {
    let mut crc = 0u16;
    let mut at = 0;
    while at < bytes.len() {
        crc ^= (bytes[at] as u16) << 8;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 0x8000 != 0 { crc << 1 ^ 0x1021 } else { crc << 1 };
            bit += 1;
        }
        at += 1;
    }
    crc
}

/// The slot of a partition.
pub fn slot_of(partition: Partition, partitions: PartitionCount) -> u16 {
    let slot = u32::from(partition.0) * (u32::from(SLOTS) / u32::from(partitions.count()));
    (slot % u32::from(SLOTS)) as u16
}

/// The partition that has a slot.
pub(crate) fn partition_at(slot: u16, partitions: PartitionCount) -> Option<Partition> {
    let each = SLOTS / partitions.count();
    (slot < SLOTS && slot.is_multiple_of(each)).then(|| Partition(slot / each))
}

/// The tag of each partition.
#[derive(Clone, Debug)]
pub(crate) struct PartitionTags(Vec<SlotTag>);

/// A text that is in a slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct SlotTag {
    bytes: [u8; SlotTag::BYTES_MAX],
    length: u8,
}

impl SlotTag {
    const BYTES_MAX: usize = 4;

    fn text(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }
}

impl PartitionTags {
    /// Finds them: for each partition the first text in its slot, of texts of letters and digits by length and then by
    /// order. A few milliseconds.
    pub(crate) fn find(partitions: PartitionCount) -> PartitionTags {
        const SYMBOLS: &[u8] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
        let mut tags = vec![SlotTag::default(); usize::from(partitions.count())];
        let mut missing = tags.len();
        let mut length = 1;
        while missing > 0 && length <= SlotTag::BYTES_MAX {
            let texts = SYMBOLS.len().pow(length as u32);
            for number in 0..texts {
                let mut tag = SlotTag { length: length as u8, ..SlotTag::default() };
                let mut rest = number;
                for byte in tag.bytes[..length].iter_mut().rev() {
                    *byte = SYMBOLS[rest % SYMBOLS.len()];
                    rest /= SYMBOLS.len();
                }
                let Some(partition) = partition_at(crc16(tag.text()) % SLOTS, partitions) else { continue };
                let place = &mut tags[usize::from(partition.0)];
                if place.length == 0 {
                    *place = tag;
                    missing -= 1;
                    if missing == 0 {
                        break;
                    }
                }
            }
            length += 1;
        }
        PartitionTags(tags)
    }

    /// The tag of a partition; empty for one that there is not.
    pub(crate) fn of(&self, partition: Partition) -> &[u8] {
        self.0.get(usize::from(partition.0)).map_or(&[], SlotTag::text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_that_of_the_specification() {
        assert_eq!(crc16(b"123456789"), 0x31c3);
        assert_eq!(crc16(b""), 0);
    }

    #[test]
    fn every_partition_has_a_tag_in_its_slot() {
        for count in [1, 2, 64, 1024, PartitionCount::MAX] {
            let partitions = PartitionCount::new(count).unwrap();
            let tags = PartitionTags::find(partitions);
            for partition in (0..count).map(Partition) {
                let tag = tags.of(partition);
                assert!((1..=SlotTag::BYTES_MAX).contains(&tag.len()), "{count} {partition:?}");
                assert_eq!(crc16(tag) % SLOTS, slot_of(partition, partitions));
                assert_eq!(partition_at(slot_of(partition, partitions), partitions), Some(partition));
            }
            assert_eq!(tags.of(Partition(count)), b"");
        }
    }
}
