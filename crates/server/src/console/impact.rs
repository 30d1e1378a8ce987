//! The page of what a rule did: whom it hit, what it alone decided, and taking that back.

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use maud::{Markup, html};
use serde::Deserialize;

use super::decisions::absent;
use super::format::{CELL, number, plain, time, url, value};
use super::frame::{ConsoleSection, done, redirect, secret};
use super::texts::{counted, fill, t, word};
use super::visit::{ConsoleForm, ConsoleVisit, PageFailure};
use crate::api::{CorrectionJson, CorrectionRequest, RuleImpactJson, Timestamp};
use crate::core::viewer::ViewerRight;
use crate::protocol::http::corrections::{self, ImpactParams};
use crate::protocol::http::{JsonBody, QueryParams};

/// The times that can be asked for, with their texts.
const SPANS: [(&str, &str); 4] =
    [("1h", "editor.hour"), ("1d", "editor.day"), ("7d", "editor.week"), ("30d", "editor.month")];

/// A rule, and the decisions for which it fired.
#[derive(Deserialize)]
struct ImpactQuery {
    pipeline: Option<String>,
    rule: String,
    #[serde(default)]
    version: String,
    #[serde(default)]
    span: String,
}

/// The page.
pub(super) async fn page(visit: ConsoleVisit) -> Result<Response, PageFailure> {
    visit.need(ViewerRight::Rules)?;
    let query: ImpactQuery = visit.query()?;
    let pipeline = visit.node.pipeline(query.pipeline.as_deref())?.name.clone();
    let span = SPANS.iter().map(|(span, _)| *span).find(|span| *span == query.span).unwrap_or("1d");
    let from = visit.now - span.parse().unwrap_or(event::Span::days(1));
    let version = Some(query.version.trim().to_owned()).filter(|version| !version.is_empty());
    let params = ImpactParams {
        pipeline: Some(pipeline.clone()),
        rule: query.rule.clone(),
        version: version.clone(),
        from: Some(from.to_string()),
        to: None,
    };
    let impact = corrections::impact(State(visit.node.clone()), None, QueryParams(params)).await?.0;
    let last = corrections::progress(State(visit.node.clone())).await.0;
    let last = Some(last).filter(|last| last.rule == query.rule && last.pipeline == pipeline);
    let page = ImpactPage { visit: &visit, pipeline: &pipeline, query: &query, span, from };
    let title = fill("impact.title", &[("rule", &plain(&query.rule, CELL))]);
    Ok(visit.frame(title, ConsoleSection::Rules).page(&page.content(&impact, last.as_ref())))
}

struct ImpactPage<'a> {
    visit: &'a ConsoleVisit,
    pipeline: &'a str,
    query: &'a ImpactQuery,
    span: &'a str,
    from: event::Time,
}

impl ImpactPage<'_> {
    fn content(&self, impact: &RuleImpactJson, last: Option<&CorrectionJson>) -> Markup {
        let rule = self.query.rule.as_str();
        html! {
            div.head {
                h1 { (fill("impact.title", &[("rule", &plain(rule, CELL))])) }
                p.crumbs { a href=(url("/console/rules", &[("pipeline", self.pipeline), ("rule", rule)])) { (fill("rules.title", &[("pipeline", &self.pipeline)])) } }
            }
            form.row action="/console/rules/impact" {
                input type="hidden" name="pipeline" value=(self.pipeline);
                input type="hidden" name="rule" value=(rule);
                select name="span" aria-label=(t("editor.span")) {
                    @for (of, text) in SPANS { option value=(of) selected[of == self.span] { (t(text)) } }
                }
                input name="version" value=(self.query.version) aria-label=(t("impact.version")) placeholder=(t("impact.version")) maxlength="64" spellcheck="false";
                button type="submit" { (t("rules.show")) }
            }
            @if let Some(last) = last { (self.last(last)) }
            (absent(&impact.absent))
            dl.figures {
                div { dt { (t("impact.hits")) } dd { (number(impact.hits)) } }
                div { dt { (t("impact.alone")) } dd { (number(impact.alone)) } }
                @if impact.corrected > 0 { div { dt { (t("impact.corrected")) } dd { (number(impact.corrected)) } } }
                @if impact.untold > 0 { div { dt { (t("impact.untold")) } dd { (number(impact.untold)) } } }
                @if impact.unknown > 0 { div { dt { (t("impact.unknown")) } dd { (number(impact.unknown)) } } }
            }
            @if impact.partial { p.notice { (t("impact.partial")) } }
            @if !impact.actions.is_empty() {
                section { table { tbody { @for change in &impact.actions {
                    tr {
                        td { (badge(change.action.name())) " " (t("impact.without")) " " (badge(change.without.name())) }
                        td.number { (number(change.decisions)) }
                    }
                } } } }
            }
            (self.taking_back(impact))
            (self.decisions(impact))
        }
    }

    fn last(&self, last: &CorrectionJson) -> Markup {
        html! {
            p.notice role="status" {
                (word("trial", &last.state)) " · " (number(last.hits)) " · " (plain(&last.by, CELL))
                @if let Some(problem) = &last.problem { " · " (plain(problem, CELL * 2)) }
                @if let Some(impact) = &last.impact {
                    " · " (fill("impact.taken", &[("counts", &number(impact.counts)), ("labels", &number(impact.labels)), ("bans", &number(impact.bans))]))
                }
            }
        }
    }

    fn taking_back(&self, impact: &RuleImpactJson) -> Markup {
        html! {
            section.card.wide {
                h2 { (t("impact.take_back")) }
                p { (fill("impact.would", &[("counts", &number(impact.counts)), ("labels", &number(impact.labels)), ("bans", &number(impact.bans))])) }
                @if !impact.lasting.is_empty() {
                    p.dim { (t("impact.lasting")) " " @for (name, count) in &impact.lasting { code.count { (plain(name, CELL)) " " (number(*count)) } } }
                }
                p.dim { (t("impact.first")) }
                form method="post" action="/console/rules/correct" {
                    (secret(&self.visit.viewer))
                    input type="hidden" name="pipeline" value=(self.pipeline);
                    input type="hidden" name="rule" value=(self.query.rule);
                    input type="hidden" name="version" value=(self.query.version);
                    input type="hidden" name="span" value=(self.span);
                    input type="hidden" name="from" value=(self.from);
                    button.danger type="submit" { (t("impact.take_back")) }
                }
            }
        }
    }

    fn decisions(&self, impact: &RuleImpactJson) -> Markup {
        if impact.decisions.is_empty() {
            return html! { div.empty { p { (t("impact.none")) } } };
        }
        html! {
            h2 #hits { (counted("impact.decision", "impact.decisions", impact.decisions.len() as u64)) }
            div.scroll tabindex="0" role="region" aria-labelledby="hits" { table.rows.stacks {
                thead { tr {
                    th scope="col" { (t("editor.decision")) }
                    th scope="col" { (t("impact.action")) }
                    th scope="col" { (t("impact.without_rule")) }
                    th scope="col" { (t("impact.corrected")) }
                } }
                tbody { @for hit in &impact.decisions {
                    tr {
                        th.whole scope="row" {
                            a href={ "/console/decisions/" (hit.id) } { code { (hit.id) } } " " (time(hit.time.0, self.visit.now))
                            @if let Some(id) = &hit.event_id { " " (value(id, CELL / 4)) }
                        }
                        td { (badge(hit.action.name())) }
                        td { @if let Some(without) = hit.without { (badge(without.name())) } @else { span.dim { "–" } } }
                        td { @if hit.corrected { span.tag { (t("impact.is_corrected")) } } }
                    }
                } }
            } }
        }
    }
}

fn badge(action: &str) -> Markup {
    html! { span.badge.(action) { (word("action", action)) } }
}

/// A rule whose effects are to be taken back.
#[derive(Deserialize)]
pub(super) struct CorrectForm {
    pipeline: String,
    rule: String,
    #[serde(default)]
    version: String,
    #[serde(default)]
    span: String,
    from: Timestamp,
}

/// Takes back what a rule did.
pub(super) async fn correct(
    ConsoleForm { visit, form }: ConsoleForm<CorrectForm>,
) -> Result<Response, PageFailure> {
    visit.need(ViewerRight::Rules)?;
    let CorrectForm { pipeline, rule, version, span, from } = form;
    let params = [
        ("pipeline", pipeline.as_str()),
        ("rule", rule.as_str()),
        ("version", version.as_str()),
        ("span", span.as_str()),
    ];
    let back = url("/console/rules/impact", &params);
    let version = Some(version.trim().to_owned()).filter(|version| !version.is_empty());
    let request = CorrectionRequest { pipeline: Some(pipeline), rule, version, from, to: None };
    let (_, Json(_)) = corrections::correct(State(visit.node.clone()), JsonBody(request)).await?;
    Ok(redirect(&done(&back, "correcting", 0)))
}
