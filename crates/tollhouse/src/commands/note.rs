//! `tollhouse note`: people's notes on a value, such as an address or an account.

use event::Time;
use server::api::NoteRequest;

use crate::console::{Output, printable};
use crate::exit::{CommandError, Exit};
use crate::options::{JsonOption, NearServerOptions, time};

/// Show, add and remove notes on an address, an account or another value
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tollhouse note 192.0.2.7                               Its notes, the newest first
  tollhouse note 192.0.2.7 --add \"Asked about the ban on the phone\"
  tollhouse note 192.0.2.7 --remove 2026-05-17T10:00:00Z

Exit code 1: there is no note, or none of that time.")]
pub(crate) struct NoteArgs {
    /// Address, account or other value
    #[arg(value_name = "VALUE")]
    value: String,
    /// Note to add
    #[arg(long, value_name = "TEXT", conflicts_with = "remove")]
    add: Option<String>,
    /// Time of the note to remove
    #[arg(long, value_name = "TIME", value_parser = time)]
    remove: Option<Time>,
    #[command(flatten)]
    server: NearServerOptions,
    #[command(flatten)]
    json: JsonOption,
}

pub(crate) fn run(args: NoteArgs) -> Result<Exit, CommandError> {
    let mut out = Output::new(args.json.json);
    let NoteArgs { value, add, remove, .. } = args;
    let client = args.server.client()?;
    let is_fine = if let Some(text) = add {
        let note = client.add_note(&NoteRequest { value, text })?;
        if out.is_json() {
            out.json(&note)?;
        } else {
            out.line(format_args!("{} is noted", printable(&note.value)))?;
        }
        true
    } else if let Some(at) = remove {
        let outcome = client.remove_note(&value, at)?;
        match out.is_json() {
            true => out.json(&outcome)?,
            false if outcome.removed => out.line("the note is removed")?,
            false => out.line(format_args!("{} has no note of that time", printable(&value)))?,
        }
        outcome.removed
    } else {
        let notes = client.notes(&value)?.notes;
        if out.is_json() {
            notes.iter().try_for_each(|note| out.json(note))?;
        } else if notes.is_empty() {
            out.line(format_args!("there is no note on {}", printable(&value)))?;
        } else {
            for note in &notes {
                out.line(format_args!("{} {}: {}", note.time, printable(&note.by), printable(&note.text)))?;
            }
        }
        !notes.is_empty()
    };
    out.flush()?;
    Ok(if is_fine { Exit::Fine } else { Exit::Found })
}
