//! `tollhouse learn`: says of messages what they are.

use std::path::PathBuf;
use std::time::Duration;

use anstyle::Style;
use data_encoding::HEXLOWER;
use engine::{KnownModels, RelearnError};
use indicatif::HumanCount;
use serde::Serialize;
use server::api::{FeedbackOutcomeJson, ModelCheckJson, RelearnReportJson};
use sha2::{Digest, Sha256};

use crate::client::ApiClient;
use crate::console::{DIM, Output, Progress, TableCell, TextTable, error, say};
use crate::exit::{CommandError, Exit};
use crate::input::messages::{InputMessage, InterleavedMessageIter, count_files};
use crate::interrupt::Interrupt;
use crate::losses::say_losses;
use crate::message_reader::{MessageOptions, PreparedMessage, each_answer, each_message, message_pipeline};
use crate::options::{ASK_THE_SERVER, EngineOptions, JsonOption, ServerOptions};

/// Learn messages as spam, ham or another class
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tollhouse learn --data ./data --spam ~/Maildir/.Junk --ham ~/Maildir/cur
  tollhouse learn --data ./data --message-time --spam spam.mbox --ham wanted.mbox archive/
  tollhouse learn --class spam --server http://127.0.0.1:8377 - < message.eml
  tollhouse learn --data ./data --from-journal                  Rebuild lost linear models
  tollhouse learn --server http://127.0.0.1:8377 --from-journal --dry-run

To begin, use --spam and --ham: their messages are learned in turns.

The class counts for the message's keys (sender, links, text, ...), and classifiers learn its words.
A message counts once, in its last class; `--class forget` and `--class none` undo it. For a message
decided here, feedback on the decision's id is more exact.

--from-journal rebuilds linear models from feedback on the journal's decisions alone, without
messages learned otherwise; counts stay. Models that learned more than the journal has need
--replace. It shows how good the new models are: each decision of the later half was held against
them before they learned it. With --server a running node makes them beside those in use, and what
is judged meanwhile both learn; Ctrl-C lets them go.")]
pub(crate) struct LearnArgs {
    /// Messages, mailboxes or directories (recursive, by name), or - for standard input
    #[arg(required_unless_present_any = ["spam", "ham", "from_journal"], value_name = "FILE|DIR|MBOX|-")]
    files: Vec<PathBuf>,
    /// Feedback class of the pipeline, such as spam or ham; none withdraws feedback
    #[arg(long, value_name = "CLASS", required_unless_present_any = ["spam", "ham", "from_journal"])]
    class: Option<String>,
    /// Files, directories and mailboxes to learn as `spam`
    #[arg(long, value_name = "PATH", num_args = 1.., conflicts_with_all = ["class", "files"])]
    spam: Vec<PathBuf>,
    /// Files, directories and mailboxes to learn as `ham`
    #[arg(long, value_name = "PATH", num_args = 1.., conflicts_with_all = ["class", "files"])]
    ham: Vec<PathBuf>,
    /// Rebuild the linear models from feedback in the journal
    #[arg(long, conflicts_with_all = ["class", "files", "spam", "ham"])]
    from_journal: bool,
    /// Show how good rebuilt models are, and leave those in use
    #[arg(long, requires = "from_journal")]
    dry_run: bool,
    /// Replace even models that learned more than the journal has
    #[arg(long, requires = "from_journal")]
    replace: bool,
    #[command(flatten)]
    messages: MessageOptions,
    #[command(flatten)]
    engine: EngineOptions,
    #[command(flatten)]
    server: ServerOptions,
    #[command(flatten)]
    json: JsonOption,
}

/// The classes to learn, each with its messages.
struct LearnSets(Vec<(String, Vec<PathBuf>)>);

impl LearnSets {
    fn of(args: &LearnArgs) -> LearnSets {
        let named = [("spam", &args.spam), ("ham", &args.ham)];
        let named = named.into_iter().filter(|(_, paths)| !paths.is_empty());
        let named = named.map(|(class, paths)| (class.to_owned(), paths.clone()));
        let given = args.class.iter().map(|class| (class.clone(), args.files.clone()));
        LearnSets(given.chain(named).collect())
    }

    fn messages(&self) -> InterleavedMessageIter {
        InterleavedMessageIter::new(self.0.iter().map(|(_, paths)| paths.clone()).collect())
    }

    fn progress(&self) -> Progress {
        let paths: Vec<PathBuf> = self.0.iter().flat_map(|(_, paths)| paths.iter().cloned()).collect();
        Progress::new("messages", count_files(&paths))
    }

    /// The class of a message.
    fn class(&self, message: &InputMessage) -> &str {
        self.0.get(message.set).map_or("", |(class, _)| class)
    }
}

/// A line of `--json`.
#[derive(Serialize)]
struct LearnLine<'a> {
    file: &'a str,
    #[serde(flatten)]
    said: &'a FeedbackOutcomeJson,
}

/// The tally of the messages that were learned so far.
#[derive(Default)]
struct LearnTally {
    messages: u64,
    duplicates: u64,
}

impl LearnTally {
    fn add(&mut self, out: &mut Output, file: &str, said: &FeedbackOutcomeJson) -> Result<(), CommandError> {
        self.messages += 1;
        self.duplicates += u64::from(said.duplicate);
        if out.is_json() { out.json(&LearnLine { file, said }) } else { Ok(()) }
    }
}

pub(crate) fn run(args: LearnArgs) -> Result<Exit, CommandError> {
    let mut out = Output::new(args.json.json);
    if args.from_journal {
        return match args.server.client()? {
            Some(client) => relearn_remote(&args, &client, &mut out),
            None => relearn(&args, &mut out),
        };
    }
    let mut learned = LearnTally::default();
    let sets = LearnSets::of(&args);
    let exit = match args.server.client()? {
        Some(client) => remote(&args, &sets, &client, &mut out, &mut learned)?,
        None => local(&args, &sets, &mut out, &mut learned)?,
    };
    out.flush()?;
    let LearnTally { messages, duplicates } = learned;
    let classes: Vec<&str> = sets.0.iter().map(|(class, _)| class.as_str()).collect();
    let classes = classes.join(" and ");
    say(format_args!("{messages} messages learned as {classes}, {duplicates} of them known before"));
    Ok(exit)
}

fn local(
    args: &LearnArgs,
    sets: &LearnSets,
    out: &mut Output,
    learned: &mut LearnTally,
) -> Result<Exit, CommandError> {
    let local = args.engine.open(ASK_THE_SERVER)?;
    let pipeline = message_pipeline(&local, args.messages.pipeline.as_deref())?;
    // The name by which the server knows a message without one, too.
    let named = |message: &InputMessage| {
        (HEXLOWER.encode(&Sha256::digest(message.stored.message())), sets.class(message))
    };
    let progress = sets.progress();
    let take = |ready: PreparedMessage<(String, &str)>| {
        let (id, class) = ready.also;
        let outcome = pollster::block_on(local.engine().learn(ready.prepared, &id, class))?;
        let said = FeedbackOutcomeJson::new(id, class.to_owned(), outcome);
        progress.suspend(|| learned.add(out, &ready.name, &said))
    };
    let messages = sets.messages();
    let (exit, _) = each_message(&local, &pipeline, messages, &args.messages, &progress, named, take)?;
    local.close()?;
    Ok(exit)
}

/// The line of `--json` for models that were made anew.
#[derive(Serialize)]
struct RelearnLine<'a> {
    pipeline: &'a str,
    /// False where they are only shown.
    adopt: bool,
    #[serde(flatten)]
    report: &'a RelearnReportJson,
}

/// The text that is shown while models are made.
const RELEARNING: &str = "blocks of the journal, twice";
/// The text that is said once they are in use.
const IN_USE: &str = "the new linear models are in use";
/// The help where those in use know more.
const REPLACES: &str = "--replace makes them of the journal alone";
/// The time between two looks at how far a server is.
const LOOK: Duration = Duration::from_millis(200);

/// Makes the linear models of a pipeline anew.
fn relearn(args: &LearnArgs, out: &mut Output) -> Result<Exit, CommandError> {
    let local = args.engine.open("wait until it ends: it holds the models in memory")?;
    let plan = local.engine().plan();
    let name = args.messages.pipeline.as_deref();
    let pipeline = plan.pipeline(name).ok_or_else(|| {
        CommandError::new(format_args!("there is no pipeline `{}`", name.unwrap_or_default()))
    })?;
    let progress = Progress::new(RELEARNING, None);
    let known = if args.replace { KnownModels::Replace } else { KnownModels::Keep };
    let engine = local.engine();
    let made =
        engine.relearn_beside(pipeline, &mut |blocks| progress.add(blocks), &|| local.interrupt.raised());
    let made = match made {
        Err(RelearnError::Ended) => return Ok(Exit::Interrupted),
        made => made.map_err(CommandError::new)?,
    };
    drop(progress);
    tell(&pipeline.name, &RelearnReportJson::from(&made.report), !args.dry_run, out)?;
    if !args.dry_run {
        engine.adopt_models(&made, known).map_err(|error| match error {
            RelearnError::KnownBetter { .. } => CommandError::new(error).help(REPLACES),
            error => CommandError::new(error),
        })?;
        say(IN_USE);
    }
    let is_less = say_losses(&made.report.skipped, &[]) || made.report.undescribed > 0;
    local.close()?;
    Ok(if is_less { Exit::Found } else { Exit::Fine })
}

/// Makes the linear models of a pipeline anew on a server.
fn relearn_remote(args: &LearnArgs, client: &ApiClient, out: &mut Output) -> Result<Exit, CommandError> {
    let pipeline = args.messages.pipeline.as_deref();
    let interrupt = Interrupt::watch(None);
    client.relearn(pipeline)?;
    let progress = Progress::new(RELEARNING, None);
    let mut read = 0;
    let ready = loop {
        let seen = client.relearning(pipeline)?;
        progress.add(seen.blocks.saturating_sub(read));
        read = seen.blocks;
        if seen.state != "running" {
            break seen;
        }
        if interrupt.raised() {
            client.discard_relearned(pipeline)?;
            return Ok(Exit::Interrupted);
        }
        std::thread::sleep(LOOK);
    };
    drop(progress);
    let Some(report) = ready.report.filter(|_| ready.state == "ready") else {
        return Err(CommandError::new(ready.problem.unwrap_or(ready.state)));
    };
    tell(&ready.pipeline, &report, !args.dry_run, out)?;
    if args.dry_run {
        client.discard_relearned(pipeline)?;
    } else {
        if let Err(error) = client.adopt_relearned(pipeline, args.replace) {
            // Whoever asks again begins anew.
            let _ = client.discard_relearned(pipeline);
            return Err(error.into());
        }
        say(IN_USE);
    }
    Ok(if report.undescribed > 0 || report.damaged > 0 { Exit::Found } else { Exit::Fine })
}

/// Tells what models were made of, and how good they are.
fn tell(
    pipeline: &str,
    report: &RelearnReportJson,
    adopt: bool,
    out: &mut Output,
) -> Result<(), CommandError> {
    if out.is_json() {
        out.json(&RelearnLine { pipeline, adopt, report })?;
        return out.flush();
    }
    let wrong = |wrong: u64, all: u64| format!("{} of {}", HumanCount(wrong), HumanCount(all));
    let ModelCheckJson { good, good_wrong, bad, bad_wrong } = report.known_check;
    let new = report.check;
    let mut table = TextTable::default();
    let head = |text: &str| TableCell::number(text, DIM);
    table.row([TableCell::text("", DIM), head("in use"), head("new")]);
    for (what, known, new) in [
        (
            "learned as good",
            HumanCount(report.known.good).to_string(),
            HumanCount(report.examples.good).to_string(),
        ),
        (
            "learned as bad",
            HumanCount(report.known.bad).to_string(),
            HumanCount(report.examples.bad).to_string(),
        ),
        ("good, taken for bad", wrong(good_wrong, good), wrong(new.good_wrong, new.good)),
        ("bad, taken for good", wrong(bad_wrong, bad), wrong(new.bad_wrong, new.bad)),
    ] {
        let cell = |text| TableCell::number(text, Style::new());
        table.row([TableCell::text(what, Style::new()), cell(known), cell(new)]);
    }
    out.line(format_args!("{table}"))?;
    out.flush()?;
    if report.undescribed > 0 {
        error(format_args!(
            "{} judged decisions belong to versions without a description",
            report.undescribed
        ));
    }
    Ok(())
}

fn remote(
    args: &LearnArgs,
    sets: &LearnSets,
    client: &ApiClient,
    out: &mut Output,
    learned: &mut LearnTally,
) -> Result<Exit, CommandError> {
    let MessageOptions { envelope, pipeline, .. } = &args.messages;
    let ask = |message: &InputMessage, time| {
        client.learn_message(sets.class(message), pipeline.as_deref(), message, time, *envelope)
    };
    let progress = sets.progress();
    let take = |name: &str, said: FeedbackOutcomeJson| progress.suspend(|| learned.add(out, name, &said));
    let (exit, _) = each_answer(sets.messages(), &args.messages, &progress, ask, take)?;
    Ok(exit)
}
