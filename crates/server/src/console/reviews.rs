//! The queue of reviews: what people are to look at, with what the event says and what can be done at once.

use std::time::Duration;

use axum::extract::{Path, State};
use axum::response::Response;
use engine::ReviewVerdict;
use maud::{Markup, html};
use serde::Deserialize;
use serde_json::Value;
use tokio::time::{Instant, timeout_at};

use super::decisions::{absent, fact_of, usual};
use super::format::{CELL, ago, distance, inside, is_default, number, plain, points, url, value};
use super::frame::{ConsoleSection, secret};
use super::texts::{fill, t, word};
use super::visit::{ConsoleVisit, PageFailure};
use crate::api::{ExplanationJson, PipelineJson, ReviewJson, ReviewKeyJson};
use crate::core::grant::note;
use crate::core::problem::HttpFailure;
use crate::core::viewer::ViewerRight;
use crate::protocol::http::reviews::{self, ReviewListParams};
use crate::protocol::http::{QueryParams, feedback, node};

/// The states that can be chosen; the first is all that wait.
const STATES: [&str; 5] = ["", "open", "claimed", "escalated", "decided"];
/// The orders that can be chosen; the first is the usual one.
const ORDERS: [&str; 2] = ["exposed", "oldest"];
/// Reviews of a page, each with what its event says.
const SHOWN: usize = 20;
/// Facts of an event that are shown.
const FACTS: usize = 8;
/// Rules that are shown.
const RULES: usize = 4;
/// Keys that others share.
const KEYS: usize = 6;

/// A part of the queue in an order, and the reviewer where nobody has logged in by name.
#[derive(Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct QueueQuery {
    state: String,
    pipeline: String,
    rule: String,
    pub(super) sort: String,
    by: String,
    after: String,
}

impl QueueQuery {
    /// Reads the parameters of a page. A person who has logged in reviews under no other name.
    pub(super) fn read(visit: &ConsoleVisit) -> Result<QueueQuery, HttpFailure> {
        let mut query: QueueQuery = visit.query()?;
        if visit.viewer.person().is_some() {
            query.by.clear();
        }
        Ok(query)
    }

    /// The parameters that are not empty, but for the place in the list.
    pub(super) fn params(&self) -> Vec<(&'static str, &str)> {
        let all = [
            ("state", self.state.as_str()),
            ("pipeline", &self.pipeline),
            ("rule", &self.rule),
            ("sort", &self.sort),
            ("by", &self.by),
        ];
        all.into_iter().map(|(name, text)| (name, text.trim())).filter(|(_, text)| !text.is_empty()).collect()
    }

    /// The address of the queue.
    pub(super) fn url(&self) -> String {
        url("/console/reviews", &self.params())
    }

    /// The address of a review.
    pub(super) fn review_url(&self, id: &str) -> String {
        url(&format!("/console/reviews/{}", plain(id, CELL)), &self.params())
    }

    /// The address that leads on from a review to the next that waits.
    pub(super) fn next_url(&self, id: &str) -> String {
        let mut params = vec![("id", id)];
        params.extend(self.params());
        url("/console/reviews/next", &params)
    }

    /// The parameters of the route.
    pub(super) fn asked(&self, limit: usize) -> ReviewListParams {
        let some = |text: &str| Some(text.trim().to_owned()).filter(|text| !text.is_empty());
        ReviewListParams {
            pipeline: some(&self.pipeline),
            state: some(&self.state),
            rule: some(&self.rule),
            sort: Some(some(&self.sort).unwrap_or_else(|| ORDERS[0].to_owned())),
            limit: Some(limit),
            after: some(&self.after),
            ..ReviewListParams::default()
        }
    }

    /// Returns the query for what waits.
    pub(super) fn waiting(self) -> QueueQuery {
        let state = if self.state == "decided" { String::new() } else { self.state };
        QueueQuery { state, after: String::new(), ..self }
    }

    /// Returns the reviewer's name; empty if none is known.
    pub(super) fn reviewer(&self, visit: &ConsoleVisit) -> String {
        reviewer(visit, &self.by)
    }
}

/// Returns the reviewer: the person who has logged in, or else the name that was set.
pub(super) fn reviewer(visit: &ConsoleVisit, by: &str) -> String {
    visit.viewer.person().unwrap_or(by.trim()).to_owned()
}

/// A review's event as far as the viewer may read it, and the keys that it shares.
#[derive(Default)]
pub(super) struct ReviewContext {
    pub(super) event: Option<ExplanationJson>,
    pub(super) keys: Vec<ReviewKeyJson>,
}

impl ReviewContext {
    /// Returns the value of a key, where it is known and may be read.
    pub(super) fn piece(&self, kind: &str, shingle: &str) -> Option<&str> {
        let mut keys = self.event.iter().flat_map(|event| &event.keys);
        keys.find(|key| key.kind == kind && key.shingle == shingle)?.piece.as_deref()
    }
}

/// Looks up what events say, in the order of their ids, for a part of the time of a request: those that are not reached in it are
/// without. The audit log names all whose content is shown.
pub(super) async fn events(visit: &ConsoleVisit, ids: &[&str]) -> Vec<Option<ExplanationJson>> {
    let end = end(visit);
    let mut events = Vec::with_capacity(ids.len());
    for id in ids {
        let found = timeout_at(end, feedback::explained(&visit.node, id, false)).await;
        events.push(found.ok().and_then(Result::ok));
    }
    let shown: Vec<&str> =
        ids.iter().zip(&events).filter(|(_, event)| event.is_some()).map(|(id, _)| *id).collect();
    if !shown.is_empty() && visit.viewer.may(ViewerRight::ReadContent) {
        note("id", shown.join(","));
    }
    events
}

fn end(visit: &ConsoleVisit) -> Instant {
    let part: Duration = visit.node.timeout() / 4;
    Instant::now() + part
}

/// Looks up the events of reviews, and the keys that they share.
async fn contexts(visit: &ConsoleVisit, reviews: &[ReviewJson]) -> Vec<ReviewContext> {
    let ids: Vec<&str> = reviews.iter().map(|review| review.id.as_str()).collect();
    let events = events(visit, &ids).await;
    let end = end(visit);
    let mut contexts = Vec::with_capacity(ids.len());
    for (id, event) in ids.into_iter().zip(events) {
        let review = reviews::review(State(visit.node.clone()), None, Path(id.to_owned()));
        let keys = timeout_at(end, review).await.ok().and_then(Result::ok);
        contexts.push(ReviewContext { event, keys: keys.map(|review| review.0.keys).unwrap_or_default() });
    }
    contexts
}

/// The queue.
pub(super) async fn page(visit: ConsoleVisit) -> Result<Response, PageFailure> {
    let query = QueueQuery::read(&visit)?;
    let page = reviews::list(State(visit.node.clone()), None, QueryParams(query.asked(SHOWN))).await?.0;
    let pipelines = node::pipelines(State(visit.node.clone())).await.0.pipelines;
    let contexts = contexts(&visit, &page.reviews).await;
    let by = query.reviewer(&visit);
    let frame = visit.frame(t("reviews.title"), ConsoleSection::Reviews);
    Ok(frame.page(&html! {
        div.head {
            h1 { (t("reviews.title")) }
            nav.tabs aria-label=(t("reviews.states")) {
                @for one in STATES {
                    @let of_state = QueueQuery { state: one.to_owned(), ..query.clone() };
                    a href=(of_state.url()) aria-current=[(one == query.state).then_some("true")] { (state(one)) }
                }
                a href=(url("/console/reviews/agreement", &pipeline_of(&query))) { (t("reviews.agreement")) }
            }
            (choice(&visit, &query, &pipelines))
        }
        (absent(&page.absent))
        @if page.reviews.is_empty() {
            div.empty { p { (t("reviews.none")) } p.dim { (t("reviews.none_help")) } }
        } @else {
            @if by.is_empty() && visit.viewer.may(ViewerRight::Teach) { p.dim { (t("reviews.name_needed")) } }
            ul.queue { @for (review, context) in page.reviews.iter().zip(&contexts) {
                li.item { (item(&visit, &query, review, context, &pipelines)) }
            } }
        }
        @if let Some(next) = &page.next {
            @let mut params = query.params();
            @let () = params.push(("after", next));
            p { a.button href=(url("/console/reviews", &params)) { (t("common.more")) } }
        }
    }))
}

fn state(state: &str) -> String {
    word("review_state", if state.is_empty() { "waiting" } else { state })
}

fn pipeline_of(query: &QueueQuery) -> Vec<(&'static str, &str)> {
    query.params().into_iter().filter(|(name, _)| *name == "pipeline").collect()
}

/// The form that chooses a part of the queue, and the reviewer's name where nobody has logged in by name.
fn choice(visit: &ConsoleVisit, query: &QueueQuery, pipelines: &[PipelineJson]) -> Markup {
    html! {
        form.look action="/console/reviews" aria-label=(t("reviews.choice")) {
            input type="hidden" name="state" value=(query.state);
            div.row {
                select name="pipeline" aria-label=(t("common.pipeline")) {
                    option value="" selected[query.pipeline.is_empty()] { (t("decisions.all_pipelines")) }
                    @for pipeline in pipelines { option value=(pipeline.name) selected[pipeline.name == query.pipeline] { (pipeline.name) } }
                }
                input name="rule" value=(query.rule) maxlength="256" aria-label=(t("decisions.rule")) placeholder=(t("decisions.rule")) autocomplete="off" spellcheck="false";
                select name="sort" aria-label=(t("reviews.order")) {
                    @for order in ORDERS { option value=(order) selected[order == query.sort] { (word("review_order", order)) } }
                }
                button type="submit" { (t("reviews.show")) }
            }
            @match visit.viewer.person() {
                Some(person) => { p.dim { (t("reviews.you_are")) " " (value(person, CELL)) } }
                None => {
                    label for="by" { (t("reviews.by")) }
                    div.row {
                        input #by name="by" value=(query.by) maxlength="256" autocomplete="username" spellcheck="false";
                        button type="submit" { (t("reviews.set_name")) }
                    }
                }
            }
        }
    }
}

/// A review in the queue.
fn item(
    visit: &ConsoleVisit,
    query: &QueueQuery,
    review: &ReviewJson,
    context: &ReviewContext,
    pipelines: &[PipelineJson],
) -> Markup {
    let back = query.url();
    html! {
        p { a.row-link href=(query.review_url(&review.id)) { code { (plain(&review.id, CELL)) } } " " (standing(visit, review)) }
        (rules(review, context.event.as_ref()))
        @match &context.event {
            Some(event) => { (facts(visit, event, pipelines)) (super::preview::excerpts(visit, event)) }
            None => { p.dim { (t("reviews.no_event")) } }
        }
        (shared(query, review, context))
        (history(visit, review))
        (actions(visit, query, review, &back, &back))
    }
}

/// The state of a review, in one line.
pub(super) fn standing(visit: &ConsoleVisit, review: &ReviewJson) -> Markup {
    let now = visit.now;
    let is_late = review.verdict.is_none() && review.due.0 < now;
    html! {
        span.badge.(review.action.name()) { (word("action", review.action.name())) } " "
        span.tag { (state(&review.state)) } " "
        span.dim { (review.pipeline) " · " (distance(review.time.0, now)) " · " (t("decision.score")) " " (points(review.score)) " · " (t("reviews.exposure")) " " (points(review.exposure)) }
        @if is_late { " " span.tag.late { (fill("reviews.late", &[("ago", &ago(review.due.0, now))])) } }
    }
}

/// The rules that fired, with what they are about.
fn rules(review: &ReviewJson, event: Option<&ExplanationJson>) -> Markup {
    html! {
        @if !review.rules.is_empty() {
            ul.plain.fired {
                @for rule in review.rules.iter().take(RULES) {
                    li {
                        a.rule href=(url("/console/rules", &[("pipeline", &review.pipeline), ("rule", rule)])) { (value(rule, CELL)) }
                        @if let Some(text) = event.and_then(|event| event.rules.get(rule)).filter(|text| !text.is_empty()) { " " (value(&inside(text), CELL)) }
                    }
                }
                @if review.rules.len() > RULES { li.dim { "+" (review.rules.len() - RULES) } }
            }
        }
    }
}

/// The facts that tell most of an event.
fn facts(visit: &ConsoleVisit, event: &ExplanationJson, pipelines: &[PipelineJson]) -> Markup {
    let usual = usual(pipelines, &event.pipeline);
    let tells = |(_, fact): &(&String, &Value)| !is_default(fact);
    let mut found: Vec<(&String, &Value)> =
        usual.split(',').filter_map(|name| event.facts.get_key_value(name)).filter(tells).collect();
    if found.is_empty() {
        // What was read of keys is called as rules call it.
        found =
            event.facts.iter().filter(tells).filter(|(name, _)| !name.contains('(')).take(FACTS).collect();
    }
    html! {
        @if !found.is_empty() {
            p.event { @for (name, fact) in found { (fact_of(visit, name, fact)) " " } }
        }
    }
}

/// The keys that others share which wait, with the way to decide these alike.
fn shared(query: &QueueQuery, review: &ReviewJson, context: &ReviewContext) -> Markup {
    let mut shared: Vec<&ReviewKeyJson> = context.keys.iter().filter(|key| key.waiting > 1).collect();
    shared.sort_by_key(|key| std::cmp::Reverse(key.waiting));
    shared.truncate(KEYS);
    html! {
        @if !shared.is_empty() {
            p.chips {
                @for (index, key) in shared.iter().enumerate() {
                    @let waits = fill("reviews.wait", &[("n", &number(key.waiting as u64))]);
                    @match context.piece(&key.kind, &key.shingle) {
                        Some(piece) => {
                            a.button.chip href=(alike_url(query, &review.pipeline, &key.kind, piece, &review.id)) data-key=[(index == 0).then_some("a")] {
                                span.dim { (key.kind) } " " (value(piece, CELL / 4)) " · " (waits)
                            }
                        }
                        None => { span.dim { (key.kind) " · " (waits) } }
                    }
                }
            }
        }
    }
}

/// The address of the page on which all are decided that share a key.
pub(super) fn alike_url(query: &QueueQuery, pipeline: &str, kind: &str, piece: &str, review: &str) -> String {
    let mut params = vec![("pipeline", pipeline), ("kind", kind), ("value", piece), ("review", review)];
    params.extend(query.params().into_iter().filter(|(name, _)| *name == "by"));
    url("/console/reviews/alike", &params)
}

/// The work of people on a review up to now.
pub(super) fn history(visit: &ConsoleVisit, review: &ReviewJson) -> Markup {
    let now = visit.now;
    html! {
        @if let Some(claim) = &review.claim { p.dim { (t("reviews.claimed_by")) " " (value(&claim.by, CELL)) ", " (t("reviews.until")) " " (distance(claim.until.0, now)) } }
        @if let Some(escalation) = &review.escalation {
            p { (t("reviews.escalated")) " " @if let Some(by) = &escalation.by { (value(by, CELL)) ": " } (value(&escalation.why, CELL * 4)) " " span.dim { (distance(escalation.time.0, now)) } }
        }
        @for vote in &review.votes { p { (value(&vote.by, CELL)) ": " b { (word("verdict", vote.verdict.name())) } " " span.dim { (distance(vote.time.0, now)) } } }
        @for comment in &review.comments { p { span.dim { (value(&comment.by, CELL)) ", " (distance(comment.time.0, now)) ": " } (value(&comment.text, CELL * 8)) } }
        @if let Some(verdict) = review.verdict {
            p { (t("reviews.decided")) " " b { (word("verdict", verdict.name())) } @if let Some(decided) = review.decided { " " span.dim { (distance(decided.0, now)) } } }
        }
    }
}

/// The forms that do something with a review; a vote leads to `decided`, all else to `back`.
pub(super) fn actions(
    visit: &ConsoleVisit,
    query: &QueueQuery,
    review: &ReviewJson,
    decided: &str,
    back: &str,
) -> Markup {
    let by = query.reviewer(visit);
    if by.is_empty() || !visit.viewer.may(ViewerRight::Teach) {
        return html! {};
    }
    let at = |step: &str| format!("/console/reviews/{}/{step}", plain(&review.id, CELL));
    let fields = |next: &str| {
        html! {
            (secret(&visit.viewer))
            @if visit.viewer.person().is_none() { input type="hidden" name="by" value=(by); }
            input type="hidden" name="next" value=(next);
        }
    };
    let is_own = review.claim.as_ref().is_some_and(|claim| claim.by == plan::reporter(&by));
    html! {
        div.buttons {
            @if review.verdict.is_none() {
                form.buttons method="post" action=(at("decide")) {
                    (fields(decided))
                    @for verdict in ReviewVerdict::ALL {
                        @let (key, text) = button(verdict);
                        button class=[(verdict == ReviewVerdict::Refuse).then_some("danger")] type="submit" name="verdict" value=(verdict.name()) data-key=(key) { (t(text)) " " kbd aria-hidden="true" { (key) } }
                    }
                }
                @if is_own {
                    form method="post" action=(at("release")) { (fields(back)) button type="submit" data-key="r" { (t("reviews.release")) " " kbd aria-hidden="true" { "r" } } }
                } @else if review.claim.is_none() {
                    form method="post" action=(at("claim")) { (fields(back)) button type="submit" data-key="c" { (t("reviews.claim")) " " kbd aria-hidden="true" { "c" } } }
                }
            }
        }
        @for (step, key, text, label) in [("escalate", "e", "reviews.escalate", "reviews.why"), ("comment", "m", "reviews.comment", "reviews.text")] {
            @if step == "comment" || review.verdict.is_none() {
                details.act {
                    summary data-key=(key) { (t(text)) " " kbd aria-hidden="true" { (key) } }
                    form.stacked method="post" action=(at(step)) {
                        (fields(back))
                        label { (t(label)) textarea name="text" rows="2" maxlength="1000" required {} }
                        div.buttons { button type="submit" { (t(text)) } }
                    }
                }
            }
        }
    }
}

/// The key and the text of a verdict's button.
fn button(verdict: ReviewVerdict) -> (&'static str, &'static str) {
    match verdict {
        ReviewVerdict::Publish => ("p", "reviews.publish"),
        ReviewVerdict::Refuse => ("x", "reviews.refuse"),
    }
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
