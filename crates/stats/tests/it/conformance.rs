//! Conformance of every home of statistics.

use disk::MemoryDevice;
use sim::suite::conformance::check;
use stats::EmbeddedLedger;

use crate::support::*;

#[test]
fn in_memory_conforms() {
    check(&EmbeddedLedger::in_memory(catalog(), 64 << 20).unwrap(), u64::MAX);
}

#[test]
fn embedded_conforms_under_every_durability() {
    for durability in ["sync", "1ms", "1h", "none"] {
        let device = MemoryDevice::new();
        check(&embedded(&device, 64 << 20, durability), u64::MAX);
        let reopened = embedded(&device, 64 << 20, durability);
        assert_eq!(
            observe_one(&reopened, request(vec![peek(key(VISITS, 1200), at(100_700))])).readings[0].sum(0, 0),
            1
        );
    }
}

#[test]
fn nobody_dates_himself_out_of_a_limit() {
    let ledger = EmbeddedLedger::in_memory(limits::catalog(false), 64 << 20).unwrap();
    (0..40).for_each(|seed| limits::check(&ledger, seed));
}
