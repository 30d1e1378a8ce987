//! Forms of cells: the scripts' arguments, and the client's knowledge of them.

use event::{Span, Time};
use stats::{AggregateColumn, DecayWeight, Measure, Tier};

use super::message_pack::{MessagePackWriter, clamped};
use crate::remote::{CellForm, TIME_MAX};

/// A run of registers, so many that with where it begins it is a value of 64 bytes: more would make Redis keep the hash
/// as a table.
pub(super) const RUN: u32 = 63;
/// The time by which a key outlives its last use, beyond what its form asks for.
const MARGIN: Span = Span::minutes(1);
/// Longest life that a key is given: a hundred years.
const TTL_MAX: Span = Span::days(36_525);

/// The way in which servers keep the cells of a form, and merge them. They know these operations, and no statistic.
pub(super) enum MergeForm<'a> {
    /// Counts in rings of buckets, which add up.
    Ring(WindowDimensions),
    /// Times, a count, a sum, the least and the greatest value, and decayed sums.
    Totals {
        /// The columns that are kept.
        columns: &'a [AggregateColumn],
        /// After the last event.
        keep: Span,
    },
    /// Three sums of what may be negative, which wrap.
    Sums {
        /// After the last event.
        keep: Span,
    },
    /// A moment, of which the latest stays.
    Moment,
    /// Runs of registers in rings of periods, of which the greatest ranks stay.
    Registers {
        /// The periods.
        tier: Tier,
        /// The bits that number the registers.
        precision: u8,
    },
    /// A value, of which the latest stays, and of two at one time the greater.
    Register {
        /// After the last value.
        keep: Span,
    },
}

impl MergeForm<'_> {
    /// The form of a statistic: the one place where the cluster tells statistics apart.
    pub(super) fn of(measure: &Measure) -> MergeForm<'_> {
        let single =
            |tier: Tier| WindowDimensions { fine: tier, coarse: None, keep: tier.span(), counters: 1 };
        match measure {
            Measure::Windows(layout) => {
                let shape = layout.shape();
                let (fine, coarse, keep) = (shape.fine(), shape.coarse(), shape.keep());
                MergeForm::Ring(WindowDimensions { fine, coarse, keep, counters: shape.counters() })
            }
            Measure::Distinct(form) => MergeForm::Ring(single(form.tier)),
            Measure::Once(form) => MergeForm::Ring(single(Tier { width: form.window, buckets: 1 })),
            Measure::Aggregate(layout) => {
                MergeForm::Totals { columns: layout.columns(), keep: layout.keep() }
            }
            Measure::Evidence(form) => MergeForm::Sums { keep: form.keep },
            Measure::Gcra(_) => MergeForm::Moment,
            Measure::Last(form) => MergeForm::Register { keep: form.keep },
            Measure::Approx(form) => MergeForm::Registers { tier: form.tier, precision: form.precision },
        }
    }
}

/// The dimensions of a cell of windows.
#[derive(Clone, Copy, Debug)]
pub(super) struct WindowDimensions {
    pub(super) fine: Tier,
    pub(super) coarse: Option<Tier>,
    pub(super) keep: Span,
    pub(super) counters: usize,
}

impl WindowDimensions {
    /// Buckets that are kept of a tier, the newest included.
    pub(super) fn slots(tier: Tier) -> i64 {
        i64::from(tier.buckets) + 1
    }

    /// Returns true if a cell is kept longer than its finest buckets.
    pub(super) fn outlives(&self) -> bool {
        self.coarse.is_some() || self.keep > self.fine.span()
    }

    /// The slot of the bucket of a time in a cell with that last event; `None` where it is not kept.
    pub(super) fn slot(&self, time: Time, last: Time, is_fine: bool) -> Option<i64> {
        let kept = |tier: Tier| {
            let (number, slots) = (bucket(time, tier), WindowDimensions::slots(tier));
            (bucket(last, tier) - number < slots).then(|| number.rem_euclid(slots))
        };
        let fine = if is_fine { kept(self.fine) } else { None };
        fine.or_else(|| Some(WindowDimensions::slots(self.fine) + kept(self.coarse?)?))
    }

    fn longest(&self) -> Tier {
        self.coarse.unwrap_or(self.fine)
    }
}

/// The width of a bucket, as far as scripts can count.
fn width(tier: Tier) -> i64 {
    tier.width.0.clamp(1, TIME_MAX.0)
}

/// The number of a time's bucket.
pub(super) fn bucket(time: Time, tier: Tier) -> i64 {
    clamped(time).0.div_euclid(width(tier))
}

/// The start of a bucket.
pub(super) fn start(bucket: i64, tier: Tier) -> Time {
    Time(bucket.saturating_mul(tier.width.0))
}

/// Returns the number of runs that the registers of a period have.
pub(super) fn runs(precision: u8) -> u32 {
    (1u32 << precision.min(Measure::PRECISION_MAX)).div_ceil(RUN)
}

/// The time to live of a key that is used now, in milliseconds.
fn milliseconds(kept: Span) -> i64 {
    let kept = Span(kept.0.saturating_add(MARGIN.0)).min(TTL_MAX);
    kept.0.div_euclid(1000) + 1
}

/// Half-lives in a microsecond, of each decayed sum.
fn rates(columns: &[AggregateColumn]) -> impl Iterator<Item = f64> + Clone {
    columns.iter().filter_map(|column| match column {
        AggregateColumn::Decayed { half_life, weight: DecayWeight::One | DecayWeight::Value } => {
            Some(1.0 / half_life.0 as f64)
        }
        _ => None,
    })
}

/// Writes what scripts need to know of a form, and whether the time to live of its cells begins anew.
pub(super) fn pack(pack: &mut MessagePackWriter, form: &CellForm, renews: bool) {
    let span = |span: Span| span.0.min(TIME_MAX.0);
    let measure = &form.definition.measure;
    let ttl = |kept: i64| milliseconds(Span(kept.saturating_add(measure.slack().0)));
    match MergeForm::of(measure) {
        MergeForm::Ring(frame) => {
            let longest = frame.longest();
            // The bucket of the last event may have only begun, and so may the one that it reaches back to.
            let kept = longest.span().0.saturating_add(longest.width.0).max(frame.keep.0);
            let ratio = frame.coarse.map_or(1, |coarse| coarse.width.0 / frame.fine.width.0.max(1));
            pack.array(11);
            pack.integer(1);
            pack.integer(WindowDimensions::slots(frame.fine));
            pack.integer(frame.coarse.map_or(0, WindowDimensions::slots));
            pack.integer(width(frame.fine));
            pack.integer(ratio.max(1));
            pack.integer(frame.counters as i64);
            pack.integer(width(longest));
            pack.integer(span(longest.span()));
            pack.integer(span(frame.keep));
            pack.integer(ttl(kept));
            pack.yes_or_no(renews);
        }
        MergeForm::Totals { columns, keep } => {
            let rates = rates(columns);
            pack.array(4 + rates.clone().count());
            pack.integer(2);
            pack.integer(span(keep));
            pack.integer(ttl(keep.0));
            pack.yes_or_no(renews);
            rates.for_each(|rate| pack.float(rate));
        }
        MergeForm::Sums { keep } => {
            pack.array(4);
            pack.integer(3);
            pack.integer(span(keep));
            pack.integer(ttl(keep.0));
            pack.yes_or_no(renews);
        }
        MergeForm::Register { keep } => {
            pack.array(4);
            pack.integer(6);
            pack.integer(span(keep));
            pack.integer(ttl(keep.0));
            pack.yes_or_no(renews);
        }
        MergeForm::Moment => {
            pack.array(1);
            pack.integer(4);
        }
        MergeForm::Registers { tier, precision } => {
            pack.array(7);
            pack.integer(5);
            pack.integer(WindowDimensions::slots(tier));
            pack.integer(i64::from(runs(precision)));
            pack.integer(width(tier));
            pack.integer(span(tier.span()));
            pack.integer(ttl(tier.span().0.saturating_add(tier.width.0)));
            pack.yes_or_no(renews);
        }
    }
}

/// The greatest rank of a register: of 48 bits of a hash.
pub(super) fn rank_max(precision: u8) -> u8 {
    49 - precision.min(48)
}
