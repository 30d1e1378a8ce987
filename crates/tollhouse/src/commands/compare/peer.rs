//! Verdicts of another filter on a message: an rspamd over HTTP, or a spamd in its own protocol.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream, ToSocketAddrs};
use std::time::Duration;

use content::mail::message::Envelope;
use serde::Serialize;
use serde_json::Value;
use ureq::Agent;
use ureq::http::Uri;

use crate::exit::CommandError;

/// Longest time for one answer.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Largest answer that is read.
const ANSWER_BYTES_MAX: u64 = 16 << 20;
/// Most symbols that are kept of an answer.
const SYMBOLS_MAX: usize = 1_000;

/// The filter that is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum PeerKind {
    /// Rspamd's HTTP, with `POST /checkv2`
    Rspamd,
    /// SpamAssassin's spamd, with REPORT
    Spamd,
}

/// A filter that is asked.
pub(super) enum PeerFilter {
    Rspamd { agent: Agent, url: String },
    Spamd { address: String },
}

/// The severity of a filter's action.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum PeerSeverity {
    /// The message passes as it is.
    Pass,
    /// The message passes, marked or set aside.
    Mark,
    /// The message is not taken.
    Refuse,
}

/// The verdict of a filter on a message.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct PeerVerdict {
    /// In its own words.
    pub(super) action: String,
    pub(super) severity: PeerSeverity,
    pub(super) score: f64,
    /// The score from which it objects most; 0 if it has none.
    pub(super) required: f64,
    /// The symbols that the filter found, the weightiest first.
    pub(super) symbols: Vec<PeerSymbol>,
}

/// A symbol that a filter found.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct PeerSymbol {
    pub(super) name: String,
    pub(super) score: f64,
}

impl PeerVerdict {
    pub(super) fn new(
        action: String,
        severity: PeerSeverity,
        score: f64,
        required: f64,
        mut symbols: Vec<PeerSymbol>,
    ) -> PeerVerdict {
        symbols.truncate(SYMBOLS_MAX);
        symbols.sort_by(|a, b| b.score.abs().total_cmp(&a.score.abs()).then_with(|| a.name.cmp(&b.name)));
        PeerVerdict { action, severity, score, required, symbols }
    }
}

impl PeerFilter {
    /// At this address. Nothing is sent yet.
    pub(super) fn new(kind: PeerKind, address: &str) -> Result<PeerFilter, CommandError> {
        match kind {
            PeerKind::Rspamd => {
                let base =
                    if address.contains("://") { address.to_owned() } else { format!("http://{address}") };
                if !base.starts_with("http://") {
                    return Err(CommandError::new(format_args!("{address}: no address of an rspamd"))
                        .help("expected one such as http://127.0.0.1:11333"));
                }
                let config = Agent::config_builder()
                    .http_status_as_error(false)
                    .max_redirects(0)
                    .proxy(None)
                    .timeout_global(Some(TIMEOUT))
                    .build();
                Ok(PeerFilter::Rspamd {
                    agent: config.new_agent(),
                    url: format!("{}/checkv2", base.trim_end_matches('/')),
                })
            }
            PeerKind::Spamd => match address.rsplit_once(':') {
                Some((host, port)) if !host.is_empty() && port.parse::<u16>().is_ok() => {
                    Ok(PeerFilter::Spamd { address: address.to_owned() })
                }
                _ => Err(CommandError::new(format_args!("{address}: no address of a spamd"))
                    .help("expected host and port such as 127.0.0.1:783")),
            },
        }
    }

    /// Checks whether anything listens there, before messages are judged in vain.
    pub(super) fn knock(&self) -> Result<(), CommandError> {
        let address = match self {
            PeerFilter::Rspamd { url, .. } => {
                let uri: Option<Uri> = url.parse().ok();
                let authority = uri.as_ref().and_then(|uri| uri.authority());
                let place = authority.map(|it| (it.host().to_owned(), it.port_u16().unwrap_or(80)));
                place.map(|(host, port)| format!("{host}:{port}")).unwrap_or_default()
            }
            PeerFilter::Spamd { address } => address.clone(),
        };
        TcpStream::connect(&address).map(drop).map_err(|error| {
            CommandError::new(format_args!("nothing answers at {address}: {error}"))
                .help("is the filter running there, and may this host ask it?")
        })
    }

    /// Returns the filter's verdict on a message. The error is for people.
    pub(super) fn ask(&self, message: &[u8], envelope: &Envelope) -> Result<PeerVerdict, String> {
        match self {
            PeerFilter::Rspamd { agent, url } => {
                let mut request = agent.post(url).header("Content-Type", "text/plain");
                let recipients = envelope.recipients.iter().map(|to| ("Rcpt", to.clone()));
                let ip = envelope.client_ip.map(|ip| ("IP", ip.to_string()));
                let others = [("From", &envelope.sender), ("Helo", &envelope.helo), ("User", &envelope.user)];
                let others = others.into_iter().filter_map(|(name, value)| Some((name, value.clone()?)));
                for (name, value) in recipients.chain(ip).chain(others) {
                    // What no header can say is left unsaid.
                    if value.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic()) {
                        request = request.header(name, value);
                    }
                }
                let mut response = request.send(message).map_err(|error| error.to_string())?;
                let status = response.status();
                let body = response.body_mut().with_config().limit(ANSWER_BYTES_MAX).read_to_vec();
                let body = body.map_err(|error| error.to_string())?;
                if !status.is_success() {
                    return Err(format!("it answers {status}"));
                }
                rspamd(&body).ok_or_else(|| "its answer is none of an rspamd".to_owned())
            }
            PeerFilter::Spamd { address } => {
                let answer = exchange(address, message).map_err(|error| error.to_string())?;
                spamd(&answer).ok_or_else(|| {
                    let line = String::from_utf8_lossy(&answer);
                    format!("its answer is none of a spamd: {}", line.lines().next().unwrap_or_default())
                })
            }
        }
    }
}

fn exchange(address: &str, message: &[u8]) -> io::Result<Vec<u8>> {
    let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for address in address.to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, TIMEOUT) {
            Ok(mut stream) => {
                stream.set_read_timeout(Some(TIMEOUT))?;
                stream.set_write_timeout(Some(TIMEOUT))?;
                write!(stream, "REPORT SPAMC/1.5\r\nContent-length: {}\r\n\r\n", message.len())?;
                stream.write_all(message)?;
                stream.shutdown(Shutdown::Write)?;
                let mut answer = Vec::new();
                stream.take(ANSWER_BYTES_MAX).read_to_end(&mut answer)?;
                return Ok(answer);
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Reads an answer to `/checkv2`.
fn rspamd(body: &[u8]) -> Option<PeerVerdict> {
    let answer: Value = serde_json::from_slice(body).ok()?;
    let action = answer.get("action")?.as_str()?.to_owned();
    let severity = match action.as_str() {
        "no action" | "accept" | "greylist" => PeerSeverity::Pass,
        "add header" | "rewrite subject" | "quarantine" => PeerSeverity::Mark,
        _ => PeerSeverity::Refuse,
    };
    let symbols = answer.get("symbols")?.as_object()?.iter();
    let symbol = |(name, symbol): (&String, &Value)| {
        Some(PeerSymbol { name: name.clone(), score: symbol.get("score")?.as_f64()? })
    };
    let required = answer.get("required_score").and_then(Value::as_f64).unwrap_or_default();
    Some(PeerVerdict::new(
        action,
        severity,
        answer.get("score")?.as_f64()?,
        required,
        symbols.filter_map(symbol).collect(),
    ))
}

/// Reads an answer to REPORT: the header, and the rows of the table that the report ends with.
fn spamd(answer: &[u8]) -> Option<PeerVerdict> {
    let text = String::from_utf8_lossy(answer);
    let (head, report) = text.split_once("\r\n\r\n")?;
    let status = head.lines().next()?.strip_prefix("SPAMD/")?;
    let ok = status.split(' ').nth(1) == Some("0");
    let spam = head.lines().find_map(|line| line.strip_prefix("Spam: "))?;
    let (word, scores) = spam.split_once(';')?;
    let (score, required) = scores.split_once('/')?;
    let (score, required): (f64, f64) = (score.trim().parse().ok()?, required.trim().parse().ok()?);
    let is_spam = matches!(word.trim(), "True" | "Yes");
    let rows = report.lines().skip_while(|line| !line.starts_with("----")).skip(1);
    let symbol = |line: &str| {
        let mut words = line.split_whitespace();
        let score = words.next()?.parse().ok()?;
        let name = words.next()?;
        // Long descriptions go on in lines of their own, far to the right.
        let begins = line.find(|letter: char| letter != ' ')? < 6;
        (begins && name.bytes().any(|byte| byte.is_ascii_uppercase()))
            .then(|| PeerSymbol { name: name.to_owned(), score })
    };
    let (action, severity) = if is_spam { ("spam", PeerSeverity::Mark) } else { ("ham", PeerSeverity::Pass) };
    ok.then(|| {
        PeerVerdict::new(action.to_owned(), severity, score, required, rows.filter_map(symbol).collect())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(said: &PeerVerdict) -> Vec<(&str, f64)> {
        said.symbols.iter().map(|symbol| (symbol.name.as_str(), symbol.score)).collect()
    }

    #[test]
    fn rspamds_answers_are_read() {
        let said = rspamd(
            br#"{"is_skipped":false,"score":7.5,"required_score":15.0,"action":"add header","symbols":{
                "A":{"name":"A","score":-0.5,"options":["x"]},"B":{"name":"B","score":8.0}},"messages":{}}"#,
        )
        .unwrap();
        assert_eq!(
            (said.action.as_str(), said.severity, said.score, said.required),
            ("add header", PeerSeverity::Mark, 7.5, 15.0)
        );
        assert_eq!(names(&said), [("B", 8.0), ("A", -0.5)]);
        assert_eq!(rspamd(b"{\"error\":\"no\"}"), None);
        assert_eq!(rspamd(b"<html>"), None);
    }

    #[test]
    fn spamds_reports_are_read() {
        let said = spamd(
            b"SPAMD/1.1 0 EX_OK\r\nContent-length: 1298\r\nSpam: True ; 8.6 / 5.0\r\n\r\nSpam detection software\n\n\
            Content analysis details:   (8.6 points, 5.0 required)\n\n pts rule name              description\n\
            ---- ---------------------- --------------------------------------------------\n 2.5 BAYES_60               BODY: Bayes\n\
            \x20                           [score: 0.6488]\n-1.0 MAILING_LIST_MULTI     Multiple indicators\n\
            \x20                           5 LINES of it\n\n",
        )
        .unwrap();
        assert_eq!(
            (said.action.as_str(), said.severity, said.score, said.required),
            ("spam", PeerSeverity::Mark, 8.6, 5.0)
        );
        assert_eq!(names(&said), [("BAYES_60", 2.5), ("MAILING_LIST_MULTI", -1.0)]);
        let ham = spamd(b"SPAMD/1.1 0 EX_OK\r\nSpam: False ; 0.1 / 5.0\r\n\r\n").unwrap();
        assert_eq!((ham.severity, ham.symbols.len()), (PeerSeverity::Pass, 0));
        assert_eq!(spamd(b"SPAMD/1.0 76 Bad header line: x\r\n"), None);
        assert_eq!(spamd(b"HTTP/1.1 400 Bad Request\r\n\r\n"), None);
    }

    #[test]
    fn addresses_are_checked() {
        for (kind, address, good) in [
            (PeerKind::Rspamd, "http://127.0.0.1:11333", true),
            (PeerKind::Rspamd, "127.0.0.1:11333", true),
            (PeerKind::Rspamd, "https://example.org", false),
            (PeerKind::Spamd, "127.0.0.1:783", true),
            (PeerKind::Spamd, "localhost", false),
        ] {
            assert_eq!(PeerFilter::new(kind, address).is_ok(), good, "{address}");
        }
    }
}
