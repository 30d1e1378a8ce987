//! `tollhouse allow`: values that nothing bans, as a server has them; entries that are put on and taken off while it runs.

use event::Span;
use server::api::{AllowRequest, Length};

use crate::console::{BOLD, DIM, Output, PLAIN, TableCell, TextTable, printable};
use crate::exit::{CommandError, Exit};
use crate::options::{JsonOption, NearServerOptions};

/// Show posted entries of a server's allow list, put values on it, and take them off
#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
#[command(after_help = "\
Examples:
  tollhouse allow                                    The posted entries
  tollhouse allow 192.0.2.7                          Whether, and by which entry, it is allowed
  tollhouse allow add 192.0.2.7 --why \"The office\" --for 30d
  tollhouse allow remove 192.0.2.7

Nothing bans what is on the list. Entries of [allow] in the configuration are not listed here, but
found. Exit code 1: the value is not on the list.")]
pub(crate) struct AllowArgs {
    #[command(subcommand)]
    command: Option<AllowCommand>,
    /// Address, network, account or other value to look for
    #[arg(value_name = "VALUE")]
    value: Option<String>,
    #[command(flatten)]
    server: NearServerOptions,
    #[command(flatten)]
    json: JsonOption,
}

#[derive(clap::Subcommand)]
enum AllowCommand {
    Add(AllowAddArgs),
    Remove(AllowRemoveArgs),
}

/// Put a value on the allow list: its bans end, and nothing bans it
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tollhouse allow add 198.51.100.0/24 --why \"Our own monitors\"
  tollhouse allow add ann@example.org --why \"Asked on the phone\" --for 7d")]
struct AllowAddArgs {
    /// Address, network, account or other value, as in events
    #[arg(value_name = "VALUE")]
    value: String,
    /// Reason, for those who come later
    #[arg(long, value_name = "TEXT")]
    why: String,
    /// Time for which it is allowed [default: without an end]
    #[arg(long = "for", value_name = "TIME")]
    lasts: Option<Span>,
    #[command(flatten)]
    server: NearServerOptions,
    #[command(flatten)]
    json: JsonOption,
}

/// Take a posted entry off the allow list
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tollhouse allow remove 198.51.100.0/24

Exit code 1: there was no such entry.")]
struct AllowRemoveArgs {
    /// Value of the entry
    #[arg(value_name = "VALUE")]
    value: String,
    #[command(flatten)]
    server: NearServerOptions,
    #[command(flatten)]
    json: JsonOption,
}

fn add(args: AllowAddArgs) -> Result<Exit, CommandError> {
    let mut out = Output::new(args.json.json);
    let AllowAddArgs { value, why, lasts, .. } = args;
    let request = AllowRequest { value, why, lasts: lasts.map(Length) };
    let entry = args.server.client()?.allow(&request)?;
    if out.is_json() {
        out.json(&entry)?;
    } else {
        match entry.until {
            Some(until) => {
                out.line(format_args!("nothing bans {} until {until}", printable(&entry.value)))?
            }
            None => out.line(format_args!("nothing bans {}", printable(&entry.value)))?,
        }
    }
    out.flush()?;
    Ok(Exit::Fine)
}

fn remove(args: &AllowRemoveArgs) -> Result<Exit, CommandError> {
    let mut out = Output::new(args.json.json);
    let outcome = args.server.client()?.disallow(&args.value)?;
    if out.is_json() {
        out.json(&outcome)?;
    } else if outcome.removed {
        out.line(format_args!("{} is off the list", printable(&args.value)))?;
    } else {
        out.line(format_args!("{} has no posted entry", printable(&args.value)))?;
    }
    out.flush()?;
    Ok(if outcome.removed { Exit::Fine } else { Exit::Found })
}

pub(crate) fn run(args: AllowArgs) -> Result<Exit, CommandError> {
    match args.command {
        Some(AllowCommand::Add(args)) => return add(args),
        Some(AllowCommand::Remove(args)) => return remove(&args),
        None => {}
    }
    let mut out = Output::new(args.json.json);
    let list = args.server.client()?.allow_list(args.value.as_deref())?;
    if out.is_json() {
        out.json(&list)?;
    } else if let Some(value) = &args.value {
        match &list.found {
            Some(found) => out.line(format_args!("{} is on the list: {found}", printable(value)))?,
            None => out.line(format_args!("{} is not on the list", printable(value)))?,
        }
    } else if list.entries.is_empty() {
        out.line("no entry was posted")?;
    } else {
        let mut table = TextTable::default();
        table.row(["value", "why", "by", "since", "until"].map(|head| TableCell::text(head, DIM)));
        for entry in &list.entries {
            table.row([
                TableCell::text(printable(&entry.value), BOLD),
                TableCell::text(printable(&entry.why), PLAIN),
                TableCell::text(printable(&entry.by), PLAIN),
                TableCell::text(entry.since.to_string(), PLAIN),
                TableCell::text(entry.until.map_or_else(String::new, |until| until.to_string()), PLAIN),
            ]);
        }
        out.line(table)?;
    }
    out.flush()?;
    let is_missing = args.value.is_some() && list.found.is_none();
    Ok(if is_missing { Exit::Found } else { Exit::Fine })
}
