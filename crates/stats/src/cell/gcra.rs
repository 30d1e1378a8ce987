//! The generic cell rate algorithm: one moment a key, the theoretical arrival time of its next cell (ITU-T I.371, annex
//! A; the same as a leaky bucket that is read as a meter, or a token bucket that starts full).
//!
//! ```text
//! word 0   the moment, in nanoseconds since 1970, with its sign bit turned: never zero
//! ```
//!
//! How fast a bucket fills and how much it holds are said by each [`Flow`] and not kept, so they can change from one to
//! the next. What a take does depends on the takes before it, so a cell is no sum: two that are merged give the
//! later moment, as if the one with less had not been. That is too lenient for two halves of one key's takes, and right for
//! two states of the same key, of which the later one knows all that the earlier did.
//!
//! A cell is forgotten when its moment has come: it then says no more than none.

use event::Time;

use super::{CellBuffer, ensure};
use crate::limit::GcraOperation;

const SIGN: u64 = 1 << 63;

/// The operations on the cells of [`crate::Measure::Gcra`].
#[derive(Clone, Debug)]
pub(crate) struct GcraPlan;

impl GcraPlan {
    /// Values of a reading: the moment.
    pub(super) const COLUMNS: usize = 1;

    /// The moment.
    #[inline]
    pub(super) fn moment(words: &[u64]) -> Option<i64> {
        words.first().filter(|word| **word != 0).map(|word| (word ^ SIGN).cast_signed())
    }

    /// Makes it the cell of a moment.
    #[inline]
    pub(super) fn set(room: &mut impl CellBuffer, moment: i64) {
        ensure(room, 1);
        if let Some(word) = room.words_mut().first_mut() {
            *word = moment.max(i64::MIN + 1).cast_unsigned() ^ SIGN;
        }
    }

    #[inline]
    pub(super) fn apply(room: &mut impl CellBuffer, now: Time, flow: &GcraOperation) {
        if let Some(moment) = flow.after(GcraPlan::moment(room.words()), now) {
            GcraPlan::set(room, moment);
        }
    }

    pub(super) fn merge(room: &mut impl CellBuffer, other: &[u64]) {
        if let Some(moment) = GcraPlan::moment(other) {
            GcraPlan::set(room, GcraPlan::moment(room.words()).map_or(moment, |own| own.max(moment)));
        }
    }

    #[inline]
    pub(super) fn read(words: &[u64], out: &mut [u64]) {
        if let Some(out) = out.first_mut() {
            *out = GcraPlan::moment(words).unwrap_or(i64::MIN).cast_unsigned();
        }
    }

    /// The moment, rounded up, stands for first and last time.
    #[inline]
    pub(super) fn times(words: &[u64]) -> Option<(Time, Time)> {
        let moment = GcraPlan::moment(words)?;
        let time = Time(moment.div_euclid(1000).saturating_add(i64::from(moment.rem_euclid(1000) > 0)));
        Some((time, time))
    }

    pub(super) fn check(words: &[u64]) -> bool {
        words.iter().skip(1).all(|word| *word == 0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::catalog::Measure;
    use crate::cell::CellPlan;

    fn plan() -> CellPlan {
        CellPlan::new(&Measure::Gcra).unwrap()
    }

    #[test]
    fn a_bucket_lets_its_burst_through_and_then_its_rate() {
        let plan = plan();
        let take = |counts_all| GcraOperation::Take { cost: 10_000, burst: 30_000, counts_all };
        let mut cell = Vec::new();
        let moment = |cell: &mut Vec<u64>, now, flow: &GcraOperation| {
            plan.flow(cell, Time(now), flow);
            GcraPlan::moment(cell)
        };
        // Ten microseconds a cell, three at once.
        for expected in [110_000, 120_000, 130_000, 130_000] {
            assert_eq!(moment(&mut cell, 100, &take(false)), Some(expected));
        }
        assert_eq!(moment(&mut cell, 109, &take(false)), Some(130_000));
        assert_eq!(moment(&mut cell, 110, &take(false)), Some(140_000));
        // Where all counts a refused one fills it.
        assert_eq!(moment(&mut cell, 115, &take(true)), Some(145_000));
        assert_eq!(moment(&mut cell, 115, &GcraOperation::Back { cost: 5_000 }), Some(140_000));
        assert_eq!(moment(&mut cell, 115, &GcraOperation::Back { cost: i64::MAX }), Some(115_000));
        assert_eq!(moment(&mut cell, 115, &GcraOperation::Set { ahead: 7 }), Some(115_007));
        assert_eq!(plan.times(&cell), Some((Time(116), Time(116))));
        assert_eq!(plan.expires(&cell), Time(116));
        let mut none = Vec::new();
        for flow in
            [GcraOperation::Back { cost: 5 }, GcraOperation::Set { ahead: 0 }, GcraOperation::Add { cost: 0 }]
        {
            assert_eq!(moment(&mut none, 115, &flow), None, "{flow:?} makes nothing");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn cells_are_moments_and_the_later_one_stays(
            one in any::<i64>(), other in any::<i64>(), now in any::<i64>(), cost in any::<i64>(), burst in any::<i64>(),
        ) {
            let plan = plan();
            let cell = |moment: i64| {
                let mut cell = Vec::new();
                GcraPlan::set(&mut cell, moment);
                cell
            };
            let (mut merged, mut turned) = (cell(one), cell(other));
            plan.merge(&mut merged, &cell(other));
            plan.merge(&mut turned, &cell(one));
            prop_assert_eq!(&merged, &turned);
            prop_assert_eq!(GcraPlan::moment(&merged), Some(one.max(other).max(i64::MIN + 1)));
            prop_assert!(plan.check(&merged));
            let content = plan.content(&merged).unwrap();
            let (first, last) = plan.times(&merged).unwrap();
            prop_assert_eq!(plan.restore(first, last, &content), Ok(merged.clone()));
            // No numbers make it panic, and a take never moves it back.
            for counts_all in [false, true] {
                let mut taken = merged.clone();
                plan.flow(&mut taken, Time(now), &GcraOperation::Take { cost, burst, counts_all });
                prop_assert!(GcraPlan::moment(&taken) >= GcraPlan::moment(&merged));
                plan.flow(&mut taken, Time(now), &GcraOperation::Back { cost });
                plan.flow(&mut taken, Time(now), &GcraOperation::Set { ahead: burst });
                plan.flow(&mut taken, Time(now), &GcraOperation::Add { cost });
                prop_assert!(plan.check(&taken));
            }
        }
    }
}
