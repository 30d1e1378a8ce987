//! Envelopes around a log's own lines: entries of the journal, container runtimes' files, heads of syslog.
//!
//! ```text
//! <34>1 2003-10-11T22:14:15.003Z host su 77 ID47 - text     syslog, RFC 5424
//! <34>Oct 11 22:14:15 host su[77]: text                     syslog, RFC 3164, with or without <34>
//! {"__REALTIME_TIMESTAMP":"…","MESSAGE":"text",…}           journalctl -o json
//! __CURSOR=…\nMESSAGE=text\n\n                               journalctl -o export: see `journal_export`
//! {"log":"text\n","stream":"stderr","time":"…"}             Docker
//! 2016-10-06T00:17:09.669794202Z stderr F text              containerd, CRI-O
//! ```
//!
//! Each reads one line, and never fails: a line in another form is `None`.

use std::borrow::Cow;

use event::Time;
use serde_json::{Map, Value};

use crate::date::DateContext;
use crate::date_detector::{DateDetector, LastDate};

/// Most bytes of the name of a host or program.
const NAME_BYTES_MAX: usize = 255;

/// A line without its envelope.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EnvelopedLine<'l> {
    /// The log's own line.
    pub text: Cow<'l, str>,
    /// The time that the envelope shows.
    pub time: Option<Time>,
    /// The host that wrote the line.
    pub host: Option<Cow<'l, str>>,
    /// The program that wrote the line.
    pub program: Option<Cow<'l, str>>,
    /// The number of its process.
    pub process: Option<Cow<'l, str>>,
    /// The severity, from 0 (emergency) to 7 (debug).
    pub severity: Option<u8>,
    /// True if the rest of the line comes with the next one.
    pub is_partial: bool,
}

impl EnvelopedLine<'static> {
    /// Makes a line of an entry of the journal, whose fields are handed out by name.
    pub(crate) fn of_journal(text: impl Fn(&str) -> Option<String>) -> Option<EnvelopedLine<'static>> {
        let message = text("MESSAGE")?;
        let micros = text("_SOURCE_REALTIME_TIMESTAMP").or_else(|| text("__REALTIME_TIMESTAMP"));
        let own = |name: &str| text(name).map(Cow::Owned);
        Some(EnvelopedLine {
            // One entry is one line.
            text: Cow::Owned(message.trim_end_matches('\n').replace('\n', " ")),
            time: micros.and_then(|micros| micros.parse().ok()).map(Time),
            host: own("_HOSTNAME"),
            program: own("SYSLOG_IDENTIFIER").or_else(|| own("_COMM")),
            process: own("SYSLOG_PID").or_else(|| own("_PID")),
            severity: text("PRIORITY").and_then(|text| text.parse().ok()).filter(|severity| *severity < 8),
            is_partial: false,
        })
    }
}

impl EnvelopedLine<'_> {
    /// The line as fail2ban's filters for the journal expect it: `host program[process]: text`.
    pub fn as_short(&self) -> String {
        let mut line = String::new();
        if let Some(host) = &self.host {
            line.push_str(host);
            line.push(' ');
        }
        if let Some(program) = &self.program {
            line.push_str(program);
            if let Some(process) = &self.process {
                line.push('[');
                line.push_str(process);
                line.push(']');
            }
            line.push_str(": ");
        }
        line.push_str(&self.text);
        line
    }
}

/// Reads an entry of the journal as `journalctl -o json` writes it.
pub fn journal(line: &str) -> Option<EnvelopedLine<'static>> {
    let entry: Map<String, Value> = serde_json::from_str(line).ok()?;
    let text = |name: &str| -> Option<String> {
        match entry.get(name)? {
            Value::String(text) => Some(text.clone()),
            // A message with bytes that are no text is a list of numbers.
            Value::Array(bytes) => {
                let bytes: Vec<u8> =
                    bytes.iter().filter_map(|byte| u8::try_from(byte.as_u64()?).ok()).collect();
                Some(String::from_utf8_lossy(&bytes).into_owned())
            }
            Value::Number(number) => Some(number.to_string()),
            _ => None,
        }
    };
    EnvelopedLine::of_journal(text)
}

/// Reads a line of Docker's `json-file` logs.
pub fn docker(line: &str) -> Option<EnvelopedLine<'static>> {
    let mut entry: Map<String, Value> = serde_json::from_str(line).ok()?;
    let Value::String(text) = entry.remove("log")? else { return None };
    let time = entry.get("time").and_then(Value::as_str).and_then(|time| time.parse().ok());
    let is_partial = !text.ends_with('\n');
    let text = text.trim_end_matches(['\r', '\n']).to_owned();
    Some(EnvelopedLine { text: Cow::Owned(text), time, is_partial, ..EnvelopedLine::default() })
}

/// Reads a line of a container runtime (CRI): time, stream, `F` (full) or `P` (partial), text.
pub fn cri(line: &str) -> Option<EnvelopedLine<'_>> {
    let mut parts = line.splitn(4, ' ');
    let (time, stream, tags, text) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    if !matches!(stream, "stdout" | "stderr") {
        return None;
    }
    let is_partial = match tags.split(':').next()? {
        "F" => false,
        "P" => true,
        _ => return None,
    };
    let time = Some(time.parse().ok()?);
    Some(EnvelopedLine { text: Cow::Borrowed(text), time, is_partial, ..EnvelopedLine::default() })
}

/// Reads a line with a head of syslog: RFC 5424, or the older form (RFC 3164) with or without a priority and with
/// any date in front that a detector knows.
pub fn syslog<'l>(
    line: &'l str,
    dates: &DateDetector,
    context: &DateContext,
    last: &mut LastDate,
) -> Option<EnvelopedLine<'l>> {
    let (severity, rest) = priority(line);
    if severity.is_some()
        && let Some(rest) = rest.strip_prefix("1 ")
    {
        return rfc5424(rest, severity);
    }
    let found = dates.find(rest, context, last)?;
    // The date is in front, perhaps in brackets.
    if found.taken.0 > 2 {
        return None;
    }
    let rest = rest[found.taken.1..].trim_start_matches(']').trim_start();
    let (host, rest) = word(rest)?;
    let end = rest.find(": ").or_else(|| rest.strip_suffix(':').map(str::len))?;
    let tag = &rest[..end];
    if tag.contains(' ') || tag.len() > NAME_BYTES_MAX {
        return None;
    }
    let (program, process) = match tag.split_once('[') {
        Some((program, process)) => (program, Some(process.trim_end_matches(']'))),
        None => (tag, None),
    };
    Some(EnvelopedLine {
        text: Cow::Borrowed(rest[end + 1..].trim_start()),
        time: found.time,
        host: Some(Cow::Borrowed(host)),
        program: Some(Cow::Borrowed(program)),
        process: process.map(Cow::Borrowed),
        severity,
        is_partial: false,
    })
}

/// Reads a message as it is sent by syslog: RFC 5424, or anything behind a priority, whose date is then part of the text.
pub fn message(line: &str) -> EnvelopedLine<'_> {
    let (severity, rest) = priority(line);
    let newer = rest.strip_prefix("1 ").filter(|_| severity.is_some());
    newer.and_then(|newer| rfc5424(newer, severity)).unwrap_or_else(|| EnvelopedLine {
        text: Cow::Borrowed(rest),
        severity,
        ..EnvelopedLine::default()
    })
}

/// Reads a priority in angles, and returns the severity and the rest.
fn priority(line: &str) -> (Option<u8>, &str) {
    let read = || {
        let (digits, rest) = line.strip_prefix('<')?.split_once('>')?;
        let priority: u8 = digits.parse().ok()?;
        (priority < 192).then_some((priority % 8, rest))
    };
    match read() {
        Some((severity, rest)) => (Some(severity), rest),
        None => (None, line),
    }
}

/// Reads what stands behind `<priority>1 `.
fn rfc5424(rest: &str, severity: Option<u8>) -> Option<EnvelopedLine<'_>> {
    let (time, rest) = word(rest)?;
    let (host, rest) = word(rest)?;
    let (program, rest) = word(rest)?;
    let (process, rest) = word(rest)?;
    let (_message_id, rest) = word(rest)?;
    let text = match rest.strip_prefix('-') {
        Some(rest) => rest,
        None => &rest[structured_data(rest)?..],
    };
    let some = |word| Some(Cow::Borrowed(word)).filter(|word| *word != "-");
    Some(EnvelopedLine {
        text: Cow::Borrowed(text.strip_prefix(' ').unwrap_or(text).trim_start_matches('\u{feff}')),
        time: time.parse().ok(),
        host: some(host),
        program: some(program),
        process: some(process),
        severity,
        is_partial: false,
    })
}

/// Returns the length of elements in brackets, whose quoted values may have brackets in them.
fn structured_data(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let mut at = 0;
    while bytes.get(at) == Some(&b'[') {
        let mut is_quoted = false;
        let mut is_escaped = false;
        loop {
            at += 1;
            let byte = *bytes.get(at)?;
            match byte {
                _ if is_escaped => is_escaped = false,
                b'\\' if is_quoted => is_escaped = true,
                b'"' => is_quoted = !is_quoted,
                b']' if !is_quoted => break,
                _ => {}
            }
        }
        at += 1;
    }
    (at > 0).then_some(at)
}

fn word(text: &str) -> Option<(&str, &str)> {
    let (word, rest) = text.split_once(' ')?;
    (!word.is_empty() && word.len() <= NAME_BYTES_MAX).then_some((word, rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::tz::TimeZone;

    fn shown(line: Option<EnvelopedLine<'_>>) -> String {
        line.map_or_else(
            || "none".to_owned(),
            |line| {
                let time = line.time.map_or_else(|| "-".to_owned(), |time| time.to_string());
                format!("{time} {:?} {} | {}", line.severity, line.is_partial, line.as_short())
            },
        )
    }

    #[test]
    fn entries_of_the_journal() {
        let check = |line: &str, expected: &str| assert_eq!(shown(journal(line)), expected, "{line}");
        check(
            r#"{"__REALTIME_TIMESTAMP":"1106513999000000","MESSAGE":"Failed\nx","_HOSTNAME":"h","SYSLOG_IDENTIFIER":"sshd","_PID":"7","PRIORITY":"6"}"#,
            "2005-01-23T20:59:59Z Some(6) false | h sshd[7]: Failed x",
        );
        check(r#"{"MESSAGE":[72,255,105]}"#, "- None false | H\u{fffd}i");
        check(r#"{"x":1}"#, "none");
        check("[]", "none");
    }

    #[test]
    fn lines_of_containers() {
        let check = |line: Option<EnvelopedLine<'_>>, expected: &str| assert_eq!(shown(line), expected);
        check(
            docker(r#"{"log":"a b\n","stream":"stderr","time":"2005-01-23T20:59:59Z"}"#),
            "2005-01-23T20:59:59Z None false | a b",
        );
        check(docker(r#"{"log":"a b"}"#), "- None true | a b");
        check(cri("2005-01-23T20:59:59.000000001Z stdout F a b"), "2005-01-23T20:59:59Z None false | a b");
        check(cri("2005-01-23T20:59:59Z stdout P:x a"), "2005-01-23T20:59:59Z None true | a");
        check(cri("2005-01-23T20:59:59Z stdin F a"), "none");
    }

    #[test]
    fn messages_of_syslog() {
        let check = |line: &str, expected: &str| assert_eq!(shown(Some(message(line))), expected, "{line}");
        check(
            "<34>1 2005-01-23T20:59:59Z h su 7 - - text",
            "2005-01-23T20:59:59Z Some(2) false | h su[7]: text",
        );
        check("<34>Oct 11 22:14:15 h su: text", "- Some(2) false | Oct 11 22:14:15 h su: text");
        check("<999>text", "- None false | <999>text");
        check("1 text", "- None false | 1 text");
    }

    #[test]
    fn heads_of_syslog() {
        let dates = DateDetector::new(&[]).expect("detector");
        let context = DateContext { now: "2005-08-14T10:00:00Z".parse().expect("time"), zone: TimeZone::UTC };
        let check = |line: &str, expected: &str| {
            assert_eq!(shown(syslog(line, &dates, &context, &mut LastDate::default())), expected, "{line}");
        };
        check(
            "<34>Jan 23 20:59:59 host su[77]: a: b",
            "2005-01-23T20:59:59Z Some(2) false | host su[77]: a: b",
        );
        check("Jan 23 20:59:59 host kernel: x", "2005-01-23T20:59:59Z None false | host kernel: x");
        check("2005-01-23T21:59:59+01:00 host a/b[1]: x", "2005-01-23T20:59:59Z None false | host a/b[1]: x");
        check(
            r#"<165>1 2005-01-23T20:59:59Z host app 77 ID [a@1 b="]\"c"][d] text"#,
            "2005-01-23T20:59:59Z Some(5) false | host app[77]: text",
        );
        check(
            "<34>1 2005-01-23T20:59:59Z - su - - - \u{feff}text",
            "2005-01-23T20:59:59Z Some(2) false | su: text",
        );
        check("<34>1 2005-01-23T20:59:59Z - su - - [x text", "none");
        check("no head", "none");
        check("Jan 23 20:59:59 no colon here", "none");
    }
}
