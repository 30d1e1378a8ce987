//! Division of a cell's time: tiers of equal buckets, and the trailing windows of readings.
//!
//! Windows are sliding windows made of fixed sub-windows: as cheap as counters, and strict: the oldest bucket, of
//! which only a part still lies in the window, counts in full.

use std::fmt;
use std::str::FromStr;

use event::{Span, Time};
use serde::{Deserialize, Serialize};

/// Least precision of an approximate count.
pub(crate) const PRECISION_MIN: u8 = 10;
/// Greatest precision of an approximate count.
pub(crate) const PRECISION_MAX: u8 = 14;

/// Buckets of one width: `10m x 144` keeps 144 whole ten-minute buckets beside the current one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tier {
    /// Length of a bucket; bucket numbers are [`Time::bucket`]s of it.
    pub width: Span,
    /// Whole buckets that are kept beside the current one.
    pub buckets: u32,
}

impl Tier {
    /// The longest window that the tier can answer.
    pub fn span(&self) -> Span {
        self.width.times(i64::from(self.buckets))
    }
}

/// A text that is no tier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TierError;

impl fmt::Display for TierError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "expected a bucket's width and how many are kept, such as `10m x 144`, or a width alone for one",
        )
    }
}

impl std::error::Error for TierError {}

impl FromStr for Tier {
    type Err = TierError;

    fn from_str(text: &str) -> Result<Tier, TierError> {
        let (width, buckets) = match text.split_once('x') {
            Some((width, buckets)) => (width, buckets.trim().parse().map_err(|_| TierError)?),
            None => (text, 1),
        };
        let width: Span = width.trim().parse().map_err(|_| TierError)?;
        if width <= Span::ZERO || buckets == 0 {
            return Err(TierError);
        }
        Ok(Tier { width, buckets })
    }
}

impl fmt::Display for Tier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} x {}", self.width, self.buckets)
    }
}

/// Reasons for an invalid layout.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LayoutError {
    /// No counters, too many, or one whose name is empty, too long or there twice.
    #[error("counters: {0}")]
    Counters(String),
    /// Tiers that do not fit each other or the limits.
    #[error("tiers: {0}")]
    Tiers(String),
    /// A window that no tier can answer.
    #[error("no tier can answer the window {window}; possible are {possible}")]
    Window {
        /// The window asked for.
        window: Span,
        /// The ranges of windows that can be answered.
        possible: String,
    },
    /// Buckets that no tier can answer one by one.
    #[error("buckets: {0}")]
    Series(String),
    /// Columns of an aggregate that cannot be.
    #[error("columns: {0}")]
    Columns(String),
    /// A precision of an approximate count that cannot be.
    #[error(
        "precision = {0}: it must be {min} to {max}",
        min = PRECISION_MIN,
        max = PRECISION_MAX
    )]
    Precision(u8),
    /// Shorter than the longest tier.
    #[error("keep = {keep} is shorter than the tier {tier}: make it at least {}", tier.span())]
    Keep {
        /// The configured span.
        keep: Span,
        /// The tier that needs more.
        tier: Tier,
    },
}

/// The dimensions of a cell: what its bytes depend on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CellShape {
    counters: usize,
    fine: Tier,
    coarse: Option<Tier>,
    keep: Span,
}

impl CellShape {
    /// Most counters.
    pub const COUNTERS_MAX: usize = 64;
    /// Most words of a cell. A word a bucket and counter, and a few more, must fit.
    pub const WORDS_MAX: usize = (1 << 16) - 1;
    /// The longest time that a tier may span, or a cell be kept: some 290 years, so that sums of times do not overflow.
    pub const SPAN_MAX: Span = Span(i64::MAX / 1000);

    /// Checks and makes a shape with this many counters.
    ///
    /// # Errors
    /// [`LayoutError::Tiers`], [`LayoutError::Counters`] or [`LayoutError::Keep`].
    pub fn new(counters: usize, tiers: &[Tier], keep: Option<Span>) -> Result<CellShape, LayoutError> {
        let wrong = |text: String| Err(LayoutError::Tiers(text));
        if counters == 0 || counters > CellShape::COUNTERS_MAX {
            return Err(LayoutError::Counters(format!(
                "{counters} of them, 1 to {} can be kept",
                CellShape::COUNTERS_MAX
            )));
        }
        for tier in tiers {
            let span = i128::from(tier.width.0) * i128::from(tier.buckets);
            if tier.width <= Span::ZERO || tier.buckets == 0 || span > i128::from(CellShape::SPAN_MAX.0) {
                return wrong(format!(
                    "{tier}: the width or the number of buckets is zero, or their product too long"
                ));
            }
        }
        let (fine, coarse) = match *tiers {
            [fine] => (fine, None),
            [fine, coarse] => {
                if coarse.width <= fine.width || coarse.width.0 % fine.width.0 != 0 {
                    return wrong(format!(
                        "{coarse} must have buckets that are a multiple of {}",
                        fine.width
                    ));
                }
                if coarse.span() < fine.span() {
                    return wrong(format!("{coarse} must reach at least as far back as {fine}"));
                }
                (fine, Some(coarse))
            }
            _ => return wrong(format!("{} of them, one or two can be kept", tiers.len())),
        };
        let rows: u64 = tiers.iter().map(|tier| u64::from(tier.buckets) + 1).sum();
        // A head of three words, a word for sixteen columns, and two words while a head grows.
        if rows * counters as u64 + 16 > CellShape::WORDS_MAX as u64 {
            return wrong(format!("{rows} buckets of {counters} counters are too many for one cell"));
        }
        let longest = coarse.unwrap_or(fine);
        let keep = keep.unwrap_or(longest.span());
        if keep < longest.span() || keep > CellShape::SPAN_MAX {
            return Err(LayoutError::Keep { keep, tier: longest });
        }
        Ok(CellShape { counters, fine, coarse, keep })
    }

    /// Number of counters.
    pub fn counters(&self) -> usize {
        self.counters
    }

    /// The finest tier.
    pub fn fine(&self) -> Tier {
        self.fine
    }

    /// The tier that the finest folds into.
    pub fn coarse(&self) -> Option<Tier> {
        self.coarse
    }

    /// Returns the least time for which a cell is kept after its last event.
    pub fn keep(&self) -> Span {
        self.keep
    }

    /// The fine tier, and the coarse one if there is one.
    pub(crate) fn tiers(&self) -> impl Iterator<Item = Tier> {
        [Some(self.fine), self.coarse].into_iter().flatten()
    }

    /// Fine buckets in a coarse one.
    pub(crate) fn ratio(&self) -> i64 {
        self.coarse.map_or(1, |coarse| coarse.width.0 / self.fine.width.0)
    }

    /// The expiry of a cell with this last event: no window reaches it any more, and `keep` is over.
    pub fn expires(&self, last: Time) -> Time {
        let longest = self.coarse.unwrap_or(self.fine);
        let bucket_end = Time(last.bucket(longest.width).saturating_add(1).saturating_mul(longest.width.0));
        (bucket_end + longest.span()).max(last + self.keep)
    }

    /// No cell expires earlier than so long after its last event.
    pub(crate) fn kept_for(&self) -> Span {
        self.coarse.unwrap_or(self.fine).span().max(self.keep)
    }
}

/// The buckets that answer one window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WindowBuckets {
    pub(crate) tier: usize,
    pub(crate) width: Span,
    pub(crate) window: Span,
    /// Buckets at the old end that are left out: 1 where whole periods are counted, the current one among them.
    pub(crate) skip: i64,
}

impl WindowBuckets {
    pub(crate) fn periods(width: Span, window: Span) -> WindowBuckets {
        WindowBuckets { tier: 0, width, window, skip: 1 }
    }

    /// The start of the first bucket as of `now`.
    pub(crate) fn start(&self, now: Time) -> Time {
        Time(self.buckets(now).0.saturating_mul(self.width.0))
    }

    /// First and last bucket as of `now`.
    pub(crate) fn buckets(&self, now: Time) -> (i64, i64) {
        ((now - self.window).bucket(self.width).saturating_add(self.skip), now.bucket(self.width))
    }
}

impl CellShape {
    /// The finest tier that can answer a window: its buckets are no longer, and together no shorter.
    pub(crate) fn trail(&self, window: Span) -> Result<WindowBuckets, LayoutError> {
        let tiers = [Some(self.fine), self.coarse];
        let fits = |tier: &Tier| tier.width <= window && window <= tier.span();
        for (index, tier) in tiers.iter().flatten().enumerate() {
            if fits(tier) {
                return Ok(WindowBuckets { tier: index, width: tier.width, window, skip: 0 });
            }
        }
        let ranges: Vec<String> =
            tiers.iter().flatten().map(|tier| format!("{} to {}", tier.width, tier.span())).collect();
        Err(LayoutError::Window { window, possible: ranges.join(", ") })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tiers(texts: &[&str]) -> Vec<Tier> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn tiers_read_back_what_they_print() {
        for text in ["10m x 144", "1d x 14", "1d x 1"] {
            assert_eq!(text.parse::<Tier>().unwrap().to_string(), text);
        }
        assert_eq!("1d".parse::<Tier>().unwrap(), Tier { width: Span::days(1), buckets: 1 });
        for text in ["", "x", "10m x", "10m x 0", "0s x 3", "10m x -1", "10m x 99999999999", "x 3"] {
            assert_eq!(text.parse::<Tier>(), Err(TierError), "{text:?}");
        }
    }

    #[test]
    fn the_finest_tier_answers() {
        let shape = CellShape::new(1, &tiers(&["10m x 144", "1d x 14"]), None).unwrap();
        for (window, tier) in [("10m", 0), ("1d", 0), ("1d10m", 1), ("14d", 1)] {
            assert_eq!(shape.trail(window.parse().unwrap()).unwrap().tier, tier, "{window}");
        }
    }
}
