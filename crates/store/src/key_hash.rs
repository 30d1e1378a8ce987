//! The hash of a key: which shard and table have it, and what tells it from other keys there.

/// Tables of a shard's index.
pub(crate) const TABLES: usize = 8;
/// Bits of the shingle that choose a shard, and a table of its index. With fewer, an entry could not hold the others.
const SHARD_BITS: u32 = 6;
const TABLE_BITS: u32 = TABLES.ilog2();
/// The other bits that a key and its pairs have in common.
const LOW_ROUTE_BITS: u32 = 16 - SHARD_BITS - TABLE_BITS;
/// Bits of a hash below the number of its table.
const ENTRY_BITS: u32 = 48 + LOW_ROUTE_BITS;
/// Low bits of a hash, which stand beside an entry's reference.
pub(crate) const LOW_BITS: u32 = 23;
/// Number of shards.
pub(crate) const SHARDS: usize = 1 << SHARD_BITS;

/// A key's hash within its shard: the number of its table, and 55 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct KeyHash(pub(crate) u64);

impl KeyHash {
    /// The least of them, for places that are not filled yet.
    pub const ZERO: KeyHash = KeyHash(0);

    /// The shard of a key, and its hash in there.
    #[inline(always)]
    pub fn of(space: u16, kind: u16, shingle: u64) -> (usize, KeyHash) {
        let rest = (shingle ^ mixed(space, kind)) & ((1 << 48) - 1);
        let route = shingle >> 48;
        let table = route >> LOW_ROUTE_BITS & (TABLES as u64 - 1);
        let low = route & ((1 << LOW_ROUTE_BITS) - 1);
        let hash = table << ENTRY_BITS | rest << LOW_ROUTE_BITS | low;
        ((route >> (LOW_ROUTE_BITS + TABLE_BITS)) as usize, KeyHash(hash))
    }

    /// The shingle again.
    pub(crate) fn shingle(self, space: u16, kind: u16, shard: usize) -> u64 {
        let part = (self.part(shard) as u64) << LOW_ROUTE_BITS;
        let route = part | self.0 & ((1 << LOW_ROUTE_BITS) - 1);
        route << 48 | (self.0 >> LOW_ROUTE_BITS ^ mixed(space, kind)) & ((1 << 48) - 1)
    }

    /// The part of all keys, of [`crate::Store::PARTS`], that it belongs to; a shard has some of them, one a table.
    pub fn part(self, shard: usize) -> usize {
        shard << TABLE_BITS | self.table()
    }

    /// The bits that tell keys of a part apart, 55 of them, for further hashing.
    pub fn bits(self) -> u64 {
        self.0 & ((1 << ENTRY_BITS) - 1)
    }

    /// The table that has the key.
    #[inline(always)]
    pub(crate) fn table(self) -> usize {
        (self.0 >> ENTRY_BITS) as usize % TABLES
    }

    /// Returns this hash in a table.
    pub(crate) fn in_table(self, table: usize) -> KeyHash {
        KeyHash(self.bits() | (table as u64) << ENTRY_BITS)
    }

    /// From what [`KeyHash::high`] and [`KeyHash::low`] say, in the first table.
    #[inline(always)]
    pub(crate) fn from_halves(high: u32, low: u64) -> KeyHash {
        KeyHash(u64::from(high) << LOW_BITS | low)
    }

    /// The 32 high bits, which name a key's place.
    #[inline(always)]
    pub(crate) fn high(self) -> u32 {
        (self.0 >> LOW_BITS) as u32
    }

    /// The 23 bits below them.
    #[inline(always)]
    pub(crate) fn low(self) -> u64 {
        self.0 & ((1 << LOW_BITS) - 1)
    }
}

/// Spreads space and kind, so that one piece's keys of several kinds do not share a bucket.
#[inline(always)]
fn mixed(space: u16, kind: u16) -> u64 {
    let number = u64::from(space) << 16 | u64::from(kind);
    let mixed = (number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 8
}
