//! CrowdSec's bouncer protocol: the ban list as the local API of CrowdSec has it, below a prefix of its own.
//!
//! Bouncers take a base URL, here `http://HOST:PORT/crowdsec/`, and ask for `v1/decisions/stream` (firewalls, proxies in stream
//! mode) or `v1/decisions?ip=` (proxies in live mode) below it. `cscli` lists the same bans as alerts.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use engine::{Ban, BanScope, LabelSource};
use event::{Span, Time};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};

use super::bans::{BanFeeds, BanForm, changes, held};
use super::{JsonBody, QueryParams};
use crate::api::Timestamp;
use crate::core::node::Node;
use crate::core::problem::{HttpFailure, INVALID_PARAMETER, NOT_FOUND, ProblemResponses};

/// The origin of all decisions.
const ORIGIN: &str = "tollhouse";
/// The time after which a machine logs in anew.
const LOGIN: Span = Span::hours(1);

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

/// Returns the changes of the ban list since this bouncer last asked, in CrowdSec's format.
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
    changes(node, feeds, "crowdsec", params, is_startup, Duration::ZERO, &headers)
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

/// Lists the bans on a value for bouncers in live mode, including those on an address's networks; `null` for none.
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
        [&params.range, &params.value].into_iter().flatten().all(|value| ban.is_of(value))
            && params.scope.as_ref().is_none_or(|wanted| wanted.eq_ignore_ascii_case(scope(ban)))
            && params.kind.as_ref().is_none_or(|wanted| *wanted == ban.source.decision)
    };
    let found: Vec<BouncerDecision> =
        found.iter().filter(|ban| fits(ban)).map(|ban| BouncerDecision::of(ban, now)).collect();
    Ok(Json((!found.is_empty()).then_some(found)))
}

/// A decision within an alert, as `cscli` reads it.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct CrowdsecAlertDecision {
    id: u64,
    /// Always `tollhouse`.
    origin: &'static str,
    #[serde(rename = "type")]
    kind: String,
    scope: String,
    value: String,
    /// The time for which it holds, such as `59m30s`.
    duration: String,
    scenario: String,
    simulated: bool,
    until: Timestamp,
}

/// The source of an alert.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct CrowdsecAlertSource {
    scope: String,
    value: String,
    /// The address, if the source is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    ip: Option<String>,
    /// The network, if the source is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    range: Option<String>,
}

/// An alert as `cscli` reads it: here each ban is one. The moment at which it was put on is not known, nor are lines; both are
/// in the decision that `tollhouse explain` shows.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct CrowdsecAlert {
    id: u64,
    /// Always `tollhouse`.
    machine_id: &'static str,
    scenario: String,
    scenario_hash: &'static str,
    scenario_version: &'static str,
    message: String,
    capacity: i32,
    leakspeed: &'static str,
    events_count: i32,
    /// Always empty: lines are not kept with a ban.
    events: Vec<Value>,
    simulated: bool,
    remediation: bool,
    /// The time since which the ban holds.
    created_at: Timestamp,
    start_at: Timestamp,
    stop_at: Timestamp,
    source: CrowdsecAlertSource,
    decisions: Vec<CrowdsecAlertDecision>,
}

impl CrowdsecAlert {
    fn of(ban: &Ban, now: Time) -> CrowdsecAlert {
        let BouncerDecision { id, origin, kind, scope, value, duration, scenario, until } =
            BouncerDecision::of(ban, now);
        let source = CrowdsecAlertSource {
            ip: (ban.scope == BanScope::Ip).then(|| value.clone()),
            range: (ban.scope == BanScope::Range).then(|| value.clone()),
            scope: scope.clone(),
            value: value.clone(),
        };
        CrowdsecAlert {
            id,
            machine_id: ORIGIN,
            message: format!("{kind} of {scope} {value} by {}{}", ban.source.by, cause(ban)),
            scenario: scenario.clone(),
            scenario_hash: "",
            scenario_version: "",
            capacity: 0,
            leakspeed: "",
            events_count: 0,
            events: Vec::new(),
            simulated: false,
            remediation: true,
            created_at: Timestamp(ban.since),
            start_at: Timestamp(ban.since),
            stop_at: Timestamp(ban.since),
            source,
            decisions: vec![CrowdsecAlertDecision {
                id,
                origin,
                kind,
                scope,
                value,
                duration,
                scenario,
                simulated: false,
                until,
            }],
        }
    }
}

/// Returns the decision or the reason behind a ban, for the end of a sentence.
fn cause(ban: &Ban) -> String {
    let Some(cause) = ban.cause.as_deref() else { return String::new() };
    match (cause.decision, &cause.why) {
        (Some(id), _) => format!(", decision {id}"),
        (None, Some(why)) => format!(": {why}"),
        (None, None) => String::new(),
    }
}

/// Most alerts of one answer, and those that are looked at for it.
const ALERTS_MAX: usize = 10_000;
const ALERTS_SEARCHED_MAX: usize = 200_000;

/// The alerts to list. `cscli` has more parameters, of which none changes the answer here.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct CrowdsecAlertParams {
    /// Most alerts; 0 for all, of which 10,000 are shown.
    limit: Option<usize>,
    /// Only of this address, and of networks that it is in.
    ip: Option<String>,
    /// Only of this network.
    range: Option<String>,
    /// Only of this value.
    value: Option<String>,
    /// Only of this scope: `ip`, `range`, or a kind's name.
    scope: Option<String>,
    /// Only of this scenario, `PIPELINE/LABEL:BY`.
    scenario: Option<String>,
    /// Only with decisions of this type, such as `ban`.
    decision_type: Option<String>,
    /// Only of this origin; there is `tollhouse`.
    origin: Option<String>,
}

impl CrowdsecAlertParams {
    fn takes(&self, ban: &Ban, alert: &CrowdsecAlert) -> bool {
        let is = |wanted: &Option<String>, own: &str| {
            wanted.as_ref().is_none_or(|wanted| wanted.is_empty() || wanted.eq_ignore_ascii_case(own))
        };
        let is_of = |wanted: &Option<String>| {
            wanted.as_ref().is_none_or(|value| value.is_empty() || ban.is_of(value))
        };
        is_of(&self.value)
            && is_of(&self.range)
            && is(&self.scope, &alert.source.scope)
            && is(&self.scenario, &alert.scenario)
            && is(&self.decision_type, &ban.source.decision)
            && is(&self.origin, ORIGIN)
    }
}

/// Lists active bans, newest first, for `cscli alerts list` and `cscli decisions list`.
#[utoipa::path(
    get,
    path = "/crowdsec/v1/alerts",
    tag = "bans",
    operation_id = "crowdsec_alerts",
    params(CrowdsecAlertParams),
    responses((status = 200, description = "Alerts", body = Vec<CrowdsecAlert>), ProblemResponses),
)]
pub(super) async fn alerts(
    State(node): State<Arc<Node>>,
    QueryParams(params): QueryParams<CrowdsecAlertParams>,
) -> Result<Json<Vec<CrowdsecAlert>>, HttpFailure> {
    let (now, bans) = (node.now(), node.engine.ban_list());
    let most = params.limit.filter(|limit| *limit > 0).unwrap_or(ALERTS_MAX).min(ALERTS_MAX);
    let mut found = Vec::new();
    let mut add = |ban: &Ban| {
        let alert = CrowdsecAlert::of(ban, now);
        if params.takes(ban, &alert) && found.len() < most {
            found.push(alert);
        }
        found.len() < most
    };
    if let Some(ip) = params.ip.as_deref().filter(|ip| !ip.is_empty()) {
        held(bans, Some(ip), None, now)?.unwrap_or_default().iter().for_each(|ban| {
            add(ban);
        });
        return Ok(Json(found));
    }
    let (mut before, mut searched) = (Some(u64::MAX), 0);
    while let Some(number) = before.filter(|_| searched < ALERTS_SEARCHED_MAX) {
        let (page, next) = bans.page_before(number, now);
        searched += page.len().max(1);
        before = if page.iter().all(&mut add) { next } else { None };
        tokio::task::yield_now().await;
    }
    Ok(Json(found))
}

/// An active ban, for `cscli alerts inspect`.
#[utoipa::path(
    get,
    path = "/crowdsec/v1/alerts/{id}",
    tag = "bans",
    operation_id = "crowdsec_alert",
    params(("id" = u64, Path, description = "The number of the ban")),
    responses((status = 200, description = "The alert", body = CrowdsecAlert), ProblemResponses),
)]
pub(super) async fn alert(
    State(node): State<Arc<Node>>,
    Path(id): Path<u64>,
) -> Result<Json<CrowdsecAlert>, HttpFailure> {
    let now = node.now();
    let (page, _) = node.engine.ban_list().page_before(id.saturating_add(1), now);
    let ban = page.iter().find(|ban| ban.id == id);
    let ban = ban.ok_or_else(|| NOT_FOUND.failure(format!("no ban of the number {id} holds")))?;
    Ok(Json(CrowdsecAlert::of(ban, now)))
}

/// The name and password of a machine; the password is one of the node's tokens.
#[derive(Debug, Deserialize, ToSchema)]
pub(super) struct WatcherLogin {
    password: String,
}

/// The token that a machine sends from now on.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct WatcherToken {
    code: u16,
    /// The time at which the machine asks anew.
    expire: Timestamp,
    /// The password itself: each request is checked by it.
    token: String,
}

/// Logs machines (`cscli`) in: returns the password as the token, which is checked on each request.
#[utoipa::path(
    post,
    path = "/crowdsec/v1/watchers/login",
    tag = "bans",
    operation_id = "crowdsec_login",
    request_body = WatcherLogin,
    responses((status = 200, description = "The token", body = WatcherToken), ProblemResponses),
)]
pub(super) async fn login(
    State(node): State<Arc<Node>>,
    JsonBody(login): JsonBody<WatcherLogin>,
) -> Json<WatcherToken> {
    Json(WatcherToken { code: 200, expire: Timestamp(node.now() + LOGIN), token: login.password })
}

/// Accepts heartbeats of bouncers and machines, and keeps nothing.
#[utoipa::path(
    get,
    path = "/crowdsec/v1/heartbeat",
    tag = "bans",
    operation_id = "crowdsec_heartbeat",
    responses((status = 200, description = "The server lives, too"), ProblemResponses),
)]
pub(super) async fn heartbeat() -> StatusCode {
    StatusCode::OK
}

/// Accepts the metrics of bouncers, and keeps nothing.
#[utoipa::path(
    post,
    path = "/crowdsec/v1/usage-metrics",
    tag = "bans",
    operation_id = "crowdsec_usage_metrics",
    request_body = Value,
    responses((status = 201, description = "It was taken"), ProblemResponses),
)]
pub(super) async fn usage_metrics(JsonBody(_): JsonBody<Value>) -> StatusCode {
    StatusCode::CREATED
}
