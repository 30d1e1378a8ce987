//! Admission sketches, kept in the log as images of their shards: written a few at a time while the ledger is maintained, all of
//! them when it is closed and with a snapshot. A crash loses the sightings since a shard was written, and no admitted key; it
//! is noticed, and what is new to the sketches is then called estimated for half of their life.
//!
//! Behind a directory that is full stands one more for keys of all kinds, see [`OverflowSketch`].

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use event::{Shingle, Span, Time};
use hashbrown::HashSet;
use store::{KeyHash, RecordKey, Store, StoreError};

use super::compiled_catalog::{CompiledCatalog, SKETCHES};
use crate::ledger::LedgerError;
use crate::sketch::{Sketch, SketchOptions};

/// Words of an image that one record holds.
const PART_WORDS: usize = 32 << 10;
/// Words that are written as one group, about.
const GROUP_WORDS: usize = 512 << 10;
/// In so many turns every shard that changes is written.
pub(super) const TURNS: usize = 60;

/// Each sketch once, with its number.
fn each(catalog: &CompiledCatalog) -> impl Iterator<Item = (u32, &Arc<Sketch>)> {
    let mut seen = HashSet::new();
    catalog.plans.iter().filter_map(move |planned| {
        let (sketch, admit) = (planned.sketch.as_ref()?, planned.statistic.admit?);
        seen.insert(admit.sketch).then_some((admit.sketch, sketch))
    })
}

/// Notes that other keys were seen elsewhere, whose sightings the sketches do not have.
pub(super) fn forget(catalog: &CompiledCatalog) {
    each(catalog).for_each(|(_, sketch)| sketch.forget());
}

/// Forgets the sightings of keys of these shingles.
pub(super) fn forget_shingles(catalog: &CompiledCatalog, shingles: &std::collections::HashSet<Shingle>) {
    for planned in &catalog.plans {
        let Some(sketch) = &planned.sketch else { continue };
        for shingle in shingles {
            let (shard, hash) = KeyHash::of(planned.space.0, planned.kind.0, shingle.0);
            sketch.forget_hash(hash.part(shard), hash.bits());
        }
    }
}

pub(super) fn memory_bytes(catalog: &CompiledCatalog) -> u64 {
    each(catalog).map(|(_, sketch)| sketch.memory_bytes() as u64).sum()
}

/// Writes the images of shards that have changed, of one in [`TURNS`] or of all.
pub(super) fn keep(catalog: &CompiledCatalog, store: &Store, turn: Option<usize>) -> Result<(), LedgerError> {
    let (first, step) = turn.map_or((0, 1), |turn| (turn % TURNS, TURNS));
    for (of, sketch) in each(catalog) {
        let mut shards = (first..sketch.shards()).step_by(step).peekable();
        while shards.peek().is_some() {
            let (mut images, mut written, mut words) = (Vec::new(), Vec::new(), 0);
            while words < GROUP_WORDS
                && let Some(shard) = shards.next()
            {
                let Some(image) = sketch.image(shard) else { continue };
                words += image.len();
                written.push(shard);
                let parts = image.chunks(PART_WORDS).zip(0..);
                images.extend(parts.map(|(part, number)| (key(of, shard, number), 0, part.to_vec())));
            }
            if let Err(error) = store.put(&images, i64::MAX) {
                written.into_iter().for_each(|shard| sketch.set_changed(shard));
                return Err(error.into());
            }
        }
    }
    Ok(())
}

/// Puts what was kept into the sketches. What is missing since a crash, or was never there, they know from then on; of a
/// ledger that is new nothing is missing.
pub(super) fn restore(catalog: &CompiledCatalog, store: &Store, is_new: bool) -> Result<(), LedgerError> {
    if is_new || each(catalog).next().is_none() {
        return Ok(());
    }
    let was_closed = matches!(get(store, run())?, Some(words) if words.first() == Some(&CLOSED));
    for (of, sketch) in each(catalog) {
        sketch.forget();
        for shard in 0..sketch.shards() {
            let mut image = Vec::new();
            for part in 0.. {
                let Some(mut words) = get(store, key(of, shard, part))? else { break };
                image.append(&mut words);
                if image.len() < (part as usize + 1) * PART_WORDS {
                    break;
                }
            }
            if !image.is_empty() {
                sketch.restore(shard, &image);
            }
        }
        if !was_closed {
            sketch.forget();
        }
    }
    Ok(())
}

/// The marks of a run that is not over, and of one that has written all.
const OPEN: u64 = 1;
const CLOSED: u64 = 2;

/// Notes, durably, that sightings are made that are not written, or that all of them are.
pub(super) fn note(catalog: &CompiledCatalog, store: &Store, is_closed: bool) -> Result<(), LedgerError> {
    if each(catalog).next().is_none() {
        return Ok(());
    }
    let word = if is_closed { CLOSED } else { OPEN };
    Ok(store.put(&[(run(), 0, vec![word])], i64::MAX)?)
}

fn get(store: &Store, key: RecordKey) -> Result<Option<Vec<u64>>, LedgerError> {
    match store.get(key) {
        Ok(found) => Ok(found.map(|(_, words)| words)),
        Err(StoreError::Damaged { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn key(sketch: u32, shard: usize, part: u16) -> RecordKey {
    let (space, kind) = SKETCHES;
    let place = (shard as u64) << 16 | u64::from(part);
    RecordKey { space, kind, shingle: u64::from(sketch) << 32 | place }
}

/// The key of the image that says whether the last run was closed.
fn run() -> RecordKey {
    let (space, kind) = SKETCHES;
    RecordKey { space, kind, shingle: u64::MAX }
}

/// The sketch that stands before cells once the directory of keys is as large as it may be: a sketch for keys of all kinds. It is made
/// when it is first needed.
#[derive(Default)]
pub(super) struct OverflowSketch {
    bytes: usize,
    sketch: OnceLock<Sketch>,
    /// Observations that were answered by it.
    pub(super) answered: AtomicU64,
}

impl OverflowSketch {
    /// The longest time for which a sighting counts.
    const ROTATE: Span = Span::hours(6);
    /// The sighting with which a key gets one of the places that others have left.
    pub(super) const AFTER: u32 = 3;

    pub(super) fn new(bytes: usize) -> OverflowSketch {
        OverflowSketch { bytes, ..OverflowSketch::default() }
    }

    /// Counts a key, and returns how often it was seen lately before this, about.
    pub(super) fn see(&self, part: usize, hash: u64, time: Time) -> u32 {
        let options =
            SketchOptions { shards: Store::PARTS, bytes: self.bytes, rotate: OverflowSketch::ROTATE };
        let sketch = self.sketch.get_or_init(|| {
            tracing::warn!("the directory of keys has reached its bound: new keys are estimated");
            Sketch::new(options)
        });
        self.answered.fetch_add(1, Ordering::Relaxed);
        sketch.see(part, hash, time)
    }

    /// Returns how often a key was seen lately, if there ever was no place for one.
    pub(super) fn estimate(&self, part: usize, hash: u64, time: Time) -> Option<u32> {
        self.sketch.get().map(|sketch| sketch.estimate(part, hash, time))
    }

    /// Forgets the sightings of a key.
    pub(super) fn forget_hash(&self, part: usize, hash: u64) {
        self.sketch.get().into_iter().for_each(|sketch| sketch.forget_hash(part, hash));
    }

    pub(super) fn memory_bytes(&self) -> u64 {
        self.sketch.get().map_or(0, |sketch| sketch.memory_bytes() as u64)
    }
}
