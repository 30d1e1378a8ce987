//! Random histories against a model that keeps every event in a list.

use std::collections::BTreeMap;

use event::{Key, Kind, Span, Time};
use stats::random::Random;
use stats::{
    Addition, CellShape, LastValueForm, Ledger, Measure, ObserveOutcome, ObserveRequest, Timeline,
    TimelineBucket,
};

use super::*;

/// A home under test, which has the [`catalog`] and is empty.
pub trait HomeUnderTest {
    /// Returns the ledger.
    fn ledger(&self) -> &dyn Ledger;

    /// Closes it and opens it again; false if it cannot be.
    fn reopen(&mut self) -> bool;

    /// Ends it as a crash does that leaves what a seed says, and opens it again; false if nothing is promised then.
    fn crash(&mut self, seed: u64) -> bool;

    /// Waits until everything is where it is kept: what has expired is then told by what is there.
    fn settle(&self);

    /// Returns true if a crash loses nothing that was answered. What it may lose otherwise is all since the last time that it
    /// was maintained or opened, and requests as wholes.
    fn keeps_every_answer(&self) -> bool;

    /// Returns true if what has expired is gone at one moment, whatever was added to it meanwhile. If not, histories let
    /// nothing expire.
    fn expires_at_once(&self) -> bool {
        true
    }

    /// Returns true if marks of requests expire by [`Ledger::maintain`].
    fn marks_expire(&self) -> bool;
}

/// The time of a count, and the amounts added to each counter.
type CountedAmounts = (Time, Vec<(u8, u64)>);

#[derive(Clone, Default)]
struct HistoryOracle {
    cells: BTreeMap<Key, Vec<CountedAmounts>>,
    /// The values of the keys of [`LAST`].
    values: BTreeMap<Key, Vec<(Time, Box<str>)>>,
    horizon: i64,
    keeps_marks: bool,
}

fn shape(kind: Kind) -> (CellShape, Vec<String>) {
    let catalog = catalog();
    let measure = &catalog.get(SPACE, Kind(kind.0 & 0x7fff)).unwrap().measure;
    let shape = match measure {
        Measure::Windows(layout) => layout.shape().clone(),
        Measure::Distinct(stats::DistinctForm { tier, .. }) => CellShape::new(1, &[*tier], None).unwrap(),
        Measure::Once(stats::MarkForm { window }) => {
            CellShape::new(1, &[stats::Tier { width: *window, buckets: 1 }], None).unwrap()
        }
        _ => unreachable!("{kind:?}"),
    };
    (shape, measure.shown())
}

/// Returns what each kind's readings sum: tier, bucket width, window, and whether whole periods are counted.
fn readings(kind: Kind) -> Vec<(usize, i64, i64, bool)> {
    match kind {
        MASS | FAILURES => vec![(0, 10, 20, false), (0, 10, 60, false), (1, 60, 300, false)],
        VISITS => vec![(0, 60, 120, false)],
        DISTINCT => vec![(0, 60, 60, true), (0, 60, 180, true)],
        _ => vec![],
    }
}

impl HistoryOracle {
    fn live(&mut self, key: Key) -> &mut Vec<CountedAmounts> {
        let horizon = if self.keeps_marks && key.kind == ONCE { i64::MIN } else { self.horizon };
        let events = self.cells.entry(key).or_default();
        let last = events.iter().map(|(time, _)| *time).max();
        if last.is_some_and(|last| shape(key.kind).0.expires(last).0 <= horizon) {
            events.clear();
        }
        events
    }

    /// The last value of a key, if it has one.
    fn last(&mut self, key: Key) -> Option<(Time, Box<str>)> {
        let values = self.values.entry(key).or_default();
        let last = values.iter().max().cloned();
        let is_gone = |(last, _): &(Time, Box<str>)| (*last + Span::minutes(10)).0 <= self.horizon;
        if last.as_ref().is_some_and(is_gone) {
            values.clear();
            return None;
        }
        last
    }

    /// The buckets that are kept, by tier and number.
    fn kept(&mut self, key: Key) -> BTreeMap<(usize, i64), Vec<u64>> {
        let (shape, counters) = shape(key.kind);
        let width = shape.fine().width;
        let events = self.live(key);
        let mut kept = BTreeMap::new();
        let Some(head) = events.iter().map(|(time, _)| time.bucket(width)).max() else { return kept };
        for (time, amounts) in events {
            let mut place = (0, time.bucket(width));
            if place.1 < head - i64::from(shape.fine().buckets) {
                let Some(coarse) = shape.coarse() else { continue };
                place = (1, time.bucket(coarse.width));
                if place.1 < Time(head * width.0).bucket(coarse.width) - i64::from(coarse.buckets) {
                    continue;
                }
            }
            for (counter, amount) in amounts {
                if *amount > 0 {
                    let counts = kept.entry(place).or_insert(vec![0; counters.len()]);
                    counts[usize::from(*counter)] += *amount;
                }
            }
        }
        kept
    }

    fn sums(&mut self, key: Key, now: Time) -> Vec<Vec<u64>> {
        let (shape, counters) = shape(key.kind);
        let kept = self.kept(key);
        let mut all = Vec::new();
        for (tier, width, window, periods) in readings(key.kind) {
            let width = Span::seconds(width);
            let oldest = (now - Span::seconds(window)).bucket(width) + i64::from(periods);
            let mut sums = vec![0; counters.len()];
            for ((of, bucket), counts) in &kept {
                let start = Time(bucket * if *of == 0 { shape.fine().width.0 } else { width.0 });
                if *of <= tier && (oldest..=now.bucket(width)).contains(&start.bucket(width)) {
                    sums.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
                }
            }
            all.push(sums);
        }
        all
    }

    fn timeline(&mut self, key: Key) -> Option<Timeline> {
        if key.kind == LAST {
            let (last, _) = self.last(key)?;
            return Some(Timeline { counters: Vec::new(), first: last, last, buckets: Vec::new() });
        }
        let (shape, counters) = shape(key.kind);
        let kept = self.kept(key);
        let events = self.live(key);
        let first = events.iter().map(|(time, _)| *time).min()?;
        let last = events.iter().map(|(time, _)| *time).max()?;
        let mut buckets = Vec::new();
        for tier in [1, 0] {
            let width =
                if tier == 0 { shape.fine().width } else { shape.coarse().unwrap_or(shape.fine()).width };
            for ((_, bucket), counts) in kept.iter().filter(|((of, _), _)| *of == tier) {
                buckets.push(TimelineBucket { start: Time(bucket * width.0), width, counts: counts.clone() });
            }
        }
        Some(Timeline { counters, first, last, buckets })
    }

    /// Applies a request and checks what the ledger answered.
    fn observe(&mut self, request: &ObserveRequest, outcome: &ObserveOutcome, context: &str) {
        let mut duplicate = false;
        if let Some(once) = &request.once {
            let near = |bucket: i64| (bucket - once.time.bucket(Span::minutes(1))).abs() <= 1;
            duplicate = self.kept(once.key).keys().any(|(_, bucket)| near(*bucket));
            if !duplicate {
                self.live(once.key).push((once.time, vec![(0, 1)]));
            }
        }
        assert_eq!(outcome.duplicate, duplicate, "{context}");
        for (observation, reading) in request.observations.iter().zip(&outcome.readings) {
            let (key, time) = (observation.key, observation.time);
            if key.kind == LAST {
                let last = self.last(key);
                let value = last.as_ref().map(|(_, value)| value.to_string());
                assert_eq!(LastValueForm::text(reading.sums()), value, "{context}: {observation:?}");
                assert_eq!(reading.last, last.map(|(time, _)| time), "{context}: {observation:?}");
                assert!(reading.quality.is_counted(), "{context}: {}", reading.quality);
                if let Addition::Last(value) = &observation.add
                    && !duplicate
                {
                    self.values.entry(key).or_default().push((time, value.clone()));
                }
                continue;
            }
            let sums = self.sums(key, time);
            let found: Vec<Vec<u64>> = sums
                .iter()
                .enumerate()
                .map(|(window, sums)| (0..sums.len()).map(|counter| reading.sum(window, counter)).collect())
                .collect();
            assert_eq!(found, sums, "{context}: {observation:?}");
            let events = self.live(key);
            assert_eq!(
                reading.first,
                events.iter().map(|(time, _)| *time).min(),
                "{context}: {observation:?}"
            );
            assert_eq!(
                reading.last,
                events.iter().map(|(time, _)| *time).max(),
                "{context}: {observation:?}"
            );
            assert!(reading.quality.is_counted(), "{context}: {}", reading.quality);
            match &observation.add {
                Addition::Value(_)
                | Addition::Lower(_)
                | Addition::Evidence(_)
                | Addition::Take(_)
                | Addition::GiveBack { .. }
                | Addition::Last(_)
                | Addition::Flow(_) => {
                    unreachable!("the catalog has no aggregates, no classifiers and no limits")
                }
                Addition::Nothing => assert!(!reading.fresh, "{context}"),
                Addition::Counters(amounts) => {
                    if !duplicate {
                        self.live(key).push((time, amounts.iter().collect()));
                    }
                }
                Addition::Clear(counters) => {
                    if !duplicate {
                        // As if nothing of it had ever been added; the key was seen all the same.
                        let events = self.live(key).iter_mut();
                        events.for_each(|(_, adds)| adds.retain(|(of, _)| !counters.has(usize::from(*of))));
                    }
                }
                Addition::Distinct { pair } => {
                    let pair = Key { kind: Kind(key.kind.0 | 0x8000), shingle: *pair, ..key };
                    let bucket = time.bucket(Span::minutes(1));
                    let head = self.live(pair).iter().map(|(time, _)| time.bucket(Span::minutes(1))).max();
                    let forgotten = head.is_some_and(|head| bucket < head - 2);
                    let fresh = !forgotten && !self.kept(pair).contains_key(&(0, bucket));
                    assert_eq!(reading.fresh, fresh, "{context}: {observation:?}");
                    if !duplicate {
                        if fresh {
                            self.live(pair).push((time, vec![(0, 1)]));
                        }
                        self.live(key).push((time, vec![(0, u64::from(fresh))]));
                    }
                }
            }
        }
    }
}

fn universe() -> Vec<Key> {
    [MASS, VISITS, DISTINCT, ONCE, LAST, FAILURES]
        .into_iter()
        .flat_map(|kind| (0..15).map(move |number| key(kind, number)))
        .collect()
}

/// Checks that a ledger holds what the model holds.
fn agrees(ledger: &dyn Ledger, model: &mut HistoryOracle) -> Result<(), String> {
    for key in universe() {
        let (found, expected) = (pollster::block_on(ledger.timeline(key)).unwrap(), model.timeline(key));
        if found != expected {
            return Err(format!("{key:?}: found {found:?}, expected {expected:?}"));
        }
    }
    Ok(())
}

fn random_request(random: &mut Random, now: i64) -> ObserveRequest {
    let time = |random: &mut Random| {
        at(now - 60 + random.below(80) as i64 - (random.below(5) / 4 * random.below(600)) as i64)
    };
    let mut observations = Vec::new();
    for _ in 0..random.below(5) {
        let (number, time) = (random.below(15), time(random));
        observations.push(match random.below(15) {
            0..4 => add(key(MASS, number), time, [(0, random.below(3)), (1, random.below(2))]),
            4..6 => add(key(VISITS, number), time, [(0, 1)]),
            6..9 => distinct(key(DISTINCT, number), time, random.below(6)),
            9 => peek(key([MASS, VISITS, DISTINCT, LAST][random.below(4) as usize], number), time),
            12..14 => add(key(FAILURES, number % 4), time, [(0, 1), (1, random.below(3))]),
            14 => clear(key(FAILURES, number % 4), time, [1]),
            _ => {
                last(key(LAST, number), time, ["AT", "DE", "FR", "a longer value"][random.below(4) as usize])
            }
        });
    }
    match random.below(3) {
        0 => once(random.below(15), time(random), observations),
        _ => request(observations),
    }
}

/// One random history.
///
/// # Panics
/// If the home does not agree with the model.
pub fn check(seed: u64, home: &mut dyn HomeUnderTest) {
    let mut random = Random::new(seed);
    let mut model =
        HistoryOracle { horizon: i64::MIN, keeps_marks: !home.marks_expire(), ..HistoryOracle::default() };
    // What a crash may leave: the states since the last one that is certainly on disk.
    let mut possible = vec![model.clone()];
    let mut now = 10_000;
    for step in 0..250 {
        let context = format!("seed {seed}, step {step}");
        match random.below(100) {
            0..80 => {
                let requests: Vec<ObserveRequest> =
                    (0..1 + random.below(4)).map(|_| random_request(&mut random, now)).collect();
                let outcomes = observe(home.ledger(), &requests);
                assert_eq!(outcomes.len(), requests.len());
                for (request, outcome) in requests.iter().zip(&outcomes) {
                    model.observe(request, outcome, &context);
                }
                if home.keeps_every_answer() {
                    possible.clear();
                }
                possible.push(model.clone());
            }
            80..87 => now += random.below(200) as i64,
            87..92 if home.expires_at_once() => {
                let now = at(now - random.below(100) as i64);
                home.settle();
                home.ledger().maintain(now).unwrap();
                model.horizon = model.horizon.max(now.0);
                for key in universe() {
                    if key.kind == LAST {
                        model.last(key);
                    } else {
                        model.live(key);
                    }
                }
                possible = vec![model.clone()];
            }
            92..95 => {
                if home.reopen() {
                    possible = vec![model.clone()];
                }
            }
            95..98 if home.crash(random.bits()) => {
                let mut misfit = String::new();
                let held = possible.iter_mut().rev().find_map(|state| match agrees(home.ledger(), state) {
                    Ok(()) => Some(state.clone()),
                    Err(difference) => {
                        misfit = difference;
                        None
                    }
                });
                model =
                    held.unwrap_or_else(|| panic!("{context}: no state that a crash may leave: {misfit}"));
                possible = vec![model.clone()];
            }
            _ => {
                if let Err(difference) = agrees(home.ledger(), &mut model) {
                    panic!("{context}: {difference}");
                }
            }
        }
    }
}
