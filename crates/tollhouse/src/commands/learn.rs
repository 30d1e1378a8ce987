//! `tollhouse learn`: says of messages what they are.

use data_encoding::HEXLOWER;
use serde::Serialize;
use server::api::FeedbackOutcomeJson;
use sha2::{Digest, Sha256};

use crate::client::ApiClient;
use crate::console::{Output, say};
use crate::exit::{CommandError, Exit};
use crate::input::messages::InputMessage;
use crate::message_reader::{MessageOptions, PreparedMessage, each_answer, each_message, message_pipeline};
use crate::options::{ASK_THE_SERVER, EngineOptions, JsonOption, ServerOptions};

/// Learn messages as spam, ham or another class
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tollhouse learn --class spam --data ./data spam/
  tollhouse learn --class ham --data ./data --message-time wanted.mbox
  tollhouse learn --class spam --server http://127.0.0.1:8377 - < message.eml

The class counts for the message's keys (sender, links, text, ...), and classifiers learn its words.
A message counts once in a class; learned as another class it leaves the first. `--class forget` and
`--class none` undo it. For a message that was decided here, feedback on the decision's id is more
exact.")]
pub(crate) struct LearnArgs {
    /// Class of the messages: one of the pipeline's feedback classes, such as spam or ham; none takes feedback back
    #[arg(long, value_name = "CLASS")]
    class: String,
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
    let mut learned = LearnTally::default();
    let exit = match args.server.client()? {
        Some(client) => remote(&args, &client, &mut out, &mut learned)?,
        None => local(&args, &mut out, &mut learned)?,
    };
    out.flush()?;
    let LearnTally { messages, duplicates } = learned;
    say(format_args!("{messages} messages learned as {}, {duplicates} of them known before", args.class));
    Ok(exit)
}

fn local(args: &LearnArgs, out: &mut Output, learned: &mut LearnTally) -> Result<Exit, CommandError> {
    let local = args.engine.open(ASK_THE_SERVER)?;
    let pipeline = message_pipeline(&local, args.messages.pipeline.as_deref())?;
    // The name by which the server knows a message without one, too.
    let digest =
        |message: &InputMessage| -> String { HEXLOWER.encode(&Sha256::digest(message.stored.message())) };
    let progress = args.messages.progress();
    let take = |ready: PreparedMessage<String>| {
        let outcome = pollster::block_on(local.engine().learn(ready.prepared, &ready.also, &args.class))?;
        let said = FeedbackOutcomeJson::new(ready.also, args.class.clone(), outcome);
        progress.suspend(|| learned.add(out, &ready.name, &said))
    };
    let messages = args.messages.messages();
    let (exit, _) = each_message(&local, &pipeline, messages, &args.messages, &progress, digest, take)?;
    local.close()?;
    Ok(exit)
}

fn remote(
    args: &LearnArgs,
    client: &ApiClient,
    out: &mut Output,
    learned: &mut LearnTally,
) -> Result<Exit, CommandError> {
    let MessageOptions { envelope, pipeline, .. } = &args.messages;
    let ask = |message: &InputMessage, time| {
        client.learn_message(&args.class, pipeline.as_deref(), message, time, *envelope)
    };
    let progress = args.messages.progress();
    let take = |name: &str, said: FeedbackOutcomeJson| progress.suspend(|| learned.add(out, name, &said));
    let (exit, _) = each_answer(&args.messages, &progress, ask, take)?;
    Ok(exit)
}
