//! The thread that writes: records gather, and become blocks of the newest segment.

use std::fs;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use event::Time;
use stats::Durability;

use super::segment::{self, Summary, VERSION};
use super::{BLOCK_BYTES, JournalError, SegmentFile, Shared, State, files, io_error, sync_directory};
use crate::id::RecordId;

/// How long records wait for their block without a durability that asks for less.
const GATHER: Duration = Duration::from_secs(1);

/// Memory for records that is kept for the next ones: what gathers while a busy disk writes.
const SPARE_BYTES_MAX: usize = 4 << 20;

/// Records on their way.
#[derive(Debug, Default)]
pub(super) struct Pending {
    pub(super) bytes: Vec<u8>,
    pub(super) count: u32,
    pub(super) first: Option<RecordId>,
    pub(super) last: Option<RecordId>,
    pub(super) arrival: Time,
    /// Versions of pipelines that made its decisions.
    pub(super) versions: Vec<String>,
}

/// Adds the versions that are not there yet.
fn add_versions(all: &mut Vec<String>, versions: &[String]) {
    for version in versions {
        if !all.contains(version) {
            all.push(version.clone());
        }
    }
}

impl Pending {
    pub(super) fn push(&mut self, id: RecordId, arrival: Time, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        self.count += 1;
        self.first = Some(self.first.map_or(id, |first| first.min(id)));
        self.last = self.last.max(Some(id));
        self.arrival = self.arrival.max(arrival);
    }

    /// Notes of which versions its decisions may be.
    pub(super) fn of_versions(&mut self, versions: &[String]) {
        add_versions(&mut self.versions, versions);
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
        add_versions(&mut self.versions, &before.versions);
    }

    pub(super) fn may_hold(&self, id: RecordId) -> bool {
        self.first.is_some_and(|first| first <= id) && self.last.is_some_and(|last| id <= last)
    }
}

impl Shared {
    /// The writer thread.
    pub(super) fn write_all(&self) {
        let mut open: Option<segment::Writer> = None;
        // Memory of the block before, for the next: taking it anew and letting it grow would cost more than what is put there.
        let mut spare = Vec::new();
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
                let next = Pending { bytes: std::mem::take(&mut spare), ..Pending::default() };
                state.writing = Arc::new(std::mem::replace(&mut state.pending, next));
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
            // Somebody may be reading it.
            if let Some(Pending { mut bytes, .. }) = Arc::into_inner(batch) {
                bytes.clear();
                bytes.shrink_to(SPARE_BYTES_MAX);
                spare = bytes;
            }
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
            let Summary { version, bytes, from, .. } = segment.summary;
            let full = bytes >= self.plan.segment || batch.arrival - from >= self.plan.rotate;
            // An earlier release must find out from the newest segment that there are others which it cannot read.
            let goes_on = !full && version == VERSION && !files::is_columnar(&segment.path);
            goes_on.then(|| segment.path.clone())
        });
        if newest.is_none() {
            *open = None;
        }
        let writer = match (&mut *open, newest) {
            (Some(writer), _) => writer,
            (None, Some(path)) => open.insert(segment::Writer::append(&path)?),
            (None, None) => {
                let path = self.directory.join(format!("{first}.{}", files::ROWS));
                let writer = segment::Writer::create(&path).and_then(|writer| {
                    sync_directory(&self.directory)?;
                    Ok(writer)
                });
                // It will be made again under this name, or under that of an earlier record.
                let writer = writer.inspect_err(|_| drop(fs::remove_file(&path)))?;
                let segment = SegmentFile {
                    first,
                    path,
                    summary: Summary::empty(),
                    stays: false,
                    versions: Some(Vec::new()),
                };
                self.lock().segments.push(segment);
                self.rotated.notify_one();
                open.insert(writer)
            }
        };
        let head = writer.write(first, last, batch.arrival, batch.count, &batch.bytes)?;
        if sync {
            writer.sync()?;
        }
        if let Some(segment) = self.lock().segments.last_mut() {
            segment.summary.add(&head);
            if let Some(versions) = &mut segment.versions {
                add_versions(versions, &batch.versions);
            }
        }
        Ok(())
    }
}

/// Whether all that is wrong is that there is no room.
pub(super) fn is_full(error: &io::Error) -> bool {
    use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    matches!(error.kind(), StorageFull | QuotaExceeded | FileTooLarge)
}
