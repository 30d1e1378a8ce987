//! Any bytes are a file of an audit log: it is read and verified without a panic, a writer goes on behind it, and what that writes
//! is read back.
#![no_main]

use std::collections::BTreeMap;

use access::audit::{AuditEntry, AuditLog, AuditOptions, AuditQuery, read, verify};
use disk::MemoryDevice;
use event::Time;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let device = MemoryDevice::new();
    device.write("audit.00000000000000000001.ndjson", bytes);
    let before = verify(&device, None, &|| true).unwrap();
    assert!(before.lines <= bytes.len() as u64);
    let mut log = AuditLog::open(Box::new(device.clone()), AuditOptions::default()).unwrap();
    let entry = AuditEntry {
        time: Time::from_seconds(1),
        by: "fuzz".to_owned(),
        from: None,
        action: "fuzz.written".to_owned(),
        status: 200,
        detail: BTreeMap::new(),
    };
    log.append([entry.clone()]).unwrap();
    log.sync().unwrap();
    let query =
        AuditQuery { action: Some("fuzz.written".to_owned()), limit: usize::MAX, ..AuditQuery::default() };
    let written = read(&device, &query, &|| true).unwrap().records;
    assert!(written.iter().any(|record| record.entry == entry));
    let after = verify(&device, None, &|| true).unwrap();
    assert!(before.fault_count > 0 || after.fault_count == 0, "{before:?} {after:?}");
});
