//! Takes from limits over sliding windows, and what a reading of such a limit says is used.

use event::{Span, Time};

/// A take from a limit whose use is counted in the sub-windows of [`Measure::limit`](super::Measure::limit).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowTake {
    /// The cost. Nothing is a look.
    pub cost: u64,
    /// Most that may be used.
    pub limit: u64,
    /// True if what the limit refuses counts as used, too.
    pub counts_all: bool,
    /// True if the oldest sub-window counts by the share of it that still lies in the window, and not in full.
    pub interpolated: bool,
}

impl WindowTake {
    /// Returns whether it is within the limit, where so much is used.
    #[inline]
    pub fn is_within(&self, used: u64) -> bool {
        used.saturating_add(self.cost) <= self.limit
    }

    /// Returns what a key has used afterwards.
    #[inline]
    pub fn after(&self, used: u64) -> u64 {
        if self.counts_all || self.is_within(used) { used.saturating_add(self.cost) } else { used }
    }
}

/// Returns what a reading of [`Measure::limit`](super::Measure::limit) says is used: its sum over the window, with the oldest
/// sub-window in full. Interpolated, only the share of the oldest that still lies in the window counts, rounded up.
///
/// `whole` is the sum over the window, `newer` that over all sub-windows but the oldest, `now` what they are as of, and
/// `width` the length of a sub-window.
#[inline]
pub fn interpolated(whole: u64, newer: u64, now: Time, window: Span, width: Span) -> u64 {
    let oldest = whole.saturating_sub(newer);
    let width = width.0.max(1);
    let gone = (now - window).0.rem_euclid(width);
    // Both are less than 2^63.
    let share = (u128::from(oldest) * (width - gone) as u128).div_ceil(width as u128);
    newer.saturating_add(u64::try_from(share).unwrap_or(u64::MAX))
}
