//! The node itself: what it runs, how it is, and what its interface looks like.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use plan::EffectiveValue;
use serde::Deserialize;
use utoipa::IntoParams;

use super::{HttpState, QueryParams};
use crate::api;
use crate::core::grant::{RequestGrant, note};
use crate::core::metrics;
use crate::core::node::Node;
use crate::core::problem::{HttpFailure, INTERNAL, ProblemResponses, UNAVAILABLE};
use crate::core::viewer::{CONSOLE, wants_page};

/// Lists the node's pipelines with their kinds, bands and rules.
#[utoipa::path(
    get,
    path = "/v1/pipelines",
    tag = "node",
    responses((status = 200, description = "The pipelines", body = api::PipelinesJson), ProblemResponses),
)]
pub(crate) async fn pipelines(State(node): State<Arc<Node>>) -> Json<api::PipelinesJson> {
    let plan = node.engine.plan();
    let grant = RequestGrant::current();
    let is_reached = |name: &str| grant.as_ref().is_none_or(|grant| grant.reaches(name));
    let pipelines = plan.pipelines.iter().filter(|pipeline| is_reached(&pipeline.name));
    let pipelines = pipelines.map(|pipeline| api::PipelineJson::new(pipeline, &node.engine));
    Json(api::PipelinesJson { pipelines: pipelines.collect() })
}

/// Returns whether the process is alive. Needs no token.
#[utoipa::path(
    get,
    path = "/healthz",
    tag = "node",
    security(()),
    responses((status = 200, description = "It is", body = api::HealthJson)),
)]
pub(super) async fn healthz() -> Json<api::HealthJson> {
    Json(api::HealthJson::of(Vec::new()))
}

/// Copies the data directory into its `snapshots`, while requests go on. At most four a minute.
///
/// Closed files are hard links where the file system allows, so this is quick; the copy takes up room once the originals
/// are removed. If the caller leaves or its time is up, the copy is removed.
#[utoipa::path(
    post,
    path = "/v1/snapshots",
    tag = "node",
    responses((status = 201, description = "It is made", body = api::SnapshotJson), ProblemResponses),
)]
pub(crate) async fn snapshot(
    State(node): State<Arc<Node>>,
) -> Result<(StatusCode, Json<api::SnapshotJson>), HttpFailure> {
    node.claim_snapshot()?;
    let (engine, now) = (Arc::clone(&node.engine), node.now());
    let work = move |is_over: &(dyn Fn() -> bool + Sync)| engine.snapshot(now, is_over);
    let name = node.scans.run(node.timeout() / 2, work).await??;
    tracing::info!(name, "a snapshot was made");
    note("name", name.clone());
    Ok((StatusCode::CREATED, Json(api::SnapshotJson { name })))
}

/// Lists the copies in `snapshots` of the data directory, the newest first.
#[utoipa::path(
    get,
    path = "/v1/snapshots",
    tag = "node",
    operation_id = "snapshots",
    responses((status = 200, description = "The copies", body = api::SnapshotsJson), ProblemResponses),
)]
pub(crate) async fn snapshots(
    State(node): State<Arc<Node>>,
) -> Result<Json<api::SnapshotsJson>, HttpFailure> {
    let engine = Arc::clone(&node.engine);
    let list = move |is_over: &(dyn Fn() -> bool + Sync)| engine.snapshots(is_over);
    let kept = node.lookups.run(node.timeout() / 2, list).await??;
    Ok(Json(api::SnapshotsJson { snapshots: kept.into_iter().map(api::KeptSnapshotJson::from).collect() }))
}

/// Returns whether the node takes requests and, if not, why. Lists conditions of a degraded node. Needs no token.
#[utoipa::path(
    get,
    path = "/readyz",
    tag = "node",
    security(()),
    responses((status = 200, description = "It does", body = api::HealthJson), ProblemResponses),
)]
pub(crate) async fn readyz(State(node): State<Arc<Node>>) -> Result<Json<api::HealthJson>, HttpFailure> {
    match node.unready() {
        None => Ok(Json(api::HealthJson::of(node.engine.health().list()))),
        Some(why) => Err(UNAVAILABLE.failure(why)),
    }
}

/// A choice among settings.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct SettingsParams {
    /// Only `node`, or the settings of the pipeline of this name.
    pub(crate) scope: Option<String>,
    /// Only settings in whose name this stands.
    pub(crate) text: Option<String>,
}

/// Every setting with its origin (default, preset, file, environment or flag), from the files as they are now. Secrets are
/// hidden.
#[utoipa::path(
    get,
    path = "/v1/settings",
    tag = "node",
    params(SettingsParams),
    responses((status = 200, description = "The settings", body = api::SettingsJson), ProblemResponses),
)]
pub(crate) async fn settings(
    State(node): State<Arc<Node>>,
    QueryParams(SettingsParams { scope, text }): QueryParams<SettingsParams>,
) -> Result<Json<api::SettingsJson>, HttpFailure> {
    let engine = Arc::clone(&node.engine);
    // Files are read.
    let settings = node.lookups.run(node.timeout() / 2, move |_| engine.settings()).await??;
    let is_wanted = |value: &EffectiveValue| {
        scope.as_ref().is_none_or(|scope| *scope == value.scope)
            && text.as_ref().is_none_or(|text| value.path.contains(text))
    };
    let settings = settings.into_iter().filter(is_wanted).map(api::SettingJson::from);
    Ok(Json(api::SettingsJson { settings: settings.collect() }))
}

/// Metrics in the OpenMetrics text format of Prometheus.
#[utoipa::path(
    get,
    path = "/metrics",
    tag = "node",
    responses(
        (status = 200, description = "All metrics", body = String, content_type = "application/openmetrics-text"),
        ProblemResponses,
    ),
)]
pub(super) async fn metrics(State(node): State<Arc<Node>>) -> Result<Response, HttpFailure> {
    let of = Arc::clone(&node);
    let page = node.pages.run(node.timeout() / 2, move |_| of.metrics.page()).await?;
    let page = page.map_err(|_| INTERNAL.failure("the metrics could not be written"))?;
    Ok(([(header::CONTENT_TYPE, metrics::MEDIA_TYPE)], page).into_response())
}

/// The OpenAPI description.
#[utoipa::path(
    get,
    path = "/openapi.json",
    tag = "node",
    responses((status = 200, description = "OpenAPI 3.1", body = serde_json::Value), ProblemResponses),
)]
pub(super) async fn openapi(State(state): State<HttpState>) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], state.openapi).into_response()
}

const INDEX: &str = "\
Tollhouse counts events by hashed keys over time windows, judges them by rules, and explains each verdict.

POST /v1/decide           decide on one event: application/json, message/rfc822 or text/plain (an access log's line)
POST /v1/decide/batch     decide on many, one a line: application/x-ndjson or text/plain
POST /v1/batch/observe    count many in columns: application/vnd.apache.arrow.stream, or JSON
POST /v1/batch/decide     decide on many in columns
POST /v1/observe          only count one event
POST /v1/check            what would be decided on one event, and why; nothing is counted
POST /v1/peek             only look up what is known of one event's keys
GET  /v1/decisions        search in past decisions, newest first: ?rule=&action=&where=&from=&to=
GET  /v1/decisions/common facts that decisions have in common, and others before them have not
GET  /v1/decisions/export decisions as a file: ?format=csv&facts=&limit=
GET  /v1/decisions/statistics what they come to by action, rule, label and score: ?line=&at=
GET  /v1/counts           decisions over time: ?width=&from=&to=&rules=
GET  /v1/decisions/stream decisions as they are made, as server-sent events
GET  /v1/decisions/{id}   explain a past decision
GET  /v1/decisions/{id}/similar decisions on nearly the same: ?facts=&limit=
GET  /v1/searches         the saved searches
PUT  /v1/searches         save one: {\"name\": ..., \"asks\": {...}}
DELETE /v1/searches       remove one: ?name=
GET  /v1/bans             the bans on a value: ?ip=
GET  /v1/bans/stream      changes of the ban list since you last asked: ?startup=true
GET  /v1/bans/search      a page of the ban list, the newest first: ?text=&limit=&before=
GET  /v1/bans/ips         the addresses on the ban list, one a line
POST /v1/bans             put a label on a key: {\"kind\": ..., \"label\": ..., \"value\": ..., \"for\": ...}
DELETE /v1/bans           lift the bans on a value: ?value=
POST /v1/bans/import      ban what a list has: text/plain; ?label=&for=&dry_run=
GET  /v1/allow            the posted entries of the allow list: ?value= also whether one is on it
POST /v1/allow            let nothing ban a value: {\"value\": ..., \"why\": ..., \"for\": ...}
DELETE /v1/allow          take it off the list: ?value=
GET  /crowdsec/v1/decisions         the bans on a value, as CrowdSec's bouncers ask in live mode: ?ip=
GET  /crowdsec/v1/decisions/stream  changes of the ban list, as they poll them: ?startup=true
GET  /crowdsec/v1/alerts            the bans as `cscli alerts list` reads them: ?limit=
GET  /crowdsec/v1/alerts/{id}       one of them
POST /crowdsec/v1/watchers/login    how cscli begins: {\"password\": TOKEN}
GET  /crowdsec/v1/heartbeat         that a bouncer or machine lives
POST /crowdsec/v1/usage-metrics     what a bouncer has dropped
POST /v1/feedback         say something about a past decision: {\"id\": ..., \"class\": ...}
POST /v1/feedback/batch   the same of many, one a line: application/x-ndjson
POST /v1/learn            say something about an event that was not decided here: ?class=
GET  /v1/limits           list the limits
GET  /v1/limits/fullest   the keys that have used most of them: ?name=&limit=
POST /v1/limits/{name}/take      take from a limit: {\"key\": {...}, \"cost\": 1}
POST /v1/limits/{name}/peek      what a take would be answered
POST /v1/limits/{name}/refund    give back: {\"key\": {...}, \"amount\": 1}
POST /v1/limits/{name}/settle    settle what was taken for a cost that was not known
POST /v1/limits/{name}/reset     make a key as if it had used nothing
GET  /v1/limits/{name}/overrides the overrides that were posted
PUT  /v1/limits/{name}/overrides let a limit be another for a key
POST /v1/challenges       issue a challenge for an event: ?pipeline=
POST /v1/challenges/verify      verify one that was solved: {\"payload\": ..., \"event\": {...}}
POST /v1/forms            sign a token for a form that is shown: ?form=
GET  /v1/baits            today's bait: fields, links, lines for robots.txt
GET  /v1/gate/{name}/{step}     a visitor's step with a challenge, which the proxy hands on
GET  /v1/auth/{name}      whether a proxy's request passes, whatever its method
POST /v1/report           take in a mail in which somebody reports mail: message/rfc822
GET  /v1/reviews          what people are to look at: ?state=&sort=&kind=&value=
GET  /v1/reviews/{id}     one of them, and what came of it
GET  /v1/reviews/agreement how reviewers agree: ?pipeline=
POST /v1/reviews/{id}/claim      take it: {\"by\": ...}
POST /v1/reviews/{id}/release    give it back
POST /v1/reviews/{id}/decide     decide it: {\"by\": ..., \"verdict\": ...}
POST /v1/reviews/{id}/escalate   have a lead decide it: {\"by\": ..., \"text\": ...}
POST /v1/reviews/{id}/comment    comment on it
POST /v1/reviews/decide   decide all that share a key: {\"kind\": ..., \"value\": ..., \"by\": ..., \"verdict\": ...}
GET  /v1/timeline         all that is kept of one key: ?kind=&value=&from=&to=
GET  /v1/keys/related     the keys that share decisions with one: ?kind=&value=&from=
GET  /v1/notes            people's notes on a value: ?value=
POST /v1/notes            add one: {\"value\": ..., \"text\": ...}
DELETE /v1/notes          remove one: ?value=&time=
GET  /v1/learners         lines, classifiers and models: what they learned, and whether it comes true
GET  /v1/anomalies        what is unlike its past within the last hour: ?pipeline=
GET  /v1/keys             what is counted of a value, under all kinds: ?value=
POST /v1/readings         what is counted of many keys: {\"keys\": [{\"kind\": ..., \"value\": ...}]}
GET  /v1/top              what is hot: ?kind=&counter=&window=&limit=
GET  /v1/reputations      who is worst or best: ?name=&order=&within=&limit=
GET  /v1/pipelines        what this node runs
GET  /v1/settings         every setting with its origin: ?scope=&text=
GET  /v1/notifications    who is told what happens, and how that is
POST /v1/notifications/{name}/test  send a test
GET  /v1/sinks            what the node sends to brokers, and how that is
GET  /v1/sources          what the node reads by itself, and how that is
GET  /v1/rules            what stands over a pipeline's file, and the versions that can be gone back to
POST /v1/rules            lay rules over a pipeline's file: TOML; ?dry_run= ?candidate=
POST /v1/rules/reload     take over what the files say now
POST /v1/rules/rollback   go back to a version: {\"version\": ...}
POST /v1/rules/canary     let the candidate decide for some events
POST /v1/rules/promote    enforce the candidate
GET  /v1/rules/comparison how the candidate compares with what is enforced
GET  /v1/rules/versions/{version} a version's text: ?against= also what differs
GET  /v1/rules/names      the names that conditions may have
GET  /v1/sets             the sets that conditions seek values in: ?pipeline=
GET  /v1/sets/{name}      the entries of one: ?text=&has=&from=&limit=
GET  /v1/rules/impact     what a rule did to past events: ?rule=&from=&to=
POST /v1/rules/corrections take that back: {\"rule\": ..., \"from\": ...}
GET  /v1/rules/corrections how far that is, and what came of it
POST /v1/backtests        judge past decisions by other rules: {\"rules\": ..., \"span\": \"1d\"}
GET  /v1/backtests        the last ones
GET  /v1/backtests/{id}   how far one is, and its report
DELETE /v1/backtests/{id} cancel it
POST /v1/learners/relearn rebuild a pipeline's linear models from the journal: ?pipeline=
GET  /v1/learners/relearn how far they are, and how good
DELETE /v1/learners/relearn let them go
POST /v1/learners/relearn/adopt use them: ?replace=true also if those in use know more
GET  /v1/nodes            the nodes that share statistics, and how they are
DELETE /v1/nodes/{number} take a node that is gone for good out of the list
POST /v1/snapshots        make a copy of the data directory
GET  /v1/snapshots        the copies that there are
POST /v1/erase            erase what is known of keys: {\"keys\": [{\"kind\": ..., \"value\": ...}]}
GET  /v1/erase            how far that is, and what came of it
GET  /v1/audit            the audit log, who did what: ?since=&after=&before=&order=&by=&action=
GET  /v1/audit/export     the same as a file, an entry a line
GET  /v1/audit/verification whether its chain holds: ?expect=
GET  /v1/tokens           the tokens: names, scopes, last use
POST /v1/sessions         begin a session: {\"name\": ..., \"password\": ...}
GET  /v1/sessions         the sessions of people
DELETE /v1/sessions/{id}  end one
GET  /healthz             is it alive
GET  /readyz              does it take requests
GET  /metrics             counters and sizes, for Prometheus
GET  /openapi.json        all of this, for programs
GET  /                    this page; for browsers the console
";

/// The URLs, for people. Browsers are redirected to the console.
#[utoipa::path(
    get,
    path = "/",
    tag = "node",
    responses((status = 200, description = "A list", body = String, content_type = "text/plain"), ProblemResponses),
)]
pub(super) async fn index(headers: HeaderMap) -> Response {
    let vary = (header::VARY, "Accept");
    if wants_page(&headers) {
        return (StatusCode::SEE_OTHER, [(header::LOCATION, CONSOLE), vary]).into_response();
    }
    ([vary], INDEX).into_response()
}
