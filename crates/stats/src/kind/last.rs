//! The last value of a field for a key: the country that an account came from, the device that it used.
//!
//! The cell is a register. Of two values the one of the later event stays, and of two at one time the one whose bytes are
//! the greater: so the order in which events come makes no difference, nor how they are grouped.
//!
//! ```text
//! narrow    word 0   last << 12 | length << 2 | 1              1970 to 2112
//! wide      word 0   length << 2 | 2
//!           word 1   last
//! then      the bytes of the value, eight in a word, the first in the most significant place
//! ```
//!
//! The value is kept as it is, not as a hash: rules compare with it, and people read it. What is too long to be kept makes
//! the last value unknown, so that nobody compares with a part of one.

use event::{Key, Span, Time};
use serde::{Deserialize, Serialize};

use super::{
    Addition, CellContent, CellOperations, Measure, OTHER_ADDITION, OTHER_CONTENT, ObservationContext,
    StatisticChange, StatisticForm,
};
use crate::bytes::{ByteReader, push_span};
use crate::cell::{CellBuffer, ensure};
use crate::layout::{CellShape, LayoutError, Tier, WindowBuckets};

const NARROW: u64 = 1;
const WIDE: u64 = 2;
const TIME_BITS: u32 = 52;
/// Words of the longest value.
const VALUE_WORDS: usize = LastValueForm::BYTES_MAX.div_ceil(8);
/// Words of the largest cell.
const CELL_WORDS: usize = 2 + VALUE_WORDS;

/// The last value of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LastValueForm {
    /// The time for which a key is kept after its last value.
    pub keep: Span,
}

impl LastValueForm {
    /// Longest value, in bytes. A longer one is kept as one that is not known.
    pub const BYTES_MAX: usize = 63;

    pub(super) fn cells(&self, _trails: &[WindowBuckets]) -> Result<RegisterPlan, LayoutError> {
        Ok(RegisterPlan { keep: self.keep })
    }

    /// The value that the values of a reading are; `None` where none is known.
    pub fn text(values: &[u64]) -> Option<String> {
        let (length, words) = values.split_first()?;
        let length = usize::try_from(*length).ok().filter(|length| *length > 0)?;
        let bytes = words.iter().flat_map(|word| word.to_be_bytes()).take(length).collect();
        String::from_utf8(bytes).ok()
    }
}

impl Measure {
    /// The last value of a field, kept for so long.
    pub fn last(keep: Span) -> Measure {
        Measure::Last(LastValueForm { keep })
    }
}

impl StatisticForm for LastValueForm {
    const NUMBER: u8 = 7;

    fn name(&self) -> &'static str {
        "last"
    }

    /// Returns no counters: the statistic has none, it has a value.
    fn counters(&self) -> Vec<String> {
        Vec::new()
    }

    fn without_windows(&self) -> LastValueForm {
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
            Addition::Nothing | Addition::Last(_) => Ok(()),
            _ => Err(OTHER_ADDITION),
        }
    }

    fn encode(&self, bytes: &mut Vec<u8>) {
        push_span(bytes, self.keep);
    }

    fn decode(reader: &mut ByteReader<'_>) -> Option<LastValueForm> {
        Some(LastValueForm { keep: reader.span()? })
    }
}

/// The operations on the cells of [`LastValueForm`].
#[derive(Clone, Debug)]
pub(crate) struct RegisterPlan {
    keep: Span,
}

/// A register. The greater one stays: the fields are in the order of their weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct LastValueCell {
    last: i64,
    words: [u64; VALUE_WORDS],
    length: usize,
}

impl LastValueCell {
    fn of(time: Time, value: &str) -> LastValueCell {
        let value = if value.len() > LastValueForm::BYTES_MAX { "" } else { value };
        let mut words = [0; VALUE_WORDS];
        for (word, bytes) in words.iter_mut().zip(value.as_bytes().chunks(8)) {
            let mut eight = [0; 8];
            eight[..bytes.len()].copy_from_slice(bytes);
            *word = u64::from_be_bytes(eight);
        }
        LastValueCell { last: time.0, words, length: value.len() }
    }

    fn read(words: &[u64]) -> Option<LastValueCell> {
        let word = |at: usize| words.get(at).copied().unwrap_or(0);
        let (last, at) = match word(0) & 3 {
            0 => return None,
            NARROW => ((word(0) >> 12).cast_signed(), 1),
            _ => (word(1).cast_signed(), 2),
        };
        let length = (word(0) >> 2) as usize & LastValueForm::BYTES_MAX;
        let mut value = [0; VALUE_WORDS];
        let kept = value.iter_mut().take(length.div_ceil(8)).enumerate();
        kept.for_each(|(number, kept)| *kept = word(at + number));
        Some(LastValueCell { last, words: value, length })
    }

    /// The words of a cell that says it, and how many they are.
    fn packed(&self) -> ([u64; CELL_WORDS], usize) {
        let mut packed = [0; CELL_WORDS];
        let length = (self.length as u64) << 2;
        let at = if self.last.cast_unsigned() >> TIME_BITS == 0 {
            packed[0] = self.last.cast_unsigned() << 12 | length | NARROW;
            1
        } else {
            [packed[0], packed[1]] = [length | WIDE, self.last.cast_unsigned()];
            2
        };
        packed[at..at + VALUE_WORDS].copy_from_slice(&self.words);
        (packed, at + self.length.div_ceil(8))
    }

    /// Writes it, unless what is there is greater.
    fn put(&self, room: &mut impl CellBuffer) {
        if LastValueCell::read(room.words()).is_some_and(|own| own >= *self) {
            return;
        }
        let (packed, words) = self.packed();
        ensure(room, words);
        let room = room.words_mut();
        room.fill(0);
        room.iter_mut().zip(&packed[..words]).for_each(|(to, word)| *to = *word);
    }

    fn text(&self) -> Option<String> {
        let bytes = self.words.iter().flat_map(|word| word.to_be_bytes()).take(self.length).collect();
        String::from_utf8(bytes).ok()
    }
}

impl CellOperations for RegisterPlan {
    /// The length of the value, and its words.
    fn columns(&self) -> usize {
        1 + VALUE_WORDS
    }

    #[inline]
    fn read(&self, words: &[u64], _now: Time, out: &mut [u64]) {
        out.fill(0);
        let Some(cell) = LastValueCell::read(words) else { return };
        if let Some((length, value)) = out.split_first_mut() {
            *length = cell.length as u64;
            value.iter_mut().zip(cell.words).for_each(|(out, word)| *out = word);
        }
    }

    #[inline]
    fn change<'a>(&self, add: &'a Addition, context: &ObservationContext<'_>) -> StatisticChange<'a> {
        match add {
            Addition::Last(value) => StatisticChange::Last(context.time, value),
            _ => StatisticChange::Nothing,
        }
    }

    #[inline]
    fn apply(&self, room: &mut impl CellBuffer, change: &StatisticChange<'_>) {
        if let StatisticChange::Last(time, value) = change {
            LastValueCell::of(*time, value).put(room);
        }
    }

    fn merge(&self, room: &mut impl CellBuffer, other: &[u64]) {
        if let Some(cell) = LastValueCell::read(other) {
            cell.put(room);
        }
    }

    /// The first time is not kept: both are the last.
    #[inline]
    fn times(&self, words: &[u64]) -> Option<(Time, Time)> {
        LastValueCell::read(words).map(|cell| (Time(cell.last), Time(cell.last)))
    }

    fn expires_after(&self, last: Time) -> Time {
        last + self.keep
    }

    fn kept_for(&self) -> Span {
        self.keep
    }

    fn check(&self, words: &[u64]) -> bool {
        let Some(cell) = LastValueCell::read(words) else { return words.iter().all(|word| *word == 0) };
        let (again, _) = cell.packed();
        // What lies behind the end of the value is zero, or the value would be another one.
        let rest = cell.words.iter().flat_map(|word| word.to_be_bytes()).skip(cell.length);
        let is_same = |at: usize| words.get(at).copied().unwrap_or(0) == again.get(at).copied().unwrap_or(0);
        (0..words.len().max(CELL_WORDS)).all(is_same)
            && rest.into_iter().all(|byte| byte == 0)
            && cell.text().is_some()
    }

    fn content(&self, words: &[u64]) -> Option<CellContent> {
        LastValueCell::read(words)?.text().map(CellContent::Last)
    }

    fn restore(
        &self,
        room: &mut impl CellBuffer,
        (_, last): (Time, Time),
        content: &CellContent,
    ) -> Result<(), &'static str> {
        let CellContent::Last(value) = content else { return Err(OTHER_CONTENT) };
        if value.len() > LastValueForm::BYTES_MAX {
            return Err("the value is longer than 63 bytes");
        }
        LastValueCell::of(last, value).put(room);
        Ok(())
    }

    fn translate(&self, room: &mut impl CellBuffer, words: &[u64], _old: &RegisterPlan, _: &[Option<usize>]) {
        self.merge(room, words);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::kind::CellPlan;

    fn plan() -> CellPlan {
        CellPlan::new(&Measure::last(Span(1000))).unwrap()
    }

    fn cell<'a>(seen: impl IntoIterator<Item = &'a (i64, String)>) -> Vec<u64> {
        let mut words = Vec::new();
        for (time, value) in seen {
            plan().apply(&mut words, &StatisticChange::Last(Time(*time), value));
        }
        trimmed(words)
    }

    /// A cell without the zeros that a longer value has left.
    fn trimmed(mut words: Vec<u64>) -> Vec<u64> {
        words.truncate(words.iter().rposition(|word| *word != 0).map_or(0, |last| last + 1));
        words
    }

    fn read(words: &[u64]) -> Option<String> {
        let mut out = vec![7; plan().reading()];
        plan().read(words, Time(0), &mut out);
        LastValueForm::text(&out)
    }

    #[test]
    fn the_later_stays_and_of_two_at_once_the_greater() {
        let seen = |seen: &[(i64, &str)]| {
            read(&cell(&seen.iter().map(|(time, value)| (*time, (*value).to_owned())).collect::<Vec<_>>()))
        };
        assert_eq!(seen(&[]), None);
        assert_eq!(seen(&[(5, "DE")]).as_deref(), Some("DE"));
        assert_eq!(seen(&[(5, "DE"), (6, "AT"), (4, "FR")]).as_deref(), Some("AT"));
        assert_eq!(seen(&[(5, "DE"), (5, "FR"), (5, "DEU")]).as_deref(), Some("FR"));
        assert_eq!(seen(&[(5, "D"), (5, "D\0")]).as_deref(), Some("D\0"), "one that goes on is greater");
        assert_eq!(seen(&[(5, "a longer one"), (6, "DE"), (-1, "x")]).as_deref(), Some("DE"));
        let long = "x".repeat(LastValueForm::BYTES_MAX);
        assert_eq!(seen(&[(5, &long)]), Some(long.clone()));
        assert_eq!(seen(&[(5, "DE"), (6, &(long + "x"))]), None, "too long: it is not known");
        assert_eq!(seen(&[(5, "DE"), (6, "")]), None);
    }

    #[test]
    fn the_packed_forms_are_as_drawn() {
        let seen = |time, value: &str| cell(&[(time, value.to_owned())]);
        assert_eq!(seen(1000, "DE"), [1000 << 12 | 2 << 2 | 1, 0x4445 << 48]);
        assert_eq!(seen(-1, "abcdefghi"), [9 << 2 | 2, u64::MAX, 0x6162_6364_6566_6768, 0x69 << 56]);
        assert_eq!(seen(0, ""), [1]);
    }

    fn events() -> impl Strategy<Value = Vec<(i64, String)>> {
        let time = prop_oneof![6 => -3i64..9, 1 => any::<i64>(), 1 => Just(1 << 52)];
        proptest::collection::vec((time, "[ab\0ü]{0,3}|x{60,66}"), 0..12)
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn a_register_is_the_greatest_of_its_events(
            seen in events(), order in any::<u64>(), split in any::<u64>(), words in proptest::collection::vec(any::<u64>(), 0..11),
        ) {
            let plan = plan();
            let expected = seen.iter().map(|(time, value)| {
                (*time, if value.len() > LastValueForm::BYTES_MAX { "" } else { value })
            }).max();
            let whole = cell(&seen);
            prop_assert!(plan.check(&whole));
            prop_assert_eq!(plan.last(&whole), expected.map(|(time, _)| Time(time)));
            prop_assert_eq!(read(&whole), expected.map(|(_, value)| value.to_owned()).filter(|value| !value.is_empty()));
            // Neither the order nor the grouping makes a difference.
            let mut turned = seen.clone();
            turned.sort_by_key(|(time, value)| (time.wrapping_mul(order as i64), value.len()));
            prop_assert_eq!(&cell(&turned), &whole);
            let of = |side| turned.iter().enumerate().filter(move |(at, _)| split >> at & 1 == side).map(|(_, event)| event);
            let (mut one, other) = (cell(of(0)), cell(of(1)));
            plan.merge(&mut one, &other);
            plan.merge(&mut one, &other);
            prop_assert_eq!(&trimmed(one.clone()), &whole);
            if let Some(((first, last), content)) = plan.times(&whole).zip(plan.content(&whole)) {
                prop_assert_eq!(plan.restore(first, last, &content).map(trimmed), Ok(whole.clone()));
            }
            // Any words are a cell, or are refused.
            if plan.check(&words) {
                plan.merge(&mut one, &words);
                prop_assert!(plan.check(&one));
                read(&words);
            }
        }
    }
}
