//! The allocator, and what it is told.

use std::ffi::c_long;

use libmimalloc_sys::{mi_option_set_default, mi_option_t};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The number of `purge_delay` among mimalloc's options, by which its binding does not name it.
const PURGE_DELAY: mi_option_t = 15;
/// Milliseconds after which memory that nothing uses is given back to the system. After mimalloc's own second a busy
/// server asks again for what it has just given back, and the system has to clear every page of it: a twentieth of what
/// a logged decision takes. After ten, what a peak has left is still given back.
const DELAY: c_long = 10_000;

/// Sets how long memory that nothing uses is kept. The environment's `MIMALLOC_PURGE_DELAY` goes before it. To be called
/// while there is one thread.
pub(crate) fn keep() {
    // SAFETY: it stores a number in a table of the allocator's, which no other thread reads meanwhile, as there is none.
    unsafe { mi_option_set_default(PURGE_DELAY, DELAY) };
}

#[cfg(test)]
mod tests {
    use super::*;

    /// No other option of mimalloc's is a thousand by default.
    #[test]
    fn the_option_is_the_one_that_is_meant() {
        // SAFETY: it reads a number, which is changed by this test alone.
        let get = || unsafe { libmimalloc_sys::mi_option_get(PURGE_DELAY) };
        assert_eq!(get(), 1000);
        keep();
        assert_eq!(get(), DELAY);
    }
}
