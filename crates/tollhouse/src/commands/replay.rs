//! `tollhouse replay`: events from a file, at their own times.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use engine::{Engine, PreparedEvent};
use event::Value;
use judge::Action;
use plan::preset::Preset;
use plan::{Pipeline, PipelineInput};
use serde::Serialize;
use server::api::{BatchLine, DecisionJson};
use sources::line_reader::{LinePlace, ReadLine, SourceLineFormat, SourceLineReader, machine_zone};

use crate::client::{ApiClient, BatchDurability, LineFormat};
use crate::clock;
use crate::commands::report_log::{self, FlaggedSources};
use crate::console::{DIM, Output, Progress, colour, say};
use crate::exit::{CommandError, Exit};
use crate::input::line_batch::{BATCH, LineBatchIter, NumberedLine};
use crate::input::lines::{InputLine, InputLineIter};
use crate::input::messages::STDIN;
use crate::interrupt::Interrupt;
use crate::message_reader::ThreadsOption;
use crate::options::{ASK_THE_SERVER, EngineOptions, JsonOption, LocalEngine, ServerOptions, preset_named};
use crate::ordered_pool::map_ordered;
use crate::tally::VerdictTally;

/// Decide on events from a file, each at its own time
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tollhouse replay access.log                        In memory, by the preset `web`
  zcat access.log.*.gz | tollhouse replay --json -   One object for each event not accepted
  tollhouse replay --data ./data --all events.ndjson
  tollhouse replay --server http://127.0.0.1:8377 access.log
  tollhouse replay --preset login --batch 1 logins.ndjson
  tollhouse replay --by-source access.log            Who was flagged, for what
  tollhouse replay --preset sshd --by-source /var/log/auth.log.1

Events arrive when they happened; without a time, now. Counters that depend on verdicts follow each
batch: `--batch 1` decides like a server asked about one event at a time. A line that is no event is
reported and skipped (exit code 1). A pipeline with `input = \"log\"` reads lines by its patterns, as
`follow` does, and the lines that none reads are counted.")]
pub(crate) struct ReplayArgs {
    /// NDJSON events, an access log or the log of a program, or - for standard input
    #[arg(value_name = "FILE|-")]
    file: PathBuf,
    /// Line format; `auto` is the log of a pipeline that reads one, else looks at the first line
    #[arg(long, value_enum, default_value_t = ReplayFormat::Auto, value_name = "FORMAT")]
    format: ReplayFormat,
    /// Pipeline [default: the first that reads such lines]
    #[arg(long, value_name = "NAME")]
    pipeline: Option<String>,
    /// Print all decisions, `accept` too
    #[arg(long)]
    all: bool,
    /// Print a table of flagged addresses and their rules instead of decisions
    #[arg(long, conflicts_with_all = ["all", "json"])]
    by_source: bool,
    /// Most events in a batch
    #[arg(long, value_name = "N", default_value_t = BATCH, value_parser = clap::value_parser!(u16).range(1..=1024))]
    batch: u16,
    #[command(flatten)]
    threads: ThreadsOption,
    /// Preset for deciding in memory [default: web]
    #[arg(long, value_name = "NAME", value_parser = preset_named, conflicts_with = "server")]
    preset: Option<&'static Preset>,
    #[command(flatten)]
    engine: EngineOptions,
    #[command(flatten)]
    server: ServerOptions,
    #[command(flatten)]
    json: JsonOption,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum ReplayFormat {
    /// The form by the first line: an object begins with a brace.
    Auto,
    /// One JSON object a line.
    Ndjson,
    /// Access logs, by the pipeline's own format or in any that is known; also in files of Docker and Kubernetes.
    AccessLog,
    /// Lines of any log, by the patterns of a pipeline with `input = "log"`.
    Log,
}

/// A line of `--json`.
#[derive(Serialize)]
struct ReplayLine<'a> {
    line: u64,
    #[serde(flatten)]
    decision: &'a DecisionJson,
}

/// Bad lines that are named one by one.
const NAMED_MAX: u64 = 20;
/// Lines with fields that nobody knows that are named one by one.
const WARNED_MAX: u64 = 3;
/// Addresses that the summary by source names.
const SOURCES_SHOWN: usize = 50;
/// Rules that the summary names.
const RULES_SHOWN: usize = 10;

pub(crate) fn run(args: ReplayArgs) -> Result<Exit, CommandError> {
    let (reader, form) = open(&args.file, args.format)?;
    let mut replay = ReplayRun {
        out: Output::new(args.json.json),
        progress: Progress::new("events", None),
        tally: VerdictTally::new("events"),
        all: args.all,
        warned: 0,
        unread: 0,
        sources: args.by_source.then(FlaggedSources::default),
    };
    let exit = match args.server.client()? {
        Some(client) => remote(&args, &client, form, reader, &mut replay)?,
        None => local(&args, form, reader, &mut replay)?,
    };
    let ReplayRun { mut out, progress, tally, warned, unread, sources, .. } = replay;
    drop(progress);
    if let Some(sources) = &sources {
        report_log::sources_table(&mut out, sources, SOURCES_SHOWN)?;
    }
    out.flush()?;
    say(&tally);
    if warned > 0 {
        say(format_args!("{warned:>9}  have fields that the pipeline does not know, or none that it knows"));
    }
    if unread > 0 {
        say(format_args!("{unread:>9}  lines are read by no pattern"));
    }
    for (rule, count) in tally.top_rules(RULES_SHOWN) {
        say(format_args!("{count:>9}  {rule}"));
    }
    Ok(match exit {
        Exit::Fine if tally.bad > 0 => Exit::Found,
        exit => exit,
    })
}

/// The beginning of a line of Docker's `json-file` logs.
const DOCKER_HEAD: &str = "{\"log\":";

/// Opens the input and tells how its lines are read.
pub(super) fn open(
    path: &Path,
    format: ReplayFormat,
) -> Result<(Box<dyn BufRead + Send>, LineFormat), CommandError> {
    let failed = |error: io::Error| CommandError::new(format_args!("{}: {error}", path.display()));
    let stream: Box<dyn Read + Send> = if path.as_os_str() == STDIN {
        Box::new(io::stdin())
    } else {
        Box::new(File::open(path).map_err(failed)?)
    };
    let mut reader = BufReader::with_capacity(256 << 10, stream);
    let form = match format {
        ReplayFormat::Ndjson => LineFormat::Json,
        ReplayFormat::AccessLog | ReplayFormat::Log => LineFormat::AccessLog,
        ReplayFormat::Auto => loop {
            match reader.fill_buf().map_err(failed)? {
                // What a container writes is an access log's line in an object, and no event.
                first if first.starts_with(DOCKER_HEAD.as_bytes()) => break LineFormat::AccessLog,
                [b'{', ..] => break LineFormat::Json,
                [byte, ..] if byte.is_ascii_whitespace() => reader.consume(1),
                _ => break LineFormat::AccessLog,
            }
        },
    };
    Ok((Box::new(reader), form))
}

/// The run that decisions go through, wherever they are made.
struct ReplayRun {
    out: Output,
    progress: Progress,
    tally: VerdictTally,
    all: bool,
    /// Events with fields that nobody knows.
    warned: u64,
    /// Lines of a log that no pattern reads.
    unread: u64,
    /// The addresses that were flagged, if these are shown instead of decisions.
    sources: Option<FlaggedSources>,
}

impl ReplayRun {
    fn decided(
        &mut self,
        line: u64,
        source: Option<&str>,
        decision: &DecisionJson,
    ) -> Result<(), CommandError> {
        self.tally.add(decision);
        if let Some(warning) = decision.warnings.first() {
            self.warned += 1;
            if self.warned <= WARNED_MAX {
                self.progress.say(format_args!("line {line}: {}", crate::console::printable(warning)));
            }
        }
        if decision.action == Action::Accept && !self.all {
            return Ok(());
        }
        if let Some(sources) = &mut self.sources {
            let rules = decision.reasons.iter().map(|reason| reason.name.as_str());
            let time = decision.time.to_string().parse().ok();
            sources.add(source.unwrap_or("-"), &decision.action.to_string(), rules, time);
            return Ok(());
        }
        let ReplayRun { out, progress, .. } = self;
        progress.suspend(|| {
            if out.is_json() {
                return out.json(&ReplayLine { line, decision });
            }
            let style = colour(decision.action);
            let names: Vec<&str> = decision.reasons.iter().map(|reason| reason.name.as_str()).collect();
            out.line(format_args!(
                "{line:>9}  {}  {style}{:<13}{style:#} {:>6.1}  {DIM}{}{DIM:#}",
                decision.time,
                decision.action,
                decision.score,
                names.join(", ")
            ))
        })
    }

    fn bad(&mut self, line: u64, why: &str) {
        self.tally.bad += 1;
        if self.tally.bad <= NAMED_MAX {
            self.progress.say(format_args!("line {line}: {}", crate::console::printable(why)));
        } else if self.tally.bad == NAMED_MAX + 1 {
            self.progress.say("further lines that are no events are only counted");
        }
    }
}

const TOO_LONG: &str = "the line is longer than any event may be";

fn parse(
    engine: &Engine,
    pipeline: &Pipeline,
    form: LineFormat,
    line: &InputLine,
) -> Result<(event::Event, Vec<String>), String> {
    let InputLine::Bytes(bytes) = line else { return Err(TOO_LONG.to_owned()) };
    match form {
        LineFormat::Json => {
            engine.read_json(pipeline, bytes, clock::now()).map_err(|error| error.to_string())
        }
        LineFormat::AccessLog => {
            let event = pipeline.access_log_event(bytes).map_err(|error| error.to_string())?;
            Ok((event, Vec::new()))
        }
    }
}

/// The address that an event came from, by the name that access logs or logs of programs give it.
fn source(event: &event::Event) -> Option<&Value> {
    let source = event.get("client.ip").or_else(|| event.get("log.ip"));
    source.filter(|value| matches!(value, Value::Ip(_) | Value::String(_)))
}

/// The address that a line came from, which somebody else reads.
fn source_of_line(form: LineFormat, line: &[u8]) -> Option<String> {
    match form {
        LineFormat::AccessLog => source(&content::web::access_log::event(line).ok()?).map(Value::to_string),
        LineFormat::Json => {
            let event: serde_json::Value = serde_json::from_slice(line).ok()?;
            Some(event.get("client.ip")?.as_str()?.to_owned())
        }
    }
}

fn local(
    args: &ReplayArgs,
    form: LineFormat,
    mut reader: Box<dyn BufRead + Send>,
    replay: &mut ReplayRun,
) -> Result<Exit, CommandError> {
    let local = args.engine.open_or_ephemeral(args.preset, "web", ASK_THE_SERVER)?;
    let is_of_log = |pipeline: &Pipeline| pipeline.input == PipelineInput::Log;
    let wanted = |pipeline: &Pipeline| match args.format {
        ReplayFormat::Log => is_of_log(pipeline),
        _ => form == LineFormat::Json || pipeline.input == PipelineInput::AccessLog,
    };
    let pipeline = local.pipeline(args.pipeline.as_deref(), wanted)?;
    let by_patterns = matches!(args.format, ReplayFormat::Auto | ReplayFormat::Log) && is_of_log(&pipeline);
    if !by_patterns && !wanted(&pipeline) {
        let input = pipeline.input.name();
        let other = if args.format == ReplayFormat::Log { "logs of programs" } else { "access logs" };
        return Err(CommandError::new(format_args!(
            "the pipeline `{}` reads {input}, not {other}",
            pipeline.name
        )));
    }
    let is_wrapped =
        form == LineFormat::AccessLog && is_wrapped(&mut reader).map_err(|error| unreadable(args, &error))?;
    let lines = match pipeline.log().filter(|_| by_patterns) {
        Some(settings) => {
            let stream = settings.open(machine_zone()).map_err(CommandError::new)?;
            Some(SourceLineFormat::Log(Box::new(stream)))
        }
        None => is_wrapped.then(|| SourceLineFormat::AccessLog(pipeline.access_log_format().cloned())),
    };
    let mut unread = 0;
    let take = |batch: io::Result<ReplayEvents>| -> Result<(), CommandError> {
        let batch = batch.map_err(|error| unreadable(args, &error))?;
        let (mut read, mut events) = (Vec::with_capacity(batch.len()), Vec::with_capacity(batch.len()));
        for (number, ready) in batch {
            match ready {
                Ok(ReplayEvent { prepared, warnings, source }) => {
                    read.push((number, warnings, source));
                    events.push(prepared);
                }
                Err(why) => replay.bad(number, &why),
            }
        }
        replay.progress.add(events.len() as u64);
        let decisions = pollster::block_on(local.engine().decide(events));
        read.into_iter().zip(&decisions).try_for_each(|((number, warnings, source), decision)| {
            let verdict = &decision.verdict;
            if verdict.action == Action::Accept && warnings.is_empty() && !replay.all {
                // Most are, and nobody is told of them: nothing is made for nobody.
                replay.tally.count(verdict.action, verdict.reasons.iter().map(|reason| reason.rule.as_str()));
                return Ok(());
            }
            let source = source.filter(|_| replay.sources.is_some()).map(|source| source.to_string());
            let answer = DecisionJson { warnings, ..DecisionJson::from(decision) };
            replay.decided(number, source.as_deref(), &answer)
        })
    };
    let exit = match lines {
        Some(format) => {
            let lines = SourceLineReader::new(format, machine_zone());
            each_read_batch(&local, &pipeline, lines, reader, args.batch, &mut unread, take)?
        }
        None => each_batch(&local, &pipeline, form, reader, args.threads, args.batch, take)?,
    };
    replay.unread = unread;
    local.close()?;
    Ok(exit)
}

/// Lines with their numbers, each ready to be decided or with what is wrong with it.
pub(super) type ReplayEvents = Vec<(u64, Result<ReplayEvent, String>)>;

/// An event that can be decided.
pub(super) struct ReplayEvent {
    pub(super) prepared: PreparedEvent,
    /// The warnings about the event's fields.
    warnings: Vec<String>,
    /// The address that it came from.
    source: Option<Value>,
}

impl ReplayEvent {
    /// Prepares an event, which arrives at its own time.
    fn new(
        local: &LocalEngine,
        pipeline: &Arc<Pipeline>,
        event: event::Event,
        warnings: Vec<String>,
    ) -> ReplayEvent {
        let time = pipeline.header.time(&event).or(event.time);
        let arrival = time.unwrap_or_else(clock::now);
        let source = source(&event).cloned();
        ReplayEvent { prepared: local.engine().prepare(pipeline, event, arrival), warnings, source }
    }
}

/// Bytes of a container runtime's line in front of the log's own.
const CONTAINER_HEAD_BYTES: usize = 60;

/// Returns true if lines of an access log need the memory of earlier ones, or are wrapped: a heading names their fields, or a
/// container runtime wrote them.
fn is_wrapped(reader: &mut dyn BufRead) -> io::Result<bool> {
    let first = reader.fill_buf()?;
    let head = String::from_utf8_lossy(&first[..first.len().min(CONTAINER_HEAD_BYTES)]);
    let is_of_container = head.contains(" stdout ") || head.contains(" stderr ");
    Ok(head.starts_with('#') || head.starts_with(DOCKER_HEAD) || is_of_container)
}

/// Reads lines in their order, each by what earlier ones said, and hands over their events in batches of at most so many. Lines
/// that no pattern reads are counted.
fn each_read_batch(
    local: &LocalEngine,
    pipeline: &Arc<Pipeline>,
    mut lines: SourceLineReader,
    reader: Box<dyn BufRead + Send>,
    size: u16,
    unread: &mut u64,
    mut take: impl FnMut(io::Result<ReplayEvents>) -> Result<(), CommandError>,
) -> Result<Exit, CommandError> {
    let (origin, mut head) = (Arc::from(STDIN), None);
    let input = InputLineIter::new(reader);
    let input = if lines.minds_blanks() { input.with_blanks() } else { input };
    for batch in (LineBatchIter { lines: input, size }) {
        if local.interrupt.raised() {
            return Ok(Exit::Interrupted);
        }
        let batch = match batch {
            Ok(batch) => batch,
            Err(error) => {
                take(Err(error))?;
                break;
            }
        };
        let (now, mut ready) = (clock::now(), Vec::with_capacity(batch.len()));
        for (number, line) in batch {
            let InputLine::Bytes(bytes) = line else {
                ready.push((number, Err(TOO_LONG.to_owned())));
                continue;
            };
            let Some(line) = lines.trimmed(&bytes) else { continue };
            let event = match lines.read(line, LinePlace { origin: &origin, name: None }, &mut head, now) {
                Ok(ReadLine::Event(event)) => Ok((*event, Vec::new())),
                Ok(ReadLine::Object(object)) => {
                    let bytes = serde_json::Value::Object(object).to_string();
                    let read = local.engine().read_json(pipeline, bytes.as_bytes(), now);
                    read.map_err(|error| error.to_string())
                }
                Ok(ReadLine::Silent) => continue,
                Ok(ReadLine::Unread) => {
                    *unread += 1;
                    continue;
                }
                Err(why) => Err(why),
            };
            let event = event.map(|(event, warnings)| ReplayEvent::new(local, pipeline, event, warnings));
            ready.push((number, event));
        }
        take(Ok(ready))?;
    }
    Ok(Exit::Fine)
}

/// Reads lines and prepares their events on so many threads, and hands them over in their order, in batches of at most so many.
pub(super) fn each_batch(
    local: &LocalEngine,
    pipeline: &Arc<Pipeline>,
    form: LineFormat,
    reader: Box<dyn BufRead + Send>,
    threads: ThreadsOption,
    size: u16,
    mut take: impl FnMut(io::Result<ReplayEvents>) -> Result<(), CommandError>,
) -> Result<Exit, CommandError> {
    let prepare = |batch: io::Result<Vec<NumberedLine>>| -> io::Result<ReplayEvents> {
        let prepared = batch?.into_iter().map(|(number, line)| {
            let event = parse(local.engine(), pipeline, form, &line);
            (number, event.map(|(event, warnings)| ReplayEvent::new(local, pipeline, event, warnings)))
        });
        Ok(prepared.collect())
    };
    let batches = LineBatchIter { lines: InputLineIter::new(reader), size };
    let flow = map_ordered(threads.count(), batches, prepare, |batch| match take(batch) {
        Ok(()) if local.interrupt.raised() => ControlFlow::Break(Ok(Exit::Interrupted)),
        Ok(()) => ControlFlow::Continue(()),
        Err(failure) => ControlFlow::Break(Err(failure)),
    });
    match flow {
        ControlFlow::Break(ended) => ended,
        ControlFlow::Continue(()) => Ok(Exit::Fine),
    }
}

fn remote(
    args: &ReplayArgs,
    client: &ApiClient,
    form: LineFormat,
    reader: Box<dyn BufRead + Send>,
    replay: &mut ReplayRun,
) -> Result<Exit, CommandError> {
    if args.format == ReplayFormat::Log {
        return Err(CommandError::new("the log of a program is replayed in memory or on a data directory")
            .help("leave --server out; `tollhouse follow --once` sends such a log to a server"));
    }
    let interrupt = Interrupt::watch(None);
    for batch in (LineBatchIter { lines: InputLineIter::new(reader), size: args.batch }) {
        if interrupt.raised() {
            return Ok(Exit::Interrupted);
        }
        let (mut numbers, mut lines) = (Vec::new(), Vec::new());
        for (number, line) in batch.map_err(|error| unreadable(args, &error))? {
            match line {
                InputLine::Bytes(bytes) => {
                    numbers.push(number);
                    lines.push(bytes);
                }
                InputLine::TooLong => replay.bad(number, TOO_LONG),
            }
        }
        let answers =
            client.decide_lines(args.pipeline.as_deref(), form, BatchDurability::AsConfigured, &lines)?;
        replay.progress.add(answers.len() as u64);
        for ((number, line), answer) in numbers.into_iter().zip(&lines).zip(answers) {
            match answer {
                BatchLine::Decision(decision) => {
                    let source = args.by_source.then(|| source_of_line(form, line)).flatten();
                    replay.decided(number, source.as_deref(), &decision)?;
                }
                BatchLine::Error(error) => replay.bad(number, &error.error.detail),
            }
        }
    }
    Ok(Exit::Fine)
}

fn unreadable(args: &ReplayArgs, error: &io::Error) -> CommandError {
    CommandError::new(format_args!("{}: {error}", args.file.display()))
}
