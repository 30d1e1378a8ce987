//! `tollhouse rules post`, `reload`, `versions`, `rollback`, `compare`, `canary`, `promote` and `drop`: what a node judges by.

use std::io::Read;
use std::path::PathBuf;

use engine::{Proposal, ReloadError, ReloadOutcome};
use plan::{CanaryScope, Pipeline};
use server::api;

use crate::client::{ApiClient, CallError};
use crate::clock::now;
use crate::console::{BOLD, DIM, GREEN, Output, RED, TableCell, TextTable, printable, say};
use crate::exit::{CommandError, Exit};
use crate::options::{Backend, EngineOptions, JsonOption, LocalEngine, ServerOptions, TargetServerOptions};

/// Largest text of rules that is read.
const TEXT_BYTES_MAX: u64 = 16 << 20;

/// The server, and one of its pipelines.
#[derive(clap::Args)]
struct PipelineTargetArgs {
    /// Pipeline [default: the first]
    #[arg(long, value_name = "NAME")]
    pipeline: Option<String>,
    #[command(flatten)]
    engine: EngineOptions,
    #[command(flatten)]
    server: ServerOptions,
    #[command(flatten)]
    json: JsonOption,
}

/// Lay rules over a pipeline's file
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tollhouse rules post new.toml --dry-run --server http://127.0.0.1:8377
  tollhouse rules post new.toml --server http://127.0.0.1:8377
  tollhouse rules post new.toml --candidate --server http://127.0.0.1:8377
  tollhouse rules post /dev/null --data ./data        Removes what was posted

Lays the text over the pipeline's file, entry by entry, and replaces what was posted before. An
error changes nothing. Exit codes: 0 done, 1 rejected.")]
pub(crate) struct RulesPostArgs {
    /// TOML file, or - for standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Only show what would change
    #[arg(long)]
    dry_run: bool,
    /// Run them beside the enforced rules, without effect
    #[arg(long)]
    candidate: bool,
    #[command(flatten)]
    at: PipelineTargetArgs,
}

/// Reload a server's files
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tollhouse rules reload --server http://127.0.0.1:8377
  tollhouse rules reload --dry-run --server http://127.0.0.1:8377

A server also reloads changed files by itself, and at SIGHUP. Exit codes: 0 done, 1 rejected.")]
pub(crate) struct RulesReloadArgs {
    /// Only show what would change
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    node: TargetServerOptions,
}

/// List a pipeline's versions for rollback
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tollhouse rules versions --server http://127.0.0.1:8377
  tollhouse rules versions --data ./data --json | jq -r '.versions[].version'")]
pub(crate) struct RulesVersionsArgs {
    #[command(flatten)]
    at: PipelineTargetArgs,
}

/// Go back to a version of a pipeline
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tollhouse rules versions --server http://127.0.0.1:8377
  tollhouse rules rollback 3f9c --server http://127.0.0.1:8377
  tollhouse rules rollback 3f9c04d1a2b7e856 --data ./data

It stays in force, also after a restart, until the files change or rules are posted.")]
pub(crate) struct RulesRollbackArgs {
    /// Version, or a unique prefix
    #[arg(value_name = "VERSION", id = "kept")]
    version: String,
    #[command(flatten)]
    at: PipelineTargetArgs,
}

/// Show a kept version, or its difference from another
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tollhouse rules show 3f9c --server http://127.0.0.1:8377
  tollhouse rules show candidate --against 3f9c --server http://127.0.0.1:8377
  tollhouse rules show 3f9c --server http://127.0.0.1:8377 --json | jq -r .who

The text has every setting, also the preset's. `candidate` is the posted one.")]
pub(crate) struct RulesShowArgs {
    /// Version, or a unique prefix
    #[arg(value_name = "VERSION", id = "kept")]
    version: String,
    /// Only lines that differ from this version
    #[arg(long, value_name = "VERSION")]
    against: Option<String>,
    /// Pipeline [default: the first]
    #[arg(long, value_name = "NAME")]
    pipeline: Option<String>,
    #[command(flatten)]
    node: TargetServerOptions,
}

/// List the names that conditions on a server can use
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tollhouse rules names --server http://127.0.0.1:8377 | grep seen
  tollhouse rules names --server http://127.0.0.1:8377 --json | jq -r '.names[].name'")]
pub(crate) struct RulesNamesArgs {
    /// Pipeline [default: the first]
    #[arg(long, value_name = "NAME")]
    pipeline: Option<String>,
    #[command(flatten)]
    node: TargetServerOptions,
}

/// Compare a server's candidate with the enforced rules
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tollhouse rules post new.toml --candidate --server http://127.0.0.1:8377
  tollhouse rules compare --server http://127.0.0.1:8377
  tollhouse rules compare --server http://127.0.0.1:8377 --json | jq .rate

Counts since the candidate, the enforced rules or the server began, whichever is latest.")]
pub(crate) struct RulesCompareArgs {
    /// Pipeline [default: the first]
    #[arg(long, value_name = "NAME")]
    pipeline: Option<String>,
    #[command(flatten)]
    node: TargetServerOptions,
}

/// Enforce the posted candidate
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tollhouse rules promote --server http://127.0.0.1:8377
  tollhouse rules promote --data ./data --pipeline web

It replaces what was posted before.")]
pub(crate) struct RulesPromoteArgs {
    #[command(flatten)]
    at: PipelineTargetArgs,
}

/// Let the posted candidate decide for some events
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tollhouse rules post new.toml --candidate --server http://127.0.0.1:8377
  tollhouse rules canary --share 0.05 --server http://127.0.0.1:8377
  tollhouse rules canary --node 3 --server http://127.0.0.1:8377
  tollhouse rules canary --share 0 --server http://127.0.0.1:8377     Decides for none again

Events go by their first key, else by their id. An event stays in the share when it grows.
`tollhouse rules compare` compares both; `promote` or `drop` ends it.")]
pub(crate) struct RulesCanaryArgs {
    /// Share of the events, 0 to 1 [default: all events of the nodes]
    #[arg(long, value_name = "SHARE", required_unless_present = "nodes")]
    share: Option<f64>,
    /// Only on this node, by its number in `tollhouse nodes`; repeatable
    #[arg(long = "node", value_name = "NUMBER")]
    nodes: Vec<u16>,
    #[command(flatten)]
    at: PipelineTargetArgs,
}

/// Drop the posted candidate
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tollhouse rules drop --server http://127.0.0.1:8377
  tollhouse rules drop --data ./data --pipeline web")]
pub(crate) struct RulesDropArgs {
    #[command(flatten)]
    at: PipelineTargetArgs,
}

/// Changes something here or there, and shows what came of it.
fn change(
    at: &PipelineTargetArgs,
    dry_run: bool,
    remote: impl FnOnce(&ApiClient, Option<&str>) -> Result<api::ReloadOutcomeJson, CallError>,
    local: impl FnOnce(&LocalEngine, &Pipeline) -> Result<ReloadOutcome, ReloadError>,
) -> Result<Exit, CommandError> {
    let mut out = Output::new(at.json.json);
    let name = at.pipeline.as_deref();
    let changed = match Backend::open(&at.engine, &at.server)? {
        Backend::Remote(client) => remote(&client, name),
        Backend::Local(own) => {
            let pipeline = own.pipeline(name, |_| false)?;
            let changed = local(&own, &pipeline);
            own.close()?;
            match changed {
                Ok(reloaded) => Ok(api::ReloadOutcomeJson::new(&reloaded, dry_run)),
                Err(ReloadError::Problems(problems)) => {
                    say(problems);
                    return Ok(Exit::Found);
                }
                Err(error) => return Err(CommandError::new(error)),
            }
        }
    };
    show(&mut out, changed)
}

fn show(out: &mut Output, changed: Result<api::ReloadOutcomeJson, CallError>) -> Result<Exit, CommandError> {
    let reloaded = match changed {
        Ok(reloaded) => reloaded,
        Err(CallError::Refused(problem, _)) if !problem.problems.is_empty() => {
            problem.problems.iter().for_each(print_diagnostic);
            say("nothing has changed");
            return Ok(Exit::Found);
        }
        Err(error) => return Err(error.into()),
    };
    if out.is_json() {
        out.json(&reloaded)?;
        out.flush()?;
        return Ok(Exit::Fine);
    }
    reloaded.warnings.iter().for_each(print_diagnostic);
    for api::PipelineChangeJson {
        pipeline,
        before,
        after,
        candidate,
        canary,
        added,
        removed,
        changed,
        counted,
    } in &reloaded.changes
    {
        let [before, after] = [before, after].map(|version| version.as_deref().unwrap_or("none"));
        if before == after {
            let candidate = candidate.as_deref().unwrap_or("none");
            let decides = decides(canary.as_ref());
            out.line(format_args!(
                "{BOLD}{pipeline}{BOLD:#}: candidate {candidate}, beside {after}{decides}"
            ))?;
            continue;
        }
        out.line(format_args!("{BOLD}{pipeline}{BOLD:#}: {before} → {after}"))?;
        for (word, entries) in
            [("added", added), ("removed", removed), ("changed", changed), ("counted", counted)]
        {
            for entry in entries {
                out.line(format_args!("  {DIM}{word:<8}{DIM:#}{entry}"))?;
            }
        }
    }
    for section in &reloaded.restart {
        say(format_args!("{section}: changed settings take effect at a restart"));
    }
    match (reloaded.changes.is_empty(), reloaded.dry_run) {
        (true, true) => say("nothing would change"),
        (true, false) => say("nothing has changed: this is in force already"),
        (false, true) => say("nothing was changed: --dry-run"),
        (false, false) => {}
    }
    out.flush()?;
    Ok(Exit::Fine)
}

/// The events for which a candidate decides, behind what else is said of it.
fn decides(canary: Option<&api::CanaryJson>) -> String {
    let Some(api::CanaryJson { share, nodes }) = canary else { return String::new() };
    let share = share * 100.0;
    let nodes: Vec<String> = nodes.iter().map(u16::to_string).collect();
    match nodes.is_empty() {
        true => format!(", decides for {share} % of the events"),
        false => format!(", decides for {share} % of the events of node {}", nodes.join(", ")),
    }
}

fn print_diagnostic(problem: &api::DiagnosticJson) {
    let api::DiagnosticJson { severity, file, line, column, message, help } = problem;
    say(format_args!("{file}:{line}:{column}: {severity}: {message}"));
    if let Some(help) = help {
        crate::console::help(help);
    }
}

pub(super) fn post(args: RulesPostArgs) -> Result<Exit, CommandError> {
    let RulesPostArgs { file, dry_run, candidate, at } = args;
    let named = |error| CommandError::new(format_args!("{}: {error}", file.display()));
    let mut text = String::new();
    if file.as_os_str() == "-" {
        std::io::stdin().take(TEXT_BYTES_MAX).read_to_string(&mut text).map_err(named)?;
    } else {
        let opened = std::fs::File::open(&file).map_err(named)?;
        opened.take(TEXT_BYTES_MAX).read_to_string(&mut text).map_err(named)?;
    }
    change(
        &at,
        dry_run,
        |client, pipeline| client.post_rules(pipeline, &text, dry_run, candidate),
        |own, pipeline| {
            let (pipeline, text) = (pipeline.name.as_str(), text.as_str());
            let proposal = match candidate {
                true => Proposal::Candidate { pipeline, text },
                false => Proposal::Post { pipeline, text },
            };
            own.engine().change(proposal, now(), dry_run)
        },
    )
}

pub(super) fn reload(args: RulesReloadArgs) -> Result<Exit, CommandError> {
    let RulesReloadArgs { dry_run, node } = args;
    show(&mut Output::new(node.json.json), node.client()?.reload_rules(dry_run))
}

pub(super) fn rollback(args: RulesRollbackArgs) -> Result<Exit, CommandError> {
    let RulesRollbackArgs { version, at } = args;
    change(
        &at,
        false,
        |client, pipeline| client.roll_back(pipeline, &version),
        |own, pipeline| {
            let proposal = Proposal::Back { pipeline: &pipeline.name, version: &version };
            own.engine().change(proposal, now(), false)
        },
    )
}

pub(super) fn canary(args: RulesCanaryArgs) -> Result<Exit, CommandError> {
    let RulesCanaryArgs { share, nodes, at } = args;
    let share = share.unwrap_or(1.0);
    let scope = match CanaryScope::new(share, nodes.clone()) {
        None if share != 0.0 => {
            return Err(CommandError::new(format_args!("--share: {share} is not from 0 to 1")));
        }
        scope => scope,
    };
    change(
        &at,
        false,
        |client, pipeline| client.set_canary(pipeline, share, &nodes),
        |own, pipeline| {
            let proposal = Proposal::Canary { pipeline: &pipeline.name, scope: scope.as_ref() };
            own.engine().change(proposal, now(), false)
        },
    )
}

pub(super) fn drop_candidate(args: RulesDropArgs) -> Result<Exit, CommandError> {
    change(
        &args.at,
        false,
        |client, pipeline| client.post_rules(pipeline, "", false, true),
        |own, pipeline| {
            let proposal = Proposal::Candidate { pipeline: &pipeline.name, text: "" };
            own.engine().change(proposal, now(), false)
        },
    )
}

pub(super) fn promote(args: RulesPromoteArgs) -> Result<Exit, CommandError> {
    change(&args.at, false, ApiClient::promote_rules, |own, pipeline| {
        own.engine().change(Proposal::Promote { pipeline: &pipeline.name }, now(), false)
    })
}

pub(super) fn versions(args: RulesVersionsArgs) -> Result<Exit, CommandError> {
    let PipelineTargetArgs { pipeline, engine, server, json } = &args.at;
    let mut out = Output::new(json.json);
    let rules = match Backend::open(engine, server)? {
        Backend::Remote(client) => client.rules(pipeline.as_deref())?,
        Backend::Local(own) => {
            let pipeline = own.pipeline(pipeline.as_deref(), |_| false)?;
            let rules = api::RulesJson::from(&own.engine().rules_info(&pipeline));
            own.close()?;
            rules
        }
    };
    if out.is_json() {
        out.json(&rules)?;
    } else {
        for api::VersionJson { version, since, by, who } in &rules.versions {
            let mark = if *version == rules.version { "in force" } else { "" };
            let since = since.map(|since| since.to_string()).unwrap_or_default();
            let who = who.as_deref().map(printable).unwrap_or_default();
            out.line(
                format_args!("{version}  {by:<8}  {DIM}{since:<27}{DIM:#}  {mark:<8}  {who}")
                    .to_string()
                    .trim_end(),
            )?;
        }
    }
    out.flush()?;
    if rules.back {
        say("a kept version is in force, until the files change or rules are posted");
    }
    Ok(Exit::Fine)
}

pub(super) fn names(args: RulesNamesArgs) -> Result<Exit, CommandError> {
    let mut out = Output::new(args.node.json.json);
    let known = args.node.client()?.rule_names(args.pipeline.as_deref())?;
    if out.is_json() {
        out.json(&known)?;
    } else {
        for api::RuleNameJson { name, of, r#type, description } in &known.names {
            let kind = r#type.as_deref().unwrap_or(of);
            out.line(
                format_args!(
                    "{BOLD}{}{BOLD:#}  {kind}  {DIM}{}{DIM:#}",
                    printable(name),
                    printable(description)
                )
                .to_string()
                .trim_end(),
            )?;
        }
    }
    out.flush()?;
    Ok(Exit::Fine)
}

pub(super) fn show_version(args: RulesShowArgs) -> Result<Exit, CommandError> {
    let RulesShowArgs { version, against, pipeline, node } = args;
    let mut out = Output::new(node.json.json);
    let shown = node.client()?.version(pipeline.as_deref(), &version, against.as_deref())?;
    if out.is_json() {
        out.json(&shown)?;
        out.flush()?;
        return Ok(Exit::Fine);
    }
    match &shown.difference {
        None => out.line(shown.text.trim_end())?,
        Some(difference) => {
            for line in &difference.lines {
                let style = match line.as_bytes().first() {
                    Some(b'+') => GREEN,
                    Some(b'-') => RED,
                    _ => DIM,
                };
                out.line(format_args!("{style}{}{style:#}", printable(line)))?;
            }
        }
    }
    out.flush()?;
    let api::VersionJson { version, since, by, who } = &shown.version;
    let since = since.map(|since| format!(" since {since}")).unwrap_or_default();
    let who = who.as_deref().map(|who| format!(", by {}", printable(who))).unwrap_or_default();
    say(format_args!("{version} ({by}){since}{who}"));
    Ok(Exit::Fine)
}

pub(super) fn compare(args: RulesCompareArgs) -> Result<Exit, CommandError> {
    let mut out = Output::new(args.node.json.json);
    let comparison = args.node.client()?.comparison(args.pipeline.as_deref())?;
    if out.is_json() {
        out.json(&comparison)?;
        out.flush()?;
        return Ok(Exit::Fine);
    }
    let api::ComparisonJson { pipeline, version, candidate, events, disagreements, rate, rescored, .. } =
        &comparison;
    let decides = decides(comparison.canary.as_ref());
    out.line(format_args!("{BOLD}{pipeline}{BOLD:#}: candidate {candidate} beside {version}{decides}"))?;
    let share = rate * 100.0;
    out.line(format_args!(
        "{events} events: {disagreements} with another action ({share:.2} %), {rescored} with another score"
    ))?;
    let mut table = TextTable::default();
    for (enforced, row) in &comparison.actions {
        for (other, count) in row.iter().filter(|(other, _)| *other != enforced) {
            let plain = anstyle::Style::new();
            table.row([
                TableCell::text(format!("  {enforced} → {other}"), plain),
                TableCell::number(count, plain),
            ]);
        }
    }
    for (label, counts) in comparison.labels.iter().filter(|(_, counts)| counts.enforced != counts.candidate)
    {
        let plain = anstyle::Style::new();
        table.row([
            TableCell::text(
                format!("  {}: marked by the enforced rules, by the candidate", printable(label)),
                plain,
            ),
            TableCell::number(counts.enforced, plain),
            TableCell::number(counts.candidate, plain),
        ]);
    }
    out.line(table)?;
    if comparison.canary.is_some() {
        out.line(format_args!("the candidate has decided {} of them", comparison.decided))?;
    }
    for node in &comparison.absent {
        out.line(format_args!(
            "node {} is not in it: it does not answer, or compares other versions",
            printable(node)
        ))?;
    }
    for api::DisagreementJson { id, enforced, candidate, .. } in &comparison.examples {
        let judged =
            |of: &api::ComparedVerdictJson| format!("{} {} [{}]", of.action, of.score, of.rules.join(" "));
        out.line(format_args!("{id}  {} {DIM}→{DIM:#} {}", judged(enforced), judged(candidate)))?;
    }
    out.flush()?;
    Ok(Exit::Fine)
}
