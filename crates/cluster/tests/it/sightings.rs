//! Admission over nodes: what each has seen of a key, all know after a flush. In simulated time, and over real servers.

use std::collections::BTreeMap;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use cluster::remote::{
    HalfSightings, Partition, PartitionCount, PartitionRead, RemoteCluster, SightingBatch, SightingCounts,
    SketchHalf,
};
use cluster::{Cluster, ClusterSettings, ThreadedEnvironment};
use disk::MemoryDevice;
use event::{Key, Kind, Span};
use sim::suite::*;
use stats::random::Random;
use stats::{
    Admission, Catalog, Ledger, Observation, ObserveOutcome, ObserveRequest, Origin, Quality, Sketch,
    SketchPlace, Statistic,
};

use crate::cloud::{Cloud, SketchCounters};
use crate::homes::prefix;
use crate::servers;
use crate::simulated::TaskSimulation;
use crate::support::{WITHIN, WireNode, settings};

const RARE: Kind = Kind(20);
const AFTER: u8 = 16;
const DAY: i64 = 86_400;
/// In the middle of a half.
const START: i64 = 20_000 * DAY + DAY / 2;
const SECOND: Duration = Duration::from_secs(1);

/// Counters of keys that were seen so often in a life of two days.
fn rare(after: u8) -> Catalog {
    let admit = Admission {
        sketch: Admission::sketch_of("rare"),
        after,
        rotate: Span::days(2),
        bytes: Sketch::bytes_for(10_000, 1e-6),
    };
    let counts = windows(&["seen"], &["1d x 9"], &["9d"], None);
    let statistic = Statistic { admit: Some(admit), ..statistic("rare", "rare", counts) };
    let mut builder = Catalog::builder();
    builder.add(SPACE, RARE, statistic).unwrap();
    builder.build()
}

/// Reads what an event would read.
fn look(observations: Vec<Observation>) -> ObserveRequest {
    ObserveRequest { origin: Origin::Look, ..request(observations) }
}

struct Nodes {
    simulated: Arc<TaskSimulation>,
    cloud: Arc<Cloud>,
    settings: ClusterSettings,
    owners: u64,
}

struct Node {
    owner: u64,
    ledger: Arc<Cluster>,
}

impl Nodes {
    fn new(seed: u64) -> Nodes {
        let cloud = Cloud::new(16, seed);
        let settings =
            ClusterSettings { within: Duration::from_millis(20), ..ClusterSettings::new(cloud.partitions()) };
        Nodes { simulated: TaskSimulation::new(seed), cloud, settings, owners: 100 }
    }

    fn open(&mut self, number: u64) -> Node {
        self.owners += 1;
        let owner = self.owners;
        let line = Arc::new(self.cloud.line(number, Some(self.simulated.of(0))));
        let device = Arc::new(MemoryDevice::new());
        let environment = self.simulated.of(owner);
        let ledger = Cluster::open(line, device, rare(AFTER), self.settings, environment).unwrap();
        Node { owner, ledger: Arc::new(ledger) }
    }

    fn ask(&self, node: &Node, request: ObserveRequest) -> ObserveOutcome {
        let ledger = node.ledger.clone();
        let asked = async move { ledger.observe(&[request]).await.unwrap().outcomes().next().unwrap() };
        self.simulated.run(0, SECOND, asked).expect("an answer")
    }

    fn see(&self, node: &Node, key: Key, seconds: i64) -> ObserveOutcome {
        self.ask(node, request(vec![add(key, at(seconds), [(0, 1)])]))
    }

    /// The number of sightings of a key, as a node knows it.
    fn sum(&self, node: &Node, key: Key, seconds: i64) -> u64 {
        self.ask(node, look(vec![add(key, at(seconds), [(0, 1)])])).readings[0].sum(0, 0)
    }

    /// Long enough for a flush.
    fn flush(&self) {
        self.simulated.run_for(2 * SECOND);
    }

    fn has_cell(&self, key: Key) -> bool {
        self.cloud.total(key, 0) > 0
    }
}

#[test]
fn what_two_nodes_see_admits_a_key() {
    let mut nodes = Nodes::new(1);
    let [one, other] = [1, 2].map(|number| nodes.open(number));
    for number in 0..20 {
        let key = key(RARE, number);
        for seen in 1..=28 {
            let node = if seen % 2 == 0 { &one } else { &other };
            nodes.see(node, key, START);
            nodes.flush();
            // A node has heard of what the others had seen when it last saw the key itself.
            assert_eq!(nodes.has_cell(key), seen > AFTER.into(), "{seen}");
        }
    }
}

#[test]
fn what_two_nodes_see_at_once_is_known_with_the_flush() {
    let mut nodes = Nodes::new(7);
    nodes.settings.flush_every = Duration::from_secs(30);
    let [one, other] = [1, 2].map(|number| nodes.open(number));
    let key = key(RARE, 100);
    (0..14).for_each(|_| [&one, &other].iter().for_each(|node| drop(nodes.see(node, key, START))));
    nodes.simulated.run_for(60 * SECOND);
    assert!(!nodes.has_cell(key));
    let reading = nodes.see(&one, key, START).readings.remove(0);
    assert_eq!((reading.sum(0, 0), reading.quality), (15, Quality::Estimated), "the most that is counted");
    nodes.simulated.run_for(60 * SECOND);
    assert!(nodes.has_cell(key));
}

#[test]
fn a_node_that_is_started_again_knows_what_was_flushed() {
    let mut nodes = Nodes::new(2);
    let key = key(RARE, 1);
    let node = nodes.open(1);
    (0..14).for_each(|_| drop(nodes.see(&node, key, START)));
    nodes.flush();
    nodes.see(&node, key, START);
    // What was not flushed is all that a crash takes.
    nodes.simulated.kill(node.owner);
    let node = nodes.open(1);
    assert_eq!(nodes.sum(&node, key, START), 14);
    let reading = nodes.see(&node, key, START).readings.remove(0);
    assert_eq!((reading.sum(0, 0), reading.quality), (14, Quality::Estimated), "the first that it sees");
    nodes.flush();
    assert!(!nodes.has_cell(key));
    nodes.see(&node, key, START);
    nodes.flush();
    assert!(nodes.has_cell(key), "the sixteenth that is known");
}

#[test]
fn a_node_that_is_closed_loses_nothing() {
    let mut nodes = Nodes::new(3);
    let key = key(RARE, 1);
    let node = nodes.open(1);
    (0..15).for_each(|_| drop(nodes.see(&node, key, START)));
    let ledger = node.ledger.clone();
    assert_eq!(nodes.simulated.run(0, 60 * SECOND, async move { ledger.drain().await }), Some(true));
    let node = nodes.open(1);
    nodes.see(&node, key, START);
    nodes.flush();
    assert!(nodes.has_cell(key));
}

#[test]
fn while_the_cluster_is_away_each_node_counts_for_itself() {
    let mut nodes = Nodes::new(4);
    let [one, other] = [1, 2].map(|number| nodes.open(number));
    let key = key(RARE, 1);
    // What the cluster has not is known for a while.
    [&one, &other].iter().for_each(|node| assert_eq!(nodes.sum(node, key, START), 0));
    nodes.cloud.set_down(true);
    for seen in 0..7 {
        assert_eq!(nodes.see(&one, key, START).readings[0].sum(0, 0), seen);
        assert_eq!(nodes.see(&other, key, START).readings[0].sum(0, 0), seen);
    }
    nodes.simulated.run_for(2 * SECOND);
    nodes.cloud.set_down(false);
    nodes.simulated.run_for(20 * SECOND);
    [&one, &other].iter().for_each(|node| assert_eq!(nodes.sum(node, key, START), 14));
    assert_eq!(one.ledger.metrics().sightings_dropped, 0);
}

#[test]
fn what_is_older_than_a_life_does_not_count() {
    let mut nodes = Nodes::new(5);
    let [one, other] = [1, 2].map(|number| nodes.open(number));
    let key = key(RARE, 1);
    (0..5).for_each(|_| drop(nodes.see(&one, key, START)));
    nodes.flush();
    (0..3).for_each(|_| drop(nodes.see(&other, key, START + DAY)));
    nodes.flush();
    assert_eq!(nodes.sum(&other, key, START + DAY), 8, "this half and the one before");
    nodes.see(&one, key, START + 2 * DAY);
    nodes.flush();
    assert_eq!(nodes.sum(&one, key, START + 2 * DAY), 4, "the first half is over");
    let fresh = nodes.open(3);
    assert_eq!(nodes.sum(&fresh, key, START + 2 * DAY), 4);
    nodes.see(&other, key, START + 9 * DAY);
    nodes.flush();
    let fresh = nodes.open(4);
    assert_eq!(nodes.sum(&fresh, key, START + 9 * DAY), 1);
}

#[test]
fn sightings_are_sent_together() {
    let mut nodes = Nodes::new(6);
    let node = nodes.open(1);
    let observations =
        |from: u64| (from..from + 1000).map(|number| add(key(RARE, number), at(START), [(0, 1)])).collect();
    nodes.see(&node, key(RARE, 1), START);
    nodes.flush();
    let asked = node.ledger.metrics();
    assert_eq!((asked.sightings, asked.sighting_batches), (1, 1), "one sighting is one command");
    for from in 0..20 {
        nodes.ask(&node, request(observations(1000 * from)));
    }
    nodes.flush();
    let asked = node.ledger.metrics();
    assert_eq!(asked.sightings, 20_001);
    assert!(asked.sighting_batches <= 16 * 20, "{asked:?}");
}

/// Some nodes see some keys, and some calls fail, in an order that follows from the seed.
fn interleave(seed: u64) {
    let mut random = Random::new(seed);
    let mut nodes = Nodes::new(seed);
    nodes.settings.flush_every = Duration::from_millis(1 + random.below(1500));
    nodes.settings.fresh_for = Duration::from_millis(random.below(1000));
    let mut running: Vec<Node> = (1..=2).map(|number| nodes.open(number)).collect();
    nodes.cloud.set_faults(*random.pick(&[0, 2, 5]), 0);
    // By key: all sightings, and those that a crash may have taken.
    let (mut seen, mut lost) = (BTreeMap::<u64, u64>::new(), BTreeMap::<u64, u64>::new());
    // By node: those that may not have been flushed.
    let mut unsent: Vec<BTreeMap<u64, u64>> = vec![BTreeMap::new(), BTreeMap::new()];
    for _ in 0..60 {
        let at = random.below(2) as usize;
        match random.below(12) {
            0 => {
                nodes.simulated.kill(running[at].owner);
                running[at] = nodes.open(at as u64 + 1);
                std::mem::take(&mut unsent[at])
                    .into_iter()
                    .for_each(|(key, count)| *lost.entry(key).or_default() += count);
            }
            1 => {
                nodes.cloud.set_faults(0, 0);
                // After which no batch waits to be sent again.
                nodes.simulated.run_for(20 * SECOND);
                unsent.iter_mut().for_each(BTreeMap::clear);
                nodes.cloud.set_faults(*random.pick(&[0, 2, 5]), 0);
            }
            _ => {
                let number = random.below(5);
                let outcome = nodes.see(&running[at], key(RARE, number), START + random.between(0, 1000));
                // Where it is not known whether there is a cell it is added to at once.
                if outcome.readings[0].quality == Quality::Estimated {
                    *seen.entry(number).or_default() += 1;
                    *unsent[at].entry(number).or_default() += 1;
                }
            }
        }
        nodes.simulated.run_for(Duration::from_micros(random.below(400_000)));
    }
    nodes.cloud.set_faults(0, 0);
    nodes.simulated.run_for(20 * SECOND);
    let fresh = nodes.open(9);
    for (number, seen) in seen {
        let key = key(RARE, number);
        let lost = lost.get(&number).copied().unwrap_or(0);
        let found = nodes.sum(&fresh, key, START + 1000);
        if nodes.has_cell(key) {
            continue;
        }
        assert!(found >= (seen - lost).min(15), "seed {seed}: {number}: {found} of {seen}, {lost} lost");
        assert!(found <= seen, "seed {seed}: {number}: {found} of {seen}: none counts twice");
    }
}

#[test]
fn no_sighting_is_lost_but_in_a_crash_and_none_counts_twice() {
    (0..60).for_each(interleave);
}

/// A half of a sketch of few lines.
fn half(number: i64) -> SketchHalf {
    SketchHalf { sketch: 7, lines: 3, span: Span::minutes(30), number }
}

fn place(random: &mut Random) -> SketchPlace {
    SketchPlace { line: random.below(3) as u32, counters: (random.below(1 << 20) as u32) & 0x18c63 }
}

fn sight(wired: &WireNode, owner: u8, number: u64, halves: Vec<HalfSightings>) -> Vec<SightingCounts> {
    let batch = SightingBatch { partition: Partition(3), owner: [owner; 16], number, halves: halves.into() };
    wired.wait(async |wire| wire.sight(vec![batch], WITHIN).await.remove(0)).unwrap()
}

/// The scripts count like a sketch.
#[test]
pub(crate) fn scripts_count_as_sketches_do() {
    let Some(cluster) = servers::Cluster::single(&[]) else { return };
    let wired = WireNode::open(settings(cluster.addresses(), 1));
    let mut model = BTreeMap::<i64, SketchCounters>::new();
    let mut random = Random::new(9);
    let mut numbers = [0; 3];
    let count = |model: &mut BTreeMap<i64, SketchCounters>, number: i64, place| {
        [number, number - 1].map(|number| model.entry(number).or_default().count(place))
    };
    for _ in 0..300 {
        let halves: Vec<HalfSightings> = (0..1 + random.below(2))
            .map(|more| {
                let mut places: Vec<SketchPlace> =
                    (0..1 + random.below(5)).map(|_| place(&mut random)).collect();
                places.sort_unstable();
                places.dedup();
                let number = -1 + more as i64 + random.below(2) as i64 * 2;
                let places = places.into_iter().map(|at| (at, 1 + random.below(2) as u32)).collect();
                HalfSightings { half: half(number), places }
            })
            .collect();
        let owner = random.below(3);
        let mut expected = Vec::new();
        for of in &halves {
            for (at, sightings) in &of.places {
                model.entry(of.half.number).or_default().add(*at, *sightings);
                expected.push(count(&mut model, of.half.number, *at));
            }
        }
        numbers[owner as usize] += 1;
        let number = numbers[owner as usize];
        assert_eq!(sight(&wired, owner as u8, number, halves.clone()), expected);
        // What is sent again is not counted again; it is answered what there is by now.
        let now: Vec<SightingCounts> = halves
            .iter()
            .flat_map(|of| of.places.iter().map(|(at, _)| (of.half.number, *at)))
            .map(|(number, at)| count(&mut model, number, at))
            .collect();
        assert_eq!(sight(&wired, owner as u8, number, halves), now);
    }
    let asked: Vec<(SketchHalf, SketchPlace)> =
        (0..200).map(|_| (half(random.below(6) as i64 - 2), place(&mut random))).collect();
    let expected: Vec<SightingCounts> =
        asked.iter().map(|(half, at)| count(&mut model, half.number, *at)).collect();
    assert!(expected.iter().any(|counts| counts[0] == Sketch::COUNT_MAX), "counters saturate");
    let read = PartitionRead { partition: Partition(3), cells: Vec::new(), places: asked };
    let found = wired.wait(async |wire| wire.read(vec![read], WITHIN).await.remove(0)).unwrap();
    assert_eq!(found.sightings, expected);
    // Half a byte for each counter of each line, from the first on; it ends some minutes after the next half does.
    let names = cluster.servers[0].cli(&["--no-raw", "KEYS", "*#s*"]);
    assert_eq!(names.lines().count(), 4 + 3, "halves, and who has sent them: {names}");
    let lengths = "local all = {} for _, key in ipairs(redis.call('KEYS', '*#s*')) do all[#all + 1] = \
                   redis.call('STRLEN', key) .. ' ' .. redis.call('PTTL', key) end return all";
    for line in cluster.servers[0].cli(&["EVAL", lengths, "0"]).lines() {
        let Some((length, ttl)) = line.split_once(' ') else { continue };
        let (length, ttl): (u64, u64) = (length.parse().unwrap(), ttl.parse().unwrap());
        assert!(length == 3 * 64 || length <= 3, "{line}");
        assert!((60 * 60_000..=70 * 60_000).contains(&ttl), "{line}");
    }
}

/// Nodes over real servers, each with a runtime of its own.
fn over(addresses: Vec<String>, prefix: &str, number: u8) -> Cluster {
    let partitions = PartitionCount::new(64).unwrap();
    let wires =
        cluster::wire::WireSettings { prefix: prefix.to_owned(), partitions, ..settings(addresses, number) };
    let threads = Arc::new(ThreadedEnvironment::new(1).unwrap());
    let runtime = threads.handle().unwrap();
    let wire = runtime.block_on(cluster::wire::WireClient::open(wires, runtime.clone())).unwrap();
    let settings = ClusterSettings {
        flush_every: Duration::from_millis(5),
        within: Duration::from_secs(60),
        drain: Duration::from_secs(60),
        ..ClusterSettings::new(partitions)
    };
    Cluster::open(Arc::new(wire), Arc::new(MemoryDevice::new()), rare(AFTER), settings, threads).unwrap()
}

fn keys() -> impl Iterator<Item = Key> {
    (0..40).map(|number| key(RARE, number))
}

fn sightings() -> Vec<Observation> {
    keys().map(|key| add(key, at(START), [(0, 1)])).collect()
}

/// The sightings of each key by all nodes, as a node knows them that has asked for none.
fn known(node: &Cluster) -> Vec<u64> {
    let readings = observe_one(node, look(sightings())).readings;
    readings.iter().map(|reading| reading.sum(0, 0)).collect()
}

#[test]
pub(crate) fn nodes_over_real_servers_share_what_they_have_seen() {
    let Some(cluster) = servers::Cluster::start() else { return };
    let prefix = prefix();
    let open = |number| over(cluster.addresses(), &prefix, number);
    let nodes = [1, 2].map(open);
    for seen in 0..7 {
        for node in &nodes {
            let readings = observe_one(node, request(sightings())).readings;
            assert!(readings.iter().all(|reading| reading.quality == Quality::Estimated));
            assert!(readings.iter().all(|reading| reading.sum(0, 0) >= seen));
        }
    }
    let [one, other] = nodes;
    [&one, &other].iter().for_each(|node| node.close().unwrap());
    drop(one);
    // One that has forgotten what it saw, and one that was not there.
    let nodes = [1, 3].map(open);
    nodes.iter().for_each(|node| assert_eq!(known(node), [14; 40]));
    (0..2).for_each(|_| drop(observe_one(&nodes[0], request(sightings()))));
    nodes[0].close().unwrap();
    let fresh = open(4);
    let has_cell = |key| pollster::block_on(fresh.timeline(key)).unwrap().is_some();
    assert!(keys().all(has_cell), "with the sixteenth sighting");
}

/// A node's process: sees each key seven times, and waits to be killed.
#[test]
#[ignore = "is started by the test of a kill"]
fn node() {
    let Ok(addresses) = std::env::var("NODE_SERVERS") else { return };
    let node =
        over(addresses.split(',').map(str::to_owned).collect(), &std::env::var("NODE_PREFIX").unwrap(), 1);
    (0..7).for_each(|_| drop(observe_one(&node, request(sightings()))));
    let _ = std::io::stdin().read_line(&mut String::new());
}

#[test]
pub(crate) fn a_kill_leaves_what_was_flushed() {
    let Some(cluster) = servers::Cluster::start() else { return };
    let prefix = prefix();
    let mut command = std::process::Command::new(std::env::current_exe().unwrap());
    command.args(["sightings::node", "--exact", "--ignored", "--test-threads", "1"]);
    command.env("NODE_SERVERS", cluster.addresses().join(",")).env("NODE_PREFIX", &prefix);
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut process = command.spawn().unwrap();
    let fresh = || known(&over(cluster.addresses(), &prefix, 2));
    servers::wait("the node has flushed", || fresh().iter().all(|seen| *seen == 7));
    process.kill().unwrap();
    process.wait().unwrap();
    assert_eq!(fresh(), [7; 40]);
}
