//! Numbered batches made of a node's additions.
//!
//! ```text
//! cut     pending ─► the batch `number`, which waits until it is acknowledged
//! seal    pending, grown large while another waits ─► a batch that waits behind it
//! learn   which batch the cluster has ─► what the journal has after it is one batch, or a few, and waits
//! split   the cluster has a part of it, which a process that has ended had sent ─► the rest waits
//! ```
//!
//! Here is what changes in memory; who sends batches is `flush`.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use event::{Kind, Time};
use hashbrown::HashMap;

use crate::cache::{CacheEntry, CacheShard, SentDelta};
use crate::catalog::ClusterCatalog;
use crate::cell::CellId;
use crate::chain::ChainId;
use crate::delta::{CellDelta, CellOperation};
use crate::partition::{BatchItem, PartitionState, ReplayedBatches, UnacknowledgedBatch};
use crate::remote::{CellWrite, Partition, RemoteCell, WriteBatch};
use crate::wal::WalAddition;

impl CacheShard {
    /// Makes a partition's pending additions a batch.
    pub(crate) fn cut(&mut self, at: usize, catalog: &ClusterCatalog, now: Duration, interval: Duration) {
        let batch = self.cut_pending(at, catalog, now);
        let Some(part) = self.parts.get_mut(at) else { return };
        part.waiting = batch;
        while part.due <= now {
            part.due += interval;
        }
    }

    /// Returns true if so much is pending in a cell's partition that it is to be sealed.
    pub(crate) fn is_full(&self, id: CellId, bytes_max: usize) -> bool {
        self.parts.get(self.part_of(id)).is_some_and(|part| part.pending_bytes >= bytes_max)
    }

    /// Makes the pending additions of a cell's partition a batch that waits behind others, so that none is too large for a
    /// request. It is not sent before all is in the journal that requests are adding: as they go on, what they add next is
    /// of the next batch.
    pub(crate) fn seal(&mut self, id: CellId, catalog: &ClusterCatalog, now: Duration) {
        let at = self.part_of(id);
        let batch = self.cut_pending(at, catalog, now);
        if let Some(part) = self.parts.get_mut(at) {
            part.sealed.extend(batch);
        }
    }

    fn cut_pending(
        &mut self,
        at: usize,
        catalog: &ClusterCatalog,
        now: Duration,
    ) -> Option<UnacknowledgedBatch> {
        let part = self.parts.get_mut(at)?;
        let (number, previous, acknowledged) = (part.number, part.last_cut(), part.acknowledged);
        let mut deltas = std::mem::take(&mut part.orphans);
        let dirty = std::mem::take(&mut part.dirty);
        deltas.reserve(dirty.len());
        for (id, hint) in dirty {
            let Some(entry) = self.get_mut_at(id, hint as usize) else { continue };
            let Some(delta) = entry.pending.take() else { continue };
            let mut renews = true;
            if let Some(known) = catalog.forms.get(&entry.form) {
                entry.fold(&known.form.plan, acknowledged);
                renews = entry.renews(now, known.renew_after);
            }
            entry.send(number, delta.clone());
            if !delta.is_carried() {
                deltas.push(BatchItem { id, form: entry.form, delta, renews });
            }
        }
        let part = self.parts.get_mut(at)?;
        part.pending_bytes = 0;
        part.number += 1;
        Some(UnacknowledgedBatch { number, previous, deltas: Arc::new(deltas) })
    }

    /// Takes in which batch of this node a partition has. Answers what the journal is to be told: after a machine
    /// failed that did not sync, the cluster may know more batches than the journal.
    pub(crate) fn learn(
        &mut self,
        at: usize,
        has: u64,
        catalog: &ClusterCatalog,
        (now, bytes_max): (Duration, usize),
        lost: &mut u64,
    ) -> Vec<WalAddition> {
        let Some(part) = self.parts.get_mut(at) else { return Vec::new() };
        if part.is_known {
            return Vec::new();
        }
        part.is_known = true;
        part.acknowledged = has;
        part.retained.push_back((has, now));
        part.replays = part.replays.split_off(&has.saturating_add(1));
        let partition = part.partition;
        // The first that this process has begun.
        let fresh = part.sealed.front().map_or(part.number, |sealed| sealed.number);
        if has >= fresh {
            let by = has + 1 - fresh;
            part.number += by;
            part.sealed.iter_mut().for_each(|sealed| sealed.number += by);
            part.link(has);
            let number = part.number;
            let mut added = Vec::new();
            for UnacknowledgedBatch { number, deltas, .. } in &part.sealed {
                for BatchItem { id, form, delta, .. } in deltas.iter() {
                    let addition =
                        |op| WalAddition { partition, number: *number, cell: *id, form: *form, op };
                    added.extend(delta.ops().map(addition));
                }
            }
            self.each_of(at, |entry| entry.renumber(fresh, by));
            let Some(part) = self.parts.get(at) else { return added };
            for (id, _) in part.dirty.clone() {
                let Some(entry) = self.get(id) else { continue };
                for op in entry.pending.iter().flat_map(|delta| delta.ops()) {
                    added.push(WalAddition { partition, number, cell: id, form: entry.form, op });
                }
            }
            return added;
        }
        let latest = fresh - 1;
        *lost += latest - has - (part.replays.len() as u64).min(latest - has);
        self.wait_as_one(at, has, catalog, bytes_max);
        Vec::new()
    }

    /// Takes in that the cluster has a part of what waits as one. Nothing happens if it has not.
    pub(crate) fn split(
        &mut self,
        at: usize,
        has: u64,
        catalog: &ClusterCatalog,
        now: Duration,
        bytes_max: usize,
    ) {
        let Some(part) = self.parts.get_mut(at).filter(|part| part.waits_for_part(has)) else { return };
        let last = part.replays.last_key_value().map_or(has, |(last, _)| *last);
        part.waiting = None;
        part.sealed.retain(|sealed| sealed.number > last);
        let rest = part.replays.split_off(&has.saturating_add(1));
        let arrived = std::mem::replace(&mut part.replays, rest);
        let cells = |batches: &ReplayedBatches| -> Vec<CellId> {
            let of = |((id, _), delta): (&(CellId, u32), &CellDelta)| {
                let pairs: Vec<CellId> =
                    delta.uniques().iter().map(|(_, pair)| CellId::pair(id.key(), *pair)).collect();
                [*id].into_iter().chain(pairs)
            };
            batches.values().flatten().flat_map(of).collect()
        };
        let (waiting, arrived) = (cells(&part.replays), cells(&arrived));
        part.acknowledged = has;
        part.retained.push_back((has, now));
        part.chain.end();
        for id in waiting.iter().chain(&arrived) {
            if let Some(entry) = self.get_mut(*id) {
                drop(SentDelta::split(&mut entry.sent, last));
            }
        }
        for id in arrived {
            if let Some(entry) = self.get_mut(id).filter(|entry| entry.number < has) {
                (entry.image, entry.number) = (None, has);
            }
        }
        self.recount();
        self.wait_as_one(at, has, catalog, bytes_max);
    }

    /// Makes all that the journal has after a batch one batch, or as few as are not too large, which wait.
    fn wait_as_one(&mut self, at: usize, has: u64, catalog: &ClusterCatalog, bytes_max: usize) {
        let Some(part) = self.parts.get_mut(at) else { return };
        let sums: Vec<_> = match part.replays.len() {
            1 => part.replays.pop_last().into_iter().collect(),
            _ => sums_of(&part.replays, catalog, bytes_max),
        };
        let batches: VecDeque<UnacknowledgedBatch> =
            sums.into_iter().map(|(number, all)| self.wait(at, number, all, catalog)).collect();
        let Some(part) = self.parts.get_mut(at) else { return };
        let later = std::mem::replace(&mut part.sealed, batches);
        part.sealed.extend(later);
        part.advance();
        part.link(has);
    }

    /// Has cells show what the journal says of a batch, and returns it.
    fn wait(
        &mut self,
        at: usize,
        number: u64,
        mut all: HashMap<(CellId, u32), CellDelta>,
        catalog: &ClusterCatalog,
    ) -> UnacknowledgedBatch {
        let marks = self.believe_all(&mut all, catalog);
        let items = |deltas: HashMap<(CellId, u32), CellDelta>| -> Vec<BatchItem> {
            deltas.into_iter().map(|((id, form), delta)| BatchItem::new(id, form, Arc::new(delta))).collect()
        };
        let deltas = items(all);
        for BatchItem { id, form, delta, .. } in deltas.iter().chain(&items(marks)) {
            let kind = Kind(id.kind & !RemoteCell::PAIR);
            if catalog.planned(id.key().space, kind).is_ok_and(|planned| planned.known.form.id == *form) {
                self.entry(*id, *form, at, 0).0.send(number, delta.clone());
            }
        }
        UnacknowledgedBatch { number, previous: 0, deltas: Arc::new(deltas) }
    }

    fn each_of(&mut self, at: usize, mut change: impl FnMut(&mut CacheEntry)) {
        let ids: Vec<CellId> = self.iter().map(|(id, _)| *id).filter(|id| self.part_of(*id) == at).collect();
        ids.into_iter().for_each(|id| self.get_mut(id).into_iter().for_each(&mut change));
    }
}

impl CacheShard {
    /// Counts the values in what the journal says for their owners, each that this node has not counted since it was
    /// opened, and answers the marks of their pairs: the journal has only the values.
    fn believe_all(
        &self,
        deltas: &mut HashMap<(CellId, u32), CellDelta>,
        catalog: &ClusterCatalog,
    ) -> HashMap<(CellId, u32), CellDelta> {
        let mut marks: HashMap<(CellId, u32), CellDelta> = HashMap::new();
        let (mut words, mut room) = (Vec::new(), Vec::new());
        for ((id, form), delta) in deltas {
            let Some(known) = catalog.forms.get(form) else { continue };
            let plan = &known.form.plan;
            for (time, pair) in delta.uniques().to_vec() {
                let pair = CellId::pair(id.key(), pair);
                words.clear();
                if let Some(entry) = self.get(pair).filter(|entry| entry.form == *form) {
                    words.extend_from_slice(entry.show(plan, &mut room));
                }
                if let Some(mark) = marks.get(&(pair, *form)) {
                    mark.show(plan, &mut words);
                }
                match plan.fine(&words, plan.bucket(time)) {
                    (false, true) => {
                        delta.believe(plan, time, ChainId::NONE);
                        marks.entry((pair, *form)).or_default().believe(plan, time, ChainId::NONE);
                    }
                    _ => delta.recall(plan, time),
                }
            }
        }
        marks
    }
}

/// The additions of a batch, cell by cell and form.
type CellDeltas = HashMap<(CellId, u32), CellDelta>;

/// Adds up batches of the journal, in their order, as many as are not too large for a request, and returns each sum with
/// the number of its last batch.
pub(crate) fn sums_of(
    batches: &ReplayedBatches,
    catalog: &ClusterCatalog,
    bytes_max: usize,
) -> Vec<(u64, CellDeltas)> {
    let mut sums: Vec<(u64, CellDeltas)> = Vec::new();
    let mut bytes = 0;
    for (number, batch) in batches {
        let more = batch.values().map(CellDelta::bytes).sum::<usize>();
        bytes += more;
        let sum = match sums.last_mut() {
            Some((last, sum)) if bytes <= bytes_max => {
                *last = *number;
                sum
            }
            _ => {
                bytes = more;
                sums.push((*number, HashMap::new()));
                let Some((_, sum)) = sums.last_mut() else { continue };
                sum
            }
        };
        // In their order, which what happens to buckets keeps.
        for (cell, delta) in batch {
            if let Some(known) = catalog.forms.get(&cell.1) {
                sum.entry(*cell).or_default().append(&known.form.plan, delta);
            }
        }
    }
    sums
}

/// All of a partition that the cluster is not known to have.
pub(crate) fn part_of_checkpoint(shard: &CacheShard, part: &PartitionState) -> Vec<WalAddition> {
    let partition = part.partition;
    let mut all = Vec::new();
    let mut push = |number: u64, cell: CellId, form: u32, ops: &mut dyn Iterator<Item = CellOperation>| {
        all.extend(ops.map(|op| WalAddition { partition, number, cell, form, op }));
    };
    for (number, batch) in &part.replays {
        batch.iter().for_each(|((id, form), delta)| push(*number, *id, *form, &mut delta.ops()));
    }
    // Those that wait as one keep their numbers: the cluster may yet come to have a part of them.
    let said = part.replays.last_key_value().map_or(0, |(last, _)| *last);
    for sending in part.waiting.iter().chain(&part.sealed).filter(|sending| sending.number > said) {
        sending
            .deltas
            .iter()
            .for_each(|item| push(sending.number, item.id, item.form, &mut item.delta.ops()));
    }
    part.orphans.iter().for_each(|item| push(part.number, item.id, item.form, &mut item.delta.ops()));
    for (id, _) in &part.dirty {
        if let Some(entry) = shard.get(*id)
            && let Some(delta) = &entry.pending
        {
            push(part.number, *id, entry.form, &mut delta.ops());
        }
    }
    all
}

/// A batch that is sent now: which shard and partition it is of, and what it holds.
pub(crate) struct OutgoingBatch {
    pub(crate) shard: usize,
    pub(crate) at: usize,
    pub(crate) partition: Partition,
    pub(crate) sending: UnacknowledgedBatch,
}

impl OutgoingBatch {
    /// Returns the batch as the cluster takes it.
    pub(crate) fn batch(&self, catalog: &ClusterCatalog, horizon: Time) -> WriteBatch {
        let UnacknowledgedBatch { number, previous, deltas } = &self.sending;
        let mut writes = Vec::new();
        for BatchItem { id, form, delta, renews } in deltas.iter() {
            let Some(known) = catalog.forms.get(form) else { continue };
            let cell = || RemoteCell { key: id.key(), form: known.form.clone() };
            let write = |change| CellWrite { cell: cell(), change, renews: *renews };
            writes.extend(delta.changes(&known.form.plan).map(write));
        }
        WriteBatch {
            partition: self.partition,
            number: *number,
            previous: *previous,
            horizon,
            writes: writes.into(),
        }
    }
}
