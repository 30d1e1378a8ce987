//! Decisions on events nearly like another's, in JSON.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::ListedDecisionJson;

/// The decisions on events nearly like another's.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = SimilarDecisions)]
pub struct SimilarDecisionsJson {
    /// The number of near-duplicate fingerprints of the event that were looked for: 0 where its content has too few words, or its
    /// pipeline counts none.
    pub fingerprints: usize,
    /// The decisions, those first that share most fingerprints, then the newest.
    pub decisions: Vec<SimilarDecisionJson>,
    /// True if not all were looked for, as that took too long.
    pub partial: bool,
    /// The nodes whose decisions are missing, as they do not answer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub absent: Vec<String>,
}

/// A decision on an event nearly like another's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = SimilarDecision)]
pub struct SimilarDecisionJson {
    /// The number of fingerprints that both have.
    pub shared: usize,
    /// The decision.
    pub decision: ListedDecisionJson,
}
