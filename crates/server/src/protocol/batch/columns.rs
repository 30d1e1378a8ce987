//! Batches in columns: Arrow IPC streams.

use axum::body::Bytes;
use engine::batch::EventBatch;

use super::BatchTask;
use crate::arrow::{self, ArrowError, ArrowLimits};
use crate::core::problem::{HttpFailure, INTERNAL, INVALID_BODY, TOO_LARGE};
use crate::core::reading_pool::PooledReading;
use crate::protocol::input;

/// Most rows of an Arrow stream, whatever `batch_max` says.
const ROWS_MAX: usize = 65_536;

impl BatchTask<'_> {
    /// Works on an Arrow IPC stream.
    pub(super) fn columns(&self, body: Bytes, reading: PooledReading) -> Result<Vec<Bytes>, HttpFailure> {
        let limits = ArrowLimits { rows_max: self.node.plan().batch_max.min(ROWS_MAX) };
        let records = arrow::read(body, limits).map_err(not_arrow)?;
        let batches = records.iter().map(arrow::batch);
        let mut batches: Vec<EventBatch<'_>> =
            batches.zip(0..).map(|(batch, number)| self.named(batch, number)).collect();
        let checked = self.node.engine.check_columns(self.pipeline, &batches, self.arrival);
        let warnings = checked.map_err(input::not_event)?;
        if batches.is_empty() {
            batches.push(self.named(EventBatch::default(), 0));
        }
        arrow::write(self.ask(&batches, reading)?, &warnings).map_err(|error| {
            tracing::error!(%error, "an answer could not be written");
            INTERNAL.failure("the answer could not be written")
        })
    }
}

fn not_arrow(error: ArrowError) -> HttpFailure {
    let failure = match &error {
        ArrowError::Limit { .. } => TOO_LARGE.failure(error.to_string()),
        _ => INVALID_BODY.failure(error.to_string()),
    };
    match error {
        ArrowError::Limit { what: "rows", .. } => {
            failure.help("send several batches, or raise `batch_max`; none of these was counted")
        }
        _ => failure.help("nothing was counted"),
    }
}
