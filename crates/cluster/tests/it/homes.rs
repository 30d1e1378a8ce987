//! A node is a ledger as the embedded home is one: over a model of a cluster, and over real servers.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use cluster::remote::{PartitionCount, RemoteCluster};
use cluster::wire::{self, WireClient};
use cluster::{Cluster, ClusterSettings, ThreadedEnvironment};
use disk::MemoryDevice;
use redis::cmd;
use sim::suite::model::HomeUnderTest;
use sim::suite::*;
use sim::suite::{conformance, limits, model};
use stats::{Catalog, Ledger};

use crate::cloud::Cloud;
use crate::servers::{self, wait};

/// The way in which a node comes to its cluster, once for each opening.
type Connect = Box<dyn Fn(&ThreadedEnvironment) -> Arc<dyn RemoteCluster>>;

pub(crate) struct Home {
    connect: Connect,
    device: MemoryDevice,
    settings: ClusterSettings,
    catalog: Catalog,
    ledger: Option<Cluster>,
}

impl Home {
    pub(crate) fn new(connect: Connect, settings: ClusterSettings) -> Home {
        Home::with(catalog(), connect, settings)
    }

    fn with(catalog: Catalog, connect: Connect, settings: ClusterSettings) -> Home {
        let settings = ClusterSettings {
            flush_every: Duration::from_millis(5),
            within: Duration::from_secs(60),
            drain: Duration::from_secs(60),
            ..settings
        };
        let mut home = Home { connect, device: MemoryDevice::new(), settings, catalog, ledger: None };
        home.open();
        home
    }

    /// Over a model.
    fn modelled(partitions: u16, fresh_for: Duration) -> Home {
        Home::paced(partitions, fresh_for, Duration::ZERO)
    }

    /// Over a model in which a write takes up to so long, so that those of a process that has ended arrive late.
    fn paced(partitions: u16, fresh_for: Duration, write_pause: Duration) -> Home {
        let cloud = Cloud::new(partitions, 1);
        cloud.set_write_pause(write_pause);
        let settings = ClusterSettings { fresh_for, ..ClusterSettings::new(cloud.partitions()) };
        Home::new(Box::new(move |_| Arc::new(cloud.line(1, None))), settings)
    }

    fn open(&mut self) {
        let threads = Arc::new(ThreadedEnvironment::new(1).unwrap());
        let (remote, device) = ((self.connect)(&threads), Arc::new(self.device.clone()));
        self.ledger =
            Some(Cluster::open(remote, device, self.catalog.clone(), self.settings, threads).unwrap());
    }

    pub(crate) fn node(&self) -> &Cluster {
        self.ledger.as_ref().unwrap()
    }
}

/// A node of a number over real servers, under a prefix.
pub(crate) fn over(
    cluster: &servers::Cluster,
    prefix: &str,
    node: u8,
    partitions: u16,
    times: ClusterSettings,
) -> Home {
    let (connect, settings) = connected(cluster, prefix, node, partitions, times);
    Home::new(connect, settings)
}

fn connected(
    cluster: &servers::Cluster,
    prefix: &str,
    node: u8,
    partitions: u16,
    times: ClusterSettings,
) -> (Connect, ClusterSettings) {
    let partitions = PartitionCount::new(partitions).unwrap();
    let settings = wire::WireSettings {
        prefix: prefix.to_owned(),
        replicas: 0,
        partitions,
        ..wire::WireSettings::new(cluster.addresses(), [node; 16])
    };
    let connect = move |threads: &ThreadedEnvironment| -> Arc<dyn RemoteCluster> {
        let runtime = threads.handle().unwrap();
        Arc::new(runtime.block_on(WireClient::open(settings.clone(), runtime.clone())).unwrap())
    };
    (Box::new(connect), ClusterSettings { partitions, ..times })
}

/// A prefix that no test has had.
pub(crate) fn prefix() -> String {
    static NEXT: AtomicU8 = AtomicU8::new(0);
    format!("home{}:", NEXT.fetch_add(1, Ordering::Relaxed))
}

/// The usual, with images that are fresh for so long.
pub(crate) fn fresh_for(fresh_for: Duration) -> ClusterSettings {
    ClusterSettings { fresh_for, ..ClusterSettings::new(PartitionCount::USUAL) }
}

impl HomeUnderTest for Home {
    fn ledger(&self) -> &dyn Ledger {
        self.node()
    }

    fn reopen(&mut self) -> bool {
        self.ledger().close().unwrap();
        self.ledger = None;
        self.open();
        true
    }

    fn crash(&mut self, seed: u64) -> bool {
        let image = self.device.crash(seed);
        self.ledger = None;
        self.device = image;
        self.open();
        true
    }

    fn settle(&self) {
        wait("all is in the cluster", || {
            let metrics = self.node().metrics();
            metrics.pending_bytes == 0 && metrics.waiting_partitions == 0
        });
    }

    fn keeps_every_answer(&self) -> bool {
        true
    }

    fn marks_expire(&self) -> bool {
        false
    }

    // What is on its way when its key expires begins the key anew when it arrives.
    fn expires_at_once(&self) -> bool {
        false
    }
}

#[test]
fn a_node_conforms() {
    for partitions in [1, 256] {
        let home = Home::modelled(partitions, Duration::from_millis(3));
        conformance::check(home.ledger(), u64::MAX);
    }
}

#[test]
fn random_histories_agree_with_a_list_of_events() {
    for seed in 0..8 {
        // With no time at all every image is read anew in the background, one way or the other.
        for (partitions, fresh_for) in
            [(1, Duration::ZERO), (64, Duration::from_millis(2)), (256, Duration::MAX)]
        {
            model::check(seed, &mut Home::modelled(partitions, fresh_for));
        }
    }
    for seed in 0..3 {
        model::check(seed, &mut Home::paced(1, Duration::from_millis(2), Duration::from_millis(15)));
    }
}

#[test]
fn nobody_dates_himself_out_of_a_limit() {
    for (seed, is_exact) in (0..24).zip([false, true].into_iter().cycle()) {
        let cloud = Cloud::new(64, 1);
        // Images are read anew in between, so that what was sent is part of them.
        let settings = ClusterSettings {
            fresh_for: Duration::from_micros(seed * 50),
            ..ClusterSettings::new(cloud.partitions())
        };
        let home =
            Home::with(limits::catalog(is_exact), Box::new(move |_| Arc::new(cloud.line(1, None))), settings);
        limits::check(home.ledger(), seed);
    }
}

#[test]
pub(crate) fn nobody_dates_himself_out_of_a_limit_over_real_servers() {
    let Some(cluster) = servers::Cluster::start() else { return };
    for (seed, is_exact) in (0..6).zip([false, true].into_iter().cycle()) {
        let times = fresh_for(Duration::from_millis(seed));
        let (connect, settings) = connected(&cluster, &prefix(), 1, 64, times);
        limits::check(Home::with(limits::catalog(is_exact), connect, settings).ledger(), seed);
    }
}

/// Real servers count to 2^63 - 1.
const MOST: u64 = i64::MAX.cast_unsigned();

pub(crate) fn conform_over(cluster: &servers::Cluster) {
    for partitions in [1, 256] {
        let home = over(cluster, &prefix(), 1, partitions, fresh_for(Duration::from_millis(3)));
        conformance::check(home.ledger(), MOST);
    }
}

#[test]
pub(crate) fn a_node_conforms_over_real_servers() {
    let Some(cluster) = servers::Cluster::start() else { return };
    conform_over(&cluster);
}

#[test]
pub(crate) fn random_histories_over_real_servers_agree_with_a_list_of_events() {
    let Some(cluster) = servers::Cluster::start() else { return };
    for (seed, partitions, fresh) in [(100, 1, 0), (101, 64, 2), (102, 256, 60_000)] {
        let fresh = fresh_for(Duration::from_millis(fresh));
        model::check(seed, &mut over(&cluster, &prefix(), 1, partitions, fresh));
    }
}

/// Servers have clocks of their own, which no test can set. So what they would let expire later is made to expire now, all
/// of it that has a time to live; what has none never would.
fn expire_all(cluster: &servers::Cluster, prefix: &str) {
    for server in cluster.masters().into_iter().map(|at| &cluster.servers[at]) {
        let mut connection =
            redis::Client::open(format!("redis://{}/", server.address())).unwrap().get_connection().unwrap();
        let mut cells = || {
            let names: Vec<Vec<u8>> = cmd("KEYS").arg(format!("{prefix}*")).query(&mut connection).unwrap();
            let is_cell =
                |name: &Vec<u8>| !name.splitn(2, |byte| *byte == b'}').nth(1).unwrap().starts_with(b"#");
            let cells: Vec<Vec<u8>> = names.into_iter().filter(is_cell).collect();
            for name in &cells {
                let left: i64 = cmd("PTTL").arg(name).query(&mut connection).unwrap();
                // Windows of five minutes, some buckets, and a minute; or what has just gone.
                assert!(left == -2 || (1..=900_000).contains(&left), "{left} ms");
                let _: i64 = cmd("PEXPIRE").arg(name).arg(1).query(&mut connection).unwrap();
            }
            cells
        };
        wait("cells expire", || cells().is_empty());
    }
}

#[test]
fn what_has_expired_in_the_cluster_begins_anew() {
    let Some(cluster) = servers::Cluster::start() else { return };
    let prefix = prefix();
    // Nothing is answered that was not just read.
    let times = ClusterSettings { stale_for: Duration::ZERO, ..fresh_for(Duration::ZERO) };
    let home = over(&cluster, &prefix, 1, 64, times);
    let (mass, owner) = (key(MASS, 1), key(DISTINCT, 2));
    let send = |id: u64| {
        let observations = vec![add(mass, at(1000), [(0, 2)]), distinct(owner, at(1000), 7)];
        observe_one(home.ledger(), once(id, at(1000), observations))
    };
    let both = |count: u64, values: u64| {
        let readings = observe_one(home.ledger(), request(vec![peek(mass, at(1000)), peek(owner, at(1000))]));
        let found: Vec<u64> = readings.readings.iter().map(|reading| reading.sum(0, 0)).collect();
        assert_eq!(found, [count, values]);
    };
    assert!(!send(1).duplicate);
    assert!(send(1).duplicate);
    assert!(!send(2).duplicate);
    both(4, 1);
    home.settle();
    expire_all(&cluster, &prefix);
    both(0, 0);
    let outcome = send(1);
    assert!(!outcome.duplicate, "its mark has expired, too");
    assert!(outcome.readings.iter().all(|reading| reading.first.is_none()), "{outcome:?}");
    assert!(outcome.readings[1].fresh, "the pair's mark has expired, too");
    both(2, 1);
    home.settle();
    let timeline = pollster::block_on(home.ledger().timeline(mass)).unwrap().unwrap();
    assert_eq!(timeline.buckets.iter().map(|bucket| bucket.counts[0]).sum::<u64>(), 2, "none of it twice");
}
