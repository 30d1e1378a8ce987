//! `tollhouse searches`: the searches in past decisions that have a name.

use std::collections::BTreeMap;

use server::api::{SearchRequest, SearchesJson};

use crate::console::{BOLD, DIM, Output, PLAIN, TableCell, TextTable, printable};
use crate::exit::{CommandError, Exit};
use crate::options::{JsonOption, NearServerOptions};

/// Show a server's saved searches, save one, or remove one
#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
#[command(after_help = "\
Examples:
  tollhouse searches                                  As the server on 127.0.0.1:8377 has them
  tollhouse searches save rejected pipeline=mail action=reject last=1d
  tollhouse searches remove rejected

The console offers them to all who may read decisions.")]
pub(crate) struct SearchesArgs {
    #[command(subcommand)]
    command: Option<SearchesCommand>,
    #[command(flatten)]
    server: NearServerOptions,
    #[command(flatten)]
    json: JsonOption,
}

#[derive(clap::Subcommand)]
enum SearchesCommand {
    Save(SearchSaveArgs),
    Remove(SearchRemoveArgs),
}

/// Save a search, instead of one of the same name
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tollhouse searches save rejected pipeline=mail action=reject last=1d
  tollhouse searches save probes text=.env last=2d --server http://10.0.0.1:8377")]
pub(crate) struct SearchSaveArgs {
    /// Name
    #[arg(value_name = "NAME")]
    name: String,
    /// Condition, as a [[search]] has it: pipeline, text, action, rule, kind, value, where, label, score_from, score_below,
    /// last, facts
    #[arg(value_name = "KEY=VALUE", required = true, value_parser = condition)]
    asks: Vec<(String, String)>,
    #[command(flatten)]
    server: NearServerOptions,
    #[command(flatten)]
    json: JsonOption,
}

/// Remove a saved search
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tollhouse searches remove rejected")]
pub(crate) struct SearchRemoveArgs {
    /// Name
    #[arg(value_name = "NAME")]
    name: String,
    #[command(flatten)]
    server: NearServerOptions,
    #[command(flatten)]
    json: JsonOption,
}

fn condition(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or_else(|| "expected KEY=VALUE".to_owned())?;
    Ok((key.to_owned(), value.to_owned()))
}

pub(crate) fn run(args: SearchesArgs) -> Result<Exit, CommandError> {
    let (found, json) = match args.command {
        None => (args.server.client()?.searches()?, args.json.json),
        Some(SearchesCommand::Save(SearchSaveArgs { name, asks, server, json })) => {
            let asks: BTreeMap<String, String> = asks.into_iter().collect();
            (server.client()?.save_search(&SearchRequest { name, asks })?, json.json)
        }
        Some(SearchesCommand::Remove(SearchRemoveArgs { name, server, json })) => {
            (server.client()?.remove_search(&name)?, json.json)
        }
    };
    let mut out = Output::new(json);
    show(&mut out, &found)?;
    out.flush()?;
    Ok(Exit::Fine)
}

fn show(out: &mut Output, found: &SearchesJson) -> Result<(), CommandError> {
    if out.is_json() {
        return found.searches.iter().try_for_each(|search| out.json(search));
    }
    if found.searches.is_empty() {
        return out.line("no search has a name");
    }
    let mut table = TextTable::default();
    for search in &found.searches {
        let asks = search.asks.iter().map(|(key, value)| format!("{key}={}", printable(value)));
        table.row([
            TableCell::text(printable(&search.name), BOLD),
            TableCell::text(asks.collect::<Vec<_>>().join(" "), PLAIN),
            TableCell::text(if search.configured { "configured" } else { "saved" }, DIM),
        ]);
    }
    out.line(table)
}
