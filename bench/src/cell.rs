//! A key's value as the embedded peers keep it: bytes that they know nothing of.
//!
//! A fixed statistic is three words {first, last, count}. A windowed one is a list of words {slot: 32 bits, amount: 32
//! bits}, without those that are zero; a slot is a bucket's number times six plus the counter, of a ten-minute bucket
//! or of a day. Fine buckets that no window reaches any more are folded into their days, as Tollhouse does. Amounts
//! saturate at 32 bits, half of what Tollhouse keeps.

use crate::workload::{COUNTERS, Micros, Statistic};

const FINE: Micros = 600_000_000;
/// Ten-minute buckets of a day.
const RATIO: i64 = 144;
/// Whole buckets kept beside the current one.
const FINE_KEPT: i64 = 144;
const DAYS_KEPT: i64 = 14;
/// Slots from here on are fine buckets: 2049 for the first fine one, the year 13450 for the last day.
const FINE_SLOTS: u32 = 1 << 22;

/// Windows in fine buckets, and the one in days.
const HOUR: i64 = 6;
const DAY: i64 = 144;

/// Numbers of a reading of the fixed statistic: first, last, count.
const FIXED: usize = 3;
/// Numbers of a reading of the windowed statistic: counters of the last hour, of the last day, of the last 14 days.
const SUMS: usize = 3 * COUNTERS as usize;

/// A key's value, in a buffer that is used again.
#[derive(Debug)]
pub(crate) struct Cell {
    statistic: Statistic,
    words: Vec<u64>,
}

impl Cell {
    pub(crate) fn new(statistic: Statistic) -> Cell {
        Cell { statistic, words: Vec::new() }
    }

    /// Takes stored bytes, or nothing.
    pub(crate) fn load(&mut self, bytes: &[u8]) {
        self.words.clear();
        self.words.extend(bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word)));
    }

    /// The bytes to be stored.
    pub(crate) fn store(&self, bytes: &mut Vec<u8>) {
        bytes.clear();
        self.words.iter().for_each(|word| bytes.extend_from_slice(&word.to_le_bytes()));
    }

    /// One reading of the cell.
    pub(crate) fn reading(&self, time: Micros) -> Reading {
        match self.statistic {
            Statistic::Fixed => Reading::fixed(self.words.first_chunk().copied().unwrap_or_default()),
            Statistic::Windowed => {
                let (bucket, mut sums) = (time / FINE, [0; SUMS]);
                let day = bucket / RATIO;
                for (slot, amount) in self.words.iter().map(|word| unpack(*word)) {
                    let (own, counter) =
                        (i64::from(slot / COUNTERS as u32), slot as usize % COUNTERS as usize);
                    let own_day = if slot >= FINE_SLOTS {
                        if own >= bucket - HOUR {
                            sums[counter] += amount;
                        }
                        if own >= bucket - DAY {
                            sums[COUNTERS as usize + counter] += amount;
                        }
                        own / RATIO
                    } else {
                        own
                    };
                    if own_day >= day - DAYS_KEPT {
                        sums[2 * COUNTERS as usize + counter] += amount;
                    }
                }
                Reading::windowed(sums)
            }
        }
    }

    /// Counts an event.
    pub(crate) fn add(&mut self, time: Micros, counter: u8) {
        match self.statistic {
            Statistic::Fixed => self.add_fixed([time.cast_unsigned(), time.cast_unsigned(), 1]),
            Statistic::Windowed => self.add_slot(fine_slot(time, counter), 1),
        }
    }

    /// Merges the bytes of another value into this one: what was counted in either is counted in both.
    #[cfg(any(librocksdb, test))]
    pub(crate) fn merge(&mut self, bytes: &[u8]) {
        let words = bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word));
        match self.statistic {
            Statistic::Fixed => {
                let mut other = [0; FIXED];
                other.iter_mut().zip(words).for_each(|(own, word)| *own = word);
                self.add_fixed(other);
            }
            Statistic::Windowed => words.map(unpack).for_each(|(slot, amount)| self.add_slot(slot, amount)),
        }
    }

    fn add_fixed(&mut self, other: [u64; FIXED]) {
        match self.words.first_chunk_mut::<FIXED>() {
            Some([first, last, count]) => {
                *first = (*first).min(other[0]);
                *last = (*last).max(other[1]);
                *count = count.saturating_add(other[2]);
            }
            None => self.words = other.to_vec(),
        }
    }

    fn add_slot(&mut self, slot: u32, amount: u64) {
        match self.words.iter_mut().rev().find(|word| unpack(**word).0 == slot) {
            Some(word) => *word = pack(slot, unpack(*word).1 + amount),
            None => {
                self.words.push(pack(slot, amount));
                self.fold();
            }
        }
    }

    /// Folds what lies before the fine buckets that are kept as of the newest one.
    fn fold(&mut self) {
        let slots = self.words.iter().map(|word| unpack(*word).0);
        let Some(newest) = slots.filter(|slot| *slot >= FINE_SLOTS).max() else { return };
        let bucket = i64::from(newest / COUNTERS as u32);
        let (oldest, oldest_day) = (bucket - FINE_KEPT, bucket / RATIO - DAYS_KEPT);
        let mut at = 0;
        while let Some(word) = self.words.get(at) {
            let (slot, amount) = unpack(*word);
            let (own, counter) = (i64::from(slot / COUNTERS as u32), slot % COUNTERS as u32);
            let fine = slot >= FINE_SLOTS;
            if fine && own >= oldest || !fine && own >= oldest_day {
                at += 1;
                continue;
            }
            self.words.remove(at);
            if fine {
                let day = (own / RATIO) as u32 * COUNTERS as u32 + counter;
                match self.words.iter_mut().find(|word| unpack(**word).0 == day) {
                    Some(word) => *word = pack(day, unpack(*word).1 + amount),
                    None => {
                        self.words.insert(0, pack(day, amount));
                        at += 1;
                    }
                }
            }
        }
    }
}

/// The slot of an event's fine bucket and counter.
pub(crate) fn fine_slot(time: Micros, counter: u8) -> u32 {
    (time / FINE) as u32 * COUNTERS as u32 + u32::from(counter)
}

fn pack(slot: u32, amount: u64) -> u64 {
    u64::from(slot) << 32 | amount.min(u64::from(u32::MAX))
}

fn unpack(word: u64) -> (u32, u64) {
    ((word >> 32) as u32, word & u64::from(u32::MAX))
}

/// The answer to an observe: a key's statistic before the event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reading {
    numbers: [u64; SUMS],
    counted: u64,
}

impl Reading {
    /// First time, last time and count; zeros if the key was never seen.
    pub(crate) fn fixed(words: [u64; FIXED]) -> Reading {
        let mut numbers = [0; SUMS];
        numbers[..FIXED].copy_from_slice(&words);
        Reading { numbers, counted: words[2] }
    }

    /// Six sums over an hour, six over a day, six over 14 days.
    pub(crate) fn windowed(sums: [u64; SUMS]) -> Reading {
        Reading { numbers: sums, counted: sums[2 * COUNTERS as usize..].iter().sum() }
    }

    /// Events counted so far, as the reading says it: the count, or the sum of the longest window over all counters.
    pub(crate) fn counted(&self) -> u64 {
        self.counted
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check;
    use crate::workload::Random;

    #[test]
    fn cells_read_what_the_definition_says_whatever_the_grouping() {
        for statistic in [Statistic::Fixed, Statistic::Windowed] {
            let mut random = Random(7);
            let mut time = 1_767_269_040_000_000;
            let (mut events, mut cell) = (Vec::new(), Cell::new(statistic));
            let (mut base, mut operand) = (Vec::new(), Vec::new());
            for round in 0..3000 {
                time += random.below(3_600_000_000 * 3) as i64;
                assert_eq!(
                    cell.reading(time),
                    check::reading(statistic, &events, time),
                    "{statistic:?}, {round}"
                );
                let counter = random.below(COUNTERS) as u8;
                cell.add(time, counter);
                events.push((time, counter));

                let mut other = Cell::new(statistic);
                other.add(time, counter);
                other.store(&mut operand);
                let mut merged = Cell::new(statistic);
                merged.load(&base);
                merged.merge(&operand);
                merged.store(&mut base);
                assert_eq!(merged.reading(time), cell.reading(time));
            }
            // 144 fine buckets, 15 days and the current bucket, for each counter.
            assert!(cell.words.len() <= 160 * COUNTERS as usize);
        }
    }
}
