//! A journal's files as they are, read beside whoever writes them.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;
use std::sync::Arc;

use disk::{Device, FileDevice};

use super::block_summaries::BlockSummaries;
use super::decision_source::DecisionSource;
use super::file::JournalFile;
use super::files::{self, NewestFirstIter, names_on, segments_on};
use super::known_files::KnownFiles;
use super::labels::DecisionLabels;
use super::manifest::JournalManifest;
use super::ranked::RankedBlocks;
use super::visitor::RecordVisitor;
use super::{
    Block, DESCRIPTION_SUFFIX, JournalError, MissingRecords, Record, SkippedData, VersionDescription,
    read_description,
};
use crate::id::{IdRange, RecordId};

/// The files of a journal. Nothing is locked: a server may go on writing, and segments may become columns, or too old
/// and go.
/// What is not written yet is not seen.
#[derive(Debug)]
pub struct JournalArchive {
    device: Arc<dyn Device>,
    /// Oldest first.
    segments: Vec<(RecordId, JournalFile)>,
    /// The manifest of what once was there.
    manifest: JournalManifest,
    labels: DecisionLabels,
    summaries: BlockSummaries,
    known: Arc<KnownFiles>,
    /// The greatest id of each segment, where they are files of several nodes, whose ids lie between each other.
    last: Option<Vec<RecordId>>,
}

/// A file by columns of an archive that is no journal's directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArchivedFile {
    /// Its name on the device, which ends with `.parquet`.
    pub name: String,
    /// The least of its ids.
    pub first: RecordId,
    /// The greatest of its ids.
    pub last: RecordId,
}

impl JournalArchive {
    /// Looks what there is in a journal's directory; one that is not there is empty.
    pub fn open(directory: &Path) -> Result<JournalArchive, JournalError> {
        JournalArchive::over(Arc::new(FileDevice::read_only(directory)))
    }

    /// Looks what there is on a device.
    pub fn over(device: Arc<dyn Device>) -> Result<JournalArchive, JournalError> {
        let manifest = listed(&device)?;
        let mut segments = segments_on(&device)?;
        let known: Vec<RecordId> = segments.iter().map(|(first, _)| *first).collect();
        // One that becomes columns has another name each time that the directory is listed.
        let unseen = manifest.segments().filter(|(first, _)| known.binary_search(first).is_err());
        let unseen = unseen.filter_map(|(first, _)| Some((first, files::file_of(&device, first)?)));
        segments.extend(unseen);
        segments.sort_unstable_by_key(|(first, _)| *first);
        let labels = DecisionLabels::below(RecordId(u64::MAX));
        let (summaries, known) = Default::default();
        Ok(JournalArchive { device, segments, manifest, labels, summaries, known, last: None })
    }

    /// An archive of these files, which are read in this order: the oldest first, and a decision not after what is said of
    /// it.
    pub fn of_files(device: Arc<dyn Device>, list: Vec<ArchivedFile>) -> JournalArchive {
        let last = list.iter().map(|archived| archived.last).collect();
        let file = |ArchivedFile { name, first, .. }| (first, JournalFile::new(&device, name));
        let segments = list.into_iter().map(file).collect();
        JournalArchive {
            device: Arc::clone(&device),
            segments,
            manifest: JournalManifest::default(),
            labels: DecisionLabels::below(RecordId(u64::MAX)),
            summaries: BlockSummaries::default(),
            known: Arc::default(),
            last: Some(last),
        }
    }

    /// Segments that are missing, or have fewer records than were once in them. Reads the heads of all blocks. What became
    /// too old to be kept meanwhile is not missed.
    pub fn lacking(&self) -> Result<Vec<MissingRecords>, JournalError> {
        if self.last.is_some() {
            // Which there are says who lists them.
            return Ok(Vec::new());
        }
        let mut there = BTreeMap::new();
        for (first, file) in &self.segments {
            there.extend(files::count(file)?.map(|count| (*first, count)));
        }
        let mut lacking = self.manifest.lacking(&there);
        if !lacking.is_empty() {
            let still = listed(&self.device)?;
            lacking.retain(|lack| still.segments().any(|(first, _)| first == lack.first));
        }
        Ok(lacking)
    }

    /// Bytes of all segments.
    pub fn bytes(&self) -> u64 {
        let length = |file: &JournalFile| file.open().ok().flatten()?.size().ok();
        let either =
            |file: &JournalFile| length(file).or_else(|| length(&file.with_extension(files::COLUMNS)));
        self.segments.iter().filter_map(|(_, file)| either(file)).sum()
    }

    /// Returns the meaning of the rows of a pipeline's version.
    pub fn description(&self, version: &str) -> Result<VersionDescription, JournalError> {
        read_description(&self.device, version)
    }

    /// Returns the meaning of the rows of each version that was ever described here.
    pub fn descriptions(&self) -> Result<Vec<(String, VersionDescription)>, JournalError> {
        let mut descriptions = Vec::new();
        for name in names_on(&*self.device)? {
            if let Some(version) = name.strip_suffix(DESCRIPTION_SUFFIX) {
                // Rows without one are counted by whoever needs it.
                if let Ok(description) = read_description(&self.device, version) {
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
        NewestFirstIter::new(self.segments.iter().map(|(_, file)| file.clone()).collect())
    }

    /// Every block, the oldest first, on the same terms.
    pub fn oldest_first(&self) -> impl Iterator<Item = Result<Block, JournalError>> + Send + use<> {
        files::oldest_first(self.segments.iter().map(|(_, file)| file.clone()).collect())
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
        if let Some(last) = &self.last {
            for ((first, file), last) in self.segments.iter().zip(last) {
                if (*first..=*last).contains(&id)
                    && let Some(record) = files::find(file, 0, u64::MAX, id)?
                {
                    return Ok(Some(record));
                }
            }
            return Ok(None);
        }
        let after = self.segments.partition_point(|(first, _)| *first <= id);
        // Ids that raced each other can lie in the segment before.
        for (_, file) in self.segments[..after].iter().rev().take(2) {
            if let Some(record) = files::find(file, 0, u64::MAX, id)? {
                return Ok(Some(record));
            }
        }
        Ok(None)
    }

    /// The records of these ids, as far as there are any. See [`Journal::find_all`](super::Journal::find_all).
    pub fn find_all(&self, ids: &BTreeSet<RecordId>) -> Result<HashMap<RecordId, Record>, JournalError> {
        let mut found = HashMap::new();
        let Some(last) = &self.last else {
            for id in ids {
                found.extend(self.find(*id)?.map(|record| (*id, record)));
            }
            return Ok(found);
        };
        for ((first, file), last) in self.segments.iter().zip(last) {
            let wanted = ids.iter().filter(|id| (first..=last).contains(id) && !found.contains_key(*id));
            let wanted: BTreeSet<RecordId> = wanted.copied().collect();
            if !wanted.is_empty() {
                files::find_all(file, false, &wanted, &mut found)?;
            }
        }
        Ok(found)
    }
}

impl DecisionSource for JournalArchive {
    fn ranked(&self, ids: IdRange) -> Result<RankedBlocks, JournalError> {
        Ok(RankedBlocks::new(ids, self.segments.clone(), Vec::new(), Arc::clone(&self.known)))
    }

    fn version(&self, version: &str) -> Result<Arc<VersionDescription>, JournalError> {
        self.description(version).map(Arc::new)
    }

    fn labels(&self) -> &DecisionLabels {
        &self.labels
    }

    fn summaries(&self) -> &BlockSummaries {
        &self.summaries
    }
}

/// The list of segments; an empty one where it is missing or damaged.
fn listed(device: &Arc<dyn Device>) -> Result<JournalManifest, JournalError> {
    Ok(JournalManifest::read(&**device)?.sound().unwrap_or_default())
}
