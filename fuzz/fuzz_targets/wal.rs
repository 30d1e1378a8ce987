//! The journal of a node of a cluster: any bytes are records and what is none, and never a panic.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    // What a checksum would hardly ever let through is tried as a record of its own.
    let _ = cluster::count_records(bytes);
    let mut head = b"\xf5\x54\x48\x6b".to_vec();
    head.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
    head.extend_from_slice(&crc32fast::hash(bytes).to_le_bytes());
    let crc = crc32fast::hash(&head).to_le_bytes();
    let segment = [b"thwal002", &head[..], &crc, bytes].concat();
    assert!(cluster::count_records(&segment) <= 1);
});
