//! Search in past decisions.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::future::ready;
use std::sync::Arc;
use std::time::{Duration, Instant};

use access::AccessScope;
use axum::body::Body;
use axum::extract::{FromRequestParts, State};
use axum::http::header;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use engine::{
    DecisionFilter, DecisionPage, DecisionQuery, DecisionStatistics, DecisionWatch, FactSelection, KeyChoice,
    LabelFilter, StatisticsQuery, WATCHERS_MAX, WatchedEvent,
};
use event::{Span, Time};
use futures_util::StreamExt;
use futures_util::future::join;
use futures_util::stream::{once, unfold};
use journal::{ReadBudget, RecordId};
use judge::Action;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio::time::timeout;
use utoipa::IntoParams;
use utoipa::openapi::path::{Parameter, ParameterIn};

use super::QueryParams;
use crate::api;
use crate::core::answering::answered;
use crate::core::grant::RequestGrant;
use crate::core::node::Node;
use crate::core::peers::RelayedRequest;
use crate::core::problem::{HttpFailure, INVALID_PARAMETER, OVERLOADED, ProblemResponses, shown};

/// Decisions of a page, unless it is asked for fewer or more.
const PAGE: usize = 50;
/// Most decisions of a page.
const PAGE_MAX: usize = 1000;
/// Most facts of a decision that can be chosen.
const FACTS_MAX: usize = 100;
/// Records that are looked at for one page.
const RECORDS: u64 = 1_000_000;
/// The time that is spent on one page. What it does not reach is for the next one.
const PATIENCE: Duration = Duration::from_millis(200);

/// The choice among past decisions: those that have all that is said.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
pub(crate) struct DecisionFilterParams {
    /// Only of this pipeline.
    pub(crate) pipeline: Option<String>,
    /// Only decided at this time or later; a time such as `2026-05-17T10:00:00Z`, heeded to the millisecond.
    pub(crate) from: Option<String>,
    /// Only decided before this time.
    pub(crate) to: Option<String>,
    /// Only with one of these actions, separated by commas.
    pub(crate) action: Option<String>,
    /// Only with this score or a greater one.
    pub(crate) score_from: Option<f64>,
    /// Only with a lower score.
    pub(crate) score_below: Option<f64>,
    /// Only if this rule fired, enforced or in shadow.
    pub(crate) rule: Option<String>,
    /// Only on the event that its caller calls so.
    pub(crate) event_id: Option<String>,
    /// Only on events that have a key of this kind and of `value`.
    pub(crate) kind: Option<String>,
    /// The value, as it stands in events; of a key of several fields a JSON array of theirs.
    pub(crate) value: Option<String>,
    /// Only on events of which a logged text contains this, in capitals or not.
    pub(crate) text: Option<String>,
    /// Only if this condition is true of the logged facts and readings. It is written as the `when` of a rule.
    pub(crate) r#where: Option<String>,
    /// Only if the last judgement has this class.
    pub(crate) label: Option<String>,
    /// `true`: only judged ones; `false`: only others.
    pub(crate) labelled: Option<bool>,
}

/// The page that is asked for.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct DecisionPageParams {
    /// The facts that are shown, separated by commas; `*` for all that have a value.
    pub(crate) facts: Option<String>,
    /// Most decisions of the page, up to 1000; 50 if none is given.
    pub(crate) limit: Option<usize>,
    /// `next` of the page before.
    pub(crate) after: Option<String>,
    /// Only decisions that are newer than the one with this id.
    pub(crate) since: Option<String>,
}

/// A choice among decisions, and what else the query of a URL says. Neither may have what the other does not know.
pub(crate) struct FilterQuery<T>(pub(crate) DecisionFilter, pub(crate) T);

impl<T: DeserializeOwned + IntoParams, S: Send + Sync> FromRequestParts<S> for FilterQuery<T> {
    type Rejection = HttpFailure;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<FilterQuery<T>, HttpFailure> {
        let names = |parameters: Vec<Parameter>| parameters.into_iter().map(|parameter| parameter.name);
        let in_query = || Some(ParameterIn::Query);
        let mut known: Vec<String> = names(DecisionFilterParams::into_params(in_query)).collect();
        known.extend(names(T::into_params(in_query)));
        let QueryParams(given) =
            QueryParams::<BTreeMap<String, String>>::from_request_parts(parts, state).await?;
        if let Some(unknown) = given.keys().find(|name| !known.contains(name)) {
            let detail = format!("query: there is no parameter `{}`", shown(unknown));
            return Err(INVALID_PARAMETER.failure(detail).help(format!("there are {}", known.join(", "))));
        }
        let QueryParams(filter) =
            QueryParams::<DecisionFilterParams>::from_request_parts(parts, state).await?;
        let QueryParams(others) = QueryParams::<T>::from_request_parts(parts, state).await?;
        Ok(FilterQuery(filter.read()?, others))
    }
}

/// Reads a time of a parameter.
pub(super) fn time(name: &str, text: Option<String>) -> Result<Option<Time>, HttpFailure> {
    let time = text.map(|text| text.parse::<Time>()).transpose();
    time.map_err(|error| INVALID_PARAMETER.failure(format!("{name}: {error}")))
}

/// Reads the id of a decision that a parameter has.
fn id(name: &str, text: Option<String>) -> Result<Option<RecordId>, HttpFailure> {
    let id = text.map(|text| text.parse::<RecordId>()).transpose();
    id.map_err(|error| INVALID_PARAMETER.failure(format!("{name}: {error}")))
}

/// The parts of a text between commas.
fn parts(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').map(str::trim).filter(|part| !part.is_empty())
}

impl DecisionFilterParams {
    /// Reads the filter.
    ///
    /// # Errors
    /// If a text says nothing, or two things at once.
    pub(crate) fn read(self) -> Result<DecisionFilter, HttpFailure> {
        let (from, to) = (time("from", self.from)?, time("to", self.to)?);
        if from.zip(to).is_some_and(|(from, to)| from >= to) {
            return Err(INVALID_PARAMETER.failure("to: it is not after `from`"));
        }
        let actions = self.action.as_deref().map(|text| parts(text).map(str::parse::<Action>).collect());
        let actions: Result<Vec<Action>, _> = actions.unwrap_or_else(|| Ok(Vec::new()));
        let actions = actions
            .map_err(|error| INVALID_PARAMETER.failure(format!("action: {}", shown(&error.to_string()))))?;
        let key = match (self.kind, self.value) {
            (Some(kind), Some(value)) => Some(KeyChoice { kind, value }),
            (None, None) => None,
            _ => return Err(INVALID_PARAMETER.failure("kind, value: expected both or neither")),
        };
        let label = match (self.label, self.labelled) {
            (Some(class), None | Some(true)) => Some(LabelFilter::Class(class)),
            (Some(_), Some(false)) => {
                return Err(INVALID_PARAMETER.failure("label, labelled: what is not judged has no label"));
            }
            (None, Some(true)) => Some(LabelFilter::Labelled),
            (None, Some(false)) => Some(LabelFilter::Unlabelled),
            (None, None) => None,
        };
        Ok(DecisionFilter {
            from,
            to,
            pipeline: self.pipeline,
            actions,
            score_from: self.score_from,
            score_below: self.score_below,
            rule: self.rule,
            event_id: self.event_id,
            key,
            text: self.text.filter(|text| !text.is_empty()),
            condition: self.r#where.filter(|text| !text.trim().is_empty()),
            label,
        })
    }
}

/// Reads decisions with as much work as one request may be.
pub(super) fn bounded<T>(
    is_over: &(dyn Fn() -> bool + Sync),
    read: impl FnOnce(&mut ReadBudget<'_>) -> T,
) -> T {
    let end = Instant::now() + PATIENCE;
    let is_over = || is_over() || Instant::now() >= end;
    read(&mut ReadBudget { records: RECORDS, is_over: &is_over })
}

/// Looks up a page, in a place for searches, with as much work as one request may be.
pub(super) async fn page(node: &Arc<Node>, query: DecisionQuery) -> Result<DecisionPage, HttpFailure> {
    let engine = Arc::clone(&node.engine);
    let work = move |is_over: &(dyn Fn() -> bool + Sync)| {
        bounded(is_over, |budget| engine.search_decisions(&query, budget))
    };
    Ok(node.searches.run(node.timeout() / 2, work).await??)
}

/// Lists past decisions, newest first. `partial` means that the request read its limit before it found enough: continue
/// with `after`.
///
/// Each decision is on one page; those made after the first page are on none.
#[utoipa::path(
    get,
    path = "/v1/decisions",
    tag = "feedback",
    operation_id = "decisions",
    params(DecisionFilterParams, DecisionPageParams),
    responses((status = 200, description = "A page of decisions", body = api::DecisionPageJson), ProblemResponses),
)]
pub(crate) async fn list(
    State(node): State<Arc<Node>>,
    relayed: Option<Extension<RelayedRequest>>,
    FilterQuery(filter, params): FilterQuery<DecisionPageParams>,
) -> Result<Json<api::DecisionPageJson>, HttpFailure> {
    let page = match relayed {
        Some(_) => own_page(&node, filter, params).await?,
        None => page_of_all(&node, filter, params).await?,
    };
    Ok(Json(page))
}

/// Lists past decisions of all nodes.
pub(crate) async fn page_of_all(
    node: &Arc<Node>,
    filter: DecisionFilter,
    params: DecisionPageParams,
) -> Result<api::DecisionPageJson, HttpFailure> {
    let limit = params.limit.unwrap_or(PAGE);
    let DecisionPageParams { facts, after, since, .. } = &params;
    let asked =
        [("facts", facts), ("after", after), ("since", since)].map(|(name, text)| (name, text.clone()));
    let asked = asked.into_iter().chain([("limit", Some(limit.to_string()))]);
    let target = target("/v1/decisions", filter_pairs(&filter).chain(asked));
    let own = own_page(node, filter, params).await?;
    // What is wrong with a query was said before others are asked.
    let (others, absent) = answers_of_others(node, &target).await;
    Ok(merged(std::iter::once(own).chain(others).collect(), absent, limit))
}

/// Asks the other nodes that share this one's statistics. Returns their answers, and the names of those that give none.
pub(super) async fn answers_of_others<T: DeserializeOwned>(
    node: &Node,
    target: &str,
) -> (Vec<T>, Vec<String>) {
    let (mut answers, mut absent) = (Vec::new(), Vec::new());
    for (name, answer) in node.ask_others(target).await {
        match answer.and_then(|answer| answer.json()) {
            Ok(answer) => answers.push(answer),
            Err(_) => absent.push(name),
        }
    }
    (answers, absent)
}

/// A parameter of a query, if it is given.
pub(super) type QueryPair = (&'static str, Option<String>);

/// The target that asks another node for what parameters say.
pub(super) fn target(path: &str, pairs: impl Iterator<Item = QueryPair>) -> String {
    let given: Vec<(&str, String)> = pairs.filter_map(|(name, text)| Some((name, text?))).collect();
    // Pairs of texts are always written.
    format!("{path}?{}", serde_urlencoded::to_string(given).unwrap_or_default())
}

/// The parameters that say a filter, as [`DecisionFilterParams`] reads them.
fn filter_pairs(filter: &DecisionFilter) -> impl Iterator<Item = QueryPair> + use<> {
    let DecisionFilter {
        from,
        to,
        pipeline,
        actions,
        score_from,
        score_below,
        rule,
        event_id,
        key,
        text,
        condition,
        label,
    } = filter;
    let actions = actions.iter().map(|action| action.name()).collect::<Vec<_>>().join(",");
    let (class, labelled) = match label {
        None => (None, None),
        Some(LabelFilter::Class(class)) => (Some(class.clone()), None),
        Some(LabelFilter::Labelled) => (None, Some(true)),
        Some(LabelFilter::Unlabelled) => (None, Some(false)),
    };
    let pairs = [
        ("pipeline", pipeline.clone()),
        ("from", from.map(|time| time.to_string())),
        ("to", to.map(|time| time.to_string())),
        ("action", Some(actions).filter(|actions| !actions.is_empty())),
        ("score_from", score_from.map(|score| score.to_string())),
        ("score_below", score_below.map(|score| score.to_string())),
        ("rule", rule.clone()),
        ("event_id", event_id.clone()),
        ("kind", key.as_ref().map(|key| key.kind.clone())),
        ("value", key.as_ref().map(|key| key.value.clone())),
        ("text", text.clone()),
        ("where", condition.clone()),
        ("label", class),
        ("labelled", labelled.map(|is_labelled: bool| is_labelled.to_string())),
    ];
    pairs.into_iter()
}

/// Lists past decisions of this node.
async fn own_page(
    node: &Arc<Node>,
    filter: DecisionFilter,
    params: DecisionPageParams,
) -> Result<api::DecisionPageJson, HttpFailure> {
    let limit = params.limit.unwrap_or(PAGE);
    if !(1..=PAGE_MAX).contains(&limit) {
        return Err(INVALID_PARAMETER.failure(format!("limit: expected 1 to {PAGE_MAX}")));
    }
    if let Some(name) = &filter.pipeline {
        node.pipeline(Some(name))?;
    }
    let facts = selection(params.facts.as_deref())?;
    let (below, above) = (id("after", params.after)?, id("since", params.since)?);
    let page = page(node, DecisionQuery { filter, facts, below, above, limit }).await?;
    Ok(api::DecisionPageJson::from(&page))
}

/// Makes one page of those of several nodes, the newest first. It ends where the first node has looked no further.
fn merged(pages: Vec<api::DecisionPageJson>, absent: Vec<String>, limit: usize) -> api::DecisionPageJson {
    let id = |text: &str| text.parse::<RecordId>().unwrap_or(RecordId(0));
    let mut next = pages.iter().filter_map(|page| page.next.as_deref().map(id)).max();
    let mut partial = pages.iter().any(|page| page.partial);
    let labels_from = pages.iter().filter_map(|page| page.labels_from).max_by_key(|time| time.0);
    let looked_at = pages.iter().map(|page| page.looked_at).sum();
    let damaged = pages.iter().map(|page| page.damaged).sum();
    let mut decisions: Vec<_> = pages.into_iter().flat_map(|page| page.decisions).collect();
    decisions.retain(|decision| next.is_none_or(|next| id(&decision.id) >= next));
    decisions.sort_by_key(|decision| std::cmp::Reverse(id(&decision.id)));
    if decisions.len() > limit {
        decisions.truncate(limit);
        next = decisions.last().map(|decision| id(&decision.id));
    }
    partial &= next.is_some() && decisions.len() < limit;
    let next = next.map(|next| next.to_string());
    api::DecisionPageJson { decisions, next, partial, labels_from, looked_at, damaged, absent }
}

/// Reads the facts that are to be shown.
fn selection(facts: Option<&str>) -> Result<FactSelection, HttpFailure> {
    Ok(match facts.map(str::trim) {
        None | Some("") => FactSelection::None,
        Some("*") => FactSelection::All,
        Some(names) => {
            let names: Vec<String> = parts(names).map(str::to_owned).collect();
            if names.len() > FACTS_MAX {
                let detail = format!("facts: expected {FACTS_MAX} names at most, or `*`");
                return Err(INVALID_PARAMETER.failure(detail));
            }
            FactSelection::Named(names)
        }
    })
}

/// The facts of a stream of decisions.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct DecisionStreamParams {
    /// The facts that are shown, separated by commas; `*` for all that have a value.
    facts: Option<String>,
}

/// The longest silence of a stream, after which a comment says that it goes on.
const SILENCE: Duration = Duration::from_secs(15);
/// The time after which a stream ends and its client asks again, as browsers do by themselves: a token that was taken away
/// shows nothing any more.
const STREAM_MAX: Duration = Duration::from_secs(600);
/// The time after which a stream sees that the node is ending.
const TICK: Duration = Duration::from_millis(500);

/// Streams decisions as they are made, as server-sent events named `decision`. Ends after ten minutes; at most 16 clients
/// at once.
///
/// The data is a decision as lists have it. A slow client loses decisions; an event `lost` in their place tells how many,
/// whether they fit the filter or not. `GET /v1/decisions` with `since` has what was missed.
#[utoipa::path(
    get,
    path = "/v1/decisions/stream",
    tag = "feedback",
    operation_id = "decisions_stream",
    params(DecisionFilterParams, DecisionStreamParams),
    responses(
        (status = 200, description = "Events, without end", body = String, content_type = "text/event-stream"),
        ProblemResponses,
    ),
)]
pub(super) async fn stream(
    State(node): State<Arc<Node>>,
    FilterQuery(filter, params): FilterQuery<DecisionStreamParams>,
) -> Result<Response, HttpFailure> {
    let facts = params.facts;
    event_stream(&node, filter, facts.as_deref(), |decision| {
        serde_json::to_string(decision).unwrap_or_default()
    })
}

/// Shows decisions as they are made, each as the text that `shown` makes of it.
pub(crate) fn event_stream(
    node: &Arc<Node>,
    filter: DecisionFilter,
    facts: Option<&str>,
    shown: fn(&api::ListedDecisionJson) -> String,
) -> Result<Response, HttpFailure> {
    if filter.from.is_some() || filter.to.is_some() || filter.label.is_some() {
        let detail = "from, to, label, labelled: not for decisions as they are made";
        return Err(INVALID_PARAMETER
            .failure(detail)
            .help("`GET /v1/decisions` has what was decided before"));
    }
    if let Some(name) = &filter.pipeline {
        node.pipeline(Some(name))?;
    }
    let watch = node.engine.watch_decisions(filter, selection(facts)?)?;
    let watch = watch.ok_or_else(|| {
        OVERLOADED.failure(format!("{WATCHERS_MAX} watch decisions already")).help("try again later")
    })?;
    let begin = once(ready(": decisions as they are made\n\n".to_owned()));
    let end = Instant::now() + STREAM_MAX;
    let begun = (Arc::clone(node), watch, end, shown);
    let events = begin.chain(unfold(begun, async |(node, mut watch, end, shown)| {
        let event = next_event(&node, &mut watch, end, shown).await?;
        Some((event, (node, watch, end, shown)))
    }));
    let headers = [(header::CONTENT_TYPE, "text/event-stream"), (header::CACHE_CONTROL, "no-store")];
    Ok((headers, Body::from_stream(events.map(Ok::<_, Infallible>))).into_response())
}

/// Waits for the next event, or for a sign of life; `None` where the node is ending, or the stream's time is over.
async fn next_event(
    node: &Node,
    watch: &mut DecisionWatch,
    end: Instant,
    shown: fn(&api::ListedDecisionJson) -> String,
) -> Option<String> {
    let mut silence = Duration::ZERO;
    while !node.is_stopping() && Instant::now() < end {
        match timeout(TICK, watch.next()).await {
            Ok(WatchedEvent::Decision(decision)) => {
                let decision = api::ListedDecisionJson::from(&*decision);
                let data = shown(&decision);
                return Some(format!("event: decision\nid: {}\ndata: {data}\n\n", decision.id));
            }
            Ok(WatchedEvent::Lost(lost)) => return Some(format!("event: lost\ndata: {lost}\n\n")),
            Err(_) => silence += TICK,
        }
        if silence >= SILENCE {
            return Some(": nothing new\n\n".to_owned());
        }
    }
    None
}

/// The statistics that are asked for.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct StatisticsParams {
    /// The width of a bin of scores; 0.5 if none is given.
    pub(crate) bin: Option<f64>,
    /// The action of a band whose line is to be moved to `at`.
    pub(crate) line: Option<String>,
    /// The score at which that band would begin.
    pub(crate) at: Option<f64>,
}

/// Query parameters of facts in common: those of the filter alone.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct CommonFactsParams {}

/// Finds facts that the matching decisions of all nodes share and other decisions lack: values at least twice as frequent, each with a condition
/// for a rule. Compares the newest 500 matching decisions of a pipeline with as many before `from`, or before the oldest of
/// them.
///
/// One request reads a bounded amount, as for lists.
#[utoipa::path(
    get,
    path = "/v1/decisions/common",
    tag = "feedback",
    operation_id = "decisions_common",
    params(DecisionFilterParams, CommonFactsParams),
    responses((status = 200, description = "The facts", body = api::CommonFactsJson), ProblemResponses),
)]
pub(super) async fn common(
    State(node): State<Arc<Node>>,
    relayed: Option<Extension<RelayedRequest>>,
    FilterQuery(filter, CommonFactsParams {}): FilterQuery<CommonFactsParams>,
) -> Result<Json<api::CommonFactsJson>, HttpFailure> {
    match relayed {
        Some(_) => own_common(&node, filter).await.map(Json),
        None => common_of_all(&node, filter).await.map(Json),
    }
}

/// Finds out what decisions of all nodes have in common.
pub(crate) async fn common_of_all(
    node: &Arc<Node>,
    filter: DecisionFilter,
) -> Result<api::CommonFactsJson, HttpFailure> {
    let pairs: Vec<QueryPair> = filter_pairs(&filter).filter(|(name, _)| *name != "pipeline").collect();
    let wanted = filter.pipeline.clone();
    let mut all = own_common(node, filter).await?;
    // Without a pipeline it is that of the newest decision, which other nodes may see otherwise.
    let pipeline = wanted.or_else(|| Some(all.pipeline.clone()).filter(|name| !name.is_empty()));
    let target = target("/v1/decisions/common", pairs.into_iter().chain([("pipeline", pipeline)]));
    let (others, absent) = answers_of_others(node, &target).await;
    others.into_iter().for_each(|other| all.add(other));
    Ok(api::CommonFactsJson { absent, ..all })
}

/// Finds out what decisions of this node have in common.
async fn own_common(node: &Arc<Node>, filter: DecisionFilter) -> Result<api::CommonFactsJson, HttpFailure> {
    if let Some(name) = &filter.pipeline {
        node.pipeline(Some(name))?;
    }
    let engine = Arc::clone(&node.engine);
    let work = move |is_over: &(dyn Fn() -> bool + Sync)| {
        bounded(is_over, |budget| engine.common_facts(filter, budget))
    };
    let found = node.searches.run(node.timeout() / 2, work).await??;
    Ok(api::CommonFactsJson::from(&found))
}

/// The time that is spent on statistics.
const STATISTICS_PATIENCE: Duration = Duration::from_secs(2);
/// The time that is spent on statistics for another node, which waits for all.
const RELAYED_PATIENCE: Duration = Duration::from_millis(500);

/// Statistics of a pipeline's past decisions on all nodes (default: the first pipeline): by action, rule, label and score, with
/// what moving a band would change. Reads from the newest back, for at most two seconds on this node and half a second on
/// others; `reached` is the time up to which all nodes have read.
///
/// Few such calls run at once, and their place rests after each for as long as it took.
#[utoipa::path(
    get,
    path = "/v1/decisions/statistics",
    tag = "feedback",
    operation_id = "decisions_statistics",
    params(DecisionFilterParams, StatisticsParams),
    responses((status = 200, description = "What they come to", body = api::DecisionStatisticsJson), ProblemResponses),
)]
pub(super) async fn statistics(
    State(node): State<Arc<Node>>,
    relayed: Option<Extension<RelayedRequest>>,
    FilterQuery(filter, params): FilterQuery<StatisticsParams>,
) -> Result<Json<api::DecisionStatisticsJson>, HttpFailure> {
    let made = match relayed {
        Some(_) => {
            let query = statistics_query(&node, filter, params)?;
            let made = own_statistics(&node, query, RELAYED_PATIENCE, StatisticsAge::Recent).await?;
            api::DecisionStatisticsJson::from(&*made)
        }
        None => statistics_of_all(&node, filter, params, STATISTICS_PATIENCE, StatisticsAge::New).await?,
    };
    Ok(Json(made))
}

/// The age that statistics may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StatisticsAge {
    /// Statistics made for this request.
    New,
    /// Statistics that may have been made a moment ago.
    Recent,
}

/// Statistics of past decisions of all nodes, read for so long at most on this one.
pub(crate) async fn statistics_of_all(
    node: &Arc<Node>,
    filter: DecisionFilter,
    params: StatisticsParams,
    patience: Duration,
    age: StatisticsAge,
) -> Result<api::DecisionStatisticsJson, HttpFailure> {
    let StatisticsParams { bin, line, at } = &params;
    let number = |number: &Option<f64>| number.map(|number| number.to_string());
    let asked = [("bin", number(bin)), ("line", line.clone()), ("at", number(at))];
    let pairs = filter_pairs(&filter);
    let query = statistics_query(node, filter, params)?;
    let pipeline = node.pipeline(query.filter.pipeline.as_deref())?.name.clone();
    // The first pipeline of another node may be another one.
    let pairs = pairs.filter(|(name, _)| *name != "pipeline").chain([("pipeline", Some(pipeline))]);
    let target = target("/v1/decisions/statistics", pairs.chain(asked));
    let (own, (others, absent)) =
        join(own_statistics(node, query, patience, age), answers_of_others(node, &target)).await;
    let mut all = api::DecisionStatisticsJson::from(&*own?);
    others.into_iter().for_each(|other| all.add(other));
    Ok(api::DecisionStatisticsJson { absent, ..all })
}

/// Statistics of past decisions of this node.
async fn own_statistics(
    node: &Arc<Node>,
    query: StatisticsQuery,
    patience: Duration,
    age: StatisticsAge,
) -> Result<Arc<DecisionStatistics>, HttpFailure> {
    let engine = Arc::clone(&node.engine);
    let make = move |query: &StatisticsQuery, is_over: &(dyn Fn() -> bool + Sync)| {
        engine.decision_statistics(query, &mut ReadBudget { records: u64::MAX, is_over })
    };
    match age {
        StatisticsAge::Recent => answered(node, |node| &node.statistics, query, patience, make).await,
        StatisticsAge::New => {
            let work = move |is_over: &(dyn Fn() -> bool + Sync)| {
                let begun = Instant::now();
                make(&query, &|| is_over() || begun.elapsed() >= patience)
            };
            Ok(Arc::new(node.scans.run(node.timeout() / 2, work).await??))
        }
    }
}

/// Reads what statistics are asked for.
fn statistics_query(
    node: &Node,
    filter: DecisionFilter,
    params: StatisticsParams,
) -> Result<StatisticsQuery, HttpFailure> {
    // What a condition or a text chooses tells what events say.
    if let (true, Some(grant)) =
        (filter.text.is_some() || filter.condition.is_some(), RequestGrant::current())
    {
        grant.check_scope(AccessScope::ReadContent)?;
    }
    let bin = params.bin.unwrap_or(0.5);
    if !(0.001..=1000.0).contains(&bin) {
        return Err(INVALID_PARAMETER.failure("bin: expected 0.001 to 1000"));
    }
    let line = match (params.line, params.at) {
        (None, None) => None,
        (Some(action), Some(at)) if at.is_finite() => {
            let action = action.parse::<Action>();
            let action = action
                .map_err(|error| INVALID_PARAMETER.failure(format!("line: {}", shown(&error.to_string()))))?;
            let pipeline = node.pipeline(filter.pipeline.as_deref())?;
            if !pipeline.rules.bands().as_slice().iter().any(|band| band.action == action) {
                let detail = format!("line: the pipeline `{}` has no band `{action}`", pipeline.name);
                return Err(INVALID_PARAMETER.failure(detail));
            }
            Some((action, at))
        }
        _ => return Err(INVALID_PARAMETER.failure("line, at: expected both or neither")),
    };
    Ok(StatisticsQuery { filter, bin, line })
}

/// The counts that are asked for.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct CountParams {
    /// The pipeline; the first of the configuration if none is named.
    pipeline: Option<String>,
    /// From this time on, such as `2026-05-17T10:00:00Z`; an hour, or 24 of a wider bucket, before the end if it is not said.
    from: Option<String>,
    /// Up to this time; now if it is not said.
    to: Option<String>,
    /// The width of a bucket: whole minutes that an hour has room for, of which a day is kept, or whole hours, of which 60 days
    /// are; `1m` if it is not said.
    width: Option<String>,
    /// Rules whose counts are shown, separated by commas; `*` for all.
    rules: Option<String>,
}

/// Decisions over time on all nodes, by action, label and, on request, rule. A crash loses the last minute of a node.
#[utoipa::path(
    get,
    path = "/v1/counts",
    tag = "statistics",
    operation_id = "counts",
    params(CountParams),
    responses((status = 200, description = "The counts", body = api::DecisionCountsJson), ProblemResponses),
)]
pub(super) async fn counts(
    State(node): State<Arc<Node>>,
    relayed: Option<Extension<RelayedRequest>>,
    QueryParams(params): QueryParams<CountParams>,
) -> Result<Json<api::DecisionCountsJson>, HttpFailure> {
    let pipeline = node.pipeline(params.pipeline.as_deref())?;
    let width = params.width.map_or(Ok(Span::minutes(1)), |text| text.parse::<Span>());
    let width = width.map_err(|error| INVALID_PARAMETER.failure(format!("width: {error}")))?;
    let to = time("to", params.to)?.unwrap_or_else(|| node.now() + Span(1));
    let usual = if width < Span::hours(1) { Span::hours(1) } else { Span(width.0.saturating_mul(24)) };
    let from = time("from", params.from)?.unwrap_or(Time(to.0.saturating_sub(usual.0)));
    if from >= to {
        return Err(INVALID_PARAMETER.failure("to: it is not after `from`"));
    }
    let rules = params.rules.unwrap_or_default();
    let series = node.engine.decision_series(&pipeline.name, from, to, width);
    let series = series.map_err(|error| INVALID_PARAMETER.failure(format!("width: {error}")))?;
    let is_shown = |rule: &str| rules.trim() == "*" || parts(&rules).any(|wanted| wanted == rule);
    let mut counts = api::DecisionCountsJson::new(&series, is_shown);
    if relayed.is_none() {
        let asked = [
            ("pipeline", Some(pipeline.name.clone())),
            ("from", Some(from.to_string())),
            ("to", Some(to.to_string())),
            ("width", Some(width.to_string())),
            ("rules", Some(rules).filter(|rules| !rules.is_empty())),
        ];
        let (others, absent) = answers_of_others(&node, &target("/v1/counts", asked.into_iter())).await;
        others.into_iter().for_each(|other| counts.add(other));
        counts.absent = absent;
    }
    Ok(Json(counts))
}
