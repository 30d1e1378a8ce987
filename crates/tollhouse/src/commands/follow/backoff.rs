//! A broker that does not answer is asked again, at growing intervals. Users hear of the first failure and of the end.

use std::fmt::Display;
use std::time::{Duration, Instant};

use super::AGAIN;

/// Longest time before a broker that does not answer is asked again.
const AGAIN_MAX: Duration = Duration::from_secs(30);

/// A broker that did not answer.
struct PendingRetry {
    /// The time at which it is asked again, and the wait before that.
    until: Instant,
    wait: Duration,
    /// The reason that users know of.
    why: String,
}

/// Intervals at which one broker is asked again.
pub(super) struct Backoff {
    /// The broker, as users call it.
    broker: &'static str,
    pending: Option<PendingRetry>,
}

impl Backoff {
    pub(super) fn new(broker: &'static str) -> Backoff {
        Backoff { broker, pending: None }
    }

    /// Returns true if the broker may be asked now.
    pub(super) fn is_due(&self) -> bool {
        self.pending.as_ref().is_none_or(|pending| Instant::now() >= pending.until)
    }

    /// Waits longer than the last time. Returns what is to be said of it: the reason, if it is another one.
    pub(super) fn failed(&mut self, why: impl Display) -> Option<String> {
        let (why, broker) = (why.to_string(), self.broker);
        let (wait, note) = match &self.pending {
            Some(last) if last.why == why => ((last.wait * 2).min(AGAIN_MAX), None),
            Some(last) => ((last.wait * 2).min(AGAIN_MAX), Some(format!("{broker}: {why}"))),
            None => (AGAIN, Some(format!("{broker}: {why}; it is asked again until it answers"))),
        };
        self.pending = Some(PendingRetry { until: Instant::now() + wait, wait, why });
        note
    }

    /// Begins anew with short waits. Returns what is to be said of it.
    pub(super) fn answered(&mut self) -> Option<String> {
        self.pending.take().map(|_| format!("{} answers again", self.broker))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_to_a_bound_and_are_told_once() {
        let mut backoff = Backoff::new("Kafka");
        assert!(backoff.is_due());
        assert_eq!(backoff.answered(), None);
        let note = backoff.failed("no route");
        assert_eq!(note.as_deref(), Some("Kafka: no route; it is asked again until it answers"));
        assert!(!backoff.is_due());
        let mut waits = Vec::new();
        for _ in 0..7 {
            waits.extend(backoff.pending.as_ref().map(|pending| pending.wait.as_secs()));
            assert_eq!(backoff.failed("no route"), None);
        }
        assert_eq!(backoff.failed("no host").as_deref(), Some("Kafka: no host"));
        assert_eq!(waits, [1, 2, 4, 8, 16, 30, 30]);
        assert_eq!(backoff.answered().as_deref(), Some("Kafka answers again"));
        assert!(backoff.is_due());
        assert!(backoff.failed("no route").is_some());
    }
}
