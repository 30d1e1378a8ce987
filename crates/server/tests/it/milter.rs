//! The mail filter protocol, byte by byte: what real mail servers sent, and what none should send.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};

use crate::harness::{
    MAIL, SetClock, TestServer, capture, configure, slow_message, start_by, switch_on, with_listener,
};
use crate::limits::unfinished;
use crate::quotas::with_limits;

/// A frame: what it is, and what belongs to it.
type Frame = (u8, Vec<u8>);

fn frame(byte: u8, data: &[u8]) -> Vec<u8> {
    let mut frame = u32::try_from(data.len() + 1).unwrap().to_be_bytes().to_vec();
    frame.push(byte);
    frame.extend_from_slice(data);
    frame
}

/// Cuts bytes into frames, all of which must be whole.
fn frames(mut bytes: &[u8]) -> Vec<Frame> {
    let mut frames = Vec::new();
    while !bytes.is_empty() {
        let length = u32::from_be_bytes(bytes[..4].try_into().unwrap()) as usize;
        frames.push((bytes[4], bytes[5..4 + length].to_vec()));
        bytes = &bytes[4 + length..];
    }
    frames
}

fn opening(version: u32, actions: u32, steps: u32) -> Vec<u8> {
    frame(b'O', &[version, actions, steps].map(u32::to_be_bytes).concat())
}

/// Returns the opening of Postfix 3.7.
fn postfix_opening() -> Vec<u8> {
    opening(6, 0x1ff, 0x1f_ffff)
}

/// A message with this subject, from CONNECT to its end.
fn message(subject: &str, fields: &[(&str, &str)]) -> Vec<u8> {
    let mut bytes = frame(b'D', b"Cj\0mx.example.org\0");
    bytes.extend(frame(b'C', b"client.example.net\x004\x12\x34192.0.2.1\0"));
    bytes.extend(frame(b'H', b"client.example.net\0"));
    bytes.extend(envelope_on(subject, fields));
    bytes
}

/// A conversation about one message.
pub(crate) fn one_message() -> Vec<u8> {
    [postfix_opening(), message(" The minutes", &[]), frame(b'Q', b"")].concat()
}

/// A further message of the same client.
fn envelope_on(subject: &str, fields: &[(&str, &str)]) -> Vec<u8> {
    let mut bytes = frame(b'M', b"<ann@example.org>\0");
    bytes.extend(frame(b'R', b"<bob@example.net>\0"));
    bytes.extend(frame(b'T', b""));
    let own = [("From", " Ann <ann@example.org>"), ("Subject", subject)];
    for (name, value) in own.iter().chain(fields) {
        bytes.extend(frame(b'L', format!("{name}\0{value}\0").as_bytes()));
    }
    bytes.extend(frame(b'N', b""));
    bytes.extend(frame(b'B', b"Dear Bob,\r\nall is well.\r\n"));
    bytes.extend(frame(b'E', b""));
    bytes
}

/// A further message whose end does not come.
fn half_a_message() -> Vec<u8> {
    let mut bytes = envelope_on(" please reject", &[]);
    bytes.truncate(bytes.len() - frame(b'E', b"").len());
    bytes
}

/// Returns the answers to these bytes, written in pieces of these lengths, until the server closes.
fn answers(server: &TestServer, bytes: &[u8], mut piece: impl FnMut() -> usize) -> Vec<Frame> {
    let mut stream = server.connect_to("m");
    let mut rest = bytes;
    while !rest.is_empty() {
        let (now, later) = rest.split_at(piece().clamp(1, rest.len()));
        // A server that has closed may refuse what is still written.
        if stream.write_all(now).is_err() {
            break;
        }
        rest = later;
    }
    let _ = stream.shutdown(Shutdown::Write);
    all(&mut stream)
}

fn all(stream: &mut TcpStream) -> Vec<Frame> {
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes);
    frames(&bytes)
}

fn at_once(server: &TestServer, parts: &[Vec<u8>]) -> Vec<Frame> {
    answers(server, &parts.concat(), || usize::MAX)
}

/// The reply without the agreement before it, each as text.
fn told(frames: &[Frame]) -> Vec<String> {
    assert_eq!(frames.first().map(|(byte, _)| *byte), Some(b'O'), "{frames:?}");
    let text = |(byte, data): &Frame| format!("{}{}", char::from(*byte), String::from_utf8_lossy(data));
    frames[1..].iter().map(text).collect()
}

/// The value of the field of this name that is added or inserted.
fn added<'a>(told: &'a [String], name: &str) -> Option<&'a str> {
    told.iter().find_map(|reply| {
        let (_, rest) = reply.strip_prefix('i')?.split_at_checked(4)?;
        rest.strip_prefix(name)?.strip_prefix('\0')?.strip_suffix('\0')
    })
}

#[test]
fn a_message_is_decided_on_and_its_fields_written() {
    with_listener("milter", &[], |server| {
        let forged =
            [("X-Spam-Status", " No"), ("x-spam-status", " No, really"), ("X-Tollhouse", " action=accept")];
        let told =
            told(&at_once(server, &[postfix_opening(), message(" please tag", &forged), frame(b'Q', b"")]));
        let removed: Vec<&str> =
            told.iter().filter(|reply| reply.starts_with('m')).map(String::as_str).collect();
        assert_eq!(
            removed,
            ["m\0\0\0\u{1}X-Tollhouse\0\0", "m\0\0\0\u{2}X-Spam-Status\0\0", "m\0\0\0\u{1}X-Spam-Status\0\0"]
        );
        assert_eq!(added(&told, "X-Spam-Flag"), Some(" YES"));
        let status = added(&told, "X-Spam-Status").unwrap();
        assert!(status.starts_with(" Yes, score=") && status.contains("ORDERED_TAG"), "{status}");
        assert_eq!(told.last().map(String::as_str), Some("a"));

        // The decision can be asked for by the id in the field.
        let field = added(&told, "X-Tollhouse").unwrap();
        let id = field.split("id=").nth(1).unwrap();
        let decision = server.get(&format!("/v1/decisions/{id}")).json();
        assert_eq!(
            (decision["action"].as_str(), decision["facts"]["client.ip"].as_str()),
            (Some("tag"), Some("192.0.2.1"))
        );
        assert_eq!(decision["facts"]["client.helo"], "client.example.net");
        assert_eq!(decision["facts"]["mail.sender"], "ann@example.org");
        assert_eq!(decision["facts"]["mail.recipients"], serde_json::json!(["bob@example.net"]));
        assert_eq!(decision["facts"]["mail.subject"], "please tag");
        let page = server.get("/metrics").body;
        assert!(
            page.contains("tollhouse_listener_decision_seconds_count{listener=\"m\",answer=\"tag\"} 1"),
            "{page}"
        );
    });
}

#[test]
fn actions_have_replies() {
    with_listener("milter", &[], |server| {
        let parts = [
            postfix_opening(),
            message(" please reject", &[]),
            envelope_on(" please throttle", &[]),
            envelope_on(" please quarantine", &[]),
            envelope_on(" please shadow", &[]),
            envelope_on(" as it is", &[]),
            frame(b'Q', b""),
        ];
        let told = told(&at_once(server, &parts));
        let ends: Vec<&str> = told
            .iter()
            .filter(|reply| !reply.starts_with('i'))
            .map(|reply| reply.split_at(reply.len().min(30)).0)
            .collect();
        let expected = [
            "y550 5.7.1 Message refused, re",
            "y451 4.7.1 Not now, please try",
            "qheld by Tollhouse\0",
            "a",
            "d",
            "a",
        ];
        assert_eq!(ends, expected);
    });
}

#[test]
fn replies_keep_to_what_was_agreed_on() {
    with_listener("milter", &[("listener.m.quarantine_to", "held@example.org")], |server| {
        // Neither fields nor quarantine are allowed.
        let parts = [opening(2, 0, 0), message(" please quarantine", &[]), frame(b'Q', b"")];
        let frames = at_once(server, &parts);
        assert_eq!(frames[0].1, [2u32, 0, 0].map(u32::to_be_bytes).concat());
        // Every command is answered, as none said that it need not be.
        let told = told(&frames);
        assert_eq!(told.concat(), "ccccccccca", "C H M R T L L N B, and the end");
        // An old mail server: fields are added at the end, without the blank that it adds itself.
        let parts = [opening(2, 0x3f, 0x7f), message("please tag", &[]), frame(b'Q', b"")];
        let frames = at_once(server, &parts);
        assert!(frames.contains(&(b'h', b"X-Spam\0Yes\0".to_vec())), "{frames:?}");
    });
}

#[test]
fn a_message_can_go_to_another_mailbox() {
    let settings = [("listener.m.quarantine_to", "held@example.org")];
    let parent = tempfile::tempdir().unwrap();
    let directory = crate::harness::obedient(&parent.path().join("data"));
    let config = std::fs::read_to_string(directory.config_path()).unwrap();
    let listener = "[[listener]]\nname = \"m\"\nprotocol = \"milter\"\nlisten = \"127.0.0.1:0\"\nreplies = { quarantine = \"redirect\" }\n";
    std::fs::write(directory.config_path(), config + listener + "quarantine_to = \"held@example.org\"\n")
        .unwrap();
    let server = crate::harness::start(&directory, &settings);
    let told =
        told(&at_once(&server, &[postfix_opening(), message(" please quarantine", &[]), frame(b'Q', b"")]));
    let told: Vec<&str> = told.iter().filter(|reply| !reply.starts_with('i')).map(String::as_str).collect();
    assert_eq!(told, ["-<bob@example.net>\0", "+<held@example.org>\0", "a"]);
    server.stop();
}

#[test]
fn a_silent_listener_changes_nothing() {
    with_listener("milter", &[("listener.m.act", "none")], |server| {
        let parts = [postfix_opening(), message(" please reject", &[("X-Spam", " no")]), frame(b'Q', b"")];
        assert_eq!(told(&at_once(server, &parts)), ["a"]);
        assert!(server.get("/metrics").body.contains("answer=\"reject\"} 1"), "it was decided on");
    });
    with_listener("milter", &[("listener.m.act", "tag")], |server| {
        let told =
            told(&at_once(server, &[postfix_opening(), message(" please reject", &[]), frame(b'Q', b"")]));
        assert_eq!((added(&told, "X-Spam"), told.last().map(String::as_str)), (Some(" Yes"), Some("a")));
    });
}

#[test]
fn subjects_of_what_is_delivered_as_spam_get_a_tag() {
    with_listener("milter", &[("listener.m.subject_tag", "[SPAM]")], |server| {
        let subject = |opening: Vec<u8>, message: Vec<u8>| {
            let told = told(&at_once(server, &[opening, message, frame(b'Q', b"")]));
            let subject = told.into_iter().find(|reply| reply.contains("Subject\0"));
            subject.map(|reply| reply.split_once("Subject\0").unwrap().1.trim_end_matches('\0').to_owned())
        };
        let check = |message: Vec<u8>, expected: Option<&str>| {
            assert_eq!(subject(postfix_opening(), message).as_deref(), expected);
        };
        check(message(" please tag", &[]), Some(" [SPAM] please tag"));
        let sound = [
            ("To", " bob@example.net"),
            ("Date", " Sun, 17 May 2026 09:59:00 +0000"),
            ("Message-ID", " <1@example.org>"),
        ];
        check(message(" hello", &sound), None);
        check(message(" please quarantine", &[]), None);
        check(message(" please reject", &[]), None);
        check(message("\n please tag", &[("Subject", "of another")]), Some(" [SPAM] please tag"));
        // Where nothing can be held, it is delivered as spam; where nothing may be changed, it stays.
        let held = message("please quarantine", &[]);
        assert_eq!(subject(opening(6, 0x11, 0), held.clone()).as_deref(), Some("[SPAM] please quarantine"));
        assert_eq!(subject(opening(6, 0x01, 0), held), None);
    });
}

#[test]
fn who_is_new_is_greylisted_before_the_message_comes() {
    let parent = tempfile::tempdir().unwrap();
    let directory = crate::harness::directory(&parent.path().join("data"));
    switch_on(&directory, &["greylisting"]);
    configure(&directory, "[[set]]\nname = \"greylist_exempt\"\nvalues = [\"203.0.113.9\"]\n");
    let settings = [
        ("listener.m.protocol", "milter"),
        ("listener.m.listen", "127.0.0.1:0"),
        ("listener.m.envelope_first", "true"),
    ];
    let clock = SetClock::default();
    let server = start_by(&directory, &settings, |_| clock.clock());
    let check = |seconds: i64, expected: &str| {
        clock.set(seconds);
        let mut opened = message(" hello", &[]);
        // Where the answer to DATA is a refusal, a mail server sends no message.
        if expected.starts_with('y') {
            let end = frame(b'T', b"");
            let at = opened.windows(end.len()).position(|bytes| bytes == end).unwrap();
            opened.truncate(at + end.len());
        }
        let told = told(&at_once(&server, &[postfix_opening(), opened, frame(b'Q', b"")]));
        assert!(told.last().is_some_and(|reply| reply.starts_with(expected)), "{seconds}: {told:?}");
    };
    check(0, "y451 4.7.1");
    check(240, "y451 4.7.1");
    check(301, "a");
    check(302, "a");
    server.stop();
}

#[test]
fn what_is_no_protocol_ends_the_connection() {
    with_listener("milter", &[], |server| {
        let check = |parts: &[Vec<u8>]| assert!(at_once(server, parts).is_empty(), "{parts:?}");
        check(&[b"GET / HTTP/1.1\r\n\r\n".to_vec()]);
        check(&[vec![0xff; 64]]);
        check(&[vec![0; 4]]);
        check(&[frame(b'M', b"<a@example.org>\0")]);
        check(&[frame(b'?', b"")]);
        check(&[opening(1, 0x0f, 0x3f)]);
        // A frame that never ends is no burden, and ends with its connection.
        check(&[0x0003_0000u32.to_be_bytes().to_vec(), vec![b'B'; 1000]]);
        let page = server.get("/metrics").body;
        assert!(
            page.contains("tollhouse_listener_failures_total{listener=\"m\",reason=\"protocol\"} 6"),
            "{page}"
        );
        // Others are served as before.
        let told = told(&at_once(server, &[postfix_opening(), message(" hello", &[]), frame(b'Q', b"")]));
        assert_eq!(told.last().map(String::as_str), Some("a"));
    });
}

#[test]
fn a_message_that_was_given_up_leaves_nothing_behind() {
    with_listener("milter", &[], |server| {
        let mut given_up = message(" please reject", &[]);
        // All but its end.
        given_up.truncate(given_up.len() - 5);
        let parts = [
            postfix_opening(),
            given_up,
            frame(b'A', b""),
            envelope_on(" please tag", &[]),
            half_a_message(),
            envelope_on(" please throttle", &[]),
            frame(b'K', b""),
            message(" please shadow", &[]),
            frame(b'Q', b""),
        ];
        let told = told(&at_once(server, &parts));
        let ends: Vec<&str> =
            told.iter().filter(|reply| !reply.starts_with('i')).map(|reply| &reply[..1]).collect();
        assert_eq!(ends, ["a", "y", "d"]);
        let page = server.get("/metrics").body;
        assert!(!page.contains("answer=\"reject\""), "{page}");
    });
}

#[test]
fn a_long_message_is_judged_by_its_first_part_or_not_at_all() {
    let long = || {
        let mut bytes = message(" please tag", &[]);
        let end = frame(b'E', b"");
        bytes.truncate(bytes.len() - end.len());
        let chunk = frame(b'B', &[b'x'; 8192]);
        (0..20).for_each(|_| bytes.extend_from_slice(&chunk));
        [postfix_opening(), bytes, end, frame(b'Q', b"")]
    };
    with_listener("milter", &[("listener.m.body_max", "16KiB")], |server| {
        let told = told(&at_once(server, &long()));
        let id = added(&told, "X-Tollhouse").unwrap().split("id=").nth(1).unwrap();
        let decision = server.get(&format!("/v1/decisions/{id}")).json();
        assert_eq!(decision["facts"]["mail.size"], 16384);
        assert_eq!(decision["action"], "tag");
    });
    let settings = [
        ("listener.m.body_max", "16KiB"),
        ("listener.m.oversize", "error"),
        ("listener.m.on_error", "closed"),
    ];
    with_listener("milter", &settings, |server| {
        let told = told(&at_once(server, &long()));
        assert_eq!(told, ["y451 4.7.1 Not now, please try again later\0"]);
        assert!(server.get("/metrics").body.contains("reason=\"too-large\"} 1"));
    });
}

#[test]
fn failure_lets_pass_or_defers() {
    let parts = || [postfix_opening(), message(" please reject", &[("X-Spam", " no")]), frame(b'Q', b"")];
    let busy = ("server.requests_max", "1");
    with_listener("milter", &[busy], |server| {
        let _at_work = unfinished(server);
        let told = told(&at_once(server, &parts()));
        assert_eq!(told[0], "m\0\0\0\u{1}X-Spam\0\0", "what was forged goes all the same");
        assert_eq!((added(&told, "X-Tollhouse"), told.len()), (Some(" action=undecided"), 3));
    });
    with_listener("milter", &[busy, ("listener.m.on_error", "closed")], |server| {
        let _at_work = unfinished(server);
        assert_eq!(told(&at_once(server, &parts())), ["y451 4.7.1 Not now, please try again later\0"]);
        assert!(server.get("/metrics").body.contains("reason=\"overloaded\"} 1"));
    });
}

#[test]
fn what_takes_too_long_passes_or_is_deferred() {
    let text = slow_message();
    let (_, body) = text.split_once("\r\n\r\n").unwrap();
    let end = frame(b'E', b"");
    let mut bytes = message(" please reject", &[("Content-Type", " multipart/mixed; boundary=b")]);
    bytes.truncate(bytes.len() - end.len());
    bytes.extend(body.as_bytes().chunks(60_000).flat_map(|chunk| frame(b'B', chunk)));
    let parts = [postfix_opening(), bytes, end, frame(b'Q', b"")];
    let slow = ("listener.m.timeout", "1ms");
    with_listener("milter", &[slow], |server| {
        assert_eq!(added(&told(&at_once(server, &parts)), "X-Tollhouse"), Some(" action=undecided"));
    });
    with_listener("milter", &[slow, ("listener.m.on_error", "closed")], |server| {
        assert_eq!(told(&at_once(server, &parts)), ["y451 4.7.1 Not now, please try again later\0"]);
        assert!(server.get("/metrics").body.contains("reason=\"slow\"} 1"));
    });
}

#[test]
fn a_client_has_its_limits() {
    with_listener("milter", &[("listener.m.client_connections_max", "1")], |server| {
        let mut first = server.connect_to("m");
        first.write_all(&postfix_opening()).unwrap();
        let mut answer = [0; 17];
        first.read_exact(&mut answer).unwrap();
        assert!(at_once(server, &[postfix_opening()]).is_empty(), "the second is closed at once");
        drop(first);
    });
    with_listener("milter", &[("listener.m.clients", "[\"192.0.2.0/24\"]")], |server| {
        assert!(at_once(server, &[postfix_opening()]).is_empty());
        assert!(server.get("/metrics").body.contains("reason=\"foreign-client\"} 1"));
    });
    with_listener("milter", &[("listener.m.idle", "50ms")], |server| {
        let mut stream = server.connect_to("m");
        assert!(all(&mut stream).is_empty(), "silence ends it");
    });
}

/// Returns what Postfix 3.7.11 sent, with the name of the capture.
fn captures() -> Vec<(String, Vec<u8>)> {
    let names = (1..=9).map(|number| format!("postfix-milter.0{number}.client"));
    names.map(|name| (name.clone(), capture(&name))).collect()
}

#[test]
fn captured_conversations_are_answered() {
    with_listener("milter", &[], |server| {
        let mut seed = 1u32;
        for (name, bytes) in &captures() {
            let commands = frames(bytes);
            let whole = answers(server, bytes, || usize::MAX);
            let agreement = (b'O', [6u32, 0x31, 0x1f_f480].map(u32::to_be_bytes).concat());
            assert_eq!(whole.first(), Some(&agreement), "{name}");
            let ends = commands.iter().filter(|(byte, _)| *byte == b'E').count();
            let answered = whole.iter().filter(|(byte, _)| b"aydt".contains(byte)).count();
            assert_eq!(
                ends, answered,
                "{name}: one answer to each message, and none to those that were given up"
            );
            for (byte, _) in &whole[1..] {
                assert!(b"aydtimq".contains(byte), "{name}: {}", char::from(*byte));
            }
            if ends == 1 {
                check_decision(server, name, &commands, &told(&whole));
            }
            for _ in 0..5 {
                let mut piece = || {
                    seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    1 + (seed >> 16) as usize % 97
                };
                let pieces = answers(server, bytes, &mut piece);
                let ends =
                    |frames: &[Frame]| frames.iter().filter(|(byte, _)| b"aydt".contains(byte)).count();
                assert_eq!((ends(&pieces), pieces.first()), (answered, Some(&agreement)), "{name}");
            }
        }
    });
}

/// The decision that an answer names has the envelope and the subject that were sent.
fn check_decision(server: &TestServer, name: &str, commands: &[Frame], told: &[String]) {
    let Some(field) = added(told, "X-Tollhouse") else { return };
    let id = field.split("id=").nth(1).unwrap();
    let decision = server.get(&format!("/v1/decisions/{id}")).json();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let address = |(_, data): &Frame| {
        text(data.split(|byte| *byte == 0).next().unwrap()).trim_matches(['<', '>']).to_owned()
    };
    let of = |wanted: u8| commands.iter().filter(move |(byte, _)| *byte == wanted);
    let recipients: Vec<String> = of(b'R').map(address).collect();
    assert_eq!(decision["facts"]["mail.recipients"], serde_json::json!(recipients), "{name}");
    assert_eq!(decision["facts"]["mail.sender"], serde_json::json!(of(b'M').map(address).next()), "{name}");
    let subject = of(b'L').find_map(|(_, data)| {
        text(data).strip_prefix("Subject\0").map(|value| value.trim_end_matches('\0').to_owned())
    });
    assert_eq!(decision["facts"]["mail.subject"], serde_json::json!(subject), "{name}");
    assert!(decision["facts"]["client.ip"].is_string(), "{name}");
    let queue_id = of(b'D').find_map(|(_, data)| {
        text(data).split_once("i\0").map(|(_, rest)| rest.split('\0').next().unwrap().to_owned())
    });
    let event_id = decision["event_id"].as_str().unwrap();
    assert!(event_id.starts_with(&queue_id.unwrap_or_default()), "{name}: {event_id}");
}

/// Returns what a mail server makes of a message by the replies that it was given: fields taken away, and fields put in.
fn changed(fields: &[(&str, &str)], told: &[String]) -> String {
    let brought = fields.iter().filter(|(name, _)| !told.contains(&format!("m\0\0\0\u{1}{name}\0\0")));
    let mut message: String = brought.map(|(name, value)| format!("{name}:{value}\n")).collect();
    for reply in told.iter().filter_map(|reply| reply.strip_prefix('i')) {
        let (name, value) = reply[4..].trim_end_matches('\0').split_once('\0').unwrap();
        message += &format!("{name}:{value}\n");
    }
    format!("{message}\nDear Bob,\nall is well.\n")
}

#[test]
fn a_report_finds_the_decision_by_the_signed_id() {
    let settings = [("reports.senders", "[\"provider.example\"]")];
    with_listener("milter", &settings, |server| {
        let subject = " An offer";
        // Somebody has put in the signed id of another message.
        let first = told(&at_once(server, &[postfix_opening(), message(" Lunch", &[]), frame(b'Q', b"")]));
        let forged = added(&first, "X-Tollhouse-Id").unwrap();
        let other = added(&first, "X-Tollhouse").unwrap().split("id=").nth(1).unwrap();
        let brought = [("X-Tollhouse-Id", forged)];
        let told = told(&at_once(server, &[postfix_opening(), message(subject, &brought), frame(b'Q', b"")]));
        let id = added(&told, "X-Tollhouse").unwrap().split("id=").nth(1).unwrap();
        let fields = [("From", " Ann <ann@example.org>"), ("Subject", subject), brought[0]];
        let stored = changed(&fields, &told);
        assert_eq!(stored.matches("X-Tollhouse-Id:").count(), 1, "{stored}");
        let arf = format!(
            "From: fbl@provider.example\nContent-Type: multipart/report; report-type=feedback-report; boundary=b\n\n\
             --b\nContent-Type: message/feedback-report\n\nFeedback-Type: abuse\nVersion: 1\n\n\
             --b\nContent-Type: message/rfc822\n\n{stored}\n--b--\n"
        );
        let by = "Tollhouse-Mail-From: <fbl@provider.example>";
        let said = server.post("/v1/report", &[MAIL, by], &arf).json();
        assert_eq!(
            (said["feedback"][0]["id"].as_str(), said["class"].as_str()),
            (Some(id), Some("complaint"))
        );
        assert_ne!(id, other);
        // The decision's own row is what is counted: only that knows the client.
        let ip = server.get("/v1/timeline?kind=ip&value=192.0.2.1").json();
        let buckets =
            ip["tiers"].as_array().unwrap().iter().flat_map(|tier| tier["buckets"].as_array().unwrap());
        let complaints: u64 = buckets.filter_map(|bucket| bucket["counts"]["complaint"].as_u64()).sum();
        assert_eq!(complaints, 1, "{ip}");
    });
}

#[test]
fn mail_to_addresses_for_reports_keeps_its_signed_id() {
    let brought = [("X-Tollhouse-Id", " 1-2")];
    let play = |settings: &[(&str, &str)], rules: &str| {
        let mut replies = Vec::new();
        with_listener("milter", settings, |server| {
            let posted = server.post("/v1/rules", &["Content-Type: application/toml"], rules);
            assert_eq!(posted.status, 200, "{}", posted.body);
            replies =
                told(&at_once(server, &[postfix_opening(), message(" Hello", &brought), frame(b'Q', b"")]));
        });
        let taken = replies.iter().any(|reply| reply.starts_with('m') && reply.contains("X-Tollhouse-Id"));
        (added(&replies, "X-Tollhouse-Id").is_some(), taken)
    };
    assert_eq!(play(&[], ""), (true, true));
    assert_eq!(play(&[], "[report_addresses]\ncomplaint = [\"bob@example.net\"]\n"), (false, false));
    assert_eq!(play(&[("listener.m.signed_id", "false")], ""), (false, true));
    assert_eq!(play(&[("listener.m.act", "none")], ""), (false, false));
}

const LIMITS: &str = r#"
[[limit]]
name = "by_client"
key = ["client.ip:network"]
count = 2
per = "1m"
[[limit]]
name = "by_recipient"
key = ["mail.sender:address", "mail.recipients:address"]
count = 1
per = "1m"
[[listener]]
name = "m"
protocol = "milter"
listen = "127.0.0.1:0"
limits = ["by_client", "by_recipient"]
"#;

#[test]
fn envelopes_over_a_limit_are_asked_to_come_again_before_their_message() {
    with_limits(LIMITS, |server| {
        let client = message(" first", &[]);
        let recipient = |name: &str| frame(b'R', format!("<{name}@example.net>\0").as_bytes());
        let parts = [
            postfix_opening(),
            client,
            frame(b'M', b"<ann+tag@example.org>\0"),
            recipient("cid"),
            recipient("bob"),
            frame(b'A', b""),
            frame(b'M', b"<eve@example.org>\0"),
            frame(b'Q', b""),
        ];
        let told = told(&at_once(server, &parts));
        let of_envelopes: Vec<&str> = told
            .iter()
            .map(|reply| reply.trim_end_matches('\0'))
            .filter(|reply| "cyd".contains(&reply[..1]))
            .collect();
        let later = "y451 4.7.1 Not now, please try again later";
        assert_eq!(of_envelopes, ["c", "c", "c", "c", later, later]);
    });
    // Where nothing is enforced it is counted all the same.
    with_limits(&format!("{LIMITS}act = \"none\"\n"), |server| {
        let parts = [postfix_opening(), message(" a", &[]), envelope_on(" b", &[]), envelope_on(" c", &[])];
        let told = told(&at_once(server, &parts));
        assert!(!told.iter().any(|reply| reply.starts_with('y')), "{told:?}");
        let metrics = server.get("/metrics").body;
        assert!(metrics.contains("tollhouse_limits_taken_total{limit=\"by_client\",result=\"refused\"} 1"));
    });
}

/// A message of this envelope sender, in the conversation of `message`.
fn message_from(sender: &str) -> Vec<u8> {
    let mut bytes = frame(b'M', format!("<{sender}>\0").as_bytes());
    bytes.extend(frame(b'R', b"<bob@example.net>\0"));
    bytes.extend(frame(b'T', b""));
    bytes
}

#[test]
fn an_envelope_is_refused_before_its_message() {
    let rest = || {
        let mut bytes = frame(b'L', b"Subject\0 hello\0");
        bytes.extend(frame(b'N', b""));
        bytes.extend(frame(b'E', b""));
        bytes
    };
    let parts = [
        postfix_opening(),
        message("first", &[]),
        message_from("reject@example.org"),
        message_from("throttle@example.org"),
        message_from("tag@example.org"),
        rest(),
        frame(b'Q', b""),
    ];
    with_listener("milter", &[("listener.m.envelope_first", "true")], |server| {
        let told = told(&at_once(server, &parts));
        let of_messages: Vec<&str> = told
            .iter()
            .filter(|reply| "cya".contains(&reply[..1]))
            .map(|reply| &reply[..reply.len().min(4)])
            .collect();
        assert_eq!(of_messages, ["c", "a", "y550", "y451", "c", "a"], "{told:?}");
        assert!(added(&told, "X-Spam-Flag").is_some(), "what is not refused is judged at its end: {told:?}");
        let refused = told.iter().find(|reply| reply.starts_with("y550")).unwrap();
        let id = refused.trim_end_matches('\0').rsplit(' ').next().unwrap();
        let decision = server.get(&format!("/v1/decisions/{id}")).json();
        assert_eq!(decision["action"], "reject", "{refused}");
        assert_eq!(decision["facts"]["mail.sender"], "reject@example.org");
    });
    // Where nothing is refused nothing is asked.
    with_listener("milter", &[("listener.m.envelope_first", "true"), ("listener.m.act", "tag")], |server| {
        let told = told(&at_once(server, &parts));
        assert!(!told.iter().any(|reply| "cy".contains(&reply[..1])), "{told:?}");
    });
}
