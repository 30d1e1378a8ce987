//! Addresses that begin with the same bits.

use std::net::IpAddr;

/// Addresses that begin with the same bits. Those of IPv4 are taken as they are mapped into IPv6.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AddressRange {
    pub(super) bits: u128,
    pub(super) length: u8,
}

impl AddressRange {
    /// The number of bits that IPv4 has less.
    pub(super) const V4: u8 = 96;
    pub(super) const WHOLE: u8 = 128;

    /// Reads an address, or a network as `192.0.2.0/24`; bits behind the prefix are let go of.
    pub fn parse(text: &str) -> Option<AddressRange> {
        let Some((address, bits)) = text.split_once('/') else {
            return Some(AddressRange::of(text.parse().ok()?));
        };
        let address: IpAddr = address.parse().ok()?;
        let whole = AddressRange::of(address);
        let bits: u8 = bits.parse().ok()?;
        let length = if address.is_ipv4() { bits.checked_add(AddressRange::V4)? } else { bits };
        (length <= AddressRange::WHOLE).then(|| whole.cut(length))
    }

    /// One address.
    pub fn of(address: IpAddr) -> AddressRange {
        let bits = match address.to_canonical() {
            IpAddr::V4(address) => address.to_ipv6_mapped().to_bits(),
            IpAddr::V6(address) => address.to_bits(),
        };
        AddressRange { bits, length: AddressRange::WHOLE }
    }

    pub(super) fn cut(self, length: u8) -> AddressRange {
        let mask = u128::MAX.checked_shl(u32::from(AddressRange::WHOLE - length)).unwrap_or(0);
        AddressRange { bits: self.bits & mask, length }
    }

    /// Returns true if all addresses of another are in it.
    pub fn contains(self, other: AddressRange) -> bool {
        self.length <= other.length && other.cut(self.length) == self
    }

    /// Returns true if it has an address at which this machine itself is, or none: nobody outside is met there.
    pub fn is_of_this_machine(self) -> bool {
        let own = ["127.0.0.0/8", "0.0.0.0", "::1", "::"].into_iter().filter_map(AddressRange::parse);
        own.into_iter().any(|own| self.contains(own) || own.contains(self))
    }
}

impl std::fmt::Display for AddressRange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let address = std::net::Ipv6Addr::from_bits(self.bits);
        let (address, whole, length) = match address.to_ipv4_mapped() {
            Some(v4) if self.length >= AddressRange::V4 => {
                (IpAddr::V4(v4), 32, self.length - AddressRange::V4)
            }
            _ => (IpAddr::V6(address), AddressRange::WHOLE, self.length),
        };
        if length == whole { write!(f, "{address}") } else { write!(f, "{address}/{length}") }
    }
}
