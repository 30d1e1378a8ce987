//! Scores of rules fitted to judged events: a logistic regression that starts from the scores that somebody set by hand.
//!
//! An event whose rules add up to `S` is bad with odds of `exp(S - even)`. A score moves only as far as events speak for it: each
//! is drawn to the one that it has by a Gaussian prior, keeps its sign, and stays within a bound. So a rule that fires seldom
//! keeps its score, and one that several others imply shares it with them.

/// Rounds over all rules; some twenty are usual.
const ROUNDS_MAX: usize = 200;
/// A round that moves no score by more than this is the last.
const SETTLED: f64 = 1e-4;
/// Most that a score moves in one round.
const STEP_MAX: f64 = 1.0;
/// Log-odds beyond which nothing more is learned.
const ODDS_MAX: f64 = 40.0;

/// A judged event, as the rules saw it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FitExample {
    /// True if it was bad.
    pub is_bad: bool,
    /// The sum of what rules added whose scores are not fitted.
    pub rest: f64,
    /// The rules that fired, by their places among the fitted ones, and the share of its score that each added.
    pub shares: Vec<(usize, f32)>,
}

/// The terms of a fit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FitTerms {
    /// The score at which good and bad are equally likely.
    pub even: f64,
    /// The number of missed bad events that a false positive is worth.
    pub false_positive: f64,
    /// The strength with which scores hold to those that they have: so many events that say the contrary, about.
    pub prior: f64,
    /// The largest score.
    pub most: f64,
}

impl Default for FitTerms {
    fn default() -> FitTerms {
        FitTerms { even: 0.0, false_positive: 10.0, prior: 20.0, most: 8.0 }
    }
}

impl FitExample {
    /// The score of the event, if the fitted rules have these scores.
    pub fn score(&self, scores: &[f64]) -> f64 {
        self.shares.iter().fold(self.rest, |sum, (rule, share)| {
            sum + f64::from(*share) * scores.get(*rule).copied().unwrap_or_default()
        })
    }
}

/// Returns the scores that fit best, to a hundredth, in the order of those that rules have. A share of a rule that is not among
/// them counts nothing.
///
/// A call costs some logarithms for each rule that fired on each event, twenty times over.
pub fn fit_scores(has: &[f64], examples: &[FitExample], terms: &FitTerms) -> Vec<f64> {
    let mut by_rule: Vec<Vec<(usize, f64)>> = vec![Vec::new(); has.len()];
    for (number, example) in examples.iter().enumerate() {
        for (rule, share) in &example.shares {
            if let Some(fired) = by_rule.get_mut(*rule) {
                fired.push((number, f64::from(*share)));
            }
        }
    }
    let mut scores = has.to_vec();
    let mut odds: Vec<f64> = examples.iter().map(|example| example.score(has) - terms.even).collect();
    for _ in 0..ROUNDS_MAX {
        let mut moved = 0.0f64;
        for ((fired, score), has) in by_rule.iter().zip(&mut scores).zip(has) {
            if fired.is_empty() || *has == 0.0 {
                continue;
            }
            let mut slope = terms.prior * (*score - has);
            let mut curvature = terms.prior;
            for (number, share) in fired {
                let is_bad = examples[*number].is_bad;
                let weight = if is_bad { 1.0 } else { terms.false_positive };
                let bad = 1.0 / (1.0 + (-odds[*number].clamp(-ODDS_MAX, ODDS_MAX)).exp());
                slope += weight * share * (bad - f64::from(u8::from(is_bad)));
                curvature += weight * share * share * bad * (1.0 - bad);
            }
            let step = if curvature > 0.0 { (-slope / curvature).clamp(-STEP_MAX, STEP_MAX) } else { 0.0 };
            // A score beyond the bound stays where it is rather than jump.
            let most = terms.most.max(has.abs());
            let (low, high) = if *has > 0.0 { (0.0, most) } else { (-most, 0.0) };
            let step = (*score + step).clamp(low, high) - *score;
            fired.iter().for_each(|(number, share)| odds[*number] += step * share);
            *score += step;
            moved = moved.max(step.abs());
        }
        if moved < SETTLED {
            break;
        }
    }
    scores.iter().map(|score| (score * 100.0).round() / 100.0 + 0.0).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn example(is_bad: bool, rules: &[usize]) -> FitExample {
        FitExample { is_bad, rest: 0.0, shares: rules.iter().map(|rule| (*rule, 1.0)).collect() }
    }

    const TERMS: FitTerms = FitTerms { even: 2.0, false_positive: 1.0, prior: 0.01, most: 8.0 };

    /// Adds so many copies of an event of either class.
    fn seen(into: &mut Vec<FitExample>, rules: &[usize], good: usize, bad: usize) {
        into.extend((0..good).map(|_| example(false, rules)));
        into.extend((0..bad).map(|_| example(true, rules)));
    }

    #[test]
    fn a_score_becomes_the_log_odds_of_what_fires_it() {
        let mut examples = Vec::new();
        // Odds of 9: a score of ln 9 above even.
        seen(&mut examples, &[0], 100, 900);
        let fitted = fit_scores(&[1.0], &examples, &TERMS);
        assert!((fitted[0] - (2.0 + 9f64.ln())).abs() < 0.02, "{fitted:?}");
        // A false positive that is worth nine missed ones: even.
        let dear = fit_scores(&[1.0], &examples, &FitTerms { false_positive: 9.0, ..TERMS });
        assert!((dear[0] - 2.0).abs() < 0.02, "{dear:?}");
        // Two rules that always fire together share it.
        let mut both = Vec::new();
        seen(&mut both, &[0, 1], 100, 900);
        let fitted = fit_scores(&[1.0, 1.0], &both, &TERMS);
        assert!((fitted[0] + fitted[1] - (2.0 + 9f64.ln())).abs() < 0.05, "{fitted:?}");
        assert!((fitted[0] - fitted[1]).abs() < 1.5, "{fitted:?}");
        // Half a share of a rule is worth half of its score, and what is not fitted counts, too.
        let half = |is_bad| FitExample { is_bad, rest: 1.0, shares: vec![(0, 0.5)] };
        let halves: Vec<FitExample> = (0..1_000).map(|number| half(number % 10 != 0)).collect();
        let fitted = fit_scores(&[1.0], &halves, &TERMS);
        assert!((fitted[0] - 2.0 * (1.0 + 9f64.ln())).abs() < 0.05, "{fitted:?}");
    }

    #[test]
    fn scores_hold_to_what_they_are_without_evidence() {
        let mut examples = Vec::new();
        seen(&mut examples, &[0], 3, 0);
        seen(&mut examples, &[1], 0, 500);
        seen(&mut examples, &[2], 500, 0);
        let terms = FitTerms { prior: 20.0, ..TERMS };
        let has = [3.0, 1.0, 1.0, -2.0, 0.0, 12.0];
        let fitted = fit_scores(&has, &examples, &terms);
        assert!((fitted[0] - 3.0).abs() < 0.2, "three events say little: {fitted:?}");
        assert!(fitted[1] > 3.0 && fitted[1] <= 8.0, "{fitted:?}");
        assert_eq!(
            (fitted[2], fitted[3], fitted[4], fitted[5]),
            (0.0, -2.0, 0.0, 12.0),
            "signs stay, and what never fired"
        );
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn whatever_is_seen_scores_stay_within_bounds(
            has in prop::collection::vec(-20.0f64..20.0, 1..6),
            events in prop::collection::vec((any::<bool>(), -1e6f64..1e6, prop::collection::vec((0usize..8, 0.0f32..=1.0), 0..5)), 0..60),
            prior in 0.0f64..50.0,
        ) {
            let examples: Vec<FitExample> =
                events.into_iter().map(|(is_bad, rest, shares)| FitExample { is_bad, rest, shares }).collect();
            let fitted = fit_scores(&has, &examples, &FitTerms { prior, ..FitTerms::default() });
            for (score, has) in fitted.iter().zip(&has) {
                prop_assert!(score.is_finite() && score * has >= 0.0 && score.abs() <= has.abs().max(8.0) + 0.01, "{} {}", score, has);
            }
        }
    }
}
