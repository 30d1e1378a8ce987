//! Summaries of blocks that are rows, which their files do not have: made when a search first comes to a block, and kept.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;

use super::block::Block;
use super::summary::{RecordSummary, SearchProbe};
use crate::id::RecordId;

/// Bytes of summaries that are kept, about; beyond them those of the oldest blocks are forgotten.
const BYTES_MAX: usize = 64 << 20;

/// A block by its greatest and its smallest id, and where it lies. One that was written anew has fewer records: what is said of
/// the one before may be said of it.
type BlockName = (RecordId, RecordId, u64);

/// Summaries of blocks, as far as searches have asked for them.
#[derive(Debug, Default)]
pub struct BlockSummaries(Mutex<KnownSummaries>);

#[derive(Debug, Default)]
struct KnownSummaries {
    of: BTreeMap<BlockName, Arc<RecordSummary>>,
    bytes: usize,
}

impl BlockSummaries {
    /// Returns false if no decision of a block fits; then it need not be read.
    pub fn may_hold(&self, block: &Block, probe: &SearchProbe) -> bool {
        match block.may_hold(probe) {
            Ok(Some(may_hold)) => return may_hold,
            // What is wrong shows when it is read.
            Err(_) => return true,
            Ok(None) => {}
        }
        let name = (block.head.last, block.head.first, block.head.at);
        let known = self.0.lock().of.get(&name).cloned();
        let summary = match known {
            Some(known) => known,
            None => {
                let Some(made) = block.summary() else { return true };
                let made = Arc::new(made);
                self.0.lock().keep(name, &made);
                made
            }
        };
        summary.may_hold(probe)
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
