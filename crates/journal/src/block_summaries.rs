//! Summaries of blocks in memory: of rows, whose files have none, they are made when a search first comes to a block; of groups of
//! columns they are read, so that searches that follow ask no file.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;

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
pub struct BlockSummaries(Mutex<KnownSummaries>);

#[derive(Debug, Default)]
struct KnownSummaries {
    of: BTreeMap<BlockName, Arc<RecordSummary>>,
    bytes: usize,
}

impl BlockSummaries {
    /// Returns true if it is known of a block of a segment, before it is read, that no decision of it fits.
    pub(super) fn deny(&self, head: &BlockInfo, is_columnar: bool, probe: &SearchProbe) -> bool {
        let known = self.known(&BlockName::new(head, is_columnar));
        known.is_some_and(|summary| !summary.may_hold(probe))
    }

    /// Returns false if no decision of a block fits; then it need not be read.
    pub(super) fn may_hold(&self, block: &Block, is_columnar: bool, probe: &SearchProbe) -> bool {
        let name = BlockName::new(&block.head, is_columnar);
        if let Some(known) = self.known(&name) {
            return known.may_hold(probe);
        }
        // Where there is no room, some bytes of the file tell: others that are kept would be read again and again.
        if block.is_columnar() && (block.summary_bytes() == 0 || !self.has_room(block.summary_bytes())) {
            // What is wrong shows when it is read.
            return !matches!(block.may_hold(probe), Ok(Some(false)));
        }
        let Some(made) = block.summary().map(Arc::new) else { return true };
        self.0.lock().keep(name, &made);
        made.may_hold(probe)
    }

    fn known(&self, name: &BlockName) -> Option<Arc<RecordSummary>> {
        self.0.lock().of.get(name).cloned()
    }

    fn has_room(&self, bytes: u64) -> bool {
        self.0.lock().bytes as u64 + bytes <= BYTES_MAX as u64
    }
}

impl KnownSummaries {
    fn keep(&mut self, name: BlockName, summary: &Arc<RecordSummary>) {
        self.bytes += summary.bytes();
        if let Some(before) = self.of.insert(name, Arc::clone(summary)) {
            self.bytes -= before.bytes();
        }
        while self.bytes > BYTES_MAX {
            let Some((_, oldest)) = self.of.pop_first() else { break };
            self.bytes -= oldest.bytes();
        }
    }
}
