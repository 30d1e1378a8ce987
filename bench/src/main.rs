//! Tollhouse's ledger beside its peers, on one workload. README.md says what is measured and what is not.

mod cell;
mod check;
mod engine;
mod measure;
mod peers;
mod process;
mod report;
mod workload;

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};

use clap::{Parser, Subcommand, ValueEnum};
use engine::{Error, Peer};
use measure::{Run, Spec};
use workload::{Random, Spread, Statistic, Workload};

/// The server's allocator; the Rust peers get it, too.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Measure Tollhouse's ledger beside its peers, on one workload.
#[derive(Parser)]
#[command(after_help = "\
Examples:
  tollhouse-bench                                      All of it, which takes hours
  tollhouse-bench --group servers --rounds 1           Beside Redis and Tarantool
  tollhouse-bench --group embedded --keys 1000000 --statistic fixed --spread zipf --seconds 5
  tollhouse-bench --peer tollhouse --peer redis-script --group servers --events 1    Latency of a single message")]
struct Arguments {
    #[command(subcommand)]
    command: Option<Internal>,
    /// The comparison; both if none is named
    #[arg(long)]
    group: Vec<Group>,
    /// The statistic; both if none is named
    #[arg(long)]
    statistic: Vec<Statistic>,
    /// The distribution of keys; both if none is named
    #[arg(long)]
    spread: Vec<Spread>,
    /// The engines; all of the group if none is named
    #[arg(long)]
    peer: Vec<Peer>,
    /// Distinct keys [servers: 1000000, embedded: 10000000]
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    keys: Option<u64>,
    /// Events given to the engine at once [servers: 32, embedded: 5000]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    events: Option<u32>,
    /// Keys of an event [servers: 40, embedded: 12]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=2000))]
    event_keys: Option<u32>,
    /// Length of the timed phase
    #[arg(long, default_value_t = 10.0)]
    seconds: f64,
    /// Times that everything is run; medians are shown
    #[arg(long, default_value_t = 3)]
    rounds: u32,
    /// Memory that each engine may use, in MiB [256 and 512 bytes for each key]
    #[arg(long)]
    memory: Option<u64>,
    /// The seed of the keys, their order and the order of the engines [a random number]
    #[arg(long)]
    seed: Option<u64>,
    /// Directory for the engines' data [the system's for temporary files]
    #[arg(long)]
    data: Option<PathBuf>,
    /// One JSON object for each run instead of tables
    #[arg(long)]
    json: bool,
}

#[derive(Subcommand)]
enum Internal {
    /// One run of one engine, for the program itself.
    #[command(hide = true)]
    Run { spec: String },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Group {
    /// Beside servers: messages of 40 keys.
    Servers,
    /// Beside embedded stores: batches of 60,000 keys.
    Embedded,
}

impl Group {
    fn peers(self) -> &'static [Peer] {
        match self {
            Group::Servers => &[Peer::Tollhouse, Peer::RedisCommands, Peer::RedisScript, Peer::Tarantool],
            Group::Embedded => {
                &[Peer::Tollhouse, Peer::RocksdbMerge, Peer::RocksdbPut, Peer::Fjall, Peer::Redb]
            }
        }
    }
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let done = match &arguments.command {
        Some(Internal::Run { spec }) => one(spec),
        None => compare(&arguments),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// In the process of one run.
fn one(spec: &str) -> Result<(), Error> {
    let run = measure::run(&serde_json::from_str(spec)?)?;
    println!("{}", serde_json::to_string(&run)?);
    Ok(())
}

fn compare(arguments: &Arguments) -> Result<(), Error> {
    if cfg!(debug_assertions) {
        eprintln!("This is a debug build: its figures mean nothing.");
    }
    let all =
        |named: &[Group]| if named.is_empty() { Group::value_variants().to_vec() } else { named.to_vec() };
    let seed = arguments.seed.unwrap_or_else(|| RandomState::new().hash_one(0));
    let mut failed = false;
    for group in all(&arguments.group) {
        let peers = available(group, &arguments.peer);
        if peers.is_empty() {
            continue;
        }
        for statistic in some(&arguments.statistic) {
            for spread in some(&arguments.spread) {
                failed |= !scenario(arguments, group, &peers, statistic, spread, seed)?;
            }
        }
    }
    if failed { Err("some runs failed".into()) } else { Ok(()) }
}

/// All values, if none is named.
fn some<T: ValueEnum + Clone>(named: &[T]) -> Vec<T> {
    if named.is_empty() { T::value_variants().to_vec() } else { named.to_vec() }
}

/// The engines of a group that can be measured; says of the others why not.
fn available(group: Group, named: &[Peer]) -> Vec<Peer> {
    let wanted = group.peers().iter().filter(|peer| named.is_empty() || named.contains(peer));
    wanted
        .copied()
        .filter(|peer| {
            let version = peer.version();
            if let Err(why) = &version {
                eprintln!("skipped: {}: {why}", peer.name());
            }
            version.is_ok()
        })
        .collect()
}

/// Runs every engine in every round and prints what came of it; false if a run failed.
fn scenario(
    arguments: &Arguments,
    group: Group,
    peers: &[Peer],
    statistic: Statistic,
    spread: Spread,
    seed: u64,
) -> Result<bool, Error> {
    let (keys, events, event_keys) = match group {
        Group::Servers => (1_000_000, 32, 40),
        Group::Embedded => (10_000_000, 5000, 12),
    };
    let workload = Workload {
        statistic,
        spread,
        keys: arguments.keys.unwrap_or(keys),
        events: arguments.events.unwrap_or(events) as usize,
        event_keys: arguments.event_keys.unwrap_or(event_keys) as usize,
        seed,
    };
    let memory_bytes = match arguments.memory {
        Some(mebibytes) => mebibytes << 20,
        None => (256 << 20) + workload.keys * 512,
    };
    if !arguments.json {
        println!(
            "\n{statistic:?}, {spread:?}, {} keys, {} events of {} keys at once, {} s, seed {seed}",
            workload.keys, workload.events, workload.event_keys, arguments.seconds
        );
    }
    let mut random = Random(seed);
    let (mut runs, mut right): (HashMap<Peer, Vec<Run>>, bool) = (HashMap::new(), true);
    for round in 1..=arguments.rounds {
        let mut order = peers.to_vec();
        for at in (1..order.len()).rev() {
            order.swap(at, random.below(at as u64 + 1) as usize);
        }
        for peer in order {
            let (seconds, parent) = (arguments.seconds, arguments.data.clone());
            match in_own_process(&Spec { peer, workload, seconds, memory_bytes, parent }) {
                Ok(run) => {
                    if arguments.json {
                        println!("{}", serde_json::to_string(&run)?);
                    } else {
                        eprintln!("round {round}: {}: {:.0} observes/s", peer.name(), run.per_second);
                    }
                    runs.entry(peer).or_default().push(run);
                }
                Err(error) => {
                    eprintln!("round {round}: {}: {error}", peer.name());
                    right = false;
                }
            }
        }
    }
    if !arguments.json {
        println!("{}", report::table(&runs));
    }
    Ok(right)
}

fn in_own_process(spec: &Spec) -> Result<Run, Error> {
    let output = Command::new(std::env::current_exe()?)
        .args(["run", &serde_json::to_string(spec)?])
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .output()?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).trim().to_owned().into());
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}
