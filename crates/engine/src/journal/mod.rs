//! The journal: every decision is a row that was logged when it was made.
//!
//! Records gather in memory and one thread writes them as compressed blocks to append-only segments, with the
//! durability of the ledger. Segments are closed by size and age and deleted by age and total size. A record is
//! found by its id without an index on disk: ids rise, a segment's name is its first id, a block's head says which
//! ids it holds. What is not promised: records younger than the durability interval after a crash.
//!
//! Schemas and configurations that rows refer to are files of their own beside the segments, named by content.

mod archive;
mod erase;
pub mod export;
mod record;
mod segment;
pub(crate) mod slim;
mod verify;

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};

use event::Time;
use event_listener::Event as Signal;
use stats::Durability;

pub use archive::Archive;
pub use erase::ErasedRecords;
pub(crate) use erase::erase;
pub use record::{Description, Feedback, KeyReading, KindDescription, Record, Replaced, Report, Row};
use segment::Summary;
pub use segment::{Block, Blocks, Head, SegmentError};
pub use verify::{Damage, Verified, verify};

use crate::directory::files;
use crate::id::RecordId;
use crate::plan::{JournalPlan, Pipeline};

/// Bytes of records that are gathered into one block at the most.
const BLOCK_BYTES: usize = 256 << 10;
/// Bytes of records that may wait for the writer; above it callers wait, too.
const PENDING_BYTES_MAX: usize = 32 << 20;
/// How long records wait for their block without a durability that asks for less.
const GATHER: Duration = Duration::from_secs(1);
/// Largest stored schema or configuration that is read back.
const SIDE_FILE_BYTES_MAX: u64 = 64 << 20;

/// Why the journal cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// The operating system said no.
    #[error("journal {path}: {error}")]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// What it said.
        error: io::Error,
    },
    /// A file holds what no journal wrote.
    #[error("journal {path}: {error}")]
    Segment {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        error: SegmentError,
    },
    /// There is no room on the disk. What waits is kept, and the journal goes on by itself when there is room.
    #[error("the journal takes nothing while the disk is full: {0}; make room on it")]
    Full(String),
    /// An earlier write failed: nothing more is accepted, as it could not be promised.
    #[error("the journal stopped after a failed write: {0}; mend the cause and restart")]
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

/// The open journal of a data directory.
#[derive(Debug)]
pub struct Journal {
    shared: Arc<Shared>,
    writer: Mutex<Option<JoinHandle<()>>>,
    /// What was dropped from a torn tail when it was opened, in bytes.
    torn_bytes: u64,
}

#[derive(Debug)]
struct Shared {
    directory: PathBuf,
    plan: JournalPlan,
    durability: Durability,
    state: Mutex<State>,
    /// Wakes the writer.
    wake: Condvar,
    /// Tells those who wait that something was written, or that nothing will be.
    written: Signal,
}

#[derive(Debug, Default)]
struct State {
    pending: Pending,
    /// What the writer is writing: still to be found by readers.
    writing: Arc<Pending>,
    /// The last id that is as safe as the durability asks.
    safe: Option<RecordId>,
    /// Closed and open segments, oldest first.
    segments: Vec<SegmentFile>,
    poisoned: Option<String>,
    /// There was no room for what is pending.
    full: Option<String>,
    /// How often a sync was asked for, and up to which of these it is done.
    syncs_wanted: u64,
    syncs_done: u64,
    closing: bool,
}

/// Records on their way.
#[derive(Debug, Default)]
struct Pending {
    bytes: Vec<u8>,
    count: u32,
    first: Option<RecordId>,
    last: Option<RecordId>,
    arrival: Time,
}

#[derive(Debug)]
struct SegmentFile {
    first: RecordId,
    path: PathBuf,
    summary: Summary,
}

/// How much there is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JournalCensus {
    /// Segment files.
    pub segments: usize,
    /// Their bytes.
    pub bytes: u64,
    /// Bytes of records not written yet.
    pub pending_bytes: usize,
    /// A write failed: nothing more is accepted.
    pub poisoned: bool,
    /// The disk is full: nothing is accepted until there is room.
    pub full: bool,
}

impl Journal {
    /// Opens the journal in a directory, making it if need be, and starts its writer. A torn tail, which a crash
    /// leaves, is cut off.
    pub fn open(
        directory: &Path,
        plan: JournalPlan,
        durability: Durability,
    ) -> Result<Journal, JournalError> {
        fs::create_dir_all(directory).map_err(io_error(directory))?;
        let mut segments: Vec<SegmentFile> = segments_in(directory)?
            .into_iter()
            .map(|(first, path)| SegmentFile { first, path, summary: Summary::empty() })
            .collect();
        let mut torn_bytes = 0;
        let mut safe = None;
        let last = segments.len().saturating_sub(1);
        for (index, file) in segments.iter_mut().enumerate() {
            let torn;
            (file.summary, torn) = segment::summary(&file.path, index == last)?;
            torn_bytes += torn;
            safe = safe.max(file.summary.last);
        }
        let state = State { segments, safe, ..State::default() };
        let shared = Arc::new(Shared {
            directory: directory.to_path_buf(),
            plan,
            durability,
            state: Mutex::new(state),
            wake: Condvar::new(),
            written: Signal::new(),
        });
        let for_writer = Arc::clone(&shared);
        let writer = std::thread::Builder::new()
            .name("journal".to_owned())
            .spawn(move || for_writer.write_all())
            .map_err(io_error(directory))?;
        Ok(Journal { shared, writer: Mutex::new(Some(writer)), torn_bytes })
    }

    /// Bytes of a torn tail that were cut off when the journal was opened.
    pub fn torn_bytes(&self) -> u64 {
        self.torn_bytes
    }

    /// The id of the last record, if there is one.
    pub fn last_id(&self) -> Option<RecordId> {
        let state = self.shared.lock();
        state.pending.last.or(state.writing.last).or(state.safe)
    }

    /// Keeps what is needed to read a pipeline's rows, once for each version.
    pub fn describe(&self, pipeline: &Pipeline) -> Result<(), JournalError> {
        let description = self.shared.directory.join(description_file(&pipeline.version));
        let bytes = serde_json::to_vec(&Description::of(pipeline))
            .map_err(|error| io_error(&description)(io::Error::other(error)))?;
        let configuration = self.shared.directory.join(format!("{}.pipeline.txt", pipeline.version));
        // Half a file is never seen under its name, and the description comes last.
        for (path, content) in [(&configuration, pipeline.canonical.as_bytes()), (&description, &bytes)] {
            if !path.exists() {
                let half = path.with_extension("half");
                fs::write(&half, content)
                    .and_then(|()| fs::File::open(&half)?.sync_all())
                    .map_err(io_error(&half))?;
                fs::rename(&half, path).map_err(io_error(path))?;
            }
        }
        sync_directory(&self.shared.directory)
    }

    /// What the rows of a pipeline's version mean.
    pub fn description(&self, version: &str) -> Result<Description, JournalError> {
        read_description(&self.shared.directory, version)
    }

    /// Appends records and, when the durability is `sync`, waits until they are on disk. Also waits while more than
    /// 32 MiB are on their way.
    ///
    /// The ids of concurrent appends may come out of order; readers do not mind, as a block knows the range of its
    /// ids and is searched whole.
    pub async fn append(&self, records: &[(RecordId, Time, Record)]) -> Result<(), JournalError> {
        let Some(newest) = records.iter().map(|(id, ..)| *id).max() else { return Ok(()) };
        let encoded: Vec<(RecordId, Time, Vec<u8>)> =
            records.iter().map(|(id, arrival, record)| (*id, *arrival, record.encode(*id))).collect();
        let mut encoded = encoded.into_iter().peekable();
        loop {
            let listener = self.shared.written.listen();
            {
                let mut state = self.shared.lock();
                state.check()?;
                while state.pending.bytes.len() < PENDING_BYTES_MAX {
                    let Some((id, arrival, bytes)) = encoded.next() else { break };
                    state.pending.push(id, arrival, &bytes);
                }
                let sync = self.shared.durability == Durability::Sync;
                if sync || state.pending.bytes.len() >= BLOCK_BYTES {
                    self.shared.wake.notify_one();
                }
                if encoded.peek().is_none() && (!sync || state.is_safe(newest)) {
                    return Ok(());
                }
            }
            listener.await;
        }
    }

    /// Waits until everything appended so far is written and synced. Blocks.
    pub fn sync(&self) -> Result<(), JournalError> {
        let mut state = self.shared.lock();
        state.syncs_wanted += 1;
        let mine = state.syncs_wanted;
        self.shared.wake.notify_one();
        loop {
            state.check()?;
            if state.syncs_done >= mine || state.closing {
                return Ok(());
            }
            let listener = self.shared.written.listen();
            drop(state);
            event_listener::Listener::wait(listener);
            state = self.shared.lock();
        }
    }

    /// Deletes closed segments that are too old or too many, oldest first. A segment's age counts from when its file
    /// was last written: the events of a replay may have happened years before.
    pub fn expire(&self, now: Time) -> Result<(), JournalError> {
        let oldest = |state: &State| {
            let closed = state.segments.len().saturating_sub(1);
            state.segments[..closed].first().map(|segment| (segment.path.clone(), state.bytes()))
        };
        loop {
            let Some((path, total)) = oldest(&self.shared.lock()) else { return Ok(()) };
            let written =
                fs::metadata(&path).and_then(|metadata| metadata.modified()).map_err(io_error(&path))?;
            let written = written.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
            let written = Time(i64::try_from(written.as_micros()).unwrap_or(i64::MAX));
            if written >= now - self.shared.plan.keep && total <= self.shared.plan.keep_bytes {
                return Ok(());
            }
            {
                let mut state = self.shared.lock();
                if state.segments.first().is_some_and(|segment| segment.path == path) {
                    state.segments.remove(0);
                }
            }
            fs::remove_file(&path).map_err(io_error(&path))?;
        }
    }

    /// The record of this id.
    pub fn find(&self, id: RecordId) -> Result<Option<Record>, JournalError> {
        let (waiting, places) = {
            let state = self.shared.lock();
            // The last segment that begins at or before the id; ids that raced each other can lie in the one before.
            let after = state.segments.partition_point(|segment| segment.first <= id);
            let places = state.segments[..after].iter().rev().take(2);
            let places = places.map(|segment| (segment.path.clone(), segment.summary.range(id)));
            (state.waiting(|pending| pending.may_hold(id)), places.collect::<Vec<_>>())
        };
        for bytes in waiting {
            if let Some((_, record)) = Record::decode_all(&bytes).into_iter().find(|(other, _)| *other == id)
            {
                return Ok(Some(record));
            }
        }
        for (path, (at, end)) in places {
            if let Some(record) = segment::find(&path, at, end, id)? {
                return Ok(Some(record));
            }
        }
        Ok(None)
    }

    /// Visits every record, oldest segment first, until `visit` returns false. Records not yet written are
    /// written first.
    pub fn scan(&self, mut visit: impl FnMut(RecordId, Record) -> bool) -> Result<(), JournalError> {
        self.sync()?;
        let paths = self.shared.lock().paths();
        for path in &paths {
            for block in segment::open(path)?.into_iter().flatten() {
                let records = block.and_then(|block| block.records()).map_err(segment_error(path))?;
                for (id, record) in records {
                    if !visit(id, record) {
                        return Ok(());
                    }
                }
            }
        }
        Ok(())
    }

    /// The newest records, at most about `limit`, newest last: what is on its way and the last segment's end.
    pub fn recent(&self, limit: usize) -> Result<Vec<(RecordId, Record)>, JournalError> {
        let (waiting, paths) = {
            let state = self.shared.lock();
            (state.waiting(|_| true), state.paths())
        };
        let mut newest: Vec<Vec<(RecordId, Record)>> =
            waiting.iter().rev().map(|bytes| Record::decode_all(bytes)).collect();
        let mut count: usize = newest.iter().map(Vec::len).sum();
        for path in paths.iter().rev() {
            if count >= limit {
                break;
            }
            let blocks: Result<Vec<Block>, _> = segment::open(path)?.into_iter().flatten().collect();
            let blocks = blocks.map_err(segment_error(path))?;
            for block in blocks.iter().rev() {
                if count >= limit {
                    break;
                }
                let records = block.records().map_err(segment_error(path))?;
                count += records.len();
                newest.push(records);
            }
        }
        Ok(newest.into_iter().rev().flatten().collect())
    }

    /// Makes `target`, which must be missing, a directory with all that was appended so far. What is closed are hard
    /// links where the file system can; of the newest segment the whole blocks are copied. Blocks.
    pub(crate) fn snapshot(&self, target: &Path) -> Result<(), JournalError> {
        self.sync()?;
        let segments =
            self.shared.lock().segments.iter().map(|it| (it.path.clone(), it.summary.bytes)).collect();
        snapshot_of(&self.shared.directory, segments, target)
    }

    /// How much there is.
    pub fn census(&self) -> JournalCensus {
        let state = self.shared.lock();
        JournalCensus {
            segments: state.segments.len(),
            bytes: state.bytes(),
            pending_bytes: state.pending.bytes.len() + state.writing.bytes.len(),
            poisoned: state.poisoned.is_some(),
            full: state.full.is_some(),
        }
    }

    /// Writes and syncs everything and stops the writer.
    pub fn close(&self) -> Result<(), JournalError> {
        let result = self.sync();
        self.shared.lock().closing = true;
        self.shared.wake.notify_one();
        let writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(writer) = writer {
            // A writer that panicked has poisoned nothing that sync() above did not already report.
            let _ = writer.join();
        }
        result
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        // Errors were already given to those who waited for them.
        let _ = self.close();
    }
}

impl State {
    /// Whether anything can be taken.
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

    fn paths(&self) -> Vec<PathBuf> {
        self.segments.iter().map(|segment| segment.path.clone()).collect()
    }

    /// What is on its way and wanted, older first.
    fn waiting(&self, wanted: impl Fn(&Pending) -> bool) -> Vec<Vec<u8>> {
        let all = [&*self.writing, &self.pending].into_iter();
        all.filter(|pending| wanted(pending)).map(|pending| pending.bytes.clone()).collect()
    }

    /// Whether a record is as safe as the durability asks: it is neither waiting nor being written. Ids of
    /// concurrent appends may be out of order, so the last safe id alone does not tell.
    fn is_safe(&self, id: RecordId) -> bool {
        !self.pending.may_hold(id) && !self.writing.may_hold(id)
    }
}

impl Pending {
    fn push(&mut self, id: RecordId, arrival: Time, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        self.count += 1;
        self.first = Some(self.first.map_or(id, |first| first.min(id)));
        self.last = self.last.max(Some(id));
        self.arrival = self.arrival.max(arrival);
    }

    /// Puts what was before it in front.
    fn put_back(&mut self, before: &Pending) {
        let mut bytes = before.bytes.clone();
        bytes.extend_from_slice(&self.bytes);
        self.bytes = bytes;
        self.count += before.count;
        self.first = before.first.into_iter().chain(self.first).min();
        self.last = self.last.max(before.last);
        self.arrival = self.arrival.max(before.arrival);
    }

    fn may_hold(&self, id: RecordId) -> bool {
        self.first.is_some_and(|first| first <= id) && self.last.is_some_and(|last| id <= last)
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // The state is changed in steps that cannot panic half way.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The writer thread.
    fn write_all(&self) {
        let mut open: Option<segment::Writer> = None;
        let interval = match self.durability {
            Durability::Interval(span) => Duration::from_micros(span.0.unsigned_abs()).min(GATHER),
            Durability::Sync | Durability::None => GATHER,
        };
        loop {
            let (batch, sync, syncs) = {
                let mut state = self.lock();
                let idle = |state: &mut State| {
                    // Whether there is room again is tried each interval, and once more before the end.
                    if state.full.is_some() {
                        return !state.closing;
                    }
                    let urgent = self.durability == Durability::Sync && state.pending.count > 0;
                    let asked = state.syncs_wanted > state.syncs_done;
                    !(urgent || asked || state.closing || state.pending.bytes.len() >= BLOCK_BYTES)
                };
                if idle(&mut state) {
                    let waited = self.wake.wait_timeout_while(state, interval, idle);
                    state = waited.map_or_else(|poisoned| poisoned.into_inner().0, |(state, _)| state);
                }
                if state.closing && state.pending.count == 0 {
                    return;
                }
                let asked = state.syncs_wanted > state.syncs_done;
                let sync = asked || !matches!(self.durability, Durability::None);
                state.writing = Arc::new(std::mem::take(&mut state.pending));
                (Arc::clone(&state.writing), sync, state.syncs_wanted)
            };
            let result = self.write_batch(&mut open, &batch, sync);
            let taken_back = match &result {
                Err(JournalError::Io { error, .. }) if is_full(error) => {
                    open = None;
                    self.take_back()
                }
                _ => Ok(()),
            };
            let mut state = self.lock();
            match (result, taken_back) {
                (Ok(()), _) => {
                    state.safe = state.safe.max(batch.last);
                    state.syncs_done = if sync { syncs } else { state.syncs_done };
                    state.full = None;
                }
                (Err(JournalError::Io { path, error }), Ok(())) if is_full(&error) => {
                    state.pending.put_back(&batch);
                    state.full = Some(format!("{}: {error}", path.display()));
                }
                (Err(error), Ok(())) | (_, Err(error)) => state.poisoned = Some(error.to_string()),
            }
            state.writing = Arc::default();
            let stop = state.poisoned.is_some() || (state.closing && state.full.is_some());
            drop(state);
            self.written.notify(usize::MAX);
            if stop {
                return;
            }
        }
    }

    /// Cuts off what was written of a block that had no room.
    fn take_back(&self) -> Result<(), JournalError> {
        let newest = self.lock().segments.last().map(|segment| (segment.path.clone(), segment.summary.bytes));
        let Some((path, bytes)) = newest else { return Ok(()) };
        let file = fs::OpenOptions::new().write(true).open(&path).map_err(io_error(&path))?;
        file.set_len(bytes).map_err(io_error(&path))
    }

    fn write_batch(
        &self,
        open: &mut Option<segment::Writer>,
        batch: &Pending,
        sync: bool,
    ) -> Result<(), JournalError> {
        let (Some(first), Some(last)) = (batch.first, batch.last) else {
            return match open {
                Some(writer) if sync => writer.sync(),
                _ => Ok(()),
            };
        };
        // The newest segment goes on unless it is full.
        let newest = self.lock().segments.last().and_then(|segment| {
            let Summary { bytes, from, .. } = segment.summary;
            let full = bytes >= self.plan.segment || batch.arrival - from >= self.plan.rotate;
            (!full).then(|| segment.path.clone())
        });
        if newest.is_none() {
            *open = None;
        }
        let writer = match (&mut *open, newest) {
            (Some(writer), _) => writer,
            (None, Some(path)) => open.insert(segment::Writer::append(&path)?),
            (None, None) => {
                let path = self.directory.join(format!("{first}.journal"));
                let writer = segment::Writer::create(&path).and_then(|writer| {
                    sync_directory(&self.directory)?;
                    Ok(writer)
                });
                // It will be made again under this name, or under that of an earlier record.
                let writer = writer.inspect_err(|_| drop(fs::remove_file(&path)))?;
                self.lock().segments.push(SegmentFile { first, path, summary: Summary::empty() });
                open.insert(writer)
            }
        };
        let head = writer.write(first, last, batch.arrival, batch.count, &batch.bytes)?;
        if sync {
            writer.sync()?;
        }
        if let Some(segment) = self.lock().segments.last_mut() {
            segment.summary.add(&head);
        }
        Ok(())
    }
}

/// Whether all that is wrong is that there is no room.
fn is_full(error: &io::Error) -> bool {
    use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    matches!(error.kind(), StorageFull | QuotaExceeded | FileTooLarge)
}

/// The segments in a directory, oldest first.
fn segments_in(directory: &Path) -> Result<Vec<(RecordId, PathBuf)>, JournalError> {
    let mut segments = Vec::new();
    for entry in fs::read_dir(directory).map_err(io_error(directory))? {
        let path = entry.map_err(io_error(directory))?.path();
        let name =
            path.file_name().and_then(|name| name.to_str()).and_then(|name| name.strip_suffix(".journal"));
        if let Some(first) = name.and_then(|name| name.parse().ok()) {
            segments.push((first, path));
        }
    }
    segments.sort_unstable();
    Ok(segments)
}

/// Makes `target` a copy of a journal that nobody has open. See [`Journal::snapshot`].
pub(crate) fn snapshot(directory: &Path, target: &Path) -> Result<(), JournalError> {
    let segments = if directory.exists() { segments_in(directory)? } else { Vec::new() };
    snapshot_of(directory, segments.into_iter().map(|(_, path)| (path, u64::MAX)).collect(), target)
}

/// Copies segments, of the newest so many bytes, and what says what their rows mean.
fn snapshot_of(
    directory: &Path,
    mut segments: Vec<(PathBuf, u64)>,
    target: &Path,
) -> Result<(), JournalError> {
    files::make_private(target).map_err(io_error(target))?;
    let newest = segments.pop();
    let mut links: Vec<PathBuf> = segments.into_iter().map(|(path, _)| path).collect();
    if directory.exists() {
        for entry in fs::read_dir(directory).map_err(io_error(directory))? {
            let path = entry.map_err(io_error(directory))?.path();
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            if name.ends_with(DESCRIPTION_SUFFIX) || name.ends_with(".pipeline.txt") {
                links.push(path);
            }
        }
    }
    let to = |path: &Path| target.join(path.file_name().unwrap_or_default());
    for path in links {
        match files::link_or_copy(&path, &to(&path)) {
            // It became too old to be kept.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            linked => linked.map_err(io_error(&path))?,
        }
    }
    if let Some((path, bytes)) = newest {
        files::copy(&path, &to(&path), bytes, None).map_err(io_error(&path))?;
    }
    sync_directory(target)
}

/// What the name of a description ends in.
const DESCRIPTION_SUFFIX: &str = ".rows.json";

fn description_file(version: &str) -> String {
    format!("{version}{DESCRIPTION_SUFFIX}")
}

fn read_description(directory: &Path, version: &str) -> Result<Description, JournalError> {
    let path = directory.join(description_file(version));
    let file = fs::File::open(&path).map_err(io_error(&path))?;
    let mut bytes = Vec::new();
    file.take(SIDE_FILE_BYTES_MAX).read_to_end(&mut bytes).map_err(io_error(&path))?;
    serde_json::from_slice(&bytes).map_err(|error| io_error(&path)(io::Error::other(error)))
}

fn sync_directory(path: &Path) -> Result<(), JournalError> {
    fs::File::open(path).and_then(|directory| directory.sync_all()).map_err(io_error(path))
}
