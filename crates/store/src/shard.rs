//! One share of the keys: an index of all of them, and the cells of those that are in memory.
//!
//! A key has an entry in the [index](crate::index), and if it is hot a [cell](crate::slab): a header word (tag, position
//! of the newest image on disk, flags) and the value's words.
//!
//! # What counts
//! The newest image of a key counts in its segment for [`class_bytes`] of the class in the key's entry. Whoever changes
//! the position or the class says so.

use std::num::NonZeroU64;
use std::ops::Range;
use std::sync::Arc;

use crate::arena::Arena;
use crate::index::{Index, IndexBudget, IndexEntry, Vacancy};
use crate::key_hash::{KeyHash, SHARDS, TABLES};
use crate::log::{Position, WORDS_MAX};
use crate::slab::{CellSlabs, class_of, class_words};

/// Cells whose lines are asked for at once.
const TOGETHER: usize = 64;
/// Dirty cells for which a list keeps room in any case.
const SPARE: usize = 4096;
/// Entries that one look at the budget visits.
const EVICT_STEPS: u32 = 4096;

const DIRTY: u64 = 1;
const PARITY: u64 = 2;
const MISSING: u64 = 4;
const TOUCHED: u64 = 0x18;
const TOUCHED_ONE: u64 = 0x08;
const POSITION_SHIFT: u32 = 8;
const POSITION_MASK: u64 = (1 << 40) - 1;
const TAG_SHIFT: u32 = 48;

/// Bytes that an image of this class counts for in its segment.
pub(crate) fn class_bytes(class: u8) -> i64 {
    // A record's header is two words longer than a cell's.
    (class_words(class) as i64 + 2) * 8
}

/// The class of a value of so many words.
pub(crate) fn value_class(words: usize) -> u8 {
    class_of(words + 1)
}

/// The place of a key's entry and cell; good until the shard's next change that moves or removes one, which
/// [`Shard::again`] notices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CellLocation {
    /// [`PRESENT`], the size class, whether it is hot, and its reference. Runs keep one of these a key, and copy it more than
    /// once: two words without a gap go through registers, whereas one with gaps is copied by pieces through memory, and
    /// the next load, which covers two pieces, waits until both are written.
    entry: NonZeroU64,
    slot: u32,
    /// The shard's version when it was found.
    version: u32,
}

const PRESENT: NonZeroU64 = NonZeroU64::MIN;
const PLACE_HOT: u32 = 1;
const PLACE_CLASS: u32 = 2;
const PLACE_REFERENCE: u32 = 8;

impl CellLocation {
    #[inline(always)]
    fn new(IndexEntry { slot, class, is_hot, reference }: IndexEntry, version: u32) -> CellLocation {
        let entry = PRESENT
            | u64::from(is_hot) << PLACE_HOT
            | u64::from(class) << PLACE_CLASS
            | reference << PLACE_REFERENCE;
        CellLocation { entry, slot, version }
    }

    #[inline(always)]
    fn entry(self) -> IndexEntry {
        let entry = self.entry.get();
        IndexEntry {
            slot: self.slot,
            class: (entry >> PLACE_CLASS) as u8 & ((1 << (PLACE_REFERENCE - PLACE_CLASS)) - 1),
            is_hot: entry >> PLACE_HOT & 1 == 1,
            reference: entry >> PLACE_REFERENCE,
        }
    }
}

/// A key of the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyLookup {
    /// Its cell is in memory.
    Hot(CellLocation),
    /// Its image is on disk alone.
    Cold(CellLocation, Position, usize),
    /// The store does not know the key.
    Absent,
}

/// The counts of a shard's actions.
#[derive(Default)]
pub(crate) struct ShardCounters {
    pub(crate) evictions: u64,
    pub(crate) expired: u64,
}

/// The source of the shards' memory.
pub(crate) struct StoreMemory {
    cells: Arc<Arena>,
    /// Its pages are cut from those for cells.
    index: Arc<Arena>,
    budget: Arc<IndexBudget>,
    /// The bytes for index and cells.
    bytes: usize,
}

impl StoreMemory {
    /// The index may always have so much.
    const INDEX_MIN: usize = 2 << 20;
    /// The bound on what is kept for all that is neither index nor cell; nor does that take more than an eighth.
    const BUFFERS_MAX: usize = 16 << 20;

    /// About so much, for all shards. The index is bounded if keys are not let go where memory is short.
    pub(crate) fn new(bytes: usize, is_durable: bool) -> StoreMemory {
        // A shard has some hundred pages of cells, each at most an eighth of a huge one: few, so that the lists of them stay
        // in the processor's caches. They, and pages of tables, are so small that those which are not full do not count.
        let bits = |bytes: usize| bytes.checked_ilog2().unwrap_or(0).saturating_sub(3);
        let cells = Arena::new(bytes, bits(bytes >> 13).clamp(6, 15));
        // The nearest power of two, as a table begins with a page and moves all it has for a second one.
        let index = Arena::cut(&cells, bits((bytes >> 15) / 2 * 3).clamp(6, 14));
        let bytes = bytes - (bytes / 8).min(StoreMemory::BUFFERS_MAX);
        let max = if is_durable { (bytes / 4 * 3).max(StoreMemory::INDEX_MIN) } else { usize::MAX };
        StoreMemory { cells, index, budget: Arc::new(IndexBudget::new(max)), bytes }
    }

    /// Bytes that were taken and are not used.
    pub(crate) fn spare_bytes(&self) -> usize {
        self.index.spare_bytes() + self.cells.returned_bytes()
    }

    /// Memory of the indexes of all shards.
    pub(crate) fn index_bytes(&self) -> usize {
        self.budget.bytes()
    }

    /// Returns how much memory the indexes of all shards may have, for keys that are not reserved for.
    pub(crate) fn index_bytes_max(&self) -> usize {
        self.budget.common_max()
    }

    /// A shard's share of what indexes leave to cells: an eighth of all in any case.
    pub(crate) fn cells_of_shard(&self) -> usize {
        self.bytes.saturating_sub(self.index.taken_bytes()).max(self.bytes / 8) / SHARDS
    }
}

pub(crate) struct Shard {
    index: Index,
    /// Counted up when an entry or a cell moves or goes.
    version: u32,
    hot: u32,
    durable: bool,
    cells: CellSlabs,
    /// Cells that became dirty, by the parity of their epoch.
    dirty: [Vec<DirtyCell>; 2],
    /// The most of them that a look of the flush has found which is under way.
    dirty_most: usize,
    /// The number of the first dirty cells that may lie somewhere else by now.
    unsure: [usize; 2],
    dirty_words: usize,
    /// Images of the epoch that is being flushed whose cells have changed since: hash, tag and length, words.
    before: Vec<u64>,
    /// Images that count for more or less since their cell has another class.
    resized: Vec<(Position, i64)>,
    /// The place at which eviction goes on.
    hand: u32,
    /// Looks at the budget that are left out, because the last one found next to nothing to evict.
    patience: u32,
    /// Looks at the slabs that are left out.
    compact_patience: u32,
    /// Tables that are still to be gone through for the cells of slabs that are being left.
    compacting: usize,
    /// Runs that have found cells here which must stay.
    pub(crate) pins: u32,
    pub(crate) tally: ShardCounters,
}

/// A cell that became dirty, and where it lay then: a flush goes there without asking the index, whose lines would have
/// to come from memory, unless a dirty cell was moved or let go since.
#[derive(Clone, Copy)]
struct DirtyCell {
    hash: KeyHash,
    /// The cell's reference above its class.
    cell: u64,
}

impl DirtyCell {
    #[inline(always)]
    fn new(hash: KeyHash, reference: u64, class: u8) -> DirtyCell {
        DirtyCell { hash, cell: reference << 8 | u64::from(class) }
    }

    #[inline(always)]
    fn place(self) -> (u64, u8) {
        (self.cell >> 8, self.cell as u8)
    }
}

/// Writes an image under its hash and tag, and answers where.
pub(crate) type ImageWriter<'a, E> = dyn FnMut(KeyHash, u16, &[u64]) -> Result<Position, E> + 'a;

/// The rule for what becomes of a cell when memory is short.
pub(crate) trait WrittenImages {
    /// Returns true if an image at this position can be read back by now.
    fn written(&self, position: Position) -> bool;
}

impl Shard {
    /// An empty share. Without a disk nothing is ever written, so nothing is dirty either.
    pub(crate) fn new(memory: &StoreMemory, durable: bool) -> Shard {
        Shard {
            index: Index::new(memory.index.clone(), memory.budget.clone()),
            version: 0,
            hot: 0,
            durable,
            cells: CellSlabs::new(memory.cells.clone()),
            dirty: Default::default(),
            dirty_most: 0,
            unsure: [0; 2],
            dirty_words: 0,
            before: Vec::new(),
            resized: Vec::new(),
            hand: 0,
            patience: 0,
            compact_patience: 0,
            compacting: 0,
            pins: 0,
            tally: ShardCounters::default(),
        }
    }

    /// Keys, hot and cold.
    pub(crate) fn entries(&self) -> u64 {
        u64::from(self.index.len())
    }

    /// Keys in memory.
    pub(crate) fn hot(&self) -> u64 {
        u64::from(self.hot)
    }

    /// Memory of the index.
    pub(crate) fn index_bytes(&self) -> usize {
        self.index.bytes()
    }

    /// Memory of cells, and of the room between them.
    pub(crate) fn cell_bytes(&self) -> usize {
        self.cells.bytes()
    }

    /// Memory of cells without the room between them.
    pub(crate) fn live_bytes(&self) -> usize {
        self.cells.live_bytes()
    }

    /// Memory of the lists that keep it all together.
    pub(crate) fn list_bytes(&self) -> usize {
        size_of::<Shard>() + self.index.list_bytes() + self.cells.list_bytes() + self.unwritten_list_bytes()
    }

    /// Memory of the lists of what is not written.
    pub(crate) fn unwritten_list_bytes(&self) -> usize {
        (self.dirty[0].capacity() + self.dirty[1].capacity()) * size_of::<DirtyCell>()
            + self.before.capacity() * 8
    }

    /// Bytes of cells that are not written yet.
    pub(crate) fn dirty_bytes(&self) -> usize {
        (self.dirty_words + self.before.len()) * 8
    }

    // --- index ---

    /// Asks for the lines where a key would be.
    #[inline(always)]
    pub(crate) fn prefetch(&self, hash: KeyHash) {
        self.index.prefetch(hash);
    }

    /// Asks for the lines of a cell.
    #[inline(always)]
    pub(crate) fn prefetch_cell(&self, place: CellLocation) {
        let IndexEntry { reference, class, .. } = place.entry();
        self.cells.prefetch(reference, class);
    }

    /// Finds a key's entry.
    #[inline(always)]
    pub(crate) fn find(&self, hash: KeyHash) -> KeyLookup {
        let Some(entry) = self.index.find(hash) else { return KeyLookup::Absent };
        let place = CellLocation::new(entry, self.version);
        let IndexEntry { class, reference, .. } = entry;
        if !entry.is_hot {
            return KeyLookup::Cold(place, Position::from_bits(reference), class_words(class) - 1);
        }
        KeyLookup::Hot(place)
    }

    /// The place of a key's cell: the one that was found before, unless cells have moved since.
    #[inline(always)]
    pub(crate) fn again(&self, hash: KeyHash, before: Option<CellLocation>) -> Option<CellLocation> {
        match before {
            Some(place) if place.version == self.version => Some(place),
            _ => match self.find(hash) {
                KeyLookup::Hot(place) => Some(place),
                _ => None,
            },
        }
    }

    fn set_entry(&mut self, entry: IndexEntry, reference: u64, is_hot: bool, class: u8) {
        self.index.set(IndexEntry { class, is_hot, reference, ..entry });
    }

    /// Adds an entry for a key that has none.
    fn insert(&mut self, hash: KeyHash, reference: u64, is_hot: bool, class: u8) -> CellLocation {
        let (slot, moved) = self.index.insert(hash, reference, is_hot, class);
        if moved {
            self.version = self.version.wrapping_add(1);
        }
        CellLocation::new(IndexEntry { slot, class, is_hot, reference }, self.version)
    }

    fn remove_entry(&mut self, entry: IndexEntry) {
        self.index.remove(entry.slot);
        self.version = self.version.wrapping_add(1);
    }

    /// Makes room for a new key and many more if there is none, before there are places.
    pub(crate) fn reserve(&mut self, hash: KeyHash) {
        self.index.reserve(hash);
    }

    /// Gives back what a table of the index is larger than it has to be.
    pub(crate) fn shrink(&mut self, table: usize) {
        if self.index.shrink(table) {
            self.version = self.version.wrapping_add(1);
        }
    }

    /// Returns whether there is a place for a new key.
    pub(crate) fn vacancy(&self, hash: KeyHash, is_reserved: bool) -> Vacancy {
        self.index.vacancy(hash, is_reserved)
    }

    /// Lets go of a key that is not in memory. Answers its image.
    pub(crate) fn drop_cold(&mut self, hash: KeyHash) -> Option<(Position, u8)> {
        let KeyLookup::Cold(place, at, _) = self.find(hash) else { return None };
        self.remove_entry(place.entry());
        Some((at, place.entry().class))
    }

    /// Points a key at an image on disk, which supersedes the one that it had. Answers that one and its class.
    pub(crate) fn point(&mut self, hash: KeyHash, position: Position, class: u8) -> Option<(Position, u8)> {
        match self.find(hash) {
            KeyLookup::Absent => {
                self.insert(hash, position.bits(), false, class);
                None
            }
            KeyLookup::Cold(place, old, _) => {
                let old_class = place.entry().class;
                self.set_entry(place.entry(), position.bits(), false, class);
                Some((old, old_class))
            }
            KeyLookup::Hot(_) => None,
        }
    }

    // --- cells ---

    #[inline(always)]
    fn cell(&self, reference: u64, class: u8) -> &[u64] {
        self.cells.cell(reference, class)
    }

    #[inline(always)]
    fn cell_mut(&mut self, reference: u64, class: u8) -> &mut [u64] {
        self.cells.cell_mut(reference, class)
    }

    fn release(&mut self, reference: u64, class: u8) {
        self.version = self.version.wrapping_add(1);
        if self.cell(reference, class)[0] & DIRTY != 0 {
            // Another key's cell may soon lie there, and be as dirty.
            self.unsure = [self.dirty[0].len(), self.dirty[1].len()];
        }
        self.cells.release(reference, class);
    }

    /// A cell's tag.
    #[inline(always)]
    pub(crate) fn tag(&self, place: CellLocation) -> u16 {
        let IndexEntry { reference, class, .. } = place.entry();
        (self.cell(reference, class)[0] >> TAG_SHIFT) as u16
    }

    /// A cell's words.
    #[inline(always)]
    pub(crate) fn words(&self, place: CellLocation) -> &[u64] {
        let IndexEntry { reference, class, .. } = place.entry();
        &self.cell(reference, class)[1..]
    }

    /// Notes that a cell was used, for eviction; answers its tag, whether its image could not be read, and its words.
    #[inline(always)]
    pub(crate) fn visit(&mut self, place: CellLocation) -> (u16, bool, &[u64]) {
        let IndexEntry { reference, class, .. } = place.entry();
        let cell = self.cell_mut(reference, class);
        let header = cell[0];
        cell[0] += u64::from(header & TOUCHED != TOUCHED) * TOUCHED_ONE;
        ((header >> TAG_SHIFT) as u16, header & MISSING != 0, &cell[1..])
    }

    /// Makes a cell without words for a key that is not there; dirty.
    pub(crate) fn create(&mut self, hash: KeyHash, tag: u16, words: usize, epoch: u64) -> CellLocation {
        let class = class_of(words.min(WORDS_MAX) + 1);
        let reference = self.cells.allocate(class);
        let mut header = u64::from(tag) << TAG_SHIFT | Position::NONE.bits() << POSITION_SHIFT;
        if self.durable {
            header |= DIRTY | parity_bit(epoch);
            self.dirty_words += class_words(class);
            self.dirty[epoch as usize & 1].push(DirtyCell::new(hash, reference, class));
        }
        self.cell_mut(reference, class)[0] = header;
        self.hot += 1;
        self.insert(hash, reference, true, class)
    }

    /// Puts a cold key's image, which was read from `position`, into memory; nothing if it was not cold there.
    pub(crate) fn load(&mut self, hash: KeyHash, position: Position, tag: u16, image: Option<&[u64]>) {
        let KeyLookup::Cold(place, at, _) = self.find(hash) else { return };
        if at != position {
            return;
        }
        let before = place.entry().class;
        let words = image.unwrap_or_default();
        let class = class_of(words.len() + 1);
        let reference = self.cells.allocate(class);
        let cell = self.cell_mut(reference, class);
        cell[0] = u64::from(tag) << TAG_SHIFT
            | position.bits() << POSITION_SHIFT
            | if image.is_none() { MISSING } else { 0 };
        cell[1..=words.len()].copy_from_slice(words);
        self.hot += 1;
        self.set_entry(place.entry(), reference, true, class);
        self.resize_image(position, before, class);
    }

    fn resize_image(&mut self, position: Position, from: u8, to: u8) {
        if position != Position::NONE && from != to {
            self.resized.push((position, class_bytes(to) - class_bytes(from)));
        }
    }

    /// Tells `account` what it has to hear since it was last told.
    #[inline(always)]
    pub(crate) fn settle(&mut self, mut account: impl FnMut(Position, i64)) {
        if !self.resized.is_empty() {
            self.resized.drain(..).for_each(|(position, bytes)| account(position, bytes));
        }
    }

    /// Lets go of a cell and its key. Answers the image that is dead by that.
    pub(crate) fn forget(&mut self, place: CellLocation) -> Option<(Position, u8)> {
        let IndexEntry { reference, class, .. } = place.entry();
        let header = self.cell(reference, class)[0];
        if header & DIRTY != 0 {
            self.dirty_words -= class_words(class);
        }
        self.release(reference, class);
        self.hot -= 1;
        self.remove_entry(place.entry());
        self.tally.expired += 1;
        let position = position_of(header);
        (position != Position::NONE).then_some((position, class))
    }

    /// Lets go of a cold key, if its image is the one at `position`.
    pub(crate) fn forget_cold(&mut self, hash: KeyHash, position: Position) -> Option<u8> {
        let KeyLookup::Cold(place, at, _) = self.find(hash) else { return None };
        if at != position {
            return None;
        }
        let class = place.entry().class;
        self.remove_entry(place.entry());
        self.tally.expired += 1;
        Some(class)
    }

    /// Moves a cold key's entry to where its image was copied. Answers the class that it had; `class` is the image's.
    pub(crate) fn relocate(&mut self, hash: KeyHash, from: Position, to: Position, class: u8) -> Option<u8> {
        let KeyLookup::Cold(place, at, _) = self.find(hash) else { return None };
        if at != from {
            return None;
        }
        let before = place.entry().class;
        self.set_entry(place.entry(), to.bits(), false, class);
        Some(before)
    }

    /// A cell to be changed in this epoch.
    #[inline(always)]
    pub(crate) fn change(&mut self, place: CellLocation, hash: KeyHash, epoch: u64) -> CellMut<'_> {
        let IndexEntry { reference, class, .. } = self.begin_change(place, hash, epoch);
        CellMut { shard: self, slot: place.slot, class, reference }
    }

    /// The words of a cell that is changed in this epoch, and keeps its size.
    #[inline(always)]
    pub(crate) fn words_mut(&mut self, place: CellLocation, hash: KeyHash, epoch: u64) -> &mut [u64] {
        let IndexEntry { reference, class, .. } = self.begin_change(place, hash, epoch);
        &mut self.cell_mut(reference, class)[1..]
    }

    #[inline(always)]
    fn begin_change(&mut self, place: CellLocation, hash: KeyHash, epoch: u64) -> IndexEntry {
        let entry = place.entry();
        let IndexEntry { reference, class, .. } = entry;
        let header = self.cell(reference, class)[0];
        if (header & DIRTY == 0 || header & PARITY != parity_bit(epoch)) && self.durable {
            self.mark(hash, reference, class, header, epoch);
        }
        entry
    }

    /// Changes a cell whose size stays, if it has this tag and all of its image is known; notes that it was used. `change` may
    /// refuse by answering `None`, having changed nothing. What a flush has still to write as it is, is left to
    /// [`Shard::change`].
    #[inline(always)]
    pub(crate) fn update<T>(
        &mut self,
        place: CellLocation,
        (hash, tag, epoch): (KeyHash, u16, u64),
        change: impl FnOnce(&mut [u64]) -> Option<T>,
    ) -> Option<T> {
        let IndexEntry { reference, class, .. } = place.entry();
        let (header, words) = self.cells.cell_mut(reference, class).split_first_mut()?;
        let before = *header;
        let is_dirty = before & DIRTY != 0;
        if (before >> TAG_SHIFT) as u16 != tag
            || before & MISSING != 0
            || is_dirty && before & PARITY != parity_bit(epoch)
        {
            return None;
        }
        let changed = change(words)?;
        let touched = before + u64::from(before & TOUCHED != TOUCHED) * TOUCHED_ONE;
        if is_dirty || !self.durable {
            *header = touched;
        } else {
            *header = touched & !PARITY | DIRTY | parity_bit(epoch);
            self.dirty_words += class_words(class);
            self.dirty[epoch as usize & 1].push(DirtyCell::new(hash, reference, class));
        }
        Some(changed)
    }

    #[cold]
    fn keep_before(&mut self, hash: KeyHash, reference: u64, class: u8) {
        let cell = self.cell(reference, class);
        let tag = cell[0] >> TAG_SHIFT;
        let words = trimmed(&cell[1..]).to_vec();
        self.before.extend([hash.0, tag << 32 | words.len() as u64]);
        self.before.extend(words);
    }

    fn mark(&mut self, hash: KeyHash, reference: u64, class: u8, header: u64, epoch: u64) {
        if header & DIRTY == 0 {
            self.dirty_words += class_words(class);
        } else {
            // Dirty since before the cut of a flush that has not come to it yet: what that flush is to write is kept.
            self.keep_before(hash, reference, class);
        }
        self.dirty[epoch as usize & 1].push(DirtyCell::new(hash, reference, class));
        self.cell_mut(reference, class)[0] = header & !PARITY | DIRTY | parity_bit(epoch);
    }

    /// Marks a clean cell dirty whose image lies at `position`, so that it is written somewhere else.
    pub(crate) fn renew(&mut self, hash: KeyHash, position: Position, epoch: u64) -> bool {
        let KeyLookup::Hot(place) = self.find(hash) else { return false };
        let IndexEntry { reference, class, .. } = place.entry();
        let header = self.cell(reference, class)[0];
        if position_of(header) != position {
            return false;
        }
        if header & DIRTY == 0 {
            self.mark(hash, reference, class, header, epoch);
        }
        true
    }

    /// Lets the next flush write every clean cell of a table whose image is one of those that are `meant`. `cold` hears of
    /// the meant images of keys without a cell.
    pub(crate) fn renew_all(
        &mut self,
        table: usize,
        meant: &dyn Fn(Position) -> bool,
        cold: &mut dyn FnMut(Position),
        epoch: u64,
    ) {
        let mut numbers = self.index.slots_of(table);
        let mut hot: Vec<IndexEntry> = Vec::with_capacity(TOGETHER);
        loop {
            for entry in numbers.by_ref().filter_map(|number| self.index.at(number)) {
                if entry.is_hot {
                    self.cells.prefetch(entry.reference, entry.class);
                    hot.push(entry);
                } else if meant(Position::from_bits(entry.reference)) {
                    cold(Position::from_bits(entry.reference));
                }
                if hot.len() == TOGETHER {
                    break;
                }
            }
            if hot.is_empty() {
                return;
            }
            for IndexEntry { slot, reference, class, .. } in hot.drain(..) {
                let header = self.cell(reference, class)[0];
                let position = position_of(header);
                if position != Position::NONE && meant(position) && header & DIRTY == 0 {
                    self.mark(self.index.hash_at(slot), reference, class, header, epoch);
                }
            }
        }
    }

    /// Returns true if a key's newest image is the one at this position.
    pub(crate) fn is_at(&self, hash: KeyHash, position: Position) -> bool {
        match self.find(hash) {
            KeyLookup::Cold(_, at, _) => at == position,
            KeyLookup::Hot(place) => {
                let IndexEntry { reference, class, .. } = place.entry();
                let header = self.cell(reference, class)[0];
                position_of(header) == position && header & DIRTY == 0
            }
            KeyLookup::Absent => false,
        }
    }

    // --- flush ---

    /// Hands at most `limit` of the cells that are dirty since before the cut to `write`, which answers where their
    /// image will be; true if more are left. `superseded` hears of images that are dead by that.
    pub(crate) fn collect<E>(
        &mut self,
        old: u64,
        limit: usize,
        write: &mut ImageWriter<'_, E>,
        account: &mut dyn FnMut(Position, i64),
    ) -> Result<bool, E> {
        let before = std::mem::take(&mut self.before);
        let mut rest = before.as_slice();
        while let [hash, about, tail @ ..] = rest {
            let (words, tail) = tail.split_at((*about as u32 as usize).min(tail.len()));
            // It counts for nothing: its cell is dirty again, so it is dead with the next flush.
            write(KeyHash(*hash), (*about >> 32) as u16, words)?;
            rest = tail;
        }
        let parity = old as usize & 1;
        let mut ahead = self.dirty[parity].len();
        self.dirty_most = self.dirty_most.max(ahead);
        let end = ahead.saturating_sub(limit);
        while ahead > end {
            let start = end.max(ahead.saturating_sub(TOGETHER));
            let mut places = [None; TOGETHER];
            self.places(parity, start..ahead, &mut places);
            for at in (start..ahead).rev() {
                ahead = at;
                let hash = self.dirty[parity][at].hash;
                let Some((reference, class)) = places[at - start] else { continue };
                let cell = self.cell_mut(reference, class);
                let header = cell[0];
                if header & DIRTY == 0 || header & PARITY != parity_bit(old) {
                    continue;
                }
                let written = write(hash, (header >> TAG_SHIFT) as u16, trimmed(&cell[1..]));
                let position = match written {
                    Ok(position) => position,
                    Err(error) => {
                        self.dirty[parity].truncate(at + 1);
                        return Err(error);
                    }
                };
                cell[0] = header & !(DIRTY | Position::NONE.bits() << POSITION_SHIFT)
                    | position.bits() << POSITION_SHIFT;
                self.dirty_words -= class_words(class);
                let before = position_of(header);
                if before != Position::NONE {
                    account(before, -class_bytes(class));
                }
                account(position, class_bytes(class));
            }
        }
        self.dirty[parity].truncate(ahead);
        self.unsure[parity] = self.unsure[parity].min(ahead);
        if ahead == 0 {
            self.spare(parity);
        }
        Ok(ahead > 0)
    }

    /// After all cells of a dirty list were collected: keeps its memory if it was used, as taking it anew for each flush and
    /// letting it grow costs more than what is put there. What is not used is given back by the next flush.
    fn spare(&mut self, parity: usize) {
        let used = std::mem::take(&mut self.dirty_most);
        for (at, list) in self.dirty.iter_mut().enumerate().filter(|(_, list)| list.is_empty()) {
            let used = if at == parity { used } else { 0 };
            if list.capacity() > SPARE.max(4 * used) {
                *list = Vec::new();
            }
        }
    }

    /// The places of some cells of a dirty list, whose lines are asked for; `None` for a cell that is gone.
    fn places(&self, parity: usize, range: Range<usize>, places: &mut [Option<(u64, u8)>; TOGETHER]) {
        let dirty = &self.dirty[parity][range.clone()];
        let unsure = self.unsure[parity].saturating_sub(range.start).min(dirty.len());
        let (unsure, sure) = dirty.split_at(unsure);
        // As a run does: first the lines of the index for some keys, then those of the cells.
        unsure.iter().for_each(|dirty| self.prefetch(dirty.hash));
        let (first, others) = places.split_at_mut(unsure.len());
        for (place, dirty) in others.iter_mut().zip(sure) {
            let (reference, class) = dirty.place();
            self.cells.prefetch(reference, class);
            *place = Some((reference, class));
        }
        for (place, dirty) in first.iter_mut().zip(unsure) {
            if let KeyLookup::Hot(found) = self.find(dirty.hash) {
                self.prefetch_cell(found);
                let IndexEntry { reference, class, .. } = found.entry();
                *place = Some((reference, class));
            }
        }
    }

    /// After a flush of the epoch `old` that failed: what it wrote, where `lost` says so, and what it did not come to
    /// is dirty in the present epoch, so that the next flush writes all of it. `account` hears of images that are lost.
    pub(crate) fn revert(
        &mut self,
        lost: &dyn Fn(Position) -> bool,
        old: u64,
        epoch: u64,
        account: &mut dyn FnMut(Position, i64),
    ) {
        // Images of before are of cells that have changed since, and so are dirty in the present epoch.
        self.before = Vec::new();
        self.unsure[old as usize & 1] = 0;
        for DirtyCell { hash, .. } in std::mem::take(&mut self.dirty[old as usize & 1]) {
            let KeyLookup::Hot(place) = self.find(hash) else { continue };
            let IndexEntry { reference, class, .. } = place.entry();
            let header = &mut self.cell_mut(reference, class)[0];
            if *header & DIRTY != 0 && *header & PARITY == parity_bit(old) {
                *header = *header & !PARITY | parity_bit(epoch);
                self.dirty[epoch as usize & 1].push(DirtyCell::new(hash, reference, class));
            }
        }
        for number in 0..self.index.slots() {
            let Some(entry @ IndexEntry { reference, class, is_hot: true, .. }) = self.index.at(number)
            else {
                continue;
            };
            let header = self.cell(reference, class)[0];
            let position = position_of(header);
            if position == Position::NONE || !lost(position) {
                continue;
            }
            account(position, -class_bytes(class));
            let header = header | Position::NONE.bits() << POSITION_SHIFT;
            self.cell_mut(reference, class)[0] = header;
            if header & DIRTY == 0 {
                let hash = self.index.hash_at(entry.slot);
                self.mark(hash, reference, class, header, epoch);
            }
        }
    }

    // --- eviction ---

    /// Brings the memory of cells under a budget, as far as cells are written: clock with two bits of use, so that
    /// keys which are seen once leave before one that comes again, and a cell that is often used outlasts three
    /// rounds of them (as in S3-FIFO, Yang et al. 2023).
    pub(crate) fn evict(&mut self, budget: usize, retire: &dyn WrittenImages) {
        if self.live_bytes() <= budget || self.pins > 0 {
            return;
        }
        if self.patience > 0 {
            self.patience -= 1;
            return;
        }
        let slots = self.index.slots();
        // A round finds every cell, and after four each of them has been counted down; no more than some
        // microseconds at a time.
        let mut steps = (slots * 4).min(EVICT_STEPS);
        let before = self.tally.evictions;
        while self.live_bytes() > budget && self.hot > 0 && steps > 0 {
            steps -= 1;
            if self.hand >= slots {
                self.hand = 0;
            }
            let entry = self.index.at(self.hand);
            self.hand += 1;
            let Some(entry @ IndexEntry { reference, class, is_hot: true, .. }) = entry else { continue };
            let durable = self.durable;
            let header = &mut self.cell_mut(reference, class)[0];
            let position = position_of(*header);
            if !durable {
                if *header & TOUCHED != 0 {
                    *header -= TOUCHED_ONE;
                    continue;
                }
                self.release(reference, class);
                self.remove_entry(entry);
            } else {
                if *header & DIRTY != 0 || position == Position::NONE || !retire.written(position) {
                    continue;
                }
                if *header & TOUCHED != 0 {
                    *header -= TOUCHED_ONE;
                    continue;
                }
                self.release(reference, class);
                self.set_entry(entry, position.bits(), false, class);
            }
            self.hot -= 1;
            self.tally.evictions += 1;
        }
        if steps == 0 && self.tally.evictions == before {
            // All of it dirty, or in use: what is dirty will be written first.
            self.patience = 64;
        }
    }

    /// Lets go of cells that `expired` says so of, and of the keys whose image lies where `gone` says: in a file
    /// that is about to be removed; of one table. `dead` hears of images that do not count any more.
    pub(crate) fn sweep(
        &mut self,
        table: usize,
        expired: &dyn Fn(u16, &[u64]) -> bool,
        gone: &dyn Fn(Position) -> bool,
        dead: &mut dyn FnMut(Position, u8),
    ) {
        let mut numbers = self.index.slots_of(table);
        let mut hot: Vec<IndexEntry> = Vec::with_capacity(TOGETHER);
        loop {
            for number in numbers.by_ref() {
                let Some(entry) = self.index.at(number) else { continue };
                if entry.is_hot {
                    self.cells.prefetch(entry.reference, entry.class);
                    hot.push(entry);
                    if hot.len() == TOGETHER {
                        break;
                    }
                    continue;
                }
                let position = Position::from_bits(entry.reference);
                if gone(position) {
                    self.remove_entry(entry);
                    self.tally.expired += 1;
                    dead(position, entry.class);
                }
            }
            if hot.is_empty() {
                return;
            }
            for entry in hot.drain(..) {
                let IndexEntry { reference, class, .. } = entry;
                let header = &mut self.cell_mut(reference, class)[0];
                let position = position_of(*header);
                if position != Position::NONE && gone(position) {
                    *header |= Position::NONE.bits() << POSITION_SHIFT;
                    dead(position, class);
                }
                let place = CellLocation::new(entry, self.version);
                if self.pins == 0
                    && expired(self.tag(place), self.words(place))
                    && let Some((position, class)) = self.forget(place)
                {
                    dead(position, class);
                }
            }
        }
    }

    /// Keys that have an image on disk which is their newest, of one table.
    pub(crate) fn stored(&self, table: usize) -> u64 {
        let is_stored = |entry: IndexEntry| {
            !entry.is_hot || {
                let header = self.cell(entry.reference, entry.class)[0];
                header & DIRTY == 0 && position_of(header) != Position::NONE
            }
        };
        let entries = self.index.slots_of(table).filter_map(|slot| self.index.at(slot));
        entries.filter(|entry| is_stored(*entry)).count() as u64
    }

    /// Moves the cells of slabs that are at most half full together, if slabs take more than a budget by an eighth: what
    /// one size of cells has given up is then there for others. One table at a time.
    pub(crate) fn compact(&mut self, budget: usize) {
        // What is given back and taken again each time would be moved to and fro.
        self.cells.give_back(budget + budget / 8);
        if self.cells.slab_bytes() <= budget + budget / 8 {
            return;
        }
        if self.compacting == 0 {
            if self.compact_patience > 0 {
                self.compact_patience -= 1;
                return;
            }
            self.compact_patience = 64;
            // One pass over the index for many slabs at once.
            if !self.cells.leave_sparse() {
                return;
            }
            self.compacting = TABLES;
        }
        self.compacting -= 1;
        for slot in self.index.slots_of(self.compacting) {
            let Some(entry @ IndexEntry { reference, class, is_hot: true, .. }) = self.index.at(slot) else {
                continue;
            };
            if !self.cells.is_leaving(reference, class) {
                continue;
            }
            let to = self.cells.allocate(class);
            self.cells.copy((reference, class), (to, class));
            self.release(reference, class);
            self.set_entry(entry, to, true, class);
        }
    }

    /// All cells in memory, of one table.
    pub(crate) fn each_hot(&self, table: usize, each: &mut dyn FnMut(KeyHash, u16, &[u64])) {
        for number in self.index.slots_of(table) {
            if let Some(IndexEntry { slot, reference, class, is_hot: true }) = self.index.at(number) {
                let cell = self.cell(reference, class);
                each(self.index.hash_at(slot), (cell[0] >> TAG_SHIFT) as u16, &cell[1..]);
            }
        }
    }
}

/// A cell that is being changed.
pub struct CellMut<'a> {
    shard: &'a mut Shard,
    reference: u64,
    slot: u32,
    class: u8,
}

impl CellMut<'_> {
    /// Its words, with zeros up to the size of its class.
    #[inline(always)]
    pub fn words(&self) -> &[u64] {
        &self.shard.cell(self.reference, self.class)[1..]
    }

    /// Its words.
    #[inline(always)]
    pub fn words_mut(&mut self) -> &mut [u64] {
        &mut self.shard.cell_mut(self.reference, self.class)[1..]
    }

    /// Sets its tag.
    pub fn set_tag(&mut self, tag: u16) {
        let header = &mut self.shard.cell_mut(self.reference, self.class)[0];
        *header = *header << 16 >> 16 | u64::from(tag) << TAG_SHIFT;
    }

    /// Makes room for at least so many words, keeping what there is; at most [`WORDS_MAX`]. Words that are
    /// cut off must be zero or are lost.
    #[inline(always)]
    pub fn resize(&mut self, words: usize) {
        let class = class_of(words.min(WORDS_MAX) + 1);
        // One class down is not worth the copying.
        if class != self.class && class + 1 != self.class {
            self.move_to(class);
        }
    }

    fn move_to(&mut self, class: u8) {
        let shard = &mut *self.shard;
        let reference = shard.cells.allocate(class);
        shard.cells.copy((self.reference, self.class), (reference, class));
        shard.release(self.reference, self.class);
        if shard.durable {
            shard.dirty_words = shard.dirty_words - class_words(self.class) + class_words(class);
        }
        shard.index.set(IndexEntry { slot: self.slot, class, is_hot: true, reference });
        let position = position_of(shard.cell(reference, class)[0]);
        shard.resize_image(position, self.class, class);
        self.reference = reference;
        self.class = class;
    }
}

#[inline(always)]
fn parity_bit(epoch: u64) -> u64 {
    (epoch & 1) * PARITY
}

#[inline(always)]
fn position_of(header: u64) -> Position {
    Position::from_bits(header >> POSITION_SHIFT & POSITION_MASK)
}

/// Without the zeros at its end.
fn trimmed(words: &[u64]) -> &[u64] {
    let used = words.iter().rposition(|word| *word != 0).map_or(0, |last| last + 1);
    &words[..used]
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, HashMap};

    use super::*;
    use crate::key_hash::LOW_BITS;

    /// SplitMix64.
    struct Random(u64);

    impl Random {
        fn below(&mut self, bound: u64) -> u64 {
            self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            (mixed ^ (mixed >> 31)) % bound
        }
    }

    /// The position before which everything is certain to stay.
    struct WrittenPrefix(u64);

    impl WrittenImages for WrittenPrefix {
        fn written(&self, position: Position) -> bool {
            position.bits() < self.0
        }
    }

    /// Hashes that crowd at the first, the last, and a few other buckets, with equal halves.
    fn crowded(number: u64) -> KeyHash {
        let high = [0, 1, u64::from(u32::MAX), u64::from(u32::MAX) - 1, 0x8000_0000][number as usize % 5];
        KeyHash((high << LOW_BITS) | (number / 5)).in_table(number as usize % 2)
    }

    fn small() -> Shard {
        Shard::new(&StoreMemory::new(2 << 20, true), true)
    }

    #[test]
    fn a_hash_is_a_shingle() {
        let mut random = Random(1);
        for _ in 0..200 {
            let (space, kind) = (random.below(1 << 16) as u16, random.below(1 << 16) as u16);
            let shingle = random.below(u64::MAX);
            let (shard, hash) = KeyHash::of(space, kind, shingle);
            assert!(shard < SHARDS && hash.0 < 1 << 58 && hash.part(shard) == (shingle >> 55) as usize);
            assert_eq!(hash.shingle(space, kind, shard), shingle);
        }
    }

    #[test]
    fn an_index_finds_what_was_put_there_and_nothing_else() {
        let mut random = Random(2);
        let mut shard = small();
        let mut model: HashMap<u64, (Position, u8)> = HashMap::new();
        for step in 0..if cfg!(miri) { 300 } else { 30_000 } {
            let number = random.below(if step % 1_000 < 500 { 90 } else { 20 });
            let hash = crowded(number);
            if random.below(3) > 0 {
                let image = (Position::from_bits(random.below(1 << 40)), 1 + random.below(59) as u8);
                assert_eq!(shard.point(hash, image.0, image.1), model.insert(number, image), "step {step}");
            } else {
                let position = model.get(&number).map_or(Position::NONE, |(position, _)| *position);
                let class = model.remove(&number).map(|(_, class)| class);
                assert_eq!(shard.forget_cold(hash, position), class, "step {step}");
            }
            let looked = random.below(100);
            let expected = model.get(&looked);
            let found = match shard.find(crowded(looked)) {
                KeyLookup::Cold(place, position, words) => {
                    assert_eq!(words + 1, class_words(place.entry().class));
                    Some((position, place.entry().class))
                }
                _ => None,
            };
            assert_eq!(found.as_ref(), expected, "step {step}");
            assert_eq!(shard.entries(), model.len() as u64);
            match random.below(200) {
                0 => (0..TABLES).for_each(|table| shard.shrink(table)),
                1 => shard.reserve(crowded(looked)),
                _ => {}
            }
        }
        assert!(shard.index_bytes() < 20 << 10, "it does not grow for what was removed");
    }

    #[test]
    fn what_a_flush_collects_is_the_state_at_the_cut() {
        for seed in 0..if cfg!(miri) { 2 } else { 60 } {
            flushes(seed);
        }
    }

    #[test]
    fn a_cell_that_was_let_go_is_not_taken_for_the_next_one_there() {
        let mut shard = small();
        let (gone, next) = (crowded(1), crowded(6));
        let place = shard.create(gone, 7, 1, 0);
        shard.change(place, gone, 0).words_mut()[0] = 1;
        let before = place.entry().reference;
        assert_eq!(shard.forget(place), None);
        let place = shard.create(next, 7, 1, 0);
        assert_eq!(place.entry().reference, before, "its room is used again");
        shard.change(place, next, 0).words_mut()[0] = 2;
        let mut written = Vec::new();
        let mut write = |hash: KeyHash, _: u16, words: &[u64]| {
            written.push((hash, words.to_vec()));
            Ok::<_, ()>(Position::from_bits(written.len() as u64))
        };
        assert_eq!(shard.collect(0, 10, &mut write, &mut |_, _| {}), Ok(false));
        assert_eq!(written, [(next, vec![2])]);
    }

    type Contents = BTreeMap<u64, (u16, Vec<u64>)>;

    /// One shard over a list of images, flushed in small steps, with changes, loads and evictions between them.
    fn flushes(seed: u64) {
        let mut random = Random(seed);
        let mut shard = small();
        let keys = 4 + random.below(40);
        let (mut now, mut disk) = (Contents::new(), Contents::new());
        // Every image that was written: number, tag, words. Positions are indices.
        let mut images: Vec<(u64, u16, Vec<u64>)> = Vec::new();
        let mut counted: HashMap<Position, i64> = HashMap::new();
        let mut epoch = 0;
        for _ in 0..if cfg!(miri) { 6 } else { 60 } {
            let cut = now.clone();
            let old = epoch;
            epoch += 1;
            let from = images.len();
            let end = if random.below(4) == 0 { random.below(60) as usize } else { usize::MAX };
            let done = loop {
                let mut write = |hash: KeyHash, tag, words: &[u64]| {
                    if images.len() - from >= end {
                        return Err(());
                    }
                    let number = (0..keys).find(|number| crowded(*number) == hash).unwrap();
                    images.push((number, tag, words.to_vec()));
                    Ok(Position::from_bits(images.len() as u64 - 1))
                };
                let mut account = |at, bytes| *counted.entry(at).or_default() += bytes;
                match shard.collect(old, 1 + random.below(5) as usize, &mut write, &mut account) {
                    Ok(true) => {}
                    end => break end.is_ok(),
                }
                (0..random.below(6))
                    .for_each(|_| step(&mut random, &mut shard, keys, epoch, &mut now, &images, from as u64));
            };
            let context = format!("seed {seed}, epoch {old}");
            if done {
                for (number, tag, words) in &images[from..] {
                    disk.insert(*number, (*tag, words.clone()));
                }
                assert_eq!(disk, cut, "{context}");
            } else {
                let lost = |at: Position| at.bits() >= from as u64;
                let mut account = |at, bytes| *counted.entry(at).or_default() += bytes;
                shard.revert(&lost, old, epoch, &mut account);
            }
            let mut expected: HashMap<Position, i64> = HashMap::new();
            shard.settle(|at, bytes| *counted.entry(at).or_default() += bytes);
            for slot in 0..shard.index.slots() {
                let Some(IndexEntry { class, is_hot, reference, .. }) = shard.index.at(slot) else {
                    continue;
                };
                let position = if is_hot {
                    position_of(shard.cell(reference, class)[0])
                } else {
                    Position::from_bits(reference)
                };
                if position != Position::NONE {
                    expected.insert(position, class_bytes(class));
                }
            }
            counted.retain(|_, bytes| *bytes != 0);
            assert_eq!(counted, expected, "{context}");
            if !done {
                // Its images never were.
                images.truncate(from);
            }
            (0..random.below(40))
                .for_each(|_| step(&mut random, &mut shard, keys, epoch, &mut now, &images, u64::MAX));
        }
        let mut words: usize = 0;
        for table in 0..TABLES {
            shard.each_hot(table, &mut |hash, tag, cell| {
                let number = (0..keys).find(|number| crowded(*number) == hash).unwrap();
                assert_eq!(now[&number], (tag, trimmed(cell).to_vec()), "seed {seed}");
                words += cell.len() + 1;
            });
        }
        assert_eq!((shard.live_bytes(), shard.entries()), (words * 8, now.len() as u64), "seed {seed}");
    }

    fn step(
        random: &mut Random,
        shard: &mut Shard,
        keys: u64,
        epoch: u64,
        now: &mut Contents,
        images: &[(u64, u16, Vec<u64>)],
        certain: u64,
    ) {
        let number = random.below(keys);
        let hash = crowded(number);
        if let KeyLookup::Cold(_, position, most) = shard.find(hash) {
            let (of, tag, words) = &images[position.bits() as usize];
            assert!(*of == number && words.len() <= most);
            shard.load(hash, position, *tag, Some(words));
        }
        let place = match shard.find(hash) {
            KeyLookup::Hot(place) => place,
            _ => shard.create(hash, 7, 1, epoch),
        };
        let before = now.get(&number).map(|(_, words)| words.as_slice()).unwrap_or_default();
        assert_eq!(trimmed(shard.words(place)), before);
        shard.visit(place);
        let (tag, most) = (random.below(9) as u16, [4, 12, 40, 600][random.below(4) as usize]);
        let mut words: Vec<u64> = (0..random.below(most)).map(|_| random.below(1 << 60)).collect();
        let mut cell = shard.change(place, hash, epoch);
        cell.set_tag(tag);
        cell.resize(words.len());
        cell.words_mut().fill(0);
        cell.words_mut()[..words.len()].copy_from_slice(&words);
        words.truncate(trimmed(&words).len());
        now.insert(number, (tag, words));
        if random.below(3) == 0 {
            shard.evict(random.below(4_000) as usize, &WrittenPrefix(certain));
        }
    }
}
