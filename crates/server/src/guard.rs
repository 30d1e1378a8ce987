//! What every request passes before its route sees it, and how long it may take there.
//!
//! It has its place already ([`Node::admit`]). Then, in this order: may it ask at all (token; without tokens, no other
//! site's page in a browser), is its body whole, small enough and in time. Then the route works in a task of its own: a
//! client that goes away, or the deadline, ends the waiting and not the work, so no event is counted and then left
//! unjudged; and a panic ends that task and nothing else.

use std::error::Error;
use std::sync::Arc;
use std::time::Instant;

use axum::body::{Body, Bytes};
use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderMap, StatusCode, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use content::text::received;
use http_body_util::BodyExt;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::timeout_at;

use crate::http::forward::PREFIX;
use crate::node::{Admitted, Node};
use crate::problem::{
    FORBIDDEN, Failure, INTERNAL, INVALID_BODY, OVERLOADED, SLOW_ANSWER, SLOW_REQUEST, TOO_LARGE,
    UNAUTHORIZED,
};

/// What metrics call the route of a request that has none, or was refused before it was looked for.
pub(crate) const OTHER: &str = "other";
/// Memory that is taken for a body before it comes.
const AHEAD_BYTES_MAX: u64 = 1 << 20;
/// Answers without a token.
const OPEN: &str = "/healthz";

/// The outermost layer.
pub(crate) async fn guard(State(node): State<Arc<Node>>, request: Request, next: Next) -> Response {
    let started = Instant::now();
    let matched = request.extensions().get::<MatchedPath>().cloned();
    let route = matched.as_ref().map_or(OTHER, MatchedPath::as_str);
    let method = request.method().clone();
    let response =
        admit(&node, route, request, next, started).await.unwrap_or_else(IntoResponse::into_response);
    let took = started.elapsed();
    node.metrics.answered(route, response.status().as_u16(), took);
    let (status, micros) = (response.status().as_u16(), took.as_micros() as u64);
    if response.status() == StatusCode::INTERNAL_SERVER_ERROR {
        tracing::error!(%method, route, status, micros, "answered");
    } else {
        tracing::debug!(%method, route, status, micros, "answered");
    }
    response
}

async fn admit(
    node: &Arc<Node>,
    route: &str,
    mut request: Request,
    next: Next,
    started: Instant,
) -> Result<Response, Failure> {
    // What proxies ask carries their clients' own tokens: who may ask there its route knows.
    if route != OPEN && !route.starts_with(PREFIX) {
        may_ask(node, request.headers())?;
    }
    let place = request.extensions_mut().remove::<Admitted>();
    let deadline = tokio::time::Instant::from_std(started + node.timeout());
    let (parts, body) = request.into_parts();
    let read = timeout_at(deadline, read(node, &parts.headers, body)).await;
    let (body, room) = read.map_err(|_| {
        let seconds = node.timeout().as_secs_f64();
        SLOW_REQUEST
            .failure(format!("the body was not complete after {seconds} s"))
            .help("send it faster, or smaller")
    })??;
    let work = next.run(Request::from_parts(parts, Body::from(body)));
    let task = tokio::spawn(async move {
        let response = work.await;
        drop((place, room));
        response
    });
    match timeout_at(deadline, task).await {
        Ok(Ok(response)) => Ok(response),
        Ok(Err(_)) => {
            node.metrics.panics.inc();
            Err(INTERNAL
                .failure("the request could not be handled")
                .help("this is a defect: please report it"))
        }
        Err(_) => {
            let seconds = node.timeout().as_secs_f64();
            let detail = format!("the answer was not ready after {seconds} s; the work may still be done");
            Err(SLOW_ANSWER
                .failure(detail)
                .help("events with an id can be sent again: they are counted once"))
        }
    }
}

fn may_ask(node: &Node, headers: &HeaderMap) -> Result<(), Failure> {
    if node.wants_token() { has_token(node, headers) } else { from_here(headers) }
}

/// Whether a request carries one of the tokens, as a bearer or as bouncers say it.
pub(crate) fn has_token(node: &Node, headers: &HeaderMap) -> Result<(), Failure> {
    let mut given = headers.get_all(header::AUTHORIZATION).iter();
    let bearer = |value: &axum::http::HeaderValue| {
        let (scheme, token) = value.as_bytes().split_at_checked(b"Bearer ".len())?;
        scheme.eq_ignore_ascii_case(b"Bearer ").then(|| node.is_token(token.trim_ascii()))
    };
    let help = "send `Authorization: Bearer TOKEN` with a token of the configuration";
    // As bouncers say it.
    let mut keys = headers.get_all("x-api-key").iter();
    if let (Some(key), None, None) = (keys.next(), keys.next(), headers.get(header::AUTHORIZATION)) {
        return if node.is_token(key.as_bytes()) {
            Ok(())
        } else {
            Err(FORBIDDEN.failure("X-Api-Key: not accepted").help("it is one of the configuration's tokens"))
        };
    }
    match (given.next().map(bearer), given.next()) {
        (Some(Some(true)), None) => Ok(()),
        (None, _) => Err(UNAUTHORIZED.failure("the request carries no token").help(help)),
        _ => Err(UNAUTHORIZED.failure("the request's token is not accepted").help(help)),
    }
}

/// Without tokens, who can reach the loopback address may ask. That includes browsers, and any page that they show
/// can make them send requests here, or let its own host name resolve to this address (DNS rebinding): such
/// requests name a foreign origin or host.
fn from_here(headers: &HeaderMap) -> Result<(), Failure> {
    let text = |name| headers.get(name).map(|value| received(value.as_bytes()));
    let help = "to serve other hosts' pages or names, configure a token";
    let host = text(header::HOST).unwrap_or_default();
    let name = host.parse::<axum::http::uri::Authority>().ok().map(|authority| authority.host().to_owned());
    let name = name.as_deref().map(|name| name.trim_matches(['[', ']']));
    let local =
        |name: &str| name.eq_ignore_ascii_case("localhost") || name.parse::<std::net::IpAddr>().is_ok();
    if !name.is_some_and(local) {
        return Err(FORBIDDEN.failure("Host: neither an address nor `localhost`").help(help));
    }
    let same_host = |origin: &str| {
        origin.parse::<Uri>().is_ok_and(|uri| uri.authority().is_some_and(|own| *own == *host))
    };
    if text(header::ORIGIN).is_some_and(|origin| !same_host(&origin)) {
        return Err(FORBIDDEN.failure("Origin: another site").help(help));
    }
    Ok(())
}

/// Reads the whole body, and holds room for it in memory as long as the request is worked on.
async fn read(
    node: &Node,
    headers: &HeaderMap,
    body: Body,
) -> Result<(Bytes, Option<OwnedSemaphorePermit>), Failure> {
    let max = usize::try_from(node.plan().body_max).unwrap_or(usize::MAX);
    let too_large = || {
        TOO_LARGE
            .failure(format!("the body has more than {max} bytes"))
            .help("send less, or raise `body_max`")
    };
    let announced =
        headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
    let waits = headers.contains_key(header::EXPECT);
    if waits && announced.is_some_and(|length| length > max as u64) {
        return Err(too_large());
    }
    let mut body = body;
    // As long as is announced, but no more than a little before anything has come.
    let expected = announced.unwrap_or(0).min(AHEAD_BYTES_MAX).min(max as u64);
    let mut whole: Vec<u8> = Vec::with_capacity(expected as usize);
    let mut room: Option<OwnedSemaphorePermit> = None;
    let mut length = 0usize;
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| {
            tracing::debug!(error = error.source(), "a body could not be read");
            INVALID_BODY.failure("the body ended early or is framed wrongly")
        })?;
        let Ok(data) = frame.into_data() else { continue };
        length = length.saturating_add(data.len());
        if length > max {
            // Clients read the answer only once they have sent everything: hear some more of them out.
            whole = Vec::new();
            if length > max.saturating_mul(2) {
                break;
            }
            continue;
        }
        let more = self::room(node, data.len())?;
        match &mut room {
            Some(room) => room.merge(more),
            None => room = Some(more),
        }
        whole.extend_from_slice(&data);
    }
    if length > max { Err(too_large()) } else { Ok((Bytes::from(whole), room)) }
}

/// Room in memory for so many bytes that a request has brought.
pub(crate) fn room(node: &Node, bytes: usize) -> Result<OwnedSemaphorePermit, Failure> {
    let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
    Arc::clone(&node.bodies).try_acquire_many_owned(bytes).map_err(|_| {
        node.metrics.refused.inc();
        OVERLOADED
            .failure("the bodies being worked on are too large together")
            .help("try again a little later")
    })
}

#[cfg(test)]
mod tests {
    use axum::Router;
    use axum::routing::get;
    use engine::{Config, Engine, Overrides, Plan};
    use hyper::service::Service;
    use hyper_util::service::TowerToHyperService;
    use tokio::sync::Notify;

    use super::*;

    fn node() -> Arc<Node> {
        let flags = vec![("server.timeout".to_owned(), "50ms".to_owned())];
        let overrides = Overrides { flags, ..Overrides::default() };
        let config = Config::from_preset("web", &overrides);
        let plan = Plan::compile(&config).unwrap_or_else(|problems| panic!("{problems}"));
        let engine = Arc::new(Engine::ephemeral(plan).unwrap());
        Arc::new(Node::new(engine, crate::system_clock(), Bytes::new()))
    }

    async fn ask(node: &Arc<Node>, router: Router) -> StatusCode {
        let router = router.layer(axum::middleware::from_fn_with_state(Arc::clone(node), guard));
        let request = Request::builder().uri("/").header(header::HOST, "localhost");
        let request = request.extension(node.admit("/").unwrap()).body(Body::empty()).unwrap();
        TowerToHyperService::new(router).call(request).await.unwrap().status()
    }

    #[tokio::test]
    async fn a_panic_is_answered_and_counted() {
        let node = node();
        async fn panics() -> &'static str {
            std::hint::black_box(None).expect("this panics on purpose")
        }
        assert_eq!(
            ask(&node, Router::new().route("/", get(panics))).await,
            StatusCode::INTERNAL_SERVER_ERROR
        );
        assert_eq!(node.metrics.panics.get(), 1);
        assert_eq!(node.requests.available_permits(), node.plan().requests_max, "the place is free again");
    }

    #[tokio::test]
    async fn the_deadline_ends_the_waiting_and_not_the_work() {
        let node = node();
        let (go, done) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let (wait, tell) = (Arc::clone(&go), Arc::clone(&done));
        let work = move || async move {
            wait.notified().await;
            tell.notify_one();
        };
        assert_eq!(ask(&node, Router::new().route("/", get(work))).await, StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(node.requests.available_permits(), node.plan().requests_max - 1, "it keeps its place");
        go.notify_one();
        done.notified().await;
    }
}
