//! Notifications.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::Timestamp;

/// The places that are told what happens.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Notifications)]
pub struct NotificationsJson {
    /// The places by name.
    pub notifications: Vec<NotificationJson>,
}

/// A place that is told what happens.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Notification)]
pub struct NotificationJson {
    /// Its name.
    pub name: String,
    /// The form: `webhook`, `slack`, `matrix`, `abuseipdb` or `smtp`.
    #[serde(rename = "type")]
    pub form: String,
    /// The host that it is sent to. The rest of the URL may be a secret.
    pub host: String,
    /// The occasions beside effects of rules.
    pub on: Vec<String>,
    /// `well`, or `failing` with the reason in `fault`.
    pub state: String,
    /// Notifications that wait.
    pub waiting: u64,
    /// Notifications that were taken since the start of the node.
    pub sent: u64,
    /// Tries that failed and were made again.
    pub retried: u64,
    /// Notifications that were given up.
    pub failed: u64,
    /// Notifications for which there was no room.
    pub dropped: u64,
    /// The time at which the last was taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_sent: Option<Timestamp>,
    /// The reason why they are not taken now, and since when.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<NotificationFaultJson>,
}

/// The reason of a failure, and when it began.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = NotificationFault)]
pub struct NotificationFaultJson {
    /// The time.
    pub since: Timestamp,
    /// The reason.
    pub reason: String,
}

/// The outcome of a test.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = NotificationTest)]
pub struct NotificationTestJson {
    /// The name of the place.
    pub name: String,
    /// True if it was taken.
    pub is_sent: bool,
    /// The reason why it was not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}
