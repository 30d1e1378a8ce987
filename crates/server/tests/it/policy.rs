//! Postfix's policy delegation, byte by byte.

use std::io::{Read, Write};
use std::net::Shutdown;

use crate::harness::{TestServer, capture, with_listener};
use crate::limits::unfinished;
use crate::quotas::with_limits;

/// A request as Postfix writes it.
pub(crate) fn request(instance: &str, sender: &str, recipient: &str) -> String {
    format!(
        "request=smtpd_access_policy\nprotocol_state=RCPT\nprotocol_name=ESMTP\nclient_address=192.0.2.1\n\
         helo_name=client.example.net\nsender={sender}\nrecipient={recipient}\nrecipient_count=0\nqueue_id=\n\
         instance={instance}\nsize=0\nsasl_username=\n\n"
    )
}

/// All answers until the server closes.
fn answers(server: &TestServer, requests: &[u8], piece: usize) -> Vec<String> {
    let mut stream = server.connect_to("m");
    for piece in requests.chunks(piece) {
        if stream.write_all(piece).is_err() {
            break;
        }
    }
    let _ = stream.shutdown(Shutdown::Write);
    let mut text = String::new();
    let _ = stream.read_to_string(&mut text);
    text.split_terminator("\n\n").map(|answer| answer.strip_prefix("action=").unwrap().to_owned()).collect()
}

/// Returns the number of events that were counted.
fn counted(server: &TestServer) -> usize {
    let page = server.get("/metrics").body;
    let lines =
        page.lines().filter(|line| line.starts_with("tollhouse_judge_verdicts_total{pipeline=\"mail\""));
    lines.filter_map(|line| line.rsplit(' ').next()?.parse::<usize>().ok()).sum()
}

#[test]
fn envelopes_are_judged_before_their_message() {
    with_listener("policy", &[], |server| {
        let requests = [
            request("1.a", "ann@example.org", "bob@example.net"),
            request("1.b", "throttle@example.org", "bob@example.net"),
            request("1.c", "tag@example.org", "bob@example.net"),
            request("1.d", "", "bob@example.net"),
        ];
        let answers = answers(server, requests.concat().as_bytes(), 11);
        assert_eq!(answers[0], "DUNNO");
        assert_eq!(answers[1], "DEFER_IF_PERMIT 4.7.1 Not now, please try again later");
        assert!(answers[2].starts_with("PREPEND X-Tollhouse: action=tag, score="), "{answers:?}");
        assert_eq!((answers[3].as_str(), answers.len()), ("DUNNO", 4));
        assert_eq!(counted(server), 1, "only what ends here is counted here");
    });
}

#[test]
fn what_only_tags_calls_nothing_spam_that_is_to_come_again() {
    with_listener("policy", &[("listener.m.act", "tag")], |server| {
        let requests = [
            request("1.a", "throttle@example.org", "bob@example.net"),
            request("1.b", "reject@example.org", "bob@example.net"),
        ];
        let answers = answers(server, requests.concat().as_bytes(), usize::MAX);
        assert_eq!(answers[0], "DUNNO");
        assert!(answers[1].starts_with("PREPEND X-Tollhouse: action=reject, score="), "{answers:?}");
    });
}

#[test]
fn one_message_is_decided_on_once() {
    with_listener("policy", &[], |server| {
        let requests = [
            request("2.a", "reject@example.org", "bob@example.net"),
            request("2.a", "reject@example.org", "eve@example.net"),
            request("2.b", "ann@example.org", "bob@example.net"),
        ];
        let answers = answers(server, requests.concat().as_bytes(), usize::MAX);
        assert!(answers[0].starts_with("REJECT 5.7.1 Message refused, reference 1"), "{answers:?}");
        assert_eq!((&answers[1], answers[2].as_str()), (&answers[0], "DUNNO"));
        assert_eq!(counted(server), 1);
        let id = answers[0].rsplit(' ').next().unwrap();
        let decision = server.get(&format!("/v1/decisions/{id}")).json();
        assert_eq!(
            (decision["action"].as_str(), decision["facts"]["client.ip"].as_str()),
            (Some("reject"), Some("192.0.2.1"))
        );
        assert!(decision["event_id"].as_str().unwrap().starts_with("2.a."), "{decision}");
        assert!(decision["facts"].get("mail.has_subject").is_none(), "nothing is known of the message yet");
    });
    with_listener("policy", &[("listener.m.counts", "always")], |server| {
        let requests = [
            request("3.a", "ann@example.org", "b@example.net"),
            request("3.a", "ann@example.org", "c@example.net"),
        ];
        assert_eq!(answers(server, requests.concat().as_bytes(), usize::MAX), ["DUNNO", "DUNNO"]);
        assert_eq!(counted(server), 1);
    });
}

#[test]
fn on_failure_the_listener_says_what_happens() {
    let fine = request("4.a", "ann@example.org", "bob@example.net");
    for (on_error, expected) in
        [("open", "DUNNO"), ("closed", "DEFER_IF_PERMIT 4.7.1 Not now, please try again later")]
    {
        let settings = [("server.requests_max", "1"), ("listener.m.on_error", on_error)];
        with_listener("policy", &settings, |server| {
            let _at_work = unfinished(server);
            assert_eq!(answers(server, fine.as_bytes(), usize::MAX), [expected]);
            assert!(server.get("/metrics").body.contains("reason=\"overloaded\"} 1"));
        });
    }
    with_listener("policy", &[], |server| {
        for wrong in ["hello\n\n", "request=other\n\n", "\n\n"] {
            assert_eq!(
                answers(server, format!("{wrong}{fine}").as_bytes(), usize::MAX),
                [""; 0],
                "{wrong:?}"
            );
        }
        assert_eq!(answers(server, &vec![b'a'; 100_000], usize::MAX), [""; 0]);
        assert_eq!(answers(server, fine.as_bytes(), usize::MAX), ["DUNNO"]);
    });
}

#[test]
fn a_captured_conversation_is_answered() {
    let bytes = capture("postfix-policy.client");
    let requests = bytes.windows(2).filter(|pair| pair == b"\n\n").count();
    with_listener("policy", &[], |server| {
        for piece in [1, 13, 1000, usize::MAX] {
            let answers = answers(server, &bytes, piece);
            assert_eq!(answers, vec!["DUNNO"; requests], "nothing is known against any of them");
        }
        assert_eq!(counted(server), 0);
    });
}

const LIMITS: &str = r#"
[[limit]]
name = "by_client"
key = ["client.ip:network"]
count = 2
per = "1m"
[[limit]]
name = "quiet"
key = ["mail.recipients:address"]
count = 2
per = "1m"
enforcement = "shadow_ban"
[[listener]]
name = "m"
protocol = "policy"
listen = "127.0.0.1:0"
limits = ["by_client", "quiet"]
"#;

#[test]
fn envelopes_over_a_limit_are_asked_to_come_again_or_taken_in_silence() {
    with_limits(LIMITS, |server| {
        let requests = [
            request("1.a", "ann@example.org", "bob@example.net"),
            request("1.a", "ann@example.org", "cid@example.net"),
            request("1.a", "ann@example.org", "dan@example.net"),
            request("1.b", "ann@example.org", "bob@example.net"),
            request("1.c", "ann@example.org", "eve@example.net"),
        ];
        let answers = answers(server, requests.concat().as_bytes(), usize::MAX);
        let later = "DEFER_IF_PERMIT 4.7.1 Not now, please try again later";
        // A message of three recipients is one of its client.
        assert_eq!(answers, ["DUNNO", "DUNNO", "DUNNO", "DUNNO", later]);
    });
    with_limits(&LIMITS.replace("limits = [\"by_client\", \"quiet\"]", "limits = [\"quiet\"]"), |server| {
        let requests: Vec<String> = (0..3)
            .map(|number| request(&format!("1.{number}"), "ann@example.org", "bob@example.net"))
            .collect();
        let answers = answers(server, requests.concat().as_bytes(), usize::MAX);
        assert_eq!(answers, ["DUNNO", "DUNNO", "DISCARD"]);
    });
}
