//! Variable-length numbers (LEB128, as in Protocol Buffers) and short texts, written and read back with bounds.

use event::Span;

use crate::layout::{CellShape, Tier};

/// Appends seven bits a byte, least significant first.
pub fn push_varint(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

/// Appends a signed number so that small magnitudes stay short.
pub fn push_zigzag(bytes: &mut Vec<u8>, value: i64) {
    push_varint(bytes, ((value << 1) ^ (value >> 63)).cast_unsigned());
}

/// Appends a length and the text.
pub fn push_text(bytes: &mut Vec<u8>, text: &str) {
    push_varint(bytes, text.len() as u64);
    bytes.extend_from_slice(text.as_bytes());
}

/// Appends a length of time, which is not negative.
pub(crate) fn push_span(bytes: &mut Vec<u8>, span: Span) {
    push_varint(bytes, span.0.cast_unsigned());
}

/// Appends the width and the number of buckets.
pub(crate) fn push_tier(bytes: &mut Vec<u8>, tier: Tier) {
    push_span(bytes, tier.width);
    push_varint(bytes, u64::from(tier.buckets));
}

/// FNV-1a (Fowler, Noll and Vo), 32 bits.
pub(crate) fn fnv(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}

/// Bytes as words: their number, then eight of them a word, the first in the least significant place.
pub(crate) fn pack(bytes: &[u8]) -> Vec<u64> {
    let mut words = vec![bytes.len() as u64];
    words.extend(
        bytes.chunks(8).map(|eight| eight.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte))),
    );
    words
}

/// The bytes in such words. Zero words may be missing at the end, or be too many.
pub(crate) fn unpack(words: &[u64]) -> Option<Vec<u8>> {
    let (length, words) = words.split_first()?;
    let length = usize::try_from(*length).ok().filter(|length| *length < 8 * CellShape::WORDS_MAX)?;
    let mut bytes: Vec<u8> =
        words.iter().take(length.div_ceil(8)).flat_map(|word| word.to_le_bytes()).collect();
    bytes.resize(length, 0);
    Some(bytes)
}

/// Takes values from the front of untrusted bytes; `None` where they end early or are not well-formed.
#[derive(Clone, Copy, Debug)]
pub struct ByteReader<'a>(pub &'a [u8]);

impl<'a> ByteReader<'a> {
    /// Takes the next `count` bytes.
    pub fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    /// Reads bytes as an array.
    pub fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    /// Reads what [`push_varint`] has appended; also where it is longer than it need be.
    pub fn varint(&mut self) -> Option<u64> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let (&byte, rest) = self.0.split_first()?;
            self.0 = rest;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                return None;
            }
            value |= bits << shift;
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }

    /// Reads what [`push_span`] has appended.
    pub(crate) fn span(&mut self) -> Option<Span> {
        i64::try_from(self.varint()?).ok().map(Span)
    }

    /// Reads what [`push_tier`] has appended.
    pub(crate) fn tier(&mut self) -> Option<Tier> {
        let width = self.span()?;
        Some(Tier { width, buckets: u32::try_from(self.varint()?).ok()? })
    }

    /// Reads what [`push_zigzag`] has appended.
    pub fn zigzag(&mut self) -> Option<i64> {
        let value = self.varint()?;
        Some((value >> 1).cast_signed() ^ -((value & 1).cast_signed()))
    }

    /// Reads what [`push_text`] has appended.
    pub fn text(&mut self) -> Option<&'a str> {
        let length = usize::try_from(self.varint()?).ok()?;
        std::str::from_utf8(self.take(length)?).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_read_back_from_words() {
        for bytes in [&[][..], &[0], &[1, 2, 3, 4, 5, 6, 7, 8], &[1, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0]] {
            let mut words = pack(bytes);
            assert_eq!(unpack(&words).as_deref(), Some(bytes));
            while words.len() > 1 && words.last() == Some(&0) {
                words.pop();
            }
            assert_eq!(unpack(&words).as_deref(), Some(bytes));
            words.resize(9, 0);
            assert_eq!(unpack(&words).as_deref(), Some(bytes));
        }
        assert_eq!(pack(b"123456789"), [9, 0x3837_3635_3433_3231, 0x39]);
        assert_eq!(unpack(&[u64::MAX, 1]), None);
        assert_eq!(unpack(&[]), None);
    }

    #[test]
    fn numbers_read_back() {
        for value in [0, 1, -1, 63, -64, 300, i64::MAX, i64::MIN] {
            let mut bytes = Vec::new();
            push_zigzag(&mut bytes, value);
            push_varint(&mut bytes, value.cast_unsigned());
            let mut reader = ByteReader(&bytes);
            assert_eq!((reader.zigzag(), reader.varint()), (Some(value), Some(value.cast_unsigned())));
            assert!(reader.0.is_empty());
        }
        assert_eq!(ByteReader(&[0xff; 10]).varint(), None, "more than 64 bits");
        assert_eq!(ByteReader(&[0x80]).varint(), None, "cut short");
    }
}
