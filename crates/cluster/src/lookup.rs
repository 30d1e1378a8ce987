//! Cells that a call finds in memory, and those it has to read: see [`crate::reads`].

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use stats::Quality;

use crate::cache::{CacheEntry, CacheShard};
use crate::cell::CellId;
use crate::chain::ChainId;
use crate::in_flight::InFlightCall;
use crate::partition::PartitionState;
use crate::remote::Partition;
use crate::sighting::{SketchLook, SketchRead};

/// Cells that one call is to read.
#[derive(Default)]
pub(crate) struct PlannedReads {
    pub(crate) flight: Arc<InFlightCall>,
    pub(crate) cells: BTreeMap<Partition, Vec<(CellId, u32)>>,
    /// The places of those that have no cell, as far as is known, and stand behind a sketch.
    pub(crate) places: BTreeMap<Partition, Vec<SketchRead>>,
    /// The last batch of each partition that the cluster had acknowledged before.
    pub(crate) acknowledged: BTreeMap<Partition, u64>,
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
    /// Images that were asked for before this are said to lag: nobody is about to say who has written since.
    pub(crate) exact: Duration,
    /// Images that were asked for before this are not answered.
    pub(crate) hard: Duration,
    /// Images that were asked for before this are read anew even if nobody has changed them.
    pub(crate) oldest: Duration,
    /// The time by which a write must be sent for what its answer says not to be asked for.
    pub(crate) answered_by: Duration,
}

impl ImageAge {
    /// Returns true if an image is answered that is what the cluster had at a time.
    pub(crate) fn is_usable(&self, entry: &CacheEntry, as_of: Duration) -> bool {
        entry.image.is_some() && as_of >= self.hard
    }

    /// Returns the quality of what an image says that is what the cluster had at a time.
    pub(crate) fn quality(&self, entry: &CacheEntry, as_of: Duration) -> Quality {
        if !self.is_usable(entry, as_of) {
            Quality::Missing
        } else if as_of < self.exact {
            Quality::Lagging
        } else {
            Quality::Exact
        }
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
