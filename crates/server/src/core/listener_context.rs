//! Context of a connection's listener, in any protocol.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use plan::{ListenerPlan, ProtocolPlan};

use crate::core::auth_failures::LogThrottle;
use crate::core::deadline::{Deadline, Late, NoAnswerReason};
use crate::core::node::Node;
use crate::core::shares::{Caller, Share};
use crate::core::telemetry::RequestTrace;

/// The node, and the settings of a listener.
#[derive(Debug)]
pub(crate) struct ListenerContext<S = ProtocolPlan> {
    pub(crate) node: Arc<Node>,
    pub(crate) plan: ListenerPlan<S>,
    /// Lets lines into the log that strangers can cause.
    log_throttle: Arc<LogThrottle>,
}

/// A reason for which an event could not be decided on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum DecisionFailure {
    /// The decision was not there in time.
    #[error("the decision took too long")]
    Slow,
    /// Too many requests are at work, or their bodies are too large together.
    #[error("the node is overloaded")]
    Overloaded,
    /// The message is longer than what is kept of it.
    #[error("the message is too long")]
    TooLarge,
    /// Nothing can be read or written, or the pipeline has gone.
    #[error("nothing can be decided now")]
    Unavailable,
    /// A defect.
    #[error("something went wrong here")]
    Defect,
}

impl DecisionFailure {
    /// A word for metrics.
    pub(crate) fn name(self) -> &'static str {
        match self {
            DecisionFailure::Slow => "slow",
            DecisionFailure::Overloaded => "overloaded",
            DecisionFailure::TooLarge => "too-large",
            DecisionFailure::Unavailable => "unavailable",
            DecisionFailure::Defect => "defect",
        }
    }
}

impl From<Late> for DecisionFailure {
    fn from(_: Late) -> DecisionFailure {
        DecisionFailure::Slow
    }
}

impl<S> ListenerContext<S> {
    pub(crate) fn new(node: Arc<Node>, plan: ListenerPlan<S>) -> ListenerContext<S> {
        ListenerContext { node, plan, log_throttle: Arc::default() }
    }

    /// Returns this listener with other settings of a protocol.
    pub(crate) fn with<T>(&self, settings: T) -> ListenerContext<T> {
        ListenerContext {
            node: Arc::clone(&self.node),
            plan: self.plan.with(settings),
            log_throttle: Arc::clone(&self.log_throttle),
        }
    }

    /// Counts and tells what a client did wrong: each in metrics, and in the log what can be read there.
    pub(crate) fn misused(&self, client: Option<IpAddr>, reason: &'static str, what: &dyn fmt::Display) {
        let listener = &self.plan.name;
        self.node.metrics.listener_failure(listener, reason);
        if let Some(more) = self.log_throttle.pass() {
            let client = client.map(tracing::field::display);
            tracing::warn!(listener, client, reason, more, "{what}");
        }
    }

    /// Does something in a task of its own, and waits for it until the deadline.
    pub(crate) async fn within_timeout<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, DecisionFailure> {
        // The task has the trace of who waits for it.
        let done = match RequestTrace::current() {
            None => self.deadline().run(work).await,
            Some(trace) => self.deadline().run(RequestTrace::bound(Some(trace), work)).await,
        };
        done.map_err(|unanswered| match unanswered {
            NoAnswerReason::Late => DecisionFailure::Slow,
            NoAnswerReason::Panicked => {
                self.node.metrics.panics.inc();
                DecisionFailure::Defect
            }
        })
    }

    /// The deadline of a decision that begins now.
    pub(crate) fn deadline(&self) -> Deadline {
        Deadline::after(self.timeout())
    }

    /// A place among the requests at work.
    pub(crate) fn place(&self, caller: Caller) -> Result<Share, DecisionFailure> {
        self.node.place(caller).ok_or(DecisionFailure::Overloaded)
    }

    /// Time for one decision.
    pub(crate) fn timeout(&self) -> Duration {
        Duration::from_micros(self.plan.timeout.0.unsigned_abs())
    }

    /// Time that a connection may be silent.
    pub(crate) fn idle(&self) -> Duration {
        Duration::from_micros(self.plan.idle.0.unsigned_abs())
    }
}
