//! Scores of rules fitted to judged events: a logistic regression that starts from the scores that somebody set by hand.
//!
//! An event whose rules add up to `S` is bad with odds of `exp(S - even)`. A score moves only as far as events speak for it: each
//! is drawn to the one that it has by a Gaussian prior, keeps its sign, and stays within a bound. So a rule that fires seldom
//! keeps its score, and one that several others imply shares it with them. Rules of a group are fitted like others: they add up, too,
//! until a bound holds them.

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
    /// The rules that fired, by their places in the set, and the share of its score that each added.
    pub shares: Vec<(usize, f32)>,
}

/// A rule of a set, as a fit sees it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FitRule {
    /// Its score now.
    pub score: f64,
    /// True if the fit may move it.
    pub is_fitted: bool,
    /// True if events add a share of it: it is a weight, which may double whatever the largest score is.
    pub has_share: bool,
    /// The bounds of its group, by their place in [`FitRules::bounds`]; `None` if nothing bounds it.
    pub group: Option<usize>,
}

/// The rules of a set, in its order, and the bounds of its groups: with them, scores become the score of an event.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FitRules {
    /// The rules.
    pub rules: Vec<FitRule>,
    /// The least and the most that the rules of each bounded group add together.
    pub bounds: Vec<(f64, f64)>,
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
    /// The largest score, but for those of which events add a share.
    pub most: f64,
}

impl Default for FitTerms {
    fn default() -> FitTerms {
        FitTerms { even: 0.0, false_positive: 10.0, prior: 20.0, most: 8.0 }
    }
}

impl FitRules {
    /// The scores that the rules have.
    pub fn scores(&self) -> Vec<f64> {
        self.rules.iter().map(|rule| rule.score).collect()
    }

    /// Returns the score of an event, if the rules have these scores. A share of a rule that is not among them counts nothing.
    pub fn score(&self, example: &FitExample, scores: &[f64]) -> f64 {
        let mut sums: Vec<(usize, f64)> = Vec::new();
        let mut total = 0.0;
        for (rule, share) in &example.shares {
            let (Some(FitRule { group, .. }), Some(score)) = (self.rules.get(*rule), scores.get(*rule))
            else {
                continue;
            };
            let added = f64::from(*share) * score;
            match group {
                None => total += added,
                Some(group) => match sums.iter_mut().find(|(other, _)| other == group) {
                    Some((_, sum)) => *sum += added,
                    None => sums.push((*group, added)),
                },
            }
        }
        total + sums.iter().map(|(group, sum)| self.bounded(*group, *sum)).sum::<f64>()
    }

    fn bounded(&self, group: usize, sum: f64) -> f64 {
        self.bounds.get(group).map_or(sum, |(floor, cap)| sum.clamp(*floor, *cap))
    }
}

/// A rule that fired on an event.
struct RuleHit {
    example: usize,
    share: f64,
    /// The sum of its group on that event, by its place among all of them, and the group.
    sum: Option<(usize, usize)>,
}

/// Returns the scores that fit best, to a hundredth, in the order of the rules. A rule of a bounded group moves by the events on
/// which its group is within its bounds: on the others its score changes nothing.
///
/// A call costs some logarithms for each rule that fired on each event, twenty times over.
pub fn fit_scores(rules: &FitRules, examples: &[FitExample], terms: &FitTerms) -> Vec<f64> {
    let mut scores = rules.scores();
    let mut odds: Vec<f64> =
        examples.iter().map(|example| rules.score(example, &scores) - terms.even).collect();
    let (mut by_rule, mut sums) = firings(rules, examples, &scores);
    by_rule.retain(|(_, fired)| !fired.is_empty());
    for _ in 0..ROUNDS_MAX {
        let mut moved = 0.0f64;
        for (rule, fired) in &by_rule {
            let FitRule { score: has, has_share, .. } = rules.rules[*rule];
            let score = &mut scores[*rule];
            let mut slope = terms.prior * (*score - has);
            let mut curvature = terms.prior;
            for RuleHit { example, share, sum } in fired {
                if sum.is_some_and(|(place, group)| rules.bounded(group, sums[place]) != sums[place]) {
                    continue;
                }
                let is_bad = examples[*example].is_bad;
                let weight = if is_bad { 1.0 } else { terms.false_positive };
                let bad = 1.0 / (1.0 + (-odds[*example].clamp(-ODDS_MAX, ODDS_MAX)).exp());
                slope += weight * share * (bad - f64::from(u8::from(is_bad)));
                curvature += weight * share * share * bad * (1.0 - bad);
            }
            let step = if curvature > 0.0 { (-slope / curvature).clamp(-STEP_MAX, STEP_MAX) } else { 0.0 };
            // A score beyond the bound stays where it is rather than jump.
            let most = terms.most.max(if has_share { 2.0 * has.abs() } else { has.abs() });
            let (low, high) = if has > 0.0 { (0.0, most) } else { (-most, 0.0) };
            let step = (*score + step).clamp(low, high) - *score;
            for RuleHit { example, share, sum } in fired {
                odds[*example] += match sum {
                    None => step * share,
                    Some((place, group)) => {
                        let before = rules.bounded(*group, sums[*place]);
                        sums[*place] += step * share;
                        rules.bounded(*group, sums[*place]) - before
                    }
                };
            }
            *score += step;
            moved = moved.max(step.abs());
        }
        if moved < SETTLED {
            break;
        }
    }
    scores.iter().map(|score| (score * 100.0).round() / 100.0 + 0.0).collect()
}

/// Returns the events on which each fitted rule fired, and the sums of the bounded groups on each event.
fn firings(
    rules: &FitRules,
    examples: &[FitExample],
    scores: &[f64],
) -> (Vec<(usize, Vec<RuleHit>)>, Vec<f64>) {
    let mut by_rule: Vec<(usize, Vec<RuleHit>)> =
        (0..rules.rules.len()).map(|rule| (rule, Vec::new())).collect();
    let mut sums: Vec<f64> = Vec::new();
    for (number, example) in examples.iter().enumerate() {
        let mut places: Vec<(usize, usize)> = Vec::new();
        for (rule, share) in &example.shares {
            let Some(FitRule { score, is_fitted, group, .. }) = rules.rules.get(*rule) else { continue };
            let share = f64::from(*share);
            let sum = group.map(|group| {
                let known = places.iter().find(|(_, other)| *other == group).copied();
                let (place, group) = known.unwrap_or_else(|| {
                    sums.push(0.0);
                    places.push((sums.len() - 1, group));
                    (sums.len() - 1, group)
                });
                sums[place] += share * scores[*rule];
                (place, group)
            });
            if *is_fitted && *score != 0.0 {
                by_rule[*rule].1.push(RuleHit { example: number, share, sum });
            }
        }
    }
    (by_rule, sums)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn example(is_bad: bool, rules: &[usize]) -> FitExample {
        FitExample { is_bad, shares: rules.iter().map(|rule| (*rule, 1.0)).collect() }
    }

    /// Rules with these scores that all may move and that nothing bounds.
    fn free(scores: &[f64]) -> FitRules {
        let rule = |score: &f64| FitRule { score: *score, is_fitted: true, has_share: false, group: None };
        FitRules { rules: scores.iter().map(rule).collect(), bounds: Vec::new() }
    }

    /// Rules with these scores in one group with these bounds.
    fn grouped(scores: &[f64], bounds: (f64, f64)) -> FitRules {
        let mut rules = free(scores);
        rules.rules.iter_mut().for_each(|rule| rule.group = Some(0));
        FitRules { bounds: vec![bounds], ..rules }
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
        let fitted = fit_scores(&free(&[1.0]), &examples, &TERMS);
        assert!((fitted[0] - (2.0 + 9f64.ln())).abs() < 0.02, "{fitted:?}");
        // A false positive that is worth nine missed ones: even.
        let dear = fit_scores(&free(&[1.0]), &examples, &FitTerms { false_positive: 9.0, ..TERMS });
        assert!((dear[0] - 2.0).abs() < 0.02, "{dear:?}");
        // Two rules that always fire together share it.
        let mut both = Vec::new();
        seen(&mut both, &[0, 1], 100, 900);
        let fitted = fit_scores(&free(&[1.0, 1.0]), &both, &TERMS);
        assert!((fitted[0] + fitted[1] - (2.0 + 9f64.ln())).abs() < 0.05, "{fitted:?}");
        assert!((fitted[0] - fitted[1]).abs() < 1.5, "{fitted:?}");
        // Half a share of a rule is worth half of its score, and what is not fitted counts, too.
        let half = |is_bad| FitExample { is_bad, shares: vec![(0, 0.5), (1, 1.0)] };
        let halves: Vec<FitExample> = (0..1_000).map(|number| half(number % 10 != 0)).collect();
        let mut with_fixed = free(&[1.0, 1.0]);
        with_fixed.rules[1].is_fitted = false;
        let fitted = fit_scores(&with_fixed, &halves, &TERMS);
        assert_eq!(fitted[1].to_bits(), 1f64.to_bits(), "{fitted:?}");
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
        let fitted = fit_scores(&free(&has), &examples, &terms);
        assert!((fitted[0] - 3.0).abs() < 0.2, "three events say little: {fitted:?}");
        assert!(fitted[1] > 3.0 && fitted[1] <= 8.0, "{fitted:?}");
        assert_eq!(
            (fitted[2], fitted[3], fitted[4], fitted[5]),
            (0.0, -2.0, 0.0, 12.0),
            "signs stay, and what never fired"
        );
    }

    #[test]
    fn a_weight_may_double() {
        let quarter = |_| FitExample { is_bad: true, shares: vec![(0, 0.25)] };
        let examples: Vec<FitExample> = (0..5_000).map(quarter).collect();
        let mut rules = free(&[12.0]);
        assert_eq!(fit_scores(&rules, &examples, &TERMS), [12.0]);
        rules.rules[0].has_share = true;
        assert_eq!(fit_scores(&rules, &examples, &TERMS), [24.0]);
    }

    #[test]
    fn groups_are_fitted_within_their_bounds() {
        let mut examples = Vec::new();
        seen(&mut examples, &[0], 100, 900);
        let best = 2.0 + 9f64.ln();
        // Bounds that are never met change nothing.
        let fitted = fit_scores(&grouped(&[1.0], (-20.0, 20.0)), &examples, &TERMS);
        assert!((fitted[0] - best).abs() < 0.02, "{fitted:?}");
        // Beyond its cap a group adds the cap, whatever its rules say: nothing is learned of them there.
        let capped = grouped(&[2.0, 3.0], (0.0, 2.5));
        let both = example(true, &[0, 1]);
        assert!((capped.score(&both, &[2.0, 3.0]) - 2.5).abs() < 1e-9);
        assert!((capped.score(&both, &[2.0, 0.1]) - 2.1).abs() < 1e-9);
        let many: Vec<FitExample> = (0..500).map(|_| example(false, &[0, 1])).collect();
        assert_eq!(fit_scores(&capped, &many, &TERMS), [2.0, 3.0]);
        // A rule that only the bound hides from good events is not fitted to what it does not add.
        let mut with_ham = grouped(&[1.0, -9.0], (-1.0, 20.0));
        with_ham.rules[1].is_fitted = false;
        seen(&mut examples, &[0, 1], 5_000, 0);
        let fitted = fit_scores(&with_ham, &examples, &TERMS);
        assert!((fitted[0] - best).abs() < 0.02, "{fitted:?}");
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn whatever_is_seen_scores_stay_within_bounds(
            has in prop::collection::vec(-20.0f64..20.0, 1..6),
            events in prop::collection::vec((any::<bool>(), prop::collection::vec((0usize..8, 0.0f32..=1.0), 0..5)), 0..60),
            bounds in prop::option::of((-30.0f64..=0.0, 0.0f64..30.0)),
            prior in 0.0f64..50.0,
        ) {
            let examples: Vec<FitExample> =
                events.into_iter().map(|(is_bad, shares)| FitExample { is_bad, shares }).collect();
            let rules = bounds.map_or_else(|| free(&has), |bounds| grouped(&has, bounds));
            let fitted = fit_scores(&rules, &examples, &FitTerms { prior, ..FitTerms::default() });
            for (score, has) in fitted.iter().zip(&has) {
                prop_assert!(score.is_finite() && score * has >= 0.0 && score.abs() <= has.abs().max(8.0) + 0.01, "{} {}", score, has);
            }
        }
    }
}
