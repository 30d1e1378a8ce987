//! The other nodes that share this one's statistics: who is there, and what is asked of them.
//!
//! ```text
//! each beat     own entry ─► registry in the cluster ─► all entries ─► table: number, URL, beat, when the beat last changed
//! a request     id of a decision ─► number of the node that made it ─► table ─► the request, signed ─► its answer
//! ```
//!
//! A node is alive as long as its beat changes, by the clock of the node that looks: clocks that differ do no harm. A request from
//! node to node is signed by a key that follows from the secret, which all of them have, over its method, target, body and time; it
//! needs no token, and is not passed on again.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use axum::body::Bytes;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use data_encoding::HEXLOWER_PERMISSIVE as HEX;
use engine::{Engine, NodeEntries};
use event::{Span, Time};
use journal::NodeNumber;
use parking_lot::Mutex;
use plan::{ClientCertificates, ClusterPlan, TlsPlan};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use ureq::tls::{Certificate, ClientCert, PemItem, PrivateKey, RootCerts, TlsConfig, parse_pem};

use crate::api;
use crate::core::admission::AdmissionQueue;
use crate::core::problem::{
    CONFLICT, HttpFailure, NOT_APPLICABLE, NOT_FOUND, UNAUTHORIZED, UNAVAILABLE, UNKNOWN_NAME,
};

/// The interval at which a node says that it is there.
pub(crate) const BEAT: Duration = Duration::from_millis(500);
/// The interval at which nodes share their bans.
pub(crate) const SHARE: Duration = Duration::from_millis(250);
/// The time without a new beat after which a node counts as away.
const AWAY_AFTER: Duration = Duration::from_secs(10);
/// The field of a request that is signed by another node.
pub(crate) const SIGNATURE: HeaderName = HeaderName::from_static("tollhouse-node");
/// The time by which the clocks of nodes may differ.
const SKEW_MAX: Span = Span::minutes(1);
/// The time to reach another node.
const CONNECT_WITHIN: Duration = Duration::from_millis(500);

/// An entry in the registry of nodes: what a node says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct NodeEntry {
    /// The name of its machine.
    pub(crate) name: String,
    /// The URL at which other nodes reach it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) url: Option<String>,
    /// Its release.
    pub(crate) release: String,
    /// The time of its start.
    pub(crate) started: i64,
    /// A number that is another one each time.
    pub(crate) beat: u64,
    /// The reason why it takes no requests now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) unready: Option<String>,
    /// The names of what is wrong with it now.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) conditions: Vec<String>,
    /// The number of the state of posted rules that is in force there.
    #[serde(default)]
    pub(crate) rules: u64,
    /// The versions of its pipelines.
    #[serde(default)]
    pub(crate) pipelines: BTreeMap<String, String>,
    /// The linear models that it shares.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) models: BTreeMap<String, ModelEntry>,
}

/// The state of a linear model that a node shares.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ModelEntry {
    /// The training example up to which it has learned.
    pub(crate) version: u64,
    /// Training examples that it has still to learn, as far as the node knows.
    pub(crate) lag: u64,
    /// Training examples that were taught to the node and are not shared yet.
    pub(crate) waiting: u64,
}

/// A node, as this one sees it.
#[derive(Clone, Debug)]
pub(crate) struct PeerNode {
    pub(crate) entry: NodeEntry,
    /// The time at which its beat was seen to change.
    changed: Instant,
}

impl PeerNode {
    /// The time since its last sign of life.
    pub(crate) fn silent_for(&self) -> Duration {
        self.changed.elapsed()
    }

    /// Returns true if it has given no sign of life for a while.
    pub(crate) fn is_away(&self) -> bool {
        self.silent_for() >= AWAY_AFTER
    }
}

/// The nodes that share statistics, this one included; empty for a node of its own.
pub(crate) struct PeerTable {
    nodes: Mutex<BTreeMap<NodeNumber, PeerNode>>,
    /// The time at which the registry was last asked with success.
    heard: Mutex<Instant>,
    /// The time at which bans were last shared.
    shared: Mutex<Instant>,
    agent: ureq::Agent,
    /// Places for requests that wait for other nodes.
    places: AdmissionQueue,
}

impl PeerTable {
    pub(crate) fn new(timeout: Duration, tls: Option<&TlsPlan>, cluster: Option<&ClusterPlan>) -> PeerTable {
        let tls = trust(tls, cluster);
        let agent = ureq::Agent::config_builder()
            .tls_config(tls)
            .timeout_connect(Some(CONNECT_WITHIN))
            .timeout_global(Some(timeout / 2))
            .http_status_as_error(false)
            .max_redirects(0)
            .proxy(None)
            .user_agent(concat!("tollhouse/", env!("CARGO_PKG_VERSION")))
            .build();
        PeerTable {
            nodes: Mutex::default(),
            heard: Mutex::new(Instant::now()),
            shared: Mutex::new(Instant::now()),
            agent: agent.into(),
            places: AdmissionQueue::of_relays(),
        }
    }

    /// The nodes by number.
    pub(crate) fn nodes(&self) -> BTreeMap<NodeNumber, PeerNode> {
        self.nodes.lock().clone()
    }

    /// The time since the registry was last asked with success.
    pub(crate) fn unheard_for(&self) -> Duration {
        self.heard.lock().elapsed()
    }

    /// The time since bans were last shared.
    pub(crate) fn unshared_for(&self) -> Duration {
        self.shared.lock().elapsed()
    }

    /// Notes that bans were shared.
    pub(crate) fn shared(&self) {
        *self.shared.lock() = Instant::now();
    }

    /// Takes out a node that the registry has no more.
    pub(crate) fn forget(&self, number: NodeNumber) {
        self.nodes.lock().remove(&number);
    }

    /// The agent that asks other nodes.
    pub(crate) fn agent(&self) -> ureq::Agent {
        self.agent.clone()
    }

    /// The places for requests that wait for other nodes.
    pub(crate) fn places(&self) -> &AdmissionQueue {
        &self.places
    }

    /// The other node of a number, if there is one.
    pub(crate) fn other(&self, engine: &Engine, number: NodeNumber) -> Option<PeerNode> {
        let own = engine.node_registry()?.number();
        (own != number).then(|| self.nodes.lock().get(&number).cloned())?
    }

    /// Takes over what all nodes say of themselves.
    pub(crate) fn update(&self, entries: NodeEntries) {
        let now = Instant::now();
        let mut nodes = self.nodes.lock();
        nodes.retain(|number, _| entries.contains_key(number));
        for (number, text) in entries {
            // An entry of a later release may have another form: the node is there all the same.
            let entry: NodeEntry = serde_json::from_str(&text).unwrap_or_default();
            match nodes.get_mut(&number) {
                Some(known) if known.entry.beat == entry.beat => known.entry = entry,
                Some(known) => *known = PeerNode { entry, changed: now },
                None => _ = nodes.insert(number, PeerNode { entry, changed: now }),
            }
        }
        *self.heard.lock() = now;
    }
}

/// Returns what nodes are shown and believed over TLS: what is configured for them, or else the listener's own certificate, and
/// where it has authorities for its clients' certificates, those. Else public ones vouch for other nodes. A file that cannot be
/// read vouches for nobody.
fn trust(listener: Option<&TlsPlan>, cluster: Option<&ClusterPlan>) -> TlsConfig {
    let certificates = |path: &Path| -> Vec<Certificate<'static>> {
        let text = std::fs::read(path).unwrap_or_default();
        let items = parse_pem(&text).filter_map(|item| match item.ok()? {
            PemItem::Certificate(certificate) => Some(certificate),
            _ => None,
        });
        let found: Vec<_> = items.collect();
        if found.is_empty() {
            tracing::error!(path = %path.display(), "no certificate of nodes can be read");
        }
        found
    };
    let of_clients = || match &listener?.clients {
        ClientCertificates::Ignored => None,
        ClientCertificates::Optional(path) | ClientCertificates::Required(path) => Some(path.as_path()),
    };
    let authorities = cluster.and_then(|cluster| cluster.peer_ca.as_deref()).or_else(of_clients);
    let roots = authorities.map_or(RootCerts::WebPki, |path| RootCerts::new_with_certs(&certificates(path)));
    let of_listener = || listener.map(|tls| (tls.certificate.as_path(), tls.key.as_path()));
    let of_peers = cluster.and_then(|cluster| cluster.peer_identity.as_ref());
    let own = of_peers.map(|(certificate, key)| (certificate.as_path(), key.as_path())).or_else(of_listener);
    let own = own.and_then(|(certificate, key)| {
        let key = std::fs::read(key).ok().and_then(|text| PrivateKey::from_pem(&text).ok())?;
        let chain = Some(certificates(certificate)).filter(|chain| !chain.is_empty())?;
        Some(ClientCert::new_with_certs(&chain, key))
    });
    TlsConfig::builder().root_certs(roots).client_cert(own).build()
}

/// A request to another node.
#[derive(Clone, Debug)]
pub(crate) struct NodeRequest {
    pub(crate) method: Method,
    /// The path and query.
    pub(crate) target: String,
    pub(crate) content_type: Option<&'static str>,
    pub(crate) body: Bytes,
}

/// The answer of another node.
#[derive(Clone, Debug)]
pub(crate) struct NodeResponse {
    pub(crate) status: StatusCode,
    pub(crate) body: Bytes,
}

impl NodeResponse {
    /// Reads the answer, of which the other node's refusal is the failure.
    pub(crate) fn json<T: DeserializeOwned>(&self) -> Result<T, HttpFailure> {
        let unread = || UNAVAILABLE.failure("another node, which has this, answers what cannot be read");
        if self.status == StatusCode::OK {
            return serde_json::from_slice(&self.body).map_err(|_| unread());
        }
        let api::ProblemJson { detail, help, .. } =
            serde_json::from_slice(&self.body).map_err(|_| unread())?;
        let kind = if self.status == StatusCode::BAD_REQUEST { &UNKNOWN_NAME } else { &UNAVAILABLE };
        let kind = if self.status == StatusCode::NOT_FOUND { &NOT_FOUND } else { kind };
        let kind = if self.status == StatusCode::CONFLICT { &CONFLICT } else { kind };
        let kind = if self.status == StatusCode::UNPROCESSABLE_ENTITY { &NOT_APPLICABLE } else { kind };
        Err(kind.failure(detail).help(help.unwrap_or_default()))
    }
}

/// Sends a request to the node at a URL; the answer is not longer than `limit`. Blocks.
pub(crate) fn send(
    agent: &ureq::Agent,
    url: &str,
    request: &NodeRequest,
    signature: &str,
    limit: u64,
) -> Result<NodeResponse, String> {
    let mut built = axum::http::Request::builder()
        .method(request.method.clone())
        .uri(format!("{}{}", url.trim_end_matches('/'), request.target))
        .header(SIGNATURE, signature);
    if let Some(kind) = request.content_type {
        built = built.header(header::CONTENT_TYPE, kind);
    }
    let built = built.body(request.body.to_vec()).map_err(|error| error.to_string())?;
    let mut answer = agent.run(built).map_err(|error| error.to_string())?;
    let status = answer.status();
    let body =
        answer.body_mut().with_config().limit(limit).read_to_vec().map_err(|error| error.to_string())?;
    Ok(NodeResponse { status, body: body.into() })
}

/// The message that is signed of a request.
fn message(sender: u16, time: Time, method: &Method, target: &str, digest: &str) -> Vec<u8> {
    format!("{method}\n{target}\n{sender}\n{}\n{digest}", time.0).into_bytes()
}

/// The value of the field by which a request shows that it comes from a node.
pub(crate) fn sign(engine: &Engine, sender: u16, time: Time, request: &NodeRequest) -> String {
    let digest = HEX.encode(&Sha256::digest(&request.body));
    let message = message(sender, time, &request.method, &request.target, &digest);
    let tag = engine.sign_for_nodes(time, &message);
    format!("n={sender}, t={}, d={digest}, s={}", time.0, HEX.encode(&tag))
}

/// A request that another node has signed, of which the body is not known yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RelayedRequest {
    sender: u16,
    digest: [u8; 32],
}

impl RelayedRequest {
    /// Looks whether a request is signed by another node; `None` where it does not say so.
    ///
    /// # Errors
    /// If it says so, and is not: by another secret, of another time, for another request.
    pub(crate) fn of(
        engine: &Engine,
        now: Time,
        method: &Method,
        target: &str,
        headers: &HeaderMap,
    ) -> Option<Result<RelayedRequest, HttpFailure>> {
        let mut fields = headers.get_all(&SIGNATURE).iter();
        let field = fields.next()?;
        let is_one = fields.next().is_none();
        let read = is_one.then(|| RelayedRequest::read(engine, now, method, target, field)).flatten();
        Some(read.ok_or_else(|| {
            UNAUTHORIZED.failure("Tollhouse-Node: not signed by a node of this cluster, or not now").help(
                "nodes of a cluster need the same `secret`, and clocks that differ by less than a minute",
            )
        }))
    }

    fn read(
        engine: &Engine,
        now: Time,
        method: &Method,
        target: &str,
        field: &HeaderValue,
    ) -> Option<RelayedRequest> {
        // A node of its own has nobody to hear.
        engine.node_registry()?;
        let mut parts = field.to_str().ok()?.split(", ");
        let mut part = |name: &str| parts.next()?.strip_prefix(name)?.strip_prefix('=');
        let (sender, time) = (part("n")?.parse().ok()?, Time(part("t")?.parse().ok()?));
        let (digest, tag) = (part("d")?, part("s")?);
        let apart = (now.0.checked_sub(time.0)?).unsigned_abs();
        let tag = HEX.decode(tag.as_bytes()).ok()?.try_into().ok()?;
        let message = message(sender, time, method, target, digest);
        let is_now = apart <= SKEW_MAX.0.unsigned_abs();
        let is_signed = is_now && parts.next().is_none() && engine.is_from_node(time, &message, &tag);
        let digest = HEX.decode(digest.as_bytes()).ok()?.try_into().ok()?;
        is_signed.then_some(RelayedRequest { sender, digest })
    }

    /// The number of the node that has signed it.
    pub(crate) fn sender(&self) -> u16 {
        self.sender
    }

    /// Checks that a body is the one that was signed.
    ///
    /// # Errors
    /// If it is another one.
    pub(crate) fn check(&self, body: &[u8]) -> Result<(), HttpFailure> {
        if Sha256::digest(body).as_slice() == self.digest {
            return Ok(());
        }
        Err(UNAUTHORIZED.failure("Tollhouse-Node: the body is not the one that was signed"))
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use engine::{
        ChangePage, ChangePosition, ChangeRegistry, Directory, LedgerHome, NodeRegistry, NumberAllotment,
        RulesRegistry, ShardHealth, ShardMonitor, SharedChange, SharedRegistries, SharedState,
    };
    use plan::{Config, Overrides, Plan};
    use stats::{EmbeddedLedger, NumberRegistry};

    use super::*;

    const NOW: Time = Time::from_seconds(1_779_012_000);

    /// A registry of one node.
    struct LoneNode;

    impl NodeRegistry for LoneNode {
        fn number(&self) -> NodeNumber {
            NodeNumber::new(7).unwrap()
        }

        fn announce(&self, entry: String) -> Result<NodeEntries, String> {
            Ok(NodeEntries::from([(self.number(), entry)]))
        }

        fn forget(&self, _number: NodeNumber) -> Result<bool, String> {
            Ok(false)
        }
    }

    impl ChangeRegistry for LoneNode {
        fn since(&self, position: ChangePosition) -> Result<Option<ChangePage>, String> {
            Ok(Some(ChangePage { position, ..ChangePage::default() }))
        }

        fn append(&self, _changes: Vec<SharedChange>, _horizon: Time) -> Result<usize, String> {
            Ok(0)
        }
    }

    impl RulesRegistry for LoneNode {
        fn last(&self) -> Result<SharedState, String> {
            Ok(SharedState::default())
        }

        fn text(&self, state: &SharedState) -> Result<String, String> {
            Err(format!("there is none: {state:?}"))
        }

        fn put(&self, _state: &SharedState, _text: String) -> Result<bool, String> {
            Ok(true)
        }
    }

    impl ShardMonitor for LoneNode {
        fn shards(&self) -> Vec<ShardHealth> {
            Vec::new()
        }
    }

    impl NumberAllotment for LoneNode {
        fn allot(&self, known: &NumberRegistry, wanted: &NumberRegistry) -> Result<NumberRegistry, String> {
            known.with(wanted).map_err(|error| error.to_string())
        }
    }

    fn engine(parent: &Path, shares: bool) -> Engine {
        let directory = Directory::create(&parent.join("data"), &[]).unwrap();
        let plan = Plan::compile(&Config::from_text("test.toml", "", &Overrides::default()));
        let plan = plan.unwrap_or_else(|problems| panic!("{problems}"));
        let shared = || SharedRegistries {
            numbers: Box::new(LoneNode),
            nodes: Box::new(LoneNode),
            shards: Box::new(LoneNode),
            rules: Box::new(LoneNode),
            examples: None,
            changes: Box::new(LoneNode),
        };
        let ledger = |plan: &Plan| {
            let home = EmbeddedLedger::in_memory(plan.catalog.clone(), plan.node.ledger_memory)?;
            Ok(LedgerHome::Elsewhere(Box::new(home)))
        };
        Engine::open_over(&directory, plan, shares.then(shared), ledger).unwrap()
    }

    #[test]
    fn a_request_is_from_a_node_as_it_was_signed_and_then_only() {
        let [home, away, alone] = [(), (), ()].map(|()| tempfile::tempdir().unwrap());
        let (own, stranger) = (engine(home.path(), true), engine(away.path(), true));
        let request = NodeRequest {
            method: Method::POST,
            target: "/v1/feedback?a=b".to_owned(),
            content_type: None,
            body: Bytes::from_static(b"{}"),
        };
        let signed = sign(&own, 7, NOW, &request);
        let check = |what: &str,
                     engine: &Engine,
                     at: Time,
                     method: Method,
                     target: &str,
                     fields: &[&str],
                     is_let_in: bool| {
            let mut headers = HeaderMap::new();
            fields.iter().for_each(|field| _ = headers.append(SIGNATURE, field.parse().unwrap()));
            let read = RelayedRequest::of(engine, at, &method, target, &headers).unwrap();
            assert_eq!(read.is_ok(), is_let_in, "{what}");
            read.ok()
        };
        let target = request.target.as_str();
        let read = check("as it was signed", &own, NOW, Method::POST, target, &[&signed], true).unwrap();
        assert!(read.check(b"{}").is_ok() && read.check(b"{ }").is_err() && read.check(b"").is_err());
        for (at, is_let_in) in [(59, true), (-59, true), (61, false), (-61, false), (86_400, false)] {
            let at = NOW + Span::seconds(at);
            check("at another time", &own, at, Method::POST, target, &[&signed], is_let_in);
        }
        check("another method", &own, NOW, Method::PUT, target, &[&signed], false);
        check("another target", &own, NOW, Method::POST, "/v1/feedback?a=c", &[&signed], false);
        check("another secret", &stranger, NOW, Method::POST, target, &[&signed], false);
        check("twice", &own, NOW, Method::POST, target, &[&signed, &signed], false);
        check("nobody to hear", &engine(alone.path(), false), NOW, Method::POST, target, &[&signed], false);
        for at in 0..signed.len() {
            let mut changed = signed.clone().into_bytes();
            changed[at] = if changed[at] == b'0' { b'1' } else { b'0' };
            let changed = String::from_utf8(changed).unwrap();
            check(&format!("a changed byte: {changed}"), &own, NOW, Method::POST, target, &[&changed], false);
            check("cut off", &own, NOW, Method::POST, target, &[&signed[..at]], false);
        }
        assert!(RelayedRequest::of(&own, NOW, &Method::POST, target, &HeaderMap::new()).is_none());
    }
}
