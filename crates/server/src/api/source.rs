//! Sources that a server reads by itself.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::Timestamp;

/// The sources of a node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Sources)]
pub struct SourcesJson {
    /// The sources as they are configured, in that order.
    pub sources: Vec<SourceJson>,
}

/// A source.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Source)]
pub struct SourceJson {
    /// Its name.
    pub name: String,
    /// The kind: `files`, `journald` or `syslog`.
    pub kind: String,
    /// The pipeline that judges its events.
    pub pipeline: String,
    /// `reading`, or `failing` with the reason in `fault`.
    pub state: String,
    /// Lines that were read since the start of the node.
    pub lines: u64,
    /// Events of them that were decided.
    pub events: u64,
    /// Lines that no pattern of the pipeline reads.
    pub unread: u64,
    /// Lines that are no events.
    pub bad: u64,
    /// Lines that were sent by syslog and not taken: too many of one address, or no room.
    pub dropped: u64,
    /// Bytes of files that are not yet taken; of syslog, those that wait.
    pub lag: u64,
    /// Files that are open.
    pub files: u64,
    /// The arrival of the last line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_line: Option<Timestamp>,
    /// The reason why it cannot be read, or its lines cannot be decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<SourceFaultJson>,
    /// The last line that was no event: its name and why, not what it says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_bad: Option<SourceFaultJson>,
}

/// The reason of a failure, and when it began.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = SourceFault)]
pub struct SourceFaultJson {
    /// The time.
    pub since: Timestamp,
    /// The reason.
    pub reason: String,
}
