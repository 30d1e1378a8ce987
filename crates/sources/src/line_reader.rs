//! Lines of a source into events, by their format.

use std::collections::BTreeMap;
use std::sync::Arc;

use content::web::log_format::AccessLogFormat;
use content::web::w3c_log;
use event::{Event, Time};
use jiff::tz::TimeZone;
use logs::csv::CsvColumns;
use logs::date::DateContext;
use logs::date_detector::{DateDetector, LastDate};
use logs::envelope;
use logs::log_stream::{LogStream, StreamLine, zone};
use serde_json::{Map, Value};

use crate::LINE_BYTES_MAX;
use crate::journal_follower::JOURNAL_ORIGIN;

/// The file that says the machine's time zone.
const LOCAL_ZONE: &str = "/etc/localtime";
/// Most origins whose earlier lines are remembered.
const ORIGINS_MAX: usize = 2_000;

/// The format of lines.
pub enum SourceLineFormat {
    /// Access logs in a format of one's own, or in any that is known.
    AccessLog(Option<Arc<AccessLogFormat>>),
    /// Events as JSON objects.
    Ndjson,
    /// Events as comma-separated values.
    Csv(CsvColumns),
    /// Lines of any log, by the patterns of a pipeline.
    Log(Box<LogStream>),
}

/// The envelope of a source's lines, taken off before they are read. Patterns of a pipeline read their own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SourceEnvelope {
    /// None.
    #[default]
    Plain,
    /// Messages of syslog.
    Syslog,
    /// Lines of Docker's `json-file`.
    Docker,
}

/// A reader of the lines of one source, which may have several origins.
pub struct SourceLineReader {
    format: SourceLineFormat,
    zone: TimeZone,
    envelope: SourceEnvelope,
    /// The forms of dates in heads of syslog, where lines have such heads.
    dates: Option<DateDetector>,
    /// The memory of earlier lines, by origin.
    streams: BTreeMap<Arc<str>, LogStream>,
}

/// The place of a line: its origin, and its name if it has one.
#[derive(Clone, Copy, Debug)]
pub struct LinePlace<'l> {
    /// The origin.
    pub origin: &'l Arc<str>,
    /// The name.
    pub name: Option<&'l str>,
}

/// The meaning of a line.
#[derive(Clone, Debug, PartialEq)]
pub enum ReadLine {
    /// An event.
    Event(Box<Event>),
    /// An event as a JSON object.
    Object(Map<String, Value>),
    /// A line that is read, but that reports nothing by itself.
    Silent,
    /// A line that no pattern reads.
    Unread,
}

impl SourceLineReader {
    /// A reader of lines in a format. The zone is that of times that name none.
    pub fn new(format: SourceLineFormat, zone: TimeZone) -> SourceLineReader {
        let envelope = SourceEnvelope::Plain;
        SourceLineReader { format, zone, envelope, dates: None, streams: BTreeMap::new() }
    }

    /// Returns this reader for lines in an envelope.
    #[must_use]
    pub fn in_envelope(self, envelope: SourceEnvelope) -> SourceLineReader {
        let dates = (envelope == SourceEnvelope::Syslog).then(|| DateDetector::new(&[]).ok()).flatten();
        SourceLineReader { envelope, dates, ..self }
    }

    /// Returns true if lines are read by patterns.
    pub fn is_by_patterns(&self) -> bool {
        matches!(self.format, SourceLineFormat::Log(_))
    }

    /// Returns true if every byte of a line means something, and so do empty lines.
    pub fn minds_blanks(&self) -> bool {
        matches!(&self.format, SourceLineFormat::Log(stream) if stream.minds_blanks())
    }

    /// Returns a line without the blanks that mean nothing; `None` if nothing is left of it.
    pub fn trimmed<'l>(&self, line: &'l [u8]) -> Option<&'l [u8]> {
        if self.minds_blanks() {
            return Some(line);
        }
        // Patterns mind spaces in front.
        let line = if self.is_by_patterns() { line.trim_ascii_end() } else { line.trim_ascii() };
        (!line.is_empty()).then_some(line)
    }

    /// Returns true if the first line of each file is a heading.
    pub fn is_headed(&self) -> bool {
        matches!(&self.format, SourceLineFormat::Csv(columns) if columns.is_headed())
    }

    /// Reads a line. An event is called by the line's name, unless it has one. `head` is the heading that holds for the
    /// origin, which a line may replace.
    ///
    /// # Errors
    /// If it is too long, or no event.
    pub fn read(
        &mut self,
        line: &[u8],
        place: LinePlace<'_>,
        head: &mut Option<String>,
        now: Time,
    ) -> Result<ReadLine, String> {
        if line.strip_suffix(b"\n").unwrap_or(line).len() > LINE_BYTES_MAX {
            if let Some(stream) = self.streams.get_mut(place.origin) {
                stream.pass_over();
            }
            return Err(format!("longer than {LINE_BYTES_MAX} bytes"));
        }
        if let SourceLineFormat::Log(first) = &mut self.format {
            if self.streams.len() >= ORIGINS_MAX && !self.streams.contains_key(place.origin) {
                self.streams.clear();
            }
            let stream = self.streams.entry(Arc::clone(place.origin)).or_insert_with(|| {
                let mut stream = first.another();
                if let Some(kept) = head {
                    stream.restore(kept);
                }
                stream
            });
            return Ok(match stream.read(line, now) {
                StreamLine::Event(event) => named(*event, place),
                StreamLine::Silent => ReadLine::Silent,
                StreamLine::Unread => ReadLine::Unread,
            });
        }
        let unpacked = self.unpacked(line, place, now);
        let line = unpacked.as_deref().map_or(line, str::as_bytes);
        match &self.format {
            SourceLineFormat::Csv(columns) => csv(columns, line, place, head),
            SourceLineFormat::Ndjson => {
                let mut object: Map<String, Value> =
                    serde_json::from_slice(line).map_err(|error| format!("no JSON object: {error}"))?;
                if let Some(name) = place.name {
                    object.entry("id").or_insert(Value::String(name.to_owned()));
                }
                Ok(ReadLine::Object(object))
            }
            SourceLineFormat::AccessLog(Some(format)) => {
                format.event(line).map(|event| named(event, place)).map_err(|error| error.to_string())
            }
            SourceLineFormat::AccessLog(None) | SourceLineFormat::Log(_) => {
                access_log(line, place, head, &self.zone)
            }
        }
    }

    /// Returns the heading that holds behind the last line of an origin, to be kept with its position: with patterns that is what
    /// has begun there and not ended.
    pub fn head_behind(&self, origin: &Arc<str>, head: Option<String>) -> Option<String> {
        match &self.format {
            SourceLineFormat::Log(_) => self.streams.get(origin).and_then(LogStream::kept),
            _ => head,
        }
    }

    /// The line without its envelope; `None` if it has none.
    fn unpacked(&self, line: &[u8], place: LinePlace<'_>, now: Time) -> Option<String> {
        let text = String::from_utf8_lossy(line);
        if place.origin.as_ref() == JOURNAL_ORIGIN {
            return envelope::journal(&text).map(|entry| entry.text.into_owned());
        }
        if self.envelope == SourceEnvelope::Docker {
            return envelope::docker(&text).map(|line| line.text.into_owned());
        }
        let Some(dates) = self.dates.as_ref() else { return self.of_container(&text) };
        let context = DateContext { now, zone: self.zone.clone() };
        let message = envelope::syslog(&text, dates, &context, &mut LastDate::default());
        Some(message.unwrap_or_else(|| envelope::message(&text)).text.into_owned())
    }
}

/// Most bytes of what a container runtime writes before a line.
const CONTAINER_HEAD_BYTES: usize = 60;

impl SourceLineReader {
    /// An access log's line that a container runtime has wrapped, which no access log looks like.
    fn of_container(&self, text: &str) -> Option<String> {
        if !matches!(self.format, SourceLineFormat::AccessLog(_)) {
            return None;
        }
        if text.starts_with("{\"log\":") {
            return envelope::docker(text).map(|line| line.text.into_owned());
        }
        let head = &text[..text.floor_char_boundary(CONTAINER_HEAD_BYTES)];
        let is_wrapped = head.contains(" stdout ") || head.contains(" stderr ");
        is_wrapped.then(|| envelope::cri(text)).flatten().map(|line| line.text.into_owned())
    }
}

fn named(mut event: Event, place: LinePlace<'_>) -> ReadLine {
    event.id = event.id.or(place.name.map(str::to_owned));
    ReadLine::Event(Box::new(event))
}

/// Reads a line of an access log, or a heading of the extended log format, by which further lines are read.
fn access_log(
    line: &[u8],
    place: LinePlace<'_>,
    head: &mut Option<String>,
    zone: &TimeZone,
) -> Result<ReadLine, String> {
    if line.starts_with(b"#") {
        if line.starts_with(w3c_log::FIELDS.as_bytes()) {
            *head = Some(String::from_utf8_lossy(line).into_owned());
        }
        return Ok(ReadLine::Silent);
    }
    let read = match head {
        Some(head) => w3c_log::event(head, line),
        None => content::web::access_log::event_in_zone(line, zone),
    };
    read.map(|event| named(event, place)).map_err(|error| error.to_string())
}

fn csv(
    columns: &CsvColumns,
    line: &[u8],
    place: LinePlace<'_>,
    head: &mut Option<String>,
) -> Result<ReadLine, String> {
    let line = String::from_utf8_lossy(line);
    if columns.is_headed() && head.is_none() {
        *head = Some(line.into_owned());
        return Ok(ReadLine::Silent);
    }
    let mut object = Map::new();
    let heading = head.as_deref().unwrap_or_default();
    columns.read(heading, &line, |name, value| {
        object.insert(name.to_owned(), Value::String(value.into_owned()));
    })?;
    if let Some(name) = place.name {
        object.entry("id").or_insert(Value::String(name.to_owned()));
    }
    Ok(ReadLine::Object(object))
}

/// The zone of this machine: that of `TZ`, or of the system.
pub fn machine_zone() -> TimeZone {
    let named = std::env::var("TZ").ok().filter(|name| !name.is_empty());
    let of_system = || TimeZone::tzif("Local", &std::fs::read(LOCAL_ZONE).ok()?).ok();
    named.and_then(|name| zone(name.trim_start_matches(':'))).or_else(of_system).unwrap_or(TimeZone::UTC)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(reader: &mut SourceLineReader, origin: &str, lines: &[&str], expected: &[&str]) {
        let (origin, mut head) = (Arc::from(origin), None);
        let now = "2012-08-16T10:00:00Z".parse().unwrap();
        let mut shown = Vec::new();
        for line in lines {
            let place = LinePlace { origin: &origin, name: Some("n") };
            shown.push(match reader.read(line.as_bytes(), place, &mut head, now) {
                Ok(ReadLine::Event(event)) => {
                    let path = event.get("http.path").map(ToString::to_string).unwrap_or_default();
                    format!("{} {path}", event.id.unwrap_or_default())
                }
                Ok(ReadLine::Object(object)) => Value::Object(object).to_string(),
                Ok(ReadLine::Silent) => "silent".to_owned(),
                Ok(ReadLine::Unread) => "unread".to_owned(),
                Err(why) => why,
            });
        }
        assert_eq!(shown, expected);
    }

    #[test]
    fn headings_change_on_the_way() {
        let mut reader = SourceLineReader::new(SourceLineFormat::AccessLog(None), TimeZone::UTC);
        check(
            &mut reader,
            "log",
            &[
                r#"192.0.2.1 - - [08/Dec/2021:13:59:39 +0000] "GET /clf HTTP/1.1" 200 352"#,
                "#Software: Microsoft Internet Information Services 10.0",
                "#Fields: date time c-ip cs-uri-stem",
                "2012-08-16 00:47:36 192.0.2.1 /a",
                "#Fields: date time cs-uri-stem c-ip",
                "2012-08-16 00:47:36 /b 192.0.2.1",
                "2012-08-16 00:47:36 192.0.2.1 /b",
            ],
            &[
                "n /clf",
                "silent",
                "silent",
                "n /a",
                "silent",
                "n /b",
                "expected the client's address at byte 30 of the line",
            ],
        );
    }

    #[test]
    fn columns_are_named_by_the_heading() {
        let columns = CsvColumns { names: Vec::new(), separator: b',' };
        let mut reader = SourceLineReader::new(SourceLineFormat::Csv(columns), TimeZone::UTC);
        assert!(reader.is_headed());
        let lines = ["user,id", "ann,7", "bob", "a,b,c"];
        let first = r#"{"id":"7","user":"ann"}"#;
        check(
            &mut reader,
            "log",
            &lines,
            &["silent", first, r#"{"id":"n","user":"bob"}"#, "more values than columns"],
        );
    }

    #[test]
    fn formats_of_ones_own_are_read_in_envelopes_too() {
        let format = AccessLogFormat::new("$time_iso8601 $remote_addr \"$request\"", |_| false).unwrap();
        let format = SourceLineFormat::AccessLog(Some(Arc::new(format)));
        let mut reader = SourceLineReader::new(format, TimeZone::UTC);
        let line = r#"2021-12-08T13:59:39+00:00 192.0.2.1 "GET /a HTTP/1.1""#;
        let docker = serde_json::json!({"log": format!("{line}\n"), "stream": "stdout"}).to_string();
        let cri = format!("2021-12-08T13:59:39.1Z stdout F {line}");
        check(&mut reader, "log", &[line, &docker, &cri], &["n /a"; 3]);
        let other = r#"192.0.2.1 - - [08/Dec/2021:13:59:39 +0000] "GET /a HTTP/1.1" 200 352"#;
        check(&mut reader, "log", &[other], &["expected a time at byte 0 of the line"]);
    }

    #[test]
    fn entries_of_the_journal_keep_their_empty_lines() {
        let patterns = logs::log_reader::LogPatterns {
            patterns: vec!["failed from <HOST>$".to_owned()],
            ..Default::default()
        };
        let envelope = logs::log_stream::LogEnvelope::JournalExport;
        let settings = logs::log_stream::LogSettings { patterns, envelope, ..Default::default() };
        let stream = settings.open(TimeZone::UTC).unwrap();
        let mut reader = SourceLineReader::new(SourceLineFormat::Log(Box::new(stream)), TimeZone::UTC);
        assert_eq!(reader.trimmed(b"\n"), Some(b"\n".as_slice()));
        assert_eq!(reader.trimmed(b"MESSAGE= \n"), Some(b"MESSAGE= \n".as_slice()));
        let entry = ["__CURSOR=s=1\n", "MESSAGE=failed from 192.0.2.1\n", "\n"];
        check(&mut reader, "journal", &entry, &["silent", "silent", "n "]);
        // A line that is too long costs its entry, whatever it has in it.
        let long = format!("MESSAGE={}\n", "x".repeat(LINE_BYTES_MAX));
        let too_long = format!("longer than {LINE_BYTES_MAX} bytes");
        check(
            &mut reader,
            "journal",
            &[entry[0], &long, entry[1], "\n"],
            &["silent", &too_long, "silent", "silent"],
        );
        check(&mut reader, "journal", &entry, &["silent", "silent", "n "]);
        let plain = SourceLineReader::new(SourceLineFormat::AccessLog(None), TimeZone::UTC);
        assert_eq!((plain.trimmed(b" \n"), plain.trimmed(b" a \n")), (None, Some(b"a".as_slice())));
    }

    /// An entry that is half read when the program ends is whole after it: each line is read by a reader of its own.
    #[test]
    fn what_has_begun_is_kept_with_the_position() {
        let patterns = logs::log_reader::LogPatterns {
            patterns: vec!["failed from <HOST>$".to_owned()],
            ..Default::default()
        };
        let (origin, now) = (Arc::from("export"), "2012-08-16T10:00:00Z".parse().unwrap());
        let check = |envelope: logs::log_stream::LogEnvelope, lines: &[&[u8]], expected: &str| {
            let settings =
                logs::log_stream::LogSettings { patterns: patterns.clone(), envelope, ..Default::default() };
            let (mut head, mut found) = (None, Vec::new());
            for line in lines {
                let stream = settings.open(TimeZone::UTC).unwrap();
                let mut reader =
                    SourceLineReader::new(SourceLineFormat::Log(Box::new(stream)), TimeZone::UTC);
                let place = LinePlace { origin: &origin, name: None };
                if let Ok(ReadLine::Event(event)) = reader.read(line, place, &mut head, now) {
                    found.push(event.get("log.ip").map(ToString::to_string).unwrap_or_default());
                }
                head = reader.head_behind(&origin, head);
            }
            assert_eq!((found.join(" "), head.is_some()), (expected.to_owned(), envelope.name() != "cri"));
        };
        let message = b"failed from 192.0.2.2";
        let length = (message.len() as u64).to_le_bytes();
        let binary = [length.as_slice(), message, b"\n"].concat();
        check(
            logs::log_stream::LogEnvelope::JournalExport,
            &[
                b"__CURSOR=s=1\n",
                b"_HOSTNAME=h\n",
                b"MESSAGE=failed from 192.0.2.1\n",
                b"\n",
                b"__CURSOR=s=2\n",
                b"MESSAGE\n",
                &binary,
                b"\n",
                b"__CURSOR=s=3\n",
            ],
            "192.0.2.1 192.0.2.2",
        );
        check(
            logs::log_stream::LogEnvelope::Cri,
            &[b"2012-08-16T09:00:00Z stdout P failed from", b"2012-08-16T09:00:00Z stdout F  192.0.2.3"],
            "192.0.2.3",
        );
    }

    #[test]
    fn envelopes_are_taken_off() {
        let mut reader = SourceLineReader::new(SourceLineFormat::AccessLog(None), TimeZone::UTC);
        let line = r#"192.0.2.1 - - [08/Dec/2021:13:59:39 +0000] \"GET /a HTTP/1.1\" 200 352"#;
        check(&mut reader, JOURNAL_ORIGIN, &[&format!(r#"{{"MESSAGE":"{line}"}}"#)], &["n /a"]);
        let line = line.replace('\\', "");
        let mut reader = reader.in_envelope(SourceEnvelope::Syslog);
        let lines = [
            format!("<190>Dec  8 13:59:39 host nginx: {line}"),
            format!("<190>1 2021-12-08T13:59:39Z host nginx 7 - - {line}"),
            format!("<190>{line}"),
            line.clone(),
        ];
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        check(&mut reader, "192.0.2.9", &lines, &["n /a"; 4]);
        let mut reader = SourceLineReader::new(SourceLineFormat::AccessLog(None), TimeZone::UTC);
        let docker = serde_json::json!({"log": format!("{line}\n"), "stream": "stdout", "time": "2021-12-08T13:59:39Z"});
        let lines = [docker.to_string(), format!("2021-12-08T13:59:39.1Z stdout F {line}")];
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        check(&mut reader, "/var/log/containers/a.log", &lines, &["n /a"; 2]);
        let mut reader = SourceLineReader::new(SourceLineFormat::Ndjson, TimeZone::UTC);
        reader = reader.in_envelope(SourceEnvelope::Docker);
        check(&mut reader, "s", &[r#"{"log":"{\"a\":1}\n","stream":"stdout"}"#], &[r#"{"a":1,"id":"n"}"#]);
        reader = reader.in_envelope(SourceEnvelope::Syslog);
        check(&mut reader, "s", &[r#"<1>Dec  8 13:59:39 host app: {"a":1}"#], &[r#"{"a":1,"id":"n"}"#]);
    }
}
