//! Brokers that a node sends decisions and feedback to.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::Timestamp;

/// The sinks of a node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Sinks)]
pub struct SinksJson {
    /// The sinks as they are configured, in that order.
    pub sinks: Vec<SinkJson>,
}

/// A sink.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Sink)]
pub struct SinkJson {
    /// Its name.
    pub name: String,
    /// The kind: `kafka` or `nats`.
    pub kind: String,
    /// The topic or subject.
    pub address: String,
    /// `sending`, or `failing` with the reason in `fault`.
    pub state: String,
    /// Messages that the broker has taken since the start of the node.
    pub sent: u64,
    /// The bytes of these messages.
    pub bytes: u64,
    /// Messages of these that went without facts, being too long.
    pub shortened: u64,
    /// Attempts that failed, and are made again.
    pub failures: u64,
    /// Records of the journal that are not sent yet, about.
    pub lag: u64,
    /// The number of times that the journal had let go of records before they were sent.
    pub gaps: u64,
    /// The id of the last record that was sent since the start of the node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<String>,
    /// The reason why nothing is sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<SinkFaultJson>,
}

/// The reason of a failure, and when it began.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = SinkFault)]
pub struct SinkFaultJson {
    /// The time.
    pub since: Timestamp,
    /// The reason.
    pub reason: String,
}
