//! The home of an engine's statistics, as its configuration says.

use engine::{Directory, Engine, EngineOpenError};
use plan::Plan;

#[cfg(feature = "cluster")]
use crate::cluster_home;

/// Opens the engine of a data directory, over its own ledger or over a cluster.
///
/// # Errors
/// The engine's; [`EngineOpenError::Cluster`] if the cluster cannot be reached or is another's, or if the program was built
/// without it.
pub(crate) fn open(directory: &Directory, plan: Plan) -> Result<Engine, EngineOpenError> {
    match plan.node.cluster.clone() {
        None => Engine::open(directory, plan),
        #[cfg(feature = "cluster")]
        Some(settings) => cluster_home::open(directory, &settings, plan),
        #[cfg(not(feature = "cluster"))]
        Some(_) => {
            Err(EngineOpenError::Cluster(plan::MissingFeature(plan::BuildFeature::Cluster).to_string()))
        }
    }
}
