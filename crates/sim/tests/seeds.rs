//! The seeds of `SEEDS`, or a few.

use sim::{SimulationFailure, SimulationSummary};

fn run(
    few: u64,
    simulate: fn(u64) -> Result<SimulationSummary, Box<SimulationFailure>>,
    done: fn(&SimulationSummary) -> Vec<u64>,
) {
    let asked = std::env::var("SEEDS").ok();
    let seeds =
        asked.as_deref().map_or(Some(0..few), sim::seeds).expect("SEEDS is `first..end`, or one seed");
    let tally = sim::run(seeds.clone(), 1, simulate).unwrap_or_else(|failure| panic!("{failure}"));
    assert_eq!(tally.seeds, seeds.end.saturating_sub(seeds.start));
    // What is not done is not tested.
    assert!(asked.is_some() || done(&tally).iter().all(|count| *count > 0), "{tally:?}");
}

#[test]
fn the_ledger_agrees_with_the_model() {
    run(30, sim::simulate, |tally| {
        vec![tally.looks, tally.restarts, tally.crashes, tally.refusals, tally.flips]
    });
}

#[test]
fn the_log_agrees_with_a_list_of_groups() {
    run(100, sim::simulate_log, |tally| vec![tally.looks, tally.restarts, tally.crashes, tally.refusals]);
}
