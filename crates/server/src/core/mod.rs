//! The basis of all protocols: the node, tokens and admission, connections and their listeners, and metrics. Knows no
//! protocol.

pub(crate) mod admission;
pub(crate) mod auth_failures;
pub(crate) mod blocking;
pub(crate) mod challenges;
pub(crate) mod clock;
pub(crate) mod deadline;
pub(crate) mod descriptors;
pub mod framing;
#[cfg(feature = "grpc")]
pub(crate) mod grpc;
pub(crate) mod inherited_sockets;
pub(crate) mod key_cache;
pub(crate) mod listener;
pub(crate) mod listener_context;
pub(crate) mod load_shedding;
pub(crate) mod lookups;
pub(crate) mod metrics;
pub(crate) mod node;
pub(crate) mod pace;
pub(crate) mod peers;
pub(crate) mod preparation;
pub(crate) mod problem;
pub(crate) mod rate_meter;
pub(crate) mod reading_pool;
pub(crate) mod reload;
pub(crate) mod service_manager;
pub(crate) mod shares;
pub(crate) mod signature_metrics;
pub(crate) mod through;
pub(crate) mod tokens;
pub(crate) mod traffic;
pub mod trusted_proxies;
pub(crate) mod viewer;
pub(crate) mod write_timeout;
