//! Any words are a cell of any statistic, or are refused; what is not refused can be read, added to and merged.
#![no_main]

use std::sync::LazyLock;

use event::{Span, Time};
use libfuzzer_sys::fuzz_target;
use stats::limit::GcraOperation;
use stats::{
    AggregateColumn, AggregateLayout, CellPlan, CellShape, DecayWeight, Evidence, Layout, Measure,
    StatisticChange, Tier,
};

static PLANS: LazyLock<Vec<CellPlan>> = LazyLock::new(|| {
    let tier = |width, buckets| Tier { width: Span(width), buckets };
    let windows = |counters: usize, tiers: &[Tier], windows: &[i64]| {
        let names = (0..counters).map(|number| number.to_string()).collect();
        let windows = windows.iter().map(|window| Span(*window)).collect();
        Measure::Windows(Layout::new(names, tiers, windows, None).expect("a layout"))
    };
    let aggregate = |columns: &[AggregateColumn]| {
        Measure::Aggregate(AggregateLayout::new(columns.to_vec(), Span(1000)).expect("an aggregate"))
    };
    let decayed = |weight| AggregateColumn::Decayed { half_life: Span(1000), weight };
    let approx = |precision| Measure::approx(tier(100, 3), vec![Span(100), Span(400)], precision);
    let measures = [
        windows(3, &[tier(10, 4)], &[10, 15, 40]),
        windows(3, &[tier(10, 6), tier(30, 3)], &[10, 60, 65, 90]),
        windows(20, &[tier(1, 144), tier(60, 14)], &[1, 144, 840]),
        Measure::distinct(tier(60, 3), vec![Span(240)]),
        Measure::once(Span(9)),
        aggregate(&[AggregateColumn::First, AggregateColumn::Last, AggregateColumn::Count]),
        aggregate(&[
            AggregateColumn::Sum,
            AggregateColumn::Min,
            AggregateColumn::Max,
            decayed(DecayWeight::One),
            decayed(DecayWeight::Value),
        ]),
        approx(10),
        approx(14),
        Measure::evidence(Span(1000)),
        Measure::limit(Span(100), 10).expect("a limit"),
        Measure::gcra(),
        Measure::last(Span(1000)),
    ];
    measures.iter().map(|measure| CellPlan::new(measure).expect("a plan")).collect()
});

fuzz_target!(|bytes: &[u8]| {
    // Which plan, and the words.
    let Some((plan, bytes)) = bytes.split_first() else { return };
    let plan = &PLANS[usize::from(*plan) % PLANS.len()];
    let words: Vec<u64> = bytes.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word)).collect();
    if !plan.check(&words) {
        return;
    }
    let mut out = vec![0; plan.reading()];
    let mut look = |words: &[u64], now: Time| {
        plan.read(words, now, &mut out);
        plan.fine(words, plan.bucket(now));
        plan.rows(words);
        plan.expires(words);
    };
    let last = plan.last(&words).unwrap_or_default();
    let times = [0, -1, -30, -1000, 1, 7, 60, 61, 1000, i64::MIN, i64::MAX];
    let (mut cell, mut other) = (words.clone(), Vec::new());
    look(&words, last);
    for (step, after) in times.into_iter().enumerate() {
        let time = last + Span(after);
        let amount = words.get(step).copied().unwrap_or(1);
        for room in [&mut cell, &mut other] {
            plan.add(room, time, [(step as u8, amount), (0, 1)]);
            plan.add_value(room, time, Some(amount.cast_signed()));
            plan.add_hash(room, time, amount);
            plan.apply(room, &StatisticChange::Last(time, &amount.to_string()));
            let sum = amount.cast_signed();
            plan.add_evidence(room, time, Evidence { bad: sum >> 40, good: sum % 7, weight: sum });
            let taken = (step % 2 == 0).then_some(time);
            plan.apply(room, &StatisticChange::GiveBack { now: time, amount: amount / 2, taken });
            plan.flow(
                room,
                time,
                &GcraOperation::Take { cost: sum, burst: sum.wrapping_mul(3), counts_all: step % 2 == 0 },
            );
        }
        look(&words, time);
        look(&cell, time);
        assert!(cell.len() <= CellShape::WORDS_MAX);
    }
    plan.merge(&mut other, &words);
    plan.merge(&mut cell, &other);
    assert!(plan.check(&cell) && plan.check(&other));
});
