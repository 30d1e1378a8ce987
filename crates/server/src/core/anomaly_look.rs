//! The look for anomalies of all pipelines.

use std::sync::Arc;

use tokio::runtime::Handle;

use crate::core::anomaly_watch::AnomalyReport;
use crate::core::node::Node;
use crate::core::problem::{HttpFailure, OVERLOADED};

/// Looks for anomalies, unless that was done within a minute.
///
/// # Errors
/// If somebody else looks for the first time, there is no place for it, or the ledger or the journal fails.
pub(crate) async fn report(node: &Arc<Node>) -> Result<Arc<AnomalyReport>, HttpFailure> {
    let now = node.now();
    let look = match node.anomalies.known(now) {
        Ok(report) => return Ok(report),
        Err(look) => look,
    };
    let look = look.ok_or_else(|| {
        OVERLOADED.failure("anomalies are looked for by another request").help("try again in a second")
    })?;
    let engine = Arc::clone(&node.engine);
    let work = move |is_over: &(dyn Fn() -> bool + Sync)| {
        let mut found = Vec::new();
        for pipeline in engine.plan().pipelines.iter().take_while(|_| !is_over()) {
            found.extend(Handle::current().block_on(engine.anomalies(pipeline, now, is_over))?);
        }
        Ok::<_, engine::KeyStatisticsError>(found)
    };
    let found = node.scans.run(node.timeout() / 2, work).await??;
    let report = node.anomalies.keep(now, found);
    drop(look);
    Ok(report)
}
