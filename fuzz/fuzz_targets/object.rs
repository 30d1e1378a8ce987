//! Any bytes are a manifest, an index, or none: nothing panics, nor takes memory that the bytes only state.
#![no_main]

use event::Shingle;
use journal::RecordId;
use libfuzzer_sys::fuzz_target;
use objects::{SegmentIndex, UploadManifest};

fuzz_target!(|bytes: &[u8]| {
    // With their checksums, which nobody finds by chance.
    let _ = UploadManifest::from_bytes(&disk::seal(bytes));
    let sum = crc32fast::hash(bytes).to_le_bytes();
    if let Ok(index) = SegmentIndex::from_bytes(&[bytes, &sum].concat()) {
        index.may_hold(0, RecordId(7));
        index.may_hold_key(1, Shingle(7));
    }
});
