//! Notifications reach stand-ins for webhooks, chats, AbuseIPDB and mail servers, whatever the values in them are.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use data_encoding::BASE64;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::authority::TestAuthority;
use crate::harness::{JSON, TestServer, check_problem, directory, start};

/// The longest wait, for a machine that does much else.
const WAIT: Duration = Duration::from_secs(120);
/// A key as Standard Webhooks writes it.
const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
/// A value that would like to be more than a value.
const HOSTILE: &str = "<!channel> & \"x\"\r\nBcc: all@example.org\n\u{202E}[a](https://b) @here";

const CONFIG: &str = r#"
name = "hits"
[[field]]
name = "client.ip"
type = "ip"
[[field]]
name = "user"
type = "string"
[[field]]
name = "size"
type = "integer"
[[kind]]
name = "ip"
of = "client.ip"
[[kind]]
name = "user"
of = "user"
[[statistic]]
name = "counts"
keys = ["ip", "user"]
counts = ["seen"]
windows = ["1h x 48"]
[[label]]
name = "bad"
of = "ip"
keep = "7d"
decision = "ban"
[[label]]
name = "locked"
of = "user"
keep = "7d"
decision = "lock"
[[rule]]
name = "BIG"
when = "size > 10"
score = 1
effects = ["mark ip as 'bad' for 1d", "notify 'ops'"]
[[rule]]
name = "LOCKED"
when = "size > 20"
score = 1
effects = ["mark user as 'locked' for 1d"]
[[band]]
at = 1.0
action = "reject"
[node]
watch = "off"
"#;

/// A request as a stand-in took it.
#[derive(Debug)]
struct TakenRequest {
    line: String,
    head: Vec<(String, String)>,
    body: Vec<u8>,
}

impl TakenRequest {
    fn header(&self, name: &str) -> &str {
        let found = self.head.iter().find(|(known, _)| known == name);
        found.map_or("", |(_, value)| value)
    }

    fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }
}

fn read_request(stream: impl Read) -> Option<TakenRequest> {
    let mut reader = BufReader::new(stream);
    let mut next = || {
        let mut line = String::new();
        reader.read_line(&mut line).ok().filter(|read| *read > 0)?;
        Some(line.trim_end().to_owned())
    };
    let line = next()?;
    let mut head = Vec::new();
    loop {
        let line = next()?;
        let Some((name, value)) = line.split_once(':') else { break };
        head.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    let mut taken = TakenRequest { line, head, body: Vec::new() };
    let length: usize = taken.header("content-length").parse().unwrap_or(0);
    taken.body.resize(length, 0);
    reader.read_exact(&mut taken.body).ok()?;
    Some(taken)
}

/// Takes a request, and answers it with a status.
fn answer(mut stream: impl Read + Write, status: &str, sender: &Sender<TakenRequest>) {
    if let Some(request) = read_request(&mut stream) {
        let _ = write!(stream, "HTTP/1.1 {status}content-length: 0\r\nconnection: close\r\n\r\n");
        let _ = stream.flush();
        // The test may be over.
        let _ = sender.send(request);
    }
}

/// A stand-in that answers the first requests with these statuses, and all others with 200.
fn stand_in(statuses: &'static [&'static str]) -> (String, Receiver<TakenRequest>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (sender, taken) = channel();
    std::thread::spawn(move || {
        let mut statuses = statuses.iter();
        for stream in listener.incoming() {
            let status = statuses.next().unwrap_or(&"200 OK\r\n");
            answer(stream.unwrap(), status, &sender);
        }
    });
    (format!("http://{address}"), taken)
}

/// Runs a test against a server that notifies `ops` with these settings.
fn with_place(settings: &[(&str, &str)], test: impl FnOnce(&TestServer)) {
    let parent = tempfile::tempdir().unwrap();
    let directory = directory(&parent.path().join("data"));
    fs::write(directory.config_path(), CONFIG).unwrap();
    let named: Vec<(String, &str)> =
        settings.iter().map(|(key, value)| (format!("notification.ops.{key}"), *value)).collect();
    let named: Vec<(&str, &str)> = named.iter().map(|(key, value)| (key.as_str(), *value)).collect();
    let running = start(&directory, &named);
    test(&running);
    running.stop();
}

fn decide(running: &TestServer, ip: &str, user: &str, size: usize) -> Value {
    let event = json!({"client.ip": ip, "user": user, "size": size}).to_string();
    let answer = running.post("/v1/decide", &[JSON], &event);
    assert_eq!(answer.status, 200, "{}", answer.body);
    answer.json()
}

/// The place, as the server tells it.
fn status(running: &TestServer) -> Value {
    running.get("/v1/notifications").json()["notifications"][0].clone()
}

#[track_caller]
fn wait_for(running: &TestServer, name: &str, count: u64) {
    let started = Instant::now();
    while status(running)[name] != count {
        assert!(started.elapsed() < WAIT, "{name} is not {count}: {}", status(running));
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// HMAC with SHA-256, by its definition (RFC 2104).
fn hmac(key: &[u8], message: &[u8]) -> Vec<u8> {
    let mut block = [0; 64];
    block[..key.len()].copy_from_slice(key);
    let pad = |byte: u8| block.map(|own| own ^ byte);
    let inner = Sha256::new().chain_update(pad(0x36)).chain_update(message).finalize();
    Sha256::new().chain_update(pad(0x5C)).chain_update(inner).finalize().to_vec()
}

fn check_signature(request: &TakenRequest) {
    let key = BASE64.decode(SECRET.trim_start_matches("whsec_").as_bytes()).unwrap();
    let mut signed = format!("{}.{}.", request.header("webhook-id"), request.header("webhook-timestamp"));
    signed.push_str(std::str::from_utf8(&request.body).unwrap());
    let expected = format!("v1,{}", BASE64.encode(&hmac(&key, signed.as_bytes())));
    assert_eq!(request.header("webhook-signature"), expected);
}

#[test]
fn a_webhook_is_signed_and_sent_again_until_it_is_taken() {
    // RFC 4231, test case 2.
    let known = "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843";
    let own = data_encoding::HEXLOWER.encode(&hmac(b"Jefe", b"what do ya want for nothing?"));
    assert_eq!(own, known);
    let (url, taken) = stand_in(&["503 Unavailable\r\n", "429 Slow\r\nretry-after: 0\r\n"]);
    with_place(&[("url", &url), ("secret", SECRET), ("retry", "20ms")], |running| {
        let decision = decide(running, "192.0.2.7", "ann", 11);
        let requests: Vec<TakenRequest> = (0..3).map(|_| taken.recv_timeout(WAIT).unwrap()).collect();
        for request in &requests {
            assert_eq!(request.line, "POST / HTTP/1.1");
            assert_eq!(request.header("webhook-id"), requests[0].header("webhook-id"));
            check_signature(request);
        }
        let told = requests[2].json();
        assert_eq!(told["type"], "rule");
        let data = &told["data"];
        let shown = [&data["rule"], &data["pipeline"], &data["action"], &data["value"], &data["decision"]];
        assert_eq!(shown, ["BIG", "hits", "reject", "192.0.2.7", decision["id"].as_str().unwrap()]);
        wait_for(running, "sent", 1);
        let now = status(running);
        assert_eq!((&now["retried"], &now["failed"], &now["state"]), (&json!(2), &json!(0), &json!("well")));
        assert!(
            running
                .get("/metrics")
                .body
                .contains("tollhouse_notifications_sent_total{notification=\"ops\"} 1")
        );
    });
}

#[test]
fn what_is_refused_or_led_elsewhere_is_given_up_and_said() {
    let (elsewhere, led) = stand_in(&[]);
    let location: &'static str = format!("302 Found\r\nlocation: {elsewhere}/\r\n").leak();
    let statuses: &'static [&'static str] = vec!["404 Not Found\r\n", location].leak();
    let (url, taken) = stand_in(statuses);
    let url = format!("{url}/services/hunter2");
    with_place(&[("url", &url), ("retry", "20ms")], |running| {
        decide(running, "192.0.2.7", "ann", 11);
        taken.recv_timeout(WAIT).unwrap();
        wait_for(running, "failed", 1);
        let now = status(running);
        assert_eq!(now["state"], "failing");
        assert_eq!(now["fault"]["reason"], "it answers 404");
        let tested = running.post("/v1/notifications/ops/test", &[JSON], "").json();
        assert_eq!(tested["is_sent"], false, "{tested}");
        assert!(tested["problem"].as_str().unwrap().contains("redirects are not followed"), "{tested}");
        assert!(led.try_recv().is_err(), "nothing goes where an answer leads");
        let again = running.post("/v1/notifications/ops/test", &[JSON], "").json();
        assert_eq!(again, json!({"name": "ops", "is_sent": true}));
        assert_eq!(status(running)["state"], "well");
        assert!(!running.get("/v1/notifications").body.contains("hunter2"));
        assert!(!running.get("/v1/settings").body.contains("hunter2"));
        let nobody = running.post("/v1/notifications/nobody/test", &[JSON], "");
        check_problem(&nobody, 400, "unknown-name", "there is no notification `nobody`");
    });
}

/// Has the server tell of a ban on a hostile value, and returns the request.
fn of_hostile_ban(settings: &[(&str, &str)], path: &str) -> TakenRequest {
    let (url, taken) = stand_in(&[]);
    let url = format!("{url}{path}");
    let mut request = None;
    with_place(&[&[("url", url.as_str()), ("on", "[\"ban\"]")], settings].concat(), |running| {
        // Bans are told from the first look on: the test says that there was one.
        let ready = running.post("/v1/notifications/ops/test", &[JSON], "").json();
        assert_eq!(ready["is_sent"], true, "{ready}");
        taken.recv_timeout(WAIT).unwrap();
        let mut tries = 0;
        request = Some(loop {
            tries += 1;
            decide(running, "127.0.0.1", &format!("{HOSTILE}{tries}"), 21);
            let sent = taken.recv_timeout(Duration::from_secs(2));
            match sent {
                Ok(sent) if String::from_utf8_lossy(&sent.body).contains("channel") => break sent,
                _ => assert!(tries < 60, "nothing was told"),
            }
        });
    });
    request.unwrap()
}

#[test]
fn a_hostile_value_is_a_value_in_json() {
    let told = of_hostile_ban(&[], "/hook").json();
    assert_eq!(told["type"], "ban");
    assert!(told["data"]["value"].as_str().unwrap().starts_with("<!channel>"), "{told}");
    assert!(!told["data"]["summary"].as_str().unwrap().contains(['\n', '\r', '\u{202E}']), "{told}");
}

#[test]
fn a_hostile_value_calls_nobody_in_slack() {
    let request = of_hostile_ban(&[("type", "slack"), ("template", "*{kind}* {value}")], "/services/T/B/x");
    let told = request.json();
    let text = told["text"].as_str().unwrap();
    assert!(text.starts_with("*ban* &lt;!channel&gt; &amp; "), "{text}");
    assert!(!text.contains(['<', '>', '\n']) && !text.contains("](") && !text.contains("@here"), "{text}");
}

#[test]
fn a_hostile_value_is_plain_text_in_matrix() {
    let settings = [("type", "matrix"), ("room", "!a/b:example.org"), ("secret", "0123456789abcdef")];
    let request = of_hostile_ban(&settings, "");
    assert!(
        request
            .line
            .starts_with("PUT /_matrix/client/v3/rooms/%21a%2Fb%3Aexample%2Eorg/send/m.room.message/msg_")
    );
    assert_eq!(request.header("authorization"), "Bearer 0123456789abcdef");
    let told = request.json();
    assert_eq!((&told["msgtype"], &told["m.mentions"]), (&json!("m.notice"), &json!({})));
    assert!(told.get("formatted_body").is_none());
    assert!(!told["body"].as_str().unwrap().contains('\n'), "{told}");
}

#[test]
fn an_address_is_reported_and_nothing_else() {
    let (url, taken) = stand_in(&[]);
    let settings = [("url", url.as_str()), ("type", "abuseipdb"), ("secret", "0123456789abcdef")];
    with_place(
        &[&settings[..], &[("categories", "[18, 21]"), ("template", "{rule} & more")]].concat(),
        |running| {
            // Neither is a private address reported, nor a test.
            decide(running, "10.0.0.1", "ann", 11);
            let tested = running.post("/v1/notifications/ops/test", &[JSON], "").json();
            assert_eq!(tested["is_sent"], false, "{tested}");
            decide(running, "203.0.113.9", "ann", 11);
            let request = taken.recv_timeout(WAIT).unwrap();
            assert_eq!(request.header("key"), "0123456789abcdef");
            let body = String::from_utf8(request.body).unwrap();
            let expected =
                "ip=203.0.113.9&categories=18%2C21&comment=BIG+%26+more&timestamp=2026-05-17T10%3A00%3A00Z";
            assert_eq!(body, expected);
            wait_for(running, "sent", 1);
            assert!(taken.try_recv().is_err());
        },
    );
}

/// A mail server that takes one mail after the other, in words.
fn mail_server() -> (String, Receiver<(Vec<String>, String)>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (sender, mails) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            take_mails(stream.unwrap(), &sender);
        }
    });
    (format!("smtp://{address}"), mails)
}

fn take_mails(stream: impl Read + Write, sender: &Sender<(Vec<String>, String)>) {
    let mut reader = BufReader::new(stream);
    let (mut commands, mut mail, mut is_data) = (Vec::new(), String::new(), false);
    let _ = reader.get_mut().write_all(b"220 stand-in\r\n");
    loop {
        let mut line = String::new();
        if !reader.read_line(&mut line).is_ok_and(|read| read > 0) {
            return;
        }
        if is_data && line == ".\r\n" {
            is_data = false;
            let _ = reader.get_mut().write_all(b"250 taken\r\n");
            let _ = sender.send((std::mem::take(&mut commands), std::mem::take(&mut mail)));
            continue;
        }
        if is_data {
            mail.push_str(&line);
            continue;
        }
        let word = line.get(..4).unwrap_or_default().to_ascii_uppercase();
        commands.push(line.trim_end().to_owned());
        is_data = word == "DATA";
        let answer: &[u8] = match &*word {
            "EHLO" => b"250-stand-in\r\n250 AUTH PLAIN\r\n",
            "AUTH" => b"235 welcome\r\n",
            "DATA" => b"354 go on\r\n",
            "QUIT" => b"221 bye\r\n",
            _ => b"250 fine\r\n",
        };
        let _ = reader.get_mut().write_all(answer);
    }
}

#[test]
fn a_mail_has_the_headers_that_it_is_given_and_no_others() {
    let (url, mails) = mail_server();
    let settings = [
        ("url", url.as_str()),
        ("type", "smtp"),
        ("from", "toll@example.org"),
        ("to", "[\"ann@example.org\", \"bob@example.net\"]"),
        ("user", "toll"),
        ("secret", "correct horse battery"),
        ("on", "[\"ban\"]"),
        ("template", "{value}"),
    ];
    with_place(&settings, |running| {
        let tested = running.post("/v1/notifications/ops/test", &[JSON], "").json();
        assert_eq!(tested["is_sent"], true, "{tested}");
        let (commands, mail) = mails.recv_timeout(WAIT).unwrap();
        let login = format!("AUTH PLAIN {}", BASE64.encode(b"\0toll\0correct horse battery"));
        for expected in
            ["MAIL FROM:<toll@example.org>", "RCPT TO:<ann@example.org>", "RCPT TO:<bob@example.net>"]
        {
            assert!(commands.iter().any(|command| command.starts_with(expected)), "{commands:?}");
        }
        assert!(commands.contains(&login), "{commands:?}");
        assert!(mail.contains("Subject: [tollhouse] A test of Tollhouse: it works\r\n"), "{mail}");
        assert!(mail.contains("Date: Sun, 17 May 2026 10:00:00"), "{mail}");
        for tries in 0.. {
            assert!(tries < 60, "nothing was told");
            decide(running, "127.0.0.1", &format!("{HOSTILE}{tries}"), 21);
            let Ok((_, mail)) = mails.recv_timeout(Duration::from_secs(2)) else { continue };
            if mail.contains("BIG") {
                continue;
            }
            let (head, _) = mail.split_once("\r\n\r\n").unwrap();
            assert!(!head.to_ascii_lowercase().contains("\r\nbcc:"), "{head}");
            break;
        }
    });
}

#[test]
fn no_mail_goes_to_a_server_that_knows_no_tls() {
    let (url, mails) = mail_server();
    // A name is not taken for this machine itself.
    let url = url.replace("127.0.0.1", "localhost");
    let settings = [
        ("url", url.as_str()),
        ("type", "smtp"),
        ("from", "toll@example.org"),
        ("to", "[\"ann@example.org\"]"),
        ("user", "toll"),
        ("secret", "correct horse battery"),
    ];
    with_place(&settings, |running| {
        let tested = running.post("/v1/notifications/ops/test", &[JSON], "").json();
        assert_eq!(tested["is_sent"], false, "{tested}");
        assert!(tested["problem"].as_str().unwrap().contains("STARTTLS"), "{tested}");
        assert!(mails.try_recv().is_err());
    });
}

/// Has a stand-in do something within TLS with each connection, as `localhost`.
fn within_tls(
    authority: &TestAuthority,
    work: impl Fn(rustls::StreamOwned<rustls::ServerConnection, TcpStream>) + Send + 'static,
) -> u16 {
    let [certificate, key] = authority.issue("server").map(|path| fs::read(path).unwrap());
    let certificate = CertificateDer::from_pem_slice(&certificate).unwrap();
    let key = PrivateKeyDer::from_pem_slice(&key).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider);
    let config = config.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
    let config = config.with_single_cert(vec![certificate], key);
    let config = Arc::new(config.unwrap());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let connection = rustls::ServerConnection::new(Arc::clone(&config)).unwrap();
            work(rustls::StreamOwned::new(connection, stream.unwrap()));
        }
    });
    port
}

#[test]
fn within_tls_only_whom_the_authority_vouches_for_is_told() {
    let parent = tempfile::tempdir().unwrap();
    let authority = TestAuthority::new(parent.path(), "own");
    let stranger = TestAuthority::new(parent.path(), "stranger");
    let (sender, taken) = channel();
    let hook = within_tls(&authority, move |stream| answer(stream, "200 OK\r\n", &sender));
    let (sender, mails) = channel();
    let mail = within_tls(&authority, move |stream| take_mails(stream, &sender));
    let [hook, mail] =
        [("https", hook), ("smtps", mail)].map(|(scheme, port)| format!("{scheme}://localhost:{port}"));
    let of_mail = [("type", "smtp"), ("from", "toll@example.org"), ("to", "[\"ann@example.org\"]")];
    let check = |url: &str, more: &[(&str, &str)], authority: Option<&str>, expected: bool| {
        let authority: Vec<_> = authority.map(|path| ("authority", path)).into_iter().collect();
        with_place(&[&[("url", url)], more, &authority].concat(), |running| {
            let tested = running.post("/v1/notifications/ops/test", &[JSON], "").json();
            assert_eq!(tested["is_sent"], expected, "{url}: {tested}");
        });
    };
    for (url, more) in [(&hook, &[][..]), (&mail, &of_mail[..])] {
        check(url, more, None, false);
        check(url, more, Some(&stranger.path), false);
        check(url, more, Some(&authority.path), true);
    }
    assert_eq!(taken.try_iter().count(), 1);
    assert_eq!(mails.try_iter().count(), 1);
}

#[test]
fn a_correction_of_a_rule_is_told_with_the_decisions() {
    let (url, taken) = stand_in(&[]);
    with_place(&[("url", &url), ("on", "[\"correction\"]"), ("secret", SECRET)], |running| {
        let decision = decide(running, "203.0.113.9", "ann", 11);
        let order = json!({"rule": "BIG", "from": "2026-05-17T09:00:00Z"}).to_string();
        let answer = running.post("/v1/rules/corrections", &[JSON], &order);
        assert_eq!(answer.status, 202, "{}", answer.body);
        let told = loop {
            let request = taken.recv_timeout(WAIT).unwrap();
            check_signature(&request);
            let told = request.json();
            if told["type"] == "correction" {
                break told;
            }
        };
        let data = &told["data"];
        assert_eq!(
            (&data["rule"], &data["corrected"], &data["left_off"]),
            (&json!("BIG"), &json!(1), &json!(0))
        );
        let hit = &data["decisions"][0];
        assert_eq!(
            (&hit["id"], &hit["action"], &hit["without"]),
            (&decision["id"], &json!("reject"), &json!("accept")),
            "{told}"
        );
    });
}

#[test]
fn a_place_that_hangs_holds_up_no_decision_and_drops_what_is_too_much() {
    // It takes connections and answers none.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    with_place(&[("url", &url), ("timeout", "1m")], |running| {
        let events: String = (0..500)
            .map(|event| format!("{{\"client.ip\":\"203.0.113.9\",\"user\":\"u{event}\",\"size\":11}}\n"))
            .collect();
        let started = Instant::now();
        while status(running)["dropped"] == 0 {
            assert!(started.elapsed() < WAIT, "{}", status(running));
            let answer = running.post("/v1/decide/batch", &["Content-Type: application/x-ndjson"], &events);
            assert_eq!(answer.status, 200, "{}", answer.body);
        }
        let now = status(running);
        assert_eq!((&now["sent"], &now["state"]), (&json!(0), &json!("well")), "{now}");
        // Those that came at once may have been dropped before there was no room, or be on their way.
        let waiting = now["waiting"].as_u64().unwrap();
        assert!((1..=1000).contains(&waiting), "{now}");
    });
}
