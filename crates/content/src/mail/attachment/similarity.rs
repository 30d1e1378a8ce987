//! Pieces that files share with others that are nearly the same.
//!
//! A file is cut where its content says so (a rolling sum over the last 64 bytes, as in rsync and LBFS), so that
//! an insertion moves few cuts; of the hashes of its chunks the [`KEPT`] least are kept (bottom-*k* sketch; Broder
//! 1997). Two files that share most of their chunks share most of these. Packed files change as a whole with
//! every byte: of an archive the files' own checksums are the chunks. Hashes are not keyed; they become keyed
//! shingles when they are counted.
//!
//! Of an image, the checksum of what is painted: its size and data without comments, times and camera notes, so
//! that a picture is the same however often its frame is changed. A perceptual hash would also survive a new
//! encoding; it needs decoders for three formats and all their pixels for every image, which neither the time of
//! a message nor the attack surface allows.

use std::hash::Hasher;

use siphasher::sip::SipHasher13;

use super::file_type::FileType;
use super::zip::ZipArchive;

/// Number of pieces of a file.
pub(crate) const KEPT: usize = 4;
/// Smaller files are known by their checksum alone.
const FILE_BYTES_MIN: usize = 8 * 1024;
/// Most bytes that are cut.
const FILE_BYTES_MAX: usize = 4 * 1024 * 1024;
const CHUNK_BYTES_MIN: usize = 512;
const CHUNK_BYTES_MAX: usize = 16 * 1024;
/// A cut at one of 2048 places.
const CUT_MASK: u64 = 0xFFE0_0000_0000_0000;

/// A value for each byte, by which the sum rolls (Gear hash; Xia and others, 2014).
const GEAR: [u64; 256] = {
    let mut gear = [0; 256];
    let mut state = 0u64;
    let mut i = 0;
    while i < 256 {
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        gear[i] = z ^ (z >> 31);
        i += 1;
    }
    gear
};

/// The least of the hashes that were offered, each once.
#[derive(Debug, Default)]
struct BottomKSketch(Vec<u64>);

impl BottomKSketch {
    fn offer(&mut self, hash: u64) {
        if let Err(at) = self.0.binary_search(&hash)
            && at < KEPT
        {
            self.0.insert(at, hash);
            self.0.truncate(KEPT);
        }
    }

    fn pieces(self) -> impl Iterator<Item = String> {
        self.0.into_iter().map(|hash| format!("{hash:016x}"))
    }
}

fn hash(bytes: &[u8]) -> u64 {
    let mut hasher = SipHasher13::new();
    hasher.write(bytes);
    hasher.finish()
}

/// The pieces of a file that is not packed.
pub(super) fn of_file(content: &[u8]) -> impl Iterator<Item = String> {
    let content = &content[..content.len().min(FILE_BYTES_MAX)];
    let mut least = BottomKSketch::default();
    let mut start = 0;
    let mut sum = 0u64;
    if content.len() >= FILE_BYTES_MIN {
        for (at, &byte) in content.iter().enumerate() {
            sum = (sum << 1).wrapping_add(GEAR[usize::from(byte)]);
            let length = at + 1 - start;
            if length >= CHUNK_BYTES_MIN && sum & CUT_MASK == 0 || length == CHUNK_BYTES_MAX {
                least.offer(hash(&content[start..=at]));
                start = at + 1;
            }
        }
        // The last chunk ends where the file does, so it is like no other's.
    }
    least.pieces()
}

/// The pieces of an archive: of its files that are no trifles, by checksum and size.
pub(super) fn of_archive(archive: &ZipArchive<'_>) -> impl Iterator<Item = String> {
    let mut least = BottomKSketch::default();
    for entry in archive.entries.iter().filter(|entry| entry.size >= 512 && entry.crc != 0) {
        least.offer(hash(&[entry.crc.to_le_bytes().as_slice(), &entry.size.to_le_bytes()].concat()));
    }
    least.pieces()
}

/// Width, height and a hash of what an image shows; `None` where the format is not known or damaged.
pub(super) fn of_image(kind: FileType, content: &[u8]) -> Option<String> {
    let (width, height, hash) = match kind {
        FileType::Png => png(content)?,
        FileType::Jpeg => jpeg(content)?,
        FileType::Gif => {
            let side = |at: usize| Some(u32::from(u16::from_le_bytes(*content.get(at..)?.first_chunk()?)));
            (side(6)?, side(8)?, hash(content.get(10..)?))
        }
        _ => return None,
    };
    Some(format!("{width}x{height}:{hash:016x}"))
}

/// A PNG's header, palette and pixels, without text and times.
fn png(content: &[u8]) -> Option<(u32, u32, u64)> {
    let mut hasher = SipHasher13::new();
    let mut rest = content.get(8..)?;
    let mut size = None;
    while let Some((head, after)) = rest.split_at_checked(8) {
        let length = usize::try_from(u32::from_be_bytes(*head.first_chunk()?)).ok()?;
        let data = &after[..length.min(after.len())];
        if &head[4..] == b"IHDR" {
            let side = |at: usize| Some(u32::from_be_bytes(*data.get(at..)?.first_chunk()?));
            size = side(0).zip(side(4));
        }
        if matches!(&head[4..], b"IHDR" | b"PLTE" | b"IDAT" | b"tRNS") {
            hasher.write(data);
        }
        rest = after.get(length.checked_add(4)?..).unwrap_or_default();
    }
    size.map(|(width, height)| (width, height, hasher.finish()))
}

/// A JPEG's frame, tables and scan, without application data and comments.
fn jpeg(content: &[u8]) -> Option<(u32, u32, u64)> {
    let mut hasher = SipHasher13::new();
    let mut rest = content.get(2..)?;
    let mut size = None;
    while let [0xFF, marker, after @ ..] = rest {
        if *marker == 0xFF {
            rest = &rest[1..];
            continue;
        }
        let length = usize::from(u16::from_be_bytes(*after.first_chunk()?));
        let data = after.get(2..length.max(2))?;
        // Frames, but for the markers among them that are none.
        if matches!(marker, 0xC0..=0xCF) && !matches!(marker, 0xC4 | 0xC8 | 0xCC) {
            let side = |at: usize| Some(u32::from(u16::from_be_bytes(*data.get(at..)?.first_chunk()?)));
            size = side(3).zip(side(1));
        }
        if !matches!(marker, 0xE0..=0xEF | 0xFE) {
            hasher.write(data);
        }
        rest = &after[length.max(2)..];
        if *marker == 0xDA {
            hasher.write(rest);
            break;
        }
    }
    size.map(|(width, height)| (width, height, hasher.finish()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mail::attachment::zip;

    fn file(seed: u64) -> Vec<u8> {
        (0..60_000u64)
            .flat_map(|i| hash(&((seed << 32) | (i / 3)).to_le_bytes()).to_le_bytes())
            .take(200_000)
            .collect()
    }

    #[test]
    fn files_alike_share_pieces() {
        let original = file(1);
        let mut edited = original.clone();
        edited.splice(1_000..1_010, *b"something else");
        let pieces = |content: &[u8]| of_file(content).collect::<Vec<_>>();
        let shared =
            |other: &[u8]| pieces(other).iter().filter(|piece| pieces(&original).contains(piece)).count();
        assert_eq!(pieces(&original).len(), KEPT);
        assert!(shared(&edited) >= 3, "{} of {KEPT}", shared(&edited));
        assert_eq!(shared(&file(2)), 0);
        assert!(pieces(&original[..1_000]).is_empty());
    }

    #[test]
    fn archives_alike_share_pieces() {
        let big = [7; 600];
        let raw = zip::tests::archive(&[("a", &big), ("b", &big)], None);
        let other = zip::tests::archive(&[("x", &big), ("new", b"y")], None);
        let pieces =
            |raw: &[u8]| of_archive(&zip::read(raw, &crate::budget::Budget::ample())).collect::<Vec<_>>();
        assert_eq!(pieces(&raw).len(), 2);
        assert!(pieces(&other).iter().all(|piece| pieces(&raw).contains(piece)));
    }

    #[test]
    fn images_are_known_without_their_notes() {
        let chunk = |kind: &[u8], data: &[u8]| {
            [(data.len() as u32).to_be_bytes().as_slice(), kind, data, &[0; 4]].concat()
        };
        let head = [0, 0, 0, 5, 0, 0, 0, 6, 8, 2, 0, 0, 0];
        let png = |note: &[u8], pixels: &[u8]| {
            let raw = [
                b"\x89PNG\r\n\x1a\n".to_vec(),
                chunk(b"IHDR", &head),
                chunk(b"tEXt", note),
                chunk(b"IDAT", pixels),
            ];
            of_image(FileType::Png, &raw.concat()).unwrap()
        };
        assert!(png(b"a", b"p").starts_with("5x6:"));
        assert_eq!(png(b"a", b"p"), png(b"bc", b"p"));
        assert_ne!(png(b"a", b"p"), png(b"a", b"q"));
        let jpeg = |note: &[u8]| {
            let length = (note.len() as u16 + 2).to_be_bytes();
            let frame = [0xFF, 0xC0, 0, 9, 8, 0, 6, 0, 5, 1, 1];
            let raw =
                [&[0xFF, 0xD8, 0xFF, 0xE1], length.as_slice(), note, &frame, &[0xFF, 0xDA, 0, 2, 1, 2, 3]];
            of_image(FileType::Jpeg, &raw.concat()).unwrap()
        };
        assert!(jpeg(b"x").starts_with("5x6:"));
        assert_eq!(jpeg(b"x"), jpeg(b"yz"));
        assert_eq!(of_image(FileType::Jpeg, b"\xff\xd8\xff\xe1\xff\xff"), None);
    }
}
