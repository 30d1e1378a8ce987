//! `tollhouse ledger`: what the ledger remembers of the configuration.

use engine::EngineOpenError;
use event::Kind;
use serde::Serialize;
use stats::RegisteredName;

use crate::console::{Output, say};
use crate::exit::{CommandError, Exit};
use crate::options::{EngineOptions, JsonOption, stopped};

/// Show the ledger's names and rename statistics
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tollhouse ledger names --data ./data                          SPACE/SECTION/NAME and number
  tollhouse ledger names --data ./data --rename from sender     Keep what was counted of `from`
  tollhouse ledger names --data ./data --drop kind/from         Let `from` start from zero")]
pub(crate) struct LedgerArgs {
    #[command(subcommand)]
    command: LedgerCommand,
}

#[derive(clap::Subcommand)]
enum LedgerCommand {
    Names(NamesArgs),
}

/// List all names that ever had a number, or change one
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tollhouse ledger names --data ./data
  tollhouse ledger names --data ./data --rename from sender
  tollhouse ledger names --data ./data --drop 1/kind/from

Statistics are stored under numbers. A name gets one when first used, and keeps it while the
configuration lacks the name. Write a name as listed, or as a unique ending. Rename with the server
stopped, before the configuration has the new name. A dropped name gets a new number when used
again; the old one is never reused.")]
struct NamesArgs {
    #[command(flatten)]
    engine: EngineOptions,
    /// Rename a statistic and keep its counts
    #[arg(long, num_args = 2, value_names = ["OLD", "NEW"], conflicts_with = "drop")]
    rename: Option<Vec<String>>,
    /// Forget a statistic's counts
    #[arg(long, value_name = "NAME")]
    drop: Option<String>,
    #[command(flatten)]
    json: JsonOption,
}

/// The line of `--json`.
#[derive(Serialize)]
struct NameLine<'a> {
    space: u16,
    section: &'static str,
    name: &'a str,
    number: u16,
}

pub(crate) fn run(args: LedgerArgs) -> Result<Exit, CommandError> {
    let LedgerCommand::Names(args) = args.command;
    let directory = args.engine.directory()?;
    let is_shared = || args.engine.plan(&directory).is_ok_and(|plan| plan.node.cluster.is_some());
    if (args.rename.is_some() || args.drop.is_some()) && is_shared() {
        return Err(CommandError::new("names that nodes share in a cluster cannot be changed")
            .help("use a new name for a count that starts from zero"));
    }
    let failed = |error: EngineOpenError| stopped(&error, "leave the names as they are");
    if let Some([old, new]) = args.rename.as_deref() {
        let renamed = directory.change_numbers(|registry| {
            let old = registry.find(old)?.clone();
            registry.rename(&old, new)?;
            Ok(old)
        });
        let old = renamed.map_err(failed)?;
        say(format_args!(
            "what was counted under {old} is that of `{new}` now: rename it in the configuration, too"
        ));
        return Ok(Exit::Fine);
    }
    if let Some(name) = &args.drop {
        let dropped = directory.change_numbers(|registry| {
            let name = registry.find(name)?.clone();
            registry.drop_name(&name)?;
            Ok(name)
        });
        say(format_args!("{} starts from zero when it is used again", dropped.map_err(failed)?));
        return Ok(Exit::Fine);
    }
    let mut out = Output::new(args.json.json);
    for (Kind(number), listed) in directory.numbers()?.iter() {
        let RegisteredName { space, section, name } = listed;
        if out.is_json() {
            out.json(&NameLine { space: space.0, section: section.name(), name, number })?;
        } else {
            out.line(format_args!("{listed} {number}"))?;
        }
    }
    out.flush()?;
    Ok(Exit::Fine)
}
