//! Images come from the cluster. What is missing is asked for at once. What others may have changed is read anew while older
//! answers go out, when enough of a partition has gathered, or along with what is missing. Of images whose partition may not have
//! changed only that is asked.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::catalog::ClusterCatalog;
use crate::cell::PlannedCell;
use crate::chain::ChainId;
use crate::core::ClusterCore;
use crate::in_flight::InFlightGuard;
use crate::lookup::{CacheLookup, GatheringTimes, ImageAge, PlannedPartition, PlannedReads};
use crate::remote::{CellForm, PartitionRead, RemoteCell};
use crate::sighting::SketchRead;

/// The longest that an image is kept which nobody has changed. Servers let go of what is not used by a clock of their own,
/// and people change cells by hand.
const OLDEST: Duration = Duration::from_secs(600);

/// The parts of the time for which images are fresh, at whose end they gather with others of their partition to be read anew in
/// one command: where several nodes write to a partition, nearly every image that is used is. Of old ones somebody was told what
/// others may have changed since, so they are read sooner.
const GATHERED: u32 = 2;
const GATHERED_OLD: u32 = 4;

impl ClusterCore {
    /// Reads anew what has aged.
    pub(crate) fn refresh(self: &Arc<ClusterCore>, now: Duration) {
        if self.is_draining.load(Ordering::Acquire) {
            return;
        }
        let age = self.age(now);
        // None waits for a shard that does not answer.
        let mut by_shard: BTreeMap<usize, PlannedReads> = BTreeMap::new();
        for shard in &self.shards {
            let mut shard = shard.lock();
            for at in 0..shard.parts.len() {
                let part = &mut shard.parts[at];
                if part.aging.is_empty() || now < part.refresh_by {
                    continue;
                }
                let (partition, aging) = (part.partition, std::mem::take(&mut part.aging));
                let reads = by_shard.entry(self.remote.shard(partition)).or_default();
                aging.into_iter().for_each(|cell| reads.refresh(&mut shard, (cell, at), &age));
            }
        }
        let catalog = self.catalog();
        by_shard.into_values().for_each(|reads| self.begin(reads, &catalog));
    }

    /// Reads what is wanted, while others go on.
    fn begin(self: &Arc<ClusterCore>, wanted: PlannedReads, catalog: &Arc<ClusterCatalog>) {
        if wanted.is_empty() {
            return;
        }
        let (inner, catalog) = (self.clone(), catalog.clone());
        let landing = InFlightGuard(wanted.flight.clone());
        self.environment.spawn(Box::pin(async move {
            inner.fetch(wanted, &catalog).await;
            drop(landing);
        }));
    }

    pub(crate) fn age(&self, now: Duration) -> ImageAge {
        let settings = &self.settings;
        // What is not asked for because a write is about to answer it, that write, the next tick, and the reading.
        let slack = (4 * self.pause()).saturating_add(settings.within.saturating_mul(2));
        let exact_for = settings.fresh_for.saturating_add(slack);
        // Who gathers is looked at with each tick.
        let [gather_for, lagging_for] = [GATHERED, GATHERED_OLD].map(|parts| settings.fresh_for / parts);
        let gathers = lagging_for >= self.pause();
        ImageAge {
            now,
            aging: now.saturating_sub(settings.fresh_for - if gathers { gather_for } else { Duration::ZERO }),
            gathering: gathers.then_some(GatheringTimes { fresh_for: settings.fresh_for, lagging_for }),
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
        [missing, old].into_iter().for_each(|wanted| self.begin(wanted, catalog));
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
