//! Cost of operations on a cell, and the number of words of cells: `cargo bench -p tollhouse-stats --bench cell`.
//!
//! Each line is the best of several runs, over as many cells as fit into a cache, so that it is the work that is measured
//! and neither the memory nor what else the machine does.

use std::hint::black_box;
use std::time::Instant;

use event::{Span, Time};
use stats::{AggregateColumn, AggregateLayout, CellBuffer, CellPlan, DecayWeight, Layout, Measure};

const COUNTERS: [&str; 6] = ["seen", "spam", "ham", "complaint", "pardon", "read"];
const START: i64 = 1_700_000_000;

fn main() {
    let tiers = ["10m x 144", "1d x 14"].map(|tier| tier.parse().expect("a tier"));
    let windows = vec![Span::hours(1), Span::days(1), Span::days(14)];
    let names = COUNTERS.map(str::to_owned).to_vec();
    let layout = Layout::new(names, &tiers, windows, None).expect("a layout");
    let plan = CellPlan::new(&Measure::Windows(layout)).expect("a plan");
    println!("six counters, 10m x 144 and 1d x 14, read over 1h, 1d and 14d");
    let two = |step: i64| [(0u8, 1u64), ((step % 6) as u8, 1)];
    report("seen once, 1 counter", &plan, &cell(&plan, 1, |_| (0, [(0, 1)])), 30);
    report("seen once, 2 counters", &plan, &cell(&plan, 1, |_| (0, [(0, 1), (1, 1)])), 30);
    report("10 events in a bucket", &plan, &cell(&plan, 10, |step| (step, [(0, 1), (1, 1)])), 30);
    report("10 entries", &plan, &cell(&plan, 5, |step| (step * 3000, [(0, 1), (1, 1)])), 30);
    report("10 buckets, 2 counters", &plan, &cell(&plan, 10, |step| (step * 3000, [(0, 1), (1, 1)])), 30);
    let full = cell(&plan, 20_000, |step| (step * 90, two(step)));
    report("all buckets, small counts", &plan, &full, 30);
    let large = cell(&plan, 20_000, |step| (step * 90, [(0, 300), ((step % 6) as u8, 70)]));
    report("all buckets, large counts", &plan, &large, 30);
    report("the same, a bucket an event", &plan, &full, 600);

    let decayed =
        |hours| AggregateColumn::Decayed { half_life: Span::hours(hours), weight: DecayWeight::Value };
    for (name, columns) in [
        ("first, last, count", vec![AggregateColumn::First, AggregateColumn::Last, AggregateColumn::Count]),
        (
            "and sum, min, max",
            vec![
                AggregateColumn::First,
                AggregateColumn::Last,
                AggregateColumn::Count,
                AggregateColumn::Sum,
                AggregateColumn::Min,
                AggregateColumn::Max,
            ],
        ),
        ("sum and 2 decayed", vec![AggregateColumn::Sum, decayed(1), decayed(24)]),
    ] {
        let plan = CellPlan::new(&Measure::Aggregate(
            AggregateLayout::new(columns, Span::days(30)).expect("an aggregate"),
        ))
        .expect("a plan");
        let mut words = Vec::new();
        (0..10).for_each(|step| plan.add_value(&mut words, Time::from_seconds(START + step), Some(step)));
        report(&format!("aggregate: {name}"), &plan, &words, 30);
    }

    let tier = "1d x 7".parse().expect("a tier");
    let windows = vec![Span::days(1), Span::days(7)];
    for (name, windows) in [("read over 1d", windows[..1].to_vec()), ("over 1d and 7d", windows)] {
        let plan = CellPlan::new(&Measure::approx(tier, windows, 12)).expect("a plan");
        for count in [1, 10, 100, 500, 100_000] {
            let mut words = Vec::new();
            for step in 0..count {
                let time = Time::from_seconds(START + step * 600_000 / count);
                plan.add_hash(&mut words, time, mix(step.cast_unsigned()));
            }
            report(&format!("approx: {count} values, {name}"), &plan, &words, 30);
        }
    }
}

fn cell<const N: usize>(
    plan: &CellPlan,
    events: i64,
    event: impl Fn(i64) -> (i64, [(u8, u64); N]),
) -> Vec<u64> {
    let mut words = Vec::new();
    for step in 0..events {
        let (after, amounts) = event(step);
        plan.add(&mut words, Time::from_seconds(START + after), amounts);
    }
    words
}

/// Prints a cell's words, and the time of an addition and of a reading that come this many seconds after its last event
/// and each other.
fn report(name: &str, plan: &CellPlan, words: &[u64], apart: i64) {
    const CELLS: usize = 64;
    const ROUNDS: usize = 400;
    let last = plan.last(words).unwrap_or_default();
    let mut times = [Vec::new(), Vec::new(), Vec::new()];
    for _ in 0..25 {
        let mut cells: Vec<Slab> = (0..CELLS).map(|_| Slab::of(words)).collect();
        let start = Instant::now();
        cells.iter_mut().for_each(|cell| add(plan, cell, last + Span::seconds(apart)));
        times[0].push(start.elapsed().as_secs_f64() / CELLS as f64);
        let start = Instant::now();
        for round in 0..ROUNDS {
            let time = last + Span::seconds(apart * (2 + round as i64));
            cells.iter_mut().for_each(|cell| add(plan, cell, time));
        }
        times[1].push(start.elapsed().as_secs_f64() / (CELLS * ROUNDS) as f64);
        let cells: Vec<Slab> = (0..CELLS).map(|_| Slab::of(words)).collect();
        let mut out = vec![0; plan.reading()];
        let rounds = if words.len() > 500 { 5 } else { ROUNDS };
        let start = Instant::now();
        for round in 0..rounds {
            for cell in &cells {
                plan.read(black_box(cell.words()), last + Span::seconds(round as i64 % 60), &mut out);
                black_box(&out);
            }
        }
        times[2].push(start.elapsed().as_secs_f64() / (CELLS * rounds) as f64);
    }
    let [first, next, read] = times.map(|times| times.into_iter().fold(f64::INFINITY, f64::min) * 1e9);
    println!(
        "{name:40} {:5} words   first add {first:7.1} ns   further adds {next:7.1} ns   read {read:8.1} ns",
        words.len()
    );
}

#[inline(never)]
fn add(plan: &CellPlan, cell: &mut Slab, time: Time) {
    if !plan.aggregate_columns().is_empty() {
        plan.add_value(cell, time, Some(7));
    } else if plan.columns() == 1 {
        plan.add_hash(cell, time, mix(time.0.cast_unsigned()));
    } else {
        plan.add(cell, time, black_box([(0, 1), (1, 1)]));
    }
}

/// A room with a word or two to spare, as a slab has.
struct Slab(Vec<u64>);

impl Slab {
    fn of(words: &[u64]) -> Slab {
        let mut words = words.to_vec();
        words.reserve(8);
        Slab(words)
    }
}

impl CellBuffer for Slab {
    fn words(&self) -> &[u64] {
        &self.0
    }

    fn words_mut(&mut self) -> &mut [u64] {
        &mut self.0
    }

    fn resize(&mut self, words: usize) {
        self.0.resize(words, 0);
    }
}

/// SplitMix64 (Steele, Lea and Flood).
fn mix(number: u64) -> u64 {
    let mut z = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
