//! The list of segments: which there are and how many records each has at least, so that one that is gone is missed, and
//! the fingerprint of the secret that their keys were made with.

use std::collections::BTreeMap;
use std::sync::Arc;

use disk::Device;
use disk::log::{SEGMENT_LIST, SegmentList, SegmentListState};

use super::file::JournalFile;
use super::files::{self, segments_on};
use super::{JournalError, MissingRecords, io_error};
use crate::id::RecordId;

/// The list, by the segments' first ids.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct JournalManifest(SegmentList);

/// The state of the place where the list should be.
#[derive(Debug)]
pub(super) struct ManifestState(SegmentListState);

impl ManifestState {
    /// The list, if it is sound.
    pub(super) fn sound(self) -> Option<JournalManifest> {
        match self.0 {
            SegmentListState::Sound(list) => Some(JournalManifest(list)),
            SegmentListState::Absent | SegmentListState::Damaged => None,
        }
    }

    /// The list, or an empty one.
    ///
    /// # Errors
    /// [`JournalError::Secret`] if it is of another secret.
    pub(super) fn known(&self, secret: u64, device: &dyn Device) -> Result<JournalManifest, JournalError> {
        match &self.0 {
            SegmentListState::Sound(list) if list.owner == Some(secret) => Ok(JournalManifest(list.clone())),
            SegmentListState::Sound(_) => Err(JournalError::Secret(device.path(""))),
            SegmentListState::Absent | SegmentListState::Damaged => {
                Ok(JournalManifest(SegmentList { owner: Some(secret), ..SegmentList::default() }))
            }
        }
    }

    /// Returns true if there should be a list, as there are segments.
    pub(super) fn is_lost<T>(&self, segments: &[T]) -> bool {
        match self.0 {
            SegmentListState::Absent => !segments.is_empty(),
            SegmentListState::Damaged => true,
            SegmentListState::Sound(_) => false,
        }
    }

    /// Puts a list in its place, unless it says the same.
    pub(super) fn replace(
        &self,
        manifest: &JournalManifest,
        device: &dyn Device,
    ) -> Result<(), JournalError> {
        match &self.0 {
            SegmentListState::Sound(found) if *found == manifest.0 => Ok(()),
            _ => manifest.write(device),
        }
    }
}

impl JournalManifest {
    pub(super) fn read(device: &dyn Device) -> Result<ManifestState, JournalError> {
        SegmentList::read(device).map(ManifestState).map_err(io_error(&device.path(SEGMENT_LIST)))
    }

    pub(super) fn write(&self, device: &dyn Device) -> Result<(), JournalError> {
        self.0.write(device).map_err(io_error(&device.path(SEGMENT_LIST)))
    }

    /// Takes in how many records segments have; one that is known to have had more keeps that.
    pub(super) fn add(&mut self, there: BTreeMap<RecordId, u64>) {
        for (first, records) in there {
            let known = self.0.segments.entry(first.to_string()).or_default();
            *known = records.max(*known);
        }
    }

    /// Says that a segment has at least so many records, and no more than that is known.
    pub(super) fn set(&mut self, first: RecordId, records: u64) {
        self.0.segments.insert(first.to_string(), records);
    }

    /// The segments that there should be, by their first ids, and how many records each has at least.
    pub(super) fn segments(&self) -> impl Iterator<Item = (RecordId, u64)> {
        self.0.segments.iter().filter_map(|(first, records)| Some((first.parse().ok()?, *records)))
    }

    /// Segments that have fewer records than they should.
    pub(super) fn lacking(&self, there: &BTreeMap<RecordId, u64>) -> Vec<MissingRecords> {
        let lacks = self.segments().map(|(first, records)| MissingRecords {
            first,
            records: records.saturating_sub(there.get(&first).copied().unwrap_or_default()),
            is_gone: !there.contains_key(&first),
        });
        lacks.filter(|lack| lack.records > 0).collect()
    }

    /// Drops a segment and all before it.
    pub(super) fn forget(&mut self, up_to: RecordId) {
        let up_to = up_to.to_string();
        self.0.segments.retain(|first, _| *first > up_to);
    }

    /// Keeps these segments alone.
    pub(super) fn keep(&mut self, files: &[JournalFile]) {
        let is_kept = |first: &str| {
            files.iter().any(|file| file.name().split_once('.').is_some_and(|(stem, _)| stem == first))
        };
        self.0.segments.retain(|first, _| is_kept(first));
    }

    /// Lists what is there now, after it was changed on purpose.
    pub(super) fn recount(device: &Arc<dyn Device>) -> Result<(), JournalError> {
        let Some(JournalManifest(mut list)) = JournalManifest::read(&**device)?.sound() else {
            return Ok(());
        };
        list.segments.clear();
        for (first, file) in segments_on(device)? {
            let (summary, _) = files::summary(&file, false)?;
            list.segments.insert(first.to_string(), summary.records);
        }
        JournalManifest(list).write(&**device)
    }
}
