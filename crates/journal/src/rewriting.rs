//! Closed segments of an open journal are written anew without some of their records.
//!
//! ```text
//! blocks ─► records that stay ─► id.half, by columns ─► the list is told how many ─► id.parquet ─► readers are sent there
//! ```
//!
//! Readers and the writer go on: who has the old file open reads it to its end. After a crash there is the one or the other.

use super::columns::{ColumnarSegment, ColumnarWriter, ColumnsFormat};
use super::conversion;
use super::file::JournalFile;
use super::files::{self, SegmentBlocks};
use super::record::Record;
use super::{Journal, JournalCore, JournalError, segment_error};
use crate::id::RecordId;

/// The outcome of writing a segment anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RewriteOutcome {
    /// The segment has none of the records, or is not there any more.
    Untouched,
    /// The number of records that were taken out.
    Rewritten(u64),
    /// A part of it cannot be read: it stays as it is.
    Damaged,
    /// The rewriting was ended before that.
    Stopped,
}

/// Says of a record whether it goes.
pub(super) type RecordFilter<'a> = dyn Fn(&(RecordId, Record)) -> bool + 'a;

impl Journal {
    /// Has what was appended so far be in closed segments. Blocks.
    pub(super) fn close_newest(&self) -> Result<(), JournalError> {
        self.sync()?;
        self.begin_anew();
        // The writer closes it before it writes anything else.
        self.sync()
    }
}

impl JournalCore {
    /// The segments, oldest first.
    pub(super) fn firsts(&self) -> Vec<RecordId> {
        self.state.lock().segments.iter().map(|segment| segment.first).collect()
    }

    /// The file of a segment as it is now.
    pub(super) fn file_of(&self, first: RecordId) -> Option<JournalFile> {
        let state = self.state.lock();
        state.segments.iter().find(|segment| segment.first == first).map(|segment| segment.file.clone())
    }

    /// Writes a segment, to which nothing is added any more, anew without the records that go.
    ///
    /// # Errors
    /// What cannot be read or written. The segment is as it was then.
    pub(super) fn rewrite(
        &self,
        first: RecordId,
        goes: &RecordFilter<'_>,
        stop: &dyn Fn() -> bool,
    ) -> Result<RewriteOutcome, JournalError> {
        let _alone = self.rewriting.lock();
        let Some(file) = self.file_of(first) else { return Ok(RewriteOutcome::Untouched) };
        let half = file.with_extension(files::HALF);
        let outcome = self.rewrite_file(first, &file, &half, goes, stop);
        if !matches!(outcome, Ok(RewriteOutcome::Rewritten(_))) {
            // It is of no use; why is told.
            let _ = half.remove();
        }
        match outcome {
            Err(JournalError::Damaged(_) | JournalError::Segment { .. }) => Ok(RewriteOutcome::Damaged),
            outcome => outcome,
        }
    }

    fn rewrite_file(
        &self,
        first: RecordId,
        file: &JournalFile,
        half: &JournalFile,
        goes: &RecordFilter<'_>,
        stop: &dyn Fn() -> bool,
    ) -> Result<RewriteOutcome, JournalError> {
        let blocks = || {
            Ok::<_, JournalError>(
                SegmentBlocks::open(file, false)?.into_iter().flat_map(SegmentBlocks::forwards),
            )
        };
        let (mut gone, mut versions) = (0, Vec::new());
        for block in blocks()? {
            for record in block?.records().map_err(segment_error(&file.path()))? {
                gone += u64::from(goes(&record));
                if let (_, Record::Decision(row)) = record
                    && !versions.contains(&row.version)
                {
                    versions.push(row.version);
                }
            }
            if stop() {
                return Ok(RewriteOutcome::Stopped);
            }
        }
        if gone == 0 {
            return Ok(RewriteOutcome::Untouched);
        }
        let layout = match files::is_columnar(file) {
            true => {
                let old = ColumnarSegment::open(file.open_present()?);
                old.map_err(segment_error(&file.path()))?.layout().clone()
            }
            false => conversion::layout(file.device(), &versions),
        };
        let mut writer = ColumnarWriter::create(half, layout, ColumnsFormat::Sealed)?;
        for block in blocks()? {
            let block = block?;
            let records = block.records().map_err(segment_error(&file.path()))?;
            let kept = records.into_iter().filter(|record| !goes(record));
            let bytes: Vec<u8> = kept.flat_map(|(id, record)| record.encode(id)).collect();
            writer.push_all(&bytes, block.head.arrival)?;
            if stop() {
                return Ok(RewriteOutcome::Stopped);
            }
        }
        writer.finish()?;
        let written = ColumnarSegment::open(half.open_present()?).map_err(segment_error(&half.path()))?;
        let summary = files::of_columns(&written);
        drop(written);
        {
            // Before the file is there: one that has fewer than it is known to have would be taken for damaged.
            let mut manifest = self.manifest.lock();
            manifest.set(first, summary.records);
            manifest.write(&*self.device)?;
        }
        let columns = file.with_extension(files::COLUMNS);
        half.place(&columns)?;
        {
            let mut state = self.state.lock();
            if let Some(segment) = state.segments.iter_mut().find(|segment| segment.first == first) {
                (segment.file, segment.summary) = (columns.clone(), summary);
                (segment.is_erased, segment.is_uploaded, segment.pipelines) = (true, false, None);
            }
        }
        if columns.name() != file.name() {
            file.remove()?;
        }
        Ok(RewriteOutcome::Rewritten(gone))
    }
}
