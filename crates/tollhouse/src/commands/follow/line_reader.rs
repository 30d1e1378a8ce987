//! Lines of a source into the JSON objects that a server takes as events.

use std::path::Path;
use std::thread;

use content::web::access_log::LINE_BYTES_MAX;
use event::{Event, Time};
use jiff::tz::TimeZone;
use journal::json_value;
use logs::log_stream::{LogSettings, LogStream, StreamLine, zone};
use serde_json::{Map, Value};

use super::crowdsec_reader::CrowdsecReader;
use super::{AGAIN, FollowFormat};
use crate::client::{ApiClient, CallError};
use crate::exit::CommandError;
use crate::interrupt::Interrupt;

/// The file that says the machine's time zone.
const LOCAL_ZONE: &str = "/etc/localtime";

/// A reader of one source's lines.
pub(super) enum LineReader {
    AccessLog,
    Ndjson,
    /// Lines of a log, by the patterns of a pipeline.
    Log(Box<LogStream>),
    /// Lines of a log, by CrowdSec's parsers and scenarios.
    Crowdsec(Box<CrowdsecReader>),
}

/// The meaning of a line.
pub(super) enum ReadLine {
    /// An event.
    Event(Value),
    /// Several events, each with a name of its own.
    Events(Vec<Value>),
    /// A line that a pattern reads, but that reports nothing by itself.
    Silent,
    /// A line that no pattern reads.
    Unread,
}

impl LineReader {
    /// A reader of lines in a format. For a named pipeline the server is asked what it reads, however long that cannot be
    /// had; `None` if the user does not want to wait.
    pub(super) fn open(
        client: &ApiClient,
        format: Option<FollowFormat>,
        pipeline: Option<&str>,
        interrupt: &Interrupt,
    ) -> Result<Option<LineReader>, CommandError> {
        match format {
            Some(FollowFormat::AccessLog) => return Ok(Some(LineReader::AccessLog)),
            Some(FollowFormat::Ndjson) => return Ok(Some(LineReader::Ndjson)),
            None if pipeline.is_none() => return Ok(Some(LineReader::AccessLog)),
            None | Some(FollowFormat::Log) => {}
        }
        loop {
            match client.pipelines() {
                Ok(known) => {
                    let mut known = known.pipelines.into_iter();
                    let found = known.find(|found| pipeline.is_none_or(|name| found.name == name));
                    let Some(input) = found.and_then(|found| found.log) else { break };
                    return LineReader::of_log(&LogSettings::from(input)).map(Some);
                }
                // A token that may only have events decided does not see it.
                Err(CallError::Refused(_)) if format.is_none() => break,
                Err(error @ CallError::Refused(_)) if !error.is_for_now() => return Err(error.into()),
                Err(_) if interrupt.raised() => return Ok(None),
                Err(_) => thread::sleep(AGAIN),
            }
        }
        match format {
            None => Ok(Some(LineReader::AccessLog)),
            Some(_) => {
                let name =
                    pipeline.map_or_else(|| "the first pipeline".to_owned(), |name| format!("`{name}`"));
                Err(CommandError::new(format_args!("{name} has no patterns of lines"))
                    .help("name a pipeline with `input = \"log\"`: --pipeline NAME"))
            }
        }
    }

    fn of_log(settings: &LogSettings) -> Result<LineReader, CommandError> {
        let stream = settings.open(machine_zone()).map_err(CommandError::new)?;
        Ok(LineReader::Log(Box::new(stream)))
    }

    /// Returns true if lines are read by patterns.
    pub(super) fn is_log(&self) -> bool {
        matches!(self, LineReader::Log(_) | LineReader::Crowdsec(_))
    }

    /// Reads a line. An event is called by the line's name, unless it has one.
    pub(super) fn read(&mut self, line: &[u8], name: Option<&str>, now: Time) -> Result<ReadLine, String> {
        if line.len() > LINE_BYTES_MAX {
            return Err(format!("longer than {LINE_BYTES_MAX} bytes"));
        }
        let event = match self {
            LineReader::AccessLog => {
                content::web::access_log::event(line).map_err(|error| error.to_string())?
            }
            LineReader::Ndjson => {
                let mut object: Map<String, Value> =
                    serde_json::from_slice(line).map_err(|error| format!("no JSON object: {error}"))?;
                if let Some(name) = name {
                    object.entry("id").or_insert(Value::String(name.to_owned()));
                }
                return Ok(ReadLine::Event(Value::Object(object)));
            }
            LineReader::Crowdsec(reader) => {
                return Ok(match reader.read(line, name, now) {
                    Some(events) if events.is_empty() => ReadLine::Silent,
                    Some(events) => ReadLine::Events(events),
                    None => ReadLine::Unread,
                });
            }
            LineReader::Log(stream) => match stream.read(line, now) {
                StreamLine::Event(event) => *event,
                StreamLine::Silent => return Ok(ReadLine::Silent),
                StreamLine::Unread => return Ok(ReadLine::Unread),
            },
        };
        let Event { id, time, fields, .. } = event;
        let mut object: Map<String, Value> =
            fields.into_iter().map(|(name, value)| (name, json_value(&value))).collect();
        if let Some(time) = time {
            object.insert("time".to_owned(), Value::String(time.to_string()));
        }
        if let Some(name) = id.or(name.map(str::to_owned)) {
            object.insert("id".to_owned(), Value::String(name));
        }
        Ok(ReadLine::Event(Value::Object(object)))
    }
}

/// The zone of this machine: that of `TZ`, or of the system.
fn machine_zone() -> TimeZone {
    let named = std::env::var("TZ").ok().filter(|name| !name.is_empty());
    let of_system = || TimeZone::tzif("Local", &std::fs::read(Path::new(LOCAL_ZONE)).ok()?).ok();
    named.and_then(|name| zone(name.trim_start_matches(':'))).or_else(of_system).unwrap_or(TimeZone::UTC)
}
