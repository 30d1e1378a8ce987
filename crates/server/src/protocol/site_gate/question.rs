//! A proxy's question about a request: limits, then the pipeline, then the challenge that it asks for.

use std::net::IpAddr;
use std::sync::Arc;

use axum::Json;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use content::text::received;
use engine::Decision;
use engine::limit::TakeResult;
use event::Event;
use judge::Action;
use plan::{ForwardPlan, ForwardSource, Plan};

use super::challenge_answer::{CHALLENGE, STATUS, challenge_page, cookie, handed, shown_pass, wants_page};
use super::forwarded_request::ForwardedRequest;
use super::silent_answer;
use super::visitor_identity::{self, VisitedTarget};
use crate::api;
use crate::core::node::Node;
use crate::core::preparation::LookupMode;
use crate::core::problem::{HttpFailure, INTERNAL, MEDIA_TYPE};
use crate::core::telemetry::RequestTrace;
use crate::protocol::limit_group::{LimitGroup, limit_fields};

/// Tells the application, through the proxy, that a request that passes is to be done silently nothing about.
pub(crate) const SILENT: HeaderName = HeaderName::from_static("tollhouse-silent");

pub(crate) const NOT_LET_THROUGH: &str = "The request is not let through";

/// A proxy's question: may this request pass?
#[derive(Clone, Copy, Debug)]
pub(crate) struct GateQuestion<'a> {
    /// The settings of the gate.
    pub(crate) forward: &'a ForwardPlan,
    /// The client.
    pub(crate) ip: IpAddr,
    /// The request.
    pub(crate) asked: &'a ForwardedRequest,
    /// The host that the request is for, with its port if one was named.
    pub(crate) authority: &'a str,
    /// The request's header fields.
    pub(crate) headers: &'a HeaderMap,
    /// The first bytes of the body, where they are read.
    pub(crate) body: &'a [u8],
}

impl GateQuestion<'_> {
    /// Returns the answer as the client is to get it if it is no 200.
    pub(crate) async fn answer(self, node: &Arc<Node>, plan: &Plan) -> Response {
        let GateQuestion { forward, ip, asked, headers, body, .. } = self;
        let taken = self.take(node, plan).await;
        let silent = taken.iter().any(|taken| taken.silent);
        let head = limit_fields(&taken);
        if taken.iter().any(|taken| !taken.allowed) {
            let status = StatusCode::from_u16(forward.refuse).unwrap_or(StatusCode::TOO_MANY_REQUESTS);
            return refused(status, StatusCode::TOO_MANY_REQUESTS, "The request is over its limit", head);
        }
        let Some(pipeline) = &forward.pipeline else {
            return self.answered(Action::Accept, silent, head);
        };
        let mut event = asked.event(ip);
        let rate = node.rates.count(&forward.name, node.now());
        event.push("gate.rate", rate);
        if let Some(load) = load(forward, headers, rate) {
            event.push("gate.load", load);
        }
        for field in &forward.fields {
            if let Some(value) = of_request(headers, body, &field.source) {
                let value = if field.is_hashed { node.engine.hash_field(&field.name, &value) } else { value };
                event.push(field.name.clone(), value);
            }
        }
        if let Some(pass) = shown_pass(headers) {
            event.push("pass.token", pass);
        }
        let decision = match self.decide(node, plan, pipeline, event).await {
            Ok(decision) => decision,
            Err(failure) => {
                let (name, detail) = (&forward.name, &failure.problem().detail);
                tracing::error!(name, detail, "a proxy's question is not decided on");
                return self.answered(forward.on_error.action(Action::Accept), silent, head);
            }
        };
        let Some(Decision { verdict, challenge, id, .. }) = decision else {
            return self.answered(Action::Accept, silent, head);
        };
        let response = self.answered(verdict.action, silent, head);
        let Some(field) = challenge.and_then(|issued| handed(&issued, &id.to_string())) else {
            return response;
        };
        let page =
            wants_page(headers).then(|| challenge_page(forward, response.status(), &field, asked, headers));
        let mut response = match page.flatten() {
            Some(mut page) => {
                for (name, value) in response.headers().iter().filter(|(name, _)| **name != CONTENT_TYPE) {
                    page.headers_mut().entry(name).or_insert(value.clone());
                }
                page
            }
            None => response,
        };
        response.headers_mut().insert(CHALLENGE, field);
        response
    }

    /// Returns the answer to a request by what becomes of it; `silent` if a limit refuses it silently.
    fn answered(self, action: Action, silent: bool, head: HeaderMap) -> Response {
        let GateQuestion { forward, asked, .. } = self;
        let is_silent = passes(action) && (silent || action == Action::Shadow);
        match &forward.silent {
            // It looks like the application's, so it has none of the limits' fields.
            Some(answer) if is_silent && asked.writes() => silent_answer::for_proxy(answer, forward.refuse),
            _ => answered(forward, action, silent, head),
        }
    }

    async fn take(self, node: &Node, plan: &Plan) -> Vec<TakeResult> {
        let GateQuestion { forward, asked, .. } = self;
        // A limit that counts by what the request does not have does not count it.
        let group = LimitGroup::of_known(&node.engine, plan, &forward.limits, |field| asked.field(field));
        let takes = group.takes(None);
        if takes.is_empty() {
            return Vec::new();
        }
        let _stage = RequestTrace::during("limits");
        node.engine.take(&takes, node.now()).await
    }

    async fn decide(
        self,
        node: &Arc<Node>,
        plan: &Plan,
        pipeline: &str,
        mut event: Event,
    ) -> Result<Option<Decision>, HttpFailure> {
        let Some(pipeline) = plan.pipeline(Some(pipeline)) else { return Ok(None) };
        let ForwardedRequest { method, path, query, .. } = self.asked;
        let target = VisitedTarget { method, authority: self.authority, path, query };
        visitor_identity::add(node, plan, pipeline, target, self.headers, &mut event).await;
        let prepared = node.prepare(pipeline, event, node.now(), LookupMode::Configured).await?;
        let decisions = node.decide_for(&self.forward.name, vec![prepared]).await;
        let decision = decisions.into_iter().next();
        Ok(Some(decision.ok_or_else(|| INTERNAL.failure("the request was not decided"))?))
    }
}

/// Returns what a proxy is told whose question finds no place, or no answer in time: what the limits and the pipeline say by
/// their `on_error`.
pub(crate) fn undecided(node: &Node, forward: &ForwardPlan) -> Response {
    node.metrics.forward_undecided.inc();
    answered(forward, forward.on_error.action(Action::Accept), false, HeaderMap::new())
}

/// Longest value that is taken from a request's head, in bytes.
const HEAD_VALUE_BYTES_MAX: usize = 4 << 10;

/// The value at a place in a request; of a field that is there several times the first.
fn of_request(headers: &HeaderMap, body: &[u8], source: &ForwardSource) -> Option<String> {
    let value = match source {
        ForwardSource::Header(name) => received(headers.get(name)?.as_bytes()).into_owned(),
        ForwardSource::Cookie(name) => cookie(headers, name)?,
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

/// The load of the site: what the proxy says, or the share of what it is made for.
fn load(forward: &ForwardPlan, headers: &HeaderMap, rate: f64) -> Option<f64> {
    let said = forward.load_field.as_ref().and_then(|name| headers.get(name));
    let said = said.and_then(|value| received(value.as_bytes()).trim().parse::<f64>().ok());
    said.filter(|load| load.is_finite()).or_else(|| forward.capacity.map(|capacity| rate / capacity))
}

/// Returns true if a request is handed on to the application.
fn passes(action: Action) -> bool {
    matches!(action, Action::Accept | Action::Tag | Action::ReviewAfter | Action::Shadow)
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

pub(crate) fn refused(status: StatusCode, meant: StatusCode, title: &str, head: HeaderMap) -> Response {
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
