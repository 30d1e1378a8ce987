//! CrowdSec's bouncer protocol: the ban list as the local API of CrowdSec has it, below a prefix of its own.
//!
//! Bouncers take a base URL, here `http://HOST:PORT/crowdsec/`, and ask for `v1/decisions/stream` (firewalls, proxies in stream
//! mode) or `v1/decisions?ip=` (proxies in live mode) below it.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use engine::{Ban, BanScope, LabelSource};
use event::Time;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::QueryParams;
use super::bans::{BanFeeds, BanForm, changes, held};
use crate::api::Timestamp;
use crate::core::node::Node;
use crate::core::problem::{HttpFailure, INVALID_PARAMETER, ProblemResponses};

/// The origin of all decisions.
const ORIGIN: &str = "tollhouse";

/// The decisions to send. Bouncers have more parameters, of which none changes the answer here.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct BouncerParams {
    /// True for the whole list, and not only its changes.
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

/// Changes of the decisions, for the description of the interface: they are never in memory whole.
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
    /// Always `tollhouse`.
    origin: &'static str,
    /// The measure to take, as the label's `decision` says, such as `ban`.
    #[serde(rename = "type")]
    kind: String,
    /// `Ip`, `Range`, or the name of the key's kind.
    scope: String,
    /// The address, network, or other piece.
    value: String,
    /// The time for which it holds, such as `3599s`; negative where it holds no longer.
    duration: String,
    /// `PIPELINE/LABEL`, and behind a colon what put it on.
    scenario: String,
    /// The end of the ban.
    until: Timestamp,
}

impl BouncerDecision {
    fn of(ban: &Ban, now: Time) -> BouncerDecision {
        let left = ban.until - now;
        let LabelSource { pipeline, label, decision, by, .. } = &*ban.source;
        BouncerDecision {
            id: ban.id,
            origin: ORIGIN,
            kind: decision.clone(),
            scope: scope(ban).to_owned(),
            value: ban.value.to_string(),
            duration: format!("{}s", left.0.div_euclid(1_000_000)),
            scenario: format!("{pipeline}/{label}:{by}"),
            until: Timestamp(ban.until),
        }
    }
}

fn scope(ban: &Ban) -> &str {
    match ban.scope {
        BanScope::Ip => "Ip",
        BanScope::Range => "Range",
        BanScope::Other => &ban.source.kind,
    }
}

/// One of a comma-separated list fits; none is asked for if there is no list.
fn any(list: Option<&str>, fits: impl Fn(&str) -> bool) -> Option<bool> {
    let mut items = list?.split(',').map(str::trim).filter(|item| !item.is_empty()).peekable();
    items.peek()?;
    Some(items.any(fits))
}

impl BouncerParams {
    fn takes(&self, decision: &BouncerDecision) -> bool {
        let lower = decision.scenario.to_ascii_lowercase();
        let contains = |text: &str| lower.contains(&text.to_ascii_lowercase());
        any(self.scopes.as_deref(), |scope| scope.eq_ignore_ascii_case(&decision.scope)).unwrap_or(true)
            && any(self.origins.as_deref(), |origin| origin == ORIGIN).unwrap_or(true)
            && any(self.scenarios_containing.as_deref(), contains).unwrap_or(true)
            && !any(self.scenarios_not_containing.as_deref(), contains).unwrap_or(false)
    }
}

impl BanForm for BouncerParams {
    type Item = BouncerDecision;

    fn item(&self, ban: &Ban, now: Time) -> Option<BouncerDecision> {
        Some(BouncerDecision::of(ban, now)).filter(|decision| self.takes(decision))
    }
}

/// Changes of the ban list since the same bouncer last asked, as CrowdSec's bouncers read them.
#[utoipa::path(
    get,
    path = "/crowdsec/v1/decisions/stream",
    tag = "bans",
    operation_id = "crowdsec_stream",
    params(BouncerParams),
    responses((status = 200, description = "What has changed", body = BouncerStream), ProblemResponses),
)]
pub(super) async fn stream(
    State(node): State<Arc<Node>>,
    State(feeds): State<Arc<BanFeeds>>,
    QueryParams(params): QueryParams<BouncerParams>,
    headers: HeaderMap,
) -> Result<Response, HttpFailure> {
    let is_startup = params.startup;
    changes(node, feeds, "crowdsec", params, is_startup, &headers)
}

/// The parameters that say whose decisions are asked for.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct BouncerLookupParams {
    /// An address.
    ip: Option<String>,
    /// A network, as the list has it.
    range: Option<String>,
    /// Any value, as the list has it.
    value: Option<String>,
    /// Only of this scope: `ip`, `range`, or a kind's name.
    scope: Option<String>,
    /// Only of this type, such as `ban`.
    #[serde(rename = "type")]
    kind: Option<String>,
}

/// The bans on a value, as bouncers in live mode ask for them: those on networks that an address is in included, and `null`
/// where there are none.
#[utoipa::path(
    get,
    path = "/crowdsec/v1/decisions",
    tag = "bans",
    operation_id = "crowdsec_decisions",
    params(BouncerLookupParams),
    responses((status = 200, description = "Decisions that hold", body = Option<Vec<BouncerDecision>>), ProblemResponses),
)]
pub(super) async fn lookup(
    State(node): State<Arc<Node>>,
    QueryParams(params): QueryParams<BouncerLookupParams>,
) -> Result<Json<Option<Vec<BouncerDecision>>>, HttpFailure> {
    let (now, value) = (node.now(), params.range.as_deref().or(params.value.as_deref()));
    let found = held(node.engine.ban_list(), params.ip.as_deref(), value, now)?.ok_or_else(|| {
        INVALID_PARAMETER
            .failure("ip: missing, and `range` and `value` too")
            .help("/crowdsec/v1/decisions/stream?startup=true lists all decisions")
    })?;
    let fits = |ban: &Ban| {
        [&params.range, &params.value].into_iter().flatten().all(|value| **value == *ban.value)
            && params.scope.as_ref().is_none_or(|wanted| wanted.eq_ignore_ascii_case(scope(ban)))
            && params.kind.as_ref().is_none_or(|wanted| *wanted == ban.source.decision)
    };
    let found: Vec<BouncerDecision> =
        found.iter().filter(|ban| fits(ban)).map(|ban| BouncerDecision::of(ban, now)).collect();
    Ok(Json((!found.is_empty()).then_some(found)))
}
