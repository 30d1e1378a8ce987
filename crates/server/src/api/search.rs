//! Lists of past decisions in JSON.

use std::collections::BTreeMap;

use engine::{DecisionPage, ListedDecision};
use event::Time;
use journal::json_value;
use judge::Action;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{Timestamp, action_schema};

/// A page of past decisions, newest first.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = DecisionPage)]
pub struct DecisionPageJson {
    /// The decisions.
    pub decisions: Vec<ListedDecisionJson>,
    /// The text to ask for the next page with, as `after`; absent at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    /// True if the search stopped before the page was full, as it had read as much as one request may: it goes on at `next`.
    /// Absent otherwise.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub partial: bool,
    /// The time before which labels of decisions were not read yet, so that their `label` may be missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub labels_from: Option<Timestamp>,
    /// The number of records that were looked at for this page.
    pub looked_at: u64,
    /// The number of stretches of the journal that were passed over because they are damaged. Absent where there are none.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub damaged: u64,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// A past decision, as lists have it. `GET /v1/decisions/{id}` has all of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = ListedDecision)]
pub struct ListedDecisionJson {
    /// Its id.
    pub id: String,
    /// The caller's name for the event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event_id: Option<String>,
    /// The pipeline that decided.
    pub pipeline: String,
    /// Its version at that time.
    pub version: String,
    /// The time of the event.
    pub time: Timestamp,
    /// The time of its arrival.
    pub arrival: Timestamp,
    /// An event of this id had been counted before. Absent otherwise.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub duplicate: bool,
    /// The action.
    #[schema(schema_with = action_schema)]
    pub action: Action,
    /// The score.
    pub score: f64,
    /// The probability that the event is bad, as it was said then.
    pub probability: f64,
    /// The enforced rules that fired, the weightiest first.
    pub rules: Vec<FiredRuleJson>,
    /// The rules in shadow that fired.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shadow: Vec<String>,
    /// The class of the last judgement of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// The time at which that was said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label_time: Option<Timestamp>,
    /// The facts that were asked for and have a value; of long texts the beginning.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub facts: BTreeMap<String, serde_json::Value>,
}

/// A rule that fired.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = FiredRule)]
pub struct FiredRuleJson {
    /// Its name.
    pub name: String,
    /// Its score.
    pub score: f64,
}

impl From<&ListedDecision> for ListedDecisionJson {
    fn from(listed: &ListedDecision) -> ListedDecisionJson {
        let rules = listed.rules.iter();
        let facts = listed.facts.iter();
        ListedDecisionJson {
            id: listed.id.to_string(),
            event_id: listed.event_id.clone(),
            pipeline: listed.pipeline.clone(),
            version: listed.version.clone(),
            time: Timestamp(listed.time),
            arrival: Timestamp(listed.arrival),
            duplicate: listed.duplicate,
            action: listed.action,
            score: listed.score,
            probability: listed.probability,
            rules: rules.map(|(name, score)| FiredRuleJson { name: name.clone(), score: *score }).collect(),
            shadow: listed.shadow.clone(),
            label: listed.label.as_ref().map(|(class, _)| class.to_string()),
            label_time: listed.label.as_ref().map(|(_, time)| Timestamp(*time)),
            facts: facts.map(|(name, value)| (name.clone(), json_value(value))).collect(),
        }
    }
}

impl From<&DecisionPage> for DecisionPageJson {
    fn from(page: &DecisionPage) -> DecisionPageJson {
        DecisionPageJson {
            decisions: page.decisions.iter().map(ListedDecisionJson::from).collect(),
            next: page.next.map(|id| id.to_string()),
            partial: page.is_partial,
            // An id has its time up to the millisecond.
            labels_from: page.labels_from.map(|id| Timestamp(id.time().max(Time(0)))),
            looked_at: page.looked_at,
            damaged: page.skipped.stretches,
        }
    }
}
