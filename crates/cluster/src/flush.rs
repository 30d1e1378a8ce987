//! Batches reach the cluster.
//!
//! ```text
//! collect ─► which partitions are due ─► cut: pending is the batch `number` ─► journal synced ─► RemoteCluster::write, all in one
//! answer  ─► Now, Before: acknowledged     an error: again, later, the same
//!         └► Behind(has): all after `has` from the journal, as one, or as few as are not too large
//! ```
//!
//! Cutting waits for requests that are adding, so what is cut is in the journal.
//!
//! After opening, nothing is sent to a partition before the cluster has said which batch of this node it has.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use event::Time;
use hashbrown::HashMap;
use stats::Durability;

use crate::batch::{OutgoingBatch, part_of_checkpoint, sums_of};
use crate::cache::CacheShard;
use crate::core::ClusterCore;
use crate::partition::{BatchItem, PartitionState, ReplayedBatches, UnacknowledgedBatch};
use crate::remote::{Partition, RemoteError, WriteBatch, WriteOutcome};
use crate::wal::{WalAddition, WalAdditions, WalRecord};

impl ClusterCore {
    fn is_ready(&self, now: Duration) -> bool {
        let is_draining = self.is_draining.load(Ordering::Acquire);
        self.shards.iter().any(|shard| {
            let shard = shard.lock();
            shard.parts.iter().any(|part| part.is_due(now, self.settings.flush_bytes, is_draining))
        })
    }

    /// Cuts what is due.
    pub(crate) fn collect(&self, now: Duration) -> Vec<OutgoingBatch> {
        if !self.is_ready(now) {
            return Vec::new();
        }
        let is_draining = self.is_draining.load(Ordering::Acquire);
        // Requests that are adding end first: what they have added is then in the journal.
        let _cutting = self.adding.write();
        let catalog = self.catalog();
        let mut outgoing = Vec::new();
        for (number, shard) in self.shards.iter().enumerate() {
            let mut shard = shard.lock();
            for at in 0..shard.parts.len() {
                if !shard.parts[at].is_due(now, self.settings.flush_bytes, is_draining) {
                    continue;
                }
                shard.parts[at].advance();
                if shard.parts[at].waiting.is_none() {
                    shard.cut(at, &catalog, now, self.settings.flush_every);
                }
                let part = &mut shard.parts[at];
                if let Some(sending) = part.waiting.clone() {
                    let partition = part.partition;
                    part.is_busy = true;
                    outgoing.push(OutgoingBatch { shard: number, at, partition, sending });
                }
            }
        }
        outgoing
    }

    pub(crate) async fn send(self: Arc<ClusterCore>, outgoing: Vec<OutgoingBatch>) {
        let mut results = Vec::new();
        let safe = self.wal.safe().await;
        let sent = self.environment.now();
        if safe.is_ok() {
            let catalog = self.catalog();
            let horizon = Time(self.horizon.load(Ordering::Acquire));
            let batches: Vec<WriteBatch> =
                outgoing.iter().map(|each| each.batch(&catalog, horizon)).collect();
            let counts = &self.counts;
            counts.batches.fetch_add(batches.len() as u64, Ordering::Relaxed);
            let writes = batches.iter().map(|batch| batch.writes.len() as u64).sum();
            counts.writes.fetch_add(writes, Ordering::Relaxed);
            results = self.remote.write(batches, self.settings.within).await;
        }
        let why = || RemoteError::Unexpected("there is no answer to it".into());
        let mut results = results.into_iter();
        let (catalog, now) = (self.catalog(), self.environment.now());
        for each in outgoing {
            let result = results.next().unwrap_or_else(|| Err(why()));
            let mut shard = self.shards[each.shard].lock();
            if let Ok(WriteOutcome::Behind(has)) = result {
                shard.split(each.at, has, &catalog, now, self.settings.batch_bytes_max);
            }
            let Some(part) = shard.parts.get_mut(each.at) else { continue };
            part.is_busy = false;
            match result {
                // It was split meanwhile, as a part of it had arrived.
                Ok(WriteOutcome::Now(_) | WriteOutcome::Before) if !part.waits_for(each.sending.number) => {
                    part.chain.end();
                }
                Ok(WriteOutcome::Now(_) | WriteOutcome::Before) => {
                    match result {
                        Ok(WriteOutcome::Now(before)) => part.chain.wrote(each.sending.number, before, sent),
                        _ => part.chain.end(),
                    }
                    part.attempts = 0;
                    part.acknowledged = part.acknowledged.max(each.sending.number);
                    part.waiting = None;
                    part.replays = part.replays.split_off(&each.sending.number.saturating_add(1));
                    part.retained.push_back((each.sending.number, now));
                    part.advance();
                }
                Ok(WriteOutcome::Behind(has)) => part.falls_behind(has),
                Err(failure) => {
                    self.counts.write_failures.fetch_add(1, Ordering::Relaxed);
                    if part.attempts == 0 {
                        tracing::debug!(partition = part.partition.0, %failure, "a batch is sent again");
                    }
                    part.not_before = now + self.again(part.attempts);
                    part.attempts = part.attempts.saturating_add(1);
                }
            }
        }
        self.kick.notify(1);
    }

    /// Asks which batches the cluster has: soon, while that is not known of all partitions; later now and then, since of a
    /// partition that is neither written nor read nothing else would tell that a failover has lost batches.
    pub(crate) fn ask_numbers(self: &Arc<ClusterCore>, now: Duration) {
        let mut asking = self.asking.lock();
        if asking.is_busy || now < asking.not_before {
            return;
        }
        asking.is_busy = true;
        let inner = self.clone();
        self.environment.spawn(Box::pin(async move {
            let all = inner.compare_numbers().await;
            let now = inner.environment.now();
            let again = inner.again(inner.asking.lock().attempts);
            let mut asking = inner.asking.lock();
            asking.is_busy = false;
            if all {
                asking.attempts = 0;
                asking.not_before = now + inner.settings.retain / 4;
            } else {
                asking.attempts = asking.attempts.saturating_add(1);
                asking.not_before = now + again;
            }
            drop(asking);
            inner.kick.notify(1);
        }));
    }

    /// True if the cluster has said it of all partitions.
    async fn compare_numbers(&self) -> bool {
        let mut acknowledged = vec![0; usize::from(self.partitions.count())];
        for shard in &self.shards {
            for part in &shard.lock().parts {
                acknowledged[usize::from(part.partition.0)] = part.acknowledged;
            }
        }
        let mut numbers = self.remote.numbers(self.settings.within).await.into_iter();
        let mut all = true;
        for (partition, acknowledged) in (0..).map(Partition).zip(acknowledged) {
            let Some(Ok(number)) = numbers.next() else {
                all = false;
                continue;
            };
            self.met(partition, number);
            if number < acknowledged {
                let (shard, at) = self.place(partition);
                if let Some(part) = self.shards[shard].lock().parts.get_mut(at) {
                    part.falls_behind(number);
                }
            }
        }
        all
    }

    /// Takes in which batch a partition has, where that is not known.
    pub(crate) fn met(&self, partition: Partition, number: u64) {
        if !self.is_known(partition) {
            self.learn(partition, number);
        }
    }

    fn is_known(&self, partition: Partition) -> bool {
        let (shard, at) = self.place(partition);
        self.shards[shard].lock().parts.get(at).is_none_or(|part| part.is_known)
    }

    fn learn(&self, partition: Partition, number: u64) {
        let (shard, at) = self.place(partition);
        let (catalog, now, mut lost) = (self.catalog(), self.environment.now(), 0);
        // What is pending keeps its number until the journal knows the new one.
        let _cutting = self.adding.write();
        let bytes_max = self.settings.batch_bytes_max;
        let added = self.shards[shard].lock().learn(at, number, &catalog, (now, bytes_max), &mut lost);
        if !added.is_empty() {
            let added = added.into_iter().collect();
            let record = WalRecord::Addition { had: Vec::new(), refused: Vec::new(), added };
            self.wal.append(&record, &|form| catalog.words_of(form));
        }
        self.lost(lost);
    }

    fn lost(&self, batches: u64) {
        if batches > 0 {
            self.counts.lost_batches.fetch_add(batches, Ordering::Relaxed);
            tracing::error!(batches, "the cluster has lost batches that are no longer in the journal");
        }
    }

    /// Finds in the journal what the cluster has lost.
    pub(crate) fn recover(self: &Arc<ClusterCore>) {
        let is_behind = |part: &PartitionState| part.behind.is_some() && !part.is_busy;
        if !self.shards.iter().any(|shard| shard.lock().parts.iter().any(is_behind)) {
            return;
        }
        if self.is_recovering.swap(true, Ordering::AcqRel) {
            return;
        }
        let inner = self.clone();
        self.environment.spawn(Box::pin(async move {
            match inner.wal.reread().await {
                Ok(records) => inner.catch_up(records),
                Err(error) => tracing::error!(%error, "the journal cannot be read: batches wait"),
            }
            inner.is_recovering.store(false, Ordering::Release);
            inner.kick.notify(1);
        }));
    }

    fn catch_up(&self, records: Vec<WalRecord>) {
        // The batches that each partition is to have: after which, and up to which. What waits is one of them.
        let mut ranges: HashMap<Partition, (u64, u64)> = HashMap::new();
        for shard in &self.shards {
            for part in shard.lock().parts.iter().filter(|part| !part.is_busy) {
                if let Some(has) = part.behind {
                    ranges.insert(part.partition, (has, part.last_cut()));
                }
            }
        }
        let catalog = self.catalog();
        let mut batches: HashMap<Partition, ReplayedBatches> = HashMap::new();
        for record in records {
            let WalRecord::Addition { added, .. } = record else { continue };
            for WalAddition { partition, number, cell, form, op } in added.iter() {
                let Some((has, end)) = ranges.get(&partition) else { continue };
                if let Some(known) = catalog.forms.get(&form)
                    && *has < number
                    && number <= *end
                {
                    let batch = batches.entry(partition).or_default().entry(number).or_default();
                    batch.entry((cell, form)).or_default().add(&known.form.plan, &op);
                }
            }
        }
        let mut lost = 0;
        for (partition, (has, end)) in ranges {
            let found = batches.remove(&partition).unwrap_or_default();
            let (shard, at) = self.place(partition);
            let mut shard = self.shards[shard].lock();
            let Some(part) = shard.parts.get_mut(at).filter(|part| part.behind == Some(has)) else {
                continue;
            };
            part.behind = None;
            lost += (end - has.min(end)).saturating_sub(found.len() as u64);
            let mut previous = has;
            let mut groups = VecDeque::new();
            for (number, all) in sums_of(&found, &catalog, self.settings.batch_bytes_max) {
                let item = |((id, form), delta)| BatchItem::new(id, form, Arc::new(delta));
                let deltas = Arc::new(all.into_iter().map(item).collect());
                groups.push_back(UnacknowledgedBatch { number, previous, deltas });
                previous = number;
            }
            match groups.back_mut() {
                // Also where the last ones are not found: what follows then fits on what is there.
                Some(last) => last.number = end,
                None => groups.push_back(UnacknowledgedBatch {
                    number: end,
                    previous: has,
                    deltas: Arc::default(),
                }),
            }
            let mut found = found;
            found.entry(end).or_default();
            part.replays = if found.len() > 1 { found } else { ReplayedBatches::new() };
            part.waiting = groups.pop_front();
            // What was sealed is in the journal, too.
            part.sealed = groups;
        }
        self.lost(lost);
    }

    /// Writes, trims and bounds the journal.
    pub(crate) fn tend_journal(self: &Arc<ClusterCore>, now: Duration) {
        let every = match self.settings.durability {
            Durability::Interval(span) => Duration::from_micros(span.0.unsigned_abs()),
            Durability::Sync | Durability::None => Duration::from_secs(1),
        };
        let mut tended = self.tended.lock();
        let [write, trim] = [now >= tended.0 + every, now >= tended.1 + self.settings.flush_every];
        if write {
            tended.0 = now;
        }
        if trim {
            tended.1 = now;
        }
        drop(tended);
        if write {
            self.wal.kick(self.settings.durability != Durability::None);
        }
        if trim {
            let mut released = vec![0; usize::from(self.partitions.count())];
            for part in self.shards.iter().flat_map(|shard| self.release(shard, now)) {
                released[usize::from(part.0)] = part.1;
            }
            self.wal.trim(&|partition| released.get(usize::from(partition)).copied().unwrap_or(0));
        }
        let bytes = self.wal.bytes();
        if bytes <= self.settings.journal_bytes_max {
            self.is_full.store(false, Ordering::Release);
        } else if !self.is_checking.swap(true, Ordering::AcqRel) {
            self.checkpoint();
        }
    }

    /// Returns what each partition of a shard no longer needs of the journal.
    fn release(&self, shard: &parking_lot::Mutex<CacheShard>, now: Duration) -> Vec<(u16, u64)> {
        let mut shard = shard.lock();
        let parts = shard.parts.iter_mut();
        let released = parts.map(|part| {
            while let Some((number, at)) = part.retained.front().copied()
                && at + self.settings.retain <= now
            {
                part.released = number;
                part.retained.pop_front();
            }
            (part.partition.0, part.released)
        });
        released.collect()
    }

    /// Writes the sums of all that the cluster has not, so that the rest of the journal can go.
    fn checkpoint(self: &Arc<ClusterCore>) {
        let catalog = self.catalog();
        let (segment, position) = {
            let _cutting = self.adding.write();
            let mut records = Vec::new();
            for shard in &self.shards {
                let shard = shard.lock();
                for part in &shard.parts {
                    let added: WalAdditions = part_of_checkpoint(&shard, part).into_iter().collect();
                    if !added.is_empty() {
                        records.push(WalRecord::Addition { had: Vec::new(), refused: Vec::new(), added });
                    }
                }
            }
            let intents = self.intents.list();
            records.extend(intents.into_iter().map(|(token, request)| WalRecord::Intent(token, request)));
            self.wal.checkpoint(&records, &|form| catalog.words_of(form))
        };
        let inner = self.clone();
        self.environment.spawn(Box::pin(async move {
            let written = inner.wal.wait(position, inner.settings.durability != Durability::None).await;
            if written.is_ok() {
                inner.wal.trim_before(segment);
                inner.counts.checkpoints.fetch_add(1, Ordering::Relaxed);
            }
            let full = inner.wal.bytes() > inner.settings.journal_bytes_max;
            if full && !inner.is_full.swap(true, Ordering::AcqRel) {
                tracing::warn!(
                    "the journal is full, as the cluster, or the disk, takes less than is added: additions are refused for now"
                );
            }
            // Not at once again: it would be as large.
            inner.environment.sleep(inner.settings.flush_every).await;
            inner.is_checking.store(false, Ordering::Release);
        }));
    }
}
