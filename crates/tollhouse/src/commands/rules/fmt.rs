//! `tollhouse rules fmt`: files in the one form that everybody's has.

use std::fs;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::console::{Output, say};
use crate::exit::{CommandError, Exit};
use crate::input::messages::STDIN;
use crate::options::{DataOption, JsonOption};

/// Format configuration files and the conditions in them
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tollhouse rules fmt data/tollhouse.toml
  tollhouse rules fmt --check rules/*.toml           For a hook: is all laid out?
  tollhouse rules fmt - < new.toml                   To standard output

Formats conditions, lists, keys and empty lines; comments, meaning and pipeline versions stay. A
file that cannot be parsed is left alone. Files are replaced whole or not at all.

Exit codes: 0 done, or with --check nothing to do; 1 a file or condition cannot be parsed, or with
--check a file is not formatted.")]
pub(crate) struct RulesFmtArgs {
    /// Configuration files, or - for standard input [default: the data directory's main file]
    #[arg(value_name = "FILE|-")]
    files: Vec<PathBuf>,
    /// Only name the files that would change
    #[arg(long)]
    check: bool,
    #[command(flatten)]
    data: DataOption,
    #[command(flatten)]
    json: JsonOption,
}

/// A file as `--json` has it.
#[derive(Serialize)]
struct RulesFmtLine<'a> {
    file: &'a str,
    /// True if the file's layout was another.
    changed: bool,
}

/// Largest file that is read, as when it is loaded.
const BYTES_MAX: u64 = 16 << 20;

pub(super) fn run(args: RulesFmtArgs) -> Result<Exit, CommandError> {
    let files = match args.files.is_empty() {
        true => vec![args.data.directory()?.config_path()],
        false => args.files,
    };
    let mut out = Output::new(args.json.json);
    let mut exit = Exit::Fine;
    for file in &files {
        let name = file.display().to_string();
        let failed = |error: io::Error| CommandError::new(format_args!("{name}: {error}"));
        let is_stdin = file.as_os_str() == STDIN;
        let text = if is_stdin { read(io::stdin()) } else { fs::File::open(file).and_then(read) };
        let text = text.map_err(failed)?;
        let laid_out = match plan::format(&name, &text) {
            Ok(laid_out) => laid_out,
            Err(problems) => {
                say(problems);
                exit = Exit::Found;
                continue;
            }
        };
        let changed = laid_out != text;
        if changed && args.check {
            exit = Exit::Found;
        } else if changed && !is_stdin {
            replace(file, &laid_out).map_err(failed)?;
        }
        if out.is_json() {
            out.json(&RulesFmtLine { file: &name, changed })?;
        } else if is_stdin && !args.check {
            out.line(laid_out.trim_end_matches('\n'))?;
        } else if changed {
            out.line(&name)?;
        }
    }
    out.flush()?;
    Ok(exit)
}

fn read(from: impl Read) -> io::Result<String> {
    let mut text = String::new();
    from.take(BYTES_MAX + 1).read_to_string(&mut text)?;
    if text.len() as u64 > BYTES_MAX {
        return Err(io::Error::other(format!("larger than {} MiB", BYTES_MAX >> 20)));
    }
    Ok(text)
}

/// Puts a text in the place of a file at once: whoever watches it sees either.
fn replace(file: &Path, text: &str) -> io::Result<()> {
    // A link stays one.
    let file = fs::canonicalize(file)?;
    let permissions = fs::metadata(&file)?.permissions();
    let mut draft = disk::AtomicFile::of(&file)?;
    draft.write_all(text.as_bytes())?;
    draft.file().set_permissions(permissions)?;
    draft.commit().map(drop)
}
