//! Pages of sets: which a pipeline has, and the entries of one.

use axum::extract::{Path, State};
use axum::response::Response;
use maud::{Markup, html};
use serde::Deserialize;

use super::format::{CELL, number, plain, url, value};
use super::frame::ConsoleSection;
use super::texts::{fill, t};
use super::visit::{ConsoleVisit, PageFailure};
use crate::protocol::http::QueryParams;
use crate::protocol::http::sets::{self, SetEntryParams, SetsParams};

/// Entries of a page.
const SHOWN: usize = 200;

/// A set, and what is looked for in it.
#[derive(Default, Deserialize)]
#[serde(default)]
struct SetQuery {
    pipeline: String,
    name: String,
    text: String,
    from: Option<usize>,
}

/// The sets of a pipeline, in a list that leads to each.
pub(super) async fn list(visit: &ConsoleVisit, pipeline: &str) -> Result<Markup, PageFailure> {
    let asked = SetsParams { pipeline: Some(pipeline.to_owned()) };
    let found = sets::sets(State(visit.node.clone()), QueryParams(asked)).await?.0;
    Ok(html! {
        @if !found.sets.is_empty() { section.card {
            h2 { (t("sets.title")) }
            ul.plain { @for set in &found.sets { li {
                a href=(url("/console/rules/set", &[("pipeline", pipeline), ("name", &set.name)])) { (value(&set.name, CELL / 2)) }
                " " span.dim { (set.kind) " · " (number(set.entries as u64)) }
            } } }
        } }
    })
}

/// The page of a set.
pub(super) async fn page(visit: ConsoleVisit) -> Result<Response, PageFailure> {
    let SetQuery { pipeline, name, text, from } = visit.query()?;
    let text = text.trim();
    let wanted = (!text.is_empty()).then(|| text.to_owned());
    let asked = SetEntryParams {
        pipeline: Some(pipeline.clone()),
        text: wanted.clone(),
        has: wanted,
        from,
        limit: Some(SHOWN),
    };
    let node = State(visit.node.clone());
    let found = sets::entries(node, Path(name.clone()), QueryParams(asked)).await?.0;
    let frame = visit.frame(fill("sets.of", &[("name", &plain(&name, CELL))]), ConsoleSection::Rules);
    Ok(frame.page(&html! {
        h1 { (fill("sets.of", &[("name", &plain(&name, CELL))])) " " span.dim { (number(found.set.entries as u64)) } }
        p.crumbs { a href=(url("/console/rules", &[("pipeline", &pipeline)])) { (fill("rules.title", &[("pipeline", &plain(&pipeline, CELL))])) } " " span.tag { (found.set.kind) } }
        form.look action="/console/rules/set" {
            input type="hidden" name="pipeline" value=(pipeline);
            input type="hidden" name="name" value=(name);
            label for="text" { (t("sets.look_label")) }
            div.row {
                input #text type="search" name="text" value=(text) maxlength="256" autocomplete="off" spellcheck="false";
                button.primary type="submit" { (t("keys.look")) }
            }
        }
        @if let Some(is_there) = found.found {
            p.notice role="status" { (fill(if is_there { "sets.has" } else { "sets.has_not" }, &[("value", &plain(text, CELL))])) }
        }
        @if found.page.is_empty() { div.empty { p { (t("sets.none")) } } } @else {
            ul.plain { @for entry in &found.page { li { code { (value(entry, CELL)) } } } }
        }
        @if let Some(next) = found.next {
            p { a.button href=(url("/console/rules/set", &[("pipeline", &pipeline), ("name", &name), ("text", text), ("from", &next.to_string())])) { (t("common.more")) } }
        }
    }))
}
