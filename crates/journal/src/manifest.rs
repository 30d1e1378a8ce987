//! The list of segments: which there are and how many records each has at least, so that one that is gone is missed, and
//! the fingerprint of the secret that their keys were made with.

use std::collections::BTreeMap;
use std::sync::Arc;

use disk::Device;
use serde::{Deserialize, Serialize};

use super::file::JournalFile;
use super::files::{self, segments_on};
use super::{JournalError, MissingRecords, read_side_file};
use crate::id::RecordId;

/// The file's name.
pub(super) const NAME: &str = "segments.json";

/// The list, as it is in the file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct JournalManifest {
    /// The fingerprint, in hexadecimal digits.
    secret: String,
    /// Records by the segment's first id.
    segments: BTreeMap<String, u64>,
}

/// What is found where the list should be.
#[derive(Debug)]
pub(super) enum ManifestState {
    Absent,
    Damaged,
    Sound(JournalManifest),
}

impl ManifestState {
    /// The list, or an empty one.
    ///
    /// # Errors
    /// [`JournalError::Secret`] if it is of another secret.
    pub(super) fn known(&self, secret: u64, device: &dyn Device) -> Result<JournalManifest, JournalError> {
        let secret = format!("{secret:016x}");
        match self {
            ManifestState::Sound(manifest) if manifest.secret == secret => Ok(manifest.clone()),
            ManifestState::Sound(_) => Err(JournalError::Secret(device.path(""))),
            ManifestState::Absent | ManifestState::Damaged => {
                Ok(JournalManifest { secret, segments: BTreeMap::new() })
            }
        }
    }

    /// Whether there should be one, as there are segments.
    pub(super) fn is_lost<T>(&self, segments: &[T]) -> bool {
        match self {
            ManifestState::Absent => !segments.is_empty(),
            ManifestState::Damaged => true,
            ManifestState::Sound(_) => false,
        }
    }

    /// Puts a list in its place, unless it says the same.
    pub(super) fn replace(
        &self,
        manifest: &JournalManifest,
        device: &Arc<dyn Device>,
    ) -> Result<(), JournalError> {
        match self {
            ManifestState::Sound(found) if found == manifest => Ok(()),
            _ => manifest.write(device),
        }
    }
}

impl JournalManifest {
    pub(super) fn read(device: &Arc<dyn Device>) -> Result<ManifestState, JournalError> {
        match read_side_file(&JournalFile::new(device, NAME)) {
            Ok(Some(bytes)) => {
                Ok(serde_json::from_slice(&bytes).map_or(ManifestState::Damaged, ManifestState::Sound))
            }
            Ok(None) => Ok(ManifestState::Absent),
            Err(JournalError::Damaged(_)) => Ok(ManifestState::Damaged),
            Err(error) => Err(error),
        }
    }

    pub(super) fn write(&self, device: &Arc<dyn Device>) -> Result<(), JournalError> {
        let file = JournalFile::new(device, NAME);
        let bytes = serde_json::to_vec_pretty(self).map_err(|error| file.error(error.into()))?;
        file.replace(&disk::seal(&bytes))
    }

    /// Takes in how many records segments have; one that is known to have had more keeps that.
    pub(super) fn add(&mut self, there: BTreeMap<RecordId, u64>) {
        for (first, records) in there {
            let known = self.segments.entry(first.to_string()).or_default();
            *known = records.max(*known);
        }
    }

    /// The segments that there should be, by their first ids, and how many records each has at least.
    pub(super) fn segments(&self) -> impl Iterator<Item = (RecordId, u64)> {
        self.segments.iter().filter_map(|(first, records)| Some((first.parse().ok()?, *records)))
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
        self.segments.retain(|first, _| *first > up_to);
    }

    /// Keeps these segments alone.
    pub(super) fn keep(&mut self, files: &[JournalFile]) {
        let is_kept = |first: &str| {
            files.iter().any(|file| file.name().split_once('.').is_some_and(|(stem, _)| stem == first))
        };
        self.segments.retain(|first, _| is_kept(first));
    }

    /// Lists what is there now, after it was changed on purpose.
    pub(super) fn recount(device: &Arc<dyn Device>) -> Result<(), JournalError> {
        let ManifestState::Sound(JournalManifest { secret, .. }) = JournalManifest::read(device)? else {
            return Ok(());
        };
        let mut manifest = JournalManifest { secret, segments: BTreeMap::new() };
        for (first, file) in segments_on(device)? {
            let (summary, _) = files::summary(&file, false)?;
            manifest.segments.insert(first.to_string(), summary.records);
        }
        manifest.write(device)
    }
}
