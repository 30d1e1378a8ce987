//! `tollhouse restore`: a data directory from a snapshot.

use std::path::PathBuf;

use engine::{Directory, DirectoryError, RestoreError};

use super::verify;
use crate::console::{BOLD, say};
use crate::exit::{CommandError, Exit};

/// Verify a snapshot and restore it into a new data directory
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tollhouse restore ./data/snapshots/20261121T090753Z --data ./restored
  tollhouse restore /backup/2026-11-21 --data ./data && tollhouse serve --data ./data

Copies the snapshot. The directory must be missing or empty, and stays so if the snapshot is
damaged.")]
pub(crate) struct RestoreArgs {
    /// Snapshot
    #[arg(value_name = "SNAPSHOT")]
    snapshot: PathBuf,
    /// Data directory to create
    #[arg(long, value_name = "DIR", env = "TOLLHOUSE_DATA")]
    data: PathBuf,
}

pub(crate) fn run(args: RestoreArgs) -> Result<Exit, CommandError> {
    let snapshot = args.snapshot.display();
    let mut progress = verify::progress();
    let restored = Directory::restore(&args.snapshot, &args.data, &mut progress);
    drop(progress);
    restored.map_err(|error| {
        let failure = CommandError::new(&error);
        match &error {
            RestoreError::Directory(DirectoryError::Absent(_)) => {
                CommandError::new(format_args!("{snapshot} is no snapshot: there is no `secret` in it"))
                    .help("`tollhouse snapshot` makes one; those of a server are in `snapshots` of its data directory")
            }
            RestoreError::NotEmpty(_) => failure.help("name another directory, or move that one away"),
            RestoreError::Damaged(verified) => {
                verify::say_damage(verified);
                CommandError::new(format_args!("{snapshot}: {error}; nothing was restored")).help(
                    "take an older snapshot; or keep what can be read of this one: it is a data directory, copy and serve it",
                )
            }
            _ => failure,
        }
    })?;
    say(format_args!("Made {BOLD}{}{BOLD:#} from {snapshot}, all of it verified", args.data.display()));
    Ok(Exit::Fine)
}
