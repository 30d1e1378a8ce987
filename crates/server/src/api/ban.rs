//! Bans in JSON.

use engine::{Ban, LabelSource};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{Length, Timestamp};

/// A ban.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BanEntry {
    /// Its number; a later ban has a higher one.
    pub id: u64,
    /// The pipeline of the label.
    pub pipeline: String,
    /// The label.
    pub label: String,
    /// The measure to take, as the label's `decision` says, such as `ban`.
    #[serde(rename = "type")]
    pub decision: String,
    /// The kind of the key.
    pub kind: String,
    /// The address, network, or other piece.
    pub value: String,
    /// The origin of the label: a rule's name, or `API`.
    pub by: String,
    /// The time since which it holds without a break.
    pub since: Timestamp,
    /// The end of the ban.
    pub until: Timestamp,
    /// The decision whose rule put it on, or made it longer: `GET /v1/decisions/{id}` explains it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision_id: Option<String>,
    /// The reason that was given for a ban by hand.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

impl From<&Ban> for BanEntry {
    fn from(ban: &Ban) -> BanEntry {
        let LabelSource { pipeline, kind, label, decision, by } = (*ban.source).clone();
        let cause = ban.cause.as_deref();
        BanEntry {
            id: ban.id,
            pipeline,
            label,
            decision,
            kind,
            value: ban.value.to_string(),
            by,
            since: Timestamp(ban.since),
            until: Timestamp(ban.until),
            decision_id: cause.and_then(|cause| Some(cause.decision?.to_string())),
            why: cause.and_then(|cause| cause.why.clone()),
        }
    }
}

/// A page of the ban list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BanPage {
    /// The bans, the newest first.
    pub bans: Vec<BanEntry>,
    /// The value of `before` for the next page, if there may be more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<u64>,
    /// The number of bans in the whole list.
    pub all: usize,
}

/// A label for the key of a value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct LabelRequest {
    /// The pipeline; the first of the configuration if none is named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pipeline: Option<String>,
    /// The kind of the key.
    pub kind: String,
    /// The label, one with a `decision`.
    pub label: String,
    /// The value, as it stands in events.
    pub value: String,
    /// The time for which it is to hold, such as `4h`; at most the label's `keep`.
    #[serde(rename = "for")]
    pub lasts: Length,
    /// The reason, shown wherever the ban is; at most 1,000 bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// The outcome of putting a label on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LabelOutcome {
    /// Until when it holds.
    pub until: Timestamp,
    /// The value as enforcement points get it.
    pub value: String,
    /// True if it holds on this node alone for now, as the cluster cannot be reached: other nodes hear of it later.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unshared: bool,
}

/// The bans that were taken off.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LiftOutcome {
    /// The number of bans that were lifted; enforcement points get it when they next ask.
    pub lifted: usize,
    /// True if they are lifted on this node alone for now, as the cluster cannot be reached: other nodes hear of it later.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unshared: bool,
}
