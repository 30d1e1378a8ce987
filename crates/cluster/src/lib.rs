//! The cluster home of the ledger: statistics in a cluster that speaks the protocol of Redis, with what a node needs to
//! use it well.
//!
//! ```text
//! observe ─► cache ─► (misses) RemoteCluster::read, one round trip a shard ─► readings
//!               └ deltas, summed a key ─► local journal ─► answer
//! flush   ─► a partition's deltas become one numbered batch ─► RemoteCluster::write ─► journal let go
//! ```
//!
//! Arrows between its modules go one way, downwards:
//!
//! ```text
//! cluster                                                       a node, and what is due
//! resolution ─► observation ─► exact_limit, claim, reads        what asks the cluster for a call,
//! flush, share, renewal                                         and by itself
//! core                                                          what all of these share
//! wal, cache, lookup, partition, exact_queue, intent, sighting  what is kept; none of it asks the cluster
//! remote, delta, chain, cell, cell_map                          what is talked about
//! ```
//!
//! The crate knows the network; what a count means it leaves to `stats`. `docs/operating/cluster.md` says what is promised.

#![forbid(unsafe_code)]

mod batch;
mod cache;
mod call;
mod catalog;
mod cell;
mod cell_map;
mod chain;
mod claim;
mod cluster;
mod core;
mod delta;
mod environment;
mod erase;
mod exact_limit;
mod exact_queue;
mod export;
mod flush;
mod generation;
mod in_flight;
mod intent;
mod lookup;
mod metrics;
mod observation;
mod partition;
mod reads;
pub mod remote;
mod renewal;
mod resolution;
mod share;
mod sighting;
mod sweep;
mod transfer;
mod wal;
pub mod wire;

pub use crate::core::ClusterSettings;
pub use cluster::Cluster;
pub use environment::{BackgroundTask, Environment, ThreadedEnvironment};
pub use erase::erase;
pub use export::{ClusterExport, ClusterExportReport};
pub use metrics::ClusterMetrics;
pub use sweep::{ClusterSweep, SweepReport};
pub use transfer::{ClusterTransfer, ClusterTransferReport};
pub use wal::{count_records, identity};
