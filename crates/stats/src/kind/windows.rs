//! Counters over one or two tiers of buckets.
//!
//! What a cell holds is a function of the *set* of events that it has seen. Let `w` and `N` be the width and number
//! of the fine tier's buckets, `W` and `M` those of the coarse tier, and `head` the fine bucket of the latest event:
//!
//! * a fine bucket `b` is kept iff `b >= head - N`;
//! * an older one is folded into its coarse bucket `D = floor(b·w / W)`, which is kept iff `D >= D(head) - M`;
//! * what is older still is dropped, as is everything older than the fine tier where there is no coarse one.
//!
//! An event that arrives late goes straight to where it would be by now. Adding saturates, so cells form a
//! commutative monoid under [`WindowsPlan::merge`].
//!
//! Some counters may hold what was taken back of others (see [`crate::Layout`]). They add like all counters, and cells
//! stay a monoid; a reading is of the others, less what was taken back of them: a PN-counter (Shapiro et al., A
//! comprehensive study of convergent and commutative replicated data types, 2011) in each bucket.
//!
//! The `N + 1` kept fine buckets lie in a ring: bucket `b` has slot `b mod (N + 1)`, whatever the head, so nothing
//! moves when the head does. The `M + 1` coarse ones have the slots after them.
//!
//! ```text
//! sparse   head, then entries { counter, slot, amount } of 32, 64 or 128 bits, the least recent first
//!          or a short head alone: one event, which counted 1 in counter 0 (entry size 3)
//! dense    head, sizes of columns (4 bits each: 0, 1, 2, 4 or 8 bytes a bucket, as 0 to 4), then the columns
//! ```
//!
//! A column is one counter over one tier, in whole words; a counter's coarse column follows its fine one. A cell is
//! sparse until dense is smaller. A place may have several entries, which add up.

use std::collections::BTreeMap;

use event::{Key, Span, Time};
use serde::{Deserialize, Serialize};

use super::series::{BucketSeries, BucketSummary, SeriesPlan};
use super::{
    Addition, CellContent, CellOperations, CellPlan, CellPlanKind, OTHER_ADDITION, OTHER_CONTENT,
    ObservationContext, Origin, StatisticChange, StatisticForm,
};
use crate::bytes::{ByteReader, push_span, push_text, push_tier, push_varint};
use crate::cell::divisor::Divisor;
use crate::cell::head::{CellHead, LONG_WORDS};
use crate::cell::{CellBuffer, ensure, fit_down, lanes};
use crate::layout::{CellShape, LayoutError, Tier, WindowBuckets};

/// A layout of what is kept per key: named counters over one or two tiers, first and last event time, and the windows that
/// readings carry.
///
/// Counters only ever go up, so that a cell is a function of the set of its additions whatever their order. What was
/// counted is taken back by a second counter: `~complaint`, after all that have no `~`, holds what was taken back of
/// `complaint`. To be exact it is to go up at the *time* of what is taken back: both then lie in one bucket, age
/// together, and no window sees one without the other. Readings have no such counters, but the differences, at least
/// zero. (Behind an admission sketch what came before a key's cell was not counted, and must not be taken back.)
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "WindowsText", into = "WindowsText")]
pub struct Layout {
    counters: Vec<String>,
    shown: usize,
    shape: CellShape,
    windows: Vec<Span>,
    trails: Vec<WindowBuckets>,
    series: Vec<BucketSeries>,
}

impl Layout {
    /// Longest name of a counter, in bytes.
    pub const NAME_BYTES_MAX: usize = 64;
    /// The beginning of the name of a counter that holds what was taken back of another.
    pub const TAKEN_BACK: char = '~';
    /// Most counters of what was taken back.
    pub const TAKEN_MAX: usize = 16;
    /// Most windows.
    pub const WINDOWS_MAX: usize = 64;

    /// Checks and compiles. Tiers are one, or a fine and a coarse one; `keep` defaults to the longest tier.
    ///
    /// # Errors
    /// Says what does not fit and what would.
    pub fn new(
        counters: Vec<String>,
        tiers: &[Tier],
        windows: Vec<Span>,
        keep: Option<Span>,
    ) -> Result<Layout, LayoutError> {
        for (index, name) in counters.iter().enumerate() {
            if name.is_empty() || name.len() > Layout::NAME_BYTES_MAX {
                return Err(LayoutError::Counters(format!(
                    "the name `{name}` must have 1 to {} bytes",
                    Layout::NAME_BYTES_MAX
                )));
            }
            if counters[..index].contains(name) {
                return Err(LayoutError::Counters(format!("`{name}` is there twice")));
            }
        }
        let shown = counters.iter().take_while(|name| !name.starts_with(Layout::TAKEN_BACK)).count();
        for name in &counters[shown..] {
            let of = name.strip_prefix(Layout::TAKEN_BACK);
            if of.is_none_or(|of| !counters[..shown].iter().any(|counter| counter == of)) {
                return Err(LayoutError::Counters(format!(
                    "`{name}` is not what was taken back of one before"
                )));
            }
        }
        if counters.len() - shown > Layout::TAKEN_MAX {
            return Err(LayoutError::Counters(format!(
                "of more than {} something can be taken back",
                Layout::TAKEN_MAX
            )));
        }
        let shape = CellShape::new(counters.len(), tiers, keep)?;
        if windows.len() > Layout::WINDOWS_MAX {
            return Err(LayoutError::Tiers(format!("more than {} windows", Layout::WINDOWS_MAX)));
        }
        let trails = windows.iter().map(|window| shape.trail(*window)).collect::<Result<_, _>>()?;
        Ok(Layout { counters, shown, shape, windows, trails, series: Vec::new() })
    }

    /// The layout whose readings sum up these series, too.
    ///
    /// # Errors
    /// [`LayoutError::Series`] says what no tier can answer.
    pub fn with_series(self, series: Vec<BucketSeries>) -> Result<Layout, LayoutError> {
        if series.len() > BucketSeries::SERIES_MAX {
            let most = BucketSeries::SERIES_MAX;
            return Err(LayoutError::Series(format!("{} series of one kind: at most {most}", series.len())));
        }
        for of in &series {
            SeriesPlan::new(&self.shape, of)?;
            if usize::from(of.counter) >= self.shown {
                return Err(LayoutError::Series("what was taken back has no series".to_owned()));
            }
        }
        Ok(Layout { series, ..self })
    }

    /// Names of the counters, in the order of their indices.
    pub fn counters(&self) -> &[String] {
        &self.counters
    }

    /// The first of them, which readings have.
    pub fn shown(&self) -> &[String] {
        &self.counters[..self.shown]
    }

    /// The index of a counter.
    pub fn counter(&self, name: &str) -> Option<u8> {
        self.counters.iter().position(|counter| counter == name).map(|index| index as u8)
    }

    /// The trailing windows that readings carry, in this order.
    pub fn windows(&self) -> &[Span] {
        &self.windows
    }

    /// The series that readings sum up, in this order.
    pub fn series(&self) -> &[BucketSeries] {
        &self.series
    }

    /// The dimensions of its cells.
    pub fn shape(&self) -> &CellShape {
        &self.shape
    }

    /// Returns whether it has one counter, and one of what was taken back of it, over a window of one tier: what limits keep.
    pub(crate) fn is_limit(&self) -> bool {
        self.shown == 1
            && self.counters.len() == 2
            && self.shape.coarse().is_none()
            && self.trails.first().is_some_and(|trail| trail.skip == 0)
    }
}

/// The text form of a layout.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WindowsText {
    counters: Vec<String>,
    tiers: Vec<Tier>,
    keep: Span,
}

impl From<Layout> for WindowsText {
    fn from(layout: Layout) -> WindowsText {
        let tiers = layout.shape.tiers().collect();
        WindowsText { tiers, keep: layout.shape.keep(), counters: layout.counters }
    }
}

impl TryFrom<WindowsText> for Layout {
    type Error = LayoutError;

    fn try_from(WindowsText { counters, tiers, keep }: WindowsText) -> Result<Layout, LayoutError> {
        Layout::new(counters, &tiers, Vec::new(), Some(keep))
    }
}

impl StatisticForm for Layout {
    const NUMBER: u8 = 0;

    fn name(&self) -> &'static str {
        "windows"
    }

    fn counters(&self) -> Vec<String> {
        self.counters.clone()
    }

    fn shown(&self) -> Vec<String> {
        self.counters[..self.shown].to_vec()
    }

    fn taken(&self) -> Vec<u8> {
        let others = self.counters[self.shown..].iter();
        others.filter_map(|name| self.counter(name.strip_prefix(Layout::TAKEN_BACK)?)).collect()
    }

    fn windows(&self) -> &[Span] {
        &self.windows
    }

    fn without_windows(&self) -> Layout {
        Layout { windows: Vec::new(), trails: Vec::new(), series: Vec::new(), ..self.clone() }
    }

    fn decides(&self) -> bool {
        self.is_limit()
    }

    fn is_limit(&self) -> bool {
        self.is_limit()
    }

    fn shape(&self) -> Result<CellShape, LayoutError> {
        Ok(self.shape.clone())
    }

    fn trail(&self, window: Span) -> Result<WindowBuckets, LayoutError> {
        self.shape.trail(window)
    }

    fn trails(&self) -> Result<Vec<WindowBuckets>, LayoutError> {
        Ok(self.trails.clone())
    }

    fn slack(&self) -> Span {
        self.shape.coarse().unwrap_or(self.shape.fine()).width
    }

    fn accepts(&self, _key: &Key, add: &Addition) -> Result<(), &'static str> {
        match add {
            Addition::Nothing => Ok(()),
            Addition::Take(take) if self.is_limit() => {
                let has_share = !take.interpolated || self.windows.len() >= 2;
                if has_share { Ok(()) } else { Err("one sub-window has no share") }
            }
            Addition::GiveBack { .. } if self.is_limit() => Ok(()),
            Addition::Clear(counters) if !self.is_limit() => {
                let taken = StatisticForm::taken(self).into_iter().collect::<CounterSet>();
                let fits = counters.with(taken) == taken;
                if fits { Ok(()) } else { Err("it does not hold what is taken back of the counter") }
            }
            Addition::Counters(amounts) => {
                // Those that hold what was taken back are in no reading, and can be added to.
                let fits = amounts.iter().all(|(counter, _)| usize::from(counter) < self.counters.len());
                if fits { Ok(()) } else { Err("there are fewer counters") }
            }
            _ => Err(OTHER_ADDITION),
        }
    }

    fn encode(&self, bytes: &mut Vec<u8>) {
        push_span(bytes, self.shape.keep());
        push_varint(bytes, self.shape.tiers().count() as u64);
        self.shape.tiers().for_each(|tier| push_tier(bytes, tier));
        push_varint(bytes, self.counters.len() as u64);
        self.counters.iter().for_each(|counter| push_text(bytes, counter));
    }

    /// Reads keep, tiers and counters.
    fn decode(reader: &mut ByteReader<'_>) -> Option<Layout> {
        let keep = reader.span()?;
        let mut tiers = Vec::new();
        for _ in 0..reader.varint()?.min(3) {
            tiers.push(reader.tier()?);
        }
        let mut counters = Vec::new();
        for _ in 0..reader.varint()? {
            counters.push(reader.text()?.to_owned());
        }
        Layout::new(counters, &tiers, Vec::new(), Some(keep)).ok()
    }
}

impl Layout {
    pub(super) fn cells(&self, trails: &[WindowBuckets]) -> Result<WindowsPlan, LayoutError> {
        let plan = WindowsPlan::new(&self.shape, StatisticForm::taken(self), trails, true);
        let series = self.series.iter().map(|series| SeriesPlan::new(&self.shape, series));
        Ok(WindowsPlan { series: series.collect::<Result<_, _>>()?, ..plan })
    }
}

/// Counter indices and amounts. Amounts of one, once a counter, are held without an allocation.
#[derive(Clone, Debug, Default)]
pub struct CounterAmounts {
    /// Bit by counter.
    ones: u64,
    #[expect(clippy::box_collection, reason = "two words instead of four, in every observation")]
    more: Option<Box<Vec<(u8, u64)>>>,
}

impl CounterAmounts {
    /// Adds an amount. The same counter may come several times; their order does not matter.
    pub fn push(&mut self, counter: u8, amount: u64) {
        let bit = 1u64.checked_shl(u32::from(counter)).unwrap_or(0);
        if amount == 1 && bit != 0 && self.ones & bit == 0 {
            self.ones |= bit;
        } else if amount > 0 {
            self.more.get_or_insert_default().push((counter, amount));
        }
    }

    /// The amounts.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = (u8, u64)> + '_ {
        let mut ones = self.ones;
        let ones = std::iter::from_fn(move || {
            let counter = ones.trailing_zeros() as u8;
            (ones != 0).then(|| {
                ones &= ones - 1;
                (counter, 1)
            })
        });
        ones.chain(self.more.iter().flat_map(|more| more.iter().copied()))
    }

    /// The amounts, each so many times.
    #[inline]
    pub fn times(&self, times: u32) -> impl Iterator<Item = (u8, u64)> + '_ {
        self.iter().map(move |(counter, amount)| (counter, amount.saturating_mul(u64::from(times))))
    }
}

impl FromIterator<(u8, u64)> for CounterAmounts {
    fn from_iter<I: IntoIterator<Item = (u8, u64)>>(amounts: I) -> CounterAmounts {
        let mut all = CounterAmounts::default();
        amounts.into_iter().for_each(|(counter, amount)| all.push(counter, amount));
        all
    }
}

impl<const N: usize> From<[(u8, u64); N]> for CounterAmounts {
    fn from(amounts: [(u8, u64); N]) -> CounterAmounts {
        amounts.into_iter().collect()
    }
}

/// A set of counters, by their indices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CounterSet(u64);

impl CounterSet {
    /// The set of these bits: bit by counter.
    pub fn from_bits(bits: u64) -> CounterSet {
        CounterSet(bits)
    }

    /// The bits, by counter.
    pub fn bits(self) -> u64 {
        self.0
    }

    /// Returns whether it has a counter.
    #[inline]
    pub fn has(self, counter: usize) -> bool {
        counter < 64 && self.0 >> counter & 1 == 1
    }

    /// The counters of both sets.
    pub fn with(self, other: CounterSet) -> CounterSet {
        CounterSet(self.0 | other.0)
    }
}

impl FromIterator<u8> for CounterSet {
    /// The set of these counters. Cells have no more than 64.
    fn from_iter<I: IntoIterator<Item = u8>>(counters: I) -> CounterSet {
        let bit = |counter: u8| 1u64.checked_shl(u32::from(counter)).unwrap_or(0);
        CounterSet(counters.into_iter().fold(0, |bits, counter| bits | bit(counter)))
    }
}

impl PartialEq for CounterAmounts {
    /// Amounts are equal if they add the same.
    fn eq(&self, other: &CounterAmounts) -> bool {
        let sums = |amounts: &CounterAmounts| {
            let mut sums = std::collections::BTreeMap::new();
            for (counter, amount) in amounts.iter() {
                let sum: &mut u64 = sums.entry(counter).or_default();
                *sum = sum.saturating_add(amount);
            }
            sums
        };
        sums(self) == sums(other)
    }
}

impl Eq for CounterAmounts {}

/// One bucket of a [`Timeline`](crate::Timeline).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimelineBucket {
    /// The start of the bucket.
    pub start: Time,
    /// Its width in time.
    pub width: Span,
    /// The counts, by counter.
    pub counts: Vec<u64>,
}

/// Size of entries that says: no entry, one event, 1 in counter 0.
const SINGLE: u32 = 3;
const COLUMNS_MAX: usize = 2 * CellShape::COUNTERS_MAX;
/// Windows of a dense cell that are read together.
const FEW: usize = 4;
/// Sizes of columns in a word.
const CODES: usize = 16;

/// The operations on cells of one shape.
#[derive(Clone, Debug)]
pub(crate) struct WindowsPlan {
    shape: CellShape,
    /// True if a bucket may go into a longer one.
    multiples: bool,
    counters: usize,
    /// Counters that readings have: the first ones.
    shown: usize,
    /// The counter that each later one takes back from.
    taken: Vec<u8>,
    fine: BucketRing,
    coarse: Option<BucketRing>,
    /// Fine buckets in a coarse one.
    ratio: Divisor,
    windows: Vec<TrailingWindow>,
    series: Vec<SeriesPlan>,
    /// Low bits of an entry that hold the counter, and the place: counter and slot.
    counter_bits: u32,
    place_bits: u32,
    /// The start of a dense cell's columns.
    columns_at: usize,
    /// Words of a dense cell, at least and at most.
    dense_min: usize,
    dense_max: usize,
}

/// The kept buckets of one tier.
#[derive(Clone, Copy, Debug)]
struct BucketRing {
    width: Divisor,
    /// The number of slots, kept buckets beside the current one and that.
    slots: Divisor,
    words: ColumnSizes,
}

/// Words of a column by its code; there are no codes above 4.
type ColumnSizes = [u32; 8];

/// A trailing window: so many whole buckets before the current one, and a part of one.
#[derive(Clone, Copy, Debug)]
struct TrailingWindow {
    coarse: bool,
    whole: i64,
    part: i64,
    trail: WindowBuckets,
}

/// A range of distances from the newest bucket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct BucketRange {
    from: i64,
    to: i64,
}

impl BucketRange {
    #[inline]
    fn holds(&self, distance: i64) -> bool {
        (self.from..self.to).contains(&distance)
    }
}

/// A moment, as readings need it.
#[derive(Clone, Copy)]
struct WindowMoment {
    /// The number of buckets that the cell's newest one is ahead of the moment's, in either tier.
    ahead: [i64; 2],
    /// The moment's distance from the beginning of its bucket.
    rest: [i64; 2],
    /// The moment's fine bucket in its coarse one, and fine ones after it there.
    place: i64,
    after: i64,
    /// The cell's newest buckets.
    newest: [i64; 2],
}

impl BucketRing {
    fn new(width: Span, buckets: u32) -> BucketRing {
        let slots = i64::from(buckets) + 1;
        let words = [0, 1, 2, 4, 8, 0, 0, 0].map(|bytes| (slots as u32 * bytes).div_ceil(8));
        BucketRing { width: Divisor::new(width.0), slots: Divisor::new(slots), words }
    }

    fn len(&self) -> i64 {
        self.slots.by()
    }

    /// Words of a column.
    #[inline]
    fn column(&self, code: usize) -> usize {
        self.words[code] as usize
    }

    #[inline]
    fn slot(&self, bucket: i64) -> i64 {
        self.slots.split(bucket).1
    }

    /// Returns how far a slot's bucket is before the one that has the slot `newest`.
    #[inline]
    fn distance(&self, newest: i64, slot: i64) -> i64 {
        let distance = newest - slot;
        if distance < 0 { distance + self.len() } else { distance }
    }

    /// The kept ones of a range of distances, the greatest included.
    #[inline]
    fn reach(&self, least: i64, greatest: i64) -> BucketRange {
        BucketRange { from: least.max(0), to: (greatest + 1).min(self.len()) }
    }
}

impl WindowsPlan {
    /// The operations on cells of a shape, over these windows. Only plain sums may go into buckets of `multiples` of the
    /// width: a value that was counted in two short periods would be counted twice in a long one.
    pub(super) fn new(
        shape: &CellShape,
        taken: Vec<u8>,
        trails: &[WindowBuckets],
        multiples: bool,
    ) -> WindowsPlan {
        let counters = shape.counters();
        let ring = |tier: crate::Tier| BucketRing::new(tier.width, tier.buckets);
        let (fine, coarse) = (ring(shape.fine()), shape.coarse().map(ring));
        let slots = fine.len() + coarse.map_or(0, |coarse| coarse.len());
        let bits = |values: u64| u64::BITS - (values - 1).leading_zeros();
        let counter_bits = bits(counters as u64);
        let windows = trails.iter().map(|trail| TrailingWindow {
            coarse: trail.tier == 1,
            whole: trail.window.0 / trail.width.0 - trail.skip,
            part: trail.window.0 % trail.width.0,
            trail: *trail,
        });
        let mut plan = WindowsPlan {
            shape: shape.clone(),
            multiples,
            counters,
            shown: counters - taken.len(),
            taken,
            fine,
            coarse,
            ratio: Divisor::new(shape.ratio()),
            windows: windows.collect(),
            series: Vec::new(),
            counter_bits,
            place_bits: counter_bits + bits(slots.cast_unsigned()),
            columns_at: 0,
            dense_min: 0,
            dense_max: 0,
        };
        plan.columns_at = LONG_WORDS + (counters * plan.tiers()).div_ceil(CODES);
        plan.dense_min = plan.columns_at + fine.column(1);
        plan.dense_max = plan.columns_at + slots as usize * counters;
        plan
    }

    #[inline]
    fn add(&self, room: &mut impl CellBuffer, time: Time, amounts: impl IntoIterator<Item = (u8, u64)>) {
        let bucket = self.bucket(time);
        let Some(mut head) = CellHead::read(room.words()) else {
            return self.begin(room, time, bucket, amounts);
        };
        let newest = self.see(room, &mut head, time.0, time.0);
        if let Some(slot) = self.slot_of(bucket, newest) {
            for (counter, amount) in amounts {
                if amount > 0 && usize::from(counter) < self.counters {
                    self.put(room, &mut head, self.place(slot, usize::from(counter)), amount);
                }
            }
        }
        head.write(room.words_mut());
    }

    /// Adds the first event.
    fn begin(
        &self,
        room: &mut impl CellBuffer,
        time: Time,
        bucket: i64,
        amounts: impl IntoIterator<Item = (u8, u64)>,
    ) {
        let mut head = CellHead::fresh(time.0, time.0);
        let mut amounts = amounts.into_iter();
        let early = [amounts.next(), amounts.next()];
        if early == [Some((0, 1)), None] && head.at == 1 {
            ensure(room, 1);
            head.lane = SINGLE;
        } else {
            ensure(room, head.at + 1);
            let slot = self.fine.slot(bucket);
            for (counter, amount) in early.into_iter().flatten().chain(amounts) {
                if amount > 0 && usize::from(counter) < self.counters {
                    self.put(room, &mut head, self.place(slot, usize::from(counter)), amount);
                }
            }
        }
        head.write(room.words_mut());
    }

    /// Widens the times of a cell, which is made if there is none: for [`WindowsPlan::put_row`].
    fn widen_times(&self, room: &mut impl CellBuffer, first: Time, last: Time) {
        let (head, _) = self.open(room, first.0, last.0);
        head.write(room.words_mut());
    }

    /// Adds a bucket's counts to a tier, or to where they belong by now.
    fn put_row(&self, room: &mut impl CellBuffer, coarse: bool, bucket: i64, counts: &[u64]) {
        let Some(mut head) = CellHead::read(room.words()) else { return };
        let (first, last) = (head.first, head.last);
        let newest = self.see(room, &mut head, first, last);
        let slot = if coarse { self.coarse_slot_of(bucket, newest) } else { self.slot_of(bucket, newest) };
        if let Some(slot) = slot {
            for (counter, amount) in counts.iter().enumerate().take(self.counters) {
                if *amount > 0 {
                    self.put(room, &mut head, self.place(slot, counter), *amount);
                }
            }
        }
        head.write(room.words_mut());
    }

    /// Subtracts what was taken back from the sums of a few windows. Few cells hold any.
    #[inline(never)]
    fn take_back(
        &self,
        words: &[u64],
        head: &CellHead,
        newest: [i64; 2],
        reaches: &[[BucketRange; 2]],
        out: &mut [u64],
    ) {
        let mut taken = [[0u64; FEW]; Layout::TAKEN_MAX];
        self.for_each(words, head, |slot, counter, amount| {
            let Some(sums) = counter.checked_sub(self.shown).and_then(|taken_of| taken.get_mut(taken_of))
            else {
                return;
            };
            let (tier, distance) = self.distance(slot, newest);
            for (sum, reach) in sums.iter_mut().zip(reaches) {
                if reach[tier].holds(distance) {
                    *sum = sum.saturating_add(amount);
                }
            }
        });
        for (sums, of) in taken.iter().zip(&self.taken) {
            for (window, sum) in sums.iter().enumerate().take(reaches.len()) {
                if let Some(out) = out.get_mut(window * self.shown + usize::from(*of)) {
                    *out = out.saturating_sub(*sum);
                }
            }
        }
    }

    /// The tier of a slot, and how far its bucket is before the newest.
    #[inline]
    fn distance(&self, slot: i64, newest: [i64; 2]) -> (usize, i64) {
        match &self.coarse {
            Some(ring) if slot >= self.fine.len() => (1, ring.distance(newest[1], slot - self.fine.len())),
            _ => (0, self.fine.distance(newest[0], slot)),
        }
    }

    /// Reads, and returns whether something was taken back.
    #[inline]
    fn read_sparse(
        &self,
        words: &[u64],
        head: &CellHead,
        newest: [i64; 2],
        reaches: &[[BucketRange; 2]],
        out: &mut [u64],
    ) -> bool {
        let mask = (1 << self.counter_bits) - 1;
        let mut any = false;
        self.entries(words, head, |place, amount| {
            let (tier, distance) = self.distance((place >> self.counter_bits) as i64, newest);
            let mut at = (place & mask) as usize;
            if at >= self.shown {
                any = true;
                return;
            }
            for reach in reaches {
                if let Some(sum) = out.get_mut(at) {
                    *sum = sum.saturating_add(if reach[tier].holds(distance) { amount } else { 0 });
                }
                at += self.shown;
            }
        });
        any
    }

    /// Reads, and returns whether something was taken back.
    #[inline]
    fn read_dense(
        &self,
        words: &[u64],
        newest: [i64; 2],
        reaches: &[[BucketRange; 2]],
        out: &mut [u64],
    ) -> bool {
        let mut columns = DenseColumns::new(self, words);
        for counter in 0..self.shown {
            for (tier, ring) in [Some(&self.fine), self.coarse.as_ref()].into_iter().enumerate() {
                let Some(ring) = ring else { continue };
                let (column, code) = columns.next(&ring.words);
                let mut memo = WindowMemo::default();
                let mut at = counter;
                for reach in reaches {
                    let reach = reach[tier];
                    if reach.from < reach.to
                        && let Some(sum) = out.get_mut(at)
                    {
                        *sum = sum.saturating_add(memo.sum(column, code, ring, newest[tier], reach));
                    }
                    at += self.shown;
                }
            }
        }
        let rings = [Some(&self.fine), self.coarse.as_ref()].into_iter().flatten();
        let mut taken = (0..self.taken.len()).flat_map(|_| rings.clone());
        taken.any(|ring| columns.next(&ring.words).1 != 0)
    }

    /// Fills windows by counters, and series.
    #[inline]
    fn fill(&self, words: &[u64], head: &CellHead, now: Time, out: &mut [u64]) {
        out.fill(0);
        let out = if self.series.is_empty() {
            out
        } else {
            let (sums, series) = out.split_at_mut(out.len().min(self.windows.len() * self.shown));
            self.read_series(words, head, now, series);
            sums
        };
        let moment = self.moment(head.last, now.0);
        if head.lane == SINGLE {
            let mut at = 0;
            for window in &self.windows {
                if let Some(sum) = out.get_mut(at) {
                    *sum = u64::from(self.reaches(window, &moment)[0].holds(0));
                }
                at += self.shown;
            }
            return;
        }
        let newest = [
            self.fine.slot(moment.newest[0]),
            self.coarse.as_ref().map_or(0, |ring| ring.slot(moment.newest[1])),
        ];
        // Few at a time, so that their reaches stay near.
        let mut out = out;
        for windows in self.windows.chunks(FEW) {
            let mut reaches = [[BucketRange::default(); 2]; FEW];
            for (reaches, window) in reaches.iter_mut().zip(windows) {
                *reaches = self.reaches(window, &moment);
            }
            let reaches = &reaches[..windows.len()];
            let taken = if head.dense {
                self.read_dense(words, newest, reaches, out)
            } else {
                self.read_sparse(words, head, newest, reaches, out)
            };
            if taken {
                self.take_back(words, head, newest, reaches, out);
            }
            out = out.get_mut(windows.len() * self.shown..).unwrap_or_default();
        }
    }

    /// See [`CellPlan::observe_in_place`]: the times stay in the buckets they are in, and all amounts go where there are some.
    #[inline]
    pub(super) fn observe_in_place(
        &self,
        words: &mut [u64],
        time: Time,
        amounts: &CounterAmounts,
        is_gone: impl FnOnce(Time) -> bool,
        out: &mut [u64],
    ) -> Option<(Time, Time)> {
        let head = CellHead::read(words)?;
        let (newest, bucket) = (self.fine.width.floor(head.last), self.bucket(time));
        let is_near = bucket <= newest && newest.saturating_sub(bucket) < self.fine.len();
        let seen = CellHead { first: head.first.min(time.0), last: head.last.max(time.0), ..head };
        if head.lane == SINGLE || !is_near || seen.fit() != head.at || is_gone(Time(head.last)) {
            return None;
        }
        let slot = self.fine.slot(bucket);
        // Several may be of one counter.
        let most = amounts.iter().try_fold(0u64, |sum, (_, amount)| sum.checked_add(amount))?;
        let mut added = [(0, 0); FEW];
        let mut count = 0;
        for (counter, amount) in amounts.iter() {
            *added.get_mut(count)? =
                self.word_of(words, &head, (slot, usize::from(counter)), amount, most)?;
            count += 1;
        }
        self.fill(words, &head, time, out);
        added[..count].iter().for_each(|(at, more)| words[*at] += more);
        seen.write(words);
        Some((Time(head.first), Time(head.last)))
    }

    /// The word that has what a counter has in a fine slot, and what an amount adds to that word; `None` if there is no such word,
    /// or no room in it for `most` more.
    #[inline]
    fn word_of(
        &self,
        words: &[u64],
        head: &CellHead,
        (slot, counter): (i64, usize),
        amount: u64,
        most: u64,
    ) -> Option<(usize, u64)> {
        if head.dense {
            let (at, code) = self.column(words, counter * self.tiers());
            let (word, shift) = lanes::word_of(code, slot as usize)?;
            let sum = lanes::get(words.get(at..)?, code, slot as usize).checked_add(most)?;
            let is_there = counter < self.counters && at + word < words.len();
            return (is_there && lanes::code(sum) <= code).then_some((at + word, amount << shift));
        }
        let entries = words.get(head.at..)?;
        let at = self.find(entries, head, self.place(slot, counter))?;
        let sum = self.get(entries, head.lane, at).1.checked_add(most)?;
        let (word, shift) = match head.lane {
            0 => (at / 2, at as u32 % 2 * 32 + self.place_bits),
            1 => (at, self.place_bits),
            _ => (2 * at + 1, 0),
        };
        self.fits(head.lane, sum).then_some((head.at + word, amount << shift))
    }

    #[inline]
    fn moment(&self, last: i64, now: i64) -> WindowMoment {
        // Distances beyond this reach no bucket, and can be added to without care.
        const FAR: i64 = 1 << 60;
        let newest = self.fine.width.floor(last);
        let (bucket, rest) = self.fine.width.split(now);
        let mut moment = WindowMoment {
            ahead: [newest.saturating_sub(bucket).clamp(-FAR, FAR), 0],
            rest: [rest, 0],
            place: 0,
            after: 0,
            newest: [newest, 0],
        };
        if self.coarse.is_some() {
            let coarse_newest = self.ratio.floor(newest);
            let (coarse, place) = self.ratio.split(bucket);
            moment.ahead[1] = coarse_newest.saturating_sub(coarse).clamp(-FAR, FAR);
            moment.rest[1] = place * self.fine.width.by() + rest;
            moment.place = place;
            moment.after = self.ratio.by() - 1 - place;
            moment.newest[1] = coarse_newest;
        }
        moment
    }

    /// The fine and the coarse buckets in a window.
    #[inline]
    fn reaches(&self, window: &TrailingWindow, moment: &WindowMoment) -> [BucketRange; 2] {
        let tier = usize::from(window.coarse);
        let before = window.whole + i64::from(moment.rest[tier] < window.part);
        match &self.coarse {
            Some(ring) if window.coarse => {
                let [ahead, coarse_ahead] = moment.ahead;
                let fine = before * self.ratio.by() + moment.place;
                [
                    self.fine.reach(ahead - moment.after, ahead + fine),
                    ring.reach(coarse_ahead, coarse_ahead + before),
                ]
            }
            _ => [self.fine.reach(moment.ahead[0], moment.ahead[0] + before), BucketRange::default()],
        }
    }

    /// Fills the words of all series, the first one last.
    #[inline(never)]
    fn read_series(&self, words: &[u64], head: &CellHead, now: Time, out: &mut [u64]) {
        for (series, out) in self.series.iter().zip(out.rchunks_exact_mut(BucketSeries::WORDS)) {
            let mut counts = [0u64; BucketSeries::BUCKETS_MAX as usize + 1];
            let counts = &mut counts[..=series.buckets];
            self.gather(words, head, series, series.counter, now, counts);
            let taken = self.taken.iter().position(|of| usize::from(*of) == series.counter);
            if let Some(taken) = taken {
                let mut back = [0u64; BucketSeries::BUCKETS_MAX as usize + 1];
                let back = &mut back[..=series.buckets];
                self.gather(words, head, series, self.shown + taken, now, back);
                counts.iter_mut().zip(back).for_each(|(count, back)| *count = count.saturating_sub(*back));
            }
            out.copy_from_slice(&BucketSummary::of(counts).words());
        }
    }

    /// Adds a counter's buckets to those of a series: the current one, and then older ones.
    fn gather(
        &self,
        words: &[u64],
        head: &CellHead,
        series: &SeriesPlan,
        counter: usize,
        now: Time,
        counts: &mut [u64],
    ) {
        let current = series.current(now);
        let newest = self.fine.width.floor(head.last);
        let mut add = |coarse: bool, bucket: i64, amount: u64| {
            let bucket = match (coarse, series.coarse) {
                (false, _) => bucket.div_euclid(series.fine_buckets),
                (true, true) => bucket.div_euclid(series.coarse_buckets),
                // Of what was folded nobody knows any more where in it it was.
                (true, false) => return,
            };
            let back = usize::try_from(current.saturating_sub(bucket)).ok();
            if let Some(count) = back.and_then(|back| counts.get_mut(back)) {
                *count = count.saturating_add(amount);
            }
        };
        if !head.dense {
            return self.for_each(words, head, |slot, other, amount| {
                if other == counter {
                    let (coarse, bucket) = self.bucket_of(newest, slot);
                    add(coarse, bucket, amount);
                }
            });
        }
        let mut base = 0;
        let rings = [Some(&self.fine), self.coarse.as_ref()].into_iter().flatten();
        for (tier, ring) in rings.enumerate().take(1 + usize::from(series.coarse)) {
            let (at, code) = self.column(words, counter * self.tiers() + tier);
            let there = |at: usize| at.min(words.len());
            let column = &words[there(at)..there(at + ring.column(code))];
            for slot in 0..ring.len() {
                let amount = lanes::get(column, code, slot as usize);
                if amount > 0 {
                    let (coarse, bucket) = self.bucket_of(newest, base + slot);
                    add(coarse, bucket, amount);
                }
            }
            base += ring.len();
        }
    }

    /// Returns what each bucket holds, by tier (coarse first) and number.
    pub(super) fn placed(&self, words: &[u64]) -> Vec<(bool, i64, Vec<u64>)> {
        let Some(head) = CellHead::read(words) else { return Vec::new() };
        let newest = self.fine.width.floor(head.last);
        let mut rows: BTreeMap<(bool, i64), Vec<u64>> = BTreeMap::new();
        self.for_each(words, &head, |slot, counter, amount| {
            let (coarse, bucket) = self.bucket_of(newest, slot);
            let counts = rows.entry((!coarse, bucket)).or_insert_with(|| vec![0; self.counters]);
            if let Some(count) = counts.get_mut(counter) {
                *count = count.saturating_add(amount);
            }
        });
        rows.into_iter().map(|((fine, bucket), counts)| (!fine, bucket, counts)).collect()
    }

    /// Makes a row's counts those of a reading: without what was taken back.
    fn net(&self, counts: &mut Vec<u64>) {
        for (taken, of) in self.taken.iter().enumerate() {
            let taken = counts.get(self.shown + taken).copied().unwrap_or(0);
            if let Some(count) = counts.get_mut(usize::from(*of)) {
                *count = count.saturating_sub(taken);
            }
        }
        counts.truncate(self.shown);
    }

    fn tiers(&self) -> usize {
        1 + usize::from(self.coarse.is_some())
    }

    #[inline]
    fn place(&self, slot: i64, counter: usize) -> u64 {
        slot.cast_unsigned() << self.counter_bits | counter as u64
    }

    /// The slot for an event of a bucket, if it is kept.
    #[inline]
    fn slot_of(&self, bucket: i64, newest: i64) -> Option<i64> {
        if newest.saturating_sub(bucket) < self.fine.len() {
            Some(self.fine.slot(bucket))
        } else {
            self.coarse_slot_of(self.ratio.floor(bucket), newest)
        }
    }

    fn coarse_slot_of(&self, bucket: i64, newest: i64) -> Option<i64> {
        let ring = self.coarse.as_ref()?;
        let kept = self.ratio.floor(newest).saturating_sub(bucket) < ring.len();
        kept.then(|| self.fine.len() + ring.slot(bucket))
    }

    /// The tier and number of the bucket that has a slot.
    fn bucket_of(&self, newest: i64, slot: i64) -> (bool, i64) {
        match &self.coarse {
            Some(ring) if slot >= self.fine.len() => {
                let newest = self.ratio.floor(newest);
                let distance = ring.distance(ring.slot(newest), slot - self.fine.len());
                (true, newest.saturating_sub(distance))
            }
            _ => (false, newest.saturating_sub(self.fine.distance(self.fine.slot(newest), slot))),
        }
    }

    /// The head of a cell that has seen these times, too; and its newest bucket.
    fn open(&self, room: &mut impl CellBuffer, first: i64, last: i64) -> (CellHead, i64) {
        match CellHead::read(room.words()) {
            Some(mut head) => {
                let newest = self.see(room, &mut head, first, last);
                (head, newest)
            }
            None => {
                let head = CellHead::fresh(first, last);
                ensure(room, head.at);
                (head, self.fine.width.floor(last))
            }
        }
    }

    /// Widens the times, and lets buckets age if that moves the head. Afterwards the cell is no single.
    #[inline]
    fn see(&self, room: &mut impl CellBuffer, head: &mut CellHead, first: i64, last: i64) -> i64 {
        let mut newest = self.fine.width.floor(head.last);
        if head.lane == SINGLE {
            head.lane = 0;
            head.count = 1;
            ensure(room, head.at + 1);
            let place = self.place(self.fine.slot(newest), 0);
            self.set(&mut room.words_mut()[head.at..], 0, 0, place, 1);
        }
        if last > head.last {
            let to = self.fine.width.floor(last);
            if to != newest {
                self.age(room, head, newest, to);
                newest = to;
            }
            head.last = last;
        }
        head.first = head.first.min(first);
        if !head.dense {
            let body = body(head.lane, head.count);
            head.settle(room, body, body);
        }
        newest
    }

    #[inline(never)]
    fn age(&self, room: &mut impl CellBuffer, head: &mut CellHead, from: i64, to: i64) {
        if head.dense {
            self.age_dense(room, head, from, to);
        } else if head.count > 0
            && to.saturating_sub(self.fine.width.floor(head.first)) >= self.fine.len()
            && self.age_sparse(room, head, from, to)
        {
            fit_down(room, head.at + body(head.lane, head.count));
        }
    }

    /// Folds and drops what the head moves away from; whether there was any.
    fn age_sparse(&self, room: &mut impl CellBuffer, head: &mut CellHead, from: i64, to: i64) -> bool {
        let words = &mut room.words_mut()[head.at..];
        let before = head.count;
        let coarse = self.coarse.as_ref().map(|ring| (ring, self.ratio.floor(from), self.ratio.floor(to)));
        // Coarse entries first: the slot of one that goes may be where a fine one is folded to.
        if let Some((ring, from, to)) = coarse
            && from != to
        {
            let (newest, moved) = (ring.slot(from), to.saturating_sub(from));
            self.retain(words, head, |place| {
                let slot = (place >> self.counter_bits) as i64 - self.fine.len();
                slot < 0 || ring.distance(newest, slot).saturating_add(moved) < ring.len()
            });
        }
        let (newest, moved) = (self.fine.slot(from), to.saturating_sub(from));
        let mut at = 0;
        while at < head.count {
            let (place, amount) = self.get(words, head.lane, at);
            let slot = (place >> self.counter_bits) as i64;
            let distance = self.fine.distance(newest, slot);
            if slot >= self.fine.len() || distance.saturating_add(moved) < self.fine.len() {
                at += 1;
                continue;
            }
            let counter = place & ((1 << self.counter_bits) - 1);
            let bucket = self.ratio.floor(from.saturating_sub(distance));
            let Some(slot) = self.coarse_slot_of(bucket, to) else {
                self.remove(words, head, at);
                continue;
            };
            let place = self.place(slot, counter as usize);
            let same = self.find(words, head, place).map(|same| (same, self.get(words, head.lane, same).1));
            match same {
                Some((same, sum)) if self.fits(head.lane, sum.saturating_add(amount)) => {
                    self.set(words, head.lane, same, place, sum.saturating_add(amount));
                    self.remove(words, head, at);
                }
                _ => {
                    self.set(words, head.lane, at, place, amount);
                    at += 1;
                }
            }
        }
        head.count < before
    }

    fn age_dense(&self, room: &mut impl CellBuffer, head: &mut CellHead, from: i64, to: i64) {
        let total = self.columns(room.words()).at;
        ensure(room, total);
        let coarse = self.coarse.as_ref().map(|ring| {
            let (from, to) = (self.ratio.floor(from), self.ratio.floor(to));
            (ring, from, to.saturating_sub(from).min(ring.len()))
        });
        let gone = to.saturating_sub(from).min(self.fine.len());
        let mut at = self.columns_at;
        for counter in 0..self.counters {
            let (number, codes) = (counter * self.tiers(), room.words());
            let code = self.code(codes, number);
            let end = at + self.fine.column(code);
            if let Some((ring, from, gone)) = coarse {
                let code = self.code(codes, number + 1);
                let column = &mut room.words_mut()[end..end + ring.column(code)];
                for step in 1..=gone {
                    lanes::clear(column, code, ring.slot(from.saturating_add(step)) as usize);
                }
            }
            for step in 1..=gone {
                let bucket = from.saturating_add(step - self.fine.len());
                let slot = self.fine.slot(bucket) as usize;
                // A coarse column comes after its fine one: if it is widened this one stays.
                let column = &mut room.words_mut()[at..end];
                let amount = lanes::get(column, code, slot);
                if amount > 0 {
                    lanes::clear(column, code, slot);
                    if let Some(slot) = self.coarse_slot_of(self.ratio.floor(bucket), to) {
                        self.put_dense(room, self.place(slot, counter), amount);
                    }
                }
            }
            at = end + coarse.map_or(0, |(ring, ..)| ring.column(self.code(room.words(), number + 1)));
        }
        if gone == self.fine.len() {
            self.make_sparse(room, head);
        }
    }

    #[inline]
    fn put(&self, room: &mut impl CellBuffer, head: &mut CellHead, place: u64, amount: u64) {
        if head.dense {
            return self.put_dense(room, place, amount);
        }
        let words = &mut room.words_mut()[head.at..];
        if head.lane == 0 && self.fits(0, amount) {
            let (mask, more) = ((1 << self.place_bits) - 1, amount << self.place_bits);
            for word in words[..head.count.div_ceil(2)].iter_mut().rev() {
                let (high, low) = (*word >> 32, *word & 0xffff_ffff);
                if high & mask == place && high != 0 && high + more <= 0xffff_ffff {
                    *word += more << 32;
                    return;
                }
                if low & mask == place && low + more <= 0xffff_ffff {
                    *word += more;
                    return;
                }
            }
        }
        match self.find(words, head, place) {
            Some(at) => {
                let sum = self.get(words, head.lane, at).1.saturating_add(amount);
                if self.fits(head.lane, sum) {
                    self.set(words, head.lane, at, place, sum);
                } else {
                    self.enlarge(room, head, sum);
                    self.put(room, head, place, amount);
                }
            }
            None if self.fits(head.lane, amount) => self.append(room, head, place, amount),
            None => {
                self.enlarge(room, head, amount);
                self.put(room, head, place, amount);
            }
        }
    }

    /// Adds an entry that fits.
    #[inline]
    fn append(&self, room: &mut impl CellBuffer, head: &mut CellHead, place: u64, amount: u64) {
        let [now, wanted] = [head.count, head.count + 1].map(|count| body(head.lane, count));
        let needed = head.at + wanted;
        // Now and then is often enough, as long as the bound holds.
        if needed > self.dense_min
            && (head.count.is_multiple_of(8) || needed > self.dense_max)
            && self.dense_words(room.words(), head) <= needed
        {
            self.make_dense(room, head);
            return self.put_dense(room, place, amount);
        }
        head.count += 1;
        head.settle(room, now, wanted);
        self.set(&mut room.words_mut()[head.at..], head.lane, head.count - 1, place, amount);
    }

    /// Makes entries large enough for an amount, or the cell dense.
    #[cold]
    fn enlarge(&self, room: &mut impl CellBuffer, head: &mut CellHead, amount: u64) {
        let lane = (head.lane..2).find(|lane| self.fits(*lane, amount)).unwrap_or(2);
        let [now, wanted] = [head.lane, lane].map(|lane| body(lane, head.count));
        let needed = head.at + wanted;
        if needed > self.dense_min && self.dense_words(room.words(), head) <= needed {
            return self.make_dense(room, head);
        }
        head.settle(room, now, wanted);
        let words = &mut room.words_mut()[head.at..];
        for at in (0..head.count).rev() {
            let (place, amount) = self.get(words, head.lane, at);
            self.set(words, lane, at, place, amount);
        }
        head.lane = lane;
    }

    #[cold]
    fn make_dense(&self, room: &mut impl CellBuffer, head: &mut CellHead) {
        let mut all = Vec::with_capacity(head.count);
        self.entries(room.words(), head, |place, amount| all.push((place, amount)));
        let codes = self.codes(room.words(), head);
        let total = self.dense_words(room.words(), head);
        (head.dense, head.lane, head.count) = (true, 0, 0);
        ensure(room, total);
        head.settle(room, 0, total - LONG_WORDS);
        let words = room.words_mut();
        words[LONG_WORDS..].fill(0);
        for (number, code) in codes.iter().enumerate().take(self.counters * self.tiers()) {
            words[LONG_WORDS + number / CODES] |= (*code as u64) << (number % CODES * 4);
        }
        all.into_iter().for_each(|(place, amount)| self.put_dense(room, place, amount));
    }

    /// Makes a dense cell sparse, if that is smaller.
    #[cold]
    fn make_sparse(&self, room: &mut impl CellBuffer, head: &mut CellHead) {
        let mut all = Vec::new();
        self.for_each(room.words(), head, |slot, counter, amount| {
            all.push((self.place(slot, counter), amount));
        });
        let most = all.iter().map(|(_, amount)| *amount).max().unwrap_or(0);
        let lane = (0..2).find(|lane| self.fits(*lane, most)).unwrap_or(2);
        let total = LONG_WORDS + body(lane, all.len());
        if total >= self.columns(room.words()).at {
            return;
        }
        (head.dense, head.lane, head.count) = (false, lane, all.len());
        let words = room.words_mut();
        words[LONG_WORDS..].fill(0);
        for (at, (place, amount)) in all.into_iter().enumerate() {
            self.set(&mut words[LONG_WORDS..], lane, at, place, amount);
        }
        fit_down(room, total);
    }

    /// The least size of each column that holds a sparse cell's entries.
    fn codes(&self, words: &[u64], head: &CellHead) -> [usize; COLUMNS_MAX] {
        let mut codes = [0; COLUMNS_MAX];
        self.entries(words, head, |place, amount| {
            let counter = (place & ((1 << self.counter_bits) - 1)) as usize;
            let coarse = (place >> self.counter_bits) as i64 >= self.fine.len();
            let code = &mut codes[counter * self.tiers() + usize::from(coarse)];
            *code = lanes::code(amount).max(*code);
        });
        codes
    }

    fn dense_words(&self, words: &[u64], head: &CellHead) -> usize {
        let codes = self.codes(words, head);
        let fine = |code: usize| self.fine.column(code);
        let columns =
            codes[..self.counters * self.tiers()].chunks_exact(self.tiers()).map(|codes| match codes {
                [code, of_coarse] => fine(*code) + self.coarse.map_or(0, |ring| ring.column(*of_coarse)),
                [code] => fine(*code),
                _ => 0,
            });
        self.columns_at + columns.sum::<usize>()
    }

    #[inline]
    fn put_dense(&self, room: &mut impl CellBuffer, place: u64, amount: u64) {
        let counter = (place & ((1 << self.counter_bits) - 1)) as usize;
        let slot = (place >> self.counter_bits) as i64;
        let (number, slot, ring) = match &self.coarse {
            Some(ring) if slot >= self.fine.len() => (counter * 2 + 1, slot - self.fine.len(), ring),
            Some(_) => (counter * 2, slot, &self.fine),
            None => (counter, slot, &self.fine),
        };
        let (at, code) = self.column(room.words(), number);
        let end = at + ring.column(code);
        ensure(room, end);
        let column = &mut room.words_mut()[at..end];
        let sum = lanes::get(column, code, slot as usize).saturating_add(amount);
        if lanes::code(sum) <= code {
            return lanes::set(column, code, slot as usize, sum);
        }
        let wider = lanes::code(sum);
        let total = self.columns(room.words()).at;
        let wide_end = at + ring.column(wider);
        ensure(room, total + wide_end - end);
        let words = room.words_mut();
        words.copy_within(end..total, wide_end);
        words[end..wide_end].fill(0);
        let column = &mut words[at..wide_end];
        for slot in (0..ring.len() as usize).rev() {
            let amount = lanes::get(column, code, slot);
            lanes::clear(column, code, slot);
            lanes::set(column, wider, slot, amount);
        }
        lanes::set(column, wider, slot as usize, sum);
        let codes = &mut words[LONG_WORDS + number / CODES];
        *codes ^= ((code ^ wider) as u64) << (number % CODES * 4);
    }

    /// The size of a dense cell's column.
    #[inline]
    fn code(&self, words: &[u64], number: usize) -> usize {
        let codes = words.get(LONG_WORDS + number / CODES).copied().unwrap_or(0);
        (codes >> (number % CODES * 4)) as usize & 7
    }

    /// The start of a column, and its code.
    #[inline]
    fn column(&self, words: &[u64], number: usize) -> (usize, usize) {
        let mut columns = DenseColumns::new(self, words);
        match &self.coarse {
            None => (0..number).for_each(|_| columns.skip(&self.fine.words)),
            Some(ring) => {
                for _ in 0..number / 2 {
                    columns.skip(&self.fine.words);
                    columns.skip(&ring.words);
                }
                if number % 2 == 1 {
                    columns.skip(&self.fine.words);
                }
            }
        }
        (columns.at, columns.code())
    }

    /// Past the last column.
    fn columns<'a>(&self, words: &'a [u64]) -> DenseColumns<'a> {
        let mut columns = DenseColumns::new(self, words);
        for _ in 0..self.counters {
            columns.skip(&self.fine.words);
            if let Some(ring) = &self.coarse {
                columns.skip(&ring.words);
            }
        }
        columns
    }

    /// Calls with slot, counter and amount of whatever is not zero.
    fn for_each(&self, words: &[u64], head: &CellHead, mut each: impl FnMut(i64, usize, u64)) {
        if !head.dense {
            let mask = (1 << self.counter_bits) - 1;
            if head.lane == SINGLE {
                return each(self.fine.slot(self.fine.width.floor(head.last)), 0, 1);
            }
            return self.entries(words, head, |place, amount| {
                each((place >> self.counter_bits) as i64, (place & mask) as usize, amount);
            });
        }
        let mut columns = DenseColumns::new(self, words);
        for counter in 0..self.counters {
            let mut base = 0;
            for ring in [Some(&self.fine), self.coarse.as_ref()].into_iter().flatten() {
                let (column, code) = columns.next(&ring.words);
                for slot in 0..ring.len() {
                    let amount = lanes::get(column, code, slot as usize);
                    if amount > 0 {
                        each(base + slot, counter, amount);
                    }
                }
                base += ring.len();
            }
        }
    }

    /// Calls with place and amount of every entry.
    #[inline]
    fn entries(&self, words: &[u64], head: &CellHead, mut each: impl FnMut(u64, u64)) {
        let words = words.get(head.at..).unwrap_or_default();
        let (mask, bits) = ((1 << self.place_bits) - 1, self.place_bits);
        match head.lane {
            0 => {
                for at in 0..head.count {
                    let Some(word) = words.get(at / 2) else { return };
                    let lane = word >> (at % 2 * 32) & 0xffff_ffff;
                    each(lane & mask, lane >> bits);
                }
            }
            1 => words.iter().take(head.count).for_each(|word| each(word & mask, word >> bits)),
            _ => {
                words.as_chunks().0.iter().take(head.count).for_each(|[place, amount]| each(*place, *amount))
            }
        }
    }

    #[inline]
    fn fits(&self, lane: u32, amount: u64) -> bool {
        match lane {
            0 => amount >> (32 - self.place_bits) == 0,
            1 => amount >> (64 - self.place_bits) == 0,
            _ => true,
        }
    }

    /// An entry. `words` are those after the head.
    #[inline]
    fn get(&self, words: &[u64], lane: u32, at: usize) -> (u64, u64) {
        let mask = (1 << self.place_bits) - 1;
        match lane {
            0 => {
                let lane = words[at / 2] >> (at % 2 * 32) & 0xffff_ffff;
                (lane & mask, lane >> self.place_bits)
            }
            1 => (words[at] & mask, words[at] >> self.place_bits),
            _ => (words[2 * at], words[2 * at + 1]),
        }
    }

    #[inline]
    fn set(&self, words: &mut [u64], lane: u32, at: usize, place: u64, amount: u64) {
        match lane {
            0 => {
                let shift = at % 2 * 32;
                let word = &mut words[at / 2];
                *word = *word & !(0xffff_ffff << shift) | (amount << self.place_bits | place) << shift;
            }
            1 => words[at] = amount << self.place_bits | place,
            _ => [words[2 * at], words[2 * at + 1]] = [place, amount],
        }
    }

    /// The newest are looked at first: that is where events go.
    #[inline]
    fn find(&self, words: &[u64], head: &CellHead, place: u64) -> Option<usize> {
        if head.lane == 0 {
            let mask = (1 << self.place_bits) - 1;
            for at in (0..head.count.div_ceil(2)).rev() {
                let word = words[at];
                if (word >> 32) & mask == place && word >> 32 != 0 {
                    return Some(2 * at + 1);
                }
                if word & mask == place {
                    return Some(2 * at);
                }
            }
            return None;
        }
        (0..head.count).rev().find(|at| self.get(words, head.lane, *at).0 == place)
    }

    /// Takes an entry out; the last one takes its place.
    fn remove(&self, words: &mut [u64], head: &mut CellHead, at: usize) {
        head.count -= 1;
        let (place, amount) = self.get(words, head.lane, head.count);
        self.set(words, head.lane, head.count, 0, 0);
        if at < head.count {
            self.set(words, head.lane, at, place, amount);
        }
    }

    fn retain(&self, words: &mut [u64], head: &mut CellHead, kept: impl Fn(u64) -> bool) {
        let mut at = 0;
        while at < head.count {
            if kept(self.get(words, head.lane, at).0) {
                at += 1;
            } else {
                self.remove(words, head, at);
            }
        }
    }
}

impl CellOperations for WindowsPlan {
    fn columns(&self) -> usize {
        self.shown
    }

    fn reading(&self) -> usize {
        self.windows.len() * self.shown + self.series.len() * BucketSeries::WORDS
    }

    #[inline]
    fn read(&self, words: &[u64], now: Time, out: &mut [u64]) {
        match CellHead::read(words) {
            Some(head) => self.fill(words, &head, now, out),
            None => out.fill(0),
        }
    }

    fn estimate(&self, events: u64, add: &Addition, out: &mut [u64]) {
        let Addition::Counters(amounts) = add else { return };
        for (counter, amount) in amounts.iter().filter(|(counter, _)| usize::from(*counter) < self.shown) {
            let sums = out.iter_mut().take(self.windows.len() * self.shown);
            let values = sums.skip(usize::from(counter)).step_by(self.shown);
            values.for_each(|value| *value = amount.saturating_mul(events));
        }
    }

    fn add_reading(&self, out: &mut [u64], other: &[u64]) {
        let sums = self.windows.len() * self.shown;
        out.iter_mut().zip(other).take(sums).for_each(|(sum, other)| *sum = sum.saturating_add(*other));
    }

    fn clear_reading(&self, out: &mut [u64], counters: CounterSet) -> bool {
        let mut has_changed = false;
        let sums = out.iter_mut().take(self.windows.len() * self.shown).enumerate();
        for (_, sum) in sums.filter(|(at, _)| counters.has(at % self.shown)) {
            has_changed |= std::mem::take(sum) > 0;
        }
        has_changed
    }

    #[inline]
    fn change<'a>(&self, add: &'a Addition, context: &ObservationContext<'_>) -> StatisticChange<'a> {
        let ObservationContext { time, last, values, origin, sightings } = *context;
        match add {
            // What a sketch has seen of it goes with it: a count does not start again.
            Addition::Counters(amounts) => {
                let before = if origin == Origin::Event { sightings } else { 0 };
                StatisticChange::Counters(time, amounts, before.saturating_add(1))
            }
            Addition::Distinct { pair } => StatisticChange::Unique(time, *pair),
            Addition::Take(take) => {
                let now = add.as_of(time, last);
                let value = |at: usize| values.get(at).copied().unwrap_or(0);
                let used =
                    if take.interpolated { self.interpolated(value(0), value(1), now) } else { value(0) };
                if take.counts_all || take.is_within(used) {
                    StatisticChange::Used(now, take.cost)
                } else {
                    StatisticChange::Nothing
                }
            }
            Addition::GiveBack { amount, taken } if last.is_some() => {
                StatisticChange::GiveBack { now: add.as_of(time, last), amount: *amount, taken: *taken }
            }
            Addition::Clear(counters) if last.is_some() => StatisticChange::Clear(*counters),
            _ => StatisticChange::Nothing,
        }
    }

    #[inline]
    fn apply(&self, room: &mut impl CellBuffer, change: &StatisticChange<'_>) {
        match change {
            StatisticChange::Counters(time, amounts, times) => self.add(room, *time, amounts.times(*times)),
            StatisticChange::Used(time, amount) => self.add(room, *time, [(0, *amount)]),
            StatisticChange::GiveBack { now, amount, taken } => self.give_back(room, *now, *amount, *taken),
            StatisticChange::Clear(counters) => self.clear(room, *counters),
            _ => {}
        }
    }

    fn merge(&self, room: &mut impl CellBuffer, other: &[u64]) {
        let Some(seen) = CellHead::read(other) else { return };
        let (mut head, newest) = self.open(room, seen.first, seen.last);
        let theirs = self.fine.width.floor(seen.last);
        self.for_each(other, &seen, |slot, counter, amount| {
            let (coarse, bucket) = self.bucket_of(theirs, slot);
            let slot =
                if coarse { self.coarse_slot_of(bucket, newest) } else { self.slot_of(bucket, newest) };
            if let Some(slot) = slot {
                self.put(room, &mut head, self.place(slot, counter), amount);
            }
        });
        head.write(room.words_mut());
    }

    #[inline]
    fn times(&self, words: &[u64]) -> Option<(Time, Time)> {
        CellHead::read(words).map(|head| (Time(head.first), Time(head.last)))
    }

    fn expires_after(&self, last: Time) -> Time {
        self.shape.expires(last)
    }

    fn kept_for(&self) -> Span {
        self.shape.kept_for()
    }

    fn bucket(&self, time: Time) -> i64 {
        self.fine.width.floor(time.0)
    }

    /// Returns whether a fine bucket holds anything, and whether it would be kept.
    fn fine(&self, words: &[u64], bucket: i64) -> (bool, bool) {
        let Some(head) = CellHead::read(words) else { return (false, true) };
        let newest = self.fine.width.floor(head.last);
        let distance = newest.saturating_sub(bucket);
        if distance >= self.fine.len() {
            return (false, false);
        }
        if distance < 0 {
            return (false, true);
        }
        if head.lane == SINGLE {
            return (distance == 0, true);
        }
        let slot = self.fine.slot(bucket);
        let mut held = false;
        if head.dense {
            let mut columns = DenseColumns::new(self, words);
            for _ in 0..self.counters {
                let (column, code) = columns.next(&self.fine.words);
                held |= lanes::get(column, code, slot as usize) > 0;
                if let Some(ring) = &self.coarse {
                    columns.next(&ring.words);
                }
            }
        } else {
            self.entries(words, &head, |place, _| held |= (place >> self.counter_bits) as i64 == slot);
        }
        (held, true)
    }

    /// The start of a window's first bucket.
    fn since(&self, window: usize, now: Time) -> Option<Time> {
        Some(self.windows.get(window)?.trail.start(now))
    }

    /// Returns whether all operations are safe on these words.
    fn check(&self, words: &[u64]) -> bool {
        let Some(head) = CellHead::read(words) else { return words.iter().all(|word| *word == 0) };
        if !head.check(words) || (head.lane == SINGLE && (head.at != 1 || head.count != 0)) {
            return false;
        }
        let end = if head.dense {
            if head.lane != 0 || head.count != 0 {
                return false;
            }
            let codes = words.get(LONG_WORDS..).unwrap_or_default();
            let columns = self.counters * self.tiers();
            let known = |number: usize, code: u64| if number < columns { code <= 4 } else { code == 0 };
            let codes = codes.iter().take(columns.div_ceil(CODES)).enumerate();
            if !codes
                .flat_map(|(word, codes)| {
                    (0..CODES).map(move |at| (word * CODES + at, codes >> (4 * at) & 15))
                })
                .all(|(number, code)| known(number, code))
            {
                return false;
            }
            // Lanes after the last bucket of a column belong to no bucket.
            let mut column = DenseColumns::new(self, words);
            for _ in 0..self.counters {
                for ring in [Some(&self.fine), self.coarse.as_ref()].into_iter().flatten() {
                    let (lanes, code) = column.next(&ring.words);
                    let slots = ring.len() as usize;
                    if (slots..lanes::capacity(lanes, code)).any(|slot| lanes::get(lanes, code, slot) != 0) {
                        return false;
                    }
                }
            }
            column.at
        } else {
            if head.count > 0 && head.at + body(head.lane, head.count) > words.len() {
                return false;
            }
            let slots = self.fine.len() + self.coarse.map_or(0, |ring| ring.len());
            let mut sound = true;
            self.entries(words, &head, |place, amount| {
                let counter = place & ((1 << self.counter_bits) - 1);
                sound &= amount > 0
                    && counter < self.counters as u64
                    && place >> self.counter_bits < slots.cast_unsigned();
            });
            if !sound || (head.lane == 0 && head.count % 2 == 1 && words[head.at + head.count / 2] >> 32 != 0)
            {
                return false;
            }
            head.at + body(head.lane, head.count)
        };
        end <= CellShape::WORDS_MAX && words.iter().skip(end).all(|word| *word == 0)
    }

    fn rows(&self, words: &[u64]) -> Vec<TimelineBucket> {
        timeline(&self.shape, self.placed(words))
    }

    fn net_rows(&self, words: &[u64]) -> Vec<TimelineBucket> {
        let mut rows = self.rows(words);
        rows.iter_mut().for_each(|row| self.net(&mut row.counts));
        rows.retain(|row| row.counts.iter().any(|count| *count > 0));
        rows
    }

    fn content(&self, words: &[u64]) -> Option<CellContent> {
        Some(CellContent::Buckets(self.rows(words)))
    }

    fn restore(
        &self,
        room: &mut impl CellBuffer,
        (first, last): (Time, Time),
        content: &CellContent,
    ) -> Result<(), &'static str> {
        let CellContent::Buckets(buckets) = content else { return Err(OTHER_CONTENT) };
        self.widen_times(room, first, last);
        for TimelineBucket { start, width, counts } in buckets {
            let coarse = self.shape.coarse().filter(|tier| tier.width == *width);
            let fine = self.shape.fine();
            let tier =
                if *width == fine.width { fine } else { coarse.ok_or("a bucket has no tier's width")? };
            let number = start.bucket(*width);
            let [oldest, newest] = [first, last].map(|time| time.bucket(*width));
            if number.saturating_mul(width.0) != start.0 {
                return Err("a bucket begins between two");
            }
            // One before the first event would not age with the others.
            if number < oldest || number > newest || newest.saturating_sub(number) > i64::from(tier.buckets) {
                return Err("a bucket is not one of those that are kept");
            }
            if counts.len() > self.counters {
                return Err("a bucket has more counts than there are counters");
            }
            self.put_row(room, tier != fine, number, counts);
        }
        Ok(())
    }

    /// Adds what the cell of another layout has seen. `sources` says which of its counters each counter was. A bucket
    /// goes into the finest tier whose width is its own, or where the counters are plain sums a multiple of it; what fits in none is
    /// dropped. Of a counter of which nothing can be taken back any more goes what is left.
    fn translate(
        &self,
        room: &mut impl CellBuffer,
        words: &[u64],
        old: &WindowsPlan,
        sources: &[Option<usize>],
    ) {
        let Some(seen) = CellHead::read(words) else { return };
        let (mut head, newest) = self.open(room, seen.first, seen.last);
        let target = |width: i64| {
            let fits = |ring: &BucketRing| {
                let to = ring.width.by();
                if self.multiples { to % width == 0 } else { to == width }
            };
            let coarse = self.coarse.as_ref().filter(|ring| fits(ring));
            let fine = Some(&self.fine).filter(|ring| fits(ring));
            fine.map(|ring| (false, ring.width.by() / width))
                .or(coarse.map(|ring| (true, ring.width.by() / width)))
        };
        let targets =
            [Some(&old.fine), old.coarse.as_ref()].map(|ring| ring.and_then(|ring| target(ring.width.by())));
        let lost = (old.shown..).zip(&old.taken).filter(|(counter, _)| !sources.contains(&Some(*counter)));
        let lost: Vec<(usize, usize)> = lost.map(|(counter, of)| (counter, usize::from(*of))).collect();
        for (coarse, bucket, mut counts) in old.placed(words) {
            for (counter, of) in &lost {
                let taken = counts.get(*counter).copied().unwrap_or(0);
                if let Some(count) = counts.get_mut(*of) {
                    *count = count.saturating_sub(taken);
                }
            }
            let Some((coarse, ratio)) = targets[usize::from(coarse)] else { continue };
            let bucket = bucket.div_euclid(ratio);
            let slot =
                if coarse { self.coarse_slot_of(bucket, newest) } else { self.slot_of(bucket, newest) };
            let Some(slot) = slot else { continue };
            for (to, source) in sources.iter().enumerate().take(self.counters) {
                let amount = source.and_then(|source| counts.get(source).copied()).unwrap_or(0);
                if amount > 0 {
                    self.put(room, &mut head, self.place(slot, to), amount);
                }
            }
        }
        head.write(room.words_mut());
    }
}

impl WindowsPlan {
    /// Takes back of the first counter, into that which holds what was taken back of it: no more of a bucket than is left
    /// there.
    fn give_back(&self, room: &mut impl CellBuffer, now: Time, amount: u64, at: Option<Time>) {
        let [0] = self.taken[..] else { return };
        let Some(window) = self.windows.first() else { return };
        let (oldest, _) = window.trail.buckets(now);
        let only = at.map(|at| self.bucket(at));
        let mut rest = amount;
        for (_, bucket, counts) in self.placed(room.words()) {
            if bucket < oldest || only.is_some_and(|only| only != bucket) {
                continue;
            }
            let [used, taken] = [0, 1].map(|at| counts.get(at).copied().unwrap_or(0));
            let back = used.saturating_sub(taken).min(rest);
            if back > 0 {
                self.put_row(room, false, bucket, &[0, back]);
                rest -= back;
            }
        }
    }

    /// Takes back all that is left of counters, bucket by bucket.
    fn clear(&self, room: &mut impl CellBuffer, counters: CounterSet) {
        let mut back = vec![0; self.counters];
        for (coarse, bucket, counts) in self.placed(room.words()) {
            let count = |at: usize| counts.get(at).copied().unwrap_or(0);
            for (into, of) in (self.shown..).zip(self.taken.iter().map(|of| usize::from(*of))) {
                let left = count(of).saturating_sub(count(into));
                if let Some(back) = back.get_mut(into) {
                    *back = if counters.has(of) { left } else { 0 };
                }
            }
            if back.iter().any(|amount| *amount > 0) {
                self.put_row(room, coarse, bucket, &back);
            }
        }
    }

    /// See [`interpolated`](super::window_take::interpolated).
    #[inline]
    fn interpolated(&self, whole: u64, newer: u64, now: Time) -> u64 {
        match self.windows.first() {
            Some(window) => {
                let trail = window.trail;
                super::window_take::interpolated(whole, newer, now, trail.window, trail.width)
            }
            None => whole,
        }
    }
}

/// Operations on cells of windows, for whoever knows that they are.
impl CellPlan {
    /// Counts an event of a windowed statistic: adds each amount to its counter, saturating. The event is seen even
    /// if there is no amount. Counters out of range are ignored; other statistics do not change.
    #[inline]
    pub fn add(&self, room: &mut impl CellBuffer, time: Time, amounts: impl IntoIterator<Item = (u8, u64)>) {
        if let Some(plan) = self.windows() {
            plan.add(room, time, amounts);
        }
    }

    /// The windowed form.
    #[inline]
    pub(super) fn windows(&self) -> Option<&WindowsPlan> {
        match &self.0 {
            CellPlanKind::Windows(plan) | CellPlanKind::Distinct(plan) | CellPlanKind::Once(plan) => {
                Some(plan)
            }
            _ => None,
        }
    }
}

/// Buckets by tier (coarse or not) and number as those of a timeline.
pub(super) fn timeline(
    shape: &CellShape,
    rows: impl IntoIterator<Item = (bool, i64, Vec<u64>)>,
) -> Vec<TimelineBucket> {
    let coarse_width = shape.coarse().unwrap_or(shape.fine()).width;
    let row = |(coarse, bucket, counts): (bool, i64, Vec<u64>)| {
        let width = if coarse { coarse_width } else { shape.fine().width };
        TimelineBucket { start: Time(bucket.saturating_mul(width.0)), width, counts }
    };
    rows.into_iter().map(row).collect()
}

/// Words of so many entries.
#[inline]
fn body(lane: u32, count: usize) -> usize {
    match lane {
        0 => count.div_ceil(2),
        1 => count,
        2 => 2 * count,
        _ => 0,
    }
}

/// A dense cell's columns, one after the other.
struct DenseColumns<'a> {
    words: &'a [u64],
    at: usize,
    number: usize,
    /// Codes of the columns from here to the end of their word.
    codes: u64,
}

impl<'a> DenseColumns<'a> {
    #[inline]
    fn new(plan: &WindowsPlan, words: &'a [u64]) -> DenseColumns<'a> {
        let codes = words.get(LONG_WORDS).copied().unwrap_or(0);
        DenseColumns { words, at: plan.columns_at, number: 0, codes }
    }

    #[inline]
    fn code(&self) -> usize {
        self.codes as usize & 7
    }

    #[inline]
    fn skip(&mut self, sizes: &ColumnSizes) {
        self.at += sizes[self.code()] as usize;
        self.number += 1;
        self.codes = if self.number.is_multiple_of(CODES) {
            self.words.get(LONG_WORDS + self.number / CODES).copied().unwrap_or(0)
        } else {
            self.codes >> 4
        };
    }

    /// The words that are there of the next column, and its code.
    #[inline]
    fn next(&mut self, sizes: &ColumnSizes) -> (&'a [u64], usize) {
        let (at, code) = (self.at, self.code());
        self.skip(sizes);
        let there = |at: usize| at.min(self.words.len());
        (&self.words[there(at)..there(self.at)], code)
    }
}

/// The sum over the last window that was asked for: a longer one of the same end goes on from there.
#[derive(Default)]
struct WindowMemo {
    reach: BucketRange,
    sum: u64,
}

impl WindowMemo {
    #[inline]
    fn sum(
        &mut self,
        column: &[u64],
        code: usize,
        ring: &BucketRing,
        newest: i64,
        reach: BucketRange,
    ) -> u64 {
        let from = if reach.from == self.reach.from && reach.to >= self.reach.to {
            self.reach.to.max(reach.from)
        } else {
            self.sum = 0;
            reach.from
        };
        self.reach = reach;
        if from < reach.to {
            let (len, count) = (ring.len() as usize, (reach.to - from) as usize);
            let oldest = newest - (reach.to - 1);
            let start = if oldest < 0 { oldest + ring.len() } else { oldest } as usize;
            let end = start + count;
            self.sum = self.sum.saturating_add(lanes::sum(column, code, start, end.min(len)));
            if end > len {
                self.sum = self.sum.saturating_add(lanes::sum(column, code, 0, end - len));
            }
        }
        self.sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tiers(texts: &[&str]) -> Vec<Tier> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn layouts_are_checked_with_the_mend_named() {
        let check =
            |counters: &[&str], tier_texts: &[&str], windows: &[&str], keep: Option<Span>, message: &str| {
                let made = Layout::new(
                    counters.iter().map(|name| (*name).to_owned()).collect(),
                    &tiers(tier_texts),
                    windows.iter().map(|window| window.parse().unwrap()).collect(),
                    keep,
                );
                let text = made.err().map_or(String::new(), |error| error.to_string());
                assert_eq!(text, message);
            };
        let two = &["10m x 144", "1d x 14"];
        check(&["seen", "spam"], two, &["10m", "1h", "1d", "2d", "14d"], None, "");
        check(
            &["seen"],
            two,
            &["15d"],
            None,
            "no tier can answer the window 15d; possible are 10m to 1d, 1d to 14d",
        );
        check(
            &["seen"],
            &["1h x 3"],
            &["1m"],
            None,
            "no tier can answer the window 1m; possible are 1h to 3h",
        );
        check(&["a", "a"], two, &[], None, "counters: `a` is there twice");
        check(&[], two, &[], None, "counters: 0 of them, 1 to 64 can be kept");
        check(&["a"], &[], &[], None, "tiers: 0 of them, one or two can be kept");
        check(
            &["a"],
            &["7m x 9", "1h x 9"],
            &[],
            None,
            "tiers: 1h x 9 must have buckets that are a multiple of 7m",
        );
        check(
            &["a"],
            &["1m x 180", "1h x 2"],
            &[],
            None,
            "tiers: 1h x 2 must reach at least as far back as 1m x 180",
        );
        check(
            &["a"],
            &["1s x 90000"],
            &[],
            None,
            "tiers: 90001 buckets of 1 counters are too many for one cell",
        );
        let message = "keep = 1d is shorter than the tier 1d x 14: make it at least 14d";
        check(&["a"], two, &[], Some(Span::days(1)), message);
    }
}
