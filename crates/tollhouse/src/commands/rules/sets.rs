//! `tollhouse rules sets`: the sets of a server's pipeline, and the entries of one.

use server::api::{SetEntriesJson, SetJson};

use crate::console::{BOLD, DIM, Output, PLAIN, TableCell, TextTable, printable};
use crate::exit::{CommandError, Exit};
use crate::options::{JsonOption, NearServerOptions};

/// Show a server's sets, or the entries of one
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tollhouse rules sets --pipeline mail
  tollhouse rules sets --pipeline mail shorteners --text ly
  tollhouse rules sets --pipeline web drop --has 192.0.2.7

Exit code 1: the value of --has is not in the set.")]
pub(super) struct RulesSetsArgs {
    /// Set whose entries are shown
    #[arg(value_name = "NAME")]
    name: Option<String>,
    /// Pipeline [default: the first]
    #[arg(long, value_name = "NAME")]
    pipeline: Option<String>,
    /// Only entries that contain this, in any case
    #[arg(long, value_name = "TEXT", requires = "name")]
    text: Option<String>,
    /// Value to look for in the set
    #[arg(long, value_name = "VALUE", requires = "name", conflicts_with = "text")]
    has: Option<String>,
    #[command(flatten)]
    server: NearServerOptions,
    #[command(flatten)]
    json: JsonOption,
}

/// Entries that are asked for at once.
const PAGE: &str = "10000";

pub(super) fn run(args: &RulesSetsArgs) -> Result<Exit, CommandError> {
    let mut out = Output::new(args.json.json);
    let client = args.server.client()?;
    let Some(name) = &args.name else {
        let sets = client.sets(args.pipeline.as_deref())?.sets;
        if out.is_json() {
            sets.iter().try_for_each(|set| out.json(set))?;
        } else {
            let mut table = TextTable::default();
            table.row(["set", "type", "entries"].map(|head| TableCell::text(head, DIM)));
            for SetJson { name, kind, entries } in &sets {
                table.row([
                    TableCell::text(printable(name), BOLD),
                    TableCell::text(kind, PLAIN),
                    TableCell::number(entries, PLAIN),
                ]);
            }
            out.line(table)?;
        }
        out.flush()?;
        return Ok(Exit::Fine);
    };
    if let Some(value) = &args.has {
        let asked = [("has", value.as_str()), ("limit", "1")];
        let found = client.set_entries(name, args.pipeline.as_deref(), &asked)?;
        let is_there = found.found == Some(true);
        if out.is_json() {
            out.json(&found)?;
        } else {
            let text = if is_there { "is in the set" } else { "is not in the set" };
            out.line(format_args!("{} {text}", printable(value)))?;
        }
        out.flush()?;
        return Ok(if is_there { Exit::Fine } else { Exit::Found });
    }
    let mut from = Some(0);
    while let Some(place) = from {
        let place = place.to_string();
        let mut asked = vec![("from", place.as_str()), ("limit", PAGE)];
        asked.extend(args.text.as_deref().map(|text| ("text", text)));
        let page: SetEntriesJson = client.set_entries(name, args.pipeline.as_deref(), &asked)?;
        for entry in &page.page {
            if out.is_json() {
                out.json(entry)?;
            } else {
                out.line(printable(entry))?;
            }
        }
        from = page.next;
    }
    out.flush()?;
    Ok(Exit::Fine)
}
