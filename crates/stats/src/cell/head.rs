//! The first words of a cell: what form it has, first and last event.
//!
//! ```text
//! short   word 0   last << 12 | count << 5 | lane << 3 | two << 2 | 1       1970 to 2112, at most 127 entries
//!         word 1   first, where it is not the last (two = 1)
//! long    word 0   count << 12 | lane << 3 | 2
//! dense   word 0   count << 12 | lane << 3 | 3
//!         word 1   last
//!         word 2   first
//! ```
//!
//! Word 0 of a cell that has seen anything is never zero. A head only ever gets longer, so the words after it rarely
//! move.

use super::{CellBuffer, ensure};

const SHORT: u64 = 1;
const LONG: u64 = 2;
const DENSE: u64 = 3;
const TWO: u64 = 1 << 2;
const SHORT_COUNT_MAX: usize = 127;
const SHORT_TIME_BITS: u32 = 52;
/// Words of a long or dense head.
pub(crate) const LONG_WORDS: usize = 3;

/// First and last event, and the form of what follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CellHead {
    pub(crate) last: i64,
    pub(crate) first: i64,
    pub(crate) dense: bool,
    /// Size of an entry, as the form of what follows numbers it.
    pub(crate) lane: u32,
    /// Entries.
    pub(crate) count: usize,
    /// Words of the head as it lies in the room.
    pub(crate) at: usize,
}

impl CellHead {
    /// The head of a cell that sees its first event.
    pub(crate) fn fresh(first: i64, last: i64) -> CellHead {
        let mut head = CellHead { last, first, dense: false, lane: 0, count: 0, at: 1 };
        head.at = head.fit();
        head
    }

    /// Reads it; `None` if nothing was seen.
    #[inline]
    pub(crate) fn read(words: &[u64]) -> Option<CellHead> {
        let word = |at: usize| words.get(at).copied().unwrap_or(0);
        let zero = word(0);
        let lane = (zero >> 3 & 3) as u32;
        match zero & 3 {
            0 => None,
            SHORT => {
                let last = (zero >> 12).cast_signed();
                let two = zero & TWO != 0;
                let first = if two { word(1).cast_signed() } else { last };
                let count = (zero >> 5) as usize & SHORT_COUNT_MAX;
                Some(CellHead { last, first, dense: false, lane, count, at: 1 + usize::from(two) })
            }
            form => {
                let [last, first] = [word(1).cast_signed(), word(2).cast_signed()];
                let count = (zero >> 12) as usize;
                Some(CellHead { last, first, dense: form == DENSE, lane, count, at: LONG_WORDS })
            }
        }
    }

    /// Returns whether what [`CellHead::write`] makes of it is what was read, and the times are in order.
    pub(crate) fn check(&self, words: &[u64]) -> bool {
        let mut again = [0; LONG_WORDS];
        self.write(&mut again);
        self.first <= self.last
            && (self.at != 2 || self.first < self.last)
            && (0..self.at).all(|at| words.get(at).copied().unwrap_or(0) == again[at])
    }

    /// Writes it into the words it has.
    #[inline]
    pub(crate) fn write(&self, words: &mut [u64]) {
        let common = u64::from(self.lane) << 3;
        let count = self.count as u64;
        let [last, first] = [self.last.cast_unsigned(), self.first.cast_unsigned()];
        match (self.at, words) {
            (1, [zero, ..]) => *zero = last << 12 | count << 5 | common | SHORT,
            (2, [zero, one, ..]) => {
                *zero = last << 12 | count << 5 | common | TWO | SHORT;
                *one = first;
            }
            (_, [zero, one, two, ..]) => {
                *zero = count << 12 | common | if self.dense { DENSE } else { LONG };
                *one = last;
                *two = first;
            }
            _ => {}
        }
    }

    /// The words that it needs by now.
    #[inline]
    pub(crate) fn fit(&self) -> usize {
        let short = self.at < LONG_WORDS
            && !self.dense
            && self.count <= SHORT_COUNT_MAX
            && self.last.cast_unsigned() >> SHORT_TIME_BITS == 0;
        if short { 1 + usize::from(self.first != self.last) } else { LONG_WORDS }
    }

    /// Makes room for what it needs by now, and for so many words after it.
    #[inline]
    pub(crate) fn settle(&mut self, room: &mut impl CellBuffer, body: usize, wanted: usize) {
        let to = self.fit();
        ensure(room, to + wanted.max(body));
        if to != self.at {
            room.words_mut().copy_within(self.at..self.at + body, to);
            self.at = to;
        }
    }
}
