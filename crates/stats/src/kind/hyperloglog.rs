//! Numbers of different values in a period, about: a HyperLogLog per kept period (Flajolet, Fusy, Gandouet and
//! Meunier, 2007), read with Ertl's improved estimator ("New cardinality estimation algorithms for HyperLogLog
//! sketches", arXiv 1702.01284, algorithm 6), which needs no correction for small or large counts.
//!
//! Of a hash of 48 bits the leading `p` choose one of `2^p` registers; the register keeps the greatest rank that it
//! has seen: one more than the number of leading zeros in the other bits. So a value that comes twice changes nothing,
//! cells can be merged in any order and also twice, and the standard error is `1.04 / sqrt(2^p)`.
//!
//! ```text
//! sparse   head, then entries of 32 bits, ascending: slot of the period, register, rank (6 bits)
//! dense    head, a bit for each slot whose registers are all kept, a block for each such slot, then entries
//! block    10 words: how many registers have each rank, 16 bits a number
//!          the registers, 6 bits each, ten in a word
//! ```
//!
//! A slot is the period's number modulo the number of kept periods. The numbers of registers by rank make reading a
//! single period cheap: that is the common window.

use event::{Key, Span, Time};
use serde::{Deserialize, Serialize};

use super::windows::{TimelineBucket, timeline};
use super::{
    Addition, CellContent, CellOperations, CellPlan, Measure, OTHER_CONTENT, ObservationContext,
    StatisticChange, StatisticForm, distinct,
};
use crate::bytes::{ByteReader, push_tier};
use crate::cell::divisor::Divisor;
use crate::cell::head::{CellHead, LONG_WORDS};
use crate::cell::{CellBuffer, ensure, fit_down};
use crate::layout::{self, CellShape, LayoutError, Tier, WindowBuckets};

/// Approximate numbers of different values.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ApproximateDistinctForm {
    /// The period, and how many whole ones are kept beside the current one.
    pub tier: Tier,
    /// The periods that readings estimate, as for [`super::distinct::DistinctForm`], but a value that came in several
    /// periods of a window counts once.
    #[serde(skip)]
    pub windows: Vec<Span>,
    /// The standard error is `1.04 / sqrt(2^precision)`: 1.6% for the usual 12, for at most 3.3 KiB a period.
    pub precision: u8,
}

impl Measure {
    /// Least precision of an approximate count.
    pub const PRECISION_MIN: u8 = layout::PRECISION_MIN;
    /// Greatest precision of an approximate count.
    pub const PRECISION_MAX: u8 = layout::PRECISION_MAX;
}

impl ApproximateDistinctForm {
    pub(super) fn cells(&self, trails: &[WindowBuckets]) -> Result<HyperLogLogPlan, LayoutError> {
        Ok(HyperLogLogPlan::new(&self.shape()?, self.precision, trails))
    }
}

impl StatisticForm for ApproximateDistinctForm {
    const NUMBER: u8 = 4;

    fn name(&self) -> &'static str {
        "approx"
    }

    fn counters(&self) -> Vec<String> {
        vec!["distinct".to_owned()]
    }

    fn windows(&self) -> &[Span] {
        &self.windows
    }

    fn without_windows(&self) -> ApproximateDistinctForm {
        ApproximateDistinctForm { tier: self.tier, windows: Vec::new(), precision: self.precision }
    }

    fn is_estimate(&self) -> bool {
        true
    }

    fn shape(&self) -> Result<CellShape, LayoutError> {
        let ApproximateDistinctForm { tier, precision, .. } = *self;
        if !(Measure::PRECISION_MIN..=Measure::PRECISION_MAX).contains(&precision) {
            return Err(LayoutError::Precision(precision));
        }
        let shape = CellShape::new(1, &[tier], None)?;
        let words = HyperLogLogPlan::words_max(tier, precision);
        if words > CellShape::WORDS_MAX as u64 {
            return Err(LayoutError::Tiers(format!(
                "{tier}: with a precision of {precision} a cell could have {words} words, of at most {}",
                CellShape::WORDS_MAX
            )));
        }
        Ok(shape)
    }

    fn trail(&self, window: Span) -> Result<WindowBuckets, LayoutError> {
        distinct::trail(self.tier, window)
    }

    fn trails(&self) -> Result<Vec<WindowBuckets>, LayoutError> {
        distinct::trails(self.tier, &self.windows)
    }

    fn slack(&self) -> Span {
        self.tier.width
    }

    fn accepts(&self, key: &Key, add: &Addition) -> Result<(), &'static str> {
        distinct::accepts(key, add)
    }

    fn encode(&self, bytes: &mut Vec<u8>) {
        push_tier(bytes, self.tier);
        bytes.push(self.precision);
    }

    fn decode(reader: &mut ByteReader<'_>) -> Option<ApproximateDistinctForm> {
        let tier = reader.tier()?;
        let [precision] = reader.array()?;
        Some(ApproximateDistinctForm { tier, windows: Vec::new(), precision })
    }
}

/// The HyperLogLog of one period.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HyperLogLogRegisters {
    /// The start of the period.
    pub start: Time,
    /// Number and rank of each register that is not zero, in any order.
    pub ranks: Vec<(u32, u8)>,
}

/// Bits of a hash that are used.
const HASH_BITS: u32 = 48;
const RANK_BITS: u32 = 6;
const RANKS: usize = 1 << RANK_BITS;
const RANK_MASK: u64 = RANKS as u64 - 1;
/// Registers in a word.
const IN_WORD: usize = 10;
/// Words of a block that say how many registers have each rank, and numbers in each.
const TALLY_WORDS: usize = 10;
const IN_TALLY: usize = 4;
const REGISTER_WORDS_MAX: usize = (1usize << crate::Measure::PRECISION_MAX).div_ceil(IN_WORD);
/// Entries of several periods that are united by sorting.
const FEW: usize = 64;

/// The operations on cells of approximate distinct counts.
#[derive(Clone, Debug)]
pub(crate) struct HyperLogLogPlan {
    shape: CellShape,
    width: Divisor,
    slots: Divisor,
    precision: u32,
    /// Words of the bits that say which slots have a block, and of a block.
    map: usize,
    block: usize,
    windows: Vec<WindowBuckets>,
}

impl HyperLogLogPlan {
    /// Words that a cell has at most.
    fn words_max(tier: Tier, precision: u8) -> u64 {
        let slots = u64::from(tier.buckets) + 1;
        let block = TALLY_WORDS as u64 + (1u64 << precision).div_ceil(IN_WORD as u64);
        LONG_WORDS as u64 + slots.div_ceil(64) + slots * block + 1
    }

    fn new(shape: &CellShape, precision: u8, windows: &[WindowBuckets]) -> HyperLogLogPlan {
        let slots = i64::from(shape.fine().buckets) + 1;
        HyperLogLogPlan {
            shape: shape.clone(),
            width: Divisor::new(shape.fine().width.0),
            slots: Divisor::new(slots),
            precision: u32::from(precision),
            map: (slots as usize).div_ceil(64),
            block: TALLY_WORDS + (1usize << precision).div_ceil(IN_WORD),
            windows: windows.to_vec(),
        }
    }

    fn add(&self, room: &mut impl CellBuffer, time: Time, hash: u64) {
        let mut head = self.open(room, time.0, time.0);
        if let Some(slot) = self.slot_of(self.bucket(time), self.width.floor(head.last)) {
            let bits = hash << (u64::BITS - HASH_BITS);
            let register = bits >> (u64::BITS - self.precision);
            let rank = (bits << self.precision).leading_zeros().min(HASH_BITS - self.precision) + 1;
            self.raise(room, &mut head, slot, register, u64::from(rank));
        }
        head.write(room.words_mut());
    }

    /// Adds the cell of another tier or precision: periods go into longer ones that contain them, registers into
    /// fewer. What would have to be divided is dropped.
    fn fold(&self, room: &mut impl CellBuffer, other: &[u64], old: &HyperLogLogPlan) {
        let Some(seen) = CellHead::read(other) else { return };
        let mut head = self.open(room, seen.first, seen.last);
        let ratio = self.width.by() / old.width.by();
        if self.width.by() % old.width.by() == 0 && self.precision <= old.precision {
            let newest = self.width.floor(head.last);
            let theirs = old.width.floor(seen.last);
            let fewer = old.precision - self.precision;
            old.for_each(other, &seen, |slot, register, rank| {
                let bucket = theirs.saturating_sub(old.distance(theirs, slot)).div_euclid(ratio);
                // The bits that no longer choose the register are the first ones that the rank counts.
                let low = register & ((1 << fewer) - 1);
                let rank = match low {
                    0 => u64::from(fewer) + rank,
                    _ => u64::from(low.leading_zeros() - (u64::BITS - fewer)) + 1,
                };
                if let Some(slot) = self.slot_of(bucket, newest) {
                    self.raise(room, &mut head, slot, register >> fewer, rank);
                }
            });
        }
        head.write(room.words_mut());
    }

    /// The registers of every period that has any, oldest first.
    fn registers(&self, words: &[u64]) -> Vec<HyperLogLogRegisters> {
        let Some(head) = CellHead::read(words) else { return Vec::new() };
        let newest = self.width.floor(head.last);
        let mut periods = std::collections::BTreeMap::<i64, Vec<(u32, u8)>>::new();
        self.for_each(words, &head, |slot, register, rank| {
            let bucket = newest.saturating_sub(self.distance(newest, slot));
            periods.entry(bucket).or_default().push((register as u32, rank as u8));
        });
        let registers = |(bucket, ranks): (i64, Vec<(u32, u8)>)| {
            let start = Time(bucket.saturating_mul(self.width.by()));
            HyperLogLogRegisters { start, ranks }
        };
        periods.into_iter().map(registers).collect()
    }

    fn rank_max(&self) -> u64 {
        u64::from(HASH_BITS - self.precision) + 1
    }

    fn slot(&self, entry: u64) -> i64 {
        (entry >> (self.precision + RANK_BITS)).cast_signed()
    }

    fn slot_of(&self, bucket: i64, newest: i64) -> Option<i64> {
        (newest.saturating_sub(bucket) < self.slots.by()).then(|| self.slots.split(bucket).1)
    }

    fn distance(&self, newest: i64, slot: i64) -> i64 {
        let distance = self.slots.split(newest).1 - slot;
        if distance < 0 { distance + self.slots.by() } else { distance }
    }

    /// The start of the entries.
    fn entries_at(&self, words: &[u64], head: &CellHead) -> usize {
        if !head.dense {
            return head.at;
        }
        let map = words.get(LONG_WORDS..).unwrap_or_default();
        let blocks: u32 = map.iter().take(self.map).map(|bits| bits.count_ones()).sum();
        LONG_WORDS + self.map + blocks as usize * self.block
    }

    /// The start of a slot's block, if it has one.
    fn block_of(&self, words: &[u64], head: &CellHead, slot: i64) -> Option<usize> {
        if !head.dense {
            return None;
        }
        let (word, bit) = (slot as usize / 64, slot as usize % 64);
        let map = words.get(LONG_WORDS..).unwrap_or_default();
        let bits = map.get(word)?;
        (bits >> bit & 1 == 1).then(|| self.rank_of(words, slot) * self.block + LONG_WORDS + self.map)
    }

    /// The number of blocks before that of a slot.
    fn rank_of(&self, words: &[u64], slot: i64) -> usize {
        let (word, bit) = (slot as usize / 64, slot as usize % 64);
        let map = words.get(LONG_WORDS..).unwrap_or_default();
        let whole: u32 = map.iter().take(word).map(|bits| bits.count_ones()).sum();
        let part = map.get(word).map_or(0, |bits| (bits & ((1 << bit) - 1)).count_ones());
        (whole + part) as usize
    }

    /// The first entry of a slot or of one after it.
    fn first_of(&self, words: &[u64], at: usize, count: usize, slot: i64) -> usize {
        search(words, at, count, slot.cast_unsigned() << self.precision)
    }

    fn open(&self, room: &mut impl CellBuffer, first: i64, last: i64) -> CellHead {
        let Some(mut head) = CellHead::read(room.words()) else {
            let head = CellHead::fresh(first, last);
            ensure(room, head.at);
            return head;
        };
        let total = self.entries_at(room.words(), &head) + head.count.div_ceil(2);
        ensure(room, total);
        if last > head.last {
            let (from, to) = (self.width.floor(head.last), self.width.floor(last));
            if from != to {
                self.age(room, &mut head, from, to);
            }
            head.last = last;
        }
        head.first = head.first.min(first);
        if !head.dense {
            let body = head.count.div_ceil(2);
            head.settle(room, body, body);
        }
        head
    }

    /// Drops the periods that the newest moves away from.
    fn age(&self, room: &mut impl CellBuffer, head: &mut CellHead, from: i64, to: i64) {
        let moved = to.saturating_sub(from);
        let kept = |slot: i64| self.distance(from, slot).saturating_add(moved) < self.slots.by();
        let mut total = self.entries_at(room.words(), head) + head.count.div_ceil(2);
        let before = total;
        for slot in (0..self.slots.by()).filter(|slot| !kept(*slot)) {
            if let Some(block) = self.block_of(room.words(), head, slot) {
                let words = room.words_mut();
                words.copy_within(block + self.block..total, block);
                words[total - self.block..total].fill(0);
                words[LONG_WORDS + slot as usize / 64] &= !(1 << (slot % 64));
                total -= self.block;
            }
        }
        let at = self.entries_at(room.words(), head);
        let words = room.words_mut();
        let mut left = 0;
        for number in 0..head.count {
            let entry = entry(words, at, number);
            if kept(self.slot(entry)) {
                set_entry(words, at, left, entry);
                left += 1;
            }
        }
        (left..head.count).for_each(|number| set_entry(words, at, number, 0));
        head.count = left;
        let total = at + left.div_ceil(2);
        if total < before {
            fit_down(room, total);
        }
    }

    /// Raises a register to a rank, if it is lower.
    fn raise(&self, room: &mut impl CellBuffer, head: &mut CellHead, slot: i64, register: u64, rank: u64) {
        if let Some(block) = self.block_of(room.words(), head, slot) {
            return self.raise_dense(room.words_mut(), block, register as usize, rank);
        }
        let at = self.entries_at(room.words(), head);
        let key = slot.cast_unsigned() << self.precision | register;
        let number = search(room.words(), at, head.count, key);
        let new = key << RANK_BITS | rank;
        if number < head.count {
            let old = entry(room.words(), at, number);
            if old >> RANK_BITS == key {
                return set_entry(room.words_mut(), at, number, old.max(new));
            }
        }
        let [now, wanted] = [head.count, head.count + 1].map(|count| count.div_ceil(2));
        head.count += 1;
        let at = if head.dense {
            ensure(room, at + wanted);
            at
        } else {
            head.settle(room, now, wanted);
            head.at
        };
        insert(&mut room.words_mut()[at..at + wanted], number, new);
        if head.count > 2 * self.block {
            let of = [slot, slot + 1].map(|slot| self.first_of(room.words(), at, head.count, slot));
            if of[1] - of[0] > 2 * self.block {
                self.make_block(room, head, slot, of);
            }
        }
    }

    fn raise_dense(&self, words: &mut [u64], block: usize, register: usize, rank: u64) {
        let shift = (register % IN_WORD) as u32 * RANK_BITS;
        let word = &mut words[block + TALLY_WORDS + register / IN_WORD];
        let old = *word >> shift & RANK_MASK;
        if rank > old {
            *word = *word & !(RANK_MASK << shift) | rank << shift;
            let tally = |rank: u64| (block + rank as usize / IN_TALLY, rank as usize % IN_TALLY * 16);
            let [(from, from_shift), (to, to_shift)] = [tally(old), tally(rank)];
            words[from] = words[from].wrapping_sub(1 << from_shift);
            words[to] = words[to].wrapping_add(1 << to_shift);
        }
    }

    /// Gives a slot all its registers; its entries are those from `of[0]` to before `of[1]`.
    #[cold]
    fn make_block(&self, room: &mut impl CellBuffer, head: &mut CellHead, slot: i64, of: [usize; 2]) {
        let at = self.entries_at(room.words(), head);
        let all: Vec<u64> = (0..head.count).map(|number| entry(room.words(), at, number)).collect();
        let blocks = if head.dense { at } else { LONG_WORDS + self.map };
        head.count = all.len() - (of[1] - of[0]);
        ensure(room, (blocks + self.block + head.count.div_ceil(2)).max(at + all.len().div_ceil(2)));
        let words = room.words_mut();
        words[at..].fill(0);
        (head.dense, head.at) = (true, LONG_WORDS);
        let block = LONG_WORDS + self.map + self.rank_of(words, slot) * self.block;
        words.copy_within(block..blocks, block + self.block);
        words[block..block + self.block].fill(0);
        words[LONG_WORDS + slot as usize / 64] |= 1 << (slot % 64);
        words[block] = 1 << self.precision;
        let mut left = 0;
        for (number, entry) in all.into_iter().enumerate() {
            if (of[0]..of[1]).contains(&number) {
                let register = entry >> RANK_BITS & ((1 << self.precision) - 1);
                self.raise_dense(words, block, register as usize, entry & RANK_MASK);
            } else {
                set_entry(words, blocks + self.block, left, entry);
                left += 1;
            }
        }
    }

    /// Counts the registers of a block by rank.
    fn tally(&self, words: &[u64], block: usize) -> [u64; RANKS] {
        let mut tally = [0; RANKS];
        for (number, counts) in tally.chunks_exact_mut(IN_TALLY).take(TALLY_WORDS).enumerate() {
            let word = words.get(block + number).copied().unwrap_or(0);
            counts.iter_mut().enumerate().for_each(|(at, count)| *count = word >> (at * 16) & 0xffff);
        }
        tally
    }

    /// Counts registers by rank, one by one.
    fn tally_of(&self, registers: &[u64]) -> [u64; RANKS] {
        // Several tables, as counting the same rank twice in a row has to wait for the first.
        let mut tallies = [[0u32; RANKS]; 5];
        for word in registers {
            for (at, tally) in tallies.iter_mut().enumerate() {
                let lane = |at: usize| (word >> (at as u32 * RANK_BITS) & RANK_MASK) as usize;
                tally[lane(at)] += 1;
                tally[lane(at + 5)] += 1;
            }
        }
        let mut tally = [0; RANKS];
        for counts in tallies {
            tally.iter_mut().zip(counts).for_each(|(sum, count)| *sum += u64::from(count));
        }
        // The last word is not full.
        tally[0] -= ((registers.len() * IN_WORD) as u64).saturating_sub(1 << self.precision);
        tally
    }

    /// Calls with slot, register and rank of whatever is not zero.
    fn for_each(&self, words: &[u64], head: &CellHead, mut each: impl FnMut(i64, u64, u64)) {
        let at = self.entries_at(words, head);
        for number in 0..head.count {
            let entry = entry(words, at, number);
            let register = entry >> RANK_BITS & ((1 << self.precision) - 1);
            each(self.slot(entry), register, entry & RANK_MASK);
        }
        for slot in 0..self.slots.by() {
            let Some(block) = self.block_of(words, head, slot) else { continue };
            for register in 0..1usize << self.precision {
                let word = words.get(block + TALLY_WORDS + register / IN_WORD).copied().unwrap_or(0);
                let rank = word >> ((register % IN_WORD) as u32 * RANK_BITS) & RANK_MASK;
                if rank > 0 {
                    each(slot, register as u64, rank);
                }
            }
        }
    }

    /// The estimate for the periods at these distances from the newest, `from <= to` among them.
    fn estimate(&self, words: &[u64], head: &CellHead, newest: i64, from: i64, to: i64) -> u64 {
        let registers = 1u64 << self.precision;
        let at = self.entries_at(words, head);
        // The slots of the periods, in one or two runs.
        let newest = self.slots.split(newest).1;
        let (oldest, latest) = (newest - to, newest - from);
        let len = self.slots.by();
        let runs = match (oldest < 0, latest < 0) {
            (false, _) => [(oldest, latest + 1), (0, 0)],
            (true, false) => [(oldest + len, len), (0, latest + 1)],
            (true, true) => [(oldest + len, latest + len + 1), (0, 0)],
        };
        let found = runs.map(|(from, to)| {
            let first = |slot: i64| self.first_of(words, at, head.count, slot);
            if from < to && head.count > 0 { first(from)..first(to) } else { 0..0 }
        });
        let count: usize = found.iter().map(|run| run.len()).sum();
        let mut entries =
            found.iter().cloned().flatten().map(|number| entry(words, at, number) & self.register_mask());
        let one = |found: &[std::ops::Range<usize>; 2]| match found {
            [run, other] if other.is_empty() => {
                let slot = |number: usize| self.slot(entry(words, at, number));
                slot(run.start) == slot(run.end - 1)
            }
            _ => false,
        };
        let slots = || runs.into_iter().flat_map(|(from, to)| from..to);
        let mut blocks = slots().filter_map(|slot| self.block_of(words, head, slot));
        let first = blocks.next();
        let mut tally = [0; RANKS];
        match (first, count) {
            (None, 0) => return 0,
            (None, 1) => return 1,
            (Some(block), 0) if blocks.clone().next().is_none() => tally = self.tally(words, block),
            // All of one period: no register comes twice.
            (None, _) if one(&found) => {
                entries.for_each(|entry| tally[(entry & RANK_MASK) as usize] += 1);
                tally[0] = registers - count as u64;
            }
            (None, 2..=FEW) => {
                let mut few = [0; FEW];
                few.iter_mut().zip(&mut entries).for_each(|(few, entry)| *few = entry);
                let few = &mut few[..count];
                few.sort_unstable();
                // The last of equal registers has the greatest rank.
                for (number, entry) in few.iter().enumerate() {
                    if few.get(number + 1).is_none_or(|next| next >> RANK_BITS != entry >> RANK_BITS) {
                        tally[(entry & RANK_MASK) as usize] += 1;
                        tally[0] += 1;
                    }
                }
                tally[0] = registers - tally[0];
            }
            _ => {
                let mut united = [0; REGISTER_WORDS_MAX];
                let united = &mut united[..self.block - TALLY_WORDS];
                match first {
                    Some(block) => {
                        for block in std::iter::once(block).chain(blocks) {
                            let block = words.get(block + TALLY_WORDS..).unwrap_or_default();
                            united
                                .iter_mut()
                                .zip(block)
                                .for_each(|(word, other)| *word = greatest(*word, *other));
                        }
                        tally = self.tally_of(united);
                    }
                    None => tally[0] = registers,
                }
                for entry in entries {
                    let (register, rank) = ((entry >> RANK_BITS) as usize, entry & RANK_MASK);
                    let shift = (register % IN_WORD) as u32 * RANK_BITS;
                    let word = &mut united[register / IN_WORD];
                    let old = *word >> shift & RANK_MASK;
                    if rank > old {
                        *word ^= (old ^ rank) << shift;
                        tally[old as usize] -= 1;
                        tally[rank as usize] += 1;
                    }
                }
            }
        }
        estimate(&tally, self.precision).round() as u64
    }

    fn register_mask(&self) -> u64 {
        (1 << (self.precision + RANK_BITS)) - 1
    }
}

impl CellOperations for HyperLogLogPlan {
    fn columns(&self) -> usize {
        1
    }

    fn reading(&self) -> usize {
        self.windows.len()
    }

    /// Fills one estimate a window.
    fn read(&self, words: &[u64], now: Time, out: &mut [u64]) {
        out.fill(0);
        let Some(head) = CellHead::read(words) else { return };
        let newest = self.width.floor(head.last);
        for (out, window) in out.iter_mut().zip(&self.windows) {
            let (oldest, latest) = window.buckets(now);
            let from = newest.saturating_sub(latest).max(0);
            let to = newest.saturating_sub(oldest).min(self.slots.by() - 1);
            if from <= to {
                *out = self.estimate(words, &head, newest, from, to);
            }
        }
    }

    #[inline]
    fn change<'a>(&self, add: &'a Addition, context: &ObservationContext<'_>) -> StatisticChange<'a> {
        match add {
            Addition::Distinct { pair } => StatisticChange::Hash(context.time, pair.0),
            _ => StatisticChange::Nothing,
        }
    }

    #[inline]
    fn apply(&self, room: &mut impl CellBuffer, change: &StatisticChange<'_>) {
        if let StatisticChange::Hash(time, hash) = change {
            self.add(room, *time, *hash);
        }
    }

    fn merge(&self, room: &mut impl CellBuffer, other: &[u64]) {
        self.fold(room, other, self);
    }

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
        self.width.floor(time.0)
    }

    fn since(&self, window: usize, now: Time) -> Option<Time> {
        Some(self.windows.get(window)?.start(now))
    }

    fn check(&self, words: &[u64]) -> bool {
        let Some(head) = CellHead::read(words) else { return words.iter().all(|word| *word == 0) };
        let at = self.entries_at(words, &head);
        if !head.check(words) || head.lane != 0 || at + head.count.div_ceil(2) > CellShape::WORDS_MAX {
            return false;
        }
        if head.count > 0 && at + head.count.div_ceil(2) > words.len() {
            return false;
        }
        let slots = self.slots.by().cast_unsigned();
        if head.dense {
            let map = words.get(LONG_WORDS..).unwrap_or_default();
            for (word, bits) in map.iter().take(self.map).enumerate() {
                let valid = (0..64).filter(|bit| (word as u64 * 64 + bit) < slots).count();
                if valid < 64 && bits >> valid != 0 {
                    return false;
                }
            }
            let mut block = LONG_WORDS + self.map;
            while block < at {
                let lane = |word: u64, at: usize| word >> (at as u32 * RANK_BITS) & RANK_MASK;
                let mut tally = [0u64; RANKS];
                for number in 0..self.block - TALLY_WORDS {
                    let word = words.get(block + TALLY_WORDS + number).copied().unwrap_or(0);
                    let used = ((1usize << self.precision) - number * IN_WORD).min(IN_WORD);
                    (0..used).for_each(|at| tally[lane(word, at) as usize] += 1);
                    if word >> (used as u32 * RANK_BITS) != 0 {
                        return false;
                    }
                }
                let stored = self.tally(words, block);
                if tally != stored || tally[self.rank_max() as usize + 1..].iter().any(|count| *count > 0) {
                    return false;
                }
                block += self.block;
            }
        }
        let mut before = None;
        for number in 0..head.count {
            let entry = entry(words, at, number);
            let (slot, rank) = (self.slot(entry), entry & RANK_MASK);
            let ascending = before.is_none_or(|before| before < entry >> RANK_BITS);
            before = Some(entry >> RANK_BITS);
            if !ascending || rank == 0 || rank > self.rank_max() || slot.cast_unsigned() >= slots {
                return false;
            }
            if self.block_of(words, &head, slot).is_some() {
                return false;
            }
        }
        let odd = head.count % 2 == 1 && words[at + head.count / 2] >> 32 != 0;
        !odd && words.iter().skip(at + head.count.div_ceil(2)).all(|word| *word == 0)
    }

    /// Estimates for every period that has any, oldest first.
    fn rows(&self, words: &[u64]) -> Vec<TimelineBucket> {
        let Some(head) = CellHead::read(words) else { return Vec::new() };
        let newest = self.width.floor(head.last);
        let estimates = (0..self.slots.by()).rev().map(|distance| {
            let estimate = self.estimate(words, &head, newest, distance, distance);
            (false, newest.saturating_sub(distance), vec![estimate])
        });
        timeline(&self.shape, estimates.filter(|(_, _, counts)| counts != &[0]))
    }

    fn content(&self, words: &[u64]) -> Option<CellContent> {
        Some(CellContent::Registers(self.registers(words)))
    }

    fn restore(
        &self,
        room: &mut impl CellBuffer,
        (first, last): (Time, Time),
        content: &CellContent,
    ) -> Result<(), &'static str> {
        let CellContent::Registers(periods) = content else { return Err(OTHER_CONTENT) };
        let mut head = self.open(room, first.0, last.0);
        let newest = self.width.floor(last.0);
        for HyperLogLogRegisters { start, ranks } in periods {
            let bucket = self.bucket(*start);
            let slot = self.slot_of(bucket, newest).filter(|_| bucket <= newest);
            let slot = slot.ok_or("a period is not one of those that are kept")?;
            for (register, rank) in ranks {
                let (register, rank) = (u64::from(*register), u64::from(*rank));
                if register >> self.precision != 0 || rank == 0 || rank > self.rank_max() {
                    return Err("a register's number or rank is out of range");
                }
                self.raise(room, &mut head, slot, register, rank);
            }
        }
        head.write(room.words_mut());
        Ok(())
    }

    fn translate(
        &self,
        room: &mut impl CellBuffer,
        words: &[u64],
        old: &HyperLogLogPlan,
        _: &[Option<usize>],
    ) {
        self.fold(room, words, old);
    }
}

impl CellPlan {
    /// Adds a value to an approximate distinct count, by a hash of it. The low 48 bits are used, and must be
    /// distributed like random ones. Other statistics do not change.
    #[inline]
    pub fn add_hash(&self, room: &mut impl CellBuffer, time: Time, hash: u64) {
        self.apply(room, &StatisticChange::Hash(time, hash));
    }
}

/// An entry of 32 bits among the words from `at`.
#[inline]
fn entry(words: &[u64], at: usize, number: usize) -> u64 {
    words[at + number / 2] >> (number % 2 * 32) & 0xffff_ffff
}

#[inline]
fn set_entry(words: &mut [u64], at: usize, number: usize, entry: u64) {
    let shift = number % 2 * 32;
    let word = &mut words[at + number / 2];
    *word = *word & !(0xffff_ffff << shift) | entry << shift;
}

/// The first of so many entries whose slot and register are not below the key.
fn search(words: &[u64], at: usize, count: usize, key: u64) -> usize {
    let (mut low, mut high) = (0, count);
    while low < high {
        let middle = low.midpoint(high);
        if entry(words, at, middle) >> RANK_BITS < key { low = middle + 1 } else { high = middle }
    }
    low
}

/// Moves the entries from `number` one up, and puts one there. The last entry's place is free.
fn insert(words: &mut [u64], number: usize, entry: u64) {
    let word = number / 2;
    for at in (word + 1..words.len()).rev() {
        words[at] = words[at] << 32 | words[at - 1] >> 32;
    }
    let old = words[word];
    words[word] = if number.is_multiple_of(2) { old << 32 | entry } else { old & 0xffff_ffff | entry << 32 };
}

/// The greater of each two registers. Five at a time, so that each has a bit to borrow from.
#[inline]
fn greatest(left: u64, right: u64) -> u64 {
    const FIVE: u64 = 0x003f_03f0_3f03_f03f;
    const BORROW: u64 = 0x0040_0400_4004_0040;
    let five = |left: u64, right: u64| {
        let greater = ((left | BORROW) - right) & BORROW;
        let mask = greater - (greater >> RANK_BITS);
        left & mask | right & !mask
    };
    let low = five(left & FIVE, right & FIVE);
    low | five(left >> RANK_BITS & FIVE, right >> RANK_BITS & FIVE) << RANK_BITS
}

/// Ertl's improved estimate from the number of registers by rank.
fn estimate(tally: &[u64; RANKS], precision: u32) -> f64 {
    let registers = (1u64 << precision) as f64;
    let most = (HASH_BITS - precision) as usize;
    let mut z = registers * tau(1.0 - tally[most + 1] as f64 / registers);
    for count in tally[1..=most].iter().rev() {
        z = 0.5 * (z + *count as f64);
    }
    z += registers * sigma(tally[0] as f64 / registers);
    registers * registers / (2.0 * std::f64::consts::LN_2 * z)
}

fn sigma(mut x: f64) -> f64 {
    if x >= 1.0 {
        return f64::INFINITY;
    }
    let (mut y, mut z) = (1.0, x);
    loop {
        x *= x;
        let before = z;
        z += x * y;
        y += y;
        if z == before {
            return z;
        }
    }
}

fn tau(mut x: f64) -> f64 {
    if x <= 0.0 || x >= 1.0 {
        return 0.0;
    }
    let (mut y, mut z) = (1.0, 1.0 - x);
    loop {
        x = x.sqrt();
        let before = z;
        y *= 0.5;
        z -= (1.0 - x) * (1.0 - x) * y;
        if z == before {
            return z / 3.0;
        }
    }
}
