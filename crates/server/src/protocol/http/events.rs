//! Events in: decided, only counted, or only looked up.

use std::sync::Arc;

use axum::Json;
use axum::body::{Body, Bytes};
use axum::extract::{Query, State};
use axum::http::{HeaderMap, HeaderValue, Uri, header};
use axum::response::{IntoResponse, Response};
use plan::Pipeline;
use serde::{Deserialize, Serialize};
use utoipa::IntoParams;

use super::{HTTP, QueryParams};
use crate::api;
use crate::core::blocking::blocking;
use crate::core::decision_log;
use crate::core::node::Node;
use crate::core::preparation::{LookupMode, READ, SubmittedEvent};
use crate::core::problem::{HttpFailure, INTERNAL, ProblemResponses};
use crate::core::telemetry::RequestTrace;
use crate::protocol::batch::lines;
use crate::protocol::input::{
    self, BATCH, BodyFormat, DurabilityParam, EnvelopeSource, EventHeaders, EventMetadata, JSON, JSON_LINES,
    MessageReadOptions, SolutionUse,
};

/// Lines of a batch that are decided as one batch of the engine.
const CHUNK: usize = 256;

/// The parameters that say how an event is to be understood.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct EventParams {
    /// The pipeline; the first of the configuration if none is named.
    pub(crate) pipeline: Option<String>,
    /// Messages: take the time at which the message says it was received, not its arrival here.
    #[serde(default)]
    pub(crate) message_time: bool,
    /// Messages: `headers` takes the envelope from the message's own fields, where `Tollhouse-` headers do not say
    /// it. Only for mail that one's own servers stored.
    #[param(inline)]
    pub(crate) envelope: Option<EnvelopeSource>,
    /// `sync`: the answer comes once what was added is on disk, whatever `[ledger] durability` says.
    #[param(inline)]
    pub(crate) durability: Option<DurabilityParam>,
}

impl EventParams {
    /// Reads the event of a request.
    async fn event(
        &self,
        node: &Arc<Node>,
        headers: &HeaderMap,
        body: Bytes,
        solutions: SolutionUse,
    ) -> Result<SubmittedEvent, HttpFailure> {
        let pipeline = node.pipeline(self.pipeline.as_deref())?;
        let reading = MessageReadOptions { message_time: self.message_time, envelope: self.envelope };
        let how = (LookupMode::Configured, solutions);
        input::submitted_for(node, &pipeline, headers, reading, body, how).await
    }
}

/// The pipeline that decides.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct BatchParams {
    /// The pipeline; the first of the configuration if none is named.
    pub(super) pipeline: Option<String>,
    /// `sync`: the answer comes once what was added is on disk, whatever `[ledger] durability` says.
    #[param(inline)]
    pub(super) durability: Option<DurabilityParam>,
}

/// Decides on one event, counts and logs it.
#[utoipa::path(
    post,
    path = "/v1/decide",
    tag = "decide",
    params(EventParams, EventHeaders),
    request_body(
        description = "One event: a JSON object, a message as it came, or an access log's line",
        content((serde_json::Value = "application/json"), (String = "message/rfc822"), (String = "text/plain")),
    ),
    responses((status = 200, description = "What was decided", body = api::DecisionJson), ProblemResponses),
)]
pub(super) async fn decide(
    State(node): State<Arc<Node>>,
    QueryParams(params): QueryParams<EventParams>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, HttpFailure> {
    let event = params.event(&node, &headers, body, SolutionUse::Open).await?;
    let decisions = node.decide_for(HTTP, vec![event.prepared]).await;
    DurabilityParam::hold(params.durability, &node, input::are_whole(&decisions)).await?;
    let decision = decisions.first().ok_or_else(|| INTERNAL.failure("the event was not decided"))?;
    let pass = event.pass.map(api::PassJson::from);
    Ok(decision_answer(&api::DecisionJson { warnings: event.warnings, pass, ..decision.into() }))
}

/// The route of decisions.
pub(crate) const DECIDE: &str = "/v1/decide";

/// Bytes of a decision with a few reasons.
const DECISION_BYTES: usize = 1024;

fn decision_answer(decision: &api::DecisionJson) -> Response {
    let mut text = Vec::with_capacity(DECISION_BYTES);
    // Writing to a vector cannot fail, and no type here refuses to be written.
    if let Err(error) = serde_json::to_writer(&mut text, decision) {
        return INTERNAL.failure(error.to_string()).into_response();
    }
    let mut response = Response::new(Body::from(text));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(JSON));
    response
}

/// Answers a request for a decision that found no place, or was not decided in time, as `on_error` of its pipeline says.
/// `None` where it is an error all the same: there is no such pipeline, or the caller asked for what cannot be promised now.
pub(crate) fn undecided(node: &Node, uri: &Uri, failure: &HttpFailure) -> Option<Response> {
    let Query(params) = Query::<EventParams>::try_from_uri(uri).ok()?;
    if params.durability.is_some() {
        return None;
    }
    let pipeline = node.pipeline(params.pipeline.as_deref()).ok()?;
    let why = failure.problem().detail;
    node.metrics.undecided(&pipeline.name);
    let decision = node.engine.undecided(&pipeline, node.now(), &why);
    decision_log::undecided(node.decision_log, HTTP, &decision, &why);
    Some(decision_answer(&api::DecisionJson { error: Some(why), ..(&decision).into() }))
}

/// Counts one event and returns what was known of its keys before. Nothing is decided or logged.
#[utoipa::path(
    post,
    path = "/v1/observe",
    tag = "decide",
    params(EventParams, EventHeaders),
    request_body(
        description = "One event, as for /v1/decide",
        content((serde_json::Value = "application/json"), (String = "message/rfc822"), (String = "text/plain")),
    ),
    responses((status = 200, description = "Facts and readings", body = api::ExplanationJson), ProblemResponses),
)]
pub(super) async fn observe(
    State(node): State<Arc<Node>>,
    QueryParams(params): QueryParams<EventParams>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Json<api::ExplanationJson>, HttpFailure> {
    let event = params.event(&node, &headers, body, SolutionUse::Open).await?;
    let seen = node.engine.observe(event.prepared).await?;
    DurabilityParam::hold(params.durability, &node, true).await?;
    Ok(Json(api::ExplanationJson { warnings: event.warnings, ..api::ExplanationJson::from(&seen) }))
}

/// Returns what is known of one event's keys. Nothing is counted, decided or logged.
#[utoipa::path(
    post,
    path = "/v1/peek",
    tag = "decide",
    params(EventParams, EventHeaders),
    request_body(
        description = "One event, as for /v1/decide",
        content((serde_json::Value = "application/json"), (String = "message/rfc822"), (String = "text/plain")),
    ),
    responses((status = 200, description = "Facts and readings", body = api::ExplanationJson), ProblemResponses),
)]
pub(super) async fn peek(
    State(node): State<Arc<Node>>,
    QueryParams(params): QueryParams<EventParams>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Json<api::ExplanationJson>, HttpFailure> {
    let event = params.event(&node, &headers, body, SolutionUse::PutAside).await?;
    let seen = node.engine.peek(event.prepared).await?;
    DurabilityParam::hold(params.durability, &node, true).await?;
    Ok(Json(api::ExplanationJson { warnings: event.warnings, ..api::ExplanationJson::from(&seen) }))
}

/// Returns what would be decided on one event now, and why: rules, models, near misses. Nothing is counted, learned or
/// logged, no challenge is used up, and the answer has no id to ask for later.
#[utoipa::path(
    post,
    path = "/v1/check",
    tag = "decide",
    operation_id = "check",
    params(EventParams, EventHeaders),
    request_body(
        description = "One event, as for /v1/decide",
        content((serde_json::Value = "application/json"), (String = "message/rfc822"), (String = "text/plain")),
    ),
    responses((status = 200, description = "What would be decided", body = api::ExplanationJson), ProblemResponses),
)]
pub(crate) async fn check(
    State(node): State<Arc<Node>>,
    QueryParams(params): QueryParams<EventParams>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Json<api::ExplanationJson>, HttpFailure> {
    let event = params.event(&node, &headers, body, SolutionUse::PutAside).await?;
    let checked = node.engine.check(event.prepared).await?;
    Ok(Json(api::ExplanationJson { warnings: event.warnings, ..api::ExplanationJson::from(&checked) }))
}

/// Decides on events, one a line, with one answer a line in the same order. A bad line gets an error line; the others go
/// on.
///
/// Lines are decided in order, 256 at a time: what depends on verdicts is counted after each such part.
#[utoipa::path(
    post,
    path = "/v1/decide/batch",
    tag = "decide",
    params(BatchParams),
    request_body(
        description = "JSON objects or access-log lines, one a line, at most `batch_max` of them",
        content((String = "application/x-ndjson"), (String = "text/plain")),
    ),
    responses(
        (
            status = 200,
            description = "A decision or an error for each line",
            body = api::BatchLine,
            content_type = "application/x-ndjson",
        ),
        ProblemResponses,
    ),
)]
pub(super) async fn batch(
    State(node): State<Arc<Node>>,
    QueryParams(params): QueryParams<BatchParams>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, HttpFailure> {
    let pipeline = &node.pipeline(params.pipeline.as_deref())?;
    let form = input::form(&node, pipeline, &headers, BATCH)?;
    let lines = lines(&body, node.plan().batch_max)?;
    let mut answer = Vec::new();
    for (chunk, number) in lines.chunks(CHUNK).zip((1..).step_by(CHUNK)) {
        match decide_lines(&node, pipeline, form, params.durability, chunk, number).await {
            Ok(answers) => answer.extend_from_slice(&answers),
            // Nothing was decided yet, so the whole can be sent again.
            Err(failure) if number == 1 => return Err(failure),
            Err(failure) => {
                let problem = failure.problem();
                for line in number..=lines.len() {
                    write(
                        &mut answer,
                        &api::BatchLine::Error(api::BatchError { line, error: problem.clone() }),
                    );
                }
                break;
            }
        }
    }
    Ok(([(header::CONTENT_TYPE, JSON_LINES)], answer).into_response())
}

/// Decides on some lines, the first of which has this number in the batch, and writes the answers.
async fn decide_lines(
    node: &Arc<Node>,
    pipeline: &Arc<Pipeline>,
    form: BodyFormat,
    durability: Option<DurabilityParam>,
    lines: &[Bytes],
    number: usize,
) -> Result<Vec<u8>, HttpFailure> {
    let (engine, arrival) = (Arc::clone(&node.engine), node.now());
    let (of, lines) = (Arc::clone(pipeline), lines.to_vec());
    let bytes = lines.iter().map(Bytes::len).sum();
    let reading = node.reading.read(bytes, move |cancellation| {
        let (mut prepared, mut read) = (Vec::with_capacity(lines.len()), Vec::with_capacity(lines.len()));
        for line in lines.iter().take_while(|_| !cancellation.is_cancelled()) {
            let event = EventMetadata::default().event(&engine, &of, form, line, arrival);
            read.push(event.map(|(event, warnings)| {
                prepared.push(engine.key(engine.read(&of, event, arrival, cancellation)));
                warnings
            }));
        }
        (prepared, read)
    });
    let stage = RequestTrace::during(READ);
    let (prepared, read) = reading.await?;
    drop(stage);
    let decisions = node.decide_for(HTTP, prepared).await;
    DurabilityParam::hold(durability, node, input::are_whole(&decisions)).await?;
    let bad = read.iter().filter(|read| read.is_err()).count();
    node.metrics.bad_lines.inc_by(bad as u64);
    Ok(blocking(move || {
        let mut decisions = decisions.iter();
        let mut answers = Vec::new();
        for (read, line) in read.into_iter().zip(number..) {
            let answer = match read {
                Err(failure) => {
                    Some(api::BatchLine::Error(api::BatchError { line, error: failure.problem() }))
                }
                Ok(warnings) => decisions.next().map(|decision| {
                    let decision = api::DecisionJson { warnings, ..decision.into() };
                    api::BatchLine::Decision(Box::new(decision))
                }),
            };
            answer.iter().for_each(|answer| write(&mut answers, answer));
        }
        answers
    })
    .await)
}

/// Appends a line.
pub(super) fn write(answer: &mut Vec<u8>, line: &impl Serialize) {
    // Writing to a vector cannot fail, and no type here refuses to be written.
    if serde_json::to_writer(&mut *answer, line).is_ok() {
        answer.push(b'\n');
    }
}
