//! A site of one thread that asks with the challenge page, in the place of a proxy and of what stands behind it.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use data_encoding::{BASE64, HEXLOWER};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::super::{ChallengePage, ChallengeReason, ScriptlessOffer, Translation, same_site};

/// The answer to a solution.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Pass {
    /// A cookie that lets pass.
    #[default]
    Given,
    /// A good answer without a cookie.
    Forgotten,
    /// 403.
    Refused,
    /// 410.
    Gone,
}

/// A site, and what it asks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Site {
    pub(super) cost: u32,
    pub(super) prefix: &'static str,
    pub(super) pass: Pass,
    /// The wait of visitors without scripts.
    pub(super) plain_seconds: Option<u32>,
    /// Fills every value with markup.
    pub(super) hostile: bool,
}

impl Default for Site {
    fn default() -> Site {
        Site { cost: 500, prefix: "0", pass: Pass::Given, plain_seconds: None, hostile: false }
    }
}

/// One who waits without scripts: when the page was sent, and that the mark was loaded.
type WaitingTimes = Arc<Mutex<HashMap<String, (Instant, bool)>>>;

impl Site {
    /// Serves the site until the test's end, and returns its URL.
    pub(super) fn serve(self) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let waiting = WaitingTimes::default();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let waiting = Arc::clone(&waiting);
                // Browsers open connections ahead of need: each has its thread.
                std::thread::spawn(move || self.answer(stream, &waiting));
            }
        });
        url
    }

    fn answer(self, mut stream: TcpStream, waiting: &WaitingTimes) -> Option<()> {
        stream.set_read_timeout(Some(Duration::from_secs(60))).ok()?;
        let mut reader = BufReader::new(stream.try_clone().ok()?);
        let mut lines = Vec::new();
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).ok().filter(|read| *read > 0)?;
            if line.trim().is_empty() {
                break;
            }
            lines.push(line.trim().to_owned());
        }
        let mut words = lines.first()?.split(' ').map(str::to_owned);
        let (method, target) = (words.next()?, words.next()?);
        let field = |name: &str| {
            lines
                .iter()
                .filter_map(|line| line.split_once(": "))
                .find(|(known, _)| known.eq_ignore_ascii_case(name))
        };
        let length = field("content-length").and_then(|(_, length)| length.parse().ok()).unwrap_or(0);
        let mut body = vec![0; length];
        reader.read_exact(&mut body).ok()?;
        let body = String::from_utf8(body).ok()?;
        let has_pass = field("cookie").is_some_and(|(_, cookies)| cookies.contains("pass=yes"));
        let language = field("accept-language").map_or("", |(_, language)| language);
        let (path, query) = target.split_once('?').unwrap_or((&target, ""));

        let page =
            |text: &str| format!("<!doctype html><html lang=en><title>Site</title><main>{text}</main>");
        let (status, fields, body) = match path {
            "/.tollhouse/verify" => self.verify(&body),
            "/.tollhouse/mark" => {
                if let Some(waits) = waiting.lock().unwrap().get_mut(query) {
                    waits.1 = true;
                }
                (
                    200,
                    vec![("content-type", "image/svg+xml".to_owned())],
                    "<svg xmlns='http://www.w3.org/2000/svg'/>".to_owned(),
                )
            }
            "/.tollhouse/continue" => {
                let (token, back) = query.split_once("&return=")?;
                let is_form = token.starts_with("form-");
                let waits = waiting.lock().unwrap().remove(token);
                let wait = Duration::from_secs(self.plain_seconds?.into());
                match waits {
                    Some((since, true)) if since.elapsed() >= wait && is_form => {
                        let (_, mut fields, body) = self.ask("POST", "/", language, waiting, true);
                        fields.push(("set-cookie", COOKIE.to_owned()));
                        (200, fields, body)
                    }
                    Some((since, true)) if since.elapsed() >= wait => passed(&decoded(back)),
                    waits => (403, Vec::new(), format!("not yet: {waits:?}")),
                }
            }
            "/form" => {
                let form = "<form method=post action=/comment><label>Text <input name=text></label><button>Send</button></form>";
                (200, Vec::new(), page(form).replace("Site", "Form"))
            }
            "/favicon.ico" => (404, Vec::new(), String::new()),
            _ if has_pass => (200, Vec::new(), page(&format!("Here you are: {method} {body}"))),
            _ => self.ask(&method, &target, language, waiting, false),
        };
        let mut head =
            format!("HTTP/1.1 {status} X\r\nconnection: close\r\ncontent-length: {}\r\n", body.len());
        if !fields.iter().any(|(name, _)| *name == "content-type") {
            head.push_str("content-type: text/html; charset=utf-8\r\n");
        }
        for (name, value) in fields {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        stream.write_all(format!("{head}\r\n{body}").as_bytes()).ok()
    }

    fn ask(
        self,
        method: &str,
        target: &str,
        language: &str,
        waiting: &WaitingTimes,
        is_passed: bool,
    ) -> Answer {
        let is_form = !["GET", "HEAD"].contains(&method);
        let token = if is_form { format!("form-{}", random()) } else { random() };
        waiting.lock().unwrap().insert(token.clone(), (Instant::now(), false));
        let challenge = json!({
            "parameters": {
                "algorithm": "PBKDF2/SHA-256",
                "cost": self.cost,
                "data": {"host": "é</script><b onclick=x>"},
                "expiresAt": 4_000_000_000_u32,
                "keyLength": 32,
                "keyPrefix": self.prefix,
                "nonce": random(),
                "salt": random(),
            },
            "signature": random(),
        });
        let evil = "\"'></script></style></noscript><b onclick=x>&\u{202e}\u{2066}\\";
        let value = |value| if self.hostile { evil } else { value };
        let escaped: String = target.bytes().map(|byte| format!("%{byte:02x}")).collect();
        let way = |seconds| {
            (
                seconds,
                format!("/.tollhouse/mark?{token}"),
                format!("/.tollhouse/continue?{token}&return={escaped}"),
            )
        };
        let way = self.plain_seconds.map(way);
        let challenge = challenge.to_string();
        let hostile_url = format!("javascript:{evil}");
        let nonce = random();
        let page = ChallengePage {
            challenge: &challenge,
            base: "/.tollhouse/",
            return_to: target,
            is_form,
            site: value("site.example"),
            reason: ChallengeReason::New,
            contact: Some(if self.hostile { &hostile_url } else { "owner@site.example" }),
            reference: value("01JD7Z3N0V5K2W8Q4M6T9R1XCB"),
            without_scripts: way.as_ref().map(|(wait_seconds, mark_url, continue_url)| ScriptlessOffer {
                wait_seconds: *wait_seconds,
                mark_url,
                continue_url,
            }),
            nonce: &nonce,
        };
        let text = Translation::negotiated(language);
        let body = if is_passed { page.render_outcome(true, text, None) } else { page.render(text, None) };
        (401, page.headers(text).into(), body)
    }

    fn verify(self, body: &str) -> Answer {
        let field = |name: &str| {
            let found =
                body.split('&').filter_map(|pair| pair.split_once('=')).find(|(known, _)| *known == name);
            found.map(|(_, value)| decoded(value)).unwrap_or_default()
        };
        let payload = BASE64.decode(field("altcha").as_bytes()).unwrap_or_default();
        let payload: Value = serde_json::from_slice(&payload).unwrap_or_default();
        match self.pass {
            _ if !solved(&payload) => (400, Vec::new(), "not solved".to_owned()),
            Pass::Given => passed(&field("return")),
            Pass::Forgotten => {
                (303, vec![("location", same_site(&field("return")).into_owned())], String::new())
            }
            Pass::Refused => (403, Vec::new(), String::new()),
            Pass::Gone => (410, Vec::new(), String::new()),
        }
    }
}

const COOKIE: &str = "pass=yes; Path=/; HttpOnly; SameSite=Lax";

type Answer = (u16, Vec<(&'static str, String)>, String);

fn passed(back: &str) -> Answer {
    let location = same_site(back).into_owned();
    (303, vec![("location", location), ("set-cookie", COOKIE.to_owned())], String::new())
}

/// A value of a form.
fn decoded(value: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = value.as_bytes();
    while let Some((&first, behind)) = rest.split_first() {
        let pair = behind.get(..2).and_then(|pair| HEXLOWER.decode(&pair.to_ascii_lowercase()).ok());
        rest = match (first, pair) {
            (b'%', Some(pair)) => {
                bytes.extend(pair);
                &behind[2..]
            }
            _ => {
                bytes.push(if first == b'+' { b' ' } else { first });
                behind
            }
        };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn random() -> String {
    let half = || format!("{:016x}", RandomState::new().build_hasher().finish());
    half() + &half()
}

/// True for a solution of its challenge: PBKDF2 of RFC 8018 for one block.
fn solved(payload: &Value) -> bool {
    let parameters = &payload["challenge"]["parameters"];
    let bytes =
        |value: &Value| HEXLOWER.decode(value.as_str().unwrap_or_default().as_bytes()).unwrap_or_default();
    let counter = payload["solution"]["counter"].as_u64().and_then(|counter| u32::try_from(counter).ok());
    let Some(counter) = counter else { return false };
    let password = [bytes(&parameters["nonce"]), counter.to_be_bytes().to_vec()].concat();
    let hmac = |data: &[u8]| {
        let pad =
            |byte: u8| -> Vec<u8> { (0..64).map(|i| password.get(i).copied().unwrap_or(0) ^ byte).collect() };
        let inner = Sha256::new().chain_update(pad(0x36)).chain_update(data).finalize();
        Sha256::new().chain_update(pad(0x5c)).chain_update(inner).finalize()
    };
    let mut last = hmac(&[bytes(&parameters["salt"]), vec![0, 0, 0, 1]].concat());
    let mut key = last;
    for _ in 1..parameters["cost"].as_u64().unwrap_or(1) {
        last = hmac(&last);
        key.iter_mut().zip(&last).for_each(|(key, last)| *key ^= last);
    }
    let key = HEXLOWER.encode(&key);
    key == payload["solution"]["derivedKey"]
        && key.starts_with(parameters["keyPrefix"].as_str().unwrap_or("-"))
}
