//! `tollhouse backtest`: what other rules or models would have decided.

use std::io::Read;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use engine::Directory;
use engine::backtest::{Backtest, BacktestQuery, BacktestReport, BacktestTally, Replay, ReplayError};
use event::Time;
use indicatif::HumanCount;
use journal::{JournalArchive, SkippedData};
use judge::Action;
use plan::{Config, Pipeline, Plan};
use serde::Serialize;
use server::api::{BacktestReportJson, BacktestRequest, Length, QualityJson, Timestamp};

use crate::client::ApiClient;
use crate::console::{BOLD, DIM, Output, Progress, TableCell, TextTable, colour, cut, help, say};
use crate::exit::{CommandError, Exit};
use crate::interrupt::Interrupt;
use crate::losses::say_losses;
use crate::message_reader::ThreadsOption;
use crate::object_journal::JournalOption;
use crate::options::{EngineOptions, JsonOption, ServerOptions, time};
use crate::ordered_pool::map_ordered;

/// Test other rules or models on the journal's decisions
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tollhouse backtest --data ./data --rules new.toml
  tollhouse backtest --data ./data --rules new.toml --from 2026-05-01 --to 2026-06-01
  tollhouse backtest --data ./data --rules new.toml --model spam=new.cbm --json | jq .quality
  tollhouse backtest --data ./data --rules new.toml --bad spam --caught quarantine --caught reject
  tollhouse backtest --data ./data --rules new-windows.toml --replay
  tollhouse backtest --data ./data --rules new.toml --journal s3://bucket/decisions
  tollhouse backtest --server http://127.0.0.1:8377 --rules posted.toml --last 1h
  tollhouse backtest --server http://127.0.0.1:8377 --kept 3f9c --last 7d

Uses facts and readings as logged, and changes nothing; a server may run on the directory. Leaves
out and lists rules that need an unlogged fact. Precision, recall and false positive rate cover
decisions with feedback. --replay recounts the journal's events and feedback instead of using logged
readings. With --server the server tests its own journal in the background; --rules is then a text
as for `tollhouse rules post`, laid over the pipeline's file. Ctrl-C cancels it.")]
pub(crate) struct BacktestArgs {
    /// Configuration file with the rules to try [default: the data directory's]
    #[arg(long, value_name = "FILE")]
    rules: Option<PathBuf>,
    /// With --server: a kept version, or a unique prefix
    #[arg(long, value_name = "VERSION", requires = "server", conflicts_with = "rules")]
    kept: Option<String>,
    /// With --server: the posted candidate
    #[arg(long, requires = "server", conflicts_with_all = ["rules", "kept"])]
    candidate: bool,
    /// With --server: span to read, back from now [default: 1d]
    #[arg(long, value_name = "SPAN", requires = "server", conflicts_with = "from")]
    last: Option<event::Span>,
    /// Model file to try instead of the configured one
    #[arg(long, value_name = "NAME=FILE")]
    model: Vec<ModelFile>,
    /// Pipeline to test [default: the first of the rules]
    #[arg(long, value_name = "NAME")]
    pipeline: Option<String>,
    /// Only events at this time or later
    #[arg(long, value_name = "TIME", value_parser = time)]
    from: Option<Time>,
    /// Only events before this time
    #[arg(long, value_name = "TIME", value_parser = time)]
    to: Option<Time>,
    /// Class of events to catch [default: `bad` of `[reports]`, else spam, bad, complaint, abuse, fraud]
    #[arg(long, value_name = "CLASS")]
    bad: Vec<String>,
    /// Action that counts as caught [default: all but accept]
    #[arg(long, value_name = "ACTION")]
    caught: Vec<Action>,
    /// Recount all events from the journal's beginning, for rules with other statistics; on one thread
    #[arg(long)]
    replay: bool,
    #[command(flatten)]
    threads: ThreadsOption,
    #[command(flatten)]
    server: ServerOptions,
    #[command(flatten)]
    journal: JournalOption,
    #[command(flatten)]
    engine: EngineOptions,
    #[command(flatten)]
    json: JsonOption,
}

/// `NAME=FILE`.
#[derive(Clone, Debug)]
struct ModelFile {
    name: String,
    path: PathBuf,
}

impl FromStr for ModelFile {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<ModelFile, &'static str> {
        let (name, path) = text.split_once('=').ok_or("expected NAME=FILE")?;
        Ok(ModelFile { name: name.to_owned(), path: path.into() })
    }
}

/// The line of `--json`.
#[derive(Serialize)]
struct BacktestLine<'a> {
    #[serde(flatten)]
    report: &'a BacktestReport,
    rows_per_second: f64,
    threads: usize,
}

/// Rules that changed most, as far as people are shown them.
const RULES_SHOWN: usize = 40;
/// Decisions that are shown; `--json` has fifty.
const EXAMPLES_SHOWN: usize = 20;
/// Largest text of rules that is read.
const TEXT_BYTES_MAX: u64 = 16 << 20;

/// Reads a text of rules.
fn read_text(path: &Path) -> Result<String, CommandError> {
    let mut text = String::new();
    let opened = std::fs::File::open(path);
    let read = opened.and_then(|file| file.take(TEXT_BYTES_MAX).read_to_string(&mut text));
    read.map_err(|error| CommandError::new(format_args!("{}: {error}", path.display())))?;
    Ok(text)
}

/// The time between two looks at what a server does.
const LOOK: Duration = Duration::from_millis(250);

/// Has a server judge its journal anew, and waits for that.
fn ask(args: &BacktestArgs, client: &ApiClient) -> Result<Exit, CommandError> {
    if args.replay || !args.model.is_empty() || args.journal.is_named() {
        return Err(CommandError::new("a server tries rules on its own journal, by the models that it has")
            .help("leave out --replay, --model and --journal, or work on the directory with --data"));
    }
    let mut out = Output::new(args.json.json);
    let rules = args.rules.as_deref().map(read_text).transpose()?;
    let begun = client.begin_backtest(&BacktestRequest {
        pipeline: args.pipeline.clone(),
        rules,
        version: args.kept.clone(),
        candidate: args.candidate,
        span: args.last.map(Length),
        from: args.from.map(Timestamp),
        to: args.to.map(Timestamp),
        bad: args.bad.clone(),
        caught: args.caught.clone(),
        ..BacktestRequest::default()
    })?;
    let interrupt = Interrupt::watch(None);
    let progress = Progress::new("thousandths of the time", Some(1000));
    let done = loop {
        let seen = client.backtest(&begun.id)?;
        progress.set((seen.progress * 1000.0) as u64, 1000);
        if !["waiting", "sampling", "running"].contains(&seen.state.as_str()) {
            break seen;
        }
        if interrupt.raised() {
            client.cancel_backtest(&begun.id)?;
            return Ok(Exit::Interrupted);
        }
        std::thread::sleep(LOOK);
    };
    drop(progress);
    if done.state != "done" {
        return Err(CommandError::new(done.problem.unwrap_or(done.state)));
    }
    if out.is_json() {
        out.json(&done)?;
        out.flush()?;
        return Ok(Exit::Fine);
    }
    let Some(report) = &done.report else { return Ok(Exit::Fine) };
    show(report, &mut out)?;
    out.flush()?;
    say(format_args!("{} decisions judged again, of {} to {}", HumanCount(report.rows), done.from, done.to));
    for missing in &report.not_logged {
        crate::console::error(format_args!(
            "{} was not logged for {} decisions; left out there: {}",
            missing.fact,
            HumanCount(missing.rows),
            missing.needed_by.join(", ")
        ));
    }
    let whole = report.not_logged.is_empty() && report.undescribed == 0 && done.damaged == 0;
    Ok(if whole { Exit::Fine } else { Exit::Found })
}

pub(crate) fn run(args: BacktestArgs) -> Result<Exit, CommandError> {
    if let Some(client) = args.server.client()? {
        return ask(&args, &client);
    }
    let mut out = Output::new(args.json.json);
    let directory = args.engine.directory()?;
    let (plan, pipeline) = pipeline(&args, &directory)?;
    // Of feedback and of what is replayed all counts; rows are chosen when they are read.
    let archive = match args.journal.open(args.from.filter(|_| !args.replay), args.to, None)? {
        Some(archive) => archive,
        None => JournalArchive::open(&directory.journal_path())?,
    };
    let question = BacktestQuery {
        from: args.from,
        to: args.to,
        bad: args.bad.clone(),
        caught: args.caught.clone(),
        ..BacktestQuery::default()
    };
    let threads = if args.replay { 1 } else { args.threads.count() };
    let started = Instant::now();
    let descriptions = archive.descriptions()?;
    let report = if args.replay {
        let secret = directory.secret()?;
        replay(Replay::new(&plan, pipeline, secret, question, &descriptions)?, &archive)?
    } else {
        let backtest = Backtest::new(pipeline, question, &descriptions);
        let judged = judge(&backtest, &archive, threads)?;
        judged.map(|(tally, skipped)| (tally.report(&backtest, &archive), skipped))
    };
    let Some((report, skipped)) = report else { return Ok(Exit::Interrupted) };
    let rows_per_second = report.rows as f64 / started.elapsed().as_secs_f64();
    if out.is_json() {
        out.json(&BacktestLine { report: &report, rows_per_second, threads })?;
    } else {
        show(&BacktestReportJson::new(&report, None), &mut out)?;
    }
    out.flush()?;
    say(format_args!(
        "{} decisions judged again, {} a second",
        HumanCount(report.rows),
        HumanCount(rows_per_second as u64)
    ));
    for missing in &report.not_logged {
        crate::console::error(format_args!(
            "{} was not logged for {} decisions; left out there: {}",
            missing.fact,
            HumanCount(missing.rows),
            missing.needed_by.join(", ")
        ));
    }
    if report.undescribed > 0 {
        let rows = HumanCount(report.undescribed);
        crate::console::error(format_args!("{rows} decisions belong to versions without a description"));
        help("`tollhouse verify` says which files are missing");
    }
    let is_less = say_losses(&skipped, &archive.lacking()?);
    let whole = report.not_logged.is_empty() && report.undescribed == 0 && !is_less;
    Ok(if whole { Exit::Fine } else { Exit::Found })
}

/// The pipeline that is tried.
fn pipeline(args: &BacktestArgs, directory: &Directory) -> Result<(Plan, Arc<Pipeline>), CommandError> {
    let path = args.rules.clone().or_else(|| args.engine.config.clone());
    let path = path.unwrap_or_else(|| directory.config_path());
    let mut config = Config::load(&path, &args.engine.overrides());
    for ModelFile { name, path } in &args.model {
        let bytes = std::fs::read(path)
            .map_err(|error| CommandError::new(format_args!("{}: {error}", path.display())))?;
        if !config.replace_model(args.pipeline.as_deref(), name, bytes) {
            return Err(CommandError::new(format_args!("the configuration has no model `{name}`"))
                .help(format!("add one to the rules: [[model]] with name = \"{name}\" and its file")));
        }
    }
    let plan = Plan::compile(&config)?;
    let pipeline = plan.pipeline(args.pipeline.as_deref()).map(Arc::clone).ok_or_else(|| {
        let names: Vec<&str> = plan.pipelines.iter().map(|pipeline| pipeline.name.as_str()).collect();
        let name = args.pipeline.as_deref().unwrap_or_default();
        CommandError::new(format_args!("{} has no pipeline `{name}`", path.display()))
            .help(format!("expected one of: {}", names.join(", ")))
    })?;
    Ok((plan, pipeline))
}

/// `None` if it was interrupted.
fn replay(
    mut replay: Replay,
    archive: &JournalArchive,
) -> Result<Option<(BacktestReport, SkippedData)>, CommandError> {
    let interrupt = Interrupt::watch(None);
    let mut unread = SkippedData::default();
    for block in archive.oldest_first() {
        if let Some(block) = unread.pass(block)? {
            unread.pass(replay.note(&block).map_err(|error| block.error(error)))?;
        }
    }
    let (progress, bytes) = (Progress::new("bytes of the journal", Some(archive.bytes())), archive.bytes());
    let mut skipped = SkippedData::default();
    for block in archive.oldest_first() {
        if interrupt.raised() {
            return Ok(None);
        }
        let Some(block) = skipped.pass(block)? else { continue };
        match pollster::block_on(replay.take(&block)) {
            Err(ReplayError::Segment(error)) => _ = skipped.pass(Err::<(), _>(block.error(error)))?,
            taken => taken.map_err(CommandError::new)?,
        }
        progress.set(replay.progress().1, bytes);
    }
    let lost = replay.forgotten();
    if lost > 0 {
        let lost = HumanCount(lost);
        crate::console::error(format_args!("{lost} keys did not fit into memory and were forgotten"));
        help("give it more with --set ledger.memory=4GiB");
    }
    let (backtest, tally) = replay.finish();
    Ok(Some((tally.report(&backtest, archive), skipped)))
}

/// Judges all blocks of a journal anew; `None` if it was interrupted.
pub(super) fn judge(
    backtest: &Backtest,
    archive: &JournalArchive,
    threads: usize,
) -> Result<Option<(BacktestTally, SkippedData)>, CommandError> {
    let interrupt = Interrupt::watch(None);
    let (progress, bytes) = (Progress::new("bytes of the journal", Some(archive.bytes())), archive.bytes());
    let mut tally = backtest.tally();
    let judged = |block: Result<journal::Block, journal::JournalError>| {
        block.and_then(|block| backtest.judge(&block).map_err(|error| block.error(error)))
    };
    let mut skipped = SkippedData::default();
    let flow =
        map_ordered(threads, archive.newest_first(), judged, |judgement| match skipped.pass(judgement) {
            _ if interrupt.raised() => ControlFlow::Break(None),
            Ok(judgement) => {
                judgement.into_iter().for_each(|judgement| tally.add(judgement));
                progress.set(tally.bytes(), bytes);
                ControlFlow::Continue(())
            }
            Err(error) => ControlFlow::Break(Some(CommandError::from(error))),
        });
    match flow {
        ControlFlow::Continue(()) => Ok(Some((tally, skipped))),
        ControlFlow::Break(None) => Ok(None),
        ControlFlow::Break(Some(failure)) => Err(failure),
    }
}

fn show(report: &BacktestReportJson, out: &mut Output) -> Result<(), CommandError> {
    out.line(format_args!(
        "{BOLD}{} of {} decisions change{BOLD:#}, {} have another score",
        HumanCount(report.changed),
        HumanCount(report.rows),
        HumanCount(report.rescored)
    ))?;
    if report.changed > 0 {
        let mut table = TextTable::default();
        for change in report.actions.iter().filter(|change| change.before != change.after) {
            table.row([
                TableCell::number(HumanCount(change.rows), BOLD),
                TableCell::text(change.before.name(), colour(change.before)),
                TableCell::text(format!("→ {}", change.after), colour(change.after)),
            ]);
        }
        out.line(format_args!("{table}"))?;
    }
    if report.labelled > 0 {
        show_quality(report.labelled, [&report.before, &report.after], out)?;
    }
    show_rules(report, out)?;
    show_labels(report, out)?;
    for (index, example) in report.examples.iter().take(EXAMPLES_SHOWN).enumerate() {
        if index == 0 {
            out.line(format_args!("\n{BOLD}The largest changes{BOLD:#}"))?;
        }
        let (before, after) = (&example.before, &example.after);
        let changes = example.fires_now.iter().map(|rule| format!("+{rule}"));
        let changes: Vec<String> =
            changes.chain(example.fires_no_more.iter().map(|rule| format!("-{rule}"))).collect();
        let label = example.label.as_deref().unwrap_or("-");
        out.line(format_args!(
            "{}  {}  {:>13} {:>6.1} → {:<13} {:>6.1}  {}  {DIM}{}{DIM:#}",
            example.id,
            example.time,
            before.action.name(),
            before.score,
            after.action.name(),
            after.score,
            cut(label, 20),
            changes.join(" ")
        ))?;
    }
    Ok(())
}

fn show_quality(
    labelled: u64,
    [before, after]: [&QualityJson; 2],
    out: &mut Output,
) -> Result<(), CommandError> {
    out.line(format_args!("\n{BOLD}Of {} with feedback{BOLD:#}", HumanCount(labelled)))?;
    let mut table = TextTable::default();
    let head = ["", "precision", "recall", "false positive rate", "caught bad", "caught good", "missed bad"];
    table.row(head.map(|name| TableCell::number(name, DIM)));
    for (name, counts) in [("before", before), ("after", after)] {
        let share =
            |share: Option<f64>| share.map_or("-".to_owned(), |share| format!("{:.2} %", share * 100.0));
        table.row([
            TableCell::text(name, DIM),
            TableCell::number(share(counts.precision), BOLD),
            TableCell::number(share(counts.recall), BOLD),
            TableCell::number(share(counts.false_positive_rate), BOLD),
            TableCell::number(HumanCount(counts.true_positives), DIM),
            TableCell::number(HumanCount(counts.false_positives), DIM),
            TableCell::number(HumanCount(counts.false_negatives), DIM),
        ]);
    }
    out.line(format_args!("{table}"))
}

/// Shows the labels of which decisions change.
fn show_labels(report: &BacktestReportJson, out: &mut Output) -> Result<(), CommandError> {
    let changed: Vec<_> = report.labels.iter().filter(|label| label.changed > 0).collect();
    if changed.is_empty() {
        return Ok(());
    }
    out.line(format_args!("\n{BOLD}Labels of which decisions change{BOLD:#}"))?;
    let mut table = TextTable::default();
    for label in changed {
        table.row([
            TableCell::number(HumanCount(label.changed), BOLD),
            TableCell::text(format!("of {}", HumanCount(label.rows)), DIM),
            TableCell::text(cut(&label.label, 20), BOLD),
        ]);
    }
    out.line(format_args!("{table}"))
}

fn show_rules(report: &BacktestReportJson, out: &mut Output) -> Result<(), CommandError> {
    let mut changed: Vec<_> = report.rules.iter().filter(|rule| rule.before != rule.after).collect();
    changed.sort_by_key(|rule| std::cmp::Reverse(rule.before.abs_diff(rule.after)));
    if changed.is_empty() {
        return Ok(());
    }
    out.line(format_args!("\n{BOLD}Rules that fire more or less often{BOLD:#}"))?;
    let mut table = TextTable::default();
    table.row([
        TableCell::number("before", DIM),
        TableCell::number("after", DIM),
        TableCell::text("rule", DIM),
    ]);
    for rule in changed.iter().take(RULES_SHOWN) {
        let mode = match rule.mode.as_deref() {
            Some("enforce") => String::new(),
            Some(mode) => format!(" ({mode})"),
            None => " (gone)".to_owned(),
        };
        table.row([
            TableCell::number(HumanCount(rule.before), DIM),
            TableCell::number(HumanCount(rule.after), DIM),
            TableCell::text(format!("{}{mode}", rule.rule), BOLD),
        ]);
    }
    out.line(format_args!("{table}"))?;
    if changed.len() > RULES_SHOWN {
        out.line(format_args!("and {} more: --json has all", changed.len() - RULES_SHOWN))?;
    }
    Ok(())
}
