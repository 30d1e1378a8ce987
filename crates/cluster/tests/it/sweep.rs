//! The slow pass makes cells smaller without changing their readings.

use std::collections::HashMap;
use std::sync::Arc;

use std::time::Duration;

use cluster::remote::{CellChange, CellForm, RemoteCell};
use cluster::wire::WireClient;
use cluster::{BackgroundTask, ClusterSweep, Environment, SweepReport, ThreadedEnvironment};
use disk::MemoryDevice;
use event::{Span, Time};
use sim::suite::{self, MASS};
use stats::{CellPlan, Ledger};

use crate::servers::{Cluster, wait};
use crate::support::{Random, WireNode, assert_made, batch, cell, form, measures, settings};

const START: Time = Time::from_seconds(1_750_000_000);

/// A whole pass: what its steps have done.
fn pass(wired: &WireNode, forms: &HashMap<u32, Arc<CellForm>>, horizon: Time) -> SweepReport {
    let mut sweep = ClusterSweep::new(&wired.wire);
    let mut all = SweepReport::default();
    while !all.ended {
        let step = wired.wait(async |_| sweep.step(forms, horizon).await).unwrap();
        all.looked += step.looked;
        all.removed += step.removed;
        all.ended = step.ended;
    }
    all
}

/// Returns what a cell's windows hold at a time.
fn reading(wired: &WireNode, plan: &CellPlan, cell: &RemoteCell, now: Time) -> Option<Vec<u64>> {
    let found = wired.read_one(wired.of(cell), std::slice::from_ref(cell)).unwrap();
    found.images[0].as_ref().map(|words| {
        let mut values = vec![0; plan.reading()];
        plan.read(words, now, &mut values);
        values
    })
}

#[test]
fn readings_stay_what_they_were() {
    let Some(cluster) = Cluster::single(&[]) else { return };
    let wired = WireNode::open(settings(cluster.addresses(), 1));
    let mut removed = 0;
    for (kind, measure) in measures().into_iter().enumerate().filter(|(kind, _)| (1..4).contains(kind)) {
        let form = form(kind as u16, measure.clone());
        let forms = HashMap::from([(form.id, form.clone())]);
        let plan = CellPlan::new(&measure).unwrap();
        let unit = if kind == 3 { 1 } else { 1_000_000 };
        let mut random = Random(kind as u64);
        let mut number = 0;
        for round in 0..40 {
            // Some are swept and then added to, others are new.
            let cell = cell(&form, ((kind as u64) << 58) | (round % 30));
            let now = START + Span(round as i64 * 40 * unit);
            let mut words = Vec::new();
            for _ in 0..1 + random.below(6) {
                let back = Span(random.below(300) as i64 * unit);
                plan.add(&mut words, now - back, [(random.below(plan.columns() as u64) as u8, 1)]);
            }
            let change = CellChange::Merge(words);
            number += 1;
            assert_made(wired.write_one(batch(
                wired.of(&cell),
                number,
                Time(i64::MIN),
                vec![(cell.clone(), change)],
            )));
            let horizon = now + Span(random.below(400) as i64 * unit);
            let times = [0, 1, 59, 60, 120, 301, 1000].map(|later| horizon + Span(later * unit));
            let before = times.map(|now| reading(&wired, &plan, &cell, now));
            assert!(before[0].is_some());
            removed += pass(&wired, &forms, horizon).removed;
            assert_eq!(
                times.map(|now| reading(&wired, &plan, &cell, now)),
                before,
                "{measure:?} round {round}"
            );
            assert_eq!(pass(&wired, &forms, horizon).removed, 0, "nothing is left to do");
            assert_eq!(
                pass(&wired, &HashMap::new(), Time(i64::MAX / 2)).removed,
                0,
                "unknown forms are left alone"
            );
        }
    }
    assert!(removed > 0);
}

/// Threads on which an hour is over soon.
struct HurriedEnvironment(ThreadedEnvironment);

impl Environment for HurriedEnvironment {
    fn now(&self) -> Duration {
        self.0.now()
    }

    fn spawn(&self, task: BackgroundTask) {
        self.0.spawn(task);
    }

    fn sleep(&self, time: Duration) -> BackgroundTask {
        self.0.sleep(time.min(Duration::from_millis(20)))
    }

    fn block(&self, job: Box<dyn FnOnce() + Send>) {
        self.0.block(job);
    }

    fn seed(&self) -> u64 {
        self.0.seed()
    }
}

#[test]
fn a_node_sweeps_by_itself() {
    let Some(cluster) = Cluster::single(&[]) else { return };
    let threads = ThreadedEnvironment::new(1).unwrap();
    let wires = settings(cluster.addresses(), 1);
    let runtime = threads.handle().unwrap();
    let wire = runtime.block_on(WireClient::open(wires.clone(), runtime.clone())).unwrap();
    let settings = cluster::ClusterSettings::new(wires.partitions);
    let device = Arc::new(MemoryDevice::new());
    let remote = Arc::new(wire.clone());
    let node = cluster::Cluster::open(
        remote,
        device,
        suite::catalog(),
        settings,
        Arc::new(HurriedEnvironment(threads)),
    )
    .unwrap();
    let key = suite::key(MASS, 1);
    let events = [20, 32, 43].map(|later| suite::add(key, START + Span::seconds(later), [(0, 1)]));
    suite::observe(&node, &[suite::request(events.to_vec())]);
    wait("all is in the cluster", || {
        let metrics = node.metrics();
        metrics.pending_bytes == 0 && metrics.waiting_partitions == 0
    });
    let later = START + Span::minutes(2);
    node.maintain(later).unwrap();
    let read = || suite::observe_one(&node, suite::request(vec![suite::peek(key, later)])).readings;
    let before = read();
    node.sweep(&wire, 0);
    node.sweep(&wire, 1_000_000);
    wait("what has aged out is swept", || node.metrics().aged > 0);
    // Three fine buckets of a minute have become one coarse one.
    assert_eq!(node.metrics().aged, 2);
    assert_eq!(read(), before);
    let swept = node.metrics().swept;
    wait("it goes on", || node.metrics().swept > swept);
    assert_eq!(node.metrics().aged, 2);
}
