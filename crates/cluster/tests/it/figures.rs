//! Cost of keys on a server, beside one key for each bucket: bytes and CPU time. To be run by hand:
//!
//! ```sh
//! cargo test --release -p tollhouse-cluster --test it -- --ignored --nocapture --test-threads 1 figures
//! ```

use cluster::remote::{CellChange, CellImage, PartitionRead, RemoteCell, RemoteCluster};
use event::{Span, Time};
use redis::Connection;
use stats::{AggregateColumn, AggregateLayout, CellPlan, DecayWeight, Layout, Measure};

use crate::servers::Cluster;
use crate::support::{Random, WITHIN, WireNode, batch, cell, form, settings};

/// Keys of each kind.
const KEYS: u64 = 4000;

pub(crate) fn used(connection: &mut Connection) -> i64 {
    let info: String = redis::cmd("INFO").arg("memory").query(connection).unwrap();
    let line = info.lines().find_map(|line| line.strip_prefix("used_memory:"));
    line.and_then(|bytes| bytes.trim().parse().ok()).unwrap()
}

/// Two thirds of the events in the last day, the others in the two weeks before it.
fn times(random: &mut Random, events: u64, now: Time) -> Vec<Time> {
    let back = |random: &mut Random| {
        let span = if random.below(3) > 0 { Span::days(1) } else { Span::days(14) };
        now - Span((random.next() % span.0.cast_unsigned()).cast_signed())
    };
    (0..events).map(|_| back(random)).collect()
}

/// A counter, a bucket, and what was counted there.
type Row = (u8, i64, u64);

/// Writes one key a bucket and counter, as a server is often used without a library: names of text, `INCRBY`, `EXPIRE`.
fn naive(connection: &mut Connection, keys: &[(u64, Vec<Row>)]) {
    for (shingle, rows) in keys {
        let mut pipeline = redis::pipe();
        for (counter, bucket, count) in rows {
            let name = format!("tollhouse:from:{shingle:016x}:{counter}:{bucket}");
            pipeline.cmd("INCRBY").arg(&name).arg(*count).ignore();
            pipeline.cmd("EXPIRE").arg(&name).arg(86_400 * 14).ignore();
        }
        pipeline.query::<()>(connection).unwrap();
    }
}

#[test]
#[ignore = "prints figures for people"]
pub(crate) fn memory() {
    let Some(cluster) = Cluster::single(&[]) else { return };
    let wired = WireNode::open(settings(cluster.addresses(), 1));
    let url = format!("redis://{}/", cluster.servers[0].address());
    let mut connection = redis::Client::open(url).unwrap().get_connection().unwrap();
    let now = Time::from_seconds(1_750_000_000);
    let tiers = ["10m x 144", "1d x 14"].map(|tier| tier.parse().unwrap());
    let counters = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let windows =
        |names: &[&str]| Measure::Windows(Layout::new(counters(names), &tiers, vec![], None).unwrap());
    let decayed = AggregateColumn::Decayed { half_life: Span::days(1), weight: DecayWeight::One };
    let aggregate = |columns: &[AggregateColumn]| {
        Measure::Aggregate(AggregateLayout::new(columns.to_vec(), Span::days(30)).unwrap())
    };
    let kinds = [
        ("one counter, 1 event", windows(&["seen"]), 1),
        ("one counter, 3 events", windows(&["seen"]), 3),
        ("one counter, 30 events", windows(&["seen"]), 30),
        ("three counters, 30 events", windows(&["seen", "spam", "ham"]), 30),
        ("three counters, 300 events", windows(&["seen", "spam", "ham"]), 300),
        ("aggregate of first, last, count, 3 events", aggregate(&[AggregateColumn::Count]), 3),
        ("aggregate with sum and a decayed sum, 3 events", aggregate(&[AggregateColumn::Sum, decayed]), 3),
    ];
    println!("| a key of | bytes | bytes, one key a bucket | share |\n|---|---|---|---|");
    for (kind, (name, measure, events)) in kinds.into_iter().enumerate() {
        let (plan, form) = (CellPlan::new(&measure).unwrap(), form(kind as u16, measure.clone()));
        let mut random = Random(events);
        let mut naive_keys = Vec::new();
        let mut cells: Vec<(RemoteCell, CellImage)> = Vec::new();
        for number in 0..KEYS {
            let shingle = random.next();
            let mut words = Vec::new();
            for time in times(&mut random, events, now) {
                plan.add(&mut words, time, [(random.below(measure.counters().len().max(1) as u64) as u8, 1)]);
                plan.add_value(&mut words, time, Some(random.below(5000) as i64));
            }
            let rows = plan.rows(&words).into_iter().flat_map(|row| {
                let bucket = row.start.bucket(row.width);
                let counts = row.counts.into_iter().zip(0u8..).filter(|(count, _)| *count > 0);
                counts.map(move |(count, counter)| (counter, bucket, count)).collect::<Vec<_>>()
            });
            naive_keys.push((shingle, rows.collect::<Vec<_>>()));
            cells.push((cell(&form, shingle ^ number), words));
        }
        let cell_of = |(cell, image): (RemoteCell, CellImage)| (cell, CellChange::Merge(image));
        let mut by_partition = std::collections::BTreeMap::<_, Vec<_>>::new();
        cells
            .into_iter()
            .for_each(|one| by_partition.entry(wired.of(&one.0)).or_default().push(cell_of(one)));
        redis::cmd("FLUSHALL").query::<()>(&mut connection).unwrap();
        // The numbers of the node, and what writing at all costs, belong to no key.
        for partition in by_partition.keys() {
            wired.write_one(batch(*partition, 1, now, Vec::new())).unwrap();
        }
        let before = used(&mut connection);
        for (partition, writes) in by_partition {
            wired.write_one(batch(partition, 2, Time(i64::MIN), writes)).unwrap();
        }
        let ours = (used(&mut connection) - before) as f64 / KEYS as f64;
        if naive_keys.iter().all(|(_, rows)| rows.is_empty()) {
            println!("| {name} | {ours:.0} | | |");
            continue;
        }
        redis::cmd("FLUSHALL").query::<()>(&mut connection).unwrap();
        let before = used(&mut connection);
        // A server of a cluster takes names of any slot that it has.
        naive(&mut connection, &naive_keys);
        let theirs = (used(&mut connection) - before) as f64 / KEYS as f64;
        println!("| {name} | {ours:.0} | {theirs:.0} | {:.2} |", ours / theirs);
    }
}

#[test]
#[ignore = "prints figures for people"]
fn memory_and_time_of_the_module() {
    crate::servers::with_module(|| {
        memory();
        time();
    });
}

/// CPU time of the server, in microseconds.
pub(crate) fn cpu(connection: &mut Connection) -> f64 {
    let info: String = redis::cmd("INFO").arg("cpu").query(connection).unwrap();
    let of = |name: &str| {
        let line = info.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|seconds| seconds.trim().parse::<f64>().ok()).unwrap()
    };
    (of("used_cpu_user:") + of("used_cpu_sys:")) * 1e6
}

#[test]
#[ignore = "prints figures for people"]
pub(crate) fn time() {
    const PARTITIONS: u64 = 64;
    const EACH: u64 = 100;
    const ROUNDS: u64 = 20;
    let Some(cluster) = Cluster::single(&[]) else { return };
    let wired = WireNode::open(settings(cluster.addresses(), 1));
    let url = format!("redis://{}/", cluster.servers[0].address());
    let mut connection = redis::Client::open(url).unwrap().get_connection().unwrap();
    let tiers = ["10m x 144", "1d x 14"].map(|tier| tier.parse().unwrap());
    let counters = vec!["seen".to_owned(), "spam".to_owned()];
    let measure = Measure::Windows(Layout::new(counters, &tiers, vec![], None).unwrap());
    let (plan, form) = (CellPlan::new(&measure).unwrap(), form(0, measure));
    let cells =
        |partition: u64| (0..EACH).map(|number| cell(&form, partition << 54 | number)).collect::<Vec<_>>();
    println!("| what is done to a key | server's CPU, us | one key a bucket | ratio |\n|---|---|---|---|");
    let now = |round: u64| Time::from_seconds(1_750_000_000 + (round * 45).cast_signed());
    let mut figures = Vec::new();
    for rounds in [0..1, 1..ROUNDS] {
        let keys = (PARTITIONS * EACH * (rounds.end - rounds.start)) as f64;
        let before = cpu(&mut connection);
        for round in rounds.clone() {
            let mut image = CellImage::new();
            plan.add(&mut image, now(round), [(0, 1)]);
            let batches = (0..PARTITIONS).map(|partition| {
                let writes =
                    cells(partition).into_iter().map(|cell| (cell, CellChange::Merge(image.clone())));
                let partition = wired.partitions.of(event::Shingle(partition << 54));
                batch(partition, round + 1, Time(i64::MIN), writes.collect())
            });
            let written = pollster::block_on(wired.wire.write(batches.collect(), WITHIN));
            assert!(written.iter().all(Result::is_ok), "{written:?}");
        }
        let ours = (cpu(&mut connection) - before) / keys;
        let before = cpu(&mut connection);
        for round in rounds.clone() {
            let bucket = now(round).bucket(Span::minutes(10));
            for partition in 0..PARTITIONS {
                let rows = |number| (partition << 54 | number, vec![(0, bucket, 1)]);
                naive(&mut connection, &(0..EACH).map(rows).collect::<Vec<_>>());
            }
        }
        figures.push((ours, (cpu(&mut connection) - before) / keys));
    }
    let keys = (PARTITIONS * EACH * ROUNDS) as f64;
    let before = cpu(&mut connection);
    for _ in 0..ROUNDS {
        let read = |partition: u64| {
            let cells = cells(partition);
            PartitionRead { partition: wired.of(&cells[0]), cells, places: Vec::new() }
        };
        let found = pollster::block_on(wired.wire.read((0..PARTITIONS).map(read).collect(), WITHIN));
        assert!(found.iter().flatten().all(|found| found.number == ROUNDS), "all was written");
    }
    let ours = (cpu(&mut connection) - before) / keys;
    let before = cpu(&mut connection);
    let bucket = now(0).bucket(Span::minutes(10));
    for _ in 0..ROUNDS {
        for partition in 0..PARTITIONS {
            let mut pipeline = redis::pipe();
            for number in 0..EACH {
                // The last hour: six buckets and the current one.
                let names = (0..7).map(|back| {
                    format!("tollhouse:from:{:016x}:0:{}", partition << 54 | number, bucket - back)
                });
                names.for_each(|name| {
                    pipeline.cmd("GET").arg(name);
                });
            }
            pipeline.query::<Vec<Option<u64>>>(&mut connection).unwrap();
        }
    }
    figures.push((ours, (cpu(&mut connection) - before) / keys));
    for (name, (ours, theirs)) in ["made", "changed", "read (an hour)"].into_iter().zip(figures) {
        println!("| {name} | {ours:.2} | {theirs:.2} | {:.2} |", ours / theirs);
    }
}

/// CPU time of this process, in seconds.
pub(crate) fn own_cpu() -> f64 {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let ticks = text.rsplit(')').next().unwrap_or("").split_whitespace().skip(11).take(2);
    ticks.filter_map(|ticks| ticks.parse::<f64>().ok()).sum::<f64>() / 100.0
}

/// The slot of a name without braces.
pub(crate) fn slot(name: &str) -> u16 {
    let crc = name.bytes().fold(0u16, |crc, byte| {
        (0..8).fold(crc ^ u16::from(byte) << 8, |crc, _| crc << 1 ^ if crc >> 15 == 1 { 0x1021 } else { 0 })
    });
    crc % 16_384
}
