//! One call: what it looks at is looked up, what is missing is read, marks are claimed; then all is read and added.
//!
//! Readings and additions follow the rules of the embedded home, on cells that are merged from what the cluster had and
//! what was added here. What depends on what is there, as what is taken from a limit, is decided here and now; what goes
//! to the cluster is what was decided. Nodes that decide at once know nothing of each other: by how much they can
//! exceed a limit together is in `docs/operating/cluster.md`.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use event::Time;
use futures_util::future::join;
use stats::{
    Addition, CellPlan, CounterAmounts, LedgerError, Observation, ObservationContext, ObserveOutcomes,
    ObserveRequest, Origin, Quality, ReadingHead, StatisticChange,
};

use crate::cache::CacheShard;
use crate::call::{CallObservation, ObserveCall};
use crate::catalog::{ClusterCatalog, ClusterStatistic};
use crate::cell::CellId;
use crate::cell_map::NO_HINT;
use crate::chain::ChainId;
use crate::core::ClusterCore;
use crate::delta::CellOperation;
use crate::exact_queue::ExactLimitReadings;
use crate::intent::{MarkStatus, MarkStatuses};
use crate::lookup::{CacheLookup, ImageAge};
use crate::remote::TIME_MAX;
use crate::sighting::{SharedSketch, SketchLook};
use crate::wal::{ClaimToken, WalAdditions, WalRecord};

/// The number of times that images that lack what is known here are asked for again.
const TRIES: usize = 3;
/// Observations that are looked for at once. A processor waits for the memory of all of them together.
const AT_ONCE: usize = 16;

/// The data that are common to a call's observations.
struct CallMoment {
    age: ImageAge,
    horizon: i64,
}

impl ClusterCore {
    /// Answers requests: see [`stats::Ledger::observe_each`].
    pub(crate) async fn observe(
        self: &Arc<ClusterCore>,
        requests: &[ObserveRequest],
    ) -> Result<ObserveOutcomes, LedgerError> {
        let catalog = self.catalog();
        let call = self.call(&catalog, requests)?;
        if requests.iter().any(ObserveRequest::adds) {
            self.check_writable()?;
        }
        let running = self.running.begin();
        let mut intents = self.intend(&catalog, requests).await?;
        let claiming = intents.claim();
        let decide = async {
            let mut verdicts = intents.verdicts(claiming).await;
            let decisions = self.decide(&catalog, &call, &mut verdicts).await;
            (verdicts, decisions)
        };
        let ((verdicts, decisions), hints) = join(decide, self.gather(&catalog, &call, running.stamp)).await;
        let (outcomes, position) =
            self.apply(&catalog, (&call, &hints), &verdicts, &decisions, running.stamp);
        drop(intents);
        if let Some(position) = position {
            self.wal.settled(position).await?;
        }
        Ok(outcomes)
    }

    pub(crate) fn call<'a>(
        &self,
        catalog: &ClusterCatalog,
        requests: &'a [ObserveRequest],
    ) -> Result<ObserveCall<'a>, LedgerError> {
        let mut plans = Vec::with_capacity(requests.iter().map(|request| request.observations.len()).sum());
        requests.iter().try_for_each(|request| catalog.check(request, &mut plans))?;
        let mut places = Vec::with_capacity(plans.len());
        for (request, number) in requests.iter().zip(0..) {
            for observation in &request.observations {
                let reading = places.len();
                let partition = self.partitions.of(observation.key.shingle);
                let plan = *plans.get(reading).expect("the catalog has found a plan for each observation");
                places.push(CallObservation {
                    observation,
                    id: CellId::of(observation.key),
                    request: number,
                    reading: reading as u32,
                    plan,
                    partition: partition.0,
                    shard: self.place(partition).0 as u16,
                    origin: request.origin,
                });
            }
        }
        places.sort_by_key(|place| place.partition);
        Ok(ObserveCall { requests, places })
    }

    /// Has the cluster asked for what is not known. Answers where the entry of each of the call's places is.
    pub(crate) async fn gather(
        self: &Arc<ClusterCore>,
        catalog: &Arc<ClusterCatalog>,
        call: &ObserveCall<'_>,
        stamp: u64,
    ) -> Vec<u32> {
        let start = self.environment.now();
        let mut hints = vec![NO_HINT as u32; call.places.len()];
        for attempt in 0..TRIES {
            let age = self.age(start);
            let mut lookup = CacheLookup::default();
            let mut rest = &mut hints[..];
            for group in call.places.chunk_by(|a, b| a.shard == b.shard) {
                let Some(first) = group.first() else { continue };
                let (hints, after) = rest.split_at_mut(group.len());
                rest = after;
                let mut shard = self.shards[usize::from(first.shard)].lock();
                for (places, hints) in group.chunks(AT_ONCE).zip(hints.chunks_mut(AT_ONCE)) {
                    // All at once, as each waits for memory.
                    for (place, hint) in places.iter().zip(&mut *hints) {
                        *hint = shard.place(place.id, *hint as usize).unwrap_or(NO_HINT) as u32;
                    }
                    for (place, hint) in places.iter().zip(hints) {
                        let planned = &catalog.plans[usize::from(place.plan)];
                        if planned.is_exact {
                            continue;
                        }
                        let form = planned.known.form.id;
                        let sketch = planned.sketch.as_ref().map(|sketch| SketchLook {
                            sketch,
                            time: kept(place.observation.time),
                            adds: place.observation.add.adds() && place.origin == Origin::Event,
                        });
                        let at = (place.id, *hint as usize);
                        *hint = lookup.look(&mut shard, (at, form), sketch, &age, stamp);
                        if planned.has_pairs
                            && let Addition::Distinct { pair } = place.observation.add
                        {
                            let pair = CellId::pair(place.observation.key, pair);
                            lookup.look(&mut shard, ((pair, NO_HINT), form), None, &age, stamp);
                        }
                    }
                }
            }
            if attempt == 0 {
                self.counts.looked(&lookup);
            }
            let was_void = self.read(lookup, catalog).await;
            let is_late = self.environment.now() >= start + self.settings.within;
            if !was_void || is_late {
                break;
            }
        }
        hints
    }

    /// Reads and adds. Answers up to where the journal is to be safe, if anything was added.
    pub(crate) fn apply(
        &self,
        catalog: &ClusterCatalog,
        (call, hints): (&ObserveCall<'_>, &[u32]),
        verdicts: &MarkStatuses,
        decisions: &ExactLimitReadings,
        stamp: u64,
    ) -> (ObserveOutcomes, Option<u64>) {
        let requests = call.requests;
        let mut outcomes = ObserveOutcomes::blank(requests.iter().map(|request| request.observations.len()));
        let mut added = WalAdditions::default();
        let (mut had, mut refused) = (Vec::new(), Vec::new());
        for (number, verdict) in verdicts.list.iter().enumerate() {
            match verdict {
                MarkStatus::Had(token) => had.push(*token),
                MarkStatus::Refused(token) => {
                    refused.push(*token);
                    outcomes.set_duplicate(number);
                }
                MarkStatus::Unmarked => {}
                MarkStatus::Unknown => {
                    let why = verdicts.failure.clone().unwrap_or_default();
                    outcomes.set_unconfirmed(number, why);
                }
            }
        }
        let moment = CallMoment {
            age: self.age(self.environment.now().min(verdicts.at)),
            horizon: self.horizon.load(Ordering::Acquire),
        };
        let oldest = self.running.oldest();
        let mut scratch = ObserveScratch::default();
        let _adding = self.adding.read();
        let mut rest = hints;
        for group in call.places.chunk_by(|a, b| a.shard == b.shard) {
            let Some(first) = group.first() else { continue };
            let (hints, after) = rest.split_at(group.len());
            rest = after;
            let mut shard = self.shards[usize::from(first.shard)].lock();
            let mut cells = CallShard { shard: &mut shard, stamp, moment: &moment, added: &mut added };
            for (places, hints) in group.chunks(AT_ONCE).zip(hints.chunks(AT_ONCE)) {
                // All at once, as each waits for memory; what follows finds it there.
                for (place, hint) in places.iter().zip(hints) {
                    let form = cells.shard.at_mut(*hint as usize).map(|entry| entry.form);
                    std::hint::black_box((place.observation.time, form));
                }
                for (place, hint) in places.iter().zip(hints) {
                    let CallObservation { observation, id, origin, .. } = *place;
                    // Between two observations: what one adds to an owner and to a mark is of one batch.
                    if cells.shard.is_full(id, self.settings.batch_bytes_max) {
                        cells.shard.seal(id, catalog, self.environment.now());
                    }
                    let planned = &catalog.plans[usize::from(place.plan)];
                    if planned.is_exact {
                        let told = decisions.read(place.reading, planned, &mut scratch.values);
                        outcomes.set_reading(place.reading as usize, told, &scratch.values);
                        continue;
                    }
                    let adds = verdicts.adds(place.request as usize)
                        && observation.add.adds()
                        && origin != Origin::Look;
                    let hint = *hint as usize;
                    let told = cells.observe(planned, (observation, hint), (adds, origin), &mut scratch);
                    outcomes.set_reading(place.reading as usize, told, &scratch.values);
                }
            }
            shard.evict(oldest, 64 + 4 * group.len());
        }
        if added.is_empty() && had.is_empty() && refused.is_empty() {
            return (outcomes, None);
        }
        let tokens: Vec<ClaimToken> = had.iter().chain(&refused).copied().collect();
        let record = WalRecord::Addition { had, refused, added };
        let position = self.wal.append(&record, &|form| catalog.words_of(form));
        self.intents.settle(&tokens);
        (outcomes, Some(position))
    }
}

/// Memory that observations use one after the other.
#[derive(Default)]
struct ObserveScratch {
    room: Vec<u64>,
    values: Vec<u64>,
}

/// A shard while a call is applied to it.
struct CallShard<'a> {
    shard: &'a mut CacheShard,
    stamp: u64,
    moment: &'a CallMoment,
    added: &'a mut WalAdditions,
}

impl CallShard<'_> {
    /// Brings a cell up to date, and looks at it: where its entry is, how far its image can be trusted, and its words, none
    /// where it has expired.
    fn look<'s>(
        &'s mut self,
        (id, hint): (CellId, usize),
        planned: &ClusterStatistic,
        room: &'s mut Vec<u64>,
    ) -> (usize, Quality, &'s [u64]) {
        let part = self.shard.part_of(id);
        let acknowledged = self.shard.parts.get(part).map_or(0, |part| part.acknowledged);
        let CallMoment { age, horizon } = *self.moment;
        let (place, entry, as_of) = self.shard.entry_at((id, hint), planned.known.form.id, part, self.stamp);
        let flight = entry.flight;
        let is_flying = self.shard.calls.flying(flight).is_some();
        let entry = self.shard.at_mut(place).expect("an entry is where it was found or made just now");
        if !is_flying {
            entry.fold(&planned.plan, acknowledged);
        }
        entry.expire_image(&planned.plan, horizon);
        let quality = age.quality(entry, as_of);
        let mut is_in_room = entry.show_in(&planned.plan, room);
        let words = if is_in_room { &room[..] } else { entry.image() };
        if horizon > i64::MIN && planned.plan.expires(words).0 <= horizon {
            let was_added_to = entry.pending.is_some() || entry.sent.is_some();
            entry.expire();
            if was_added_to {
                self.add((id, place), planned, CellOperation::Begin);
            }
            let entry = self.shard.at_mut(place).expect("it was there just now");
            is_in_room = entry.show_in(&planned.plan, room);
        }
        let words = match is_in_room {
            true => &room[..],
            false => self.shard.at_mut(place).map_or(&[][..], |entry| entry.image()),
        };
        (place, quality, words)
    }

    fn observe(
        &mut self,
        planned: &ClusterStatistic,
        (observation, hint): (&Observation, usize),
        (adds, origin): (bool, Origin),
        scratch: &mut ObserveScratch,
    ) -> ReadingHead {
        let Observation { key, add, .. } = observation;
        let time = kept(observation.time);
        let id = CellId::of(*key);
        let plan = &planned.plan;
        let ObserveScratch { room, values } = scratch;
        let mut told =
            ReadingHead { quality: Quality::Exact, times: None, fresh: false, columns: plan.columns() as u8 };
        values.clear();
        let (place, quality, words) = self.look((id, hint), planned, room);
        told.quality = quality;
        told.times = plan.times(words);
        let found = told.times.is_some();
        let as_of = add.as_of(time, told.times.map(|(_, last)| last));
        if found || planned.reads_unseen {
            values.resize(plan.reading(), 0);
            plan.read(words, as_of, values);
        }
        let is_usable = quality != Quality::Missing;
        if is_usable && found && planned.is_estimate {
            told.quality = Quality::Estimated;
        }
        let mut sightings = 0;
        if !found
            && is_usable
            && let Some(sketch) = &planned.sketch
        {
            sightings = self.sightings(sketch, id, time, adds && origin == Origin::Event);
            let admits = adds && origin.admits(sightings, planned.admit_after);
            // One that was seen more often would have a cell: a sketch that is full sees too much.
            sightings = sightings.min(planned.admit_after.saturating_sub(1));
            // Other nodes may have seen it since they last said so.
            told.quality = Quality::Estimated;
            if sightings > 0 {
                values.resize(plan.reading(), 0);
                plan.estimate(u64::from(sightings), add, values);
            }
            if !admits {
                told.fresh = matches!(add, Addition::Distinct { .. }) && planned.has_pairs && sightings == 0;
                return told;
            }
        }
        if let Addition::Distinct { pair } = add
            && planned.has_pairs
        {
            self.observe_pair(planned, ((id, place), CellId::pair(*key, *pair)), time, adds, room, &mut told);
            return told;
        }
        if !adds {
            return told;
        }
        let last = told.times.map(|(_, last)| last);
        let context = ObservationContext { time, last, values, origin, sightings };
        match plan.change(add, &context) {
            // What is given back or cleared depends on what is there, bucket by bucket.
            change @ (StatisticChange::GiveBack { .. } | StatisticChange::Clear(_)) => {
                let (_, _, words) = self.look((id, place), planned, room);
                if let Some(op) = taken_back(plan, words, &change) {
                    self.add((id, place), planned, op);
                }
            }
            change => {
                if let Some(op) = CellOperation::of(plan, change) {
                    self.add((id, place), planned, op);
                }
            }
        }
        told
    }

    /// Returns about how often a key without a cell was seen lately, and counts one more if it is seen now.
    fn sightings(&mut self, sketch: &Arc<SharedSketch>, id: CellId, time: Time, is_seen: bool) -> u32 {
        let at = self.shard.part_of(id);
        let Some(partition) = self.shard.parts.get(at).map(|part| part.partition) else { return 0 };
        match is_seen {
            true => self.shard.sightings.see((at, partition), sketch, id.mixed(), time),
            false => sketch.estimate(partition, id.mixed(), time),
        }
    }

    /// Looks whether a value of an owner is new, and has it counted if the observation adds.
    fn observe_pair(
        &mut self,
        planned: &ClusterStatistic,
        ((id, place), pair): ((CellId, usize), CellId),
        time: Time,
        adds: bool,
        room: &mut Vec<u64>,
        told: &mut ReadingHead,
    ) {
        let plan = &planned.plan;
        let (_, quality, words) = self.look((pair, NO_HINT), planned, room);
        let (seen, is_kept) = plan.fine(words, plan.bucket(time));
        told.fresh = !seen && is_kept;
        let is_usable = quality != Quality::Missing;
        if !is_usable || told.quality == Quality::Exact {
            told.quality = quality;
        }
        if !adds {
            return;
        }
        if told.fresh {
            let part = self.shard.part_of(pair);
            let basis = if is_usable { self.shard.link(pair, part) } else { ChainId::NONE };
            self.add((id, place), planned, CellOperation::Unique(time, event::Shingle(pair.shingle)));
            [id, pair].iter().for_each(|cell| self.shard.believe(*cell, part, plan, time, basis));
        } else {
            self.add((id, place), planned, CellOperation::Counters(time, CounterAmounts::default()));
            // Whoever has added it may not have it in the journal yet, and fail; this one is not to fail with it.
            if self.shard.get(pair).is_some_and(|entry| entry.pending.is_some()) {
                self.note(id, planned, &CellOperation::Unique(time, event::Shingle(pair.shingle)));
            }
        }
    }

    fn add(&mut self, (id, place): (CellId, usize), planned: &ClusterStatistic, op: CellOperation) {
        let at = self.shard.part_of(id);
        self.shard.add((id, place), at, &planned.plan, &op);
        self.note(id, planned, &op);
    }

    /// Has the journal say what is part of the next batch.
    fn note(&mut self, id: CellId, planned: &ClusterStatistic, op: &CellOperation) {
        if let Some(part) = self.shard.parts.get(self.shard.part_of(id)) {
            self.added.push((part.partition, part.number), id, planned.known.form.id, op);
        }
    }
}

/// The nearest time that the cluster can keep.
fn kept(time: Time) -> Time {
    time.clamp(Time(-TIME_MAX.0), TIME_MAX)
}

/// Returns what a change that goes by what is there adds to the counters of what was taken back: a cell that has seen as much of
/// each bucket. `None` if it is nothing.
fn taken_back(plan: &CellPlan, words: &[u64], change: &StatisticChange<'_>) -> Option<CellOperation> {
    let first = plan.first(words)?;
    let (mut after, mut more) = (words.to_vec(), Vec::new());
    plan.apply(&mut after, change);
    // Both have the same buckets: only of those that hold something is anything taken back.
    for (before, after) in plan.rows(words).iter().zip(&plan.rows(&after)) {
        let counts = (0u8..).zip(after.counts.iter().zip(&before.counts));
        let amounts = counts.map(|(counter, (after, before))| (counter, after.saturating_sub(*before)));
        let amounts: Vec<(u8, u64)> = amounts.filter(|(_, amount)| *amount > 0).collect();
        if !amounts.is_empty() {
            // Something was counted in that bucket, so this is a time in it and among those that the cell has seen.
            plan.add(&mut more, before.start.max(first), amounts);
        }
    }
    (!more.is_empty()).then_some(CellOperation::Words(more))
}
