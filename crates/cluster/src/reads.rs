//! Images come from the cluster: what is missing is asked for at once, what is old while older answers go out. Of
//! images whose partition may not have changed only that is asked.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use event::Key;

use crate::cache::{CacheEntry, CacheShard, CellId, InFlightCall, InFlightGuard};
use crate::catalog::ClusterCatalog;
use crate::chain::ChainId;
use crate::cluster::ClusterCore;
use crate::flush::PartitionState;
use crate::lock;
use crate::remote::{CellImage, Partition, PartitionRead, RemoteCell};
use crate::sighting::{SketchLook, SketchRead};

/// The longest that an image is kept which nobody has changed. Servers let go of what is not used by a clock of their own,
/// and people change cells by hand.
const OLDEST: Duration = Duration::from_secs(600);

/// Cells that one call is to read.
#[derive(Default)]
pub(crate) struct PlannedReads {
    pub(crate) flight: Arc<InFlightCall>,
    cells: BTreeMap<Partition, Vec<(CellId, u32)>>,
    /// The places of those that have no cell, as far as is known, and stand behind a sketch.
    places: BTreeMap<Partition, Vec<SketchRead>>,
    /// The last batch of each partition that the cluster had acknowledged before.
    acknowledged: BTreeMap<Partition, u64>,
    /// An image lacked what this node had seen acknowledged.
    pub(crate) was_void: Arc<AtomicBool>,
}

impl PlannedReads {
    pub(crate) fn is_empty(&self) -> bool {
        self.cells.is_empty()
    }

    fn push(&mut self, shard: &mut CacheShard, id: CellId, form: u32, sketch: Option<SketchLook<'_>>) {
        let mut sketch = sketch;
        if let Some(entry) = shard.get_mut(id) {
            entry.flight = Some(self.flight.clone());
            sketch = sketch.filter(|_| !entry.holds());
        }
        let Some(part) = shard.parts.get(shard.part_of(id)) else { return };
        if let Some(look) = sketch {
            let read = look.read(part.partition, id.mixed());
            self.places.entry(part.partition).or_default().push(read);
        }
        self.acknowledged.insert(part.partition, part.acknowledged);
        self.cells.entry(part.partition).or_default().push((id, form));
    }

    /// Asks only who has written last.
    fn check(&mut self, part: &mut PartitionState) {
        part.looking = Some(self.flight.clone());
        self.acknowledged.insert(part.partition, part.acknowledged);
        self.cells.entry(part.partition).or_default();
    }
}

/// The ages that images may have.
#[derive(Clone, Copy)]
pub(crate) struct ImageAge {
    /// Images that were asked for before this are read anew while they are answered.
    pub(crate) soft: Duration,
    /// Images that were asked for before this are not answered.
    pub(crate) hard: Duration,
    /// Images that were asked for before this are read anew even if nobody has changed them.
    oldest: Duration,
    /// The time by which a write must be sent for what its answer says not to be asked for.
    answered_by: Duration,
}

impl ImageAge {
    /// Returns true if an image is answered that is what the cluster had at a time.
    pub(crate) fn is_usable(&self, entry: &CacheEntry, as_of: Duration) -> bool {
        entry.image.is_some() && as_of >= self.hard
    }
}

/// The result of a lookup.
#[derive(Default)]
pub(crate) struct CacheLookup {
    /// To be read before there is an answer.
    pub(crate) missing: PlannedReads,
    /// To be read meanwhile.
    pub(crate) old: PlannedReads,
    /// Others are reading what is to be waited for.
    pub(crate) flights: Vec<Arc<InFlightCall>>,
    pub(crate) hits: u64,
    pub(crate) soft_hits: u64,
    pub(crate) misses: u64,
}

impl CacheLookup {
    /// Looks up one cell, and where it is read the sketch before it.
    pub(crate) fn look(
        &mut self,
        shard: &mut CacheShard,
        (id, form): (CellId, u32),
        sketch: Option<SketchLook<'_>>,
        age: &ImageAge,
        stamp: u64,
    ) {
        let part = shard.part_of(id);
        let (entry, as_of) = shard.entry(id, form, part, stamp);
        let (is_usable, is_recent) = (age.is_usable(entry, as_of), entry.read_at >= age.oldest);
        if is_usable && is_recent && as_of >= age.soft {
            self.hits += 1;
            return;
        }
        let flying = entry.flying().cloned();
        if is_usable && is_recent && shard.link(id, part) != ChainId::NONE {
            let Some(part) = shard.parts.get_mut(part) else { return };
            if part.answers_by(age.answered_by) {
                self.hits += 1;
                return;
            }
            self.soft_hits += 1;
            if part.looking.as_ref().is_none_or(|flight| flight.has_ended()) {
                self.old.check(part);
            }
        } else if is_usable {
            self.soft_hits += 1;
            if flying.is_none() {
                self.old.push(shard, id, form, sketch);
            }
        } else {
            self.misses += 1;
            match flying {
                // Consecutive ones are often of one call.
                Some(flight) if Arc::ptr_eq(&flight, &self.missing.flight) => {}
                Some(flight) => {
                    if !self.flights.last().is_some_and(|last| Arc::ptr_eq(last, &flight)) {
                        self.flights.push(flight);
                    }
                }
                None => self.missing.push(shard, id, form, sketch),
            }
        }
    }
}

impl ClusterCore {
    pub(crate) fn age(&self, now: Duration) -> ImageAge {
        ImageAge {
            soft: now.saturating_sub(self.settings.fresh_for),
            hard: now.saturating_sub(self.settings.stale_for),
            oldest: now.saturating_sub(OLDEST.max(self.settings.stale_for)),
            answered_by: now + 2 * self.pause(),
        }
    }

    /// Reads what a lookup wants; answers when what is needed is there, or cannot be had. True if some images came that
    /// were older than what is known, and another try is worth it.
    pub(crate) async fn read(
        self: &Arc<ClusterCore>,
        lookup: CacheLookup,
        world: &Arc<ClusterCatalog>,
    ) -> bool {
        let CacheLookup { missing, old, flights, .. } = lookup;
        let (flight, was_void) = (missing.flight.clone(), missing.was_void.clone());
        let is_needed = !missing.is_empty();
        for wanted in [missing, old] {
            if !wanted.is_empty() {
                let (inner, world) = (self.clone(), world.clone());
                let landing = InFlightGuard(wanted.flight.clone());
                self.environment.spawn(Box::pin(async move {
                    inner.fetch(wanted, &world).await;
                    drop(landing);
                }));
            }
        }
        if is_needed {
            flight.wait().await;
        }
        for flight in &flights {
            flight.wait().await;
        }
        was_void.load(Ordering::Acquire)
    }

    async fn fetch(&self, wanted: PlannedReads, world: &ClusterCatalog) {
        let PlannedReads { cells, mut places, acknowledged, was_void, .. } = wanted;
        let asked = self.environment.now();
        let read = |(partition, ids): (&Partition, &Vec<(CellId, u32)>)| {
            let cell = |(id, form): &(CellId, u32)| {
                Some(RemoteCell { key: id.key(), form: world.forms.get(form)?.form.clone() })
            };
            let places = places.get(partition).into_iter().flatten().map(SketchRead::name).collect();
            PartitionRead { partition: *partition, cells: ids.iter().filter_map(cell).collect(), places }
        };
        let reads: Vec<PartitionRead> = cells.iter().map(read).collect();
        let count: u64 = reads.iter().map(|read| read.cells.len() as u64).sum();
        let checks = reads.iter().filter(|read| read.cells.is_empty()).count() as u64;
        self.counts.reads.fetch_add(count, Ordering::Relaxed);
        self.counts.checks.fetch_add(checks, Ordering::Relaxed);
        self.counts.read_calls.fetch_add(1, Ordering::Relaxed);
        let results = self.remote.read(reads, self.settings.within).await;
        for ((partition, ids), result) in cells.into_iter().zip(results) {
            let found = match result {
                Ok(found) => found,
                Err(failure) => {
                    self.counts.read_failures.fetch_add(1, Ordering::Relaxed);
                    tracing::debug!(partition = partition.0, %failure, "cells were not read");
                    continue;
                }
            };
            self.met(partition, found.number);
            let (shard, at) = self.place(partition);
            let mut shard = lock(&self.shards[shard]);
            let places = places.remove(&partition).unwrap_or_default();
            places.iter().zip(found.sightings).for_each(|(place, counts)| place.raise(partition, counts));
            let before = acknowledged.get(&partition).copied().unwrap_or(0);
            if found.number < before {
                was_void.store(true, Ordering::Release);
                if let Some(part) = shard.parts.get_mut(at) {
                    part.falls_behind(found.number);
                }
                continue;
            }
            let link = shard.parts.get_mut(at).map_or(ChainId::NONE, |part| {
                part.chain.saw(found.writer, found.number, part.acknowledged, asked)
            });
            for ((id, form), image) in ids.into_iter().zip(found.images) {
                let words = match image.map(|image| restore(world, form, &image)) {
                    None => Vec::new(),
                    Some(Ok(words)) => words,
                    Some(Err(why)) => {
                        self.counts.unsound.fetch_add(1, Ordering::Relaxed);
                        tracing::error!(key = ?id.key(), why, "a cell of the cluster is not one of its definition");
                        continue;
                    }
                };
                // Whoever takes from an exact limit writes no batch, so such an image is as old as its reading.
                let Key { space, kind, .. } = id.key();
                let is_limit = world.planned(space, kind).is_ok_and(|planned| planned.is_limit);
                let link = if is_limit { ChainId::NONE } else { link };
                if !shard.arrive(id, form, found.number, words, (asked, link)) {
                    was_void.store(true, Ordering::Release);
                }
            }
        }
    }
}

fn restore(world: &ClusterCatalog, form: u32, image: &CellImage) -> Result<Vec<u64>, &'static str> {
    let known = world.forms.get(&form).ok_or("it has no definition")?;
    known.plan.restore(image.first, image.last, &image.content)
}
