//! The queue of reviews: listed, claimed, decided one by one or by what they share, escalated and commented on.

use std::str::FromStr;
use std::sync::Arc;
use std::time::Instant;

use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::Method;
use axum::{Extension, Json};
use engine::{
    DecisionFilter, KeyChoice, REVIEW_TEXT_BYTES_MAX, ReviewCursor, ReviewError, ReviewFilter, ReviewInput,
    ReviewItem, ReviewOrder, ReviewState,
};
use event::Key;
use journal::RecordId;
use judge::Action;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::runtime::Handle;
use utoipa::IntoParams;

use super::decisions::DecisionPageParams;
use super::feedback::{FeedbackItem, record_id, reporter};
use super::{JsonBody, QueryParams, decisions, feedback};
use crate::api::{self, PassedReviewJson, ReviewJson, ReviewKeyJson, ReviewedJson};
use crate::core::grant::note;
use crate::core::node::Node;
use crate::core::peers::{NodeRequest, RelayedRequest};
use crate::core::problem::{HttpFailure, INVALID_PARAMETER, ProblemResponses, shown};

/// Reviews of a page, unless it is asked for fewer or more.
const PAGE: usize = 50;
/// Most reviews of a page.
const PAGE_MAX: usize = 500;
/// Reviews that are decided as one, unless fewer or more are asked for.
const ALIKE: usize = 100;
/// Most reviews that are decided as one.
const ALIKE_MAX: usize = 1000;

/// The choice among reviews, their order, and the page.
#[derive(Debug, Default, Deserialize, Serialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ReviewListParams {
    /// Only of this pipeline.
    pub(crate) pipeline: Option<String>,
    /// Only in this state: `open`, `claimed`, `escalated` or `decided`; without it all that are not decided.
    pub(crate) state: Option<String>,
    /// Only those for which this rule fired.
    pub(crate) rule: Option<String>,
    /// Only with this action: `review_before` or `review_after`.
    pub(crate) action: Option<String>,
    /// Only those that have a key of this kind and of `value`.
    pub(crate) kind: Option<String>,
    /// The value, as it stands in events.
    pub(crate) value: Option<String>,
    /// Only of the event that its caller calls so.
    pub(crate) event_id: Option<String>,
    /// The order: `oldest` first, or the most `exposed` first.
    pub(crate) sort: Option<String>,
    /// Most reviews of the page, up to 500; 50 if none is given.
    pub(crate) limit: Option<usize>,
    /// `next` of the page before.
    pub(crate) after: Option<String>,
}

/// Returns the one of some words that is meant.
fn word<T: Copy>(name: &str, text: &str, words: &[(&str, T)]) -> Result<T, HttpFailure> {
    let known = words.iter().find(|(word, _)| *word == text);
    known.map(|(_, meant)| *meant).ok_or_else(|| {
        let words: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
        let detail = format!("{name}: expected one of {}, not `{}`", words.join(", "), shown(text));
        INVALID_PARAMETER.failure(detail)
    })
}

fn cursor(text: &str) -> Result<ReviewCursor, HttpFailure> {
    let read = || {
        let (rank, id) = text.split_once('-')?;
        Some(ReviewCursor { rank: u64::from_str_radix(rank, 16).ok()?, id: RecordId::from_str(id).ok()? })
    };
    read().ok_or_else(|| INVALID_PARAMETER.failure("after: expected `next` of another page"))
}

/// Returns the id of a review, and notes it for the audit log.
fn review_id(text: &str) -> Result<RecordId, HttpFailure> {
    let id = record_id(text)?;
    note("id", id.to_string());
    Ok(id)
}

/// Returns the reviewer's name as names are compared, and notes it for the audit log.
fn reviewer(by: String) -> Result<String, HttpFailure> {
    // Those are one who are one as reporters: names differ by more than by capitals.
    let by = reporter(Some(by))?.unwrap_or_default();
    let by = plan::reporter(&by);
    note("reviewer", by.clone());
    Ok(by)
}

fn text(text: String) -> Result<String, HttpFailure> {
    match text.trim() {
        "" => Err(INVALID_PARAMETER.failure("text: is empty")),
        _ if text.len() > REVIEW_TEXT_BYTES_MAX => {
            Err(INVALID_PARAMETER.failure(format!("text: has more than {REVIEW_TEXT_BYTES_MAX} bytes")))
        }
        _ => Ok(text),
    }
}

fn shown_review(node: &Node, item: &ReviewItem) -> ReviewJson {
    ReviewJson::new(item, &node.engine.plan().node.review, node.now())
}

/// Lists reviews: decisions for people to look at.
#[utoipa::path(
    get,
    path = "/v1/reviews",
    tag = "reviews",
    operation_id = "reviews",
    params(ReviewListParams),
    responses((status = 200, description = "A page of reviews", body = api::ReviewsJson), ProblemResponses),
)]
pub(crate) async fn list(
    State(node): State<Arc<Node>>,
    relayed: Option<Extension<RelayedRequest>>,
    QueryParams(params): QueryParams<ReviewListParams>,
) -> Result<Json<api::ReviewsJson>, HttpFailure> {
    let query = serde_urlencoded::to_string(&params).unwrap_or_default();
    let ReviewListParams { pipeline, state, rule, action, kind, value, event_id, sort, limit, after } =
        params;
    let states = ReviewState::ALL.map(|state| (state.name(), state));
    let state = state.map(|text| word("state", &text, &states)).transpose()?;
    let actions = [Action::ReviewBefore, Action::ReviewAfter].map(|action| (action.name(), action));
    let action = action.map(|text| word("action", &text, &actions)).transpose()?;
    let orders = [("oldest", ReviewOrder::Oldest), ("exposed", ReviewOrder::Exposed)];
    let order = sort.map(|text| word("sort", &text, &orders)).transpose()?.unwrap_or_default();
    let limit = limit.unwrap_or(PAGE);
    if !(1..=PAGE_MAX).contains(&limit) {
        return Err(INVALID_PARAMETER.failure(format!("limit: expected 1 to {PAGE_MAX}")));
    }
    let key = match (kind, value) {
        (Some(kind), Some(value)) => Some(key(&node, pipeline.as_deref(), &kind, &value)?),
        (None, None) => None,
        _ => return Err(INVALID_PARAMETER.failure("kind, value: expected both or neither")),
    };
    if let Some(name) = &pipeline {
        node.pipeline(Some(name))?;
    }
    let after = after.as_deref().map(cursor).transpose()?;
    let filter = ReviewFilter { pipeline, state, rule, action, key, event_id };
    let page = node.engine.reviews().page(&filter, order, after, limit, node.now());
    let place = |item: &ReviewItem| ReviewCursor::of(item, order);
    let own = page.items.iter().map(|item| (place(item), shown_review(&node, item)));
    let own = ReviewsOfNode { reviews: own.collect(), next: page.next };
    if relayed.is_some() {
        let places = own.reviews.iter().map(|(place, _)| shown_cursor(*place)).collect();
        let reviews = own.reviews.into_iter().map(|(_, review)| review).collect();
        let next = own.next.map(shown_cursor);
        return Ok(Json(api::ReviewsJson { reviews, next, absent: Vec::new(), places }));
    }
    let mut pages = vec![own];
    let mut absent = Vec::new();
    for (name, answer) in node.ask_others(&format!("/v1/reviews?{query}")).await {
        match answer.and_then(|answer| ReviewsOfNode::read(answer.json()?)) {
            Ok(page) => pages.push(page),
            Err(_) => absent.push(name),
        }
    }
    let (reviews, next) = merged(pages, limit);
    Ok(Json(api::ReviewsJson { reviews, next: next.map(shown_cursor), absent, places: Vec::new() }))
}

/// A page of one node's reviews, each with its place in the order that all nodes follow.
struct ReviewsOfNode {
    reviews: Vec<(ReviewCursor, ReviewJson)>,
    next: Option<ReviewCursor>,
}

impl ReviewsOfNode {
    fn read(page: api::ReviewsJson) -> Result<ReviewsOfNode, HttpFailure> {
        let api::ReviewsJson { reviews, next, places, .. } = page;
        let places = places.iter().map(|place| cursor(place)).collect::<Result<Vec<_>, _>>()?;
        let next = next.as_deref().map(cursor).transpose()?;
        Ok(ReviewsOfNode { reviews: places.into_iter().zip(reviews).collect(), next })
    }
}

/// Makes one page of those of several nodes. It ends where the first node has looked no further.
fn merged(pages: Vec<ReviewsOfNode>, limit: usize) -> (Vec<ReviewJson>, Option<ReviewCursor>) {
    let mut next = pages.iter().filter_map(|page| page.next).min();
    let mut all: Vec<(ReviewCursor, ReviewJson)> = pages.into_iter().flat_map(|page| page.reviews).collect();
    all.retain(|(place, _)| next.is_none_or(|next| *place <= next));
    all.sort_by_key(|(place, _)| *place);
    if all.len() > limit {
        all.truncate(limit);
        next = all.last().map(|(place, _)| *place);
    }
    (all.into_iter().map(|(_, review)| review).collect(), next)
}

fn shown_cursor(ReviewCursor { rank, id }: ReviewCursor) -> String {
    format!("{rank:x}-{id}")
}

/// Has another node answer for a review that it has; `None` where this node is to answer.
async fn of_owner<T: DeserializeOwned>(
    node: &Node,
    relayed: Option<Extension<RelayedRequest>>,
    id: RecordId,
    step: &str,
    body: Option<&impl Serialize>,
) -> Option<Result<Json<T>, HttpFailure>> {
    if relayed.is_some() || node.engine.reviews().get(id).is_ok() {
        return None;
    }
    let request = NodeRequest {
        method: if body.is_some() { Method::POST } else { Method::GET },
        target: format!("/v1/reviews/{id}{step}"),
        content_type: body.map(|_| "application/json"),
        body: body.and_then(|body| serde_json::to_vec(body).ok()).map_or_else(Bytes::new, Bytes::from),
    };
    let answer = node.ask_owner(id.node(), request).await?;
    Some(answer.and_then(|answer| answer.json()).map(Json))
}

/// The pipeline whose reviewers are compared.
#[derive(Debug, Default, Deserialize, Serialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ReviewAgreementParams {
    /// Only of this pipeline.
    pub(crate) pipeline: Option<String>,
}

/// Compares reviewers over the decided reviews that are kept: votes, outcomes, agreement of pairs with Cohen's kappa, and what
/// was decided both ways.
#[utoipa::path(
    get,
    path = "/v1/reviews/agreement",
    tag = "reviews",
    operation_id = "reviews_agreement",
    params(ReviewAgreementParams),
    responses(
        (status = 200, description = "How reviewers agree", body = api::ReviewAgreementJson),
        ProblemResponses,
    ),
)]
pub(crate) async fn agreement(
    State(node): State<Arc<Node>>,
    relayed: Option<Extension<RelayedRequest>>,
    QueryParams(params): QueryParams<ReviewAgreementParams>,
) -> Result<Json<api::ReviewAgreementJson>, HttpFailure> {
    let query = serde_urlencoded::to_string(&params).unwrap_or_default();
    if let Some(name) = &params.pipeline {
        node.pipeline(Some(name))?;
    }
    let engine = Arc::clone(&node.engine);
    let end = Instant::now() + node.timeout() / 4;
    let work = move |is_over: &(dyn Fn() -> bool + Sync)| {
        let is_over = || is_over() || Instant::now() >= end;
        engine.reviews().agreement(params.pipeline.as_deref(), &is_over)
    };
    let found = node.scans.run(node.timeout() / 2, work).await?;
    let plan = node.engine.plan();
    let own = api::ReviewAgreementJson::new(found, |unequal| {
        let item = node.engine.reviews().get(unequal.refused).ok()?;
        let kinds = &plan.pipeline(Some(&item.pipeline))?.kinds;
        let kind = kinds.iter().find(|kind| kind.kind == unequal.key.kind)?;
        Some((item.pipeline.clone(), kind.name.clone()))
    });
    if relayed.is_some() {
        return Ok(Json(own.for_node()));
    }
    let mut all = own;
    for (name, answer) in node.ask_others(&format!("/v1/reviews/agreement?{query}")).await {
        match answer.and_then(|answer| answer.json()) {
            Ok(other) => all.add(other),
            Err(_) => all.absent.push(name),
        }
    }
    Ok(Json(all.for_callers()))
}

fn key(node: &Node, pipeline: Option<&str>, kind: &str, value: &str) -> Result<Key, HttpFailure> {
    let pipeline = node.pipeline(pipeline)?;
    Ok(node.engine.review_key(&pipeline, kind, value)?)
}

/// A review, with its `verdict` once it is `decided`: poll this for the result.
#[utoipa::path(
    get,
    path = "/v1/reviews/{id}",
    tag = "reviews",
    operation_id = "review",
    params(("id" = String, Path, description = "The decision's id")),
    responses((status = 200, description = "The review", body = api::ReviewJson), ProblemResponses),
)]
pub(crate) async fn review(
    State(node): State<Arc<Node>>,
    relayed: Option<Extension<RelayedRequest>>,
    Path(id): Path<String>,
) -> Result<Json<ReviewJson>, HttpFailure> {
    let id = record_id(&id)?;
    if let Some(answer) = of_owner(&node, relayed, id, "", None::<&()>).await {
        return answer;
    }
    let reviews = node.engine.reviews();
    let item = reviews.get(id)?;
    let plan = node.engine.plan();
    let kinds = plan.pipeline(Some(&item.pipeline)).map(|pipeline| &pipeline.kinds);
    let known = item.keys.iter().filter_map(|(kind, shingle)| {
        let plan = kinds?.iter().find(|plan| plan.kind == *kind)?;
        let key = Key { space: item.space, kind: *kind, shingle: *shingle };
        let waiting = reviews.waiting_with(key, ALIKE_MAX);
        Some(ReviewKeyJson { kind: plan.name.clone(), shingle: shingle.to_string(), waiting })
    });
    Ok(Json(ReviewJson { keys: known.collect(), ..shown_review(&node, &item) }))
}

/// Assigns a review to a reviewer for the `claim` time of `[review]`. Claiming again extends it.
#[utoipa::path(
    post,
    path = "/v1/reviews/{id}/claim",
    tag = "reviews",
    operation_id = "review_claim",
    params(("id" = String, Path, description = "The decision's id")),
    request_body = api::ReviewerJson,
    responses((status = 200, description = "It is the reviewer's", body = api::ReviewJson), ProblemResponses),
)]
pub(crate) async fn claim(
    State(node): State<Arc<Node>>,
    relayed: Option<Extension<RelayedRequest>>,
    Path(id): Path<String>,
    JsonBody(body): JsonBody<api::ReviewerJson>,
) -> Result<Json<ReviewJson>, HttpFailure> {
    let (id, by, plan) = (review_id(&id)?, reviewer(body.by.clone())?, node.engine.plan());
    if let Some(answer) = of_owner(&node, relayed, id, "/claim", Some(&body)).await {
        return answer;
    }
    let item = node.engine.reviews().claim(id, &by, &plan.node.review, node.now()).await?;
    Ok(Json(shown_review(&node, &item)))
}

/// Releases a reviewer's claim.
#[utoipa::path(
    post,
    path = "/v1/reviews/{id}/release",
    tag = "reviews",
    operation_id = "review_release",
    params(("id" = String, Path, description = "The decision's id")),
    request_body = api::ReviewerJson,
    responses((status = 200, description = "It is open again", body = api::ReviewJson), ProblemResponses),
)]
pub(crate) async fn release(
    State(node): State<Arc<Node>>,
    relayed: Option<Extension<RelayedRequest>>,
    Path(id): Path<String>,
    JsonBody(body): JsonBody<api::ReviewerJson>,
) -> Result<Json<ReviewJson>, HttpFailure> {
    let (id, by) = (review_id(&id)?, reviewer(body.by.clone())?);
    if let Some(answer) = of_owner(&node, relayed, id, "/release", Some(&body)).await {
        return answer;
    }
    let item = node.engine.reviews().release(id, &by, node.now()).await?;
    Ok(Json(shown_review(&node, &item)))
}

/// Escalates a review to a lead.
#[utoipa::path(
    post,
    path = "/v1/reviews/{id}/escalate",
    tag = "reviews",
    operation_id = "review_escalate",
    params(("id" = String, Path, description = "The decision's id")),
    request_body = api::ReviewTextJson,
    responses((status = 200, description = "It waits for a lead", body = api::ReviewJson), ProblemResponses),
)]
pub(crate) async fn escalate(
    State(node): State<Arc<Node>>,
    relayed: Option<Extension<RelayedRequest>>,
    Path(id): Path<String>,
    JsonBody(body): JsonBody<api::ReviewTextJson>,
) -> Result<Json<ReviewJson>, HttpFailure> {
    let (id, by, why) = (review_id(&id)?, reviewer(body.by.clone())?, text(body.text.clone())?);
    if let Some(answer) = of_owner(&node, relayed, id, "/escalate", Some(&body)).await {
        return answer;
    }
    let item = node.engine.reviews().escalate(id, &by, &why, node.now()).await?;
    Ok(Json(shown_review(&node, &item)))
}

/// Adds a comment to a review.
#[utoipa::path(
    post,
    path = "/v1/reviews/{id}/comment",
    tag = "reviews",
    operation_id = "review_comment",
    params(("id" = String, Path, description = "The decision's id")),
    request_body = api::ReviewTextJson,
    responses((status = 200, description = "It is added", body = api::ReviewJson), ProblemResponses),
)]
pub(crate) async fn comment(
    State(node): State<Arc<Node>>,
    relayed: Option<Extension<RelayedRequest>>,
    Path(id): Path<String>,
    JsonBody(body): JsonBody<api::ReviewTextJson>,
) -> Result<Json<ReviewJson>, HttpFailure> {
    let (id, by, comment) = (review_id(&id)?, reviewer(body.by.clone())?, text(body.text.clone())?);
    if let Some(answer) = of_owner(&node, relayed, id, "/comment", Some(&body)).await {
        return answer;
    }
    let item = node.engine.reviews().comment(id, &by, &comment, node.now()).await?;
    Ok(Json(shown_review(&node, &item)))
}

/// Records a reviewer's vote on a review, also as feedback. Enough equal votes (`agreement` of `[review]`) decide it, two
/// that differ escalate it, and a repeated vote counts once.
#[utoipa::path(
    post,
    path = "/v1/reviews/{id}/decide",
    tag = "reviews",
    operation_id = "review_decide",
    params(("id" = String, Path, description = "The decision's id")),
    request_body = api::ReviewDecisionJson,
    responses((status = 200, description = "The vote is taken", body = api::ReviewedJson), ProblemResponses),
)]
pub(crate) async fn decide(
    State(node): State<Arc<Node>>,
    relayed: Option<Extension<RelayedRequest>>,
    Path(id): Path<String>,
    JsonBody(body): JsonBody<api::ReviewDecisionJson>,
) -> Result<Json<ReviewedJson>, HttpFailure> {
    let (id, by, now) = (review_id(&id)?, reviewer(body.by.clone())?, node.now());
    note("verdict", body.verdict.to_string());
    if let Some(answer) = of_owner(&node, relayed, id, "/decide", Some(&body)).await {
        return answer;
    }
    let engine = Arc::clone(&node.engine);
    // The decision is read from the journal, which blocks.
    let reviewed = node.lookups.run(node.timeout() / 2, move |_| {
        let vote = ReviewInput { by: &by, verdict: body.verdict, class: body.class.as_deref() };
        Handle::current().block_on(engine.decide_review(id, vote, now))
    });
    Ok(Json(ReviewedJson::new(reviewed.await??, &node.engine.plan().node.review, now)))
}

/// Records a reviewer's vote on all undecided reviews that share a key, such as all posts with a link.
#[utoipa::path(
    post,
    path = "/v1/reviews/decide",
    tag = "reviews",
    operation_id = "reviews_decide",
    request_body = api::ReviewsDecisionJson,
    responses((status = 200, description = "What became of each", body = api::ReviewsOutcomeJson), ProblemResponses),
)]
pub(crate) async fn decide_alike(
    State(node): State<Arc<Node>>,
    JsonBody(body): JsonBody<api::ReviewsDecisionJson>,
) -> Result<Json<api::ReviewsOutcomeJson>, HttpFailure> {
    let api::ReviewsDecisionJson { pipeline, kind, value, by, verdict, class, limit, dry_run, published } =
        body;
    let (by, now) = (reviewer(by)?, node.now());
    let limit = limit.unwrap_or(ALIKE);
    if !(1..=ALIKE_MAX).contains(&limit) {
        return Err(INVALID_PARAMETER.failure(format!("limit: expected 1 to {ALIKE_MAX}")));
    }
    note("kind", kind.clone());
    note("value", value.clone());
    note("verdict", verdict.to_string());
    note("dry_run", dry_run.to_string());
    note("published", published.to_string());
    let key = key(&node, pipeline.as_deref(), &kind, &value)?;
    let vote = ReviewInput { by: &by, verdict, class: class.as_deref() };
    let judged_by = node.pipeline(pipeline.as_deref())?;
    let said = node.engine.review_class(&judged_by, vote)?;
    let found = match (published, said) {
        (false, _) => None,
        (true, Some(class)) => {
            let choice = KeyChoice { kind, value };
            Some(AcceptedEvents::with_key(&node, &judged_by.name, choice, class, limit).await?)
        }
        (true, None) => {
            let detail = format!(
                "published: the pipeline `{}` has no class of feedback that says `{verdict}`",
                judged_by.name
            );
            return Err(INVALID_PARAMETER.failure(detail).help("name one in `[reports]`"));
        }
    };
    let plan = node.engine.plan();
    let review = &plan.node.review;
    let alike = node.engine.reviews().alike(key, (&by, verdict), limit, review, now);
    let more = alike.has_more || found.as_ref().is_some_and(|found| found.has_more);
    let said_by = by.clone();
    let (items, passed_over) = if dry_run {
        (alike.waiting, alike.passed_over)
    } else {
        let engine = Arc::clone(&node.engine);
        let taken = node.lookups.run(node.timeout() / 2, move |_| {
            let vote = ReviewInput { by: &by, verdict, class: class.as_deref() };
            Handle::current().block_on(engine.decide_reviews_alike(alike, vote, now))
        });
        let (reviewed, passed_over) = taken.await?;
        (reviewed.into_iter().map(|taken| taken.item).collect(), passed_over)
    };
    let passed =
        |(id, why): (RecordId, ReviewError)| PassedReviewJson { id: id.to_string(), why: why.to_string() };
    let mut outcome = api::ReviewsOutcomeJson {
        reviews: items.iter().map(|item| ReviewJson::new(item, review, now)).collect(),
        passed_over: passed_over.into_iter().map(passed).collect(),
        published: None,
        absent: Vec::new(),
        more,
    };
    if let Some(found) = found {
        outcome.absent.clone_from(&found.absent);
        let refused = if dry_run { Vec::new() } else { found.give_feedback(&node, said_by).await? };
        let is_taken = |event: &&api::PublishedEventJson| refused.iter().all(|passed| passed.id != event.id);
        outcome.published = Some(found.events.iter().filter(is_taken).cloned().collect());
        outcome.passed_over.extend(refused);
    }
    Ok(Json(outcome))
}

/// Events with a key that were accepted or tagged without a review, and of which the last judgement is not the class that is to be said.
struct AcceptedEvents {
    class: String,
    /// The newest first.
    events: Vec<api::PublishedEventJson>,
    has_more: bool,
    /// The names of nodes that do not answer.
    absent: Vec<String>,
}

impl AcceptedEvents {
    /// Seeks them in the journals of all nodes, for a part of the time that a request has.
    async fn with_key(
        node: &Arc<Node>,
        pipeline: &str,
        key: KeyChoice,
        class: String,
        limit: usize,
    ) -> Result<AcceptedEvents, HttpFailure> {
        let end = Instant::now() + node.timeout() / 4;
        let filter = DecisionFilter {
            pipeline: Some(pipeline.to_owned()),
            actions: vec![Action::Accept, Action::Tag],
            key: Some(key),
            ..DecisionFilter::default()
        };
        let mut found = AcceptedEvents { class, events: Vec::new(), has_more: true, absent: Vec::new() };
        let mut after = None;
        while found.has_more && found.events.len() <= limit && Instant::now() < end {
            let params = DecisionPageParams { facts: None, limit: Some(PAGE_MAX), after, since: None };
            let page = decisions::page_of_all(node, filter.clone(), params).await?;
            let is_meant = |decision: &api::ListedDecisionJson| {
                !decision.duplicate && decision.label.as_ref() != Some(&found.class)
            };
            let meant = page.decisions.into_iter().filter(is_meant);
            found.events.extend(meant.map(|decision| api::PublishedEventJson {
                id: decision.id,
                event_id: decision.event_id,
                time: decision.time,
            }));
            for name in page.absent {
                if !found.absent.contains(&name) {
                    found.absent.push(name);
                }
            }
            found.has_more = page.next.is_some();
            after = page.next;
        }
        found.has_more |= found.events.len() > limit;
        found.events.truncate(limit);
        Ok(found)
    }

    /// Gives the class as feedback on each. Returns those on which it is none, with the reasons.
    async fn give_feedback(
        &self,
        node: &Arc<Node>,
        by: String,
    ) -> Result<Vec<PassedReviewJson>, HttpFailure> {
        let ids: Vec<String> = self.events.iter().map(|event| event.id.clone()).collect();
        let class = self.class.clone();
        let read = move || {
            let item = |id: &String| {
                Ok(FeedbackItem { id: record_id(id)?, class: class.clone(), by: Some(by.clone()) })
            };
            ids.iter().map(item).collect()
        };
        let outcomes = feedback::take_in_all(node, read, false).await?;
        let passed = self.events.iter().zip(outcomes).filter_map(|(event, outcome)| {
            Some(PassedReviewJson { id: event.id.clone(), why: outcome.err()?.detail })
        });
        Ok(passed.collect())
    }
}
