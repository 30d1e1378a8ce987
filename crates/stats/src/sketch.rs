//! The admission sketch: how often a key was seen lately, about, in a few bytes a key. In front of a statistic it
//! lets a key have a cell only after so many sightings, so that keys that are seen once or twice cost no cell.
//!
//! ```text
//! hash ─► line of its shard ─┬─ generation A: 4 of 128 counters of 4 bits ─► the least of them ─► estimate
//!                            └─ generation B: the same 4, half a life younger
//!
//! time      |  half 0  |  half 1  |  half 2  |  half 3  |      a life is `rotate`, a half is half of it
//! even       warms      serves     warms      serves           cleared when it begins to warm
//! odd        serves     warms      serves     warms
//! ```
//!
//! **Counting.** A counting filter (Fan, Cao, Almeida, Broder, *Summary Cache*, IEEE/ACM ToN 8(3), 2000) with
//! counters of 4 bits that saturate at [`Sketch::COUNT_MAX`], and of which nothing is ever subtracted. An estimate
//! is the least of a key's counters; a sighting increments only those that equal it (conservative update: Estan,
//! Varghese, *New Directions in Traffic Measurement and Accounting*, SIGCOMM 2002). So an estimate is never below the
//! sightings that the serving generation has had of the key, up to the saturation.
//!
//! **Blocks.** All counters of a key lie in one cache line (Putze, Sanders, Singler, *Cache-, Hash- and
//! Space-Efficient Bloom Filters*, WEA 2007), one in each of four parts of the line, so that they are independent and
//! never the same counter twice. The lines of both generations are neighbours: a sighting costs a pair of lines that
//! processors fetch together.
//!
//! **Error.** With `n` other keys sighted in a generation of `L` lines, the four counters of a key that was not
//! sighted were all touched by others with the probability
//!
//! ```text
//! f(n) = E[(1 - (31/32)^i)^4],  i ~ Binomial(n, 1/L)        (equation 3 of Putze, Sanders, Singler; exact here,
//!      = sum over j of (-1)^j C(4, j) (1 - (1 - (31/32)^j) / L)^n         as the parts of a line are independent)
//! ```
//!
//! An estimate that is too high needs at least that, whatever the keys' frequencies are, so `f(n)` bounds the rate of
//! keys that are admitted too early ([`Sketch::error_rate`]). In long-tailed streams far fewer are, as all four
//! counters must have been raised by others not once but as often as the threshold asks: of keys that are seen once
//! each, at 4 bytes a key, fewer than one in ten thousand reads 2.
//!
//! | bytes a key, both generations | 128 | 64 | 32 | 16 | 8 | 4 | 2 |
//! |---|---|---|---|---|---|---|---|
//! | bound, % | 0.0012 | 0.0071 | 0.050 | 0.39 | 2.9 | 17 | 56 |
//!
//! Beyond the load that it was made for, estimates only grow: keys are admitted earlier, in the end at once. That is
//! the cost that there would be without a sketch.
//!
//! **Time** is passed in and belongs to a shard: each shard turns over when it is next touched, so no sighting clears
//! more than its shard's lines. A leap of more than half a life ahead clears both generations. Time that goes back is
//! counted as if it stood still; only if a shard hears nothing but times of more than a life ago, as often as it has
//! counters, it believes them and starts afresh. So neither late events among current ones nor a clock that was wrong
//! once can take the sketch out of use.
//!
//! **Threads.** A shard is to be touched under the lock that its caller holds for it. Counters are relaxed atomics,
//! read and then written: without the lock, sightings at the same moment may be lost, and nothing worse.
//!
//! **Completeness.** A sketch that begins with nothing while keys have been seen before answers too little until it has counted
//! for half a life: [`Sketch::is_complete`] says from when on an estimate of zero can be believed.
//!
//! **Sharing.** Sketches of as many shards and lines count a hash in the same places ([`SketchPlace`]), so that what several
//! have seen can be counted elsewhere by place and half, and each be raised to it ([`Sketch::raise`]).
//!
//! **Images.** Each shard has its own, so that they can be written a few at a time: the number of shards, the lines of a shard
//! and half a life in microseconds; the number of its half, the time since when it is complete; its lines. All are words of
//! 64 bits; zeros at the end may be missing.

use std::fmt;
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, Ordering::Relaxed};

use event::{Span, Time};

/// Counters of a key, each in its own part of the line.
const PARTS: usize = 4;
/// Counters of a part.
const PART_COUNTERS: u32 = 32;
/// Words of a generation's line.
const WORDS: usize = 8;
/// A line's words of both generations.
const LINE_WORDS: usize = 2 * WORDS;
/// Bytes of a line of both generations.
const LINE_BYTES: usize = 8 * LINE_WORDS;
/// Times of long ago in a row before they are believed, at least.
const BEHIND_MIN: u32 = 1024;

/// Words of an image before its lines.
const HEADER_WORDS: usize = 5;
/// [`SketchShard::since`] of one that hears its first time next.
const NOT_YET: i64 = i64::MAX;

/// Options of a [`Sketch`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SketchOptions {
    /// Shares with a lock of their own each; at least 1.
    pub shards: usize,
    /// Memory for counters, both generations together. It is rounded down to whole lines, and up to one of 128 bytes
    /// a shard; [`Sketch::bytes_for`] says how much some keys need.
    pub bytes: usize,
    /// The life of a generation. A key that is sighted often enough within half of it is always admitted, what was
    /// sighted longer ago than it never counts.
    pub rotate: Span,
}

/// Approximate counts of sightings by hash. See the module's beginning for what it promises.
pub struct Sketch {
    lines: Box<[CounterLine]>,
    shards: Box<[SketchShard]>,
    lines_a_shard: usize,
    /// Microseconds, at least 1.
    half: i64,
}

/// The counters of both generations. Aligned so that they are a pair of cache lines.
#[repr(align(128))]
struct CounterLine([[AtomicU64; WORDS]; 2]);

struct SketchShard {
    /// The number of the half that it is in: [`Time`] divided by the half's length.
    half: AtomicI64,
    /// Times in a row of more than a life ago.
    behind: AtomicU32,
    /// Since when it has all sightings.
    since: AtomicI64,
    /// True if its image is out of date.
    has_changed: AtomicBool,
}

/// The counters of a hash, the same in all sketches with as many lines a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SketchPlace {
    /// The line, among those of the shard.
    pub line: u32,
    /// Five bits for each part of the line, the first part's lowest: which of its counters.
    pub counters: u32,
}

impl SketchPlace {
    /// Bits of [`SketchPlace::counters`].
    const COUNTERS_MAX: u32 = (1 << (5 * PARTS)) - 1;
}

impl Sketch {
    /// The bytes of one line, of both generations.
    pub const LINE_BYTES: usize = LINE_BYTES;
    /// The largest estimate.
    pub const COUNT_MAX: u32 = 15;

    /// An empty sketch of which no sighting was ever forgotten. Allocates all memory that it will use.
    pub fn new(options: SketchOptions) -> Sketch {
        let shards = options.shards.max(1);
        let lines_a_shard = (options.bytes / LINE_BYTES / shards).clamp(1, u32::MAX as usize);
        let shard = || SketchShard {
            half: AtomicI64::new(i64::MIN),
            behind: AtomicU32::new(0),
            since: AtomicI64::new(i64::MIN),
            has_changed: AtomicBool::new(true),
        };
        Sketch {
            lines: (0..lines_a_shard * shards).map(|_| CounterLine::default()).collect(),
            shards: (0..shards).map(|_| shard()).collect(),
            lines_a_shard,
            half: (options.rotate.0 / 2).max(1),
        }
    }

    /// Notes that sightings are missing: it is not complete until it has counted for half a life.
    pub fn forget(&self) {
        for SketchShard { since, has_changed, .. } in &self.shards {
            since.store(NOT_YET, Relaxed);
            has_changed.store(true, Relaxed);
        }
    }

    /// Returns whether a shard has all sightings of half a life before then.
    pub fn is_complete(&self, shard: usize, now: Time) -> bool {
        let since = self.shards[shard.min(self.shards.len() - 1)].since.load(Relaxed);
        since != NOT_YET && now.0.saturating_sub(since) >= self.half
    }

    /// Memory for so many different keys in a life, of which at most the share `rate` may be over-estimated: the
    /// inverse of [`Sketch::error_rate`]. Rates out of (0, 1) are brought into it.
    pub fn bytes_for(keys: u64, rate: f64) -> usize {
        let rate = if rate.is_nan() { 0.01 } else { rate.clamp(1e-9, 0.999) };
        // Less than a line a key is always enough for 1e-3; 64 lines a key for 1e-9 and more.
        let (mut too_few, mut enough) = (0, keys.max(1).saturating_mul(64).min(1 << 48));
        while too_few + 1 < enough {
            let middle = too_few + (enough - too_few) / 2;
            if error_rate(keys, middle) <= rate {
                enough = middle;
            } else {
                too_few = middle;
            }
        }
        usize::try_from(enough).unwrap_or(usize::MAX / LINE_BYTES).saturating_mul(LINE_BYTES)
    }

    /// The share of keys whose estimate may be too high when so many different keys are sighted in a life: an upper
    /// bound for keys that are admitted too early, and exact for a key that was never sighted.
    pub fn error_rate(&self, keys: u64) -> f64 {
        error_rate(keys, self.lines.len() as u64)
    }

    /// Memory in use.
    pub fn memory_bytes(&self) -> usize {
        size_of_val(&*self.lines) + size_of_val(&*self.shards)
    }

    /// The line of a hash, for [`Sketch::touch`]. Shards above the last are the last.
    pub fn line(&self, shard: usize, hash: u64) -> usize {
        self.line_of(self.shard(shard), self.place(hash))
    }

    /// Loads a line, so that it is in the cache when a hash of it is seen. To be called for a whole batch first: the
    /// processor then waits for many lines at once.
    pub fn touch(&self, line: usize) {
        if let Some(CounterLine([even, odd])) = self.lines.get(line) {
            black_box(even[0].load(Relaxed) | odd[0].load(Relaxed));
        }
    }

    /// Counts a sighting; answers the estimate from before it. The hash must be well mixed over its 64 bits but for
    /// leading ones that may be the shard's.
    pub fn see(&self, shard: usize, hash: u64, now: Time) -> u32 {
        let (shard, place) = (self.shard(shard), self.place(hash));
        let serving = self.turn(shard, now);
        let SketchShard { since, has_changed, .. } = &self.shards[shard];
        if since.load(Relaxed) == NOT_YET {
            since.store(now.0, Relaxed);
        }
        if !has_changed.load(Relaxed) {
            has_changed.store(true, Relaxed);
        }
        let CounterLine(generations) = &self.lines[self.line_of(shard, place)];
        let (serving, warming) = (&generations[serving], &generations[1 - serving]);
        increment(warming, place.counters);
        increment(serving, place.counters)
    }

    /// The estimate as of then; counts nothing.
    pub fn estimate(&self, shard: usize, hash: u64, now: Time) -> u32 {
        let (shard, place) = (self.shard(shard), self.place(hash));
        let (current, now) = (self.shards[shard].half.load(Relaxed), self.half_of(now));
        // What has served too long reads as if it were cleared; times that go back read what there is.
        if now > current.saturating_add(1) {
            return 0;
        }
        let CounterLine(generations) = &self.lines[self.line_of(shard, place)];
        let words = &generations[serving(now.max(current))];
        counters(place.counters).map(|(word, shift)| count(&words[word], shift)).min().unwrap_or(0) as u32
    }

    /// Forgets all sightings of a hash. Others that share counters with it may be taken for seen less often than they were, by as
    /// much as all of their counters are shared.
    pub fn forget_hash(&self, shard: usize, hash: u64) {
        let (shard, place) = (self.shard(shard), self.place(hash));
        let CounterLine(generations) = &self.lines[self.line_of(shard, place)];
        for (words, (word, shift)) in
            generations.iter().flat_map(|words| counters(place.counters).map(move |counter| (words, counter)))
        {
            let before = words[word].load(Relaxed);
            words[word].store(before & !(15 << shift), Relaxed);
        }
        self.shards[shard].has_changed.store(true, Relaxed);
    }

    /// The place of a hash's count, in any shard.
    pub fn place(&self, hash: u64) -> SketchPlace {
        // Hashes of a shard may share their leading bits: a multiplication brings the others up (Fibonacci hashing,
        // Knuth, TAOCP 3, 6.4), and the upper half down to the counters.
        let mixed = (hash ^ hash >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let counters = (mixed ^ mixed >> 29) as u32 & SketchPlace::COUNTERS_MAX;
        let line = (((mixed >> 32) * self.lines_a_shard as u64) >> 32) as u32;
        SketchPlace { line, counters }
    }

    /// Returns the number of the half that a shard is in, in which the next sighting counts; of one that was never sighted
    /// in, that of a time.
    pub fn half(&self, shard: usize, now: Time) -> i64 {
        match self.shards[self.shard(shard)].half.load(Relaxed) {
            i64::MIN => self.half_of(now),
            half => half,
        }
    }

    /// Brings a shard to a time, as a sighting would, and returns the number of the half that it is in.
    pub fn advance(&self, shard: usize, now: Time) -> i64 {
        let shard = self.shard(shard);
        self.turn(shard, now);
        self.shards[shard].half.load(Relaxed)
    }

    /// Raises the counters of a place to what all have seen who share the sketch: in a half, and in the one before it. What
    /// is too old to count changes nothing, and neither does what is ahead of the shard.
    pub fn raise(&self, shard: usize, place: SketchPlace, half: i64, [now, before]: [u32; 2]) {
        let shard = self.shard(shard);
        let SketchShard { half: current, has_changed, .. } = &self.shards[shard];
        if current.load(Relaxed) == i64::MIN {
            current.store(half, Relaxed);
        }
        let current = current.load(Relaxed);
        let [warmed, served] = match current.checked_sub(half) {
            Some(0) => [now, now.saturating_add(before)],
            Some(1) => [0, now],
            _ => return,
        };
        has_changed.store(true, Relaxed);
        let CounterLine(generations) = &self.lines[self.line_of(shard, place)];
        raise(&generations[1 - serving(current)], place.counters, warmed);
        raise(&generations[serving(current)], place.counters, served);
    }

    fn shard(&self, shard: usize) -> usize {
        shard.min(self.shards.len() - 1)
    }

    fn line_of(&self, shard: usize, place: SketchPlace) -> usize {
        shard * self.lines_a_shard + (place.line as usize).min(self.lines_a_shard - 1)
    }

    fn half_of(&self, time: Time) -> i64 {
        time.bucket(Span(self.half))
    }

    /// Brings a shard to a time; answers which generation serves.
    fn turn(&self, shard: usize, now: Time) -> usize {
        let SketchShard { half, behind, since, .. } = &self.shards[shard];
        let current = half.load(Relaxed);
        let into = now.0.saturating_sub(current.saturating_mul(self.half));
        if 0 <= into && into < self.half {
            // Almost always, and without a division.
            if behind.load(Relaxed) > 0 {
                behind.store(0, Relaxed);
            }
            return serving(current);
        }
        let asked = self.half_of(now);
        let next = if asked > current {
            // The one that served has lived its life and warms again.
            self.clear(shard, serving(current));
            if asked > current.saturating_add(1) {
                self.clear(shard, 1 - serving(current));
            }
            behind.store(0, Relaxed);
            asked
        } else if asked >= current.saturating_sub(2) {
            behind.store(0, Relaxed);
            current
        } else {
            let times = behind.load(Relaxed).saturating_add(1);
            if times < self.behind_max() {
                behind.store(times, Relaxed);
                current
            } else {
                self.clear(shard, 0);
                self.clear(shard, 1);
                behind.store(0, Relaxed);
                since.store(now.0, Relaxed);
                asked
            }
        };
        half.store(next, Relaxed);
        serving(next)
    }

    /// A bound on the backlog: clearing it costs no more than adding it did.
    fn behind_max(&self) -> u32 {
        u32::try_from(self.lines_a_shard).unwrap_or(u32::MAX).saturating_mul(PART_COUNTERS).max(BEHIND_MIN)
    }

    fn clear(&self, shard: usize, generation: usize) {
        for CounterLine(generations) in self.lines_of(shard) {
            generations[generation].iter().for_each(|word| word.store(0, Relaxed));
        }
    }

    fn lines_of(&self, shard: usize) -> &[CounterLine] {
        &self.lines[shard * self.lines_a_shard..][..self.lines_a_shard]
    }

    /// Half the life of a generation.
    pub fn half_life(&self) -> Span {
        Span(self.half)
    }

    /// The lines of each shard.
    pub fn lines_a_shard(&self) -> usize {
        self.lines_a_shard
    }

    /// Number of shards.
    pub fn shards(&self) -> usize {
        self.shards.len()
    }

    /// The image of a shard if it has changed since the last one, which is taken to be kept. Sightings may go on meanwhile:
    /// those are in it, or it has changed again.
    pub fn image(&self, shard: usize) -> Option<Vec<u64>> {
        let SketchShard { half, since, has_changed, .. } = self.shards.get(shard)?;
        if !has_changed.swap(false, Relaxed) {
            return None;
        }
        let mut words = Vec::with_capacity(HEADER_WORDS + self.lines_a_shard * LINE_WORDS);
        // A shard that turned over while it was copied would have lost sightings: it is copied once more.
        for _ in 0..2 {
            let before = half.load(Relaxed);
            words.clear();
            words.extend(self.options());
            words.extend([before, since.load(Relaxed)].map(i64::cast_unsigned));
            words.extend(
                self.lines_of(shard).iter().flat_map(CounterLine::words).map(|word| word.load(Relaxed)),
            );
            if half.load(Relaxed) == before {
                break;
            }
        }
        Some(words)
    }

    /// Notes that an image of a shard was not kept.
    pub fn set_changed(&self, shard: usize) {
        if let Some(shard) = self.shards.get(shard) {
            shard.has_changed.store(true, Relaxed);
        }
    }

    /// Makes a shard what its image says; false if that was written with other options, and nothing was done. For a sketch
    /// that nobody uses yet.
    pub fn restore(&self, shard: usize, image: &[u64]) -> bool {
        let (Some(state), Some((header, lines))) =
            (self.shards.get(shard), image.split_first_chunk::<HEADER_WORDS>())
        else {
            return false;
        };
        let [.., half, since] = *header;
        if header[..3] != self.options() || lines.len() > self.lines_a_shard * LINE_WORDS {
            return false;
        }
        state.half.store(half.cast_signed(), Relaxed);
        state.since.store(since.cast_signed(), Relaxed);
        state.has_changed.store(false, Relaxed);
        let words = self.lines_of(shard).iter().flat_map(CounterLine::words);
        words
            .zip(lines.iter().chain(std::iter::repeat(&0)))
            .for_each(|(word, found)| word.store(*found, Relaxed));
        true
    }

    fn options(&self) -> [u64; 3] {
        [self.shards.len() as u64, self.lines_a_shard as u64, self.half.cast_unsigned()]
    }
}

impl fmt::Debug for Sketch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Sketch { shards, lines_a_shard, half, .. } = self;
        write!(f, "Sketch({} shards of {lines_a_shard} lines, half a life of {half} us)", shards.len())
    }
}

impl Default for CounterLine {
    fn default() -> CounterLine {
        CounterLine([const { [const { AtomicU64::new(0) }; WORDS] }; 2])
    }
}

impl CounterLine {
    fn words(&self) -> impl Iterator<Item = &AtomicU64> {
        self.0.iter().flatten()
    }
}

/// The generation that serves in a half: the one that warmed in the half before.
fn serving(half: i64) -> usize {
    (half & 1) as usize ^ 1
}

/// Word and shift of each counter. Parts are two words, so no two counters share one.
fn counters(places: u32) -> impl Iterator<Item = (usize, u32)> {
    (0..PARTS).map(move |part| {
        let place = places >> (5 * part) & (PART_COUNTERS - 1);
        (2 * part + (place >> 4) as usize, (place & 15) * 4)
    })
}

fn count(word: &AtomicU64, shift: u32) -> u64 {
    word.load(Relaxed) >> shift & 15
}

/// Increments the least of a key's counters; answers what they were.
fn increment(words: &[AtomicU64; WORDS], places: u32) -> u32 {
    let least = counters(places).map(|(word, shift)| count(&words[word], shift)).min().unwrap_or(0);
    if least < u64::from(Sketch::COUNT_MAX) {
        for (word, shift) in counters(places) {
            let before = words[word].load(Relaxed);
            let one = u64::from(before >> shift & 15 == least);
            words[word].store(before + (one << shift), Relaxed);
        }
    }
    least as u32
}

/// Raises a key's counters to a sum, those that are below it.
fn raise(words: &[AtomicU64; WORDS], places: u32, to: u32) {
    let to = u64::from(to.min(Sketch::COUNT_MAX));
    for (word, shift) in counters(places) {
        let (before, count) = (words[word].load(Relaxed), count(&words[word], shift));
        words[word].store(before + ((to.max(count) - count) << shift), Relaxed);
    }
}

/// The formula of the module's beginning.
fn error_rate(keys: u64, lines: u64) -> f64 {
    let missed = f64::from(PART_COUNTERS - 1) / f64::from(PART_COUNTERS);
    let term = |j: i32| (keys as f64 * (-(1.0 - missed.powi(j)) / lines.max(1) as f64).ln_1p()).exp();
    let sum = 1.0 - 4.0 * term(1) + 6.0 * term(2) - 4.0 * term(3) + term(4);
    sum.clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use parking_lot::Mutex;
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    const LIFE: i64 = 1000;

    fn sketch(shards: usize, bytes: usize) -> Sketch {
        Sketch::new(options(shards, bytes))
    }

    fn options(shards: usize, bytes: usize) -> SketchOptions {
        SketchOptions { shards, bytes, rotate: Span(LIFE) }
    }

    /// SplitMix64: numbers to well-mixed hashes.
    fn hash(number: u64) -> u64 {
        let mixed = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    fn see(sketch: &Sketch, number: u64, now: i64) -> u32 {
        let hash = hash(number);
        sketch.see(shard_of(sketch, hash), hash, Time(now))
    }

    /// The shard by the leading bits, as in a ledger.
    fn shard_of(sketch: &Sketch, hash: u64) -> usize {
        ((u128::from(hash) * sketch.shards.len() as u128) >> 64) as usize
    }

    fn estimate(sketch: &Sketch, number: u64, now: i64) -> u32 {
        let hash = hash(number);
        sketch.estimate(shard_of(sketch, hash), hash, Time(now))
    }

    #[test]
    fn a_lone_key_is_counted_exactly_and_saturates() {
        let sketch = sketch(4, 4 << 10);
        for count in 0..40 {
            assert_eq!(estimate(&sketch, 1, 0), count.min(15));
            assert_eq!(see(&sketch, 1, 0), count.min(15));
        }
        assert_eq!(estimate(&sketch, 2, 0), 0);
    }

    #[test]
    fn sightings_are_forgotten_between_half_a_life_and_a_life_later() {
        let check = |seen: i64, asked: i64, estimated: u32| {
            let sketch = sketch(1, 1 << 10);
            see(&sketch, 1, seen);
            assert_eq!(estimate(&sketch, 1, asked), estimated, "{seen} {asked}");
            assert_eq!(see(&sketch, 1, asked), estimated, "{seen} {asked}");
        };
        for seen in [0, 250, 499] {
            check(seen, 500, 1);
            check(seen, 999, 1);
            check(seen, 1000, 0);
        }
        check(500, 1499, 1);
        check(500, 1500, 0);
        check(-1, 499, 1);
        check(-1, 500, 0);
        check(0, i64::MAX, 0);
        check(i64::MIN, i64::MAX, 0);
        check(i64::MAX, i64::MIN, 1);
        check(100, -700, 1);
    }

    #[test]
    fn the_younger_takes_over_with_what_it_has_seen() {
        let sketch = sketch(1, 1 << 10);
        for _ in 0..3 {
            see(&sketch, 1, 100);
        }
        for _ in 0..4 {
            see(&sketch, 1, 600);
        }
        assert_eq!(estimate(&sketch, 1, 999), 7);
        assert_eq!(estimate(&sketch, 1, 1000), 4, "as if the half had begun");
        assert_eq!(estimate(&sketch, 1, 900), 7, "asking changes nothing");
        assert_eq!(see(&sketch, 1, 1000), 4);
        assert_eq!(see(&sketch, 1, 990), 5, "late ones count now");
        assert_eq!(estimate(&sketch, 1, 1500), 2);
    }

    #[test]
    fn a_clock_that_was_wrong_once_is_overcome() {
        let sketch = sketch(1, 128);
        see(&sketch, 1, 1 << 60);
        let late = sketch.behind_max();
        for _ in 0..late - 1 {
            see(&sketch, 2, 0);
        }
        see(&sketch, 2, 1 << 60);
        assert_eq!(estimate(&sketch, 2, 0), 15, "a current time among them: they stay late ones");
        for _ in 0..late {
            see(&sketch, 3, 0);
        }
        assert_eq!(estimate(&sketch, 2, 0), 0);
        assert_eq!(estimate(&sketch, 3, 0), 1, "the sighting that changed its mind counts");
        assert_eq!(estimate(&sketch, 3, LIFE), 0, "time runs from there");
    }

    /// The share of keys that were never seen and read as seen is what the formula says; the shares of seen ones whose
    /// estimate is too high, and of those admitted too early, are below it.
    #[test]
    fn errors_keep_to_the_bound() {
        for (bytes_a_key, threshold) in [(32, 2), (16, 2), (8, 2), (8, 5), (4, 3)] {
            let sketch = sketch(8, 1 << 20);
            let keys = (sketch.lines.len() * LINE_BYTES / bytes_a_key) as u64;
            let bound = sketch.error_rate(keys);
            // One sighting for most keys, many for few; in an order that mixes them.
            let sightings = |key: u64| if key.is_multiple_of(16) { 1 + hash(key) % 8 } else { 1 };
            let (mut seen, mut early, mut admitted) = (HashMap::<u64, u32>::new(), 0, 0);
            for round in 0..8 {
                for key in (0..keys).filter(|key| round < sightings(*key)) {
                    let before = see(&sketch, key, 0);
                    let truth = seen.entry(key).or_default();
                    assert!(before >= *truth, "never too low");
                    if before >= threshold {
                        admitted += 1;
                        early += u64::from(*truth < threshold);
                    }
                    *truth += 1;
                }
            }
            assert!(admitted > 0);
            assert!(early as f64 <= bound * keys as f64, "{early} early of {keys}, bound {bound}");
            let high = (0..keys).filter(|key| estimate(&sketch, *key, 0) > seen[key]).count();
            assert!(high as f64 <= bound * keys as f64, "{high} too high of {keys}, bound {bound}");
            let strangers = 200_000;
            let read = (keys..keys + strangers).filter(|key| estimate(&sketch, *key, 0) > 0).count() as f64;
            let expected = bound * strangers as f64;
            let slack = 5.0 * expected.sqrt() + 0.03 * expected;
            assert!((read - expected).abs() < slack, "{read} of {strangers} strangers, expected {expected}");
        }
    }

    #[test]
    fn of_keys_seen_once_few_are_admitted_early() {
        let sketch = sketch(8, 1 << 20);
        let keys = sketch.lines.len() as u64 * 32;
        let early = (0..keys).filter(|key| see(&sketch, *key, 0) >= 2).count() as u64;
        assert!(early * 10_000 < keys, "{early} of {keys}");
    }

    #[test]
    fn past_its_load_it_admits_more_and_never_fewer() {
        let sketch = sketch(1, 8 << 10);
        let mut strangers_before = 0;
        for load in 1..=8u64 {
            for key in (load - 1) * 2000..load * 2000 {
                see(&sketch, key, 0);
            }
            let strangers = (1 << 30..(1 << 30) + 1000).filter(|key| estimate(&sketch, *key, 0) >= 2).count();
            assert!(strangers >= strangers_before, "{load}");
            strangers_before = strangers;
        }
        assert!(strangers_before > 950, "{strangers_before}");
        (0..16_000).for_each(|key| assert!(estimate(&sketch, key, 0) >= 1));
        assert_eq!(see(&sketch, 1, LIFE), 0, "the next life is empty again");
    }

    #[test]
    fn memory_is_what_the_keys_need() {
        for (keys, rate) in [(1, 0.5), (1000, 0.01), (1_000_000, 0.001), (50_000_000, 0.03), (0, 0.1)] {
            let bytes = Sketch::bytes_for(keys, rate);
            assert!(error_rate(keys, (bytes / LINE_BYTES) as u64) <= rate, "{keys} {rate}");
            let less = (bytes / LINE_BYTES - 1) as u64;
            assert!(less == 0 || error_rate(keys, less) > rate, "{keys} {rate}");
        }
        for rate in [-1.0, 0.0, 1.0, 7.0, f64::NAN, f64::INFINITY] {
            assert!(Sketch::bytes_for(1000, rate) >= LINE_BYTES, "{rate}");
        }
        assert!(Sketch::bytes_for(u64::MAX, 1e-9) > 1 << 40);
        let sketch = sketch(512, 1 << 20);
        assert!(sketch.memory_bytes() <= (1 << 20) + (16 << 10));
        assert_eq!(self::sketch(512, 0).lines.len(), 512, "a line a shard at least");
    }

    #[test]
    fn shards_share_nothing() {
        let sketch = sketch(3, 3 << 10);
        for number in 0..10_000 {
            sketch.see(1, hash(number), Time(0));
        }
        for number in 0..1000 {
            let line = sketch.line(1, hash(number));
            assert!((sketch.lines_a_shard..2 * sketch.lines_a_shard).contains(&line));
            sketch.touch(line);
            assert_eq!(sketch.estimate(0, hash(number), Time(0)), 0);
            assert_eq!(sketch.estimate(2, hash(number), Time(0)), 0);
            assert_eq!(sketch.estimate(9, hash(number), Time(0)), 0, "the last one");
        }
        sketch.touch(usize::MAX);
    }

    /// Keys of a shard share leading bits: they must still use all lines.
    #[test]
    fn leading_bits_may_be_the_shards() {
        let sketch = sketch(1, 128 << 10);
        let mut lines = vec![0u32; sketch.lines.len()];
        for number in 0..64 * lines.len() as u64 {
            lines[sketch.line(0, hash(number) >> 16 | 0xabcd << 48)] += 1;
        }
        let (least, most) = (lines.iter().min().unwrap(), lines.iter().max().unwrap());
        assert!(*least > 25 && *most < 110, "{least} {most}");
    }

    #[test]
    fn nothing_is_lost_under_the_shards_locks() {
        let sketch = sketch(4, 256 << 10);
        let locks: Vec<Mutex<()>> = (0..4).map(|_| Mutex::new(())).collect();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for number in (0..3).flat_map(|_| 0..500) {
                        let hash = hash(number);
                        let shard = shard_of(&sketch, hash);
                        let _held = locks[shard].lock();
                        sketch.see(shard, hash, Time(0));
                    }
                });
            }
        });
        (0..500).for_each(|number| assert!(estimate(&sketch, number, 0) >= 12));
        let exact = (0..500).filter(|number| estimate(&sketch, *number, 0) == 12).count();
        assert!(exact > 490, "{exact}");
    }

    /// Restores the same sketch out of its images.
    fn restored(sketch: &Sketch, options: SketchOptions) -> Sketch {
        let again = Sketch::new(options);
        for shard in 0..sketch.shards() {
            sketch.set_changed(shard);
            let mut image = sketch.image(shard).expect("it has changed");
            image.truncate(image.iter().rposition(|word| *word != 0).map_or(0, |last| last + 1));
            assert!(again.restore(shard, &image));
        }
        again
    }

    #[test]
    fn images_read_back() {
        let sketch = sketch(2, 2 << 10);
        for number in 0..100 {
            see(&sketch, number % 40, number as i64 * 10);
        }
        assert!(sketch.image(0).is_some() && sketch.image(0).is_none(), "it has not changed since");
        let restored = restored(&sketch, options(2, 2 << 10));
        assert!((0..3).all(|shard| restored.image(shard).is_none()));
        for number in 0..50 {
            for now in [0, 990, 1000, 1500] {
                assert_eq!(estimate(&restored, number, now), estimate(&sketch, number, now));
            }
        }
    }

    #[test]
    fn an_image_of_other_options_is_refused() {
        let image = sketch(2, 512).image(0).unwrap();
        let same = options(2, 512);
        for other in [options(1, 512), options(2, 1024), SketchOptions { rotate: Span(LIFE + 2), ..same }] {
            assert!(!Sketch::new(other).restore(0, &image));
        }
        assert!(Sketch::new(same).restore(1, &image) && !Sketch::new(same).restore(2, &image));
        assert!((0..HEADER_WORDS).all(|length| !Sketch::new(same).restore(0, &image[..length])));
        assert!(!Sketch::new(same).restore(0, &[&image[..], &[0]].concat()));
    }

    #[test]
    fn what_was_forgotten_is_said_for_half_a_life() {
        let sketch = sketch(2, 512);
        assert!(sketch.is_complete(0, Time(0)) && restored(&sketch, options(2, 512)).is_complete(1, Time(0)));
        sketch.forget();
        assert!(!sketch.is_complete(0, Time(i64::MAX)), "until it has heard the time");
        sketch.see(0, hash(1), Time(100));
        assert!(
            !sketch.is_complete(0, Time(100 + LIFE / 2 - 1)) && sketch.is_complete(0, Time(100 + LIFE / 2))
        );
        assert!(!sketch.is_complete(1, Time(100 + LIFE / 2)), "of another shard");
        let again = restored(&sketch, options(2, 512));
        assert!(!again.is_complete(0, Time(599)) && again.is_complete(0, Time(600)));
    }

    #[test]
    fn counters_are_raised_to_what_others_have_seen() {
        let sketch = sketch(2, 1 << 10);
        let (key, half) = (hash(1), LIFE / 2);
        let place = sketch.place(key);
        let read = |time: i64| sketch.estimate(1, key, Time(time));
        sketch.raise(1, place, 3, [2, 4]);
        assert_eq!((sketch.half(1, Time(0)), sketch.half(0, Time(5 * half))), (3, 5), "of one not heard of");
        assert_eq!((read(3 * half), read(4 * half), read(5 * half)), (6, 2, 0));
        sketch.raise(1, place, 3, [1, 1]);
        assert_eq!(read(3 * half), 6, "nothing is lowered");
        assert_eq!(sketch.see(1, key, Time(3 * half)), 6);
        assert_eq!((read(3 * half), read(4 * half)), (7, 3));
        for (old, counts) in [(1, [9, 9]), (4, [9, 9]), (i64::MIN, [9, 9]), (i64::MAX, [9, 9])] {
            sketch.raise(1, place, old, counts);
        }
        assert_eq!(read(3 * half), 7, "too old, or ahead");
        assert_eq!(sketch.advance(1, Time(4 * half)), 4);
        sketch.raise(1, place, 3, [5, 9]);
        assert_eq!((read(4 * half), read(5 * half)), (5, 0), "of the half before");
        sketch.raise(1, place, 4, [15, 15]);
        assert_eq!((read(4 * half), read(5 * half)), (15, 15), "counters saturate");
        assert_eq!(sketch.estimate(0, key, Time(4 * half)), 0, "other shards are as they were");
    }

    /// The model that the sketch approximates: every sighting with the half in which it counted.
    #[derive(Default)]
    struct Model {
        sightings: Vec<(u64, i64)>,
        half: Option<i64>,
    }

    impl Model {
        fn see(&mut self, key: u64, now: i64) {
            let half = now.div_euclid(LIFE / 2).max(self.half.unwrap_or(i64::MIN));
            self.half = Some(half);
            self.sightings.push((key, half));
        }

        /// Sightings in the half and in the one before, up to saturation.
        fn count(&self, key: u64, now: i64) -> u32 {
            let half = now.div_euclid(LIFE / 2).max(self.half.unwrap_or(i64::MIN));
            let counted = |(seen, at): &&(u64, i64)| *seen == key && *at >= half - 1;
            self.sightings.iter().filter(counted).count().min(15) as u32
        }
    }

    proptest! {
        #[test]
        fn estimates_are_the_models_and_sometimes_more(
            steps in prop::collection::vec((0u64..60, prop_oneof![6 => 0i64..40, 2 => -300i64..600, 1 => -5000i64..5000]), 1..400),
            bytes in prop_oneof![Just(128usize), Just(64 << 10)],
            restore_at in any::<prop::sample::Index>(),
        ) {
            let mut sketch = sketch(1, bytes);
            let mut model = Model::default();
            let mut now = 10_000_000;
            let restore_at = restore_at.index(steps.len());
            let mut high = 0;
            for (index, (key, step)) in steps.iter().enumerate() {
                now += step;
                if index == restore_at {
                    sketch = restored(&sketch, options(1, bytes));
                }
                let truth = model.count(*key, now);
                let before = estimate(&sketch, *key, now);
                prop_assert!(before >= truth, "{} < {}", before, truth);
                high += usize::from(before > truth);
                prop_assert_eq!(see(&sketch, *key, now), before);
                model.see(*key, now);
            }
            // 60 keys in 512 lines hardly ever meet in all their counters.
            prop_assert!(bytes == 128 || high * 20 <= steps.len(), "{} of {}", high, steps.len());
        }

        #[test]
        fn any_words_are_refused_or_read(mut words in prop::collection::vec(any::<u64>(), 0..60), length in 0usize..60) {
            let sketch = sketch(1, 256);
            let mut damaged = sketch.image(0).unwrap();
            damaged.truncate(length);
            damaged.append(&mut words);
            sketch.restore(0, &damaged);
            prop_assert!(see(&sketch, 1, 5) <= Sketch::COUNT_MAX);
        }
    }
}
