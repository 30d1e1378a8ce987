//! Messages on their way to the engine: read, timed and prepared on several threads, handed over in the order of the
//! input, so that results do not depend on the number of threads.

use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use engine::PreparedEvent;
use event::Time;
use plan::{Pipeline, PipelineInput};

use crate::client::CallError;
use crate::clock;
use crate::console::{Progress, printable};
use crate::exit::{CommandError, Exit};
use crate::input::messages::{EnvelopeOption, InputMessage, InputMessageIter, UnreadableInput, count_files};
use crate::interrupt::Interrupt;
use crate::options::LocalEngine;
use crate::ordered_pool::map_ordered;

/// The number of times that a message is sent to a server that is busy, and the time between.
const TRIES: usize = 5;
const AGAIN: Duration = Duration::from_secs(1);

/// The messages to read.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct MessageFiles {
    /// Messages, mailboxes or directories (recursive, by name), or - for standard input
    #[arg(required = true, value_name = "FILE|DIR|MBOX|-")]
    files: Vec<PathBuf>,
}

/// The way to read messages.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct MessageOptions {
    /// Use each message's own time instead of now; one without a time gets its predecessor's
    #[arg(long)]
    pub(crate) message_time: bool,
    /// Source of client, sender and recipients: header fields of your own servers, or none
    #[arg(long, value_enum, default_value_t = EnvelopeOption::Headers, value_name = "SOURCE")]
    pub(crate) envelope: EnvelopeOption,
    /// Pipeline [default: the first that reads messages]
    #[arg(long, value_name = "NAME")]
    pub(crate) pipeline: Option<String>,
    #[command(flatten)]
    pub(crate) threads: ThreadsOption,
}

/// The number of threads that prepare events.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub(crate) struct ThreadsOption {
    /// Threads that prepare events for the deciding one; 1: one thread in all [default: all cores]
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    threads: Option<NonZeroUsize>,
}

fn at_least_one(text: &str) -> Result<NonZeroUsize, String> {
    let number: usize = text.parse().map_err(|_| "expected a number of threads".to_owned())?;
    NonZeroUsize::new(number).ok_or_else(|| "at least one thread has to do the work".to_owned())
}

impl ThreadsOption {
    /// The number of threads, at most as many as make sense.
    pub(crate) fn count(self) -> usize {
        const THREADS_MAX: usize = 256;
        let cores = || thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
        self.threads.unwrap_or_else(cores).get().min(THREADS_MAX)
    }
}

impl MessageFiles {
    /// The messages.
    pub(crate) fn messages(&self) -> InputMessageIter {
        InputMessageIter::new(self.files.clone())
    }

    /// Shows how far they are read.
    pub(crate) fn progress(&self) -> Progress {
        Progress::new("messages", count_files(&self.files))
    }
}

/// The messages, each with the time at which it is taken to arrive; `None` is now.
pub(crate) fn timed(
    messages: impl Iterator<Item = Result<InputMessage, UnreadableInput>>,
    message_time: bool,
) -> impl Iterator<Item = Result<(InputMessage, Option<Time>), UnreadableInput>> {
    let mut last = None;
    messages.map(move |read| {
        let message = read?;
        if message_time {
            last = message.time().or(last);
        }
        Ok((message, last))
    })
}

/// The pipeline that judges messages.
pub(crate) fn message_pipeline(
    local: &LocalEngine,
    name: Option<&str>,
) -> Result<Arc<Pipeline>, CommandError> {
    let pipeline = local.pipeline(name, |pipeline| pipeline.input == PipelineInput::Message)?;
    if pipeline.input != PipelineInput::Message {
        let input = pipeline.input.name();
        return Err(CommandError::new(format_args!(
            "the pipeline `{}` reads {input}, not messages",
            pipeline.name
        )));
    }
    Ok(pipeline)
}

/// Sends each message to a server, in order, and hands over the answers. What cannot be read, or is refused, is said
/// and counted: the answer is how much that was, or that the user stopped it.
pub(crate) fn each_answer<T>(
    messages: impl Iterator<Item = Result<InputMessage, UnreadableInput>>,
    options: &MessageOptions,
    progress: &Progress,
    ask: impl Fn(&InputMessage, Option<Time>) -> Result<T, CallError>,
    mut take: impl FnMut(&str, T) -> Result<(), CommandError>,
) -> Result<(Exit, u64), CommandError> {
    let interrupt = Interrupt::watch(None);
    let mut bad = 0;
    for read in timed(messages, options.message_time) {
        if interrupt.raised() {
            return Ok((Exit::Interrupted, bad));
        }
        progress.add(1);
        let (name, refused) = match read {
            Ok((message, time)) => match with_retries(&interrupt, || ask(&message, time)) {
                Ok(answer) => {
                    take(&message.name, answer)?;
                    continue;
                }
                Err(error) => (message.name, error.of_event()?),
            },
            Err(UnreadableInput { name, error }) => (name, error.to_string()),
        };
        bad += 1;
        progress.say(format_args!("{}: {}", printable(&name), printable(&refused)));
    }
    Ok((if bad > 0 { Exit::Found } else { Exit::Fine }, bad))
}

/// Asks a server that is busy once more, a few times: one moment of it is not the end of a whole mailbox.
fn with_retries<T>(interrupt: &Interrupt, ask: impl Fn() -> Result<T, CallError>) -> Result<T, CallError> {
    for _ in 1..TRIES {
        match ask() {
            Err(error) if error.is_for_now() && !interrupt.raised() => thread::sleep(AGAIN),
            answer => return answer,
        }
    }
    ask()
}

/// A message that is ready to be decided.
pub(crate) struct PreparedMessage<T> {
    /// The place of the message.
    pub(crate) name: String,
    /// The event for the engine.
    pub(crate) prepared: PreparedEvent,
    /// The other data that was wanted of the message.
    pub(crate) also: T,
}

/// Reads, prepares, and hands over each message in order. What cannot be read is said and counted: the answer is
/// how much that was, or that the user stopped it.
pub(crate) fn each_message<T: Send>(
    local: &LocalEngine,
    pipeline: &Arc<Pipeline>,
    messages: impl Iterator<Item = Result<InputMessage, UnreadableInput>> + Send,
    options: &MessageOptions,
    progress: &Progress,
    also: impl Fn(&InputMessage) -> T + Sync,
    mut take: impl FnMut(PreparedMessage<T>) -> Result<(), CommandError>,
) -> Result<(Exit, u64), CommandError> {
    let prepare = |read: Result<(InputMessage, Option<Time>), UnreadableInput>| {
        let (message, time) = read?;
        let arrival = time.unwrap_or_else(clock::now);
        let event = message.event(options.envelope.of(&message));
        let also = also(&message);
        Ok(PreparedMessage { prepared: local.prepare(pipeline, event, arrival), name: message.name, also })
    };
    let mut unreadable = 0;
    let messages = timed(messages, options.message_time);
    let flow = map_ordered(options.threads.count(), messages, prepare, |read| {
        progress.add(1);
        let taken = match read {
            Ok(ready) => take(ready),
            Err(UnreadableInput { name, error }) => {
                unreadable += 1;
                progress.say(format_args!("{}: {error}", printable(&name)));
                Ok(())
            }
        };
        match taken {
            Ok(()) if local.interrupt.raised() => ControlFlow::Break(Ok(Exit::Interrupted)),
            Ok(()) => ControlFlow::Continue(()),
            Err(failure) => ControlFlow::Break(Err(failure)),
        }
    });
    let exit = match flow {
        ControlFlow::Break(ended) => ended?,
        ControlFlow::Continue(()) if unreadable > 0 => Exit::Found,
        ControlFlow::Continue(()) => Exit::Fine,
    };
    Ok((exit, unreadable))
}
