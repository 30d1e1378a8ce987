//! Logins at an identity provider, which is played here: its description, keys, and token endpoint.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex};

use data_encoding::{BASE64, BASE64URL_NOPAD};
use ring::rand::SystemRandom;
use ring::signature::{Ed25519KeyPair, KeyPair};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::harness::{Answer, NOW, TestServer, configure, directory, start};

/// The provider's secret of this server.
const SECRET: &str = "s3cret word";

/// A login at the provider: its challenge, and what it says of the person.
struct PlayedLogin {
    challenge: String,
    claims: Value,
}

/// A provider on a free port. It lives as long as the test's process.
struct PlayedProvider {
    issuer: String,
    state: Arc<Mutex<PlayedState>>,
}

struct PlayedState {
    key: Ed25519KeyPair,
    key_id: usize,
    logins: HashMap<String, PlayedLogin>,
    /// The answers of the token endpoint that were no token.
    refusals: usize,
    key_requests: usize,
}

impl PlayedState {
    fn answer(&mut self, issuer: &str, path: &str, head: &str, body: &str) -> (u16, Value) {
        match path {
            "/.well-known/openid-configuration" => (
                200,
                json!({"issuer": issuer, "authorization_endpoint": format!("{issuer}/authorize?prompt=login"),
                    "token_endpoint": format!("{issuer}/token"), "jwks_uri": format!("{issuer}/keys")}),
            ),
            "/keys" => {
                self.key_requests += 1;
                let x = BASE64URL_NOPAD.encode(self.key.public_key().as_ref());
                let key = json!({"kty": "OKP", "crv": "Ed25519", "kid": self.key_id.to_string(), "x": x});
                (200, json!({"keys": [key]}))
            }
            "/token" => self.token(head, body).map_or_else(
                || {
                    self.refusals += 1;
                    (400, json!({"error": "invalid_grant"}))
                },
                |token| (200, json!({"access_token": "a", "token_type": "Bearer", "id_token": token})),
            ),
            _ => (404, json!({})),
        }
    }

    /// The token of a login, by its code, which holds once, for who has begun it.
    fn token(&mut self, head: &str, body: &str) -> Option<String> {
        let form: HashMap<String, String> = serde_urlencoded::from_str(body).ok()?;
        let basic = format!("Basic {}", BASE64.encode(b"toll:s3cret+word"));
        let is_ours = head.lines().any(|line| {
            line.split_once(':').is_some_and(|(name, value)| {
                name.eq_ignore_ascii_case("authorization") && value.trim() == basic
            })
        });
        let login = self.logins.remove(&form["code"])?;
        let proof = BASE64URL_NOPAD.encode(&Sha256::digest(&form["code_verifier"]));
        if !is_ours || form["grant_type"] != "authorization_code" || proof != login.challenge {
            return None;
        }
        let text = |value: &Value| BASE64URL_NOPAD.encode(value.to_string().as_bytes());
        let header = json!({"alg": "EdDSA", "kid": self.key_id.to_string()});
        let message = format!("{}.{}", text(&header), text(&login.claims));
        let signature = self.key.sign(message.as_bytes());
        Some(format!("{message}.{}", BASE64URL_NOPAD.encode(signature.as_ref())))
    }
}

fn key() -> Ed25519KeyPair {
    let key = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
    Ed25519KeyPair::from_pkcs8(key.as_ref()).unwrap()
}

fn serve(stream: &mut TcpStream, issuer: &str, state: &Mutex<PlayedState>) -> Option<()> {
    let mut bytes = Vec::new();
    let head = loop {
        let mut part = [0; 4096];
        let count = stream.read(&mut part).ok().filter(|count| *count > 0)?;
        bytes.extend_from_slice(&part[..count]);
        if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            break String::from_utf8(bytes.drain(..end + 4).collect()).ok()?;
        }
    };
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())?
    });
    let mut rest = vec![0; length.unwrap_or(0).saturating_sub(bytes.len())];
    stream.read_exact(&mut rest).ok()?;
    bytes.extend(rest);
    let path = head.split(' ').nth(1)?;
    let (status, body) = state.lock().unwrap().answer(issuer, path, &head, &String::from_utf8(bytes).ok()?);
    let body = body.to_string();
    let head = format!("HTTP/1.1 {status} X\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
    stream.write_all(head.as_bytes()).ok()?;
    stream.write_all(body.as_bytes()).ok()
}

impl PlayedProvider {
    fn start() -> PlayedProvider {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let issuer = format!("http://{}", listener.local_addr().unwrap());
        let state =
            PlayedState { key: key(), key_id: 1, logins: HashMap::new(), refusals: 0, key_requests: 0 };
        let state = Arc::new(Mutex::new(state));
        let (own, of) = (Arc::clone(&state), issuer.clone());
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                serve(&mut stream.unwrap(), &of, &own);
            }
        });
        PlayedProvider { issuer, state }
    }

    /// Logs somebody in who was sent here; answers with the address that leads back.
    fn log_in(&self, address: &str, change: &Value) -> String {
        let (endpoint, query) = address.split_once("?prompt=login&").unwrap();
        assert_eq!(endpoint, format!("{}/authorize", self.issuer));
        let asked: HashMap<String, String> = serde_urlencoded::from_str(query).unwrap();
        assert_eq!(
            (asked["response_type"].as_str(), asked["code_challenge_method"].as_str()),
            ("code", "S256")
        );
        assert_eq!((asked["client_id"].as_str(), asked["scope"].as_str()), ("toll", "openid profile email"));
        assert_eq!(asked["redirect_uri"], "https://toll.example/console/oidc/return");
        let now = NOW.0 / 1_000_000;
        let mut claims = json!({"iss": self.issuer, "aud": "toll", "sub": "7", "nonce": asked["nonce"],
            "iat": now, "exp": now + 60, "preferred_username": "ann@id.example", "groups": ["staff", "mods"]});
        for (name, value) in change.as_object().unwrap() {
            claims[name] = value.clone();
        }
        let mut state = self.state.lock().unwrap();
        let code = format!("code{}", state.logins.len());
        state.logins.insert(code.clone(), PlayedLogin { challenge: asked["code_challenge"].clone(), claims });
        format!("/console/oidc/return?code={code}&state={}", asked["state"])
    }
}

fn with_provider(test: impl FnOnce(&TestServer, &PlayedProvider)) {
    let parent = tempfile::tempdir().unwrap();
    let provider = PlayedProvider::start();
    let server = server(&parent.path().join("data"), &provider);
    test(&server, &provider);
    server.stop();
}

fn server(path: &Path, provider: &PlayedProvider) -> TestServer {
    let directory = directory(path);
    let issuer = &provider.issuer;
    configure(
        &directory,
        &format!(
            "[oidc]\nissuer = \"{issuer}\"\nclient_id = \"toll\"\nclient_secret = \"{SECRET}\"\n\
             console = \"https://toll.example\"\nreviewer = [\"mods\"]\nadministrator = [\"ops\"]\n"
        ),
    );
    start(&directory, &[])
}

/// Begins a login; answers with the address at the provider and the cookie.
fn begin(server: &TestServer, next: &str) -> (String, String) {
    let answer = server.get(&format!("/console/oidc?next={next}"));
    assert_eq!(answer.status, 303, "{}", answer.body);
    let cookie = answer.header("set-cookie").unwrap();
    assert!(cookie.contains("HttpOnly; SameSite=Lax; Max-Age=900; Secure"), "{cookie}");
    let pair = cookie.split(';').next().unwrap();
    (answer.header("location").unwrap().to_owned(), format!("Cookie: {pair}"))
}

fn session(answer: &Answer) -> Option<String> {
    let lines = answer.head.lines().filter_map(|line| line.split_once(": "));
    let mut cookies = lines.filter(|(name, _)| name.eq_ignore_ascii_case("set-cookie"));
    let (_, cookie) = cookies.find(|(_, cookie)| cookie.starts_with("tollhouse_session="))?;
    assert!(cookie.contains("HttpOnly; SameSite=Strict; Secure"), "{cookie}");
    Some(format!("Cookie: {}", cookie.split(';').next().unwrap()))
}

#[test]
fn somebody_logs_in_and_may_what_the_group_may() {
    with_provider(|server, provider| {
        assert_eq!(server.first_visit, None, "somebody may log in");
        assert_eq!(server.get("/v1/bans").status, 401);
        let page = server.get("/console/login?next=/console/bans").body;
        assert!(page.contains("href=\"/console/oidc?next=%2Fconsole%2Fbans\""), "{page}");
        let (address, cookie) = begin(server, "/console/bans");
        let back = provider.log_in(&address, &json!({}));
        let answer = server.ask("GET", &back, &[&cookie], b"");
        assert_eq!((answer.status, answer.header("refresh")), (200, Some("0; url=/console/bans")));
        let ann = session(&answer).unwrap();
        let status = |page: &str| server.ask("GET", page, &[&ann], b"").status;
        assert_eq!(
            [status("/console/bans"), status("/console/decisions"), status("/console/settings/audit")],
            [200, 200, 403]
        );
        // The code and what came of it are used.
        let again = server.ask("GET", &back, &[&cookie], b"");
        assert_eq!((again.status, session(&again)), (403, None));
        // The highest role counts.
        let (address, cookie) = begin(server, "/elsewhere");
        let back = provider.log_in(&address, &json!({"groups": ["mods", "ops"], "preferred_username": null}));
        let answer = server.ask("GET", &back, &[&cookie], b"");
        assert_eq!(answer.header("refresh"), Some("0; url=/console/"));
        let admin = session(&answer).unwrap();
        let settings = server.ask("GET", "/console/settings", &[&admin], b"");
        assert_eq!(settings.status, 200);
        let audit = server.ask("GET", "/v1/audit?action=session.begin", &[&admin], b"");
        assert_eq!(audit.status, 401, "a browser's cookie is none of the interface's: {}", audit.body);
        assert_eq!(provider.state.lock().unwrap().key_requests, 1);
    });
}

#[test]
fn what_the_provider_does_not_stand_by_logs_nobody_in() {
    with_provider(|server, provider| {
        let refuse = |back: &str, cookies: &[&str], status: u16, why: &str| {
            let answer = server.ask("GET", back, cookies, b"");
            assert_eq!((answer.status, session(&answer)), (status, None), "{}", answer.body);
            assert!(answer.body.contains(why), "{why}: {}", answer.body);
        };
        let elsewhere = "was not begun in this browser";
        // Another browser's, none, another state, another provider's.
        let (address, cookie) = begin(server, "");
        let (_, other) = begin(server, "");
        let back = provider.log_in(&address, &json!({}));
        refuse(&back, &[], 403, elsewhere);
        refuse(&back, &[&other], 403, elsewhere);
        refuse(&back.replace("state=", "state=a"), &[&cookie], 403, elsewhere);
        refuse(&format!("{back}&iss=https://evil.example"), &[&cookie], 403, elsewhere);
        refuse("/console/oidc/return", &[&cookie], 403, elsewhere);
        let (_, state) = back.split_once("state=").unwrap();
        let error = format!(
            "/console/oidc/return?error=access_denied&error_description=%3Cb%3Eno%3C/b%3E&state={state}"
        );
        refuse(&error, &[&cookie], 403, "&lt;b&gt;no&lt;/b&gt;");
        // A code of somebody else has another verifier.
        let (address, own) = begin(server, "");
        let stolen = provider.log_in(&address, &json!({}));
        let stolen = stolen.replace(stolen.split_once("state=").unwrap().1, state);
        refuse(&stolen, &[&cookie], 403, "its code was used, or is too old");
        refuse(
            &format!("/console/oidc/return?code=guess&state={state}"),
            &[&cookie],
            403,
            "its code was used",
        );
        drop(own);
        // What it says is not what was asked for.
        for (change, why) in [
            (json!({"nonce": "other"}), "`nonce` is not what was asked for"),
            (json!({"exp": 1}), "compare the clocks"),
            (json!({"groups": ["staff"]}), "has no role here"),
            (json!({"preferred_username": "a\nb"}), "is no name for a log"),
        ] {
            let (address, cookie) = begin(server, "");
            refuse(&provider.log_in(&address, &change), &[&cookie], 403, why);
        }
        // A key that the provider does not publish.
        provider.state.lock().unwrap().key = key();
        let (address, cookie) = begin(server, "");
        refuse(
            &provider.log_in(&address, &json!({})),
            &[&cookie],
            403,
            "signature is not one of the provider",
        );
        assert_eq!(provider.state.lock().unwrap().refusals, 2);
    });
}

#[test]
fn a_provider_that_is_away_is_said() {
    let parent = tempfile::tempdir().unwrap();
    let mut provider = PlayedProvider::start();
    // There is no description there.
    provider.issuer = format!("http://{}/x", provider.issuer.trim_start_matches("http://"));
    let server = server(&parent.path().join("data"), &provider);
    let answer = server.get("/console/oidc");
    assert_eq!(answer.status, 503, "{}", answer.body);
    assert!(answer.body.contains("the identity provider cannot be asked"), "{}", answer.body);
    server.stop();
    with_provider(|server, _| assert_eq!(server.get("/console/oidc/return?code=a").status, 403));
}
