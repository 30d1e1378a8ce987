//! Linear models that are made anew from the journal, beside those in use: begun by who may change rules, looked at, and then put to
//! work or let go.
//!
//! ```text
//! running ─► ready ◄─► adopting ─► adopted
//!    ├─► failed  └─► discarded, also after an hour
//!    └─► discarded
//! ```

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use engine::{KnownModels, RelearnError, RelearnReport, RelearnedModels};
use event::Time;
use parking_lot::Mutex;
use plan::Pipeline;

use crate::core::blocking::blocking;
use crate::core::node::Node;
use crate::core::problem::{CONFLICT, HttpFailure, INTERNAL, NOT_APPLICABLE, NOT_FOUND, OVERLOADED, shown};

/// The longest time that models are made.
const WORK_MAX: Duration = Duration::from_secs(30 * 60);
/// The time for which models wait for who wants them: as long as they are there each lesson is learned twice.
const READY_MAX: Duration = Duration::from_secs(60 * 60);
/// The share of a block's time for which the thread rests after it, and the longest such rest.
const REST_SHARE: u32 = 2;
const REST_MAX: Duration = Duration::from_millis(50);

/// The stage that the making of models has reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RelearnStage {
    Running,
    Ready,
    Adopting,
    Adopted,
    Discarded,
    Failed(String),
}

impl RelearnStage {
    /// Returns its name.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            RelearnStage::Running => "running",
            RelearnStage::Ready => "ready",
            RelearnStage::Adopting => "adopting",
            RelearnStage::Adopted => "adopted",
            RelearnStage::Discarded => "discarded",
            RelearnStage::Failed(_) => "failed",
        }
    }
}

/// Models that are made, and how far they are.
#[derive(Debug)]
pub(crate) struct RelearnJob {
    pub(crate) pipeline: Arc<Pipeline>,
    pub(crate) by: String,
    pub(crate) begun: Time,
    blocks: AtomicU64,
    is_over: AtomicBool,
    outcome: Mutex<RelearnOutcome>,
}

/// The outcome so far.
#[derive(Clone, Debug)]
pub(crate) struct RelearnOutcome {
    pub(crate) stage: RelearnStage,
    pub(crate) ended: Option<Time>,
    pub(crate) report: Option<RelearnReport>,
    /// The models, while they wait.
    models: Option<Arc<RelearnedModels>>,
}

impl RelearnJob {
    /// Returns what came of it so far.
    pub(crate) fn outcome(&self) -> RelearnOutcome {
        self.outcome.lock().clone()
    }

    /// Returns the number of the journal's blocks that were read, of both times over it.
    pub(crate) fn blocks(&self) -> u64 {
        self.blocks.load(Ordering::Relaxed)
    }

    /// Leaves a stage for one in which it is over, and lets go of the models; returns false in any other stage.
    fn leave(&self, stage: &RelearnStage, last: RelearnStage, now: Time) -> bool {
        let mut outcome = self.outcome.lock();
        if outcome.stage != *stage {
            return false;
        }
        (outcome.stage, outcome.ended, outcome.models) = (last, Some(now), None);
        true
    }

    /// Returns the models that wait, which nobody else can have or let go then.
    fn take_up(&self) -> Result<Arc<RelearnedModels>, HttpFailure> {
        let mut outcome = self.outcome.lock();
        let waiting = outcome.models.clone().filter(|_| outcome.stage == RelearnStage::Ready);
        if waiting.is_some() {
            outcome.stage = RelearnStage::Adopting;
        }
        waiting.ok_or_else(|| {
            NOT_APPLICABLE
                .failure(format!("the models are {}: none wait to be used", outcome.stage.name()))
                .help("`POST /v1/learners/relearn` makes them anew")
        })
    }

    /// Ends the making of them, or lets them go if they wait.
    pub(crate) fn discard(&self, now: Time) {
        self.is_over.store(true, Ordering::Relaxed);
        if !self.leave(&RelearnStage::Running, RelearnStage::Discarded, now) {
            self.leave(&RelearnStage::Ready, RelearnStage::Discarded, now);
        }
    }
}

/// The latest models of a node that were made anew.
#[derive(Debug, Default)]
pub(crate) struct RelearnJobs(Mutex<Option<Arc<RelearnJob>>>);

impl RelearnJobs {
    /// Returns the latest of a pipeline.
    ///
    /// # Errors
    /// If there is none.
    pub(crate) fn of(&self, pipeline: &str) -> Result<Arc<RelearnJob>, HttpFailure> {
        let latest = self.0.lock().clone().filter(|job| job.pipeline.name == pipeline);
        latest.ok_or_else(|| {
            NOT_FOUND
                .failure(format!("no linear models of `{}` were made anew", shown(pipeline)))
                .help("`POST /v1/learners/relearn` begins it")
        })
    }

    /// Takes a new one in, unless one is at work; those that wait are let go.
    fn enter(&self, pipeline: Arc<Pipeline>, by: String, now: Time) -> Result<Arc<RelearnJob>, HttpFailure> {
        let mut latest = self.0.lock();
        if let Some(job) = &*latest {
            if matches!(job.outcome().stage, RelearnStage::Running | RelearnStage::Adopting) {
                return Err(OVERLOADED
                    .failure(format!("linear models of `{}` are being made", job.pipeline.name))
                    .help("wait for them, or discard them"));
            }
            job.discard(now);
        }
        let outcome =
            RelearnOutcome { stage: RelearnStage::Running, ended: None, report: None, models: None };
        let job = Arc::new(RelearnJob {
            pipeline,
            by,
            begun: now,
            blocks: AtomicU64::new(0),
            is_over: AtomicBool::new(false),
            outcome: Mutex::new(outcome),
        });
        *latest = Some(Arc::clone(&job));
        Ok(job)
    }
}

/// Begins to make the linear models of a pipeline anew.
///
/// # Errors
/// If the pipeline has none, nodes share them, or some are being made.
pub(crate) fn begin(
    node: &Arc<Node>,
    pipeline: Arc<Pipeline>,
    by: String,
) -> Result<Arc<RelearnJob>, HttpFailure> {
    if pipeline.classifiers.iter().all(|plan| plan.linear.is_empty()) {
        return Err(NOT_APPLICABLE.failure(RelearnError::NoModel(pipeline.name.clone()).to_string()));
    }
    if node.engine.shares_models() {
        return Err(NOT_APPLICABLE
            .failure("nodes share the linear models, and this node's journal has its own decisions alone")
            .help("stop the nodes and run `tollhouse learn --from-journal` where the journals of all are"));
    }
    let job = node.relearning.enter(pipeline, by, node.now())?;
    tokio::spawn(work(Arc::clone(node), Arc::clone(&job)));
    Ok(job)
}

async fn work(node: Arc<Node>, job: Arc<RelearnJob>) {
    let (of, its) = (Arc::clone(&node), Arc::clone(&job));
    let made = tokio::spawn(node.costly.run(move || make(&of, &its))).await;
    let stage = match made {
        Ok(Ok(models)) => {
            let mut outcome = job.outcome.lock();
            // It may have been discarded meanwhile.
            if outcome.stage == RelearnStage::Running {
                outcome.stage = RelearnStage::Ready;
                (outcome.report, outcome.models) = (Some(models.report.clone()), Some(Arc::new(models)));
            }
            None
        }
        Ok(Err(stage)) => Some(stage),
        Err(_) => Some(RelearnStage::Failed("it stopped by a mistake of the program".to_owned())),
    };
    if let Some(stage) = stage {
        job.leave(&RelearnStage::Running, stage, node.now());
        return;
    }
    let (left, by) = (Arc::downgrade(&job), Arc::downgrade(&node));
    drop((job, node));
    tokio::time::sleep(READY_MAX).await;
    if let Some((job, node)) = left.upgrade().zip(by.upgrade()) {
        job.leave(&RelearnStage::Ready, RelearnStage::Discarded, node.now());
    }
}

fn make(node: &Node, job: &RelearnJob) -> Result<RelearnedModels, RelearnStage> {
    let started = Instant::now();
    let last = std::cell::Cell::new(started);
    let is_over = || {
        std::thread::sleep((last.get().elapsed() / REST_SHARE).min(REST_MAX));
        last.set(Instant::now());
        job.is_over.load(Ordering::Relaxed) || node.is_stopping() || started.elapsed() > WORK_MAX
    };
    let mut read = |blocks| _ = job.blocks.fetch_add(blocks, Ordering::Relaxed);
    node.engine.relearn_beside(&job.pipeline, &mut read, &is_over).map_err(|error| match error {
        RelearnError::Ended if started.elapsed() > WORK_MAX => RelearnStage::Failed(
            "it took longer than 30 minutes: run `tollhouse learn --from-journal`".to_owned(),
        ),
        RelearnError::Ended => RelearnStage::Discarded,
        error => RelearnStage::Failed(error.to_string()),
    })
}

/// Puts models that wait in the place of those in use; those that have learned more are replaced only if that is wanted.
///
/// # Errors
/// If none wait, they know less, or they cannot be written. Then those in use are as they were.
pub(crate) async fn adopt(
    node: &Arc<Node>,
    job: &Arc<RelearnJob>,
    known_models: KnownModels,
) -> Result<(), HttpFailure> {
    let models = job.take_up()?;
    let (engine, job, now) = (Arc::clone(&node.engine), Arc::clone(job), node.now());
    // Also where nobody waits for it any more.
    let adopted = blocking(move || {
        let adopted = engine.adopt_models(&models, known_models);
        match adopted {
            Ok(()) => _ = job.leave(&RelearnStage::Adopting, RelearnStage::Adopted, now),
            Err(_) => job.outcome.lock().stage = RelearnStage::Ready,
        }
        adopted
    })
    .await;
    adopted.map_err(|error| match error {
        RelearnError::KnownBetter { .. } => NOT_APPLICABLE
            .failure(error.to_string())
            .help("`replace=true` puts them in their place nonetheless: messages that were learned without a decision are not in the journal"),
        RelearnError::Superseded => CONFLICT.failure(error.to_string()),
        error => INTERNAL.failure(error.to_string()),
    })
}
