//! The page of decisions on events nearly like another's.

use axum::extract::{Path, State};
use axum::response::Response;
use maud::html;

use super::decisions::{self, absent};
use super::format::{CELL, number, plain};
use super::frame::ConsoleSection;
use super::texts::{counted, fill, t};
use super::visit::{ConsoleVisit, PageFailure};
use crate::api::ExplanationJson;
use crate::core::viewer::ViewerRight;
use crate::protocol::http::similar::{self, SimilarParams};
use crate::protocol::http::{QueryParams, node};

/// Decisions that are shown.
const SHOWN: usize = 50;

/// Returns whether an event has near-duplicate fingerprints by which others can be found.
pub(super) fn has_fingerprints(visit: &ConsoleVisit, of: &ExplanationJson) -> bool {
    let plan = visit.node.engine.plan();
    let Some(plan) = plan.pipeline(Some(&of.pipeline)) else { return false };
    let is_one =
        |name: &str| plan.kinds.iter().any(|kind| kind.name == name && plan.is_of_near_duplicates(kind));
    of.keys.iter().any(|key| key.piece.is_some() && is_one(&key.kind))
}

/// The page.
pub(super) async fn page(Path(id): Path<String>, visit: ConsoleVisit) -> Result<Response, PageFailure> {
    visit.need(ViewerRight::ReadContent)?;
    let pipelines = node::pipelines(State(visit.node.clone())).await.0.pipelines;
    let facts = decisions::usual(&pipelines, "");
    let asked = QueryParams(SimilarParams { limit: Some(SHOWN), facts: Some(facts) });
    let found = similar::similar(State(visit.node.clone()), Path(id.clone()), asked).await?.0;
    let most = found.decisions.iter().map(|one| one.shared).max().unwrap_or(0);
    let frame = visit.frame(t("similar.title"), ConsoleSection::Decisions);
    Ok(frame.page(&html! {
        h1 { (t("similar.title")) }
        p.crumbs { a href={ "/console/decisions/" (plain(&id, CELL)) } { (fill("decision.title", &[("id", &plain(&id, CELL))])) } }
        (absent(&found.absent))
        @if found.fingerprints == 0 { div.empty { p { (t("similar.no_fingerprints")) } } }
        @else if found.decisions.is_empty() { div.empty { p { (t("similar.none")) } } }
        @else {
            p.dim {
                (counted("similar.one", "similar.shown", found.decisions.len() as u64)) " "
                (fill("similar.shared", &[("n", &number(found.fingerprints as u64))]))
                @if found.partial { " " (t("shared.partial")) }
            }
            @for shared in (1..=most).rev() {
                @let alike: Vec<_> = found.decisions.iter().filter(|one| one.shared == shared).map(|one| one.decision.clone()).collect();
                @if !alike.is_empty() {
                    h2 { (fill("similar.group", &[("shared", &shared), ("n", &found.fingerprints)])) }
                    (decisions::table(&visit, &alike, false))
                }
            }
        }
    }))
}
