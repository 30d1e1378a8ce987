//! Learners that are made anew beside those in use.
//!
//! ```text
//! judgement in the journal ─► teach_first ─► unless an example has come since ─┐
//! example of now ─► learners in use                                           ├─► successors
//!              └─► follow ───────────────────────────────────────────────────┘
//! ```

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use event::Key;
use journal::JournalError;
use parking_lot::Mutex;
use plan::{LinearView, TrainingLabel};

use super::LinearLearners;
use crate::directory::DirectoryError;
use crate::pipeline::classifiers::TokenKeys;

/// Reasons for linear models that were not made anew.
#[derive(Debug, thiserror::Error)]
pub enum RelearnError {
    /// The engine has no journal.
    #[error("there is no journal to learn from")]
    NoJournal,
    /// The pipeline has no linear model.
    #[error("the pipeline `{0}` has no classifier with `runs`, and so no linear model")]
    NoModel(String),
    /// The journal.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The learners cannot be written.
    #[error(transparent)]
    Directory(#[from] DirectoryError),
    /// The models know more than the journal would teach them.
    #[error(
        "the linear models of `{pipeline}` have learned {} good and {} bad events, and the journal has only {} and {}",
        known.good, known.bad, found.good, found.bad
    )]
    KnownBetter {
        /// The pipeline.
        pipeline: String,
        /// The examples of its models.
        known: TrainingCounts,
        /// The examples that the journal has.
        found: TrainingCounts,
    },
    /// Others were begun since, and these no longer learn what those in use learn.
    #[error("others were begun since: rebuild the linear models once more")]
    Superseded,
    /// Nodes share the models, and they cannot be replaced for all of them.
    #[error("the linear models that nodes share cannot be replaced: {0}")]
    Shared(String),
    /// Somebody wished to stop.
    #[error("interrupted: the linear models are as they were")]
    Ended,
}

/// The examples of all linear models of a pipeline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TrainingCounts {
    /// Examples of good events.
    pub good: u64,
    /// Examples of bad events.
    pub bad: u64,
}

/// Learners that will take the place of those in use.
#[derive(Debug)]
pub(crate) struct SuccessorModels {
    learners: LinearLearners,
    /// The label that each event has taught them.
    taught: Mutex<HashMap<Key, TrainingLabel>>,
}

impl SuccessorModels {
    pub(super) fn new(learners: LinearLearners) -> SuccessorModels {
        SuccessorModels { learners, taught: Mutex::default() }
    }

    pub(super) fn learners(&self) -> &LinearLearners {
        &self.learners
    }

    /// Teaches what the journal says of an event, unless an example has taught it since.
    pub(crate) fn teach_first(&self, tokens: &TokenKeys, label: TrainingLabel) {
        let mut taught = self.taught.lock();
        if let Entry::Vacant(entry) = taught.entry(tokens.event) {
            self.learners.teach(tokens, TrainingLabel::Forget, label);
            entry.insert(label);
        }
    }

    /// Teaches an example that those in use learn now. What they had learned of the event before may have been something else.
    pub(super) fn follow(&self, tokens: &TokenKeys, now: TrainingLabel) {
        if !tokens.features.iter().any(|(view, _)| self.has(tokens, *view)) {
            return;
        }
        let mut taught = self.taught.lock();
        let before = taught.get(&tokens.event).copied().unwrap_or(TrainingLabel::Forget);
        if before != now {
            self.learners.teach(tokens, before, now);
        }
        // Also of what is forgotten: the journal may still say what it was.
        taught.insert(tokens.event, now);
    }

    /// The log-odds that they give; `None` as long as they have not learned both classes.
    pub(crate) fn log_odds(&self, tokens: &TokenKeys, view: LinearView) -> Option<f64> {
        self.learners.log_odds(tokens, view)
    }

    fn has(&self, tokens: &TokenKeys, view: LinearView) -> bool {
        self.learners.known(super::LearnerName::new(&tokens.event, view)).is_some()
    }
}
