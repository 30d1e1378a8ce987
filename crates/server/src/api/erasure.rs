//! Erasures in JSON.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::Timestamp;

/// An order to erase what is known of some keys.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct EraseRequest {
    /// The pipeline that has the kinds; the first of the configuration if none is named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pipeline: Option<String>,
    /// The keys, up to 1000.
    pub keys: Vec<EraseKeyJson>,
    /// Only count how much there is.
    #[serde(default)]
    pub dry_run: bool,
    /// Only reset the keys: their statistics, and so reputations, limits and labels, begin anew, and their bans end. Decisions,
    /// feedback, reviews, notes and snapshots stay. A key of several fields is reset where it is named itself.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub reset: bool,
}

/// A key to be erased.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = EraseKey)]
pub struct EraseKeyJson {
    /// The kind, which says how the value is normalised.
    pub kind: String,
    /// The value, as events have it.
    pub value: String,
}

/// An erasure: how far it is, or what came of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Erasure)]
pub struct EraseJson {
    /// `none` since the start, `running`, `done`, or `failed`: then order it again once that is mended.
    pub state: String,
    /// True if it only counts.
    pub dry_run: bool,
    /// True if it only resets the keys.
    #[serde(default)]
    pub reset: bool,
    /// The name of who ordered it.
    pub by: String,
    /// The kinds and hashes of the keys.
    pub keys: Vec<String>,
    /// The time of the order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub begun: Option<Timestamp>,
    /// The time of its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<Timestamp>,
    /// The part that is at work: `journal`, `statistics`, `lists`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// The number of the journal's segments that were looked through.
    pub segments: u64,
    /// The number of all segments.
    pub segments_all: u64,
    /// Keys that had statistics.
    pub statistics: u64,
    /// Marks of distinct values.
    pub marks: u64,
    /// Decisions.
    pub decisions: u64,
    /// The number of pieces of feedback.
    pub feedback: u64,
    /// Labels on the ban list.
    pub bans: u64,
    /// Items of reviews.
    pub reviews: u64,
    /// Posted entries of the allow list, notes, and saved searches.
    #[serde(default)]
    pub posted: u64,
    /// Files that cannot be read whole, and may still have something.
    pub damaged: u64,
    /// The number of snapshots in the data directory that were erased, too.
    pub snapshots: u64,
    /// Snapshots in the data directory that may still have something, with the reason.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub snapshots_left: BTreeMap<String, String>,
    /// The other nodes that erase what they have.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub asked: Vec<String>,
    /// The other nodes that could not be asked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
    /// The reason for its failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

impl EraseJson {
    /// Returns the answer where there was none since the start.
    pub(crate) fn none() -> EraseJson {
        EraseJson { state: "none".to_owned(), ..EraseJson::default() }
    }
}
