//! Many simulations.

use parking_lot::Mutex;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::simulation::{SimulationFailure, SimulationSummary};

/// Between two lines of progress.
const PROGRESS: Duration = Duration::from_secs(5);
/// A simulation that takes longer hangs, most likely.
const LONG: Duration = Duration::from_secs(20);

/// Reads `a..b`, or `a` for that one seed.
pub fn seeds(text: &str) -> Option<Range<u64>> {
    match text.trim().split_once("..") {
        Some((from, to)) => Some(from.trim().parse().ok()?..to.trim().parse().ok()?),
        None => {
            let seed: u64 = text.trim().parse().ok()?;
            Some(seed..seed.checked_add(1)?)
        }
    }
}

/// Runs the seeds on so many threads, each simulation on one; stops at the first failure. Prints how far it is every
/// few seconds, which seed does not end, and how fast it was.
///
/// # Errors
/// The failure.
pub fn run(
    seeds: Range<u64>,
    threads: usize,
    simulate: fn(u64) -> Result<SimulationSummary, Box<SimulationFailure>>,
) -> Result<SimulationSummary, Box<SimulationFailure>> {
    let start = Instant::now();
    let next = AtomicU64::new(seeds.start);
    let shared = Mutex::new(RunnerState::default());
    let main = std::thread::current();
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads.max(1))
            .map(|_| {
                scope.spawn(|| {
                    loop {
                        let seed = next.fetch_add(1, Ordering::Relaxed);
                        if seed >= seeds.end {
                            break;
                        }
                        shared.lock().running.push((seed, Instant::now()));
                        let result = simulate(seed);
                        let mut shared = shared.lock();
                        shared.running.retain(|(running, _)| *running != seed);
                        match result {
                            Ok(tally) => shared.tally.add(&tally),
                            Err(failure) => {
                                // No thread starts another one.
                                next.store(seeds.end, Ordering::Relaxed);
                                shared.failure.get_or_insert(failure);
                            }
                        }
                    }
                    main.unpark();
                })
            })
            .collect();
        while !workers.iter().all(|worker| worker.is_finished()) {
            std::thread::park_timeout(PROGRESS);
            let shared = shared.lock();
            if start.elapsed() >= PROGRESS && !shared.running.is_empty() {
                let left = seeds.end - seeds.start - shared.tally.seeds;
                eprintln!("{:.0} seeds/s, {left} left", rate(&shared.tally, start));
            }
            for (seed, since) in shared.running.iter().filter(|(_, since)| since.elapsed() >= LONG) {
                eprintln!("seed {seed} has not ended for {} s", since.elapsed().as_secs());
            }
        }
    });
    let RunnerState { tally, failure, .. } = shared.into_inner();
    match failure {
        Some(failure) => Err(failure),
        None => {
            println!("{:.0} seeds/s: {tally:?}", rate(&tally, start));
            Ok(tally)
        }
    }
}

#[derive(Default)]
struct RunnerState {
    tally: SimulationSummary,
    failure: Option<Box<SimulationFailure>>,
    running: Vec<(u64, Instant)>,
}

fn rate(tally: &SimulationSummary, since: Instant) -> f64 {
    tally.seeds as f64 / since.elapsed().as_secs_f64().max(1e-9)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_are_a_range_or_one() {
        assert_eq!(seeds("3..10"), Some(3..10));
        assert_eq!(seeds(" 7 "), Some(7..8));
        assert_eq!((seeds("x"), seeds("1.."), seeds("18446744073709551615")), (None, None, None));
    }
}
