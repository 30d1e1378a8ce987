//! Cells that others than nodes have changed are read anew: what is erased, or brought in, is not answered as it was.
//!
//! ```text
//! erase, import ─► the cells ─► Remote::renew, a new number for their partitions
//! each node     ─► Remote::generations now and then ─► another number: images of that partition are let go of
//! ```
//!
//! It costs a node one short question each time, and a change costs it what it had of a few partitions rather than all
//! it had. A node that cannot ask is no worse off than without: it answers nothing that is older than `stale_for`.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::cluster::ClusterCore;
use crate::lock;
use crate::remote::{Partition, PartitionGenerations};

/// The bounds of the time after which a node asks again: as often as images are fresh, but within these.
const EVERY_MIN: Duration = Duration::from_millis(100);
const EVERY_MAX: Duration = Duration::from_secs(10);

/// The knowledge that a node has of changes.
#[derive(Default)]
pub(crate) struct GenerationWatch {
    is_busy: bool,
    not_before: Duration,
    /// As of the last answer.
    known: PartitionGenerations,
}

impl ClusterCore {
    /// Asks, if it is time to.
    pub(crate) fn ask_generations(self: &Arc<ClusterCore>, now: Duration) {
        let mut watch = lock(&self.watch);
        if watch.is_busy || now < watch.not_before {
            return;
        }
        watch.is_busy = true;
        watch.not_before = now + self.settings.fresh_for.clamp(EVERY_MIN, EVERY_MAX);
        let latest = watch.known.latest;
        let inner = self.clone();
        self.environment.spawn(Box::pin(async move {
            let answer = inner.remote.generations(latest, inner.settings.within).await;
            let mut watch = lock(&inner.watch);
            watch.is_busy = false;
            match answer {
                Ok(Some(found)) => {
                    let changed = changed(&watch.known, &found);
                    watch.known = found;
                    drop(watch);
                    inner.forget(&changed);
                }
                Ok(None) => {}
                Err(failure) => tracing::debug!(%failure, "it is not known whether cells were changed"),
            }
        }));
    }

    /// Lets no image of these partitions be used that was asked for before now.
    fn forget(&self, partitions: &[Partition]) {
        let now = self.environment.now();
        for partition in partitions.iter().filter(|partition| partition.0 < self.partitions.count()) {
            let (shard, at) = self.place(*partition);
            lock(&self.shards[shard]).forget(at, now);
        }
        self.counts.renewals.fetch_add(partitions.len() as u64, Ordering::Relaxed);
    }
}

/// The partitions that were changed since. To a node that has just begun these are all that ever were.
fn changed(known: &PartitionGenerations, found: &PartitionGenerations) -> Vec<Partition> {
    let is_new = |(partition, number): &(&Partition, &u64)| known.partitions.get(*partition) != Some(*number);
    found.partitions.iter().filter(is_new).map(|(partition, _)| *partition).collect()
}
