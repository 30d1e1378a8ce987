//! Any bytes are a ledger's segment: it opens, or says why not, and every image that it names can be read.
#![no_main]

use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use stats::{Catalog, Durability, Embedded, Ledger};
use store::{MemoryDevice, Options, Store};

fuzz_target!(|bytes: &[u8]| {
    let device = MemoryDevice::new();
    device.write("00000000.seg", bytes);
    let Ok((store, _)) = Store::open(Arc::new(device), Options::default()) else { return };
    let _ = store.verify();
    let options = stats::Options { memory_bytes: 1 << 20, durability: Durability::None };
    if let Ok(ledger) = Embedded::open(store, Catalog::default(), options) {
        let _ = ledger.close();
    }
});
