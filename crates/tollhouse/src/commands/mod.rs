//! The commands.

mod backtest;
mod bench;
mod check;
mod compare;
mod completions;
mod config;
mod demo;
mod erase;
mod explain;
mod export;
mod feedback;
mod follow;
mod import;
pub(crate) mod init;
mod learn;
mod man;
mod plan;
mod preset;
mod replay;
mod report;
mod restore;
mod rules;
mod serve;
mod snapshot;
mod stats;
mod top;
mod verify;

use clap::{Parser, Subcommand};

use crate::exit::{Exit, Failure};

/// Counts mail and web events by hashed keys over time windows, judges them by rules, and explains each verdict
#[derive(Parser)]
#[command(
    name = "tollhouse",
    version,
    propagate_version = true,
    subcommand_required = true,
    arg_required_else_help = true,
    after_help = "\
Examples:
  tollhouse demo                              See it work on bundled mail and web events
  tollhouse init --data ./data                Make a data directory for mail
  tollhouse serve --data ./data               Serve HTTP on 127.0.0.1:8377
  tollhouse check --message-time ~/Maildir    Judge stored mail, without a server

Exit codes: 0 fine; 1 done, but some data is wrong; 2 could not be done; 130 interrupted."
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Init(init::Args),
    Serve(serve::Args),
    Demo(demo::Args),
    Check(check::Args),
    Compare(compare::Args),
    Learn(learn::Args),
    Report(report::Args),
    Feedback(feedback::Args),
    Replay(replay::Args),
    Follow(follow::Args),
    Explain(explain::Args),
    Stats(stats::Args),
    Top(top::Args),
    Export(export::Args),
    Backtest(backtest::Args),
    Import(import::Args),
    Erase(erase::Args),
    Verify(verify::Args),
    Snapshot(snapshot::Args),
    Restore(restore::Args),
    Config(config::Args),
    Rules(rules::Args),
    Preset(preset::Args),
    Plan(plan::Args),
    Bench(bench::Args),
    Completions(completions::Args),
    Man(man::Args),
}

impl Cli {
    /// Runs the command that was given.
    pub(crate) fn run(self) -> Result<Exit, Failure> {
        match self.command {
            Command::Init(args) => init::run(args),
            Command::Serve(args) => serve::run(args),
            Command::Demo(args) => demo::run(args),
            Command::Check(args) => check::run(args),
            Command::Compare(args) => compare::run(args),
            Command::Learn(args) => learn::run(args),
            Command::Report(args) => report::run(args),
            Command::Feedback(args) => feedback::run(args),
            Command::Replay(args) => replay::run(args),
            Command::Follow(args) => follow::run(args),
            Command::Explain(args) => explain::run(args),
            Command::Stats(args) => stats::run(args),
            Command::Top(args) => top::run(args),
            Command::Export(args) => export::run(args),
            Command::Backtest(args) => backtest::run(args),
            Command::Import(args) => import::run(args),
            Command::Erase(args) => erase::run(args),
            Command::Verify(args) => verify::run(args),
            Command::Snapshot(args) => snapshot::run(args),
            Command::Restore(args) => restore::run(args),
            Command::Config(args) => config::run(args),
            Command::Rules(args) => rules::run(args),
            Command::Preset(args) => preset::run(args),
            Command::Plan(args) => plan::run(args),
            Command::Bench(args) => bench::run(args),
            Command::Completions(args) => completions::run(args),
            Command::Man(args) => man::run(args),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn flags_do_not_contradict_each_other() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_command_is_documented() {
        let text = include_str!("../../../../docs/cli.md");
        for command in Cli::command().get_subcommands() {
            assert!(text.contains(&format!("\n## `{}`\n", command.get_name())), "{}", command.get_name());
        }
    }

    #[test]
    fn every_command_teaches_by_examples() {
        for command in Cli::command().get_subcommands() {
            let taught = command.get_after_help().is_some_and(|help| help.to_string().contains("tollhouse "));
            assert!(taught, "{} has no examples", command.get_name());
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            let long: Vec<&str> = help.lines().filter(|line| line.chars().count() > 100).collect();
            assert!(long.is_empty(), "lines would be torn: {long:?}");
        }
    }
}
