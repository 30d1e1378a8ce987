//! `tollhouse bench`: how fast it is here. Each result is one object, so that runs can be kept and compared.
//!
//! What is measured is the program as it is used: files are read, messages parsed, statistics kept in memory or on
//! disk. `docs/internals/benchmarks.md` has figures and commands.

#[cfg(feature = "arrow")]
mod columns;
mod costly;
mod drawn_keys;
mod events;
mod judge;
mod ledger;
mod limits;
mod overload;

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use engine::Directory;
use plan::preset;
use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;

use crate::client::{ApiClient, CallError, LineFormat};
use crate::console::{DIM, Output, Progress, say};
use crate::corpora;
use crate::exit::{CommandError, Exit};
use crate::input::line_batch::BATCH;
use crate::input::messages::{EnvelopeOption, InputMessage, InputMessageIter};
use crate::log_input::LogFileReader;
use crate::message_reader::{MessageOptions, ThreadsOption, each_message, message_pipeline};
use crate::options::{EngineOptions, JsonOption, LocalEngine};
use crate::tally::per_second;
use crate::trust::TrustOptions;

/// Measure the speed on this machine
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tollhouse bench check                       Messages a second, on the bundled ones
  tollhouse bench check ~/Maildir --threads 1
  taskset -c 0 tollhouse bench check --json   On one core
  tollhouse bench replay access.log
  tollhouse bench http                        Latency of one decision at 1 and 8 connections
  tollhouse bench events                      Processor time of a million events in batches
  tollhouse bench costly                      Messages that were made to cost much
  tollhouse bench judge                       Rules and models alone, on rows of the samples
  tollhouse bench ledger --keys 10000000      Observations a second, memory and disk a key
  tollhouse bench limits                      Takes a second, memory a key beside a log
  tollhouse bench overload                    Ten times as much asked as can be decided

Build with --release before you measure.")]
pub(crate) struct BenchArgs {
    #[command(subcommand)]
    what: BenchCommand,
}

#[derive(clap::Subcommand)]
enum BenchCommand {
    /// Measure messages, from bytes to verdict, in memory
    Check(BenchInputArgs),
    /// Measure access log lines, from bytes to verdict, in memory
    Replay(BenchInputArgs),
    /// Measure single decisions over HTTP, by a server process with its data on disk
    Http(BenchInputArgs),
    Events(events::EventsBenchArgs),
    Costly(costly::CostlyBenchArgs),
    Judge(judge::JudgeBenchArgs),
    Ledger(ledger::LedgerBenchArgs),
    Limits(limits::LimitsBenchArgs),
    Overload(overload::OverloadBenchArgs),
}

/// The input that is measured, and for how long.
#[derive(clap::Args)]
struct BenchInputArgs {
    /// Messages (check, http) or access log (replay) [default: bundled samples]
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    #[command(flatten)]
    threads: ThreadsOption,
    /// Least time per measurement; repeats the input
    #[arg(long, default_value_t = 3, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=3600))]
    seconds: u64,
    #[command(flatten)]
    json: JsonOption,
}

/// A result. `docs/reference/cli.md` documents the fields.
#[derive(Serialize)]
#[serde(tag = "bench", rename_all = "lowercase")]
enum CommandMeasurement {
    Check {
        input: String,
        threads: usize,
        messages: u64,
        bytes: u64,
        seconds: f64,
        per_second: f64,
        cpu_ms_per_message: f64,
    },
    Replay {
        input: String,
        threads: usize,
        events: u64,
        seconds: f64,
        per_second: f64,
        cpu_us_per_event: f64,
    },
    Http {
        input: String,
        connections: usize,
        requests: u64,
        seconds: f64,
        per_second: f64,
        p50_ms: f64,
        p99_ms: f64,
        /// `None` where the system does not tell it.
        #[serde(skip_serializing_if = "Option::is_none")]
        server_cpu_us_per_decision: Option<f64>,
    },
}

pub(crate) fn run(args: BenchArgs) -> Result<Exit, CommandError> {
    if cfg!(debug_assertions) {
        say("This is a debug build: its figures mean nothing.");
    }
    match &args.what {
        BenchCommand::Check(input) => input.show(|show| show(check(input)?)),
        BenchCommand::Replay(input) => input.show(|show| show(replay(input)?)),
        BenchCommand::Http(input) => input.show(|show| http(input, show)),
        BenchCommand::Events(args) => events::run(args),
        BenchCommand::Costly(args) => costly::run(args),
        BenchCommand::Judge(args) => judge::run(args),
        BenchCommand::Ledger(args) => ledger::run(args),
        BenchCommand::Limits(args) => limits::run(args),
        BenchCommand::Overload(args) => overload::run(args),
    }
}

type MeasurementSink<'a> = &'a mut dyn FnMut(CommandMeasurement) -> Result<(), CommandError>;

impl BenchInputArgs {
    fn show(
        &self,
        measure: impl FnOnce(MeasurementSink<'_>) -> Result<(), CommandError>,
    ) -> Result<Exit, CommandError> {
        let mut out = Output::new(self.json.json);
        measure(&mut |measured| {
            if out.is_json() {
                return out.json(&measured);
            }
            let fields = serde_json::to_value(&measured).map_err(CommandError::new)?;
            for (name, value) in fields.as_object().into_iter().flatten() {
                let value = value
                    .as_f64()
                    .filter(|_| value.is_f64())
                    .map_or(value.to_string(), |float| format!("{float:.3}"));
                out.line(format_args!("{DIM}{name:<22}{DIM:#} {value}"))?;
            }
            out.line("")
        })?;
        out.flush()?;
        Ok(Exit::Fine)
    }
}

/// Time on the wall and on the processor.
struct Stopwatch {
    wall: Instant,
    cpu: Duration,
}

impl Stopwatch {
    fn start() -> Stopwatch {
        Stopwatch { wall: Instant::now(), cpu: cpu() }
    }

    fn wall(&self) -> Duration {
        self.wall.elapsed()
    }

    fn cpu(&self) -> Duration {
        cpu().saturating_sub(self.cpu)
    }
}

/// Processor time of all threads of this process.
fn cpu() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    let (seconds, nanos) = (u64::try_from(time.tv_sec), u32::try_from(time.tv_nsec));
    Duration::new(seconds.unwrap_or(0), nanos.unwrap_or(0))
}

fn in_memory(default: &str) -> Result<LocalEngine, CommandError> {
    let options = EngineOptions { data: None, config: None, set: Vec::new() };
    options.open_or_ephemeral(preset::find(default), default, "")
}

fn messages(args: &BenchInputArgs) -> InputMessageIter {
    match &args.file {
        Some(file) => InputMessageIter::new(vec![file.clone()]),
        None => InputMessageIter::of_mbox("mail.mbox", corpora::MAIL),
    }
}

fn input(args: &BenchInputArgs, bundled: &str) -> String {
    args.file.as_ref().map_or(format!("bundled {bundled}"), |file| file.display().to_string())
}

fn nothing(args: &BenchInputArgs) -> CommandError {
    CommandError::new(format_args!("{}: nothing to measure in it", input(args, "")))
}

fn check(args: &BenchInputArgs) -> Result<CommandMeasurement, CommandError> {
    let local = in_memory("mail")?;
    let pipeline = message_pipeline(&local, None)?;
    let options = MessageOptions {
        message_time: true,
        envelope: EnvelopeOption::Headers,
        pipeline: None,
        threads: args.threads,
    };
    let watch = Stopwatch::start();
    let (mut count, mut bytes) = (0u64, 0u64);
    while watch.wall() < Duration::from_secs(args.seconds) && !local.interrupt.raised() {
        let before = count;
        let length = |message: &InputMessage| message.stored.message().len() as u64;
        each_message(&local, &pipeline, messages(args), &options, &Progress::hidden(), length, |ready| {
            count += 1;
            bytes += ready.also;
            pollster::block_on(local.engine().decide(vec![ready.prepared]));
            Ok(())
        })?;
        if count == before {
            return Err(nothing(args));
        }
    }
    let (wall, cpu) = (watch.wall(), watch.cpu());
    Ok(CommandMeasurement::Check {
        input: input(args, "mail.mbox"),
        threads: args.threads.count(),
        messages: count,
        bytes,
        seconds: wall.as_secs_f64(),
        per_second: per_second(count, wall),
        cpu_ms_per_message: cpu.as_secs_f64() * 1e3 / count.max(1) as f64,
    })
}

fn replay(args: &BenchInputArgs) -> Result<CommandMeasurement, CommandError> {
    let local = in_memory("web")?;
    let pipeline = local.pipeline(None, |_| true)?;
    let watch = Stopwatch::start();
    let mut count = 0u64;
    while watch.wall() < Duration::from_secs(args.seconds) && !local.interrupt.raised() {
        let before = count;
        let reader: Box<dyn BufRead + Send> = match &args.file {
            Some(file) => Box::new(BufReader::with_capacity(256 << 10, open(file)?)),
            None => Box::new(corpora::WEB),
        };
        let lines = LogFileReader {
            local: &local,
            pipeline: &pipeline,
            form: LineFormat::AccessLog,
            by_patterns: false,
            threads: args.threads,
            size: BATCH,
        };
        lines.read(
            reader,
            |_| (),
            |batch| {
                let batch = batch.map_err(CommandError::new)?;
                let events: Vec<_> =
                    batch.into_iter().filter_map(|(_, line)| Some(line.event()?.prepared)).collect();
                count += events.len() as u64;
                pollster::block_on(local.engine().decide(events));
                Ok(())
            },
        )?;
        if count == before {
            return Err(nothing(args));
        }
    }
    let (wall, cpu) = (watch.wall(), watch.cpu());
    Ok(CommandMeasurement::Replay {
        input: input(args, "web.log"),
        threads: args.threads.count(),
        events: count,
        seconds: wall.as_secs_f64(),
        per_second: per_second(count, wall),
        cpu_us_per_event: cpu.as_secs_f64() * 1e6 / count.max(1) as f64,
    })
}

fn open(path: &Path) -> Result<File, CommandError> {
    File::open(path).map_err(|error| CommandError::new(format_args!("{}: {error}", path.display())))
}

fn read(path: &Path) -> Result<String, CommandError> {
    fs::read_to_string(path).map_err(|error| CommandError::new(format_args!("{}: {error}", path.display())))
}

/// Connections at which latency is measured.
const CONNECTIONS: [usize; 2] = [1, 8];

fn http(args: &BenchInputArgs, show: MeasurementSink<'_>) -> Result<(), CommandError> {
    /// Samples that are sent in turn.
    const SAMPLES_MAX: usize = 10_000;
    let mail: Vec<InputMessage> = messages(args).flatten().take(SAMPLES_MAX).collect();
    let web: Vec<&[u8]> = corpora::WEB.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).collect();
    if mail.is_empty() {
        return Err(nothing(args));
    }
    let parent = tempfile::tempdir().map_err(CommandError::new)?;
    let data = parent.path().join("data");
    let presets: Vec<_> = ["mail", "web"].into_iter().filter_map(preset::find).collect();
    Directory::create(&data, &presets)?;
    let server = ServerProcess::start(&data)?;
    let seconds = Duration::from_secs(args.seconds);
    for connections in CONNECTIONS {
        let latencies = server.load(connections, seconds, |client, turn| {
            let message = &mail[turn % mail.len()];
            client.decide_message(Some("mail"), message, message.time(), EnvelopeOption::Headers).map(drop)
        })?;
        show(latencies.measured(input(args, "mail.mbox"), connections))?;
    }
    for connections in CONNECTIONS {
        let latencies = server.load(connections, seconds, |client, turn| {
            client.decide_line("web", web[turn % web.len()]).map(drop)
        })?;
        show(latencies.measured("bundled web.log".to_owned(), connections))?;
    }
    Ok(())
}

/// A server in a process of its own, which ends with this value.
struct ServerProcess {
    child: Child,
    address: String,
}

impl ServerProcess {
    fn start(data: &Path) -> Result<ServerProcess, CommandError> {
        let failed = |error| CommandError::new(format_args!("no server could be started: {error}"));
        let program = std::env::current_exe().map_err(failed)?;
        let mut child = Command::new(program)
            .args(["serve", "--listen", "127.0.0.1:0", "--data"])
            .arg(data)
            .env("RUST_LOG", "error")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(failed)?;
        let stderr = child.stderr.take();
        let mut served = ServerProcess { child, address: String::new() };
        let stderr = stderr.ok_or_else(|| CommandError::new("the server's standard error was not piped"))?;
        let mut lines = BufReader::new(stderr);
        let mut said = String::new();
        while lines.read_line(&mut said).map_err(failed)? > 0 {
            if let Some((_, url)) = said.lines().last().and_then(|line| line.rsplit_once(" http://")) {
                served.address = format!("http://{}", url.trim());
                // What it says later is read away, or it would wait for a reader.
                thread::spawn(move || std::io::copy(&mut lines, &mut std::io::sink()));
                return Ok(served);
            }
        }
        Err(CommandError::new(format_args!("the server did not come up: {}", said.trim())))
    }

    /// Sends one request after the other on each connection until the time is over.
    fn load(
        &self,
        connections: usize,
        seconds: Duration,
        ask: impl Fn(&ApiClient, usize) -> Result<(), CallError> + Sync,
    ) -> Result<RequestLatencies, CommandError> {
        let before = events::cpu(self.child.id()).ok();
        let started = Instant::now();
        let one = |connection: usize| -> Result<Vec<Duration>, CommandError> {
            let client = ApiClient::new(&self.address, None, &TrustOptions::default())?;
            let mut took = Vec::new();
            // Each connection begins elsewhere in the samples.
            for turn in (connection * 37..).take_while(|_| started.elapsed() < seconds) {
                let asked = Instant::now();
                match ask(&client, turn) {
                    Ok(()) => took.push(asked.elapsed()),
                    Err(error) => _ = error.of_event()?,
                }
            }
            Ok(took)
        };
        let took = thread::scope(|scope| {
            let threads: Vec<_> =
                (0..connections).map(|connection| scope.spawn(move || one(connection))).collect();
            let mut all = Vec::new();
            for thread in threads {
                all.extend(
                    thread.join().unwrap_or_else(|_| Err(CommandError::new("a connection has failed")))?,
                );
            }
            Ok::<_, CommandError>(all)
        })?;
        let wall = started.elapsed();
        let after = events::cpu(self.child.id()).ok();
        let server_cpu = before.zip(after).map(|(before, after)| after.saturating_sub(before));
        Ok(RequestLatencies { took, wall, server_cpu })
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        // It may have ended by itself; there is nothing to keep of it.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The time that requests took.
struct RequestLatencies {
    took: Vec<Duration>,
    wall: Duration,
    /// Processor time of the server; `None` where the system does not tell it.
    server_cpu: Option<Duration>,
}

impl RequestLatencies {
    fn measured(mut self, input: String, connections: usize) -> CommandMeasurement {
        self.took.sort_unstable();
        let at = |share: f64| {
            let rank = (self.took.len() as f64 * share) as usize;
            self.took
                .get(rank.min(self.took.len().saturating_sub(1)))
                .map_or(0.0, |took| took.as_secs_f64() * 1e3)
        };
        CommandMeasurement::Http {
            input,
            connections,
            requests: self.took.len() as u64,
            seconds: self.wall.as_secs_f64(),
            per_second: per_second(self.took.len() as u64, self.wall),
            p50_ms: at(0.50),
            p99_ms: at(0.99),
            server_cpu_us_per_decision: self
                .server_cpu
                .map(|cpu| cpu.as_secs_f64() * 1e6 / self.took.len().max(1) as f64),
        }
    }
}
