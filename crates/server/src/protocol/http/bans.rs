//! What enforcement points are told: the labels that keys have, in the forms that they read.
//!
//! The stream is that of CrowdSec's local API, which its bouncers poll: everything at their start, then what has changed
//! since they last asked. Who asks is known by its key and by what program it says that it is.

use std::collections::HashMap;
use std::convert::Infallible;
use std::future::ready;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use axum::Json;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use engine::{Ban, BanChanges, BanList, BanScope, EngineError, LabelSource};
use event::{Span, Time};
use futures_util::StreamExt;
use futures_util::stream::{once, unfold};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use utoipa::{IntoParams, ToSchema};

use super::{JsonBody, QueryParams};
use crate::api::{Length, Timestamp};
use crate::core::node::Node;
use crate::core::problem::{HttpFailure, INVALID_PARAMETER, OVERLOADED, ProblemResponses, shown};

/// Most enforcement points whose place in the stream is remembered. One that is forgotten is told everything anew.
const READERS_MAX: usize = 1024;
/// Lists of decisions that may be on their way at once.
const FEEDS_MAX: usize = 16;
/// Lines that are sent at once.
const LINES: usize = 1000;
/// What all decisions are said to come from.
const ORIGIN: &str = "tollhouse";

/// The lists of decisions that are on their way, and who has read them.
#[derive(Debug)]
pub(super) struct BanFeeds {
    places: Arc<Semaphore>,
    readers: BouncerPositions,
}

impl Default for BanFeeds {
    fn default() -> BanFeeds {
        BanFeeds { places: Arc::new(Semaphore::new(FEEDS_MAX)), readers: BouncerPositions::default() }
    }
}

impl BanFeeds {
    /// A place for a list that may be long and that a client may take slowly.
    fn place(&self) -> Result<OwnedSemaphorePermit, HttpFailure> {
        Arc::clone(&self.places).try_acquire_owned().map_err(|_| {
            OVERLOADED
                .failure("too many lists of decisions are on their way")
                .help("try again a little later")
        })
    }
}

/// How far each enforcement point has read.
#[derive(Debug, Default)]
struct BouncerPositions(Mutex<HashMap<[u8; 32], u64>>);

impl BouncerPositions {
    fn place(&self, who: &[u8; 32]) -> Option<u64> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(who).copied()
    }

    fn keep(&self, who: [u8; 32], place: u64) {
        let mut places = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if places.len() >= READERS_MAX && !places.contains_key(&who) {
            let furthest = places.iter().min_by_key(|(_, place)| **place).map(|(who, _)| *who);
            furthest.map(|who| places.remove(&who));
        }
        places.insert(who, place);
    }
}

/// Returns who asks: the key that it shows, and its program's name.
fn reader(headers: &HeaderMap) -> [u8; 32] {
    let mut digest = Sha256::new();
    for name in [header::HeaderName::from_static("x-api-key"), header::AUTHORIZATION, header::USER_AGENT] {
        let value = headers.get(name).map(header::HeaderValue::as_bytes).unwrap_or_default();
        digest.update((value.len() as u64).to_le_bytes());
        digest.update(value);
    }
    digest.finalize().into()
}

/// Which decisions. Bouncers ask in more ways than these, of which none changes what is told here.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct StreamParams {
    /// Everything, and not only what has changed.
    #[serde(default)]
    startup: bool,
    /// Comma-separated: `ip`, `range`, or a kind's name.
    scopes: Option<String>,
    /// Comma-separated: only decisions of these origins; there is `tollhouse`.
    origins: Option<String>,
    /// Comma-separated: only scenarios that have one of these texts in them.
    scenarios_containing: Option<String>,
    /// Comma-separated: no scenario that has one of these texts in it.
    scenarios_not_containing: Option<String>,
}

/// What has changed, for the description of the interface: it is never in memory whole.
#[derive(Debug, ToSchema)]
#[expect(dead_code, reason = "it is written page by page")]
pub(super) struct BouncerStream {
    /// Decisions that hold from now on.
    new: Vec<BouncerDecision>,
    /// Decisions that hold no longer.
    deleted: Vec<BouncerDecision>,
}

/// A decision as bouncers read it.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct BouncerDecision {
    id: u64,
    /// Where it comes from: always `tollhouse`.
    origin: &'static str,
    /// What is to be done, as the label's `decision` says, such as `ban`.
    #[serde(rename = "type")]
    kind: String,
    /// `Ip`, `Range`, or the name of the key's kind.
    scope: String,
    /// The address, network, or other piece.
    value: String,
    /// How long it holds, such as `3599s`; negative where it holds no longer.
    duration: String,
    /// `PIPELINE/LABEL`, and behind a colon what put it on.
    scenario: String,
    /// When it ends.
    until: Timestamp,
}

impl BouncerDecision {
    fn of(told: &Ban, now: Time) -> BouncerDecision {
        let left = told.until - now;
        let LabelSource { pipeline, label, decision, by, .. } = &*told.source;
        BouncerDecision {
            id: told.id,
            origin: ORIGIN,
            kind: decision.clone(),
            scope: scope(told).to_owned(),
            value: told.value.to_string(),
            duration: format!("{}s", left.0.div_euclid(1_000_000)),
            scenario: format!("{pipeline}/{label}:{by}"),
            until: Timestamp(told.until),
        }
    }
}

fn scope(told: &Ban) -> &str {
    match told.scope {
        BanScope::Ip => "Ip",
        BanScope::Range => "Range",
        BanScope::Other => &told.source.kind,
    }
}

/// One of a comma-separated list fits; none is asked for if there is no list.
fn any(list: Option<&str>, fits: impl Fn(&str) -> bool) -> Option<bool> {
    let mut items = list?.split(',').map(str::trim).filter(|item| !item.is_empty()).peekable();
    items.peek()?;
    Some(items.any(fits))
}

impl StreamParams {
    fn takes(&self, decision: &BouncerDecision) -> bool {
        let lower = decision.scenario.to_ascii_lowercase();
        let contains = |text: &str| lower.contains(&text.to_ascii_lowercase());
        any(self.scopes.as_deref(), |scope| scope.eq_ignore_ascii_case(&decision.scope)).unwrap_or(true)
            && any(self.origins.as_deref(), |origin| origin == ORIGIN).unwrap_or(true)
            && any(self.scenarios_containing.as_deref(), contains).unwrap_or(true)
            && !any(self.scenarios_not_containing.as_deref(), contains).unwrap_or(false)
    }

    /// Those of some keys that are wanted, behind each other.
    fn write(&self, told: &[Ban], now: Time, is_first: &mut bool, out: &mut Vec<u8>) {
        let all = told.iter().map(|told| BouncerDecision::of(told, now));
        for decision in all.filter(|decision| self.takes(decision)) {
            if !std::mem::replace(is_first, false) {
                out.push(b',');
            }
            // Writing to a vector cannot fail, and no type here refuses to be written.
            let _ = serde_json::to_writer(&mut *out, &decision);
        }
    }
}

/// A list of decisions that is on its way: a page at a time is looked up and written, when the one before is taken.
struct BanStream {
    node: Arc<Node>,
    feeds: Arc<BanFeeds>,
    params: StreamParams,
    now: Time,
    who: [u8; 32],
    changes: BanChanges,
    is_begun: bool,
    is_first: bool,
    is_over: bool,
    _place: OwnedSemaphorePermit,
}

impl BanStream {
    fn next(&mut self) -> Option<Bytes> {
        if self.is_over {
            return None;
        }
        let mut out = Vec::new();
        if !std::mem::replace(&mut self.is_begun, true) {
            out.extend_from_slice(b"{\"new\":[");
        }
        let page = self.node.engine.ban_list().page(&mut self.changes.new, self.now);
        self.params.write(&page, self.now, &mut self.is_first, &mut out);
        if self.changes.new.is_none() {
            out.extend_from_slice(b"],\"deleted\":[");
            self.params.write(&self.changes.deleted, self.now, &mut true, &mut out);
            out.extend_from_slice(b"]}");
            // Who breaks off is told the same again.
            self.feeds.readers.keep(self.who, self.changes.next);
            self.is_over = true;
        }
        Some(out.into())
    }
}

/// Changes of the ban list since the same enforcement point last asked, in the form that CrowdSec's bouncers read.
#[utoipa::path(
    get,
    path = "/v1/decisions/stream",
    tag = "enforce",
    operation_id = "decisions_stream",
    params(StreamParams),
    responses((status = 200, description = "What has changed", body = BouncerStream), ProblemResponses),
)]
pub(super) async fn stream(
    State(node): State<Arc<Node>>,
    State(feeds): State<Arc<BanFeeds>>,
    QueryParams(params): QueryParams<StreamParams>,
    headers: HeaderMap,
) -> Result<Response, HttpFailure> {
    let place = feeds.place()?;
    let (who, now, told) = (reader(&headers), node.now(), node.engine.ban_list());
    let place_in_stream = if params.startup { None } else { feeds.readers.place(&who) };
    let changes = place_in_stream.map_or_else(|| told.held(now), |number| told.since(number, now));
    let node = Arc::clone(&node);
    let mut telling = BanStream {
        node,
        feeds,
        params,
        now,
        who,
        changes,
        is_begun: false,
        is_first: true,
        is_over: false,
        _place: place,
    };
    // What fits into one page has a length.
    let first = telling.next().unwrap_or_default();
    let body = if telling.is_over {
        Body::from(first)
    } else {
        let rest = unfold(telling, async |mut telling| telling.next().map(|page| (page, telling)));
        Body::from_stream(once(ready(first)).chain(rest).map(Ok::<_, Infallible>))
    };
    Ok(([(header::CONTENT_TYPE, "application/json")], body).into_response())
}

/// Which addresses.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct ListParams {
    /// Only decisions of this type, such as `ban`.
    #[serde(rename = "type")]
    kind: Option<String>,
    /// Only the labels of this name.
    label: Option<String>,
    /// Only of this pipeline.
    pipeline: Option<String>,
}

/// The addresses and networks that have a label, one a line, for `ipset`, nginx's `geo` and the like.
#[utoipa::path(
    get,
    path = "/v1/decisions/ips",
    tag = "enforce",
    params(ListParams),
    responses(
        (status = 200, description = "One address or network a line", body = String, content_type = "text/plain"),
        ProblemResponses,
    ),
)]
pub(super) async fn ips(
    State(node): State<Arc<Node>>,
    State(feeds): State<Arc<BanFeeds>>,
    QueryParams(params): QueryParams<ListParams>,
) -> Result<Response, HttpFailure> {
    let place = feeds.place()?;
    let (engine, now) = (Arc::clone(&node.engine), node.now());
    let work = move |is_over: &(dyn Fn() -> bool + Sync)| addresses(engine.ban_list(), &params, now, is_over);
    let values = node.scans.run(node.timeout() / 2, work).await?;
    let mut values = values.into_iter();
    let first = lines(&mut values);
    let body = if values.len() == 0 {
        Body::from(first)
    } else {
        let rest = unfold((values, place), async |(mut values, place)| {
            let lines = lines(&mut values);
            (!lines.is_empty()).then_some((lines, (values, place)))
        });
        Body::from_stream(once(ready(first)).chain(rest).map(Ok::<_, Infallible>))
    };
    Ok(([(header::CONTENT_TYPE, "text/plain; charset=utf-8")], body).into_response())
}

/// The next values, one a line.
fn lines(values: &mut impl Iterator<Item = Arc<str>>) -> String {
    let mut lines = String::new();
    for value in values.take(LINES) {
        lines.push_str(&value);
        lines.push('\n');
    }
    lines
}

/// The addresses and networks that are wanted, in order, each once.
fn addresses(
    register: &BanList,
    params: &ListParams,
    now: Time,
    is_over: &(dyn Fn() -> bool + Sync),
) -> Vec<Arc<str>> {
    let fits = |wanted: &Option<String>, own: &str| wanted.as_ref().is_none_or(|wanted| wanted == own);
    let mut rest = register.held(now).new;
    let mut values = Vec::new();
    while rest.is_some() && !is_over() {
        let page = register.page(&mut rest, now).into_iter();
        let wanted = page.filter(|told| {
            let source = &told.source;
            told.scope != BanScope::Other
                && fits(&params.kind, &source.decision)
                && fits(&params.label, &source.label)
                && fits(&params.pipeline, &source.pipeline)
        });
        values.extend(wanted.map(|told| told.value));
    }
    values.sort_unstable();
    values.dedup();
    values
}

/// Whose decisions.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct LookupParams {
    /// An address.
    ip: Option<String>,
    /// A network, as it was told.
    range: Option<String>,
    /// Any value, as it was told.
    value: Option<String>,
    /// Only of this scope: `ip`, `range`, or a kind's name.
    scope: Option<String>,
    /// Only of this type, such as `ban`.
    #[serde(rename = "type")]
    kind: Option<String>,
}

/// The decisions on a value, those on networks that an address is in included; `null` where there are none, as bouncers
/// in live mode expect.
#[utoipa::path(
    get,
    path = "/v1/decisions",
    tag = "enforce",
    operation_id = "decisions_lookup",
    params(LookupParams),
    responses((status = 200, description = "Decisions that hold", body = Option<Vec<BouncerDecision>>), ProblemResponses),
)]
pub(super) async fn lookup(
    State(node): State<Arc<Node>>,
    QueryParams(params): QueryParams<LookupParams>,
) -> Result<Json<Option<Vec<BouncerDecision>>>, HttpFailure> {
    let ip = params.ip.as_deref().map(|ip| {
        let parsed = ip.parse::<IpAddr>();
        parsed.map_err(|_| INVALID_PARAMETER.failure(format!("ip: `{}` is no address", shown(ip))))
    });
    let (ip, now, register) = (ip.transpose()?, node.now(), node.engine.ban_list());
    let told = match (ip, params.range.as_ref().or(params.value.as_ref())) {
        (Some(ip), _) => register.of_address(ip, now),
        (None, Some(value)) => register.of_value(value, now),
        (None, None) => {
            return Err(INVALID_PARAMETER
                .failure("ip: missing, and `range` and `value` too")
                .help("/v1/decisions/stream?startup=true tells all decisions"));
        }
    };
    let fits = |told: &Ban| {
        [&params.range, &params.value].into_iter().flatten().all(|value| **value == *told.value)
            && params.scope.as_ref().is_none_or(|wanted| wanted.eq_ignore_ascii_case(scope(told)))
            && params.kind.as_ref().is_none_or(|wanted| *wanted == told.source.decision)
    };
    let found: Vec<BouncerDecision> =
        told.iter().filter(|told| fits(told)).map(|told| BouncerDecision::of(told, now)).collect();
    Ok(Json((!found.is_empty()).then_some(found)))
}

/// A label for the key of a value.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct LabelRequest {
    /// The pipeline; the first of the configuration if none is named.
    pipeline: Option<String>,
    /// The kind of the key.
    kind: String,
    /// The label, one with a `decision`.
    label: String,
    /// The value, as it stands in events.
    value: String,
    /// How long it is to hold, such as `4h`; at most the label's `keep`.
    #[serde(rename = "for")]
    lasts: Length,
}

/// What came of it.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct LabelOutcome {
    /// Until when it holds.
    until: Timestamp,
    /// The value as enforcement points are told it.
    value: String,
}

/// Puts a label on a key by hand: rules see it, and enforcement points are told.
#[utoipa::path(
    post,
    path = "/v1/decisions",
    tag = "enforce",
    request_body = LabelRequest,
    responses((status = 200, description = "It holds", body = LabelOutcome), ProblemResponses),
)]
pub(super) async fn label(
    State(node): State<Arc<Node>>,
    JsonBody(label): JsonBody<LabelRequest>,
) -> Result<Json<LabelOutcome>, HttpFailure> {
    let pipeline = node.pipeline(label.pipeline.as_deref())?;
    let LabelRequest { kind, label, value, lasts, .. } = label;
    if lasts.0 <= Span::ZERO {
        return Err(INVALID_PARAMETER.failure("for: expected a length of time such as `4h`"));
    }
    let marked = node.engine.mark(&pipeline, &kind, &label, &value, lasts.0, node.now()).await;
    let (until, value) = marked.map_err(|error| match error {
        EngineError::NotOnBanList(_) => INVALID_PARAMETER
            .failure(format!("label: {error}"))
            .help("give it a `decision` in the configuration"),
        error => error.into(),
    })?;
    Ok(Json(LabelOutcome { until: Timestamp(until), value }))
}

/// Which value.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct LiftParams {
    /// The address, network or other piece, as it was told.
    value: String,
}

/// What was taken off.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct LiftOutcome {
    /// How many decisions; bouncers are told with their next question.
    lifted: usize,
}

/// Takes a value off the ban list: its labels with a `decision` end now, for enforcement points and rules.
#[utoipa::path(
    delete,
    path = "/v1/decisions",
    tag = "enforce",
    params(LiftParams),
    responses((status = 200, description = "How many decisions were taken back", body = LiftOutcome), ProblemResponses),
)]
pub(super) async fn lift(
    State(node): State<Arc<Node>>,
    QueryParams(params): QueryParams<LiftParams>,
) -> Result<Json<LiftOutcome>, HttpFailure> {
    let lifted = node.engine.lift(&params.value, node.now()).await?;
    Ok(Json(LiftOutcome { lifted }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readers_are_bounded() {
        let readers = BouncerPositions::default();
        for who in 0..=READERS_MAX as u64 {
            let mut id = [0; 32];
            id[..8].copy_from_slice(&who.to_le_bytes());
            readers.keep(id, who);
        }
        assert_eq!(readers.place(&[0; 32]), None, "the one that was furthest behind is forgotten");
        let mut last = [0; 32];
        last[..8].copy_from_slice(&(READERS_MAX as u64).to_le_bytes());
        assert_eq!(readers.place(&last), Some(READERS_MAX as u64));
    }
}
