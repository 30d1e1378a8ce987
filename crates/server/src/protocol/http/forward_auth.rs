//! Forward authentication: a proxy asks about each request before it hands it on, and lets it pass on a 2xx.
//!
//! nginx (`auth_request`), Caddy (`forward_auth`) and Traefik (`forwardAuth`) tell the original request in fields, Envoy
//! (`ext_authz` over HTTP) by its own method, path and host. Refusals go to the client as they are, so they say no more than
//! that.

use std::net::IpAddr;
use std::sync::Arc;

use axum::Extension;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::header::HOST;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri};
use axum::response::Response;
use content::web::request_target::RequestTarget;
use event::Event;
use plan::{ForwardPlan, Plan};

use crate::api;
use crate::core::node::Node;
use crate::core::problem::{FORBIDDEN, HttpFailure, NOT_FOUND, shown};
use crate::core::trusted_proxies::client;
use crate::protocol::site_gate::{self, ForwardedRequest, GateQuestion, NOT_LET_THROUGH, refused};

/// The address that has opened the connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PeerAddress(pub(crate) IpAddr);

/// The prefix of the URLs that proxies ask: tokens are the clients' there.
pub(crate) const PREFIX: &str = "/v1/auth/";

const FORWARDED_FOR: &str = "x-forwarded-for";
const METHODS: [&str; 2] = ["x-forwarded-method", "x-original-method"];
const URIS: [&str; 3] = ["x-forwarded-uri", "x-original-uri", "x-original-url"];
const HOSTS: [&str; 2] = ["x-forwarded-host", "x-original-host"];

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
        (status = 303, description = "It does not pass, and looks as if it did: the answer of `silent`, with the status that it has there"),
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
    let asked = match read_forwarded(ip, &method, &uri, &headers) {
        Ok(asked) => asked,
        Err(unclear) => {
            tracing::debug!(%ip, name, %unclear, "a request is not let through");
            let status = StatusCode::FORBIDDEN;
            return Ok(refused(status, status, NOT_LET_THROUGH, HeaderMap::new()));
        }
    };
    let authority = authority(&headers).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let question = GateQuestion { forward, ip, asked: &asked, authority, headers: &headers, body: &body };
    Ok(question.answer(&node, &plan).await)
}

/// Reads the request from the proxy's own. Values are read as bytes: what says no method or no path is an error, and so are
/// fields that disagree, as then a client has written one of them.
pub(super) fn read_forwarded(
    ip: IpAddr,
    method: &Method,
    uri: &Uri,
    headers: &HeaderMap,
) -> Result<ForwardedRequest, ForwardedRequestError> {
    let method = agreed(headers, &METHODS, token)?.unwrap_or_else(|| method.to_string());
    let target = match agreed(headers, &URIS, RequestTarget::read)? {
        Some(target) => target,
        None => {
            let (_, rest) = own(uri);
            let rooted = if rest.starts_with('/') { rest.to_owned() } else { format!("/{rest}") };
            RequestTarget::read(rooted.as_bytes()).ok_or(ForwardedRequestError::Unreadable)?
        }
    };
    let authority = authority(headers).map_or(&[][..], HeaderValue::as_bytes);
    Ok(ForwardedRequest::new(ip, method, target, authority, headers))
}

/// Returns the host that a request is for, as its proxy tells it.
fn authority(headers: &HeaderMap) -> Option<&HeaderValue> {
    HOSTS.iter().copied().chain([HOST.as_str()]).find_map(|name| headers.get(name))
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
    let asked = read_forwarded([127, 0, 0, 1].into(), &Method::GET, &Uri::from_static("/"), headers);
    asked.map(|asked| asked.host).unwrap_or_default()
}

/// An event that tells who a visitor is, whatever the visitor asks for.
pub(super) fn visitor_of(ip: IpAddr, method: &Method, headers: &HeaderMap) -> Event {
    let asked = read_forwarded(ip, method, &Uri::from_static("/"), headers);
    asked.unwrap_or_else(|_| ForwardedRequest::unknown(ip)).event(ip)
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

/// Returns what a proxy is told whose question finds no place, or no answer in time. `None` if there is no such
/// `[[forward_auth]]`.
pub(crate) fn undecided(node: &Node, uri: &Uri) -> Option<Response> {
    let plan = node.engine.plan();
    let forward = plan.forwards.iter().find(|forward| forward.name == own(uri).0)?;
    Some(site_gate::undecided(node, forward))
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderName;

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
        read_forwarded([192, 0, 2, 7].into(), &Method::GET, &uri.parse().unwrap(), &headers.collect())
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
