//! Any bytes are a compressed message: no more comes out than was asked for, whatever they claim.
#![no_main]

use content::budget::Cancellation;
use libfuzzer_sys::fuzz_target;
use server::mail::unpack::{Packing, unpack, zstd_packed};

fuzz_target!(|bytes: &[u8]| {
    const MAX: usize = 1 << 16;
    for how in [Packing::Zlib, Packing::Zstd] {
        if let Ok(unpacked) = unpack(bytes, how, MAX, &Cancellation::default()) {
            assert!(unpacked.len() <= MAX);
        }
    }
    if bytes.len() <= MAX {
        let packed = zstd_packed(bytes).unwrap();
        assert_eq!(unpack(&packed, Packing::Zstd, MAX, &Cancellation::default()).as_deref(), Ok(bytes));
    }
});
