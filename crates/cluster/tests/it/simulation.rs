//! Several nodes over one cluster, with crashes and faults that follow from a seed, and an oracle that knows every
//! addition that was answered: in the end each of them is in the cluster exactly once, and each that was not answered at
//! most once.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cluster::remote::RemoteCluster;
use cluster::{Cluster, ClusterSettings};
use disk::MemoryDevice;
use event::{Key, Kind, Span};
use sim::suite::*;
use stats::limit::{GcraOperation, WindowTake};
use stats::random::Random;
use stats::{
    Addition, AggregateColumn, AggregateLayout, Catalog, Durability, Evidence, Ledger, LedgerError, Measure,
    Observation, ObserveRequest,
};

use crate::cloud::Cloud;
use crate::simulated::TaskSimulation;

const VISITOR: Kind = Kind(5);
const LEARNED: Kind = Kind(6);
const LIMIT: Kind = Kind(7);
const BUCKET: Kind = Kind(8);
/// Distinct values of a day.
const VALUES: Kind = Kind(9);
/// Counters of a day.
const DAY: Kind = Kind(10);
/// Marks of an hour.
const MARK: Kind = Kind(11);

/// Nothing expires in these.
fn forms() -> Catalog {
    let mut builder = Catalog::builder();
    let mut add = |kind, name: &str, measure| {
        builder.add(SPACE, kind, statistic(name, name, measure)).unwrap();
    };
    let aggregate =
        AggregateLayout::new(vec![AggregateColumn::Count, AggregateColumn::Sum], Span::days(30)).unwrap();
    add(VISITOR, "visitor", Measure::Aggregate(aggregate));
    add(LEARNED, "learned", Measure::evidence(Span::days(90)));
    add(LIMIT, "limit", Measure::limit(Span::hours(10), 10).unwrap());
    add(BUCKET, "bucket", Measure::gcra());
    add(VALUES, "values", Measure::distinct("1d x 2".parse().unwrap(), vec![]));
    add(DAY, "day", windows(&["seen"], &["1d x 3"], &["1d"], None));
    add(MARK, "mark", Measure::once(Span::hours(1)));
    builder.build()
}

/// The least and the most that may be kept of a key.
#[derive(Default)]
struct Oracle {
    counts: BTreeMap<Key, (u64, u64)>,
    /// Values of owners that were answered, and all that were sent.
    values: BTreeMap<Key, (Vec<u64>, Vec<u64>)>,
    /// Marks, each true once somebody was told that its request counts, or had counted.
    marks: BTreeMap<u64, bool>,
    answered: u64,
    failed: u64,
}

struct Node {
    number: u64,
    owner: u64,
    device: MemoryDevice,
    cluster: Option<Arc<Cluster>>,
}

struct Simulation {
    random: Random,
    simulated: Arc<TaskSimulation>,
    cloud: Arc<Cloud>,
    settings: ClusterSettings,
    nodes: Vec<Node>,
    oracle: Arc<Mutex<Oracle>>,
    next: u64,
    with_marks: bool,
}

const START: i64 = 1_000_000;

impl Simulation {
    fn new(seed: u64) -> Simulation {
        let mut random = Random::new(seed);
        let partitions = *random.pick(&[1, 4, 128]);
        let simulated = TaskSimulation::new(random.bits());
        let cloud = Cloud::new(partitions, random.bits());
        let settings = ClusterSettings {
            durability: Durability::Sync,
            flush_every: Duration::from_millis(1 + random.below(1000)),
            flush_bytes: *random.pick(&[1 << 10, 1 << 20]),
            batch_bytes_max: *random.pick(&[300, 3000, 16 << 20]),
            fresh_for: Duration::from_millis(random.below(1000)),
            stale_for: Duration::from_millis(1000 + random.below(5000)),
            within: Duration::from_millis(10 + random.below(300)),
            cache_bytes: *random.pick(&[4 << 10, 1 << 20]),
            segment_bytes: *random.pick(&[300, 10_000]),
            ..ClusterSettings::new(cloud.partitions())
        };
        let nodes = (0..1 + random.below(3))
            .map(|number| Node { number, owner: 0, device: MemoryDevice::new(), cluster: None })
            .collect();
        let with_marks = random.below(3) > 0;
        let oracle = Arc::default();
        Simulation { random, simulated, cloud, settings, nodes, oracle, next: 1, with_marks }
    }

    fn open(&mut self, at: usize) {
        self.next += 1;
        let owner = self.next;
        let node = &mut self.nodes[at];
        // Its calls end with it; what is under way in the cluster does not.
        let line: Arc<dyn RemoteCluster> = Arc::new(self.cloud.line(node.number, Some(self.simulated.of(0))));
        let device = Arc::new(node.device.clone());
        let environment = self.simulated.of(owner);
        let opened = Cluster::open(line, device, forms(), self.settings, environment).unwrap();
        (node.owner, node.cluster) = (owner, Some(Arc::new(opened)));
    }

    fn crash(&mut self, at: usize) {
        let seed = self.random.bits();
        let node = &mut self.nodes[at];
        self.simulated.kill(node.owner);
        node.device = node.device.crash(seed);
        node.cluster = None;
    }

    /// A request of some node, answered or not.
    fn send(&mut self) {
        let at = self.random.below(self.nodes.len() as u64) as usize;
        let Some(ledger) = self.nodes[at].cluster.clone() else { return };
        let owner = self.nodes[at].owner;
        let random = &mut self.random;
        let mark = (self.with_marks && random.one_in(3)).then(|| random.below(40));
        let mut observations = Vec::new();
        let mut counts = Vec::new();
        let mut values = Vec::new();
        for _ in 0..1 + random.below(5) {
            let time = at_time(random);
            let number = random.below(12);
            let amount = 1 + random.below(3);
            match mark {
                // Whoever has the mark adds one, and to nothing else.
                Some(mark) => observations.push(add(key(DAY, 1000 + mark), time, [(0, 1)])),
                None => match random.below(6) {
                    0 | 1 => {
                        observations.push(add(key(DAY, number), time, [(0, amount)]));
                        counts.push((key(DAY, number), amount));
                    }
                    2 => {
                        let key = key(VISITOR, number);
                        observations.push(Observation { key, time, add: Addition::Value(Some(7)) });
                        counts.push((key, 1));
                    }
                    3 => {
                        let key = key(LEARNED, number);
                        let evidence = Evidence { bad: amount as i64, good: 1, weight: -3 };
                        observations.push(Observation { key, time, add: Addition::Evidence(evidence) });
                        counts.push((key, amount));
                    }
                    4 => {
                        let key = key(LIMIT, number);
                        let take = WindowTake {
                            cost: amount,
                            limit: u64::MAX,
                            counts_all: random.one_in(2),
                            interpolated: false,
                        };
                        observations.push(Observation { key, time, add: Addition::Take(take) });
                        counts.push((key, amount));
                        let flow = GcraOperation::Take {
                            cost: 1_000_000,
                            burst: 30_000_000,
                            counts_all: random.one_in(2),
                        };
                        let key = Key { kind: BUCKET, ..key };
                        observations.push(Observation { key, time, add: Addition::Flow(flow) });
                    }
                    _ => {
                        let owner = key(VALUES, number);
                        let value = random.below(20);
                        observations.push(distinct(owner, time, value));
                        values.push((owner, value));
                    }
                },
            }
            if mark.is_some() {
                break;
            }
        }
        let time = event::Time::from_seconds(START);
        let once = mark.map(|mark| stats::DedupeMark { key: key(MARK, mark), time });
        let request = ObserveRequest { once, observations, ..ObserveRequest::default() };
        {
            let mut oracle = self.oracle.lock().unwrap();
            counts.iter().for_each(|(key, amount)| oracle.counts.entry(*key).or_default().1 += amount);
            values.iter().for_each(|(key, value)| oracle.values.entry(*key).or_default().1.push(*value));
            if let Some(mark) = mark {
                oracle.marks.entry(mark).or_default();
            }
        }
        let oracle = self.oracle.clone();
        let environment = self.simulated.of(owner);
        cluster::Environment::spawn(
            &*environment,
            Box::pin(async move {
                let requests = [request];
                let answer = ledger.observe(&requests).await;
                let mut oracle = oracle.lock().unwrap();
                match answer {
                    Ok(_) => {
                        oracle.answered += 1;
                        counts
                            .iter()
                            .for_each(|(key, amount)| oracle.counts.entry(*key).or_default().0 += amount);
                        values
                            .iter()
                            .for_each(|(key, value)| oracle.values.entry(*key).or_default().0.push(*value));
                        if let Some(mark) = mark {
                            oracle.marks.insert(mark, true);
                        }
                    }
                    Err(LedgerError::Unreachable { .. } | LedgerError::Closed) => oracle.failed += 1,
                    Err(error) => panic!("{error}"),
                }
            }),
        );
    }

    /// All is well again, and every node sends what it has.
    fn end(&mut self, context: &str) {
        self.cloud.set_faults(0, 0);
        for at in 0..self.nodes.len() {
            if self.nodes[at].cluster.is_none() {
                self.open(at);
            }
        }
        // Long enough for what is late, and for a node to find out what a failover has lost.
        self.simulated.run_for(Duration::from_secs(20));
        for node in &self.nodes {
            let ledger = node.cluster.clone().unwrap();
            let drained =
                self.simulated.run(node.owner, Duration::from_secs(60), async move { ledger.drain().await });
            assert_eq!(drained, Some(true), "{context}: node {} does not drain", node.number);
        }
    }

    fn check(&self, context: &str) {
        let oracle = self.oracle.lock().unwrap();
        for (key, (least, most)) in &oracle.counts {
            let found = match key.kind {
                VISITOR | LEARNED => self.cloud.column(*key, 0),
                _ => self.cloud.total(*key, 0),
            };
            assert!((*least..=*most).contains(&found), "{context}: {key:?}: {found}, not {least} to {most}");
        }
        for (owner, (answered, sent)) in &oracle.values {
            let count = |values: &[u64]| {
                let mut values = values.to_vec();
                values.sort_unstable();
                values.dedup();
                values.len() as u64
            };
            let found = self.cloud.total(*owner, 0);
            let (least, most) = (count(answered), count(sent));
            assert!((least..=most).contains(&found), "{context}: {owner:?}: {found}, not {least} to {most}");
        }
        for (mark, is_answered) in &oracle.marks {
            let found = self.cloud.total(key(DAY, 1000 + mark), 0);
            let least = u64::from(*is_answered);
            assert!((least..=1).contains(&found), "{context}: mark {mark}: {found}, not {least} to 1");
        }
    }
}

fn at_time(random: &mut Random) -> event::Time {
    // All of one day.
    at(START + random.between(-1000, 1000))
}

fn simulate(seed: u64) -> (u64, u64) {
    let context = format!("seed {seed}");
    let mut simulation = Simulation::new(seed);
    for at in 0..simulation.nodes.len() {
        simulation.open(at);
    }
    // A failover loses marks, too, so it is one or the other.
    let faults = simulation.random.pick(&[0, 2, 5, 20]).to_owned();
    let failovers = if simulation.with_marks { 0 } else { *simulation.random.pick(&[0, 10, 100]) };
    simulation.cloud.set_faults(faults, failovers);
    for _ in 0..60 {
        match simulation.random.below(20) {
            0 => {
                let at = simulation.random.below(simulation.nodes.len() as u64) as usize;
                if simulation.nodes[at].cluster.is_some() {
                    simulation.crash(at);
                } else {
                    simulation.open(at);
                }
            }
            // Replicas are never behind by more than what nodes retain.
            1 | 2 => simulation.cloud.replicate(),
            _ => (0..simulation.random.below(6)).for_each(|_| simulation.send()),
        }
        let pause = Duration::from_micros(simulation.random.below(300_000));
        simulation.simulated.run_for(pause);
    }
    simulation.end(&context);
    simulation.check(&context);
    let oracle = simulation.oracle.lock().unwrap();
    (oracle.answered, oracle.failed)
}

/// `SEEDS=0..10000 cargo test --release -p tollhouse-cluster --test it simulation` runs many.
#[test]
fn what_is_answered_is_counted_once_whatever_fails() {
    let seeds = std::env::var("SEEDS").unwrap_or_else(|_| "0..150".to_owned());
    let (first, end) = seeds.split_once("..").expect("a range");
    let (mut answered, mut failed) = (0, 0);
    for seed in first.parse().unwrap()..end.parse().unwrap() {
        let (some, others) = simulate(seed);
        answered += some;
        failed += others;
    }
    assert!(answered > 10 * failed, "{answered} answered, {failed} not: most calls are to be answered");
    println!("{answered} answered, {failed} not");
}
