//! Forward authentication: a proxy asks about each request before it hands it on, and lets it pass on a 2xx.
//!
//! nginx (`auth_request`), Caddy (`forward_auth`) and Traefik (`forwardAuth`) tell the original request in fields, Envoy
//! (`ext_authz` over HTTP) by its own method, path and host. Refusals go to the client as they are, so they say no more than
//! that.

use std::net::IpAddr;
use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::State;
use axum::http::header::{CONTENT_TYPE, HOST, REFERER, USER_AGENT};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use content::text::received;
use content::web::request_target::{RequestTarget, normal_path};
use engine::Decision;
use engine::limit::TakeResult;
use event::{Event, Value};
use judge::Action;
use plan::{ForwardPlan, ForwardSource, Plan};

use super::limits::{LimitGroup, fields};
use super::site_challenge;
use super::visitor_identity::{self, VisitedTarget};
use crate::api;
use crate::core::node::Node;
use crate::core::preparation::LookupMode;
use crate::core::problem::{FORBIDDEN, HttpFailure, INTERNAL, MEDIA_TYPE, NOT_FOUND, shown};
use crate::core::trusted_proxies::client;

/// The address that has opened the connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PeerAddress(pub(crate) IpAddr);

/// The prefix of the URLs that proxies ask: tokens are the clients' there.
pub(crate) const PREFIX: &str = "/v1/auth/";

/// Tells the application, through the proxy, that a request that passes is to be done silently nothing about.
const SILENT: HeaderName = HeaderName::from_static("tollhouse-silent");
/// The status that a refusal is meant to have where the proxy knows 401 and 403 only.
pub(super) const STATUS: HeaderName = HeaderName::from_static("tollhouse-status");

pub(super) const NOT_LET_THROUGH: &str = "The request is not let through";

const FORWARDED_FOR: &str = "x-forwarded-for";
const METHODS: [&str; 2] = ["x-forwarded-method", "x-original-method"];
const URIS: [&str; 3] = ["x-forwarded-uri", "x-original-uri", "x-original-url"];
const HOSTS: [&str; 2] = ["x-forwarded-host", "x-original-host"];

/// The request that the proxy has.
#[derive(Debug, Default, PartialEq)]
pub(super) struct ForwardedRequest {
    ip: String,
    host: String,
    method: String,
    path: String,
    normal: String,
    query: String,
    agent: String,
    referer: String,
}

impl ForwardedRequest {
    /// Reads it from the proxy's own request. Values are read as bytes: what says no method or no path is an error, and so are fields
    /// that disagree, as then a client has written one of them.
    pub(super) fn of(
        ip: IpAddr,
        method: &Method,
        uri: &Uri,
        headers: &HeaderMap,
    ) -> Result<ForwardedRequest, ForwardedRequestError> {
        let text = |name: &str| headers.get(name).map(|value| received(value.as_bytes()).into_owned());
        let method = agreed(headers, &METHODS, token)?.unwrap_or_else(|| method.to_string());
        let RequestTarget { path, query } = match agreed(headers, &URIS, RequestTarget::read)? {
            Some(target) => target,
            None => {
                let (_, rest) = own(uri);
                let rooted = if rest.starts_with('/') { rest.to_owned() } else { format!("/{rest}") };
                RequestTarget::read(rooted.as_bytes()).ok_or(ForwardedRequestError::Unreadable)?
            }
        };
        let host =
            HOSTS.iter().find_map(|name| text(name)).or_else(|| text(HOST.as_str())).unwrap_or_default();
        let name = host.parse::<axum::http::uri::Authority>().map(|authority| authority.host().to_owned());
        Ok(ForwardedRequest {
            ip: ip.to_string(),
            host: name.unwrap_or(host).to_ascii_lowercase(),
            method,
            normal: normal_path(&path),
            path,
            query,
            agent: text(USER_AGENT.as_str()).unwrap_or_default(),
            referer: text(REFERER.as_str()).unwrap_or_default(),
        })
    }

    /// Path and query as they were sent.
    pub(super) fn target(&self) -> String {
        if self.query.is_empty() { self.path.clone() } else { format!("{}?{}", self.path, self.query) }
    }

    pub(super) fn method(&self) -> &str {
        &self.method
    }

    pub(super) fn host(&self) -> &str {
        &self.host
    }

    /// A field, by the name that limits call it.
    fn field(&self, name: &str) -> Option<&str> {
        Some(match name {
            "client.ip" => &self.ip,
            "http.host" => &self.host,
            "http.method" => &self.method,
            "http.path" => &self.path,
            "http.path_normal" => &self.normal,
            "http.query" => &self.query,
            "http.agent" => &self.agent,
            "http.referer" => &self.referer,
            _ => return None,
        })
    }

    /// The request as an event; empty fields are left out.
    fn event(&self, ip: IpAddr) -> Event {
        let mut event = Event::default();
        event.push("client.ip", Value::from(ip));
        for name in &plan::FORWARD_FIELDS[1..] {
            if let Some(value) = self.field(name).filter(|value| !value.is_empty()) {
                event.push(*name, value);
            }
        }
        event
    }
}

/// Reasons for a proxy's request that cannot be known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum ForwardedRequestError {
    #[error("fields of the proxy and of the client name different requests")]
    Disagreeing,
    #[error("a field names no method or no path")]
    Unreadable,
}

/// Returns what all fields of these names say, if there is one.
fn agreed<T: PartialEq>(
    headers: &HeaderMap,
    names: &[&str],
    read: impl Fn(&[u8]) -> Option<T>,
) -> Result<Option<T>, ForwardedRequestError> {
    let mut agreed = None;
    for value in names.iter().flat_map(|name| headers.get_all(*name)) {
        let said = read(value.as_bytes()).ok_or(ForwardedRequestError::Unreadable)?;
        if agreed.as_ref().is_some_and(|agreed| *agreed != said) {
            return Err(ForwardedRequestError::Disagreeing);
        }
        agreed = Some(said);
    }
    Ok(agreed)
}

/// A method as it is written.
fn token(bytes: &[u8]) -> Option<String> {
    Some(Method::from_bytes(bytes).ok()?.to_string())
}

/// The name of the `[[forward_auth]]` in the question's own URL, and what stands behind it. As it was sent: what is decoded here would be
/// cut in another place than the site cuts it.
fn own(uri: &Uri) -> (&str, &str) {
    let asked =
        uri.path_and_query().and_then(|asked| asked.as_str().strip_prefix(PREFIX)).unwrap_or_default();
    asked.split_at(asked.find(['/', '?']).unwrap_or(asked.len()))
}

/// Tells a proxy whether its request passes.
#[utoipa::path(
    get,
    path = "/v1/auth/{name}",
    tag = "limits",
    security(()),
    params(("name" = String, Path, description = "The [[forward_auth]]; what follows it in the path, if anything, is the path of the proxy's request")),
    responses(
        (status = 200, description = "It passes. Any method is answered alike"),
        (status = 401, description = "The client is to be challenged: a page for browsers, where the pipeline has `[challenge]`. The field `Tollhouse-Challenge` has it, too", body = api::ProblemJson, content_type = "application/problem+json"),
        (status = 403, description = "It does not pass", body = api::ProblemJson, content_type = "application/problem+json"),
        (status = 429, description = "It is over a limit, or whatever `refuse` says", body = api::ProblemJson, content_type = "application/problem+json"),
    ),
)]
pub(super) async fn auth(
    State(node): State<Arc<Node>>,
    Extension(PeerAddress(peer)): Extension<PeerAddress>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, HttpFailure> {
    let plan = node.engine.plan();
    let (name, _) = own(&uri);
    let (forward, ip) = forward_of(&plan, name, peer, &headers)?;
    let asked = match ForwardedRequest::of(ip, &method, &uri, &headers) {
        Ok(asked) => asked,
        Err(unclear) => {
            tracing::debug!(%ip, name, %unclear, "a request is not let through");
            let status = StatusCode::FORBIDDEN;
            return Ok(refused(status, status, NOT_LET_THROUGH, HeaderMap::new()));
        }
    };
    let taken = take(&node, &plan, forward, &asked).await;
    let silent = taken.iter().any(|taken| taken.silent);
    let head = fields(&taken);
    if taken.iter().any(|taken| !taken.allowed) {
        let status = StatusCode::from_u16(forward.refuse).unwrap_or(StatusCode::TOO_MANY_REQUESTS);
        return Ok(refused(status, StatusCode::TOO_MANY_REQUESTS, "The request is over its limit", head));
    }
    let Some(pipeline) = &forward.pipeline else {
        return Ok(answered(forward, Action::Accept, silent, head));
    };
    let mut event = asked.event(ip);
    let now = node.now();
    let rate = node.rates.count(name, now);
    event.push("gate.rate", rate);
    if let Some(load) = load(forward, &headers, rate) {
        event.push("gate.load", load);
    }
    for field in &forward.fields {
        if let Some(value) = of_request(&headers, &body, &field.source) {
            let value = if field.is_hashed { node.engine.hash_field(&field.name, &value) } else { value };
            event.push(field.name.clone(), value);
        }
    }
    if let Some(pass) = site_challenge::shown_pass(&headers) {
        event.push("pass.token", pass);
    }
    let decision = match decide(&node, &plan, pipeline, event, &asked, &headers).await {
        Ok(decision) => decision,
        Err(failure) => {
            tracing::error!(name, detail = failure.problem().detail, "a proxy's question is not decided on");
            return Ok(answered(forward, forward.on_error.action(Action::Accept), silent, head));
        }
    };
    let Some(Decision { verdict, challenge, id, .. }) = decision else {
        return Ok(answered(forward, Action::Accept, silent, head));
    };
    let response = answered(forward, verdict.action, silent, head);
    let Some(field) = challenge.and_then(|issued| site_challenge::handed(&issued, &id.to_string())) else {
        return Ok(response);
    };
    let page = site_challenge::wants_page(&headers)
        .then(|| site_challenge::page(forward, response.status(), &field, &asked, &headers));
    let mut response = match page.flatten() {
        Some(mut page) => {
            for (name, value) in response.headers().iter().filter(|(name, _)| **name != CONTENT_TYPE) {
                page.headers_mut().entry(name).or_insert(value.clone());
            }
            page
        }
        None => response,
    };
    response.headers_mut().insert(site_challenge::CHALLENGE, field);
    Ok(response)
}

/// Returns the `[[forward_auth]]` of this name, and the client's address, where a proxy asks that may.
pub(super) fn forward_of<'p>(
    plan: &'p Plan,
    name: &str,
    peer: IpAddr,
    headers: &HeaderMap,
) -> Result<(&'p ForwardPlan, IpAddr), HttpFailure> {
    let Some(forward) = plan.forwards.iter().find(|forward| forward.name == name) else {
        return Err(NOT_FOUND.failure(format!("there is no [[forward_auth]] `{}`", shown(name))));
    };
    if !forward.trusted_proxies.contain(peer.to_canonical()) {
        let help = "its `trusted_proxies` are the networks of the proxies, this one included";
        return Err(FORBIDDEN.failure("this address is no proxy of this [[forward_auth]]").help(help));
    }
    let forwarded: Vec<&[u8]> = headers.get_all(FORWARDED_FOR).iter().map(|value| value.as_bytes()).collect();
    Ok((forward, client(peer, forwarded.into_iter(), &forward.trusted_proxies)))
}

/// The host that a visitor asks, for people.
pub(super) fn visited_host(headers: &HeaderMap) -> String {
    let asked = ForwardedRequest::of([127, 0, 0, 1].into(), &Method::GET, &Uri::from_static("/"), headers);
    asked.map(|asked| asked.host).unwrap_or_default()
}

/// An event that tells who a visitor is, whatever the visitor asks for.
pub(super) fn visitor_of(ip: IpAddr, method: &Method, headers: &HeaderMap) -> Event {
    let asked = ForwardedRequest::of(ip, method, &Uri::from_static("/"), headers);
    asked.unwrap_or_else(|_| ForwardedRequest { ip: ip.to_string(), ..ForwardedRequest::default() }).event(ip)
}

/// Longest value that is taken from a request's head, in bytes.
const HEAD_VALUE_BYTES_MAX: usize = 4 << 10;

/// The value at a place in a request; of a field that is there several times the first.
fn of_request(headers: &HeaderMap, body: &[u8], source: &ForwardSource) -> Option<String> {
    let value = match source {
        ForwardSource::Header(name) => received(headers.get(name)?.as_bytes()).into_owned(),
        ForwardSource::Cookie(name) => site_challenge::cookie(headers, name)?,
        ForwardSource::Body => {
            return Some(received(whole_signs(body)).into_owned()).filter(|text| !text.is_empty());
        }
    };
    Some(value).filter(|value| !value.is_empty() && value.len() <= HEAD_VALUE_BYTES_MAX)
}

/// Returns bytes without a sign of UTF-8 that was cut off at their end.
fn whole_signs(bytes: &[u8]) -> &[u8] {
    match std::str::from_utf8(bytes) {
        Err(error) if error.error_len().is_none() => &bytes[..error.valid_up_to()],
        _ => bytes,
    }
}

/// Most bytes of a body that are read with a proxy's question: 0 where no field is taken from it, or no proxy asks.
pub(crate) fn body_max(node: &Node, uri: &Uri, peer: Option<IpAddr>) -> usize {
    let (name, Some(peer)) = (own(uri).0, peer) else { return 0 };
    if name.is_empty() {
        return 0;
    }
    let plan = node.engine.plan();
    let forward = plan.forwards.iter().find(|forward| forward.name == name);
    let forward = forward.filter(|forward| forward.trusted_proxies.contain(peer.to_canonical()));
    forward.map_or(0, |forward| forward.body_max)
}

/// The load of the site: what the proxy says, or the share of what it is made for.
fn load(forward: &ForwardPlan, headers: &HeaderMap, rate: f64) -> Option<f64> {
    let said = forward.load_field.as_ref().and_then(|name| headers.get(name));
    let said = said.and_then(|value| received(value.as_bytes()).trim().parse::<f64>().ok());
    said.filter(|load| load.is_finite()).or_else(|| forward.capacity.map(|capacity| rate / capacity))
}

/// Returns what a proxy is told whose question finds no place, or no answer in time: what the limits and the pipeline say by their `on_error`. `None` if there is no such
/// `[[forward_auth]]`.
pub(crate) fn undecided(node: &Node, uri: &Uri) -> Option<Response> {
    let plan = node.engine.plan();
    let forward = plan.forwards.iter().find(|forward| forward.name == own(uri).0)?;
    node.metrics.forward_undecided.inc();
    Some(answered(forward, forward.on_error.action(Action::Accept), false, HeaderMap::new()))
}

fn answered(forward: &ForwardPlan, action: Action, silent: bool, mut head: HeaderMap) -> Response {
    let meant = match action {
        Action::Reject | Action::Quarantine | Action::ReviewBefore => StatusCode::FORBIDDEN,
        Action::Challenge => StatusCode::UNAUTHORIZED,
        Action::Throttle => StatusCode::TOO_MANY_REQUESTS,
        Action::Accept | Action::Tag | Action::ReviewAfter | Action::Shadow => {
            if silent || action == Action::Shadow {
                head.insert(SILENT, HeaderValue::from_static("1"));
            }
            return (StatusCode::OK, head).into_response();
        }
    };
    let status = match meant {
        StatusCode::TOO_MANY_REQUESTS => StatusCode::from_u16(forward.refuse).unwrap_or(meant),
        status => status,
    };
    refused(status, meant, NOT_LET_THROUGH, head)
}

async fn take(node: &Node, plan: &Plan, forward: &ForwardPlan, asked: &ForwardedRequest) -> Vec<TakeResult> {
    // A limit that counts by what the request does not have does not count it.
    let group = LimitGroup::of_known(&node.engine, plan, &forward.limits, |field| asked.field(field));
    let takes = group.takes(None);
    if takes.is_empty() { Vec::new() } else { node.engine.take(&takes, node.now()).await }
}

async fn decide(
    node: &Node,
    plan: &Plan,
    pipeline: &str,
    event: Event,
    asked: &ForwardedRequest,
    headers: &HeaderMap,
) -> Result<Option<Decision>, HttpFailure> {
    let Some(pipeline) = plan.pipeline(Some(pipeline)) else { return Ok(None) };
    let mut event = event;
    let authority = HOSTS.iter().copied().chain([HOST.as_str()]).find_map(|name| headers.get(name));
    let target = VisitedTarget {
        method: &asked.method,
        authority: authority.and_then(|host| host.to_str().ok()).unwrap_or_default(),
        path: &asked.path,
        query: &asked.query,
    };
    visitor_identity::add(node, plan, pipeline, target, headers, &mut event).await;
    let prepared = node.prepare(pipeline, event, node.now(), LookupMode::Configured).await?;
    let decisions = node.engine.decide(vec![prepared]).await;
    let decision = decisions.into_iter().next();
    Ok(Some(decision.ok_or_else(|| INTERNAL.failure("the request was not decided"))?))
}

pub(super) fn refused(status: StatusCode, meant: StatusCode, title: &str, head: HeaderMap) -> Response {
    let problem = api::ProblemJson {
        kind: "about:blank".to_owned(),
        title: title.to_owned(),
        status: status.as_u16(),
        detail: "try again later, or ask who runs this site".to_owned(),
        help: None,
        problems: Vec::new(),
    };
    let mut response = (status, head, Json(problem)).into_response();
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(MEDIA_TYPE));
    headers.insert(STATUS, HeaderValue::from(meant.as_u16()));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(uri: &str, headers: &[(&str, &str)]) -> ForwardedRequest {
        read(uri, headers).unwrap()
    }

    fn read(uri: &str, headers: &[(&str, &str)]) -> Result<ForwardedRequest, ForwardedRequestError> {
        let headers: Vec<(&str, &[u8])> =
            headers.iter().map(|(name, value)| (*name, value.as_bytes())).collect();
        read_bytes(uri, &headers)
    }

    fn read_bytes(uri: &str, headers: &[(&str, &[u8])]) -> Result<ForwardedRequest, ForwardedRequestError> {
        let headers = headers.iter().map(|(name, value)| {
            (HeaderName::try_from(*name).unwrap(), HeaderValue::from_bytes(value).unwrap())
        });
        ForwardedRequest::of([192, 0, 2, 7].into(), &Method::GET, &uri.parse().unwrap(), &headers.collect())
    }

    #[test]
    fn each_proxy_tells_the_request_in_its_own_way() {
        let expected = ForwardedRequest {
            ip: "192.0.2.7".to_owned(),
            host: "example.org".to_owned(),
            method: "POST".to_owned(),
            path: "/login".to_owned(),
            normal: "/login".to_owned(),
            query: "a=b".to_owned(),
            ..ForwardedRequest::default()
        };
        let nginx =
            [("x-original-method", "POST"), ("x-original-uri", "/login?a=b"), ("host", "Example.org")];
        assert_eq!(asked("/v1/auth/site", &nginx), expected);
        let traefik = [
            ("x-forwarded-method", "POST"),
            ("x-forwarded-uri", "/login?a=b"),
            ("x-forwarded-host", "example.org:443"),
            ("host", "127.0.0.1:8377"),
        ];
        assert_eq!(asked("/v1/auth/site", &traefik), expected);
        let envoy = ForwardedRequest { method: "GET".to_owned(), ..expected };
        assert_eq!(asked("/v1/auth/site/login?a=b", &[("host", "example.org")]), envoy);
        // What is encoded in the question's own URL was encoded in the request.
        let encoded = asked("/v1/auth/site/a%3Fb/%2E%2E/c?d", &[]);
        assert_eq!((&*encoded.path, &*encoded.normal, &*encoded.query), ("/a%3Fb/%2E%2E/c", "/c", "d"));
        assert_eq!(asked("/v1/auth/site?a", &[]).query, "a");
    }

    #[test]
    fn values_are_read_as_bytes() {
        let raw = read_bytes(
            "/v1/auth/site",
            &[
                ("x-original-uri", b"//login?q=<script>\xff"),
                ("user-agent", b"nikto\xff"),
                ("referer", b"${jndi:x}\xff"),
                ("x-original-host", b"ex\xe4mple"),
            ],
        );
        let raw = raw.unwrap();
        assert_eq!((&*raw.path, &*raw.normal, &*raw.query), ("//login", "/login", "q=<script>%FF"));
        assert_eq!(
            (&*raw.agent, &*raw.referer, &*raw.host),
            ("nikto\u{ff}", "${jndi:x}\u{ff}", "ex\u{e4}mple")
        );
        for (name, value) in [
            ("x-original-uri", b"not a uri".as_slice()),
            ("x-forwarded-uri", b"\xff"),
            ("x-original-url", b""),
            ("x-forwarded-method", b"G\xffT"),
            ("x-original-method", b""),
        ] {
            assert_eq!(
                read_bytes("/v1/auth/site", &[(name, value)]),
                Err(ForwardedRequestError::Unreadable),
                "{name}"
            );
        }
    }

    #[test]
    fn fields_that_disagree_are_believed_nothing() {
        let check = |headers: &[(&str, &str)], agree: bool| {
            assert_eq!(read("/v1/auth/site", headers).is_ok(), agree, "{headers:?}");
        };
        check(&[("x-original-uri", "/login"), ("x-forwarded-uri", "/login")], true);
        check(
            &[("x-original-url", "https://example.org/login?a=b"), ("x-forwarded-uri", "/login?a=b")],
            true,
        );
        check(&[("x-original-uri", "/login"), ("x-forwarded-uri", "/")], false);
        check(&[("x-original-url", "https://example.org/login"), ("x-original-uri", "/login?a=b")], false);
        check(&[("x-original-method", "POST"), ("x-forwarded-method", "GET")], false);
        check(&[("x-forwarded-uri", "/login"), ("x-forwarded-uri", "/")], false);
        check(&[("x-forwarded-method", "POST"), ("x-original-uri", "/")], true);
    }
}
