//! Any bytes are a journal's segment: its blocks up to the first that is damaged, or an error.
#![no_main]

use engine::journal::Blocks;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(blocks) = Blocks::new(bytes) else { return };
    for block in blocks {
        let Ok(block) = block else { return };
        let _ = block.records();
    }
});
