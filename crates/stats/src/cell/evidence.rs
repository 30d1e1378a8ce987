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

use event::{Span, Time};

use super::{CellBuffer, ensure};
use crate::ledger::Evidence;

const NARROW: u64 = 1;
const WIDE: u64 = 2;
const NARROW_WORDS: usize = 2;
const WIDE_WORDS: usize = 5;
const TIME_BITS: u32 = 52;
const COUNT_BITS: u32 = 20;
const WEIGHT_BITS: u32 = 24;

/// The operations on the cells of [`crate::Measure::Evidence`].
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
    pub(super) const COLUMNS: usize = 3;

    pub(super) fn new(keep: Span) -> EvidencePlan {
        EvidencePlan { keep }
    }

    pub(super) fn keep(&self) -> Span {
        self.keep
    }

    pub(super) fn expires_after(&self, last: Time) -> Time {
        last + self.keep
    }

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

    pub(super) fn merge(&self, room: &mut impl CellBuffer, other: &[u64]) {
        if let Some(EvidenceCell { last, sums, .. }) = EvidenceCell::read(other) {
            self.add(room, Time(last), sums);
        }
    }

    #[inline]
    pub(super) fn read(&self, words: &[u64], out: &mut [u64]) {
        let Evidence { bad, good, weight } = self.sums(words).unwrap_or_default();
        out.iter_mut().zip([bad, good, weight]).for_each(|(out, sum)| *out = sum.cast_unsigned());
    }

    /// All that a cell says, spelled out.
    pub(super) fn sums(&self, words: &[u64]) -> Option<Evidence> {
        EvidenceCell::read(words).map(|state| state.sums)
    }

    /// The first time is not kept: both are the last.
    pub(super) fn times(&self, words: &[u64]) -> Option<(Time, Time)> {
        EvidenceCell::read(words).map(|state| (Time(state.last), Time(state.last)))
    }

    pub(super) fn check(&self, words: &[u64]) -> bool {
        let Some(state) = EvidenceCell::read(words) else { return words.iter().all(|word| *word == 0) };
        let mut again = [0; WIDE_WORDS];
        state.write(&mut again);
        (0..words.len().max(WIDE_WORDS))
            .all(|at| words.get(at).copied().unwrap_or(0) == again.get(at).copied().unwrap_or(0))
    }
}
