//! Evidence that a classifier has learned of one key: how many good and bad messages had it, and a weight.
//!
//! ```text
//! narrow    word 0   last << 12 | 1                            1970 to 2112
//!           word 1   bad (20 bits), good (20 bits), weight (24 bits), each in two's complement
//! wide      word 0   2
//!           word 1   last
//!           then     bad, good, weight
//! ```
//!
//! All three are sums, of what may be negative: what was learned is taken back by adding its opposite, in any order.
//! They wrap, or else an addition and its opposite would not cancel out.

use event::{Key, Span, Time};
use serde::{Deserialize, Serialize};

use super::{
    Addition, CellContent, CellOperations, CellPlan, OTHER_ADDITION, OTHER_CONTENT, ObservationContext,
    StatisticChange, StatisticForm,
};
use crate::bytes::{ByteReader, push_span};
use crate::cell::{CellBuffer, ensure};
use crate::layout::{CellShape, LayoutError, Tier, WindowBuckets};

/// Evidence that a classifier has learned of each key: messages of either class that had it, and a weight. A reading's
/// columns are these three, see [`Evidence::of`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EvidenceForm {
    /// The time for which a key is kept after it was last learned.
    pub keep: Span,
}

impl StatisticForm for EvidenceForm {
    const NUMBER: u8 = 5;

    fn name(&self) -> &'static str {
        "evidence"
    }

    fn counters(&self) -> Vec<String> {
        ["bad", "good", "weight"].map(str::to_owned).to_vec()
    }

    fn without_windows(&self) -> EvidenceForm {
        *self
    }

    fn shape(&self) -> Result<CellShape, LayoutError> {
        CellShape::new(1, &[Tier { width: self.keep, buckets: 1 }], None)
    }

    fn slack(&self) -> Span {
        Span(self.keep.0 / 8)
    }

    fn accepts(&self, _key: &Key, add: &Addition) -> Result<(), &'static str> {
        match add {
            Addition::Nothing | Addition::Evidence(_) => Ok(()),
            _ => Err(OTHER_ADDITION),
        }
    }

    fn encode(&self, bytes: &mut Vec<u8>) {
        push_span(bytes, self.keep);
    }

    fn decode(reader: &mut ByteReader<'_>) -> Option<EvidenceForm> {
        Some(EvidenceForm { keep: reader.span()? })
    }
}

impl EvidenceForm {
    pub(super) fn cells(&self, _trails: &[WindowBuckets]) -> Result<EvidencePlan, LayoutError> {
        Ok(EvidencePlan { keep: self.keep })
    }
}

/// Evidence that a classifier learns of a key, or takes back: all three are sums.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Evidence {
    /// Messages of the bad class.
    pub bad: i64,
    /// Messages of the good class.
    pub good: i64,
    /// A weight, in units of the classifier's own.
    pub weight: i64,
}

impl Evidence {
    /// Returns what a [`ReadingView`](crate::ReadingView) or [`Reading`](crate::Reading) of an [`EvidenceForm`] says, given its
    /// `sum`; nothing was learned of a key never seen.
    pub fn of(sum: impl Fn(usize, usize) -> u64) -> Evidence {
        let [bad, good, weight] = [0, 1, 2].map(|column| sum(0, column).cast_signed());
        Evidence { bad, good, weight }
    }

    /// Both together. Sums wrap.
    pub fn plus(self, other: Evidence) -> Evidence {
        Evidence {
            bad: self.bad.wrapping_add(other.bad),
            good: self.good.wrapping_add(other.good),
            weight: self.weight.wrapping_add(other.weight),
        }
    }

    /// Returns what takes it back.
    pub fn opposite(self) -> Evidence {
        Evidence {
            bad: self.bad.wrapping_neg(),
            good: self.good.wrapping_neg(),
            weight: self.weight.wrapping_neg(),
        }
    }
}

const NARROW: u64 = 1;
const WIDE: u64 = 2;
const NARROW_WORDS: usize = 2;
const WIDE_WORDS: usize = 5;
const TIME_BITS: u32 = 52;
const COUNT_BITS: u32 = 20;
const WEIGHT_BITS: u32 = 24;

/// The operations on the cells of [`EvidenceForm`].
#[derive(Clone, Debug)]
pub(crate) struct EvidencePlan {
    keep: Span,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct EvidenceCell {
    last: i64,
    sums: Evidence,
    is_wide: bool,
}

impl EvidenceCell {
    #[inline]
    fn read(words: &[u64]) -> Option<EvidenceCell> {
        let word = |at: usize| words.get(at).copied().unwrap_or(0);
        match word(0) & 3 {
            0 => None,
            NARROW => {
                let packed = word(1);
                let sums = Evidence {
                    bad: signed(packed >> (COUNT_BITS + WEIGHT_BITS), COUNT_BITS),
                    good: signed(packed >> WEIGHT_BITS, COUNT_BITS),
                    weight: signed(packed, WEIGHT_BITS),
                };
                Some(EvidenceCell { last: (word(0) >> 12).cast_signed(), sums, is_wide: false })
            }
            _ => {
                let [bad, good, weight] = [2, 3, 4].map(|at| word(at).cast_signed());
                let sums = Evidence { bad, good, weight };
                Some(EvidenceCell { last: word(1).cast_signed(), sums, is_wide: true })
            }
        }
    }

    /// Returns whether the narrow form will do. What is wide stays so.
    fn fits(&self) -> bool {
        let fits = |value: i64, bits: u32| signed(value.cast_unsigned(), bits) == value;
        let Evidence { bad, good, weight } = self.sums;
        !self.is_wide
            && self.last.cast_unsigned() >> TIME_BITS == 0
            && fits(bad, COUNT_BITS)
            && fits(good, COUNT_BITS)
            && fits(weight, WEIGHT_BITS)
    }

    fn write(&self, words: &mut [u64]) {
        let Evidence { bad, good, weight } = self.sums;
        match (self.is_wide, words) {
            (false, [zero, one, ..]) => {
                *zero = self.last.cast_unsigned() << 12 | NARROW;
                *one = low(bad, COUNT_BITS) << (COUNT_BITS + WEIGHT_BITS)
                    | low(good, COUNT_BITS) << WEIGHT_BITS
                    | low(weight, WEIGHT_BITS);
            }
            (true, [zero, one, two, three, four, ..]) => {
                [*zero, *one] = [WIDE, self.last.cast_unsigned()];
                [*two, *three, *four] = [bad, good, weight].map(i64::cast_unsigned);
            }
            _ => {}
        }
    }
}

/// The lowest bits as a number in two's complement.
#[inline]
fn signed(word: u64, bits: u32) -> i64 {
    (word << (u64::BITS - bits)).cast_signed() >> (u64::BITS - bits)
}

#[inline]
fn low(value: i64, bits: u32) -> u64 {
    value.cast_unsigned() & ((1 << bits) - 1)
}

impl EvidencePlan {
    /// Values of a reading: bad, good, weight.
    const COLUMNS: usize = 3;

    #[inline]
    pub(super) fn add(&self, room: &mut impl CellBuffer, time: Time, evidence: Evidence) {
        let mut state = EvidenceCell::read(room.words()).unwrap_or(EvidenceCell {
            last: i64::MIN,
            sums: Evidence::default(),
            is_wide: false,
        });
        state.last = state.last.max(time.0);
        state.sums = state.sums.plus(evidence);
        state.is_wide = !state.fits();
        ensure(room, if state.is_wide { WIDE_WORDS } else { NARROW_WORDS });
        state.write(room.words_mut());
    }

    /// All that a cell says, spelled out.
    fn sums(&self, words: &[u64]) -> Option<Evidence> {
        EvidenceCell::read(words).map(|state| state.sums)
    }
}

impl CellOperations for EvidencePlan {
    fn columns(&self) -> usize {
        EvidencePlan::COLUMNS
    }

    #[inline]
    fn read(&self, words: &[u64], _now: Time, out: &mut [u64]) {
        let Evidence { bad, good, weight } = self.sums(words).unwrap_or_default();
        out.iter_mut().zip([bad, good, weight]).for_each(|(out, sum)| *out = sum.cast_unsigned());
    }

    #[inline]
    fn change<'a>(&self, add: &'a Addition, context: &ObservationContext<'_>) -> StatisticChange<'a> {
        match add {
            Addition::Evidence(evidence) => StatisticChange::Evidence(context.time, *evidence),
            _ => StatisticChange::Nothing,
        }
    }

    #[inline]
    fn apply(&self, room: &mut impl CellBuffer, change: &StatisticChange<'_>) {
        if let StatisticChange::Evidence(time, evidence) = change {
            self.add(room, *time, *evidence);
        }
    }

    fn merge(&self, room: &mut impl CellBuffer, other: &[u64]) {
        if let Some(EvidenceCell { last, sums, .. }) = EvidenceCell::read(other) {
            self.add(room, Time(last), sums);
        }
    }

    /// The first time is not kept: both are the last.
    fn times(&self, words: &[u64]) -> Option<(Time, Time)> {
        EvidenceCell::read(words).map(|state| (Time(state.last), Time(state.last)))
    }

    fn expires_after(&self, last: Time) -> Time {
        last + self.keep
    }

    fn kept_for(&self) -> Span {
        self.keep
    }

    fn check(&self, words: &[u64]) -> bool {
        let Some(state) = EvidenceCell::read(words) else { return words.iter().all(|word| *word == 0) };
        let mut again = [0; WIDE_WORDS];
        state.write(&mut again);
        (0..words.len().max(WIDE_WORDS))
            .all(|at| words.get(at).copied().unwrap_or(0) == again.get(at).copied().unwrap_or(0))
    }

    fn content(&self, words: &[u64]) -> Option<CellContent> {
        self.sums(words).map(CellContent::Evidence)
    }

    fn restore(
        &self,
        room: &mut impl CellBuffer,
        (_, last): (Time, Time),
        content: &CellContent,
    ) -> Result<(), &'static str> {
        let CellContent::Evidence(sums) = content else { return Err(OTHER_CONTENT) };
        self.add(room, last, *sums);
        Ok(())
    }

    fn translate(&self, room: &mut impl CellBuffer, words: &[u64], _old: &EvidencePlan, _: &[Option<usize>]) {
        self.merge(room, words);
    }
}

impl CellPlan {
    /// Adds to what a classifier has learned. Other statistics do not change.
    #[inline]
    pub fn add_evidence(&self, room: &mut impl CellBuffer, time: Time, evidence: Evidence) {
        self.apply(room, &StatisticChange::Evidence(time, evidence));
    }
}
