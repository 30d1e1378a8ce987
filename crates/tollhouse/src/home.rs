//! Where an engine's statistics live, as its configuration says.

use std::collections::HashSet;
use std::io::BufRead;
use std::sync::Arc;
use std::time::Duration;

use cluster::remote::{self, Partitions};
use cluster::wire::{Tls, Wire};
use cluster::{Cluster, Export, Threads, Transfer, Transferred};
use engine::{ClusterPlan, Directory, Engine, GivesCell, Home, Impact, OpenError, Plan, PortableError};
use event::{Shingle, Span};
use stats::portable::Definition;
use stats::{Exported, LedgerError};

use crate::clock::now;

/// Threads that talk to the cluster.
const THREADS: usize = 2;

/// Shingled under a secret this tells whether two secrets are the same.
const SECRET_CHECK: &[u8] = b"tollhouse-cluster: which secret is it?";

/// Opens the engine of a data directory, over its own ledger or over a cluster.
///
/// # Errors
/// The engine's; [`OpenError::Cluster`] if the cluster cannot be reached or is another's.
pub(crate) fn open(directory: &Directory, plan: Plan) -> Result<Engine, OpenError> {
    if plan.node.cluster.is_none() {
        return Engine::open(directory, plan);
    }
    let mut damage = None;
    let engine = Engine::open_over(directory, plan, |plan| match &plan.node.cluster {
        Some(settings) => {
            let node = node(directory, plan, settings)?;
            damage = node.damage();
            Ok(Home::Elsewhere(Box::new(node)))
        }
        None => Err(OpenError::Cluster("what was posted takes the cluster away".to_owned())),
    })?;
    engine.health().set("cluster-journal-damaged", Impact::Degraded, damage);
    Ok(engine)
}

fn node(directory: &Directory, plan: &Plan, of: &ClusterPlan) -> Result<Cluster, OpenError> {
    let device = store::FileDevice::open(directory.cluster_path()).map_err(OpenError::Device)?;
    let identity = cluster::identity(&device).map_err(OpenError::Device)?;
    let Way { wire, partitions, threads } = way(directory, of, identity)?;
    let settings = cluster::Settings {
        durability: plan.node.durability,
        flush_every: duration(of.flush),
        fresh_for: duration(of.fresh),
        stale_for: duration(of.stale),
        within: duration(of.timeout),
        cache_bytes: plan.node.ledger_memory,
        journal_bytes_max: of.backlog,
        retain: duration(of.retain),
        ..cluster::Settings::new(partitions)
    };
    let catalog = plan.catalog.clone();
    let cluster =
        Cluster::open(Arc::new(wire.clone()), Arc::new(device), catalog, settings, Arc::new(threads))?;
    cluster.sweep(&wire, of.sweep);
    Ok(cluster)
}

/// A way to the cluster, and what it runs on.
struct Way {
    wire: Wire,
    partitions: Partitions,
    threads: Threads,
}

fn way(directory: &Directory, of: &ClusterPlan, identity: [u8; 16]) -> Result<Way, OpenError> {
    let threads = Threads::new(THREADS).map_err(OpenError::Device)?;
    let partitions = Partitions::new(of.partitions)
        .ok_or_else(|| OpenError::Cluster(format!("{} is no number of partitions", of.partitions)))?;
    let settings = cluster::wire::Settings {
        username: of.user.clone(),
        password: of.password.clone(),
        tls: of.tls.then(|| Tls { authorities: of.tls_ca.clone() }),
        prefix: of.prefix.clone(),
        replicas: of.replicas,
        partitions,
        secret: Some(directory.secret()?.shingle(SECRET_CHECK).0.to_be_bytes()),
        ..cluster::wire::Settings::new(of.nodes.clone(), identity)
    };
    let runtime = threads.handle().ok_or_else(|| OpenError::Cluster("no runtime".to_owned()))?;
    let opened = runtime.block_on(Wire::open(settings, runtime.clone()));
    let wire = opened.map_err(|error| OpenError::Cluster(format!("the cluster: {error}")))?;
    Ok(Way { wire, partitions, threads })
}

/// A way of a command that ends by itself, under a name that no node has.
fn way_of_command(directory: &Directory, of: &ClusterPlan) -> Result<Way, OpenError> {
    let mut identity = [0; 16];
    getrandom::fill(&mut identity).map_err(|error| OpenError::Random(error.to_string()))?;
    way(directory, of, identity)
}

impl Way {
    /// Waits for a call to the cluster.
    fn wait<T>(&self, call: impl Future<Output = Result<T, remote::Failure>>) -> Result<T, PortableError> {
        let runtime =
            self.threads.handle().ok_or_else(|| PortableError::Elsewhere("no runtime".to_owned()))?;
        runtime.block_on(call).map_err(|failure| PortableError::Elsewhere(format!("the cluster: {failure}")))
    }
}

/// Makes the cluster's statistics those of an export, or only compares them, with `tell` hearing of the keys read so
/// far.
///
/// # Errors
/// What is wrong with the export or the cluster.
pub(crate) fn transfer(
    directory: &Directory,
    plan: &Plan,
    of: &ClusterPlan,
    input: &mut dyn BufRead,
    writes: bool,
    tell: &mut dyn FnMut(u64),
) -> Result<Transferred, PortableError> {
    let way = way_of_command(directory, of)?;
    let mut transfer = Transfer::new(Arc::new(way.wire.clone()), way.partitions, now(), writes);
    let mut keys = 0;
    let read = directory.read_statistics(input, &mut |definitions, cells| {
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
pub(crate) struct Statistics {
    way: Way,
    definitions: Vec<Definition>,
    /// Keys that were left out, since nothing here says what they mean.
    pub(crate) others: u64,
}

impl Statistics {
    /// Those that a plan says how to read.
    ///
    /// # Errors
    /// [`OpenError`] as for a node.
    pub(crate) fn open(
        directory: &Directory,
        plan: &Plan,
        of: &ClusterPlan,
    ) -> Result<Statistics, OpenError> {
        let definitions = Export::definitions(&plan.catalog).map_err(LedgerError::Catalog)?;
        Ok(Statistics { way: way_of_command(directory, of)?, definitions, others: 0 })
    }
}

impl engine::Statistics for Statistics {
    fn definitions(&self) -> Vec<Definition> {
        self.definitions.clone()
    }

    fn export(&mut self, each: &mut GivesCell<'_>) -> Result<Exported, PortableError> {
        let mut export = self.way.wait(Export::begin(&self.way.wire, &self.definitions))?;
        while let Some(cells) = self.way.wait(export.next())? {
            cells.into_iter().try_for_each(&mut *each)?;
        }
        let cluster::Exported { cells, lost, others } = export.done();
        self.others = others;
        Ok(Exported { cells, lost, ..Exported::default() })
    }
}

/// Erases the statistics of shingles in a cluster, or only counts their keys.
///
/// # Errors
/// What is wrong with the cluster, or what this node has to send there.
pub(crate) fn erase(
    directory: &Directory,
    plan: &Plan,
    of: &ClusterPlan,
    shingles: &HashSet<Shingle>,
    pretend: bool,
    tell: &mut dyn FnMut(u64),
) -> Result<u64, PortableError> {
    // What this node has not sent yet would come back.
    let node = node(directory, plan, of)?;
    if !pollster::block_on(node.drain()) {
        let why = "the cluster has not taken all that this node has counted: nothing was erased there";
        return Err(PortableError::Elsewhere(why.to_owned()));
    }
    drop(node);
    let way = way_of_command(directory, of)?;
    way.wait(cluster::erase(&way.wire, shingles, pretend, tell))
}

/// Refuses what nodes with this configuration would never read.
fn check(plan: &Plan, definition: &Definition) -> Result<(), String> {
    let own = plan.catalog.get(definition.space, definition.kind);
    let own = own.and_then(|own| Definition::new(definition.space, definition.kind, own).ok());
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
