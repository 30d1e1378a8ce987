//! Back-tests as jobs: begun by who may change rules, watched, and cancelled. A few wait, one is at work, on one thread that
//! rests between blocks so that decisions go on; the last ones are kept for who asks.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use engine::backtest::{BacktestProgress, BacktestQuery, BacktestReport};
use event::Time;
use parking_lot::Mutex;
use plan::Pipeline;
use tokio::sync::Semaphore;

use crate::core::node::Node;
use crate::core::problem::{HttpFailure, NOT_FOUND, OVERLOADED, shown};

/// Most jobs that are kept: those that ended first make room.
const KEPT_MAX: usize = 16;
/// Most jobs that wait or are at work.
const PENDING_MAX: usize = 4;
/// The longest time that a job is at work.
const WORK_MAX: Duration = Duration::from_secs(15 * 60);
/// The share of a block's time for which the thread rests after it, and the longest such rest.
const REST_SHARE: u32 = 2;
const REST_MAX: Duration = Duration::from_millis(50);

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
    /// The text that is tried, if it is one that was sent.
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
    is_cancelled: AtomicBool,
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

    fn cancel(&self) {
        self.is_cancelled.store(true, Ordering::Relaxed);
    }

    fn enter(&self, stage: BacktestStage) {
        self.outcome.lock().stage = stage;
    }

    fn hold(&self, report: BacktestReport, is_sample: bool, damaged: u64) {
        let mut outcome = self.outcome.lock();
        (outcome.report, outcome.is_sample, outcome.damaged) = (Some(Arc::new(report)), is_sample, damaged);
    }

    fn end(&self, stage: BacktestStage, now: Time) {
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
    place: Arc<Semaphore>,
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
    fn enter(&self, order: BacktestOrder, now: Time) -> Result<Arc<BacktestJob>, HttpFailure> {
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

/// Begins a back-test.
///
/// # Errors
/// If too many wait.
pub(crate) fn begin(node: &Arc<Node>, order: BacktestOrder) -> Result<Arc<BacktestJob>, HttpFailure> {
    let job = node.backtests.enter(order, node.now())?;
    tokio::spawn(work(Arc::clone(node), Arc::clone(&job)));
    Ok(job)
}

async fn work(node: Arc<Node>, job: Arc<BacktestJob>) {
    let Ok(_place) = Arc::clone(&node.backtests.place).acquire_owned().await else { return };
    if !job.outcome().stage.is_pending() {
        return;
    }
    let (of, its) = (Arc::clone(&node), Arc::clone(&job));
    let worked = tokio::task::spawn_blocking(move || judge(&of, &its)).await;
    let stage =
        worked.unwrap_or_else(|_| BacktestStage::Failed("it stopped by a mistake of the program".to_owned()));
    if job.outcome().stage.is_pending() {
        job.end(stage, node.now());
    }
}

/// Judges the sample, then the whole.
fn judge(node: &Node, job: &BacktestJob) -> BacktestStage {
    let started = Instant::now();
    let is_over =
        || job.is_cancelled.load(Ordering::Relaxed) || node.is_stopping() || started.elapsed() > WORK_MAX;
    let over = || match started.elapsed() > WORK_MAX {
        true => BacktestStage::Failed("it took longer than 15 minutes: ask for a shorter time".to_owned()),
        false => BacktestStage::Cancelled,
    };
    let failed = |error: engine::DecisionLookupError| BacktestStage::Failed(error.to_string());
    let BacktestOrder { pipeline, query, .. } = &job.order;
    job.enter(BacktestStage::Sampling);
    let backtest = match node.engine.backtest_of(Arc::clone(pipeline), query.clone()) {
        Ok(backtest) => backtest,
        Err(error) => return failed(error),
    };
    match node.engine.backtest_sample(&backtest, job.begun, &is_over) {
        Ok(Some(report)) => job.hold(report, true, 0),
        Ok(None) => return over(),
        Err(error) => return failed(error),
    }
    if job.order.is_sample_only {
        return BacktestStage::Done;
    }
    if is_over() {
        return over();
    }
    job.enter(BacktestStage::Running);
    let last = std::cell::Cell::new(Instant::now());
    let is_over_and_rest = || {
        std::thread::sleep((last.get().elapsed() / REST_SHARE).min(REST_MAX));
        last.set(Instant::now());
        is_over()
    };
    match node.engine.backtest(&backtest, job.begun, &job.progress, &is_over_and_rest) {
        Ok(Some((report, skipped))) => {
            job.hold(report, false, skipped.bytes);
            BacktestStage::Done
        }
        Ok(None) => over(),
        Err(error) => failed(error),
    }
}
