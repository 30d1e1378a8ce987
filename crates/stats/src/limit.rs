//! Additions that depend on what is there: what is taken from a limit, and given back.
//!
//! What such an addition does is a function of the reading that comes with it, so whoever asked derives it from the
//! answer by the same function that the ledger used. The ledger reads and adds under one lock of the key's shard: of two
//! takes at once one is first.

use event::{Span, Time};

use crate::catalog::Measure;
use crate::layout::{Layout, LayoutError, Tier};

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

    /// Returns whether takes are taken from it.
    pub fn is_limit(&self) -> bool {
        *self == Measure::Gcra || self.limit_windows().is_some()
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

/// A change of the bucket of a [`Measure::Gcra`]. Lengths of time are in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GcraOperation {
    /// Takes: the moment moves by `cost`, if it is then at most `burst` ahead of now.
    Take {
        /// The distance that it moves: the interval between two cells at the limit's rate, times how many are taken.
        cost: i64,
        /// The distance that it may be ahead: the interval times how many may come at once.
        burst: i64,
        /// True if a refused take counts: it fills the bucket. The key then has to wait one interval from now.
        counts_all: bool,
    },
    /// Gives back: the moment moves back so far, but not behind now.
    Back {
        /// The distance.
        cost: i64,
    },
    /// Puts the moment so far ahead of now. Zero is an empty bucket, that is one from which nothing was taken.
    Set {
        /// The distance.
        ahead: i64,
    },
    /// Moves the moment, wherever it then is.
    Add {
        /// The distance.
        cost: i64,
    },
}

/// A time in nanoseconds.
#[inline]
pub fn nanoseconds(time: Time) -> i64 {
    time.0.saturating_mul(1000)
}

impl GcraOperation {
    /// The moment afterwards; `None` if nothing changes.
    #[inline]
    pub fn after(&self, moment: Option<i64>, now: Time) -> Option<i64> {
        let now = nanoseconds(now);
        let base = moment.unwrap_or(now).max(now);
        match *self {
            GcraOperation::Take { cost, burst, counts_all } => {
                if cost <= 0 {
                    None
                } else if base.saturating_add(cost) <= now.saturating_add(burst) {
                    Some(base.saturating_add(cost))
                } else {
                    counts_all.then(|| now.saturating_add(burst).max(base))
                }
            }
            GcraOperation::Back { cost } => (base > now).then(|| base.saturating_sub(cost.max(0)).max(now)),
            GcraOperation::Set { ahead } => {
                (ahead > 0 || moment.is_some()).then(|| now.saturating_add(ahead.max(0)))
            }
            GcraOperation::Add { cost } => (cost > 0).then(|| base.saturating_add(cost)),
        }
    }

    /// Returns whether a take is within its limit; true for the others.
    #[inline]
    pub fn is_within(&self, moment: Option<i64>, now: Time) -> bool {
        match *self {
            GcraOperation::Take { cost, burst, .. } => {
                let now = nanoseconds(now);
                let base = moment.unwrap_or(now).max(now);
                base.saturating_add(cost.max(0)) <= now.saturating_add(burst)
            }
            _ => true,
        }
    }
}
