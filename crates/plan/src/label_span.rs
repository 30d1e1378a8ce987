//! The time for which labels hold.

use event::{Shingle, Span, Time};

/// The time for which a label holds that is put on a key: one, or one of several, of which nobody can tell which.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LabelSpan {
    /// The least.
    pub least: Span,
    /// The greatest.
    pub most: Span,
}

impl LabelSpan {
    /// Returns the time for a key that the label is put on at a time: the same one for both, as what is taken back later
    /// must be what was put. Between the two it is drawn in steps of a second, by the key's hash, which is nobody's to know.
    pub fn of(self, key: Shingle, arrival: Time) -> Span {
        let steps = u64::try_from((self.most.0 - self.least.0) / 1_000_000).unwrap_or(0);
        let drawn = mixed(key.0 ^ mixed(arrival.0.cast_unsigned())) % (steps + 1);
        Span(self.least.0 + i64::try_from(drawn).unwrap_or(0) * 1_000_000)
    }
}

/// The bits of a word, spread over all of it (the last steps of SplitMix64).
fn mixed(word: u64) -> u64 {
    let word = word.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}
