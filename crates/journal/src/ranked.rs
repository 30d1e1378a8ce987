//! Blocks by the greatest id in them, for those who list decisions by id whatever form these lie in by now.
//!
//! Appends race for their ids, so blocks overlap, and an id can lie in the segment before the one that it belongs to. A block
//! is therefore handed on once the segment before its own is open, and [`RankedBlocks::greatest`] says above which id nothing
//! is to come any more.

use std::collections::{BTreeMap, BinaryHeap};
use std::fmt;
use std::sync::Arc;

use super::file::JournalFile;
use super::files::SegmentBlocks;
use super::known_files::KnownFiles;
use super::summary::SearchProbe;
use super::{Block, BlockInfo, BlockSummaries, JournalError, SkippedData};
use crate::id::{IdRange, RecordId};

/// A limit to what is read for one request.
pub struct ReadBudget<'a> {
    /// Records that may still be looked at.
    pub records: u64,
    /// Returns true once nobody waits any more, or the time is over.
    pub is_over: &'a dyn Fn() -> bool,
}

impl ReadBudget<'_> {
    /// Notes that so many records are looked at.
    pub fn take(&mut self, records: u32) {
        self.records = self.records.saturating_sub(u64::from(records));
    }

    /// Returns true if no more is to be read.
    pub fn is_spent(&self) -> bool {
        self.records == 0 || (self.is_over)()
    }
}

impl fmt::Debug for ReadBudget<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReadBudget").field("records", &self.records).finish_non_exhaustive()
    }
}

/// The place of a block: ordered by its greatest id, then by where it lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct BlockRank {
    last: RecordId,
    /// The number of its segment, oldest first; that of no segment for what waits.
    segment: usize,
    number: usize,
}

/// A block of which it was asked whether decisions in it may fit.
#[derive(Debug)]
pub enum BlockAnswer {
    /// Some may: here it is.
    MayFit(Block),
    /// None does.
    FitsNone,
    /// The block cannot be read, which is noted.
    Damaged,
}

#[derive(Debug)]
struct OpenBlocks {
    blocks: SegmentBlocks,
    /// Blocks that are still to come.
    left: usize,
}

/// The blocks that have ids of a range, those with the greatest first. What is damaged is passed over.
///
/// Takes memory for one block, some bytes for each block of two segments, and what waits to be written.
#[derive(Debug)]
pub struct RankedBlocks {
    ids: IdRange,
    known: Arc<KnownFiles>,
    waiting: Vec<Option<Block>>,
    /// Segments that are not open yet, oldest first.
    unopened: Vec<JournalFile>,
    /// The number of the segment that may be written to.
    newest: Option<usize>,
    open: BTreeMap<usize, OpenBlocks>,
    ranks: BinaryHeap<BlockRank>,
    /// The block whose head was handed on last.
    current: Option<(BlockRank, BlockInfo)>,
    skipped: SkippedData,
}

impl RankedBlocks {
    /// The blocks of segments, given oldest first with the first id of each, and of what waits.
    pub(super) fn new(
        ids: IdRange,
        mut segments: Vec<(RecordId, JournalFile)>,
        waiting: Vec<Block>,
        known: Arc<KnownFiles>,
    ) -> RankedBlocks {
        let newest = segments.len().checked_sub(1);
        let above = segments.len();
        let ranks =
            waiting.iter().enumerate().filter(|(_, block)| ids.meets(block.head.first, block.head.last));
        let ranks = ranks.map(|(number, block)| BlockRank { last: block.head.last, segment: above, number });
        let ranks = ranks.collect();
        while segments.last().is_some_and(|(first, _)| *first >= ids.below) {
            segments.pop();
        }
        let unopened =
            if ids.is_empty() { Vec::new() } else { segments.into_iter().map(|(_, file)| file).collect() };
        let waiting = waiting.into_iter().map(Some).collect();
        let (open, current, skipped) = Default::default();
        RankedBlocks { ids, known, waiting, unopened, newest, open, ranks, current, skipped }
    }

    /// Returns what was passed over so far because it is damaged.
    pub fn skipped(&self) -> &SkippedData {
        &self.skipped
    }

    /// The greatest id that a block to come may have; `None` if none comes.
    pub fn greatest(&mut self) -> Result<Option<RecordId>, JournalError> {
        self.reach()?;
        Ok(self.ranks.peek().map(|rank| rank.last))
    }

    /// The next block.
    pub fn next_block(&mut self) -> Result<Option<Block>, JournalError> {
        while self.next_head()?.is_some() {
            if let Some(block) = self.read()? {
                return Ok(Some(block));
            }
        }
        Ok(None)
    }

    /// The head of the next block, of which nothing else is read before [`RankedBlocks::ask`].
    pub fn next_head(&mut self) -> Result<Option<BlockInfo>, JournalError> {
        loop {
            self.leave();
            self.reach()?;
            let Some(rank) = self.ranks.pop() else { return Ok(None) };
            let head = match self.open.get(&rank.segment) {
                Some(open) => open.blocks.head(rank.number),
                None => {
                    self.waiting.get(rank.number).and_then(Option::as_ref).map(|block| block.head.clone())
                }
            };
            if let Some(head) = head {
                self.current = Some((rank, head.clone()));
                return Ok(Some(head));
            }
        }
    }

    /// Reads the block whose head came last, unless it is known that no decision in it fits.
    pub fn ask(
        &mut self,
        summaries: &BlockSummaries,
        probe: &SearchProbe,
    ) -> Result<BlockAnswer, JournalError> {
        let mut is_columnar = false;
        if let Some((rank, head)) = &self.current
            && let Some(open) = self.open.get(&rank.segment)
        {
            is_columnar = open.blocks.is_columnar();
            if summaries.deny(head, is_columnar, probe) {
                return Ok(BlockAnswer::FitsNone);
            }
        }
        Ok(match self.read()? {
            None => BlockAnswer::Damaged,
            Some(block) if summaries.may_hold(&block, is_columnar, probe) => BlockAnswer::MayFit(block),
            Some(_) => BlockAnswer::FitsNone,
        })
    }

    /// Reads the block whose head came last; `None` if it is damaged.
    fn read(&mut self) -> Result<Option<Block>, JournalError> {
        let Some((BlockRank { segment, number, .. }, _)) = self.current else { return Ok(None) };
        let Some(open) = self.open.get_mut(&segment) else {
            return Ok(self.waiting.get_mut(number).and_then(Option::take));
        };
        let read = open.blocks.block(number);
        Ok(self.skipped.pass(read)?.flatten())
    }

    /// Lets go of the block whose head came last, and of its segment if that has no more.
    fn leave(&mut self) {
        let Some((BlockRank { segment, .. }, _)) = self.current.take() else { return };
        if let Some(open) = self.open.get_mut(&segment) {
            open.left -= 1;
            if open.left == 0 {
                self.open.remove(&segment);
            }
        }
    }

    /// Opens the segments that may have the next ids: that of the next block, and the one before.
    fn reach(&mut self) -> Result<(), JournalError> {
        while let Some(file) = self.unopened.last()
            && self.ranks.peek().is_none_or(|next| next.segment <= self.unopened.len())
        {
            let number = self.unopened.len() - 1;
            let opened = SegmentBlocks::open_by(file, Some(number) == self.newest, Some(&self.known))?;
            self.unopened.pop();
            // It became too old to be kept.
            let Some(mut blocks) = opened else { continue };
            let (mut left, mut greatest) = (0, None);
            for place in 0..blocks.len() {
                let Some((first, last)) = blocks.ids(place) else {
                    let damaged = blocks.block(place);
                    self.skipped.pass(damaged)?;
                    continue;
                };
                greatest = greatest.max(Some(last));
                if self.ids.meets(first, last) {
                    self.ranks.push(BlockRank { last, segment: number, number: place });
                    left += 1;
                }
            }
            if left > 0 {
                self.open.insert(number, OpenBlocks { blocks, left });
            }
            if greatest.is_some_and(|greatest| greatest < self.ids.from) {
                self.unopened.clear();
            }
        }
        Ok(())
    }
}
