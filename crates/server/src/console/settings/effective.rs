//! The page of effective settings: what the node is, where it listens, what it runs.

use axum::extract::{Path, State};
use axum::response::Response;
use maud::{Markup, html};
use serde::Deserialize;

use super::SettingsTab;
use crate::api::{NotificationJson, SettingJson};
use crate::console::format::{CELL, bytes, length, number, plain, value};
use crate::console::frame::{done, redirect, secret};
use crate::console::texts::{fill, t};
use crate::console::visit::{ConsoleForm, ConsoleVisit, PageFailure};
use crate::core::viewer::ViewerRight;
use crate::protocol::http::QueryParams;
use crate::protocol::http::node::{self, SettingsParams};
use crate::protocol::http::{audit, notifications};

/// Settings that are shown.
const SHOWN: usize = 500;

/// A choice among settings.
#[derive(Deserialize)]
#[serde(default)]
struct SettingsQuery {
    scope: String,
    text: String,
    /// `yes`: also those that nobody has set.
    defaults: String,
}

impl Default for SettingsQuery {
    fn default() -> SettingsQuery {
        SettingsQuery { scope: "node".to_owned(), text: String::new(), defaults: String::new() }
    }
}

/// Settings with their origins.
async fn values(visit: &ConsoleVisit, query: &SettingsQuery) -> Result<Markup, PageFailure> {
    let text = Some(query.text.trim().to_owned()).filter(|text| !text.is_empty());
    let asked = SettingsParams { scope: Some(query.scope.clone()), text };
    let all = node::settings(State(visit.node.clone()), QueryParams(asked)).await?.0.settings;
    let is_shown = |setting: &&SettingJson| query.defaults == "yes" || setting.origin != "default";
    let shown: Vec<&SettingJson> = all.iter().filter(is_shown).take(SHOWN).collect();
    Ok(html! {
        @if shown.is_empty() { div.empty { p { (t("settings.none")) } } } @else {
            div.scroll tabindex="0" role="region" aria-label=(t("settings.all")) { table.rows.stacks {
                thead { tr {
                    th scope="col" { (t("settings.name")) }
                    th scope="col" { (t("keys.value")) }
                    th scope="col" { (t("settings.origin")) }
                } }
                tbody { @for setting in &shown { tr {
                    th.whole scope="row" { code { (plain(&setting.path, CELL)) } }
                    td.whole { code { (value(&setting.value, CELL * 2)) } }
                    td.dim.whole { (value(&setting.origin, CELL)) }
                } } }
            } }
            @if shown.len() == SHOWN { p.dim { (fill("settings.cut", &[("n", &SHOWN)])) } }
        }
    })
}

/// The places that are told what happens.
fn places(visit: &ConsoleVisit, all: &[NotificationJson]) -> Markup {
    html! {
        div.scroll tabindex="0" role="region" aria-labelledby="notifications" { table.rows.stacks {
            thead { tr {
                th scope="col" { (t("settings.name")) }
                th scope="col" { (t("settings.sent_to")) }
                th.number scope="col" { (t("settings.waiting")) }
                th.number scope="col" { (t("settings.sent")) }
                th.number scope="col" { (t("settings.lost")) }
                th scope="col" { (t("settings.fault")) }
                th scope="col" { (t("settings.try")) }
            } }
            tbody { @for place in all { tr {
                th scope="row" { (plain(&place.name, CELL)) }
                td { (place.form) " " span.dim { (value(&place.host, CELL)) } }
                td.number { (number(place.waiting)) }
                td.number { (number(place.sent)) }
                td.number { (number(place.failed.saturating_add(place.dropped))) }
                td.whole { @if let Some(fault) = &place.fault { (value(&fault.reason, CELL * 2)) } @else { (t("settings.well")) } }
                td { form method="post" action="/console/settings/notify" {
                    (secret(&visit.viewer))
                    input type="hidden" name="name" value=(place.name);
                    button.quiet type="submit" aria-label=(fill("settings.test", &[("name", &place.name)])) { (t("settings.try")) }
                } }
            } } }
        } }
    }
}

/// A place to test.
#[derive(Deserialize)]
pub(in crate::console) struct NotifyForm {
    name: String,
}

/// Sends a test to a place. What came of it is in its row.
pub(in crate::console) async fn notify(
    ConsoleForm { visit, form }: ConsoleForm<NotifyForm>,
) -> Result<Response, PageFailure> {
    visit.need(ViewerRight::Administer)?;
    let tested = notifications::test(State(visit.node.clone()), Path(form.name)).await?.0;
    let word = if tested.is_sent { "notified" } else { "not_notified" };
    Ok(redirect(&done("/console/settings", word, 0)))
}

/// The page.
pub(in crate::console) async fn page(visit: ConsoleVisit) -> Result<Response, PageFailure> {
    visit.need(ViewerRight::Administer)?;
    let pipelines = node::pipelines(State(visit.node.clone())).await.0.pipelines;
    let query: SettingsQuery = visit.query()?;
    let values = values(&visit, &query).await?;
    let plan = visit.node.plan();
    let tokens = audit::tokens(State(visit.node.clone())).await.0.tokens.len();
    let told = notifications::notifications(State(visit.node.clone())).await.0.notifications;
    let content = html! {
        section {
            h2 { (t("settings.node")) }
            dl.facts {
                div { dt { (t("settings.version")) } dd { (env!("CARGO_PKG_VERSION")) } }
                div { dt { (t("settings.tokens")) } dd { @if visit.node.wants_token() { a href=(SettingsTab::Access.url()) { (number(tokens as u64)) } } @else { (t("settings.no_tokens")) } } }
                div { dt { (t("settings.timeout")) } dd { (length(plan.timeout)) } }
                div { dt { (t("settings.body_max")) } dd { (bytes(plan.body_max)) } }
                div { dt { (t("settings.requests_max")) } dd { (number(plan.requests_max as u64)) } }
                div { dt { (t("settings.connections_max")) } dd { (number(plan.connections_max as u64)) } }
            }
        }
        section {
            h2 #listeners { (t("settings.listeners")) }
            table { tbody {
                tr { th scope="row" { "http" } td { code { (plan.listen) } } }
                @for listener in visit.node.listeners() { tr { th scope="row" { (listener.name) } td { code { (listener.listen) } } } }
            } }
        }
        section {
            h2 #pipelines { (t("settings.pipelines")) }
            div.scroll tabindex="0" role="region" aria-labelledby="pipelines" { table.rows {
                thead { tr {
                    th scope="col" { (t("common.pipeline")) }
                    th scope="col" { (t("settings.input")) }
                    th.number scope="col" { (t("settings.kinds")) }
                    th.number scope="col" { (t("settings.rules")) }
                    th scope="col" { (t("settings.feedback")) }
                    th scope="col" { (t("settings.in_force")) }
                } }
                tbody { @for pipeline in &pipelines { tr {
                    th scope="row" { a href={ "/console/rules?pipeline=" (pipeline.name) } { (pipeline.name) } }
                    td { (pipeline.input) }
                    td.number { (pipeline.kinds.len()) }
                    td.number { (pipeline.rules.len()) }
                    td { (pipeline.feedback.join(", ")) }
                    td { code { (pipeline.version) } }
                } } }
            } }
        }
        @if !told.is_empty() {
            section {
                h2 #notifications { (t("settings.notifications")) }
                (places(&visit, &told))
            }
        }
        section {
            h2 { (t("settings.all")) }
            p.dim { (t("settings.all_help")) }
            form.look action="/console/settings" {
                div.row {
                    select name="scope" aria-label=(t("settings.scope")) {
                        option value="node" selected[query.scope == "node"] { (t("settings.node")) }
                        @for pipeline in &pipelines { option value=(pipeline.name) selected[query.scope == pipeline.name] { (pipeline.name) } }
                    }
                    input type="search" name="text" value=(query.text) maxlength="128" aria-label=(t("settings.name")) placeholder=(t("settings.name")) spellcheck="false";
                    label.check { input type="checkbox" name="defaults" value="yes" checked[query.defaults == "yes"]; (t("settings.defaults")) }
                    button type="submit" { (t("rules.show")) }
                }
            }
            (values)
        }
    };
    Ok(SettingsTab::Effective.page(&visit, &content))
}
