//! Erasure of keys for good, while others use the store: no image of them is left in any file.
//!
//! ```text
//! keys ─► index and memory ─► flush ─► seal ─► segments with any image of them, some at a time ─► live images copied ─► removed
//! ```
//!
//! A key that is added to again meanwhile begins anew. A crash in between may bring back what was there: then it is to be begun
//! again.

use std::collections::HashSet;
use std::time::Duration;

use crate::key_hash::KeyHash;
use crate::log::{RecordKey, SegmentUsage, StoreError};
use crate::merge::{MergeReport, SegmentCopier};
use crate::shard::KeyLookup;
use crate::store::{CellSemantics, Store};

/// Segments that are looked through between two looks at whether to go on. Merges wait as long.
const TOGETHER: usize = 4;
/// The rest of who waits for a cell that is in use.
const PINNED: Duration = Duration::from_millis(1);

/// The report of [`Store::erase`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreErasure {
    /// Keys that were there.
    pub keys: u64,
    /// Segments that were written anew.
    pub segments: u64,
    /// Segments that are damaged, and may still have images.
    pub damaged: u64,
    /// True if it was ended before all was done.
    pub is_ended: bool,
}

impl Store {
    /// Lets go of keys with all their images. Segments that have one are written anew without them, as a merge does. `is_over` is
    /// asked between some segments and the next.
    ///
    /// # Errors
    /// As [`Store::flush`].
    pub fn erase<M: CellSemantics>(
        &self,
        keys: &HashSet<RecordKey>,
        is_over: &(dyn Fn() -> bool + Sync),
        meaning: impl Fn() -> M,
    ) -> Result<StoreErasure, StoreError> {
        let mut erased = StoreErasure::default();
        let sealed = {
            // A merge under way may be about to write an image that it has found alive.
            let _alone = self.merging();
            erased.keys = keys.iter().filter(|key| self.forget_key(**key)).count() as u64;
            let Some(log) = self.log() else { return Ok(erased) };
            // A flush under way may have written one: it ends before this one begins.
            self.flush(true, &meaning)?;
            let mut writer = log.begin()?;
            writer.commit(true)?;
            writer.seal()?;
            drop(writer);
            let segments = log.segments().into_iter().filter(|segment| segment.sealed);
            segments.map(|segment| segment.id).collect::<Vec<u32>>()
        };
        let mut merged = MergeReport::default();
        for some in sealed.chunks(TOGETHER) {
            if is_over() {
                erased.is_ended = true;
                break;
            }
            self.erase_of(some, keys, &mut erased, &mut merged, &meaning)?;
        }
        self.add_rewritten(merged.rewritten_bytes);
        Ok(erased)
    }

    /// Writes those of some segments anew that have images of keys.
    fn erase_of<M: CellSemantics>(
        &self,
        some: &[u32],
        keys: &HashSet<RecordKey>,
        erased: &mut StoreErasure,
        merged: &mut MergeReport,
        meaning: impl Fn() -> M,
    ) -> Result<(), StoreError> {
        let Some(log) = self.log() else { return Ok(()) };
        let mut stuck = self.merging();
        let is_meant = |segment: &SegmentUsage| segment.sealed && some.contains(&segment.id);
        let mut copied = Vec::new();
        for segment in log.segments().into_iter().filter(is_meant) {
            let mut has_any = false;
            let losses = log.scan(segment.slot, &mut |seen, _| has_any |= keys.contains(&seen.key))?;
            if has_any && SegmentCopier::new(self, log, log.floor(), merged).all(segment.slot)? {
                copied.push(segment);
            } else if has_any || !losses.is_empty() {
                stuck.insert(segment.id);
                erased.damaged += 1;
            }
        }
        if copied.is_empty() {
            return Ok(());
        }
        // What is dirty has its newest image there until it was written somewhere else.
        self.flush(true, &meaning)?;
        for segment in copied {
            log.remove(segment.slot)?;
            erased.segments += 1;
        }
        Ok(())
    }

    /// Lets go of a key; false if it was not there.
    fn forget_key(&self, RecordKey { space, kind, shingle }: RecordKey) -> bool {
        let (shard, hash) = KeyHash::of(space, kind, shingle);
        loop {
            {
                let run = self.run();
                let mut keys = run.shard(shard);
                match keys.find(hash) {
                    KeyLookup::Absent => return false,
                    KeyLookup::Cold(_, position, _) => {
                        keys.forget_cold(hash, position);
                        return true;
                    }
                    KeyLookup::Hot(place) if !keys.is_pinned() => {
                        keys.forget(place);
                        return true;
                    }
                    KeyLookup::Hot(_) => {}
                }
            }
            std::thread::sleep(PINNED);
        }
    }
}
