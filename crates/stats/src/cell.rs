//! One key's counts over time.
//!
//! What a cell holds is a function of the *set* of events that it has seen. Let `w` and `N` be the width and number
//! of the fine tier's buckets, `W` and `M` those of the coarse tier, and `head` the fine bucket of the latest event:
//!
//! * a fine bucket `b` is kept iff `b >= head - N`;
//! * an older one is folded into its coarse bucket `D = floor(b·w / W)`, which is kept iff `D >= D(head) - M`;
//! * what is older still is dropped, as is everything older than the fine tier where there is no coarse one.
//!
//! An event that arrives late goes straight to where it would be by now. Adding saturates, so cells form a
//! commutative monoid under [`Cell::merge`]: deltas, copies and logs merge in any order and grouping.
//!
//! In memory a cell is two times and one run of words, coarse rows before fine ones, each oldest first; a row is a
//! bucket number and the counters. On disk it is packed ([`Cell::encode`]); `docs/format.md` draws it.

use event::Time;

use crate::bytes::{Reader, push_varint, push_zigzag};
use crate::layout::Shape;

/// One key's counters per bucket, first and last event time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cell {
    first: Time,
    last: Time,
    rows: Vec<u64>,
    coarse: u32,
}

/// Bytes that are no cell of the shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the bytes are no cell of this shape")]
pub struct CellError;

impl Default for Cell {
    fn default() -> Cell {
        Cell { first: Time(i64::MAX), last: Time(i64::MIN), rows: Vec::new(), coarse: 0 }
    }
}

impl Cell {
    /// A cell that has seen nothing.
    pub fn new() -> Cell {
        Cell::default()
    }

    /// Whether it has seen nothing.
    pub fn is_empty(&self) -> bool {
        self.first > self.last
    }

    /// The earliest event seen, however long ago.
    pub fn first(&self) -> Option<Time> {
        (!self.is_empty()).then_some(self.first)
    }

    /// The latest event seen.
    pub fn last(&self) -> Option<Time> {
        (!self.is_empty()).then_some(self.last)
    }

    /// Heap memory in bytes.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.rows.capacity() * size_of::<u64>()
    }

    /// Counts an event: adds each amount to its counter. Indices out of the shape's range are ignored.
    pub fn add(&mut self, shape: &Shape, time: Time, amounts: impl IntoIterator<Item = (u8, u64)>) {
        self.see(shape, time, time);
        let mut counts = [0u64; Shape::COUNTERS_MAX];
        let counts = &mut counts[..shape.counters()];
        for (counter, amount) in amounts {
            if let Some(count) = counts.get_mut(usize::from(counter)) {
                *count = count.saturating_add(amount);
            }
        }
        self.put_fine(shape, time.bucket(shape.fine().width), counts);
    }

    /// Adds what another cell of the same shape has seen.
    pub fn merge(&mut self, shape: &Shape, other: &Cell) {
        if other.is_empty() {
            return;
        }
        self.see(shape, other.first, other.last);
        for (tier, bucket, counts) in other.rows(shape) {
            self.put(shape, tier, bucket, counts);
        }
    }

    /// Adds a bucket's counts to a tier, or to where they belong by now.
    pub(crate) fn put(&mut self, shape: &Shape, tier: usize, bucket: i64, counts: &[u64]) {
        if tier == 0 { self.put_fine(shape, bucket, counts) } else { self.put_coarse(shape, bucket, counts) }
    }

    /// Widens the times, and lets buckets age if that moves the head.
    pub(crate) fn see(&mut self, shape: &Shape, first: Time, last: Time) {
        self.first = self.first.min(first);
        if last > self.last {
            self.last = last;
            self.age(shape);
        }
    }

    /// Adds up each counter over the tier's buckets from `oldest` to `newest`. Fine buckets that a coarse one will
    /// take in count for it already, so the answer does not depend on how far folding has come.
    pub(crate) fn sum(&self, shape: &Shape, tier: usize, (oldest, newest): (i64, i64), sums: &mut [u64]) {
        let ratio = shape.ratio();
        for (of, bucket, counts) in self.rows(shape) {
            let bucket = match (tier, of) {
                (0, 0) | (1, 1) => bucket,
                (1, 0) => bucket.div_euclid(ratio),
                _ => continue,
            };
            if (oldest..=newest).contains(&bucket) {
                add_counts(sums, counts);
            }
        }
    }

    /// Whether a fine bucket holds anything, and whether it would be kept.
    pub(crate) fn fine(&self, shape: &Shape, bucket: i64) -> (bool, bool) {
        let stride = shape.counters() + 1;
        let fine = self.rows.get(self.coarse as usize * stride..).unwrap_or_default();
        let held = find(fine, stride, bucket).is_ok();
        (held, self.is_empty() || bucket >= self.oldest_fine(shape))
    }

    /// Its rows: tier, bucket number, counters; coarse ones first, each tier oldest first.
    pub(crate) fn rows(&self, shape: &Shape) -> impl DoubleEndedIterator<Item = (usize, i64, &[u64])> {
        let coarse = self.coarse as usize;
        self.rows.chunks_exact(shape.counters() + 1).enumerate().filter_map(move |(index, row)| {
            let (bucket, counts) = row.split_first()?;
            Some((usize::from(index < coarse), bucket.cast_signed(), counts))
        })
    }

    fn head(&self, shape: &Shape) -> i64 {
        self.last.bucket(shape.fine().width)
    }

    fn oldest_fine(&self, shape: &Shape) -> i64 {
        self.head(shape).saturating_sub(i64::from(shape.fine().buckets))
    }

    fn oldest_coarse(&self, shape: &Shape) -> i64 {
        let buckets = shape.coarse().map_or(0, |tier| tier.buckets);
        self.head(shape).div_euclid(shape.ratio()).saturating_sub(i64::from(buckets))
    }

    fn put_fine(&mut self, shape: &Shape, bucket: i64, counts: &[u64]) {
        if bucket >= self.oldest_fine(shape) {
            self.put_row(shape, 0, bucket, counts);
        } else if shape.coarse().is_some() {
            self.put_coarse(shape, bucket.div_euclid(shape.ratio()), counts);
        }
    }

    fn put_coarse(&mut self, shape: &Shape, bucket: i64, counts: &[u64]) {
        if shape.coarse().is_some() && bucket >= self.oldest_coarse(shape) {
            self.put_row(shape, 1, bucket, counts);
        }
    }

    fn put_row(&mut self, shape: &Shape, tier: usize, bucket: i64, counts: &[u64]) {
        if counts.iter().all(|count| *count == 0) {
            return;
        }
        let stride = shape.counters() + 1;
        let split = self.coarse as usize * stride;
        let (base, rows) = if tier == 0 { (split, &self.rows[split..]) } else { (0, &self.rows[..split]) };
        match find(rows, stride, bucket) {
            Ok(row) => {
                let at = base + row * stride;
                add_counts(&mut self.rows[at + 1..at + stride], counts);
            }
            Err(row) => {
                let at = base + row * stride;
                // Most cells never hold more than one row: no room is set aside until there are several.
                if self.rows.len() < 4 * stride {
                    self.rows.reserve_exact(stride);
                }
                self.rows
                    .splice(at..at, std::iter::once(bucket.cast_unsigned()).chain(counts.iter().copied()));
                self.coarse += tier as u32;
            }
        }
    }

    /// Folds and drops what the head has moved away from.
    fn age(&mut self, shape: &Shape) {
        if self.rows.is_empty() {
            return;
        }
        let stride = shape.counters() + 1;
        let bucket_of = |row: &[u64]| row.first().map_or(0, |bucket| bucket.cast_signed());
        let oldest = self.oldest_coarse(shape);
        let coarse = &self.rows[..self.coarse as usize * stride];
        let dropped = coarse.chunks_exact(stride).take_while(|row| bucket_of(row) < oldest).count();
        self.rows.drain(..dropped * stride);
        self.coarse -= dropped as u32;

        let oldest = self.oldest_fine(shape);
        let split = self.coarse as usize * stride;
        let aged = self.rows[split..].chunks_exact(stride).take_while(|row| bucket_of(row) < oldest).count();
        if aged > 0 {
            let rows: Vec<u64> = self.rows.drain(split..split + aged * stride).collect();
            for row in rows.chunks_exact(stride) {
                self.put_fine(shape, bucket_of(row), &row[1..]);
            }
        }
    }

    /// Appends the packed form: times, number of rows, then the rows of either tier newest first, so that bucket
    /// numbers are small distances.
    pub fn encode(&self, shape: &Shape, bytes: &mut Vec<u8>) {
        push_zigzag(bytes, self.last.0);
        push_varint(bytes, self.last.0.wrapping_sub(self.first.0).cast_unsigned());
        let total = self.rows.len() / (shape.counters() + 1);
        push_varint(bytes, u64::from(self.coarse));
        push_varint(bytes, (total - self.coarse as usize) as u64);
        let head = self.head(shape);
        let mut newer = [head, head.div_euclid(shape.ratio())];
        for (tier, bucket, counts) in self.rows(shape).rev() {
            push_varint(bytes, newer[tier].wrapping_sub(bucket).cast_unsigned());
            newer[tier] = bucket;
            for count in counts {
                push_varint(bytes, *count);
            }
        }
    }

    /// Reads the packed form, which must fill `bytes`.
    ///
    /// # Errors
    /// If the bytes cannot have been made by [`Cell::encode`] with this shape.
    pub fn decode(shape: &Shape, bytes: &[u8]) -> Result<Cell, CellError> {
        Cell::read(shape, Reader(bytes)).ok_or(CellError)
    }

    fn read(shape: &Shape, mut reader: Reader<'_>) -> Option<Cell> {
        let last = reader.zigzag()?;
        let first = last.checked_sub_unsigned(reader.varint()?)?;
        let counts = [reader.varint()?, reader.varint()?];
        let kept = [
            shape.coarse().map_or(0, |tier| u64::from(tier.buckets) + 1),
            u64::from(shape.fine().buckets) + 1,
        ];
        if counts[0] > kept[0] || counts[1] > kept[1] {
            return None;
        }
        let stride = shape.counters() + 1;
        let [coarse, fine] = counts.map(|count| count as usize);
        if reader.0.len() < (coarse + fine) * stride {
            return None;
        }
        let mut cell = Cell { first: Time(first), last: Time(last), rows: Vec::new(), coarse: coarse as u32 };
        cell.rows.resize((coarse + fine) * stride, 0);
        let head = cell.head(shape);
        let limits =
            [(head.div_euclid(shape.ratio()), cell.oldest_coarse(shape)), (head, cell.oldest_fine(shape))];
        let mut newer = [None; 2];
        for index in (0..coarse + fine).rev() {
            let tier = usize::from(index >= coarse);
            let (head, oldest) = limits[tier];
            let distance = reader.varint()?;
            let bucket = newer[tier].unwrap_or(head).checked_sub_unsigned(distance)?;
            if bucket < oldest || (newer[tier].is_some() && distance == 0) {
                return None;
            }
            newer[tier] = Some(bucket);
            let row = cell.rows.get_mut(index * stride..(index + 1) * stride)?;
            let (name, counts) = row.split_first_mut()?;
            *name = bucket.cast_unsigned();
            for count in counts {
                *count = reader.varint()?;
            }
        }
        reader.0.is_empty().then_some(cell)
    }
}

/// The row of a bucket, or where it would be. The newest is looked at first: that is where events go.
fn find(rows: &[u64], stride: usize, bucket: i64) -> Result<usize, usize> {
    let count = rows.len() / stride;
    let at = |row: usize| rows[row * stride].cast_signed();
    if count == 0 || at(count - 1) < bucket {
        return Err(count);
    }
    if at(count - 1) == bucket {
        return Ok(count - 1);
    }
    let (mut low, mut high) = (0, count - 1);
    while low < high {
        let middle = (low + high) / 2;
        if at(middle) < bucket { low = middle + 1 } else { high = middle }
    }
    if at(low) == bucket { Ok(low) } else { Err(low) }
}

fn add_counts(sums: &mut [u64], counts: &[u64]) {
    for (sum, count) in sums.iter_mut().zip(counts) {
        *sum = sum.saturating_add(*count);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use event::Span;
    use proptest::prelude::*;

    use super::*;
    use crate::layout::Tier;

    type Seen = (i64, u8, u64);

    const COUNTERS: usize = 3;

    fn shapes() -> Vec<Shape> {
        let tier = |width, buckets| Tier { width: Span(width), buckets };
        let lists: [&[Tier]; 5] = [
            &[tier(10, 4)],
            &[tier(1, 1)],
            &[tier(10, 6), tier(30, 3)],
            &[tier(7, 3), tier(49, 1)],
            &[tier(10, 2), tier(20, 40)],
        ];
        lists.iter().map(|tiers| Shape::new(COUNTERS, tiers, None).unwrap()).collect()
    }

    /// The definition, straight from a list of events.
    fn naive(shape: &Shape, events: &[Seen]) -> [BTreeMap<i64, [u64; COUNTERS]>; 2] {
        let mut tiers = [BTreeMap::new(), BTreeMap::new()];
        let width = shape.fine().width;
        let Some(head) = events.iter().map(|(time, ..)| Time(*time).bucket(width)).max() else {
            return tiers;
        };
        for &(time, counter, amount) in events {
            let fine = Time(time).bucket(width);
            let (tier, bucket) = match shape.coarse() {
                _ if fine >= head - i64::from(shape.fine().buckets) => (0, fine),
                None => continue,
                Some(coarse) => {
                    let bucket = Time(fine * width.0).bucket(coarse.width);
                    if bucket < Time(head * width.0).bucket(coarse.width) - i64::from(coarse.buckets) {
                        continue;
                    }
                    (1, bucket)
                }
            };
            if amount > 0 {
                let counts = tiers[tier].entry(bucket).or_insert([0u64; COUNTERS]);
                counts[usize::from(counter)] = counts[usize::from(counter)].saturating_add(amount);
            }
        }
        tiers
    }

    fn cell_of(shape: &Shape, events: &[Seen]) -> Cell {
        let mut cell = Cell::new();
        for &(time, counter, amount) in events {
            cell.add(shape, Time(time), [(counter, amount)]);
        }
        cell
    }

    fn merged(shape: &Shape, a: &Cell, b: &Cell) -> Cell {
        let mut both = a.clone();
        both.merge(shape, b);
        both
    }

    fn events() -> impl Strategy<Value = Vec<Seen>> {
        let amount = prop_oneof![4 => 0u64..5, 1 => Just(u64::MAX - 2)];
        let time = prop_oneof![5 => -200i64..200, 1 => any::<i64>().prop_map(|time| time / 4)];
        proptest::collection::vec((time, 0..COUNTERS as u8, amount), 0..40)
    }

    #[test]
    fn the_packed_form_is_as_drawn() {
        let shape = &shapes()[2];
        let mut cell = Cell::new();
        for (time, counter, amount) in [(1000, 0, 1), (1100, 1, 300), (1105, 2, 2), (1081, 0, 7)] {
            cell.add(shape, Time(time), [(counter, amount)]);
        }
        let mut bytes = Vec::new();
        cell.encode(shape, &mut bytes);
        let drawn: [&[u8]; 5] =
            [&[0xa2, 0x11, 105], &[1, 2], &[0, 0, 0xac, 0x02, 2], &[2, 7, 0, 0], &[3, 1, 0, 0]];
        assert_eq!(bytes, drawn.concat());
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn a_cell_is_what_its_events_say(seen in events(), query in -300i64..400, window in 1i64..200) {
            for shape in shapes() {
                let cell = cell_of(&shape, &seen);
                let naive = naive(&shape, &seen);
                let rows: Vec<_> = cell.rows(&shape).map(|(tier, bucket, counts)| (tier, bucket, counts.to_vec())).collect();
                let expected: Vec<_> = [1, 0].into_iter()
                    .flat_map(|tier: usize| naive[tier].iter().map(move |(bucket, counts)| (tier, *bucket, counts.to_vec())))
                    .collect();
                prop_assert_eq!(rows, expected);
                prop_assert_eq!(cell.first().map(|time| time.0), seen.iter().map(|seen| seen.0).min());
                prop_assert_eq!(cell.last().map(|time| time.0), seen.iter().map(|seen| seen.0).max());
                let Ok(trail) = shape.trail(Span(window)) else { continue };
                let mut sums = [0; COUNTERS];
                cell.sum(&shape, trail.tier, trail.buckets(Time(query)), &mut sums);
                let width = [shape.fine(), shape.coarse().unwrap_or(shape.fine())][trail.tier].width;
                let (oldest, newest) = ((query - window).div_euclid(width.0), query.div_euclid(width.0));
                let mut expected = [0u64; COUNTERS];
                for (tier, rows) in naive.iter().enumerate() {
                    for (bucket, counts) in rows {
                        let start = bucket * [shape.fine().width.0, width.0][tier];
                        if (tier <= trail.tier) && (oldest..=newest).contains(&start.div_euclid(width.0)) {
                            add_counts(&mut expected, counts);
                        }
                    }
                }
                prop_assert_eq!(sums, expected);
            }
        }

        #[test]
        fn merging_is_commutative_and_associative(a in events(), b in events(), c in events(), turn in any::<prop::sample::Index>()) {
            for shape in shapes() {
                let [x, y, z] = [&a, &b, &c].map(|events| cell_of(&shape, events));
                prop_assert_eq!(merged(&shape, &x, &y), merged(&shape, &y, &x));
                let left = merged(&shape, &merged(&shape, &x, &y), &z);
                prop_assert_eq!(&left, &merged(&shape, &x, &merged(&shape, &y, &z)));
                let mut all = [a.clone(), b.clone(), c.clone()].concat();
                prop_assert_eq!(&left, &cell_of(&shape, &all));
                all.reverse();
                if !all.is_empty() {
                    let turn = turn.index(all.len());
                    all.rotate_left(turn);
                }
                prop_assert_eq!(&left, &cell_of(&shape, &all));
            }
        }

        #[test]
        fn cells_read_back(seen in events()) {
            for shape in shapes() {
                let cell = cell_of(&shape, &seen);
                if cell.is_empty() {
                    continue;
                }
                let mut bytes = Vec::new();
                cell.encode(&shape, &mut bytes);
                prop_assert_eq!(Cell::decode(&shape, &bytes), Ok(cell));
                for cut in 0..bytes.len() {
                    prop_assert_eq!(Cell::decode(&shape, &bytes[..cut]), Err(CellError));
                }
            }
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..80), time in any::<i64>()) {
            for shape in shapes() {
                if let Ok(mut cell) = Cell::decode(&shape, &bytes) {
                    cell.add(&shape, Time(time), [(0, 1), (200, 1)]);
                    let mut again = Vec::new();
                    cell.encode(&shape, &mut again);
                    prop_assert!(!again.is_empty());
                }
            }
        }
    }
}
