//! Decisions on single events, from the connection straight to the guard: `POST /v1/decide`.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::request::Parts;
use axum::http::{Method, Request};
use axum::response::{IntoResponse, Response};

use super::QueryParams;
use super::events::{DECIDE, EventParams, decide};
use super::guard::guarded;
use crate::core::node::Node;

/// Returns whether a request is for a decision on one event: the router need not be asked.
pub(super) fn is_decision<B>(request: &Request<B>) -> bool {
    *request.method() == Method::POST && request.uri().path() == DECIDE
}

/// Answers a request for a decision as its route does. Most requests are for one: they are spared the search for their route, and
/// what the router makes and lets go for each.
pub(super) async fn decide_at_once(node: Arc<Node>, request: Request<Body>) -> Response {
    let at = Arc::clone(&node);
    let work = |parts: Parts, body| async move {
        let params = match parts.uri.query() {
            None => Ok(EventParams::default()),
            Some(_) => QueryParams::of(&parts.uri).map(|QueryParams(params)| params),
        };
        let answer = match params {
            Ok(params) => decide(State(at), QueryParams(params), parts.headers, body).await,
            Err(failure) => Err(failure),
        };
        answer.into_response()
    };
    guarded(&node, DECIDE, request, work).await
}
