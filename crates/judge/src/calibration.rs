//! From a score to a probability.
//!
//! A score orders events; two sites give the same score to events of which a tenth is bad here and half there. So the odds
//! of being bad are read off the scores of judged events, each from before it was learned: a logistic curve through them (Platt,
//! "Probabilistic Outputs for Support Vector Machines", 1999, fitted as Lin, Lin and Weng, "A Note on Platt's Probabilistic
//! Outputs", *Machine Learning* 68, 2007, say).
//!
//! ```text
//! good and bad scores ─► log-odds = slope · score + offset ─► probability
//! ```

use crate::score::rounded;

/// Events of a class from which a curve is drawn.
const EVENTS_MIN: usize = 20;
/// Quantiles of a class that stand for all of its scores.
const QUANTILES: usize = 500;
/// Scores further away from the middle than this many times the spread say no more.
const SPREADS_MAX: f64 = 10.0;
/// Most of a slope, in spreads: a step.
const SLOPE_MAX: f64 = 1_000.0;
/// Most steps of Newton's method; ten are usual.
const STEPS_MAX: usize = 100;

/// A logistic curve: the log-odds that an event of some score is bad.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Calibration {
    /// The log-odds of a point of score, never below 0.
    pub slope: f64,
    /// The log-odds of a score of 0.
    pub offset: f64,
}

/// The scores of one class, ascending, and the number of events that they stand for.
#[derive(Clone, Copy, Debug)]
pub struct ClassScores<'a> {
    /// The scores, ascending.
    pub ascending: &'a [f64],
    /// The weight of the class: how often it came for each time that the other did.
    pub weight: f64,
}

/// A score with the target of its class and the weight of both.
struct Target {
    score: f64,
    is_bad: f64,
    weight: f64,
}

impl Calibration {
    /// Returns the curve that holds where nothing is known: even odds at this score, and a point of score is a point of
    /// log-odds, as rules' scores are meant.
    pub fn assumed(even: f64) -> Calibration {
        Calibration { slope: 1.0, offset: -even }
    }

    /// Returns the curve through the scores of judged events; `None` below 20 of either class.
    ///
    /// A call costs some 1,000 logarithms for each of ten steps, whatever the number of events.
    pub fn fit(good: ClassScores<'_>, bad: ClassScores<'_>) -> Option<Calibration> {
        if good.ascending.len().min(bad.ascending.len()) < EVENTS_MIN {
            return None;
        }
        // Targets short of 0 and 1, as if one more event of each class had been seen everywhere (Platt).
        let (events_good, events_bad) = (good.ascending.len() as f64, bad.ascending.len() as f64);
        let mut targets = quantiles(good, 1.0 / (events_good + 2.0));
        targets.extend(quantiles(bad, (events_bad + 1.0) / (events_bad + 2.0)));
        // The steps are then those of a problem of this size, whatever the scale of weights and scores.
        let total: f64 = targets.iter().map(|target| target.weight).sum();
        targets.iter_mut().for_each(|target| target.weight /= total);
        let (middle, spread) = scale(&targets);
        for target in &mut targets {
            target.score = ((target.score - middle) / spread).clamp(-SPREADS_MAX, SPREADS_MAX);
        }
        let mut curve = Calibration {
            slope: 0.0,
            offset: ((bad.weight * events_bad + 1.0) / (good.weight * events_good + 1.0)).ln(),
        };
        let mut loss = curve.loss(&targets);
        for _ in 0..STEPS_MAX {
            let Some((slope, offset)) = curve.newton_step(&targets) else { break };
            let mut share = 1.0;
            let better = loop {
                let tried = Calibration {
                    slope: (curve.slope + share * slope).clamp(0.0, SLOPE_MAX),
                    offset: curve.offset + share * offset,
                };
                let tried_loss = tried.loss(&targets);
                if tried_loss < loss {
                    break Some((tried, tried_loss));
                }
                share /= 2.0;
                if share < 1e-6 {
                    break None;
                }
            };
            let Some((tried, tried_loss)) = better else { break };
            let gained = loss - tried_loss;
            (curve, loss) = (tried, tried_loss);
            if gained < 1e-10 {
                break;
            }
        }
        let slope = curve.slope / spread;
        Some(Calibration { slope, offset: curve.offset - slope * middle })
    }

    /// Returns the probability that an event of this score is bad, rounded to a millionth.
    pub fn probability(&self, score: f64) -> f64 {
        rounded(sigmoid(self.log_odds(score)))
    }

    fn log_odds(&self, score: f64) -> f64 {
        self.slope * score.clamp(f64::MIN, f64::MAX) + self.offset
    }

    /// The mean cross-entropy.
    fn loss(&self, targets: &[Target]) -> f64 {
        let loss = |target: &Target| {
            let odds = self.log_odds(target.score);
            // ln(1 + e^x) without an overflow.
            target.weight * (odds.max(0.0) + (-odds.abs()).exp().ln_1p() - target.is_bad * odds)
        };
        targets.iter().map(loss).sum()
    }

    /// Newton's step of slope and offset; `None` if there is none to make.
    fn newton_step(&self, targets: &[Target]) -> Option<(f64, f64)> {
        let [mut aa, mut ab, mut bb, mut a, mut b] = [0.0; 5];
        for Target { score, is_bad, weight } in targets {
            let probability = sigmoid(self.log_odds(*score));
            let curvature = weight * probability * (1.0 - probability);
            aa += curvature * score * score;
            ab += curvature * score;
            bb += curvature;
            a += weight * (probability - is_bad) * score;
            b += weight * (probability - is_bad);
        }
        // A little more on the diagonal keeps it solvable where all scores are the same.
        let (aa, bb) = (aa + 1e-9, bb + 1e-9);
        let determinant = aa * bb - ab * ab;
        let step = ((ab * b - bb * a) / determinant, (ab * a - aa * b) / determinant);
        (step.0.is_finite() && step.1.is_finite()).then_some(step)
    }
}

/// Evenly spaced quantiles of a class, which weigh as much as all of it.
fn quantiles(class: ClassScores<'_>, is_bad: f64) -> Vec<Target> {
    let ClassScores { ascending, weight } = class;
    let count = ascending.len().min(QUANTILES);
    let weight = weight * ascending.len() as f64 / count as f64;
    (0..count)
        .map(|number| {
            // The middle of each of `count` equal shares.
            let place = (2 * number + 1) * ascending.len() / (2 * count);
            Target { score: ascending[place], is_bad, weight }
        })
        .collect()
}

/// The middle of all scores, and the distance between those at a twentieth and at nineteen of twenty, which is never 0.
fn scale(targets: &[Target]) -> (f64, f64) {
    let mut scores: Vec<f64> = targets.iter().map(|target| target.score).collect();
    scores.sort_by(f64::total_cmp);
    let at = |share: f64| scores.get((scores.len() as f64 * share) as usize).copied().unwrap_or_default();
    // No product of what is left of a slope and a score overflows then.
    let bounded = |score: f64| score.clamp(-1e150, 1e150);
    let spread = bounded(at(0.95)) - bounded(at(0.05));
    (bounded(at(0.5)), if spread > 1e-9 { spread } else { 1.0 })
}

fn sigmoid(odds: f64) -> f64 {
    1.0 / (1.0 + (-odds).exp())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn even(scores: &[f64]) -> ClassScores<'_> {
        ClassScores { ascending: scores, weight: 1.0 }
    }

    fn fit(good: &[f64], bad: &[f64]) -> Option<Calibration> {
        Calibration::fit(even(good), even(bad))
    }

    /// Scores of a logistic distribution around a centre, ascending: the log-odds of two such classes are a straight line.
    fn logistic(centre: f64, count: usize) -> Vec<f64> {
        (0..count)
            .map(|number| {
                let share = (number as f64 + 0.5) / count as f64;
                centre + (share / (1.0 - share)).ln()
            })
            .collect()
    }

    /// Scores of a normal distribution with a deviation of 1, ascending, as the sum of many uniform ones.
    fn normal(centre: f64, count: usize) -> Vec<f64> {
        let mut state = 7u64;
        let mut uniform = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 11) as f64 / (1u64 << 53) as f64
        };
        let mut scores: Vec<f64> =
            (0..count).map(|_| centre + (0..12).map(|_| uniform()).sum::<f64>() - 6.0).collect();
        scores.sort_by(f64::total_cmp);
        scores
    }

    #[test]
    fn the_curve_of_two_normal_classes_is_found() {
        // Log-odds of N(3, 1) against N(-1, 1) with as many of each: 4 · score - 4.
        let (good, bad) = (normal(-1.0, 20_000), normal(3.0, 20_000));
        let curve = fit(&good, &bad).unwrap();
        assert!((curve.slope - 4.0).abs() < 0.25 && (curve.offset + 4.0).abs() < 0.25, "{curve:?}");
        assert!((curve.probability(1.0) - 0.5).abs() < 0.03, "{curve:?}");
        // A class that came ten times as often: the odds go by it.
        let rare = Calibration::fit(ClassScores { ascending: &good, weight: 10.0 }, even(&bad)).unwrap();
        assert!((rare.offset + 4.0 + 10f64.ln()).abs() < 0.35, "{rare:?}");
    }

    #[test]
    fn of_what_it_was_drawn_from_the_mean_probability_is_the_share() {
        let check = |good: &[f64], bad: &[f64]| {
            let curve = fit(good, bad).unwrap();
            let all = good.iter().chain(bad);
            let mean =
                all.map(|score| curve.probability(*score)).sum::<f64>() / (good.len() + bad.len()) as f64;
            let share = bad.len() as f64 / (good.len() + bad.len()) as f64;
            assert!((mean - share).abs() < 0.02, "{mean} of {share}: {curve:?}");
        };
        check(&logistic(-2.0, 400), &logistic(4.0, 400));
        check(&logistic(0.0, 3_000), &logistic(1.0, 90));
        check(&logistic(0.0, 100), &logistic(0.0, 300));
    }

    #[test]
    fn few_events_or_hopeless_scores_are_no_curve_or_a_flat_one() {
        assert_eq!(fit(&logistic(0.0, 19), &logistic(5.0, 500)), None);
        assert_eq!(fit(&[], &[]), None);
        // Worse than nothing: what scores high is good. No score then says anything.
        let flat = fit(&logistic(5.0, 100), &logistic(0.0, 100)).unwrap();
        assert_eq!((flat.slope, flat.probability(9.0)), (0.0, flat.probability(-9.0)));
        assert!((flat.probability(0.0) - 0.5).abs() < 0.01);
        // All the same.
        let same = fit(&[2.0; 50], &[2.0; 150]).unwrap();
        assert!((same.probability(2.0) - 0.75).abs() < 0.02, "{same:?}");
        // Apart by far: sure, and not without end.
        let apart = fit(&[-5.0; 50], &[5.0; 50]).unwrap();
        assert!(apart.probability(5.0) > 0.97 && apart.probability(-5.0) < 0.03, "{apart:?}");
        assert!(apart.probability(5.0) < 1.0);
    }

    #[test]
    fn what_is_assumed_is_even_where_it_says() {
        let curve = Calibration::assumed(4.0);
        assert_eq!(
            (curve.probability(4.0), curve.probability(f64::MAX), curve.probability(f64::MIN)),
            (0.5, 1.0, 0.0)
        );
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn a_curve_rises_and_ends_between_0_and_1(
            mut good in prop::collection::vec(-1e9f64..1e9, 20..60),
            mut bad in prop::collection::vec(-30.0f64..30.0, 20..60),
            weight in 0.001f64..1000.0,
            scores in prop::collection::vec(any::<f64>().prop_filter("finite", |score| score.is_finite()), 2),
        ) {
            good.sort_by(f64::total_cmp);
            bad.sort_by(f64::total_cmp);
            let curve = Calibration::fit(ClassScores { ascending: &good, weight }, even(&bad)).unwrap();
            prop_assert!(curve.slope >= 0.0 && curve.slope.is_finite() && curve.offset.is_finite(), "{curve:?}");
            let (low, high) = (scores[0].min(scores[1]), scores[0].max(scores[1]));
            prop_assert!(curve.probability(low) <= curve.probability(high));
            prop_assert!((0.0..=1.0).contains(&curve.probability(low)));
        }
    }
}
