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

    /// Adds what can be learnt of a message in time. What is not looked up in time is not known; the message is judged
    /// without it.
    pub(crate) async fn add(&self, read: &mut UnkeyedEvent, raw: &[u8], reading: &ReadingPool) {
        if let Some(checks) = &self.checks {
            checks.add(read, raw, async { reading.enter(raw.len()).await.ok() }).await;
        }
    }
}

#[cfg(not(feature = "mail-auth"))]
impl MessageLookups {
    pub(crate) fn new(_: &NodePlan, _: &mut Registry) -> MessageLookups {
        MessageLookups {}
    }

    pub(crate) async fn add(&self, _: &mut UnkeyedEvent, _: &[u8], _: &ReadingPool) {}
}
