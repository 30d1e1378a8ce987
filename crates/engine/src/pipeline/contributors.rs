//! The latest values of distinct counts in clear text: those that have contributed, when rules find that there are too many.
//!
//! The ledger keeps hashes of owners and values, and nobody can be banned by a hash. So where a `[[distinct]]` says `keep`, a
//! node remembers the latest values that it counted for each owner: in memory and until it ends, its own events alone.
//!
//! Values are at most [`VALUE_BYTES_MAX`] long, and all of them together [`BYTES_MAX`]: beyond it the owner that came first is
//! forgotten.

use std::collections::{HashMap, VecDeque};

use event::{Key, TableIndex, Time};
use parking_lot::Mutex;

use super::keys::PreparedEvent;
use plan::DistinctPlan;

/// Most bytes of all values, with what lies around them.
const BYTES_MAX: usize = 16 << 20;
/// Longest value that is remembered.
const VALUE_BYTES_MAX: usize = 256;
/// The bytes that a value takes beside its text, and an owner beside its values.
const OVERHEAD: usize = 64;

/// The latest values of each owner.
#[derive(Debug, Default)]
pub(crate) struct ContributorLists(Mutex<ContributorTable>);

#[derive(Debug, Default)]
struct ContributorTable {
    owners: HashMap<Key, VecDeque<(Box<str>, Time)>>,
    /// The owners in the order in which they came.
    order: VecDeque<Key>,
    bytes: usize,
}

impl ContributorLists {
    /// Notes the values of an event.
    pub(crate) fn note(&self, event: &PreparedEvent) {
        let row = &event.row;
        for (index, plan) in row.pipeline.distincts.entries().filter(|(_, plan)| plan.keep > 0) {
            let owners = owners(event, index);
            if owners.is_empty() {
                continue;
            }
            let mut values: Vec<Box<str>> = Vec::new();
            plan.of.pieces(&row.facts, &mut |piece| {
                if piece.len() <= VALUE_BYTES_MAX {
                    values.push(piece.into());
                }
            });
            let mut table = self.0.lock();
            for owner in owners {
                table.note(owner, &values, row.arrival, plan.keep);
            }
        }
    }

    /// Returns the latest values of a distinct count of an event, of as long before its arrival as the count is kept.
    pub(crate) fn of_event(
        &self,
        event: &PreparedEvent,
        distinct: TableIndex<DistinctPlan>,
    ) -> Vec<Box<str>> {
        let since = event.row.arrival - event.row.pipeline.distincts[distinct].tier.span();
        let table = self.0.lock();
        let lists = owners(event, distinct).into_iter().filter_map(|owner| table.owners.get(&owner));
        lists.flatten().filter(|(_, at)| *at > since).map(|(value, _)| value.clone()).collect()
    }

    /// Forgets all of them.
    pub(crate) fn clear(&self) {
        *self.0.lock() = ContributorTable::default();
    }
}

impl ContributorTable {
    fn note(&mut self, owner: Key, values: &[Box<str>], arrival: Time, keep: usize) {
        let ContributorTable { owners, order, bytes } = self;
        let list = owners.entry(owner).or_insert_with(|| {
            order.push_back(owner);
            *bytes += OVERHEAD;
            VecDeque::new()
        });
        for value in values {
            match list.iter().position(|(known, _)| known == value) {
                Some(at) => drop(list.remove(at)),
                None => *bytes += OVERHEAD + value.len(),
            }
            list.push_back((value.clone(), arrival));
            while list.len() > keep
                && let Some((gone, _)) = list.pop_front()
            {
                *bytes = bytes.saturating_sub(OVERHEAD + gone.len());
            }
        }
        while *bytes > BYTES_MAX
            && let Some(first) = order.pop_front()
        {
            let values = owners.remove(&first).unwrap_or_default();
            let freed = values.iter().map(|(value, _)| OVERHEAD + value.len()).sum::<usize>();
            *bytes = bytes.saturating_sub(OVERHEAD + freed);
        }
    }
}

/// The owners of a distinct count in an event, each once.
fn owners(event: &PreparedEvent, distinct: TableIndex<DistinctPlan>) -> Vec<Key> {
    let mut owners: Vec<Key> =
        event.pairs[event.of_distinct(distinct)].iter().map(|pair| pair.owner).collect();
    owners.dedup();
    owners
}

#[cfg(test)]
mod tests {
    use event::{Kind, Shingle, Space};

    use super::*;

    fn key(number: u64) -> Key {
        Key { space: Space(1), kind: Kind(1), shingle: Shingle(number) }
    }

    fn values(table: &ContributorTable, owner: u64) -> Vec<&str> {
        table.owners.get(&key(owner)).into_iter().flatten().map(|(value, _)| &**value).collect()
    }

    #[test]
    fn the_latest_are_kept_each_once() {
        let mut table = ContributorTable::default();
        let note = |table: &mut ContributorTable, owner, of: &[&str]| {
            let of: Vec<Box<str>> = of.iter().map(|value| (*value).into()).collect();
            table.note(key(owner), &of, Time(1), 3);
        };
        note(&mut table, 1, &["a", "b", "c"]);
        note(&mut table, 2, &["a"]);
        note(&mut table, 1, &["a", "d"]);
        assert_eq!((values(&table, 1), values(&table, 2)), (vec!["c", "a", "d"], vec!["a"]));
        assert_eq!(table.bytes, 6 * OVERHEAD + 4);
    }

    #[test]
    fn memory_is_bounded_whoever_floods_it() {
        let mut table = ContributorTable::default();
        let value: Box<str> = "x".repeat(VALUE_BYTES_MAX).into();
        for owner in 0..100_000 {
            table.note(key(owner), std::slice::from_ref(&value), Time(1), 64);
        }
        assert!(table.bytes <= BYTES_MAX && table.owners.len() == table.order.len());
        assert!(values(&table, 0).is_empty() && !values(&table, 99_999).is_empty());
        let sizes = table.owners.values().flatten().map(|(value, _)| OVERHEAD + value.len()).sum::<usize>();
        assert_eq!(table.bytes, sizes + OVERHEAD * table.owners.len());
    }
}
