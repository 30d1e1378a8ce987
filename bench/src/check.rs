//! Checks of the answers: no engine is measured doing less than the others.
//!
//! The stream is made again from its seed. Two things are compared: what all readings together counted, which holds
//! every answer of the run but the last ones of each key, and after the run the whole reading of a thousand keys, the
//! most frequent ones among them, computed from the list of their events.

use std::collections::HashMap;

use crate::cell::Reading;
use crate::workload::{Batch, COUNTERS, Micros, Random, Statistic, Stream, Workload};

/// The most frequent keys, and the others, that are compared.
const HOT: u64 = 100;
const OTHERS: u64 = 900;

/// The answers that a run must give.
pub(crate) struct ExpectedAnswers {
    /// The sum of [`Reading::counted`] over all observes.
    pub(crate) counted: u64,
    /// The time of the last event.
    pub(crate) time: Micros,
    /// Keys and their readings at that time.
    pub(crate) sample: Vec<(u64, Reading)>,
}

impl ExpectedAnswers {
    /// The answers expected after the first batches of a workload.
    pub(crate) fn after(workload: Workload, batches: u64) -> ExpectedAnswers {
        let mut random = Random(workload.seed);
        let others = (0..OTHERS).map(|_| random.below(workload.keys));
        let mut sample: HashMap<u64, Vec<(Micros, u8)>> =
            (0..HOT.min(workload.keys)).chain(others).map(|rank| (workload.key(rank), Vec::new())).collect();
        let mut counts: HashMap<u64, u32, PlainHashState> = HashMap::default();
        let (mut stream, mut batch) = (Stream::new(workload), Batch::default());
        let mut counted = 0;
        for _ in 0..batches {
            stream.fill(&mut batch);
            for (time, keys, counters) in batch.events() {
                for (key, counter) in keys.iter().zip(counters) {
                    let count = counts.entry(*key).or_default();
                    counted += u64::from(*count);
                    *count += 1;
                    if let Some(events) = sample.get_mut(key) {
                        events.push((time, *counter));
                    }
                }
            }
        }
        let time = batch.times.last().copied().unwrap_or_default();
        let read = |(key, events): (u64, Vec<_>)| (key, reading(workload.statistic, &events, time));
        ExpectedAnswers { counted, time, sample: sample.into_iter().map(read).collect() }
    }
}

/// A reading straight from its definition.
pub(crate) fn reading(statistic: Statistic, events: &[(Micros, u8)], time: Micros) -> Reading {
    const MINUTE: Micros = 60_000_000;
    const DAY: Micros = 1440 * MINUTE;
    match statistic {
        Statistic::Fixed => {
            let first = events.iter().map(|event| event.0).min().unwrap_or(0);
            let last = events.iter().map(|event| event.0).max().unwrap_or(0);
            Reading::fixed([first.cast_unsigned(), last.cast_unsigned(), events.len() as u64])
        }
        Statistic::Windowed => {
            let windows = [(60 * MINUTE, 10 * MINUTE), (DAY, 10 * MINUTE), (14 * DAY, DAY)];
            Reading::windowed(std::array::from_fn(|at| {
                let (window, width) = windows[at / COUNTERS as usize];
                let counter = at % COUNTERS as usize;
                let oldest = (time - window) / width;
                events
                    .iter()
                    .filter(|event| usize::from(event.1) == counter && event.0 / width >= oldest)
                    .count() as u64
            }))
        }
    }
}

/// Keys are mixed already.
#[derive(Default)]
struct PlainHasher(u64);
type PlainHashState = std::hash::BuildHasherDefault<PlainHasher>;

impl std::hash::Hasher for PlainHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.0 = self.0.rotate_left(8) ^ u64::from(*byte));
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = number;
    }
}
