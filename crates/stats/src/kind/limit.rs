//! Additions that depend on what is there: what is taken from a limit, and given back.
//!
//! What such an addition does is a function of the reading that comes with it, so whoever asked derives it from the
//! answer by the same function that the ledger used. The ledger reads and adds under one lock of the key's shard: of two
//! takes at once one is first.

use event::{Span, Time};

use super::Measure;
pub use super::gcra::{GcraOperation, nanoseconds};
use super::windows::Layout;
use crate::layout::{LayoutError, Tier};

/// A take from a limit whose use is counted in the sub-windows of [`Measure::limit`].
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

/// Returns what a reading of [`Measure::limit`] says is used: its sum over the window, with the oldest sub-window in full.
/// Interpolated, only the share of the oldest that still lies in the window counts, rounded up.
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

impl Measure {
    /// Returns what a limit over a sliding window keeps of a key: how much was used in each of so many sub-windows, and how much
    /// of that was given back. Readings are over the window, and over all of its sub-windows but the oldest; where
    /// there is one sub-window only, over the window alone.
    ///
    /// # Errors
    /// If the window is too short or too long for so many sub-windows.
    pub fn limit(window: Span, sub_windows: u32) -> Result<Measure, LayoutError> {
        let parts = i64::from(sub_windows.max(1));
        let width = Span(window.0.div_euclid(parts) + i64::from(window.0.rem_euclid(parts) > 0));
        let tier = Tier { width, buckets: sub_windows.max(1) };
        let counters = vec!["used".to_owned(), format!("{}used", Layout::TAKEN_BACK)];
        let newer = Span(window.0.saturating_sub(width.0));
        let windows = if newer >= width { vec![window, newer] } else { vec![window] };
        Layout::new(counters, &[tier], windows, None).map(Measure::Windows)
    }

    /// The window of [`Measure::limit`], and the length of a sub-window.
    pub fn limit_windows(&self) -> Option<(Span, Span)> {
        match self {
            Measure::Windows(layout) if layout.is_limit() => {
                Some((*layout.windows().first()?, layout.shape().fine().width))
            }
            _ => None,
        }
    }
}
