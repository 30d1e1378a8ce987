//! gRPC: HTTP/2 without TLS, as Envoy and senders of batches speak it, with the health service beside what is served.

mod health;
mod intake;

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{Either, ready};
use hyper::server::conn::http2;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tonic::Status;
use tonic::service::Routes;
use tonic_health::pb::health_server::HealthServer;

use self::health::HealthService;
use self::intake::IntakeBudget;
use crate::core::listener::{ListenerStream, ShutdownSignal};
use crate::core::listener_context::ListenerContext;
use crate::core::shares::Caller;

/// Messages, and clients and servers of the services.
#[allow(missing_docs, clippy::all, reason = "made of the files in `proto`, by the build")]
pub mod proto {
    include!(concat!(env!("OUT_DIR"), "/messages.rs"));
}

/// Bytes of a request's header fields.
const HEAD_BYTES_MAX: u32 = 16 << 10;
/// Time between two looks whether a silent client is still there.
const ALIVE: Duration = Duration::from_secs(60);

/// The answer to a call, boxed.
///
/// Services write out the signatures that `async_trait` makes, and box futures of functions without lifetimes. A future of
/// the macro's holds `&self`, and has lifetimes in scope: that it may be sent is then worked out anew, for each method, of
/// every type of the node, which took two fifths of the time in which this crate was checked.
pub(crate) type RpcFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, Status>> + Send + 'a>>;

/// The settings for what a connection may do.
pub(crate) struct GrpcConnectionSettings {
    /// Requests at once; others wait at the client.
    pub(crate) streams_max: u32,
    /// Bytes of a request that may be on their way without having been read.
    pub(crate) window_bytes: u32,
    /// Bytes of all its requests that are not whole yet.
    pub(crate) unfinished_bytes: usize,
    /// Time in which a request, or a message of a stream, has to be whole.
    pub(crate) message_timeout: Duration,
    /// True if requests are one message each.
    pub(crate) is_unary: bool,
    /// Names by which the health of its services is asked for.
    pub(crate) names: &'static [&'static str],
}

/// Serves a connection to its end.
pub(crate) async fn serve<S>(
    stream: ListenerStream,
    services: Routes,
    connection: GrpcConnectionSettings,
    listener: &ListenerContext<S>,
    mut stop: ShutdownSignal,
) {
    let health =
        HealthServer::new(HealthService { node: Arc::clone(&listener.node), names: connection.names });
    let router = services.add_service(health).into_axum_router();
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder
        // It panics before 1970.
        .auto_date_header(false)
        .timer(TokioTimer::new())
        .max_concurrent_streams(connection.streams_max)
        .max_header_list_size(HEAD_BYTES_MAX)
        .keep_alive_interval(ALIVE.min(listener.idle()))
        .initial_stream_window_size(connection.window_bytes)
        .initial_connection_window_size(connection.window_bytes.saturating_mul(2));
    let caller = Caller::of_peer(stream.client());
    let GrpcConnectionSettings { unfinished_bytes, message_timeout: patience, is_unary, .. } = connection;
    let intake = IntakeBudget::new(&listener.node, unfinished_bytes, patience, is_unary, caller);
    let router = TowerToHyperService::new(router);
    let (node, name) = (Arc::clone(&listener.node), listener.plan.name.clone());
    let service = service_fn(move |request| match intake.open(request) {
        Ok(request) => Either::Left(router.call(request)),
        Err(status) => {
            node.metrics.listener_failure(&name, "overloaded");
            Either::Right(ready(Ok(status.into_http())))
        }
    });
    let served = builder.serve_connection(TokioIo::new(stream), service);
    let mut served = std::pin::pin!(served);
    let ended = tokio::select! {
        ended = &mut served => ended,
        () = stop.wanted() => {
            served.as_mut().graceful_shutdown();
            served.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, listener = listener.plan.name, "a connection ended badly");
    }
}
