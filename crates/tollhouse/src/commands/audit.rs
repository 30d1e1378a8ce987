//! `tollhouse audit`: who did what, and whether the log was changed since.

use std::str::FromStr;

use access::audit::{AuditHead, AuditOrder, AuditPlace, AuditQuery};
use event::Time;
use server::api::{AuditEntryJson, AuditJson, AuditVerificationJson};

use crate::console::{BOLD, DIM, Output, TableCell, TextTable, error, printable, say};
use crate::exit::{CommandError, Exit};
use crate::options::{EngineOptions, JsonOption, ServerOptions, time};

/// Show or verify the audit log
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tollhouse audit --data ./data
  tollhouse audit --since 2026-11-01 --action rules --data ./data
  tollhouse audit --by ann --server http://127.0.0.1:8377 --json
  tollhouse audit --verify --data ./data
  tollhouse audit --verify --expect 1034:9f86d081… --data ./data
  tollhouse audit --verify --server http://127.0.0.1:8377

--verify proves that no line was changed, removed or inserted, as far as files can: whoever may
write them can rewrite everything from some line on, or cut off the end. So note the line that it
prints elsewhere, and pass it to the next --verify with --expect, which proves all up to that line.

Exit code 1: the chain does not hold.")]
pub(crate) struct AuditArgs {
    /// Verify the whole chain
    #[arg(long, conflicts_with_all = ["since", "by", "action", "limit"])]
    verify: bool,
    /// Line noted elsewhere: number, colon, hash
    #[arg(long, value_name = "NUMBER:HASH", requires = "verify", value_parser = AuditHead::from_str)]
    expect: Option<AuditHead>,
    /// Only from this time on: RFC 3339, a date, or seconds since 1970
    #[arg(long, value_name = "TIME", value_parser = time)]
    since: Option<Time>,
    /// Only by this token or user
    #[arg(long, value_name = "NAME")]
    by: Option<String>,
    /// Only this action, such as rules.post, or group, such as rules
    #[arg(long, value_name = "ACTION")]
    action: Option<String>,
    /// Most entries to show, the latest
    #[arg(long, default_value_t = 100, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    limit: u64,
    #[command(flatten)]
    engine: EngineOptions,
    #[command(flatten)]
    server: ServerOptions,
    #[command(flatten)]
    json: JsonOption,
}

/// Entries that are read at once.
const PAGE: usize = 1000;

pub(crate) fn run(args: AuditArgs) -> Result<Exit, CommandError> {
    if args.verify {
        return verify(&args);
    }
    let wanted = usize::try_from(args.limit).unwrap_or(usize::MAX);
    let client = args.server.client()?;
    let place = match client {
        Some(_) => None,
        None => Some(AuditPlace::directory(args.engine.directory()?.audit_path())),
    };
    // From the newest back, and shown the other way round.
    let (mut latest, mut unread, mut before) = (Vec::new(), 0, None);
    while latest.len() < wanted {
        let limit = PAGE.min(wanted - latest.len());
        let page = match (&client, &place) {
            (Some(client), _) => {
                let since = args.since.map(|since| since.to_string());
                let given = [("since", &since), ("by", &args.by), ("action", &args.action)];
                let query: Vec<(&str, &str)> =
                    given.iter().filter_map(|(name, value)| Some((*name, value.as_deref()?))).collect();
                client.audit(&query, limit, before)?
            }
            (None, Some(place)) => {
                let query = AuditQuery {
                    before,
                    order: AuditOrder::Newest,
                    since: args.since,
                    by: args.by.clone(),
                    action: args.action.clone(),
                    limit,
                    ..AuditQuery::default()
                };
                AuditJson::from(place.read(&query, &|| true).map_err(unreadable)?)
            }
            (None, None) => break,
        };
        unread += page.unread;
        latest.extend(page.entries);
        before = page.next;
        if before.is_none() {
            break;
        }
    }
    latest.reverse();
    let mut out = Output::new(args.json.json);
    if out.is_json() {
        latest.iter().try_for_each(|entry| out.json(entry))?;
    } else {
        table(&mut out, latest.iter())?;
    }
    out.flush()?;
    if unread > 0 {
        error(format_args!("{unread} lines could not be read: --verify says where"));
        return Ok(Exit::Found);
    }
    Ok(Exit::Fine)
}

fn table<'a>(
    out: &mut Output,
    entries: impl Iterator<Item = &'a AuditEntryJson>,
) -> Result<(), CommandError> {
    let mut table = TextTable::default();
    for entry in entries {
        let detail = entry.detail.iter().map(|(name, text)| format!("{name}={text}"));
        let detail = detail.collect::<Vec<_>>().join(" ");
        table.row([
            TableCell::number(entry.number, DIM),
            TableCell::text(entry.time.to_string(), DIM),
            TableCell::text(printable(&entry.by), BOLD),
            TableCell::text(printable(&entry.action), BOLD),
            TableCell::number(entry.status, DIM),
            TableCell::text(printable(&detail), DIM),
        ]);
    }
    out.line(table)
}

fn verify(args: &AuditArgs) -> Result<Exit, CommandError> {
    let found = match args.server.client()? {
        Some(client) => client.verify_audit(args.expect)?,
        None => {
            let place = AuditPlace::directory(args.engine.directory()?.audit_path());
            AuditVerificationJson::from(place.verify(args.expect, &|| true).map_err(unreadable)?)
        }
    };
    let mut out = Output::new(args.json.json);
    if out.is_json() {
        out.json(&found)?;
    } else {
        for fault in &found.faults {
            out.line(format_args!("{}:{}: {}", printable(&fault.file), fault.line, printable(&fault.why)))?;
        }
        out.line(format_args!(
            "{} lines from number {} on; the last is {}:{}",
            found.lines,
            found.first,
            found.head.number,
            printable(&found.head.chain)
        ))?;
    }
    out.flush()?;
    if found.torn {
        say(
            "The last line is not whole: a write is under way, or a crash cut it off; the next start puts it aside.",
        );
    }
    if !found.sound {
        error(format_args!("the chain does not hold at {} places", found.fault_count));
        return Ok(Exit::Found);
    }
    match args.expect {
        Some(noted) => {
            say(format_args!("All up to line {} is what it was when that line was noted.", noted.number))
        }
        None => say("The chain holds. Note the last line elsewhere, and give it to --expect next time."),
    }
    Ok(Exit::Fine)
}

fn unreadable(error: std::io::Error) -> CommandError {
    CommandError::new(format_args!("the audit log cannot be read: {error}"))
}
