//! The page on which all reviews are decided that share a key: first which these would be, then what became of each.

use axum::extract::State;
use axum::response::Response;
use engine::ReviewVerdict;
use maud::{Markup, html};
use serde::Deserialize;

use super::format::{CELL, number, plain, time, url, value};
use super::frame::{ConsoleSection, secret};
use super::reviews::{reviewer, standing};
use super::texts::{counted, t, word};
use super::visit::{ConsoleForm, ConsoleVisit, PageFailure};
use crate::api::{ReviewsDecisionJson, ReviewsOutcomeJson};
use crate::core::problem::HttpFailure;
use crate::core::viewer::ViewerRight;
use crate::protocol::http::{JsonBody, reviews};

/// Reviews that are decided at once.
const AT_ONCE: usize = 200;

/// A key, the verdict on all that have it, and the review from which one came.
#[derive(Clone, Deserialize)]
pub(super) struct AlikeForm {
    pipeline: String,
    kind: String,
    value: String,
    #[serde(default = "refuse")]
    verdict: ReviewVerdict,
    #[serde(default)]
    by: String,
    #[serde(default)]
    review: String,
    /// True if what was accepted without a review is meant, too.
    #[serde(default)]
    published: bool,
}

fn refuse() -> ReviewVerdict {
    ReviewVerdict::Refuse
}

impl AlikeForm {
    /// The address of the page, with another verdict.
    fn url(&self, verdict: ReviewVerdict) -> String {
        let mut params = vec![
            ("pipeline", self.pipeline.as_str()),
            ("kind", &self.kind),
            ("value", &self.value),
            ("verdict", verdict.name()),
            ("review", &self.review),
        ];
        if !self.by.is_empty() {
            params.push(("by", &self.by));
        }
        if self.published {
            params.push(("published", "true"));
        }
        url("/console/reviews/alike", &params)
    }

    /// The addresses that lead back: to the review, and to the queue.
    fn back(&self, visit: &ConsoleVisit) -> Markup {
        let by: Vec<(&str, &str)> = match visit.viewer.person() {
            None if !self.by.is_empty() => vec![("by", &self.by)],
            _ => Vec::new(),
        };
        html! {
            p.crumbs {
                a href=(url("/console/reviews", &by)) { (t("review.queue")) }
                @if self.review.parse::<journal::RecordId>().is_ok() {
                    a href=(url(&format!("/console/reviews/{}", self.review), &by)) { code { (self.review) } }
                }
            }
        }
    }

    fn title(&self) -> Markup {
        html! { h1 { (t("alike.title")) " " span.dim { (plain(&self.kind, CELL)) } " " (value(&self.value, CELL)) } }
    }

    async fn decide(&self, visit: &ConsoleVisit, dry_run: bool) -> Result<ReviewsOutcomeJson, HttpFailure> {
        let asked = ReviewsDecisionJson {
            pipeline: Some(self.pipeline.clone()).filter(|name| !name.is_empty()),
            kind: self.kind.clone(),
            value: self.value.clone(),
            by: reviewer(visit, &self.by),
            verdict: self.verdict,
            class: None,
            limit: Some(AT_ONCE),
            dry_run,
            published: self.published,
        };
        Ok(reviews::decide_alike(State(visit.node.clone()), JsonBody(asked)).await?.0)
    }

    /// The fields of a form that has the key and the reviewer.
    fn fields(&self) -> Markup {
        html! {
            @for (name, text) in [("pipeline", &self.pipeline), ("kind", &self.kind), ("value", &self.value), ("review", &self.review)] {
                input type="hidden" name=(name) value=(text);
            }
            @if self.published { input type="hidden" name="published" value="true"; }
        }
    }
}

/// Shows which reviews would be decided.
pub(super) async fn page(visit: ConsoleVisit) -> Result<Response, PageFailure> {
    visit.need(ViewerRight::Teach)?;
    let asked: AlikeForm = visit.query()?;
    let frame = visit.frame(t("alike.title"), ConsoleSection::Reviews);
    if reviewer(&visit, &asked.by).is_empty() {
        return Ok(frame.page(&html! {
            (asked.back(&visit))
            (asked.title())
            form.look action="/console/reviews/alike" {
                (asked.fields())
                input type="hidden" name="verdict" value=(asked.verdict.name());
                label for="by" { (t("reviews.by")) }
                div.row {
                    input #by name="by" maxlength="256" required autocomplete="username" spellcheck="false";
                    button type="submit" { (t("reviews.set_name")) }
                }
            }
        }));
    }
    let outcome = asked.decide(&visit, true).await?;
    let count = (outcome.reviews.len() + outcome.published.as_ref().map_or(0, Vec::len)) as u64;
    let other = AlikeForm { published: !asked.published, ..asked.clone() };
    Ok(frame.page(&html! {
        (asked.back(&visit))
        div.head {
            (asked.title())
            nav.tabs aria-label=(t("alike.verdicts")) { @for verdict in ReviewVerdict::ALL {
                a href=(asked.url(verdict)) aria-current=[(verdict == asked.verdict).then_some("true")] { (word("verdict", verdict.name())) }
            } }
        }
        p { a href=(other.url(asked.verdict)) { (if asked.published { t("alike.without_published") } else { t("alike.with_published") }) } }
        @if count == 0 {
            div.empty { p { (t("alike.none")) } p.dim { (t("alike.none_help")) } }
        } @else {
            section data-row="" aria-label=(t("alike.decide")) {
                form.buttons method="post" action="/console/reviews/alike" {
                    (secret(&visit.viewer))
                    (asked.fields())
                    @if visit.viewer.person().is_none() { input type="hidden" name="by" value=(asked.by); }
                    button class=(if asked.verdict == ReviewVerdict::Refuse { "danger" } else { "primary" })
                        type="submit" name="verdict" value=(asked.verdict.name()) data-key=(if asked.verdict == ReviewVerdict::Refuse { "x" } else { "p" }) {
                        @match asked.verdict {
                            ReviewVerdict::Publish if asked.published => { (counted("alike.publish_with", "alike.publish_with", count)) }
                            ReviewVerdict::Refuse if asked.published => { (counted("alike.refuse_with", "alike.refuse_with", count)) }
                            ReviewVerdict::Publish => { (counted("alike.publish_one", "alike.publish", count)) }
                            ReviewVerdict::Refuse => { (counted("alike.refuse_one", "alike.refuse", count)) }
                        }
                    }
                    @if outcome.more { span.dim { (t("alike.more")) } }
                }
            }
        }
        (listed(&visit, &outcome, "alike.would"))
    }))
}

/// Decides them, and shows what became of each.
pub(super) async fn decide(
    ConsoleForm { visit, form }: ConsoleForm<AlikeForm>,
) -> Result<Response, PageFailure> {
    visit.need(ViewerRight::Teach)?;
    let outcome = form.decide(&visit, false).await?;
    let frame = visit.frame(t("alike.title"), ConsoleSection::Reviews);
    Ok(frame.page(&html! {
        (form.back(&visit))
        (form.title())
        p.notice role="status" { (word("verdict", form.verdict.name())) ": " (counted("alike.taken_one", "alike.taken", outcome.reviews.len() as u64)) }
        @if outcome.more { p { a.button href=(form.url(form.verdict)) { (t("alike.go_on")) } } }
        (listed(&visit, &outcome, "alike.took"))
    }))
}

/// The reviews, and those that are passed over, with the reasons.
fn listed(visit: &ConsoleVisit, outcome: &ReviewsOutcomeJson, title: &'static str) -> Markup {
    let link =
        |id: &str| html! { a href={ "/console/reviews/" (plain(id, CELL)) } { code { (plain(id, CELL)) } } };
    html! {
        @if !outcome.reviews.is_empty() {
            section {
                h2 { (t(title)) " " span.dim { (number(outcome.reviews.len() as u64)) } }
                ul.plain { @for review in &outcome.reviews { li {
                    (link(&review.id)) " " (standing(visit, review)) " "
                    span.dim { @for (index, rule) in review.rules.iter().take(4).enumerate() { @if index > 0 { ", " } (value(rule, CELL / 2)) } }
                } } }
            }
        }
        @if let Some(published) = outcome.published.as_ref().filter(|published| !published.is_empty()) {
            section {
                h2 { (t("alike.published")) " " span.dim { (number(published.len() as u64)) } }
                ul.plain { @for event in published { li {
                    a href={ "/console/decisions/" (plain(&event.id, CELL)) } { code { (plain(&event.id, CELL)) } } " "
                    (time(event.time.0, visit.now))
                    @if let Some(name) = &event.event_id { " " (value(name, CELL)) }
                } } }
            }
        }
        @for node in &outcome.absent { p.notice { (t("alike.absent")) " " (value(node, CELL)) } }
        @if !outcome.passed_over.is_empty() {
            section {
                h2 { (t("alike.passed")) " " span.dim { (number(outcome.passed_over.len() as u64)) } }
                ul.plain { @for passed in &outcome.passed_over { li { (link(&passed.id)) " " (value(&passed.why, CELL * 2)) } } }
            }
        }
    }
}
