//! Routes of the impact of a rule on past events, and of taking it back.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::extract::State;
use axum::http::StatusCode;
use axum::{Extension, Json};
use engine::{CorrectionOrder, CorrectionProgress};
use futures_util::future::join;
use journal::ReadBudget;
use serde::Deserialize;
use utoipa::IntoParams;

use super::decisions::{answers_of_others, target, time};
use super::{JsonBody, QueryParams};
use crate::api;
use crate::core::correction_work;
use crate::core::corrections::CorrectionJob;
use crate::core::grant::{RequestGrant, note};
use crate::core::node::Node;
use crate::core::peers::RelayedRequest;
use crate::core::problem::{HttpFailure, INVALID_PARAMETER, ProblemResponses, UNKNOWN_NAME};

/// Records that are looked at for one answer.
const RECORDS: u64 = 1_000_000;
/// The time that is spent on one answer.
const PATIENCE: Duration = Duration::from_secs(2);

/// The rule, and the decisions for which it fired.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ImpactParams {
    /// The pipeline; the first of the configuration if none is named.
    pub(crate) pipeline: Option<String>,
    /// The rule.
    pub(crate) rule: String,
    /// Only decisions of this version.
    pub(crate) version: Option<String>,
    /// Only decided at this time or later; a day ago if it is left out.
    pub(crate) from: Option<String>,
    /// Only decided before this time.
    pub(crate) to: Option<String>,
}

/// Returns what a rule did to past events of all nodes: how often it fired and alone decided, and what `POST
/// /v1/rules/corrections` to each of them would undo. `partial` means there is more than one request reads.
///
/// Each event is decided again without the rule, by the version that decided, on the node that has it.
#[utoipa::path(
    get,
    path = "/v1/rules/impact",
    operation_id = "rule_impact",
    tag = "rules",
    params(ImpactParams),
    responses((status = 200, description = "What it did", body = api::RuleImpactJson), ProblemResponses),
)]
pub(crate) async fn impact(
    State(node): State<Arc<Node>>,
    relayed: Option<Extension<RelayedRequest>>,
    QueryParams(params): QueryParams<ImpactParams>,
) -> Result<Json<api::RuleImpactJson>, HttpFailure> {
    let now = node.now();
    let from = time("from", params.from)?.unwrap_or(now - event::Span::days(1));
    let to = time("to", params.to)?;
    let order = order(&node, params.pipeline.as_deref(), params.rule, params.version, (from, to))?;
    if relayed.is_some() {
        return own_impact(&node, order, now).await.map(Json);
    }
    let pairs = [
        ("pipeline", Some(order.pipeline.clone())),
        ("rule", Some(order.rule.clone())),
        ("version", order.version.clone()),
        ("from", Some(order.from.to_string())),
        ("to", Some(order.to.to_string())),
    ];
    let target = target("/v1/rules/impact", pairs.into_iter());
    let (own, (others, absent)) =
        join(own_impact(&node, order, now), answers_of_others(&node, &target)).await;
    let mut all: api::RuleImpactJson = own?;
    others.into_iter().for_each(|other| all.add(other));
    Ok(Json(api::RuleImpactJson { absent, ..all }))
}

/// Returns what a rule did to past events of this node.
async fn own_impact(
    node: &Arc<Node>,
    order: CorrectionOrder,
    now: event::Time,
) -> Result<api::RuleImpactJson, HttpFailure> {
    let engine = Arc::clone(&node.engine);
    let runtime = tokio::runtime::Handle::current();
    let work = move |is_over: &(dyn Fn() -> bool + Sync)| {
        let end = Instant::now() + PATIENCE;
        let is_spent = || is_over() || Instant::now() >= end;
        let mut budget = ReadBudget { records: RECORDS, is_over: &is_spent };
        let progress = CorrectionProgress::default();
        runtime.block_on(engine.correct(&order, ("", now), Some(&mut budget), &progress, is_over))
    };
    let impact = node.searches.run(node.timeout() / 2, work).await??;
    Ok(impact.as_ref().map(api::RuleImpactJson::from).unwrap_or_default())
}

/// Undoes what a rule did to past events of this node: counters of its effects, counters of actions that it alone decided,
/// and its labels and bans. Switch the rule off first.
///
/// Counters change at the time of each event; labels and bans end now. The correction runs in the background, one at a
/// time, and `GET /v1/rules/corrections` returns its progress. A repeated one passes over what is already undone. Decisions
/// stay as they were logged.
#[utoipa::path(
    post,
    path = "/v1/rules/corrections",
    operation_id = "correct_rule",
    tag = "rules",
    request_body = api::CorrectionRequest,
    responses((status = 202, description = "It is begun", body = api::CorrectionJson), ProblemResponses),
)]
pub(crate) async fn correct(
    State(node): State<Arc<Node>>,
    JsonBody(request): JsonBody<api::CorrectionRequest>,
) -> Result<(StatusCode, Json<api::CorrectionJson>), HttpFailure> {
    let api::CorrectionRequest { pipeline, rule, version, from, to } = request;
    let order = order(&node, pipeline.as_deref(), rule, version, (from.0, to.map(|to| to.0)))?;
    note("pipeline", order.pipeline.clone());
    note("rule", order.rule.clone());
    note("from", order.from.to_string());
    note("to", order.to.to_string());
    let by = RequestGrant::current().map_or_else(|| "local".to_owned(), |grant| grant.name().to_owned());
    correction_work::begin(&node, order, by)?;
    Ok((StatusCode::ACCEPTED, progress(State(node)).await))
}

/// Returns the progress of the running correction, or the result of the last one since the start.
#[utoipa::path(
    get,
    path = "/v1/rules/corrections",
    operation_id = "correction",
    tag = "rules",
    responses((status = 200, description = "The correction", body = api::CorrectionJson), ProblemResponses),
)]
pub(crate) async fn progress(State(node): State<Arc<Node>>) -> Json<api::CorrectionJson> {
    let none = || api::CorrectionJson { state: "none".to_owned(), ..api::CorrectionJson::default() };
    Json(node.corrections.current().map_or_else(none, |job| shown(&job)))
}

/// The order of a request.
fn order(
    node: &Arc<Node>,
    pipeline: Option<&str>,
    rule: String,
    version: Option<String>,
    (from, to): (event::Time, Option<event::Time>),
) -> Result<CorrectionOrder, HttpFailure> {
    let pipeline = node.pipeline(pipeline)?.name.clone();
    if rule.is_empty() || rule.len() > judge::RuleSet::NAME_BYTES_MAX {
        return Err(UNKNOWN_NAME.failure("rule: expected the name of a rule"));
    }
    let now = node.now();
    // What is decided from now on is not past.
    let to = to.unwrap_or(event::Time(now.0.saturating_add(1)));
    if from >= to {
        return Err(INVALID_PARAMETER.failure("to: it is not after `from`"));
    }
    Ok(CorrectionOrder { pipeline, rule, version, from, to })
}

fn shown(job: &CorrectionJob) -> api::CorrectionJson {
    let mut shown = api::CorrectionJson {
        state: "running".to_owned(),
        pipeline: job.order.pipeline.clone(),
        rule: job.order.rule.clone(),
        by: job.by.clone(),
        begun: Some(api::Timestamp(job.begun)),
        hits: job.progress.hits(),
        ..api::CorrectionJson::default()
    };
    match &job.ended {
        None => {}
        Some((time, Err(why))) => {
            (shown.state, shown.ended) = ("failed".to_owned(), Some(api::Timestamp(*time)));
            shown.problem = Some(why.clone());
        }
        Some((time, Ok(impact))) => {
            (shown.state, shown.ended) = ("done".to_owned(), Some(api::Timestamp(*time)));
            shown.impact = Some(api::RuleImpactJson::from(&**impact));
        }
    }
    shown
}
