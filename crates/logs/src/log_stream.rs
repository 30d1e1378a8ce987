//! A source of lines with all that is needed to read it: envelope, zone, patterns, and the memory of earlier lines.

use std::net::IpAddr;
use std::sync::Arc;

use event::{Event, Time, Value};
use jiff::tz::{Offset, TimeZone};

use crate::date::{DateContext, zone_offset};
use crate::envelope;
use crate::fail2ban::tag;
use crate::log_reader::{LineReading, LogEvent, LogLineReader, LogLineState, LogPatternError, LogPatterns};

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
    /// Docker's `json-file`.
    Docker,
    /// Files of container runtimes (CRI).
    Cri,
    /// Messages as they are sent by syslog, with a priority in front.
    Syslog,
}

impl LogEnvelope {
    /// Names, in the order in which they are documented.
    pub const NAMES: [&str; 5] = ["lines", "journal", "docker", "cri", "syslog"];

    /// The envelope of a name.
    pub fn named(name: &str) -> Option<LogEnvelope> {
        use LogEnvelope::{Cri, Docker, Journal, Lines, Syslog};
        [Lines, Journal, Docker, Cri, Syslog].into_iter().find(|envelope| envelope.name() == name)
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
    /// The zone of dates that name none; that of the machine, if there is none.
    pub zone: Option<String>,
    /// Further named groups that become fields of events.
    pub fields: Vec<String>,
}

impl LogSettings {
    /// The reader of these patterns.
    pub fn reader(&self) -> Result<LogLineReader, LogPatternError> {
        let groups = |patterns: &[String]| patterns.iter().map(|pattern| tag::groups(pattern)).collect();
        LogLineReader::new(&LogPatterns {
            prefix: self.patterns.prefix.as_deref().filter(|prefix| !prefix.is_empty()).map(tag::groups),
            patterns: groups(&self.patterns.patterns),
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
            zone: self.zone.as_deref().and_then(zone).unwrap_or(machine_zone),
            fields: self.fields.clone(),
            state: LogLineState::default(),
            part: String::new(),
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
    zone: TimeZone,
    fields: Vec<String>,
    state: LogLineState,
    /// The beginning of a line that comes in parts.
    part: String,
}

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
            zone: self.zone.clone(),
            fields: self.fields.clone(),
            state: LogLineState::default(),
            part: String::new(),
        }
    }

    /// Reads the next line.
    pub fn read(&mut self, line: &[u8], now: Time) -> StreamLine {
        let line = String::from_utf8_lossy(line);
        let line = line.trim_end_matches(['\r', '\n']);
        let context = DateContext { now, zone: self.zone.clone() };
        let unpacked = match self.envelope {
            LogEnvelope::Lines => None,
            LogEnvelope::Journal => envelope::journal(line),
            LogEnvelope::Docker => envelope::docker(line),
            LogEnvelope::Cri => envelope::cri(line),
            LogEnvelope::Syslog => Some(envelope::message(line)),
        };
        let (text, date) = match unpacked {
            None => (line.to_owned(), None),
            Some(unpacked) if matches!(self.envelope, LogEnvelope::Journal | LogEnvelope::Syslog) => {
                (unpacked.as_short(), unpacked.time)
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
        match self.reader.read(&text, date, &context, &mut self.state) {
            LineReading::Event(event) => StreamLine::Event(Box::new(self.event(*event, &text))),
            LineReading::Unread => StreamLine::Unread,
            LineReading::Ignored | LineReading::Harmless | LineReading::Pending => StreamLine::Silent,
        }
    }

    /// The number of searches that took too many steps back.
    pub fn exceeded(&self) -> u64 {
        self.state.exceeded
    }

    fn event(&self, read: LogEvent, line: &str) -> Event {
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
                event.push(field.as_str(), text.as_str());
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
        check(LogEnvelope::Syslog, &[&format!("<34>{line}")], expected);
        check(LogEnvelope::Syslog, &[line], expected);
        let message = "<34>1 2005-01-23T20:59:59Z h sshd 7 - - Failed password for me from 192.0.2.1 port 22";
        check(LogEnvelope::Syslog, &[message], expected);
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
