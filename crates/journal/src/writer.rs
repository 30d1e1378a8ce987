//! The thread that writes: records gather, and become blocks of the newest segment, by columns if they are many: such a
//! block is copied as it is when the segment becomes one by columns.

use std::sync::Arc;
use std::time::Duration;

use event::Time;
use stats::Durability;

use super::columns::{self, ColumnLayout, ColumnsFormat};
use super::file::JournalFile;
use super::segment::{self, BlockExtent, SegmentSummary};
use super::{
    BLOCK_BYTES, GROUP_BYTES, JournalCore, JournalError, JournalState, SegmentFile, conversion, files,
};
use crate::id::RecordId;

/// The time for which records wait for their block without a durability that asks for less.
const GATHER: Duration = Duration::from_secs(1);

/// Bytes of records that are written at once if nobody waits for more.
const WRITTEN_BYTES_MAX: usize = 2 * GROUP_BYTES;

/// Buffers for parts that are kept for the next ones.
const SPARES_MAX: usize = WRITTEN_BYTES_MAX / BLOCK_BYTES;

/// Bytes of records for each column from which on a block is written by columns: with less, what a column takes by itself
/// would outweigh what it saves.
const COLUMN_BYTES: usize = 8 << 10;

/// Records on their way.
#[derive(Debug, Default)]
pub(super) struct PendingRecords {
    /// In the order of their appending. Rows are blocks of a part each.
    parts: Vec<RecordChunk>,
    bytes: usize,
    /// Versions of pipelines that made its decisions.
    versions: Vec<String>,
    /// Buffers for parts to come.
    spares: Vec<Vec<u8>>,
}

/// Records that lie together.
#[derive(Debug)]
pub(super) struct RecordChunk {
    pub(super) extent: BlockExtent,
    /// Shared with those who look at them: whoever reads must not copy them while nobody can append.
    pub(super) bytes: Arc<Vec<u8>>,
}

/// Records one behind the other, in a buffer from before if there is one.
fn joined(buffer: Option<Vec<u8>>, records: &[&[u8]]) -> Arc<Vec<u8>> {
    let mut buffer = buffer.unwrap_or_default();
    buffer.reserve(records.iter().map(|records| records.len()).sum::<usize>().max(BLOCK_BYTES));
    records.iter().for_each(|records| buffer.extend_from_slice(records));
    Arc::new(buffer)
}

/// Adds the versions that are not there yet.
fn add_versions(all: &mut Vec<String>, versions: &[String]) {
    for version in versions {
        if !all.contains(version) {
            all.push(version.clone());
        }
    }
}

impl PendingRecords {
    pub(super) fn push(&mut self, id: RecordId, arrival: Time, bytes: &[u8]) {
        let extent = BlockExtent { first: id, last: id, arrival, count: 1 };
        self.bytes += bytes.len();
        match self.parts.last_mut().filter(|part| part.bytes.len() < BLOCK_BYTES) {
            Some(part) => {
                part.extent = part.extent.and(extent);
                match Arc::get_mut(&mut part.bytes) {
                    Some(before) => before.extend_from_slice(bytes),
                    // Somebody is looking at it.
                    None => part.bytes = joined(self.spares.pop(), &[&part.bytes, bytes]),
                }
            }
            None => self.parts.push(RecordChunk { extent, bytes: joined(self.spares.pop(), &[bytes]) }),
        }
    }

    /// Notes of which versions its decisions may be.
    pub(super) fn of_versions(&mut self, versions: &[String]) {
        add_versions(&mut self.versions, versions);
    }

    /// Puts what was before it in front.
    fn put_back(&mut self, before: &PendingRecords) {
        let again = before
            .parts
            .iter()
            .map(|part| RecordChunk { extent: part.extent, bytes: Arc::clone(&part.bytes) });
        self.parts.splice(..0, again);
        self.bytes += before.bytes;
        add_versions(&mut self.versions, &before.versions);
    }

    /// Takes its first parts, of so many bytes or a little less, but one at least.
    fn take(&mut self, bytes_max: usize) -> PendingRecords {
        let mut bytes = 0;
        let fits = |part: &&RecordChunk| {
            bytes += part.bytes.len();
            bytes <= bytes_max
        };
        let count = self.parts.iter().take_while(fits).count().max(1).min(self.parts.len());
        let parts: Vec<RecordChunk> = self.parts.drain(..count).collect();
        let bytes = parts.iter().map(|part| part.bytes.len()).sum();
        self.bytes -= bytes;
        let versions = match self.parts.is_empty() {
            true => std::mem::take(&mut self.versions),
            false => self.versions.clone(),
        };
        PendingRecords { parts, bytes, versions, spares: Vec::new() }
    }

    /// The buffers of what was written, but for those that held a huge record.
    fn into_spares(self) -> Vec<Vec<u8>> {
        let buffers = self.parts.into_iter().filter_map(|part| {
            let mut buffer = Arc::into_inner(part.bytes)?;
            buffer.clear();
            Some(buffer)
        });
        buffers.filter(|buffer| buffer.capacity() <= 2 * BLOCK_BYTES).take(SPARES_MAX).collect()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// Bytes of its records.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn parts(&self) -> &[RecordChunk] {
        &self.parts
    }

    /// All that it holds.
    fn extent(&self) -> Option<BlockExtent> {
        self.parts.iter().map(|part| part.extent).reduce(BlockExtent::and)
    }

    /// The greatest id.
    pub(super) fn last(&self) -> Option<RecordId> {
        self.parts.iter().map(|part| part.extent.last).max()
    }

    pub(super) fn may_hold(&self, id: RecordId) -> bool {
        self.parts.iter().any(|part| part.extent.holds(id))
    }
}

/// The newest segment, open to be written.
struct NewestSegment {
    writer: segment::RowSegmentWriter,
    /// The versions of its decisions, as far as they were written since it was opened, and the columns that these have.
    versions: Vec<String>,
    layout: ColumnLayout,
}

impl NewestSegment {
    fn new(writer: segment::RowSegmentWriter) -> NewestSegment {
        NewestSegment { writer, versions: Vec::new(), layout: ColumnLayout::default() }
    }
}

impl JournalCore {
    /// The writer thread.
    pub(super) fn write_all(&self) {
        let mut open: Option<NewestSegment> = None;
        // Memory of what was written before: taking it anew and letting it grow would cost more than what is put there.
        let mut spares = Vec::new();
        // A block is written in part, and is to be cut off before anything else is written.
        let mut is_torn = false;
        // Something was left that was appended before the interval began.
        let mut is_late = false;
        let interval = match self.durability {
            Durability::Interval(span) => Duration::from_micros(span.0.unsigned_abs()).min(GATHER),
            Durability::Sync | Durability::None => GATHER,
        };
        loop {
            let (batch, sync, syncs) = {
                let mut state = self.state.lock();
                let idle = |state: &mut JournalState| {
                    // Whether there is room again is tried each interval, and once more before the end.
                    if state.full.is_some() {
                        return !state.closing;
                    }
                    let urgent = self.durability == Durability::Sync && !state.pending.is_empty();
                    let asked = state.syncs_wanted > state.syncs_done;
                    !(urgent
                        || asked
                        || is_late
                        || state.is_closing_newest
                        || state.closing
                        || state.pending.bytes() >= GROUP_BYTES)
                };
                if idle(&mut state) {
                    self.wake.wait_while_for(&mut state, idle, interval);
                }
                if state.closing && state.pending.is_empty() {
                    return;
                }
                // Here nothing of a batch is written half.
                if std::mem::take(&mut state.is_closing_newest)
                    && let Some(newest) =
                        state.segments.last_mut().filter(|newest| newest.summary.records > 0)
                {
                    newest.summary.is_closed = true;
                }
                let asked = state.syncs_wanted > state.syncs_done;
                let sync = asked || !matches!(self.durability, Durability::None);
                // Who waits for room waits for one part of what a slow disk has left, and who waits for all, for all.
                let bytes_max = if asked || state.closing { usize::MAX } else { WRITTEN_BYTES_MAX };
                state.writing = Arc::new(state.pending.take(bytes_max));
                is_late = !state.pending.is_empty();
                state.pending.spares.append(&mut spares);
                state.pending.spares.truncate(SPARES_MAX);
                (Arc::clone(&state.writing), sync, state.syncs_wanted)
            };
            let mut result = if is_torn { self.take_back(open.as_mut()) } else { Ok(()) };
            if result.is_ok() {
                result = self.write_batch(&mut open, &batch, sync);
                is_torn = result.as_ref().is_err_and(is_lack);
            }
            if is_torn {
                // Taken back at once, so that readers and the next start find whole blocks; if that cannot be, before the
                // next attempt.
                match self.take_back(open.as_mut()) {
                    Ok(()) => is_torn = false,
                    Err(error) if is_lack(&error) => {}
                    Err(error) => result = Err(error),
                }
            }
            let mut state = self.state.lock();
            match result {
                Ok(()) => {
                    state.safe = state.safe.max(batch.last());
                    state.syncs_done = if sync { syncs } else { state.syncs_done };
                    if state.full.take().is_some() {
                        tracing::info!("the journal takes decisions again");
                    }
                }
                Err(error) if is_lack(&error) => {
                    state.pending.put_back(&batch);
                    if state.full.replace(error.to_string()).is_none() {
                        tracing::error!(%error, "the journal takes no decisions for now");
                    }
                }
                Err(error) => state.poisoned = Some(error.to_string()),
            }
            state.writing = Arc::default();
            let stop = state.poisoned.is_some() || (state.closing && state.full.is_some());
            drop(state);
            // Somebody may be reading it.
            spares = Arc::into_inner(batch).map(PendingRecords::into_spares).unwrap_or_default();
            self.written.notify(usize::MAX);
            if stop {
                return;
            }
        }
    }

    /// Cuts off what was written of a batch that had no room.
    fn take_back(&self, open: Option<&mut NewestSegment>) -> Result<(), JournalError> {
        let bytes = self.state.lock().segments.last().map(|segment| segment.summary.bytes);
        match (open, bytes) {
            (Some(open), Some(bytes)) => open.writer.cut(bytes),
            // Of a segment that could not be opened nothing was written.
            _ => Ok(()),
        }
    }

    fn write_batch(
        &self,
        open: &mut Option<NewestSegment>,
        batch: &PendingRecords,
        sync: bool,
    ) -> Result<(), JournalError> {
        let Some(extent) = batch.extent() else {
            return match open {
                Some(open) if sync => open.writer.sync(),
                _ => Ok(()),
            };
        };
        // The newest segment goes on unless it is full.
        let newest = self.state.lock().segments.last().and_then(|segment| {
            let SegmentSummary { is_closed, bytes, from, .. } = segment.summary;
            let full = bytes >= self.options.segment || extent.arrival - from >= self.options.rotate;
            let goes_on = !full && !is_closed && !files::is_columnar(&segment.file);
            goes_on.then(|| segment.file.clone())
        });
        if newest.is_none()
            && let Some(mut full) = open.take()
        {
            // Nobody will sync it later, whoever asks.
            full.writer.sync()?;
        }
        let open = match (&mut *open, newest) {
            (Some(open), _) => open,
            (None, Some(file)) => open.insert(NewestSegment::new(segment::RowSegmentWriter::append(&file)?)),
            (None, None) => {
                let first = extent.first;
                let file = JournalFile::new(&self.device, format!("{first}.{}", files::ROWS));
                let writer = segment::RowSegmentWriter::create(&file).and_then(|writer| {
                    self.device.sync_names().map_err(disk::sync_error).map_err(|error| file.error(error))?;
                    self.note_segments(Some(first))?;
                    Ok(writer)
                });
                // It will be made again under this name, or under that of an earlier record.
                let writer = writer.inspect_err(|_| drop(file.remove()))?;
                let segment = SegmentFile {
                    first,
                    file,
                    summary: SegmentSummary::empty(),
                    stays: false,
                    versions: Some(Vec::new()),
                    is_uploaded: false,
                    is_erased: false,
                    pipelines: None,
                };
                self.state.lock().segments.push(segment);
                self.rotated.notify_one();
                open.insert(NewestSegment::new(writer))
            }
        };
        let heads = match self.columns_of(open, batch, extent) {
            Some(file) => vec![open.writer.write_columns(&extent, &file)?],
            None => {
                let rows = batch.parts.iter().map(|part| open.writer.write(&part.extent, &part.bytes));
                rows.collect::<Result<_, _>>()?
            }
        };
        if sync {
            open.writer.sync()?;
        }
        if let Some(segment) = self.state.lock().segments.last_mut() {
            heads.iter().for_each(|head| segment.summary.add(head));
            if let Some(versions) = &mut segment.versions {
                add_versions(versions, &batch.versions);
            }
        }
        Ok(())
    }

    /// The records by columns, if they are enough for that.
    fn columns_of(
        &self,
        open: &mut NewestSegment,
        batch: &PendingRecords,
        extent: BlockExtent,
    ) -> Option<Vec<u8>> {
        let known = open.versions.len();
        add_versions(&mut open.versions, &batch.versions);
        if open.versions.len() > known {
            open.layout = conversion::layout(&self.device, &open.versions);
        }
        if batch.bytes < open.layout.len() * COLUMN_BYTES {
            return None;
        }
        let write = || {
            let mut file = columns::ColumnarWriter::over(
                Vec::new(),
                &self.device.path(""),
                open.layout.clone(),
                ColumnsFormat::Sealed,
            )?;
            file.expect(extent.count);
            let mut count = 0;
            for part in &batch.parts {
                count += file.push_all(&part.bytes, part.extent.arrival)?;
            }
            Ok::<_, JournalError>((count == extent.count).then(|| file.finish()))
        };
        match write() {
            Ok(Some(Ok(file))) => Some(file),
            Ok(Some(Err(error))) | Err(error) => {
                tracing::warn!(%error, "records are written as rows");
                None
            }
            Ok(None) => None,
        }
    }
}

/// Returns true if all that is wrong is that something is lacking for now.
pub(super) fn is_lack(error: &JournalError) -> bool {
    matches!(error, JournalError::Io { error, .. } if disk::is_lack(error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Pending records stay in order, and none is lost, however often some are taken and put back.
        #[test]
        fn what_waits_keeps_its_order(
            steps in prop::collection::vec((0usize..4, 0usize..3 * BLOCK_BYTES), 1..30),
        ) {
            let (mut pending, mut taken, mut pushed) = (PendingRecords::default(), Vec::new(), 0u64);
            // What somebody looks at, and what that was when they began.
            let mut seen: Vec<(Arc<Vec<u8>>, Vec<u8>)> = Vec::new();
            for (step, bytes) in steps {
                match step {
                    3 => seen.extend(pending.parts().iter().map(|part| (Arc::clone(&part.bytes), part.bytes.to_vec()))),
                    0 => {
                        pushed += 1;
                        pending.push(RecordId(pushed), Time(pushed as i64), &vec![pushed as u8; bytes]);
                    }
                    1 => {
                        let part = pending.take(bytes);
                        prop_assert!(part.bytes <= bytes || part.parts.len() == 1);
                        prop_assert_eq!(part.last(), part.extent().map(|extent| extent.last));
                        taken.push(part);
                    }
                    _ => {
                        if let Some(part) = taken.pop() {
                            pending.put_back(&part);
                        }
                    }
                }
                prop_assert!(seen.iter().all(|(now, before)| **now == *before));
                let all = || taken.iter().chain([&pending]);
                let extents: Vec<BlockExtent> = all().flat_map(|it| &it.parts).map(|part| part.extent).collect();
                prop_assert_eq!(extents.iter().map(|it| u64::from(it.count)).sum::<u64>(), pushed);
                prop_assert!(extents.windows(2).all(|pair| pair[0].last.0 + 1 == pair[1].first.0));
                for it in all() {
                    prop_assert_eq!(it.bytes, it.parts.iter().map(|part| part.bytes.len()).sum::<usize>());
                    prop_assert_eq!(it.is_empty(), it.parts.is_empty());
                }
            }
        }
    }
}
