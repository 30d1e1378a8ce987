//! Stage 5, first half: models say what they see in the row, before any rule.

use std::cell::RefCell;
use std::sync::Arc;

use catboost::ModelScratch;
use event::Facts;

use super::keys::PreparedEvent;

thread_local! {
    /// Memory that scoring uses, kept between batches.
    static SCRATCH: RefCell<ModelScratch> = RefCell::default();
}

/// Fills the columns of the models. Rows of one pipeline that lie one behind the other are scored together.
pub(crate) fn score(events: &mut [PreparedEvent]) {
    let same =
        |one: &PreparedEvent, other: &PreparedEvent| Arc::ptr_eq(&one.row.pipeline, &other.row.pipeline);
    for run in events.chunk_by_mut(same) {
        let pipeline = run.first().map(|prepared| Arc::clone(&prepared.row.pipeline));
        let Some(pipeline) = pipeline.filter(|pipeline| !pipeline.models.is_empty()) else { continue };
        let mut rows: Vec<&mut Facts> = run.iter_mut().map(|prepared| &mut prepared.row.facts).collect();
        SCRATCH.with_borrow_mut(|scratch| {
            pipeline.models.iter().for_each(|model| model.fill(&mut rows, scratch));
        });
    }
}
