//! The page of nodes: those that share statistics, how they are, and which versions of rules and models each has.

use axum::extract::{Path, State};
use axum::response::Response;
use event::{Span, Time};
use maud::{Markup, html};
use serde::Deserialize;

use super::SettingsTab;
use crate::api::NodeJson;
use crate::console::format::{CELL, distance, length, number, plain, value};
use crate::console::frame::{done, redirect, secret};
use crate::console::texts::{fill, t, word};
use crate::console::visit::{ConsoleForm, ConsoleVisit, PageFailure};
use crate::core::viewer::{Viewer, ViewerRight};
use crate::protocol::http::nodes;

/// Pipelines and models of a node that are shown.
const SHOWN: usize = 50;

/// The page.
pub(in crate::console) async fn page(visit: ConsoleVisit) -> Result<Response, PageFailure> {
    let all = nodes::nodes(State(visit.node.clone())).await.0.nodes;
    let content = html! {
        @if all.len() == 1 { p.dim { (t("nodes.alone")) } }
        (table(&all, &visit.viewer, visit.now))
    };
    Ok(SettingsTab::Nodes.page(&visit, &content))
}

fn table(all: &[NodeJson], viewer: &Viewer, now: Time) -> Markup {
    let newest = all.iter().map(|node| node.rules).max().unwrap_or(0);
    let can_forget = viewer.may(ViewerRight::Administer) && all.iter().any(is_away);
    html! {
        div.scroll tabindex="0" role="region" aria-label=(t("nodes.title")) { table.rows {
            thead { tr {
                th scope="col" { (t("nodes.node")) }
                th scope="col" { (t("nodes.state")) }
                th scope="col" { (t("nodes.silent")) }
                th scope="col" { (t("nodes.release")) }
                th scope="col" { (t("nodes.started")) }
                th scope="col" { (t("nodes.rules")) }
                th scope="col" { (t("nodes.models")) }
                @if can_forget { th scope="col" { (t("nodes.forget")) } }
            } }
            tbody { @for node in all { tr {
                th scope="row" {
                    @if let Some(number) = node.number { span.dim { (number) } " " }
                    b { (value(&node.name, CELL)) }
                    @if let Some(url) = &node.url { span.description { (value(url, CELL)) } }
                }
                td { (state(node)) @if let Some(why) = &node.unready { span.description { (value(why, CELL)) } }
                    @for name in node.conditions.iter().take(SHOWN) { span.description { (value(name, CELL)) } }
                }
                td.nowrap { @if let Some(seconds) = node.silent { (length(Span::seconds(seconds as i64))) } }
                td { (value(&node.release, CELL)) }
                td { (distance(node.started.0, now)) }
                td {
                    (fill("nodes.rules_state", &[("n", &number(node.rules))]))
                    @if node.rules < newest { " " span.badge.late { (fill("nodes.behind", &[("n", &number(newest - node.rules))])) } }
                    @for (name, version) in node.pipelines.iter().take(SHOWN) {
                        span.description { (plain(name, CELL)) " " code { (value(version, CELL)) } }
                    }
                }
                td { @for (name, model) in node.models.iter().take(SHOWN) {
                    span.description { (plain(name, CELL)) " " (number(model.version))
                        @if model.lag > 0 { " " span.badge.late { (fill("nodes.behind", &[("n", &number(model.lag))])) } }
                        @if model.waiting > 0 { " " (fill("nodes.waiting", &[("n", &number(model.waiting))])) }
                    }
                } }
                @if can_forget { td { @if let Some(number) = node.number.filter(|_| is_away(node)) {
                    form method="post" action="/console/settings/nodes/forget" {
                        (secret(viewer))
                        input type="hidden" name="number" value=(number);
                        button.quiet.danger type="submit" aria-label=(fill("nodes.forget_one", &[("number", &number)])) { (t("nodes.forget")) }
                    }
                } } }
            } } }
        } }
        @if can_forget { p.dim { (t("nodes.forget_help")) } }
    }
}

fn is_away(node: &NodeJson) -> bool {
    node.state == "away"
}

/// The state of a node, as a word.
fn state(node: &NodeJson) -> Markup {
    let color = match node.state.as_str() {
        "here" | "ready" => "accept",
        _ => "reject",
    };
    html! { span.badge.(color) { (word("node_state", &node.state)) } }
}

/// A node to take out of the list.
#[derive(Deserialize)]
pub(in crate::console) struct ForgetNodeForm {
    number: String,
}

/// Takes a node out of the list that is gone for good.
pub(in crate::console) async fn forget(
    ConsoleForm { visit, form }: ConsoleForm<ForgetNodeForm>,
) -> Result<Response, PageFailure> {
    visit.need(ViewerRight::Administer)?;
    let _ = nodes::forget(State(visit.node.clone()), Path(form.number)).await?;
    Ok(redirect(&done(SettingsTab::Nodes.url(), "node_forgotten", 0)))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use access::{AccessScope, ScopeSet, TokenGrant};

    use super::*;
    use crate::api::{SharedModelJson, Timestamp};
    use crate::core::viewer::ViewerSessions;

    fn viewer(scopes: ScopeSet) -> Viewer {
        ViewerSessions::default().anybody(Arc::new(TokenGrant::new("t", scopes, Vec::new()))).unwrap()
    }

    fn node(number: u16, name: &str, state: &str, rules: u64, lag: u64) -> NodeJson {
        let model = SharedModelJson { version: 12, lag, waiting: 0 };
        NodeJson {
            number: Some(number),
            name: name.to_owned(),
            url: None,
            release: "1.0.0".to_owned(),
            started: Timestamp(Time::from_seconds(0)),
            state: state.to_owned(),
            silent: (state != "here").then_some(90.0),
            unready: None,
            conditions: Vec::new(),
            rules,
            pipelines: BTreeMap::from([("main".to_owned(), "<v>".to_owned())]),
            models: BTreeMap::from([("main/spam".to_owned(), model)]),
        }
    }

    #[test]
    fn a_node_that_is_behind_or_away_is_told_apart() {
        let now = Time::from_seconds(100);
        let all =
            [node(1, "a", "here", 5, 0), node(2, "<b>\u{202e}", "away", 3, 7), node(3, "c", "ready", 5, 0)];
        let page = table(&all, &viewer(ScopeSet::ALL), now).into_string();
        for text in [
            "&lt;b&gt;⟨202E⟩",
            "&lt;v&gt;",
            "2 behind",
            "7 behind",
            "away",
            "ready",
            "name=\"number\" value=\"2\"",
        ] {
            assert!(page.contains(text), "{text}: {page}");
        }
        assert_eq!(page.matches("<form").count(), 1, "those that are there cannot be forgotten");
        assert_eq!(page.matches(" behind").count(), 2);
        let reader = table(&all, &viewer([AccessScope::Read].into_iter().collect()), now).into_string();
        assert!(!reader.contains("<form"), "{reader}");
    }
}
