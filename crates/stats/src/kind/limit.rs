//! Additions that depend on what is there: what is taken from a limit, and given back.
//!
//! What such an addition does is a function of the reading that comes with it, so whoever asked derives it from the
//! answer by the same function that the ledger used. The ledger reads and adds under one lock of the key's shard: of two
//! takes at once one is first.

use event::Span;

use super::Measure;
pub use super::gcra::{GcraOperation, nanoseconds};
pub use super::window_take::{WindowTake, interpolated};
use super::windows::Layout;
use crate::layout::{LayoutError, Tier};

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
