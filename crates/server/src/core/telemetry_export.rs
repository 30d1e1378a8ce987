//! The task that sends spans and metrics to a collector as long as a node runs.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, MissedTickBehavior, interval};

use crate::core::blocking::blocking;
use crate::core::node::Node;

/// The interval at which spans are sent.
const EVERY: Duration = Duration::from_secs(1);

/// Returns the name of a node among others.
fn instance(node: &Node) -> String {
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let number = node.engine.node_registry().map(|registry| registry.number().get());
    number.map_or_else(|| name.clone(), |number| format!("{name}-{number}"))
}

/// Sends spans and metrics as long as the node runs.
pub(crate) async fn export(node: Arc<Node>) {
    let Some(metrics) = node.telemetry.as_ref().map(|telemetry| telemetry.interval()) else { return };
    let mut ticks = interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut due = metrics.map(|_| Instant::now());
    loop {
        ticks.tick().await;
        let is_due = due.is_some_and(|due| due <= Instant::now());
        if let (true, Some(span)) = (is_due, metrics) {
            due = Some(Instant::now() + Duration::from_micros(span.0.unsigned_abs()));
        }
        let of = Arc::clone(&node);
        blocking(move || flush(&of, is_due)).await;
    }
}

/// Sends the spans that wait, and the metrics if they are due. Blocks.
pub(crate) fn flush(node: &Node, with_metrics: bool) {
    let Some(telemetry) = &node.telemetry else { return };
    let instance = instance(node);
    telemetry.send_spans(&instance);
    if with_metrics && let Ok(page) = node.metrics.page() {
        telemetry.send_metrics(&instance, &page, node.started_at, node.now());
    }
}
