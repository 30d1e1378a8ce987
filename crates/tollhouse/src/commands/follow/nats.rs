//! A durable pull consumer of NATS JetStream: the few lines of its protocol that this takes, over a plain connection.
//!
//! ```text
//! CONNECT, SUB inbox ─► create the consumer ─► ask for some messages ─► MSG, HMSG … ─► handed over ─► +ACK each
//! ```
//!
//! What is not acknowledged comes again, to this process or the next one. A message is named after its stream, when that was
//! made, and its sequence number there, so it counts once: a stream that was made anew has the same numbers again. (docs.nats.io, "Client Protocol"; ADR-13, "Pull Subscribe internals".)

use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};

/// Longest control line.
const LINE_MAX: u64 = 64 << 10;
/// Longest message that is taken.
const MESSAGE_MAX: usize = 8 << 20;
/// The time that the server is to wait for messages before it says that there are no more.
const WAIT: Duration = Duration::from_millis(250);
/// The time in which nothing at all may come: then the connection is given up.
const SILENCE: Duration = Duration::from_secs(30);
/// After so long an unacknowledged message comes again.
const ACK_WAIT: Duration = Duration::from_secs(60);
const PORT: u16 = 4222;

/// A message of a stream.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NatsMessage {
    /// `STREAM@CREATED:SEQUENCE`.
    pub(super) name: String,
    pub(super) payload: Vec<u8>,
    /// Where it is acknowledged.
    reply: String,
}

/// The operation that comes from the server.
#[derive(Debug, PartialEq, Eq)]
enum NatsOp {
    Info,
    Ping,
    Other,
    Failed(String),
    /// A message: reply subject, status of its headers if they have one, payload.
    Message {
        reply: String,
        status: Option<u16>,
        payload: Vec<u8>,
    },
}

/// The answer of JetStream, as far as it is needed.
#[derive(Deserialize)]
struct JetStreamAnswer {
    error: Option<JetStreamProblem>,
    created: Option<String>,
}

#[derive(Deserialize)]
struct JetStreamProblem {
    description: String,
}

/// A connection with a consumer.
pub(super) struct NatsConsumer {
    reader: BufReader<TcpStream>,
    stream: String,
    /// When the stream was made, as the server says it.
    created: String,
    consumer: String,
    /// Where the server answers: a subject of this connection's own, or several would hear each other's messages.
    inbox: String,
}

fn invalid(why: impl Into<String>) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, why.into())
}

impl NatsConsumer {
    /// Connects and makes the consumer, unless there is one of this name.
    pub(super) fn open(url: &str, stream: &str, consumer: &str) -> io::Result<NatsConsumer> {
        // They become part of subjects.
        let is_name = |name: &str| {
            !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
        };
        if !is_name(stream) || !is_name(consumer) {
            return Err(invalid("names of streams and consumers have letters, digits, `-` and `_`"));
        }
        let rest = url.strip_prefix("nats://").ok_or_else(|| invalid("expected nats://HOST:PORT"))?;
        let (user, host) = rest.rsplit_once('@').map_or((None, rest), |(user, host)| (Some(user), host));
        let host = host.trim_end_matches('/');
        let has_port = host.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
        let address = if has_port { host.to_owned() } else { format!("{host}:{PORT}") };
        let connection = TcpStream::connect(address)?;
        connection.set_read_timeout(Some(SILENCE))?;
        connection.set_write_timeout(Some(SILENCE))?;
        connection.set_nodelay(true)?;
        let (stream, consumer) = (stream.to_owned(), consumer.to_owned());
        let inbox = format!("_INBOX.tollhouse-{:016x}", RandomState::new().build_hasher().finish());
        let reader = BufReader::new(connection);
        let mut open = NatsConsumer { reader, stream, created: String::new(), consumer, inbox };
        if !matches!(read(&mut open.reader)?, NatsOp::Info) {
            return Err(invalid("this is no NATS server"));
        }
        let mut options = json!({
            "verbose": false, "pedantic": false, "headers": true, "no_responders": true, "name": "tollhouse",
            "lang": "rust", "version": env!("CARGO_PKG_VERSION"), "protocol": 1,
        });
        match user.map(|user| user.split_once(':')) {
            Some(Some((user, pass))) => (options["user"], options["pass"]) = (json!(user), json!(pass)),
            Some(None) => options["auth_token"] = json!(user),
            None => {}
        }
        open.write(&format!("CONNECT {options}\r\nSUB {} 1\r\nPING\r\n", open.inbox))?;
        open.create()?;
        open.created = open.look()?;
        Ok(open)
    }

    fn write(&mut self, text: &str) -> io::Result<()> {
        self.reader.get_mut().write_all(text.as_bytes())
    }

    /// Asks something that is answered to the inbox.
    fn ask(&mut self, subject: &str, body: &Value) -> io::Result<()> {
        let body = body.to_string();
        self.write(&format!("PUB {subject} {} {}\r\n{body}\r\n", self.inbox, body.len()))
    }

    fn create(&mut self) -> io::Result<()> {
        let subject = format!("$JS.API.CONSUMER.DURABLE.CREATE.{}.{}", self.stream, self.consumer);
        let config = json!({
            "stream_name": self.stream,
            "config": {
                "durable_name": self.consumer,
                "deliver_policy": "all",
                "ack_policy": "explicit",
                "ack_wait": ACK_WAIT.as_nanos() as u64,
            },
        });
        self.ask(&subject, &config)?;
        self.answer().map(|_| ())
    }

    /// When the stream was made.
    fn look(&mut self) -> io::Result<String> {
        let subject = format!("$JS.API.STREAM.INFO.{}", self.stream);
        self.ask(&subject, &json!({}))?;
        let created = self.answer()?.created;
        created.ok_or_else(|| {
            invalid(format!("stream `{}`: the server does not say when it was made", self.stream))
        })
    }

    /// The answer to something that was asked of JetStream.
    fn answer(&mut self) -> io::Result<JetStreamAnswer> {
        match self.next()? {
            NatsOp::Message { status: Some(503), .. } => Err(invalid("the server has no JetStream")),
            NatsOp::Message { payload, .. } => match serde_json::from_slice(&payload) {
                Ok(JetStreamAnswer { error: Some(problem), .. }) => {
                    Err(invalid(format!("stream `{}`: {}", self.stream, problem.description)))
                }
                Ok(answer) => Ok(answer),
                Err(error) => Err(invalid(error.to_string())),
            },
            _ => Err(invalid("the server does not answer")),
        }
    }

    /// The next message, whatever it is.
    fn next(&mut self) -> io::Result<NatsOp> {
        loop {
            match read(&mut self.reader)? {
                NatsOp::Ping => self.write("PONG\r\n")?,
                NatsOp::Failed(why) => return Err(invalid(why)),
                message @ NatsOp::Message { .. } => return Ok(message),
                NatsOp::Info | NatsOp::Other => {}
            }
        }
    }

    /// The next messages, at most so many; none if there were none for a while.
    pub(super) fn take(&mut self, most: usize) -> io::Result<Vec<NatsMessage>> {
        let subject = format!("$JS.API.CONSUMER.MSG.NEXT.{}.{}", self.stream, self.consumer);
        let wanted = json!({"batch": most, "expires": WAIT.as_nanos() as u64});
        self.ask(&subject, &wanted)?;
        let mut messages = Vec::new();
        while messages.len() < most {
            match self.next()? {
                // 404 and 408: there are no more. 409: the consumer was deleted, or the server is shutting down.
                NatsOp::Message { status: Some(404 | 408), .. } => break,
                NatsOp::Message { status: Some(status), .. } => {
                    return Err(invalid(format!("the server says {status}")));
                }
                NatsOp::Message { reply, status: None, payload } => {
                    let Some(sequence) = sequence(&reply) else { continue };
                    let name = format!("{}@{}:{sequence}", self.stream, self.created);
                    messages.push(NatsMessage { name, payload, reply });
                }
                _ => {}
            }
        }
        Ok(messages)
    }

    /// Says that messages need not come again.
    pub(super) fn acknowledge(&mut self, messages: &[NatsMessage]) -> io::Result<()> {
        let text: String =
            messages.iter().map(|message| format!("PUB {} 4\r\n+ACK\r\n", message.reply)).collect();
        self.write(&text)
    }
}

/// A message's sequence number in its stream: `$JS.ACK.STREAM.CONSUMER.DELIVERED.SEQUENCE...`, in newer servers with domain
/// and account before the stream.
fn sequence(reply: &str) -> Option<u64> {
    let parts: Vec<&str> = reply.strip_prefix("$JS.ACK.")?.split('.').collect();
    let at = if parts.len() >= 9 { 5 } else { 3 };
    parts.get(at)?.parse().ok()
}

/// Reads what comes next.
fn read(reader: &mut impl BufRead) -> io::Result<NatsOp> {
    let mut line = Vec::new();
    reader.by_ref().take(LINE_MAX).read_until(b'\n', &mut line)?;
    if !line.ends_with(b"\n") {
        return Err(if line.is_empty() {
            ErrorKind::UnexpectedEof.into()
        } else {
            invalid("a line is too long")
        });
    }
    let line = String::from_utf8_lossy(&line);
    let mut words = line.split_ascii_whitespace();
    let verb = words.next().unwrap_or_default().to_ascii_uppercase();
    let words: Vec<&str> = words.collect();
    let number = |text: &str| text.parse::<usize>().ok().filter(|number| *number <= MESSAGE_MAX);
    let wrong = || invalid("a message is framed wrongly, or too large");
    Ok(match (verb.as_str(), words.as_slice()) {
        ("INFO", _) => NatsOp::Info,
        ("PING", _) => NatsOp::Ping,
        ("-ERR", _) => NatsOp::Failed(line.trim().to_owned()),
        ("MSG", [_, _, rest @ .., total]) if rest.len() <= 1 => {
            let payload = body(reader, number(total).ok_or_else(wrong)?)?;
            NatsOp::Message {
                reply: rest.first().map(|reply| (*reply).to_owned()).unwrap_or_default(),
                status: None,
                payload,
            }
        }
        ("HMSG", [_, _, rest @ .., head, total]) if rest.len() <= 1 => {
            let (head, total) = number(head).zip(number(total)).ok_or_else(wrong)?;
            let mut payload = body(reader, total)?;
            let behind = payload.split_off(head.min(total));
            // The first line of headers may have a status: `NATS/1.0 408 Request Timeout`.
            let first = payload.split(|byte| *byte == b'\r').next().unwrap_or_default();
            let status =
                String::from_utf8_lossy(first).split(' ').nth(1).and_then(|status| status.parse().ok());
            NatsOp::Message {
                reply: rest.first().map(|reply| (*reply).to_owned()).unwrap_or_default(),
                status,
                payload: behind,
            }
        }
        ("MSG" | "HMSG", _) => return Err(wrong()),
        _ => NatsOp::Other,
    })
}

/// Reads a payload and its line end. Memory grows with what has come, not with what was said.
fn body(reader: &mut impl BufRead, length: usize) -> io::Result<Vec<u8>> {
    let mut payload = Vec::new();
    reader.by_ref().take(length as u64 + 2).read_to_end(&mut payload)?;
    if payload.len() != length + 2 || !payload.ends_with(b"\r\n") {
        return Err(invalid("a message ends early"));
    }
    payload.truncate(length);
    Ok(payload)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(bytes: &[u8], expected: Option<NatsOp>) {
        assert_eq!(read(&mut &bytes[..]).ok(), expected, "{}", String::from_utf8_lossy(bytes));
    }

    #[test]
    fn what_the_server_says_is_read() {
        check(b"INFO {\"a\":1}\r\n", Some(NatsOp::Info));
        check(b"PING\r\n", Some(NatsOp::Ping));
        check(b"+OK\r\n", Some(NatsOp::Other));
        check(
            b"-ERR 'Authorization Violation'\r\n",
            Some(NatsOp::Failed("-ERR 'Authorization Violation'".into())),
        );
        let message = |reply: &str, status, payload: &[u8]| {
            Some(NatsOp::Message { reply: reply.into(), status, payload: payload.to_vec() })
        };
        check(b"MSG a 1 5\r\nhello\r\n", message("", None, b"hello"));
        check(b"MSG a 1 $JS.ACK.x 5\r\nhello\r\n", message("$JS.ACK.x", None, b"hello"));
        check(b"HMSG a 1 33 33\r\nNATS/1.0 408 Request Timeout\r\n\r\n\r\n", None);
        check(b"HMSG a 1 32 32\r\nNATS/1.0 408 Request Timeout\r\n\r\n\r\n", message("", Some(408), b""));
        check(b"HMSG a 1 r 18 20\r\nNATS/1.0\r\nA: b\r\n\r\nhi\r\n", message("r", None, b"hi"));
        check(b"MSG a 1 5\r\nhell", None);
        check(b"MSG a 1 99999999999\r\n", None);
        check(b"MSG a\r\n", None);
        check(b"", None);
    }

    #[test]
    fn messages_are_named_after_their_place() {
        assert_eq!(sequence("$JS.ACK.EVENTS.toll.1.42.7.1700000000000000000.0"), Some(42));
        assert_eq!(sequence("$JS.ACK.domain.acc.EVENTS.toll.1.42.7.1700000000000000000.0"), Some(42));
        assert_eq!(sequence("elsewhere"), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200), verb in 0..4usize) {
            let verb = [&b""[..], b"MSG a 1 ", b"HMSG a 1 ", b"HMSG a 1 4 "][verb];
            let all = [verb, &bytes].concat();
            if let Ok(NatsOp::Message { payload, .. }) = read(&mut all.as_slice()) {
                prop_assert!(payload.len() <= all.len());
            }
        }
    }
}
