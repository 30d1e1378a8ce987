//! `tollhouse import reputation`: counts for senders what other filters have seen of them.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anstyle::Style;
use clap::ValueEnum;
use content::mail::sender_history::{
    self, HistoryLine, HistoryReader, HistorySource, SenderIdentity, SenderRecord, UnusableRecord,
};
use engine::{HistoryError, HistoryOutcome, SenderHistory};
use event::{Event, Time, Type};
use indicatif::HumanCount;
use judge::Action;
use plan::Pipeline;
use serde::Serialize;

use crate::clock::now;
use crate::console::{BOLD, Output, Progress, TableCell, TextTable, printable, say};
use crate::exit::{CommandError, Exit};
use crate::input::lines::{InputLine, InputLineIter};
use crate::message_reader::message_pipeline;
use crate::options::{EngineOptions, JsonOption, LocalEngine, time};

/// Import what TxRep, AWL or Rspamd's reputation module knows of senders
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  mysql -B -e 'select * from txrep' spamassassin > txrep.tsv
  tollhouse import reputation --data ./data --source txrep --dry-run txrep.tsv
  tollhouse import reputation --data ./data --source txrep --user GLOBAL txrep.tsv
  sa-awl ~/.spamassassin/auto-whitelist |
    tollhouse import reputation --data ./data --source awl --time 2026-05-17 -
  tollhouse import reputation --data ./data --source rspamd reputation.ndjson

A record counts its messages as seen, at its last hit, and as spam or ham where their mean score is
clear. So senders become known; verdicts make no grade. Leaves out what is too old for the windows.
A record imported again counts by its growth. The guide to reputations shows how to write such
files. No server may run on the directory.")]
pub(super) struct ReputationImportArgs {
    /// CSV or TSV with a header, lines of sa-awl, or Rspamd hashes as JSON lines; - is standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Filter that kept the records
    #[arg(long, value_enum, value_name = "SOURCE")]
    source: ReputationSource,
    /// Only this user's records, such as GLOBAL
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
    /// Prefix of Rspamd's keys
    #[arg(long, value_name = "TEXT", default_value = sender_history::RSPAMD_PREFIX)]
    prefix: String,
    /// Mean score from which messages count as spam
    #[arg(long, value_name = "SCORE", default_value_t = 5.0, allow_negative_numbers = true)]
    spam_at: f64,
    /// Mean score up to which messages count as ham
    #[arg(long, value_name = "SCORE", default_value_t = 0.0, allow_negative_numbers = true)]
    ham_at: f64,
    /// Time of records without one [default: now]
    #[arg(long, value_name = "TIME", value_parser = time)]
    time: Option<Time>,
    /// Pipeline [default: the first that reads messages]
    #[arg(long, value_name = "NAME")]
    pipeline: Option<String>,
    /// Field of the sender's address
    #[arg(long, value_name = "FIELD", default_value = "mail.from")]
    address_field: String,
    /// Field of the client's address
    #[arg(long, value_name = "FIELD", default_value = "client.ip")]
    ip_field: String,
    /// Only show what would be counted
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    engine: EngineOptions,
    #[command(flatten)]
    json: JsonOption,
}

/// The filter that kept the records.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum ReputationSource {
    /// SpamAssassin's plugin TxRep
    Txrep,
    /// SpamAssassin's plugin AWL
    Awl,
    /// Rspamd's module reputation
    Rspamd,
}

impl ReputationSource {
    fn source(self) -> HistorySource {
        match self {
            ReputationSource::Txrep => HistorySource::TxRep,
            ReputationSource::Awl => HistorySource::Awl,
            ReputationSource::Rspamd => HistorySource::Rspamd,
        }
    }

    fn name(self) -> &'static str {
        match self {
            ReputationSource::Txrep => "txrep",
            ReputationSource::Awl => "awl",
            ReputationSource::Rspamd => "rspamd",
        }
    }
}

/// Records that are counted together.
const BATCH: usize = 256;
/// Unreadable lines that are shown; of more it is said how many.
const SHOWN_MAX: u64 = 10;

/// The tally of the records of one sort of sender.
#[derive(Clone, Copy, Default, Serialize)]
struct RecordTally {
    records: u64,
    /// Records of which something was counted.
    counted: u64,
    messages: u64,
    spam: u64,
    ham: u64,
    known: u64,
    too_old: u64,
    /// Records of senders that the pipeline has no keys for.
    keyless: u64,
}

impl RecordTally {
    fn add(&mut self, verdict: Option<Action>, outcome: HistoryOutcome) {
        self.records += 1;
        match outcome {
            HistoryOutcome::Counted(messages) => {
                self.counted += 1;
                self.messages += messages;
                match verdict {
                    Some(Action::Reject) => self.spam += messages,
                    Some(_) => self.ham += messages,
                    None => {}
                }
            }
            HistoryOutcome::Duplicate => self.known += 1,
            HistoryOutcome::Expired => self.too_old += 1,
            HistoryOutcome::Keyless => self.keyless += 1,
        }
    }
}

/// A line of `--json` about senders that were counted.
#[derive(Serialize)]
struct SenderLine {
    record: &'static str,
    #[serde(flatten)]
    tally: RecordTally,
}

/// A line of `--json` about records that were left out.
#[derive(Serialize)]
struct LeftOutLine<'a> {
    record: &'a str,
    records: u64,
    left_out: &'a str,
}

/// The tally of a file.
#[derive(Default)]
struct HistoryTally {
    addresses: RecordTally,
    clients: RecordTally,
    unusable: BTreeMap<UnusableRecord, u64>,
    /// Records of other users than the one that was asked for.
    others: u64,
    unreadable: u64,
}

impl HistoryTally {
    fn messages(&self) -> u64 {
        self.addresses.messages + self.clients.messages
    }

    fn left_out(&self) -> impl Iterator<Item = (&'static str, u64, &'static str)> + '_ {
        let unusable = self.unusable.iter().map(|(sort, count)| (sort.name(), *count, sort.reason()));
        let others = [
            ("other_user", self.others, "records of other users than --user"),
            ("unreadable", self.unreadable, "lines that are no records"),
        ];
        unusable.chain(others).filter(|(_, count, _)| *count > 0)
    }

    fn show(&self, out: &mut Output) -> Result<(), CommandError> {
        let sorts = [("address", self.addresses), ("client", self.clients)];
        if out.is_json() {
            for (record, tally) in sorts {
                out.json(&SenderLine { record, tally })?;
            }
            for (record, records, left_out) in self.left_out() {
                out.json(&LeftOutLine { record, records, left_out })?;
            }
            return Ok(());
        }
        let plain = Style::new();
        let mut table = TextTable::default();
        let heads = ["records", "counted", "messages", "spam", "ham", "known before", "too old", "no keys"];
        let heads = heads.into_iter().map(|head| TableCell::number(head, BOLD));
        table.row([TableCell::text("sender", BOLD)].into_iter().chain(heads));
        for (name, tally) in sorts {
            let RecordTally { records, counted, messages, spam, ham, known, too_old, keyless } = tally;
            let figures = [records, counted, messages, spam, ham, known, too_old, keyless];
            let figures = figures.into_iter().map(|figure| TableCell::number(HumanCount(figure), plain));
            table.row([TableCell::text(name, plain)].into_iter().chain(figures));
        }
        out.line(table)?;
        for (_, records, reason) in self.left_out() {
            out.line(format_args!("left out: {} {reason}", HumanCount(records)))?;
        }
        Ok(())
    }
}

pub(super) fn run(args: &ReputationImportArgs) -> Result<Exit, CommandError> {
    if !(args.spam_at.is_finite() && args.ham_at.is_finite() && args.ham_at < args.spam_at) {
        return Err(CommandError::new("--ham-at must be below --spam-at"));
    }
    let mut out = Output::new(args.json.json);
    let local = args.engine.open("give the directory of another node, if statistics live in a cluster")?;
    let pipeline = match &args.pipeline {
        // Others than messages have senders, too.
        Some(name) => local.pipeline(Some(name), |_| true)?,
        None => message_pipeline(&local, None)?,
    };
    check_field(&pipeline, "--address-field", &args.address_field, Type::String)?;
    check_field(&pipeline, "--ip-field", &args.ip_field, Type::Ip)?;
    let mut import = ReputationImport {
        args,
        local: &local,
        pipeline,
        now: now(),
        batch: Vec::new(),
        tally: HistoryTally::default(),
    };
    let progress = Progress::new("records", None);
    let ended = import.run(&progress)?;
    drop(progress);
    let tally = import.tally;
    tally.show(&mut out)?;
    out.flush()?;
    local.close()?;
    say(format_args!(
        "{} messages of {} senders {}",
        HumanCount(tally.messages()),
        HumanCount(tally.addresses.counted + tally.clients.counted),
        if args.dry_run { "would be counted" } else { "counted" },
    ));
    if ended {
        return Ok(Exit::Interrupted);
    }
    Ok(if tally.unreadable > 0 { Exit::Found } else { Exit::Fine })
}

/// Refuses a field that events of a pipeline cannot bring.
fn check_field(pipeline: &Pipeline, flag: &str, field: &str, of: Type) -> Result<(), CommandError> {
    let slot = pipeline.schema.slot(field).filter(|slot| pipeline.columns.is_brought(*slot));
    if slot.is_some_and(|slot| pipeline.schema.column(slot).kind == of) {
        return Ok(());
    }
    let message = format_args!("the pipeline `{}` has no field `{field}` of type {of}", pipeline.name);
    Err(CommandError::new(message).help(format!("name the field that senders are in: {flag} FIELD")))
}

/// An import at work.
struct ReputationImport<'a> {
    args: &'a ReputationImportArgs,
    local: &'a LocalEngine,
    pipeline: Arc<Pipeline>,
    now: Time,
    batch: Vec<(bool, SenderHistory)>,
    tally: HistoryTally,
}

impl ReputationImport<'_> {
    /// Reads and counts all of the file; true if the user ended it.
    fn run(&mut self, progress: &Progress) -> Result<bool, CommandError> {
        let path = &self.args.file;
        let failed = |error: io::Error| CommandError::new(format_args!("{}: {error}", path.display()));
        let input: Box<dyn BufRead> = match path == Path::new("-") {
            true => Box::new(BufReader::new(io::stdin())),
            false => Box::new(BufReader::new(File::open(path).map_err(failed)?)),
        };
        let shown = path.display().to_string();
        let mut reader = HistoryReader::new(self.args.source.source(), &self.args.prefix);
        for line in InputLineIter::new(input) {
            let (number, line) = line.map_err(failed)?;
            progress.add(1);
            let read = match line {
                InputLine::Bytes(bytes) => reader.line(&String::from_utf8_lossy(&bytes)),
                InputLine::TooLong => Err(sender_history::HistoryLineError::TooLong),
            };
            match read {
                Ok(HistoryLine::Head) => {}
                Ok(HistoryLine::Unusable(sort)) => *self.tally.unusable.entry(sort).or_default() += 1,
                Ok(HistoryLine::Record(record)) => self.take(record)?,
                Err(error) if error.is_of_file() => {
                    return Err(CommandError::new(format_args!("{}:{number}: {error}", printable(&shown))));
                }
                Err(error) => {
                    self.tally.unreadable += 1;
                    if self.tally.unreadable <= SHOWN_MAX {
                        progress.say(format_args!("{}:{number}: left out: {error}", printable(&shown)));
                    }
                }
            }
            if self.local.interrupt.raised() {
                return Ok(true);
            }
        }
        self.count()?;
        Ok(false)
    }

    fn take(&mut self, record: SenderRecord) -> Result<(), CommandError> {
        let args = self.args;
        if args.user.as_ref().is_some_and(|user| *user != record.user) {
            self.tally.others += 1;
            return Ok(());
        }
        let verdict = match record.mean {
            mean if mean >= args.spam_at => Some(Action::Reject),
            mean if mean <= args.ham_at => Some(Action::Accept),
            _ => None,
        };
        let is_client = matches!(record.sender, SenderIdentity::Client(_));
        let field = if is_client { &args.ip_field } else { &args.address_field };
        let mut event = Event::default();
        match record.sender {
            SenderIdentity::Address(address) => event.push(field.clone(), address),
            SenderIdentity::Client(client) => event.push(field.clone(), client),
        }
        let history = SenderHistory {
            // Another field has other keys, which have counted nothing of the record.
            name: [args.source.name(), field, &record.name].join("\0"),
            event,
            count: record.count,
            verdict,
            last: record.last.or(args.time).unwrap_or(self.now),
        };
        self.batch.push((is_client, history));
        if self.batch.len() >= BATCH { self.count() } else { Ok(()) }
    }

    fn count(&mut self) -> Result<(), CommandError> {
        let batch = std::mem::take(&mut self.batch);
        let told: Vec<(bool, Option<Action>)> =
            batch.iter().map(|(is_client, history)| (*is_client, history.verdict)).collect();
        let records = batch.into_iter().map(|(_, history)| history).collect();
        let engine = self.local.engine();
        let counted = engine.count_history(&self.pipeline, records, self.now, self.args.dry_run);
        let outcomes = pollster::block_on(counted).map_err(|error| match error {
            HistoryError::Forgetful(_) => CommandError::new(&error).help("give its [feedback] a class"),
            HistoryError::Ledger(_) => CommandError::new(&error)
                .help("begin again once that is mended: what was counted stays counted, once"),
        })?;
        for ((is_client, verdict), outcome) in told.into_iter().zip(outcomes) {
            let tally = if is_client { &mut self.tally.clients } else { &mut self.tally.addresses };
            tally.add(verdict, outcome);
        }
        Ok(())
    }
}
