//! Times of decisions over all protocols, in the buckets of the histograms: what of them is late can be asked of any stretch of time.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Upper bounds of the buckets of request durations, in seconds.
pub(crate) const SECONDS: [f64; 14] =
    [0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0];

/// Counts by bucket; the last has what took longer than all bounds.
pub(crate) type TimeCounts = [u64; SECONDS.len() + 1];

/// The times of the decisions since the start.
#[derive(Debug, Default)]
pub(crate) struct DecisionTimes([AtomicU64; SECONDS.len() + 1]);

impl DecisionTimes {
    /// Counts a decision.
    pub(crate) fn note(&self, took: Duration) {
        let took = took.as_secs_f64();
        let bucket = SECONDS.iter().position(|bound| took <= *bound).unwrap_or(SECONDS.len());
        if let Some(count) = self.0.get(bucket) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The counts as they are now.
    pub(crate) fn counts(&self) -> TimeCounts {
        let mut counts = TimeCounts::default();
        for (count, own) in counts.iter_mut().zip(&self.0) {
            *count = own.load(Ordering::Relaxed);
        }
        counts
    }
}

/// The times that half and nearly all decisions stayed below; infinite above the last bound.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct DecisionLatency {
    pub(crate) median: f64,
    pub(crate) slow: f64,
}

impl DecisionLatency {
    /// Returns those of the decisions that came between two counts; `None` if there were none.
    pub(crate) fn between(before: &TimeCounts, after: &TimeCounts) -> Option<DecisionLatency> {
        let came: Vec<u64> =
            after.iter().zip(before).map(|(after, before)| after.saturating_sub(*before)).collect();
        let all: u64 = came.iter().sum();
        if all == 0 {
            return None;
        }
        let below = |share: f64| {
            let wanted = (all as f64 * share).ceil() as u64;
            let mut sum = 0;
            let bucket = came.iter().position(|count| {
                sum += count;
                sum >= wanted
            });
            bucket.and_then(|bucket| SECONDS.get(bucket)).copied().unwrap_or(f64::INFINITY)
        };
        Some(DecisionLatency { median: below(0.5), slow: below(0.99) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_came_between_two_looks_is_measured() {
        let times = DecisionTimes::default();
        let note = |micros: u64, count: usize| {
            (0..count).for_each(|_| times.note(Duration::from_micros(micros)));
        };
        let first = times.counts();
        assert_eq!(DecisionLatency::between(&first, &first), None);
        note(250, 98);
        note(60_000_000, 2);
        let second = times.counts();
        let latency = |median: f64, slow: f64| Some(DecisionLatency { median, slow });
        assert_eq!(DecisionLatency::between(&first, &second), latency(0.000_25, f64::INFINITY));
        note(700, 99);
        note(9_000, 1);
        assert_eq!(DecisionLatency::between(&second, &times.counts()), latency(0.001, 0.001));
        note(9_000, 5);
        assert_eq!(DecisionLatency::between(&second, &times.counts()), latency(0.001, 0.01));
        // A sample of a node that was started anew has fewer.
        assert_eq!(DecisionLatency::between(&times.counts(), &second), None);
    }
}
