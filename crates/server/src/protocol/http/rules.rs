//! Routes of rules: change, roll back, compare.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::{Extension, Json};
use data_encoding::HEXLOWER;
use engine::{Proposal, ReloadOutcome};
use journal::NodeNumber;
use plan::CanaryScope;
use serde::Deserialize;
use sha2::{Digest, Sha256};
use utoipa::IntoParams;

use super::{JsonBody, QueryParams};
use crate::api;
use crate::core::grant::{RequestGrant, note};
use crate::core::node::Node;
use crate::core::peers::RelayedRequest;
use crate::core::problem::{HttpFailure, INVALID_BODY, INVALID_PARAMETER, NOT_FOUND, ProblemResponses};
use crate::core::relay;
use crate::core::reload::log_reload;

/// The pipeline of the rules.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct RulesParams {
    /// The pipeline; the first of the configuration if none is named.
    pub(crate) pipeline: Option<String>,
}

/// The parameters that say what is to be done with rules.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct PostParams {
    /// The pipeline; the first of the configuration if none is named.
    pub(crate) pipeline: Option<String>,
    /// Only answer what would change.
    #[serde(default)]
    pub(crate) dry_run: bool,
    /// Judge them beside the enforced rules, without influence.
    #[serde(default)]
    pub(crate) candidate: bool,
}

/// The version that another one is compared with.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct VersionParams {
    /// The pipeline; the first of the configuration if none is named.
    pub(crate) pipeline: Option<String>,
    /// Another version, or `candidate`: the difference from it to this one is answered, too.
    pub(crate) against: Option<String>,
}

/// The parameters that say whether only to answer what would change.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct ReloadParams {
    /// Only answer what would change.
    #[serde(default)]
    dry_run: bool,
}

/// Changes something away from the threads that serve connections, and logs what came of it.
async fn change<F>(
    node: &Arc<Node>,
    dry_run: bool,
    proposal: F,
) -> Result<Json<api::ReloadOutcomeJson>, HttpFailure>
where
    F: FnOnce(
            &dyn Fn(Proposal<'_>) -> Result<ReloadOutcome, engine::ReloadError>,
        ) -> Result<ReloadOutcome, engine::ReloadError>
        + Send
        + 'static,
{
    let (engine, now) = (Arc::clone(&node.engine), node.now());
    let who = RequestGrant::current().map(|grant| grant.name().to_owned());
    let work = move |is_over: &(dyn Fn() -> bool + Sync)| {
        let changed =
            proposal(&|proposal| engine.change_unless(proposal, who.as_deref(), now, dry_run, is_over));
        if !dry_run {
            log_reload(&changed);
        }
        changed
    };
    let reloaded = node.changes.run(node.timeout() / 2, work).await??;
    for change in &reloaded.changes {
        let version = |version: &Option<String>| version.clone().unwrap_or_else(|| "none".to_owned());
        let versions = format!("{} -> {}", version(&change.before), version(&change.after));
        note(&format!("version of {}", change.pipeline), versions);
    }
    let behind = if dry_run { Vec::new() } else { relay::wait_for_rules(node).await };
    Ok(Json(api::ReloadOutcomeJson { behind, ..api::ReloadOutcomeJson::new(&reloaded, dry_run) }))
}

/// Returns a pipeline's posted rules and the versions kept for rollback.
#[utoipa::path(
    get,
    path = "/v1/rules",
    tag = "rules",
    params(RulesParams),
    responses((status = 200, description = "What is in force", body = api::RulesJson), ProblemResponses),
)]
pub(crate) async fn rules(
    State(node): State<Arc<Node>>,
    QueryParams(params): QueryParams<RulesParams>,
) -> Result<Json<api::RulesJson>, HttpFailure> {
    let pipeline = node.pipeline(params.pipeline.as_deref())?;
    let (engine, name) = (Arc::clone(&node.engine), pipeline.name.clone());
    let work = move |is_over: &(dyn Fn() -> bool + Sync)| engine.rule_ages(&name, is_over);
    let ages = node.lookups.run(node.timeout() / 2, work).await?;
    // A version that cannot be read takes nothing from what is in force.
    let ages = ages.unwrap_or_default().into_iter().map(|(rule, since)| (rule, api::Timestamp(since)));
    let info = api::RulesJson::from(&node.engine.rules_info(&pipeline));
    Ok(Json(api::RulesJson { ages: ages.collect(), ..info }))
}

/// Lays rules over a pipeline's file, replacing those posted before; an empty text removes them. An error changes nothing,
/// and all errors are returned.
///
/// They are laid over the file as the file is over its preset: an entry of the same name is changed key by key.
#[utoipa::path(
    post,
    path = "/v1/rules",
    tag = "rules",
    params(PostParams),
    request_body(
        description = "Sections of a pipeline's configuration, but for what it is; no set or model can name a file",
        content((String = "application/toml"), (String = "text/plain")),
    ),
    responses((status = 200, description = "What has changed", body = api::ReloadOutcomeJson), ProblemResponses),
)]
pub(crate) async fn post(
    State(node): State<Arc<Node>>,
    QueryParams(PostParams { pipeline, dry_run, candidate }): QueryParams<PostParams>,
    body: axum::body::Bytes,
) -> Result<Json<api::ReloadOutcomeJson>, HttpFailure> {
    let pipeline = node.pipeline(pipeline.as_deref())?.name.clone();
    note("pipeline", pipeline.clone());
    note("candidate", candidate.to_string());
    note("dry_run", dry_run.to_string());
    note("sha256", HEXLOWER.encode(&Sha256::digest(&body)));
    let text = String::from_utf8(body.into());
    let text = text.map_err(|_| INVALID_BODY.failure("the body is no UTF-8 text").help("send TOML"))?;
    change(&node, dry_run, move |change| {
        let (pipeline, text) = (pipeline.as_str(), text.as_str());
        change(match candidate {
            true => Proposal::Candidate { pipeline, text },
            false => Proposal::Post { pipeline, text },
        })
    })
    .await
}

/// Reloads the configuration files, like SIGHUP. Node settings need a restart.
#[utoipa::path(
    post,
    path = "/v1/rules/reload",
    tag = "rules",
    params(ReloadParams),
    responses((status = 200, description = "What has changed", body = api::ReloadOutcomeJson), ProblemResponses),
)]
pub(super) async fn reload(
    State(node): State<Arc<Node>>,
    QueryParams(ReloadParams { dry_run }): QueryParams<ReloadParams>,
) -> Result<Json<api::ReloadOutcomeJson>, HttpFailure> {
    note("dry_run", dry_run.to_string());
    change(&node, dry_run, |change| change(Proposal::Files)).await
}

/// Returns to a kept version of a pipeline, also across restarts, until the files change or rules are posted.
#[utoipa::path(
    post,
    path = "/v1/rules/rollback",
    tag = "rules",
    request_body = api::RollbackRequest,
    responses((status = 200, description = "What has changed", body = api::ReloadOutcomeJson), ProblemResponses),
)]
pub(crate) async fn rollback(
    State(node): State<Arc<Node>>,
    JsonBody(api::RollbackRequest { version, pipeline }): JsonBody<api::RollbackRequest>,
) -> Result<Json<api::ReloadOutcomeJson>, HttpFailure> {
    let pipeline = node.pipeline(pipeline.as_deref())?.name.clone();
    note("pipeline", pipeline.clone());
    note("version", version.clone());
    change(&node, false, move |change| change(Proposal::Back { pipeline: &pipeline, version: &version }))
        .await
}

/// Lets the posted candidate decide for a share of the events, or for those of some nodes, and compares both. A share of 0
/// ends it.
///
/// An event is the canary's by its first key, in the order of the pipeline's kinds, else by its id.
#[utoipa::path(
    post,
    path = "/v1/rules/canary",
    tag = "rules",
    request_body = api::CanaryRequest,
    responses((status = 200, description = "What has changed", body = api::ReloadOutcomeJson), ProblemResponses),
)]
pub(crate) async fn canary(
    State(node): State<Arc<Node>>,
    JsonBody(request): JsonBody<api::CanaryRequest>,
) -> Result<Json<api::ReloadOutcomeJson>, HttpFailure> {
    let api::CanaryRequest { share, nodes, pipeline } = request;
    let pipeline = node.pipeline(pipeline.as_deref())?.name.clone();
    let Some(share) = share.or((!nodes.is_empty()).then_some(1.0)) else {
        return Err(INVALID_PARAMETER.failure("share, nodes: one of them is missing"));
    };
    let known = node.peers.nodes();
    let is_node = |number: &u16| NodeNumber::new(*number).is_some_and(|number| known.contains_key(&number));
    if let Some(number) = nodes.iter().find(|number| !is_node(number)) {
        let failure = INVALID_PARAMETER.failure(format!("nodes: there is no node {number}"));
        return Err(failure.help("`GET /v1/nodes` lists them; a node of its own has no number"));
    }
    note("pipeline", pipeline.clone());
    note("share", share.to_string());
    note("nodes", format!("{nodes:?}"));
    let scope = (share != 0.0).then(|| {
        let misfit = || INVALID_PARAMETER.failure(format!("share: {share} is not from 0 to 1"));
        CanaryScope::new(share, nodes).ok_or_else(misfit)
    });
    let scope = scope.transpose()?;
    change(&node, false, move |change| {
        change(Proposal::Canary { pipeline: &pipeline, scope: scope.as_ref() })
    })
    .await
}

/// Enforces the posted candidate.
#[utoipa::path(
    post,
    path = "/v1/rules/promote",
    tag = "rules",
    params(RulesParams),
    responses((status = 200, description = "What has changed", body = api::ReloadOutcomeJson), ProblemResponses),
)]
pub(crate) async fn promote(
    State(node): State<Arc<Node>>,
    QueryParams(params): QueryParams<RulesParams>,
) -> Result<Json<api::ReloadOutcomeJson>, HttpFailure> {
    let pipeline = node.pipeline(params.pipeline.as_deref())?.name.clone();
    note("pipeline", pipeline.clone());
    change(&node, false, move |change| change(Proposal::Promote { pipeline: &pipeline })).await
}

/// Compares a pipeline's candidate with the enforced rules, on the events of all nodes since either changed.
#[utoipa::path(
    get,
    path = "/v1/rules/comparison",
    tag = "rules",
    params(RulesParams),
    responses((status = 200, description = "How often they disagree, and on what", body = api::ComparisonJson), ProblemResponses),
)]
pub(crate) async fn comparison(
    State(node): State<Arc<Node>>,
    relayed: Option<Extension<RelayedRequest>>,
    QueryParams(params): QueryParams<RulesParams>,
) -> Result<Json<api::ComparisonJson>, HttpFailure> {
    let pipeline = node.pipeline(params.pipeline.as_deref())?;
    let comparison = node.engine.comparison(&pipeline).ok_or_else(|| {
        NOT_FOUND
            .failure(format!("the pipeline `{}` has no candidate", pipeline.name))
            .help("post one with `POST /v1/rules?candidate=true`, or name its file in the configuration")
    })?;
    let mut all = api::ComparisonJson::from(&comparison);
    if relayed.is_none() {
        let query = serde_urlencoded::to_string([("pipeline", &pipeline.name)]).unwrap_or_default();
        for (name, answer) in node.ask_others(&format!("/v1/rules/comparison?{query}")).await {
            let other = answer.and_then(|answer| answer.json());
            if !other.is_ok_and(|other| all.add(other)) {
                all.absent.push(name);
            }
        }
    }
    Ok(Json(all))
}

/// Returns a version's text: every setting of the pipeline and its preset, and who enforced it; with `against` also the
/// differing lines. Name a version by a unique prefix, or `candidate`.
#[utoipa::path(
    get,
    path = "/v1/rules/versions/{version}",
    operation_id = "version",
    tag = "rules",
    params(("version" = String, Path, description = "The version, or `candidate`"), VersionParams),
    responses((status = 200, description = "The version", body = api::VersionTextJson), ProblemResponses),
)]
pub(crate) async fn version(
    State(node): State<Arc<Node>>,
    Path(version): Path<String>,
    QueryParams(params): QueryParams<VersionParams>,
) -> Result<Json<api::VersionTextJson>, HttpFailure> {
    let name = node.pipeline(params.pipeline.as_deref())?.name.clone();
    let engine = Arc::clone(&node.engine);
    let work = move |is_over: &(dyn Fn() -> bool + Sync)| {
        let of = engine.version_text(&name, &version, is_over)?;
        let other = params.against.as_deref().map(|other| engine.version_text(&name, other, is_over));
        Ok::<_, engine::ReloadError>(api::VersionTextJson::new(name, &of, other.transpose()?.as_ref()))
    };
    Ok(Json(node.scans.run(node.timeout() / 2, work).await??))
}

/// Lists the names that a pipeline's conditions can use, for completion in editors: facts, counts of keys, labels, sets,
/// rules and functions.
#[utoipa::path(
    get,
    path = "/v1/rules/names",
    operation_id = "names",
    tag = "rules",
    params(RulesParams),
    responses((status = 200, description = "The names", body = api::RuleNamesJson), ProblemResponses),
)]
pub(crate) async fn names(
    State(node): State<Arc<Node>>,
    QueryParams(params): QueryParams<RulesParams>,
) -> Result<Json<api::RuleNamesJson>, HttpFailure> {
    Ok(Json(api::RuleNamesJson::of(&*node.pipeline(params.pipeline.as_deref())?)))
}
