//! Routes of what learns, and of what is unlike its past.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use tokio::runtime::Handle;
use tokio::time::timeout;
use utoipa::IntoParams;

use super::QueryParams;
use crate::api;
use crate::core::anomaly_look::report;
use crate::core::grant::may_read_content;
use crate::core::node::Node;
use crate::core::problem::{HttpFailure, ProblemResponses};

/// The time that a page waits for anomalies.
const AT_HAND: Duration = Duration::from_millis(50);

/// The pipeline whose learners are shown.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct LearnersParams {
    /// The pipeline; the first of the configuration if none is named.
    pub(crate) pipeline: Option<String>,
}

/// Lists what learns in a pipeline: bands with their promises and results, classifiers with their training, models with
/// their inputs.
#[utoipa::path(
    get,
    path = "/v1/learners",
    tag = "statistics",
    operation_id = "learners",
    params(LearnersParams),
    responses((status = 200, description = "What learns", body = api::LearnersJson), ProblemResponses),
)]
pub(crate) async fn learners(
    State(node): State<Arc<Node>>,
    QueryParams(LearnersParams { pipeline }): QueryParams<LearnersParams>,
) -> Result<Json<api::LearnersJson>, HttpFailure> {
    let pipeline = node.pipeline(pipeline.as_deref())?;
    let (engine, now) = (Arc::clone(&node.engine), node.now());
    let work = move |_: &(dyn Fn() -> bool + Sync)| {
        let states = Handle::current().block_on(engine.classifier_states(&pipeline, now))?;
        Ok::<_, stats::LedgerError>(api::LearnersJson::new(&pipeline, &engine, &states))
    };
    Ok(Json(node.lookups.run(node.timeout() / 2, work).await??))
}

/// The pipeline whose anomalies are shown.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct AnomalyParams {
    /// Only of this pipeline.
    pub(crate) pipeline: Option<String>,
}

/// Lists what is unusual in the last hour on this node: traffic, actions and rules against the same hours of up to 14 days
/// before, keys that became hot, promises and probabilities that do not hold.
///
/// Looks at most once a minute; a look costs as much as `/v1/top` for each kind.
#[utoipa::path(
    get,
    path = "/v1/anomalies",
    tag = "statistics",
    operation_id = "anomalies",
    params(AnomalyParams),
    responses((status = 200, description = "The anomalies", body = api::AnomaliesJson), ProblemResponses),
)]
pub(crate) async fn anomalies(
    State(node): State<Arc<Node>>,
    QueryParams(AnomalyParams { pipeline }): QueryParams<AnomalyParams>,
) -> Result<Json<api::AnomaliesJson>, HttpFailure> {
    let only = match &pipeline {
        Some(name) => Some(node.pipeline(Some(name))?),
        None => None,
    };
    let report = report(&node).await?;
    let is_wanted = |name: &str| only.as_ref().is_none_or(|only| only.name == name);
    let wanted = report.found.iter().filter(|one| is_wanted(&one.pipeline));
    let shown = wanted.map(|one| api::AnomalyJson::new(one, report.at, may_read_content()));
    Ok(Json(api::AnomaliesJson { at: api::Timestamp(report.at), anomalies: shown.collect() }))
}

/// The anomalies for a page: those of this minute if they are found at once, or else the latest that are known, while a look goes on
/// behind the page. `None` where nothing is known yet.
pub(crate) async fn anomalies_at_hand(node: &Arc<Node>) -> Option<api::AnomaliesJson> {
    let of = Arc::clone(node);
    // It is one look however many pages ask.
    let look = tokio::spawn(async move { report(&of).await.ok() });
    let found = timeout(AT_HAND, look).await.ok().and_then(Result::ok).flatten();
    let report = found.or_else(|| node.anomalies.latest())?;
    let shown = report.found.iter().map(|one| api::AnomalyJson::new(one, report.at, may_read_content()));
    Some(api::AnomaliesJson { at: api::Timestamp(report.at), anomalies: shown.collect() })
}
