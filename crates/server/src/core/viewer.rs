//! Viewers of the console: sessions of browsers, and the one place where it is asked what a viewer may do.
//!
//! A person says name and password, or a browser shows a token of the listener, once, in a form, and gets a cookie for it. The node
//! keeps the cookie's hash only, for as long as the cookie is used. Where the listener has no tokens, whoever reaches the loopback
//! address is a viewer.

use std::collections::HashMap;
use std::sync::Arc;

use access::{AccessScope, TokenGrant};
use axum::http::{HeaderMap, HeaderValue, Method, Uri, header};
use data_encoding::BASE64URL_NOPAD;
use event::{Span, Time};
use parking_lot::Mutex;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

/// The prefix of the console's paths.
pub(crate) const CONSOLE: &str = "/console/";
/// The form that takes an event.
pub(crate) const UPLOAD: &str = "/console/learners/check";
/// The form that takes a list of bans.
pub(crate) const LIST_UPLOAD: &str = "/console/bans/import";
/// The cookie that names a session.
const COOKIE: &str = "tollhouse_session";
/// Most sessions at once. The one that was used longest ago makes room.
const SESSIONS_MAX: usize = 1024;
/// A session that is not used for so long has ended.
const IDLE: Span = Span::minutes(30);
/// No session lasts longer.
const LIFETIME: Span = Span::hours(12);
/// Bytes of a cookie's secret, and of what forms carry.
const SECRET_BYTES: usize = 32;

/// A thing that a viewer of the console may be allowed to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ViewerRight {
    /// Read decisions, keys, bans, rules and settings.
    Read,
    /// Read the texts of events.
    ReadContent,
    /// Read the ban list.
    ReadBans,
    /// Ban keys and lift bans.
    Enforce,
    /// Give feedback and decide reviews.
    Teach,
    /// Change rules.
    Rules,
    /// All else.
    Administer,
}

/// The rights that a secret gives.
#[derive(Clone, Debug)]
pub(crate) struct SecretGrant {
    pub(crate) grant: Arc<TokenGrant>,
    /// True for the session of a person, whose name the grant has.
    pub(crate) is_person: bool,
}

/// A viewer: somebody who looks at the console.
#[derive(Clone, Debug)]
pub(crate) struct Viewer {
    /// The rights of the person, or of the token that was shown.
    grant: Arc<TokenGrant>,
    is_person: bool,
    /// The secret that forms of this viewer carry.
    form_secret: String,
    /// True for the viewer of a session, who can end it.
    pub(crate) has_session: bool,
}

impl Viewer {
    /// Returns whether the viewer may do something: what the token may at the routes that the console uses.
    pub(crate) fn may(&self, right: ViewerRight) -> bool {
        self.grant.has(match right {
            ViewerRight::Read => AccessScope::Read,
            ViewerRight::ReadContent => AccessScope::ReadContent,
            ViewerRight::ReadBans => AccessScope::Enforce,
            ViewerRight::Teach => AccessScope::Teach,
            // Who bans by hand decides as rules do.
            ViewerRight::Enforce | ViewerRight::Rules => AccessScope::Rules,
            ViewerRight::Administer => AccessScope::Administer,
        })
    }

    /// The rights of the token that was shown.
    pub(crate) fn grant(&self) -> Arc<TokenGrant> {
        Arc::clone(&self.grant)
    }

    /// The name of the person who has logged in; `None` for a token, and where none is asked for.
    pub(crate) fn person(&self) -> Option<&str> {
        self.is_person.then(|| self.grant.name())
    }

    /// The secret for the viewer's forms.
    pub(crate) fn form_secret(&self) -> &str {
        &self.form_secret
    }

    /// Returns whether a form that was sent is one of the viewer's.
    pub(crate) fn owns_form(&self, secret: &str) -> bool {
        self.form_secret.as_bytes().ct_eq(secret.as_bytes()).into()
    }
}

/// A session of a browser.
struct ViewerSession {
    /// The token that was shown, or the secret of the person's own session: it is looked up at each request, so that one that was
    /// taken away opens nothing any more.
    token: Vec<u8>,
    form_secret: String,
    begun: Time,
    used: Time,
}

impl ViewerSession {
    /// Returns whether the session has not ended. One from a later time has: the clock was set back.
    fn holds(&self, now: Time) -> bool {
        now >= self.used && now - self.used < IDLE && now - self.begun < LIFETIME
    }
}

/// The sessions of browsers.
#[derive(Default)]
pub(crate) struct ViewerSessions {
    sessions: Mutex<HashMap<[u8; 32], ViewerSession>>,
    /// The secret of forms where no tokens are asked for. Drawn when it is first needed.
    open: Mutex<Option<String>>,
}

impl ViewerSessions {
    /// Begins a session, and returns the cookie's value; `None` without random numbers.
    pub(crate) fn begin(&self, token: &[u8], now: Time) -> Option<String> {
        let (cookie, form_secret) = (secret()?, secret()?);
        let mut sessions = self.sessions.lock();
        if sessions.len() >= SESSIONS_MAX {
            sessions.retain(|_, session| session.holds(now));
        }
        if sessions.len() >= SESSIONS_MAX {
            let oldest = sessions.iter().min_by_key(|(_, session)| session.used).map(|(id, _)| *id);
            oldest.map(|id| sessions.remove(&id));
        }
        sessions.insert(
            digest(&cookie),
            ViewerSession { token: token.to_vec(), form_secret, begun: now, used: now },
        );
        Some(cookie)
    }

    /// Returns the viewer whom a request's cookie names, if `find` still has rights for the token.
    pub(crate) fn viewer(
        &self,
        headers: &HeaderMap,
        now: Time,
        find: impl FnOnce(&[u8]) -> Option<SecretGrant>,
    ) -> Option<Viewer> {
        let id = digest(cookie(headers, COOKIE)?);
        let mut sessions = self.sessions.lock();
        let session = sessions.get_mut(&id)?;
        if !session.holds(now) {
            sessions.remove(&id);
            return None;
        }
        let Some(SecretGrant { grant, is_person }) = find(&session.token) else {
            sessions.remove(&id);
            return None;
        };
        session.used = now;
        Some(Viewer { grant, is_person, form_secret: session.form_secret.clone(), has_session: true })
    }

    /// Returns the viewer where no tokens are asked for; `None` without random numbers.
    pub(crate) fn anybody(&self, grant: Arc<TokenGrant>) -> Option<Viewer> {
        let mut open = self.open.lock();
        if open.is_none() {
            *open = secret();
        }
        open.clone().map(|form_secret| Viewer { grant, is_person: false, form_secret, has_session: false })
    }

    /// Ends the session that a request's cookie names, and returns what was shown for it.
    pub(crate) fn end(&self, headers: &HeaderMap) -> Option<Vec<u8>> {
        let ended = self.sessions.lock().remove(&digest(cookie(headers, COOKIE)?));
        ended.map(|session| session.token)
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.sessions.lock().len()
    }
}

/// Draws a secret; `None` without random numbers.
pub(crate) fn secret() -> Option<String> {
    let mut bytes = [0; SECRET_BYTES];
    getrandom::fill(&mut bytes).ok()?;
    Some(BASE64URL_NOPAD.encode(&bytes))
}

fn digest(cookie: &str) -> [u8; 32] {
    Sha256::digest(cookie).into()
}

/// A cookie of a request. One that stands there twice is none: another host of the domain may have set one.
pub(crate) fn cookie<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    let lines = headers.get_all(header::COOKIE).iter().filter_map(|line| line.to_str().ok());
    let pairs = lines.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
    let mut own = pairs.filter(|(own, _)| *own == name).map(|(_, value)| value);
    own.next().filter(|_| own.next().is_none())
}

/// The header that gives a browser its session's cookie, or takes it away.
pub(crate) fn set_cookie(value: Option<&str>, is_secure: bool) -> HeaderValue {
    let secure = if is_secure { "; Secure" } else { "" };
    let line = match value {
        Some(value) => format!("{COOKIE}={value}; Path=/; HttpOnly; SameSite=Strict{secure}"),
        None => format!("{COOKIE}=; Path=/; HttpOnly; SameSite=Strict; Max-Age=0{secure}"),
    };
    // Letters, digits and a few signs.
    HeaderValue::try_from(line).unwrap_or_else(|_| HeaderValue::from_static(""))
}

/// Returns whether a request is for the console: below its prefix, or a browser's at the root, which is led there.
pub(crate) fn asks_for_console(method: &Method, uri: &Uri, headers: &HeaderMap) -> bool {
    uri.path().starts_with(CONSOLE) || (uri.path() == "/" && *method == Method::GET && wants_page(headers))
}

/// Returns whether who asks reads HTML.
pub(crate) fn wants_page(headers: &HeaderMap) -> bool {
    let accept = headers.get(header::ACCEPT).and_then(|accept| accept.to_str().ok());
    accept.is_some_and(|accept| accept.contains("text/html"))
}

/// Returns whether a request that changes something comes from a page of this host, as far as the browser says.
pub(crate) fn is_from_own_page(headers: &HeaderMap) -> bool {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    // It says what the browser's address line says, also where a proxy names another host to us.
    if let Some(site) = text("sec-fetch-site") {
        return site == "same-origin";
    }
    match text("origin") {
        None => true,
        Some(origin) => {
            let origin = origin.parse::<Uri>().ok();
            let host = text("host");
            origin.as_ref().and_then(Uri::authority).map(|own| own.as_str()) == host && host.is_some()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All rights, for the token of the tests.
    fn known(token: &[u8]) -> Option<SecretGrant> {
        let grant = || Arc::new(TokenGrant::new("t", access::ScopeSet::ALL, Vec::new()));
        (token == b"token").then(|| SecretGrant { grant: grant(), is_person: false })
    }

    fn headers(cookie: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(header::COOKIE, HeaderValue::try_from(format!("a=b; {COOKIE}={cookie}")).unwrap());
        headers
    }

    #[test]
    fn a_session_ends_when_it_is_idle_or_old() {
        let sessions = ViewerSessions::default();
        let begun = Time::from_seconds(1_000_000);
        let check = |uses: &[i64], holds: bool| {
            let cookie = sessions.begin(b"token", begun).unwrap();
            let mut last = None;
            for minutes in uses {
                last = sessions.viewer(&headers(&cookie), begun + Span::minutes(*minutes), known);
            }
            assert_eq!(last.is_some(), holds, "{uses:?}");
        };
        check(&[0], true);
        check(&[29], true);
        check(&[30], false);
        check(&[29, 58, 87], true);
        check(&[29, 58, 88], false);
        check(&[-1], false);
        let often: Vec<i64> = (0..12 * 3).map(|third| third * 20).collect();
        check(&often, true);
        check(&[&often[..], &[12 * 60]].concat(), false);
    }

    #[test]
    fn sessions_are_bounded_and_known_by_their_cookie_alone() {
        let sessions = ViewerSessions::default();
        let now = Time::from_seconds(1_000_000);
        let first = sessions.begin(b"token", now).unwrap();
        for second in 1..=SESSIONS_MAX as i64 {
            sessions.begin(b"token", now + Span::seconds(second)).unwrap();
        }
        assert_eq!(sessions.len(), SESSIONS_MAX);
        assert!(sessions.viewer(&headers(&first), now, known).is_none(), "the oldest made room");
        let kept = sessions.begin(b"token", now).unwrap();
        let viewer = sessions.viewer(&headers(&kept), now, known).unwrap();
        assert!(viewer.owns_form(viewer.form_secret()) && !viewer.owns_form("") && !viewer.owns_form(&kept));
        for other in ["", "x", &kept[1..], &format!("{kept}; {COOKIE}={kept}")] {
            assert!(sessions.viewer(&headers(other), now, known).is_none(), "{other}");
        }
        let gone = sessions.begin(b"another", now).unwrap();
        for _ in 0..2 {
            assert!(sessions.viewer(&headers(&gone), now, known).is_none(), "its token does not hold");
        }
        sessions.end(&headers(&kept));
        assert!(sessions.viewer(&headers(&kept), now, known).is_none());
    }

    #[test]
    fn pages_of_other_hosts_are_told_apart() {
        let check = |lines: &[(&'static str, &str)], own: bool| {
            let mut headers = HeaderMap::new();
            for (name, value) in lines {
                headers.insert(*name, HeaderValue::try_from(*value).unwrap());
            }
            assert_eq!(is_from_own_page(&headers), own, "{lines:?}");
        };
        check(&[("host", "127.0.0.1:8080")], true);
        check(&[("host", "127.0.0.1:8080"), ("origin", "http://127.0.0.1:8080")], true);
        check(&[("host", "127.0.0.1:8080"), ("origin", "http://127.0.0.1:8081")], false);
        check(&[("host", "127.0.0.1:8080"), ("origin", "null")], false);
        check(&[("origin", "http://a.example")], false);
        check(&[("sec-fetch-site", "same-origin"), ("origin", "https://a.example"), ("host", "b")], true);
        for site in ["cross-site", "same-site", "none", ""] {
            check(&[("sec-fetch-site", site), ("host", "a"), ("origin", "http://a")], false);
        }
    }
}
