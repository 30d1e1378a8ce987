//! Logging in at an identity provider.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use axum::response::Response;
use maud::html;
use plan::IdentityProviderPlan;
use serde::Deserialize;

use super::format::url;
use super::frame::redirect;
use super::session::{end, is_secure, login_page, peer};
use super::texts::t;
use super::visit::{PageFailure, next_page};
use crate::core::identity_provider::{LoginAttempt, LoginFailure};
use crate::core::node::Node;
use crate::core::problem::{FORBIDDEN, HttpFailure, INTERNAL, NOT_FOUND, OVERLOADED, UNAVAILABLE};
use crate::core::viewer::set_cookie;
use crate::protocol::http::sessions::note_begun;

/// The name of the listener in metrics and log.
const LISTENER: &str = "http";
/// The longest reason of a provider that is shown.
const REASON_CHARS_MAX: usize = 200;

/// The page to go on to.
#[derive(Default, Deserialize)]
struct BeginQuery {
    next: Option<String>,
}

/// The parameters with which the provider sends a browser back.
#[derive(Default, Deserialize)]
struct ReturnQuery {
    #[serde(default)]
    state: String,
    code: Option<String>,
    iss: Option<String>,
    error: Option<String>,
    error_description: Option<String>,
}

fn provider(node: &Node) -> Result<Arc<IdentityProviderPlan>, HttpFailure> {
    node.engine.plan().identity_provider.clone().ok_or_else(|| NOT_FOUND.failure(t("login.no_provider")))
}

/// Sends a browser to the provider.
pub(super) async fn begin(
    State(node): State<Arc<Node>>,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, PageFailure> {
    let BeginQuery { next } = serde_urlencoded::from_str(uri.query().unwrap_or_default()).unwrap_or_default();
    let plan = provider(&node)?;
    let attempt = LoginAttempt::begin(next_page(next)).ok_or_else(|| INTERNAL.failure(t("error.random")))?;
    let address = node.identity_provider.address(&plan, &attempt).await.map_err(failure)?;
    let mut response = redirect(&address);
    set(&mut response, &attempt.set_cookie(is_secure(&node, &headers)));
    Ok(response)
}

/// Begins a session of somebody whom the provider sends back.
pub(super) async fn finish(
    State(node): State<Arc<Node>>,
    uri: Uri,
    headers: HeaderMap,
    request: Request,
) -> Result<Response, PageFailure> {
    let query: ReturnQuery = serde_urlencoded::from_str(uri.query().unwrap_or_default()).unwrap_or_default();
    let plan = provider(&node)?;
    node.audit.check()?;
    let attempt = LoginAttempt::of(&headers).filter(|attempt| attempt.owns(&query.state));
    // Another provider's answer is none to what was asked (RFC 9207).
    let attempt = attempt.filter(|_| query.iss.as_ref().is_none_or(|own| *own == plan.issuer));
    let Some(attempt) = attempt else { return Ok(refused(t("login.begun_elsewhere"))) };
    let Some(code) = query.code.filter(|_| query.error.is_none()) else {
        let reason = query.error_description.or(query.error).unwrap_or_default();
        return Ok(refused(&reason.chars().take(REASON_CHARS_MAX).collect::<String>()));
    };
    let client = peer(&request);
    let identity = match node.identity_provider.identify(&plan, &attempt, code, node.now()).await {
        Ok(identity) => identity,
        Err(error) => {
            if matches!(error, LoginFailure::Refused(_) | LoginFailure::NoRole(_)) {
                node.wrong_token(LISTENER, client).await;
            }
            return Err(failure(error).into());
        }
    };
    let from = client.map(|client| client.to_canonical().to_string());
    let random = || INTERNAL.failure(t("error.random"));
    let begun = node.people.begin_as(&identity.name, identity.role, from, node.now());
    let (secret, session) = begun.ok_or_else(random)?;
    note_begun(&node, &session).await?;
    end(&node, &headers);
    let cookie = node.viewers.begin(secret.as_bytes(), node.now()).ok_or_else(random)?;
    tracing::info!(by = %identity.name, role = %identity.role, client = client.map(tracing::field::display),
        "a browser has logged in to the console");
    // The session's cookie is `Strict`, and what follows a page of another site brings none: so a page of our own leads on.
    let next = next_page(Some(attempt.next));
    let mut response = login_page(
        "login.title",
        &html! { div.login { p role="status" { (t("login.returned")) } p { a href=(next) { (t("login.go_on")) } } } },
        StatusCode::OK,
    );
    let is_secure = is_secure(&node, &headers);
    response.headers_mut().append(header::SET_COOKIE, set_cookie(Some(&cookie), is_secure));
    set(&mut response, &LoginAttempt::end_cookie(is_secure));
    if let Ok(refresh) = HeaderValue::try_from(format!("0; url={next}")) {
        response.headers_mut().insert("refresh", refresh);
    }
    Ok(response)
}

/// A page for who was not logged in, with the way to another try.
fn refused(reason: &str) -> Response {
    let content = html! {
        div.login {
            h1 { (t("login.title")) }
            p.error role="alert" { (reason) }
            p { a href=(url("/console/login", &[])) { (t("login.again")) } }
        }
    };
    login_page("login.title", &content, StatusCode::FORBIDDEN)
}

fn failure(error: LoginFailure) -> HttpFailure {
    tracing::warn!(%error, "nobody was logged in by the identity provider");
    let text = error.to_string();
    match error {
        LoginFailure::Busy => OVERLOADED.failure(text),
        LoginFailure::Provider(_) => {
            UNAVAILABLE.failure(text).help("look at the provider's log, and at `[oidc]`")
        }
        LoginFailure::Refused(_) => FORBIDDEN.failure(text).help("log in again at /console/login"),
        LoginFailure::NoRole(_) => FORBIDDEN
            .failure(text)
            .help("an administrator of the provider gives you one of the groups that `[oidc]` names"),
    }
}

fn set(response: &mut Response, cookie: &str) {
    if let Ok(cookie) = HeaderValue::try_from(cookie) {
        response.headers_mut().append(header::SET_COOKIE, cookie);
    }
}
