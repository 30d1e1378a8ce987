//! [`Cluster`]: a node's ledger.

use parking_lot::{Mutex, RwLock};
use std::collections::HashSet;
use std::fmt;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::task::Poll;
use std::time::Instant;

use disk::Device;
use event::{Key, Shingle, Time};
use event_listener::{Event, Listener};
use hashbrown::HashMap;
use stats::random::Random;
use stats::{
    CancellationCheck, Catalog, CatalogError, Durability, ErasedKeys, HottestKeys, HottestQuery, Ledger,
    LedgerCensus, LedgerError, LedgerFuture, LedgerMetric, Measure, ObserveOutcomes, ObserveRequest,
    Timeline,
};

use crate::cache::CacheShard;
use crate::catalog::{ClusterCatalog, CompiledForm};
use crate::cell::CellId;
use crate::cell_map::NO_HINT;
use crate::core::{ClusterCore, ClusterSettings, RunningCalls};
use crate::environment::Environment;
use crate::erase::erase;
use crate::exact_queue::ExactLimitQueue;
use crate::intent::Intents;
use crate::lookup::CacheLookup;
use crate::metrics::{ClusterCounters, ClusterMetrics};
use crate::partition::{PartitionState, ReplayedBatches};
use crate::remote::{Partition, RemoteCell, RemoteCluster};
use crate::sighting::SightingQueue;
use crate::wal::{WalAddition, WalOptions, WalRecord, WriteAheadLog};
use crate::wire::WireClient;

/// Shares of the cache, each with a lock.
const SHARDS: usize = 64;

/// Statistics in a cluster, with a cache and a journal in this process.
pub struct Cluster {
    pub(crate) inner: Arc<ClusterCore>,
    /// The way by which cells are erased.
    eraser: Mutex<Option<WireClient>>,
}

impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cluster").finish_non_exhaustive()
    }
}

/// The batches that a journal says are not in the cluster.
type ReplayBatches = HashMap<Partition, ReplayedBatches>;

impl Cluster {
    /// Opens a node: reads the journal in `device`, which is this node's alone, and begins to send what is in it. The
    /// cluster need not be there.
    ///
    /// # Errors
    /// [`LedgerError::Catalog`] if the catalog does not fit itself or what is in the journal;
    /// [`LedgerError::Poisoned`] if the journal cannot be read or written.
    pub fn open(
        remote: Arc<dyn RemoteCluster>,
        device: Arc<dyn Device>,
        catalog: Catalog,
        settings: ClusterSettings,
        environment: Arc<dyn Environment>,
    ) -> Result<Cluster, LedgerError> {
        let count = settings.partitions.count();
        let mut records = Vec::new();
        let options = WalOptions {
            durability: settings.durability,
            segment_bytes: settings.segment_bytes,
            partitions: usize::from(count),
        };
        let journal =
            WriteAheadLog::open(device, environment.clone(), options, &mut |record| records.push(record));
        let journal = journal.map_err(|error| LedgerError::Poisoned { why: error.to_string().into() })?;
        let shards = SHARDS.min(usize::from(count));
        let catalog = ClusterCatalog::new(catalog, None, settings.partitions)?;
        let horizon = records.iter().filter_map(|record| match record {
            WalRecord::Horizon(time) => Some(time.0),
            _ => None,
        });
        let horizon = horizon.max().unwrap_or(i64::MIN);
        let (catalog, mut replays, intents) = replay(catalog, records)?;
        let mut random = Random::new(environment.seed());
        let owner = u128::from(environment.seed()) << 64 | u128::from(random.bits());
        let owner = owner.to_le_bytes();
        let latest = journal.latest();
        let width = usize::from(count) / shards;
        let shift = event::Shingle::ROUTE_BITS - count.trailing_zeros();
        let now = environment.now();
        let part = |number: u16| {
            let partition = Partition(number);
            let due = now + settings.flush_every.mul_f64(random.unit());
            let latest = latest.get(usize::from(number)).copied().unwrap_or(0);
            let mut part = PartitionState::new(partition, shift, latest, due);
            part.replays = replays.remove(&partition).unwrap_or_default();
            part
        };
        let parts: Vec<PartitionState> = (0..count).map(part).collect();
        let mut parts = parts.into_iter();
        let budget = settings.cache_bytes / shards;
        let shard = |_| {
            let due = now + settings.flush_every.mul_f64(random.unit());
            let sightings = SightingQueue::new(width, shards, due);
            Mutex::new(CacheShard::new(parts.by_ref().take(width).collect(), sightings, budget))
        };
        let shards: Vec<Mutex<CacheShard>> = (0..shards).map(shard).collect();
        let inner = Arc::new(ClusterCore {
            remote,
            settings,
            partitions: settings.partitions,
            shards,
            width,
            catalog: RwLock::new(Arc::new(catalog)),
            changing: Mutex::default(),
            wal: Arc::new(journal),
            intents,
            exact_limits: ExactLimitQueue::new(owner, usize::from(count)),
            adding: RwLock::default(),
            horizon: AtomicI64::new(horizon),
            running: RunningCalls::default(),
            counts: ClusterCounters::default(),
            token: AtomicU64::new(random.bits()),
            owner,
            random: Mutex::new(random),
            asking: Mutex::default(),
            watch: Mutex::default(),
            tended: Mutex::new((now, now)),
            is_checking: AtomicBool::new(false),
            is_recovering: AtomicBool::new(false),
            is_full: AtomicBool::new(false),
            is_closed: AtomicBool::new(false),
            is_draining: AtomicBool::new(false),
            drained: Event::new(),
            kick: Event::new(),
            environment: environment.clone(),
        });
        let weak = Arc::downgrade(&inner);
        environment.spawn(Box::pin(async move {
            while let Some(inner) = weak.upgrade() {
                let kicked = inner.kick.listen();
                inner.tick();
                let mut rest = inner.environment.sleep(inner.pause());
                drop(inner);
                let mut kicked = pin!(kicked);
                poll_fn(|context| {
                    let woken =
                        rest.as_mut().poll(context).is_ready() || kicked.as_mut().poll(context).is_ready();
                    if woken { Poll::Ready(()) } else { Poll::Pending }
                })
                .await;
            }
        }));
        Ok(Cluster { inner, eraser: Mutex::default() })
    }

    /// Says by which way cells are erased, which goes through all of the cluster's names.
    pub fn erase_by(&self, wire: &WireClient) {
        *self.eraser.lock() = Some(wire.clone());
    }

    /// The catalog in force.
    pub fn catalog(&self) -> Catalog {
        self.inner.catalog().catalog.clone()
    }

    /// Takes no more additions and sends what there is; true when the cluster has all of it.
    pub async fn drain(&self) -> bool {
        let inner = &self.inner;
        inner.is_closed.store(true, Ordering::Release);
        inner.is_draining.store(true, Ordering::Release);
        let end = inner.environment.now() + inner.settings.drain;
        inner.kick.notify(1);
        loop {
            let drained = inner.drained.listen();
            if inner.is_clean() {
                return true;
            }
            if inner.environment.now() >= end {
                return false;
            }
            drained.await;
        }
    }

    /// Returns the metrics of what this node has done and holds.
    pub fn metrics(&self) -> ClusterMetrics {
        let inner = &self.inner;
        let mut metrics = inner.counts.metrics();
        for shard in &inner.shards {
            let shard = shard.lock();
            metrics.evictions += shard.evictions;
            metrics.sightings_dropped += shard.sightings.dropped;
            metrics.entries += shard.entries() as u64;
            metrics.cache_bytes += shard.bytes() as u64;
            for part in &shard.parts {
                metrics.pending_bytes += part.pending_bytes as u64;
                metrics.waiting_partitions += u64::from(part.waiting.is_some());
            }
        }
        metrics.undecided = inner.intents.len() as u64;
        metrics.journal_bytes = inner.wal.bytes();
        metrics.full = inner.is_full.load(Ordering::Acquire);
        metrics
    }
}

/// Sorts what a journal says: forms, batches, and intents without an answer.
fn replay(
    mut catalog: ClusterCatalog,
    records: Vec<WalRecord>,
) -> Result<(ClusterCatalog, ReplayBatches, Intents), LedgerError> {
    let (mut replays, mut intents) = (ReplayBatches::new(), HashMap::new());
    for record in records {
        match record {
            WalRecord::Form(form, words) => {
                if catalog.forms.contains_key(&form) {
                    continue;
                }
                let stored = || CatalogError::Stored(format!("form {form:08x} of the journal"));
                let definition = stats::cell_export::CellDefinition::decode(&words).ok_or_else(stored)?;
                catalog.forms.insert(form, Arc::new(CompiledForm::new(definition)?));
            }
            WalRecord::Intent(token, request) => {
                intents.insert(token, request);
            }
            WalRecord::Addition { had, refused, added } => {
                for token in had.iter().chain(&refused) {
                    intents.remove(token);
                }
                for WalAddition { partition, number, cell, form, op } in added.iter() {
                    if let Some(known) = catalog.forms.get(&form) {
                        let batch = replays.entry(partition).or_default().entry(number).or_default();
                        batch.entry((cell, form)).or_default().add(&known.form.plan, &op);
                    }
                }
            }
            WalRecord::Numbers(_) | WalRecord::Checkpoint | WalRecord::Horizon(_) => {}
        }
    }
    let restored = Intents::default();
    for (token, request) in intents {
        restored.restore(token, request);
    }
    Ok((catalog, replays, restored))
}

impl ClusterCore {
    /// Does what is due. To be called again after at most [`ClusterCore::pause`].
    fn tick(self: &Arc<ClusterCore>) {
        let now = self.environment.now();
        self.ask_numbers(now);
        self.ask_generations(now);
        let outgoing = self.collect(now);
        if !outgoing.is_empty() {
            let inner = self.clone();
            self.environment.spawn(Box::pin(async move { inner.send(outgoing).await }));
        }
        self.refresh(now);
        self.share_sightings(now);
        self.recover();
        self.resolve(now);
        self.tend_journal(now);
        if self.is_draining.load(Ordering::Acquire) {
            self.drained.notify(usize::MAX);
        }
    }

    async fn timeline(self: &Arc<ClusterCore>, key: Key) -> Result<Option<Timeline>, LedgerError> {
        let catalog = self.catalog();
        let planned = catalog.planned(key.space, key.kind)?;
        let is_mark = matches!(planned.statistic.measure, Measure::Once(_));
        let (id, form) = (CellId::of(key), planned.known.form.id);
        let (shard, at) = self.place(self.partitions.of(key.shingle));
        let run = self.running.begin();
        let age = self.age(self.environment.now());
        let mut lookup = CacheLookup::default();
        {
            let mut shard = self.shards[shard].lock();
            let (entry, _) = shard.entry(id, form, at, run.stamp);
            if is_mark || planned.is_exact {
                // What is claimed and what exact limits are asked does not go through the cache.
                entry.image = None;
            }
            lookup.look(&mut shard, ((id, NO_HINT), form), None, &age, run.stamp);
        }
        self.read(lookup, &catalog).await;
        let mut shard = self.shards[shard].lock();
        let (entry, as_of) = shard.entry(id, form, at, run.stamp);
        if !age.is_usable(entry, as_of) {
            return Err(LedgerError::Unreachable { why: "the key could not be read".into() });
        }
        let mut room = Vec::new();
        let plan = &planned.plan;
        if !is_mark {
            entry.expire_image(plan, self.horizon.load(Ordering::Acquire));
        }
        let words = entry.show(plan, &mut room);
        let Some((first, last)) = plan.times(words) else { return Ok(None) };
        // Marks expire by the cluster's own clock.
        if !is_mark && plan.expires_after(last).0 <= self.horizon.load(Ordering::Acquire) {
            return Ok(None);
        }
        let counters = planned.statistic.measure.shown();
        Ok(Some(Timeline { counters, first, last, buckets: plan.net_rows(words) }))
    }

    fn hottest(
        &self,
        queries: &[HottestQuery],
        now: Time,
        is_over: CancellationCheck<'_>,
    ) -> Result<Vec<Vec<(Key, u64)>>, LedgerError> {
        let catalog = self.catalog();
        let mut asked = queries
            .iter()
            .map(|query| {
                let planned = catalog.planned(query.space, query.kind)?;
                let of = (query.space.0, query.kind.0, planned.known.form.id);
                Ok((of, HottestKeys::new(&planned.statistic, query, now)?))
            })
            .collect::<Result<Vec<_>, LedgerError>>()?;
        let horizon = Time(self.horizon.load(Ordering::Acquire));
        let mut room = Vec::new();
        for shard in &self.shards {
            if is_over() {
                return Err(LedgerError::Stopped);
            }
            for (id, entry) in shard.lock().iter() {
                for (_, hottest) in asked.iter_mut().filter(|(of, _)| *of == (id.space, id.kind, entry.form))
                {
                    let words = entry.show(hottest.plan(), &mut room);
                    hottest.look(id.key(), words, horizon);
                }
            }
        }
        Ok(asked.into_iter().map(|(_, hottest)| hottest.finish()).collect())
    }

    /// Lets go of what has expired, but for what was just added.
    fn sweep(&self) {
        let (catalog, horizon) = (self.catalog(), self.horizon.load(Ordering::Acquire));
        let mut room = Vec::new();
        for shard in &self.shards {
            let mut shard = shard.lock();
            for (_, entry) in shard.iter_mut() {
                if let Some(known) = catalog.forms.get(&entry.form)
                    && entry.pending.is_none()
                    && entry.sent.is_none()
                    && entry.holds()
                    && known.form.plan.expires(entry.show(&known.form.plan, &mut room)).0 <= horizon
                {
                    entry.expire();
                }
            }
            shard.recount();
        }
    }
}

impl Ledger for Cluster {
    fn observe_each<'a>(&'a self, requests: &'a [ObserveRequest]) -> LedgerFuture<'a, ObserveOutcomes> {
        Box::pin(self.inner.observe(requests))
    }

    fn timeline<'a>(&'a self, key: Key) -> LedgerFuture<'a, Option<Timeline>> {
        Box::pin(self.inner.timeline(key))
    }

    /// Only over what this node has in memory.
    fn hottest<'a>(
        &'a self,
        queries: &'a [HottestQuery],
        now: Time,
        is_over: CancellationCheck<'a>,
    ) -> LedgerFuture<'a, Vec<Vec<(Key, u64)>>> {
        Box::pin(async move { self.inner.hottest(queries, now, is_over) })
    }

    /// A kind whose definition changes counts from nothing: the cells of each definition are apart, so that nodes with
    /// the old catalog and nodes with the new one do not disturb each other. What was added under the old one is still
    /// sent.
    fn set_catalog(&self, catalog: Catalog) -> Result<(), LedgerError> {
        let _only = self.inner.changing.lock();
        let before = self.inner.catalog();
        let catalog = ClusterCatalog::new(catalog, Some(&before), self.inner.partitions)?;
        *self.inner.catalog.write() = Arc::new(catalog);
        Ok(())
    }

    /// Sends before what this node has counted. Additions that other nodes had not sent by then make new cells.
    fn erase<'a>(
        &'a self,
        shingles: &'a HashSet<Shingle>,
        pretend: bool,
        _is_over: CancellationCheck<'a>,
    ) -> LedgerFuture<'a, ErasedKeys> {
        Box::pin(async move {
            let inner = &self.inner;
            inner.kick.notify(1);
            inner.environment.sleep(inner.settings.flush_every * 2).await;
            let wire = self.eraser.lock().clone();
            let wire = wire.ok_or_else(|| LedgerError::Unreachable {
                why: "nothing was said of how cells are erased".into(),
            })?;
            let (of, shingles) = (wire.clone(), shingles.clone());
            let erased = wire.run(async move { erase(&of, &shingles, pretend, &mut |_| ()).await }).await;
            let keys =
                erased.map_err(|failure| LedgerError::Unreachable { why: failure.to_string().into() })?;
            Ok(ErasedKeys { keys, ..ErasedKeys::default() })
        })
    }

    fn maintain(&self, now: Time) -> Result<(), LedgerError> {
        let inner = &self.inner;
        if inner.horizon.fetch_max(now.0, Ordering::AcqRel) < now.0 {
            inner.wal.append(&WalRecord::Horizon(now), &|_| None);
            if inner.settings.durability == Durability::Sync {
                inner.wal.sync()?;
            }
        }
        inner.sweep();
        inner.wal.check()
    }

    /// Syncs this node's journal: what is in it reaches the cluster, whatever happens to the node's process.
    fn sync(&self) -> LedgerFuture<'_, ()> {
        Box::pin(self.inner.wal.synced())
    }

    /// Sends everything, for as long as [`ClusterSettings::drain`] says, and syncs the journal. What the cluster has not taken by
    /// then is no error: it is sent after the next opening.
    fn close(&self) -> Result<(), LedgerError> {
        let inner = &self.inner;
        inner.is_closed.store(true, Ordering::Release);
        inner.is_draining.store(true, Ordering::Release);
        let end = Instant::now() + inner.settings.drain;
        inner.kick.notify(1);
        loop {
            let drained = inner.drained.listen();
            if inner.is_clean() {
                break;
            }
            if drained.wait_deadline(end).is_none() {
                tracing::warn!(
                    "the cluster has not taken everything: what is left is sent after the next opening"
                );
                break;
            }
        }
        inner.wal.sync()
    }

    fn figures(&self) -> Vec<LedgerMetric> {
        let mut figures = self.metrics().figures();
        figures.extend(self.inner.remote.figures());
        figures
    }

    fn census(&self) -> LedgerCensus {
        let inner = &self.inner;
        let mut census = LedgerCensus {
            memory_bytes: inner.catalog().sketch_bytes(),
            disk_bytes: inner.wal.bytes(),
            loads: inner.counts.metrics().reads,
            damaged: inner.counts.metrics().unsound,
            full: inner.is_full.load(Ordering::Acquire),
            ..LedgerCensus::default()
        };
        let (catalog, horizon) = (inner.catalog(), inner.horizon.load(Ordering::Acquire));
        let mut room = Vec::new();
        for shard in &inner.shards {
            let shard = shard.lock();
            let live = shard.iter().filter(|(id, entry)| {
                let known = catalog
                    .forms
                    .get(&entry.form)
                    .filter(|_| id.kind & RemoteCell::PAIR == 0 && entry.holds());
                known.is_some_and(|known| {
                    known.form.plan.expires(entry.show(&known.form.plan, &mut room)).0 > horizon
                })
            });
            census.cells += live.count() as u64;
            census.memory_bytes += shard.bytes() as u64;
            census.dirty_bytes += shard.parts.iter().map(|part| part.pending_bytes as u64).sum::<u64>();
            census.evictions += shard.evictions;
        }
        census.keys = census.cells;
        match inner.wal.check() {
            Err(LedgerError::Full { .. }) => census.full = true,
            Err(_) => census.poisoned = true,
            Ok(()) => {}
        }
        census
    }
}

impl Drop for Cluster {
    /// Ends the background work. What was not sent stays in the journal.
    fn drop(&mut self) {
        self.inner.is_closed.store(true, Ordering::Release);
        self.inner.kick.notify(1);
    }
}
