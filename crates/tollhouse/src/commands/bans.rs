//! `tollhouse bans`: the ban list of a server; bans that are put on by hand, and lifted.

use event::Span;
use serde::Serialize;
use server::api::{BanEntry, LabelRequest, Length, LiftOutcome};

use crate::console::{BOLD, DIM, Output, PLAIN, TableCell, TextTable, cut, printable, say};
use crate::exit::{CommandError, Exit};
use crate::options::{JsonOption, NearServerOptions, span};

/// Bans that are asked for at once.
const PAGE: usize = 1000;
/// Characters of a value in a table.
const VALUE_CHARS: usize = 60;
/// Characters of a reason in a table.
const WHY_CHARS: usize = 40;
/// Said of a change that only one node has.
const UNSHARED: &str = "the cluster cannot be reached: for now only this node knows of it";

/// Search a server's ban list, ban values, and lift bans
#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
#[command(after_help = "\
Examples:
  tollhouse bans                                     The newest bans
  tollhouse bans 198.51.100 --label scanner          With this text in value, label or origin
  tollhouse bans --json --limit 100000 | jq -r .value
  tollhouse bans show 192.0.2.7                      What bans this address, since when, and why
  tollhouse bans add 192.0.2.7 --kind ip --label scanner --for 4h
  tollhouse bans lift 192.0.2.7

`tollhouse allow` keeps a value from being banned again. `tollhouse enforce` hands the list to
firewalls and proxies.")]
pub(crate) struct BansArgs {
    #[command(subcommand)]
    command: Option<BansCommand>,
    #[command(flatten)]
    list: BanListArgs,
}

/// Search the ban list, as `tollhouse bans` does
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tollhouse bans list
  tollhouse bans list 198.51.100 --type ban --limit 1000")]
struct BanListArgs {
    /// Text in the value, the label or the origin, in any case
    #[arg(value_name = "TEXT")]
    text: Option<String>,
    /// Only bans of this type, such as ban
    #[arg(long = "type", value_name = "TYPE")]
    decision: Option<String>,
    /// Only this label
    #[arg(long, value_name = "NAME")]
    label: Option<String>,
    /// Only of this pipeline
    #[arg(long, value_name = "NAME")]
    pipeline: Option<String>,
    /// Most bans to show, the newest
    #[arg(long, default_value_t = 50, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    limit: u64,
    #[command(flatten)]
    server: NearServerOptions,
    #[command(flatten)]
    json: JsonOption,
}

#[derive(clap::Subcommand)]
enum BansCommand {
    List(BanListArgs),
    Show(BanShowArgs),
    Add(BanAddArgs),
    Lift(BanLiftArgs),
}

/// Show the bans on a value; of an address, also those on networks that it is in
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tollhouse bans show 192.0.2.7
  tollhouse bans show ann@example.org --json

Exit code 1: nothing bans it.")]
struct BanShowArgs {
    /// Address, network, account or other value, as the list has it
    #[arg(value_name = "VALUE")]
    value: String,
    #[command(flatten)]
    server: NearServerOptions,
    #[command(flatten)]
    json: JsonOption,
}

/// Ban a value for a time
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tollhouse bans add 192.0.2.7 --kind ip --label scanner --for 4h
  tollhouse bans add ann --kind user --label thief --for 7d --pipeline shop --why 'case 4711'

The label is one of the pipeline with a `decision`. A ban lasts for its `keep` at most.")]
struct BanAddArgs {
    /// Address, network, account or other value, as in events
    #[arg(value_name = "VALUE")]
    value: String,
    /// Kind of key
    #[arg(long, value_name = "KIND")]
    kind: String,
    /// Label to put on
    #[arg(long, value_name = "NAME")]
    label: String,
    /// Time for which it is banned
    #[arg(long = "for", value_name = "TIME", value_parser = span)]
    lasts: Span,
    /// Pipeline [default: the first]
    #[arg(long, value_name = "NAME")]
    pipeline: Option<String>,
    /// Reason, shown wherever the ban is
    #[arg(long, value_name = "TEXT")]
    why: Option<String>,
    #[command(flatten)]
    server: NearServerOptions,
    #[command(flatten)]
    json: JsonOption,
}

/// Lift the bans on values
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tollhouse bans lift 192.0.2.7
  tollhouse bans lift 192.0.2.7 198.51.100.0/24 --json

Exit code 1: nothing banned one of them.")]
struct BanLiftArgs {
    /// Address, network, account or other value, as the list has it
    #[arg(value_name = "VALUE", required = true)]
    values: Vec<String>,
    #[command(flatten)]
    server: NearServerOptions,
    #[command(flatten)]
    json: JsonOption,
}

/// The outcome for a value in `--json`.
#[derive(Serialize)]
struct LiftLine<'a> {
    value: &'a str,
    #[serde(flatten)]
    outcome: LiftOutcome,
}

pub(crate) fn run(args: BansArgs) -> Result<Exit, CommandError> {
    match args.command {
        None => list(&args.list),
        Some(BansCommand::List(args)) => list(&args),
        Some(BansCommand::Show(args)) => show(&args),
        Some(BansCommand::Add(args)) => add(args),
        Some(BansCommand::Lift(args)) => lift(&args),
    }
}

fn list(args: &BanListArgs) -> Result<Exit, CommandError> {
    let client = args.server.client()?;
    let given = [
        ("text", &args.text),
        ("type", &args.decision),
        ("label", &args.label),
        ("pipeline", &args.pipeline),
    ];
    let filter: Vec<(&str, &str)> =
        given.iter().filter_map(|(name, value)| Some((*name, value.as_deref()?))).collect();
    let wanted = usize::try_from(args.limit).unwrap_or(usize::MAX);
    let mut bans = Vec::new();
    let mut before = None;
    let all = loop {
        let page = client.search_bans(&filter, PAGE.min(wanted - bans.len()), before)?;
        bans.extend(page.bans);
        before = page.next;
        if before.is_none() || bans.len() >= wanted {
            break page.all;
        }
    };
    let mut out = Output::new(args.json.json);
    if out.is_json() {
        bans.iter().try_for_each(|ban| out.json(ban))?;
    } else if !bans.is_empty() {
        table(&mut out, &bans)?;
    } else if filter.is_empty() {
        out.line("nothing is banned")?;
    } else {
        out.line(format_args!("no ban of {all} fits"))?;
    }
    out.flush()?;
    if before.is_some() {
        say(format_args!("there may be more, of {all} bans in all: --limit shows them"));
    }
    Ok(Exit::Fine)
}

fn table(out: &mut Output, bans: &[BanEntry]) -> Result<(), CommandError> {
    let mut table = TextTable::default();
    let heads = ["value", "kind", "label", "type", "by", "since", "until", "why", "pipeline"];
    table.row(heads.map(|head| TableCell::text(head, DIM)));
    for ban in bans {
        table.row([
            TableCell::text(cut(&ban.value, VALUE_CHARS), BOLD),
            TableCell::text(printable(&ban.kind), PLAIN),
            TableCell::text(printable(&ban.label), PLAIN),
            TableCell::text(printable(&ban.decision), PLAIN),
            TableCell::text(printable(&ban.by), PLAIN),
            TableCell::text(ban.since.to_string(), DIM),
            TableCell::text(ban.until.to_string(), PLAIN),
            TableCell::text(why(ban), PLAIN),
            TableCell::text(printable(&ban.pipeline), DIM),
        ]);
    }
    out.line(table)
}

/// Returns the decision that banned, for `tollhouse explain`, or the reason that somebody gave.
fn why(ban: &BanEntry) -> String {
    let why = ban.why.as_deref().map(|why| cut(why, WHY_CHARS));
    ban.decision_id.as_ref().map(|id| printable(id).to_string()).or(why).unwrap_or_default()
}

fn show(args: &BanShowArgs) -> Result<Exit, CommandError> {
    let bans = args.server.client()?.bans_on(&args.value)?;
    let mut out = Output::new(args.json.json);
    if out.is_json() {
        bans.iter().try_for_each(|ban| out.json(ban))?;
    } else if bans.is_empty() {
        out.line(format_args!("nothing bans {}", printable(&args.value)))?;
    } else {
        table(&mut out, &bans)?;
    }
    out.flush()?;
    Ok(if bans.is_empty() { Exit::Found } else { Exit::Fine })
}

fn add(args: BanAddArgs) -> Result<Exit, CommandError> {
    let mut out = Output::new(args.json.json);
    let BanAddArgs { value, kind, label, lasts, pipeline, why, .. } = args;
    let request = LabelRequest { pipeline, kind, label, value, lasts: Length(lasts), why };
    let outcome = args.server.client()?.ban(&request)?;
    if out.is_json() {
        out.json(&outcome)?;
    } else {
        out.line(format_args!("{} is banned until {}", printable(&outcome.value), outcome.until))?;
    }
    out.flush()?;
    if outcome.unshared {
        say(UNSHARED);
    }
    Ok(Exit::Fine)
}

fn lift(args: &BanLiftArgs) -> Result<Exit, CommandError> {
    let client = args.server.client()?;
    let mut out = Output::new(args.json.json);
    let mut is_missing = false;
    for value in &args.values {
        let outcome = client.lift(value)?;
        let (lifted, unshared) = (outcome.lifted, outcome.unshared);
        is_missing |= lifted == 0;
        if out.is_json() {
            out.json(&LiftLine { value, outcome })?;
        } else {
            match lifted {
                0 => out.line(format_args!("nothing bans {}", printable(value)))?,
                1 => out.line(format_args!("the ban on {} is lifted", printable(value)))?,
                _ => out.line(format_args!("{lifted} bans on {} are lifted", printable(value)))?,
            }
        }
        out.flush()?;
        if unshared {
            say(UNSHARED);
        }
    }
    Ok(if is_missing { Exit::Found } else { Exit::Fine })
}
