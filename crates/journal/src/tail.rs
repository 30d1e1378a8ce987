//! A journal, followed by somebody who hands its records on: in the order in which they lie there, from a place that is kept.
//!
//! A place is the last record that was handed on, and its segment. It holds whatever becomes of the segment: rows become
//! columns, and some may be erased. If the record itself is not there any more, its segment is read from its beginning, so that
//! records may come twice and none is left out.

use serde::{Deserialize, Serialize};

use super::file::JournalFile;
use super::files::SegmentBlocks;
use super::{Journal, JournalError, Record, SkippedData};
use crate::id::RecordId;

/// A place in a journal. The default is its beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JournalPosition {
    /// The first id of the segment.
    pub segment: Option<RecordId>,
    /// The last record of it that was handed on.
    pub last: Option<RecordId>,
}

/// Records that were read together, and the place behind them.
#[derive(Debug)]
pub struct TailBatch {
    /// The records, in the order in which they were appended.
    pub records: Vec<(RecordId, Record)>,
    /// The place behind them.
    pub position: JournalPosition,
}

/// A reader of what is appended to a journal. It sees what is written, which is when the durability says.
///
/// Takes memory for one block, and some bytes for each block of a segment.
#[derive(Debug)]
pub struct JournalTail {
    position: JournalPosition,
    open: Option<OpenSegment>,
    /// The records of the newest segment when all of it had been read.
    seen: u64,
    /// Records of the segment that were read, or passed over.
    read: u64,
    gaps: u64,
    skipped: SkippedData,
}

/// A segment that is being read.
#[derive(Debug)]
struct OpenSegment {
    blocks: SegmentBlocks,
    /// The number of the next block.
    next: usize,
    /// Records of the block before, which come first.
    rest: Vec<(RecordId, Record)>,
    /// The number of records that the segment had, if it might have been written to when it was opened.
    growing: Option<u64>,
}

/// A segment, as a reader sees it.
struct ListedSegment {
    first: RecordId,
    file: JournalFile,
    records: u64,
}

impl JournalTail {
    /// Follows from a place on.
    pub fn from(position: JournalPosition) -> JournalTail {
        JournalTail { position, open: None, seen: 0, read: 0, gaps: 0, skipped: SkippedData::default() }
    }

    /// The place behind all that is written of a journal.
    ///
    /// # Errors
    /// If the newest segment cannot be read.
    pub fn end(journal: &Journal) -> Result<JournalPosition, JournalError> {
        let Some(newest) = journal.listed().pop() else { return Ok(JournalPosition::default()) };
        let mut position = JournalPosition { segment: Some(newest.first), last: None };
        let Some(mut blocks) = SegmentBlocks::open(&newest.file, true)? else { return Ok(position) };
        let mut skipped = SkippedData::default();
        for number in (0..blocks.len()).rev() {
            let Some(Some(block)) = skipped.pass(blocks.block(number))? else { continue };
            if let Some((last, _)) = skipped.records(Ok(block))?.last() {
                position.last = Some(*last);
                break;
            }
        }
        Ok(position)
    }

    /// The place behind what was handed on.
    pub fn position(&self) -> JournalPosition {
        self.position
    }

    /// The number of times that records had become too old, or too many, before they were read.
    pub fn gaps(&self) -> u64 {
        self.gaps
    }

    /// Records that are written and were not handed on, about.
    pub fn lag(&self, journal: &Journal) -> u64 {
        let listed = journal.listed();
        let from = self.position.segment.unwrap_or(RecordId(0));
        let is_there = listed.iter().any(|segment| segment.first == from);
        let all: u64 =
            listed.iter().filter(|segment| segment.first >= from).map(|segment| segment.records).sum();
        all.saturating_sub(if is_there { self.read } else { 0 })
    }

    /// The next records, of one block at most; `None` if there are none for now. Blocks. What is damaged is passed over.
    ///
    /// # Errors
    /// If a file cannot be read; the same records are tried again then.
    pub fn next_batch(&mut self, journal: &Journal) -> Result<Option<TailBatch>, JournalError> {
        loop {
            let listed = journal.listed();
            let from = self.position.segment.unwrap_or(RecordId(0));
            let at = listed.partition_point(|segment| segment.first < from);
            let Some(segment) = listed.get(at) else { return Ok(None) };
            if self.position.segment != Some(segment.first) {
                if self.position.segment.is_some() {
                    self.gaps += 1;
                }
                self.go_to(segment.first);
            }
            let is_newest = at + 1 == listed.len();
            if self.open.is_none() {
                if is_newest && self.seen > 0 && self.seen == segment.records {
                    return Ok(None);
                }
                let growing = is_newest.then_some(segment.records);
                let Some(open) = self.open(&segment.file, growing)? else {
                    // It became too old just now: the next look does not list it.
                    return Ok(None);
                };
                self.open = Some(open);
            }
            if let Some(records) = self.read_open()? {
                let last = records.last().map(|(id, _)| *id);
                self.read += records.len() as u64;
                self.position.last = last.or(self.position.last);
                return Ok(Some(TailBatch { records, position: self.position }));
            }
            let growing = self.open.take().and_then(|open| open.growing);
            match listed.get(at + 1) {
                // What was appended after it was opened is still to be read.
                Some(_) if growing.is_some() => self.seen = 0,
                Some(next) => self.go_to(next.first),
                None => {
                    self.seen = growing.unwrap_or_default();
                    if self.seen == segment.records {
                        return Ok(None);
                    }
                }
            }
        }
    }

    fn go_to(&mut self, segment: RecordId) {
        self.position = JournalPosition { segment: Some(segment), last: None };
        (self.open, self.seen, self.read) = (None, 0, 0);
    }

    /// Opens the segment behind the last record of it that was handed on.
    fn open(
        &mut self,
        file: &JournalFile,
        growing: Option<u64>,
    ) -> Result<Option<OpenSegment>, JournalError> {
        let Some(mut blocks) = SegmentBlocks::open(file, growing.is_some())? else { return Ok(None) };
        self.read = 0;
        let Some(last) = self.position.last else {
            return Ok(Some(OpenSegment { blocks, next: 0, rest: Vec::new(), growing }));
        };
        let mut before = 0;
        for number in 0..blocks.len() {
            let holds = blocks.ids(number).is_some_and(|(first, greatest)| first <= last && last <= greatest);
            // Damage is counted where it is read.
            if holds && let Ok(Some(block)) = blocks.block(number) {
                let mut records = block.records().unwrap_or_default();
                if let Some(place) = records.iter().position(|(id, _)| *id == last) {
                    self.read = before + place as u64 + 1;
                    let rest = records.split_off(place + 1);
                    return Ok(Some(OpenSegment { blocks, next: number + 1, rest, growing }));
                }
            }
            before += blocks.count(number);
        }
        self.position.last = None;
        Ok(Some(OpenSegment { blocks, next: 0, rest: Vec::new(), growing }))
    }

    /// The records of the next block of the open segment that has some.
    fn read_open(&mut self) -> Result<Option<Vec<(RecordId, Record)>>, JournalError> {
        let Some(open) = &mut self.open else { return Ok(None) };
        if !open.rest.is_empty() {
            return Ok(Some(std::mem::take(&mut open.rest)));
        }
        while open.next < open.blocks.len() {
            let number = open.next;
            let read = match self.skipped.pass(open.blocks.block(number))? {
                Some(Some(block)) => self.skipped.records(Ok(block))?,
                _ => Vec::new(),
            };
            open.next += 1;
            if !read.is_empty() {
                return Ok(Some(read));
            }
            self.read += open.blocks.count(number);
        }
        Ok(None)
    }
}

impl Journal {
    /// The segments, oldest first.
    fn listed(&self) -> Vec<ListedSegment> {
        let state = self.shared.state.lock();
        let segments = state.segments.iter();
        segments
            .map(|it| ListedSegment { first: it.first, file: it.file.clone(), records: it.summary.records })
            .collect()
    }
}
