//! The cluster home of the ledger: statistics in a cluster that speaks the protocol of Redis, with what a node needs to
//! use it well.
//!
//! ```text
//! observe ─► cache ─► (misses) Remote::read, one round trip a shard ─► readings
//!               └ deltas, summed a key ─► local journal ─► answer
//! flush   ─► a partition's deltas become one numbered batch ─► Remote::write ─► journal let go
//! ```
//!
//! The crate knows the network; what a count means it leaves to `stats`.

pub mod remote;
pub mod sizing;
pub mod wire;
