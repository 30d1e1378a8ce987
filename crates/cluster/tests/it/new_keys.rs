//! Events of twelve keys, nearly all of them new: what they cost a node, and six servers that keep their cells by scripts, or by
//! the module, beside a pipeline of `HINCRBY` and `EXPIRE`. For people, one command:
//!
//! ```sh
//! cargo test --release -p tollhouse-cluster --test it -- --ignored --nocapture --test-threads 1 new_keys
//! ```
//!
//! `NEW_KEYS_EVENTS` (50,000) says how much.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use cluster::wire::{WireClient, WireSettings};
use cluster::{Cluster as Node, ThreadedEnvironment};
use disk::FileDevice;
use event::{Key, Kind, Shingle, Time};
use redis::Connection;
use sim::suite::{SPACE, add, request, statistic, windows};
use stats::{Catalog, Ledger, ObserveRequest};
use tempfile::TempDir;

use crate::figures::{cpu, own_cpu, slot, used};
use crate::servers::{Cluster, wait, with_module};
use crate::support::Random;

const SEEN: Kind = Kind(1);
const KEYS: usize = 12;
/// Events of a call.
const CALL: usize = 5000;

fn events() -> usize {
    std::env::var("NEW_KEYS_EVENTS").map_or(50_000, |events| events.parse().expect("a number"))
}

fn now() -> Time {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    Time(i64::try_from(since.as_micros()).unwrap())
}

struct Servers {
    cluster: Cluster,
    connections: Vec<Connection>,
}

impl Servers {
    fn start() -> Option<Servers> {
        let cluster = Cluster::start()?;
        let url = |at: usize| format!("redis://{}/", cluster.servers[at].address());
        let connect = |at: usize| redis::Client::open(url(at)).unwrap().get_connection().unwrap();
        let connections = (0..cluster.servers.len()).map(connect).collect();
        Some(Servers { cluster, connections })
    }

    /// CPU time of masters, and of all.
    fn cpu(&mut self) -> (f64, f64) {
        let masters = self.cluster.masters();
        let each: Vec<f64> = self.connections.iter_mut().map(|server| cpu(server) / 1e6).collect();
        (masters.iter().map(|at| each[*at]).sum(), each.iter().sum())
    }

    /// Memory of masters.
    fn used(&mut self) -> i64 {
        let masters = self.cluster.masters();
        masters.iter().map(|at| used(&mut self.connections[*at])).sum()
    }
}

/// One way of counting: its name, and what a million events cost.
fn tell(name: &str, servers: &mut Servers, keys: usize, mut count: impl FnMut(&mut Servers)) {
    let (own, before, used) = (own_cpu(), servers.cpu(), servers.used());
    count(servers);
    // Who follows has followed.
    std::thread::sleep(Duration::from_secs(2));
    let (own, after) = (own_cpu() - own, servers.cpu());
    let a_million = 1e6 * KEYS as f64 / keys as f64;
    println!(
        "| {name} | {:.1} | {:.1} | {:.1} | {:.0} |",
        own * a_million,
        (after.0 - before.0) * a_million,
        (after.1 - before.1) * a_million,
        (servers.used() - used) as f64 / keys as f64,
    );
}

fn node(name: &str) {
    let Some(mut servers) = Servers::start() else { return };
    let directory = TempDir::new().unwrap();
    let device = Arc::new(FileDevice::open(directory.path()).unwrap());
    let threads = Arc::new(ThreadedEnvironment::new(2).unwrap());
    let settings = WireSettings { replicas: 0, ..WireSettings::new(servers.cluster.addresses(), [1; 16]) };
    let runtime = threads.handle().unwrap();
    let wire = runtime.block_on(WireClient::open(settings.clone(), runtime.clone())).unwrap();
    let options = cluster::ClusterSettings {
        durability: "1s".parse().unwrap(),
        within: Duration::from_secs(10),
        ..cluster::ClusterSettings::new(settings.partitions)
    };
    let mut builder = Catalog::builder();
    let measure = windows(&["seen"], &["10m x 144", "1d x 14"], &["1h", "1d"], None);
    builder.add(SPACE, SEEN, statistic("mass", "from", measure)).unwrap();
    let node = Node::open(Arc::new(wire), device, builder.build(), options, threads).unwrap();
    let mut random = Random(9);
    let mut observe = |events: usize| {
        let time = now();
        let key = |random: &mut Random| Key { space: SPACE, kind: SEEN, shingle: Shingle(random.next()) };
        let event = |_| request((0..KEYS).map(|_| add(key(&mut random), time, [(0, 1)])).collect());
        let requests: Vec<ObserveRequest> = (0..events).map(event).collect();
        pollster::block_on(node.observe(&requests)).unwrap();
    };
    let settle = || {
        wait("all of it is sent", || {
            let metrics = node.metrics();
            metrics.pending_bytes == 0 && metrics.waiting_partitions == 0
        });
    };
    // The names of numbers and tables are there.
    observe(CALL);
    settle();
    let calls = events() / CALL;
    tell(name, &mut servers, calls * CALL * KEYS, |_| {
        (0..calls).for_each(|_| observe(CALL));
        settle();
    });
}

/// A hash a key, with a field for the bucket.
fn pipelines() {
    let Some(mut servers) = Servers::start() else { return };
    let keys = events() / CALL * CALL * KEYS;
    let mut random = Random(9);
    tell("a pipeline of `HINCRBY` and `EXPIRE`", &mut servers, keys, |servers| {
        let owners: Vec<usize> = (0..16_384).map(|slot| slot * 3 / 16_384).collect();
        let masters: BTreeMap<usize, usize> = [0u16, 6000, 12_000]
            .into_iter()
            .map(|slot| (usize::from(slot) * 3 / 16_384, servers.cluster.master_of(slot)))
            .collect();
        for _ in 0..keys / (CALL * KEYS) {
            let mut pipes: BTreeMap<usize, redis::Pipeline> = BTreeMap::new();
            for _ in 0..CALL * KEYS {
                let name = format!("tollhouse:from:{:016x}", random.next());
                // Slots are divided evenly, but for those at the borders.
                let at = usize::from(slot(&name));
                if at % 5461 < 3 {
                    continue;
                }
                let pipe = pipes.entry(masters[&owners[at]]).or_default();
                pipe.cmd("HINCRBY").arg(&name).arg("2916666").arg(1).ignore();
                pipe.cmd("EXPIRE").arg(&name).arg(86_400 * 15).ignore();
            }
            for (at, pipe) in pipes {
                pipe.query::<()>(&mut servers.connections[at]).unwrap();
            }
        }
    });
}

#[test]
#[ignore = "prints figures for people"]
fn cost() {
    println!(
        "| a million events of {KEYS} new keys | client, core-seconds | masters | all six servers | bytes a key in a copy |"
    );
    println!("|---|--:|--:|--:|--:|");
    node("a node, scripts");
    with_module(|| node("a node, the module"));
    pipelines();
}
