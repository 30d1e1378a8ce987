//! Lines of a source → events → decisions.

use std::sync::Arc;

use content::budget::Cancellation;
use engine::PreparedEvent;
use event::{Event, Time};
use logs::crowdsec::kept_buckets::KeptBuckets;
use logs::log_stream::{LogEnvelope, LogSettings, zone};
use plan::{CrowdsecPlan, Pipeline, PipelineInput, SourceInput, SourcePlan};
use serde_json::Value;
use sources::SourceChunk;
use sources::crowdsec_reader::CrowdsecReader;
use sources::line_reader::{
    LinePlace, ReadLine, SourceEnvelope, SourceLineFormat, SourceLineReader, machine_zone,
};

use crate::core::node::Node;
use crate::core::sources::SourceStatus;

/// A reader of a source's lines by a pipeline.
pub(super) struct SourceReader {
    /// The version of the pipeline that the reader is of.
    pipeline: Arc<Pipeline>,
    lines: SourceLines,
}

/// A reader of lines: each is an event or none, or what scenarios make of several.
enum SourceLines {
    Lines(SourceLineReader),
    Crowdsec(Box<CrowdsecReader>),
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
        let lines = match &plan.crowdsec {
            Some(crowdsec) => {
                SourceLines::Crowdsec(Box::new(open_crowdsec(plan, crowdsec, pipeline.prefixes.v6)?))
            }
            None => SourceLines::Lines(reader(plan, pipeline)?),
        };
        Ok(SourceReader { pipeline: Arc::clone(pipeline), lines })
    }

    /// The buckets as they are kept over a restart, if there are any.
    pub(super) fn kept_buckets(&self) -> Option<KeptBuckets> {
        match &self.lines {
            SourceLines::Crowdsec(reader) => Some(reader.kept_buckets()),
            SourceLines::Lines(_) => None,
        }
    }

    /// Goes on with buckets that were kept.
    pub(super) fn restore(&mut self, kept: KeptBuckets, now: Time) {
        if let SourceLines::Crowdsec(reader) = &mut self.lines {
            reader.restore(kept, now);
        }
    }

    /// Returns true if lines go into buckets.
    pub(super) fn has_buckets(&self) -> bool {
        matches!(self.lines, SourceLines::Crowdsec(_))
    }

    /// Returns true if the first line of each file is a heading.
    pub(super) fn is_headed(&self) -> bool {
        matches!(&self.lines, SourceLines::Lines(lines) if lines.is_headed())
    }

    /// Takes over a pipeline that has changed.
    fn renew(&mut self, node: &Node, plan: &SourcePlan) {
        let current = node.engine.plan().pipeline(Some(&plan.pipeline)).cloned();
        let Some(current) = current.filter(|current| !Arc::ptr_eq(current, &self.pipeline)) else { return };
        // Memory of sessions is kept where patterns are the same.
        let is_other = current.log() != self.pipeline.log()
            || current.access_log_format() != self.pipeline.access_log_format();
        if is_other
            && let SourceLines::Lines(known) = &mut self.lines
            && let Ok(lines) = reader(plan, &current)
        {
            *known = lines;
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
            let line = match &self.lines {
                SourceLines::Lines(lines) => lines.trimmed(line),
                SourceLines::Crowdsec(_) => Some(line.trim_ascii_end()).filter(|line| !line.is_empty()),
            };
            let Some(line) = line else { continue };
            let place = LinePlace { origin: &chunk.origin, name: name.as_deref() };
            let lines = match &mut self.lines {
                SourceLines::Lines(lines) => lines,
                SourceLines::Crowdsec(reader) => {
                    let Some(objects) = reader.read(line, place, now) else {
                        status.unread.inc();
                        continue;
                    };
                    for object in objects {
                        match self.object(node, object, now) {
                            Ok(event) => events.push(event),
                            Err(why) => status.refuse(now, format!("{}: {why}", chunk.origin)),
                        }
                    }
                    continue;
                }
            };
            let event = match lines.read(line, place, &mut head, now) {
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
        if let SourceLines::Lines(lines) = &self.lines {
            head = lines.head_behind(&chunk.origin, head);
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

/// The parsers and scenarios of a folder.
fn open_crowdsec(
    plan: &SourcePlan,
    crowdsec: &CrowdsecPlan,
    ipv6_prefix: u8,
) -> Result<CrowdsecReader, String> {
    let mut told = Vec::new();
    let data_files = crowdsec.data_files.as_deref();
    let kind = crowdsec.kind.as_str();
    let reader = CrowdsecReader::open(&crowdsec.directory, data_files, kind, ipv6_prefix, &mut told);
    for told in &told {
        tracing::warn!(source = plan.name, "not taken: {told}");
    }
    reader.map(|reader| reader.of_containers(matches!(plan.input, SourceInput::Docker { .. })))
}

/// The reader of a source's lines.
fn reader(plan: &SourcePlan, pipeline: &Pipeline) -> Result<SourceLineReader, String> {
    let own = plan.zone.as_deref().and_then(zone);
    let zone = own.unwrap_or_else(machine_zone);
    let format = match (&plan.csv, pipeline.input, pipeline.log()) {
        (Some(columns), ..) => SourceLineFormat::Csv(columns.clone()),
        (None, PipelineInput::Log, Some(settings)) => {
            let mut settings: LogSettings = settings.clone();
            settings.zone = plan.zone.clone().or(settings.zone);
            if let Some(envelope) = plan.envelope {
                settings.envelope = envelope;
            } else if settings.envelope == LogEnvelope::Lines {
                settings.envelope = match plan.input {
                    SourceInput::Journal(_) => LogEnvelope::Journal,
                    SourceInput::Syslog(_) => LogEnvelope::Syslog,
                    SourceInput::Docker { .. } => LogEnvelope::Docker,
                    SourceInput::Files { .. } => LogEnvelope::Lines,
                };
            }
            let stream = settings.open(machine_zone()).map_err(|error| error.to_string())?;
            SourceLineFormat::Log(Box::new(stream))
        }
        (None, PipelineInput::AccessLog, _) => {
            SourceLineFormat::AccessLog(pipeline.access_log_format().cloned())
        }
        (None, ..) => SourceLineFormat::Ndjson,
    };
    let envelope = match plan.input {
        SourceInput::Syslog(_) => SourceEnvelope::Syslog,
        SourceInput::Docker { .. } => SourceEnvelope::Docker,
        SourceInput::Files { .. } | SourceInput::Journal(_) => SourceEnvelope::Plain,
    };
    Ok(SourceLineReader::new(format, zone).in_envelope(envelope))
}
