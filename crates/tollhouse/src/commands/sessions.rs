//! `tollhouse sessions`: the sessions of people on a server, and ending one.

use serde::Serialize;

use crate::console::{BOLD, DIM, Output, PLAIN, TableCell, TextTable, printable};
use crate::exit::{CommandError, Exit};
use crate::options::{JsonOption, NearServerOptions};

/// Show who is logged in to a server, and end sessions
#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
#[command(after_help = "\
Examples:
  tollhouse sessions                                 On the server on 127.0.0.1:8377
  tollhouse sessions --server http://10.0.0.1:8377 --json
  tollhouse sessions end 01hx3k9q7w2rd

Needs a token with scope administer. `tollhouse user` manages the people.")]
pub(crate) struct SessionsArgs {
    #[command(subcommand)]
    command: Option<SessionsCommand>,
    #[command(flatten)]
    server: NearServerOptions,
    #[command(flatten)]
    json: JsonOption,
}

#[derive(clap::Subcommand)]
enum SessionsCommand {
    End(SessionEndArgs),
}

/// End a session at once
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tollhouse sessions end 01hx3k9q7w2rd
  tollhouse sessions end 01hx3k9q7w2rd --server http://10.0.0.1:8377

Exit code 2: there is no such session.")]
struct SessionEndArgs {
    /// Session id
    #[arg(value_name = "ID")]
    id: String,
    #[command(flatten)]
    server: NearServerOptions,
    #[command(flatten)]
    json: JsonOption,
}

/// An ended session in `--json`.
#[derive(Serialize)]
struct EndedLine<'a> {
    id: &'a str,
    ended: bool,
}

fn end(args: &SessionEndArgs) -> Result<Exit, CommandError> {
    args.server.client()?.end_session(&args.id)?;
    let mut out = Output::new(args.json.json);
    if out.is_json() {
        out.json(&EndedLine { id: &args.id, ended: true })?;
    } else {
        out.line(format_args!("session {} is ended", printable(&args.id)))?;
    }
    out.flush()?;
    Ok(Exit::Fine)
}

pub(crate) fn run(args: SessionsArgs) -> Result<Exit, CommandError> {
    if let Some(SessionsCommand::End(args)) = &args.command {
        return end(args);
    }
    let sessions = args.server.client()?.sessions()?.sessions;
    let mut out = Output::new(args.json.json);
    if out.is_json() {
        sessions.iter().try_for_each(|session| out.json(session))?;
    } else if sessions.is_empty() {
        out.line("nobody is logged in")?;
    } else {
        let mut table = TextTable::default();
        table.row(["id", "user", "role", "begun", "seen", "from"].map(|head| TableCell::text(head, DIM)));
        for session in &sessions {
            table.row([
                TableCell::text(printable(&session.id), BOLD),
                TableCell::text(printable(&session.user), PLAIN),
                TableCell::text(printable(&session.role), PLAIN),
                TableCell::text(session.begun.to_string(), DIM),
                TableCell::text(session.seen.to_string(), DIM),
                TableCell::text(session.from.as_deref().map_or("".into(), printable), PLAIN),
            ]);
        }
        out.line(table)?;
    }
    out.flush()?;
    Ok(Exit::Fine)
}
