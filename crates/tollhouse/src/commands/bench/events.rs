//! `tollhouse bench events`: batches of events in columns, over HTTP, to a server in a process of its own.
//!
//! ```text
//! load      every key once, twelve an event
//! run       events whose keys are drawn from a distribution, made before the clock starts
//! settle    what is dirty is written, and the journal made into columns, so that the server's processor time has it, too
//! ```
//!
//! With a file of events and the preset or configuration that they are for, the events are those, as lines of JSON, and nothing is
//! loaded before: what an application's own events cost.
//!
//! The processor time is the server's, as the system counts it, and not the client's, which is on the same machine.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use engine::Directory;
use plan::preset::Preset;
use plan::{BuildFeature, Config, Overrides, Plan};
use serde::Serialize;
use server::api::BatchError;
use stats::random::Random;
use stats::workload::{KeyDistribution, KeySource};
use ureq::Agent;

#[cfg(feature = "arrow")]
use super::columns::encode;
use super::drawn_keys::{ADDRESS, KEYS, TEXTS};
use super::{ServerProcess, judge};
use crate::console::{DIM, Output, Progress};
use crate::exit::{CommandError, Exit};
use crate::features;
use crate::interrupt::Interrupt;
use crate::options::{JsonOption, preset_named};
use crate::tally::per_second;

/// Linux tells processes' times in units of a hundredth of a second on every architecture but Alpha and Itanium.
const TICKS_PER_SECOND: u64 = 100;
/// A flush begins a second after the one before it.
const FLUSHED: Duration = Duration::from_millis(1500);
/// The longest wait for the server to come to rest.
const LONGEST: Duration = Duration::from_secs(60);
/// Rules of a decision.
const RULES: usize = 30;

/// Measure column batches of events, by a server process with its data on disk
///
/// Each event has twelve keys of a fixed layout, first and last time and count; with FILE they are the file's, sent as they stand there
/// and again until there were enough.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tollhouse bench events --json
  tollhouse bench events --keys 100000000 --memory 8192 --distribution uniform
  tollhouse bench events --decide             30 rules and a model of 200 trees on each event
  tollhouse bench events --decide --preset comments comments.ndjson")]
pub(super) struct EventsBenchArgs {
    /// Events instead of made-up ones, one JSON object a line
    #[arg(value_name = "FILE", requires_all = ["settings", "decide"], conflicts_with_all = ["keys", "memory", "distribution"])]
    file: Option<PathBuf>,
    /// Preset for the events of FILE
    #[arg(long, value_name = "NAME", group = "settings", requires = "file", value_parser = preset_named)]
    preset: Option<&'static Preset>,
    /// Configuration for the events of FILE
    #[arg(long, value_name = "FILE", group = "settings", requires = "file")]
    config: Option<PathBuf>,
    /// Distinct keys
    #[arg(long, default_value_t = 10_000_000, value_name = "N", value_parser = clap::value_parser!(u64).range(12..=1_000_000_000))]
    keys: u64,
    /// Events to measure
    #[arg(long, default_value_t = 1_000_000, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    events: u64,
    /// Events of a batch
    #[arg(long, default_value_t = 5_000, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    batch: u32,
    /// Parallel connections
    #[arg(long, default_value_t = 2, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=64))]
    connections: u32,
    /// Memory of the server's ledger, in MiB
    #[arg(long, default_value_t = 2048, value_name = "MIB", value_parser = clap::value_parser!(u32).range(64..=4_194_304))]
    memory: u32,
    /// Distribution of keys
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [BenchDistribution::Zipf, BenchDistribution::Uniform])]
    distribution: Vec<BenchDistribution>,
    /// Decide on and log each event; made-up ones with 30 rules and a model of 200 trees
    #[arg(long)]
    decide: bool,
    #[command(flatten)]
    json: JsonOption,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
enum BenchDistribution {
    /// Zipf's distribution with the exponent 1.0.
    Zipf,
    /// Each key as often as any other.
    Uniform,
}

/// A result. `docs/reference/cli.md` documents the members.
#[derive(Serialize)]
struct EventsMeasurement {
    bench: &'static str,
    asked: &'static str,
    input: String,
    #[serde(flatten)]
    made_up: Option<MadeUpEvents>,
    distinct_keys: u64,
    batch: u32,
    connections: u32,
    events: u64,
    seconds: f64,
    events_per_s: f64,
    server_cpu_s_per_million_events: f64,
    batch_p50_ms: f64,
    batch_p99_ms: f64,
    memory_bytes_per_key: f64,
    disk_bytes_per_key: f64,
}

/// The properties of events that were made up.
#[derive(Serialize)]
struct MadeUpEvents {
    distribution: BenchDistribution,
    keys_per_event: usize,
    durability: &'static str,
    server_cpu_s_per_million_events_loading: f64,
}

pub(super) fn run(args: &EventsBenchArgs) -> Result<Exit, CommandError> {
    let mut out = Output::new(args.json.json);
    let interrupt = Interrupt::watch(None);
    let of_file = args.file.as_deref().map(BenchInput::File);
    let made_up = args.distribution.iter().map(|drawn| BenchInput::MadeUp(*drawn));
    let inputs: Vec<BenchInput<'_>> = of_file.map_or_else(|| made_up.collect(), |file| vec![file]);
    for input in inputs {
        let measured = match input {
            BenchInput::File(file) => measure_file(args, file, &interrupt)?,
            BenchInput::MadeUp(drawn) => measure_made_up(args, drawn, &interrupt)?,
        };
        if interrupt.raised() {
            return Ok(Exit::Interrupted);
        }
        if out.is_json() {
            out.json(&measured)?;
            out.flush()?;
            continue;
        }
        let fields = serde_json::to_value(&measured).map_err(CommandError::new)?;
        for (name, value) in fields.as_object().into_iter().flatten() {
            let value = match value {
                serde_json::Value::String(text) => text.clone(),
                value if value.is_f64() => format!("{:.3}", value.as_f64().unwrap_or_default()),
                value => value.to_string(),
            };
            out.line(format_args!("{DIM}{name:<40}{DIM:#} {value}"))?;
        }
        out.line("")?;
    }
    out.flush()?;
    Ok(Exit::Fine)
}

/// The source of the events that are sent.
enum BenchInput<'a> {
    File(&'a Path),
    MadeUp(BenchDistribution),
}

fn measure_made_up(
    args: &EventsBenchArgs,
    drawn: BenchDistribution,
    interrupt: &Interrupt,
) -> Result<EventsMeasurement, CommandError> {
    features::require(BuildFeature::Arrow)?;
    let parent = tempfile::tempdir().map_err(CommandError::new)?;
    let data = parent.path().join("data");
    configure(args, &data)?;
    let server = ServerProcess::start(&data)?;
    let pid = server.child.id();
    // Of each kind one key an event.
    let of_a_kind = args.keys / KEYS as u64;
    let started = cpu(pid)?;
    let next = AtomicUsize::new(0);
    let batches = of_a_kind.div_ceil(u64::from(args.batch));
    let progress = Progress::new("events", Some(of_a_kind));
    let route = BatchRoute { path: "/v1/batch/observe", media_type: server::ARROW_MEDIA_TYPE };
    send(args, &server, interrupt, &route, &|_| {
        let first = next.fetch_add(1, Ordering::Relaxed) as u64;
        (first < batches).then(|| {
            let numbers = first * u64::from(args.batch)..((first + 1) * u64::from(args.batch)).min(of_a_kind);
            progress.add(numbers.end - numbers.start);
            let rows: Vec<[u64; KEYS]> = numbers.map(|number| [number; KEYS]).collect();
            encode(&rows)
        })
    })?;
    drop(progress);
    settle(&server)?;
    let loaded = cpu(pid)?;
    let made = batches_of(args, drawn, of_a_kind)?;
    let path = if args.decide { "/v1/batch/decide" } else { "/v1/batch/observe" };
    let route = BatchRoute { path, media_type: server::ARROW_MEDIA_TYPE };
    let measured = measure(args, &server, interrupt, &route, (&made, made.len()))?;
    let made_up = MadeUpEvents {
        distribution: drawn,
        keys_per_event: KEYS,
        durability: "1s",
        server_cpu_s_per_million_events_loading: loaded.saturating_sub(started).as_secs_f64() * 1e6
            / of_a_kind.max(1) as f64,
    };
    Ok(EventsMeasurement { made_up: Some(made_up), ..measured })
}

fn measure_file(
    args: &EventsBenchArgs,
    file: &Path,
    interrupt: &Interrupt,
) -> Result<EventsMeasurement, CommandError> {
    let text = super::read(file)?;
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    if lines.is_empty() {
        return Err(CommandError::new(format_args!("{}: no event in it", file.display())));
    }
    let batches = lines.chunks(args.batch as usize);
    let made: EncodedBatches =
        batches.map(|lines| (lines.len(), Arc::new(lines.join("\n").into_bytes()))).collect();
    let parent = tempfile::tempdir().map_err(CommandError::new)?;
    let data = parent.path().join("data");
    let directory = Directory::create(&data, args.preset.as_slice())?;
    if let Some(config) = &args.config {
        fs::write(directory.config_path(), super::read(config)?).map_err(CommandError::new)?;
    }
    let server = ServerProcess::start(&data)?;
    let route = BatchRoute { path: "/v1/decide/batch", media_type: LINES };
    let (events, mut sent, mut batches) = (args.events, 0, 0);
    while sent < events {
        sent += made[batches % made.len()].0 as u64;
        batches += 1;
    }
    let measured = measure(args, &server, interrupt, &route, (&made, batches))?;
    Ok(EventsMeasurement { input: file.display().to_string(), ..measured })
}

/// Sends so many batches, from the first again where there are not as many, and waits until all that they left is written.
fn measure(
    args: &EventsBenchArgs,
    server: &ServerProcess,
    interrupt: &Interrupt,
    route: &BatchRoute,
    (made, count): (&EncodedBatches, usize),
) -> Result<EventsMeasurement, CommandError> {
    let next = AtomicUsize::new(0);
    let pid = server.child.id();
    let before = cpu(pid)?;
    let watch = Instant::now();
    let progress = Progress::new("batches", Some(count as u64));
    let mut took = send(args, server, interrupt, route, &|_| {
        let number = next.fetch_add(1, Ordering::Relaxed);
        progress.add(1);
        (number < count).then(|| Ok(Arc::clone(&made[number % made.len()].1)))
    })?;
    drop(progress);
    let wall = watch.elapsed();
    settle(server)?;
    let spent = cpu(pid)?.saturating_sub(before);
    let events: u64 = (0..took.len()).map(|number| made[number % made.len()].0 as u64).sum();
    took.sort_unstable();
    let at = |share: f64| {
        let rank = (took.len() as f64 * share) as usize;
        took.get(rank.min(took.len().saturating_sub(1))).map_or(0.0, |took| took.as_secs_f64() * 1e3)
    };
    let keys = metric(server, "tollhouse_ledger_keys")?;
    let per_key = |bytes: f64| bytes / keys.max(1.0);
    Ok(EventsMeasurement {
        bench: "events",
        asked: if args.decide { "decide" } else { "observe" },
        input: "made up".to_owned(),
        made_up: None,
        distinct_keys: keys as u64,
        batch: args.batch,
        connections: args.connections,
        events,
        seconds: wall.as_secs_f64(),
        events_per_s: per_second(events, wall),
        server_cpu_s_per_million_events: spent.as_secs_f64() * 1e6 / events.max(1) as f64,
        batch_p50_ms: at(0.50),
        batch_p99_ms: at(0.99),
        memory_bytes_per_key: per_key(memory_at_rest(server)?),
        disk_bytes_per_key: per_key(metric(server, "tollhouse_ledger_disk_bytes")?),
    })
}

/// A data directory with twelve kinds and, for decisions, rules and a model.
fn configure(args: &EventsBenchArgs, data: &Path) -> Result<(), CommandError> {
    let directory = Directory::create(data, &[])?;
    let mut text = String::from("name = \"events\"\nspace = 9\ninput = \"json\"\n");
    let names: Vec<String> = (0..KEYS).map(|at| format!("k{at}")).collect();
    for (at, name) in names.iter().enumerate() {
        let kind = match at {
            ADDRESS => "ip",
            at if TEXTS.contains(&at) => "string",
            _ => "integer",
        };
        text += &format!("[[field]]\nname = \"{name}\"\ntype = \"{kind}\"\n");
        text += &format!("[[kind]]\nname = \"{name}\"\nof = \"{name}\"\n");
    }
    text += &format!(
        "[[statistic]]\nname = \"fixed\"\nkeys = {names:?}\naggregate = [\"first\", \"last\", \"count\"]\nkeep = \"30d\"\n"
    );
    text += &format!("[ledger]\nmemory = \"{}MiB\"\ndurability = \"1s\"\n", args.memory);
    if args.decide {
        for rule in 0..RULES {
            let (one, other) = (rule % KEYS, (rule + 5) % KEYS);
            text += &format!(
                "[[rule]]\nname = \"R{rule}\"\nscore = 0.1\nwhen = \"k{one}.count() > {0} && k{other}.count() > {0} && \
                 k{one}.last_age() < duration('1h')\"\n",
                1000 * (rule + 1),
            );
        }
        text += "[[band]]\nat = 100.0\naction = \"review_after\"\n";
    }
    let path = directory.config_path();
    fs::write(&path, &text).map_err(CommandError::new)?;
    if !args.decide {
        return Ok(());
    }
    let config = Config::load(&path, &Overrides::default());
    let plan = Plan::compile(&config).map_err(CommandError::new)?;
    let features = plan.pipelines.iter().flat_map(|pipeline| {
        let count = |column: &&event::Column| column.name.ends_with(".count()");
        pipeline.schema.columns().iter().filter(count).map(|column| {
            let borders = (0..32).map(|at| at as f32 * 7.0 + 0.5).collect();
            (column.name.clone(), borders)
        })
    });
    let model = judge::made_up_file(features.collect())?;
    fs::write(data.join("made-up.json"), model).map_err(CommandError::new)?;
    text += "[[model]]\nname = \"made_up\"\nfile = \"made-up.json\"\n";
    text += "[[rule]]\nname = \"MODEL\"\nscore = 1.0\nwhen = \"model('made_up') > 0.9\"\n";
    fs::write(&path, text).map_err(CommandError::new)
}

/// Batches, each with its number of events.
type EncodedBatches = Vec<(usize, Arc<Vec<u8>>)>;

fn batches_of(
    args: &EventsBenchArgs,
    drawn: BenchDistribution,
    of_a_kind: u64,
) -> Result<EncodedBatches, CommandError> {
    let distribution = match drawn {
        BenchDistribution::Zipf => KeyDistribution::Zipf { keys: of_a_kind, exponent: 1.0 },
        BenchDistribution::Uniform => KeyDistribution::Uniform { keys: of_a_kind },
    };
    let (mut keys, mut random) = (KeySource::new(distribution), Random::new(12));
    let progress = Progress::new("events are made", Some(args.events));
    let (mut made, mut left) = (Vec::new(), args.events);
    while left > 0 {
        let rows = left.min(u64::from(args.batch));
        let drawn: Vec<[u64; KEYS]> =
            (0..rows).map(|_| std::array::from_fn(|_| keys.draw(&mut random))).collect();
        made.push((drawn.len(), encode(&drawn)?));
        progress.add(rows);
        left -= rows;
    }
    Ok(made)
}

#[cfg(not(feature = "arrow"))]
fn encode(_: &[[u64; KEYS]]) -> Result<Arc<Vec<u8>>, CommandError> {
    Err(plan::MissingFeature(plan::BuildFeature::Arrow).into())
}

/// The media type of events that are a line each.
const LINES: &str = "application/x-ndjson";
/// Characters of an event that an error shows.
const SHOWN: usize = 120;

/// The route to which batches are sent, and their media type.
struct BatchRoute {
    path: &'static str,
    media_type: &'static str,
}

/// The source of what a connection sends next.
type NextBatch<'a> = &'a (dyn Fn(u32) -> Option<Result<Arc<Vec<u8>>, CommandError>> + Sync);

/// Sends batches on all connections until there are none; answers what each took.
fn send(
    args: &EventsBenchArgs,
    server: &ServerProcess,
    interrupt: &Interrupt,
    route: &BatchRoute,
    next: NextBatch<'_>,
) -> Result<Vec<Duration>, CommandError> {
    let url = format!("{}{}", server.address, route.path);
    let one = |connection: u32| -> Result<Vec<Duration>, CommandError> {
        let agent = agent();
        let mut took = Vec::new();
        while !interrupt.raised() {
            let Some(body) = next(connection) else { break };
            let body = body?;
            let started = Instant::now();
            let mut answer = agent
                .post(&url)
                .header("content-type", route.media_type)
                .send(body.as_slice())
                .map_err(CommandError::new)?;
            let read =
                answer.body_mut().with_config().limit(u64::MAX).read_to_vec().map_err(CommandError::new)?;
            if !answer.status().is_success() {
                return Err(CommandError::new(String::from_utf8_lossy(&read)));
            }
            took.push(started.elapsed());
            if route.media_type == LINES {
                refuse_errors(&body, &read)?;
            }
        }
        Ok(took)
    };
    thread::scope(|scope| {
        let threads: Vec<_> =
            (0..args.connections).map(|connection| scope.spawn(move || one(connection))).collect();
        let mut all = Vec::new();
        for thread in threads {
            all.extend(thread.join().unwrap_or_else(|_| Err(CommandError::new("a connection has failed")))?);
        }
        Ok(all)
    })
}

/// Refuses a batch of which a line was not decided: a benchmark of errors would look like a fast one of events.
fn refuse_errors(sent: &[u8], answered: &[u8]) -> Result<(), CommandError> {
    // A decision begins with its id.
    let wrong = answered.split(|byte| *byte == b'\n').enumerate().find_map(|(number, line)| {
        let line: BatchError =
            line.starts_with(b"{\"line\":").then(|| serde_json::from_slice(line).ok())??;
        Some((number, line.error))
    });
    let Some((number, problem)) = wrong else { return Ok(()) };
    let event = sent.split(|byte| *byte == b'\n').nth(number).unwrap_or_default();
    let shown: String = String::from_utf8_lossy(event).chars().take(SHOWN).collect();
    Err(CommandError::new(format_args!(
        "this line was not decided: {shown}\n  {}: {}",
        problem.title, problem.detail
    )))
}

fn agent() -> Agent {
    let config = Agent::config_builder().http_status_as_error(false).proxy(None).build();
    config.new_agent()
}

/// Waits until what was counted is written, and what is closed of the journal has become columns.
fn settle(server: &ServerProcess) -> Result<(), CommandError> {
    let started = Instant::now();
    thread::sleep(FLUSHED);
    let is_busy = || -> Result<bool, CommandError> {
        let rows =
            metric(server, "tollhouse_journal_segments")? - metric(server, "tollhouse_journal_columnar")?;
        // The newest segment stays one of rows.
        Ok(rows > 1.0 || metric(server, "tollhouse_ledger_dirty_bytes")? > 0.0)
    };
    while is_busy()? && started.elapsed() < LONGEST {
        thread::sleep(Duration::from_millis(100));
    }
    Ok(())
}

/// The ledger's memory once flushes have given back what they needed for the last events.
fn memory_at_rest(server: &ServerProcess) -> Result<f64, CommandError> {
    let started = Instant::now();
    let mut before = f64::INFINITY;
    loop {
        let now = metric(server, "tollhouse_ledger_memory_bytes")?;
        if now >= before || started.elapsed() > LONGEST {
            return Ok(now);
        }
        before = now;
        thread::sleep(FLUSHED);
    }
}

fn metric(server: &ServerProcess, name: &str) -> Result<f64, CommandError> {
    let mut answer = agent().get(format!("{}/metrics", server.address)).call().map_err(CommandError::new)?;
    let page = answer.body_mut().read_to_string().map_err(CommandError::new)?;
    let value = page.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
    value.ok_or_else(|| CommandError::new(format_args!("the server does not tell {name}")))
}

/// Processor time of a process and all of its threads, from `/proc/PID/stat`: fields 14 and 15, in ticks.
pub(super) fn cpu(pid: u32) -> Result<Duration, CommandError> {
    let path = format!("/proc/{pid}/stat");
    let text = fs::read_to_string(&path).map_err(|error| {
        CommandError::new(format_args!("{path}: {error}"))
            .help("this needs Linux: processor time is read there")
    })?;
    // The second field is the program's name in parentheses, which may have blanks.
    let fields: Vec<&str> =
        text.rsplit_once(')').map(|(_, rest)| rest.split_whitespace().collect()).unwrap_or_default();
    let ticks: u64 = [11, 12].into_iter().filter_map(|at| fields.get(at)?.parse::<u64>().ok()).sum();
    Ok(Duration::from_millis(ticks * 1000 / TICKS_PER_SECOND))
}

#[cfg(all(test, feature = "arrow"))]
mod tests {
    use super::*;

    #[test]
    fn batches_have_as_many_events_as_are_asked_for() {
        let args = EventsBenchArgs {
            file: None,
            preset: None,
            config: None,
            keys: 1200,
            events: 25,
            batch: 10,
            connections: 1,
            memory: 64,
            distribution: Vec::new(),
            decide: false,
            json: JsonOption { json: false },
        };
        let made = batches_of(&args, BenchDistribution::Zipf, 100).unwrap();
        assert_eq!(made.iter().map(|(rows, _)| *rows).collect::<Vec<_>>(), [10, 10, 5]);
        let limits = server::arrow::ArrowLimits { rows_max: 10 };
        let read = server::arrow::read(made[2].1.to_vec().into(), limits).unwrap();
        assert_eq!((read[0].num_rows(), read[0].num_columns()), (5, KEYS));
    }
}
