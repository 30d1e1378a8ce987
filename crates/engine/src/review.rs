//! The queue of reviews: decisions whose action is `review_before` or `review_after`, which people look at.
//!
//! ```text
//! decision ─► queue: held, or published ─► claim ─► a reviewer's vote ─► agreement ─► publish, or refuse
//!                      │                                │
//!                      └ found by age, exposure, rule   └► feedback, with the reviewer's standing
//!                        and by keys that events share
//! ```
//!
//! An item has what the queue sorts and searches by, and no content: that is in the journal, under the same id. What people do
//! is the state machine of [`crate::review_queue`], which keeps it on disk, too.

use std::collections::HashSet;
use std::sync::Arc;

use event::{Facts, Key, Time, Value};
use journal::RecordId;
use judge::{Action, Reason};
use plan::{Pipeline, ReviewPlan};

use crate::condition::Impact;
use crate::error::{PieceError, UnknownName};
use crate::feedback::{FeedbackError, FeedbackInput, FeedbackOutcome};
use crate::metrics::{ActionLabel, ReviewLabel, ReviewVoteLabel, label};
use crate::pipeline::Decision;
use crate::pipeline::observe::ObservedBatch;
use crate::review_queue::{
    AlikeReviews, QueueOutcome, ReviewError, ReviewItem, ReviewQueue, ReviewVerdict, item,
};
use crate::{Engine, find_kind};

/// Reasons for a key that cannot be looked for.
#[derive(Debug, thiserror::Error)]
pub enum ReviewKeyError {
    /// The pipeline has no such kind.
    #[error(transparent)]
    Unknown(#[from] UnknownName),
    /// No piece can be made of the value.
    #[error(transparent)]
    Piece(#[from] PieceError),
}

/// The vote of a reviewer.
#[derive(Clone, Copy, Debug)]
pub struct ReviewInput<'a> {
    /// The reviewer.
    pub by: &'a str,
    /// The verdict.
    pub verdict: ReviewVerdict,
    /// The class of the feedback; `None` for the pipeline's first that says the same.
    pub class: Option<&'a str>,
}

/// An item on which a reviewer has voted.
#[derive(Debug)]
pub struct ReviewedItem {
    /// The item as it is now.
    pub item: Arc<ReviewItem>,
    /// True if the same reviewer had said the same before.
    pub duplicate: bool,
    /// The class of feedback that the vote was given as; `None` where the pipeline has none that says it.
    pub class: Option<String>,
    /// The outcome of the feedback.
    pub feedback: Option<Result<FeedbackOutcome, FeedbackError>>,
}

/// Returns true if a person is asked.
fn is_reviewed(action: Action) -> bool {
    matches!(action, Action::ReviewBefore | Action::ReviewAfter)
}

/// Returns what a fact counts as exposure.
fn exposure(facts: &Facts, pipeline: &Pipeline, plan: &ReviewPlan) -> Option<f64> {
    let slot = pipeline.schema.slot(plan.exposure.as_deref()?)?;
    match facts.get(slot)? {
        Value::Integer(value) => Some(*value as f64),
        Value::Float(value) => Some(*value),
        _ => None,
    }
}

/// Returns the class of feedback that says what a verdict does; `None` where the pipeline has none.
fn review_class(
    pipeline: Option<&Pipeline>,
    name: &str,
    verdict: ReviewVerdict,
    class: Option<&str>,
) -> Result<Option<String>, ReviewError> {
    let reports = pipeline.and_then(|pipeline| pipeline.reports.as_ref());
    match class {
        Some(class) if reports.and_then(|reports| reports.side_of(class)) != Some(verdict.side()) => {
            Err(ReviewError::Class { class: class.to_owned(), pipeline: name.to_owned(), verdict })
        }
        Some(class) => Ok(Some(class.to_owned())),
        None => Ok(reports.and_then(|reports| reports.class_for(verdict.side())).map(str::to_owned)),
    }
}

/// Returns a number that can be sorted and written.
fn finite(value: f64) -> f64 {
    if value.is_nan() { 0.0 } else { value.clamp(f64::MIN, f64::MAX) }
}

impl Engine {
    /// The queue of reviews.
    pub fn reviews(&self) -> &ReviewQueue {
        &self.reviews
    }

    /// Returns the items of those decisions that ask for a review. An event that was counted before is queued already.
    pub(crate) fn reviews_of(&self, observed: &ObservedBatch, decisions: &[Decision]) -> Vec<ReviewItem> {
        let asks = |decision: &Decision| is_reviewed(decision.verdict.action) && !decision.duplicate;
        if !decisions.iter().any(asks) {
            return Vec::new();
        }
        let plan = self.plan();
        let plan = &plan.node.review;
        if plan.items == 0 {
            return Vec::new();
        }
        let asking = observed.events().zip(decisions).filter(|(_, decision)| asks(decision));
        let item = |(observed, decision): (crate::pipeline::observe::ObservedEvent<'_>, &Decision)| {
            let prepared = observed.prepared;
            let pipeline = &decision.pipeline;
            let kinds = pipeline.kinds.entries();
            let keys = kinds.flat_map(|(kind, _)| prepared.of_kind(kind).iter().take(item::KEYS_OF_KIND_MAX));
            let mut reasons: Vec<&Reason> = decision.verdict.reasons.iter().collect();
            reasons.sort_by(|one, other| other.score.total_cmp(&one.score));
            let score = finite(decision.verdict.score);
            ReviewItem {
                id: decision.id,
                event_id: decision.event_id.clone(),
                pipeline: pipeline.name.clone(),
                space: pipeline.space,
                action: decision.verdict.action,
                time: prepared.row.arrival,
                score,
                exposure: exposure(&prepared.row.facts, pipeline, plan).map_or(score, finite),
                rules: reasons.iter().take(item::RULES_MAX).map(|reason| reason.rule.clone()).collect(),
                keys: keys.take(item::KEYS_MAX).map(|key| (key.kind, key.shingle)).collect(),
                claim: None,
                escalation: None,
                votes: Vec::new(),
                comments: Vec::new(),
                outcome: None,
            }
        };
        asking.map(item).collect()
    }

    /// Queues items, but for those whose decisions are others by now, as where nothing could be logged.
    pub(crate) async fn queue_reviews(&self, mut items: Vec<ReviewItem>, decisions: &[Decision]) {
        if items.is_empty() {
            return;
        }
        let held = decisions.iter().filter(|decision| is_reviewed(decision.verdict.action));
        let held: HashSet<RecordId> = held.map(|decision| decision.id).collect();
        items.retain(|item| held.contains(&item.id));
        let plan = self.plan();
        let labels: Vec<ActionLabel> = items
            .iter()
            .map(|item| ActionLabel { pipeline: item.pipeline.clone(), action: item.action.to_string() })
            .collect();
        let (outcomes, written) = self.reviews.push(items, &plan.node.review).await;
        for (outcome, label) in outcomes.iter().zip(&labels) {
            match outcome {
                QueueOutcome::Taken => _ = self.metrics.reviews_queued.get_or_create(label).inc(),
                QueueOutcome::InPlaceOf(_) => {
                    self.metrics.reviews_queued.get_or_create(label).inc();
                    self.metrics.reviews_crowded_out.inc();
                }
                QueueOutcome::Refused => _ = self.metrics.reviews_refused.get_or_create(label).inc(),
            }
        }
        if outcomes.contains(&QueueOutcome::Refused) {
            let detail = format!(
                "the queue of reviews is full of {} items that matter more: decide them, or raise `items` of [review]",
                plan.node.review.items
            );
            self.health.raise("reviews-full", Impact::Degraded, detail);
        }
        self.note_reviews_written(written.err());
    }

    fn note_reviews_written(&self, error: Option<std::io::Error>) {
        let detail = error.map(|error| {
            format!("the queue of reviews could not be written, and a restart would lose its last changes: {error}")
        });
        self.health.set("reviews-unwritten", Impact::Degraded, detail);
    }

    /// Keeps house in the queue.
    pub(crate) fn maintain_reviews(&self, now: Time) {
        let plan = self.plan();
        let plan = &plan.node.review;
        let is_known = now.0 > i64::MIN;
        let maintained = self.reviews.maintain(is_known.then(|| now - plan.keep));
        self.note_reviews_written(maintained.err());
        let census = self.reviews.census(plan, now);
        if census.states.iter().sum::<u64>() < plan.items as u64 {
            self.health.clear("reviews-full");
        }
    }

    /// Returns the key of a value, by which reviews that share it are found.
    ///
    /// # Errors
    /// [`ReviewKeyError`].
    pub fn review_key(&self, pipeline: &Pipeline, kind: &str, value: &str) -> Result<Key, ReviewKeyError> {
        let plan = find_kind(pipeline, kind)?;
        let (_, shingle) = self.piece(plan, value)?;
        Ok(Key { space: pipeline.space, kind: plan.kind, shingle })
    }

    /// Takes a reviewer's vote on an item, and gives it as feedback on the decision. Said again it counts once, and what failed
    /// of the feedback is done then. Blocks while the decision is sought.
    ///
    /// # Errors
    /// [`ReviewError`]; then nothing was said.
    pub async fn decide_review(
        &self,
        id: RecordId,
        vote: ReviewInput<'_>,
        now: Time,
    ) -> Result<ReviewedItem, ReviewError> {
        let mut reviewed = self.take_review_vote(id, vote, now).await?;
        if let Some(class) = &reviewed.class {
            let said = FeedbackInput { class, by: Some(vote.by) };
            reviewed.feedback = Some(self.feedback(id, said, now).await);
        }
        Ok(reviewed)
    }

    /// Takes a reviewer's vote on all items that are not decided and share a key, the oldest first, at most so many, and gives
    /// it as feedback on their decisions. Of `alike` those are passed over that wait for somebody else. Blocks.
    pub async fn decide_reviews_alike(
        &self,
        alike: AlikeReviews,
        vote: ReviewInput<'_>,
        now: Time,
    ) -> (Vec<ReviewedItem>, Vec<(RecordId, ReviewError)>) {
        let AlikeReviews { waiting, mut passed_over, .. } = alike;
        let mut reviewed = Vec::with_capacity(waiting.len());
        for item in waiting {
            match self.take_review_vote(item.id, vote, now).await {
                Ok(taken) => reviewed.push(taken),
                Err(error) => passed_over.push((item.id, error)),
            }
        }
        let classes: Vec<(RecordId, String)> =
            reviewed.iter().filter_map(|taken| Some((taken.item.id, taken.class.clone()?))).collect();
        let said: Vec<(RecordId, FeedbackInput<'_>)> =
            classes.iter().map(|(id, class)| (*id, FeedbackInput { class, by: Some(vote.by) })).collect();
        if said.is_empty() {
            return (reviewed, passed_over);
        }
        match self.feedback_all(&said, now).await {
            Ok(outcomes) => {
                let of_class = reviewed.iter_mut().filter(|taken| taken.class.is_some());
                for (taken, outcome) in of_class.zip(outcomes) {
                    taken.feedback = Some(outcome);
                }
            }
            Err(error) => {
                tracing::error!(%error, "reviews are decided, and the votes on them are no feedback");
            }
        }
        (reviewed, passed_over)
    }

    /// Returns the class of feedback that says what a vote does; `None` where the pipeline has none.
    ///
    /// # Errors
    /// [`ReviewError::Class`] if the vote names a class that says something else.
    pub fn review_class(
        &self,
        pipeline: &Pipeline,
        vote: ReviewInput<'_>,
    ) -> Result<Option<String>, ReviewError> {
        review_class(Some(pipeline), &pipeline.name, vote.verdict, vote.class)
    }

    /// Takes a vote without its feedback.
    async fn take_review_vote(
        &self,
        id: RecordId,
        vote: ReviewInput<'_>,
        now: Time,
    ) -> Result<ReviewedItem, ReviewError> {
        let plan = self.plan();
        let ReviewInput { by, verdict, class } = vote;
        let known = self.reviews.may_decide(id, by, verdict, &plan.node.review, now)?;
        let pipeline = plan.pipeline(Some(&known.pipeline));
        let class = review_class(pipeline.map(|pipeline| &**pipeline), &known.pipeline, verdict, class)?;
        let (item, is_new) = self.reviews.decide(id, by, verdict, &plan.node.review, now).await?;
        if is_new {
            self.count_review_vote(&item, by, pipeline.map(|pipeline| &**pipeline), now);
        }
        Ok(ReviewedItem { item, duplicate: !is_new, class, feedback: None })
    }

    fn count_review_vote(&self, item: &ReviewItem, by: &str, pipeline: Option<&Pipeline>, now: Time) {
        let Some(own) = item.vote_of(by) else { return };
        let others = item.votes.iter().filter(|vote| vote.by != by);
        for other in others {
            let agreed = if other.verdict == own.verdict { "yes" } else { "no" };
            let label = ReviewVoteLabel { pipeline: item.pipeline.clone(), agreed };
            self.metrics.reviews_compared.get_or_create(&label).inc();
        }
        let Some(outcome) = item.outcome else { return };
        let of = ReviewLabel {
            pipeline: item.pipeline.clone(),
            verdict: outcome.verdict.name(),
            in_time: if outcome.in_time { "yes" } else { "no" },
        };
        self.metrics.reviews_decided.get_or_create(&of).inc();
        if let Some(pipeline) = pipeline {
            let seconds = (now - item.time).0.max(0) as f64 / 1e6;
            self.metrics.reviews_decided_seconds.0.get_or_create(&label(pipeline)).observe(seconds);
        }
    }
}
