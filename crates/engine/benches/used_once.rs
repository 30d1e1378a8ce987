//! The cost of a token's use, in microseconds: what the ledger adds to the verification of a solved challenge, so that none counts
//! twice.
//!
//! `cargo bench -p tollhouse-engine --bench used_once`

use std::time::Instant;

use engine::{Directory, Engine, UseResult};
use event::{Span, Time};
use plan::{Config, Overrides, Plan};

const NOW: Time = Time::from_seconds(1_700_000_000);

/// Microseconds of a first use and of a second: the least of five tries, which other work on the machine has disturbed least.
fn timed(engine: &Engine, rounds: u32) -> [f64; 2] {
    let tries = (0..5u32).map(|number| {
        let all = |expected: UseResult| {
            let begun = Instant::now();
            for token in number * rounds..(number + 1) * rounds {
                let token = token.to_le_bytes();
                let used = engine.use_once("site", &token, NOW + Span::minutes(10), NOW);
                assert_eq!(pollster::block_on(used), expected);
            }
            begun.elapsed().as_secs_f64() * 1e6 / f64::from(rounds)
        };
        [all(UseResult::First), all(UseResult::Again)]
    });
    tries.fold([f64::INFINITY; 2], |least, [first, again]| [least[0].min(first), least[1].min(again)])
}

fn main() {
    // As a test it only shows that it runs.
    let is_bench = std::env::args().any(|argument| argument == "--bench");
    let rounds = if is_bench { 20_000 } else { 2 };
    let plan = || Plan::compile(&Config::from_preset("web", &Overrides::default())).expect("a preset");
    let engine = Engine::ephemeral(plan()).expect("an engine");
    let [first, again] = timed(&engine, rounds);
    println!("in memory: first {first:.2} us, again {again:.2} us");
    let parent = tempfile::tempdir().expect("a temporary directory");
    let preset = plan::preset::find("web").expect("a preset");
    let directory = Directory::create(&parent.path().join("data"), &[preset]).expect("a data directory");
    let engine = Engine::open(&directory, plan()).expect("an engine");
    let [first, again] = timed(&engine, rounds);
    println!("on disk, flushed each second: first {first:.2} us, again {again:.2} us");
    engine.close().expect("it closes");
}
