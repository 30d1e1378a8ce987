//! Errors after which the store cannot go on, and the data it has lost.

use std::io;
use std::sync::Arc;

use super::format::segment_name;
use disk::is_lack;

/// Reasons for a store that cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The device failed; the message names the file.
    #[error("{what}: {error}")]
    Io {
        /// The operation that was under way, with the file's name.
        what: String,
        /// The device's answer.
        error: io::Error,
    },
    /// The device lacks room, descriptors or memory ([`disk::is_lack`]). The group that was being written was taken back
    /// as if it had never been begun; later ones may succeed.
    #[error("{what}: {error}")]
    Full {
        /// The operation that was under way, with the file's name.
        what: String,
        /// The device's answer.
        error: io::Error,
    },
    /// A segment has another format than this release writes.
    #[error(
        "{segment} has format {found}, this release reads format {supported}: use the release that wrote it"
    )]
    Format {
        /// The file's name.
        segment: String,
        /// Its format.
        found: u16,
        /// The format that is read here.
        supported: u16,
    },
    /// A record cannot be read back as it was written. Others are served on.
    #[error("the record at {segment}:{offset} is damaged")]
    Damaged {
        /// The file's name.
        segment: String,
        /// The offset in the file.
        offset: u64,
    },
    /// The position is empty: its segment was removed, or the record was not written yet.
    #[error("nothing is written at offset {offset} of slot {slot}")]
    Missing {
        /// The position's slot.
        slot: u16,
        /// The position's offset.
        offset: u64,
    },
    /// An earlier write or sync failed, so it is unknown what is on the disk: nothing is written until reopened.
    #[error("writing was stopped after a failure: {0}")]
    Failed(Arc<str>),
    /// More than the format can hold; nothing was written.
    #[error("{0}")]
    TooLarge(&'static str),
}

impl StoreError {
    pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> StoreError {
        let what = what.into();
        move |error| StoreError::Io { what, error }
    }

    /// The error of an operation that can be tried again where the device only lacks something.
    pub(crate) fn of_device(what: impl Into<String>) -> impl FnOnce(io::Error) -> StoreError {
        let what = what.into();
        move |error| match is_lack(&error) {
            true => StoreError::Full { what, error },
            false => StoreError::Io { what, error },
        }
    }
}

/// A stretch of a segment that cannot be served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DamagedRange {
    /// The file's name.
    pub segment: String,
    /// First byte.
    pub from: u64,
    /// Byte behind the last.
    pub to: u64,
}

/// The parts that a reading had to leave out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogLosses {
    /// The damaged stretches, at most [`LogLosses::RANGES_MAX`].
    pub ranges: Vec<DamagedRange>,
    /// Stretches that are not listed.
    pub ranges_unlisted: u64,
    /// Bytes of all stretches.
    pub bytes: u64,
    /// Records that are known to be lost: the gaps in the numbers of those around them.
    pub records: u64,
    /// Segments that should be there and are not, by name.
    pub missing: Vec<String>,
}

impl LogLosses {
    /// Most stretches that are listed.
    pub const RANGES_MAX: usize = 1000;

    /// Returns true if nothing was left out.
    pub fn is_empty(&self) -> bool {
        self.bytes == 0 && self.records == 0 && self.missing.is_empty()
    }

    pub(crate) fn add(&mut self, id: u32, from: u64, to: u64) {
        self.bytes = self.bytes.saturating_add(to.saturating_sub(from));
        let segment = segment_name(id);
        if let Some(last) = self.ranges.last_mut().filter(|last| last.to == from && last.segment == segment) {
            last.to = to;
        } else if self.ranges.len() < LogLosses::RANGES_MAX {
            self.ranges.push(DamagedRange { segment, from, to });
        } else {
            self.ranges_unlisted += 1;
        }
    }
}
