//! Erasure of what is known of somebody, for those who administer the node.

use std::sync::Arc;

use axum::Json;
use axum::body::Bytes;
use axum::extract::{Extension, State};
use axum::http::StatusCode;

use super::JsonBody;
use crate::api;
use crate::core::erasure::{self, ErasureJob};
use crate::core::erasure_work;
use crate::core::grant::{RequestGrant, note};
use crate::core::node::Node;
use crate::core::peers::RelayedRequest;
use crate::core::problem::{HttpFailure, INTERNAL, ProblemResponses};

/// Erases what is known of keys: decisions with their feedback, statistics, distinct values, bans, reviews, posted entries of the
/// allow list, notes and saved searches, in the snapshots of the data directory, too. `dry_run` only counts; `reset` only
/// sets statistics to zero.
///
/// The erasure runs in the background, one at a time, and resumes after a restart; `GET /v1/erase` returns its progress.
/// Decisions go on. Each node that shares statistics erases its own decisions.
#[utoipa::path(
    post,
    path = "/v1/erase",
    operation_id = "erase",
    tag = "node",
    request_body = api::EraseRequest,
    responses((status = 202, description = "It is begun", body = api::EraseJson), ProblemResponses),
)]
pub(crate) async fn erase(
    State(node): State<Arc<Node>>,
    relayed: Option<Extension<RelayedRequest>>,
    JsonBody(request): JsonBody<api::EraseRequest>,
) -> Result<(StatusCode, Json<api::EraseJson>), HttpFailure> {
    let pipeline = node.pipeline(request.pipeline.as_deref())?;
    let by = RequestGrant::current().map_or_else(|| "local".to_owned(), |grant| grant.name().to_owned());
    let keys = request.keys.iter().map(|key| (key.kind.as_str(), key.value.as_str()));
    let mut order = node.engine.erasure_order(&pipeline, keys, &by, node.now())?;
    note("pipeline", pipeline.name.clone());
    note("keys", erasure::shown_keys(&order).join(","));
    note("dry_run", request.dry_run.to_string());
    note("reset", request.reset.to_string());
    let is_alone = node.engine.node_registry().is_none();
    // The node that was asked erases what is shared.
    order.has_statistics = relayed.is_none();
    order.is_reset = request.reset;
    let body = match relayed.is_some() || is_alone || request.dry_run {
        true => None,
        false => {
            let body = api::EraseRequest { pipeline: Some(pipeline.name.clone()), ..request.clone() };
            let body = serde_json::to_vec(&body).map_err(|_| INTERNAL.failure("it cannot be relayed"))?;
            Some(Bytes::from(body))
        }
    };
    erasure_work::begin(&node, order, request.dry_run, body).await?;
    Ok((StatusCode::ACCEPTED, progress(State(node)).await))
}

/// Returns the progress of the running erasure, or the result of the last one since the start.
#[utoipa::path(
    get,
    path = "/v1/erase",
    operation_id = "erase_progress",
    tag = "node",
    responses((status = 200, description = "The erasure", body = api::EraseJson), ProblemResponses),
)]
pub(super) async fn progress(State(node): State<Arc<Node>>) -> Json<api::EraseJson> {
    Json(node.erasures.current().map_or_else(api::EraseJson::none, |job| shown(&job)))
}

/// Returns a job as it is shown.
fn shown(job: &ErasureJob) -> api::EraseJson {
    let (segments, segments_all) = job.progress.segments();
    let mut shown = api::EraseJson {
        state: "running".to_owned(),
        dry_run: job.is_pretence,
        reset: job.order.is_reset,
        by: job.order.by.clone(),
        keys: erasure::shown_keys(&job.order),
        begun: Some(api::Timestamp(job.order.begun)),
        segments,
        segments_all,
        asked: job.asked.clone(),
        missing: job.missing.clone(),
        ..api::EraseJson::default()
    };
    match &job.ended {
        None => shown.phase = Some(job.progress.phase().name().to_owned()),
        Some((time, Err(why))) => {
            (shown.state, shown.ended) = ("failed".to_owned(), Some(api::Timestamp(*time)));
            shown.problem = Some(why.clone());
        }
        Some((time, Ok(outcome))) => {
            (shown.state, shown.ended) = ("done".to_owned(), Some(api::Timestamp(*time)));
            (shown.statistics, shown.marks) = (outcome.statistics.keys, outcome.statistics.marks);
            (shown.decisions, shown.feedback) = (outcome.records.decisions, outcome.records.feedback);
            (shown.bans, shown.reviews) = (outcome.bans, outcome.reviews);
            shown.posted = outcome.posted;
            (shown.damaged, shown.snapshots) = (outcome.damaged, outcome.snapshots.erased);
            shown.snapshots_left = outcome.snapshots.left.iter().cloned().collect();
        }
    }
    shown
}
