//! A place that is told, as it is now: what waits, what was sent, and what is wrong.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use event::Time;
use parking_lot::Mutex;
use plan::NotificationPlan;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use tokio::time::Instant;

use super::notice::Notice;
use super::queue::NotificationQueue;

const MINUTE: Duration = Duration::from_secs(60);

/// A place.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct NotificationLabel {
    notification: String,
}

/// The counters of all places.
#[derive(Debug, Default)]
pub(super) struct NotificationMetrics {
    sent: Family<NotificationLabel, Counter>,
    retried: Family<NotificationLabel, Counter>,
    failed: Family<NotificationLabel, Counter>,
    dropped: Family<NotificationLabel, Counter>,
    waiting: Family<NotificationLabel, Gauge>,
}

impl NotificationMetrics {
    pub(super) fn new(registry: &mut Registry) -> NotificationMetrics {
        let of = NotificationMetrics::default();
        registry.register(
            "tollhouse_notifications_sent",
            "Notifications that their receiver accepted",
            of.sent.clone(),
        );
        registry.register(
            "tollhouse_notifications_retried",
            "Failed attempts to send notifications, which are retried",
            of.retried.clone(),
        );
        registry.register(
            "tollhouse_notifications_failed",
            "Notifications given up because they could not be sent",
            of.failed.clone(),
        );
        registry.register(
            "tollhouse_notifications_dropped",
            "Notifications dropped because their queue was full",
            of.dropped.clone(),
        );
        registry.register("tollhouse_notifications_waiting", "Notifications that wait", of.waiting.clone());
        of
    }
}

/// A place as it is now.
#[derive(Debug)]
pub(crate) struct NotificationChannel {
    pub(crate) plan: NotificationPlan,
    pub(crate) sent: Counter,
    pub(crate) retried: Counter,
    pub(crate) failed: Counter,
    pub(crate) dropped: Counter,
    waiting: Gauge,
    queue: Mutex<NotificationQueue>,
    last_sent: Mutex<Option<Time>>,
    fault: Mutex<Option<(Time, String)>>,
    /// The times of the requests of the last minute.
    requests: Mutex<VecDeque<Instant>>,
    is_ended: AtomicBool,
    /// True while a person's test is sent.
    pub(crate) is_tested: AtomicBool,
}

impl NotificationChannel {
    /// Makes a place, with what waits for the one that was there before.
    pub(super) fn new(
        plan: NotificationPlan,
        metrics: &NotificationMetrics,
        before: Option<&NotificationChannel>,
    ) -> NotificationChannel {
        let label = NotificationLabel { notification: plan.name.to_string() };
        let queue = before.map(|before| {
            before.end();
            std::mem::take(&mut *before.queue.lock())
        });
        NotificationChannel {
            sent: metrics.sent.get_or_create_owned(&label),
            retried: metrics.retried.get_or_create_owned(&label),
            failed: metrics.failed.get_or_create_owned(&label),
            dropped: metrics.dropped.get_or_create_owned(&label),
            waiting: metrics.waiting.get_or_create_owned(&label),
            queue: Mutex::new(queue.unwrap_or_default()),
            last_sent: Mutex::default(),
            fault: Mutex::default(),
            requests: Mutex::default(),
            is_ended: AtomicBool::new(false),
            is_tested: AtomicBool::new(false),
            plan,
        }
    }

    /// Ends the work for it.
    pub(super) fn end(&self) {
        self.is_ended.store(true, Ordering::Relaxed);
    }

    /// Returns true once it is not in the configuration any more, or another took its place.
    pub(crate) fn is_ended(&self) -> bool {
        self.is_ended.load(Ordering::Relaxed)
    }

    /// Puts a notice into its queue, or counts it as dropped.
    pub(crate) fn put(&self, notice: Notice) {
        let now = notice.at;
        let mut queue = self.queue.lock();
        if !queue.put(notice, now) {
            drop(queue);
            self.drop_notices(1);
            return;
        }
        self.show(queue.len());
    }

    /// Counts notices that found no room. The log has the first.
    pub(crate) fn drop_notices(&self, count: u64) {
        if count > 0 && self.dropped.inc_by(count) == 0 {
            tracing::warn!(notification = &*self.plan.name, "its queue is full: notifications are dropped");
        }
    }

    /// Takes what is due.
    pub(crate) fn take(&self, now: Time) -> Vec<Notice> {
        let mut queue = self.queue.lock();
        let taken = queue.take(&self.plan, now);
        self.show(queue.len());
        taken
    }

    fn show(&self, waiting: usize) {
        self.waiting.set(i64::try_from(waiting).unwrap_or(i64::MAX));
    }

    /// The number of notices that wait.
    pub(crate) fn waiting(&self) -> usize {
        self.queue.lock().len()
    }

    /// The time of the last that was taken.
    pub(crate) fn last_sent(&self) -> Option<Time> {
        *self.last_sent.lock()
    }

    /// Returns what is wrong now, and since when.
    pub(crate) fn fault(&self) -> Option<(Time, String)> {
        self.fault.lock().clone()
    }

    /// Notes that a message was taken.
    pub(crate) fn succeed(&self, now: Time, notices: usize) {
        self.sent.inc_by(notices as u64);
        *self.last_sent.lock() = Some(now);
        if self.fault.lock().take().is_some() {
            tracing::info!(notification = &*self.plan.name, "it takes notifications again");
        }
    }

    /// Notes that a message was not taken. One reason is logged once.
    pub(crate) fn fail(&self, now: Time, why: String) {
        let mut fault = self.fault.lock();
        if fault.as_ref().is_some_and(|(_, known)| *known == why) {
            return;
        }
        let since = fault.as_ref().map_or(now, |(since, _)| *since);
        *fault = Some((since, why.clone()));
        drop(fault);
        tracing::warn!(notification = &*self.plan.name, why, "a notification is not taken");
    }

    /// Takes the right to one more request, or answers when there is one.
    pub(crate) fn admit(&self, now: Instant) -> Result<(), Instant> {
        let mut requests = self.requests.lock();
        while requests.front().is_some_and(|first| now.duration_since(*first) >= MINUTE) {
            requests.pop_front();
        }
        match requests.front() {
            Some(first) if requests.len() >= self.plan.rate_max as usize => Err(*first + MINUTE),
            _ => {
                requests.push_back(now);
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use plan::NotificationOccasion;

    use super::super::queue::WAITING_MAX;
    use super::super::queue::tests::place;
    use super::*;

    fn channel(settings: &str) -> NotificationChannel {
        let plan = place(&format!("url = 'http://127.0.0.1:1'\n{settings}"));
        NotificationChannel::new(plan, &NotificationMetrics::default(), None)
    }

    #[test]
    fn a_minute_has_so_many_requests() {
        let channel = channel("rate_max = 2");
        let begun = Instant::now();
        let at = |seconds| begun + Duration::from_secs(seconds);
        assert_eq!(channel.admit(at(0)), Ok(()));
        assert_eq!(channel.admit(at(10)), Ok(()));
        assert_eq!(channel.admit(at(20)), Err(at(60)));
        assert_eq!(channel.admit(at(60)), Ok(()));
        assert_eq!(channel.admit(at(61)), Err(at(70)));
    }

    #[test]
    fn what_finds_no_room_is_counted_and_the_rest_goes_on_to_the_next() {
        let channel = channel("");
        let notice = Notice::new(NotificationOccasion::Ban, Time(0), "a".to_owned(), "a");
        for _ in 0..WAITING_MAX + 5 {
            channel.put(notice.clone());
        }
        assert_eq!((channel.waiting(), channel.dropped.get()), (WAITING_MAX, 5));
        let next =
            NotificationChannel::new(channel.plan.clone(), &NotificationMetrics::default(), Some(&channel));
        assert!(channel.is_ended());
        assert_eq!((channel.waiting(), next.waiting()), (0, WAITING_MAX));
    }
}
