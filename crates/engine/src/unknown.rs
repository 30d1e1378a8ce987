//! Fields that an event has and its pipeline does not know: refused, or said in the answer, a metric and the log.

use std::sync::atomic::{AtomicI64, Ordering};

use content::json::{JsonError, Parsed};
use event::{Event, Span, Time};

use crate::plan::{OnUnknown, Pipeline};
use crate::{Engine, config, label};

/// Names longer than this are compared with no other.
const COMPARED_BYTES_MAX: usize = 32;
/// Unknown fields of an event for which the nearest known one is looked for.
const COMPARED_MAX: usize = 2;

/// Why a JSON object is no event of a pipeline.
#[derive(Debug, thiserror::Error)]
pub enum EventError {
    /// It cannot be read, or has a value of another type than its field.
    #[error(transparent)]
    Json(#[from] JsonError),
    /// It has a field that the pipeline does not know, or none that it knows, and `unknown` is `error`.
    #[error("{0}")]
    Unknown(String),
}

/// When the log was told last of unknown fields, in microseconds.
#[derive(Debug)]
pub(crate) struct ToldUnknown(AtomicI64);

impl Default for ToldUnknown {
    fn default() -> ToldUnknown {
        ToldUnknown(AtomicI64::new(i64::MIN))
    }
}

impl ToldUnknown {
    /// Whether it may be told again: once a minute.
    fn may_tell(&self, now: Time) -> bool {
        let last = self.0.load(Ordering::Relaxed);
        let is_due = Time(last) > now || now.0.saturating_sub(last) >= Span::minutes(1).0;
        is_due && self.0.compare_exchange(last, now.0, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }
}

impl Engine {
    /// Reads a JSON object as an event of a pipeline, and what its answer has to warn of.
    ///
    /// # Errors
    /// See [`EventError`]: then nothing is counted.
    pub fn read_json(
        &self,
        pipeline: &Pipeline,
        bytes: &[u8],
        now: Time,
    ) -> Result<(Event, Vec<String>), EventError> {
        let parsed = content::json::event(bytes, &pipeline.schema)?;
        let is_foreign = parsed.event.fields.is_empty() && parsed.event.raw.is_none();
        if parsed.ignored == 0 && !is_foreign {
            return Ok((parsed.event, Vec::new()));
        }
        self.metrics.fields_ignored.get_or_create(&label(pipeline)).inc_by(parsed.ignored as u64);
        self.metrics.unknown_events.get_or_create(&label(pipeline)).inc();
        if pipeline.unknown == OnUnknown::Ignore {
            return Ok((parsed.event, Vec::new()));
        }
        let warnings = warnings(pipeline, &parsed, is_foreign);
        if pipeline.unknown == OnUnknown::Error {
            return Err(EventError::Unknown(warnings.join("; ")));
        }
        if self.told_unknown.may_tell(now) {
            let (pipeline, first) = (&pipeline.name, warnings.first().map_or("", String::as_str));
            tracing::warn!(pipeline, "{first}: such events are judged without it; `unknown` says otherwise");
        }
        Ok((parsed.event, warnings))
    }
}

fn warnings(pipeline: &Pipeline, parsed: &Parsed, is_foreign: bool) -> Vec<String> {
    let names = || {
        let columns = pipeline.schema.columns().iter().take(pipeline.columns.count);
        columns.map(|column| column.name.as_str()).filter(|name| !name.starts_with("event."))
    };
    let mut warnings = Vec::new();
    for (at, name) in parsed.unknown.iter().enumerate() {
        let is_compared = at < COMPARED_MAX && name.len() <= COMPARED_BYTES_MAX;
        let near = if is_compared { config::nearest(name, names()) } else { None };
        let near = near.map(|near| format!(": did you mean `{near}`?")).unwrap_or_default();
        let shown = name.escape_debug();
        warnings.push(format!("`{shown}` is no field of the pipeline `{}`{near}", pipeline.name));
    }
    let more = parsed.ignored.saturating_sub(parsed.unknown.len());
    if more > 0 {
        warnings.push(format!("and {more} more fields are none of it"));
    }
    if is_foreign {
        warnings.push(format!("the event has no field that the pipeline `{}` knows", pipeline.name));
    }
    warnings
}
