//! The scripts and `stats` make the same of a cell.

use cluster::remote::{
    CellChange, CellImage, LastWriter, MarkClaim, Partition, PartitionCount, RemoteCell, RemoteCluster,
    RemoteError, WriteOutcome,
};
use cluster::wire::{WireClient, WireSettings, slot};
use event::{Shingle, Span, Time};
use stats::cell_export::CellContent;
use stats::limit::GcraOperation;
use stats::{CellPlan, Evidence, Measure, StatisticChange};

use crate::servers::Cluster;
use crate::support::{Random, WITHIN, WireNode, assert_made, batch, cell, form, measures, settings};

/// The model of what a cell would be in memory.
#[derive(Default, Clone)]
struct Model {
    words: Vec<u64>,
    pairs: std::collections::HashMap<u64, Vec<u64>>,
}

impl Model {
    fn expire(words: &mut Vec<u64>, plan: &CellPlan, horizon: Time) {
        if plan.expires(words) <= horizon {
            words.clear();
        }
    }

    fn apply(&mut self, plan: &CellPlan, change: &CellChange, delta: &[u64], horizon: Time) {
        Model::expire(&mut self.words, plan, horizon);
        match change {
            CellChange::Merge(_) => plan.merge(&mut self.words, delta),
            CellChange::Flow { now, flow } => plan.flow(&mut self.words, *now, flow),
            CellChange::Unique { pair, time } => {
                let marks = self.pairs.entry(pair.0).or_default();
                Model::expire(marks, plan, horizon);
                let (held, kept) = plan.fine(marks, plan.bucket(*time));
                let is_fresh = !held && kept;
                if is_fresh {
                    plan.add(marks, *time, [(0, 1)]);
                }
                plan.add(&mut self.words, *time, [(0, u64::from(is_fresh))]);
            }
        }
    }
}

/// Contents as far as a cluster keeps them: counts up to 2^63 - 1, decayed sums about.
fn spelled(plan: &CellPlan, words: &[u64]) -> Option<(Time, Time, CellContent)> {
    let (first, last) = plan.times(words)?;
    let mut content = plan.content(words)?;
    match &mut content {
        CellContent::Buckets(buckets) => {
            let most = i64::MAX.cast_unsigned();
            buckets.iter_mut().flat_map(|row| &mut row.counts).for_each(|count| *count = (*count).min(most));
        }
        CellContent::Totals(totals) => {
            totals.decayed.iter_mut().for_each(|sum| *sum = format!("{sum:.9e}").parse().unwrap());
        }
        CellContent::Registers(periods) => periods.iter_mut().for_each(|period| period.ranks.sort_unstable()),
        CellContent::Evidence(_) | CellContent::Moment(_) | CellContent::Last(_) => {}
    }
    Some((first, last, content))
}

fn amount(random: &mut Random) -> u64 {
    match random.below(12) {
        0 => u64::MAX - random.below(3),
        1 => (1 << 53) - random.below(3),
        2 => 1 << random.below(64),
        _ => 1 + random.below(3),
    }
}

/// Words of a few events around a time.
fn events(plan: &CellPlan, random: &mut Random, measure: &Measure, now: Time) -> Vec<u64> {
    let mut words = Vec::new();
    for _ in 0..1 + random.below(4) {
        let back = [0, 3, 30, 300, 3000][random.below(5) as usize];
        let time = Time(now.0 - (random.below(1 + back * 1_000_000) as i64));
        let value = match random.below(8) {
            0 => i64::MIN,
            1 => i64::MAX,
            2 => (1 << 53) * if random.below(2) == 0 { 1 } else { -1 },
            3 => -1,
            _ => random.below(1000) as i64 - 300,
        };
        match measure {
            Measure::Aggregate(_) => plan.add_value(&mut words, time, (random.below(4) > 0).then_some(value)),
            Measure::Evidence(_) => {
                let evidence =
                    Evidence { bad: value, good: random.below(3) as i64 - 1, weight: -value.max(-9) };
                plan.add_evidence(&mut words, time, evidence);
            }
            Measure::Last(_) => {
                // Some at one time, and of any bytes.
                let value = ["", "DE", "DEU", "D\u{0}", "\u{80}", "z"][random.below(6) as usize];
                let value = value.repeat(1 + random.below(9) as usize);
                plan.apply(&mut words, &StatisticChange::Last(time, &value));
            }
            Measure::Gcra(_) => plan.flow(&mut words, time, &GcraOperation::Set { ahead: value.max(0) }),
            Measure::Approx(_) => (0..1 + random.below(200)).for_each(|_| {
                plan.add_hash(
                    &mut words,
                    time,
                    random.below(1 << 11).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 3,
                );
            }),
            _ => {
                let counters = measure.counters().len() as u64;
                let one = (random.below(counters) as u8, amount(random));
                plan.add(&mut words, time, [one, (random.below(counters) as u8, 1)]);
            }
        }
    }
    words
}

fn change(plan: &CellPlan, random: &mut Random, owner: &RemoteCell, now: Time) -> (CellChange, Vec<u64>) {
    let measure = &owner.form.definition.measure;
    if matches!(measure, Measure::Distinct(_)) && random.below(4) > 0 {
        let time = Time(now.0 - random.below(400_000_000) as i64);
        // Of this owner alone, and in its partition.
        let pair = Shingle(owner.key.shingle.0 | (1 + random.below(6)) << 20);
        return (CellChange::Unique { pair, time }, Vec::new());
    }
    if *measure == Measure::gcra() && random.below(8) > 0 {
        let cost = [1, -1, 250_000_000, 7_000_000_001, i64::MAX][random.below(5) as usize];
        let flow = match random.below(5) {
            0 => GcraOperation::Back { cost },
            1 => GcraOperation::Set { ahead: cost },
            2 => GcraOperation::Add { cost },
            _ => GcraOperation::Take {
                cost,
                burst: 1 + random.below(20_000_000_000) as i64,
                counts_all: random.below(2) == 0,
            },
        };
        return (CellChange::Flow { now, flow }, Vec::new());
    }
    let words = events(plan, random, measure, now);
    if plan.times(&words).zip(plan.content(&words)).is_none() {
        return (CellChange::Flow { now, flow: GcraOperation::Back { cost: 0 } }, Vec::new());
    }
    (CellChange::Merge(words.clone()), words)
}

/// Random histories of every form, some of them before 1970.
#[test]
pub(crate) fn cells_are_those_of_stats() {
    let Some(cluster) = Cluster::single(&[]) else { return };
    check_cells(&cluster);
}

pub(crate) fn check_cells(cluster: &Cluster) {
    let wired = WireNode::open(settings(cluster.addresses(), 1));
    let mut numbers = std::collections::HashMap::<Partition, u64>::new();
    for (kind, measure) in measures().into_iter().enumerate() {
        let form = form(kind as u16, measure.clone());
        let plan = CellPlan::new(&measure).unwrap();
        for seed in 0..12u64 {
            let mut random = Random(seed << 8 | kind as u64);
            let cells: Vec<RemoteCell> = (0..3).map(|number| cell(&form, seed << 40 | number)).collect();
            let partition = wired.of(&cells[0]);
            let mut models = vec![Model::default(); cells.len()];
            let mut now = Time([1_750_000_000_000_000, 0, -5_000_000][seed as usize % 3]);
            let mut latest = Time(i64::MIN);
            for _ in 0..12 {
                let step = [0, 1, 9_000_000, 61_000_000, 700_000_000][random.below(5) as usize];
                let step = if kind == 3 { 1 + step % 7 } else { step };
                now = now + Span(step);
                let horizon = now - Span([i64::MAX / 1000, 400_000_000, 0][random.below(3) as usize]);
                // Tables let go of what has expired wherever somebody writes; as nodes do, no horizon goes back then.
                let horizon = if wired.wire.has_tables() { horizon.max(latest) } else { horizon };
                latest = horizon;
                let mut writes = Vec::new();
                for _ in 0..1 + random.below(3) {
                    let at = random.below(cells.len() as u64) as usize;
                    let (change, delta) = change(&plan, &mut random, &cells[at], now);
                    models[at].apply(&plan, &change, &delta, horizon);
                    writes.push((cells[at].clone(), change));
                }
                let number = numbers.entry(partition).or_default();
                *number += 1;
                let written = wired.write_one(batch(partition, *number, horizon, writes.clone()));
                assert_made(written);
                let found = wired.read_one(partition, &cells).unwrap();
                assert_eq!(found.number, *number);
                assert_eq!(found.unsound, []);
                for (words, model) in found.images.into_iter().zip(&models) {
                    if words.is_none() && wired.wire.has_tables() && plan.expires(&model.words) <= latest {
                        continue;
                    }
                    let ours = words.and_then(|words| spelled(&plan, &words));
                    assert_eq!(ours, spelled(&plan, &model.words), "{measure:?} seed {seed}: {writes:?}");
                }
            }
        }
    }
    let counters = wired.wire.counters();
    let count = |counter: &std::sync::atomic::AtomicU64| counter.load(std::sync::atomic::Ordering::Relaxed);
    assert_eq!((count(&counters.damaged), count(&counters.broken)), (0, 0));
    assert!(
        wired.wire.has_tables() || count(&counters.loaded) > 0,
        "scripts were loaded when they were asked for"
    );
}

#[test]
pub(crate) fn a_batch_counts_once_and_none_is_left_out() {
    let Some(cluster) = Cluster::single(&[]) else { return };
    let wired = WireNode::open(settings(cluster.addresses(), 1));
    let other = WireNode::open(settings(cluster.addresses(), 2));
    let measure = measures().remove(0);
    let (plan, form) = (CellPlan::new(&measure).unwrap(), form(0, measure));
    let at = Time::from_seconds(1_750_000_000);
    let key = cell(&form, 7 << 48);
    let partition = wired.of(&key);
    let mut image = CellImage::new();
    plan.add(&mut image, at, [(0, 1)]);
    let numbered = |number| {
        batch(partition, number, Time(i64::MIN), vec![(key.clone(), CellChange::Merge(image.clone()))])
    };
    let count = || match wired.read_one(partition, std::slice::from_ref(&key)).unwrap().images.remove(0) {
        Some(words) => plan.rows(&words)[0].counts[0],
        None => panic!("it is not there"),
    };
    assert_eq!(wired.write_one(numbered(1)), Ok(WriteOutcome::Now(LastWriter::Unknown)));
    assert_eq!(wired.write_one(numbered(1)), Ok(WriteOutcome::Before));
    assert_eq!(wired.write_one(numbered(3)), Ok(WriteOutcome::Behind(1)));
    assert_eq!(count(), 1);
    assert_eq!(wired.write_one(numbered(2)), Ok(WriteOutcome::Now(LastWriter::This(1))));
    assert_eq!(wired.write_one(numbered(1)), Ok(WriteOutcome::Before));
    let after_loss = cluster::remote::WriteBatch { previous: 2, ..numbered(9) };
    assert_made(wired.write_one(after_loss));
    assert_eq!(count(), 3);
    // What is made of more batches than those after the last one would count some again.
    let too_much = cluster::remote::WriteBatch { previous: 2, ..numbered(12) };
    assert_eq!(wired.write_one(too_much), Ok(WriteOutcome::Behind(9)));
    assert_eq!(count(), 3);
    let after = LastWriter::Other([1; 16], 9);
    assert_eq!(other.write_one(numbered(1)), Ok(WriteOutcome::Now(after)), "each node counts its own");
    assert_eq!(count(), 4);
    let numbers = pollster::block_on(wired.wire.numbers(WITHIN));
    assert_eq!(numbers.len(), usize::from(wired.partitions.count()));
    for (number, at) in numbers.into_iter().zip(0..) {
        assert_eq!(number, Ok(if Partition(at) == partition { 9 } else { 0 }));
    }
    cluster.servers[0].cli(&["SCRIPT", "FLUSH"]);
    let made = wired.write_one(numbered(10));
    let after = LastWriter::Other([2; 16], 1);
    assert_eq!(made, Ok(WriteOutcome::Now(after)), "a server that forgets scripts is told them");
    assert_eq!(count(), 5);
}

#[test]
pub(crate) fn a_mark_is_left_by_one() {
    let Some(cluster) = Cluster::single(&[]) else { return };
    let wired = WireNode::open(settings(cluster.addresses(), 1));
    let form = form(11, Measure::once(Span::minutes(1)));
    let at = Time::from_seconds(1_750_000_020);
    let claim = |shingle: u64, time: Time, token: u8| MarkClaim {
        cell: cell(&form, shingle),
        time,
        token: [token; 16],
    };
    let ask = |claims: Vec<MarkClaim>| {
        let answers = pollster::block_on(wired.wire.claim(claims, WITHIN));
        answers.into_iter().map(Result::unwrap).collect::<Vec<_>>()
    };
    assert_eq!(ask(vec![claim(1, at, 1), claim(1, at, 2), claim(2 << 50, at, 2)]), [true, false, true]);
    assert_eq!(ask(vec![claim(1, at, 1)]), [true], "who has left it is told the same again");
    for near in [-60, -1, 0, 60, 90] {
        assert_eq!(ask(vec![claim(1, at + Span::seconds(near), 3)]), [false], "{near}");
    }
    assert_eq!(ask(vec![claim(1, at + Span::minutes(2), 3)]), [true]);
    assert_eq!(ask(vec![claim(1, at - Span::minutes(9), 4)]), [true], "what is forgotten is not known");
    let key = cell(&form, 1);
    let image = wired.read_one(wired.of(&key), std::slice::from_ref(&key)).unwrap().images.remove(0).unwrap();
    let plan = CellPlan::new(&form.definition.measure).unwrap();
    assert_eq!(plan.times(&image), Some((at - Span::minutes(9), at + Span::minutes(2))));
    assert!(plan.fine(&image, plan.bucket(at + Span::minutes(2))).0);
    let wrong =
        MarkClaim { cell: cell(&crate::support::form(0, measures().remove(0)), 1), time: at, token: [0; 16] };
    let answer = pollster::block_on(wired.wire.claim(vec![wrong, claim(5 << 54, at, 1)], WITHIN));
    assert!(matches!(answer[..], [Err(RemoteError::Unexpected(_)), Ok(true)]), "{answer:?}");
}

#[test]
fn slots_expiry_and_layout_are_as_the_cluster_has_them() {
    let Some(cluster) = Cluster::single(&[]) else { return };
    let server = &cluster.servers[0];
    let all = settings(cluster.addresses(), 1);
    let wired = WireNode::open(all.clone());
    let server_slot = |text: &str| server.cli(&["CLUSTER", "KEYSLOT", text]).trim().parse::<u16>().unwrap();
    let form = form(0, measures().remove(0));
    let plan = CellPlan::new(&form.definition.measure).unwrap();
    let at = Time::from_seconds(1_750_000_000);
    let mut image = CellImage::new();
    plan.add(&mut image, at, [(0, 1)]);
    for partition in [0, 1, 511, 1023].map(Partition) {
        let key = cell(&form, u64::from(partition.0) << 54);
        assert_eq!(wired.of(&key), partition);
        let change = CellChange::Merge(image.clone());
        let written = wired.write_one(batch(partition, 1, Time(i64::MIN), vec![(key, change)]));
        assert_made(written);
        let number = slot::slot_of(partition, wired.partitions).to_string();
        let names = server.cli(&["--no-raw", "CLUSTER", "GETKEYSINSLOT", &number, "10"]);
        assert!(names.contains("tollhouse:{") && names.lines().count() >= 2, "{names}");
        let tag = names.split(['{', '}']).nth(1).unwrap();
        assert_eq!(server_slot(&format!("{{{tag}}}")).to_string(), number);
    }
    for name in server.cli(&["--no-raw", "KEYS", "*"]).lines().filter(|name| !name.trim().ends_with("}#\"")) {
        let script = "local least = 1e15 for _, key in ipairs(redis.call('KEYS', '*')) do local left = \
                      redis.call('PTTL', key) if left >= 0 then least = math.min(least, left) end end return least";
        let least: i64 = server.cli(&["EVAL", script, "0"]).trim().parse().unwrap();
        // Six buckets of ten seconds, the current one, and a minute.
        assert!((60_000..=200_000).contains(&least), "{name} {least}");
    }
    let other = WireSettings { partitions: PartitionCount::new(64).unwrap(), ..all.clone() };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let error = runtime.block_on(WireClient::open(other.clone(), runtime.handle().clone())).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the cluster holds statistics as `1 1024` under the prefix `tollhouse:`, and not as `1 64` (layout and \
         partitions): set as many partitions, or another prefix"
    );
    // The first node had no secret, so the second says which it is.
    for (secret, is_let_in) in [(7, true), (7, true), (8, false)] {
        let keyed = WireSettings { secret: Some([secret; 8]), ..all.clone() };
        let opened = runtime.block_on(WireClient::open(keyed, runtime.handle().clone()));
        assert_eq!(opened.is_ok(), is_let_in);
        assert!(opened.is_ok() || opened.is_err_and(|error| error.to_string().contains("another secret")));
    }
    let apart = WireSettings { prefix: "b:".to_owned(), ..other };
    runtime.block_on(WireClient::open(apart, runtime.handle().clone())).unwrap();
}
