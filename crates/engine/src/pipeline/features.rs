//! Stage 2, content features: the raw message, or the request, is read. Pure and bounded; see the `content` crate.

use std::net::IpAddr;
use std::sync::Arc;

use content::budget::{Budget, Cancellation};
use event::{Facts, Slot, Value};

use super::fields::{self, RowDraft};
use plan::{ContentColumns, Pipeline};

/// An event whose content was read and whose keys are not known yet. What is known of it from elsewhere, such as
/// name service, can still become facts.
#[derive(Debug)]
pub struct UnkeyedEvent {
    row: RowDraft,
    /// True if facts have changed since fields were derived from them.
    is_changed: bool,
}

impl UnkeyedEvent {
    /// An event of a row whose content was read.
    pub(crate) fn new(mut row: RowDraft) -> UnkeyedEvent {
        fields::derive_late(&mut row);
        UnkeyedEvent { row, is_changed: false }
    }

    /// The row with all fields as they are derived from the facts that it has now.
    pub(crate) fn finish(mut self) -> RowDraft {
        if self.is_changed {
            fields::derive_late(&mut self.row);
        }
        self.row
    }

    /// The facts so far.
    pub fn facts(&self) -> &Facts {
        &self.row.facts
    }

    /// The pipeline that it is read for.
    pub fn pipeline(&self) -> &Arc<Pipeline> {
        &self.row.pipeline
    }

    /// Adds or replaces a fact. A value of another type than its column is ignored, and so is a slot that is not one
    /// of the content's.
    pub fn set(&mut self, slot: Slot, value: Value) {
        let pipeline = &self.row.pipeline;
        if pipeline.columns.is_brought(slot) && pipeline.schema.column(slot).kind == value.type_of() {
            self.row.facts.set(slot, value);
            self.is_changed = true;
        }
    }

    /// Takes a fact away.
    pub fn clear(&mut self, slot: Slot) {
        if self.row.pipeline.columns.is_brought(slot) {
            self.row.facts.clear(slot);
            self.is_changed = true;
        }
    }

    /// The address whose names say if a request is of the robot that it claims to be of; `None` if nothing is to be asked.
    pub fn robot_question(&self) -> Option<IpAddr> {
        self.row.pipeline.robots.as_ref()?.question(&self.row.facts)
    }

    /// Adds what the names of that address say, each of which was found forward and back; `None` if they could not be had.
    pub fn answer_robot_question(&mut self, names: Option<&[String]>) {
        if let Some(robots) = &self.row.pipeline.robots {
            robots.answer(&mut self.row.facts, names);
            self.is_changed = true;
        }
    }

    /// Fills who sealed the message, where `auth.arc` says that the chain is intact:
    /// [`content::mail::authentication::arc_features`].
    pub fn seal(&mut self, raw: &[u8]) {
        let pipeline = &self.row.pipeline;
        if let ContentColumns::Message { auth, .. } = &pipeline.columns.content {
            content::mail::authentication::arc_features(raw, &pipeline.trust, auth, &mut self.row.facts);
            self.is_changed = true;
        }
    }
}

/// Fills the columns of the input's features and of the content of fields, and looks for phrases. A part of the budget is kept
/// for the phrases, so that no message can pay to have its subject not looked at.
pub(crate) fn fill(mut row: RowDraft, cancellation: &Cancellation) -> RowDraft {
    let prefixes = row.pipeline.prefixes;
    let raw = row.raw.take();
    let reads_texts = !row.pipeline.columns.fields.is_empty() || !row.pipeline.phrases.is_empty();
    let bytes = match &raw {
        Some(raw) => raw.len(),
        None if reads_texts => text_bytes(&row.facts),
        // Nothing is read by a budget, so none is measured out.
        None => 0,
    };
    let budget = Budget::of_message(bytes, cancellation);
    let for_phrases = budget.share(8);
    let for_fields = match row.pipeline.columns.fields.len() {
        0 => None,
        // What is no message has nothing else to read.
        _ => Some(budget.share(if raw.is_some() { 4 } else { 1 })),
    };
    match &row.pipeline.columns.content {
        ContentColumns::Message { envelope, mail, auth } => {
            content::mail::message::envelope_features(envelope, prefixes, &mut row.facts);
            // What a message says is missing where there is none yet, and not as if it said nothing.
            if let Some(raw) = &raw {
                content::mail::message::features(raw, &budget, envelope, mail, &mut row.facts);
                content::mail::authentication::features(raw, &row.pipeline.trust, mail, auth, &mut row.facts);
            }
        }
        ContentColumns::AccessLog { columns, patterns, .. } => {
            content::web::access_log::features(columns, prefixes, patterns, &mut row.facts)
        }
        ContentColumns::Log { columns, .. } => {
            if let Some(&Value::Ip(ip)) = row.facts.get(columns.ip) {
                row.facts.set(columns.net, content::network::network(ip, prefixes));
            }
        }
        ContentColumns::Json => {}
    }
    if let Some(robots) = &row.pipeline.robots {
        robots.fill(&mut row.facts);
    }
    if let Some(applications) = &row.pipeline.applications
        && row.facts.get(applications.verified).is_none()
    {
        row.facts.set(applications.verified, false);
    }
    if let Some(budget) = for_fields {
        fill_fields(&mut row, &budget);
    }
    for phrases in &row.pipeline.phrases {
        phrases.fill(&mut row.facts, row.time, &for_phrases);
    }
    if let ContentColumns::Message { mail, .. } = &row.pipeline.columns.content
        && for_phrases.is_short()
    {
        row.facts.set(mail.cut_short, true);
    }
    row
}

/// Fills the facts of declared fields. Each has its part of the budget, and what those before it have left.
fn fill_fields(row: &mut RowDraft, budget: &Budget) {
    let fields = &row.pipeline.columns.fields;
    for (field, left) in fields.iter().zip((1..=fields.len() as u64).rev()) {
        let share = budget.share(left);
        content::field::features(field.slot, &field.columns, &share, &mut row.facts);
        budget.rejoin(&share);
    }
}

/// The bytes of the texts that an event without a message brought.
fn text_bytes(facts: &Facts) -> usize {
    let length = |value: &Value| match value {
        Value::String(text) => text.len(),
        Value::List(items) => items.iter().map(|item| item.len()).sum(),
        _ => 0,
    };
    facts.values().iter().flatten().map(length).sum()
}
