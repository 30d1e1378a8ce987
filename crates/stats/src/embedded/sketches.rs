//! Admission sketches, kept in the log as images of their own: written when the ledger is closed and with a snapshot. A
//! crash loses the sightings since then, and no admitted key.

use std::io;
use std::sync::Arc;

use hashbrown::HashSet;
use store::{RecordKey, Store, StoreError};

use super::world::{SKETCHES, World};
use crate::bytes::{pack, unpack};
use crate::definition::fnv;
use crate::ledger::LedgerError;
use crate::sketch::{Sketch, SketchOptions};

/// Bytes of an image that one record holds.
const PART_BYTES: usize = 128 << 10;

/// Each statistic's sketch once, with its name.
fn each(world: &World) -> impl Iterator<Item = (&str, SketchOptions, &Arc<Sketch>)> {
    let mut seen = HashSet::new();
    world.plans.iter().filter_map(move |planned| {
        let (sketch, admit) = (planned.sketch.as_ref()?, planned.statistic.admit.as_ref()?);
        let name = planned.statistic.name.as_str();
        seen.insert(name).then_some((name, admit.options(), sketch))
    })
}

pub(super) fn memory_bytes(world: &World) -> u64 {
    each(world).map(|(_, _, sketch)| sketch.memory_bytes() as u64).sum()
}

/// Writes the sketches' images.
pub(super) fn keep(world: &World, store: &Store) -> Result<(), LedgerError> {
    for (name, _, sketch) in each(world) {
        let mut bytes = Vec::new();
        sketch.write_to(&mut bytes).map_err(|error| StoreError::Io { what: name.to_owned(), error })?;
        // A part without words ends it: there may be more of an image that was larger.
        let parts = bytes.chunks(PART_BYTES).map(pack).chain([Vec::new()]);
        let images: Vec<_> = parts.zip(0..).map(|(words, part)| (key(name, part), 0, words)).collect();
        store.put(&images, i64::MAX)?;
    }
    Ok(())
}

/// Puts the sketches that were kept into the world.
pub(super) fn restore(world: &mut World, store: &Store) -> Result<(), LedgerError> {
    let mut restored = Vec::new();
    for (name, options, _) in each(world) {
        let mut bytes = Vec::new();
        for part in 0.. {
            match store.get(key(name, part)) {
                Ok(Some((_, words))) => match unpack(&words) {
                    Some(mut part) => bytes.append(&mut part),
                    None => break,
                },
                Ok(None) | Err(StoreError::Damaged { .. }) => break,
                Err(error) => return Err(error.into()),
            }
        }
        if bytes.is_empty() {
            continue;
        }
        match Sketch::restore(options, &mut io::Cursor::new(bytes)) {
            Ok(sketch) => restored.push((name.to_owned(), Arc::new(sketch))),
            Err(error) => tracing::warn!(statistic = name, %error, "an admission sketch starts anew"),
        }
    }
    for planned in &mut world.plans {
        let name = &planned.statistic.name;
        if planned.sketch.is_some()
            && let Some((_, sketch)) = restored.iter().find(|(known, _)| known == name)
        {
            planned.sketch = Some(sketch.clone());
        }
    }
    Ok(())
}

fn key(statistic: &str, part: u32) -> RecordKey {
    let (space, kind) = SKETCHES;
    RecordKey { space, kind, shingle: u64::from(fnv(statistic.as_bytes())) << 32 | u64::from(part) }
}
