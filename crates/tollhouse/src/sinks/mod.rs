//! Sinks: decisions and feedback are read from the journal and sent to brokers, on a thread for each, so that decisions never
//! wait for one.
//!
//! ```text
//! kept position ─► records of a block ─► JSON ─► sent, acknowledged ─► position kept (`sinks.json`)
//! ```
//!
//! A position is kept once the broker has all that is before it. What was sent and not yet kept when the process ends is sent
//! again, with the same ids. A broker that is away is tried again at growing intervals; what waits stays in the journal, and
//! only one block of it is in memory.

#[cfg(feature = "kafka")]
mod kafka;
mod message;
mod nats;
#[cfg(test)]
pub(crate) mod schema;

use std::sync::Arc;
use std::time::Duration;

use engine::{Engine, SinkStatus};
use journal::{
    FollowerStop, FollowerThreads, Journal, JournalPosition, JournalTail, Record, RecordId, retry_pause,
};
use plan::SinkTarget;
use server::Clock;
use tokio::runtime::Builder;

use self::message::SinkMessage;
use crate::brokers::nats::NatsConnection;
use crate::exit::CommandError;

/// The interval at which the journal is looked at for more.
const LOOK: Duration = Duration::from_millis(250);
/// The pause after a first failure, and the longest one.
const PAUSE: Duration = Duration::from_millis(500);
const PAUSE_MAX: Duration = Duration::from_secs(30);
/// Messages, and bytes of these, that are under way at once.
const MESSAGES_MAX: usize = 1_000;
const BYTES_MAX: usize = 4 << 20;
/// Bytes of a message with facts: what brokers take that are configured as they come, with room for headers.
const MESSAGE_BYTES_MAX: usize = 900_000;
/// The longest that a server which ends sends what is left.
pub(crate) const FINISH_WITHIN: Duration = Duration::from_secs(10);

/// Begins to send, to all sinks that are configured. The brokers need not be there; the files that settings name do.
pub(crate) fn start(engine: &Arc<Engine>, clock: &Clock) -> Result<FollowerThreads, CommandError> {
    let mut sinks = FollowerThreads::default();
    let Some(journal) = engine.shared_journal() else { return Ok(sinks) };
    for status in engine.sinks().statuses() {
        let name = &status.plan.name;
        let failed = |why: String| CommandError::new(format_args!("sink `{name}`: {why}"));
        let target = SinkConnector::new(&status.plan.target).map_err(failed)?;
        let position = match engine.sinks().position(name) {
            Some(position) => position,
            None => {
                let begin = || {
                    if status.plan.from_oldest {
                        Ok(JournalPosition::default())
                    } else {
                        JournalTail::end(&journal)
                    }
                };
                let position = begin().map_err(|error| failed(error.to_string()))?;
                // What is decided from now on is sent, also if this process ends before it has sent anything.
                engine.keep_sink_position(name, position).map_err(|error| failed(error.to_string()))?;
                position
            }
        };
        let sender = SinkSender {
            engine: Arc::clone(engine),
            journal: Arc::clone(&journal),
            status: Arc::clone(status),
            clock: clock.clone(),
            stop: sinks.stop(),
            tail: JournalTail::from(position),
            target,
            open: None,
            waiting: 0,
        };
        sinks.spawn("sink", move || sender.run()).map_err(|error| failed(error.to_string()))?;
    }
    Ok(sinks)
}

/// All that is needed to connect to a sink's broker.
enum SinkConnector {
    #[cfg(feature = "kafka")]
    Kafka {
        brokers: String,
        topic: String,
        security: plan::BrokerSecurity,
    },
    Nats {
        connection: NatsConnection,
        subject: String,
        stream: Option<String>,
    },
}

impl SinkConnector {
    fn new(target: &SinkTarget) -> Result<SinkConnector, String> {
        match target {
            #[cfg(feature = "kafka")]
            SinkTarget::Kafka { brokers, topic, security } => {
                let files = security.ca.iter().chain(security.identity.iter().flat_map(|(a, b)| [a, b]));
                for file in files {
                    std::fs::File::open(file).map_err(|error| format!("{}: {error}", file.display()))?;
                }
                let (brokers, topic) = (brokers.clone(), topic.clone());
                Ok(SinkConnector::Kafka { brokers, topic, security: security.clone() })
            }
            // The configuration is refused before.
            #[cfg(not(feature = "kafka"))]
            SinkTarget::Kafka { .. } => Err(plan::MissingFeature(plan::BuildFeature::Kafka).to_string()),
            SinkTarget::Nats { servers, subject, stream, security } => {
                let connection = NatsConnection::new(servers.iter().map(String::as_str), security);
                let connection = connection.map_err(|problem| problem.why)?;
                Ok(SinkConnector::Nats { connection, subject: subject.clone(), stream: stream.clone() })
            }
        }
    }

    async fn open(&self) -> Result<OpenSink, String> {
        match self {
            #[cfg(feature = "kafka")]
            SinkConnector::Kafka { brokers, topic, security } => {
                kafka::KafkaProducer::open(brokers, topic, security).await.map(OpenSink::Kafka)
            }
            SinkConnector::Nats { connection, subject, stream } => {
                nats::NatsPublisher::open(connection, subject, stream.as_deref()).await.map(OpenSink::Nats)
            }
        }
    }
}

/// A connection to a sink's broker.
enum OpenSink {
    #[cfg(feature = "kafka")]
    Kafka(kafka::KafkaProducer),
    Nats(nats::NatsPublisher),
}

impl OpenSink {
    /// Bytes of a message with facts.
    fn bytes_max(&self) -> usize {
        match self {
            #[cfg(feature = "kafka")]
            OpenSink::Kafka(_) => MESSAGE_BYTES_MAX,
            OpenSink::Nats(publisher) => publisher.bytes_max().min(MESSAGE_BYTES_MAX),
        }
    }

    async fn send(&self, messages: &[SinkMessage]) -> Result<(), String> {
        match self {
            #[cfg(feature = "kafka")]
            OpenSink::Kafka(producer) => producer.send(messages).await,
            OpenSink::Nats(publisher) => publisher.send(messages).await,
        }
    }

    async fn close(self) {
        match self {
            #[cfg(feature = "kafka")]
            OpenSink::Kafka(producer) => producer.close().await,
            OpenSink::Nats(_) => {}
        }
    }
}

/// The end of sending.
struct SinkStop;

/// The thread of a sink.
struct SinkSender {
    engine: Arc<Engine>,
    journal: Arc<Journal>,
    status: Arc<SinkStatus>,
    clock: Clock,
    stop: Arc<FollowerStop>,
    tail: JournalTail,
    target: SinkConnector,
    open: Option<OpenSink>,
    /// Records that were read and are not sent yet.
    waiting: u64,
}

impl SinkSender {
    fn run(mut self) {
        // Of its own: the journal is read on it, which blocks.
        match Builder::new_current_thread().enable_all().build() {
            Ok(runtime) => {
                // A stop needs no further word.
                let _ = runtime.block_on(self.send_all());
            }
            Err(error) => _ = self.failed(&error.to_string()),
        }
    }

    /// Sends what comes, until the end.
    async fn send_all(&mut self) -> Result<(), SinkStop> {
        while !self.stop.is_raised() {
            let is_last = self.stop.is_ending();
            let batch = match self.tail.next_batch(&self.journal) {
                Ok(batch) => batch,
                Err(error) => {
                    let pause = self.failed(&error.to_string());
                    self.pause(pause).await;
                    if is_last {
                        break;
                    }
                    continue;
                }
            };
            let Some(batch) = batch else {
                self.status.note_lag(0, self.tail.gaps());
                if is_last {
                    break;
                }
                self.pause(LOOK).await;
                continue;
            };
            self.send_batch(&batch.records, batch.position).await?;
        }
        Ok(())
    }

    /// Sends records part by part, and keeps the position behind each.
    async fn send_batch(
        &mut self,
        mut records: &[(RecordId, Record)],
        position: JournalPosition,
    ) -> Result<(), SinkStop> {
        while !records.is_empty() {
            self.waiting = records.len() as u64;
            self.status.note_lag(self.tail.lag(&self.journal) + self.waiting, self.tail.gaps());
            let bytes_max = self.open().await?;
            let (mut messages, mut bytes, mut taken) = (Vec::new(), 0, 0);
            for (id, record) in records {
                if messages.len() >= MESSAGES_MAX || bytes >= BYTES_MAX {
                    break;
                }
                taken += 1;
                let description = match record {
                    // Facts without names say nothing; which version it was is in the message.
                    Record::Decision(row) => self.journal.description(&row.version).ok(),
                    Record::Report(_) => None,
                };
                let message =
                    message::encode(&self.status.plan, *id, record, description.as_deref(), bytes_max);
                bytes += message.as_ref().map_or(0, |message| message.body.len());
                messages.extend(message);
            }
            if !self.send(&messages).await? {
                continue;
            }
            let (sent, rest) = records.split_at(taken);
            records = rest;
            let last = sent.last().map(|(id, _)| *id);
            let shortened = messages.iter().filter(|message| message.is_shortened).count();
            self.status.note_sent(messages.len() as u64, bytes as u64, shortened as u64, last);
            self.engine.tell_of_sinks();
            let position = if rest.is_empty() { position } else { JournalPosition { last, ..position } };
            if let Err(error) = self.engine.keep_sink_position(&self.status.plan.name, position) {
                // It is sent again after a restart; what is sent from now on is not held up by it.
                self.failed(&error.to_string());
            }
        }
        self.waiting = 0;
        Ok(())
    }

    /// Connects, unless there is a connection; returns the bytes of a message with facts.
    async fn open(&mut self) -> Result<usize, SinkStop> {
        loop {
            if let Some(open) = &self.open {
                return Ok(open.bytes_max());
            }
            let opened = tokio::select! {
                opened = self.target.open() => opened,
                () = self.stop.raised() => return Err(SinkStop),
            };
            match opened {
                Ok(open) => self.open = Some(open),
                Err(why) => self.wait_after(&why).await?,
            }
        }
    }

    /// Sends messages. Returns false if the broker did not take all of them: they are to be sent again.
    async fn send(&mut self, messages: &[SinkMessage]) -> Result<bool, SinkStop> {
        if messages.is_empty() {
            return Ok(true);
        }
        let Some(open) = &self.open else { return Ok(false) };
        let sent = tokio::select! {
            sent = open.send(messages) => sent,
            () = self.stop.raised() => return Err(SinkStop),
        };
        match sent {
            Ok(()) => Ok(true),
            Err(why) => {
                // Its state is not known any more.
                if let Some(open) = self.open.take() {
                    open.close().await;
                }
                self.wait_after(&why).await?;
                Ok(false)
            }
        }
    }

    /// Waits, unless the thread is to end, now or soon.
    async fn pause(&self, pause: Duration) {
        let _ = tokio::time::timeout(pause, self.stop.any()).await;
    }

    /// Waits after a failure; nothing is tried again by a process that is to end.
    async fn wait_after(&self, why: &str) -> Result<(), SinkStop> {
        let pause = self.failed(why);
        self.pause(pause).await;
        let is_over = self.stop.is_raised() || self.stop.is_ending();
        if is_over { Err(SinkStop) } else { Ok(()) }
    }

    /// Tells of a failure, and returns how long to wait after it.
    fn failed(&self, why: &str) -> Duration {
        let failures = self.status.note_failure(self.clock.now(), why);
        self.status.note_lag(self.tail.lag(&self.journal) + self.waiting, self.tail.gaps());
        if failures == 1 {
            tracing::warn!(sink = self.status.plan.name, "{why}; it is tried again");
        }
        self.engine.tell_of_sinks();
        retry_pause(failures, PAUSE, PAUSE_MAX)
    }
}
