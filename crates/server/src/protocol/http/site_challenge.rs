//! A challenge in front of a site: the steps of a visitor's browser, which the proxy hands on from below `/.tollhouse/`.
//!
//! ```text
//! forward-auth ─► 401 with the page ─► a worker solves ─► POST verify ─► 303 to the very URL, with a pass as cookie
//!    (nginx: the page by `challenge`)   without scripts ─► mark, and after a while continue ─► the same
//! ```
//!
//! Whoever is refused is told so (403), or to ask anew (410).

use std::sync::Arc;

use axum::Extension;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, LOCATION, SET_COOKIE};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use engine::{EarnedPass, UnkeyedEvent};
use event::Time;
use gate::challenge::ChallengeRefusal;
use plan::ForwardPlan;
use serde::Deserialize;

use super::forward_auth::{PeerAddress, forward_of, read_forwarded, visited_host, visitor_of};
use crate::core::node::Node;
use crate::core::problem::{HttpFailure, METHOD_NOT_ALLOWED, NOT_FOUND, shown};
use crate::protocol::site_gate::challenge_page::{ChallengePage, ChallengeReason, same_site};
use crate::protocol::site_gate::{
    BASE, CHALLENGE, NOT_LET_THROUGH, PASS_COOKIE, STATUS, cookie, page, refused, seconds, shown_page,
    silent_answer, spoken, wants_page,
};

/// The prefix of the URLs that proxies hand visitors' steps to.
pub(crate) const PREFIX: &str = "/v1/gate/";
/// Most bytes of the body of a step.
pub(crate) const BODY_BYTES_MAX: usize = 16 << 10;
/// The cookie that says that a page's picture was loaded.
const MARK_COOKIE: &str = "tollhouse-mark";
/// A transparent picture of one pixel.
const PIXEL: &[u8] = b"GIF89a\x01\x00\x01\x00\x80\x00\x00\x00\x00\x00\x00\x00\x00!\xf9\x04\x01\x00\x00\x00\x00,\x00\x00\x00\x00\x01\x00\x01\x00\x00\x02\x02D\x01\x00;";

/// The page that tells a visitor without scripts what came of the waiting.
fn outcome_page(
    forward: &ForwardPlan,
    headers: &HeaderMap,
    fields: &StepFields,
    site: &str,
    has_passed: bool,
) -> Response {
    let page = ChallengePage {
        challenge: "",
        base: BASE,
        return_to: &fields.return_to,
        is_form: fields.form == "1",
        site,
        reason: ChallengeReason::New,
        contact: forward.contact.as_deref(),
        reference: "",
        without_scripts: None,
        // No script is on it, so nothing has to be foreseen; its styles bear it.
        nonce: "outcome",
    };
    let translation = spoken(headers);
    let text = page.render_outcome(has_passed, translation, forward.template.as_deref());
    let status = if has_passed { StatusCode::OK } else { StatusCode::FORBIDDEN };
    shown_page(status, &page, translation, text)
}

/// The fields of a form, or of a query.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct StepFields {
    altcha: String,
    #[serde(rename = "return")]
    return_to: String,
    place: String,
    /// `1` if the request had a body, which was not kept.
    form: String,
}

/// Takes a visitor's step: `verify`, `mark`, `continue`, or shows the page again (`challenge`).
#[utoipa::path(
    get,
    path = "/v1/gate/{name}/{step}",
    tag = "challenges",
    operation_id = "gate_step",
    security(()),
    params(
        ("name" = String, Path, description = "The [[forward_auth]]"),
        ("step" = String, Path, description = "`challenge`: the page, or the silent answer that `Tollhouse-Status` names, for proxies that know 401 and 403 only; `verify`: takes a solution, by POST; `mark` and `continue`: without scripts"),
    ),
    responses(
        (status = 200, description = "The picture of `mark`"),
        (status = 303, description = "Back to the page that was asked for, with the pass that was earned"),
        (status = 401, description = "The page of a challenge; for programs a problem. 429 where `Tollhouse-Status` says so"),
        (status = 410, description = "The challenge has expired or was used"),
        (status = 403, description = "The challenge is refused, or this address is no proxy", body = crate::api::ProblemJson, content_type = "application/problem+json"),
    ),
)]
pub(super) async fn step(
    State(node): State<Arc<Node>>,
    Extension(PeerAddress(peer)): Extension<PeerAddress>,
    Path((name, step)): Path<(String, String)>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, HttpFailure> {
    let plan = node.engine.plan();
    let (forward, ip) = forward_of(&plan, &name, peer, &headers)?;
    if step == "challenge"
        && let Some(answer) = silent_answer::by_step(forward, headers.get(&STATUS))
    {
        return Ok(answer);
    }
    let pipeline = forward.pipeline.as_deref().and_then(|name| plan.pipeline(Some(name)));
    let pipeline = pipeline.filter(|pipeline| pipeline.challenge.is_some());
    let Some(pipeline) = pipeline else {
        let failure = NOT_FOUND.failure(format!("[[forward_auth]] `{}` has no challenges", shown(&name)));
        return Err(failure.help("its pipeline needs `[challenge]`"));
    };
    if step == "challenge" {
        let asked = read_forwarded(ip, &method, &uri, &headers);
        let shown = headers.get(&CHALLENGE).zip(asked.ok());
        // The proxy knows 401 and 403 only, and hands on what was meant.
        let is_throttled = headers.get(&STATUS).is_some_and(|status| status.as_bytes() == b"429");
        let status = if is_throttled { StatusCode::TOO_MANY_REQUESTS } else { StatusCode::UNAUTHORIZED };
        let answer = shown.and_then(|(field, asked)| {
            let mut answer = match wants_page(&headers) {
                true => page(forward, status, field, &asked, &headers)?,
                false => refused(status, status, NOT_LET_THROUGH, HeaderMap::new()),
            };
            answer.headers_mut().insert(CHALLENGE, field.clone());
            Some(answer)
        });
        return answer.ok_or_else(|| {
            let failure = NOT_FOUND.failure("there is no challenge to show");
            failure.help(
                "the proxy hands on the field `Tollhouse-Challenge` of the answer that refused the request",
            )
        });
    }
    let read = |text: &[u8]| serde_urlencoded::from_bytes::<StepFields>(text).unwrap_or_default();
    let query = || read(uri.query().unwrap_or_default().as_bytes());
    let now = node.now();
    let event = visitor_of(ip, &method, &headers);
    let visitor = node.engine.read(pipeline, event, now, &Default::default());
    match (step.as_str(), &method) {
        ("verify", &Method::POST) => {
            let fields = read(&body);
            match node.redeem(&visitor, fields.altcha.as_bytes(), now).await {
                Ok(pass) => Ok(back(&headers, &fields.return_to, pass)),
                // The page asks anew for the first, and tells the visitor of the second.
                Err(ChallengeRefusal::Expired | ChallengeRefusal::Used) => {
                    Ok(StatusCode::GONE.into_response())
                }
                Err(_) => Ok(StatusCode::FORBIDDEN.into_response()),
            }
        }
        ("mark", &Method::GET) => Ok(mark(&node, &visitor, &headers, &query(), now)),
        ("continue", &Method::GET) => {
            let (fields, mark) = (query(), cookie(&headers, MARK_COOKIE));
            let mark = mark.as_deref().map(str::as_bytes);
            let finished = node.engine.finish_waiting(&visitor, fields.place.as_bytes(), mark, now).await;
            let host = visited_host(&headers);
            Ok(match finished {
                Ok(pass) if fields.form == "1" => {
                    let mut response = outcome_page(forward, &headers, &fields, &host, true);
                    give_pass(&mut response, &headers, &pass);
                    response
                }
                Ok(pass) => back(&headers, &fields.return_to, pass),
                Err(_) => outcome_page(forward, &headers, &fields, &host, false),
            })
        }
        ("verify" | "mark" | "continue", _) => {
            Err(METHOD_NOT_ALLOWED.failure(format!("{} {}", shown(method.as_str()), shown(&step))))
        }
        _ => Err(NOT_FOUND.failure(format!("there is no step `{}`", shown(&step)))),
    }
}

/// The picture, with the sign that it was loaded.
fn mark(
    node: &Node,
    visitor: &UnkeyedEvent,
    headers: &HeaderMap,
    fields: &StepFields,
    now: Time,
) -> Response {
    let mut response = ([(CONTENT_TYPE, "image/gif"), (CACHE_CONTROL, "no-store")], PIXEL).into_response();
    if let Some(sign) = node.engine.mark_rendered(visitor, fields.place.as_bytes(), now) {
        set_cookie(&mut response, headers, MARK_COOKIE, &sign, 900, BASE);
    }
    response
}

/// Sends a visitor back to the page that was asked for, with a pass.
fn back(headers: &HeaderMap, return_to: &str, pass: EarnedPass) -> Response {
    let to = HeaderValue::try_from(&*same_site(return_to)).unwrap_or(HeaderValue::from_static("/"));
    let fields = [(LOCATION, to), (CACHE_CONTROL, HeaderValue::from_static("no-store"))];
    let mut response = (StatusCode::SEE_OTHER, fields).into_response();
    give_pass(&mut response, headers, &pass);
    response
}

fn give_pass(response: &mut Response, headers: &HeaderMap, pass: &EarnedPass) {
    set_cookie(response, headers, PASS_COOKIE, &pass.token, seconds(pass.lifetime.0), "/");
}

fn set_cookie(
    response: &mut Response,
    headers: &HeaderMap,
    name: &str,
    value: &str,
    seconds: u32,
    path: &str,
) {
    let is_https =
        headers.get("x-forwarded-proto").is_some_and(|proto| proto.as_bytes().eq_ignore_ascii_case(b"https"));
    let secure = if is_https { "; Secure" } else { "" };
    let cookie = format!("{name}={value}; Path={path}; Max-Age={seconds}; HttpOnly; SameSite=Lax{secure}");
    if let Ok(cookie) = HeaderValue::try_from(cookie) {
        response.headers_mut().append(SET_COOKIE, cookie);
    }
}
