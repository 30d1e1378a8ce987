//! `tollhouse test`: runs other programs' own tests of the files that are imported from them.

mod crowdsec;

use crate::exit::{CommandError, Exit};

/// Run the tests of another program's files
#[derive(clap::Args)]
#[command(subcommand_required = true, arg_required_else_help = true)]
#[command(after_help = "\
Examples:
  tollhouse test crowdsec ~/hub
  tollhouse test crowdsec --only sshd-logs ~/hub")]
pub(crate) struct TestArgs {
    #[command(subcommand)]
    command: TestCommand,
}

#[derive(clap::Subcommand)]
enum TestCommand {
    Crowdsec(crowdsec::CrowdsecTestArgs),
}

pub(crate) fn run(args: TestArgs) -> Result<Exit, CommandError> {
    match args.command {
        TestCommand::Crowdsec(args) => crowdsec::run(&args),
    }
}
