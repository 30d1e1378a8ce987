//! The page of the audit log: who did what, to what, from where, and whether it was refused; the newest first.
//!
//! Looking at it is an entry of the log itself, as asking the route is.

use axum::extract::State;
use axum::response::Response;
use event::Time;
use maud::{Markup, html};
use serde::Deserialize;

use super::SettingsTab;
use crate::api::{AuditEntryJson, AuditJson, AuditVerificationJson};
use crate::console::format::{CELL, number, plain, time, url, value};
use crate::console::texts::{counted, fill, t};
use crate::console::visit::{ConsoleVisit, PageFailure};
use crate::core::viewer::ViewerRight;
use crate::protocol::http::QueryParams;
use crate::protocol::http::audit::{self, AuditExportParams, AuditParams, AuditVerificationParams};
use ::access::audit::AuditOrder;

/// Entries on a page.
const SHOWN: usize = 50;
/// Faults of the chain that are listed.
const FAULTS: usize = 20;

/// The entries that are looked for.
#[derive(Default, Deserialize)]
#[serde(default)]
struct AuditLogQuery {
    by: String,
    action: String,
    /// A time as a browser's field has it, which is taken as UTC, or as the route has it.
    since: String,
    before: Option<u64>,
    /// `yes`: the chain is verified, too.
    verify: String,
}

impl AuditLogQuery {
    fn by(&self) -> Option<String> {
        text(&self.by)
    }

    fn action(&self) -> Option<String> {
        text(&self.action)
    }

    fn since(&self) -> Option<String> {
        let since = text(&self.since)?;
        let is_date = since.as_bytes().get(4) == Some(&b'-');
        Some(match since.len() * usize::from(is_date) {
            // To a day, a minute, a second.
            10 => format!("{since}T00:00:00Z"),
            16 => format!("{since}:00Z"),
            19 => format!("{since}Z"),
            _ => since,
        })
    }

    /// The address of a page with these entries, and more parameters.
    fn url(&self, page: &str, more: &[(&str, &str)]) -> String {
        let own = [("by", self.by.trim()), ("action", self.action.trim()), ("since", self.since.trim())];
        let own = own.into_iter().filter(|(_, text)| !text.is_empty());
        url(page, &own.chain(more.iter().copied()).collect::<Vec<_>>())
    }
}

fn text(text: &str) -> Option<String> {
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}

/// The page.
pub(in crate::console) async fn page(visit: ConsoleVisit) -> Result<Response, PageFailure> {
    visit.need(ViewerRight::Administer)?;
    let query: AuditLogQuery = visit.query()?;
    let asked = AuditParams {
        since: query.since(),
        before: query.before,
        order: Some(AuditOrder::Newest),
        by: query.by(),
        action: query.action(),
        limit: Some(SHOWN),
        ..AuditParams::default()
    };
    let found = audit::audit(State(visit.node.clone()), QueryParams(asked)).await?.0;
    let chain = match query.verify.as_str() {
        "yes" => Some(
            audit::verification(State(visit.node.clone()), QueryParams(AuditVerificationParams::default()))
                .await,
        ),
        _ => None,
    };
    let here = SettingsTab::Audit.url();
    let content = html! {
        p.dim { (t("audit.help")) }
        form.look action=(here) {
            div.fields {
                label { (t("audit.by")) input name="by" value=(query.by.trim()) maxlength="512" autocomplete="off" spellcheck="false"; }
                label { (t("audit.action")) input name="action" value=(query.action.trim()) maxlength="512" autocomplete="off" spellcheck="false" placeholder=(t("audit.action_example")); }
                label { (t("audit.since")) input type="datetime-local" name="since" value=(query.since.trim()) step="1"; }
            }
            div.row { button.primary type="submit" { (t("audit.show")) } }
        }
        div.tools {
            a.button href=(query.url(here, &[("verify", "yes")])) { (t("audit.verify")) }
            span { (t("decisions.export")) ": "
                a href=(query.url("/console/settings/audit/export", &[])) { (t("decisions.ndjson")) } }
            @if query.before.is_some() { a href=(query.url(here, &[])) { (t("audit.newest")) } }
        }
        @match &chain {
            Some(Ok(found)) => { (verdict(found)) }
            Some(Err(failure)) => {
                @let problem = failure.problem();
                ul.conditions role="status" { li { (problem.detail) @if let Some(help) = problem.help { ": " (help) } } }
            }
            None => {}
        }
        (entries(&found, visit.now))
        @if let Some(next) = found.next {
            p { a.button href=(query.url(here, &[("before", &next.to_string())])) { (t("common.older")) } }
        }
    };
    Ok(SettingsTab::Audit.page(&visit, &content))
}

/// Says whether the chain holds.
fn verdict(found: &AuditVerificationJson) -> Markup {
    html! {
        @if found.sound {
            p.good role="status" { (fill("audit.sound", &[("lines", &number(found.lines))])) }
        } @else {
            ul.conditions role="alert" {
                li { (counted("audit.fault", "audit.faults", found.fault_count)) }
                @for fault in found.faults.iter().take(FAULTS) {
                    li { code { (plain(&fault.file, CELL)) ":" (fault.line) } " " (value(&fault.why, CELL)) }
                }
            }
        }
        @if found.head.number > 0 {
            p.dim.whole { (t("audit.head")) " " code { (found.head.number) ":" (value(&found.head.chain, CELL)) } }
        }
    }
}

fn entries(found: &AuditJson, now: Time) -> Markup {
    html! {
        @if found.unread > 0 {
            ul.conditions role="status" { li { (counted("audit.unread", "audit.unread_many", found.unread)) } }
        }
        @if found.entries.is_empty() { div.empty { p { (t("audit.none")) } } } @else {
            div.scroll tabindex="0" role="region" aria-label=(t("audit.title")) { table.rows.stacks {
                thead { tr {
                    th scope="col" { (t("audit.time")) }
                    th scope="col" { (t("audit.by")) }
                    th scope="col" { (t("audit.action")) }
                    th scope="col" { (t("audit.outcome")) }
                    th scope="col" { (t("audit.from")) }
                    th scope="col" { (t("audit.objects")) }
                } }
                tbody { @for entry in &found.entries { tr {
                    th.whole scope="row" { (time(entry.time.0, now)) }
                    td { b { (value(&entry.by, CELL)) } }
                    td { code { (value(&entry.action, CELL)) } }
                    td { (outcome(entry)) }
                    td { @if let Some(from) = &entry.from { (value(from, CELL)) } }
                    td.whole { @for (name, text) in &entry.detail { span.count { span.dim { (plain(name, CELL)) } " " (value(text, CELL)) } } }
                } } }
            } }
        }
    }
}

/// Says what came of an action.
fn outcome(entry: &AuditEntryJson) -> Markup {
    html! {
        @match entry.status {
            0..400 => { span.badge.accept { (t("audit.done")) } }
            400..500 => { span.badge.reject { (t("audit.refused")) } }
            500.. => { span.badge.reject { (t("audit.failed")) } }
        }
        " " span.dim { (entry.status) }
    }
}

/// The entries that are looked for as a file.
pub(in crate::console) async fn export(visit: ConsoleVisit) -> Result<Response, PageFailure> {
    visit.need(ViewerRight::Administer)?;
    let query: AuditLogQuery = visit.query()?;
    let asked = AuditExportParams {
        since: query.since(),
        order: Some(AuditOrder::Newest),
        by: query.by(),
        action: query.action(),
        limit: None,
    };
    Ok(audit::export(State(visit.node.clone()), QueryParams(asked)).await?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_browsers_time_is_taken_as_utc() {
        let check = |since: &str, expected: Option<&str>| {
            let query = AuditLogQuery { since: since.to_owned(), ..AuditLogQuery::default() };
            assert_eq!(query.since().as_deref(), expected, "{since}");
        };
        check("", None);
        check("2026-05-17", Some("2026-05-17T00:00:00Z"));
        check(" 2026-05-17T10:00 ", Some("2026-05-17T10:00:00Z"));
        check("2026-05-17T10:00:05", Some("2026-05-17T10:00:05Z"));
        check("2026-05-17T10:00:05Z", Some("2026-05-17T10:00:05Z"));
        check("yesterday", Some("yesterday"));
        check("1779012000", Some("1779012000"));
    }

    #[test]
    fn a_chain_that_does_not_hold_is_no_good_news() {
        let head = crate::api::AuditHeadJson { number: 7, chain: "ab".repeat(32) };
        let fault =
            crate::api::AuditFaultJson { file: "<i>".to_owned(), line: 3, why: "\u{202e}".to_owned() };
        let mut found = AuditVerificationJson {
            sound: true,
            lines: 7,
            first: 1,
            head,
            torn: false,
            fault_count: 0,
            faults: Vec::new(),
        };
        let page = verdict(&found).into_string();
        assert!(
            page.contains("class=\"good\"") && page.contains("7:") && page.contains(&"ab".repeat(32)),
            "{page}"
        );
        (found.sound, found.fault_count, found.faults) = (false, 1, vec![fault]);
        let page = verdict(&found).into_string();
        assert!(
            !page.contains("class=\"good\"") && page.contains("&lt;i&gt;:3") && page.contains("⟨202E⟩"),
            "{page}"
        );
    }
}
