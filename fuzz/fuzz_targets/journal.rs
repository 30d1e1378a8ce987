//! Any bytes are a journal's segment: its blocks up to the first that is damaged, or an error. What reads whole records
//! and what passes over most of them agree on which blocks are whole.
#![no_main]

use std::sync::OnceLock;

use engine::backtest::{Backtest, Question};
use engine::journal::Blocks;
use engine::{Config, Overrides, Plan};
use libfuzzer_sys::fuzz_target;

static BACKTEST: OnceLock<Backtest> = OnceLock::new();

fuzz_target!(|bytes: &[u8]| {
    let backtest = BACKTEST.get_or_init(|| {
        let plan = Plan::compile(&Config::from_preset("mail", &Overrides::default())).unwrap();
        Backtest::new(plan.pipelines[0].clone(), Question::default(), &[])
    });
    let Ok(blocks) = Blocks::new(bytes) else { return };
    for block in blocks {
        let Ok(block) = block else { return };
        let records = block.records();
        let judged = backtest.judge(&block);
        assert!(records.is_err() || judged.is_ok(), "{judged:?}");
    }
});
