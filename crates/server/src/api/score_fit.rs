//! Fits of scores in JSON.

use engine::backtest::{FittedScore, ScoreFit, ScoreFitQuery, ScoreQuality};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The terms on which scores are fitted to judged decisions; `{}` for the usual ones.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = ScoreFitRequest)]
pub struct ScoreFitRequest {
    /// Rules whose scores stay, and groups all of whose rules' scores do.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fixed: Vec<String>,
    /// The share of the judged decisions, the earliest, that the measured fit sees; 0.6 if none is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub split: Option<f64>,
    /// The number of missed bad events that a false positive is worth; 10 if none is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub false_positive: Option<f64>,
    /// The inertia of the present scores, in contrary events; 20 if none is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prior: Option<f64>,
    /// The largest score, 8 if none is said; scores of which events add a `share` may double.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub most: Option<f64>,
}

/// Scores fitted to the judged decisions of a back-test.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = ScoreFit)]
pub struct ScoreFitJson {
    /// Judged decisions: the newest 200,000 at most.
    pub events: usize,
    /// Bad ones among them.
    pub bad: usize,
    /// The quality of the scores that are, on the later part; left out if that has one class only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<ScoreQualityJson>,
    /// The quality on the same of scores fitted to the earlier part, which has none of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<ScoreQualityJson>,
    /// True if the fit finds less than the scores that are: then these are better kept.
    pub is_worse: bool,
    /// The rules that fired on any of them, those first whose scores move most.
    pub rules: Vec<FittedScoreJson>,
    /// The posted rules with the fitted scores, for `POST /v1/rules`; left out for a kept version, which is no posted text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

/// The quality of an order of scores.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = ScoreQuality)]
pub struct ScoreQualityJson {
    /// Good decisions.
    pub good: usize,
    /// Bad decisions.
    pub bad: usize,
    /// The area above the ROC curve: the share of pairs of a good and a bad one that are in the wrong order.
    pub one_minus_auc: f64,
    /// The recall where 0.1 % of the good ones are lost.
    pub recall_at_01: f64,
    /// The recall where 0.5 % of the good ones are lost.
    pub recall_at_05: f64,
}

/// A rule whose score was fitted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = FittedScore)]
pub struct FittedScoreJson {
    /// Its name.
    pub rule: String,
    /// Its score now.
    pub score: f64,
    /// The score fitted to all judged decisions.
    pub fitted: f64,
    /// The score fitted to the earlier ones.
    pub earlier: f64,
    /// Good decisions that it fired on.
    pub good: u64,
    /// Bad decisions that it fired on.
    pub bad: u64,
}

impl ScoreFitRequest {
    /// Reads the terms.
    ///
    /// # Errors
    /// The first term that is wrong.
    pub(crate) fn read(self) -> Result<ScoreFitQuery, String> {
        let usual = ScoreFitQuery::default();
        let query = ScoreFitQuery {
            fixed: self.fixed,
            split: self.split.unwrap_or(usual.split),
            false_positive: self.false_positive.unwrap_or(usual.false_positive),
            prior: self.prior.unwrap_or(usual.prior),
            most: self.most.unwrap_or(usual.most),
        };
        if query.split <= 0.0 || query.split >= 1.0 {
            return Err("fit.split: expected a number between 0 and 1, such as 0.6".to_owned());
        }
        let positive =
            [("false_positive", query.false_positive), ("prior", query.prior), ("most", query.most)];
        match positive.iter().find(|(_, number)| !number.is_finite() || *number <= 0.0) {
            Some((name, _)) => Err(format!("fit.{name}: expected a number above 0")),
            None => Ok(query),
        }
    }
}

impl ScoreFitJson {
    /// A fit, with the text whose scores are fitted.
    pub(crate) fn new(fit: &ScoreFit, text: Option<&str>) -> ScoreFitJson {
        ScoreFitJson {
            events: fit.events,
            bad: fit.bad,
            before: fit.before.map(ScoreQualityJson::from),
            after: fit.after.map(ScoreQualityJson::from),
            is_worse: fit.is_worse(),
            rules: fit.rules.iter().map(FittedScoreJson::from).collect(),
            text: text.and_then(|text| plan::with_scores(text, fit.changed()).ok()),
        }
    }
}

impl From<ScoreQuality> for ScoreQualityJson {
    fn from(quality: ScoreQuality) -> ScoreQualityJson {
        let ScoreQuality { good, bad, one_minus_auc, recall_at_01, recall_at_05 } = quality;
        ScoreQualityJson { good, bad, one_minus_auc, recall_at_01, recall_at_05 }
    }
}

impl From<&FittedScore> for FittedScoreJson {
    fn from(rule: &FittedScore) -> FittedScoreJson {
        FittedScoreJson {
            rule: rule.name.clone(),
            score: rule.score,
            fitted: rule.fitted,
            earlier: rule.earlier,
            good: rule.good,
            bad: rule.bad,
        }
    }
}
