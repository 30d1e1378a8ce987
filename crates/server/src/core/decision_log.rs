//! The line that the log has of each decision which was asked for over HTTP, gRPC or Redis' protocol, where
//! `[node] log_decisions` asks for it: from whom, to whom, which address, what was decided, by which rules, and how long it
//! took. Mail protocols have lines of their own.
//!
//! A line has facts that the journal has in the clear, and no others: what a pipeline keeps out of the journal, or encrypts
//! there, is not in the log.

use std::sync::Arc;
use std::time::{Duration, Instant};

use engine::{Decision, DecisionStage, StageWatcher};
use event::{Facts, Value};
use judge::Action;
use plan::DecisionLogMode;

use super::log_text::{named, on_one_line, rules};
use super::telemetry::RequestTrace;

/// Characters of a value that somebody else has chosen.
const CHARS_MAX: usize = 200;
/// The facts that may be an event's address, its sender and its receiver: the first that a pipeline has counts.
const ADDRESS: [&str; 2] = ["client.ip", "ip"];
const FROM: [&str; 5] = ["mail.sender", "sender", "client.user", "user", "visitor"];
const TO: [&str; 6] = ["mail.recipients", "recipient", "correspondent", "http.path", "object", "page"];

/// A watcher of decisions that are made: the trace of their request, and the log.
pub(crate) struct DecisionWatcher<'a> {
    trace: Option<Arc<RequestTrace>>,
    log: Option<DecisionLog<'a>>,
}

/// The lines of some decisions.
#[derive(Debug)]
struct DecisionLog<'a> {
    listener: &'a str,
    mode: DecisionLogMode,
    started: Instant,
}

impl<'a> DecisionWatcher<'a> {
    /// Makes one for the decisions of a listener; `None` where nobody would watch.
    pub(crate) fn new(
        trace: Option<Arc<RequestTrace>>,
        mode: DecisionLogMode,
        listener: &'a str,
    ) -> Option<DecisionWatcher<'a>> {
        let is_logged = mode != DecisionLogMode::Off && tracing::enabled!(tracing::Level::INFO);
        let log = is_logged.then(|| DecisionLog { listener, mode, started: Instant::now() });
        (trace.is_some() || log.is_some()).then_some(DecisionWatcher { trace, log })
    }
}

impl StageWatcher for DecisionWatcher<'_> {
    fn begins(&self, stage: DecisionStage) {
        self.trace.iter().for_each(|trace| trace.begins(stage));
    }

    fn ends(&self, stage: DecisionStage) {
        self.trace.iter().for_each(|trace| trace.ends(stage));
    }

    fn wants_decisions(&self) -> bool {
        self.log.is_some()
    }

    fn decided(&self, decision: &Decision, facts: &Facts) {
        let Some(log) = &self.log else { return };
        if log.mode == DecisionLogMode::Acted && decision.verdict.action == Action::Accept {
            return;
        }
        let fact = |names: &[&str]| {
            let schema = &decision.pipeline.schema;
            let mut values = names.iter().filter_map(|name| facts.get(schema.slot(name)?));
            values.next().map(text).unwrap_or_default()
        };
        let (address, from, to) = (fact(&ADDRESS), fact(&FROM), fact(&TO));
        let (listener, pipeline, id) = (log.listener, decision.pipeline.name.as_str(), decision.id);
        let event_id = on_one_line(decision.event_id.as_deref().unwrap_or_default(), CHARS_MAX);
        let (action, score) = (decision.verdict.action, decision.verdict.score);
        let (rules, ms) = (rules(&decision.verdict), millis(log.started.elapsed()));
        tracing::info!(
            listener, pipeline, %id, event_id, address, from, to, %action, score, rules, ms, "decided"
        );
    }
}

/// Tells that an event was answered by its pipeline's `on_error`.
pub(crate) fn undecided(mode: DecisionLogMode, listener: &str, decision: &Decision, why: &str) {
    if mode != DecisionLogMode::Off {
        let (pipeline, action, why) =
            (decision.pipeline.name.as_str(), decision.verdict.action, on_one_line(why, CHARS_MAX));
        tracing::warn!(listener, pipeline, %action, why, "not decided on");
    }
}

fn text(value: &Value) -> String {
    match value {
        Value::List(items) => named(items.len(), items.iter().map(|item| on_one_line(item, CHARS_MAX))),
        value => on_one_line(&value.to_string(), CHARS_MAX),
    }
}

fn millis(took: Duration) -> u64 {
    u64::try_from(took.as_millis()).unwrap_or(u64::MAX)
}
