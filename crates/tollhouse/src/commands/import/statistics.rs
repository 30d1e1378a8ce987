//! `tollhouse import FILE`: takes in statistics that were exported.

#[cfg(feature = "cluster")]
mod cluster;

use std::io::{self, BufReader};
use std::path::{Path, PathBuf};

use engine::{Directory, ImportMode, StatisticsExchangeError, StatisticsSource};
use indicatif::HumanCount;
use serde::Serialize;
use stats::LedgerImportReport;

use crate::console::{Output, Progress, say};
use crate::exit::{CommandError, Exit};
use crate::options::{EngineOptions, JsonOption, stopped};

/// The statistics to import, and the treatment of those in the target.
#[derive(clap::Args)]
pub(super) struct StatisticsImportArgs {
    /// Exported file, compressed if .zst; - is uncompressed standard input
    #[arg(value_name = "FILE", required = true)]
    file: Option<PathBuf>,
    /// Replace existing statistics
    #[arg(long, conflicts_with = "merge")]
    replace: bool,
    /// Add to existing statistics; the same export only once
    #[arg(long)]
    merge: bool,
    /// Only count the keys that differ, for a cluster
    #[arg(long, conflicts_with_all = ["merge", "replace"])]
    compare: bool,
    /// With --merge: add exact distinct counts that share values, which then count twice
    #[arg(long, requires = "merge")]
    allow_overlap: bool,
    #[command(flatten)]
    engine: EngineOptions,
    #[command(flatten)]
    json: JsonOption,
}

/// The line of `--json`.
#[derive(Serialize)]
struct StatisticsImportLine {
    created: u64,
    merged: u64,
    expired: u64,
}

pub(super) fn run(args: StatisticsImportArgs) -> Result<Exit, CommandError> {
    let mut out = Output::new(args.json.json);
    let file = args.file.ok_or_else(|| CommandError::new("no file is named"))?;
    let directory = args.engine.directory()?;
    let plan = args.engine.plan(&directory)?;
    #[cfg(feature = "cluster")]
    if let Some(of) = plan.node.cluster.clone() {
        if args.merge {
            return Err(CommandError::new("a cluster takes no --merge").help(
                "without --merge each key of the export becomes what it is there; add up in a data directory before",
            ));
        }
        return cluster::run(&directory, plan, &of, &file, !args.compare, &mut out);
    }
    if args.compare {
        return Err(CommandError::new("--compare is for statistics that live in a cluster"));
    }
    let how = match (args.replace, args.merge) {
        (true, _) => ImportMode::Replace,
        (_, true) => ImportMode::Merge { overlap: args.allow_overlap },
        _ => ImportMode::Fresh,
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
    let LedgerImportReport { created, merged, expired } =
        imported.map_err(|error| explained(error, &file, &directory))?;
    if out.is_json() {
        out.json(&StatisticsImportLine { created, merged, expired })?;
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

fn explained(error: StatisticsExchangeError, file: &Path, directory: &Directory) -> CommandError {
    let data = directory.path().display();
    let failure = CommandError::new(format_args!("{}: {error}", file.display()));
    match error {
        StatisticsExchangeError::Open(error) => stopped(&error, "import into another directory"),
        StatisticsExchangeError::NotEmpty => CommandError::new(format_args!("{data}: {error}"))
            .help("--replace puts the export in their place, --merge adds it to them"),
        StatisticsExchangeError::Secret => failure.help(format!(
            "copy the other directory's `secret` to a new one, made with `tollhouse init`; that of {data} belongs to its \
             own statistics"
        )),
        StatisticsExchangeError::Interrupted => {
            failure.help("restore a snapshot from before it, or replace all with --replace")
        }
        StatisticsExchangeError::Overlap { .. } => failure.help(
            "nothing was imported; --allow-overlap adds all the same, and such values count twice",
        ),
        StatisticsExchangeError::Torn(_) | StatisticsExchangeError::Line { .. } => {
            failure.help("nothing was imported; was the file copied whole?")
        }
        StatisticsExchangeError::Ledger(stats::LedgerError::Catalog(_)) => {
            failure.help("the configuration keeps other statistics under these names than the export has")
        }
        _ => failure,
    }
}
