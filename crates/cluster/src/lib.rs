//! The cluster home of the ledger: statistics in a cluster that speaks the protocol of Redis, with what a node needs to
//! use it well.
//!
//! ```text
//! observe ─► cache ─► (misses) Remote::read, one round trip a shard ─► readings
//!               └ deltas, summed a key ─► local journal ─► answer
//! flush   ─► a partition's deltas become one numbered batch ─► Remote::write ─► journal let go
//! ```
//!
//! The crate knows the network; what a count means it leaves to `stats`. `docs/operating/cluster.md` says what is promised.

mod cache;
mod catalog;
mod chain;
mod cluster;
mod delta;
mod environment;
mod erase;
mod exact_limit;
mod export;
mod flush;
mod generation;
mod intent;
mod metrics;
mod observation;
mod reads;
pub mod remote;
mod share;
mod sighting;
mod sweep;
mod transfer;
mod wal;
pub mod wire;

use std::sync::{Mutex, MutexGuard, PoisonError};

pub use cluster::{Cluster, ClusterSettings};
pub use environment::{BackgroundTask, Environment, ThreadedEnvironment};
pub use erase::erase;
pub use export::{ClusterExport, ClusterExportReport};
pub use metrics::ClusterMetrics;
pub use sweep::{ClusterSweep, SweepReport};
pub use transfer::{ClusterTransfer, ClusterTransferReport};
pub use wal::{count_records, identity};

// A panic elsewhere leaves what these guard usable: it is changed in one step.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
