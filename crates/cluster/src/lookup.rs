//! Cells that a call finds in memory, and those it has to read: see [`crate::reads`].

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use stats::Quality;

use crate::cache::{CacheEntry, CacheShard};
use crate::cell::CellId;
use crate::cell_map::NO_HINT;
use crate::in_flight::InFlightCall;
use crate::partition::PartitionState;
use crate::remote::Partition;
use crate::sighting::{SketchLook, SketchRead};

/// Cells that one call is to read.
#[derive(Default)]
pub(crate) struct PlannedReads {
    pub(crate) flight: Arc<InFlightCall>,
    /// The reads by partition: calls look at one after the other.
    pub(crate) parts: Vec<PlannedPartition>,
    /// An image lacked what this node had seen acknowledged.
    pub(crate) was_void: Arc<AtomicBool>,
}

/// Cells of a partition that one call is to read; if there are none, only who has written last.
pub(crate) struct PlannedPartition {
    pub(crate) partition: Partition,
    pub(crate) cells: Vec<PlannedCell>,
    /// The places of those that have no cell, as far as is known, and stand behind a sketch.
    pub(crate) places: Vec<SketchRead>,
    /// The last batch that the cluster had acknowledged before.
    pub(crate) acknowledged: u64,
}

/// A cell that is to be read, and where its entry was.
#[derive(Clone, Copy)]
pub(crate) struct PlannedCell {
    pub(crate) id: CellId,
    pub(crate) form: u32,
    pub(crate) hint: u32,
}

impl PlannedReads {
    pub(crate) fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    fn part(&mut self, part: &PartitionState) -> Option<&mut PlannedPartition> {
        if self.parts.last().is_none_or(|last| last.partition != part.partition) {
            self.parts.push(PlannedPartition {
                partition: part.partition,
                cells: Vec::new(),
                places: Vec::new(),
                acknowledged: part.acknowledged,
            });
        }
        self.parts.last_mut()
    }

    fn push(
        &mut self,
        shard: &mut CacheShard,
        (cell, part): (PlannedCell, usize),
        sketch: Option<SketchLook<'_>>,
    ) {
        let mut sketch = sketch;
        if let Some(entry) = shard.at_mut(cell.hint as usize) {
            entry.flight = Some(self.flight.clone());
            sketch = sketch.filter(|_| !entry.holds());
        }
        let Some(part) = shard.parts.get(part) else { return };
        let Some(planned) = self.part(part) else { return };
        planned.places.extend(sketch.map(|look| look.read(part.partition, cell.id.mixed())));
        planned.cells.push(cell);
    }

    /// Asks only who has written last.
    fn check(&mut self, part: &mut PartitionState) {
        part.looking = Some(self.flight.clone());
        self.part(part);
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
    /// Looks up one cell, and where it is read the sketch before it. Answers where its entry is.
    pub(crate) fn look(
        &mut self,
        shard: &mut CacheShard,
        (id, form): (CellId, u32),
        sketch: Option<SketchLook<'_>>,
        age: &ImageAge,
        stamp: u64,
    ) -> u32 {
        let part = shard.part_of(id);
        let (place, entry, as_of) = shard.entry_at((id, NO_HINT), form, part, stamp);
        let hint = place as u32;
        let (is_usable, is_recent) = (age.is_usable(entry, as_of), entry.read_at >= age.oldest);
        if is_usable && is_recent && as_of >= age.soft {
            self.hits += 1;
            return hint;
        }
        let (flying, link) = (entry.flying().cloned(), entry.link);
        let cell = (PlannedCell { id, form, hint }, part);
        if is_usable && is_recent && shard.goes_on(link, part) {
            let Some(part) = shard.parts.get_mut(part) else { return hint };
            if part.answers_by(age.answered_by) {
                self.hits += 1;
                return hint;
            }
            self.soft_hits += 1;
            if part.looking.as_ref().is_none_or(|flight| flight.has_ended()) {
                self.old.check(part);
            }
        } else if is_usable {
            self.soft_hits += 1;
            if flying.is_none() {
                self.old.push(shard, cell, sketch);
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
                None => self.missing.push(shard, cell, sketch),
            }
        }
        hint
    }
}
