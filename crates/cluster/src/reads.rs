//! Images come from the cluster: what is missing is asked for at once, what is old while older answers go out. Of
//! images whose partition may not have changed only that is asked.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::catalog::ClusterCatalog;
use crate::chain::ChainId;
use crate::core::ClusterCore;
use crate::in_flight::InFlightGuard;
use crate::lookup::{CacheLookup, ImageAge, PlannedCell, PlannedPartition, PlannedReads};
use crate::remote::{CellForm, PartitionRead, RemoteCell};
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
        let PlannedReads { parts, was_void, .. } = wanted;
        let asked = self.environment.now();
        // Cells one behind the other are often of one form.
        let mut last: Option<(u32, &Arc<CellForm>)> = None;
        let mut form_of = |form: u32| {
            let known = last.filter(|(known, _)| *known == form);
            last = known.or_else(|| Some((form, &catalog.forms.get(&form)?.form)));
            last.map(|(_, form)| form.clone())
        };
        let reads = parts.iter().map(|PlannedPartition { partition, cells, places, .. }| {
            let cell =
                |cell: &PlannedCell| Some(RemoteCell { key: cell.id.key(), form: form_of(cell.form)? });
            let cells = cells.iter().filter_map(cell).collect();
            PartitionRead {
                partition: *partition,
                cells,
                places: places.iter().map(SketchRead::name).collect(),
            }
        });
        let reads: Vec<PartitionRead> = reads.collect();
        let count: u64 = reads.iter().map(|read| read.cells.len() as u64).sum();
        let checks = reads.iter().filter(|read| read.cells.is_empty()).count() as u64;
        self.counts.reads.fetch_add(count, Ordering::Relaxed);
        self.counts.checks.fetch_add(checks, Ordering::Relaxed);
        self.counts.read_calls.fetch_add(1, Ordering::Relaxed);
        let results = self.remote.read(reads, self.settings.within).await;
        for (planned, result) in parts.into_iter().zip(results) {
            let PlannedPartition { partition, cells, places, acknowledged: before } = planned;
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
            places.iter().zip(found.sightings).for_each(|(place, counts)| place.raise(partition, counts));
            shard.split(at, found.number, catalog, asked, self.settings.batch_bytes_max);
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
            let mut unsound = found.unsound.iter().peekable();
            let mut limits: Option<((u16, u16), bool)> = None;
            for ((at, cell), image) in cells.into_iter().enumerate().zip(found.images) {
                let PlannedCell { id, form, hint } = cell;
                if unsound.next_if_eq(&&at).is_some() {
                    self.counts.unsound.fetch_add(1, Ordering::Relaxed);
                    tracing::error!(key = ?id.key(), "a cell of the cluster is not one of its definition");
                    continue;
                }
                let words = image.unwrap_or_default();
                // Whoever takes from an exact limit writes no batch, so such an image is as old as its reading.
                let of = (id.space, id.kind);
                let known = limits.filter(|(known, _)| *known == of);
                let (_, is_limit) = *limits.insert(known.unwrap_or_else(|| (of, catalog.is_limit(id.key()))));
                let link = if is_limit { ChainId::NONE } else { link };
                if !shard.arrive((id, hint as usize), form, found.number, words, (asked, link)) {
                    was_void.store(true, Ordering::Release);
                }
            }
        }
    }
}
