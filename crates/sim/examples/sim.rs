//! Runs simulations of the ledger, or of the log alone: `cargo run --release -p tollhouse-sim --example sim -- [log] 0..10000`.

use std::process::ExitCode;

fn main() -> ExitCode {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    let log = arguments.first().is_some_and(|first| first == "log");
    if log {
        arguments.remove(0);
    }
    let asked = arguments.into_iter().next().or_else(|| std::env::var("SEEDS").ok());
    let Some(seeds) = asked.as_deref().map_or(Some(0..1000), sim::seeds) else {
        eprintln!("usage: sim [log] [FIRST..END]   or one seed; the environment variable SEEDS does as well");
        return ExitCode::from(2);
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    match sim::run(seeds, threads, if log { sim::simulate_log } else { sim::simulate }) {
        Ok(_) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("{failure}");
            ExitCode::FAILURE
        }
    }
}
