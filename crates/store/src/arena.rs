//! Memory in pages, cut from large extents for which huge pages are asked: with a hundred million cells a look-up
//! would otherwise spend more time in the system's page tables than in cells. Our pages are to be larger where there is
//! more memory, so that the lists of them stay in the processor's caches.
//!
//! The only unsafe code of the crate. It rests on one rule: a page belongs to one [`Pages`] at a time, or is free.
//! [`Pages`] hands out its pages under its own borrow, as a vector of boxes would.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ops::RangeInclusive;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, PoisonError};

/// The alignment of huge pages on the systems that have them.
const HUGE_BYTES: usize = 2 << 20;

/// Where pages come from, and go back to. Extents are kept until the arena is dropped.
pub(crate) struct Arena {
    page_bits: u32,
    extent_bytes: usize,
    free: Mutex<Free>,
}

#[derive(Default)]
struct Free {
    extents: Vec<NonNull<u8>>,
    /// Pages that were given back, with what was written there.
    pages: Vec<NonNull<u64>>,
    /// Bytes of the newest extent that were never taken.
    fresh: usize,
}

// SAFETY: the pointers are to memory that the arena alone owns, and are only followed by `Pages` for pages that it
// has taken out of `free`.
unsafe impl Send for Arena {}
// SAFETY: as above; `free` is behind a mutex.
unsafe impl Sync for Arena {}

impl Arena {
    /// An arena for about so much memory, in pages of a power of two of words: at most the share asked for, and within
    /// bounds for its logarithm.
    pub(crate) fn new(memory_bytes: usize, pages: usize, page_bits: RangeInclusive<u32>) -> Arc<Arena> {
        let bits = (memory_bytes / pages.max(1) / 8).checked_ilog2().unwrap_or(0);
        Arc::new(Arena {
            page_bits: bits.clamp(*page_bits.start(), *page_bits.end()),
            extent_bytes: (memory_bytes / 16).clamp(HUGE_BYTES, 64 << 20).next_multiple_of(HUGE_BYTES),
            free: Mutex::new(Free::default()),
        })
    }

    fn layout(&self) -> Layout {
        // One huge page more than asked for, so that the extent can start at a boundary of one. With no more
        // alignment than that, allocators leave zeroing to the system, page by page when it is touched.
        Layout::from_size_align(self.extent_bytes + HUGE_BYTES, 16).unwrap_or(Layout::new::<u64>())
    }

    /// A page, and whether it is blank.
    fn take(&self) -> (NonNull<u64>, bool) {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(page) = free.pages.pop() {
            return (page, false);
        }
        if free.fresh == 0 {
            // SAFETY: the layout's size is not zero.
            let extent = unsafe { alloc_zeroed(self.layout()) };
            let Some(extent) = NonNull::new(extent) else { handle_alloc_error(self.layout()) };
            free.extents.push(extent);
            free.fresh = self.extent_bytes;
            advise(self.start(extent), self.extent_bytes);
        }
        let at = self.extent_bytes - free.fresh;
        free.fresh -= 8 << self.page_bits;
        let start = free.extents.last().map_or(NonNull::dangling(), |extent| self.start(*extent));
        // SAFETY: `at` is a multiple of a page below `extent_bytes`, which the allocation holds behind `start`.
        (unsafe { start.add(at).cast::<u64>() }, true)
    }

    /// The first boundary of a huge page in an extent.
    fn start(&self, extent: NonNull<u8>) -> NonNull<u8> {
        let skip = extent.align_offset(HUGE_BYTES);
        // SAFETY: an allocation is one huge page longer than `extent_bytes`, and `skip` is less than that; where
        // alignment cannot be computed (`usize::MAX`) nothing is skipped.
        unsafe { extent.add(if skip < HUGE_BYTES { skip } else { 0 }) }
    }

    fn give(&self, pages: &mut Vec<NonNull<u64>>) {
        self.free.lock().unwrap_or_else(PoisonError::into_inner).pages.append(pages);
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        let layout = self.layout();
        let free = self.free.get_mut().unwrap_or_else(PoisonError::into_inner);
        for extent in free.extents.drain(..) {
            // SAFETY: allocated with this layout in `take`. Every `Pages` holds the arena alive, so none is left.
            unsafe { dealloc(extent.as_ptr(), layout) };
        }
    }
}

#[cfg(all(target_os = "linux", not(miri)))]
fn advise(start: NonNull<u8>, bytes: usize) {
    // Without huge pages it is only slower.
    // SAFETY: the range is allocated and nobody's yet; this advice does not change its contents.
    let _ = unsafe { rustix::mm::madvise(start.as_ptr().cast(), bytes, rustix::mm::Advice::LinuxHugepage) };
}

#[cfg(not(all(target_os = "linux", not(miri))))]
fn advise(_: NonNull<u8>, _: usize) {}

/// Pages that belong together, numbered from 0.
pub(crate) struct Pages {
    pages: Vec<NonNull<u64>>,
    bits: u32,
    arena: Arc<Arena>,
}

// SAFETY: it owns its pages, as a vector of boxes does.
unsafe impl Send for Pages {}
// SAFETY: as above: through a shared reference pages can only be read.
unsafe impl Sync for Pages {}

impl Pages {
    pub(crate) fn new(arena: Arc<Arena>) -> Pages {
        Pages { pages: Vec::new(), bits: arena.page_bits, arena }
    }

    pub(crate) fn arena(&self) -> &Arc<Arena> {
        &self.arena
    }

    /// Bits of a word's number within its page.
    #[inline(always)]
    pub(crate) fn bits(&self) -> u32 {
        self.bits
    }

    /// Words of a page.
    pub(crate) fn page_words(&self) -> usize {
        1 << self.bits
    }

    /// Memory of all pages.
    pub(crate) fn bytes(&self) -> usize {
        self.pages.len() << self.bits << 3
    }

    /// Adds a page that may hold anything.
    pub(crate) fn push(&mut self) {
        self.pages.push(self.arena.take().0);
    }

    /// Adds a page of zeros.
    pub(crate) fn push_blank(&mut self) {
        let (page, is_blank) = self.arena.take();
        self.pages.push(page);
        if !is_blank {
            self.page_mut(self.pages.len() - 1).fill(0);
        }
    }

    #[inline(always)]
    pub(crate) fn page(&self, number: usize) -> &[u64] {
        // SAFETY: the page is ours alone, initialised since its extent was allocated with zeros, and lives as long as
        // the arena we hold; it is borrowed as we are.
        unsafe { std::slice::from_raw_parts(self.pages[number].as_ptr(), 1 << self.bits) }
    }

    #[inline(always)]
    pub(crate) fn page_mut(&mut self, number: usize) -> &mut [u64] {
        // SAFETY: as in `page`; it is borrowed for writing as we are.
        unsafe { std::slice::from_raw_parts_mut(self.pages[number].as_ptr(), 1 << self.bits) }
    }

    /// Memory of the list of pages.
    pub(crate) fn list_bytes(&self) -> usize {
        self.pages.capacity() * size_of::<NonNull<u64>>()
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        self.arena.give(&mut self.pages);
    }
}

/// Asks the processor to fetch the line of a word that will be needed soon.
#[inline(always)]
pub(crate) fn prefetch(word: &u64) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a hint; the address is that of a reference.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(word).cast()) };
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = word;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_apart_and_come_back_blank() {
        let arena = Arena::new(0, 1, 6..=6);
        let (mut a, mut b) = (Pages::new(arena.clone()), Pages::new(arena.clone()));
        for number in 0..20 {
            a.push_blank();
            b.push_blank();
            a.page_mut(number).fill(1);
            b.page_mut(number)[63] = 2;
        }
        assert!((0..20).all(|number| a.page(number).iter().all(|word| *word == 1)));
        assert!((0..20).all(|number| b.page(number).iter().sum::<u64>() == 2));
        assert_eq!(b.bytes(), 20 * 512);
        drop(a);
        b.push_blank();
        assert!(b.page(20).iter().all(|word| *word == 0));
        prefetch(&b.page(20)[5]);
        b.push();
        assert_eq!(b.page(21).len(), 64);
    }

    #[test]
    fn an_arena_lives_as_long_as_its_pages() {
        let mut pages = Pages::new(Arena::new(8 << 30, 1 << 16, 6..=13));
        pages.push_blank();
        pages.page_mut(0)[8191] = 7;
        let other = std::thread::spawn(move || pages.page(0)[8191]);
        assert_eq!(other.join().unwrap(), 7);
    }

    #[test]
    fn more_than_one_extent() {
        let arena = Arena::new(0, 1, 6..=6);
        let mut pages = Pages::new(arena.clone());
        let count = 2 * HUGE_BYTES / 512 + 1;
        (0..count).for_each(|_| pages.push_blank());
        (0..count).for_each(|number| pages.page_mut(number).fill(number as u64));
        assert!((0..count).all(|number| pages.page(number)[0] == number as u64));
        assert_eq!(arena.free.lock().unwrap().extents.len(), 3);
    }
}
