//! Back-tests over the journal of this node: what other rules would have decided.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use data_encoding::HEXLOWER;
use engine::Proposal;
use engine::backtest::BacktestQuery;
use event::{Span, Time};
use sha2::{Digest, Sha256};

use super::rules::RulesParams;
use super::{JsonBody, QueryParams};
use crate::api;
use crate::core::backtest_work;
use crate::core::backtests::{BacktestJob, BacktestOrder, BacktestStage};
use crate::core::grant::{RequestGrant, note};
use crate::core::node::Node;
use crate::core::problem::{HttpFailure, INVALID_PARAMETER, ProblemResponses};

/// The time that is gone through if none is said.
const SPAN: Span = Span::days(1);
/// Most classes and actions that are named.
const NAMES_MAX: usize = 100;

/// Starts a back-test of other rules on this node's journal, as `tollhouse backtest` does. A report on a sample is there
/// within about a second; the whole follows, newest first. Nothing is counted, learned or logged.
///
/// One runs at a time, on one thread, and a few wait. `rules` are checked first, with the errors of `POST /v1/rules`.
#[utoipa::path(
    post,
    path = "/v1/backtests",
    operation_id = "begin_backtest",
    tag = "rules",
    request_body = api::BacktestRequest,
    responses((status = 202, description = "It is begun", body = api::BacktestJson), ProblemResponses),
)]
pub(crate) async fn begin(
    State(node): State<Arc<Node>>,
    JsonBody(request): JsonBody<api::BacktestRequest>,
) -> Result<(StatusCode, Json<api::BacktestJson>), HttpFailure> {
    let job = begun(&node, request).await?;
    Ok((StatusCode::ACCEPTED, Json(shown(&job, true))))
}

/// Compiles the rules that are tried, and begins.
async fn begun(node: &Arc<Node>, request: api::BacktestRequest) -> Result<Arc<BacktestJob>, HttpFailure> {
    let named = [request.rules.is_some(), request.version.is_some(), request.candidate];
    if named.iter().filter(|named| **named).count() > 1 {
        return Err(INVALID_PARAMETER.failure("rules, version, candidate: expected one of them at most"));
    }
    let fixed = request.fit.as_ref().map_or(0, |fit| fit.fixed.len());
    if [request.bad.len(), request.caught.len(), fixed].iter().any(|names| *names > NAMES_MAX) {
        return Err(
            INVALID_PARAMETER.failure(format!("bad, caught, fit.fixed: expected at most {NAMES_MAX}"))
        );
    }
    let now = node.now();
    let (from, to) = span(&request, now)?;
    let in_force = node.pipeline(request.pipeline.as_deref())?;
    note("pipeline", in_force.name.clone());
    if let Some(rules) = &request.rules {
        note("sha256", HEXLOWER.encode(&Sha256::digest(rules)));
    }
    let (engine, name) = (Arc::clone(&node.engine), in_force.name.clone());
    let (rules, version, is_candidate) = (request.rules.clone(), request.version, request.candidate);
    let pipeline = match named.contains(&true) {
        false => in_force,
        true => {
            let work = move |is_over: &(dyn Fn() -> bool + Sync)| {
                let proposal = match (&rules, &version, is_candidate) {
                    (Some(text), ..) => Proposal::Post { pipeline: &name, text },
                    (None, Some(version), _) => Proposal::Back { pipeline: &name, version },
                    (None, None, _) => Proposal::Promote { pipeline: &name },
                };
                engine.proposed_pipeline(&name, proposal, is_over)
            };
            node.scans.run(node.timeout() / 2, work).await??
        }
    };
    note("version", pipeline.version.clone());
    let fit = request.fit.map(api::ScoreFitRequest::read).transpose();
    let fit = fit.map_err(|problem| INVALID_PARAMETER.failure(problem))?;
    if let Some(fit) = &fit {
        fit.check(&pipeline).map_err(|error| INVALID_PARAMETER.failure(format!("fit.fixed: {error}")))?;
    }
    let query = BacktestQuery {
        from: Some(from),
        // Without an end what is decided just now is among them.
        to: request.to.map(|to| to.0),
        bad: request.bad,
        caught: request.caught,
        fit,
    };
    let by = RequestGrant::current().map_or_else(|| "local".to_owned(), |grant| grant.name().to_owned());
    // A kept version is a whole configuration, and no text that is laid over one.
    let [_, is_version, is_candidate] = named;
    let text = match request.rules {
        Some(text) => Some(text),
        None if is_version => None,
        None if is_candidate => node.engine.posted_candidate(&pipeline.name),
        None => {
            let standing = node.engine.rules_info(&pipeline);
            (!standing.back).then(|| standing.posted.unwrap_or_default())
        }
    };
    let is_sample_only = request.sample_only;
    backtest_work::begin(node, BacktestOrder { pipeline, query, text, from, to, by, is_sample_only })
}

/// The time that a request asks for.
fn span(request: &api::BacktestRequest, now: Time) -> Result<(Time, Time), HttpFailure> {
    if request.span.is_some() && request.from.is_some() {
        return Err(INVALID_PARAMETER.failure("span, from: expected one of them at most"));
    }
    let to = request.to.map_or(now, |to| to.0);
    let from = match (request.from, request.span) {
        (Some(from), _) => from.0,
        (None, span) => to - span.map_or(SPAN, |span| span.0),
    };
    if from >= to {
        return Err(INVALID_PARAMETER.failure("to: it is not after the begin of the time"));
    }
    Ok((from, to))
}

/// Lists a pipeline's back-tests, newest first, without their reports.
#[utoipa::path(
    get,
    path = "/v1/backtests",
    operation_id = "backtests",
    tag = "rules",
    params(RulesParams),
    responses((status = 200, description = "The back-tests", body = api::BacktestsJson), ProblemResponses),
)]
pub(super) async fn list(
    State(node): State<Arc<Node>>,
    QueryParams(params): QueryParams<RulesParams>,
) -> Result<Json<api::BacktestsJson>, HttpFailure> {
    let pipeline = node.pipeline(params.pipeline.as_deref())?;
    let jobs = node.backtests.all().into_iter().filter(|job| job.order.pipeline.name == pipeline.name);
    Ok(Json(api::BacktestsJson { backtests: jobs.map(|job| shown(&job, false)).collect() }))
}

/// Returns a back-test's progress and its report so far.
#[utoipa::path(
    get,
    path = "/v1/backtests/{id}",
    operation_id = "backtest",
    tag = "rules",
    params(("id" = String, Path, description = "Its name")),
    responses((status = 200, description = "The back-test", body = api::BacktestJson), ProblemResponses),
)]
pub(crate) async fn backtest(
    State(node): State<Arc<Node>>,
    Path(id): Path<String>,
) -> Result<Json<api::BacktestJson>, HttpFailure> {
    Ok(Json(shown(&*found(&node, &id)?, true)))
}

/// Cancels a back-test at its next block. Its report is kept.
#[utoipa::path(
    delete,
    path = "/v1/backtests/{id}",
    operation_id = "cancel_backtest",
    tag = "rules",
    params(("id" = String, Path, description = "Its name")),
    responses((status = 200, description = "The back-test", body = api::BacktestJson), ProblemResponses),
)]
pub(crate) async fn cancel(
    State(node): State<Arc<Node>>,
    Path(id): Path<String>,
) -> Result<Json<api::BacktestJson>, HttpFailure> {
    let job = found(&node, &id)?;
    note("backtest", id);
    node.backtests.cancel(&job, node.now());
    Ok(Json(shown(&job, true)))
}

/// The job of a name, if its pipeline may be asked for.
pub(crate) fn found(node: &Arc<Node>, id: &str) -> Result<Arc<BacktestJob>, HttpFailure> {
    let job = node.backtests.find(id)?;
    if let Some(grant) = RequestGrant::current() {
        grant.check_pipeline(&job.order.pipeline.name)?;
    }
    Ok(job)
}

/// Returns a job as it is shown.
fn shown(job: &BacktestJob, with_report: bool) -> api::BacktestJson {
    let outcome = job.outcome();
    let problem = match &outcome.stage {
        BacktestStage::Failed(why) => Some(why.clone()),
        _ => None,
    };
    let report = outcome.report.as_deref().filter(|_| with_report);
    api::BacktestJson {
        id: job.id.clone(),
        state: outcome.stage.name().to_owned(),
        pipeline: job.order.pipeline.name.clone(),
        version: job.order.pipeline.version.clone(),
        by: job.order.by.clone(),
        begun: api::Timestamp(job.begun),
        ended: outcome.ended.map(api::Timestamp),
        from: api::Timestamp(job.order.from),
        to: api::Timestamp(job.order.to),
        rows: job.progress.rows(),
        progress: f64::from(job.progress.permille()) / 1000.0,
        is_sample: outcome.is_sample,
        problem,
        damaged: outcome.damaged,
        report: report.map(|report| api::BacktestReportJson::new(report, job.order.text.as_deref())),
    }
}
