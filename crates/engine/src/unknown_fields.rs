//! Fields that an event has and its pipeline does not know: refused, or said in the answer, a metric and the log.

use std::sync::atomic::{AtomicI64, Ordering};

use content::json::{JsonError, ParsedEvent};
use event::{Event, Slot, Span, Time};

use crate::Engine;
use crate::batch::{BatchColumn, EventBatch};
use crate::metrics::label;
use plan::{Pipeline, UnknownFieldPolicy};

/// Columns of a batch that are named, and what is shown of each.
const NAMES_MAX: usize = 8;
const NAME_BYTES_MAX: usize = 100;
/// Names longer than this are compared with no other.
const COMPARED_BYTES_MAX: usize = 32;
/// Unknown fields of an event for which the nearest known one is looked for.
const COMPARED_MAX: usize = 2;

/// Reasons to refuse a JSON object as an event of a pipeline.
#[derive(Debug, thiserror::Error)]
pub enum JsonEventError {
    /// The object cannot be read, or has a value of another type than its field.
    #[error(transparent)]
    Json(#[from] JsonError),
    /// The object has a field that the pipeline does not know, or none that it knows, and `unknown` is `error`.
    #[error("{0}")]
    Unknown(String),
}

/// The time of the last report of unknown fields to the log, in microseconds.
#[derive(Debug)]
pub(crate) struct UnknownFieldThrottle(AtomicI64);

impl Default for UnknownFieldThrottle {
    fn default() -> UnknownFieldThrottle {
        UnknownFieldThrottle(AtomicI64::new(i64::MIN))
    }
}

impl UnknownFieldThrottle {
    /// Returns whether it may be told again: once a minute.
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
    /// See [`JsonEventError`]: then nothing is counted.
    pub fn read_json(
        &self,
        pipeline: &Pipeline,
        bytes: &[u8],
        now: Time,
    ) -> Result<(Event, Vec<String>), JsonEventError> {
        let ParsedEvent { event, ignored, unknown } = content::json::event(bytes, &pipeline.schema)?;
        let is_foreign = event.fields.is_empty() && event.raw.is_none();
        self.metrics.count_ignored(pipeline, ignored as u64);
        let found = UnknownFields { names: &unknown, ignored, rows: 1, foreign: usize::from(is_foreign) };
        self.warned(pipeline, found, now).map(|warnings| (event, warnings))
    }

    /// Looks for columns of a batch that the pipeline does not know, and for rows without any that it knows: what the answer
    /// has to warn of.
    ///
    /// # Errors
    /// [`JsonEventError::Unknown`]: the batch is not to be counted.
    pub fn check_columns(
        &self,
        pipeline: &Pipeline,
        batches: &[EventBatch<'_>],
        now: Time,
    ) -> Result<Vec<String>, JsonEventError> {
        let is_known = |name: &str| {
            let slot = pipeline.schema.slot(name);
            slot.is_some_and(|slot| pipeline.columns.is_brought(slot))
        };
        let of_events = |name: &str| matches!(name, "id" | "time");
        let (mut names, mut ignored) = (Vec::new(), 0);
        for (name, _) in batches.first().map_or(&[][..], |batch| &batch.columns) {
            if !of_events(name) && !is_known(name) {
                ignored += 1;
                if names.len() < NAMES_MAX {
                    names.push(content::text::truncate(name, NAME_BYTES_MAX).to_owned());
                }
            }
        }
        let foreign = |batch: &EventBatch<'_>| {
            let known = batch.columns.iter().filter(|(name, _)| !of_events(name) && is_known(name));
            let known: Vec<&BatchColumn<'_>> = known.map(|(_, column)| column).collect();
            (0..batch.rows).filter(|row| known.iter().all(|column| !column.has(*row))).count()
        };
        let (rows, foreign) =
            (batches.iter().map(|batch| batch.rows).sum(), batches.iter().map(foreign).sum());
        self.warned(pipeline, UnknownFields { names: &names, ignored, rows, foreign }, now)
    }

    /// Does with what was found what the pipeline says.
    fn warned(
        &self,
        pipeline: &Pipeline,
        found: UnknownFields<'_>,
        now: Time,
    ) -> Result<Vec<String>, JsonEventError> {
        let events = if found.ignored > 0 { found.rows } else { found.foreign };
        if events == 0 {
            return Ok(Vec::new());
        }
        self.metrics.unknown_events.get_or_create(&label(pipeline)).inc_by(events as u64);
        if pipeline.unknown == UnknownFieldPolicy::Ignore {
            return Ok(Vec::new());
        }
        let warnings = warnings(pipeline, &found);
        if pipeline.unknown == UnknownFieldPolicy::Error {
            return Err(JsonEventError::Unknown(warnings.join("; ")));
        }
        if self.unknown_field_throttle.may_tell(now) {
            let (pipeline, first) = (&pipeline.name, warnings.first().map_or("", String::as_str));
            tracing::warn!(pipeline, "{first}: such events are judged without it; `unknown` says otherwise");
        }
        Ok(warnings)
    }
}

/// Fields of some events that their pipeline does not know.
struct UnknownFields<'a> {
    /// The first names of fields that it does not know.
    names: &'a [String],
    /// The number of such fields.
    ignored: usize,
    /// The number of the events, each of which has them.
    rows: usize,
    /// The number of events without a field that it knows.
    foreign: usize,
}

fn warnings(pipeline: &Pipeline, found: &UnknownFields<'_>) -> Vec<String> {
    let names = || {
        let columns = pipeline.schema.columns().iter().zip((0..).map(Slot)).take(pipeline.columns.count);
        let columns = columns.filter(|(_, slot)| pipeline.columns.is_brought(*slot));
        columns.map(|(column, _)| column.name.as_str()).filter(|name| !name.starts_with("event."))
    };
    let mut warnings = Vec::new();
    for (at, name) in found.names.iter().enumerate() {
        let is_compared = at < COMPARED_MAX && name.len() <= COMPARED_BYTES_MAX;
        let near = if is_compared { plan::nearest(name, names()) } else { None };
        let near = near.map(|near| format!(": did you mean `{near}`?")).unwrap_or_default();
        let shown = name.escape_debug();
        warnings.push(format!("`{shown}` is no field of the pipeline `{}`{near}", pipeline.name));
    }
    let more = found.ignored.saturating_sub(found.names.len());
    if more > 0 {
        warnings.push(format!("and {more} more fields are none of it"));
    }
    match (found.foreign, found.rows) {
        (0, _) => {}
        (_, 1) => {
            warnings.push(format!("the event has no field that the pipeline `{}` knows", pipeline.name))
        }
        (foreign, rows) => warnings.push(format!(
            "{foreign} of {rows} events have no field that the pipeline `{}` knows",
            pipeline.name
        )),
    }
    warnings
}
