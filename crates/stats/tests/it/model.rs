//! Random histories against a model that keeps every event in a list.

use disk::MemoryDevice;
use sim::suite::model::{HomeUnderTest, check};
use stats::{EmbeddedLedger, Ledger};

use crate::support::*;

#[derive(Clone, Copy, PartialEq)]
enum KeepMode {
    Memory,
    Sync,
    Interval,
    None,
}

struct Home {
    kept: KeepMode,
    memory_bytes: usize,
    device: MemoryDevice,
    ledger: Option<EmbeddedLedger>,
}

impl Home {
    fn new(kept: KeepMode, memory_bytes: usize) -> Home {
        let mut home = Home { kept, memory_bytes, device: MemoryDevice::new(), ledger: None };
        home.open();
        home
    }

    fn open(&mut self) {
        let open = |durability| embedded(&self.device, self.memory_bytes, durability);
        self.ledger = Some(match self.kept {
            KeepMode::Memory => EmbeddedLedger::in_memory(catalog(), 64 << 20).unwrap(),
            KeepMode::Sync => open("sync"),
            KeepMode::Interval => open("1h"),
            KeepMode::None => open("none"),
        });
    }
}

impl HomeUnderTest for Home {
    fn ledger(&self) -> &dyn Ledger {
        self.ledger.as_ref().unwrap()
    }

    fn reopen(&mut self) -> bool {
        if self.kept == KeepMode::Memory {
            return false;
        }
        self.ledger().close().unwrap();
        self.ledger = None;
        self.open();
        true
    }

    fn crash(&mut self, seed: u64) -> bool {
        if !matches!(self.kept, KeepMode::Sync | KeepMode::Interval) {
            return false;
        }
        let image = self.device.crash(seed);
        self.ledger = None;
        self.device = image;
        self.open();
        true
    }

    fn settle(&self) {}

    fn keeps_every_answer(&self) -> bool {
        self.kept == KeepMode::Sync
    }

    fn marks_expire(&self) -> bool {
        true
    }
}

#[test]
fn random_histories_agree_with_a_list_of_events() {
    for seed in 0..8 {
        check(seed, &mut Home::new(KeepMode::Memory, 64 << 20));
        // With 4 KiB nearly every cell is read back each time, and segments are merged all the while.
        for memory_bytes in [4 << 10, 64 << 20] {
            for kept in [KeepMode::Sync, KeepMode::Interval, KeepMode::None] {
                check(seed, &mut Home::new(kept, memory_bytes));
            }
        }
    }
}
