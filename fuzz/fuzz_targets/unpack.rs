//! Any bytes are a compressed message: no more comes out than was asked for, whatever they claim.
#![no_main]

use content::budget::Cancellation;
use libfuzzer_sys::fuzz_target;
use server::protocol::content_encoding::{MessageEncoding, decompress, zstd_compressed};

fuzz_target!(|bytes: &[u8]| {
    const MAX: usize = 1 << 16;
    for how in [MessageEncoding::Zlib, MessageEncoding::Zstd] {
        if let Ok(unpacked) = decompress(bytes, how, MAX, &Cancellation::default()) {
            assert!(unpacked.len() <= MAX);
        }
    }
    if bytes.len() <= MAX {
        let packed = zstd_compressed(bytes).unwrap();
        assert_eq!(
            decompress(&packed, MessageEncoding::Zstd, MAX, &Cancellation::default()).as_deref(),
            Ok(bytes)
        );
    }
});
