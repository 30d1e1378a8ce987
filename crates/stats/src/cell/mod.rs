//! The parts of which cells are packed, whatever their statistic: where words live, the head with the times, numbers of
//! few bytes, fast division.

pub(crate) mod divisor;
pub(crate) mod head;
pub(crate) mod lanes;

/// The buffer of a cell's words, which can grow or shrink.
pub trait CellBuffer {
    /// The words.
    fn words(&self) -> &[u64];
    /// Returns the words, to be changed.
    fn words_mut(&mut self) -> &mut [u64];
    /// Makes room for so many words or a few more. What fits keeps its content, new words are zero.
    fn resize(&mut self, words: usize);
}

impl CellBuffer for Vec<u64> {
    fn words(&self) -> &[u64] {
        self
    }

    fn words_mut(&mut self) -> &mut [u64] {
        self
    }

    fn resize(&mut self, words: usize) {
        Vec::resize(self, words, 0);
    }
}

/// Makes room, if there is not enough.
#[inline]
pub(crate) fn ensure(room: &mut impl CellBuffer, words: usize) {
    if room.words().len() < words {
        room.resize(words);
    }
}

/// Gives room back, if most of it is free. What is free is zero.
pub(crate) fn fit_down(room: &mut impl CellBuffer, words: usize) {
    if 2 * words <= room.words().len() {
        room.resize(words);
    }
}
