//! `tollhouse bench overload`: a server that is asked ten times as much as it can decide.
//!
//! ```text
//! capacity   as many connections as requests may be at work: what it decides a second, and how fast
//! overload   ten times as many, which together would ask ten times as often; whoever is refused asks on
//! after      as at first, at once
//! kill       overloaded again, the process is killed; what it had acknowledged is looked for on disk
//! ```
//!
//! The ledger's durability is `sync`: what is acknowledged may not be lost then. Clients are on the same machine.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use engine::{Directory, Engine};
use journal::RecordId;
use plan::{Config, Overrides, Plan, preset};
use serde::Serialize;
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::ServerProcess;
use super::events::cpu;
use crate::clock;
use crate::console::{DIM, Output};
use crate::exit::{CommandError, Exit};
use crate::options::JsonOption;
use crate::tally::per_second;

/// Senders of the messages; each is a key that is counted.
const SENDERS: usize = 16;
/// The time that a client waits for an answer: longer than the server may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// Measure overload: ten times the server's capacity, in a process of its own that is killed at the end
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tollhouse bench overload --json
  tollhouse bench overload --seconds 5 --places 16
  tollhouse bench overload --connections 4000

Exit code 1: something acknowledged was lost.")]
pub(super) struct OverloadBenchArgs {
    /// Time of the overload
    #[arg(long, default_value_t = 60, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=3600))]
    seconds: u64,
    /// Connections during the overload [default: `--times` as many as places]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=20_000))]
    connections: Option<u32>,
    /// Load, as a multiple of the server's capacity
    #[arg(long, default_value_t = 10, value_name = "N", value_parser = clap::value_parser!(u32).range(2..=100))]
    times: u32,
    /// Requests at once: `[server] requests_max`
    #[arg(long, default_value_t = 64, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=256))]
    places: u32,
    #[command(flatten)]
    json: JsonOption,
}

/// The result. `docs/reference/cli.md` documents the members.
#[derive(Serialize)]
struct OverloadMeasurement {
    bench: &'static str,
    places: u32,
    connections: u32,
    seconds: f64,
    capacity_per_s: f64,
    capacity_p50_ms: f64,
    capacity_p99_ms: f64,
    capacity_server_cores: f64,
    capacity_per_server_cpu_s: f64,
    asked_per_s: f64,
    asked_times_capacity: f64,
    served_per_s: f64,
    served_p50_ms: f64,
    served_p99_ms: f64,
    server_cores: f64,
    served_per_server_cpu_s: f64,
    shed: u64,
    shed_p99_ms: f64,
    other: u64,
    first_served_after_ms: f64,
    after_per_s: f64,
    after_p99_ms: f64,
    after_shed: u64,
    server_memory_bytes_max: u64,
    acknowledged: u64,
    lost: u64,
    counted: u64,
    lost_counts: u64,
}

pub(super) fn run(args: &OverloadBenchArgs) -> Result<Exit, CommandError> {
    let mut out = Output::new(args.json.json);
    let measured = measure(args)?;
    if out.is_json() {
        out.json(&measured)?;
    } else {
        let fields = serde_json::to_value(&measured).map_err(CommandError::new)?;
        for (name, value) in fields.as_object().into_iter().flatten() {
            let value = match value.as_f64().filter(|_| value.is_f64()) {
                Some(float) => format!("{float:.3}"),
                None => value.to_string(),
            };
            out.line(format_args!("{DIM}{name:<28}{DIM:#} {value}"))?;
        }
    }
    out.flush()?;
    let lost = measured.lost + measured.lost_counts;
    Ok(if lost == 0 { Exit::Fine } else { Exit::Found })
}

fn measure(args: &OverloadBenchArgs) -> Result<OverloadMeasurement, CommandError> {
    let parent = tempfile::tempdir().map_err(CommandError::new)?;
    let data = parent.path().join("data");
    let mail: Vec<_> = preset::find("mail").into_iter().collect();
    let directory = Directory::create(&data, &mail)?;
    let text = format!(
        "preset = \"mail\"\n[ledger]\ndurability = \"sync\"\n[server]\nrequests_max = {}\nconnections_max = 20000\nclient_connections_max = 20000\n",
        args.places
    );
    fs::write(directory.config_path(), text).map_err(CommandError::new)?;
    let mut server = ServerProcess::start(&data)?;
    let address = server.address.trim_start_matches("http://").to_owned();
    let stopped = AtomicBool::new(false);
    let clients = LoadClients { address, server: server.child.id(), number: AtomicU64::new(0), stopped };
    let clients = Arc::new(clients);
    let (few, seconds) = (args.places, Duration::from_secs(args.seconds));
    let short = (seconds / 4).clamp(Duration::from_secs(1), Duration::from_secs(10));
    let many = args.connections.unwrap_or(args.places * args.times);

    // What is done for the first time takes longer.
    let first = clients.ask(few, None, short / 2)?;
    let capacity = clients.ask(few, None, short)?;
    let rate = capacity.served_per_s() * f64::from(args.times);
    let overload = clients.ask(many, Some(rate), seconds)?;
    let ended = Instant::now();
    let mut next = clients.ask(1, None, Duration::ZERO)?;
    while next.took.is_empty() && ended.elapsed() < PATIENCE {
        let again = clients.ask(1, None, Duration::ZERO)?;
        next.acknowledged.extend(again.acknowledged);
        next.took = again.took;
    }
    let recovered = ended.elapsed();
    let after = clients.ask(few, None, short)?;
    let memory = memory_max(server.child.id());
    let killed = thread::scope(|scope| {
        let overloaded = scope.spawn(|| clients.ask(many, Some(rate), short));
        thread::sleep(short / 2);
        clients.stopped.store(true, Ordering::Relaxed);
        let killed = server.child.kill().and_then(|()| server.child.wait());
        killed.map_err(CommandError::new)?;
        overloaded.join().unwrap_or_else(|_| Err(CommandError::new("a client has failed")))
    })?;
    drop(server);

    let phases = [&first, &capacity, &overload, &next, &after, &killed];
    let acknowledged: Vec<(RecordId, usize)> =
        phases.iter().flat_map(|phase| phase.acknowledged.iter().copied()).collect();
    let (kept, counts) = what_is_there(&data)?;
    let lost = acknowledged.iter().filter(|(id, _)| !kept.contains(id)).count();
    let mut owed = [0u64; SENDERS];
    acknowledged.iter().for_each(|(_, sender)| owed[*sender] += 1);
    let missing = owed.iter().zip(counts).map(|(owed, counted)| owed.saturating_sub(counted));
    Ok(OverloadMeasurement {
        bench: "overload",
        places: args.places,
        connections: many,
        seconds: overload.wall.as_secs_f64(),
        capacity_per_s: capacity.served_per_s(),
        capacity_p50_ms: quantile(&capacity.took, 0.5),
        capacity_p99_ms: quantile(&capacity.took, 0.99),
        capacity_server_cores: capacity.cores(),
        capacity_per_server_cpu_s: capacity.served_per_cpu_s(),
        asked_per_s: per_second(overload.asked, overload.wall),
        asked_times_capacity: per_second(overload.asked, overload.wall) / capacity.served_per_s().max(1e-9),
        served_per_s: overload.served_per_s(),
        served_p50_ms: quantile(&overload.took, 0.5),
        served_p99_ms: quantile(&overload.took, 0.99),
        server_cores: overload.cores(),
        served_per_server_cpu_s: overload.served_per_cpu_s(),
        shed: overload.shed.len() as u64,
        shed_p99_ms: quantile(&overload.shed, 0.99),
        other: overload.other,
        first_served_after_ms: recovered.as_secs_f64() * 1e3,
        after_per_s: after.served_per_s(),
        after_p99_ms: quantile(&after.took, 0.99),
        after_shed: after.shed.len() as u64,
        server_memory_bytes_max: memory,
        acknowledged: acknowledged.len() as u64,
        lost: lost as u64,
        counted: counts.iter().sum(),
        lost_counts: missing.sum(),
    })
}

/// The clients that ask.
struct LoadClients {
    address: String,
    /// The process of the server.
    server: u32,
    /// The number of messages that were sent, so that no two are the same.
    number: AtomicU64,
    /// The server is about to be killed: a connection that breaks is the end then.
    stopped: AtomicBool,
}

/// The results of one phase. Times are sorted.
#[derive(Default)]
struct LoadPhase {
    wall: Duration,
    /// Processor time of the server.
    cpu: Duration,
    asked: u64,
    /// The times of decided requests.
    took: Vec<Duration>,
    /// The times of requests that were told to come again.
    shed: Vec<Duration>,
    /// Answers of another kind, and connections that broke.
    other: u64,
    /// Decisions, and whose message it was.
    acknowledged: Vec<(RecordId, usize)>,
}

impl LoadPhase {
    fn served_per_s(&self) -> f64 {
        per_second(self.took.len() as u64, self.wall)
    }

    /// Clients are on the same machine and take processor time from the server; of what it had, this is what came.
    fn served_per_cpu_s(&self) -> f64 {
        per_second(self.took.len() as u64, self.cpu)
    }

    fn cores(&self) -> f64 {
        self.cpu.as_secs_f64() / self.wall.as_secs_f64().max(1e-9)
    }

    fn add(&mut self, other: LoadPhase) {
        self.asked += other.asked;
        self.took.extend(other.took);
        self.shed.extend(other.shed);
        self.other += other.other;
        self.acknowledged.extend(other.acknowledged);
    }
}

fn contains(body: &[u8], part: &[u8]) -> bool {
    body.windows(part.len()).any(|window| window == part)
}

fn quantile(sorted: &[Duration], share: f64) -> f64 {
    let rank = (sorted.len() as f64 * share) as usize;
    sorted.get(rank.min(sorted.len().saturating_sub(1))).map_or(0.0, |took| took.as_secs_f64() * 1e3)
}

impl LoadClients {
    /// Asks on so many connections for a time, at least once: together at this rate, or each as soon as it is answered. All
    /// clients are one thread, which takes no more than its share of the processors from the server.
    fn ask(
        self: &Arc<Self>,
        connections: u32,
        rate: Option<f64>,
        time: Duration,
    ) -> Result<LoadPhase, CommandError> {
        let pause = rate.map(|rate| Duration::from_secs_f64(f64::from(connections) / rate.max(1.0)));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let before = cpu(self.server)?;
        let began = Instant::now();
        let mut all = runtime.map_err(CommandError::new)?.block_on(async {
            let mut clients = JoinSet::new();
            for client in 0..connections {
                // They begin one after the other within the first pause.
                let offset = pause.map_or(Duration::ZERO, |pause| pause * client / connections);
                clients.spawn(Arc::clone(self).one(began, offset, pause, time));
            }
            let mut all = LoadPhase::default();
            while let Some(phase) = clients.join_next().await {
                all.add(phase.map_err(CommandError::new)?);
            }
            Ok::<_, CommandError>(all)
        })?;
        all.wall = began.elapsed();
        // A server that was killed meanwhile tells nothing any more.
        all.cpu = cpu(self.server).unwrap_or(before).saturating_sub(before);
        all.took.sort_unstable();
        all.shed.sort_unstable();
        Ok(all)
    }

    /// One connection.
    async fn one(
        self: Arc<Self>,
        began: Instant,
        offset: Duration,
        pause: Option<Duration>,
        time: Duration,
    ) -> LoadPhase {
        let mut phase = LoadPhase::default();
        let mut stream = None;
        for turn in 0.. {
            if let Some(pause) = pause {
                // Who is late asks at once.
                sleep((offset + pause * turn).saturating_sub(began.elapsed())).await;
            }
            if turn > 0 && began.elapsed() >= time {
                break;
            }
            let number = self.number.fetch_add(1, Ordering::Relaxed);
            let asked = Instant::now();
            let answered = timeout(PATIENCE, self.decide(&mut stream, number)).await;
            match answered.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())) {
                // What found no place is answered as the pipeline's `on_error` says, and says so.
                Ok((200, body)) if contains(&body, b"\"error\":") => phase.shed.push(asked.elapsed()),
                Ok((200, body)) => match id(&body) {
                    Some(id) => {
                        phase.took.push(asked.elapsed());
                        phase.acknowledged.push((id, sender(number)));
                    }
                    None => phase.other += 1,
                },
                Ok((503, body)) if contains(&body, b"overloaded") => phase.shed.push(asked.elapsed()),
                Ok(_) => phase.other += 1,
                Err(_) if self.stopped.load(Ordering::Relaxed) => break,
                Err(_) => {
                    stream = None;
                    phase.other += 1;
                }
            }
            phase.asked += 1;
        }
        phase
    }

    async fn decide(
        &self,
        stream: &mut Option<BufReader<TcpStream>>,
        number: u64,
    ) -> io::Result<(u16, Vec<u8>)> {
        let stream = match stream {
            Some(stream) => stream,
            None => {
                let new = TcpStream::connect(&self.address).await?;
                new.set_nodelay(true)?;
                stream.insert(BufReader::new(new))
            }
        };
        let message = message(number);
        let head = format!(
            "POST /v1/decide HTTP/1.1\r\nHost: {}\r\nContent-Type: message/rfc822\r\nContent-Length: {}\r\n\r\n",
            self.address,
            message.len()
        );
        stream.get_mut().write_all(&[head.as_bytes(), message.as_bytes()].concat()).await?;
        answer(stream).await
    }
}

/// Status and body of an answer.
async fn answer(stream: &mut (impl AsyncBufRead + Unpin)) -> io::Result<(u16, Vec<u8>)> {
    let mut line = String::new();
    let (mut status, mut length) = (None, 0);
    loop {
        line.clear();
        if stream.read_line(&mut line).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let text = line.trim_end();
        match (status, text.split_once(':')) {
            (None, _) => {
                let told = text.split(' ').nth(1).and_then(|status| status.parse().ok());
                status = Some(told.ok_or(io::ErrorKind::InvalidData)?);
            }
            (Some(status), None) => {
                let mut body = Vec::new();
                stream.take(length).read_to_end(&mut body).await?;
                return Ok((status, body));
            }
            (Some(_), Some((name, value))) if name.eq_ignore_ascii_case("content-length") => {
                length = value.trim().parse().map_err(|_| io::ErrorKind::InvalidData)?;
            }
            _ => {}
        }
    }
}

/// The id that an answer gives its decision.
fn id(body: &[u8]) -> Option<RecordId> {
    #[derive(serde::Deserialize)]
    struct AnswerId {
        id: String,
    }
    serde_json::from_slice::<AnswerId>(body).ok()?.id.parse().ok()
}

fn sender(number: u64) -> usize {
    number as usize % SENDERS
}

fn address(sender: usize) -> String {
    format!("sender{sender}@example.org")
}

fn message(number: u64) -> String {
    const PARAGRAPH: &str = "The parcel that you have asked about left our house on Monday morning and should be with you \
        by the end of the week; you can see where it is at https://example.org/parcels at any time.\r\n";
    format!(
        "From: {}\r\nTo: bob@example.net\r\nSubject: Your parcel {number}\r\nMessage-ID: <{number}@example.org>\r\n\
         Content-Type: text/plain\r\n\r\nDear Bob,\r\n{}",
        address(sender(number)),
        PARAGRAPH.repeat(20)
    )
}

/// The most memory that a process has had; 0 where the system does not tell.
fn memory_max(process: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kibibytes = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
    kibibytes.unwrap_or(0) * 1024
}

/// The decisions on disk, and how many messages of each sender were counted.
fn what_is_there(data: &Path) -> Result<(HashSet<RecordId>, [u64; SENDERS]), CommandError> {
    let directory = Directory::open(data)?;
    let config = Config::load(&directory.config_path(), &Overrides::default());
    let plan = Plan::compile(&config).map_err(CommandError::new)?;
    let engine = Engine::open(&directory, plan).map_err(CommandError::new)?;
    let mut kept = HashSet::new();
    if let Some(journal) = engine.journal() {
        let keep = |id, _| {
            kept.insert(id);
            true
        };
        journal.scan(keep).map_err(CommandError::new)?;
    }
    let plan = engine.plan();
    let pipeline = plan.pipeline(None).ok_or_else(|| CommandError::new("the pipeline is not there"))?;
    let mut counts = [0; SENDERS];
    for (at, count) in counts.iter_mut().enumerate() {
        let address = address(at);
        let known = engine.timeline(pipeline, "from", &address, clock::now());
        let known = pollster::block_on(known).map_err(CommandError::new)?;
        let seen = known.counters.iter().position(|counter| counter == "seen").unwrap_or(0);
        let sums = known.windows.iter().filter_map(|(_, sums)| sums.get(seen).copied());
        *count = sums.max().unwrap_or(0);
    }
    Ok((kept, counts))
}
