//! Faults of a real cluster, under a load of which it is known what was acknowledged.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use cluster::remote::{
    CellChange, CellForm, CellImage, PartitionRead, RemoteCell, RemoteCluster, RemoteError, WriteBatch,
    WriteOutcome,
};
use cluster::wire::{CircuitState, WireSettings, slot};
use event::Time;
use stats::CellPlan;

use crate::proxy::{Network, Proxy};
use crate::reshard::{move_slots, slots_of};
use crate::servers::{Cluster, wait};
use crate::support::{WITHIN, WireNode, assert_made, batch, cell, form, measures, settings};

/// One key in each of some partitions, and how often it was added to.
struct Load {
    wired: WireNode,
    cells: Vec<RemoteCell>,
    /// Additions that were acknowledged; the number of the partition's last batch.
    acknowledged: Vec<u64>,
    /// Acknowledged additions that were not there any more, and were sent again.
    behind: u64,
    one: CellImage,
}

const WITHIN_LOAD: Duration = Duration::from_millis(400);

impl Load {
    fn new(settings: WireSettings, partitions: u64) -> Load {
        let form: Arc<CellForm> = form(0, measures().remove(0));
        let plan = CellPlan::new(&form.definition.measure).unwrap();
        let at = Time::from_seconds(1_750_000_000);
        let mut one = CellImage::new();
        plan.add(&mut one, at, [(0, 1)]);
        let cells =
            (0..partitions).map(|number| cell(&form, (number * 1024 / partitions) << 54 | number)).collect();
        Load {
            wired: WireNode::open(settings),
            cells,
            acknowledged: vec![0; partitions as usize],
            behind: 0,
            one,
        }
    }

    fn batch(&self, at: usize) -> WriteBatch {
        let cell = self.cells[at].clone();
        let partition = self.wired.of(&cell);
        let change = CellChange::Merge(self.one.clone());
        batch(partition, self.acknowledged[at] + 1, Time(i64::MIN), vec![(cell, change)])
    }

    /// Adds one to every key; answers what was not acknowledged, which the next call sends again.
    fn add(&mut self) -> Vec<RemoteError> {
        let batches: Vec<WriteBatch> = (0..self.cells.len()).map(|at| self.batch(at)).collect();
        let answers = pollster::block_on(self.wired.wire.write(batches, WITHIN_LOAD));
        let mut failures = Vec::new();
        for (at, answer) in answers.into_iter().enumerate() {
            match answer {
                Ok(WriteOutcome::Now(_) | WriteOutcome::Before) => self.acknowledged[at] += 1,
                Ok(WriteOutcome::Behind(has)) => {
                    self.behind += self.acknowledged[at] - has;
                    self.acknowledged[at] = has;
                }
                Err(failure) => failures.push(failure),
            }
        }
        failures
    }

    /// Returns the count that the cluster has of each key, in one call.
    fn counts(&self, within: Duration) -> Vec<Result<u64, RemoteError>> {
        let read = |cell: &RemoteCell| PartitionRead {
            partition: self.wired.of(cell),
            cells: vec![cell.clone()],
            places: Vec::new(),
        };
        let found = pollster::block_on(self.wired.wire.read(self.cells.iter().map(read).collect(), within));
        let plan = &self.cells[0].form.plan;
        let count = |found: cluster::remote::PartitionImages| {
            let image = found.images.into_iter().next().flatten();
            image.map_or(0, |words| plan.rows(&words)[0].counts[0])
        };
        found.into_iter().map(|found| found.map(count)).collect()
    }

    /// Adds until all is acknowledged again, and checks that all that was is counted once.
    fn check(&mut self) {
        wait("additions are acknowledged", || self.add().is_empty());
        let counts: Vec<_> = self.counts(WITHIN).into_iter().map(Result::unwrap).collect();
        assert_eq!(counts, self.acknowledged);
    }
}

fn waiting(cluster: &Cluster) -> WireSettings {
    WireSettings { replicas: 1, ..settings(cluster.addresses(), 1) }
}

#[test]
pub(crate) fn a_killed_master_loses_nothing_that_replicas_have() {
    let Some(mut cluster) = Cluster::start() else { return };
    let mut load = Load::new(waiting(&cluster), 48);
    (0..20).for_each(|_| drop(load.add()));
    load.check();
    let victim = cluster.masters()[0];
    cluster.servers[victim].signal("KILL");
    let killed = Instant::now();
    let (mut partial, mut rounds) = (0, 0);
    wait("a replica takes over", || {
        let failures = load.add();
        rounds += 1;
        partial += u64::from(!failures.is_empty() && failures.len() < load.cells.len());
        cluster.masters().len() == 3
    });
    // Without a replica of its own the new master has nobody to confirm its writes.
    cluster.servers[victim].again();
    wait("all is acknowledged again", || load.add().is_empty());
    println!(
        "killed master: recovered after {:?}, {rounds} rounds, {partial} partly answered",
        killed.elapsed()
    );
    assert!(partial > 0, "the other shards went on");
    load.check();
    assert_eq!(load.behind, 0, "what replicas have confirmed was not lost");
}

#[test]
pub(crate) fn a_paused_master_is_not_waited_for() {
    let Some(mut cluster) = Cluster::start() else { return };
    let mut load = Load::new(settings(cluster.addresses(), 1), 48);
    load.check();
    let victim = cluster.masters()[1];
    cluster.servers[victim].signal("STOP");
    let address = cluster.servers[victim].address();
    let circuit = |load: &Load| {
        let shards = load.wired.wire.shards();
        shards.into_iter().find(|shard| shard.address.to_string() == address).map(|shard| shard.circuit)
    };
    let mut has_opened = false;
    wait("a replica takes over", || {
        let failures = load.add();
        has_opened |= circuit(&load) == Some(CircuitState::Open);
        failures.is_empty()
    });
    assert!(has_opened, "its circuit opened");
    cluster.servers[victim].signal("CONT");
    cluster.settle();
    for _ in 0..5 {
        load.check();
    }
}

#[test]
pub(crate) fn slots_move_under_load() {
    let Some(cluster) = Cluster::start() else { return };
    let mut load = Load::new(waiting(&cluster), 64);
    load.check();
    let masters = cluster.masters();
    let slots = slots_of(&cluster, masters[0], 700);
    let mut rounds = 0;
    std::thread::scope(|scope| {
        let moves = scope.spawn(|| move_slots(&cluster, masters[0], masters[1], &slots));
        while !moves.is_finished() {
            let failures = load.add();
            let is_known = |failure: &RemoteError| {
                matches!(failure, RemoteError::Moving(_) | RemoteError::Unreachable(_))
            };
            assert!(failures.iter().all(is_known), "{failures:?}");
            // Additions that were not acknowledged may have been made.
            for (count, acknowledged) in load.counts(WITHIN).into_iter().zip(&load.acknowledged) {
                let count = count.expect("reads go on");
                assert!(count == *acknowledged || count == acknowledged + 1);
            }
            rounds += 1;
        }
    });
    let counters = load.wired.wire.counters();
    println!("reshard: {rounds} rounds, {} moved", counters.moved.load(Ordering::Relaxed));
    assert!(counters.moved.load(Ordering::Relaxed) > 0);
    load.check();
    assert_eq!(load.behind, 0);
}

#[test]
pub(crate) fn a_slot_whose_keys_lie_apart_is_read_key_by_key() {
    let Some(cluster) = Cluster::start() else { return };
    let wired = WireNode::open(settings(cluster.addresses(), 1));
    let form = form(0, measures().remove(0));
    let cells: Vec<RemoteCell> = (0..4).map(|number| cell(&form, 77 << 54 | number << 52)).collect();
    let partition = wired.of(&cells[0]);
    let at = Time::from_seconds(1_750_000_000);
    let mut image = CellImage::new();
    form.plan.add(&mut image, at, []);
    let change = || CellChange::Merge(image.clone());
    let writes = |cells: &[RemoteCell]| cells.iter().map(|cell| (cell.clone(), change())).collect::<Vec<_>>();
    // The last is not there.
    assert_made(wired.write_one(batch(partition, 1, Time(i64::MIN), writes(&cells[..3]))));
    let number = slot::slot_of(partition, wired.partitions);
    let source = cluster.master_of(number);
    let target = cluster.masters().into_iter().find(|at| *at != source).unwrap();
    let [source, target] = [source, target].map(|at| &cluster.servers[at]);
    let number = number.to_string();
    target.cli(&["CLUSTER", "SETSLOT", &number, "IMPORTING", &source.id()]);
    source.cli(&["CLUSTER", "SETSLOT", &number, "MIGRATING", &target.id()]);
    let mut direct =
        redis::Client::open(format!("redis://{}/", source.address())).unwrap().get_connection().unwrap();
    let names: Vec<Vec<u8>> =
        redis::cmd("CLUSTER").arg("GETKEYSINSLOT").arg(&number).arg(10).query(&mut direct).unwrap();
    assert_eq!(names.len(), 5);
    let mut migrate = |name: &[u8]| {
        let mut command = redis::cmd("MIGRATE");
        command.arg("127.0.0.1").arg(target.port).arg(name).arg(0).arg(5000);
        command.query::<String>(&mut direct).unwrap();
    };
    for (moved, name) in names.iter().enumerate() {
        migrate(name);
        let found = wired.read_one(partition, &cells).unwrap();
        assert_eq!(found.number, 1);
        let there: Vec<bool> = found.images.iter().map(Option::is_some).collect();
        assert_eq!(there, [true, true, true, false], "{moved} keys moved");
        let written = wired.write_one(batch(partition, 2, Time(i64::MIN), writes(&cells)));
        assert_eq!(written, Err(RemoteError::Moving(partition)));
    }
    for server in [target, source] {
        server.cli(&["CLUSTER", "SETSLOT", &number, "NODE", &target.id()]);
    }
    assert_made(wired.write_one(batch(partition, 2, Time(i64::MIN), writes(&cells))));
    let found = wired.read_one(partition, &cells).unwrap();
    assert_eq!((found.number, found.images.iter().flatten().count()), (2, 4));
    let counters = wired.wire.counters();
    assert!(counters.apart.load(Ordering::Relaxed) > 0 && counters.asked.load(Ordering::Relaxed) > 0);
}

#[test]
pub(crate) fn a_server_without_memory_is_full() {
    let Some(cluster) = Cluster::single(&[]) else { return };
    let mut load = Load::new(settings(cluster.addresses(), 1), 8);
    load.check();
    cluster.servers[0].cli(&["CONFIG", "SET", "maxmemory", "1"]);
    let failures = load.add();
    assert_eq!(failures.len(), 8);
    assert!(failures.iter().all(|failure| matches!(failure, RemoteError::Full(_))), "{failures:?}");
    assert!(load.counts(WITHIN).iter().all(|count| *count == Ok(1)), "what is there is read");
    cluster.servers[0].cli(&["CONFIG", "SET", "maxmemory", "0"]);
    load.check();
}

#[test]
pub(crate) fn an_answer_that_is_lost_counts_once() {
    let Some(cluster) = Cluster::single(&[]) else { return };
    let proxy = Proxy::start(cluster.servers[0].address());
    let reach = vec![(cluster.servers[0].address(), proxy.address.to_string())];
    let all = settings(cluster.addresses(), 1);
    let mut load = Load::new(WireSettings { reach, failures_max: 3, ..all }, 8);
    load.check();
    proxy.set(Network::Deaf);
    let failures = load.add();
    assert!(failures.iter().all(|failure| matches!(failure, RemoteError::Unreachable(_))), "{failures:?}");
    assert_eq!(failures.len(), 8);
    for network in [Network::Whole, Network::Cut, Network::Whole] {
        proxy.set(network);
        if network == Network::Cut {
            wait("the circuit opens", || {
                load.add().iter().any(|failure| matches!(failure, RemoteError::Open(_)))
            });
        } else {
            load.check();
        }
    }
    let counters = load.wired.wire.counters();
    assert!(counters.timeouts.load(Ordering::Relaxed) > 0 && counters.refused.load(Ordering::Relaxed) > 0);
    assert!(counters.resent.load(Ordering::Relaxed) > 0, "a broken connection is replaced");
}

#[test]
fn each_shard_says_whether_it_answers() {
    let Some(mut cluster) = Cluster::unreplicated() else { return };
    let wired = WireNode::open(settings(cluster.addresses(), 1));
    let silent = || -> Vec<String> {
        let answers = pollster::block_on(wired.wire.shard_answers());
        assert_eq!(answers.len(), 3, "{answers:?}");
        answers.into_iter().filter(|answer| answer.failure.is_some()).map(|answer| answer.name).collect()
    };
    assert_eq!(silent(), Vec::<String>::new());
    let address = cluster.servers[1].address();
    cluster.servers[1].signal("STOP");
    assert_eq!(silent(), [address]);
    cluster.servers[1].signal("CONT");
    // The others have given it up meanwhile, and it is not asked for a while.
    wait("it answers again", || silent().is_empty());
}
