//! The page of settings: what the node is, where it listens, what it runs.

use axum::extract::State;
use axum::response::Response;
use maud::html;

use super::format::{bytes, length, number};
use super::frame::Section;
use super::texts::t;
use super::visit::{ConsoleVisit, PageFailure};
use crate::core::viewer::ViewerRight;
use crate::protocol::http::node;

/// The page.
pub(super) async fn page(visit: ConsoleVisit) -> Result<Response, PageFailure> {
    visit.need(ViewerRight::Administer)?;
    let pipelines = node::pipelines(State(visit.node.clone())).await.0.pipelines;
    let plan = visit.node.plan();
    let frame = visit.frame(t("settings.title"), Section::Settings);
    Ok(frame.page(&html! {
        h1 { (t("settings.title")) }
        section {
            h2 { (t("settings.node")) }
            dl.facts {
                div { dt { (t("settings.version")) } dd { (env!("CARGO_PKG_VERSION")) } }
                div { dt { (t("settings.tokens")) } dd { @if plan.tokens.is_empty() { (t("settings.no_tokens")) } @else { (number(plan.tokens.len() as u64)) } } }
                div { dt { (t("settings.timeout")) } dd { (length(plan.timeout)) } }
                div { dt { (t("settings.body_max")) } dd { (bytes(plan.body_max)) } }
                div { dt { (t("settings.requests_max")) } dd { (number(plan.requests_max as u64)) } }
                div { dt { (t("settings.connections_max")) } dd { (number(plan.connections_max as u64)) } }
            }
        }
        section {
            h2 #listeners { (t("settings.listeners")) }
            table { tbody {
                tr { th scope="row" { "http" } td { code { (plan.listen) } } }
                @for listener in visit.node.listeners() { tr { th scope="row" { (listener.name) } td { code { (listener.listen) } } } }
            } }
        }
        section {
            h2 #pipelines { (t("settings.pipelines")) }
            div.scroll tabindex="0" role="region" aria-labelledby="pipelines" { table.rows {
                thead { tr {
                    th scope="col" { (t("common.pipeline")) }
                    th scope="col" { (t("settings.input")) }
                    th.number scope="col" { (t("settings.kinds")) }
                    th.number scope="col" { (t("settings.rules")) }
                    th scope="col" { (t("settings.feedback")) }
                    th scope="col" { (t("settings.in_force")) }
                } }
                tbody { @for pipeline in &pipelines { tr {
                    th scope="row" { a href={ "/console/rules?pipeline=" (pipeline.name) } { (pipeline.name) } }
                    td { (pipeline.input) }
                    td.number { (pipeline.kinds.len()) }
                    td.number { (pipeline.rules.len()) }
                    td { (pipeline.feedback.join(", ")) }
                    td { code { (pipeline.version) } }
                } } }
            } }
        }
        p.dim { (t("settings.more")) " " code { "tollhouse config check --effective" } }
    }))
}
