//! Images come from the cluster: what is missing is asked for at once, what is old while older answers go out. Of
//! images whose partition may not have changed only that is asked.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use event::Key;

use crate::catalog::ClusterCatalog;
use crate::cell::CellId;
use crate::chain::ChainId;
use crate::core::ClusterCore;
use crate::in_flight::InFlightGuard;
use crate::lookup::{CacheLookup, ImageAge, PlannedReads};
use crate::remote::{CellImage, Partition, PartitionRead, RemoteCell};
use crate::sighting::SketchRead;

/// The longest that an image is kept which nobody has changed. Servers let go of what is not used by a clock of their own,
/// and people change cells by hand.
const OLDEST: Duration = Duration::from_secs(600);

impl ClusterCore {
    pub(crate) fn age(&self, now: Duration) -> ImageAge {
        let settings = &self.settings;
        // What is not asked for because a write is about to answer it, that write, and this call's own reading.
        let slack = (3 * self.pause()).saturating_add(settings.within.saturating_mul(2));
        let exact_for = settings.fresh_for.saturating_add(slack);
        ImageAge {
            soft: now.saturating_sub(settings.fresh_for),
            exact: now.saturating_sub(exact_for),
            hard: now.saturating_sub(settings.stale_for),
            oldest: now.saturating_sub(OLDEST.max(settings.stale_for)),
            answered_by: now + 2 * self.pause(),
        }
    }

    /// Reads what a lookup wants; answers when what is needed is there, or cannot be had. True if some images came that
    /// were older than what is known, and another try is worth it.
    pub(crate) async fn read(
        self: &Arc<ClusterCore>,
        lookup: CacheLookup,
        catalog: &Arc<ClusterCatalog>,
    ) -> bool {
        let CacheLookup { missing, old, flights, .. } = lookup;
        let (flight, was_void) = (missing.flight.clone(), missing.was_void.clone());
        let is_needed = !missing.is_empty();
        for wanted in [missing, old] {
            if !wanted.is_empty() {
                let (inner, catalog) = (self.clone(), catalog.clone());
                let landing = InFlightGuard(wanted.flight.clone());
                self.environment.spawn(Box::pin(async move {
                    inner.fetch(wanted, &catalog).await;
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

    async fn fetch(&self, wanted: PlannedReads, catalog: &ClusterCatalog) {
        let PlannedReads { cells, mut places, acknowledged, was_void, .. } = wanted;
        let asked = self.environment.now();
        let read = |(partition, ids): (&Partition, &Vec<(CellId, u32)>)| {
            let cell = |(id, form): &(CellId, u32)| {
                Some(RemoteCell { key: id.key(), form: catalog.forms.get(form)?.form.clone() })
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
            let mut shard = self.shards[shard].lock();
            let places = places.remove(&partition).unwrap_or_default();
            places.iter().zip(found.sightings).for_each(|(place, counts)| place.raise(partition, counts));
            shard.split(at, found.number, catalog, asked, self.settings.batch_bytes_max);
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
                let words = match image.map(|image| restore(catalog, form, &image)) {
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
                let is_limit = catalog.planned(space, kind).is_ok_and(|planned| planned.is_limit);
                let link = if is_limit { ChainId::NONE } else { link };
                if !shard.arrive(id, form, found.number, words, (asked, link)) {
                    was_void.store(true, Ordering::Release);
                }
            }
        }
    }
}

fn restore(catalog: &ClusterCatalog, form: u32, image: &CellImage) -> Result<Vec<u64>, &'static str> {
    let known = catalog.forms.get(&form).ok_or("it has no definition")?;
    known.plan.restore(image.first, image.last, &image.content)
}
