//! Any bytes are a journal's segment by columns, or an error: what reads whole records and what reads some columns of them
//! neither panics nor takes memory that the bytes only state.
#![no_main]

use std::sync::OnceLock;

use engine::backtest::{Backtest, BacktestQuery};
use journal::bare_columns;
use libfuzzer_sys::fuzz_target;
use plan::{Config, Overrides, Plan};

static BACKTEST: OnceLock<Backtest> = OnceLock::new();

fuzz_target!(|bytes: &[u8]| {
    let backtest = BACKTEST.get_or_init(|| {
        let plan = Plan::compile(&Config::from_preset("mail", &Overrides::default())).unwrap();
        Backtest::new(plan.pipelines[0].clone(), BacktestQuery::default(), &[])
    });
    let Ok(blocks) = bare_columns(bytes.to_vec()) else { return };
    for block in blocks {
        let records = block.records();
        let judged = backtest.judge(&block);
        assert!(records.is_err() || judged.is_ok(), "{judged:?}");
    }
});
