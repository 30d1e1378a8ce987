//! `tollhouse rules`: looks at the rules of a configuration without judging anything by them.

mod check;
mod list;
mod test;

use crate::exit::{Exit, Failure};

/// Check, test and list rules
#[derive(clap::Args)]
#[command(subcommand_required = true, arg_required_else_help = true)]
#[command(after_help = "\
Examples:
  tollhouse rules check data/tollhouse.toml    What is wrong with it, or suspicious
  tollhouse rules test data/tollhouse.toml     Do rules do what their tests say?
  tollhouse rules list --preset mail           What there is, and what it costs")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    Check(check::Args),
    Test(test::Args),
    List(list::Args),
}

pub(crate) fn run(args: Args) -> Result<Exit, Failure> {
    match args.command {
        Command::Check(args) => check::run(args),
        Command::Test(args) => test::run(args),
        Command::List(args) => list::run(args),
    }
}
