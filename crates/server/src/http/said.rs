//! Past decisions, and what people say about them.

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::HeaderMap;
use axum::{Extension, Json};
use engine::RecordId;
use serde::Deserialize;
use tokio::runtime::Handle;
use utoipa::IntoParams;

use super::{Object, Params};
use crate::abort::Abort;
use crate::api;
use crate::input::{self, EnvelopeSource, EventHeaders, Lookups, Reading};
use crate::node::{Node, blocking};
use crate::problem::{Failure, INVALID_PARAMETER, Problems};

fn record_id(text: &str) -> Result<RecordId, Failure> {
    text.parse().map_err(|error: engine::RecordIdError| INVALID_PARAMETER.failure(format!("id: {error}")))
}

/// A past decision with everything that it was made of: facts, readings, reasons.
#[utoipa::path(
    get,
    path = "/v1/decisions/{id}",
    tag = "said",
    params(("id" = String, Path, description = "The decision's id")),
    responses((status = 200, description = "The decision", body = api::Explanation), Problems),
)]
pub(super) async fn decision(
    State(node): State<Arc<Node>>,
    Path(id): Path<String>,
    Extension(abort): Extension<Abort>,
) -> Result<Json<api::Explanation>, Failure> {
    let id = record_id(&id)?;
    let engine = Arc::clone(&node.engine);
    let explanation = node.lookups.run(node.timeout() / 2, abort, move |_| engine.explain(id)).await??;
    Ok(Json(api::Explanation::from(&explanation)))
}

/// Takes in what somebody says about a past decision. The same said twice by one reporter counts once, and something else
/// replaces it.
#[utoipa::path(
    post,
    path = "/v1/feedback",
    tag = "said",
    request_body = api::Feedback,
    responses((status = 200, description = "What it did", body = api::Said), Problems),
)]
pub(super) async fn feedback(
    State(node): State<Arc<Node>>,
    Object(said): Object<api::Feedback>,
) -> Result<Json<api::Said>, Failure> {
    let id = record_id(&said.id)?;
    let by = reporter(said.by)?;
    let (engine, now, class) = (Arc::clone(&node.engine), node.now(), said.class.clone());
    // The decision is read from the journal, which blocks.
    let outcome = blocking(move || {
        let said = engine::Said { class: &class, by: by.as_deref() };
        Handle::current().block_on(engine.feedback(id, said, now))
    });
    Ok(Json(api::Said::new(id.to_string(), said.class, outcome.await?)))
}

/// The name of a reporter, if it is one.
fn reporter(by: Option<String>) -> Result<Option<String>, Failure> {
    const BYTES_MAX: usize = 256;
    match by {
        Some(by) if by.trim().is_empty() || by.len() > BYTES_MAX => {
            Err(INVALID_PARAMETER.failure(format!("by: expected a name of 1 to {BYTES_MAX} bytes")))
        }
        by => Ok(by),
    }
}

/// What is said, and how the event is to be understood.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct LearnParams {
    /// What is said: one of the pipeline's feedback classes; `none` takes back what was said.
    class: String,
    /// Who says it, e.g. an address; without one it is the operator.
    by: Option<String>,
    /// The pipeline; the first of the configuration if none is named.
    pipeline: Option<String>,
    /// Messages: take the time at which the message says it was received, not its arrival here.
    #[serde(default)]
    message_time: bool,
    /// Messages: `headers` takes the envelope from the message's own fields.
    #[param(inline)]
    envelope: Option<EnvelopeSource>,
}

/// Takes in what somebody says about an event that was not decided here. The same said twice of one event id, or
/// without one of the same body, counts once.
#[utoipa::path(
    post,
    path = "/v1/learn",
    tag = "said",
    params(LearnParams, EventHeaders),
    request_body(
        description = "One event, as for /v1/decide",
        content((serde_json::Value = "application/json"), (String = "message/rfc822"), (String = "text/plain")),
    ),
    responses((status = 200, description = "What it did", body = api::Said), Problems),
)]
pub(super) async fn learn(
    State(node): State<Arc<Node>>,
    Params(params): Params<LearnParams>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Json<api::Said>, Failure> {
    let pipeline = &node.pipeline(params.pipeline.as_deref())?;
    let reading = Reading { message_time: params.message_time, envelope: params.envelope };
    let event = input::submitted(&node, pipeline, &headers, reading, body.clone(), Lookups::None).await?;
    let by = reporter(params.by)?;
    let said = engine::Said { class: &params.class, by: by.as_deref() };
    let (id, outcome) = node.learn(event.prepared, event.id, &body, said).await?;
    Ok(Json(api::Said::new(id, params.class, outcome)))
}
