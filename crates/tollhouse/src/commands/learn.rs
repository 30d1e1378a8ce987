//! `tollhouse learn`: says of messages what they are.

use std::path::PathBuf;

use data_encoding::HEXLOWER;
use engine::{KnownModels, LessonCounts, RelearnError, RelearnReport};
use serde::Serialize;
use server::api::FeedbackOutcomeJson;
use sha2::{Digest, Sha256};

use crate::client::ApiClient;
use crate::console::{Output, Progress, error, say};
use crate::exit::{CommandError, Exit};
use crate::input::messages::{InputMessage, InterleavedMessageIter, count_files};
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
  tollhouse learn --data ./data --from-journal                  Make lost linear models anew

To begin, use --spam and --ham: their messages are learned in turns.

The class counts for the message's keys (sender, links, text, ...), and classifiers learn its words.
A message counts once, in its last class; `--class forget` and `--class none` undo it. For a message
decided here, feedback on the decision's id is more exact.

--from-journal rebuilds linear models from feedback on the journal's decisions alone, without
messages learned otherwise; counts stay. Models that learned more than the journal has need
--replace.")]
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
    #[arg(long, conflicts_with_all = ["class", "files", "spam", "ham", "server"])]
    from_journal: bool,
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
        return relearn(&args, &mut out);
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
    good: u64,
    bad: u64,
    undescribed: u64,
}

/// Makes the linear models of a pipeline anew.
fn relearn(args: &LearnArgs, out: &mut Output) -> Result<Exit, CommandError> {
    let local = args.engine.open("wait until it ends: it holds the models in memory")?;
    let plan = local.engine().plan();
    let name = args.messages.pipeline.as_deref();
    let pipeline = plan.pipeline(name).ok_or_else(|| {
        CommandError::new(format_args!("there is no pipeline `{}`", name.unwrap_or_default()))
    })?;
    let progress = Progress::new("blocks of the journal, twice", None);
    let known = if args.replace { KnownModels::Replace } else { KnownModels::Keep };
    let made = local
        .engine()
        .relearn(pipeline, known, &mut |blocks| progress.add(blocks), &|| local.interrupt.raised());
    let made = match made {
        Err(RelearnError::Ended) => return Ok(Exit::Interrupted),
        Err(error @ RelearnError::KnownBetter { .. }) => {
            return Err(CommandError::new(error).help("--replace makes them of the journal alone"));
        }
        made => made.map_err(CommandError::new)?,
    };
    drop(progress);
    let RelearnReport { lessons: LessonCounts { good, bad }, undescribed, skipped } = made;
    if out.is_json() {
        out.json(&RelearnLine { pipeline: &pipeline.name, good, bad, undescribed })?;
    }
    out.flush()?;
    say(format_args!(
        "the linear models of {} have learned {good} good and {bad} bad decisions",
        pipeline.name
    ));
    if undescribed > 0 {
        error(format_args!("{undescribed} judged decisions belong to versions without a description"));
    }
    let is_less = say_losses(&skipped, &[]) || undescribed > 0;
    local.close()?;
    Ok(if is_less { Exit::Found } else { Exit::Fine })
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
