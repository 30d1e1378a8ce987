//! Summaries of blocks in memory: of rows, whose files have none, they are made when a search first comes to a block; of groups of
//! columns they are read, so that searches that follow ask no file.

use parking_lot::RwLock;
use std::collections::BTreeMap;

use super::block::{Block, BlockInfo};
use super::summary::{RecordSummary, SearchProbe};
use crate::id::RecordId;

/// Bytes of summaries that are kept, about; beyond them those of the oldest blocks are forgotten.
const BYTES_MAX: usize = 256 << 20;

/// The parts of a head by which a block is known again, and whether its segment is one by columns. A block of other records has
/// others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct BlockName {
    last: RecordId,
    first: RecordId,
    is_columnar: bool,
    at: u64,
    count: u32,
}

impl BlockName {
    fn new(head: &BlockInfo, is_columnar: bool) -> BlockName {
        let BlockInfo { last, first, at, count, .. } = *head;
        BlockName { last, first, is_columnar, at, count }
    }
}

/// Summaries of blocks, as far as searches have asked for them.
#[derive(Debug, Default)]
pub struct BlockSummaries(RwLock<KnownSummaries>);

#[derive(Debug, Default)]
struct KnownSummaries {
    of: BTreeMap<BlockName, RecordSummary>,
    bytes: usize,
}

impl BlockSummaries {
    /// Returns true if it is known of a block of a segment, before it is read, that no decision of it fits.
    pub(super) fn deny(&self, head: &BlockInfo, is_columnar: bool, probe: &SearchProbe) -> bool {
        self.known(&BlockName::new(head, is_columnar), probe) == Some(false)
    }

    /// Returns false if no decision of a block fits; then it need not be read.
    pub(super) fn may_hold(&self, block: &Block, is_columnar: bool, probe: &SearchProbe) -> bool {
        let name = BlockName::new(&block.head, is_columnar);
        if let Some(may_hold) = self.known(&name, probe) {
            return may_hold;
        }
        // Where there is no room, some bytes of the file tell: others that are kept would be read again and again.
        if block.is_columnar() && (block.summary_bytes() == 0 || !self.has_room(block.summary_bytes())) {
            // What is wrong shows when it is read.
            return !matches!(block.may_hold(probe), Ok(Some(false)));
        }
        let Some(made) = block.summary() else { return true };
        let may_hold = made.may_hold(probe);
        self.0.write().keep(name, made);
        may_hold
    }

    /// Returns what the summary of a block says, if it is known.
    fn known(&self, name: &BlockName, probe: &SearchProbe) -> Option<bool> {
        self.0.read().of.get(name).map(|summary| summary.may_hold(probe))
    }

    fn has_room(&self, bytes: u64) -> bool {
        self.0.read().bytes as u64 + bytes <= BYTES_MAX as u64
    }
}

impl KnownSummaries {
    fn keep(&mut self, name: BlockName, summary: RecordSummary) {
        self.bytes += summary.bytes();
        if let Some(before) = self.of.insert(name, summary) {
            self.bytes -= before.bytes();
        }
        while self.bytes > BYTES_MAX {
            let Some((_, oldest)) = self.of.pop_first() else { break };
            self.bytes -= oldest.bytes();
        }
    }
}
