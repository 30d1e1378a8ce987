//! Work that ends when nobody waits for its result any more.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A sign that the result of some work is not wanted any more: its caller has gone, or its time is over.
#[derive(Clone, Debug, Default)]
pub(crate) struct Abort(Arc<AtomicBool>);

impl Abort {
    /// Whether to end now.
    pub(crate) fn is_wanted(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// A guard that gives the sign when it is dropped, which is when its owner stops waiting.
    pub(crate) fn when_dropped(&self) -> AbortOnDrop {
        AbortOnDrop(self.clone())
    }
}

/// The guard of a caller that waits.
#[derive(Debug)]
pub(crate) struct AbortOnDrop(Abort);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.0.store(true, Ordering::Relaxed);
    }
}
