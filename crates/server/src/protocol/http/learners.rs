//! Routes of what learns, and of what is unlike its past.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use axum::{Extension, Json};
use engine::KnownModels;
use futures_util::future::join;
use serde::Deserialize;
use tokio::runtime::Handle;
use tokio::time::timeout;
use utoipa::IntoParams;

use super::QueryParams;
use super::decisions::target;
use crate::api;
use crate::core::anomaly_look::report;
use crate::core::anomaly_watch::AnomalyReport;
use crate::core::grant::{RequestGrant, may_read_content, note};
use crate::core::node::Node;
use crate::core::peers::RelayedRequest;
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

/// Lists what is unusual in the last hour, node by node: traffic, actions and rules against the same hours of up to 14 days
/// before, keys that became hot, promises and probabilities that do not hold.
///
/// A node looks at most once a minute; a look costs as much as `/v1/top` for each kind.
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
    relayed: Option<Extension<RelayedRequest>>,
    QueryParams(AnomalyParams { pipeline }): QueryParams<AnomalyParams>,
) -> Result<Json<api::AnomaliesJson>, HttpFailure> {
    let only = pipeline.as_deref().map(|name| node.pipeline(Some(name))).transpose()?;
    let only = only.as_ref().map(|only| only.name.as_str());
    match relayed {
        Some(_) => report(&node).await.map(|found| Json(own_anomalies(&node, &found, only))),
        None => anomalies_of_all(&node, only).await.map(Json),
    }
}

/// The anomalies of all nodes, of one pipeline or of all.
async fn anomalies_of_all(node: &Arc<Node>, only: Option<&str>) -> Result<api::AnomaliesJson, HttpFailure> {
    let target = target("/v1/anomalies", [("pipeline", only.map(str::to_owned))].into_iter());
    let (own, others) = join(report(node), node.ask_others(&target)).await;
    let own = own?;
    let mut all = own_anomalies(node, &own, only);
    for (name, answer) in others {
        match answer.and_then(|answer| answer.json::<api::AnomaliesJson>()) {
            Ok(other) => {
                let found = other.anomalies.into_iter();
                all.anomalies.extend(found.map(|one| one.of_other(&name, may_read_content())));
            }
            Err(_) => all.absent.push(name),
        }
    }
    Ok(all)
}

/// The anomalies that this node has found, for the reader of the request.
fn own_anomalies(node: &Node, report: &AnomalyReport, only: Option<&str>) -> api::AnomaliesJson {
    let name = node.own_name();
    let wanted = report.found.iter().filter(|one| only.is_none_or(|only| one.pipeline == only));
    let shown = wanted.map(|one| api::AnomalyJson {
        node: name.clone(),
        ..api::AnomalyJson::new(one, report.at, may_read_content())
    });
    api::AnomaliesJson { at: api::Timestamp(report.at), anomalies: shown.collect(), absent: Vec::new() }
}

/// The anomalies of this node for a page: those of this minute if they are found at once, or else the latest that are known, while
/// a look goes on behind the page. `None` where nothing is known yet.
pub(crate) async fn anomalies_at_hand(node: &Arc<Node>) -> Option<api::AnomaliesJson> {
    let of = Arc::clone(node);
    // It is one look however many pages ask.
    let look = tokio::spawn(async move { report(&of).await.ok() });
    let found = timeout(AT_HAND, look).await.ok().and_then(Result::ok).flatten();
    let found = found.or_else(|| node.anomalies.latest())?;
    Some(own_anomalies(node, &found, None))
}
