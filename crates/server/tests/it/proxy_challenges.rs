//! Challenges through real proxies, with the lines of configuration that docs/guides/challenges.md shows, and what they tell of a
//! request: nginx, Caddy, HAProxy and Apache httpd of Debian, Envoy and Traefik of Python's package index.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::challenges::{GATE, challenge, handed, pass_of, solved, with_gate_of};
use crate::clients::Program;
use crate::harness::{Answer, SetClock, TestServer};
use crate::ports::free_port;
use crate::proxies::{
    FrozenNode, Proxy, assert_opens, cluster, connect_from, envoy, get, indented, is_installed, run_caddy,
    run_envoy, run_nginx, run_traefik, shown, site, traefik,
};

const PAGE: &str = include_str!("../../../../docs/guides/challenges.md");

/// More that is declared and judged by the gate, which asks whoever wants a page and shows no pass.
const MORE: &str = r#"
[[rule]]
name = "QUIET"
when = "http.path == '/quiet'"
score = 0.0
effects = ["set shadow"]

[[rule]]
name = "BUSY"
when = "http.path == '/busy'"
score = 5.0

[[rule]]
name = "FORBIDDEN"
when = "http.path == '/forbidden'"
score = 20.0

[[band]]
at = 10.0
action = "throttle"

[[band]]
at = 20.0
action = "reject"

[[field]]
name = "tls"
type = "string"

[[field]]
name = "form"
type = "string"
content = "text"
journal = false

[[field]]
name = "session"
type = "string"
"#;

const MAIN: &str = r#"
[[forward_auth]]
name = "site"
trusted_proxies = ["127.0.0.1/32"]
pipeline = "gate"
silent = { location = "/shop?sent", earliest = "1ms", latest = "20ms" }

[forward_auth.fields]
tls = "header x-ja4"
session = "hash cookie sid"

[[forward_auth]]
name = "site_nginx"
trusted_proxies = ["127.0.0.1/32"]
pipeline = "gate"
refuse = 403
silent = { location = "/shop?sent", earliest = "1ms", latest = "20ms" }

[forward_auth.fields]
tls = "hash header x-tls"

[[forward_auth]]
name = "site_traefik"
trusted_proxies = ["127.0.0.1/32"]
pipeline = "gate"
silent = { location = "http://example.org/shop?sent", earliest = "1ms", latest = "20ms" }

[forward_auth.fields]
tls = "header x-ja4"
session = "hash cookie sid"

[[forward_auth]]
name = "site_ja3"
trusted_proxies = ["127.0.0.1/32"]
pipeline = "gate"

[forward_auth.fields]
tls = "header x-ja3"

[[forward_auth]]
name = "site_form"
trusted_proxies = ["127.0.0.1/32"]
pipeline = "gate"
body_max = "1KiB"

[forward_auth.fields]
form = "body"
"#;

/// The fields of a client that says it is somebody else, asks for something else, and has been asked before.
const FORGED: &str = "Tollhouse-Challenge: e30=\r\nTollhouse-Status: 429\r\nX-Forwarded-For: 203.0.113.9\r\n\
     X-Forwarded-Host: example.com\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Method: OPTIONS\r\n\
     X-Forwarded-Uri: /robots.txt\r\n";

const FORM: &str = "Content-Type: application/x-www-form-urlencoded\r\n";

fn with_gated(test: impl FnOnce(&TestServer)) {
    with_gated_by(MAIN, |server, _| test(server));
}

/// Runs a test against a server with the gate and these lines of the main file.
fn with_gated_by(main: &str, test: impl FnOnce(&TestServer, &SetClock)) {
    let asks = "when = \"!pass.valid.or(false)\"";
    let pages = "when = \"!pass.valid.or(false) && http.is_page && http.path != '/robots.txt'\"";
    assert!(GATE.contains(asks));
    let gate = GATE.replace(asks, pages) + MORE;
    with_gate_of(&gate, main, |server, clock, _| test(server, clock));
}

/// The site itself, until the test ends: it tells which request it was handed, body and all, and says what it hears on a
/// WebSocket. Its port.
fn application() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            std::thread::spawn(move || serve(&mut stream));
        }
    });
    port
}

fn serve(stream: &mut TcpStream) -> std::io::Result<()> {
    let head = read_head(stream)?;
    let lower = head.to_ascii_lowercase();
    if lower.contains("\r\nupgrade: websocket\r\n") {
        // The answer to the key of RFC 6455.
        stream.write_all(
            b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
              Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n",
        )?;
        let mut heard = [0; 64];
        loop {
            let length = stream.read(&mut heard)?;
            if length == 0 {
                return Ok(());
            }
            stream.write_all(&heard[..length])?;
        }
    }
    let length = lower.split("\r\ncontent-length: ").nth(1).and_then(|rest| rest.split('\r').next());
    let mut body = vec![0; length.map_or(0, |length| length.parse().unwrap())];
    stream.read_exact(&mut body)?;
    let told = [head.as_bytes(), &body].concat();
    let answer = format!("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {}\r\n\r\n", told.len());
    stream.write_all(&[answer.as_bytes(), &told].concat())
}

/// Reads a head, with the empty line behind it.
fn read_head(stream: &mut TcpStream) -> std::io::Result<String> {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte)?;
        head.push(byte[0]);
    }
    Ok(String::from_utf8(head).unwrap())
}

/// Somebody at a proxy.
#[derive(Clone, Copy)]
struct Visitor {
    address: [u8; 4],
    port: u16,
    agent: &'static str,
    accept: &'static str,
}

impl Visitor {
    fn at(port: u16) -> Visitor {
        Visitor {
            address: [127, 0, 1, 7],
            port,
            agent: "Firefox/150.0 (a, b)",
            accept: "text/html, */*;q=0.8",
        }
    }

    fn ask(self, method: &str, path: &str, more: &str, body: &str) -> Answer {
        let mut stream = connect_from(self.address.into(), self.port);
        let Visitor { agent, accept, .. } = self;
        let length =
            if body.is_empty() { String::new() } else { format!("Content-Length: {}\r\n", body.len()) };
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: example.org\r\nConnection: close\r\nUser-Agent: {agent}\r\n\
             Accept: {accept}\r\n{more}{length}\r\n{body}"
        );
        stream.write_all(head.as_bytes()).unwrap();
        let mut bytes = Vec::new();
        // A proxy may reset a connection on which it has said everything.
        if let Err(error) = stream.read_to_end(&mut bytes) {
            assert!(!bytes.is_empty(), "{method} {path}: {error}");
        }
        whole(&bytes)
    }

    fn get(self, path: &str, more: &str) -> Answer {
        self.ask("GET", path, more, "")
    }

    /// Sends a solution as the page does.
    fn verify(self, solution: &str, more: &str) -> Answer {
        let form = format!("altcha={}&return=/shop%3Fa=b", solution.replace('+', "%2B").replace('=', "%3D"));
        self.ask("POST", "/.tollhouse/verify", &format!("{FORM}{more}"), &form)
    }
}

/// An answer whose body may have come in chunks.
fn whole(bytes: &[u8]) -> Answer {
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n");
    let end = end.unwrap_or_else(|| panic!("no head: {}", bytes.escape_ascii()));
    let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    let (mut rest, mut body) = (&bytes[end + 4..], Vec::new());
    if head.to_ascii_lowercase().contains("transfer-encoding: chunked") {
        while let Some(line) = rest.windows(2).position(|two| two == b"\r\n") {
            let size = std::str::from_utf8(&rest[..line]).unwrap();
            let size = usize::from_str_radix(size, 16).unwrap();
            rest = &rest[line + 2..];
            if size == 0 {
                break;
            }
            body.extend(&rest[..size]);
            rest = &rest[size + 2..];
        }
    } else {
        body.extend(rest);
    }
    Answer { status, head, body: String::from_utf8_lossy(&body).into_owned() }
}

/// Goes through what visitors and programs do at a site, and what some try.
#[track_caller]
fn assert_gated(port: u16) {
    let ann = Visitor::at(port);
    let is_page = |answer: &Answer, status: u16| {
        let kind = answer.header("content-type").unwrap_or_default();
        assert!(answer.status == status && kind.starts_with("text/html"), "{}\n{}", answer.head, answer.body);
        let policy = answer.header("content-security-policy").unwrap_or_default();
        assert!(policy.contains("default-src 'none'"), "{}", answer.head);
        assert_eq!(answer.header("cache-control"), Some("no-store"), "{}", answer.head);
        assert!(answer.body.contains("/.tollhouse/verify"), "{}", answer.body);
    };
    for path in ["/robots.txt", "/style.css"] {
        let part = ann.get(path, "");
        assert!(part.status == 200 && part.body.starts_with(&format!("GET {path} ")), "{}", part.head);
    }
    let asked = ann.get("/shop?a=b", "");
    is_page(&asked, 401);
    let fields = asked.head.to_ascii_lowercase().matches("\r\ntollhouse-challenge: ").count();
    assert_eq!(fields, 1, "{}", asked.head);
    assert!(asked.body.contains("/shop?a=b") && asked.body.contains("example.org"), "{}", asked.body);
    let program = Visitor { accept: "*/*", ..ann }.get("/shop", "");
    assert_eq!((program.status, program.header("content-type")), (401, Some("application/problem+json")));
    let real = |answer: &Answer| assert!(handed(answer)["challenge"].is_string(), "{}", answer.head);
    real(&program);
    // What was sent stays out of the page.
    let form = ann.ask("POST", "/shop", FORM, "text=a-secret");
    is_page(&form, 401);
    assert!(form.body.contains("\"form\":true") && !form.body.contains("a-secret"), "{}", form.body);
    is_page(&ann.get("/busy", ""), 429);
    assert_eq!(ann.get("/forbidden", "").status, 403);

    let forged = ann.get("/shop?a=b", FORGED);
    is_page(&forged, 401);
    real(&forged);
    assert_eq!(ann.get("/.tollhouse/challenge", FORGED).status, 404);
    // Somebody else, who says to be her.
    let solution = solved(&challenge(&asked));
    let eve = Visitor { address: [127, 0, 2, 9], ..ann };
    let refused = eve.verify(&solution, "X-Forwarded-For: 127.0.1.7\r\n");
    assert_eq!((refused.status, pass_of(&refused)), (403, None), "{}", refused.head);
    // She is who she is, whatever she says.
    let back = ann.verify(&solution, FORGED);
    assert_eq!((back.status, back.header("location")), (303, Some("/shop?a=b")), "{}", back.head);
    let pass = pass_of(&back).unwrap_or_else(|| panic!("no pass: {}", back.head));
    assert!(back.header("set-cookie").unwrap().ends_with("SameSite=Lax"), "{}", back.head);
    let cookie = format!("Cookie: a=b; {pass}\r\n");
    let page = ann.get("/shop?a=b", &cookie);
    assert!(page.status == 200 && page.body.starts_with("GET /shop?a=b "), "{}", page.head);
    assert_eq!(page.header("tollhouse-challenge"), None);
    let sent = ann.ask("POST", "/shop", &format!("{cookie}{FORM}"), "text=a-secret");
    assert!(sent.status == 200 && sent.body.ends_with("text=a-secret"), "{}\n{}", sent.head, sent.body);
    assert_eq!(Visitor { agent: "curl/8.0", ..ann }.get("/shop", &cookie).status, 401, "it was copied");
    // What is refused silently looks sent, and was not; what only reads passes, marked for the application.
    let quiet = ann.ask("POST", "/quiet", &format!("{cookie}{FORM}"), "text=a-secret");
    // Traefik makes a whole URL of a path, with the node's address, so it is told a whole one.
    let location = quiet.header("location").map(|location| location.trim_start_matches("http://example.org"));
    assert_eq!((quiet.status, location), (303, Some("/shop?sent")), "{}", quiet.head);
    assert!(
        quiet.body.is_empty() && !quiet.head.to_ascii_lowercase().contains("tollhouse"),
        "{}",
        quiet.head
    );
    let read = ann.get("/quiet", &cookie);
    let is_marked = read.body.to_ascii_lowercase().contains("\r\ntollhouse-silent: 1\r\n");
    assert!(read.status == 200 && is_marked, "{}\n{}", read.head, read.body);

    // The steps lead nowhere else in the node.
    for path in [
        "/.tollhouse/../../../metrics",
        "/.tollhouse/..%2f..%2f..%2fmetrics",
        "/.tollhouse/%2e%2e/%2e%2e/%2e%2e/metrics",
    ] {
        let answer = ann.get(path, &cookie);
        assert!(!answer.body.contains("# HELP"), "{path}: {}", answer.body);
    }
    assert_upgrades(ann, &cookie);
}

/// A WebSocket opens with a pass, and carries bytes both ways.
#[track_caller]
fn assert_upgrades(visitor: Visitor, cookie: &str) {
    let mut stream = connect_from(visitor.address.into(), visitor.port);
    let head = format!(
        "GET /socket HTTP/1.1\r\nHost: example.org\r\nUser-Agent: {}\r\nConnection: Upgrade\r\n\
         Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n{cookie}\r\n",
        visitor.agent
    );
    stream.write_all(head.as_bytes()).unwrap();
    let head = read_head(&mut stream).unwrap();
    assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
    for said in [b"ping", b"pong"] {
        stream.write_all(said).unwrap();
        let mut heard = [0; 4];
        stream.read_exact(&mut heard).unwrap();
        assert_eq!(heard, *said);
    }
}

/// A node that stops answering, behind a proxy on this port: it opens.
fn assert_opens_when_frozen(node: &FrozenNode, port: u16) {
    // First while it answers, so that there are connections that were used before.
    assert_eq!(get(port, "/page.txt", "").status, 200);
    node.freeze();
    assert_opens(port);
}

/// Files of a certificate for `example.org`: the certificate, and its key. `None`, and why on standard output, without OpenSSL
/// or curl.
fn certificate(folder: &Path) -> Option<[String; 2]> {
    for program in ["openssl", "curl"] {
        if Command::new(program).arg("--version").output().is_err() {
            println!("skipped: {program} is not installed");
            return None;
        }
    }
    let [cert, key] = ["cert.pem", "key.pem"].map(|name| folder.join(name).display().to_string());
    let mut command = Command::new("openssl");
    command.args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]);
    command.args(["-subj", "/CN=example.org", "-days", "2", "-keyout", &key, "-out", &cert]);
    let made = command.output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    Some([cert, key])
}

/// The fact `tls` of a request over TLS that curl makes with these options, and forges the field of.
#[track_caller]
fn fingerprint(server: &TestServer, port: u16, field: &str, options: &[&str]) -> Value {
    let mut command = Command::new("curl");
    command.args(["--silent", "--insecure", "--include", "--http1.1", "--max-time", "60", "--header"]);
    command.arg(format!("{field}: forged")).args(options).arg(format!("https://127.0.0.1:{port}/shop"));
    let ran = command.output().unwrap();
    assert!(ran.status.success(), "{command:?} {}", String::from_utf8_lossy(&ran.stderr));
    let facts = facts_of(server, &whole(&ran.stdout));
    facts["tls"].clone()
}

/// The facts of a request that was answered with a challenge.
#[track_caller]
fn facts_of(server: &TestServer, answer: &Answer) -> Value {
    let id = handed(answer)["id"].as_str().unwrap().to_owned();
    server.get(&format!("/v1/decisions/{id}")).json()["facts"].clone()
}

/// Two clients that differ have fingerprints of this form that differ, and each always the same.
#[track_caller]
fn assert_fingerprints(server: &TestServer, port: u16, field: &str, is_one: impl Fn(&str) -> bool) {
    let old: &[&str] = &["--tls-max", "1.2"];
    let [first, again, other] = [&[][..], &[], old].map(|options| fingerprint(server, port, field, options));
    assert!(first.as_str().is_some_and(is_one), "{first}");
    assert_eq!((&first, first == other), (&again, false), "{other}");
}

/// A fingerprint of Chrome.
const JA4: &str = "t13d1516h2_8daaf6152771_02713d6af862";

/// A proxy that has a fingerprint hands it on; one that has none hands nothing on. The field of a client never passes.
#[track_caller]
fn assert_ja4_is_sent(server: &TestServer, with: u16, without: u16) {
    let [told, nothing] = [with, without].map(|port| {
        let answer = Visitor::at(port).get("/shop", "X-JA4: t13d0000h2_000000000000_000000000000\r\n");
        facts_of(server, &answer)["tls"].clone()
    });
    assert_eq!(told, JA4);
    assert!(nothing.is_null() || nothing == "", "{nothing}");
}

fn is_hex(text: &str, length: usize) -> bool {
    text.len() == length && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

#[test]
fn nginx_shows_the_page_and_hands_the_steps_on() {
    if !is_installed("nginx") {
        return;
    }
    with_gated(|server| {
        let folder = tempfile::tempdir().unwrap();
        let [port, asleep, secure] = [0; 3].map(|_| free_port());
        let node = FrozenNode::start();
        let in_http = shown(PAGE, "nginx", "upstream tollhouse {");
        let (upstream, map) = in_http.split_at(in_http.find("map ").unwrap());
        let locations = shown(PAGE, "nginx", "location / {")
            .replace("http://app", &format!("http://127.0.0.1:{}", application()));
        let site = |port: u16, asked: &str, locations: &str| {
            let name = format!("tollhouse_{port}");
            let upstream = upstream.replace("tollhouse", &name).replace("127.0.0.1:8377", asked);
            let locations = locations
                .replace("http://tollhouse/", &format!("http://{name}/"))
                .replace("http://tollhouse;", &format!("http://{name};"));
            format!("{upstream}\nserver {{\nlisten 127.0.0.1:{port};\n{locations}\n}}\n")
        };
        let asked = server.address.to_string();
        // The node need not be in a hurry here.
        let asks = locations
            .replace("250ms", "60s")
            .replace("/v1/auth/site", "/v1/auth/site_nginx")
            .replace("/v1/gate/site/", "/v1/gate/site_nginx/");
        let mut sites =
            format!("{map}\n{}{}", site(port, &asked, &asks), site(asleep, &node.address, &locations));
        let certificate = certificate(folder.path());
        if let Some([cert, key]) = &certificate {
            let field = shown(PAGE, "nginx", "proxy_set_header X-TLS");
            let tls = asks.replace("    internal;\n", &format!("    internal;\n    {field}\n"));
            let tls = format!("ssl_certificate {cert};\nssl_certificate_key {key};\n{tls}");
            sites += &site(secure, &asked, &tls)
                .replace(&format!("listen 127.0.0.1:{secure}"), &format!("listen 127.0.0.1:{secure} ssl"));
        }
        let ports = [port, asleep, secure];
        let _nginx = run_nginx(folder.path(), &ports[..2 + usize::from(certificate.is_some())], &sites);
        assert_gated(port);
        assert_opens_when_frozen(&node, asleep);
        if certificate.is_some() {
            assert_fingerprints(server, secure, "X-TLS", |tls| is_hex(tls, 16));
        }
    });
}

#[test]
fn caddy_shows_the_page_and_hands_the_steps_on() {
    let Some(caddy) = Program::find("caddy") else { return };
    with_gated(|server| {
        let folder = tempfile::tempdir().unwrap();
        let ports = [0; 4].map(|_| free_port());
        let node = FrozenNode::start();
        let lines =
            shown(PAGE, "caddy", "handle_path").replace("app:8080", &format!("127.0.0.1:{}", application()));
        // The node need not be in a hurry here.
        let asks = lines.replace("127.0.0.1:8377", &server.address.to_string()).replace("250ms", "60s");
        let asleep = lines.replace("127.0.0.1:8377", &node.address);
        let mut config = "{\nadmin off\nauto_https off\n}\n".to_owned();
        // What a plugin would set, and none.
        let field = shown(PAGE, "caddy", "header_up X-JA4");
        let uri = "        uri /v1/auth/site\n";
        let without = asks.replace(uri, &format!("{uri}        {field}\n"));
        assert_ne!(without, asks);
        let with = format!("vars ja4 {JA4}\n{without}");
        for (port, lines) in ports.iter().zip([&asks, &asleep, &with, &without]) {
            config += &format!("http://:{port} {{\nbind 127.0.0.1\n{lines}\n}}\n");
        }
        let _caddy = run_caddy(&caddy, folder.path(), &ports, &config);
        assert_gated(ports[0]);
        assert_opens_when_frozen(&node, ports[1]);
        assert_ja4_is_sent(server, ports[2], ports[3]);
    });
}

#[test]
fn haproxy_shows_the_page_and_hands_the_steps_on() {
    if !is_installed("haproxy") {
        return;
    }
    with_gated(|server| {
        let folder = tempfile::tempdir().unwrap();
        let app = application();
        let node = FrozenNode::start();
        let lines = shown(PAGE, "haproxy", "global\n    lua-load");
        let script = shown(PAGE, "lua", "local told");
        let run = |name: &str, asked: &str, more: &dyn Fn(String) -> String| {
            let [port, asks] = [0; 2].map(|_| free_port());
            let at = |file: &str| folder.path().join(format!("{name}.{file}"));
            let script = script
                .replace("8378", &asks.to_string())
                .replace("\"accept\",", "\"accept\", \"x-ja3\", \"x-ja4\",");
            std::fs::write(at("lua"), script).unwrap();
            let config = lines
                .replace("/etc/haproxy/tollhouse.lua", at("lua").to_str().unwrap())
                .replace("127.0.0.1:8378", &format!("127.0.0.1:{asks}"))
                .replace("127.0.0.1:8377", asked)
                .replace("bind :80", &format!("bind 127.0.0.1:{port}"))
                .replace("app:8080", &format!("127.0.0.1:{app}"));
            std::fs::write(at("cfg"), more(config) + "\n").unwrap();
            let mut command = Command::new("haproxy");
            command.arg("-f").arg(at("cfg"));
            (port, Proxy::start(command, &[port, asks], &at("log")))
        };
        // The node need not be in a hurry here.
        let long_deadline = |config: String| config.replace("timeout server 250ms", "timeout server 60s");
        let asked = server.address.to_string();
        let (port, _gated) = run("gated", &asked, &long_deadline);
        let (asleep, _asleep) = run("asleep", &node.address, &|config| config);
        assert_gated(port);
        assert_opens_when_frozen(&node, asleep);

        // What a script would set, and none.
        let (_, field) = shown(PAGE, "haproxy", "frontend site\n    http-request set-header X-JA4")
            .split_once('\n')
            .unwrap();
        let site = "    acl step path_beg /.tollhouse/\n";
        let told = |before: &str, config: String| {
            long_deadline(config.replace(site, &format!("{site}{before}{field}\n")))
        };
        let (without, _without) = run("without", &asked, &|config| told("", config));
        let set = format!("    http-request set-var(txn.ja4) str({JA4})\n");
        let (with, _with) = run("with", &asked, &|config| told(&set, config));
        assert_ja4_is_sent(server, with, without);

        let Some([cert, key]) = certificate(folder.path()) else { return };
        let both = folder.path().join("both.pem");
        let pem = [cert, key].map(|file| std::fs::read_to_string(file).unwrap()).concat();
        std::fs::write(&both, pem).unwrap();
        let more = shown(PAGE, "haproxy", "global\n    tune.ssl");
        let (tune, fields) = more.split_once("\n\nfrontend site\n").unwrap();
        let (secure, _secure) = run("secure", &asked, &|config| {
            let config = long_deadline(config).replace("global\n", &format!("{tune}\n"));
            let bind = config.lines().find(|line| line.contains("bind ") && !line.contains("8378")).unwrap();
            assert!(bind.starts_with("    bind "), "{bind}");
            let (before, after) = config.split_once(site).unwrap();
            format!("{} ssl crt {}\n{site}{fields}\n{after}", before.trim_end(), both.display())
                .replace("lua.tollhouse site ", "lua.tollhouse site_ja3 ")
        });
        assert_fingerprints(server, secure, "X-JA3", |ja3| is_hex(ja3, 32));
    });
}

/// The modules of Apache httpd that the page's lines need, and those that any configuration needs.
const HTTPD_MODULES: [&str; 7] =
    ["mpm_event", "authz_core", "headers", "lua", "proxy", "proxy_http", "proxy_wstunnel"];

#[test]
fn httpd_shows_the_page_and_hands_the_steps_on() {
    let modules = Path::new("/usr/lib/apache2/modules");
    if !is_installed("apache2") || !modules.join("mod_lua.so").exists() {
        return;
    }
    if !Path::new("/usr/share/lua/5.3/socket/http.lua").exists() {
        println!("skipped: lua-socket is not installed");
        return;
    }
    with_gated(|server| {
        let folder = tempfile::tempdir().unwrap();
        let app = application();
        let node = FrozenNode::start();
        let lines = shown(PAGE, "apache", "LuaScope");
        let script = shown(PAGE, "lua", "local http");
        let run = |name: &str, script: String, asked: &str| {
            let port = free_port();
            let at = |file: &str| folder.path().join(format!("{name}.{file}"));
            std::fs::write(at("lua"), script.replace("127.0.0.1:8377", asked)).unwrap();
            let lines = lines
                .replace("/etc/apache2/tollhouse.lua", at("lua").to_str().unwrap())
                .replace("127.0.0.1:8377", asked)
                .replace("app:8080", &format!("127.0.0.1:{app}"));
            let modules: String = HTTPD_MODULES
                .iter()
                .map(|name| format!("LoadModule {name}_module {}/mod_{name}.so\n", modules.display()))
                .collect();
            let home = folder.path().display();
            let config = format!(
                "{modules}ServerRoot {home}\nServerName example.org\nDefaultRuntimeDir {home}\n\
                 PidFile {home}/{name}.pid\nErrorLog {home}/{name}.errors\nListen 127.0.0.1:{port}\n\
                 User nobody\nGroup nogroup\nStartServers 1\n\
                 <VirtualHost 127.0.0.1:{port}>\n{lines}\n</VirtualHost>\n"
            );
            std::fs::write(at("conf"), config).unwrap();
            let mut command = Command::new("apache2");
            command.arg("-X").arg("-f").arg(at("conf"));
            (port, Proxy::start(command, &[port], &at("log")))
        };
        readable(folder.path());
        // The node need not be in a hurry here.
        let long_deadline = script.replace("TIMEOUT = 0.25", "TIMEOUT = 60");
        let (port, _gated) = run("gated", long_deadline, &server.address.to_string());
        let (asleep, _asleep) = run("asleep", script.to_owned(), &node.address);
        assert_gated(port);
        assert_opens_when_frozen(&node, asleep);
    });
}

/// Lets everybody read a folder: httpd changes to another user where it may.
fn readable(folder: &Path) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn traefik_shows_the_page_and_hands_the_steps_on() {
    let Some(program) = traefik() else { return };
    with_gated(|server| {
        let folder = tempfile::tempdir().unwrap();
        let ready = "  routers:\n    ready: { rule: Path(`/ready`), priority: 2000, service: app }\n";
        let config = shown(PAGE, "yaml", "http:\n  middlewares:")
            .replace("127.0.0.1:8377", &server.address.to_string())
            .replace("app:8080", &format!("127.0.0.1:{}", application()))
            .replace("/v1/auth/site", "/v1/auth/site_traefik")
            .replace("/v1/gate/site/", "/v1/gate/site_traefik/")
            .replace("  routers:\n", ready);
        let ports = [free_port(), free_port()];
        let _traefik = run_traefik(&program, folder.path(), ports, &config);
        assert_gated(ports[0]);
    });
}

#[test]
fn envoy_shows_the_page_and_hands_the_steps_on() {
    let Some(program) = envoy() else { return };
    with_gated(|server| {
        let folder = tempfile::tempdir().unwrap();
        let ports = [0; 5].map(|_| free_port());
        let [_, port, asleep, secure, forms] = ports;
        let node = FrozenNode::start();
        let lines = shown(PAGE, "yaml", "- name: envoy.filters.http.ext_authz");
        // The node need not be in a hurry here.
        let asks = lines.replace("0.25s", "60s");
        let routes = format!(
            "{}\n- match: {{ prefix: \"/\" }}\n  route: {{ cluster: app }}",
            shown(PAGE, "yaml", "- match: { prefix: \"/.tollhouse/\" }")
        );
        let sleeping = lines.replace("cluster: tollhouse_http", "cluster: asleep");
        // What the page says in a line.
        let body = PAGE.split("`with_request_body: ").nth(1).unwrap().split('`').next().unwrap();
        let sent = asks.replace("/v1/auth/site", "/v1/auth/site_form").replace(
            "    failure_mode_allow",
            &format!("    with_request_body: {body}\n    failure_mode_allow"),
        );
        assert_ne!(sent, asks);
        let mut sites =
            site(port, &asks, &routes) + &site(asleep, &sleeping, &routes) + &site(forms, &sent, &routes);
        let certificate = certificate(folder.path());
        if let Some(files) = &certificate {
            let headers = shown(PAGE, "yaml", "authorization_request:");
            let told = format!("    http_service:\n{}", indented(headers, 6));
            let tls = asks.replace("    http_service:\n", &told);
            let listener = indented(shown(PAGE, "yaml", "listener_filters:"), 6);
            sites += &site(secure, &tls, &routes).replace(
                "      filter_chains:\n        - filters:\n",
                &format!(
                    "{listener}      filter_chains:\n        - {}          filters:\n",
                    tls_socket(files)
                ),
            );
        }
        let clusters = cluster("app", application())
            + &cluster("tollhouse_http", server.address.port())
            + &cluster("asleep", node.address.rsplit_once(':').unwrap().1.parse().unwrap());
        let served: Vec<u16> =
            ports.into_iter().filter(|port| *port != secure || certificate.is_some()).collect();
        let _envoy = run_envoy(&program, folder.path(), &served, &sites, &clusters);
        assert_gated(port);
        assert_opens_when_frozen(&node, asleep);

        // The body's start goes with the question, and stays out of the journal; what was read from it is there.
        let ann = Visitor::at(forms);
        let text = format!("visit https://pills.example/ now, a-secret{}", ".".repeat(3000));
        let facts = facts_of(server, &ann.ask("POST", "/shop", FORM, &text));
        assert!(facts["form.link_domains"].to_string().contains("pills.example"), "{facts}");
        assert_eq!(facts["form"], Value::Null);
        assert!(!facts.to_string().contains("a-secret"), "{facts}");
        assert_eq!(facts_of(server, &ann.get("/shop", ""))["form.link_domains"], Value::Null);
        let facts = facts_of(server, &Visitor::at(port).get("/shop", "Cookie: sid=a-secret\r\n"));
        assert!(facts["session"].as_str().is_some_and(|session| is_hex(session, 16)), "{facts}");

        if certificate.is_some() {
            assert_fingerprints(server, secure, "X-JA4", |ja4| ja4.len() == 36 && ja4.starts_with("t1"));
        }
    });
}

/// The lines of the page for `ext_authz` over gRPC, asking a listener through this cluster about the `[[forward_auth]]`.
fn envoy_over_grpc(cluster: &str, forward: &str, timeout: &str) -> (String, String) {
    let filter = shown(PAGE, "yaml", "- name: envoy.filters.http.ext_authz\n  typed_config: # gRPC");
    let filter = filter.replace("cluster_name: tollhouse", &format!("cluster_name: {cluster}"));
    let named = shown(PAGE, "yaml", "typed_per_filter_config:")
        .replace("forward_auth: site", &format!("forward_auth: {forward}"));
    let routes = format!(
        "{}\n- match: {{ prefix: \"/\" }}\n  route: {{ cluster: app }}\n{}",
        shown(PAGE, "yaml", "- match: { prefix: \"/.tollhouse/\" }"),
        indented(&named, 2)
    );
    (filter.replace("0.25s", timeout), routes)
}

#[test]
fn envoy_over_grpc_shows_the_page_and_hands_the_steps_on() {
    let Some(program) = envoy() else { return };
    let main =
        format!("{MAIN}\n[[listener]]\nname = \"e\"\nprotocol = \"envoy\"\nlisten = \"127.0.0.1:0\"\n");
    with_gated_by(&main, |server, clock| {
        let folder = tempfile::tempdir().unwrap();
        let ports = [0; 5].map(|_| free_port());
        let [_, port, asleep, forms, strange] = ports;
        let node = FrozenNode::start();
        // The node need not be in a hurry here.
        let (asks, routes) = envoy_over_grpc("tollhouse", "site", "60s");
        let (sleeping, _) = envoy_over_grpc("asleep", "site", "0.25s");
        let (_, of_forms) = envoy_over_grpc("tollhouse", "site_form", "60s");
        let (_, nowhere) = envoy_over_grpc("tollhouse", "nowhere", "60s");
        // What the page says in a line.
        let body = PAGE.split("`with_request_body: ").nth(1).unwrap().split('`').next().unwrap();
        let sent = asks.replace(
            "    failure_mode_allow: true",
            &format!(
                "    with_request_body: {body}\n    encode_raw_headers: true\n    failure_mode_allow: true"
            ),
        );
        assert_ne!(sent, asks);
        let closed = asks.replace("failure_mode_allow: true", "failure_mode_allow: false");
        let sites = site(port, &asks, &routes)
            + &site(asleep, &sleeping, &routes)
            + &site(forms, &sent, &of_forms)
            + &site(strange, &closed, &nowhere);
        let http_2 = "      typed_extension_protocol_options:\n        \
             envoy.extensions.upstreams.http.v3.HttpProtocolOptions:\n          \
             \"@type\": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions\n          \
             explicit_http_config: { http2_protocol_options: {} }\n";
        let grpc = |name: &str, address: &str| {
            cluster(name, address.rsplit_once(':').unwrap().1.parse().unwrap()) + http_2
        };
        let clusters = cluster("app", application())
            + &cluster("tollhouse_http", server.address.port())
            + &grpc("tollhouse", server.listener("e"))
            + &grpc("asleep", &node.address);
        let _envoy = run_envoy(&program, folder.path(), &ports, &sites, &clusters);
        assert_gated(port);
        assert_opens_when_frozen(&node, asleep);

        // Without scripts: the picture, the wait, and back with a pass.
        let ann = Visitor::at(port);
        let page = ann.get("/shop?a=b", "");
        assert!(page.body.contains("url=/.tollhouse/continue?place="), "{}", page.body);
        let handed = handed(&page);
        let place = handed["waiting"].as_str().unwrap();
        let mark = ann.get(&format!("/.tollhouse/mark?place={place}"), "");
        assert_eq!((mark.status, mark.header("content-type")), (200, Some("image/gif")), "{}", mark.head);
        let cookie = mark.header("set-cookie").unwrap().split(';').next().unwrap();
        clock.set(6);
        let go_on = format!("/.tollhouse/continue?place={place}&return=/shop%3Fa=b");
        let back = ann.get(&go_on, &format!("Cookie: {cookie}\r\n"));
        assert_eq!((back.status, back.header("location")), (303, Some("/shop?a=b")), "{}", back.head);
        let pass = pass_of(&back).unwrap();
        assert_eq!(ann.get("/shop?a=b", &format!("Cookie: {pass}\r\n")).status, 200);

        // Fields of a client and bytes that are no text change nothing.
        let mut stream = connect_from(ann.address.into(), port);
        stream
            .write_all(
                b"GET /shop HTTP/1.1\r\nHost: example.org\r\nConnection: close\r\nUser-Agent: \xff\xfe\r\n\
                Accept: text/html\r\nX-Odd: \xc3(\r\n\r\n",
            )
            .unwrap();
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).unwrap();
        assert_eq!(whole(&bytes).status, 401);

        // The body's start goes with the question, and stays out of the journal.
        let text = format!("visit https://pills.example/ now, a-secret{}", ".".repeat(3000));
        let facts = facts_of(server, &Visitor::at(forms).ask("POST", "/shop", FORM, &text));
        assert!(facts["form.link_domains"].to_string().contains("pills.example"), "{facts}");
        assert!(!facts.to_string().contains("a-secret"), "{facts}");
        let facts = facts_of(server, &ann.get("/shop", "Cookie: sid=a-secret\r\n"));
        assert!(facts["session"].as_str().is_some_and(|session| is_hex(session, 16)), "{facts}");

        // A question that nobody can be meant by is Envoy's to decide.
        assert_eq!(Visitor::at(strange).get("/style.css", "").status, 403);
        let metrics = server.get("/metrics").body;
        assert!(metrics.contains("reason=\"invalid\"") && metrics.contains("answer=\"denied\""), "{metrics}");
    });
}

/// Lines that make a listener of Envoy speak TLS.
fn tls_socket([cert, key]: &[String; 2]) -> String {
    let kind = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext";
    format!(
        "transport_socket:\n            name: envoy.transport_sockets.tls\n            typed_config:\n              \
         \"@type\": {kind}\n              common_tls_context: {{ tls_certificates: [{{ certificate_chain: \
         {{ filename: \"{cert}\" }}, private_key: {{ filename: \"{key}\" }} }}] }}\n"
    )
}
