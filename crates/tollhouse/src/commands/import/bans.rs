//! `tollhouse import bans`: bans addresses that a list has, until each ends.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::PathBuf;

use event::Span;
use plan::formats::block_list::{self, BlockListEntry, BlockListFormat};

use crate::console::{Output, Progress, printable, say};
use crate::exit::{CommandError, Exit};
use crate::input::messages::STDIN;
use crate::interrupt::Interrupt;
use crate::options::TargetServerOptions;

/// Refused entries that are named one by one.
const NAMED_MAX: usize = 20;
/// Most entries of a list.
const ENTRIES_MAX: usize = 1_000_000;
/// Entries that are sent at once: a user who stops it does not wait for more.
const SENT: usize = 10_000;
/// Longest time that an entry is sent with, in seconds.
const MOST_SECONDS: i64 = u32::MAX as i64;

/// Ban the addresses and networks of a list: plain, CIDR, ipset, FireHOL, Spamhaus DROP, CrowdSec
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tollhouse import bans --server http://127.0.0.1:8377 --label scanner --for 7d bad.txt
  ipset save bad | tollhouse import bans --server http://127.0.0.1:8377 --label scanner --for 1d -
  cscli decisions list -o json | tollhouse import bans --server http://127.0.0.1:8377 \\
      --label scanner --for 4h -

An entry's own time counts, up to the label's `keep`. Entries on the allow list are refused and
listed. For a published list that is renewed use a [[block_list]] in the configuration. Exit code 1:
some lines were no entries, or were refused.")]
pub(crate) struct BansImportArgs {
    /// List, or - for standard input
    #[arg(value_name = "FILE|-")]
    file: PathBuf,
    /// Format [default: detected from the beginning]
    #[arg(long, value_name = "FORMAT", value_parser = BlockListFormat::NAMES.map(|(name, _)| name))]
    format: Option<String>,
    /// Label to put on the addresses; it must have a `decision`
    #[arg(long, value_name = "NAME")]
    label: String,
    /// Kind that has the label
    #[arg(long, value_name = "NAME", default_value = "ip")]
    kind: String,
    /// Pipeline of the label [default: the first]
    #[arg(long, value_name = "NAME")]
    pipeline: Option<String>,
    /// Ban time of entries without one, such as 7d
    #[arg(long = "for", value_name = "TIME")]
    lasts: Span,
    /// Only show the list's content
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    server: TargetServerOptions,
}

pub(super) fn run(args: &BansImportArgs) -> Result<Exit, CommandError> {
    let failed = |error: io::Error| CommandError::new(format_args!("{}: {error}", args.file.display()));
    let stream: Box<dyn Read> = if args.file.as_os_str() == STDIN {
        Box::new(io::stdin())
    } else {
        Box::new(File::open(&args.file).map_err(failed)?)
    };
    let mut entries = Vec::new();
    let format = args.format.as_deref().and_then(BlockListFormat::named);
    let bad = block_list::read(BufReader::new(stream), format, |entry| {
        entries.push(entry);
        entries.len() <= ENTRIES_MAX
    })
    .map_err(failed)?;
    for (line, why) in &bad.named {
        say(format_args!("{}:{line}: {}", args.file.display(), printable(why)));
    }
    if bad.count > bad.named.len() as u64 {
        say(format_args!("{} lines are no entries", bad.count));
    }
    if args.dry_run {
        let mut out = Output::new(false);
        for entry in &entries {
            out.line(entry.network)?;
        }
        out.flush()?;
        return Ok(if bad.count > 0 { Exit::Found } else { Exit::Fine });
    }
    let (client, interrupt) = (args.server.client()?, Interrupt::watch(None));
    let progress = Progress::new("bans", Some(entries.len() as u64));
    let (mut banned, mut refused) = (0usize, 0usize);
    for part in entries.chunks(SENT) {
        let list = sent(part);
        let mut passed = 0;
        while passed < part.len() {
            if interrupt.raised() {
                return Ok(Exit::Interrupted);
            }
            let pipeline = args.pipeline.as_deref();
            let done = client.import_bans(pipeline, &args.kind, &args.label, args.lasts, passed, &list)?;
            if done.passed <= passed {
                let why = done.stopped.unwrap_or_else(|| "the server does not go on".to_owned());
                return Err(CommandError::new(format_args!(
                    "{banned} are banned, then: {}",
                    printable(&why)
                )));
            }
            for refusal in done.refusals.iter().take(NAMED_MAX.saturating_sub(refused)) {
                progress.say(format_args!("{}", printable(&refusal.detail)));
            }
            banned += done.banned;
            refused += done.refused;
            progress.add((done.passed - passed) as u64);
            passed = done.passed;
        }
    }
    drop(progress);
    say(format_args!("{banned} addresses and networks are banned, {refused} were refused"));
    Ok(if bad.count > 0 || refused > 0 { Exit::Found } else { Exit::Fine })
}

/// Entries in the form of `ipset save`, which has room for the time of each.
fn sent(entries: &[BlockListEntry]) -> String {
    let mut list = String::new();
    for BlockListEntry { network, lasts } in entries {
        let timeout =
            lasts.map(|lasts| format!(" timeout {}", lasts.0.div_euclid(1_000_000).clamp(1, MOST_SECONDS)));
        list.push_str(&format!("add list {network}{}\n", timeout.unwrap_or_default()));
    }
    list
}
