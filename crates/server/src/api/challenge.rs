//! Challenges in JSON.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::PassJson;

/// A solved challenge.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = ChallengeSolution)]
#[serde(deny_unknown_fields)]
pub struct SolutionJson {
    /// The payload as ALTCHA's widget and clients send it: base64.
    pub payload: String,
    /// The fields of the event that tell the visitor, as they were when the challenge was issued.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event: Option<serde_json::Value>,
}

/// The outcome of a challenge.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = ChallengeOutcome)]
pub struct ChallengeOutcomeJson {
    /// True if it is solved, and had not been used.
    pub solved: bool,
    /// The reason to refuse it: `unreadable`, `expired`, `forged`, `other_purpose`, `other_visitor`, `used` or `unsolved`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
    /// The pass that it earns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pass: Option<PassJson>,
}
