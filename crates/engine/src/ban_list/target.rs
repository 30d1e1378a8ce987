//! The subjects of bans, by which values in different forms are found to be the same.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use content::network::without_full_length;
use smallvec::SmallVec;

use super::address_range::AddressRange;

/// The subject of a ban: the addresses that a value is of, or a text.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum BanTarget {
    Addresses(AddressRange),
    Text(Arc<str>),
}

impl BanTarget {
    pub(super) fn of(value: &str) -> BanTarget {
        match AddressRange::parse(value.trim()) {
            Some(range) => BanTarget::Addresses(range),
            None => BanTarget::Text(Arc::from(value)),
        }
    }
}

/// Parts of an index: with millions of targets one of them grows within a millisecond or two, while others wait for the list.
const PARTS: usize = 256;

/// The numbers of bans by their targets.
#[derive(Debug)]
pub(super) struct TargetIndex {
    parts: Box<[HashMap<BanTarget, SmallVec<[u64; 1]>>]>,
    hasher: RandomState,
}

impl Default for TargetIndex {
    fn default() -> TargetIndex {
        TargetIndex { parts: (0..PARTS).map(|_| HashMap::new()).collect(), hasher: RandomState::new() }
    }
}

impl TargetIndex {
    fn part(&self, target: &BanTarget) -> usize {
        self.hasher.hash_one(target) as usize % PARTS
    }

    /// Returns the numbers of the bans on a target, ascending.
    pub(super) fn numbers(&self, target: &BanTarget) -> &[u64] {
        self.parts[self.part(target)].get(target).map_or(&[], SmallVec::as_slice)
    }

    /// Adds a number, which is greater than those before.
    pub(super) fn add(&mut self, target: BanTarget, number: u64) {
        let part = self.part(&target);
        self.parts[part].entry(target).or_default().push(number);
    }

    pub(super) fn remove(&mut self, target: &BanTarget, number: u64) {
        let part = self.part(target);
        let Some(numbers) = self.parts[part].get_mut(target) else { return };
        numbers.retain(|known| *known != number);
        if numbers.is_empty() {
            self.parts[part].remove(target);
        }
    }
}

/// Returns a value as the list has it. Other forms of addresses stay: statistics know the key by the hash of its piece.
pub(super) fn listed(value: &str) -> Arc<str> {
    Arc::from(&*without_full_length(value))
}
