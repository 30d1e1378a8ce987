//! `tollhouse replay`: events from a file, at their own times.

use std::io::{self, BufRead};
use std::path::PathBuf;
use std::sync::Arc;

use content::web::log_format::AccessLogFormat;
use event::Value;
use judge::Action;
use logs::log_stream::LogSettings;
use plan::preset::Preset;
use plan::{Pipeline, PipelineInput};
use serde::Serialize;
use server::api::{BatchLine, DecisionJson, PipelineJson};
use sources::line_reader::{LinePlace, ReadLine, SourceLineReader};

use crate::client::{ApiClient, BatchDurability, CallError, LineFormat};
use crate::clock;
use crate::commands::report_log::{self, FlaggedSources};
use crate::console::{DIM, Output, Progress, colour, say};
use crate::exit::{CommandError, Exit};
use crate::input::line_batch::{BATCH, LineBatchIter};
use crate::input::lines::InputLine;
use crate::input::messages::STDIN;
use crate::interrupt::Interrupt;
use crate::log_input::{
    FileLine, FileLines, LogFileFormat, LogFileReader, ReadyEvent, TOO_LONG, event_json, is_of_log,
    numbered_lines, open, ordered_reader, refused, text_of_field,
};
use crate::message_reader::ThreadsOption;
use crate::options::{ASK_THE_SERVER, EngineOptions, JsonOption, ServerOptions, preset_named};
use crate::tally::VerdictTally;

/// Decide on events from a file, each at its own time
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tollhouse replay access.log                        Who is flagged, for what, by the preset `web`
  tollhouse replay --preset sshd /var/log/auth.log.1
  tollhouse replay --decisions access.log            One line for each event not accepted
  zcat access.log.*.gz | tollhouse replay --json -   One object for each event not accepted
  tollhouse replay --data ./data --all events.ndjson
  tollhouse replay --server http://127.0.0.1:8377 access.log
  tollhouse replay --preset login --batch 1 logins.ndjson

Events arrive when they happened; without a time, now. Counters that depend on verdicts follow each
batch: `--batch 1` decides like a server asked about one event at a time. A line that is no event is
reported and skipped (exit code 1). A pipeline with `input = \"log\"` reads lines by its patterns, as
`follow` does, and the lines that none reads are counted.")]
pub(crate) struct ReplayArgs {
    /// NDJSON events, an access log or the log of a program, or - for standard input
    #[arg(value_name = "FILE|-")]
    file: PathBuf,
    /// Line format; `auto` is the log of a pipeline that reads one, else looks at the first line
    #[arg(long, value_enum, default_value_t = LogFileFormat::Auto, value_name = "FORMAT")]
    format: LogFileFormat,
    /// Pipeline [default: the first that reads such lines]
    #[arg(long, value_name = "NAME")]
    pipeline: Option<String>,
    /// Print each decision that is not `accept`, instead of a table of flagged addresses and their rules
    #[arg(long)]
    decisions: bool,
    /// Print all decisions, `accept` too
    #[arg(long)]
    all: bool,
    /// Most addresses in the table
    #[arg(long, value_name = "N", default_value = "50", value_parser = clap::value_parser!(u16).range(1..=1000))]
    top: u16,
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
        sources: (!args.decisions && !args.all && !args.json.json).then(FlaggedSources::default),
    };
    let exit = match args.server.client()? {
        Some(client) => remote(&args, &client, form, reader, &mut replay)?,
        None => local(&args, form, reader, &mut replay)?,
    };
    let ReplayRun { mut out, progress, tally, warned, unread, sources, .. } = replay;
    drop(progress);
    if let Some(sources) = &sources {
        report_log::sources_table(&mut out, sources, usize::from(args.top))?;
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
    /// The addresses that were flagged, where decisions are not shown one by one.
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

/// Returns an address as the summary by source names it.
fn address_text(value: &Value) -> Option<String> {
    matches!(value, Value::Ip(_) | Value::String(_)).then(|| value.to_string())
}

fn local(
    args: &ReplayArgs,
    form: LineFormat,
    reader: Box<dyn BufRead + Send>,
    replay: &mut ReplayRun,
) -> Result<Exit, CommandError> {
    let local = args.engine.open_or_ephemeral(args.preset, "web", ASK_THE_SERVER)?;
    let wanted = |pipeline: &Pipeline| match args.format {
        LogFileFormat::Log => is_of_log(pipeline),
        _ => form == LineFormat::Json || pipeline.input == PipelineInput::AccessLog,
    };
    let pipeline = local.pipeline(args.pipeline.as_deref(), wanted)?;
    let by_patterns = args.format.may_be_log() && is_of_log(&pipeline);
    if !by_patterns && !wanted(&pipeline) {
        return Err(refused(&pipeline.name, pipeline.input.name(), args.format));
    }
    let take = |batch: io::Result<FileLines<Option<Value>>>| -> Result<(), CommandError> {
        let batch = batch.map_err(|error| unreadable(args, &error))?;
        let (mut read, mut events) = (Vec::with_capacity(batch.len()), Vec::with_capacity(batch.len()));
        for (number, line) in batch {
            match line {
                FileLine::Event(event) => {
                    let ReadyEvent { prepared, warnings, kept: source } = *event;
                    read.push((number, warnings, source));
                    events.push(prepared);
                }
                FileLine::Unread => replay.unread += 1,
                FileLine::Bad(why) => replay.bad(number, &why),
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
            let source = source.as_ref().filter(|_| replay.sources.is_some()).and_then(address_text);
            let answer = DecisionJson { warnings, ..DecisionJson::from(decision) };
            replay.decided(number, source.as_deref(), &answer)
        })
    };
    let address = pipeline.address_field();
    let lines = LogFileReader {
        local: &local,
        pipeline: &pipeline,
        form,
        by_patterns,
        threads: args.threads,
        size: args.batch,
    };
    let exit = lines.read(reader, |event| event.get(address?).cloned(), take)?;
    local.close()?;
    Ok(exit)
}

/// The pipeline of a server that lines are for, as far as the server says what it reads.
struct RemotePipeline {
    /// The name, where lines are for another than the server's first one.
    name: Option<String>,
    patterns: Option<LogSettings>,
    own_format: Option<Arc<AccessLogFormat>>,
    address: String,
}

impl RemotePipeline {
    fn ask(args: &ReplayArgs, client: &ApiClient) -> Result<RemotePipeline, CommandError> {
        let unknown = || RemotePipeline {
            name: args.pipeline.clone(),
            patterns: None,
            own_format: None,
            address: "client.ip".to_owned(),
        };
        let pipelines = match client.pipelines() {
            Ok(known) => known.pipelines,
            // A token that may only have events decided does not see them.
            Err(CallError::Refused(..)) if args.format != LogFileFormat::Log => return Ok(unknown()),
            Err(error) => return Err(error.into()),
        };
        let is_wanted = |known: &&PipelineJson| match args.pipeline.as_deref() {
            Some(name) => known.name == name,
            None => args.format != LogFileFormat::Log || known.log.is_some(),
        };
        let Some(found) = pipelines.iter().find(is_wanted) else {
            // The server says what is wrong with a name.
            return match pipelines.first().filter(|_| args.pipeline.is_none()) {
                Some(first) => Err(refused(&first.name, &first.input, args.format)),
                None => Ok(unknown()),
            };
        };
        let patterns = found.log.clone().filter(|_| args.format.may_be_log()).map(LogSettings::from);
        if patterns.is_none() && args.format == LogFileFormat::Log {
            return Err(refused(&found.name, &found.input, args.format));
        }
        let own_format = found.access_log.as_ref().map(AccessLogFormat::try_from).transpose();
        let is_named = args.pipeline.is_some() || args.format == LogFileFormat::Log;
        Ok(RemotePipeline {
            name: is_named.then(|| found.name.clone()),
            patterns,
            own_format: own_format.map_err(CommandError::new)?.map(Arc::new),
            address: found.address.clone().unwrap_or_else(|| "client.ip".to_owned()),
        })
    }

    /// The address that a line came from, as it is sent.
    fn address_of(&self, form: LineFormat, line: &[u8]) -> Option<String> {
        if form == LineFormat::Json {
            let object = serde_json::from_slice(line).ok()?;
            return text_of_field(&object, &self.address).map(str::to_owned);
        }
        let event = match &self.own_format {
            Some(format) => format.event(line),
            None => content::web::access_log::event(line),
        };
        event.ok()?.get("client.ip").and_then(address_text)
    }
}

fn remote(
    args: &ReplayArgs,
    client: &ApiClient,
    form: LineFormat,
    mut reader: Box<dyn BufRead + Send>,
    replay: &mut ReplayRun,
) -> Result<Exit, CommandError> {
    let interrupt = Interrupt::watch(None);
    let pipeline = RemotePipeline::ask(args, client)?;
    let ordered = ordered_reader(pipeline.patterns.clone(), pipeline.own_format.clone(), form, &mut *reader);
    let mut ordered = ordered.map_err(|error| unreadable(args, &error))?;
    // What is read here travels as objects.
    let form = if ordered.is_some() { LineFormat::Json } else { form };
    let mut head = None;
    let input = numbered_lines(reader, ordered.as_ref());
    for batch in (LineBatchIter { lines: input, size: args.batch }) {
        if interrupt.raised() {
            return Ok(Exit::Interrupted);
        }
        let (mut numbers, mut lines) = (Vec::new(), Vec::new());
        for (number, line) in batch.map_err(|error| unreadable(args, &error))? {
            let InputLine::Bytes(bytes) = line else {
                replay.bad(number, TOO_LONG);
                continue;
            };
            let line = match &mut ordered {
                None => Some(bytes),
                Some(reader) => remote_line(reader, &bytes, &mut head, number, replay),
            };
            if let Some(line) = line {
                numbers.push(number);
                lines.push(line);
            }
        }
        if lines.is_empty() {
            continue;
        }
        let answers =
            client.decide_lines(pipeline.name.as_deref(), form, BatchDurability::AsConfigured, &lines)?;
        replay.progress.add(answers.len() as u64);
        for ((number, line), answer) in numbers.into_iter().zip(&lines).zip(answers) {
            match answer {
                BatchLine::Decision(decision) => {
                    let is_asked = replay.sources.is_some() && decision.action != Action::Accept;
                    let source = is_asked.then(|| pipeline.address_of(form, line)).flatten();
                    replay.decided(number, source.as_deref(), &decision)?;
                }
                BatchLine::Error(error) => replay.bad(number, &error.error.detail),
            }
        }
    }
    Ok(Exit::Fine)
}

/// Reads a line by what earlier ones said, as the object that a server takes; `None` if it is no event.
fn remote_line(
    reader: &mut SourceLineReader,
    line: &[u8],
    head: &mut Option<String>,
    number: u64,
    replay: &mut ReplayRun,
) -> Option<Vec<u8>> {
    let (origin, line) = (Arc::from(STDIN), reader.trimmed(line)?);
    let object = match reader.read(line, LinePlace { origin: &origin, name: None }, head, clock::now()) {
        Ok(ReadLine::Event(event)) => event_json(*event),
        Ok(ReadLine::Object(object)) => object,
        Ok(ReadLine::Silent) => return None,
        Ok(ReadLine::Unread) => {
            replay.unread += 1;
            return None;
        }
        Err(why) => {
            replay.bad(number, &why);
            return None;
        }
    };
    Some(serde_json::Value::Object(object).to_string().into_bytes())
}

fn unreadable(args: &ReplayArgs, error: &io::Error) -> CommandError {
    CommandError::new(format_args!("{}: {error}", args.file.display()))
}
