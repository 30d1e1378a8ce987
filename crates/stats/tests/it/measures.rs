//! Tracks, approximate counts and admission, through the ledger.

use std::sync::Arc;

use disk::MemoryDevice;
use event::{Kind, Span};
use stats::{
    Addition, Admission, AggregateColumn, AggregateLayout, AggregateValue, Catalog, CounterAmounts,
    DecayWeight, EmbeddedLedger, Layout, Ledger, Measure, Observation, ObserveRequest, Origin, Quality,
    Sketch, Statistic,
};

use crate::support::*;

const VISITOR: Kind = Kind(1);
const USERS: Kind = Kind(2);
const RARE: Kind = Kind(3);
const COUNTED: Kind = Kind(4);
const VALUES: Kind = Kind(5);

fn measures() -> Catalog {
    let decayed = AggregateColumn::Decayed { half_life: Span::minutes(1), weight: DecayWeight::Value };
    let columns = vec![
        AggregateColumn::First,
        AggregateColumn::Last,
        AggregateColumn::Count,
        AggregateColumn::Sum,
        AggregateColumn::Min,
        AggregateColumn::Max,
        decayed,
    ];
    let aggregate = |columns| Measure::Aggregate(AggregateLayout::new(columns, Span::days(30)).unwrap());
    let users = Measure::approx("1h x 2".parse().unwrap(), vec![Span::hours(1)], 12);
    let admit = Admission {
        sketch: Admission::sketch_of("rare"),
        after: 4,
        rotate: Span::days(3),
        bytes: Sketch::bytes_for(100_000, 0.01),
    };
    let rare = Statistic {
        admit: Some(admit),
        ..statistic("rare", "screen", aggregate(vec![AggregateColumn::Count]))
    };
    let twice = Admission { sketch: Admission::sketch_of("twice"), after: 3, ..admit };
    let counts = Layout::new(
        vec!["seen".to_owned(), "said".to_owned()],
        &["1h x 48".parse().unwrap()],
        vec![Span::hours(1), Span::days(1)],
        None,
    );
    let counted =
        Statistic { admit: Some(twice), ..statistic("twice", "path", Measure::Windows(counts.unwrap())) };
    let values = Measure::distinct("1d".parse().unwrap(), vec![Span::days(1)]);
    let values = Statistic { admit: Some(twice), ..statistic("values", "values", values) };
    let mut builder = Catalog::builder();
    builder.add(SPACE, VISITOR, statistic("visitor", "user", aggregate(columns))).unwrap();
    builder.add(SPACE, USERS, statistic("users", "ip", users)).unwrap();
    builder.add(SPACE, RARE, rare).unwrap();
    builder.add(SPACE, COUNTED, counted).unwrap();
    builder.add(SPACE, VALUES, values).unwrap();
    builder.build()
}

fn open(device: &MemoryDevice, memory_bytes: usize) -> EmbeddedLedger {
    EmbeddedLedger::open(Arc::new(device.clone()), measures(), options(memory_bytes, "sync")).unwrap().0
}

fn value(kind: Kind, number: u64, seconds: i64, value: Option<i64>) -> Observation {
    Observation { key: key(kind, number), time: at(seconds), add: Addition::Value(value) }
}

#[test]
fn aggregates_keep_their_columns_over_a_restart() {
    let device = MemoryDevice::new();
    let columns = match &measures().get(SPACE, VISITOR).unwrap().measure {
        Measure::Aggregate(aggregate) => aggregate.columns().to_vec(),
        _ => unreachable!(),
    };
    // With the small budget the cell is read back from disk each time.
    for memory_bytes in [1 << 10, 64 << 20] {
        let number = memory_bytes as u64;
        let ledger = open(&device, memory_bytes);
        let first = observe_one(&ledger, request(vec![value(VISITOR, number, 60, Some(-5))]));
        let values = |reading: &stats::Reading| -> Vec<AggregateValue> {
            columns.iter().zip(0..).map(|(column, at)| column.value(reading.sum(0, at))).collect()
        };
        assert_eq!(
            values(&first.readings[0])[2..6],
            [
                AggregateValue::Count(0),
                AggregateValue::Integer(Some(0)),
                AggregateValue::Integer(None),
                AggregateValue::Integer(None),
            ]
        );
        observe(
            &ledger,
            &[request(vec![value(VISITOR, number, 120, Some(20)), value(VISITOR, number, 0, None)])],
        );
        drop(ledger);
        let ledger = open(&device, memory_bytes);
        let reading = &observe_one(&ledger, request(vec![peek(key(VISITOR, number), at(180))])).readings[0];
        assert_eq!(
            values(reading),
            [
                AggregateValue::Time(Some(at(0))),
                AggregateValue::Time(Some(at(120))),
                AggregateValue::Count(3),
                AggregateValue::Integer(Some(15)),
                AggregateValue::Integer(Some(-5)),
                AggregateValue::Integer(Some(20)),
                AggregateValue::Real(20.0 / 2.0 - 5.0 / 4.0),
            ]
        );
        assert_eq!((reading.first, reading.last), (Some(at(0)), Some(at(120))));
    }
}

#[test]
fn a_greatest_value_can_be_taken_back() {
    let device = MemoryDevice::new();
    let lower = |kind, number, to| Observation { add: Addition::Lower(to), ..value(kind, number, 500, None) };
    let read = |ledger: &EmbeddedLedger, number| {
        let reading =
            observe_one(ledger, request(vec![peek(key(VISITOR, number), at(180))])).readings.remove(0);
        (reading.sum(0, 5).cast_signed(), reading.sum(0, 2), reading.last)
    };
    // Read back from disk with the small budget; and from one ledger to the next in any case.
    for memory_bytes in [1 << 10, 64 << 20] {
        let number = memory_bytes as u64;
        let ledger = open(&device, memory_bytes);
        observe(&ledger, &[request(vec![value(VISITOR, number, 60, Some(20)), lower(VISITOR, number, 30)])]);
        assert_eq!(read(&ledger, number), (20, 1, Some(at(60))), "it is not above");
        observe(&ledger, &[request(vec![lower(VISITOR, number, 7)])]);
        drop(ledger);
        let ledger = open(&device, memory_bytes);
        assert_eq!(read(&ledger, number), (7, 1, Some(at(60))), "and no event was counted");
        observe(&ledger, &[request(vec![value(VISITOR, number, 70, Some(9))])]);
        assert_eq!(read(&ledger, number), (9, 2, Some(at(70))));
        let keys = ledger.census().keys;
        observe(&ledger, &[request(vec![lower(VISITOR, number + 1, 7)])]);
        assert_eq!(ledger.census().keys, keys, "no cell is made");
        let refused = pollster::block_on(ledger.observe(&[request(vec![lower(RARE, 1, 7)])]));
        assert!(refused.unwrap_err().to_string().contains("keeps no greatest value"));
    }
}

#[test]
fn approximate_counts_say_that_they_are() {
    let device = MemoryDevice::new();
    let owner = key(USERS, 1);
    {
        let ledger = open(&device, 16 << 20);
        let before = ledger.census().keys;
        for _ in 0..2 {
            let observations = (0..3000).map(|number| distinct(owner, at(100), number)).collect();
            observe(&ledger, &[request(observations)]);
        }
        assert_eq!(ledger.census().keys - before, 1, "pairs have no cells");
    }
    let ledger = open(&device, 16 << 20);
    let reading = &observe_one(&ledger, request(vec![peek(owner, at(200))])).readings[0];
    assert_eq!(reading.quality, Quality::Estimated);
    // Six standard errors of 1.6%.
    assert!((2700..3300).contains(&reading.sum(0, 0)), "{reading:?}");
}

#[test]
fn a_key_gets_a_cell_after_some_sightings_also_over_a_restart() {
    let device = MemoryDevice::new();
    let see = |ledger: &EmbeddedLedger, seconds| {
        let reading = observe_one(ledger, request(vec![value(RARE, 7, seconds, None)])).readings.remove(0);
        (reading.quality, reading.sum(0, 0), reading.first)
    };
    {
        let ledger = open(&device, 16 << 20);
        assert_eq!(
            see(&ledger, 10),
            (Quality::Exact, 0, None),
            "of a key that was not seen nothing is estimated"
        );
        assert_eq!(see(&ledger, 20), (Quality::Estimated, 1, None));
        let peeked = observe_one(&ledger, request(vec![peek(key(RARE, 7), at(30))]));
        assert_eq!((peeked.readings[0].quality, peeked.readings[0].sum(0, 0)), (Quality::Estimated, 2));
        ledger.close().unwrap();
    }
    let ledger = open(&device, 16 << 20);
    assert_eq!(see(&ledger, 30), (Quality::Estimated, 2, None), "the sketch was kept");
    assert_eq!(see(&ledger, 40), (Quality::Estimated, 3, None));
    assert_eq!(see(&ledger, 50), (Quality::Exact, 4, Some(at(40))), "the count goes on from the estimate");
}

/// A crash costs a sketch what was sighted since its shard was written, and that is said.
#[test]
fn a_sketch_survives_a_crash_and_says_what_it_may_have_forgotten() {
    let device = MemoryDevice::new();
    let see = |ledger: &EmbeddedLedger, number, seconds| {
        let outcome = observe_one(ledger, request(vec![value(RARE, number, seconds, None)]));
        (outcome.readings[0].quality, outcome.readings[0].sum(0, 0))
    };
    let ledger = open(&device, 16 << 20);
    assert_eq!(see(&ledger, 1, 10), (Quality::Exact, 0), "nothing was ever forgotten");
    assert_eq!(see(&ledger, 1, 20), (Quality::Estimated, 1));
    // In these turns every shard is written.
    (0..60).for_each(|_| ledger.maintain(at(20)).unwrap());
    let device = device.torn(0);
    drop(ledger);
    let ledger = open(&device, 16 << 20);
    assert_eq!(see(&ledger, 1, 30), (Quality::Estimated, 2), "what was written is there");
    assert_eq!(see(&ledger, 2, 30), (Quality::Estimated, 0), "it may have been seen before the crash");
    assert_eq!(see(&ledger, 2, 40), (Quality::Estimated, 1));
    let half = Span::days(3).0 / 2_000_000;
    let mine = key(RARE, 1).shingle.0 >> 55;
    let other = (10..).find(|number| key(RARE, *number).shingle.0 >> 55 == mine).unwrap();
    assert_eq!(see(&ledger, other, 29 + half), (Quality::Estimated, 0));
    let other = (other + 1..).find(|number| key(RARE, *number).shingle.0 >> 55 == mine).unwrap();
    assert_eq!(see(&ledger, other, 30 + half), (Quality::Exact, 0), "half a life later it knows");
    ledger.close().unwrap();
    drop(ledger);
    let ledger = open(&device, 16 << 20);
    let other = (other + 1..).find(|number| key(RARE, *number).shingle.0 >> 55 == mine).unwrap();
    assert_eq!(see(&ledger, other, 40 + half), (Quality::Exact, 0), "a restart forgets nothing");
}

#[test]
fn counters_go_on_from_what_the_sketch_has_seen() {
    let ledger = EmbeddedLedger::in_memory(measures(), 16 << 20).unwrap();
    let add = |number, origin, amounts: &[(u8, u64)]| {
        let add = Addition::Counters(amounts.iter().copied().collect::<CounterAmounts>());
        let observations = vec![Observation { key: key(COUNTED, number), time: at(100), add }];
        let request = ObserveRequest { once: None, origin, observations };
        let reading = observe_one(&ledger, request).readings.remove(0);
        (reading.quality, reading.sum(0, 0), reading.sum(1, 0), reading.sum(0, 1))
    };
    let event = |number| add(number, Origin::Event, &[(0, 1)]);
    assert_eq!(event(1), (Quality::Exact, 0, 0, 0));
    assert_eq!(add(1, Origin::Verdict, &[(1, 1)]).0, Quality::Estimated);
    assert_eq!(event(1), (Quality::Estimated, 1, 1, 0), "a verdict is no sighting");
    assert_eq!(ledger.census().keys, 0);
    assert_eq!(event(1), (Quality::Estimated, 2, 2, 0));
    assert_eq!(event(1), (Quality::Exact, 3, 3, 0), "the third has made the cell");
    assert_eq!(add(1, Origin::Verdict, &[(1, 1)]), (Quality::Exact, 4, 4, 0));
    assert_eq!(event(1), (Quality::Exact, 4, 4, 1));
    // What somebody says is never lost.
    assert_eq!(event(2), (Quality::Exact, 0, 0, 0));
    assert_eq!(add(2, Origin::Report, &[(1, 5)]).0, Quality::Estimated);
    assert_eq!(event(2), (Quality::Exact, 0, 0, 5));
    assert_eq!(ledger.census().keys, 2);
}

#[test]
fn values_are_counted_of_owners_that_are_admitted() {
    let ledger = EmbeddedLedger::in_memory(measures(), 16 << 20).unwrap();
    let see = |owner: u64, number: u64| {
        let key = key(VALUES, owner);
        let pair = secret().pair(key.shingle, secret().shingle(&number.to_le_bytes()));
        let observed = Observation { key, time: at(100), add: Addition::Distinct { pair } };
        let reading = observe_one(&ledger, request(vec![observed])).readings.remove(0);
        (reading.quality, reading.sum(0, 0), reading.fresh)
    };
    for owner in 0..500 {
        assert_eq!(see(owner, owner), (Quality::Exact, 0, true));
    }
    assert_eq!(ledger.census().keys, 0, "of owners that come once nothing is kept");
    assert_eq!(see(3, 1), (Quality::Estimated, 0, false), "whether it is new nobody knows");
    assert_eq!(see(3, 2).0, Quality::Estimated);
    assert_eq!((see(3, 4), see(3, 5)), ((Quality::Exact, 1, true), (Quality::Exact, 2, true)));
}

#[test]
fn a_flood_of_new_keys_leaves_cells_alone() {
    let ledger = EmbeddedLedger::in_memory(measures(), 8 << 20).unwrap();
    let known: Vec<u64> = (0..1000).collect();
    for _ in 0..4 {
        let observations = known.iter().map(|number| value(RARE, *number, 10, None)).collect();
        observe(&ledger, &[request(observations)]);
    }
    let before = ledger.census().cells;
    assert_eq!(before, 1000);
    for batch in 0..50u64 {
        let observations =
            (0..2000).map(|number| value(RARE, 10_000 + batch * 2000 + number, 20, None)).collect();
        observe(&ledger, &[request(observations)]);
    }
    let census = ledger.census();
    // A hundred thousand keys that were seen once; the sketch was made for as many, at 1% too early.
    assert!(census.cells - before <= 1000 && census.evictions == 0, "{census:?}");
    for number in known {
        let reading = observe_one(&ledger, request(vec![peek(key(RARE, number), at(30))])).readings.remove(0);
        assert_eq!((reading.quality, reading.sum(0, 0)), (Quality::Exact, 4));
    }
}
