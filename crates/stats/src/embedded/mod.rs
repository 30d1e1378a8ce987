//! The embedded home: hot cells in memory under a budget, behind them a log-structured store.
//!
//! ```text
//! observe ─► load what is missing (no lock held) ─► under the cut, shared: apply, partition by partition ─► wait for
//!            the flush, if durability is `sync`
//! flush   ─► under the cut, alone: collect images of dirty cells ─► append as one group ─► sync ─► mark clean
//! evict   ─► under the cut, alone: sampled least recently used clean cells leave memory
//! ```
//!
//! The *cut* is a read-write lock that is never held over I/O. Requests are applied under its shared side, so what a
//! flush collects under the other is a consistent state: all of a request or nothing of it, and every request that
//! was answered before. A cell that a request has found in memory stays there while it is applied, as only the
//! other side evicts.
//!
//! A failed write poisons the home: what was answered is on disk, what was not is refused, readings go on.
//!
//! Locks are taken in the order flush, cut, partition; the store's own come last.

mod partition;

use std::fmt;
use std::ops::Range;
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, Ordering};
use std::sync::{
    Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard,
};
use std::thread::JoinHandle;
use std::time::Duration;

use event::{Key, Kind, Shingle, Space, Span, Time};
use event_listener::Event;
use hashbrown::{HashMap, HashSet};
use store::{Image, Record, Store, StoreError};

use crate::catalog::{Catalog, CatalogError, Measure, Statistic};
use crate::cell::Cell;
use crate::definition::{self, Definition, PAIR, Registry};
use crate::layout::Trail;
use crate::ledger::{
    Add, Answer, Bucket, Census, Ledger, LedgerError, Observation, Once, Outcome, Quality, Reading, Request,
    Timeline,
};
use partition::{Gauge, Partition, Slot, State};

const PARTITION_BITS: u32 = 4;
/// Requests are applied in runs of about this many observations, between which other callers and the flush get in.
const RUN: usize = 1024;
/// Cold cells that one [`Ledger::hottest`] reads.
const COLD_MAX: usize = 1 << 20;
/// Live bytes that one [`Ledger::maintain`] rewrites.
const MERGE_BYTES: u64 = 64 << 20;

/// When an answer's additions are safe from a crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// Before the answer. Waiting requests share one sync.
    Sync,
    /// This long after the answer at most, if the disk keeps up.
    Interval(Span),
    /// When the system pleases; written every second, synced when closed, when a segment is sealed, and before a
    /// merge removes one.
    None,
}

/// A text that is no durability.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DurabilityError;

impl fmt::Display for DurabilityError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("expected `sync`, an interval such as `1s`, or `none`")
    }
}

impl std::error::Error for DurabilityError {}

impl FromStr for Durability {
    type Err = DurabilityError;

    fn from_str(text: &str) -> Result<Durability, DurabilityError> {
        match text.trim() {
            "sync" => Ok(Durability::Sync),
            "none" => Ok(Durability::None),
            interval => match interval.parse() {
                Ok(span) if span > Span::ZERO => Ok(Durability::Interval(span)),
                _ => Err(DurabilityError),
            },
        }
    }
}

impl fmt::Display for Durability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Durability::Sync => f.write_str("sync"),
            Durability::Interval(span) => span.fmt(f),
            Durability::None => f.write_str("none"),
        }
    }
}

/// How an [`Embedded`] home is kept.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Budget for the cells in memory. A run of requests may exceed it until it has been applied. The directory of
    /// keys on disk is not in it.
    pub memory_bytes: usize,
    /// When additions are safe.
    pub durability: Durability,
}

/// Statistics in this process: in memory, and on disk behind it.
pub struct Embedded {
    inner: Arc<Inner>,
    flusher: Mutex<Option<JoinHandle<()>>>,
}

/// What the cut guards: how keys are to be understood.
struct World {
    catalog: Catalog,
    registry: Registry,
    /// By space and kind.
    plan: Vec<((Space, Kind), Planned)>,
}

struct Planned {
    statistic: Arc<Statistic>,
    definition: u16,
    trails: Vec<Trail>,
}

struct Inner {
    store: Option<Store>,
    memory_bytes: usize,
    dirty_bytes_max: usize,
    durability: Durability,
    cut: RwLock<World>,
    partitions: [Mutex<Partition>; 1 << PARTITION_BITS],
    gauge: Gauge,
    tick: AtomicU32,
    /// What expires at or before this is gone.
    horizon: AtomicI64,
    /// Held while a flush runs: there is one at a time.
    flushing: Mutex<()>,
    /// Flushes that have begun to collect, and the last one whose images are safe.
    begun: AtomicU64,
    finished: AtomicU64,
    /// Notified after each flush.
    progress: Event,
    poison: OnceLock<Arc<str>>,
    closed: AtomicBool,
    signal: Mutex<Signal>,
    signalled: Condvar,
    counts: Counts,
}

#[derive(Default)]
struct Signal {
    flush: bool,
    stop: bool,
}

#[derive(Default)]
struct Counts {
    flushes: AtomicU64,
    loads: AtomicU64,
    evictions: AtomicU64,
    expired: AtomicU64,
    damaged: AtomicU64,
}

/// Where the store had a key's image, and the image; `None` if it was damaged.
type Found = (store::Position, Option<Vec<u8>>);
/// What was found without a lock, and may be out of date by now.
type Loaded = HashMap<Key, Found>;

impl Embedded {
    /// Opens the home over a store and starts its flusher.
    ///
    /// # Errors
    /// [`LedgerError::Catalog`] if a kind number is stored with another meaning; the store's.
    pub fn open(store: Store, catalog: Catalog, options: Options) -> Result<Embedded, LedgerError> {
        let mut registry = Registry::default();
        for key in store.keys(&key_bytes(&definition::definition_key(0))[..4], i64::MIN) {
            let number = u32::from_be_bytes([key[8], key[9], key[10], key[11]]);
            if let Some(image) = store.get(&key)? {
                registry.restore(number, &image.value)?;
            }
        }
        let world = World::new(catalog, registry, Some(&store))?;
        let horizon = store.floor();
        let inner = Arc::new(Inner::new(Some(store), world, options, horizon));
        let shared = inner.clone();
        let flusher = std::thread::Builder::new()
            .name("ledger-flush".to_owned())
            .spawn(move || shared.run())
            .map_err(LedgerError::Thread)?;
        Ok(Embedded { inner, flusher: Mutex::new(Some(flusher)) })
    }

    /// A home without a disk, for checks and replays. Above the budget the coldest cells are lost, which the census
    /// counts as evictions.
    ///
    /// # Errors
    /// [`LedgerError::Catalog`].
    pub fn in_memory(catalog: Catalog, memory_bytes: usize) -> Result<Embedded, LedgerError> {
        let world = World::new(catalog, Registry::default(), None)?;
        let options = Options { memory_bytes, durability: Durability::None };
        let inner = Arc::new(Inner::new(None, world, options, i64::MIN));
        Ok(Embedded { inner, flusher: Mutex::new(None) })
    }

    /// Replaces the catalog between two requests. Cells are translated when they are next used: counters by name,
    /// buckets into the finest tier whose width is a multiple of theirs; counters that are gone and buckets that fit
    /// nowhere are dropped. Distinct counts and marks survive only while their period stays the same.
    ///
    /// # Errors
    /// [`LedgerError::Catalog`] if a kind number would change its meaning; the store's. The old catalog then stays.
    pub fn set_catalog(&self, catalog: Catalog) -> Result<(), LedgerError> {
        let _only = lock(&self.inner.flushing);
        let registry = read(&self.inner.cut).registry.clone();
        let world = World::new(catalog, registry, self.inner.store.as_ref())?;
        *write(&self.inner.cut) = world;
        Ok(())
    }

    /// The catalog in force.
    pub fn catalog(&self) -> Catalog {
        read(&self.inner.cut).catalog.clone()
    }
}

impl Drop for Embedded {
    /// Closes. Whoever wants to know of a failure closes first.
    fn drop(&mut self) {
        self.close().unwrap_or_default();
    }
}

impl Ledger for Embedded {
    fn observe<'a>(&'a self, requests: &'a [Request]) -> Answer<'a, Vec<Outcome>> {
        Box::pin(self.inner.observe(requests))
    }

    fn timeline<'a>(&'a self, key: Key) -> Answer<'a, Option<Timeline>> {
        Box::pin(async move { self.inner.timeline(key) })
    }

    fn hottest<'a>(
        &'a self,
        space: Space,
        kind: Kind,
        counter: u8,
        window: Span,
        now: Time,
        limit: usize,
    ) -> Answer<'a, Vec<(Key, u64)>> {
        Box::pin(async move { self.inner.hottest(space, kind, counter, window, now, limit) })
    }

    fn maintain(&self, now: Time) -> Result<(), LedgerError> {
        let inner = &self.inner;
        inner.horizon.fetch_max(now.0, Ordering::AcqRel);
        if let Some(store) = &inner.store {
            store.raise_floor(now.0);
        }
        inner.forget_expired();
        inner.flush(inner.durability != Durability::None)?;
        if let Some(store) = &inner.store {
            store.merge_step(now.0, MERGE_BYTES)?;
        }
        Ok(())
    }

    fn close(&self) -> Result<(), LedgerError> {
        self.inner.closed.store(true, Ordering::SeqCst);
        let flushed = self.inner.flush(true);
        lock(&self.inner.signal).stop = true;
        self.inner.signalled.notify_all();
        let flusher = lock(&self.flusher).take();
        if let Some(flusher) = flusher
            && flusher.join().is_err()
        {
            return Err(self.inner.poisoned("the flusher panicked"));
        }
        flushed
    }

    fn census(&self) -> Census {
        let inner = &self.inner;
        let usage = inner.store.as_ref().map(Store::usage).unwrap_or_default();
        Census {
            cells: inner.partitions.iter().map(|partition| lock(partition).len() as u64).sum(),
            memory_bytes: inner.gauge.bytes.load(Ordering::Relaxed) as u64,
            dirty_bytes: inner.gauge.dirty.load(Ordering::Relaxed) as u64,
            disk_keys: usage.keys,
            directory_bytes: usage.directory_bytes,
            disk_bytes: usage.disk_bytes,
            flushes: inner.counts.flushes.load(Ordering::Relaxed),
            loads: inner.counts.loads.load(Ordering::Relaxed),
            evictions: inner.counts.evictions.load(Ordering::Relaxed),
            expired: inner.counts.expired.load(Ordering::Relaxed),
            damaged: inner.counts.damaged.load(Ordering::Relaxed),
            poisoned: inner.poison.get().is_some(),
        }
    }
}

impl World {
    /// Compiles a catalog against what is stored, and stores the definitions that are new.
    fn new(catalog: Catalog, mut registry: Registry, store: Option<&Store>) -> Result<World, LedgerError> {
        let mut plan = Vec::new();
        let mut new = Vec::new();
        for (space, kind, statistic) in catalog.iter() {
            let (definition, number) = registry.define(Definition::new(space, kind, statistic)?)?;
            if let Some(number) = number {
                new.push((key_bytes(&definition::definition_key(number)), registry.get(definition).encode()));
            }
            let trails = statistic
                .measure
                .trails()
                .map_err(|error| CatalogError::Layout { name: statistic.name.clone(), error })?;
            plan.push(((space, kind), Planned { statistic: statistic.clone(), definition, trails }));
        }
        if let Some(store) = store {
            let records: Vec<Record<'_>> =
                new.iter().map(|(key, value)| Record { key: *key, expires: i64::MAX, value }).collect();
            store.append(&records, true)?;
        }
        Ok(World { catalog, registry, plan })
    }

    fn planned(&self, space: Space, kind: Kind) -> Result<&Planned, LedgerError> {
        let at = self.plan.binary_search_by_key(&(space, kind), |(id, _)| *id).ok();
        at.and_then(|at| self.plan.get(at))
            .map(|(_, planned)| planned)
            .ok_or(LedgerError::Unknown { space, kind })
    }

    /// Refuses what does not fit the catalog.
    fn check(&self, request: &Request) -> Result<(), LedgerError> {
        if request.observations.len() > Request::OBSERVATIONS_MAX {
            return Err(LedgerError::TooLarge(request.observations.len()));
        }
        let unfit = |planned: &Planned, why: &str| {
            Err(LedgerError::Unfit { statistic: planned.statistic.name.clone(), why: why.to_owned() })
        };
        if let Some(once) = &request.once {
            let planned = self.planned(once.key.space, once.key.kind)?;
            if !matches!(planned.statistic.measure, Measure::Once { .. }) {
                return unfit(planned, "it holds no marks of requests");
            }
        }
        for Observation { key, add, .. } in &request.observations {
            let planned = self.planned(key.space, key.kind)?;
            match (add, &planned.statistic.measure) {
                // Marks of a run are set before its observations, so a reading could come from after its request.
                (_, Measure::Once { .. }) => return unfit(planned, "marks of requests are not observed"),
                (Add::Nothing, _) => {}
                (Add::Counters(amounts), Measure::Windows(layout)) => {
                    if amounts.iter().any(|(counter, _)| usize::from(counter) >= layout.counters().len()) {
                        return unfit(planned, "there are fewer counters");
                    }
                }
                (Add::Distinct { pair }, Measure::Distinct { .. }) => {
                    if pair.route() != key.shingle.route() {
                        return unfit(
                            planned,
                            "the pair is not routed like its owner: make it with `Secret::pair`",
                        );
                    }
                }
                _ => return unfit(planned, "it takes another kind of addition"),
            }
        }
        Ok(())
    }
}

impl Inner {
    fn new(store: Option<Store>, world: World, options: Options, horizon: i64) -> Inner {
        Inner {
            store,
            memory_bytes: options.memory_bytes,
            dirty_bytes_max: (options.memory_bytes / 4).clamp(16 << 10, 64 << 20),
            durability: options.durability,
            cut: RwLock::new(world),
            partitions: Default::default(),
            gauge: Gauge::default(),
            tick: AtomicU32::new(0),
            horizon: AtomicI64::new(horizon),
            flushing: Mutex::new(()),
            begun: AtomicU64::new(0),
            finished: AtomicU64::new(0),
            progress: Event::new(),
            poison: OnceLock::new(),
            closed: AtomicBool::new(false),
            signal: Mutex::new(Signal::default()),
            signalled: Condvar::new(),
            counts: Counts::default(),
        }
    }

    async fn observe(&self, requests: &[Request]) -> Result<Vec<Outcome>, LedgerError> {
        {
            let world = read(&self.cut);
            requests.iter().try_for_each(|request| world.check(request))?;
        }
        let mut outcomes = Vec::with_capacity(requests.len());
        let mut flush = None;
        let mut rest = requests;
        while !rest.is_empty() {
            let mut observations = 0;
            let count = rest
                .iter()
                .take_while(|request| {
                    observations += request.observations.len() + 1;
                    observations <= RUN
                })
                .count();
            let (run, tail) = rest.split_at(count.max(1));
            rest = tail;
            let adds = run.iter().any(Request::adds);
            if adds {
                self.room().await?;
            }
            let applied = self.apply(run, &mut outcomes)?;
            if adds {
                flush = Some(applied);
            }
            self.evict();
        }
        if self.durability == Durability::Sync
            && self.store.is_some()
            && let Some(flush) = flush
        {
            self.safe(flush).await?;
        }
        Ok(outcomes)
    }

    /// Waits until there is room for more that is not written yet.
    async fn room(&self) -> Result<(), LedgerError> {
        loop {
            let progress = self.progress.listen();
            self.check_writable()?;
            if self.store.is_none() || self.gauge.dirty.load(Ordering::Relaxed) <= self.dirty_bytes_max {
                return Ok(());
            }
            self.ask_for_flush();
            progress.await;
        }
    }

    /// Waits until a flush has made its images safe.
    async fn safe(&self, flush: u64) -> Result<(), LedgerError> {
        loop {
            let progress = self.progress.listen();
            if self.finished.load(Ordering::Acquire) >= flush {
                return Ok(());
            }
            self.check_poison()?;
            self.ask_for_flush();
            progress.await;
        }
    }

    fn ask_for_flush(&self) {
        lock(&self.signal).flush = true;
        self.signalled.notify_all();
    }

    fn check_poison(&self) -> Result<(), LedgerError> {
        match self.poison.get() {
            Some(why) => Err(LedgerError::Poisoned { why: why.clone() }),
            None => Ok(()),
        }
    }

    fn check_writable(&self) -> Result<(), LedgerError> {
        self.check_poison()?;
        if self.closed.load(Ordering::SeqCst) { Err(LedgerError::Closed) } else { Ok(()) }
    }

    fn poisoned(&self, why: &str) -> LedgerError {
        let why = self.poison.get_or_init(|| why.into()).clone();
        self.progress.notify(usize::MAX);
        LedgerError::Poisoned { why }
    }

    /// Applies a run of requests; answers the number of the flush that will contain it.
    fn apply(&self, run: &[Request], outcomes: &mut Vec<Outcome>) -> Result<u64, LedgerError> {
        let mut places = Vec::new();
        for (request, each) in run.iter().enumerate() {
            for (at, observation) in each.observations.iter().enumerate() {
                places.push((partition_of(observation.key.shingle), request, at));
            }
        }
        // Stable: within a partition, and so for any one key, the order stays.
        places.sort_by_key(|(partition, ..)| *partition);
        let mut loaded = Loaded::new();
        loop {
            let world = read(&self.cut);
            // The catalog may have been replaced since the requests were checked.
            run.iter().try_for_each(|request| world.check(request))?;
            if run.iter().any(Request::adds) {
                self.check_writable()?;
            }
            let missing = self.settle(&world, run, &places, &loaded);
            if missing.is_empty() {
                self.add(&world, run, &places, outcomes);
                return Ok(self.begun.load(Ordering::Acquire) + 1);
            }
            drop(world);
            for key in missing {
                match self.load(&key)? {
                    Some(found) => loaded.insert(key, found),
                    None => loaded.remove(&key),
                };
            }
        }
    }

    /// Reads an image. No lock is held.
    fn load(&self, key: &Key) -> Result<Option<Found>, LedgerError> {
        let Some(store) = &self.store else { return Ok(None) };
        let key = key_bytes(key);
        loop {
            let Some(position) = store.position(&key) else { return Ok(None) };
            match store.get(&key) {
                Ok(None) => return Ok(None),
                Ok(Some(Image { value, position })) => {
                    self.counts.loads.fetch_add(1, Ordering::Relaxed);
                    return Ok(Some((position, Some(value))));
                }
                Err(StoreError::Damaged { .. }) if store.position(&key) == Some(position) => {
                    return Ok(Some((position, None)));
                }
                Err(StoreError::Damaged { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Puts the cells that the requests touch into memory, out of what was loaded; answers the keys whose image has
    /// to be loaded first. Under the cut, so what it has put there stays.
    fn settle(
        &self,
        world: &World,
        run: &[Request],
        places: &[(usize, usize, usize)],
        loaded: &Loaded,
    ) -> Vec<Key> {
        let Some(store) = &self.store else { return Vec::new() };
        let mut missing = Vec::new();
        let mut settle = |partition: &mut Partition, key: Key| {
            if partition.find(&key).is_some() {
                return;
            }
            let Some(position) = store.position(&key_bytes(&key)) else { return };
            match loaded.get(&key) {
                Some((found, image)) if *found == position => {
                    let decoded = image.as_ref().and_then(|image| world.registry.decode(&key, image));
                    let missing = decoded.is_none();
                    self.counts.damaged.fetch_add(u64::from(missing), Ordering::Relaxed);
                    // What cannot be read starts anew, under any definition: the first use translates it.
                    let (definition, cell) = decoded.unwrap_or_default();
                    let touched = self.tick.load(Ordering::Relaxed);
                    partition.insert(
                        Slot { key, cell, definition, state: State::Clean, missing, touched },
                        &self.gauge,
                    );
                }
                _ => missing.push(key),
            }
        };
        for once in run.iter().filter_map(|request| request.once.as_ref()) {
            settle(&mut lock(self.partition(once.key.shingle)), once.key);
        }
        for group in places.chunk_by(|a, b| a.0 == b.0) {
            let Some((number, ..)) = group.first() else { continue };
            let mut partition = lock(&self.partitions[*number]);
            for (_, request, at) in group {
                let observation = &run[*request].observations[*at];
                settle(&mut partition, observation.key);
                if let Add::Distinct { pair } = observation.add {
                    settle(&mut partition, pair_key(observation.key, pair));
                }
            }
        }
        missing
    }

    /// Marks, reads and adds. Everything stored that is needed is in memory.
    fn add(
        &self,
        world: &World,
        run: &[Request],
        places: &[(usize, usize, usize)],
        outcomes: &mut Vec<Outcome>,
    ) {
        let first = outcomes.len();
        for request in run {
            let duplicate = request.once.as_ref().is_some_and(|once| !self.mark(world, once));
            outcomes
                .push(Outcome { duplicate, readings: vec![Reading::default(); request.observations.len()] });
        }
        let tick = self.tick.fetch_add(1, Ordering::Relaxed);
        for group in places.chunk_by(|a, b| a.0 == b.0) {
            let Some((number, ..)) = group.first() else { continue };
            let mut partition = lock(&self.partitions[*number]);
            for (_, request, at) in group {
                let outcome = &mut outcomes[first + request];
                let observation = &run[*request].observations[*at];
                let mut cells = Cells { inner: self, world, partition: &mut partition, tick };
                outcome.readings[*at] = cells.observe(observation, !outcome.duplicate);
            }
        }
    }

    /// Leaves a mark; false if it was there.
    fn mark(&self, world: &World, once: &Once) -> bool {
        let Ok(planned) = world.planned(once.key.space, once.key.kind) else { return true };
        let mut partition = lock(self.partition(once.key.shingle));
        let tick = self.tick.load(Ordering::Relaxed);
        let mut cells = Cells { inner: self, world, partition: &mut partition, tick };
        let definition = planned.definition;
        let shape = &world.registry.get(definition).shape;
        let bucket = once.time.bucket(shape.fine().width);
        if let Some(at) = cells.find(once.key, definition) {
            let cell = &cells.partition.slots()[at].cell;
            let near = [bucket.saturating_sub(1), bucket, bucket.saturating_add(1)];
            if near.into_iter().any(|bucket| cell.fine(shape, bucket).0) {
                return false;
            }
        }
        cells.change(once.key, definition, |cell| cell.add(shape, once.time, [(0, 1)]));
        true
    }

    fn partition(&self, shingle: Shingle) -> &Mutex<Partition> {
        &self.partitions[partition_of(shingle)]
    }

    /// The flusher's life.
    fn run(&self) {
        let interval = match self.durability {
            Durability::Sync => Duration::MAX,
            Durability::Interval(span) => Duration::from_micros(span.0.unsigned_abs().max(1)),
            Durability::None => Duration::from_secs(1),
        };
        loop {
            {
                let signal = lock(&self.signal);
                let idle = |signal: &mut Signal| !signal.flush && !signal.stop;
                let mut signal = if interval == Duration::MAX {
                    self.signalled.wait_while(signal, idle).unwrap_or_else(PoisonError::into_inner)
                } else {
                    let woken = self.signalled.wait_timeout_while(signal, interval, idle);
                    woken.unwrap_or_else(PoisonError::into_inner).0
                };
                if signal.stop {
                    return;
                }
                signal.flush = false;
            }
            // A failure has poisoned the ledger, which tells everyone who waits.
            if self.flush(self.durability != Durability::None).is_err() {
                return;
            }
        }
    }

    /// Writes what is dirty as one group.
    fn flush(&self, sync: bool) -> Result<(), LedgerError> {
        let Some(store) = &self.store else { return Ok(()) };
        let _only = lock(&self.flushing);
        self.check_poison()?;
        let mut images = Vec::new();
        let mut collected: Vec<(Key, i64, Range<usize>)> = Vec::new();
        let flush = {
            let world = write(&self.cut);
            for partition in &self.partitions {
                lock(partition).collect(|slot| {
                    let start = images.len();
                    world.registry.encode(slot.definition, &slot.cell, &mut images);
                    let shape = &world.registry.get(slot.definition).shape;
                    let expires = shape.expires(slot.cell.last().unwrap_or_default()).0;
                    collected.push((slot.key, expires, start..images.len()));
                });
            }
            self.begun.fetch_add(1, Ordering::AcqRel) + 1
        };
        let records: Vec<Record<'_>> = collected
            .iter()
            .map(|(key, expires, range)| Record {
                key: key_bytes(key),
                expires: *expires,
                value: images.get(range.clone()).unwrap_or_default(),
            })
            .collect();
        store.append(&records, sync).map_err(|error| self.poisoned(&error.to_string()))?;
        for group in collected.chunk_by(|a, b| partition_of(a.0.shingle) == partition_of(b.0.shingle)) {
            let Some((key, ..)) = group.first() else { continue };
            let mut partition = lock(self.partition(key.shingle));
            group.iter().for_each(|(key, ..)| partition.written(key, &self.gauge));
        }
        self.counts.flushes.fetch_add(u64::from(!records.is_empty()), Ordering::Relaxed);
        self.finished.fetch_max(flush, Ordering::AcqRel);
        self.progress.notify(usize::MAX);
        Ok(())
    }

    fn is_expired(&self, world: &World, slot: &Slot) -> bool {
        let shape = &world.registry.get(slot.definition).shape;
        slot.cell.last().is_some_and(|last| shape.expires(last).0 <= self.horizon.load(Ordering::Acquire))
    }

    /// Lets go of expired cells in memory.
    fn forget_expired(&self) {
        let world = read(&self.cut);
        for partition in &self.partitions {
            let mut partition = lock(partition);
            for at in (0..partition.len()).rev() {
                if self.is_expired(&world, &partition.slots()[at]) {
                    partition.remove(at, &self.gauge);
                    self.counts.expired.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
    }

    /// Brings the cells under their budget, as far as they are written: of a few picked at random the one that was
    /// not used for longest goes.
    fn evict(&self) {
        const SAMPLE: usize = 8;
        let used = || self.gauge.bytes.load(Ordering::Relaxed);
        if used() <= self.memory_bytes {
            return;
        }
        let world = write(&self.cut);
        let target = self.memory_bytes - (self.memory_bytes / 64).min(1 << 20);
        let now = self.tick.load(Ordering::Relaxed);
        let mut random = u64::from(now).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut failures = 0;
        let mut number = 0;
        while used() > target && failures < 4 * self.partitions.len() {
            number = (number + 1) % self.partitions.len();
            let mut partition = lock(&self.partitions[number]);
            let mut coldest = None;
            for _ in 0..SAMPLE.min(partition.len()) {
                // Xorshift (Marsaglia): which cells are sampled need not be unpredictable.
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                let at = (random % partition.len() as u64) as usize;
                let slot = &partition.slots()[at];
                if self.store.is_some() && slot.state != State::Clean {
                    continue;
                }
                let age = (self.is_expired(&world, slot), now.wrapping_sub(slot.touched));
                if coldest.is_none_or(|(coldest, _)| age > coldest) {
                    coldest = Some((age, at));
                }
            }
            match coldest {
                Some((_, at)) => {
                    partition.remove(at, &self.gauge);
                    self.counts.evictions.fetch_add(1, Ordering::Relaxed);
                    failures = 0;
                }
                None => failures += 1,
            }
        }
    }

    fn timeline(&self, key: Key) -> Result<Option<Timeline>, LedgerError> {
        let mut loaded: Option<Found> = None;
        loop {
            {
                let world = read(&self.cut);
                let planned = world.planned(key.space, key.kind)?;
                let partition = lock(self.partition(key.shingle));
                let found = match partition.find(&key) {
                    Some(at) => {
                        let slot = &partition.slots()[at];
                        Some((slot.definition, slot.cell.clone()))
                    }
                    None => {
                        let position = self.store.as_ref().and_then(|store| store.position(&key_bytes(&key)));
                        match (position, &loaded) {
                            (None, _) => None,
                            (Some(position), Some((at, image))) if *at == position => {
                                image.as_ref().and_then(|image| world.registry.decode(&key, image))
                            }
                            _ => {
                                drop(partition);
                                drop(world);
                                loaded = self.load(&key)?;
                                continue;
                            }
                        }
                    }
                };
                drop(partition);
                return Ok(
                    found.and_then(|(definition, cell)| self.unfold(&world, planned, definition, &cell))
                );
            }
        }
    }

    fn unfold(&self, world: &World, planned: &Planned, definition: u16, cell: &Cell) -> Option<Timeline> {
        let current = world.registry.get(planned.definition);
        let cell = definition::translated(cell, world.registry.get(definition), current);
        let (first, last) = (cell.first()?, cell.last()?);
        if current.shape.expires(last).0 <= self.horizon.load(Ordering::Acquire) {
            return None;
        }
        let widths = [current.shape.fine(), current.shape.coarse().unwrap_or(current.shape.fine())];
        let buckets = cell
            .rows(&current.shape)
            .map(|(tier, bucket, counts)| {
                let width = widths[tier].width;
                Bucket { start: Time(bucket.saturating_mul(width.0)), width, counts: counts.to_vec() }
            })
            .collect();
        Some(Timeline { counters: current.counters.clone(), first, last, buckets })
    }

    fn hottest(
        &self,
        space: Space,
        kind: Kind,
        counter: u8,
        window: Span,
        now: Time,
        limit: usize,
    ) -> Result<Vec<(Key, u64)>, LedgerError> {
        let (definition, registry) = {
            let world = read(&self.cut);
            let planned = world.planned(space, kind)?;
            if usize::from(counter) >= world.registry.get(planned.definition).counters.len() {
                let why = "there are fewer counters".to_owned();
                return Err(LedgerError::Unfit { statistic: planned.statistic.name.clone(), why });
            }
            (planned.definition, world.registry.clone())
        };
        let current = registry.get(definition);
        let trail = current.shape.trail(window)?;
        let buckets = trail.buckets(now);
        let sum = |number: u16, cell: &Cell| {
            let mut sums = [0; crate::Shape::COUNTERS_MAX];
            let sums = &mut sums[..current.counters.len()];
            if number == definition {
                cell.sum(&current.shape, trail.tier, buckets, sums);
            } else {
                let translated = definition::translated(cell, registry.get(number), current);
                translated.sum(&current.shape, trail.tier, buckets, sums);
            }
            sums[usize::from(counter)]
        };
        // The least of the best on top, so that it can be replaced.
        let mut best = std::collections::BinaryHeap::new();
        let mut offer = |key: Key, sum: u64| {
            if sum > 0 {
                best.push((std::cmp::Reverse(sum), key));
                if best.len() > limit {
                    best.pop();
                }
            }
        };
        // Cold cells first, without a lock while they are read. One that is used meanwhile is in memory then, too.
        let mut cold = HashSet::new();
        for key in self.cold_since(space, kind, current.shape.expires(trail.start(now))) {
            let image = self.store.as_ref().map(|store| store.get(&key_bytes(&key))).transpose()?.flatten();
            if let Some((number, cell)) = image.and_then(|image| registry.decode(&key, &image.value)) {
                offer(key, sum(number, &cell));
                cold.insert(key);
            }
        }
        let world = read(&self.cut);
        for partition in &self.partitions {
            for slot in lock(partition).slots() {
                let asked = (slot.key.space, slot.key.kind) == (space, kind) && !cold.contains(&slot.key);
                // A definition that came meanwhile is not known here; its cells are in the next answer.
                if asked && usize::from(slot.definition) < registry.len() && !self.is_expired(&world, slot) {
                    offer(slot.key, sum(slot.definition, &slot.cell));
                }
            }
        }
        Ok(best.into_sorted_vec().into_iter().map(|(sum, key)| (key, sum.0)).collect())
    }

    /// The stored keys of a kind that are not in memory and whose last event may be as late as the one that makes a
    /// cell expire then, at most [`COLD_MAX`].
    fn cold_since(&self, space: Space, kind: Kind, expires: Time) -> Vec<Key> {
        let Some(store) = &self.store else { return Vec::new() };
        let prefix = key_bytes(&Key { space, kind, shingle: Shingle(0) });
        let stored = store.keys(&prefix[..4], expires.0).into_iter().map(|bytes| key_of(&bytes));
        stored.filter(|key| lock(self.partition(key.shingle)).find(key).is_none()).take(COLD_MAX).collect()
    }
}

/// One partition while requests are applied to it.
struct Cells<'a> {
    inner: &'a Inner,
    world: &'a World,
    partition: &'a mut Partition,
    tick: u32,
}

impl Cells<'_> {
    /// The place of a live cell, brought to its definition in force.
    fn find(&mut self, key: Key, definition: u16) -> Option<usize> {
        let at = self.partition.find(&key)?;
        let slot = self.partition.slot(at);
        slot.touched = self.tick;
        if slot.definition != definition {
            let (old, new) = (self.world.registry.get(slot.definition), self.world.registry.get(definition));
            let cell = definition::translated(&slot.cell, old, new);
            self.partition.translate(at, &self.inner.gauge, definition, cell);
        }
        if self.inner.is_expired(self.world, &self.partition.slots()[at]) {
            self.partition.remove(at, &self.inner.gauge);
            self.inner.counts.expired.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        Some(at)
    }

    /// Changes a cell, which is made if there is none.
    fn change(&mut self, key: Key, definition: u16, change: impl FnOnce(&mut Cell)) {
        let gauge = &self.inner.gauge;
        match self.find(key, definition) {
            Some(at) => self.partition.change(at, gauge, change),
            None => {
                let mut cell = Cell::new();
                change(&mut cell);
                let (state, missing, touched) = (State::Dirty, false, self.tick);
                self.partition.insert(Slot { key, cell, definition, state, missing, touched }, gauge);
            }
        }
    }

    fn observe(&mut self, observation: &Observation, adds: bool) -> Reading {
        let Observation { key, time, add } = observation;
        let Ok(planned) = self.world.planned(key.space, key.kind) else { return Reading::default() };
        let definition = planned.definition;
        let world = self.world;
        let shape = &world.registry.get(definition).shape;
        let mut reading = match self.find(*key, definition) {
            None => Reading::default(),
            Some(at) => {
                let slot = &self.partition.slots()[at];
                let counters = shape.counters();
                let mut sums = vec![0; planned.trails.len() * counters];
                for (trail, sums) in planned.trails.iter().zip(sums.chunks_exact_mut(counters)) {
                    slot.cell.sum(shape, trail.tier, trail.buckets(*time), sums);
                }
                Reading {
                    quality: if slot.missing { Quality::Missing } else { Quality::Exact },
                    first: slot.cell.first(),
                    last: slot.cell.last(),
                    fresh: false,
                    counters: counters as u8,
                    sums,
                }
            }
        };
        match add {
            Add::Nothing => {}
            Add::Counters(amounts) => {
                if adds {
                    self.change(*key, definition, |cell| cell.add(shape, *time, amounts.iter()));
                }
            }
            Add::Distinct { pair } => {
                let pair = pair_key(*key, *pair);
                let bucket = time.bucket(shape.fine().width);
                let (seen, kept) = match self.find(pair, definition) {
                    Some(at) => self.partition.slots()[at].cell.fine(shape, bucket),
                    None => (false, true),
                };
                reading.fresh = !seen && kept;
                if adds {
                    if reading.fresh {
                        self.change(pair, definition, |cell| cell.add(shape, *time, [(0, 1)]));
                    }
                    let amount = u64::from(reading.fresh);
                    self.change(*key, definition, |cell| cell.add(shape, *time, [(0, amount)]));
                }
            }
        }
        reading
    }
}

fn partition_of(shingle: Shingle) -> usize {
    usize::from(shingle.route() >> (Shingle::ROUTE_BITS - PARTITION_BITS))
}

fn pair_key(owner: Key, pair: Shingle) -> Key {
    Key { space: owner.space, kind: Kind(owner.kind.0 | PAIR), shingle: pair }
}

/// A key as the store knows it: big-endian, so that keys of one kind share a prefix.
fn key_of(bytes: &[u8; store::KEY_BYTES]) -> Key {
    let [s0, s1, k0, k1, shingle @ ..] = *bytes;
    Key {
        space: Space(u16::from_be_bytes([s0, s1])),
        kind: Kind(u16::from_be_bytes([k0, k1])),
        shingle: Shingle(u64::from_be_bytes(shingle)),
    }
}

fn key_bytes(key: &Key) -> [u8; store::KEY_BYTES] {
    let mut bytes = [0; store::KEY_BYTES];
    bytes[..2].copy_from_slice(&key.space.0.to_be_bytes());
    bytes[2..4].copy_from_slice(&key.kind.0.to_be_bytes());
    bytes[4..].copy_from_slice(&key.shingle.0.to_be_bytes());
    bytes
}

// A panic elsewhere leaves what these guard usable: cells are changed in one step.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn read<T>(lock: &RwLock<T>) -> RwLockReadGuard<'_, T> {
    lock.read().unwrap_or_else(PoisonError::into_inner)
}

fn write<T>(lock: &RwLock<T>) -> RwLockWriteGuard<'_, T> {
    lock.write().unwrap_or_else(PoisonError::into_inner)
}
