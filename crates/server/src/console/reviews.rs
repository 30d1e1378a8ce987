//! The page of reviews: what people are to look at, decided one by one.

use axum::extract::{Path, State};
use axum::response::Response;
use engine::ReviewVerdict;
use maud::{Markup, html};
use serde::Deserialize;

use super::bans::done;
use super::format::{CELL, ago, distance, number, points, url, value};
use super::frame::{ConsoleSection, redirect, secret};
use super::texts::{fill, t, word};
use super::visit::{ConsoleForm, ConsoleVisit, PageFailure};
use crate::api::{ReviewDecisionJson, ReviewJson};
use crate::core::viewer::ViewerRight;
use crate::protocol::http::reviews::{self, ReviewListParams};
use crate::protocol::http::{JsonBody, QueryParams};

/// The states that can be chosen; the first is all that wait.
const STATES: [&str; 5] = ["", "open", "claimed", "escalated", "decided"];

/// A part of the queue, and who looks at it.
#[derive(Default, Deserialize)]
struct ReviewsQuery {
    #[serde(default)]
    state: String,
    #[serde(default)]
    by: String,
    after: Option<String>,
}

/// The queue.
pub(super) async fn page(visit: ConsoleVisit) -> Result<Response, PageFailure> {
    let ReviewsQuery { state, by, after } = visit.query()?;
    let by = by.trim();
    let asked = ReviewListParams {
        state: (!state.is_empty()).then(|| state.clone()),
        sort: Some("exposed".to_owned()),
        limit: Some(50),
        after,
        ..ReviewListParams::default()
    };
    let page = reviews::list(State(visit.node.clone()), None, QueryParams(asked)).await?.0;
    let at = |state: &str| url("/console/reviews", &[("state", state), ("by", by)]);
    let back = at(&state);
    let frame = visit.frame(t("reviews.title"), ConsoleSection::Reviews);
    Ok(frame.page(&html! {
        div.head {
            h1 { (t("reviews.title")) }
            nav.tabs aria-label=(t("reviews.states")) { @for one in STATES {
                a href=(at(one)) aria-current=[(one == state).then_some("true")] { (word("review_state", if one.is_empty() { "waiting" } else { one })) }
            } }
            form.look action="/console/reviews" {
                input type="hidden" name="state" value=(state);
                label for="by" { (t("reviews.by")) }
                div.row {
                    input #by name="by" value=(by) maxlength="256" autocomplete="username";
                    button type="submit" { (t("reviews.set_name")) }
                }
            }
        }
        @if page.reviews.is_empty() {
            div.empty { p { (t("reviews.none")) } p.dim { (t("reviews.none_help")) } }
        } @else {
            @if by.is_empty() { p.dim { (t("reviews.name_needed")) } }
            ul.queue { @for review in &page.reviews { li.item { (one(&visit, review, by, &back)) } } }
        }
        @if let Some(next) = &page.next {
            p { a.button href=(url("/console/reviews", &[("state", &state), ("by", by), ("after", next)])) { (t("common.more")) } }
        }
    }))
}

fn one(visit: &ConsoleVisit, review: &ReviewJson, by: &str, back: &str) -> Markup {
    let now = visit.now;
    let is_late = review.verdict.is_none() && review.due.0 < now;
    html! {
        p {
            a.row-link href={ "/console/decisions/" (review.id) } { code { (review.id) } } " "
            span.badge.(review.action.name()) { (word("action", review.action.name())) } " "
            span.tag { (word("review_state", &review.state)) } " "
            span.dim { (review.pipeline) " · " (distance(review.time.0, now)) " · " (t("decision.score")) " " (points(review.score)) " · " (t("reviews.exposure")) " " (points(review.exposure)) }
            @if is_late { " " span.tag.late { (fill("reviews.late", &[("ago", &ago(review.due.0, now))])) } }
        }
        p { @for (index, rule) in review.rules.iter().enumerate() { @if index > 0 { ", " } (value(rule, CELL)) } }
        @if let Some(claim) = &review.claim { p.dim { (t("reviews.claimed_by")) " " (value(&claim.by, CELL)) } }
        @if let Some(escalation) = &review.escalation { p { (t("reviews.escalated")) " " (value(&escalation.why, CELL * 4)) } }
        @for said in &review.words { p.dim { (value(&said.by, CELL)) ": " (word("verdict", verdict(said.verdict))) } }
        @for comment in &review.comments { p { span.dim { (value(&comment.by, CELL)) ": " } (value(&comment.text, CELL * 8)) } }
        @if let Some(came) = review.verdict {
            p { b { (word("verdict", verdict(came))) } }
        } @else if !by.is_empty() && visit.viewer.may(ViewerRight::Teach) {
            form.buttons method="post" action={ "/console/reviews/" (review.id) "/decide" } {
                (secret(&visit.viewer))
                input type="hidden" name="by" value=(by);
                input type="hidden" name="next" value=(back);
                button type="submit" name="verdict" value="publish" data-key="p" { (t("reviews.publish")) }
                button.danger type="submit" name="verdict" value="refuse" data-key="x" { (t("reviews.refuse")) }
            }
        }
    }
}

fn verdict(verdict: ReviewVerdict) -> &'static str {
    match verdict {
        ReviewVerdict::Publish => "publish",
        ReviewVerdict::Refuse => "refuse",
    }
}

/// A reviewer's word.
#[derive(Deserialize)]
pub(super) struct ReviewForm {
    by: String,
    verdict: ReviewVerdict,
    next: Option<String>,
}

/// Takes a reviewer's word.
pub(super) async fn decide(
    Path(id): Path<String>,
    ConsoleForm { visit, form }: ConsoleForm<ReviewForm>,
) -> Result<Response, PageFailure> {
    visit.need(ViewerRight::Teach)?;
    let ReviewForm { by, verdict, next } = form;
    let said = ReviewDecisionJson { by, verdict, class: None };
    let _ = reviews::decide(State(visit.node.clone()), None, Path(id), JsonBody(said)).await?;
    Ok(redirect(&done(&super::visit::next_page(next), "reviewed", 0)))
}

/// The reviews that wait, in a few words.
pub(super) fn waiting(visit: &ConsoleVisit) -> Markup {
    let census = visit.node.engine.reviews().census(&visit.node.engine.plan().node.review, visit.now);
    let states = engine::ReviewState::ALL.iter().zip(census.states);
    let open: u64 = states.filter(|(state, _)| state.name() != "decided").map(|(_, count)| count).sum();
    html! {
        a href="/console/reviews" { b.big { (number(open)) } }
        @if census.overdue > 0 { " " span.tag.late { (fill("reviews.overdue", &[("n", &number(census.overdue))])) } }
    }
}
