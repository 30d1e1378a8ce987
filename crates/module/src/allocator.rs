//! The server's allocator, once there is a server; the system's in a program without one, such as a test.

use std::alloc::{GlobalAlloc, Layout, System};

use crate::api;

/// Alignment that the server's allocator gives without being asked.
const ALIGNED: usize = 8;

pub(crate) struct ServerAllocator;

/// Returns as many bytes as are aligned to any power of two that divides them, as allocators divide memory into classes.
fn size(layout: &Layout) -> usize {
    if layout.align() <= ALIGNED { layout.size() } else { layout.size().next_multiple_of(layout.align()) }
}

// SAFETY: all calls go to one allocator: the server's functions are known before the first allocation of a module, and never
// in a program that loads none. Alignments above 16 bytes are refused, as no allocator here promises more.
unsafe impl GlobalAlloc for ServerAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        match api::memory() {
            // SAFETY: the function is the server's, and takes any size.
            Some(_) if layout.align() > 16 => std::ptr::null_mut(),
            // SAFETY: as above.
            Some(memory) => unsafe { (memory.alloc)(size(&layout)).cast() },
            // SAFETY: the caller's promises are those that the system's allocator asks for.
            None => unsafe { System.alloc(layout) },
        }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        match api::memory() {
            // SAFETY: the pointer came from the server's allocator, see above.
            Some(memory) => unsafe { (memory.free)(pointer.cast()) },
            // SAFETY: the pointer came from the system's allocator, see above.
            None => unsafe { System.dealloc(pointer, layout) },
        }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, new: usize) -> *mut u8 {
        match api::memory() {
            Some(memory) => {
                let wanted = Layout::from_size_align(new, layout.align()).map_or(new, |layout| size(&layout));
                // SAFETY: the pointer came from the server's allocator, see above.
                unsafe { (memory.realloc)(pointer.cast(), wanted).cast() }
            }
            // SAFETY: the pointer came from the system's allocator, see above.
            None => unsafe { System.realloc(pointer, layout, new) },
        }
    }
}
