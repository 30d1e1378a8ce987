//! `tollhouse rules`: looks at the rules of a configuration, and changes what a node judges by.

mod check;
mod coverage;
mod fmt;
mod list;
mod live;
mod test;

use crate::exit::{Exit, Failure};

/// Check, test, lay out, list, change and compare rules, and see which fire
#[derive(clap::Args)]
#[command(subcommand_required = true, arg_required_else_help = true)]
#[command(after_help = "\
Examples:
  tollhouse rules check data/tollhouse.toml    What is wrong with it, or suspicious
  tollhouse rules test data/tollhouse.toml     Do rules do what their tests say?
  tollhouse rules fmt data/tollhouse.toml      Lay it out as everybody's is
  tollhouse rules list --preset mail           What there is, and what it costs
  tollhouse rules coverage --data ./data       Which rules fire, and which never do
  tollhouse rules post new.toml --candidate --server http://127.0.0.1:8377
  tollhouse rules compare --server http://127.0.0.1:8377
  tollhouse rules rollback 3f9c --server http://127.0.0.1:8377")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    Check(check::Args),
    Test(test::Args),
    Fmt(fmt::Args),
    List(list::Args),
    Coverage(coverage::Args),
    Post(live::Post),
    Reload(live::Reload),
    Versions(live::Versions),
    Rollback(live::Rollback),
    Compare(live::Compare),
    Promote(live::Promote),
}

pub(crate) fn run(args: Args) -> Result<Exit, Failure> {
    match args.command {
        Command::Check(args) => check::run(args),
        Command::Test(args) => test::run(args),
        Command::Fmt(args) => fmt::run(args),
        Command::List(args) => list::run(args),
        Command::Coverage(args) => coverage::run(args),
        Command::Post(args) => live::post(args),
        Command::Reload(args) => live::reload(args),
        Command::Versions(args) => live::versions(args),
        Command::Rollback(args) => live::rollback(args),
        Command::Compare(args) => live::compare(args),
        Command::Promote(args) => live::promote(args),
    }
}
