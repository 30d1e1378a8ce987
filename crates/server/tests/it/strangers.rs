//! Limits of clients without a token or with bad requests: no place, no memory, no connection for long.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Instant;

use crate::harness::{
    Answer, JSON, JSON_LINES, LOG, MAIL, MESSAGE, PROBE, TestServer, answer, check_problem, with_server,
};
use crate::node::ROUTES;

const TOKEN: &str = "Authorization: Bearer a-secret-token-of-ours";
const TOKENS: (&str, &str) = ("server.tokens", r#"["a-secret-token-of-ours"]"#);

/// Reads the head of an answer on a connection that stays open.
fn head(stream: &mut TcpStream) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        head.push(byte[0]);
    }
    String::from_utf8(head).unwrap()
}

/// More strangers than there are places, each with a body that never ends: all are answered by their heads, and those who
/// are known neither wait nor are refused. The times are printed, and asserted by nobody.
#[test]
fn who_has_no_token_holds_nothing() {
    let settings = [TOKENS, ("server.requests_max", "4"), ("server.body_max", "64KiB")];
    with_server(&settings, |server| {
        let urls =
            ["/healthz", "/readyz", "/metrics", "/v1/decide", "/v1/rules", "/v1/auth/none", "/nowhere"];
        let held: Vec<TcpStream> = urls
            .iter()
            .cycle()
            .take(10 * urls.len())
            .map(|url| {
                let mut stream = server.connect();
                let length =
                    if url.len() % 2 == 0 { "Content-Length: 60000" } else { "Transfer-Encoding: chunked" };
                let request = format!("POST {url} HTTP/1.1\r\nHost: localhost\r\n{length}\r\n\r\n1");
                stream.write_all(request.as_bytes()).unwrap();
                let head = head(&mut stream);
                let status: u16 = head.split(' ').nth(1).unwrap().parse().unwrap();
                let expected = match *url {
                    "/healthz" | "/readyz" => 405,
                    "/v1/auth/none" => 404,
                    _ => 401,
                };
                assert_eq!(status, expected, "{url}: {head}");
                stream
            })
            .collect();
        let started = Instant::now();
        for _ in 0..20 {
            assert_eq!(server.get("/healthz").status, 200);
            assert_eq!(server.post("/v1/decide", &[MAIL, TOKEN], MESSAGE).status, 200);
        }
        println!("{} strangers held: {:?} a probe and a decision", held.len(), started.elapsed() / 20);
        let metrics = server.ask("GET", "/metrics", &[TOKEN], b"").body;
        assert!(metrics.contains("tollhouse_http_refused_total 0\n"), "{metrics}");
    });
}

/// Each route takes a body of the most bytes that the configuration allows, and refuses one more byte like any other.
#[test]
fn each_route_takes_a_body_of_the_most_bytes() {
    const MAX: usize = (2 << 20) + 1024;
    let max = MAX.to_string();
    with_server(&[("server.body_max", &max)], |server| {
        let mut body = vec![b' '; MAX + 1];
        for (method, path) in ROUTES.into_iter().filter(|(method, _)| matches!(*method, "post" | "put")) {
            let url = path.replace("{name}", "none").replace("{id}", "1");
            let (form, start): (&str, &[u8]) = match path {
                "/v1/decide/batch" => (JSON_LINES, b"{}"),
                "/v1/report" => (MAIL, b"From: a@example.org\n\n"),
                "/v1/rules" => ("Content-Type: application/toml", b""),
                _ => (JSON, b"{}"),
            };
            body[..32].fill(b' ');
            body[..start.len()].copy_from_slice(start);
            let ask = |length: usize| {
                let method = method.to_uppercase();
                server.ask(&method, &url, &[form], &body[..length])
            };
            // Who begins a session is a stranger yet.
            let most = if path == "/v1/sessions" { 4096 } else { MAX };
            let taken = ask(most);
            assert_ne!(taken.status, 413, "{path}: {}", taken.body);
            if taken.status >= 400 {
                taken.problem();
            }
            check_problem(&ask(most + 1), 413, "too-large", "more than");
        }
    });
}

fn gzip(plain: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(plain).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn packed_bodies_are_unpacked_within_bounds() {
    with_server(&[("server.body_max", "4MiB")], |server| {
        let ask = |coding: &str, body: &[u8]| {
            server.ask("POST", "/v1/peek", &[MAIL, &format!("Content-Encoding: {coding}")], body)
        };
        let message = MESSAGE.as_bytes();
        let mut deflate = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
        deflate.write_all(message).unwrap();
        let zstd = zstd::stream::encode_all(message, 1).unwrap();
        let plain = server.post("/v1/peek", &[MAIL], MESSAGE).json()["facts"].clone();
        assert!(plain.to_string().contains("The minutes of Monday"), "{plain}");
        for (coding, body) in [
            ("gzip", gzip(message)),
            ("X-GZIP", gzip(message)),
            ("deflate", deflate.finish().unwrap()),
            ("zstd", zstd.clone()),
            ("identity", message.to_vec()),
        ] {
            let decided = ask(coding, &body);
            assert_eq!(
                (decided.status, &decided.json()["facts"]),
                (200, &plain),
                "{coding}: {}",
                decided.body
            );
        }
        check_problem(&ask("br", message), 415, "unsupported-type", "`br` is not unpacked");
        check_problem(&ask("gzip, gzip", message), 415, "unsupported-type", "is not unpacked");
        let twice = [MAIL, "Content-Encoding: gzip", "Content-Encoding: gzip"];
        let several = server.ask("POST", "/v1/peek", &twice, &gzip(message));
        check_problem(&several, 415, "unsupported-type", "`several`");
        check_problem(&ask("gzip", message), 400, "invalid-body", "cannot be unpacked");
        let whole = gzip(message);
        check_problem(&ask("gzip", &whole[..whole.len() - 3]), 400, "invalid-body", "cannot be unpacked");
        for more in [gzip(b""), b"x".to_vec()] {
            let followed = [whole.clone(), more].concat();
            check_problem(&ask("gzip", &followed), 400, "invalid-body", "cannot be unpacked");
        }
        let two_frames = [zstd.clone(), zstd].concat();
        check_problem(&ask("zstd", &two_frames), 400, "invalid-body", "cannot be unpacked");
        check_problem(&ask("gzip", &gzip(&vec![b'x'; (4 << 20) + 1])), 413, "too-large", "more than");
        check_problem(&ask("gzip", &gzip(&vec![b'x'; 3 << 20])), 413, "too-large", "times its length");
    });
}

/// Sends bytes; answers all that comes back until the connection ends.
fn raw(server: &TestServer, request: &str) -> Answer {
    let mut stream = server.connect();
    stream.write_all(request.as_bytes()).unwrap();
    answer(&mut stream)
}

/// Checks that what another program could read as two requests is none, and ends the connection.
#[test]
fn requests_that_can_be_read_in_two_ways_are_refused() {
    with_server(&[], |server| {
        let post = "POST /v1/decide?pipeline=web HTTP/1.1\r\nHost: localhost\r\n";
        let chunks = "0\r\n\r\n";
        for request in [
            format!("{post}{LOG}\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n{chunks}"),
            format!("{post}{LOG}\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n{chunks}"),
            format!("{post}{LOG}\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\n{chunks}"),
            format!("{post}{LOG}\r\nTransfer-Encoding: identity, chunked\r\n\r\n{chunks}"),
            "GET /healthz HTTP/1.1\nHost: localhost\r\n\r\n".to_owned(),
            "GET /healthz HTTP/1.1\r\nHost: localhost\n\r\n".to_owned(),
            "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\n".to_owned(),
        ] {
            let refused = raw(server, &request);
            check_problem(&refused, 400, "invalid-framing", "could be read in two ways");
            assert_eq!(refused.header("connection"), Some("close"), "{request}");
        }
        // Behind a body that has such bytes in it, or chunks, all is as it was.
        let body = format!("{PROBE}\n");
        let close = "GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
        let plain = format!("{post}{LOG}\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        let chunked = format!(
            "{post}{LOG}\r\nTransfer-Encoding: chunked\r\n\r\n{:x}\r\n{body}\r\n{chunks}",
            body.len()
        );
        for request in [plain, chunked] {
            let mut stream = server.connect();
            stream.write_all(format!("{request}{close}").as_bytes()).unwrap();
            let mut text = String::new();
            stream.read_to_string(&mut text).unwrap();
            assert_eq!(text.matches("HTTP/1.1 200 OK\r\n").count(), 2, "{text}");
        }
    });
}

/// A copy of the data keeps files that would be tidied away: nobody makes hundreds of them.
#[test]
fn copies_are_made_now_and_then() {
    with_server(&[], |server| {
        let started = Instant::now();
        let made: Vec<Answer> = (0..6).map(|_| server.post("/v1/snapshots", &[], "")).collect();
        if started.elapsed().as_secs() >= 60 {
            println!("skipped: this machine is too slow to ask six times within a minute");
            return;
        }
        let statuses: Vec<u16> = made.iter().map(|answer| answer.status).collect();
        assert_eq!(statuses, [201, 201, 201, 201, 503, 503]);
        check_problem(&made[4], 503, "overloaded", "4 snapshots were made within 60 s");
        let seconds: u64 = made[4].header("retry-after").unwrap().parse().unwrap();
        assert!((1..=61).contains(&seconds), "{seconds}");
    });
}

/// Sends the beginning of a request to a listener and nothing more; answers what comes back until the connection ends.
fn trickle(server: &TestServer, listener: &str, bytes: &[u8]) -> String {
    let mut stream = server.connect_to(listener);
    stream.write_all(bytes).unwrap();
    let mut told = Vec::new();
    // Who is not read to the end may hear of a reset connection behind the answer.
    let _ = stream.read_to_end(&mut told);
    String::from_utf8_lossy(&told).into_owned()
}

/// A body that comes slower than it may gives its place and its memory back, whatever the deadline and the protocol.
#[test]
fn slow_bodies_are_given_up() {
    let pace = [("server.timeout", "1h"), ("server.body_rate_min", "1MiB"), ("server.body_grace", "50ms")];
    let listener = |name: &'static str, protocol: &'static str| {
        [("protocol", protocol), ("listen", "127.0.0.1:0"), ("idle", "1h"), ("timeout", "1h")]
            .map(|(key, value)| (format!("listener.{name}.{key}"), value))
    };
    let mut more = Vec::new();
    for (name, protocol) in [("r", "rspamd"), ("s", "spamc"), ("k", "resp"), ("m", "milter")] {
        more.extend(listener(name, protocol));
    }
    let more: Vec<(&str, &str)> = more.iter().map(|(name, value)| (name.as_str(), *value)).collect();
    with_server(&[&pace[..], &[("server.requests_max", "1")], &more].concat(), |server| {
        let refused = raw(
            server,
            &format!("POST /v1/decide HTTP/1.1\r\nHost: localhost\r\n{MAIL}\r\nContent-Length: 100\r\n\r\n1"),
        );
        check_problem(&refused, 408, "slow-request", "slower than 1048576 bytes a second");
        assert_eq!(refused.header("connection"), Some("close"));
        assert_eq!(server.post("/v1/decide", &[MAIL], MESSAGE).status, 200, "its place is free");
        let head = "POST /checkv2 HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n1";
        let told = trickle(server, "r", head.as_bytes());
        assert!(told.starts_with("HTTP/1.1 408 ") && told.contains("slower than"), "{told}");
        let told = trickle(server, "r", b"CHECK RSPAMC/1.3\r\nContent-length: 100\r\n\r\n1");
        assert!(told.contains("408") && told.contains("slower than"), "{told}");
        let told = trickle(server, "s", b"CHECK SPAMC/1.5\r\nContent-length: 100\r\n\r\n1");
        assert!(told.contains(" 75 "), "{told}");
        let command = format!("*2\r\n$4\r\nECHO\r\n$200000\r\n{}", "x".repeat(100_000));
        let told = trickle(server, "k", command.as_bytes());
        assert!(told.contains("slower than"), "{told}");
        // A mail server is told nothing: it does as it does with a milter that ends.
        let packet = |command: u8, rest: &[u8]| {
            let length = u32::try_from(rest.len() + 1).unwrap().to_be_bytes();
            [&length[..], &[command], rest].concat()
        };
        let agreement = [6u32, 0, 0x1f_ffff].map(u32::to_be_bytes).concat();
        let begun = [
            packet(b'O', &agreement),
            packet(b'C', b"host\x004\x00\x19192.0.2.1\0"),
            packet(b'H', b"host\0"),
            packet(b'M', b"<a@example.org>\0"),
            packet(b'R', b"<b@example.org>\0"),
            packet(b'L', b"Subject\0one\0"),
        ];
        trickle(server, "m", &begun.concat());
        let metrics = server.get("/metrics").body;
        for name in ["r", "s", "k", "m"] {
            let line =
                format!("tollhouse_listener_failures_total{{listener=\"{name}\",reason=\"slow-body\"}}");
            assert!(metrics.contains(&line), "{line}\n{metrics}");
        }
    });
}
