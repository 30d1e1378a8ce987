//! The suite that every home of the ledger must pass: conformance, and random histories against a list of events, with
//! their catalog and short names for long constructions.

pub mod conformance;
pub mod limits;
pub mod model;

use event::{Key, Kind, Secret, Shingle, Space, Span, Time};
use stats::{
    Addition, BucketSeries, Catalog, CounterAmounts, DedupeMark, Layout, Ledger, Measure, Observation,
    ObserveOutcome, ObserveRequest, Statistic,
};

/// The space of all keys.
pub const SPACE: Space = Space(3);
/// Counters `seen` and `spam`, ten seconds x 6 and a minute x 5, windows 20 s, 1 m and 5 m.
pub const MASS: Kind = Kind(1);
/// Counter `seen`, a minute x 2, window 2 m, kept for ten minutes.
pub const VISITS: Kind = Kind(2);
/// Distinct values a minute, 2 kept; sums of one and three minutes.
pub const DISTINCT: Kind = Kind(3);
/// Marks for a minute.
pub const ONCE: Kind = Kind(4);

/// The last value of a field, kept for ten minutes.
pub const LAST: Kind = Kind(50);

/// Counter `seen` as of [`MASS`], read by buckets: six of 10 s, and four of a minute.
pub const SPREAD: Kind = Kind(51);

/// Counters `seen` and `failed` as of [`MASS`], of which `failed` can be cleared.
pub const FAILURES: Kind = Kind(52);

/// The time this many seconds after 1970.
pub fn at(seconds: i64) -> Time {
    Time::from_seconds(seconds)
}

/// One that admits every key.
pub fn statistic(name: &str, kind_name: &str, measure: Measure) -> Statistic {
    Statistic { name: name.to_owned(), kind_name: kind_name.to_owned(), measure, admit: None, exact: false }
}

/// Counters over windows, from texts.
pub fn windows(counters: &[&str], tiers: &[&str], windows: &[&str], keep: Option<Span>) -> Measure {
    let tiers: Vec<_> = tiers.iter().map(|tier| tier.parse().unwrap()).collect();
    let windows = windows.iter().map(|window| window.parse().unwrap()).collect();
    let counters = counters.iter().map(|counter| (*counter).to_owned()).collect();
    Measure::Windows(Layout::new(counters, &tiers, windows, keep).unwrap())
}

/// All kinds.
pub fn catalog() -> Catalog {
    let mut builder = Catalog::builder();
    let mass = windows(&["seen", "spam"], &["10s x 6", "1m x 5"], &["20s", "1m", "5m"], None);
    let visits = windows(&["seen"], &["1m x 2"], &["2m"], Some(Span::minutes(10)));
    let distinct = Measure::distinct("1m x 2".parse().unwrap(), vec![Span::minutes(1), Span::minutes(3)]);
    builder.add(SPACE, MASS, statistic("mass", "from", mass)).unwrap();
    builder.add(SPACE, VISITS, statistic("visits", "ip", visits)).unwrap();
    builder.add(SPACE, DISTINCT, statistic("rcpts", "from.rcpt", distinct)).unwrap();
    builder.add(SPACE, ONCE, statistic("once", "id", Measure::once(Span::minutes(1)))).unwrap();
    builder.add(SPACE, LAST, statistic("country", "user", Measure::last(Span::minutes(10)))).unwrap();
    let failures =
        windows(&["seen", "failed", "~failed"], &["10s x 6", "1m x 5"], &["20s", "1m", "5m"], None);
    builder.add(SPACE, FAILURES, statistic("failures", "user", failures)).unwrap();
    let spread = Layout::new(
        vec!["seen".to_owned()],
        &["10s x 6", "1m x 5"].map(|tier| tier.parse().unwrap()),
        vec![],
        None,
    );
    let series = [(10, 6), (60, 4)];
    let series =
        series.map(|(width, buckets)| BucketSeries { counter: 0, width: Span::seconds(width), buckets });
    let spread = Measure::Windows(spread.unwrap().with_series(series.to_vec()).unwrap());
    builder.add(SPACE, SPREAD, statistic("spread", "ip", spread)).unwrap();
    builder.build()
}

/// The secret of all keys.
pub fn secret() -> Secret {
    Secret::new([9; Secret::BYTES])
}

/// The key of a number.
pub fn key(kind: Kind, number: u64) -> Key {
    Key { space: SPACE, kind, shingle: secret().shingle(&number.to_le_bytes()) }
}

/// The pair of an owner and a value.
pub fn pair(owner: Key, value: u64) -> Shingle {
    secret().pair(owner.shingle, secret().shingle(&value.to_le_bytes()))
}

/// Adds to counters.
pub fn add<const N: usize>(key: Key, time: Time, amounts: [(u8, u64); N]) -> Observation {
    Observation { key, time, add: Addition::Counters(CounterAmounts::from(amounts)) }
}

/// Clears counters.
pub fn clear<const N: usize>(key: Key, time: Time, counters: [u8; N]) -> Observation {
    Observation { key, time, add: Addition::Clear(counters.into_iter().collect()) }
}

/// Adds a value.
pub fn distinct(owner: Key, time: Time, value: u64) -> Observation {
    Observation { key: owner, time, add: Addition::Distinct { pair: pair(owner, value) } }
}

/// Says a field's value.
pub fn last(key: Key, time: Time, value: &str) -> Observation {
    Observation { key, time, add: Addition::Last(value.into()) }
}

/// Adds nothing.
pub fn peek(key: Key, time: Time) -> Observation {
    Observation { key, time, add: Addition::Nothing }
}

/// One without a mark.
pub fn request(observations: Vec<Observation>) -> ObserveRequest {
    ObserveRequest { observations, ..ObserveRequest::default() }
}

/// One with the mark of a number.
pub fn once(number: u64, time: Time, observations: Vec<Observation>) -> ObserveRequest {
    ObserveRequest {
        once: Some(DedupeMark { key: key(ONCE, number), time }),
        observations,
        ..ObserveRequest::default()
    }
}

/// The outcomes of requests.
///
/// # Panics
/// If the ledger does not answer.
pub fn observe(ledger: &dyn Ledger, requests: &[ObserveRequest]) -> Vec<ObserveOutcome> {
    pollster::block_on(ledger.observe(requests)).unwrap().outcomes().collect()
}

/// One request's only outcome.
///
/// # Panics
/// If the ledger does not answer.
pub fn observe_one(ledger: &dyn Ledger, request: ObserveRequest) -> ObserveOutcome {
    observe(ledger, &[request]).remove(0)
}
