//! What enforcement points are told: the labels that keys have, in the forms that they read.
//!
//! The stream is that of CrowdSec's local API, which its bouncers poll: everything at their start, then what has changed
//! since they last asked. Who asks is known by its key and by what program it says that it is.

use std::collections::HashMap;
use std::fmt::Write;
use std::sync::{Arc, Mutex, PoisonError};

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use engine::{EngineError, Scope, Told};
use event::{Span, Time};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use utoipa::{IntoParams, ToSchema};

use super::{Object, Params};
use crate::api::{Length, Timestamp};
use crate::node::Node;
use crate::problem::{Failure, INVALID_PARAMETER, Problems, shown};

/// Most enforcement points whose place in the stream is remembered. One that is forgotten is told everything anew.
const READERS_MAX: usize = 1024;
/// What all decisions are said to come from.
const ORIGIN: &str = "tollhouse";

/// How far each enforcement point has read.
#[derive(Debug, Default)]
pub(crate) struct Readers(Mutex<HashMap<[u8; 32], u64>>);

impl Readers {
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

/// Who asks: the key that it shows, and its program's name.
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

/// What has changed.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Stream {
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
    fn of(told: &Told, now: Time) -> BouncerDecision {
        let left = told.until - now;
        BouncerDecision {
            id: told.id,
            origin: ORIGIN,
            kind: told.decision.clone(),
            scope: scope(told).to_owned(),
            value: told.value.clone(),
            duration: format!("{}s", left.0.div_euclid(1_000_000)),
            scenario: format!("{}/{}:{}", told.pipeline, told.label, told.by),
            until: Timestamp(told.until),
        }
    }
}

fn scope(told: &Told) -> &str {
    match told.scope {
        Scope::Ip => "Ip",
        Scope::Range => "Range",
        Scope::Other => &told.kind,
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

    fn shown(&self, told: &[Told], now: Time) -> Vec<BouncerDecision> {
        let all = told.iter().map(|told| BouncerDecision::of(told, now));
        all.filter(|decision| self.takes(decision)).collect()
    }
}

/// What has changed since the same enforcement point last asked, in the form that CrowdSec's bouncers read.
#[utoipa::path(
    get,
    path = "/v1/decisions/stream",
    tag = "enforce",
    params(StreamParams),
    responses((status = 200, description = "What has changed", body = Stream), Problems),
)]
pub(super) async fn stream(
    State(node): State<Arc<Node>>,
    Params(params): Params<StreamParams>,
    headers: HeaderMap,
) -> Json<Stream> {
    let (who, now, told) = (reader(&headers), node.now(), node.engine.told());
    let place = if params.startup { None } else { node.readers.place(&who) };
    let changes = place.map_or_else(|| told.held(now), |place| told.since(place, now));
    node.readers.keep(who, changes.next);
    Json(Stream { new: params.shown(&changes.new, now), deleted: params.shown(&changes.deleted, now) })
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
        Problems,
    ),
)]
pub(super) async fn ips(State(node): State<Arc<Node>>, Params(params): Params<ListParams>) -> Response {
    let fits = |wanted: &Option<String>, own: &str| wanted.as_ref().is_none_or(|wanted| wanted == own);
    let told = node.engine.told().held(node.now()).new;
    let mut values: Vec<&str> = told
        .iter()
        .filter(|told| told.scope != Scope::Other)
        .filter(|told| fits(&params.kind, &told.decision) && fits(&params.label, &told.label))
        .filter(|told| fits(&params.pipeline, &told.pipeline))
        .map(|told| told.value.as_str())
        .collect();
    values.sort_unstable();
    values.dedup();
    let mut lines = String::new();
    for value in values {
        // Writing to a string cannot fail.
        let _ = writeln!(lines, "{value}");
    }
    ([(header::CONTENT_TYPE, "text/plain; charset=utf-8")], lines).into_response()
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
    params(LookupParams),
    responses((status = 200, description = "Decisions that hold", body = Option<Vec<BouncerDecision>>), Problems),
)]
pub(super) async fn lookup(
    State(node): State<Arc<Node>>,
    Params(params): Params<LookupParams>,
) -> Result<Json<Option<Vec<BouncerDecision>>>, Failure> {
    let ip = params.ip.as_deref().map(|ip| {
        let parsed = ip.parse::<std::net::IpAddr>().map(|ip| ip.to_canonical());
        parsed.map_err(|_| INVALID_PARAMETER.failure(format!("ip: `{}` is no address", shown(ip))))
    });
    let ip = ip.transpose()?;
    let now = node.now();
    let fits = |told: &Told| {
        let is_value = [&params.range, &params.value].into_iter().flatten().all(|value| *value == told.value);
        is_value
            && ip.is_none_or(|ip| covers(&told.value, ip))
            && params.scope.as_ref().is_none_or(|wanted| wanted.eq_ignore_ascii_case(scope(told)))
            && params.kind.as_ref().is_none_or(|wanted| *wanted == told.decision)
    };
    let told = node.engine.told().held(now).new;
    let found: Vec<BouncerDecision> =
        told.iter().filter(|told| fits(told)).map(|told| BouncerDecision::of(told, now)).collect();
    Ok(Json((!found.is_empty()).then_some(found)))
}

/// Whether a value is an address, or a network that has it.
fn covers(value: &str, ip: std::net::IpAddr) -> bool {
    use std::net::IpAddr;
    let (address, bits) = value.split_once('/').unwrap_or((value, "128"));
    let (Ok(address), Ok(bits)) = (address.parse::<IpAddr>(), bits.parse::<u32>()) else { return false };
    match (address.to_canonical(), ip) {
        (IpAddr::V4(own), IpAddr::V4(ip)) => {
            own.to_bits() ^ ip.to_bits() <= u32::MAX.checked_shr(bits.min(32)).unwrap_or(0)
        }
        (IpAddr::V6(own), IpAddr::V6(ip)) => {
            own.to_bits() ^ ip.to_bits() <= u128::MAX.checked_shr(bits.min(128)).unwrap_or(0)
        }
        _ => false,
    }
}

/// A label for the key of a value.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Label {
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
pub(super) struct Labelled {
    /// Until when it holds.
    until: Timestamp,
}

/// Puts a label on a key by hand: rules see it, and enforcement points are told.
#[utoipa::path(
    post,
    path = "/v1/decisions",
    tag = "enforce",
    request_body = Label,
    responses((status = 200, description = "It holds", body = Labelled), Problems),
)]
pub(super) async fn label(
    State(node): State<Arc<Node>>,
    Object(label): Object<Label>,
) -> Result<Json<Labelled>, Failure> {
    let pipeline = node.pipeline(label.pipeline.as_deref())?;
    let Label { kind, label, value, lasts, .. } = label;
    if lasts.0 <= Span::ZERO {
        return Err(INVALID_PARAMETER.failure("for: expected a length of time such as `4h`"));
    }
    let marked = node.engine.mark(&pipeline, &kind, &label, &value, lasts.0, node.now()).await;
    let until = marked.map_err(|error| match error {
        EngineError::NotTold(_) => INVALID_PARAMETER
            .failure(format!("label: {error}"))
            .help("give it a `decision` in the configuration"),
        error => error.into(),
    })?;
    Ok(Json(Labelled { until: Timestamp(until) }))
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
pub(super) struct Lifted {
    /// How many decisions; bouncers are told with their next question.
    lifted: usize,
}

/// Has enforcement points and rules let go of a value: its labels with a `decision` end now. Events from before still have them.
#[utoipa::path(
    delete,
    path = "/v1/decisions",
    tag = "enforce",
    params(LiftParams),
    responses((status = 200, description = "How many decisions were taken back", body = Lifted), Problems),
)]
pub(super) async fn lift(
    State(node): State<Arc<Node>>,
    Params(params): Params<LiftParams>,
) -> Result<Json<Lifted>, Failure> {
    let lifted = node.engine.lift(&params.value, node.now()).await?;
    Ok(Json(Lifted { lifted }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_cover_their_addresses() {
        let check = |value: &str, ip: &str, expected: bool| {
            assert_eq!(covers(value, ip.parse().unwrap()), expected, "{value} {ip}");
        };
        check("192.0.2.7", "192.0.2.7", true);
        check("192.0.2.7", "192.0.2.8", false);
        check("192.0.2.0/24", "192.0.2.200", true);
        check("192.0.2.0/24", "192.0.3.1", false);
        check("0.0.0.0/0", "8.8.8.8", true);
        check("2001:db8::/64", "2001:db8::7", true);
        check("2001:db8::/64", "2001:db8:1::7", false);
        check("2001:db8::7", "2001:db8::7", true);
        check("ann", "192.0.2.7", false);
    }

    #[test]
    fn readers_are_bounded() {
        let readers = Readers::default();
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
