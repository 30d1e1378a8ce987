//! Numbered batches made of a node's additions.
//!
//! ```text
//! cut     pending ─► the batch `number`, which waits until it is acknowledged
//! learn   which batch the cluster has ─► what the journal has after it is one batch, and waits
//! split   the cluster has a part of it, which a process that has ended had sent ─► the rest waits
//! ```
//!
//! Here is what changes in memory; who sends batches is `flush`.

use std::sync::Arc;
use std::time::Duration;

use event::{Kind, Time};
use hashbrown::HashMap;

use crate::cache::{CacheShard, SentDelta};
use crate::catalog::{ClusterCatalog, CompiledForm};
use crate::cell::CellId;
use crate::chain::ChainId;
use crate::delta::{CellDelta, CellOperation};
use crate::partition::{BatchItem, PartitionState, ReplayedBatches, UnacknowledgedBatch};
use crate::remote::{CellWrite, Partition, RemoteCell, WriteBatch};
use crate::wal::WalAddition;

impl CacheShard {
    /// Makes a partition's pending additions a batch.
    pub(crate) fn cut(&mut self, at: usize, world: &ClusterCatalog, now: Duration, interval: Duration) {
        let Some(part) = self.parts.get_mut(at) else { return };
        let number = part.number;
        let mut deltas = std::mem::take(&mut part.orphans);
        for id in std::mem::take(&mut part.dirty) {
            let Some(entry) = self.get_mut(id) else { continue };
            let Some(delta) = entry.pending.take() else { continue };
            let delta: Arc<CellDelta> = Arc::from(delta);
            let mut renews = true;
            if let Some(known) = world.forms.get(&entry.form) {
                entry.fold(&known.plan);
                renews = entry.renews(now, known.renew_after);
            }
            entry.sent = Some(SentDelta { number, delta: delta.clone() });
            if !delta.is_carried() {
                deltas.push(BatchItem { id, form: entry.form, delta, renews });
            }
        }
        let Some(part) = self.parts.get_mut(at) else { return };
        part.pending_bytes = 0;
        part.number += 1;
        part.waiting =
            Some(UnacknowledgedBatch { number, previous: part.acknowledged, deltas: Arc::new(deltas) });
        while part.due <= now {
            part.due += interval;
        }
    }

    /// Takes in which batch of this node a partition has. Answers what the journal is to be told: after a machine
    /// failed that did not sync, the cluster may know more batches than the journal.
    pub(crate) fn learn(
        &mut self,
        at: usize,
        has: u64,
        world: &ClusterCatalog,
        now: Duration,
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
        if has >= part.number {
            part.number = has + 1;
            let number = part.number;
            let mut added = Vec::new();
            for id in part.dirty.clone() {
                let Some(entry) = self.get(id) else { continue };
                for op in entry.pending.iter().flat_map(|delta| delta.ops()) {
                    added.push(WalAddition { partition, number, cell: id, form: entry.form, op });
                }
            }
            return added;
        }
        let latest = part.number - 1;
        *lost += latest - has - (part.replays.len() as u64).min(latest - has);
        self.wait_as_one(at, has, world);
        Vec::new()
    }

    /// Takes in that the cluster has a part of what waits as one. Nothing happens if it has not.
    pub(crate) fn split(&mut self, at: usize, has: u64, world: &ClusterCatalog, now: Duration) {
        let Some(part) = self.parts.get_mut(at).filter(|part| part.waits_for_part(has)) else { return };
        let number = part.waiting.as_ref().map(|waiting| waiting.number);
        let rest = part.replays.split_off(&has.saturating_add(1));
        let arrived = std::mem::replace(&mut part.replays, rest);
        let cells = |batches: &ReplayedBatches| -> Vec<CellId> {
            let of = |((id, _), delta): (&(CellId, u32), &CellDelta)| {
                let pairs: Vec<CellId> =
                    delta.uniques.iter().map(|(_, pair)| CellId::pair(id.key(), *pair)).collect();
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
                entry.sent.take_if(|sent| Some(sent.number) == number);
            }
        }
        for id in arrived {
            if let Some(entry) = self.get_mut(id).filter(|entry| entry.number < has) {
                (entry.image, entry.number) = (None, has);
            }
        }
        self.recount();
        self.wait_as_one(at, has, world);
    }

    /// Makes all that the journal has after a batch one batch, which waits.
    fn wait_as_one(&mut self, at: usize, has: u64, world: &ClusterCatalog) {
        let Some(part) = self.parts.get_mut(at) else { return };
        let last = match part.replays.len() {
            1 => part.replays.pop_last(),
            _ => part.replays.last_key_value().map(|(number, last)| (*number, last.clone())),
        };
        let Some((number, mut all)) = last else { return };
        // Earlier ones first, so that what happens to buckets keeps its order.
        for (cell, delta) in part.replays.iter().rev().skip(1).flat_map(|(_, batch)| batch) {
            let Some(known) = world.forms.get(&cell.1) else { continue };
            let mut delta = delta.clone();
            if let Some(later) = all.get(cell) {
                delta.append(&known.plan, later);
            }
            all.insert(*cell, delta);
        }
        let marks = self.believe_all(&mut all, world);
        let items = |deltas: HashMap<(CellId, u32), CellDelta>| -> Vec<BatchItem> {
            deltas.into_iter().map(|((id, form), delta)| BatchItem::new(id, form, Arc::new(delta))).collect()
        };
        let deltas = items(all);
        for BatchItem { id, form, delta, .. } in deltas.iter().chain(&items(marks)) {
            let kind = Kind(id.kind & !RemoteCell::PAIR);
            if world.planned(id.key().space, kind).is_ok_and(|planned| planned.known.form.id == *form) {
                self.entry(*id, *form, at, 0).0.sent = Some(SentDelta { number, delta: delta.clone() });
            }
        }
        let Some(part) = self.parts.get_mut(at) else { return };
        part.waiting = Some(UnacknowledgedBatch { number, previous: has, deltas: Arc::new(deltas) });
    }
}

impl CacheShard {
    /// Counts the values in what the journal says for their owners, each that this node has not counted since it was
    /// opened, and answers the marks of their pairs: the journal has only the values.
    fn believe_all(
        &self,
        deltas: &mut HashMap<(CellId, u32), CellDelta>,
        world: &ClusterCatalog,
    ) -> HashMap<(CellId, u32), CellDelta> {
        let mut marks: HashMap<(CellId, u32), CellDelta> = HashMap::new();
        let (mut words, mut room) = (Vec::new(), Vec::new());
        for ((id, form), delta) in deltas {
            let Some(CompiledForm { plan, .. }) = world.forms.get(form).map(|known| &**known) else {
                continue;
            };
            for (time, pair) in delta.uniques.clone() {
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
    if let Some(sending) = part.waiting.as_ref().filter(|_| part.replays.is_empty()) {
        sending
            .deltas
            .iter()
            .for_each(|item| push(sending.number, item.id, item.form, &mut item.delta.ops()));
    }
    part.orphans.iter().for_each(|item| push(part.number, item.id, item.form, &mut item.delta.ops()));
    for id in &part.dirty {
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
    pub(crate) fn batch(&self, world: &ClusterCatalog, horizon: Time) -> WriteBatch {
        let UnacknowledgedBatch { number, previous, deltas } = &self.sending;
        let mut writes = Vec::new();
        for BatchItem { id, form, delta, renews } in deltas.iter() {
            let Some(known) = world.forms.get(form) else { continue };
            let cell = || RemoteCell { key: id.key(), form: known.form.clone() };
            let write = |change| CellWrite { cell: cell(), change, renews: *renews };
            writes.extend(delta.changes(&known.plan).map(write));
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
