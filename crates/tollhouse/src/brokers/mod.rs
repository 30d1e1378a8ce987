//! Connections to Kafka and NATS, of those who read there (`follow`) and of those who send there (sinks): TLS and
//! credentials are made of the same settings.

#[cfg(feature = "kafka")]
pub(crate) mod kafka;
pub(crate) mod nats;
