//! `tollhouse rules impact` and `correct`: what a rule did to past events, and taking it back.

use std::time::Duration;

use event::{Span, Time};
use indicatif::HumanCount;
use server::api::{CorrectionRequest, RuleImpactJson, Timestamp};

use crate::clock::now;
use crate::console::{BOLD, DIM, Output, TableCell, TextTable, colour, help, printable, say};
use crate::exit::{CommandError, Exit};
use crate::options::{TargetServerOptions, time};
use crate::rendering::without_nodes;

/// The time between two looks at what a server does.
const LOOK: Duration = Duration::from_millis(250);
/// The time before now whose decisions are read if none is said.
const SPAN: Span = Span::days(1);

/// The rule, and the decisions for which it fired.
#[derive(clap::Args)]
struct RuleHitsArgs {
    /// Rule
    #[arg(value_name = "RULE")]
    rule: String,
    /// Pipeline [default: the first]
    #[arg(long, value_name = "NAME")]
    pipeline: Option<String>,
    /// Only decisions of this version
    #[arg(long = "of", value_name = "VERSION", id = "of_version")]
    version: Option<String>,
    /// Span to read, back from now [default: 1d]
    #[arg(long, value_name = "SPAN", conflicts_with = "from")]
    last: Option<Span>,
    /// Only decided at this time or later
    #[arg(long, value_name = "TIME", value_parser = time)]
    from: Option<Time>,
    /// Only decided before this time
    #[arg(long, value_name = "TIME", value_parser = time)]
    to: Option<Time>,
    #[command(flatten)]
    node: TargetServerOptions,
}

impl RuleHitsArgs {
    fn from(&self) -> Time {
        self.from.unwrap_or_else(|| now() - self.last.unwrap_or(SPAN))
    }
}

/// Show the events that a rule hit or alone decided
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tollhouse rules impact LARGE --last 1h --server http://127.0.0.1:8377
  tollhouse rules impact LARGE --of 3f9c04d1a2b7e856 --server http://127.0.0.1:8377 --json

Decides each event again without the rule, by the version that decided. Changes nothing.")]
pub(crate) struct RulesImpactArgs {
    #[command(flatten)]
    of: RuleHitsArgs,
}

/// Undo what a wrong rule did: counts, labels and bans
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tollhouse rules impact LARGE --last 1h --server http://127.0.0.1:8377
  tollhouse rules correct LARGE --last 1h --server http://127.0.0.1:8377

Switch the rule off first, or it goes on. You can repeat the command: nothing is undone twice.
Decisions stay as logged; the audit log has the correction. Exit codes: 0 all undone, 1 some counts
stay, since nothing keeps how much of them was the rule's.")]
pub(crate) struct RulesCorrectArgs {
    #[command(flatten)]
    of: RuleHitsArgs,
}

pub(super) fn impact(args: RulesImpactArgs) -> Result<Exit, CommandError> {
    let args = args.of;
    let mut out = Output::new(args.node.json.json);
    let (from, to) = (args.from().to_string(), args.to.map(|to| to.to_string()));
    let mut query = vec![("rule", args.rule.as_str()), ("from", &from)];
    query.extend(args.pipeline.as_deref().map(|pipeline| ("pipeline", pipeline)));
    query.extend(args.version.as_deref().map(|version| ("version", version)));
    query.extend(to.as_deref().map(|to| ("to", to)));
    let impact = args.node.client()?.rule_impact(&query)?;
    if out.is_json() {
        out.json(&impact)?;
    } else {
        show(&impact, &mut out)?;
        for hit in &impact.decisions {
            let without = hit.without.map_or("?", |without| without.name());
            let colours = (colour(hit.action), hit.without.map_or(DIM, colour));
            out.line(format_args!(
                "{}  {}  {}{}{:#} {DIM}without it{DIM:#} {}{without}{:#}{}",
                hit.id,
                hit.time,
                colours.0,
                hit.action,
                colours.0,
                colours.1,
                colours.1,
                if hit.corrected { "  undone" } else { "" }
            ))?;
        }
    }
    out.flush()?;
    without_nodes(&impact.absent);
    if impact.partial {
        help("there is more than was looked at: name a shorter time");
    }
    Ok(Exit::Fine)
}

fn show(impact: &RuleImpactJson, out: &mut Output) -> Result<(), CommandError> {
    out.line(format_args!(
        "{BOLD}{} decisions, {} decided by it alone{BOLD:#}; {} undone before",
        HumanCount(impact.hits),
        HumanCount(impact.alone),
        HumanCount(impact.corrected)
    ))?;
    let mut table = TextTable::default();
    for change in impact.actions.iter().filter(|change| change.action != change.without) {
        table.row([
            TableCell::number(HumanCount(change.decisions), BOLD),
            TableCell::text(change.action.name(), colour(change.action)),
            TableCell::text(format!("without it {}", change.without), colour(change.without)),
        ]);
    }
    out.line(table)?;
    out.line(format_args!(
        "{} additions to counters, {} labels, {} bans",
        HumanCount(impact.counts),
        HumanCount(impact.labels),
        HumanCount(impact.bans)
    ))?;
    for (name, count) in &impact.lasting {
        out.line(format_args!("{DIM}stays: {} of {}{DIM:#}", HumanCount(*count), printable(name)))?;
    }
    Ok(())
}

pub(super) fn run(args: RulesCorrectArgs) -> Result<Exit, CommandError> {
    let args = args.of;
    let mut out = Output::new(args.node.json.json);
    let client = args.node.client()?;
    let ordered = client.correct_rule(&CorrectionRequest {
        from: Timestamp(args.from()),
        to: args.to.map(Timestamp),
        pipeline: args.pipeline,
        rule: args.rule,
        version: args.version,
    })?;
    let done = loop {
        let seen = client.correction()?;
        if seen.begun != ordered.begun || seen.rule != ordered.rule {
            return Err(CommandError::new("the server was started again before it was done")
                .help("order it again: what was undone is not undone again"));
        }
        if seen.state != "running" {
            break seen;
        }
        std::thread::sleep(LOOK);
    };
    if let Some(why) = done.problem {
        return Err(CommandError::new(why).help("order it again: what was undone is not undone again"));
    }
    let impact = done.impact.clone().unwrap_or_default();
    if out.is_json() {
        out.json(&done)?;
    } else {
        show(&impact, &mut out)?;
    }
    out.flush()?;
    say("undone");
    Ok(if impact.lasting.is_empty() { Exit::Fine } else { Exit::Found })
}
