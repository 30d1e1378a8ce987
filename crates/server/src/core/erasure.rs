//! The erasure of what is known of somebody, as a job: one at a time, watched by who asks, and begun again at the next start if the
//! node stops before it is done.
//!
//! Its proof is in the audit log: who ordered it, as the route's entry, and what was erased, as an entry of its own. Neither has
//! more of a key than its hash.

use std::sync::Arc;

use engine::{ErasureOrder, ErasureOutcome, ErasureProgress};
use event::Time;
use parking_lot::Mutex;

use crate::core::problem::{HttpFailure, OVERLOADED};

/// A job, and how far it is.
#[derive(Clone, Debug)]
pub(crate) struct ErasureJob {
    pub(crate) order: ErasureOrder,
    pub(crate) is_pretence: bool,
    pub(crate) progress: Arc<ErasureProgress>,
    /// The time of its end, and what came of it.
    pub(crate) ended: Option<(Time, Result<ErasureOutcome, String>)>,
    /// The other nodes that were asked to erase what they have.
    pub(crate) asked: Vec<String>,
    /// The other nodes that could not be asked, and have it still.
    pub(crate) missing: Vec<String>,
}

/// The job that is at work, or was last.
#[derive(Debug, Default)]
pub(crate) struct ErasureJobs(Mutex<Option<ErasureJob>>);

impl ErasureJobs {
    /// Returns the job that is at work, or was last.
    pub(crate) fn current(&self) -> Option<ErasureJob> {
        self.0.lock().clone()
    }

    /// Takes the place, if no other job is at work.
    pub(crate) fn enter(&self, job: ErasureJob) -> Result<(), HttpFailure> {
        let mut current = self.0.lock();
        if current.as_ref().is_some_and(|job| job.ended.is_none()) {
            return Err(OVERLOADED
                .failure("another erasure is at work; nothing of this one was done")
                .help("`GET /v1/erase` says how far it is"));
        }
        *current = Some(job);
        Ok(())
    }

    pub(crate) fn change(&self, change: impl FnOnce(&mut ErasureJob)) {
        if let Some(job) = self.0.lock().as_mut() {
            change(job);
        }
    }
}

/// The keys of an order as they are shown: the kind and the hash of each.
pub(crate) fn shown_keys(order: &ErasureOrder) -> Vec<String> {
    order.keys.iter().map(|(kind, shingle)| format!("{kind}:{shingle}")).collect()
}
