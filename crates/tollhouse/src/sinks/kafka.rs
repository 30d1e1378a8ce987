//! A topic of Kafka that is sent to.

use krafka::producer::Producer;
use krafka::{CloseOptions, Record};
use plan::BrokerSecurity;
use std::time::Duration;

use super::message::SinkMessage;
use crate::brokers::kafka::{self, WITHIN};

/// The time in which the brokers have a message, or it counts as not sent.
const DELIVER_WITHIN: Duration = Duration::from_secs(30);
/// The time for what is under way when a connection is given up.
const CLOSE_WITHIN: Duration = Duration::from_secs(1);

/// A connection to a topic.
pub(super) struct KafkaProducer {
    producer: Producer,
    topic: String,
}

impl KafkaProducer {
    /// Connects.
    pub(super) async fn open(
        brokers: &str,
        topic: &str,
        security: &BrokerSecurity,
    ) -> Result<KafkaProducer, String> {
        let open = async {
            let kafka = kafka::builder(brokers, security).connect().await?;
            // All replicas in step have a message before it counts as sent, and the client's own retries double none.
            let producer = kafka.producer().idempotent(true).metrics_push(false);
            producer.max_block(WITHIN).delivery_timeout(DELIVER_WITHIN).build().await
        };
        let producer = open.await.map_err(|error: krafka::KrafkaError| error.to_string())?;
        Ok(KafkaProducer { producer, topic: topic.to_owned() })
    }

    /// Sends messages, in this order; returns once the brokers have all of them.
    pub(super) async fn send(&self, messages: &[SinkMessage]) -> Result<(), String> {
        let mut handles = Vec::with_capacity(messages.len());
        let mut failed = None;
        for message in messages {
            // What is said of a decision lies behind it in one partition.
            let record = Record::new(&self.topic, message.body.clone())
                .key(message.decision.to_string())
                .header("id", message.id.to_string())
                .header("type", message.kind);
            match self.producer.enqueue(record).await {
                Ok(handle) => handles.push(handle),
                Err(error) => {
                    failed = Some(error.to_string());
                    break;
                }
            }
        }
        for handle in handles {
            if let Err(error) = handle.await {
                failed.get_or_insert(error.to_string());
            }
        }
        failed.map_or(Ok(()), Err)
    }

    /// Gives the connection up.
    pub(super) async fn close(self) {
        // What is still under way is sent again.
        let _ = self.producer.close_with(CloseOptions::new().timeout(CLOSE_WITHIN)).await;
    }
}
