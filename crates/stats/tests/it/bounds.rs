//! A ledger whose memory new keys would fill.

use std::sync::Arc;

use disk::MemoryDevice;
use event::{Kind, Span, Time};
use stats::limit::WindowTake;
use stats::{
    Addition, Catalog, EmbeddedLedger, Ledger, LedgerError, Measure, Observation, ObserveRequest, Quality,
};

use crate::support::*;

const LIMIT: Kind = Kind(9);
const FLOOD: u64 = 260_000;

fn bounded() -> Catalog {
    let mut builder = Catalog::builder();
    let mass = windows(&["seen"], &["1m x 2"], &["2m"], Some(Span::hours(1)));
    let pairs = Measure::distinct("1h x 1".parse().unwrap(), vec![Span::hours(1)]);
    builder.add(SPACE, MASS, statistic("mass", "path", mass)).unwrap();
    builder.add(SPACE, DISTINCT, statistic("pairs", "path.value", pairs)).unwrap();
    builder.add(SPACE, ONCE, statistic("once", "id", Measure::once(Span::hours(1)))).unwrap();
    builder.add(SPACE, LIMIT, statistic("limit", "ip", Measure::limit(Span::hours(1), 60).unwrap())).unwrap();
    builder.build()
}

fn take(number: u64) -> Observation {
    let take = WindowTake { cost: 1, limit: 1_000, counts_all: false, interpolated: false };
    Observation { key: key(LIMIT, number), time: at(1000), add: Addition::Take(take) }
}

fn seen(number: u64, time: Time) -> Observation {
    add(key(MASS, number), time, [(0, 1)])
}

#[test]
fn a_flood_of_new_keys_is_estimated_and_leaves_memory_limits_and_hot_keys_as_they_were() {
    let device = MemoryDevice::new();
    let memory_bytes = 4 << 20;
    let open = || {
        let options = stats::Options { segment_bytes: 8 << 20, ..options(memory_bytes, "1h") };
        EmbeddedLedger::open(Arc::new(device.clone()), bounded(), options).unwrap().0
    };
    let ledger = open();
    let mut taken = 0;
    let mut turn = |ledger: &EmbeddedLedger| {
        taken += 1;
        let outcome = observe_one(ledger, request((0..200).map(take).collect()));
        let used = outcome
            .readings
            .iter()
            .all(|reading| (reading.quality, reading.sum(0, 0)) == (Quality::Exact, taken - 1));
        assert!(used, "after {taken} takes of each");
    };
    let mut most = 0;
    for batch in (0..FLOOD).step_by(2_000) {
        if batch % 20_000 == 0 {
            turn(&ledger);
            ledger.maintain(at(1000)).unwrap();
        }
        let requests: Vec<ObserveRequest> = (0..4)
            .map(|part| {
                request((0..500).map(|number| seen(1000 + batch + part * 500 + number, at(1000))).collect())
            })
            .collect();
        observe(&ledger, &requests);
        most = most.max(ledger.census().memory_bytes);
    }
    let census = ledger.census();
    assert!(most < memory_bytes as u64 * 13 / 10, "{most}: {census:?}");
    assert!(census.directory_bytes <= census.directory_max_bytes && census.unplaced > 50_000, "{census:?}");
    turn(&ledger);

    // Those who are new are estimated. A few find the last places.
    let new = |number: u64| 1 << 40 | number;
    let estimated = |ledger: &EmbeddedLedger, time, round: u64| {
        let observations = (0..100).map(|number| seen(new(number), time)).collect();
        let readings = observe_one(ledger, request(observations)).readings;
        let is_estimated = |reading: &&stats::Reading| reading.quality == Quality::Estimated;
        let estimated = readings.iter().filter(is_estimated).count();
        let exact = readings.iter().filter(|reading| reading.quality == Quality::Exact);
        assert!(exact.clone().all(|reading| reading.sum(0, 0) == round), "round {round}");
        estimated
    };
    estimated(&ledger, at(1000), 0);
    assert!(estimated(&ledger, at(1000), 1) > 80);
    // A limit has places of its own, whoever it is for.
    for used in 0..3 {
        let outcome = observe_one(&ledger, request(vec![take(1 << 41)]));
        assert_eq!((outcome.readings[0].quality, outcome.readings[0].sum(0, 0)), (Quality::Exact, used));
    }
    // An owner that is known counts values of which there is no mark, and each once.
    let owner = key(DISTINCT, 1);
    let value =
        |number| observe_one(&ledger, request(vec![distinct(owner, at(1000), number)])).readings.remove(0);
    let fresh = (0..3_000).filter(|number| value(*number).fresh).count();
    let again = (0..3_000).filter(|number| value(*number).fresh).count();
    assert!((fresh == 0 || fresh > 2_900) && again < 100, "{fresh}, {again}");
    // An id of which there may be no mark is no reason to refuse an event.
    assert!(!observe_one(&ledger, once(1, at(1000), vec![seen(5000, at(1000))])).duplicate);

    // All of it is so after a restart, and once the flood has expired there is room again.
    ledger.close().unwrap();
    drop(ledger);
    let ledger = open();
    turn(&ledger);
    let census = ledger.census();
    assert!(census.memory_bytes < memory_bytes as u64 * 13 / 10, "{census:?}");
    let later = at(1000) + Span::hours(2);
    for _ in 0..3 {
        ledger.maintain(later).unwrap();
    }
    let census = ledger.census();
    assert!(census.directory_bytes * 2 < census.directory_max_bytes, "{census:?}");
    assert_eq!([0, 1].map(|round| estimated(&ledger, later, round)), [0, 0]);
}

#[test]
fn a_ledger_refuses_another_secret() {
    let device = MemoryDevice::new();
    let ledger = embedded(&device, 1 << 20, "none");
    ledger.claim(7).unwrap();
    ledger.claim(7).unwrap();
    assert!(matches!(ledger.claim(8), Err(LedgerError::Secret)));
    for round in 0..50u64 {
        observe(
            &ledger,
            &[request((0..500).map(|number| add(key(MASS, number), at(1000), [(0, round)])).collect())],
        );
        ledger.maintain(at(1000)).unwrap();
    }
    assert!(ledger.census().rewritten_bytes > 0, "it outlives merges");
    drop(ledger);
    let ledger = embedded(&device.crash(3), 1 << 20, "none");
    let refused = ledger.claim(6).unwrap_err();
    assert!(refused.to_string().contains("another secret"), "{refused}");
    ledger.claim(7).unwrap();
}
