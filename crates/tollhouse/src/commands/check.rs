//! `tollhouse check`: judges messages, offline or by a server.

use std::fmt::Write;

use plan::preset::Preset;
use serde::Serialize;
use server::api::{DecisionJson, ReasonJson};

use crate::client::ApiClient;
use crate::console::{Output, Progress, colour, cut, printable, say};
use crate::exit::{CommandError, Exit};
use crate::input::messages::InputMessage;
use crate::message_reader::{
    MessageFiles, MessageOptions, PreparedMessage, each_answer, each_message, message_pipeline,
};
use crate::options::{ASK_THE_SERVER, EngineOptions, JsonOption, ServerOptions, preset_named};
use crate::tally::VerdictTally;

/// Decide on messages
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tollhouse check message.eml                       In memory, by the preset `mail`
  tollhouse check --message-time --json ~/Maildir   Each message at its own time
  tollhouse check --data ./data mail.mbox           Counted and journalled in a data directory
  tollhouse check --server http://127.0.0.1:8377 - < message.eml
  tollhouse check --dns --set 'dns.resolvers=[\"127.0.0.1\"]' message.eml

Decides in input order with any number of threads: each message sees what those before it left.
Skips and reports unreadable files (exit code 1). Only --dns queries DNS, as of today: keys that
signed old mail may be gone. Without --data (or TOLLHOUSE_DATA), --config and --server it decides in
memory by --preset and keeps nothing.")]
pub(crate) struct CheckArgs {
    #[command(flatten)]
    files: MessageFiles,
    #[command(flatten)]
    messages: MessageOptions,
    /// Preset for deciding in memory [default: mail]
    #[arg(long, value_name = "NAME", value_parser = preset_named, conflicts_with = "server")]
    preset: Option<&'static Preset>,
    /// Query `[dns]` for SPF, DKIM, DMARC, reverse names and DNS lists
    #[arg(long, conflicts_with = "server")]
    dns: bool,
    #[command(flatten)]
    engine: EngineOptions,
    #[command(flatten)]
    server: ServerOptions,
    #[command(flatten)]
    json: JsonOption,
}

/// A line of `--json`.
#[derive(Serialize)]
struct CheckLine<'a> {
    file: &'a str,
    #[serde(flatten)]
    decision: &'a DecisionJson,
}

pub(crate) fn run(args: CheckArgs) -> Result<Exit, CommandError> {
    let mut out = Output::new(args.json.json);
    let mut tally = VerdictTally::new("messages");
    let exit = match args.server.client()? {
        Some(client) => remote(&args, &client, &mut out, &mut tally)?,
        None => local(&args, &mut out, &mut tally)?,
    };
    out.flush()?;
    say(tally);
    Ok(exit)
}

fn local(args: &CheckArgs, out: &mut Output, tally: &mut VerdictTally) -> Result<Exit, CommandError> {
    let mut local = args.engine.open_or_ephemeral(args.preset, "mail", ASK_THE_SERVER)?;
    if args.dns {
        local.look_up()?;
    }
    let pipeline = message_pipeline(&local, args.messages.pipeline.as_deref())?;
    let progress = args.files.progress();
    let take = |ready: PreparedMessage<()>| {
        // One by one: what hangs on a message's verdict is counted before the next is judged.
        for decision in pollster::block_on(local.engine().decide(vec![ready.prepared])) {
            show(out, &progress, tally, &ready.name, &DecisionJson::from(&decision))?;
        }
        Ok(())
    };
    let messages = args.files.messages();
    let (exit, unreadable) =
        each_message(&local, &pipeline, messages, &args.messages, &progress, |_| (), take)?;
    tally.bad = unreadable;
    local.close()?;
    Ok(exit)
}

fn remote(
    args: &CheckArgs,
    client: &ApiClient,
    out: &mut Output,
    tally: &mut VerdictTally,
) -> Result<Exit, CommandError> {
    let MessageOptions { envelope, pipeline, .. } = &args.messages;
    let ask =
        |message: &InputMessage, time| client.decide_message(pipeline.as_deref(), message, time, *envelope);
    let progress = args.files.progress();
    let take = |name: &str, decision: DecisionJson| show(out, &progress, tally, name, &decision);
    let (exit, bad) = each_answer(args.files.messages(), &args.messages, &progress, ask, take)?;
    tally.bad = bad;
    Ok(exit)
}

fn show(
    out: &mut Output,
    progress: &Progress,
    tally: &mut VerdictTally,
    file: &str,
    decision: &DecisionJson,
) -> Result<(), CommandError> {
    tally.add(decision);
    progress.suspend(|| {
        if out.is_json() {
            return out.json(&CheckLine { file, decision });
        }
        let style = colour(decision.action);
        let reasons = reasons(&decision.reasons);
        let (action, score) = (decision.action, decision.score);
        out.line(format_args!("{style}{action:<13}{style:#} {score:>6.1}  {}  {reasons}", printable(file)))
    })
}

/// The weightiest reasons by name.
fn reasons(reasons: &[ReasonJson]) -> String {
    const SHOWN: usize = 5;
    let mut text = String::new();
    for reason in reasons.iter().take(SHOWN) {
        // Writing to a string cannot fail.
        let _ = write!(
            text,
            "{}{} {:+}",
            if text.is_empty() { "" } else { ", " },
            cut(&reason.name, 40),
            reason.score
        );
    }
    if reasons.len() > SHOWN {
        let _ = write!(text, ", {} more", reasons.len() - SHOWN);
    }
    text
}
