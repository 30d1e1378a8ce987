//! The audit log and the tokens, for those who administer the node.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use access::audit::{AuditHead, AuditOrder, AuditPage, AuditQuery};
use axum::Json;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use event::Time;
use futures_util::StreamExt;
use futures_util::stream::{once, unfold};
use serde::Deserialize;
use utoipa::IntoParams;

use super::QueryParams;
use crate::api;
use crate::core::grant::note;
use crate::core::node::Node;
use crate::core::problem::{
    HttpFailure, INTERNAL, INVALID_PARAMETER, OVERLOADED, ProblemResponses, UNAVAILABLE,
};
use crate::protocol::input::JSON_LINES;

/// Entries of a page, unless it is asked for fewer or more.
const PAGE: usize = 100;
/// Most entries of a page.
const PAGE_MAX: usize = 1000;
/// Most entries of an export; `tollhouse audit --json` writes more.
const EXPORT_MAX: usize = 100_000;
/// Entries of an export, unless it is asked for fewer or more.
const EXPORT: usize = 10_000;
/// The time within which an export has to end.
const PATIENCE: Duration = Duration::from_secs(120);

/// The entries that are asked for.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct AuditParams {
    /// Only those of this time and later, RFC 3339.
    pub(crate) since: Option<String>,
    /// Only those behind this number: `next` of the page before.
    pub(crate) after: Option<u64>,
    /// Only those before this number: with `order=newest`, `next` of the page before.
    pub(crate) before: Option<u64>,
    /// `oldest` first, which is the default, or `newest`.
    #[param(value_type = Option<String>)]
    pub(crate) order: Option<AuditOrder>,
    /// Only those of this token or user.
    pub(crate) by: Option<String>,
    /// Only those of this action, such as `rules.post`, or of this group of actions, such as `rules`.
    pub(crate) action: Option<String>,
    /// Most entries of the page, up to 1000; 100 if none is given.
    pub(crate) limit: Option<usize>,
}

/// The export of entries that is asked for.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct AuditExportParams {
    /// Only those of this time and later, RFC 3339.
    pub(crate) since: Option<String>,
    /// `oldest` first, which is the default, or `newest`.
    #[param(value_type = Option<String>)]
    pub(crate) order: Option<AuditOrder>,
    /// Only those of this token or user.
    pub(crate) by: Option<String>,
    /// Only those of this action, such as `rules.post`, or of this group of actions, such as `rules`.
    pub(crate) action: Option<String>,
    /// Most entries, up to 100,000; 10,000 if none is given.
    pub(crate) limit: Option<usize>,
}

/// The line that was noted elsewhere.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct AuditVerificationParams {
    /// A line that was noted elsewhere, as its number, a colon and its hash: all up to it is proved to be what it was then.
    pub(crate) expect: Option<String>,
}

fn time(since: Option<String>) -> Result<Option<Time>, HttpFailure> {
    let since = since.map(|text| text.parse::<Time>()).transpose();
    since.map_err(|error| INVALID_PARAMETER.failure(format!("since: {error}")))
}

fn check_limit(limit: usize, max: usize) -> Result<usize, HttpFailure> {
    let is_fine = (1..=max).contains(&limit);
    is_fine.then_some(limit).ok_or_else(|| INVALID_PARAMETER.failure(format!("limit: expected 1 to {max}")))
}

fn unreadable(error: &io::Error) -> HttpFailure {
    tracing::error!(%error, "the audit log could not be read");
    INTERNAL.failure("the audit log could not be read").help("the node's log says why")
}

/// The audit log: who did what, oldest first unless asked otherwise.
#[utoipa::path(
    get,
    path = "/v1/audit",
    tag = "node",
    params(AuditParams),
    responses((status = 200, description = "A page of entries", body = api::AuditJson), ProblemResponses),
)]
pub(crate) async fn audit(
    State(node): State<Arc<Node>>,
    QueryParams(params): QueryParams<AuditParams>,
) -> Result<Json<api::AuditJson>, HttpFailure> {
    let AuditParams { since, after, before, order, by, action, limit } = params;
    let limit = check_limit(limit.unwrap_or(PAGE), PAGE_MAX)?;
    let (since, order) = (time(since)?, order.unwrap_or_default());
    let after = after.unwrap_or_default();
    match before {
        Some(before) => note("before", before.to_string()),
        None => note("after", after.to_string()),
    }
    let query = AuditQuery { after, before, order, since, by, action, limit };
    let place = node.audit.place();
    let read = move |is_over: &(dyn Fn() -> bool + Sync)| place.read(&query, &|| !is_over());
    let page = node.scans.run(node.timeout() / 2, read).await?;
    Ok(Json(api::AuditJson::from(page.map_err(|error| unreadable(&error))?)))
}

/// Exports the audit log as a file, an entry a line. A failed export breaks off.
#[utoipa::path(
    get,
    path = "/v1/audit/export",
    tag = "node",
    operation_id = "audit_export",
    params(AuditExportParams),
    responses(
        (
            status = 200,
            description = "The entries",
            content((api::AuditEntryJson = "application/x-ndjson")),
        ),
        ProblemResponses,
    ),
)]
pub(crate) async fn export(
    State(node): State<Arc<Node>>,
    QueryParams(params): QueryParams<AuditExportParams>,
) -> Result<Response, HttpFailure> {
    let AuditExportParams { since, order, by, action, limit } = params;
    let left = limit.unwrap_or(EXPORT);
    let left = check_limit(left, EXPORT_MAX)
        .map_err(|failure| failure.help("`tollhouse audit --json` writes more"))?;
    let (since, order) = (time(since)?, order.unwrap_or_default());
    note("export", "audit.ndjson");
    let query = AuditQuery { order, since, by, action, ..AuditQuery::default() };
    let mut running = RunningAuditExport { node, query, left, end: Instant::now() + PATIENCE };
    // What is wrong is said before anything is sent.
    let first = running.page().await?;
    let rest = unfold(Some(running), async |running| {
        let mut running = running?;
        if running.left == 0 {
            return None;
        }
        match running.page().await {
            Ok(page) => Some((Ok(page), Some(running))),
            Err(failure) => Some((Err(io::Error::other(failure.problem().detail)), None)),
        }
    });
    let body = Body::from_stream(once(std::future::ready(Ok(first))).chain(rest));
    let headers = [
        (header::CONTENT_TYPE, JSON_LINES),
        (header::CONTENT_DISPOSITION, "attachment; filename=\"audit.ndjson\""),
        (header::CACHE_CONTROL, "no-store"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    Ok((headers, body).into_response())
}

/// An export that goes on page by page.
struct RunningAuditExport {
    node: Arc<Node>,
    query: AuditQuery,
    /// The number of entries that may still come.
    left: usize,
    end: Instant,
}

impl RunningAuditExport {
    /// Returns the next lines.
    async fn page(&mut self) -> Result<Bytes, HttpFailure> {
        let late = || UNAVAILABLE.failure("the export takes too long");
        if Instant::now() >= self.end || self.node.is_stopping() {
            return Err(late());
        }
        let query = AuditQuery { limit: self.left.min(PAGE_MAX), ..self.query.clone() };
        let (place, end) = (self.node.audit.place(), self.end);
        let read = move |is_over: &(dyn Fn() -> bool + Sync)| {
            place.read(&query, &|| !is_over() && Instant::now() < end)
        };
        let read = self.node.scans.run(self.node.timeout() / 2, read).await?;
        let AuditPage { records, next, .. } = read.map_err(|error| unreadable(&error))?;
        // It may have been given up in between.
        if Instant::now() >= self.end {
            return Err(late());
        }
        self.left = if next.is_some() { self.left.saturating_sub(records.len()) } else { 0 };
        match self.query.order {
            AuditOrder::Oldest => self.query.after = next.unwrap_or(self.query.after),
            AuditOrder::Newest => self.query.before = next,
        }
        let mut text = String::new();
        for record in records {
            // No type here refuses to be written.
            text.push_str(&serde_json::to_string(&api::AuditEntryJson::from(record)).unwrap_or_default());
            text.push('\n');
        }
        Ok(text.into())
    }
}

/// Verifies the chain of the audit log: that no line was changed, removed or inserted, as far as its files prove that.
#[utoipa::path(
    get,
    path = "/v1/audit/verification",
    tag = "node",
    operation_id = "verify_audit",
    params(AuditVerificationParams),
    responses(
        (status = 200, description = "The result", body = api::AuditVerificationJson),
        ProblemResponses,
    ),
)]
pub(crate) async fn verification(
    State(node): State<Arc<Node>>,
    QueryParams(AuditVerificationParams { expect }): QueryParams<AuditVerificationParams>,
) -> Result<Json<api::AuditVerificationJson>, HttpFailure> {
    let expected = expect.map(|text| text.parse::<AuditHead>()).transpose();
    let expected = expected.map_err(|why| INVALID_PARAMETER.failure(format!("expect: {why}")))?;
    note("verification", "all");
    let (place, patience) = (node.audit.place(), node.timeout() / 4);
    let verify = move |is_over: &(dyn Fn() -> bool + Sync)| {
        let end = Instant::now() + patience;
        place.verify(expected, &|| !is_over() && Instant::now() < end)
    };
    match node.scans.run(node.timeout() / 2, verify).await? {
        Ok(found) => Ok(Json(found.into())),
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Err(OVERLOADED
            .failure("the log is too long to be verified within a request")
            .help("`tollhouse audit --verify --data DIR` takes its time")),
        Err(error) => Err(unreadable(&error)),
    }
}

/// Lists the accepted tokens, without secrets.
#[utoipa::path(
    get,
    path = "/v1/tokens",
    tag = "node",
    responses((status = 200, description = "The tokens", body = api::TokensJson), ProblemResponses),
)]
pub(crate) async fn tokens(State(node): State<Arc<Node>>) -> Json<api::TokensJson> {
    let (plan, store) = (node.engine.plan(), node.tokens.store());
    let table = node.tokens.table();
    let tokens = table.grants().iter().map(|grant| {
        let stored = store.tokens.iter().find(|token| token.name == grant.name());
        let configured = || plan.tokens.iter().find(|token| token.name == grant.name())?.expires;
        api::TokenJson {
            name: grant.name().to_owned(),
            scopes: grant.scopes().iter().map(|scope| scope.word().to_owned()).collect(),
            pipelines: grant.pipelines().to_vec(),
            expires: stored.map_or_else(configured, |token| token.expires).map(api::Timestamp),
            used: grant.used().map(api::Timestamp),
            secrets: stored.map_or(1, |token| token.secrets.len()),
        }
    });
    Json(api::TokensJson { tokens: tokens.collect() })
}
