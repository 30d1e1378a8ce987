//! The page of a review: the event, those that share something with it, and what reviewers do, one review after the other.

use axum::extract::{Path, State};
use axum::response::Response;
use engine::ReviewVerdict;
use journal::RecordId;
use maud::{Markup, html};
use plan::ReviewPlan;
use serde::Deserialize;

use super::decision::under_review;
use super::format::{CELL, number, plain, time, value};
use super::frame::{ConsoleSection, done, redirect};
use super::reviews::{QueueQuery, ReviewContext, actions, alike_url, history, reviewer, standing};
use super::texts::{fill, t};
use super::visit::{ConsoleForm, ConsoleVisit, PageFailure, next_page};
use crate::api::{ReviewDecisionJson, ReviewJson, ReviewTextJson, ReviewerJson};
use crate::core::problem::{INVALID_BODY, NOT_FOUND};
use crate::core::viewer::ViewerRight;
use crate::protocol::http::{JsonBody, QueryParams, feedback, node, reviews};

/// Reviews among which the next is sought.
const SOUGHT: usize = 500;

/// The page.
pub(super) async fn page(Path(id): Path<String>, visit: ConsoleVisit) -> Result<Response, PageFailure> {
    let query = QueueQuery::read(&visit)?;
    let review = reviews::review(State(visit.node.clone()), None, Path(id)).await?.0;
    let event = feedback::explained(&visit.node, &review.id, false).await;
    let pipelines = node::pipelines(State(visit.node.clone())).await.0.pipelines;
    let pipeline = pipelines.into_iter().find(|pipeline| pipeline.name == review.pipeline);
    let title = fill("review.title", &[("id", &plain(&review.id, CELL))]);
    let (head, findings) = match &event {
        Ok(event) => under_review(&visit, &review.id, event, pipeline.as_ref()),
        Err(failure) => {
            let why = plain(&failure.problem().detail, CELL * 2);
            (html! { div.head { h1 { (title) } p.dim { (why) } } }, html! {})
        }
    };
    let context = ReviewContext { event: event.ok(), keys: review.keys.clone() };
    let next = query.next_url(&review.id);
    let frame = visit.frame(title, ConsoleSection::Reviews);
    Ok(frame.page(&html! {
        p.crumbs {
            a href=(query.url()) { (t("review.queue")) }
            a href=(next) data-key="n" { (t("review.next")) " " kbd aria-hidden="true" { "n" } }
        }
        (head)
        div.columns {
            div.main {
                section.card.review data-row="" aria-label=(t("review.work")) {
                    p { (standing(&visit, &review)) }
                    @if query.reviewer(&visit).is_empty() && visit.viewer.may(ViewerRight::Teach) { p.dim { (t("review.name_needed")) " " a href=(query.url()) { (t("review.queue")) } } }
                    (history(&visit, &review))
                    (actions(&visit, &query, &review, &next, &query.review_url(&review.id)))
                }
                (shared(&query, &review, &context))
                (findings)
            }
            aside aria-label=(t("review.about")) { (about(&visit, &review)) }
        }
    }))
}

/// The keys of the event, with the number of reviews that share each.
fn shared(query: &QueueQuery, review: &ReviewJson, context: &ReviewContext) -> Markup {
    html! {
        @if !context.keys.is_empty() {
            section {
                h2 #shared { (t("review.shared")) }
                div.scroll tabindex="0" role="region" aria-labelledby="shared" { table.rows {
                    thead { tr {
                        th scope="col" { (t("keys.kind")) }
                        th scope="col" { (t("keys.value")) }
                        th.number scope="col" { (t("review.waiting")) }
                    } }
                    tbody { @for key in &context.keys { tr {
                        td.dim { (key.kind) }
                        @match context.piece(&key.kind, &key.shingle) {
                            Some(piece) => {
                                td { a href=(alike_url(query, &review.pipeline, &key.kind, piece, &review.id)) { (value(piece, CELL / 2)) } }
                            }
                            None => { td { span.dim title=(t("keys.hashed_help")) { code { (plain(&key.shingle, CELL)) } } } }
                        }
                        td.number { (number(key.waiting as u64)) }
                    } } }
                } }
            }
        }
    }
}

fn about(visit: &ConsoleVisit, review: &ReviewJson) -> Markup {
    html! {
        section.card {
            h2 { (t("review.about")) }
            dl.stack {
                @if let Some(id) = &review.event_id { dt { (t("decision.event_id")) } dd { (value(id, CELL)) } }
                dt { (t("review.due")) } dd { (time(review.due.0, visit.now)) }
                dt { (t("review.decision")) } dd { a href={ "/console/decisions/" (plain(&review.id, CELL)) } { code { (plain(&review.id, CELL)) } } }
                dt { (t("decision.elsewhere")) } dd { code { "tollhouse reviews show " (plain(&review.id, CELL)) } }
            }
        }
    }
}

/// The review that one goes on from, and what was done with it.
#[derive(Default, Deserialize)]
#[serde(default)]
struct NextQuery {
    id: String,
    done: Option<String>,
}

/// Leads on to the next review that waits for the reviewer: behind this one in the order, or else the first; to the queue if none
/// does.
pub(super) async fn next(visit: ConsoleVisit) -> Result<Response, PageFailure> {
    let query = QueueQuery::read(&visit)?.waiting();
    let NextQuery { id, done: said } = visit.query()?;
    let list = reviews::list(State(visit.node.clone()), None, QueryParams(query.asked(SOUGHT))).await?.0;
    let this = reviews::review(State(visit.node.clone()), None, Path(id)).await.ok().map(|review| review.0);
    let plan = visit.node.engine.plan();
    let by = plan::reporter(&query.reviewer(&visit));
    let is_other = |review: &&ReviewJson| this.as_ref().is_none_or(|this| this.id != review.id);
    let waiting: Vec<&ReviewJson> = list
        .reviews
        .iter()
        .filter(is_other)
        .filter(|review| waits_for(review, &by, &plan.node.review))
        .collect();
    let is_behind = |review: &&&ReviewJson| {
        this.as_ref().is_some_and(|this| {
            let id = |review: &ReviewJson| review.id.parse::<RecordId>().ok();
            let order = match query.sort.as_str() {
                "oldest" => std::cmp::Ordering::Equal,
                _ => this.exposure.total_cmp(&review.exposure),
            };
            order.then_with(|| id(review).cmp(&id(this))).is_gt()
        })
    };
    let next = waiting.iter().find(is_behind).or(waiting.first());
    let page = next.map_or_else(|| query.url(), |review| query.review_url(&review.id));
    Ok(redirect(
        &match said.filter(|said| said.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')) {
            Some(said) => done(&page, &said, 0),
            None => page,
        },
    ))
}

/// Returns whether a reviewer could vote on a review now. Nobody in particular could vote on all.
fn waits_for(review: &ReviewJson, by: &str, plan: &ReviewPlan) -> bool {
    let has_voted = review.votes.iter().any(|vote| vote.by == by);
    let is_free = review.claim.as_ref().is_none_or(|claim| claim.by == by);
    let may_vote = match (&review.escalation, plan.leads.is_empty()) {
        (Some(_), false) => plan.leads.iter().any(|lead| lead == by),
        _ => !has_voted,
    };
    by.is_empty() || is_free && may_vote
}

/// The form of something that a reviewer does.
#[derive(Deserialize)]
pub(super) struct ReviewForm {
    #[serde(default)]
    by: String,
    verdict: Option<ReviewVerdict>,
    text: Option<String>,
    next: Option<String>,
}

/// Does what a reviewer wants to do with a review.
pub(super) async fn act(
    Path((id, step)): Path<(String, String)>,
    ConsoleForm { visit, form }: ConsoleForm<ReviewForm>,
) -> Result<Response, PageFailure> {
    visit.need(ViewerRight::Teach)?;
    let ReviewForm { by, verdict, text, next } = form;
    let by = reviewer(&visit, &by);
    let (node, id) = (State(visit.node.clone()), Path(id));
    let said = match (step.as_str(), verdict, text) {
        ("decide", Some(verdict), _) => {
            let vote = ReviewDecisionJson { by, verdict, class: None };
            let reviewed = reviews::decide(node, None, id, JsonBody(vote)).await?.0;
            match (reviewed.feedback_error, reviewed.review.state.as_str()) {
                (Some(_), _) => "vote_unheard",
                (None, "decided") => "reviewed",
                (None, "escalated") => "vote_differs",
                _ => "voted",
            }
        }
        ("claim", ..) => {
            let _ = reviews::claim(node, None, id, JsonBody(ReviewerJson { by })).await?;
            "claimed"
        }
        ("release", ..) => {
            let _ = reviews::release(node, None, id, JsonBody(ReviewerJson { by })).await?;
            "released"
        }
        ("escalate", _, Some(text)) => {
            let _ = reviews::escalate(node, None, id, JsonBody(ReviewTextJson { by, text })).await?;
            "escalated"
        }
        ("comment", _, Some(text)) => {
            let _ = reviews::comment(node, None, id, JsonBody(ReviewTextJson { by, text })).await?;
            "commented"
        }
        ("decide" | "escalate" | "comment", ..) => return Err(INVALID_BODY.failure(t("error.form")).into()),
        _ => return Err(NOT_FOUND.failure(t("error.nowhere")).into()),
    };
    Ok(redirect(&done(&next_page(next), said, 0)))
}
