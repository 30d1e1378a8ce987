//! Identities of visitors: signed requests of robots and applications, and robots by networks and names, at forward authentication.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use data_encoding::{BASE64, BASE64URL_NOPAD};
use engine::Directory;
use plan::preset::{self, BUNDLES};
use ring::signature::{Ed25519KeyPair, KeyPair};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use sha2::{Digest, Sha256};

use crate::authority::TestAuthority;
use crate::harness::{NOW, SetClock, TestServer, start, start_by};
use crate::name_server::{NameServer, Say};

/// Rules that tell by their names what is known of a request.
const RULES: &[(&str, &str)] = &[
    ("CLAIMED", "has(bot.claimed)"),
    ("GOOGLE", "bot.operator.or('') == 'google'"),
    ("ROBOT_EXAMPLE", "bot.operator.or('') == 'robot-example'"),
    ("BY_SIGNATURE", "bot.method.or('') == 'signature'"),
    ("BY_NETWORK", "bot.method.or('') == 'network'"),
    ("BY_NAME", "bot.method.or('') == 'name'"),
    ("VERIFIED", "bot.verified"),
    ("IMPOSTOR", "bot.impostor"),
    ("NOT_KNOWN", "!has(bot.impostor)"),
    ("BOT_REFUSED", "has(bot.refused)"),
    ("APP", "app.verified && app.name == 'shop' && has(app.version)"),
    ("APP_WATCHED", "app.watched"),
    ("APP_RETIRED", "app.refused.or('') == 'retired' && app.name == 'shop' && !app.verified"),
    ("APP_REFUSED", "has(app.refused)"),
];

fn config(more: &str) -> String {
    let mut text = format!(
        "name = \"site\"\ninput = \"access-log\"\nmodules = [\"declared-robots\"]\n\
         [robots]\nhosts = [\"www.example.org\"]\n\
         [[forward_auth]]\nname = \"site\"\npipeline = \"site\"\n{more}\n"
    );
    for (name, when) in RULES {
        let is_of_app = name.starts_with("APP");
        if is_of_app == more.contains("[[application]]") || !is_of_app {
            text += &format!("[[rule]]\nname = \"{name}\"\nwhen = \"{when}\"\nscore = 0\n");
        }
    }
    text
}

/// A data directory with a configuration.
fn configured(path: &Path, config: &str) -> Directory {
    let directory = Directory::create(path, &[]).unwrap();
    std::fs::write(directory.config_path(), config).unwrap();
    directory
}

fn with_site(more: &str, test: impl FnOnce(&TestServer)) {
    let parent = tempfile::tempdir().unwrap();
    let directory = configured(&parent.path().join("data"), &config(more));
    let running = start(&directory, &[]);
    test(&running);
    running.stop();
}

/// The number of times that each rule has fired.
fn fired(server: &TestServer) -> BTreeMap<String, u64> {
    let page = server.get("/metrics").body;
    let lines = page.lines().filter(|line| line.starts_with("tollhouse_judge_fired_total{"));
    let counted = lines.filter_map(|line| {
        let (_, rule) = line.split_once("rule=\"")?;
        let (rule, _) = rule.split_once('"')?;
        Some((rule.to_owned(), line.rsplit_once(' ')?.1.parse().ok()?))
    });
    counted.collect()
}

/// The rules that fire for a request.
fn ask(server: &TestServer, headers: &[&str]) -> BTreeSet<String> {
    let before = fired(server);
    let common =
        ["X-Forwarded-Uri: /path?a=b", "X-Forwarded-Method: GET", "X-Forwarded-Host: www.example.org"];
    let given = |header: &&&str| {
        let name = header.split(':').next().unwrap();
        !headers.iter().any(|given| given.split(':').next().unwrap().eq_ignore_ascii_case(name))
    };
    let all: Vec<&str> = common.iter().filter(given).chain(headers).copied().collect();
    let answer = server.ask("GET", "/v1/auth/site", &all, b"");
    assert_eq!(answer.status, 200, "{}", answer.body);
    let after = fired(server);
    after
        .into_iter()
        .filter(|(rule, count)| before.get(rule).unwrap_or(&0) < count)
        .map(|(rule, _)| rule)
        .collect()
}

#[track_caller]
fn check(server: &TestServer, headers: &[&str], expected: &[&str]) {
    let expected: BTreeSet<String> = expected.iter().map(|rule| (*rule).to_owned()).collect();
    assert_eq!(ask(server, headers), expected, "{headers:?}");
}

/// The count of signatures with a result.
fn signatures(server: &TestServer, of: &str, result: &str) -> u64 {
    let line = format!("tollhouse_request_signatures_total{{of=\"{of}\",result=\"{result}\"}} ");
    let page = server.get("/metrics").body;
    page.lines().find_map(|found| found.strip_prefix(&line)?.parse().ok()).unwrap_or(0)
}

const GOOGLEBOT: &str =
    "User-Agent: Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)";

#[test]
fn robots_are_known_by_their_names_and_impostors_by_theirs() {
    let dns = NameServer::start(&[
        ("1.66.249.66.in-addr.arpa", Say::Ptr("crawl-66-249-66-1.googlebot.com".to_owned())),
        ("crawl-66-249-66-1.googlebot.com", Say::A([66, 249, 66, 1].into())),
        // Reverse DNS is its owner's to write.
        ("7.2.0.198.in-addr.arpa", Say::Ptr("crawl-1.googlebot.com".to_owned())),
        ("crawl-1.googlebot.com", Say::A([66, 249, 66, 9].into())),
        ("158.32.33.45.in-addr.arpa", Say::Ptr("host.evilgooglebot.com".to_owned())),
        ("host.evilgooglebot.com", Say::A([45, 33, 32, 158].into())),
        ("8.8.8.8.in-addr.arpa", Say::Failure),
    ]);
    let more = format!("[dns]\nresolvers = {}\n", dns.setting());
    with_site(&more, |server| {
        let from = |ip: &str| format!("X-Forwarded-For: {ip}");
        check(server, &[GOOGLEBOT, &from("66.249.66.1")], &["CLAIMED", "GOOGLE", "VERIFIED", "BY_NAME"]);
        check(server, &[GOOGLEBOT, &from("198.0.2.7")], &["CLAIMED", "IMPOSTOR"]);
        check(server, &[GOOGLEBOT, &from("45.33.32.156")], &["CLAIMED", "IMPOSTOR"]);
        check(server, &[GOOGLEBOT, &from("45.33.32.158")], &["CLAIMED", "IMPOSTOR"]);
        check(server, &[GOOGLEBOT, &from("8.8.8.8")], &["CLAIMED", "NOT_KNOWN"]);
        // An address that is nobody's.
        check(server, &[GOOGLEBOT, &from("10.0.0.7")], &["CLAIMED", "IMPOSTOR"]);
        // Known by its file alone, which nobody has given.
        check(server, &["User-Agent: GPTBot/1.2", &from("45.33.32.156")], &["CLAIMED", "NOT_KNOWN"]);
        let asked = dns.asked().len();
        // Who claims nothing is not asked about, and what was asked is remembered.
        check(server, &["User-Agent: Mozilla/5.0 Firefox/140.0", &from("45.33.32.157")], &[]);
        check(server, &[GOOGLEBOT, &from("66.249.66.1")], &["CLAIMED", "GOOGLE", "VERIFIED", "BY_NAME"]);
        assert_eq!(dns.asked().len(), asked, "{:?}", dns.asked());
    });
}

#[test]
fn robots_are_known_by_the_networks_that_their_operators_publish() {
    let parent = tempfile::tempdir().unwrap();
    let more = "[[robot]]\nname = \"GPTBot\"\nfiles = [\"gptbot.json\", \"more.txt\"]\n";
    let directory = configured(&parent.path().join("data"), &config(more));
    let folder = directory.config_path().parent().unwrap().to_owned();
    std::fs::write(folder.join("gptbot.json"), r#"{"prefixes": [{"ipv4Prefix": "192.0.2.0/28"}]}"#).unwrap();
    std::fs::write(folder.join("more.txt"), "2001:db8::/32\n").unwrap();
    let server = start(&directory, &[]);
    let agent = "User-Agent: Mozilla/5.0; compatible; GPTBot/1.2; +https://openai.com/gptbot";
    check(&server, &[agent, "X-Forwarded-For: 192.0.2.15"], &["CLAIMED", "VERIFIED", "BY_NETWORK"]);
    check(&server, &[agent, "X-Forwarded-For: 2001:db8::7"], &["CLAIMED", "VERIFIED", "BY_NETWORK"]);
    check(&server, &[agent, "X-Forwarded-For: 192.0.2.16"], &["CLAIMED", "IMPOSTOR"]);
    // Without resolvers nobody can say of the others.
    check(&server, &[GOOGLEBOT, "X-Forwarded-For: 192.0.2.16"], &["CLAIMED", "NOT_KNOWN"]);
    server.stop();
}

/// The pair of `init --preset site`, with these resolvers instead of the machine's.
fn with_site_bundle(resolvers: &str, test: impl FnOnce(&TestServer)) {
    let bundle = BUNDLES.iter().find(|bundle| bundle.name == "site").unwrap();
    let presets: Vec<_> =
        bundle.presets.iter().map(|(name, more)| (preset::find(name).unwrap(), *more)).collect();
    let parent = tempfile::tempdir().unwrap();
    let settings = bundle.settings.replace("[\"system\"]", resolvers);
    assert_ne!(settings, bundle.settings, "the pair asks the machine's resolvers");
    // A busy machine is not what is tested.
    let settings = settings.replace("\"200ms\"", "\"3s\"");
    let directory = Directory::create_with(&parent.path().join("data"), &presets, &settings).unwrap();
    let running = start(&directory, &[]);
    test(&running);
    running.stop();
}

/// The statuses of the answers about a Googlebot's first three pages, from an address.
fn statuses(server: &TestServer, ip: &str) -> Vec<u16> {
    let page = |number: usize| {
        let (uri, from) = (format!("X-Forwarded-Uri: /{number}"), format!("X-Forwarded-For: {ip}"));
        let headers = [&*uri, &*from, GOOGLEBOT, "X-Forwarded-Method: GET", "X-Forwarded-Host: example.org"];
        server.ask("GET", "/v1/auth/site", &headers, b"").status
    };
    (0..3).map(page).collect()
}

#[test]
fn a_site_knows_robots_as_it_is_made() {
    let dns = NameServer::start(&[
        ("1.66.249.66.in-addr.arpa", Say::Ptr("crawl-66-249-66-1.googlebot.com".to_owned())),
        ("crawl-66-249-66-1.googlebot.com", Say::A([66, 249, 66, 1].into())),
        ("7.2.0.198.in-addr.arpa", Say::Ptr("host.example.net".to_owned())),
        ("host.example.net", Say::A([198, 0, 2, 7].into())),
        ("8.8.8.8.in-addr.arpa", Say::Failure),
    ]);
    with_site_bundle(&dns.setting(), |server| {
        assert_eq!(statuses(server, "66.249.66.1"), [200; 3]);
        assert_eq!(statuses(server, "198.0.2.7"), [403; 3], "an impostor");
        assert_eq!(statuses(server, "8.8.8.8"), [200; 3], "nobody can say");
    });
    // Nothing listens there.
    with_site_bundle("[\"127.0.0.1:1\"]", |server| {
        assert_eq!(statuses(server, "66.249.66.1"), [200; 3]);
        assert_eq!(statuses(server, "198.0.2.7"), [200; 3]);
    });
}

#[test]
fn a_site_asks_who_takes_its_bait() {
    with_site_bundle("[]", |server| {
        let baits: serde_json::Value =
            serde_json::from_str(&server.get("/v1/baits?pipeline=gate").body).unwrap();
        let link = baits["links"][0]["name"].as_str().unwrap();
        let status = |ip: &str, uri: &str| {
            let (uri, from) = (format!("X-Forwarded-Uri: {uri}"), format!("X-Forwarded-For: {ip}"));
            let browser =
                "User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0";
            let host = "X-Forwarded-Host: example.org";
            let headers = [&*uri, &*from, host, browser, "X-Forwarded-Method: GET", "Accept-Language: de"];
            server.ask("GET", "/v1/auth/site", &headers, b"").status
        };
        assert_eq!(status("198.51.100.7", "/"), 200);
        assert_eq!(status("198.51.100.7", link), 200, "silently");
        assert_eq!(status("198.51.100.7", "/"), 401);
        assert_eq!(status("198.51.100.7", "/feed"), 200, "feeds are never asked");
        assert_eq!(status("198.51.100.8", "/"), 200);
    });
}

fn pair(seed: u8) -> Ed25519KeyPair {
    Ed25519KeyPair::from_seed_unchecked(&[seed; 32]).unwrap()
}

/// The public key as a JSON web key, and its thumbprint.
fn jwk(pair: &Ed25519KeyPair) -> (String, String) {
    let key = format!(
        r#"{{"crv":"Ed25519","kty":"OKP","x":"{}"}}"#,
        BASE64URL_NOPAD.encode(pair.public_key().as_ref())
    );
    let thumbprint = BASE64URL_NOPAD.encode(&Sha256::digest(key.as_bytes()));
    (key, thumbprint)
}

/// A request of a robot, signed `created` seconds after the server's time.
fn robot(
    pair: &Ed25519KeyPair,
    agent: Option<&str>,
    authority: &str,
    created: i64,
    nonce: &str,
) -> Vec<String> {
    let created = NOW.0 / 1_000_000 + created;
    let (_, thumbprint) = jwk(pair);
    let (component, line) = match agent {
        Some(agent) => (" \"signature-agent\"", format!("\"signature-agent\": \"{agent}\"\n")),
        None => ("", String::new()),
    };
    let parameters = format!(
        r#"("@authority"{component});created={created};expires={};keyid="{thumbprint}";alg="ed25519";nonce="{nonce}";tag="web-bot-auth""#,
        created + 60
    );
    let base = format!("\"@authority\": {authority}\n{line}\"@signature-params\": {parameters}");
    let signature = BASE64.encode(pair.sign(base.as_bytes()).as_ref());
    let mut headers =
        vec![format!("Signature-Input: sig1={parameters}"), format!("Signature: sig1=:{signature}:")];
    headers.extend(agent.map(|agent| format!("Signature-Agent: \"{agent}\"")));
    headers
}

fn lines(headers: &[String]) -> Vec<&str> {
    headers.iter().map(String::as_str).collect()
}

const KNOWN: &[&str] = &["VERIFIED", "BY_SIGNATURE", "ROBOT_EXAMPLE"];

#[test]
fn robots_that_sign_are_known_and_replays_refused() {
    let parent = tempfile::tempdir().unwrap();
    let keys = "[[key_directory]]\nname = \"robot-example\"\nagent = \"robot.example\"\nfile = \"keys.json\"\n\
                [[key_directory]]\nname = \"other\"\nfile = \"other.json\"\n";
    let directory = configured(&parent.path().join("data"), &config(keys));
    let folder = directory.config_path().parent().unwrap().to_owned();
    let (own, other) = (pair(1), pair(2));
    std::fs::write(folder.join("keys.json"), format!("{{\"keys\": [{}]}}", jwk(&own).0)).unwrap();
    std::fs::write(folder.join("other.json"), format!("{{\"keys\": [{}]}}", jwk(&other).0)).unwrap();
    let clock = SetClock::default();
    let server = start_by(&directory, &[], |_| clock.clock());
    let agent = Some("https://robot.example");
    let host = "www.example.org";
    let first = robot(&own, agent, host, 0, "one");
    check(&server, &lines(&first), KNOWN);
    check(&server, &lines(&first), &["BOT_REFUSED"]);
    assert_eq!((signatures(&server, "robot", "verified"), signatures(&server, "robot", "replayed")), (1, 1));
    check(&server, &lines(&robot(&own, agent, host, 0, "two")), KNOWN);
    // Nobody else's nonce is taken by it.
    check(&server, &lines(&robot(&other, None, host, 0, "two")), &["VERIFIED", "BY_SIGNATURE"]);
    let refused = |headers: &[String], more: &[&str], why: &str| {
        let before = signatures(&server, "robot", why);
        let all: Vec<&str> = lines(headers).into_iter().chain(more.iter().copied()).collect();
        check(&server, &all, &["BOT_REFUSED"]);
        assert_eq!(signatures(&server, "robot", why), before + 1, "{why}: {headers:?}");
    };
    // Keys count for the directory that the request names, and only for those that are configured.
    refused(&robot(&other, agent, host, 0, "three"), &[], "unknown_key");
    refused(&robot(&own, None, host, 0, "three"), &[], "unknown_key");
    refused(&robot(&own, Some("https://elsewhere.example"), host, 0, "three"), &[], "unknown_key");
    refused(&robot(&own, agent, host, 61, "three"), &[], "future");
    refused(&robot(&own, agent, host, -60, "three"), &[], "expired");
    refused(&robot(&own, agent, "www.example.net", 0, "three"), &[], "forged");
    // Signed for another site, which shows it here with the host that it was signed for.
    refused(
        &robot(&own, agent, "www.example.net", 0, "three"),
        &["X-Forwarded-Host: www.example.net"],
        "host",
    );
    let mut doubled = robot(&own, agent, host, 0, "three");
    doubled.push(doubled[2].clone());
    refused(&doubled, &[], "malformed");
    let uncovered: Vec<String> = robot(&own, None, host, 0, "three")
        .into_iter()
        .chain(["Signature-Agent: \"https://robot.example\"".to_owned()])
        .collect();
    refused(&uncovered, &[], "uncovered");
    refused(&["Signature-Input: x".to_owned()], &[], "malformed");
    let huge = format!("Signature-Input: s=(){}", ";a=1".repeat(3000));
    refused(&[huge], &[], "too_large");
    // A signature of an operator says nothing for a robot of another.
    let mut claims = robot(&own, agent, host, 0, "four");
    claims.push(GOOGLEBOT.to_owned());
    check(&server, &lines(&claims), &[&["CLAIMED", "NOT_KNOWN"], KNOWN].concat());
    // What was used is remembered for as long as it holds.
    clock.set(59);
    check(&server, &lines(&first), &["BOT_REFUSED"]);
    clock.set(60);
    refused(&first, &[], "expired");
    server.stop();
}

/// A web server that answers each connection with the same bytes, and counts them.
fn web_server(answer: Vec<u8>) -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let asked = Arc::<AtomicUsize>::default();
    let count = Arc::clone(&asked);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream): Result<TcpStream, _> = stream else { return };
            let mut request = [0; 4096];
            let _ = stream.read(&mut request);
            count.fetch_add(1, Ordering::SeqCst);
            let _ = stream.write_all(&answer);
        }
    });
    (address, asked)
}

fn page(body: &str) -> Vec<u8> {
    format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}", body.len())
        .into_bytes()
}

/// Waits until something is so.
fn wait(what: &str, so: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !so() {
        assert!(Instant::now() < end, "never: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn keys_are_fetched_from_configured_directories_and_nowhere_else() {
    let own = pair(3);
    let (good, asked) = web_server(page(&format!("{{\"keys\": [{}]}}", jwk(&own).0)));
    let (strange, never) = web_server(page(&format!("{{\"keys\": [{}]}}", jwk(&pair(4)).0)));
    let (moved, _) = web_server(
        format!("HTTP/1.1 302 Found\r\nLocation: http://{strange}/\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            .into_bytes(),
    );
    let (huge, _) = web_server(page(&" ".repeat(1 << 20)));
    let directory = |name: &str, address: &str| {
        format!(
            "[[key_directory]]\nname = \"{name}\"\nagent = \"{name}.test\"\nurl = \"http://{address}/keys\"\n"
        )
    };
    let more =
        [("robot-example", &good), ("moved", &moved), ("huge", &huge)].map(|(name, at)| directory(name, at));
    with_site(&more.concat(), |server| {
        let fetches = |name: &str, result: &str| {
            let line = format!(
                "tollhouse_key_directory_fetches_total{{directory=\"{name}\",result=\"{result}\"}} 1"
            );
            server.get("/metrics").body.contains(&line)
        };
        wait("keys are fetched", || fetches("robot-example", "ok"));
        wait("a redirection fails", || fetches("moved", "failed"));
        wait("too many bytes fail", || fetches("huge", "failed"));
        let agent = Some("https://robot-example.test");
        check(server, &lines(&robot(&own, agent, "www.example.org", 0, "one")), KNOWN);
        let elsewhere = format!("http://{strange}");
        for agent in ["https://moved.test", elsewhere.as_str()] {
            let headers = robot(&pair(4), Some(agent), "www.example.org", 0, "two");
            check(server, &lines(&headers), &["BOT_REFUSED"]);
        }
        assert_eq!(signatures(server, "robot", "unknown_key"), 2);
        // A request makes nobody fetch anything.
        assert_eq!((asked.load(Ordering::SeqCst), never.load(Ordering::SeqCst)), (1, 0));
    });
}

/// A web server over TLS that shows the certificate in these files, and writes these bytes on each connection; a slow one writes
/// them one by one, a second each.
fn tls_server([certificate, key]: &[String; 2], answer: Vec<u8>, is_slow: bool) -> String {
    let chain = CertificateDer::pem_file_iter(certificate).unwrap().map(Result::unwrap).collect();
    let key = PrivateKeyDer::from_pem_file(key).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider);
    let config = config.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
    let config = Arc::new(config.with_single_cert(chain, key).unwrap());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(stream) = stream else { return };
            let (config, answer) = (Arc::clone(&config), answer.clone());
            std::thread::spawn(move || {
                let connection = rustls::ServerConnection::new(config).unwrap();
                let mut stream = rustls::StreamOwned::new(connection, stream);
                let mut request = [0; 4096];
                // Whoever does not believe the certificate goes.
                if stream.read(&mut request).is_err() {
                    return;
                }
                let size = if is_slow { 1 } else { answer.len() };
                for part in answer.chunks(size) {
                    if stream.write_all(part).and_then(|()| stream.flush()).is_err() {
                        return;
                    }
                    if is_slow {
                        std::thread::sleep(Duration::from_secs(1));
                    }
                }
                stream.conn.send_close_notify();
                let _ = stream.flush();
            });
        }
    });
    format!("127.0.0.1:{port}")
}

#[test]
fn keys_come_over_tls_from_hosts_that_somebody_vouches_for() {
    let folder = tempfile::tempdir().unwrap();
    let [own, other] = ["own", "other"].map(|name| TestAuthority::new(folder.path(), name));
    let signer = pair(3);
    let keys = page(&format!("{{\"keys\": [{}]}}", jwk(&signer).0));
    let good = tls_server(&own.issue("good"), keys.clone(), false);
    let to_good = format!(
        "HTTP/1.1 302 Found\r\nLocation: https://{good}/keys\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    );
    let endless = b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n"
        .iter()
        .copied()
        .chain(std::iter::repeat_n(b' ', 2 << 20));
    let long_head = format!("HTTP/1.1 200 OK\r\nX: {}\r\n\r\n{{\"keys\": []}}", "x".repeat(64 << 10));
    let fast = |files: &[String; 2], answer: Vec<u8>| tls_server(files, answer, false);
    let directory = |name: &str, address: &str, more: &str| {
        format!(
            "[[key_directory]]\nname = \"{name}\"\nagent = \"{name}.test\"\nurl = \"https://{address}/keys\"\n{more}\n"
        )
    };
    let trusted = format!("authority = {:?}", own.path);
    let trusted = trusted.as_str();
    let refused = [
        ("strange", fast(&other.issue("strange"), keys.clone()), trusted),
        ("public", good.clone(), ""),
        ("elsewhere", fast(&own.issue_for("elsewhere", "robot.example"), keys.clone()), trusted),
        ("old", fast(&own.issue_old("old"), keys.clone()), trusted),
        ("moved", fast(&own.issue("moved"), to_good.into_bytes()), trusted),
        ("endless", fast(&own.issue("endless"), endless.collect()), trusted),
        ("long-head", fast(&own.issue("long"), long_head.into_bytes()), trusted),
        ("broken", fast(&own.issue("broken"), page("{\"keys\": 3}")), trusted),
        (
            "absent",
            fast(&own.issue("absent"), b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n".to_vec()),
            trusted,
        ),
        ("slow", tls_server(&own.issue("slow"), keys, true), trusted),
    ];
    let mut more = directory("robot-example", &good, trusted);
    more.extend(refused.iter().map(|(name, address, authority)| directory(name, address, authority)));
    with_site(&more, |server| {
        let fetches = |name: &str, result: &str| {
            let line =
                format!("tollhouse_key_directory_fetches_total{{directory=\"{name}\",result=\"{result}\"}} ");
            server.get("/metrics").body.contains(&line)
        };
        for (name, ..) in &refused {
            wait(name, || fetches(name, "failed"));
            assert!(!fetches(name, "ok"), "{name}");
        }
        assert!(fetches("robot-example", "ok") && !fetches("robot-example", "failed"));
        let agent = Some("https://robot-example.test");
        check(server, &lines(&robot(&signer, agent, "www.example.org", 0, "one")), KNOWN);
        for (number, (name, ..)) in refused.iter().enumerate() {
            let agent = format!("https://{name}.test");
            let headers = robot(&signer, Some(&agent), "www.example.org", 0, &number.to_string());
            check(server, &lines(&headers), &["BOT_REFUSED"]);
        }
        assert_eq!(signatures(server, "robot", "unknown_key"), refused.len() as u64);
    });
}

const APPLICATION: &str = r#"
[[application]]
name = "shop"
hosts = ["www.example.org"]

[[application.versions]]
version = "4.2"
secret = "the secret of 4.2, long enough"

[[application.versions]]
version = "4.1"
secret = "the secret of 4.1, long enough"
state = "watched"

[[application.versions]]
version = "3.0"
secret = "the secret of 3.0, long enough"
state = "retired"

[[application.versions]]
version = "web"
public_key = "PUBLIC_KEY"
"#;

/// The lines that a helper prints.
fn helper(program: &str, script: &str, arguments: &[&str], environment: &[(&str, &str)]) -> Vec<String> {
    let script: PathBuf =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/signed-requests").join(script);
    let created = (NOW.0 / 1_000_000).to_string();
    let output = Command::new(program)
        .arg(script)
        .args(arguments)
        .env("TOLLHOUSE_CREATED", created)
        .envs(environment.iter().copied())
        .output()
        .unwrap();
    let told = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{program}: {told}{}", String::from_utf8_lossy(&output.stderr));
    told.lines().map(str::to_owned).collect()
}

fn is_installed(program: &str) -> bool {
    let found = Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success());
    if !found {
        println!("skipped: {program} is not installed");
    }
    found
}

#[test]
fn applications_sign_their_requests_in_python_and_javascript() {
    let own = pair(5);
    let key = BASE64.encode(own.public_key().as_ref());
    with_site(&APPLICATION.replace("PUBLIC_KEY", &key), |server| {
        let url = "https://www.example.org/path?a=b";
        let secret = |version: &str| format!("the secret of {version}, long enough");
        let before = |of: &str| signatures(server, "application", of);
        for (program, script) in [("python3", "tollhouse_sign.py"), ("node", "tollhouse-sign.mjs")] {
            if !is_installed(program) {
                continue;
            }
            let sign = |method: &str, url: &str, version: &str, secret: &str, body: &[&str]| {
                let key_id = format!("shop/{version}");
                let arguments = [&[method, url, &key_id], body].concat();
                helper(program, script, &arguments, &[("TOLLHOUSE_SECRET", secret)])
            };
            let get = |version: &str| sign("GET", url, version, &secret(version), &[]);
            let active = get("4.2");
            check(server, &lines(&active), &["APP"]);
            check(server, &lines(&active), &["APP_REFUSED"]);
            check(server, &lines(&get("4.1")), &["APP", "APP_WATCHED"]);
            check(server, &lines(&get("3.0")), &["APP_RETIRED", "APP_REFUSED"]);
            check(server, &lines(&sign("GET", url, "4.2", &secret("4.1"), &[])), &["APP_REFUSED"]);
            check(server, &lines(&sign("GET", url, "9", &secret("9"), &[])), &["APP_REFUSED"]);
            // Another request than that which was signed.
            for changed in
                ["X-Forwarded-Uri: /path?a=c", "X-Forwarded-Uri: /other?a=b", "X-Forwarded-Method: DELETE"]
            {
                let headers = get("4.2");
                let all: Vec<&str> = lines(&headers).into_iter().chain([changed]).collect();
                check(server, &all, &["APP_REFUSED"]);
            }
            let elsewhere = sign("GET", "https://www.example.net/path?a=b", "4.2", &secret("4.2"), &[]);
            let all: Vec<&str> =
                lines(&elsewhere).into_iter().chain(["X-Forwarded-Host: www.example.net"]).collect();
            check(server, &all, &["APP_REFUSED"]);
            // The digest of a body is signed, and the ports and letters of hosts are as everybody writes them.
            let posted = sign("POST", "https://WWW.example.org:443/path?a=b", "4.2", &secret("4.2"), &["{}"]);
            let all: Vec<&str> = lines(&posted).into_iter().chain(["X-Forwarded-Method: POST"]).collect();
            assert!(posted.iter().any(|line| line.starts_with("Content-Digest: sha-256=:")));
            check(server, &all, &["APP"]);
            let posted = sign("POST", url, "4.2", &secret("4.2"), &["{}"]);
            let changed: Vec<String> = posted
                .iter()
                .map(|line| {
                    if line.starts_with("Content-Digest") { line.replace("=:", "=:A") } else { line.clone() }
                })
                .chain(["X-Forwarded-Method: POST".to_owned()])
                .collect();
            check(server, &lines(&changed), &["APP_REFUSED"]);
        }
        for (of, least) in [("verified", 3), ("replayed", 1), ("retired", 1), ("unknown_key", 1), ("host", 1)]
        {
            let tools = ["python3", "node"].into_iter().filter(|tool| is_installed(tool)).count() as u64;
            assert_eq!(before(of), least * tools, "{of}");
        }
        if is_installed("node") {
            let seed = BASE64URL_NOPAD.encode(&[5; 32]);
            let public = BASE64URL_NOPAD.encode(own.public_key().as_ref());
            let jwk = format!(r#"{{"kty":"OKP","crv":"Ed25519","d":"{seed}","x":"{public}"}}"#);
            let arguments = ["GET", url, "shop/web"];
            let headers = helper("node", "tollhouse-sign.mjs", &arguments, &[("TOLLHOUSE_KEY", &jwk)]);
            check(server, &lines(&headers), &["APP"]);
        }
    });
}

/// The settings of a page are those of a node and its pipeline.
#[test]
fn guides_are_configurations() {
    let blocks = |page: &str| -> Vec<String> {
        let blocks = page.split("```").skip(1).step_by(2);
        blocks.filter_map(|block| Some(block.strip_prefix("toml\n")?.to_owned())).collect()
    };
    let check = |name: &str, page: &str, expected: usize| {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("tollhouse.toml");
        std::fs::create_dir(parent.path().join("robots")).unwrap();
        std::fs::write(
            parent.path().join("robots/gptbot.json"),
            r#"{"prefixes": [{"ipv4Prefix": "192.0.2.0/28"}]}"#,
        )
        .unwrap();
        let blocks = blocks(page);
        assert_eq!(blocks.len(), expected, "{name}");
        let mut text = blocks.concat();
        if !text.contains("preset =") {
            text = format!("preset = \"web\"\n{text}");
        }
        std::fs::write(&path, &text).unwrap();
        let config = plan::Config::load(&path, &plan::Overrides::default());
        let plan = plan::Plan::compile(&config).unwrap_or_else(|problems| panic!("{name}: {problems}"));
        let warnings =
            plan.warnings.list().iter().map(|problem| problem.message.as_str()).collect::<Vec<_>>();
        assert!(warnings.is_empty(), "{name}: {warnings:?}");
        let is_secret = |value: &plan::EffectiveValue| value.value.contains("0KH9k2pZ8mYx7Vt3qWc5");
        assert!(!config.effective().iter().any(is_secret), "secrets are not shown");
    };
    check("robots.md", include_str!("../../../../docs/guides/robots.md"), 5);
    check("signed-requests.md", include_str!("../../../../docs/guides/signed-requests.md"), 2);
}
