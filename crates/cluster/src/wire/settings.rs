//! Settings of the connection to a cluster.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use super::topology::ServerAddress;
use crate::remote::PartitionCount;

/// Settings of the cluster's client: addresses, credentials and time limits.
#[derive(Clone)]
pub struct WireSettings {
    /// Some of its servers, each `host:port`. The others are found by asking these.
    pub nodes: Vec<String>,
    /// The user that asks, where servers have users.
    pub username: Option<String>,
    /// The user's password.
    pub password: Option<String>,
    /// The encryption of connections, if they are encrypted.
    pub tls: Option<ClusterTls>,
    /// The prefix that the names of all keys begin with, so that several installations can share a cluster. At most 64 bytes,
    /// without braces.
    pub prefix: String,
    /// The number of replicas that must have a write before it counts as made. Zero waits for none: what a failing master had
    /// not passed on is then sent again, as long as the node has it.
    pub replicas: u8,
    /// Into how many parts keys are divided, if the cluster is new; one that is in use must have as many.
    pub partitions: PartitionCount,
    /// A fingerprint of the secret that keys shingles. The first node that has one leaves it in the cluster, and none
    /// with another is let in: it would count the same pieces under other keys.
    pub secret: Option<[u8; 8]>,
    /// The id of this node. Two that run at once must differ; one that comes back must keep its own.
    pub node: [u8; 16],
    /// The time to wait for a connection.
    pub connect_within: Duration,
    /// The time for which [`super::WireClient::open`] goes on trying to reach the cluster.
    pub open_within: Duration,
    /// The time after which it is asked again where slots are, when nothing else gives a reason.
    pub refresh_every: Duration,
    /// The number of round trips to a server, each of one call, that may be under way.
    pub in_flight_max: usize,
    /// After so many failures in a row a server is not asked for a while.
    pub failures_max: u32,
    /// The time for which the server is not asked. Then one call tries.
    pub pause: Duration,
    /// Addresses to connect to instead of an announced `host:port`: for networks that translate addresses.
    pub reach: Vec<(String, String)>,
}

/// Encryption of connections.
#[derive(Clone, Debug, Default)]
pub struct ClusterTls {
    /// Certificates of authorities that servers' certificates must lead to, in PEM. None for those of the system.
    pub authorities: Option<PathBuf>,
}

impl WireSettings {
    /// The usual ones: 1024 partitions, no user, no encryption, one replica to wait for.
    pub fn new(nodes: Vec<String>, node: [u8; 16]) -> WireSettings {
        WireSettings {
            nodes,
            username: None,
            password: None,
            tls: None,
            prefix: "tollhouse:".to_owned(),
            replicas: 1,
            partitions: PartitionCount::USUAL,
            secret: None,
            node,
            connect_within: Duration::from_secs(1),
            open_within: Duration::from_secs(30),
            refresh_every: Duration::from_secs(10),
            in_flight_max: 64,
            failures_max: 5,
            pause: Duration::from_millis(500),
            reach: Vec::new(),
        }
    }
}

impl WireSettings {
    /// The address to connect to for a server.
    pub(super) fn reached(&self, server: &ServerAddress) -> ServerAddress {
        let announced = server.to_string();
        let reach = self.reach.iter().find(|(from, _)| *from == announced);
        reach.and_then(|(_, to)| ServerAddress::parse(to)).unwrap_or_else(|| server.clone())
    }
}

impl fmt::Debug for WireSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings")
            .field("nodes", &self.nodes)
            .field("username", &self.username)
            .field("password", &self.password.as_ref().map(|_| "..."))
            .field("tls", &self.tls)
            .field("prefix", &self.prefix)
            .field("replicas", &self.replicas)
            .field("partitions", &self.partitions)
            .finish_non_exhaustive()
    }
}
