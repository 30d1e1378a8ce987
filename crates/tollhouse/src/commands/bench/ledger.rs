//! `tollhouse bench ledger`: statistics alone.
//!
//! ```text
//! load      every key once ("new")
//! run       keys drawn from a distribution, so many a call; or 40 a call while others write
//! restart   close, open, ask for every key once in another order than they were written in
//! ```
//!
//! Keys are drawn and requests filled between two calls, so that only the ledger is measured: a thread's time is the sum
//! of its calls.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use event::{Key, Kind, Shingle, Space, Span};
use serde::Serialize;
use stats::random::Random;
use stats::workload::{KeyDistribution, KeySource};
use stats::{
    Addition, AggregateColumn, AggregateLayout, Catalog, CounterAmounts, Durability, EmbeddedLedger, Ledger,
    Measure, Observation, ObserveRequest, Options, Statistic,
};

use crate::clock;
use crate::console::{DIM, Output, Progress, TableCell, TextTable, say};
use crate::exit::{CommandError, Exit};
use crate::interrupt::Interrupt;
use crate::options::JsonOption;

/// Keys of one request, about as many as a message has.
const REQUEST_KEYS: usize = 40;
/// Short segments, so that files are merged within seconds.
const SEGMENT_BYTES: u32 = 32 << 20;
/// The time between two writes of a batch while single requests are measured.
const BESIDE: Duration = Duration::from_millis(10);
const SPACE: Space = Space(1);
const KIND: Kind = Kind(1);

/// Measure the ledger alone: observations a second, latencies, memory and disk a key
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tollhouse bench ledger
  tollhouse bench ledger --keys 100000000 --memory 8192 --layout fixed --workload new,zipf-1.0
  tollhouse bench ledger --workload single --durability none,1s,sync --json
  tollhouse bench ledger --threads 8 --data /mnt/nvme/bench

One line per layout, durability and workload. A layout's keys are always loaded first.")]
pub(crate) struct LedgerBenchArgs {
    /// Distinct keys
    #[arg(long, default_value_t = 1_000_000, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=10_000_000_000))]
    keys: u64,
    /// Time per workload that draws keys; the others go through all keys once
    #[arg(long, default_value_t = 3, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=3600))]
    seconds: u64,
    /// Observations per call, in requests of 40
    #[arg(long, default_value_t = 4096, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    batch: u32,
    /// Parallel threads
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=256))]
    threads: u32,
    /// Memory, in MiB
    #[arg(long, default_value_t = 1024, value_name = "MIB", value_parser = clap::value_parser!(u32).range(1..=4_194_304))]
    memory: u32,
    /// Statistics per key
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [BenchLayout::Fixed, BenchLayout::Windowed])]
    layout: Vec<BenchLayout>,
    /// Distribution of keys
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = Workload::ALL)]
    workload: Vec<Workload>,
    /// Durability of additions: none, an interval, or sync
    #[arg(long, value_delimiter = ',', default_value = "1s", value_name = "DURABILITY")]
    durability: Vec<Durability>,
    /// Empty or missing directory to work in and keep [default: a temporary one]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    #[command(flatten)]
    json: JsonOption,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
enum BenchLayout {
    /// First and last event and their number.
    Fixed,
    /// Six counters over 10m x 144 and 1d x 14, read over 1h, 1d and 14d.
    Windowed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
enum Workload {
    /// No key comes twice.
    New,
    /// Each key as often as any other.
    Uniform,
    /// Zipf's distribution with the exponent 1.0.
    #[value(name = "zipf-1.0")]
    #[serde(rename = "zipf-1.0")]
    Zipf10,
    /// Zipf's distribution with the exponent 1.2.
    #[value(name = "zipf-1.2")]
    #[serde(rename = "zipf-1.2")]
    Zipf12,
    /// One key in half of all observations.
    Hot,
    /// One request of 40 keys a call, while flushes and merges run.
    Single,
    /// After a restart every key is asked for once.
    Restart,
}

impl Workload {
    const ALL: [Workload; 7] = [
        Workload::New,
        Workload::Uniform,
        Workload::Zipf10,
        Workload::Zipf12,
        Workload::Hot,
        Workload::Single,
        Workload::Restart,
    ];

    fn distribution(self, keys: u64) -> KeyDistribution {
        match self {
            Workload::Zipf10 => KeyDistribution::Zipf { keys, exponent: 1.0 },
            Workload::Zipf12 => KeyDistribution::Zipf { keys, exponent: 1.2 },
            Workload::Hot => KeyDistribution::Hot { keys, share: 0.5 },
            Workload::Uniform | Workload::Single => KeyDistribution::Uniform { keys },
            Workload::New | Workload::Restart => KeyDistribution::New,
        }
    }

    fn distributed(self) -> &'static str {
        match self {
            Workload::New | Workload::Restart => "each once",
            Workload::Uniform | Workload::Single => "uniform",
            Workload::Zipf10 => "zipf 1.0",
            Workload::Zipf12 => "zipf 1.2",
            Workload::Hot => "one in half, others uniform",
        }
    }
}

/// A result. `docs/reference/cli.md` documents the members.
#[derive(Serialize)]
struct LedgerMeasurement {
    bench: &'static str,
    workload: Workload,
    layout: BenchLayout,
    keys: u64,
    distribution: &'static str,
    durability: String,
    threads: u32,
    /// Observations of one call.
    batch: usize,
    observes: u64,
    seconds: f64,
    observes_per_s: f64,
    p50_us: f64,
    p99_us: f64,
    p999_us: f64,
    memory_bytes_per_key: f64,
    disk_bytes_per_key: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    open_seconds: Option<f64>,
}

pub(crate) fn run(args: &LedgerBenchArgs) -> Result<Exit, CommandError> {
    let mut out = Output::new(args.json.json);
    let interrupt = Interrupt::watch(None);
    let temporary = match &args.data {
        Some(path) => {
            check_empty(path)?;
            None
        }
        None => Some(tempfile::tempdir().map_err(CommandError::new)?),
    };
    let parent = args.data.as_deref().or(temporary.as_ref().map(tempfile::TempDir::path));
    let parent = parent.unwrap_or(Path::new("."));
    let mut table = TextTable::default();
    let heads = ["observes/s", "p50 µs", "p99 µs", "p99.9 µs", "mem B/key", "disk B/key"];
    let names = ["layout", "durability", "workload"].map(|name| TableCell::text(name, DIM));
    table.row(names.into_iter().chain(heads.map(|head| TableCell::number(head, DIM))));
    for layout in &args.layout {
        for durability in &args.durability {
            let path = parent.join(format!("{layout:?}-{durability}").to_lowercase());
            let mut show = |measured: LedgerMeasurement| -> Result<(), CommandError> {
                if out.is_json() {
                    out.json(&measured)?;
                    return out.flush();
                }
                table.row(measured.row());
                Ok(())
            };
            LedgerBench::open(args, *layout, *durability, &path)?.run(&interrupt, &mut show)?;
            if temporary.is_some() {
                fs::remove_dir_all(&path).map_err(CommandError::new)?;
            }
            if interrupt.raised() {
                return Ok(Exit::Interrupted);
            }
        }
    }
    if !out.is_json() {
        out.line(table)?;
    }
    out.flush()?;
    Ok(Exit::Fine)
}

fn check_empty(path: &Path) -> Result<(), CommandError> {
    match fs::read_dir(path).map(|mut entries| entries.next().is_none()) {
        Ok(false) => Err(CommandError::new(format_args!("{} is not empty", path.display()))
            .help("name a directory that is missing or empty")),
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(CommandError::new(format_args!("{}: {error}", path.display())))
        }
        _ => Ok(()),
    }
}

impl LedgerMeasurement {
    fn row(&self) -> Vec<TableCell> {
        let plain = anstyle::Style::new();
        let workload = serde_json::to_value(self.workload).unwrap_or_default();
        let layout = format!("{:?}", self.layout).to_lowercase();
        let text = |text: &str| TableCell::text(text, plain);
        let number = |value: f64| TableCell::number(format_args!("{value:.1}"), plain);
        vec![
            text(&layout),
            text(&self.durability),
            text(workload.as_str().unwrap_or_default()),
            TableCell::number(indicatif::HumanCount(self.observes_per_s as u64), plain),
            number(self.p50_us),
            number(self.p99_us),
            number(self.p999_us),
            number(self.memory_bytes_per_key),
            number(self.disk_bytes_per_key),
        ]
    }
}

/// One ledger that is measured.
struct LedgerBench<'a> {
    args: &'a LedgerBenchArgs,
    layout: BenchLayout,
    durability: Durability,
    path: PathBuf,
    ledger: EmbeddedLedger,
    add: Addition,
}

fn open(
    args: &LedgerBenchArgs,
    layout: BenchLayout,
    durability: Durability,
    path: &Path,
) -> Result<EmbeddedLedger, CommandError> {
    let measure = match layout {
        BenchLayout::Fixed => {
            let columns = vec![AggregateColumn::First, AggregateColumn::Last, AggregateColumn::Count];
            Measure::Aggregate(AggregateLayout::new(columns, Span::days(30)).map_err(CommandError::new)?)
        }
        BenchLayout::Windowed => {
            let counters = ["seen", "bad", "good", "sent", "spam", "ham"].map(str::to_owned).to_vec();
            let tiers = [
                stats::Tier { width: Span::minutes(10), buckets: 144 },
                stats::Tier { width: Span::days(1), buckets: 14 },
            ];
            let windows = vec![Span::hours(1), Span::days(1), Span::days(14)];
            Measure::Windows(stats::Layout::new(counters, &tiers, windows, None).map_err(CommandError::new)?)
        }
    };
    let statistic = Statistic {
        name: "bench".to_owned(),
        kind_name: "key".to_owned(),
        measure,
        admit: None,
        exact: false,
    };
    let mut catalog = Catalog::builder();
    catalog.add(SPACE, KIND, statistic).map_err(CommandError::new)?;
    let device = disk::FileDevice::open(path).map_err(CommandError::new)?;
    let options =
        Options { memory_bytes: (args.memory as usize) << 20, segment_bytes: SEGMENT_BYTES, durability };
    let (ledger, _) =
        EmbeddedLedger::open(Arc::new(device), catalog.build(), options).map_err(CommandError::new)?;
    Ok(ledger)
}

impl<'a> LedgerBench<'a> {
    fn open(
        args: &'a LedgerBenchArgs,
        layout: BenchLayout,
        durability: Durability,
        path: &Path,
    ) -> Result<LedgerBench<'a>, CommandError> {
        let ledger = open(args, layout, durability, path)?;
        let add = match layout {
            BenchLayout::Fixed => Addition::Value(None),
            BenchLayout::Windowed => Addition::Counters(CounterAmounts::from([(0, 1)])),
        };
        Ok(LedgerBench { args, layout, durability, path: path.to_path_buf(), ledger, add })
    }

    fn run(
        mut self,
        interrupt: &Interrupt,
        show: &mut impl FnMut(LedgerMeasurement) -> Result<(), CommandError>,
    ) -> Result<(), CommandError> {
        let wanted = |workload: &Workload| self.args.workload.contains(workload);
        let wanted: Vec<Workload> = Workload::ALL.into_iter().filter(wanted).collect();
        let loaded = self.once(Workload::New, interrupt)?;
        if wanted.contains(&Workload::New) {
            show(self.measured(Workload::New, loaded, None)?)?;
        }
        for workload in wanted {
            if interrupt.raised() {
                break;
            }
            match workload {
                Workload::New => {}
                Workload::Restart => {
                    self.ledger.close().map_err(CommandError::new)?;
                    let LedgerBench { args, layout, durability, path, ledger, add } = self;
                    drop(ledger);
                    let began = Instant::now();
                    let ledger = open(args, layout, durability, &path)?;
                    let took = began.elapsed().as_secs_f64();
                    self = LedgerBench { args, layout, durability, path, ledger, add };
                    let asked = self.once(workload, interrupt)?;
                    show(self.measured(workload, asked, Some(took))?)?;
                }
                _ => {
                    let drawn = self.drawn(workload, interrupt)?;
                    show(self.measured(workload, drawn, None)?)?;
                }
            }
        }
        self.ledger.close().map_err(CommandError::new)
    }

    /// Goes through all keys once: adds to them in order, or asks for them in another.
    fn once(&self, workload: Workload, interrupt: &Interrupt) -> Result<CallTimes, CommandError> {
        let keys = self.args.keys;
        let batch = u64::from(self.args.batch);
        let stride = if workload == Workload::New { 1 } else { stride(keys) };
        let add = if workload == Workload::New { self.add.clone() } else { Addition::Nothing };
        let next = AtomicU64::new(0);
        let progress = Progress::new("keys", Some(keys));
        self.on_threads(&|_| {
            let mut calls = ThreadCalls::new(&self.ledger, add.clone());
            loop {
                let first = next.fetch_add(batch, Ordering::Relaxed);
                if first >= keys || interrupt.raised() {
                    return Ok(calls.taken);
                }
                let numbers = first..(first + batch).min(keys);
                progress.add(numbers.end - numbers.start);
                let place = |number: u64| (u128::from(number) * u128::from(stride) % u128::from(keys)) as u64;
                calls.call(numbers.map(place))?;
            }
        })
    }

    /// Draws keys until the time is over.
    fn drawn(&self, workload: Workload, interrupt: &Interrupt) -> Result<CallTimes, CommandError> {
        let seconds = Duration::from_secs(self.args.seconds);
        let distribution = workload.distribution(self.args.keys);
        let size = self.batch(workload);
        let progress = Progress::new("observations", None);
        let one = |thread: u64| {
            let (mut keys, mut random) = (KeySource::new(distribution), Random::new(thread));
            let mut calls = ThreadCalls::new(&self.ledger, self.add.clone());
            while calls.taken.time < seconds && !interrupt.raised() {
                calls.call((0..size).map(|_| keys.draw(&mut random)))?;
                progress.add(size as u64);
            }
            Ok(calls.taken)
        };
        if workload != Workload::Single {
            return self.on_threads(&one);
        }
        let done = AtomicBool::new(false);
        thread::scope(|scope| {
            let beside = scope.spawn(|| {
                let (mut keys, mut random) = (KeySource::new(distribution), Random::new(u64::MAX));
                let mut calls = ThreadCalls::new(&self.ledger, self.add.clone());
                while !done.load(Ordering::Relaxed) {
                    calls.call((0..self.args.batch).map(|_| keys.draw(&mut random)))?;
                    thread::sleep(BESIDE);
                }
                Ok::<_, CommandError>(())
            });
            let taken = self.on_threads(&one);
            done.store(true, Ordering::Relaxed);
            joined(beside.join())?;
            taken
        })
    }

    fn batch(&self, workload: Workload) -> usize {
        if workload == Workload::Single { REQUEST_KEYS } else { self.args.batch as usize }
    }

    fn on_threads(
        &self,
        one: &(dyn Fn(u64) -> Result<CallTimes, CommandError> + Sync),
    ) -> Result<CallTimes, CommandError> {
        thread::scope(|scope| {
            let threads: Vec<_> =
                (0..u64::from(self.args.threads)).map(|thread| scope.spawn(move || one(thread))).collect();
            let mut all = CallTimes::default();
            for thread in threads {
                all.add(&joined(thread.join())?);
            }
            Ok(all)
        })
    }

    fn measured(
        &self,
        workload: Workload,
        taken: CallTimes,
        open_seconds: Option<f64>,
    ) -> Result<LedgerMeasurement, CommandError> {
        // What is dirty is written before it is weighed.
        self.ledger.maintain(clock::now()).map_err(CommandError::new)?;
        let census = self.ledger.census();
        if census.poisoned || census.full {
            say("The ledger could not write all: these figures mean nothing.");
        }
        let keys = self.args.keys;
        let per_key = |bytes: u64| bytes as f64 / keys as f64;
        let seconds = taken.time.as_secs_f64() / f64::from(self.args.threads);
        Ok(LedgerMeasurement {
            bench: "ledger",
            workload,
            layout: self.layout,
            keys,
            distribution: workload.distributed(),
            durability: self.durability.to_string(),
            threads: self.args.threads,
            batch: self.batch(workload),
            observes: taken.observes,
            seconds,
            observes_per_s: taken.observes as f64 / seconds.max(1e-9),
            p50_us: taken.latencies.quantile(0.5),
            p99_us: taken.latencies.quantile(0.99),
            p999_us: taken.latencies.quantile(0.999),
            memory_bytes_per_key: per_key(census.memory_bytes),
            disk_bytes_per_key: per_key(census.disk_bytes),
            open_seconds,
        })
    }
}

fn joined<T>(result: thread::Result<Result<T, CommandError>>) -> Result<T, CommandError> {
    result.unwrap_or_else(|_| Err(CommandError::new("a thread of the benchmark has failed")))
}

/// A step that reaches every one of so many numbers, far from the one before.
fn stride(keys: u64) -> u64 {
    let coprime = |step: &u64| {
        let (mut a, mut b) = (*step, keys);
        while b > 0 {
            (a, b) = (b, a % b);
        }
        a == 1
    };
    let golden = (keys as f64 * 0.618) as u64;
    (golden.max(1)..).find(coprime).unwrap_or(1)
}

/// Calls of one thread.
struct ThreadCalls<'a> {
    ledger: &'a EmbeddedLedger,
    add: Addition,
    requests: Vec<ObserveRequest>,
    taken: CallTimes,
}

impl<'a> ThreadCalls<'a> {
    fn new(ledger: &'a EmbeddedLedger, add: Addition) -> ThreadCalls<'a> {
        ThreadCalls { ledger, add, requests: Vec::new(), taken: CallTimes::default() }
    }

    /// Fills the requests of before with these keys, and observes them. Only that is timed.
    fn call(&mut self, mut numbers: impl Iterator<Item = u64>) -> Result<(), CommandError> {
        let time = clock::now();
        let mut observes = 0;
        let mut used = 0;
        let mut next = numbers.next();
        while let Some(first) = next {
            if used == self.requests.len() {
                self.requests.push(ObserveRequest {
                    observations: Vec::with_capacity(REQUEST_KEYS),
                    ..ObserveRequest::default()
                });
            }
            let Some(request) = self.requests.get_mut(used) else { break };
            let mut at = 0;
            let mut number = Some(first);
            while let Some(key) = number {
                // Numbers are mixed as by a hash, and no two become the same.
                let shingle = Shingle(Random::new(key).bits());
                match request.observations.get_mut(at) {
                    Some(observation) => (observation.key.shingle, observation.time) = (shingle, time),
                    None => {
                        let key = Key { space: SPACE, kind: KIND, shingle };
                        request.observations.push(Observation { key, time, add: self.add.clone() });
                    }
                }
                at += 1;
                number = if at < REQUEST_KEYS { numbers.next() } else { None };
            }
            request.observations.truncate(at);
            observes += at as u64;
            used += 1;
            next = numbers.next();
        }
        self.requests.truncate(used);
        let began = Instant::now();
        let outcomes = pollster::block_on(self.ledger.observe(&self.requests)).map_err(CommandError::new)?;
        let sum = outcomes.all().fold(0u64, |sum, view| sum.wrapping_add(view.sum(0, 0)));
        std::hint::black_box(sum);
        let took = began.elapsed();
        self.taken.time += took;
        self.taken.observes += observes;
        self.taken.latencies.push(took);
        Ok(())
    }
}

/// The time that calls took.
#[derive(Default)]
struct CallTimes {
    observes: u64,
    time: Duration,
    latencies: LatencyHistogram,
}

impl CallTimes {
    fn add(&mut self, other: &CallTimes) {
        self.observes += other.observes;
        self.time += other.time;
        self.latencies.add(&other.latencies);
    }
}

/// Counts of nanoseconds, in steps of three percent.
pub(super) struct LatencyHistogram(Vec<u64>);

impl Default for LatencyHistogram {
    fn default() -> LatencyHistogram {
        LatencyHistogram(vec![0; 64 * LatencyHistogram::STEPS])
    }
}

impl LatencyHistogram {
    /// Steps of an octave.
    const STEPS: usize = 32;

    pub(super) fn push(&mut self, took: Duration) {
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX).max(LatencyHistogram::STEPS as u64);
        let octave = nanos.ilog2() as usize;
        let step = (nanos >> (octave - 5)) as usize % LatencyHistogram::STEPS;
        if let Some(count) = self.0.get_mut(octave * LatencyHistogram::STEPS + step) {
            *count += 1;
        }
    }

    fn add(&mut self, other: &LatencyHistogram) {
        self.0.iter_mut().zip(&other.0).for_each(|(sum, count)| *sum += count);
    }

    /// In microseconds; the lower end of the step.
    pub(super) fn quantile(&self, share: f64) -> f64 {
        let all: u64 = self.0.iter().sum();
        let rank = ((all as f64 * share).ceil() as u64).clamp(1, all.max(1));
        let mut seen = 0;
        let at = self.0.iter().position(|count| {
            seen += count;
            seen >= rank
        });
        let (octave, step) =
            at.map_or((0, 0), |at| (at / LatencyHistogram::STEPS, at % LatencyHistogram::STEPS));
        (1u64 << octave) as f64 * (1.0 + step as f64 / LatencyHistogram::STEPS as f64) / 1e3
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_close() {
        let mut latencies = LatencyHistogram::default();
        (1..=1000).for_each(|micros| latencies.push(Duration::from_micros(micros)));
        for (share, expected) in [(0.5, 500.0), (0.99, 990.0), (0.999, 999.0), (1.0, 1000.0)] {
            let found = latencies.quantile(share);
            assert!((found / expected - 1.0).abs() < 0.04, "{share}: {found}");
        }
        assert_eq!(LatencyHistogram::default().quantile(0.5), 0.001);
    }

    #[test]
    fn every_key_is_asked_for_once() {
        for keys in [1u64, 2, 10, 97, 1000] {
            let step = stride(keys);
            let mut seen: Vec<u64> = (0..keys).map(|number| number * step % keys).collect();
            seen.sort_unstable();
            assert_eq!(seen, (0..keys).collect::<Vec<_>>());
        }
    }
}
