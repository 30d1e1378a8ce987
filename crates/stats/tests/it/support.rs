//! The embedded home over a device in memory.

use std::sync::Arc;

use disk::MemoryDevice;
pub(crate) use sim::suite::*;
use stats::{EmbeddedLedger, Options};

/// SplitMix64.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }
}

pub(crate) fn options(memory_bytes: usize, durability: &str) -> Options {
    Options { memory_bytes, segment_bytes: 8_000, durability: durability.parse().unwrap() }
}

pub(crate) fn embedded(device: &MemoryDevice, memory_bytes: usize, durability: &str) -> EmbeddedLedger {
    EmbeddedLedger::open(Arc::new(device.clone()), catalog(), options(memory_bytes, durability)).unwrap().0
}
