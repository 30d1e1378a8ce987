//! What was added becomes numbered batches, and batches reach the cluster.
//!
//! ```text
//! tick    ─► which partitions are due ─► cut: pending is the batch `number` ─► journal synced ─► Remote::write, all in one
//! answer  ─► Now, Before: acknowledged     an error: again, later, the same
//!         └► Behind(has): all after `has` from the journal, as one
//! ```
//!
//! A partition has one batch under way at most, so the cluster knows all that was before it. Each is due at a phase of
//! its own in the interval, drawn at random: nodes do not flush in step, and a node writes little at a time. Cutting
//! waits for requests that are adding, so what is cut is in the journal.
//!
//! After opening, nothing is sent to a partition before the cluster has said which batch of this node it has.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use event::{Kind, Time};
use hashbrown::HashMap;
use stats::{Durability, LedgerError};

use crate::cache::{CacheShard, CellId, InFlightCall, SentDelta};
use crate::catalog::{ClusterCatalog, CompiledForm};
use crate::chain::{ChainId, WriterChain};
use crate::cluster::ClusterCore;
use crate::delta::{CellDelta, CellOperation};
use crate::lock;
use crate::remote::{CellWrite, Partition, RemoteCell, RemoteError, WriteBatch, WriteOutcome};
use crate::wal::{WalAddition, WalRecord};

/// The time after a first failure until a batch is sent again, and the longest such time.
const AGAIN: Duration = Duration::from_millis(50);
const AGAIN_MAX: Duration = Duration::from_secs(5);

/// Additions to a cell of a form.
#[derive(Clone)]
pub(crate) struct BatchItem {
    id: CellId,
    form: u32,
    delta: Arc<CellDelta>,
    /// Its time to live begins anew.
    renews: bool,
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
    /// Of the batch that pending additions will be.
    pub(crate) number: u64,
    /// The last that the cluster has.
    pub(crate) acknowledged: u64,
    /// True if the cluster has said since opening which batch is the last that it has.
    pub(crate) is_known: bool,
    /// The chain of those that have written to the partition.
    pub(crate) chain: WriterChain,
    /// The call that asks only that.
    pub(crate) looking: Option<Arc<InFlightCall>>,
    /// Cells with pending additions.
    pub(crate) dirty: Vec<CellId>,
    pub(crate) pending_bytes: usize,
    /// Pending additions of forms that are no longer in force.
    pub(crate) orphans: Vec<BatchItem>,
    /// The batch that was cut last, until it is acknowledged.
    pub(crate) waiting: Option<UnacknowledgedBatch>,
    pub(crate) is_busy: bool,
    /// The cluster has lost batches after this number, and they are looked for.
    pub(crate) behind: Option<u64>,
    attempts: u32,
    not_before: Duration,
    due: Duration,
    /// The batches that the journal has, until the partition is known.
    pub(crate) replays: ReplayedBatches,
    /// Batches that a failover may still lose, and when they were acknowledged.
    retained: VecDeque<(u64, Duration)>,
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
            dirty: Vec::new(),
            pending_bytes: 0,
            orphans: Vec::new(),
            waiting: None,
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
            && self.dirty.is_empty()
            && self.orphans.is_empty()
            && self.replays.is_empty()
            && self.behind.is_none()
    }

    fn has_pending(&self) -> bool {
        !self.dirty.is_empty() || !self.orphans.is_empty()
    }

    /// Returns true if something is to be sent now.
    fn is_due(&self, now: Duration, flush_bytes: usize, is_draining: bool) -> bool {
        let ready = self.is_known && !self.is_busy && self.behind.is_none() && now >= self.not_before;
        let large = self.pending_bytes >= flush_bytes;
        ready && (self.waiting.is_some() || self.has_pending() && (large || is_draining || now >= self.due))
    }

    /// Returns true if the answer to a write that is under way, or is sent by then, says who wrote last.
    pub(crate) fn answers_by(&self, by: Duration) -> bool {
        let goes_well = self.is_known && self.behind.is_none() && self.attempts == 0;
        goes_well && (self.is_busy || self.has_pending() && self.due <= by)
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

impl CacheShard {
    /// Makes a partition's pending additions a batch.
    fn cut(&mut self, at: usize, world: &ClusterCatalog, now: Duration, interval: Duration) {
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
        let mut replays = std::mem::take(&mut part.replays).split_off(&has.saturating_add(1));
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
        *lost += latest - has - (replays.len() as u64).min(latest - has);
        let Some((number, mut all)) = replays.pop_last() else { return Vec::new() };
        // Earlier ones first, so that what happens to buckets keeps its order.
        for (_, batch) in replays.into_iter().rev() {
            for (cell, mut delta) in batch {
                let Some(known) = world.forms.get(&cell.1) else { continue };
                if let Some(later) = all.get(&cell) {
                    delta.append(&known.plan, later);
                }
                all.insert(cell, delta);
            }
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
        let Some(part) = self.parts.get_mut(at) else { return Vec::new() };
        part.waiting = Some(UnacknowledgedBatch { number, previous: has, deltas: Arc::new(deltas) });
        Vec::new()
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

/// A batch that is sent now: which shard and partition it is of, and what it holds.
struct OutgoingBatch {
    shard: usize,
    at: usize,
    partition: Partition,
    sending: UnacknowledgedBatch,
}

impl ClusterCore {
    /// Does what is due. To be called again after at most [`Inner::pause`].
    pub(crate) fn tick(self: &Arc<ClusterCore>) {
        let now = self.environment.now();
        self.ask_numbers(now);
        self.ask_generations(now);
        let outgoing = self.collect(now);
        if !outgoing.is_empty() {
            let inner = self.clone();
            self.environment.spawn(Box::pin(async move { inner.send(outgoing).await }));
        }
        self.share_sightings(now);
        self.recover();
        self.resolve(now);
        self.tend_journal(now);
        if self.is_draining.load(Ordering::Acquire) {
            self.drained.notify(usize::MAX);
        }
    }

    /// Returns the time for which the flusher rests: partitions whose phases are near one another go together.
    pub(crate) fn pause(&self) -> Duration {
        (self.settings.flush_every / 16).clamp(Duration::from_millis(1), Duration::from_millis(250))
    }

    fn is_ready(&self, now: Duration) -> bool {
        let is_draining = self.is_draining.load(Ordering::Acquire);
        self.shards.iter().any(|shard| {
            let shard = lock(shard);
            shard.parts.iter().any(|part| part.is_due(now, self.settings.flush_bytes, is_draining))
        })
    }

    /// Cuts what is due.
    fn collect(&self, now: Duration) -> Vec<OutgoingBatch> {
        if !self.is_ready(now) {
            return Vec::new();
        }
        let is_draining = self.is_draining.load(Ordering::Acquire);
        // Requests that are adding end first: what they have added is then in the journal.
        let _cutting = self.adding.write().unwrap_or_else(std::sync::PoisonError::into_inner);
        let world = self.catalog();
        let mut outgoing = Vec::new();
        for (number, shard) in self.shards.iter().enumerate() {
            let mut shard = lock(shard);
            for at in 0..shard.parts.len() {
                if !shard.parts[at].is_due(now, self.settings.flush_bytes, is_draining) {
                    continue;
                }
                if shard.parts[at].waiting.is_none() {
                    shard.cut(at, &world, now, self.settings.flush_every);
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

    async fn send(self: Arc<ClusterCore>, outgoing: Vec<OutgoingBatch>) {
        let mut results = Vec::new();
        let safe = self.wal.safe().await;
        let sent = self.environment.now();
        if safe.is_ok() {
            let world = self.catalog();
            let horizon = Time(self.horizon.load(Ordering::Acquire));
            let batches: Vec<WriteBatch> = outgoing.iter().map(|each| each.batch(&world, horizon)).collect();
            let counts = &self.counts;
            counts.batches.fetch_add(batches.len() as u64, Ordering::Relaxed);
            let writes = batches.iter().map(|batch| batch.writes.len() as u64).sum();
            counts.writes.fetch_add(writes, Ordering::Relaxed);
            results = self.remote.write(batches, self.settings.within).await;
        }
        let why = || RemoteError::Unexpected("there is no answer to it".into());
        let mut results = results.into_iter();
        let now = self.environment.now();
        for each in outgoing {
            let result = results.next().unwrap_or_else(|| Err(why()));
            let mut shard = lock(&self.shards[each.shard]);
            let Some(part) = shard.parts.get_mut(each.at) else { continue };
            part.is_busy = false;
            match result {
                Ok(WriteOutcome::Now(_) | WriteOutcome::Before) => {
                    match result {
                        Ok(WriteOutcome::Now(before)) => part.chain.wrote(each.sending.number, before, sent),
                        _ => part.chain.end(),
                    }
                    part.attempts = 0;
                    part.acknowledged = part.acknowledged.max(each.sending.number);
                    part.waiting = None;
                    part.retained.push_back((each.sending.number, now));
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

    /// Returns the time to wait after so many failures: twice as long each time, and up to half as long again at random.
    pub(crate) fn again(&self, attempts: u32) -> Duration {
        let pause = AGAIN.saturating_mul(1 << attempts.min(10)).min(AGAIN_MAX);
        pause.mul_f64(1.0 + lock(&self.random).unit() / 2.0)
    }

    /// Asks which batches the cluster has: soon, while that is not known of all partitions; later now and then, since of a
    /// partition that is neither written nor read nothing else would tell that a failover has lost batches.
    fn ask_numbers(self: &Arc<ClusterCore>, now: Duration) {
        let mut asking = lock(&self.asking);
        if asking.is_busy || now < asking.not_before {
            return;
        }
        asking.is_busy = true;
        let inner = self.clone();
        self.environment.spawn(Box::pin(async move {
            let all = inner.compare_numbers().await;
            let now = inner.environment.now();
            let again = inner.again(lock(&inner.asking).attempts);
            let mut asking = lock(&inner.asking);
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
            for part in &lock(shard).parts {
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
                if let Some(part) = lock(&self.shards[shard]).parts.get_mut(at) {
                    part.falls_behind(number);
                }
            }
        }
        all
    }

    pub(crate) fn is_known(&self, partition: Partition) -> bool {
        let (shard, at) = self.place(partition);
        lock(&self.shards[shard]).parts.get(at).is_none_or(|part| part.is_known)
    }

    pub(crate) fn learn(&self, partition: Partition, number: u64) {
        let (shard, at) = self.place(partition);
        let (world, now, mut lost) = (self.catalog(), self.environment.now(), 0);
        // What is pending keeps its number until the journal knows the new one.
        let _cutting = self.adding.write().unwrap_or_else(std::sync::PoisonError::into_inner);
        let added = lock(&self.shards[shard]).learn(at, number, &world, now, &mut lost);
        if !added.is_empty() {
            let record = WalRecord::Addition { had: Vec::new(), refused: Vec::new(), added };
            self.wal.append(&record, &|form| words_of(&world, form));
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
    fn recover(self: &Arc<ClusterCore>) {
        let is_behind = |part: &PartitionState| part.behind.is_some() && !part.is_busy;
        if !self.shards.iter().any(|shard| lock(shard).parts.iter().any(is_behind)) {
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
            for part in lock(shard).parts.iter().filter(|part| !part.is_busy) {
                let end = part.waiting.as_ref().map_or(part.acknowledged, |waiting| waiting.number);
                if let Some(has) = part.behind {
                    ranges.insert(part.partition, (has, end));
                }
            }
        }
        let world = self.catalog();
        let mut batches: HashMap<Partition, ReplayedBatches> = HashMap::new();
        for record in records {
            let WalRecord::Addition { added, .. } = record else { continue };
            for WalAddition { partition, number, cell, form, op } in added {
                let Some((has, end)) = ranges.get(&partition) else { continue };
                if let Some(known) = world.forms.get(&form)
                    && *has < number
                    && number <= *end
                {
                    let batch = batches.entry(partition).or_default().entry(number).or_default();
                    batch.entry((cell, form)).or_default().add(&known.plan, &op);
                }
            }
        }
        let mut lost = 0;
        for (partition, (has, end)) in ranges {
            let found = batches.remove(&partition).unwrap_or_default();
            let (shard, at) = self.place(partition);
            let mut shard = lock(&self.shards[shard]);
            let Some(part) = shard.parts.get_mut(at).filter(|part| part.behind == Some(has)) else {
                continue;
            };
            part.behind = None;
            lost += (end - has.min(end)).saturating_sub(found.len() as u64);
            let mut all: HashMap<(CellId, u32), CellDelta> = HashMap::new();
            for (_, batch) in found {
                for (cell, delta) in batch {
                    if let Some(known) = world.forms.get(&cell.1) {
                        all.entry(cell).or_default().append(&known.plan, &delta);
                    }
                }
            }
            let item = |((id, form), delta)| BatchItem::new(id, form, Arc::new(delta));
            let deltas = all.into_iter().map(item).collect();
            // Empty where nothing is left: what follows then fits on what is there.
            part.waiting = Some(UnacknowledgedBatch { number: end, previous: has, deltas: Arc::new(deltas) });
        }
        self.lost(lost);
    }

    /// Writes, trims and bounds the journal.
    fn tend_journal(self: &Arc<ClusterCore>, now: Duration) {
        let every = match self.settings.durability {
            Durability::Interval(span) => Duration::from_micros(span.0.unsigned_abs()),
            Durability::Sync | Durability::None => Duration::from_secs(1),
        };
        let mut tended = lock(&self.tended);
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
    fn release(&self, shard: &std::sync::Mutex<CacheShard>, now: Duration) -> Vec<(u16, u64)> {
        let mut shard = lock(shard);
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
        let world = self.catalog();
        let (segment, position) = {
            let _cutting = self.adding.write().unwrap_or_else(std::sync::PoisonError::into_inner);
            let mut records = Vec::new();
            for shard in &self.shards {
                let shard = lock(shard);
                for part in &shard.parts {
                    let added = part_of_checkpoint(&shard, part);
                    if !added.is_empty() {
                        records.push(WalRecord::Addition { had: Vec::new(), refused: Vec::new(), added });
                    }
                }
            }
            let intents = self.intents.list();
            records.extend(intents.into_iter().map(|(token, request)| WalRecord::Intent(token, request)));
            self.wal.checkpoint(&records, &|form| words_of(&world, form))
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
                    "the journal is full, as the cluster takes nothing: additions are refused for now"
                );
            }
            // Not at once again: it would be as large.
            inner.environment.sleep(inner.settings.flush_every).await;
            inner.is_checking.store(false, Ordering::Release);
        }));
    }

    /// Returns true if all that was added is in the cluster, and every intent is settled.
    pub(crate) fn is_clean(&self) -> bool {
        self.intents.is_empty()
            && self.shards.iter().all(|shard| {
                let shard = lock(shard);
                shard.sightings.is_empty() && shard.parts.iter().all(PartitionState::is_clean)
            })
    }

    /// Refuses additions that the journal has no room for.
    pub(crate) fn check_writable(&self) -> Result<(), LedgerError> {
        if self.is_closed.load(Ordering::Acquire) {
            return Err(LedgerError::Closed);
        }
        if self.is_full.load(Ordering::Acquire) {
            let why = "the cluster does not take what is in the journal, and the journal may not grow";
            return Err(LedgerError::Full { why: why.into() });
        }
        self.wal.check()
    }
}

/// All of a partition that the cluster is not known to have.
fn part_of_checkpoint(shard: &CacheShard, part: &PartitionState) -> Vec<WalAddition> {
    let partition = part.partition;
    let mut all = Vec::new();
    let mut push = |number: u64, cell: CellId, form: u32, ops: &mut dyn Iterator<Item = CellOperation>| {
        all.extend(ops.map(|op| WalAddition { partition, number, cell, form, op }));
    };
    for (number, batch) in &part.replays {
        batch.iter().for_each(|((id, form), delta)| push(*number, *id, *form, &mut delta.ops()));
    }
    if let Some(sending) = &part.waiting {
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

/// The words of a form's definition.
pub(crate) fn words_of(world: &ClusterCatalog, form: u32) -> Option<Vec<u64>> {
    world.forms.get(&form).map(|known| known.form.definition.encode())
}

impl OutgoingBatch {
    fn batch(&self, world: &ClusterCatalog, horizon: Time) -> WriteBatch {
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
