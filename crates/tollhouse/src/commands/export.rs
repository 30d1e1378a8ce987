//! `tollhouse export`: the journal as a table, or all statistics as text.

use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};

use engine::{Directory, ExportableStatistics, StatisticsExchangeError};
use event::Time;
use indicatif::HumanCount;
use journal::{
    JournalArchive,
    export::{self, ExportError, ExportFilter},
};
use plan::{ClusterPlan, Plan};
use stats::LedgerExportReport;

#[cfg(feature = "cluster")]
use crate::cluster_home;
use crate::console::{Progress, say};
use crate::exit::{CommandError, Exit};
use crate::losses::say_losses;
use crate::object_journal::JournalOption;
use crate::options::{EngineOptions, stopped, time};

/// Export the journal's decisions as NDJSON or Parquet, or all statistics
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tollhouse export --data ./data > decisions.ndjson
  tollhouse export --data ./data --format parquet --from 2026-05-01 -o decisions.parquet
  tollhouse export --data ./data --labelled --pipeline mail | jq .label
  tollhouse export --journal s3://bucket/decisions --from 2026-05-01 > all-nodes.ndjson
  tollhouse export --data ./data --ledger -o statistics.ndjson.zst

A row per decision: id, times, verdict, label, and all facts and readings of its time, in flat
columns for pandas, Polars, DuckDB and CatBoost. Late feedback counts, too. With a server on the
directory its last second is missing. --ledger writes a line per key instead, also of a cluster, for
`tollhouse import`, and needs the directory to itself.")]
pub(crate) struct ExportArgs {
    /// Write all statistics instead of decisions; a .zst file is compressed
    #[arg(long, conflicts_with_all = ["format", "from", "to", "pipeline", "labelled", "journal"])]
    ledger: bool,
    /// Format of rows
    #[arg(long, value_enum, default_value_t = ExportFormat::Ndjson, value_name = "FORMAT")]
    format: ExportFormat,
    /// Only events at this time or later
    #[arg(long, value_name = "TIME", value_parser = time)]
    from: Option<Time>,
    /// Only events before this time
    #[arg(long, value_name = "TIME", value_parser = time)]
    to: Option<Time>,
    /// Only this pipeline
    #[arg(long, value_name = "NAME")]
    pipeline: Option<String>,
    /// Only decisions with feedback
    #[arg(long)]
    labelled: bool,
    /// New file to write [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    journal: JournalOption,
    #[command(flatten)]
    engine: EngineOptions,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum ExportFormat {
    /// One JSON object a line.
    Ndjson,
    /// One Parquet file, compressed with zstd.
    Parquet,
}

pub(crate) fn run(args: ExportArgs) -> Result<Exit, CommandError> {
    if args.ledger {
        return ledger(&args);
    }
    let filter =
        ExportFilter { from: args.from, to: args.to, pipeline: args.pipeline, labelled: args.labelled };
    if args.format == ExportFormat::Parquet && args.output.is_none() && io::stdout().is_terminal() {
        return Err(CommandError::new("Parquet cannot be written to a terminal").help("name a file with -o"));
    }
    let archive = match args.journal.open(filter.from, filter.to, filter.pipeline.as_deref())? {
        Some(archive) => archive,
        None => JournalArchive::open(&args.engine.directory()?.journal_path())?,
    };
    let table = match &args.output {
        Some(path) => {
            let draft = disk::AtomicFile::of_new(path).map_err(|error| unwritable(path, &error))?;
            let table = write(&archive, &filter, args.format, draft.file())?;
            draft.commit().map_err(|error| unwritable(path, &error))?;
            table
        }
        None => write(&archive, &filter, args.format, io::stdout())?,
    };
    say(format_args!("{} decisions exported", HumanCount(table.rows)));
    say_losses(&table.skipped, &table.lacking);
    if !table.undescribed.is_empty() {
        let versions = table.undescribed.join(", ");
        crate::console::error(format_args!(
            "the facts of versions {versions} are missing: nothing says which they are"
        ));
    }
    if !table.is_whole() {
        return Ok(Exit::Found);
    }
    Ok(Exit::Fine)
}

fn ledger(args: &ExportArgs) -> Result<Exit, CommandError> {
    let directory = args.engine.directory()?;
    let progress = Progress::new("keys", None);
    let mut told = 0;
    let mut tell = |cells: u64| {
        progress.add(cells - told);
        told = cells;
    };
    let (exported, others) = match cluster_plan(args, &directory)? {
        #[cfg(feature = "cluster")]
        Some((plan, of)) => {
            let statistics = cluster_home::ClusterStatistics::open(&directory, plan, &of);
            let mut statistics = statistics.map_err(CommandError::new)?;
            let exported = write_statistics(args, &directory, &mut statistics, &mut tell);
            (exported, statistics.others)
        }
        _ => {
            let own = directory.statistics();
            (own.and_then(|mut own| write_statistics(args, &directory, &mut own, &mut tell)), 0)
        }
    };
    drop(progress);
    let instead = "make a snapshot with `tollhouse snapshot --server URL` and export that";
    let LedgerExportReport { cells, expired, lost } = exported.map_err(|error| match error {
        StatisticsExchangeError::Write(error) if args.output.is_none() => CommandError::output(error),
        StatisticsExchangeError::Write(error) => {
            unwritable(args.output.as_deref().unwrap_or(Path::new("")), &error)
        }
        StatisticsExchangeError::Open(error) => stopped(&error, instead),
        other => CommandError::new(other),
    })?;
    say(format_args!(
        "{} keys exported, {} that have expired left out",
        HumanCount(cells),
        HumanCount(expired)
    ));
    if others > 0 {
        say(format_args!(
            "{} keys are of definitions that this configuration does not have, and are left out",
            HumanCount(others)
        ));
    }
    if lost > 0 {
        crate::console::error(format_args!("{} keys cannot be read and are missing", HumanCount(lost)));
        crate::console::help(
            "`tollhouse verify` says where files are damaged, the log which keys of a cluster",
        );
        return Ok(Exit::Found);
    }
    Ok(Exit::Fine)
}

fn write_statistics(
    args: &ExportArgs,
    directory: &Directory,
    home: &mut dyn ExportableStatistics,
    tell: &mut dyn FnMut(u64),
) -> Result<LedgerExportReport, StatisticsExchangeError> {
    match &args.output {
        Some(path) => directory.export_statistics_to(home, path, tell),
        None => {
            let mut out = BufWriter::new(io::stdout().lock());
            let exported = directory.export_statistics(home, &mut out, tell)?;
            out.flush().map_err(StatisticsExchangeError::Write)?;
            Ok(exported)
        }
    }
}

/// The cluster that the directory's statistics live in, with the plan in force, if they do. A snapshot may have no
/// configuration.
fn cluster_plan(
    args: &ExportArgs,
    directory: &Directory,
) -> Result<Option<(Plan, ClusterPlan)>, CommandError> {
    if args.engine.config.is_none() && !directory.config_path().exists() {
        return Ok(None);
    }
    let plan = args.engine.plan(directory)?;
    if plan.node.cluster.is_none() {
        return Ok(None);
    }
    let plan = directory.plan_in_force(plan).map_err(CommandError::new)?;
    Ok(plan.node.cluster.clone().map(|of| (plan, of)))
}

fn write(
    archive: &JournalArchive,
    filter: &ExportFilter,
    format: ExportFormat,
    out: impl Write + Send,
) -> Result<export::ExportSummary, CommandError> {
    let mut out = BufWriter::new(out);
    let table = match format {
        ExportFormat::Ndjson => export::ndjson(archive, filter, &mut out),
        ExportFormat::Parquet => export::parquet(archive, filter, &mut out),
    };
    let table = table.map_err(|error| match error {
        ExportError::Write(error) => CommandError::output(error),
        other => other.into(),
    })?;
    out.flush().map_err(CommandError::output)?;
    Ok(table)
}

fn unwritable(path: &Path, error: &io::Error) -> CommandError {
    CommandError::new(format_args!("{}: {error}", path.display()))
}
