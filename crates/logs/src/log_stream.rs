//! A source of lines with all that is needed to read it: envelope, zone, patterns, and the memory of earlier lines.

use std::net::IpAddr;
use std::sync::Arc;

use event::{Event, Time, Value};
use jiff::tz::{Offset, TimeZone};
use serde::{Deserialize, Serialize};

use crate::date::{DateContext, zone_offset};
use crate::envelope;
use crate::fail2ban::tag;
use crate::journal_export::{JournalExportReader, KeptJournalEntry};
use crate::log_reader::{LineReading, LogEvent, LogLineReader, LogLineState, LogPatternError, LogPatterns};
use crate::log_record::{LogFieldMap, LogLineFormat, StructuredLine};

/// Most bytes of a line that an event keeps.
const TEXT_BYTES_MAX: usize = 1024;
/// Most bytes of a line that comes in parts.
const PARTS_BYTES_MAX: usize = crate::log_reader::LINE_BYTES_MAX;
/// Groups that are columns of their own, or mean something to the reader alone.
const KNOWN_GROUPS: [&str; 14] = [
    "ip4",
    "ip6",
    "dns",
    "cidr",
    "fid",
    "user",
    "fport",
    "content",
    "mlfid",
    "nofail",
    "mlfgained",
    "mlfforget",
    "ip",
    "host",
];

/// The envelope in which a source hands over its lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogEnvelope {
    /// None: lines are as they were written.
    #[default]
    Lines,
    /// Entries of the journal (`journalctl -o json`), read as `host program[process]: text`.
    Journal,
    /// Entries of the journal over several lines (`journalctl -o export`), read likewise.
    JournalExport,
    /// Docker's `json-file`.
    Docker,
    /// Files of container runtimes (CRI).
    Cri,
    /// Messages as they are sent by syslog, with a priority in front.
    Syslog,
}

impl LogEnvelope {
    /// Names, in the order in which they are documented.
    pub const NAMES: [&str; 6] = ["lines", "journal", "journal-export", "docker", "cri", "syslog"];

    /// The envelope of a name.
    pub fn named(name: &str) -> Option<LogEnvelope> {
        use LogEnvelope::{Cri, Docker, Journal, JournalExport, Lines, Syslog};
        [Lines, Journal, JournalExport, Docker, Cri, Syslog]
            .into_iter()
            .find(|envelope| envelope.name() == name)
    }

    /// The name.
    pub fn name(self) -> &'static str {
        LogEnvelope::NAMES[self as usize]
    }
}

/// The way in which a kind of log is read, as configured.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogSettings {
    /// Patterns, in which tags such as `<HOST>` may stand.
    pub patterns: LogPatterns,
    /// The envelope of lines.
    pub envelope: LogEnvelope,
    /// The format of lines.
    pub format: LogLineFormat,
    /// The fields of records that mean something.
    pub map: LogFieldMap,
    /// The zone of dates that name none; that of the machine, if there is none.
    pub zone: Option<String>,
    /// Further named groups, or fields of records, that become fields of events.
    pub fields: Vec<String>,
}

impl LogSettings {
    /// The reader of these patterns.
    pub fn reader(&self) -> Result<LogLineReader, LogPatternError> {
        let groups = |patterns: &[String]| patterns.iter().map(|pattern| tag::groups(pattern)).collect();
        LogLineReader::new(&LogPatterns {
            prefix: self.patterns.prefix.as_deref().filter(|prefix| !prefix.is_empty()).map(tag::groups),
            patterns: groups(&self.patterns.patterns),
            grok: self.patterns.grok.clone(),
            grok_files: self.patterns.grok_files.clone(),
            ignored: groups(&self.patterns.ignored),
            dates: self.patterns.dates.clone(),
            lines: self.patterns.lines,
        })
    }

    /// Begins to read a source. The machine's zone is passed in.
    pub fn open(&self, machine_zone: TimeZone) -> Result<LogStream, LogPatternError> {
        Ok(LogStream {
            reader: Arc::new(self.reader()?),
            envelope: self.envelope,
            format: self.format,
            map: Arc::new(self.map.clone()),
            zone: self.zone.as_deref().and_then(zone).unwrap_or(machine_zone),
            fields: self.fields.clone(),
            state: LogLineState::default(),
            part: String::new(),
            export: JournalExportReader::default(),
        })
    }
}

/// Returns the zone of a name (`Europe/Berlin`), an offset (`UTC+0200`, `CET`) or the rules of one (`CET-1CEST,M3.5.0,M10.5.0/3`).
pub fn zone(name: &str) -> Option<TimeZone> {
    let fixed = || Offset::from_seconds(zone_offset(name)?).ok().map(TimeZone::fixed);
    fixed().or_else(|| TimeZone::get(name).ok()).or_else(|| TimeZone::posix(name).ok())
}

/// A source of lines that is read.
pub struct LogStream {
    reader: Arc<LogLineReader>,
    envelope: LogEnvelope,
    format: LogLineFormat,
    map: Arc<LogFieldMap>,
    zone: TimeZone,
    fields: Vec<String>,
    state: LogLineState,
    /// The beginning of a line that comes in parts.
    part: String,
    export: JournalExportReader,
}

/// The part of a source's memory that is kept over a restart: what has begun and not ended.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
struct KeptStream {
    #[serde(skip_serializing_if = "String::is_empty")]
    part: String,
    export: KeptJournalEntry,
}

/// Most bytes of what is kept.
const KEPT_BYTES_MAX: usize = 1 << 20;

/// A line that was read.
#[derive(Clone, Debug, PartialEq)]
pub enum StreamLine {
    /// An event.
    Event(Box<Event>),
    /// A line that a pattern reads, but that reports no event by itself.
    Silent,
    /// A line that no pattern reads.
    Unread,
}

impl LogStream {
    /// Begins to read another source of the same kind, whose lines were not seen by this one.
    pub fn another(&self) -> LogStream {
        LogStream {
            reader: Arc::clone(&self.reader),
            envelope: self.envelope,
            format: self.format,
            map: Arc::clone(&self.map),
            zone: self.zone.clone(),
            fields: self.fields.clone(),
            state: LogLineState::default(),
            part: String::new(),
            export: JournalExportReader::default(),
        }
    }

    /// Returns true if every byte of a line means something, and so do empty lines.
    pub fn minds_blanks(&self) -> bool {
        self.envelope == LogEnvelope::JournalExport
    }

    /// Returns what has begun and not ended, as it is kept with the position behind the last line; `None` if nothing has, or too much.
    pub fn kept(&self) -> Option<String> {
        let kept = KeptStream { part: self.part.clone(), export: self.export.kept() };
        let text = (kept != KeptStream::default()).then(|| serde_json::to_string(&kept).ok()).flatten();
        text.filter(|text| text.len() <= KEPT_BYTES_MAX)
    }

    /// Goes on with what was kept. Of another text nothing is taken.
    pub fn restore(&mut self, kept: &str) {
        let Ok(KeptStream { part, export }) = serde_json::from_str(kept) else { return };
        self.part = part;
        self.export = JournalExportReader::restore(export);
    }

    /// Notes that a line was passed over because it is too long.
    pub fn pass_over(&mut self) {
        self.export.lose();
        self.part.clear();
    }

    /// Reads the next line.
    pub fn read(&mut self, line: &[u8], now: Time) -> StreamLine {
        if self.envelope == LogEnvelope::JournalExport {
            let context = DateContext { now, zone: self.zone.clone() };
            return match self.export.read(line) {
                Some(entry) => self.read_text(&entry, &context),
                None => StreamLine::Silent,
            };
        }
        let line = String::from_utf8_lossy(line);
        let line = line.trim_end_matches(['\r', '\n']);
        let context = DateContext { now, zone: self.zone.clone() };
        let unpacked = match self.envelope {
            LogEnvelope::Lines | LogEnvelope::JournalExport => None,
            LogEnvelope::Journal => envelope::journal(line),
            LogEnvelope::Docker => envelope::docker(line),
            LogEnvelope::Cri => envelope::cri(line),
            LogEnvelope::Syslog => Some(envelope::message(line)),
        };
        let (text, date) = match unpacked {
            None => (line.to_owned(), None),
            Some(unpacked) if matches!(self.envelope, LogEnvelope::Journal | LogEnvelope::Syslog) => {
                return self.read_text(&unpacked, &context);
            }
            Some(unpacked) => {
                if self.part.len() + unpacked.text.len() <= PARTS_BYTES_MAX {
                    self.part.push_str(&unpacked.text);
                }
                if unpacked.is_partial {
                    return StreamLine::Silent;
                }
                // A container's own line may have a date, which patterns expect to be taken out of it.
                (std::mem::take(&mut self.part), None)
            }
        };
        self.read_record(&text, date, &context)
    }

    /// Reads a line of the journal or of syslog. Patterns read it with the host and the program in front; a record has neither.
    fn read_text(&mut self, line: &envelope::EnvelopedLine<'_>, context: &DateContext) -> StreamLine {
        match self.format {
            LogLineFormat::Text => self.read_record(&line.as_short(), line.time, context),
            LogLineFormat::Logfmt | LogLineFormat::Json => self.read_record(&line.text, line.time, context),
        }
    }

    fn read_record(&mut self, line: &str, date: Option<Time>, context: &DateContext) -> StreamLine {
        if self.format == LogLineFormat::Text {
            let reading = self.reader.read(line, date, context, &mut self.state);
            return self.meaning(reading, line, None);
        }
        let Some(record) = StructuredLine::read(self.format, line) else { return StreamLine::Unread };
        let date = record.time(&self.map, self.reader.dates(), context).or(date);
        let text = self.map.text.as_deref().map_or(Some(line), |name| record.whole_text(name));
        // One line is one event, whatever its text has in it.
        let text = text.unwrap_or_default().replace('\n', " ");
        let groups = record.groups(&self.map);
        let reading = self.reader.read_of_record(&text, groups, date, context, &mut self.state);
        self.meaning(reading, line, Some(&record))
    }

    fn meaning(&self, reading: LineReading, line: &str, record: Option<&StructuredLine>) -> StreamLine {
        match reading {
            LineReading::Event(event) => StreamLine::Event(Box::new(self.event(*event, line, record))),
            LineReading::Unread => StreamLine::Unread,
            LineReading::Ignored | LineReading::Harmless | LineReading::Pending => StreamLine::Silent,
        }
    }

    /// The number of searches that took too many steps back.
    pub fn exceeded(&self) -> u64 {
        self.state.exceeded
    }

    fn event(&self, read: LogEvent, line: &str, record: Option<&StructuredLine>) -> Event {
        let mut event = Event { time: Some(read.time), ..Event::default() };
        match read.host.as_deref().map(|host| (host, host.parse::<IpAddr>())) {
            Some((_, Ok(ip))) => event.push("log.ip", ip),
            Some((host, Err(_))) => event.push("log.host", host),
            None => {}
        }
        event.push("log.id", read.id.as_str());
        for (group, field) in [("user", "log.user"), ("fport", "log.port")] {
            if let Some(text) = read.fields.get(group).filter(|text| !text.is_empty()) {
                event.push(field, text.as_str());
            }
        }
        event.push("log.pattern", Value::Integer(read.pattern as i64 + 1));
        let mut end = line.len().min(TEXT_BYTES_MAX);
        while !line.is_char_boundary(end) {
            end -= 1;
        }
        event.push("log.text", &line[..end]);
        for field in self.fields.iter().filter(|field| !KNOWN_GROUPS.contains(&field.as_str())) {
            if let Some(text) = read.fields.get(field.as_str()) {
                event.push(field.clone(), text.as_str());
            } else if let Some(value) = record.and_then(|record| record.value(field)) {
                event.push(field.clone(), value);
            }
        }
        event
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(envelope: LogEnvelope) -> LogSettings {
        let pattern = r"Failed password for <F-USER>\S+</F-USER> from <HOST> port (?P<number>\d+)".to_owned();
        LogSettings {
            patterns: LogPatterns { patterns: vec![pattern], ..LogPatterns::default() },
            envelope,
            zone: Some("UTC+0100".to_owned()),
            fields: vec!["number".to_owned()],
            ..LogSettings::default()
        }
    }

    #[test]
    fn lines_become_events_whatever_their_envelope() {
        let check = |envelope: LogEnvelope, lines: &[&str], expected: &str| {
            let mut stream = settings(envelope).open(TimeZone::UTC).expect("stream");
            let now = "2005-08-14T10:00:00Z".parse().expect("time");
            let mut last = StreamLine::Unread;
            for line in lines {
                last = stream.read(line.as_bytes(), now);
            }
            let StreamLine::Event(event) = last else { panic!("{envelope:?} {last:?}") };
            let shown = |name: &str| event.get(name).map(|value| format!("{value:?}")).unwrap_or_default();
            let time = event.time.expect("time");
            assert_eq!(
                format!("{time} {} {} {}", shown("log.ip"), shown("log.user"), shown("number")),
                expected
            );
        };
        let line = "Jan 23 21:59:59 h sshd[7]: Failed password for me from 192.0.2.1 port 22";
        let expected = r#"2005-01-23T20:59:59Z Ip(192.0.2.1) String("me") String("22")"#;
        check(LogEnvelope::Lines, &[line], expected);
        check(
            LogEnvelope::Docker,
            &[&format!(r#"{{"log":"{line}\n","time":"2005-01-23T20:00:00Z"}}"#)],
            expected,
        );
        let (start, end) = line.split_at(30);
        let parts = [
            format!("2005-01-23T20:59:59Z stderr P {start}"),
            format!("2005-01-23T20:59:59Z stderr F {end}"),
        ];
        check(LogEnvelope::Cri, &[&parts[0], &parts[1]], expected);
        let entry = r#"{"MESSAGE":"Failed password for me from 192.0.2.1 port 22","_HOSTNAME":"h","__REALTIME_TIMESTAMP":"1106513999000000"}"#;
        check(LogEnvelope::Journal, &[entry], expected);
        let entry = [
            "__CURSOR=s=1",
            "__REALTIME_TIMESTAMP=1106513999000000",
            "_HOSTNAME=h",
            "MESSAGE=Failed password for me from 192.0.2.1 port 22",
            "",
        ];
        check(LogEnvelope::JournalExport, &entry, expected);
        check(LogEnvelope::Syslog, &[&format!("<34>{line}")], expected);
        check(LogEnvelope::Syslog, &[line], expected);
        let message = "<34>1 2005-01-23T20:59:59Z h sshd 7 - - Failed password for me from 192.0.2.1 port 22";
        check(LogEnvelope::Syslog, &[message], expected);
    }

    #[test]
    fn records_become_events_with_and_without_patterns() {
        let check = |settings: &LogSettings, line: &str, expected: &str| {
            let mut stream = settings.open(TimeZone::UTC).expect("stream");
            let read = stream.read(line.as_bytes(), "2005-08-14T10:00:00Z".parse().expect("time"));
            let StreamLine::Event(event) = read else {
                return assert_eq!(format!("{read:?}"), expected, "{line}");
            };
            let fields = event.fields.iter().filter(|(name, _)| &**name != "log.text");
            let fields: Vec<String> = fields.map(|(name, value)| format!("{name}={value}")).collect();
            assert_eq!(format!("{} {}", event.time.expect("time"), fields.join(" ")), expected, "{line}");
        };
        let map = LogFieldMap::new([("ip", "src"), ("user", "user.name"), ("text", "msg")]);
        let fields = ["failure", "status", "ok"].map(str::to_owned).to_vec();
        let each = LogSettings { format: LogLineFormat::Json, map, fields, ..LogSettings::default() };
        let json = r#"{"ts":"2005-08-14T09:00:00Z","src":"192.0.2.7:99","user":{"name":"ann"},"msg":"login failed","status":401,"ok":false}"#;
        let who = "log.ip=192.0.2.7 log.id=192.0.2.7 log.user=ann log.port=99 log.pattern=1";
        let at = "2005-08-14T09:00:00Z";
        check(&each, json, &format!("{at} {who} status=401 ok=false"));
        check(&each, r#"{"msg":"started"}"#, "Unread");
        check(&each, "no record", "Unread");
        let by_patterns = |patterns: &[&str], grok: &[&str]| {
            let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
            let patterns =
                LogPatterns { patterns: owned(patterns), grok: owned(grok), ..LogPatterns::default() };
            LogSettings { patterns, ..each.clone() }
        };
        check(
            &by_patterns(&["^login (?P<failure>failed)$"], &[]),
            json,
            &format!("{at} {who} failure=failed status=401 ok=false"),
        );
        check(&by_patterns(&["^logout$"], &[]), json, "Unread");
        // The whole text must match: `$` is its end.
        check(
            &by_patterns(&[], &["^login %{WORD:failure}$"]),
            json,
            &format!("{at} {who} failure=failed status=401 ok=false"),
        );
        let logfmt = LogSettings { format: LogLineFormat::Logfmt, ..each.clone() };
        let line = r#"ts=2005-08-14T09:00:00Z src=192.0.2.7:99 user.name=ann msg="login failed" status=401"#;
        check(&logfmt, line, &format!("{at} {who} status=401"));
        let syslog = LogSettings { envelope: LogEnvelope::Syslog, ..each.clone() };
        check(
            &syslog,
            &format!("<34>1 2005-01-23T20:59:59Z h app 7 - - {json}"),
            &format!("{at} {who} status=401 ok=false"),
        );
        let undated = r#"{"src":"192.0.2.7"}"#;
        check(
            &syslog,
            &format!("<34>1 2005-01-23T20:59:59Z h app 7 - - {undated}"),
            "2005-01-23T20:59:59Z log.ip=192.0.2.7 log.id=192.0.2.7 log.pattern=1",
        );
        let docker = LogSettings { envelope: LogEnvelope::Docker, ..each };
        let wrapped =
            serde_json::json!({"log": format!("{json}\n"), "time": "2005-01-23T20:00:00Z"}).to_string();
        check(&docker, &wrapped, &format!("{at} {who} status=401 ok=false"));
    }

    #[test]
    fn grok_reads_lines_by_patterns_of_its_own() {
        let patterns = LogPatterns {
            patterns: vec!["^never (?P<ip4>\\S+)$".to_owned()],
            grok: vec!["^%{DENIED} %{IPORHOST:ip} as %{USER:user}$".to_owned()],
            grok_files: vec!["# ours\nDENIED (denied|refused) %{WORD:service}\n".to_owned()],
            ..LogPatterns::default()
        };
        let fields = vec!["service".to_owned()];
        let settings = LogSettings { patterns, fields, ..LogSettings::default() };
        let mut stream = settings.open(TimeZone::UTC).expect("stream");
        let mut read =
            |line: &str| stream.read(line.as_bytes(), "2005-08-14T10:00:00Z".parse().expect("time"));
        let StreamLine::Event(event) = read("refused ssh 2001:db8::7 as ann") else { panic!("no event") };
        let shown = |name: &str| event.get(name).map(ToString::to_string).unwrap_or_default();
        assert_eq!(
            [shown("log.ip"), shown("log.user"), shown("service"), shown("log.pattern")],
            ["2001:db8::7", "ann", "ssh", "2"]
        );
        assert_eq!(read("refused ssh 2001:db8::7 as ann or so"), StreamLine::Unread);
        let unknown = LogPatterns { grok: vec!["%{NOBODY}".to_owned()], ..LogPatterns::default() };
        let error =
            LogSettings { patterns: unknown, ..LogSettings::default() }.reader().err().expect("an error");
        assert_eq!(error.to_string(), "%{NOBODY}: there is no pattern `NOBODY`");
    }

    #[test]
    fn zones_by_name_offset_and_rules() {
        for name in ["UTC+0200", "CET", "CET-1CEST,M3.5.0,M10.5.0/3"] {
            assert!(zone(name).is_some(), "{name}");
        }
        assert!(zone("Nowhere/Else").is_none());
    }

    #[test]
    fn envelopes_have_names() {
        for name in LogEnvelope::NAMES {
            assert_eq!(LogEnvelope::named(name).map(LogEnvelope::name), Some(name));
        }
    }
}
