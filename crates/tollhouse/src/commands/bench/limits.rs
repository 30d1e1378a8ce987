//! `tollhouse bench limits`: the library's call, and what a key takes.
//!
//! ```text
//! take      keys drawn evenly, so many takes a call, in memory: key, hash, ledger and answer
//! memory    users with so many requests a day, beside a log of all of them and beside Redis hashes
//! ```

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anstyle::Style;
use engine::Engine;
use engine::limit::{LimitKey, Take};
use event::{Span, Time};
use plan::limit::LimitPlan;
use plan::{Config, Overrides, Plan};
use serde::Serialize;
use stats::random::Random;

use super::ledger::LatencyHistogram;
use crate::clock;
use crate::console::{DIM, Output, TableCell, TextTable};
use crate::exit::{CommandError, Exit};
use crate::options::JsonOption;

/// Sub-windows of a window, as is usual.
const WINDOWS: u64 = 60;

/// Measure limits: library calls a second, and memory a key
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tollhouse bench limits
  tollhouse bench limits --mode gcra --batch 1 --keys 1000000 --json
  taskset -c 0 tollhouse bench limits --seconds 10")]
pub(crate) struct LimitsBenchArgs {
    /// Distinct keys
    #[arg(long, default_value_t = 100_000, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000_000))]
    keys: u32,
    /// Time per mode and batch
    #[arg(long, default_value_t = 3, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=3600))]
    seconds: u64,
    /// Takes per call
    #[arg(long, value_delimiter = ',', default_values_t = [1, 64], value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096))]
    batch: Vec<u32>,
    /// Algorithms
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = LimitMode::ALL)]
    mode: Vec<LimitMode>,
    /// Users in the memory example
    #[arg(long, value_delimiter = ',', default_values_t = [10_000, 1_000_000], value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    users: Vec<u32>,
    /// Requests per user and day
    #[arg(long, default_value_t = 500, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    requests: u32,
    #[command(flatten)]
    json: JsonOption,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
enum LimitMode {
    /// A limit over sub-windows, the oldest in full.
    Sliding,
    /// A limit over sub-windows, the oldest by its share.
    Interpolated,
    /// From one minute's start to the next.
    Calendar,
    /// The generic cell rate algorithm.
    Gcra,
}

impl LimitMode {
    const ALL: [LimitMode; 4] =
        [LimitMode::Sliding, LimitMode::Interpolated, LimitMode::Calendar, LimitMode::Gcra];

    fn name(self) -> &'static str {
        match self {
            LimitMode::Sliding => "sliding",
            LimitMode::Interpolated => "interpolated",
            LimitMode::Calendar => "calendar",
            LimitMode::Gcra => "gcra",
        }
    }
}

/// A result. `docs/reference/cli.md` documents the fields.
#[derive(Serialize)]
#[serde(tag = "measures", rename_all = "lowercase")]
enum LimitsMeasurement {
    Take {
        bench: &'static str,
        mode: LimitMode,
        keys: u32,
        threads: u32,
        batch: u32,
        decisions: u64,
        seconds: f64,
        decisions_per_s: f64,
        p50_us: f64,
        p99_us: f64,
    },
    Memory {
        bench: &'static str,
        users: u32,
        requests: u32,
        bytes_per_key: f64,
        directory_bytes_per_key: f64,
        log_bytes_per_key: f64,
        /// Without it there is no `redis-server`.
        #[serde(skip_serializing_if = "Option::is_none")]
        redis_hash_bytes_per_key: Option<f64>,
    },
}

pub(super) fn run(args: &LimitsBenchArgs) -> Result<Exit, CommandError> {
    let mut out = Output::new(args.json.json);
    let mut takes = TextTable::default();
    let heads = ["batch", "decisions/s", "p50 µs", "p99 µs"].map(|head| TableCell::number(head, DIM));
    takes.row([TableCell::text("mode", DIM)].into_iter().chain(heads));
    for mode in &args.mode {
        for batch in &args.batch {
            let measured = take(args, *mode, *batch)?;
            if out.is_json() {
                out.json(&measured)?;
            } else if let LimitsMeasurement::Take { decisions_per_s, p50_us, p99_us, .. } = measured {
                let plain = Style::new();
                takes.row([
                    TableCell::text(mode.name(), plain),
                    TableCell::number(batch, plain),
                    TableCell::number(format_args!("{decisions_per_s:.0}"), plain),
                    TableCell::number(format_args!("{p50_us:.2}"), plain),
                    TableCell::number(format_args!("{p99_us:.2}"), plain),
                ]);
            }
        }
    }
    if !out.is_json() {
        out.line(takes)?;
    }
    for users in &args.users {
        let measured = memory(args, *users)?;
        if out.is_json() {
            out.json(&measured)?;
            continue;
        }
        if let LimitsMeasurement::Memory {
            bytes_per_key, directory_bytes_per_key, log_bytes_per_key, ..
        } = &measured
        {
            out.line(format_args!(
                "{users} users, {} requests a day each: {bytes_per_key:.0} bytes a key (of them \
                 {directory_bytes_per_key:.0} of the directory), a log of 8 bytes a request {log_bytes_per_key:.0}",
                args.requests
            ))?;
        }
        if let LimitsMeasurement::Memory { redis_hash_bytes_per_key: Some(bytes), .. } = &measured {
            out.line(format_args!("a Redis hash of {WINDOWS} counters {bytes:.0}"))?;
        }
    }
    out.flush()?;
    Ok(Exit::Fine)
}

fn opened(mode: LimitMode, count: u64, per: &str) -> Result<(Engine, LimitPlan), CommandError> {
    let per = if mode == LimitMode::Calendar { "minute" } else { per };
    let text = format!(
        "[[limit]]\nname = \"bench\"\nkey = [\"user\"]\ncount = {count}\nper = \"{per}\"\nmode = \"{}\"\n",
        mode.name()
    );
    let plan = Plan::compile(&Config::from_text("bench", &text, &Overrides::default()));
    let engine = Engine::ephemeral(plan.map_err(CommandError::new)?).map_err(CommandError::new)?;
    let limit = engine.plan().limit("bench").map(|limit| LimitPlan::clone(limit));
    Ok((engine, limit.ok_or_else(|| CommandError::new("the limit is not there"))?))
}

fn take(args: &LimitsBenchArgs, mode: LimitMode, batch: u32) -> Result<LimitsMeasurement, CommandError> {
    let (engine, limit) = opened(mode, 100, "1m")?;
    let mut random = Random::new(7);
    let mut latencies = LatencyHistogram::default();
    let (mut decisions, mut spent) = (0u64, Duration::ZERO);
    let mut names: Vec<String> = Vec::new();
    while spent < Duration::from_secs(args.seconds) {
        names.clear();
        names.extend((0..batch).map(|_| format!("user-{}", random.below(u64::from(args.keys)))));
        let began = Instant::now();
        let now = clock::now();
        let takes: Vec<Take<'_>> = names
            .iter()
            .map(|name| Take { limit: &limit, key: engine.limit_key(&limit, &[name]), cost: 1 })
            .collect();
        let taken = pollster::block_on(engine.take_each(&takes, now));
        let took = began.elapsed();
        std::hint::black_box(&taken);
        latencies.push(took);
        spent += took;
        decisions += u64::from(batch);
    }
    Ok(LimitsMeasurement::Take {
        bench: "limits",
        mode,
        keys: args.keys,
        threads: 1,
        batch,
        decisions,
        seconds: spent.as_secs_f64(),
        decisions_per_s: decisions as f64 / spent.as_secs_f64().max(1e-9),
        p50_us: latencies.quantile(0.5),
        p99_us: latencies.quantile(0.99),
    })
}

/// The published example: users whose requests are spread over a day, by sub-windows of 24 minutes.
fn memory(args: &LimitsBenchArgs, users: u32) -> Result<LimitsMeasurement, CommandError> {
    let (engine, limit) = opened(LimitMode::Sliding, u64::from(args.requests), "1d")?;
    let keys: Vec<LimitKey> =
        (0..users).map(|user| engine.limit_key(&limit, &[&format!("user-{user}")])).collect();
    let (start, day) = (Time::from_seconds(1_800_000_000), Span::days(1));
    // One take a sub-window stands for all of its requests: a cell does not know how many there were.
    let cost = u64::from(args.requests).div_ceil(WINDOWS);
    for window in 0..WINDOWS as i64 {
        let now = start + Span(day.0 / WINDOWS as i64 * window);
        for keys in keys.chunks(512) {
            let takes: Vec<Take<'_>> =
                keys.iter().map(|key| Take { limit: &limit, key: *key, cost }).collect();
            pollster::block_on(engine.take_each(&takes, now));
        }
    }
    let census = engine.census();
    let per_key = |bytes: u64| bytes as f64 / f64::from(users);
    Ok(LimitsMeasurement::Memory {
        bench: "limits",
        users,
        requests: args.requests,
        bytes_per_key: per_key(census.memory_bytes),
        directory_bytes_per_key: per_key(census.directory_bytes),
        log_bytes_per_key: f64::from(args.requests) * 8.0,
        redis_hash_bytes_per_key: redis(args, users).map(per_key),
    })
}

/// A Redis of its own; killed when it is dropped.
struct RedisProcess(Child);

impl Drop for RedisProcess {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Memory that Redis takes for a hash of counters a user; `None` where it cannot be had, or would take long.
fn redis(args: &LimitsBenchArgs, users: u32) -> Option<u64> {
    const USERS_MAX: u32 = 100_000;
    if users > USERS_MAX {
        return None;
    }
    let port = TcpListener::bind("127.0.0.1:0").ok()?.local_addr().ok()?.port().to_string();
    let child = Command::new("redis-server")
        .args(["--port", &port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let _redis = RedisProcess(child.ok()?);
    let mut stream = (0..100).find_map(|_| {
        thread::sleep(Duration::from_millis(50));
        TcpStream::connect(format!("127.0.0.1:{port}")).ok()
    })?;
    stream.set_read_timeout(Some(Duration::from_secs(30))).ok()?;
    let before = used(&mut stream)?;
    let each = u64::from(args.requests).div_ceil(WINDOWS);
    let mut replies = [0; 1 << 16];
    for user in 0..users {
        let key = format!("limits:user-{user}");
        let mut commands = String::new();
        for window in 0..WINDOWS {
            let (field, count) = ((1_250_000 + window).to_string(), each.to_string());
            commands += &format!(
                "*4\r\n$7\r\nHINCRBY\r\n${}\r\n{key}\r\n${}\r\n{field}\r\n${}\r\n{count}\r\n",
                key.len(),
                field.len(),
                count.len()
            );
        }
        stream.write_all(commands.as_bytes()).ok()?;
        let mut lines = 0;
        while lines < WINDOWS {
            let read = stream.read(&mut replies).ok().filter(|read| *read > 0)?;
            lines += replies.get(..read)?.iter().filter(|byte| **byte == b'\n').count() as u64;
        }
    }
    used(&mut stream)?.checked_sub(before)
}

/// `used_memory` of `INFO memory`.
fn used(stream: &mut TcpStream) -> Option<u64> {
    stream.write_all(b"*2\r\n$4\r\nINFO\r\n$6\r\nmemory\r\n").ok()?;
    let mut text = Vec::new();
    let mut piece = [0; 4096];
    loop {
        let read = stream.read(&mut piece).ok().filter(|read| *read > 0)?;
        text.extend_from_slice(piece.get(..read)?);
        let page = String::from_utf8_lossy(&text);
        let length = page.strip_prefix('$').and_then(|page| page.split("\r\n").next()?.parse::<usize>().ok());
        if length.is_some_and(|length| text.len() > length) {
            let line = page.lines().find_map(|line| line.strip_prefix("used_memory:"));
            return line?.trim().parse().ok();
        }
    }
}
