//! `tollhouse verify`: whether all that a data directory holds can still be read.

use std::path::PathBuf;
use std::time::Duration;

use engine::{DirectoryPart, DirectoryVerification, LooseModes, MissingFile, Repairs};
use event::Span;
use indicatif::{HumanBytes, HumanCount, HumanDuration};
use journal::MissingRecords;
use serde::Serialize;

use crate::clock::now;
use crate::console::{Output, Progress, error, help, say};
use crate::exit::{CommandError, Exit};
use crate::options::{DataOption, JsonOption, stopped};

/// Verify every checksum of a data directory
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tollhouse verify --data ./data
  tollhouse verify --data ./data/snapshots/20261121T090753Z
  tollhouse verify --data ./data --json | jq .damage
  tollhouse verify --data ./data --repair

Reads ledger and journal, and checks rules, limits, labels and configuration. No server may run on
the directory; verify a snapshot instead. --repair first rewrites what is readable of damaged
segments, keeps the damaged files beside them, and forgets the rest. It also drops keys whose newest
event lies ahead of the wall clock: their limits open and their counts start from zero. Set the
clock right before.

Exit code 1: something is lost, or others than the owner can read or replace files.")]
pub(crate) struct VerifyArgs {
    #[command(flatten)]
    data: DataOption,
    /// Rewrite what is readable of damaged segments, keep the originals, and drop keys from the future
    #[arg(long)]
    repair: bool,
    #[command(flatten)]
    json: JsonOption,
}

/// The line of `--json`.
#[derive(Serialize)]
struct VerifyLine {
    sound: bool,
    keys: u64,
    records: u64,
    torn_bytes: u64,
    damage: Vec<VerifyDamage>,
    /// Files with what was put aside before.
    kept: Vec<KeptFile>,
    /// Files that others can read or write, and directories whose names they can list or change.
    exposed: Vec<ExposedPath>,
}

/// A path that others than its owner can reach.
#[derive(Serialize)]
struct ExposedPath {
    file: String,
    mode: String,
}

impl ExposedPath {
    fn of((path, mode): &(PathBuf, u32)) -> ExposedPath {
        ExposedPath { file: path.display().to_string(), mode: format!("{mode:03o}") }
    }
}

/// A file that has what was cut off, or is damaged.
#[derive(Serialize)]
struct KeptFile {
    file: String,
    bytes: u64,
}

/// Lost data: a file, or a part of one.
#[derive(Serialize)]
struct VerifyDamage {
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    to: Option<u64>,
    cost: String,
}

impl VerifyDamage {
    fn of(cost: impl Into<String>) -> VerifyDamage {
        VerifyDamage { file: None, from: None, to: None, cost: cost.into() }
    }

    fn file(file: String) -> VerifyDamage {
        VerifyDamage { file: Some(file), ..VerifyDamage::of("") }
    }

    fn at(file: String, from: u64, to: u64, cost: impl Into<String>) -> VerifyDamage {
        VerifyDamage { file: Some(file), from: Some(from), to: Some(to), cost: cost.into() }
    }
}

pub(crate) fn run(args: VerifyArgs) -> Result<Exit, CommandError> {
    let mut out = Output::new(args.json.json);
    let directory = args.data.directory()?;
    let instead = "make a snapshot with `tollhouse snapshot --server URL` and verify that";
    if args.repair {
        let repaired = directory.repair(now()).map_err(|error| stopped(&error, "stop the server first"))?;
        say_repaired(&repaired);
    }
    let verified =
        directory.verify(Some(now()), &mut progress()).map_err(|error| stopped(&error, instead))?;
    let damage = damage(&verified);
    let keys = verified.ledger.as_ref().map_or(0, |ledger| ledger.keys);
    let torn_bytes = verified.ledger_torn_bytes + verified.journal.torn_bytes;
    if out.is_json() {
        let records = verified.journal.records;
        let kept = kept(&verified).map(|(file, bytes)| KeptFile { file, bytes }).collect();
        let LooseModes { files, directories } = &verified.exposed;
        let exposed = files.iter().chain(directories).map(ExposedPath::of).collect();
        out.json(&VerifyLine {
            sound: verified.is_sound(),
            keys,
            records,
            torn_bytes,
            damage,
            kept,
            exposed,
        })?;
    } else {
        for damage in &damage {
            out.line(shown(damage))?;
        }
    }
    out.flush()?;
    say(format_args!("{} keys and {} records read", HumanCount(keys), HumanCount(verified.journal.records)));
    if torn_bytes > 0 {
        say(format_args!(
            "{torn_bytes} bytes at the end were torn by a crash: they had not been promised, and the next start puts them aside"
        ));
    }
    for (file, bytes) in kept(&verified) {
        say(format_args!("{file} has {bytes} bytes that were put aside; remove it if nobody needs them"));
    }
    for name in &verified.ledger_made_anew {
        say(format_args!("ledger/{name} was missing or damaged and is rebuilt: nothing is lost"));
    }
    let is_exposed = say_exposed(&verified.exposed);
    if verified.is_sound() {
        return Ok(if is_exposed { Exit::Found } else { Exit::Fine });
    }
    help(
        "what is intact is served on; to have the rest back restore a snapshot with `tollhouse restore`, and replace the disk",
    );
    Ok(Exit::Found)
}

/// Says what others than the owner can get at, and answers whether that is more than names.
fn say_exposed(exposed: &LooseModes) -> bool {
    let LooseModes { files, directories } = exposed;
    for (path, mode) in files {
        error(format_args!("{} can be read or written by others (mode {mode:03o})", path.display()));
    }
    let writable = |mode: u32| mode & 0o022 != 0;
    for (path, mode) in directories {
        let path = path.display();
        match writable(*mode) {
            true => error(format_args!("others can remove and replace what is in {path} (mode {mode:03o})")),
            false => {
                say(format_args!("others can see the names and sizes of what is in {path} (mode {mode:03o})"))
            }
        }
    }
    if let Some((first, _)) = directories.first().or(files.first()) {
        help(format_args!("`chmod -R go= {}` keeps them out", first.display()));
    }
    !files.is_empty() || directories.iter().any(|(_, mode)| writable(*mode))
}

/// Files with what was put aside, and their bytes.
fn kept(verified: &DirectoryVerification) -> impl Iterator<Item = (String, u64)> {
    let named = |directory: &'static str| {
        move |(file, bytes): &(String, u64)| (format!("{directory}/{file}"), *bytes)
    };
    verified.ledger_kept.iter().map(named("ledger")).chain(verified.journal.kept.iter().map(named("journal")))
}

fn say_repaired(repaired: &Repairs) {
    for kept in &repaired.ledger {
        say(format_args!(
            "the statistics that can be read of a damaged segment were rewritten; the damaged file is {}",
            kept.display()
        ));
    }
    for name in &repaired.missing {
        say(format_args!("ledger/{name} is gone, and no longer expected"));
    }
    if repaired.freed > 0 {
        say(format_args!(
            "{} keys were let go of: their newest event lay up to {} ahead; their counts start from zero",
            HumanCount(repaired.freed),
            shown_span(repaired.ahead.most)
        ));
    }
    if repaired.ahead.forgotten > Span::ZERO {
        say("the ledger goes by the present time again, and keeps what ends after it");
    }
    for journal::SegmentRepair { kept, records, skipped } in &repaired.journal {
        say(format_args!(
            "{} records rewritten, without {skipped}; the damaged file is {}",
            HumanCount(*records),
            kept.display()
        ));
    }
}

fn shown_span(span: Span) -> String {
    let seconds = u64::try_from(span.0 / Span::seconds(1).0).unwrap_or(0);
    HumanDuration(Duration::from_secs(seconds)).to_string()
}

/// Shows how far the reading is.
pub(crate) fn progress() -> impl FnMut(DirectoryPart, u64, u64) {
    let mut shown: Option<(DirectoryPart, Progress)> = None;
    move |part, done, all| {
        if shown.as_ref().is_none_or(|(before, _)| *before != part) {
            let what = match part {
                DirectoryPart::Ledger => "bytes of the ledger",
                DirectoryPart::Journal => "bytes of the journal",
            };
            shown = Some((part, Progress::new(what, Some(all))));
        }
        if let Some((_, bar)) = &shown {
            bar.set(done, all);
        }
    }
}

/// Prints the damage that was found, a line each, for a command that refuses to go on.
pub(crate) fn say_damage(verified: &DirectoryVerification) {
    damage(verified).iter().for_each(|damage| say(shown(damage)));
}

fn shown(damage: &VerifyDamage) -> String {
    let VerifyDamage { file, from, to, cost } = damage;
    match (file, from, to) {
        (Some(file), Some(from), Some(to)) => format!("{file}: bytes {from} to {to}: {cost}"),
        (Some(file), ..) => format!("{file}: {cost}"),
        _ => cost.clone(),
    }
}

fn damage(verified: &DirectoryVerification) -> Vec<VerifyDamage> {
    let DirectoryVerification {
        secret,
        ledger,
        ledger_error,
        ledger_skipped,
        journal,
        settings,
        missing,
        ..
    } = verified;
    let mut all = Vec::new();
    all.extend(secret.as_ref().map(|error| VerifyDamage::of(format!("{error}; without it no key is found"))));
    all.extend(
        ledger_error.as_ref().map(|error| VerifyDamage::of(format!("the ledger cannot be opened: {error}"))),
    );
    if let Some(ledger) = ledger {
        let losses = &ledger.files.losses;
        let skipped = ledger_skipped.ranges.iter().filter(|range| !losses.ranges.contains(range));
        for range in losses.ranges.iter().chain(skipped) {
            let cost = format!("{} cannot be read", HumanBytes(range.to - range.from));
            all.push(VerifyDamage::at(format!("ledger/{}", range.segment), range.from, range.to, cost));
        }
        for name in &losses.missing {
            let cost = "missing, with the statistics of the keys that were written there last".to_owned();
            all.push(VerifyDamage { file: Some(format!("ledger/{name}")), from: None, to: None, cost });
        }
        if losses.ranges_unlisted > 0 {
            all.push(VerifyDamage::of(format!("{} more such stretches", losses.ranges_unlisted)));
        }
        let records = losses.records.max(ledger_skipped.records);
        if records > 0 {
            all.push(VerifyDamage::of(format!(
                "ledger: {} images of keys are lost; some may have had a newer one",
                HumanCount(records)
            )));
        }
        if ledger.keys_lost > 0 {
            all.push(VerifyDamage::of(format!(
                "ledger: {} keys have lost their statistics; their readings will say `missing`",
                HumanCount(ledger.keys_lost)
            )));
        }
        let stats::Ahead { keys, most, forgotten } = ledger.ahead;
        if keys > 0 {
            all.push(VerifyDamage::of(format!(
                "ledger: {} keys had their newest event up to {} ahead of the clock: until then their limits may refuse and \
                 their counts stand still; `tollhouse verify --repair` lets go of them",
                HumanCount(keys),
                shown_span(most)
            )));
        }
        if forgotten > Span::ZERO {
            all.push(VerifyDamage::of(format!(
                "ledger: statistics were forgotten up to a moment that is {} ahead of the clock: nothing that ends \
                 before it is kept; `tollhouse verify --repair` goes back to the present",
                shown_span(forgotten)
            )));
        }
        if ledger.unsound > 0 {
            all.push(VerifyDamage::of(format!(
                "ledger: {} keys have cells that do not fit their statistic; they read as `missing`",
                HumanCount(ledger.unsound)
            )));
        }
    }
    for damage in &journal.damage {
        // The end of a file by columns is for others; what is before it has records.
        let only_others = damage.segment.ends_with(".parquet") && damage.records == 0 && damage.from > 0;
        let cost = match only_others {
            true => "all can be read, but not by other programs".to_owned(),
            false => format!("{} decisions or more cannot be read", HumanCount(damage.records)),
        };
        all.push(VerifyDamage::at(format!("journal/{}", damage.segment), damage.from, damage.to, cost));
    }
    for MissingRecords { first, records, is_gone } in &journal.lacking {
        let records = HumanCount(*records);
        all.push(VerifyDamage::of(match is_gone {
            true => format!("journal: segment {first} is missing, with {records} records or more"),
            false => format!("journal: segment {first} has {records} records less than were once in it"),
        }));
    }
    if journal.is_unlisted {
        let cost = "missing or damaged: whether a segment is missing cannot be known";
        all.push(VerifyDamage { cost: cost.to_owned(), ..VerifyDamage::file("journal/segments".to_owned()) });
    }
    if journal.is_of_another_secret {
        all.push(VerifyDamage::of(
            "journal: its keys were made with another secret; restore that from a backup",
        ));
    }
    for file in &journal.side_files {
        let cost = "missing or damaged: the next start writes it again, if it is of what is in force then";
        all.push(VerifyDamage { cost: cost.to_owned(), ..VerifyDamage::file(format!("journal/{file}")) });
    }
    for (path, why) in settings {
        all.push(VerifyDamage { cost: why.clone(), ..VerifyDamage::file(path.display().to_string()) });
    }
    for MissingFile { file, cost } in missing {
        all.push(VerifyDamage {
            cost: format!("missing, and with it {cost}"),
            ..VerifyDamage::file((*file).to_owned())
        });
    }
    for (version, rows) in &journal.undescribed {
        let file = Some(format!("journal/{version}.rows.json"));
        let cost = format!("missing or damaged: {} decisions cannot be explained", HumanCount(*rows));
        all.push(VerifyDamage { file, from: None, to: None, cost });
    }
    all
}
