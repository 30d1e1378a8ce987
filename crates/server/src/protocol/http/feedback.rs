//! Past decisions, and what people say about them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use axum::Json;
use axum::body::Bytes;
use axum::extract::{Extension, Path, State};
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use engine::{DecisionLookupError, FeedbackError};
use journal::{NodeNumber, RecordId};
use serde::Deserialize;
use tokio::runtime::Handle;
use utoipa::IntoParams;

use super::{JsonBody, QueryParams, events};
use crate::api;
use crate::core::grant::{RequestGrant, may_read_content, note};
use crate::core::node::Node;
use crate::core::peers::{NodeRequest, NodeResponse, RelayedRequest};
use crate::core::preparation::LookupMode;
use crate::core::problem::{
    HttpFailure, INTERNAL, INVALID_BODY, INVALID_PARAMETER, ProblemResponses, UNAVAILABLE, UNSUPPORTED_TYPE,
    shown,
};
use crate::protocol::batch;
use crate::protocol::input::{
    self, DurabilityParam, EnvelopeSource, EventHeaders, JSON_LINES, MessageReadOptions,
};

pub(super) fn record_id(text: &str) -> Result<RecordId, HttpFailure> {
    text.parse().map_err(|error: journal::RecordIdError| INVALID_PARAMETER.failure(format!("id: {error}")))
}

/// A past decision with its facts, readings and reasons.
#[utoipa::path(
    get,
    path = "/v1/decisions/{id}",
    tag = "feedback",
    params(("id" = String, Path, description = "The decision's id")),
    responses((status = 200, description = "The decision", body = api::ExplanationJson), ProblemResponses),
)]
pub(crate) async fn decision(
    State(node): State<Arc<Node>>,
    relayed: Option<Extension<RelayedRequest>>,
    Path(id): Path<String>,
) -> Result<Json<api::ExplanationJson>, HttpFailure> {
    explained(&node, &id, relayed.is_some()).await.map(Json)
}

/// Explains a decision of this node, or has the node explain it that made it. Where that is away or has it no more, what is in the
/// archive is explained.
pub(crate) async fn explained(
    node: &Arc<Node>,
    id: &str,
    is_relayed: bool,
) -> Result<api::ExplanationJson, HttpFailure> {
    let id = record_id(id)?;
    let mut answer = find(node, id, is_relayed).await?;
    if let Some(grant) = RequestGrant::current() {
        grant.check_pipeline(&answer.pipeline)?;
    }
    if may_read_content() {
        // It is named only if content was shown.
        node.audit.check()?;
        note("id", id.to_string());
        note("pipeline", answer.pipeline.clone());
    } else {
        answer.withhold_content();
    }
    Ok(answer)
}

/// Finds a decision and explains it, whoever asks.
async fn find(node: &Arc<Node>, id: RecordId, is_relayed: bool) -> Result<api::ExplanationJson, HttpFailure> {
    let engine = Arc::clone(&node.engine);
    let explanation = node.lookups.run(node.timeout() / 2, move |_| engine.explain(id)).await?;
    let missing = match explanation {
        Err(error @ DecisionLookupError::NoDecision(_)) if !is_relayed => HttpFailure::from(error),
        explanation => return Ok(api::ExplanationJson::from(&explanation?)),
    };
    let target = format!("/v1/decisions/{id}");
    let request = NodeRequest { method: Method::GET, target, content_type: None, body: Bytes::new() };
    let failure = match node.ask_owner(id.node(), request).await {
        None => missing,
        Some(answer) => match answer.and_then(|answer| answer.json()) {
            Err(failure) if failure.is_absent() => failure,
            answer => return answer,
        },
    };
    let Some(decision) = node.archived(BTreeSet::from([id])).await?.remove(&id) else {
        return Err(node.unarchived(failure));
    };
    let engine = Arc::clone(&node.engine);
    let explanation = node.lookups.run(node.timeout() / 2, move |_| engine.explain_archived(id, decision));
    Ok(api::ExplanationJson::from(&explanation.await?))
}

/// Records feedback on a past decision. The same feedback by one reporter counts once; other feedback replaces it.
#[utoipa::path(
    post,
    path = "/v1/feedback",
    tag = "feedback",
    request_body = api::FeedbackJson,
    responses((status = 200, description = "What it did", body = api::FeedbackOutcomeJson), ProblemResponses),
)]
pub(crate) async fn feedback(
    State(node): State<Arc<Node>>,
    relayed: Option<Extension<RelayedRequest>>,
    JsonBody(feedback): JsonBody<api::FeedbackJson>,
) -> Result<Json<api::FeedbackOutcomeJson>, HttpFailure> {
    take_in(&node, feedback, relayed.is_some()).await.map(Json)
}

/// Takes in feedback on a decision of this node, or has the node take it in that made it. Where that is away or has it no more, what is
/// in the archive says which keys are meant.
pub(crate) async fn take_in(
    node: &Arc<Node>,
    feedback: api::FeedbackJson,
    is_relayed: bool,
) -> Result<api::FeedbackOutcomeJson, HttpFailure> {
    let id = record_id(&feedback.id)?;
    let by = reporter(feedback.by.clone())?;
    check_pipeline_of(node, id, is_relayed).await?;
    note("id", id.to_string());
    note("class", feedback.class.clone());
    note("reporter", by.clone().unwrap_or_default());
    let (engine, now, class) = (Arc::clone(&node.engine), node.now(), feedback.class.clone());
    // The decision is read from the journal, which blocks.
    let outcome = node.lookups.run(node.timeout() / 2, move |_| {
        let feedback = engine::FeedbackInput { class: &class, by: by.as_deref() };
        Handle::current().block_on(engine.feedback(id, feedback, now))
    });
    let outcome = outcome.await?;
    match outcome {
        Err(error) if is_missing(&error) && !is_relayed => {
            let item = FeedbackItem { id, class: feedback.class, by: feedback.by };
            take_in_elsewhere(node, item, error.into()).await
        }
        outcome => Ok(api::FeedbackOutcomeJson::new(id.to_string(), feedback.class, outcome?)),
    }
}

/// Takes in feedback on a decision that is not in this node's journal, for which this failure says so.
///
/// # Errors
/// If nobody has the decision, or whoever has it is away or refuses the feedback.
async fn take_in_elsewhere(
    node: &Arc<Node>,
    item: FeedbackItem,
    missing: HttpFailure,
) -> Result<api::FeedbackOutcomeJson, HttpFailure> {
    let request = to_owner("/v1/feedback", JSON, &[item.json()]);
    let failure = match node.ask_owner(item.id.node(), request).await {
        None => missing,
        Some(answer) => match answer.and_then(|answer| answer.json()) {
            Err(failure) if failure.is_absent() => failure,
            answer => return answer,
        },
    };
    let mut outcomes = take_in_archived(node, vec![item]).await?;
    outcomes.pop().flatten().unwrap_or_else(|| Err(node.unarchived(failure)))
}

/// Takes in feedback on decisions of the archive. The answers are in the order given; `None` for a decision that is not there.
///
/// # Errors
/// If the archive cannot be asked: then nothing was taken in.
async fn take_in_archived(
    node: &Arc<Node>,
    items: Vec<FeedbackItem>,
) -> Result<Vec<Option<Result<api::FeedbackOutcomeJson, HttpFailure>>>, HttpFailure> {
    let decisions = node.archived(items.iter().map(|item| item.id).collect()).await?;
    if decisions.is_empty() {
        return Ok(items.iter().map(|_| None).collect());
    }
    let (engine, now) = (Arc::clone(&node.engine), node.now());
    // What is added to the journal may have to wait for its disk.
    let work = move |_: &(dyn Fn() -> bool + Sync)| {
        let known: Vec<&FeedbackItem> =
            items.iter().filter(|item| decisions.contains_key(&item.id)).collect();
        let said: Vec<(RecordId, engine::FeedbackInput<'_>)> =
            known.iter().map(|item| (item.id, item.input())).collect();
        let outcomes = Handle::current().block_on(engine.feedback_archived(&decisions, &said, now));
        let mut outcomes = outcomes.into_iter();
        let outcome = |item: &FeedbackItem| {
            let outcome = decisions.contains_key(&item.id).then(|| outcomes.next()).flatten()?;
            let (id, class) = (item.id.to_string(), item.class.clone());
            Some(outcome.map(|it| api::FeedbackOutcomeJson::new(id, class, it)).map_err(HttpFailure::from))
        };
        items.iter().map(outcome).collect()
    };
    node.lookups.run(node.timeout() / 2, work).await
}

/// Takes in feedback on decisions of the archive, of whose lines nobody else has an answer.
async fn take_in_missing(
    node: &Arc<Node>,
    items: Vec<(usize, FeedbackItem)>,
    answers: &mut [Result<api::FeedbackOutcomeJson, api::ProblemJson>],
) {
    let absent = [StatusCode::NOT_FOUND, StatusCode::SERVICE_UNAVAILABLE].map(|status| status.as_u16());
    let is_absent = |place: usize| match &answers[place] {
        Ok(_) => false,
        Err(problem) => absent.contains(&problem.status),
    };
    let items: Vec<(usize, FeedbackItem)> =
        items.into_iter().filter(|(place, _)| is_absent(*place)).collect();
    let mut items = items.into_iter();
    loop {
        let (places, part): (Vec<usize>, Vec<FeedbackItem>) = items.by_ref().take(ARCHIVED_AT_ONCE).unzip();
        if part.is_empty() {
            return;
        }
        let outcomes = match take_in_archived(node, part).await {
            Ok(outcomes) => outcomes,
            // It is not asked again for the others.
            Err(failure) => {
                let rest = places.into_iter().chain(items.map(|(place, _)| place));
                rest.for_each(|place| answers[place] = Err(failure.problem()));
                return;
            }
        };
        for (place, outcome) in places.into_iter().zip(outcomes) {
            match (outcome, &mut answers[place]) {
                (Some(outcome), answer) => *answer = outcome.map_err(|failure| failure.problem()),
                (None, Err(problem)) => node.add_unarchived(&mut problem.detail),
                (None, Ok(_)) => {}
            }
        }
    }
}

/// Takes in feedback on a decision that is not in this node's journal. `None` if nobody has the decision any more, or its pipeline.
///
/// # Errors
/// Where another node, which has it, is away, or the feedback is refused.
pub(super) async fn of_owner(
    node: &Arc<Node>,
    id: RecordId,
    feedback: api::FeedbackJson,
) -> Result<Option<api::FeedbackOutcomeJson>, HttpFailure> {
    let item = FeedbackItem { id, class: feedback.class, by: feedback.by };
    match take_in_elsewhere(node, item, DecisionLookupError::NoDecision(id).into()).await {
        Err(failure) if failure.is_gone() => Ok(None),
        outcome => outcome.map(Some),
    }
}

const JSON: &str = "application/json";
const BATCH: &str = "/v1/feedback/batch";

/// Most decisions of the archive that are in memory for one request.
const ARCHIVED_AT_ONCE: usize = 256;

/// Returns true where a decision is not in this node's journal: another node may have made it.
fn is_missing(error: &FeedbackError) -> bool {
    matches!(error, FeedbackError::Lookup(DecisionLookupError::NoDecision(_)))
}

/// The request by which another node takes feedback in, one object a line.
fn to_owner(target: &str, content_type: &'static str, feedback: &[api::FeedbackJson]) -> NodeRequest {
    let mut body = Vec::new();
    feedback.iter().for_each(|feedback| events::write(&mut body, feedback));
    NodeRequest {
        method: Method::POST,
        target: target.to_owned(),
        content_type: Some(content_type),
        body: body.into(),
    }
}

/// Checks that a decision is of a pipeline that the request is for. It is read only where that is limited.
async fn check_pipeline_of(node: &Arc<Node>, id: RecordId, is_relayed: bool) -> Result<(), HttpFailure> {
    let Some(grant) = RequestGrant::current().filter(|grant| grant.is_limited()) else { return Ok(()) };
    grant.check_pipeline(&find(node, id, is_relayed).await?.pipeline)
}

/// The parameters that say how a batch of feedback is taken in.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct FeedbackParams {
    /// `sync`: the answer comes once what was added is on disk, whatever `[ledger] durability` says.
    #[param(inline)]
    durability: Option<DurabilityParam>,
}

/// Records feedback on past decisions, one a line, with one answer a line in the same order. A bad line gets an error line;
/// the others go on.
#[utoipa::path(
    post,
    path = "/v1/feedback/batch",
    tag = "feedback",
    operation_id = "feedback_batch",
    params(FeedbackParams),
    request_body(
        description = "Objects as for /v1/feedback, one a line, at most `batch_max` of them",
        content((api::FeedbackJson = "application/x-ndjson")),
    ),
    responses(
        (
            status = 200,
            description = "What each line did, or why it could not be taken in",
            body = api::FeedbackLine,
            content_type = "application/x-ndjson",
        ),
        ProblemResponses,
    ),
)]
pub(super) async fn feedback_batch(
    State(node): State<Arc<Node>>,
    relayed: Option<Extension<RelayedRequest>>,
    QueryParams(params): QueryParams<FeedbackParams>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, HttpFailure> {
    let is_lines = input::media_type(&headers).is_some_and(|media| media.eq_ignore_ascii_case(JSON_LINES));
    if !is_lines {
        let failure = UNSUPPORTED_TYPE.failure(format!("Content-Type: expected `{JSON_LINES}`"));
        return Err(failure.help("send one JSON object a line"));
    }
    let lines = batch::lines(&body, node.plan().batch_max)?;
    note("lines", lines.len().to_string());
    let read = move || lines.iter().map(|line| FeedbackItem::read(line)).collect();
    let answers = take_in_all(&node, read, relayed.is_some()).await?;
    let mut answer = Vec::new();
    for (came, line) in answers.into_iter().zip(1..) {
        let line = match came {
            Ok(outcome) => api::FeedbackLine::Outcome(outcome),
            Err(error) => api::FeedbackLine::Error(api::BatchError { line, error }),
        };
        events::write(&mut answer, &line);
    }
    DurabilityParam::hold(params.durability, &node, true).await?;
    Ok(([(header::CONTENT_TYPE, JSON_LINES)], answer).into_response())
}

/// Takes in feedback on decisions of this node, and has others take it in that made the rest. Returns what came of each, in the same
/// order.
pub(super) async fn take_in_all(
    node: &Arc<Node>,
    read: impl FnOnce() -> Vec<Result<FeedbackItem, HttpFailure>> + Send + 'static,
    is_relayed: bool,
) -> Result<Vec<Result<api::FeedbackOutcomeJson, api::ProblemJson>>, HttpFailure> {
    let (engine, now) = (Arc::clone(&node.engine), node.now());
    // Decisions are read from the journal, which blocks.
    let read = node.lookups.run(node.timeout() / 2, move |_| {
        let read = read();
        let feedback: Vec<(RecordId, engine::FeedbackInput<'_>)> =
            read.iter().flatten().map(|word| (word.id, word.input())).collect();
        let mut outcomes = Handle::current().block_on(engine.feedback_all(&feedback, now))?.into_iter();
        let mut with_outcome = |word: FeedbackItem| {
            let outcome = outcomes.next().ok_or_else(|| INTERNAL.failure("the line was not taken in"))?;
            Ok((word, outcome))
        };
        Ok::<_, HttpFailure>(read.into_iter().map(|word| with_outcome(word?)).collect())
    });
    let read: Vec<Result<_, HttpFailure>> = read.await??;
    let mut answers = Vec::with_capacity(read.len());
    let mut elsewhere = BTreeMap::<Option<NodeNumber>, Vec<(usize, FeedbackItem)>>::new();
    for (place, line) in read.into_iter().enumerate() {
        let came = line.and_then(|(word, outcome)| {
            let (id, class) = (word.id, word.class.clone());
            if !is_relayed && outcome.as_ref().is_err_and(is_missing) {
                elsewhere.entry(id.node()).or_default().push((place, word));
            }
            Ok(api::FeedbackOutcomeJson::new(id.to_string(), class, outcome?))
        });
        answers.push(came.map_err(|failure| failure.problem()));
    }
    let mut missing = Vec::new();
    for (owner, items) in elsewhere {
        let asked: Vec<api::FeedbackJson> = items.iter().map(|(_, item)| item.json()).collect();
        let answer = node.ask_owner(owner, to_owner(BATCH, JSON_LINES, &asked)).await;
        match answer.map(|answer| answer.and_then(|answer| owner_lines(&answer, items.len()))) {
            None => {}
            Some(Ok(lines)) => items.iter().zip(lines).for_each(|((place, _), line)| answers[*place] = line),
            Some(Err(failure)) => {
                items.iter().for_each(|(place, _)| answers[*place] = Err(failure.problem()));
            }
        }
        missing.extend(items);
    }
    take_in_missing(node, missing, &mut answers).await;
    Ok(answers)
}

/// The lines that another node has answered to a batch of so many.
fn owner_lines(
    answer: &NodeResponse,
    count: usize,
) -> Result<Vec<Result<api::FeedbackOutcomeJson, api::ProblemJson>>, HttpFailure> {
    let unread = || UNAVAILABLE.failure("the node that made these decisions answers what cannot be read");
    if answer.status != StatusCode::OK {
        let why = serde_json::from_slice::<api::ProblemJson>(&answer.body)
            .map_or_else(|_| String::new(), |it| it.detail);
        return Err(
            UNAVAILABLE.failure(format!("the node that made these decisions does not take them in: {why}"))
        );
    }
    let lines = answer.body.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let read = lines.map(|line| match serde_json::from_slice(line) {
        Ok(api::FeedbackLine::Outcome(outcome)) => Ok(Ok(outcome)),
        Ok(api::FeedbackLine::Error(error)) => Ok(Err(error.error)),
        Err(_) => Err(unread()),
    });
    let read: Vec<_> = read.collect::<Result<_, _>>()?;
    if read.len() == count { Ok(read) } else { Err(unread()) }
}

/// Feedback on one of many decisions.
pub(super) struct FeedbackItem {
    pub(super) id: RecordId,
    pub(super) class: String,
    pub(super) by: Option<String>,
}

impl FeedbackItem {
    fn read(line: &[u8]) -> Result<FeedbackItem, HttpFailure> {
        let feedback: api::FeedbackJson = serde_json::from_slice(line).map_err(|error| {
            INVALID_BODY.failure(shown(&error.to_string())).help("`/openapi.json` shows the shape")
        })?;
        Ok(FeedbackItem { id: record_id(&feedback.id)?, by: reporter(feedback.by)?, class: feedback.class })
    }

    fn json(&self) -> api::FeedbackJson {
        api::FeedbackJson { id: self.id.to_string(), class: self.class.clone(), by: self.by.clone() }
    }

    fn input(&self) -> engine::FeedbackInput<'_> {
        engine::FeedbackInput { class: &self.class, by: self.by.as_deref() }
    }
}

/// The name of a reporter, if it is one.
pub(super) fn reporter(by: Option<String>) -> Result<Option<String>, HttpFailure> {
    const BYTES_MAX: usize = 256;
    match by {
        Some(by) if by.trim().is_empty() || by.len() > BYTES_MAX => {
            Err(INVALID_PARAMETER.failure(format!("by: expected a name of 1 to {BYTES_MAX} bytes")))
        }
        by => Ok(by),
    }
}

/// The parameters that give the feedback and say how the event is to be understood.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct LearnParams {
    /// The feedback: one of the pipeline's feedback classes; `none` takes back earlier feedback.
    pub(crate) class: String,
    /// The reporter, e.g. an address; without one it is the operator.
    pub(crate) by: Option<String>,
    /// The pipeline; the first of the configuration if none is named.
    pub(crate) pipeline: Option<String>,
    /// Messages: take the time at which the message says it was received, not its arrival here.
    #[serde(default)]
    pub(crate) message_time: bool,
    /// Messages: `headers` takes the envelope from the message's own fields.
    #[param(inline)]
    pub(crate) envelope: Option<EnvelopeSource>,
}

/// Records feedback on an event that was not decided here. The same feedback on one event id, or without an id on one body,
/// counts once.
#[utoipa::path(
    post,
    path = "/v1/learn",
    tag = "feedback",
    params(LearnParams, EventHeaders),
    request_body(
        description = "One event, as for /v1/decide",
        content((serde_json::Value = "application/json"), (String = "message/rfc822"), (String = "text/plain")),
    ),
    responses((status = 200, description = "What it did", body = api::FeedbackOutcomeJson), ProblemResponses),
)]
pub(crate) async fn learn(
    State(node): State<Arc<Node>>,
    QueryParams(params): QueryParams<LearnParams>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Json<api::FeedbackOutcomeJson>, HttpFailure> {
    let pipeline = &node.pipeline(params.pipeline.as_deref())?;
    let reading = MessageReadOptions { message_time: params.message_time, envelope: params.envelope };
    let event = input::submitted(&node, pipeline, &headers, reading, body.clone(), LookupMode::None).await?;
    let by = reporter(params.by)?;
    note("pipeline", pipeline.name.clone());
    note("class", params.class.clone());
    note("reporter", by.clone().unwrap_or_default());
    let feedback = engine::FeedbackInput { class: &params.class, by: by.as_deref() };
    let (id, outcome) = node.learn(event.prepared, event.id, &body, feedback).await?;
    note("id", id.clone());
    Ok(Json(api::FeedbackOutcomeJson {
        warnings: event.warnings,
        ..api::FeedbackOutcomeJson::new(id, params.class, outcome)
    }))
}
