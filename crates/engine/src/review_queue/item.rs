//! An item of the queue of reviews: a decision that a person looks at, and all that people did with it.

use std::fmt;
use std::str::FromStr;

use event::{Key, Kind, Shingle, Space, Span, Time};
use journal::RecordId;
use judge::Action;
use plan::FeedbackSide;
use serde::{Deserialize, Serialize};

/// Most comments of an item.
pub const REVIEW_COMMENTS_MAX: usize = 32;
/// Longest comment or reason of an escalation, in bytes.
pub const REVIEW_TEXT_BYTES_MAX: usize = 1000;
/// Most rules that an item names.
pub(crate) const RULES_MAX: usize = 16;
/// Most keys of an item, and of one kind.
pub(crate) const KEYS_MAX: usize = 64;
/// See [`KEYS_MAX`].
pub(crate) const KEYS_OF_KIND_MAX: usize = 8;
/// Most votes of reviewers that an item keeps.
pub(crate) const VOTES_MAX: usize = 32;

/// The vote of a reviewer on what is held, or was published.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ReviewVerdict {
    /// Publish it, or leave it where it is.
    Publish,
    /// Refuse it, or take it back.
    Refuse,
}

impl ReviewVerdict {
    /// Both of them.
    pub const ALL: [ReviewVerdict; 2] = [ReviewVerdict::Publish, ReviewVerdict::Refuse];

    /// Returns its name in requests and answers.
    pub const fn name(self) -> &'static str {
        match self {
            ReviewVerdict::Publish => "publish",
            ReviewVerdict::Refuse => "refuse",
        }
    }

    /// The side of feedback that says the same.
    pub fn side(self) -> FeedbackSide {
        match self {
            ReviewVerdict::Publish => FeedbackSide::Good,
            ReviewVerdict::Refuse => FeedbackSide::Bad,
        }
    }
}

impl fmt::Display for ReviewVerdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for ReviewVerdict {
    type Err = ReviewNameError;

    fn from_str(text: &str) -> Result<ReviewVerdict, ReviewNameError> {
        let known = ReviewVerdict::ALL.into_iter().find(|verdict| verdict.name() == text);
        known.ok_or(ReviewNameError("`publish` or `refuse`"))
    }
}

/// The state of an item at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ReviewState {
    /// Nobody works on it.
    Open,
    /// A reviewer works on it.
    Claimed,
    /// Nobody works on it, and it waits for a lead.
    Escalated,
    /// Reviewers, or a lead, have decided.
    Decided,
}

impl ReviewState {
    /// All of them, in the order in which an item goes through them.
    pub const ALL: [ReviewState; 4] =
        [ReviewState::Open, ReviewState::Claimed, ReviewState::Escalated, ReviewState::Decided];

    /// Returns its name in requests, answers and metrics.
    pub const fn name(self) -> &'static str {
        match self {
            ReviewState::Open => "open",
            ReviewState::Claimed => "claimed",
            ReviewState::Escalated => "escalated",
            ReviewState::Decided => "decided",
        }
    }
}

impl fmt::Display for ReviewState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A name that is none of those expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReviewNameError(pub(super) &'static str);

impl fmt::Display for ReviewNameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "expected {}", self.0)
    }
}

impl std::error::Error for ReviewNameError {}

/// The claim of a reviewer who works on an item.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReviewClaim {
    /// The reviewer.
    pub by: String,
    /// The time at which others may have it again.
    pub until: Time,
}

/// An escalation: a lead is to decide.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReviewEscalation {
    /// The reviewer who asked for it; `None` where two reviewers disagree.
    pub by: Option<String>,
    /// The time of it.
    pub time: Time,
    /// The reason, as the reviewer gives it.
    pub why: String,
}

/// The vote of one reviewer on an item.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReviewVote {
    /// The reviewer.
    pub by: String,
    /// The verdict.
    pub verdict: ReviewVerdict,
    /// The time at which it was given.
    pub time: Time,
}

/// A comment of a reviewer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReviewComment {
    /// The reviewer.
    pub by: String,
    /// The time of it.
    pub time: Time,
    /// The comment.
    pub text: String,
}

/// The outcome of a review.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReviewOutcome {
    /// The verdict.
    pub verdict: ReviewVerdict,
    /// The time at which it was decided.
    pub time: Time,
    /// True if that was within the service level.
    pub in_time: bool,
}

/// A decision that a person is to look at, and what was done with it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReviewItem {
    /// The decision.
    pub id: RecordId,
    /// The caller's name for the event.
    pub event_id: Option<String>,
    /// The pipeline that decided.
    pub pipeline: String,
    /// The space that the pipeline counts in.
    pub space: Space,
    /// The action: `review_before` or `review_after`.
    pub action: Action,
    /// The arrival of the event.
    pub time: Time,
    /// The score of the decision.
    pub score: f64,
    /// The exposure: the more, the sooner somebody should look.
    pub exposure: f64,
    /// The rules that fired, the ones with the highest scores first.
    pub rules: Vec<String>,
    /// The keys of the event, by which its like is found.
    pub keys: Vec<(Kind, Shingle)>,
    /// The claim of who works on it, which may be over.
    pub claim: Option<ReviewClaim>,
    /// The escalation, if a lead is to decide.
    pub escalation: Option<ReviewEscalation>,
    /// The votes of reviewers, one of each, in the order in which they were given.
    pub votes: Vec<ReviewVote>,
    /// The comments.
    pub comments: Vec<ReviewComment>,
    /// The outcome, once it is decided.
    pub outcome: Option<ReviewOutcome>,
}

impl ReviewItem {
    /// Returns the state at a time.
    pub fn state(&self, now: Time) -> ReviewState {
        match () {
            () if self.outcome.is_some() => ReviewState::Decided,
            () if self.claimed_by(now).is_some() => ReviewState::Claimed,
            () if self.escalation.is_some() => ReviewState::Escalated,
            () => ReviewState::Open,
        }
    }

    /// Returns the claim that holds at a time.
    pub fn claimed_by(&self, now: Time) -> Option<&ReviewClaim> {
        self.claim.as_ref().filter(|claim| claim.until > now)
    }

    /// Returns the time by which it is to be decided.
    pub fn due(&self, within: Span) -> Time {
        self.time + within
    }

    /// Returns the vote of a reviewer.
    pub fn vote_of(&self, by: &str) -> Option<&ReviewVote> {
        self.votes.iter().find(|vote| vote.by == by)
    }

    /// The keys, whole.
    pub(super) fn whole_keys(&self) -> impl Iterator<Item = Key> + '_ {
        self.keys.iter().map(|(kind, shingle)| Key { space: self.space, kind: *kind, shingle: *shingle })
    }
}
