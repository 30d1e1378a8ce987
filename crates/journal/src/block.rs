//! A block of records, in whichever form its segment has them. All that reads the journal reads blocks.

use std::cell::{OnceCell, RefCell};
use std::collections::BTreeSet;
use std::sync::Arc;

use event::Time;

use super::columns::{ColumnarSegment, ReadColumns};
use super::compression::decompress;
use super::file::JournalFile;
use super::format::{DamagedStretch, SegmentError};
use super::summary::{RecordSummary, SearchProbe, SummaryBuilder};
use super::visitor::{self, FactChoice, RecordVisitor};
use super::{JournalError, Record, segment_error};
use crate::encoding;
use crate::id::RecordId;

/// Mark, checksum of the head, place, length, raw length, count, first id, last id, arrival, checksum of the content.
pub(super) const BLOCK_HEAD_BYTES: usize = 4 + 4 + 8 + 4 + 4 + 4 + 8 + 8 + 8 + 4;

/// The facts known of a block before it is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockInfo {
    /// Smallest id in it.
    pub first: RecordId,
    /// Largest id in it.
    pub last: RecordId,
    /// Latest arrival in it.
    pub arrival: Time,
    /// Records in it.
    pub count: u32,
    /// Its start in the segment.
    pub at: u64,
    /// Length of its content as it is stored.
    pub(super) length: u64,
}

impl BlockInfo {
    /// Returns what is known of a group of a file, unless that does not have it.
    pub(super) fn of_group(columns: &ColumnarSegment, number: usize) -> Option<BlockInfo> {
        let group = columns.group(number)?;
        Some(BlockInfo {
            first: group.first,
            last: group.last,
            arrival: group.arrival,
            count: group.rows,
            at: group.at,
            length: group.bytes,
        })
    }
}

/// Some records of a segment that lie together: compressed rows, or groups of columns, of which only what is wanted
/// is read.
#[derive(Debug)]
pub struct Block {
    /// Its head.
    pub head: BlockInfo,
    content: BlockContent,
    /// The file that it is in, if it is in one.
    file: Option<JournalFile>,
}

#[derive(Debug)]
enum BlockContent {
    /// Records that are not written yet.
    Waiting(RowRecords),
    /// Records as they are stored.
    Rows(StoredRows),
    /// A group of a file.
    Columns(Box<OpenGroup>),
    /// A whole file.
    File(Arc<ColumnarSegment>),
}

/// Records one behind the other.
#[derive(Debug)]
struct RowRecords {
    bytes: Arc<Vec<u8>>,
    /// The ids of the records and where each begins, once somebody has gone through them.
    starts: OnceCell<Vec<(RecordId, usize)>>,
}

/// One zstd frame, which is decompressed once.
#[derive(Debug)]
struct StoredRows {
    content: Vec<u8>,
    /// Its length uncompressed, within a bound, as the head says it.
    bytes: usize,
    records: OnceCell<RowRecords>,
}

impl RowRecords {
    fn new(bytes: Arc<Vec<u8>>) -> RowRecords {
        RowRecords { bytes, starts: OnceCell::new() }
    }

    /// Shows so many records to `look`.
    fn look<'w>(&self, count: u32, look: &mut dyn RecordVisitor<'w>) -> encoding::Result<()> {
        // Known before if two have looked.
        self.starts.set(visitor::look(&self.bytes, count, look)?).or(Ok(()))
    }

    /// The records that are wanted of so many. Of the others nothing is made.
    fn find_all(
        &self,
        count: u32,
        wanted: impl Fn(RecordId) -> bool,
    ) -> encoding::Result<Vec<(RecordId, Record)>> {
        let starts = match self.starts.get() {
            Some(starts) => starts,
            None => &Record::starts(&self.bytes, count)?,
        };
        let wanted = starts.iter().filter(|(id, _)| wanted(*id));
        wanted.map(|(_, start)| Record::decode_at(&self.bytes, *start)).collect()
    }
}

impl StoredRows {
    /// The records; `None` if they are damaged.
    fn records(&self) -> Option<&RowRecords> {
        if self.records.get().is_none() {
            let bytes = decompress(&self.content, self.bytes).ok()?;
            return Some(self.records.get_or_init(|| RowRecords::new(Arc::new(bytes))));
        }
        self.records.get()
    }
}

/// A group of a file, and what was read of it, which its file keeps for those who come next.
#[derive(Debug)]
struct OpenGroup {
    columns: Arc<ColumnarSegment>,
    number: usize,
    read: RefCell<ReadColumns>,
}

impl OpenGroup {
    fn new(columns: &Arc<ColumnarSegment>, number: usize) -> OpenGroup {
        let read = RefCell::new(columns.read_before(number));
        OpenGroup { columns: Arc::clone(columns), number, read }
    }
}

impl Drop for OpenGroup {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.columns.hand_in(self.number, std::mem::take(self.read.get_mut()));
        }
    }
}

impl Block {
    pub(super) fn of_rows(head: BlockInfo, content: Vec<u8>, raw_bytes: usize) -> Block {
        let rows = StoredRows { content, bytes: raw_bytes, records: OnceCell::new() };
        Block { head, content: BlockContent::Rows(rows), file: None }
    }

    /// Records on their way to a file.
    pub(super) fn of_waiting(head: BlockInfo, bytes: Arc<Vec<u8>>) -> Block {
        Block { head, content: BlockContent::Waiting(RowRecords::new(bytes)), file: None }
    }

    /// A group of a file, unless it does not have it.
    pub(super) fn of_columns(columns: &Arc<ColumnarSegment>, number: usize) -> Option<Block> {
        let head = BlockInfo::of_group(columns, number)?;
        let content = BlockContent::Columns(Box::new(OpenGroup::new(columns, number)));
        Some(Block { head, content, file: None })
    }

    /// A file by columns that is the content of a block.
    pub(super) fn of_file(head: BlockInfo, columns: ColumnarSegment) -> Block {
        Block { head, content: BlockContent::File(Arc::new(columns)), file: None }
    }

    /// The file by columns that it is, if it is one.
    pub(super) fn file(&self) -> Option<&Arc<ColumnarSegment>> {
        match &self.content {
            BlockContent::File(columns) => Some(columns),
            _ => None,
        }
    }

    /// The block in this file.
    pub(super) fn in_file(self, file: &JournalFile) -> Block {
        Block { file: Some(file.clone()), ..self }
    }

    /// Returns the error that says what is wrong with the block, and where.
    pub fn error(&self, error: SegmentError) -> JournalError {
        let SegmentError::Damaged(_) = error else {
            return segment_error(&self.file.as_ref().map(JournalFile::path).unwrap_or_default())(error);
        };
        let name = self.file.as_ref().map_or("", JournalFile::name);
        let (from, records) = (self.head.at, u64::from(self.head.count));
        let stretch = DamagedStretch { from, to: from + self.disk_bytes(), records, is_tail: false };
        JournalError::Damaged(stretch.in_file(name))
    }

    fn damaged(&self) -> SegmentError {
        SegmentError::Damaged(self.head.at)
    }

    /// The records of stored rows.
    fn records_of<'r>(&self, rows: &'r StoredRows) -> Result<&'r RowRecords, SegmentError> {
        rows.records().ok_or_else(|| self.damaged())
    }

    /// Returns true if it is by columns, so that what is not wanted is not read.
    pub fn is_columnar(&self) -> bool {
        matches!(self.content, BlockContent::Columns(..) | BlockContent::File(_))
    }

    /// Bytes that it takes up on disk.
    pub fn disk_bytes(&self) -> u64 {
        match self.content {
            BlockContent::Rows(_) | BlockContent::File(_) => BLOCK_HEAD_BYTES as u64 + self.head.length,
            BlockContent::Columns(..) | BlockContent::Waiting(_) => self.head.length,
        }
    }

    /// The bytes of its records, as rows have them.
    pub(super) fn bytes(&self) -> Result<Vec<u8>, SegmentError> {
        match &self.content {
            BlockContent::Waiting(records) => Ok(records.bytes.to_vec()),
            BlockContent::Rows(rows) => Ok(self.records_of(rows)?.bytes.to_vec()),
            BlockContent::Columns(open) => {
                let mut bytes = Vec::new();
                let group = (open.number, &mut *open.read.borrow_mut());
                open.columns.rows(group, |_| true, FactChoice::All, &mut bytes)?;
                Ok(bytes)
            }
            BlockContent::File(columns) => {
                let mut bytes = Vec::new();
                for number in 0..columns.groups() {
                    columns
                        .rows((number, &mut ReadColumns::default()), |_| true, FactChoice::All, &mut bytes)
                        .map_err(|_| self.damaged())?;
                }
                Ok(bytes)
            }
        }
    }

    /// The records.
    pub fn records(&self) -> Result<Vec<(RecordId, Record)>, SegmentError> {
        let records = Record::decode_all(&self.bytes()?);
        if records.len() == self.head.count as usize { Ok(records) } else { Err(self.damaged()) }
    }

    /// The record of this id, if it is here.
    pub(super) fn find(&self, id: RecordId) -> Result<Option<Record>, SegmentError> {
        Ok(self.find_all(&BTreeSet::from([id]), FactChoice::All)?.pop().map(|(_, record)| record))
    }

    /// The records of these ids that are here, for one reading of the block, with these facts at least.
    pub fn find_all(
        &self,
        ids: &BTreeSet<RecordId>,
        facts: FactChoice<'_>,
    ) -> Result<Vec<(RecordId, Record)>, SegmentError> {
        let may_hold = |first, last| ids.range(first..=last).next().is_some();
        if self.head.first > self.head.last || !may_hold(self.head.first, self.head.last) {
            return Ok(Vec::new());
        }
        let wanted = |id: RecordId| ids.contains(&id);
        match &self.content {
            BlockContent::Waiting(records) => {
                records.find_all(self.head.count, wanted).map_err(|_| self.damaged())
            }
            BlockContent::Rows(rows) => {
                let records = self.records_of(rows)?;
                records.find_all(self.head.count, wanted).map_err(|_| self.damaged())
            }
            BlockContent::Columns(open) => {
                open.columns.find_all((open.number, &mut open.read.borrow_mut()), ids, facts)
            }
            BlockContent::File(columns) => {
                let mut found = Vec::new();
                for number in 0..columns.groups() {
                    let group = (number, &mut ReadColumns::default());
                    found.extend(columns.find_all(group, ids, facts).map_err(|_| self.damaged())?);
                }
                Ok(found)
            }
        }
    }

    /// Returns false if no decision here fits, by what the file says of its groups; `None` if nothing is said.
    pub(super) fn may_hold(&self, probe: &SearchProbe) -> Result<Option<bool>, SegmentError> {
        match &self.content {
            BlockContent::Columns(open) => open.columns.may_hold(open.number, probe).map(Some),
            BlockContent::File(columns) => {
                for number in 0..columns.groups() {
                    if columns.may_hold(number, probe)? {
                        return Ok(Some(true));
                    }
                }
                Ok(Some(false))
            }
            BlockContent::Waiting(_) | BlockContent::Rows(_) => Ok(None),
        }
    }

    /// Returns false if there is no feedback here, as far as that is known without reading it.
    pub(super) fn may_have_reports(&self) -> bool {
        match &self.content {
            BlockContent::Columns(open) => open.columns.has_reports(open.number),
            BlockContent::File(columns) => (0..columns.groups()).any(|number| columns.has_reports(number)),
            BlockContent::Waiting(_) | BlockContent::Rows(_) => true,
        }
    }

    /// Returns the summary of written rows, which is made, or of a group, which is read; `None` of others, such as a file of several
    /// groups, and of what is damaged.
    pub(super) fn summary(&self) -> Option<RecordSummary> {
        match &self.content {
            BlockContent::Rows(rows) => SummaryBuilder::of(&rows.records()?.bytes, self.head.count),
            BlockContent::Columns(open) => open.columns.summary(open.number).ok()?,
            BlockContent::File(columns) if columns.groups() == 1 => columns.summary(0).ok()?,
            BlockContent::Waiting(_) | BlockContent::File(_) => None,
        }
    }

    /// The length of its summary in the file; 0 if it has none there.
    pub(super) fn summary_bytes(&self) -> u64 {
        match &self.content {
            BlockContent::Columns(open) => open.columns.filters_bytes(open.number),
            BlockContent::File(columns) if columns.groups() == 1 => columns.filters_bytes(0),
            BlockContent::Waiting(_) | BlockContent::Rows(_) | BlockContent::File(_) => 0,
        }
    }

    /// Shows the records to `look`, and reads no more than that wants.
    pub fn look<'w>(&self, look: &mut dyn RecordVisitor<'w>) -> Result<(), SegmentError> {
        match &self.content {
            BlockContent::Waiting(records) => records.look(self.head.count, look).map_err(|_| self.damaged()),
            BlockContent::Rows(rows) => {
                self.records_of(rows)?.look(self.head.count, look).map_err(|_| self.damaged())
            }
            BlockContent::Columns(open) => {
                open.columns.look((open.number, &mut open.read.borrow_mut()), look)
            }
            BlockContent::File(columns) => (0..columns.groups())
                .try_for_each(|number| columns.look((number, &mut ReadColumns::default()), look))
                .map_err(|_| self.damaged()),
        }
    }
}
