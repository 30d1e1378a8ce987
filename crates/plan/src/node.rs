//! Settings of the node: `[node]`, `[ledger]`, `[cluster]`, `[journal]`, `[server]`.

use std::net::SocketAddr;

use access::ScopeSet;
use event::Span;
use judge::{Network, Networks};
use stats::Durability;

use crate::cluster::ClusterPlan;
use crate::config::{ConfigProblems, Document};
use crate::listener::ListenerPlan;
use crate::pipeline::authentication::DnsPlan;
use crate::review::ReviewPlan;
use crate::sink::SinkPlan;
use crate::source::SourcePlan;
use crate::tls::TlsPlan;
use crate::token::{TokenPlan, scopes};

/// Settings of the node.
#[derive(Clone, Debug, PartialEq)]
pub struct NodePlan {
    /// The decisions that are told in the log.
    pub decision_log: DecisionLogMode,
    /// The interval at which a server looks whether files of the configuration have changed; `None` for never.
    pub watch: Option<Span>,
    /// Versions of each pipeline that are kept.
    pub versions: usize,
    /// The durability that is promised of statistics and journal after a crash.
    pub durability: Durability,
    /// The cluster that statistics live in; `None` if they live in the data directory.
    pub cluster: Option<ClusterPlan>,
    /// Bytes of cells and of the directory of keys: what the configured memory leaves beside the sketches.
    pub ledger_memory: usize,
    /// The configured memory.
    pub ledger_configured: usize,
    /// Bytes of a ledger segment.
    pub ledger_segment: u32,
    /// The journal.
    pub journal: JournalPlan,
    /// The queue of reviews.
    pub review: ReviewPlan,
    /// Name service.
    pub dns: DnsPlan,
    /// The HTTP listener.
    pub server: ServerPlan,
    /// Listeners of other protocols.
    pub listeners: Vec<ListenerPlan>,
    /// Sources that the server reads by itself.
    pub sources: Vec<SourcePlan>,
    /// The brokers that decisions and feedback are sent to.
    pub sinks: Vec<SinkPlan>,
    /// The audit log.
    pub audit: AuditPlan,
    /// The collector of traces and metrics, if there is one.
    pub telemetry: Option<TelemetryPlan>,
}

/// A choice of decisions that the log has a line of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecisionLogMode {
    /// No decision.
    Off,
    /// The decisions whose action is another than `accept`.
    Acted,
    /// Every decision.
    All,
}

/// A protocol in which a collector takes OTLP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TelemetryProtocol {
    /// Protocol buffers over HTTP/1.1.
    Http,
    /// Unary calls of gRPC.
    Grpc,
}

/// Settings of what is sent to an OpenTelemetry collector.
#[derive(Clone, Debug, PartialEq)]
pub struct TelemetryPlan {
    /// The protocol.
    pub protocol: TelemetryProtocol,
    /// The URL of the collector, to which over HTTP `/v1/traces` and `/v1/metrics` are added.
    pub endpoint: String,
    /// The value of `Authorization`.
    pub authorization: Option<String>,
    /// The share of requests that are traced, of those whose caller has no trace that counts.
    pub sample: f64,
    /// The networks of callers whose traces count without a token.
    pub trusted: Networks,
    /// The interval at which metrics are sent; `None` for never.
    pub metrics: Option<Span>,
}

impl TelemetryPlan {
    fn compile(document: &Document, problems: &mut ConfigProblems) -> Option<TelemetryPlan> {
        let view = document.section("telemetry")?;
        let endpoint = view.str("endpoint")?;
        let rest = ["http://", "https://"].into_iter().find_map(|scheme| endpoint.strip_prefix(scheme));
        let is_url = rest.is_some_and(|rest| !rest.is_empty() && !rest.starts_with('/'))
            && endpoint.bytes().all(|byte| byte.is_ascii_graphic());
        if !is_url {
            let help = "expected a URL such as `http://127.0.0.1:4318`".to_owned();
            problems.add(
                view.origin("endpoint"),
                format!("`{endpoint}` is no URL of a collector"),
                Some(help),
            );
        }
        let protocol = match view.str("protocol") {
            Some("grpc") => TelemetryProtocol::Grpc,
            _ => TelemetryProtocol::Http,
        };
        let path = rest.and_then(|rest| rest.trim_end_matches('/').split_once('/'));
        if protocol == TelemetryProtocol::Grpc && path.is_some() {
            let help = "expected a URL such as `http://127.0.0.1:4317`".to_owned();
            problems.add(view.origin("endpoint"), "over gRPC the URL of a collector has no path", Some(help));
        }
        let sample = view.float("sample").unwrap_or_default();
        if !(0.0..=1.0).contains(&sample) {
            problems.add(view.origin("sample"), format!("{sample} is no share from 0 to 1"), None);
        }
        Some(TelemetryPlan {
            protocol,
            endpoint: endpoint.to_owned(),
            authorization: view.str("authorization").map(str::to_owned),
            sample,
            trusted: Networks::new(
                view.strings("trusted")
                    .into_iter()
                    .filter_map(|(network, _)| network.parse::<Network>().ok()),
            ),
            metrics: view.span("metrics"),
        })
    }
}

/// Settings of the audit log.
#[derive(Clone, Debug, PartialEq)]
pub struct AuditPlan {
    /// Age at which a closed file is removed.
    pub keep: Span,
    /// Bytes of the whole log above which closed files are removed, oldest first.
    pub keep_bytes: u64,
}

/// Settings of the journal.
#[derive(Clone, Debug, PartialEq)]
pub struct JournalPlan {
    /// Bytes at which a segment is closed.
    pub segment: u64,
    /// Age at which a segment is closed.
    pub rotate: Span,
    /// Age at which a closed segment is deleted.
    pub keep: Span,
    /// Bytes of the whole journal above which closed segments are deleted, oldest first.
    pub keep_bytes: u64,
    /// The place that segments are uploaded to.
    pub upload: Option<UploadPlan>,
}

/// Settings of uploads.
#[derive(Clone, Debug, PartialEq)]
pub struct UploadPlan {
    /// The address of the place.
    pub url: String,
    /// Age at which a segment is closed.
    pub every: Span,
    /// Age at which what was uploaded is removed; `None` for never.
    pub keep: Option<Span>,
}

impl UploadPlan {
    /// Beginnings of addresses.
    const SCHEMES: [&str; 5] = ["s3", "gs", "az", "abfss", "file"];
    const EVERY_MIN: Span = Span::seconds(1);

    fn compile(document: &Document, problems: &mut ConfigProblems) -> Option<UploadPlan> {
        let view = document.section("journal")?;
        let url = view.str("upload")?;
        let scheme = url.split_once("://").map_or("", |(scheme, _)| scheme);
        if !UploadPlan::SCHEMES.contains(&scheme) {
            let help =
                "expected s3://BUCKET/PREFIX, gs://BUCKET/PREFIX, az://CONTAINER/PREFIX or file:///DIRECTORY";
            problems.add(
                view.origin("upload"),
                format!("`{url}` is no place to upload to"),
                Some(help.to_owned()),
            );
        }
        let every = view.span("upload_every").unwrap_or(Span::minutes(5));
        if every < UploadPlan::EVERY_MIN {
            problems.add(view.origin("upload_every"), format!("{every} is shorter than 1 s"), None);
        }
        Some(UploadPlan { url: url.to_owned(), every, keep: view.span("upload_keep") })
    }
}

/// Settings of the HTTP listener.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerPlan {
    /// The address to listen on.
    pub listen: SocketAddr,
    /// Bearer tokens, one of which a request must carry; none means that none is asked for.
    pub tokens: Vec<String>,
    /// The scopes of each of these.
    pub token_scopes: ScopeSet,
    /// True if a request must carry a token although none may be configured.
    pub require_token: bool,
    /// Bytes of a request body.
    pub body_max: u64,
    /// Events of one batch.
    pub batch_max: usize,
    /// Requests at work at once.
    pub requests_max: usize,
    /// Open connections.
    pub connections_max: usize,
    /// Open connections of one address.
    pub client_connections_max: usize,
    /// Time for one request.
    pub timeout: Span,
    /// Bytes that a body must bring in a second; 0 for any pace.
    pub body_rate_min: u64,
    /// Time for which a body may be slower.
    pub body_grace: Span,
    /// TLS; without it HTTP is plain.
    pub tls: Option<TlsPlan>,
}

impl NodePlan {
    /// Compiles the settings; `tokens` are those with a name.
    pub(super) fn compile(
        document: &Document,
        tokens: &[TokenPlan],
        problems: &mut ConfigProblems,
    ) -> NodePlan {
        // The defaults are part of every document, so a value that is absent here is one that failed its check
        // and what stands in for it is never used.
        let size = |section: &str, key: &str| {
            document.section(section).and_then(|view| view.size(key)).unwrap_or(1 << 20)
        };
        let span = |section: &str, key: &str| {
            document.section(section).and_then(|view| view.span(key)).unwrap_or(Span::days(1))
        };
        let server = document.section("server");
        let count = |key: &str| {
            let number = server.and_then(|view| view.integer(key)).unwrap_or(1);
            usize::try_from(number).unwrap_or(1)
        };
        let listen = server.and_then(|view| view.str("listen")?.parse().ok());
        let listen: SocketAddr = listen.unwrap_or(SocketAddr::from(([127, 0, 0, 1], 0)));
        let plain: Vec<String> = server
            .map(|view| view.strings("tokens").into_iter().map(|(token, _)| token.to_owned()).collect())
            .unwrap_or_default();
        let require_token = server.and_then(|view| view.bool("require_token")).unwrap_or_default();
        let is_open = plain.is_empty() && tokens.is_empty() && !require_token;
        if let (Some(view), false, true) = (server, listen.ip().is_loopback(), is_open) {
            let message = format!("{listen} can be reached from outside and no token is asked for");
            let help = "add tokens = [\"...\"] to [server], or require_token = true and make one with `tollhouse token add`, or listen on a loopback address".to_owned();
            problems.add(view.origin("listen"), message, Some(help));
        }
        let token_scopes = server.map(|view| scopes(view, "token_scopes")).unwrap_or_default();
        if let Some(view) = server.filter(|_| token_scopes.is_empty() && !plain.is_empty()) {
            problems.add(view.origin("token_scopes"), "`tokens` without a scope may do nothing", None);
        }
        let durability = document.section("ledger").and_then(|view| view.str("durability")?.parse().ok());
        let of_node = document.section("node");
        let versions = of_node.and_then(|view| usize::try_from(view.integer("versions")?).ok());
        NodePlan {
            decision_log: match of_node.and_then(|view| view.str("log_decisions")) {
                Some("acted") => DecisionLogMode::Acted,
                Some("all") => DecisionLogMode::All,
                _ => DecisionLogMode::Off,
            },
            watch: of_node.and_then(|view| view.span("watch")),
            versions: versions.unwrap_or(1),
            durability: durability.unwrap_or(Durability::Sync),
            cluster: ClusterPlan::compile(document, problems),
            ledger_memory: usize::try_from(size("ledger", "memory")).unwrap_or(usize::MAX),
            ledger_configured: usize::try_from(size("ledger", "memory")).unwrap_or(usize::MAX),
            ledger_segment: u32::try_from(size("ledger", "segment")).unwrap_or(u32::MAX),
            journal: JournalPlan {
                segment: size("journal", "segment"),
                rotate: span("journal", "rotate"),
                keep: span("journal", "keep"),
                keep_bytes: size("journal", "keep_bytes"),
                upload: UploadPlan::compile(document, problems),
            },
            review: ReviewPlan::compile(document, problems),
            dns: DnsPlan::compile(document, problems),
            server: ServerPlan {
                listen,
                tokens: plain,
                token_scopes,
                require_token,
                body_max: size("server", "body_max"),
                batch_max: count("batch_max"),
                requests_max: count("requests_max"),
                connections_max: count("connections_max"),
                client_connections_max: count("client_connections_max"),
                timeout: span("server", "timeout"),
                body_rate_min: size("server", "body_rate_min"),
                body_grace: span("server", "body_grace"),
                tls: server.and_then(|view| TlsPlan::compile_of_table(&view, problems)),
            },
            listeners: Vec::new(),
            sources: Vec::new(),
            sinks: crate::sink::compile(document, problems),
            audit: AuditPlan { keep: span("audit", "keep"), keep_bytes: size("audit", "keep_bytes") },
            telemetry: TelemetryPlan::compile(document, problems),
        }
    }
}
