//! The cluster that statistics live in, where they do not live in the data directory.

use std::fmt;
use std::path::PathBuf;

use event::Span;

use crate::config::{ConfigProblems, ConfigView, Document};
use crate::tls::beside;

/// The way to reach the cluster, and what a node keeps of it.
#[derive(Clone, PartialEq)]
pub struct ClusterPlan {
    /// Some of its servers, each `host:port`.
    pub nodes: Vec<String>,
    /// The user who asks.
    pub user: Option<String>,
    /// The user's password.
    pub password: Option<String>,
    /// True if connections are encrypted.
    pub tls: bool,
    /// Authorities that servers' certificates must lead to, in PEM; those of the system without.
    pub tls_ca: Option<PathBuf>,
    /// The prefix that all keys begin with.
    pub prefix: String,
    /// Into how many parts keys are divided.
    pub partitions: u16,
    /// Replicas that must have a write before it counts as made.
    pub replicas: u8,
    /// The interval at which what was added is sent.
    pub flush: Span,
    /// The time for which what was read is answered without being read again.
    pub fresh: Span,
    /// The time for which what was read is answered while it is read again.
    pub stale: Span,
    /// The time for which a decision waits for the cluster.
    pub timeout: Span,
    /// The shards without which the node takes no requests.
    pub unready: UnreadyShards,
    /// The time for which what the cluster has acknowledged is kept, for the case that it loses it.
    pub retain: Span,
    /// Bytes of what is not sent yet.
    pub backlog: u64,
    /// Keys a second that are looked at by the slow pass.
    pub sweep: u32,
    /// The URL at which other nodes reach this one.
    pub advertise: Option<String>,
    /// Authorities that other nodes' certificates must lead to, in PEM.
    pub peer_ca: Option<PathBuf>,
    /// The certificate that other nodes are shown, and its key.
    pub peer_identity: Option<(PathBuf, PathBuf)>,
}

/// The shards that must be away for a node to take no requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnreadyShards {
    /// Requests are taken without any: by `on_error`, and by what it knows itself.
    Never,
    /// One of them.
    Some,
    /// All of them.
    All,
}

impl UnreadyShards {
    /// Returns true if a node of which so many shards are away should be sent no requests.
    pub fn is_unready(self, away: usize, all: usize) -> bool {
        match self {
            UnreadyShards::Never => false,
            UnreadyShards::Some => away > 0,
            UnreadyShards::All => away > 0 && away >= all,
        }
    }
}

impl fmt::Debug for ClusterPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClusterPlan")
            .field("nodes", &self.nodes)
            .field("prefix", &self.prefix)
            .finish_non_exhaustive()
    }
}

impl ClusterPlan {
    /// Reads `[cluster]`; `None` if it is not there: statistics live in the data directory.
    pub(super) fn compile(document: &Document, problems: &mut ConfigProblems) -> Option<ClusterPlan> {
        let view = document.section("cluster").filter(ConfigView::is_written)?;
        let nodes: Vec<String> = view.strings("nodes").into_iter().map(|(node, _)| node.to_owned()).collect();
        if nodes.is_empty() {
            let help = "name some of its servers: nodes = [\"10.0.0.1:6379\", \"10.0.0.2:6379\"]".to_owned();
            problems.add(view.first_origin(), "[cluster] has no `nodes`", Some(help));
        }
        if let Some(ledger) = document.section("ledger").filter(|ledger| ledger.is_given("segment")) {
            let help = "take it out: statistics that live in a cluster have no segments here".to_owned();
            problems.add(ledger.origin("segment"), "`segment` does nothing beside [cluster]", Some(help));
        }
        for (node, origin) in view.strings("nodes") {
            if is_service(node) {
                continue;
            }
            let port = node.rsplit_once(':').and_then(|(host, port)| {
                (!host.is_empty() && !host.contains(['/', '+'])).then(|| port.parse::<u16>().ok())?
            });
            if port.is_none_or(|port| port == 0) {
                let help = "write a host and a port, such as `10.0.0.1:6379` or `[fd00::1]:6379`, or a service as `dnssrv+_redis._tcp.example.org`".to_owned();
                problems.add(origin, format!("`{node}` is no server of a cluster"), Some(help));
            }
        }
        let integer = |key: &str| view.integer(key).unwrap_or_default();
        let partitions = u16::try_from(integer("partitions")).unwrap_or_default();
        if !partitions.is_power_of_two() {
            let help = "write a power of two; it cannot be changed later".to_owned();
            problems.add(view.origin("partitions"), format!("{partitions} is no power of two"), Some(help));
        }
        let prefix = view.str("prefix").unwrap_or_default();
        if prefix.len() > PREFIX_BYTES_MAX || prefix.contains(['{', '}']) {
            let help = format!("write at most {PREFIX_BYTES_MAX} bytes and no braces");
            problems.add(view.origin("prefix"), "keys cannot begin with it", Some(help));
        }
        if view.str("tls_ca").is_some() && view.bool("tls") != Some(true) {
            let help = "add tls = true".to_owned();
            problems.add(view.origin("tls_ca"), "connections are not encrypted", Some(help));
        }
        if let Some(url) = view.str("advertise").filter(|url| !is_base_url(url)) {
            let help = "write a scheme, a host and a port, such as `http://10.0.0.7:8377`".to_owned();
            problems.add(view.origin("advertise"), format!("`{url}` is no URL of a node"), Some(help));
        }
        let path =
            |key: &str| view.str(key).filter(|path| !path.is_empty()).map(|path| beside(&view, key, path));
        let peer_identity = match (path("peer_certificate"), path("peer_key")) {
            (Some(certificate), Some(key)) => Some((certificate, key)),
            (None, None) => None,
            _ => {
                let key = if view.is_given("peer_key") { "peer_key" } else { "peer_certificate" };
                let help = "give both, or none: then nodes show the certificate of their listener".to_owned();
                problems.add(
                    view.origin(key),
                    "`peer_certificate` and `peer_key` belong together",
                    Some(help),
                );
                None
            }
        };
        let span = |key: &str| view.span(key).unwrap_or(Span::seconds(1));
        Some(ClusterPlan {
            nodes,
            user: view.str("user").map(str::to_owned),
            password: view.str("password").map(str::to_owned),
            tls: view.bool("tls").unwrap_or_default(),
            tls_ca: path("tls_ca"),
            prefix: prefix.to_owned(),
            partitions,
            replicas: u8::try_from(integer("replicas")).unwrap_or_default(),
            flush: span("flush"),
            fresh: span("fresh"),
            stale: span("stale"),
            timeout: span("timeout"),
            unready: match view.str("unready") {
                Some("some") => UnreadyShards::Some,
                Some("all") => UnreadyShards::All,
                _ => UnreadyShards::Never,
            },
            retain: span("retain"),
            backlog: view.size("backlog").unwrap_or(u64::MAX),
            sweep: u32::try_from(integer("sweep")).unwrap_or_default(),
            advertise: view.str("advertise").map(str::to_owned),
            peer_ca: path("peer_ca"),
            peer_identity,
        })
    }
}

/// Returns true for the name of a service: its servers are looked up.
fn is_service(node: &str) -> bool {
    let is_label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
    };
    let name = node.strip_prefix("dnssrv+").map(|name| name.strip_suffix('.').unwrap_or(name));
    name.is_some_and(|name| name.len() <= 253 && name.contains('.') && name.split('.').all(is_label))
}

/// Returns true for a URL with a scheme and a host, and nothing behind them.
fn is_base_url(url: &str) -> bool {
    let rest = url.strip_prefix("http://").or_else(|| url.strip_prefix("https://"));
    let rest = rest.map(|rest| rest.strip_suffix('/').unwrap_or(rest));
    let is_of_host = |c: char| c.is_ascii_alphanumeric() || ".-:[]_".contains(c);
    rest.is_some_and(|host| !host.is_empty() && host.len() <= 255 && host.chars().all(is_of_host))
}

/// Longest prefix of keys, in bytes.
const PREFIX_BYTES_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use crate::{Config, Overrides, Plan};

    #[test]
    fn settings_of_a_cluster_need_one() {
        let check = |text: &str, expected: usize| {
            let text = format!("preset = \"mail\"\n{text}\n");
            let config = Config::from_text("t.toml", &text, &Overrides::default());
            let problems = Plan::compile(&config).err();
            assert_eq!(problems.map_or(0, |problems| problems.list().len()), expected, "{text}");
        };
        check("[ledger]\nmemory = \"64MiB\"\nsegment = \"1MiB\"", 0);
        check("[cluster]", 1);
        check("[cluster]\nflush = \"2s\"", 1);
        check("[cluster]\nnodes = [\"a:1\"]\nflush = \"2s\"", 0);
        check("[cluster]\nnodes = [\"a:1\"]\nadvertise = \"http://[::1]:8377\"", 0);
        check("[cluster]\nnodes = [\"a:1\"]\nadvertise = \"10.0.0.1:8377\"", 1);
        check("[cluster]\nnodes = [\"a:1\"]\nadvertise = \"http://a/b\"", 1);
        check("[cluster]\nnodes = [\"dnssrv+_redis._tcp.redis.svc\"]", 0);
        check("[cluster]\nnodes = [\"dnssrv+redis:1\"]", 1);
        check("[cluster]\nnodes = [\"a:1\"]\npeer_ca = \"ca.pem\"", 0);
        check("[cluster]\nnodes = [\"a:1\"]\npeer_key = \"k.pem\"", 1);
        check("[ledger]\nsegment = \"1MiB\"\n[cluster]\nnodes = [\"a:1\"]", 1);
        check("[ledger]\nnodes = [\"a:1\"]", 1);
    }
}
