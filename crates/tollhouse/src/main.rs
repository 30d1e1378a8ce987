//! The command line: one module a command, each of which names its flags, teaches them by examples and runs.
//!
//! Commands work offline, on a data directory or in memory, or ask a server; answers look the same. Results go to
//! standard output and everything said beside them to standard error. `docs/reference/cli.md` documents shapes and exit codes.

mod audit;
mod brokers;
mod client;
mod clock;
#[cfg(feature = "cluster")]
mod cluster_home;
mod commands;
mod console;
mod corpora;
mod crowdsec_files;
mod exit;
mod features;
mod input;
mod interrupt;
mod ledger_home;
mod log_input;
#[cfg(feature = "mail-auth")]
mod lookups;
mod losses;
mod memory;
mod message_reader;
mod object_journal;
mod options;
mod ordered_pool;
#[cfg(all(
    test,
    feature = "arrow",
    feature = "cluster",
    feature = "grpc",
    feature = "kafka",
    feature = "mail-auth"
))]
mod reference;
mod rendering;
mod sinks;
mod tally;
mod trust;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    memory::keep();
    match commands::Cli::parse().run() {
        Ok(exit) => exit.into(),
        Err(failure) => {
            console::report(&failure);
            ExitCode::from(&failure)
        }
    }
}
