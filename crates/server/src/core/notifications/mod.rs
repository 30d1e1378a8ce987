//! Notifications: what happens, told to the places that the configuration names.
//!
//! ```text
//! rules, bans, anomalies, conditions, reviews, corrections ─► notice ─► queue of each place (bounded) ─► body ─► sent, again, given up
//! ```
//!
//! Nothing that is decided waits for it. [`notification_work`](super::notification_work) fills and empties the queues.

mod body;
mod channel;
mod delivery;
mod notice;
mod queue;
mod text;

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use plan::{NotificationOccasion, NotificationPlan};
use prometheus_client::registry::Registry;

pub(crate) use self::channel::NotificationChannel;
use self::channel::NotificationMetrics;
pub(crate) use self::delivery::send;
pub(crate) use self::notice::Notice;

/// The places that are told, by name.
#[derive(Debug)]
pub(crate) struct NotificationSet {
    channels: Mutex<BTreeMap<Arc<str>, Arc<NotificationChannel>>>,
    metrics: NotificationMetrics,
}

impl NotificationSet {
    pub(crate) fn new(plans: &[NotificationPlan], registry: &mut Registry) -> NotificationSet {
        let set = NotificationSet { channels: Mutex::default(), metrics: NotificationMetrics::new(registry) };
        set.follow(plans);
        set
    }

    /// Follows a configuration. Answers the places that are new or have changed; what waited for these waits on.
    pub(crate) fn follow(&self, plans: &[NotificationPlan]) -> Vec<Arc<NotificationChannel>> {
        let mut channels = self.channels.lock();
        channels.retain(|name, channel| {
            let is_there = plans.iter().any(|plan| plan.name == *name);
            if !is_there {
                channel.end();
            }
            is_there
        });
        let mut begun = Vec::new();
        for plan in plans {
            let before = channels.get(&plan.name);
            if before.is_some_and(|channel| channel.plan == *plan) {
                continue;
            }
            let channel =
                Arc::new(NotificationChannel::new(plan.clone(), &self.metrics, before.map(|old| &**old)));
            channels.insert(Arc::clone(&plan.name), Arc::clone(&channel));
            begun.push(channel);
        }
        begun
    }

    /// The places.
    pub(crate) fn channels(&self) -> Vec<Arc<NotificationChannel>> {
        self.channels.lock().values().cloned().collect()
    }

    /// The place of this name.
    pub(crate) fn channel(&self, name: &str) -> Option<Arc<NotificationChannel>> {
        self.channels.lock().get(name).cloned()
    }

    /// Returns true if some place is told of an occasion.
    pub(crate) fn wants(&self, occasion: NotificationOccasion) -> bool {
        self.channels.lock().values().any(|channel| channel.plan.on.contains(&occasion))
    }

    /// Puts a notice into the queues of those that are told of it.
    pub(crate) fn publish(&self, notice: &Notice) {
        for channel in self.channels() {
            if channel.plan.takes(notice.occasion, notice.pipeline.as_deref()) {
                channel.put(notice.clone());
            }
        }
    }

    /// Returns what is wrong with places.
    pub(crate) fn fault(&self) -> Option<String> {
        let faults = self.channels().into_iter().filter_map(|channel| {
            channel.fault().map(|(_, why)| format!("notification `{}`: {why}", channel.plan.name))
        });
        let faults: Vec<String> = faults.take(3).collect();
        (!faults.is_empty()).then(|| faults.join("; "))
    }
}
