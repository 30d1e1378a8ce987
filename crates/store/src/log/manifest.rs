//! Which segments there are, so that one that is missing is noticed.
//!
//! The file `segments` is a text: a line `present 0000002a` for each segment, by its number, a line `lost 00000007` for each
//! that was found to be missing, and last `crc 0123abcd`, the CRC-32 of all lines before. It is replaced as a whole: after a
//! segment was created, before anything is written there; and after one was removed. Before one is removed there is an
//! empty file `0000002a.gone`, so that an interruption in between is not taken for a loss.

use std::collections::BTreeSet;
use std::io;

use super::format::id_in;
use disk::Device;

/// The name of the list of segments.
pub const NAME: &str = "segments";
/// More than all segments that positions can tell apart take.
const BYTES_MAX: u64 = 4 << 20;

/// The segments by their numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SegmentManifest {
    pub(crate) present: BTreeSet<u32>,
    pub(crate) lost: BTreeSet<u32>,
}

impl SegmentManifest {
    /// The one of a directory; `None` if there is none that is intact.
    pub(crate) fn read(device: &dyn Device) -> io::Result<Option<SegmentManifest>> {
        let blob = match device.open(NAME) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            opened => opened?,
        };
        Ok(SegmentManifest::decode(&disk::read_all(&*blob, BYTES_MAX)?))
    }

    pub(crate) fn write(&self, device: &dyn Device) -> io::Result<()> {
        device.replace(NAME, self.encode().as_bytes())
    }

    /// Whether there is, or should be, such a segment.
    pub(crate) fn knows(&self, id: u32) -> bool {
        self.present.contains(&id) || self.lost.contains(&id)
    }

    fn encode(&self) -> String {
        let present = self.present.iter().map(|id| format!("present {id:08x}\n"));
        let lost = self.lost.iter().map(|id| format!("lost {id:08x}\n"));
        let lines: String = present.chain(lost).collect();
        format!("{lines}crc {:08x}\n", crc32fast::hash(lines.as_bytes()))
    }

    fn decode(bytes: &[u8]) -> Option<SegmentManifest> {
        let text = std::str::from_utf8(bytes).ok()?;
        let mut manifest = SegmentManifest::default();
        for line in text.lines() {
            match line.split_once(' ')? {
                ("present", id) => _ = manifest.present.insert(id_in(id, "")?),
                ("lost", id) => _ = manifest.lost.insert(id_in(id, "")?),
                _ => {}
            }
        }
        // With all of it as it would be written, the checksum is right, too.
        (manifest.encode() == text).then_some(manifest)
    }
}

/// The name of the file that says that a segment is being removed.
pub(crate) fn gone_name(id: u32) -> String {
    format!("{id:08x}.gone")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manifest_reads_back_and_every_flipped_bit_is_noticed() {
        let manifest = SegmentManifest { present: [0, 7, u32::MAX].into(), lost: [3].into() };
        let text = manifest.encode();
        assert_eq!(SegmentManifest::decode(text.as_bytes()), Some(manifest));
        assert_eq!(
            SegmentManifest::decode(SegmentManifest::default().encode().as_bytes()),
            Some(SegmentManifest::default())
        );
        for bit in 0..text.len() * 8 {
            let mut bytes = text.clone().into_bytes();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(SegmentManifest::decode(&bytes), None, "bit {bit}");
        }
        for length in 0..text.len() {
            assert_eq!(SegmentManifest::decode(&text.as_bytes()[..length]), None, "{length}");
        }
    }
}
