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

use event::{Key, Span, Time};
use serde::{Deserialize, Serialize};

use super::{
    Addition, CellContent, CellOperations, CellPlan, OTHER_ADDITION, OTHER_CONTENT, ObservationContext,
    StatisticChange, StatisticForm,
};
use crate::bytes::ByteReader;
use crate::cell::{CellBuffer, ensure};
use crate::layout::{CellShape, LayoutError, Tier, WindowBuckets};

const SIGN: u64 = 1 << 63;

/// The bucket of the generic cell rate algorithm: the moment at which the key will have used nothing. Its readings
/// have one value, the moment in nanoseconds since 1970; a key never seen has none. Two cells that are merged give
/// the later moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GcraForm;

impl StatisticForm for GcraForm {
    const NUMBER: u8 = 6;

    fn name(&self) -> &'static str {
        "gcra"
    }

    fn counters(&self) -> Vec<String> {
        vec!["moment".to_owned()]
    }

    fn without_windows(&self) -> GcraForm {
        GcraForm
    }

    fn decides(&self) -> bool {
        true
    }

    fn is_limit(&self) -> bool {
        true
    }

    /// Its time is not divided, and it is kept until its moment.
    fn shape(&self) -> Result<CellShape, LayoutError> {
        CellShape::new(1, &[Tier { width: Span(1), buckets: 1 }], None)
    }

    fn slack(&self) -> Span {
        Span::ZERO
    }

    fn accepts(&self, _key: &Key, add: &Addition) -> Result<(), &'static str> {
        match add {
            Addition::Nothing | Addition::Flow(_) => Ok(()),
            _ => Err(OTHER_ADDITION),
        }
    }

    fn encode(&self, _bytes: &mut Vec<u8>) {}

    fn decode(_reader: &mut ByteReader<'_>) -> Option<GcraForm> {
        Some(GcraForm)
    }
}

impl GcraForm {
    pub(super) fn cells(&self, _trails: &[WindowBuckets]) -> Result<GcraPlan, LayoutError> {
        Ok(GcraPlan)
    }
}

/// A change of the bucket of a [`GcraForm`]. Lengths of time are in nanoseconds.
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

/// The operations on the cells of [`GcraForm`].
#[derive(Clone, Debug)]
pub(crate) struct GcraPlan;

impl GcraPlan {
    /// The moment.
    #[inline]
    fn moment(words: &[u64]) -> Option<i64> {
        words.first().filter(|word| **word != 0).map(|word| (word ^ SIGN).cast_signed())
    }

    /// Makes it the cell of a moment.
    #[inline]
    fn set(room: &mut impl CellBuffer, moment: i64) {
        ensure(room, 1);
        if let Some(word) = room.words_mut().first_mut() {
            *word = moment.max(i64::MIN + 1).cast_unsigned() ^ SIGN;
        }
    }
}

impl CellOperations for GcraPlan {
    const AHEAD: Span = Span::days(366);

    fn columns(&self) -> usize {
        1
    }

    #[inline]
    fn read(&self, words: &[u64], _now: Time, out: &mut [u64]) {
        if let Some(out) = out.first_mut() {
            *out = GcraPlan::moment(words).unwrap_or(i64::MIN).cast_unsigned();
        }
    }

    #[inline]
    fn change<'a>(&self, add: &'a Addition, context: &ObservationContext<'_>) -> StatisticChange<'a> {
        let Addition::Flow(flow) = add else { return StatisticChange::Nothing };
        let ObservationContext { time, last, values, .. } = context;
        let moment = values.first().filter(|_| last.is_some()).map(|word| word.cast_signed());
        if flow.after(moment, *time).is_none() {
            return StatisticChange::Nothing;
        }
        // What is let through is so in any order; what a refused one adds depends on what is there.
        let decided = match *flow {
            GcraOperation::Take { cost, .. } if flow.is_within(moment, *time) => GcraOperation::Add { cost },
            flow => flow,
        };
        StatisticChange::Flow(*time, decided)
    }

    #[inline]
    fn apply(&self, room: &mut impl CellBuffer, change: &StatisticChange<'_>) {
        if let StatisticChange::Flow(now, flow) = change
            && let Some(moment) = flow.after(GcraPlan::moment(room.words()), *now)
        {
            GcraPlan::set(room, moment);
        }
    }

    fn merge(&self, room: &mut impl CellBuffer, other: &[u64]) {
        if let Some(moment) = GcraPlan::moment(other) {
            GcraPlan::set(room, GcraPlan::moment(room.words()).map_or(moment, |own| own.max(moment)));
        }
    }

    /// The moment, rounded up, stands for first and last time.
    #[inline]
    fn times(&self, words: &[u64]) -> Option<(Time, Time)> {
        let moment = GcraPlan::moment(words)?;
        let time = Time(moment.div_euclid(1000).saturating_add(i64::from(moment.rem_euclid(1000) > 0)));
        Some((time, time))
    }

    fn expires_after(&self, last: Time) -> Time {
        last
    }

    fn kept_for(&self) -> Span {
        Span::ZERO
    }

    fn check(&self, words: &[u64]) -> bool {
        words.iter().skip(1).all(|word| *word == 0)
    }

    fn content(&self, words: &[u64]) -> Option<CellContent> {
        GcraPlan::moment(words).map(CellContent::Moment)
    }

    fn restore(
        &self,
        room: &mut impl CellBuffer,
        _times: (Time, Time),
        content: &CellContent,
    ) -> Result<(), &'static str> {
        let CellContent::Moment(moment) = content else { return Err(OTHER_CONTENT) };
        GcraPlan::set(room, *moment);
        Ok(())
    }

    fn translate(&self, room: &mut impl CellBuffer, words: &[u64], _old: &GcraPlan, _: &[Option<usize>]) {
        self.merge(room, words);
    }
}

impl CellPlan {
    /// Lets something happen to a bucket. Other statistics do not change.
    #[inline]
    pub fn flow(&self, room: &mut impl CellBuffer, now: Time, flow: &GcraOperation) {
        self.apply(room, &StatisticChange::Flow(now, *flow));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::kind::{CellPlan, Measure};

    fn plan() -> CellPlan {
        CellPlan::new(&Measure::gcra()).unwrap()
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
