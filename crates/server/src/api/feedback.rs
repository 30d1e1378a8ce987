//! Feedback in JSON.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::BatchError;

/// The feedback that somebody gives on a past decision.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Feedback)]
pub struct FeedbackJson {
    /// The decision.
    pub id: String,
    /// The feedback: one of the pipeline's feedback classes; `none` takes back earlier feedback.
    pub class: String,
    /// The reporter, e.g. an address; without one it is the operator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 256)]
    pub by: Option<String>,
}

/// The effect of feedback or learning.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = FeedbackOutcome)]
pub struct FeedbackOutcomeJson {
    /// The subject of the feedback: the decision's id; when learning, the event's id or else the SHA-256 of the body.
    pub id: String,
    /// The feedback class that was given.
    pub class: String,
    /// Keys whose counters went up.
    pub keys: usize,
    /// Tokens of which classifiers know something else now.
    #[serde(default)]
    pub tokens: usize,
    /// True if the same feedback had been given before, and was not counted again.
    pub duplicate: bool,
    /// The amount by which each counter went up.
    pub weight: u8,
    /// True if the feedback was more than a reporter may give in a day, and counts nothing.
    pub limited: bool,
    /// The degree to which the reporter is believed: `operator`, `new`, `trusted` or `distrusted`.
    pub standing: String,
    /// The feedback that the same reporter had given on the same before, and that was taken back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replaced: Option<String>,
    /// Warnings about learning: fields of the event that the pipeline does not know, or an event with none that it knows.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// One line of the answer to a batch of feedback, in the order of its lines.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(untagged)]
pub enum FeedbackLine {
    /// The outcome of the line.
    Outcome(FeedbackOutcomeJson),
    /// The line could not be taken in. The others are not affected.
    Error(BatchError),
}

impl FeedbackOutcomeJson {
    /// Returns the outcome of the feedback `class` on `id`.
    pub fn new(id: String, class: String, outcome: engine::FeedbackOutcome) -> FeedbackOutcomeJson {
        let engine::FeedbackOutcome { keys, tokens, duplicate, weight, limited, standing, replaced } =
            outcome;
        let standing = standing.name().to_owned();
        FeedbackOutcomeJson {
            id,
            class,
            keys,
            tokens,
            duplicate,
            weight,
            limited,
            standing,
            replaced,
            warnings: Vec::new(),
        }
    }
}

/// The effect of a mail in which mail was reported.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = MailReport)]
pub struct MailReportJson {
    /// The reporter.
    pub by: String,
    /// The feedback class; missing where a feedback report says nothing of the kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<String>,
    /// The outcome for each reported mail, by the id of its decision, or else the SHA-256 of the mail.
    pub feedback: Vec<FeedbackOutcomeJson>,
}
