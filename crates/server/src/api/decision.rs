//! Decisions in JSON.

use std::collections::BTreeMap;

use event::Value;
use journal::json_value;
use judge::Action;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{ProblemJson, Timestamp, action_schema};

/// The decision about an event.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Decision)]
pub struct DecisionJson {
    /// Its name, for feedback and for `GET /v1/decisions/{id}`; 13 characters.
    pub id: String,
    /// The caller's name for the event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event_id: Option<String>,
    /// The pipeline that decided.
    pub pipeline: String,
    /// Its version: changes whenever something changes that verdicts depend on.
    pub version: String,
    /// The time of the event.
    pub time: Timestamp,
    /// The action that the caller is asked to take.
    #[schema(schema_with = action_schema)]
    pub action: Action,
    /// The sum of the scores of the reasons.
    pub score: f64,
    /// The probability that the event is bad, as far as its score tells: by the scores of judged events, or where too few
    /// are judged by a curve that is even where the lowest band begins.
    pub probability: f64,
    /// The next band above the score.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<NextBandJson>,
    /// An event of this id had been counted before; this one was judged, and not counted again.
    pub duplicate: bool,
    /// The event is not known to be counted, and was judged by what could be read. In a cluster one with an `id` is counted
    /// later, once. Absent where all is well.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub uncounted: bool,
    /// The journal could not be written: nobody can ask for this decision later. Absent where all is well.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unlogged: bool,
    /// The reason for an event without a decision: no place was free, or the time was over. The action is then what the
    /// pipeline's `on_error` says. Absent where all is well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The challenge to hand on to who is asked for one, in ALTCHA's format, where the pipeline has `[challenge]`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub challenge: Option<serde_json::Value>,
    /// The pass that a challenge earned which came with the event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pass: Option<PassJson>,
    /// The rules that fired, the weightiest first.
    pub reasons: Vec<ReasonJson>,
    /// The rules in shadow that fired. They have no influence.
    pub shadow: Vec<ReasonJson>,
    /// Fields of the event that the pipeline does not know, each with the nearest that it knows; or that it has none that is known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// A pass, to be shown as `pass.token` with later events.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Pass)]
pub struct PassJson {
    /// The text to show.
    pub token: String,
    /// Seconds for which it holds.
    pub seconds: u64,
}

impl From<engine::EarnedPass> for PassJson {
    fn from(pass: engine::EarnedPass) -> PassJson {
        let seconds = u64::try_from(pass.lifetime.0 / 1_000_000).unwrap_or(0);
        PassJson { token: pass.token, seconds }
    }
}

/// The next band above a score.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = NextBand)]
pub struct NextBandJson {
    /// The action that it asks for.
    #[schema(schema_with = action_schema)]
    pub action: Action,
    /// The amount that the score lacks to reach it.
    pub distance: f64,
}

/// A rule that fired.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Reason)]
pub struct ReasonJson {
    /// The rule's name.
    pub name: String,
    /// The amount that it added to the score.
    pub score: f64,
    /// The values that it saw, as one line for people.
    pub detail: String,
    /// The values that it saw, by what the rule calls them; `null` where there was none. Long texts and lists are
    /// cut.
    pub values: BTreeMap<String, serde_json::Value>,
}

impl From<&judge::Reason> for ReasonJson {
    fn from(reason: &judge::Reason) -> ReasonJson {
        ReasonJson {
            name: reason.rule.clone(),
            score: reason.score,
            detail: reason.detail.clone(),
            values: seen(&reason.values),
        }
    }
}

impl From<judge::NextBand> for NextBandJson {
    fn from(next: judge::NextBand) -> NextBandJson {
        NextBandJson { action: next.action, distance: next.distance }
    }
}

pub(super) fn reasons(reasons: &[judge::Reason]) -> Vec<ReasonJson> {
    reasons.iter().map(ReasonJson::from).collect()
}

impl From<&engine::Decision> for DecisionJson {
    fn from(decision: &engine::Decision) -> DecisionJson {
        let verdict = &decision.verdict;
        DecisionJson {
            id: decision.id.to_string(),
            event_id: decision.event_id.clone(),
            pipeline: decision.pipeline.name.clone(),
            version: decision.pipeline.version.clone(),
            time: Timestamp(decision.time),
            action: verdict.action,
            score: verdict.score,
            probability: verdict.probability,
            next: verdict.next.map(NextBandJson::from),
            duplicate: decision.duplicate,
            uncounted: decision.uncounted,
            unlogged: decision.unlogged,
            error: None,
            challenge: decision.challenge.as_ref().and_then(|issued| serde_json::from_str(&issued.json).ok()),
            pass: None,
            reasons: reasons(&verdict.reasons),
            shadow: reasons(&verdict.shadow),
            warnings: Vec::new(),
        }
    }
}

/// One line of the answer to a batch, in the order of the batch's lines.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(untagged)]
pub enum BatchLine {
    /// The line's decision.
    Decision(Box<DecisionJson>),
    /// The line was not an event. Nothing was counted for it; the others are not affected.
    Error(BatchError),
}

/// A line of a batch that was not an event.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct BatchError {
    /// The line, counted from 1.
    pub line: usize,
    /// The problem with it.
    pub error: ProblemJson,
}

pub(super) fn seen(values: &[(String, Option<Value>)]) -> BTreeMap<String, serde_json::Value> {
    let value = |value: &Option<Value>| value.as_ref().map_or(serde_json::Value::Null, json_value);
    values.iter().map(|(name, seen)| (name.clone(), value(seen))).collect()
}
