//! Deflated bytes (RFC 1951; with a header RFC 1950 and RFC 1952) within a budget of work.
//!
//! What comes out of a deflated stream does not bound what it costs: a block that yields nothing takes ten bits and has
//! the decoder build its tables anew, which is two thousand times what ten bits of a text cost. So each block
//! is charged, each byte that goes in, each byte that comes out, and each stream that is begun.

use memchr::memchr;
use miniz_oxide::inflate::TINFLStatus;
use miniz_oxide::inflate::core::inflate_flags::{
    TINFL_FLAG_PARSE_ZLIB_HEADER, TINFL_FLAG_STOP_ON_BLOCK_BOUNDARY,
};
use miniz_oxide::inflate::core::{DecompressorOxide, decompress};

use crate::budget::Budget;

/// Steps to begin a stream: its tables are some ten kilobytes.
const STREAM_STEPS: u64 = 2_000;
/// Steps of a block, whose tables are built.
const BLOCK_STEPS: u64 = 3_000;
/// Steps of a byte that goes in: a literal of a few bits is the dearest.
const STEPS_A_PACKED_BYTE: u64 = 8;
/// Steps of a byte that comes out.
pub const STEPS_A_BYTE: u64 = 1;
/// Bytes that came out last and can be pointed back to.
const WINDOW_BYTES: usize = 32 * 1024;

/// The wrapping of deflated bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeflateFormat {
    /// Not at all (RFC 1951).
    Raw,
    /// In a zlib header and a checksum (RFC 1950).
    Zlib,
}

/// The end of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamEnd {
    /// All of it was inflated.
    Whole,
    /// The stream is damaged or cut off; what came before is there.
    Damaged,
    /// The stream holds more than was asked for.
    TooLarge,
    /// The budget has no more.
    TooCostly,
}

/// The output of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InflatedBytes {
    /// The bytes, as far as they were asked for and paid for.
    pub bytes: Vec<u8>,
    /// The reason for the end.
    pub end: StreamEnd,
}

impl InflatedBytes {
    /// Returns whether there was more that was not read.
    pub fn is_cut(&self) -> bool {
        matches!(self.end, StreamEnd::TooLarge | StreamEnd::TooCostly)
    }
}

/// Inflates at most `bytes_max` bytes. Memory grows with what comes out.
pub fn inflate(packed: &[u8], wrapping: DeflateFormat, bytes_max: usize, budget: &Budget) -> InflatedBytes {
    let mut bytes = Vec::new();
    let (_, end) = inflate_pieces(packed, wrapping, budget, |piece| {
        let room = bytes_max - bytes.len();
        bytes.extend_from_slice(&piece[..piece.len().min(room)]);
        piece.len() <= room
    });
    InflatedBytes { bytes, end }
}

/// Inflates piece by piece, until `take` says that it is enough; returns how many packed bytes that took, too. A piece is empty
/// where a block yields nothing.
pub fn inflate_pieces(
    packed: &[u8],
    wrapping: DeflateFormat,
    budget: &Budget,
    mut take: impl FnMut(&[u8]) -> bool,
) -> (usize, StreamEnd) {
    let header = if wrapping == DeflateFormat::Zlib { TINFL_FLAG_PARSE_ZLIB_HEADER } else { 0 };
    let flags = TINFL_FLAG_STOP_ON_BLOCK_BOUNDARY | header;
    let (mut read, mut at) = (0, 0);
    if !budget.spend(STREAM_STEPS) {
        return (0, StreamEnd::TooCostly);
    }
    let mut inflater = Box::new(DecompressorOxide::new());
    let mut window = vec![0; WINDOW_BYTES];
    loop {
        if !budget.spend(BLOCK_STEPS) {
            return (read, StreamEnd::TooCostly);
        }
        let (status, taken, given) = decompress(&mut inflater, &packed[read..], &mut window, at, flags);
        let piece = &window[at..at + given];
        (read, at) = (read + taken, (at + given) % WINDOW_BYTES);
        if !take(piece) {
            return (read, StreamEnd::TooLarge);
        }
        let is_paid = budget.spend(taken as u64 * STEPS_A_PACKED_BYTE + given as u64 * STEPS_A_BYTE);
        match status {
            TINFLStatus::Done => return (read, StreamEnd::Whole),
            TINFLStatus::BlockBoundary | TINFLStatus::HasMoreOutput if is_paid => {}
            TINFLStatus::BlockBoundary | TINFLStatus::HasMoreOutput => return (read, StreamEnd::TooCostly),
            _ => return (read, StreamEnd::Damaged),
        }
    }
}

/// Inflates the first member of a gzip file (RFC 1952), at most `bytes_max` bytes; returns the name in it, too. Its
/// checksum is not looked at. `None` if it has no whole head.
pub fn gunzip(content: &[u8], bytes_max: usize, budget: &Budget) -> Option<(Option<String>, InflatedBytes)> {
    let (name, packed) = gzip_head(content)?;
    Some((name, inflate(packed, DeflateFormat::Raw, bytes_max, budget)))
}

/// Returns the name in the head of a gzip file, and what follows the head. `None` if it is not whole.
pub fn gzip_head(content: &[u8]) -> Option<(Option<String>, &[u8])> {
    /// Longest name that is kept.
    const NAME_BYTES_MAX: usize = 2_048;
    let (head, mut rest) =
        content.split_at_checked(10).filter(|(head, _)| head.starts_with(b"\x1f\x8b\x08"))?;
    let flags = head[3];
    if flags & 4 != 0 {
        let length = usize::from(u16::from_le_bytes(*rest.first_chunk()?));
        rest = rest.get(2 + length..)?;
    }
    let mut name = None;
    if flags & 8 != 0 {
        let end = memchr(0, rest)?;
        name = Some(String::from_utf8_lossy(&rest[..end.min(NAME_BYTES_MAX)]).into_owned());
        rest = &rest[end + 1..];
    }
    if flags & 16 != 0 {
        rest = &rest[memchr(0, rest)? + 1..];
    }
    if flags & 2 != 0 {
        rest = rest.get(2..)?;
    }
    Some((name, rest))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;
    use crate::budget::Cancellation;

    fn budget() -> Budget {
        Budget::of_steps(100_000_000, &Cancellation::default())
    }

    fn deflated(plain: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::best());
        encoder.write_all(plain).unwrap();
        encoder.finish().unwrap()
    }

    fn check(packed: &[u8], wrapping: DeflateFormat, bytes_max: usize, length: usize, end: StreamEnd) {
        let inflated = inflate(packed, wrapping, bytes_max, &budget());
        assert_eq!((inflated.bytes.len(), inflated.end), (length, end));
    }

    #[test]
    fn what_comes_out_is_bounded() {
        let packed = deflated(&vec![0; 10_000_000]);
        check(&packed, DeflateFormat::Raw, 1_000, 1_000, StreamEnd::TooLarge);
        check(&packed, DeflateFormat::Raw, 9_999_999, 9_999_999, StreamEnd::TooLarge);
        check(&packed, DeflateFormat::Raw, 10_000_000, 10_000_000, StreamEnd::Whole);
        check(&packed[..10], DeflateFormat::Raw, 1_000_000, 0, StreamEnd::Damaged);
        check(b"\xff\xff\xff", DeflateFormat::Raw, 10, 0, StreamEnd::Damaged);
        check(b"\x03\0", DeflateFormat::Raw, 0, 0, StreamEnd::Whole);
        check(&deflated(b"a"), DeflateFormat::Raw, 0, 0, StreamEnd::TooLarge);
        check(b"\x01\x02\0\xfd\xffhi", DeflateFormat::Raw, 2, 2, StreamEnd::Whole);
    }

    #[test]
    fn checksums_are_looked_at() {
        let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(b"hello").unwrap();
        let mut packed = encoder.finish().unwrap();
        check(&packed, DeflateFormat::Zlib, 100, 5, StreamEnd::Whole);
        *packed.last_mut().unwrap() ^= 1;
        check(&packed, DeflateFormat::Zlib, 100, 5, StreamEnd::Damaged);
    }

    #[test]
    fn blocks_that_yield_nothing_cost() {
        // Stored and fixed blocks of no bytes.
        for block in [b"\0\0\0\xff\xff".as_slice(), b"\x02\x08\x20\x80\0"] {
            let mut spent = Vec::new();
            for count in [1_000, 2_000] {
                let budget = budget();
                let inflated = inflate(&block.repeat(count), DeflateFormat::Raw, 1_000, &budget);
                assert!(inflated.bytes.is_empty());
                assert!(budget.spent() >= count as u64 * BLOCK_STEPS, "{}", budget.spent());
                spent.push(budget.spent());
            }
            assert!(spent[1] <= 2 * spent[0]);
            let short = Budget::of_steps(spent[0] / 2, &Cancellation::default());
            let inflated = inflate(&block.repeat(1_000), DeflateFormat::Raw, 1_000, &short);
            assert_eq!((inflated.end, short.is_short()), (StreamEnd::TooCostly, true));
        }
    }

    #[test]
    fn gzip_is_opened() {
        let raw = b"\x1f\x8b\x08\x08\0\0\0\0\0\x03a.txt\0\x01\x02\0\xfd\xffhi";
        let (name, inflated) = gunzip(raw, 10, &budget()).unwrap();
        assert_eq!((name.as_deref(), inflated.bytes.as_slice()), (Some("a.txt"), b"hi".as_slice()));
        assert!(gunzip(raw, 1, &budget()).unwrap().1.is_cut());
        assert!(gunzip(&raw[..9], 1, &budget()).is_none());
    }
}
