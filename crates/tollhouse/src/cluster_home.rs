//! Statistics in a cluster: a node over it, and commands that end by themselves.

use std::collections::HashSet;
use std::io::BufRead;
use std::sync::Arc;
use std::time::Duration;

use cluster::remote::{self, PartitionCount};
use cluster::wire::{
    ChangeEntry, ChangeEntryKind, ChangeEntryPage, ChangeListPosition, ClusterTls, ShardAnswer,
    SnapshotDescription, StreamExample, StreamPage, StreamPosition, StreamRange, StreamReceipt, WireClient,
};
use cluster::{Cluster, ClusterExport, ClusterTransfer, ClusterTransferReport, ThreadedEnvironment};
use engine::{
    CellSink, ChangePage, ChangePosition, ChangeRegistry, Directory, Engine, EngineOpenError, ExampleId,
    ExamplePage, ExamplePosition, ExampleReceipt, Impact, LedgerHome, ModelSnapshot, NodeEntries,
    NodeRegistry, NumberAllotment, RulesRegistry, ShardHealth, ShardMonitor, SharedChange, SharedChangeKind,
    SharedExample, SharedModelName, SharedRegistries, SharedState, SnapshotStream, StatisticsExchangeError,
    TrainingStreams,
};
use event::{Shingle, Span, Time};
use journal::NodeNumber;
use plan::{ClusterPlan, Plan};
use stats::cell_export::CellDefinition;
use stats::{LedgerExportReport, NumberRegistry};

use crate::clock::now;

/// Threads that talk to the cluster.
const THREADS: usize = 2;

/// Shingled under a secret this tells whether two secrets are the same.
const SECRET_CHECK: &[u8] = b"tollhouse-cluster: which secret is it?";

/// Opens the engine of a data directory over the cluster that its configuration names.
///
/// # Errors
/// The engine's; [`EngineOpenError::Cluster`] if the cluster cannot be reached or is another's.
pub(crate) fn open(
    directory: &Directory,
    settings: &ClusterPlan,
    plan: Plan,
) -> Result<Engine, EngineOpenError> {
    let (device, connection) = connect_node(directory, settings)?;
    let shared = SharedRegistries {
        numbers: Box::new(ClusterNumbers(connection.wire.clone())),
        nodes: Box::new(ClusterNodes::enter(&connection)?),
        shards: Box::new(ClusterShards(connection.wire.clone())),
        rules: Box::new(ClusterRules(connection.wire.clone())),
        examples: Some(Box::new(ClusterTrainingStreams(connection.wire.clone()))),
        changes: Box::new(ClusterChanges(connection.wire.clone())),
    };
    let mut damage = None;
    let engine = Engine::open_over(directory, plan, Some(shared), |plan| match &plan.node.cluster {
        Some(settings) => {
            let node = node(device, connection, plan, settings)?;
            damage = node.damage();
            Ok(LedgerHome::Elsewhere(Box::new(node)))
        }
        None => Err(EngineOpenError::Cluster("what was posted takes the cluster away".to_owned())),
    })?;
    engine.health().set("cluster-journal-damaged", Impact::Degraded, damage);
    Ok(engine)
}

/// The registry of numbers that nodes share.
struct ClusterNumbers(WireClient);

impl NumberAllotment for ClusterNumbers {
    fn allot(&self, known: &NumberRegistry, wanted: &NumberRegistry) -> Result<NumberRegistry, String> {
        pollster::block_on(self.0.allot_numbers(known, wanted)).map_err(|error| error.to_string())
    }
}

/// The rules that were posted, for all nodes.
struct ClusterRules(WireClient);

impl RulesRegistry for ClusterRules {
    fn last(&self) -> Result<SharedState, String> {
        let last = pollster::block_on(self.0.last_rules());
        last.map(|(number, digest)| SharedState { number, digest }).map_err(|error| error.to_string())
    }

    fn text(&self, state: &SharedState) -> Result<String, String> {
        pollster::block_on(self.0.rules(state.digest.clone())).map_err(|error| error.to_string())
    }

    fn put(&self, state: &SharedState, text: String) -> Result<bool, String> {
        let known = state.number.saturating_sub(1);
        let put = self.0.put_rules(known, state.digest.clone(), text);
        pollster::block_on(put).map_err(|error| error.to_string())
    }
}

/// The examples of linear models, for all nodes.
struct ClusterTrainingStreams(WireClient);

/// The time for which a node may write a snapshot of a model until another one may.
const LEASE: Duration = Duration::from_secs(60);

impl ClusterTrainingStreams {
    fn position(
        ExamplePosition { number, id: ExampleId { sender, number: of_sender } }: ExamplePosition,
    ) -> StreamPosition {
        StreamPosition { number, id: [sender, of_sender] }
    }

    fn example_position(
        StreamPosition { number, id: [sender, of_sender] }: StreamPosition,
    ) -> ExamplePosition {
        ExamplePosition { number, id: ExampleId { sender, number: of_sender } }
    }
}

impl TrainingStreams for ClusterTrainingStreams {
    fn append(
        &self,
        model: SharedModelName,
        known: u64,
        examples: &[SharedExample],
    ) -> Result<ExampleReceipt, String> {
        let of = |SharedExample { id, bytes }: &SharedExample| StreamExample {
            id: [id.sender, id.number],
            content: bytes.clone(),
        };
        let sent = self.0.append_examples(model, known, examples.iter().map(of).collect());
        let StreamReceipt { last, is_full, is_behind } =
            pollster::block_on(sent).map_err(|error| error.to_string())?;
        Ok(ExampleReceipt { last, is_full, is_behind })
    }

    fn after(&self, model: SharedModelName, position: ExamplePosition) -> Result<ExamplePage, String> {
        let page = self.0.examples_after(model, ClusterTrainingStreams::position(position));
        let StreamPage { head, bytes, snapshot, is_snapshot_wanted, follows, examples } =
            pollster::block_on(page).map_err(|error| error.to_string())?;
        let snapshot = snapshot.map(|SnapshotDescription { position, lease, pieces }| ModelSnapshot {
            position: ClusterTrainingStreams::example_position(position),
            lease,
            pieces,
        });
        let of = |StreamExample { id: [sender, number], content }| SharedExample {
            id: ExampleId { sender, number },
            bytes: content,
        };
        let examples = examples.into_iter().map(of).collect();
        Ok(ExamplePage { head, bytes, snapshot, is_snapshot_wanted, follows, examples })
    }

    fn snapshot(&self, model: SharedModelName, of: &ModelSnapshot) -> Result<Option<Vec<u8>>, String> {
        let ModelSnapshot { position, lease, pieces } = *of;
        let of = SnapshotDescription { position: ClusterTrainingStreams::position(position), lease, pieces };
        pollster::block_on(self.0.model_snapshot(model, of)).map_err(|error| error.to_string())
    }

    fn ask_for_snapshot(&self, model: SharedModelName) -> Result<(), String> {
        pollster::block_on(self.0.ask_for_model_snapshot(model)).map_err(|error| error.to_string())
    }

    fn lease(&self, model: SharedModelName) -> Result<Option<u64>, String> {
        pollster::block_on(self.0.lease_model(model, LEASE)).map_err(|error| error.to_string())
    }

    fn put_snapshot(
        &self,
        model: SharedModelName,
        lease: u64,
        position: ExamplePosition,
        stream: SnapshotStream,
        content: &[u8],
    ) -> Result<bool, String> {
        let range = match stream {
            SnapshotStream::Continued { kept } => StreamRange::Kept(kept),
            SnapshotStream::Begun { known } => StreamRange::Instead(known),
        };
        let position = ClusterTrainingStreams::position(position);
        let put = self.0.put_model_snapshot(model, lease, position, range, content.to_vec());
        pollster::block_on(put).map_err(|error| error.to_string())
    }
}

/// The list of changes that nodes share.
struct ClusterChanges(WireClient);

impl ChangeRegistry for ClusterChanges {
    fn since(&self, position: ChangePosition) -> Result<Option<ChangePage>, String> {
        let ChangePosition { number, call, tag } = position;
        let position = ChangeListPosition { number, call, tag };
        let page = pollster::block_on(self.0.changes_since(position)).map_err(|error| error.to_string())?;
        let change = |ChangeEntry { subject, kind, until, text }| SharedChange {
            subject,
            kind: match kind {
                ChangeEntryKind::Put => SharedChangeKind::Put,
                ChangeEntryKind::Set => SharedChangeKind::Set,
                ChangeEntryKind::Lift => SharedChangeKind::Lift,
            },
            until: Time(i64::try_from(until).unwrap_or(i64::MAX)),
            text,
        };
        Ok(page.map(|ChangeEntryPage { entries, position, has_more }| {
            let ChangeListPosition { number, call, tag } = position;
            let changes = entries.into_iter().map(change).collect();
            ChangePage { changes, position: ChangePosition { number, call, tag }, has_more }
        }))
    }

    fn append(&self, changes: Vec<SharedChange>, horizon: Time) -> Result<usize, String> {
        let micros = |time: Time| u64::try_from(time.0).unwrap_or_default();
        let entry = |SharedChange { subject, kind, until, text }| ChangeEntry {
            subject,
            kind: match kind {
                SharedChangeKind::Put => ChangeEntryKind::Put,
                SharedChangeKind::Set => ChangeEntryKind::Set,
                SharedChangeKind::Lift => ChangeEntryKind::Lift,
            },
            until: micros(until),
            text,
        };
        let entries = changes.into_iter().map(entry).collect();
        pollster::block_on(self.0.append_changes(entries, micros(horizon))).map_err(|error| error.to_string())
    }
}

/// The registry of nodes in the cluster, with this node's number.
struct ClusterNodes {
    wire: WireClient,
    number: NodeNumber,
}

impl ClusterNodes {
    /// Has this node's number told, or allotted.
    fn enter(connection: &ClusterConnection) -> Result<ClusterNodes, EngineOpenError> {
        let wire = connection.wire.clone();
        let number = pollster::block_on(wire.node_number(NodeNumber::MAX))
            .map_err(|error| EngineOpenError::Cluster(format!("this node's number: {error}")))?;
        let number = NodeNumber::new(number)
            .ok_or_else(|| EngineOpenError::Cluster(format!("{number} is no number of a node")))?;
        Ok(ClusterNodes { wire, number })
    }
}

impl NodeRegistry for ClusterNodes {
    fn number(&self) -> NodeNumber {
        self.number
    }

    fn announce(&self, entry: String) -> Result<NodeEntries, String> {
        let entries = pollster::block_on(self.wire.announce(self.number.get(), entry));
        let entries = entries.map_err(|error| error.to_string())?.into_iter();
        Ok(entries.filter_map(|(number, entry)| Some((NodeNumber::new(number)?, entry))).collect())
    }

    fn forget(&self, number: NodeNumber) -> Result<bool, String> {
        pollster::block_on(self.wire.forget_node(number.get())).map_err(|error| error.to_string())
    }
}

/// The servers of the cluster.
struct ClusterShards(WireClient);

impl ShardMonitor for ClusterShards {
    fn shards(&self) -> Vec<ShardHealth> {
        let answers = pollster::block_on(self.0.shard_answers()).into_iter();
        answers.map(|ShardAnswer { name, failure }| ShardHealth { name, failure }).collect()
    }
}

/// A node's own device, which it locks, and its way to the cluster.
fn connect_node(
    directory: &Directory,
    of: &ClusterPlan,
) -> Result<(disk::FileDevice, ClusterConnection), EngineOpenError> {
    let device = disk::FileDevice::open(directory.cluster_path()).map_err(EngineOpenError::Device)?;
    let identity = cluster::identity(&device).map_err(EngineOpenError::Device)?;
    let connection = connect(directory, of, identity)?;
    Ok((device, connection))
}

fn node(
    device: disk::FileDevice,
    connection: ClusterConnection,
    plan: &Plan,
    of: &ClusterPlan,
) -> Result<Cluster, EngineOpenError> {
    let ClusterConnection { wire, partitions, threads } = connection;
    let settings = cluster::ClusterSettings {
        durability: plan.node.durability,
        flush_every: duration(of.flush),
        fresh_for: duration(of.fresh),
        stale_for: duration(of.stale),
        within: duration(of.timeout),
        cache_bytes: plan.node.ledger_memory,
        journal_bytes_max: of.backlog,
        retain: duration(of.retain),
        ..cluster::ClusterSettings::new(partitions)
    };
    let catalog = plan.catalog.clone();
    let cluster =
        Cluster::open(Arc::new(wire.clone()), Arc::new(device), catalog, settings, Arc::new(threads))?;
    cluster.sweep(&wire, of.sweep);
    cluster.erase_by(&wire);
    Ok(cluster)
}

/// A way to the cluster, and what it runs on.
struct ClusterConnection {
    wire: WireClient,
    partitions: PartitionCount,
    threads: ThreadedEnvironment,
}

fn connect(
    directory: &Directory,
    of: &ClusterPlan,
    identity: [u8; 16],
) -> Result<ClusterConnection, EngineOpenError> {
    let threads = ThreadedEnvironment::new(THREADS).map_err(EngineOpenError::Device)?;
    let partitions = PartitionCount::new(of.partitions)
        .ok_or_else(|| EngineOpenError::Cluster(format!("{} is no number of partitions", of.partitions)))?;
    let settings = cluster::wire::WireSettings {
        username: of.user.clone(),
        password: of.password.clone(),
        tls: of.tls.then(|| ClusterTls { authorities: of.tls_ca.clone() }),
        prefix: of.prefix.clone(),
        replicas: of.replicas,
        partitions,
        secret: Some(directory.secret()?.shingle(SECRET_CHECK).0.to_be_bytes()),
        ..cluster::wire::WireSettings::new(of.nodes.clone(), identity)
    };
    let runtime = threads.handle().ok_or_else(|| EngineOpenError::Cluster("no runtime".to_owned()))?;
    let opened = runtime.block_on(WireClient::open(settings, runtime.clone()));
    let wire = opened.map_err(|error| EngineOpenError::Cluster(format!("the cluster: {error}")))?;
    Ok(ClusterConnection { wire, partitions, threads })
}

/// A way of a command that ends by itself, under a name that no node has.
fn connect_for_command(
    directory: &Directory,
    of: &ClusterPlan,
) -> Result<ClusterConnection, EngineOpenError> {
    let mut identity = [0; 16];
    getrandom::fill(&mut identity).map_err(|error| EngineOpenError::Random(error.to_string()))?;
    connect(directory, of, identity)
}

impl ClusterConnection {
    /// Waits for a call to the cluster.
    fn wait<T>(
        &self,
        call: impl Future<Output = Result<T, remote::RemoteError>>,
    ) -> Result<T, StatisticsExchangeError> {
        let runtime = self
            .threads
            .handle()
            .ok_or_else(|| StatisticsExchangeError::Elsewhere("no runtime".to_owned()))?;
        runtime
            .block_on(call)
            .map_err(|failure| StatisticsExchangeError::Elsewhere(format!("the cluster: {failure}")))
    }
}

/// Makes the cluster's statistics those of an export, or only compares them, with `tell` hearing of the keys read so
/// far.
///
/// # Errors
/// What is wrong with the export or the cluster.
pub(crate) fn transfer(
    directory: &Directory,
    plan: Plan,
    of: &ClusterPlan,
    input: &mut dyn BufRead,
    writes: bool,
    tell: &mut dyn FnMut(u64),
) -> Result<ClusterTransferReport, StatisticsExchangeError> {
    let way = connect_for_command(directory, of)?;
    let plan = &directory.numbered(plan, &ClusterNumbers(way.wire.clone()))?;
    let mut transfer = ClusterTransfer::new(Arc::new(way.wire.clone()), way.partitions, now(), writes);
    let mut keys = 0;
    let read = directory.read_statistics(&plan.numbers, input, &mut |definitions, cells| {
        keys += cells.len() as u64;
        let mut named = Vec::with_capacity(cells.len());
        for cell in cells {
            let definition = definitions.get(cell.definition).ok_or("a cell has no definition")?;
            check(plan, definition)?;
            named.push((definition, cell));
        }
        way.wait(transfer.take(named)).map_err(|error| error.to_string())?;
        tell(keys);
        Ok(())
    });
    // Nodes are told also of the part that an import has come to.
    let ended = way.wait(transfer.end());
    read.and(ended)
}

/// The statistics of a cluster, to be exported.
pub(crate) struct ClusterStatistics {
    connection: ClusterConnection,
    definitions: Vec<CellDefinition>,
    /// Keys that were left out, since nothing here says what they mean.
    pub(crate) others: u64,
}

impl ClusterStatistics {
    /// Opens the statistics that a plan names.
    ///
    /// # Errors
    /// [`ClusterOpenError`] as for a node.
    pub(crate) fn open(
        directory: &Directory,
        plan: Plan,
        of: &ClusterPlan,
    ) -> Result<ClusterStatistics, EngineOpenError> {
        let connection = connect_for_command(directory, of)?;
        let plan = directory.numbered(plan, &ClusterNumbers(connection.wire.clone()))?;
        let definitions = ClusterExport::definitions(&plan.catalog);
        Ok(ClusterStatistics { connection, definitions, others: 0 })
    }
}

impl engine::ExportableStatistics for ClusterStatistics {
    fn definitions(&self) -> Vec<CellDefinition> {
        self.definitions.clone()
    }

    fn export(&mut self, each: &mut CellSink<'_>) -> Result<LedgerExportReport, StatisticsExchangeError> {
        let mut export =
            self.connection.wait(ClusterExport::begin(&self.connection.wire, &self.definitions))?;
        while let Some(cells) = self.connection.wait(export.next())? {
            cells.into_iter().try_for_each(&mut *each)?;
        }
        let cluster::ClusterExportReport { cells, lost, others } = export.done();
        self.others = others;
        Ok(LedgerExportReport { cells, lost, ..LedgerExportReport::default() })
    }
}

/// Erases the statistics of shingles in a cluster, or only counts their keys.
///
/// # Errors
/// What is wrong with the cluster, or what this node has to send there.
pub(crate) fn erase(
    directory: &Directory,
    plan: Plan,
    of: &ClusterPlan,
    shingles: &HashSet<Shingle>,
    pretend: bool,
    tell: &mut dyn FnMut(u64),
) -> Result<u64, StatisticsExchangeError> {
    // What this node has not sent yet would come back.
    let (device, connection) = connect_node(directory, of)?;
    let plan = directory.numbered(plan, &ClusterNumbers(connection.wire.clone()))?;
    let node = node(device, connection, &plan, of)?;
    if !pollster::block_on(node.drain()) {
        let why = "the cluster has not taken all that this node has counted: nothing was erased there";
        return Err(StatisticsExchangeError::Elsewhere(why.to_owned()));
    }
    drop(node);
    let way = connect_for_command(directory, of)?;
    way.wait(cluster::erase(&way.wire, shingles, pretend, tell))
}

/// Refuses what nodes with this configuration would never read.
fn check(plan: &Plan, definition: &CellDefinition) -> Result<(), String> {
    let own = plan.catalog.get(definition.space, definition.kind);
    let own = own.map(|own| CellDefinition::new(definition.space, definition.kind, own));
    match own {
        Some(own) if own.id() == definition.id() => Ok(()),
        Some(_) => Err(format!(
            "`{}` of `{}` is kept otherwise here: import into a data directory with this configuration, which translates \
             it, and export that",
            definition.statistic, definition.kind_name
        )),
        None => Err(format!("the configuration has no kind `{}`", definition.kind_name)),
    }
}

fn duration(span: Span) -> Duration {
    Duration::from_micros(span.0.unsigned_abs())
}
