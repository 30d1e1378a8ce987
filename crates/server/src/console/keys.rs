//! Pages of keys: what is known of an address, an account or a domain, and what can be done about it.

use std::collections::BTreeMap;

use axum::extract::State;
use axum::response::Response;
use event::{Span, Time};
use futures_util::future::join;
use journal::RecordId;
use maud::{Markup, html};
use serde::Deserialize;

use super::assets::PageScripts;
use super::charts::{TimelineChart, diverging_bar};
use super::format::{
    CELL, clock, distance, json, key_url, length, number, plain, points, signed, time, url, value,
};
use super::frame::{ConsoleSection, redirect, secret};
use super::texts::{counted, fill, t, word};
use super::visit::{ConsoleVisit, PageFailure};
use super::{allow_list, decisions, notes, related_keys};
use crate::api::{BanEntry, KeyStatisticsJson, PipelineJson, ReputationJson, TimelineJson};
use crate::core::problem::HttpFailure;
use crate::core::viewer::ViewerRight;
use crate::protocol::http::bans::{self, BanLookupParams};
use crate::protocol::http::statistics::{self, KeyLookupParams, ReputationParams, TimelineParams, TopParams};
use crate::protocol::http::{QueryParams, node};

/// Lengths of bans that are offered.
pub(super) const BAN_LENGTHS: [&str; 6] = ["1h", "4h", "1d", "7d", "30d", "365d"];
/// Counters that are drawn for each width of buckets.
const DRAWN: usize = 8;
/// Columns of a chart of which each is named for readers without it.
const ROWS: usize = 48;

/// A text that was typed into the search.
#[derive(Default, Deserialize)]
pub(super) struct FindQuery {
    #[serde(default)]
    q: String,
}

/// Leads to what was typed: a decision's page, or what is known of a value.
pub(super) async fn find(visit: ConsoleVisit) -> Result<Response, PageFailure> {
    let FindQuery { q } = visit.query()?;
    let q = q.trim();
    Ok(match q.parse::<RecordId>() {
        Ok(id) => redirect(&format!("/console/decisions/{id}")),
        Err(_) if q.is_empty() => redirect("/console/keys"),
        Err(_) => redirect(&url("/console/keys", &[("q", q)])),
    })
}

/// A look-up, or a ranking.
#[derive(Default, Deserialize)]
struct KeysQuery {
    #[serde(default)]
    q: String,
    pipeline: Option<String>,
    /// The kind whose most active keys are shown.
    kind: Option<String>,
    window: Option<String>,
    /// The reputation whose worst keys are shown.
    worst: Option<String>,
}

/// The page that looks values up.
pub(super) async fn look_up(visit: ConsoleVisit) -> Result<Response, PageFailure> {
    let query: KeysQuery = visit.query()?;
    let pipelines = node::pipelines(State(visit.node.clone())).await.0.pipelines;
    let q = query.q.trim().to_owned();
    let found = if q.is_empty() {
        html! {}
    } else {
        found(&visit, &q).await?
    };
    let ranked = ranked(&visit, &query).await?;
    let frame = visit.frame(t("keys.title"), ConsoleSection::Keys);
    Ok(frame.page(&html! {
        h1 { (t("keys.title")) }
        form.look action="/console/keys" {
            label for="q" { (t("keys.look_label")) }
            div.row {
                input #q type="search" name="q" value=(q) maxlength="1024" autocomplete="off" spellcheck="false"
                    placeholder=(t("keys.look_placeholder"));
                button.primary type="submit" { (t("keys.look")) }
            }
        }
        (found)
        @if q.is_empty() || query.kind.is_some() || query.worst.is_some() { (rankings(&pipelines, &query)) (ranked) }
    }))
}

/// The knowledge of a value, in all pipelines and kinds.
async fn found(visit: &ConsoleVisit, q: &str) -> Result<Markup, PageFailure> {
    let asked = KeyLookupParams { value: q.to_owned(), pipeline: None };
    let known = statistics::keys(State(visit.node.clone()), QueryParams(asked)).await?.0;
    let held = held(visit, q).await?;
    let back = url("/console/keys", &[("q", q)]);
    let (allowed, noted) = (allow_list::card(visit, &[q], &back).await, notes::card(visit, q, &back).await);
    // Who looks an address up mostly wants to know what was decided of it.
    let latest = match known.pipelines.iter().find_map(|of| Some((&of.pipeline, &of.keys.first()?.kind))) {
        Some((pipeline, kind)) => decisions::of_key(visit, pipeline, kind, q).await,
        None => html! {},
    };
    let all: usize = known.pipelines.iter().map(|of| of.keys.len()).sum();
    Ok(html! {
        section {
            h2 #found { (fill("keys.found", &[("value", &plain(q, CELL))])) }
            (ban_table(visit, &held, &back))
            @if all == 0 {
                div.empty { p { (t("keys.unknown")) } p.dim { (t("keys.unknown_help")) } }
            } @else {
                div.scroll tabindex="0" role="region" aria-labelledby="found" { table.rows.stacks {
                    thead { tr {
                        th scope="col" { (t("keys.kind")) }
                        th scope="col" { (t("keys.value")) }
                        th scope="col" { (t("keys.last")) }
                        th scope="col" { (t("keys.counted")) }
                    } }
                    tbody { @for of in &known.pipelines { @for key in &of.keys {
                        tr {
                            td.dim { (of.pipeline) " · " (key.kind) }
                            td { a href=(key_url(&of.pipeline, &key.kind, q)) { (value(&key.piece, CELL / 2)) } }
                            td.nowrap { @if let Some(last) = key.last { (distance(last.0, visit.now)) } }
                            td.whole { (widest(key)) }
                        }
                    } } }
                } }
            }
        }
        (latest)
        div.beside { (allowed) (noted) }
    })
}

/// The counts of a key in its longest window.
fn widest(key: &KeyStatisticsJson) -> Markup {
    let window =
        key.windows.iter().filter(|window| !window.counts.is_empty()).max_by_key(|window| window.window.0);
    html! {
        @match window {
            Some(window) => { @for (counter, count) in &window.counts {
                span.count { (counter) " " b { (number(*count)) } }
            } span.dim { " " (t("keys.in")) " " (length(window.window.0)) } }
            None => { @for (name, known) in key.values.iter().take(3) { span.count { (name) " " b { (json(known)) } } } }
        }
    }
}

/// Bans on a value, and on networks that it is in.
async fn held(visit: &ConsoleVisit, q: &str) -> Result<Vec<BanEntry>, PageFailure> {
    if !visit.viewer.may(ViewerRight::ReadBans) {
        return Ok(Vec::new());
    }
    let is_address = q.parse::<std::net::IpAddr>().is_ok();
    let asked = BanLookupParams {
        ip: is_address.then(|| q.to_owned()),
        value: (!is_address).then(|| q.to_owned()),
        decision: None,
        label: None,
        pipeline: None,
    };
    Ok(bans::lookup(State(visit.node.clone()), QueryParams(asked)).await?.0)
}

/// The choice of a ranking.
fn rankings(pipelines: &[PipelineJson], query: &KeysQuery) -> Markup {
    html! {
        section {
            h2 { (t("keys.active")) }
            p.dim { (t("keys.active_help")) }
            @for pipeline in pipelines {
                @let counted: Vec<_> = pipeline.kinds.iter().filter(|kind| !kind.counters.is_empty()).collect();
                @if !counted.is_empty() {
                    form.chips action="/console/keys" {
                        span.label { (pipeline.name) }
                        input type="hidden" name="pipeline" value=(pipeline.name);
                        @for kind in counted {
                            @let is_chosen = query.pipeline.as_ref() == Some(&pipeline.name) && query.kind.as_ref() == Some(&kind.name);
                            button.chip type="submit" name="kind" value=(kind.name) aria-pressed=[is_chosen.then_some("true")] { (kind.name) }
                        }
                    }
                }
            }
        }
    }
}

/// Says in the place of a ranking that it took too long: of many keys that lie on disk not all can be read for a page.
pub(super) fn too_many(failure: HttpFailure) -> Result<Markup, PageFailure> {
    let problem = failure.problem();
    if problem.status != 503 {
        return Err(failure.into());
    }
    Ok(html! {
        section { div.empty role="status" {
            p { (plain(&problem.detail, CELL * 4)) }
            @if let Some(help) = &problem.help { p.dim { (plain(help, CELL * 4)) } }
        } }
    })
}

/// The most active keys of a kind, or the worst by a reputation.
async fn ranked(visit: &ConsoleVisit, query: &KeysQuery) -> Result<Markup, PageFailure> {
    let pipeline = query.pipeline.clone();
    if let Some(kind) = &query.kind {
        let window = query.window.clone().or_else(|| Some("1d".to_owned()));
        let asked = TopParams { pipeline, kind: kind.clone(), counter: None, window, limit: Some(50) };
        let top = match statistics::top(State(visit.node.clone()), QueryParams(asked)).await {
            Ok(top) => top.0,
            Err(failure) => return too_many(failure),
        };
        let most = top.keys.iter().map(|key| key.count).max().unwrap_or(1).max(1) as f64;
        return Ok(html! {
            section {
                h2 #ranked { (fill("keys.ranked", &[("counter", &top.counter), ("kind", &top.kind), ("window", &length(top.window.0))])) }
                @if top.keys.is_empty() { div.empty { p { (t("keys.ranked_none")) } } } @else {
                    table.rows { tbody { @for key in &top.keys {
                        tr {
                            th scope="row" { @match &key.piece {
                                Some(piece) => { a href=(key_url(&top.pipeline, &top.kind, piece)) { (value(piece, CELL / 2)) } }
                                None => { code.dim title=(t("keys.hashed_help")) { (key.shingle) } }
                            } }
                            td.number { (number(key.count)) }
                            td.bar { (super::charts::share_bar(key.count as f64 / most)) }
                        }
                    } } }
                }
            }
        });
    }
    let Some(name) = &query.worst else { return Ok(html! {}) };
    let asked = ReputationParams {
        pipeline,
        name: name.clone(),
        order: None,
        within: Some("1d".to_owned()),
        limit: Some(50),
    };
    let worst = match statistics::reputations(State(visit.node.clone()), QueryParams(asked)).await {
        Ok(worst) => worst.0,
        Err(failure) => return too_many(failure),
    };
    Ok(html! {
        section {
            h2 { (fill("keys.worst", &[("name", &worst.reputation)])) }
            @if worst.keys.is_empty() { div.empty { p { (t("keys.ranked_none")) } } }
            table.rows { tbody { @for key in &worst.keys {
                tr {
                    th scope="row" { @match &key.piece {
                        Some(piece) => { (value(piece, CELL / 2)) }
                        None => { code.dim { (key.reputation.shingle) } }
                    } }
                    td { (grade(&key.reputation)) }
                    td.number { (points(key.reputation.score)) }
                    td.bar { (diverging_bar(key.reputation.score, 100.0)) }
                }
            } } }
        }
    })
}

/// A key.
#[derive(Deserialize)]
struct KeyQuery {
    pipeline: Option<String>,
    kind: String,
    value: String,
}

/// The page of a key.
pub(super) async fn page(visit: ConsoleVisit) -> Result<Response, PageFailure> {
    let KeyQuery { pipeline, kind, value } = visit.query()?;
    let asked = TimelineParams { pipeline, kind, value: value.clone(), from: None, to: None };
    let known = statistics::timeline(State(visit.node.clone()), QueryParams(asked)).await?.0;
    let held = held(&visit, &known.piece).await?;
    let back = key_url(&known.pipeline, &known.kind, &value);
    let title = format!("{} {}", known.kind, plain(&known.piece, CELL / 2));
    let page = KeyPage { visit: &visit, known: &known };
    let latest = decisions::of_key(&visit, &known.pipeline, &known.kind, &value);
    let related = related_keys::section(&visit, &known.pipeline, &known.kind, &value);
    let (latest, related) = join(latest, related).await;
    let allowed = allow_list::card(&visit, &[&known.piece], &back).await;
    let noted = notes::card(&visit, &known.piece, &back).await;
    let frame = visit.frame(title, ConsoleSection::Keys).with(PageScripts::Charts);
    Ok(frame.page(&html! {
        (page.head())
        div.columns {
            div.main {
                (page.reputations())
                (page.charts())
                (page.windows())
                (page.values())
                (related)
                (latest)
            }
            aside aria-label=(t("bans.title")) {
                @if visit.viewer.may(ViewerRight::ReadBans) { section.card {
                    h2 { (t("bans.active")) }
                    @if held.is_empty() { p.dim { (t("bans.none_on_key")) } } @else { (ban_table(&visit, &held, &back)) }
                } }
                @if visit.viewer.may(ViewerRight::Enforce) {
                    (ban_form(&visit, &known.pipeline, &[(&known.kind, &known.piece)], &back))
                }
                (allowed)
                (noted)
                (notes::reset_card(&visit, &known, &back))
                section.card {
                    h2 { (t("keys.elsewhere")) }
                    p { a href=(url("/console/keys", &[("q", &known.piece)])) { (t("keys.other_kinds")) } }
                    @if !visit.viewer.has_session { p { a href=(url("/v1/timeline", &[("pipeline", &known.pipeline), ("kind", &known.kind), ("value", &value)])) { (t("decision.as_json")) } } }
                }
            }
        }
    }))
}

/// A key and all that is known of it.
struct KeyPage<'a> {
    visit: &'a ConsoleVisit,
    known: &'a TimelineJson,
}

impl KeyPage<'_> {
    fn head(&self) -> Markup {
        let (known, now) = (self.known, self.visit.now);
        html! {
            div.head {
                p.crumbs { span.tag { (known.kind) } " " (known.pipeline) @if known.quality != "exact" { " " span.tag { (word("quality", &known.quality)) } } }
                h1 { (value(&known.piece, CELL * 2)) }
                dl.figures {
                    div { dt { (t("keys.first")) } dd { @match known.first {
                        Some(first) => { (time(first.0, now)) }
                        None => { (t("keys.never")) }
                    } } }
                    @if let Some(last) = known.last { div { dt { (t("keys.last")) } dd { (time(last.0, now)) } } }
                    div.dim { dt { (t("keys.hash")) } dd { code { (known.shingle) } } }
                }
            }
        }
    }

    fn reputations(&self) -> Markup {
        html! {
            @if !self.known.reputations.is_empty() {
                section {
                    h2 { (t("keys.reputations")) }
                    ul.cards { @for of in &self.known.reputations { li { (reputation(of)) } } }
                }
            }
        }
    }

    /// The counts over time: for each width of buckets a chart for each counter.
    fn charts(&self) -> Markup {
        let (known, now) = (self.known, self.visit.now);
        let opens = self.visit.viewer.may(ViewerRight::ReadContent);
        let of = [("pipeline", known.pipeline.as_str()), ("kind", &known.kind), ("value", &known.piece)];
        html! {
            section {
                h2 { (t("keys.timeline")) }
                @if known.tiers.is_empty() {
                    div.empty { p { (word("quality", if known.quality == "estimated" { "not_admitted" } else { "never" })) } }
                }
                @for tier in known.tiers.iter().rev() {
                    h3 { (fill("keys.per", &[("width", &length(tier.width.0))])) }
                    @for counter in known.counters.iter().filter(|counter| tier.buckets.iter().any(|of| of.counts.contains_key(*counter))).take(DRAWN) {
                        @let buckets: Vec<(Time, u64)> = tier.buckets.iter().filter_map(|of| Some((of.start.0, *of.counts.get(counter)?))).collect();
                        (chart(counter, tier.width.0, &buckets, now, opens.then(|| url("/console/decisions", &of))))
                    }
                }
            }
        }
    }

    fn windows(&self) -> Markup {
        let known = self.known;
        html! {
            @if known.windows.iter().any(|window| !window.counts.is_empty()) {
                section {
                    h2 #windows { (t("keys.windows")) }
                    div.scroll tabindex="0" role="region" aria-labelledby="windows" { table {
                        thead { tr {
                            th scope="col" { (t("keys.counter")) }
                            @for window in &known.windows { th.number scope="col" { (length(window.window.0)) } }
                        } }
                        tbody { @for counter in &known.counters {
                            tr {
                                th scope="row" { (counter) }
                                @for window in &known.windows {
                                    @match window.counts.get(counter) {
                                        Some(count) => { td.number { (number(*count)) } }
                                        None => { td.number.dim { "0" } }
                                    }
                                }
                            }
                        } }
                    } }
                }
            }
        }
    }

    fn values(&self) -> Markup {
        html! {
            @if !self.known.values.is_empty() {
                section {
                    h2 { (t("keys.values")) }
                    dl.facts { @for (name, known) in &self.known.values { div { dt { code { (name) } } dd { (value(&json(known), CELL)) } } } }
                }
            }
        }
    }
}

/// A chart of one counter, with its figures beside it and a table behind it.
///
/// Its columns open a page, if there is one, with their times.
fn chart(name: &str, width: Span, buckets: &[(Time, u64)], now: Time, open: Option<String>) -> Markup {
    let timeline = TimelineChart::of(width, buckets, now);
    let class =
        if ["seen", "good", "ham", "accepted", "ok"].contains(&name) { "series" } else { "series warm" };
    let (first, last) = (timeline.columns.first(), timeline.columns.last());
    let full: Vec<_> = timeline.columns.iter().filter(|column| column.count > 0).rev().take(ROWS).collect();
    html! {
        figure.chart {
            figcaption {
                span.name { (name) }
                span.dim { (fill("keys.chart_figures", &[("total", &number(timeline.total())), ("most", &number(timeline.most()))])) }
            }
            (timeline.draw(class, name, open))
            div.axis aria-hidden="true" {
                span { @if let Some(first) = first { (clock(first.start)) } }
                span { @if let Some(last) = last { (clock(last.start)) } }
            }
            details {
                summary { (counted("keys.bucket", "keys.buckets", full.len() as u64)) }
                table { tbody { @for column in full { tr { th scope="row" { (clock(column.start)) } td.number { (number(column.count)) } } } } }
            }
        }
    }
}

fn grade(reputation: &ReputationJson) -> Markup {
    html! { span.badge.{ "grade-" (reputation.grade) } { (word("grade", &reputation.grade)) } }
}

/// A reputation with its reasons.
pub(super) fn reputation(of: &ReputationJson) -> Markup {
    let extreme = of.reasons.iter().map(|reason| reason.adds.abs()).fold(1.0, f64::max);
    html! {
        div.reputation {
            p { (grade(of)) " " b.big { (points(of.score)) } " " span.dim { (of.name) } }
            (diverging_bar(of.score, 100.0))
            @if of.reasons.is_empty() { p.dim { (t("keys.no_evidence")) } } @else {
                table.parts { tbody { @for reason in &of.reasons {
                    tr {
                        th scope="row" { (value(&reason.part, CELL / 2)) " " span.dim { (word("origin", &reason.source)) } }
                        td.number { (points(reason.amount)) }
                        td.number { (signed(reason.adds)) }
                        td.bar { (diverging_bar(reason.adds, extreme)) }
                    }
                } } }
            }
            @if !of.history.is_empty() {
                p.dim { (t("keys.before")) @for past in &of.history { " " (points(past.score)) " (" (fill("time.ago", &[("length", &length(past.ago.0))])) ")" } }
            }
        }
    }
}

/// Bans in a table, each with a button that lifts it.
pub(super) fn ban_table(visit: &ConsoleVisit, bans: &[BanEntry], back: &str) -> Markup {
    let may_lift = visit.viewer.may(ViewerRight::Enforce);
    html! {
        @if !bans.is_empty() {
            div.scroll tabindex="0" role="region" aria-label=(t("bans.title")) { table.rows {
                thead { tr {
                    th scope="col" { (t("keys.value")) }
                    th scope="col" { (t("bans.what")) }
                    th scope="col" { (t("bans.by")) }
                    th scope="col" { (t("bans.since")) }
                    th scope="col" { (t("bans.until")) }
                    @if may_lift { th scope="col" { span.unseen { (t("bans.lift")) } } }
                } }
                tbody { @for ban in bans {
                    tr {
                        td { a href=(key_url(&ban.pipeline, &ban.kind, &ban.value)) { (value(&ban.value, CELL / 2)) } " " span.dim { (ban.kind) } }
                        td { span.badge.ban { (ban.decision) } " " span.dim { (ban.label) } }
                        td { (ban_origin(ban)) }
                        td.nowrap { (distance(ban.since.0, visit.now)) }
                        td.nowrap { (distance(ban.until.0, visit.now)) }
                        @if may_lift { td { form method="post" action="/console/bans/lift" {
                            (secret(&visit.viewer))
                            input type="hidden" name="value" value=(ban.value);
                            input type="hidden" name="next" value=(back);
                            button type="submit" aria-label=(fill("bans.lift_one", &[("value", &plain(&ban.value, CELL / 2))])) { (t("bans.lift")) }
                        } } }
                    }
                } }
            } }
        }
    }
}

/// The rule of a ban with a way to its decision, or who banned by hand and why.
fn ban_origin(ban: &BanEntry) -> Markup {
    html! {
        @match &ban.decision_id {
            Some(id) => { a href={ "/console/decisions/" (id) } { (value(&ban.by, CELL / 2)) } }
            None => { (value(&ban.by, CELL / 2)) }
        }
        " " span.dim { (ban.pipeline) }
        @if let Some(why) = &ban.why { br; span.dim { (value(why, CELL)) } }
    }
}

/// The form that puts a label with a decision on one of these keys.
pub(super) fn ban_form(visit: &ConsoleVisit, pipeline: &str, keys: &[(&str, &str)], back: &str) -> Markup {
    let plan = visit.node.engine.plan();
    let Some(plan) = plan.pipeline(Some(pipeline)) else { return html! {} };
    let mut targets: BTreeMap<String, String> = BTreeMap::new();
    for label in &plan.labels {
        let kind = &plan.kinds[label.of].name;
        let Some(decision) = &label.decision else { continue };
        for (_, piece) in keys.iter().filter(|(own, _)| own == kind) {
            let target = serde_json::json!([kind, label.name, piece]).to_string();
            targets.insert(target, format!("{} · {kind} {} ({})", decision, plain(piece, 48), label.name));
        }
    }
    html! {
        section.card {
            h2 { (t("bans.add")) }
            @if targets.is_empty() {
                p.dim { (t("bans.no_labels")) }
            } @else {
                form.stacked method="post" action="/console/bans/add" {
                    (secret(&visit.viewer))
                    input type="hidden" name="pipeline" value=(pipeline);
                    input type="hidden" name="next" value=(back);
                    label { (t("bans.target")) select name="target" { @for (target, text) in &targets { option value=(target) { (text) } } } }
                    label { (t("bans.for")) select name="lasts" { @for lasts in BAN_LENGTHS {
                        option value=(lasts) selected[lasts == "1d"] { (length(lasts.parse().unwrap_or(Span::days(1)))) }
                    } } }
                    label { (t("bans.why")) input type="text" name="why" maxlength="250"; }
                    button.danger type="submit" { (t("bans.ban")) }
                    p.dim { (t("bans.keep_help")) }
                }
            }
        }
    }
}
