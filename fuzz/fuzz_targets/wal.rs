//! The journal of a node of a cluster: any bytes are records up to some place, and never a panic.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    // What a checksum would hardly ever let through is tried as a record of its own.
    let _ = cluster::count_records(bytes);
    let mut segment = b"thwal001".to_vec();
    segment.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
    segment.extend_from_slice(&crc32fast::hash(bytes).to_le_bytes());
    segment.extend_from_slice(bytes);
    assert!(cluster::count_records(&segment) <= 1);
});
