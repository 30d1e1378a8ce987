//! The part of the ban list that nodes share: what others have not heard of, and what was lifted before its end.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use event::Time;

use super::entry::{Ban, LabelSource, is_same_label};

/// Most lifted labels that are remembered until they would have ended. Beyond it the one that ends first is forgotten.
pub(super) const LIFTED_MAX: usize = 100_000;

/// Keys that are told, written or let go of before others get a turn.
pub(super) const PAGE: usize = 1000;

/// A label that was lifted before its end.
#[derive(Debug)]
pub(super) struct LiftedBan {
    pub(super) ban: Ban,
    pub(super) is_unshared: bool,
    /// True until it is put on the key again: rules do not see it until its end.
    pub(super) hides: bool,
}

/// The part of the table that nodes share.
#[derive(Debug, Default)]
pub(super) struct BanSharing {
    /// The numbers of the bans that other nodes have not heard of.
    pub(super) unshared: BTreeSet<u64>,
    /// The lifted labels by value, and their ends.
    pub(super) lifted: HashMap<Arc<str>, Vec<LiftedBan>>,
    pub(super) ends: BTreeSet<(Time, Arc<str>)>,
    /// The values of lifts that other nodes have not heard of.
    pub(super) unshared_lifts: BTreeSet<Arc<str>>,
}

impl BanSharing {
    /// Notes that a label was lifted.
    pub(super) fn lift(&mut self, ban: Ban, is_unshared: bool) {
        let value = Arc::clone(&ban.value);
        self.unlift(&ban.source, &value, true);
        self.ends.insert((ban.until, Arc::clone(&value)));
        if is_unshared {
            self.unshared_lifts.insert(Arc::clone(&value));
        }
        self.lifted.entry(value).or_default().push(LiftedBan { ban, is_unshared, hides: true });
        if self.ends.len() > LIFTED_MAX
            && let Some((end, value)) = self.ends.first().cloned()
        {
            self.forget(end, &value);
        }
    }

    /// Notes that a label is put on a key again. A lift that others have not heard of is still to be told, before that.
    pub(super) fn unlift(&mut self, source: &LabelSource, value: &Arc<str>, with_unshared: bool) {
        let Some(lifted) = self.lifted.get_mut(value) else { return };
        let is_it = |lifted: &LiftedBan| is_same_label(&lifted.ban.source, source);
        lifted.iter_mut().filter(|lifted| is_it(lifted)).for_each(|lifted| lifted.hides = false);
        lifted.retain(|lifted| !is_it(lifted) || (lifted.is_unshared && !with_unshared));
        self.tidy(value);
    }

    /// Keeps what is known of a value's lifts in step with what is left of them.
    pub(super) fn tidy(&mut self, value: &Arc<str>) {
        let left = self.lifted.get(value).map(Vec::as_slice).unwrap_or_default();
        if !left.iter().any(|lifted| lifted.is_unshared) {
            self.unshared_lifts.remove(value);
        }
        if left.is_empty() {
            self.lifted.remove(value);
        }
    }

    /// Forgets the lifts of a value that end by a time.
    pub(super) fn forget(&mut self, end: Time, value: &Arc<str>) {
        self.ends.remove(&(end, Arc::clone(value)));
        if let Some(lifted) = self.lifted.get_mut(value) {
            lifted.retain(|lifted| lifted.ban.until > end);
        }
        self.tidy(value);
    }

    /// Forgets all lifts of a value.
    pub(super) fn forget_value(&mut self, value: &Arc<str>) {
        self.lifted.remove(value);
        self.tidy(value);
    }

    pub(super) fn is_unshared_lift(&self, source: &LabelSource, value: &str, now: Time) -> bool {
        let lifted = self.lifted.get(value).into_iter().flatten();
        let mut lifted = lifted.filter(|lifted| lifted.is_unshared && lifted.ban.until > now);
        lifted.any(|lifted| is_same_label(&lifted.ban.source, source))
    }

    /// Notes that others have heard of a lift; returns false if there is none that is still to be told.
    pub(super) fn acknowledge_lift(&mut self, ban: &Ban) -> bool {
        let Some(lifted) = self.lifted.get_mut(&ban.value) else { return false };
        let sent = lifted.iter_mut().find(|lifted| {
            lifted.is_unshared && lifted.ban.id == ban.id && is_same_label(&lifted.ban.source, &ban.source)
        });
        let Some(sent) = sent else { return false };
        sent.is_unshared = false;
        lifted.retain(|lifted| lifted.is_unshared || lifted.hides);
        self.tidy(&ban.value);
        true
    }

    /// Lets go of some of what would have ended by now.
    pub(super) fn expire(&mut self, now: Time) {
        for _ in 0..PAGE {
            match self.ends.first().cloned() {
                Some((end, value)) if end <= now => self.forget(end, &value),
                _ => return,
            }
        }
    }
}
