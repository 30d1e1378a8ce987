//! Cells that leave one ledger and enter another.

use std::sync::Arc;

use disk::MemoryDevice;
use event::{Key, Kind, Shingle, Span, Time};
use stats::cell_export::{CellContent, CellDecoder, ExportedCell};
use stats::{
    Addition, AggregateColumn, AggregateLayout, Catalog, DecayWeight, EmbeddedLedger, Evidence, Ledger,
    Measure, MergeState, Observation, ObserveOutcome, ObserveRequest, Timeline,
};

use crate::support::{
    DISTINCT, LAST, MASS, ONCE, Random, SPACE, VISITS, add, at, catalog, distinct, key, last, observe, once,
    options, peek, request, statistic, windows,
};

const AGGREGATE: Kind = Kind(5);
const FULL_AGGREGATE: Kind = Kind(6);
const APPROX: Kind = Kind(7);
const EVIDENCE: Kind = Kind(8);
const KINDS: [Kind; 8] = [MASS, VISITS, DISTINCT, AGGREGATE, FULL_AGGREGATE, APPROX, EVIDENCE, LAST];

/// All forms of statistic.
fn all_forms() -> Catalog {
    let mut builder = Catalog::builder();
    for (space, kind, statistic) in catalog().iter() {
        builder.add(space, kind, (**statistic).clone()).unwrap();
    }
    let plain = AggregateLayout::new(
        vec![AggregateColumn::First, AggregateColumn::Last, AggregateColumn::Count],
        Span::hours(1),
    )
    .unwrap();
    let decayed = |weight| AggregateColumn::Decayed { half_life: Span::seconds(30), weight };
    let columns = vec![
        AggregateColumn::Count,
        AggregateColumn::Sum,
        AggregateColumn::Min,
        AggregateColumn::Max,
        decayed(DecayWeight::One),
        decayed(DecayWeight::Value),
    ];
    let full = AggregateLayout::new(columns, Span::hours(1)).unwrap();
    let approx = Measure::approx("1m x 3".parse().unwrap(), vec![Span::minutes(1), Span::minutes(4)], 10);
    builder.add(SPACE, AGGREGATE, statistic("seen", "user", Measure::Aggregate(plain))).unwrap();
    builder.add(SPACE, FULL_AGGREGATE, statistic("amount", "card", Measure::Aggregate(full))).unwrap();
    builder.add(SPACE, APPROX, statistic("links", "from.link", approx)).unwrap();
    let evidence = Measure::evidence(Span::hours(1));
    builder.add(SPACE, EVIDENCE, statistic("learned", "token", evidence)).unwrap();
    builder.build()
}

fn open(device: &MemoryDevice, catalog: Catalog) -> EmbeddedLedger {
    EmbeddedLedger::open(Arc::new(device.clone()), catalog, options(64 << 10, "none")).unwrap().0
}

fn event(random: &mut Random, number: u64, keys: u64, step: i64) -> ObserveRequest {
    let time = at(10_000 + number as i64 * step + random.below(90) as i64 - 45);
    let owner = |kind, random: &mut Random| key(kind, random.below(keys));
    let mut observations = Vec::new();
    for _ in 0..4 {
        let kind = KINDS[random.below(KINDS.len() as u64) as usize];
        let key = owner(kind, random);
        observations.push(match kind {
            MASS => add(key, time, [(0, 1), (1, random.below(1000))]),
            VISITS => add(key, time, [(0, 1 << random.below(40))]),
            DISTINCT => distinct(key, time, random.below(6)),
            LAST => last(key, time, ["AT", "DE", "a longer value", ""][random.below(4) as usize]),
            APPROX => {
                let pair = crate::support::pair(key, random.below(5000));
                Observation { key, time, add: Addition::Distinct { pair } }
            }
            EVIDENCE => {
                let few = |random: &mut Random| random.below(3) as i64 - 1;
                let (bad, good) = (few(random), few(random));
                // Some weights need the wide form.
                let weight = (random.below(1 << 20) as i64 - (1 << 19)) << (8 * random.below(3));
                Observation { key, time, add: Addition::Evidence(Evidence { bad, good, weight }) }
            }
            _ => {
                let value = (random.below(4) > 0).then(|| random.below(2000) as i64 - 1000);
                Observation { key, time, add: Addition::Value(value) }
            }
        });
    }
    once(random.below(200), time, observations)
}

fn events(seed: u64, count: u64, keys: u64, step: i64) -> Vec<ObserveRequest> {
    let mut random = Random(seed);
    (0..count).map(|number| event(&mut random, number, keys, step)).collect()
}

fn exported(ledger: &EmbeddedLedger) -> (CellDecoder, Vec<ExportedCell>) {
    let mut cells = Vec::new();
    let exported = ledger.export(&mut |cell| cells.push(cell)).unwrap();
    assert_eq!((exported.cells, exported.lost), (cells.len() as u64, 0));
    (CellDecoder::new(ledger.definitions()).unwrap(), cells)
}

fn import(
    ledger: &EmbeddedLedger,
    decoder: &CellDecoder,
    cells: &[ExportedCell],
) -> stats::LedgerImportReport {
    let mut importer = ledger.importer(decoder).unwrap();
    for cells in cells.chunks(17) {
        let decoded: Vec<_> = cells.iter().map(|cell| decoder.decode(cell).unwrap()).collect();
        importer.add(&decoded).unwrap();
    }
    importer.finish().unwrap()
}

/// All that can be asked of keys at a time.
fn answers(ledger: &EmbeddedLedger, keys: u64, now: Time) -> (Vec<ObserveOutcome>, Vec<Option<Timeline>>) {
    let asked: Vec<Key> = KINDS.iter().flat_map(|kind| (0..keys).map(|number| key(*kind, number))).collect();
    let mut timelines: Vec<_> =
        asked.iter().map(|key| pollster::block_on(ledger.timeline(*key)).unwrap()).collect();
    let marks = (0..200).map(|number| key(ONCE, number));
    timelines.extend(marks.map(|key| pollster::block_on(ledger.timeline(key)).unwrap()));
    let peeks = asked.iter().map(|key| match key.kind {
        DISTINCT => Observation { add: distinct(*key, now, 3).add, ..peek(*key, now) },
        _ => peek(*key, now),
    });
    // A distinct observation adds, unless its request was marked.
    let peeks: Vec<ObserveRequest> = peeks
        .map(|observation| match observation.add {
            Addition::Nothing => request(vec![observation]),
            _ => request(vec![peek(observation.key, now)]),
        })
        .collect();
    (observe(ledger, &peeks), timelines)
}

#[test]
fn a_ledger_that_was_moved_answers_alike() {
    for (seed, keys, step) in [(1, 3, 1), (2, 40, 1), (3, 40, 30), (4, 500, 3)] {
        let (old, new) = (MemoryDevice::new(), MemoryDevice::new());
        let old = open(&old, all_forms());
        let count = 1500;
        for batch in events(seed, count, keys, step).chunks(50) {
            observe(&old, batch);
        }
        let (decoder, cells) = exported(&old);
        assert!(cells.iter().any(|cell| cell.pair));
        let new = open(&new, all_forms());
        assert!(new.is_empty().unwrap());
        let imported = import(&new, &decoder, &cells);
        assert_eq!((imported.created, imported.merged, imported.expired), (cells.len() as u64, 0, 0));
        assert!(!new.is_empty().unwrap());
        let end = 10_000 + count as i64 * step;
        for now in [end - 100, end, end + 70, end + 400] {
            assert_eq!(answers(&old, keys, at(now)), answers(&new, keys, at(now)), "seed {seed} at {now}");
        }
        // And whatever comes then.
        let mut random = Random(seed + 100);
        for number in count..count + 300 {
            let event = [event(&mut random, number, keys, step)];
            assert_eq!(observe(&old, &event), observe(&new, &event), "seed {seed}, event {number}");
        }
        let (_, mut again) = exported(&new);
        let (_, mut before) = exported(&old);
        for cells in [&mut again, &mut before] {
            cells.sort_by_key(|cell| (cell.key, cell.pair));
        }
        assert_eq!(again, before);
    }
}

/// The requests without exact distinct counts, whose owners do not add up.
fn without_distinct(requests: Vec<ObserveRequest>) -> Vec<ObserveRequest> {
    let fits = |observation: &Observation| observation.key.kind != DISTINCT;
    let strip = |request: ObserveRequest| ObserveRequest {
        observations: request.observations.into_iter().filter(fits).collect(),
        ..ObserveRequest::default()
    };
    requests.into_iter().map(strip).collect()
}

#[test]
fn what_two_have_counted_adds_up_to_what_one_would_have() {
    let devices = [(); 3].map(|()| MemoryDevice::new());
    let [left, right, both] = devices.each_ref().map(|device| open(device, all_forms()));
    for (number, event) in without_distinct(events(5, 2000, 30, 1)).into_iter().enumerate() {
        // Decayed sums are rounded, in an order of their own.
        let exact = |observation: &Observation| observation.key.kind != FULL_AGGREGATE;
        let event = ObserveRequest {
            observations: event.observations.into_iter().filter(exact).collect(),
            ..ObserveRequest::default()
        };
        observe(&both, std::slice::from_ref(&event));
        observe(if number % 2 == 0 { &left } else { &right }, &[event]);
    }
    let (decoder, cells) = exported(&right);
    let imported = import(&left, &decoder, &cells);
    assert!(imported.merged > 50, "{imported:?}");
    for now in [11_900, 12_000, 12_300] {
        assert_eq!(answers(&left, 30, at(now)), answers(&both, 30, at(now)));
    }
}

#[test]
fn cells_of_another_layout_are_translated() {
    let devices = [(); 2].map(|()| MemoryDevice::new());
    let layout = |tiers: &[&str]| {
        let mut builder = Catalog::builder();
        let measure = windows(&["spam", "seen"], tiers, &["5m"], None);
        builder.add(SPACE, MASS, statistic("mass", "from", measure)).unwrap();
        builder.build()
    };
    let old = open(&devices[0], layout(&["10s x 6", "1m x 5"]));
    let new = open(&devices[1], layout(&["30s x 20"]));
    for number in 0..20 {
        observe(&old, &[request(vec![add(key(MASS, 1), at(1000 + number), [(1, 2)])])]);
        observe(&new, &[request(vec![add(key(MASS, 1), at(1000 + number), [(1, 1)])])]);
    }
    let (decoder, cells) = exported(&old);
    import(&new, &decoder, &cells);
    let outcome = observe(&new, &[request(vec![peek(key(MASS, 1), at(1030))])]).remove(0);
    assert_eq!((outcome.readings[0].sum(0, 0), outcome.readings[0].sum(0, 1)), (0, 60));
}

#[test]
fn a_value_that_both_have_seen_is_found() {
    let devices = [(); 2].map(|()| MemoryDevice::new());
    let [left, right] = devices.each_ref().map(|device| open(device, all_forms()));
    let owner = key(DISTINCT, 1);
    observe(&left, &[request(vec![distinct(owner, at(600), 1), distinct(owner, at(600), 2)])]);
    observe(&right, &[request(vec![distinct(owner, at(610), 2), distinct(owner, at(700), 1)])]);
    let (decoder, cells) = exported(&right);
    let importer = left.importer(&decoder).unwrap();
    let overlaps: usize =
        cells.iter().filter(|cell| importer.overlaps(&decoder.decode(cell).unwrap()).unwrap()).count();
    // Value 2 in the minute that both have seen it in; value 1 came in two minutes.
    assert_eq!(overlaps, 1);
}

#[test]
fn a_merge_is_remembered() {
    let device = MemoryDevice::new();
    let ledger = open(&device, catalog());
    assert_eq!(ledger.merge_state(7).unwrap(), None);
    ledger.set_merge_state(7, MergeState::Begun).unwrap();
    ledger.close().unwrap();
    drop(ledger);
    let ledger = open(&device, catalog());
    assert_eq!(ledger.merge_state(7).unwrap(), Some(MergeState::Begun));
    ledger.set_merge_state(7, MergeState::Ended).unwrap();
    assert_eq!(ledger.merge_state(7).unwrap(), Some(MergeState::Ended));
    assert!(ledger.is_empty().unwrap());
}

#[test]
fn what_is_no_cell_is_refused_and_nothing_panics() {
    let device = MemoryDevice::new();
    let ledger = open(&device, all_forms());
    for batch in events(9, 400, 20, 2).chunks(50) {
        observe(&ledger, batch);
    }
    let (decoder, cells) = exported(&ledger);
    let mut random = Random(1);
    let mut refused = 0;
    let wild = |random: &mut Random| match random.below(5) {
        0 => i64::MIN,
        1 => i64::MAX,
        2 => 0,
        3 => random.below(1 << 40) as i64,
        _ => random.below(u64::MAX) as i64,
    };
    let target = open(&MemoryDevice::new(), all_forms());
    let mut importer = target.importer(&decoder).unwrap();
    for _ in 0..20 {
        for cell in &cells {
            let mut cell = cell.clone();
            match random.below(6) {
                0 => cell.first = Time(wild(&mut random)),
                1 => cell.last = Time(wild(&mut random)),
                2 => cell.definition = random.below(9) as usize,
                3 => cell.pair = !cell.pair,
                4 => cell.key.shingle = Shingle(random.below(u64::MAX)),
                _ => match &mut cell.content {
                    CellContent::Buckets(buckets) => {
                        for bucket in buckets {
                            match random.below(4) {
                                0 => bucket.start = Time(wild(&mut random)),
                                1 => bucket.width = Span(wild(&mut random)),
                                2 => bucket.counts.push(u64::MAX),
                                _ => bucket.counts.iter_mut().for_each(|count| *count = u64::MAX),
                            }
                        }
                    }
                    CellContent::Evidence(evidence) => evidence.bad = wild(&mut random),
                    CellContent::Last(value) => *value = "x".repeat(random.below(99) as usize),
                    CellContent::Moment(moment) => *moment = wild(&mut random),
                    CellContent::Totals(totals) => match random.below(4) {
                        0 => totals.count = wild(&mut random) as u64,
                        1 => totals.decayed.push(f64::NAN),
                        2 => totals.min = Some(wild(&mut random)),
                        _ => totals.sum = Some(i128::MAX),
                    },
                    CellContent::Registers(periods) => {
                        for period in periods {
                            match random.below(3) {
                                0 => period.start = Time(wild(&mut random)),
                                1 => period.ranks.push((random.below(1 << 32) as u32, 1)),
                                _ => period.ranks.push((1, random.below(256) as u8)),
                            }
                        }
                    }
                },
            }
            match decoder.decode(&cell) {
                Ok(decoded) => importer.add(&[decoded]).unwrap(),
                Err(_) => refused += 1,
            }
        }
    }
    assert!(refused > 1000, "{refused}");
    importer.finish().unwrap();
    // What was taken in can be read, and given out again.
    let mut spelled = Vec::new();
    assert_eq!(target.export(&mut |cell| spelled.push(cell)).unwrap().lost, 0);
    let decoder = CellDecoder::new(target.definitions()).unwrap();
    for cell in &spelled {
        decoder.decode(cell).unwrap_or_else(|why| panic!("{why}: {cell:?}"));
    }
}
