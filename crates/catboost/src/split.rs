//! Bins of features, and the tests that trees make of them.

/// Thresholds that share one column of bins. One value of the byte says "beneath all", and one stays free, as in
/// CatBoost.
pub(crate) const PER_COLUMN: usize = 254;

/// A test of a row: `bin ^ flip >= at`.
///
/// With no bits flipped that is "above a border". With those flipped that make the wanted bin 255, and 255 as the
/// least, it is "equal to". So there is one form for all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BinSplit {
    pub(crate) column: u16,
    pub(crate) flip: u8,
    pub(crate) at: u8,
}

impl BinSplit {
    pub(crate) fn passes(self, bin: u8) -> bool {
        bin ^ self.flip >= self.at
    }
}
