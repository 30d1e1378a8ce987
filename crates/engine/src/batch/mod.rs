//! Batches of events as columns, in and out.
//!
//! ```text
//! columns ─► keys, column by column ─► one batch of the ledger ─► readings with what was added ─► columns
//!         └► rows, where rules and models are to see them ─► Engine::decide's way
//! ```
//!
//! An event's readings are from before it, so that rules see what was known. What it added is known too: what the
//! columns of an answer say is as of after the event, and nothing is read twice for it.
//!
//! Where every kind has at most one key in an event, keys are made of columns, and no row is ever made of an event that
//! is only counted. Pipelines that read content, cut lists into pieces or ask classifiers take their events row by row;
//! the answer is the same.

mod answer;
mod columns;
mod keys;

use parking_lot::Mutex;
use std::fmt;
use std::sync::Arc;

use content::budget::Cancellation;
use event::{Event, Time, Value};
use stats::{Durability, LedgerError, ObserveRequest};

use crate::metrics::label;
use crate::pipeline::observe::{self, ObservedBatch};
use crate::pipeline::score;
use crate::pipeline::{DecisionStage, NoWatcher, PendingEffects, StageWatcher};
use crate::{Decision, Engine, PreparedEvent};
use answer::BatchAnswerBuilder;
pub use answer::{AnswerCells, AnswerColumn, BatchAnswer};
pub use columns::{BatchCells, BatchColumn, EventBatch};
use keys::BatchKeys;
use plan::Pipeline;

/// Observations that the ledger is handed at once: their requests and readings fit into the processor's caches.
const AT_ONCE: usize = 4 << 10;
/// Events that are decided at once: all that is made of them on the way fits into the processor's caches.
const DECIDED_AT_ONCE: usize = 256;
/// Lists of a sort that are kept for the next batches.
const POOL_MAX: usize = 16;

/// Lists of batches that are over, to be filled again.
#[derive(Debug)]
pub(crate) struct BufferPool<T>(Mutex<Vec<T>>);

impl<T> Default for BufferPool<T> {
    fn default() -> BufferPool<T> {
        BufferPool(Mutex::default())
    }
}

impl<T: Default> BufferPool<T> {
    pub(crate) fn take(&self) -> T {
        self.0.lock().pop().unwrap_or_default()
    }

    pub(crate) fn give(&self, list: T) {
        let mut pool = self.0.lock();
        if pool.len() < POOL_MAX {
            pool.push(list);
        }
    }
}

/// A batch whose events were read: all that can be done without statistics.
pub struct PreparedBatch<'a> {
    pipeline: &'a Arc<Pipeline>,
    batch: &'a EventBatch<'a>,
    arrival: Time,
    events: BatchEvents<'a>,
}

enum BatchEvents<'a> {
    Columns(Box<BatchKeys<'a>>),
    Rows(Vec<PreparedEvent>),
}

impl fmt::Debug for PreparedBatch<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PreparedBatch").field("rows", &self.batch.rows).finish_non_exhaustive()
    }
}

impl Engine {
    /// Stages 1 to 3 for all events of a batch. Pure, and so to be done on any thread. `None` if it was cancelled, which
    /// ends the reading within milliseconds, also inside of one event.
    pub fn prepare_batch<'a>(
        &'a self,
        pipeline: &'a Arc<Pipeline>,
        batch: &'a EventBatch<'a>,
        arrival: Time,
        cancellation: &Cancellation,
    ) -> Option<PreparedBatch<'a>> {
        let events = match BatchKeys::of(pipeline, batch, arrival, &self.secret) {
            Some(keyed) => BatchEvents::Columns(Box::new(keyed)),
            None => BatchEvents::Rows(self.rows(pipeline, batch, arrival, cancellation)),
        };
        (!cancellation.is_cancelled()).then_some(PreparedBatch { pipeline, batch, arrival, events })
    }

    /// Counts events without judging them, and answers what is then known of their keys, row by row. Of an event that
    /// was counted before nothing is added, and the answer says what is known.
    ///
    /// Answers once the configured durability holds for all of it.
    ///
    /// # Errors
    /// If statistics cannot be had at all. Some of the events may have been counted: with `id`s, or an id of the batch, they
    /// can be sent again. Where it is not known of single events whether they count, the answer says so.
    pub async fn observe_batch(&self, batch: PreparedBatch<'_>) -> Result<BatchAnswer, LedgerError> {
        let PreparedBatch { pipeline, batch, arrival, events } = batch;
        let keyed = match events {
            BatchEvents::Columns(keyed) => keyed,
            BatchEvents::Rows(prepared) => {
                // Rules are not asked, so what they would take from limits is not taken.
                let (observed, failure) = observe::observe(&*self.ledger, prepared, None).await;
                self.count_seen(pipeline, &observed);
                return match failure {
                    Some(error) if observed.is_failed() => Err(error),
                    failure => {
                        note_failure(failure);
                        Ok(answer::of_observed(pipeline, &observed))
                    }
                };
            }
        };
        self.count_keyed(&keyed, arrival);
        let mut answers = BatchAnswerBuilder::new(pipeline, batch.rows);
        let mut requests = self.batches.take();
        let asked = self.ask(&keyed, &mut requests, &mut answers).await;
        self.batches.give(requests);
        asked?;
        let answer = answers.finish();
        let duplicates = answer.duplicate.iter().filter(|duplicate| **duplicate).count();
        self.metrics.observe_duplicates.get_or_create(&label(pipeline)).inc_by(duplicates as u64);
        Ok(answer)
    }

    async fn ask(
        &self,
        keyed: &BatchKeys<'_>,
        requests: &mut Vec<ObserveRequest>,
        answers: &mut BatchAnswerBuilder<'_>,
    ) -> Result<(), LedgerError> {
        // With `sync` each call waits for the disk, so there is one.
        let at_once = match self.plan().node.durability {
            Durability::Sync => usize::MAX,
            _ => AT_ONCE,
        };
        let mut row = 0;
        while row < keyed.rows() {
            let ends = keyed.fill(row, at_once, requests);
            let outcomes = self.ledger.observe_each(&requests[..ends.len()]).await?;
            note_failure(outcomes.failure());
            answers.add(keyed, row, &ends, &outcomes);
            row = ends.last().copied().unwrap_or(keyed.rows());
        }
        Ok(())
    }

    /// Counts, judges and logs events as [`Engine::decide`] does, and answers for each row the decision and what is then
    /// known of its keys: what hangs on verdicts is not in it.
    pub async fn decide_batch(&self, batch: PreparedBatch<'_>) -> (Vec<Decision>, BatchAnswer) {
        self.decide_batch_watched(batch, &NoWatcher).await
    }

    /// Decides as [`Engine::decide_batch`] does, and tells somebody when stages begin and end: of columns once for each part.
    pub async fn decide_batch_watched(
        &self,
        batch: PreparedBatch<'_>,
        watcher: &dyn StageWatcher,
    ) -> (Vec<Decision>, BatchAnswer) {
        let PreparedBatch { pipeline, batch, arrival, events } = batch;
        let keyed = match events {
            BatchEvents::Columns(keyed) => keyed,
            BatchEvents::Rows(prepared) => {
                watcher.begins(DecisionStage::Observe);
                let observed = self.observe_all(prepared).await;
                let answer = answer::of_observed(pipeline, &observed);
                watcher.ends(DecisionStage::Observe);
                return (self.conclude_watched(observed, watcher).await, answer);
            }
        };
        self.count_keyed(&keyed, arrival);
        // With `sync` each part would wait for the disk, so there is one.
        let at_once = match self.plan().node.durability {
            Durability::Sync => batch.rows.max(1),
            _ => DECIDED_AT_ONCE,
        };
        let mut answers = BatchAnswerBuilder::new(pipeline, batch.rows);
        let (mut due, mut decisions) = (PendingEffects::default(), Vec::with_capacity(batch.rows));
        let mut row = 0;
        while row < batch.rows {
            let rows = row..batch.rows.min(row + at_once);
            row = rows.end;
            watcher.begins(DecisionStage::Observe);
            let mut observed = self.observe_all(keyed.prepared(batch, rows, &self.secret)).await;
            answers.add_observed(&observed);
            watcher.ends(DecisionStage::Observe);
            watcher.begins(DecisionStage::Judge);
            score::score(observed.prepared_mut());
            let ids = self.decision_ids(&observed);
            let verdicts = self.judge_all(&mut observed, &ids, &mut due);
            watcher.ends(DecisionStage::Judge);
            watcher.begins(DecisionStage::Journal);
            decisions.extend(self.log(observed, &ids, verdicts, watcher).await);
            watcher.ends(DecisionStage::Journal);
        }
        watcher.begins(DecisionStage::Settle);
        self.carry_out(due).await;
        watcher.ends(DecisionStage::Settle);
        (decisions, answers.finish())
    }

    /// Returns each row as an event of its own; fewer once it is cancelled.
    fn rows(
        &self,
        pipeline: &Arc<Pipeline>,
        batch: &EventBatch<'_>,
        arrival: Time,
        cancellation: &Cancellation,
    ) -> Vec<PreparedEvent> {
        let event = |row: usize| {
            let mut event = Event::default();
            for (name, column) in &batch.columns {
                match name.as_ref() {
                    "id" => event.id = column.text(row).map(|id| id.into_owned()),
                    "time" => {
                        let time = column.value(row).and_then(|value| value.coerce(event::Type::Time));
                        event.time = time.and_then(|time| match time {
                            Value::Time(time) => Some(time),
                            _ => None,
                        });
                    }
                    name => {
                        if let Some(value) = column.value(row) {
                            event.push(name.to_owned(), value);
                        }
                    }
                }
            }
            if event.id.is_none() {
                event.id = batch.id.as_ref().map(|id| format!("{id}\0{row}"));
            }
            event
        };
        let rows = (0..batch.rows).take_while(|_| !cancellation.is_cancelled());
        rows.map(|row| self.key(self.read(pipeline, event(row), arrival, cancellation))).collect()
    }

    fn count_keyed(&self, keyed: &BatchKeys<'_>, arrival: Time) {
        use std::sync::atomic::Ordering;
        let label = label(keyed.pipeline);
        self.latest.fetch_max(arrival.0, Ordering::Relaxed);
        self.metrics.fields_events.get_or_create(&label).inc_by(keyed.rows() as u64);
        self.metrics.keys_derived.get_or_create(&label).inc_by(keyed.keys() as u64);
        if keyed.clamped > 0 {
            self.metrics.fields_clamped.get_or_create(&label).inc_by(keyed.clamped);
        }
        if keyed.ignored > 0 {
            self.metrics.fields_ignored.get_or_create(&label).inc_by(keyed.ignored);
        }
    }

    fn count_seen(&self, pipeline: &Pipeline, observed: &ObservedBatch) {
        let duplicates = observed.events().filter(|observed| observed.duplicate).count();
        self.metrics.observe_duplicates.get_or_create(&label(pipeline)).inc_by(duplicates as u64);
    }
}

/// Notes why some events of a batch are not known to be counted.
fn note_failure(failure: Option<LedgerError>) {
    if let Some(error) = failure {
        tracing::warn!(%error, "some events are not known to be counted");
    }
}

#[cfg(test)]
mod tests;
