//! Named sets: many thousands of constants that conditions seek a value in.
//!
//! A set is made once, when rules are loaded, and looked up in without allocation: texts and domains by hash, or as
//! `text_patterns.rs` finds them
//! (`text_index.rs`),
//! integers and addresses by binary search. Networks become ranges that neither overlap nor touch, so that the
//! number of prefix lengths in a list does not matter.

use std::fmt;
use std::net::IpAddr;

use sha2::{Digest, Sha256};

use crate::text_index::TextIndex;
use crate::text_patterns::{
    ENTRIES_BYTES_MAX, ENTRY_BYTES_MAX, REGEXES_MAX, SetMatch, TextPatterns, regex_fault,
};

/// Constants of one type under one name. Cheap to look up in, dear to make.
#[derive(Clone, Debug)]
pub struct Set {
    pub(crate) entries: SetEntries,
    digest: [u8; 32],
    count: usize,
}

impl PartialEq for Set {
    fn eq(&self, other: &Set) -> bool {
        self.digest == other.digest
    }
}

impl Eq for Set {}

#[derive(Clone, Debug)]
pub(crate) enum SetEntries {
    Strings(TextIndex),
    /// Texts that are found in others.
    Patterns(TextIndex, TextPatterns),
    Domains(TextIndex),
    /// Sorted.
    Integers(Box<[i64]>),
    Networks(Networks),
}

/// The type of the entries of a [`Set`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetType {
    /// Texts, found if they are equal byte for byte, or as [`SetMatch`] says.
    String,
    /// Domain names: a text is found if it is one of them or below one, whatever the case of its letters.
    Domain,
    /// Integers.
    Integer,
    /// Addresses and networks such as `192.0.2.0/24`, by which an address is found.
    Ip,
}

impl SetType {
    /// All types, in the order in which they are documented.
    pub const ALL: [SetType; 4] = [SetType::String, SetType::Domain, SetType::Integer, SetType::Ip];

    /// Returns its name in configurations.
    pub const fn name(self) -> &'static str {
        match self {
            SetType::String => "string",
            SetType::Domain => "domain",
            SetType::Integer => "integer",
            SetType::Ip => "ip",
        }
    }
}

/// The refusal of a text as an entry of a set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetError {
    /// The index of the entry; that of the first surplus one where there are too many.
    pub entry: usize,
    /// The fault, without a full stop.
    pub message: String,
}

impl fmt::Display for SetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for SetError {}

impl Set {
    /// Most entries of a set.
    pub const ENTRIES_MAX: usize = 1_000_000;
    /// Longest entry, in bytes.
    pub const ENTRY_BYTES_MAX: usize = ENTRY_BYTES_MAX;

    /// Makes a set of entries as they are written; one that is there twice counts once. Takes time and memory in
    /// the order of what is given.
    ///
    /// # Errors
    /// The first entry that does not read as the type.
    pub fn new<'a>(kind: SetType, entries: impl IntoIterator<Item = &'a str>) -> Result<Set, SetError> {
        Set::matching(kind, SetMatch::Equal, entries)
    }

    /// Makes a set as [`Set::new`] does, whose texts are found in the way that is said. Only a set of strings has another than
    /// [`SetMatch::Equal`].
    ///
    /// # Errors
    /// The first entry that does not read as the type, or with which all of them are too many.
    pub fn matching<'a>(
        kind: SetType,
        how: SetMatch,
        entries: impl IntoIterator<Item = &'a str>,
    ) -> Result<Set, SetError> {
        let is_pattern = kind == SetType::String && how != SetMatch::Equal;
        let (mut bytes, mut last) = (0, 0);
        let mut texts: Vec<String> = Vec::new();
        let (mut integers, mut networks) = (Vec::new(), Vec::new());
        for (index, entry) in entries.into_iter().enumerate() {
            let wrong = |message: String| SetError { entry: index, message };
            let shown = || entry.chars().take(40).collect::<String>().escape_debug().to_string();
            if index >= Set::ENTRIES_MAX {
                return Err(wrong(format!("a set has at most {} entries", Set::ENTRIES_MAX)));
            }
            if entry.len() > Set::ENTRY_BYTES_MAX {
                return Err(wrong(format!("an entry has at most {} bytes", Set::ENTRY_BYTES_MAX)));
            }
            last = index;
            if is_pattern {
                bytes += entry.len();
                if bytes > ENTRIES_BYTES_MAX {
                    let most = ENTRIES_BYTES_MAX >> 20;
                    return Err(wrong(format!(
                        "entries that are looked for in texts have at most {most} MiB"
                    )));
                }
                if entry.is_empty() {
                    return Err(wrong("an empty entry would be found in every text".to_owned()));
                }
            }
            if is_pattern && how == SetMatch::Regex {
                if index >= REGEXES_MAX {
                    return Err(wrong(format!("a set has at most {REGEXES_MAX} regular expressions")));
                }
                if let Some(fault) = regex_fault(entry) {
                    return Err(wrong(format!("`{}` is no regular expression: {fault}", shown())));
                }
            }
            match kind {
                SetType::String => texts.push(entry.to_owned()),
                SetType::Domain => {
                    let name = domain_name(entry);
                    texts.push(name.ok_or_else(|| wrong(format!("`{}` is no domain name", shown())))?);
                }
                SetType::Integer => match entry.parse() {
                    Ok(integer) => integers.push(integer),
                    Err(_) => return Err(wrong(format!("`{}` is no integer", shown()))),
                },
                SetType::Ip => match entry.parse::<Network>() {
                    Ok(network) => networks.push(network),
                    Err(NetworkError) => {
                        return Err(wrong(format!("`{}` is no address and no network", shown())));
                    }
                },
            }
        }
        texts.sort_unstable();
        texts.dedup();
        integers.sort_unstable();
        integers.dedup();
        let networks = Networks::new(networks);
        let mut digest = Sha256::new();
        digest.update(kind.name());
        if is_pattern {
            digest.update([0]);
            digest.update(how.name());
        }
        let mut part = |bytes: &[u8]| {
            digest.update((bytes.len() as u64).to_le_bytes());
            digest.update(bytes);
        };
        texts.iter().for_each(|text| part(text.as_bytes()));
        integers.iter().for_each(|integer: &i64| part(&integer.to_le_bytes()));
        networks.ranges().for_each(|(low, high)| part(format!("{low}-{high}").as_bytes()));
        let digest = digest.finalize().into();
        // One of the three has entries.
        let count = texts.len() + integers.len() + networks.v4.len() + networks.v6.len();
        let mut index = TextIndex::default();
        texts.iter().for_each(|text| _ = index.insert(text));
        index.shrink();
        let entries = match kind {
            SetType::String if is_pattern => {
                let wrong = |message| SetError { entry: last, message };
                SetEntries::Patterns(index, TextPatterns::new(how, &texts).map_err(wrong)?)
            }
            SetType::String => SetEntries::Strings(index),
            SetType::Domain => SetEntries::Domains(index),
            SetType::Integer => SetEntries::Integers(integers.into()),
            SetType::Ip => SetEntries::Networks(networks),
        };
        Ok(Set { entries, digest, count })
    }

    /// Returns the type of its entries.
    pub fn kind(&self) -> SetType {
        match self.entries {
            SetEntries::Strings(_) | SetEntries::Patterns(..) => SetType::String,
            SetEntries::Domains(_) => SetType::Domain,
            SetEntries::Integers(_) => SetType::Integer,
            SetEntries::Networks(_) => SetType::Ip,
        }
    }

    /// Returns the way in which texts are held against its entries.
    pub fn how(&self) -> SetMatch {
        match &self.entries {
            SetEntries::Patterns(_, patterns) => patterns.how(),
            _ => SetMatch::Equal,
        }
    }

    /// Returns the number of its different entries; of networks, the number of ranges that are left when neighbours are joined.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Returns whether nothing is in it.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns the entries from a place on, in their order: texts as they are, networks as the fewest that have the same addresses.
    pub fn entries_from(&self, place: usize) -> Box<dyn Iterator<Item = String> + '_> {
        match &self.entries {
            SetEntries::Strings(texts) | SetEntries::Patterns(texts, _) | SetEntries::Domains(texts) => {
                let count = u32::try_from(texts.len()).unwrap_or(u32::MAX);
                let first = u32::try_from(place).unwrap_or(u32::MAX);
                Box::new((first..count).map(|number| texts.get(number).to_owned()))
            }
            SetEntries::Integers(integers) => Box::new(integers.iter().skip(place).map(i64::to_string)),
            SetEntries::Networks(networks) => {
                Box::new(networks.ranges_within().skip(place).map(|network| network.to_string()))
            }
        }
    }

    /// Returns whether a value is in it, as a condition would find it.
    pub fn has(&self, text: &str) -> bool {
        match self.kind() {
            SetType::String | SetType::Domain => self.has_str(text),
            SetType::Integer => text.parse().is_ok_and(|integer| self.has_integer(integer)),
            SetType::Ip => text.parse().is_ok_and(|ip| self.has_ip(ip)),
        }
    }

    /// SHA-256 of its type and entries, whatever their order: sets of equal digest find the same.
    pub fn digest(&self) -> &[u8; 32] {
        &self.digest
    }

    /// Returns whether a text is in it; false for a set of another type.
    pub(crate) fn has_str(&self, text: &str) -> bool {
        match &self.entries {
            SetEntries::Strings(texts) => texts.find(text).is_some(),
            SetEntries::Patterns(_, patterns) => patterns.finds(text),
            SetEntries::Domains(names) => names.find_domain(text).is_some(),
            _ => false,
        }
    }

    /// Returns whether an integer is in it; false for a set of another type.
    pub(crate) fn has_integer(&self, integer: i64) -> bool {
        matches!(&self.entries, SetEntries::Integers(integers) if integers.binary_search(&integer).is_ok())
    }

    /// Returns whether an address is in it; false for a set of another type.
    pub(crate) fn has_ip(&self, ip: IpAddr) -> bool {
        matches!(&self.entries, SetEntries::Networks(networks) if networks.contain(ip))
    }
}

/// A domain name as sets and tables have it, in lower case; `None` for what is none.
pub(crate) fn domain_name(entry: &str) -> Option<String> {
    let name = entry.trim_start_matches("*.").trim_matches('.').to_ascii_lowercase();
    let is_odd = name.is_empty() || name.contains(|c: char| c.is_whitespace() || "/:@*".contains(c));
    (!is_odd).then_some(name)
}

/// A network, or an address as a network of one: its first and its last address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Network {
    /// A range of IPv4.
    V4(u32, u32),
    /// A range of IPv6.
    V6(u128, u128),
}

/// A text is no network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NetworkError;

impl std::str::FromStr for Network {
    type Err = NetworkError;

    /// `192.0.2.7`, `192.0.2.0/24`, `2001:db8::/32`; bits beyond the prefix are ignored. IPv4 mapped into IPv6 is
    /// IPv4.
    fn from_str(text: &str) -> Result<Network, NetworkError> {
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => {
                let digits = !prefix.is_empty() && prefix.bytes().all(|byte| byte.is_ascii_digit());
                let prefix = prefix.parse::<u32>().ok().filter(|_| digits).ok_or(NetworkError)?;
                (address, Some(prefix))
            }
            None => (text, None),
        };
        match address.parse::<IpAddr>().map_err(|_| NetworkError)? {
            IpAddr::V4(v4) => Network::v4(v4.to_bits(), prefix.unwrap_or(32)),
            IpAddr::V6(v6) => match (v6.to_ipv4_mapped(), prefix.unwrap_or(128)) {
                (Some(v4), prefix @ 96..=128) => Network::v4(v4.to_bits(), prefix - 96),
                (_, prefix @ 0..=128) => {
                    let mask = u128::MAX.checked_shl(128 - prefix).unwrap_or(0);
                    Ok(Network::V6(v6.to_bits() & mask, v6.to_bits() | !mask))
                }
                _ => Err(NetworkError),
            },
        }
    }
}

impl Network {
    /// Returns the network of one address.
    pub fn of(address: IpAddr) -> Network {
        match address.to_canonical() {
            IpAddr::V4(address) => Network::V4(address.to_bits(), address.to_bits()),
            IpAddr::V6(address) => Network::V6(address.to_bits(), address.to_bits()),
        }
    }

    /// Returns true if all addresses of IPv4, or all of IPv6, are in it.
    pub fn is_everything(self) -> bool {
        matches!(self, Network::V4(0, u32::MAX) | Network::V6(0, u128::MAX))
    }

    /// Returns the lower and the upper half; `None` of a single address.
    pub fn halves(self) -> Option<(Network, Network)> {
        match self {
            Network::V4(low, high) if low < high => {
                let middle = low + (high - low) / 2;
                Some((Network::V4(low, middle), Network::V4(middle + 1, high)))
            }
            Network::V6(low, high) if low < high => {
                let middle = low + (high - low) / 2;
                Some((Network::V6(low, middle), Network::V6(middle + 1, high)))
            }
            _ => None,
        }
    }

    /// Returns true if a network of IPv6 has all addresses of IPv4 in it, as they are mapped into IPv6.
    fn has_mapped(low: u128, high: u128) -> bool {
        low <= 0xFFFF_0000_0000 && high >= 0xFFFF_FFFF_FFFF
    }

    fn v4(address: u32, prefix: u32) -> Result<Network, NetworkError> {
        let host = 32u32.checked_sub(prefix).ok_or(NetworkError)?;
        let mask = u32::MAX.checked_shl(host).unwrap_or(0);
        Ok(Network::V4(address & mask, address | !mask))
    }
}

impl std::fmt::Display for Network {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (address, bits, whole) = match *self {
            Network::V4(low, high) => (IpAddr::V4(low.into()), (low ^ high).leading_zeros(), 32),
            Network::V6(low, high) => (IpAddr::V6(low.into()), (low ^ high).leading_zeros(), 128),
        };
        if bits == whole { write!(f, "{address}") } else { write!(f, "{address}/{bits}") }
    }
}

/// Networks as ranges of addresses, both ends included, sorted and apart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Networks {
    v4: Box<[(u32, u32)]>,
    /// The index of many ranges of IPv4: the first that begins at each value of the upper 16 bits, or behind it. A search through
    /// millions would wait for memory twenty times.
    v4_places: Option<Box<[u32]>>,
    v6: Box<[(u128, u128)]>,
}

/// Ranges of IPv4 from which on they have places.
const PLACES_FROM: usize = 4096;

impl Networks {
    /// A set of networks, which may overlap. Sorts them.
    pub fn new(networks: impl IntoIterator<Item = Network>) -> Networks {
        let (mut v4, mut v6) = (Vec::new(), Vec::new());
        for network in networks {
            match network {
                Network::V4(low, high) => v4.push((low, high)),
                Network::V6(low, high) => v6.push((low, high)),
            }
        }
        let v4 = joined(v4, |high| high.checked_add(1));
        let place = |upper: u32| v4.partition_point(|(low, _)| (low >> 16) < upper) as u32;
        let v4_places = (v4.len() >= PLACES_FROM).then(|| (0..=1 << 16).map(place).collect());
        Networks { v4_places, v4, v6: joined(v6, |high| high.checked_add(1)) }
    }

    /// Returns whether an address lies in one of them, by binary search. IPv4 mapped into IPv6 is IPv4.
    pub fn contain(&self, ip: IpAddr) -> bool {
        match ip.to_canonical() {
            IpAddr::V4(ip) => self.contain_v4(ip.to_bits()),
            IpAddr::V6(ip) => within(&self.v6, ip.to_bits()),
        }
    }

    fn contain_v4(&self, address: u32) -> bool {
        let upper = (address >> 16) as usize;
        let places = self.v4_places.as_deref().and_then(|places| places.get(upper..upper + 2));
        let Some(&[start, end]) = places else { return within(&self.v4, address) };
        let (start, end) = (start as usize, end as usize);
        let part = self.v4.get(start..end).unwrap_or_default();
        // What begins before the part may reach into it.
        let index = start + part.partition_point(|(low, _)| *low <= address);
        index.checked_sub(1).and_then(|index| self.v4.get(index)).is_some_and(|(_, high)| address <= *high)
    }

    /// Returns true if a network has an address in it that is in one of them.
    pub fn overlap(&self, network: Network) -> bool {
        match network {
            Network::V4(low, high) => meets(&self.v4, low, high),
            Network::V6(low, high) => {
                meets(&self.v6, low, high) || (Network::has_mapped(low, high) && !self.v4.is_empty())
            }
        }
    }

    /// Returns true if all addresses of a network are in them.
    pub fn contain_all(&self, network: Network) -> bool {
        fn has<T: Copy + Ord>(ranges: &[(T, T)], low: T, high: T) -> bool {
            let index = ranges.partition_point(|(start, _)| *start <= low);
            index.checked_sub(1).and_then(|index| ranges.get(index)).is_some_and(|(_, end)| high <= *end)
        }
        match network {
            Network::V4(low, high) => has(&self.v4, low, high),
            Network::V6(low, high) => has(&self.v6, low, high),
        }
    }

    /// Returns the largest networks that have no address in them that is not in these.
    pub fn ranges_within(&self) -> impl Iterator<Item = Network> {
        let v4 = self.v4.iter().flat_map(|(low, high)| cut(u128::from(*low), u128::from(*high), 32));
        let v4 = v4.map(|(low, high)| Network::V4(low as u32, high as u32));
        let v6 = self.v6.iter().flat_map(|(low, high)| cut(*low, *high, 128));
        v4.chain(v6.map(|(low, high)| Network::V6(low, high)))
    }

    /// The number of ranges.
    pub fn len(&self) -> usize {
        self.v4.len() + self.v6.len()
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.v4.is_empty() && self.v6.is_empty()
    }

    fn ranges(&self) -> impl Iterator<Item = (IpAddr, IpAddr)> {
        let v4 = self.v4.iter().map(|(low, high)| {
            (
                IpAddr::V4(std::net::Ipv4Addr::from_bits(*low)),
                IpAddr::V4(std::net::Ipv4Addr::from_bits(*high)),
            )
        });
        let v6 = self.v6.iter().map(|(low, high)| {
            (
                IpAddr::V6(std::net::Ipv6Addr::from_bits(*low)),
                IpAddr::V6(std::net::Ipv6Addr::from_bits(*high)),
            )
        });
        v4.chain(v6)
    }
}

/// Cuts a range of addresses into networks, the lowest first.
fn cut(low: u128, high: u128, bits: u32) -> impl Iterator<Item = (u128, u128)> {
    let mut next = Some(low).filter(|low| *low <= high);
    std::iter::from_fn(move || {
        let low = next?;
        let mut size = low.trailing_zeros().min(bits);
        let end = loop {
            let hosts = 1u128.checked_shl(size).map_or(u128::MAX, |size| size - 1);
            match low.checked_add(hosts) {
                Some(end) if end <= high => break end,
                _ => size = size.checked_sub(1)?,
            }
        };
        next = end.checked_add(1).filter(|low| *low <= high);
        Some((low, end))
    })
}

fn meets<T: Copy + Ord>(ranges: &[(T, T)], low: T, high: T) -> bool {
    let index = ranges.partition_point(|(start, _)| *start <= high);
    index.checked_sub(1).and_then(|index| ranges.get(index)).is_some_and(|(_, end)| *end >= low)
}

/// Sorts ranges and joins those that overlap or touch.
fn joined<T: Copy + Ord>(mut ranges: Vec<(T, T)>, next: impl Fn(T) -> Option<T>) -> Box<[(T, T)]> {
    ranges.sort_unstable();
    let mut apart: Vec<(T, T)> = Vec::with_capacity(ranges.len());
    for (low, high) in ranges {
        match apart.last_mut() {
            Some(last) if next(last.1).is_none_or(|after| low <= after) => last.1 = last.1.max(high),
            _ => apart.push((low, high)),
        }
    }
    apart.into()
}

fn within<T: Copy + Ord>(ranges: &[(T, T)], address: T) -> bool {
    let index = ranges.partition_point(|(low, _)| *low <= address);
    index.checked_sub(1).and_then(|index| ranges.get(index)).is_some_and(|(_, high)| address <= *high)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn set(kind: SetType, entries: &[&str]) -> Set {
        Set::new(kind, entries.iter().copied()).unwrap()
    }

    /// Many ranges are found by their places as few are by a search.
    #[test]
    fn many_networks_are_found_as_few_are() {
        let all: Vec<Network> = (0..20_000u32)
            .map(|at| {
                let low = at.wrapping_mul(2_654_435_761);
                Network::V4(low, low.saturating_add(at % 7 * 40_000))
            })
            .chain([
                Network::V4(0, 9),
                Network::V4(u32::MAX, u32::MAX),
                Network::V4(0x0500_0000, 0x0700_1234),
            ])
            .collect();
        let many = Networks::new(all.iter().copied());
        assert!(many.v4_places.is_some());
        let few = Networks { v4_places: None, ..many.clone() };
        let ends = all.iter().flat_map(|network| match network {
            Network::V4(low, high) => [low.wrapping_sub(1), *low, *high, high.wrapping_add(1)],
            Network::V6(..) => [0; 4],
        });
        for address in ends {
            let address = IpAddr::V4(address.into());
            assert_eq!(many.contain(address), few.contain(address), "{address}");
        }
        assert!(!Networks::default().overlap(Network::V4(0, 9)));
    }

    #[test]
    fn networks_are_joined_and_found() {
        let check = |networks: &[&str], inside: &[&str], outside: &[&str], ranges: usize| {
            let set = set(SetType::Ip, networks);
            assert_eq!(set.len(), ranges, "{networks:?}");
            inside.iter().for_each(|ip| assert!(set.has_ip(ip.parse().unwrap()), "{ip}"));
            outside.iter().for_each(|ip| assert!(!set.has_ip(ip.parse().unwrap()), "{ip}"));
        };
        check(
            &["192.0.2.7", "10.0.0.0/8", "10.1.0.0/16", "2001:db8::/32"],
            &["192.0.2.7", "10.255.255.255", "::ffff:10.0.0.1", "2001:db8:ffff::1"],
            &["192.0.2.6", "11.0.0.0", "9.255.255.255", "2001:db9::"],
            3,
        );
        check(&["192.0.2.0/25", "192.0.2.128/25"], &["192.0.2.255"], &["192.0.3.0"], 1);
        check(&["0.0.0.0/0"], &["0.0.0.0", "255.255.255.255"], &["::"], 1);
        check(&["::/0", "::1"], &["::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"], &["1.2.3.4"], 1);
        check(&["::ffff:192.0.2.0/120"], &["192.0.2.9"], &["192.0.3.0"], 1);
        check(&["255.255.255.255", "255.255.255.254"], &["255.255.255.255"], &[], 1);
        check(&[], &[], &["::", "0.0.0.0"], 0);
    }

    #[test]
    fn a_domain_holds_all_below_it() {
        let set = set(SetType::Domain, &["example.ORG", "*.test", "sub.example.net."]);
        for name in ["example.org", "A.b.Example.org", "example.org.", "x.test", "test", "sub.example.net"] {
            assert!(set.has_str(name), "{name}");
        }
        for name in ["", ".", "org", "notexample.org", "example.net", "example.org.net", &"a.".repeat(200)] {
            assert!(!set.has_str(name), "{name}");
        }
    }

    #[test]
    fn what_is_no_entry_is_named() {
        let check = |kind, entries: &[&str], entry: usize, message: &str| {
            let error = Set::new(kind, entries.iter().copied()).unwrap_err();
            assert_eq!((error.entry, error.message.as_str()), (entry, message));
        };
        check(SetType::Ip, &["::1", "10.0.0.0/33"], 1, "`10.0.0.0/33` is no address and no network");
        check(SetType::Ip, &["10.0.0.0/+8"], 0, "`10.0.0.0/+8` is no address and no network");
        check(SetType::Ip, &["::/129"], 0, "`::/129` is no address and no network");
        check(SetType::Integer, &["7", "seven"], 1, "`seven` is no integer");
        check(SetType::Domain, &["a@example.org"], 0, "`a@example.org` is no domain name");
        check(SetType::String, &["", &"a".repeat(1025)], 1, "an entry has at most 1024 bytes");
        let many = std::iter::repeat_n("a", Set::ENTRIES_MAX + 1);
        assert_eq!(Set::new(SetType::String, many).unwrap_err().entry, Set::ENTRIES_MAX);
    }

    #[test]
    fn the_digest_tells_contents_apart_and_not_their_order() {
        let digest = |kind, entries: &[&str]| *set(kind, entries).digest();
        assert_eq!(digest(SetType::String, &["a", "b"]), digest(SetType::String, &["b", "a", "b"]));
        assert_ne!(digest(SetType::String, &["a", "b"]), digest(SetType::String, &["ab"]));
        assert_ne!(digest(SetType::String, &["a"]), digest(SetType::Domain, &["a"]));
        let halves = ["192.0.2.0/25", "192.0.2.128/25"];
        assert_eq!(digest(SetType::Ip, &halves), digest(SetType::Ip, &["192.0.2.0/24"]));
    }

    proptest! {
        #[test]
        fn an_address_is_found_if_one_network_has_it(
            networks in prop::collection::vec((any::<u32>(), 0u32..=32), 0..20),
            near in any::<prop::sample::Index>(), flip in 0u32..32, other in any::<u32>(),
        ) {
            let texts: Vec<String> =
                networks.iter().map(|(ip, prefix)| format!("{}/{prefix}", std::net::Ipv4Addr::from_bits(*ip))).collect();
            let set = Set::new(SetType::Ip, texts.iter().map(String::as_str)).unwrap();
            let near = if networks.is_empty() { other } else { networks[near.index(networks.len())].0 ^ (1 << flip) };
            for ip in [near, other] {
                let expected = networks.iter().any(|(network, prefix)| {
                    *prefix == 0 || (ip ^ network) >> (32 - prefix) == 0
                });
                prop_assert_eq!(set.has_ip(std::net::Ipv4Addr::from_bits(ip).into()), expected);
            }
        }
    }
}
