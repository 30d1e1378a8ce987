//! The server: connections, housekeeping, and an end that loses nothing.

use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::http::header::CONNECTION;
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use engine::{
    Endpoint, Engine, EngineError, Impact, PipelineChange, Proposal, Protocol, ReloadError, ReloadOutcome,
};
use event::Time;
use futures_util::future::Either;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use hyper_util::service::TowerToHyperService;
use prometheus_client::metrics::gauge::Gauge;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};

use crate::core::clock::Clock;
use crate::core::descriptors::{self, ClientConnectionPermit, ClientConnections, DescriptorPermit};
use crate::core::framing::{FramingFault, SharedFault, WatchedStream};
use crate::core::listener::{BoundListener, ShutdownSignal};
use crate::core::load_shedding::{PausedStream, ReadPause};
use crate::core::node::{Node, blocking};
use crate::core::problem::INVALID_FRAMING;
use crate::core::write_timeout::WriteTimeoutStream;
use crate::protocol::http;
use crate::protocol::http::forward_auth::PeerAddress;
use crate::protocol::http::guard::OTHER;

/// Bytes of a request's head. What is larger is answered 431.
const HEAD_BYTES_MAX: usize = 64 << 10;
/// Time between two rounds of housekeeping.
const UPKEEP: Duration = Duration::from_secs(10);
/// How often the clocks are compared.
const LOOK: Duration = Duration::from_secs(1);
/// Time before accepting is tried again when the system has no descriptors left.
pub(crate) const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Why a server cannot start, or did not end well.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The address cannot be listened on.
    #[error("cannot listen on {listen}: {error}{}", mend(.error))]
    Listen {
        /// The address.
        listen: Endpoint,
        /// What the system said.
        error: std::io::Error,
    },
    /// Not everything could be written at the end.
    #[error("not everything could be written: {0}")]
    Close(#[from] EngineError),
}

/// Returns what to do about an address that cannot be listened on.
fn mend(error: &std::io::Error) -> &'static str {
    use std::io::ErrorKind::{AddrInUse, AddrNotAvailable, PermissionDenied};
    match error.kind() {
        AddrInUse => "; is another node running there?",
        AddrNotAvailable => "; this machine has no such address",
        PermissionDenied => {
            "; ports below 1024 are the administrator's: take another, or give the program CAP_NET_BIND_SERVICE"
        }
        _ => "",
    }
}

/// Listeners with an engine behind them.
#[derive(Debug)]
pub struct Server {
    listener: std::net::TcpListener,
    address: SocketAddr,
    node: Arc<Node>,
    router: Router,
    listeners: Vec<BoundListener>,
}

impl Server {
    /// Listens on the addresses of the engine's plan; port 0 takes a free one. Connections wait until
    /// [`Server::serve`].
    ///
    /// # Errors
    /// If an address is taken, or not this machine's, or a unix socket cannot be made.
    pub fn bind(engine: Arc<Engine>, clock: Clock) -> Result<Server, ServeError> {
        let listen = engine.plan().node.server.listen;
        let bound = std::net::TcpListener::bind(listen).and_then(|listener| {
            listener.set_nonblocking(true)?;
            Ok((listener.local_addr()?, listener))
        });
        let (address, listener) =
            bound.map_err(|error| ServeError::Listen { listen: Endpoint::Tcp(listen), error })?;
        let (node, router) = http::router(engine, clock);
        let listeners: Result<_, _> = node.listeners().iter().map(BoundListener::bind).collect();
        Ok(Server { listener, address, listeners: listeners?, node, router })
    }

    /// Where mail servers may ask: name, protocol and address of each listener.
    pub fn listeners(&self) -> impl Iterator<Item = (&str, Protocol, &Endpoint)> {
        self.listeners.iter().map(BoundListener::summary)
    }

    /// Where it listens for HTTP.
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
        let Server { listener, address, node, router, listeners } = self;
        let listener = TcpListener::from_std(listener)
            .map_err(|error| ServeError::Listen { listen: Endpoint::Tcp(address), error })?;
        let (stop, stopped) = ShutdownSignal::new();
        let mut mail = JoinSet::new();
        for bound in listeners {
            mail.spawn(bound.serve(Arc::clone(&node), stopped.clone())?);
        }
        tracing::info!(%address, pipelines = node.engine.plan().pipelines.len(), "serving");
        let time = tokio::spawn(keep_time(Arc::clone(&node)));
        let upkeep = tokio::spawn(keep_up(Arc::clone(&node)));
        let watch = tokio::spawn(watch(Arc::clone(&node)));
        let connections = GracefulShutdown::new();
        tokio::select! {
            () = accept(&listener, &node, &router, &connections) => {}
            () = shutdown => {}
        }
        tracing::info!("shutting down");
        drop(listener);
        node.stop();
        stop.send_replace(true);
        let patience = node.timeout();
        if timeout(patience, connections.shutdown()).await.is_err() {
            tracing::warn!("some connections were still open");
        }
        if timeout(patience, async { while mail.join_next().await.is_some() {} }).await.is_err() {
            tracing::warn!("some conversations with mail servers were not at their end");
        }
        drop(mail);
        // Requests whose clients have gone work on by themselves.
        if timeout(patience, node.idle()).await.is_err() {
            tracing::warn!("some requests were still at work");
        }
        time.abort();
        upkeep.abort();
        watch.abort();
        let engine = Arc::clone(&node.engine);
        let closed = blocking(move || engine.close()).await;
        tracing::info!("stopped");
        Ok(closed?)
    }
}

/// Takes connections as long as there is room for them; the others wait in the system's queue.
async fn accept(listener: &TcpListener, node: &Arc<Node>, router: &Router, connections: &GracefulShutdown) {
    let room = Arc::new(Semaphore::new(node.plan().connections_max.min(Semaphore::MAX_PERMITS)));
    let clients = Arc::new(ClientConnections::default());
    // The semaphore is never closed, so waiting for it ends with a permit.
    while let Ok(permit) = Arc::clone(&room).acquire_owned().await {
        let descriptor = node.descriptors.take().await;
        match listener.accept().await {
            Ok((stream, peer)) => {
                let peer = PeerAddress(peer.ip());
                let max = node.descriptors.share(node.plan().client_connections_max);
                let Some(place) = clients.take(peer.0.to_canonical(), max) else {
                    node.metrics.refused_connections.inc();
                    continue;
                };
                let held = (permit, descriptor, place);
                let connection =
                    connection(stream, peer, Arc::clone(node), router.clone(), connections.watcher(), held);
                tokio::spawn(connection);
            }
            Err(error) => {
                drop(descriptor);
                tracing::warn!(%error, "no connection could be accepted");
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn connection(
    stream: TcpStream,
    peer: PeerAddress,
    node: Arc<Node>,
    router: Router,
    watcher: Watcher,
    _held: (OwnedSemaphorePermit, DescriptorPermit, ClientConnectionPermit),
) {
    let _open = ConnectionGuard::new(node.metrics.connections.clone());
    // Answers are written whole; waiting for more to send would only delay them.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "a connection keeps its delay");
    }
    let (patience, rest) = (node.timeout(), ReadPause::default());
    let found = SharedFault::default();
    let stream = WatchedStream::new(PausedStream::new(stream, rest.clone()), found.clone());
    let stream = WriteTimeoutStream::new(stream, patience);
    let router = TowerToHyperService::new(router);
    let service = service_fn(move |mut request: Request<Incoming>| {
        if let Some(fault) = found.get() {
            node.metrics.answered(OTHER, StatusCode::BAD_REQUEST.as_u16(), Duration::ZERO);
            return Either::Left(async move { Ok(misframed(fault)) });
        }
        request.extensions_mut().insert(peer);
        request.extensions_mut().insert(rest.clone());
        Either::Right(router.call(request))
    });
    let served = http1::Builder::new()
        // Hyper's own panics before 1970; see `http::dated`.
        .auto_date_header(false)
        .timer(TokioTimer::new())
        .header_read_timeout(patience)
        .max_header_size(HEAD_BYTES_MAX)
        .max_buf_size(HEAD_BYTES_MAX)
        .serve_connection(TokioIo::new(stream), service);
    if let Err(error) = pin!(watcher.watch(served)).await {
        tracing::debug!(%error, "a connection ended badly");
    }
}

/// Returns what a connection is told, as the last, on which a request can be read in two ways.
fn misframed(fault: FramingFault) -> Response {
    let failure = INVALID_FRAMING.failure(format!("{fault}: the request could be read in two ways"));
    let mut response = failure.help("the connection is closed").into_response();
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    response
}

/// Counts a connection as long as it lives.
pub(crate) struct ConnectionGuard(Gauge);

impl ConnectionGuard {
    pub(crate) fn new(gauge: Gauge) -> ConnectionGuard {
        gauge.inc();
        ConnectionGuard(gauge)
    }
}

impl Drop for ConnectionGuard {
    fn drop(&mut self) {
        self.0.dec();
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

/// Logs what came of a change of rules.
pub(crate) fn log_reload(changed: &Result<ReloadOutcome, ReloadError>) {
    match changed {
        Ok(reloaded) => {
            for PipelineChange { pipeline, before, after, candidate, .. } in &reloaded.changes {
                let [before, after, candidate] =
                    [before, after, candidate].map(|version| version.as_deref().unwrap_or("none"));
                tracing::info!(pipeline, before, after, candidate, "rules have changed");
            }
            for section in &reloaded.restart {
                tracing::warn!(section, "settings have changed that only a restart heeds");
            }
            for warning in reloaded.warnings.list() {
                tracing::warn!("{warning}");
            }
        }
        Err(error) => tracing::error!("rules were refused, the old stay in force:\n{error}"),
    }
}

/// Takes over what the configuration's files say now, whether or not they have changed, and logs what came of it.
/// Blocks.
pub fn reload(engine: &Engine, now: Time) {
    log_reload(&engine.change(Proposal::Files, now, false));
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

/// Lets the engine do its housekeeping now and then.
async fn keep_up(node: Arc<Node>) {
    let mut ticks = interval(UPKEEP);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        // Nothing expires by a time that is in doubt.
        let now = node.look_at_clock().then(|| node.now());
        let engine = Arc::clone(&node.engine);
        let descriptors = Arc::clone(&node.descriptors);
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
