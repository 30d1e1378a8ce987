//! Challenges for applications: asked for before anything is decided, and verified when they come back.

use std::sync::Arc;

use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::HeaderMap;
use serde::Deserialize;
use utoipa::IntoParams;

use super::{JsonBody, QueryParams};
use crate::api;
use crate::core::node::Node;
use crate::core::preparation::LookupMode;
use crate::core::problem::{HttpFailure, INVALID_BODY, INVALID_PARAMETER, ProblemResponses, shown};
use crate::protocol::input::{self, MessageReadOptions};

/// The pipeline whose `[challenge]` counts.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct ChallengeParams {
    /// The pipeline; the first of the configuration if none is named.
    pipeline: Option<String>,
}

/// Issues a challenge for an event, as hard as its keys' history asks for. Nothing is counted or logged.
#[utoipa::path(
    post,
    path = "/v1/challenges",
    tag = "challenges",
    params(ChallengeParams),
    request_body(
        description = "The event, as for /v1/decide: at least the fields that tell the visitor",
        content((serde_json::Value = "application/json")),
    ),
    responses((status = 200, description = "A challenge in ALTCHA's format", body = serde_json::Value), ProblemResponses),
)]
pub(super) async fn issue(
    State(node): State<Arc<Node>>,
    QueryParams(params): QueryParams<ChallengeParams>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Json<serde_json::Value>, HttpFailure> {
    let pipeline = with_challenges(&node, params.pipeline.as_deref())?;
    let reading = MessageReadOptions::default();
    let event = input::submitted(&node, &pipeline, &headers, reading, body, LookupMode::None).await?;
    let issued = node.engine.offer_challenge(event.prepared).await?;
    let issued = issued.and_then(|issued| serde_json::from_str(&issued.json).ok());
    issued.map(Json).ok_or_else(|| INVALID_BODY.failure("no challenge can be issued for this event"))
}

/// Verifies a solved challenge, uses it up, and returns the pass that it earns.
#[utoipa::path(
    post,
    path = "/v1/challenges/verify",
    tag = "challenges",
    operation_id = "verify_challenge",
    params(ChallengeParams),
    request_body = api::SolutionJson,
    responses((status = 200, description = "What came of it", body = api::ChallengeOutcomeJson), ProblemResponses),
)]
pub(super) async fn verify(
    State(node): State<Arc<Node>>,
    QueryParams(params): QueryParams<ChallengeParams>,
    JsonBody(solution): JsonBody<api::SolutionJson>,
) -> Result<Json<api::ChallengeOutcomeJson>, HttpFailure> {
    let pipeline = with_challenges(&node, params.pipeline.as_deref())?;
    let now = node.now();
    let event = solution.event.map_or_else(|| b"{}".to_vec(), |event| event.to_string().into_bytes());
    let (event, _) = node.engine.read_json(&pipeline, &event, now).map_err(|error| {
        INVALID_BODY
            .failure(format!("event: {}", shown(&error.to_string())))
            .help("send the fields that tell the visitor")
    })?;
    let read = node.read(&pipeline, event, now).await?;
    let outcome = node.redeem(&read, solution.payload.as_bytes(), now).await;
    Ok(Json(match outcome {
        Ok(pass) => api::ChallengeOutcomeJson { solved: true, refused: None, pass: Some(pass.into()) },
        Err(refusal) => {
            api::ChallengeOutcomeJson { solved: false, refused: Some(refusal.word().to_owned()), pass: None }
        }
    }))
}

/// The pipeline of this name, if it has challenges.
fn with_challenges(node: &Node, name: Option<&str>) -> Result<Arc<plan::Pipeline>, HttpFailure> {
    let pipeline = node.pipeline(name)?;
    if pipeline.challenge.is_some() {
        return Ok(pipeline);
    }
    let failure = INVALID_PARAMETER.failure(format!("the pipeline `{}` has no challenges", pipeline.name));
    Err(failure.help("add `[challenge]` to its configuration, or name another one"))
}
