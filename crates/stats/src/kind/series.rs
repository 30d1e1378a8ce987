//! A series: a counter's buckets of equal width one by one, summed up in three numbers of a reading.
//!
//! Windows say how much there was. A series says how it was spread: the greatest bucket, the number of buckets that
//! hold anything, and the index of dispersion, the variance of the buckets over their mean (Cox and Lewis, The
//! Statistical Analysis of Series of Events, 1966; physics calls it the Fano factor). It is 0 for a clock, about 1 for
//! events that come independently of each other, and greater for bursts.
//!
//! ```text
//! reading   windows by counters ... │ ... series 1 │ series 0
//!                                     three words each, from the end
//! ```
//!
//! Buckets are numbered from the Unix epoch, as stored ones are. Series lie at the end of a reading, the first one last,
//! so that neither a further window nor a further series moves what is there already.

use event::{Span, Time};

use crate::layout::{CellShape, LayoutError};

/// The greatest count that a dispersion knows: the squares of a series of them still have a place.
const COUNT_MAX: u64 = 1 << 56;

/// The buckets of a counter that readings sum up: the current one, and whole ones before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BucketSeries {
    /// The counter, by its number.
    pub counter: u8,
    /// The width of a bucket.
    pub width: Span,
    /// The number of whole buckets before the current one.
    pub buckets: u32,
}

impl BucketSeries {
    /// Most whole buckets: those of a week in hours.
    pub const BUCKETS_MAX: u32 = 168;
    /// Most series of a reading.
    pub const SERIES_MAX: usize = 32;
    /// Words of a series in a reading.
    pub(crate) const WORDS: usize = 3;
}

/// The sum-up of a series in a reading.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct BucketSummary {
    /// The greatest bucket, the current one among them.
    pub max: u64,
    /// The number of whole buckets that hold anything.
    pub filled: u32,
    /// Variance over mean of the whole buckets; `None` where all of them are empty.
    pub dispersion: Option<f64>,
}

impl BucketSummary {
    /// The sum-up of buckets, of which the first is the current one.
    pub(super) fn of(counts: &[u64]) -> BucketSummary {
        let max = counts.iter().copied().max().unwrap_or(0);
        let whole = counts.get(1..).unwrap_or_default();
        let filled = whole.iter().filter(|count| **count > 0).count();
        // In whole numbers: with n counts of sum S, variance over mean is (n·Σx² - S²) / (n·S).
        let counts = whole.iter().map(|count| u128::from((*count).min(COUNT_MAX)));
        let (sum, squares) =
            counts.fold((0, 0), |(sum, squares), count| (sum + count, squares + count * count));
        let number = whole.len() as u128;
        let dispersion = (filled > 0).then(|| (number * squares - sum * sum) as f64 / (number * sum) as f64);
        BucketSummary { max, filled: filled as u32, dispersion }
    }

    /// The words of a reading.
    pub(super) fn words(&self) -> [u64; BucketSeries::WORDS] {
        [self.max, u64::from(self.filled), self.dispersion.unwrap_or_default().to_bits()]
    }

    /// The sum-up in the words of a reading, by the number of its series. A reading without values has seen nothing.
    pub(crate) fn read(values: &[u64], series: usize) -> BucketSummary {
        let at =
            (series + 1).checked_mul(BucketSeries::WORDS).and_then(|back| values.len().checked_sub(back));
        let words = at.and_then(|at| values.get(at..at + BucketSeries::WORDS));
        let Some(&[max, filled, dispersion]) = words else { return BucketSummary::default() };
        let filled = u32::try_from(filled).unwrap_or(u32::MAX);
        BucketSummary { max, filled, dispersion: (filled > 0).then(|| f64::from_bits(dispersion)) }
    }
}

/// A series over the cells of a shape.
#[derive(Clone, Copy, Debug)]
pub(super) struct SeriesPlan {
    pub(super) counter: usize,
    /// True if the coarse tier answers, with what the fine one has not folded yet.
    pub(super) coarse: bool,
    /// Fine buckets in one of the series.
    pub(super) fine_buckets: i64,
    /// Coarse buckets in one of the series.
    pub(super) coarse_buckets: i64,
    width: Span,
    pub(super) buckets: usize,
}

impl SeriesPlan {
    /// The finest tier answers whose buckets fill those of the series, and which reaches as far.
    pub(super) fn new(shape: &CellShape, series: &BucketSeries) -> Result<SeriesPlan, LayoutError> {
        let BucketSeries { counter, width, buckets } = *series;
        if usize::from(counter) >= shape.counters() {
            return Err(LayoutError::Series("there are fewer counters".to_owned()));
        }
        if buckets == 0 || buckets > BucketSeries::BUCKETS_MAX {
            let most = BucketSeries::BUCKETS_MAX;
            return Err(LayoutError::Series(format!(
                "{buckets} buckets of {width}: 1 to {most} can be read"
            )));
        }
        // The current bucket may be all but over when its first part leaves a tier of narrower ones.
        let needs =
            |tier: &crate::Tier| i128::from(width.0) * (i128::from(buckets) + 1) - i128::from(tier.width.0);
        let fits = |tier: &crate::Tier| {
            width.0 > 0 && width.0 % tier.width.0 == 0 && needs(tier) <= i128::from(tier.span().0)
        };
        let Some((index, tier)) = shape.tiers().enumerate().find(|(_, tier)| fits(tier)) else {
            let tiers: Vec<String> = shape.tiers().map(|tier| tier.to_string()).collect();
            let message = format!(
                "no tier has {buckets} whole buckets of {width}: of {} a bucket is a multiple, and all lie within it",
                tiers.join(" and ")
            );
            return Err(LayoutError::Series(message));
        };
        Ok(SeriesPlan {
            counter: usize::from(counter),
            coarse: index == 1,
            fine_buckets: width.0 / shape.fine().width.0,
            coarse_buckets: width.0 / tier.width.0,
            width,
            buckets: buckets as usize,
        })
    }

    /// The number of the current bucket.
    pub(super) fn current(&self, now: Time) -> i64 {
        now.bucket(self.width)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_summed_up() {
        let check = |counts: &[u64], max, filled, dispersion| {
            let summary = BucketSummary::of(counts);
            assert_eq!(summary, BucketSummary { max, filled, dispersion }, "{counts:?}");
            let mut values = vec![7; 4];
            values.extend(summary.words());
            values.extend([1, 1, 0]);
            assert_eq!(BucketSummary::read(&values, 1), summary, "{counts:?}");
        };
        check(&[9, 0, 0, 0], 9, 0, None);
        check(&[0, 5, 5, 5], 5, 3, Some(0.0));
        check(&[1, 0, 6, 0], 6, 1, Some(4.0));
        check(&[0, 1, 2, 3], 3, 3, Some(1.0 / 3.0));
        check(&[0, u64::MAX, u64::MAX], u64::MAX, 2, Some(0.0));
        assert_eq!(BucketSummary::read(&[], 0), BucketSummary::default());
        assert_eq!(BucketSummary::read(&[1, 1, 0], 1), BucketSummary::default());
    }

    #[test]
    fn the_finest_tier_answers_that_has_all_of_the_buckets() {
        let tiers =
            |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect::<Vec<crate::Tier>>();
        let shape = CellShape::new(2, &tiers(&["10m x 144", "1d x 14"]), None).unwrap();
        let plan = |counter, width: &str, buckets| {
            SeriesPlan::new(&shape, &BucketSeries { counter, width: width.parse().unwrap(), buckets })
        };
        for (width, buckets, coarse) in
            [("10m", 144, false), ("1h", 22, false), ("1h", 23, false), ("1d", 14, true), ("2d", 6, true)]
        {
            assert_eq!(plan(1, width, buckets).unwrap().coarse, coarse, "{width} {buckets}");
        }
        let error = |width: &str, buckets| plan(0, width, buckets).unwrap_err().to_string();
        assert_eq!(
            error("1h", 24),
            "buckets: no tier has 24 whole buckets of 1h: of 10m x 144 and 1d x 14 a bucket is a multiple, and all lie \
             within it"
        );
        assert_eq!(error("10m", 169), "buckets: 169 buckets of 10m: 1 to 168 can be read");
        assert!(plan(2, "10m", 1).is_err() && plan(0, "15m", 4).is_err() && plan(0, "1d", 15).is_err());
    }
}
