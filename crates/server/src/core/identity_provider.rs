//! Logins at an identity provider: OpenID Connect's code flow with PKCE (OpenID Connect Core 1.0; RFC 7636, 9207, 9700).
//!
//! ```text
//! console ─► LoginAttempt (a cookie) ─► the provider's page ─► its code ─► token endpoint ─► ID token, checked ─► a session
//! ```
//!
//! Nothing is kept of a login that has begun: its state, nonce and code verifier are hashes of the secret in the browser's cookie.
//! Few logins at once ask the provider; others are told to try again.

use std::sync::Arc;
use std::time::{Duration, Instant};

use access::{IdTokenClaims, IdTokenError, IdTokenPolicy, KeySet, Role};
use axum::http::HeaderMap;
use data_encoding::{BASE64, BASE64URL_NOPAD};
use event::Time;
use parking_lot::Mutex;
use plan::{IdentityProviderPlan, is_protected_url};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use tokio::sync::Semaphore;

use crate::core::blocking::blocking;
use crate::core::http_client::http_client;
use crate::core::viewer::{cookie, secret};

/// The cookie of a login that has begun.
const LOGIN_COOKIE: &str = "tollhouse_login";
/// The path at which browsers send it.
const COOKIE_PATH: &str = "/console/oidc";
/// Seconds within which somebody logs in at the provider.
const LASTS_SECONDS: u32 = 900;
/// Logins at once that ask the provider.
const PLACES: usize = 4;
/// The time for one request.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Bytes of an answer of the provider.
const ANSWER_BYTES_MAX: u64 = 256 << 10;
/// The age at which the provider's description and keys are read again.
const REFRESH: Duration = Duration::from_secs(3600);
/// The age at which they are read again for a key that is not among them.
const RENEWAL_PAUSE: Duration = Duration::from_secs(60);
/// The longest name of a person.
const NAME_BYTES_MAX: usize = 120;
/// The beginning of the name of somebody who has logged in this way; no name of `tollhouse user` can have it.
const NAME_PREFIX: &str = "oidc:";

/// A login that has begun, as the browser's cookie has it.
pub(crate) struct LoginAttempt {
    secret: String,
    /// The page to go on to.
    pub(crate) next: String,
}

impl LoginAttempt {
    /// Begins one; `None` without random numbers.
    pub(crate) fn begin(next: String) -> Option<LoginAttempt> {
        Some(LoginAttempt { secret: secret()?, next })
    }

    /// Returns the attempt of a request's cookie.
    pub(crate) fn of(headers: &HeaderMap) -> Option<LoginAttempt> {
        let (secret, next) = cookie(headers, LOGIN_COOKIE)?.split_once('.')?;
        let next = String::from_utf8(BASE64URL_NOPAD.decode(next.as_bytes()).ok()?).ok()?;
        Some(LoginAttempt { secret: secret.to_owned(), next })
    }

    /// Returns the header field that gives the browser the cookie. Another site's page leads back here, so it is `Lax`.
    pub(crate) fn set_cookie(&self, is_secure: bool) -> String {
        let value = format!("{}.{}", self.secret, BASE64URL_NOPAD.encode(self.next.as_bytes()));
        Self::cookie_field(&value, LASTS_SECONDS, is_secure)
    }

    /// Returns the header field that takes it away.
    pub(crate) fn end_cookie(is_secure: bool) -> String {
        Self::cookie_field("", 0, is_secure)
    }

    fn cookie_field(value: &str, seconds: u32, is_secure: bool) -> String {
        let secure = if is_secure { "; Secure" } else { "" };
        format!(
            "{LOGIN_COOKIE}={value}; Path={COOKIE_PATH}; HttpOnly; SameSite=Lax; Max-Age={seconds}{secure}"
        )
    }

    /// Returns true if this is the attempt's state.
    pub(crate) fn owns(&self, state: &str) -> bool {
        self.derived("state").as_bytes().ct_eq(state.as_bytes()).into()
    }

    fn derived(&self, purpose: &str) -> String {
        BASE64URL_NOPAD.encode(&Sha256::digest(format!("{purpose}:{}", self.secret)))
    }
}

/// The description that a provider gives of itself (OpenID Connect Discovery 1.0).
#[derive(Clone, Debug, Deserialize)]
struct ProviderMetadata {
    issuer: String,
    authorization_endpoint: String,
    token_endpoint: String,
    jwks_uri: String,
    #[serde(default)]
    token_endpoint_auth_methods_supported: Vec<String>,
}

/// The answer of a token endpoint.
#[derive(Deserialize)]
struct TokenAnswer {
    id_token: String,
}

/// A refusal of a token endpoint (RFC 6749, 5.2).
#[derive(Default, Deserialize)]
struct TokenRefusal {
    #[serde(default)]
    error: String,
}

/// A provider, as it was read last.
#[derive(Clone)]
struct KnownProvider {
    plan: Arc<IdentityProviderPlan>,
    metadata: ProviderMetadata,
    keys: Arc<KeySet>,
    read: Instant,
}

/// Somebody whom the provider has named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ProviderIdentity {
    pub(crate) name: String,
    pub(crate) role: Role,
}

/// A reason for which nobody was logged in.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum LoginFailure {
    /// Others are logging in.
    #[error("many people log in at this moment")]
    Busy,
    /// The provider cannot be asked, or its answers are none.
    #[error("the identity provider cannot be asked: {0}")]
    Provider(String),
    /// The provider does not stand by what was shown.
    #[error("the identity provider does not confirm this login: {0}")]
    Refused(String),
    /// Somebody without a role here.
    #[error("`{0}` has no role here")]
    NoRole(String),
}

/// The identity provider of a node.
pub(crate) struct IdentityProvider {
    known: Mutex<Option<KnownProvider>>,
    places: Semaphore,
}

impl Default for IdentityProvider {
    fn default() -> IdentityProvider {
        IdentityProvider { known: Mutex::default(), places: Semaphore::new(PLACES) }
    }
}

impl IdentityProvider {
    /// Returns the address at the provider to which a browser is sent for an attempt.
    pub(crate) async fn address(
        &self,
        plan: &Arc<IdentityProviderPlan>,
        attempt: &LoginAttempt,
    ) -> Result<String, LoginFailure> {
        let _place = self.places.try_acquire().map_err(|_| LoginFailure::Busy)?;
        let endpoint = self.known(plan, REFRESH).await?.metadata.authorization_endpoint;
        let challenge = BASE64URL_NOPAD.encode(&Sha256::digest(attempt.derived("verifier")));
        let query = [
            ("response_type", "code"),
            ("client_id", &plan.client),
            ("redirect_uri", &plan.return_url),
            ("scope", &plan.scopes),
            ("state", &attempt.derived("state")),
            ("nonce", &attempt.derived("nonce")),
            ("code_challenge", &challenge),
            ("code_challenge_method", "S256"),
        ];
        let query =
            serde_urlencoded::to_string(query).map_err(|error| LoginFailure::Provider(error.to_string()))?;
        let sign = if endpoint.contains('?') { '&' } else { '?' };
        Ok(format!("{endpoint}{sign}{query}"))
    }

    /// Asks the provider who has logged in, by the code that it gave the browser.
    pub(crate) async fn identify(
        &self,
        plan: &Arc<IdentityProviderPlan>,
        attempt: &LoginAttempt,
        code: String,
        now: Time,
    ) -> Result<ProviderIdentity, LoginFailure> {
        let _place = self.places.try_acquire().map_err(|_| LoginFailure::Busy)?;
        let known = self.known(plan, REFRESH).await?;
        let (of, verifier) = (known.clone(), attempt.derived("verifier"));
        let token = blocking(move || ask_token(&of, &code, &verifier)).await?;
        let nonce = attempt.derived("nonce");
        let policy = IdTokenPolicy { issuer: &plan.issuer, client: &plan.client, nonce: &nonce, now };
        let claims = match policy.verify(&token, &known.keys) {
            // The provider has changed its keys.
            Err(IdTokenError::UnknownKey { .. }) => {
                policy.verify(&token, &self.known(plan, RENEWAL_PAUSE).await?.keys)
            }
            checked => checked,
        };
        identity(plan, &claims.map_err(|error| LoginFailure::Refused(error.to_string()))?)
    }

    /// Returns the provider as it was read within a time, or reads it.
    async fn known(
        &self,
        plan: &Arc<IdentityProviderPlan>,
        age_max: Duration,
    ) -> Result<KnownProvider, LoginFailure> {
        let known = self.known.lock().clone();
        let known = known.filter(|known| known.plan == *plan && known.read.elapsed() < age_max);
        if let Some(known) = known {
            return Ok(known);
        }
        let of = Arc::clone(plan);
        let read = blocking(move || read_provider(of)).await.map_err(LoginFailure::Provider)?;
        *self.known.lock() = Some(read.clone());
        Ok(read)
    }
}

/// Reads the provider's description and keys.
fn read_provider(plan: Arc<IdentityProviderPlan>) -> Result<KnownProvider, String> {
    let url = format!("{}/.well-known/openid-configuration", plan.issuer.trim_end_matches('/'));
    let agent = http_client(plan.authority.as_deref(), TIMEOUT, false);
    let get = |url: &str| {
        let mut answer = agent.get(url).call().map_err(|error| format!("{url}: {error}"))?;
        let body = answer.body_mut().with_config().limit(ANSWER_BYTES_MAX);
        body.read_to_vec().map_err(|error| format!("{url}: {error}"))
    };
    let metadata: ProviderMetadata =
        serde_json::from_slice(&get(&url)?).map_err(|error| format!("{url}: {error}"))?;
    if metadata.issuer != plan.issuer {
        return Err(format!(
            "{url} names the issuer `{}`, and `oidc.issuer` is `{}`",
            metadata.issuer, plan.issuer
        ));
    }
    for address in [&metadata.authorization_endpoint, &metadata.token_endpoint, &metadata.jwks_uri] {
        if !is_protected_url(address) {
            return Err(format!("{url} names `{address}`, which is not encrypted"));
        }
    }
    let keys = KeySet::read(&get(&metadata.jwks_uri)?).map_err(|error| error.to_string())?;
    Ok(KnownProvider { plan, metadata, keys: Arc::new(keys), read: Instant::now() })
}

/// Gives the code to the provider's token endpoint, and returns the ID token.
fn ask_token(known: &KnownProvider, code: &str, verifier: &str) -> Result<String, LoginFailure> {
    let (plan, metadata) = (&known.plan, &known.metadata);
    let mut form = vec![
        ("grant_type", "authorization_code"),
        ("code", code),
        ("redirect_uri", &plan.return_url),
        ("code_verifier", verifier),
        ("client_id", &plan.client),
    ];
    let agent = http_client(plan.authority.as_deref(), TIMEOUT, true);
    let mut request = agent.post(&metadata.token_endpoint).header("accept", "application/json");
    if let Some(secret) = &plan.secret {
        let methods = &metadata.token_endpoint_auth_methods_supported;
        let has = |method: &str| methods.iter().any(|own| own == method);
        // Without a list it is the header (RFC 8414, 2).
        if has("client_secret_post") && !has("client_secret_basic") {
            form.push(("client_secret", secret));
        } else {
            request = request.header("authorization", basic(&plan.client, secret));
        }
    }
    let failed = |error: &dyn std::fmt::Display| {
        LoginFailure::Provider(format!("{}: {error}", metadata.token_endpoint))
    };
    let mut answer = request.send_form(form).map_err(|error| failed(&error))?;
    let status = answer.status();
    let body = answer.body_mut().with_config().limit(ANSWER_BYTES_MAX);
    let body = body.read_to_vec().map_err(|error| failed(&error))?;
    if status.is_success() {
        let read: TokenAnswer = json(&body).map_err(|error| failed(&error))?;
        return Ok(read.id_token);
    }
    let TokenRefusal { error } = json(&body).unwrap_or_default();
    // The code is the browser's, all else is ours.
    if error == "invalid_grant" {
        return Err(LoginFailure::Refused("its code was used, or is too old".to_owned()));
    }
    Err(failed(&format!("status {status}, `{}`", error.chars().take(80).collect::<String>())))
}

fn json<T: DeserializeOwned>(body: &[u8]) -> Result<T, serde_json::Error> {
    serde_json::from_slice(body)
}

/// Returns the header field of a client with a secret, encoded twice as RFC 6749, 2.3.1, has it.
fn basic(client: &str, secret: &str) -> String {
    let encoded = |text: &str| {
        let pair = serde_urlencoded::to_string([("", text)]).unwrap_or_default();
        pair.trim_start_matches('=').to_owned()
    };
    format!("Basic {}", BASE64.encode(format!("{}:{}", encoded(client), encoded(secret)).as_bytes()))
}

/// Returns the name and the role of somebody, by what the provider says.
fn identity(plan: &IdentityProviderPlan, claims: &IdTokenClaims) -> Result<ProviderIdentity, LoginFailure> {
    let is_printable = |name: &&str| {
        let is_visible = |letter: char| letter.is_alphanumeric() || letter.is_ascii_graphic();
        !name.is_empty() && name.len() <= NAME_BYTES_MAX && name.chars().all(is_visible)
    };
    let name = claims.text(&plan.name_claim).or_else(|| claims.text("sub")).filter(is_printable);
    let name = name.ok_or_else(|| {
        LoginFailure::Refused(format!("its claim `{}` is no name for a log", plan.name_claim))
    })?;
    let name = format!("{NAME_PREFIX}{name}");
    match plan.role(&claims.texts(&plan.role_claim)) {
        Some(role) => Ok(ProviderIdentity { name, role }),
        None => Err(LoginFailure::NoRole(name)),
    }
}

#[cfg(test)]
mod tests {
    use axum::http::{HeaderValue, header};

    use super::*;

    #[test]
    fn an_attempt_is_known_by_its_cookie() {
        let attempt = LoginAttempt::begin("/console/bans?q=a".to_owned()).unwrap();
        let field = attempt.set_cookie(true);
        assert!(
            field.ends_with("; Path=/console/oidc; HttpOnly; SameSite=Lax; Max-Age=900; Secure"),
            "{field}"
        );
        let read = |cookie: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::COOKIE, HeaderValue::try_from(cookie).unwrap());
            LoginAttempt::of(&headers)
        };
        let state = attempt.derived("state");
        let (own, other) =
            (read(field.split(';').next().unwrap()).unwrap(), LoginAttempt::begin(String::new()));
        assert!(own.owns(&state) && own.next == attempt.next);
        assert!(!own.owns("") && !own.owns(&state[1..]) && !other.unwrap().owns(&state));
        for wrong in [
            "tollhouse_login=",
            "tollhouse_login=a",
            "tollhouse_login=a.!",
            "other=a.",
            "tollhouse_login=a._w",
        ] {
            assert!(read(wrong).is_none(), "{wrong}");
        }
        let derived = ["state", "nonce", "verifier"].map(|purpose| own.derived(purpose));
        assert!(
            derived[0] != derived[1] && derived[1] != derived[2] && derived.iter().all(|one| one.len() == 43)
        );
    }

    #[test]
    fn a_client_shows_its_secret_encoded() {
        // RFC 6749, 2.3.1.
        assert_eq!(
            basic("s6BhdRkqt3", "7Fjfp0ZBr1KtDRbnfVdmIw"),
            "Basic czZCaGRSa3F0Mzo3RmpmcDBaQnIxS3REUmJuZlZkbUl3"
        );
        assert_eq!(basic("a:b", "c d+"), format!("Basic {}", BASE64.encode(b"a%3Ab:c+d%2B")));
    }
}
