//! Fits of scores: what the judged rows of a backtest say of the scores of its rules.
//!
//! The fit to the earlier rows is measured on the later ones, which it has not seen; the scores that are proposed are fitted
//! to all.

use judge::{FitExample, FitRules, FitTerms, Rule, fit_scores};
use plan::Pipeline;
use serde::Serialize;
use thiserror::Error;

/// Judged events of either class below which there is nothing to fit.
const EVENTS_MIN: usize = 20;
/// Least change of a score that is one.
const CHANGE_MIN: f64 = 0.005;

/// The terms on which scores are fitted.
#[derive(Clone, Debug, PartialEq)]
pub struct ScoreFitQuery {
    /// Rules whose scores stay, and groups all of whose rules' scores do.
    pub fixed: Vec<String>,
    /// The share of the events, the earliest, that the measured fit sees.
    pub split: f64,
    /// The number of missed bad events that a false positive is worth.
    pub false_positive: f64,
    /// The inertia of the present scores, in contrary events.
    pub prior: f64,
    /// The largest score, but for those of which events add a share: these may double.
    pub most: f64,
}

impl Default for ScoreFitQuery {
    fn default() -> ScoreFitQuery {
        let FitTerms { false_positive, prior, most, .. } = FitTerms::default();
        ScoreFitQuery { fixed: Vec::new(), split: 0.6, false_positive, prior, most }
    }
}

/// A rule whose score was fitted.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FittedScore {
    /// The rule.
    pub name: String,
    /// Its score now.
    pub score: f64,
    /// The score fitted to all events.
    pub fitted: f64,
    /// The score fitted to the earlier ones.
    pub earlier: f64,
    /// Good events that it fired on.
    pub good: u64,
    /// Bad events that it fired on.
    pub bad: u64,
}

/// The quality of an order of scores.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ScoreQuality {
    /// Good events.
    pub good: usize,
    /// Bad events.
    pub bad: usize,
    /// The area above the ROC curve.
    pub one_minus_auc: f64,
    /// The recall where 0.1 % of the good ones are lost.
    pub recall_at_01: f64,
    /// The recall where 0.5 % of the good ones are lost.
    pub recall_at_05: f64,
}

/// Scores fitted to judged events.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ScoreFit {
    /// Judged events.
    pub events: usize,
    /// Bad ones among them.
    pub bad: usize,
    /// The later part, which no fit has seen, by the scores that are; `None` if it has one class only.
    pub before: Option<ScoreQuality>,
    /// The quality of the same events by the fit to the earlier part.
    pub after: Option<ScoreQuality>,
    /// The rules that fired on any of the events, those first whose scores move most.
    pub rules: Vec<FittedScore>,
}

/// The reason why scores are not fitted.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum ScoreFitError {
    /// Nothing can be learned of so few.
    #[error("{good} good and {bad} bad events are judged, and {EVENTS_MIN} of each are needed")]
    TooFew {
        /// Good events.
        good: usize,
        /// Bad events.
        bad: usize,
    },
    /// The name of what is to stay is no rule and no group.
    #[error("`{pipeline}` has no rule and no group `{name}`")]
    UnknownRule {
        /// The pipeline.
        pipeline: String,
        /// The name.
        name: String,
    },
}

impl ScoreFitQuery {
    /// Checks the names of rules and groups.
    ///
    /// # Errors
    /// If the pipeline lacks one.
    pub fn check(&self, pipeline: &Pipeline) -> Result<(), ScoreFitError> {
        let is_known = |name: &str| {
            pipeline.rules.rule(name).is_some()
                || pipeline.rules.groups().iter().any(|group| group.name == name)
        };
        let unknown = self.fixed.iter().find(|name| !is_known(name));
        unknown.map_or(Ok(()), |name| {
            let (pipeline, name) = (pipeline.name.clone(), name.clone());
            Err(ScoreFitError::UnknownRule { pipeline, name })
        })
    }

    /// Returns true if the score of a rule stays.
    fn keeps(&self, pipeline: &Pipeline, rule: &Rule) -> bool {
        let group = rule.group.map(|group| &pipeline.rules.groups()[group].name);
        self.fixed.contains(&rule.name) || group.is_some_and(|name| self.fixed.contains(name))
    }
}

impl ScoreFit {
    /// Fits the scores of a pipeline's rules to judged events in the order of their times. Takes some logarithms for each rule
    /// that fired on each event, some forty times over.
    ///
    /// # Errors
    /// If too few are judged, or a rule that is to stay is none.
    pub fn of(
        pipeline: &Pipeline,
        examples: &[FitExample],
        query: &ScoreFitQuery,
    ) -> Result<ScoreFit, ScoreFitError> {
        query.check(pipeline)?;
        let bad = examples.iter().filter(|example| example.is_bad).count();
        let good = examples.len() - bad;
        if bad.min(good) < EVENTS_MIN {
            return Err(ScoreFitError::TooFew { good, bad });
        }
        let rules = pipeline.rules.fit_rules(|rule| query.keeps(pipeline, rule));
        let even = pipeline.rules.bands().as_slice().first().map_or(0.0, |band| band.at);
        let ScoreFitQuery { false_positive, prior, most, .. } = *query;
        let terms = FitTerms { even, false_positive, prior, most };
        let (earlier, later) = examples.split_at((examples.len() as f64 * query.split) as usize);
        let measured = fit_scores(&rules, earlier, &terms);
        let fitted = fit_scores(&rules, examples, &terms);
        let mut fired = vec![[0u64; 2]; rules.rules.len()];
        for example in examples {
            example.shares.iter().for_each(|(rule, _)| fired[*rule][usize::from(example.is_bad)] += 1);
        }
        let names = pipeline.rules.rules().iter().map(|rule| &rule.name);
        let all = names.zip(&rules.rules).zip(measured.iter().zip(&fitted)).zip(&fired);
        let mut moved: Vec<FittedScore> = all
            .filter(|(((_, rule), _), [good, bad])| rule.is_fitted && rule.score != 0.0 && good + bad > 0)
            .map(|(((name, rule), (earlier, fitted)), [good, bad])| FittedScore {
                name: name.clone(),
                score: rule.score,
                fitted: *fitted,
                earlier: *earlier,
                good: *good,
                bad: *bad,
            })
            .collect();
        let distance = |rule: &FittedScore| (rule.fitted - rule.score).abs();
        moved.sort_by(|one, other| {
            distance(other).total_cmp(&distance(one)).then_with(|| one.name.cmp(&other.name))
        });
        let quality = |scores: &[f64]| ScoreQuality::of(&rules, later, scores);
        let (before, after) = (quality(&rules.scores()), quality(&measured));
        Ok(ScoreFit { events: examples.len(), bad, before, after, rules: moved })
    }

    /// The rules whose scores change, with the fitted ones.
    pub fn changed(&self) -> impl Iterator<Item = (&str, f64)> {
        let is_changed = |rule: &&FittedScore| (rule.fitted - rule.score).abs() >= CHANGE_MIN;
        self.rules.iter().filter(is_changed).map(|rule| (rule.name.as_str(), rule.fitted))
    }

    /// Returns true if the fit finds less of the later events than the scores that are.
    pub fn is_worse(&self) -> bool {
        self.before.zip(self.after).is_some_and(|(before, after)| after.recall_at_01 < before.recall_at_01)
    }
}

impl ScoreQuality {
    /// The quality of these scores on some events; `None` where a class lacks.
    fn of(rules: &FitRules, examples: &[FitExample], scores: &[f64]) -> Option<ScoreQuality> {
        let class = |is_bad: bool| {
            let of_class = examples.iter().filter(move |example| example.is_bad == is_bad);
            let mut points: Vec<f64> = of_class.map(|example| rules.score(example, scores)).collect();
            points.sort_by(f64::total_cmp);
            points
        };
        let (good, bad) = (class(false), class(true));
        let (last, _) = (good.last()?, bad.last()?);
        // Ties count half.
        let below: f64 = bad
            .iter()
            .map(|score| {
                let (under, upto) =
                    (good.partition_point(|it| it < score), good.partition_point(|it| it <= score));
                (under + upto) as f64 / 2.0
            })
            .sum();
        let recall = |share: f64| {
            let lost = (good.len() as f64 * share) as usize;
            let line = good.get(good.len() - 1 - lost.min(good.len() - 1)).unwrap_or(last);
            let caught = bad.len() - bad.partition_point(|score| score <= line);
            caught as f64 / bad.len() as f64
        };
        Some(ScoreQuality {
            good: good.len(),
            bad: bad.len(),
            one_minus_auc: 1.0 - below / (good.len() as f64 * bad.len() as f64),
            recall_at_01: recall(0.001),
            recall_at_05: recall(0.005),
        })
    }
}

#[cfg(test)]
mod tests {
    use judge::FitRule;

    use super::*;

    fn example(is_bad: bool, share: f32) -> FitExample {
        FitExample { is_bad, shares: vec![(0, share)] }
    }

    #[test]
    fn the_quality_of_an_order_counts_ties_half() {
        let rules = vec![FitRule { score: 2.0, is_fitted: true, has_share: false, group: None }];
        let rules = FitRules { rules, bounds: Vec::new() };
        let events = [example(false, 0.0), example(false, 0.5), example(true, 0.5), example(true, 1.0)];
        let quality =
            ScoreQuality::of(&rules, &events, &[2.0]).unwrap_or_else(|| panic!("both classes are there"));
        assert_eq!((quality.good, quality.bad), (2, 2));
        // Of four pairs three are right and one is a tie.
        assert!((quality.one_minus_auc - 0.125).abs() < 1e-12, "{quality:?}");
        assert!((quality.recall_at_01 - 0.5).abs() < 1e-12, "the one above every good event: {quality:?}");
        assert!(ScoreQuality::of(&rules, &events[..2], &[2.0]).is_none());
    }
}
