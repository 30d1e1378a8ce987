//! [`ClusterCore`]: what all the work of a node shares. Each kind of work adds what it does in a module of its own; none
//! of these is imported here.

use parking_lot::{Mutex, RwLock};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use event_listener::Event;
use stats::random::Random;
use stats::{Durability, LedgerError};

use crate::cache::CacheShard;
use crate::catalog::ClusterCatalog;
use crate::environment::Environment;
use crate::exact_queue::ExactLimitQueue;
use crate::generation::GenerationWatch;
use crate::intent::Intents;
use crate::metrics::ClusterCounters;
use crate::partition::PartitionState;
use crate::remote::{Partition, PartitionCount, RemoteCluster};
use crate::wal::{ClaimToken, WriteAheadLog};

/// The time after a first failure until a batch is sent again, and the longest such time.
const AGAIN: Duration = Duration::from_millis(50);
const AGAIN_MAX: Duration = Duration::from_secs(5);

/// The settings by which a node uses its cluster.
#[derive(Clone, Copy, Debug)]
pub struct ClusterSettings {
    /// Into how many parts keys are divided: as the cluster has it.
    pub partitions: PartitionCount,
    /// The point at which additions are safe from a crash of this node.
    pub durability: Durability,
    /// The time for which a partition's additions are summed before they are sent.
    pub flush_every: Duration,
    /// Additions of one partition, in bytes of memory, that are sent before that.
    pub flush_bytes: usize,
    /// Additions of one partition, in bytes of memory, that become a batch of their own while another waits. A request
    /// with so many is about twice as long.
    pub batch_bytes_max: usize,
    /// The age up to which an image is answered without reading a newer one.
    pub fresh_for: Duration,
    /// The age up to which an image is answered while a newer one is read.
    pub stale_for: Duration,
    /// The longest that the cluster is waited for in one call. What is not there by then is missing in readings.
    pub within: Duration,
    /// Budget for images in memory.
    pub cache_bytes: usize,
    /// A segment of the journal that has reached this length is followed by a new one.
    pub segment_bytes: u64,
    /// The longest that the journal may be: beyond it additions are refused.
    pub journal_bytes_max: u64,
    /// The time for which an acknowledged batch is kept, so that it can be sent again if a failover loses it.
    pub retain: Duration,
    /// The longest that closing waits for the cluster. What it has not taken by then is sent after the next opening.
    pub drain: Duration,
}

impl ClusterSettings {
    /// The defaults: a second, ten seconds, a quarter of a second, 256 MiB of images, a GiB of journal.
    pub fn new(partitions: PartitionCount) -> ClusterSettings {
        ClusterSettings {
            partitions,
            durability: Durability::Sync,
            flush_every: Duration::from_secs(1),
            flush_bytes: 256 << 10,
            batch_bytes_max: 16 << 20,
            fresh_for: Duration::from_secs(1),
            stale_for: Duration::from_secs(10),
            within: Duration::from_millis(250),
            cache_bytes: 256 << 20,
            segment_bytes: 16 << 20,
            journal_bytes_max: 1 << 30,
            retain: Duration::from_secs(30),
            drain: Duration::from_secs(20),
        }
    }
}

/// The state of a node that all its work shares.
pub(crate) struct ClusterCore {
    pub(crate) remote: Arc<dyn RemoteCluster>,
    pub(crate) environment: Arc<dyn Environment>,
    pub(crate) settings: ClusterSettings,
    pub(crate) partitions: PartitionCount,
    pub(crate) shards: Vec<Mutex<CacheShard>>,
    /// Partitions of a shard.
    pub(crate) width: usize,
    pub(crate) catalog: RwLock<Arc<ClusterCatalog>>,
    /// Held while the catalog is replaced.
    pub(crate) changing: Mutex<()>,
    pub(crate) wal: Arc<WriteAheadLog>,
    pub(crate) intents: Intents,
    pub(crate) exact_limits: ExactLimitQueue,
    /// Read while something is added and put into the journal, written while a batch is cut.
    pub(crate) adding: RwLock<()>,
    /// The horizon: what expires at or before this is gone.
    pub(crate) horizon: AtomicI64,
    pub(crate) running: RunningCalls,
    pub(crate) counts: ClusterCounters,
    pub(crate) random: Mutex<Random>,
    pub(crate) token: AtomicU64,
    /// The id of this opening of the node.
    pub(crate) owner: [u8; 16],
    pub(crate) asking: Mutex<BatchNumberQuery>,
    pub(crate) watch: Mutex<GenerationWatch>,
    /// The times at which the journal was last written, and trimmed.
    pub(crate) tended: Mutex<(Duration, Duration)>,
    pub(crate) is_checking: AtomicBool,
    pub(crate) is_recovering: AtomicBool,
    /// The journal may not grow.
    pub(crate) is_full: AtomicBool,
    pub(crate) is_closed: AtomicBool,
    pub(crate) is_draining: AtomicBool,
    /// Notified by each tick while the node drains.
    pub(crate) drained: Event,
    /// Wakes the flusher.
    pub(crate) kick: Event,
}

/// The state of asking the cluster which batches it has.
#[derive(Default)]
pub(crate) struct BatchNumberQuery {
    pub(crate) is_busy: bool,
    pub(crate) attempts: u32,
    pub(crate) not_before: Duration,
}

/// The calls that are at work, so that what they have looked up stays.
#[derive(Default)]
pub(crate) struct RunningCalls {
    next: AtomicU64,
    stamps: Mutex<BTreeSet<u64>>,
}

pub(crate) struct RunningCallGuard<'a> {
    running: &'a RunningCalls,
    pub(crate) stamp: u64,
}

impl RunningCalls {
    pub(crate) fn begin(&self) -> RunningCallGuard<'_> {
        let mut stamps = self.stamps.lock();
        let stamp = self.next.fetch_add(1, Ordering::Relaxed) + 1;
        stamps.insert(stamp);
        RunningCallGuard { running: self, stamp }
    }

    /// The stamp of the one that began first.
    pub(crate) fn oldest(&self) -> u64 {
        self.stamps.lock().first().copied().unwrap_or(u64::MAX)
    }
}

impl Drop for RunningCallGuard<'_> {
    fn drop(&mut self) {
        self.running.stamps.lock().remove(&self.stamp);
    }
}

impl ClusterCore {
    pub(crate) fn catalog(&self) -> Arc<ClusterCatalog> {
        self.catalog.read().clone()
    }

    /// The shard of a partition, and its place in it.
    pub(crate) fn place(&self, partition: Partition) -> (usize, usize) {
        let number = usize::from(partition.0);
        (number / self.width, number % self.width)
    }

    /// One that nobody has had.
    pub(crate) fn token(&self) -> ClaimToken {
        let mut token = [0; size_of::<ClaimToken>()];
        let number = self.token.fetch_add(1, Ordering::Relaxed);
        let (first, last) = token.split_at_mut(8);
        first.copy_from_slice(&self.environment.seed().to_le_bytes());
        last.copy_from_slice(&number.to_le_bytes());
        token
    }

    /// Returns the time for which the flusher rests: partitions whose phases are near one another go together.
    pub(crate) fn pause(&self) -> Duration {
        (self.settings.flush_every / 16).clamp(Duration::from_millis(1), Duration::from_millis(250))
    }

    /// Returns the time to wait after so many failures: twice as long each time, and up to half as long again at random.
    pub(crate) fn again(&self, attempts: u32) -> Duration {
        let pause = AGAIN.saturating_mul(1 << attempts.min(10)).min(AGAIN_MAX);
        pause.mul_f64(1.0 + self.random.lock().unit() / 2.0)
    }

    /// Returns true if all that was added is in the cluster, and every intent is settled.
    pub(crate) fn is_clean(&self) -> bool {
        self.intents.is_empty()
            && self.shards.iter().all(|shard| {
                let shard = shard.lock();
                shard.sightings.is_empty() && shard.parts.iter().all(PartitionState::is_clean)
            })
    }

    /// Refuses additions that the journal has no room for.
    pub(crate) fn check_writable(&self) -> Result<(), LedgerError> {
        if self.is_closed.load(Ordering::Acquire) {
            return Err(LedgerError::Closed);
        }
        if self.is_full.load(Ordering::Acquire) {
            let why = "the journal may not grow: the cluster, or the disk, takes less than is added";
            return Err(LedgerError::Full { why: why.into() });
        }
        self.wal.check()
    }
}
