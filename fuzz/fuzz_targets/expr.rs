//! Any text is an expression or an error with its place; an expression comes to a value or an error within its steps.
#![no_main]

use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use logs::crowdsec::data_files::CrowdsecDataFiles;
use logs::crowdsec::evaluator::{ExprEnvironment, ExprMemory};
use logs::crowdsec::expression::CrowdsecExpression;
use logs::crowdsec::record::CrowdsecRecord;
use logs::crowdsec::{duration, go_date};

fuzz_target!(|raw: &[u8]| {
    let text = String::from_utf8_lossy(raw);
    if text.len() > 2048 {
        return;
    }
    let (expression, line) = text.split_once("\n---\n").unwrap_or((&text, ""));
    let _ = (duration::parse(line), go_date::parse(expression, line, 0), go_date::parse_usual(line, 0));
    let expression = match CrowdsecExpression::parse(expression) {
        Ok(expression) => expression,
        Err(error) => {
            assert!(error.at <= text.len());
            return;
        }
    };
    let mut data = CrowdsecDataFiles::default();
    data.add("list.txt", line);
    let mut memory = ExprMemory::default();
    let mut record = CrowdsecRecord::default();
    Arc::make_mut(&mut record.parsed).insert(Arc::from("message"), Arc::from(line));
    Arc::make_mut(&mut record.line).raw = Arc::from(line);
    for _ in 0..2 {
        let mut environment = ExprEnvironment {
            record: Some(&mut record),
            names: &[],
            data: &data,
            memory: &mut memory,
            now: 1_700_000_000_000_000_000,
        };
        if let Ok(value) = expression.evaluate(&mut environment) {
            let _ = (value.to_string(), value.to_json());
        }
    }
});
