//! The page of access: the tokens that are accepted, and the sessions of people, which can be ended.

use axum::extract::{Path, State};
use axum::response::Response;
use event::Time;
use maud::{Markup, html};
use serde::Deserialize;

use super::SettingsTab;
use crate::api::{SessionJson, TokenJson};
use crate::console::format::{CELL, distance, number, plain, time, value};
use crate::console::frame::{done, redirect, secret};
use crate::console::texts::{fill, t};
use crate::console::visit::{ConsoleForm, ConsoleVisit, PageFailure};
use crate::core::viewer::{Viewer, ViewerRight};
use crate::protocol::http::{audit, sessions};

/// Rows of a table.
const SHOWN: usize = 500;

/// The page.
pub(in crate::console) async fn page(visit: ConsoleVisit) -> Result<Response, PageFailure> {
    visit.need(ViewerRight::Administer)?;
    let tokens = audit::tokens(State(visit.node.clone())).await.0.tokens;
    let sessions = sessions::list(State(visit.node.clone())).await.0.sessions;
    let content = html! {
        section {
            h2 #tokens { (t("access.tokens")) " " span.dim { (number(tokens.len() as u64)) } }
            @if !visit.node.wants_token() { p { (t("settings.no_tokens")) } }
            @if tokens.is_empty() { div.empty { p { (t("access.no_tokens")) } p.dim { (t("access.tokens_help")) } } } @else {
                (token_table(&tokens, visit.now))
                p.dim { (t("access.tokens_help")) }
            }
        }
        section {
            h2 #sessions { (t("access.sessions")) " " span.dim { (number(sessions.len() as u64)) } }
            @if sessions.is_empty() { div.empty { p { (t("access.no_sessions")) } p.dim { (t("access.people_help")) } } } @else {
                (session_table(&sessions, &visit.viewer, visit.now))
                p.dim { (t("access.people_help")) }
            }
        }
    };
    Ok(SettingsTab::Access.page(&visit, &content))
}

fn token_table(tokens: &[TokenJson], now: Time) -> Markup {
    html! {
        div.scroll tabindex="0" role="region" aria-labelledby="tokens" { table.rows {
            thead { tr {
                th scope="col" { (t("access.name")) }
                th scope="col" { (t("access.scopes")) }
                th scope="col" { (t("settings.pipelines")) }
                th scope="col" { (t("access.expires")) }
                th scope="col" { (t("access.used")) }
                th.number scope="col" { (t("access.secrets")) }
            } }
            tbody { @for token in tokens.iter().take(SHOWN) { tr {
                th scope="row" { b { (value(&token.name, CELL)) } }
                td { (token.scopes.join(", ")) }
                td { @if token.pipelines.is_empty() { (t("access.all")) } @else { (value(&token.pipelines.join(", "), CELL)) } }
                td { @match &token.expires {
                    Some(expires) if expires.0 <= now => { span.badge.late { (t("access.expired")) } " " (distance(expires.0, now)) }
                    Some(expires) => { (time(expires.0, now)) }
                    None => { (t("keys.never")) }
                } }
                td { @match &token.used { Some(used) => { (distance(used.0, now)) } None => { (t("keys.never")) } } }
                td.number { (number(token.secrets as u64)) }
            } } }
        } }
        @if tokens.len() > SHOWN { p.dim { (fill("settings.cut", &[("n", &SHOWN)])) } }
    }
}

fn session_table(sessions: &[SessionJson], viewer: &Viewer, now: Time) -> Markup {
    html! {
        div.scroll tabindex="0" role="region" aria-labelledby="sessions" { table.rows {
            thead { tr {
                th scope="col" { (t("access.person")) }
                th scope="col" { (t("access.role")) }
                th scope="col" { (t("access.begun")) }
                th scope="col" { (t("access.seen")) }
                th scope="col" { (t("access.from")) }
                th scope="col" { (t("access.end")) }
            } }
            tbody { @for session in sessions.iter().take(SHOWN) { tr {
                th scope="row" { b { (value(&session.user, CELL)) } span.description { code { (plain(&session.id, CELL)) } } }
                td { (session.role) }
                td { (time(session.begun.0, now)) }
                td { (distance(session.seen.0, now)) }
                td { @if let Some(from) = &session.from { (value(from, CELL)) } }
                td { form method="post" action="/console/settings/access/end" {
                    (secret(viewer))
                    input type="hidden" name="id" value=(session.id);
                    button.quiet.danger type="submit" aria-label=(fill("access.end_one", &[("person", &plain(&session.user, CELL)), ("id", &session.id)])) { (t("access.end")) }
                } }
            } } }
        } }
        @if sessions.len() > SHOWN { p.dim { (fill("settings.cut", &[("n", &SHOWN)])) } }
    }
}

/// A session to end.
#[derive(Deserialize)]
pub(in crate::console) struct EndSessionForm {
    id: String,
}

/// Ends a session. Whoever ends the own one has to log in again.
pub(in crate::console) async fn end(
    ConsoleForm { visit, form }: ConsoleForm<EndSessionForm>,
) -> Result<Response, PageFailure> {
    visit.need(ViewerRight::Administer)?;
    sessions::end(State(visit.node.clone()), Path(form.id)).await?;
    Ok(redirect(&done(SettingsTab::Access.url(), "session_ended", 0)))
}

#[cfg(test)]
mod tests {
    use event::Span;

    use super::*;
    use crate::api::Timestamp;

    #[test]
    fn what_tokens_are_called_changes_no_page() {
        let now = Time::from_seconds(1_000_000);
        let token = |name: &str, expires: Option<Time>, pipelines: &[&str]| TokenJson {
            name: name.to_owned(),
            scopes: vec!["read".to_owned(), "rules".to_owned()],
            pipelines: pipelines.iter().map(|name| (*name).to_owned()).collect(),
            expires: expires.map(Timestamp),
            used: None,
            secrets: 2,
        };
        let past = Some(now - Span::hours(1));
        let page =
            token_table(&[token("<b>\u{202e}", past, &[]), token("a", None, &["web"])], now).into_string();
        for text in ["&lt;b&gt;⟨202E⟩", "read, rules", "expired", "1 h ago", "all", ">web<", "never", ">2<"]
        {
            assert!(page.contains(text), "{text}: {page}");
        }
        assert!(!page.contains("<b><b>"), "{page}");
        let many: Vec<TokenJson> =
            (0..SHOWN + 5).map(|number| token(&format!("t{number}"), None, &[])).collect();
        let page = token_table(&many, now).into_string();
        assert!(page.contains("t499<") && !page.contains("t500<"));
    }
}
