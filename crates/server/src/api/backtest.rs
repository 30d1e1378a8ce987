//! Back-tests in JSON.

use engine::backtest::{ActionChange, BacktestExample, BacktestReport, ClassificationQuality, RowVerdict};
use judge::Action;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{Length, ScoreFitJson, ScoreFitRequest, Timestamp, action_schema};

/// The rules that are tried, and the decisions on which. Without `rules`, `version` and `candidate` those in force are tried.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BacktestRequest {
    /// The pipeline; the first of the configuration if none is named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pipeline: Option<String>,
    /// A text of rules, TOML, that is laid over the pipeline's file as `POST /v1/rules` would.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rules: Option<String>,
    /// A version that is kept, or as much of its beginning as no other has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Try the candidate that was posted.
    #[serde(default)]
    pub candidate: bool,
    /// The time before now that is gone through, such as `1h`, `1d` or `7d`. One day if no begin is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub span: Option<Length>,
    /// Only events at this time or later, instead of `span`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<Timestamp>,
    /// Only events before this time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<Timestamp>,
    /// Judgements of events that should be caught; if none are named, what `[reports]` calls `bad`, or else the usual names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bad: Vec<String>,
    /// Actions that catch an event; if none are named, all but `accept`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<String>)]
    pub caught: Vec<Action>,
    /// Fit the scores of rules to the judged decisions, too, as `tollhouse fit` does. Nothing changes by that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fit: Option<ScoreFitRequest>,
    /// End when the sample was judged.
    #[serde(default)]
    pub sample_only: bool,
}

/// A back-test: how far it is, or what came of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Backtest)]
pub struct BacktestJson {
    /// Its name, for `GET` and `DELETE /v1/backtests/{id}`.
    pub id: String,
    /// `waiting`, `sampling`, `running`, `done`, `cancelled` or `failed`.
    pub state: String,
    /// The pipeline.
    pub pipeline: String,
    /// The version that is in force with the rules that are tried.
    pub version: String,
    /// The name of who began it.
    pub by: String,
    /// The time at which it was begun.
    pub begun: Timestamp,
    /// The time of its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<Timestamp>,
    /// Events at this time or later.
    pub from: Timestamp,
    /// Events before this time.
    pub to: Timestamp,
    /// Decisions that were judged so far, but for those of the sample.
    pub rows: u64,
    /// The share of the time that was gone through, from 0 to 1.
    pub progress: f64,
    /// True as long as `report` is that of a sample spread over the time.
    pub is_sample: bool,
    /// The reason why it has failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// Bytes of the journal that were passed over, as they are damaged.
    pub damaged: u64,
    /// The report: of the sample first, then of the whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub report: Option<BacktestReportJson>,
}

/// The back-tests that are at work or that ended last.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Backtests)]
pub struct BacktestsJson {
    /// The back-tests, the newest first, without reports.
    pub backtests: Vec<BacktestJson>,
}

/// The report of a back-test.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = BacktestReport)]
pub struct BacktestReportJson {
    /// Decisions that were judged anew.
    pub rows: u64,
    /// Decisions with another action.
    pub changed: u64,
    /// Decisions with another score.
    pub rescored: u64,
    /// Decisions by action before and after, the most frequent first; those that keep theirs are there, too.
    pub actions: Vec<ActionChangeJson>,
    /// Decisions with a judgement.
    pub labelled: u64,
    /// Judged decisions by label, the most frequent first.
    pub labels: Vec<LabelChangeJson>,
    /// The quality with which these were told apart.
    pub before: QualityJson,
    /// The quality with which the rules that are tried tell these apart.
    pub after: QualityJson,
    /// All rules, in the order of the set that is tried; then those that it does not have.
    pub rules: Vec<RuleHitsJson>,
    /// Facts that were not logged, and what was left out for want of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_logged: Vec<MissingFactJson>,
    /// Decisions whose version nobody described, which are not judged.
    pub undescribed: u64,
    /// The fitted scores, if they were asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fit: Option<ScoreFitJson>,
    /// The reason why no scores are fitted, such as too few judged decisions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fit_problem: Option<String>,
    /// The fifty decisions that tell most: those with another action first, among these those with a label.
    pub examples: Vec<BacktestExampleJson>,
}

/// The number of decisions that had one action and have another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = ActionChange)]
pub struct ActionChangeJson {
    /// The action that was decided.
    #[schema(schema_with = action_schema)]
    pub before: Action,
    /// The action of the rules that are tried.
    #[schema(schema_with = action_schema)]
    pub after: Action,
    /// The number.
    pub rows: u64,
}

/// Decisions with a label.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = LabelChange)]
pub struct LabelChangeJson {
    /// The label.
    pub label: String,
    /// True if events with it should be caught; left out if it says neither.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub is_bad: Option<bool>,
    /// The number of decisions.
    pub rows: u64,
    /// Decisions with another action.
    pub changed: u64,
    /// Decisions by action before and after.
    pub actions: Vec<ActionChangeJson>,
}

/// The quality with which judged decisions are told apart.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Quality)]
pub struct QualityJson {
    /// Bad ones that are caught.
    pub true_positives: u64,
    /// Good ones that are caught.
    pub false_positives: u64,
    /// Bad ones that are not.
    pub false_negatives: u64,
    /// Good ones that are not.
    pub true_negatives: u64,
    /// The share of what is caught that is bad; left out if nothing is caught.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub precision: Option<f64>,
    /// The share of what is bad that is caught; left out if nothing is bad.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recall: Option<f64>,
    /// The share of what is good that is caught; left out if nothing is good.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub false_positive_rate: Option<f64>,
}

/// The number of times that a rule fired and fires.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = BacktestRuleHits)]
pub struct RuleHitsJson {
    /// Its name.
    pub rule: String,
    /// Its mode in the set that is tried; left out if that does not have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// Decisions on which it had fired, enforced or in shadow.
    pub before: u64,
    /// Decisions on which it fires, enforced or in shadow.
    pub after: u64,
}

/// A fact that was not logged, and what cannot be judged without it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = MissingFact)]
pub struct MissingFactJson {
    /// The fact or reading.
    pub fact: String,
    /// The rules, and models as `model NAME`, that were left out.
    pub needed_by: Vec<String>,
    /// The decisions of which that is true.
    pub rows: u64,
}

/// A decision that is judged otherwise.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = BacktestExample)]
pub struct BacktestExampleJson {
    /// Its name, for `GET /v1/decisions/{id}`.
    pub id: String,
    /// The time of the event.
    pub time: String,
    /// The caller's name for the event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event_id: Option<String>,
    /// The latest label.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// The verdict that was decided.
    pub before: RowVerdictJson,
    /// The verdict of the rules that are tried.
    pub after: RowVerdictJson,
    /// Enforced rules that fire now and had not.
    pub fires_now: Vec<String>,
    /// Enforced rules that had fired and do not now.
    pub fires_no_more: Vec<String>,
}

/// The verdict of a set of rules on a decision.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = RowVerdict)]
pub struct RowVerdictJson {
    /// The score.
    pub score: f64,
    /// The action.
    #[schema(schema_with = action_schema)]
    pub action: Action,
}

impl From<RowVerdict> for RowVerdictJson {
    fn from(RowVerdict { score, action }: RowVerdict) -> RowVerdictJson {
        RowVerdictJson { score, action }
    }
}

impl From<&ClassificationQuality> for QualityJson {
    fn from(quality: &ClassificationQuality) -> QualityJson {
        QualityJson {
            true_positives: quality.counts.true_positives,
            false_positives: quality.counts.false_positives,
            false_negatives: quality.counts.false_negatives,
            true_negatives: quality.counts.true_negatives,
            precision: quality.precision,
            recall: quality.recall,
            false_positive_rate: quality.false_positive_rate,
        }
    }
}

impl From<&BacktestExample> for BacktestExampleJson {
    fn from(example: &BacktestExample) -> BacktestExampleJson {
        BacktestExampleJson {
            id: example.id.clone(),
            time: example.time.clone(),
            event_id: example.event_id.clone(),
            label: example.label.clone(),
            before: example.before.into(),
            after: example.after.into(),
            fires_now: example.fires_now.clone(),
            fires_no_more: example.fires_no_more.clone(),
        }
    }
}

fn changes(changes: &[ActionChange]) -> Vec<ActionChangeJson> {
    let json = |change: &ActionChange| ActionChangeJson {
        before: change.before,
        after: change.after,
        rows: change.rows,
    };
    changes.iter().map(json).collect()
}

impl BacktestReportJson {
    /// A report, with the text of the rules that were tried.
    pub fn new(report: &BacktestReport, text: Option<&str>) -> BacktestReportJson {
        let labels = report.labels.iter().map(|label| LabelChangeJson {
            label: label.label.clone(),
            is_bad: label.is_bad,
            rows: label.rows,
            changed: label.changed,
            actions: changes(&label.actions),
        });
        let rules = report.rules.iter().map(|rule| RuleHitsJson {
            rule: rule.rule.clone(),
            mode: rule.mode.map(|mode| mode.name().to_owned()),
            before: rule.before,
            after: rule.after,
        });
        let not_logged = report.not_logged.iter().map(|missing| MissingFactJson {
            fact: missing.fact.clone(),
            needed_by: missing.needed_by.clone(),
            rows: missing.rows,
        });
        let (fit, problem) = match &report.fit {
            None => (None, None),
            Some(Ok(fit)) => (Some(fit), None),
            Some(Err(problem)) => (None, Some(problem)),
        };
        BacktestReportJson {
            rows: report.rows,
            changed: report.changed,
            rescored: report.rescored,
            actions: changes(&report.actions),
            labelled: report.labelled,
            labels: labels.collect(),
            before: QualityJson::from(&report.quality.before),
            after: QualityJson::from(&report.quality.after),
            rules: rules.collect(),
            not_logged: not_logged.collect(),
            undescribed: report.undescribed,
            fit: fit.map(|fit| ScoreFitJson::new(fit, text)),
            fit_problem: problem.map(ToString::to_string),
            examples: report.examples.iter().map(BacktestExampleJson::from).collect(),
        }
    }
}
