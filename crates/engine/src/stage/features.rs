//! Stage 2, content features: the raw message, or the request, is read. Pure and bounded; see the `content` crate.

use std::sync::Arc;

use event::{Facts, Slot, Value};

use super::fields::Fielded;
use crate::plan::{ContentColumns, Pipeline};

/// An event whose content was read and whose keys are not known yet. What is known of it from elsewhere, such as
/// name service, can still become facts.
#[derive(Debug)]
pub struct Read(pub(crate) Fielded);

impl Read {
    /// The facts so far.
    pub fn facts(&self) -> &Facts {
        &self.0.facts
    }

    /// The pipeline that it is read for.
    pub fn pipeline(&self) -> &Arc<Pipeline> {
        &self.0.pipeline
    }

    /// Adds or replaces a fact. A value of another type than its column is ignored, and so is a slot that is not one
    /// of the content's.
    pub fn set(&mut self, slot: Slot, value: Value) {
        let columns = &self.0.pipeline.columns;
        let fits = usize::from(slot.0) < columns.count
            && self.0.pipeline.schema.column(slot).kind == value.type_of();
        if fits {
            self.0.facts.set(slot, value);
        }
    }

    /// Takes a fact away.
    pub fn clear(&mut self, slot: Slot) {
        if usize::from(slot.0) < self.0.pipeline.columns.count {
            self.0.facts.clear(slot);
        }
    }

    /// Fills who sealed the message, where `auth.arc` says that the chain is intact:
    /// [`content::authentication::arc_features`].
    pub fn seal(&mut self, raw: &[u8]) {
        let pipeline = &self.0.pipeline;
        if let ContentColumns::Message { auth, .. } = &pipeline.columns.content {
            content::authentication::arc_features(raw, &pipeline.trust, auth, &mut self.0.facts);
        }
    }
}

/// Fills the columns of the input's features, and looks for phrases.
pub(crate) fn fill(mut row: Fielded) -> Fielded {
    let prefixes = row.pipeline.prefixes;
    match &row.pipeline.columns.content {
        ContentColumns::Message { envelope, mail, auth } => {
            content::message::envelope_features(envelope, prefixes, &mut row.facts);
            // What a message says is missing where there is none yet, and not as if it said nothing.
            if let Some(raw) = row.raw.take() {
                content::message::features(&raw, envelope, mail, &mut row.facts);
                content::authentication::features(&raw, &row.pipeline.trust, mail, auth, &mut row.facts);
            }
        }
        ContentColumns::AccessLog(columns) => content::log::features(columns, prefixes, &mut row.facts),
        ContentColumns::Json => {}
    }
    for phrases in &row.pipeline.phrases {
        phrases.fill(&mut row.facts, row.time);
    }
    row
}
