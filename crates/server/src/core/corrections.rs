//! Corrections of what a rule did, as jobs: one at a time, watched by who asks. What came of one is in the audit log, as an entry
//! beside that of its order.

use std::sync::Arc;

use engine::{CorrectionOrder, CorrectionProgress, RuleImpact};
use event::Time;
use parking_lot::Mutex;

use crate::core::problem::{HttpFailure, OVERLOADED};

/// A correction, and how far it is.
#[derive(Clone, Debug)]
pub(crate) struct CorrectionJob {
    pub(crate) order: CorrectionOrder,
    pub(crate) by: String,
    pub(crate) begun: Time,
    pub(crate) progress: Arc<CorrectionProgress>,
    /// The time of its end, and what came of it.
    pub(crate) ended: Option<(Time, Result<Arc<RuleImpact>, String>)>,
}

/// The job that is at work, or was last.
#[derive(Debug, Default)]
pub(crate) struct CorrectionJobs(Mutex<Option<CorrectionJob>>);

impl CorrectionJobs {
    /// Returns the job that is at work, or was last.
    pub(crate) fn current(&self) -> Option<CorrectionJob> {
        self.0.lock().clone()
    }

    pub(crate) fn enter(&self, job: CorrectionJob) -> Result<(), HttpFailure> {
        let mut current = self.0.lock();
        if current.as_ref().is_some_and(|job| job.ended.is_none()) {
            return Err(OVERLOADED
                .failure("another correction is at work; nothing of this one was done")
                .help("`GET /v1/rules/corrections` says how far it is"));
        }
        *current = Some(job);
        Ok(())
    }

    pub(crate) fn end(&self, now: Time, outcome: Result<Arc<RuleImpact>, String>) {
        if let Some(job) = self.0.lock().as_mut() {
            job.ended = Some((now, outcome));
        }
    }
}
