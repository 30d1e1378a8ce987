//! The page of bans.

use axum::extract::State;
use axum::response::Response;
use maud::html;
use serde::Deserialize;

use super::format::{number, url};
use super::frame::{ConsoleSection, done, redirect};
use super::keys::ban_table;
use super::texts::{counted, t};
use super::visit::{ConsoleForm, ConsoleVisit, PageFailure, next_page};
use crate::api::{LabelRequest, Length};
use crate::core::problem::INVALID_PARAMETER;
use crate::core::viewer::{LIST_UPLOAD, ViewerRight};
use crate::protocol::http::bans::{self, BanSearchParams, LiftParams};
use crate::protocol::http::{JsonBody, QueryParams};
use event::Span;

/// Bans on a page.
const SHOWN: usize = 100;

/// A search for bans.
#[derive(Default, Deserialize)]
struct BansQuery {
    #[serde(default)]
    q: String,
    before: Option<u64>,
}

/// The ban list.
pub(super) async fn page(visit: ConsoleVisit) -> Result<Response, PageFailure> {
    visit.need(ViewerRight::ReadBans)?;
    let BansQuery { q, before } = visit.query()?;
    let q = q.trim();
    let asked = BanSearchParams {
        text: (!q.is_empty()).then(|| q.to_owned()),
        limit: Some(SHOWN),
        before,
        ..BanSearchParams::default()
    };
    let found = bans::search(State(visit.node.clone()), QueryParams(asked)).await?.0;
    let back = url("/console/bans", &[("q", q)]);
    let frame = visit.frame(t("bans.title"), ConsoleSection::Bans);
    Ok(frame.page(&html! {
        h1 { (t("bans.title")) " " span.dim { (number(found.all as u64)) } }
        form.look action="/console/bans" {
            label for="q" { (t("bans.search_label")) }
            div.row {
                input #q type="search" name="q" value=(q) maxlength="256" autocomplete="off" spellcheck="false";
                button.primary type="submit" { (t("bans.search")) }
            }
        }
        p.buttons {
            a.button href="/console/bans/allowed" { (t("allow.title")) }
            @if visit.viewer.may(ViewerRight::Enforce) { a.button href=(LIST_UPLOAD) { (t("bans.import_title")) } }
        }
        @if found.bans.is_empty() {
            div.empty {
                @if q.is_empty() { p { (t("bans.none")) } p.dim { (t("bans.none_help")) } } @else { p { (t("bans.none_found")) } }
            }
        } @else {
            p.dim { (counted("bans.one_shown", "bans.shown", found.bans.len() as u64)) }
            (ban_table(&visit, &found.bans, &back))
        }
        @if let Some(next) = found.next {
            p { a.button href=(url("/console/bans", &[("q", q), ("before", &next.to_string())])) { (t("common.older")) } }
        }
    }))
}

/// A ban that is wanted.
#[derive(Deserialize)]
pub(super) struct BanFields {
    pipeline: String,
    /// Kind, label and value, as a list in JSON: one choice of the form.
    target: String,
    lasts: String,
    why: Option<String>,
    next: Option<String>,
}

/// Bans a key.
pub(super) async fn add(
    ConsoleForm { visit, form }: ConsoleForm<BanFields>,
) -> Result<Response, PageFailure> {
    visit.need(ViewerRight::Enforce)?;
    let BanFields { pipeline, target, lasts, why, next } = form;
    let target: Result<(String, String, String), _> = serde_json::from_str(&target);
    let (kind, label, value) = target.map_err(|_| INVALID_PARAMETER.failure(t("error.form")))?;
    let lasts: Span = lasts.parse().map_err(|_| INVALID_PARAMETER.failure(t("error.form")))?;
    let (pipeline, lasts) = (Some(pipeline), Length(lasts));
    let wanted = LabelRequest { pipeline, kind, label, value, lasts, why };
    let _ = bans::label(State(visit.node.clone()), JsonBody(wanted)).await?;
    Ok(redirect(&done(&next_page(next), "banned", 0)))
}

/// A value whose bans are to be lifted.
#[derive(Deserialize)]
pub(super) struct LiftForm {
    value: String,
    next: Option<String>,
}

/// Lifts the bans on a value.
pub(super) async fn lift(
    ConsoleForm { visit, form }: ConsoleForm<LiftForm>,
) -> Result<Response, PageFailure> {
    visit.need(ViewerRight::Enforce)?;
    let LiftForm { value, next } = form;
    let outcome = bans::lift(State(visit.node.clone()), QueryParams(LiftParams { value })).await?.0;
    Ok(redirect(&done(&next_page(next), "lifted", outcome.lifted as u64)))
}
