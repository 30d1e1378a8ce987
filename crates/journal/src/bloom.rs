//! Bloom filters in blocks, as those of Parquet (Putze, Sanders, Singler: Cache-, hash- and space-efficient Bloom filters,
//! 2007): which of many files may have an id, or a key, is told by some bytes of each.

/// Bits of a filter for each value, which let about one in a hundred others pass.
pub(crate) const VALUE_BITS: usize = 10;
/// Words of a block, and its bits.
pub(crate) const BLOCK_WORDS: usize = 8;
const BLOCK_BITS: usize = 32 * BLOCK_WORDS;
/// Odd numbers, one for each word of a block, as Parquet has them.
const SALT: [u32; BLOCK_WORDS] =
    [0x47b6_137b, 0x4497_4d91, 0x8824_ad5b, 0xa2b7_289d, 0x7054_95c7, 0x2df1_424b, 0x9efc_4947, 0x5c6b_fb31];

/// A set of hashes that may say to hold one which it does not, and never the other way round.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BloomFilter {
    blocks: Vec<[u32; BLOCK_WORDS]>,
}

impl BloomFilter {
    /// Returns the filter of some values.
    pub fn of(values: impl ExactSizeIterator<Item = u64>) -> BloomFilter {
        let mut filter = BloomFilter::with_room(values.len());
        values.for_each(|value| _ = filter.insert(value));
        filter
    }

    /// Returns an empty filter for about so many values. It takes more; then more others pass.
    pub fn with_room(values: usize) -> BloomFilter {
        let blocks = (values.saturating_mul(VALUE_BITS)).div_ceil(BLOCK_BITS).max(1).next_power_of_two();
        BloomFilter { blocks: vec![[0; BLOCK_WORDS]; blocks] }
    }

    /// Adds a value, and returns true if it was certainly not among those of the filter.
    pub fn insert(&mut self, value: u64) -> bool {
        let (block, mask) = self.place(value);
        let Some(block) = self.blocks.get_mut(block) else { return false };
        let is_new = block.iter().zip(mask).any(|(word, bit)| *word & bit == 0);
        block.iter_mut().zip(mask).for_each(|(word, bit)| *word |= bit);
        is_new
    }

    /// Makes the filter as small as is good for so many values, which are in it, at so many bits for each.
    pub fn fold(&mut self, values: usize, value_bits: usize) {
        // The block is told by the first bits of a hash: two neighbours become one.
        while self.blocks.len() > 1 && self.blocks.len() / 2 * BLOCK_BITS >= values.saturating_mul(value_bits)
        {
            let (pairs, _) = self.blocks.as_chunks::<2>();
            let both = |[one, other]: &[[u32; BLOCK_WORDS]; 2]| std::array::from_fn(|at| one[at] | other[at]);
            self.blocks = pairs.iter().map(both).collect();
        }
    }

    /// Returns false if a value is not among those of the filter.
    pub fn may_hold(&self, value: u64) -> bool {
        let (block, mask) = self.place(value);
        self.blocks.get(block).is_some_and(|block| block.iter().zip(mask).all(|(word, bit)| word & bit != 0))
    }

    /// The block of a value, and its bits there.
    fn place(&self, value: u64) -> (usize, [u32; BLOCK_WORDS]) {
        place(self.blocks.len(), value)
    }

    /// Returns the number of blocks.
    pub(crate) fn blocks_count(&self) -> u32 {
        u32::try_from(self.blocks.len()).unwrap_or(u32::MAX)
    }

    /// Returns the bytes that it takes in memory.
    pub(crate) fn bytes(&self) -> usize {
        self.blocks.len() * size_of::<[u32; BLOCK_WORDS]>()
    }

    /// Returns the filter as bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.blocks.iter().flatten().flat_map(|word| word.to_le_bytes()).collect()
    }

    /// The filter that has these blocks.
    pub(crate) fn of_blocks(blocks: Vec<[u32; BLOCK_WORDS]>) -> BloomFilter {
        BloomFilter { blocks }
    }

    /// Reads a filter; `None` for what is none.
    pub fn from_bytes(bytes: &[u8]) -> Option<BloomFilter> {
        let (blocks, rest) = bytes.as_chunks::<{ 4 * BLOCK_WORDS }>();
        if !blocks.len().is_power_of_two() || !rest.is_empty() {
            return None;
        }
        let block = |bytes: &[u8; 4 * BLOCK_WORDS]| {
            let mut block = [0; BLOCK_WORDS];
            let words = bytes.as_chunks::<4>().0;
            block.iter_mut().zip(words).for_each(|(word, bytes)| *word = u32::from_le_bytes(*bytes));
            block
        };
        Some(BloomFilter { blocks: blocks.iter().map(block).collect() })
    }
}

/// The block of a value among so many, and its bits there.
pub(crate) fn place(blocks: usize, value: u64) -> (usize, [u32; BLOCK_WORDS]) {
    // Ids differ in their low bits only.
    let mut hash = (value ^ (value >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    hash ^= hash >> 33;
    let block = ((hash >> 32) * blocks as u64) >> 32;
    let low = hash as u32;
    (block as usize, SALT.map(|salt| 1 << (low.wrapping_mul(salt) >> 27)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_others_pass_and_none_is_missed() {
        for count in [0u64, 1, 100, 50_000] {
            let base = 0x0001_9a3c_55d0_7f01;
            let filter =
                BloomFilter::of((0..count).map(|number| base + number).collect::<Vec<_>>().into_iter());
            assert!((0..count).all(|number| filter.may_hold(base + number)), "{count}");
            let passed = (0..10_000).filter(|number| filter.may_hold(base + count + number)).count();
            assert!(passed < 300, "{count}: {passed} of 10,000");
            assert_eq!(BloomFilter::from_bytes(&filter.to_bytes()), Some(filter.clone()));
            // One that was made larger than needed comes to the same.
            let mut large = BloomFilter::with_room(1 << 20);
            let new = (0..count).filter(|number| large.insert(base + number)).count();
            assert!(new as u64 >= count - count / 100, "{count}: {new}");
            large.fold(count as usize, VALUE_BITS);
            assert_eq!(large, filter, "{count}");
        }
        assert_eq!(BloomFilter::from_bytes(&[]), None);
        assert_eq!(BloomFilter::from_bytes(&[0; 33]), None);
    }
}
