//! `tollhouse completions`: completion scripts for shells.

use std::io::{self, Write};

use clap::CommandFactory;
use clap_complete::Shell;

use super::Cli;
use crate::exit::{CommandError, Exit};

/// Print a completion script for a shell
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tollhouse completions bash > ~/.local/share/bash-completion/completions/tollhouse
  tollhouse completions zsh > ~/.zfunc/_tollhouse
  tollhouse completions fish > ~/.config/fish/completions/tollhouse.fish")]
pub(crate) struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

pub(crate) fn run(args: CompletionsArgs) -> Result<Exit, CommandError> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "tollhouse", &mut script);
    io::stdout().write_all(&script).map_err(CommandError::output)?;
    Ok(Exit::Fine)
}
