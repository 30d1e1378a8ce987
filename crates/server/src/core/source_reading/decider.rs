//! Lines of a source → events → decisions.

use std::sync::Arc;

use content::budget::Cancellation;
use engine::PreparedEvent;
use event::{Event, Time};
use logs::log_stream::{LogEnvelope, LogSettings, zone};
use plan::{Pipeline, PipelineInput, SourceInput, SourcePlan};
use serde_json::Value;
use sources::SourceChunk;
use sources::line_reader::{
    LinePlace, ReadLine, SourceEnvelope, SourceLineFormat, SourceLineReader, machine_zone,
};

use crate::core::node::Node;
use crate::core::sources::SourceStatus;

/// A reader of a source's lines by a pipeline.
pub(super) struct SourceReader {
    /// The version of the pipeline that the reader is of.
    pipeline: Arc<Pipeline>,
    lines: SourceLineReader,
}

/// Events of a chunk, and the heading behind it.
pub(super) struct ReadChunk {
    pub(super) events: Vec<Event>,
    pub(super) head: Option<String>,
}

impl SourceReader {
    /// A reader by the pipeline as it is now.
    pub(super) fn open(node: &Node, plan: &SourcePlan) -> Result<SourceReader, String> {
        let known = node.engine.plan();
        let pipeline = known.pipeline(Some(&plan.pipeline));
        let pipeline = pipeline.ok_or_else(|| format!("there is no pipeline `{}`", plan.pipeline))?;
        Ok(SourceReader { pipeline: Arc::clone(pipeline), lines: reader(plan, pipeline)? })
    }

    /// Returns true if the first line of each file is a heading.
    pub(super) fn is_headed(&self) -> bool {
        self.lines.is_headed()
    }

    /// Takes over a pipeline that has changed.
    fn renew(&mut self, node: &Node, plan: &SourcePlan) {
        let current = node.engine.plan().pipeline(Some(&plan.pipeline)).cloned();
        let Some(current) = current.filter(|current| !Arc::ptr_eq(current, &self.pipeline)) else { return };
        // Memory of sessions is kept where patterns are the same.
        if current.log() != self.pipeline.log()
            && let Ok(lines) = reader(plan, &current)
        {
            self.lines = lines;
        }
        self.pipeline = current;
    }

    /// Reads the lines of a chunk.
    pub(super) fn read(
        &mut self,
        node: &Node,
        status: &SourceStatus,
        chunk: &SourceChunk,
        now: Time,
    ) -> ReadChunk {
        self.renew(node, &status.plan);
        let mut head = chunk.head.clone();
        let mut events = Vec::with_capacity(chunk.lines.len());
        status.came(chunk.lines.len(), now);
        for (name, line) in &chunk.lines {
            // Patterns mind spaces in front.
            let by_patterns = self.lines.is_by_patterns();
            let line = if by_patterns { line.trim_ascii_end() } else { line.trim_ascii() };
            if line.is_empty() {
                continue;
            }
            let place = LinePlace { origin: &chunk.origin, name: name.as_deref() };
            let event = match self.lines.read(line, place, &mut head, now) {
                Ok(ReadLine::Event(event)) => Ok(*event),
                Ok(ReadLine::Object(object)) => self.object(node, Value::Object(object), now),
                Ok(ReadLine::Silent) => continue,
                Ok(ReadLine::Unread) => {
                    status.unread.inc();
                    continue;
                }
                Err(why) => Err(why),
            };
            match event {
                Ok(event) => events.push(event),
                Err(why) => {
                    let name = name.as_deref().unwrap_or(&chunk.origin);
                    status.refuse(now, format!("{name}: {why}"));
                }
            }
        }
        ReadChunk { events, head }
    }

    /// Makes the keys of events.
    pub(super) fn prepare(&self, node: &Node, events: &[Event], now: Time) -> Vec<PreparedEvent> {
        let never = Cancellation::default();
        let prepare =
            |event: &Event| node.engine.key(node.engine.read(&self.pipeline, event.clone(), now, &never));
        events.iter().map(prepare).collect()
    }

    fn object(&self, node: &Node, object: Value, now: Time) -> Result<Event, String> {
        let bytes = object.to_string();
        let read = node.engine.read_json(&self.pipeline, bytes.as_bytes(), now);
        read.map(|(event, _)| event).map_err(|error| error.to_string())
    }
}

/// The reader of a source's lines.
fn reader(plan: &SourcePlan, pipeline: &Pipeline) -> Result<SourceLineReader, String> {
    let own = plan.zone.as_deref().and_then(zone);
    let zone = own.unwrap_or_else(machine_zone);
    let is_syslog = matches!(plan.input, SourceInput::Syslog(_));
    let format = match (&plan.csv, pipeline.input, pipeline.log()) {
        (Some(columns), ..) => SourceLineFormat::Csv(columns.clone()),
        (None, PipelineInput::Log, Some(settings)) => {
            let mut settings: LogSettings = settings.clone();
            settings.zone = plan.zone.clone().or(settings.zone);
            if settings.envelope == LogEnvelope::Lines {
                settings.envelope = match plan.input {
                    SourceInput::Journal(_) => LogEnvelope::Journal,
                    SourceInput::Syslog(_) => LogEnvelope::Syslog,
                    SourceInput::Files { .. } => LogEnvelope::Lines,
                };
            }
            let stream = settings.open(machine_zone()).map_err(|error| error.to_string())?;
            SourceLineFormat::Log(Box::new(stream))
        }
        (None, PipelineInput::AccessLog, _) => SourceLineFormat::AccessLog,
        (None, ..) => SourceLineFormat::Ndjson,
    };
    let envelope = if is_syslog { SourceEnvelope::Syslog } else { SourceEnvelope::Plain };
    Ok(SourceLineReader::new(format, zone).in_envelope(envelope))
}
