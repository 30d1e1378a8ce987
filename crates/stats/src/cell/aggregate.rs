//! First and last event, their number, and what can be said of a value over all of them in a few fixed words.
//!
//! ```text
//! compact   word 0   last << 12 | (count >> 16) << 2 | 1       1970 to 2112, count below 2^26,
//!           word 1   (last - first) << 16 | count & ffff       8.9 years from first to last
//! wide      word 0   count << 2 | 2
//!           word 1   last
//!           word 2   first
//! then      sum (two words, 128 bits), min, max, decayed sums: those that are kept, in this order
//! ```
//!
//! A decayed sum is worth what it says at the last event: each value times `2^-(age / half-life)`. So its reference
//! time needs no word, it only ever shrinks when it is moved, and no order of events can make it overflow (Cormode,
//! Shkapenyuk, Srivastava and Xu, "Forward Decay", 2009, choose a fixed landmark instead, whose weights grow).

use event::{Span, Time};

use super::{CellBuffer, ensure};
use crate::cell_export::AggregateTotals;
use crate::layout::{AggregateColumn, AggregateLayout, DecayWeight};

const COMPACT: u64 = 1;
const WIDE: u64 = 2;
const TIME_BITS: u32 = 52;
const COUNT_BITS: u32 = 26;
const COUNT_MAX: u64 = (1 << 62) - 1;

/// A column that is no part of the base.
const KEPT: u8 = u8::MAX;

fn of_base(column: &AggregateColumn) -> u8 {
    match column {
        AggregateColumn::First => 0,
        AggregateColumn::Last => 1,
        AggregateColumn::Count => 2,
        _ => KEPT,
    }
}

/// The operations on the cells of a track.
#[derive(Clone, Debug)]
pub(crate) struct AggregatePlan {
    columns: Vec<AggregateColumn>,
    /// For each column which part of the base it is, or [`KEPT`].
    of_base: Vec<u8>,
    keep: Span,
    /// Where the words of a kept value are, after the base.
    sum: Option<usize>,
    min: Option<usize>,
    max: Option<usize>,
    decays: usize,
    halving: [HalfLife; AggregateLayout::DECAYED_MAX],
    decayed: usize,
    values: usize,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct HalfLife {
    /// Half-lives in a microsecond.
    rate: f64,
    counts: bool,
}

/// The values that every track has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct AggregateHead {
    last: i64,
    first: i64,
    count: u64,
    at: usize,
}

impl AggregateHead {
    /// One event.
    #[inline(always)]
    fn of(time: Time) -> AggregateHead {
        AggregateHead { last: time.0, first: time.0, count: 1, at: 0 }
    }

    /// Always inlined: what is returned through memory by parts and read back whole waits until all stores before it have
    /// reached their lines, those of other cells included.
    #[inline(always)]
    fn read(words: &[u64]) -> Option<AggregateHead> {
        let word = |at: usize| words.get(at).copied().unwrap_or(0);
        let zero = word(0);
        match zero & 3 {
            0 => None,
            COMPACT => {
                let last = (zero >> 12).cast_signed();
                let first = last - (word(1) >> 16).cast_signed();
                let count = (zero >> 2 & 0x3ff) << 16 | word(1) & 0xffff;
                Some(AggregateHead { last, first, count, at: 2 })
            }
            _ => Some(AggregateHead {
                last: word(1).cast_signed(),
                first: word(2).cast_signed(),
                count: zero >> 2,
                at: 3,
            }),
        }
    }

    fn new(first: i64, last: i64, count: u64) -> AggregateHead {
        let mut base = AggregateHead { last, first, count, at: 2 };
        base.at = base.fit();
        base
    }

    /// The words that it needs by now. Never fewer than before.
    #[inline]
    fn fit(&self) -> usize {
        let compact = self.at == 2
            && self.last.cast_unsigned() >> TIME_BITS == 0
            && self.last.wrapping_sub(self.first).cast_unsigned() >> 48 == 0
            && self.count >> COUNT_BITS == 0;
        if compact { 2 } else { 3 }
    }

    #[inline(always)]
    fn write(&self, words: &mut [u64]) {
        match (self.at, words) {
            (2, [zero, one, ..]) => {
                *zero = self.last.cast_unsigned() << 12 | self.count >> 16 << 2 | COMPACT;
                *one = self.last.wrapping_sub(self.first).cast_unsigned() << 16 | self.count & 0xffff;
            }
            (_, [zero, one, two, ..]) => {
                *zero = self.count << 2 | WIDE;
                *one = self.last.cast_unsigned();
                *two = self.first.cast_unsigned();
            }
            _ => {}
        }
    }

    #[inline(always)]
    fn see(&mut self, first: i64, last: i64, count: u64) {
        self.first = self.first.min(first);
        self.last = self.last.max(last);
        self.count = self.count.saturating_add(count).min(COUNT_MAX);
    }

    /// Writes it in a room that has so many words after it.
    #[inline]
    fn store(&mut self, room: &mut impl CellBuffer, values: usize) {
        let to = self.fit();
        ensure(room, to + values);
        if to != self.at {
            room.words_mut().copy_within(self.at..self.at + values, to);
            self.at = to;
        }
        self.write(room.words_mut());
    }
}

impl HalfLife {
    /// Returns what is left after so many microseconds.
    #[inline]
    fn after(self, later: i64, earlier: i64) -> f64 {
        if later <= earlier {
            return 1.0;
        }
        (later.abs_diff(earlier) as f64 * -self.rate).exp2()
    }
}

/// Events whose values are added to a cell.
#[derive(Clone, Copy)]
struct AddedValues<'a> {
    sum: i128,
    min: i64,
    max: i64,
    /// Values and number of events, for decayed sums of either.
    decayed: DecayedValues<'a>,
    last: i64,
}

#[derive(Clone, Copy)]
enum DecayedValues<'a> {
    One(f64),
    Words(&'a [u64]),
}

impl AddedValues<'_> {
    /// Those of one event.
    #[inline(always)]
    fn of(time: Time, value: Option<i64>) -> AddedValues<'static> {
        AddedValues {
            sum: i128::from(value.unwrap_or(0)),
            min: value.unwrap_or(i64::MAX),
            max: value.unwrap_or(i64::MIN),
            decayed: DecayedValues::One(value.unwrap_or(0) as f64),
            last: time.0,
        }
    }
}

impl AggregatePlan {
    pub(super) fn new(track: &AggregateLayout) -> AggregatePlan {
        let mut plan = AggregatePlan {
            columns: track.columns().to_vec(),
            of_base: track.columns().iter().map(of_base).collect(),
            keep: track.keep(),
            sum: None,
            min: None,
            max: None,
            decays: 0,
            halving: Default::default(),
            decayed: 0,
            values: 0,
        };
        for column in track.columns() {
            match column {
                AggregateColumn::First | AggregateColumn::Last | AggregateColumn::Count => {}
                AggregateColumn::Sum => {
                    plan.sum = Some(plan.values);
                    plan.values += 2;
                }
                AggregateColumn::Min => {
                    plan.min = Some(plan.values);
                    plan.values += 1;
                }
                AggregateColumn::Max => {
                    plan.max = Some(plan.values);
                    plan.values += 1;
                }
                AggregateColumn::Decayed { half_life, weight } => {
                    if plan.decays == 0 {
                        plan.decayed = plan.values;
                    }
                    if let Some(halving) = plan.halving.get_mut(plan.decays) {
                        *halving =
                            HalfLife { rate: 1.0 / half_life.0 as f64, counts: *weight == DecayWeight::One };
                        plan.decays += 1;
                        plan.values += 1;
                    }
                }
            }
        }
        plan
    }

    pub(super) fn columns(&self) -> &[AggregateColumn] {
        &self.columns
    }

    pub(super) fn expires_after(&self, last: Time) -> Time {
        last + self.keep
    }

    pub(super) fn keep(&self) -> Span {
        self.keep
    }

    #[inline]
    pub(super) fn add(&self, room: &mut impl CellBuffer, time: Time, value: Option<i64>) {
        self.put(room, AggregateHead::of(time), AddedValues::of(time, value));
    }

    /// See [`super::Plan::observe_in_place`].
    #[inline(always)]
    pub(super) fn observe_in_place(
        &self,
        words: &mut [u64],
        time: Time,
        value: Option<i64>,
        is_gone: impl FnOnce(Time) -> bool,
        out: &mut [u64],
    ) -> Option<(Time, Time)> {
        let before = AggregateHead::read(words)?;
        if is_gone(Time(before.last)) {
            return None;
        }
        let base = self.seen_in_place(words, before, AggregateHead::of(time))?;
        self.fill(words, &before, time, out);
        base.write(words);
        if self.values > 0 {
            let kept = &mut words[base.at..base.at + self.values];
            self.gather(kept, base.last, before.last, AddedValues::of(time, value));
        }
        Some((Time(before.first), Time(before.last)))
    }

    /// Returns the base after it has seen more; `None` if the cell has no room for that.
    #[inline(always)]
    fn seen_in_place(
        &self,
        words: &[u64],
        mut base: AggregateHead,
        seen: AggregateHead,
    ) -> Option<AggregateHead> {
        base.see(seen.first, seen.last, seen.count);
        (base.fit() == base.at && words.len() >= base.at + self.values).then_some(base)
    }

    /// Brings the greatest value down to this, if it is above.
    pub(super) fn lower(&self, words: &mut [u64], value: i64) {
        let (Some(base), Some(at)) = (AggregateHead::read(words), self.max) else { return };
        if let Some(word) = words.get_mut(base.at + at) {
            *word = word.cast_signed().min(value).cast_unsigned();
        }
    }

    pub(super) fn merge(&self, room: &mut impl CellBuffer, other: &[u64]) {
        let Some(base) = AggregateHead::read(other) else { return };
        self.put(room, base, self.values(other, &base));
    }

    fn values<'a>(&self, words: &'a [u64], base: &AggregateHead) -> AddedValues<'a> {
        let word = |at: usize| words.get(base.at + at).copied().unwrap_or(0);
        AddedValues {
            sum: self.sum.map_or(0, |at| wide(word(at), word(at + 1))),
            min: self.min.map_or(i64::MAX, |at| word(at).cast_signed()),
            max: self.max.map_or(i64::MIN, |at| word(at).cast_signed()),
            decayed: DecayedValues::Words(words.get(base.at + self.decayed..).unwrap_or_default()),
            last: base.last,
        }
    }

    #[inline]
    fn put(&self, room: &mut impl CellBuffer, seen: AggregateHead, values: AddedValues<'_>) {
        let words = room.words_mut();
        let Some(before) = AggregateHead::read(words) else { return self.put_anew(room, seen, values) };
        let Some(base) = self.seen_in_place(words, before, seen) else {
            return self.put_anew(room, seen, values);
        };
        base.write(words);
        self.gather(&mut words[base.at..base.at + self.values], base.last, before.last, values);
    }

    /// Puts values into a cell that may have to grow.
    fn put_anew(&self, room: &mut impl CellBuffer, seen: AggregateHead, values: AddedValues<'_>) {
        let (mut base, before) = match AggregateHead::read(room.words()) {
            Some(mut base) => {
                let before = base.last;
                base.see(seen.first, seen.last, seen.count);
                (base, before)
            }
            None => {
                let base = AggregateHead::new(seen.first, seen.last, seen.count);
                ensure(room, base.at + self.values);
                let kept = &mut room.words_mut()[base.at..];
                self.min.into_iter().for_each(|at| kept[at] = i64::MAX.cast_unsigned());
                self.max.into_iter().for_each(|at| kept[at] = i64::MIN.cast_unsigned());
                (base, seen.last)
            }
        };
        base.store(room, self.values);
        let kept = &mut room.words_mut()[base.at..base.at + self.values];
        self.gather(kept, base.last, before, values);
    }

    /// Adds values to the words after the base, which were as of `before` and are to be as of `last`.
    fn gather(&self, kept: &mut [u64], last: i64, before: i64, values: AddedValues<'_>) {
        if let Some(at) = self.sum {
            // Wraps after 2^64 values of the greatest size: no cell counts as many, and no order changes the sum.
            let sum = wide(kept[at], kept[at + 1]).wrapping_add(values.sum).cast_unsigned();
            [kept[at], kept[at + 1]] = [sum as u64, (sum >> 64) as u64];
        }
        if let Some(at) = self.min {
            kept[at] = kept[at].cast_signed().min(values.min).cast_unsigned();
        }
        if let Some(at) = self.max {
            kept[at] = kept[at].cast_signed().max(values.max).cast_unsigned();
        }
        for (number, halving) in self.halving[..self.decays].iter().enumerate() {
            let word = &mut kept[self.decayed + number];
            let more = match values.decayed {
                DecayedValues::One(_) if halving.counts => 1.0,
                DecayedValues::One(value) => value,
                DecayedValues::Words(words) => f64::from_bits(words.get(number).copied().unwrap_or(0)),
            };
            let old = f64::from_bits(*word) * halving.after(last, before);
            *word = finite(old + more * halving.after(last, values.last)).to_bits();
        }
    }

    /// Fills one value a column.
    #[inline]
    pub(super) fn read(&self, words: &[u64], now: Time, out: &mut [u64]) {
        let Some(base) = AggregateHead::read(words) else {
            out.iter_mut().zip(&self.columns).for_each(|(out, column)| *out = column.neutral());
            return;
        };
        self.fill(words, &base, now, out);
    }

    #[inline(always)]
    fn fill(&self, words: &[u64], base: &AggregateHead, now: Time, out: &mut [u64]) {
        let of_base = [base.first.cast_unsigned(), base.last.cast_unsigned(), base.count];
        for (at, (out, of)) in out.iter_mut().zip(&self.of_base).enumerate() {
            *out = match of_base.get(usize::from(*of)) {
                Some(value) => *value,
                None => self.kept(at, base, words, now),
            };
        }
    }

    /// Returns the value of one of the columns after the base.
    fn kept(&self, column: usize, base: &AggregateHead, words: &[u64], now: Time) -> u64 {
        let word = |at: Option<usize>| words.get(base.at + at.unwrap_or(0)).copied().unwrap_or(0);
        match self.columns[column] {
            AggregateColumn::First | AggregateColumn::Last | AggregateColumn::Count => 0,
            AggregateColumn::Sum => {
                let sum = wide(word(self.sum), word(self.sum.map(|at| at + 1)));
                (sum.clamp(i64::MIN.into(), i64::MAX.into()) as i64).cast_unsigned()
            }
            AggregateColumn::Min => word(self.min),
            AggregateColumn::Max => word(self.max),
            AggregateColumn::Decayed { .. } => {
                let decays = |column: &&AggregateColumn| matches!(column, AggregateColumn::Decayed { .. });
                let number = self.columns[..column].iter().filter(decays).count();
                let value = f64::from_bits(word(Some(self.decayed + number)));
                (value * self.halving[number].after(now.0, base.last) + 0.0).to_bits()
            }
        }
    }

    pub(super) fn times(&self, words: &[u64]) -> Option<(Time, Time)> {
        AggregateHead::read(words).map(|base| (Time(base.first), Time(base.last)))
    }

    pub(super) fn check(&self, words: &[u64]) -> bool {
        let Some(base) = AggregateHead::read(words) else { return words.iter().all(|word| *word == 0) };
        let mut again = [0; 3];
        base.write(&mut again);
        let word = |at: usize| words.get(at).copied().unwrap_or(0);
        (0..base.at).all(|at| word(at) == again[at])
            && base.first <= base.last
            && words.iter().skip(base.at + self.values).all(|word| *word == 0)
            && (0..self.decays).all(|at| f64::from_bits(word(base.at + self.decayed + at)).is_finite())
    }

    /// All that a cell says, spelled out.
    pub(super) fn totals(&self, words: &[u64]) -> Option<AggregateTotals> {
        let base = AggregateHead::read(words)?;
        let AddedValues { sum, min, max, .. } = self.values(words, &base);
        let decayed = (0..self.decays).map(|at| words.get(base.at + self.decayed + at).copied().unwrap_or(0));
        Some(AggregateTotals {
            count: base.count,
            sum: self.sum.map(|_| sum),
            min: self.min.map(|_| min).filter(|min| *min < i64::MAX),
            max: self.max.map(|_| max).filter(|max| *max > i64::MIN),
            decayed: decayed.map(f64::from_bits).collect(),
        })
    }

    /// Puts what [`TrackPlan::totals`] has spelled out into an empty room.
    pub(super) fn restore(
        &self,
        room: &mut impl CellBuffer,
        first: i64,
        last: i64,
        totals: &AggregateTotals,
    ) -> Result<(), &'static str> {
        let AggregateTotals { count, sum, min, max, decayed } = totals;
        if *count == 0 || *count > COUNT_MAX {
            return Err("the count is zero, or more than 2^62 - 1");
        }
        let kept = [self.sum, self.min, self.max].map(|at| at.is_some());
        let given = [sum.is_some(), min.is_some(), max.is_some()];
        if given.iter().zip(kept).any(|(given, kept)| *given && !kept) || decayed.len() != self.decays {
            return Err("its values are not those that the definition names");
        }
        if decayed.iter().any(|sum| !sum.is_finite()) {
            return Err("a decayed sum is no finite number");
        }
        let decayed: Vec<u64> = decayed.iter().map(|sum| sum.to_bits()).collect();
        let values = AddedValues {
            sum: sum.unwrap_or(0),
            min: min.unwrap_or(i64::MAX),
            max: max.unwrap_or(i64::MIN),
            decayed: DecayedValues::Words(&decayed),
            last,
        };
        self.put(room, AggregateHead::new(first, last, *count), values);
        Ok(())
    }

    /// Puts another track's cell into an empty room: what both keep is kept, the rest starts anew.
    pub(super) fn translate(&self, room: &mut impl CellBuffer, words: &[u64], old: &AggregatePlan) {
        let Some(base) = AggregateHead::read(words) else { return };
        let values = old.values(words, &base);
        let mut decayed = [0; AggregateLayout::DECAYED_MAX];
        for (number, halving) in self.halving[..self.decays].iter().enumerate() {
            let same = old.halving[..old.decays].iter().position(|known| known == halving);
            decayed[number] =
                same.and_then(|same| words.get(base.at + old.decayed + same)).copied().unwrap_or(0);
        }
        self.put(room, base, AddedValues { decayed: DecayedValues::Words(&decayed), ..values });
    }
}

fn wide(low: u64, high: u64) -> i128 {
    (u128::from(high) << 64 | u128::from(low)).cast_signed()
}

/// A sum that stays a number, and has one zero.
fn finite(sum: f64) -> f64 {
    sum.clamp(f64::MIN, f64::MAX) + 0.0
}
