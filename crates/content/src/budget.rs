//! Work that is charged to the message that causes it.
//!
//! Bounds on what comes out of a reader do not bound what it does: packed blocks that yield nothing, links that are
//! all the same, characters that expand. So every reader draws on one [`Budget`], by what it goes over and by how
//! much that costs, and ends when nothing is left. What was read until then is judged, and is said to be cut short.
//!
//! Work is counted in steps, and a step is about a nanosecond of a core of 2020: what a byte costs in a
//! reader stands beside that reader as a constant that was measured. The count is the same on every machine, and for
//! the same message always the same.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Steps that any message may spend, however short it is: twenty milliseconds. One of a megabyte has fifty.
pub const STEPS_MIN: u64 = 20_000_000;
/// Steps that each byte of a message adds to that.
pub const STEPS_A_BYTE: u64 = 30;

/// A word to a reading in progress that nobody waits for it any more. Clones are the same word; the default is
/// never said.
#[derive(Clone, Debug, Default)]
pub struct Cancellation(Option<Arc<AtomicBool>>);

impl Cancellation {
    /// Returns one that can be said.
    pub fn new() -> Cancellation {
        Cancellation(Some(Arc::new(AtomicBool::new(false))))
    }

    /// Ends all reading that is done under it, within a few milliseconds. The default one ends nothing.
    pub fn cancel(&self) {
        if let Some(flag) = &self.0 {
            flag.store(true, Ordering::Relaxed);
        }
    }

    /// Returns whether it was said.
    pub fn is_cancelled(&self) -> bool {
        self.0.as_ref().is_some_and(|flag| flag.load(Ordering::Relaxed))
    }
}

/// A budget of work that the reading of one message draws on.
#[derive(Debug)]
pub struct Budget {
    left: Cell<u64>,
    spent: Cell<u64>,
    is_short: Cell<bool>,
    cancellation: Cancellation,
}

impl Budget {
    /// Returns the budget of a message of so many bytes.
    pub fn of_message(bytes: usize, cancellation: &Cancellation) -> Budget {
        let steps = STEPS_MIN.saturating_add(STEPS_A_BYTE.saturating_mul(bytes as u64));
        Budget::of_steps(steps, cancellation)
    }

    /// Returns a budget of so many steps.
    pub fn of_steps(steps: u64, cancellation: &Cancellation) -> Budget {
        Budget {
            left: Cell::new(steps),
            spent: Cell::new(0),
            is_short: Cell::new(false),
            cancellation: cancellation.clone(),
        }
    }

    /// Returns one that is enough for any test.
    #[cfg(test)]
    pub(crate) fn ample() -> Budget {
        Budget::of_steps(u64::MAX / 2, &Cancellation::default())
    }

    /// Spends steps. False if there were not as many left, or the reading was cancelled: then nothing is left, and
    /// the reader ends.
    #[must_use]
    pub fn spend(&self, steps: u64) -> bool {
        self.take(steps) == steps && !self.is_empty()
    }

    /// Returns whether so many steps are left, and spends none: for readers that do a thing whole or not at all, and are not cut
    /// short by what they leave.
    #[must_use]
    pub fn has(&self, steps: u64) -> bool {
        !self.cancellation.is_cancelled() && self.left.get() >= steps
    }

    /// Spends what reading so many bytes costs, or as many of them as can be paid; returns how many those are.
    #[must_use]
    pub fn afford(&self, bytes: usize, steps_a_byte: u64) -> usize {
        let wanted = (bytes as u64).saturating_mul(steps_a_byte);
        let paid = self.take(wanted);
        if paid == wanted { bytes } else { usize::try_from(paid / steps_a_byte.max(1)).unwrap_or(bytes) }
    }

    /// Adds steps, for bytes that a reader has brought forth and that pay for themselves. One that is empty stays so.
    pub fn grant(&self, steps: u64) {
        if !self.is_empty() {
            self.left.set(self.left.get().saturating_add(steps));
        }
    }

    /// Cuts a text to what can be paid for, and spends that.
    pub fn cut<'t>(&self, text: &'t str, steps_a_byte: u64) -> &'t str {
        crate::text::truncate(text, self.afford(text.len(), steps_a_byte))
    }

    /// Cuts bytes to what can be paid for, and spends that.
    pub fn cut_bytes<'b>(&self, bytes: &'b [u8], steps_a_byte: u64) -> &'b [u8] {
        &bytes[..self.afford(bytes.len(), steps_a_byte)]
    }

    /// Takes a share off, one in so many of the steps left, for a reader that must not use up what those behind it need.
    /// What it leaves comes back by [`Budget::rejoin`].
    #[must_use]
    pub fn share(&self, one_in: u64) -> Budget {
        let steps = self.left.get() / one_in.max(1);
        self.left.set(self.left.get() - steps);
        Budget::of_steps(steps, &self.cancellation)
    }

    /// Takes all off but so many steps, and half where that is more, for a reader that comes before one whose cost is known.
    #[must_use]
    pub fn share_but(&self, kept: u64) -> Budget {
        let kept = kept.min(self.left.get() / 2);
        let steps = self.left.replace(kept) - kept;
        Budget::of_steps(steps, &self.cancellation)
    }

    /// Takes back what a share has left.
    pub fn rejoin(&self, share: &Budget) {
        self.left.set(self.left.get().saturating_add(share.left.take()));
        self.spent.set(self.spent.get().saturating_add(share.spent.get()));
        self.is_short.set(self.is_short.get() | share.is_short.get());
    }

    /// Returns whether a reader ended before what it read did.
    pub fn is_short(&self) -> bool {
        self.is_short.get()
    }

    /// Returns the steps spent so far.
    pub fn spent(&self) -> u64 {
        self.spent.get()
    }

    fn is_empty(&self) -> bool {
        self.is_short.get() && self.left.get() == 0
    }

    /// Takes as many steps as there are of those wanted, and empties the budget where these are too few.
    fn take(&self, wanted: u64) -> u64 {
        if self.cancellation.is_cancelled() {
            self.left.set(0);
            self.is_short.set(true);
            return 0;
        }
        let left = self.left.get();
        let paid = wanted.min(left);
        self.left.set(left - paid);
        self.spent.set(self.spent.get().saturating_add(paid));
        if paid < wanted {
            self.is_short.set(true);
        }
        paid
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_spent_is_gone() {
        let budget = Budget::of_steps(100, &Cancellation::default());
        assert!(budget.spend(30) && !budget.is_short());
        assert!(budget.has(70) && !budget.has(71) && !budget.is_short());
        assert_eq!(budget.afford(10, 5), 10);
        assert_eq!((budget.afford(10, 5), budget.is_short(), budget.spent()), (4, true, 100));
        assert!(!budget.spend(1));
        budget.grant(10);
        assert!(!budget.spend(1), "whose reader has ended, begins no more");
        let budget = Budget::of_steps(1, &Cancellation::default());
        budget.grant(10);
        assert!(budget.spend(11));
    }

    #[test]
    fn a_share_leaves_the_rest_to_others() {
        let budget = Budget::of_steps(100, &Cancellation::default());
        let share = budget.share(4);
        assert_eq!(share.afford(100, 1), 25);
        assert!(budget.spend(10) && !budget.is_short());
        budget.rejoin(&share);
        assert_eq!((budget.spent(), budget.is_short()), (35, true));
        assert_eq!(budget.cut("\u{e9}\u{e9}", 30), "\u{e9}");
        for (kept, left) in [(10, 10), (80, 50)] {
            let budget = Budget::of_steps(100, &Cancellation::default());
            let share = budget.share_but(kept);
            assert!(
                share.has(100 - left) && !share.has(101 - left) && budget.has(left) && !budget.has(left + 1)
            );
        }
    }

    #[test]
    fn a_cancelled_reading_ends() {
        let cancellation = Cancellation::new();
        let budget = Budget::of_message(1_000, &cancellation);
        assert!(budget.spend(10));
        cancellation.clone().cancel();
        assert!(!budget.has(0) && !budget.spend(0) && budget.is_short());
        assert_eq!(budget.cut_bytes(b"abc", 1), b"");
    }
}
