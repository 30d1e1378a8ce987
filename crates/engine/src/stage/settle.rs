//! Stage 6, settle: what hangs on the verdict is counted. Stage 4 counted the event itself, refused or not.

use judge::{Action, Verdict};
use stats::{Add, Ledger, LedgerError, Observation, Request};

use super::observe::{Observed, counters};

/// What the verdicts add. Events that were counted before settle nothing, and neither does one whose statistics
/// could not be had: what was not counted as seen must not be counted as judged.
pub(crate) fn requests(observed: &[Observed], verdicts: &[Verdict]) -> Vec<Request> {
    let judged =
        observed.iter().zip(verdicts).filter(|(observed, _)| !observed.duplicate && !observed.failed);
    let requests = judged.map(|(observed, verdict)| request(observed, verdict.action));
    requests.filter(|request| !request.observations.is_empty()).collect()
}

/// Adds it.
pub(crate) async fn settle(ledger: &dyn Ledger, requests: &[Request]) -> Result<(), LedgerError> {
    if !requests.is_empty() {
        ledger.observe(requests).await?;
    }
    Ok(())
}

fn request(observed: &Observed, action: Action) -> Request {
    let prepared = &observed.prepared;
    let mut observations = Vec::new();
    for (plan, range) in prepared.row.pipeline.kinds.iter().zip(&prepared.by_kind) {
        let settled = plan.settle.iter().filter(|(other, _)| *other == action);
        let add = counters(settled.map(|(_, counter)| (*counter, 1)));
        if matches!(add, Add::Nothing) {
            continue;
        }
        let keys = prepared.keys.get(range.clone()).unwrap_or_default();
        observations.extend(keys.iter().map(|key| Observation {
            key: *key,
            time: prepared.row.time,
            add: add.clone(),
        }));
    }
    Request { once: None, observations }
}
