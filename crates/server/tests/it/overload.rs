//! A server whose only place is taken: what others are told, and what becomes of their connections.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;

use serde_json::json;

use crate::clients::Program;
use crate::harness::{Answer, MAIL, MESSAGE, TestServer, answer, check_problem, with_server};
use crate::limits::unfinished;

/// Runs a test while a request has the only place; it is given back when what is handed over is called.
fn with_full_server(test: impl FnOnce(&TestServer, &mut dyn FnMut())) {
    with_server(&[("server.requests_max", "1")], |server| {
        let mut slow = Some(unfinished(server));
        test(server, &mut || {
            let mut slow = slow.take().unwrap();
            slow.write_all(&[b'x'; 1000]).unwrap();
            assert_eq!(answer(&mut slow).status, 200);
        });
    });
}

fn head(more: &str) -> String {
    format!("POST /v1/observe HTTP/1.1\r\nHost: localhost\r\n{MAIL}\r\n{more}\r\n\r\n")
}

fn whole() -> String {
    format!("{}{MESSAGE}", head(&format!("Content-Length: {}", MESSAGE.len())))
}

/// Reads one answer of a connection that stays open.
fn next(stream: &mut TcpStream) -> Answer {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).unwrap().trim_end().to_owned();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    let mut answer = Answer { status, head, body: String::new() };
    let length: usize = answer.header("content-length").unwrap().parse().unwrap();
    let mut body = vec![0; length];
    stream.read_exact(&mut body).unwrap();
    answer.body = String::from_utf8(body).unwrap();
    answer
}

#[track_caller]
fn is_refused(answer: &Answer) {
    check_problem(answer, 503, "overloaded", "1 requests are at work");
    assert_eq!(answer.header("retry-after"), Some("1"));
}

/// Sends a request in parts, the first of which must be enough to refuse it; later its connection serves another.
fn refused_and_served_later(parts: &[&str]) {
    with_full_server(|server, free| {
        let mut stream = server.connect();
        let (first, rest) = parts.split_first().unwrap();
        stream.write_all(first.as_bytes()).unwrap();
        let refused = next(&mut stream);
        is_refused(&refused);
        assert_eq!(refused.header("connection"), None);
        rest.iter().for_each(|part| stream.write_all(part.as_bytes()).unwrap());
        free();
        stream.write_all(whole().as_bytes()).unwrap();
        assert_eq!(next(&mut stream).status, 200);
    });
}

#[test]
fn a_refused_connection_can_ask_again() {
    refused_and_served_later(&[&whole()]);
    refused_and_served_later(&["GET /v1/pipelines HTTP/1.1\r\nHost: localhost\r\n\r\n"]);
}

/// The answer does not wait for the body, and what comes of it afterwards is not taken for a request.
#[test]
fn a_body_that_follows_a_refusal_is_heard_out() {
    let head = head(&format!("Content-Length: {}", MESSAGE.len()));
    let (one, other) = MESSAGE.split_at(MESSAGE.len() / 2);
    refused_and_served_later(&[&head, one, other]);
    let chunked = self::head("Transfer-Encoding: chunked");
    refused_and_served_later(&[&chunked, "3\r\nabc\r\n", "2\r\nde\r\n0\r\n\r\n"]);
}

/// A body that costs too much to read to its end closes the connection.
#[test]
fn a_body_too_long_to_be_heard_out_ends_the_connection() {
    with_full_server(|server, free| {
        for more in ["Content-Length: 1000\r\nExpect: 100-continue", "Content-Length: 9999999"] {
            let mut stream = server.connect();
            stream.write_all(head(more).as_bytes()).unwrap();
            let refused = answer(&mut stream);
            is_refused(&refused);
            assert_eq!(refused.header("connection"), Some("close"), "{more}");
        }
        // Nobody said how long this one would be.
        let mut stream = server.connect();
        stream.write_all(head("Transfer-Encoding: chunked").as_bytes()).unwrap();
        is_refused(&next(&mut stream));
        let chunk = format!("10000\r\n{}\r\n", "x".repeat(0x10000));
        while stream.write_all(chunk.as_bytes()).is_ok() {}
        free();
        assert_eq!(server.post("/v1/observe", &[MAIL], MESSAGE).status, 200);
    });
}

/// A decision that finds no place is what `on_error` of its pipeline says, and says so; who wants a promise hears the error.
#[test]
fn decisions_that_find_no_place_follow_on_error() {
    for (on_error, action) in [("open", "accept"), ("closed", "throttle")] {
        with_server(&[("server.requests_max", "1"), ("on_error", on_error)], |server| {
            let slow = unfinished(server);
            let answer = server.post("/v1/decide", &[MAIL], MESSAGE);
            let decision = answer.json();
            assert_eq!((answer.status, &decision["action"]), (200, &json!(action)), "{decision}");
            assert_eq!(decision["error"], "1 requests are at work", "{decision}");
            assert_eq!((&decision["uncounted"], &decision["unlogged"]), (&json!(true), &json!(true)));
            is_refused(&server.post("/v1/decide?durability=sync", &[MAIL], MESSAGE));
            is_refused(&server.post("/v1/decide?pipeline=none", &[MAIL], MESSAGE));
            let metrics = server.get("/metrics").body;
            assert!(metrics.contains("tollhouse_undecided_total{pipeline=\"mail\"} 1\n"), "{metrics}");
            drop(slow);
        });
    }
}

/// Checks that a question to a busy node about itself is answered on a connection that has just been refused, too.
#[test]
fn probes_are_answered_by_a_full_server() {
    with_full_server(|server, _| {
        let mut stream = server.connect();
        stream.write_all(whole().as_bytes()).unwrap();
        is_refused(&next(&mut stream));
        stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
        assert_eq!(next(&mut stream).status, 200);
        let metrics = server.get("/metrics").body;
        assert!(metrics.contains("tollhouse_http_refused_total 1\n"), "{metrics}");
        assert!(
            metrics
                .contains("tollhouse_http_request_seconds_count{route=\"/v1/observe\",status=\"503\"} 1\n")
        );
    });
}

/// A client as others have it: it waits for `100 Continue`, and asks on with the same connection.
#[test]
fn curl_reads_refusals() {
    let Some(curl) = Program::find("curl") else { return };
    let parent = tempfile::tempdir().unwrap();
    let body = parent.path().join("body");
    std::fs::write(&body, vec![b'x'; 300 << 10]).unwrap();
    let ask = |server: &TestServer, more: &[&str]| {
        let url = format!("http://{}/v1/observe", server.address);
        let data = format!("@{}", body.display());
        let mut command: Command = curl.command();
        // Twice on one connection, if that can be.
        for _ in 0..2 {
            command.args([
                "-s",
                "-o",
                "/dev/null",
                "-w",
                "%{http_code} %{num_connects}\n",
                "--max-time",
                "60",
            ]);
            command.args(["-H", MAIL, "--data-binary", &data]).args(more).args([&url, "--next"]);
        }
        let ran =
            command.args(["-s", "-o", "/dev/null", &format!("http://{}/healthz", server.address)]).output();
        let ran = ran.unwrap();
        String::from_utf8(ran.stdout).unwrap()
    };
    with_full_server(|server, free| {
        // It may end a connection on which the answer comes before it has sent all.
        let unasked = ask(server, &["-H", "Expect:"]);
        assert!(unasked.lines().all(|line| line.starts_with("503 ")), "{unasked}");
        assert_eq!(ask(server, &["-H", "Expect: 100-continue"]), "503 1\n503 1\n");
        free();
        assert_eq!(ask(server, &["-H", "Expect: 100-continue"]), "200 1\n200 0\n");
    });
}
