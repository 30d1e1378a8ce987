//! Logging in as a person or with a token of the listener, and out; the first visit, which adds the first person.

use std::net::IpAddr;
use std::sync::Arc;

use access::{AccessScope, TokenGrant, is_name};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use maud::{Markup, html};
use serde::Deserialize;

use super::assets::PageScripts;
use super::format::url;
use super::frame::{ConsoleSection, PageFrame, redirect};
use super::texts::t;
use super::visit::{ConsoleForm, PageFailure, form_body, next_page, read};
use crate::core::blocking::blocking;
use crate::core::node::Node;
use crate::core::problem::{FORBIDDEN, HttpFailure, INTERNAL};
use crate::core::viewer::{CONSOLE, Viewer, set_cookie};
use crate::protocol::http::forward_auth::PeerAddress;
use crate::protocol::http::sessions;

/// The name of the listener in metrics and log.
const LISTENER: &str = "http";

/// The page to go on to.
#[derive(Default, Deserialize)]
struct NextPage {
    next: Option<String>,
}

/// A form that logs in: a person, or who has a token.
#[derive(Deserialize)]
struct LoginForm {
    name: Option<String>,
    #[serde(default)]
    password: String,
    #[serde(default)]
    token: String,
    next: Option<String>,
}

/// The key of a link for the first visit.
#[derive(Default, Deserialize)]
struct FirstVisitQuery {
    #[serde(default)]
    key: String,
}

/// A form that adds the first person.
#[derive(Deserialize)]
struct FirstPersonForm {
    key: String,
    name: String,
    password: String,
}

/// The form that was sent and not accepted.
#[derive(Clone, Copy, PartialEq, Eq)]
enum WrongLogin {
    Person,
    Token,
}

/// A form without fields of its own.
#[derive(Deserialize)]
pub(super) struct EmptyForm {}

/// The host of a provider, for people.
fn host(issuer: &str) -> &str {
    let rest = issuer.split_once("://").map_or(issuer, |(_, rest)| rest);
    rest.split('/').next().unwrap_or(rest)
}

/// The forms that take a person's name and password, and a token.
pub(super) async fn page(
    State(node): State<Arc<Node>>,
    uri: Uri,
    headers: HeaderMap,
    request: Request,
) -> Response {
    let NextPage { next } = serde_urlencoded::from_str(uri.query().unwrap_or_default()).unwrap_or_default();
    let next = next_page(next);
    if request.extensions().get::<Viewer>().is_some() {
        return redirect(&next);
    }
    // A link on another site brings no cookie along; going on from here does.
    let site = headers.get("sec-fetch-site").and_then(|site| site.to_str().ok());
    form(&node, &next, None, site == Some("cross-site"))
}

fn form(node: &Node, next: &str, wrong: Option<WrongLogin>, is_from_elsewhere: bool) -> Response {
    let has_people = node.people.has_users();
    let provider = node.engine.plan().identity_provider.as_ref().map(|plan| host(&plan.issuer).to_owned());
    let is_wrong = |of: WrongLogin| (wrong == Some(of)).then_some("true");
    let content = html! {
        div.login {
            h1 { (t("login.title")) }
            @if has_people {
                form method="post" action="/console/login" {
                    @if wrong == Some(WrongLogin::Person) { p.error role="alert" { (t("login.wrong_person")) } }
                    input type="hidden" name="next" value=(next);
                    (field("name", "text", "login.name", "username", true, is_wrong(WrongLogin::Person)))
                    (field("password", "password", "login.password", "current-password", false, is_wrong(WrongLogin::Person)))
                    button.primary type="submit" { (t("login.submit")) }
                }
            }
            @if let Some(provider) = &provider {
                p { a.button href=(url("/console/oidc", &[("next", next)])) { (t("login.at").replace("{provider}", provider)) } }
            }
            details open[!has_people && provider.is_none() || wrong == Some(WrongLogin::Token)] {
                summary { (t("login.by_token")) }
                form method="post" action="/console/login" {
                    @if wrong == Some(WrongLogin::Token) { p.error role="alert" { (t("login.wrong")) } }
                    input type="hidden" name="next" value=(next);
                    (field("token", "password", "login.token", "off", !has_people, is_wrong(WrongLogin::Token)))
                    button.primary[!has_people] type="submit" { (t("login.submit")) }
                }
            }
            p.dim { (t("login.help")) }
            @if is_from_elsewhere { p { a href=(next) { (t("login.already")) } } }
        }
    };
    let status = if wrong.is_some() { StatusCode::FORBIDDEN } else { StatusCode::OK };
    login_page("login.title", &content, status)
}

fn field(
    name: &str,
    kind: &str,
    text: &'static str,
    fill: &str,
    is_first: bool,
    invalid: Option<&str>,
) -> Markup {
    html! {
        label for=(name) { (t(text)) }
        input id=(name) type=(kind) name=(name) required autofocus[is_first] autocomplete=(fill) spellcheck="false"
            aria-invalid=[invalid];
    }
}

/// A page for who has yet to log in.
pub(super) fn login_page(title: &'static str, content: &Markup, status: StatusCode) -> Response {
    let frame = PageFrame {
        title: t(title).to_owned(),
        section: ConsoleSection::None,
        viewer: None,
        uri: None,
        scripts: PageScripts::Common,
    };
    let mut response = frame.page(content);
    *response.status_mut() = status;
    response
}

/// Begins a session for a person, or for whoever shows a token. What is wrong is answered late.
pub(super) async fn log_in(State(node): State<Arc<Node>>, request: Request) -> Result<Response, PageFailure> {
    let headers = request.headers().clone();
    let peer = peer(&request);
    let body = form_body(request).await?;
    let LoginForm { name, password, token, next } = read(&body)?;
    let next = next_page(next);
    if !node.wants_token() {
        return Ok(redirect(&next));
    }
    let Some(name) = name else {
        let token = token.trim().as_bytes();
        let found = node.tokens.find(token, node.now()).ok();
        // The console shows all of the node.
        let found = found.filter(|grant| grant.has(AccessScope::Read) && grant.pipelines().is_empty());
        let Some(grant) = found else {
            node.wrong_token(LISTENER, peer).await;
            return Ok(form(&node, &next, Some(WrongLogin::Token), false));
        };
        return Ok(begin(&node, &headers, peer, token, &grant, &next)?);
    };
    match log_in_person(&node, &headers, peer, name.trim(), password, &next).await? {
        Some(response) => Ok(response),
        None => Ok(form(&node, &next, Some(WrongLogin::Person), false)),
    }
}

/// Begins a session of a person and leads on; `None` if name or password are wrong, after a while.
async fn log_in_person(
    node: &Node,
    headers: &HeaderMap,
    peer: Option<IpAddr>,
    name: &str,
    password: String,
    next: &str,
) -> Result<Option<Response>, HttpFailure> {
    // No other can be somebody's.
    let name = if is_name(name) { name } else { "-" };
    let Some((secret, _)) = sessions::begin_for(node, name, password, peer).await? else { return Ok(None) };
    let Some(grant) = node.find_grant(secret.as_bytes()) else { return Ok(None) };
    begin(node, headers, peer, secret.as_bytes(), &grant.grant, next).map(Some)
}

/// Gives the browser a cookie in place of what was shown, and leads it on.
fn begin(
    node: &Node,
    headers: &HeaderMap,
    peer: Option<IpAddr>,
    shown: &[u8],
    grant: &TokenGrant,
    next: &str,
) -> Result<Response, HttpFailure> {
    end(node, headers);
    let cookie = node.viewers.begin(shown, node.now()).ok_or_else(|| INTERNAL.failure(t("error.random")))?;
    tracing::info!(
        by = grant.name(),
        client = peer.map(tracing::field::display),
        "a browser has logged in to the console"
    );
    let mut response = redirect(next);
    response.headers_mut().insert(header::SET_COOKIE, set_cookie(Some(&cookie), is_secure(node, headers)));
    Ok(response)
}

/// Ends the session that a request's cookie names, and the person's own with it.
pub(super) fn end(node: &Node, headers: &HeaderMap) {
    let shown = node.viewers.end(headers);
    if let Some(session) = shown.and_then(|shown| node.people.find(&shown, node.now())) {
        node.people.end(&session.id);
    }
}

/// The form that adds the first person, for who has the link.
pub(super) async fn first_page(
    State(node): State<Arc<Node>>,
    uri: Uri,
    request: Request,
) -> Result<Response, PageFailure> {
    let FirstVisitQuery { key } =
        serde_urlencoded::from_str(uri.query().unwrap_or_default()).unwrap_or_default();
    if !node.first_visit.opens(&key, node.now()) {
        node.wrong_token(LISTENER, peer(&request)).await;
        return Err(FORBIDDEN.failure(t("first.over")).into());
    }
    Ok(first_form(&key, "", None))
}

fn first_form(key: &str, name: &str, error: Option<&str>) -> Response {
    let content = html! {
        form.login method="post" action="/console/first" {
            h1 { (t("first.title")) }
            p.dim { (t("first.help")) }
            @if let Some(error) = error { p.error role="alert" { (error) } }
            input type="hidden" name="key" value=(key);
            label for="name" { (t("login.name")) }
            input #name type="text" name="name" value=(name) required autofocus maxlength="64" pattern="[A-Za-z0-9_.\\-]+"
                autocomplete="username" spellcheck="false";
            label for="password" { (t("first.password")) }
            input #password type="password" name="password" required minlength="12" autocomplete="new-password";
            button.primary type="submit" { (t("first.submit")) }
        }
    };
    let status = if error.is_some() { StatusCode::BAD_REQUEST } else { StatusCode::OK };
    login_page("first.title", &content, status)
}

/// Adds the first person, an administrator, and logs them in. The link opens nothing any more.
pub(super) async fn add_first(
    State(node): State<Arc<Node>>,
    request: Request,
) -> Result<Response, PageFailure> {
    let headers = request.headers().clone();
    let peer = peer(&request);
    let body = form_body(request).await?;
    let FirstPersonForm { key, name, password } = read(&body)?;
    node.audit.check()?;
    let (name, now) = (name.trim().to_owned(), node.now());
    if !node.first_visit.take(&key, now) {
        node.wrong_token(LISTENER, peer).await;
        return Err(FORBIDDEN.failure(t("first.over")).into());
    }
    let (of, person, chosen) = (Arc::clone(&node), name.clone(), password.clone());
    let added = blocking(move || {
        let added = of.people.add_first(&person, &chosen, now);
        of.renew_tokens();
        added
    });
    if let Err(error) = added.await {
        // Who has the link tries again, with another.
        return Ok(match node.offer_first_visit() {
            Some(key) => first_form(&key, &name, Some(&error.to_string())),
            None => redirect("/console/login"),
        });
    }
    let begun = log_in_person(&node, &headers, peer, &name, password, CONSOLE).await?;
    Ok(begun.unwrap_or_else(|| redirect("/console/login")))
}

pub(super) fn peer(request: &Request) -> Option<IpAddr> {
    request.extensions().get::<PeerAddress>().map(|peer| peer.0)
}

/// Ends the session.
pub(super) async fn log_out(headers: HeaderMap, form: ConsoleForm<EmptyForm>) -> Response {
    end(&form.visit.node, &headers);
    let mut response = redirect("/console/login");
    let fields = response.headers_mut();
    fields.insert(header::SET_COOKIE, set_cookie(None, is_secure(&form.visit.node, &headers)));
    fields.insert("clear-site-data", HeaderValue::from_static("\"cache\""));
    response.into_response()
}

/// Returns whether the browser's connection is encrypted: here, or as far as its proxy says.
pub(super) fn is_secure(node: &Node, headers: &HeaderMap) -> bool {
    let plan = node.engine.plan();
    node.plan().tls.is_some()
        || plan.identity_provider.as_ref().is_some_and(|provider| provider.is_secure())
        || headers
            .get("x-forwarded-proto")
            .is_some_and(|scheme| scheme.as_bytes().eq_ignore_ascii_case(b"https"))
}
