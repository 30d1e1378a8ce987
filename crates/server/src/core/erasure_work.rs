//! The work of an erasure: begun, gone on with at the next start, and its proof in the audit log.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use access::audit::AuditEntry;
use axum::body::Bytes;
use engine::{ErasureFailure, ErasureOrder, ErasureOutcome, ErasureProgress, Impact};
use tokio::runtime::Handle;
use tokio::time::sleep;

use crate::core::blocking::blocking;
use crate::core::erasure::{ErasureJob, shown_keys};
use crate::core::node::Node;
use crate::core::problem::HttpFailure;

/// The name of the condition of a node with an erasure that is not done.
const CONDITION: &str = "erasure-unfinished";
/// The actions of the audit log.
const DONE: &str = "erase.done";
const FAILED: &str = "erase.failed";
/// The time after which an entry is tried again that the audit log does not take.
const AGAIN: Duration = Duration::from_secs(10);

/// Begins an erasure, on this node and, with the `body` that it was ordered by, on the others that share its statistics.
///
/// # Errors
/// If another one is at work, or it cannot be written down. Then nothing was erased.
pub(crate) async fn begin(
    node: &Arc<Node>,
    order: ErasureOrder,
    is_pretence: bool,
    body: Option<Bytes>,
) -> Result<(), HttpFailure> {
    let progress = Arc::new(ErasureProgress::default());
    node.erasures.enter(ErasureJob {
        order: order.clone(),
        is_pretence,
        progress: Arc::clone(&progress),
        ended: None,
        asked: Vec::new(),
        missing: Vec::new(),
    })?;
    if !is_pretence {
        let (engine, noted) = (Arc::clone(&node.engine), order.clone());
        if let Err(error) = blocking(move || engine.note_erasure(&noted)).await {
            let ended = (node.now(), Err(error.to_string()));
            node.erasures.change(|job| job.ended = Some(ended));
            return Err(error.into());
        }
    }
    tokio::spawn(work(Arc::clone(node), order, is_pretence, progress, body));
    Ok(())
}

/// Goes on with what was not done when the node stopped.
pub(crate) async fn resume(node: &Arc<Node>) {
    let engine = Arc::clone(&node.engine);
    let pending = match blocking(move || engine.pending_erasure()).await {
        Ok(None) => return,
        Ok(Some(order)) => begin(node, order, false, None).await.map_err(|failure| failure.problem().detail),
        Err(error) => Err(error.to_string()),
    };
    match pending {
        Ok(()) => tracing::info!("an erasure that was not done goes on"),
        Err(why) => {
            let told = format!("an erasure that was begun is not done: {why}");
            node.engine.health().set(CONDITION, Impact::Degraded, Some(told));
        }
    }
}

async fn work(
    node: Arc<Node>,
    order: ErasureOrder,
    is_pretence: bool,
    progress: Arc<ErasureProgress>,
    body: Option<Bytes>,
) {
    if let Some(body) = body {
        let (asked, missing) = node.erase_elsewhere(&body).await;
        node.erasures.change(|job| (job.asked, job.missing) = (asked, missing));
    }
    let (of, its) = (Arc::clone(&node), order.clone());
    let work = move || {
        let is_over = || {
            journal::give_way();
            of.is_stopping()
        };
        Handle::current().block_on(of.engine.erase(&its, is_pretence, &progress, &is_over))
    };
    let outcome = node.costly.run(work).await;
    if let Err(ErasureFailure::Ended) = outcome {
        tracing::info!("an erasure goes on at the next start");
        return;
    }
    let outcome = outcome.map_err(|error| error.to_string());
    if !is_pretence {
        let now = Instant::now();
        node.statistics.forget(now);
        node.hottest.forget(now);
        node.fullest.forget(now);
        node.reputations.forget(now);
        prove(&node, &order, &outcome).await;
        let told = outcome.as_ref().err().map(|why| {
            format!("an erasure is not done: {why}; order it again with `tollhouse erase --server`, once that is mended")
        });
        node.engine.health().set(CONDITION, Impact::Degraded, told);
    }
    let ended = (node.now(), outcome);
    node.erasures.change(|job| job.ended = Some(ended));
}

/// Puts into the audit log what was erased.
async fn prove(node: &Node, order: &ErasureOrder, outcome: &Result<ErasureOutcome, String>) {
    let missing = node.erasures.current().map(|job| job.missing).unwrap_or_default();
    let mut detail = BTreeMap::from([("keys", shown_keys(order).join(","))]);
    detail.insert("ordered", order.begun.to_string());
    if !missing.is_empty() {
        detail.insert("missing", missing.join(","));
    }
    match outcome {
        Ok(outcome) => detail.extend([
            ("statistics", outcome.statistics.keys.to_string()),
            ("marks", outcome.statistics.marks.to_string()),
            ("decisions", outcome.records.decisions.to_string()),
            ("feedback", outcome.records.feedback.to_string()),
            ("bans", outcome.bans.to_string()),
            ("reviews", outcome.reviews.to_string()),
            ("damaged", outcome.damaged.to_string()),
            ("snapshots", outcome.snapshots.erased.to_string()),
            ("snapshots_left", outcome.snapshots.left.len().to_string()),
        ]),
        Err(why) => _ = detail.insert("why", why.clone()),
    }
    let is_done = outcome.is_ok();
    let entry = AuditEntry {
        time: node.now(),
        by: order.by.clone(),
        from: None,
        action: if is_done { DONE } else { FAILED }.to_owned(),
        status: if is_done { 200 } else { 500 },
        detail: detail.into_iter().map(|(name, text)| (name.to_owned(), text)).collect(),
    };
    // It is the proof: it waits for the log.
    while node.audit.append(entry.clone()).await.is_err() && !node.is_stopping() {
        sleep(AGAIN).await;
    }
}
