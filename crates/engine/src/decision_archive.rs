//! Decisions that this node's journal does not have, from the place where nodes put theirs for all to read.
//!
//! ```text
//! an id ─► this node's journal ─► the node that made it ─► the archive, once that node is away or has it no more
//! ```

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use event::Time;
use futures_util::future::join_all;
use journal::{DecisionRow, RecordId, VersionDescription};

use crate::Engine;
use crate::error::DecisionLookupError;
use crate::explanation::Explanation;
use crate::feedback::{FeedbackError, FeedbackInput, FeedbackOutcome};

/// A decision as an archive has it.
#[derive(Clone, Debug)]
pub struct ArchivedDecision {
    /// The name of the node that decided.
    pub node: String,
    /// True if that is this node.
    pub is_own: bool,
    /// The decision.
    pub row: Box<DecisionRow>,
    /// The meaning of its row.
    pub description: Arc<VersionDescription>,
}

/// Decisions of an archive by their ids.
pub type ArchivedDecisions = HashMap<RecordId, ArchivedDecision>;

/// The place where nodes put their decisions for all to read.
pub trait DecisionArchive: Send + Sync {
    /// Returns its address, for people.
    fn address(&self) -> &str;

    /// Returns those of these decisions that are there. Blocks, for no longer than it is told.
    ///
    /// # Errors
    /// Says why it cannot be asked, or not in this time.
    fn find_all(&self, ids: &BTreeSet<RecordId>, within: Duration) -> Result<ArchivedDecisions, String>;
}

impl Engine {
    /// Sets the archive of this node's decisions and those of others, which is asked for what the journal does not have. The first
    /// one stays.
    pub fn set_archive(&self, archive: Box<dyn DecisionArchive>) {
        if self.archive.set(archive).is_err() {
            tracing::warn!("there is an archive of decisions already");
        }
    }

    /// Returns the archive's address; `None` where there is no archive.
    pub fn archive_address(&self) -> Option<&str> {
        self.archive.get().map(|archive| archive.address())
    }

    /// Returns those of these decisions that are in the archive; none where there is no archive. Blocks.
    ///
    /// # Errors
    /// [`DecisionLookupError::Archive`] if it cannot be asked in this time.
    pub fn find_archived(
        &self,
        ids: &BTreeSet<RecordId>,
        within: Duration,
    ) -> Result<ArchivedDecisions, DecisionLookupError> {
        let Some(archive) = self.archive.get() else { return Ok(ArchivedDecisions::new()) };
        archive.find_all(ids, within).map_err(|why| {
            let address = archive.address().to_owned();
            DecisionLookupError::Archive { address, why }
        })
    }

    /// Explains a decision of the archive as [`Engine::explain`] does one of the journal. Blocks.
    pub fn explain_archived(&self, id: RecordId, decision: ArchivedDecision) -> Explanation {
        self.explain_row(id, decision.row, &decision.description)
    }

    /// Takes in what is said of decisions of the archive, as [`Engine::feedback_all`] does of the journal's. What is said of one
    /// decision counts in the order given. The answers are in that order, too.
    pub async fn feedback_archived(
        &self,
        decisions: &ArchivedDecisions,
        said: &[(RecordId, FeedbackInput<'_>)],
        now: Time,
    ) -> Vec<Result<FeedbackOutcome, FeedbackError>> {
        let mut by_decision: HashMap<RecordId, Vec<usize>> = HashMap::new();
        for (number, (id, _)) in said.iter().enumerate() {
            by_decision.entry(*id).or_default().push(number);
        }
        let all = by_decision.into_iter().map(|(id, numbers)| async move {
            let mut outcomes = Vec::with_capacity(numbers.len());
            for number in numbers {
                let decision = decisions.get(&id);
                outcomes.push((number, self.feedback_on_archived(id, decision, said[number].1, now).await));
            }
            outcomes
        });
        let mut outcomes: Vec<_> = join_all(all).await.into_iter().flatten().collect();
        outcomes.sort_unstable_by_key(|(number, _)| *number);
        outcomes.into_iter().map(|(_, outcome)| outcome).collect()
    }

    async fn feedback_on_archived(
        &self,
        id: RecordId,
        decision: Option<&ArchivedDecision>,
        said: FeedbackInput<'_>,
        now: Time,
    ) -> Result<FeedbackOutcome, FeedbackError> {
        let ArchivedDecision { node, is_own, row, description } =
            decision.cloned().ok_or(DecisionLookupError::NoDecision(id))?;
        // Its keys are counted elsewhere, and so is that it was said before.
        if !is_own && self.node_registry().is_none() {
            return Err(FeedbackError::Foreign(node));
        }
        self.feedback_on(id, row, Some(description), said, now).await
    }
}
