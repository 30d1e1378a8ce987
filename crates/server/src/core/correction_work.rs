//! The work of a correction, and its proof in the audit log.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use access::audit::AuditEntry;
use engine::{CorrectionFailure, CorrectionOrder, CorrectionProgress, RuleImpact};
use event::Time;
use plan::NotificationOccasion;
use serde_json::json;
use tokio::runtime::Handle;
use tokio::time::sleep;

use crate::core::corrections::CorrectionJob;
use crate::core::node::Node;
use crate::core::notifications::Notice;
use crate::core::problem::HttpFailure;

/// The actions of the audit log.
const DONE: &str = "rules.correct.done";
const FAILED: &str = "rules.correct.failed";
/// The time after which an entry is tried again that the audit log does not take.
const AGAIN: Duration = Duration::from_secs(10);

/// Begins a correction.
///
/// # Errors
/// If another one is at work.
pub(crate) fn begin(node: &Arc<Node>, order: CorrectionOrder, by: String) -> Result<(), HttpFailure> {
    let progress = Arc::new(CorrectionProgress::default());
    let begun = node.now();
    let (of, its) = (order.clone(), Arc::clone(&progress));
    node.corrections.enter(CorrectionJob { order: of, by: by.clone(), begun, progress: its, ended: None })?;
    tokio::spawn(work(Arc::clone(node), order, by, progress));
    Ok(())
}

async fn work(node: Arc<Node>, order: CorrectionOrder, by: String, progress: Arc<CorrectionProgress>) {
    let (of, its, who, now) = (Arc::clone(&node), order.clone(), by.clone(), node.now());
    let work = move || {
        let is_over = || {
            journal::give_way();
            of.is_stopping()
        };
        Handle::current().block_on(of.engine.correct(&its, (&who, now), None, &progress, &is_over))
    };
    let outcome = match tokio::spawn(node.costly.run(work)).await {
        Ok(Ok(Some(impact))) => Ok(Arc::new(impact)),
        Ok(Ok(None)) => Err(format!("there is no pipeline `{}`", order.pipeline)),
        Ok(Err(CorrectionFailure::Ended)) if node.is_stopping() => return,
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err("it stopped by a mistake of the program".to_owned()),
    };
    prove(&node, &order, &by, &outcome).await;
    if let Ok(impact) = &outcome {
        node.notifications.publish(&correction(&order, &by, impact, node.now()));
    }
    node.corrections.end(node.now(), outcome);
}

/// The notice of a correction: what was taken back, and the decisions that callers may want to undo, those first that the rule
/// alone decided.
fn correction(order: &CorrectionOrder, by: &str, impact: &RuleImpact, now: Time) -> Notice {
    let CorrectionOrder { pipeline, rule, version, from, to } = order;
    let done = impact.hits - impact.corrected;
    let summary = format!(
        "What `{rule}` did to {done} decisions of `{pipeline}` was undone: {} of them it decided alone",
        impact.alone
    );
    let decisions: Vec<_> = impact
        .listed
        .iter()
        .filter(|hit| !hit.is_corrected)
        .map(|hit| {
            json!({
                "id": hit.id.to_string(),
                "event_id": hit.event_id,
                "time": hit.time.to_string(),
                "action": hit.action.name(),
                "without": hit.without.map(|action| action.name()),
            })
        })
        .collect();
    let key = format!("{pipeline} {rule} {version:?} {from} {to} {now}");
    Notice::new(NotificationOccasion::Correction, now, key, &summary)
        .of_pipeline(pipeline)
        .with("rule", rule.as_str())
        .with("version", version.clone())
        .with("from", from.to_string())
        .with("to", to.to_string())
        .with("by", by)
        .with("corrected", done)
        .with("alone", impact.alone)
        .with("counts", impact.counts)
        .with("labels", impact.labels)
        .with("bans", impact.bans)
        .with("left_off", done.saturating_sub(decisions.len() as u64))
        .with("decisions", decisions)
}

/// Puts into the audit log what was taken back.
async fn prove(node: &Node, order: &CorrectionOrder, by: &str, outcome: &Result<Arc<RuleImpact>, String>) {
    let mut detail = BTreeMap::from([("pipeline", order.pipeline.clone()), ("rule", order.rule.clone())]);
    match outcome {
        Ok(impact) => detail.extend([
            ("decisions", (impact.hits - impact.corrected).to_string()),
            ("alone", impact.alone.to_string()),
            ("counts", impact.counts.to_string()),
            ("labels", impact.labels.to_string()),
            ("bans", impact.bans.to_string()),
        ]),
        Err(why) => _ = detail.insert("why", why.clone()),
    }
    let is_done = outcome.is_ok();
    let entry = AuditEntry {
        time: node.now(),
        by: by.to_owned(),
        from: None,
        action: if is_done { DONE } else { FAILED }.to_owned(),
        status: if is_done { 200 } else { 500 },
        detail: detail.into_iter().map(|(name, text)| (name.to_owned(), text)).collect(),
    };
    while node.audit.append(entry.clone()).await.is_err() && !node.is_stopping() {
        sleep(AGAIN).await;
    }
}
