//! The wires to a real cluster: Redis, Valkey, Kvrocks, or what else speaks their protocol.
//!
//! ```text
//! read, write, claim ─► routed commands, one a partition ─► by server ─► one round trip each ─► answers
//!     (batch, form, pack)          (slot, topology)    (link)       │
//!                                        └── MOVED, ASK, NOSCRIPT ◄─┘ once more, within the deadline
//! ```
//!
//! All that changes a cell is a script, so that a partition's batch is made at once or not at all, and is known by its
//! number when it comes again. So everything that is sent can be sent twice. Scripts use what all engines have: hashes,
//! strings, expiry; `cmsgpack` and `struct`.
//!
//! Why not the cluster client of the `redis` crate: it follows redirections key by key, knows no batch that must not be
//! cut, no deadline over all of a call, and no circuit a shard. What it does of a connection is used: the protocol,
//! authentication, TLS, many commands on one connection.
//!
//! While a slot is being moved its keys lie in two places, and a script over several of them is refused. Reads are then
//! made key by key, between two looks at the node's number: if that is the same, no batch of this node came between.
//! Writes wait until the slot has moved ([`RemoteError::Moving`]).

mod batch;
mod changes;
mod counters;
mod diagnosis;
pub mod exact_limit;
mod form;
mod generation;
mod home;
pub mod image;
mod message_pack;
mod name;
mod name_service;
mod nodes;
mod numbers;
mod routing;
mod rules;
mod scan;
mod script;
mod server_fault;
mod server_link;
mod settings;
mod shard_answer;
mod sighting;
pub mod slot;
mod tables;
mod topology;
mod training_streams;

use parking_lot::{Mutex, RwLock};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use event::{Shingle, Time};
use redis::{Cmd, Value, cmd};
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

pub use changes::{ChangeEntry, ChangeEntryKind, ChangeEntryPage, ChangeListPosition, SUBJECT_BYTES};
pub use counters::{CircuitState, ServerStatus, WireCounters};
pub(crate) use name::CellName;
pub(crate) use scan::{NameScan, SEEN_MAX, STEP};
pub use settings::{ClusterTls, WireSettings};
pub use shard_answer::ShardAnswer;
pub use topology::ServerAddress;
pub use training_streams::{
    SnapshotDescription, StreamExample, StreamPage, StreamPosition, StreamRange, StreamReceipt,
};

use self::batch::ScriptArguments;
use self::diagnosis::ServerDiagnosis;
use self::name::NameCodec;
use self::name_service::SeedServers;
use self::routing::{CommandFailure, RoutedCommand};
use self::script::{LuaScript, LuaScripts};
use self::server_fault::ServerFault;
use self::server_link::{ConnectionClass, ConnectionLoss, ExchangeError, ServerConnector, ServerLink};
use self::tables::TableCodec;
use self::topology::SlotTopology;
use stats::LedgerMetric;

use crate::remote::{
    CellForm, CellImage, ExactLimitBatch, LastWriter, MarkClaim, Partition, PartitionGenerations,
    PartitionImages, PartitionRead, PriorReading, RemoteCell, RemoteCluster, RemoteError, RemoteFuture,
    SightingBatch, SightingCounts, WriteBatch, WriteOutcome,
};

/// The time that asking one server where slots are may take.
const REFRESH_WITHIN: Duration = Duration::from_millis(500);
/// The least time between two such questions.
const REFRESH_PAUSE: Duration = Duration::from_millis(50);
/// The pause between two tries of opening, and the time between two messages that it tries.
const OPEN_PAUSE: Duration = Duration::from_millis(200);
const TELL_EVERY: Duration = Duration::from_secs(5);
/// The number of times that cells of a partition that is being moved are read anew when a batch of this node came between.
const APART_TRIES: usize = 3;
/// The number of names before the cells of a reading: the node's number, and the last writer.
const HEAD: usize = 2;

/// Reasons not to use a cluster.
#[derive(Debug, thiserror::Error)]
pub enum ClusterOpenError {
    /// A setting that cannot be.
    #[error("{0}")]
    Settings(String),
    /// The file of certificates cannot be read.
    #[error("the certificates of {path}: {error}")]
    Authorities {
        /// The file.
        path: String,
        /// The cause.
        error: std::io::Error,
    },
    /// None of its servers is of use.
    #[error("no server of the cluster can be used: {said}. {mend}")]
    Unusable {
        /// The servers that were asked, and the answer of each.
        said: String,
        /// The advice on what to do.
        mend: &'static str,
        /// True if it may be otherwise in a while.
        may_pass: bool,
    },
    /// Its servers answer, and do not do what they are asked.
    #[error("the cluster is not ready: {0}")]
    Unready(Arc<str>),
    /// Keys were laid out otherwise by whoever used it first.
    #[error(
        "the cluster holds statistics as `{found}` under the prefix `{prefix}`, and not as `{expected}` (layout and \
         partitions): set as many partitions, or another prefix"
    )]
    Layout {
        /// The prefix of names.
        prefix: String,
        /// The layout that the cluster says.
        found: String,
        /// The layout that would be said here.
        expected: String,
    },
    /// Cells are kept by a module that not all servers have.
    #[error(
        "the cluster keeps its statistics by the module `tollhouse`: {said}. Load it there (docs/operating/cluster.md), of \
         a release that fits this node's"
    )]
    Module {
        /// The servers without it, or with another version.
        said: String,
    },
    /// The nodes before this one have another secret.
    #[error(
        "the statistics in the cluster under the prefix `{prefix}` are keyed by another secret: give this node the file \
         `secret` of the others, or set another prefix"
    )]
    Secret {
        /// The prefix of names.
        prefix: String,
    },
}

impl ClusterOpenError {
    /// Returns true if it may be otherwise in a while.
    fn may_pass(&self) -> bool {
        matches!(self, ClusterOpenError::Unusable { may_pass: true, .. } | ClusterOpenError::Unready(_))
    }
}

/// A cluster behind its wires. Futures that it answers can be awaited on any runtime; the work is done on the one that
/// it was opened with.
#[derive(Clone)]
pub struct WireClient {
    inner: Arc<WireCore>,
    runtime: Handle,
    /// Ends with the last clone.
    _refresher: Arc<TopologyRefresher>,
}

struct TopologyRefresher(JoinHandle<()>);

impl Drop for TopologyRefresher {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// The state that all calls share.
struct WireCore {
    settings: Arc<WireSettings>,
    names: NameCodec,
    scripts: LuaScripts,
    tables: TableCodec,
    /// True if servers keep cells in tables of the module; false if scripts keep them in hashes.
    has_tables: AtomicBool,
    dial: ServerConnector,
    topology: RwLock<Arc<SlotTopology>>,
    seeds: SeedServers,
    links: Mutex<HashMap<ServerAddress, Arc<ServerLink>>>,
    refresh: Notify,
    counters: Arc<WireCounters>,
}

impl std::fmt::Debug for WireClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Wire").field("settings", &self.inner.settings).finish_non_exhaustive()
    }
}

impl WireClient {
    /// Finds the servers of a cluster, and checks that it divides keys as this node does. To be awaited on `runtime`.
    ///
    /// # Errors
    /// Says what is wrong with the settings, or the cluster.
    pub async fn open(settings: WireSettings, runtime: Handle) -> Result<WireClient, ClusterOpenError> {
        check(&settings)?;
        let settings = Arc::new(settings);
        let path = settings.tls.as_ref().and_then(|tls| tls.authorities.clone());
        let authorities = match path {
            Some(path) => Some(std::fs::read(&path).map_err(|error| ClusterOpenError::Authorities {
                path: path.display().to_string(),
                error,
            })?),
            None => None,
        };
        if settings.tls.is_some() {
            // It may be that another part of the process has chosen one before.
            let _ = rustls::crypto::ring::default_provider().install_default();
        }
        let inner = Arc::new(WireCore {
            names: NameCodec::new(&settings.prefix, settings.node, settings.partitions),
            scripts: LuaScripts::new(),
            tables: TableCodec::new(settings.partitions),
            has_tables: AtomicBool::new(false),
            dial: ServerConnector { settings: settings.clone(), authorities },
            seeds: SeedServers::default(),
            topology: RwLock::default(),
            links: Mutex::default(),
            refresh: Notify::new(),
            counters: Arc::default(),
            settings,
        });
        let until = Instant::now() + inner.settings.open_within;
        let mut told: Option<Instant> = None;
        loop {
            let Err(error) = inner.begin().await else { break };
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() || !error.may_pass() {
                return Err(error);
            }
            if told.is_none_or(|told| told.elapsed() >= TELL_EVERY) {
                told = Some(Instant::now());
                tracing::warn!("waiting {} s more for the cluster: {error}", left.as_secs());
            }
            sleep(OPEN_PAUSE).await;
        }
        let weak = Arc::downgrade(&inner);
        let refresher = runtime.spawn(async move {
            while let Some(inner) = weak.upgrade() {
                let wait = inner.settings.refresh_every;
                let _ = tokio::time::timeout(wait, inner.refresh.notified()).await;
                if let Err(said) = inner.refresh_now().await {
                    let said = diagnosis::list(&said);
                    tracing::warn!("no server of the cluster says where slots are: {said}");
                }
                sleep(REFRESH_PAUSE).await;
            }
        });
        Ok(WireClient { inner, runtime, _refresher: Arc::new(TopologyRefresher(refresher)) })
    }

    /// Returns the counters of what was done.
    pub fn counters(&self) -> &WireCounters {
        &self.inner.counters
    }

    /// The servers that were asked, by address.
    pub fn shards(&self) -> Vec<ServerStatus> {
        let links = self.inner.links.lock();
        let mut shards: Vec<ServerStatus> = links.values().map(|link| link.shard()).collect();
        shards.sort_unstable_by(|one, other| one.address.cmp(&other.address));
        shards
    }

    /// The partition of a key.
    pub(crate) fn partition_of(&self, shingle: Shingle) -> Partition {
        self.inner.settings.partitions.of(shingle)
    }

    /// Removes cells, if they are there; and who wrote last to their partitions, so that no node takes its images for what
    /// the cluster has.
    pub(crate) async fn remove(
        &self,
        cells: &[(Partition, CellName)],
        within: Duration,
    ) -> Vec<Result<(), RemoteError>> {
        let inner = &self.inner;
        if inner.has_tables() {
            return inner.remove_from_tables(cells, Instant::now() + within).await;
        }
        let routed = |(partition, name): &(Partition, CellName)| {
            let mut command = cmd("DEL");
            command.arg(inner.names.named(*partition, *name)).arg(inner.names.writer(*partition));
            RoutedCommand { partition: *partition, command }
        };
        let routed_commands: Vec<RoutedCommand> = cells.iter().map(routed).collect();
        let answers = inner.run(ConnectionClass::Writes, &routed_commands, Instant::now() + within).await;
        let removed = |(routed, answer): (&RoutedCommand, Result<Value, CommandFailure>)| match answer {
            Ok(Value::Int(_)) => Ok(()),
            Ok(Value::Nil) => Err(inner.unconfirmed()),
            Ok(_) => Err(unexpected(routed.partition, "no answer to DEL")),
            Err(failure) => Err(named(failure, routed.partition)),
        };
        routed_commands.iter().zip(answers).map(removed).collect()
    }

    /// Folds or removes what has aged out of cells at `horizon`; answers how many fields went, a partition.
    pub(crate) async fn sweep(
        &self,
        parts: Vec<(Partition, Vec<RemoteCell>)>,
        horizon: Time,
        within: Duration,
    ) -> Vec<Result<u64, RemoteError>> {
        let inner = &self.inner;
        let routed = |(partition, cells): (Partition, Vec<RemoteCell>)| {
            let ScriptArguments { keys, argument } = batch::sweep(&inner.names, partition, &cells, horizon)?;
            Some(RoutedCommand { partition, command: script(&inner.scripts.sweep, keys, Some(argument)) })
        };
        let routed_commands: Vec<RoutedCommand> = parts.into_iter().filter_map(routed).collect();
        let answers = inner.run(ConnectionClass::Writes, &routed_commands, Instant::now() + within).await;
        let removed = |(routed, answer): (&RoutedCommand, Result<Value, CommandFailure>)| match answer {
            Ok(Value::Int(removed)) => Ok(removed.max(0).cast_unsigned()),
            Ok(Value::Nil) => Err(inner.unconfirmed()),
            Ok(_) => Err(unexpected(routed.partition, "no answer of the script that sweeps")),
            Err(failure) => Err(named(failure, routed.partition)),
        };
        routed_commands.iter().zip(answers).map(removed).collect()
    }

    /// The tables that a sweep begins with.
    pub(crate) fn first_tables(&self) -> Option<(Partition, Vec<u8>)> {
        Some((Partition(0), (0..tables::TABLES).collect()))
    }

    /// Removes what has expired from tables of a partition; answers how many were looked at and removed, and where to go
    /// on.
    pub(crate) async fn sweep_tables(
        &self,
        (partition, tables): (Partition, Vec<u8>),
        horizon: Time,
        steps: u64,
        within: Duration,
    ) -> Result<(u64, u64, Option<(Partition, Vec<u8>)>), RemoteError> {
        let inner = &self.inner;
        let deadline = Instant::now() + within;
        let (looked, removed, ended) =
            inner.sweep_tables(partition, &tables, (horizon, steps), deadline).await?;
        let rest = tables.into_iter().zip(ended).filter(|(_, is_over)| !is_over);
        let rest: Vec<u8> = rest.map(|(table, _)| table).collect();
        let next = match rest.is_empty() {
            true => (partition.0 + 1 < inner.settings.partitions.count())
                .then(|| (Partition(partition.0 + 1), (0..tables::TABLES).collect())),
            false => Some((partition, rest)),
        };
        Ok((looked, removed, next))
    }

    /// Returns true if servers keep cells in tables of the module `tollhouse`; false if scripts keep them in hashes.
    pub fn has_tables(&self) -> bool {
        self.inner.has_tables()
    }

    /// Runs a longer call on the runtime, whoever awaits it.
    pub(crate) fn run<T: Send + 'static>(
        &self,
        call: impl Future<Output = Result<T, RemoteError>> + Send + 'static,
    ) -> RemoteFuture<'static, Result<T, RemoteError>> {
        let task = self.runtime.spawn(call);
        Box::pin(async {
            task.await.unwrap_or_else(|_| Err(RemoteError::Unreachable("the node is shutting down".into())))
        })
    }

    /// Runs a call on the runtime; each of `count` things fails if that is gone.
    fn on_runtime<T: Send + 'static>(
        &self,
        count: usize,
        call: impl Future<Output = Vec<Result<T, RemoteError>>> + Send + 'static,
    ) -> RemoteFuture<'static, Vec<Result<T, RemoteError>>> {
        let task = self.runtime.spawn(call);
        Box::pin(async move {
            task.await.unwrap_or_else(|_| {
                let gone =
                    || Err(RemoteError::Unreachable("the runtime of the cluster's wires has ended".into()));
                (0..count).map(|_| gone()).collect()
            })
        })
    }
}

fn check(settings: &WireSettings) -> Result<(), ClusterOpenError> {
    let wrong = |text: String| Err(ClusterOpenError::Settings(text));
    if settings.nodes.is_empty() {
        return wrong("no server of the cluster is named".to_owned());
    }
    if let Some(fault) = settings.nodes.iter().find_map(|node| name_service::fault(node)) {
        return wrong(fault);
    }
    let prefix = &settings.prefix;
    if prefix.len() > name::PREFIX_BYTES_MAX || prefix.contains(['{', '}']) {
        return wrong(format!(
            "the prefix `{prefix}` has braces, or more than {} bytes",
            name::PREFIX_BYTES_MAX
        ));
    }
    Ok(())
}

impl WireCore {
    fn topology(&self) -> Arc<SlotTopology> {
        self.topology.read().clone()
    }

    fn link(&self, address: &ServerAddress) -> Arc<ServerLink> {
        let mut links = self.links.lock();
        let new = || Arc::new(ServerLink::new(address.clone(), self.dial.clone(), self.counters.clone()));
        links.entry(address.clone()).or_insert_with(new).clone()
    }

    /// Asks for a look at where slots are. However many ask, it is one.
    fn please_refresh(&self) {
        self.refresh.notify_one();
    }

    /// Takes in what redirections said.
    fn learn(&self, found: Vec<(u16, ServerAddress)>) {
        if found.is_empty() {
            return;
        }
        {
            let mut topology = self.topology.write();
            let known = Arc::make_mut(&mut topology);
            found.into_iter().for_each(|(slot, address)| known.set(slot, address));
        }
        self.please_refresh();
    }

    /// Looks whether the cluster can be used as it is meant to.
    async fn begin(&self) -> Result<(), ClusterOpenError> {
        let said = match self.refresh_now().await {
            Ok(()) => self.refusals().await,
            Err(said) => said,
        };
        if said.is_empty() { self.agree().await } else { Err(self.diagnose(said).await) }
    }

    /// Asks servers one after the other where slots are, beginning with another one each time. Tells what each said if none
    /// does.
    async fn refresh_now(&self) -> Result<(), Vec<ServerDiagnosis>> {
        let mut servers = self.topology().servers.clone();
        servers.extend(self.seeds.current(&self.settings).await);
        let turn = self.counters.refreshes.fetch_add(1, Ordering::Relaxed) as usize;
        let turn = turn % servers.len().max(1);
        servers.rotate_left(turn);
        let mut seen = Vec::new();
        for server in servers {
            let mut ask = cmd("CLUSTER");
            ask.arg("SLOTS");
            let deadline = Instant::now() + REFRESH_WITHIN.max(self.settings.connect_within);
            let lost = match self.link(&server).exchange(ConnectionClass::Reads, vec![ask], deadline).await {
                Ok(values) => match values.first() {
                    Some(Value::ServerError(error)) => {
                        let why = format!("{} {}", error.code(), error.details().unwrap_or(""));
                        ConnectionLoss { why: why.into(), cause: ServerFault::of_answer(error) }
                    }
                    value => match value.and_then(|value| SlotTopology::parse(value, &server)) {
                        Some(topology) => {
                            self.know(topology);
                            return Ok(());
                        }
                        None => ConnectionLoss {
                            why: "it knows of no slots".into(),
                            cause: ServerFault::Slotless,
                        },
                    },
                },
                Err(ExchangeError::Open(lost) | ExchangeError::Lost(lost)) => lost,
            };
            seen.push(ServerDiagnosis::new(&server, lost));
        }
        if seen.is_empty() {
            let server = ServerAddress { host: self.settings.nodes.join(", "), port: 0 };
            let why = "name service knows no server of it".into();
            seen.push(ServerDiagnosis::new(&server, ConnectionLoss { why, cause: ServerFault::Away }));
        }
        Err(seen)
    }

    fn know(&self, topology: SlotTopology) {
        // Servers that have left are let go, with their connections.
        let seeds = self.seeds.known();
        let mut links = self.links.lock();
        links.retain(|address, _| topology.servers.contains(address) || seeds.contains(address));
        drop(links);
        *self.topology.write() = Arc::new(topology);
    }

    /// Sends a command to the server of the first partition.
    async fn ask_first(&self, command: Cmd) -> Result<Value, ClusterOpenError> {
        let deadline = Instant::now() + self.settings.connect_within.max(REFRESH_WITHIN);
        let routed = RoutedCommand { partition: Partition(0), command };
        let answer = self.run(ConnectionClass::Reads, &[routed], deadline).await.pop();
        match answer {
            Some(Ok(value)) => Ok(value),
            Some(Err(failure)) => {
                Err(ClusterOpenError::Unready(named(failure, Partition(0)).to_string().into()))
            }
            None => Err(ClusterOpenError::Unready("it was not answered".into())),
        }
    }

    async fn read(
        &self,
        asked: Vec<PartitionRead>,
        deadline: Instant,
    ) -> Vec<Result<PartitionImages, RemoteError>> {
        if self.has_tables() {
            return self.read_tables(asked, deadline).await;
        }
        let routed = |read: &PartitionRead| {
            let partition = read.partition;
            let mut keys = batch::read(&self.names, partition, &read.cells);
            let places = sighting::places(&self.names, partition, read, &mut keys);
            RoutedCommand { partition, command: script(&self.scripts.read, keys, places) }
        };
        let routed_commands: Vec<RoutedCommand> = asked.iter().map(routed).collect();
        let answers = self.run(ConnectionClass::Reads, &routed_commands, deadline).await;
        let mut found = Vec::with_capacity(asked.len());
        for (read, answer) in asked.iter().zip(answers) {
            found.push(match answer {
                Ok(value) => self.found(&value, read).map_err(|why| unexpected(read.partition, why)),
                Err(CommandFailure::Apart) => self.read_apart(read, deadline).await,
                Err(CommandFailure::Failure(failure)) => Err(failure),
            });
        }
        found
    }

    /// Reads cells of a partition that is being moved, one by one.
    async fn read_apart(
        &self,
        read: &PartitionRead,
        deadline: Instant,
    ) -> Result<PartitionImages, RemoteError> {
        let partition = read.partition;
        let names = batch::read(&self.names, partition, &read.cells);
        let mut commands = names.iter().enumerate().map(|(at, name)| {
            let mut command = cmd(if at < HEAD { "GET" } else { "HGETALL" });
            command.arg(name);
            RoutedCommand { partition, command }
        });
        let head = commands.by_ref().take(HEAD).collect::<Vec<_>>();
        let cells = commands.collect::<Vec<_>>();
        let whole = |answers: Vec<Result<Value, CommandFailure>>| -> Result<Vec<Value>, RemoteError> {
            answers.into_iter().map(|answer| answer.map_err(|failure| named(failure, partition))).collect()
        };
        for _ in 0..APART_TRIES {
            let before = whole(self.run(ConnectionClass::Reads, &head, deadline).await)?;
            let images = whole(self.run(ConnectionClass::Reads, &cells, deadline).await)?;
            let after = whole(self.run(ConnectionClass::Reads, &head, deadline).await)?;
            if before == after {
                let value = Value::Array(before.into_iter().chain(images).collect());
                let read = PartitionRead { places: Vec::new(), ..read.clone() };
                return self.found(&value, &read).map_err(|why| unexpected(partition, why));
            }
        }
        Err(RemoteError::Moving(partition))
    }

    async fn write(
        &self,
        batches: Vec<WriteBatch>,
        deadline: Instant,
    ) -> Vec<Result<WriteOutcome, RemoteError>> {
        let mut answers: Vec<Option<Result<WriteOutcome, RemoteError>>> = Vec::with_capacity(batches.len());
        let mut routed_commands = Vec::with_capacity(batches.len());
        for batch in &batches {
            let command = if self.has_tables() {
                self.tables.write(&self.names, &self.settings.node, batch)
            } else {
                batch::batch(&self.names, batch).map(|ScriptArguments { keys, argument }| {
                    script(&self.scripts.apply, keys, Some(argument))
                })
            };
            match command {
                Ok(command) => {
                    routed_commands.push(RoutedCommand { partition: batch.partition, command });
                    answers.push(None);
                }
                Err(why) => answers.push(Some(Err(unexpected(batch.partition, why)))),
            }
        }
        let made = self.run(ConnectionClass::Writes, &routed_commands, deadline).await;
        let mut made = routed_commands.iter().zip(made).map(|(routed, answer)| {
            let partition = routed.partition;
            self.written(partition, answer.map_err(|failure| named(failure, partition))?)
        });
        let lost = || Err(RemoteError::Unreachable("it was not answered".into()));
        answers.into_iter().map(|known| known.or_else(|| made.next()).unwrap_or_else(lost)).collect()
    }

    async fn take(
        &self,
        rounds: Vec<ExactLimitBatch>,
        deadline: Instant,
    ) -> Vec<Result<Vec<PriorReading>, RemoteError>> {
        let mut answers: Vec<Option<Result<Vec<PriorReading>, RemoteError>>> =
            Vec::with_capacity(rounds.len());
        let (mut routed_commands, mut sent) =
            (Vec::with_capacity(rounds.len()), Vec::with_capacity(rounds.len()));
        for round in &rounds {
            let command = if self.has_tables() {
                self.tables.take(&self.names, round)
            } else {
                exact_limit::batch(&self.names, round).map(|ScriptArguments { keys, argument }| {
                    script(&self.scripts.take, keys, Some(argument))
                })
            };
            match command {
                Ok(command) => {
                    routed_commands.push(RoutedCommand { partition: round.partition, command });
                    sent.push(round);
                    answers.push(None);
                }
                Err(why) => answers.push(Some(Err(unexpected(round.partition, why)))),
            }
        }
        let made = self.run(ConnectionClass::Takes, &routed_commands, deadline).await;
        let mut made = sent.into_iter().zip(made).map(|(round, answer)| {
            let partition = round.partition;
            match answer.map_err(|failure| named(failure, partition))? {
                Value::Nil => Err(self.unconfirmed()),
                Value::BulkString(text) => {
                    let befores = exact_limit::decode(&text, round.number, round.asks.len());
                    befores.map_err(|why| unexpected(partition, why))
                }
                _ => Err(unexpected(partition, "no answer of the script that takes")),
            }
        });
        let lost = || Err(RemoteError::Unreachable("it was not answered".into()));
        answers.into_iter().map(|known| known.or_else(|| made.next()).unwrap_or_else(lost)).collect()
    }

    async fn sight(
        &self,
        batches: Vec<SightingBatch>,
        deadline: Instant,
    ) -> Vec<Result<Vec<SightingCounts>, RemoteError>> {
        let routed = |batch: &SightingBatch| {
            let ScriptArguments { keys, argument } = sighting::batch(&self.names, batch);
            let command = script(&self.scripts.sight, keys, Some(argument));
            RoutedCommand { partition: batch.partition, command }
        };
        let routed_commands: Vec<RoutedCommand> = batches.iter().map(routed).collect();
        let made = self.run(ConnectionClass::Writes, &routed_commands, deadline).await;
        let counted = |(batch, answer): (&SightingBatch, Result<Value, CommandFailure>)| {
            let partition = batch.partition;
            match answer.map_err(|failure| named(failure, partition))? {
                Value::Nil => Err(self.unconfirmed()),
                Value::BulkString(text) => {
                    let places = batch.halves.iter().map(|half| half.places.len()).sum();
                    sighting::decode(&text, places).map_err(|why| unexpected(partition, why))
                }
                _ => Err(unexpected(partition, "no answer of the script that counts sightings")),
            }
        };
        batches.iter().zip(made).map(counted).collect()
    }

    /// The error of a write that was made and not confirmed.
    fn unconfirmed(&self) -> RemoteError {
        let why = format!("fewer than {} replicas have confirmed it", self.settings.replicas);
        RemoteError::Unreachable(why.into())
    }

    fn written(&self, partition: Partition, value: Value) -> Result<WriteOutcome, RemoteError> {
        let parts = match &value {
            Value::Array(parts) => parts.as_slice(),
            Value::Nil => return Err(self.unconfirmed()),
            _ => &[],
        };
        match parts {
            [Value::Int(0), Value::Int(_), Value::Int(damaged), before] => {
                if *damaged > 0 {
                    WireCounters::add(&self.counters.damaged, damaged.unsigned_abs());
                    tracing::error!(partition = partition.0, damaged, "cells in the cluster are damaged");
                }
                Ok(WriteOutcome::Now(self.writer(before)))
            }
            [Value::Int(1), ..] => Ok(WriteOutcome::Before),
            [Value::Int(2), Value::Int(has), ..] => {
                Ok(WriteOutcome::Behind(u64::try_from(*has).unwrap_or(0)))
            }
            _ => Err(unexpected(partition, "no answer of the script that makes batches")),
        }
    }

    /// The node's number, who wrote last, an image a cell, and where it was asked for what places in sketches have.
    fn found(&self, value: &Value, read: &PartitionRead) -> Result<PartitionImages, &'static str> {
        let Value::Array(parts) = value else { return Err("no answer of the script that reads") };
        let [first, writer, rest @ ..] = parts.as_slice() else {
            return Err("the script that reads answered too little");
        };
        let (images, counted) = rest.split_at_checked(read.cells.len()).unwrap_or((rest, &[]));
        let sightings = match counted {
            [] if read.places.is_empty() && images.len() == read.cells.len() => Vec::new(),
            [Value::BulkString(text)] => sighting::decode(text, read.places.len())?,
            _ => return Err("it answered not as many cells as were asked for"),
        };
        let mut unsound = Vec::new();
        let image = |(at, (value, cell)): (usize, (&Value, &RemoteCell))| {
            image_of(value, &cell.form).unwrap_or_else(|why| {
                tracing::debug!(key = ?cell.key, why, "a cell of the cluster cannot be read");
                unsound.push(at);
                None
            })
        };
        let images = images.iter().zip(&read.cells).enumerate().map(image).collect();
        let number = number(first).ok_or("a number of a node is none")?;
        Ok(PartitionImages { number, writer: self.writer(writer), images, unsound, sightings })
    }

    /// Returns the last writer: a node, and its number. What is none of that is nobody that is known.
    fn writer(&self, value: &Value) -> LastWriter {
        let parts = match value {
            Value::BulkString(text) => text.split_first_chunk::<16>(),
            _ => None,
        };
        let parts = parts.and_then(|(node, number)| Some((node, std::str::from_utf8(number).ok()?)));
        match parts.and_then(|(node, number)| Some((node, number.parse().ok()?))) {
            Some((node, number)) if *node == self.settings.node => LastWriter::This(number),
            Some((node, number)) => LastWriter::Other(*node, number),
            None => LastWriter::Unknown,
        }
    }

    async fn claim(&self, claims: Vec<MarkClaim>, deadline: Instant) -> Vec<Result<bool, RemoteError>> {
        let mut groups: Vec<(Partition, Vec<usize>)> = Vec::new();
        let mut places = HashMap::<Partition, usize>::new();
        for (at, claim) in claims.iter().enumerate() {
            let partition = self.settings.partitions.of(claim.cell.key.shingle);
            let place = *places.entry(partition).or_insert_with(|| {
                groups.push((partition, Vec::new()));
                groups.len() - 1
            });
            groups[place].1.push(at);
        }
        let lost = || Err(RemoteError::Unreachable("it was not answered".into()));
        let mut answers: Vec<Result<bool, RemoteError>> = claims.iter().map(|_| lost()).collect();
        let mut routed_commands = Vec::with_capacity(groups.len());
        groups.retain(|(partition, group)| {
            let list: Vec<&MarkClaim> = group.iter().map(|at| &claims[*at]).collect();
            let command = if self.has_tables() {
                self.tables.claim(&self.names, *partition, &list)
            } else {
                batch::claims(&self.names, *partition, &list).map(|ScriptArguments { keys, argument }| {
                    script(&self.scripts.claim, keys, Some(argument))
                })
            };
            match command {
                Ok(command) => {
                    routed_commands.push(RoutedCommand { partition: *partition, command });
                    true
                }
                Err(why) => {
                    group.iter().for_each(|at| answers[*at] = Err(unexpected(*partition, why)));
                    false
                }
            }
        });
        let made = self.run(ConnectionClass::Writes, &routed_commands, deadline).await;
        for ((partition, group), answer) in groups.into_iter().zip(made) {
            let answer = match answer {
                Ok(Value::Array(each)) if each.len() == group.len() => Ok(each),
                Ok(Value::Nil) => Err(self.unconfirmed()),
                Ok(_) => Err(unexpected(partition, "no answer of the script that leaves marks")),
                Err(failure) => Err(named(failure, partition)),
            };
            for (number, at) in group.into_iter().enumerate() {
                answers[at] = match &answer {
                    Ok(each) => Ok(each.get(number) == Some(&Value::Int(1))),
                    Err(failure) => Err(failure.clone()),
                };
            }
        }
        answers
    }

    async fn numbers(&self, deadline: Instant) -> Vec<Result<u64, RemoteError>> {
        let routed = |partition| {
            let mut command = cmd("GET");
            command.arg(self.names.number(partition));
            RoutedCommand { partition, command }
        };
        let routed_commands: Vec<RoutedCommand> =
            (0..self.settings.partitions.count()).map(Partition).map(routed).collect();
        let answers = self.run(ConnectionClass::Reads, &routed_commands, deadline).await;
        let number = |(routed, answer): (&RoutedCommand, Result<Value, CommandFailure>)| {
            let value = answer.map_err(|failure| named(failure, routed.partition))?;
            number(&value).ok_or_else(|| unexpected(routed.partition, "a number of a node is none"))
        };
        routed_commands.iter().zip(answers).map(number).collect()
    }
}

fn script(script: &LuaScript, keys: Vec<Vec<u8>>, argument: Option<Vec<u8>>) -> Cmd {
    let mut command = cmd("EVALSHA");
    command.arg(&script.sha).arg(keys.len());
    keys.iter().for_each(|key| {
        command.arg(key.as_slice());
    });
    argument.iter().for_each(|argument| {
        command.arg(argument.as_slice());
    });
    command
}

fn named(failure: CommandFailure, partition: Partition) -> RemoteError {
    match failure {
        CommandFailure::Apart => RemoteError::Moving(partition),
        CommandFailure::Failure(failure) => failure,
    }
}

fn unexpected(partition: Partition, why: &str) -> RemoteError {
    RemoteError::Unexpected(format!("partition {}: {why}", partition.0).into())
}

/// A node's number; zero where there is none.
fn number(value: &Value) -> Option<u64> {
    match value {
        Value::Nil => Some(0),
        Value::BulkString(text) => std::str::from_utf8(text).ok()?.parse().ok(),
        _ => None,
    }
}

fn image_of(value: &Value, form: &CellForm) -> Result<Option<CellImage>, &'static str> {
    let Value::Array(flat) = value else { return Err("a cell is no hash") };
    let mut fields = Vec::with_capacity(flat.len() / 2);
    for pair in flat.chunks(2) {
        let [Value::BulkString(field), Value::BulkString(value)] = pair else {
            return Err("a cell's fields and values are no texts");
        };
        fields.push((field.as_slice(), value.as_slice()));
    }
    image::decode(form, fields)
}

/// The answer of a call that asks for one thing.
fn only<T>(answers: Vec<Result<T, RemoteError>>) -> Result<T, RemoteError> {
    answers.into_iter().next().unwrap_or_else(|| Err(RemoteError::Unreachable("it was not answered".into())))
}

impl RemoteCluster for WireClient {
    fn read(
        &self,
        asked: Vec<PartitionRead>,
        within: Duration,
    ) -> RemoteFuture<'_, Vec<Result<PartitionImages, RemoteError>>> {
        let (inner, deadline) = (self.inner.clone(), Instant::now() + within);
        self.on_runtime(asked.len(), async move { inner.read(asked, deadline).await })
    }

    fn write(
        &self,
        batches: Vec<WriteBatch>,
        within: Duration,
    ) -> RemoteFuture<'_, Vec<Result<WriteOutcome, RemoteError>>> {
        let (inner, deadline) = (self.inner.clone(), Instant::now() + within);
        self.on_runtime(batches.len(), async move { inner.write(batches, deadline).await })
    }

    fn claim(
        &self,
        claims: Vec<MarkClaim>,
        within: Duration,
    ) -> RemoteFuture<'_, Vec<Result<bool, RemoteError>>> {
        let (inner, deadline) = (self.inner.clone(), Instant::now() + within);
        self.on_runtime(claims.len(), async move { inner.claim(claims, deadline).await })
    }

    fn take(
        &self,
        rounds: Vec<ExactLimitBatch>,
        within: Duration,
    ) -> RemoteFuture<'_, Vec<Result<Vec<PriorReading>, RemoteError>>> {
        let (inner, deadline) = (self.inner.clone(), Instant::now() + within);
        self.on_runtime(rounds.len(), async move { inner.take(rounds, deadline).await })
    }

    fn sight(
        &self,
        batches: Vec<SightingBatch>,
        within: Duration,
    ) -> RemoteFuture<'_, Vec<Result<Vec<SightingCounts>, RemoteError>>> {
        let (inner, deadline) = (self.inner.clone(), Instant::now() + within);
        self.on_runtime(batches.len(), async move { inner.sight(batches, deadline).await })
    }

    fn shard(&self, partition: Partition) -> usize {
        self.inner.topology().place(slot::slot_of(partition, self.inner.settings.partitions))
    }

    fn numbers(&self, within: Duration) -> RemoteFuture<'_, Vec<Result<u64, RemoteError>>> {
        let (inner, deadline) = (self.inner.clone(), Instant::now() + within);
        let count = usize::from(self.inner.settings.partitions.count());
        self.on_runtime(count, async move { inner.numbers(deadline).await })
    }

    fn generations(
        &self,
        known: u64,
        within: Duration,
    ) -> RemoteFuture<'_, Result<Option<PartitionGenerations>, RemoteError>> {
        let (inner, deadline) = (self.inner.clone(), Instant::now() + within);
        let one = self.on_runtime(1, async move { vec![inner.generations(known, deadline).await] });
        Box::pin(async move { only(one.await) })
    }

    fn renew(
        &self,
        partitions: Vec<Partition>,
        within: Duration,
    ) -> RemoteFuture<'_, Result<(), RemoteError>> {
        let (inner, deadline) = (self.inner.clone(), Instant::now() + within);
        let one = self.on_runtime(1, async move { vec![inner.renew(&partitions, deadline).await] });
        Box::pin(async move { only(one.await) })
    }

    fn figures(&self) -> Vec<LedgerMetric> {
        let mut figures = self.inner.counters.figures();
        for shard in self.shards() {
            let name = shard.address.to_string();
            let of = |name_of, help, value| {
                let shard = Some(name.clone());
                LedgerMetric { name: name_of, help, is_sum: false, shard, value }
            };
            let is_closed = shard.circuit == CircuitState::Closed;
            figures.push(of("circuit_open", "1 if the shard is not asked for now", u64::from(!is_closed)));
            figures.push(of("in_flight", "Round trips that are under way", shard.in_flight as u64));
        }
        figures
    }
}
