//! What those can hold who have no token, or speak badly: no place, no memory, no connection for long.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Instant;

use crate::harness::{
    Answer, JSON, JSON_LINES, LOG, MAIL, MESSAGE, PROBE, Running, answer, check_problem, with_server,
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

/// As long a body as the configuration allows is taken by each route, and one byte more is refused as everything else is.
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
            let taken = ask(MAX);
            assert_ne!(taken.status, 413, "{path}: {}", taken.body);
            if taken.status >= 400 {
                taken.problem();
            }
            check_problem(&ask(MAX + 1), 413, "too-large", "more than");
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
fn raw(server: &Running, request: &str) -> Answer {
    let mut stream = server.connect();
    stream.write_all(request.as_bytes()).unwrap();
    answer(&mut stream)
}

/// What another program could read as two requests is none, and ends the connection.
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
