//! Whole nodes, each a process of its own, over six servers, while either fail. Nodes say what they are about to add and
//! what was acknowledged; in the end the cluster has to have all that was acknowledged, and nothing twice.
//!
//! Each fault takes some seconds. `FAULT_ROUNDS=10` goes through all of them ten times, `FAULT=slots` through those whose
//! names have it.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use cluster::remote::PartitionCount;
use cluster::wire::{WireClient, WireSettings};
use cluster::{Cluster as Node, ThreadedEnvironment};
use disk::FileDevice;
use event::Time;
use sim::suite::{MASS, add, catalog, key, request};
use stats::random::Random;
use stats::{Ledger, Quality};

use crate::proxy::{Network, Proxy};
use crate::reshard::{join, leave, move_slots, slots_of};
use crate::servers::{Cluster, wait};

/// Keys that nodes add to.
const KEYS: u64 = 300;
/// Keys of one event.
const EACH: u64 = 5;
/// The time for which nodes work before a fault, and after it.
const QUIET: Duration = Duration::from_millis(1200);

/// The time for which nodes wait for the cluster.
const WITHIN: Duration = Duration::from_millis(250);

fn now() -> Time {
    Time::from_seconds(1_750_000_000)
}

/// A node over the servers of a cluster, with its files in a directory.
fn open(servers: &str, reach: &str, prefix: &str, directory: &Path, within: Duration) -> Node {
    let device = Arc::new(FileDevice::open(directory).unwrap());
    let identity = cluster::identity(&*device).unwrap();
    let threads = Arc::new(ThreadedEnvironment::new(2).unwrap());
    let reach = reach.split(',').filter_map(|pair| pair.split_once('='));
    let settings = WireSettings {
        prefix: prefix.to_owned(),
        replicas: 1,
        partitions: PartitionCount::new(64).unwrap(),
        reach: reach.map(|(from, to)| (from.to_owned(), to.to_owned())).collect(),
        ..WireSettings::new(servers.split(',').map(str::to_owned).collect(), identity)
    };
    let partitions = settings.partitions;
    let runtime = threads.handle().unwrap();
    let wire = runtime.block_on(WireClient::open(settings, runtime.clone())).unwrap();
    let settings = cluster::ClusterSettings {
        within,
        flush_every: Duration::from_millis(200),
        fresh_for: Duration::from_millis(100),
        stale_for: Duration::from_millis(500),
        ..cluster::ClusterSettings::new(partitions)
    };
    Node::open(Arc::new(wire), device, catalog(), settings, threads).unwrap()
}

/// A node's process: adds until it is told to end.
#[test]
#[ignore = "is started by the test of faults"]
fn node() {
    let Ok(directory) = std::env::var("NODE_DIRECTORY") else { return };
    let of = |name: &str| std::env::var(name).unwrap();
    let node =
        open(&of("NODE_SERVERS"), &of("NODE_REACH"), &of("NODE_PREFIX"), Path::new(&directory), WITHIN);
    let is_over = Arc::new(AtomicBool::new(false));
    let told = is_over.clone();
    std::thread::spawn(move || {
        let _ = std::io::stdin().read_line(&mut String::new());
        told.store(true, Ordering::SeqCst);
    });
    let mut random = Random::new(of("NODE_SEED").parse().unwrap());
    // What runs tests has begun a line.
    say("");
    while !is_over.load(Ordering::SeqCst) {
        let keys: Vec<u64> = (0..EACH).map(|_| random.below(KEYS)).collect();
        let names: Vec<String> = keys.iter().map(u64::to_string).collect();
        say(&format!("@try {}", names.join(" ")));
        let observations = keys.iter().map(|number| add(key(MASS, *number), now(), [(0, 1)])).collect();
        match pollster::block_on(node.observe(&[request(observations)])) {
            Ok(outcomes) => {
                let missing = outcomes.all().filter(|view| view.quality() == Quality::Missing).count();
                say(&format!("@ok {missing}"));
            }
            Err(_) => say("@no"),
        }
        std::thread::sleep(Duration::from_millis(3));
    }
    say(&format!("@drained {}", pollster::block_on(node.drain())));
}

/// One line in one piece.
fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(format!("{line}\n").as_bytes());
    let _ = out.flush();
}

/// The record of what is known of additions.
#[derive(Default)]
struct Oracle {
    tried: BTreeMap<u64, u64>,
    acknowledged: BTreeMap<u64, u64>,
    /// Events that were answered, with all readings or not, and refused.
    whole: u64,
    partial: u64,
    refused: u64,
    last_failure: Option<Instant>,
    drained: u64,
}

type SharedOracle = Arc<Mutex<Oracle>>;

fn lock(oracle: &SharedOracle) -> MutexGuard<'_, Oracle> {
    oracle.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A node's process, with what it says.
struct Process {
    child: Child,
    reader: Option<std::thread::JoinHandle<()>>,
}

/// The things that all nodes of a fault have in common.
struct Field<'a> {
    cluster: &'a mut Cluster,
    directory: PathBuf,
    prefix: String,
    reach: String,
    proxies: Vec<Proxy>,
    oracle: SharedOracle,
    nodes: Vec<Process>,
    seed: u64,
}

impl Field<'_> {
    fn start(&mut self, number: usize) -> Process {
        self.seed += 1;
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["nodes::node", "--exact", "--ignored", "--nocapture", "--test-threads", "1"]);
        command.env("NODE_DIRECTORY", self.directory.join(number.to_string()));
        command.env("NODE_SERVERS", self.cluster.addresses().join(","));
        command.env("NODE_REACH", &self.reach).env("NODE_PREFIX", &self.prefix);
        command.env("NODE_SEED", self.seed.to_string());
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let oracle = self.oracle.clone();
        let reader = std::thread::spawn(move || {
            let mut trying: Vec<u64> = Vec::new();
            for line in lines.map_while(Result::ok) {
                let mut words = line.split(' ');
                let mut oracle = lock(&oracle);
                match words.next() {
                    Some("@try") => {
                        trying = words.filter_map(|word| word.parse().ok()).collect();
                        trying.iter().for_each(|key| *oracle.tried.entry(*key).or_default() += 1);
                    }
                    Some("@ok") => {
                        trying.drain(..).for_each(|key| *oracle.acknowledged.entry(key).or_default() += 1);
                        if words.next() == Some("0") {
                            oracle.whole += 1;
                        } else {
                            oracle.partial += 1;
                            oracle.last_failure = Some(Instant::now());
                        }
                    }
                    Some("@no") => {
                        oracle.refused += 1;
                        oracle.last_failure = Some(Instant::now());
                    }
                    Some("@drained") => oracle.drained += u64::from(words.next() == Some("true")),
                    _ => {}
                }
            }
        });
        Process { child, reader: Some(reader) }
    }

    fn begin(&mut self, number: usize) {
        let process = self.start(number);
        self.nodes.insert(number, process);
    }

    fn kill_node(&mut self, number: usize) {
        let mut process = self.nodes.remove(number);
        process.child.kill().unwrap();
        process.child.wait().unwrap();
        process.reader.take().unwrap().join().unwrap();
    }

    fn signal_node(&self, number: usize, signal: &str) {
        let id = self.nodes[number].child.id().to_string();
        assert!(Command::new("kill").arg(format!("-{signal}")).arg(id).status().unwrap().success());
    }

    /// Until a replica has taken the place of this master.
    fn wait_for_another(&self, victim: usize) {
        let others = || self.cluster.masters().into_iter().filter(|at| *at != victim).count();
        wait("a replica is promoted", || others() == 3);
    }

    fn all(&self, arguments: &[&str]) {
        self.cluster.servers.iter().for_each(|server| drop(server.cli(arguments)));
    }
}

/// The fault that happens while nodes add.
struct Fault {
    name: &'static str,
    happens: fn(&mut Field<'_>),
}

const FAULTS: &[Fault] = &[
    Fault {
        name: "a master is killed",
        happens: |field| {
            let victim = field.cluster.masters()[0];
            field.cluster.servers[victim].signal("KILL");
            field.wait_for_another(victim);
            field.cluster.servers[victim].again();
        },
    },
    Fault {
        name: "a node is killed, twice",
        happens: |field| {
            for _ in 0..2 {
                field.kill_node(0);
                field.begin(0);
                std::thread::sleep(Duration::from_millis(700));
            }
        },
    },
    Fault {
        name: "a node and a master are killed",
        happens: |field| {
            let victim = field.cluster.masters()[1];
            field.cluster.servers[victim].signal("KILL");
            field.kill_node(1);
            field.wait_for_another(victim);
            field.begin(1);
            field.cluster.servers[victim].again();
        },
    },
    Fault {
        name: "a node is paused for 2 s",
        happens: |field| {
            field.signal_node(0, "STOP");
            std::thread::sleep(Duration::from_secs(2));
            field.signal_node(0, "CONT");
        },
    },
    Fault {
        name: "a master is paused, and comes back",
        happens: |field| {
            let victim = field.cluster.masters()[2];
            field.cluster.servers[victim].signal("STOP");
            field.wait_for_another(victim);
            field.cluster.servers[victim].signal("CONT");
        },
    },
    Fault {
        name: "memory is full for 2 s",
        happens: |field| {
            field.all(&["CONFIG", "SET", "maxmemory", "1"]);
            std::thread::sleep(Duration::from_secs(2));
            field.all(&["CONFIG", "SET", "maxmemory", "0"]);
        },
    },
    Fault {
        name: "scripts are flushed, ten times",
        happens: |field| {
            for _ in 0..10 {
                field.all(&["SCRIPT", "FLUSH"]);
                std::thread::sleep(Duration::from_millis(100));
            }
        },
    },
    Fault {
        name: "the network loses answers for 1 s, and is cut for 1 s",
        happens: |field| {
            for network in [Network::Deaf, Network::Cut, Network::Whole] {
                field.proxies.iter().for_each(|proxy| proxy.set(network));
                std::thread::sleep(Duration::from_secs(1));
            }
        },
    },
    Fault {
        name: "2,000 slots are moved",
        happens: |field| {
            let masters = field.cluster.masters();
            let slots = slots_of(field.cluster, masters[0], 2000);
            move_slots(field.cluster, masters[0], masters[1], &slots);
        },
    },
    Fault {
        name: "a shard joins, has 1,000 slots, and leaves",
        happens: |field| {
            let shard = join(field.cluster);
            let from = field.cluster.masters()[0];
            let slots = slots_of(field.cluster, from, 1000);
            move_slots(field.cluster, from, shard, &slots);
            std::thread::sleep(QUIET);
            move_slots(field.cluster, shard, from, &slots);
            leave(field.cluster, shard);
        },
    },
];

/// Returns the counts that the cluster has of each key.
fn counted(field: &Field<'_>) -> BTreeMap<u64, u64> {
    let directory = field.directory.join("reader");
    let node = open(&field.cluster.addresses().join(","), "", &field.prefix, &directory, 20 * WITHIN);
    let count = |number: u64| {
        let timeline = pollster::block_on(node.timeline(key(MASS, number))).unwrap();
        let buckets = timeline.into_iter().flat_map(|timeline| timeline.buckets);
        (number, buckets.map(|bucket| bucket.counts[0]).sum())
    };
    (0..KEYS).map(count).collect()
}

/// Has a fault happen while two nodes add, and checks what the cluster has then. Prints a row of a table.
fn suffer(cluster: &mut Cluster, fault: &Fault, number: usize, directory: &Path) {
    cluster.settle();
    let proxies: Vec<Proxy> = cluster.addresses().into_iter().map(Proxy::start).collect();
    let reach = cluster.addresses().into_iter().zip(&proxies);
    let reach: Vec<String> = reach.map(|(from, proxy)| format!("{from}={}", proxy.address)).collect();
    let mut field = Field {
        cluster,
        directory: directory.join(number.to_string()),
        prefix: format!("{number}:"),
        reach: reach.join(","),
        proxies,
        oracle: SharedOracle::default(),
        nodes: Vec::new(),
        seed: number as u64 * 100,
    };
    (0..2).for_each(|node| field.begin(node));
    wait("both nodes add", || lock(&field.oracle).whole > 20);
    std::thread::sleep(QUIET);
    let begun = Instant::now();
    (fault.happens)(&mut field);
    std::thread::sleep(QUIET);
    field.cluster.settle();
    for mut process in field.nodes.drain(..) {
        process.child.stdin.take().unwrap().write_all(b"end\n").unwrap();
        process.child.wait().unwrap();
        process.reader.take().unwrap().join().unwrap();
    }
    assert_eq!(lock(&field.oracle).drained, 2, "{}: both nodes have sent what they had", fault.name);
    let counts = counted(&field);
    let oracle = lock(&field.oracle);
    let of = |sums: &BTreeMap<u64, u64>, key: &u64| sums.get(key).copied().unwrap_or(0);
    let over = |count: &u64, of: u64| count.saturating_sub(of);
    let lost: u64 = counts.iter().map(|(key, count)| over(&of(&oracle.acknowledged, key), *count)).sum();
    let doubled: u64 = counts.iter().map(|(key, count)| over(count, of(&oracle.tried, key))).sum();
    let failure = oracle.last_failure.map_or(0.0, |last| last.saturating_duration_since(begun).as_secs_f64());
    println!(
        "| {} | {} | {lost} | {doubled} | {} | {} | {} | {failure:.1} s |",
        fault.name,
        oracle.acknowledged.values().sum::<u64>(),
        oracle.whole + oracle.partial,
        oracle.partial,
        oracle.refused,
    );
    assert_eq!((lost, doubled), (0, 0), "{}", fault.name);
}

#[test]
pub(crate) fn every_acknowledged_addition_counts_once() {
    let Some(mut cluster) = Cluster::start() else { return };
    let directory = tempfile::TempDir::new().unwrap();
    let rounds = std::env::var("FAULT_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(1);
    let wanted = std::env::var("FAULT").unwrap_or_default();
    println!(
        "| fault | acknowledged | lost | doubled | events answered | with missing readings | refused | failing for |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    let faults = (0..rounds).flat_map(|_| FAULTS).filter(|fault| fault.name.contains(&wanted));
    for (number, fault) in faults.enumerate() {
        suffer(&mut cluster, fault, number, directory.path());
    }
}

/// The first of the faults, and none of the additions that were acknowledged is lost.
pub(crate) fn a_killed_master_loses_nothing(cluster: &mut Cluster) {
    let directory = tempfile::TempDir::new().unwrap();
    suffer(cluster, &FAULTS[0], 0, directory.path());
}
