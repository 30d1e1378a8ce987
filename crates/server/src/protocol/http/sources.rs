//! The sources that the node reads by itself.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use event::Time;

use crate::api::{self, Timestamp};
use crate::core::node::Node;
use crate::core::problem::ProblemResponses;
use crate::core::sources::SourceStatus;

/// Lists the sources that the node reads: what was read, how far each lags, and what is wrong.
#[utoipa::path(
    get,
    path = "/v1/sources",
    tag = "node",
    responses((status = 200, description = "The sources", body = api::SourcesJson), ProblemResponses),
)]
pub(crate) async fn sources(State(node): State<Arc<Node>>) -> Json<api::SourcesJson> {
    let sources = node.sources.statuses().iter().map(|status| described(status)).collect();
    Json(api::SourcesJson { sources })
}

fn described(status: &SourceStatus) -> api::SourceJson {
    let fault = status.fault().map(fault_json);
    let count = |gauge: i64| gauge.max(0).unsigned_abs();
    api::SourceJson {
        name: status.plan.name.clone(),
        kind: status.plan.input.kind().to_owned(),
        pipeline: status.plan.pipeline.clone(),
        state: if fault.is_some() { "failing" } else { "reading" }.to_owned(),
        lines: status.lines.get(),
        events: status.events.get(),
        unread: status.unread.get(),
        bad: status.bad.get(),
        dropped: status.dropped.get(),
        lag: count(status.lag.get()),
        files: count(status.files.get()),
        last_line: status.last_line().map(Timestamp),
        fault,
        last_bad: status.last_bad().map(fault_json),
    }
}

fn fault_json((since, reason): (Time, String)) -> api::SourceFaultJson {
    api::SourceFaultJson { since: Timestamp(since), reason }
}
