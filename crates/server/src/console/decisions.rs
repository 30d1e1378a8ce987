//! The page of past decisions: searched, newest first.

use std::collections::BTreeSet;

use axum::extract::State;
use axum::response::Response;
use engine::DecisionFilter;
use event::Span;
use journal::RecordId;
use maud::{Markup, html};
use serde::Deserialize;
use serde_json::Value;

use super::format::{CELL, distance, json, plain, points, time, url, value};
use super::frame::{ConsoleSection, done, redirect, secret};
use super::texts::{counted, fill, t, word};
use super::visit::{ConsoleForm, ConsoleVisit, PageFailure, next_page};
use crate::api::{
    DecisionPageJson, FeedbackJson, ListedDecisionJson, PipelineJson, SearchJson, SearchRequest, TextsJson,
};
use crate::core::problem::HttpFailure;
use crate::core::viewer::ViewerRight;
use crate::protocol::http::decisions::{self, DecisionFilterParams, DecisionPageParams};
use crate::protocol::http::searches::{self, SearchRemovalParams};
use crate::protocol::http::{JsonBody, QueryParams, feedback, node};
use judge::Action;

/// Decisions of a page.
const SHOWN: usize = 50;
/// Facts that are shown of each where none are chosen.
const FACTS: usize = 8;
/// Most names of a sort that browsers are given to complete.
const NAMES: usize = 2000;
/// Lengths of time that can be looked back on.
const BACK: [&str; 5] = ["10m", "1h", "1d", "7d", "30d"];

/// A search as the URL has it. What is empty asks for nothing.
#[derive(Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct DecisionsQuery {
    q: String,
    pipeline: String,
    action: String,
    rule: String,
    kind: String,
    value: String,
    pub(super) r#where: String,
    label: String,
    score_from: String,
    score_below: String,
    last: String,
    /// A day or a moment, in UTC if it has no zone.
    from: String,
    to: String,
    facts: String,
    pub(super) after: String,
}

impl DecisionsQuery {
    /// The parameters that are not empty.
    pub(super) fn params(&self) -> Vec<(&'static str, &str)> {
        let all = [
            ("q", self.q.as_str()),
            ("pipeline", &self.pipeline),
            ("action", &self.action),
            ("rule", &self.rule),
            ("kind", &self.kind),
            ("value", &self.value),
            ("where", &self.r#where),
            ("label", &self.label),
            ("score_from", &self.score_from),
            ("score_below", &self.score_below),
            ("last", &self.last),
            ("from", &self.from),
            ("to", &self.to),
            ("facts", &self.facts),
        ];
        all.into_iter().filter(|(_, value)| !value.trim().is_empty()).collect()
    }

    /// The filter of the search.
    pub(super) fn filter(&self, visit: &ConsoleVisit) -> Result<DecisionFilter, HttpFailure> {
        let back = some(&self.last).and_then(|last| last.parse::<Span>().ok());
        let (label, labelled) = match self.label.as_str() {
            "any" => (None, Some(true)),
            "none" => (None, Some(false)),
            label => (some(label), None),
        };
        let params = DecisionFilterParams {
            pipeline: some(&self.pipeline),
            from: some(&self.from).map(moment).or(back.map(|back| (visit.now - back).to_string())),
            to: some(&self.to).map(moment),
            action: some(&self.action),
            rule: some(&self.rule),
            kind: some(&self.kind),
            value: some(&self.value),
            text: some(&self.q),
            r#where: some(&self.r#where),
            label,
            labelled,
            score_from: score(&self.score_from),
            score_below: score(&self.score_below),
            ..DecisionFilterParams::default()
        };
        params.read()
    }

    /// The facts that are shown: those that were chosen, or else those that tell most.
    pub(super) fn shown_facts(&self, pipelines: &[PipelineJson]) -> String {
        match self.facts.trim() {
            "" => usual(pipelines, &self.pipeline),
            facts => facts.to_owned(),
        }
    }

    async fn page(&self, visit: &ConsoleVisit, facts: String) -> Result<DecisionPageJson, HttpFailure> {
        let page = DecisionPageParams {
            facts: some(&facts),
            limit: Some(SHOWN),
            after: some(&self.after),
            since: None,
        };
        decisions::page_of_all(&visit.node, self.filter(visit)?, page).await
    }
}

/// A text that was typed, if there is any.
fn some(text: &str) -> Option<String> {
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}

/// A time as the search takes it, of one that was typed, which is in UTC if it has no zone.
fn moment(text: String) -> String {
    text.parse::<jiff::civil::DateTime>().map_or(text, |civil| format!("{civil}Z"))
}

/// Reads a score that was typed; a decimal comma is one, too.
fn score(text: &str) -> Option<f64> {
    text.trim().replace(',', ".").replace('−', "-").parse().ok().filter(|score: &f64| score.is_finite())
}

/// The page.
pub(super) async fn page(visit: ConsoleVisit) -> Result<Response, PageFailure> {
    // What is listed shows what events say.
    visit.need(ViewerRight::ReadContent)?;
    let query: DecisionsQuery = visit.query()?;
    let pipelines = node::pipelines(State(visit.node.clone())).await.0.pipelines;
    let searches = searches::searches(State(visit.node.clone())).await.0.searches;
    let facts = query.shown_facts(&pipelines);
    let found = query.page(&visit, facts).await;
    let frame = visit.frame(t("decisions.title"), ConsoleSection::Decisions);
    Ok(frame.page(&html! {
        h1 { (t("decisions.title")) }
        (saved(&visit, &query, &searches))
        (form(&query, &pipelines, "/console/decisions"))
        @if let Ok(found) = &found { (bar(&query, !found.decisions.is_empty())) }
        @match &found {
            Err(failure) => {
                @let problem = failure.problem();
                div.empty role="alert" { p.error { (plain(&problem.detail, CELL * 4)) } @if let Some(help) = &problem.help { p.dim { (plain(help, CELL * 4)) } } }
            }
            Ok(found) => {
                @if found.decisions.is_empty() {
                    div.empty { p { (t("decisions.none")) } @if found.partial { p.dim { (t("decisions.partial")) } } @else { p.dim { (t("decisions.none_help")) } } }
                } @else { (judged_together(&visit, &found.decisions, &pipelines)) }
                (absent(&found.absent))
                @if found.damaged > 0 { p.dim { (counted("decisions.damaged_one", "decisions.damaged", found.damaged)) } }
                @if let Some(next) = &found.next {
                    @let mut params = query.params();
                    @let () = params.push(("after", next));
                    p { a.button href=(url("/console/decisions", &params)) { (t("common.older")) } " " span.dim {
                        (fill("decisions.looked_at", &[("n", &super::format::number(found.looked_at))]))
                        @if let (true, Ok(reached)) = (found.partial, next.parse::<RecordId>()) { ", " (t("decisions.back_to")) " " (time(reached.time(), visit.now)) }
                    } }
                }
            }
        }
    }))
}

/// The tools for the decisions that are seen: follow them, or without scripts look again; take them along as a file.
fn bar(query: &DecisionsQuery, can_follow: bool) -> Markup {
    let params = query.params();
    let with = |path: &str, more: &[(&str, &str)]| url(path, &[&params[..], more].concat());
    // Labels come later, and a stream has no past.
    let is_live = |(name, _): &&(&str, &str)| !["last", "from", "to", "label"].contains(name);
    let live: Vec<(&str, &str)> = params.iter().filter(is_live).copied().collect();
    let follow = (can_follow && query.after.is_empty()).then(|| url("/console/decisions/live", &live));
    html! {
        div.tools {
            a.button href=(with("/console/decisions", &[])) data-follow=[follow] data-label=(t("decisions.follow")) data-pause=(t("decisions.pause")) { (t("decisions.refresh")) }
            a.button href=(with("/console/decisions/common", &[])) { (t("decisions.common")) }
            span.dim #fresh-count data-fresh=(t("decisions.new")) data-lost=(t("decisions.lost")) {}
            span { (t("decisions.export")) ": "
                a href=(with("/console/decisions/export", &[("format", "csv")])) { (t("decisions.csv")) } " · "
                a href=(with("/console/decisions/export", &[("format", "ndjson")])) { (t("decisions.ndjson")) } " · "
                a href=(with("/console/decisions/export", &[("format", "parquet")])) { (t("decisions.parquet")) } }
            span.dim { (t("decisions.export_more")) }
        }
    }
}

/// Names the nodes whose decisions are missing, if there are any.
pub(super) fn absent(nodes: &[String]) -> Markup {
    let names = nodes.iter().map(|name| plain(name, CELL)).collect::<Vec<_>>().join(", ");
    html! { @if !nodes.is_empty() { p.error role="status" { (fill("common.absent", &[("nodes", &names)])) } } }
}

/// The facts that tell most of the events of a pipeline, or of all: the subject of mail, the path of requests, what is counted
/// first.
pub(super) fn usual(pipelines: &[PipelineJson], pipeline: &str) -> String {
    let mut names = BTreeSet::new();
    for one in pipelines.iter().filter(|one| pipeline.is_empty() || one.name == pipeline) {
        let own: Vec<String> = match one.input.as_str() {
            "message" => ["mail.from", "mail.subject", "client.ip"].map(str::to_owned).into(),
            "access-log" => {
                ["client.ip", "http.method", "http.path", "http.status"].map(str::to_owned).into()
            }
            _ => one
                .kinds
                .iter()
                .take(2)
                .flat_map(|kind| match &kind.of {
                    TextsJson::One(field) => vec![field.clone()],
                    TextsJson::Several(fields) => fields.clone(),
                })
                .collect(),
        };
        names.extend(own);
    }
    names.into_iter().take(FACTS).collect::<Vec<_>>().join(",")
}

/// The searches that have a name, and the form that gives this one a name.
fn saved(visit: &ConsoleVisit, query: &DecisionsQuery, searches: &[SearchJson]) -> Markup {
    // A search that is kept looks back from when it is asked for.
    let mut own = query.params();
    own.retain(|(name, _)| !["from", "to"].contains(name));
    let may_save = visit.viewer.may(ViewerRight::Rules);
    let posted = || searches.iter().filter(|search| !search.configured);
    let back = url("/console/decisions", &own);
    html! {
        @if !searches.is_empty() {
            nav.tabs.saved aria-label=(t("decisions.saved")) { @for search in searches {
                @let asks = asks_of(search);
                @let is_this = asks.len() == own.len() && asks.iter().all(|ask| own.contains(ask));
                a href=(url("/console/decisions", &asks)) aria-current=[is_this.then_some("true")] title=(plain(&search.description, CELL * 2)) { (plain(&search.description, CELL / 2)) }
            } }
        }
        @if may_save && (!own.is_empty() || posted().next().is_some()) {
            details.saving {
                summary { (t("decisions.save_title")) }
                @if !own.is_empty() {
                    form.row method="post" action="/console/decisions/save" {
                        (secret(&visit.viewer))
                        @for (name, text) in &own { input type="hidden" name={ "ask." (name) } value=(text); }
                        label { (t("decisions.save_name")) " " input name="name" required maxlength="100" autocomplete="off"; }
                        button type="submit" { (t("decisions.save")) }
                    }
                }
                @if posted().next().is_some() {
                    ul.plain { @for search in posted() { li {
                        form.row method="post" action="/console/decisions/unsave" {
                            (secret(&visit.viewer))
                            input type="hidden" name="name" value=(search.name);
                            input type="hidden" name="next" value=(back);
                            (value(&search.name, CELL)) " "
                            button type="submit" aria-label=(fill("decisions.unsave_one", &[("name", &plain(&search.name, CELL / 2))])) { (t("decisions.unsave")) }
                        }
                    } } }
                }
            }
        }
    }
}

/// The parameters of this page that ask for what a search asks for.
fn asks_of(search: &SearchJson) -> Vec<(&str, &str)> {
    let asks = search.asks.iter();
    asks.map(|(name, text)| (if name == "text" { "q" } else { name.as_str() }, text.as_str())).collect()
}

/// Gives a search a name.
pub(super) async fn save(
    ConsoleForm { visit, form }: ConsoleForm<FormFields>,
) -> Result<Response, PageFailure> {
    visit.need(ViewerRight::Rules)?;
    visit.need(ViewerRight::ReadContent)?;
    let mut wanted = SearchRequest::default();
    let mut params = Vec::new();
    for (name, text) in &form {
        if name == "name" {
            wanted.name = text.trim().to_owned();
        } else if let Some(ask) = name.strip_prefix("ask.") {
            let key = if ask == "q" { "text" } else { ask };
            // Whoever types a score may use a decimal comma.
            let is_score = key.starts_with("score_");
            let text = if is_score {
                score(text).map_or_else(|| text.clone(), |score| score.to_string())
            } else {
                text.clone()
            };
            params.push((ask, text.clone()));
            wanted.asks.insert(key.to_owned(), text);
        }
    }
    let _ = searches::save(State(visit.node.clone()), JsonBody(wanted)).await?;
    let params: Vec<(&str, &str)> = params.iter().map(|(name, text)| (*name, text.as_str())).collect();
    Ok(redirect(&done(&url("/console/decisions", &params), "search_saved", 0)))
}

/// A search whose name is to be forgotten.
#[derive(Deserialize)]
pub(super) struct UnsaveForm {
    name: String,
    next: Option<String>,
}

/// Removes a search that was saved.
pub(super) async fn unsave(
    ConsoleForm { visit, form }: ConsoleForm<UnsaveForm>,
) -> Result<Response, PageFailure> {
    visit.need(ViewerRight::Rules)?;
    visit.need(ViewerRight::ReadContent)?;
    let UnsaveForm { name, next } = form;
    let _ = searches::remove(State(visit.node.clone()), QueryParams(SearchRemovalParams { name })).await?;
    Ok(redirect(&done(&next_page(next), "search_removed", 0)))
}

/// The form of a search, which leads to a page.
pub(super) fn form(query: &DecisionsQuery, pipelines: &[PipelineJson], page: &str) -> Markup {
    let option = |own: &str, chosen: &str, text: String| html! { option value=(own) selected[own == chosen] { (text) } };
    let has_more = [
        &query.rule,
        &query.r#where,
        &query.kind,
        &query.value,
        &query.label,
        &query.facts,
        &query.score_from,
        &query.score_below,
        &query.from,
        &query.to,
    ]
    .iter()
    .any(|text| !text.is_empty());
    let mut classes: Vec<&String> = pipelines.iter().flat_map(|pipeline| &pipeline.feedback).collect();
    classes.sort();
    classes.dedup();
    html! {
        form.search action=(page) role="search" aria-label=(t("decisions.search")) {
            div.row {
                input type="search" name="q" value=(query.q) aria-label=(t("decisions.text")) placeholder=(t("decisions.text")) maxlength="512" spellcheck="false";
                select name="pipeline" aria-label=(t("common.pipeline")) {
                    (option("", &query.pipeline, t("decisions.all_pipelines").to_owned()))
                    @for pipeline in pipelines { (option(&pipeline.name, &query.pipeline, pipeline.name.clone())) }
                }
                select name="action" aria-label=(t("overview.action")) {
                    (option("", &query.action, t("decisions.all_actions").to_owned()))
                    @for action in Action::ALL { (option(action.name(), &query.action, word("action", action.name()))) }
                }
                select name="last" aria-label=(t("decisions.when")) {
                    (option("", &query.last, t("decisions.any_time").to_owned()))
                    @if !query.last.is_empty() && !BACK.contains(&query.last.as_str()) { (option(&query.last, &query.last, fill("decisions.last", &[("length", &plain(&query.last, 24))]))) }
                    @for last in BACK { (option(last, &query.last, fill("decisions.last", &[("length", &super::format::length(last.parse().unwrap_or(Span::days(1))))]))) }
                }
                button.primary type="submit" { (t("decisions.search")) }
            }
            details open[has_more] {
                summary { (t("decisions.more")) }
                div.fields {
                    label { (t("decisions.rule")) input name="rule" list="rules-known" value=(query.rule) maxlength="256" spellcheck="false" autocomplete="off"; }
                    label { (t("decisions.kind")) input name="kind" list="kinds-known" value=(query.kind) maxlength="256" spellcheck="false" autocomplete="off"; }
                    label { (t("decisions.value")) input name="value" value=(query.value) maxlength="1024" spellcheck="false" autocomplete="off"; }
                    label { (t("decisions.label")) select name="label" {
                        (option("", &query.label, t("decisions.judged_or_not").to_owned()))
                        (option("any", &query.label, t("decisions.judged").to_owned()))
                        (option("none", &query.label, t("decisions.not_judged").to_owned()))
                        @for class in classes { (option(class, &query.label, class.clone())) }
                    } }
                    label { (t("decisions.score_from")) input name="score_from" value=(query.score_from) inputmode="decimal" maxlength="24" autocomplete="off"; }
                    label { (t("decisions.score_below")) input name="score_below" value=(query.score_below) inputmode="decimal" maxlength="24" autocomplete="off"; }
                    label { (t("decisions.from")) input name="from" value=(query.from) maxlength="40" spellcheck="false" autocomplete="off" placeholder=(t("decisions.from_example")); }
                    label { (t("decisions.to")) input name="to" value=(query.to) maxlength="40" spellcheck="false" autocomplete="off"; }
                    div.wide {
                        label { (t("decisions.where")) input name="where" value=(query.r#where) maxlength="4096" spellcheck="false" autocomplete="off" placeholder=(t("decisions.where_example")); }
                        ul.completion #names-where role="listbox" aria-label=(t("decisions.names")) data-names="/console/rules/names" hidden {}
                    }
                    div.wide {
                        label { (t("decisions.facts")) input name="facts" value=(query.facts) maxlength="1024" spellcheck="false" autocomplete="off" placeholder=(t("decisions.facts_example")); }
                        ul.completion #names-facts role="listbox" aria-label=(t("decisions.names")) data-names="/console/rules/names" data-of="fact reading" hidden {}
                    }
                    (known_names(query, pipelines))
                }
            }
        }
    }
}

/// The names of rules and kinds of the pipelines that are searched, for browsers to complete.
fn known_names(query: &DecisionsQuery, pipelines: &[PipelineJson]) -> Markup {
    let searched = || pipelines.iter().filter(|one| query.pipeline.is_empty() || one.name == query.pipeline);
    let rules: BTreeSet<&str> =
        searched().flat_map(|one| &one.rules).map(|rule| rule.name.as_str()).take(NAMES).collect();
    let kinds: BTreeSet<&str> =
        searched().flat_map(|one| &one.kinds).map(|kind| kind.name.as_str()).take(NAMES).collect();
    html! { @for (id, names) in [("rules-known", rules), ("kinds-known", kinds)] {
        datalist id=(id) { @for name in names { option value=(name) {} } }
    } }
}

/// Decisions in a table, with a form that judges those that are chosen, where all are of one pipeline.
fn judged_together(
    visit: &ConsoleVisit,
    decisions: &[ListedDecisionJson],
    pipelines: &[PipelineJson],
) -> Markup {
    let first = decisions.first().map(|one| &one.pipeline);
    let is_one = decisions.iter().all(|one| Some(&one.pipeline) == first);
    let classes =
        pipelines.iter().find(|pipeline| Some(&pipeline.name) == first).map(|pipeline| &pipeline.feedback);
    match classes.filter(|classes| is_one && !classes.is_empty() && visit.viewer.may(ViewerRight::Teach)) {
        None => table(visit, decisions, false),
        Some(classes) => html! {
            form method="post" action="/console/decisions/feedback" {
                (secret(&visit.viewer))
                (table(visit, decisions, true))
                p.buttons.judge {
                    span { (t("decisions.judge")) }
                    @for class in classes { button type="submit" name="class" value=(class) { (class) } }
                }
            }
        },
    }
}

/// Fields of a form, in their order. A name may come several times.
type FormFields = Vec<(String, String)>;

/// Takes in feedback on the decisions that were chosen.
pub(super) async fn judge(
    ConsoleForm { visit, form }: ConsoleForm<FormFields>,
) -> Result<Response, PageFailure> {
    visit.need(ViewerRight::Teach)?;
    let class =
        form.iter().find(|(name, _)| name == "class").map(|(_, class)| class.clone()).unwrap_or_default();
    let ids = form.into_iter().filter(|(name, _)| name == "id").map(|(_, id)| id);
    let (mut taken, mut refused) = (Vec::new(), Vec::new());
    for id in ids.take(SHOWN) {
        let said = FeedbackJson { id: id.clone(), class: class.clone(), by: None };
        match feedback::take_in(&visit.node, said, false).await {
            Ok(_) => taken.push(id),
            Err(failure) => refused.push((id, failure.problem().detail)),
        }
    }
    let frame = visit.frame(t("decisions.judged_title"), ConsoleSection::Decisions);
    Ok(frame.page(&html! {
        h1 { (t("decisions.judged_title")) }
        p.notice role="status" { (plain(&class, CELL)) ": " (counted("decisions.judged_one", "decisions.judged_many", taken.len() as u64)) }
        @if !taken.is_empty() && class != "none" {
            form.buttons method="post" action="/console/decisions/feedback" {
                (secret(&visit.viewer))
                @for id in &taken { input type="hidden" name="id" value=(id); }
                button type="submit" name="class" value="none" { (t("decisions.undo")) }
            }
        }
        @if !refused.is_empty() {
            h2 { (t("decisions.refused")) }
            ul.plain { @for (id, why) in &refused { li { code { (plain(id, CELL)) } " " (plain(why, CELL * 2)) } } }
        }
        @if taken.is_empty() && refused.is_empty() { p { (t("decisions.none_chosen")) } }
        ul.plain { @for id in &taken { li { a href={ "/console/decisions/" (plain(id, CELL)) } { code { (plain(id, CELL)) } } } } }
    }))
}

/// Decisions in a table, each with a box to choose it if wanted.
pub(super) fn table(visit: &ConsoleVisit, decisions: &[ListedDecisionJson], can_choose: bool) -> Markup {
    html! {
        div.scroll tabindex="0" role="region" aria-label=(t("decisions.title")) { table.rows.stacks.decisions {
            thead { tr {
                th scope="col" { (t("overview.action")) }
                th scope="col" { (t("decision.time")) }
                th.number scope="col" { (t("decision.score")) }
                th scope="col" { (t("decisions.event")) }
                th scope="col" { (t("decisions.rules")) }
            } }
            tbody { @for one in decisions {
                tr {
                    td.nowrap {
                        @if can_choose { input type="checkbox" name="id" value=(one.id) aria-label=(fill("decisions.choose", &[("id", &one.id)])); " " }
                        a href={ "/console/decisions/" (one.id) } { span.badge.(one.action.name()) { (word("action", one.action.name())) } span.unseen { " " (one.id) } }
                        @if let Some(label) = &one.label { " " span.tag { (value(label, 32)) } } }
                    td.nowrap { (distance(one.time.0, visit.now)) }
                    td.number { (points(one.score)) }
                    td.event.whole { span.dim { (one.pipeline) } @for (name, fact) in &one.facts { " " (fact_of(visit, name, fact)) } }
                    td.whole { @for (index, rule) in one.rules.iter().take(4).enumerate() {
                        @if index > 0 { ", " }
                        a.rule href=(url("/console/decisions", &[("pipeline", &one.pipeline), ("rule", &rule.name)])) { (value(&rule.name, 48)) }
                    } @if one.rules.len() > 4 { span.dim { " +" (one.rules.len() - 4) } } }
                }
            } }
        } }
    }
}

pub(super) fn fact_of(visit: &ConsoleVisit, name: &str, fact: &Value) -> Markup {
    let is_text = matches!(fact, Value::String(_) | Value::Array(_) | Value::Object(_));
    let may_read = !is_text || visit.viewer.may(ViewerRight::ReadContent);
    html! {
        span.fact title=(name) { @if may_read { (value(&json(fact).replace('\n', " "), 120)) } @else { span.dim { (t("decision.hidden")) } } }
    }
}

/// The latest decisions on a key.
pub(super) async fn of_key(visit: &ConsoleVisit, pipeline: &str, kind: &str, key: &str) -> Markup {
    let query = DecisionsQuery {
        pipeline: pipeline.to_owned(),
        kind: kind.to_owned(),
        value: key.to_owned(),
        ..DecisionsQuery::default()
    };
    let pipelines = node::pipelines(State(visit.node.clone())).await.0.pipelines;
    // A journal that cannot be searched takes nothing from what is known of the key.
    let Ok(found) = query.page(visit, usual(&pipelines, pipeline)).await else { return html! {} };
    html! {
        section {
            h2 { (t("decisions.latest")) }
            @if found.decisions.is_empty() { p.dim { (t("decisions.none")) } } @else {
                (table(visit, found.decisions.get(..10).unwrap_or(&found.decisions), false))
                p { a href=(url("/console/decisions", &query.params())) { (t("decisions.all")) } }
            }
        }
    }
}
