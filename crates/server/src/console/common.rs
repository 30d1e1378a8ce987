//! The page of what decisions have in common: which facts they share that others before them do not, and the way to a rule.

use axum::extract::State;
use axum::response::Response;
use maud::{Markup, html};

use super::decisions::{DecisionsQuery, absent};
use super::format::{CELL, json, number, percent, plain, url, value};
use super::frame::ConsoleSection;
use super::texts::{counted, fill, t};
use super::visit::{ConsoleVisit, PageFailure};
use crate::api::{CommonFactJson, CommonFactsJson};
use crate::core::viewer::ViewerRight;
use crate::protocol::http::{decisions, node};

/// The page.
pub(super) async fn page(visit: ConsoleVisit) -> Result<Response, PageFailure> {
    visit.need(ViewerRight::ReadContent)?;
    let query: DecisionsQuery = visit.query()?;
    let pipelines = node::pipelines(State(visit.node.clone())).await.0.pipelines;
    let found = decisions::common_of_all(&visit.node, query.filter(&visit)?).await?;
    let frame = visit.frame(t("shared.title"), ConsoleSection::Decisions);
    Ok(frame.page(&html! {
        h1 { (t("shared.title")) }
        p.crumbs { a href=(url("/console/decisions", &query.params())) { (t("decisions.title")) } }
        (super::decisions::form(&query, &pipelines, "/console/decisions/common"))
        (absent(&found.absent))
        p.dim {
            (counted("shared.of_one", "shared.of", found.decisions)) " "
            (fill("shared.others", &[("n", &number(found.others))]))
            @if found.partial { " " (t("shared.partial")) }
        }
        @if found.facts.is_empty() { div.empty { p { (t("shared.none")) } p.dim { (t("shared.none_help")) } } }
        @else { (table(&visit, &query, &found)) }
    }))
}

fn table(visit: &ConsoleVisit, query: &DecisionsQuery, found: &CommonFactsJson) -> Markup {
    let share = |count: u64, of: u64| percent(count as f64 / of.max(1) as f64);
    // The search with one more condition.
    let narrowed = |fact: &CommonFactJson| {
        let condition = match query.r#where.trim() {
            "" => fact.condition.clone(),
            before => format!("({before}) && {}", fact.condition),
        };
        let mut params = query.params();
        params.retain(|(name, _)| !["where", "pipeline"].contains(name));
        params.push(("pipeline", &found.pipeline));
        params.push(("where", &condition));
        url("/console/decisions", &params)
    };
    html! {
        div.scroll tabindex="0" role="region" aria-label=(t("shared.title")) { table.rows.stacks {
            thead { tr {
                th scope="col" { (t("shared.fact")) }
                th scope="col" { (t("shared.value")) }
                th.number scope="col" { (t("shared.these")) }
                th.number scope="col" { (t("shared.before")) }
                th scope="col" { (t("shared.rule")) }
            } }
            tbody { @for fact in &found.facts {
                tr {
                    td.nowrap { code { (plain(&fact.fact, CELL)) } }
                    th.whole scope="row" { a href=(narrowed(fact)) { (value(&json(&fact.value), CELL)) } }
                    td.number { (share(fact.count, found.decisions)) }
                    td.number.dim { (share(fact.before, found.others)) }
                    td { @if visit.viewer.may(ViewerRight::Rules) {
                        a href=(url("/console/rules/edit", &[("pipeline", &found.pipeline), ("when", &fact.condition)])) { (t("shared.write")) span.unseen { ": " (plain(&fact.condition, CELL)) } }
                    } @else { code { (plain(&fact.condition, CELL)) } } }
                }
            } }
        } }
    }
}
