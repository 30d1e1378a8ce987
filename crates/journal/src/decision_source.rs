//! A journal in which decisions are searched, whoever has it open.

use std::sync::Arc;

use super::block_summaries::BlockSummaries;
use super::labels::DecisionLabels;
use super::ranked::{RankedBlocks, ReadBudget};
use super::{JournalError, VersionDescription};
use crate::id::{IdRange, RecordId};

/// A journal in which decisions are searched: an open one, or the files of one.
pub trait DecisionSource {
    /// The blocks that have ids of a range, those with the greatest first; what waits to be written is among them.
    fn ranked(&self, ids: IdRange) -> Result<RankedBlocks, JournalError>;

    /// Returns the meaning of the rows of a pipeline's version.
    fn version(&self, version: &str) -> Result<Arc<VersionDescription>, JournalError>;

    /// Returns what is known of the labels of its decisions.
    fn labels(&self) -> &DecisionLabels;

    /// Returns what is known of its blocks before they are read.
    fn summaries(&self) -> &BlockSummaries;

    /// Reads reports until the labels of all decisions from this id on are known, and returns true if they are.
    ///
    /// # Errors
    /// If a file cannot be read. Damaged parts are passed over.
    fn read_labels(&self, from: RecordId, budget: &mut ReadBudget<'_>) -> Result<bool, JournalError> {
        self.labels().read_down_to(from, budget, |ids| self.ranked(ids))
    }
}
