//! Runs simulations: `cargo run --release -p tollhouse-sim -- 0..10000`.

use std::process::ExitCode;

fn main() -> ExitCode {
    let argument = std::env::args().nth(1).or_else(|| std::env::var("SEEDS").ok());
    let Some(seeds) = argument.as_deref().map_or(Some(0..1000), sim::seeds) else {
        eprintln!("usage: sim [FIRST..END]   or one seed; the environment variable SEEDS does as well");
        return ExitCode::from(2);
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    match sim::run(seeds, threads) {
        Ok(_) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("{failure}");
            ExitCode::FAILURE
        }
    }
}
