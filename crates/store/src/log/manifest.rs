//! The list of segments: which of them there should be is on disk, which of these are missing is found when the log is opened.
//!
//! The list is replaced after a segment was created, before anything is written there, and after one was removed. Before one
//! is removed there is an empty file `0000002a.gone`, so that an interruption in between is not taken for a loss.

use std::collections::BTreeSet;
use std::io;

use disk::Device;
use disk::log::{SegmentList, SegmentListState};

use super::format::id_in;

/// The segments by their numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SegmentManifest {
    pub(crate) present: BTreeSet<u32>,
    pub(crate) lost: BTreeSet<u32>,
}

impl SegmentManifest {
    /// The numbers that are listed; `None` if there is no list that is intact.
    pub(crate) fn listed(device: &dyn Device) -> io::Result<Option<BTreeSet<u32>>> {
        let SegmentListState::Sound(list) = SegmentList::read(device)? else { return Ok(None) };
        Ok(list.segments.keys().map(|name| id_in(name, "")).collect())
    }

    pub(crate) fn write(&self, device: &dyn Device) -> io::Result<()> {
        let segments = self.all().map(|id| (format!("{id:08x}"), 0)).collect();
        SegmentList { owner: None, segments }.write(device)
    }

    /// The segments that there should be.
    pub(crate) fn all(&self) -> impl Iterator<Item = u32> {
        self.present.union(&self.lost).copied()
    }
}

/// The name of the file that says that a segment is being removed.
pub(crate) fn gone_name(id: u32) -> String {
    format!("{id:08x}.gone")
}
