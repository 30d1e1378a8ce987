//! The queue of a place: what waits, and when it is due. Knows no clock.

use std::collections::VecDeque;

use event::Time;
use plan::{NotificationForm, NotificationOccasion, NotificationPlan};

use super::notice::Notice;

/// Most notices that wait.
pub(super) const WAITING_MAX: usize = 1000;
/// Most notices that are sent as one.
const TOGETHER_MAX: usize = 1000;

/// The notices that wait for a place.
#[derive(Debug, Default)]
pub(super) struct NotificationQueue {
    waiting: VecDeque<(Time, Notice)>,
    /// True once quiet hours have kept something back: the rest is sent as one.
    is_kept_back: bool,
}

impl NotificationQueue {
    /// Puts a notice at the end; false if there is no room.
    pub(super) fn put(&mut self, notice: Notice, now: Time) -> bool {
        let has_room = self.waiting.len() < WAITING_MAX;
        if has_room {
            self.waiting.push_back((now, notice));
        }
        has_room
    }

    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Takes what is due: one notice, or those that were gathered.
    pub(super) fn take(&mut self, plan: &NotificationPlan, now: Time) -> Vec<Notice> {
        let is_urgent = |notice: &Notice| {
            notice.occasion == NotificationOccasion::Test || plan.urgent.contains(&notice.occasion)
        };
        if let Some(at) = self.waiting.iter().position(|(_, notice)| is_urgent(notice)) {
            return self.waiting.remove(at).map(|(_, notice)| notice).into_iter().collect();
        }
        let Some((first, _)) = self.waiting.front() else { return Vec::new() };
        if plan.quiet.as_ref().is_some_and(|quiet| quiet.contains(now)) {
            self.is_kept_back = true;
            return Vec::new();
        }
        let is_gathered = match plan.digest {
            // A clock that was set back must not keep anything for longer.
            Some(digest) if now >= *first && now - *first < digest => return Vec::new(),
            Some(_) => true,
            None => self.is_kept_back,
        };
        // A report is about one address.
        let is_one = matches!(plan.form, NotificationForm::AbuseIpDb { .. });
        let most = if is_gathered && !is_one { TOGETHER_MAX } else { 1 };
        let taken = self.waiting.drain(..most.min(self.waiting.len())).map(|(_, notice)| notice).collect();
        self.is_kept_back &= !self.waiting.is_empty();
        taken
    }
}

#[cfg(test)]
pub(super) mod tests {
    use event::{Span, Time};
    use plan::{Config, Overrides, Plan};

    use super::*;

    /// The plan of a place with these settings.
    pub(in crate::core::notifications) fn place(settings: &str) -> NotificationPlan {
        let text = format!("preset = \"web\"\n[[notification]]\nname = \"ops\"\n{settings}");
        let config = Config::from_text("t.toml", &text, &Overrides::default());
        Plan::compile(&config).unwrap_or_else(|problems| panic!("{problems}")).notifications.remove(0)
    }

    fn notice(occasion: NotificationOccasion, key: &str) -> Notice {
        Notice::new(occasion, Time(0), key.to_owned(), key)
    }

    #[test]
    fn what_is_due_is_taken() {
        use NotificationOccasion::{Ban, Condition};
        // Hours of the day, what is put, and what is taken.
        type Step<'s> = (f64, &'s [(NotificationOccasion, &'s str)], &'s [&'s str]);
        let check = |settings: &str, steps: &[Step<'_>]| {
            let plan = place(&format!("url = 'http://127.0.0.1:1'\n{settings}"));
            let mut queue = NotificationQueue::default();
            for (hours, put, taken) in steps {
                let now = Time::from_seconds(1_779_012_000 - 10 * 3600) + Span((hours * 3.6e9) as i64);
                put.iter().for_each(|(occasion, key)| assert!(queue.put(notice(*occasion, key), now)));
                let found: Vec<String> =
                    queue.take(&plan, now).into_iter().map(|notice| notice.key).collect();
                assert_eq!(found, *taken, "{settings} {hours}");
            }
        };
        check("", &[(1.0, &[(Ban, "a"), (Ban, "b")], &["a"]), (1.0, &[], &["b"]), (1.0, &[], &[])]);
        check("", &[(1.0, &[(Ban, "a"), (Condition, "b")], &["b"]), (1.0, &[], &["a"])]);
        check(
            "digest = '1h'",
            &[
                (1.0, &[(Ban, "a")], &[]),
                (1.5, &[(Ban, "b"), (Condition, "c")], &["c"]),
                (1.9, &[], &[]),
                (2.0, &[(Ban, "d")], &["a", "b", "d"]),
                (2.5, &[(Ban, "e")], &[]),
                (2.0, &[], &["e"]),
            ],
        );
        check(
            "quiet = '22:00-07:00'",
            &[
                (21.9, &[(Ban, "a")], &["a"]),
                (22.0, &[(Ban, "b"), (Condition, "c")], &["c"]),
                (30.9, &[(Ban, "d")], &[]),
                (31.0, &[(Ban, "e")], &["b", "d", "e"]),
                (31.0, &[(Ban, "f"), (Ban, "g")], &["f"]),
            ],
        );
        let abuse = "type = 'abuseipdb'\nsecret = '0123456789abcdef'\ncategories = [18]\ndigest = '1h'";
        check(abuse, &[(1.0, &[(Ban, "a"), (Ban, "b")], &[]), (2.0, &[], &["a"]), (2.0, &[], &["b"])]);
    }

    #[test]
    fn a_full_queue_takes_no_more() {
        let mut queue = NotificationQueue::default();
        for _ in 0..WAITING_MAX {
            assert!(queue.put(notice(NotificationOccasion::Ban, "a"), Time(0)));
        }
        assert!(!queue.put(notice(NotificationOccasion::Ban, "a"), Time(0)));
        assert_eq!(queue.len(), WAITING_MAX);
    }
}
