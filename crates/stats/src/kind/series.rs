//! A series: a counter's buckets of equal width one by one, summed up in three words of a reading.
//!
//! Windows say how much there was. A series says how it was spread: the greatest bucket, the number of buckets that
//! hold anything, and the index of dispersion, the variance of the buckets over their mean (Cox and Lewis, The
//! Statistical Analysis of Series of Events, 1966; physics calls it the Fano factor). It is 0 for a clock, about 1 for
//! events that come independently of each other, and greater for bursts.
//!
//! Intervals between events are known as far as buckets tell: from one event to the next it is as many
//! widths as their buckets are apart, and none within one bucket. Their median, and their coefficient of variation, the standard
//! deviation over the mean: 0 for a clock, about 1 for independent events, and greater for bursts.
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

/// The number of values of a coefficient of variation in a reading: it is told in thousandths, up to 65.
const VARIATIONS: u64 = u16::MAX as u64;

/// The sum-up of a series in a reading.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct BucketSummary {
    /// The greatest bucket, the current one among them.
    pub max: u64,
    /// The number of whole buckets that hold anything.
    pub filled: u32,
    /// Variance over mean of the whole buckets; `None` where all of them are empty.
    pub dispersion: Option<f64>,
    /// The median of the intervals between events, the current bucket among them, in half widths of a bucket; `None` of fewer
    /// than two events.
    pub median_halves: Option<u32>,
    /// The standard deviation of the intervals over their mean, to a thousandth; `None` of fewer than three events, and of
    /// events that lie in one bucket.
    pub variation: Option<f64>,
}

impl BucketSummary {
    /// The sum-up of buckets, of which the first is the current one.
    pub(super) fn of(counts: &[u64]) -> BucketSummary {
        let max = counts.iter().copied().max().unwrap_or(0);
        let whole = counts.get(1..).unwrap_or_default();
        let filled = whole.iter().filter(|count| **count > 0).count();
        let (median_halves, variation) = intervals(counts);
        // In whole numbers: with n counts of sum S, variance over mean is (n·Σx² - S²) / (n·S).
        let counts = whole.iter().map(|count| u128::from((*count).min(COUNT_MAX)));
        let (sum, squares) =
            counts.fold((0, 0), |(sum, squares), count| (sum + count, squares + count * count));
        let number = whole.len() as u128;
        let dispersion = (filled > 0).then(|| (number * squares - sum * sum) as f64 / (number * sum) as f64);
        BucketSummary { max, filled: filled as u32, dispersion, median_halves, variation }
    }

    /// The words of a reading: the second has the number of filled buckets, and in its upper halves what is said of intervals,
    /// each one more than it is, and nought for nothing.
    pub(super) fn words(&self) -> [u64; BucketSeries::WORDS] {
        let median = self.median_halves.map_or(0, |halves| u64::from(halves) + 1);
        // A float that is no number would be nought here, and there is none.
        let variation = self.variation.map_or(0, |variation| (variation * 1000.0).round() as u64 + 1);
        let second = u64::from(self.filled) | median.min(VARIATIONS) << 32 | variation.min(VARIATIONS) << 48;
        [self.max, second, self.dispersion.unwrap_or_default().to_bits()]
    }

    /// The sum-up in the words of a reading, by the number of its series. A reading without values has seen nothing.
    pub(crate) fn read(values: &[u64], series: usize) -> BucketSummary {
        let at =
            (series + 1).checked_mul(BucketSeries::WORDS).and_then(|back| values.len().checked_sub(back));
        let words = at.and_then(|at| values.get(at..at + BucketSeries::WORDS));
        let Some(&[max, second, dispersion]) = words else { return BucketSummary::default() };
        let filled = second as u32;
        let part = |shift: u32| (second >> shift) as u16;
        BucketSummary {
            max,
            filled,
            dispersion: (filled > 0).then(|| f64::from_bits(dispersion)),
            median_halves: part(32).checked_sub(1).map(u32::from),
            variation: part(48).checked_sub(1).map(|thousandths| f64::from(thousandths) / 1000.0),
        }
    }
}

/// Returns the median of the intervals between events in half widths of a bucket, and their coefficient of variation. The first
/// bucket is the newest.
fn intervals(counts: &[u64]) -> (Option<u32>, Option<f64>) {
    let mut distances = [0u32; BucketSeries::BUCKETS_MAX as usize + 1];
    // Of events in one bucket each but the first follows at once.
    let (mut none, mut last) = (0u128, None);
    let (mut sum, mut squares) = (0u128, 0u128);
    for (at, count) in counts.iter().enumerate().filter(|(_, count)| **count > 0) {
        none += u128::from((*count).min(COUNT_MAX) - 1);
        if let Some(last) = last.replace(at) {
            let distance = at - last;
            if let Some(number) = distances.get_mut(distance) {
                *number += 1;
            }
            sum += distance as u128;
            squares += (distance * distance) as u128;
        }
    }
    let number = none + distances.iter().map(|number| u128::from(*number)).sum::<u128>();
    let nth = |nth: u128| {
        let mut before = none;
        let longer = |number: &u32| {
            before += u128::from(*number);
            before > nth
        };
        if nth < none { 0 } else { distances.iter().position(longer).unwrap_or(0) as u32 }
    };
    // Of an even number the middle of the two in the middle.
    let median = (number > 0).then(|| nth((number - 1) / 2) + nth(number / 2));
    let varies = number > 1 && sum > 0;
    let variation = varies.then(|| ((number * squares - sum * sum) as f64).sqrt() / sum as f64);
    let most = (VARIATIONS - 1) as f64;
    (median, variation.map(|variation| (variation * 1000.0).round().min(most) / 1000.0))
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
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn buckets_are_summed_up() {
        let check = |counts: &[u64], max, filled, dispersion| {
            let summary = BucketSummary::of(counts);
            assert_eq!(
                (summary.max, summary.filled, summary.dispersion),
                (max, filled, dispersion),
                "{counts:?}"
            );
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
    fn intervals_are_as_long_as_buckets_are_apart() {
        let check = |counts: &[u64], median_halves, variation| {
            let summary = BucketSummary::of(counts);
            assert_eq!((summary.median_halves, summary.variation), (median_halves, variation), "{counts:?}");
            assert_eq!(BucketSummary::read(&summary.words(), 0), summary, "{counts:?}");
        };
        check(&[0, 0, 0], None, None);
        check(&[1, 0, 0], None, None);
        check(&[2, 0, 0], Some(0), None);
        check(&[0, 9, 0], Some(0), None);
        check(&[0, 1, 0, 0, 1], Some(6), None);
        check(&[1, 0, 0, 1, 0, 0, 1], Some(6), Some(0.0));
        check(&[1, 0, 1, 0, 0, 0, 1], Some(6), Some(0.333));
        check(&[1, 1, 0, 0, 0, 0, 1, 1], Some(2), Some(0.808));
        check(&[2, 0, 2], Some(0), Some(1.414));
        check(&[u64::MAX, 0, 1], Some(0), Some(65.534));
        let mut far = vec![0; BucketSeries::BUCKETS_MAX as usize + 1];
        far[0] = 1;
        far[BucketSeries::BUCKETS_MAX as usize] = 1;
        check(&far, Some(2 * BucketSeries::BUCKETS_MAX), None);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// Intervals are the same as those of a list of the events, each in its bucket.
        #[test]
        fn intervals_are_those_of_a_list(counts in proptest::collection::vec(0u64..4, 1..170)) {
            let counts = &counts[..counts.len().min(169)];
            let events: Vec<i64> = (0..).zip(counts).flat_map(|(at, count)| (0..*count).map(move |_| at)).collect();
            let mut found: Vec<i64> = events.windows(2).map(|pair| pair[1] - pair[0]).collect();
            found.sort_unstable();
            let number = found.len();
            let summary = BucketSummary::of(counts);
            let median = (number > 0).then(|| found[(number - 1) / 2] + found[number / 2]);
            prop_assert_eq!(summary.median_halves.map(i64::from), median);
            let mean = found.iter().sum::<i64>() as f64 / number as f64;
            let variance = found.iter().map(|one| (*one as f64 - mean).powi(2)).sum::<f64>() / number as f64;
            match summary.variation {
                Some(variation) => prop_assert!((variation - variance.sqrt() / mean).abs() < 1e-3),
                None => prop_assert!(number < 2 || mean == 0.0),
            }
            prop_assert_eq!(BucketSummary::read(&summary.words(), 0), summary);
        }
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
