//! Counters of a node's own work.

use std::sync::atomic::{AtomicU64, Ordering};

use stats::LedgerMetric;

use crate::lookup::CacheLookup;

/// The metrics of what a node has done since it was opened, and of what it holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClusterMetrics {
    /// Cells that were answered from memory.
    pub hits: u64,
    /// Cells that were answered from memory with an older image, while a newer was read.
    pub soft_hits: u64,
    /// Cells that were not answered before they were read.
    pub misses: u64,
    /// Cells that the cluster was asked for.
    pub reads: u64,
    /// Partitions that were asked only for who wrote last.
    pub checks: u64,
    /// Calls in which it was.
    pub read_calls: u64,
    /// Parts of these calls, one a partition, that failed.
    pub read_failures: u64,
    /// Images that do not match their definition.
    pub unsound: u64,
    /// Batches that were sent, again or for the first time.
    pub batches: u64,
    /// Changes of cells in them.
    pub writes: u64,
    /// Batches that were not acknowledged, and are sent again.
    pub write_failures: u64,
    /// Marks that were claimed, again or for the first time.
    pub claims: u64,
    /// The number of requests that exact limits were asked.
    pub exact: u64,
    /// Calls in which they were, one a partition, again or for the first time.
    pub exact_batches: u64,
    /// The number of requests that exact limits were asked and did not answer in time.
    pub exact_failures: u64,
    /// Places in sketches whose sightings were shared with other nodes, again or for the first time.
    pub sightings: u64,
    /// Calls in which they were, one a partition.
    pub sighting_batches: u64,
    /// Sightings that other nodes never hear of: too many waited.
    pub sightings_dropped: u64,
    /// Batches that a failover has lost, and that could not be sent again.
    pub lost_batches: u64,
    /// Times that the journal was written anew because it was too long.
    pub checkpoints: u64,
    /// Partitions whose images were let go of, since others than nodes had changed cells of theirs.
    pub renewals: u64,
    /// Names that the slow pass has looked at.
    pub swept: u64,
    /// Fields that it has removed.
    pub aged: u64,
    /// Entries that were let go of to make room.
    pub evictions: u64,
    /// Keys in memory, also those that the cluster does not have.
    pub entries: u64,
    /// Memory of images.
    pub cache_bytes: u64,
    /// Memory of what was added and is not in a batch.
    pub pending_bytes: u64,
    /// Partitions of which the cluster has not acknowledged everything.
    pub waiting_partitions: u64,
    /// Requests of which the cluster has not said whether they were the first.
    pub undecided: u64,
    /// Length of the journal.
    pub journal_bytes: u64,
    /// The journal may not grow: additions are refused for now.
    pub full: bool,
}

impl ClusterMetrics {
    /// Returns these as figures for metrics.
    pub fn figures(&self) -> Vec<LedgerMetric> {
        let sums = [
            ("hits", "Keys that were answered from memory", self.hits),
            ("soft_hits", "Keys answered from memory while a newer image was read", self.soft_hits),
            ("misses", "Keys that were read before they were answered", self.misses),
            ("reads", "Keys read from the cluster", self.reads),
            ("checks", "Partitions that were only asked whether anything had changed", self.checks),
            ("read_calls", "Read calls to the cluster", self.read_calls),
            ("read_failures", "Failed parts of read calls, one per partition", self.read_failures),
            ("invalid_images", "Images that do not match their definition", self.unsound),
            ("batches", "Batches sent, retries included", self.batches),
            ("writes", "Changes of keys in batches", self.writes),
            ("write_failures", "Batches that were not acknowledged, and are sent again", self.write_failures),
            ("claims", "Request ids that were claimed, so that a repeated request counts once", self.claims),
            ("exact_requests", "Requests to exact limits", self.exact),
            ("exact_batches", "Calls with requests to exact limits, one per partition", self.exact_batches),
            ("exact_failures", "Requests to exact limits without an answer in time", self.exact_failures),
            (
                "sightings",
                "Sightings of keys without a cell that were shared with other nodes",
                self.sightings,
            ),
            ("sighting_batches", "Calls that shared sightings, one per partition", self.sighting_batches),
            (
                "sightings_dropped",
                "Sightings that could not be shared: too many waited",
                self.sightings_dropped,
            ),
            ("lost_batches", "Batches that a failover lost and that were no longer kept", self.lost_batches),
            ("checkpoints", "Rewrites of the node's journal", self.checkpoints),
            ("renewals", "Partitions read again because keys were erased or imported", self.renewals),
            ("sweep_keys", "Keys that the background sweep has visited", self.swept),
            ("sweep_removals", "Counts that the background sweep has folded or removed", self.aged),
        ];
        let gauges = [
            ("entries", "Keys in memory", self.entries),
            ("cache_bytes", "Bytes of memory for cells that were read", self.cache_bytes),
            ("pending_bytes", "Bytes of memory for additions that are in no batch yet", self.pending_bytes),
            ("waiting_partitions", "Partitions with unacknowledged batches", self.waiting_partitions),
            ("undecided_requests", "Requests with an id that may have been counted already", self.undecided),
            ("journal_bytes", "Length of the node's journal of additions under way", self.journal_bytes),
            (
                "full",
                "1 while additions are refused because the node's journal is full",
                u64::from(self.full),
            ),
        ];
        let figure =
            |is_sum| move |(name, help, value)| LedgerMetric { name, help, is_sum, shard: None, value };
        sums.into_iter().map(figure(true)).chain(gauges.into_iter().map(figure(false))).collect()
    }
}

#[derive(Default)]
pub(crate) struct ClusterCounters {
    hits: AtomicU64,
    soft_hits: AtomicU64,
    misses: AtomicU64,
    pub(crate) reads: AtomicU64,
    pub(crate) checks: AtomicU64,
    pub(crate) read_calls: AtomicU64,
    pub(crate) read_failures: AtomicU64,
    pub(crate) unsound: AtomicU64,
    pub(crate) batches: AtomicU64,
    pub(crate) writes: AtomicU64,
    pub(crate) write_failures: AtomicU64,
    claims: AtomicU64,
    pub(crate) exact: AtomicU64,
    pub(crate) exact_batches: AtomicU64,
    pub(crate) exact_failures: AtomicU64,
    pub(crate) sightings: AtomicU64,
    pub(crate) sighting_batches: AtomicU64,
    pub(crate) lost_batches: AtomicU64,
    pub(crate) checkpoints: AtomicU64,
    pub(crate) renewals: AtomicU64,
    pub(crate) swept: AtomicU64,
    pub(crate) aged: AtomicU64,
}

impl ClusterCounters {
    pub(crate) fn looked(&self, lookup: &CacheLookup) {
        self.hits.fetch_add(lookup.hits, Ordering::Relaxed);
        self.soft_hits.fetch_add(lookup.soft_hits, Ordering::Relaxed);
        self.misses.fetch_add(lookup.misses, Ordering::Relaxed);
    }

    pub(crate) fn claims(&self, count: usize) {
        self.claims.fetch_add(count as u64, Ordering::Relaxed);
    }

    /// Returns the metrics that are counted here; the rest is zero.
    pub(crate) fn metrics(&self) -> ClusterMetrics {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        ClusterMetrics {
            hits: of(&self.hits),
            soft_hits: of(&self.soft_hits),
            misses: of(&self.misses),
            reads: of(&self.reads),
            checks: of(&self.checks),
            read_calls: of(&self.read_calls),
            read_failures: of(&self.read_failures),
            unsound: of(&self.unsound),
            batches: of(&self.batches),
            writes: of(&self.writes),
            write_failures: of(&self.write_failures),
            claims: of(&self.claims),
            exact: of(&self.exact),
            exact_batches: of(&self.exact_batches),
            exact_failures: of(&self.exact_failures),
            sightings: of(&self.sightings),
            sighting_batches: of(&self.sighting_batches),
            lost_batches: of(&self.lost_batches),
            checkpoints: of(&self.checkpoints),
            renewals: of(&self.renewals),
            swept: of(&self.swept),
            aged: of(&self.aged),
            ..ClusterMetrics::default()
        }
    }
}
