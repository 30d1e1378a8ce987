//! gRPC: HTTP/2 without TLS, as Envoy and senders of batches speak it, with the health service beside what is served.

mod batch;
mod health;

use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tonic::service::Routes;
use tonic_health::pb::health_server::HealthServer;

pub(crate) use self::batch::converse;
use self::health::Health;
use crate::listen::{Stop, Stream};
use crate::mail::Face;

/// Messages, and clients and servers of the services.
#[allow(missing_docs, clippy::all, reason = "made of the files in `proto`, by the build")]
pub mod proto {
    include!(concat!(env!("OUT_DIR"), "/messages.rs"));
}

/// Bytes of a request's header fields.
const HEAD_BYTES_MAX: u32 = 16 << 10;
/// Time between two looks whether a silent client is still there.
const ALIVE: Duration = Duration::from_secs(60);

/// What a connection may do.
pub(crate) struct Connection {
    /// Requests at once; others wait at the client.
    pub(crate) streams_max: u32,
    /// Bytes of a request that may be on their way without having been read; HTTP/2's 64 KiB if none are named.
    pub(crate) window_bytes: Option<u32>,
    /// Names by which the health of its services is asked for.
    pub(crate) names: &'static [&'static str],
}

/// Serves a connection to its end.
pub(crate) async fn serve(
    stream: Stream,
    services: Routes,
    connection: Connection,
    face: &Face,
    mut stop: Stop,
) {
    let health = HealthServer::new(Health { node: Arc::clone(&face.node), names: connection.names });
    let router = services.add_service(health).into_axum_router();
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .max_concurrent_streams(connection.streams_max)
        .max_header_list_size(HEAD_BYTES_MAX)
        .keep_alive_interval(ALIVE.min(face.idle()));
    if let Some(bytes) = connection.window_bytes {
        builder.initial_stream_window_size(bytes);
        builder.initial_connection_window_size(bytes.saturating_mul(2));
    }
    let served = builder.serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    let mut served = std::pin::pin!(served);
    let ended = tokio::select! {
        ended = &mut served => ended,
        () = stop.wanted() => {
            served.as_mut().graceful_shutdown();
            served.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, listener = face.plan.name, "a connection ended badly");
    }
}
