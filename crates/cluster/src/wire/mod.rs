//! The wires to a real cluster: Redis, Valkey, Kvrocks, or what else speaks their protocol.
//!
//! ```text
//! read, write, claim ─► errands, one a partition ─► by server ─► one round trip each ─► answers
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
//! Writes wait until the slot has moved ([`Failure::Moving`]).

mod batch;
mod call;
mod counters;
pub mod exact;
mod form;
mod generation;
pub mod image;
mod link;
mod name;
mod opening;
mod pack;
mod scan;
mod script;
mod settings;
pub mod slot;
mod topology;

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use event::{Shingle, Time};
use redis::{Cmd, Value, cmd};
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

pub use counters::{Circuit, Counters, Shard};
pub(crate) use name::Name;
pub(crate) use scan::{SEEN_MAX, STEP, Scan};
pub use settings::{Settings, Tls};
pub use topology::Address;

use self::batch::Arguments;
use self::call::{Errand, Trouble};
use self::link::{Dial, Line, Link, Lost, Silence};
use self::name::Names;
use self::opening::{Cause, Said};
use self::script::{Script, Scripts};
use self::topology::Topology;
use stats::Figure;

use crate::remote::{
    Batch, Before, Cell, Claim, Failure, Form, Found, Generations, Image, Later, Partition, Read, Remote,
    Round, Writer, Written,
};

/// How long asking one server where slots are may take.
const REFRESH_WITHIN: Duration = Duration::from_millis(500);
/// The least time between two such questions.
const REFRESH_PAUSE: Duration = Duration::from_millis(50);
/// How often opening tries, and how often it tells that it does.
const OPEN_PAUSE: Duration = Duration::from_millis(200);
const TELL_EVERY: Duration = Duration::from_secs(5);
/// How often cells of a partition that is being moved are read anew when a batch of this node came between.
const APART_TRIES: usize = 3;
/// Of the names that a reading is asked for, those before its cells: the node's number, and who wrote last.
const HEAD: usize = 2;
/// How keys are laid out: said in the cluster beside the number of partitions.
const LAYOUT: &str = "1";

/// Why a cluster cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// A setting that cannot be.
    #[error("{0}")]
    Settings(String),
    /// The file of certificates cannot be read.
    #[error("the certificates of {path}: {error}")]
    Authorities {
        /// Which.
        path: String,
        /// Why.
        error: std::io::Error,
    },
    /// None of its servers is of use.
    #[error("no server of the cluster can be used: {said}. {mend}")]
    Unusable {
        /// Which were asked, and what each said.
        said: String,
        /// What to do.
        mend: &'static str,
        /// Whether it may be otherwise in a while.
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
        /// What the cluster says.
        found: String,
        /// What would be said here.
        expected: String,
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

impl OpenError {
    /// Whether it may be otherwise in a while.
    fn may_pass(&self) -> bool {
        matches!(self, OpenError::Unusable { may_pass: true, .. } | OpenError::Unready(_))
    }
}

/// A cluster behind its wires. Futures that it answers can be awaited on any runtime; the work is done on the one that
/// it was opened with.
#[derive(Clone)]
pub struct Wire {
    inner: Arc<Inner>,
    runtime: Handle,
    /// Ends with the last clone.
    _refresher: Arc<Refresher>,
}

struct Refresher(JoinHandle<()>);

impl Drop for Refresher {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// What all calls share.
struct Inner {
    settings: Arc<Settings>,
    names: Names,
    scripts: Scripts,
    dial: Dial,
    topology: RwLock<Arc<Topology>>,
    links: Mutex<HashMap<Address, Arc<Link>>>,
    refresh: Notify,
    counters: Arc<Counters>,
}

impl std::fmt::Debug for Wire {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Wire").field("settings", &self.inner.settings).finish_non_exhaustive()
    }
}

impl Wire {
    /// Finds the servers of a cluster, and checks that it divides keys as this node does. To be awaited on `runtime`.
    ///
    /// # Errors
    /// Says what is wrong with the settings, or the cluster.
    pub async fn open(settings: Settings, runtime: Handle) -> Result<Wire, OpenError> {
        check(&settings)?;
        let settings = Arc::new(settings);
        let path = settings.tls.as_ref().and_then(|tls| tls.authorities.clone());
        let authorities = match path {
            Some(path) => Some(
                std::fs::read(&path)
                    .map_err(|error| OpenError::Authorities { path: path.display().to_string(), error })?,
            ),
            None => None,
        };
        if settings.tls.is_some() {
            // It may be that another part of the process has chosen one before.
            let _ = rustls::crypto::ring::default_provider().install_default();
        }
        let inner = Arc::new(Inner {
            names: Names::new(&settings.prefix, settings.node, settings.partitions),
            scripts: Scripts::new(),
            dial: Dial { settings: settings.clone(), authorities },
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
                    let said = opening::list(&said);
                    tracing::warn!("no server of the cluster says where slots are: {said}");
                }
                sleep(REFRESH_PAUSE).await;
            }
        });
        Ok(Wire { inner, runtime, _refresher: Arc::new(Refresher(refresher)) })
    }

    /// What was done.
    pub fn counters(&self) -> &Counters {
        &self.inner.counters
    }

    /// The servers that were asked, by address.
    pub fn shards(&self) -> Vec<Shard> {
        let links = self.inner.links.lock().unwrap_or_else(PoisonError::into_inner);
        let mut shards: Vec<Shard> = links.values().map(|link| link.shard()).collect();
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
        cells: &[(Partition, Name)],
        within: Duration,
    ) -> Vec<Result<(), Failure>> {
        let inner = &self.inner;
        let errand = |(partition, name): &(Partition, Name)| {
            let mut command = cmd("DEL");
            command.arg(inner.names.named(*partition, *name)).arg(inner.names.writer(*partition));
            Errand { partition: *partition, command }
        };
        let errands: Vec<Errand> = cells.iter().map(errand).collect();
        let answers = inner.run(Line::Writes, &errands, Instant::now() + within).await;
        let removed = |(errand, answer): (&Errand, Result<Value, Trouble>)| match answer {
            Ok(Value::Int(_)) => Ok(()),
            Ok(Value::Nil) => Err(inner.unconfirmed()),
            Ok(_) => Err(unexpected(errand.partition, "no answer to DEL")),
            Err(trouble) => Err(named(trouble, errand.partition)),
        };
        errands.iter().zip(answers).map(removed).collect()
    }

    /// Folds or removes what has aged out of cells at `horizon`; answers how many fields went, a partition.
    pub(crate) async fn sweep(
        &self,
        parts: Vec<(Partition, Vec<Cell>)>,
        horizon: Time,
        within: Duration,
    ) -> Vec<Result<u64, Failure>> {
        let inner = &self.inner;
        let errand = |(partition, cells): (Partition, Vec<Cell>)| {
            let Arguments { keys, argument } = batch::sweep(&inner.names, partition, &cells, horizon)?;
            Some(Errand { partition, command: script(&inner.scripts.sweep, keys, Some(argument)) })
        };
        let errands: Vec<Errand> = parts.into_iter().filter_map(errand).collect();
        let answers = inner.run(Line::Writes, &errands, Instant::now() + within).await;
        let removed = |(errand, answer): (&Errand, Result<Value, Trouble>)| match answer {
            Ok(Value::Int(removed)) => Ok(removed.max(0).cast_unsigned()),
            Ok(Value::Nil) => Err(inner.unconfirmed()),
            Ok(_) => Err(unexpected(errand.partition, "no answer of the script that sweeps")),
            Err(trouble) => Err(named(trouble, errand.partition)),
        };
        errands.iter().zip(answers).map(removed).collect()
    }

    /// Runs a call on the runtime; each of `count` things fails if that is gone.
    fn on_runtime<T: Send + 'static>(
        &self,
        count: usize,
        call: impl Future<Output = Vec<Result<T, Failure>>> + Send + 'static,
    ) -> Later<'static, Vec<Result<T, Failure>>> {
        let task = self.runtime.spawn(call);
        Box::pin(async move {
            task.await.unwrap_or_else(|_| {
                let gone =
                    || Err(Failure::Unreachable("the runtime of the cluster's wires has ended".into()));
                (0..count).map(|_| gone()).collect()
            })
        })
    }
}

fn check(settings: &Settings) -> Result<(), OpenError> {
    let wrong = |text: String| Err(OpenError::Settings(text));
    if settings.nodes.is_empty() {
        return wrong("no server of the cluster is named".to_owned());
    }
    if let Some(node) = settings.nodes.iter().find(|node| Address::parse(node).is_none()) {
        return wrong(format!("`{node}` is no server: expected `host:port`"));
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

impl Inner {
    fn topology(&self) -> Arc<Topology> {
        self.topology.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn link(&self, address: &Address) -> Arc<Link> {
        let mut links = self.links.lock().unwrap_or_else(PoisonError::into_inner);
        let new = || Arc::new(Link::new(address.clone(), self.dial.clone(), self.counters.clone()));
        links.entry(address.clone()).or_insert_with(new).clone()
    }

    /// Asks for a look at where slots are. However many ask, it is one.
    fn please_refresh(&self) {
        self.refresh.notify_one();
    }

    /// Takes in what redirections said.
    fn learn(&self, found: Vec<(u16, Address)>) {
        if found.is_empty() {
            return;
        }
        {
            let mut topology = self.topology.write().unwrap_or_else(PoisonError::into_inner);
            let known = Arc::make_mut(&mut topology);
            found.into_iter().for_each(|(slot, address)| known.set(slot, address));
        }
        self.please_refresh();
    }

    /// Looks whether the cluster can be used as it is meant to.
    async fn begin(&self) -> Result<(), OpenError> {
        let said = match self.refresh_now().await {
            Ok(()) => self.refusals().await,
            Err(said) => said,
        };
        if said.is_empty() { self.agree().await } else { Err(self.diagnose(said).await) }
    }

    /// Asks servers one after the other where slots are, beginning with another one each time. Tells what each said if none
    /// does.
    async fn refresh_now(&self) -> Result<(), Vec<Said>> {
        let mut servers = self.topology().servers.clone();
        servers.extend(self.settings.nodes.iter().filter_map(|node| Address::parse(node)));
        let turn = self.counters.refreshes.fetch_add(1, Ordering::Relaxed) as usize;
        let turn = turn % servers.len().max(1);
        servers.rotate_left(turn);
        let mut seen = Vec::new();
        for server in servers {
            let mut ask = cmd("CLUSTER");
            ask.arg("SLOTS");
            let deadline = Instant::now() + REFRESH_WITHIN.max(self.settings.connect_within);
            let lost = match self.link(&server).exchange(Line::Reads, vec![ask], deadline).await {
                Ok(values) => match values.first() {
                    Some(Value::ServerError(error)) => {
                        let why = format!("{} {}", error.code(), error.details().unwrap_or(""));
                        Lost { why: why.into(), cause: Cause::of_answer(error) }
                    }
                    value => match value.and_then(|value| Topology::parse(value, &server)) {
                        Some(topology) => {
                            self.know(topology);
                            return Ok(());
                        }
                        None => Lost { why: "it knows of no slots".into(), cause: Cause::Slotless },
                    },
                },
                Err(Silence::Open(lost) | Silence::Lost(lost)) => lost,
            };
            seen.push(Said::new(&server, lost));
        }
        Err(seen)
    }

    fn know(&self, topology: Topology) {
        // Servers that have left are let go, with their connections.
        let seeds: Vec<Address> =
            self.settings.nodes.iter().filter_map(|node| Address::parse(node)).collect();
        let mut links = self.links.lock().unwrap_or_else(PoisonError::into_inner);
        links.retain(|address, _| topology.servers.contains(address) || seeds.contains(address));
        drop(links);
        *self.topology.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(topology);
    }

    /// Says how keys are laid out and which secret they have, if nobody has, and checks that it is so.
    async fn agree(&self) -> Result<(), OpenError> {
        let name = self.names.layout();
        let expected = format!("{LAYOUT} {}", self.settings.partitions.count());
        let secret = self.settings.secret.map(|secret| format!("{:016x}", u64::from_be_bytes(secret)));
        let whole = secret.iter().fold(expected.clone(), |whole, secret| format!("{whole} {secret}"));
        let set = |condition: Option<&str>| {
            let mut set = cmd("SET");
            set.arg(&name).arg(&whole);
            condition.iter().for_each(|condition| {
                set.arg(*condition);
            });
            set
        };
        let mut get = cmd("GET");
        get.arg(&name);
        self.ask_first(set(Some("NX"))).await?;
        let Value::BulkString(found) = self.ask_first(get).await? else {
            return Err(OpenError::Unready("it has lost what was just written".into()));
        };
        let found = String::from_utf8_lossy(&found).into_owned();
        let prefix = self.settings.prefix.clone();
        let (layout, theirs) = match found.match_indices(' ').nth(1) {
            Some((at, _)) => (&found[..at], Some(&found[at + 1..])),
            None => (found.as_str(), None),
        };
        if layout != expected {
            return Err(OpenError::Layout { prefix, found: layout.to_owned(), expected });
        }
        match (theirs, secret) {
            (Some(theirs), Some(secret)) if theirs != secret => Err(OpenError::Secret { prefix }),
            (None, Some(_)) => self.ask_first(set(None)).await.map(|_| ()),
            _ => Ok(()),
        }
    }

    /// Sends a command to the server of the first partition.
    async fn ask_first(&self, command: Cmd) -> Result<Value, OpenError> {
        let deadline = Instant::now() + self.settings.connect_within.max(REFRESH_WITHIN);
        let errand = Errand { partition: Partition(0), command };
        let answer = self.run(Line::Reads, &[errand], deadline).await.pop();
        match answer {
            Some(Ok(value)) => Ok(value),
            Some(Err(trouble)) => Err(OpenError::Unready(named(trouble, Partition(0)).to_string().into())),
            None => Err(OpenError::Unready("it was not answered".into())),
        }
    }

    async fn read(&self, asked: Vec<Read>, deadline: Instant) -> Vec<Result<Found, Failure>> {
        let errand = |read: &Read| Errand {
            partition: read.partition,
            command: script(&self.scripts.read, batch::read(&self.names, read.partition, &read.cells), None),
        };
        let errands: Vec<Errand> = asked.iter().map(errand).collect();
        let answers = self.run(Line::Reads, &errands, deadline).await;
        let mut found = Vec::with_capacity(asked.len());
        for (read, answer) in asked.iter().zip(answers) {
            found.push(match answer {
                Ok(value) => self.found(&value, &read.cells).map_err(|why| unexpected(read.partition, why)),
                Err(Trouble::Apart) => self.read_apart(read, deadline).await,
                Err(Trouble::Failure(failure)) => Err(failure),
            });
        }
        found
    }

    /// Reads cells of a partition that is being moved, one by one.
    async fn read_apart(&self, read: &Read, deadline: Instant) -> Result<Found, Failure> {
        let partition = read.partition;
        let names = batch::read(&self.names, partition, &read.cells);
        let mut commands = names.iter().enumerate().map(|(at, name)| {
            let mut command = cmd(if at < HEAD { "GET" } else { "HGETALL" });
            command.arg(name);
            Errand { partition, command }
        });
        let head = commands.by_ref().take(HEAD).collect::<Vec<_>>();
        let cells = commands.collect::<Vec<_>>();
        let whole = |answers: Vec<Result<Value, Trouble>>| -> Result<Vec<Value>, Failure> {
            answers.into_iter().map(|answer| answer.map_err(|trouble| named(trouble, partition))).collect()
        };
        for _ in 0..APART_TRIES {
            let before = whole(self.run(Line::Reads, &head, deadline).await)?;
            let images = whole(self.run(Line::Reads, &cells, deadline).await)?;
            let after = whole(self.run(Line::Reads, &head, deadline).await)?;
            if before == after {
                let value = Value::Array(before.into_iter().chain(images).collect());
                return self.found(&value, &read.cells).map_err(|why| unexpected(partition, why));
            }
        }
        Err(Failure::Moving(partition))
    }

    async fn write(&self, batches: Vec<Batch>, deadline: Instant) -> Vec<Result<Written, Failure>> {
        let mut answers: Vec<Option<Result<Written, Failure>>> = Vec::with_capacity(batches.len());
        let mut errands = Vec::with_capacity(batches.len());
        for batch in &batches {
            match batch::batch(&self.names, batch) {
                Ok(Arguments { keys, argument }) => {
                    let command = script(&self.scripts.apply, keys, Some(argument));
                    errands.push(Errand { partition: batch.partition, command });
                    answers.push(None);
                }
                Err(why) => answers.push(Some(Err(unexpected(batch.partition, why)))),
            }
        }
        let made = self.run(Line::Writes, &errands, deadline).await;
        let mut made = errands.iter().zip(made).map(|(errand, answer)| {
            let partition = errand.partition;
            self.written(partition, answer.map_err(|trouble| named(trouble, partition))?)
        });
        let lost = || Err(Failure::Unreachable("it was not answered".into()));
        answers.into_iter().map(|known| known.or_else(|| made.next()).unwrap_or_else(lost)).collect()
    }

    async fn take(&self, rounds: Vec<Round>, deadline: Instant) -> Vec<Result<Vec<Before>, Failure>> {
        let mut answers: Vec<Option<Result<Vec<Before>, Failure>>> = Vec::with_capacity(rounds.len());
        let (mut errands, mut sent) = (Vec::with_capacity(rounds.len()), Vec::with_capacity(rounds.len()));
        for round in &rounds {
            match exact::round(&self.names, round) {
                Ok(Arguments { keys, argument }) => {
                    let command = script(&self.scripts.take, keys, Some(argument));
                    errands.push(Errand { partition: round.partition, command });
                    sent.push(round);
                    answers.push(None);
                }
                Err(why) => answers.push(Some(Err(unexpected(round.partition, why)))),
            }
        }
        let made = self.run(Line::Takes, &errands, deadline).await;
        let mut made = sent.into_iter().zip(made).map(|(round, answer)| {
            let partition = round.partition;
            match answer.map_err(|trouble| named(trouble, partition))? {
                Value::Nil => Err(self.unconfirmed()),
                Value::BulkString(text) => {
                    let befores = exact::decode(&text, round.number, round.asks.len());
                    befores.map_err(|why| unexpected(partition, why))
                }
                _ => Err(unexpected(partition, "no answer of the script that takes")),
            }
        });
        let lost = || Err(Failure::Unreachable("it was not answered".into()));
        answers.into_iter().map(|known| known.or_else(|| made.next()).unwrap_or_else(lost)).collect()
    }

    /// Why a write that was made is not answered.
    fn unconfirmed(&self) -> Failure {
        let why = format!("fewer than {} replicas have confirmed it", self.settings.replicas);
        Failure::Unreachable(why.into())
    }

    fn written(&self, partition: Partition, value: Value) -> Result<Written, Failure> {
        let parts = match &value {
            Value::Array(parts) => parts.as_slice(),
            Value::Nil => return Err(self.unconfirmed()),
            _ => &[],
        };
        match parts {
            [Value::Int(0), Value::Int(_), Value::Int(damaged), before] => {
                if *damaged > 0 {
                    Counters::add(&self.counters.damaged, damaged.unsigned_abs());
                    tracing::error!(partition = partition.0, damaged, "cells in the cluster are damaged");
                }
                Ok(Written::Now(self.writer(before)))
            }
            [Value::Int(1), ..] => Ok(Written::Before),
            [Value::Int(2), Value::Int(has), ..] => Ok(Written::Behind(u64::try_from(*has).unwrap_or(0))),
            _ => Err(unexpected(partition, "no answer of the script that makes batches")),
        }
    }

    /// The node's number, who wrote last, and an image a cell.
    fn found(&self, value: &Value, cells: &[Cell]) -> Result<Found, &'static str> {
        let Value::Array(parts) = value else { return Err("no answer of the script that reads") };
        let [first, writer, rest @ ..] = parts.as_slice() else {
            return Err("the script that reads answered too little");
        };
        if rest.len() != cells.len() {
            return Err("it answered not as many cells as were asked for");
        }
        let image = |(value, cell): (&Value, &Cell)| image_of(value, &cell.form);
        let images = rest.iter().zip(cells).map(image).collect::<Result<Vec<_>, _>>()?;
        let number = number(first).ok_or("a number of a node is none")?;
        Ok(Found { number, writer: self.writer(writer), images })
    }

    /// Who wrote last: a node, and its number. What is none of that is nobody that is known.
    fn writer(&self, value: &Value) -> Writer {
        let parts = match value {
            Value::BulkString(text) => text.split_first_chunk::<16>(),
            _ => None,
        };
        let parts = parts.and_then(|(node, number)| Some((node, std::str::from_utf8(number).ok()?)));
        match parts.and_then(|(node, number)| Some((node, number.parse().ok()?))) {
            Some((node, number)) if *node == self.settings.node => Writer::This(number),
            Some((node, number)) => Writer::Other(*node, number),
            None => Writer::Unknown,
        }
    }

    async fn claim(&self, claims: Vec<Claim>, deadline: Instant) -> Vec<Result<bool, Failure>> {
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
        let lost = || Err(Failure::Unreachable("it was not answered".into()));
        let mut answers: Vec<Result<bool, Failure>> = claims.iter().map(|_| lost()).collect();
        let mut errands = Vec::with_capacity(groups.len());
        groups.retain(|(partition, group)| {
            let list: Vec<&Claim> = group.iter().map(|at| &claims[*at]).collect();
            match batch::claims(&self.names, *partition, &list) {
                Ok(Arguments { keys, argument }) => {
                    let command = script(&self.scripts.claim, keys, Some(argument));
                    errands.push(Errand { partition: *partition, command });
                    true
                }
                Err(why) => {
                    group.iter().for_each(|at| answers[*at] = Err(unexpected(*partition, why)));
                    false
                }
            }
        });
        let made = self.run(Line::Writes, &errands, deadline).await;
        for ((partition, group), answer) in groups.into_iter().zip(made) {
            let answer = match answer {
                Ok(Value::Array(each)) if each.len() == group.len() => Ok(each),
                Ok(Value::Nil) => Err(self.unconfirmed()),
                Ok(_) => Err(unexpected(partition, "no answer of the script that leaves marks")),
                Err(trouble) => Err(named(trouble, partition)),
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

    async fn numbers(&self, deadline: Instant) -> Vec<Result<u64, Failure>> {
        let errand = |partition| {
            let mut command = cmd("GET");
            command.arg(self.names.number(partition));
            Errand { partition, command }
        };
        let errands: Vec<Errand> = (0..self.settings.partitions.count()).map(Partition).map(errand).collect();
        let answers = self.run(Line::Reads, &errands, deadline).await;
        let number = |(errand, answer): (&Errand, Result<Value, Trouble>)| {
            let value = answer.map_err(|trouble| named(trouble, errand.partition))?;
            number(&value).ok_or_else(|| unexpected(errand.partition, "a number of a node is none"))
        };
        errands.iter().zip(answers).map(number).collect()
    }
}

fn script(script: &Script, keys: Vec<Vec<u8>>, argument: Option<Vec<u8>>) -> Cmd {
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

fn named(trouble: Trouble, partition: Partition) -> Failure {
    match trouble {
        Trouble::Apart => Failure::Moving(partition),
        Trouble::Failure(failure) => failure,
    }
}

fn unexpected(partition: Partition, why: &str) -> Failure {
    Failure::Unexpected(format!("partition {}: {why}", partition.0).into())
}

/// A node's number; zero where there is none.
fn number(value: &Value) -> Option<u64> {
    match value {
        Value::Nil => Some(0),
        Value::BulkString(text) => std::str::from_utf8(text).ok()?.parse().ok(),
        _ => None,
    }
}

fn image_of(value: &Value, form: &Form) -> Result<Option<Image>, &'static str> {
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
fn only<T>(answers: Vec<Result<T, Failure>>) -> Result<T, Failure> {
    answers.into_iter().next().unwrap_or_else(|| Err(Failure::Unreachable("it was not answered".into())))
}

impl Remote for Wire {
    fn read(&self, asked: Vec<Read>, within: Duration) -> Later<'_, Vec<Result<Found, Failure>>> {
        let (inner, deadline) = (self.inner.clone(), Instant::now() + within);
        self.on_runtime(asked.len(), async move { inner.read(asked, deadline).await })
    }

    fn write(&self, batches: Vec<Batch>, within: Duration) -> Later<'_, Vec<Result<Written, Failure>>> {
        let (inner, deadline) = (self.inner.clone(), Instant::now() + within);
        self.on_runtime(batches.len(), async move { inner.write(batches, deadline).await })
    }

    fn claim(&self, claims: Vec<Claim>, within: Duration) -> Later<'_, Vec<Result<bool, Failure>>> {
        let (inner, deadline) = (self.inner.clone(), Instant::now() + within);
        self.on_runtime(claims.len(), async move { inner.claim(claims, deadline).await })
    }

    fn take(&self, rounds: Vec<Round>, within: Duration) -> Later<'_, Vec<Result<Vec<Before>, Failure>>> {
        let (inner, deadline) = (self.inner.clone(), Instant::now() + within);
        self.on_runtime(rounds.len(), async move { inner.take(rounds, deadline).await })
    }

    fn shard(&self, partition: Partition) -> usize {
        self.inner.topology().place(slot::slot_of(partition, self.inner.settings.partitions))
    }

    fn numbers(&self, within: Duration) -> Later<'_, Vec<Result<u64, Failure>>> {
        let (inner, deadline) = (self.inner.clone(), Instant::now() + within);
        let count = usize::from(self.inner.settings.partitions.count());
        self.on_runtime(count, async move { inner.numbers(deadline).await })
    }

    fn generations(&self, known: u64, within: Duration) -> Later<'_, Result<Option<Generations>, Failure>> {
        let (inner, deadline) = (self.inner.clone(), Instant::now() + within);
        let one = self.on_runtime(1, async move { vec![inner.generations(known, deadline).await] });
        Box::pin(async move { only(one.await) })
    }

    fn renew(&self, partitions: Vec<Partition>, within: Duration) -> Later<'_, Result<(), Failure>> {
        let (inner, deadline) = (self.inner.clone(), Instant::now() + within);
        let one = self.on_runtime(1, async move { vec![inner.renew(&partitions, deadline).await] });
        Box::pin(async move { only(one.await) })
    }

    fn figures(&self) -> Vec<Figure> {
        let mut figures = self.inner.counters.figures();
        for shard in self.shards() {
            let name = shard.address.to_string();
            let of = |name_of, help, value| {
                let shard = Some(name.clone());
                Figure { name: name_of, help, is_sum: false, shard, value }
            };
            let is_closed = shard.circuit == Circuit::Closed;
            figures.push(of("circuit_open", "1 if the shard is not asked for now", u64::from(!is_closed)));
            figures.push(of("in_flight", "Round trips that are under way", shard.in_flight as u64));
        }
        figures
    }
}
