//! `tollhouse snapshot`: a consistent copy of a data directory.

use std::path::PathBuf;

use indicatif::HumanBytes;
use serde::Serialize;
use server::api::KeptSnapshotJson;

use crate::console::{BOLD, DIM, Output, TableCell, TextTable, printable, say};
use crate::exit::{CommandError, Exit};
use crate::options::{CredentialOptions, DataOption, JsonOption, stopped};

/// Copy a data directory consistently, with or without a server on it, or list copies
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tollhouse snapshot --server http://127.0.0.1:8377      In `snapshots` of its data directory
  tollhouse snapshot --data ./data /backup/2026-11-21    No server may run on it
  tollhouse snapshot --list --server http://127.0.0.1:8377
  tollhouse restore ./data/snapshots/20261121T090753Z --data ./new

A snapshot is a data directory, with the secret. Unchanging files are hard links where possible:
only a copy on another disk is a backup.")]
pub(crate) struct SnapshotArgs {
    /// Directory to create; it must not exist
    #[arg(value_name = "TARGET", required_unless_present_any = ["server", "list"])]
    target: Option<PathBuf>,
    /// List the copies in `snapshots` of the data directory, the newest first
    #[arg(long, conflicts_with = "target")]
    list: bool,
    #[command(flatten)]
    data: DataOption,
    /// Server to make it, such as http://127.0.0.1:8377
    #[arg(long, value_name = "URL", conflicts_with_all = ["data", "target"])]
    server: Option<String>,
    #[command(flatten)]
    credentials: CredentialOptions,
    #[command(flatten)]
    json: JsonOption,
}

/// The line of `--json`.
#[derive(Serialize)]
struct SnapshotLine<'a> {
    name: &'a str,
}

pub(crate) fn run(args: SnapshotArgs) -> Result<Exit, CommandError> {
    let mut out = Output::new(args.json.json);
    let server = args.server.as_deref().map(|url| args.credentials.client(url)).transpose()?;
    if args.list {
        let kept = match server {
            Some(client) => client.snapshots()?.snapshots,
            None => {
                let kept = args.data.directory()?.snapshots(&|| false);
                let kept = kept.map_err(|error| CommandError::new(error.to_string()))?;
                kept.into_iter().map(KeptSnapshotJson::from).collect()
            }
        };
        list(&mut out, &kept)?;
        return Ok(Exit::Fine);
    }
    let name = match (server, &args.target) {
        (Some(client), _) => client.snapshot()?.name,
        (None, target) => {
            let target = target.as_deref().ok_or_else(|| CommandError::new("no target is named"))?;
            let directory = args.data.directory()?;
            directory.snapshot(target).map_err(|error| {
                stopped(&error, "let the server make it: `tollhouse snapshot --server URL`")
            })?;
            target.display().to_string()
        }
    };
    if out.is_json() {
        out.json(&SnapshotLine { name: &name })?;
    } else {
        out.line(&name)?;
    }
    out.flush()?;
    if args.target.is_none() {
        say("It is in `snapshots` of the server's data directory.");
    }
    Ok(Exit::Fine)
}

/// Writes a line for each snapshot.
fn list(out: &mut Output, kept: &[KeptSnapshotJson]) -> Result<(), CommandError> {
    let mut table = TextTable::default();
    for one in kept {
        if out.is_json() {
            out.json(one)?;
        }
        table.row([
            TableCell::text(printable(&one.name), BOLD),
            TableCell::text(one.time.map(|time| time.to_string()).unwrap_or_default(), DIM),
            TableCell::text(one.bytes.map(|bytes| HumanBytes(bytes).to_string()).unwrap_or_default(), DIM),
        ]);
    }
    if !out.is_json() && kept.is_empty() {
        say("There is no snapshot.");
    } else if !out.is_json() {
        out.line(table)?;
    }
    out.flush()
}
