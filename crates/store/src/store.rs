//! The store: keys in shards over a log.
//!
//! ```text
//! run    ─► under the epoch, shared: find keys, change cells, shard by shard
//! flush  ─► the epoch, alone, for a moment: count it up ─► collect what was dirty before, shard by shard ─► commit
//! merge  ─► copy what is live out of the segments with the most dead bytes ─► flush ─► remove the files
//! ```
//!
//! A flush is a consistent cut: what a run changes is all in it or not at all, though runs go on while it collects. A
//! cell that is changed between the cut and its collection leaves its image of before behind ([`Shard::change`]).
//!
//! Locks are taken in the order merging, flushing, log's writer, epoch, shard. No shard and no epoch is locked over I/O.

use parking_lot::{Mutex, MutexGuard, RwLock, RwLockReadGuard};
use std::collections::{HashSet, VecDeque};
use std::path::Path;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use crate::index::Vacancy;
use crate::key_hash::{KeyHash, SHARDS, TABLES};
use crate::log::{
    self, Log, LogRecord, LogWriter, Position, RecordKey, Recovery, StoreError, Verification, VisitedRecord,
};
use crate::shard::{
    CellLocation, CellMut, KeyLookup, Shard, StoreMemory, WrittenImages, class_bytes, value_class,
};
use disk::Device;

/// Cells that a flush collects under one lock of a shard: some microseconds.
const COLLECT: usize = 128;

/// The settings by which a store is kept.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Budget for the index of all keys, the cells of some, and what is needed to write and read them. Of the index some
    /// three quarters of it can be; whoever makes cells beyond that ([`ShardGuard::vacancy`]) lets memory grow with the number of
    /// keys.
    pub memory_bytes: usize,
    /// A segment that has reached this length is sealed and followed by a new one.
    pub segment_bytes: u32,
}

impl Options {
    /// Options with this budget, and the longest segments.
    pub fn new(memory_bytes: usize) -> Options {
        Options { memory_bytes, segment_bytes: log::LogOptions::SEGMENT_BYTES_MAX }
    }
}

/// The meaning of the words, as far as the store must know.
pub trait CellSemantics {
    /// Space and kind of the keys whose cells have this tag.
    fn kind(&self, tag: u16) -> (u16, u16);
    /// The expiry of a cell, in microseconds since the Unix epoch; a change never makes it earlier.
    fn expires(&self, tag: u16, words: &[u64]) -> i64;
}

impl<M: CellSemantics> CellSemantics for Arc<M> {
    fn kind(&self, tag: u16) -> (u16, u16) {
        (**self).kind(tag)
    }

    fn expires(&self, tag: u16, words: &[u64]) -> i64 {
        (**self).expires(tag, words)
    }
}

/// The space that a store takes up, and the counts of its actions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreUsage {
    /// Keys, in memory or on disk.
    pub keys: u64,
    /// Keys in memory.
    pub hot: u64,
    /// Memory of index, cells and the lists that keep them together.
    pub memory_bytes: u64,
    /// The part of it that is index.
    pub index_bytes: u64,
    /// The size that the index may reach before places are scarce.
    pub index_bytes_max: u64,
    /// The part of it that is cells not written yet.
    pub dirty_bytes: u64,
    /// Segment files.
    pub segments: u64,
    /// Length of the files.
    pub disk_bytes: u64,
    /// The part of it that is newest images.
    pub live_bytes: u64,
    /// Flushes that wrote.
    pub flushes: u64,
    /// Bytes of live images that merges have written again.
    pub rewritten_bytes: u64,
    /// Cells that left memory to make room.
    pub evictions: u64,
    /// Keys that were let go because they had expired.
    pub expired: u64,
}

/// The store. All methods may be called from any thread.
pub struct Store {
    log: Option<Log>,
    shards: Box<[Mutex<Shard>]>,
    memory: StoreMemory,
    /// Counted up by each cut.
    epoch: RwLock<u64>,
    /// Held while a flush runs: there is one at a time.
    flushing: Mutex<()>,
    /// Held while a merge runs; segments of which something could not be read, so that they are kept.
    merging: Mutex<HashSet<u32>>,
    /// Address in the log at which the flush that runs began. What lies there is not certain to stay.
    uncertain: AtomicU64,
    /// Bytes of cells that are not written.
    dirty: AtomicI64,
    flushes: AtomicU64,
    rewritten: AtomicU64,
    relief: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

/// A key whose image has to be read.
#[derive(Clone, Copy, Debug)]
pub struct ColdKey {
    /// Its shard.
    pub shard: usize,
    /// Its hash in there.
    pub hash: KeyHash,
    /// The place of its newest image.
    pub position: Position,
    /// The greatest number of words that the key has.
    pub words: usize,
}

impl Store {
    /// Number of shards.
    pub const SHARDS: usize = SHARDS;
    /// Number of parts that keys are divided into: each shard has some of them, see [`KeyHash::part`].
    pub const PARTS: usize = SHARDS * TABLES;

    /// Opens a store over a device. `visit` hears of every image on disk, superseded ones and expired ones included.
    ///
    /// # Errors
    /// The log's. Damage is no error: it is in the [`Recovery`].
    pub fn open(
        device: Arc<dyn Device>,
        options: Options,
        visit: &mut dyn FnMut(&VisitedRecord),
    ) -> Result<(Store, Recovery), StoreError> {
        let mut store = Store::new(options, true);
        let mut loader = IndexLoader::new(&mut store);
        let options = log::LogOptions { segment_bytes: options.segment_bytes };
        let (log, recovery) = Log::open(device, options, &mut |seen| {
            visit(seen);
            loader.push(seen);
        })?;
        for (slot, live) in loader.finish() {
            log.account(Position::from_bits(u64::from(slot) << 24), live);
        }
        store.log = Some(log);
        Ok((store, recovery))
    }

    /// A store without a disk: above the budget the coldest cells are lost.
    pub fn in_memory(options: Options) -> Store {
        Store::new(options, false)
    }

    fn new(options: Options, durable: bool) -> Store {
        let memory = StoreMemory::new(options.memory_bytes, durable);
        Store {
            log: None,
            shards: (0..SHARDS).map(|_| Mutex::new(Shard::new(&memory, durable))).collect(),
            memory,
            epoch: RwLock::new(0),
            flushing: Mutex::default(),
            merging: Mutex::default(),
            uncertain: AtomicU64::new(u64::MAX),
            dirty: AtomicI64::new(0),
            flushes: AtomicU64::new(0),
            rewritten: AtomicU64::new(0),
            relief: OnceLock::new(),
        }
    }

    /// The epoch of runs that begin now.
    pub fn epoch(&self) -> u64 {
        *self.epoch.read()
    }

    /// Begins work on keys whose changes stay together.
    pub fn run(&self) -> StoreRun<'_> {
        let epoch = self.epoch.read();
        StoreRun { store: self, epoch, dirtied: std::cell::Cell::new(0) }
    }

    /// Returns true if there is a disk.
    pub fn is_durable(&self) -> bool {
        self.log.is_some()
    }

    /// Has `relief` called now and then while a flush goes on, as [`Store::dirty_bytes`] falls. To be set once.
    pub fn on_relief(&self, relief: impl Fn() + Send + Sync + 'static) {
        let _ = self.relief.set(Box::new(relief));
    }

    /// Bytes of cells that are not written yet.
    pub fn dirty_bytes(&self) -> u64 {
        self.dirty.load(Ordering::Relaxed).max(0).cast_unsigned()
    }

    /// Reads images, several at a time, and calls `each` with the index of what was wanted and what was found: `None`
    /// if it cannot be read, or is another key's. No lock is held.
    ///
    /// # Errors
    /// The device's. Damage is no error.
    pub fn read_many(
        &self,
        wanted: &[ColdKey],
        each: &mut dyn FnMut(usize, Option<LogRecord>),
    ) -> Result<(), StoreError> {
        let Some(log) = &self.log else { return Ok(()) };
        let positions: Vec<(Position, usize)> =
            wanted.iter().map(|cold| (cold.position, cold.words)).collect();
        let mut failed = None;
        log.read_many(&positions, &mut |at, found| match found {
            Ok(record) => {
                let RecordKey { space, kind, shingle } = record.key;
                let same = wanted
                    .get(at)
                    .is_some_and(|cold| KeyHash::of(space, kind, shingle) == (cold.shard, cold.hash));
                each(at, same.then_some(record));
            }
            Err(StoreError::Damaged { .. } | StoreError::Missing { .. }) => each(at, None),
            Err(error) => failed = Some(error),
        });
        failed.map_or(Ok(()), Err)
    }

    /// The newest words of a key, from memory or disk.
    ///
    /// # Errors
    /// [`StoreError::Damaged`] if its image cannot be read, or the device's.
    pub fn get(&self, key: RecordKey) -> Result<Option<(u16, Vec<u64>)>, StoreError> {
        let (shard, hash) = KeyHash::of(key.space, key.kind, key.shingle);
        loop {
            let found = {
                let shard = self.shards[shard].lock();
                match shard.find(hash) {
                    KeyLookup::Absent => return Ok(None),
                    KeyLookup::Hot(place) => {
                        return Ok(Some((shard.tag(place), shard.words(place).to_vec())));
                    }
                    KeyLookup::Cold(_, position, words) => (position, words),
                }
            };
            let Some(log) = &self.log else { return Ok(None) };
            let read = log.read(found.0, found.1);
            let unmoved =
                || matches!(self.shards[shard].lock().find(hash), KeyLookup::Cold(_, at, _) if at == found.0);
            match read {
                Ok(record) if record.key == key => return Ok(Some((record.tag, record.words))),
                Ok(_) if unmoved() => return Ok(None),
                Err(error) if unmoved() => return Err(error),
                _ => {}
            }
        }
    }

    /// Writes images of keys as one group, durably, in place of what there was of them. For keys that no run uses
    /// meanwhile: it would find them gone.
    ///
    /// # Errors
    /// The log's; then none of them was written.
    pub fn put(&self, images: &[(RecordKey, u16, Vec<u64>)], expires: i64) -> Result<(), StoreError> {
        let Some(log) = &self.log else { return Ok(()) };
        if images.is_empty() {
            return Ok(());
        }
        let _only = self.flushing.lock();
        let mut writer = log.begin()?;
        let mut positions = Vec::with_capacity(images.len());
        for (key, tag, words) in images {
            positions.push(writer.push(*key, *tag, expires, words)?);
        }
        writer.commit(true)?;
        for ((key, _, words), position) in images.iter().zip(positions) {
            let (shard, hash) = KeyHash::of(key.space, key.kind, key.shingle);
            let class = value_class(log::trimmed(words).len());
            self.account(position, class_bytes(class));
            let mut shard = self.shards[shard].lock();
            let before = shard.dirty_bytes();
            if let KeyLookup::Hot(place) = shard.find(hash) {
                self.dead(shard.forget(place));
            }
            self.dead(shard.point(hash, position, class));
            self.dirtied(before, shard.dirty_bytes());
        }
        Ok(())
    }

    /// Writes what is dirty as one group; with `sync` all that was flushed is durable when this answers. `meaning` is
    /// asked for once no run of before is under way any more. Answers the epoch of the runs that it has ended, see
    /// [`StoreRun::epoch`].
    ///
    /// # Errors
    /// [`StoreError::Full`] if there is no room: what was to be written is dirty again, and the next flush may
    /// succeed. Any other error ends writing.
    pub fn flush<M: CellSemantics>(
        &self,
        sync: bool,
        meaning: impl FnOnce() -> M,
    ) -> Result<u64, StoreError> {
        let _only = self.flushing.lock();
        self.flush_alone(sync, meaning)
    }

    fn flush_alone<M: CellSemantics>(
        &self,
        sync: bool,
        meaning: impl FnOnce() -> M,
    ) -> Result<u64, StoreError> {
        let Some(log) = &self.log else { return Ok(u64::MAX) };
        let mut writer = log.begin()?;
        let old = {
            let mut epoch = self.epoch.write();
            let old = *epoch;
            *epoch = old.wrapping_add(1);
            old
        };
        let meaning = meaning();
        let written = self.collect(log, &mut writer, old, &meaning).and_then(|written| {
            writer.commit(sync)?;
            Ok(written)
        });
        drop(writer);
        match written {
            Ok(written) => {
                self.uncertain.store(u64::MAX, Ordering::Release);
                self.flushes.fetch_add(u64::from(written > 0), Ordering::Relaxed);
                Ok(old)
            }
            Err(error) => {
                let from = self.uncertain.load(Ordering::Acquire);
                let lost = |position| log.address(position).is_none_or(|address| address >= from);
                for shard in &self.shards {
                    // The epoch may not change meanwhile: only flushes do that.
                    let epoch = self.epoch.read();
                    let mut shard = shard.lock();
                    let before = shard.dirty_bytes();
                    shard.revert(&lost, old, *epoch, &mut |position, bytes| log.account(position, bytes));
                    self.dirtied(before, shard.dirty_bytes());
                }
                self.uncertain.store(u64::MAX, Ordering::Release);
                Err(error)
            }
        }
    }

    fn collect(
        &self,
        log: &Log,
        writer: &mut LogWriter<'_>,
        old: u64,
        meaning: &dyn CellSemantics,
    ) -> Result<u64, StoreError> {
        let mut written = 0;
        // A few cells of every shard in turn: whoever wants one of them finds it free, most of the time.
        let mut left: Vec<usize> = (0..SHARDS).collect();
        while !left.is_empty() {
            let mut rest = Vec::with_capacity(left.len());
            for number in left {
                writer.spill()?;
                let mut shard = self.shards[number].lock();
                let before = shard.dirty_bytes();
                let mut write = |hash: KeyHash, tag, words: &[u64]| {
                    let (space, kind) = meaning.kind(tag);
                    let key = RecordKey { space, kind, shingle: hash.shingle(space, kind, number) };
                    let position = writer.push(key, tag, meaning.expires(tag, words), words)?;
                    if written == 0 {
                        self.uncertain.store(log.address(position).unwrap_or(0), Ordering::Release);
                    }
                    written += 1;
                    Ok::<Position, StoreError>(position)
                };
                let mut account = |position, bytes| log.account(position, bytes);
                let more = shard.collect(old, COLLECT, &mut write, &mut account);
                self.dirtied(before, shard.dirty_bytes());
                drop(shard);
                if more? {
                    rest.push(number);
                }
            }
            left = rest;
            if let Some(relief) = self.relief.get() {
                relief();
            }
        }
        Ok(written)
    }

    fn dirtied(&self, before: usize, after: usize) {
        self.dirty.fetch_add(after as i64 - before as i64, Ordering::Relaxed);
    }

    /// Lets go of cells in memory that have expired, of a share of all shards chosen by `turn`.
    pub fn forget_expired(&self, now: i64, turn: usize, of: usize, meaning: &dyn CellSemantics) {
        if let Some(log) = &self.log {
            log.raise_floor(now);
        }
        let count = SHARDS.div_ceil(of.max(1));
        for number in (turn * count..(turn + 1) * count).map(|number| number % SHARDS) {
            self.sweep_shard(number, now, &[], meaning);
        }
    }

    pub(crate) fn sweep_shard(&self, number: usize, now: i64, gone: &[u16], meaning: &dyn CellSemantics) {
        for table in 0..TABLES {
            let mut shard = self.shards[number].lock();
            let before = shard.dirty_bytes();
            shard.sweep(
                table,
                &|tag, words| meaning.expires(tag, words) <= now,
                &|position| gone.contains(&position.slot()),
                &mut |position, class| self.account(position, -class_bytes(class)),
            );
            shard.shrink(table);
            self.dirtied(before, shard.dirty_bytes());
        }
    }

    /// Calls `each` with the keys that are on disk alone, segment by segment, and then with those in memory. A key
    /// that is loaded meanwhile can come twice, and one that leaves memory meanwhile can be left out.
    ///
    /// # Errors
    /// The device's.
    pub fn each(
        &self,
        meaning: &dyn CellSemantics,
        each: &mut dyn FnMut(RecordKey, u16, &[u64]),
    ) -> Result<(), StoreError> {
        self.each_until(meaning, (&|_, _| true, &|| false), each)
    }

    /// Calls `each` in the same way with the keys of wanted spaces and kinds, until it is over: asked before each segment and each
    /// table. What is not wanted is not looked up.
    ///
    /// # Errors
    /// The device's.
    pub fn each_until(
        &self,
        meaning: &dyn CellSemantics,
        (is_wanted, is_over): (&dyn Fn(u16, u16) -> bool, &(dyn Fn() -> bool + Sync)),
        each: &mut dyn FnMut(RecordKey, u16, &[u64]),
    ) -> Result<(), StoreError> {
        // No file goes away meanwhile.
        let _merging = self.merging.lock();
        if let Some(log) = &self.log {
            for segment in log.segments() {
                if is_over() {
                    return Ok(());
                }
                log.scan(segment.slot, &mut |seen, words| {
                    let RecordKey { space, kind, shingle } = seen.key;
                    if !is_wanted(space, kind) {
                        return;
                    }
                    let (shard, hash) = KeyHash::of(space, kind, shingle);
                    if matches!(self.shards[shard].lock().find(hash), KeyLookup::Cold(_, at, _) if at == seen.position) {
                        each(seen.key, seen.tag, words);
                    }
                })?;
            }
        }
        for (number, shard) in self.shards.iter().enumerate() {
            for table in 0..TABLES {
                if is_over() {
                    return Ok(());
                }
                shard.lock().each_hot(table, &mut |hash, tag, words| {
                    let (space, kind) = meaning.kind(tag);
                    if is_wanted(space, kind) {
                        each(
                            RecordKey { space, kind, shingle: hash.shingle(space, kind, number) },
                            tag,
                            words,
                        );
                    }
                });
            }
        }
        Ok(())
    }

    /// Reads every file, checks every checksum, and that every key has its image. Exact while nothing is changed.
    /// `progress` hears of bytes read and of all bytes.
    ///
    /// # Errors
    /// The device's. Damage is in the answer, with the number of keys whose image was not found.
    pub fn verify(&self, progress: &mut dyn FnMut(u64, u64)) -> Result<(Verification, u64), StoreError> {
        let Some(log) = &self.log else { return Ok(Default::default()) };
        let mut found = 0;
        let verification = log.verify(progress, &mut |seen| {
            let RecordKey { space, kind, shingle } = seen.key;
            let (shard, hash) = KeyHash::of(space, kind, shingle);
            found += u64::from(self.shards[shard].lock().is_at(hash, seen.position));
        })?;
        let stored = |shard: &Mutex<Shard>| (0..TABLES).map(|table| shard.lock().stored(table)).sum::<u64>();
        let stored: u64 = self.shards.iter().map(stored).sum();
        Ok((verification, stored.saturating_sub(found)))
    }

    /// Flushes, and makes `target`, which must be missing or empty, a directory with the same files: hard links where
    /// that is possible. It holds each run wholly or not at all.
    ///
    /// # Errors
    /// As [`Store::flush`], or the device's.
    pub fn snapshot<M: CellSemantics>(
        &self,
        target: &Path,
        meaning: impl FnOnce() -> M,
    ) -> Result<(), StoreError> {
        let _only = self.flushing.lock();
        self.flush_alone(true, meaning)?;
        self.log.as_ref().map_or(Ok(()), |log| log.snapshot(target))
    }

    /// Flushes, and ends writing.
    ///
    /// # Errors
    /// As [`Store::flush`].
    pub fn close<M: CellSemantics>(&self, meaning: impl FnOnce() -> M) -> Result<(), StoreError> {
        // A merge that runs is finished first.
        let _merging = self.merging.lock();
        let _only = self.flushing.lock();
        self.flush_alone(true, meaning)?;
        self.log.as_ref().map_or(Ok(()), Log::close)
    }

    /// The latest time up to which images were let go.
    pub fn floor(&self) -> i64 {
        self.log.as_ref().map_or(i64::MIN, Log::floor)
    }

    /// Returns the space that the store takes up, and the counts of its actions. Locks every shard for a moment.
    pub fn usage(&self) -> StoreUsage {
        let files = self.log.as_ref().map(Log::usage).unwrap_or_default();
        let mut usage = StoreUsage {
            memory_bytes: self.memory.spare_bytes() as u64,
            dirty_bytes: self.dirty_bytes(),
            index_bytes: self.memory.index_bytes() as u64,
            index_bytes_max: self.memory.index_bytes_max() as u64,
            segments: files.segments,
            disk_bytes: files.disk_bytes,
            live_bytes: files.live_bytes.min(files.record_bytes),
            flushes: self.flushes.load(Ordering::Relaxed),
            rewritten_bytes: self.rewritten.load(Ordering::Relaxed),
            ..StoreUsage::default()
        };
        for shard in &self.shards {
            let shard = shard.lock();
            usage.keys += shard.entries();
            usage.hot += shard.hot();
            usage.memory_bytes += (shard.index_bytes() + shard.cell_bytes() + shard.list_bytes()) as u64;
            usage.evictions += shard.tally.evictions;
            usage.expired += shard.tally.expired;
        }
        usage
    }

    pub(crate) fn log(&self) -> Option<&Log> {
        self.log.as_ref()
    }

    /// Held while a merge runs; segments that have to be kept.
    pub(crate) fn merging(&self) -> MutexGuard<'_, HashSet<u32>> {
        self.merging.lock()
    }

    pub(crate) fn add_rewritten(&self, bytes: u64) {
        self.rewritten.fetch_add(bytes, Ordering::Relaxed);
    }

    fn account(&self, position: Position, bytes: i64) {
        if let Some(log) = &self.log {
            log.account(position, bytes);
        }
    }

    fn dead(&self, superseded: Option<(Position, u8)>) {
        if let Some((position, class)) = superseded {
            self.account(position, -class_bytes(class));
        }
    }

    /// Brings a shard's cells under their share of the budget.
    fn make_room(&self, shard: &mut Shard) {
        let cells = self.memory.cells_of_shard();
        let cells = cells.saturating_sub(shard.unwritten_list_bytes()).max(cells / 2);
        if shard.live_bytes() > cells {
            shard.evict(cells, self);
        }
        shard.compact(cells);
    }
}

impl WrittenImages for Store {
    fn written(&self, position: Position) -> bool {
        let uncertain = self.uncertain.load(Ordering::Acquire);
        uncertain == u64::MAX
            || self
                .log
                .as_ref()
                .and_then(|log| log.address(position))
                .is_none_or(|address| address < uncertain)
    }
}

/// Fills the index with what the log holds, a few keys behind: the line of each is asked for when it is pushed.
struct IndexLoader<'a> {
    shards: Vec<&'a mut Shard>,
    ahead: VecDeque<(usize, KeyHash, Position, u8, bool)>,
    /// Live bytes by slot.
    live: Vec<i64>,
}

impl<'a> IndexLoader<'a> {
    const AHEAD: usize = 32;

    fn new(store: &'a mut Store) -> IndexLoader<'a> {
        let shards = store.shards.iter_mut().map(|shard| shard.get_mut());
        IndexLoader {
            shards: shards.collect(),
            ahead: VecDeque::with_capacity(IndexLoader::AHEAD + 1),
            live: Vec::new(),
        }
    }

    fn push(&mut self, seen: &VisitedRecord) {
        let RecordKey { space, kind, shingle } = seen.key;
        let (shard, hash) = KeyHash::of(space, kind, shingle);
        self.shards[shard].prefetch(hash);
        self.ahead.push_back((shard, hash, seen.position, value_class(seen.words), seen.has_expired));
        if self.ahead.len() > IndexLoader::AHEAD {
            self.pop();
        }
    }

    fn pop(&mut self) {
        let Some((shard, hash, position, class, has_expired)) = self.ahead.pop_front() else { return };
        if has_expired {
            if let Some((old, class)) = self.shards[shard].drop_cold(hash) {
                self.weigh(old, -class_bytes(class));
            }
            return;
        }
        self.weigh(position, class_bytes(class));
        let shard = &mut *self.shards[shard];
        // What is too much goes in the end.
        shard.reserve(hash);
        if let Some((old, class)) = shard.point(hash, position, class) {
            self.weigh(old, -class_bytes(class));
        }
    }

    fn weigh(&mut self, position: Position, bytes: i64) {
        let slot = usize::from(position.slot());
        if self.live.len() <= slot {
            self.live.resize(slot + 1, 0);
        }
        self.live[slot] += bytes;
    }

    fn finish(mut self) -> impl Iterator<Item = (u16, i64)> {
        while !self.ahead.is_empty() {
            self.pop();
        }
        for shard in &mut self.shards {
            (0..TABLES).for_each(|table| shard.shrink(table));
        }
        (0..).zip(self.live)
    }
}

/// Work on many keys whose changes are in one flush, all of them or none. To be short: a flush waits for it.
pub struct StoreRun<'a> {
    store: &'a Store,
    epoch: RwLockReadGuard<'a, u64>,
    dirtied: std::cell::Cell<i64>,
}

impl StoreRun<'_> {
    /// Its changes are written by the flush that answers this number or a greater one.
    pub fn epoch(&self) -> u64 {
        *self.epoch
    }

    /// Locks a shard, for a few keys.
    pub fn shard(&self, number: usize) -> ShardGuard<'_> {
        self.keys(self.store.shards[number].lock())
    }

    /// Locks a shard, unless somebody else has locked it.
    pub fn try_shard(&self, number: usize) -> Option<ShardGuard<'_>> {
        self.store.shards[number].try_lock().map(|shard| self.keys(shard))
    }

    fn keys<'s>(&'s self, shard: MutexGuard<'s, Shard>) -> ShardGuard<'s> {
        ShardGuard { dirty: shard.dirty_bytes(), run: self, shard }
    }
}

impl Drop for StoreRun<'_> {
    fn drop(&mut self) {
        let dirtied = self.dirtied.get();
        if dirtied != 0 {
            self.store.dirty.fetch_add(dirtied, Ordering::Relaxed);
        }
    }
}

/// A shard's keys, locked.
pub struct ShardGuard<'a> {
    run: &'a StoreRun<'a>,
    shard: MutexGuard<'a, Shard>,
    dirty: usize,
}

impl ShardGuard<'_> {
    /// Asks for the line where a key would be.
    #[inline(always)]
    pub fn prefetch(&self, hash: KeyHash) {
        self.shard.prefetch(hash);
    }

    /// Asks for the lines of a cell that was found.
    #[inline(always)]
    pub fn prefetch_cell(&self, place: CellLocation) {
        self.shard.prefetch_cell(place);
    }

    /// Returns whether there is a place for a new key. Some are reserved.
    pub fn vacancy(&self, hash: KeyHash, is_reserved: bool) -> Vacancy {
        self.shard.vacancy(hash, is_reserved)
    }

    /// Finds a key.
    #[inline(always)]
    pub fn find(&self, hash: KeyHash) -> KeyLookup {
        self.shard.find(hash)
    }

    /// The cell's place: the one that was found before, or where it is by now.
    #[inline(always)]
    pub fn again(&self, hash: KeyHash, before: Option<CellLocation>) -> Option<CellLocation> {
        self.shard.again(hash, before)
    }

    /// Keeps all cells of the shard in memory until [`ShardGuard::unpin`].
    pub fn pin(&mut self) {
        self.shard.pins += 1;
    }

    /// Ends one [`ShardGuard::pin`].
    pub fn unpin(&mut self) {
        self.shard.pins =
            self.shard.pins.checked_sub(1).expect("a shard is unpinned as often as it was pinned");
    }

    /// Notes that a cell is used; answers its tag, whether its image could not be read, and its words, with zeros at the
    /// end.
    #[inline(always)]
    pub fn visit(&mut self, place: CellLocation) -> (u16, bool, &[u64]) {
        self.shard.visit(place)
    }

    /// A cell's words, with zeros at the end.
    #[inline(always)]
    pub fn words(&self, place: CellLocation) -> &[u64] {
        self.shard.words(place)
    }

    /// A cell to be changed, at its place, with its hash.
    #[inline(always)]
    pub fn change(&mut self, place: CellLocation, hash: KeyHash) -> CellMut<'_> {
        self.shard.change(place, hash, *self.run.epoch)
    }

    /// Changes the words of a cell that keeps its size, if it has this tag and its image could be read, and notes that it is
    /// used. `None` if `change` says so, which must not have changed anything then, or if it takes [`ShardGuard::change`].
    #[inline(always)]
    pub fn update<T>(
        &mut self,
        place: CellLocation,
        hash: KeyHash,
        tag: u16,
        change: impl FnOnce(&mut [u64]) -> Option<T>,
    ) -> Option<T> {
        self.shard.update(place, (hash, tag, *self.run.epoch), change)
    }

    /// The words of a cell to be changed that keeps its size, with zeros at the end.
    #[inline(always)]
    pub fn words_mut(&mut self, place: CellLocation, hash: KeyHash) -> &mut [u64] {
        self.shard.words_mut(place, hash, *self.run.epoch)
    }

    /// Makes a cell with room for so many words, all zero, for a key that is not there.
    pub fn create(&mut self, hash: KeyHash, tag: u16, words: usize) -> CellLocation {
        self.shard.create(hash, tag, words, *self.run.epoch)
    }

    /// Puts an image that was read at `position` into memory, if the key is still cold there; `None` for one that
    /// could not be read: its cell starts anew and says so.
    pub fn load(&mut self, hash: KeyHash, position: Position, tag: u16, words: Option<&[u64]>) {
        self.shard.load(hash, position, tag, words);
    }

    /// Returns true if somebody is at work on cells of the shard, and none of them may go.
    pub(crate) fn is_pinned(&self) -> bool {
        self.shard.pins > 0
    }

    pub(crate) fn epoch(&self) -> u64 {
        *self.run.epoch
    }

    pub(crate) fn shard_mut(&mut self) -> &mut Shard {
        &mut self.shard
    }

    /// Says that images count for more or less.
    pub(crate) fn account(&self, images: impl IntoIterator<Item = (Position, i64)>) {
        images.into_iter().for_each(|(position, bytes)| self.run.store.account(position, bytes));
    }

    /// Lets go of a cell and its key.
    pub fn forget(&mut self, place: CellLocation) {
        if let Some((position, class)) = self.shard.forget(place) {
            self.run.store.account(position, -class_bytes(class));
        }
    }
}

impl Drop for ShardGuard<'_> {
    fn drop(&mut self) {
        let dirty = self.shard.dirty_bytes();
        if dirty != self.dirty {
            self.run.dirtied.set(self.run.dirtied.get() + dirty as i64 - self.dirty as i64);
        }
        self.shard.settle(|position, bytes| self.run.store.account(position, bytes));
        self.run.store.make_room(&mut self.shard);
    }
}
