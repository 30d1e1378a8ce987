//! The brokers that the node sends decisions and feedback to.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use engine::SinkStatus;

use crate::api::{self, Timestamp};
use crate::core::node::Node;
use crate::core::problem::ProblemResponses;

/// Lists the brokers that the node sends to: what was sent, how far each lags, and what is wrong.
#[utoipa::path(
    get,
    path = "/v1/sinks",
    tag = "node",
    responses((status = 200, description = "The sinks", body = api::SinksJson), ProblemResponses),
)]
pub(crate) async fn sinks(State(node): State<Arc<Node>>) -> Json<api::SinksJson> {
    let sinks = node.engine.sinks().statuses().iter().map(|status| described(status)).collect();
    Json(api::SinksJson { sinks })
}

fn described(status: &SinkStatus) -> api::SinkJson {
    let fault = status.fault();
    let fault = fault.map(|(since, reason)| api::SinkFaultJson { since: Timestamp(since), reason });
    api::SinkJson {
        name: status.plan.name.clone(),
        kind: status.plan.target.kind().to_owned(),
        address: status.plan.target.address().to_owned(),
        state: if fault.is_some() { "failing" } else { "sending" }.to_owned(),
        sent: status.sent(),
        bytes: status.bytes(),
        shortened: status.shortened(),
        failures: status.failures(),
        lag: status.lag(),
        gaps: status.gaps(),
        last: status.last().map(|last| last.to_string()),
        fault,
    }
}
