//! Pages of limits: how full they are, who is near or over them, and for whom they are others.

use axum::extract::{Path, State};
use axum::response::Response;
use event::Span;
use maud::{Markup, html};
use serde::Deserialize;

use super::charts::share_bar;
use super::format::{CELL, distance, length, number, percent, plain, url, value};
use super::frame::{ConsoleSection, done, redirect, secret};
use super::keys::too_many;
use super::texts::{fill, t, word};
use super::visit::{ConsoleForm, ConsoleVisit, PageFailure};
use crate::api::{
    FullKeyJson, FullestKeysJson, LimitInfo, LimitOverride, LimitReset, LimitValues, Timestamp,
};
use crate::core::problem::{HttpFailure, INVALID_PARAMETER, NOT_FOUND};
use crate::core::viewer::ViewerRight;
use crate::protocol::http::limits::{self, FullestParams};
use crate::protocol::http::{JsonBody, QueryParams};

/// Keys of each limit that are counted as near, full or banned.
const COUNTED: usize = 100;
/// Exceptions on a page.
const EXCEPTIONS: usize = 200;
/// The share from which on a key is near a limit.
const NEAR: f64 = 0.8;
/// The lengths of time for which exceptions can be made.
const LENGTHS: [&str; 5] = ["", "1h", "1d", "7d", "30d"];

/// The state of a key at a limit, the worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Nearness {
    Banned,
    Full,
    Near,
}

impl Nearness {
    const ALL: [Nearness; 3] = [Nearness::Banned, Nearness::Full, Nearness::Near];

    fn of(key: &FullKeyJson) -> Option<Nearness> {
        match key.banned_until {
            Some(_) => Some(Nearness::Banned),
            None if key.share >= 1.0 => Some(Nearness::Full),
            None => (key.share >= NEAR).then_some(Nearness::Near),
        }
    }

    fn text(self) -> &'static str {
        match self {
            Nearness::Banned => t("limits.banned"),
            Nearness::Full => t("limits.full"),
            Nearness::Near => t("limits.near"),
        }
    }
}

/// The limits of the node, and how full they are.
pub(super) async fn page(visit: ConsoleVisit) -> Result<Response, PageFailure> {
    let all = limits::limits(State(visit.node.clone())).await.0;
    let asked = FullestParams { name: None, limit: Some(COUNTED) };
    let (fills, failed) = match limits::fullest(State(visit.node.clone()), QueryParams(asked)).await {
        Ok(fills) => (fills.0, None),
        Err(failure) => (Vec::new(), Some(too_many(failure)?)),
    };
    let frame = visit.frame(t("limits.title"), ConsoleSection::Limits);
    Ok(frame.page(&html! {
        h1 { (t("limits.title")) " " span.dim { (number(all.len() as u64)) } }
        @if all.is_empty() {
            div.empty { p { (t("limits.none")) } p.dim { (t("limits.none_help")) } }
        } @else {
            @if let Some(failed) = failed { (failed) }
            div.scroll tabindex="0" role="region" aria-label=(t("limits.title")) { table.rows {
                thead { tr {
                    th scope="col" { (t("limits.name")) }
                    th scope="col" { (t("limits.key")) }
                    th.number scope="col" { (t("limits.count")) }
                    th scope="col" { (t("limits.window")) }
                    th scope="col" { (t("limits.mode")) }
                    th.bar scope="col" { (t("limits.fill")) }
                    th scope="col" { (t("limits.who")) }
                    th.number scope="col" { (t("limits.overrides")) }
                } }
                tbody { @for limit in &all {
                    (row(limit, fills.iter().find(|fill| fill.limit == limit.name)))
                } }
            } }
            p.dim { (t("limits.near_help")) }
        }
    }))
}

fn row(limit: &LimitInfo, fill: Option<&FullestKeysJson>) -> Markup {
    let keys = fill.map(|fill| fill.keys.as_slice()).unwrap_or_default();
    let fullest = keys.iter().map(|key| key.share).max_by(f64::total_cmp);
    html! {
        tr {
            th scope="row" {
                a.row-link href=(limit_url(&limit.name)) { b { (limit.name) } }
                span.description { (value(&limit.description, CELL)) }
                @if let Some(when) = &limit.when { span.description { code { (when) } } }
            }
            td { (limit.key.join(" + ")) }
            td.number { (number(limit.count)) }
            td.nowrap { (length(Span((limit.window * 1e6) as i64))) }
            td { (word("mode", &limit.mode)) " " span.dim { (limit.enforcement) } }
            td.bar { @if let Some(share) = fullest { (share_bar(share.min(1.0))) " " span.dim { (percent(share)) } } }
            td { @if fill.is_some() { (who_is_near(keys)) } }
            td.number { (limit.overrides) }
        }
    }
}

/// The numbers of keys that are banned, full and near.
fn who_is_near(keys: &[FullKeyJson]) -> Markup {
    // Where all that were asked for are near there may be more.
    let is_cut = keys.len() >= COUNTED && keys.last().is_some_and(|key| Nearness::of(key).is_some());
    let last = keys.last().and_then(Nearness::of);
    let counts = Nearness::ALL
        .map(|state| (state, keys.iter().filter(|key| Nearness::of(key) == Some(state)).count() as u64));
    html! {
        @if counts.iter().all(|(_, count)| *count == 0) { span.dim { (t("limits.nobody")) } }
        @for (state, count) in counts.iter().filter(|(_, count)| *count > 0) {
            @let text = if is_cut && last == Some(*state) { "limits.counted_more" } else { "limits.counted" };
            span.tag.late[*state != Nearness::Near] { (fill(text, &[("n", &number(*count)), ("state", &state.text())])) } " "
        }
    }
}

fn limit_url(name: &str) -> String {
    url("/console/limits/limit", &[("name", name)])
}

/// The fields of a limit's page or form: its name, and the values of a key in the order of its fields.
#[derive(Debug, Deserialize)]
#[serde(transparent)]
pub(super) struct LimitFields(Vec<(String, String)>);

impl LimitFields {
    fn all(&self, name: &'static str) -> impl Iterator<Item = &str> {
        self.0.iter().filter(move |(own, _)| own == name).map(|(_, text)| text.as_str())
    }

    fn one(&self, name: &'static str) -> &str {
        self.all(name).next().unwrap_or_default().trim()
    }

    /// A key of these fields, of which there are as many values.
    fn key(&self, fields: &[String]) -> Result<LimitValues, HttpFailure> {
        let values: Vec<&str> = self.all("value").collect();
        if values.len() != fields.len() {
            return Err(INVALID_PARAMETER.failure(t("error.form")));
        }
        Ok(fields.iter().cloned().zip(values.into_iter().map(serde_json::Value::from)).collect())
    }
}

/// Finds the limit that a page or a form is about, and the fields that a key needs to be reset: its own, and those of limits that are
/// taken with it.
async fn named(visit: &ConsoleVisit, name: &str) -> Result<(LimitInfo, Vec<String>), HttpFailure> {
    let all = limits::limits(State(visit.node.clone())).await.0;
    let known = |name: &str| all.iter().find(|limit| limit.name == name);
    let limit = known(name)
        .cloned()
        .ok_or_else(|| NOT_FOUND.failure(fill("limits.gone", &[("name", &plain(name, CELL / 2))])))?;
    let mut together: Vec<&LimitInfo> = known(name).into_iter().collect();
    let mut fields: Vec<String> = Vec::new();
    let mut at = 0;
    while let Some(limit) = together.get(at).copied() {
        for field in &limit.key {
            if !fields.contains(field) {
                fields.push(field.clone());
            }
        }
        for also in limit.also.iter().filter_map(|name| known(name)) {
            if !together.iter().any(|limit| limit.name == also.name) {
                together.push(also);
            }
        }
        at += 1;
    }
    Ok((limit, fields))
}

/// The values of a key as texts, in the order of the limit's fields.
fn texts(limit: &LimitInfo, key: &LimitValues) -> Vec<String> {
    limit.key.iter().map(|field| key.get(field).map(super::format::json).unwrap_or_default()).collect()
}

/// A limit: its fullest keys, and its exceptions.
pub(super) async fn limit(visit: ConsoleVisit) -> Result<Response, PageFailure> {
    let query: LimitFields = visit.query()?;
    let (limit, fields) = named(&visit, query.one("name")).await?;
    let asked = FullestParams { name: Some(limit.name.clone()), limit: Some(COUNTED) };
    let fullest = match limits::fullest(State(visit.node.clone()), QueryParams(asked)).await {
        Ok(fills) => fullest(&visit, &limit, fields == limit.key, fills.0.first()),
        Err(failure) => too_many(failure)?,
    };
    let exceptions = limits::overrides(State(visit.node.clone()), Path(limit.name.clone())).await?.0;
    let may_change = visit.viewer.may(ViewerRight::Rules);
    let frame = visit.frame(fill("limits.one", &[("name", &limit.name)]), ConsoleSection::Limits);
    Ok(frame.page(&html! {
        h1 { (fill("limits.one", &[("name", &limit.name)])) }
        @if !limit.description.is_empty() { p { (value(&limit.description, CELL * 4)) } }
        p.dim {
            (t("limits.key")) " " (limit.key.join(" + ")) " · " (t("limits.count")) " " (number(limit.count)) " · "
            (t("limits.window")) " " (length(Span((limit.window * 1e6) as i64))) " · " (word("mode", &limit.mode)) " · " (limit.enforcement)
            @if let Some(when) = &limit.when { " · " code { (when) } }
        }
        section {
            h2 { (t("limits.fullest")) }
            (fullest)
        }
        @if may_change {
            section.card {
                h2 { (t("limits.reset_title")) }
                form.stacked method="post" action="/console/limits/reset" {
                    (secret(&visit.viewer))
                    input type="hidden" name="name" value=(limit.name);
                    (key_fields(&fields, &[]))
                    button.danger type="submit" { (t("limits.reset")) }
                    p.dim { (t("limits.reset_help")) @if !limit.also.is_empty() { " " (fill("limits.reset_also", &[("names", &limit.also.join(", "))])) } }
                }
            }
        }
        section {
            h2 { (t("limits.exceptions")) " " span.dim { (number((exceptions.overrides.len() + exceptions.configured.len()) as u64)) } }
            (exception_table(&visit, &limit, &exceptions.overrides, &exceptions.configured))
        }
        @if may_change { (exception_form(&visit, &limit, &query)) }
    }))
}

/// The fullest keys, each with a button that resets it, if its values are all that this takes.
fn fullest(
    visit: &ConsoleVisit,
    limit: &LimitInfo,
    is_reset_by_key: bool,
    fill: Option<&FullestKeysJson>,
) -> Markup {
    let may_reset = visit.viewer.may(ViewerRight::Rules) && is_reset_by_key;
    let Some(of) = fill else { return html! { div.empty { p { (t("limits.is_off")) } } } };
    html! {
        @if of.keys.is_empty() {
            div.empty { p { (t("limits.fullest_none")) } }
        } @else {
            div.scroll tabindex="0" role="region" aria-label=(t("limits.fullest")) { table.rows.stacks {
                thead { tr {
                    th scope="col" { (limit.key.join(" + ")) }
                    th scope="col" { (t("limits.used")) }
                    th.bar scope="col" { (t("limits.share")) }
                    th scope="col" { (t("limits.state")) }
                    @if may_reset { th scope="col" { span.unseen { (t("limits.actions")) } } }
                } }
                tbody { @for key in &of.keys {
                    @let values = key.key.as_ref().map(|key| texts(limit, key));
                    tr {
                        th.whole scope="row" { @match &values {
                            Some(values) => { (key_of(values)) }
                            None => { code.dim title=(t("limits.hashed_help")) { (key.shingle) } }
                        } }
                        td.nowrap { (self::fill("limits.used_of", &[("used", &number(key.used)), ("quota", &number(key.quota))])) }
                        td.bar { (share_bar(key.share.min(1.0))) " " span.dim { (percent(key.share)) } }
                        td {
                            @if let Some(state) = Nearness::of(key) { span.tag.late[state != Nearness::Near] { (state.text()) } " " }
                            @if let Some(until) = key.banned_until { span.dim { (t("limits.ends")) " " (distance(until.0, visit.now)) " " } }
                            @if key.overridden { span.tag { (t("limits.excepted")) } }
                        }
                        @if may_reset { td { @if let Some(values) = &values { form method="post" action="/console/limits/reset" {
                            (secret(&visit.viewer))
                            (hidden_key(limit, values))
                            button type="submit" aria-label=(self::fill("limits.reset_one", &[("key", &label_of(values))])) { (t("limits.reset")) }
                        } } } }
                    }
                } }
            } }
            p.dim { (t("limits.hashed_help")) }
        }
    }
}

/// The values of a key in a table.
fn key_of(values: &[String]) -> Markup {
    html! { @for (index, text) in values.iter().enumerate() { @if index > 0 { " + " } (value(text, CELL / 2)) } }
}

/// The values of a key in the name of a button.
fn label_of(values: &[String]) -> String {
    values.iter().map(|text| plain(text, CELL / 4)).collect::<Vec<_>>().join(" + ")
}

/// The name of a limit and the values of a key, to be sent as they are.
fn hidden_key(limit: &LimitInfo, values: &[String]) -> Markup {
    html! {
        input type="hidden" name="name" value=(limit.name);
        @for text in values { input type="hidden" name="value" value=(text); }
    }
}

/// The values of a key, to be entered.
fn key_fields(fields: &[String], values: &[&str]) -> Markup {
    html! { @for (index, field) in fields.iter().enumerate() {
        label { (field) input name="value" required maxlength="1024" autocomplete="off" spellcheck="false" value=(values.get(index).copied().unwrap_or_default()); }
    } }
}

fn exception_table(
    visit: &ConsoleVisit,
    limit: &LimitInfo,
    posted: &[LimitOverride],
    configured: &[LimitOverride],
) -> Markup {
    let may_change = visit.viewer.may(ViewerRight::Rules);
    let all = posted.len() + configured.len();
    let rows = posted.iter().rev().map(|one| (true, one)).chain(configured.iter().map(|one| (false, one)));
    html! {
        @if all == 0 { div.empty { p { (t("limits.exceptions_none")) } } } @else {
            div.scroll tabindex="0" role="region" aria-label=(t("limits.exceptions")) { table.rows.stacks {
                thead { tr {
                    th scope="col" { (limit.key.join(" + ")) }
                    th scope="col" { (t("limits.count")) }
                    th scope="col" { (t("limits.until")) }
                    th scope="col" { (t("limits.by")) }
                    @if may_change { th scope="col" { span.unseen { (t("limits.actions")) } } }
                } }
                tbody { @for (is_posted, one) in rows.take(EXCEPTIONS) {
                    @let values = texts(limit, &one.key);
                    tr {
                        th.whole scope="row" { (key_of(&values)) }
                        td.nowrap { @match one.count.filter(|_| !one.exempt) { Some(count) => { (number(count)) } None => { (t("limits.free")) } } }
                        td.nowrap { @match one.until { Some(until) => { (distance(until.0, visit.now)) } None => { span.dim { (t("limits.always")) } } } }
                        td { @if is_posted { (t("limits.by_post")) } @else { span.dim { (t("limits.by_config")) } } }
                        @if may_change { td { div.buttons {
                            a.button href=(change_url(limit, one, &values)) aria-label=(fill("limits.change_one", &[("key", &label_of(&values))])) { (t("limits.change")) }
                            @if is_posted { form method="post" action="/console/limits/override" {
                                (secret(&visit.viewer))
                                (hidden_key(limit, &values))
                                button type="submit" name="do" value="remove" aria-label=(fill("limits.take_out_one", &[("key", &label_of(&values))])) { (t("limits.take_out")) }
                            } }
                        } } }
                    }
                } }
            } }
            @if all > EXCEPTIONS { p.dim { (fill("limits.exceptions_shown", &[("n", &number(EXCEPTIONS as u64)), ("all", &number(all as u64))])) } }
        }
    }
}

/// The page with the form filled in with an exception.
fn change_url(limit: &LimitInfo, one: &LimitOverride, values: &[String]) -> String {
    let count = one.count.filter(|_| !one.exempt).map(|count| count.to_string()).unwrap_or_default();
    let mut params = vec![("name", limit.name.as_str()), ("count", count.as_str())];
    params.extend(values.iter().map(|text| ("value", text.as_str())));
    url("/console/limits/limit", &params) + "#except"
}

fn exception_form(visit: &ConsoleVisit, limit: &LimitInfo, query: &LimitFields) -> Markup {
    let values: Vec<&str> = query.all("value").take(limit.key.len()).collect();
    html! {
        section.card {
            h2 #except { (t("limits.except_title")) }
            form.stacked method="post" action="/console/limits/override" {
                (secret(&visit.viewer))
                input type="hidden" name="name" value=(limit.name);
                (key_fields(&limit.key, &values))
                label { (t("limits.except_count")) input type="number" name="count" min="0" max="9007199254740991" step="1" value=(query.one("count")); }
                label { (t("limits.except_for")) select name="lasts" { @for lasts in LENGTHS {
                    option value=(lasts) { @match lasts.parse() { Ok(lasts) => { (length(lasts)) } Err(_) => { (t("limits.always")) } } }
                } } }
                button.primary type="submit" name="do" value="keep" { (t("limits.keep")) }
                p.dim { (t("limits.except_help")) }
            }
        }
    }
}

/// Makes an exception, changes it, or takes it away.
pub(super) async fn except(
    ConsoleForm { visit, form }: ConsoleForm<LimitFields>,
) -> Result<Response, PageFailure> {
    visit.need(ViewerRight::Rules)?;
    let unfit = || INVALID_PARAMETER.failure(t("error.form"));
    let (limit, _) = named(&visit, form.one("name")).await?;
    let is_to_keep = match form.one("do") {
        "keep" => true,
        "remove" => false,
        _ => return Err(unfit().into()),
    };
    let count = form.one("count");
    let count = (is_to_keep && !count.is_empty()).then(|| count.parse::<u64>()).transpose();
    let count = count.map_err(|_| unfit())?;
    let lasts = form.one("lasts");
    let lasts = (is_to_keep && !lasts.is_empty()).then(|| lasts.parse::<Span>()).transpose();
    let lasts = lasts.map_err(|_| unfit())?;
    let wanted = LimitOverride {
        key: form.key(&limit.key)?,
        count,
        exempt: is_to_keep && count.is_none(),
        until: lasts.map(|lasts| Timestamp(visit.now + lasts)),
    };
    let (node, name) = (State(visit.node.clone()), Path(limit.name.clone()));
    let _ = limits::put_override(node, name, JsonBody(wanted)).await?;
    let word = if is_to_keep { "limit_excepted" } else { "limit_unexcepted" };
    Ok(redirect(&done(&limit_url(&limit.name), word, 0)))
}

/// Makes a key as if it had used nothing.
pub(super) async fn reset(
    ConsoleForm { visit, form }: ConsoleForm<LimitFields>,
) -> Result<Response, PageFailure> {
    visit.need(ViewerRight::Rules)?;
    let (limit, fields) = named(&visit, form.one("name")).await?;
    let wanted = LimitReset { key: form.key(&fields)?, used: 0 };
    let (node, name) = (State(visit.node.clone()), Path(limit.name.clone()));
    let _ = limits::reset(node, name, JsonBody(wanted)).await?;
    Ok(redirect(&done(&limit_url(&limit.name), "limit_reset", 0)))
}
