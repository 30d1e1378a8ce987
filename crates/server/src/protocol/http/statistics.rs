//! Routes of keys' statistics.

use std::sync::Arc;

use axum::extract::State;
use axum::{Extension, Json};
use engine::{KeyChoice, KeyName, Ranking, ReputationRanking};
use event::{Span, Time};
use futures_util::future::join;
use plan::Pipeline;
use serde::Deserialize;
use tokio::runtime::Handle;
use utoipa::IntoParams;

use super::decisions::{answers_of_others, bounded, target, time};
use super::{JsonBody, QueryParams};
use crate::api;
use crate::core::answer_cache::RankingQuery;
use crate::core::answering::answered;
use crate::core::grant::may_read_content;
use crate::core::node::Node;
use crate::core::peers::RelayedRequest;
use crate::core::problem::{HttpFailure, INVALID_PARAMETER, NOT_APPLICABLE, ProblemResponses};

/// Keys that are shown unless the caller wants another number of them.
const SHOWN: usize = 10;
/// Most keys that are shown.
const SHOWN_MAX: usize = 1000;

/// The key of a timeline.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct TimelineParams {
    /// The pipeline; the first of the configuration if none is named.
    pub(crate) pipeline: Option<String>,
    /// The kind, or the distinct count.
    pub(crate) kind: String,
    /// The value, as it stands in events; it is normalised as they are. Of a key of several fields their values in order, as
    /// the JSON array `["ann","phone-7"]`.
    pub(crate) value: String,
    /// Buckets that end by then are left out; a time such as `2026-05-17T10:00:00Z`.
    pub(crate) from: Option<String>,
    /// Buckets that begin then or later are left out.
    pub(crate) to: Option<String>,
}

/// Returns all that is kept of a key.
#[utoipa::path(
    get,
    path = "/v1/timeline",
    tag = "statistics",
    params(TimelineParams),
    responses((status = 200, description = "Its buckets", body = api::TimelineJson), ProblemResponses),
)]
pub(crate) async fn timeline(
    State(node): State<Arc<Node>>,
    QueryParams(params): QueryParams<TimelineParams>,
) -> Result<Json<api::TimelineJson>, HttpFailure> {
    let pipeline = node.pipeline(params.pipeline.as_deref())?;
    let (engine, now) = (Arc::clone(&node.engine), node.now());
    let (of, TimelineParams { kind, value, from, to, .. }) = (Arc::clone(&pipeline), params);
    let (from, to) = (time("from", from)?, time("to", to)?);
    if from.zip(to).is_some_and(|(from, to)| from >= to) {
        return Err(INVALID_PARAMETER.failure("to: it is not after `from`"));
    }
    let work = move |_: &(dyn Fn() -> bool + Sync)| {
        let known = Handle::current().block_on(engine.timeline(&of, &kind, &value, now));
        (known, kind)
    };
    let (known, kind) = node.lookups.run(node.timeout() / 2, work).await?;
    let mut known = known?;
    known.cut(from, to);
    Ok(Json(api::TimelineJson::new(&pipeline.name, &kind, &known)))
}

/// A value that is looked up.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct KeyLookupParams {
    /// The value, as it stands in events: an address, an account, a domain.
    pub(crate) value: String,
    /// Only in this pipeline.
    pub(crate) pipeline: Option<String>,
}

/// Looks a value up under every kind that takes it, and returns the keys with counts. Counts nothing.
#[utoipa::path(
    get,
    path = "/v1/keys",
    tag = "statistics",
    operation_id = "keys",
    params(KeyLookupParams),
    responses((status = 200, description = "Its keys, by pipeline", body = api::KnownKeysJson), ProblemResponses),
)]
pub(crate) async fn keys(
    State(node): State<Arc<Node>>,
    QueryParams(KeyLookupParams { value, pipeline }): QueryParams<KeyLookupParams>,
) -> Result<Json<api::KnownKeysJson>, HttpFailure> {
    let asked = match pipeline {
        Some(name) => vec![node.pipeline(Some(&name))?],
        None => node.engine.plan().pipelines.to_vec(),
    };
    let (engine, now) = (Arc::clone(&node.engine), node.now());
    let work = move |is_over: &(dyn Fn() -> bool + Sync)| {
        let mut pipelines = Vec::new();
        for pipeline in asked.iter().take_while(|_| !is_over()) {
            let known = Handle::current().block_on(engine.statistics_of_value(pipeline, &value, now))?;
            let keys = known.iter().map(|(kind, known)| api::KeyStatisticsJson::new(kind, known)).collect();
            pipelines.push(api::ReadingsJson { pipeline: pipeline.name.clone(), keys });
        }
        Ok::<_, engine::KeyStatisticsError>(api::KnownKeysJson { value, pipelines })
    };
    Ok(Json(node.lookups.run(node.timeout() / 2, work).await??))
}

/// The key whose relations are asked for.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct RelatedKeyParams {
    /// The pipeline; the first of the configuration if none is named.
    pub(crate) pipeline: Option<String>,
    /// The kind.
    pub(crate) kind: String,
    /// The value, as it stands in events.
    pub(crate) value: String,
    /// Only by decisions from this time on, such as `2026-05-17T10:00:00Z`.
    pub(crate) from: Option<String>,
}

/// Lists keys that share recent decisions with a key, of up to a thousand decisions of each node: a device's accounts, an
/// account's addresses. Reads decisions, since statistics keep hashes. Keys of several fields are left out.
#[utoipa::path(
    get,
    path = "/v1/keys/related",
    tag = "statistics",
    operation_id = "related_keys",
    params(RelatedKeyParams),
    responses((status = 200, description = "Its relations", body = api::RelatedKeysJson), ProblemResponses),
)]
pub(crate) async fn related(
    State(node): State<Arc<Node>>,
    relayed: Option<Extension<RelayedRequest>>,
    QueryParams(RelatedKeyParams { pipeline, kind, value, from }): QueryParams<RelatedKeyParams>,
) -> Result<Json<api::RelatedKeysJson>, HttpFailure> {
    let pipeline = node.pipeline(pipeline.as_deref())?;
    let from = time("from", from)?;
    if relayed.is_some() {
        return own_related(&node, &pipeline, kind, value, from).await.map(Json);
    }
    let pairs = [
        ("pipeline", Some(pipeline.name.clone())),
        ("kind", Some(kind.clone())),
        ("value", Some(value.clone())),
        ("from", from.map(|from| from.to_string())),
    ];
    let target = target("/v1/keys/related", pairs.into_iter());
    let (own, (others, absent)) =
        join(own_related(&node, &pipeline, kind, value, from), answers_of_others(&node, &target)).await;
    let mut all: api::RelatedKeysJson = own?;
    others.into_iter().for_each(|other| all.add(other));
    Ok(Json(api::RelatedKeysJson { absent, ..all }.shown(&pipeline)))
}

/// Lists the keys that share decisions of this node with a key.
async fn own_related(
    node: &Arc<Node>,
    pipeline: &Arc<Pipeline>,
    kind: String,
    value: String,
    from: Option<Time>,
) -> Result<api::RelatedKeysJson, HttpFailure> {
    let (engine, of, name) = (Arc::clone(&node.engine), Arc::clone(pipeline), kind.clone());
    let work = move |is_over: &(dyn Fn() -> bool + Sync)| {
        let key = KeyChoice { kind, value };
        bounded(is_over, |budget| engine.related_keys(&of, key, from, budget))
    };
    let related = node.searches.run(node.timeout() / 2, work).await??;
    Ok(api::RelatedKeysJson::new(&pipeline.name, &name, &related))
}

/// Returns the counts of many keys in one request. Counts nothing.
#[utoipa::path(
    post,
    path = "/v1/readings",
    tag = "statistics",
    request_body = api::ReadingsRequest,
    responses((status = 200, description = "Their counts", body = api::ReadingsJson), ProblemResponses),
)]
pub(crate) async fn readings(
    State(node): State<Arc<Node>>,
    JsonBody(asked): JsonBody<api::ReadingsRequest>,
) -> Result<Json<api::ReadingsJson>, HttpFailure> {
    let pipeline = node.pipeline(asked.pipeline.as_deref())?;
    let (engine, now) = (Arc::clone(&node.engine), node.now());
    let (of, keys) = (Arc::clone(&pipeline), asked.keys);
    let work = move |_: &(dyn Fn() -> bool + Sync)| {
        let names: Vec<_> = keys.iter().map(|key| KeyName { kind: &key.kind, value: &key.value }).collect();
        let known = Handle::current().block_on(engine.key_statistics(&of, &names, now));
        (known, keys)
    };
    let (known, keys) = node.lookups.run(node.timeout() / 2, work).await?;
    let known = known?;
    let keys = keys.iter().zip(&known).map(|(key, known)| api::KeyStatisticsJson::new(&key.kind, known));
    Ok(Json(api::ReadingsJson { pipeline: pipeline.name.clone(), keys: keys.collect() }))
}

/// The parameters of a request for what is hot.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct TopParams {
    /// The pipeline; the first of the configuration if none is named.
    pub(crate) pipeline: Option<String>,
    /// The kind.
    pub(crate) kind: String,
    /// The counter; the kind's first if none is named.
    pub(crate) counter: Option<String>,
    /// The trailing window, such as `1h`, which is also the default.
    pub(crate) window: Option<String>,
    /// Most keys that are wanted, 1 to 1000; 10 if it is not said.
    pub(crate) limit: Option<usize>,
}

/// Lists the keys of a kind with the largest counts now. Reads every key in memory, and those on disk that were used since
/// the window began.
///
/// Few such calls run at once, and their place rests after each for as long as it took. A call ends when its caller leaves
/// or its time is up. An answer that took long, 50 ms of a processor, is given again for 15 s, and while a new one is made, up to a
/// minute.
#[utoipa::path(
    get,
    path = "/v1/top",
    tag = "statistics",
    params(TopParams),
    responses((status = 200, description = "The hottest keys", body = api::TopKeysJson), ProblemResponses),
)]
pub(crate) async fn top(
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
    let query = RankingQuery {
        pipeline: (pipeline.name.clone(), pipeline.version.clone()),
        by: (kind.clone(), counter.clone()),
        span: window,
        limit,
    };
    let (engine, now, of) = (Arc::clone(&node.engine), node.now(), Arc::clone(&pipeline));
    let rank = move |query: &RankingQuery, is_over: &(dyn Fn() -> bool + Sync)| {
        let (kind, counter) = &query.by;
        let asked = Ranking { kind, counter, window, limit };
        Handle::current().block_on(engine.hottest(&of, asked, now, is_over))
    };
    let hottest = answered(&node, |node| &node.hottest, query, node.timeout(), rank).await?;
    Ok(Json(api::TopKeysJson {
        pipeline: pipeline.name.clone(),
        kind,
        counter,
        window: api::Length(window),
        keys: hottest.iter().map(|hot| api::HotKeyJson::from(hot).of_reader(may_read_content())).collect(),
    }))
}

/// The parameters of a request for the worst or the best reputations.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ReputationParams {
    /// The pipeline; the first of the configuration if none is named.
    pub(crate) pipeline: Option<String>,
    /// The reputation.
    pub(crate) name: String,
    /// `worst`, which is the default, or `best`.
    pub(crate) order: Option<String>,
    /// Only keys of which something was counted within so long, such as `1h`, which is also the default.
    pub(crate) within: Option<String>,
    /// Most keys that are wanted, 1 to 1000; 10 if it is not said.
    pub(crate) limit: Option<usize>,
}

/// Lists the keys with the worst or best reputations, among those whose parts counted most within a half-life. Costs as
/// much as `/v1/top` for each part, and the answer is cached in the same way.
#[utoipa::path(
    get,
    path = "/v1/reputations",
    tag = "statistics",
    params(ReputationParams),
    responses((status = 200, description = "The keys", body = api::RankedReputationsJson), ProblemResponses),
)]
pub(crate) async fn reputations(
    State(node): State<Arc<Node>>,
    QueryParams(params): QueryParams<ReputationParams>,
) -> Result<Json<api::RankedReputationsJson>, HttpFailure> {
    let pipeline = node.pipeline(params.pipeline.as_deref())?;
    let within = params.within.map_or(Ok(Span::hours(1)), |text| text.parse());
    let within = within.map_err(|error| INVALID_PARAMETER.failure(format!("within: {error}")))?;
    let limit = params.limit.unwrap_or(SHOWN);
    if !(1..=SHOWN_MAX).contains(&limit) {
        return Err(INVALID_PARAMETER.failure(format!("limit: expected 1 to {SHOWN_MAX}")));
    }
    let order = params.order.unwrap_or_else(|| "worst".to_owned());
    if !["worst", "best"].contains(&order.as_str()) {
        return Err(INVALID_PARAMETER.failure("order: expected `worst` or `best`"));
    }
    let (reputation, is_best) = (params.name, order == "best");
    let query = RankingQuery {
        pipeline: (pipeline.name.clone(), pipeline.version.clone()),
        by: (reputation.clone(), order.clone()),
        span: within,
        limit,
    };
    let (engine, now, of) = (Arc::clone(&node.engine), node.now(), Arc::clone(&pipeline));
    let rank = move |query: &RankingQuery, is_over: &(dyn Fn() -> bool + Sync)| {
        let asked = ReputationRanking { name: &query.by.0, is_best, within, limit };
        Handle::current().block_on(engine.rank_reputations(&of, asked, now, is_over))
    };
    let ranked = answered(&node, |node| &node.reputations, query, node.timeout(), rank).await?;
    Ok(Json(api::RankedReputationsJson {
        pipeline: pipeline.name.clone(),
        reputation,
        order,
        within: api::Length(within),
        keys: ranked
            .iter()
            .map(|key| api::RankedReputationJson::from(key).of_reader(may_read_content()))
            .collect(),
    }))
}
