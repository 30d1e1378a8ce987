//! [`CellMap`]: values by cell, each at a place of its own.
//!
//! An index by hash says where a cell lies, and none moves. So who has found a cell once comes back to its place without the
//! index: what a call looks at it looks at several times, and each look at an index of millions waits for memory.
//!
//! Places lie in blocks, so that nobody waits until millions of them were copied into a larger list.

use std::hash::BuildHasher;

use hashbrown::{DefaultHashBuilder, HashTable};

use crate::cell::CellId;

/// The hint of who does not know where a cell was: none lies there.
pub(crate) const NO_HINT: usize = u32::MAX as usize;

/// The places of a block.
const BLOCK: usize = 256;

/// A cell with its value; none at a free place.
type Slot<T> = Option<(CellId, T)>;

/// Values by cell.
pub(crate) struct CellMap<T> {
    index: HashTable<u32>,
    /// All but the last are full.
    blocks: Vec<Vec<Slot<T>>>,
    free: Vec<u32>,
    hasher: DefaultHashBuilder,
}

impl<T> Default for CellMap<T> {
    fn default() -> CellMap<T> {
        CellMap {
            index: HashTable::new(),
            blocks: Vec::new(),
            free: Vec::new(),
            hasher: DefaultHashBuilder::default(),
        }
    }
}

impl<T> CellMap<T> {
    /// The bytes of a value with its place in the index, about.
    pub(crate) const BYTES: usize = size_of::<Slot<T>>() + (size_of::<u32>() + 1) * 8 / 7;

    /// The number of cells.
    pub(crate) fn len(&self) -> usize {
        self.index.len()
    }

    /// The number of places, some of which are free.
    pub(crate) fn places(&self) -> usize {
        self.blocks.last().map_or(0, |last| (self.blocks.len() - 1) * BLOCK + last.len())
    }

    /// Returns where a cell lies, looking first where it was.
    pub(crate) fn place(&self, id: CellId, hint: usize) -> Option<usize> {
        let is_at = |place: usize| self.at(place).is_some_and(|(there, _)| *there == id);
        if is_at(hint) {
            return Some(hint);
        }
        let found = self.index.find(self.hasher.hash_one(id.mixed()), |place| is_at(*place as usize));
        found.map(|place| *place as usize)
    }

    /// Returns where a cell lies, and its value, which is put somewhere if it is not there.
    pub(crate) fn entry(&mut self, id: CellId, hint: usize, value: impl FnOnce() -> T) -> (usize, &mut T) {
        let place = self.place(id, hint).unwrap_or_else(|| {
            let place = self.free.pop().map_or_else(|| self.push(), |place| place as usize);
            let CellMap { index, blocks, hasher, .. } = self;
            blocks[place / BLOCK][place % BLOCK] = Some((id, value()));
            let hash = |place: &u32| {
                let there = blocks[*place as usize / BLOCK][*place as usize % BLOCK].as_ref();
                hasher.hash_one(there.map_or(0, |(id, _)| id.mixed()))
            };
            index.insert_unique(hasher.hash_one(id.mixed()), place as u32, hash);
            place
        });
        let (_, found) =
            self.blocks[place / BLOCK][place % BLOCK].as_mut().expect("it was found or put there");
        (place, found)
    }

    /// Adds a place, which is free.
    fn push(&mut self) -> usize {
        let place = self.places();
        if place.is_multiple_of(BLOCK) {
            self.blocks.push(Vec::with_capacity(BLOCK));
        }
        self.blocks[place / BLOCK].push(None);
        place
    }

    pub(crate) fn get(&self, id: CellId) -> Option<&T> {
        self.at(self.place(id, NO_HINT)?).map(|(_, value)| value)
    }

    /// The cell and the value at a place; `None` if it is free.
    pub(crate) fn at(&self, place: usize) -> Option<&(CellId, T)> {
        self.blocks.get(place / BLOCK)?.get(place % BLOCK)?.as_ref()
    }

    fn slot_mut(&mut self, place: usize) -> Option<&mut Slot<T>> {
        self.blocks.get_mut(place / BLOCK)?.get_mut(place % BLOCK)
    }

    pub(crate) fn at_mut(&mut self, place: usize) -> Option<&mut T> {
        self.slot_mut(place)?.as_mut().map(|(_, value)| value)
    }

    /// Removes what is at a place.
    pub(crate) fn remove(&mut self, place: usize) {
        let Some((id, _)) = self.slot_mut(place).and_then(Option::take) else { return };
        let hash = self.hasher.hash_one(id.mixed());
        if let Ok(found) = self.index.find_entry(hash, |at| *at as usize == place) {
            found.remove();
            self.free.push(place as u32);
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&CellId, &T)> {
        self.blocks.iter().flatten().flatten().map(|(id, value)| (id, value))
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (&CellId, &mut T)> {
        self.blocks.iter_mut().flatten().flatten().map(|(id, value)| (&*id, value))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use stats::random::Random;

    use super::*;

    #[test]
    fn cells_stay_where_they_are() {
        // Few cells in one block, and many in several.
        for (seed, cells) in (0..50).map(|seed| (seed, 40)).chain((50..60).map(|seed| (seed, 400))) {
            let mut random = Random::new(seed);
            let (mut map, mut model) = (CellMap::default(), BTreeMap::new());
            for step in 0..10 * cells {
                // Some differ in nothing that the index looks at.
                let kind = random.below(3) as u16;
                let id = CellId { space: 0, kind, shingle: 0 };
                let id = CellId { shingle: id.mixed() ^ random.below(cells), ..id };
                let hint = random.below(3 * cells / 2) as usize;
                if random.one_in(3)
                    && let Some(at) = map.place(id, hint)
                {
                    map.remove(at);
                    model.remove(&id);
                } else {
                    let (at, _) = map.entry(id, hint, || step);
                    let (place, _) = *model.entry(id).or_insert((at, step));
                    assert_eq!((at, map.at(at).map(|(there, _)| *there)), (place, Some(id)));
                }
                assert_eq!(map.get(id), model.get(&id).map(|(_, step)| step), "seed {seed}");
                assert_eq!(map.len(), model.len(), "seed {seed}");
                assert!(map.places() as u64 <= 3 * cells, "free places are used again");
            }
            let model: BTreeMap<CellId, u64> = model.into_iter().map(|(id, (_, step))| (id, step)).collect();
            let list: BTreeMap<CellId, u64> = map.iter().map(|(id, value)| (*id, *value)).collect();
            assert_eq!(list, model, "seed {seed}");
        }
    }
}
