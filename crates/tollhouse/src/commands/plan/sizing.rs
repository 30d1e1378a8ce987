//! The size of a cluster: a formula over measured figures (`docs/internals/benchmarks.md`), for people who plan one.
//!
//! ```text
//! keys     = keys a day * (days kept + 1)
//! bytes    = keys * bytes a key * 1.15 (fragmentation) / 0.75 (fill), in each copy
//! changes  = new keys + (updates - new keys) * (1 - summed)            a second
//! reads    = new keys + (updates - new keys) * missed                  a second
//! time     = new keys * MADE + other changes * CHANGED + reads * READ  of masters' CPUs, a second
//! masters  = the greatest of bytes / room of a server, time / 0.5 (so busy may one be), reads / reads of a disk; at least 3
//! servers  = masters * copies
//! nodes    = updates * time of a key at a node / 0.5 / cores of a node; at least 2
//! journal  = updates / keys of an event * bytes of a decision * 86,400 * days kept
//! network  = (changes * copies + reads) * bytes of a key on the wire
//! ```

use event::Span;
use serde::Serialize;

/// The factor for what an allocator needs beside what is used of it.
const FRAGMENTATION: f64 = 1.15;
/// The share of a server's memory or disk that may be full: a snapshot, a replica that starts, or a compaction needs the rest.
const FILL: f64 = 0.75;
/// The share of the one core that it uses for which a server may be busy, and of all its cores for a node.
const BUSY: f64 = 0.5;
/// Bytes of a key on the wire, there or back, by the form of the requests: an estimate.
const WIRE_BYTES: f64 = 48.0;
/// Random reads a second of a server with a disk engine: an estimate for a local solid-state disk.
const DISK_READS: f64 = 100_000.0;

/// The figures of what servers run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct ServerEngine {
    pub(super) name: &'static str,
    /// Bytes of a key with a few events in windows of `10m x 144` and `1d x 14`.
    pub(super) key_bytes: f64,
    /// CPU time of a server that a key takes which is made, changed, or read, in microseconds.
    pub(super) made: f64,
    pub(super) changed: f64,
    pub(super) read: f64,
    /// CPU time of a node for a key, in microseconds.
    pub(super) at_node: f64,
    pub(super) is_on_disk: bool,
}

/// Redis or Valkey with our module. Its cells are packed as the embedded ledger packs them, where a key of a few events takes 54 to
/// 67 bytes.
const MODULE: ServerEngine = ServerEngine {
    name: "module",
    key_bytes: 67.0,
    made: 0.5,
    changed: 0.29,
    read: 0.13,
    at_node: 3.7,
    is_on_disk: false,
};
/// Redis or Valkey as it comes, with our scripts.
const SCRIPTS: ServerEngine = ServerEngine {
    name: "scripts",
    key_bytes: 225.0,
    made: 6.1,
    changed: 6.8,
    read: 3.9,
    at_node: 4.2,
    is_on_disk: false,
};
/// Kvrocks with our scripts: the time is taken as that of Redis, and the bytes are an estimate for RocksDB, compressed.
const DISK: ServerEngine = ServerEngine { name: "disk", key_bytes: 100.0, is_on_disk: true, ..SCRIPTS };

/// All of what servers may run, the best first.
pub(super) const SERVER_ENGINES: [ServerEngine; 3] = [MODULE, SCRIPTS, DISK];

/// A system whose figures were published, as a demand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum PublishedSystem {
    /// Counters of a mail service: 13 billion keys a day, 220,000 updates a second, 40 keys a message, three copies, 14 days
    MailCounters,
    /// A limiter of invitations: 10,000 users at 500 a day, a key each
    RateLimiter,
    /// Reputations of a mail service: 550,000 messages a minute with up to 100 entities, a billion records over 90 days
    Reputation,
    /// Web events: 1,000,000 a second with 12 keys each, 200 million statistics over 3 days, 2 % of readings past the cache
    Antifraud,
}

impl PublishedSystem {
    /// Returns its demand, on servers of this room.
    pub(super) fn demand(self) -> ClusterDemand {
        let demand = |keys_per_day, updates_per_second, days, replication, keys_per_event| ClusterDemand {
            keys_per_day,
            updates_per_second,
            keep: Span::days(days),
            replication,
            keys_per_event,
            ..ClusterDemand::default()
        };
        match self {
            PublishedSystem::MailCounters => demand(13_000_000_000, 220_000, 14, 3, 40),
            PublishedSystem::RateLimiter => demand(10_000, 58, 1, 2, 1),
            PublishedSystem::Reputation => demand(11_000_000, 916_667, 90, 2, 100),
            PublishedSystem::Antifraud => {
                ClusterDemand { missed: 0.02, ..demand(50_000_000, 12_000_000, 3, 2, 12) }
            }
        }
    }
}

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
    /// Bytes of a key, instead of those of each engine.
    pub(super) bytes_per_key: Option<u64>,
    /// Memory of a server, in bytes.
    pub(super) server_bytes: u64,
    /// Disk of a server, in bytes.
    pub(super) disk_bytes: u64,
    /// The share of additions to keys that are there which summing in nodes saves, 0 to 1.
    pub(super) summed: f64,
    /// The share of readings of keys that are there which the nodes' caches have not, 0 to 1.
    pub(super) missed: f64,
    /// Keys of an event.
    pub(super) keys_per_event: u64,
    /// Cores of a node.
    pub(super) node_cores: u64,
    /// Bytes of a decision in the journal.
    pub(super) decision_bytes: u64,
    /// The time for which decisions are kept.
    pub(super) journal_keep: Span,
}

impl Default for ClusterDemand {
    fn default() -> ClusterDemand {
        ClusterDemand {
            keys_per_day: 0,
            updates_per_second: 0,
            keep: Span::days(1),
            replication: 2,
            bytes_per_key: None,
            server_bytes: 64 << 30,
            disk_bytes: 2 << 40,
            summed: 0.0,
            missed: 1.0,
            keys_per_event: 12,
            node_cores: 8,
            decision_bytes: 210,
            journal_keep: Span::days(7),
        }
    }
}

/// The resources that a demand needs, whatever servers run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct ClusterSizing {
    /// Keys at a time.
    pub(super) keys: u64,
    /// Keys that are made a second.
    pub(super) made_per_second: u64,
    /// Keys that are changed a second, the new ones included.
    pub(super) changed_per_second: u64,
    /// Keys that are read a second.
    pub(super) read_per_second: u64,
    /// Events a second.
    pub(super) events_per_second: f64,
    /// Bytes of the decisions that are kept.
    pub(super) journal_bytes: u64,
    /// Bytes a second between nodes and servers, and between these.
    pub(super) network_bytes_per_second: u64,
    /// The servers and nodes, by what the servers run.
    pub(super) engines: Vec<EngineSizing>,
}

/// The servers and nodes that a demand needs, if the servers run this.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct EngineSizing {
    /// The engine: `module`, `scripts`, or `disk`.
    pub(super) engine: &'static str,
    /// Bytes of a key.
    pub(super) key_bytes: f64,
    /// Bytes of one copy, as servers must have them.
    pub(super) bytes: u64,
    /// Bytes of all copies.
    pub(super) bytes_of_all: u64,
    /// CPU time of all masters a second, in seconds.
    pub(super) cores: f64,
    /// Masters that the room asks for.
    pub(super) masters_by_room: u64,
    /// Masters that the time asks for.
    pub(super) masters_by_time: u64,
    /// Masters that reads of the disk ask for.
    pub(super) masters_by_reads: u64,
    /// Masters: a cluster has at least three.
    pub(super) masters: u64,
    /// Servers, replicas included.
    pub(super) servers: u64,
    /// CPU time of all nodes a second for their keys, in seconds.
    pub(super) node_cores: f64,
    /// Nodes: at least two.
    pub(super) nodes: u64,
    /// The arithmetic behind the figures, a line each, with the numbers in it.
    pub(super) arithmetic: Vec<String>,
}

/// Keys a second, by what is done to them.
#[derive(Clone, Copy)]
struct KeyRates {
    made: f64,
    /// Changed ones that are not new.
    changed: f64,
    read: f64,
}

fn days(span: Span) -> f64 {
    span.as_seconds_f64().max(0.0) / 86_400.0
}

/// A figure with three digits that say something, or all of those before the point.
fn shown(figure: f64) -> String {
    let mut decimals = 0;
    let mut scaled = figure.abs();
    while scaled > 0.0 && scaled < 100.0 && decimals < 9 {
        scaled *= 10.0;
        decimals += 1;
    }
    let text = format!("{figure:.decimals$}");
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

impl ClusterDemand {
    /// Applies the formula. Numbers that are too large stay at the largest.
    pub(super) fn sizing(&self) -> ClusterSizing {
        let keys = self.keys_per_day as f64 * (days(self.keep) + 1.0);
        let updates = self.updates_per_second as f64;
        let made = (self.keys_per_day as f64 / 86_400.0).min(updates);
        let others = updates - made;
        let rates = KeyRates {
            made,
            changed: others * (1.0 - self.summed.clamp(0.0, 1.0)),
            read: made + others * self.missed.clamp(0.0, 1.0),
        };
        let events = updates / self.keys_per_event.max(1) as f64;
        let copies = self.replication.max(1) as f64;
        let changes = rates.made + rates.changed;
        ClusterSizing {
            keys: keys.ceil() as u64,
            made_per_second: made.round() as u64,
            changed_per_second: changes.round() as u64,
            read_per_second: rates.read.round() as u64,
            events_per_second: events,
            journal_bytes: (events * self.decision_bytes as f64 * 86_400.0 * days(self.journal_keep)) as u64,
            network_bytes_per_second: ((changes * copies + rates.read) * WIRE_BYTES) as u64,
            engines: SERVER_ENGINES.iter().map(|engine| self.on(engine, keys, rates)).collect(),
        }
    }

    fn on(&self, engine: &ServerEngine, keys: f64, rates: KeyRates) -> EngineSizing {
        let key_bytes = self.bytes_per_key.map_or(engine.key_bytes, |bytes| bytes as f64);
        let bytes = keys * key_bytes * FRAGMENTATION / FILL;
        let cores =
            (rates.made * engine.made + rates.changed * engine.changed + rates.read * engine.read) / 1e6;
        let room = if engine.is_on_disk { self.disk_bytes } else { self.server_bytes };
        let masters_by_room = (bytes / room.max(1) as f64).ceil() as u64;
        let masters_by_time = (cores / BUSY).ceil() as u64;
        let masters_by_reads = if engine.is_on_disk { (rates.read / DISK_READS).ceil() as u64 } else { 0 };
        let masters = masters_by_room.max(masters_by_time).max(masters_by_reads).max(3);
        let copies = self.replication.max(1);
        let node_cores = self.updates_per_second as f64 * engine.at_node / 1e6;
        let servers = masters.saturating_mul(copies);
        let nodes = ((node_cores / BUSY / self.node_cores.max(1) as f64).ceil() as u64).max(2);
        let gib = |bytes: f64| shown(bytes / (1u64 << 30) as f64);
        let KeyRates { made, changed, read } = rates;
        let [made, changed, read] = [made, changed, read].map(shown);
        let mut arithmetic = vec![
            format!(
                "room: {keys:.0} keys x {key_bytes:.0} bytes x {FRAGMENTATION} / {FILL} = {} GiB; / {} GiB a server = \
                 {masters_by_room} masters",
                gib(bytes),
                gib(room.max(1) as f64)
            ),
            format!(
                "time: {made} keys made x {} us + {changed} others changed x {} us + {read} read x {} us = {} cores a \
                 second; / {BUSY} = {masters_by_time} masters",
                engine.made,
                engine.changed,
                engine.read,
                shown(cores)
            ),
        ];
        if engine.is_on_disk {
            arithmetic.push(format!(
                "reads: {read} keys read / {DISK_READS:.0} a disk = {masters_by_reads} masters"
            ));
        }
        arithmetic.extend([
            format!("servers: {masters} masters, the most of these and 3, x {copies} copies = {servers}"),
            format!(
                "nodes: {} updates x {} us = {} cores a second; / {BUSY} / {} cores a node = {nodes}, at least 2",
                self.updates_per_second,
                engine.at_node,
                shown(node_cores),
                self.node_cores.max(1)
            ),
        ]);
        EngineSizing {
            engine: engine.name,
            key_bytes,
            bytes: bytes.ceil() as u64,
            bytes_of_all: (bytes * copies as f64).ceil() as u64,
            cores,
            masters_by_room,
            masters_by_time,
            masters_by_reads,
            masters,
            servers,
            node_cores,
            nodes,
            arithmetic,
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum;

    use super::*;

    fn demand() -> ClusterDemand {
        ClusterDemand {
            keys_per_day: 86_400_000,
            updates_per_second: 5000,
            keep: Span::days(9),
            bytes_per_key: Some(100),
            server_bytes: 10_000_000_000,
            disk_bytes: 100_000_000_000,
            summed: 0.5,
            missed: 0.1,
            keys_per_event: 10,
            node_cores: 1,
            decision_bytes: 200,
            journal_keep: Span::days(10),
            ..ClusterDemand::default()
        }
    }

    #[test]
    fn it_is_the_formula() {
        let sizing = demand().sizing();
        assert_eq!((sizing.keys, sizing.made_per_second), (864_000_000, 1000));
        assert_eq!((sizing.changed_per_second, sizing.read_per_second), (3000, 1400));
        // 500 events of 200 bytes for ten days; (3,000 in two copies, and 1,400) of 48 bytes.
        assert_eq!((sizing.journal_bytes, sizing.network_bytes_per_second), (86_400_000_000, 355_200));
        let [module, scripts, disk] = &sizing.engines[..] else { panic!("{:?}", sizing.engines) };
        for of in [module, scripts] {
            // 86.4 GB, and 1.15 / 0.75 of it.
            assert_eq!(of.bytes / 1_000_000, 132_480);
            assert_eq!((of.masters_by_room, of.masters, of.servers), (14, 14, 28));
        }
        assert_eq!((disk.masters_by_room, disk.masters_by_reads, disk.masters), (2, 1, 3));
        let micros = |of: &EngineSizing| (of.cores * 1e6).round() as u64;
        assert_eq!((micros(module), micros(scripts)), (500 + 580 + 182, 6100 + 13_600 + 5460));
        assert_eq!((module.nodes, (module.node_cores * 1e6).round()), (2, 18_500.0));
    }

    #[test]
    fn figures_keep_what_they_say() {
        for (figure, text) in
            [(0.0, "0"), (64.0, "64"), (0.1157, "0.116"), (18_657.19, "18657"), (99.96, "100"), (1e-12, "0")]
        {
            assert_eq!(shown(figure), text);
        }
    }

    #[test]
    fn it_takes_any_numbers() {
        let most = ClusterDemand {
            keys_per_day: u64::MAX,
            updates_per_second: u64::MAX,
            keep: Span::MAX,
            replication: u64::MAX,
            bytes_per_key: Some(u64::MAX),
            server_bytes: 0,
            summed: f64::NAN,
            missed: 7.0,
            keys_per_event: 0,
            node_cores: 0,
            decision_bytes: u64::MAX,
            journal_keep: Span::MAX,
            ..demand()
        };
        let sizing = most.sizing();
        assert_eq!((sizing.engines[0].servers, sizing.journal_bytes), (u64::MAX, u64::MAX));
        let none = ClusterDemand { keys_per_day: 0, updates_per_second: 0, ..demand() };
        assert!(none.sizing().engines.iter().all(|of| (of.servers, of.nodes) == (6, 2)), "the least");
    }

    #[test]
    fn published_systems_need_most_where_servers_run_scripts() {
        for system in PublishedSystem::value_variants() {
            let sizing = system.demand().sizing();
            let [module, scripts, disk] = &sizing.engines[..] else { panic!("{system:?}") };
            assert!(module.servers <= scripts.servers && module.nodes <= scripts.nodes, "{system:?}");
            assert!(disk.masters_by_room <= scripts.masters_by_room, "{system:?}");
        }
        let mail = PublishedSystem::MailCounters.demand().sizing();
        // 13 billion a day for 15 days, 225 bytes, 64 GiB a server.
        assert_eq!((mail.keys, mail.engines[1].servers), (195_000_000_000, 979 * 3));
        assert_eq!(PublishedSystem::Antifraud.demand().sizing().keys, 200_000_000);
    }
}
