//! Stage 2, content features: the raw message, or the request, is read. Pure and bounded; see the `content` crate.

use super::fields::Fielded;
use crate::plan::ContentColumns;

/// Fills the columns of the input's features.
pub(crate) fn fill(mut row: Fielded) -> Fielded {
    let prefixes = row.pipeline.prefixes;
    match &row.pipeline.columns.content {
        ContentColumns::Message { envelope, mail } => {
            content::message::envelope_features(envelope, prefixes, &mut row.facts);
            // What a message says is missing where there is none yet, and not as if it said nothing.
            if let Some(raw) = row.raw.take() {
                content::message::features(&raw, envelope, mail, &mut row.facts);
            }
        }
        ContentColumns::AccessLog(columns) => content::log::features(columns, prefixes, &mut row.facts),
        ContentColumns::Json => {}
    }
    row
}
