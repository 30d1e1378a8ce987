//! Any bytes are a journal's segment: blocks, and stretches that are none, which lie one behind the other up to its end.
//! What reads whole records and what passes over most of them agree on which blocks are whole.
#![no_main]

use std::sync::OnceLock;

use disk::{Device, MemoryDevice};
use engine::backtest::{Backtest, BacktestQuery};
use journal::{BlockIter, SegmentPiece};
use libfuzzer_sys::fuzz_target;
use plan::{Config, Overrides, Plan};

static BACKTEST: OnceLock<Backtest> = OnceLock::new();

fuzz_target!(|bytes: &[u8]| {
    let backtest = BACKTEST.get_or_init(|| {
        let plan = Plan::compile(&Config::from_preset("mail", &Overrides::default())).unwrap();
        Backtest::new(plan.pipelines[0].clone(), BacktestQuery::default(), &[])
    });
    let device = MemoryDevice::new();
    device.write("a.journal", bytes);
    let Ok(blocks) = BlockIter::new(device.open("a.journal").unwrap()) else { return };
    let mut end = 0;
    for piece in blocks {
        match piece.unwrap() {
            SegmentPiece::Damaged(stretch) => {
                assert!(end <= stretch.from && stretch.from < stretch.to && stretch.to <= bytes.len() as u64);
                end = stretch.to;
            }
            SegmentPiece::Sound(block) => {
                assert!(end <= block.head.at);
                end = block.head.at + block.disk_bytes();
                let records = block.records();
                let judged = backtest.judge(&block);
                assert!(records.is_err() || judged.is_ok(), "{judged:?}");
            }
        }
    }
    assert!(end == bytes.len() as u64 || end == 0);
});
