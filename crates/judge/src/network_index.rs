//! The longest of many networks that an address is in.
//!
//! Networks nest or are apart, so they cut the addresses into ranges each of which has one longest network. The starts of
//! the ranges are searched through a tree of blocks: a level has the first start of each block of the level below it. Sixteen
//! starts of IPv4 are one line of the processor's caches, the upper levels stay in them, and a leaf has its values beside
//! its starts, so that an address costs about one line and its neighbour from memory.

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
    /// Networks of IPv6 of up to 64 bits, as nearly all are, by these bits.
    v6: RangeIndex<u64>,
    /// Longer ones, each of which is in at most one of the others.
    v6_long: RangeIndex<u128>,
}

/// Networks with values, to be indexed.
#[derive(Debug, Default)]
pub(crate) struct NetworkIndexBuilder {
    v4: Vec<RangeEntry<u32>>,
    v6: Vec<RangeEntry<u64>>,
    v6_long: Vec<RangeEntry<u128>>,
}

impl NetworkIndexBuilder {
    /// Adds a network with its value, and the number of its line.
    pub(crate) fn push(&mut self, network: Network, value: u32, line: u32) {
        match network {
            Network::V4(low, high) => self.v4.push(RangeEntry { low, high, value, line }),
            Network::V6(low, high) => {
                let (upper, upper_high) = ((low >> 64) as u64, (high >> 64) as u64);
                if low as u64 == 0 && high as u64 == u64::MAX {
                    self.v6.push(RangeEntry { low: upper, high: upper_high, value, line });
                } else {
                    self.v6_long.push(RangeEntry { low, high, value, line });
                }
            }
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.v4.len() + self.v6.len() + self.v6_long.len()
    }

    /// The index of all networks, in whatever order they came.
    pub(crate) fn finish(self) -> Result<NetworkIndex, NetworkConflict> {
        Ok(NetworkIndex {
            v4: RangeIndex::new(self.v4, |high| high.checked_add(1))?,
            v6: RangeIndex::new(self.v6, |high| high.checked_add(1))?,
            v6_long: RangeIndex::new(self.v6_long, |high| high.checked_add(1))?,
        })
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
            IpAddr::V6(ip) => {
                let bits = ip.to_bits();
                self.v6_long.find(bits).or_else(|| self.v6.find((bits >> 64) as u64))
            }
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

/// Sorted starts. A block that is not full repeats its last one.
#[derive(Clone, Debug)]
#[repr(align(64))]
struct StartBlock<T>([T; FANOUT]);

/// Ranges of addresses by their starts, with the value from each start on.
#[derive(Clone, Debug)]
struct LeafBlock<T> {
    starts: StartBlock<T>,
    values: [u32; FANOUT],
}

/// Ranges of addresses by their starts.
#[derive(Clone, Debug)]
struct RangeIndex<T> {
    /// The levels above the leaves, the lowest first, the last of which is a single block.
    levels: Vec<Box<[StartBlock<T>]>>,
    leaves: Box<[LeafBlock<T>]>,
}

impl<T: Copy + Ord> StartBlock<T> {
    /// The blocks of these starts, in order.
    fn all(starts: &[T]) -> impl Iterator<Item = StartBlock<T>> {
        starts.chunks(FANOUT).map(|chunk| StartBlock(filled(chunk)))
    }

    fn first(&self) -> T {
        self.0[0]
    }

    /// The place of the last start at or before an address; `None` where all are behind it.
    fn find(&self, address: T) -> Option<usize> {
        self.0.iter().filter(|start| **start <= address).count().checked_sub(1)
    }
}

/// At most [`FANOUT`] items and at least one, with the last one repeated.
fn filled<T: Copy>(items: &[T]) -> [T; FANOUT] {
    std::array::from_fn(|place| items[place.min(items.len() - 1)])
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
        let leaves: Box<[LeafBlock<T>]> = StartBlock::all(&starts)
            .zip(values.chunks(FANOUT))
            .map(|(starts, values)| LeafBlock { starts, values: filled(values) })
            .collect();
        let mut firsts: Vec<T> = leaves.iter().map(|leaf| leaf.starts.first()).collect();
        let mut levels = Vec::new();
        while firsts.len() > 1 {
            let level: Box<[StartBlock<T>]> = StartBlock::all(&firsts).collect();
            firsts = level.iter().map(StartBlock::first).collect();
            levels.push(level);
        }
        Ok(RangeIndex { levels, leaves })
    }

    fn find(&self, address: T) -> Option<u32> {
        let mut place = 0;
        for (number, level) in self.levels.iter().enumerate().rev() {
            // Below the last start of a block that is not full there are fewer blocks than it has places.
            let below = number.checked_sub(1).map_or(self.leaves.len(), |number| self.levels[number].len());
            place = (place * FANOUT + level[place].find(address)?).min(below - 1);
        }
        let leaf = self.leaves.get(place)?;
        Some(leaf.values[leaf.starts.find(address)?]).filter(|value| *value != NONE)
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
            "2001:db8:0:2::/64 11",
            "2001:db8:0:2::6/127 12",
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
        check("2001:db8:0:1::5", Some(7));
        check("2001:db8:0:2::5", Some(11));
        check("2001:db8:0:2::6", Some(12));
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
