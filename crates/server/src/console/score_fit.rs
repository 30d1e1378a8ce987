//! Fits of scores: a form on the page of learners, and the preview of what was fitted, which the editor tries and posts.

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use maud::{Markup, html};
use serde::Deserialize;

use super::format::{CELL, number, percent, plain, points, signed, url, value};
use super::frame::{redirect, secret};
use super::texts::{fill, t};
use super::visit::{ConsoleForm, ConsoleVisit, PageFailure};
use crate::api::{BacktestJson, BacktestReportJson, BacktestRequest, Length, ScoreFitJson, ScoreFitRequest};
use crate::core::viewer::ViewerRight;
use crate::protocol::http::{JsonBody, backtests};

/// The times that can be tried, with their texts.
pub(super) const SPANS: [(&str, &str); 4] =
    [("1h", "editor.hour"), ("1d", "editor.day"), ("7d", "editor.week"), ("30d", "editor.month")];
/// Worths of a false positive that are offered, in missed bad events.
const WORTHS: [u32; 4] = [1, 10, 30, 100];
/// The span and the worth that are chosen at first.
const SPAN: &str = "30d";
const WORTH: u32 = 10;
/// Rules that are shown with their scores.
const RULES_SHOWN: usize = 50;

/// A form that asks for a fit.
#[derive(Deserialize)]
pub(super) struct ScoreFitForm {
    pipeline: String,
    span: String,
    false_positive: f64,
}

/// The form, for those who may change rules.
pub(super) fn form(visit: &ConsoleVisit, pipeline: &str) -> Markup {
    html! {
        @if visit.viewer.may(ViewerRight::Rules) { section {
            h2 #fit { (t("fit.title")) }
            p.dim { (t("fit.help")) }
            form.row method="post" action="/console/rules/fit" {
                (secret(&visit.viewer))
                input type="hidden" name="pipeline" value=(pipeline);
                label { (t("fit.span")) " " select name="span" {
                    @for (of, text) in SPANS { option value=(of) selected[of == SPAN] { (t(text)) } }
                } }
                label { (t("fit.worth")) " " select name="false_positive" {
                    @for worth in WORTHS { option value=(worth) selected[worth == WORTH] { (worth) } }
                } }
                button type="submit" { (t("fit.begin")) }
            }
        } }
    }
}

/// Begins a back-test of the rules in force that fits their scores, and shows it in the editor.
pub(super) async fn begin(
    ConsoleForm { visit, form }: ConsoleForm<ScoreFitForm>,
) -> Result<Response, PageFailure> {
    visit.need(ViewerRight::Rules)?;
    let request = BacktestRequest {
        pipeline: Some(form.pipeline.clone()),
        span: form.span.parse().ok().map(Length),
        fit: Some(ScoreFitRequest {
            false_positive: Some(form.false_positive),
            ..ScoreFitRequest::default()
        }),
        ..BacktestRequest::default()
    };
    let (_, Json(begun)) = backtests::begin(State(visit.node.clone()), JsonBody(request)).await?;
    let params = [("pipeline", form.pipeline.as_str()), ("trial", &begun.id)];
    Ok(redirect(&format!("{}#trial", url("/console/rules/edit", &params))))
}

/// The scores that a back-test has fitted, and what they are worth.
pub(super) fn preview(pipeline: &str, trial: &BacktestJson, report: &BacktestReportJson) -> Markup {
    html! {
        @if let Some(problem) = &report.fit_problem {
            div.empty { p { (plain(problem, CELL * 2)) } p.dim { (t("fit.problem_help")) } }
        }
        @if let Some(fit) = &report.fit { section.tile {
            h2 #fitted { (t("fit.fitted")) }
            (measured(fit))
            @if fit.text.is_some() && !fit.rules.is_empty() {
                p { a.button href=(url("/console/rules/edit", &[("pipeline", pipeline), ("trial", &trial.id), ("fitted", "true")])) { (t("fit.take")) } " " span.dim { (t("fit.take_help")) } }
            }
            (scores(fit))
        } }
    }
}

/// The worth of the scores on the later decisions, before and after.
fn measured(fit: &ScoreFitJson) -> Markup {
    let (Some(before), Some(after)) = (&fit.before, &fit.after) else {
        return html! { p.dim { (t("fit.one_class")) } };
    };
    let rows = [
        ("fit.wrong", before.one_minus_auc, after.one_minus_auc),
        ("fit.recall_tenth", before.recall_at_01, after.recall_at_01),
        ("fit.recall_half", before.recall_at_05, after.recall_at_05),
    ];
    html! {
        p.dim { (fill("fit.measured", &[("good", &number(before.good as u64)), ("bad", &number(before.bad as u64))])) }
        dl.figures { @for (text, before, after) in rows {
            div { dt { (t(text)) } dd { (percent(before)) " → " (percent(after)) } }
        } }
        @if fit.is_worse { p.error role="status" { (t("fit.is_worse")) } }
    }
}

/// Scores before and after, those first that move most.
fn scores(fit: &ScoreFitJson) -> Markup {
    html! {
        p.dim { (fill("fit.events", &[("good", &number((fit.events - fit.bad) as u64)), ("bad", &number(fit.bad as u64))])) }
        div.scroll tabindex="0" role="region" aria-labelledby="fitted" { table.rows.stacks {
            thead { tr {
                th scope="col" { (t("decision.rule")) }
                th.number scope="col" { (t("editor.before")) }
                th.number scope="col" { (t("editor.after")) }
                th.number scope="col" { (t("fit.earlier")) }
                th.number scope="col" { (t("learners.good")) }
                th.number scope="col" { (t("learners.bad")) }
            } }
            tbody { @for rule in fit.rules.iter().take(RULES_SHOWN) { tr {
                th scope="row" { span.rule { (value(&rule.rule, CELL)) } }
                td.number { (points(rule.score)) }
                td.number { (points(rule.fitted)) " " span.dim { (signed(rule.fitted - rule.score)) } }
                td.number { (points(rule.earlier)) }
                td.number { (number(rule.good)) }
                td.number { (number(rule.bad)) }
            } } }
        } }
    }
}
