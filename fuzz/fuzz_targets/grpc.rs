//! Any bytes are a message of gRPC that asks for a batch to be decided, for limits, or for a request to pass: refused, or the same once it is
//! written again; and each event of a batch has a row in the answer.
#![no_main]

use std::fmt::Debug;
use std::sync::{Arc, OnceLock};

use content::budget::Cancellation;
use engine::Engine;
use engine::batch::EventBatch;
use event::{Event, Time};
use libfuzzer_sys::fuzz_target;
use plan::{Config, Overrides, Pipeline, Plan};
use prost::Message;
use server::arrow::{ArrowLimits, batch, read, write};
use server::proto::envoy::service::auth::v3::CheckRequest;
use server::proto::envoy::service::ratelimit::v3::RateLimitRequest;
use server::proto::tollhouse::batch::v1::BatchRequest;
use server::proto::tollhouse::batch::v1::batch_request::Events;

static ENGINE: OnceLock<Engine> = OnceLock::new();

const ROWS_MAX: usize = 1000;

fn again<M: Message + Debug + Default + PartialEq>(bytes: &[u8]) -> Option<M> {
    let message = M::decode(bytes).ok()?;
    assert_eq!(M::decode(message.encode_to_vec().as_slice()).unwrap(), message);
    Some(message)
}

fn decide(engine: &Engine, pipeline: &Arc<Pipeline>, batch: &EventBatch<'_>) -> server::arrow::BatchOutcome {
    let arrival = Time::from_seconds(1_779_012_000);
    let prepared = engine.prepare_batch(pipeline, batch, arrival, &Cancellation::default()).unwrap();
    let (decisions, answer) = pollster::block_on(engine.decide_batch(prepared));
    assert_eq!((decisions.len(), answer.rows), (batch.rows, batch.rows));
    (Some(decisions), answer)
}

fuzz_target!(|bytes: &[u8]| {
    again::<RateLimitRequest>(bytes);
    again::<CheckRequest>(bytes);
    let Some(request) = again::<BatchRequest>(bytes) else { return };
    let engine = ENGINE.get_or_init(|| {
        let config = Config::from_preset("analytics", &Overrides::default());
        Engine::ephemeral(Plan::compile(&config).unwrap()).unwrap()
    });
    let pipeline = Arc::clone(&engine.plan().pipelines[0]);
    match request.events {
        Some(Events::Arrow(body)) => {
            let Ok(records) = read(body, ArrowLimits { rows_max: ROWS_MAX }) else { return };
            let answers: Vec<_> =
                records.iter().map(|record| decide(engine, &pipeline, &batch(record))).collect();
            if !answers.is_empty() {
                assert!(!write(answers, &[]).unwrap().is_empty());
            }
        }
        Some(Events::Ndjson(body)) => {
            let lines = body.split(|byte| *byte == b'\n').take(ROWS_MAX);
            let events: Vec<Event> = lines
                .filter_map(|line| Some(content::json::event(line, &pipeline.schema).ok()?.event))
                .collect();
            decide(engine, &pipeline, &EventBatch::of_events(events));
        }
        None => {}
    }
});
