//! Guard of every request before its route, and its time limit there.
//!
//! All is decided by the head, in this order: may it ask this at all (a token with the route's scope, [`RouteAccess`]; without
//! tokens, no other site's page in a browser), is there a place for it ([`Node::admit`]), does its route take a body. Only then the body is read: is it whole, small
//! enough and in time ([`body::read`]). So who has no token holds neither a place nor memory for a body; of a request that a
//! proxy asks about its start is read where a field is taken from it ([`body::read_first`]). Then the route
//! works in a task of its own: a client that goes away, or the deadline, ends no counting, so no event is counted and
//! then left unjudged; what is still being read by then, and what counts nothing, is given up ([`crate::core::deadline`]); and a
//! panic ends that task and nothing else.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use access::audit::AuditEntry;
use axum::body::{Body, Bytes, HttpBody};
use axum::extract::{DefaultBodyLimit, MatchedPath, Request, State};
use axum::http::request::Parts;
use axum::http::uri::PathAndQuery;
use axum::http::{HeaderMap, Method, StatusCode, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use content::text::received;

use crate::core::deadline::{Deadline, NoAnswerReason};
use crate::core::grant::RequestGrant;
use crate::core::load_shedding::{ReadPause, pass_over};
use crate::core::node::Node;
use crate::core::peers::RelayedRequest;
use crate::core::problem::{FORBIDDEN, HttpFailure, INTERNAL, SLOW_ANSWER, SLOW_REQUEST};
use crate::core::reading_pool::asked_by;
use crate::core::shares::Caller;
use crate::core::telemetry::RequestTrace;
use crate::core::tokens::names_this_host;
use crate::core::viewer::{LIST_UPLOAD, UPLOAD, Viewer, asks_for_console};
use crate::protocol::http::HTTP;
use crate::protocol::http::access::{AccessRule, CONTENT_READ, RouteAccess};
use crate::protocol::http::body;
use crate::protocol::http::events::{self, DECIDE};
use crate::protocol::http::forward_auth::{self, PREFIX, PeerAddress};
use crate::protocol::http::sessions;
use crate::protocol::http::site_challenge;
use crate::protocol::site_gate::silent_answer;

/// The name in metrics for the route of a request that has none, or was refused before it was looked for.
pub(crate) const OTHER: &str = "other";
/// The prefix of batches' paths, which have places of their own.
const BATCHES: &str = "/v1/batch/";
/// Cheap, and asked when the node is busy: they need no place.
const PROBES: [&str; 3] = ["/healthz", "/readyz", "/metrics"];

/// Bytes of a form of the console, from a viewer and from one who logs in.
const FORM_BYTES_MAX: usize = 1 << 20;
const LOGIN_BYTES_MAX: usize = 4 << 10;

/// The only layer of the router.
pub(crate) async fn guard(State(node): State<Arc<Node>>, request: Request, next: Next) -> Response {
    let matched = request.extensions().get::<MatchedPath>().cloned();
    let route = matched.as_ref().map_or(OTHER, MatchedPath::as_str);
    guarded(&node, route, request, |parts, body| {
        let mut request = Request::from_parts(parts, Body::from(body));
        // What is read by now is bounded.
        DefaultBodyLimit::disable().apply(&mut request);
        next.run(request)
    })
    .await
}

/// Answers a request that has matched a route, whose work is done with the head and with what was read of the body.
pub(crate) async fn guarded<W: Future<Output = Response> + Send + 'static>(
    node: &Arc<Node>,
    route: &str,
    request: Request,
    work: impl FnOnce(Parts, Bytes) -> W,
) -> Response {
    let started = Instant::now();
    let method = request.method().clone();
    let asked = DecisionRequest::of(request.uri()).map(|asked| (asked, request.uri().clone()));
    let mut trace = None;
    let admitted = admit(node, route, request, work, started, &mut trace).await;
    let mut response = admitted.unwrap_or_else(|failure| {
        let undecided = asked.and_then(|(asked, uri)| asked.undecided(node, &uri, &failure));
        undecided.unwrap_or_else(|| failure.into_response())
    });
    let took = started.elapsed();
    node.metrics.answered(route, response.status().as_u16(), took, trace.as_deref());
    if let Some(trace) = trace {
        trace.finish_http(method.as_str(), route, response.status().as_u16());
    }
    let (status, micros) = (response.status().as_u16(), took.as_micros() as u64);
    if response.status() == StatusCode::INTERNAL_SERVER_ERROR {
        tracing::error!(%method, route, status, micros, "answered");
    } else {
        tracing::debug!(%method, route, status, micros, "answered");
    }
    silent_answer::wait(&response, started).await;
    // Hyper's own date panics before 1970, and is not the node's (RFC 9110, 6.6.1).
    if let Some(date) = node.http_date.of(node.now()) {
        response.headers_mut().insert(header::DATE, date);
    }
    response
}

/// A request for a decision: what becomes of it where it cannot be decided on its pipeline's `on_error` says, and not the
/// protocol.
#[derive(Clone, Copy, Debug)]
enum DecisionRequest {
    /// A proxy shuts the site if it gets another answer than one of its own.
    ForProxy,
    ForCaller,
}

impl DecisionRequest {
    fn of(uri: &Uri) -> Option<DecisionRequest> {
        match uri.path() {
            DECIDE => Some(DecisionRequest::ForCaller),
            path => path.starts_with(PREFIX).then_some(DecisionRequest::ForProxy),
        }
    }

    /// Returns what is answered where the node fails; `None` where it is the request's own fault.
    fn undecided(self, node: &Node, uri: &Uri, failure: &HttpFailure) -> Option<Response> {
        match self {
            DecisionRequest::ForProxy => forward_auth::undecided(node, uri),
            DecisionRequest::ForCaller if failure.is_own() => events::undecided(node, uri, failure),
            DecisionRequest::ForCaller => None,
        }
    }
}

async fn admit<W: Future<Output = Response> + Send + 'static>(
    node: &Arc<Node>,
    route: &str,
    mut request: Request,
    work: impl FnOnce(Parts, Bytes) -> W,
    started: Instant,
    traced: &mut Option<Arc<RequestTrace>>,
) -> Result<Response, HttpFailure> {
    let path = request.uri().path();
    let (is_probe, is_batch) = (PROBES.contains(&path), path.starts_with(BATCHES));
    // What proxies ask carries their clients' own tokens: who may ask there its route knows.
    let is_asked_by_visitors = path.starts_with(site_challenge::PREFIX);
    let is_asked_by_proxies = path.starts_with(PREFIX) || is_asked_by_visitors;
    let mut access = RouteAccess::of(request.method(), (route != OTHER).then_some(route));
    let peer = request.extensions().get::<PeerAddress>().map(|peer| peer.0);
    let is_console = asks_for_console(request.method(), request.uri(), request.headers());
    let is_login = route == sessions::PATH && request.method() == Method::POST;
    let granted = if is_console {
        access = RouteAccess::of_console(request.method(), route);
        viewer(node, request.headers(), peer).map(|viewer| {
            let grant = viewer.as_ref().map(|viewer| RequestGrant::of_token(viewer.grant(), peer));
            viewer.map(|viewer| request.extensions_mut().insert(viewer));
            (grant, None)
        })
    } else if is_asked_by_proxies || access.rule == AccessRule::Open {
        Ok((None, None))
    } else {
        let uri = request.uri();
        let target = uri.path_and_query().map_or(uri.path(), PathAndQuery::as_str);
        let signed =
            RelayedRequest::of(&node.engine, node.now(), request.method(), target, request.headers());
        may_ask(node, signed, request.headers(), request.uri(), access, peer).await
    };
    // What proxies ask carries their clients' fields, so that a trace there is anybody's.
    let is_granted = granted.as_ref().is_ok_and(|(grant, _)| grant.is_some());
    let trace = node.begin_trace(started, Some(request.headers()), is_granted, peer);
    traced.clone_from(&trace);
    let (grant, relayed) = match granted {
        Ok(granted) => granted,
        Err(failure) => {
            let (parts, body) = request.into_parts();
            return Ok(pass_over(&parts.headers, body, failure.into_response(), || ()).await);
        }
    };
    let is_viewer = is_console && grant.is_some();
    let is_known = !is_asked_by_proxies && !is_login && (!is_console || is_viewer);
    let caller = if is_known { Caller::Known } else { Caller::of_peer(peer) };
    let place = match (!is_probe).then(|| node.admit(is_batch, caller)).transpose() {
        Ok(place) => place,
        Err(refusal) => {
            let asked = DecisionRequest::of(request.uri());
            let undecided = asked.and_then(|asked| asked.undecided(node, request.uri(), refusal.why()));
            let rest = request.extensions_mut().remove::<ReadPause>().unwrap_or_default();
            let (parts, body) = request.into_parts();
            return Ok(match (undecided, asked) {
                // A proxy's connection is many clients', so it does not rest.
                (Some(response), Some(DecisionRequest::ForProxy)) => {
                    pass_over(&parts.headers, body, response, || ()).await
                }
                (undecided, _) => {
                    let response = undecided.unwrap_or_else(|| refusal.response());
                    node.shed.refuse(response, &parts.headers, body, rest).await
                }
            });
        }
    };
    let admitted = trace.as_ref().map(|trace| {
        trace.stage("admission", started);
        Instant::now()
    });
    let takes_body = place.is_some()
        && (caller == Caller::Known || is_asked_by_visitors || is_console || is_login)
        && takes_body(request.method(), route);
    let body_max = if is_login {
        Some(sessions::BODY_BYTES_MAX)
    } else if is_asked_by_visitors {
        Some(site_challenge::BODY_BYTES_MAX)
    } else {
        // A form with an event or a list in it may be as large as these.
        let has_file = is_viewer && [UPLOAD, LIST_UPLOAD].contains(&route);
        (is_console && !has_file).then_some(if is_viewer { FORM_BYTES_MAX } else { LOGIN_BYTES_MAX })
    };
    let deadline = tokio::time::Instant::from_std(started + node.timeout());
    let deadline = Deadline::at(deadline);
    let (mut parts, mut body) = request.into_parts();
    let first = if body.is_end_stream() { 0 } else { forward_auth::body_max(node, &parts.uri, peer) };
    let late = |_| {
        let seconds = node.timeout().as_secs_f64();
        SLOW_REQUEST
            .failure(format!("the body was not complete after {seconds} s"))
            .help("send it faster, or smaller")
    };
    // What follows is handed on from one wrapper to the next, so it is boxed before: each would copy all of its state.
    let (body, room, unread) = if takes_body {
        let read = Box::pin(asked_by(caller, body::read(node, caller, &parts.headers, body, body_max)));
        let (body, room) = deadline.clone().cut(read).await.map_err(late)??;
        relayed.as_ref().map_or(Ok(()), |relayed| relayed.check(&body))?;
        (body, room, None)
    } else if place.is_some() && first > 0 {
        let read =
            Box::pin(asked_by(caller, body::read_first(node, caller, &parts.headers, &mut body, first)));
        let (start, room) = deadline.clone().cut(read).await.map_err(late)??;
        (start, room, Some((parts.headers.clone(), body)))
    } else {
        (Bytes::new(), None, Some((parts.headers.clone(), body)))
    };
    trace.iter().zip(admitted).for_each(|(trace, admitted)| trace.stage("body", admitted));
    relayed.into_iter().for_each(|relayed| _ = parts.extensions.insert(relayed));
    let work = Box::pin(work(parts, body));
    let of = Arc::clone(node);
    let work = Box::pin(async move {
        let work = asked_by(caller, rightly(&of, access, grant, work));
        let response = RequestTrace::bound(trace, work).await;
        drop((place, room));
        response
    });
    let response = answer(node, work, deadline).await?;
    match unread {
        Some((headers, body)) => Ok(pass_over(&headers, body, response, || ()).await),
        None => Ok(response),
    }
}

/// Returns whether a route reads what is sent. A body that is sent elsewhere is passed over.
fn takes_body(method: &Method, route: &str) -> bool {
    route != OTHER && matches!(*method, Method::POST | Method::PUT)
}

/// Waits for the route's answer.
async fn answer(
    node: &Node,
    work: impl Future<Output = Response> + Send + 'static,
    deadline: Deadline,
) -> Result<Response, HttpFailure> {
    match deadline.run(work).await {
        Ok(response) => Ok(response),
        Err(NoAnswerReason::Panicked) => {
            node.metrics.panics.inc();
            Err(INTERNAL
                .failure("the request could not be handled")
                .help("this is a defect: please report it"))
        }
        Err(NoAnswerReason::Late) => {
            let seconds = node.timeout().as_secs_f64();
            let detail = format!("the answer was not ready after {seconds} s; the work may still be done");
            Err(SLOW_ANSWER
                .failure(detail)
                .help("events with an id can be sent again: they are counted once"))
        }
    }
}

/// Returns the viewer of the console who asks, `None` for one who has yet to log in.
///
/// # Errors
/// Where no token is needed, if the request is another site's.
fn viewer(node: &Node, headers: &HeaderMap, client: Option<IpAddr>) -> Result<Option<Viewer>, HttpFailure> {
    if node.wants_token() {
        return Ok(node.viewers.viewer(headers, node.now(), |shown| node.find_grant(shown)));
    }
    from_here(headers)?;
    let grant = RequestGrant::of_host(client).token();
    Ok(node.viewers.anybody(grant))
}

/// Returns the rights of a request, if they are enough for its route, and what is known of it where another node has signed it.
async fn may_ask(
    node: &Node,
    signed: Option<Result<RelayedRequest, HttpFailure>>,
    headers: &HeaderMap,
    uri: &Uri,
    access: RouteAccess,
    client: Option<IpAddr>,
) -> Result<(Option<Arc<RequestGrant>>, Option<RelayedRequest>), HttpFailure> {
    match signed {
        // The node that was asked has checked the rights of its caller.
        Some(Ok(relayed)) => {
            return Ok((Some(RequestGrant::of_node(relayed.sender(), client)), Some(relayed)));
        }
        Some(Err(failure)) => {
            node.wrong_token(HTTP, client).await;
            return Err(failure);
        }
        None => {}
    }
    if !node.wants_token() {
        return from_here(headers).map(|()| (Some(RequestGrant::of_host(client)), None));
    }
    let grant = node.check_token(headers, HTTP, client).await?;
    let checked = access.check(&grant, uri);
    if checked.is_err() {
        node.unscoped(HTTP, grant.name(), client);
    }
    checked.map(|()| (Some(grant), None))
}

/// Does the work of a route with the rights of its request. What the audit log has to name is in there before it is answered;
/// it is refused while that cannot be written. The work may be done although its client has gone, and is named then, too.
async fn rightly(
    node: &Node,
    access: RouteAccess,
    grant: Option<Arc<RequestGrant>>,
    work: impl Future<Output = Response>,
) -> Response {
    let Some(grant) = grant else { return work.await };
    let Some(action) = access.audit else { return grant.bound(work).await };
    if action != CONTENT_READ
        && let Err(failure) = node.audit.check()
    {
        return failure.into_response();
    }
    let response = Arc::clone(&grant).bound(work).await;
    let detail = grant.take_notes();
    if action == CONTENT_READ && detail.is_empty() {
        return response;
    }
    let entry = AuditEntry {
        time: node.now(),
        by: grant.name().to_owned(),
        from: grant.client().map(|client| client.to_canonical().to_string()),
        action: action.to_owned(),
        status: response.status().as_u16(),
        detail,
    };
    match node.audit.append(entry).await {
        Ok(()) => response,
        Err(failure) => failure.into_response(),
    }
}

/// Without tokens, who can reach the loopback address may ask. That includes browsers, and any page that they show
/// can make them send requests here, or let its own host name resolve to this address (DNS rebinding): such
/// requests name a foreign origin or host.
fn from_here(headers: &HeaderMap) -> Result<(), HttpFailure> {
    let text = |name| headers.get(name).map(|value| received(value.as_bytes()));
    let help = "to serve other hosts' pages or names, configure a token";
    let host = text(header::HOST).unwrap_or_default();
    if !names_this_host(&host) {
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

#[cfg(test)]
mod tests {
    use axum::Router;
    use axum::routing::get;
    use engine::Engine;
    use hyper::service::Service;
    use hyper_util::service::TowerToHyperService;
    use plan::{Config, Overrides, Plan};
    use tokio::sync::Notify;

    use super::*;

    fn node() -> Arc<Node> {
        let flags = vec![("server.timeout".to_owned(), "50ms".to_owned())];
        let overrides = Overrides { flags, ..Overrides::default() };
        let config = Config::from_preset("web", &overrides);
        let plan = Plan::compile(&config).unwrap_or_else(|problems| panic!("{problems}"));
        let engine = Arc::new(Engine::ephemeral(plan).unwrap());
        Arc::new(Node::new(engine, crate::Clock::of(crate::SystemClock, None)))
    }

    async fn ask(node: &Arc<Node>, router: Router) -> StatusCode {
        let router = router.layer(axum::middleware::from_fn_with_state(Arc::clone(node), guard));
        let request = Request::builder().uri("/").header(header::HOST, "localhost");
        let request = request.body(Body::empty()).unwrap();
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
        assert_eq!(node.free_places(), node.plan().requests_max, "the place is free again");
    }

    #[tokio::test]
    async fn the_deadline_ends_the_waiting_and_not_the_work() {
        let node = node();
        let (go, done) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let (wait, notify) = (Arc::clone(&go), Arc::clone(&done));
        let work = move || async move {
            wait.notified().await;
            notify.notify_one();
        };
        assert_eq!(ask(&node, Router::new().route("/", get(work))).await, StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(node.free_places(), node.plan().requests_max - 1, "it keeps its place");
        go.notify_one();
        done.notified().await;
    }

    #[tokio::test]
    async fn work_that_counts_nothing_hears_that_nobody_waits() {
        let node = node();
        let done = Arc::new(Notify::new());
        let notify = Arc::clone(&done);
        let work = move || async move {
            Deadline::current().unwrap().over().await;
            notify.notify_one();
        };
        assert_eq!(ask(&node, Router::new().route("/", get(work))).await, StatusCode::SERVICE_UNAVAILABLE);
        done.notified().await;
    }
}
