//! Lines of a source into the JSON objects that a server takes as events.

use std::sync::Arc;
use std::thread;

use content::web::log_format::AccessLogFormat;
use event::Time;
use logs::csv::CsvColumns;
use logs::log_stream::{LogEnvelope, LogSettings, zone};
use serde_json::Value;
use sources::LINE_BYTES_MAX;
use sources::crowdsec_reader::CrowdsecReader;
use sources::line_reader::{LinePlace, ReadLine, SourceLineFormat, SourceLineReader, machine_zone};

use super::{AGAIN, FollowArgs, FollowFormat};
use crate::client::{ApiClient, CallError};
use crate::exit::CommandError;
use crate::interrupt::Interrupt;
use crate::log_input::event_json;

/// A reader of what is followed.
pub(super) enum LineReader {
    /// Lines in a format.
    Lines(SourceLineReader),
    /// Lines of logs, by CrowdSec's parsers and scenarios.
    Crowdsec(Box<CrowdsecReader>),
}

/// The meaning of a line to a server.
pub(super) enum FollowedLine {
    /// Events, perhaps none: each has a name of its own.
    Events(Vec<Value>),
    /// A line that no pattern reads.
    Unread,
}

impl LineReader {
    /// A reader of lines in a format. For a named pipeline the server is asked what it reads, however long that cannot be
    /// had; `None` if the user does not want to wait.
    pub(super) fn open(
        client: &ApiClient,
        args: &FollowArgs,
        interrupt: &Interrupt,
    ) -> Result<Option<LineReader>, CommandError> {
        let (format, pipeline) = (args.format, args.pipeline.as_deref());
        let zone = match args.zone.as_deref().map(|name| zone(name).ok_or(name)) {
            None => machine_zone(),
            Some(Ok(zone)) => zone,
            Some(Err(name)) => {
                return Err(CommandError::new(format_args!("there is no time zone `{name}`"))
                    .help("write a name such as `Europe/Berlin`, or an offset such as `UTC+0200`"));
            }
        };
        let of = |format| Ok(Some(LineReader::Lines(SourceLineReader::new(format, zone))));
        if format != Some(FollowFormat::Csv) && !args.columns.is_empty() {
            return Err(CommandError::new("--columns are for --format csv"));
        }
        if args.log_format.is_some() && !matches!(format, None | Some(FollowFormat::AccessLog)) {
            return Err(CommandError::new("--log-format is for access logs"));
        }
        match format {
            Some(FollowFormat::Csv) => return of(csv_format(args)?),
            Some(FollowFormat::AccessLog) => return of(access_log_format(args)?),
            Some(FollowFormat::Ndjson) => return of(SourceLineFormat::Ndjson),
            None if pipeline.is_none() || args.log_format.is_some() => return of(access_log_format(args)?),
            None | Some(FollowFormat::Log) => {}
        }
        loop {
            match client.pipelines() {
                Ok(known) => {
                    let mut known = known.pipelines.into_iter();
                    let found = known.find(|found| pipeline.is_none_or(|name| found.name == name));
                    let (input, own) = found.map_or((None, None), |found| (found.log, found.access_log));
                    match (input, own) {
                        (Some(input), _) => return of(log_format(LogSettings::from(input), args)?),
                        (None, Some(own)) if format.is_none() => {
                            let format = AccessLogFormat::try_from(&own).map_err(CommandError::new)?;
                            return of(SourceLineFormat::AccessLog(Some(Arc::new(format))));
                        }
                        (None, _) => break,
                    }
                }
                // A token that may only have events decided does not see it.
                Err(error @ CallError::Refused(..)) if !error.is_for_now() => match format {
                    None => break,
                    Some(_) => return Err(error.into()),
                },
                Err(_) if interrupt.raised() => return Ok(None),
                Err(_) => thread::sleep(AGAIN),
            }
        }
        match format {
            None => of(access_log_format(args)?),
            Some(_) => {
                let name =
                    pipeline.map_or_else(|| "the first pipeline".to_owned(), |name| format!("`{name}`"));
                Err(CommandError::new(format_args!("{name} has no patterns of lines"))
                    .help("name a pipeline with `input = \"log\"`: --pipeline NAME"))
            }
        }
    }

    /// Returns true if the first line of each file is a heading.
    pub(super) fn is_headed(&self) -> bool {
        matches!(self, LineReader::Lines(reader) if reader.is_headed())
    }

    /// Returns the heading that holds behind the last line of an origin, to be kept with its position.
    pub(super) fn head_behind(&self, origin: &Arc<str>, head: Option<String>) -> Option<String> {
        match self {
            LineReader::Lines(reader) => reader.head_behind(origin, head),
            LineReader::Crowdsec(_) => head,
        }
    }

    /// Returns true if lines are read by patterns.
    pub(super) fn is_log(&self) -> bool {
        match self {
            LineReader::Lines(reader) => reader.is_by_patterns(),
            LineReader::Crowdsec(_) => true,
        }
    }

    /// Returns a line without the blanks that mean nothing; `None` if nothing is left of it.
    pub(super) fn trimmed<'l>(&self, line: &'l [u8]) -> Option<&'l [u8]> {
        match self {
            LineReader::Lines(reader) => reader.trimmed(line),
            LineReader::Crowdsec(_) => Some(line.trim_ascii_end()).filter(|line| !line.is_empty()),
        }
    }

    /// Reads a line: events as JSON objects, called by the line's name unless they have one.
    pub(super) fn read(
        &mut self,
        line: &[u8],
        place: LinePlace<'_>,
        head: &mut Option<String>,
        now: Time,
    ) -> Result<FollowedLine, String> {
        let reader = match self {
            LineReader::Lines(reader) => reader,
            LineReader::Crowdsec(_) if line.len() > LINE_BYTES_MAX => {
                return Err(format!("longer than {LINE_BYTES_MAX} bytes"));
            }
            LineReader::Crowdsec(reader) => {
                return Ok(match reader.read(line, place, now) {
                    Some(events) => FollowedLine::Events(events),
                    None => FollowedLine::Unread,
                });
            }
        };
        Ok(match reader.read(line, place, head, now)? {
            ReadLine::Event(event) => FollowedLine::Events(vec![Value::Object(event_json(*event))]),
            ReadLine::Object(object) => FollowedLine::Events(vec![Value::Object(object)]),
            ReadLine::Silent => FollowedLine::Events(Vec::new()),
            ReadLine::Unread => FollowedLine::Unread,
        })
    }
}

/// Access logs, in the format that was given or in any that is known.
fn access_log_format(args: &FollowArgs) -> Result<SourceLineFormat, CommandError> {
    let format = args.log_format.as_deref().map(|format| AccessLogFormat::new(format, |_| false)).transpose();
    let format = format.map_err(|error| {
        CommandError::new(format_args!("--log-format: {error}"))
            .help("copy it from `log_format` of nginx or `LogFormat` of Apache")
    })?;
    Ok(SourceLineFormat::AccessLog(format.map(Arc::new)))
}

fn csv_format(args: &FollowArgs) -> Result<SourceLineFormat, CommandError> {
    let &[separator] = args.separator.as_bytes() else {
        return Err(CommandError::new("--separator: expected one character of ASCII"));
    };
    if matches!(separator, b'"' | b'\r' | b'\n') {
        return Err(CommandError::new("--separator: quotes and ends of lines separate no columns"));
    }
    Ok(SourceLineFormat::Csv(CsvColumns { names: args.columns.clone(), separator }))
}

fn log_format(mut settings: LogSettings, args: &FollowArgs) -> Result<SourceLineFormat, CommandError> {
    if args.journald && settings.envelope == LogEnvelope::Lines {
        settings.envelope = LogEnvelope::Journal;
    }
    settings.zone = args.zone.clone().or(settings.zone);
    let stream = settings.open(machine_zone()).map_err(CommandError::new)?;
    Ok(SourceLineFormat::Log(Box::new(stream)))
}
