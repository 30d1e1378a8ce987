//! Networks: the neighbourhood that an address shares with those its holder could move to.

use std::borrow::Cow;
use std::net::{IpAddr, Ipv6Addr};

/// The numbers of leading bits that make a network. One subscriber commonly holds a whole IPv6 /64, and an abuser moves
/// within an IPv4 /24 first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PrefixLengths {
    /// Bits of an IPv4 address, at most 32.
    pub v4: u8,
    /// Bits of an IPv6 address, at most 128.
    pub v6: u8,
}

impl Default for PrefixLengths {
    fn default() -> PrefixLengths {
        PrefixLengths { v4: 24, v6: 64 }
    }
}

/// The address's network in CIDR notation, e.g. `203.0.113.0/24` or `2001:db8::/64`; one of full length is written as the
/// address that it is, e.g. `203.0.113.77`. An IPv4 address mapped into IPv6 is taken as IPv4; a prefix that is too long
/// counts as the longest.
pub fn network(ip: IpAddr, prefixes: PrefixLengths) -> String {
    match ip.to_canonical() {
        IpAddr::V4(ip) => {
            let bits = prefixes.v4.min(32);
            let mask = u32::MAX.checked_shl(32 - u32::from(bits)).unwrap_or(0);
            // Every event with an address has such a text, so it is not left to the formatter.
            let mut text = String::with_capacity("255.255.255.255/32".len());
            for (place, number) in (ip.to_bits() & mask).to_be_bytes().into_iter().enumerate() {
                if place > 0 {
                    text.push('.');
                }
                push_decimal(&mut text, number);
            }
            if bits < 32 {
                text.push('/');
                push_decimal(&mut text, bits);
            }
            text
        }
        IpAddr::V6(ip) => {
            let bits = prefixes.v6.min(128);
            let mask = u128::MAX.checked_shl(128 - u32::from(bits)).unwrap_or(0);
            let first = Ipv6Addr::from_bits(ip.to_bits() & mask);
            if bits < 128 { format!("{first}/{bits}") } else { first.to_string() }
        }
    }
}

/// Returns a value that people write: a network of full length, e.g. `192.0.2.7/32`, as the address that it is, and all else
/// as it stands.
pub fn without_full_length(text: &str) -> Cow<'_, str> {
    let address = || {
        let (address, bits) = text.trim().split_once('/')?;
        let address: IpAddr = address.parse().ok()?;
        let full = if address.is_ipv4() { "32" } else { "128" };
        (bits == full).then(|| address.to_canonical())
    };
    address().map_or(Cow::Borrowed(text), |address| Cow::Owned(address.to_string()))
}

/// The network that an address, or a network written as `203.0.113.0/24`, lies in whole; `None` of anything else.
pub fn network_of(text: &str, prefixes: PrefixLengths) -> Option<String> {
    let (address, bits) = match text.split_once('/') {
        Some((address, bits)) => (address, Some(bits.parse::<u8>().ok()?)),
        None => (text, None),
    };
    let written: IpAddr = address.parse().ok()?;
    let address = written.to_canonical();
    let bits = match bits {
        // One of IPv4 mapped into IPv6, whose prefix counts the bits in front, too.
        Some(bits) if written != address => Some(bits.checked_sub(96)?),
        bits => bits,
    };
    let least = if address.is_ipv4() { prefixes.v4.min(32) } else { prefixes.v6.min(128) };
    bits.is_none_or(|bits| bits >= least).then(|| network(address, prefixes))
}

fn push_decimal(text: &mut String, number: u8) {
    for (place, from) in [(100, 100), (10, 10), (1, 0)] {
        if number >= from {
            text.push(char::from(b'0' + number / place % 10));
        }
    }
}

/// Returns true if an address can be met on the public Internet: not private, loopback, link-local, shared (RFC 6598),
/// unspecified, multicast, nor set aside for documentation or for future use.
pub fn is_public(ip: IpAddr) -> bool {
    match ip.to_canonical() {
        IpAddr::V4(ip) => {
            let [a, b, ..] = ip.octets();
            let shared = a == 100 && (64..128).contains(&b);
            !(ip.is_private()
                || ip.is_loopback()
                || ip.is_link_local()
                || ip.is_documentation()
                || shared
                || a == 0
                || a >= 224)
        }
        // Global unicast is 2000::/3; 2001:db8::/32 is for documentation.
        IpAddr::V6(ip) => {
            let [a, b, ..] = ip.segments();
            a & 0xE000 == 0x2000 && (a, b) != (0x2001, 0x0DB8)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_are_cidr() {
        for (ip, v4, v6, expected) in [
            ("203.0.113.77", 24, 64, "203.0.113.0/24"),
            ("::ffff:203.0.113.77", 24, 64, "203.0.113.0/24"),
            ("2001:db8::1:2:3:4", 24, 64, "2001:db8::/64"),
            ("203.0.113.77", 0, 64, "0.0.0.0/0"),
            ("203.0.113.77", 99, 64, "203.0.113.77"),
            ("203.0.113.77", 32, 64, "203.0.113.77"),
            ("203.0.113.77", 31, 64, "203.0.113.76/31"),
            ("2001:db8::1", 24, 127, "2001:db8::/127"),
            ("2001:db8::1", 24, 0, "::/0"),
            ("2001:db8::1", 24, 200, "2001:db8::1"),
        ] {
            assert_eq!(network(ip.parse().unwrap(), PrefixLengths { v4, v6 }), expected);
        }
    }

    #[test]
    fn texts_of_addresses_and_networks_have_a_network() {
        let prefixes = PrefixLengths { v4: 16, v6: 48 };
        for (text, expected) in [
            ("203.0.113.77", Some("203.0.0.0/16")),
            ("203.0.113.0/24", Some("203.0.0.0/16")),
            ("203.0.0.0/16", Some("203.0.0.0/16")),
            ("203.0.0.0/8", None),
            ("2001:db8:1:2::3", Some("2001:db8:1::/48")),
            ("2001:db8:1:2::/64", Some("2001:db8:1::/48")),
            ("2001:db8::/32", None),
            ("::ffff:203.0.113.77", Some("203.0.0.0/16")),
            ("::ffff:203.0.113.0/120", Some("203.0.0.0/16")),
            ("::ffff:203.0.0.0/104", None),
            ("::ffff:0:0/64", None),
            ("203.0.113.77/32", Some("203.0.0.0/16")),
            ("203.0.113.77/x", None),
            ("ann", None),
            ("", None),
        ] {
            assert_eq!(network_of(text, prefixes).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn a_network_of_full_length_is_its_address() {
        for (text, expected) in [
            ("192.0.2.7/32", "192.0.2.7"),
            (" 192.0.2.7/32", "192.0.2.7"),
            ("2001:DB8::7/128", "2001:db8::7"),
            ("::ffff:192.0.2.7/128", "192.0.2.7"),
            ("192.0.2.7", "192.0.2.7"),
            ("192.0.2.7/24", "192.0.2.7/24"),
            ("192.0.2.7/128", "192.0.2.7/128"),
            ("2001:db8::7/32", "2001:db8::7/32"),
            ("2001:DB8::7", "2001:DB8::7"),
            ("ann/32", "ann/32"),
            ("/32", "/32"),
            ("", ""),
        ] {
            assert_eq!(without_full_length(text), expected, "{text}");
        }
    }

    #[test]
    fn networks_are_written_as_addresses_are() {
        for octet in 0..=255 {
            for bits in 0..=32u8 {
                let ip = std::net::Ipv4Addr::new(octet, 255 - octet, octet / 2, octet);
                let mask = u32::MAX.checked_shl(32 - u32::from(bits)).unwrap_or(0);
                let first = std::net::Ipv4Addr::from_bits(ip.to_bits() & mask);
                let expected = if bits == 32 { first.to_string() } else { format!("{first}/{bits}") };
                assert_eq!(network(ip.into(), PrefixLengths { v4: bits, v6: 64 }), expected);
            }
        }
    }

    #[test]
    fn what_is_not_routed_is_not_public() {
        for (ip, expected) in [
            ("8.8.8.8", true),
            ("10.1.2.3", false),
            ("127.0.0.1", false),
            ("169.254.1.1", false),
            ("100.64.0.1", false),
            ("::ffff:192.168.0.1", false),
            ("255.255.255.255", false),
            ("::1", false),
            ("fe80::1", false),
            ("fd00::1", false),
            ("2a00:1450::1", true),
            ("2001:db8::1", false),
        ] {
            assert_eq!(is_public(ip.parse().unwrap()), expected, "{ip}");
        }
    }
}
