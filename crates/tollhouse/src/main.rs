//! The command line: one module a command, each of which names its flags, teaches them by examples and runs.
//!
//! Commands work offline, on a data directory or in memory, or ask a server; answers look the same. Results go to
//! standard output and everything said beside them to standard error. `docs/reference/cli.md` documents shapes and exit codes.

mod client;
mod clock;
mod commands;
mod console;
mod corpora;
mod draw;
mod exit;
mod home;
mod input;
mod interrupt;
mod losses;
mod memory;
mod options;
mod ordered;
mod reading;
#[cfg(test)]
mod reference;
mod tally;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    memory::keep();
    match commands::Cli::parse().run() {
        Ok(exit) => exit.into(),
        Err(failure) => failure.report(),
    }
}
