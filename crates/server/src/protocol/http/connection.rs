//! Connections of HTTP/1.1.

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::header::CONNECTION;
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use futures_util::future::Either;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::{sleep, timeout};

use super::direct_decision;
use super::forward_auth::PeerAddress;
use super::guard::OTHER;
use crate::core::descriptors::{ClientConnectionPermit, ClientConnections, DescriptorPermit};
use crate::core::framing::{FramingFault, SharedFault, WatchedStream};
use crate::core::listener::{ACCEPT_PAUSE, ConnectionGuard, ShutdownSignal};
use crate::core::load_shedding::{PausedStream, ReadPause};
use crate::core::node::Node;
use crate::core::problem::INVALID_FRAMING;
use crate::core::repoll::RepollFuture;
use crate::core::socket::{ListenerSocket, PlainSocket};
use crate::core::tls::TlsTerminator;
use crate::core::write_timeout::WriteTimeoutStream;

/// Bytes of a request's head. What is larger is answered 431.
const HEAD_BYTES_MAX: usize = 64 << 10;

/// Takes connections as long as there is room for them; the others wait in the system's queue.
pub(crate) async fn accept(
    listener: &TcpListener,
    node: &Arc<Node>,
    router: &Router,
    connections: &HttpConnections,
    (tls, stop): (Option<&Arc<TlsTerminator>>, &ShutdownSignal),
) {
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
                // Answers are written whole; waiting for more to send would only delay them.
                if let Err(error) = stream.set_nodelay(true) {
                    tracing::debug!(%error, "a connection keeps its delay");
                }
                let (node, router, watched) = (Arc::clone(node), router.clone(), connections.watch());
                let (socket, tls, stop) = (PlainSocket::Tcp(stream), tls.cloned(), stop.clone());
                tokio::spawn(async move {
                    let _open = ConnectionGuard::new(node.metrics.connections.clone());
                    let socket = match tls {
                        None => Some(ListenerSocket::Plain(socket)),
                        Some(tls) => tls.accept(socket, stop).await,
                    };
                    if let Some(socket) = socket {
                        connection(socket, peer, node, router, watched).await;
                    }
                    drop::<(OwnedSemaphorePermit, DescriptorPermit, ClientConnectionPermit)>(held);
                });
            }
            Err(error) => {
                drop(descriptor);
                tracing::warn!(%error, "no connection could be accepted");
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Longest time for which an end waits for the first request of a connection. Who connects to a socket that stays open from one
/// server to the next has sent it, and must not be turned away.
const FIRST_REQUEST_WAIT: Duration = Duration::from_secs(1);

/// The open connections, and how many of them have not had a request yet.
pub(crate) struct HttpConnections {
    connections: GracefulShutdown,
    fresh: watch::Sender<usize>,
}

impl HttpConnections {
    pub(crate) fn new() -> HttpConnections {
        HttpConnections { connections: GracefulShutdown::new(), fresh: watch::Sender::new(0) }
    }

    /// Watches one more connection.
    fn watch(&self) -> (Watcher, FreshConnection) {
        self.fresh.send_modify(|count| *count += 1);
        (self.connections.watcher(), FreshConnection(self.fresh.clone()))
    }

    /// Lets new connections have their first request, closes those that have none, and waits for all to end.
    pub(crate) async fn shutdown(self) {
        let mut fresh = self.fresh.subscribe();
        // The sender is here, so waiting ends with a count of 0 or for its length.
        let _ = timeout(FIRST_REQUEST_WAIT, fresh.wait_for(|count| *count == 0)).await;
        self.connections.shutdown().await;
    }
}

/// A connection that has not had a request yet, until this is dropped.
struct FreshConnection(watch::Sender<usize>);

impl Drop for FreshConnection {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count -= 1);
    }
}

async fn connection(
    stream: ListenerSocket,
    peer: PeerAddress,
    node: Arc<Node>,
    router: Router,
    (watcher, fresh): (Watcher, FreshConnection),
) {
    let (patience, rest) = (node.timeout(), ReadPause::default());
    let found = SharedFault::default();
    let stream = WatchedStream::new(PausedStream::new(stream, rest.clone()), found.clone());
    let stream = WriteTimeoutStream::new(stream, patience);
    let router = TowerToHyperService::new(router);
    let fresh = Cell::new(Some(fresh));
    let service = service_fn(move |mut request: Request<Incoming>| {
        drop(fresh.take());
        if let Some(fault) = found.get() {
            node.metrics.answered(OTHER, StatusCode::BAD_REQUEST.as_u16(), Duration::ZERO, None);
            return Either::Left(async move { Ok(misframed(fault)) });
        }
        request.extensions_mut().insert(peer);
        request.extensions_mut().insert(rest.clone());
        Either::Right(match direct_decision::is_decision(&request) {
            true => {
                let decided = direct_decision::decide_at_once(Arc::clone(&node), request.map(Body::new));
                Either::Left(Box::pin(async move { Ok(decided.await) }))
            }
            false => Either::Right(router.call(request)),
        })
    });
    let served = http1::Builder::new()
        // The guard dates answers.
        .auto_date_header(false)
        .timer(TokioTimer::new())
        .header_read_timeout(patience)
        .max_header_size(HEAD_BYTES_MAX)
        .max_buf_size(HEAD_BYTES_MAX)
        .serve_connection(TokioIo::new(stream), service);
    if let Err(error) = RepollFuture::new(watcher.watch(served)).await {
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
