//! Cells that others than nodes have changed are read anew: what is erased, or brought in, is not answered as it was.
//!
//! ```text
//! erase, import ─► the cells ─► RemoteCluster::renew, a new number for their partitions
//! each node     ─► RemoteCluster::generations now and then ─► another number: images of that partition are let go of
//! ```
//!
//! It costs a node one short question each time, and a change costs it what it had of a few partitions rather than all
//! it had. A node that cannot ask is no worse off than without: it answers nothing that is older than `stale_for`.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::core::ClusterCore;
use crate::remote::Partition;

impl ClusterCore {
    /// Asks, if it is time to.
    pub(crate) fn ask_generations(self: &Arc<ClusterCore>, now: Duration) {
        let Some(latest) = self.watch.lock().begin(now, self.settings.fresh_for) else { return };
        let inner = self.clone();
        self.environment.spawn(Box::pin(async move {
            let answer = inner.remote.generations(latest, inner.settings.within).await;
            let found = answer.unwrap_or_else(|failure| {
                tracing::debug!(%failure, "it is not known whether cells were changed");
                None
            });
            let changed = inner.watch.lock().end(found);
            if !changed.is_empty() {
                inner.forget(&changed);
            }
        }));
    }

    /// Lets no image of these partitions be used that was asked for before now.
    fn forget(&self, partitions: &[Partition]) {
        let now = self.environment.now();
        for partition in partitions.iter().filter(|partition| partition.0 < self.partitions.count()) {
            let (shard, at) = self.place(*partition);
            self.shards[shard].lock().forget(at, now);
        }
        self.counts.renewals.fetch_add(partitions.len() as u64, Ordering::Relaxed);
    }
}
