//! The size of a cluster: a formula over measured figures (`docs/internals/benchmarks.md`), for people who plan one.
//!
//! ```text
//! keys     = keys a day * (days kept + 1)
//! memory   = keys * bytes a key * 1.15 (fragmentation) / 0.75 (fill), in each copy
//! changes  = new keys + (updates - new keys) * (1 - summed)            a second
//! reads    = new keys + (updates - new keys) * missed                  a second
//! time     = new keys * MADE + other changes * CHANGED + reads * READ  of masters' CPUs, a second
//! masters  = the greater of memory / memory of a server, time / 0.5 (so busy may one be)
//! servers  = masters * copies
//! ```

use event::Span;
use serde::Serialize;

/// Bytes of a key with a few events in windows of `10m x 144` and `1d x 14`, in Redis 7.0.
pub(super) const KEY_BYTES: u64 = 225;
/// CPU time that a key takes which is made, changed, or read, in microseconds.
const MADE: f64 = 6.1;
/// See [`MADE`].
const CHANGED: f64 = 6.8;
/// See [`MADE`].
const READ: f64 = 3.9;
/// The factor for what an allocator needs beside what is used of it.
const FRAGMENTATION: f64 = 1.15;
/// The share of a server's memory that may be full: a snapshot, or a replica that starts, needs the rest.
const FILL: f64 = 0.75;
/// The share of the one core that it uses for which a server may be busy.
const BUSY: f64 = 0.5;

/// The demand on a cluster.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct ClusterDemand {
    /// Different keys that are seen a day. Each day's are taken for new ones.
    pub(super) keys_per_day: u64,
    /// Additions a second.
    pub(super) updates_per_second: u64,
    /// The time for which a key is kept after its last event.
    pub(super) keep: Span,
    /// Copies of all, that of the masters among them.
    pub(super) replication: u64,
    /// Bytes of a key.
    pub(super) bytes_per_key: u64,
    /// Memory of a server, in bytes.
    pub(super) server_bytes: u64,
    /// The share of additions to keys that are there which summing in nodes saves, 0 to 1.
    pub(super) summed: f64,
    /// The share of readings of keys that are there which the nodes' caches have not, 0 to 1.
    pub(super) missed: f64,
}

/// The resources that a demand needs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct ClusterSizing {
    /// Keys at a time.
    pub(super) keys: u64,
    /// Bytes of one copy, as servers must have them.
    pub(super) bytes: u64,
    /// Bytes of all copies.
    pub(super) bytes_of_all: u64,
    /// Keys that are made a second.
    pub(super) made_per_second: u64,
    /// Keys that are changed a second, the new ones included.
    pub(super) changed_per_second: u64,
    /// Keys that are read a second.
    pub(super) read_per_second: u64,
    /// CPU time of all masters a second, in seconds.
    pub(super) cores: f64,
    /// Masters that the memory asks for.
    pub(super) masters_by_memory: u64,
    /// Masters that the time asks for.
    pub(super) masters_by_time: u64,
    /// Masters: a cluster has at least three.
    pub(super) masters: u64,
    /// Servers, replicas included.
    pub(super) servers: u64,
}

impl ClusterDemand {
    /// Applies the formula. Numbers that are too large stay at the largest.
    pub(super) fn sizing(&self) -> ClusterSizing {
        let days = self.keep.as_seconds_f64().max(0.0) / 86_400.0;
        let keys = self.keys_per_day as f64 * (days + 1.0);
        let bytes = keys * self.bytes_per_key as f64 * FRAGMENTATION / FILL;
        let updates = self.updates_per_second as f64;
        let made = (self.keys_per_day as f64 / 86_400.0).min(updates);
        let others = updates - made;
        let changed = others * (1.0 - self.summed.clamp(0.0, 1.0));
        let read = made + others * self.missed.clamp(0.0, 1.0);
        let cores = (made * MADE + changed * CHANGED + read * READ) / 1e6;
        let masters_by_memory = (bytes / self.server_bytes.max(1) as f64).ceil() as u64;
        let masters_by_time = (cores / BUSY).ceil() as u64;
        let masters = masters_by_memory.max(masters_by_time).max(3);
        let copies = self.replication.max(1);
        ClusterSizing {
            keys: keys.ceil() as u64,
            bytes: bytes.ceil() as u64,
            bytes_of_all: (bytes * copies as f64).ceil() as u64,
            made_per_second: made.round() as u64,
            changed_per_second: (made + changed).round() as u64,
            read_per_second: read.round() as u64,
            cores,
            masters_by_memory,
            masters_by_time,
            masters,
            servers: masters.saturating_mul(copies),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn demand() -> ClusterDemand {
        ClusterDemand {
            keys_per_day: 86_400_000,
            updates_per_second: 5000,
            keep: Span::days(9),
            replication: 2,
            bytes_per_key: 100,
            server_bytes: 10_000_000_000,
            summed: 0.5,
            missed: 0.1,
        }
    }

    #[test]
    fn it_is_the_formula() {
        let sizing = demand().sizing();
        assert_eq!((sizing.keys, sizing.made_per_second), (864_000_000, 1000));
        assert_eq!((sizing.changed_per_second, sizing.read_per_second), (3000, 1400));
        // 86.4 GB, and 1.15 / 0.75 of it.
        assert_eq!(sizing.bytes / 1_000_000, 132_480);
        assert_eq!((sizing.masters_by_memory, sizing.masters, sizing.servers), (14, 14, 28));
    }

    #[test]
    fn it_takes_any_numbers() {
        let most = ClusterDemand {
            keys_per_day: u64::MAX,
            updates_per_second: u64::MAX,
            keep: Span::MAX,
            replication: u64::MAX,
            bytes_per_key: u64::MAX,
            server_bytes: 0,
            summed: f64::NAN,
            missed: 7.0,
        };
        assert_eq!(most.sizing().servers, u64::MAX);
        let none = ClusterDemand { keys_per_day: 0, updates_per_second: 0, ..demand() };
        assert_eq!(none.sizing().servers, 6, "a cluster has three masters");
    }
}
