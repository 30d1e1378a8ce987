//! The catalog that all tests share, and short names for long constructions.

use std::sync::Arc;

use event::{Key, Kind, Secret, Shingle, Space, Span, Time};
use stats::{
    Add, Amounts, Catalog, Embedded, Layout, Ledger, Measure, Observation, Once, Options, Outcome, Request,
    Statistic,
};
use store::MemoryDevice;

pub(crate) const SPACE: Space = Space(3);
/// Counters `seen` and `spam`, ten seconds x 6 and a minute x 5, windows 20 s, 1 m and 5 m.
pub(crate) const MASS: Kind = Kind(1);
/// Counter `seen`, a minute x 2, window 2 m, kept for ten minutes.
pub(crate) const VISITS: Kind = Kind(2);
/// Distinct values a minute, 2 kept; sums of one and three minutes.
pub(crate) const DISTINCT: Kind = Kind(3);
/// Marks for a minute.
pub(crate) const ONCE: Kind = Kind(4);

/// SplitMix64.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }
}

pub(crate) fn at(seconds: i64) -> Time {
    Time::from_seconds(seconds)
}

pub(crate) fn statistic(name: &str, kind_name: &str, measure: Measure) -> Statistic {
    Statistic { name: name.to_owned(), kind_name: kind_name.to_owned(), measure, admit: None }
}

pub(crate) fn windows(counters: &[&str], tiers: &[&str], windows: &[&str], keep: Option<Span>) -> Measure {
    let tiers: Vec<_> = tiers.iter().map(|tier| tier.parse().unwrap()).collect();
    let windows = windows.iter().map(|window| window.parse().unwrap()).collect();
    let counters = counters.iter().map(|counter| (*counter).to_owned()).collect();
    Measure::Windows(Layout::new(counters, &tiers, windows, keep).unwrap())
}

pub(crate) fn catalog() -> Catalog {
    let mut builder = Catalog::builder();
    let mass = windows(&["seen", "spam"], &["10s x 6", "1m x 5"], &["20s", "1m", "5m"], None);
    let visits = windows(&["seen"], &["1m x 2"], &["2m"], Some(Span::minutes(10)));
    let distinct = Measure::Distinct {
        tier: "1m x 2".parse().unwrap(),
        windows: vec![Span::minutes(1), Span::minutes(3)],
    };
    builder.add(SPACE, MASS, statistic("mass", "from", mass)).unwrap();
    builder.add(SPACE, VISITS, statistic("visits", "ip", visits)).unwrap();
    builder.add(SPACE, DISTINCT, statistic("rcpts", "from.rcpt", distinct)).unwrap();
    builder.add(SPACE, ONCE, statistic("once", "id", Measure::Once { window: Span::minutes(1) })).unwrap();
    builder.build()
}

pub(crate) fn secret() -> Secret {
    Secret::new([9; Secret::BYTES])
}

pub(crate) fn key(kind: Kind, number: u64) -> Key {
    Key { space: SPACE, kind, shingle: secret().shingle(&number.to_le_bytes()) }
}

pub(crate) fn pair(owner: Key, value: u64) -> Shingle {
    secret().pair(owner.shingle, secret().shingle(&value.to_le_bytes()))
}

pub(crate) fn add<const N: usize>(key: Key, time: Time, amounts: [(u8, u64); N]) -> Observation {
    Observation { key, time, add: Add::Counters(Amounts::from(amounts)) }
}

pub(crate) fn distinct(owner: Key, time: Time, value: u64) -> Observation {
    Observation { key: owner, time, add: Add::Distinct { pair: pair(owner, value) } }
}

pub(crate) fn peek(key: Key, time: Time) -> Observation {
    Observation { key, time, add: Add::Nothing }
}

pub(crate) fn request(observations: Vec<Observation>) -> Request {
    Request { once: None, observations }
}

pub(crate) fn once(number: u64, time: Time, observations: Vec<Observation>) -> Request {
    Request { once: Some(Once { key: key(ONCE, number), time }), observations }
}

pub(crate) fn observe(ledger: &dyn Ledger, requests: &[Request]) -> Vec<Outcome> {
    pollster::block_on(ledger.observe(requests)).unwrap().outcomes().collect()
}

/// One request's only outcome.
pub(crate) fn observe_one(ledger: &dyn Ledger, request: Request) -> Outcome {
    observe(ledger, &[request]).remove(0)
}

pub(crate) fn options(memory_bytes: usize, durability: &str) -> Options {
    Options { memory_bytes, segment_bytes: 8_000, durability: durability.parse().unwrap() }
}

pub(crate) fn embedded(device: &MemoryDevice, memory_bytes: usize, durability: &str) -> Embedded {
    Embedded::open(Arc::new(device.clone()), catalog(), options(memory_bytes, durability)).unwrap().0
}
