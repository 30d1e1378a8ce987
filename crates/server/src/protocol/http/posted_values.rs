//! Entries of the allow list and notes, which people post about values.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use engine::{AllowEntry, ValueNote};
use event::{Span, Time};
use serde::Deserialize;
use utoipa::IntoParams;

use super::{JsonBody, QueryParams};
use crate::api::{self, AllowEntryJson, AllowListJson, RemovedJson, ValueNoteJson, ValueNotesJson};
use crate::core::blocking::blocking;
use crate::core::grant::{RequestGrant, note};
use crate::core::node::Node;
use crate::core::problem::{HttpFailure, INVALID_PARAMETER, ProblemResponses};

/// A value that may be on the allow list.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct AllowParams {
    /// Also returns which part of the list, the configured one included, this value is on.
    pub(crate) value: Option<String>,
}

/// Lists the posted entries of the allow list: values that nothing bans.
#[utoipa::path(
    get,
    path = "/v1/allow",
    tag = "bans",
    operation_id = "allow_list",
    params(AllowParams),
    responses((status = 200, description = "The entries", body = AllowListJson), ProblemResponses),
)]
pub(crate) async fn allow_list(
    State(node): State<Arc<Node>>,
    QueryParams(AllowParams { value }): QueryParams<AllowParams>,
) -> Json<AllowListJson> {
    let list = node.engine.allow_list();
    let found = value.and_then(|value| Some(list.find(value.trim())?.to_string()));
    let entries = node.engine.allow_entries().into_iter().map(AllowEntryJson::from).collect();
    Json(AllowListJson { entries, found })
}

/// Puts a value on the allow list, replacing an earlier entry: its bans end, and nothing bans it. A network allows all its
/// addresses. Kept in the data directory, and on all nodes that share statistics.
#[utoipa::path(
    post,
    path = "/v1/allow",
    tag = "bans",
    operation_id = "allow",
    request_body = api::AllowRequest,
    responses((status = 200, description = "Nothing bans it", body = AllowEntryJson), ProblemResponses),
)]
pub(crate) async fn allow(
    State(node): State<Arc<Node>>,
    JsonBody(request): JsonBody<api::AllowRequest>,
) -> Result<Json<AllowEntryJson>, HttpFailure> {
    let api::AllowRequest { value, why, lasts } = request;
    let now = node.now();
    if lasts.is_some_and(|lasts| lasts.0 <= Span::ZERO) {
        return Err(INVALID_PARAMETER.failure("for: expected a length of time such as `30d`"));
    }
    note("value", value.clone());
    note("for", lasts.map_or_else(|| "always".to_owned(), |lasts| lasts.to_string()));
    let entry = AllowEntry { value, why, by: name(), since: now, until: lasts.map(|lasts| now + lasts.0) };
    let engine = Arc::clone(&node.engine);
    let entry = blocking(move || engine.allow(entry, now)).await?;
    Ok(Json(entry.into()))
}

/// An entry of the allow list.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct DisallowParams {
    /// The value.
    pub(crate) value: String,
}

/// Removes a posted entry from the allow list. Entries of the configuration stay.
#[utoipa::path(
    delete,
    path = "/v1/allow",
    tag = "bans",
    operation_id = "disallow",
    params(DisallowParams),
    responses((status = 200, description = "Whether there was one", body = RemovedJson), ProblemResponses),
)]
pub(crate) async fn disallow(
    State(node): State<Arc<Node>>,
    QueryParams(DisallowParams { value }): QueryParams<DisallowParams>,
) -> Result<Json<RemovedJson>, HttpFailure> {
    note("value", value.clone());
    let (engine, now) = (Arc::clone(&node.engine), node.now());
    let removed = blocking(move || engine.disallow(&value, now)).await?;
    Ok(Json(RemovedJson { removed }))
}

/// The value whose notes are asked for.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct NotesParams {
    /// The value.
    pub(crate) value: String,
}

/// Lists people's notes on a value, newest first.
#[utoipa::path(
    get,
    path = "/v1/notes",
    tag = "statistics",
    operation_id = "notes",
    params(NotesParams),
    responses((status = 200, description = "The notes", body = ValueNotesJson), ProblemResponses),
)]
pub(crate) async fn notes(
    State(node): State<Arc<Node>>,
    QueryParams(NotesParams { value }): QueryParams<NotesParams>,
) -> Json<ValueNotesJson> {
    let notes = node.engine.value_notes(&value).into_iter().map(ValueNoteJson::from).collect();
    Json(ValueNotesJson { notes })
}

/// Adds a note to a value, at most 50. Kept in the data directory, and on all nodes that share statistics.
#[utoipa::path(
    post,
    path = "/v1/notes",
    tag = "statistics",
    operation_id = "add_note",
    request_body = api::NoteRequest,
    responses((status = 200, description = "It is kept", body = ValueNoteJson), ProblemResponses),
)]
pub(crate) async fn add_note(
    State(node): State<Arc<Node>>,
    JsonBody(api::NoteRequest { value, text }): JsonBody<api::NoteRequest>,
) -> Result<Json<ValueNoteJson>, HttpFailure> {
    note("value", value.clone());
    let (engine, now) = (Arc::clone(&node.engine), node.now());
    let written = ValueNote { value, time: now, by: name(), text };
    let kept = blocking(move || engine.add_note(written, now)).await?;
    Ok(Json(kept.into()))
}

/// A note.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct NoteParams {
    /// The value.
    pub(crate) value: String,
    /// The time of the note, as `GET /v1/notes` has it.
    pub(crate) time: String,
}

/// Removes a note.
#[utoipa::path(
    delete,
    path = "/v1/notes",
    tag = "statistics",
    operation_id = "remove_note",
    params(NoteParams),
    responses((status = 200, description = "Whether there was one", body = RemovedJson), ProblemResponses),
)]
pub(crate) async fn remove_note(
    State(node): State<Arc<Node>>,
    QueryParams(NoteParams { value, time }): QueryParams<NoteParams>,
) -> Result<Json<RemovedJson>, HttpFailure> {
    let at: Time = time.parse().map_err(|error| INVALID_PARAMETER.failure(format!("time: {error}")))?;
    note("value", value.clone());
    note("time", at.to_string());
    let (engine, now) = (Arc::clone(&node.engine), node.now());
    let removed = blocking(move || engine.remove_note(&value, at, now)).await?;
    Ok(Json(RemovedJson { removed }))
}

/// Returns the name of who asks.
fn name() -> String {
    RequestGrant::current().map_or_else(|| "local".to_owned(), |grant| grant.name().to_owned())
}
