//! Decisions as they are made, and what is seen as a file: what the page of decisions has besides.

use axum::extract::State;
use axum::response::Response;
use maud::{Markup, html};
use serde::Deserialize;
use serde_json::json;

use super::decisions::DecisionsQuery;
use super::format::{CELL, clock, json as text_of, plain, points, url};
use super::texts::{fill, t, word};
use super::visit::{ConsoleVisit, PageFailure};
use crate::api::ListedDecisionJson;
use crate::core::problem::INVALID_PARAMETER;
use crate::core::viewer::ViewerRight;
use crate::protocol::http::decision_export::{self, ExportFormat, ExportParams};
use crate::protocol::http::{decisions, node};

/// The form of an export, beside the search.
#[derive(Deserialize)]
struct ExportQuery {
    #[serde(default)]
    format: Option<ExportFormat>,
}

/// The tools for the decisions that are seen: follow them, or without scripts look again; take them along as a file.
pub(super) fn bar(query: &DecisionsQuery, can_follow: bool) -> Markup {
    let params = query.params();
    let with = |path: &str, more: &[(&str, &str)]| url(path, &[&params[..], more].concat());
    // Labels come later, and a stream has no past.
    let is_live = |(name, _): &&(&str, &str)| !["last", "from", "to", "label"].contains(name);
    let live: Vec<(&str, &str)> = params.iter().filter(is_live).copied().collect();
    let follow = (can_follow && query.after.is_empty()).then(|| url("/console/decisions/live", &live));
    html! {
        div.tools {
            a.button href=(with("/console/decisions", &[])) data-follow=[follow] data-label=(t("decisions.follow")) data-pause=(t("decisions.pause")) { (t("decisions.refresh")) }
            a.button href=(with("/console/decisions/common", &[])) { (t("decisions.common")) }
            span.dim #fresh-count data-fresh=(t("decisions.new")) data-lost=(t("decisions.lost")) {}
            span { (t("decisions.export")) ": "
                a href=(with("/console/decisions/export", &[("format", "csv")])) { (t("decisions.csv")) } " · "
                a href=(with("/console/decisions/export", &[("format", "ndjson")])) { (t("decisions.ndjson")) } " · "
                a href=(with("/console/decisions/export", &[("format", "parquet")])) { (t("decisions.parquet")) } }
            span.dim { (t("decisions.export_more")) }
        }
    }
}

/// The decisions of a search as a file.
pub(super) async fn export(visit: ConsoleVisit) -> Result<Response, PageFailure> {
    visit.need(ViewerRight::ReadContent)?;
    let query: DecisionsQuery = visit.query()?;
    let ExportQuery { format } = visit.query()?;
    let pipelines = node::pipelines(State(visit.node.clone())).await.0.pipelines;
    let facts = Some(query.shown_facts(&pipelines));
    let after = Some(query.after.clone()).filter(|after| !after.is_empty());
    let params = ExportParams { format, facts, limit: None, after };
    Ok(decision_export::exported(&visit.node, query.filter(&visit)?, params).await?)
}

/// Decisions that fit a search, as they are made.
pub(super) async fn follow(visit: ConsoleVisit) -> Result<Response, PageFailure> {
    visit.need(ViewerRight::ReadContent)?;
    let query: DecisionsQuery = visit.query()?;
    if !query.after.is_empty() {
        return Err(INVALID_PARAMETER.failure(t("error.query")).into());
    }
    let pipelines = node::pipelines(State(visit.node.clone())).await.0.pipelines;
    let facts = query.shown_facts(&pipelines);
    Ok(decisions::event_stream(&visit.node, query.filter(&visit)?, Some(&facts), row)?)
}

/// A row of the table, in texts that the page's script puts into cells.
fn row(one: &ListedDecisionJson) -> String {
    let facts = one
        .facts
        .iter()
        .map(|(name, fact)| (plain(name, CELL), plain(&text_of(fact).replace('\n', " "), 120)));
    let rules: Vec<String> = one.rules.iter().take(4).map(|rule| plain(&rule.name, 48)).collect();
    let row = json!({
        "id": one.id,
        "choose": fill("decisions.choose", &[("id", &one.id)]),
        "action": one.action.name(),
        "word": word("action", one.action.name()),
        "time": clock(one.time.0),
        "score": points(one.score),
        "pipeline": plain(&one.pipeline, CELL),
        "facts": facts.collect::<Vec<_>>(),
        "rules": rules.join(", "),
    });
    row.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_have_texts_that_turn_nothing_around() {
        let decision: ListedDecisionJson = serde_json::from_value(json!({
            "id": "0000000000001",
            "pipeline": "mail",
            "version": "1",
            "time": "2026-05-17T10:00:00Z",
            "arrival": "2026-05-17T10:00:00Z",
            "action": "reject",
            "score": -1.5,
            "probability": 0.5,
            "rules": [{"name": "A\u{202e}", "score": 1.0}],
            "facts": {"mail.subject": format!("<b>\u{202e}\n{}", "x".repeat(5000))},
        }))
        .unwrap();
        let text = row(&decision);
        assert!(!text.contains(['\u{202e}', '\n']) && text.len() < 1000, "{text}");
        let row: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!((&row["score"], &row["rules"]), (&json!("−1.5"), &json!("A⟨202E⟩")));
    }
}
