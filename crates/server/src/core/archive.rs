//! Decisions of nodes that are away or have them no more, from the place where nodes put theirs for all to read.

use std::collections::BTreeSet;
use std::sync::Arc;

use engine::ArchivedDecisions;
use journal::RecordId;

use crate::core::node::Node;
use crate::core::problem::HttpFailure;

impl Node {
    /// Returns those of these decisions that are in the archive; none where there is no archive.
    ///
    /// # Errors
    /// If it cannot be asked, or not in a part of the time that a request has: what it has is not gone.
    pub(crate) async fn archived(&self, ids: BTreeSet<RecordId>) -> Result<ArchivedDecisions, HttpFailure> {
        if self.engine.archive_address().is_none() {
            return Ok(ArchivedDecisions::new());
        }
        let (engine, patience) = (Arc::clone(&self.engine), self.timeout() / 4);
        // Who waits for a network waits apart from those whose decisions are here.
        let found = self.archives.run(patience, move |_| engine.find_archived(&ids, patience)).await?;
        Ok(found?)
    }

    /// Adds to what is said of a decision that is nowhere that the archive does not have it either.
    pub(crate) fn add_unarchived(&self, detail: &mut String) {
        if let Some(address) = self.engine.archive_address() {
            detail.push_str(&format!(
                "; {address} does not have it either: a decision is there once its segment is closed and uploaded \
                 (`upload_every` of [journal])"
            ));
        }
    }

    /// Returns a failure to find a decision with that added.
    pub(crate) fn unarchived(&self, failure: HttpFailure) -> HttpFailure {
        let mut detail = failure.detail().to_owned();
        self.add_unarchived(&mut detail);
        failure.with_detail(detail)
    }
}
