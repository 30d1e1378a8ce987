//! Columns of groups in memory, for searches that come to the same groups again.
//!
//! A search gets a copy of what was read of a group, which shares its content, and hands in what it has read itself: several may be
//! at one group at once. A group is known by the index of its file in memory: another content has another index.

use std::collections::{BTreeMap, HashMap};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use parking_lot::Mutex;

use super::ColumnsIndex;
use super::read_columns::ReadColumns;

/// Bytes that are kept, about. The groups that were used longest ago make room.
const BYTES_MAX: usize = 128 << 20;
/// Bytes of a group that is kept at most, so that a few large ones do not take the place of all others.
const GROUP_BYTES_MAX: usize = BYTES_MAX / 16;

/// The columns of groups that were read before.
#[derive(Debug, Default)]
pub(crate) struct GroupCache(Mutex<KnownGroups>);

#[derive(Debug, Default)]
struct KnownGroups {
    of: HashMap<GroupName, KnownGroup>,
    /// The groups by their last use.
    by_use: BTreeMap<u64, GroupName>,
    bytes: usize,
    uses: u64,
    /// The number of times that all was forgotten.
    times_forgotten: u64,
}

/// A group by the index of its file. Two are the same if their index is one in memory.
#[derive(Clone, Debug)]
struct GroupName {
    index: Arc<ColumnsIndex>,
    number: usize,
}

impl PartialEq for GroupName {
    fn eq(&self, other: &GroupName) -> bool {
        Arc::ptr_eq(&self.index, &other.index) && self.number == other.number
    }
}

impl Eq for GroupName {}

impl Hash for GroupName {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (Arc::as_ptr(&self.index), self.number).hash(state);
    }
}

#[derive(Debug)]
struct KnownGroup {
    read: ReadColumns,
    bytes: usize,
    used: u64,
}

impl GroupCache {
    /// Returns how often all was forgotten. Whoever opens a file asks before: [`GroupCache::hand_in`] wants to know.
    pub(crate) fn times_forgotten(&self) -> u64 {
        self.0.lock().times_forgotten
    }

    /// Returns the columns that were read of a group.
    pub(super) fn get(&self, index: &Arc<ColumnsIndex>, number: usize) -> ReadColumns {
        let known = self.0.lock();
        let known = known.of.get(&GroupName { index: Arc::clone(index), number });
        known.map(|group| group.read.clone()).unwrap_or_default()
    }

    /// Keeps the columns that were read of a group, unless all was forgotten since its file was opened: its rows may be gone from
    /// the file that has the name now.
    pub(super) fn hand_in(
        &self,
        (index, number): (&Arc<ColumnsIndex>, usize),
        mut read: ReadColumns,
        opened: u64,
    ) {
        let mut bytes = read.bytes();
        let mut known = self.0.lock();
        if known.times_forgotten != opened {
            return;
        }
        let name = GroupName { index: Arc::clone(index), number };
        if let Some(before) = known.remove(&name) {
            // What somebody else has read meanwhile.
            if before.bytes != bytes {
                read.add(before.read);
                bytes = read.bytes();
            }
        }
        if bytes == 0 || bytes > GROUP_BYTES_MAX {
            return;
        }
        read.rest();
        known.uses += 1;
        let used = known.uses;
        known.bytes += bytes;
        known.by_use.insert(used, name.clone());
        known.of.insert(name, KnownGroup { read, bytes, used });
        while known.bytes > BYTES_MAX {
            let Some((_, oldest)) = known.by_use.pop_first() else { break };
            known.remove(&oldest);
        }
    }

    /// Forgets all, also what is being looked at: rows are gone from their files.
    pub(crate) fn forget(&self) {
        let mut known = self.0.lock();
        let times_forgotten = known.times_forgotten + 1;
        *known = KnownGroups { times_forgotten, ..KnownGroups::default() };
    }
}

impl KnownGroups {
    fn remove(&mut self, name: &GroupName) -> Option<KnownGroup> {
        let removed = self.of.remove(name)?;
        self.by_use.remove(&removed.used);
        self.bytes -= removed.bytes;
        Some(removed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: usize) -> ReadColumns {
        ReadColumns::of_stored(7, vec![7; bytes])
    }

    fn held(cache: &GroupCache) -> (usize, usize, usize) {
        let known = cache.0.lock();
        (known.of.len(), known.by_use.len(), known.bytes)
    }

    #[test]
    fn groups_used_longest_ago_make_room() {
        let (cache, index) = (GroupCache::default(), Arc::new(ColumnsIndex::default()));
        let give = |number| cache.hand_in((&index, number), read(GROUP_BYTES_MAX), 0);
        let all = BYTES_MAX / GROUP_BYTES_MAX;
        (0..all).for_each(give);
        assert_eq!(held(&cache), (all, all, BYTES_MAX));
        // The first is used again, so that the second is the oldest.
        let first = cache.get(&index, 0);
        assert_eq!((first.bytes(), held(&cache).0), (GROUP_BYTES_MAX, all));
        cache.hand_in((&index, 0), first, 0);
        give(all);
        let sizes = || [0, 1, 2].map(|number| cache.get(&index, number).bytes());
        assert_eq!(sizes(), [GROUP_BYTES_MAX, 0, GROUP_BYTES_MAX]);
        // One that is too large is not kept, and nothing of one that was not read.
        cache.hand_in((&index, 0), read(GROUP_BYTES_MAX + 1), 0);
        cache.hand_in((&index, 1), ReadColumns::default(), 0);
        assert_eq!(sizes(), [0, 0, GROUP_BYTES_MAX]);
        assert_eq!(held(&cache), (all - 1, all - 1, BYTES_MAX - GROUP_BYTES_MAX));
    }

    #[test]
    fn what_several_have_read_is_kept_together() {
        let (cache, index) = (GroupCache::default(), Arc::new(ColumnsIndex::default()));
        let stored = |column, bytes| ReadColumns::of_stored(column, vec![7; bytes]);
        cache.hand_in((&index, 0), stored(1, 100), 0);
        let [mut one, mut other] = [(); 2].map(|()| cache.get(&index, 0));
        one.add(stored(2, 20));
        other.add(stored(3, 3));
        [one, other].into_iter().for_each(|read| cache.hand_in((&index, 0), read, 0));
        assert_eq!((cache.get(&index, 0).bytes(), held(&cache)), (123, (1, 1, 123)));
    }

    #[test]
    fn groups_are_of_one_index() {
        let cache = GroupCache::default();
        let [one, other] = [(); 2].map(|()| Arc::new(ColumnsIndex::default()));
        cache.hand_in((&one, 3), read(10), 0);
        assert_eq!(cache.get(&other, 3).bytes(), 0);
        assert_eq!(cache.get(&one, 4).bytes(), 0);
        assert_eq!(cache.get(&one, 3).bytes(), 10);
        assert_eq!(held(&cache), (1, 1, 10));
    }

    #[test]
    fn nothing_comes_back_after_all_was_forgotten() {
        let (cache, index) = (GroupCache::default(), Arc::new(ColumnsIndex::default()));
        let opened = cache.times_forgotten();
        cache.hand_in((&index, 0), read(10), opened);
        cache.hand_in((&index, 1), read(10), opened);
        let copy = cache.get(&index, 0);
        cache.forget();
        assert_eq!(held(&cache), (0, 0, 0));
        // Also what is read only now, of a file that was opened before.
        assert_eq!(cache.get(&index, 1).bytes(), 0);
        for read in [copy, read(10)] {
            cache.hand_in((&index, 0), read, opened);
            assert_eq!(held(&cache), (0, 0, 0));
        }
        cache.hand_in((&index, 0), read(10), cache.times_forgotten());
        assert_eq!(held(&cache), (1, 1, 10));
    }
}
