//! Savings of a node for its cluster and its callers: messages and batches of events over many keys, by nodes whose
//! caches are warm, beside two clients that keep nothing and ask for each key of each event. For people, one command:
//!
//! ```sh
//! cargo test --release -p tollhouse-cluster --test it -- --ignored --nocapture --test-threads 1 traffic
//! ```
//!
//! `TRAFFIC_KEYS` (a million), `TRAFFIC_SECONDS` (6, of each run), `TRAFFIC_NODES` (4) and `TRAFFIC_HISTORY` (0; the spans of ten
//! minutes before, in each of which the most frequent keys were seen) say how much.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use cluster::wire::{WireClient, WireSettings};
use cluster::{Cluster as Node, ThreadedEnvironment};
use disk::FileDevice;
use event::{Key, Kind, Shingle, Time};
use redis::Connection;
use sim::suite::{SPACE, add, request, statistic, windows};
use stats::random::Random;
use stats::workload::{KeyDistribution, KeySource};
use stats::{Catalog, Ledger, ObserveRequest};
use tempfile::TempDir;

use crate::figures::{cpu, own_cpu, slot};
use crate::servers::{Cluster, with_module};

const SEEN: Kind = Kind(1);
/// Draws that callers go round.
const DRAWS: usize = 1 << 22;
/// The number of keys, the most frequent ones, that have a history if any have.
const HISTORY_KEYS: usize = 5_000;
/// Connections of a client that keeps nothing, to each master.
const CONNECTIONS: usize = 8;

fn setting(name: &str, usual: u64) -> u64 {
    std::env::var(name).map_or(usual, |value| value.parse().expect("a number"))
}

fn now() -> Time {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    Time(i64::try_from(since.as_micros()).unwrap())
}

fn key(rank: u32) -> Key {
    // Odd, so no two ranks are one key.
    Key { space: SPACE, kind: SEEN, shingle: Shingle(u64::from(rank).wrapping_mul(0x9e37_79b9_7f4a_7c15)) }
}

fn catalog() -> Catalog {
    let mut builder = Catalog::builder();
    let measure = windows(&["seen"], &["10m x 144", "1d x 14"], &["1h", "1d"], None);
    builder.add(SPACE, SEEN, statistic("mass", "from", measure)).unwrap();
    builder.build()
}

/// Events of so many keys, so many in a call, and so many calls at once.
#[derive(Clone, Copy)]
struct Workload {
    keys: usize,
    events: usize,
    callers: usize,
}

/// The ranks that a caller's events have, one after the other.
struct Draws {
    all: Arc<Vec<u32>>,
    at: usize,
    /// The ranks that it may draw: those that leave this rest when they are divided by this.
    share: (u32, u32),
    /// The number of times that the most frequent key was among them.
    first: u64,
}

impl Draws {
    fn next(&mut self) -> u32 {
        loop {
            let rank = self.all[self.at % DRAWS];
            self.at += 1;
            if rank % self.share.1 == self.share.0 {
                self.first += u64::from(rank == 0);
                return rank;
            }
        }
    }
}

/// The cost of one way of counting.
struct Run {
    name: String,
    events: f64,
    sent: u64,
    made: u64,
    seconds: f64,
    own: f64,
    servers: f64,
    calls: Vec<Duration>,
    /// The cells that nodes have read and the changes of cells that they have sent.
    cells: [u64; 2],
}

struct Bench {
    cluster: Cluster,
    servers: Vec<Connection>,
    draws: Arc<Vec<u32>>,
    keys: u64,
    time: Duration,
    workload: Workload,
}

/// A node, and its way to the servers.
struct OpenNode {
    node: Node,
    wire: WireClient,
    _directory: TempDir,
}

impl Bench {
    fn new(workload: Workload) -> Option<Bench> {
        let cluster = Cluster::start()?;
        let url = |at: usize| format!("redis://{}/", cluster.servers[at].address());
        let connect = |at: usize| redis::Client::open(url(at)).unwrap().get_connection().unwrap();
        let servers = (0..cluster.servers.len()).map(connect).collect();
        let keys = setting("TRAFFIC_KEYS", 1_000_000);
        let time = Duration::from_secs(setting("TRAFFIC_SECONDS", 6));
        let mut source = KeySource::new(KeyDistribution::Zipf { keys, exponent: 1.0 });
        let mut random = Random::new(1);
        let draws = (0..DRAWS).map(|_| u32::try_from(source.draw(&mut random)).unwrap()).collect();
        Some(Bench { cluster, servers, draws: Arc::new(draws), keys, time, workload })
    }

    fn draws(&self, caller: usize) -> Draws {
        Draws { all: self.draws.clone(), at: caller * (DRAWS / 16), share: (0, 1), first: 0 }
    }

    fn open(&self, number: u8) -> OpenNode {
        let directory = TempDir::new().unwrap();
        let device = Arc::new(FileDevice::open(directory.path()).unwrap());
        let threads = Arc::new(ThreadedEnvironment::new(2).unwrap());
        let settings =
            WireSettings { replicas: 0, ..WireSettings::new(self.cluster.addresses(), [number; 16]) };
        let runtime = threads.handle().unwrap();
        let wire = runtime.block_on(WireClient::open(settings.clone(), runtime.clone())).unwrap();
        let options = cluster::ClusterSettings {
            durability: "1s".parse().unwrap(),
            cache_bytes: 1 << 30,
            ..cluster::ClusterSettings::new(settings.partitions)
        };
        let node = Node::open(Arc::new(wire.clone()), device, catalog(), options, threads).unwrap();
        OpenNode { node, wire, _directory: directory }
    }

    /// Has a node see each key, and send what it has; twice, as before anything is there nobody says who wrote it. The most
    /// frequent keys have a history.
    fn warm(&self, opened: &OpenNode) {
        let ranks: Vec<u32> = (0..u32::try_from(self.keys).unwrap()).collect();
        let frequent = ranks.len().min(HISTORY_KEYS);
        let steps = (1..=setting("TRAFFIC_HISTORY", 0) as i64).rev();
        let ages = steps.map(|step| (step * 600_000_000, frequent)).chain([(0, ranks.len()); 2]);
        for (age, count) in ages {
            for ranks in ranks[..count].chunks(10_000) {
                let time = Time(now().0 - age);
                let event = |ranks: &[u32]| {
                    request(ranks.iter().map(|rank| add(key(*rank), time, [(0, 1)])).collect())
                };
                let events: Vec<ObserveRequest> = ranks.chunks(self.workload.keys).map(event).collect();
                pollster::block_on(opened.node.observe(&events)).unwrap();
            }
            let settled = || {
                let metrics = opened.node.metrics();
                metrics.pending_bytes == 0 && metrics.waiting_partitions == 0
            };
            crate::servers::wait("a node is warm", settled);
        }
    }

    /// Commands that masters have made, those of scripts among them.
    fn made(&mut self) -> u64 {
        let masters = self.cluster.masters();
        let of = |server: &mut Connection| {
            let info: String = redis::cmd("INFO").arg("commandstats").query(server).unwrap();
            let calls = info.lines().filter_map(|line| line.split_once(":calls=")?.1.split(',').next());
            calls.map(|calls| calls.parse::<u64>().unwrap()).sum::<u64>()
        };
        masters.into_iter().map(|at| of(&mut self.servers[at])).sum()
    }

    fn cpu_of_all(&mut self) -> f64 {
        self.servers.iter_mut().map(cpu).sum::<f64>() / 1e6
    }

    /// Has callers call until the time is over; each call says how many commands it has sent.
    fn run<'a>(
        &mut self,
        name: &str,
        events_a_call: f64,
        callers: Vec<Box<dyn FnMut() -> u64 + Send + 'a>>,
        mut after: impl FnMut() -> u64,
    ) -> Run {
        let (own, servers, made) = (own_cpu(), self.cpu_of_all(), self.made());
        let (begun, time) = (Instant::now(), self.time);
        let (mut calls, mut sent) = (Vec::new(), 0);
        std::thread::scope(|scope| {
            let callers = callers.into_iter().map(|mut call| {
                scope.spawn(move || {
                    let (mut calls, mut sent) = (Vec::new(), 0);
                    while begun.elapsed() < time {
                        let called = Instant::now();
                        sent += call();
                        calls.push(called.elapsed());
                    }
                    (calls, sent)
                })
            });
            for caller in callers.collect::<Vec<_>>() {
                let (more, commands) = caller.join().unwrap();
                calls.extend(more);
                sent += commands;
            }
        });
        sent += after();
        let seconds = begun.elapsed().as_secs_f64();
        calls.sort_unstable();
        Run {
            name: name.to_owned(),
            events: events_a_call * calls.len() as f64,
            sent,
            made: self.made() - made,
            seconds,
            own: own_cpu() - own,
            servers: self.cpu_of_all() - servers,
            calls,
            cells: [0; 2],
        }
    }

    /// Nodes and their callers: they share all keys, or each has its own.
    fn nodes(&mut self, name: &str, nodes: &[OpenNode], is_shared: bool) -> Run {
        let Workload { keys, events, callers } = self.workload;
        let sent =
            || nodes.iter().map(|each| each.wire.counters().commands.load(Ordering::Relaxed)).sum::<u64>();
        let mut draws: Vec<Draws> = (0..callers).map(|caller| self.draws(caller)).collect();
        if !is_shared {
            for (caller, draws) in draws.iter_mut().enumerate() {
                draws.share = ((caller % nodes.len()) as u32, nodes.len() as u32);
            }
        }
        let each = draws.iter_mut().enumerate().map(|(caller, draws)| {
            let node = &nodes[caller % nodes.len()].node;
            Box::new(move || {
                let time = now();
                let event = |draws: &mut Draws| {
                    request((0..keys).map(|_| add(key(draws.next()), time, [(0, 1)])).collect())
                };
                let requests: Vec<ObserveRequest> = (0..events).map(|_| event(draws)).collect();
                pollster::block_on(node.observe(&requests)).unwrap();
                0u64
            }) as Box<dyn FnMut() -> u64 + Send>
        });
        let callers = each.collect();
        let before = sent();
        let settle = || {
            let settled = |each: &OpenNode| {
                let metrics = each.node.metrics();
                metrics.pending_bytes == 0 && metrics.waiting_partitions == 0
            };
            crate::servers::wait("all of it is sent", || nodes.iter().all(settled));
            sent() - before
        };
        let hot = self.hot(nodes);
        let cells = || {
            let of = |each: &OpenNode| [each.node.metrics().reads, each.node.metrics().writes];
            nodes.iter().map(of).fold([0; 2], |sum, of| [sum[0] + of[0], sum[1] + of[1]])
        };
        let cells_before = cells();
        let mut run = self.run(name, events as f64, callers, settle);
        run.cells = [cells()[0] - cells_before[0], cells()[1] - cells_before[1]];
        let added = draws.iter().map(|draws| draws.first).sum::<u64>();
        assert_eq!(self.hot(nodes), hot + added, "what was added to one key is there");
        run
    }

    /// Returns the number of times that the most frequent key was counted, as a node says that has never asked before.
    fn hot(&self, nodes: &[OpenNode]) -> u64 {
        let asking = self.open(100 + nodes.len() as u8);
        let timeline = pollster::block_on(asking.node.timeline(key(0))).unwrap();
        timeline.map_or(0, |timeline| timeline.buckets.iter().map(|bucket| bucket.counts[0]).sum())
    }

    fn connections(&self) -> Vec<Connection> {
        // As `redis-cli --cluster create` divides slots.
        let url = |at: usize| format!("redis://{}/", self.cluster.servers[at].address());
        (0..3).map(|at| redis::Client::open(url(at)).unwrap().get_connection().unwrap()).collect()
    }

    /// One read and one write a key, one command at a time on each of some connections, which share a batch.
    fn one_by_one(&mut self) -> Run {
        let Workload { keys, events, .. } = self.workload;
        let share = if events > 1 { CONNECTIONS } else { 1 };
        let each = (0..CONNECTIONS).map(|caller| {
            let (mut draws, mut servers) = (self.draws(caller), self.connections());
            Box::new(move || {
                let count = keys * events / share;
                for _ in 0..count {
                    let (name, master) = named(draws.next());
                    let server = &mut servers[master];
                    redis::cmd("GET").arg(&name).query::<Option<u64>>(server).unwrap();
                    redis::cmd("INCR").arg(&name).query::<u64>(server).unwrap();
                }
                2 * count as u64
            }) as Box<dyn FnMut() -> u64 + Send>
        });
        let callers = each.collect();
        self.run("one command at a time", events as f64 / share as f64, callers, || 0)
    }

    /// Runs one read and one write a key, but with all commands of a call in one pipeline to each master.
    fn pipelined(&mut self) -> Run {
        let Workload { keys, events, callers } = self.workload;
        let each = (0..callers).map(|caller| {
            let (mut draws, mut servers) = (self.draws(caller), self.connections());
            Box::new(move || {
                let mut pipelines = [redis::pipe(), redis::pipe(), redis::pipe()];
                for _ in 0..keys * events {
                    let (name, master) = named(draws.next());
                    pipelines[master].cmd("GET").arg(&name).cmd("INCR").arg(&name);
                }
                // All are sent before the first is waited for.
                for (pipeline, server) in pipelines.iter().zip(&mut servers) {
                    if !pipeline.is_empty() {
                        server.send_packed_command(&pipeline.get_packed_pipeline()).unwrap();
                    }
                }
                for (pipeline, server) in pipelines.iter().zip(&mut servers) {
                    (0..pipeline.len()).for_each(|_| drop(server.recv_response().unwrap()));
                }
                2 * (keys * events) as u64
            }) as Box<dyn FnMut() -> u64 + Send>
        });
        let callers = each.collect();
        self.run("one pipeline a call", events as f64, callers, || 0)
    }

    /// Makes the keys of clients that keep nothing, so that none is new.
    fn make_names(&self) {
        let mut servers = self.connections();
        for from in (0..self.keys).step_by(10_000) {
            let mut pipelines = [redis::pipe(), redis::pipe(), redis::pipe()];
            for rank in from..(from + 10_000).min(self.keys) {
                let (name, master) = named(u32::try_from(rank).unwrap());
                pipelines[master].cmd("INCR").arg(name).ignore();
            }
            for (pipeline, server) in pipelines.iter().zip(&mut servers) {
                pipeline.query::<()>(server).unwrap();
            }
        }
    }
}

/// The name of a key as it is often given, and the master that has it.
fn named(rank: u32) -> (String, usize) {
    let name = format!("from:{:016x}:2916666", key(rank).shingle.0);
    let master = match slot(&name) {
        0..=5460 => 0,
        5461..=10_922 => 1,
        _ => 2,
    };
    (name, master)
}

fn print(runs: &[Run], keys: usize) {
    println!(
        "| | events a second | thousand keys a second | commands sent for a thousand keys | made by masters | \
         cells read | changes sent | CPU of the client, us an event | of all servers | p50 of a call, ms | p99 |\n\
         |---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|"
    );
    for Run { name, events, sent, made, seconds, own, servers, calls, cells } in runs {
        let thousands = events * keys as f64 / 1e3;
        let call = |share: usize| calls[(calls.len() - 1) * share / 100].as_secs_f64() * 1e3;
        println!(
            "| {name} | {:.0} | {:.1} | {:.1} | {:.0} | {:.0} | {:.0} | {:.1} | {:.1} | {:.2} | {:.2} |",
            events / seconds,
            thousands / seconds,
            *sent as f64 / thousands,
            *made as f64 / thousands,
            cells[0] as f64 / thousands,
            cells[1] as f64 / thousands,
            own * 1e6 / events,
            servers * 1e6 / events,
            call(50),
            call(99)
        );
    }
}

fn measure(workload: Workload) {
    let Some(mut bench) = Bench::new(workload) else { return };
    let mut nodes = vec![bench.open(1)];
    bench.warm(&nodes[0]);
    let mut runs = vec![bench.nodes("a node", &nodes, true)];
    let metrics = nodes[0].node.metrics();
    println!("a node: {metrics:?}");
    nodes.push(bench.open(2));
    bench.warm(&nodes[1]);
    runs.push(bench.nodes("two nodes, all keys of both", &nodes, true));
    drop(nodes);
    bench.make_names();
    runs.push(bench.one_by_one());
    runs.push(bench.pipelined());
    print(&runs, workload.keys);
    let [ours, _, one_by_one, pipelined] = &runs[..] else { return };
    let sent = |run: &Run| run.sent as f64 / run.events;
    let speed = |run: &Run| run.events / run.seconds;
    println!(
        "a node: {:.0} times fewer commands; {:.1} times the throughput of one command at a time, {:.2} of pipelines",
        sent(one_by_one) / sent(ours),
        speed(ours) / speed(one_by_one),
        speed(ours) / speed(pipelined)
    );
}

/// A message has forty keys.
#[test]
#[ignore = "prints figures for people"]
fn shingler() {
    measure(Workload { keys: 40, events: 1, callers: 8 });
}

/// A batch has 5,000 events of twelve keys.
#[test]
#[ignore = "prints figures for people"]
fn antifraud() {
    measure(Workload { keys: 12, events: 5000, callers: 2 });
}

/// One to four nodes over servers with the module: each has its own keys, or all have all.
#[test]
#[ignore = "prints figures for people"]
fn nodes() {
    with_module(|| {
        let Some(mut bench) = Bench::new(Workload { keys: 40, events: 1, callers: 12 }) else { return };
        let (mut nodes, mut runs) = (Vec::new(), Vec::new());
        for number in 1..=setting("TRAFFIC_NODES", 4) as u8 {
            nodes.push(bench.open(number));
            bench.warm(&nodes[nodes.len() - 1]);
            for (keys, is_shared) in [("keys of its own", false), ("all keys", true)] {
                runs.push(bench.nodes(&format!("{number} nodes, each with {keys}"), &nodes, is_shared));
            }
        }
        print(&runs, 40);
    });
}
