//! `tollhouse rules`: looks at the rules of a configuration, and changes what a node judges by.

mod check;
mod correct;
mod coverage;
mod fmt;
mod list;
mod rollout;
mod sets;
mod test;

use crate::exit::{CommandError, Exit};

/// Check, test, format, list, change and compare rules, and show which fire
#[derive(clap::Args)]
#[command(subcommand_required = true, arg_required_else_help = true)]
#[command(after_help = "\
Examples:
  tollhouse rules check data/tollhouse.toml    What is wrong with it, or suspicious
  tollhouse rules test data/tollhouse.toml     Do rules do what their tests say?
  tollhouse rules fmt data/tollhouse.toml      Format it
  tollhouse rules list --preset mail           What there is, and what it costs
  tollhouse rules coverage --data ./data       Which rules fire, and which never do
  tollhouse rules post new.toml --candidate --server http://127.0.0.1:8377
  tollhouse rules compare --server http://127.0.0.1:8377
  tollhouse rules rollback 3f9c --server http://127.0.0.1:8377")]
pub(crate) struct RulesArgs {
    #[command(subcommand)]
    command: RulesCommand,
}

#[derive(clap::Subcommand)]
enum RulesCommand {
    Check(check::RulesCheckArgs),
    Test(test::RulesTestArgs),
    Fmt(fmt::RulesFmtArgs),
    List(list::RulesListArgs),
    Coverage(coverage::RulesCoverageArgs),
    Post(rollout::RulesPostArgs),
    Reload(rollout::RulesReloadArgs),
    Versions(rollout::RulesVersionsArgs),
    Rollback(rollout::RulesRollbackArgs),
    Show(rollout::RulesShowArgs),
    Names(rollout::RulesNamesArgs),
    Sets(sets::RulesSetsArgs),
    Impact(correct::RulesImpactArgs),
    Correct(correct::RulesCorrectArgs),
    Compare(rollout::RulesCompareArgs),
    Canary(rollout::RulesCanaryArgs),
    Promote(rollout::RulesPromoteArgs),
    Drop(rollout::RulesDropArgs),
}

pub(crate) fn run(args: RulesArgs) -> Result<Exit, CommandError> {
    match args.command {
        RulesCommand::Check(args) => check::run(args),
        RulesCommand::Test(args) => test::run(args),
        RulesCommand::Fmt(args) => fmt::run(args),
        RulesCommand::List(args) => list::run(args),
        RulesCommand::Coverage(args) => coverage::run(args),
        RulesCommand::Post(args) => rollout::post(args),
        RulesCommand::Reload(args) => rollout::reload(args),
        RulesCommand::Versions(args) => rollout::versions(args),
        RulesCommand::Rollback(args) => rollout::rollback(args),
        RulesCommand::Names(args) => rollout::names(args),
        RulesCommand::Sets(args) => sets::run(&args),
        RulesCommand::Impact(args) => correct::impact(args),
        RulesCommand::Correct(args) => correct::run(args),
        RulesCommand::Show(args) => rollout::show_version(args),
        RulesCommand::Compare(args) => rollout::compare(args),
        RulesCommand::Canary(args) => rollout::canary(args),
        RulesCommand::Promote(args) => rollout::promote(args),
        RulesCommand::Drop(args) => rollout::drop_candidate(args),
    }
}
