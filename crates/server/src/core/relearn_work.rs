//! The making of linear models anew, on a thread of its own, and their use.

use std::sync::Arc;
use std::time::{Duration, Instant};

use engine::{KnownModels, RelearnError, RelearnedModels};
use plan::Pipeline;

use crate::core::blocking::blocking;
use crate::core::node::Node;
use crate::core::problem::{CONFLICT, HttpFailure, INTERNAL, NOT_APPLICABLE};
use crate::core::relearning::{RelearnJob, RelearnStage};

/// The longest time that models are made.
const WORK_MAX: Duration = Duration::from_secs(30 * 60);
/// The time for which models wait for who wants them: as long as they are there each example is learned twice.
const READY_MAX: Duration = Duration::from_secs(60 * 60);
/// The share of a block's time for which the thread rests after it, and the longest such rest.
const REST_SHARE: u32 = 2;
const REST_MAX: Duration = Duration::from_millis(50);

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
            job.hold(models);
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
        job.is_over() || node.is_stopping() || started.elapsed() > WORK_MAX
    };
    let mut read = |blocks| job.add_blocks(blocks);
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
            Err(_) => job.put_back(),
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
