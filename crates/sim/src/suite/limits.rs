//! Takes from limits by a clock that jumps both ways, against all that was let through: a take is judged, and counted, as
//! of the later of its own time and the latest of its key.

use std::collections::BTreeMap;

use event::{Key, Kind, Span, Time};
use stats::limit::{GcraOperation, WindowTake, interpolated};
use stats::random::Random;
use stats::{Addition, Catalog, Ledger, Measure, Observation, Reading, Statistic};

use super::{SPACE, at, key, observe_one, request, statistic};

const WINDOW: Span = Span::seconds(10);
/// Kinds over windows, with the number of their sub-windows.
const SLIDING: [(Kind, u32); 3] = [(Kind(5), 10), (Kind(6), 1), (Kind(7), 60)];
const BUCKET: Kind = Kind(8);
/// A millisecond: what a bucket's takes cost.
const CELL: i64 = 1_000_000;

/// Limits only, exact in a cluster or not.
///
/// # Panics
/// Never: all of it fits.
pub fn catalog(exact: bool) -> Catalog {
    let mut builder = Catalog::builder();
    let windows = SLIDING.map(|(kind, parts)| (kind, Measure::limit(WINDOW, parts).unwrap()));
    for (kind, measure) in windows.into_iter().chain([(BUCKET, Measure::gcra())]) {
        let name = format!("limit{}", kind.0);
        builder.add(SPACE, kind, Statistic { exact, ..statistic(&name, &name, measure) }).unwrap();
    }
    builder.build()
}

/// The amounts of a key over windows that are used, by sub-window, and the time of its latest take.
#[derive(Default)]
struct TakeLog {
    used: BTreeMap<i64, u64>,
    last: Option<Time>,
}

impl TakeLog {
    fn since(&self, bucket: i64) -> u64 {
        self.used.range(bucket..).map(|(_, used)| used).sum()
    }
}

/// Takes, looks and gives back at random, and compares every reading.
///
/// # Panics
/// If one is not what the takes before it make it.
pub fn check(ledger: &dyn Ledger, seed: u64) {
    let mut random = Random::new(seed);
    let mut now = at(100_000);
    let mut logs: BTreeMap<Key, TakeLog> = BTreeMap::new();
    let mut moments: BTreeMap<Key, i64> = BTreeMap::new();
    for step in 0..300 {
        now = now + jump(&mut random);
        let number = seed << 8 | random.below(2);
        let context = format!("seed {seed}, step {step}, at {now}");
        if random.one_in(4) {
            let key = key(BUCKET, number);
            flow(
                ledger,
                &mut random,
                Observation { key, time: now, add: Addition::Nothing },
                &mut moments,
                &context,
            );
        } else {
            let (kind, parts) = *random.pick(&SLIDING);
            let key = key(kind, number);
            take(ledger, &mut random, key, now, parts, logs.entry(key).or_default(), &context);
        }
    }
}

/// Mostly forward; now and then by windows, an hour or a year either way.
fn jump(random: &mut Random) -> Span {
    Span(match random.below(40) {
        0 => random.between(-3_600_000_000, 3_600_000_000),
        1 => random.between(-31_536_000_000_000, 31_536_000_000_000),
        2..8 => -random.between(0, 2 * WINDOW.0),
        8..14 => random.between(0, 2 * WINDOW.0),
        14..24 => 0,
        _ => random.between(0, 1_000_000),
    })
}

fn reading(ledger: &dyn Ledger, observation: Observation, context: &str) -> Reading {
    let mut outcome = observe_one(ledger, request(vec![observation]));
    let reading = outcome.readings.remove(0);
    assert!(reading.quality.is_counted(), "{context}: {}", reading.quality);
    reading
}

fn take(
    ledger: &dyn Ledger,
    random: &mut Random,
    key: Key,
    now: Time,
    parts: u32,
    log: &mut TakeLog,
    context: &str,
) {
    let width = Span(WINDOW.0.div_euclid(i64::from(parts)) + i64::from(WINDOW.0 % i64::from(parts) > 0));
    let as_of = log.last.map_or(now, |last| last.max(now));
    if random.one_in(8) {
        let amount = 1 + random.below(4);
        let add = Addition::GiveBack { amount, taken: Some(as_of) };
        reading(ledger, Observation { key, time: now, add }, context);
        if let Some(used) = log.used.get_mut(&as_of.bucket(width)) {
            *used = used.saturating_sub(amount);
        }
        return;
    }
    let (counts_all, is_shared) = (random.one_in(2), parts > 1 && random.one_in(2));
    let take = WindowTake {
        cost: random.below(4),
        limit: 1 + random.below(20),
        counts_all,
        interpolated: is_shared,
    };
    let add = if random.one_in(6) { Addition::Take(take).look() } else { Addition::Take(take) };
    let adds = add.adds();
    let found = reading(ledger, Observation { key, time: now, add }, context);
    let oldest = (as_of - WINDOW).bucket(width);
    let (whole, newer) = (log.since(oldest), log.since(oldest + 1));
    assert_eq!(found.last, log.last, "{context}: {key:?}");
    assert_eq!(found.sum(0, 0), whole, "{context}: {key:?}");
    if parts > 1 {
        assert_eq!(found.sum(1, 0), newer, "{context}: {key:?}");
    }
    let used = if is_shared { interpolated(whole, newer, as_of, WINDOW, width) } else { whole };
    if adds && (counts_all || used + take.cost <= take.limit) {
        *log.used.entry(as_of.bucket(width)).or_default() += take.cost;
        log.last = Some(as_of);
    }
}

/// The answer of a bucket, whose moment is all that is known of its takes: none is let through before it.
fn flow(
    ledger: &dyn Ledger,
    random: &mut Random,
    look: Observation,
    moments: &mut BTreeMap<Key, i64>,
    context: &str,
) {
    let (key, now) = (look.key, look.time.0 * 1000);
    let (cost, burst) = (CELL * (1 + random.below(3) as i64), CELL * 5);
    let counts_all = random.one_in(3);
    let add = Addition::Flow(GcraOperation::Take { cost, burst, counts_all });
    let found = reading(ledger, Observation { add, ..look }, context);
    let before = moments.get(&key).copied();
    assert_eq!(found.last.map(|_| found.sum(0, 0).cast_signed()), before, "{context}: {key:?}");
    let from = before.map_or(now, |moment| moment.max(now));
    if from + cost <= now + burst {
        moments.insert(key, from + cost);
    } else if counts_all {
        moments.insert(key, from.max(now + burst));
    }
}
