//! [`CellId`]: the cells of keys, as maps of a node have them.

use event::{Key, Kind, Shingle, Space};

use crate::remote::RemoteCell;

/// A key as it is looked up, with [`RemoteCell::PAIR`] in the kind of pairs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct CellId {
    pub(crate) space: u16,
    pub(crate) kind: u16,
    pub(crate) shingle: u64,
}

impl CellId {
    pub(crate) fn of(key: Key) -> CellId {
        CellId { space: key.space.0, kind: key.kind.0, shingle: key.shingle.0 }
    }

    pub(crate) fn pair(key: Key, pair: Shingle) -> CellId {
        CellId { kind: key.kind.0 | RemoteCell::PAIR, shingle: pair.0, ..CellId::of(key) }
    }

    pub(crate) fn key(self) -> Key {
        Key { space: Space(self.space), kind: Kind(self.kind), shingle: Shingle(self.shingle) }
    }

    /// A hash of all of it, for sketches.
    pub(crate) fn mixed(self) -> u64 {
        let kind = u64::from(self.space) << 16 | u64::from(self.kind);
        self.shingle ^ kind.wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }
}

/// A cell that is to be read, and where its entry was.
#[derive(Clone, Copy)]
pub(crate) struct PlannedCell {
    pub(crate) id: CellId,
    pub(crate) form: u32,
    pub(crate) hint: u32,
}
