//! The allow list: the page of its posted entries, and the card that says of one value whether it is on it.

use std::collections::HashSet;

use axum::extract::State;
use axum::response::Response;
use event::Span;
use maud::{Markup, html};
use serde::Deserialize;

use super::format::{CELL, distance, length, number, plain, time, url, value};
use super::frame::{ConsoleSection, done, redirect, secret};
use super::texts::{fill, t};
use super::visit::{ConsoleForm, ConsoleVisit, PageFailure, next_page};
use crate::api::{AllowEntryJson, AllowRequest, Length};
use crate::core::problem::INVALID_PARAMETER;
use crate::core::viewer::ViewerRight;
use crate::protocol::http::posted_values::{self, AllowParams, DisallowParams};
use crate::protocol::http::{JsonBody, QueryParams};

/// Lengths of time that are offered; the first has no end.
const LENGTHS: [&str; 5] = ["", "1d", "7d", "30d", "365d"];
/// Entries that are shown.
const SHOWN: usize = 500;

/// A choice among the entries.
#[derive(Default, Deserialize)]
struct AllowListQuery {
    #[serde(default)]
    q: String,
}

/// The page of the entries.
pub(super) async fn page(visit: ConsoleVisit) -> Result<Response, PageFailure> {
    visit.need(ViewerRight::ReadBans)?;
    let AllowListQuery { q } = visit.query()?;
    let q = q.trim().to_lowercase();
    let asked = AllowParams { value: (!q.is_empty()).then(|| q.clone()) };
    let list = posted_values::allow_list(State(visit.node.clone()), QueryParams(asked)).await.0;
    let has = |text: &str| text.to_lowercase().contains(&q);
    let is_meant = |entry: &&AllowEntryJson| has(&entry.value) || has(&entry.why) || has(&entry.by);
    let shown: Vec<&AllowEntryJson> = list.entries.iter().filter(is_meant).take(SHOWN).collect();
    let back = url("/console/bans/allowed", &[("q", &q)]);
    let frame = visit.frame(t("allow.title"), ConsoleSection::Bans);
    Ok(frame.page(&html! {
        h1 { (t("allow.title")) " " span.dim { (number(list.entries.len() as u64)) } }
        p.crumbs { a href="/console/bans" { (t("bans.title")) } }
        p.dim { (t("allow.help")) }
        form.look action="/console/bans/allowed" {
            label for="q" { (t("allow.search_label")) }
            div.row {
                input #q type="search" name="q" value=(q) maxlength="256" autocomplete="off" spellcheck="false";
                button.primary type="submit" { (t("bans.search")) }
            }
        }
        @if let Some(found) = &list.found { p.notice role="status" { (fill("allow.found", &[("value", &plain(&q, CELL)), ("source", &found)])) } }
        @if shown.is_empty() { div.empty { p { (t("allow.none")) } } } @else { (table(&visit, &shown, &back)) }
        @if visit.viewer.may(ViewerRight::Enforce) { (form(&visit, None, &back)) }
    }))
}

fn table(visit: &ConsoleVisit, entries: &[&AllowEntryJson], back: &str) -> Markup {
    let may_change = visit.viewer.may(ViewerRight::Enforce);
    html! {
        div.scroll tabindex="0" role="region" aria-label=(t("allow.title")) { table.rows.stacks {
            thead { tr {
                th scope="col" { (t("keys.value")) }
                th scope="col" { (t("allow.why")) }
                th scope="col" { (t("bans.by")) }
                th scope="col" { (t("allow.since")) }
                th scope="col" { (t("bans.until")) }
                @if may_change { th scope="col" { span.unseen { (t("allow.remove")) } } }
            } }
            tbody { @for entry in entries { tr {
                th.whole scope="row" { a href=(url("/console/keys", &[("q", &entry.value)])) { (value(&entry.value, CELL / 2)) } }
                td.whole { (value(&entry.why, CELL * 4)) }
                td { (value(&entry.by, CELL / 2)) }
                td.nowrap { (distance(entry.since.0, visit.now)) }
                td.nowrap { @match entry.until { Some(until) => { (distance(until.0, visit.now)) } None => { (t("allow.always")) } } }
                @if may_change { td { (remove_form(visit, &entry.value, back)) } }
            } } }
        } }
    }
}

fn remove_form(visit: &ConsoleVisit, of: &str, back: &str) -> Markup {
    html! {
        form method="post" action="/console/allow/remove" {
            (secret(&visit.viewer))
            input type="hidden" name="value" value=(of);
            input type="hidden" name="next" value=(back);
            button type="submit" aria-label=(fill("allow.remove_one", &[("value", &plain(of, CELL / 2))])) { (t("allow.remove")) }
        }
    }
}

/// The form that puts a value on the list: one that is known, or one that is typed.
fn form(visit: &ConsoleVisit, known: Option<&[&str]>, back: &str) -> Markup {
    html! {
        form.stacked method="post" action="/console/allow/add" {
            (secret(&visit.viewer))
            input type="hidden" name="next" value=(back);
            @match known {
                Some([one]) => { input type="hidden" name="value" value=(one); }
                Some(several) => { label { (t("bans.target")) select name="value" { @for one in several { option value=(one) { (plain(one, CELL / 2)) } } } } }
                None => { label { (t("keys.value")) input name="value" required maxlength="1024" autocomplete="off" spellcheck="false"; } }
            }
            label { (t("allow.why")) input name="why" required maxlength="500" autocomplete="off"; }
            label { (t("bans.for")) select name="lasts" { @for lasts in LENGTHS {
                option value=(lasts) { @if lasts.is_empty() { (t("allow.always")) } @else { (length(lasts.parse().unwrap_or(Span::days(1)))) } }
            } } }
            button type="submit" { (t("allow.add")) }
        }
    }
}

/// The card of values beside what else is known of them: whether one is on the list, and a form that puts it there.
pub(super) async fn card(visit: &ConsoleVisit, values: &[&str], back: &str) -> Markup {
    let mut seen = HashSet::new();
    let values: Vec<&str> = values.iter().copied().filter(|one| seen.insert(*one)).collect();
    if values.is_empty() || !visit.viewer.may(ViewerRight::ReadBans) {
        return html! {};
    }
    let plan = visit.node.engine.allow_list();
    let entries = posted_values::allow_list(State(visit.node.clone()), QueryParams(AllowParams::default()));
    let entries = entries.await.0.entries;
    let listed = values.iter().filter_map(|one| Some((*one, plan.find(one)?.to_string())));
    let listed: Vec<(&str, String)> = listed.collect();
    let others: Vec<&str> =
        values.iter().copied().filter(|one| !listed.iter().any(|(other, _)| other == one)).collect();
    let may_change = visit.viewer.may(ViewerRight::Enforce);
    html! {
        @if may_change || !listed.is_empty() { section.card {
            h2 { (t("allow.card")) }
            @for (one, source) in &listed {
                @let posted = entries.iter().find(|entry| entry.value == engine::posted_value(one));
                p { (value(one, CELL / 2)) " " span.dim { (value(source, CELL)) } }
                @if let Some(entry) = posted {
                    p.dim { (value(&entry.why, CELL * 4)) " · " (value(&entry.by, CELL / 2)) " · " (time(entry.since.0, visit.now)) }
                    @if let Some(until) = entry.until { p.dim { (t("bans.until")) " " (distance(until.0, visit.now)) } }
                    @if may_change { (remove_form(visit, &entry.value, back)) }
                }
            }
            @if may_change && !others.is_empty() {
                p.dim { (t("allow.card_help")) }
                (form(visit, Some(&others), back))
            }
        } }
    }
}

/// A value that is to be allowed.
#[derive(Deserialize)]
pub(super) struct AllowForm {
    value: String,
    why: String,
    lasts: String,
    next: Option<String>,
}

/// Puts a value on the list.
pub(super) async fn add(
    ConsoleForm { visit, form }: ConsoleForm<AllowForm>,
) -> Result<Response, PageFailure> {
    visit.need(ViewerRight::Enforce)?;
    let AllowForm { value, why, lasts, next } = form;
    let lasts = match lasts.as_str() {
        "" => None,
        text => Some(Length(text.parse().map_err(|_| INVALID_PARAMETER.failure(t("error.form")))?)),
    };
    let wanted = AllowRequest { value, why, lasts };
    let _ = posted_values::allow(State(visit.node.clone()), JsonBody(wanted)).await?;
    Ok(redirect(&done(&next_page(next), "allowed", 0)))
}

/// An entry that is to be removed.
#[derive(Deserialize)]
pub(super) struct DisallowForm {
    value: String,
    next: Option<String>,
}

/// Takes an entry off the list.
pub(super) async fn remove(
    ConsoleForm { visit, form }: ConsoleForm<DisallowForm>,
) -> Result<Response, PageFailure> {
    visit.need(ViewerRight::Enforce)?;
    let DisallowForm { value, next } = form;
    let asked = QueryParams(DisallowParams { value });
    let _ = posted_values::disallow(State(visit.node.clone()), asked).await?;
    Ok(redirect(&done(&next_page(next), "disallowed", 0)))
}
