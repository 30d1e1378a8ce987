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

use event::{Key, Span, Time};
use serde::{Deserialize, Serialize};

use super::{
    Addition, CellContent, CellOperations, CellPlan, CellPlanKind, OTHER_ADDITION, OTHER_CONTENT,
    ObservationContext, StatisticChange, StatisticForm,
};
use crate::bytes::{ByteReader, push_span, push_varint};
use crate::cell::{CellBuffer, ensure};
use crate::layout::{CellShape, LayoutError, Tier, WindowBuckets};

/// A column that an aggregate keeps over all of a key's events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(tag = "column", rename_all = "lowercase", deny_unknown_fields)]
pub enum AggregateColumn {
    /// Time of the earliest event.
    First,
    /// Time of the latest event.
    Last,
    /// Number of events.
    Count,
    /// Sum of the events' values; exact inside, at the end of the range where it does not fit.
    Sum,
    /// Least value.
    Min,
    /// Greatest value.
    Max,
    /// Sum in which an event counts half after each half-life. As of a time before the last event it is what it is at
    /// the last event.
    Decayed {
        /// After which it counts half.
        half_life: Span,
        /// The weights that are summed.
        #[serde(rename = "of")]
        weight: DecayWeight,
    },
}

/// The weight that a decayed sum adds for an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DecayWeight {
    /// One.
    One,
    /// Its value; nothing for an event without one.
    Value,
}

/// A value of an aggregate's reading.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum AggregateValue {
    /// The value of [`AggregateColumn::First`] and [`AggregateColumn::Last`]; `None` where no event was seen, or only at
    /// the very end or beginning of time.
    Time(Option<Time>),
    /// The value of [`AggregateColumn::Count`].
    Count(u64),
    /// The value of [`AggregateColumn::Sum`], [`AggregateColumn::Min`] and [`AggregateColumn::Max`]. The least or
    /// greatest of no values is `None`; so is a least value of `i64::MAX` and a greatest of `i64::MIN`.
    Integer(Option<i64>),
    /// The value of [`AggregateColumn::Decayed`]. Always finite.
    Real(f64),
}

impl AggregateColumn {
    /// Returns what a reading says where nothing was seen.
    pub(crate) fn neutral(&self) -> u64 {
        match self {
            AggregateColumn::First | AggregateColumn::Min => i64::MAX.cast_unsigned(),
            AggregateColumn::Last | AggregateColumn::Max => i64::MIN.cast_unsigned(),
            AggregateColumn::Count | AggregateColumn::Sum | AggregateColumn::Decayed { .. } => 0,
        }
    }

    /// Returns the word of a reading of two cells of a key, given that of each.
    fn of_both(&self, one: u64, other: u64) -> u64 {
        let (first, second) = (one.cast_signed(), other.cast_signed());
        match self {
            AggregateColumn::First | AggregateColumn::Min => first.min(second).cast_unsigned(),
            AggregateColumn::Last | AggregateColumn::Max => first.max(second).cast_unsigned(),
            AggregateColumn::Count => one.saturating_add(other),
            AggregateColumn::Sum => first.saturating_add(second).cast_unsigned(),
            AggregateColumn::Decayed { .. } => (f64::from_bits(one) + f64::from_bits(other)).to_bits(),
        }
    }

    /// The value that a word of a reading stands for.
    pub fn value(&self, word: u64) -> AggregateValue {
        let integer = word.cast_signed();
        let some = (word != self.neutral()).then_some(integer);
        match self {
            AggregateColumn::First | AggregateColumn::Last => AggregateValue::Time(some.map(Time)),
            AggregateColumn::Count => AggregateValue::Count(word),
            AggregateColumn::Sum => AggregateValue::Integer(Some(integer)),
            AggregateColumn::Min | AggregateColumn::Max => AggregateValue::Integer(some),
            AggregateColumn::Decayed { .. } => AggregateValue::Real(f64::from_bits(word)),
        }
    }
}

/// The columns of an aggregate, and how long a key is kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "AggregateText", into = "AggregateText")]
pub struct AggregateLayout {
    columns: Vec<AggregateColumn>,
    keep: Span,
}

impl AggregateLayout {
    /// Most decayed sums.
    pub const DECAYED_MAX: usize = 4;

    /// Checks, and puts the columns in the order of [`AggregateColumn`]. First, last and count are kept in any case: they share
    /// two words.
    ///
    /// # Errors
    /// [`LayoutError::Columns`].
    pub fn new(mut columns: Vec<AggregateColumn>, keep: Span) -> Result<AggregateLayout, LayoutError> {
        let wrong = |text: String| Err(LayoutError::Columns(text));
        columns.sort_unstable();
        let decayed = |column: &AggregateColumn| match column {
            AggregateColumn::Decayed { half_life, .. } => Some(*half_life),
            _ => None,
        };
        if columns.is_empty() {
            return wrong("there are none".to_owned());
        }
        if columns.windows(2).any(|pair| pair.first() == pair.last()) {
            return wrong("one is there twice".to_owned());
        }
        if columns.iter().filter_map(decayed).count() > AggregateLayout::DECAYED_MAX {
            return wrong(format!("more than {} decayed sums", AggregateLayout::DECAYED_MAX));
        }
        if let Some(half_life) = columns.iter().filter_map(decayed).find(|half_life| *half_life <= Span::ZERO)
        {
            return wrong(format!("the half-life {half_life} is not positive"));
        }
        if keep <= Span::ZERO || keep > CellShape::SPAN_MAX {
            return wrong(format!("keep = {keep} is not positive, or too long"));
        }
        Ok(AggregateLayout { columns, keep })
    }

    /// Returns what is kept, in the order of a reading's values.
    pub fn columns(&self) -> &[AggregateColumn] {
        &self.columns
    }

    /// Returns the time for which a key is kept after its last event.
    pub fn keep(&self) -> Span {
        self.keep
    }
}

/// The text form of a layout.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct AggregateText {
    columns: Vec<AggregateColumn>,
    keep: Span,
}

impl From<AggregateLayout> for AggregateText {
    fn from(AggregateLayout { columns, keep }: AggregateLayout) -> AggregateText {
        AggregateText { columns, keep }
    }
}

impl TryFrom<AggregateText> for AggregateLayout {
    type Error = LayoutError;

    fn try_from(AggregateText { columns, keep }: AggregateText) -> Result<AggregateLayout, LayoutError> {
        AggregateLayout::new(columns, keep)
    }
}

impl StatisticForm for AggregateLayout {
    const NUMBER: u8 = 3;

    fn name(&self) -> &'static str {
        "aggregate"
    }

    /// Returns no counters: the statistic has none, it has columns.
    fn counters(&self) -> Vec<String> {
        Vec::new()
    }

    fn without_windows(&self) -> AggregateLayout {
        self.clone()
    }

    fn decides(&self) -> bool {
        self.columns == [AggregateColumn::Max]
    }

    fn reads_unseen(&self) -> bool {
        true
    }

    fn shape(&self) -> Result<CellShape, LayoutError> {
        CellShape::new(1, &[Tier { width: self.keep, buckets: 1 }], None)
    }

    fn slack(&self) -> Span {
        Span(self.keep.0 / 8)
    }

    fn accepts(&self, _key: &Key, add: &Addition) -> Result<(), &'static str> {
        match add {
            Addition::Nothing | Addition::Value(_) => Ok(()),
            Addition::Lower(_) if self.columns.contains(&AggregateColumn::Max) => Ok(()),
            Addition::Lower(_) => Err("it keeps no greatest value"),
            _ => Err(OTHER_ADDITION),
        }
    }

    fn encode(&self, bytes: &mut Vec<u8>) {
        push_span(bytes, self.keep);
        push_varint(bytes, self.columns.len() as u64);
        for column in &self.columns {
            match column {
                AggregateColumn::First => bytes.push(0),
                AggregateColumn::Last => bytes.push(1),
                AggregateColumn::Count => bytes.push(2),
                AggregateColumn::Sum => bytes.push(3),
                AggregateColumn::Min => bytes.push(4),
                AggregateColumn::Max => bytes.push(5),
                AggregateColumn::Decayed { half_life, weight } => {
                    bytes.push(if *weight == DecayWeight::One { 6 } else { 7 });
                    push_span(bytes, *half_life);
                }
            }
        }
    }

    fn decode(reader: &mut ByteReader<'_>) -> Option<AggregateLayout> {
        let keep = reader.span()?;
        let mut columns = Vec::new();
        for _ in 0..reader.varint()? {
            columns.push(match reader.array()? {
                [0] => AggregateColumn::First,
                [1] => AggregateColumn::Last,
                [2] => AggregateColumn::Count,
                [3] => AggregateColumn::Sum,
                [4] => AggregateColumn::Min,
                [5] => AggregateColumn::Max,
                [6] => AggregateColumn::Decayed { half_life: reader.span()?, weight: DecayWeight::One },
                [7] => AggregateColumn::Decayed { half_life: reader.span()?, weight: DecayWeight::Value },
                _ => return None,
            });
        }
        AggregateLayout::new(columns, keep).ok()
    }
}

impl AggregateLayout {
    pub(super) fn cells(&self, _trails: &[WindowBuckets]) -> Result<AggregatePlan, LayoutError> {
        Ok(AggregatePlan::new(self))
    }
}

/// The columns of an aggregate. What it does not keep is `None`, and so is what no event had.
#[derive(Clone, Debug, PartialEq)]
pub struct AggregateTotals {
    /// Events, at least one.
    pub count: u64,
    /// The sum of values, not clamped.
    pub sum: Option<i128>,
    /// The least value.
    pub min: Option<i64>,
    /// The greatest value.
    pub max: Option<i64>,
    /// Decayed sums as of the last event, in the order of the aggregate's columns.
    pub decayed: Vec<f64>,
}

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

/// The operations on the cells of an aggregate.
#[derive(Clone, Debug)]
pub(crate) struct AggregatePlan {
    columns: Vec<AggregateColumn>,
    /// The part of the base for each column, or [`KEPT`].
    of_base: Vec<u8>,
    keep: Span,
    /// The words of a kept value, after the base.
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

/// The values that every aggregate has.
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
    /// The values of one event.
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
    fn new(aggregate: &AggregateLayout) -> AggregatePlan {
        let mut plan = AggregatePlan {
            columns: aggregate.columns().to_vec(),
            of_base: aggregate.columns().iter().map(of_base).collect(),
            keep: aggregate.keep(),
            sum: None,
            min: None,
            max: None,
            decays: 0,
            halving: Default::default(),
            decayed: 0,
            values: 0,
        };
        for column in aggregate.columns() {
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
}

impl AggregatePlan {
    #[inline]
    fn add(&self, room: &mut impl CellBuffer, time: Time, value: Option<i64>) {
        self.put(room, AggregateHead::of(time), AddedValues::of(time, value));
    }

    /// See [`CellPlan::observe_in_place`].
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

    /// Brings the greatest value down to this, if it is above.
    fn lower(&self, words: &mut [u64], value: i64) {
        let (Some(base), Some(at)) = (AggregateHead::read(words), self.max) else { return };
        if let Some(word) = words.get_mut(base.at + at) {
            *word = word.cast_signed().min(value).cast_unsigned();
        }
    }

    /// All that a cell says, spelled out.
    fn totals(&self, words: &[u64]) -> Option<AggregateTotals> {
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
}

impl CellOperations for AggregatePlan {
    fn columns(&self) -> usize {
        self.columns.len()
    }

    /// Fills one value a column.
    #[inline]
    fn read(&self, words: &[u64], now: Time, out: &mut [u64]) {
        let Some(base) = AggregateHead::read(words) else {
            out.iter_mut().zip(&self.columns).for_each(|(out, column)| *out = column.neutral());
            return;
        };
        self.fill(words, &base, now, out);
    }

    fn estimate(&self, events: u64, _add: &Addition, out: &mut [u64]) {
        let count = self.columns.iter().position(|column| *column == AggregateColumn::Count);
        if let Some(value) = count.and_then(|at| out.get_mut(at)) {
            *value = events;
        }
    }

    fn add_reading(&self, out: &mut [u64], other: &[u64]) {
        for ((value, other), column) in out.iter_mut().zip(other).zip(&self.columns) {
            *value = column.of_both(*value, *other);
        }
    }

    #[inline]
    fn change<'a>(&self, add: &'a Addition, context: &ObservationContext<'_>) -> StatisticChange<'a> {
        let ObservationContext { time, last, sightings, .. } = *context;
        match add {
            Addition::Value(value) => StatisticChange::Value { time, value: *value, sightings },
            Addition::Lower(value) if last.is_some() => StatisticChange::Lower(*value),
            _ => StatisticChange::Nothing,
        }
    }

    #[inline]
    fn apply(&self, room: &mut impl CellBuffer, change: &StatisticChange<'_>) {
        match *change {
            StatisticChange::Value { time, value, sightings } => {
                (0..sightings).for_each(|_| self.add(room, time, None));
                self.add(room, time, value);
            }
            StatisticChange::Lower(value) => self.lower(room.words_mut(), value),
            _ => {}
        }
    }

    fn merge(&self, room: &mut impl CellBuffer, other: &[u64]) {
        let Some(base) = AggregateHead::read(other) else { return };
        self.put(room, base, self.values(other, &base));
    }

    fn times(&self, words: &[u64]) -> Option<(Time, Time)> {
        AggregateHead::read(words).map(|base| (Time(base.first), Time(base.last)))
    }

    fn expires_after(&self, last: Time) -> Time {
        last + self.keep
    }

    fn kept_for(&self) -> Span {
        self.keep
    }

    fn check(&self, words: &[u64]) -> bool {
        let Some(base) = AggregateHead::read(words) else { return words.iter().all(|word| *word == 0) };
        let mut again = [0; 3];
        base.write(&mut again);
        let word = |at: usize| words.get(at).copied().unwrap_or(0);
        (0..base.at).all(|at| word(at) == again[at])
            && base.first <= base.last
            && words.iter().skip(base.at + self.values).all(|word| *word == 0)
            && (0..self.decays).all(|at| f64::from_bits(word(base.at + self.decayed + at)).is_finite())
    }

    fn content(&self, words: &[u64]) -> Option<CellContent> {
        self.totals(words).map(CellContent::Totals)
    }

    /// Puts what [`AggregatePlan::totals`] has spelled out into an empty room.
    fn restore(
        &self,
        room: &mut impl CellBuffer,
        (first, last): (Time, Time),
        content: &CellContent,
    ) -> Result<(), &'static str> {
        let CellContent::Totals(totals) = content else { return Err(OTHER_CONTENT) };
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
            last: last.0,
        };
        self.put(room, AggregateHead::new(first.0, last.0, *count), values);
        Ok(())
    }

    /// Puts another aggregate's cell into an empty room: what both keep is kept, the rest starts anew.
    fn translate(&self, room: &mut impl CellBuffer, words: &[u64], old: &AggregatePlan, _: &[Option<usize>]) {
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

/// Operations on cells of aggregates, for whoever knows that they are.
impl CellPlan {
    /// Returns what the values of an aggregate's reading are; empty for other statistics, whose values are counts.
    pub fn aggregate_columns(&self) -> &[AggregateColumn] {
        match &self.0 {
            CellPlanKind::Aggregate(plan) => &plan.columns,
            _ => &[],
        }
    }

    /// Counts an event of an aggregate, which may have a value. Other statistics do not change.
    #[inline]
    pub fn add_value(&self, room: &mut impl CellBuffer, time: Time, value: Option<i64>) {
        self.apply(room, &StatisticChange::Value { time, value, sightings: 0 });
    }
}

fn wide(low: u64, high: u64) -> i128 {
    (u128::from(high) << 64 | u128::from(low)).cast_signed()
}

/// A sum that stays a number, and has one zero.
fn finite(sum: f64) -> f64 {
    sum.clamp(f64::MIN, f64::MAX) + 0.0
}
