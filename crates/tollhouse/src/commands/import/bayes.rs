//! `tollhouse import bayes`: learns from stored mail what SpamAssassin had learned from it.
//!
//! Tokens of a backup are hashes of words that are cut otherwise than here, so no count of theirs is a count of anything here.
//! But a backup also names each message that was learned, and as what: with the mail at hand all of it is learned anew.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use content::mail::spamassassin::{self, BackupLine};
use data_encoding::HEXLOWER;
use indicatif::HumanCount;
use serde::Serialize;
use server::api::FeedbackOutcomeJson;
use sha2::{Digest, Sha256};

use crate::client::ApiClient;
use crate::console::{Output, Progress, printable, say};
use crate::exit::{CommandError, Exit};
use crate::input::messages::InputMessage;
use crate::message_reader::{
    MessageFiles, MessageOptions, PreparedMessage, each_answer, each_message, message_pipeline,
};
use crate::options::{ASK_THE_SERVER, EngineOptions, JsonOption, ServerOptions};

/// Learn stored mail that SpamAssassin learned, by the output of `sa-learn --backup`
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  sa-learn --backup > backup.txt
  tollhouse import bayes --data ./data backup.txt ~/Maildir
  tollhouse import bayes --server http://127.0.0.1:8377 backup.txt spam.mbox ham.mbox

SpamAssassin's tokens are hashes of no use here, but the backup has each learned message's hash and
class. Give the folders with the mail: what SpamAssassin learned as spam or ham is learned, all else
skipped. Repeating it counts nothing twice.")]
pub(crate) struct BayesImportArgs {
    /// Output of `sa-learn --backup`, or - for standard input
    #[arg(value_name = "BACKUP")]
    backup: PathBuf,
    #[command(flatten)]
    files: MessageFiles,
    #[command(flatten)]
    messages: MessageOptions,
    #[command(flatten)]
    engine: EngineOptions,
    #[command(flatten)]
    server: ServerOptions,
    #[command(flatten)]
    json: JsonOption,
}

/// A line of `--json`.
#[derive(Serialize)]
struct BayesLine<'a> {
    file: &'a str,
    #[serde(flatten)]
    said: &'a FeedbackOutcomeJson,
}

/// Longest line of a backup.
const LINE_BYTES_MAX: u64 = 64 << 10;

/// The content of a backup.
#[derive(Default)]
struct BayesBackup {
    /// Messages by id, and whether each is spam.
    seen: HashMap<Box<str>, bool>,
    /// The number of messages that the backup counts of each class; those of which it has forgotten the ids included.
    spam: u64,
    ham: u64,
    tokens: u64,
}

impl BayesBackup {
    fn read(path: &Path) -> Result<BayesBackup, CommandError> {
        let shown = path.display();
        let failed = |error: std::io::Error| CommandError::new(format_args!("{}: {error}", path.display()));
        let mut reader: Box<dyn BufRead> = if path == Path::new("-") {
            Box::new(BufReader::new(std::io::stdin()))
        } else {
            Box::new(BufReader::new(File::open(path).map_err(failed)?))
        };
        let mut backup = BayesBackup::default();
        let mut bytes = Vec::new();
        for number in 1u64.. {
            bytes.clear();
            reader.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut bytes).map_err(failed)?;
            if bytes.is_empty() {
                break;
            }
            let text = String::from_utf8_lossy(&bytes);
            let line = spamassassin::line(text.trim_end_matches(['\n', '\r']));
            let is_first = matches!(line, Some(BackupLine::Version(_)));
            let wrong = |what: &str| {
                Err(CommandError::new(format_args!("{shown}: line {number}: {what}"))
                    .help("write one with `sa-learn --backup > FILE`"))
            };
            if (number == 1) != is_first {
                return wrong("this is no backup of sa-learn");
            }
            match line {
                Some(BackupLine::Version(version)) if !spamassassin::VERSIONS.contains(&version) => {
                    return wrong(&format!("version {version} of the format is not known"));
                }
                Some(BackupLine::Version(_)) => {}
                Some(BackupLine::Spam(count)) => backup.spam = count,
                Some(BackupLine::Ham(count)) => backup.ham = count,
                Some(BackupLine::Token) => backup.tokens += 1,
                Some(BackupLine::Seen { spam, id }) => {
                    backup.seen.insert(id.into(), spam);
                }
                None => return wrong("this is no line of a backup"),
            }
        }
        if backup.seen.is_empty() {
            return Err(CommandError::new(format_args!("{shown}: it names no message"))
                .help("learn from folders: `tollhouse learn --class spam DIR`"));
        }
        Ok(backup)
    }

    /// Returns the class that a message was learned as.
    fn class(&self, message: &InputMessage) -> Option<&'static str> {
        let ids = spamassassin::message_ids(message.stored.message());
        let spam = ids.iter().find_map(|id| self.seen.get(id.as_str()))?;
        Some(if *spam { "spam" } else { "ham" })
    }
}

/// The tally of the work that was done so far.
#[derive(Default)]
struct BayesTally {
    spam: u64,
    ham: u64,
    known: u64,
    others: u64,
}

impl BayesTally {
    fn add(
        &mut self,
        out: &mut Output,
        file: &str,
        said: Option<&FeedbackOutcomeJson>,
    ) -> Result<(), CommandError> {
        let Some(said) = said else {
            self.others += 1;
            return Ok(());
        };
        *(if said.class == "spam" { &mut self.spam } else { &mut self.ham }) += 1;
        self.known += u64::from(said.duplicate);
        if out.is_json() { out.json(&BayesLine { file, said }) } else { Ok(()) }
    }
}

pub(super) fn run(args: BayesImportArgs) -> Result<Exit, CommandError> {
    let mut out = Output::new(args.json.json);
    let backup = BayesBackup::read(&args.backup)?;
    let mut tally = BayesTally::default();
    let progress = args.files.progress();
    let exit = match args.server.client()? {
        Some(client) => remote(&args, &backup, &client, &mut out, &progress, &mut tally)?,
        None => local(&args, &backup, &mut out, &progress, &mut tally)?,
    };
    drop(progress);
    out.flush()?;
    let BayesTally { spam, ham, known, others } = tally;
    say(format_args!(
        "learned {} messages as spam and {} as ham, {} of them known before; {} are not in {}",
        HumanCount(spam),
        HumanCount(ham),
        HumanCount(known),
        HumanCount(others),
        printable(&args.backup.display().to_string()),
    ));
    let missing = (backup.seen.len() as u64).saturating_sub(spam + ham);
    say(format_args!(
        "the backup names {} messages, {} of which were not there; it counts {} spam, {} ham and {} tokens",
        HumanCount(backup.seen.len() as u64),
        HumanCount(missing),
        HumanCount(backup.spam),
        HumanCount(backup.ham),
        HumanCount(backup.tokens),
    ));
    Ok(exit)
}

fn local(
    args: &BayesImportArgs,
    backup: &BayesBackup,
    out: &mut Output,
    progress: &Progress,
    tally: &mut BayesTally,
) -> Result<Exit, CommandError> {
    let local = args.engine.open(ASK_THE_SERVER)?;
    let pipeline = message_pipeline(&local, args.messages.pipeline.as_deref())?;
    let known = |message: &InputMessage| {
        let class = backup.class(message)?;
        // The name by which `learn` and the server know a message without one, too.
        let digest = Sha256::digest(message.stored.message());
        Some((class, HEXLOWER.encode(&digest)))
    };
    let take = |ready: PreparedMessage<Option<(&'static str, String)>>| {
        let Some((class, id)) = ready.also else { return tally.add(out, &ready.name, None) };
        let outcome = pollster::block_on(local.engine().learn(ready.prepared, &id, class))?;
        let said = FeedbackOutcomeJson::new(id, class.to_owned(), outcome);
        progress.suspend(|| tally.add(out, &ready.name, Some(&said)))
    };
    let messages = args.files.messages();
    let (exit, _) = each_message(&local, &pipeline, messages, &args.messages, progress, known, take)?;
    local.close()?;
    Ok(exit)
}

fn remote(
    args: &BayesImportArgs,
    backup: &BayesBackup,
    client: &ApiClient,
    out: &mut Output,
    progress: &Progress,
    tally: &mut BayesTally,
) -> Result<Exit, CommandError> {
    let MessageOptions { envelope, pipeline, .. } = &args.messages;
    let ask = |message: &InputMessage, time| {
        let learn = |class| client.learn_message(class, pipeline.as_deref(), message, time, *envelope);
        backup.class(message).map(learn).transpose()
    };
    let take = |name: &str, said: Option<FeedbackOutcomeJson>| {
        progress.suspend(|| tally.add(out, name, said.as_ref()))
    };
    let (exit, _) = each_answer(args.files.messages(), &args.messages, progress, ask, take)?;
    Ok(exit)
}
