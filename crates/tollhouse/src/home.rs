//! Where an engine's statistics live, as its configuration says.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use cluster::remote::Partitions;
use cluster::wire::{Tls, Wire};
use cluster::{Cluster, Threads};
use engine::{ClusterPlan, Directory, Engine, Home, OpenError, Plan};
use event::Span;

/// Threads that talk to the cluster.
const THREADS: usize = 2;

/// Opens the engine of a data directory, over its own ledger or over a cluster.
///
/// # Errors
/// The engine's; [`OpenError::Cluster`] if the cluster cannot be reached or is another's.
pub(crate) fn open(directory: &Directory, plan: Plan) -> Result<Engine, OpenError> {
    if plan.node.cluster.is_none() {
        return Engine::open(directory, plan);
    }
    Engine::open_over(directory, plan, |plan| match &plan.node.cluster {
        Some(settings) => Ok(Home::Elsewhere(Box::new(node(directory, plan, settings)?))),
        None => Err(OpenError::Cluster("what was posted takes the cluster away".to_owned())),
    })
}

fn node(directory: &Directory, plan: &Plan, of: &ClusterPlan) -> Result<Cluster, OpenError> {
    let device = store::FileDevice::open(directory.cluster_path()).map_err(OpenError::Device)?;
    let identity = cluster::identity(&device).map_err(OpenError::Device)?;
    let threads = Threads::new(THREADS).map_err(OpenError::Device)?;
    let partitions = Partitions::new(of.partitions)
        .ok_or_else(|| OpenError::Cluster(format!("{} is no number of partitions", of.partitions)))?;
    let wire = cluster::wire::Settings {
        username: of.user.clone(),
        password: of.password.clone(),
        tls: of.tls.then(|| Tls { authorities: of.tls_ca.clone().map(PathBuf::from) }),
        prefix: of.prefix.clone(),
        replicas: of.replicas,
        partitions,
        ..cluster::wire::Settings::new(of.nodes.clone(), identity)
    };
    let runtime = threads.handle().ok_or_else(|| OpenError::Cluster("no runtime".to_owned()))?;
    let opened = runtime.block_on(Wire::open(wire, runtime.clone()));
    let wire = opened.map_err(|error| OpenError::Cluster(format!("the cluster: {error}")))?;
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
    Ok(Cluster::open(Arc::new(wire), Arc::new(device), catalog, settings, Arc::new(threads))?)
}

fn duration(span: Span) -> Duration {
    Duration::from_micros(span.0.unsigned_abs())
}
