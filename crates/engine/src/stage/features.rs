//! Stage 2, content features: the raw message, or the request, is read. Pure and bounded; see the `content` crate.

use super::fields::Fielded;
use crate::plan::ContentColumns;

/// Fills the columns of the input's features, and looks for phrases.
pub(crate) fn fill(mut row: Fielded) -> Fielded {
    let prefixes = row.pipeline.prefixes;
    match &row.pipeline.columns.content {
        ContentColumns::Message { envelope, mail } => {
            let raw = row.raw.take().unwrap_or_default();
            content::message::envelope_features(envelope, prefixes, &mut row.facts);
            content::message::features(&raw, envelope, mail, &mut row.facts);
        }
        ContentColumns::AccessLog(columns) => content::log::features(columns, prefixes, &mut row.facts),
        ContentColumns::Json => {}
    }
    for phrases in &row.pipeline.phrases {
        phrases.fill(&mut row.facts, row.time);
    }
    row
}
