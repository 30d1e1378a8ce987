//! A journal's files as they are, read beside whoever writes them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::files::{self, NewestFirstIter, segments_in};
use super::manifest::{JournalManifest, ManifestState};
use super::visitor::RecordVisitor;
use super::{
    Block, DESCRIPTION_SUFFIX, JournalError, MissingRecords, Record, SkippedData, VersionDescription,
    io_error, read_description,
};
use crate::id::RecordId;

/// The files of a journal. Nothing is locked: a server may go on writing, and segments may become columns, or too old
/// and go.
/// What is not written yet is not seen.
#[derive(Debug)]
pub struct JournalArchive {
    directory: PathBuf,
    /// Oldest first.
    segments: Vec<(RecordId, PathBuf)>,
    /// What once was there.
    manifest: JournalManifest,
}

impl JournalArchive {
    /// Looks what there is in a journal's directory; one that is not there is empty.
    pub fn open(directory: &Path) -> Result<JournalArchive, JournalError> {
        let mut archive = JournalArchive {
            directory: directory.to_path_buf(),
            segments: Vec::new(),
            manifest: JournalManifest::default(),
        };
        if !directory.exists() {
            return Ok(archive);
        }
        archive.manifest = listed(directory)?;
        archive.segments = segments_in(directory)?;
        let known: Vec<RecordId> = archive.segments.iter().map(|(first, _)| *first).collect();
        // One that becomes columns has another name each time that the directory is listed.
        let unseen = archive.manifest.segments().filter(|(first, _)| known.binary_search(first).is_err());
        let unseen = unseen.filter_map(|(first, _)| Some((first, files::path_of(directory, first)?)));
        archive.segments.extend(unseen.collect::<Vec<_>>());
        archive.segments.sort_unstable();
        Ok(archive)
    }

    /// Segments that are missing, or have fewer records than were once in them. Reads the heads of all blocks. What became
    /// too old to be kept meanwhile is not missed.
    pub fn lacking(&self) -> Result<Vec<MissingRecords>, JournalError> {
        let mut there = BTreeMap::new();
        for (first, path) in &self.segments {
            there.extend(files::count(path)?.map(|count| (*first, count)));
        }
        let mut lacking = self.manifest.lacking(&there);
        if !lacking.is_empty() {
            let still = listed(&self.directory)?;
            lacking.retain(|lack| still.segments().any(|(first, _)| first == lack.first));
        }
        Ok(lacking)
    }

    /// Bytes of all segments.
    pub fn bytes(&self) -> u64 {
        let length = |path: &Path| fs::metadata(path).map(|file| file.len());
        let either = |path: &Path| length(path).or_else(|_| length(&path.with_extension(files::COLUMNS)));
        self.segments.iter().filter_map(|(_, path)| either(path).ok()).sum()
    }

    /// What the rows of a pipeline's version mean.
    pub fn description(&self, version: &str) -> Result<VersionDescription, JournalError> {
        read_description(&self.directory, version)
    }

    /// What the rows of each version mean that was ever described here.
    pub fn descriptions(&self) -> Result<Vec<(String, VersionDescription)>, JournalError> {
        let mut descriptions = Vec::new();
        if !self.directory.exists() {
            return Ok(descriptions);
        }
        for entry in fs::read_dir(&self.directory).map_err(io_error(&self.directory))? {
            let name = entry.map_err(io_error(&self.directory))?.file_name();
            if let Some(version) = name.to_str().and_then(|name| name.strip_suffix(DESCRIPTION_SUFFIX)) {
                // Rows without one are counted by whoever needs it.
                if let Ok(description) = read_description(&self.directory, version) {
                    descriptions.push((version.to_owned(), description));
                }
            }
        }
        Ok(descriptions)
    }

    /// Every block, the newest first, so that what is said of a decision comes before the decision. What is damaged is an
    /// error in its place, and the next ones follow; what is just being written at the newest segment's end is left out.
    /// Takes memory for one block, and some bytes for each block of a segment.
    pub fn newest_first(&self) -> impl Iterator<Item = Result<Block, JournalError>> + Send + use<> {
        NewestFirstIter::new(self.segments.iter().map(|(_, path)| path.clone()).collect())
    }

    /// Every block, the oldest first, on the same terms.
    pub fn oldest_first(&self) -> impl Iterator<Item = Result<Block, JournalError>> + Send + use<> {
        files::oldest_first(self.segments.iter().map(|(_, path)| path.clone()).collect())
    }

    /// Shows every record to `look`, the oldest first. What is damaged is passed over.
    pub(super) fn look<'w>(&self, look: &mut dyn RecordVisitor<'w>) -> Result<(), JournalError> {
        let mut skipped = SkippedData::default();
        for block in self.oldest_first() {
            if let Some(block) = skipped.pass(block)? {
                skipped.pass(block.look(look).map_err(|error| block.error(error)))?;
            }
        }
        Ok(())
    }

    /// Visits every record, oldest segment first, until `visit` returns false, and returns what was passed over because it
    /// is damaged.
    pub fn scan(&self, mut visit: impl FnMut(RecordId, Record) -> bool) -> Result<SkippedData, JournalError> {
        let mut skipped = SkippedData::default();
        for block in self.oldest_first() {
            for (id, record) in skipped.records(block)? {
                if !visit(id, record) {
                    return Ok(skipped);
                }
            }
        }
        Ok(skipped)
    }

    /// The record of this id. Of a segment or two reads the heads of all blocks, or the index of columns.
    pub fn find(&self, id: RecordId) -> Result<Option<Record>, JournalError> {
        let after = self.segments.partition_point(|(first, _)| *first <= id);
        // Ids that raced each other can lie in the segment before.
        for (_, path) in self.segments[..after].iter().rev().take(2) {
            if let Some(record) = files::find(path, 0, u64::MAX, id)? {
                return Ok(Some(record));
            }
        }
        Ok(None)
    }
}

/// The list of segments; an empty one where it is missing or damaged.
fn listed(directory: &Path) -> Result<JournalManifest, JournalError> {
    Ok(match JournalManifest::read(directory)? {
        ManifestState::Sound(manifest) => manifest,
        ManifestState::Absent | ManifestState::Damaged => JournalManifest::default(),
    })
}
