//! SpamAssassin's protocol, byte by byte.

use std::io::{Read, Write};
use std::net::TcpStream;

use crate::harness::{MESSAGE, TestServer, capture, long_message, slow_message, with_server};

/// Words of the filter that scanners answer to without fail, in parts: mail with them whole is refused in places.
const GTUBE: [&str; 2] = ["XJS*C4JDBQADN1.NSBN3*2IDNEN*GTUBE-", "STANDARD-ANTI-UBE-TEST-EMAIL*C.34X"];

fn with_spamc(settings: &[(&str, &str)], test: impl FnOnce(&TestServer)) {
    let own = [("listener.spamc.protocol", "spamc"), ("listener.spamc.listen", "127.0.0.1:0")];
    let settings: Vec<_> = own.iter().chain(settings).copied().collect();
    with_server(&settings, test);
}

/// Status line, header lines and body of an answer.
struct Answer {
    status: String,
    headers: Vec<(String, String)>,
    body: String,
}

impl Answer {
    fn of(bytes: &[u8]) -> Answer {
        let text = String::from_utf8(bytes.to_vec()).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((text.trim_end(), ""));
        let mut lines = head.split("\r\n");
        let status = lines.next().unwrap().to_owned();
        let headers = lines.map(|line| line.split_once(": ").unwrap());
        let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        let answer = Answer { status, headers, body: body.to_owned() };
        if let Some(length) = answer.header("Content-length") {
            assert_eq!(length.parse(), Ok(answer.body.len()), "{text}");
        }
        answer
    }

    fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_str())
    }

    /// The word, the score and the threshold of `Spam`, which must agree.
    fn spam(&self) -> (&str, f64, f64) {
        let value = self.header("Spam").unwrap_or_else(|| panic!("no Spam: {}", self.status));
        let (word, scores) = value.split_once(" ; ").unwrap();
        let (score, threshold) = scores.split_once(" / ").unwrap();
        let (score, threshold) = (score.parse().unwrap(), threshold.parse().unwrap());
        assert_eq!(matches!(word, "True" | "Yes"), score >= threshold, "{value}");
        (word, score, threshold)
    }
}

fn ask(running: &TestServer, request: &str) -> Answer {
    Answer::of(&running.exchange("spamc", request.as_bytes()))
}

fn request(command: &str, headers: &str, message: &str) -> String {
    format!("{command} SPAMC/1.5\r\n{headers}Content-length: {}\r\n\r\n{message}", message.len())
}

#[test]
fn recorded_requests_are_answered_in_kind() {
    with_spamc(&[], |running| {
        let check = |name: &str, test: &dyn Fn(&str, Answer)| {
            let sent = capture(&format!("{name}.client"));
            let answer = Answer::of(&running.exchange("spamc", &sent));
            test(&String::from_utf8_lossy(&sent), answer);
        };
        for (name, words) in [
            ("spamc.01", ["True", "False"]),
            ("spamc.02", ["True", "False"]),
            ("spamc.03", ["Yes", "No"]),
            ("spamc.04", ["True", "False"]),
            ("exim-spamd.01", ["True", "False"]),
        ] {
            check(name, &|sent, answer| {
                assert_eq!(answer.status, "SPAMD/1.1 0 EX_OK", "{name}");
                assert!(words.contains(&answer.spam().0), "{name}");
                let framed = !sent.starts_with("CHECK") && !sent.contains("SPAMC/1.2");
                assert_eq!(answer.header("Content-length").is_some(), framed, "{name}");
                assert_eq!(answer.body.contains("\n pts rule name"), sent.starts_with("REPORT "), "{name}");
            });
        }
        check("spamc.05", &|sent, answer| {
            let message = sent.split_once("\r\n\r\n").unwrap().1;
            let (header, body) = message.split_once("\n\n").unwrap();
            assert_eq!(answer.body.split_once("\n\n").unwrap().1, body, "the body comes back as it was");
            let marks: Vec<&str> = answer.body.lines().filter(|line| line.starts_with("X-Spam-")).collect();
            assert!(marks[0].starts_with("X-Spam-Checker-Version: Tollhouse "), "{marks:?}");
            assert!(answer.body.starts_with("Return-Path: <social-admin@linux.ie>\nX-Spam-"));
            for line in header.lines() {
                assert!(answer.body.contains(line), "{line}");
            }
        });
        check("spamc.06", &|_, answer| {
            assert!(answer.body.contains("\nX-Spam-Status: ") && answer.body.ends_with("\n\n"));
            assert!(!answer.body.contains("my name is Kelly"));
        });
        check("spamc.07", &|_, answer| assert_eq!(answer.status, "SPAMD/1.5 0 PONG"));
        check("spamc.08", &|_, answer| {
            assert!(answer.status.starts_with("SPAMD/1.0 69 Service Unavailable: TELL"))
        });
    });
}

#[test]
fn messages_are_marked_and_come_back() {
    with_spamc(&[], |running| {
        let gtube = format!("{}\r\nbody {}\r\n", MESSAGE.trim_end(), GTUBE.concat());
        for message in [MESSAGE, &gtube] {
            let forged = format!("X-Spam-Status: No, score=-100\r\n\tforged\r\nX-SPAM-Flag: NO\r\n{message}");
            let answer = ask(running, &request("PROCESS", "User: joe\r\n", &forged));
            assert!(answer.body.ends_with(message), "{}", answer.body);
            assert!(
                !answer.body.contains("forged") && !answer.body.contains("X-SPAM-Flag"),
                "{}",
                answer.body
            );
            assert_eq!(answer.body.matches("X-Spam-Status:").count(), 1);
            let headers = ask(running, &request("HEADERS", "", message));
            assert!(headers.body.ends_with("\r\n\r\n") && !headers.body.contains("Dear Bob"));
        }
    });
}

#[test]
fn bytes_may_come_one_by_one() {
    with_spamc(&[], |running| {
        let sent = request("SYMBOLS", "", MESSAGE);
        let whole = running.exchange("spamc", sent.as_bytes());
        let mut stream = TcpStream::connect(running.listener("spamc")).unwrap();
        stream.set_nodelay(true).unwrap();
        for byte in sent.as_bytes() {
            stream.write_all(&[*byte]).unwrap();
        }
        // The length says where the message ends: this side stays open.
        let mut parts = Vec::new();
        stream.read_to_end(&mut parts).unwrap();
        let (parts, whole) = (Answer::of(&parts), Answer::of(&whole));
        assert_eq!((parts.status.as_str(), parts.spam().0), (whole.status.as_str(), whole.spam().0));
    });
}

#[test]
fn requests_without_a_length_end_with_the_connection() {
    with_spamc(&[], |running| {
        for head in ["CHECK SPAMC/1.5\r\n\r\n", "CHECK SPAMC/1.0\r\n", "CHECK SPAMC/1.2\n\n"] {
            assert_eq!(ask(running, &format!("{head}{MESSAGE}")).status, "SPAMD/1.1 0 EX_OK", "{head:?}");
        }
    });
}

#[test]
fn compressed_messages_are_judged_as_what_they_hold() {
    with_spamc(&[("listener.spamc.body_max", "64KiB")], |running| {
        let zlib = |text: &str| {
            let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
            encoder.write_all(text.as_bytes()).unwrap();
            encoder.finish().unwrap()
        };
        // As spamc -z asks: the length is that of what is sent.
        let packed = |command: &str, message: &[u8]| {
            let head =
                format!("{command} SPAMC/1.5\r\nCompress: zlib\r\nContent-length: {}\r\n\r\n", message.len());
            Answer::of(&running.exchange("spamc", &[head.as_bytes(), message].concat()))
        };
        let spam = MESSAGE.replacen("\r\n\r\n", &format!("\r\n\r\n{}\r\n", GTUBE.concat()), 1);
        for (text, word) in [(MESSAGE, "False"), (&spam, "True")] {
            assert_eq!(packed("CHECK", &zlib(text)).spam().0, word);
        }
        let back = packed("PROCESS", &zlib(MESSAGE));
        assert_eq!(back.status, "SPAMD/1.1 0 EX_OK");
        assert!(back.body.contains(MESSAGE.split_once("\r\n\r\n").unwrap().1), "{}", back.body);
        let bomb = packed("CHECK", &zlib(&"a".repeat(1 << 20)));
        assert!(bomb.status.starts_with("SPAMD/1.0 69 "), "{}", bomb.status);
        let cut = zlib(MESSAGE);
        assert!(packed("CHECK", &cut[..cut.len() / 2]).status.starts_with("SPAMD/1.0 76 "));
    });
}

#[test]
fn bad_requests_are_refused() {
    with_spamc(&[("listener.spamc.body_max", "4KiB")], |running| {
        let check = |request: &str, status: &str| {
            let answer = ask(running, request);
            assert!(answer.status.starts_with(status), "{request:.60?}: {}", answer.status);
        };
        check("GET / HTTP/1.1\r\n\r\n", "SPAMD/1.0 76 ");
        check("EXPN SPAMC/1.5\r\n\r\n", "SPAMD/1.0 76 ");
        check("CHECK RSPAMC/1.3\r\n\r\n", "SPAMD/1.0 76 ");
        check("CHECK SPAMC/1.5\r\nContent-length: 10\r\n\r\nshort", "SPAMD/1.0 76 ");
        check("CHECK SPAMC/1.5\r\nContent-length: x\r\n\r\n", "SPAMD/1.0 76 ");
        check("CHECK SPAMC/1.5\r\nno header\r\n\r\n", "SPAMD/1.0 76 ");
        check(&request("CHECK", "Compress: gzip\r\n", MESSAGE), "SPAMD/1.0 76 ");
        check(&request("CHECK", "Compress: zlib\r\n", MESSAGE), "SPAMD/1.0 76 ");
        // What is too long is judged by its first part, and never given back in part.
        let long = format!("{MESSAGE}{}", "a line of text\r\n".repeat(1000));
        check(&request("CHECK", "", &long), "SPAMD/1.1 0 EX_OK");
        check(&request("PROCESS", "", &long), "SPAMD/1.0 69 ");
        assert_eq!(running.exchange("spamc", b"SKIP SPAMC/1.5\r\n\r\n"), b"");
        assert_eq!(running.exchange("spamc", b"CHECK SPAM"), b"");
        // A ping needs no empty line behind it.
        assert_eq!(running.exchange("spamc", b"PING SPAMC/1.2\r\n"), b"SPAMD/1.5 0 PONG\r\n");
    });
}

#[test]
fn what_cannot_be_decided_passes_or_comes_again() {
    let [small, error] = [("listener.spamc.body_max", "1KiB"), ("listener.spamc.oversize", "error")];
    with_spamc(&[small, error], |running| {
        assert_eq!(ask(running, &request("CHECK", "", &long_message())).spam().0, "False");
        let report = ask(running, &request("REPORT", "", &long_message()));
        assert!(report.body.contains("could not judge"), "{}", report.body);
    });
    with_spamc(&[small, error, ("listener.spamc.on_error", "closed")], |running| {
        let answer = ask(running, &request("CHECK", "", &long_message()));
        assert!(answer.status.starts_with("SPAMD/1.0 75 Temporary Failure: "), "{}", answer.status);
    });
}

#[test]
fn what_takes_too_long_passes_or_comes_again() {
    for (on_error, status) in [("open", "SPAMD/1.1 0 EX_OK"), ("closed", "SPAMD/1.0 75 Temporary Failure: ")]
    {
        let settings = [("listener.spamc.timeout", "1ms"), ("listener.spamc.on_error", on_error)];
        with_spamc(&settings, |running| {
            let answer = ask(running, &request("CHECK", "", &slow_message()));
            assert!(answer.status.starts_with(status), "{}", answer.status);
            assert!(running.get("/metrics").body.contains("reason=\"slow\"} 1"));
        });
    }
}

#[test]
fn telling_is_learning() {
    with_spamc(&[("listener.spamc.learn", "true")], |running| {
        let tell = |headers: &str, message: &str| {
            let answer = ask(running, &request("TELL", headers, message));
            assert_eq!(answer.status, "SPAMD/1.1 0 EX_OK", "{headers:?}");
            let did = |name: &str| answer.header(name).unwrap_or_default().to_owned();
            (did("DidSet"), did("DidRemove"))
        };
        let did = |set: &str, removed: &str| (set.to_owned(), removed.to_owned());
        let spam = "Message-class: spam\r\nSet: local\r\n";
        assert_eq!(tell(spam, MESSAGE), did("local", ""));
        assert_eq!(tell(spam, MESSAGE), did("", ""), "it is known");
        let marked = ask(running, &request("PROCESS", "", MESSAGE)).body;
        assert_eq!(tell(spam, &marked), did("", ""), "marks are not the sender's");
        let other = MESSAGE.replace("Monday", "Tuesday");
        let report = "Message-class: spam\r\nSet: local,remote\r\n";
        assert_eq!(tell(report, &other), did("local,remote", ""));
        let third = MESSAGE.replace("Monday", "Friday");
        let revoke = "Message-class: ham\r\nSet: local\r\nRemove: remote\r\n";
        assert_eq!(tell(revoke, &third), did("local", "remote"));
        let forget = "Remove: local\r\n";
        assert_eq!(tell(forget, &marked), did("", "local"), "it was learned as spam");
        assert_eq!(tell(forget, MESSAGE), did("", ""), "there is nothing left");
        assert_eq!(tell(spam, MESSAGE), did("local", ""), "it can be learned again");
        let refused = ask(running, &request("TELL", "Message-class: eggs\r\nSet: local\r\n", MESSAGE));
        assert!(refused.status.starts_with("SPAMD/1.0 76 "), "{}", refused.status);
    });
}
