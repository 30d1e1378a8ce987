//! Sightings of admission sketches, on their way to the other nodes.
//!
//! ```text
//! observe ─► the node's sketch counts ─► queue of the partition: place, half
//! flush   ─► summed, batch `number` ─► RemoteCluster::sight ─► what each place has from all nodes ─► the node's sketch is raised
//! read    ─► with a cell that is not known the counters of its place ─► the node's sketch is raised
//! ```
//!
//! Sketches have a shard for each partition, and the cluster keeps counters of the same places: so a place is counted in one
//! key of the partition, and a place that many keys share is no other one than in memory. The cluster counts each half of a
//! life by itself; what counts now is the sum of two of them.
//!
//! Sightings are not in the journal. A crash loses those that were not flushed; a batch whose answer was lost is sent again
//! with its number, and counts once. The queue is bounded: while the cluster takes nothing, what is beyond is counted by
//! this node alone.

use std::sync::Arc;
use std::time::Duration;

use event::Time;
use stats::{Admission, Sketch, SketchOptions, SketchPlace};

use crate::remote::{HalfSightings, Partition, PartitionCount, SightingBatch, SightingCounts, SketchHalf};

/// Places of a batch: a server does nothing else meanwhile.
const BATCH_PLACES: usize = 256;
/// Places that wait in a node, of all partitions.
const WAITING_MAX: usize = 1 << 20;

/// A sketch whose counters nodes share, with a shard for each partition.
pub(crate) struct SharedSketch {
    pub(crate) counters: Sketch,
    /// The name of any half.
    name: SketchHalf,
}

impl SharedSketch {
    pub(crate) fn new(admit: &Admission, partitions: PartitionCount) -> SharedSketch {
        let shards = usize::from(partitions.count());
        let bytes = admit.bytes.next_multiple_of(Sketch::LINE_BYTES * shards);
        let counters = Sketch::new(SketchOptions { shards, bytes, rotate: admit.rotate });
        let name = SketchHalf {
            sketch: admit.sketch,
            lines: counters.lines_a_shard() as u32,
            span: counters.half_life(),
            number: 0,
        };
        SharedSketch { counters, name }
    }

    /// Returns the estimate of a key's sightings as of a time.
    pub(crate) fn estimate(&self, partition: Partition, hash: u64, time: Time) -> u32 {
        self.counters.estimate(usize::from(partition.0), hash, time)
    }

    fn half(&self, number: i64) -> SketchHalf {
        SketchHalf { number, ..self.name }
    }
}

/// A look at the sketch before a cell.
#[derive(Clone, Copy)]
pub(crate) struct SketchLook<'a> {
    pub(crate) sketch: &'a Arc<SharedSketch>,
    pub(crate) time: Time,
    /// True if a sighting follows.
    pub(crate) adds: bool,
}

impl SketchLook<'_> {
    /// Returns what the cluster is asked for.
    pub(crate) fn read(self, partition: Partition, hash: u64) -> SketchRead {
        let SketchLook { sketch, time, adds } = self;
        let shard = usize::from(partition.0);
        let number = match adds {
            true => sketch.counters.advance(shard, time),
            false => sketch.counters.half(shard, time),
        };
        SketchRead { sketch: sketch.clone(), half: sketch.half(number), place: sketch.counters.place(hash) }
    }
}

/// A place whose counters are read.
pub(crate) struct SketchRead {
    sketch: Arc<SharedSketch>,
    half: SketchHalf,
    place: SketchPlace,
}

impl SketchRead {
    /// Returns what the cluster is asked for, as it names it.
    pub(crate) fn name(&self) -> (SketchHalf, SketchPlace) {
        (self.half, self.place)
    }

    /// Takes in what the cluster has.
    pub(crate) fn raise(&self, partition: Partition, counts: SightingCounts) {
        self.sketch.counters.raise(usize::from(partition.0), self.place, self.half.number, counts);
    }
}

/// The sightings of the partitions of a shard that other nodes do not know of yet.
pub(crate) struct SightingQueue {
    parts: Vec<PartitionQueue>,
    /// Places that wait, or are on their way.
    length: usize,
    length_max: usize,
    due: Duration,
    /// Sightings that there was no room for.
    pub(crate) dropped: u64,
}

#[derive(Default)]
struct PartitionQueue {
    waiting: Vec<QueuedHalf>,
    /// The batch that was cut last, until it is acknowledged.
    sent: Option<SentSightings>,
    is_busy: bool,
    /// The number of the batch that was cut last.
    number: u64,
    attempts: u32,
    not_before: Duration,
}

/// Sightings in one half of the life of one sketch, a place for each.
struct QueuedHalf {
    sketch: Arc<SharedSketch>,
    number: i64,
    places: Vec<SketchPlace>,
}

impl QueuedHalf {
    /// Takes so many of them out, and counts them.
    fn take(&mut self, most: usize) -> HalfSightings {
        let mut taken = self.places.split_off(self.places.len().saturating_sub(most));
        taken.sort_unstable();
        let count = |same: &[SketchPlace]| {
            let count = (same.len() as u32).min(Sketch::COUNT_MAX);
            same.first().map(|place| (*place, count))
        };
        let places = taken.chunk_by(|one, other| one == other).filter_map(count).collect();
        HalfSightings { half: self.sketch.half(self.number), places }
    }
}

/// A batch of sightings, with the sketches that saw them.
#[derive(Clone)]
pub(crate) struct SentSightings {
    pub(crate) batch: SightingBatch,
    sketches: Arc<[Arc<SharedSketch>]>,
    /// The number of sightings, counted one by one.
    length: usize,
}

impl SentSightings {
    /// Takes in what the cluster has now.
    fn raise(&self, counts: &[SightingCounts]) {
        let halves = self.batch.halves.iter().zip(self.sketches.iter());
        let places = halves.flat_map(|(HalfSightings { half, places }, sketch)| {
            places.iter().map(move |(place, _)| (sketch, half.number, *place))
        });
        let shard = usize::from(self.batch.partition.0);
        for ((sketch, number, place), counts) in places.zip(counts) {
            sketch.counters.raise(shard, place, number, *counts);
        }
    }
}

impl SightingQueue {
    /// Queues for the partitions of a shard, one of `shards`.
    pub(crate) fn new(partitions: usize, shards: usize, due: Duration) -> SightingQueue {
        SightingQueue {
            parts: (0..partitions).map(|_| PartitionQueue::default()).collect(),
            length: 0,
            length_max: WAITING_MAX / shards.max(1),
            due,
            dropped: 0,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Counts a sighting in a sketch, and puts it into the queue of its partition, which is at a place of its shard. Answers
    /// the estimate from before it.
    pub(crate) fn see(
        &mut self,
        (at, partition): (usize, Partition),
        sketch: &Arc<SharedSketch>,
        hash: u64,
        time: Time,
    ) -> u32 {
        let shard = usize::from(partition.0);
        let seen = sketch.counters.see(shard, hash, time);
        let Some(part) = self.parts.get_mut(at).filter(|_| self.length < self.length_max) else {
            self.dropped += 1;
            return seen;
        };
        self.length += 1;
        let (number, place) = (sketch.counters.half(shard, time), sketch.counters.place(hash));
        let same = |half: &&mut QueuedHalf| half.number == number && Arc::ptr_eq(&half.sketch, sketch);
        match part.waiting.iter_mut().find(same) {
            Some(half) => half.places.push(place),
            None => part.waiting.push(QueuedHalf { sketch: sketch.clone(), number, places: vec![place] }),
        }
        seen
    }

    /// Cuts what is due, and returns what is to be sent now, with the places of the partitions. `first` is that of the first.
    pub(crate) fn collect(
        &mut self,
        first: Partition,
        owner: [u8; 16],
        now: Duration,
        interval: Duration,
        is_draining: bool,
    ) -> Vec<(usize, SentSightings)> {
        let is_due = is_draining || now >= self.due;
        let mut outgoing = Vec::new();
        let mut has_more = false;
        for (at, part) in self.parts.iter_mut().enumerate() {
            if part.is_busy || now < part.not_before {
                continue;
            }
            if part.sent.is_none() && is_due && !part.waiting.is_empty() {
                part.cut(Partition(first.0 + at as u16), owner);
                has_more |= !part.waiting.is_empty();
            }
            if let Some(sent) = &part.sent {
                part.is_busy = true;
                outgoing.push((at, sent.clone()));
            }
        }
        while is_due && !has_more && self.due <= now {
            self.due += interval;
        }
        outgoing
    }

    /// Takes in what became of a batch; the same batch is sent again after `again` of so many failures.
    pub(crate) fn answer(
        &mut self,
        at: usize,
        counts: Option<&[SightingCounts]>,
        now: Duration,
        again: impl FnOnce(u32) -> Duration,
    ) {
        let Some(part) = self.parts.get_mut(at) else { return };
        part.is_busy = false;
        let Some(counts) = counts else {
            part.not_before = now + again(part.attempts);
            part.attempts = part.attempts.saturating_add(1);
            return;
        };
        part.attempts = 0;
        if let Some(sent) = part.sent.take() {
            self.length -= sent.length;
            sent.raise(counts);
        }
    }
}

impl PartitionQueue {
    /// Makes what waits a batch, as far as it has room.
    fn cut(&mut self, partition: Partition, owner: [u8; 16]) {
        let (mut halves, mut sketches, mut length) = (Vec::new(), Vec::new(), 0);
        while length < BATCH_PLACES
            && let Some(mut half) = self.waiting.pop()
        {
            let before = half.places.len();
            halves.push(half.take(BATCH_PLACES - length));
            sketches.push(half.sketch.clone());
            length += before - half.places.len();
            if !half.places.is_empty() {
                self.waiting.push(half);
            }
        }
        self.number += 1;
        let batch = SightingBatch { partition, owner, number: self.number, halves: halves.into() };
        self.sent = Some(SentSightings { batch, sketches: sketches.into(), length });
    }
}

#[cfg(test)]
mod tests {
    use event::Span;

    use super::*;

    #[test]
    fn a_queue_is_bounded_and_what_is_sent_is_cut_in_pieces() {
        let partitions = PartitionCount::new(4).unwrap();
        let admit = Admission { sketch: 1, after: 9, rotate: Span::days(1), bytes: 1 << 20 };
        let sketch = Arc::new(SharedSketch::new(&admit, partitions));
        let (owner, interval) = ([0; 16], Duration::from_secs(1));
        let room = 2 * BATCH_PLACES + 100;
        let mut queue = SightingQueue::new(2, WAITING_MAX / room, Duration::ZERO);
        let room = WAITING_MAX / (WAITING_MAX / room);
        let see = |queue: &mut SightingQueue, number: u64| {
            let hash = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            queue.see((1, Partition(3)), &sketch, hash, Time(number as i64 % 2 * Span::hours(12).0));
        };
        (0..room as u64 + 5).for_each(|number| see(&mut queue, number / 3));
        assert_eq!(queue.dropped, 5);
        let (mut now, mut sightings, mut batches) = (Duration::ZERO, 0, 0);
        while !queue.is_empty() {
            let outgoing = queue.collect(Partition(2), owner, now, interval, false);
            let [(1, sent)] = &outgoing[..] else { panic!("one batch at a time") };
            assert!(queue.collect(Partition(2), owner, now, interval, true).is_empty(), "it is under way");
            // Nothing is heard of it at first.
            queue.answer(1, None, now, |attempts| Duration::from_secs(u64::from(attempts) + 5));
            assert!(queue.collect(Partition(2), owner, now, interval, false).is_empty());
            now += Duration::from_secs(5);
            let again = queue.collect(Partition(2), owner, now, interval, false);
            assert_eq!((again[0].1.batch.number, again.len()), (sent.batch.number, 1));
            let places = || sent.batch.halves.iter().flat_map(|half| &half.places);
            assert_eq!(sent.batch.partition, Partition(3));
            sightings += places().map(|(_, count)| count).sum::<u32>() as usize;
            let counts: Vec<SightingCounts> = places().map(|_| [7, 0]).collect();
            queue.answer(1, Some(&counts), now, |_| Duration::ZERO);
            now += interval;
            batches += 1;
        }
        assert_eq!((sightings, batches), (room, 3));
        assert!(sketch.estimate(Partition(3), 0, Time(0)) >= 7, "raised to what all have seen");
    }
}
