//! `tollhouse import limits`: writes the limits of Limitador as those of the configuration.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::PathBuf;

use indicatif::HumanCount;

use crate::console::say;
use crate::exit::{CommandError, Exit};

/// Convert Limitador's limits file to [[limit]] sections
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tollhouse import limits limits.yaml >> data/tollhouse.toml
  tollhouse import limits --output more.toml limits.yaml

What a limit cannot express, such as conditions, is reported and kept as comments.")]
pub(super) struct LimitsImportArgs {
    /// Limitador's limits file
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// New file to write [default: standard output]
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Largest limits file that is read.
const LIMITS_BYTES_MAX: u64 = 16 << 20;

pub(super) fn run(args: &LimitsImportArgs) -> Result<Exit, CommandError> {
    let shown = args.file.display();
    let unreadable = |error: io::Error| CommandError::new(format_args!("{shown}: {error}"));
    let mut text = String::new();
    let file = File::open(&args.file).map_err(unreadable)?;
    file.take(LIMITS_BYTES_MAX + 1).read_to_string(&mut text).map_err(unreadable)?;
    if text.len() as u64 > LIMITS_BYTES_MAX {
        return Err(CommandError::new(format_args!("{shown}: larger than {} MiB", LIMITS_BYTES_MAX >> 20)));
    }
    let read = match plan::formats::limitador::read(&shown.to_string(), &text) {
        Ok(read) => read,
        Err(problems) => {
            say(problems);
            return Ok(Exit::Found);
        }
    };
    match &args.output {
        Some(path) => {
            let draft = disk::AtomicFile::of_new(path);
            let written = draft.and_then(|mut draft| {
                draft.write_all(read.text.as_bytes())?;
                draft.commit()
            });
            written.map_err(|error| CommandError::new(format_args!("{}: {error}", path.display())))?;
        }
        None => io::stdout().lock().write_all(read.text.as_bytes()).map_err(CommandError::output)?,
    }
    say(format_args!("{} limits", HumanCount(read.limits as u64)));
    for left in &read.left {
        say(format_args!("not in the limits: {left}"));
    }
    Ok(Exit::Fine)
}
