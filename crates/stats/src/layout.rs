//! Layouts of what a statistic keeps of a key: tiers of equal buckets and the trailing windows that readings carry, or the fixed
//! columns of a track.
//!
//! Windows are sliding windows made of fixed sub-windows: as cheap as counters, and strict: the oldest bucket, of
//! which only a part still lies in the window, counts in full.

use std::fmt;
use std::str::FromStr;

use event::{Span, Time};

/// Buckets of one width: `10m x 144` keeps 144 whole ten-minute buckets beside the current one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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

/// Why a layout cannot be.
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
    /// Columns of a track that cannot be.
    #[error("columns: {0}")]
    Columns(String),
    /// A precision of an approximate count that cannot be.
    #[error(
        "precision = {0}: it must be {min} to {max}",
        min = crate::Measure::PRECISION_MIN,
        max = crate::Measure::PRECISION_MAX
    )]
    Precision(u8),
    /// Shorter than the longest tier.
    #[error("keep = {keep} is shorter than the tier {tier}: make it at least {}", tier.span())]
    Keep {
        /// As configured.
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

    /// Fine buckets in a coarse one.
    pub(crate) fn ratio(&self) -> i64 {
        self.coarse.map_or(1, |coarse| coarse.width.0 / self.fine.width.0)
    }

    /// When a cell with this last event may be forgotten: no window reaches it any more, and `keep` is over.
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

    /// Where the first bucket as of `now` starts.
    pub(crate) fn start(&self, now: Time) -> Time {
        Time(self.buckets(now).0.saturating_mul(self.width.0))
    }

    /// First and last bucket as of `now`.
    pub(crate) fn buckets(&self, now: Time) -> (i64, i64) {
        ((now - self.window).bucket(self.width).saturating_add(self.skip), now.bucket(self.width))
    }
}

/// A layout of what is kept per key: named counters over one or two tiers, first and last event time, and the windows that
/// readings carry.
///
/// Counters only ever go up, so that a cell is a function of the set of its additions whatever their order. What was
/// counted is taken back by a second counter: `~complaint`, after all that have no `~`, holds what was taken back of
/// `complaint`. To be exact it is to go up at the *time* of what is taken back: both then lie in one bucket, age
/// together, and no window sees one without the other. Readings have no such counters, but the differences, at least
/// zero. (Behind an admission sketch what came before a key's cell was not counted, and must not be taken back.)
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    counters: Vec<String>,
    shown: usize,
    shape: CellShape,
    windows: Vec<Span>,
    trails: Vec<WindowBuckets>,
}

/// A column that a track keeps over all of a key's events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AggregateColumn {
    /// Time of the earliest event.
    First,
    /// Time of the latest event.
    Last,
    /// Number of events.
    Count,
    /// Sum of the events' values; exact inside, at the end of the range where it does not fit.
    Sum,
    /// Least value.
    Min,
    /// Greatest value.
    Max,
    /// Sum in which an event counts half after each half-life. As of a time before the last event it is what it is at
    /// the last event.
    Decayed {
        /// After which it counts half.
        half_life: Span,
        /// The weights that are summed.
        weight: DecayWeight,
    },
}

/// The weight that a decayed sum adds for an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DecayWeight {
    /// One.
    One,
    /// Its value; nothing for an event without one.
    Value,
}

/// A value of a track's reading.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum AggregateValue {
    /// Of [`Column::First`] and [`Column::Last`]; `None` where no event was seen, or only at the very end or
    /// beginning of time.
    Time(Option<Time>),
    /// Of [`Column::Count`].
    Count(u64),
    /// Of [`Column::Sum`], [`Column::Min`] and [`Column::Max`]. The least or greatest of no values is `None`; so is a
    /// least value of `i64::MAX` and a greatest of `i64::MIN`.
    Integer(Option<i64>),
    /// Of [`Column::Decayed`]. Always finite.
    Real(f64),
}

impl AggregateColumn {
    /// Returns what a reading says where nothing was seen.
    pub(crate) fn neutral(&self) -> u64 {
        match self {
            AggregateColumn::First | AggregateColumn::Min => i64::MAX.cast_unsigned(),
            AggregateColumn::Last | AggregateColumn::Max => i64::MIN.cast_unsigned(),
            AggregateColumn::Count | AggregateColumn::Sum | AggregateColumn::Decayed { .. } => 0,
        }
    }

    /// The value that a word of a reading stands for.
    pub fn value(&self, word: u64) -> AggregateValue {
        let integer = word.cast_signed();
        let some = (word != self.neutral()).then_some(integer);
        match self {
            AggregateColumn::First | AggregateColumn::Last => AggregateValue::Time(some.map(Time)),
            AggregateColumn::Count => AggregateValue::Count(word),
            AggregateColumn::Sum => AggregateValue::Integer(Some(integer)),
            AggregateColumn::Min | AggregateColumn::Max => AggregateValue::Integer(some),
            AggregateColumn::Decayed { .. } => AggregateValue::Real(f64::from_bits(word)),
        }
    }
}

/// The columns of a track, and how long a key is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AggregateLayout {
    columns: Vec<AggregateColumn>,
    keep: Span,
}

impl AggregateLayout {
    /// Most decayed sums.
    pub const DECAYED_MAX: usize = 4;

    /// Checks, and puts the columns in the order of [`Column`]. First, last and count are kept in any case: they share
    /// two words.
    ///
    /// # Errors
    /// [`LayoutError::Columns`].
    pub fn new(mut columns: Vec<AggregateColumn>, keep: Span) -> Result<AggregateLayout, LayoutError> {
        let wrong = |text: String| Err(LayoutError::Columns(text));
        columns.sort_unstable();
        let decayed = |column: &AggregateColumn| match column {
            AggregateColumn::Decayed { half_life, .. } => Some(*half_life),
            _ => None,
        };
        if columns.is_empty() {
            return wrong("there are none".to_owned());
        }
        if columns.windows(2).any(|pair| pair.first() == pair.last()) {
            return wrong("one is there twice".to_owned());
        }
        if columns.iter().filter_map(decayed).count() > AggregateLayout::DECAYED_MAX {
            return wrong(format!("more than {} decayed sums", AggregateLayout::DECAYED_MAX));
        }
        if let Some(half_life) = columns.iter().filter_map(decayed).find(|half_life| *half_life <= Span::ZERO)
        {
            return wrong(format!("the half-life {half_life} is not positive"));
        }
        if keep <= Span::ZERO || keep > CellShape::SPAN_MAX {
            return wrong(format!("keep = {keep} is not positive, or too long"));
        }
        Ok(AggregateLayout { columns, keep })
    }

    /// Returns what is kept, in the order of a reading's values.
    pub fn columns(&self) -> &[AggregateColumn] {
        &self.columns
    }

    /// Returns the time for which a key is kept after its last event.
    pub fn keep(&self) -> Span {
        self.keep
    }
}

impl Layout {
    /// Longest name of a counter, in bytes.
    pub const NAME_BYTES_MAX: usize = 64;
    /// The beginning of the name of a counter that holds what was taken back of another.
    pub const TAKEN_BACK: char = '~';
    /// Most counters of what was taken back.
    pub const TAKEN_MAX: usize = 16;
    /// Most windows.
    pub const WINDOWS_MAX: usize = 64;

    /// Checks and compiles. Tiers are one, or a fine and a coarse one; `keep` defaults to the longest tier.
    ///
    /// # Errors
    /// Says what does not fit and what would.
    pub fn new(
        counters: Vec<String>,
        tiers: &[Tier],
        windows: Vec<Span>,
        keep: Option<Span>,
    ) -> Result<Layout, LayoutError> {
        for (index, name) in counters.iter().enumerate() {
            if name.is_empty() || name.len() > Layout::NAME_BYTES_MAX {
                return Err(LayoutError::Counters(format!(
                    "the name `{name}` must have 1 to {} bytes",
                    Layout::NAME_BYTES_MAX
                )));
            }
            if counters[..index].contains(name) {
                return Err(LayoutError::Counters(format!("`{name}` is there twice")));
            }
        }
        let shown = counters.iter().take_while(|name| !name.starts_with(Layout::TAKEN_BACK)).count();
        for name in &counters[shown..] {
            let of = name.strip_prefix(Layout::TAKEN_BACK);
            if of.is_none_or(|of| !counters[..shown].iter().any(|counter| counter == of)) {
                return Err(LayoutError::Counters(format!(
                    "`{name}` is not what was taken back of one before"
                )));
            }
        }
        if counters.len() - shown > Layout::TAKEN_MAX {
            return Err(LayoutError::Counters(format!(
                "of more than {} something can be taken back",
                Layout::TAKEN_MAX
            )));
        }
        let shape = CellShape::new(counters.len(), tiers, keep)?;
        if windows.len() > Layout::WINDOWS_MAX {
            return Err(LayoutError::Tiers(format!("more than {} windows", Layout::WINDOWS_MAX)));
        }
        let trails = windows.iter().map(|window| shape.trail(*window)).collect::<Result<_, _>>()?;
        Ok(Layout { counters, shown, shape, windows, trails })
    }

    /// Names of the counters, in the order of their indices.
    pub fn counters(&self) -> &[String] {
        &self.counters
    }

    /// The first of them, which readings have.
    pub fn shown(&self) -> &[String] {
        &self.counters[..self.shown]
    }

    /// For each of the others the one of which it was taken back.
    pub(crate) fn taken(&self) -> Vec<u8> {
        let others = self.counters[self.shown..].iter();
        others.filter_map(|name| self.counter(name.strip_prefix(Layout::TAKEN_BACK)?)).collect()
    }

    /// The index of a counter.
    pub fn counter(&self, name: &str) -> Option<u8> {
        self.counters.iter().position(|counter| counter == name).map(|index| index as u8)
    }

    /// The trailing windows that readings carry, in this order.
    pub fn windows(&self) -> &[Span] {
        &self.windows
    }

    /// The dimensions of its cells.
    pub fn shape(&self) -> &CellShape {
        &self.shape
    }

    /// Returns whether it has one counter, and one of what was taken back of it, over a window of one tier: what limits keep.
    pub(crate) fn is_limit(&self) -> bool {
        self.shown == 1
            && self.counters.len() == 2
            && self.shape.coarse.is_none()
            && self.trails.first().is_some_and(|trail| trail.skip == 0)
    }

    pub(crate) fn trails(&self) -> &[WindowBuckets] {
        &self.trails
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
    fn layouts_are_checked_with_the_mend_named() {
        let check =
            |counters: &[&str], tier_texts: &[&str], windows: &[&str], keep: Option<Span>, message: &str| {
                let made = Layout::new(
                    counters.iter().map(|name| (*name).to_owned()).collect(),
                    &tiers(tier_texts),
                    windows.iter().map(|window| window.parse().unwrap()).collect(),
                    keep,
                );
                let text = made.err().map_or(String::new(), |error| error.to_string());
                assert_eq!(text, message);
            };
        let two = &["10m x 144", "1d x 14"];
        check(&["seen", "spam"], two, &["10m", "1h", "1d", "2d", "14d"], None, "");
        check(
            &["seen"],
            two,
            &["15d"],
            None,
            "no tier can answer the window 15d; possible are 10m to 1d, 1d to 14d",
        );
        check(
            &["seen"],
            &["1h x 3"],
            &["1m"],
            None,
            "no tier can answer the window 1m; possible are 1h to 3h",
        );
        check(&["a", "a"], two, &[], None, "counters: `a` is there twice");
        check(&[], two, &[], None, "counters: 0 of them, 1 to 64 can be kept");
        check(&["a"], &[], &[], None, "tiers: 0 of them, one or two can be kept");
        check(
            &["a"],
            &["7m x 9", "1h x 9"],
            &[],
            None,
            "tiers: 1h x 9 must have buckets that are a multiple of 7m",
        );
        check(
            &["a"],
            &["1m x 180", "1h x 2"],
            &[],
            None,
            "tiers: 1h x 2 must reach at least as far back as 1m x 180",
        );
        check(
            &["a"],
            &["1s x 90000"],
            &[],
            None,
            "tiers: 90001 buckets of 1 counters are too many for one cell",
        );
        let message = "keep = 1d is shorter than the tier 1d x 14: make it at least 14d";
        check(&["a"], two, &[], Some(Span::days(1)), message);
    }

    #[test]
    fn the_finest_tier_answers() {
        let shape = CellShape::new(1, &tiers(&["10m x 144", "1d x 14"]), None).unwrap();
        for (window, tier) in [("10m", 0), ("1d", 0), ("1d10m", 1), ("14d", 1)] {
            assert_eq!(shape.trail(window.parse().unwrap()).unwrap().tier, tier, "{window}");
        }
    }
}
