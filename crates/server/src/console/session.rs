//! Logging in with a token of the listener, and out.

use std::sync::Arc;

use access::AccessScope;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use maud::html;
use serde::Deserialize;

use super::frame::{ConsoleSection, PageFrame, redirect};
use super::texts::t;
use super::visit::{ConsoleForm, PageFailure, form_body, next_page, read};
use crate::core::node::Node;
use crate::core::problem::INTERNAL;
use crate::core::viewer::{Viewer, set_cookie};
use crate::protocol::http::forward_auth::PeerAddress;

/// The name of the listener in metrics and log.
const LISTENER: &str = "http";

/// The page to go on to.
#[derive(Default, Deserialize)]
struct NextPage {
    next: Option<String>,
}

/// A form that logs in.
#[derive(Deserialize)]
struct LoginForm {
    token: String,
    next: Option<String>,
}

/// A form without fields of its own.
#[derive(Deserialize)]
pub(super) struct EmptyForm {}

/// The form that takes a token.
pub(super) async fn page(uri: Uri, headers: HeaderMap, request: Request) -> Response {
    let NextPage { next } = serde_urlencoded::from_str(uri.query().unwrap_or_default()).unwrap_or_default();
    let next = next_page(next);
    if request.extensions().get::<Viewer>().is_some() {
        return redirect(&next);
    }
    // A link on another site brings no cookie along; going on from here does.
    let site = headers.get("sec-fetch-site").and_then(|site| site.to_str().ok());
    form(&next, false, site == Some("cross-site"))
}

fn form(next: &str, is_wrong: bool, is_from_elsewhere: bool) -> Response {
    let frame = PageFrame {
        title: t("login.title").to_owned(),
        section: ConsoleSection::None,
        viewer: None,
        uri: None,
    };
    let content = html! {
        form.login method="post" action="/console/login" {
            h1 { (t("login.title")) }
            p.dim { (t("login.help")) }
            @if is_wrong { p.error role="alert" { (t("login.wrong")) } }
            input type="hidden" name="next" value=(next);
            label for="token" { (t("login.token")) }
            input #token type="password" name="token" required autofocus autocomplete="current-password"
                aria-invalid=[is_wrong.then_some("true")];
            button.primary type="submit" { (t("login.submit")) }
            @if is_from_elsewhere { p { a href=(next) { (t("login.already")) } } }
        }
    };
    let mut response = frame.page(&content);
    if is_wrong {
        *response.status_mut() = StatusCode::FORBIDDEN;
    }
    response
}

/// Begins a session for whoever shows a token. A wrong one is answered late.
pub(super) async fn log_in(State(node): State<Arc<Node>>, request: Request) -> Result<Response, PageFailure> {
    let headers = request.headers().clone();
    let peer = request.extensions().get::<PeerAddress>().map(|peer| peer.0);
    let body = form_body(request).await?;
    let LoginForm { token, next } = read(&body)?;
    let next = next_page(next);
    if !node.wants_token() {
        return Ok(redirect(&next));
    }
    let token = token.trim().as_bytes();
    let found = node.tokens.find(token, node.now()).ok();
    // The console shows all of the node.
    let Some(grant) = found.filter(|grant| grant.has(AccessScope::Read) && grant.pipelines().is_empty())
    else {
        node.wrong_token(LISTENER, peer).await;
        return Ok(form(&next, true, false));
    };
    node.viewers.end(&headers);
    let begun = node.viewers.begin(token, node.now());
    let cookie = begun.ok_or_else(|| INTERNAL.failure(t("error.random")))?;
    tracing::info!(
        token = grant.name(),
        client = peer.map(tracing::field::display),
        "a browser has logged in to the console"
    );
    let mut response = redirect(&next);
    response.headers_mut().insert(header::SET_COOKIE, set_cookie(Some(&cookie), is_secure(&node, &headers)));
    Ok(response)
}

/// Ends the session.
pub(super) async fn log_out(headers: HeaderMap, form: ConsoleForm<EmptyForm>) -> Response {
    form.visit.node.viewers.end(&headers);
    let mut response = redirect("/console/login");
    let fields = response.headers_mut();
    fields.insert(header::SET_COOKIE, set_cookie(None, is_secure(&form.visit.node, &headers)));
    fields.insert("clear-site-data", HeaderValue::from_static("\"cache\""));
    response.into_response()
}

/// Returns whether the browser's connection is encrypted: here, or as far as its proxy says.
fn is_secure(node: &Node, headers: &HeaderMap) -> bool {
    node.plan().tls.is_some()
        || headers
            .get("x-forwarded-proto")
            .is_some_and(|scheme| scheme.as_bytes().eq_ignore_ascii_case(b"https"))
}
