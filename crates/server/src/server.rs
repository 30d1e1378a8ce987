//! The server: connections, housekeeping, and an end that loses nothing.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use engine::{Engine, Impact, Proposal};
use plan::{Endpoint, Protocol, SourceInput, SyslogTransport};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval, timeout};

use crate::console;
use crate::core::blocking::blocking;
use crate::core::certificates::{self, CertificateStore};
use crate::core::clock::Clock;
use crate::core::descriptors;
use crate::core::erasure_work;
use crate::core::inherited_sockets::{HTTP, InheritedSocket, InheritedSockets};
use crate::core::listener::{BoundListener, ServeError, ShutdownSignal};
use crate::core::node::Node;
use crate::core::reload::log_reload;
use crate::core::service_manager::ServiceManager;
use crate::core::source_reading::{PositionKeeper, RunningSources};
use crate::core::tls::{self, TlsSettings, TlsTerminator};
use crate::core::{allowed_names, block_list_feed, key_cache, notification_work};
use crate::core::{peers, relay, telemetry_export};
use crate::protocol;
use crate::protocol::http;
use crate::protocol::http::connection::{self, HttpConnections};
use crate::protocol::syslog::DatagramListener;

/// Time between two rounds of housekeeping.
const UPKEEP: Duration = Duration::from_secs(10);
/// The interval at which the clocks are compared.
const LOOK: Duration = Duration::from_secs(1);
/// The interval at which positions of sources are kept.
const POSITIONS: Duration = Duration::from_millis(500);

/// Listeners with an engine behind them.
#[derive(Debug)]
pub struct Server {
    listener: std::net::TcpListener,
    address: SocketAddr,
    tls: Option<Arc<TlsTerminator>>,
    node: Arc<Node>,
    router: Router,
    listeners: Vec<BoundListener>,
    datagrams: Vec<DatagramListener>,
    certificates: Arc<CertificateStore>,
    manager: ServiceManager,
}

impl Server {
    /// Listens on the addresses of the engine's plan; port 0 takes a free one. Connections wait until
    /// [`Server::serve`].
    ///
    /// # Errors
    /// If an address is taken, or not this machine's, or a unix socket cannot be made.
    pub fn bind(engine: Arc<Engine>, clock: Clock) -> Result<Server, ServeError> {
        Server::bind_with(engine, clock, InheritedSockets::default())
    }

    /// Listens as [`Server::bind`] does, but takes the sockets that were handed over for its listeners.
    ///
    /// # Errors
    /// As [`Server::bind`]; and if a socket is for no listener, or has another address than its own.
    pub fn bind_with(
        engine: Arc<Engine>,
        clock: Clock,
        mut sockets: InheritedSockets,
    ) -> Result<Server, ServeError> {
        let listen = engine.plan().node.server.listen;
        let bound = match sockets.take(HTTP, &Endpoint::Tcp(listen))? {
            Some(InheritedSocket::Tcp(listener)) => Ok(listener),
            Some(InheritedSocket::Unix(_)) | None => std::net::TcpListener::bind(listen),
        };
        let bound = bound.and_then(|listener| {
            listener.set_nonblocking(true)?;
            Ok((listener.local_addr()?, listener))
        });
        let (address, listener) =
            bound.map_err(|error| ServeError::Listen { listen: Endpoint::Tcp(listen), error })?;
        let (node, router) = http::router(engine, clock, console::pages());
        let mut certificates = CertificateStore::new(Arc::clone(&node));
        let plan = node.plan();
        let tls = certificates.open(plan.tls.as_ref().map(|tls| TlsSettings {
            listener: HTTP,
            plan: tls,
            protocols: tls::HTTP_1,
            connections_max: plan.connections_max,
            timeout: node.timeout(),
        }))?;
        let mut listeners = Vec::new();
        let (mut ports, mut datagrams) = (node.listeners().to_vec(), Vec::new());
        for status in node.sources.statuses() {
            let SourceInput::Syslog(syslog) = &status.plan.input else { continue };
            match syslog.transport {
                SyslogTransport::Udp => datagrams.push(DatagramListener::bind(&syslog.listener)?),
                SyslogTransport::Tcp | SyslogTransport::Tls => ports.push(syslog.listener.clone()),
            }
        }
        for plan in &ports {
            let bound = BoundListener::bind(plan, &mut sockets)?;
            let tls = certificates.open(plan.tls.as_ref().map(|tls| TlsSettings {
                listener: &plan.name,
                plan: tls,
                protocols: protocol::application_protocols(plan.settings.protocol()),
                connections_max: plan.connections_max,
                timeout: node.timeout(),
            }))?;
            listeners.push(bound.in_tls(tls));
        }
        sockets.finish()?;
        let manager = ServiceManager::default();
        let certificates = Arc::new(certificates);
        Ok(Server { listener, address, tls, listeners, datagrams, node, router, certificates, manager })
    }

    /// The server that tells this service manager when it serves, that it is alive, and when it stops.
    #[must_use]
    pub fn supervised_by(self, manager: ServiceManager) -> Server {
        Server { manager, ..self }
    }

    /// The listeners of mail servers and of sources: name, protocol and address of each.
    pub fn listeners(&self) -> impl Iterator<Item = (&str, Protocol, &Endpoint)> {
        let datagrams = self.datagrams.iter().map(DatagramListener::summary);
        let datagrams = datagrams.map(|(name, address)| (name, Protocol::Syslog, address));
        self.listeners.iter().map(BoundListener::summary).chain(datagrams)
    }

    /// Returns the certificates of the listeners, for who wants them renewed.
    pub fn certificates(&self) -> Arc<CertificateStore> {
        Arc::clone(&self.certificates)
    }

    /// Returns the URL of the HTTP listener.
    pub fn url(&self) -> String {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        format!("{scheme}://{}", self.address)
    }

    /// Makes the link by which the first administrator is added in a browser, once and within an hour. `None` where somebody may log
    /// in already, or nobody needs to.
    pub fn first_visit_url(&self) -> Option<String> {
        let key = self.node.offer_first_visit()?;
        Some(format!("{}/console/first?key={key}", self.url()))
    }

    /// The address of the HTTP listener.
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// Serves until `shutdown` is ready, or this is dropped; then takes no more connections, finishes the requests
    /// that are at work (within the configured request time, twice at the most) and closes the engine. Runs on
    /// Tokio's multi-threaded runtime.
    ///
    /// # Errors
    /// If the engine could not write everything when it was closed.
    pub async fn serve(self, shutdown: impl Future<Output = ()>) -> Result<(), ServeError> {
        let url = self.url();
        let Server { listener, address, tls, node, router, listeners, datagrams, certificates, manager } =
            self;
        let listener = TcpListener::from_std(listener)
            .map_err(|error| ServeError::Listen { listen: Endpoint::Tcp(address), error })?;
        let (stop, stopped) = ShutdownSignal::new();
        // What was posted, and who was banned, while this node was away is in force before it serves.
        relay::adopt_rules(&node).await;
        relay::share(&node).await;
        let mut conversations = JoinSet::new();
        for bound in listeners {
            conversations.spawn(bound.serve(Arc::clone(&node), protocol::open, stopped.clone())?);
        }
        for datagram in datagrams {
            conversations.spawn(datagram.serve(Arc::clone(&node), stopped.clone())?);
        }
        let sources = RunningSources::start(&node);
        let keeper = sources.keeper();
        let positions = tokio::spawn(keep_positions(Arc::clone(&node), sources.keeper()));
        tracing::info!(%address, pipelines = node.engine.plan().pipelines.len(), "serving");
        let manager = Arc::new(manager);
        manager.ready(&url);
        let alive = tokio::spawn(keep_alive(Arc::clone(&node), Arc::clone(&manager)));
        let time = tokio::spawn(keep_time(Arc::clone(&node)));
        let upkeep = tokio::spawn(keep_up(Arc::clone(&node)));
        let watch = tokio::spawn(watch(Arc::clone(&node)));
        let keys = tokio::spawn(fetch_keys(Arc::clone(&node)));
        let names = tokio::spawn(allowed_names::keep(Arc::clone(&node)));
        let lists = tokio::spawn(block_list_feed::keep(Arc::clone(&node)));
        let notifications = tokio::spawn(notification_work::keep(Arc::clone(&node)));
        let peers = tokio::spawn(announce(Arc::clone(&node), address));
        let examples = tokio::spawn(exchange_examples(Arc::clone(&node)));
        let bans = tokio::spawn(share(Arc::clone(&node)));
        let shards = tokio::spawn(watch_shards(Arc::clone(&node)));
        let tokens = tokio::spawn(watch_tokens(Arc::clone(&node)));
        let renewal = tokio::spawn(renew_certificates(Arc::clone(&node), certificates));
        erasure_work::resume(&node).await;
        let exports = tokio::spawn(telemetry_export::export(Arc::clone(&node)));
        let connections = HttpConnections::new();
        tokio::select! {
            () = connection::accept(&listener, &node, &router, &connections, (tls.as_ref(), &stopped)) => {}
            () = shutdown => {}
        }
        tracing::info!("shutting down");
        manager.stopping();
        drop(listener);
        node.stop();
        stop.send_replace(true);
        let patience = node.timeout();
        if timeout(patience, connections.shutdown()).await.is_err() {
            tracing::warn!("some connections were still open");
        }
        if timeout(patience, async { while conversations.join_next().await.is_some() {} }).await.is_err() {
            tracing::warn!("some conversations with mail servers were not at their end");
        }
        drop(conversations);
        // What they have taken is decided, and their last positions kept.
        sources.stop();
        if timeout(patience, blocking(move || sources.join())).await.is_err() {
            tracing::warn!("some sources were not at their end: what they read last comes again");
        }
        positions.abort();
        keeper.keep(&node).await;
        // Requests whose clients have gone work on by themselves.
        if timeout(patience, node.idle()).await.is_err() {
            tracing::warn!("some requests were still at work");
        }
        time.abort();
        upkeep.abort();
        watch.abort();
        keys.abort();
        names.abort();
        lists.abort();
        notifications.abort();
        peers.abort();
        examples.abort();
        bans.abort();
        shards.abort();
        tokens.abort();
        exports.abort();
        let of = Arc::clone(&node);
        blocking(move || {
            telemetry_export::flush(&of, false);
            of.keep_access(None);
            of.audit.close();
        })
        .await;
        renewal.abort();
        let engine = Arc::clone(&node.engine);
        let closed = blocking(move || engine.close()).await;
        alive.abort();
        tracing::info!("stopped");
        Ok(closed?)
    }
}

/// Takes over what files of the configuration say when they have changed, once they look the same twice: who writes
/// several, or one in pieces, is not read halfway.
async fn watch(node: Arc<Node>) {
    let Some(every) = node.engine.plan().node.watch else { return };
    let mut ticks = interval(Duration::from_micros(every.0.unsigned_abs()));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut before = node.engine.watched();
    loop {
        ticks.tick().await;
        let (engine, now) = (Arc::clone(&node.engine), node.now());
        before = blocking(move || {
            let read = engine.watched();
            let seen = read.look_again();
            if seen != read && seen == before {
                log_reload(&engine.change(Proposal::Files, now, false));
            }
            seen
        })
        .await;
    }
}

/// Takes over tokens that were added, rotated or removed, and those of a configuration that was reloaded: a token that was
/// removed is refused a second later.
async fn watch_tokens(node: Arc<Node>) {
    let mut ticks = interval(LOOK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut plan = node.engine.plan();
    loop {
        ticks.tick().await;
        let current = node.engine.plan();
        let is_reloaded = !Arc::ptr_eq(&plan, &current) && plan.tokens != current.tokens;
        plan = current;
        let node = Arc::clone(&node);
        blocking(move || {
            if is_reloaded || node.tokens.has_changed() || node.people.has_changed() {
                node.renew_tokens();
            }
        })
        .await;
    }
}

/// Looks now and then whether certificates were renewed, or are not valid any more.
async fn renew_certificates(node: Arc<Node>, certificates: Arc<CertificateStore>) {
    if certificates.is_empty() {
        return;
    }
    let every = node.engine.plan().node.watch.map(|every| Duration::from_micros(every.0.unsigned_abs()));
    let mut ticks = interval(every.unwrap_or(UPKEEP));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let (certificates, engine, now) = (Arc::clone(&certificates), Arc::clone(&node.engine), node.now());
        blocking(move || {
            if every.is_some() {
                certificates.look(now);
            }
            engine.health().set(certificates::CONDITION, Impact::Degraded, certificates.fault(now));
        })
        .await;
    }
}

/// Compares the machine's clocks now and then.
async fn keep_time(node: Arc<Node>) {
    let mut ticks = interval(LOOK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        node.look_at_clock();
    }
}

/// Tells the service manager that the server is alive, as long as tasks are run, threads are to be had, and nobody sits on what
/// the node knows of its own state. One that is busy is alive; one that hangs is killed and started again.
async fn keep_alive(node: Arc<Node>, manager: Arc<ServiceManager>) {
    let Some(every) = manager.interval() else { return };
    let mut ticks = interval(every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let engine = Arc::clone(&node.engine);
        blocking(move || drop(engine.health().list())).await;
        manager.alive();
    }
}

/// Fetches the keys of those who sign requests.
async fn fetch_keys(node: Arc<Node>) {
    let mut ticks = interval(key_cache::LOOK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        node.keys.refresh(&node.engine.plan().key_directories).await;
    }
}

/// Says to the other nodes that this one is there, and hears of them.
async fn announce(node: Arc<Node>, address: SocketAddr) {
    let of_cluster = |plan: &plan::Plan| plan.node.cluster.as_ref()?.advertise.clone();
    // Who listens on all addresses does not know by which one others reach it.
    let scheme = if node.plan().tls.is_some() { "https" } else { "http" };
    let own = (!address.ip().is_unspecified()).then(|| format!("{scheme}://{address}"));
    let url = of_cluster(&node.engine.plan()).or(own);
    let mut ticks = interval(peers::BEAT);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // Another number than before a restart.
    let first = node.started_at.0.unsigned_abs();
    for beat in first.. {
        ticks.tick().await;
        relay::adopt_rules(&node).await;
        relay::announce(&node, url.as_deref(), beat).await;
    }
}

/// Looks whether the shards of the cluster answer.
async fn watch_shards(node: Arc<Node>) {
    let mut ticks = interval(peers::BEAT);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut silent = relay::SilentShards::default();
    loop {
        ticks.tick().await;
        relay::watch_shards(&node, &mut silent).await;
    }
}

/// Shares with the other nodes what linear models learn.
async fn exchange_examples(node: Arc<Node>) {
    let mut ticks = interval(peers::BEAT);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        relay::exchange_examples(&node).await;
    }
}

/// Shares bans with the other nodes.
async fn share(node: Arc<Node>) {
    let mut ticks = interval(peers::SHARE);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        relay::share(&node).await;
    }
}

/// Keeps the positions of sources.
async fn keep_positions(node: Arc<Node>, keeper: Arc<PositionKeeper>) {
    let mut ticks = interval(POSITIONS);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        RunningSources::keep(&keeper, &node).await;
    }
}

/// Lets the engine do its housekeeping now and then.
async fn keep_up(node: Arc<Node>) {
    let mut ticks = interval(UPKEEP);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        // Nothing expires by a time that is in doubt.
        let now = node.look_at_clock().then(|| node.now());
        node.traffic.take(&node.engine, node.metrics.decision_times.counts(), node.now());
        let engine = Arc::clone(&node.engine);
        let descriptors = Arc::clone(&node.descriptors);
        let of = Arc::clone(&node);
        blocking(move || of.keep_access(now)).await;
        let done = blocking(move || {
            descriptors.look();
            engine.health().set(descriptors::CONDITION, Impact::Degraded, descriptors.shortage());
            engine.maintain(now)
        });
        if let Err(error) = done.await {
            node.metrics.upkeep_failures.inc();
            tracing::error!(%error, "housekeeping failed");
        }
    }
}
