//! Reviews in JSON.

use engine::{ReviewItem, ReviewVerdict, ReviewedItem};
use event::Time;
use judge::Action;
use plan::ReviewPlan;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{FeedbackOutcomeJson, Timestamp, action_schema};

/// A decision that a person is to look at, or has looked at.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Review)]
pub struct ReviewJson {
    /// The decision's id.
    pub id: String,
    /// The caller's name for the event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event_id: Option<String>,
    /// The pipeline that decided.
    pub pipeline: String,
    /// The action that was decided: `review_before` or `review_after`.
    #[schema(schema_with = action_schema)]
    pub action: Action,
    /// The state: `open`, `claimed`, `escalated` or `decided`.
    pub state: String,
    /// The time at which the event came.
    pub time: Timestamp,
    /// The time by which it is to be decided.
    pub due: Timestamp,
    /// The score of the decision.
    pub score: f64,
    /// The exposure, by which the queue can be sorted.
    pub exposure: f64,
    /// The rules that fired.
    pub rules: Vec<String>,
    /// The reviewer who works on it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claim: Option<ReviewClaimJson>,
    /// The reason why a lead is to decide.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub escalation: Option<ReviewEscalationJson>,
    /// The votes of reviewers.
    pub votes: Vec<ReviewVoteJson>,
    /// The comments of reviewers.
    pub comments: Vec<ReviewCommentJson>,
    /// The verdict: `publish` or `refuse`. Only of what is decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub verdict: Option<ReviewVerdict>,
    /// The time at which it was decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decided: Option<Timestamp>,
    /// True if that was in time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_time: Option<bool>,
    /// The keys of the event, and how many of the reviews that are not decided share each. Only of one that is asked for by
    /// its id.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub keys: Vec<ReviewKeyJson>,
}

/// A key that an event under review shares with others.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = ReviewKey)]
pub struct ReviewKeyJson {
    /// The kind of the key.
    pub kind: String,
    /// The hash of its value; `/v1/decisions/{id}` has the value.
    pub shingle: String,
    /// The number of reviews that are not decided and have it, this one included, counted up to 1000.
    pub waiting: usize,
}

/// The claim of a reviewer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = ReviewClaim)]
pub struct ReviewClaimJson {
    /// The reviewer.
    pub by: String,
    /// The time at which others may have it again.
    pub until: Timestamp,
}

/// An escalation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = ReviewEscalation)]
pub struct ReviewEscalationJson {
    /// The reviewer who asked for it; missing where reviewers disagree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// The time of it.
    pub time: Timestamp,
    /// The reason.
    pub why: String,
}

/// The vote of a reviewer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = ReviewVote)]
pub struct ReviewVoteJson {
    /// The reviewer.
    pub by: String,
    /// The verdict: `publish` or `refuse`.
    #[schema(value_type = String)]
    pub verdict: ReviewVerdict,
    /// The time at which it was given.
    pub time: Timestamp,
}

/// A comment of a reviewer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = ReviewComment)]
pub struct ReviewCommentJson {
    /// The reviewer.
    pub by: String,
    /// The time of it.
    pub time: Timestamp,
    /// The comment.
    pub text: String,
}

/// A page of reviews.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Reviews)]
pub struct ReviewsJson {
    /// The reviews, in the order that was asked for.
    pub reviews: Vec<ReviewJson>,
    /// The value of `after` for the next page; missing if there is none. A page can be short, or empty, and have one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    /// The nodes whose reviews are missing, as they do not answer: `3 (mail-3)`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub absent: Vec<String>,
    /// The place of each review in the order, for another node that asked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(ignore)]
    pub places: Vec<String>,
}

/// A reviewer's wish to work on a review, or not to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Reviewer)]
pub struct ReviewerJson {
    /// The reviewer.
    #[schema(max_length = 256)]
    pub by: String,
}

/// The text of a reviewer on a review.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = ReviewText)]
pub struct ReviewTextJson {
    /// The reviewer.
    #[schema(max_length = 256)]
    pub by: String,
    /// The comment, or the reason.
    #[schema(max_length = 1000)]
    pub text: String,
}

/// A reviewer's vote on one review.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = ReviewDecision)]
pub struct ReviewDecisionJson {
    /// The reviewer.
    #[schema(max_length = 256)]
    pub by: String,
    /// The verdict: `publish` or `refuse`.
    #[schema(value_type = String)]
    pub verdict: ReviewVerdict,
    /// The class of the feedback; the pipeline's first that says the same if none is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<String>,
}

/// A reviewer's vote on all reviews that share a key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = ReviewsDecision)]
pub struct ReviewsDecisionJson {
    /// The pipeline; the first of the configuration if none is named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pipeline: Option<String>,
    /// The kind of the key, such as `link`.
    pub kind: String,
    /// The value, as it stands in events.
    pub value: String,
    /// The reviewer.
    #[schema(max_length = 256)]
    pub by: String,
    /// The verdict: `publish` or `refuse`.
    #[schema(value_type = String)]
    pub verdict: ReviewVerdict,
    /// The class of the feedback; the pipeline's first that says the same if none is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<String>,
    /// Most reviews, up to 1000; 100 if none is given. The oldest are taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 1000)]
    pub limit: Option<usize>,
    /// True to be told which these are, and decide none.
    #[serde(default)]
    pub dry_run: bool,
    /// True to give the verdict as feedback on events, too, that were accepted or tagged without a review and have the key: the newest, at
    /// most `limit`.
    #[serde(default)]
    pub published: bool,
}

/// A review with a reviewer's vote.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Reviewed)]
pub struct ReviewedJson {
    /// The review as it is now.
    pub review: ReviewJson,
    /// True if the reviewer had said the same before.
    pub duplicate: bool,
    /// The outcome of the vote as feedback; missing where the pipeline has no class that says it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub feedback: Option<FeedbackOutcomeJson>,
    /// The reason why the vote is no feedback yet: say it again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub feedback_error: Option<String>,
}

/// The outcome of a vote on all reviews that share a key.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = ReviewsOutcome)]
pub struct ReviewsOutcomeJson {
    /// The reviews that the vote was taken on; those that it would be, in a dry run.
    pub reviews: Vec<ReviewJson>,
    /// The reviews that were passed over.
    pub passed_over: Vec<PassedReviewJson>,
    /// The accepted events on which the verdict is feedback now, or would be in a dry run, the newest first. Absent where
    /// `published` is not asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub published: Option<Vec<PublishedEventJson>>,
    /// The nodes whose accepted events are missing, as they do not answer. Absent where all do.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub absent: Vec<String>,
    /// True if there may be more than were asked for: ask again.
    pub more: bool,
}

/// An event that was accepted or tagged without a review.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = PublishedEvent)]
pub struct PublishedEventJson {
    /// The decision's id.
    pub id: String,
    /// The caller's name for the event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event_id: Option<String>,
    /// The time of the event.
    pub time: Timestamp,
}

/// A review, or an accepted event, that was passed over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = PassedReview)]
pub struct PassedReviewJson {
    /// The decision's id.
    pub id: String,
    /// The reason.
    pub why: String,
}

impl ReviewJson {
    /// Returns a review as it is at a time.
    pub fn new(item: &ReviewItem, plan: &ReviewPlan, now: Time) -> ReviewJson {
        let claim = item.claimed_by(now).filter(|_| item.outcome.is_none());
        let escalation = item.escalation.as_ref();
        ReviewJson {
            id: item.id.to_string(),
            event_id: item.event_id.clone(),
            pipeline: item.pipeline.clone(),
            action: item.action,
            state: item.state(now).name().to_owned(),
            time: Timestamp(item.time),
            due: Timestamp(item.due(plan.within)),
            score: item.score,
            exposure: item.exposure,
            rules: item.rules.clone(),
            claim: claim.map(|claim| ReviewClaimJson { by: claim.by.clone(), until: Timestamp(claim.until) }),
            escalation: escalation.map(|of| ReviewEscalationJson {
                by: of.by.clone(),
                time: Timestamp(of.time),
                why: of.why.clone(),
            }),
            votes: item
                .votes
                .iter()
                .map(|vote| ReviewVoteJson {
                    by: vote.by.clone(),
                    verdict: vote.verdict,
                    time: Timestamp(vote.time),
                })
                .collect(),
            comments: item
                .comments
                .iter()
                .map(|of| ReviewCommentJson {
                    by: of.by.clone(),
                    time: Timestamp(of.time),
                    text: of.text.clone(),
                })
                .collect(),
            verdict: item.outcome.map(|outcome| outcome.verdict),
            decided: item.outcome.map(|outcome| Timestamp(outcome.time)),
            in_time: item.outcome.map(|outcome| outcome.in_time),
            keys: Vec::new(),
        }
    }
}

impl ReviewedJson {
    /// Returns what came of a reviewer's vote.
    pub fn new(reviewed: ReviewedItem, plan: &ReviewPlan, now: Time) -> ReviewedJson {
        let ReviewedItem { item, duplicate, class, feedback } = reviewed;
        let (feedback, error) = match feedback {
            Some(Ok(outcome)) => {
                let class = class.unwrap_or_default();
                (Some(FeedbackOutcomeJson::new(item.id.to_string(), class, outcome)), None)
            }
            Some(Err(error)) => (None, Some(error.to_string())),
            None => (None, None),
        };
        ReviewedJson { review: ReviewJson::new(&item, plan, now), duplicate, feedback, feedback_error: error }
    }
}
