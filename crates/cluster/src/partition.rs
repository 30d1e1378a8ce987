//! The state that a node keeps of a partition: which batch is next, which is under way, and which the cluster has.
//!
//! A partition has one batch under way at most, so the cluster knows all that was before it. What is added while the
//! cluster is away becomes further batches, none too large for one request, that wait behind it. Each is due at a phase of
//! its own in the interval, drawn at random: nodes do not flush in step, and a node writes little at a time.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use hashbrown::HashMap;

use crate::cell::{CellId, PlannedCell};
use crate::chain::WriterChain;
use crate::delta::CellDelta;
use crate::in_flight::InFlightCall;
use crate::remote::Partition;

/// Additions to a cell of a form.
#[derive(Clone)]
pub(crate) struct BatchItem {
    pub(crate) id: CellId,
    pub(crate) form: u32,
    pub(crate) delta: Arc<CellDelta>,
    /// Its time to live begins anew.
    pub(crate) renews: bool,
}

impl BatchItem {
    pub(crate) fn new(id: CellId, form: u32, delta: Arc<CellDelta>) -> BatchItem {
        BatchItem { id, form, delta, renews: true }
    }
}

/// The contents of a partition's batches, by their number.
pub(crate) type ReplayedBatches = BTreeMap<u64, HashMap<(CellId, u32), CellDelta>>;

/// A batch that is not acknowledged.
#[derive(Clone)]
pub(crate) struct UnacknowledgedBatch {
    pub(crate) number: u64,
    pub(crate) previous: u64,
    pub(crate) deltas: Arc<Vec<BatchItem>>,
}

/// The state that a node keeps of a partition.
pub(crate) struct PartitionState {
    pub(crate) partition: Partition,
    /// Bits of a key's route that come after the partition's number.
    pub(crate) shift: u32,
    /// The number of the batch that pending additions will be.
    pub(crate) number: u64,
    /// The last that the cluster has.
    pub(crate) acknowledged: u64,
    /// True if the cluster has said since opening which batch is the last that it has.
    pub(crate) is_known: bool,
    /// The chain of those that have written to the partition.
    pub(crate) chain: WriterChain,
    /// The call that asks only that.
    pub(crate) looking: Option<Arc<InFlightCall>>,
    /// Cells that are to be read anew together, as others may have changed them.
    pub(crate) aging: Vec<PlannedCell>,
    /// The time by which they are.
    pub(crate) refresh_by: Duration,
    /// Cells with pending additions, and where their entries were.
    pub(crate) dirty: Vec<(CellId, u32)>,
    pub(crate) pending_bytes: usize,
    /// Pending additions of forms that are no longer in force.
    pub(crate) orphans: Vec<BatchItem>,
    /// The batch that is sent, or is sent next, until it is acknowledged.
    pub(crate) waiting: Option<UnacknowledgedBatch>,
    /// The batches that come after it, in order.
    pub(crate) sealed: VecDeque<UnacknowledgedBatch>,
    pub(crate) is_busy: bool,
    /// The cluster has lost batches after this number, and they are looked for.
    pub(crate) behind: Option<u64>,
    pub(crate) attempts: u32,
    pub(crate) not_before: Duration,
    pub(crate) due: Duration,
    /// The batches that the journal has, until the partition is known; where several then wait as one, until that is
    /// acknowledged.
    pub(crate) replays: ReplayedBatches,
    /// Batches that a failover may still lose, and when they were acknowledged.
    pub(crate) retained: VecDeque<(u64, Duration)>,
    /// Up to this batch the journal is not needed.
    pub(crate) released: u64,
    /// Images that were asked for before this are not to be used any more.
    pub(crate) invalidated: Duration,
}

impl PartitionState {
    pub(crate) fn new(partition: Partition, shift: u32, latest: u64, due: Duration) -> PartitionState {
        PartitionState {
            partition,
            shift,
            number: latest + 1,
            acknowledged: 0,
            is_known: false,
            chain: WriterChain::default(),
            looking: None,
            aging: Vec::new(),
            refresh_by: Duration::ZERO,
            dirty: Vec::new(),
            pending_bytes: 0,
            orphans: Vec::new(),
            waiting: None,
            sealed: VecDeque::new(),
            is_busy: false,
            behind: None,
            attempts: 0,
            not_before: Duration::ZERO,
            due,
            replays: BTreeMap::new(),
            retained: VecDeque::new(),
            released: 0,
            invalidated: Duration::ZERO,
        }
    }

    /// Returns true if all that was added is in the cluster.
    pub(crate) fn is_clean(&self) -> bool {
        self.waiting.is_none()
            && self.sealed.is_empty()
            && self.dirty.is_empty()
            && self.orphans.is_empty()
            && self.replays.is_empty()
            && self.behind.is_none()
    }

    fn has_pending(&self) -> bool {
        !self.dirty.is_empty() || !self.orphans.is_empty()
    }

    /// Returns true if something is to be sent now.
    pub(crate) fn is_due(&self, now: Duration, flush_bytes: usize, is_draining: bool) -> bool {
        let ready = self.is_known && !self.is_busy && self.behind.is_none() && now >= self.not_before;
        let large = self.pending_bytes >= flush_bytes;
        let waits = self.waiting.is_some() || !self.sealed.is_empty();
        ready && (waits || self.has_pending() && (large || is_draining || now >= self.due))
    }

    /// Returns true if the answer to a write that is under way, or is sent by then, says who wrote last.
    pub(crate) fn answers_by(&self, by: Duration) -> bool {
        let goes_well = self.is_known && self.behind.is_none() && self.attempts == 0;
        goes_well && (self.is_busy || self.has_pending() && self.due <= by)
    }

    /// Returns true if the cluster, which has batches up to a number, has some of those that wait as one, or one after
    /// another: the process that cut them has ended, and what it sent arrived late.
    pub(crate) fn waits_for_part(&self, has: u64) -> bool {
        let begins_before = |waiting: &UnacknowledgedBatch| waiting.previous < has && has != waiting.number;
        let ends_after = self.replays.last_key_value().is_some_and(|(last, _)| has <= *last);
        self.waiting.as_ref().is_some_and(begins_before)
            && ends_after
            && self.replays.range(..=has).next().is_some()
    }

    /// Returns true if this is the batch that is sent.
    pub(crate) fn waits_for(&self, number: u64) -> bool {
        self.waiting.as_ref().is_some_and(|waiting| waiting.number == number)
    }

    /// Returns the number of the last batch that waits, or is acknowledged.
    pub(crate) fn last_cut(&self) -> u64 {
        let waiting = self.sealed.back().or(self.waiting.as_ref());
        waiting.map_or(self.acknowledged, |waiting| waiting.number)
    }

    /// Makes the next sealed batch the one that is sent, if none is.
    pub(crate) fn advance(&mut self) {
        if self.waiting.is_none() {
            self.waiting = self.sealed.pop_front();
        }
    }

    /// Has the batches that wait follow each other, the first of them a batch that the cluster has.
    pub(crate) fn link(&mut self, has: u64) {
        let mut previous = has;
        for batch in self.waiting.iter_mut().chain(&mut self.sealed) {
            batch.previous = std::mem::replace(&mut previous, batch.number);
        }
    }

    /// The cluster has this batch and none after it, which is not what this node thought.
    pub(crate) fn falls_behind(&mut self, has: u64) {
        self.chain.end();
        let is_mended = self.waiting.as_ref().is_some_and(|waiting| waiting.previous == has);
        if self.is_known && !is_mended {
            self.behind = Some(self.behind.map_or(has, |before| before.min(has)));
        }
    }
}
