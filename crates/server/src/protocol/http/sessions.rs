//! Sessions of people: begun with a password, listed, ended.

use std::net::IpAddr;
use std::sync::Arc;

use access::audit::AuditEntry;
use access::{AccessScope, Session, is_name};
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::{Extension, Json};

use super::JsonBody;
use super::forward_auth::PeerAddress;
use crate::api;
use crate::core::grant::{RequestGrant, note};
use crate::core::node::Node;
use crate::core::problem::{HttpFailure, INVALID_PARAMETER, NOT_FOUND, ProblemResponses, UNAUTHORIZED};

/// The path at which sessions are begun; who asks there has nothing yet.
pub(crate) const PATH: &str = "/v1/sessions";
/// Bytes of a name with its password.
pub(crate) const BODY_BYTES_MAX: usize = 4096;
/// The name of the listener in the log and metrics.
const HTTP: &str = "http";

/// Logs in a user of `tollhouse user`. The returned secret is sent like a token and has the scopes of the user's role. A
/// wrong password is answered late. Needs no token.
#[utoipa::path(
    post,
    path = "/v1/sessions",
    tag = "node",
    operation_id = "begin_session",
    request_body = api::LoginJson,
    responses((status = 201, description = "It is begun", body = api::NewSessionJson), ProblemResponses),
)]
pub(super) async fn begin(
    State(node): State<Arc<Node>>,
    peer: Option<Extension<PeerAddress>>,
    JsonBody(login): JsonBody<api::LoginJson>,
) -> Result<(StatusCode, Json<api::NewSessionJson>), HttpFailure> {
    if !is_name(&login.name) {
        return Err(INVALID_PARAMETER.failure("name: expected letters, digits, `_`, `-` and `.`, at most 64"));
    }
    if !node.people.has_users() {
        return Err(NOT_FOUND
            .failure("nobody may begin a session here")
            .help("`tollhouse user add` adds people"));
    }
    let begun = begin_for(&node, &login.name, login.password, peer.map(|Extension(peer)| peer.0)).await?;
    let (secret, session) = begun.ok_or_else(|| UNAUTHORIZED.failure("the name or the password is wrong"))?;
    Ok((
        StatusCode::CREATED,
        Json(api::NewSessionJson { token: secret, session: api::SessionJson::from(session) }),
    ))
}

/// Begins a session of a person, and notes it in the audit log. Returns its secret, and it; `None` if the name or the password is
/// wrong, which is answered late.
pub(crate) async fn begin_for(
    node: &Node,
    name: &str,
    password: String,
    client: Option<IpAddr>,
) -> Result<Option<(String, Session)>, HttpFailure> {
    node.audit.check()?;
    let from = client.map(|client| client.to_canonical().to_string());
    let Some((secret, session)) = node.people.begin(name, password, from.clone(), node.now()).await else {
        node.wrong_token(HTTP, client).await;
        return Ok(None);
    };
    note_begun(node, &session).await?;
    Ok(Some((secret, session)))
}

/// Notes in the audit log that a session has begun.
pub(crate) async fn note_begun(node: &Node, session: &Session) -> Result<(), HttpFailure> {
    let detail = [("session", session.id.clone()), ("role", session.role.to_string())];
    let entry = AuditEntry {
        time: node.now(),
        by: session.user.clone(),
        from: session.from.clone(),
        action: "session.begin".to_owned(),
        status: StatusCode::CREATED.as_u16(),
        detail: detail.map(|(name, text)| (name.to_owned(), text)).into(),
    };
    node.audit.append(entry).await
}

/// Lists the valid sessions.
#[utoipa::path(
    get,
    path = "/v1/sessions",
    tag = "node",
    operation_id = "sessions",
    responses((status = 200, description = "The sessions", body = api::SessionsJson), ProblemResponses),
)]
pub(crate) async fn list(State(node): State<Arc<Node>>) -> Json<api::SessionsJson> {
    let sessions = node.people.list(node.now());
    Json(api::SessionsJson { sessions: sessions.into_iter().map(api::SessionJson::from).collect() })
}

/// Ends a session: your own, or with scope `administer` anybody's.
#[utoipa::path(
    delete,
    path = "/v1/sessions/{id}",
    tag = "node",
    operation_id = "end_session",
    params(("id" = String, Path, description = "The session's id")),
    responses((status = 204, description = "It is ended"), ProblemResponses),
)]
pub(crate) async fn end(
    State(node): State<Arc<Node>>,
    Path(id): Path<String>,
) -> Result<StatusCode, HttpFailure> {
    note("session", id.clone());
    let sessions = node.people.list(node.now());
    let of = sessions.into_iter().find(|session| session.id == id);
    let grant = RequestGrant::current();
    let is_own = |user: &str| {
        grant.as_ref().is_some_and(|grant| grant.session() == Some(id.as_str()) && grant.name() == user)
    };
    match (&of, &grant) {
        (Some(session), Some(grant)) if !is_own(&session.user) => {
            grant.check_scope(AccessScope::Administer)?
        }
        _ => {}
    }
    match of.filter(|_| node.people.end(&id)) {
        Some(session) => {
            note("user", session.user);
            Ok(StatusCode::NO_CONTENT)
        }
        None => Err(NOT_FOUND.failure("there is no such session")),
    }
}
