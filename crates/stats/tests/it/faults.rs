//! Failing disks, full buffers, small budgets and many callers.

use std::sync::Arc;

use disk::MemoryDevice;
use stats::{EmbeddedLedger, Ledger, LedgerError, ObserveRequest, Quality};
use store::RecordKey;
use store::log::Log;

use crate::support::*;

#[test]
fn a_failed_write_refuses_additions_and_serves_readings() {
    for durability in ["sync", "1ms"] {
        let device = MemoryDevice::new();
        let ledger = embedded(&device, 64 << 20, durability);
        observe(&ledger, &[request(vec![add(key(MASS, 1), at(1000), [(0, 1)])])]);
        ledger.maintain(at(1000)).unwrap();
        device.fail_after(1);
        let refused = (0..100_000u64).find_map(|number| {
            let request = request(vec![add(key(MASS, number), at(1000), [(0, 1)])]);
            pollster::block_on(ledger.observe(&[request])).err()
        });
        assert!(matches!(refused, Some(LedgerError::Poisoned { .. })), "{refused:?}");
        device.heal();
        let again =
            pollster::block_on(ledger.observe(&[request(vec![add(key(MASS, 1), at(1000), [(0, 1)])])]));
        assert!(
            matches!(&again, Err(LedgerError::Poisoned { why }) if why.contains("injected")),
            "{again:?}"
        );
        assert!(ledger.census().poisoned);
        assert!(ledger.maintain(at(1000)).is_err() && ledger.close().is_err());
        assert!(observe_one(&ledger, request(vec![peek(key(MASS, 1), at(1000))])).readings[0].sum(0, 0) >= 1);
        assert!(pollster::block_on(ledger.timeline(key(MASS, 1))).unwrap().is_some());
        drop(ledger);
        let ledger = embedded(&device.crash(1), 64 << 20, durability);
        assert!(observe_one(&ledger, request(vec![peek(key(MASS, 1), at(1000))])).readings[0].sum(0, 0) >= 1);
    }
}

/// The bytes that shards without keys take, and the pages that are not full: some kilobytes for each of 512.
const FIXED_BYTES: u64 = 2 << 20;

#[test]
fn memory_and_unwritten_bytes_stay_bounded() {
    let device = MemoryDevice::new();
    let ledger = embedded(&device, 1 << 20, "1h");
    for round in 0..2u64 {
        for batch in 0..240u64 {
            let requests: Vec<ObserveRequest> = (0..500)
                .map(|number| request(vec![add(key(MASS, batch * 500 + number), at(1000), [(0, 1)])]))
                .collect();
            for outcome in observe(&ledger, &requests) {
                assert_eq!(outcome.readings[0].sum(0, 0), round);
            }
            let census = ledger.census();
            assert!(census.dirty_bytes < (1 << 18) + (1 << 18), "{census:?}");
            // The directory of 120,000 keys is above the budget; cells have an eighth of it, and what is dirty.
            let cells = census.memory_bytes - census.directory_bytes;
            assert!(cells < (1 << 17) + (1 << 18) + FIXED_BYTES, "{census:?}");
        }
    }
    let census = ledger.census();
    assert!(census.evictions > 0 && census.loads > 0 && census.flushes > 1, "{census:?}");
}

#[test]
fn without_a_disk_the_coldest_are_lost_and_counted() {
    let ledger = EmbeddedLedger::in_memory(catalog(), 1 << 20).unwrap();
    let hot = key(MASS, 0);
    for batch in 0..400u64 {
        let mut requests = vec![request(vec![add(hot, at(1000), [(0, 1)])])];
        requests.extend(
            (1..500).map(|number| request(vec![add(key(MASS, batch * 500 + number), at(1000), [(0, 1)])])),
        );
        observe(&ledger, &requests);
    }
    assert_eq!(
        observe_one(&ledger, request(vec![peek(hot, at(1000))])).readings[0].sum(0, 0),
        400,
        "hot keys stay"
    );
    let census = ledger.census();
    assert_eq!(census.cells + census.evictions, 1 + 400 * 499);
    assert!(census.evictions > 0 && census.memory_bytes <= (1 << 20) + FIXED_BYTES, "{census:?}");
}

#[test]
fn callers_in_parallel_lose_nothing() {
    for durability in ["sync", "1ms"] {
        let device = MemoryDevice::new();
        // So small that cells are evicted and read back under the callers' feet.
        let ledger = embedded(&device, 2 << 10, durability);
        std::thread::scope(|scope| {
            for caller in 0..4u64 {
                let ledger = &ledger;
                scope.spawn(move || {
                    for round in 0..200u64 {
                        let observations = (0..8).map(|number| add(key(MASS, number), at(1000), [(0, 1)]));
                        let id = caller * 1000 + round;
                        let outcomes = observe(ledger, &[once(id, at(1000), observations.collect())]);
                        assert!(!outcomes[0].duplicate);
                        if round % 50 == 0 {
                            ledger.maintain(at(1000)).unwrap();
                        }
                    }
                });
            }
        });
        ledger.close().unwrap();
        let reopened = embedded(&device.crash(3), 2 << 10, durability);
        for number in 0..8 {
            let outcome = observe_one(&reopened, request(vec![peek(key(MASS, number), at(1000))]));
            assert_eq!(outcome.readings[0].sum(0, 0), 800, "{durability}");
        }
    }
}

#[test]
fn an_unreadable_image_is_said_and_counted() {
    let device = MemoryDevice::new();
    let key = key(MASS, 1);
    {
        let ledger = embedded(&device, 64 << 20, "sync");
        observe(&ledger, &[request(vec![add(key, at(1000), [(0, 5)])])]);
    }
    // A definition that nobody knows.
    let record = RecordKey { space: key.space.0, kind: key.kind.0, shingle: key.shingle.0 };
    let (log, _) =
        Log::open(Arc::new(device.clone()), store::log::LogOptions::default(), &mut |_| {}).unwrap();
    let mut writer = log.begin().unwrap();
    writer.push(record, 0x1234, i64::MAX, &[1, 2, 3]).unwrap();
    writer.commit(true).unwrap();
    drop(writer);
    drop(log);
    let ledger = embedded(&device, 64 << 20, "sync");
    let outcome = observe_one(&ledger, request(vec![add(key, at(1000), [(0, 1)]), peek(key, at(1000))]));
    let found: Vec<_> = outcome.readings.iter().map(|reading| (reading.quality, reading.sum(0, 0))).collect();
    assert_eq!(found, [(Quality::Missing, 0), (Quality::Missing, 1)]);
    assert_eq!(ledger.census().damaged, 1);
}
