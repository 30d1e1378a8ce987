//! Routes of keys' statistics.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use engine::Ranking;
use event::Span;
use serde::Deserialize;
use tokio::runtime::Handle;
use utoipa::IntoParams;

use super::QueryParams;
use crate::api;
use crate::core::node::Node;
use crate::core::problem::{HttpFailure, INVALID_PARAMETER, NOT_APPLICABLE, ProblemResponses};

/// Keys that are shown unless the caller wants another number of them.
const SHOWN: usize = 10;
/// Most keys that are shown.
const SHOWN_MAX: usize = 1000;

/// The key of a timeline.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct TimelineParams {
    /// The pipeline; the first of the configuration if none is named.
    pipeline: Option<String>,
    /// The kind, or the distinct count.
    kind: String,
    /// The value, as it stands in events; it is normalised as they are. Of a key of several fields their values in order, as
    /// the JSON array `["ann","phone-7"]`.
    value: String,
}

/// Answers all that is kept of one key.
#[utoipa::path(
    get,
    path = "/v1/timeline",
    tag = "statistics",
    params(TimelineParams),
    responses((status = 200, description = "Its buckets", body = api::TimelineJson), ProblemResponses),
)]
pub(super) async fn timeline(
    State(node): State<Arc<Node>>,
    QueryParams(params): QueryParams<TimelineParams>,
) -> Result<Json<api::TimelineJson>, HttpFailure> {
    let pipeline = node.pipeline(params.pipeline.as_deref())?;
    let (engine, now) = (Arc::clone(&node.engine), node.now());
    let (of, TimelineParams { kind, value, .. }) = (Arc::clone(&pipeline), params);
    let work = move |_: &(dyn Fn() -> bool + Sync)| {
        let known = Handle::current().block_on(engine.timeline(&of, &kind, &value, now));
        (known, kind)
    };
    let (known, kind) = node.lookups.run(node.timeout() / 2, work).await?;
    let known = known?;
    Ok(Json(api::TimelineJson::new(&pipeline.name, &kind, &known)))
}

/// The parameters of a request for what is hot.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct TopParams {
    /// The pipeline; the first of the configuration if none is named.
    pipeline: Option<String>,
    /// The kind.
    kind: String,
    /// The counter; the kind's first if none is named.
    counter: Option<String>,
    /// The trailing window, such as `1h`, which is also the default.
    window: Option<String>,
    /// Most keys that are wanted, 1 to 1000; 10 if it is not said.
    limit: Option<usize>,
}

/// The keys of a kind with the largest counts now. Looks at every key in memory, and reads those on disk that were
/// used since the window began. Such calls have few places, which rest after each for as long as it took; one whose caller
/// has gone, or whose time is over, ends.
#[utoipa::path(
    get,
    path = "/v1/top",
    tag = "statistics",
    params(TopParams),
    responses((status = 200, description = "The hottest keys", body = api::TopKeysJson), ProblemResponses),
)]
pub(super) async fn top(
    State(node): State<Arc<Node>>,
    QueryParams(params): QueryParams<TopParams>,
) -> Result<Json<api::TopKeysJson>, HttpFailure> {
    let pipeline = node.pipeline(params.pipeline.as_deref())?;
    let window = params.window.map_or(Ok(Span::hours(1)), |text| text.parse());
    let window = window.map_err(|error| INVALID_PARAMETER.failure(format!("window: {error}")))?;
    let limit = params.limit.unwrap_or(SHOWN);
    if !(1..=SHOWN_MAX).contains(&limit) {
        return Err(INVALID_PARAMETER.failure(format!("limit: expected 1 to {SHOWN_MAX}")));
    }
    let kind = params.kind;
    let first = || pipeline.kinds.iter().find(|plan| plan.name == kind)?.counters.as_slice().first().cloned();
    // An unknown kind has no counter either, and the engine says which kinds there are.
    let known = pipeline.kinds.iter().any(|plan| plan.name == kind);
    let counter = match params.counter.or_else(first) {
        Some(counter) => counter,
        None if known => {
            return Err(NOT_APPLICABLE.failure(format!("the kind `{kind}` has no counters")));
        }
        None => String::new(),
    };
    let (engine, now, of) = (Arc::clone(&node.engine), node.now(), Arc::clone(&pipeline));
    let work = move |is_over: &(dyn Fn() -> bool + Sync)| {
        let asked = Ranking { kind: &kind, counter: &counter, window, limit };
        let hottest = Handle::current().block_on(engine.hottest(&of, asked, now, is_over));
        (hottest, kind, counter)
    };
    let (hottest, kind, counter) = node.scans.run(node.timeout() / 2, work).await?;
    let hottest = hottest?;
    Ok(Json(api::TopKeysJson {
        pipeline: pipeline.name.clone(),
        kind,
        counter,
        window: api::Length(window),
        keys: hottest.iter().map(api::HotKeyJson::from).collect(),
    }))
}
