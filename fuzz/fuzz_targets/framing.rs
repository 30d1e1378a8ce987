//! Any bytes are requests: what is found in them does not hang on how they come.
#![no_main]

use libfuzzer_sys::fuzz_target;
use server::framing::RequestFraming;

fuzz_target!(|bytes: &[u8]| {
    let whole = RequestFraming::default().watch(bytes);
    let mut framing = RequestFraming::default();
    let piece = bytes.first().map_or(1, |first| usize::from(*first % 16) + 1);
    let found = bytes.chunks(piece).map(|piece| framing.watch(piece)).last().flatten();
    assert_eq!(found, whole);
});
