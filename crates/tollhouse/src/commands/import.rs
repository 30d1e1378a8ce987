//! `tollhouse import`: takes in statistics that were exported, and limits of another program.

use std::fs::{File, OpenOptions};
use std::io::{self, BufReader, Read, Write};
use std::path::{Path, PathBuf};

use engine::{Directory, How, PortableError, StatisticsSource};
use indicatif::HumanCount;
use serde::Serialize;
use stats::Imported;

use crate::console::{Output, Progress, say};
use crate::exit::{Exit, Failure};
use crate::options::{EngineOptions, JsonOption, stopped};

/// Take in statistics that `export --ledger` wrote, or limits of another program
#[derive(clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_help = "\
Examples:
  tollhouse import --data ./new statistics.ndjson.zst            Into a directory without statistics
  tollhouse import --data ./data --replace statistics.ndjson     In place of what is there
  tollhouse import --data ./data --merge other-node.ndjson.zst   Added to what is there, once
  tollhouse import limits limits.yaml                            Limits of Limitador, as [[limit]]

The directory needs the secret of the one that was exported: copy the file `secret` before anything
is counted. All of it is taken in or nothing, but for a merge that is interrupted."
)]
pub(crate) struct Args {
    #[command(subcommand)]
    other: Option<Other>,
    #[command(flatten)]
    statistics: Statistics,
}

#[derive(clap::Subcommand)]
enum Other {
    Limits(Limits),
}

/// Write the limits of Limitador's limits file as [[limit]] of the configuration
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tollhouse import limits limits.yaml >> data/tollhouse.toml
  tollhouse import limits --first-number 20 --output more.toml limits.yaml

What cannot be written down in a limit, such as conditions, is said, and stands as comments beside it.")]
struct Limits {
    /// Limitador's limits file
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Number of the first limit; each of the others has the next
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    first_number: u16,
    /// Write to this file, which must not be there yet, instead of standard output
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

#[derive(clap::Args)]
struct Statistics {
    /// What was exported; one that ends in .zst is compressed; - is standard input, not compressed
    #[arg(value_name = "FILE", required = true)]
    file: Option<PathBuf>,
    /// Replace the statistics that are there
    #[arg(long, conflicts_with = "merge")]
    replace: bool,
    /// Add to the statistics that are there. The same export is added once
    #[arg(long)]
    merge: bool,
    /// With --merge: exact distinct counts that have values in common are added all the same, and count these twice
    #[arg(long, requires = "merge")]
    allow_overlap: bool,
    #[command(flatten)]
    engine: EngineOptions,
    #[command(flatten)]
    json: JsonOption,
}

/// The line of `--json`.
#[derive(Serialize)]
struct Line {
    created: u64,
    merged: u64,
    expired: u64,
}

pub(crate) fn run(args: Args) -> Result<Exit, Failure> {
    match args.other {
        Some(Other::Limits(args)) => limits(&args),
        None => statistics(args.statistics),
    }
}

/// Largest limits file that is read.
const LIMITS_BYTES_MAX: u64 = 16 << 20;

fn limits(args: &Limits) -> Result<Exit, Failure> {
    let shown = args.file.display();
    let unreadable = |error: io::Error| Failure::new(format_args!("{shown}: {error}"));
    let mut text = String::new();
    let file = File::open(&args.file).map_err(unreadable)?;
    file.take(LIMITS_BYTES_MAX + 1).read_to_string(&mut text).map_err(unreadable)?;
    if text.len() as u64 > LIMITS_BYTES_MAX {
        return Err(Failure::new(format_args!("{shown}: larger than {} MiB", LIMITS_BYTES_MAX >> 20)));
    }
    let read = match engine::limitador::read(&shown.to_string(), &text, args.first_number) {
        Ok(read) => read,
        Err(problems) => {
            say(problems);
            return Ok(Exit::Found);
        }
    };
    match &args.output {
        Some(path) => {
            let written = OpenOptions::new().write(true).create_new(true).open(path);
            let written = written.and_then(|mut file| file.write_all(read.text.as_bytes()));
            written.map_err(|error| Failure::new(format_args!("{}: {error}", path.display())))?;
        }
        None => io::stdout().lock().write_all(read.text.as_bytes()).map_err(Failure::output)?,
    }
    say(format_args!("{} limits", HumanCount(read.limits as u64)));
    for left in &read.left {
        say(format_args!("not in the limits: {left}"));
    }
    Ok(Exit::Fine)
}

fn statistics(args: Statistics) -> Result<Exit, Failure> {
    // The parser wants a file where no other import is named.
    let file = args.file.unwrap_or_else(|| PathBuf::from("-"));
    let mut out = Output::new(args.json.json);
    let directory = args.engine.directory()?;
    let plan = args.engine.plan(&directory)?;
    let how = match (args.replace, args.merge) {
        (true, _) => How::Replace,
        (_, true) => How::Merge { overlap: args.allow_overlap },
        _ => How::Fresh,
    };
    let progress = Progress::new("keys", None);
    let mut told = 0;
    let mut tell = |cells: u64| {
        progress.add(cells - told);
        told = cells;
    };
    let imported = if file == Path::new("-") {
        let mut input = BufReader::new(io::stdin().lock());
        directory.import_statistics(&plan, StatisticsSource::Stream(&mut input), how, &mut tell)
    } else {
        directory.import_statistics(&plan, StatisticsSource::File(&file), how, &mut tell)
    };
    drop(progress);
    let Imported { created, merged, expired } =
        imported.map_err(|error| explained(error, &file, &directory))?;
    if out.is_json() {
        out.json(&Line { created, merged, expired })?;
    }
    out.flush()?;
    say(format_args!(
        "{} keys imported, {} of them added to known ones; {} have expired here and are left out",
        HumanCount(created + merged),
        HumanCount(merged),
        HumanCount(expired)
    ));
    Ok(Exit::Fine)
}

fn explained(error: PortableError, file: &Path, directory: &Directory) -> Failure {
    let data = directory.path().display();
    let failure = Failure::new(format_args!("{}: {error}", file.display()));
    match error {
        PortableError::Open(error) => stopped(&error, "import into another directory"),
        PortableError::NotEmpty => Failure::new(format_args!("{data}: {error}"))
            .help("--replace puts the export in their place, --merge adds it to them"),
        PortableError::Secret => failure.help(format!(
            "copy the other directory's `secret` to a new one, made with `tollhouse init`; that of {data} belongs to its \
             own statistics"
        )),
        PortableError::Interrupted => {
            failure.help("restore a snapshot from before it, or replace all with --replace")
        }
        PortableError::Overlap { .. } => failure.help(
            "nothing was imported; --allow-overlap adds all the same, and such values count twice",
        ),
        PortableError::Torn(_) | PortableError::Line { .. } => {
            failure.help("nothing was imported; was the file copied whole?")
        }
        PortableError::Ledger(stats::LedgerError::Catalog(_)) => {
            failure.help("the configuration gives kinds other numbers or statistics than the export has")
        }
        _ => failure,
    }
}
