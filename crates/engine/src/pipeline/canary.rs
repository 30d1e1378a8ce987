//! Between observing and judging: events for which a candidate decides, a canary, get its rules.
//!
//! The canary's pipeline has the row of the pipeline in force, so what was observed holds for both. An event is the canary's by its
//! first key, which all events of that sender, address or visitor share, and else by its id: whoever is judged by the candidate is
//! judged by it every time, on all nodes with the same secret.

use std::sync::Arc;

use event::Secret;
use judge::Reason;

use super::keys::PreparedEvent;
use crate::Engine;

/// The name of the reason that says that a candidate decided.
pub const DECIDED_BY_CANDIDATE: &str = "DECIDED_BY_CANDIDATE";

impl Engine {
    /// Gives events of canaries their pipelines.
    pub(super) fn route_to_canaries(&self, events: &mut [PreparedEvent]) {
        for event in events {
            let pipeline = Arc::clone(&event.row.pipeline);
            let Some(canary) = pipeline.canary() else { continue };
            let node = self.node_registry().map(|registry| registry.number().get());
            if canary.scope.has_node(node) && canary.has_event(identity(event, &self.secret)) {
                event.row.pipeline = Arc::clone(&canary.pipeline);
                event.canary_of = Some(pipeline);
            }
        }
    }
}

/// Returns a hash of what tells the event from others; `None` for one that has neither a key nor an id.
fn identity(event: &PreparedEvent, secret: &Secret) -> Option<u64> {
    let key = event.first_key().map(|key| key.shingle.0);
    key.or_else(|| event.row.event_id.as_ref().map(|id| secret.shingle(id.as_bytes()).0))
}

/// Returns the reason that says that a candidate decided, if it did.
pub(crate) fn reason(event: &PreparedEvent) -> Option<Reason> {
    let canary = event.canary_of.as_ref()?.canary()?;
    let share = canary.scope.share() * 100.0;
    Some(Reason {
        rule: DECIDED_BY_CANDIDATE.to_owned(),
        score: 0.0,
        detail: format!("the candidate {} decides for {share} % of the events", canary.pipeline.version),
        values: Vec::new(),
    })
}
