//! `tollhouse erase`: all that is known of a key goes.

use std::collections::HashSet;
use std::str::FromStr;
use std::time::Duration;

use engine::{EraseError, ErasureReport, SnapshotErasure, StatisticsExchangeError};
use event::Shingle;
use indicatif::HumanCount;
use serde::Serialize;
use server::api::{EraseJson, EraseKeyJson, EraseRequest};

use crate::audit::note;
use crate::client::ApiClient;
#[cfg(feature = "cluster")]
use crate::cluster_home;
use crate::console::{Output, Progress, help, say};
use crate::exit::{CommandError, Exit};
use crate::object_journal::JournalOption;
use crate::options::{EngineOptions, JsonOption, ServerOptions, stopped};

/// Erase what is known of somebody: statistics of keys, and decisions on their events
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tollhouse erase --data ./data --dry-run --key from=ann@example.com
  tollhouse erase --data ./data --key from=ann@example.com --key client_ip=192.0.2.7
  tollhouse erase --data ./data --pipeline web --key user=ann --json
  tollhouse erase --data ./data --key from=ann@example.com --journal s3://bucket/decisions
  tollhouse erase --server http://127.0.0.1:8377 --key from=ann@example.com
  tollhouse erase --server http://127.0.0.1:8377 --key ip=192.0.2.7 --reset

KIND sets how the value is normalised; write a key of several fields as 'KIND=[\"ann\",\"phone-7\"]',
the only way to erase it. Erases the keys of that value in every kind and pipeline, and every
decision on an event that had one, with its feedback. If a server runs on the directory, use
--server: then all nodes of its cluster erase what they have. Otherwise repeat it on every node of a
cluster: statistics go for all, decisions only for the node. --journal also erases what all nodes
uploaded there: erase on every node first. Snapshots in the data directory are erased, too; for
copies elsewhere run the command on each.")]
pub(crate) struct EraseArgs {
    /// Key to erase: a configured kind and a value as in events
    #[arg(long, value_name = "KIND=VALUE", required = true)]
    key: Vec<KeyArgument>,
    /// Pipeline of the kinds [default: the first]
    #[arg(long, value_name = "NAME")]
    pipeline: Option<String>,
    /// Only count what would be erased
    #[arg(long)]
    dry_run: bool,
    /// Only reset: statistics start from zero and bans end; decisions and notes stay. Of a server
    #[arg(long, requires = "server")]
    reset: bool,
    #[command(flatten)]
    server: ServerOptions,
    #[command(flatten)]
    journal: JournalOption,
    #[command(flatten)]
    engine: EngineOptions,
    #[command(flatten)]
    json: JsonOption,
}

/// `KIND=VALUE`.
#[derive(Clone, Debug)]
struct KeyArgument {
    kind: String,
    value: String,
}

impl FromStr for KeyArgument {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<KeyArgument, &'static str> {
        let (kind, value) = text.split_once('=').ok_or("expected KIND=VALUE")?;
        Ok(KeyArgument { kind: kind.to_owned(), value: value.to_owned() })
    }
}

/// The line of `--json`.
#[derive(Serialize)]
struct EraseLine {
    erased: bool,
    keys: u64,
    decisions: u64,
    feedback: u64,
    /// With `--journal`.
    #[serde(skip_serializing_if = "Option::is_none")]
    uploaded: Option<UploadedLine>,
}

/// The part that was erased of what nodes have uploaded.
#[derive(Serialize)]
struct UploadedLine {
    decisions: u64,
    feedback: u64,
}

/// The time between two looks at what a server does.
const LOOK: Duration = Duration::from_millis(250);

/// Has a server erase, and waits for that.
fn ask(args: &EraseArgs, client: &ApiClient) -> Result<Exit, CommandError> {
    let mut out = Output::new(args.json.json);
    let keys = args.key.iter();
    let keys = keys.map(|key| EraseKeyJson { kind: key.kind.clone(), value: key.value.clone() }).collect();
    let request =
        EraseRequest { pipeline: args.pipeline.clone(), keys, dry_run: args.dry_run, reset: args.reset };
    let ordered = client.erase(&request)?;
    let progress = Progress::new("segments", None);
    let mut told = 0;
    let done = loop {
        let seen = client.erasure()?;
        if seen.begun != ordered.begun || seen.keys != ordered.keys {
            return Err(CommandError::new(
                "the server was started again: it goes on with the erasure by itself",
            )
            .help("`tollhouse audit --action erase` shows when it is done"));
        }
        progress.add(seen.segments.saturating_sub(told));
        told = seen.segments;
        if seen.state != "running" {
            break seen;
        }
        std::thread::sleep(LOOK);
    };
    drop(progress);
    if let Some(why) = &done.problem {
        return Err(
            CommandError::new(why).help("order it again once that is mended: what was erased stays erased")
        );
    }
    if out.is_json() {
        out.json(&done)?;
    }
    out.flush()?;
    let EraseJson { statistics, marks, decisions, feedback, bans, reviews, posted, .. } = done;
    say(format_args!(
        "{} keys, {} marks, {} decisions, {} pieces of feedback, {} bans, {} reviews and {} notes {}",
        HumanCount(statistics),
        HumanCount(marks),
        HumanCount(decisions),
        HumanCount(feedback),
        HumanCount(bans),
        HumanCount(reviews),
        HumanCount(posted),
        if args.dry_run { "would be erased" } else { "erased" }
    ));
    if !done.missing.is_empty() {
        help(format_args!("not asked: {}; order it again once they are there", done.missing.join(", ")));
    }
    if done.damaged > 0 {
        help(format_args!(
            "{} files are damaged and may have some still: `tollhouse verify` says where",
            done.damaged
        ));
    }
    for (name, why) in &done.snapshots_left {
        help(format_args!("the snapshot {name} may still have them: {why}"));
    }
    let is_whole = done.missing.is_empty() && done.damaged == 0 && done.snapshots_left.is_empty();
    Ok(if is_whole { Exit::Fine } else { Exit::Found })
}

pub(crate) fn run(args: EraseArgs) -> Result<Exit, CommandError> {
    if let Some(client) = args.server.client()? {
        if args.journal.is_named() {
            let help = "erase there with `--data` once the server has erased what it has";
            return Err(CommandError::new("a server erases nothing of what was uploaded").help(help));
        }
        return ask(&args, &client);
    }
    let mut out = Output::new(args.json.json);
    let directory = args.engine.directory()?;
    let plan = args.engine.plan(&directory)?;
    let pipeline = plan.pipeline(args.pipeline.as_deref()).ok_or_else(|| {
        let name = args.pipeline.as_deref().unwrap_or_default();
        let names: Vec<&str> = plan.pipelines.iter().map(|pipeline| pipeline.name.as_str()).collect();
        CommandError::new(format_args!("there is no pipeline `{name}`"))
            .help(format!("expected one of: {}", names.join(", ")))
    })?;
    let pipeline_name = pipeline.name.clone();
    let secret = directory.secret()?;
    let mut shingles: HashSet<Shingle> = HashSet::new();
    for KeyArgument { kind, value } in &args.key {
        let plan = pipeline.kinds_and_reporters().find(|plan| plan.name == *kind).ok_or_else(|| {
            let names: Vec<&str> = pipeline.kinds_and_reporters().map(|plan| plan.name.as_str()).collect();
            CommandError::new(format_args!("there is no kind `{kind}`"))
                .help(format!("expected one of: {}", names.join(", ")))
        })?;
        let found = plan.shingles(value, &secret);
        if found.is_empty() {
            return Err(CommandError::new(format_args!("`{value}` gives no piece of the kind `{kind}`")));
        }
        shingles.extend(found);
    }
    let erased = match &plan.node.cluster.clone() {
        #[cfg(feature = "cluster")]
        Some(of) => directory.erase_over(&shingles, args.dry_run, |shingles, pretend| {
            let progress = Progress::new("keys", None);
            let mut told = 0;
            let mut tell = |cells: u64| {
                progress.add(cells.saturating_sub(told));
                told = cells;
            };
            cluster_home::erase(&directory, plan, of, shingles, pretend, &mut tell)
        }),
        _ => directory.erase(Some(&plan), &shingles, args.dry_run, &|| false),
    };
    let ErasureReport { statistics, records } = erased.map_err(|error| match error {
        EraseError::Statistics(StatisticsExchangeError::Open(error)) => {
            stopped(&error, "take what is to be erased from a copy")
        }
        error => {
            CommandError::new(error).help("begin it again once that is mended: what was erased stays erased")
        }
    })?;
    let uploaded = args.journal.erase(&shingles, args.dry_run, &directory.path().join("erase.objects"))?;
    let snapshots = match args.dry_run {
        true => SnapshotErasure::default(),
        false => directory.erase_snapshots(&shingles, &|| false)?,
    };
    let (keys, decisions, feedback) = (statistics.keys, records.decisions, records.feedback);
    if !args.dry_run {
        let kinds: Vec<&str> = args.key.iter().map(|key| key.kind.as_str()).collect();
        let detail = [
            ("pipeline", pipeline_name),
            ("kinds", kinds.join(",")),
            ("keys", keys.to_string()),
            ("decisions", decisions.to_string()),
            ("feedback", feedback.to_string()),
            ("snapshots", snapshots.erased.to_string()),
            ("snapshots_left", snapshots.left.len().to_string()),
        ];
        note(&directory, "erase", &detail)?;
    }
    if out.is_json() {
        let uploaded = uploaded
            .map(|uploaded| UploadedLine { decisions: uploaded.decisions, feedback: uploaded.feedback });
        out.json(&EraseLine { erased: !args.dry_run, keys, decisions, feedback, uploaded })?;
    }
    out.flush()?;
    say(format_args!(
        "{} keys, {} decisions and {} pieces of feedback {}",
        HumanCount(keys),
        HumanCount(decisions),
        HumanCount(feedback),
        if args.dry_run { "would be erased" } else { "erased" }
    ));
    if let Some(uploaded) = uploaded {
        say(format_args!(
            "{} decisions and {} pieces of feedback {} of what nodes have uploaded",
            HumanCount(uploaded.decisions),
            HumanCount(uploaded.feedback),
            if args.dry_run { "would be erased" } else { "erased" }
        ));
    }
    if snapshots.erased > 0 {
        say(format_args!("snapshots that were erased, too: {}", snapshots.erased));
    }
    for (name, why) in &snapshots.left {
        help(format_args!("the snapshot {name} may still have them: {why}"));
    }
    if statistics.damaged > 0 {
        help(format_args!(
            "{} files are damaged and may have some still: `tollhouse verify` says where",
            statistics.damaged
        ));
    }
    Ok(if snapshots.left.is_empty() && statistics.damaged == 0 { Exit::Fine } else { Exit::Found })
}
