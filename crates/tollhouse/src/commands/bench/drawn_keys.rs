//! Keys of the events that are measured.

/// Keys of an event.
pub(super) const KEYS: usize = 12;
/// Columns whose keys are texts, and one of addresses; the others are integers.
pub(super) const TEXTS: [usize; 2] = [1, 2];
pub(super) const ADDRESS: usize = 0;
