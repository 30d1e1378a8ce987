//! The commands.

mod allow;
mod anomalies;
mod audit;
mod backtest;
mod bans;
mod bench;
mod check;
mod compare;
mod completions;
mod config;
mod counts;
mod decisions;
mod demo;
mod enforce;
mod erase;
mod explain;
mod export;
mod feedback;
mod fit;
mod follow;
mod health;
mod import;
pub(crate) mod init;
mod learn;
mod learners;
mod ledger;
mod limits;
mod man;
mod nodes;
mod note;
mod notify;
mod plan;
mod preset;
mod replay;
mod report;
mod report_log;
mod restore;
mod reviews;
mod rules;
mod searches;
mod serve;
mod sessions;
mod settings;
mod snapshot;
mod sources;
mod stats;
mod test;
mod token;
mod top;
mod user;
mod verify;

use clap::{Parser, Subcommand};

use crate::exit::{CommandError, Exit};
use crate::features::VERSION;

/// Counts mail and web events by hashed keys over time windows, judges them by rules, and explains each verdict
#[derive(Parser)]
#[command(
    name = "tollhouse",
    version,
    long_version = VERSION.as_str(),
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
    command: CliCommand,
}

#[derive(Subcommand)]
enum CliCommand {
    Init(init::InitArgs),
    Serve(serve::ServeArgs),
    Health(health::HealthArgs),
    Nodes(nodes::NodesArgs),
    Sources(sources::SourcesArgs),
    Notify(notify::NotifyArgs),
    Demo(demo::Args),
    Check(check::CheckArgs),
    Compare(compare::CompareArgs),
    Learn(learn::LearnArgs),
    Report(report::ReportArgs),
    Feedback(feedback::FeedbackArgs),
    Replay(replay::ReplayArgs),
    ReportLog(report_log::ReportLogArgs),
    Follow(follow::FollowArgs),
    Enforce(enforce::EnforceArgs),
    Bans(bans::BansArgs),
    Allow(allow::AllowArgs),
    Limits(limits::LimitsArgs),
    Note(note::NoteArgs),
    Decisions(decisions::DecisionsArgs),
    Counts(counts::CountsArgs),
    Searches(searches::SearchesArgs),
    Explain(explain::ExplainArgs),
    Stats(stats::StatsArgs),
    Top(top::TopArgs),
    Anomalies(anomalies::AnomaliesArgs),
    Learners(learners::LearnersArgs),
    Export(export::ExportArgs),
    Backtest(backtest::BacktestArgs),
    Fit(fit::FitArgs),
    Import(import::ImportArgs),
    Test(test::TestArgs),
    Erase(erase::EraseArgs),
    Verify(verify::VerifyArgs),
    Snapshot(snapshot::SnapshotArgs),
    Restore(restore::RestoreArgs),
    Reviews(reviews::ReviewsArgs),
    Token(token::TokenArgs),
    User(user::UserArgs),
    Sessions(sessions::SessionsArgs),
    Audit(audit::AuditArgs),
    Ledger(ledger::LedgerArgs),
    Config(config::ConfigArgs),
    Settings(settings::SettingsArgs),
    Rules(rules::RulesArgs),
    Preset(preset::PresetArgs),
    Plan(plan::PlanArgs),
    Bench(bench::BenchArgs),
    Completions(completions::CompletionsArgs),
    Man(man::ManArgs),
}

impl Cli {
    /// Runs the command that was given.
    pub(crate) fn run(self) -> Result<Exit, CommandError> {
        match self.command {
            CliCommand::Init(args) => init::run(args),
            CliCommand::Serve(args) => serve::run(args),
            CliCommand::Health(args) => health::run(args),
            CliCommand::Nodes(args) => nodes::run(args),
            CliCommand::Sources(args) => sources::run(args),
            CliCommand::Notify(args) => notify::run(args),
            CliCommand::Demo(args) => demo::run(args),
            CliCommand::Check(args) => check::run(args),
            CliCommand::Compare(args) => compare::run(args),
            CliCommand::Learn(args) => learn::run(args),
            CliCommand::Report(args) => report::run(args),
            CliCommand::Feedback(args) => feedback::run(args),
            CliCommand::Replay(args) => replay::run(args),
            CliCommand::ReportLog(args) => report_log::run(args),
            CliCommand::Follow(args) => follow::run(args),
            CliCommand::Enforce(args) => enforce::run(args),
            CliCommand::Bans(args) => bans::run(args),
            CliCommand::Allow(args) => allow::run(args),
            CliCommand::Limits(args) => limits::run(args),
            CliCommand::Note(args) => note::run(args),
            CliCommand::Decisions(args) => decisions::run(args),
            CliCommand::Counts(args) => counts::run(args),
            CliCommand::Searches(args) => searches::run(args),
            CliCommand::Explain(args) => explain::run(args),
            CliCommand::Stats(args) => stats::run(args),
            CliCommand::Top(args) => top::run(args),
            CliCommand::Anomalies(args) => anomalies::run(args),
            CliCommand::Learners(args) => learners::run(args),
            CliCommand::Export(args) => export::run(args),
            CliCommand::Backtest(args) => backtest::run(args),
            CliCommand::Fit(args) => fit::run(args),
            CliCommand::Import(args) => import::run(args),
            CliCommand::Test(args) => test::run(args),
            CliCommand::Erase(args) => erase::run(args),
            CliCommand::Verify(args) => verify::run(args),
            CliCommand::Snapshot(args) => snapshot::run(args),
            CliCommand::Restore(args) => restore::run(args),
            CliCommand::Reviews(args) => reviews::run(args),
            CliCommand::Token(args) => token::run(args),
            CliCommand::User(args) => user::run(args),
            CliCommand::Sessions(args) => sessions::run(args),
            CliCommand::Audit(args) => audit::run(args),
            CliCommand::Ledger(args) => ledger::run(args),
            CliCommand::Config(args) => config::run(args),
            CliCommand::Settings(args) => settings::run(args),
            CliCommand::Rules(args) => rules::run(args),
            CliCommand::Preset(args) => preset::run(args),
            CliCommand::Plan(args) => plan::run(args),
            CliCommand::Bench(args) => bench::run(args),
            CliCommand::Completions(args) => completions::run(args),
            CliCommand::Man(args) => man::run(args),
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
        let text = include_str!("../../../../docs/reference/cli.md");
        for command in Cli::command().get_subcommands() {
            assert!(text.contains(&format!("\n## `{}`\n", command.get_name())), "{}", command.get_name());
        }
    }

    #[test]
    fn every_command_teaches_by_examples() {
        for command in Cli::command().get_subcommands() {
            let taught = command.get_after_help().is_some_and(|help| help.to_string().contains("tollhouse "));
            assert!(taught, "{} has no examples", command.get_name());
            holds_short_lines(command);
        }
    }

    /// Lines of examples are not wrapped, so a terminal would tear longer ones.
    fn holds_short_lines(command: &clap::Command) {
        let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        let long: Vec<&str> = help.lines().filter(|line| line.chars().count() > 100).collect();
        assert!(long.is_empty(), "{}: lines would be torn: {long:?}", command.get_name());
        command.get_subcommands().for_each(holds_short_lines);
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

    /// Returns true if a command has a flag.
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
        // An ellipsis stands for words that are not known, and behind `--` is another program.
        for word in words.take_while(|word| !["…", "--", "[--"].contains(word)) {
            if let Some(inner) = command.find_subcommand(word) {
                command = inner;
            }
            for flag in
                word.trim_start_matches(['[', '<']).split('|').filter_map(|flag| flag.strip_prefix("--"))
            {
                let flag = flag.split(['=', '.', ',', ']', '"', '>']).next().unwrap_or(flag);
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
