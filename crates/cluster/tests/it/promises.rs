//! Promises of `docs/operating/cluster.md`, one test each, in simulated time.

use std::sync::Arc;
use std::time::Duration;

use cluster::remote::{RemoteCluster, WriteOutcome};
use cluster::{Cluster, ClusterSettings};
use disk::MemoryDevice;
use event::{Key, Kind, Space, Span};
use sim::suite::*;
use stats::limit::WindowTake;
use stats::{
    Addition, Catalog, DedupeMark, Ledger, LedgerError, Measure, Observation, ObserveOutcome,
    ObserveOutcomes, ObserveRequest, Quality, Statistic,
};

use crate::cloud::Cloud;
use crate::simulated::TaskSimulation;

const DAY: Kind = Kind(10);
const LIMIT: Kind = Kind(7);
/// An exact limit.
const EXACT: Kind = Kind(8);
/// Distinct values of a day.
const VALUES: Kind = Kind(9);
/// Failures of a day, which can be cleared.
const FAILED: Kind = Kind(12);
/// Marks of an hour.
const MARK: Kind = Kind(11);
const WITHIN: Duration = Duration::from_millis(20);
const SECOND: Duration = Duration::from_secs(1);

fn forms(tier: &str) -> Catalog {
    let mut builder = Catalog::builder();
    let day = windows(&["seen"], &[tier], &["1d"], None);
    builder.add(SPACE, DAY, statistic("day", "day", day)).unwrap();
    let failed = windows(&["seen", "failed", "~failed"], &["1h x 24", tier], &["1h", "1d"], None);
    builder.add(SPACE, FAILED, statistic("failed", "failed", failed)).unwrap();
    let limit = Measure::limit(Span::hours(10), 10).unwrap();
    builder.add(SPACE, LIMIT, statistic("limit", "limit", limit.clone())).unwrap();
    let exact = Statistic { exact: true, ..statistic("exact", "exact", limit) };
    builder.add(SPACE, EXACT, exact).unwrap();
    builder.add(SPACE, MARK, statistic("mark", "mark", Measure::once(Span::hours(1)))).unwrap();
    let tier = "1d x 2".parse().unwrap();
    let values = Measure::distinct(tier, vec![Span::days(1)]);
    builder.add(SPACE, VALUES, statistic("values", "values", values)).unwrap();
    builder.build()
}

struct TestEnvironment {
    simulated: Arc<TaskSimulation>,
    cloud: Arc<Cloud>,
    settings: ClusterSettings,
}

impl TestEnvironment {
    fn new() -> TestEnvironment {
        let cloud = Cloud::new(16, 5);
        let settings = ClusterSettings { within: WITHIN, ..ClusterSettings::new(cloud.partitions()) };
        TestEnvironment { simulated: TaskSimulation::new(3), cloud, settings }
    }

    fn node(&self, number: u64) -> Arc<Cluster> {
        self.node_on(number, &MemoryDevice::new())
    }

    fn node_on(&self, number: u64, device: &MemoryDevice) -> Arc<Cluster> {
        self.node_again(number, number, device)
    }

    /// A node of a number, run by an owner of its own.
    fn node_again(&self, number: u64, owner: u64, device: &MemoryDevice) -> Arc<Cluster> {
        let line = Arc::new(self.cloud.line(number, Some(self.simulated.of(0))));
        let device = Arc::new(device.clone());
        let environment = self.simulated.of(owner);
        Arc::new(Cluster::open(line, device, forms("1d x 3"), self.settings, environment).unwrap())
    }

    fn ask(&self, node: &Arc<Cluster>, observation: Observation) -> Result<ObserveOutcome, LedgerError> {
        self.ask_all(node, vec![observation]).map(|outcomes| outcomes.outcomes().next().unwrap())
    }

    fn ask_all(
        &self,
        node: &Arc<Cluster>,
        observations: Vec<Observation>,
    ) -> Result<ObserveOutcomes, LedgerError> {
        let node = node.clone();
        let asked = async move {
            node.observe(&[ObserveRequest { observations, ..ObserveRequest::default() }]).await
        };
        self.simulated.run(0, SECOND, asked).expect("an answer")
    }

    fn sum(&self, node: &Arc<Cluster>, key: Key) -> u64 {
        self.ask(node, peek(key, at(1000))).unwrap().readings[0].sum(0, 0)
    }

    fn drain(&self, node: &Arc<Cluster>) {
        let node = node.clone();
        assert_eq!(self.simulated.run(0, 60 * SECOND, async move { node.drain().await }), Some(true));
    }
}

#[test]
fn what_another_node_adds_is_seen_in_time() {
    let environment = TestEnvironment::new();
    let ClusterSettings { flush_every, fresh_for, stale_for, .. } = environment.settings;
    let [adding, asking] = [1, 2].map(|number| environment.node(number));
    // The flusher's rest, two calls, and the steps of this test.
    let slack = flush_every / 16 + 2 * WITHIN + Duration::from_millis(100);
    for number in 0..20 {
        let (often, once) = (key(DAY, number), key(DAY, 100 + number));
        assert_eq!((environment.sum(&asking, often), environment.sum(&asking, once)), (0, 0));
        let start = environment.simulated.now();
        for key in [often, once] {
            environment.ask(&adding, add(key, at(1000), [(0, 1)])).unwrap();
            assert_eq!(environment.sum(&adding, key), 1, "a node sees its own at once");
        }
        while environment.sum(&asking, often) == 0 {
            let taken = environment.simulated.now() - start;
            assert!(taken <= flush_every + fresh_for + slack, "{number}: {taken:?}");
        }
        environment
            .simulated
            .run_for((start + flush_every + stale_for + slack).saturating_sub(environment.simulated.now()));
        assert_eq!(
            environment.sum(&asking, once),
            1,
            "what is asked for once in a while is not older than that"
        );
    }
}

/// Keys that two nodes change all the time are read anew by each, many in one call, and none of them is said to lag.
#[test]
fn what_several_nodes_change_is_read_together() {
    let environment = TestEnvironment::new();
    let nodes = [1, 2].map(|number| environment.node(number));
    let keys = || (0..200).map(|number| key(DAY, number));
    let figures = || nodes.each_ref().map(|node| (node.metrics().reads, node.metrics().read_calls));
    let mut before = figures();
    for step in 0..80 {
        for node in &nodes {
            let observations = keys().map(|key| add(key, at(1000), [(0, 1)])).collect();
            let outcomes = environment.ask_all(node, observations).unwrap();
            let qualities = outcomes.outcomes().flat_map(|outcome| outcome.readings).map(|told| told.quality);
            // At first nobody knows anything.
            assert!(
                step == 0 || qualities.into_iter().all(|quality| quality == Quality::Exact),
                "step {step}"
            );
        }
        if step == 30 {
            before = figures();
        }
        environment.simulated.run_for(Duration::from_millis(100));
    }
    for ((reads, calls), (reads_before, calls_before)) in figures().into_iter().zip(before) {
        let (reads, calls) = (reads - reads_before, calls - calls_before);
        assert!(reads >= 200 * 4, "{reads}: each is read about once in the time for which it is fresh");
        assert!(calls * 5 <= reads, "{reads} in {calls} calls");
    }
    nodes.iter().for_each(|node| environment.drain(node));
    let third = environment.node(3);
    keys().for_each(|key| assert_eq!(environment.sum(&third, key), 2 * 80));
}

#[test]
fn readings_say_when_they_may_lack_what_others_have_added() {
    let environment = TestEnvironment::new();
    let ClusterSettings { flush_every, fresh_for, .. } = environment.settings;
    let [adding, asking] = [1, 2].map(|number| environment.node(number));
    let read = |node: &Arc<Cluster>, key: Key| {
        let outcome = environment.ask(node, peek(key, at(1000))).unwrap();
        (outcome.readings[0].quality, outcome.readings[0].sum(0, 0))
    };
    let idle = key(DAY, 1);
    assert_eq!(read(&asking, idle), (Quality::Exact, 0), "it was just asked for");
    environment.ask(&adding, add(idle, at(1000), [(0, 1)])).unwrap();
    environment.simulated.run_for(2 * flush_every);
    let exact_for = fresh_for + 4 * (flush_every / 16) + 2 * WITHIN;
    environment.simulated.run_for(exact_for + Duration::from_millis(1));
    assert_eq!(read(&asking, idle), (Quality::Lagging, 0), "it is read anew meanwhile");
    // With others of its partition, for which it waits a while.
    environment.simulated.run_for(fresh_for / 4 + flush_every / 16 + WITHIN);
    assert_eq!(read(&asking, idle), (Quality::Exact, 1));
    // A node that is alone in its partitions knows that nobody has written, and reads nothing again.
    let keys = || (0..40).map(|number| key(DAY, 100 + number));
    let both = |key: Key| {
        environment.ask(&adding, add(key, at(1000), [(0, 1)])).unwrap();
        read(&adding, key).0
    };
    let mut reads = 0;
    for step in 0..150 {
        // Before anything is there nobody says who wrote it, and for a while it is read again.
        keys().for_each(|key| assert!(both(key) == Quality::Exact || step < 50, "step {step}"));
        if step == 50 {
            reads = adding.metrics().reads;
        }
        environment.simulated.run_for(Duration::from_millis(100));
    }
    assert_eq!(adding.metrics().reads, reads, "none is read again");
    // What nobody has looked at for longer lags until somebody has.
    environment.simulated.run_for(exact_for + 2 * flush_every);
    let is_exact = || keys().filter(|key| read(&adding, *key).0 == Quality::Exact).count();
    let mut found = Vec::new();
    while found.len() < 20 && found.last() != Some(&40) {
        found.push(is_exact());
        environment.simulated.run_for(2 * WITHIN);
    }
    assert!(found[0] < 40 && found.last() == Some(&40), "{found:?}");
}

#[test]
fn what_a_node_clears_is_cleared_on_all() {
    let environment = TestEnvironment::new();
    let ClusterSettings { flush_every, fresh_for, stale_for, .. } = environment.settings;
    let known = flush_every + fresh_for.max(stale_for) + flush_every / 16 + 2 * WITHIN + SECOND;
    let [one, other] = [1, 2].map(|number| environment.node(number));
    let key = key(FAILED, 1);
    let read = |node: &Arc<Cluster>| {
        // Nobody has looked for a while, so it is read anew first.
        environment.ask(node, peek(key, at(90_000))).unwrap();
        environment.simulated.run_for(2 * WITHIN);
        let reading = environment.ask(node, peek(key, at(90_000))).unwrap().readings.remove(0);
        assert_eq!(reading.quality, Quality::Exact);
        [reading.sum(0, 1), reading.sum(1, 1), reading.sum(1, 0)]
    };
    // In an hour of the day before, and in this one.
    for (node, seconds, amount) in [(&one, 20_000, 3), (&other, 89_990, 2), (&one, 90_000, 1)] {
        environment.ask(node, add(key, at(seconds), [(0, 1), (1, amount)])).unwrap();
    }
    environment.simulated.run_for(known);
    assert_eq!([read(&one), read(&other)], [[3, 6, 3]; 2]);
    // What comes behind it in one request counts.
    let requests = [request(vec![clear(key, at(90_000), [1]), add(key, at(90_000), [(1, 4)])])];
    let node = one.clone();
    let cleared = async move { node.observe(&requests).await };
    environment.simulated.run(0, SECOND, cleared).expect("an answer").unwrap();
    assert_eq!(read(&one), [4, 4, 3]);
    environment.simulated.run_for(known);
    assert_eq!([read(&one), read(&other)], [[4, 4, 3]; 2]);
    environment.ask(&other, clear(key, at(90_000), [1])).unwrap();
    environment.ask(&other, add(key, at(90_001), [(0, 1), (1, 1)])).unwrap();
    environment.simulated.run_for(known);
    assert_eq!([read(&one), read(&other)], [[1, 1, 4]; 2]);
}

#[test]
fn a_hot_key_costs_one_write_an_interval() {
    let environment = TestEnvironment::new();
    let node = environment.node(1);
    let hot = key(DAY, 1);
    let start = environment.simulated.now();
    for _ in 0..500 {
        environment.ask(&node, add(hot, at(1000), [(0, 1)])).unwrap();
    }
    environment.drain(&node);
    let intervals = (environment.simulated.now() - start).as_secs() + 2;
    let (reads, writes) = environment.cloud.traffic();
    assert_eq!(environment.cloud.total(hot, 0), 500);
    assert!(
        writes <= intervals && reads <= intervals,
        "{reads} reads, {writes} writes in {intervals} intervals"
    );
    let metrics = node.metrics();
    assert!(metrics.hits > 400 && metrics.misses == 1, "{metrics:?}");
}

#[test]
fn what_nobody_else_changes_is_not_read_again() {
    let environment = TestEnvironment::new();
    let keys = || (0..40).map(|number| key(DAY, number));
    let [adding, asking] = [1, 2].map(|number| environment.node(number));
    for _ in 0..60 {
        keys().for_each(|key| drop(environment.ask(&adding, add(key, at(1000), [(0, 1)])).unwrap()));
        environment.simulated.run_for(SECOND);
    }
    // Before anything is there nobody says who wrote it.
    let metrics = adding.metrics();
    assert!(metrics.reads <= 2 * 40 && metrics.writes >= 40 * 20, "{metrics:?}");
    environment.drain(&adding);
    for _ in 0..60 {
        keys().for_each(|key| assert_eq!(environment.sum(&asking, key), 60));
        environment.simulated.run_for(SECOND);
    }
    let metrics = asking.metrics();
    assert!(metrics.reads <= 2 * 40, "{metrics:?}");
    assert!((1..=16 * 120).contains(&metrics.checks), "one look at each partition and second: {metrics:?}");
}

#[test]
fn nodes_exceed_a_limit_by_what_they_let_through_unseen() {
    let environment = TestEnvironment::new();
    let nodes: Vec<_> = (1..=3).map(|number| environment.node(number)).collect();
    let (user, limit) = (key(LIMIT, 1), 100);
    let take = WindowTake { cost: 1, limit, counts_all: false, interpolated: false };
    let start = environment.simulated.now();
    let mut within = 0;
    for _ in 0..200 {
        for node in &nodes {
            let taken = Observation { key: user, time: at(1000), add: Addition::Take(take) };
            let used = environment.ask(node, taken).unwrap().readings[0].sum(0, 0);
            within += u64::from(take.is_within(used));
        }
    }
    let rate = 600.0 / (environment.simulated.now() - start).as_secs_f64();
    nodes.iter().for_each(|node| environment.drain(node));
    let ClusterSettings { flush_every, fresh_for, .. } = environment.settings;
    let unseen = (flush_every + fresh_for + flush_every / 16 + 3 * WITHIN).as_secs_f64() * rate;
    assert_eq!(environment.cloud.total(user, 0), within, "what was let through is counted");
    assert!(
        within >= limit && within as f64 <= limit as f64 + unseen,
        "{within} of {limit}, {unseen} unseen"
    );
}

#[test]
fn the_journal_is_bounded_while_the_cluster_is_away() {
    let mut environment = TestEnvironment::new();
    environment.settings.journal_bytes_max = 20_000;
    environment.settings.segment_bytes = 2_000;
    let device = MemoryDevice::new();
    let node = environment.node_on(1, &device);
    environment.cloud.set_down(true);
    for number in 0..1000 {
        let outcome = environment.ask(&node, add(key(DAY, number % 5), at(1000), [(0, 1)])).unwrap();
        assert_eq!(outcome.readings[0].quality, Quality::Missing);
        assert_eq!(outcome.readings[0].sum(0, 0), number / 5, "but for what was added here");
    }
    let metrics = node.metrics();
    assert!(metrics.checkpoints > 0 && metrics.journal_bytes < 40_000 && !metrics.full, "{metrics:?}");
    let mut added = 0;
    while environment.ask(&node, add(key(DAY, 10_000 + added), at(1000), [(0, 1)])).is_ok() {
        added += 1;
        assert!(added < 10_000, "sums of so many keys do not fit");
    }
    let refused = environment.ask(&node, add(key(DAY, 1), at(1000), [(0, 1)]));
    assert!(matches!(refused, Err(LedgerError::Full { .. })), "{refused:?}");
    assert_eq!(environment.sum(&node, key(DAY, 1)), 200, "readings go on");
    environment.cloud.set_down(false);
    environment.simulated.run_for(10 * SECOND);
    environment.ask(&node, add(key(DAY, 1), at(1000), [(0, 1)])).unwrap();
    environment.drain(&node);
    assert_eq!(environment.cloud.total(key(DAY, 1), 0), 201);
    assert_eq!(
        (0..added).map(|number| environment.cloud.total(key(DAY, 10_000 + number), 0)).sum::<u64>(),
        added
    );
}

#[test]
fn what_others_than_nodes_have_changed_is_read_anew_in_time() {
    let mut environment = TestEnvironment::new();
    environment.settings.stale_for = Duration::from_secs(100);
    let ClusterSettings { flush_every, fresh_for, .. } = environment.settings;
    let slack = flush_every / 16 + 2 * WITHIN + Duration::from_millis(100);
    let [one, other] = [1, 2].map(|number| environment.node(number));
    let keys = [1, 2].map(|number| key(DAY, number));
    let partitions = keys.map(|key| environment.cloud.partitions().of(key.shingle));
    assert_ne!(partitions[0], partitions[1]);
    for key in keys {
        environment.ask(&one, add(key, at(1000), [(0, 1)])).unwrap();
        assert_eq!(environment.sum(&other, key), 0);
    }
    environment.drain(&one);
    // Nobody asks for a while, so both images are old, and answered while they are read.
    environment.simulated.run_for(5 * SECOND);
    let line = environment.cloud.line(3, Some(environment.simulated.of(0)));
    let renewed = async move { line.renew(vec![partitions[0]], WITHIN).await };
    environment.simulated.run(0, SECOND, renewed).expect("an answer").unwrap();
    environment.simulated.run_for(fresh_for + slack);
    assert_eq!(environment.sum(&other, keys[0]), 1, "what was changed is not answered as it was");
    assert_eq!(other.metrics().renewals, 1);
    assert_eq!(environment.sum(&other, keys[1]), 0, "other partitions are left alone");
}

#[test]
fn what_was_added_under_an_old_catalog_is_sent() {
    let environment = TestEnvironment::new();
    let node = environment.node(1);
    let key = key(DAY, 1);
    environment.ask(&node, add(key, at(1000), [(0, 1)])).unwrap();
    node.set_catalog(forms("1d x 9")).unwrap();
    assert_eq!(environment.sum(&node, key), 0, "the new definition counts from nothing");
    environment.ask(&node, add(key, at(1000), [(0, 2)])).unwrap();
    assert_eq!(environment.sum(&node, key), 2);
    environment.drain(&node);
    assert_eq!(environment.cloud.total(key, 0), 3, "each in its own cell");
    let mut builder = Catalog::builder();
    let other = Measure::distinct("1d".parse().unwrap(), vec![]);
    builder.add(SPACE, DAY, statistic("other", "day", other)).unwrap();
    let refused = node.set_catalog(builder.build()).unwrap_err();
    assert!(matches!(refused, LedgerError::Catalog(_)), "{refused}");
    assert_eq!(node.catalog(), forms("1d x 9"));
    assert!(node.catalog().get(Space(3), DAY).is_some());
}

#[test]
fn images_keep_to_their_budget_and_additions_stay() {
    let mut environment = TestEnvironment::new();
    environment.settings.cache_bytes = 64 << 10;
    let node = environment.node(1);
    let keys = |round: u64| (0..400).map(move |number| key(DAY, round * 1000 + number));
    for round in 0..10 {
        let observations = keys(round).map(|key| add(key, at(1000), [(0, 1)])).collect();
        let (node, request) = (node.clone(), ObserveRequest { observations, ..ObserveRequest::default() });
        let outcomes =
            environment.simulated.run(0, SECOND, async move { node.observe(&[request]).await }).unwrap();
        let outcomes: Vec<ObserveOutcome> = outcomes.unwrap().outcomes().collect();
        assert!(outcomes[0].readings.iter().all(|reading| reading.quality == Quality::Exact));
        environment.simulated.run_for(3 * SECOND);
    }
    let metrics = node.metrics();
    assert!(metrics.evictions > 2000 && metrics.cache_bytes < 300 << 10, "{metrics:?}");
    for key in keys(0).chain(keys(9)) {
        assert_eq!(environment.cloud.total(key, 0), 1);
        assert_eq!(environment.sum(&node, key), 1);
    }
}

#[test]
fn a_value_that_a_crashed_node_has_counted_is_counted_once() {
    let environment = TestEnvironment::new();
    let owner = key(VALUES, 1);
    let device = MemoryDevice::new();
    let node = environment.node_again(1, 101, &device);
    environment.cloud.set_down(true);
    // The same value twice in one batch, and none of it reaches the cluster.
    for value in [7, 7, 8] {
        environment.ask(&node, distinct(owner, at(1000), value)).unwrap();
    }
    environment.simulated.kill(101);
    let device = device.crash(1);
    let node = environment.node_again(1, 102, &device);
    // Before the cluster has said anything, and after.
    let reading =
        |value| environment.ask(&node, distinct(owner, at(1000), value)).unwrap().readings.remove(0);
    assert_eq!(reading(8).quality, Quality::Missing);
    environment.cloud.set_down(false);
    for _ in 0..3 {
        let told = [7, 8].map(|value| {
            let reading = reading(value);
            (reading.sum(0, 0), reading.fresh)
        });
        assert_eq!(told, [(2, false); 2]);
    }
    environment.drain(&node);
    assert_eq!((environment.cloud.total(owner, 0), environment.sum(&node, owner)), (2, 2));
}

/// A process that is killed leaves writes on their way. What the next one has in its journal it sends as one batch, of which
/// the cluster may then have a part.
#[test]
fn a_batch_of_a_killed_node_that_arrives_late_is_counted_once() {
    // The batches that arrive while the next process waits, whether it reads the keys or sends its own in between, and
    // whether the journal is written anew meanwhile.
    let cases = [(true, false), (false, false), (true, true), (false, true)];
    // Also where all that waits is too large for one request.
    for ((reads, checkpoints), bytes_max) in cases.into_iter().flat_map(|case| [(case, 1), (case, 16 << 20)])
    {
        let mut environment = TestEnvironment::new();
        environment.settings.batch_bytes_max = bytes_max;
        let keys = [key(DAY, 1), key(DAY, 2), key(DAY, 3)];
        let (owner, device) = (key(VALUES, 1), MemoryDevice::new());
        // One of each key in the first batch, of some in the second, and in the last.
        let rounds = [&keys[..], &keys[..1], &keys[1..]];
        let node = environment.node_again(1, 101, &device);
        environment.cloud.hold_writes(true);
        for (round, value) in rounds.into_iter().zip([7, 8, 7]) {
            for key in round {
                environment.ask(&node, add(*key, at(1000), [(0, 1)])).unwrap();
            }
            environment.ask(&node, distinct(owner, at(1000), value)).unwrap();
            environment.simulated.run_for(3 * SECOND);
        }
        environment.simulated.kill(101);
        if checkpoints {
            (environment.settings.journal_bytes_max, environment.settings.segment_bytes) = (200, 100);
        }
        let device = device.crash(1);
        let node = environment.node_again(1, 102, &device);
        let all = |node: &Arc<Cluster>| keys.map(|key| environment.sum(node, key)).into_iter().sum::<u64>();
        assert_eq!((all(&node), environment.sum(&node, owner)), (6, 2), "{reads} {checkpoints}");
        assert!(matches!(environment.cloud.release_write(), WriteOutcome::Now(_)));
        for _ in 0..4 {
            if reads {
                assert_eq!((all(&node), environment.sum(&node, owner)), (6, 2), "{reads} {checkpoints}");
            }
            environment.simulated.run_for(SECOND);
        }
        environment.cloud.hold_writes(false);
        for _ in 0..4 {
            environment.simulated.run_for(SECOND);
            assert_eq!((all(&node), environment.sum(&node, owner)), (6, 2), "{reads} {checkpoints}");
        }
        environment.drain(&node);
        let total = keys.map(|key| environment.cloud.total(key, 0)).into_iter().sum::<u64>();
        assert_eq!((total, environment.cloud.total(owner, 0)), (6, 2), "{reads} {checkpoints}");
    }
}

/// Additions of a long outage go to the cluster in requests of a bounded size, each counted once, also where the
/// node is killed between two of them, or the cluster forgets some.
#[test]
fn a_long_outage_is_sent_in_pieces() {
    const KEYS: u64 = 400;
    const BYTES_MAX: usize = 1 << 10;
    for (kills, fails_over) in [(false, false), (true, false), (false, true), (true, true)] {
        let mut environment = TestEnvironment::new();
        (environment.settings.batch_bytes_max, environment.settings.flush_bytes) = (BYTES_MAX, BYTES_MAX);
        let (owner, mut device, mut killed) = (key(VALUES, 1), MemoryDevice::new(), 0);
        let mut node = environment.node_again(1, 101, &device);
        environment.simulated.run_for(3 * SECOND);
        environment.cloud.set_down(true);
        for number in 0..KEYS {
            for _ in 0..2 {
                environment.ask(&node, add(key(DAY, number), at(1000), [(0, 1)])).unwrap();
            }
            environment.ask(&node, distinct(owner, at(1000), number / 2)).unwrap();
        }
        environment.cloud.set_down(false);
        environment.cloud.set_faults(3, if fails_over { 20 } else { 0 });
        for round in 0..200 {
            environment.simulated.run_for(SECOND / 20);
            if kills && round % 7 == 3 {
                environment.simulated.kill(101 + killed);
                (device, killed) = (device.crash(round), killed + 1);
                node = environment.node_again(1, 101 + killed, &device);
            }
            if round % 5 == 0 {
                environment.cloud.replicate();
            }
        }
        environment.cloud.set_faults(0, 0);
        environment.simulated.run_for(20 * SECOND);
        environment.drain(&node);
        let context = format!("kills {kills}, fails over {fails_over}");
        for number in 0..KEYS {
            assert_eq!(environment.cloud.total(key(DAY, number), 0), 2, "{context}: {number}");
        }
        assert_eq!(environment.cloud.total(owner, 0), KEYS / 2, "{context}");
        // A change is some hundred bytes of a node's memory, or, of values, 16.
        let largest = environment.cloud.largest_batch();
        assert!(largest <= BYTES_MAX / 16, "{context}: {largest}");
    }
}

/// A batch that is not cut further fits into what servers take.
#[test]
fn the_largest_batch_is_far_below_what_servers_take() {
    let ClusterSettings { batch_bytes_max, .. } = TestEnvironment::new().settings;
    // A value of a distinct count takes the least memory for a change: 16 bytes, and up to 40 of a request.
    assert!(2 * batch_bytes_max / 16 <= cells::request::CHANGES_MAX);
    assert!(2 * batch_bytes_max * 40 / 16 <= cells::request::BYTES_MAX);
}

/// Half of the cluster is away: a request whose mark lies there is unconfirmed, alone, and counted later; all others are
/// counted at once. What could be read is answered for all.
#[test]
fn requests_of_a_batch_fail_one_by_one_and_count_once() {
    let environment = TestEnvironment::new();
    let node = environment.node(1);
    let partitions = environment.cloud.partitions();
    let is_away = |key: Key| partitions.of(key.shingle).0 < 8;
    let (users, marks) = (|number| key(DAY, number), |number| key(MARK, 1000 + number));
    let request = |number: u64| ObserveRequest {
        once: (!number.is_multiple_of(3)).then(|| DedupeMark { key: marks(number), time: at(1000) }),
        observations: vec![add(users(number), at(1000), [(0, 1)])],
        ..ObserveRequest::default()
    };
    let numbers = 0..90;
    let requests: Vec<ObserveRequest> = numbers.clone().map(request).collect();
    let ask = |requests: &[ObserveRequest]| -> Result<ObserveOutcomes, LedgerError> {
        let (node, requests) = (node.clone(), requests.to_vec());
        environment
            .simulated
            .run(0, SECOND, async move { node.observe_each(&requests).await })
            .expect("an answer")
    };
    environment.cloud.set_away(0..8);
    let outcomes = ask(&requests).unwrap();
    let (mut unconfirmed, mut unread) = (0, 0);
    for number in numbers.clone() {
        let at = number as usize;
        let is_unknown = number % 3 > 0 && is_away(marks(number));
        assert_eq!(outcomes.is_unconfirmed(at), is_unknown, "{number}");
        assert!(!outcomes.duplicate(at), "{number}");
        let quality = outcomes.readings(at).first().map(|reading| reading.quality());
        let expected = if is_away(users(number)) { Quality::Missing } else { Quality::Exact };
        assert_eq!(quality, Some(expected), "{number}");
        unconfirmed += u64::from(is_unknown);
        unread += u64::from(expected == Quality::Missing);
    }
    assert!((10..50).contains(&unconfirmed) && (20..70).contains(&unread), "{unconfirmed} {unread}");
    let whole = environment.simulated.run(0, SECOND, {
        let (node, requests) = (node.clone(), requests.clone());
        async move { node.observe(&requests).await }
    });
    let whole = whole.expect("an answer");
    assert!(matches!(whole, Err(LedgerError::Unreachable { .. })), "who needs all is told: {whole:?}");
    environment.cloud.set_away(0..0);
    // Those that somebody sends again are counted once all the same.
    let repeated: Vec<ObserveRequest> =
        numbers.clone().filter(|number| number % 3 > 0).map(request).collect();
    let again = ask(&repeated).unwrap();
    assert!(again.failure().is_none());
    environment.simulated.run_for(Duration::from_secs(20));
    assert!((0..repeated.len()).all(|at| ask(&repeated).unwrap().duplicate(at)));
    environment.drain(&node);
    for number in numbers {
        // Two calls counted what has no mark.
        let expected = if number % 3 == 0 { 2 } else { 1 };
        assert_eq!(environment.cloud.total(users(number), 0), expected, "{number}");
    }
}

/// A refund of an exact limit fails alone, too.
#[test]
fn a_refund_whose_shard_is_away_fails_alone() {
    let environment = TestEnvironment::new();
    let node = environment.node(1);
    let partitions = environment.cloud.partitions();
    let numbers = || (0..).filter(|number| partitions.of(key(EXACT, *number).shingle).0 < 8);
    let away = numbers().next().unwrap();
    let there = (0..).find(|number| partitions.of(key(EXACT, *number).shingle).0 >= 8).unwrap();
    let back = |number: u64| {
        let add = Addition::GiveBack { amount: 1, taken: None };
        request(vec![Observation { key: key(EXACT, number), time: at(1000), add }])
    };
    let requests = [back(there), back(away), request(vec![add(key(DAY, there), at(1000), [(0, 1)])])];
    environment.cloud.set_away(0..8);
    let outcomes = {
        let (node, requests) = (node.clone(), requests.clone());
        environment.simulated.run(0, SECOND, async move { node.observe_each(&requests).await })
    };
    let outcomes = outcomes.expect("an answer").unwrap();
    assert_eq!([0, 1, 2].map(|at| outcomes.is_unconfirmed(at)), [false, true, false]);
    environment.cloud.set_away(0..0);
    environment.drain(&node);
    assert_eq!(environment.cloud.total(key(DAY, there), 0), 1);
}
