//! Memory for the cells of a shard: slabs of size classes.
//!
//! A cell is a run of words of one of [`CLASSES`] sizes, four to a doubling. A page is a slab, and a slab has
//! cells of one class; what is free in it is a list through the cells themselves. A slab that is empty is for any
//! class, and its page can be given back. Cells larger than a [`SLAB_CELLS`]th of a slab lie on the heap. A cell's reference is the number of its first
//! word in all pages, or its number on the heap.

use std::sync::Arc;

use crate::arena::{Arena, ArenaPages, prefetch};

/// Slabs have room for so many cells, at least.
const SLAB_CELLS: usize = 4;
/// Words of a cache line.
const LINE_WORDS: usize = 8;

/// Size classes: 2 to 8 words, then four to a doubling. Class 0 is a free slot.
const CLASSES: usize = 60;

const CLASS_WORDS: [u32; CLASSES] = {
    let mut words = [0; CLASSES];
    let mut class = 1;
    while class < CLASSES {
        words[class] = if class <= 7 {
            class as u32 + 1
        } else {
            let step = class as u32 - 8;
            (5 + step % 4) << (1 + step / 4)
        };
        class += 1;
    }
    words
};

/// The smallest class that holds so many words, header included.
#[inline(always)]
pub(crate) fn class_of(words: usize) -> u8 {
    if words <= 8 {
        (words.max(2) - 1) as u8
    } else {
        let above = (words - 1) as u32;
        let doubling = 31 - above.leading_zeros();
        let quarter = above >> (doubling - 2) & 3;
        (8 + (doubling - 3) * 4 + quarter) as u8
    }
}

#[inline(always)]
pub(crate) fn class_words(class: u8) -> usize {
    CLASS_WORDS[usize::from(class)] as usize
}

/// Memory of one class.
#[derive(Clone, Copy, Default)]
struct Slab {
    /// 0: of none.
    class: u8,
    /// True if the slab is in its class's list of slabs with room.
    listed: bool,
    /// Its cells are being moved to other slabs.
    leaving: bool,
    live: u32,
    /// First word of the first free cell, plus one; a free cell's first word holds the next.
    free: u32,
    /// Words in use from the start.
    bump: u32,
}

/// The cells of a shard.
pub(crate) struct CellSlabs {
    pages: ArenaPages,
    slab_bits: u32,
    /// The largest class of cells in slabs.
    small_class: u8,
    slabs: Vec<Slab>,
    /// The slabs that may have a free cell, by class.
    room: Vec<Vec<u32>>,
    /// Slabs of no class.
    spare: Vec<u32>,
    /// Slabs whose page was given back.
    gone: Vec<u32>,
    large: Vec<Box<[u64]>>,
    large_free: Vec<u32>,
    large_words: usize,
    /// Words of all cells.
    words: usize,
}

impl CellSlabs {
    /// No cells yet.
    pub(crate) fn new(arena: Arc<Arena>) -> CellSlabs {
        let pages = ArenaPages::new(arena);
        let slab_bits = pages.bits();
        CellSlabs {
            pages,
            slab_bits,
            small_class: class_of((1 << slab_bits) / SLAB_CELLS),
            slabs: Vec::new(),
            room: Vec::new(),
            spare: Vec::new(),
            gone: Vec::new(),
            large: Vec::new(),
            large_free: Vec::new(),
            large_words: 0,
            words: 0,
        }
    }

    /// Memory of all cells, and of the room between them.
    pub(crate) fn bytes(&self) -> usize {
        self.pages.bytes() + self.large_words * 8
    }

    /// Memory of all cells without the room between them.
    pub(crate) fn live_bytes(&self) -> usize {
        self.words * 8
    }

    /// Memory of slabs that are of a class.
    pub(crate) fn slab_bytes(&self) -> usize {
        (self.slabs.len() - self.spare.len() - self.gone.len()) * (8 << self.slab_bits)
    }

    /// Gives pages without a cell back while all cells, and the room between them, take more than so much.
    pub(crate) fn give_back(&mut self, bytes: usize) {
        while self.bytes() > bytes
            && let Some(number) = self.spare.pop()
        {
            self.pages.give(number as usize);
            self.gone.push(number);
        }
    }

    /// Memory of the lists that keep it all together.
    pub(crate) fn list_bytes(&self) -> usize {
        self.pages.list_bytes() + self.slabs.capacity() * size_of::<Slab>()
    }

    /// Returns true if cells of a class lie in slabs.
    #[inline(always)]
    pub(crate) fn is_small(&self, class: u8) -> bool {
        class <= self.small_class
    }

    /// The page of a small cell and its first word in there.
    #[inline(always)]
    fn place_of(&self, reference: u64) -> (usize, usize) {
        let bits = self.pages.bits();
        let address = reference as usize;
        (address >> bits, address & ((1 << bits) - 1))
    }

    /// A cell.
    #[inline(always)]
    pub(crate) fn cell(&self, reference: u64, class: u8) -> &[u64] {
        let words = class_words(class);
        let (page, first) = self.place_of(reference);
        if self.is_small(class) {
            &self.pages.page(page)[first..first + words]
        } else {
            &self.large[reference as usize]
        }
    }

    /// A cell.
    #[inline(always)]
    pub(crate) fn cell_mut(&mut self, reference: u64, class: u8) -> &mut [u64] {
        let words = class_words(class);
        let (page, first) = self.place_of(reference);
        if self.is_small(class) {
            &mut self.pages.page_mut(page)[first..first + words]
        } else {
            &mut self.large[reference as usize]
        }
    }

    /// Takes a cell of zeros.
    pub(crate) fn allocate(&mut self, class: u8) -> u64 {
        let words = class_words(class);
        self.words += words;
        if !self.is_small(class) {
            self.large_words += words;
            let cell = vec![0; words].into_boxed_slice();
            return match self.large_free.pop() {
                Some(number) => {
                    self.large[number as usize] = cell;
                    u64::from(number)
                }
                None => {
                    self.large.push(cell);
                    self.large.len() as u64 - 1
                }
            };
        }
        if self.room.len() <= usize::from(class) {
            self.room.resize_with(usize::from(class) + 1, Vec::new);
        }
        loop {
            let Some(number) = self.room[usize::from(class)].last().copied() else {
                let number = self.spare_slab();
                self.slabs[number as usize] = Slab { class, listed: true, ..Slab::default() };
                self.room[usize::from(class)].push(number);
                continue;
            };
            let slab = &mut self.slabs[number as usize];
            let start = u64::from(number) << self.slab_bits;
            let first = if slab.class != class || slab.leaving {
                None
            } else if slab.free > 0 {
                let first = slab.free as usize - 1;
                slab.free = self.pages.page(number as usize)[first] as u32;
                Some(first)
            } else if slab.bump as usize + words <= self.pages.page_words() {
                let first = slab.bump as usize;
                slab.bump += words as u32;
                Some(first)
            } else {
                None
            };
            match first {
                Some(first) => {
                    slab.live += 1;
                    self.pages.page_mut(number as usize)[first..first + words].fill(0);
                    return start | first as u64;
                }
                None => {
                    if slab.class == class {
                        slab.listed = false;
                    }
                    self.room[usize::from(class)].pop();
                }
            }
        }
    }

    /// A slab of no class.
    fn spare_slab(&mut self) -> u32 {
        if let Some(number) = self.spare.pop() {
            return number;
        }
        if let Some(number) = self.gone.pop() {
            self.pages.retake(number as usize);
            return number;
        }
        self.pages.push();
        self.slabs.push(Slab::default());
        self.slabs.len() as u32 - 1
    }

    /// Frees a cell.
    pub(crate) fn release(&mut self, reference: u64, class: u8) {
        let words = class_words(class);
        self.words -= words;
        if !self.is_small(class) {
            let number = reference as usize;
            self.large_words -= words;
            self.large[number] = Box::default();
            self.large_free.push(number as u32);
            return;
        }
        let (page, at) = self.place_of(reference);
        let number = self.slab_of(reference);
        let slab = &mut self.slabs[number];
        debug_assert!(slab.class == class && slab.live > 0, "a cell is freed once, under its own class");
        slab.live -= 1;
        if slab.live == 0 {
            // Its class's list may still name it; who finds it there sees that it has another class.
            *slab = Slab::default();
            self.spare.push(number as u32);
            return;
        }
        self.pages.page_mut(page)[at] = u64::from(slab.free);
        slab.free = (at as u32 & ((1 << self.slab_bits) - 1)) + 1;
        if !slab.listed {
            slab.listed = true;
            self.room[usize::from(class)].push(number as u32);
        }
    }

    /// Copies the words that fit from one cell to another, header included.
    pub(crate) fn copy(&mut self, (from, from_class): (u64, u8), (to, to_class): (u64, u8)) {
        let kept = class_words(from_class).min(class_words(to_class));
        let mut line = [0; 16];
        for start in (0..kept).step_by(line.len()) {
            let end = kept.min(start + line.len());
            let line = &mut line[..end - start];
            line.copy_from_slice(&self.cell(from, from_class)[start..end]);
            self.cell_mut(to, to_class)[start..end].copy_from_slice(line);
        }
    }

    /// Asks for a cell's lines, the first two at most.
    #[inline(always)]
    pub(crate) fn prefetch(&self, reference: u64, class: u8) {
        if self.is_small(class) {
            let (page, first) = self.place_of(reference);
            let page = self.pages.page(page);
            prefetch(&page[first]);
            // Cells of three words and the like cross a line now and then.
            prefetch(&page[first + class_words(class).min(LINE_WORDS) - 1]);
        }
    }

    #[inline]
    fn slab_of(&self, reference: u64) -> usize {
        (reference >> self.slab_bits) as usize
    }

    /// Marks the slabs that are at most half full as left, if there is more than one in sixteen of them: no new cell
    /// comes there, and whoever goes through all cells moves those that [`CellSlabs::is_leaving`] says.
    pub(crate) fn leave_sparse(&mut self) -> bool {
        let half = 1 << (self.slab_bits - 1);
        let is_sparse = |slab: &Slab| slab.class != 0 && slab.live as usize * class_words(slab.class) <= half;
        let slabs = self.slabs.len() - self.gone.len();
        if self.slabs.iter().filter(|slab| is_sparse(slab)).count() * 16 < slabs {
            return false;
        }
        for slab in &mut self.slabs {
            slab.leaving = is_sparse(slab);
        }
        true
    }

    /// Returns true if a cell is to be moved elsewhere.
    pub(crate) fn is_leaving(&self, reference: u64, class: u8) -> bool {
        self.is_small(class) && self.slabs[self.slab_of(reference)].leaving
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::WORDS_MAX;

    #[test]
    fn classes_are_the_smallest_that_fit() {
        for words in 2..=WORDS_MAX + 1 {
            let class = class_of(words);
            assert!(class_words(class) >= words && (class == 1 || class_words(class - 1) < words), "{words}");
        }
        assert_eq!(usize::from(class_of(WORDS_MAX + 1)), CLASSES - 1);
    }

    #[test]
    fn cells_are_apart_and_slabs_are_used_again() {
        let mut cells = CellSlabs::new(Arena::new(0, 7));
        let classes = [1, 2, 9, 12, 13, 20];
        let fill = |cells: &mut CellSlabs, round: u64| -> Vec<(u64, u8)> {
            let mut filled = Vec::new();
            for number in 0..200 {
                let class = classes[number % classes.len()];
                let reference = cells.allocate(class);
                let cell = cells.cell_mut(reference, class);
                assert!(cell.len() == class_words(class) && cell.iter().all(|word| *word == 0));
                cell.fill(round * 1000 + number as u64);
                filled.push((reference, class));
            }
            filled
        };
        let mut most = 0;
        for round in 1..5 {
            let filled = fill(&mut cells, round);
            for (number, (reference, class)) in (0..).zip(&filled) {
                let cell = cells.cell(*reference, *class);
                assert!(cell.iter().all(|word| *word == round * 1000 + number));
            }
            most = if round == 1 { cells.bytes() } else { most };
            assert!(cells.bytes() <= most && cells.live_bytes() > 0);
            filled.iter().for_each(|(reference, class)| cells.release(*reference, *class));
            assert_eq!((cells.live_bytes(), cells.slab_bytes()), (0, 0));
            cells.give_back(most / round as usize);
            assert!(cells.bytes() <= most / round as usize, "{round}: {}", cells.bytes());
        }
    }
}
