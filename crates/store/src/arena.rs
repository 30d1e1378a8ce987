//! Memory in pages, cut from large extents for which huge pages are asked: with a hundred million cells a look-up
//! would otherwise spend more time in the system's page tables than in cells. An arena may cut its pages from those of
//! another, so that what belongs together lies together, and is reached with few of the processor's address
//! translations.
//!
//! The only unsafe code of the crate. It rests on one rule: a page belongs to one [`ArenaPages`] at a time, or is free.
//! [`ArenaPages`] hands out its pages under its own borrow, as a vector of boxes would.

use parking_lot::Mutex;
use std::alloc::{Layout, handle_alloc_error};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The alignment of huge pages on the systems that have them.
const HUGE_BYTES: usize = 2 << 20;
const EXTENT_BYTES_MAX: usize = 64 << 20;

/// The words of the panic of who reads a page that is not there.
const GIVEN_BACK: &str = "nobody reads a page that was given back";

/// The source of pages of one size. Extents are kept until the arena is dropped.
pub(crate) struct Arena {
    page_bits: u32,
    extent_bytes: usize,
    /// Bytes of all extents.
    taken: AtomicUsize,
    free: Mutex<FreePages>,
}

struct FreePages {
    extents: Extents,
    /// Pages that were given back, with what was written there.
    pages: Vec<NonNull<u64>>,
    /// Bytes of the newest extent that were never taken.
    fresh: usize,
    /// True if the fresh bytes are zero.
    is_blank: bool,
}

enum Extents {
    /// The pages of the system.
    Own(Vec<NonNull<u8>>),
    /// Pages of another arena.
    Cut(ArenaPages),
}

// SAFETY: the pointers are to memory that the arena alone owns, and are only followed by `ArenaPages` for pages that it
// has taken out of `free`.
unsafe impl Send for Arena {}
// SAFETY: as above; `free` is behind a mutex.
unsafe impl Sync for Arena {}

impl Arena {
    /// An arena for about so much memory, with pages of two to the power of `page_bits` words, at most 2^18.
    pub(crate) fn new(memory_bytes: usize, page_bits: u32) -> Arc<Arena> {
        let extent_bytes = (memory_bytes / 16).clamp(HUGE_BYTES, EXTENT_BYTES_MAX);
        Arena::over(Extents::Own(Vec::new()), extent_bytes.next_multiple_of(HUGE_BYTES), page_bits)
    }

    /// An arena that cuts another's pages, or passes them on if they are not larger.
    pub(crate) fn cut(from: &Arc<Arena>, page_bits: u32) -> Arc<Arena> {
        let extents = Extents::Cut(ArenaPages::new(from.clone()));
        Arena::over(extents, 8 << from.page_bits, page_bits.min(from.page_bits))
    }

    fn over(extents: Extents, extent_bytes: usize, page_bits: u32) -> Arc<Arena> {
        let free = Mutex::new(FreePages { extents, pages: Vec::new(), fresh: 0, is_blank: false });
        Arc::new(Arena { page_bits, extent_bytes, taken: AtomicUsize::new(0), free })
    }

    /// Memory that was taken and is in no page that is used.
    pub(crate) fn spare_bytes(&self) -> usize {
        self.returned_bytes() + self.free.lock().fresh
    }

    /// Memory of pages that were given back.
    pub(crate) fn returned_bytes(&self) -> usize {
        let free = self.free.lock();
        free.pages.len() * (8 << self.page_bits)
    }

    /// Memory that was taken, in pages that are used or not.
    pub(crate) fn taken_bytes(&self) -> usize {
        self.taken.load(Ordering::Relaxed)
    }

    fn layout(&self) -> Layout {
        // One huge page more than asked for, so that the extent can start at a boundary of one.
        Layout::from_size_align(self.extent_bytes + HUGE_BYTES, 16).expect("extents are of 64 MiB at most")
    }

    /// A page, and whether it is blank.
    fn take(&self) -> (NonNull<u64>, bool) {
        let mut free = self.free.lock();
        if let Some(page) = free.pages.pop() {
            return (page, false);
        }
        if free.fresh == 0 {
            free.is_blank = match &mut free.extents {
                Extents::Own(extents) => {
                    let Some(extent) = extent::take(self.layout()) else { handle_alloc_error(self.layout()) };
                    extents.push(extent);
                    extent::advise(self.start(extent), self.extent_bytes);
                    true
                }
                Extents::Cut(pages) => pages.push(),
            };
            free.fresh = self.extent_bytes;
            self.taken.fetch_add(self.extent_bytes, Ordering::Relaxed);
        }
        let at = self.extent_bytes - free.fresh;
        free.fresh -= 8 << self.page_bits;
        let start = match &free.extents {
            Extents::Own(extents) => {
                self.start(*extents.last().expect("an extent with fresh bytes was taken"))
            }
            // What it borrows, only our own pages are ever made of: nobody else follows the pointer.
            Extents::Cut(pages) => pages.newest().cast(),
        };
        // SAFETY: `at` is a multiple of a page below `extent_bytes`, which the allocation holds behind `start`: the newest
        // extent's, since `fresh` counts what is left of that one.
        (unsafe { start.add(at).cast::<u64>() }, free.is_blank)
    }

    /// The first boundary of a huge page in an extent.
    fn start(&self, extent: NonNull<u8>) -> NonNull<u8> {
        let skip = extent.align_offset(HUGE_BYTES);
        // SAFETY: an allocation is one huge page longer than `extent_bytes`, and `skip` is less than that; where
        // alignment cannot be computed (`usize::MAX`) nothing is skipped.
        unsafe { extent.add(if skip < HUGE_BYTES { skip } else { 0 }) }
    }

    fn give(&self, pages: impl IntoIterator<Item = NonNull<u64>>) {
        self.free.lock().pages.extend(pages);
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        let layout = self.layout();
        let free = self.free.get_mut();
        // Pages of another arena go back to it by themselves.
        let Extents::Own(extents) = &mut free.extents else { return };
        for extent in extents.drain(..) {
            // SAFETY: allocated with this layout in `take`. Every `Pages` holds the arena alive, so none is left.
            unsafe { extent::give(extent, layout) };
        }
    }
}

/// Extents come from the system itself: an allocator may hand on memory that was used before, and blanks all of it at once, while
/// whoever wants a page waits for a tenth of a second. The system blanks what is touched.
#[cfg(all(target_os = "linux", not(miri)))]
mod extent {
    use std::alloc::Layout;
    use std::ptr::{NonNull, null_mut};

    use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

    /// Takes blank memory.
    pub(super) fn take(layout: Layout) -> Option<NonNull<u8>> {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the system chooses the place, so no memory that is in use is mapped anew.
        let extent = unsafe { mmap_anonymous(null_mut(), layout.size(), access, MapFlags::PRIVATE) };
        NonNull::new(extent.ok()?.cast())
    }

    /// Gives memory back.
    ///
    /// # Safety
    /// The memory was taken with this layout, and nobody uses it any more.
    pub(super) unsafe fn give(extent: NonNull<u8>, layout: Layout) {
        // It can only fail for a range that was never mapped.
        // SAFETY: the range is that which was mapped, and the caller promises that nobody uses it.
        let _ = unsafe { munmap(extent.as_ptr().cast(), layout.size()) };
    }

    /// Asks for huge pages.
    pub(super) fn advise(start: NonNull<u8>, bytes: usize) {
        // Without huge pages it is only slower.
        // SAFETY: the range is allocated and nobody's yet; this advice does not change its contents.
        let _ = unsafe { madvise(start.as_ptr().cast(), bytes, Advice::LinuxHugepage) };
    }
}

/// Extents where the system's own calls are not known.
#[cfg(not(all(target_os = "linux", not(miri))))]
mod extent {
    use std::alloc::{Layout, alloc_zeroed, dealloc};
    use std::ptr::NonNull;

    /// Takes blank memory.
    pub(super) fn take(layout: Layout) -> Option<NonNull<u8>> {
        // SAFETY: the layout's size is not zero: an arena's is more than a huge page.
        NonNull::new(unsafe { alloc_zeroed(layout) })
    }

    /// Gives memory back.
    ///
    /// # Safety
    /// The memory was taken with this layout, and nobody uses it any more.
    pub(super) unsafe fn give(extent: NonNull<u8>, layout: Layout) {
        // SAFETY: the caller promises it.
        unsafe { dealloc(extent.as_ptr(), layout) };
    }

    /// Huge pages are not asked for.
    pub(super) fn advise(_: NonNull<u8>, _: usize) {}
}

/// Pages that belong together, numbered from 0.
pub(crate) struct ArenaPages {
    /// `None` where a page was given back.
    pages: Vec<Option<NonNull<u64>>>,
    given: usize,
    bits: u32,
    arena: Arc<Arena>,
}

// SAFETY: it owns its pages, as a vector of boxes does.
unsafe impl Send for ArenaPages {}
// SAFETY: as above: through a shared reference pages can only be read.
unsafe impl Sync for ArenaPages {}

impl ArenaPages {
    pub(crate) fn new(arena: Arc<Arena>) -> ArenaPages {
        ArenaPages { pages: Vec::new(), given: 0, bits: arena.page_bits, arena }
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
        (self.pages.len() - self.given) << self.bits << 3
    }

    /// Adds a page that may hold anything; answers whether it is blank.
    pub(crate) fn push(&mut self) -> bool {
        let (page, is_blank) = self.arena.take();
        self.pages.push(Some(page));
        is_blank
    }

    /// Returns the page that was added last. There is one, and it was not given back.
    fn newest(&self) -> NonNull<u64> {
        self.pages.last().copied().flatten().expect("the newest page is there")
    }

    /// Gives a page back. Its number stays, and stands for no page until [`ArenaPages::retake`].
    ///
    /// # Panics
    /// If it was given back before.
    pub(crate) fn give(&mut self, number: usize) {
        let page = self.pages[number].take().expect("a page is given back once");
        self.given += 1;
        self.arena.give([page]);
    }

    /// Takes a page that may hold anything under the number of one that was given back.
    ///
    /// # Panics
    /// If that one was not given back.
    pub(crate) fn retake(&mut self, number: usize) {
        assert!(self.pages[number].is_none(), "a page is taken again after it was given back");
        self.given -= 1;
        self.pages[number] = Some(self.arena.take().0);
    }

    /// Adds a page of zeros.
    pub(crate) fn push_blank(&mut self) {
        if !self.push() {
            self.page_mut(self.pages.len() - 1).fill(0);
        }
    }

    /// Returns the words of a page.
    ///
    /// # Panics
    /// If it was given back: no cell is there, so that nobody has its number.
    #[inline(always)]
    pub(crate) fn page(&self, number: usize) -> &[u64] {
        let page = self.pages[number].expect(GIVEN_BACK);
        // SAFETY: the page is ours alone, initialised since its extent was allocated with zeros, and lives as long as
        // the arena we hold; it is borrowed as we are.
        unsafe { std::slice::from_raw_parts(page.as_ptr(), 1 << self.bits) }
    }

    /// Returns the words of a page, to be written.
    ///
    /// # Panics
    /// As [`ArenaPages::page`].
    #[inline(always)]
    pub(crate) fn page_mut(&mut self, number: usize) -> &mut [u64] {
        let page = self.pages[number].expect(GIVEN_BACK);
        // SAFETY: as in `page`; it is borrowed for writing as we are.
        unsafe { std::slice::from_raw_parts_mut(page.as_ptr(), 1 << self.bits) }
    }

    /// Memory of the list of pages.
    pub(crate) fn list_bytes(&self) -> usize {
        self.pages.capacity() * size_of::<NonNull<u64>>()
    }
}

impl Drop for ArenaPages {
    fn drop(&mut self) {
        self.arena.give(self.pages.drain(..).flatten());
    }
}

/// Asks the processor to fetch the line of a word that will be needed soon.
#[inline(always)]
pub(crate) fn prefetch(word: &u64) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
        // Into the second cache: what is asked for at once is more than the first one holds, and has fewer places to wait in.
        // SAFETY: a hint; the address is that of a reference.
        unsafe { _mm_prefetch::<_MM_HINT_T1>(std::ptr::from_ref(word).cast()) };
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = word;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_apart_and_come_back_blank() {
        let arena = Arena::new(0, 6);
        let (mut a, mut b) = (ArenaPages::new(arena.clone()), ArenaPages::new(arena.clone()));
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
    fn new_extents_are_blank_where_others_were_before() {
        for _ in 0..4 {
            let mut pages = ArenaPages::new(Arena::new(0, 18));
            // Two extents of one page each, in whole.
            for number in 0..2 {
                pages.push_blank();
                assert!(pages.page(number).iter().all(|word| *word == 0));
                pages.page_mut(number).fill(u64::MAX);
            }
            assert_eq!(pages.arena().taken_bytes(), 2 * HUGE_BYTES);
        }
    }

    #[test]
    fn a_page_that_was_given_back_is_somebody_elses() {
        let arena = Arena::new(0, 6);
        let mut pages = ArenaPages::new(arena.clone());
        (0..3).for_each(|_| pages.push_blank());
        pages.page_mut(1).fill(7);
        pages.give(1);
        assert_eq!(pages.bytes(), 2 * 512);
        assert_eq!(arena.returned_bytes(), 512);
        let mut other = ArenaPages::new(arena.clone());
        other.push();
        other.page_mut(0).fill(8);
        pages.retake(1);
        pages.page_mut(1).fill(9);
        assert!((pages.bytes(), other.page(0)[0], pages.page(1)[5]) == (3 * 512, 8, 9));
        assert_eq!(arena.taken_bytes(), HUGE_BYTES);
    }

    #[test]
    fn pages_that_are_not_there_are_not_touched() {
        fn is_refused(touch: fn(&mut ArenaPages)) -> bool {
            let mut pages = ArenaPages::new(Arena::new(0, 6));
            (0..2).for_each(|_| pages.push_blank());
            pages.give(1);
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| touch(&mut pages))).is_err()
        }
        assert!(!is_refused(|pages| pages.page_mut(0)[63] = pages.page(0)[0]));
        assert!(is_refused(|pages| assert!(pages.page(1).is_empty())));
        assert!(is_refused(|pages| assert!(pages.page_mut(1).is_empty())));
        assert!(is_refused(|pages| pages.give(1)));
        assert!(is_refused(|pages| pages.retake(0)));
    }

    #[test]
    fn an_arena_lives_as_long_as_its_pages() {
        let mut pages = ArenaPages::new(Arena::new(8 << 30, 13));
        pages.push_blank();
        pages.page_mut(0)[8191] = 7;
        let other = std::thread::spawn(move || pages.page(0)[8191]);
        assert_eq!(other.join().unwrap(), 7);
    }

    #[test]
    fn more_than_one_extent() {
        let arena = Arena::new(0, 6);
        let mut pages = ArenaPages::new(arena.clone());
        let count = 2 * HUGE_BYTES / 512 + 1;
        (0..count).for_each(|_| pages.push_blank());
        (0..count).for_each(|number| pages.page_mut(number).fill(number as u64));
        assert!((0..count).all(|number| pages.page(number)[0] == number as u64));
        let free = arena.free.lock();
        assert!(matches!(&free.extents, Extents::Own(extents) if extents.len() == 3));
    }

    #[test]
    fn an_arena_within_another() {
        let outer = Arena::new(0, 8);
        let inner = Arena::cut(&outer, 6);
        let mut pages = ArenaPages::new(inner.clone());
        (0..6).for_each(|_| pages.push_blank());
        (0..6).for_each(|number| pages.page_mut(number).fill(number as u64 + 1));
        let mut beside = ArenaPages::new(outer.clone());
        beside.push_blank();
        beside.page_mut(0).fill(9);
        assert!((0..6).all(|number| pages.page(number).iter().all(|word| *word == number as u64 + 1)));
        assert_eq!(inner.spare_bytes(), 2 * 512);
        drop(pages);
        assert_eq!(inner.spare_bytes(), 8 * 512);
        let mut again = ArenaPages::new(inner);
        (0..8).for_each(|_| again.push_blank());
        assert!((0..8).all(|number| again.page(number).iter().all(|word| *word == 0)));
        drop(again);
        // The inner arena is gone, and its two pages are free again.
        assert_eq!(outer.spare_bytes(), HUGE_BYTES - 2048);
    }
}
