//! Lookups about messages, between their content and their keys. A build without the feature `mail-auth` has none: its
//! configuration names no resolvers.

use engine::UnkeyedEvent;
use plan::NodePlan;
use prometheus_client::registry::Registry;

use crate::core::reading_pool::ReadingPool;

/// The lookups that the configuration asks for, if any.
pub(crate) struct MessageLookups {
    #[cfg(feature = "mail-auth")]
    checks: Option<auth::MessageChecks>,
}

#[cfg(feature = "mail-auth")]
impl MessageLookups {
    pub(crate) fn new(plan: &NodePlan, registry: &mut Registry) -> MessageLookups {
        let metrics = auth::DnsMetrics::default();
        metrics.register(registry);
        MessageLookups { checks: auth::MessageChecks::new(plan, &metrics) }
    }

    /// Returns whether anything is ever looked up.
    pub(crate) fn is_asking(&self) -> bool {
        self.checks.is_some()
    }

    /// Adds what can be learnt of a message in time. What is not looked up in time is not known; the message is judged
    /// without it.
    pub(crate) async fn add(&self, read: &mut UnkeyedEvent, raw: &[u8], reading: &ReadingPool) {
        if let Some(checks) = &self.checks {
            checks.add(read, raw, async { reading.enter(raw.len()).await.ok() }).await;
        }
    }
}

#[cfg(feature = "mail-auth")]
impl MessageLookups {
    /// Asks name service for the names of a client that claims to be a robot which is known by them.
    pub(crate) async fn name_robot(&self, read: &mut UnkeyedEvent) {
        if let (Some(checks), Some(client)) = (&self.checks, read.robot_question()) {
            let names = checks.confirmed_names(client).await;
            read.answer_robot_question(names.as_deref());
        }
    }
}

#[cfg(not(feature = "mail-auth"))]
impl MessageLookups {
    pub(crate) fn new(_: &NodePlan, _: &mut Registry) -> MessageLookups {
        MessageLookups {}
    }

    pub(crate) fn is_asking(&self) -> bool {
        false
    }

    pub(crate) async fn add(&self, _: &mut UnkeyedEvent, _: &[u8], _: &ReadingPool) {}

    pub(crate) async fn name_robot(&self, _: &mut UnkeyedEvent) {}
}
