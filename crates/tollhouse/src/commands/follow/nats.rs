//! A durable pull consumer of NATS JetStream.
//!
//! ```text
//! connect ─► look at the stream, make the consumer ─► ask for messages ─► handed over, answered ─► +ACK each
//! ```
//!
//! What is not acknowledged comes again, to this process or the next one. A message is named after its stream, when that was
//! made, and its sequence number there, so it counts once: a stream that was made anew has the same numbers again. A
//! connection that broke is therefore not taken up again: another one looks at the stream anew.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use async_nats::connection::State;
use async_nats::jetstream;
use async_nats::jetstream::consumer::pull::Config;
use async_nats::jetstream::consumer::{AckPolicy, PullConsumer};
use async_nats::jetstream::message::Acker;
use async_nats::{Client, Event};
use futures_util::StreamExt;
use parking_lot::Mutex;
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;

use super::broker_options::BrokerOptions;
use super::{LINES_MAX, NamedLine};
use crate::brokers::nats::{NatsConnection, NatsProblem, WITHIN, advice, reasons};

/// The time that the server is to wait for messages before it says that there are no more.
const WAIT: Duration = Duration::from_millis(250);
/// The time in which a consumer says something after it was asked. The client ends a batch five seconds after [`WAIT`].
const SILENCE: Duration = Duration::from_secs(4);
/// After so long an unacknowledged message comes again.
const ACK_WAIT: Duration = Duration::from_secs(60);
/// Messages that a new consumer may leave unacknowledged at least: as many as NATS allows one that says nothing.
const ACKS_PENDING: usize = 1_000;
/// Bytes of messages that are asked for at once. A larger message comes alone.
const BATCH_BYTES_MAX: usize = 8 << 20;

/// The stream of NATS that is consumed, and who asks for it. Flags and variables are those of the command `nats`.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct NatsOptions {
    /// NATS servers to consume JetStream from, separated by commas: nats://[USER:PASSWORD@]HOST[:PORT] or tls://...
    #[arg(long, value_name = "URL", requires = "stream", conflicts_with_all = ["files", "position", "once"])]
    pub(super) nats: Option<String>,
    /// Stream to consume
    #[arg(long, value_name = "NAME", requires = "nats")]
    stream: Option<String>,
    /// Durable consumer, created if missing
    #[arg(long, value_name = "NAME", default_value = "tollhouse", requires = "nats")]
    consumer: String,
    /// Credentials file of the NATS user [env: NATS_CREDS]
    #[arg(long, value_name = "FILE", requires = "nats")]
    pub(super) creds: Option<PathBuf>,
}

/// All that is needed to consume a stream, checked as far as it can be without a server.
pub(super) struct NatsSource {
    connection: NatsConnection,
    stream: String,
    consumer: String,
    /// Messages that may wait for their acknowledgement.
    unacknowledged_max: usize,
}

impl NatsSource {
    /// Reads flags, and the variables of the environment that stand in for them.
    pub(super) fn new(
        options: &NatsOptions,
        security: &BrokerOptions,
        unacknowledged_max: usize,
    ) -> Result<NatsSource, NatsProblem> {
        let stream = options.stream.clone().unwrap_or_default();
        let consumer = options.consumer.clone();
        // They become part of subjects.
        let is_name = |name: &str| {
            !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
        };
        if !is_name(&stream) || !is_name(&consumer) {
            return Err(NatsProblem::new("names of streams and consumers have letters, digits, `-` and `_`"));
        }
        let security = security.read(options.creds.as_deref(), "NATS").map_err(NatsProblem::new)?;
        let servers = options.nats.as_deref().unwrap_or_default();
        let connection = NatsConnection::new(servers.split(','), &security)?;
        Ok(NatsSource { connection, stream, consumer, unacknowledged_max })
    }
}

/// Consumers that were opened.
static OPENED: AtomicU64 = AtomicU64::new(0);

/// The acknowledgement of a message, to be given once it is safe.
pub(super) struct NatsReceipt {
    /// The number of the consumer that took it.
    consumer: u64,
    acker: Acker,
}

/// A connection with a consumer.
pub(super) struct NatsConsumer {
    client: Client,
    consumer: PullConsumer,
    /// Beginning of messages' names: the stream, and when it was made.
    origin: String,
    /// The consumer's number among those of this process.
    number: u64,
    /// The runtime of the connection. It answers the server's pings while messages are judged.
    runtime: Runtime,
}

impl NatsConsumer {
    /// Connects and makes the consumer, unless there is one of this name.
    pub(super) fn open(source: &NatsSource) -> Result<NatsConsumer, NatsProblem> {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.map_err(NatsProblem::new)?;
        let (client, consumer, origin) = runtime.block_on(connect(source))?;
        let number = OPENED.fetch_add(1, Ordering::Relaxed);
        Ok(NatsConsumer { client, consumer, origin, number, runtime })
    }

    /// The next messages as lines, or none if none came for a while.
    pub(super) fn take(&mut self) -> Result<Vec<(NamedLine, NatsReceipt)>, String> {
        let NatsConsumer { client, consumer, origin, number, runtime } = self;
        let messages = runtime.block_on(async {
            let mut ackers = Vec::new();
            let (mut lines, mut why) =
                batch(consumer, LINES_MAX, BATCH_BYTES_MAX, origin, &mut ackers).await?;
            if lines.is_empty() && why.is_some() {
                // The next message may be larger than a batch.
                (lines, why) = batch(consumer, 1, 0, origin, &mut ackers).await?;
            }
            match why {
                Some(why) if lines.is_empty() => Err(why),
                _ => Ok(lines.into_iter().zip(ackers)),
            }
        })?;
        match client.connection_state() {
            State::Connected => {
                let receipt = |acker| NatsReceipt { consumer: *number, acker };
                Ok(messages.map(|(line, acker)| (line, receipt(acker))).collect())
            }
            _ => Err("the connection broke".to_owned()),
        }
    }

    /// Says that messages need not come again. Those whose word is lost on the way do, as do those of a consumer before, and
    /// count once.
    pub(super) fn acknowledge(&mut self, receipts: impl Iterator<Item = NatsReceipt>) -> Result<(), String> {
        let NatsConsumer { client, number, runtime, .. } = self;
        let all = async {
            let mut is_any = false;
            for receipt in receipts.filter(|receipt| receipt.consumer == *number) {
                receipt.acker.ack().await.map_err(|error| error.to_string())?;
                is_any = true;
            }
            match is_any {
                true => client.flush().await.map_err(|error| error.to_string()),
                false => Ok(()),
            }
        };
        let acknowledged = runtime.block_on(async { timeout(WITHIN, all).await });
        acknowledged.unwrap_or_else(|_| Err("the server does not take acknowledgements".to_owned()))
    }
}

/// Lines of a batch, and why it ended, unless there was no more or it was full.
type NatsBatch = (Vec<NamedLine>, Option<String>);

/// Asks for messages, at most so many and so many bytes; 0 is any number of bytes.
async fn batch(
    consumer: &PullConsumer,
    most: usize,
    bytes_max: usize,
    origin: &str,
    taken: &mut Vec<Acker>,
) -> Result<NatsBatch, String> {
    let asked = consumer.batch().max_messages(most).max_bytes(bytes_max).expires(WAIT).messages().await;
    let mut messages = asked.map_err(|error| error.to_string())?;
    let mut lines = Vec::new();
    loop {
        // A consumer that is gone may leave a request without any answer.
        let Ok(next) = timeout(SILENCE, messages.next()).await else {
            return Ok((lines, Some("the consumer does not answer".to_owned())));
        };
        let message = match next {
            Some(Ok(message)) => message,
            Some(Err(error)) => return Ok((lines, Some(error.to_string()))),
            None => return Ok((lines, None)),
        };
        let sequence = message.info().map_err(|error| error.to_string())?.stream_sequence;
        let (message, acker) = message.split();
        lines.push((Some(format!("{origin}:{sequence}")), message.payload.into()));
        taken.push(acker);
    }
}

/// The client, the consumer, and the beginning of messages' names.
async fn connect(source: &NatsSource) -> Result<(Client, PullConsumer, String), NatsProblem> {
    // Once it is open it is not made again by the client, which would go on with names of a stream that may be another one.
    let is_open = Arc::new(AtomicBool::new(false));
    let delay = {
        let is_open = Arc::clone(&is_open);
        move |_| if is_open.load(Ordering::Acquire) { Duration::MAX } else { Duration::ZERO }
    };
    // The server answers what a user may not do beside the request, which then is not answered at all.
    let denied = Arc::new(Mutex::new(None));
    let listen = {
        let denied = Arc::clone(&denied);
        move |event| {
            if let Event::ServerError(error) = event {
                *denied.lock() = Some(error.to_string());
            }
            async {}
        }
    };
    let options = source.connection.options()?.subscription_capacity(2 * LINES_MAX);
    let options = options.reconnect_delay_callback(delay).event_callback(listen);
    let place = source.connection.place();
    let client = options.connect(source.connection.servers()).await;
    let client = client.map_err(|error| {
        NatsProblem::new(format_args!("{place}: {}", reasons(&error))).help(advice(&error))
    })?;
    is_open.store(true, Ordering::Release);
    let opened = open_consumer(&client, source).await;
    let (consumer, origin) = opened.map_err(|why| match denied.lock().take() {
        Some(denied) => NatsProblem::new(format_args!("{place}: {why}: {denied}")),
        None => NatsProblem::new(format_args!("{place}: {why}")),
    })?;
    Ok((client, consumer, origin))
}

async fn open_consumer(client: &Client, source: &NatsSource) -> Result<(PullConsumer, String), String> {
    let NatsSource { stream, consumer: name, .. } = source;
    let found = jetstream::new(client.clone()).get_stream(stream).await;
    let found = found.map_err(|error| format!("stream `{stream}`: {}", reasons(&error)))?;
    let created = found.cached_info().created.unix_timestamp_nanos();
    let config = Config {
        durable_name: Some(name.clone()),
        ack_wait: ACK_WAIT,
        max_ack_pending: i64::try_from(source.unacknowledged_max.max(ACKS_PENDING)).unwrap_or(i64::MAX),
        ..Config::default()
    };
    let consumer = found.get_or_create_consumer(name, config).await;
    let consumer = consumer.map_err(|error| format!("consumer `{name}`: {}", reasons(&error)))?;
    if consumer.cached_info().config.ack_policy != AckPolicy::Explicit {
        return Err(format!(
            "the consumer `{name}` does not have each message acknowledged, so one that is lost on the way would \
             not come again: make it with the policy `explicit`, or name another with --consumer"
        ));
    }
    Ok((consumer, format!("{stream}@{created}")))
}
