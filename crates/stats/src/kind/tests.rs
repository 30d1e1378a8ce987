//! Laws of cells, for every kind of statistic, against plain lists of events.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::aggregate::{AggregateColumn, AggregateValue, DecayWeight};
use super::*;

/// A room that gives more than asked.
#[derive(Clone, Default)]
struct Generous(Vec<u64>);

impl CellBuffer for Generous {
    fn words(&self) -> &[u64] {
        &self.0
    }

    fn words_mut(&mut self) -> &mut [u64] {
        &mut self.0
    }

    fn resize(&mut self, words: usize) {
        self.0.resize(words.next_power_of_two() + 3, 0);
    }
}

fn trimmed(words: &[u64]) -> &[u64] {
    let end = words.iter().rposition(|word| *word != 0).map_or(0, |last| last + 1);
    &words[..end]
}

fn trim(words: &mut Vec<u64>) {
    words.truncate(trimmed(words).len());
}

/// An event: when, amounts by counter; the value of an aggregate and the hash of an approximate count.
#[derive(Clone, Debug)]
struct SeenEvent {
    time: i64,
    amounts: Vec<(u8, u64)>,
    value: Option<i64>,
    hash: u64,
}

fn seen() -> impl Strategy<Value = SeenEvent> {
    let time = prop_oneof![
        8 => -300i64..300,
        2 => 1_700_000_000_000_000i64..1_700_000_000_000_400,
        1 => any::<i64>(),
        1 => prop_oneof![Just(i64::MIN), Just(i64::MAX), Just(0), Just(1 << 52)],
    ];
    let amount = prop_oneof![6 => 0u64..4, 2 => 200u64..70_000, 1 => any::<u64>().prop_map(|amount| amount >> 20), 1 => Just(u64::MAX - 2)];
    let amounts = proptest::collection::vec((0u8..5, amount), 0..4);
    let value = prop_oneof![
        1 => Just(None),
        4 => (-100i64..100).prop_map(Some),
        1 => prop_oneof![Just(i64::MIN), Just(i64::MAX)].prop_map(Some),
    ];
    (time, amounts, value, 0u64..3000).prop_map(|(time, amounts, value, hash)| SeenEvent {
        time,
        amounts,
        value,
        hash: mix(hash),
    })
}

fn events() -> impl Strategy<Value = Vec<SeenEvent>> {
    // Most lists stay near one time, so that buckets are kept; some jump about.
    prop_oneof![
        1 => proptest::collection::vec(seen(), 0..60),
        3 => proptest::collection::vec(seen(), 0..150).prop_map(|mut events| {
            events.iter_mut().for_each(|event| event.time = event.time.rem_euclid(400) + (event.time & 1));
            events
        }),
    ]
}

/// SplitMix64 (Steele, Lea and Flood).
fn mix(number: u64) -> u64 {
    let mut z = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

fn tier(width: i64, buckets: u32) -> Tier {
    Tier { width: Span(width), buckets }
}

fn windowed(counters: usize, tiers: &[Tier], windows: &[i64]) -> Measure {
    let names = (0..counters).map(|number| number.to_string()).collect();
    let windows = windows.iter().map(|window| Span(*window)).collect();
    Measure::Windows(Layout::new(names, tiers, windows, None).unwrap())
}

fn aggregate(columns: &[AggregateColumn]) -> Measure {
    Measure::Aggregate(AggregateLayout::new(columns.to_vec(), Span(1000)).unwrap())
}

fn decayed(half_life: i64, weight: DecayWeight) -> AggregateColumn {
    AggregateColumn::Decayed { half_life: Span(half_life), weight }
}

fn measures() -> Vec<Measure> {
    let distinct = |tier: Tier, windows: &[i64]| {
        Measure::distinct(tier, windows.iter().map(|window| Span(*window)).collect())
    };
    let approx = |tier: Tier, windows: &[i64], precision| {
        Measure::approx(tier, windows.iter().map(|window| Span(*window)).collect(), precision)
    };
    vec![
        windowed(3, &[tier(10, 4)], &[10, 15, 40]),
        windowed(1, &[tier(1, 1)], &[1]),
        windowed(3, &[tier(10, 6), tier(30, 3)], &[10, 60, 15, 90, 65, 61]),
        windowed(2, &[tier(7, 3), tier(49, 1)], &[7, 21, 20, 49]),
        windowed(5, &[tier(10, 2), tier(20, 40)], &[20, 11, 800, 77]),
        windowed(2, &[tier(1, 144), tier(60, 14)], &[1, 7, 144, 200, 840, 2, 3, 4, 5, 6, 500]),
        distinct(tier(60, 3), &[60, 180, 240]),
        distinct(tier(1, 1), &[]),
        Measure::once(Span(9)),
        aggregate(&[AggregateColumn::First, AggregateColumn::Last, AggregateColumn::Count]),
        aggregate(&[
            AggregateColumn::Count,
            AggregateColumn::Sum,
            AggregateColumn::Min,
            AggregateColumn::Max,
        ]),
        aggregate(&[
            AggregateColumn::Last,
            AggregateColumn::Max,
            decayed(10, DecayWeight::One),
            decayed(1000, DecayWeight::Value),
            decayed(1_000_000, DecayWeight::Value),
        ]),
        approx(tier(100, 2), &[100, 200, 300], 10),
        approx(tier(1, 100), &[1, 101, 40], 12),
        approx(tier(i64::MAX / 4000, 1), &[], 14),
        Measure::evidence(Span(1000)),
        Measure::last(Span(1000)),
    ]
}

fn apply(plan: &CellPlan, room: &mut impl CellBuffer, event: &SeenEvent) {
    let time = Time(event.time);
    plan.add(room, time, event.amounts.iter().copied());
    plan.add_value(room, time, event.value);
    plan.add_hash(room, time, event.hash);
    plan.add_evidence(room, time, evidence(event));
    plan.apply(room, &StatisticChange::Last(time, &value(event)));
}

/// The value of a field in an event: few are the same.
fn value(event: &SeenEvent) -> String {
    event.value.map(|value| value.to_string()).unwrap_or_default()
}

/// Returns the evidence that a classifier would learn of an event: mostly little.
fn evidence(event: &SeenEvent) -> Evidence {
    let value = event.value.unwrap_or(0);
    Evidence { bad: value % 3, good: (value >> 3) % 2, weight: value.wrapping_mul(1000) }
}

fn cell_of(plan: &CellPlan, events: &[SeenEvent]) -> Vec<u64> {
    let mut words = Vec::new();
    events.iter().for_each(|event| apply(plan, &mut words, event));
    words
}

fn merged(plan: &CellPlan, a: &[u64], b: &[u64]) -> Vec<u64> {
    let mut both = a.to_vec();
    plan.merge(&mut both, b);
    both
}

fn reading(plan: &CellPlan, words: &[u64], now: i64) -> Vec<u64> {
    let mut out = vec![7; plan.reading()];
    plan.read(words, Time(now), &mut out);
    out
}

/// All that can be learnt from a cell. Decayed sums, which are rounded, are compared by [`same`].
fn learnt(plan: &CellPlan, words: &[u64], now: i64) -> (Option<(Time, Time)>, Vec<TimelineBucket>, Vec<u64>) {
    assert!(plan.check(words), "{words:x?}");
    (plan.times(words), plan.rows(words), reading(plan, words, now))
}

fn same(plan: &CellPlan, a: &[u64], b: &[u64], now: i64) {
    let (a, b) = (learnt(plan, a, now), learnt(plan, b, now));
    assert_eq!((&a.0, &a.1, a.2.len()), (&b.0, &b.1, b.2.len()));
    for (number, (a, b)) in a.2.iter().zip(&b.2).enumerate() {
        let column = plan.aggregate_columns().get(number).copied().unwrap_or(AggregateColumn::Count);
        match (column.value(*a), column.value(*b)) {
            (AggregateValue::Real(a), AggregateValue::Real(b)) => near(a, b, a.abs().max(b.abs())),
            (a, b) => assert_eq!(a, b, "value {number}"),
        }
    }
}

/// Sums whose parts add up to `scale` are the same up to rounding.
fn near(a: f64, b: f64, scale: f64) {
    assert!(a.is_finite() && b.is_finite());
    assert!((a - b).abs() <= scale * 1e-9 + 1e-3, "{a} and {b}");
}

/// Kept counts by tier and bucket, straight from the definition.
fn kept(shape: &CellShape, counters: usize, events: &[SeenEvent]) -> [BTreeMap<i128, Vec<u64>>; 2] {
    let bucket = |time: i64, width: Span| i128::from(time).div_euclid(i128::from(width.0));
    let mut tiers = [BTreeMap::new(), BTreeMap::new()];
    let fine = shape.fine();
    let Some(last) = events.iter().map(|event| event.time).max() else { return tiers };
    for event in events {
        let mut place = (0, bucket(event.time, fine.width));
        if place.1 < bucket(last, fine.width) - i128::from(fine.buckets) {
            let Some(coarse) = shape.coarse() else { continue };
            place = (1, bucket(event.time, coarse.width));
            if place.1 < bucket(last, coarse.width) - i128::from(coarse.buckets) {
                continue;
            }
        }
        for (counter, amount) in &event.amounts {
            if *amount > 0 && usize::from(*counter) < counters {
                let counts = tiers[place.0].entry(place.1).or_insert_with(|| vec![0u64; counters]);
                let count = &mut counts[usize::from(*counter)];
                *count = count.saturating_add(*amount);
            }
        }
    }
    tiers
}

/// Returns the sums that a windowed cell must answer.
fn sums(measure: &Measure, events: &[SeenEvent], now: i64) -> Vec<u64> {
    let (shape, counters) = (measure.shape().unwrap(), measure.counters().len());
    let kept = kept(&shape, counters, events);
    let mut all = Vec::new();
    for trail in measure.trails().unwrap() {
        let width = i128::from(trail.width.0);
        let bucket = |time: i128| time.div_euclid(width);
        let oldest = bucket(i128::from(now) - i128::from(trail.window.0)) + i128::from(trail.skip);
        let newest = bucket(i128::from(now));
        let mut sums = vec![0u64; counters];
        for (of, rows) in kept.iter().enumerate().take(trail.tier + 1) {
            for (number, counts) in rows {
                let own = if of == 0 { shape.fine().width } else { trail.width };
                if (oldest..=newest).contains(&bucket(number * i128::from(own.0))) {
                    sums.iter_mut().zip(counts).for_each(|(sum, count)| *sum = sum.saturating_add(*count));
                }
            }
        }
        all.extend(sums);
    }
    all
}

/// Returns the values that an aggregate must answer.
fn values(columns: &[AggregateColumn], events: &[SeenEvent], now: i64) -> Vec<(AggregateValue, f64)> {
    let last = events.iter().map(|event| event.time).max();
    let given = || events.iter().filter_map(|event| event.value);
    let value = |column: &AggregateColumn| match column {
        AggregateColumn::First => {
            let first = events.iter().map(|event| event.time).min();
            AggregateValue::Time(first.filter(|first| *first != i64::MAX).map(Time))
        }
        AggregateColumn::Last => AggregateValue::Time(last.filter(|last| *last != i64::MIN).map(Time)),
        AggregateColumn::Count => AggregateValue::Count(events.len() as u64),
        AggregateColumn::Sum => {
            let sum: i128 = given().map(i128::from).sum();
            AggregateValue::Integer(Some(sum.clamp(i64::MIN.into(), i64::MAX.into()) as i64))
        }
        AggregateColumn::Min => AggregateValue::Integer(given().min().filter(|value| *value != i64::MAX)),
        AggregateColumn::Max => AggregateValue::Integer(given().max().filter(|value| *value != i64::MIN)),
        AggregateColumn::Decayed { .. } => AggregateValue::Real(0.0),
    };
    let decay = |column: &AggregateColumn| match column {
        AggregateColumn::Decayed { half_life, weight } => {
            events.iter().fold((0.0, 0.0), |(sum, scale), event| {
                let age = i128::from(now.max(last.unwrap_or(now))) - i128::from(event.time);
                let value = if *weight == DecayWeight::One { 1.0 } else { event.value.unwrap_or(0) as f64 };
                let value = value * (-(age as f64) / half_life.0 as f64).exp2();
                (sum + value, scale + value.abs())
            })
        }
        _ => (0.0, 0.0),
    };
    columns
        .iter()
        .map(|column| match (value(column), decay(column)) {
            (AggregateValue::Real(_), (sum, scale)) => (AggregateValue::Real(sum), scale),
            (value, _) => (value, 0.0),
        })
        .collect()
}

/// Returns the sum-up of a counter's buckets, of which `taken` were taken back, straight from the buckets that are kept.
fn summary(
    plan: &CellPlan,
    words: &[u64],
    (series, coarse): (&BucketSeries, bool),
    taken: Option<usize>,
    now: i64,
) -> series::BucketSummary {
    let fine = plan.windows().unwrap().placed(words);
    let widths = plan.rows(words).iter().map(|row| row.width.0).collect::<Vec<_>>();
    let mut counts = vec![[0u64; 2]; series.buckets as usize + 1];
    let current = i128::from(now).div_euclid(i128::from(series.width.0));
    for ((is_coarse, bucket, amounts), width) in fine.iter().zip(widths) {
        let own = (i128::from(*bucket) * i128::from(width)).div_euclid(i128::from(series.width.0));
        let back = usize::try_from(current - own).ok().and_then(|back| counts.get_mut(back));
        if let Some(count) = back.filter(|_| coarse || !is_coarse) {
            count[0] = count[0].saturating_add(amounts[usize::from(series.counter)]);
            count[1] = count[1].saturating_add(taken.map_or(0, |taken| amounts[taken]));
        }
    }
    let net: Vec<u64> = counts.iter().map(|[count, taken]| count.saturating_sub(*taken)).collect();
    series::BucketSummary::of(&net)
}

proptest! {
    #[test]
    fn series_sum_up_the_buckets_that_are_kept(
        events in events(),
        nows in proptest::collection::vec(prop_oneof![-500i64..1000, any::<i64>()], 1..5),
    ) {
        let counters = ["a", "b", "c", "~a"].map(str::to_owned).to_vec();
        let layout = Layout::new(counters, &[tier(10, 6), tier(30, 9)], vec![Span(10)], None).unwrap();
        let series = |counter, width, buckets| BucketSeries { counter, width: Span(width), buckets };
        let all = [series(0, 10, 6), series(2, 20, 2), series(0, 30, 9), series(1, 60, 4), series(1, 10, 1)];
        let layout = layout.with_series(all.to_vec()).unwrap();
        let plan = CellPlan::new(&Measure::Windows(layout)).unwrap();
        let words = cell_of(&plan, &events);
        for now in nows.iter().copied().chain(events.iter().map(|event| event.time)) {
            let found = reading(&plan, &words, now);
            for (index, of) in all.iter().enumerate() {
                let taken = (of.counter == 0).then_some(3);
                let expected = summary(&plan, &words, (of, of.width.0 >= 30), taken, now);
                prop_assert_eq!(series::BucketSummary::read(&found, index), expected, "{:?} at {}", of, now);
            }
        }
    }
}

/// The addition that an event is to cells that additions may be made to in place.
fn addition(measure: &Measure, event: &SeenEvent) -> Addition {
    match measure {
        Measure::Windows(layout) => {
            let counters = layout.counters().len();
            let amounts = event.amounts.iter().filter(|(counter, _)| usize::from(*counter) < counters);
            Addition::Counters(amounts.copied().collect())
        }
        Measure::Aggregate(_) => Addition::Value(event.value),
        _ => Addition::Nothing,
    }
}

/// Adds in place if that is possible, otherwise as ever. Returns whether it was possible.
///
/// # Panics
/// If the two differ in a word or a value of the reading.
fn observe(plan: &CellPlan, words: &mut Vec<u64>, time: Time, add: &Addition) -> bool {
    let (before, mut out) = (words.clone(), vec![7; plan.reading()]);
    assert_eq!(plan.observe_in_place(words, time, add, |_| true, &mut out), None);
    assert_eq!(*words, before);
    let is_gone = |last| {
        assert_eq!(Some(last), plan.last(&before));
        false
    };
    let times = plan.observe_in_place(words, time, add, is_gone, &mut out);
    let values = reading(plan, &before, time.0);
    let mut expected = before.clone();
    let last = plan.last(&before);
    let context = ObservationContext { time, last, values: &values, origin: Origin::Event, sightings: 0 };
    plan.apply(&mut expected, &plan.change(add, &context));
    match times {
        Some(_) => assert_eq!((times, out, &*words), (plan.times(&before), values, &expected)),
        None => {
            assert_eq!(*words, before);
            *words = expected;
        }
    }
    times.is_some()
}

/// Additions are made in place wherever all their amounts have places already: in sparse cells of each size, and in dense ones.
#[test]
fn additions_in_place_need_no_other_words() {
    let plan = CellPlan::new(&windowed(3, &[tier(10, 40), tier(100, 14)], &[10, 400, 1400])).unwrap();
    let mut words = Vec::new();
    let mut add = |time, amounts: &[(u8, u64)]| {
        observe(&plan, &mut words, Time(time), &Addition::Counters(amounts.iter().copied().collect()))
    };
    // The first event, one that has other times, and one that finds its place.
    assert!(![add(1, &[(0, 1)]), add(2, &[(0, 1)])].contains(&true));
    assert!(add(3, &[(0, 1)]) && add(2, &[(0, 5)]) && add(9, &[]));
    // Another counter, and then both.
    assert!(!add(4, &[(1, 1)]));
    assert!(add(4, &[(1, 1), (0, 1), (1, 3)]));
    // More than there is room for, and then twice as much, in entries of 8 and of 16 bytes.
    for size in [1 << 40, 1 << 62] {
        assert!(!add(5, &[(1, size)]));
        assert!(add(5, &[(1, size)]));
    }
    assert!(!add(5, &[(1, u64::MAX)]), "what is full stays full");
    // Another bucket, and one that came before it.
    assert!(!add(11, &[(0, 1)]));
    assert!(add(7, &[(0, 1)]) && add(12, &[(0, 1)]));
    let is_there: Vec<bool> =
        (0..400).flat_map(|time| [add(time, &[(2, 1)]), add(time, &[(2, 1)])]).collect();
    // Each bucket once, and where the cell becomes dense.
    assert!((760..=761).contains(&is_there.iter().filter(|it| **it).count()), "{is_there:?}");
    let is_dense = |words: &[u64]| words[0] & 3 == 3;
    assert!(add(399, &[(2, 1)]) && !add(399, &[(2, 1000)]) && add(399, &[(2, 1000)]));
    // A column is as wide as its greatest number.
    assert!(add(99, &[(1, 1), (2, 1)]) && !add(500, &[(2, 1)]));
    assert!(is_dense(&words));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn additions_in_place_are_what_they_are_elsewhere(events in events(), spare in 0usize..4) {
        for measure in measures() {
            let plan = CellPlan::new(&measure).unwrap();
            let mut words = vec![0; spare];
            for event in &events {
                let is_in_place = observe(&plan, &mut words, Time(event.time), &addition(&measure, event));
                prop_assert!(!is_in_place || matches!(measure, Measure::Windows(_) | Measure::Aggregate(_)));
                prop_assert!(plan.check(&words));
            }
        }
    }

    #[test]
    fn a_cell_is_what_its_events_say(events in events(), nows in proptest::collection::vec(prop_oneof![3 => -100i64..600, 1 => any::<i64>()], 4)) {
        for measure in measures() {
            let plan = CellPlan::new(&measure).unwrap();
            let words = cell_of(&plan, &events);
            prop_assert!(plan.check(&words));
            let times = events.iter().map(|event| Time(event.time));
            match measure {
                Measure::Evidence(_) | Measure::Last(_) => {
                    prop_assert_eq!(plan.first(&words), times.clone().max());
                }
                _ => prop_assert_eq!(plan.first(&words), times.clone().min()),
            }
            prop_assert_eq!(plan.last(&words), times.clone().max());
            let nows = nows.iter().copied().chain(events.first().map(|event| event.time)).chain(plan.last(&words).map(|last| last.0));
            match &measure {
                Measure::Gcra(_) => {}
                Measure::Last(_) => {
                    let last = events.iter().map(|event| (event.time, value(event))).max();
                    let last = last.map(|(_, value)| value).filter(|value| !value.is_empty());
                    prop_assert_eq!(LastValueForm::text(&reading(&plan, &words, 0)), last);
                }
                Measure::Windows(_) | Measure::Distinct(_) | Measure::Once(_) => {
                    let (shape, counters) = (measure.shape().unwrap(), measure.counters().len());
                    let kept = kept(&shape, counters, &events);
                    let rows: Vec<_> = plan.windows().unwrap().placed(&words);
                    let expected: Vec<_> = [1, 0].into_iter()
                        .flat_map(|tier: usize| kept[tier].iter().map(move |(bucket, counts)| (tier == 1, *bucket as i64, counts.clone())))
                        .collect();
                    prop_assert_eq!(rows, expected);
                    for now in nows {
                        prop_assert_eq!(reading(&plan, &words, now), sums(&measure, &events, now), "{:?} at {}", measure, now);
                        let bucket = plan.bucket(Time(now));
                        let head = events.iter().map(|event| plan.bucket(Time(event.time))).max();
                        let is_kept = head.is_none_or(|head| i128::from(bucket) >= i128::from(head) - i128::from(shape.fine().buckets));
                        let held = is_kept && kept[0].contains_key(&i128::from(bucket));
                        prop_assert_eq!(plan.fine(&words, bucket), (held, is_kept));
                    }
                }
                Measure::Evidence(_) => {
                    let sum = events.iter().map(evidence).fold(Evidence::default(), Evidence::plus);
                    let found = reading(&plan, &words, 0);
                    prop_assert_eq!(Evidence::of(|_, column| found[column]), sum);
                    let mut back = words.clone();
                    for event in &events {
                        plan.add_evidence(&mut back, Time(event.time), evidence(event).opposite());
                    }
                    prop_assert_eq!(reading(&plan, &back, 0), [0; 3]);
                    prop_assert_eq!(plan.times(&back), plan.times(&words));
                }
                Measure::Aggregate(aggregate) => for now in nows {
                    let found = reading(&plan, &words, now);
                    for ((word, column), (expected, scale)) in found.iter().zip(aggregate.columns()).zip(values(aggregate.columns(), &events, now)) {
                        match (column.value(*word), expected) {
                            (AggregateValue::Real(found), AggregateValue::Real(expected)) => near(found, expected, scale),
                            (found, expected) => prop_assert_eq!(found, expected, "{:?}", column),
                        }
                    }
                },
                Measure::Approx(hyperloglog::ApproximateDistinctForm { tier, precision, .. }) => {
                    let trails = measure.trails().unwrap();
                    let periods = |events: &[SeenEvent]| -> Vec<i64> { events.iter().map(|event| Time(event.time).bucket(tier.width)).collect() };
                    let head = periods(&events).into_iter().max().unwrap_or(0);
                    for now in nows {
                        for (found, trail) in reading(&plan, &words, now).into_iter().zip(&trails) {
                            let (oldest, newest) = trail.buckets(Time(now));
                            let different: BTreeSet<u64> = events.iter().zip(periods(&events))
                                .filter(|(_, period)| (oldest..=newest).contains(period) && i128::from(*period) >= i128::from(head) - i128::from(tier.buckets))
                                .map(|(event, _)| event.hash)
                                .collect();
                            let error = 4.0 + 5.0 * 1.04 / f64::from(1 << precision).sqrt() * different.len() as f64;
                            prop_assert!((found as f64 - different.len() as f64).abs() <= error, "{} for {}", found, different.len());
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn merging_is_commutative_and_associative(a in events(), b in events(), c in events(), turn in any::<prop::sample::Index>(), now in -100i64..600) {
        for measure in measures() {
            let plan = CellPlan::new(&measure).unwrap();
            let [x, y, z] = [&a, &b, &c].map(|events| cell_of(&plan, events));
            // Large values that cancel each other leave only their rounding: compare decayed sums of small ones.
            if plan.aggregate_columns().len() == 5 && [&a, &b, &c].into_iter().flatten().any(|event| event.value.is_some_and(|value| value.unsigned_abs() > 100)) {
                continue;
            }
            same(&plan, &merged(&plan, &x, &y), &merged(&plan, &y, &x), now);
            let left = merged(&plan, &merged(&plan, &x, &y), &z);
            same(&plan, &left, &merged(&plan, &x, &merged(&plan, &y, &z)), now);
            let mut all = [a.clone(), b.clone(), c.clone()].concat();
            same(&plan, &left, &cell_of(&plan, &all), now);
            all.reverse();
            if !all.is_empty() {
                let turn = turn.index(all.len());
                all.rotate_left(turn);
            }
            same(&plan, &left, &cell_of(&plan, &all), now);
            same(&plan, &merged(&plan, &[], &x), &x, now);
            same(&plan, &merged(&plan, &x, &[]), &x, now);
        }
    }

    #[test]
    fn what_is_idempotent_can_be_merged_twice(a in events(), b in events(), now in -100i64..600) {
        for measure in measures() {
            let plan = CellPlan::new(&measure).unwrap();
            let [x, y] = [&a, &b].map(|events| cell_of(&plan, events));
            let once = merged(&plan, &x, &y);
            let twice = merged(&plan, &merged(&plan, &once, &y), &x);
            prop_assert_eq!(plan.times(&once), plan.times(&twice));
            match measure {
                Measure::Approx(_) => same(&plan, &once, &twice, now),
                Measure::Aggregate(aggregate) => {
                    for ((a, b), column) in reading(&plan, &once, now).iter().zip(reading(&plan, &twice, now)).zip(aggregate.columns()) {
                        if matches!(column, AggregateColumn::First | AggregateColumn::Last | AggregateColumn::Min | AggregateColumn::Max) {
                            prop_assert_eq!(*a, b, "{:?}", column);
                        }
                    }
                }
                _ => {}
            }
        }
    }

    #[test]
    fn zero_words_at_the_end_mean_nothing(events in events(), other in events(), now in -100i64..600) {
        for measure in measures() {
            let plan = CellPlan::new(&measure).unwrap();
            let (mut exact, mut generous, mut short) = (Vec::new(), Generous::default(), Vec::new());
            for event in &events {
                apply(&plan, &mut exact, event);
                apply(&plan, &mut generous, event);
                apply(&plan, &mut short, event);
                trim(&mut short);
            }
            prop_assert_eq!(trimmed(&exact), trimmed(&generous.0));
            prop_assert_eq!(trimmed(&exact), &short[..]);
            prop_assert_eq!(learnt(&plan, &short, now), learnt(&plan, &exact, now));
            prop_assert_eq!(learnt(&plan, &short, now), learnt(&plan, &generous.0, now));
            let other = cell_of(&plan, &other);
            plan.merge(&mut exact, &other);
            plan.merge(&mut generous, &[&other[..], &[0; 9]].concat());
            plan.merge(&mut short, trimmed(&other));
            prop_assert_eq!(trimmed(&exact), trimmed(&generous.0));
            prop_assert_eq!(trimmed(&exact), trimmed(&short));
        }
    }

    #[test]
    fn no_words_make_an_operation_panic(
        noise in proptest::collection::vec(prop_oneof![2 => any::<u64>(), 1 => Just(0), 1 => 0u64..4096], 0..60),
        mut events in events(), flips in proptest::collection::vec((any::<prop::sample::Index>(), 0u32..64), 0..4),
    ) {
        events.truncate(40);
        for measure in measures() {
            let plan = CellPlan::new(&measure).unwrap();
            let mut flipped = cell_of(&plan, &events);
            for (at, bit) in &flips {
                if !flipped.is_empty() {
                    let at = at.index(flipped.len());
                    flipped[at] ^= 1 << bit;
                }
            }
            for words in [&noise, &flipped] {
                exercise(&plan, words, &events);
            }
        }
    }
}

fn exercise(plan: &CellPlan, words: &[u64], events: &[SeenEvent]) {
    if !plan.check(words) {
        return;
    }
    for now in [i64::MIN, 0, 200, i64::MAX] {
        reading(plan, words, now);
        plan.fine(words, plan.bucket(Time(now)));
    }
    plan.rows(words);
    plan.expires(words);
    let mut cell = words.to_vec();
    for event in events {
        apply(plan, &mut cell, event);
        assert!(cell.len() <= CellShape::WORDS_MAX);
    }
    let mut other = cell_of(plan, events);
    plan.merge(&mut other, words);
    plan.merge(&mut cell, &other);
    assert!(plan.check(&other) && plan.check(&cell));
}

/// A cell with any number of buckets keeps its bound, whatever is counted.
#[test]
fn a_cell_never_outgrows_its_bound() {
    for (counters, tiers) in [(1, [tier(1, 32_000), tier(2, 33_000)]), (60, [tier(1, 500), tier(10, 500)])] {
        let measure = windowed(counters, &tiers, &[]);
        let plan = CellPlan::new(&measure).unwrap();
        let mut words = Vec::new();
        for step in 0..30_000u64 {
            let amount = if step % 3 == 0 { u64::MAX } else { mix(step) >> (step % 60) };
            let time = Time((step + mix(step) % 50) as i64);
            plan.add(&mut words, time, [((mix(step) % counters as u64) as u8, amount)]);
        }
        assert!(plan.check(&words) && words.len() <= CellShape::WORDS_MAX, "{}", words.len());
        plan.add(&mut words, Time(1 << 40), [(0, 1)]);
        assert!(plan.check(&words) && words.len() < 20, "{}", words.len());
    }
}

#[test]
fn long_histories_agree_with_a_list_of_events() {
    let measure = windowed(5, &[tier(10, 144), tier(1440, 14)], &[60, 1440, 20_160, 1500]);
    let plan = CellPlan::new(&measure).unwrap();
    for seed in 0..6u64 {
        let (mut words, mut events, mut now) = (Vec::new(), Vec::new(), 0i64);
        for step in 0..1500u64 {
            let random = mix(seed << 32 | step);
            now += match random % 97 {
                0 => 30_000 >> (seed * 2),
                number => (number % 20) as i64,
            };
            let late = if random.is_multiple_of(11) { (random >> 20) % 3000 } else { (random >> 20) % 5 };
            let amount = if random.is_multiple_of(31) { 1 << (random >> 8 & 31) } else { 1 };
            let event = SeenEvent {
                time: now - late as i64,
                amounts: vec![((random >> 40) as u8 % 5, amount), (0, 1)],
                value: None,
                hash: 0,
            };
            apply(&plan, &mut words, &event);
            events.push(event);
            if step % 100 == 0 || step > 1480 {
                for now in [now, now - 700, now + 5000] {
                    assert_eq!(reading(&plan, &words, now), sums(&measure, &events, now), "{seed} {step}");
                }
                assert!(plan.check(&words));
            }
        }
    }
}

/// Root of the mean squared relative error of estimates of so many values, and the worst of them.
fn errors(plan: &CellPlan, count: u64) -> (f64, f64) {
    let seeds = 24;
    let errors: Vec<f64> = (0..seeds)
        .map(|seed| {
            let mut words = Vec::new();
            (0..count).for_each(|value| plan.add_hash(&mut words, Time(0), mix(mix(seed) ^ value)));
            assert!(plan.check(&words));
            (reading(plan, &words, 0)[0] as f64 - count as f64) / count as f64
        })
        .collect();
    let mean = errors.iter().map(|error| error * error).sum::<f64>() / errors.len() as f64;
    (mean.sqrt(), errors.iter().fold(0.0, |worst, error| worst.max(error.abs())))
}

#[test]
fn estimates_are_as_good_as_promised() {
    for precision in [10, 12, 14] {
        let measure = Measure::approx(tier(1, 1), vec![], precision);
        let plan = CellPlan::new(&measure).unwrap();
        let standard = 1.04 / f64::from(1 << precision).sqrt();
        for count in [1, 2, 5, 20, 100, 700, 3000, 10_000, 40_000] {
            let (typical, worst) = errors(&plan, count);
            // Rounding to whole values is half a value at most.
            let rounding = 0.5 / count as f64;
            assert!(typical <= 1.4 * standard + rounding, "{precision}, {count}: {typical}");
            assert!(worst <= 3.5 * standard + rounding, "{precision}, {count}: {worst}");
        }
    }
}

#[test]
fn unions_of_periods_count_a_value_once() {
    let windows = vec![Span(10), Span(50), Span(80)];
    for precision in [10, 13] {
        let measure = Measure::approx(tier(10, 7), windows.clone(), precision);
        let plan = CellPlan::new(&measure).unwrap();
        for each in [3u64, 40, 300, 6000] {
            let mut words = Vec::new();
            // Half of a period's values come again in the next one.
            for period in 0..8u64 {
                for value in 0..each {
                    let time = Time((period * 10 + value % 10) as i64);
                    plan.add_hash(&mut words, time, mix(period * (each / 2) + value));
                }
            }
            assert!(plan.check(&words));
            let different = |periods: u64| (each + (periods - 1) * (each / 2)) as f64;
            let expected = [1, 5, 8].map(different);
            for (found, expected) in reading(&plan, &words, 79).into_iter().zip(expected) {
                let error = 4.0 * 1.04 / f64::from(1 << precision).sqrt() * expected + 0.5;
                assert!((found as f64 - expected).abs() <= error, "{found} for {expected}");
            }
        }
    }
}

/// The sizes that memory is planned with.
#[test]
fn cells_are_as_small_as_they_should_be() {
    let day = 86_400_000_000;
    let measure = windowed(6, &[tier(600_000_000, 144), tier(day, 14)], &[]);
    let plan = CellPlan::new(&measure).unwrap();
    let start = 1_700_000_000_000_000i64;
    let words = |events: i64, apart: i64, amounts: &[(u8, u64)]| {
        let mut words = Vec::new();
        for step in 0..events {
            plan.add(&mut words, Time(start + step * apart), amounts.iter().copied());
        }
        words.len()
    };
    assert_eq!(words(1, 0, &[(0, 1)]), 1);
    assert_eq!(words(1, 0, &[(0, 1), (1, 1)]), 2);
    assert_eq!(words(1, 0, &[(0, 1), (1, 1), (2, 9000)]), 3);
    assert_eq!(words(10, 1, &[(0, 1), (1, 1)]), 3);
    assert_eq!(words(10, 3_000_000_000, &[(0, 1), (1, 1)]), 12);
    let all: Vec<(u8, u64)> = (0..6).map(|counter| (counter, 300)).collect();
    assert!(8 * words(2100, 600_000_000, &all) < 2048, "every bucket, counts above a byte");
    let ordinary: Vec<(u8, u64)> = (0..6).map(|counter| (counter, 9)).collect();
    assert!(8 * words(2100, 600_000_000, &ordinary) < 1300, "every bucket, counts of a byte");

    let times = [AggregateColumn::First, AggregateColumn::Last, AggregateColumn::Count];
    let of = |columns: &[AggregateColumn], time: i64| {
        let plan = CellPlan::new(&aggregate(columns)).unwrap();
        let mut words = Vec::new();
        plan.add_value(&mut words, Time(start), Some(-7));
        plan.add_value(&mut words, Time(time), Some(i64::MIN));
        words.len()
    };
    assert_eq!(of(&times, start + 365 * day), 2);
    let values = [&times[..], &[AggregateColumn::Sum, AggregateColumn::Min, AggregateColumn::Max]].concat();
    assert_eq!(of(&values, start + 365 * day), 6);
    assert_eq!(of(&values, -1), 7);

    let measure = Measure::approx(tier(day, 7), vec![], 12);
    let plan = CellPlan::new(&measure).unwrap();
    let mut words = Vec::new();
    plan.add_hash(&mut words, Time(start), 12345);
    assert_eq!(words.len(), 2);
}

/// The words that are drawn at the head of each file.
#[test]
fn the_packed_forms_are_as_drawn() {
    let shape = [tier(10, 6), tier(30, 3)];
    let plan = CellPlan::new(&windowed(3, &shape, &[])).unwrap();
    let mut words = Vec::new();
    plan.add(&mut words, Time(1105), [(0, 1)]);
    assert_eq!(words, [1105 << 12 | 3 << 3 | 1]);
    plan.add(&mut words, Time(1105), [(2, 5)]);
    // Bucket 110 has slot 5 of 7; a counter takes 2 bits, a slot of 7 + 4 takes 4.
    let entry = |counter: u64, slot: u64, amount: u64| counter | slot << 2 | amount << 6;
    let both = entry(0, 5, 1) | entry(2, 5, 5) << 32;
    assert_eq!(words, [1105 << 12 | 2 << 5 | 1, both]);
    // Bucket 33 of the coarse tier has slot 1 of 4.
    plan.add(&mut words, Time(1000), [(1, 7)]);
    assert_eq!(words, [1105 << 12 | 3 << 5 | 1 << 2 | 1, 1000, both, entry(1, 7 + 1, 7)]);
    let mut large = words.clone();
    plan.add(&mut large, Time(1109), [(1, 1 << 40)]);
    let entries = [entry(0, 5, 1), entry(2, 5, 5), entry(1, 8, 7), entry(1, 5, 1 << 40)];
    assert_eq!(large[..2], [1109 << 12 | 4 << 5 | 1 << 3 | 1 << 2 | 1, 1000]);
    assert_eq!(large[2..], entries);
    // Dense: three words, the sizes, then columns of one word or two.
    for time in 0..70 {
        plan.add(&mut words, Time(1040 + time), [(0, 1), (1, 1), (2, 100)]);
    }
    let fine = |counts: [u64; 7]| counts.iter().rev().fold(0, |word, count| word << 8 | count);
    assert_eq!(words[..3], [3, 1109, 1000]);
    assert_eq!(words[3], 0x2_1101, "no coarse column of counter 0, two bytes for fine ones of counter 2");
    assert_eq!(words[4], fine([10, 10, 10, 10, 10, 11, 10]));
    assert_eq!(words[5..7], [fine([10; 7]), 7 << 8]);
    assert_eq!(
        trimmed(&words)[7..],
        [1000 | 1000 << 16 | 1000 << 32 | 1000 << 48, 1000 | 1005 << 16 | 1000 << 32]
    );

    let columns = [
        AggregateColumn::First,
        AggregateColumn::Last,
        AggregateColumn::Count,
        AggregateColumn::Sum,
        AggregateColumn::Max,
        decayed(10, DecayWeight::Value),
    ];
    let plan = CellPlan::new(&aggregate(&columns)).unwrap();
    let mut words = Vec::new();
    plan.add_value(&mut words, Time(1000), Some(-8));
    plan.add_value(&mut words, Time(1010), Some(3));
    let values = [(-5i64) as u64, u64::MAX, 3, (-1f64).to_bits()];
    assert_eq!(words[..2], [1010 << 12 | 1, 10 << 16 | 2]);
    assert_eq!(words[2..], values);
    plan.add_value(&mut words, Time(-(1 << 50)), None);
    assert_eq!(words[..3], [3 << 2 | 2, 1010, (-1i64 << 50) as u64]);
    assert_eq!(words[3..], values);

    let measure = Measure::approx(tier(10, 3), vec![], 10);
    let plan = CellPlan::new(&measure).unwrap();
    let mut words = Vec::new();
    plan.add_hash(&mut words, Time(1025), 0xffff_0000_0000_0000 | 5 << 38 | 1 << 30);
    plan.add_hash(&mut words, Time(1025), 4 << 38);
    // Slot 2 of 4; seven zeros make rank 8, none but zeros 39.
    let entry = |register: u64, rank: u64| 2 << 16 | register << 6 | rank;
    assert_eq!(words, [1025 << 12 | 2 << 5 | 1, entry(4, 39) | entry(5, 8) << 32]);
}

/// Registers are a function of the set of values: whatever the forms that a cell goes through, an estimate is that of
/// a cell which saw just those values, at once.
#[test]
fn approximate_counts_survive_all_their_forms() {
    let windows: Vec<Span> = [10, 30, 80].map(Span).to_vec();
    let measure = Measure::approx(tier(10, 7), windows.clone(), 10);
    let plan = CellPlan::new(&measure).unwrap();
    for seed in 0..12u64 {
        let (mut words, mut half, mut short) = (Vec::new(), Vec::new(), Vec::new());
        let mut kept: BTreeMap<i64, BTreeSet<u64>> = BTreeMap::new();
        let mut newest = 0i64;
        for step in 0..60u64 {
            let random = mix(seed << 32 | step);
            newest +=
                (random % 3) as i64 + if random.is_multiple_of(17) { (random >> 8 & 15) as i64 } else { 0 };
            let period = newest - (random >> 16 & 3) as i64;
            let count = [1, 30, 200, 500][(random >> 20 & 3) as usize];
            for value in 0..count {
                let (time, hash) =
                    (Time(period * 10 + value % 10), mix(random >> 24 & 0xff | (value as u64) << 8));
                // The newest period is known before a late value comes.
                let other = (value % 2 == 0).then_some(&mut half);
                for room in [&mut words, &mut short].into_iter().chain(other) {
                    plan.add_hash(room, Time(newest * 10), mix(0));
                    plan.add_hash(room, time, hash);
                }
                kept.entry(newest).or_default().insert(mix(0));
                kept.entry(period).or_default().insert(hash);
            }
            trim(&mut short);
            kept.retain(|period, _| *period >= newest - 7);
            if step % 20 == 19 {
                plan.merge(&mut half, &words);
                assert!(plan.check(&half));
                for cell in [&words, &half, &short] {
                    let expected: Vec<u64> = windows
                        .iter()
                        .map(|window| {
                            let mut fresh = Vec::new();
                            let values =
                                kept.range(newest - window.0 / 10 + 1..).flat_map(|(_, values)| values);
                            values.for_each(|hash| plan.add_hash(&mut fresh, Time(0), *hash));
                            reading(&plan, &fresh, 0)[0]
                        })
                        .collect();
                    assert_eq!(reading(&plan, cell, newest * 10 + 3), expected, "{seed} {step}");
                    assert!(plan.check(cell));
                }
                assert_eq!(plan.rows(&words).len(), kept.len());
                assert_eq!(trimmed(&short), trimmed(&words));
            }
        }
        // A flipped bit is found, or does no harm.
        for flip in 0..400u64 {
            let mut damaged = words.clone();
            let at = mix(flip) as usize % damaged.len();
            damaged[at] ^= 1 << (mix(flip) >> 32 & 63);
            exercise(
                &plan,
                &damaged,
                &[SeenEvent { time: newest * 10 + 40, amounts: vec![], value: None, hash: flip }],
            );
        }
    }
}

/// A layout of three counters, of two of which something can be taken back.
fn with_taken(tiers: &[Tier], windows: &[i64]) -> Measure {
    let names = ["seen", "a", "b", "~b", "~a"].map(str::to_owned).to_vec();
    let windows = windows.iter().map(|window| Span(*window)).collect();
    Measure::Windows(Layout::new(names, tiers, windows, None).unwrap())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Taking back at the time of what was added leaves every window as if neither had been, in whatever order all comes and
    /// however it is spread over cells that are merged.
    #[test]
    fn what_is_taken_back_was_never_counted(
        kept in proptest::collection::vec((0i64..3000, 0u8..3, 1u64..40), 0..60),
        gone in proptest::collection::vec((0i64..3000, 1u8..3, 1u64..40), 0..60),
        order in proptest::collection::vec(any::<u64>(), 180), split in any::<u64>(), now in 0i64..4000,
    ) {
        for (tiers, windows) in [
            (vec![tier(10, 40), tier(100, 30)], vec![10, 400, 105, 3000, 2000]),
            (vec![tier(7, 400)], vec![7, 2800, 70]),
        ] {
            let plan = CellPlan::new(&with_taken(&tiers, &windows)).unwrap();
            prop_assert_eq!((plan.columns(), plan.reading()), (3, 3 * windows.len()));
            let taken = |counter: u8| 5 - counter;
            let once = kept.iter().copied();
            let twice = gone.iter().flat_map(|(time, of, amount)| [(*time, *of, *amount), (*time, taken(*of), *amount)]);
            let mut adds: Vec<_> = once.clone().chain(twice).zip(&order).collect();
            adds.sort_by_key(|(_, order)| **order);
            let (mut all, mut parts, mut plain) = (Vec::new(), [Vec::new(), Vec::new()], Vec::new());
            for (at, ((time, counter, amount), _)) in adds.into_iter().enumerate() {
                plan.add(&mut all, Time(time), [(counter, amount)]);
                plan.add(&mut parts[(split >> (at % 64) & 1) as usize], Time(time), [(counter, amount)]);
            }
            once.for_each(|(time, counter, amount)| plan.add(&mut plain, Time(time), [(counter, amount)]));
            // Both have seen as late an event: what is told apart is what is left of it.
            let last = gone.iter().map(|(time, ..)| *time).max();
            last.into_iter().for_each(|last| plan.add(&mut plain, Time(last), []));
            prop_assert!(plan.check(&all));
            let expected = reading(&plan, &plain, now);
            prop_assert_eq!(&reading(&plan, &all, now), &expected);
            prop_assert_eq!(&reading(&plan, &merged(&plan, &parts[0], &parts[1]), now), &expected);
            prop_assert_eq!(plan.net_rows(&all), plan.net_rows(&plain));
        }
    }
}

#[test]
fn more_taken_back_than_counted_is_none() {
    let plan = CellPlan::new(&with_taken(&[tier(10, 4)], &[40])).unwrap();
    let mut words = Vec::new();
    plan.add(&mut words, Time(5), [(0, 2), (1, 3), (4, 9)]);
    assert_eq!(reading(&plan, &words, 5), [2, 0, 0]);
    assert_eq!(plan.net_rows(&words)[0].counts, [2, 0, 0]);
    assert_eq!(plan.rows(&words)[0].counts, [2, 3, 0, 0, 9], "what is stored is all that was added");
}

#[test]
fn what_is_taken_back_is_of_a_counter_before() {
    let check = |names: &[&str], expected: &str| {
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        let made = Layout::new(names, &[tier(10, 4)], Vec::new(), None);
        assert_eq!(made.err().map_or(String::new(), |error| error.to_string()), expected);
    };
    check(&["a", "b", "~b", "~a"], "");
    check(&["a", "~b"], "counters: `~b` is not what was taken back of one before");
    check(&["~a", "a"], "counters: `~a` is not what was taken back of one before");
    check(&["a", "~a", "b"], "counters: `b` is not what was taken back of one before");
}
