//! `tollhouse rules`: looks at the rules of a configuration without judging anything by them.

mod check;
mod coverage;
mod fmt;
mod list;
mod test;

use crate::exit::{Exit, Failure};

/// Check, test, lay out and list rules, and see which fire
#[derive(clap::Args)]
#[command(subcommand_required = true, arg_required_else_help = true)]
#[command(after_help = "\
Examples:
  tollhouse rules check data/tollhouse.toml    What is wrong with it, or suspicious
  tollhouse rules test data/tollhouse.toml     Do rules do what their tests say?
  tollhouse rules fmt data/tollhouse.toml      Lay it out as everybody's is
  tollhouse rules list --preset mail           What there is, and what it costs
  tollhouse rules coverage --data ./data       Which rules fire, and which never do")]
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
}

pub(crate) fn run(args: Args) -> Result<Exit, Failure> {
    match args.command {
        Command::Check(args) => check::run(args),
        Command::Test(args) => test::run(args),
        Command::Fmt(args) => fmt::run(args),
        Command::List(args) => list::run(args),
        Command::Coverage(args) => coverage::run(args),
    }
}
