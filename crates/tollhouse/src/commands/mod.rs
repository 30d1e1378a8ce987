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

    /// The parts of a text that are commands of the program: in backquotes, or lines of examples.
    fn told(text: &str) -> Vec<&str> {
        let quoted = text.lines().flat_map(|line| line.split('`').skip(1).step_by(2));
        let shown = text.lines().map(str::trim_start).filter_map(|line| line.split("  ").next());
        let own = |line: &&str| line.starts_with("tollhouse ");
        let mut told: Vec<&str> = quoted.filter(own).collect();
        told.extend(shown.filter(own).filter(|line| !line.contains('`')));
        told
    }

    /// Whether a command has a flag.
    fn has(command: &clap::Command, flag: &str) -> bool {
        let own = command.get_arguments().any(|argument| argument.get_long() == Some(flag));
        own || ["help", "version"].contains(&flag)
    }

    fn check(place: &str, text: &str) {
        let all = Cli::command();
        let mut words = text
            .split_whitespace()
            .skip(1)
            .take_while(|word| !["|", "<", ">", ">>", "&", "&&"].contains(word));
        let Some(name) = words.next().filter(|name| name.chars().all(|it| it.is_ascii_lowercase())) else {
            return;
        };
        // In Postfix' `master.cf` a service has this name.
        if name == "unix" {
            return;
        }
        let Some(mut command) = all.find_subcommand(name) else {
            panic!("{place}: {text}: there is no {name}")
        };
        // An ellipsis stands for words that are not known.
        for word in words.take_while(|word| *word != "…") {
            if let Some(inner) = command.find_subcommand(word) {
                command = inner;
            }
            for flag in word.trim_start_matches('[').split('|').filter_map(|flag| flag.strip_prefix("--")) {
                let flag = flag.split(['=', '.', ',', ']', '"']).next().unwrap_or(flag);
                assert!(has(command, flag), "{place}: `{text}`: {} has no --{flag}", command.get_name());
            }
        }
    }

    fn sources(directory: &std::path::Path, into: &mut Vec<std::path::PathBuf>) {
        for entry in std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()) {
            match entry.is_dir() {
                true => sources(&entry, into),
                false if entry.extension().is_some_and(|it| it == "rs" || it == "md") => into.push(entry),
                false => {}
            }
        }
    }

    /// Nobody is advised to type what is not there.
    #[test]
    fn commands_and_flags_that_texts_name_exist() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let mut files = vec![root.join("README.md"), root.join("CONTRIBUTING.md")];
        for part in ["crates", "docs"] {
            sources(&root.join(part), &mut files);
        }
        let mut checked = 0;
        for file in files.iter().filter(|file| !file.ends_with("commands/mod.rs")) {
            let text = std::fs::read_to_string(file).unwrap();
            let place = file.display().to_string();
            for told in told(&text) {
                check(&place, told);
                checked += 1;
            }
        }
        assert!(checked > 150, "{checked}");
    }
}
