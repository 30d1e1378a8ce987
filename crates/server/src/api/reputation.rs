//! Reputations in JSON.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::Length;

/// A reputation of a key, and what made it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Reputation)]
pub struct ReputationJson {
    /// The reputation.
    pub name: String,
    /// The hash of the key's piece.
    pub shingle: String,
    /// From -100 to 100; 0 is unknown.
    pub score: f64,
    /// `bad`, `suspicious`, `unknown`, `known` or `trusted`.
    pub grade: String,
    /// The weight of what outcomes said.
    pub evidence: f64,
    /// The scores of one, two and three half-lives ago, by what is inherited and included now.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub history: Vec<PastScoreJson>,
    /// The reasons of the score.
    pub reasons: Vec<ReputationReasonJson>,
}

/// The score that a reputation had.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = PastScore)]
pub struct PastScoreJson {
    /// The time since then.
    pub ago: Length,
    /// The score.
    pub score: f64,
}

/// A part of a reputation's score.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = ReputationReason)]
pub struct ReputationReasonJson {
    /// The part, or another reputation.
    pub part: String,
    /// `outcome`, `verdict`, `inherited` or `included`.
    pub source: String,
    /// The amount that was counted, halved for each half-life; or the score of the other reputation.
    pub amount: f64,
    /// Points that it adds to the score, before the score's bounds.
    pub adds: f64,
}

impl From<&engine::ExplainedReputation> for ReputationJson {
    fn from(reputation: &engine::ExplainedReputation) -> ReputationJson {
        let reasons = reputation.reasons.iter().map(|reason| ReputationReasonJson {
            part: reason.part.clone(),
            source: reason.source.to_owned(),
            amount: reason.amount,
            adds: reason.adds,
        });
        let history =
            reputation.history.iter().map(|past| PastScoreJson { ago: Length(past.ago), score: past.score });
        ReputationJson {
            name: reputation.name.clone(),
            shingle: reputation.shingle.to_string(),
            score: reputation.score,
            grade: reputation.grade.name().to_owned(),
            evidence: reputation.evidence,
            history: history.collect(),
            reasons: reasons.collect(),
        }
    }
}

/// The keys with the worst or the best reputations.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = RankedReputations)]
pub struct RankedReputationsJson {
    /// The pipeline.
    pub pipeline: String,
    /// The reputation.
    pub reputation: String,
    /// `worst` or `best`.
    pub order: String,
    /// Only keys of which something was counted within so long.
    pub within: Length,
    /// The keys, the worst or the best first.
    pub keys: Vec<RankedReputationJson>,
}

/// A key with its reputation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = RankedReputation)]
pub struct RankedReputationJson {
    /// Its piece, if a recent decision shows it: statistics keep hashes only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub piece: Option<String>,
    /// Its reputation; what it inherits is known where the piece is.
    #[serde(flatten)]
    pub reputation: ReputationJson,
}

impl RankedReputationJson {
    /// Returns it without the piece for a reader who may not read what events say.
    pub(crate) fn of_reader(mut self, may_read_content: bool) -> RankedReputationJson {
        self.piece = self.piece.filter(|_| may_read_content);
        self
    }
}

impl From<&engine::RankedReputation> for RankedReputationJson {
    fn from(ranked: &engine::RankedReputation) -> RankedReputationJson {
        let reputation = ReputationJson::from(&ranked.reputation);
        RankedReputationJson { piece: ranked.piece.clone(), reputation }
    }
}
