//! Traffic of the last hour: what was decided in each stretch of ten seconds or so, and how fast, kept in memory.

use parking_lot::Mutex;
use std::collections::VecDeque;

use engine::Engine;
use event::{Span, Time};
use judge::Action;

use crate::core::decision_times::{DecisionLatency, TimeCounts};

/// Verdicts by action, in the order of [`Action::ALL`].
pub(crate) type ActionCounts = [u64; Action::ALL.len()];

/// Samples that are kept: an hour of them, as housekeeping takes them.
const SAMPLES_MAX: usize = 366;
/// The time that is looked back on.
const KEPT: Span = Span::hours(1);

/// The verdicts since the start, at a time.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TrafficSample {
    pub(crate) time: Time,
    /// The counts of each pipeline by its name.
    pub(crate) pipelines: Vec<(String, ActionCounts)>,
    /// The counts of times for a decision.
    pub(crate) times: TimeCounts,
}

impl TrafficSample {
    /// Returns how it is now.
    fn now(engine: &Engine, times: TimeCounts, now: Time) -> TrafficSample {
        let plan = engine.plan();
        let of = plan.pipelines.iter().map(|pipeline| (pipeline.name.clone(), engine.verdicts(pipeline)));
        TrafficSample { time: now, pipelines: of.collect(), times }
    }

    /// Returns what came after another sample, of all pipelines.
    pub(crate) fn since(&self, before: &TrafficSample) -> ActionCounts {
        let mut counts = ActionCounts::default();
        for (name, own) in &self.pipelines {
            let known = before.pipelines.iter().find(|(other, _)| other == name);
            let earlier = known.map_or(ActionCounts::default(), |(_, counts)| *counts);
            for (count, (own, earlier)) in counts.iter_mut().zip(own.iter().zip(earlier)) {
                *count += own.saturating_sub(earlier);
            }
        }
        counts
    }
}

/// Returns how long the decisions took of the time that is looked back on from the last sample; of all since the start, where the
/// samples do not go back so far. `None` if there were none.
pub(crate) fn latency(samples: &[TrafficSample], back: Span) -> Option<DecisionLatency> {
    let last = samples.last()?;
    let earlier = samples.iter().rev().find(|sample| last.time - sample.time >= back);
    let before = earlier.map_or(TimeCounts::default(), |sample| sample.times);
    DecisionLatency::between(&before, &last.times)
}

/// The samples of the last hour, oldest first.
#[derive(Debug, Default)]
pub(crate) struct TrafficHistory(Mutex<VecDeque<TrafficSample>>);

impl TrafficHistory {
    /// Takes a sample.
    pub(crate) fn take(&self, engine: &Engine, times: TimeCounts, now: Time) {
        let sample = TrafficSample::now(engine, times, now);
        let mut samples = self.0.lock();
        samples.retain(|sample| sample.time > now - KEPT && sample.time < now);
        if samples.len() >= SAMPLES_MAX {
            samples.pop_front();
        }
        samples.push_back(sample);
    }

    /// Returns all samples, and how it is now as the last.
    pub(crate) fn up_to(&self, engine: &Engine, times: TimeCounts, now: Time) -> Vec<TrafficSample> {
        let mut samples: Vec<TrafficSample> =
            self.0.lock().iter().filter(|of| of.time < now).cloned().collect();
        samples.push(TrafficSample::now(engine, times, now));
        samples
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_compared_by_pipeline() {
        let counts = |accept: u64, reject: u64| {
            let mut counts = ActionCounts::default();
            (counts[0], counts[3]) = (accept, reject);
            counts
        };
        let sample = |pipelines: &[(&str, ActionCounts)]| TrafficSample {
            time: Time(0),
            times: TimeCounts::default(),
            pipelines: pipelines.iter().map(|(name, counts)| ((*name).to_owned(), *counts)).collect(),
        };
        let check = |before: &[(&str, ActionCounts)], after: &[(&str, ActionCounts)], expected| {
            assert_eq!(sample(after).since(&sample(before)), expected, "{before:?} {after:?}");
        };
        check(&[], &[("a", counts(3, 1))], counts(3, 1));
        check(&[("a", counts(2, 1))], &[("a", counts(3, 4)), ("b", counts(1, 1))], counts(2, 4));
        check(&[("gone", counts(9, 9)), ("a", counts(5, 0))], &[("a", counts(1, 0))], counts(0, 0));
    }

    #[test]
    fn latency_is_that_of_the_last_minutes() {
        let sample = |seconds: i64, fast: u64, slow: u64| {
            let mut times = TimeCounts::default();
            (times[0], times[10]) = (fast, slow);
            TrafficSample { time: Time::from_seconds(seconds), pipelines: Vec::new(), times }
        };
        let samples = [sample(0, 0, 900), sample(100, 0, 1000), sample(400, 10, 1000)];
        let check = |samples: &[TrafficSample], expected: Option<f64>| {
            let found = latency(samples, Span::minutes(5));
            assert_eq!(found.map(|latency| latency.median), expected, "{samples:?}");
        };
        check(&samples, Some(0.000_25));
        check(&samples[..2], Some(0.5));
        check(&[sample(100, 10, 10), sample(400, 10, 10)], None);
        check(&[], None);
    }
}
