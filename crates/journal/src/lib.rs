//! The journal: every decision is a row that was logged when it was made.
//!
//! Records gather in memory and one thread writes them as compressed blocks of rows, or of columns where they are many, to
//! append-only segments, with the durability of the ledger. Segments are closed by size and age and deleted by age and total size. A second thread
//! writes closed ones anew by columns, as Parquet. A record is found by its id: ids rise, a segment's name is its first
//! id, and blocks and groups of columns say which ids they hold. What is not promised: records younger than the
//! durability interval after a crash.
//!
//! Schemas and configurations that rows refer to are files of their own beside the segments, named by content.

#![forbid(unsafe_code)]

mod archive;
mod block;
mod block_summaries;
mod bloom;
mod columns;
mod compression;
mod conversion;
mod decision_source;
mod encoding;
mod erasure;
pub mod export;
mod file;
mod files;
mod follower;
mod format;
mod id;
mod json;
mod keys;
mod known_files;
mod labels;
mod loss;
mod manifest;
mod priority;
mod ranked;
mod record;
mod repair;
mod report;
mod retention;
mod rewriting;
#[cfg(test)]
mod samples;
mod segment;
mod snapshot;
mod split;
mod summary;
mod tail;
mod upload;
mod verification;
mod visitor;
mod writer;

use parking_lot::{Condvar, Mutex};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;

use disk::{Device, FileDevice};
use event::{Span, Time};
use event_listener::Event as Signal;
use stats::Durability;

pub use archive::{ArchivedFile, JournalArchive};
pub use block::{Block, BlockInfo};
pub use block_summaries::BlockSummaries;
pub use bloom::BloomFilter;
pub use decision_source::DecisionSource;
pub use encoding::{DecisionHead, DecisionOutcome};
pub use erasure::{ErasedRecords, JournalErasure, erase, erase_of_file};
use file::JournalFile;
use files::{NewestFirstIter, segments_on};
pub use follower::{FollowerStop, FollowerThreads, retry_pause};
pub use format::{DamagedStretch, SegmentError};
pub use id::{IdRange, IdSource, NodeNumber, RecordId, RecordIdError};
pub use json::json_value;
pub use keys::KeyReading;
use known_files::KnownFiles;
pub use labels::DecisionLabels;
pub use loss::{JournalDamage, JournalLosses, MissingRecords, SkippedData};
use manifest::JournalManifest;
pub use priority::{NICER, give_way, lower_priority};
pub use ranked::{BlockAnswer, RankedBlocks, ReadBudget};
pub use record::{DecisionRow, EncodedRecords, KindDescription, PendingDecision, Record, VersionDescription};
pub use repair::{SegmentRepair, repair};
pub use report::{ReplacedReport, ReportRecord};
use segment::SegmentSummary;
pub use segment::{BlockIter, SegmentPiece};
pub use snapshot::snapshot;
pub use split::{ClosedSegment, SplitFile, SplitSegment, SplitTable};
pub use summary::{SearchProbe, lower_case};
pub use tail::{JournalPosition, JournalTail, TailBatch};
pub use upload::UploadCensus;
use upload::UploadCounters;
pub use verification::{JournalVerification, verify};
pub use visitor::{FactChoice, FactTest, RecordVisitor, RowQuery, StoredFact};
use writer::{PendingRecords, RecordChunk};

/// Bytes of records that are gathered into one block of rows, about.
const BLOCK_BYTES: usize = 256 << 10;
/// Bytes of records that wait for the writer's interval; more are written at once.
const GROUP_BYTES: usize = 4 << 20;
/// Bytes of records that may wait for the writer; above it callers wait, too.
const PENDING_BYTES_MAX: usize = 32 << 20;
/// Records of a segment that are looked up one by one: for more all its blocks are gone through.
const FEW: usize = 4;
/// Largest stored schema or configuration that is read back.
const SIDE_FILE_BYTES_MAX: u64 = 64 << 20;

/// Reasons for a journal that cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// The operating system said no.
    #[error("journal {path}: {error}")]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// The operating system's answer.
        error: io::Error,
    },
    /// A file holds what no journal wrote.
    #[error("journal {path}: {error}")]
    Segment {
        /// The file.
        path: PathBuf,
        /// The fault of the file.
        error: SegmentError,
    },
    /// A stretch of a file cannot be read. Readers go on behind it.
    #[error("journal/{0}; `tollhouse verify --repair` rewrites what is readable")]
    Damaged(JournalDamage),
    /// The journal that is there was written with another secret.
    #[error(
        "journal {0} belongs to another secret than the one beside it, so no key of it would be found; restore the secret from a backup"
    )]
    Secret(PathBuf),
    /// The disk is full, or no descriptor is free. Pending records are kept, and the journal goes on by itself when there
    /// is room.
    #[error("the journal takes nothing for now: {0}")]
    Full(String),
    /// An earlier write failed: nothing more is accepted, as it could not be promised.
    #[error("the journal stopped after a failed write: {0}; remove the cause and restart")]
    Poisoned(String),
}

fn io_error(path: &Path) -> impl FnOnce(io::Error) -> JournalError {
    let path = path.to_path_buf();
    move |error| JournalError::Io { path, error }
}

fn segment_error(path: &Path) -> impl FnOnce(SegmentError) -> JournalError {
    let path = path.to_path_buf();
    move |error| JournalError::Segment { path, error }
}

/// The size of a journal's segments, and the time for which they are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Bytes at which a segment is closed.
    pub segment: u64,
    /// Age at which a segment is closed.
    pub rotate: Span,
    /// Age at which a closed segment is deleted.
    pub keep: Span,
    /// Bytes of the whole journal above which closed segments are deleted, oldest first.
    pub keep_bytes: u64,
}

/// The open journal of a data directory.
#[derive(Debug)]
pub struct Journal {
    shared: Arc<JournalCore>,
    /// The writer, and who turns closed segments into columns.
    threads: Mutex<Vec<JoinHandle<()>>>,
    /// The faults that were found when the journal was opened.
    losses: JournalLosses,
    /// Descriptions that were read.
    descriptions: Mutex<HashMap<String, Arc<VersionDescription>>>,
    /// Labels of decisions, as far as somebody wanted to know them.
    labels: DecisionLabels,
    summaries: BlockSummaries,
    known: Arc<KnownFiles>,
}

#[derive(Debug)]
struct JournalCore {
    device: Arc<dyn Device>,
    options: Options,
    durability: Durability,
    state: Mutex<JournalState>,
    /// The list of the segments that there are, as it was last written. No request takes this lock: it is held while that is
    /// written.
    manifest: Mutex<JournalManifest>,
    /// Held while a segment is written anew, so that nobody else does it at the same time. No request takes this lock, either.
    rewriting: Mutex<()>,
    /// Wakes the writer.
    wake: Condvar,
    /// Wakes the thread that turns closed segments into columns.
    rotated: Condvar,
    /// Tells those who wait that something was written or turned into columns, or that nothing will be.
    written: Signal,
}

#[derive(Debug, Default)]
struct JournalState {
    pending: PendingRecords,
    /// The records that the writer is writing: still to be found by readers.
    writing: Arc<PendingRecords>,
    /// The last id that is as safe as the durability asks.
    safe: Option<RecordId>,
    /// Closed and open segments, oldest first.
    segments: Vec<SegmentFile>,
    poisoned: Option<String>,
    /// The error, if the disk had no room for the pending records.
    full: Option<String>,
    /// The number of times that a sync was asked for, and the number of these up to which it is done.
    syncs_wanted: u64,
    syncs_done: u64,
    /// The writer is to begin a new segment, whatever is in the newest.
    is_closing_newest: bool,
    /// The longest time for which rows of a pipeline are kept, where that is longer than the rest.
    keep_max: Option<Span>,
    /// Segments are uploaded, and do not become too old before that; how it went.
    upload: Option<UploadCounters>,
    closing: bool,
}

#[derive(Debug)]
struct SegmentFile {
    first: RecordId,
    file: JournalFile,
    summary: SegmentSummary,
    /// True if the segment cannot become columns.
    stays: bool,
    /// Versions of pipelines that made its decisions, if all of it was written since the journal was opened.
    versions: Option<Vec<String>>,
    /// True if the segment was uploaded.
    is_uploaded: bool,
    /// True if rows were erased of it since somebody began to upload it.
    is_erased: bool,
    /// The latest arrival of each pipeline's rows, once somebody has asked.
    pipelines: Option<BTreeMap<String, Time>>,
}

impl SegmentFile {
    /// Returns true if the segment is in this file.
    fn is(&self, file: &JournalFile) -> bool {
        self.file.name() == file.name()
    }

    /// The latest arrival in it. Where nothing tells, it may have gone on for as long as a segment does.
    fn newest(&self, rotate: Span) -> Time {
        self.summary.to.unwrap_or_else(|| self.first.time() + rotate)
    }
}

/// The size of a journal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JournalCensus {
    /// Segment files.
    pub segments: usize,
    /// The number of these that are by columns.
    pub columnar: usize,
    /// The bytes of the records.
    pub bytes: u64,
    /// Bytes of records not written yet.
    pub pending_bytes: usize,
    /// A write failed: nothing more is accepted.
    pub poisoned: bool,
    /// The disk is full, or a file cannot be opened for want of descriptors or memory: nothing is accepted until that is over.
    pub full: bool,
}

impl Journal {
    /// Opens the journal in a directory, making it if need be, and starts its threads. A torn tail, which a crash
    /// leaves, is put aside; what it left of a segment that was becoming columns goes. What is damaged stays as it is and
    /// is passed over ([`Journal::losses`]). `secret` is the fingerprint of the secret that keys the records.
    ///
    /// # Errors
    /// [`JournalError::Secret`] for a journal of another secret, [`SegmentError::Other`] for one of another format, or what
    /// the operating system says.
    pub fn open(
        directory: &Path,
        options: Options,
        durability: Durability,
        secret: u64,
    ) -> Result<Journal, JournalError> {
        let device = FileDevice::unlocked(directory).map_err(io_error(directory))?;
        Journal::over(Arc::new(device), options, durability, secret)
    }

    /// Opens the journal of a device.
    ///
    /// # Errors
    /// As [`Journal::open`].
    pub fn over(
        device: Arc<dyn Device>,
        options: Options,
        durability: Durability,
        secret: u64,
    ) -> Result<Journal, JournalError> {
        files::mend(&device)?;
        let mut segments: Vec<SegmentFile> = segments_on(&device)?
            .into_iter()
            .map(|(first, file)| SegmentFile {
                first,
                file,
                summary: SegmentSummary::empty(),
                stays: false,
                versions: None,
                is_uploaded: false,
                is_erased: false,
                pipelines: None,
            })
            .collect();
        let found = JournalManifest::read(&*device)?;
        let mut manifest = found.known(secret, &*device)?;
        let mut losses = JournalLosses { is_unlisted: found.is_lost(&segments), ..JournalLosses::default() };
        let mut safe = None;
        let last = segments.len().saturating_sub(1);
        for (index, file) in segments.iter_mut().enumerate() {
            let wounds;
            (file.summary, wounds) = files::summary(&file.file, index == last)?;
            losses.damage.extend(wounds.damage);
            losses.torn = losses.torn.or(wounds.torn);
            safe = safe.max(file.summary.last);
        }
        // What was found may only have been in the system's cache, left by a killed process. From now on it is listed, and more
        // is promised of it.
        if let Some(newest) = segments.last() {
            newest.file.sync()?;
        }
        device.sync_names().map_err(disk::sync_error).map_err(io_error(&device.path("")))?;
        let there = segments.iter().map(|file| (file.first, file.summary.records)).collect();
        losses.lacking = manifest.lacking(&there);
        manifest.add(there);
        found.replace(&manifest, &*device)?;
        // Something of it is gone for good: what is to come has a segment of its own.
        let lacks = |file: &SegmentFile| losses.lacking.iter().any(|lack| lack.first == file.first);
        if let Some(newest) = segments.last_mut() {
            newest.summary.is_closed |= lacks(newest);
        }
        let labels =
            DecisionLabels::below(safe.map_or(RecordId(0), |last| RecordId(last.0.saturating_add(1))));
        let state = JournalState { segments, safe, ..JournalState::default() };
        let shared = Arc::new(JournalCore {
            device,
            options,
            durability,
            state: Mutex::new(state),
            manifest: Mutex::new(manifest),
            rewriting: Mutex::default(),
            wake: Condvar::new(),
            rotated: Condvar::new(),
            written: Signal::new(),
        });
        type Work = (&'static str, fn(&JournalCore));
        let mut threads = Vec::new();
        let work: [Work; 2] =
            [("journal", JournalCore::write_all), ("journal-columns", JournalCore::convert_all)];
        for (name, work) in work {
            let its = Arc::clone(&shared);
            match std::thread::Builder::new().name(name.to_owned()).spawn(move || work(&its)) {
                Ok(thread) => threads.push(thread),
                Err(error) => {
                    shared.stop();
                    return Err(io_error(&shared.device.path(""))(error));
                }
            }
        }
        let (descriptions, summaries, known) = Default::default();
        let threads = Mutex::new(threads);
        Ok(Journal { shared, threads, losses, descriptions, labels, summaries, known })
    }

    /// Everything that was found wrong when the journal was opened.
    pub fn losses(&self) -> &JournalLosses {
        &self.losses
    }

    /// The id of the last record, if there is one.
    pub fn last_id(&self) -> Option<RecordId> {
        let state = self.shared.state.lock();
        state.pending.last().or(state.writing.last()).or(state.safe)
    }

    /// Keeps what is needed to read the rows of a pipeline's version, once for each: what they mean, and the configuration
    /// that they were made with.
    pub fn describe(
        &self,
        version: &str,
        description: &VersionDescription,
        configuration: &str,
    ) -> Result<(), JournalError> {
        let file = description_file(&self.shared.device, version);
        let bytes = serde_json::to_vec(description).map_err(|error| file.error(error.into()))?;
        let beside = JournalFile::new(&self.shared.device, format!("{version}{PIPELINE_SUFFIX}"));
        // Half a file is never seen under its name, and the description comes last.
        for (file, content) in [(&beside, configuration.as_bytes()), (&file, &bytes)] {
            // One that is damaged is as good as none.
            if !matches!(read_side_file(file), Ok(Some(_))) {
                file.replace(&disk::seal(content))?;
            }
        }
        Ok(())
    }

    /// Returns every setting of a pipeline's version, one a line, as it was described; `None` if it is not there.
    ///
    /// # Errors
    /// The file cannot be read, or is damaged.
    pub fn configuration(&self, version: &str) -> Result<Option<String>, JournalError> {
        let file = JournalFile::new(&self.shared.device, format!("{version}{PIPELINE_SUFFIX}"));
        let bytes = read_side_file(&file)?;
        bytes
            .map(|bytes| String::from_utf8(bytes).map_err(|error| file.error(io::Error::other(error))))
            .transpose()
    }

    /// Returns the meaning of the rows of a pipeline's version.
    pub fn description(&self, version: &str) -> Result<Arc<VersionDescription>, JournalError> {
        /// Most that are kept in memory: all that is said of past decisions is of few versions.
        const KEPT: usize = 8;
        let known = || self.descriptions.lock();
        if let Some(description) = known().get(version) {
            return Ok(Arc::clone(description));
        }
        let description = Arc::new(read_description(&self.shared.device, version)?);
        let mut known = known();
        if known.len() >= KEPT {
            known.clear();
        }
        known.insert(version.to_owned(), Arc::clone(&description));
        Ok(description)
    }

    /// Appends records and, when the durability is `sync`, waits until they are on disk. Also waits while more than
    /// 32 MiB are on their way.
    ///
    /// The ids of concurrent appends may come out of order; readers do not mind, as a block knows the range of its
    /// ids and is searched whole.
    pub async fn append(&self, records: &[(RecordId, Time, Record)]) -> Result<(), JournalError> {
        let mut encoded = EncodedRecords::default();
        records.iter().for_each(|(id, arrival, record)| encoded.push(*id, *arrival, record));
        self.append_all(&encoded).await?;
        for (id, _, record) in records {
            if let Record::Report(report) = record
                && let Some(label) = report.label()
            {
                self.labels.note(*id, report.decision, label, report.time);
            }
        }
        Ok(())
    }

    /// Appends records that are encoded, in the same way as [`Journal::append`].
    pub async fn append_all(&self, records: &EncodedRecords) -> Result<(), JournalError> {
        let Some(newest) = records.newest() else { return Ok(()) };
        let mut taken = 0;
        loop {
            let listener = self.shared.written.listen();
            {
                let mut state = self.shared.state.lock();
                state.check()?;
                for (id, arrival, bytes) in records.from(taken) {
                    if state.pending.bytes() >= PENDING_BYTES_MAX {
                        break;
                    }
                    state.pending.push(id, arrival, bytes);
                    taken += 1;
                }
                state.pending.of_versions(records.versions());
                let sync = self.shared.durability == Durability::Sync;
                if sync || state.pending.bytes() >= GROUP_BYTES {
                    self.shared.wake.notify_one();
                }
                if taken == records.count() && (!sync || state.is_safe(newest)) {
                    return Ok(());
                }
            }
            listener.await;
        }
    }

    /// Waits until everything appended so far is written and synced. Blocks.
    pub fn sync(&self) -> Result<(), JournalError> {
        let mine = self.ask_for_sync();
        loop {
            let listener = self.shared.written.listen();
            if self.is_synced(mine)? {
                return Ok(());
            }
            event_listener::Listener::wait(listener);
        }
    }

    /// Waits for the same without blocking.
    pub async fn synced(&self) -> Result<(), JournalError> {
        let mine = self.ask_for_sync();
        loop {
            let listener = self.shared.written.listen();
            if self.is_synced(mine)? {
                return Ok(());
            }
            listener.await;
        }
    }

    /// Has the writer sync; the number of what was asked for.
    fn ask_for_sync(&self) -> u64 {
        let mut state = self.shared.state.lock();
        state.syncs_wanted += 1;
        self.shared.wake.notify_one();
        state.syncs_wanted
    }

    fn is_synced(&self, asked: u64) -> Result<bool, JournalError> {
        let state = self.shared.state.lock();
        state.check()?;
        Ok(state.syncs_done >= asked || state.closing)
    }

    /// Deletes closed segments that are too old or too many, oldest first. Where segments are uploaded, one that is not does
    /// not become too old, but it may be one too many. A segment's age counts from the latest arrival in
    /// it, whatever becomes of the file. Without a time nothing is too old: it is not certain, or that of what is replayed.
    pub fn expire(&self, now: Option<Time>) -> Result<(), JournalError> {
        loop {
            let removed = {
                let mut state = self.shared.state.lock();
                let Options { keep, keep_bytes, rotate, .. } = self.shared.options;
                let keep = state.keep_max.map_or(keep, |longest| longest.max(keep));
                let [oldest, _, ..] = &state.segments[..] else { return Ok(()) };
                let too_old = now.is_some_and(|now| oldest.newest(rotate) < now - keep);
                let too_old = too_old && (oldest.is_uploaded || state.upload.is_none());
                if !too_old && state.bytes() <= keep_bytes {
                    return Ok(());
                }
                let removed = state.segments.remove(0);
                if let Some(upload) = state.upload.as_mut().filter(|_| !removed.is_uploaded) {
                    upload.lost += removed.summary.records;
                }
                removed
            };
            // Before the file goes: one that is listed and is not there would be missed.
            self.shared.forget_segments(removed.first)?;
            // Whoever is turning it into columns finds out.
            for form in [files::ROWS, files::COLUMNS] {
                removed.file.with_extension(form).remove()?;
            }
            self.known.groups.forget();
        }
    }

    /// The record of this id.
    pub fn find(&self, id: RecordId) -> Result<Option<Record>, JournalError> {
        let (waiting, places) = {
            let state = self.shared.state.lock();
            // The last segment that begins at or before the id; ids that raced each other can lie in the one before.
            let after = state.segments.partition_point(|segment| segment.first <= id);
            let places = state.segments[..after].iter().rev().take(2);
            let places = places.map(|segment| (segment.file.clone(), segment.summary.range(id)));
            (state.waiting(|part| part.extent.holds(id)), places.collect::<Vec<_>>())
        };
        for bytes in waiting {
            if let Some((_, record)) = Record::decode_all(&bytes).into_iter().find(|(other, _)| *other == id)
            {
                return Ok(Some(record));
            }
        }
        for (file, (at, end)) in places {
            if let Some(record) = files::find(&file, at, end, id)? {
                return Ok(Some(record));
            }
        }
        Ok(None)
    }

    /// The records of these ids, as far as there are any. Each block that has some of them is read once.
    pub fn find_all(&self, ids: &BTreeSet<RecordId>) -> Result<HashMap<RecordId, Record>, JournalError> {
        let mut found = HashMap::new();
        let (waiting, mut segments) = {
            let state = self.shared.state.lock();
            let waiting = state.waiting(|part| ids.iter().any(|id| part.extent.holds(*id)));
            let mut segments: BTreeMap<String, BTreeSet<RecordId>> = BTreeMap::new();
            for id in ids {
                let after = state.segments.partition_point(|segment| segment.first <= *id);
                for segment in state.segments[..after].iter().rev().take(2) {
                    segments.entry(segment.file.name().to_owned()).or_default().insert(*id);
                }
            }
            (waiting, segments)
        };
        for bytes in waiting {
            found.extend(Record::decode_all(&bytes).into_iter().filter(|(id, _)| ids.contains(id)));
        }
        while let Some((name, wanted)) = segments.pop_first() {
            let wanted: BTreeSet<RecordId> =
                wanted.into_iter().filter(|id| !found.contains_key(id)).collect();
            if wanted.len() <= FEW {
                for id in wanted {
                    found.extend(self.find(id)?.map(|record| (id, record)));
                }
                continue;
            }
            let file = JournalFile::new(&self.shared.device, name);
            files::find_all(&file, segments.is_empty(), &wanted, &mut found)?;
        }
        Ok(found)
    }

    /// Every block, the oldest first. What is not written yet is written first. What is damaged is an error in its place,
    /// and the next ones follow.
    pub fn blocks(&self) -> Result<impl Iterator<Item = Result<Block, JournalError>> + use<>, JournalError> {
        Ok(self.archive()?.oldest_first())
    }

    /// See [`JournalArchive::scan`]. Records not yet written are written first.
    pub fn scan(&self, visit: impl FnMut(RecordId, Record) -> bool) -> Result<SkippedData, JournalError> {
        self.archive()?.scan(visit)
    }

    /// Its files, with all that was appended so far. Blocks.
    pub fn archive(&self) -> Result<JournalArchive, JournalError> {
        self.sync()?;
        JournalArchive::over(Arc::clone(&self.shared.device))
    }

    /// The newest records, at most about `limit`, newest last: what is on its way and the last segments' ends.
    ///
    /// # Errors
    /// If a file cannot be read. Damaged parts are passed over.
    pub fn recent(&self, limit: usize) -> Result<Vec<(RecordId, Record)>, JournalError> {
        let (mut newest, mut count) = (Vec::new(), 0);
        let (waiting, files) = {
            let state = self.shared.state.lock();
            let is_wanted = |part: &RecordChunk| {
                let is_wanted = count < limit;
                count += part.extent.count as usize;
                is_wanted
            };
            (state.waiting(is_wanted), state.files())
        };
        waiting.iter().for_each(|bytes| newest.extend(Record::decode_all(bytes).into_iter().rev()));
        let mut blocks = NewestFirstIter::new(files);
        let mut skipped = SkippedData::default();
        while count < limit {
            let Some(block) = blocks.next() else { break };
            let records = skipped.records(block)?;
            count += records.len();
            newest.extend(records.into_iter().rev());
        }
        newest.reverse();
        Ok(newest)
    }

    /// Waits until all closed segments are columns, as far as they can be. Blocks.
    pub fn settle(&self) {
        loop {
            let listener = self.shared.written.listen();
            {
                let state = self.shared.state.lock();
                if state.closing || state.to_convert().is_none() {
                    return;
                }
            }
            event_listener::Listener::wait(listener);
        }
    }

    /// Makes `target`, which must be missing, a directory with all that was appended so far. What is closed are hard
    /// links where the file system can; of the newest segment the whole blocks are copied. Blocks.
    pub fn snapshot(&self, target: &Path) -> Result<(), JournalError> {
        self.sync()?;
        // A segment that is written anew meanwhile would be cut where the old one ended.
        let _alone = self.shared.rewriting.lock();
        let segments =
            self.shared.state.lock().segments.iter().map(|it| (it.file.clone(), it.summary.bytes)).collect();
        self.shared.note_segments(None)?;
        let manifest = self.shared.manifest.lock().clone();
        snapshot::snapshot_of(&self.shared.device, segments, Some(manifest), target)
    }

    /// Returns the size of the journal.
    pub fn census(&self) -> JournalCensus {
        let state = self.shared.state.lock();
        JournalCensus {
            segments: state.segments.len(),
            columnar: state.segments.iter().filter(|segment| files::is_columnar(&segment.file)).count(),
            bytes: state.bytes(),
            pending_bytes: state.pending.bytes() + state.writing.bytes(),
            poisoned: state.poisoned.is_some(),
            full: state.full.is_some(),
        }
    }

    /// Writes and syncs everything and stops the threads. A segment that is becoming columns stays rows.
    pub fn close(&self) -> Result<(), JournalError> {
        let is_open = !self.shared.state.lock().closing;
        // How much the newest segment has by now, so that it is noticed if it had less.
        let result =
            self.sync().and_then(|()| if is_open { self.shared.note_segments(None) } else { Ok(()) });
        self.shared.stop();
        let threads = std::mem::take(&mut *self.threads.lock());
        for thread in threads {
            // A writer that panicked has poisoned nothing that sync() above did not already report.
            let _ = thread.join();
        }
        result
    }
}

impl DecisionSource for Journal {
    fn ranked(&self, ids: IdRange) -> Result<RankedBlocks, JournalError> {
        let state = self.shared.state.lock();
        let parts = [&state.pending, &*state.writing].into_iter().flat_map(|pending| pending.parts());
        let parts = parts.filter(|part| part.extent.first < ids.below && part.extent.last >= ids.from);
        let waiting =
            parts.map(|part| Block::of_waiting(part.extent.info(), Arc::clone(&part.bytes))).collect();
        let segments = state.segments.iter().map(|segment| (segment.first, segment.file.clone())).collect();
        drop(state);
        Ok(RankedBlocks::new(ids, segments, waiting, Arc::clone(&self.known)))
    }

    fn version(&self, version: &str) -> Result<Arc<VersionDescription>, JournalError> {
        self.description(version)
    }

    fn labels(&self) -> &DecisionLabels {
        &self.labels
    }

    fn summaries(&self) -> &BlockSummaries {
        &self.summaries
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        // Errors were already given to those who waited for them.
        let _ = self.close();
    }
}

impl JournalState {
    /// Checks whether anything can be taken.
    fn check(&self) -> Result<(), JournalError> {
        match (&self.poisoned, &self.full) {
            (Some(why), _) => Err(JournalError::Poisoned(why.clone())),
            (None, Some(why)) => Err(JournalError::Full(why.clone())),
            (None, None) => Ok(()),
        }
    }

    fn bytes(&self) -> u64 {
        self.segments.iter().map(|segment| segment.summary.bytes).sum()
    }

    fn files(&self) -> Vec<JournalFile> {
        self.segments.iter().map(|segment| segment.file.clone()).collect()
    }

    /// Returns the chunks that are on their way and wanted, newer first.
    fn waiting(&self, mut wanted: impl FnMut(&RecordChunk) -> bool) -> Vec<Arc<Vec<u8>>> {
        let all =
            [&self.pending, &*self.writing].into_iter().flat_map(|pending| pending.parts().iter().rev());
        all.filter(|part| wanted(part)).map(|part| Arc::clone(&part.bytes)).collect()
    }

    /// Returns true if a record is as safe as the durability asks: it is neither waiting nor being written. Ids of concurrent
    /// appends may be out of order, so the last safe id alone does not tell.
    fn is_safe(&self, id: RecordId) -> bool {
        !self.pending.may_hold(id) && !self.writing.may_hold(id)
    }
}

impl JournalCore {
    /// Writes down which segments there are, with one that is being begun, and how many records each has at least.
    fn note_segments(&self, begun: Option<RecordId>) -> Result<(), JournalError> {
        let mut manifest = self.manifest.lock();
        let mut there: BTreeMap<RecordId, u64> =
            self.state.lock().segments.iter().map(|file| (file.first, file.summary.records)).collect();
        there.extend(begun.map(|first| (first, 0)));
        let mut changed = manifest.clone();
        changed.add(there);
        if changed != *manifest {
            changed.write(&*self.device)?;
            *manifest = changed;
        }
        Ok(())
    }

    /// Writes down that a segment, and all before it, are not kept any more.
    fn forget_segments(&self, up_to: RecordId) -> Result<(), JournalError> {
        let mut manifest = self.manifest.lock();
        manifest.forget(up_to);
        manifest.write(&*self.device)
    }

    /// Tells the threads to end.
    fn stop(&self) {
        self.state.lock().closing = true;
        self.wake.notify_one();
        self.rotated.notify_one();
        self.written.notify(usize::MAX);
    }
}

/// The groups of a file by columns that is neither compressed nor has checksums, which no journal writes: to find out what
/// comes of bytes that nobody wrote.
///
/// # Errors
/// What is wrong with its index.
pub fn bare_columns(bytes: Vec<u8>) -> Result<Vec<Block>, SegmentError> {
    let columns = Arc::new(columns::ColumnarSegment::of(Box::new(bytes), columns::ColumnsFormat::Bare)?);
    Ok((0..columns.groups()).filter_map(|number| Block::of_columns(&columns, number)).collect())
}

/// The ending of the name of a file with a version's settings.
const PIPELINE_SUFFIX: &str = ".pipeline.txt";
/// The ending of the name of a description.
const DESCRIPTION_SUFFIX: &str = ".rows.json";

fn description_file(device: &Arc<dyn Device>, version: &str) -> JournalFile {
    JournalFile::new(device, format!("{version}{DESCRIPTION_SUFFIX}"))
}

fn read_description(device: &Arc<dyn Device>, version: &str) -> Result<VersionDescription, JournalError> {
    let file = description_file(device, version);
    let bytes = read_side_file(&file)?.ok_or_else(|| file.error(io::ErrorKind::NotFound.into()))?;
    serde_json::from_slice(&bytes).map_err(|error| file.error(error.into()))
}

/// Reads the content of a file beside the segments, if it is as it was written; `None` if it is not there.
fn read_side_file(file: &JournalFile) -> Result<Option<Vec<u8>>, JournalError> {
    let Some(bytes) = file.read(SIDE_FILE_BYTES_MAX)? else { return Ok(None) };
    let Some(text) = disk::unseal(&bytes) else {
        let stretch = DamagedStretch { from: 0, to: bytes.len() as u64, records: 0, is_tail: false };
        return Err(JournalError::Damaged(stretch.in_file(file.name())));
    };
    Ok(Some(text.to_vec()))
}
