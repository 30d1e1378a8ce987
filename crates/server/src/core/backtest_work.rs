//! The work of a back-test, on a thread of its own: the sample, then the whole.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::core::backtests::{BacktestJob, BacktestOrder, BacktestStage};
use crate::core::node::Node;
use crate::core::problem::HttpFailure;

/// The longest time that a job is at work.
const WORK_MAX: Duration = Duration::from_secs(15 * 60);
/// The share of a block's time for which the thread rests after it, and the longest such rest.
const REST_SHARE: u32 = 2;
const REST_MAX: Duration = Duration::from_millis(50);

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
    let worked = tokio::spawn(node.costly.run(move || judge(&of, &its))).await;
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
