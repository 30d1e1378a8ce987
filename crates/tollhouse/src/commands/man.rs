//! `tollhouse man`: manual pages.

use std::fs;
use std::path::PathBuf;

use clap::CommandFactory;

use super::Cli;
use crate::console::say;
use crate::exit::{CommandError, Exit};

/// Write the manual pages into a directory
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tollhouse man ~/.local/share/man/man1")]
pub(crate) struct ManArgs {
    /// Directory, created if missing
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

pub(crate) fn run(args: ManArgs) -> Result<Exit, CommandError> {
    let shown = args.directory.display();
    let failed = |error| CommandError::new(format_args!("{shown}: {error}"));
    fs::create_dir_all(&args.directory).map_err(failed)?;
    clap_mangen::generate_to(Cli::command(), &args.directory).map_err(failed)?;
    say(format_args!("Manual pages are in {shown}"));
    Ok(Exit::Fine)
}
