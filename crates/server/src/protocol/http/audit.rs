//! The audit log and the tokens, for those who administer the node.

use std::sync::Arc;

use access::audit::{AuditPage, AuditQuery};
use axum::Json;
use axum::extract::State;
use event::Time;
use serde::Deserialize;
use utoipa::IntoParams;

use super::QueryParams;
use crate::api;
use crate::core::grant::note;
use crate::core::node::Node;
use crate::core::problem::{HttpFailure, INTERNAL, INVALID_PARAMETER, ProblemResponses};

/// Entries of a page, unless it is asked for fewer or more.
const PAGE: usize = 100;
/// Most entries of a page.
const PAGE_MAX: usize = 1000;

/// The entries that are asked for.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct AuditParams {
    /// Only those of this time and later, RFC 3339.
    since: Option<String>,
    /// Only those behind this number: `next` of the page before.
    after: Option<u64>,
    /// Only those of this token or user.
    by: Option<String>,
    /// Only those of this action, such as `rules.post`, or of this group of actions, such as `rules`.
    action: Option<String>,
    /// Most entries of the page, up to 1000; 100 if none is given.
    limit: Option<usize>,
}

/// The audit log: who did what, oldest first.
#[utoipa::path(
    get,
    path = "/v1/audit",
    tag = "node",
    params(AuditParams),
    responses((status = 200, description = "A page of entries", body = api::AuditJson), ProblemResponses),
)]
pub(super) async fn audit(
    State(node): State<Arc<Node>>,
    QueryParams(params): QueryParams<AuditParams>,
) -> Result<Json<api::AuditJson>, HttpFailure> {
    let AuditParams { since, after, by, action, limit } = params;
    let since = since.map(|text| text.parse::<Time>()).transpose();
    let since = since.map_err(|error| INVALID_PARAMETER.failure(format!("since: {error}")))?;
    let limit = limit.unwrap_or(PAGE);
    if !(1..=PAGE_MAX).contains(&limit) {
        return Err(INVALID_PARAMETER.failure(format!("limit: expected 1 to {PAGE_MAX}")));
    }
    note("after", after.unwrap_or_default().to_string());
    let query = AuditQuery { after: after.unwrap_or_default(), since, by, action, limit };
    let place = node.audit.place();
    let read = move |is_over: &(dyn Fn() -> bool + Sync)| place.read(&query, &|| !is_over());
    let page = node.scans.run(node.timeout() / 2, read).await?;
    let AuditPage { records, next, unread } = page.map_err(|error| {
        tracing::error!(%error, "the audit log could not be read");
        INTERNAL.failure("the audit log could not be read").help("the node's log says why")
    })?;
    Ok(Json(api::AuditJson {
        entries: records.into_iter().map(api::AuditEntryJson::from).collect(),
        next,
        unread,
    }))
}

/// Lists the accepted tokens, without secrets.
#[utoipa::path(
    get,
    path = "/v1/tokens",
    tag = "node",
    responses((status = 200, description = "The tokens", body = api::TokensJson), ProblemResponses),
)]
pub(super) async fn tokens(State(node): State<Arc<Node>>) -> Json<api::TokensJson> {
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
