//! The page on how reviewers agree: each, each pair, and what was decided both ways.

use std::collections::HashMap;

use axum::extract::State;
use axum::response::Response;
use event::Span;
use maud::{Markup, html};
use serde::Deserialize;

use super::decisions::absent;
use super::format::{CELL, key_url, length, number, percent, plain, points, url, value};
use super::frame::ConsoleSection;
use super::reviews::{ReviewContext, events};
use super::texts::t;
use super::visit::{ConsoleVisit, PageFailure};
use crate::api::{ExplanationJson, ReviewAgreementJson, UnequalKeyJson};
use crate::core::viewer::ViewerRight;
use crate::protocol::http::reviews::{self, ReviewAgreementParams};
use crate::protocol::http::{QueryParams, node};

/// Keys and sets of rules that are shown.
const GROUPS: usize = 20;

/// The pipeline whose reviewers are compared; empty for all.
#[derive(Default, Deserialize)]
#[serde(default)]
struct AgreementQuery {
    pipeline: String,
}

/// The page.
pub(super) async fn page(visit: ConsoleVisit) -> Result<Response, PageFailure> {
    let AgreementQuery { pipeline } = visit.query()?;
    let asked = ReviewAgreementParams { pipeline: Some(pipeline.clone()).filter(|name| !name.is_empty()) };
    let mut all = reviews::agreement(State(visit.node.clone()), None, QueryParams(asked)).await?.0;
    all.unequal.truncate(GROUPS);
    all.rule_sets.retain(|of| of.publish.min(of.refuse) > 0);
    all.rule_sets.truncate(GROUPS);
    let pipelines = node::pipelines(State(visit.node.clone())).await.0.pipelines;
    let values = values(&visit, &all.unequal).await;
    let frame = visit.frame(t("agreement.title"), ConsoleSection::Reviews);
    let at = |name: &str| {
        url("/console/reviews/agreement", &Vec::from_iter((!name.is_empty()).then_some(("pipeline", name))))
    };
    Ok(frame.page(&html! {
        p.crumbs { a href="/console/reviews" { (t("review.queue")) } }
        div.head {
            h1 { (t("agreement.title")) }
            @if pipelines.len() > 1 {
                nav.tabs aria-label=(t("common.pipeline")) {
                    a href=(at("")) aria-current=[pipeline.is_empty().then_some("true")] { (t("decisions.all_pipelines")) }
                    @for one in &pipelines { a href=(at(&one.name)) aria-current=[(one.name == pipeline).then_some("true")] { (one.name) } }
                }
            }
        }
        (absent(&all.absent))
        @if all.partial { p.error role="status" { (t("agreement.partial")) } }
        @if all.reviews == 0 {
            div.empty { p { (t("agreement.none")) } p.dim { (t("agreement.none_help")) } }
        } @else {
            (figures(&all))
            (reviewers(&all))
            (pairs(&all))
            (unequal(&visit, &all, &values))
            (rule_sets(&all))
        }
    }))
}

/// The values of keys, by the id of the decision that has them.
async fn values<'k>(visit: &ConsoleVisit, keys: &'k [UnequalKeyJson]) -> HashMap<&'k str, ExplanationJson> {
    if !visit.viewer.may(ViewerRight::ReadContent) {
        return HashMap::new();
    }
    let mut ids: Vec<&str> = keys.iter().map(|key| key.refused.as_str()).collect();
    ids.sort_unstable();
    ids.dedup();
    let events = events(visit, &ids).await;
    ids.into_iter().zip(events).filter_map(|(id, event)| Some((id, event?))).collect()
}

fn share(part: u64, all: u64) -> String {
    if all == 0 { t("agreement.no_share").to_owned() } else { percent(part as f64 / all as f64) }
}

fn figures(all: &ReviewAgreementJson) -> Markup {
    html! {
        dl.figures {
            div { dt { (t("agreement.reviews")) } dd { (number(all.reviews)) } }
            div { dt { (t("agreement.published")) } dd { (share(all.publish, all.reviews)) } }
            div { dt { (t("agreement.lead")) } dd { (share(all.escalated, all.reviews)) " " span.dim { (number(all.escalated)) } } }
            div { dt { (t("agreement.in_time")) } dd { (share(all.in_time, all.reviews)) } }
        }
    }
}

fn reviewers(all: &ReviewAgreementJson) -> Markup {
    let median = |seconds: f64| length(Span((seconds * 1e6) as i64));
    html! {
        section {
            h2 #reviewers { (t("agreement.reviewers")) }
            @if all.reviewers.is_empty() { p.dim { (t("agreement.no_votes")) } } @else {
                div.scroll tabindex="0" role="region" aria-labelledby="reviewers" { table.rows {
                    thead { tr {
                        th scope="col" { (t("agreement.reviewer")) }
                        th.number scope="col" { (t("agreement.votes")) }
                        th.number scope="col" { (t("agreement.agreed")) }
                        th.number scope="col" { (t("agreement.overturned")) }
                        th.number scope="col" { (t("agreement.median")) }
                    } }
                    tbody { @for of in &all.reviewers { tr {
                        th scope="row" { (value(&of.by, CELL / 2)) }
                        td.number { (number(of.votes)) }
                        td.number { (share(of.agreed, of.votes)) }
                        td.number { (number(of.overturned)) }
                        td.number { @match of.median_seconds { Some(seconds) => (median(seconds)), None => (t("agreement.no_share")) } }
                    } } }
                } }
            }
        }
    }
}

fn pairs(all: &ReviewAgreementJson) -> Markup {
    html! {
        section {
            h2 #pairs { (t("agreement.pairs")) }
            @if all.pairs.is_empty() { p.dim { (t("agreement.no_pairs")) } } @else {
                p.dim { (t("agreement.pairs_help")) }
                div.scroll tabindex="0" role="region" aria-labelledby="pairs" { table.rows {
                    thead { tr {
                        th scope="col" { (t("agreement.reviewer")) }
                        th scope="col" { (t("agreement.other")) }
                        th.number scope="col" { (t("agreement.shared")) }
                        th.number scope="col" { (t("agreement.same")) }
                        th.number scope="col" { (t("agreement.kappa")) }
                        th.number scope="col" { (t("agreement.only_first")) }
                        th.number scope="col" { (t("agreement.only_other")) }
                    } }
                    tbody { @for of in &all.pairs { tr {
                        th scope="row" { (value(&of.first, CELL / 2)) }
                        td { (value(&of.second, CELL / 2)) }
                        td.number { (number(of.shared)) }
                        td.number { (percent(of.agreement)) }
                        td.number { @match of.kappa { Some(kappa) => (points(kappa)), None => span.dim { (t("agreement.undefined")) } } }
                        td.number { (number(of.only_first)) }
                        td.number { (number(of.only_second)) }
                    } } }
                } }
            }
        }
    }
}

/// Keys that were decided both ways, with the latest review of each verdict.
fn unequal(
    visit: &ConsoleVisit,
    all: &ReviewAgreementJson,
    values: &HashMap<&str, ExplanationJson>,
) -> Markup {
    let link =
        |id: &str| html! { a href={ "/console/reviews/" (plain(id, CELL)) } { code { (plain(id, CELL)) } } };
    html! {
        section {
            h2 #unequal { (t("agreement.unequal")) }
            @if all.unequal.is_empty() { p.dim { (t("agreement.all_alike")) } } @else {
                p.dim { (t("agreement.unequal_help")) }
                div.scroll tabindex="0" role="region" aria-labelledby="unequal" { table.rows {
                    thead { tr {
                        th scope="col" { (t("keys.kind")) }
                        th scope="col" { (t("keys.value")) }
                        th.number scope="col" { (t("agreement.published")) }
                        th.number scope="col" { (t("agreement.refused")) }
                        th scope="col" { (t("agreement.latest_published")) }
                        th scope="col" { (t("agreement.latest_refused")) }
                    } }
                    tbody { @for of in &all.unequal {
                        @let event = values.get(of.refused.as_str()).cloned();
                        @let context = ReviewContext { event, keys: Vec::new() };
                        tr {
                            td.dim { (of.kind) }
                            @match context.piece(&of.kind, &of.shingle).filter(|_| visit.viewer.may(ViewerRight::ReadContent)) {
                                Some(piece) => { td { a href=(key_url(&of.pipeline, &of.kind, piece)) { (value(piece, CELL / 2)) } } }
                                None => { td { span.dim title=(t("keys.hashed_help")) { code { (plain(&of.shingle, CELL)) } } } }
                            }
                            td.number { (number(of.publish)) }
                            td.number { (number(of.refuse)) }
                            td { (link(&of.published)) }
                            td { (link(&of.refused)) }
                        }
                    } }
                } }
            }
        }
    }
}

/// Sets of rules on which reviewers have decided both ways.
fn rule_sets(all: &ReviewAgreementJson) -> Markup {
    html! {
        @if !all.rule_sets.is_empty() {
            section {
                h2 #rule-sets { (t("agreement.rules")) }
                p.dim { (t("agreement.rules_help")) }
                div.scroll tabindex="0" role="region" aria-labelledby="rule-sets" { table.rows {
                    thead { tr {
                        th scope="col" { (t("agreement.fired")) }
                        th scope="col" { (t("common.pipeline")) }
                        th.number scope="col" { (t("agreement.published")) }
                        th.number scope="col" { (t("agreement.refused")) }
                    } }
                    tbody { @for of in &all.rule_sets { tr {
                        th scope="row" {
                            @if of.rules.is_empty() { span.dim { (t("agreement.no_rules")) } }
                            @for (index, rule) in of.rules.iter().enumerate() { @if index > 0 { ", " } (value(rule, CELL / 2)) }
                        }
                        td.dim { (plain(&of.pipeline, CELL)) }
                        td.number { (number(of.publish)) }
                        td.number { (number(of.refuse)) }
                    } } }
                } }
            }
        }
    }
}
