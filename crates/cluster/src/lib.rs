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
mod chain;
mod cluster;
mod counts;
mod delta;
mod erase;
mod exact;
mod export;
mod flush;
mod generation;
mod intent;
mod journal;
mod observe;
mod reads;
pub mod remote;
pub mod sizing;
mod surroundings;
mod sweep;
mod transfer;
pub mod wire;
mod world;

use std::sync::{Mutex, MutexGuard, PoisonError};

pub use cluster::{Cluster, Settings};
pub use counts::Metrics;
pub use erase::erase;
pub use export::{Export, Exported};
pub use journal::{count_records, identity};
pub use surroundings::{Surroundings, Task, Threads};
pub use sweep::{Sweep, Swept};
pub use transfer::{Transfer, Transferred};

// A panic elsewhere leaves what these guard usable: it is changed in one step.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
