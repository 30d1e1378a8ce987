//! Preparation of an event until its keys are made, in every protocol.

use std::sync::Arc;
use std::time::Instant;

use content::budget::Cancellation;
use engine::{EarnedPass, PreparedEvent, UnkeyedEvent};
use event::{Event, Time};
use plan::Pipeline;

use crate::core::deadline::Late;
use crate::core::node::Node;
use crate::core::reading_pool;
use crate::core::telemetry::RequestTrace;

/// The names of the spans of what is done here.
pub(crate) const READ: &str = "read";
const KEYS: &str = "keys";

/// An event that a request brought.
pub(crate) struct SubmittedEvent {
    /// The caller's name for it.
    pub(crate) id: Option<String>,
    pub(crate) prepared: PreparedEvent,
    /// The warnings that its answer has to give.
    pub(crate) warnings: Vec<String>,
    /// The pass that was earned by a challenge which came with it.
    pub(crate) pass: Option<EarnedPass>,
}

/// A choice of lookups before the keys of an event are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LookupMode {
    /// The choice of the configuration.
    Configured,
    /// Never: it is learned from, not decided on, and may be old.
    None,
}

impl Node {
    /// Reads the facts of an event: where it is if it is brief, else away from the threads that answer.
    ///
    /// # Errors
    /// If the current deadline comes first.
    pub(crate) async fn read(
        &self,
        pipeline: &Arc<Pipeline>,
        event: Event,
        arrival: Time,
    ) -> Result<UnkeyedEvent, Late> {
        if reading_pool::is_brief(&event) {
            return Ok(self.engine.read(pipeline, event, arrival, &Cancellation::default()));
        }
        let (engine, of, bytes) =
            (Arc::clone(&self.engine), Arc::clone(pipeline), reading_pool::bytes(&event));
        self.reading.read(bytes, move |cancellation| engine.read(&of, event, arrival, cancellation)).await
    }

    /// All that comes before statistics, lookups included: what every wire does with an event before it is decided. Reads
    /// away from the threads that answer ([`reading_pool`]), but for what is brief. Ends within the configured time
    /// for name service; without resolvers it is [`engine::Engine::prepare`].
    ///
    /// # Errors
    /// If the current deadline comes first.
    pub(crate) async fn prepare(
        &self,
        pipeline: &Arc<Pipeline>,
        event: Event,
        arrival: Time,
        lookups: LookupMode,
    ) -> Result<PreparedEvent, Late> {
        if reading_pool::is_brief(&event) {
            let trace = RequestTrace::current();
            if pipeline.robots.is_none() && trace.is_none() {
                return Ok(self.engine.prepare(pipeline, event, arrival));
            }
            let begun = trace.as_ref().map(|_| Instant::now());
            let mut read = self.engine.read(pipeline, event, arrival, &Cancellation::default());
            if lookups == LookupMode::Configured && self.message_lookups.is_asking() {
                Box::pin(self.message_lookups.name_robot(&mut read)).await;
            }
            trace.iter().zip(begun).for_each(|(trace, begun)| trace.stage(READ, begun));
            let begun = trace.as_ref().map(|_| Instant::now());
            let prepared = self.engine.key(read);
            trace.iter().zip(begun).for_each(|(trace, begun)| trace.stage(KEYS, begun));
            return Ok(prepared);
        }
        // Most events are brief: what the others need would make the state of every request larger.
        Box::pin(self.prepare_apart(pipeline, event, arrival, lookups)).await
    }

    /// Prepares an event away from the threads that answer.
    async fn prepare_apart(
        &self,
        pipeline: &Arc<Pipeline>,
        event: Event,
        arrival: Time,
        lookups: LookupMode,
    ) -> Result<PreparedEvent, Late> {
        let (raw, bytes) = (event.raw.clone(), reading_pool::bytes(&event));
        let (engine, of) = (Arc::clone(&self.engine), Arc::clone(pipeline));
        let trace = RequestTrace::current();
        if trace.is_none() && (lookups == LookupMode::None || !self.message_lookups.is_asking()) {
            // Nothing is waited for in between, so one hand-over to another thread is enough. A trace tells them apart.
            let prepare = move |cancellation: &Cancellation| {
                let read = engine.read(&of, event, arrival, cancellation);
                (!cancellation.is_cancelled()).then(|| engine.key(read))
            };
            return self.reading.read(bytes, prepare).await?.ok_or(Late);
        }
        let read = move |cancellation: &Cancellation| engine.read(&of, event, arrival, cancellation);
        let begun = trace.as_ref().map(|_| Instant::now());
        let mut read = self.reading.read(bytes, read).await?;
        if let (Some(raw), LookupMode::Configured) = (raw, lookups) {
            self.message_lookups.add(&mut read, &raw, &self.reading).await;
        }
        if lookups == LookupMode::Configured {
            self.message_lookups.name_robot(&mut read).await;
        }
        trace.iter().zip(begun).for_each(|(trace, begun)| trace.stage(READ, begun));
        let engine = Arc::clone(&self.engine);
        let begun = trace.as_ref().map(|_| Instant::now());
        let prepared = self.reading.read(bytes, move |_| engine.key(read)).await;
        trace.iter().zip(begun).for_each(|(trace, begun)| trace.stage(KEYS, begun));
        prepared
    }
}
