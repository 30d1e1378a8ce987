//! One run: some requests, applied together.
//!
//! ```text
//! places      one per observation, one more per pair and per mark ─► by shard, in the order of the requests
//! ask         the line of each place's index entry
//! find        its entry, and the line of its cell; what is cold is read, without a lock, and then begun anew
//! apply       marks, then readings and additions
//! ```
//!
//! Memory answers in hundreds of nanoseconds but many questions at once: so each step goes through all places, and
//! waits for none of the lines that it asks for.

use std::ops::Range;

use event::Time;
use hashbrown::HashMap;
use store::{CellMut, ColdKey, KeyHash, LogRecord, ShardGuard, Store, StoreRun, Vacancy};

use super::EmbeddedCore;
use super::compiled_catalog::{CompiledCatalog, CompiledStatistic, PAIR};
use super::sketches::OverflowSketch;
use crate::cell::CellBuffer;
use crate::definition;
use crate::kind::{Addition, ObservationContext, Origin, StatisticChange};
use crate::ledger::{
    DedupeMark, LedgerError, Observation, ObserveOutcomes, ObserveRequest, PackedReading, Quality,
};

impl CellBuffer for CellMut<'_> {
    #[inline(always)]
    fn words(&self) -> &[u64] {
        CellMut::words(self)
    }

    #[inline(always)]
    fn words_mut(&mut self) -> &mut [u64] {
        CellMut::words_mut(self)
    }

    #[inline(always)]
    fn resize(&mut self, words: usize) {
        CellMut::resize(self, words);
    }
}

/// Words that a new cell gets room for: most never need more.
const NEW_WORDS: usize = 2;

/// A key that a run touches.
#[derive(Clone, Copy)]
struct TouchedKey {
    hash: KeyHash,
    /// The place of its cell.
    found: Option<store::CellLocation>,
    plan: u16,
    role: KeyRole,
    request: u32,
    observation: u32,
}

impl TouchedKey {
    /// A place without a key.
    const NONE: TouchedKey = TouchedKey {
        hash: KeyHash::ZERO,
        found: None,
        plan: 0,
        role: KeyRole::Observed,
        request: 0,
        observation: 0,
    };
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum KeyRole {
    Observed,
    Pair,
    Mark,
}

/// An image that was read for a run; `None` if it cannot be read.
type LoadedImages = HashMap<(usize, KeyHash), (store::Position, Option<LogRecord>)>;

/// Memory that runs use one after the other.
#[derive(Default)]
pub(super) struct ApplyScratch {
    places: Vec<TouchedKey>,
    groups: ShardGroups,
    starts: Vec<u32>,
}

impl EmbeddedCore {
    /// Applies requests that were checked against `catalog`, with the places of their plans. Answers the epoch.
    pub(super) fn apply(
        &self,
        catalog: &CompiledCatalog,
        requests: &[ObserveRequest],
        plans: &[u16],
        scratch: &mut ApplyScratch,
        outcomes: &mut ObserveOutcomes,
    ) -> Result<u64, LedgerError> {
        scratch.arrange(catalog, requests, plans);
        let adds = requests.iter().any(ObserveRequest::adds);
        let mut images = LoadedImages::new();
        loop {
            let run = self.store.run();
            if adds {
                self.check_writable()?;
            }
            scratch.ask(&run);
            let missing = self.find(catalog, &run, scratch, &mut images);
            if missing.is_empty() {
                self.add(catalog, &run, requests, scratch, outcomes);
                return Ok(run.epoch());
            }
            scratch.let_go(&run);
            drop(run);
            self.counts.loads.fetch_add(missing.len() as u64, std::sync::atomic::Ordering::Relaxed);
            self.store.read_many(&missing, &mut |at, record| {
                if let Some(cold) = missing.get(at) {
                    images.insert((cold.shard, cold.hash), (cold.position, record));
                }
            })?;
        }
    }

    /// Finds all cells and keeps them where they are; answers those that have to be read first.
    fn find(
        &self,
        catalog: &CompiledCatalog,
        run: &StoreRun<'_>,
        scratch: &mut ApplyScratch,
        images: &mut LoadedImages,
    ) -> Vec<ColdKey> {
        let ApplyScratch { places, groups, .. } = scratch;
        let mut missing = Vec::new();
        groups.visit(run, |shard, group, mut keys| {
            keys.pin();
            for place in &mut places[group.clone()] {
                place.found = match keys.find(place.hash) {
                    store::KeyLookup::Hot(found) => Some(found),
                    store::KeyLookup::Absent => {
                        if let Some(sketch) = &catalog.plans[usize::from(place.plan)].sketch {
                            sketch.touch(sketch.line(place.hash.part(shard), place.hash.bits()));
                        }
                        None
                    }
                    store::KeyLookup::Cold(_, position, words) => {
                        match images.get(&(shard, place.hash)) {
                            Some((at, record)) if *at == position => {
                                self.load(catalog, &mut keys, place, position, record.as_ref());
                            }
                            _ => missing.push(ColdKey { shard, hash: place.hash, position, words }),
                        }
                        None
                    }
                };
            }
            places[group].iter().filter_map(|place| place.found).for_each(|found| keys.prefetch_cell(found));
        });
        // The same key may be there several times.
        missing.sort_unstable_by_key(|cold| cold.position);
        missing.dedup_by_key(|cold| cold.position);
        missing
    }

    fn load(
        &self,
        catalog: &CompiledCatalog,
        keys: &mut ShardGuard<'_>,
        place: &TouchedKey,
        position: store::Position,
        record: Option<&LogRecord>,
    ) {
        let planned = &catalog.plans[usize::from(place.plan)];
        let sound = record.filter(|record| {
            let defined = catalog.defined(record.tag);
            defined.is_some_and(|defined| {
                (defined.definition.space, defined.definition.kind) == (planned.space, planned.kind)
                    && defined.plan.check(&record.words)
            })
        });
        match sound {
            Some(record) => keys.load(place.hash, position, record.tag, Some(&record.words)),
            None => {
                self.counts.damaged.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                let pair = if place.role == KeyRole::Pair { PAIR } else { 0 };
                keys.load(place.hash, position, planned.number | pair, None);
            }
        }
    }

    fn add(
        &self,
        catalog: &CompiledCatalog,
        run: &StoreRun<'_>,
        requests: &[ObserveRequest],
        scratch: &mut ApplyScratch,
        outcomes: &mut ObserveOutcomes,
    ) {
        let horizon = self.horizon.load(std::sync::atomic::Ordering::Acquire);
        let (first_request, first_reading) = (outcomes.requests.len(), outcomes.readings.len());
        let mut end = first_reading as u32;
        scratch.starts.clear();
        for request in requests {
            scratch.starts.push(end);
            end += request.observations.len() as u32;
            outcomes.requests.push((end, false));
        }
        outcomes.readings.resize(end as usize, PackedReading::NEW);
        for (request, outcome) in requests.iter().zip(&mut outcomes.requests[first_request..]) {
            if let Some(once) = &request.once {
                outcome.1 = !mark(catalog, run, horizon, &self.overflow, once);
            }
        }
        let room = |place: &TouchedKey| catalog.plans[usize::from(place.plan)].reading;
        let room = scratch.places.iter().map(room).sum();
        let mut values = ReadingValues::new(&mut outcomes.values, room);
        scratch.groups.visit(run, |shard, group, keys| {
            let overflow = &self.overflow;
            let mut cells = ShardCells { catalog, horizon, shard, keys, overflow, values: &mut values };
            cells.keys.unpin();
            for place in scratch.places[group].iter().filter(|place| place.role == KeyRole::Observed) {
                let request = place.request as usize;
                let Some(each) = requests.get(request) else { continue };
                let adds = !outcomes.requests[first_request + request].1 && each.origin != Origin::Look;
                if let Some(observation) = each.observations.get(place.observation as usize) {
                    let at = scratch.starts[request] + place.observation;
                    let brief = &mut outcomes.readings[at as usize];
                    cells.observe(place, observation, (adds, each.origin), brief);
                }
            }
        });
    }
}

impl ApplyScratch {
    /// Lists the places of a run by shard. Within a shard, and so for any one key, the order stays.
    fn arrange(&mut self, catalog: &CompiledCatalog, requests: &[ObserveRequest], plans: &[u16]) {
        let counts = &mut self.groups.0;
        counts.fill(0);
        each_place(catalog, requests, plans, |shard, _| counts[shard + 1] += 1);
        for at in 1..counts.len() {
            counts[at] += counts[at - 1];
        }
        let mut next = *counts;
        // Every place is written below.
        self.places.resize(next[Store::SHARDS] as usize, TouchedKey::NONE);
        each_place(catalog, requests, plans, |shard, place| {
            self.places[next[shard] as usize] = place;
            next[shard] += 1;
        });
    }

    fn ask(&self, run: &StoreRun<'_>) {
        for (shard, group) in self.groups.iter() {
            // It is not worth waiting for.
            if let Some(keys) = run.try_shard(shard) {
                self.places[group].iter().for_each(|place| keys.prefetch(place.hash));
            }
        }
    }

    /// Ends what [`EmbeddedCore::find`] has begun.
    fn let_go(&self, run: &StoreRun<'_>) {
        self.groups.visit(run, |_, _, mut keys| keys.unpin());
    }
}

/// The starts of each shard's places, and the end of the last.
struct ShardGroups([u32; Store::SHARDS + 1]);

impl Default for ShardGroups {
    fn default() -> ShardGroups {
        ShardGroups([0; Store::SHARDS + 1])
    }
}

const _: () = assert!(Store::SHARDS <= 64, "a word has a bit for each shard");

impl ShardGroups {
    /// The shards that have places, and which.
    fn iter(&self) -> impl Iterator<Item = (usize, Range<usize>)> {
        let group = |shard: usize| (shard, self.0[shard] as usize..self.0[shard + 1] as usize);
        (0..Store::SHARDS).map(group).filter(|(_, group)| !group.is_empty())
    }

    /// Goes through the shards that have places, each locked meanwhile: first those that nobody else has locked, so
    /// that flushes and runs wait for one another as little as can be.
    fn visit<'r>(&self, run: &'r StoreRun<'r>, mut each: impl FnMut(usize, Range<usize>, ShardGuard<'r>)) {
        let mut later = 0u64;
        for (shard, group) in self.iter() {
            match run.try_shard(shard) {
                Some(keys) => each(shard, group, keys),
                None => later |= 1 << shard,
            }
        }
        for (shard, group) in self.iter().filter(|(shard, _)| later >> shard & 1 == 1) {
            each(shard, group, run.shard(shard));
        }
    }
}

/// Calls `each` with the places of requests and their shards, in the order of the requests.
#[inline(always)]
fn each_place(
    catalog: &CompiledCatalog,
    requests: &[ObserveRequest],
    plans: &[u16],
    mut each: impl FnMut(usize, TouchedKey),
) {
    let mut plans = plans.iter();
    for (request, number) in requests.iter().zip(0..) {
        if let Some(DedupeMark { key, .. }) = &request.once
            && let Ok(plan) = catalog.find(key.space, key.kind)
        {
            let (shard, hash) = KeyHash::of(key.space.0, key.kind.0, key.shingle.0);
            each(shard, TouchedKey { hash, plan, role: KeyRole::Mark, request: number, ..TouchedKey::NONE });
        }
        for ((observation, plan), at) in request.observations.iter().zip(&mut plans).zip(0..) {
            let key = &observation.key;
            let (shard, hash) = KeyHash::of(key.space.0, key.kind.0, key.shingle.0);
            let place =
                TouchedKey { hash, plan: *plan, request: number, observation: at, ..TouchedKey::NONE };
            each(shard, place);
            if let Addition::Distinct { pair } = &observation.add
                && catalog.plans[usize::from(*plan)].has_pairs
            {
                let (_, hash) = KeyHash::of(key.space.0, key.kind.0 | PAIR, pair.0);
                each(shard, TouchedKey { hash, role: KeyRole::Pair, ..place });
            }
        }
    }
}

/// Leaves a mark; false if it was there. Where there is no place for it none is left: its request counts again if it comes again.
fn mark(
    catalog: &CompiledCatalog,
    run: &StoreRun<'_>,
    horizon: i64,
    overflow: &OverflowSketch,
    once: &DedupeMark,
) -> bool {
    let Ok(number) = catalog.find(once.key.space, once.key.kind) else { return true };
    let planned = &catalog.plans[usize::from(number)];
    let (shard, hash) = KeyHash::of(once.key.space.0, once.key.kind.0, once.key.shingle.0);
    let mut none = Vec::new();
    let mut values = ReadingValues::new(&mut none, 0);
    let mut cells =
        ShardCells { catalog, horizon, shard, keys: run.shard(shard), overflow, values: &mut values };
    let bucket = planned.plan.bucket(once.time);
    let near = [bucket.saturating_sub(1), bucket, bucket.saturating_add(1)];
    let seen = cells.find(hash, None, planned, 0, |cell, _| {
        near.into_iter().any(|bucket| planned.plan.fine(cell.words, bucket).0)
    });
    match seen {
        Some((_, true)) => return false,
        None if cells.keys.vacancy(hash, false) != Vacancy::Free => return true,
        _ => {}
    }
    cells.change(hash, planned, 0, |planned, cell| planned.plan.add(cell, once.time, [(0, 1)]));
    true
}

/// A live cell.
struct LiveCell<'a> {
    words: &'a [u64],
    /// First and last event.
    times: Option<(Time, Time)>,
    /// Its image could not be read.
    is_missing: bool,
}

/// One shard while a run is applied to it.
struct ShardCells<'a, 'v> {
    catalog: &'a CompiledCatalog,
    horizon: i64,
    shard: usize,
    keys: ShardGuard<'a>,
    overflow: &'a OverflowSketch,
    values: &'v mut ReadingValues<'a>,
}

impl ShardCells<'_, '_> {
    /// Looks at a live cell, brought to its definition in force; answers its place and what `look` makes of it.
    #[inline]
    fn find<T>(
        &mut self,
        hash: KeyHash,
        mut before: Option<store::CellLocation>,
        planned: &CompiledStatistic,
        pair: u16,
        look: impl FnOnce(LiveCell<'_>, &mut ReadingValues<'_>) -> T,
    ) -> Option<(store::CellLocation, T)> {
        loop {
            let at = self.keys.again(hash, before)?;
            let (tag, is_missing, words) = self.keys.visit(at);
            if tag != planned.number | pair {
                self.translate(at, hash, tag, planned, pair);
                before = None;
                continue;
            }
            let times = planned.plan.times(words);
            if times.is_some_and(|(_, last)| planned.is_gone(last, self.horizon)) {
                self.keys.forget(at);
                return None;
            }
            return Some((at, look(LiveCell { words, times, is_missing }, self.values)));
        }
    }

    #[cold]
    fn translate(
        &mut self,
        at: store::CellLocation,
        hash: KeyHash,
        tag: u16,
        planned: &CompiledStatistic,
        pair: u16,
    ) {
        let old = self.keys.words(at).to_vec();
        let mut new = Vec::new();
        if let Some(defined) = self.catalog.defined(tag) {
            definition::translated(&old, defined, &planned.defined, &mut new);
        }
        let mut cell = self.keys.change(at, hash);
        cell.words_mut().fill(0);
        cell.resize(new.len());
        cell.words_mut()[..new.len()].copy_from_slice(&new);
        cell.set_tag(planned.number | pair);
    }

    /// Changes a cell, which is made if there is none.
    #[inline]
    fn change(
        &mut self,
        hash: KeyHash,
        planned: &CompiledStatistic,
        pair: u16,
        change: impl FnOnce(&CompiledStatistic, &mut CellMut<'_>),
    ) {
        let at = match self.find(hash, None, planned, pair, |_, _| ()) {
            Some((at, ())) => at,
            None => self.keys.create(hash, planned.number | pair, NEW_WORDS),
        };
        change(planned, &mut self.keys.change(at, hash));
    }

    /// Reads and adds at once, for a key whose cell is there and keeps its size, see `CellPlan::observe_in_place`; false if it is
    /// otherwise, and nothing was done.
    #[inline(always)]
    fn observe_in_place(
        &mut self,
        place: &TouchedKey,
        planned: &CompiledStatistic,
        time: Time,
        add: &Addition,
        brief: &mut PackedReading,
    ) -> bool {
        if place.found.is_none() {
            return false;
        }
        let Some(at) = self.keys.again(place.hash, place.found) else { return false };
        let (horizon, out) = (self.horizon, self.values.next(planned));
        let observed = self.keys.update(at, place.hash, planned.number, |words| {
            planned.plan.observe_in_place(words, time, add, |last| planned.is_gone(last, horizon), out)
        });
        let Some((first, last)) = observed else { return false };
        self.values.take(planned, brief);
        (brief.first, brief.last) = (first.0, last.0);
        true
    }

    /// Fills the reading of a new key, where it lies: a copy would wait until its small parts are written.
    #[inline]
    fn observe(
        &mut self,
        place: &TouchedKey,
        Observation { key, time, add }: &Observation,
        (adds, origin): (bool, Origin),
        brief: &mut PackedReading,
    ) {
        let catalog = self.catalog;
        let planned = &catalog.plans[usize::from(place.plan)];
        brief.columns = planned.columns;
        if adds && self.observe_in_place(place, planned, *time, add, brief) {
            return;
        }
        let found = self.find(place.hash, place.found, planned, 0, |cell, values| {
            if let Some((first, last)) = cell.times {
                (brief.first, brief.last) = (first.0, last.0);
            }
            brief.quality = match (cell.is_missing, planned.is_estimate) {
                (true, _) => Quality::Missing,
                (false, true) => Quality::Estimated,
                (false, false) => Quality::Exact,
            };
            values.fill(planned, cell.words, add.as_of(*time, cell.times.map(|(_, last)| last)), brief);
        });
        let found = found.map(|(at, ())| at);
        if found.is_none() && planned.reads_unseen {
            self.values.fill(planned, &[], *time, brief);
        }
        let adds = adds && add.adds();
        let sees = adds && add.is_sighting();
        let mut sightings = 0;
        if found.is_none()
            && let Some(sketch) = &planned.sketch
        {
            let (part, hash) = (place.hash.part(self.shard), place.hash.bits());
            sightings = match sees && origin == Origin::Event {
                true => sketch.see(part, hash, *time),
                false => sketch.estimate(part, hash, *time),
            };
            if !sketch.is_complete(part, *time) {
                brief.quality = Quality::Estimated;
            }
            let admits = sees && origin.admits(sightings, planned.admit_after);
            // One that was seen more often would have a cell: a sketch that is full sees too much.
            sightings = sightings.min(planned.admit_after.saturating_sub(1));
            self.set_estimate(sightings, planned, add, brief);
            if !admits {
                brief.fresh = matches!(add, Addition::Distinct { .. }) && planned.has_pairs && sightings == 0;
                return;
            }
        }
        if found.is_none() {
            match self.placement(place.hash, planned, *time, adds && add.makes_cells()) {
                KeyPlacement::Free => {}
                KeyPlacement::Admitted(seen) => self.set_estimate(sightings.max(seen), planned, add, brief),
                KeyPlacement::Nowhere(seen) => {
                    brief.quality = Quality::Estimated;
                    return self.set_estimate(sightings.max(seen), planned, add, brief);
                }
            }
        }
        if let Addition::Distinct { pair } = add
            && planned.has_pairs
        {
            brief.fresh = self.is_fresh(*pair, *time, planned, key, &mut brief.quality);
            if adds {
                self.count_pair(place, *pair, *time, planned, key, brief);
            }
            return;
        }
        if !adds {
            return;
        }
        let last = found.map(|_| Time(brief.last));
        let values = self.values.of(brief);
        let context = ObservationContext { time: *time, last, values, origin, sightings };
        let change = planned.plan.change(add, &context);
        if change == StatisticChange::Nothing {
            return;
        }
        let at = match found {
            Some(at) => at,
            None => self.keys.create(place.hash, planned.number, NEW_WORDS),
        };
        planned.plan.apply(&mut self.keys.change(at, place.hash), &change);
    }

    /// Counts a value of an owner, and marks the pair, if it is new.
    fn count_pair(
        &mut self,
        place: &TouchedKey,
        pair: event::Shingle,
        time: Time,
        planned: &CompiledStatistic,
        key: &event::Key,
        brief: &mut PackedReading,
    ) {
        if brief.fresh {
            let (_, hash) = KeyHash::of(key.space.0, key.kind.0 | PAIR, pair.0);
            match self.placement_of_pair(hash, planned, time) {
                KeyPlacement::Nowhere(_) => brief.quality = Quality::Estimated,
                _ => self.change(hash, planned, PAIR, |planned, cell| planned.plan.add(cell, time, [(0, 1)])),
            }
        }
        let amount = u64::from(brief.fresh);
        self.change(place.hash, planned, 0, |planned, cell| planned.plan.add(cell, time, [(0, amount)]));
    }

    /// Returns whether a pair was not seen in the time's period, and the period is not forgotten. Where the pair's marks could
    /// not be read, neither answer can be trusted, and the quality says so.
    fn is_fresh(
        &mut self,
        pair: event::Shingle,
        time: Time,
        planned: &CompiledStatistic,
        key: &event::Key,
        quality: &mut Quality,
    ) -> bool {
        let (_, hash) = KeyHash::of(key.space.0, key.kind.0 | PAIR, pair.0);
        let bucket = planned.plan.bucket(time);
        let seen = self.find(hash, None, planned, PAIR, |cell, _| {
            (cell.is_missing, planned.plan.fine(cell.words, bucket))
        });
        match seen {
            Some((_, (is_missing, (seen, kept)))) => {
                if is_missing {
                    *quality = Quality::Missing;
                }
                !seen && kept
            }
            None => match self.overflow.estimate(hash.part(self.shard), hash.bits(), time) {
                Some(1..) => {
                    *quality = Quality::Estimated;
                    false
                }
                _ => true,
            },
        }
    }

    /// Tells how often a key without a cell was seen lately, if it was: as the count of an aggregate, and as what counters would
    /// have if each time had added the same as this one.
    fn set_estimate(
        &mut self,
        sightings: u32,
        planned: &CompiledStatistic,
        add: &Addition,
        brief: &mut PackedReading,
    ) {
        if sightings == 0 {
            return;
        }
        brief.quality = Quality::Estimated;
        if let Addition::Counters(_) = add
            && brief.width == 0
        {
            self.values.fill(planned, &[], Time(0), brief);
        }
        planned.plan.estimate(u64::from(sightings), add, self.values.of(brief));
    }

    /// Returns whether a key that has no cell gets one, if one is made for it; a sighting that finds no place is counted.
    fn placement(&self, hash: KeyHash, planned: &CompiledStatistic, time: Time, makes: bool) -> KeyPlacement {
        let (part, bits) = (hash.part(self.shard), hash.bits());
        if !makes {
            return match self.overflow.estimate(part, bits, time) {
                Some(seen @ 1..) => KeyPlacement::Nowhere(seen),
                _ => KeyPlacement::Free,
            };
        }
        match self.keys.vacancy(hash, planned.is_reserved) {
            Vacancy::Free => KeyPlacement::Free,
            Vacancy::Scarce => match self.overflow.see(part, bits, time) {
                // A sketch of its own has admitted it already.
                seen if seen + 1 >= OverflowSketch::AFTER || planned.sketch.is_some() => {
                    KeyPlacement::Admitted(seen)
                }
                seen => KeyPlacement::Nowhere(seen),
            },
            Vacancy::None => KeyPlacement::Nowhere(self.overflow.see(part, bits, time)),
        }
    }

    /// Returns whether a pair gets a cell, which was found to be new.
    fn placement_of_pair(&mut self, hash: KeyHash, planned: &CompiledStatistic, time: Time) -> KeyPlacement {
        match self.keys.again(hash, None) {
            Some(_) => KeyPlacement::Free,
            None => self.placement(hash, planned, time, true),
        }
    }
}

/// The place of a new key.
enum KeyPlacement {
    /// A cell is made for it.
    Free,
    /// A cell is made for it, and it was seen about so often while it had none.
    Admitted(u32),
    /// The store has no place for it; the key was seen about this often.
    Nowhere(u32),
}

/// Values of readings: a list that has room for those of a whole run.
struct ReadingValues<'a> {
    list: &'a mut Vec<u64>,
    used: usize,
}

impl<'a> ReadingValues<'a> {
    fn new(list: &'a mut Vec<u64>, room: usize) -> ReadingValues<'a> {
        let used = list.len();
        list.resize(used + room, 0);
        ReadingValues { list, used }
    }

    /// Appends those of a reading.
    #[inline]
    fn fill(&mut self, planned: &CompiledStatistic, words: &[u64], time: Time, brief: &mut PackedReading) {
        planned.plan.read(words, time, self.next(planned));
        self.take(planned, brief);
    }

    /// Room for those of the next reading.
    #[inline(always)]
    fn next(&mut self, planned: &CompiledStatistic) -> &mut [u64] {
        &mut self.list[self.used..self.used + planned.reading]
    }

    /// Makes it a reading's.
    #[inline(always)]
    fn take(&mut self, planned: &CompiledStatistic, brief: &mut PackedReading) {
        brief.start = self.used as u32;
        brief.width = planned.reading as u16;
        self.used += planned.reading;
    }

    /// The words of a reading.
    fn of(&mut self, brief: &PackedReading) -> &mut [u64] {
        let start = brief.start as usize;
        &mut self.list[start..start + usize::from(brief.width)]
    }
}

impl Drop for ReadingValues<'_> {
    fn drop(&mut self) {
        self.list.truncate(self.used);
    }
}
