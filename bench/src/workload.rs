//! The workload of every engine: keys, times and counters in an order made from a seed.

use serde::{Deserialize, Serialize};

/// Microseconds since the Unix epoch.
pub(crate) type Micros = i64;

const HOUR: Micros = 3_600_000_000;
/// The begin of the timed phase, in event time: 1 January 2026, 12:04 UTC.
const BEGIN: Micros = 1_767_269_040_000_000;
/// The loading phase takes this long in event time.
const LOAD_SPAN: Micros = 24 * HOUR;
/// Event time stands still after this much of the timed phase, so that the longest window holds all that was counted.
const TIMED_SPAN_MAX: Micros = 11 * 24 * HOUR;

/// Counters of the windowed statistic.
pub(crate) const COUNTERS: u64 = 6;

/// The statistic of each key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Statistic {
    /// First time, last time, count.
    Fixed,
    /// Six counters in `10m x 144` and `1d x 14`; sums over the last hour, day and 14 days are read.
    Windowed,
}

/// The distribution of keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Spread {
    /// All keys alike.
    Uniform,
    /// The key of rank r with a probability proportional to 1/r.
    Zipf,
}

/// The workload; two equal ones give equal streams.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Workload {
    pub(crate) statistic: Statistic,
    pub(crate) spread: Spread,
    /// Distinct keys.
    pub(crate) keys: u64,
    /// Events (messages) an engine is given at once.
    pub(crate) events: usize,
    /// Keys of an event.
    pub(crate) event_keys: usize,
    pub(crate) seed: u64,
}

impl Workload {
    /// Observes of a batch.
    pub(crate) fn batch(&self) -> usize {
        self.events * self.event_keys
    }

    /// Batches of the loading phase: each key comes at least once.
    pub(crate) fn load_batches(&self) -> u64 {
        self.keys.div_ceil(self.batch() as u64)
    }

    /// The key of a rank: a bijection, so that different ranks have different keys.
    pub(crate) fn key(&self, rank: u64) -> u64 {
        mix(rank ^ self.seed)
    }
}

/// Events to be observed; all have the same number of keys.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    /// One per event, in order.
    pub(crate) times: Vec<Micros>,
    /// All keys, event by event.
    pub(crate) keys: Vec<u64>,
    /// The counter of the windowed statistic that goes up by one, for each key.
    pub(crate) counters: Vec<u8>,
}

impl Batch {
    /// Keys of each event.
    pub(crate) fn event_keys(&self) -> usize {
        self.keys.len() / self.times.len().max(1)
    }

    /// Time, keys and counters of each event.
    pub(crate) fn events(&self) -> impl Iterator<Item = (Micros, &[u64], &[u8])> {
        let each = self.event_keys().max(1);
        let parts = self.keys.chunks_exact(each).zip(self.counters.chunks_exact(each));
        self.times.iter().zip(parts).map(|(time, (keys, counters))| (*time, keys, counters))
    }

    /// The time of the observe with this index.
    pub(crate) fn time(&self, index: usize) -> Micros {
        self.times[index / self.event_keys()]
    }
}

/// The stream of a workload: first the batches of the loading phase, then those of the timed phase without end.
#[derive(Debug)]
pub(crate) struct Stream {
    workload: Workload,
    random: Random,
    zipf: Zipf,
    batches: u64,
}

impl Stream {
    pub(crate) fn new(workload: Workload) -> Stream {
        let random = Random(mix(workload.seed));
        Stream { workload, random, zipf: Zipf::new(workload.keys), batches: 0 }
    }

    /// Makes the next batch.
    pub(crate) fn fill(&mut self, batch: &mut Batch) {
        let Workload { events, event_keys, keys, spread, .. } = self.workload;
        let loads = self.workload.load_batches();
        let loading = self.batches < loads;
        let (number, total) = (self.batches - if loading { 0 } else { loads }, loads * events as u64);
        batch.times.clear();
        batch.keys.clear();
        batch.counters.clear();
        for event in number * events as u64..(number + 1) * events as u64 {
            batch.times.push(if loading {
                BEGIN - LOAD_SPAN + (i128::from(LOAD_SPAN) * i128::from(event) / i128::from(total)) as i64
            } else {
                // An hour for as many observes as there are keys.
                let passed = i128::from(HOUR) * i128::from(event) * event_keys as i128 / i128::from(keys);
                BEGIN + passed.min(i128::from(TIMED_SPAN_MAX)) as i64
            });
            for at in event * event_keys as u64..(event + 1) * event_keys as u64 {
                let rank = match spread {
                    _ if loading => at % keys,
                    Spread::Uniform => self.random.below(keys),
                    Spread::Zipf => self.zipf.rank(&mut self.random),
                };
                batch.keys.push(self.workload.key(rank));
                // Three in four are the first counter, as most events are only seen and not judged.
                let dice = self.random.below(4 * (COUNTERS - 1));
                batch.counters.push(if dice < COUNTERS { dice as u8 } else { 0 });
            }
        }
        self.batches += 1;
    }
}

/// The finaliser of SplitMix64 (Steele, Lea and Flood, 2014): a bijection of 64-bit numbers.
fn mix(number: u64) -> u64 {
    let number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

/// SplitMix64.
#[derive(Debug)]
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        let number = mix(self.0);
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        number
    }

    /// Below `end`, with a bias of at most `end` in 2^64.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(end)) >> 64) as u64
    }

    /// At least 0, below 1.
    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// Ranks with a probability proportional to 1/(rank + 1), by rejection-inversion (Hörmann and Derflinger, *Rejection-
/// inversion to generate variates from monotone discrete distributions*, 1996) for the exponent 1.
#[derive(Debug)]
struct Zipf {
    keys: f64,
    low: f64,
    high: f64,
    accept: f64,
}

impl Zipf {
    fn new(keys: u64) -> Zipf {
        let keys = keys as f64;
        Zipf {
            keys,
            low: 1.5f64.ln() - 1.0,
            high: (keys + 0.5).ln(),
            accept: 2.0 - (2.5f64.ln() - 0.5).exp(),
        }
    }

    fn rank(&self, random: &mut Random) -> u64 {
        loop {
            let u = self.high + random.unit() * (self.low - self.high);
            let x = u.exp();
            let k = x.round().clamp(1.0, self.keys);
            if k - x <= self.accept || u >= (k + 0.5).ln() - 1.0 / k {
                return k as u64 - 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workload(spread: Spread) -> Workload {
        Workload { statistic: Statistic::Fixed, spread, keys: 1000, events: 3, event_keys: 7, seed: 5 }
    }

    #[test]
    fn equal_workloads_give_equal_streams_and_load_every_key() {
        let workload = workload(Spread::Zipf);
        let (mut one, mut two) = (Stream::new(workload), Stream::new(workload));
        let (mut a, mut b) = (Batch::default(), Batch::default());
        let mut loaded = std::collections::HashSet::new();
        let mut latest = i64::MIN;
        for number in 0..200 {
            one.fill(&mut a);
            two.fill(&mut b);
            assert_eq!((&a.keys, &a.times, &a.counters), (&b.keys, &b.times, &b.counters));
            assert_eq!(a.keys.len(), workload.batch());
            assert!(a.counters.iter().all(|counter| u64::from(*counter) < COUNTERS));
            for time in &a.times {
                assert!(*time >= latest);
                latest = *time;
            }
            if number < workload.load_batches() {
                loaded.extend(a.keys.iter().copied());
            }
        }
        assert_eq!(loaded.len() as u64, workload.keys);
    }

    #[test]
    fn ranks_follow_zipfs_law() {
        let (zipf, mut random) = (Zipf::new(1000), Random(1));
        let mut seen = vec![0u32; 1000];
        const DRAWS: u32 = 1_000_000;
        (0..DRAWS).for_each(|_| seen[zipf.rank(&mut random) as usize] += 1);
        let harmonic: f64 = (1..=1000).map(|rank| 1.0 / f64::from(rank)).sum();
        for rank in [1u32, 2, 3, 10, 100, 1000] {
            let expected = f64::from(DRAWS) / harmonic / f64::from(rank);
            let deviation = (f64::from(seen[rank as usize - 1]) - expected).abs();
            assert!(deviation < 5.0 * expected.sqrt(), "rank {rank}: off by {deviation} of {expected}");
        }
    }
}
