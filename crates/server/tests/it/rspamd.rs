//! Rspamd's protocol, byte by byte: HTTP, and the older one of Exim.

use std::io::{Read, Write};
use std::net::TcpStream;

use serde_json::Value;

use crate::harness::{MESSAGE, TestServer, capture, long_message, slow_message, with_server};

fn with_rspamd(settings: &[(&str, &str)], test: impl FnOnce(&TestServer)) {
    let own = [("listener.rspamd.protocol", "rspamd"), ("listener.rspamd.listen", "127.0.0.1:0")];
    let settings: Vec<_> = own.iter().chain(settings).copied().collect();
    with_server(&settings, test);
}

/// A token, as it is configured, and as what the recorded requests carry.
const TOKEN: &str = "a-token-of-some-length";
const TOKENS: &str = "[\"a-token-of-some-length\"]";
const PEER: &[u8] = b"Password: peer\r\n";

struct Answer {
    status: u16,
    head: String,
    body: Vec<u8>,
}

impl Answer {
    fn of(bytes: &[u8]) -> Answer {
        let end = bytes.windows(4).position(|bytes| bytes == b"\r\n\r\n");
        let end = end.unwrap_or_else(|| panic!("no head: {:?}", String::from_utf8_lossy(bytes)));
        let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Answer { status, head, body: bytes[end + 4..].to_vec() }
    }

    fn json(&self) -> Value {
        let text = String::from_utf8_lossy(&self.body);
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {text}"))
    }
}

fn ask(running: &TestServer, request: &str) -> Answer {
    Answer::of(&running.exchange("rspamd", request.as_bytes()))
}

fn post(running: &TestServer, url: &str, headers: &str, message: &str) -> Answer {
    let length = message.len();
    ask(running, &format!("POST {url} HTTP/1.0\r\nContent-Length: {length}\r\n{headers}\r\n{message}"))
}

/// Checks what `rspamc` and mail servers read of an answer to `/checkv2`.
fn check_scan(answer: &Value) {
    let actions = ["no action", "greylist", "add header", "rewrite subject", "soft reject", "reject"];
    assert!(actions.contains(&answer["action"].as_str().unwrap()), "{answer}");
    assert_eq!(answer["required_score"], answer["thresholds"]["reject"], "{answer}");
    assert!(
        answer["score"].is_number() && answer["time_real"].is_number() && answer["milter"].is_object(),
        "{answer}"
    );
    assert_eq!(answer["is_skipped"], false);
    for (name, symbol) in answer["symbols"].as_object().unwrap() {
        assert_eq!(symbol["name"], name.as_str());
        assert!(symbol["score"].is_number() && symbol["metric_score"].is_number(), "{symbol}");
    }
}

#[test]
fn recorded_requests_are_answered_in_kind() {
    with_rspamd(&[("server.tokens", TOKENS)], |running| {
        let sent = |name: &str| {
            let bytes = capture(&format!("{name}.client"));
            // Its password is shorter than a token may be.
            let Some(at) = bytes.windows(PEER.len()).position(|bytes| bytes == PEER) else {
                return bytes;
            };
            let (before, after) = (&bytes[..at], &bytes[at + PEER.len()..]);
            [before, format!("Password: {TOKEN}\r\n").as_bytes(), after].concat()
        };
        let scan = sent("rspamc-scan.01");
        let answer = Answer::of(&running.exchange("rspamd", &scan));
        assert_eq!(answer.status, 200, "{}", answer.head);
        check_scan(&answer.json());
        assert_eq!(answer.json()["message-id"], "E17k2hm-00016W-00@byron.heanet.ie");

        let compressed = Answer::of(&running.exchange("rspamd", &sent("rspamc-scan.02")));
        assert!(
            compressed.head.to_ascii_lowercase().contains("\r\ncompression: zstd"),
            "{}",
            compressed.head
        );
        let plain = zstd::stream::decode_all(&compressed.body[..]).unwrap();
        let plain: Value = serde_json::from_slice(&plain).unwrap();
        check_scan(&plain);
        assert_eq!(plain["message-id"], "20020902155851.A22343@ie.suberic.net");

        let learned = Answer::of(&running.exchange("rspamd", &sent("rspamc-ctl.02")));
        assert_eq!((learned.status, &learned.json()["success"]), (200, &Value::Bool(true)));

        let stat = Answer::of(&running.exchange("rspamd", &sent("rspamc-ctl.01"))).json();
        assert_eq!(
            (&stat["scanned"], &stat["learned"], &stat["total_learns"]),
            (&2.into(), &1.into(), &1.into())
        );
        let recorded = Answer::of(&capture("rspamc-ctl.01.server")).json();
        for (member, value) in recorded.as_object().unwrap() {
            let own = stat.get(member).unwrap_or_else(|| panic!("no {member}"));
            assert_eq!(std::mem::discriminant(own), std::mem::discriminant(value), "{member}");
        }
        let auth = Answer::of(&running.exchange("rspamd", &sent("rspamc-ctl.04")));
        assert_eq!(auth.json()["auth"], "ok");
        let counters = Answer::of(&running.exchange("rspamd", &sent("rspamc-ctl.03")));
        assert_eq!((counters.status, &counters.json()["error"]), (404, &"there is no such command".into()));
    });
}

/// Returns what Exim reads of an answer, as its `sscanf` does: score, threshold and action.
fn as_exim_reads(answer: &[u8]) -> (f64, f64, String) {
    let text = String::from_utf8(answer.to_vec()).unwrap();
    let mut lines = text.split("\r\n");
    assert_eq!(lines.next(), Some("RSPAMD/1.3 0 EX_OK"), "{text}");
    let metric = lines.next().unwrap().strip_prefix("Metric: default; ").unwrap();
    let (word, scores) = metric.split_once("; ").unwrap();
    let scores: Vec<f64> = scores.split(" / ").map(|score| score.parse().unwrap()).collect();
    assert_eq!(scores[0] >= scores[1], word == "True", "{text}");
    let action = lines.next().unwrap().strip_prefix("Action: ").unwrap();
    (scores[0], scores[1], action.to_owned())
}

#[test]
fn exims_requests_are_answered_in_kind() {
    with_rspamd(&[], |running| {
        for name in ["exim-rspamd.01", "exim-rspamd.02"] {
            let sent = capture(&format!("{name}.client"));
            let answer = running.exchange("rspamd", &sent);
            as_exim_reads(&answer);
            let id = if name.ends_with('1') {
                "20261121000331.002800@vm"
            } else {
                "E17k2hm-00016W-00@byron.heanet.ie"
            };
            assert!(String::from_utf8(answer).unwrap().ends_with(&format!("Message-ID: {id}\r\n")));
        }
    });
}

#[test]
fn the_older_protocol_is_told_apart() {
    with_rspamd(&[], |running| {
        let older = |request: &str| running.exchange("rspamd", request.as_bytes());
        let length = MESSAGE.len();
        let (score, threshold, _) =
            as_exim_reads(&older(&format!("CHECK RSPAMC/1.3\r\nContent-length: {length}\r\n\r\n{MESSAGE}")));
        assert!(score < threshold);
        as_exim_reads(&older(&format!("CHECK /checkv2 RSPAMC/1.3\r\nIP: 192.0.2.1\r\n\r\n{MESSAGE}")));
        assert_eq!(older("PING RSPAMC/1.3\r\n\r\n"), b"RSPAMD/1.3 0 PONG\r\n");
        for bad in [
            "CHECK SPAMC/1.5\r\n\r\n",
            "CHECK RSPAMC/1.3\r\nFile: /etc/passwd\r\n\r\n",
            "CHECK RSPAMC/1.3\r\nx\r\n\r\n",
        ] {
            assert!(older(bad).starts_with(b"RSPAMD/1.3 400 "), "{bad:?}");
        }
        assert_eq!(older("CHE"), b"");
    });
}

#[test]
fn no_client_names_a_file() {
    with_rspamd(&[], |running| {
        for header in ["File: /etc/passwd", "Path: /etc/passwd", "Shm: /a", "shm-length: 3"] {
            let answer = post(running, "/checkv2", &format!("{header}\r\n"), MESSAGE);
            assert_eq!((answer.status, answer.json()["error"].is_string()), (403, true), "{header}");
        }
        for url in ["/checkv2?file=/etc/passwd", "/check?a=b&path=/etc/passwd"] {
            assert_eq!(post(running, url, "", MESSAGE).status, 403, "{url}");
        }
    });
}

#[test]
fn urls_and_methods_are_checked() {
    with_rspamd(&[], |running| {
        assert_eq!(ask(running, "GET /ping HTTP/1.0\r\n\r\n").body, b"pong\r\n");
        assert_eq!(ask(running, "GET /checkv2 HTTP/1.0\r\n\r\n").status, 405);
        assert_eq!(ask(running, "GET /nowhere HTTP/1.0\r\n\r\n").status, 404);
        assert_eq!(post(running, "/checkv2", "", "").status, 400);
        assert_eq!(post(running, "/checkv2", "Compression: zstd\r\n", MESSAGE).status, 400);
        assert_eq!(post(running, "/checkv2", "Compression: gzip\r\n", MESSAGE).status, 400);
        assert_eq!(post(running, "/checkv2", "Origin: http://evil.example\r\n", MESSAGE).status, 403);
        let metrics = ask(running, "GET /metrics HTTP/1.0\r\n\r\n");
        assert!(String::from_utf8(metrics.body).unwrap().contains("tollhouse_listener_connections"));
        let older = post(running, "/symbols", "", MESSAGE).json();
        assert!(
            older["default"]["action"].is_string() && older["default"]["is_spam"].is_boolean(),
            "{older}"
        );
    });
}

#[test]
fn bombs_are_stopped() {
    with_rspamd(&[("listener.rspamd.body_max", "1MiB")], |running| {
        let bomb = zstd::stream::encode_all(&vec![b'a'; 20 << 20][..], 1).unwrap();
        let mut request =
            format!("POST /checkv2 HTTP/1.0\r\nCompression: zstd\r\nContent-Length: {}\r\n\r\n", bomb.len())
                .into_bytes();
        request.extend_from_slice(&bomb);
        assert_eq!(Answer::of(&running.exchange("rspamd", &request)).status, 413);
        // Plain, what is too long is judged by its first part.
        let long = format!("{MESSAGE}{}", "a line of text\r\n".repeat(100_000));
        check_scan(&post(running, "/checkv2", "", &long).json());
    });
}

#[test]
fn connections_are_kept_and_bodies_come_in_chunks() {
    with_rspamd(&[], |running| {
        let mut stream = TcpStream::connect(running.listener("rspamd")).unwrap();
        let (first, second) = MESSAGE.split_at(100);
        for _ in 0..2 {
            let head = "POST /checkv2 HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n";
            let chunks = [first, second].map(|chunk| format!("{:x}\r\n{chunk}\r\n", chunk.len())).concat();
            for byte in format!("{head}{chunks}0\r\n\r\n").as_bytes() {
                stream.write_all(&[*byte]).unwrap();
            }
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                let mut byte = [0];
                stream.read_exact(&mut byte).unwrap();
                head.extend(byte);
            }
            let head = String::from_utf8(head).unwrap().to_ascii_lowercase();
            let length = head.split("content-length: ").nth(1).unwrap().split("\r\n").next().unwrap();
            let mut body = vec![0; length.parse().unwrap()];
            stream.read_exact(&mut body).unwrap();
            check_scan(&serde_json::from_slice(&body).unwrap());
        }
    });
}

#[test]
fn a_queues_message_is_counted_once() {
    with_rspamd(&[], |running| {
        let duplicate = |queue: &str, message: &str| {
            let headers = format!(
                "Queue-Id: {queue}\r\nFrom: <a@x.org>\r\nRcpt: <b@y.org>\r\nRcpt: <c@y.org>\r\nIP: 192.0.2.1\r\n"
            );
            post(running, "/checkv2", &headers, message).json()["tollhouse"]["duplicate"].clone()
        };
        assert_eq!(duplicate("4XyZ", MESSAGE), false);
        assert_eq!(duplicate("4XyZ", MESSAGE), true);
        assert_eq!(
            duplicate("4XyZ", &MESSAGE.replace("Monday", "Friday")),
            false,
            "queues use their ids again"
        );
        assert_eq!(duplicate("4XyA", MESSAGE), false);
    });
}

#[test]
fn the_envelope_reaches_the_facts() {
    with_rspamd(&[], |running| {
        let headers =
            "From: <a@x.org>\r\nRcpt: <b@y.org>\r\nIP: 192.0.2.1\r\nHelo: mail.x.org\r\nUser: joe\r\n";
        let answer = post(running, "/checkv2", headers, MESSAGE).json();
        let id = answer["tollhouse"]["id"].as_str().unwrap();
        let facts = running.get(&format!("/v1/decisions/{id}")).json()["facts"].clone();
        assert_eq!(facts["client.ip"], "192.0.2.1", "{facts}");
        assert_eq!(facts["client.helo"], "mail.x.org");
        assert_eq!(facts["client.user"], "joe");
        assert_eq!(facts["mail.sender"], "a@x.org");
        assert_eq!(facts["mail.recipients"], serde_json::json!(["b@y.org"]));
    });
}

#[test]
fn learning_needs_leave() {
    with_rspamd(&[], |running| {
        assert_eq!(post(running, "/learnspam", "", MESSAGE).status, 403);
        assert_eq!(ask(running, "GET /stat HTTP/1.0\r\n\r\n").status, 200);
    });
    with_rspamd(&[("listener.rspamd.learn", "true")], |running| {
        let learned = post(running, "/learnham", "", MESSAGE);
        assert_eq!((learned.status, &learned.json()["success"]), (200, &Value::Bool(true)));
        assert_eq!(post(running, "/learnham", "", MESSAGE).status, 208, "it is known");
    });
    with_rspamd(&[("server.tokens", TOKENS)], |running| {
        assert_eq!(post(running, "/checkv2", "", MESSAGE).status, 200, "scanning needs none");
        for url in ["/stat", "/auth", "/metrics"] {
            assert_eq!(ask(running, &format!("GET {url} HTTP/1.0\r\n\r\n")).status, 403, "{url}");
            let known = format!("GET {url} HTTP/1.0\r\nPassword: {TOKEN}\r\n\r\n");
            assert_eq!(ask(running, &known).status, 200, "{url}");
        }
        assert_eq!(post(running, "/learnspam", "Password: other\r\n", MESSAGE).status, 403);
        assert_eq!(post(running, "/learnspam", &format!("Password: {TOKEN}\r\n"), MESSAGE).status, 200);
    });
}

#[test]
fn what_cannot_be_decided_passes_or_comes_again() {
    let [small, error] = [("listener.rspamd.body_max", "1KiB"), ("listener.rspamd.oversize", "error")];
    with_rspamd(&[small, error], |running| {
        let answer = post(running, "/checkv2", "", &long_message()).json();
        assert_eq!((&answer["is_skipped"], &answer["action"]), (&Value::Bool(true), &"no action".into()));
    });
    with_rspamd(&[small, error, ("listener.rspamd.on_error", "closed")], |running| {
        let answer = post(running, "/checkv2", "", &long_message()).json();
        assert_eq!((&answer["is_skipped"], &answer["action"]), (&Value::Bool(true), &"soft reject".into()));
    });
}

#[test]
fn what_takes_too_long_passes_or_comes_again() {
    for (on_error, action) in [("open", "no action"), ("closed", "soft reject")] {
        let settings = [("listener.rspamd.timeout", "1ms"), ("listener.rspamd.on_error", on_error)];
        with_rspamd(&settings, |running| {
            let answer = post(running, "/checkv2", "", &slow_message()).json();
            assert_eq!((&answer["is_skipped"], &answer["action"]), (&Value::Bool(true), &action.into()));
            assert!(running.get("/metrics").body.contains("reason=\"slow\"} 1"));
        });
    }
}

#[test]
fn replies_are_the_listeners() {
    let rule = "[[rule]]\nname = \"TEST_REFUSED\"\nwhen = \"mail.size > 0\"\nscore = 99.5\n";
    for (settings, action, required) in [
        (&[][..], "reject", 12.0),
        (&[("listener.rspamd.act", "tag")], "add header", 12.0),
        (&[("listener.rspamd.act", "none")], "no action", 12.0),
        (&[("listener.rspamd.replies", "{ reject = \"defer\" }")], "soft reject", 12.0),
    ] {
        with_rspamd(settings, |running| {
            assert_eq!(running.post("/v1/rules", &["Content-Type: application/toml"], rule).status, 200);
            let answer = post(running, "/checkv2", "", MESSAGE).json();
            assert_eq!(
                (&answer["action"], &answer["required_score"]),
                (&action.into(), &required.into()),
                "{answer}"
            );
            assert_eq!(answer["tollhouse"]["action"], "reject", "what was decided is told all the same");
        });
    }
}

#[test]
fn names_of_other_hosts_are_refused() {
    with_rspamd(&[], |running| {
        for url in ["/metrics", "/stat", "/auth", "/ping"] {
            let status = |host: &str| {
                ask(running, &format!("GET {url} HTTP/1.1\r\n{host}Connection: close\r\n\r\n")).status
            };
            assert_eq!(status("Host: evil.example\r\n"), 403, "{url}");
            assert_eq!(status("Host: 127.0.0.1.evil.example:11334\r\n"), 403, "{url}");
            for host in ["Host: localhost\r\n", "Host: 127.0.0.1:11334\r\n", "Host: [::1]\r\n"] {
                assert_eq!(status(host), 200, "{url} {host}");
            }
        }
        assert_eq!(post(running, "/checkv2", "Host: evil.example\r\n", MESSAGE).status, 403);
        // Mail servers that speak HTTP/1.0 name no host.
        assert_eq!(post(running, "/checkv2", "", MESSAGE).status, 200);
    });
}

#[test]
fn what_was_learned_is_told_whoever_said_it() {
    with_rspamd(&[], |running| {
        let learned = |class: &str, message: &str| {
            let url = format!("/v1/learn?class={class}");
            running.post(&url, &["Content-Type: message/rfc822"], message).status
        };
        assert_eq!(learned("spam", MESSAGE), 200);
        assert_eq!(learned("ham", &long_message()), 200);
        let stat = ask(running, "GET /stat HTTP/1.0\r\n\r\n").json();
        assert_eq!((&stat["learned"], &stat["total_learns"]), (&2.into(), &2.into()), "{stat}");
    });
}

#[test]
fn wrong_passwords_are_counted() {
    with_rspamd(&[("server.tokens", TOKENS)], |running| {
        let stat = |password: &str| {
            ask(running, &format!("GET /stat HTTP/1.0\r\nPassword: {password}\r\n\r\n")).status
        };
        assert_eq!((stat("wrong"), stat(TOKEN)), (403, 200));
        let page = running.ask("GET", "/metrics", &[&format!("Authorization: Bearer {TOKEN}")], b"").body;
        assert!(page.contains("tollhouse_wrong_tokens_total{listener=\"rspamd\"} 1"), "{page}");
    });
}

#[test]
fn a_token_as_password_needs_the_scope_of_the_command() {
    let secret = |name: &str| format!("{name}-of-a-long-secret");
    let tokens: Vec<(String, String)> = ["read", "teach", "enforce"]
        .iter()
        .flat_map(|scope| {
            let key = |key: &str| format!("token.{scope}.{key}");
            [(key("secret"), secret(scope)), (key("scopes"), format!("[\"{scope}\"]"))]
        })
        .collect();
    let settings: Vec<(&str, &str)> =
        tokens.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    with_rspamd(&settings, |running| {
        let asked = |scope: &str, line: &str, message: &str| {
            let length = message.len();
            let head =
                format!("{line} HTTP/1.0\r\nPassword: {}\r\nContent-Length: {length}\r\n\r\n", secret(scope));
            ask(running, &(head + message))
        };
        for (scope, stat, learn) in [("read", 200, 403), ("teach", 403, 200), ("enforce", 403, 403)] {
            assert_eq!(asked(scope, "GET /stat", "").status, stat, "{scope}");
            let learned = asked(scope, "POST /learnspam", MESSAGE);
            assert_eq!(learned.status, learn, "{scope}");
            assert_eq!(asked(scope, "POST /checkv2", MESSAGE).status, 200, "whoever may connect may ask");
        }
        let refused = asked("enforce", "POST /learnspam", MESSAGE).body;
        let refused = String::from_utf8_lossy(&refused);
        assert!(refused.contains("the token `enforce` lacks the scope `teach`"), "{refused}");
    });
}
