//! Routes of what learns, and of what is unlike its past.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use engine::KnownModels;
use serde::Deserialize;
use tokio::runtime::Handle;
use tokio::time::timeout;
use utoipa::IntoParams;

use super::QueryParams;
use crate::api;
use crate::core::anomaly_look::report;
use crate::core::grant::{RequestGrant, may_read_content, note};
use crate::core::node::Node;
use crate::core::problem::{HttpFailure, ProblemResponses};
use crate::core::relearn_work;
use crate::core::relearning::{RelearnJob, RelearnStage};

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

/// Starts rebuilding a pipeline's linear models from the judgements in this node's journal, beside those in use, as
/// `tollhouse learn --from-journal` does. They learn what is judged meanwhile, too, and change nothing until they are adopted.
///
/// One is made at a time, on one thread. What was learned without a decision (`POST /v1/learn`) is not in the journal. Where nodes share
/// their models it is refused: each journal has a part of what they were taught.
#[utoipa::path(
    post,
    path = "/v1/learners/relearn",
    tag = "statistics",
    operation_id = "relearn",
    params(LearnersParams),
    responses((status = 202, description = "It is begun", body = api::RelearningJson), ProblemResponses),
)]
pub(crate) async fn relearn(
    State(node): State<Arc<Node>>,
    QueryParams(LearnersParams { pipeline }): QueryParams<LearnersParams>,
) -> Result<(StatusCode, Json<api::RelearningJson>), HttpFailure> {
    let pipeline = node.pipeline(pipeline.as_deref())?;
    note("pipeline", pipeline.name.clone());
    let by = RequestGrant::current().map_or_else(|| "local".to_owned(), |grant| grant.name().to_owned());
    let job = relearn_work::begin(&node, pipeline, by)?;
    Ok((StatusCode::ACCEPTED, Json(shown(&job))))
}

/// Returns the progress of rebuilding a pipeline's linear models, and their quality once they are ready.
#[utoipa::path(
    get,
    path = "/v1/learners/relearn",
    tag = "statistics",
    operation_id = "relearning",
    params(LearnersParams),
    responses((status = 200, description = "The latest ones", body = api::RelearningJson), ProblemResponses),
)]
pub(crate) async fn progress(
    State(node): State<Arc<Node>>,
    QueryParams(LearnersParams { pipeline }): QueryParams<LearnersParams>,
) -> Result<Json<api::RelearningJson>, HttpFailure> {
    let pipeline = node.pipeline(pipeline.as_deref())?;
    Ok(Json(shown(&*node.relearning.of(&pipeline.name)?)))
}

/// Cancels the rebuilding of linear models, or discards the rebuilt ones. The models in use stay.
#[utoipa::path(
    delete,
    path = "/v1/learners/relearn",
    tag = "statistics",
    operation_id = "discard_relearned",
    params(LearnersParams),
    responses((status = 200, description = "They are let go", body = api::RelearningJson), ProblemResponses),
)]
pub(crate) async fn discard(
    State(node): State<Arc<Node>>,
    QueryParams(LearnersParams { pipeline }): QueryParams<LearnersParams>,
) -> Result<Json<api::RelearningJson>, HttpFailure> {
    let pipeline = node.pipeline(pipeline.as_deref())?;
    note("pipeline", pipeline.name.clone());
    let job = node.relearning.of(&pipeline.name)?;
    job.discard(node.now());
    Ok(Json(shown(&job)))
}

/// The linear models that are to be used.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct AdoptParams {
    /// The pipeline; the first of the configuration if none is named.
    pub(crate) pipeline: Option<String>,
    /// True to replace models that have learned more events of a class than the journal has.
    #[serde(default)]
    pub(crate) replace: bool,
}

/// Replaces the linear models in use by the rebuilt ones. Models that have learned more stay, unless `replace` is true.
#[utoipa::path(
    post,
    path = "/v1/learners/relearn/adopt",
    tag = "statistics",
    operation_id = "adopt_relearned",
    params(AdoptParams),
    responses((status = 200, description = "They are in use", body = api::RelearningJson), ProblemResponses),
)]
pub(crate) async fn adopt(
    State(node): State<Arc<Node>>,
    QueryParams(AdoptParams { pipeline, replace }): QueryParams<AdoptParams>,
) -> Result<Json<api::RelearningJson>, HttpFailure> {
    let pipeline = node.pipeline(pipeline.as_deref())?;
    note("pipeline", pipeline.name.clone());
    note("replace", replace.to_string());
    let job = node.relearning.of(&pipeline.name)?;
    relearn_work::adopt(&node, &job, if replace { KnownModels::Replace } else { KnownModels::Keep }).await?;
    Ok(Json(shown(&job)))
}

fn shown(job: &RelearnJob) -> api::RelearningJson {
    let outcome = job.outcome();
    let problem = match &outcome.stage {
        RelearnStage::Failed(why) => Some(why.clone()),
        _ => None,
    };
    api::RelearningJson {
        state: outcome.stage.name().to_owned(),
        pipeline: job.pipeline.name.clone(),
        by: job.by.clone(),
        begun: api::Timestamp(job.begun),
        ended: outcome.ended.map(api::Timestamp),
        blocks: job.blocks(),
        problem,
        report: outcome.report.as_ref().map(api::RelearnReportJson::from),
    }
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
