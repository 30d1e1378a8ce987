//! Mail servers that ask about messages: one module a protocol, and here the one way from a message to what is
//! answered.
//!
//! ```text
//! protocol ─► Body ─► Message ─► Face::decide ─► Outcome ─► protocol
//!             bounded            in time, or on_error
//! ```

mod body;
pub mod command;
pub mod header;
mod reading;
mod rspamd;
mod spamc;
mod told;
pub mod unpack;

use std::sync::Arc;
use std::time::{Duration, Instant};

use content::message::Envelope;
use engine::{Decision, EngineError, Failing, FeedbackOutcome, Input, ListenerPlan, Prepared, Protocol};
use event::Time;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::timeout;

pub(crate) use body::Body;

use crate::input::Lookups;
use crate::listen::{Stop, Stream};
use crate::node::{Node, blocking};
use unpack::{Packing, UnpackError, unpack};

/// What a conversation with a mail server has to know: the node, and the settings of its listener.
#[derive(Debug)]
pub(crate) struct Face {
    pub(crate) node: Arc<Node>,
    pub(crate) plan: ListenerPlan,
    /// What Rspamd's clients are told of it.
    tally: Arc<rspamd::Tally>,
}

/// A message as a mail server handed it over.
pub(crate) struct Message {
    /// Header and body, as they came.
    pub(crate) body: Body,
    pub(crate) envelope: Envelope,
    /// When it was received, if not now.
    pub(crate) time: Option<Time>,
    /// The mail server's name for it. The same within the pipeline's `dedupe` time is counted once.
    pub(crate) id: Option<String>,
}

/// What came of a message.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// It was decided on.
    Decided(Box<Decision>),
    /// It could not be decided on, and is to pass.
    FailOpen(Trouble),
    /// It could not be decided on, and its client is to come again.
    FailClosed(Trouble),
}

/// Why a message could not be decided on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Trouble {
    /// The decision was not there in time.
    #[error("the decision took too long")]
    Slow,
    /// Too many requests are at work, or their bodies are too large together.
    #[error("too much is being worked on")]
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

impl Trouble {
    /// A word for metrics.
    fn word(self) -> &'static str {
        match self {
            Trouble::Slow => "slow",
            Trouble::Overloaded => "overloaded",
            Trouble::TooLarge => "too-large",
            Trouble::Unavailable => "unavailable",
            Trouble::Defect => "defect",
        }
    }
}

/// Why nothing was learned.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LearnError {
    /// It could not be done now.
    #[error(transparent)]
    Trouble(Trouble),
    /// The pipeline has no such class.
    #[error("there is no class `{0}`")]
    NoClass(String),
}

/// The message that compressed bytes hold; what could not be kept whole stays as it is.
async fn unpacked(face: &Face, body: Body, packing: Packing) -> Result<Body, UnpackError> {
    if !body.is_whole() {
        return Ok(body);
    }
    let max = usize::try_from(face.plan.body_max).unwrap_or(usize::MAX);
    // Unpacking costs by what comes out, which may be much more than came in.
    blocking(move || Ok(body.part(&unpack(body.bytes(), packing, max)?))).await
}

/// Holds a conversation in the listener's protocol to its end.
pub(crate) async fn converse(stream: Stream, face: Arc<Face>, stop: Stop) {
    match face.plan.protocol {
        Protocol::Rspamd => rspamd::converse(stream, face, stop).await,
        Protocol::Spamc => spamc::converse(stream, face, stop).await,
        protocol @ (Protocol::Milter | Protocol::Policy) => {
            tracing::error!(%protocol, "not spoken by this build");
            drop((stream, stop));
        }
    }
}

impl Face {
    pub(crate) fn new(node: Arc<Node>, plan: ListenerPlan) -> Face {
        Face { node, plan, tally: Arc::default() }
    }

    /// The same, but that another pipeline decides, if there is one of this name that reads messages.
    fn by(&self, pipeline: &str) -> Option<Face> {
        let of = self.node.pipeline(Some(pipeline)).ok()?;
        let plan = ListenerPlan { pipeline: of.name.clone(), ..self.plan.clone() };
        (of.input == Input::Message).then(|| Face {
            node: Arc::clone(&self.node),
            plan,
            tally: Arc::clone(&self.tally),
        })
    }

    /// Room for a message that is about to come.
    pub(crate) fn body(&self) -> Body {
        let max = usize::try_from(self.plan.body_max).unwrap_or(usize::MAX);
        Body::new(Arc::clone(&self.node.bodies), max)
    }

    /// Counts, judges and logs a message within the listener's time. Work that was begun is finished all the same: no
    /// message is counted and then left unjudged.
    pub(crate) async fn decide(&self, message: Message) -> Outcome {
        let started = Instant::now();
        let decided = self.in_time(message, Lookups::Configured, |node, prepared, _, _| async move {
            let decisions = node.engine.decide(vec![prepared]).await?;
            Ok(decisions.into_iter().next())
        });
        let decided = decided.await.and_then(|decided: Result<_, EngineError>| match decided {
            Ok(Some(decision)) => Ok(decision),
            Ok(None) => Err(Trouble::Defect),
            Err(error) => {
                tracing::error!(%error, listener = self.plan.name, "a message could not be decided on");
                Err(Trouble::Unavailable)
            }
        });
        let outcome = match decided {
            Ok(decision) => Outcome::Decided(Box::new(decision)),
            Err(trouble) => self.undecided(trouble),
        };
        let answer = match &outcome {
            Outcome::Decided(decision) => decision.verdict.action.name(),
            Outcome::FailOpen(_) => "fail-open",
            Outcome::FailClosed(_) => "fail-closed",
        };
        self.node.metrics.listener_answered(&self.plan.name, answer, started.elapsed());
        outcome
    }

    /// What becomes of a message that could not be decided on.
    fn undecided(&self, trouble: Trouble) -> Outcome {
        tracing::warn!(listener = self.plan.name, reason = trouble.word(), "a message was not decided on");
        self.node.metrics.listener_trouble(&self.plan.name, trouble.word());
        match self.plan.on_error {
            Failing::Open => Outcome::FailOpen(trouble),
            Failing::Closed => Outcome::FailClosed(trouble),
        }
    }

    /// Takes in what somebody says about a message: a class of the pipeline's `[feedback]`. The same said twice of one
    /// id, or without one of the same message, counts once.
    pub(crate) async fn learn(&self, message: Message, class: &str) -> Result<FeedbackOutcome, LearnError> {
        let class = class.to_owned();
        let learned = self.in_time(message, Lookups::None, |node, prepared, id, raw| async move {
            node.learn(prepared, id, &raw, &class).await
        });
        match learned.await.map_err(LearnError::Trouble)? {
            Ok((_, outcome)) => Ok(outcome),
            Err(EngineError::Unknown { name, .. }) => Err(LearnError::NoClass(name)),
            Err(error) => {
                tracing::error!(%error, listener = self.plan.name, "a message could not be learned");
                Err(LearnError::Trouble(Trouble::Unavailable))
            }
        }
    }

    /// Reads a message and does something with it, in a task of its own that holds its place and its room: the
    /// deadline ends the waiting and not the work, and a panic ends that task and nothing else.
    async fn in_time<T, W>(
        &self,
        message: Message,
        lookups: Lookups,
        work: impl FnOnce(Arc<Node>, Prepared, Option<String>, Arc<[u8]>) -> W + Send + 'static,
    ) -> Result<T, Trouble>
    where
        T: Send + 'static,
        W: Future<Output = T> + Send + 'static,
    {
        let place = self.place()?;
        let Message { body, envelope, time, id } = message;
        if body.is_cut() && !self.plan.judges_first_part {
            return Err(Trouble::TooLarge);
        }
        let (raw, room) = body.finish().ok_or(Trouble::Overloaded)?;
        let pipeline = self.node.pipeline(Some(&self.plan.pipeline)).map_err(|_| Trouble::Unavailable)?;
        let (node, arrival) = (Arc::clone(&self.node), self.node.now());
        let task = tokio::spawn(async move {
            let raw: Arc<[u8]> = raw.into();
            let mut event = content::message::event(Arc::clone(&raw), envelope);
            event.id = id.clone();
            event.time = time;
            let prepared = node.prepare(&pipeline, event, arrival, lookups).await;
            let done = work(node, prepared, id, raw).await;
            drop((place, room));
            done
        });
        match timeout(self.patience(), task).await {
            Ok(Ok(done)) => Ok(done),
            Ok(Err(_)) => {
                self.node.metrics.panics.inc();
                Err(Trouble::Defect)
            }
            Err(_) => Err(Trouble::Slow),
        }
    }

    fn place(&self) -> Result<OwnedSemaphorePermit, Trouble> {
        Arc::clone(&self.node.requests).try_acquire_owned().map_err(|_| Trouble::Overloaded)
    }

    /// Time for one decision.
    fn patience(&self) -> Duration {
        Duration::from_micros(self.plan.timeout.0.unsigned_abs())
    }

    /// Time that a connection may be silent.
    pub(crate) fn idle(&self) -> Duration {
        Duration::from_micros(self.plan.idle.0.unsigned_abs())
    }
}
