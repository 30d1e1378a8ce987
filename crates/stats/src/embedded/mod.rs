//! The embedded home: statistics in this process, hot cells in memory under a budget, and a log behind them.
//!
//! ```text
//! observe ─► check ─► runs of some thousand keys ([`apply`]) ─► wait for the flush, if durability is `sync`
//! flush   ─► what is dirty, as one group ─► sync ─► who waits is told
//! merge   ─► after flushes, as much as they have written
//! ```
//!
//! Requests are applied under the epoch of [`store::Run`], so what a flush writes is a consistent state: all of a
//! request or nothing of it, and every request that was answered before.
//!
//! A disk that is full refuses additions until there is room; any other failed write poisons the home: what was
//! answered is on disk, what was not is refused, readings go on.

mod apply;
mod compiled_catalog;
mod erasure;
mod import_export;
mod sketches;

use parking_lot::{Condvar, Mutex, RwLock};
use std::collections::HashSet;
use std::fmt;
use std::path::Path;
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use disk::Device;
use event::{Key, Kind, Shingle, Space, Span, Time};
use event_listener::Event;
use store::{RecordKey, Recovery, Store, StoreError, Verification};

use crate::catalog::Catalog;
use crate::definition::{self, DefinitionRegistry};
use crate::hottest_keys::HottestKeys;
use crate::kind::CellPlan;
use crate::ledger::{
    CancellationCheck, ErasedKeys, HottestQuery, Ledger, LedgerCensus, LedgerError, LedgerFuture,
    ObserveOutcomes, ObserveRequest, Timeline,
};
use apply::ApplyScratch;
use compiled_catalog::{CompiledCatalog, DEFINITIONS, OWNER};
pub use import_export::{LedgerExportReport, LedgerImportReport, LedgerImporter, MergeState};
use sketches::OverflowSketch;

/// Requests are applied in runs of about this many observations: enough to have many cells on their way from memory at
/// once, few enough for a flush, which waits for them.
const RUN: usize = 1024;
/// Keys that one [`Ledger::maintain`] looks through for cells that have expired, about.
const SWEEP_KEYS: u64 = 4 << 20;
/// Live bytes that one [`Ledger::maintain`] may write again.
const MERGE_BYTES: u64 = 64 << 20;
/// The part of the budget that the sketch for keys without a place may take.
const OVERFLOW_SHARE: usize = 32;
/// The time after a flush that found no room until the next one is tried.
const RETRY: Duration = Duration::from_secs(1);

/// The point at which an answer's additions are safe from a crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// Before the answer. Waiting requests share one sync.
    Sync,
    /// At most this long after the answer, as long as a flush takes no more than a quarter of it: a flush begins three
    /// quarters of it after the one before has begun.
    Interval(Span),
    /// No sync before an answer: additions are written as often as with an interval of a second, so that a killed process
    /// loses that much. Synced when closed, for a snapshot, when a segment is sealed, and before a merge removes one.
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

/// Options of an [`EmbeddedLedger`].
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Budget for cells in memory, the directory of all keys, and what reading and writing them takes; a run of some thousand
    /// observations may exceed it until it has been applied. Of the directory, some 15 bytes a key, about two thirds of the
    /// budget can be, but in any case a MiB. Beyond that new keys are only estimated, see
    /// [`LedgerCensus::directory_max_bytes`](crate::LedgerCensus::directory_max_bytes).
    pub memory_bytes: usize,
    /// A segment of the log that has reached this length is followed by a new one.
    pub segment_bytes: u32,
    /// The point at which additions are safe.
    pub durability: Durability,
}

/// Statistics in this process: in memory, and on disk behind it.
pub struct EmbeddedLedger {
    inner: Arc<EmbeddedCore>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    /// Held while the catalog is replaced.
    changing: Mutex<()>,
}

struct EmbeddedCore {
    store: Store,
    dirty_bytes_max: u64,
    durability: Durability,
    catalog: RwLock<Arc<CompiledCatalog>>,
    /// The time at or before which what expires is gone.
    horizon: AtomicI64,
    /// One past the epoch up to which all is as safe as the durability asks for.
    finished: AtomicU64,
    /// One past the epoch up to which all is synced.
    synced: AtomicU64,
    /// One past the last epoch whose flush found no room.
    refused: AtomicU64,
    /// Notified after each flush.
    progress: Event,
    /// The reason for additions being refused for now.
    full: Mutex<Option<Arc<str>>>,
    is_full: AtomicBool,
    poison: OnceLock<Arc<str>>,
    closed: AtomicBool,
    /// The sketch for keys that find no place in the directory.
    overflow: OverflowSketch,
    /// Memory of runs that are over.
    scratch: Mutex<Vec<ApplyScratch>>,
    signal: Mutex<FlushSignal>,
    signalled: Condvar,
    share: AtomicUsize,
    counts: EmbeddedCounters,
}

#[derive(Default)]
struct FlushSignal {
    flush: bool,
    /// The next flush is synced, whatever the durability.
    sync: bool,
    /// Live bytes that merges may write.
    merge: u64,
    stop: bool,
}

#[derive(Default)]
struct EmbeddedCounters {
    loads: AtomicU64,
    damaged: AtomicU64,
}

/// Findings of [`EmbeddedLedger::verify`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LedgerVerification {
    /// The verification of the files.
    pub files: Verification,
    /// Keys, pairs included.
    pub keys: u64,
    /// Keys whose image is not where it should be.
    pub keys_lost: u64,
    /// Keys whose image is no cell of its definition.
    pub unsound: u64,
    /// The report of what lies ahead of the time.
    pub ahead: Ahead,
}

impl LedgerVerification {
    /// Returns whether all is as it should be.
    pub fn is_sound(&self) -> bool {
        self.files.losses.is_empty()
            && self.keys_lost == 0
            && self.unsound == 0
            && self.ahead == Ahead::default()
    }
}

/// The report of what lies ahead of the time, as a clock leaves it that was ahead for a while: limits that refuse until then,
/// counts that the present cannot be added to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ahead {
    /// Keys that had their latest event after the time.
    pub keys: u64,
    /// The farthest of those events.
    pub most: Span,
    /// The span by which the moment is ahead up to which statistics have been forgotten: until it has passed nothing that
    /// expires before it is kept.
    pub forgotten: Span,
}

impl fmt::Debug for EmbeddedLedger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Embedded").finish_non_exhaustive()
    }
}

impl EmbeddedLedger {
    /// Opens the home over a device, and starts its threads.
    ///
    /// # Errors
    /// [`LedgerError::Catalog`] if a kind number is stored with another meaning; the store's.
    pub fn open(
        device: Arc<dyn Device>,
        catalog: Catalog,
        options: Options,
    ) -> Result<(EmbeddedLedger, Recovery), LedgerError> {
        let mut definitions = Vec::new();
        let store_options = store::Options {
            memory_bytes: options.memory_bytes - options.memory_bytes / OVERFLOW_SHARE,
            segment_bytes: options.segment_bytes,
        };
        let (store, recovery) = Store::open(device, store_options, &mut |seen| {
            if (seen.key.space, seen.key.kind) == DEFINITIONS {
                definitions.push(seen.key);
            }
        })?;
        definitions.sort_unstable();
        definitions.dedup();
        let mut registry = DefinitionRegistry::default();
        for key in definitions {
            match store.get(key) {
                Ok(Some((_, words))) => registry.restore(key.shingle as u16, &words)?,
                Ok(None) => {}
                // Its number is a hash of what it says: where the configuration still says it, its cells are read.
                Err(StoreError::Damaged { .. }) => {
                    tracing::error!(
                        number = key.shingle,
                        "a definition is damaged: its cells may be missing"
                    );
                }
                Err(error) => return Err(error.into()),
            }
        }
        let catalog = CompiledCatalog::new(catalog, registry, &store, None)?;
        let is_new = recovery.records == 0 && recovery.losses.is_empty();
        sketches::restore(&catalog, &store, is_new)?;
        sketches::note(&catalog, &store, false)?;
        let inner = Arc::new(EmbeddedCore::new(store, catalog, options));
        let waits = Arc::downgrade(&inner);
        inner.store.on_relief(move || {
            if let Some(inner) = waits.upgrade() {
                inner.progress.notify(usize::MAX);
            }
        });
        let embedded = EmbeddedLedger { inner, threads: Mutex::default(), changing: Mutex::default() };
        embedded.spawn("ledger-flush", EmbeddedCore::flush_on)?;
        embedded.spawn("ledger-merge", EmbeddedCore::merge_on)?;
        Ok((embedded, recovery))
    }

    fn spawn(&self, name: &str, run: fn(&EmbeddedCore)) -> Result<(), LedgerError> {
        let inner = self.inner.clone();
        let thread = std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || run(&inner))
            .map_err(LedgerError::Thread)?;
        self.threads.lock().push(thread);
        Ok(())
    }

    /// A home without a disk, for checks and replays. Above the budget the coldest cells are lost, which the census
    /// counts as evictions.
    ///
    /// # Errors
    /// [`LedgerError::Catalog`].
    pub fn in_memory(catalog: Catalog, memory_bytes: usize) -> Result<EmbeddedLedger, LedgerError> {
        let store = Store::in_memory(store::Options::new(memory_bytes));
        let catalog = CompiledCatalog::new(catalog, DefinitionRegistry::default(), &store, None)?;
        let options = Options { memory_bytes, segment_bytes: 0, durability: Durability::None };
        let inner = Arc::new(EmbeddedCore::new(store, catalog, options));
        Ok(EmbeddedLedger { inner, threads: Mutex::default(), changing: Mutex::default() })
    }

    /// Ties the ledger to the secret of its shingles, by the secret's fingerprint: a ledger that is tied to another is of no use,
    /// as no key of it would ever be found again.
    ///
    /// # Errors
    /// [`LedgerError::Secret`]; the store's.
    pub fn claim(&self, fingerprint: u64) -> Result<(), LedgerError> {
        let (space, kind) = OWNER;
        let key = RecordKey { space, kind, shingle: 0 };
        match self.inner.store.get(key) {
            Ok(Some((_, words))) if words == [fingerprint] => Ok(()),
            Ok(Some(_)) => Err(LedgerError::Secret),
            // Where it is damaged, whoever comes next is believed: a wrong secret beside rot would be two faults at once.
            Ok(None) | Err(StoreError::Damaged { .. }) => {
                Ok(self.inner.store.put(&[(key, 0, vec![fingerprint])], i64::MAX)?)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// The catalog in force.
    pub fn catalog(&self) -> Catalog {
        self.inner.catalog().catalog.clone()
    }

    /// Writes and syncs what is dirty, and makes `target`, which must be missing or empty, a directory with a copy of
    /// all files, hard links where that is possible. Requests go on meanwhile; each is in it wholly or not at all.
    ///
    /// # Errors
    /// The store's. The home goes on.
    pub fn snapshot(&self, target: &Path) -> Result<(), LedgerError> {
        sketches::keep(&self.inner.catalog(), &self.inner.store, None)?;
        Ok(self.inner.store.snapshot(target, || self.inner.catalog())?)
    }

    /// Reads all files and checks every checksum, that every key has its image, and that its words are a sound cell.
    /// Exact while nothing is added. `latest` is the latest time that an event may have had by now, where that is known.
    /// `progress` hears of the bytes read and of all bytes.
    ///
    /// # Errors
    /// The device's. What is damaged is in the answer.
    pub fn verify(
        &self,
        latest: Option<Time>,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<LedgerVerification, LedgerError> {
        let (files, keys_lost) = self.inner.store.verify(progress)?;
        let (mut keys, mut unsound, mut ahead) = (0, 0, Ahead::default());
        let catalog = self.inner.catalog();
        let floor = Time(self.inner.store.floor());
        ahead.forgotten =
            latest.map_or(Span::ZERO, |latest| Span(floor.0.saturating_sub(latest.0)).max(Span::ZERO));
        self.inner.store.each(&*catalog, &mut |key, tag, words| {
            if key.space != u16::MAX {
                keys += 1;
                let sound = catalog.defined(tag).filter(|defined| defined.plan.check(words));
                unsound += u64::from(sound.is_none());
                let far = latest.zip(sound).and_then(|(latest, defined)| defined.plan.ahead(words, latest));
                ahead.keys += u64::from(far.is_some());
                ahead.most = ahead.most.max(far.unwrap_or(Span::ZERO));
            }
        })?;
        Ok(LedgerVerification { files, keys, keys_lost, unsound, ahead })
    }

    /// Writes damaged segments anew as far as they can be read, by name, and lets go of all keys whose latest event lies behind
    /// `latest`: limits are open again, counts begin anew. Nobody else may use it meanwhile. Returns the number of keys that
    /// it has let go of.
    ///
    /// # Errors
    /// The store's.
    pub fn repair(&self, segments: Vec<String>, latest: Option<Time>) -> Result<u64, LedgerError> {
        let catalog = self.inner.catalog();
        let mut keys = Vec::new();
        if let Some(latest) = latest {
            self.inner.store.each(&*catalog, &mut |key, tag, words| {
                let defined = catalog.defined(tag).filter(|defined| defined.plan.check(words));
                if key.space != u16::MAX
                    && defined.is_some_and(|defined| defined.plan.ahead(words, latest).is_some())
                {
                    keys.push(key);
                }
            })?;
        }
        let freed = keys.len() as u64;
        let repair = store::Repair { segments, keys, floor_max: latest.map(|latest| latest.0) };
        self.inner.store.repair(&repair, || self.inner.catalog())?;
        Ok(freed)
    }
}

impl Drop for EmbeddedLedger {
    /// Closes. Whoever wants to know of a failure closes first.
    fn drop(&mut self) {
        self.close().unwrap_or_default();
    }
}

impl Ledger for EmbeddedLedger {
    fn observe_each<'a>(&'a self, requests: &'a [ObserveRequest]) -> LedgerFuture<'a, ObserveOutcomes> {
        Box::pin(self.inner.observe(requests))
    }

    fn timeline<'a>(&'a self, key: Key) -> LedgerFuture<'a, Option<Timeline>> {
        Box::pin(async move { self.inner.timeline(key) })
    }

    fn hottest<'a>(
        &'a self,
        queries: &'a [HottestQuery],
        now: Time,
        is_over: CancellationCheck<'a>,
    ) -> LedgerFuture<'a, Vec<Vec<(Key, u64)>>> {
        Box::pin(async move { self.inner.hottest(queries, now, is_over) })
    }

    fn set_catalog(&self, catalog: Catalog) -> Result<(), LedgerError> {
        let _only = self.changing.lock();
        let before = self.inner.catalog();
        let new = CompiledCatalog::new(catalog, before.registry.clone(), &self.inner.store, Some(&before))?;
        *self.inner.catalog.write() = Arc::new(new);
        Ok(())
    }

    fn erase<'a>(
        &'a self,
        shingles: &'a HashSet<Shingle>,
        pretend: bool,
        is_over: CancellationCheck<'a>,
    ) -> LedgerFuture<'a, ErasedKeys> {
        Box::pin(async move { self.inner.erase(shingles, pretend, is_over) })
    }

    fn maintain(&self, now: Time) -> Result<(), LedgerError> {
        let inner = &self.inner;
        inner.horizon.fetch_max(now.0, Ordering::AcqRel);
        let horizon = inner.horizon.load(Ordering::Acquire);
        let shares = (inner.store.usage().keys / SWEEP_KEYS + 1) as usize;
        let turn = inner.share.fetch_add(1, Ordering::Relaxed);
        let share = turn % shares;
        inner.store.forget_expired(horizon, share, shares, &*inner.catalog());
        inner.flush(inner.durability != Durability::None)?;
        inner.keep_sketches(Some(turn))?;
        inner.merge(MERGE_BYTES)
    }

    fn sync(&self) -> LedgerFuture<'_, ()> {
        Box::pin(self.inner.sync())
    }

    fn close(&self) -> Result<(), LedgerError> {
        let first = !self.inner.closed.swap(true, Ordering::SeqCst);
        let closed = if first { self.inner.close() } else { self.inner.check_poison() };
        self.inner.signal.lock().stop = true;
        self.inner.signalled.notify_all();
        for thread in std::mem::take(&mut *self.threads.lock()) {
            if thread.join().is_err() {
                return Err(self.inner.poisoned("a thread of the ledger panicked"));
            }
        }
        closed
    }

    fn census(&self) -> LedgerCensus {
        let inner = &self.inner;
        let usage = inner.store.usage();
        LedgerCensus {
            cells: usage.hot,
            memory_bytes: usage.memory_bytes
                + sketches::memory_bytes(&inner.catalog())
                + inner.overflow.memory_bytes(),
            dirty_bytes: usage.dirty_bytes,
            keys: usage.keys,
            directory_bytes: usage.index_bytes,
            directory_max_bytes: if inner.store.is_durable() { usage.index_bytes_max } else { 0 },
            unplaced: inner.overflow.answered.load(Ordering::Relaxed),
            disk_bytes: usage.disk_bytes,
            live_bytes: usage.live_bytes,
            rewritten_bytes: usage.rewritten_bytes,
            flushes: usage.flushes,
            loads: inner.counts.loads.load(Ordering::Relaxed),
            evictions: usage.evictions,
            expired: usage.expired,
            damaged: inner.counts.damaged.load(Ordering::Relaxed),
            full: inner.is_full.load(Ordering::Acquire),
            poisoned: inner.poison.get().is_some(),
        }
    }
}

impl EmbeddedCore {
    fn new(store: Store, catalog: CompiledCatalog, options: Options) -> EmbeddedCore {
        EmbeddedCore {
            dirty_bytes_max: (options.memory_bytes as u64 / 8).clamp(64 << 10, 256 << 20),
            durability: options.durability,
            catalog: RwLock::new(Arc::new(catalog)),
            horizon: AtomicI64::new(store.floor()),
            store,
            finished: AtomicU64::new(0),
            synced: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            progress: Event::new(),
            full: Mutex::default(),
            is_full: AtomicBool::new(false),
            poison: OnceLock::new(),
            closed: AtomicBool::new(false),
            overflow: OverflowSketch::new(options.memory_bytes / OVERFLOW_SHARE),
            scratch: Mutex::default(),
            signal: Mutex::default(),
            signalled: Condvar::new(),
            share: AtomicUsize::new(0),
            counts: EmbeddedCounters::default(),
        }
    }

    fn catalog(&self) -> Arc<CompiledCatalog> {
        self.catalog.read().clone()
    }

    async fn observe(&self, requests: &[ObserveRequest]) -> Result<ObserveOutcomes, LedgerError> {
        let catalog = self.catalog();
        let mut plans = Vec::with_capacity(requests.iter().map(|request| request.observations.len()).sum());
        requests.iter().try_for_each(|request| catalog.check(request, &mut plans))?;
        let mut outcomes = ObserveOutcomes::default();
        outcomes.requests.reserve_exact(requests.len());
        outcomes.readings.reserve_exact(plans.len());
        outcomes
            .values
            .reserve_exact(plans.iter().map(|plan| catalog.plans[usize::from(*plan)].reading).sum());
        let mut applied = None;
        let (mut rest, mut rest_plans) = (requests, plans.as_slice());
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
            let observations = run.iter().map(|request| request.observations.len()).sum();
            let (run_plans, tail_plans) = rest_plans.split_at(observations);
            (rest, rest_plans) = (tail, tail_plans);
            let adds = run.iter().any(ObserveRequest::adds);
            if adds {
                self.room().await?;
            }
            let mut scratch = self.scratch.lock().pop().unwrap_or_default();
            let epoch = self.apply(&catalog, run, run_plans, &mut scratch, &mut outcomes);
            self.scratch.lock().push(scratch);
            let epoch = epoch?;
            if adds {
                applied = Some(epoch);
            }
        }
        if self.durability == Durability::Sync
            && self.store.is_durable()
            && let Some(epoch) = applied
        {
            self.until(&self.finished, epoch, false).await?;
        }
        Ok(outcomes)
    }

    async fn sync(&self) -> Result<(), LedgerError> {
        match self.store.is_durable() {
            true => self.until(&self.synced, self.store.epoch(), true).await,
            false => Ok(()),
        }
    }

    /// Waits until there is room for more that is not written yet.
    async fn room(&self) -> Result<(), LedgerError> {
        loop {
            let progress = self.progress.listen();
            self.check_writable()?;
            if !self.store.is_durable() || self.store.dirty_bytes() <= self.dirty_bytes_max {
                return Ok(());
            }
            self.ask_for_flush(false);
            progress.await;
        }
    }

    /// Waits until a flush has gone beyond an epoch: one past the last that has is in `reached`.
    async fn until(&self, reached: &AtomicU64, epoch: u64, sync: bool) -> Result<(), LedgerError> {
        loop {
            let progress = self.progress.listen();
            if reached.load(Ordering::Acquire) > epoch {
                return Ok(());
            }
            self.check_poison()?;
            if self.refused.load(Ordering::Acquire) > epoch {
                self.check_full()?;
            }
            self.ask_for_flush(sync);
            progress.await;
        }
    }

    fn ask_for_flush(&self, sync: bool) {
        {
            let mut signal = self.signal.lock();
            signal.flush = true;
            signal.sync |= sync;
        }
        self.signalled.notify_all();
    }

    fn check_poison(&self) -> Result<(), LedgerError> {
        match self.poison.get() {
            Some(why) => Err(LedgerError::Poisoned { why: why.clone() }),
            None => Ok(()),
        }
    }

    fn check_full(&self) -> Result<(), LedgerError> {
        if self.is_full.load(Ordering::Acquire)
            && let Some(why) = &*self.full.lock()
        {
            return Err(LedgerError::Full { why: why.clone() });
        }
        Ok(())
    }

    fn check_writable(&self) -> Result<(), LedgerError> {
        self.check_poison()?;
        self.check_full()?;
        if self.closed.load(Ordering::SeqCst) { Err(LedgerError::Closed) } else { Ok(()) }
    }

    fn poisoned(&self, why: &str) -> LedgerError {
        let why = self.poison.get_or_init(|| why.into()).clone();
        self.progress.notify(usize::MAX);
        LedgerError::Poisoned { why }
    }

    /// The flusher's life.
    fn flush_on(&self) {
        let promise = match self.durability {
            Durability::Sync => None,
            Durability::Interval(span) => Some(Duration::from_micros(span.0.unsigned_abs())),
            Durability::None => Some(Duration::from_secs(1)),
        };
        let mut took = Duration::ZERO;
        loop {
            let pause = promise.map_or(Duration::MAX, |promise| pause(promise, took));
            let pause = if self.is_full.load(Ordering::Acquire) { pause.min(RETRY) } else { pause };
            let sync = {
                let mut signal = self.signal.lock();
                let idle = |signal: &mut FlushSignal| !signal.flush && !signal.stop;
                self.signalled.wait_while_for(&mut signal, idle, pause);
                if signal.stop {
                    return;
                }
                signal.flush = false;
                std::mem::take(&mut signal.sync)
            };
            let began = Instant::now();
            // A failure has told everyone who waits.
            if let Err(LedgerError::Poisoned { .. }) = self.flush(sync || self.durability != Durability::None)
            {
                return;
            }
            took = began.elapsed();
        }
    }

    /// The merger's life.
    fn merge_on(&self) {
        loop {
            let budget = {
                let idle = |signal: &mut FlushSignal| signal.merge == 0 && !signal.stop;
                let mut signal = self.signal.lock();
                self.signalled.wait_while(&mut signal, idle);
                if signal.stop {
                    return;
                }
                std::mem::take(&mut signal.merge)
            };
            if let Err(LedgerError::Poisoned { .. }) = self.merge(budget) {
                return;
            }
        }
    }

    /// Writes what is dirty as one group.
    fn flush(&self, sync: bool) -> Result<(), LedgerError> {
        self.check_poison()?;
        let dirty = self.store.dirty_bytes();
        match self.store.flush(sync, || self.catalog()) {
            // Closed in between, which has written all.
            Err(StoreError::Failed(_)) if self.closed.load(Ordering::SeqCst) => return Ok(()),
            flushed => self.flushed(flushed, sync)?,
        }
        if dirty > 0 {
            self.signal.lock().merge += 2 * dirty;
            self.signalled.notify_all();
        }
        Ok(())
    }

    /// Tells everyone what came of a flush.
    fn flushed(&self, flushed: Result<u64, StoreError>, sync: bool) -> Result<(), LedgerError> {
        match flushed {
            Ok(epoch) => {
                self.finished.fetch_max(epoch.saturating_add(1), Ordering::AcqRel);
                if sync {
                    self.synced.fetch_max(epoch.saturating_add(1), Ordering::AcqRel);
                }
                if self.is_full.swap(false, Ordering::AcqRel) {
                    tracing::info!("the ledger takes additions again");
                }
                self.progress.notify(usize::MAX);
                Ok(())
            }
            Err(error @ StoreError::Full { .. }) => {
                let why: Arc<str> = error.to_string().into();
                *self.full.lock() = Some(why.clone());
                if !self.is_full.swap(true, Ordering::AcqRel) {
                    tracing::error!(%why, "the ledger takes no additions for now");
                }
                self.refused.store(self.store.epoch(), Ordering::Release);
                self.progress.notify(usize::MAX);
                Err(LedgerError::Full { why })
            }
            Err(error) => Err(self.poisoned(&error.to_string())),
        }
    }

    fn merge(&self, budget: u64) -> Result<(), LedgerError> {
        if !self.store.is_durable() {
            return Ok(());
        }
        self.check_poison()?;
        let horizon = self.horizon.load(Ordering::Acquire);
        match self.store.merge(horizon, budget, || self.catalog()) {
            Ok(_) => Ok(()),
            // It will be tried again; whether additions are refused is for flushes to say.
            Err(error @ StoreError::Full { .. }) => Err(LedgerError::Full { why: error.to_string().into() }),
            // Closed in between.
            Err(StoreError::Failed(_)) if self.closed.load(Ordering::SeqCst) => Ok(()),
            Err(error) => Err(self.poisoned(&error.to_string())),
        }
    }

    /// Writes images of sketches.
    fn keep_sketches(&self, turn: Option<usize>) -> Result<(), LedgerError> {
        match sketches::keep(&self.catalog(), &self.store, turn) {
            // It will be tried again, when that shard's turn comes.
            Err(LedgerError::Store(StoreError::Full { .. })) => Ok(()),
            // Closed in between.
            Err(LedgerError::Store(StoreError::Failed(_))) if self.closed.load(Ordering::SeqCst) => Ok(()),
            Err(error) => Err(self.poisoned(&error.to_string())),
            Ok(()) => Ok(()),
        }
    }

    fn close(&self) -> Result<(), LedgerError> {
        self.check_poison()?;
        let catalog = self.catalog();
        let kept = sketches::keep(&catalog, &self.store, None);
        if let Err(error) = kept.and_then(|()| sketches::note(&catalog, &self.store, true)) {
            tracing::warn!(%error, "admission sketches could not be written: sightings start from zero");
        }
        self.flushed(self.store.close(|| self.catalog()).map(|()| u64::MAX), true)
    }

    fn timeline(&self, key: Key) -> Result<Option<Timeline>, LedgerError> {
        let catalog = self.catalog();
        let planned = catalog.planned(key.space, key.kind)?;
        let record = RecordKey { space: key.space.0, kind: key.kind.0, shingle: key.shingle.0 };
        let Some((tag, words)) = self.store.get(record)? else { return Ok(None) };
        let Some(old) = catalog.defined(tag).filter(|defined| defined.plan.check(&words)) else {
            return Ok(None);
        };
        let mut current = Vec::new();
        if tag == planned.number {
            current = words;
        } else {
            definition::translated(&words, old, &planned.defined, &mut current);
        }
        let horizon = self.horizon.load(Ordering::Acquire);
        Ok(timeline(&planned.statistic.measure.shown(), &planned.plan, &current, horizon))
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
                Ok((query, planned, HottestKeys::new(&planned.statistic, query, now)?))
            })
            .collect::<Result<Vec<_>, LedgerError>>()?;
        let horizon = Time(self.horizon.load(Ordering::Acquire));
        let is_of = |query: &HottestQuery, space, kind| (query.space.0, query.kind.0) == (space, kind);
        let is_wanted = |space: u16, kind: u16| queries.iter().any(|query| is_of(query, space, kind));
        let mut translated = Vec::new();
        self.store.each_until(&*catalog, (&is_wanted, is_over), &mut |record, tag, words| {
            let Some(defined) = catalog.defined(tag).filter(|defined| defined.plan.check(words)) else {
                return;
            };
            let its = asked.iter_mut().filter(|(query, ..)| is_of(query, record.space, record.kind));
            for (_, planned, hottest) in its {
                let words = if tag == planned.number {
                    words
                } else {
                    definition::translated(words, defined, &planned.defined, &mut translated);
                    &translated
                };
                hottest.look(key_of(record), words, horizon);
            }
        })?;
        if is_over() {
            return Err(LedgerError::Stopped);
        }
        Ok(asked.into_iter().map(|(.., hottest)| hottest.finish()).collect())
    }
}

/// The time from the end of a flush, which took so long, to the beginning of the next one: it begins when three quarters of the
/// promise are over since this one began, and a quarter is left to write. Slow flushes leave a quarter between them.
fn pause(promise: Duration, took: Duration) -> Duration {
    let quarter = promise / 4;
    (promise - quarter).saturating_sub(took).max(quarter).max(Duration::from_micros(1))
}

fn timeline(counters: &[String], plan: &CellPlan, words: &[u64], horizon: i64) -> Option<Timeline> {
    let (first, last) = plan.times(words)?;
    if plan.expires_after(last).0 <= horizon {
        return None;
    }
    Some(Timeline { counters: counters.to_vec(), first, last, buckets: plan.net_rows(words) })
}

fn key_of(record: RecordKey) -> Key {
    let RecordKey { space, kind, shingle } = record;
    Key { space: Space(space), kind: Kind(kind), shingle: Shingle(shingle) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flushes_within_a_quarter_keep_the_promise() {
        for promise in
            [Duration::from_micros(1), Duration::from_millis(10), Duration::from_secs(1), Duration::MAX]
        {
            for took in [0, 1, 2, 3, 4, 8].map(|part| promise / 16 * part) {
                let pause = pause(promise, took);
                assert!(pause >= promise / 4 && pause > Duration::ZERO);
                // What came when a flush had begun is written by the next one, which takes a quarter.
                let kept = took.saturating_add(pause).saturating_add(promise / 4);
                assert!(
                    took > promise / 4 || kept <= promise.max(Duration::from_micros(2)),
                    "{promise:?}, {took:?}"
                );
            }
        }
        assert_eq!(pause(Duration::from_secs(1), Duration::from_millis(50)), Duration::from_millis(700));
    }
}
