//! The subjects of bans, by which values in different forms are found to be the same.

use std::sync::Arc;

use content::network::without_full_length;

use super::address_range::AddressRange;

/// The subject of a ban: the addresses that a value is of, or a text.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
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

/// Returns a value as the list has it. Other forms of addresses stay: statistics know the key by the hash of its piece.
pub(super) fn listed(value: &str) -> Arc<str> {
    Arc::from(&*without_full_length(value))
}
