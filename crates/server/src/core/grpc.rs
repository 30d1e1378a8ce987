//! State that a node's gRPC listeners share: places, room for incomplete requests, and counters.

use parking_lot::Mutex;
use std::collections::HashSet;
use std::sync::Arc;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use tokio::sync::Semaphore;

use crate::core::shares::Shares;

/// Streams of batches that may be open at once: each may have a body in memory that is not whole yet.
const STREAMS_MAX: usize = 64;
/// Most limits that metrics tell apart by the values of requests.
const DETAILED_MAX: usize = 1000;

/// A limit of Envoy's configuration, and what came of what was taken from it.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct EnvoyLabel {
    limit: String,
    result: &'static str,
}

/// The result of a take from a limit of Envoy's configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EnvoyResult {
    Within,
    Over,
    /// Over, and let through.
    Shadow,
    /// Over, and told as metadata.
    Quota,
}

/// The resources of listeners over gRPC.
#[derive(Debug)]
pub(crate) struct GrpcResources {
    /// Free places for streams of batches.
    pub(crate) streams: Arc<Semaphore>,
    /// Free bytes for requests that are not whole yet.
    pub(crate) intake: Arc<Shares>,
    /// Bytes of requests that are not whole yet.
    pub(crate) unfinished: Gauge,
    envoy: Family<EnvoyLabel, Counter>,
    /// Limits that are told apart by the values of requests.
    detailed: Mutex<HashSet<String>>,
}

impl GrpcResources {
    /// Returns the resources, with so many bytes for requests that are not whole yet.
    pub(crate) fn new(intake: usize, registry: &mut Registry) -> GrpcResources {
        let (unfinished, envoy) = (Gauge::default(), Family::<EnvoyLabel, Counter>::default());
        let help = "Bytes of gRPC requests that have not arrived in full yet";
        registry.register("tollhouse_grpc_unfinished_bytes", help, unfinished.clone());
        let help = "Hits taken from the limits of Envoy's configuration, by limit and result";
        registry.register("tollhouse_envoy_hits", help, envoy.clone());
        GrpcResources {
            streams: Arc::new(Semaphore::new(STREAMS_MAX)),
            intake: Arc::new(Shares::for_anybody(intake)),
            unfinished,
            envoy,
            detailed: Mutex::default(),
        }
    }

    /// Counts what was taken from a limit of Envoy's configuration. It is told apart by the values of the request where
    /// that is wanted, as long as there are not too many.
    pub(crate) fn envoy_hits(&self, limit: &str, detailed: Option<&str>, result: EnvoyResult, hits: u64) {
        let detailed = detailed.filter(|detailed| {
            let mut known = self.detailed.lock();
            known.contains(*detailed) || (known.len() < DETAILED_MAX && known.insert((*detailed).to_owned()))
        });
        let result = match result {
            EnvoyResult::Within => "within",
            EnvoyResult::Over => "over",
            EnvoyResult::Shadow => "shadow",
            EnvoyResult::Quota => "quota",
        };
        let label = EnvoyLabel { limit: detailed.unwrap_or(limit).to_owned(), result };
        self.envoy.get_or_create(&label).inc_by(hits);
    }
}
