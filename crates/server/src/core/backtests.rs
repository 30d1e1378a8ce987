//! Back-tests as jobs: begun by who may change rules, watched, and cancelled. A few wait, one is at work, on one thread that
//! rests between blocks so that decisions go on; the last ones are kept for who asks.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use engine::backtest::{BacktestProgress, BacktestQuery, BacktestReport};
use event::Time;
use parking_lot::Mutex;
use plan::Pipeline;
use tokio::sync::Semaphore;

use crate::core::problem::{HttpFailure, NOT_FOUND, OVERLOADED, shown};

/// Most jobs that are kept: those that ended first make room.
const KEPT_MAX: usize = 16;
/// Most jobs that wait or are at work.
const PENDING_MAX: usize = 4;

/// The stage that a job has reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum BacktestStage {
    Waiting,
    Sampling,
    Running,
    Done,
    Cancelled,
    Failed(String),
}

impl BacktestStage {
    /// Returns its name.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            BacktestStage::Waiting => "waiting",
            BacktestStage::Sampling => "sampling",
            BacktestStage::Running => "running",
            BacktestStage::Done => "done",
            BacktestStage::Cancelled => "cancelled",
            BacktestStage::Failed(_) => "failed",
        }
    }

    /// Returns true while the job waits or is at work.
    pub(crate) fn is_pending(&self) -> bool {
        matches!(self, BacktestStage::Waiting | BacktestStage::Sampling | BacktestStage::Running)
    }
}

/// The order of a back-test.
#[derive(Clone, Debug)]
pub(crate) struct BacktestOrder {
    pub(crate) pipeline: Arc<Pipeline>,
    pub(crate) query: BacktestQuery,
    /// The text of rules that is tried; `None` for a kept version.
    pub(crate) text: Option<String>,
    pub(crate) from: Time,
    pub(crate) to: Time,
    pub(crate) by: String,
    pub(crate) is_sample_only: bool,
}

/// A back-test, and how far it is.
#[derive(Debug)]
pub(crate) struct BacktestJob {
    pub(crate) id: String,
    pub(crate) order: BacktestOrder,
    pub(crate) begun: Time,
    pub(crate) progress: BacktestProgress,
    pub(crate) is_cancelled: AtomicBool,
    outcome: Mutex<BacktestOutcome>,
}

/// The outcome of a back-test so far.
#[derive(Clone, Debug)]
pub(crate) struct BacktestOutcome {
    pub(crate) stage: BacktestStage,
    pub(crate) ended: Option<Time>,
    pub(crate) report: Option<Arc<BacktestReport>>,
    pub(crate) is_sample: bool,
    pub(crate) damaged: u64,
}

impl BacktestJob {
    /// Returns what came of it so far.
    pub(crate) fn outcome(&self) -> BacktestOutcome {
        self.outcome.lock().clone()
    }

    pub(crate) fn cancel(&self) {
        self.is_cancelled.store(true, Ordering::Relaxed);
    }

    pub(crate) fn enter(&self, stage: BacktestStage) {
        self.outcome.lock().stage = stage;
    }

    pub(crate) fn hold(&self, report: BacktestReport, is_sample: bool, damaged: u64) {
        let mut outcome = self.outcome.lock();
        (outcome.report, outcome.is_sample, outcome.damaged) = (Some(Arc::new(report)), is_sample, damaged);
    }

    pub(crate) fn end(&self, stage: BacktestStage, now: Time) {
        let mut outcome = self.outcome.lock();
        (outcome.stage, outcome.ended) = (stage, Some(now));
    }
}

/// The back-tests of a node.
#[derive(Debug)]
pub(crate) struct BacktestJobs {
    /// The oldest first.
    jobs: Mutex<VecDeque<Arc<BacktestJob>>>,
    /// The place of the one that is at work.
    pub(crate) place: Arc<Semaphore>,
}

impl Default for BacktestJobs {
    fn default() -> BacktestJobs {
        BacktestJobs { jobs: Mutex::default(), place: Arc::new(Semaphore::new(1)) }
    }
}

impl BacktestJobs {
    /// Returns the jobs that are kept, the newest first.
    pub(crate) fn all(&self) -> Vec<Arc<BacktestJob>> {
        self.jobs.lock().iter().rev().cloned().collect()
    }

    /// Returns a job by its name.
    ///
    /// # Errors
    /// If there is none.
    pub(crate) fn find(&self, id: &str) -> Result<Arc<BacktestJob>, HttpFailure> {
        let known = self.jobs.lock().iter().find(|job| job.id == id).cloned();
        known.ok_or_else(|| {
            NOT_FOUND
                .failure(format!("there is no back-test `{}`", shown(id)))
                .help("the last 16 since the start are kept: `GET /v1/backtests` lists them")
        })
    }

    /// Ends a job that waits or is at work, at its next block.
    pub(crate) fn cancel(&self, job: &BacktestJob, now: Time) {
        job.cancel();
        let mut outcome = job.outcome.lock();
        if outcome.stage.is_pending() {
            (outcome.stage, outcome.ended) = (BacktestStage::Cancelled, Some(now));
        }
    }

    /// Takes a job in, if not too many wait.
    pub(crate) fn enter(&self, order: BacktestOrder, now: Time) -> Result<Arc<BacktestJob>, HttpFailure> {
        let mut jobs = self.jobs.lock();
        let is_pending = |job: &&Arc<BacktestJob>| job.outcome.lock().stage.is_pending();
        if jobs.iter().filter(is_pending).count() >= PENDING_MAX {
            return Err(OVERLOADED
                .failure(format!("{PENDING_MAX} back-tests wait or are at work"))
                .help("wait, or cancel one: `DELETE /v1/backtests/{id}`"));
        }
        while jobs.len() >= KEPT_MAX {
            // Fewer are pending than are kept.
            let Some(at) = jobs.iter().position(|job| !job.outcome.lock().stage.is_pending()) else { break };
            jobs.remove(at);
        }
        let mut number = now.0.max(0).cast_unsigned();
        let mut id = format!("{number:x}");
        while jobs.iter().any(|job| job.id == id) {
            number += 1;
            id = format!("{number:x}");
        }
        let outcome = BacktestOutcome {
            stage: BacktestStage::Waiting,
            ended: None,
            report: None,
            is_sample: false,
            damaged: 0,
        };
        let job = Arc::new(BacktestJob {
            id,
            order,
            begun: now,
            progress: BacktestProgress::default(),
            is_cancelled: AtomicBool::new(false),
            outcome: Mutex::new(outcome),
        });
        jobs.push_back(Arc::clone(&job));
        Ok(job)
    }
}
