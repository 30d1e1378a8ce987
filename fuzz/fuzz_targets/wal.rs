//! The journal of a node of a cluster: any bytes are records and what is none, and never a panic.
#![no_main]

use disk::log::FrameHead;
use disk::{Device, MemoryDevice};

fn count_records(bytes: &[u8]) -> usize {
    let device = MemoryDevice::new();
    device.write("wal", bytes);
    cluster::count_records(device.open("wal").unwrap()).unwrap()
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    // What a checksum would hardly ever let through is tried as a record of its own.
    count_records(bytes);
    let head = FrameHead::of(8, [], bytes).write(*b"\xf5\x54\x48\x6b");
    let segment = [b"thwal004", &head[..], bytes].concat();
    assert!(count_records(&segment) <= 1);
});
