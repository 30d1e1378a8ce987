//! Decisions that asked for a challenge, kept in memory until it comes back.
//!
//! A challenge that comes back gives feedback on the decision that asked. To seek that in the journal, a block is read, inflated
//! and walked through, which takes several times as long as the challenge's own check; most come back within seconds. So what
//! feedback needs of the latest is at hand, in a few megabytes. Of those that were pushed out, of other nodes and of the time
//! before a restart the journal knows.

use std::sync::Arc;

use event::{Key, Time};
use journal::RecordId;
use judge::Action;
use moka::sync::Cache;
use plan::Pipeline;

use super::{DecidedEvent, EventAmounts, FeedbackError, FeedbackOutcome};
use crate::judged_scores::LearnerScores;
use crate::pipeline::Decision;
use crate::{Engine, PreparedEvent};

/// Bytes of the decisions that are kept, some ten thousand of a site.
const BYTES_MAX: u64 = 8 << 20;

/// A decision that asked for a challenge, as far as feedback needs it.
struct ChallengedDecision {
    /// The pipeline that decided: keys and amounts are told by its numbers.
    pipeline: Arc<Pipeline>,
    keys: Vec<Key>,
    amounts: EventAmounts,
    score: f64,
    action: Action,
}

impl ChallengedDecision {
    /// Bytes that it takes up, with its place in the cache.
    fn bytes(&self) -> u32 {
        const PLACE: usize = 256;
        let lists = self.keys.len() * size_of::<Key>() + self.amounts.bytes();
        u32::try_from(PLACE + size_of::<ChallengedDecision>() + lists).unwrap_or(u32::MAX)
    }
}

/// The latest decisions that asked for a challenge.
pub(crate) struct ChallengedDecisions(Cache<RecordId, Arc<ChallengedDecision>>);

impl Default for ChallengedDecisions {
    fn default() -> ChallengedDecisions {
        let weigh = |_: &RecordId, of: &Arc<ChallengedDecision>| of.bytes();
        ChallengedDecisions(Cache::builder().max_capacity(BYTES_MAX).weigher(weigh).build())
    }
}

impl ChallengedDecisions {
    /// Keeps a decision that is in the journal, if it asked for a challenge. Those whose feedback teaches classifiers are left
    /// to the journal, which has their texts.
    pub(crate) fn keep(&self, prepared: &PreparedEvent, decision: &Decision) {
        let pipeline = &decision.pipeline;
        if decision.challenge.is_none() || !pipeline.classifiers.is_empty() {
            return;
        }
        let kept = ChallengedDecision {
            pipeline: Arc::clone(pipeline),
            keys: prepared.keys.clone(),
            amounts: EventAmounts::of(pipeline, |slot| prepared.row.facts.get(slot)),
            score: decision.verdict.score,
            action: decision.verdict.action,
        };
        self.0.insert(decision.id, Arc::new(kept));
    }
}

impl Engine {
    /// Takes in what came of a challenge, if the decision that asked is at hand and its pipeline still in force.
    pub(crate) async fn feedback_at_hand(
        &self,
        id: RecordId,
        class: &str,
        now: Time,
    ) -> Option<Result<FeedbackOutcome, FeedbackError>> {
        let kept = self.challenged.0.remove(&id)?;
        let plan = self.plan();
        let is_in_force = |pipeline: &&Arc<Pipeline>| Arc::ptr_eq(pipeline, &kept.pipeline);
        let pipeline = plan.deciding().find(is_in_force)?;
        let of = DecidedEvent {
            id,
            pipeline,
            keys: &kept.keys,
            amounts: kept.amounts.clone(),
            tokens: &[],
            score: kept.score,
            // What came of a challenge teaches nothing.
            learners: LearnerScores::default(),
            action: kept.action,
        };
        Some(self.feedback_about(of, class.into(), now).await)
    }
}
