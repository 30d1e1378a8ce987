//! The index of a shard: an entry of twelve bytes for each of its keys, in [`TABLES`] tables that grow one by one.
//!
//! A table has buckets of one cache line, each with five entries:
//!
//! ```text
//! words 0..5   entries: 40 bits reference, 1 bit hot, 23 low bits of the hash
//! words 5..8   five times the 32 high bits of the hash, then 5 x 6 bits size class (0: free), 1 bit: a key at home
//!              here may lie elsewhere, 1 bit: a key on its way from its second bucket may lie behind this one
//! ```
//!
//! A key may be in either of two buckets: its home, which the leading bits of the hash name, or a second one among the
//! [`NEAR`] behind it, which others do. Both are asked for before either is looked at. Where both are full, an entry of
//! theirs moves to the other bucket that it may be in; if none can, the key takes the next free slot behind its second
//! bucket (cuckoo hashing with buckets, Dietzfelbinger and Weidling 2007, with one move at most). At nine tenths full,
//! four of five keys are at home, and one in a hundred and fifty is in neither of its two. Homes are in the order of
//! hashes, so growing is one pass over memory in order.
//!
//! The reference of a hot entry is its cell's address, that of a cold one the position of its image on disk. With the
//! numbers of shard and table, the 55 bits of hash are the whole 64 bits of a shingle, mixed with its kind: the directory
//! needs no key beside them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::arena::{Arena, ArenaPages, prefetch};
use crate::key_hash::{KeyHash, TABLES};

const BUCKET_BITS: u32 = 3;
const BUCKET_WORDS: usize = 1 << BUCKET_BITS;
type IndexBucket = [u64; BUCKET_WORDS];
/// Entries of a bucket.
const SLOTS: usize = 5;
/// The greatest distance of a key's second bucket from its home: half a page of the system, so that they share its address
/// translation.
const NEAR: u32 = 32;

const REFERENCE_BITS: u32 = 40;
const REFERENCE: u64 = (1 << REFERENCE_BITS) - 1;
const HOT: u64 = 1 << REFERENCE_BITS;
const CLASS_SHIFT: u32 = 32;
const CLASS_BITS: usize = 6;
const CLASS: u64 = (1 << CLASS_BITS) - 1;
const AWAY: u64 = 1 << 62;
const PASSED: u64 = 1 << 63;

/// The content of a slot, and its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct IndexEntry {
    /// Number of the slot.
    pub(crate) slot: u32,
    /// Size class of the cell or the image; never 0.
    pub(crate) class: u8,
    pub(crate) is_hot: bool,
    pub(crate) reference: u64,
}

/// Memory of the indexes of all shards, and how much it may become.
pub(crate) struct IndexBudget {
    bytes: AtomicUsize,
    max: usize,
}

impl IndexBudget {
    pub(crate) fn new(max: usize) -> IndexBudget {
        IndexBudget { bytes: AtomicUsize::new(0), max }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Returns how many bytes of index there may be for keys that are not reserved for: an eighth is kept.
    pub(crate) fn common_max(&self) -> usize {
        self.max - self.max / 8
    }

    fn allows(&self, more: usize, is_reserved: bool) -> bool {
        let max = if is_reserved { self.max } else { self.common_max() };
        self.bytes().saturating_add(more) <= max
    }

    /// Returns true if the index's memory is far from its bound.
    fn is_roomy(&self) -> bool {
        self.bytes() < self.max / 2
    }
}

/// The availability of a place in the index for a new key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vacancy {
    /// The key finds a place.
    Free,
    /// The table has a few places that others have left.
    Scarce,
    /// The key finds no place.
    None,
}

/// The entries of one shard.
pub(crate) struct Index {
    tables: [IndexTable; TABLES],
    entries: u32,
    bytes: usize,
    budget: Arc<IndexBudget>,
}

impl Index {
    pub(crate) fn new(arena: Arc<Arena>, budget: Arc<IndexBudget>) -> Index {
        Index { tables: std::array::from_fn(|_| IndexTable::new(&arena)), entries: 0, bytes: 0, budget }
    }

    /// Returns whether there is a place for a key that has no entry; some places are reserved.
    pub(crate) fn vacancy(&self, hash: KeyHash, is_reserved: bool) -> Vacancy {
        let table = self.table(hash);
        match (self.budget.allows(table.growth_bytes(), is_reserved), table.is_full()) {
            (true, _) => Vacancy::Free,
            (false, false) if is_reserved => Vacancy::Free,
            (false, false) => Vacancy::Scarce,
            (false, true) => Vacancy::None,
        }
    }

    /// Number of entries.
    pub(crate) fn len(&self) -> u32 {
        self.entries
    }

    /// Memory of the entries.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Memory of the lists of pages.
    pub(crate) fn list_bytes(&self) -> usize {
        self.tables.iter().map(|table| table.pages.list_bytes()).sum()
    }

    #[inline(always)]
    fn table(&self, hash: KeyHash) -> &IndexTable {
        &self.tables[hash.table()]
    }

    /// Changes a table.
    fn change<T>(&mut self, table: usize, change: impl FnOnce(&mut IndexTable) -> T) -> T {
        let table = &mut self.tables[table];
        let before = table.pages.bytes();
        let changed = change(table);
        let after = table.pages.bytes();
        self.bytes = self.bytes - before + after;
        // Wraps around where it became less.
        self.budget.bytes.fetch_add(after.wrapping_sub(before), Ordering::Relaxed);
        changed
    }

    /// All slots are below this. Those of the tables alternate.
    pub(crate) fn slots(&self) -> u32 {
        self.tables.iter().map(IndexTable::slots).max().unwrap_or(0) * TABLES as u32
    }

    /// The slots of a table.
    pub(crate) fn slots_of(&self, table: usize) -> impl Iterator<Item = u32> + use<> {
        (0..self.tables[table].slots()).map(move |slot| shared(slot, table))
    }

    /// Asks for the lines where a key would be.
    #[inline(always)]
    pub(crate) fn prefetch(&self, hash: KeyHash) {
        self.table(hash).prefetch(hash);
    }

    #[inline(always)]
    pub(crate) fn find(&self, hash: KeyHash) -> Option<IndexEntry> {
        let table = hash.table();
        let (bucket, number, slot) = self.tables[table].find(hash)?;
        Some(entry(bucket, shared(number * SLOTS as u32 + slot as u32, table), slot))
    }

    /// Returns the content of a slot; `None` if it is free.
    #[inline]
    pub(crate) fn at(&self, slot: u32) -> Option<IndexEntry> {
        let (table, number, at) = apart(slot);
        let table = &self.tables[table];
        if number >= table.buckets {
            return None;
        }
        let bucket = table.bucket(number);
        (class_of(bucket, at) != 0).then(|| entry(bucket, slot, at))
    }

    /// The hash of the key whose entry stands in a slot.
    pub(crate) fn hash_at(&self, slot: u32) -> KeyHash {
        let (table, number, at) = apart(slot);
        hash_of(self.tables[table].bucket(number), at).in_table(table)
    }

    /// Changes the entry in a slot, whose key stays.
    pub(crate) fn set(&mut self, entry: IndexEntry) {
        let IndexEntry { slot, class, is_hot, reference } = entry;
        let (table, number, slot) = apart(slot);
        let bucket = self.tables[table].bucket_mut(number);
        let low = bucket[slot] >> (REFERENCE_BITS + 1);
        bucket[slot] = packed(reference, is_hot) | low << (REFERENCE_BITS + 1);
        set_class(bucket, slot, class);
    }

    /// Adds an entry for a key that has none. Answers its slot, and whether others may have another one by now.
    pub(crate) fn insert(&mut self, hash: KeyHash, reference: u64, is_hot: bool, class: u8) -> (u32, bool) {
        let number = hash.table();
        let table = &self.tables[number];
        let rebuilt = table.is_full() || table.removed > 2 * table.buckets;
        if rebuilt {
            self.change(number, |table| {
                let more = if table.is_full() { table.growth() } else { 0 };
                table.rebuild(table.buckets + more);
            });
        }
        self.entries += 1;
        let table = &mut self.tables[number];
        table.entries += 1;
        let (slot, moved) = table.put(hash, packed(reference, is_hot), class);
        (shared(slot, number), rebuilt || moved)
    }

    /// Frees a slot.
    pub(crate) fn remove(&mut self, slot: u32) {
        let (table, number, slot) = apart(slot);
        let table = &mut self.tables[table];
        set_class(table.bucket_mut(number), slot, 0);
        table.entries -= 1;
        table.removed += 1;
        self.entries -= 1;
    }

    /// Before a key is added: makes its table twice as large if it is full, while there is much room. For loading, in the
    /// course of which it would be moved again and again.
    pub(crate) fn reserve(&mut self, hash: KeyHash) {
        if self.table(hash).is_full() && self.budget.is_roomy() {
            self.change(hash.table(), |table| table.rebuild(2 * table.buckets + 8));
        }
    }

    /// Gives back what a table is larger than it has to be; true if its entries have moved.
    pub(crate) fn shrink(&mut self, table: usize) -> bool {
        self.change(table, IndexTable::shrink)
    }
}

/// The number of a slot among those of all tables.
#[inline(always)]
fn shared(slot: u32, table: usize) -> u32 {
    slot * TABLES as u32 + table as u32
}

/// The table, the bucket and the slot in there.
#[inline(always)]
fn apart(slot: u32) -> (usize, u32, usize) {
    let local = slot / TABLES as u32;
    (slot as usize % TABLES, local / SLOTS as u32, local as usize % SLOTS)
}

struct IndexTable {
    pages: ArenaPages,
    buckets: u32,
    entries: u32,
    /// Entries removed since it was built: what they have set in their buckets stays behind.
    removed: u32,
}

impl IndexTable {
    fn new(arena: &Arc<Arena>) -> IndexTable {
        IndexTable { pages: ArenaPages::new(arena.clone()), buckets: 0, entries: 0, removed: 0 }
    }

    fn slots(&self) -> u32 {
        self.buckets * SLOTS as u32
    }

    #[inline(always)]
    fn bucket(&self, bucket: u32) -> &IndexBucket {
        let bits = self.pages.bits() - BUCKET_BITS;
        let page = self.pages.page(bucket as usize >> bits);
        &page.as_chunks().0[bucket as usize & ((1 << bits) - 1)]
    }

    #[inline(always)]
    fn bucket_mut(&mut self, bucket: u32) -> &mut IndexBucket {
        let bits = self.pages.bits() - BUCKET_BITS;
        let page = self.pages.page_mut(bucket as usize >> bits);
        &mut page.as_chunks_mut().0[bucket as usize & ((1 << bits) - 1)]
    }

    #[inline(always)]
    fn home(&self, hash: KeyHash) -> u32 {
        ((u64::from(hash.high()) * u64::from(self.buckets)) >> 32) as u32
    }

    /// A key's second bucket; its home once more where there is one only.
    #[inline(always)]
    fn second(&self, home: u32, hash: KeyHash) -> u32 {
        let second = home + 1 + hash.low() as u32 % NEAR;
        if second < self.buckets { second } else { second % self.buckets }
    }

    fn next(&self, bucket: u32) -> u32 {
        if bucket + 1 == self.buckets { 0 } else { bucket + 1 }
    }

    #[inline(always)]
    fn prefetch(&self, hash: KeyHash) {
        if self.buckets > 0 {
            let home = self.home(hash);
            prefetch(&self.bucket(home)[0]);
            prefetch(&self.bucket(self.second(home, hash))[0]);
        }
    }

    /// The bucket that has a key's entry, its number, and the slot in there.
    #[inline(always)]
    fn find(&self, hash: KeyHash) -> Option<(&IndexBucket, u32, usize)> {
        if self.buckets == 0 {
            return None;
        }
        let home = self.home(hash);
        let bucket = self.bucket(home);
        if let Some(slot) = slot_of(bucket, hash) {
            return Some((bucket, home, slot));
        }
        if bucket[7] & AWAY == 0 {
            return None;
        }
        let second = self.second(home, hash);
        let mut number = second;
        loop {
            let bucket = self.bucket(number);
            if let Some(slot) = slot_of(bucket, hash) {
                return Some((bucket, number, slot));
            }
            number = self.next(number);
            if bucket[7] & PASSED == 0 || number == second {
                return None;
            }
        }
    }

    /// Returns true if the next new key makes the table grow.
    fn is_full(&self) -> bool {
        // Above that, more and more keys are in neither of their buckets.
        u64::from(self.entries + 1) * 100 > u64::from(self.slots()) * 92
    }

    /// Buckets by which it grows.
    fn growth(&self) -> u32 {
        self.buckets / 10 + 2
    }

    /// Memory by which it grows.
    fn growth_bytes(&self) -> usize {
        (self.growth() as usize * size_of::<IndexBucket>()).next_multiple_of(self.pages.page_words() * 8)
    }

    /// Gives back what it is larger than it has to be; true if it does.
    fn shrink(&mut self) -> bool {
        let fit = (u64::from(self.entries) * 100 / (SLOTS as u64 * 88) + 2) as u32;
        let page = (self.pages.page_words() / BUCKET_WORDS) as u32;
        let is_less = u64::from(fit.next_multiple_of(page)) * 10 < u64::from(self.buckets) * 9;
        if is_less {
            self.rebuild(fit);
        }
        is_less
    }

    /// Moves all entries into so many buckets, or as many more as the last page has room for.
    fn rebuild(&mut self, buckets: u32) {
        let mut pages = ArenaPages::new(self.pages.arena().clone());
        let mut there = 0;
        while there < buckets {
            pages.push_blank();
            there += (pages.page_words() / BUCKET_WORDS) as u32;
        }
        let buckets = there;
        let new = IndexTable { pages, buckets, entries: self.entries, removed: 0 };
        let old = std::mem::replace(self, new);
        for number in 0..old.buckets {
            let bucket = old.bucket(number);
            for slot in 0..SLOTS {
                let class = class_of(bucket, slot);
                if class != 0 {
                    self.put(hash_of(bucket, slot), bucket[slot] & (REFERENCE | HOT), class);
                }
            }
        }
    }

    /// Puts an entry where it may be; there is a free slot. Answers its slot, and whether another has left its own.
    fn put(&mut self, hash: KeyHash, packed: u64, class: u8) -> (u32, bool) {
        let home = self.home(hash);
        let second = self.second(home, hash);
        if let Some(slot) = free_in(self.bucket(home)) {
            return (self.fill(home, slot, hash, packed, class), false);
        }
        let free = free_in(self.bucket(second)).map(|slot| (second, slot));
        if free.is_none() {
            for number in [home, second] {
                if let Some(slot) = self.displace(number) {
                    if number != home {
                        self.bucket_mut(home)[7] |= AWAY;
                    }
                    return (self.fill(number, slot, hash, packed, class), true);
                }
            }
        }
        self.bucket_mut(home)[7] |= AWAY;
        let (mut number, mut free) = (second, free.map(|(_, slot)| slot));
        loop {
            if let Some(slot) = free {
                return (self.fill(number, slot, hash, packed, class), false);
            }
            self.bucket_mut(number)[7] |= PASSED;
            number = self.next(number);
            free = free_in(self.bucket(number));
        }
    }

    /// Moves one entry of a full bucket to the other bucket that it may be in. Answers the slot that is free by that.
    fn displace(&mut self, number: u32) -> Option<usize> {
        for slot in 0..SLOTS {
            let bucket = self.bucket(number);
            let hash = hash_of(bucket, slot);
            let home = self.home(hash);
            let second = self.second(home, hash);
            let other = match number {
                number if number == home => second,
                number if number == second => home,
                _ => continue,
            };
            if let Some(free) = free_in(self.bucket(other)) {
                let (packed, class) = (bucket[slot] & (REFERENCE | HOT), class_of(bucket, slot));
                self.fill(other, free, hash, packed, class);
                if other == second {
                    self.bucket_mut(home)[7] |= AWAY;
                }
                return Some(slot);
            }
        }
        None
    }

    /// Writes an entry.
    fn fill(&mut self, number: u32, slot: usize, hash: KeyHash, packed: u64, class: u8) -> u32 {
        let bucket = self.bucket_mut(number);
        bucket[slot] = packed | hash.low() << (REFERENCE_BITS + 1);
        let shift = slot % 2 * 32;
        let word = &mut bucket[SLOTS + slot / 2];
        *word = *word & !(0xffff_ffff << shift) | u64::from(hash.high()) << shift;
        set_class(bucket, slot, class);
        number * SLOTS as u32 + slot as u32
    }
}

#[inline(always)]
fn packed(reference: u64, is_hot: bool) -> u64 {
    reference & REFERENCE | u64::from(is_hot) << REFERENCE_BITS
}

#[inline(always)]
fn entry(bucket: &IndexBucket, number: u32, slot: usize) -> IndexEntry {
    IndexEntry {
        slot: number,
        class: class_of(bucket, slot),
        is_hot: bucket[slot] & HOT != 0,
        reference: bucket[slot] & REFERENCE,
    }
}

/// The slot of a key's entry.
#[inline(always)]
fn slot_of(bucket: &IndexBucket, hash: KeyHash) -> Option<usize> {
    // All slots without a branch between them: where a key lies cannot be foretold, and what follows a wrong guess
    // waits for the line.
    let mut hits = 0u32;
    for slot in 0..SLOTS {
        hits |= u32::from(high_of(bucket, slot) == hash.high()) << slot;
    }
    // Hardly ever more than one. What was removed leaves its hash behind.
    while hits != 0 {
        let slot = hits.trailing_zeros() as usize % SLOTS;
        if bucket[slot] >> (REFERENCE_BITS + 1) == hash.low() && class_of(bucket, slot) != 0 {
            return Some(slot);
        }
        hits &= hits - 1;
    }
    None
}

#[inline]
fn free_in(bucket: &IndexBucket) -> Option<usize> {
    (0..SLOTS).find(|slot| class_of(bucket, *slot) == 0)
}

#[inline(always)]
fn high_of(bucket: &IndexBucket, slot: usize) -> u32 {
    (bucket[SLOTS + slot / 2] >> (slot % 2 * 32)) as u32
}

#[inline(always)]
fn class_of(bucket: &IndexBucket, slot: usize) -> u8 {
    (bucket[7] >> (CLASS_SHIFT as usize + CLASS_BITS * slot) & CLASS) as u8
}

#[inline(always)]
fn set_class(bucket: &mut IndexBucket, slot: usize, class: u8) {
    let shift = CLASS_SHIFT as usize + CLASS_BITS * slot;
    bucket[7] = bucket[7] & !(CLASS << shift) | u64::from(class) << shift;
}

#[inline(always)]
fn hash_of(bucket: &IndexBucket, slot: usize) -> KeyHash {
    KeyHash::from_halves(high_of(bucket, slot), bucket[slot] >> (REFERENCE_BITS + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// SplitMix64.
    fn mixed(number: u64) -> u64 {
        let number = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mixed = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    #[test]
    fn most_keys_are_at_home_and_few_are_in_neither_of_their_buckets() {
        let mut index = Index::new(Arena::new(0, 6), Arc::new(IndexBudget::new(usize::MAX)));
        let keys = 60_000;
        (0..keys).for_each(|key| {
            index.insert(KeyHash::of(1, 1, mixed(key)).1, key, false, 1);
        });
        let (mut at_home, mut in_neither) = (0, 0);
        for key in 0..keys {
            let hash = KeyHash::of(1, 1, mixed(key)).1;
            let found = index.find(hash).expect("it was inserted");
            assert_eq!(found.reference, key);
            let table = index.table(hash);
            let (home, (_, number, _)) = (table.home(hash), apart(found.slot));
            at_home += u64::from(number == home);
            in_neither += u64::from(number != home && number != table.second(home, hash));
        }
        assert!(index.bytes() as u64 * 10 < keys * 165, "{} bytes", index.bytes());
        assert!(at_home * 100 > keys * 75, "{at_home} at home");
        assert!(in_neither * 50 < keys, "{in_neither} in neither");
    }

    #[test]
    fn a_full_index_has_places_that_others_have_left_and_a_reserve() {
        let budget = Arc::new(IndexBudget::new(1 << 20));
        let mut index = Index::new(Arena::new(0, 6), budget.clone());
        let hash = |key: u64| KeyHash::of(1, 1, mixed(key)).1;
        let fill = |index: &mut Index, from: u64, is_reserved: bool| -> Vec<u64> {
            let taken = (from..from + 200_000).filter(|key| {
                let is_free = index.vacancy(hash(*key), is_reserved) == Vacancy::Free;
                if is_free {
                    index.insert(hash(*key), *key, false, 1);
                }
                is_free
            });
            taken.collect()
        };
        let common = fill(&mut index, 0, false);
        assert!(budget.bytes() <= budget.common_max() && budget.bytes() * 10 > budget.common_max() * 9);
        let reserved = fill(&mut index, 1 << 32, true);
        assert!(budget.bytes() <= 1 << 20 && reserved.len() * 9 > common.len(), "{}", reserved.len());
        let full =
            (0..1000).map(|key| 1 << 33 | key).find(|key| index.vacancy(hash(*key), false) == Vacancy::None);
        let full = hash(full.expect("a table is full"));
        let neighbour = common.iter().find(|key| hash(**key).table() == full.table()).unwrap();
        let slot = index.find(hash(*neighbour)).unwrap().slot;
        index.remove(slot);
        assert_eq!(index.vacancy(full, false), Vacancy::Scarce);
        for key in common.iter().chain(&reserved) {
            if let Some(entry) = index.find(hash(*key)) {
                index.remove(entry.slot);
            }
        }
        (0..TABLES).for_each(|table| _ = index.shrink(table));
        assert!(budget.bytes() * 10 < 1 << 20, "{}", budget.bytes());
        assert_eq!(index.vacancy(full, false), Vacancy::Free);
    }
}
