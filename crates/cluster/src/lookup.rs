//! Cells that a call finds in memory, and those it has to read: see [`crate::reads`].

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use stats::Quality;

use crate::cache::{CacheEntry, CacheShard};
use crate::cell::{CellId, PlannedCell};
use crate::in_flight::InFlightCall;
use crate::partition::PartitionState;
use crate::remote::Partition;
use crate::sighting::{SketchLook, SketchRead};

/// The most cells that are read anew along with one that is waited for.
const ALONG_MAX: usize = 64;

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
        shard.calls.add(&self.flight);
        if let Some(entry) = shard.at_mut(cell.hint as usize) {
            entry.flight = self.flight.id();
            sketch = sketch.filter(|_| !entry.holds());
        }
        let Some(part) = shard.parts.get(part) else { return };
        let Some(planned) = self.part(part) else { return };
        planned.places.extend(sketch.map(|look| look.read(part.partition, cell.id.mixed())));
        planned.cells.push(cell);
    }

    /// Reads a cell anew that was to be, unless it was read meanwhile, or nobody has it any more.
    pub(crate) fn refresh(
        &mut self,
        shard: &mut CacheShard,
        (cell, part): (PlannedCell, usize),
        age: &ImageAge,
    ) {
        let Some(entry) = shard.get_mut_at(cell.id, cell.hint as usize) else { return };
        if entry.form != cell.form {
            return;
        }
        entry.is_aging = false;
        let (link, read_at, flight) = (entry.link, entry.read_at, entry.flight);
        if entry.image.is_none() || shard.calls.flying(flight).is_some() {
            return;
        }
        let Some(part) = shard.parts.get(part) else { return };
        if read_at >= age.oldest && part.chain.as_of(link, read_at) >= age.aging {
            return;
        }
        let Some(planned) = self.part(part) else { return };
        planned.cells.push(cell);
        shard.calls.add(&self.flight);
        if let Some(entry) = shard.get_mut_at(cell.id, cell.hint as usize) {
            entry.flight = self.flight.id();
        }
    }

    /// Reads those of a partition anew that are to be, unless somebody would wait for very many.
    fn take_along(&mut self, shard: &mut CacheShard, at: usize, age: &ImageAge) {
        let Some(part) = shard.parts.get_mut(at).filter(|part| part.aging.len() <= ALONG_MAX) else { return };
        let aging = std::mem::take(&mut part.aging);
        aging.into_iter().for_each(|cell| self.refresh(shard, (cell, at), age));
    }

    /// Asks only who has written last.
    fn check(&mut self, part: &mut PartitionState) {
        part.looking = Some(self.flight.clone());
        self.part(part);
    }
}

/// The times for which images that are to be read anew wait for others of their partition.
#[derive(Clone, Copy)]
pub(crate) struct GatheringTimes {
    /// The age until which those wait that are not old yet.
    pub(crate) fresh_for: Duration,
    /// The time for which those wait that lag already. Those that are old and do not lag yet do not wait.
    pub(crate) lagging_for: Duration,
}

impl GatheringTimes {
    /// The time until which an image waits that is what the cluster had at a time.
    fn until(&self, as_of: Duration, age: &ImageAge) -> Duration {
        if as_of >= age.soft {
            as_of + self.fresh_for
        } else if as_of >= age.exact {
            age.now
        } else {
            age.now + self.lagging_for
        }
    }
}

/// The ages that images may have.
#[derive(Clone, Copy)]
pub(crate) struct ImageAge {
    /// The present.
    pub(crate) now: Duration,
    /// Images that were asked for before this, and that others may have changed, are to be read anew, with others of their
    /// partition.
    pub(crate) aging: Duration,
    /// The times for which they wait; `None` where each is read by itself at once, as none is to be answered for long enough.
    pub(crate) gathering: Option<GatheringTimes>,
    /// Images that were asked for before this are old: they are read anew while they are answered.
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
    /// Looks up one cell of a form, which may have been at a place, and where it is read the sketch before it. Answers where its
    /// entry is.
    pub(crate) fn look(
        &mut self,
        shard: &mut CacheShard,
        ((id, hint), form): ((CellId, usize), u32),
        sketch: Option<SketchLook<'_>>,
        age: &ImageAge,
        stamp: u64,
    ) -> u32 {
        let part = shard.part_of(id);
        let (place, entry, as_of) = shard.entry_at((id, hint), form, part, stamp);
        let hint = place as u32;
        let (is_usable, is_recent) = (age.is_usable(entry, as_of), entry.read_at >= age.oldest);
        if is_usable && is_recent && as_of >= age.aging {
            self.hits += 1;
            return hint;
        }
        let is_fresh = is_recent && as_of >= age.soft;
        let (flight, link) = (entry.flight, entry.link);
        let is_sketched = sketch.is_some() && !entry.holds();
        let flying = shard.calls.flying(flight);
        let cell = (PlannedCell { id, form, hint }, part);
        if is_usable && is_recent && shard.goes_on(link, part) {
            if is_fresh {
                self.hits += 1;
                return hint;
            }
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
            match is_fresh {
                true => self.hits += 1,
                false => self.soft_hits += 1,
            }
            match age.gathering.filter(|_| !is_sketched) {
                _ if flying.is_some() => {}
                Some(gathering) => shard.age(cell.0, part, gathering.until(as_of, age)),
                None if is_fresh => {}
                None => self.old.push(shard, cell, sketch),
            }
        } else {
            self.misses += 1;
            match flying {
                // Consecutive ones are often of one call.
                Some(flight) if Arc::ptr_eq(flight, &self.missing.flight) => {}
                Some(flight) => {
                    if !self.flights.last().is_some_and(|last| Arc::ptr_eq(last, flight)) {
                        self.flights.push(flight.clone());
                    }
                }
                None => {
                    self.missing.push(shard, cell, sketch);
                    self.missing.take_along(shard, part, age);
                }
            }
        }
        hint
    }
}
