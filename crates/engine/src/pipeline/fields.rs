//! Stage 1, fields: what the event says of itself becomes the first columns of the row, checked against the
//! schema, and the event's time is fixed.

use std::sync::Arc;

use event::{Event, Facts, Slot, Time, Value};

use plan::Pipeline;

/// A row in the making.
#[derive(Debug)]
pub(crate) struct RowDraft {
    pub(crate) pipeline: Arc<Pipeline>,
    pub(crate) event_id: Option<String>,
    pub(crate) time: Time,
    pub(crate) arrival: Time,
    /// The event claimed to come from too far in the future.
    pub(crate) clamped: bool,
    /// Fields that the schema does not know or whose values do not fit: as good as absent.
    pub(crate) ignored: u32,
    pub(crate) facts: Facts,
    pub(crate) raw: Option<Arc<[u8]>>,
}

/// Fills the columns of the fields, and of those that are derived from them.
pub(crate) fn fill(pipeline: &Arc<Pipeline>, mut event: Event, arrival: Time) -> RowDraft {
    let latest = arrival + pipeline.skew_max;
    let claimed = pipeline.header.time(&event).or(event.time).unwrap_or(arrival);
    let time = claimed.min(latest);
    let mut facts = pipeline.schema.empty_row();
    facts.set(pipeline.columns.event.time, time);
    facts.set(pipeline.columns.event.arrival, arrival);
    let mut ignored = u32::from(pipeline.header.is_time_unread(&event));
    let event_id = pipeline.header.id(&event).or_else(|| event.id.take());
    for (name, value) in event.fields {
        // Derived fields, readings, what models say and what content shows are columns too, and nobody's to bring.
        let is_brought = |slot: &Slot| pipeline.columns.is_brought(*slot);
        let Some(slot) = pipeline.schema.slot(&name).filter(is_brought) else {
            ignored += 1;
            continue;
        };
        match value.coerce(pipeline.schema.column(slot).kind) {
            Some(value) => facts.set(slot, value),
            None => ignored += 1,
        }
    }
    for (field, network) in &pipeline.columns.networks {
        if let Some(Value::Ip(ip)) = facts.get(*field) {
            let text = content::network::network(*ip, pipeline.prefixes);
            facts.set(*network, text);
        }
    }
    for field in pipeline.columns.derived.iter().filter(|field| !field.is_late) {
        field.fill(&mut facts, pipeline.prefixes);
    }
    let event_id = event_id.filter(|id| !id.is_empty() && id.len() <= Event::ID_BYTES_MAX);
    RowDraft {
        pipeline: Arc::clone(pipeline),
        event_id,
        time,
        arrival,
        clamped: claimed > latest,
        ignored,
        facts,
        raw: event.raw,
    }
}

/// Fills the fields that are derived from what the content shows, too.
pub(crate) fn derive_late(row: &mut RowDraft) {
    for field in row.pipeline.columns.derived.iter().filter(|field| field.is_late) {
        field.fill(&mut row.facts, row.pipeline.prefixes);
    }
}
