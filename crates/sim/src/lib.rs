//! Seeded simulations of the ledger: random load, crashes, failing disks and leaping clocks, checked against a model
//! that keeps every event in a list. A failure prints its seed, and the seed replays it.
//!
//! ```text
//! seed ─► configuration, load, faults ─► step ─┬─► the ledger over a device in memory ─┐
//!                                              └─► the model ──────────────────────────┴─► equal, or the seed fails
//! ```
//!
//! `cargo run --release -p tollhouse-sim --example sim -- 0..10000` runs many; `./test` runs a few.
//!
//! [`suite`] is what every home of the ledger has to pass, without a simulation.
//!
//! What a seed does not fix: the ledger's flusher is a thread of its own. A simulation waits for it whenever it asks
//! for a flush, and intervals are longer than a run, so that the order of steps is fixed but for two things: without a
//! promised durability the flusher wakes up every second, and a flush that was asked for may still be ending when the
//! next step begins. Both change only what an image of a crash holds, and so which of the possible states is found.

#![forbid(unsafe_code)]

mod home;
mod log_simulation;
mod oracle;
mod runner;
mod simulation;
mod spec;
pub mod suite;

pub use log_simulation::simulate_log;
pub use runner::{run, seeds};
pub use simulation::{SimulationFailure, SimulationSummary, simulate};
pub use stats::random::Random;

/// Error numbers with which a device refuses to create or open a file for want of something, and has not failed: an
/// interrupted call, no memory, too many open files in the system, and in the process.
pub const LACKS: [i32; 4] = [4, 12, 23, 24];
