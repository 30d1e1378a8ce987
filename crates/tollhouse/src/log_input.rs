//! Files whose lines become events of a pipeline: JSON, access logs and logs of programs, as they are or as a container's
//! runtime wrote them; what `replay`, `report-log` and `rules coverage` read.
//!
//! ```text
//! lines that stand alone                          ─► prepared on many threads ─┐
//! read by patterns, behind a heading, or wrapped  ─► read in their order ──────┴─► batches of FileLine
//! ```

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use content::web::log_format::AccessLogFormat;
use engine::PreparedEvent;
use event::{Event, Time};
use logs::log_stream::{LogEnvelope, LogSettings};
use plan::{Pipeline, PipelineInput};
use serde_json::{Map, Value};
use sources::line_reader::{LinePlace, ReadLine, SourceLineFormat, SourceLineReader, machine_zone};

use crate::client::LineFormat;
use crate::clock;
use crate::exit::{CommandError, Exit};
use crate::input::line_batch::{LineBatchIter, NumberedLine};
use crate::input::lines::{InputLine, InputLineIter};
use crate::input::messages::STDIN;
use crate::message_reader::ThreadsOption;
use crate::options::LocalEngine;
use crate::ordered_pool::map_ordered;

/// The format of a file's lines, as it is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum LogFileFormat {
    /// The form by the first line: an object begins with a brace.
    Auto,
    /// One JSON object a line.
    Ndjson,
    /// Access logs, by the pipeline's own format or in any that is known; also in files of Docker and Kubernetes.
    AccessLog,
    /// Lines of any log, by the patterns of a pipeline with `input = "log"`.
    Log,
}

impl LogFileFormat {
    /// Returns true if a pipeline with patterns reads lines by them.
    pub(crate) fn may_be_log(self) -> bool {
        matches!(self, LogFileFormat::Auto | LogFileFormat::Log)
    }
}

/// The error of a line that no event may be as long as.
pub(crate) const TOO_LONG: &str = "the line is longer than any event may be";
/// The beginning of a line of Docker's `json-file` logs.
const DOCKER_HEAD: &str = "{\"log\":";
/// Bytes of a container runtime's line in front of the log's own.
const CONTAINER_HEAD_BYTES: usize = 60;

/// Opens the input and tells how its lines are read.
pub(crate) fn open(
    path: &Path,
    format: LogFileFormat,
) -> Result<(Box<dyn BufRead + Send>, LineFormat), CommandError> {
    let failed = |error: io::Error| CommandError::new(format_args!("{}: {error}", path.display()));
    let stream: Box<dyn Read + Send> = if path.as_os_str() == STDIN {
        Box::new(io::stdin())
    } else {
        Box::new(File::open(path).map_err(failed)?)
    };
    let mut reader = BufReader::with_capacity(256 << 10, stream);
    let form = match format {
        LogFileFormat::Ndjson => LineFormat::Json,
        LogFileFormat::AccessLog | LogFileFormat::Log => LineFormat::AccessLog,
        LogFileFormat::Auto => loop {
            match reader.fill_buf().map_err(failed)? {
                // What a container writes is an access log's line in an object, and no event.
                first if first.starts_with(DOCKER_HEAD.as_bytes()) => break LineFormat::AccessLog,
                [b'{', ..] => break LineFormat::Json,
                [byte, ..] if byte.is_ascii_whitespace() => reader.consume(1),
                _ => break LineFormat::AccessLog,
            }
        },
    };
    Ok((Box::new(reader), form))
}

/// The wrapping of a file's lines, by its first one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LogShell {
    /// None: each line stands alone.
    Plain,
    /// A heading names the fields of those behind it.
    Heading,
    /// A container's runtime wrote them.
    Container(LogEnvelope),
}

impl LogShell {
    fn of(reader: &mut dyn BufRead) -> io::Result<LogShell> {
        let first = reader.fill_buf()?;
        let head = String::from_utf8_lossy(&first[..first.len().min(CONTAINER_HEAD_BYTES)]);
        let is_of_runtime = head.contains(" stdout ") || head.contains(" stderr ");
        Ok(match &*head {
            head if head.starts_with('#') => LogShell::Heading,
            head if head.starts_with(DOCKER_HEAD) => LogShell::Container(LogEnvelope::Docker),
            _ if is_of_runtime => LogShell::Container(LogEnvelope::Cri),
            _ => LogShell::Plain,
        })
    }
}

/// Returns the reader of lines that are read in their order: by patterns, behind a heading, or out of a container's file; `None`
/// if each line stands alone.
pub(crate) fn ordered_reader(
    patterns: Option<LogSettings>,
    own_format: Option<Arc<AccessLogFormat>>,
    form: LineFormat,
    reader: &mut dyn BufRead,
) -> io::Result<Option<SourceLineReader>> {
    let wrapping = LogShell::of(reader)?;
    let format = match patterns {
        Some(mut settings) => {
            if let (LogEnvelope::Lines, LogShell::Container(envelope)) = (settings.envelope, wrapping) {
                settings.envelope = envelope;
            }
            let stream = settings.open(machine_zone()).map_err(io::Error::other)?;
            SourceLineFormat::Log(Box::new(stream))
        }
        None if form == LineFormat::Json || wrapping == LogShell::Plain => return Ok(None),
        None => SourceLineFormat::AccessLog(own_format),
    };
    Ok(Some(SourceLineReader::new(format, machine_zone())))
}

/// Numbered lines, with the blanks that mean something to a reader.
pub(crate) fn numbered_lines<R: BufRead>(reader: R, lines: Option<&SourceLineReader>) -> InputLineIter<R> {
    let input = InputLineIter::new(reader);
    if lines.is_some_and(SourceLineReader::minds_blanks) { input.with_blanks() } else { input }
}

/// A line of a file.
pub(crate) enum FileLine<T> {
    /// An event.
    Event(Box<ReadyEvent<T>>),
    /// A line that no pattern reads.
    Unread,
    /// A line that is no event, and why.
    Bad(String),
}

impl<T> FileLine<T> {
    /// Returns the event, if it is one.
    pub(crate) fn event(self) -> Option<ReadyEvent<T>> {
        match self {
            FileLine::Event(event) => Some(*event),
            FileLine::Unread | FileLine::Bad(_) => None,
        }
    }
}

/// An event that can be decided.
pub(crate) struct ReadyEvent<T> {
    pub(crate) prepared: PreparedEvent,
    /// The warnings about the event's fields.
    pub(crate) warnings: Vec<String>,
    /// The part of it that the caller keeps.
    pub(crate) kept: T,
}

/// Lines with their numbers.
pub(crate) type FileLines<T> = Vec<(u64, FileLine<T>)>;

/// A reader of files' lines as events of a pipeline.
pub(crate) struct LogFileReader<'a> {
    pub(crate) local: &'a LocalEngine,
    pub(crate) pipeline: &'a Arc<Pipeline>,
    pub(crate) form: LineFormat,
    /// True if lines are read by the pipeline's patterns, where it has some.
    pub(crate) by_patterns: bool,
    pub(crate) threads: ThreadsOption,
    /// Most events of a batch.
    pub(crate) size: u16,
}

impl LogFileReader<'_> {
    /// Reads a file, and hands over its lines in their order, in batches.
    pub(crate) fn read<T: Send>(
        &self,
        mut reader: Box<dyn BufRead + Send>,
        keep: impl Fn(&Event) -> T + Sync,
        mut take: impl FnMut(io::Result<FileLines<T>>) -> Result<(), CommandError>,
    ) -> Result<Exit, CommandError> {
        let patterns = self.pipeline.log().filter(|_| self.by_patterns).cloned();
        let own_format = self.pipeline.access_log_format().cloned();
        match ordered_reader(patterns, own_format, self.form, &mut *reader) {
            Ok(Some(lines)) => self.read_in_order(lines, reader, &keep, take),
            Ok(None) => self.read_alone(reader, &keep, take),
            Err(error) => take(Err(error)).map(|()| Exit::Fine),
        }
    }

    /// Reads lines that stand alone on many threads.
    fn read_alone<T: Send>(
        &self,
        reader: Box<dyn BufRead + Send>,
        keep: &(impl Fn(&Event) -> T + Sync),
        mut take: impl FnMut(io::Result<FileLines<T>>) -> Result<(), CommandError>,
    ) -> Result<Exit, CommandError> {
        let prepare = |batch: io::Result<Vec<NumberedLine>>| -> io::Result<FileLines<T>> {
            let lines =
                batch?.into_iter().map(|(number, line)| (number, self.ready(self.parse(&line), keep)));
            Ok(lines.collect())
        };
        let batches = LineBatchIter { lines: InputLineIter::new(reader), size: self.size };
        let flow = map_ordered(self.threads.count(), batches, prepare, |batch| match take(batch) {
            Ok(()) if self.local.interrupt.raised() => ControlFlow::Break(Ok(Exit::Interrupted)),
            Ok(()) => ControlFlow::Continue(()),
            Err(failure) => ControlFlow::Break(Err(failure)),
        });
        match flow {
            ControlFlow::Break(ended) => ended,
            ControlFlow::Continue(()) => Ok(Exit::Fine),
        }
    }

    /// Reads lines each by what earlier ones said.
    fn read_in_order<T>(
        &self,
        mut lines: SourceLineReader,
        reader: Box<dyn BufRead + Send>,
        keep: &impl Fn(&Event) -> T,
        mut take: impl FnMut(io::Result<FileLines<T>>) -> Result<(), CommandError>,
    ) -> Result<Exit, CommandError> {
        let (origin, mut head) = (Arc::from(STDIN), None);
        let input = numbered_lines(reader, Some(&lines));
        for batch in (LineBatchIter { lines: input, size: self.size }) {
            if self.local.interrupt.raised() {
                return Ok(Exit::Interrupted);
            }
            let batch = match batch {
                Ok(batch) => batch,
                Err(error) => {
                    take(Err(error))?;
                    break;
                }
            };
            let (now, mut ready) = (clock::now(), Vec::with_capacity(batch.len()));
            for (number, line) in batch {
                let InputLine::Bytes(bytes) = line else {
                    ready.push((number, FileLine::Bad(TOO_LONG.to_owned())));
                    continue;
                };
                let Some(line) = lines.trimmed(&bytes) else { continue };
                let event = match lines.read(line, LinePlace { origin: &origin, name: None }, &mut head, now)
                {
                    Ok(ReadLine::Event(event)) => Ok((*event, Vec::new())),
                    Ok(ReadLine::Object(object)) => {
                        self.of_json(Value::Object(object).to_string().as_bytes(), now)
                    }
                    Ok(ReadLine::Silent) => continue,
                    Ok(ReadLine::Unread) => {
                        ready.push((number, FileLine::Unread));
                        continue;
                    }
                    Err(why) => Err(why),
                };
                ready.push((number, self.ready(event, keep)));
            }
            take(Ok(ready))?;
        }
        Ok(Exit::Fine)
    }

    fn parse(&self, line: &InputLine) -> Result<(Event, Vec<String>), String> {
        let InputLine::Bytes(bytes) = line else { return Err(TOO_LONG.to_owned()) };
        match self.form {
            LineFormat::Json => self.of_json(bytes, clock::now()),
            LineFormat::AccessLog => {
                let event = self.pipeline.access_log_event(bytes).map_err(|error| error.to_string())?;
                Ok((event, Vec::new()))
            }
        }
    }

    fn of_json(&self, bytes: &[u8], now: Time) -> Result<(Event, Vec<String>), String> {
        self.local.engine().read_json(self.pipeline, bytes, now).map_err(|error| error.to_string())
    }

    /// Prepares an event, which arrives at its own time.
    fn ready<T>(
        &self,
        event: Result<(Event, Vec<String>), String>,
        keep: &impl Fn(&Event) -> T,
    ) -> FileLine<T> {
        let (event, warnings) = match event {
            Ok(read) => read,
            Err(why) => return FileLine::Bad(why),
        };
        let time = self.pipeline.header.time(&event).or(event.time);
        let arrival = time.unwrap_or_else(clock::now);
        let kept = keep(&event);
        let prepared = self.local.engine().prepare(self.pipeline, event, arrival);
        FileLine::Event(Box::new(ReadyEvent { prepared, warnings, kept }))
    }
}

/// Returns the error of a pipeline that reads no such lines, if it does not.
pub(crate) fn refused(pipeline: &str, input: &str, format: LogFileFormat) -> CommandError {
    let other = if format == LogFileFormat::Log { "logs of programs" } else { "access logs" };
    CommandError::new(format_args!("the pipeline `{pipeline}` reads {input}, not {other}"))
}

/// Returns true for a pipeline that reads logs of programs by patterns of its own.
pub(crate) fn is_of_log(pipeline: &Pipeline) -> bool {
    pipeline.input == PipelineInput::Log
}

/// An event as servers take it.
pub(crate) fn event_json(event: Event) -> Map<String, Value> {
    let Event { id, time, fields, .. } = event;
    let mut object: Map<String, Value> =
        fields.into_iter().map(|(name, value)| (name.into_owned(), journal::json_value(&value))).collect();
    if let Some(time) = time {
        object.insert("time".to_owned(), Value::String(time.to_string()));
    }
    if let Some(id) = id {
        object.insert("id".to_owned(), Value::String(id));
    }
    object
}

/// Returns the text of a field of an object, whose name may be a path of names.
pub(crate) fn text_of_field<'o>(object: &'o Map<String, Value>, name: &str) -> Option<&'o str> {
    if let Some(value) = object.get(name) {
        return value.as_str();
    }
    let (first, rest) = name.split_once('.')?;
    text_of_field(object.get(first)?.as_object()?, rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_by_path_and_whole() {
        let check = |text: &str, expected: Option<&str>| {
            let Ok(Value::Object(object)) = serde_json::from_str(text) else { panic!("{text}") };
            assert_eq!(text_of_field(&object, "client.ip"), expected, "{text}");
        };
        check(r#"{"client.ip":"192.0.2.7"}"#, Some("192.0.2.7"));
        check(r#"{"client":{"ip":"192.0.2.7"}}"#, Some("192.0.2.7"));
        check(r#"{"client":{"ip":7}}"#, None);
        check(r#"{"client":"192.0.2.7"}"#, None);
        check("{}", None);
    }

    #[test]
    fn the_first_line_tells_how_a_file_is_wrapped() {
        let check = |text: &str, expected: LogShell| {
            assert_eq!(LogShell::of(&mut text.as_bytes()).unwrap(), expected, "{text}");
        };
        check("", LogShell::Plain);
        check("192.0.2.7 - - [", LogShell::Plain);
        check("#Software: IIS", LogShell::Heading);
        check(r#"{"log":"a\n"}"#, LogShell::Container(LogEnvelope::Docker));
        check("2026-05-17T09:00:00.1Z stdout F a", LogShell::Container(LogEnvelope::Cri));
    }
}
