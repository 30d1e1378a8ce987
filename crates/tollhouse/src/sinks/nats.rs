//! A subject of NATS JetStream that is sent to.

use std::sync::Arc;

use async_nats::jetstream::context::{Context, ContextBuilder};
use async_nats::jetstream::message::PublishMessage;
use async_nats::{Client, Event};
use parking_lot::Mutex;

use super::message::SinkMessage;
use crate::brokers::nats::{NatsConnection, WITHIN, reasons};

/// Bytes of headers of a message, at most.
const HEADER_BYTES_MAX: usize = 1 << 10;

/// A connection to a subject.
pub(super) struct NatsPublisher {
    client: Client,
    jetstream: Context,
    subject: String,
    stream: Option<String>,
    /// The last refusal: the server gives it beside the message, which then is not answered at all.
    denied: Arc<Mutex<Option<String>>>,
}

impl NatsPublisher {
    /// Connects.
    pub(super) async fn open(
        connection: &NatsConnection,
        subject: &str,
        stream: Option<&str>,
    ) -> Result<NatsPublisher, String> {
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
        let options = connection.options().map_err(|problem| problem.why)?.event_callback(listen);
        let client = options.connect(connection.servers()).await;
        let client = client.map_err(|error| format!("{}: {}", connection.place(), reasons(&error)))?;
        let jetstream = ContextBuilder::new().timeout(WITHIN).ack_timeout(WITHIN).build(client.clone());
        let (subject, stream) = (subject.to_owned(), stream.map(str::to_owned));
        Ok(NatsPublisher { client, jetstream, subject, stream, denied })
    }

    /// The bytes that the server takes as one message.
    pub(super) fn bytes_max(&self) -> usize {
        self.client.server_info().max_payload.saturating_sub(HEADER_BYTES_MAX)
    }

    /// Sends messages, in this order; returns once the stream has all of them.
    pub(super) async fn send(&self, messages: &[SinkMessage]) -> Result<(), String> {
        *self.denied.lock() = None;
        let mut acknowledgements = Vec::with_capacity(messages.len());
        let mut failed = None;
        for message in messages {
            let mut publish = PublishMessage::build()
                .payload(message.body.clone().into())
                .message_id(message.id.to_string())
                .header("Tollhouse-Type", message.kind);
            if let Some(stream) = &self.stream {
                publish = publish.expected_stream(stream);
            }
            match self.jetstream.send_publish(self.subject.clone(), publish).await {
                Ok(acknowledgement) => acknowledgements.push(acknowledgement),
                Err(error) => {
                    failed = Some(reasons(&error));
                    break;
                }
            }
        }
        for acknowledgement in acknowledgements {
            if let Err(error) = acknowledgement.await {
                failed.get_or_insert(reasons(&error));
                // The others wait as long.
                break;
            }
        }
        let Some(why) = failed else { return Ok(()) };
        Err(match self.denied.lock().take() {
            Some(denied) => format!("{}: {why}: {denied}", self.subject),
            None => format!("{}: {why}", self.subject),
        })
    }
}
