//! Block lists in all formats: each is read to its end, and what is read is printed as it is read again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use plan::formats::block_list::{BlockListFormat, read};

fuzz_target!(|data: &[u8]| {
    for format in [None].into_iter().chain(BlockListFormat::NAMES.map(|(_, format)| Some(format))) {
        let mut entries = 0;
        let _ = read(data, format, |entry| {
            let again: judge::Network = entry.network.to_string().parse().expect("it is a network");
            assert_eq!(again, entry.network);
            entries += 1;
            entries < 10_000
        });
    }
});
