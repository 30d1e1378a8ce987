//! Taking out of a journal all that it has of some keys.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

use disk::{Device, FileDevice};
use event::{Shingle, Time};

use super::columns::{self, ColumnarSegment, ColumnsFormat};
use super::file::JournalFile;
use super::files::{self, SegmentBlocks, segments_on};
use super::manifest::JournalManifest;
use super::rewriting::RewriteOutcome;
use super::segment::{self, BlockExtent};
use super::{
    DecisionRow, Journal, JournalArchive, JournalError, Record, ReportRecord, SkippedData, io_error,
    segment_error,
};
use crate::id::RecordId;

/// The counts of the records that were taken out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ErasedRecords {
    /// Decisions on events that had one of the keys.
    pub decisions: u64,
    /// The number of records of feedback on these decisions.
    pub feedback: u64,
}

/// Takes out every decision whose event had a key of one of these shingles, of whatever kind, and all feedback on it, and
/// what reporters said who have one of them.
/// Nobody may have the journal open. Segments that hold none are not touched; others are written anew beside and put in
/// their places one by one, with their age. Interrupted, it is to be begun again. With `pretend` nothing is changed.
/// What an interruption left of segments
/// that were being written goes, too. Takes memory for a block, and some bytes for each decision that is taken out.
///
/// # Errors
/// If something cannot be read or written. If a block is damaged nothing was changed.
pub fn erase(
    directory: &Path,
    shingles: &HashSet<Shingle>,
    pretend: bool,
) -> Result<ErasedRecords, JournalError> {
    let mut erased = ErasedRecords::default();
    let mut decisions: HashSet<RecordId> = HashSet::new();
    for block in JournalArchive::open(directory)?.oldest_first() {
        let block = block?;
        for (id, record) in block.records().map_err(|error| block.error(error))? {
            match record {
                Record::Decision(row) if row.keys.iter().any(|key| shingles.contains(&key.shingle)) => {
                    erased.decisions += 1;
                    decisions.insert(id);
                }
                record => erased.feedback += u64::from(is_feedback(&record, &decisions, shingles)),
            }
        }
    }
    if pretend || !directory.exists() {
        return Ok(erased);
    }
    let device: Arc<dyn Device> = Arc::new(FileDevice::unlocked(directory).map_err(io_error(directory))?);
    // They may have what is erased, too.
    files::mend(&device)?;
    if erased.decisions + erased.feedback == 0 {
        return Ok(erased);
    }
    let segments = segments_on(&device)?;
    for (index, (_, file)) in segments.iter().enumerate() {
        without(file, index + 1 == segments.len(), &decisions, shingles)?;
    }
    device.sync_names().map_err(io_error(directory))?;
    JournalManifest::recount(&device)?;
    Ok(erased)
}

/// The report of what [`Journal::erase`] took out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JournalErasure {
    /// Decisions and feedback.
    pub records: ErasedRecords,
    /// Segments that cannot be read whole, and may still have some.
    pub damaged: u64,
    /// True if it was ended before all was done.
    pub is_ended: bool,
}

impl Journal {
    /// Takes out of an open journal what [`erase`] takes out of one that nobody has open, as far as it was logged by now. Segments
    /// that have any are written anew one by one, by columns, with their age; decisions are made and logged meanwhile. `each`
    /// hears of the decisions that go, `tell` of the segments that are looked through, and of how many there are. With `pretend`
    /// nothing is changed. Blocks; takes memory for a block, and some bytes for each decision that is taken out.
    ///
    /// # Errors
    /// If something cannot be read or written. It is to be begun again then, as after a crash.
    pub fn erase(
        &self,
        shingles: &HashSet<Shingle>,
        pretend: bool,
        each: &mut dyn FnMut(&DecisionRow),
        tell: &mut dyn FnMut(u64, u64),
        stop: &dyn Fn() -> bool,
    ) -> Result<JournalErasure, JournalError> {
        self.close_newest()?;
        let mut erased = JournalErasure::default();
        let firsts = self.shared.firsts();
        // Each is looked through, and some are written.
        let (mut done, all) = (0, firsts.len() as u64);
        let mut decisions: HashSet<RecordId> = HashSet::new();
        let mut touched = Vec::new();
        for first in firsts {
            let Some(file) = self.shared.file_of(first) else { continue };
            let (mut has_any, mut skipped) = (false, SkippedData::default());
            for block in SegmentBlocks::open(&file, false)?.into_iter().flat_map(SegmentBlocks::forwards) {
                for (id, record) in skipped.records(block)? {
                    let is_gone = match &record {
                        Record::Decision(row)
                            if row.keys.iter().any(|key| shingles.contains(&key.shingle)) =>
                        {
                            erased.records.decisions += 1;
                            decisions.insert(id);
                            each(row);
                            true
                        }
                        record => {
                            let is_gone = is_feedback(record, &decisions, shingles);
                            erased.records.feedback += u64::from(is_gone);
                            is_gone
                        }
                    };
                    has_any |= is_gone;
                }
                if stop() {
                    return Ok(JournalErasure { is_ended: true, ..erased });
                }
            }
            erased.damaged += u64::from(!skipped.is_empty());
            has_any.then(|| touched.push(first));
            done += 1;
            tell(done, all);
        }
        if pretend {
            return Ok(erased);
        }
        let goes = |record: &(RecordId, Record)| {
            decisions.contains(&record.0) || is_feedback(&record.1, &decisions, shingles)
        };
        for first in touched {
            let outcome = self.shared.rewrite(first, &goes, stop);
            self.known.groups.forget();
            match outcome? {
                RewriteOutcome::Stopped => return Ok(JournalErasure { is_ended: true, ..erased }),
                RewriteOutcome::Damaged | RewriteOutcome::Untouched | RewriteOutcome::Rewritten(_) => {}
            }
        }
        Ok(erased)
    }
}

/// Takes these decisions, the feedback on them, and what was said by these reporters out of a file by columns, and returns the
/// number of records that are left. The file stays, also without any.
///
/// # Errors
/// If a file cannot be read or written, or has a damaged block.
pub fn erase_of_file(
    device: &Arc<dyn Device>,
    name: &str,
    decisions: &HashSet<RecordId>,
    reporters: &HashSet<Shingle>,
) -> Result<u64, JournalError> {
    let file = JournalFile::new(device, name);
    without(&file, true, decisions, reporters)?;
    Ok(files::count(&file)?.unwrap_or_default())
}

/// Returns true if a record is feedback on one of these decisions, or by one of these reporters.
fn is_feedback(record: &Record, decisions: &HashSet<RecordId>, reporters: &HashSet<Shingle>) -> bool {
    match record {
        Record::Decision(_) => false,
        Record::Report(ReportRecord { decision, by, .. }) => {
            decisions.contains(decision) || by.is_some_and(|by| reporters.contains(&by))
        }
    }
}

/// Writes a segment anew without these decisions and what was said of them or by these reporters, in its form, if it has
/// any. The newest one is kept even if it is empty: it is appended to.
fn without(
    file: &JournalFile,
    newest: bool,
    decisions: &HashSet<RecordId>,
    reporters: &HashSet<Shingle>,
) -> Result<(), JournalError> {
    let is_erased = |(id, record): &(RecordId, Record)| {
        decisions.contains(id) || is_feedback(record, decisions, reporters)
    };
    let blocks = || files::oldest_first(vec![file.clone()]);
    let mut is_touched = false;
    for block in blocks() {
        is_touched |= block?.records().map_err(segment_error(&file.path()))?.iter().any(is_erased);
    }
    if !is_touched {
        return Ok(());
    }
    let half = file.with_extension(files::HALF);
    let mut writer = SegmentRewriter::create(file, &half)?;
    let mut is_empty = true;
    for block in blocks() {
        let block = block?;
        let mut records = block.records().map_err(segment_error(&file.path()))?;
        records.retain(|record| !is_erased(record));
        is_empty &= records.is_empty();
        writer.write(&records, block.head.arrival)?;
    }
    writer.finish()?;
    if is_empty && !newest {
        half.remove()?;
        return file.remove();
    }
    half.place(file)
}

/// A segment that is written anew.
pub(super) enum SegmentRewriter {
    Rows(segment::RowSegmentWriter),
    Columns(Box<columns::ColumnarWriter>),
}

impl SegmentRewriter {
    /// In the form of another one, and by columns with the same ones.
    pub(super) fn create(file: &JournalFile, half: &JournalFile) -> Result<SegmentRewriter, JournalError> {
        if !files::is_columnar(file) {
            return Ok(SegmentRewriter::Rows(segment::RowSegmentWriter::create(half)?));
        }
        let old = ColumnarSegment::open(file.open_present()?).map_err(segment_error(&file.path()))?;
        Ok(SegmentRewriter::Columns(Box::new(columns::ColumnarWriter::create(
            half,
            old.layout().clone(),
            ColumnsFormat::Sealed,
        )?)))
    }

    pub(super) fn write(
        &mut self,
        records: &[(RecordId, Record)],
        arrival: Time,
    ) -> Result<(), JournalError> {
        let ids = || records.iter().map(|(id, _)| *id);
        let (Some(first), Some(last)) = (ids().min(), ids().max()) else { return Ok(()) };
        let bytes: Vec<u8> = records.iter().flat_map(|(id, record)| record.encode(*id)).collect();
        match self {
            // As many as the block had, or fewer.
            SegmentRewriter::Rows(writer) => {
                let extent = BlockExtent { first, last, arrival, count: records.len() as u32 };
                writer.write(&extent, &bytes).map(drop)
            }
            SegmentRewriter::Columns(writer) => writer.push_all(&bytes, arrival).map(drop),
        }
    }

    pub(super) fn finish(self) -> Result<(), JournalError> {
        match self {
            SegmentRewriter::Rows(_) => Ok(()),
            SegmentRewriter::Columns(writer) => writer.finish().map(drop),
        }
    }
}
