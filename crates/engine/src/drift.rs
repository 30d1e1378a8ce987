//! Drift: whether what was promised of scores still comes true.
//!
//! Each judged event is held against the line and the curve that there were before it (prequential evaluation: Dawid, "Present
//! position and potential developments", *Journal of the Royal Statistical Society A* 147, 1984). As long as events come like
//! those before them, as many good ones reach a line as it promises, and as many events are bad as their probabilities add up
//! to. What lies beyond four standard deviations of that is no chance.

use serde::{Deserialize, Serialize};

/// Standard deviations beyond which something has changed: by chance once in 16,000 looks.
const DEVIATIONS: f64 = 4.0;
/// Good events that are expected to reach a line within a tally; beyond that it is halved, so that it forgets.
const EXPECTED_MAX: f64 = 40.0;
/// Judged events of a tally of probabilities, likewise.
const JUDGED_MAX: f64 = 4_000.0;

/// The good events that reached the line of a band, and those that its promise let expect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PromiseDrift {
    /// Good events that were held against the line; older ones count less.
    pub good: f64,
    /// The number of those that reached it.
    pub reached: f64,
    /// The number that was promised to reach it at most.
    pub expected: f64,
}

impl PromiseDrift {
    /// Adds a good event, of which a share was promised to reach the line at most.
    pub(crate) fn add(&mut self, promised: f64, has_reached: bool) {
        self.good += 1.0;
        self.reached += f64::from(u8::from(has_reached));
        self.expected += promised;
        if self.expected > EXPECTED_MAX {
            for value in [&mut self.good, &mut self.reached, &mut self.expected] {
                *value /= 2.0;
            }
        }
    }

    /// The share of good events that reached the line; `None` without any.
    pub fn share(&self) -> Option<f64> {
        (self.good > 0.0).then(|| self.reached / self.good)
    }

    /// Returns the sentence for people, if good events have changed.
    pub fn warning(&self, pipeline: &str, action: &str, promised: f64) -> Option<String> {
        // A Poisson count, and one more that there may always be.
        let spread = DEVIATIONS * self.expected.sqrt();
        let (more, fewer) =
            (self.reached > self.expected + spread + 1.0, self.reached < self.expected - spread);
        let share = self.share().filter(|_| more || fewer)? * 100.0;
        let promised = promised * 100.0;
        let (word, mend) = match more {
            true => ("more", "look at what was tagged wrongly, and learn it as good"),
            false => ("fewer", "good events have become easier to tell, or only easy ones are judged"),
        };
        Some(format!(
            "`{action}` of `{pipeline}` is reached by {share:.3} % of the latest good events, {word} than the {promised} % \
             that it promises: {mend}"
        ))
    }
}

/// The bad events among those that were judged, and those that their probabilities let expect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CalibrationDrift {
    /// Judged events; older ones count less.
    pub judged: f64,
    /// The number of those that were bad.
    pub bad: f64,
    /// The sum of their probabilities.
    pub expected: f64,
    /// The variance of the number of bad ones, if the probabilities are right.
    variance: f64,
    /// The sum of squared errors.
    squared: f64,
}

impl CalibrationDrift {
    /// Adds an event that had this probability.
    pub(crate) fn add(&mut self, probability: f64, is_bad: bool) {
        let bad = f64::from(u8::from(is_bad));
        self.judged += 1.0;
        self.bad += bad;
        self.expected += probability;
        self.variance += probability * (1.0 - probability);
        self.squared += (probability - bad).powi(2);
        if self.judged > JUDGED_MAX {
            for value in
                [&mut self.judged, &mut self.bad, &mut self.expected, &mut self.variance, &mut self.squared]
            {
                *value /= 2.0;
            }
        }
    }

    /// The mean squared error of probabilities, Brier's score: 0 is perfect, 0.25 what a coin has; `None` without any.
    pub fn brier(&self) -> Option<f64> {
        (self.judged > 0.0).then(|| self.squared / self.judged)
    }

    /// Returns the sentence for people, if probabilities do not come true: those of verdicts, or of the learner with this fact.
    pub fn warning(&self, pipeline: &str, learner: Option<&str>) -> Option<String> {
        let off = (self.bad - self.expected).abs();
        // Some more are off by chance where all probabilities are near 0 or 1, and a few have wrong labels.
        let is_off = off > DEVIATIONS * self.variance.sqrt() + 3.0 + 0.02 * self.judged;
        is_off.then(|| {
            let (who, lost) = match learner {
                Some(fact) => (format!("`{fact}`"), "it"),
                None => ("their probabilities".to_owned(), "a learner"),
            };
            format!(
                "of the latest {:.0} judged events of `{pipeline}` {:.0} were bad, where {who} let expect {:.0}: the mix of events \
                 has changed, or {lost} has lost its calibration",
                self.judged, self.bad, self.expected
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers between 0 and 1.
    fn random() -> impl FnMut() -> f64 {
        let mut state = 5u64;
        move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            ((state >> 11) as f64 + 0.5) / (1u64 << 53) as f64
        }
    }

    #[test]
    fn a_promise_that_is_kept_is_no_drift() {
        let mut uniform = random();
        let check = |share: f64, uniform: &mut dyn FnMut() -> f64| {
            let mut drift = PromiseDrift::default();
            let mut warnings = 0;
            for _ in 0..60_000 {
                drift.add(0.005, uniform() < share);
                warnings += u32::from(drift.warning("mail", "tag", 0.005).is_some());
            }
            (warnings, drift)
        };
        let (warnings, drift) = check(0.005, &mut uniform);
        assert_eq!(warnings, 0);
        assert!(
            drift.expected <= EXPECTED_MAX && (drift.share().unwrap() - 0.005).abs() < 0.003,
            "{drift:?}"
        );
        let (warnings, drift) = check(0.02, &mut uniform);
        let text = drift.warning("mail", "tag", 0.005).unwrap();
        assert!(warnings > 50_000 && text.contains("more than the 0.5 %"), "{warnings}: {text}");
        let (warnings, drift) = check(0.0, &mut uniform);
        let text = drift.warning("mail", "tag", 0.005).unwrap();
        assert!(warnings > 50_000 && text.contains("fewer"), "{warnings}: {text}");
        assert_eq!(PromiseDrift::default().warning("mail", "tag", 0.005), None);
    }

    #[test]
    fn probabilities_that_come_true_are_no_drift() {
        let mut uniform = random();
        let mut run = |shift: f64| {
            let mut drift = CalibrationDrift::default();
            let mut warnings = 0;
            for _ in 0..30_000 {
                let probability = uniform();
                drift.add(probability, uniform() < (probability + shift).min(1.0));
                warnings += u32::from(drift.warning("mail", None).is_some());
            }
            (warnings, drift)
        };
        let (warnings, drift) = run(0.0);
        assert_eq!(warnings, 0);
        assert!((drift.brier().unwrap() - 1.0 / 6.0).abs() < 0.02, "{drift:?}");
        let (warnings, drift) = run(0.2);
        assert!(
            warnings > 25_000 && drift.warning("mail", None).unwrap().contains("judged events of `mail`")
        );
        assert_eq!(
            (CalibrationDrift::default().brier(), CalibrationDrift::default().warning("mail", None)),
            (None, None)
        );
    }
}
