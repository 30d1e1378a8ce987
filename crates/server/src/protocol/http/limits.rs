//! Limits over HTTP: what is taken, looked at, given back and set, and how callers are told.

use std::sync::Arc;
use std::time::Instant;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use engine::limit::{LimitExceptionError, LimitKeyError, TakeResult};
use plan::Plan;
use plan::limit::{LimitException, LimitPlan};
use serde::Deserialize;
use stats::Quality;
use tokio::runtime::Handle;
use utoipa::IntoParams;

use super::{JsonBody, QueryParams};
use crate::api::{self, LimitValues};
use crate::core::answer_cache::FullestQuery;
use crate::core::answering::answered;
use crate::core::blocking::blocking;
use crate::core::grant::{may_read_content, note};
use crate::core::node::Node;
use crate::core::problem::{
    HttpFailure, INTERNAL, INVALID_PARAMETER, MEDIA_TYPE, NOT_FOUND, OVERLOADED, ProblemResponses,
    UNAVAILABLE, shown,
};
use crate::protocol::limit_group::{LimitGroup, limit_fields};

/// Keys of a limit that are shown unless the caller wants another number of them.
const SHOWN: usize = 10;
/// Most keys of a limit that are shown.
const SHOWN_MAX: usize = 1000;
/// The registry of problem types from draft-ietf-httpapi-ratelimit-headers.
const TYPES: &str = "https://iana.org/assignments/http-problem-types#";

/// Finds a limit and reads the key of a request.
fn group(node: &Node, name: &str, values: &LimitValues) -> Result<LimitGroup, HttpFailure> {
    let plan = node.engine.plan();
    let limit = named(&plan, name)?;
    let texts = texts(values)?;
    let value = |field: &str| texts.iter().find(|(name, _)| *name == field).map(|(_, text)| text.as_str());
    let group = LimitGroup::of(&node.engine, &plan, limit, value).map_err(unfit)?;
    let known =
        |name: &str| group.members().any(|(limit, _)| limit.key.iter().any(|field| field.name == name));
    if let Some((unknown, _)) = texts.iter().find(|(name, _)| !known(name)) {
        let detail = format!("key: the limit `{}` does not count by `{}`", limit.name, shown(unknown));
        return Err(INVALID_PARAMETER.failure(detail).help("`/v1/limits` shows what it counts by"));
    }
    Ok(group)
}

fn named<'p>(plan: &'p Plan, name: &str) -> Result<&'p Arc<LimitPlan>, HttpFailure> {
    plan.limit(name).ok_or_else(|| {
        NOT_FOUND.failure(format!("there is no limit `{}`", shown(name))).help("`/v1/limits` lists them")
    })
}

/// The values of a key as texts.
fn texts(values: &LimitValues) -> Result<Vec<(&str, String)>, HttpFailure> {
    let text = |(name, value): (&'_ String, &serde_json::Value)| match value {
        serde_json::Value::String(text) => Ok(text.clone()),
        serde_json::Value::Number(number) => Ok(number.to_string()),
        serde_json::Value::Bool(truth) => Ok(truth.to_string()),
        _ => {
            let detail = format!("key: `{}` is no text", shown(name));
            Err(INVALID_PARAMETER.failure(detail).help("send texts, numbers, true or false"))
        }
    };
    values.iter().map(|entry| Ok((entry.0.as_str(), text(entry)?))).collect()
}

fn unfit(error: LimitKeyError) -> HttpFailure {
    let detail = match &error {
        LimitKeyError::Missing { limit, field } => {
            format!("key: the limit `{limit}` counts by `{field}`, which is not given")
        }
        LimitKeyError::Unfit { field, value } => format!("key: `{}` is no value of `{field}`", shown(value)),
    };
    INVALID_PARAMETER.failure(detail)
}

/// Returns what callers are told of a take.
fn take_response(taken: &[TakeResult], answer: api::LimitAnswer) -> Response {
    let headers = limit_fields(taken);
    if answer.allowed {
        return (headers, Json(answer)).into_response();
    }
    let refused: Vec<&TakeResult> = taken.iter().filter(|taken| !taken.allowed).collect();
    let (word, title, status) = if refused.iter().any(|taken| taken.quality == Quality::Missing) {
        let title = "Counts are unavailable";
        ("temporary-reduced-capacity", title, StatusCode::SERVICE_UNAVAILABLE)
    } else if refused.iter().any(|taken| taken.banned_until.is_some()) {
        ("abnormal-usage-detected", "The key is banned for a while", StatusCode::TOO_MANY_REQUESTS)
    } else {
        ("quota-exceeded", "The request is over its limit", StatusCode::TOO_MANY_REQUESTS)
    };
    let names: Vec<String> = refused.iter().map(|taken| taken.limit.to_string()).collect();
    let problem = api::LimitProblem {
        kind: format!("{TYPES}{word}"),
        title: title.to_owned(),
        status: status.as_u16(),
        detail: format!("over {}", names.join(", ")),
        violated_policies: names,
        answer,
    };
    let mut response = (status, headers, Json(problem)).into_response();
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(MEDIA_TYPE));
    response
}

/// Lists all limits, as configured.
#[utoipa::path(
    get,
    path = "/v1/limits",
    tag = "limits",
    responses((status = 200, description = "The limits", body = [api::LimitInfo]), ProblemResponses),
)]
pub(crate) async fn limits(State(node): State<Arc<Node>>) -> Json<Vec<api::LimitInfo>> {
    let plan = node.engine.plan();
    let info =
        |limit: &Arc<LimitPlan>| api::LimitInfo::new(limit, node.engine.posted_exceptions(&limit.name).len());
    Json(plan.limits.iter().map(info).collect())
}

/// The parameters of a request for the fullest keys.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct FullestParams {
    /// The limit; all of them if none is named.
    pub(crate) name: Option<String>,
    /// Most keys of each limit that are wanted, 1 to 1000; 10 if it is not said.
    pub(crate) limit: Option<usize>,
}

/// Lists the keys that have used the most of a limit, or of every limit, and the keys that it has banned. Limits that are
/// off are left out. Costs as much as `/v1/top`, once for all limits, and the answer is cached in the same way. In a
/// cluster, only keys in this node's memory are listed.
#[utoipa::path(
    get,
    path = "/v1/limits/fullest",
    tag = "limits",
    operation_id = "limits_fullest",
    params(FullestParams),
    responses((status = 200, description = "The limits with their fullest keys", body = [api::FullestKeysJson]), ProblemResponses),
)]
pub(crate) async fn fullest(
    State(node): State<Arc<Node>>,
    QueryParams(FullestParams { name, limit }): QueryParams<FullestParams>,
) -> Result<Json<Vec<api::FullestKeysJson>>, HttpFailure> {
    let count = limit.unwrap_or(SHOWN);
    if !(1..=SHOWN_MAX).contains(&count) {
        return Err(INVALID_PARAMETER.failure(format!("limit: expected 1 to {SHOWN_MAX}")));
    }
    let plan = node.engine.plan();
    let limits = match &name {
        Some(name) => vec![Arc::clone(named(&plan, name)?)],
        None => plan.limits.clone(),
    };
    let (engine, now) = (Arc::clone(&node.engine), node.now());
    let rank = move |query: &FullestQuery, is_over: &(dyn Fn() -> bool + Sync)| {
        Handle::current().block_on(engine.fullest(&query.limits, query.count, now, is_over))
    };
    let query = FullestQuery { limits, count };
    let fills = answered(&node, |node| &node.fullest, query, node.timeout(), rank).await?;
    let may_read = may_read_content();
    Ok(Json(fills.iter().map(|fill| api::FullestKeysJson::new(fill).of_reader(may_read)).collect()))
}

/// Takes from a limit, and from those taken with it.
#[utoipa::path(
    post,
    path = "/v1/limits/{name}/take",
    tag = "limits",
    params(("name" = String, Path, description = "The limit")),
    request_body = api::LimitTake,
    responses(
        (status = 200, description = "Allowed, as far as the caller is told; with `RateLimit` and `RateLimit-Policy`", body = api::LimitAnswer),
        (status = 429, description = "Over the limit; with `Retry-After`", body = api::LimitProblem, content_type = "application/problem+json"),
        ProblemResponses,
    ),
)]
pub(super) async fn take(
    State(node): State<Arc<Node>>,
    Path(name): Path<String>,
    JsonBody(take): JsonBody<api::LimitTake>,
) -> Result<Response, HttpFailure> {
    let group = group(&node, &name, &take.key)?;
    let now = node.now();
    let taken = node.engine.take(&group.takes(take.cost), now).await;
    let answer = api::LimitAnswer::new(&taken);
    Ok(take_response(&taken, answer))
}

/// Returns what a take would return, without taking. Also shows shadow bans.
#[utoipa::path(
    post,
    path = "/v1/limits/{name}/peek",
    tag = "limits",
    operation_id = "limit_peek",
    params(("name" = String, Path, description = "The limit")),
    request_body = api::LimitTake,
    responses((status = 200, description = "What it says", body = api::LimitAnswer), ProblemResponses),
)]
pub(super) async fn peek(
    State(node): State<Arc<Node>>,
    Path(name): Path<String>,
    JsonBody(take): JsonBody<api::LimitTake>,
) -> Result<Json<api::LimitAnswer>, HttpFailure> {
    let group = group(&node, &name, &take.key)?;
    Ok(Json(looked(&node, &group, take.cost).await))
}

async fn looked(node: &Node, group: &LimitGroup, cost: Option<u64>) -> api::LimitAnswer {
    let now = node.now();
    let taken = node.engine.peek_limits(&group.takes(cost), now).await;
    api::LimitAnswer::new(&taken)
}

/// Gives back what was taken.
#[utoipa::path(
    post,
    path = "/v1/limits/{name}/refund",
    tag = "limits",
    params(("name" = String, Path, description = "The limit")),
    request_body = api::LimitRefund,
    responses((status = 200, description = "What it says then", body = api::LimitAnswer), ProblemResponses),
)]
pub(super) async fn refund(
    State(node): State<Arc<Node>>,
    Path(name): Path<String>,
    JsonBody(refund): JsonBody<api::LimitRefund>,
) -> Result<Json<api::LimitAnswer>, HttpFailure> {
    let group = group(&node, &name, &refund.key)?;
    for take in group.takes(Some(refund.amount)) {
        node.engine.refund(take, refund.taken.map(|time| time.0), node.now()).await?;
    }
    Ok(Json(looked(&node, &group, Some(0)).await))
}

/// Settles a take whose cost was unknown.
#[utoipa::path(
    post,
    path = "/v1/limits/{name}/settle",
    tag = "limits",
    params(("name" = String, Path, description = "The limit")),
    request_body = api::LimitSettle,
    responses((status = 200, description = "What it says then", body = api::LimitAnswer), ProblemResponses),
)]
pub(super) async fn settle(
    State(node): State<Arc<Node>>,
    Path(name): Path<String>,
    JsonBody(settle): JsonBody<api::LimitSettle>,
) -> Result<Json<api::LimitAnswer>, HttpFailure> {
    let group = group(&node, &name, &settle.key)?;
    for take in group.takes(Some(settle.cost)) {
        node.engine.settle(take, settle.reserved, settle.taken.0, node.now()).await?;
    }
    Ok(Json(looked(&node, &group, Some(0)).await))
}

/// Sets a key's use to a number or to nothing, and lifts its ban.
#[utoipa::path(
    post,
    path = "/v1/limits/{name}/reset",
    tag = "limits",
    params(("name" = String, Path, description = "The limit")),
    request_body = api::LimitReset,
    responses((status = 200, description = "What it says then", body = api::LimitAnswer), ProblemResponses),
)]
pub(crate) async fn reset(
    State(node): State<Arc<Node>>,
    Path(name): Path<String>,
    JsonBody(reset): JsonBody<api::LimitReset>,
) -> Result<Json<api::LimitAnswer>, HttpFailure> {
    note("limit", name.clone());
    note("key", format!("{:?}", texts(&reset.key)?));
    note("used", reset.used.to_string());
    let group = group(&node, &name, &reset.key)?;
    for take in group.takes(Some(reset.used)) {
        node.engine.set_used(take, node.now()).await?;
    }
    node.fullest.forget(Instant::now());
    Ok(Json(looked(&node, &group, Some(0)).await))
}

/// Lists the overrides of a limit: those posted, and those of the configuration.
#[utoipa::path(
    get,
    path = "/v1/limits/{name}/overrides",
    tag = "limits",
    params(("name" = String, Path, description = "The limit")),
    responses((status = 200, description = "The overrides", body = api::LimitOverrides), ProblemResponses),
)]
pub(crate) async fn overrides(
    State(node): State<Arc<Node>>,
    Path(name): Path<String>,
) -> Result<Json<api::LimitOverrides>, HttpFailure> {
    let plan = node.engine.plan();
    let limit = named(&plan, &name)?;
    let posted = node.engine.posted_exceptions(&limit.name).into_iter();
    let overrides = posted.map(|exception| api::LimitOverride::new(limit, exception)).collect();
    let configured = limit.exceptions.iter().cloned();
    let configured = configured.map(|exception| api::LimitOverride::new(limit, exception)).collect();
    Ok(Json(api::LimitOverrides { overrides, configured }))
}

/// Posts an override, replacing an earlier one of the same key.
#[utoipa::path(
    put,
    path = "/v1/limits/{name}/overrides",
    tag = "limits",
    params(("name" = String, Path, description = "The limit")),
    request_body = api::LimitOverride,
    responses((status = 200, description = "The overrides by now", body = api::LimitOverrides), ProblemResponses),
)]
pub(crate) async fn put_override(
    State(node): State<Arc<Node>>,
    Path(name): Path<String>,
    JsonBody(wanted): JsonBody<api::LimitOverride>,
) -> Result<Json<api::LimitOverrides>, HttpFailure> {
    let plan = node.engine.plan();
    let limit = named(&plan, &name)?;
    let texts = texts(&wanted.key)?;
    note("limit", name.clone());
    note("key", format!("{texts:?}"));
    note("count", format!("{:?}", wanted.count));
    note("exempt", wanted.exempt.to_string());
    let mut key = Vec::with_capacity(limit.key.len());
    for field in &limit.key {
        let value = texts.iter().find(|(name, _)| *name == field.name).map(|(_, text)| text.clone());
        key.push(value.ok_or_else(|| {
            unfit(LimitKeyError::Missing { limit: limit.name.to_string(), field: field.name.clone() })
        })?);
    }
    let exception = LimitException {
        limit: limit.name.to_string(),
        key,
        count: wanted.count,
        exempt: wanted.exempt,
        until: wanted.until.map(|until| until.0),
    };
    let (engine, now) = (Arc::clone(&node.engine), node.now());
    blocking(move || engine.post_exception(exception, now)).await.map_err(|error| match error {
        LimitExceptionError::Key(error) => unfit(error),
        LimitExceptionError::Unfit(why) => INVALID_PARAMETER.failure(format!("key: {why}")),
        LimitExceptionError::Full => OVERLOADED.failure(error.to_string()),
        LimitExceptionError::Shared(_) => UNAVAILABLE.failure(error.to_string()).help(
            "it may be in force later, on all nodes or none: see the overrides once the cluster is there",
        ),
        LimitExceptionError::Directory(error) => {
            tracing::error!(%error, "an override could not be kept");
            INTERNAL.failure("overrides could not be written").help("the node's log says why")
        }
    })?;
    node.fullest.forget(Instant::now());
    overrides(State(node), Path(name)).await
}
