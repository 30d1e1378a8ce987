//! Frames: contents with heads that say where they lie and what their checksums are.
//!
//! ```text
//! 0   4   mark
//! 4   4   CRC-32 of the rest of the head
//! 8   8   offset of the frame in its file
//! 16  4   length of the content
//! 20  E   what the log says of it
//! ..  4   CRC-32 of the content
//! ```
//!
//! A frame that was copied or left over elsewhere is none: it names another place.

use std::io;

use super::reader::SegmentReader;
use crate::device::Blob;

/// The head that stands before a content, with `E` bytes of the log's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHead<const E: usize> {
    /// The start of the frame.
    pub at: u64,
    /// Bytes of the content.
    pub length: u32,
    /// The bytes in which the log describes the content.
    pub own: [u8; E],
    /// The content's checksum.
    pub crc: u32,
}

impl<const E: usize> FrameHead<E> {
    /// Length of a head.
    pub const BYTES: usize = 24 + E;

    /// The head of a content at a place.
    pub fn of(at: u64, own: [u8; E], content: &[u8]) -> FrameHead<E> {
        FrameHead { at, length: content.len() as u32, own, crc: crc32fast::hash(content) }
    }

    /// The head at the start of these bytes; `None` for bytes that are none, or that of another place.
    pub fn read(mark: [u8; 4], bytes: &[u8], at: u64) -> Option<FrameHead<E>> {
        let bytes = bytes.get(..FrameHead::<E>::BYTES).filter(|bytes| bytes.starts_with(&mark))?;
        let (head, rest) = bytes.split_at(8);
        let (place, rest) = rest.split_first_chunk()?;
        if crc32fast::hash(&bytes[8..]).to_le_bytes() != head[4..] || u64::from_le_bytes(*place) != at {
            return None;
        }
        let (length, rest) = rest.split_first_chunk()?;
        let (own, crc) = rest.split_first_chunk()?;
        let crc = u32::from_le_bytes(*crc.first_chunk()?);
        Some(FrameHead { at, length: u32::from_le_bytes(*length), own: *own, crc })
    }

    /// Its bytes.
    pub fn write(&self, mark: [u8; 4]) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(FrameHead::<E>::BYTES);
        bytes.extend_from_slice(&mark);
        bytes.extend_from_slice(&[0; 4]);
        bytes.extend_from_slice(&self.at.to_le_bytes());
        bytes.extend_from_slice(&self.length.to_le_bytes());
        bytes.extend_from_slice(&self.own);
        bytes.extend_from_slice(&self.crc.to_le_bytes());
        let crc = crc32fast::hash(&bytes[8..]);
        bytes[4..8].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// The end of the frame.
    pub fn end(&self) -> u64 {
        self.at.saturating_add(FrameHead::<E>::BYTES as u64 + u64::from(self.length))
    }
}

/// A head and its content.
pub type Frame<const E: usize> = (FrameHead<E>, Vec<u8>);

/// The next piece of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FramePiece<T, D> {
    /// A whole piece, as it was written.
    Sound(T),
    /// A damaged piece.
    Damaged(D),
}

/// Bytes that cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameDamage<const E: usize> {
    /// First byte.
    pub from: u64,
    /// Byte behind the last.
    pub to: u64,
    /// The head, where that alone is sound.
    pub head: Option<FrameHead<E>>,
    /// No frame follows: it may be what was being written when the process was killed.
    pub is_tail: bool,
}

impl<const E: usize> FrameDamage<E> {
    /// Returns true of a frame that was not written to its end when the process was killed.
    pub fn is_torn(&self) -> bool {
        let length = self.to - self.from;
        self.is_tail
            && match &self.head {
                Some(head) => self.to < head.end(),
                None => length < FrameHead::<E>::BYTES as u64,
            }
    }
}

/// The frames of a file one after another, and the stretches between them that cannot be read. Behind such a stretch it goes on
/// with the next frame that begins where it says.
#[derive(Debug)]
pub struct FrameReader<const E: usize> {
    reader: SegmentReader<Box<dyn Blob>, Vec<u8>>,
    mark: [u8; 4],
    /// The test whether a head can be one of the log.
    is_plausible: fn(&FrameHead<E>) -> bool,
    at: u64,
}

/// The format in which a log's frames are read.
#[derive(Clone, Copy, Debug)]
pub struct FrameFormat<const E: usize> {
    /// Begins every frame.
    pub mark: [u8; 4],
    /// The test whether a head can be one of the log, so that a damaged or hostile length costs no memory.
    pub is_plausible: fn(&FrameHead<E>) -> bool,
    /// Bytes that are read at once; contents of more are read by themselves.
    pub window: usize,
}

impl<const E: usize> FrameReader<E> {
    /// Reads the first `length` bytes of a file, from `at` on.
    pub fn new(blob: Box<dyn Blob>, at: u64, length: u64, format: &FrameFormat<E>) -> FrameReader<E> {
        let FrameFormat { mark, is_plausible, window } = *format;
        FrameReader { reader: SegmentReader::new(blob, length, window, Vec::new()), mark, is_plausible, at }
    }

    /// The start of the next piece.
    pub fn place(&self) -> u64 {
        self.at
    }

    /// Goes on elsewhere.
    pub fn seek(&mut self, at: u64) {
        self.at = at;
    }

    /// Bytes of the file that are read.
    pub fn length(&self) -> u64 {
        self.reader.size()
    }

    /// The next frame's head; its content is passed over unread and unchecked.
    ///
    /// # Errors
    /// The device's.
    pub fn next_head(&mut self) -> io::Result<Option<FramePiece<FrameHead<E>, FrameDamage<E>>>> {
        let (from, length) = (self.at, self.length());
        if from >= length {
            return Ok(None);
        }
        let (mark, is_plausible) = (self.mark, self.is_plausible);
        let read = |bytes: &[u8], at| FrameHead::read(mark, bytes, at).filter(is_plausible);
        let (to, head, is_tail) = match read(self.reader.at(from, FrameHead::<E>::BYTES)?, from) {
            Some(head) if head.end() <= length => {
                self.at = head.end();
                return Ok(Some(FramePiece::Sound(head)));
            }
            // Its end is missing, and with it all that could follow.
            Some(head) => (length, Some(head), true),
            None => match self.reader.next_head(mark, (FrameHead::<E>::BYTES, 1), from + 1, read)? {
                Some((next, _)) => (next, None, false),
                None => (length, None, true),
            },
        };
        self.at = to;
        Ok(Some(FramePiece::Damaged(FrameDamage { from, to, head, is_tail })))
    }

    /// The content of the frame that has this head; `None` if it is damaged. Goes on behind it.
    ///
    /// # Errors
    /// The device's.
    pub fn content(&mut self, head: &FrameHead<E>) -> io::Result<Option<Vec<u8>>> {
        let length = head.length as usize;
        let content = self.reader.copy_of(head.end() - length as u64, length)?;
        self.at = head.end();
        Ok((content.len() == length && crc32fast::hash(&content) == head.crc).then_some(content))
    }

    /// The next frame with its content.
    ///
    /// # Errors
    /// The device's.
    pub fn next_frame(&mut self) -> io::Result<Option<FramePiece<Frame<E>, FrameDamage<E>>>> {
        Ok(match self.next_head()? {
            Some(FramePiece::Sound(head)) => Some(match self.content(&head)? {
                Some(content) => FramePiece::Sound((head, content)),
                None => FramePiece::Damaged(self.damage(&head)),
            }),
            Some(FramePiece::Damaged(damage)) => Some(FramePiece::Damaged(damage)),
            None => None,
        })
    }

    /// A whole frame as one that cannot be read.
    pub fn damage(&self, head: &FrameHead<E>) -> FrameDamage<E> {
        let to = head.end();
        FrameDamage { from: head.at, to, head: Some(*head), is_tail: to >= self.length() }
    }
}
