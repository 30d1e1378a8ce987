//! Decisions as they are made, and what is seen as a file: what the page of decisions has besides.

use axum::extract::State;
use axum::response::Response;
use serde::Deserialize;
use serde_json::json;

use super::decisions::DecisionsQuery;
use super::format::{CELL, clock, json as text_of, plain, points};
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
