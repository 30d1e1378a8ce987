//! The impact of a rule, and taking it back, in JSON.

use std::collections::BTreeMap;

use judge::Action;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{Timestamp, action_schema};

/// A rule whose effects on past events are to be taken back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CorrectionRequest {
    /// The pipeline; the first of the configuration if none is named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pipeline: Option<String>,
    /// The rule.
    pub rule: String,
    /// Only decisions of this version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Only events that were decided on at this time or later.
    pub from: Timestamp,
    /// Only events that were decided on before this time; until now if it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<Timestamp>,
}

/// A correction: how far it is, or what came of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Correction)]
pub struct CorrectionJson {
    /// `none` since the start, `running`, `done`, or `failed`: then order it again, and it goes on where it ended.
    pub state: String,
    /// The pipeline.
    pub pipeline: String,
    /// The rule.
    pub rule: String,
    /// The name of who ordered it.
    pub by: String,
    /// The time of the order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub begun: Option<Timestamp>,
    /// The time of its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<Timestamp>,
    /// Decisions that were gone through.
    pub hits: u64,
    /// The reason why it has failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// The sum of what was taken back, once it is done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub impact: Option<RuleImpactJson>,
}

/// The sum of what a rule did to past events, and what of it is taken back, or would be.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = RuleImpact)]
pub struct RuleImpactJson {
    /// Decisions for which it fired, enforced.
    pub hits: u64,
    /// Decisions that it alone decided: without it the action would be another.
    pub alone: u64,
    /// Decisions of which it cannot be told what the action would be without it, as facts were not logged.
    pub untold: u64,
    /// Decisions of which what it did was taken back before, and is not again.
    pub corrected: u64,
    /// Decisions whose version is not kept any more, of which nothing is taken back.
    pub unknown: u64,
    /// Decisions by the action that was decided and the one without the rule.
    pub actions: Vec<WithoutRuleJson>,
    /// Additions to counters and sums of keys that are taken back.
    pub counts: u64,
    /// Additions that are not, by statistic: nothing keeps how much of these was taken back.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub lasting: BTreeMap<String, u64>,
    /// Labels on keys that end.
    pub labels: u64,
    /// Bans that end.
    pub bans: u64,
    /// True if not all was looked at.
    pub partial: bool,
    /// Up to 200 decisions, those first that it alone decided, of these the newest.
    pub decisions: Vec<RuleHitJson>,
    /// The nodes whose decisions are missing, as they do not answer: `3 (mail-3)`. Absent where all do.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub absent: Vec<String>,
}

/// The number of decisions that would have another action without a rule, or the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = WithoutRule)]
pub struct WithoutRuleJson {
    /// The action that was decided.
    #[schema(schema_with = action_schema)]
    pub action: Action,
    /// The action without the rule.
    #[schema(schema_with = action_schema)]
    pub without: Action,
    /// The number.
    pub decisions: u64,
}

/// A decision for which a rule fired.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = RuleHit)]
pub struct RuleHitJson {
    /// Its name, for `GET /v1/decisions/{id}`.
    pub id: String,
    /// The time of the event.
    pub time: Timestamp,
    /// The caller's name for the event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event_id: Option<String>,
    /// The version that decided.
    pub version: String,
    /// The action that was decided.
    #[schema(schema_with = action_schema)]
    pub action: Action,
    /// The action without the rule; left out where that cannot be told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub without: Option<Action>,
    /// True if what the rule did to it was taken back before.
    pub corrected: bool,
}

impl From<&engine::RuleImpact> for RuleImpactJson {
    fn from(impact: &engine::RuleImpact) -> RuleImpactJson {
        let actions = impact.actions.iter().map(|(action, without, decisions)| WithoutRuleJson {
            action: *action,
            without: *without,
            decisions: *decisions,
        });
        let decisions = impact.listed.iter().map(|hit| RuleHitJson {
            id: hit.id.to_string(),
            time: Timestamp(hit.time),
            event_id: hit.event_id.clone(),
            version: hit.version.clone(),
            action: hit.action,
            without: hit.without,
            corrected: hit.is_corrected,
        });
        RuleImpactJson {
            hits: impact.hits,
            alone: impact.alone,
            untold: impact.untold,
            corrected: impact.corrected,
            unknown: impact.unknown,
            actions: actions.collect(),
            counts: impact.counts,
            lasting: impact.lasting.clone(),
            labels: impact.labels,
            bans: impact.bans,
            partial: impact.is_partial,
            decisions: decisions.collect(),
            absent: Vec::new(),
        }
    }
}
