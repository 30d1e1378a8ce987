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

use engine::{RelearnReport, RelearnedModels};
use event::Time;
use parking_lot::Mutex;
use plan::Pipeline;

use crate::core::problem::{HttpFailure, NOT_APPLICABLE, NOT_FOUND, OVERLOADED, shown};

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
    pub(crate) fn leave(&self, stage: &RelearnStage, last: RelearnStage, now: Time) -> bool {
        let mut outcome = self.outcome.lock();
        if outcome.stage != *stage {
            return false;
        }
        (outcome.stage, outcome.ended, outcome.models) = (last, Some(now), None);
        true
    }

    /// Returns the models that wait, which nobody else can have or let go then.
    pub(crate) fn take_up(&self) -> Result<Arc<RelearnedModels>, HttpFailure> {
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

    /// Returns true if they are to be made no further.
    pub(crate) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    /// Notes that blocks of the journal were read.
    pub(crate) fn add_blocks(&self, blocks: u64) {
        self.blocks.fetch_add(blocks, Ordering::Relaxed);
    }

    /// Lets models wait that were made, unless they were discarded meanwhile.
    pub(crate) fn hold(&self, models: RelearnedModels) {
        let mut outcome = self.outcome.lock();
        if outcome.stage == RelearnStage::Running {
            outcome.stage = RelearnStage::Ready;
            (outcome.report, outcome.models) = (Some(models.report.clone()), Some(Arc::new(models)));
        }
    }

    /// Lets models wait again that could not be put in their place.
    pub(crate) fn put_back(&self) {
        self.outcome.lock().stage = RelearnStage::Ready;
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
    pub(crate) fn enter(
        &self,
        pipeline: Arc<Pipeline>,
        by: String,
        now: Time,
    ) -> Result<Arc<RelearnJob>, HttpFailure> {
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
