//! An answer that asks for a challenge: the page for browsers, and the field in which it goes through proxies.

use std::borrow::Cow;

use axum::http::header::{ACCEPT, ACCEPT_LANGUAGE, COOKIE};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use content::text::received;
use data_encoding::{BASE64, HEXLOWER};
use engine::{ChallengeCause, IssuedChallenge};
use gate::pass::PASS_CHARS;
use plan::ForwardPlan;
use serde::{Deserialize, Serialize};

use super::challenge_page::{ChallengePage, ChallengeReason, ScriptlessOffer, Translation};
use super::forwarded_request::ForwardedRequest;

/// The path on the site that the proxy hands on.
pub(crate) const BASE: &str = "/.tollhouse/";
/// The cookie of the pass.
pub(crate) const PASS_COOKIE: &str = "tollhouse-pass";
/// Tells a proxy that shows pages of its own the challenge, and a program why it is refused.
pub(crate) const CHALLENGE: HeaderName = HeaderName::from_static("tollhouse-challenge");
/// The status that a refusal is meant to have where the proxy knows 401 and 403 only.
pub(crate) const STATUS: HeaderName = HeaderName::from_static("tollhouse-status");
/// Longest cookie fields that are looked through.
const COOKIE_BYTES_MAX: usize = 16 << 10;

/// A challenge on its way through a proxy to the page that shows it.
#[derive(Debug, Serialize, Deserialize)]
struct HandedChallenge<'a> {
    #[serde(borrow)]
    challenge: Cow<'a, str>,
    #[serde(borrow, default)]
    waiting: Option<Cow<'a, str>>,
    #[serde(default)]
    seconds: u32,
    #[serde(borrow)]
    cause: Cow<'a, str>,
    #[serde(borrow)]
    id: Cow<'a, str>,
}

const CAUSES: [(ChallengeCause, ChallengeReason, &str); 5] = [
    (ChallengeCause::New, ChallengeReason::New, "new"),
    (ChallengeCause::Busy, ChallengeReason::Busy, "busy"),
    (ChallengeCause::Suspicious, ChallengeReason::Suspicious, "suspicious"),
    (ChallengeCause::Failures, ChallengeReason::Failures, "failures"),
    (ChallengeCause::Expired, ChallengeReason::Expired, "expired"),
];

/// Returns the field that carries a challenge.
pub(crate) fn handed(issued: &IssuedChallenge, id: &str) -> Option<HeaderValue> {
    let cause = CAUSES.iter().find(|(cause, ..)| *cause == issued.cause).map_or("new", |(.., word)| word);
    let (waiting, seconds) = match &issued.waiting {
        Some((place, wait)) => (Some(place.as_str().into()), seconds(wait.0)),
        None => (None, 0),
    };
    let challenge = issued.json.as_str().into();
    let handed = HandedChallenge { challenge, waiting, seconds, cause: cause.into(), id: id.into() };
    HeaderValue::try_from(BASE64.encode(&serde_json::to_vec(&handed).ok()?)).ok()
}

/// Whole seconds of a time, none left out.
pub(crate) fn seconds(micros: i64) -> u32 {
    u32::try_from(micros.max(0).div_euclid(1_000_000) + i64::from(micros % 1_000_000 > 0)).unwrap_or(u32::MAX)
}

/// Returns true if a client shows pages to somebody.
pub(crate) fn wants_page(headers: &HeaderMap) -> bool {
    headers.get_all(ACCEPT).iter().any(|value| received(value.as_bytes()).contains("text/html"))
}

/// The page for a challenge.
pub(crate) fn challenge_page(
    forward: &ForwardPlan,
    status: StatusCode,
    field: &HeaderValue,
    asked: &ForwardedRequest,
    headers: &HeaderMap,
) -> Option<Response> {
    let json = BASE64.decode(field.as_bytes()).ok()?;
    let handed: HandedChallenge<'_> = serde_json::from_slice(&json).ok()?;
    let reason = CAUSES.iter().find(|(.., word)| *word == handed.cause);
    let mut nonce = [0; 16];
    getrandom::fill(&mut nonce).ok()?;
    let nonce = HEXLOWER.encode(&nonce);
    let return_to = asked.target();
    let (mark, go_on);
    let without_scripts = match &handed.waiting {
        Some(place) => {
            let place: String =
                place.chars().filter(|sign| sign.is_ascii_alphanumeric() || "-_".contains(*sign)).collect();
            mark = format!("{BASE}mark?place={place}");
            let form = if is_form(&asked.method) { "&form=1" } else { "" };
            go_on = format!("{BASE}continue?place={place}&return={}{form}", encoded(&return_to));
            Some(ScriptlessOffer { wait_seconds: handed.seconds, mark_url: &mark, continue_url: &go_on })
        }
        None => None,
    };
    let page = ChallengePage {
        challenge: &handed.challenge,
        base: BASE,
        return_to: &return_to,
        is_form: is_form(&asked.method),
        site: &asked.host,
        reason: reason.map_or(ChallengeReason::New, |(_, reason, _)| *reason),
        contact: forward.contact.as_deref(),
        reference: &handed.id,
        without_scripts,
        nonce: &nonce,
    };
    let translation = spoken(headers);
    let text = page.render(translation, forward.template.as_deref());
    Some(shown_page(status, &page, translation, text))
}

/// Returns true if a request of this method has a body, which is not kept.
fn is_form(method: &str) -> bool {
    !matches!(method, "GET" | "HEAD")
}

/// The language of a visitor.
pub(crate) fn spoken(headers: &HeaderMap) -> &'static Translation {
    let languages = headers.get_all(ACCEPT_LANGUAGE).iter();
    let languages: Vec<u8> = languages.flat_map(|value| [value.as_bytes(), b","].concat()).collect();
    Translation::negotiated(&received(&languages))
}

pub(crate) fn shown_page(
    status: StatusCode,
    page: &ChallengePage<'_>,
    translation: &Translation,
    text: String,
) -> Response {
    let mut response = (status, text).into_response();
    for (name, value) in page.headers(translation) {
        if let Ok(value) = HeaderValue::try_from(value) {
            response.headers_mut().insert(name, value);
        }
    }
    response
}

/// A text in a query.
fn encoded(text: &str) -> String {
    text.bytes().fold(String::with_capacity(text.len()), |mut out, byte| {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' | b'/' => {
                out.push(char::from(byte))
            }
            _ => out += &format!("%{byte:02X}"),
        }
        out
    })
}

/// Returns the pass that a request shows, if it looks like one.
pub(crate) fn shown_pass(headers: &HeaderMap) -> Option<String> {
    cookie(headers, PASS_COOKIE).filter(|pass| pass.len() == PASS_CHARS)
}

/// Returns the first cookie of this name.
pub(crate) fn cookie(headers: &HeaderMap, name: &str) -> Option<String> {
    let fields = headers.get_all(COOKIE).iter().map(|value| value.as_bytes());
    let mut pairs = fields
        .filter(|field| field.len() <= COOKIE_BYTES_MAX)
        .flat_map(|field| field.split(|byte| *byte == b';'));
    pairs.find_map(|pair| {
        let value = pair.trim_ascii().strip_prefix(name.as_bytes())?.strip_prefix(b"=")?;
        let value = value.strip_prefix(b"\"").and_then(|value| value.strip_suffix(b"\"")).unwrap_or(value);
        std::str::from_utf8(value).ok().map(str::to_owned)
    })
}
