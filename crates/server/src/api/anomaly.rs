//! Anomalies in JSON.

use std::collections::BTreeMap;

use engine::{ANOMALY_SPAN, Anomaly, AnomalySort};
use event::Time;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::Timestamp;

/// The anomalies of the last hour.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Anomalies)]
pub struct AnomaliesJson {
    /// The time at which it was looked at: an answer is up to a minute old.
    pub at: Timestamp,
    /// The anomalies, by node and pipeline; of a sort those first that are furthest from what was expected.
    pub anomalies: Vec<AnomalyJson>,
    /// The nodes whose anomalies are missing, as they do not answer: `3 (mail-3)`. Absent where all do.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub absent: Vec<String>,
}

/// A thing that is unlike its past.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Anomaly)]
pub struct AnomalyJson {
    /// `traffic`, `action`, `rule`, `hot_key`, or `drift` for a promise or probabilities that do not come true.
    pub sort: String,
    /// The pipeline.
    pub pipeline: String,
    /// The node of a cluster whose decisions it is about: `3 (mail-3)`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// The rule, action or kind that it is about.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub subject: String,
    /// The value of a key, if a recent decision shows it, for who may read what events say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// The count of the last hour.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seen: Option<u64>,
    /// The count that the past lets expect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected: Option<f64>,
    /// The sentence for people.
    pub detail: String,
    /// The parameters by which `GET /v1/decisions` lists the decisions behind it.
    pub search: BTreeMap<String, String>,
}

impl AnomalyJson {
    /// Describes an anomaly for a reader who may read what events say, or not.
    pub fn new(of: &Anomaly, at: Time, may_read_content: bool) -> AnomalyJson {
        let value = of.piece.clone().filter(|_| may_read_content);
        let mut search = BTreeMap::from([("pipeline", of.pipeline.clone())]);
        if of.seen.is_some() {
            search.insert("from", (at - ANOMALY_SPAN).to_string());
        }
        match of.sort {
            AnomalySort::Rule => _ = search.insert("rule", of.subject.clone()),
            AnomalySort::Action => _ = search.insert("action", of.subject.clone()),
            AnomalySort::HotKey => {
                if let Some(value) = &value {
                    search.insert("kind", of.subject.clone());
                    search.insert("value", value.clone());
                }
            }
            AnomalySort::Drift => _ = search.insert("labelled", "true".to_owned()),
            AnomalySort::Traffic => {}
        }
        AnomalyJson {
            sort: of.sort.name().to_owned(),
            pipeline: of.pipeline.clone(),
            node: None,
            subject: of.subject.clone(),
            value,
            seen: of.seen,
            expected: of.expected.map(|expected| (expected * 100.0).round() / 100.0),
            detail: of.detail.clone(),
            search: search.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
        }
    }

    /// Returns what another node has found as its anomaly, for a reader who may read what events say, or not.
    pub(crate) fn of_other(self, node: &str, may_read_content: bool) -> AnomalyJson {
        let mut found = AnomalyJson { node: Some(node.to_owned()), ..self };
        if !may_read_content {
            found.value = None;
            ["kind", "value"].iter().for_each(|name| _ = found.search.remove(*name));
        }
        found
    }
}
