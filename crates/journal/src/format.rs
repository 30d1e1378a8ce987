//! The format of segments: its version, and what bytes are that are not of it.

use std::io;

/// The version of blocks and columns alike. There is no other.
pub(super) const VERSION: u32 = 6;

/// The fault of a segment.
#[derive(Debug, thiserror::Error)]
pub enum SegmentError {
    /// The file does not begin like a segment.
    #[error("this is not a journal segment")]
    Magic,
    /// Another release wrote it.
    #[error("format {0} is not that of this program, which is {VERSION}; use the release that wrote it")]
    Other(u32),
    /// A checksum, lengths or content of a block or a column do not fit.
    #[error("what begins at byte {0} is damaged")]
    Damaged(u64),
    /// The operating system said no.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Bytes of a segment that cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DamagedStretch {
    /// First byte.
    pub from: u64,
    /// Byte behind the last.
    pub to: u64,
    /// Records in it, as far as it says.
    pub records: u64,
    /// No block follows: it may be what was being written when the process was killed.
    pub is_tail: bool,
}
