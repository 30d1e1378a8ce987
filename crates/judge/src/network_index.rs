//! The longest of many networks that an address is in.
//!
//! Networks nest or are apart, so they cut the addresses into ranges each of which has one longest network. The starts of
//! the ranges are searched through a tree of blocks: a level has every sixteenth start of the level below it, so that an
//! address costs one or two cache lines a level, and the upper levels stay in the processor's caches.

use std::net::IpAddr;

use crate::set::Network;

/// Starts of a block.
const FANOUT: usize = 16;
/// The value of a range that no network has.
const NONE: u32 = u32::MAX;

/// Networks with values.
#[derive(Clone, Debug)]
pub(crate) struct NetworkIndex {
    v4: RangeIndex<u32>,
    v6: RangeIndex<u128>,
}

/// Networks with values, to be indexed.
#[derive(Debug, Default)]
pub(crate) struct NetworkIndexBuilder {
    v4: Vec<RangeEntry<u32>>,
    v6: Vec<RangeEntry<u128>>,
}

impl NetworkIndexBuilder {
    /// Adds a network with its value, and the number of its line.
    pub(crate) fn push(&mut self, network: Network, value: u32, line: u32) {
        match network {
            Network::V4(low, high) => self.v4.push(RangeEntry { low, high, value, line }),
            Network::V6(low, high) => self.v6.push(RangeEntry { low, high, value, line }),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.v4.len() + self.v6.len()
    }

    /// The index of all networks, in whatever order they came.
    pub(crate) fn finish(self) -> Result<NetworkIndex, NetworkConflict> {
        let v4 = RangeIndex::new(self.v4, |high| high.checked_add(1))?;
        Ok(NetworkIndex { v4, v6: RangeIndex::new(self.v6, |high| high.checked_add(1))? })
    }
}

/// The lines of two networks that are the same and have different values, the later one first.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NetworkConflict(pub(crate) u32, pub(crate) u32);

impl NetworkIndex {
    /// The value of the longest network that an address is in.
    pub(crate) fn find(&self, ip: IpAddr) -> Option<u32> {
        match ip.to_canonical() {
            IpAddr::V4(ip) => self.v4.find(ip.to_bits()),
            IpAddr::V6(ip) => self.v6.find(ip.to_bits()),
        }
    }
}

#[derive(Debug)]
struct RangeEntry<T> {
    low: T,
    high: T,
    value: u32,
    line: u32,
}

/// Ranges of addresses by their starts.
#[derive(Clone, Debug)]
struct RangeIndex<T> {
    /// All starts, then every sixteenth of them, and so on up to a single block.
    levels: Vec<Box<[T]>>,
    /// The value from each start on.
    values: Box<[u32]>,
}

impl<T: Copy + Ord> RangeIndex<T> {
    fn new(
        mut entries: Vec<RangeEntry<T>>,
        after: impl Fn(T) -> Option<T>,
    ) -> Result<RangeIndex<T>, NetworkConflict> {
        // A network stands before those that it holds.
        entries.sort_unstable_by(|a, b| (a.low, b.high, a.line).cmp(&(b.low, a.high, b.line)));
        let (mut starts, mut values): (Vec<T>, Vec<u32>) = (Vec::new(), Vec::new());
        let mut begin = |start: T, value: u32| {
            if starts.last() == Some(&start) {
                starts.pop();
                values.pop();
            }
            if values.last().copied().unwrap_or(NONE) != value {
                starts.push(start);
                values.push(value);
            }
        };
        // The networks that the current place is in, from the outermost.
        let mut open: Vec<RangeEntry<T>> = Vec::new();
        for entry in entries {
            while let Some(last) = open.pop_if(|last| last.high < entry.low) {
                let outer = open.last().map_or(NONE, |outer| outer.value);
                after(last.high).into_iter().for_each(|start| begin(start, outer));
            }
            if let Some(last) = open.last().filter(|last| (last.low, last.high) == (entry.low, entry.high)) {
                if last.value != entry.value {
                    return Err(NetworkConflict(entry.line, last.line));
                }
                continue;
            }
            begin(entry.low, entry.value);
            open.push(entry);
        }
        while let Some(last) = open.pop() {
            let outer = open.last().map_or(NONE, |outer| outer.value);
            after(last.high).into_iter().for_each(|start| begin(start, outer));
        }
        let mut levels = vec![starts.into_boxed_slice()];
        while let Some(last) = levels.last().filter(|last| last.len() > FANOUT) {
            let level = last.iter().copied().step_by(FANOUT).collect();
            levels.push(level);
        }
        Ok(RangeIndex { levels, values: values.into() })
    }

    fn find(&self, address: T) -> Option<u32> {
        let mut place = 0;
        for level in self.levels.iter().rev() {
            let block = &level[place * FANOUT..level.len().min(place * FANOUT + FANOUT)];
            // Before the first start of all there is nothing.
            place =
                place * FANOUT + block.iter().filter(|start| **start <= address).count().checked_sub(1)?;
        }
        self.values.get(place).copied().filter(|value| *value != NONE)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn index(networks: &[&str]) -> Result<NetworkIndex, NetworkConflict> {
        let mut builder = NetworkIndexBuilder::default();
        for (line, text) in (0..).zip(networks) {
            let (network, value) = text.split_once(' ').unwrap();
            builder.push(network.parse().unwrap(), value.parse().unwrap(), line);
        }
        builder.finish()
    }

    #[test]
    fn the_longest_network_is_found() {
        let index = index(&[
            "10.1.0.0/16 2",
            "10.0.0.0/8 1",
            "10.1.2.3 3",
            "10.255.255.0/24 4",
            "192.0.2.0/24 5",
            "192.0.2.0/25 6",
            "2001:db8::/32 7",
            "2001:db8::1 8",
            "::ffff:198.51.100.0/120 9",
            "255.255.255.255 10",
        ])
        .unwrap();
        let check =
            |ip: &str, expected: Option<u32>| assert_eq!(index.find(ip.parse().unwrap()), expected, "{ip}");
        check("9.255.255.255", None);
        check("10.0.0.0", Some(1));
        check("10.1.0.0", Some(2));
        check("10.1.2.2", Some(2));
        check("10.1.2.3", Some(3));
        check("::ffff:10.1.2.3", Some(3));
        check("10.1.2.4", Some(2));
        check("10.2.0.0", Some(1));
        check("10.255.255.255", Some(4));
        check("11.0.0.0", None);
        check("192.0.2.127", Some(6));
        check("192.0.2.128", Some(5));
        check("192.0.3.0", None);
        check("198.51.100.9", Some(9));
        check("255.255.255.255", Some(10));
        check("2001:db8::", Some(7));
        check("2001:db8::1", Some(8));
        check("2001:db8::2", Some(7));
        check("2001:db9::", None);
        check("::", None);
    }

    #[test]
    fn a_network_has_one_value() {
        assert_eq!(index(&["10.0.0.0/8 1", "::/0 1", "10.1.2.3/8 2"]).unwrap_err(), NetworkConflict(2, 0));
        assert!(index(&["10.0.0.0/8 1", "10.0.0.0/8 1"]).is_ok());
        assert_eq!(index(&[]).unwrap().find("::".parse().unwrap()), None);
    }

    proptest! {
        #[test]
        fn it_is_what_looking_at_all_of_them_finds(
            networks in proptest::collection::vec((0u32..1 << 12, 20u8..=32, 0u32..4), 0..200),
            addresses in proptest::collection::vec(0u32..1 << 12, 50),
        ) {
            let mut known = std::collections::BTreeMap::new();
            for (address, prefix, value) in networks {
                let mask = u32::MAX.checked_shl(32 - u32::from(prefix)).unwrap_or(0);
                known.insert((address & mask, prefix), value);
            }
            let network = |address: u32, prefix: u8| Network::V4(address, address | u32::MAX.checked_shr(u32::from(prefix)).unwrap_or(0));
            let mut builder = NetworkIndexBuilder::default();
            for (line, ((address, prefix), value)) in (0..).zip(&known) {
                builder.push(network(*address, *prefix), *value, line);
            }
            let index = builder.finish().unwrap();
            for address in addresses {
                let found = known.iter().filter(|((low, prefix), _)| {
                    let Network::V4(low, high) = network(*low, *prefix) else { unreachable!() };
                    (low..=high).contains(&address)
                });
                let longest = found.max_by_key(|((_, prefix), _)| *prefix).map(|(_, value)| *value);
                prop_assert_eq!(index.find(IpAddr::V4(address.into())), longest);
            }
        }
    }
}
