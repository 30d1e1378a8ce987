use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::mpsc;

use crate::harness::{
    JSON, LOG, MAIL, MESSAGE, PROBE, TestServer, answer, check_problem, directory, start, with_server,
};

#[test]
fn large_bodies_are_refused() {
    with_server(&[("server.body_max", "16KiB")], |server| {
        let large = "x".repeat(16 * 1024 + 1);
        check_problem(&server.post("/v1/decide", &[MAIL], &large), 413, "too-large", "more than 16384 bytes");
        assert_eq!(server.post("/v1/decide", &[MAIL], &large[1..]).status, 200);

        // Not said beforehand.
        let mut stream = server.connect();
        let head = "POST /v1/decide HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: message/rfc822\r\nTransfer-Encoding: chunked\r\n\r\n";
        stream.write_all(head.as_bytes()).unwrap();
        for _ in 0..20 {
            stream.write_all(format!("400\r\n{}\r\n", "x".repeat(1024)).as_bytes()).unwrap();
        }
        stream.write_all(b"0\r\n\r\n").unwrap();
        check_problem(&answer(&mut stream), 413, "too-large", "more than 16384 bytes");

        // Asked before it is sent.
        let mut stream = server.connect();
        let head = "POST /v1/decide HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: message/rfc822\r\nContent-Length: 99999999\r\nExpect: 100-continue\r\n\r\n";
        stream.write_all(head.as_bytes()).unwrap();
        check_problem(&answer(&mut stream), 413, "too-large", "more than 16384 bytes");

        let head = format!("X-Large: {}", "x".repeat(100_000));
        assert_eq!(server.ask("GET", "/", &[&head], b"").status, 431);
    });
}

/// A request for a decision that is at work, for the server has asked for its body, of which 1000 bytes are to come.
pub(crate) fn unfinished(server: &TestServer) -> TcpStream {
    let mut stream = server.connect();
    let head = format!(
        "POST /v1/decide HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{MAIL}\r\nContent-Length: 1000\r\nExpect: 100-continue\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).unwrap();
    let mut more = [0; 25];
    stream.read_exact(&mut more).unwrap();
    assert_eq!(&more, b"HTTP/1.1 100 Continue\r\n\r\n");
    stream
}

#[test]
fn slow_clients_are_let_go() {
    with_server(&[("server.timeout", "300ms")], |server| {
        let mut stream = unfinished(server);
        check_problem(&answer(&mut stream), 408, "slow-request", "not complete after 0.3 s");
        // A head that does not end gets no answer at all.
        let mut stream = server.connect();
        stream.write_all(b"GET / HTTP/1.1\r\nHost: loc").unwrap();
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).unwrap();
        assert_eq!(bytes, b"");
        // A body that is broken off neither.
        drop(unfinished(server));
        assert_eq!(server.post("/v1/decide", &[MAIL], MESSAGE).status, 200);
    });
}

#[test]
fn too_many_requests_are_refused_at_once() {
    with_server(&[("server.requests_max", "1")], |server| {
        let mut slow = unfinished(server);
        let refused = server.post("/v1/observe?pipeline=web", &[LOG], PROBE);
        check_problem(&refused, 503, "overloaded", "1 requests are at work");
        assert_eq!(refused.header("retry-after"), Some("1"));
        assert_eq!(server.get("/healthz").status, 200);
        assert_eq!(server.get("/readyz").status, 200);
        assert!(server.get("/metrics").body.contains("tollhouse_http_refused_total"));
        slow.write_all(&[b'x'; 1000]).unwrap();
        assert_eq!(answer(&mut slow).status, 200);
        assert_eq!(server.post("/v1/observe?pipeline=web", &[LOG], PROBE).status, 200);
    });
}

#[test]
fn connections_beyond_the_most_wait() {
    with_server(&[("server.connections_max", "1")], |server| {
        let mut first = server.connect();
        first.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
        let mut byte = [0];
        first.read_exact(&mut byte).unwrap();
        let mut second = server.connect();
        second.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
        let (sender, answered) = mpsc::channel();
        std::thread::scope(|scope| {
            scope.spawn(move || sender.send(answer(&mut second).status).unwrap());
            assert_eq!(answered.try_recv(), Err(mpsc::TryRecvError::Empty));
            drop(first);
            assert_eq!(answered.recv(), Ok(200));
        });
    });
}

#[test]
fn a_token_is_needed_where_there_is_one() {
    with_server(&[("server.tokens", r#"["an-old-secret-token", "a-new-secret-token"]"#)], |server| {
        let check = |headers: &[&str], expected: Option<&str>| {
            for (method, url) in [("GET", "/v1/pipelines"), ("GET", "/metrics"), ("GET", "/nowhere")] {
                let answer = server.ask(method, url, headers, b"");
                match expected {
                    None => assert_ne!(answer.status, 401, "{url}"),
                    Some(detail) => {
                        check_problem(&answer, 401, "unauthorized", detail);
                        assert_eq!(answer.header("www-authenticate"), Some("Bearer"));
                    }
                }
            }
            for url in ["/healthz", "/readyz"] {
                assert_eq!(server.ask("GET", url, headers, b"").status, 200, "{url}");
            }
        };
        check(&[], Some("carries no token"));
        check(&["Authorization: Bearer an-old-secret-token"], None);
        check(&["authorization: bearer a-new-secret-token"], None);
        check(&["Authorization: Bearer an-old-secret-toke"], Some("not accepted"));
        check(&["Authorization: Bearer "], Some("not accepted"));
        check(&["Authorization: Basic an-old-secret-token"], Some("not accepted"));
        check(
            &["Authorization: Bearer an-old-secret-token", "Authorization: Bearer x"],
            Some("not accepted"),
        );
        let answer = server.post("/v1/decide", &[MAIL], MESSAGE);
        check_problem(&answer, 401, "unauthorized", "carries no token");
        // With a token, names and origins do not matter.
        check(&["Authorization: Bearer a-new-secret-token", "Host: tollhouse.example.org"], None);
    });
}

#[test]
fn without_a_token_other_sites_pages_cannot_ask() {
    with_server(&[], |server| {
        let foreign = server.ask("POST", "/v1/feedback", &[JSON, "Origin: https://example.org"], b"{}");
        check_problem(&foreign, 403, "forbidden", "Origin: another site");
        check_problem(&server.ask("GET", "/", &["Origin: null"], b""), 403, "forbidden", "Origin");
        let rebound = server.ask("GET", "/", &["Host: example.org"], b"");
        check_problem(&rebound, 403, "forbidden", "Host: neither an address nor `localhost`");
        let own = format!("Origin: http://{}", server.address);
        assert_eq!(server.ask("GET", "/", &[&own], b"").status, 200);
        assert_eq!(server.ask("GET", "/", &["Host: localhost"], b"").status, 200);
        assert_eq!(server.ask("GET", "/", &["Host: [::1]:8377"], b"").status, 200);
    });
}

#[test]
fn shutting_down_finishes_what_is_at_work() {
    let parent = tempfile::tempdir().unwrap();
    let directory = directory(&parent.path().join("data"));
    let server = start(&directory, &[("server.requests_max", "1")]);
    let mut slow = unfinished(&server);
    std::thread::scope(|scope| {
        let stopped = scope.spawn(|| server.stop());
        slow.write_all(&[b'x'; 1000]).unwrap();
        let decided = answer(&mut slow);
        stopped.join().unwrap();
        let id = decided.json()["id"].as_str().unwrap().to_owned();
        let server = start(&directory, &[]);
        assert_eq!(server.get(&format!("/v1/decisions/{id}")).json()["id"], id);
        server.stop();
    });
}

#[test]
fn hostile_bytes_break_nothing() {
    with_server(&[("server.timeout", "2s")], |server| {
        let requests: [&[u8]; 7] = [
            b"\0\x01\x02\xff\xfe\r\n\r\n",
            b"GET / HTTP/9.9\r\n\r\n",
            b"POST /v1/decide HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
            b"POST /v1/decide HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nx",
            b"POST /v1/decide HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
            b"GET /v1/decisions/%ff%fe HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
            b"GET /v1/timeline?kind=%ff&value=%00 HTTP/1.1\r\nHost: \xff\r\nConnection: close\r\n\r\n",
        ];
        for request in requests {
            let mut stream = server.connect();
            stream.write_all(request).unwrap();
            let text = answer(&mut stream);
            assert!((400..500).contains(&text.status), "{}: {}", String::from_utf8_lossy(request), text.head);
        }
        let answer = server.ask("POST", "/v1/decide", &[MAIL], &[0xff; 5000]);
        assert_eq!(answer.status, 200, "a message may be any bytes: {}", answer.body);
        let answer = server.ask("POST", "/v1/decide/batch?pipeline=web", &[LOG], &[b'\n'; 5000]);
        assert_eq!(answer.body.lines().count(), 5000);
        assert!(server.get("/metrics").body.contains("tollhouse_http_panics_total 0"));
    });
}
