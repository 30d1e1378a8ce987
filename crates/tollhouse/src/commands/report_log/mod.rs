//! `tollhouse report-log`: what a person wants to know of a log, on the terminal and as one HTML file.

mod html;
mod summary;

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use disk::AtomicFile;
use engine::Engine;
use judge::Action;
use plan::preset::Preset;
use plan::{Config, Pipeline, PipelineInput, Plan};
use serde::Serialize;

use crate::client::LineFormat;
use crate::console::{BOLD, DIM, Output, PLAIN, Progress, RED, TableCell, TextTable, cut, say};
use crate::exit::{CommandError, Exit};
use crate::input::line_batch::BATCH;
use crate::log_input::{FileLine, FileLines, LogFileFormat, LogFileReader, is_of_log, open, refused};
use crate::message_reader::ThreadsOption;
use crate::options::{EngineOptions, JsonOption, LocalEngine, SettingOverride, preset_named};
pub(super) use summary::FlaggedSources;
use summary::{FlaggedSource, LogSummary, LoggedRequest, RequestCounts, TopCounter, TopEntry};

/// Columns of the picture over time.
const BARS: i64 = 60;
/// Widest text of a stranger on the terminal.
const TEXT_CHARS_MAX: usize = 80;

/// Summarise a log: who was flagged for what, top addresses, paths and agents, over time
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tollhouse report-log /var/log/nginx/access.log
  zcat access.log.*.gz | tollhouse report-log --html report.html -
  tollhouse report-log --config tollhouse.toml --json access.log
  tollhouse report-log --preset sshd /var/log/auth.log.1 /var/log/auth.log

Decides in memory on each event at its own time, by the preset `web` or the rules of --config, and
keeps nothing. A pipeline with `input = \"log\"` reads lines by its patterns. Memory is bounded; the
report says by how much counts may be too low for it.")]
pub(crate) struct ReportLogArgs {
    /// Access logs, or logs of a program, oldest first; - is standard input
    #[arg(required = true, value_name = "FILE|-")]
    files: Vec<PathBuf>,
    /// Also write one self-contained HTML file
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Entries per list
    #[arg(long, value_name = "N", default_value = "10", value_parser = clap::value_parser!(u16).range(1..=1000))]
    top: u16,
    /// Preset [default: web]
    #[arg(long, value_name = "NAME", value_parser = preset_named, conflicts_with = "config")]
    preset: Option<&'static Preset>,
    /// Configuration file with the rules, instead of a preset
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Setting that overrides file and environment
    #[arg(long, value_name = "SECTION.KEY=VALUE")]
    set: Vec<SettingOverride>,
    /// Pipeline [default: the first that reads access logs]
    #[arg(long, value_name = "NAME")]
    pipeline: Option<String>,
    #[command(flatten)]
    threads: ThreadsOption,
    #[command(flatten)]
    json: JsonOption,
}

/// A list of the report.
struct Section {
    title: &'static str,
    entries: Vec<TopEntry>,
    /// The most that a count may be too low by.
    missed: u64,
}

/// The report as one JSON object.
#[derive(Serialize)]
struct LogReport {
    #[serde(flatten)]
    all: RequestCounts,
    bad: u64,
    /// Lines that no pattern reads.
    unread: u64,
    first: Option<String>,
    last: Option<String>,
    sources: Vec<FlaggedSource>,
    rules: Vec<TopEntry>,
    addresses: Vec<TopEntry>,
    networks: Vec<TopEntry>,
    accounts: Vec<TopEntry>,
    paths: Vec<TopEntry>,
    failing: Vec<TopEntry>,
    agents: Vec<TopEntry>,
    statuses: Vec<TopEntry>,
    methods: Vec<TopEntry>,
    timeline: Vec<ReportInterval>,
}

/// An interval of time.
#[derive(Serialize)]
struct ReportInterval {
    start: String,
    #[serde(flatten)]
    counts: RequestCounts,
}

/// The lists of the report, in its order.
fn sections(summary: &LogSummary, most: usize) -> Vec<Section> {
    let lists: [(&'static str, &TopCounter); 9] = [
        ("Rules that flagged", &summary.rules),
        ("Addresses", &summary.addresses),
        ("Networks", &summary.networks),
        ("Accounts", &summary.accounts),
        ("Paths", &summary.paths),
        ("Failing paths", &summary.failing),
        ("Agents", &summary.agents),
        ("Statuses", &summary.statuses),
        ("Methods", &summary.methods),
    ];
    let section = |(title, counter): (&'static str, &TopCounter)| Section {
        title,
        entries: counter.top(most, |counts| counts.requests),
        missed: counter.missed,
    };
    lists.into_iter().map(section).collect()
}

pub(crate) fn run(args: ReportLogArgs) -> Result<Exit, CommandError> {
    let options = EngineOptions { data: None, config: args.config.clone(), set: args.set.clone() };
    let config = match &args.config {
        Some(path) => Config::load(path, &options.overrides()),
        None => Config::from_preset(args.preset.map_or("web", |preset| preset.name), &options.overrides()),
    };
    let local = LocalEngine::new(Engine::ephemeral(Plan::compile(&config)?).map_err(CommandError::new)?);
    let pipeline = local.pipeline(args.pipeline.as_deref(), |it| it.input == PipelineInput::AccessLog)?;
    if !is_of_log(&pipeline) && pipeline.input != PipelineInput::AccessLog {
        return Err(refused(&pipeline.name, pipeline.input.name(), LogFileFormat::AccessLog));
    }
    let mut summary = LogSummary::new(if is_of_log(&pipeline) { "events" } else { "requests" });
    let progress = Progress::new(summary.unit, None);
    let mut exit = Exit::Fine;
    for file in &args.files {
        exit = read(&args, &local, &pipeline, file, &mut summary, &progress)?;
        if exit == Exit::Interrupted {
            break;
        }
    }
    drop(progress);
    local.close()?;
    let name = match args.files.as_slice() {
        [file] => file.display().to_string(),
        files => format!("{} logs", files.len()),
    };
    let most = usize::from(args.top);
    if let Some(path) = &args.html {
        let failed = |error: io::Error| CommandError::new(format_args!("{}: {error}", path.display()));
        let mut file = AtomicFile::of(path).map_err(failed)?;
        file.write_all(html::page(&name, &summary, most).as_bytes()).map_err(failed)?;
        file.commit().map_err(failed)?;
    }
    let mut out = Output::new(args.json.json);
    if out.is_json() {
        out.json(&report(&summary, most))?;
    } else {
        show(&mut out, &summary, most)?;
    }
    out.flush()?;
    if let Some(path) = &args.html {
        say(format_args!("the report is in {}", path.display()));
    }
    Ok(if exit == Exit::Fine && summary.bad > 0 { Exit::Found } else { exit })
}

/// Judges the events of a log, in its order, and counts them.
fn read(
    args: &ReportLogArgs,
    local: &LocalEngine,
    pipeline: &Arc<Pipeline>,
    file: &Path,
    summary: &mut LogSummary,
    progress: &Progress,
) -> Result<Exit, CommandError> {
    // Access logs may be objects, too.
    let (reader, _) = open(file, LogFileFormat::AccessLog)?;
    let (form, threads) = (LineFormat::AccessLog, args.threads);
    let lines = LogFileReader { local, pipeline, form, by_patterns: true, threads, size: BATCH };
    let address = pipeline.address_field();
    let take = |batch: io::Result<FileLines<LoggedRequest>>| -> Result<(), CommandError> {
        let batch = batch.map_err(|error| CommandError::new(format_args!("{}: {error}", file.display())))?;
        let (mut requests, mut events) = (Vec::with_capacity(batch.len()), Vec::with_capacity(batch.len()));
        for (_, line) in batch {
            match line {
                FileLine::Event(event) => {
                    requests.push(event.kept);
                    events.push(event.prepared);
                }
                FileLine::Unread => summary.unread += 1,
                FileLine::Bad(_) => summary.bad += 1,
            }
        }
        for (request, decision) in requests.iter().zip(pollster::block_on(local.engine().decide(events))) {
            let action = decision.verdict.action;
            let flagged = (action != Action::Accept).then(|| action.to_string());
            let rules = decision.verdict.reasons.iter().map(|reason| reason.rule.as_str());
            summary.add(request, flagged.as_deref(), rules);
        }
        progress.add(requests.len() as u64);
        Ok(())
    };
    lines.read(reader, |event| LoggedRequest::of(event, address), take)
}

fn report(summary: &LogSummary, most: usize) -> LogReport {
    let top = |counter: &TopCounter| counter.top(most, |counts| counts.requests);
    let intervals = summary.timeline.bars(BARS).into_iter();
    LogReport {
        all: summary.all.clone(),
        bad: summary.bad,
        unread: summary.unread,
        first: summary.span.map(|(first, _)| first.to_string()),
        last: summary.span.map(|(_, last)| last.to_string()),
        sources: summary.sources.top(most),
        rules: top(&summary.rules),
        addresses: top(&summary.addresses),
        networks: top(&summary.networks),
        accounts: top(&summary.accounts),
        paths: top(&summary.paths),
        failing: top(&summary.failing),
        agents: top(&summary.agents),
        statuses: top(&summary.statuses),
        methods: top(&summary.methods),
        timeline: intervals
            .map(|(start, counts)| ReportInterval { start: start.to_string(), counts })
            .collect(),
    }
}

fn show(out: &mut Output, summary: &LogSummary, most: usize) -> Result<(), CommandError> {
    let RequestCounts { requests, failed, flagged, bytes } = &summary.all;
    out.line(format_args!(
        "{BOLD}{requests}{BOLD:#} {}, {flagged} flagged, {failed} failed, {bytes} bytes",
        summary.unit
    ))?;
    if let Some((first, last)) = summary.span {
        out.line(format_args!("from {first} to {last}"))?;
    }
    if summary.bad > 0 {
        out.line(format_args!("{} lines are no {}", summary.bad, summary.unit))?;
    }
    if summary.unread > 0 {
        out.line(format_args!("{} lines are read by no pattern", summary.unread))?;
    }
    let bars = summary.timeline.bars(BARS);
    if bars.len() > 1 {
        out.line("")?;
        out.line(format_args!("{BOLD}Over time{BOLD:#}"))?;
        out.line(sparkline(bars.iter().map(|(_, counts)| counts.requests)))?;
        if summary.all.flagged > 0 {
            let flagged = sparkline(bars.iter().map(|(_, counts)| counts.flagged));
            out.line(format_args!("{RED}{flagged}{RED:#}  flagged"))?;
        }
    }
    if summary.sources.len() > 0 {
        out.line("")?;
    }
    sources_table(out, &summary.sources, most)?;
    for Section { title, entries, missed } in sections(summary, most) {
        if entries.is_empty() {
            continue;
        }
        out.line("")?;
        match missed {
            0 => out.line(format_args!("{BOLD}{title}{BOLD:#}"))?,
            missed => out.line(format_args!("{BOLD}{title}{BOLD:#}  {DIM}up to {missed} too low{DIM:#}"))?,
        }
        let mut table = TextTable::default();
        table.row([summary.unit, "flagged", "failed"].map(|head| TableCell::number(head, DIM)));
        for TopEntry { name, counts } in &entries {
            let style = if counts.flagged > 0 { RED } else { PLAIN };
            table.row([
                TableCell::number(counts.requests, BOLD),
                TableCell::number(counts.flagged, style),
                TableCell::number(counts.failed, PLAIN),
                TableCell::text(cut(name, TEXT_CHARS_MAX), PLAIN),
            ]);
        }
        out.line(table)?;
    }
    Ok(())
}

/// Prints who was flagged, for what, and when.
pub(super) fn sources_table(
    out: &mut Output,
    sources: &FlaggedSources,
    most: usize,
) -> Result<(), CommandError> {
    let top = sources.top(most);
    if top.is_empty() {
        return Ok(());
    }
    let more = if sources.missed > 0 { "at least " } else { "" };
    out.line(format_args!("{BOLD}Flagged addresses{BOLD:#}  {DIM}{more}{}{DIM:#}", sources.len()))?;
    let mut table = TextTable::default();
    table.row([
        TableCell::number("events", DIM),
        TableCell::text("address", DIM),
        TableCell::text("actions", DIM),
        TableCell::text("last", DIM),
        TableCell::text("rules", DIM),
    ]);
    let list = |counts: &std::collections::BTreeMap<String, u64>| {
        let mut counts: Vec<(&String, &u64)> = counts.iter().collect();
        counts.sort_by(|(a, x), (b, y)| y.cmp(x).then_with(|| a.cmp(b)));
        let texts: Vec<String> = counts.iter().map(|(name, count)| format!("{name} {count}")).collect();
        cut(&texts.join(", "), TEXT_CHARS_MAX)
    };
    for source in &top {
        table.row([
            TableCell::number(source.events, BOLD),
            TableCell::text(cut(&source.address, TEXT_CHARS_MAX), PLAIN),
            TableCell::text(list(&source.actions), RED),
            TableCell::text(&*source.last, DIM),
            TableCell::text(list(&source.rules), PLAIN),
        ]);
    }
    out.line(table)
}

/// A line of bars.
fn sparkline(counts: impl Iterator<Item = u64> + Clone) -> String {
    const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let highest = counts.clone().max().unwrap_or(0).max(1);
    let bar = |count: u64| match count {
        0 => ' ',
        // Millions of millions times seven are more than 64 bits have.
        count => BARS[usize::try_from(u128::from(count) * 7 / u128::from(highest)).unwrap_or(7).min(7)],
    };
    counts.map(bar).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_as_high_as_their_counts() {
        assert_eq!(sparkline([0, 1, 50, 100].into_iter()), " ▁▄█");
        assert_eq!(sparkline([0, 0].into_iter()), "  ");
        assert_eq!(sparkline([u64::MAX].into_iter()), "█");
    }
}
