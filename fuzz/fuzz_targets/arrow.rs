//! Any bytes are a batch of events as an Arrow IPC stream: refused, or columns no longer than they say, which can be counted.
#![no_main]

use std::sync::{Arc, OnceLock};

use content::budget::Cancellation;
use engine::Engine;
use engine::batch::EventBatch;
use event::Time;
use libfuzzer_sys::fuzz_target;
use plan::{Config, Overrides, Plan};
use server::arrow::{ArrowLimits, batch, read, write};

static ENGINE: OnceLock<Engine> = OnceLock::new();

fuzz_target!(|bytes: &[u8]| {
    let engine = ENGINE.get_or_init(|| {
        let config = Config::from_preset("analytics", &Overrides::default());
        Engine::ephemeral(Plan::compile(&config).unwrap()).unwrap()
    });
    let limits = ArrowLimits { rows_max: 1000 };
    let Ok(records) = read(bytes.to_vec().into(), limits) else { return };
    let pipeline = Arc::clone(&engine.plan().pipelines[0]);
    let mut answers = Vec::new();
    for record in &records {
        let batch: EventBatch<'_> = batch(record);
        assert!(batch.rows <= limits.rows_max);
        let arrival = Time::from_seconds(1_779_012_000);
        let prepared = engine.prepare_batch(&pipeline, &batch, arrival, &Cancellation::default()).unwrap();
        let answer = pollster::block_on(engine.observe_batch(prepared)).unwrap();
        assert_eq!((answer.rows, answer.duplicate.len()), (batch.rows, batch.rows));
        answers.push((None, answer));
    }
    if !answers.is_empty() {
        let written = write(answers, &[]).unwrap();
        let again = read(written.concat().into(), limits).unwrap();
        assert_eq!(again.len(), records.len());
    }
});
