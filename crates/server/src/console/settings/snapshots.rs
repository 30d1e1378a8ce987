//! The page of snapshots: copies of the data directory that are there, and one more at a press.

use axum::extract::State;
use axum::response::Response;
use event::Time;
use maud::{Markup, html};
use serde::Deserialize;

use super::SettingsTab;
use crate::api::KeptSnapshotJson;
use crate::console::format::{CELL, bytes, number, time, value};
use crate::console::frame::{done, redirect, secret};
use crate::console::texts::t;
use crate::console::visit::{ConsoleForm, ConsoleVisit, PageFailure};
use crate::core::viewer::ViewerRight;
use crate::protocol::http::node;

/// The page.
pub(in crate::console) async fn page(visit: ConsoleVisit) -> Result<Response, PageFailure> {
    visit.need(ViewerRight::Administer)?;
    let kept = node::snapshots(State(visit.node.clone())).await?.0.snapshots;
    let content = html! {
        p.dim { (t("snapshots.help")) }
        form method="post" action="/console/settings/snapshots/make" {
            (secret(&visit.viewer))
            button.primary type="submit" { (t("snapshots.make")) }
        }
        section {
            h2 #kept { (t("snapshots.kept")) " " span.dim { (number(kept.len() as u64)) } }
            @if kept.is_empty() { div.empty { p { (t("snapshots.none")) } } } @else { (table(&kept, visit.now)) }
            p.dim { (t("snapshots.restore")) }
        }
    };
    Ok(SettingsTab::Snapshots.page(&visit, &content))
}

fn table(kept: &[KeptSnapshotJson], now: Time) -> Markup {
    html! {
        div.scroll tabindex="0" role="region" aria-labelledby="kept" { table.rows {
            thead { tr {
                th scope="col" { (t("snapshots.name")) }
                th scope="col" { (t("snapshots.time")) }
                th.number scope="col" { (t("snapshots.bytes")) }
            } }
            tbody { @for one in kept { tr {
                th scope="row" { code { (value(&one.name, CELL)) } }
                td { @if let Some(made) = &one.time { (time(made.0, now)) } }
                td.number { @if let Some(size) = one.bytes { (bytes(size)) } }
            } } }
        } }
    }
}

/// A snapshot that is wanted.
#[derive(Deserialize)]
pub(in crate::console) struct MakeSnapshotForm {}

/// Makes a snapshot.
pub(in crate::console) async fn make(
    ConsoleForm { visit, form: MakeSnapshotForm {} }: ConsoleForm<MakeSnapshotForm>,
) -> Result<Response, PageFailure> {
    visit.need(ViewerRight::Administer)?;
    let _ = node::snapshot(State(visit.node.clone())).await?;
    Ok(redirect(&done(SettingsTab::Snapshots.url(), "snapshot_made", 0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_of_any_name_is_a_row_and_no_more() {
        let one =
            KeptSnapshotJson { name: format!("<b>\u{2066}{}", "x".repeat(5000)), time: None, bytes: None };
        let page = table(&[one], Time::from_seconds(0)).into_string();
        assert!(page.contains("&lt;b&gt;⟨2066⟩xxx") && page.len() < 2000, "{page}");
    }
}
