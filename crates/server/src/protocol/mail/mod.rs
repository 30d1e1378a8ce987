//! The way from a message to its answer that the protocols of mail servers share.
//!
//! ```text
//! protocol ─► MessageBody ─► MailMessage ─► ListenerContext::decide ─► MessageOutcome ─► protocol
//!             bounded                       in time, or on_error
//! ```

pub(crate) mod answer;
mod body;
pub mod command;
pub(crate) mod command_reader;
pub mod header;
pub(crate) mod limits;
pub(crate) mod log;
pub(crate) mod score;
pub(crate) mod subject;

use std::sync::Arc;
use std::time::Instant;

use content::mail::message::Envelope;
use engine::{Decision, FeedbackError, FeedbackOutcome, PreparedEvent, UnknownName};
use event::Time;
use journal::RecordId;
use judge::Verdict;
use plan::WITHDRAWN;
use plan::{
    CountedEnvelopes, MailEnforcement, MailFailureMode, MailPlan, MailReply, PipelineInput, ReportsPlan,
};
use stats::LedgerError;

use answer::IdFieldAction;
pub(crate) use body::MessageBody;

use crate::core::deadline::Late;
use crate::core::listener_context::{DecisionFailure, ListenerContext};
use crate::core::node::Node;
use crate::core::preparation::LookupMode;
use crate::core::reading_pool::INLINE_BYTES_MAX;
use crate::core::shares::Caller;
use crate::core::telemetry::RequestTrace;
use crate::protocol::content_encoding::{DecompressError, MessageEncoding, decompress};

/// The class of the presets by which classifiers forget an event, whoever taught them.
const FORGET: &str = "forget";

/// A message as a mail server handed it over.
pub(crate) struct MailMessage {
    /// Header and body, as they came.
    pub(crate) body: MessageBody,
    pub(crate) envelope: Envelope,
    /// The time at which it was received, if not now.
    pub(crate) time: Option<Time>,
    /// The mail server's name for it. The same within the pipeline's `dedupe` time is counted once.
    pub(crate) id: Option<String>,
}

/// The outcome of a message.
#[derive(Debug)]
pub(crate) enum MessageOutcome {
    /// The message was decided on.
    Decided(Box<Decision>),
    /// The message could not be decided on, and is to pass.
    FailOpen(DecisionFailure),
    /// The message could not be decided on, and its client is to come again.
    FailClosed(DecisionFailure),
}

/// The verdict on an envelope.
#[derive(Debug)]
pub(crate) struct EnvelopeVerdict {
    pub(crate) verdict: Verdict,
    /// The decision's id, if it was counted and logged.
    pub(crate) id: Option<RecordId>,
}

impl MessageOutcome {
    /// The id of the decision, if there is one.
    pub(crate) fn id(&self) -> Option<RecordId> {
        match self {
            MessageOutcome::Decided(decision) => Some(decision.id),
            MessageOutcome::FailOpen(_) | MessageOutcome::FailClosed(_) => None,
        }
    }

    /// A word for metrics and traces.
    fn name(&self) -> &'static str {
        match self {
            MessageOutcome::Decided(decision) => decision.verdict.action.name(),
            MessageOutcome::FailOpen(_) => "fail-open",
            MessageOutcome::FailClosed(_) => "fail-closed",
        }
    }
}

/// Reasons for a failed training.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LearnError {
    /// The learning could not be done now.
    #[error(transparent)]
    Failure(DecisionFailure),
    /// The pipeline has no such class.
    #[error("there is no class `{0}`")]
    NoClass(String),
}

/// The message that compressed bytes hold; what could not be kept whole stays as it is.
pub(crate) async fn decompressed(
    listener: &MailListener,
    body: MessageBody,
    encoding: MessageEncoding,
) -> Result<MessageBody, DecompressError> {
    if !body.is_whole() {
        return Ok(body);
    }
    let max = usize::try_from(listener.plan.settings.body_max).unwrap_or(usize::MAX);
    // Unpacking may cost much more than what came in.
    let unpacking = listener.node.reading.read(max, move |cancellation| {
        Ok(body.part(&decompress(body.bytes(), encoding, max, cancellation)?))
    });
    listener.deadline().bound(unpacking).await.unwrap_or(Err(DecompressError::Slow))
}

/// A listener of mail servers, in whichever of their protocols.
pub(crate) type MailListener = ListenerContext<MailPlan>;

impl MailListener {
    /// Returns this listener, but that another pipeline decides, if there is one of this name that reads messages.
    pub(crate) fn by(&self, pipeline: &str) -> Option<MailListener> {
        let of = self.node.pipeline(Some(pipeline)).ok()?;
        (of.input == PipelineInput::Message)
            .then(|| self.with(MailPlan { pipeline: of.name.clone(), ..self.plan.settings.clone() }))
    }

    /// Room for a message that is about to come.
    pub(crate) fn body(&self, caller: Caller) -> MessageBody {
        let max = usize::try_from(self.plan.settings.body_max).unwrap_or(usize::MAX);
        MessageBody::new(Arc::clone(self.node.room()), caller, self.node.pace.body(), max)
    }

    /// The name of an event: a mail server's name for a message, and the second in which it came here, since mail servers
    /// use such names again.
    pub(crate) fn event_id(&self, queue_id: &str) -> Option<String> {
        const QUEUE_ID_BYTES_MAX: usize = 64;
        let plain = queue_id.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
        let fits = plain && (1..=QUEUE_ID_BYTES_MAX).contains(&queue_id.len());
        fits.then(|| format!("{queue_id}.{}", self.node.now().0.div_euclid(1_000_000)))
    }

    /// Does what takes the longer the more a client has sent, away from the threads that answer everybody; what is done at
    /// once, where it is.
    ///
    /// # Errors
    /// If the listener's time for a decision is over first.
    pub(crate) async fn aside<T: Send + 'static>(
        &self,
        bytes: usize,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Late> {
        if bytes <= INLINE_BYTES_MAX {
            return Ok(work());
        }
        self.deadline().bound(self.node.reading.read(bytes, |_| work())).await
    }

    /// Counts, judges and logs a message within the listener's time. Work that was begun is finished all the same: no
    /// message is counted and then left unjudged. A message that was not to be had in time is not decided on.
    pub(crate) async fn decide(&self, message: Result<MailMessage, Late>) -> MessageOutcome {
        let started = Instant::now();
        // Where it came over HTTP the request has one.
        let is_traced = RequestTrace::current().is_some();
        let trace = (!is_traced).then(|| self.node.begin_trace(started, None, false, None)).flatten();
        let Some(trace) = trace else { return self.decide_now(message, started).await };
        let work = self.decide_now(message, started);
        let outcome = RequestTrace::bound(Some(Arc::clone(&trace)), Box::pin(work)).await;
        let has_failed = !matches!(outcome, MessageOutcome::Decided(_));
        trace.finish_listener("message", &self.plan.name, outcome.name(), has_failed);
        outcome
    }

    async fn decide_now(&self, message: Result<MailMessage, Late>, started: Instant) -> MessageOutcome {
        let message = match message {
            Ok(message) => message,
            Err(late) => {
                let line = log::MailLogLine::of(&Envelope::default(), None);
                return self.concluded(Err(late.into()), &line, started);
            }
        };
        let line = log::MailLogLine::of(&message.envelope, message.id.as_deref());
        let decided = self.in_time(message, LookupMode::Configured, |node, prepared, _, _| async move {
            node.decide(vec![prepared]).await.into_iter().next()
        });
        let decided = decided.await.and_then(|decided| decided.ok_or(DecisionFailure::Defect));
        self.concluded(decided, &line, started)
    }

    /// Tells metrics and the log what came of a message.
    fn concluded(
        &self,
        decided: Result<Decision, DecisionFailure>,
        line: &log::MailLogLine,
        started: Instant,
    ) -> MessageOutcome {
        let outcome = match decided {
            Ok(decision) => MessageOutcome::Decided(Box::new(decision)),
            Err(failure) => self.undecided(failure),
        };
        let (metrics, trace) = (&self.node.metrics, RequestTrace::current());
        metrics.listener_answered(&self.plan.name, outcome.name(), started.elapsed(), trace.as_deref());
        line.write(&self.plan, &outcome, started.elapsed());
        outcome
    }

    /// Returns what becomes of the field that leads reports on a message to what was decided. Mail to nobody but addresses for reports
    /// keeps the signed id it brings, which is of the message that it reports.
    pub(crate) fn id_field_action(&self, decision: Option<RecordId>, recipients: &[String]) -> IdFieldAction {
        let pipeline = self.node.pipeline(Some(&self.plan.settings.pipeline)).ok();
        let reports = pipeline.as_ref().and_then(|of| of.reports.as_ref());
        let is_report = |reports: &ReportsPlan| {
            let reports_to =
                |recipient: &String| reports.class_of_address(std::slice::from_ref(recipient)).is_some();
            !recipients.is_empty() && recipients.iter().all(reports_to)
        };
        if self.plan.settings.acting == MailEnforcement::Nothing || reports.is_some_and(is_report) {
            return IdFieldAction::Leave;
        }
        let decision = decision.filter(|_| self.plan.settings.writes_signed_id);
        decision.map_or(IdFieldAction::Remove, |id| IdFieldAction::Write(self.node.engine.signed_id(id)))
    }

    /// Judges an envelope whose message has not come yet. What is refused is counted and logged as a message is; what
    /// passes is left to be counted with its message, unless all are counted here.
    pub(crate) async fn consult(
        &self,
        caller: Caller,
        envelope: Envelope,
        id: Option<String>,
        counting: CountedEnvelopes,
    ) -> Result<EnvelopeVerdict, DecisionFailure> {
        let started = Instant::now();
        let trace = self.node.begin_trace(started, None, false, None);
        let consulting = self.try_consult(caller, envelope, id, counting);
        let consulted = match &trace {
            None => consulting.await,
            Some(trace) => RequestTrace::bound(Some(Arc::clone(trace)), Box::pin(consulting)).await,
        };
        let (answer, failure) = match &consulted {
            Ok(consulted) => (consulted.verdict.action.name(), None),
            Err(failure) => ("dropped", Some(failure.name())),
        };
        self.node.metrics.listener_answered(&self.plan.name, answer, started.elapsed(), trace.as_deref());
        if let Some(trace) = trace {
            trace.finish_listener("envelope", &self.plan.name, answer, failure.is_some());
        }
        if let Some(reason) = failure {
            tracing::warn!(listener = self.plan.name, reason, "an envelope was not decided on");
            self.node.metrics.listener_failure(&self.plan.name, reason);
        }
        consulted
    }

    async fn try_consult(
        &self,
        caller: Caller,
        envelope: Envelope,
        id: Option<String>,
        counting: CountedEnvelopes,
    ) -> Result<EnvelopeVerdict, DecisionFailure> {
        let place = self.place(caller)?;
        let pipeline = self
            .node
            .pipeline(Some(&self.plan.settings.pipeline))
            .map_err(|_| DecisionFailure::Unavailable)?;
        let (node, replies) = (Arc::clone(&self.node), self.plan.settings.replies.clone());
        let arrival = self.node.now();
        let work = async move {
            let prepare = || {
                let mut event = content::mail::message::envelope_event(envelope.clone());
                event.id.clone_from(&id);
                node.prepare(&pipeline, event, arrival, LookupMode::None)
            };
            let ends = |verdict: &Verdict| {
                use MailReply::{Defer, Discard, Reject};
                matches!(replies.of(verdict.action), Reject | Defer | Discard)
            };
            if counting == CountedEnvelopes::Refused {
                let prepared = prepare().await?;
                let stage = RequestTrace::during("consult");
                let verdict = node.engine.consult(prepared).await;
                drop(stage);
                match verdict {
                    Ok(verdict) if !ends(&verdict) => {
                        return Ok(Ok(Some(EnvelopeVerdict { verdict, id: None })));
                    }
                    Ok(_) => {}
                    Err(error) => return Ok(Err(error)),
                }
            }
            let decisions = node.decide(vec![prepare().await?]).await;
            drop(place);
            let decision = decisions.into_iter().next();
            let verdict =
                decision.map(|decision| EnvelopeVerdict { id: Some(decision.id), verdict: decision.verdict });
            Ok(Ok(verdict))
        };
        let consulted: Result<Result<_, LedgerError>, Late> = self.within_timeout(work).await?;
        consulted?
            .map_err(|error| {
                tracing::error!(%error, listener = self.plan.name, "a message could not be decided on");
                DecisionFailure::Unavailable
            })?
            .ok_or(DecisionFailure::Defect)
    }

    /// Returns what becomes of a message that could not be decided on.
    fn undecided(&self, failure: DecisionFailure) -> MessageOutcome {
        self.node.metrics.listener_failure(&self.plan.name, failure.name());
        match self.plan.settings.on_error {
            MailFailureMode::Open => MessageOutcome::FailOpen(failure),
            MailFailureMode::Closed => MessageOutcome::FailClosed(failure),
        }
    }

    /// Takes in what somebody says about a message: a class of the pipeline's `[feedback]`. The same said twice of one
    /// id, or without one of the same message, counts once.
    pub(crate) async fn learn(
        &self,
        message: Result<MailMessage, Late>,
        class: &str,
    ) -> Result<FeedbackOutcome, LearnError> {
        let message = message.map_err(|late| LearnError::Failure(late.into()))?;
        let class = class.to_owned();
        let learned = self.in_time(message, LookupMode::None, |node, prepared, id, raw| async move {
            node.learn(prepared, id, &raw, &class).await
        });
        match learned.await.map_err(LearnError::Failure)? {
            Ok((_, outcome)) => Ok(outcome),
            Err(FeedbackError::Class(UnknownName { name, .. })) => Err(LearnError::NoClass(name)),
            Err(error) => {
                tracing::error!(%error, listener = self.plan.name, "a message could not be learned");
                Err(LearnError::Failure(DecisionFailure::Unavailable))
            }
        }
    }

    /// Takes back what was said of a message, and what classifiers learned of it: the class `forget`, where the pipeline has
    /// one. Says whether there was anything.
    pub(crate) async fn unlearn<R>(&self, message: impl Fn() -> R) -> Result<bool, LearnError>
    where
        R: Future<Output = Result<MailMessage, Late>>,
    {
        let forgotten = match self.learn(message().await, FORGET).await {
            Err(LearnError::NoClass(_)) => self.learn(message().await, WITHDRAWN).await,
            forgotten => forgotten,
        };
        forgotten.map(|outcome| outcome.replaced.is_some() || outcome.tokens > 0)
    }

    /// Reads a message and does something with it, in a task of its own that holds its place and its room: the
    /// deadline ends the reading, and what is done with it never ([`crate::core::deadline`]).
    async fn in_time<T, W>(
        &self,
        message: MailMessage,
        lookups: LookupMode,
        then: impl FnOnce(Arc<Node>, PreparedEvent, Option<String>, Arc<[u8]>) -> W + Send + 'static,
    ) -> Result<T, DecisionFailure>
    where
        T: Send + 'static,
        W: Future<Output = T> + Send + 'static,
    {
        let MailMessage { body, envelope, time, id } = message;
        let place = self.place(body.caller())?;
        if body.is_cut() && !self.plan.settings.judges_first_part {
            return Err(DecisionFailure::TooLarge);
        }
        let (raw, room) = body.finish().ok_or(DecisionFailure::Overloaded)?;
        let pipeline = self
            .node
            .pipeline(Some(&self.plan.settings.pipeline))
            .map_err(|_| DecisionFailure::Unavailable)?;
        let (node, arrival) = (Arc::clone(&self.node), self.node.now());
        let work = async move {
            let raw: Arc<[u8]> = raw.into();
            let mut event = content::mail::message::event(Arc::clone(&raw), envelope);
            event.id = id.clone();
            event.time = time;
            let prepared = node.prepare(&pipeline, event, arrival, lookups).await?;
            let done = then(node, prepared, id, raw).await;
            drop((place, room));
            Ok(done)
        };
        let done: Result<T, Late> = self.within_timeout(work).await?;
        Ok(done?)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use engine::Engine;
    use plan::{Config, ListenerPlan, Overrides, Plan};

    use super::*;
    use crate::core::deadline::Deadline;

    fn listener(timeout: &str) -> MailListener {
        let pair = |(name, value): (&str, &str)| (format!("listener.m.{name}"), value.to_owned());
        let flags = [("protocol", "milter"), ("listen", "[::1]:0"), ("timeout", timeout)].map(pair).to_vec();
        let config = Config::from_preset("mail", &Overrides { flags, ..Overrides::default() });
        let plan = Plan::compile(&config).unwrap_or_else(|problems| panic!("{problems}"));
        let listener = &plan.node.listeners[0];
        let listener = listener.with(listener.settings.mail().unwrap().clone());
        let engine = Arc::new(Engine::ephemeral(plan).unwrap());
        let node = Arc::new(Node::new(engine, crate::Clock::of(crate::SystemClock, None)));
        ListenerContext::new(node, listener)
    }

    #[tokio::test]
    async fn what_is_late_and_what_panics_is_told_apart() {
        let listener = listener("20ms");
        assert_eq!(listener.within_timeout(std::future::pending::<()>()).await, Err(DecisionFailure::Slow));
        let panics = async { std::hint::black_box(None::<()>).expect("this panics on purpose") };
        assert_eq!(
            (listener.within_timeout(panics).await, listener.node.metrics.panics.get()),
            (Err(DecisionFailure::Defect), 1)
        );
    }

    /// A message that finds no place to be read before its deadline counts nothing.
    #[tokio::test]
    async fn what_is_not_read_in_time_is_not_counted() {
        let listener = listener("1m");
        let message = || {
            let mut body = listener.body(Caller::Local);
            body.push(b"From: a@example.org\r\n\r\ntext\r\n");
            MailMessage { body, envelope: Envelope::default(), time: None, id: None }
        };
        let mut places = Vec::new();
        while let Ok(place) =
            Deadline::after(Duration::from_millis(1)).bound(listener.node.reading.enter(1)).await
        {
            places.push(place);
        }
        let hurried = ListenerContext::new(
            Arc::clone(&listener.node),
            ListenerPlan { timeout: event::Span(1_000), ..listener.plan.clone() },
        );
        assert!(matches!(
            hurried.decide(Ok(message())).await,
            MessageOutcome::FailOpen(DecisionFailure::Slow)
        ));
        assert_eq!(hurried.aside(INLINE_BYTES_MAX + 1, || 7).await, Err(Late), "it waits as messages do");
        assert_eq!(hurried.aside(INLINE_BYTES_MAX, || 7).await, Ok(7));
        assert!(matches!(hurried.decide(Err(Late)).await, MessageOutcome::FailOpen(DecisionFailure::Slow)));
        drop(places);
        let MessageOutcome::Decided(_) = listener.decide(Ok(message())).await else { panic!() };
        assert_eq!(listener.node.engine.journal().map_or(0, |journal| journal.census().segments), 0);
    }

    #[tokio::test]
    async fn messages_are_decided_on_and_learned() {
        let listener = listener("1m");
        let message = || {
            let mut body = listener.body(Caller::Local);
            body.push(b"From: a@example.org\r\n\r\ntext\r\n");
            MailMessage { body, envelope: Envelope::default(), time: None, id: listener.event_id("4XyZ") }
        };
        let MessageOutcome::Decided(decision) = listener.decide(Ok(message())).await else { panic!() };
        assert!(decision.event_id.as_deref().is_some_and(|id| id.starts_with("4XyZ.")), "{decision:?}");
        let places = listener.node.plan().requests_max;
        assert_eq!(listener.node.free_places(), places, "its place is free again");
        let learned = listener.learn(Ok(MailMessage { id: None, ..message() }), "spam").await.unwrap();
        assert!(learned.keys > 0 && !learned.duplicate, "{learned:?}");
        assert!(listener.learn(Ok(MailMessage { id: None, ..message() }), "spam").await.unwrap().duplicate);
        let unknown = listener.learn(Ok(message()), "no such class").await.unwrap_err();
        assert_eq!(unknown.to_string(), "there is no class `no such class`");
    }

    #[test]
    fn names_of_events_are_plain() {
        let listener = listener("1s");
        assert!(listener.event_id("a65.6b00dfcd.d8aab.0").is_some());
        assert_eq!(
            [listener.event_id(""), listener.event_id("a b"), listener.event_id(&"a".repeat(65))],
            [None, None, None]
        );
    }
}
