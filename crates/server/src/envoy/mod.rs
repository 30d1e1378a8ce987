//! Envoy's rate limit service v3: gRPC over HTTP/2 without TLS, with the health service beside it.
//!
//! ```text
//! request ─► asked ─► engine ─► answer
//!            descriptors → takes    takes → one status each
//! ```
//!
//! Limits are those of `[envoy]`. Where counts cannot be had the answer is `UNAVAILABLE`: Envoy's own
//! `failure_mode_deny` says what that means. Nothing a client sends is kept, but for the hashes of what is counted.

mod answer;
mod asked;
mod health;

use std::sync::Arc;
use std::time::{Duration, Instant};

use hyper::server::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tonic::service::Routes;
use tonic::{Request, Response, Status};
use tonic_health::pb::health_server::HealthServer;

use self::asked::Asked;
use self::proto::envoy::service::ratelimit::v3::rate_limit_service_server::{
    RateLimitService, RateLimitServiceServer,
};
use self::proto::envoy::service::ratelimit::v3::{RateLimitRequest, RateLimitResponse};
use crate::listen::{Stop, Stream};
use crate::mail::Face;

/// Envoy's messages, and the service's client and server.
#[allow(missing_docs, clippy::all, reason = "made of the files in `proto`, by the build")]
pub mod proto {
    include!(concat!(env!("OUT_DIR"), "/messages.rs"));
}

/// Largest request.
const REQUEST_BYTES_MAX: usize = 256 << 10;
/// Bytes of a request's header fields.
const HEAD_BYTES_MAX: u32 = 16 << 10;
/// Requests of one connection at once; others wait at the client.
const STREAMS_MAX: u32 = 1024;
/// Time between two looks whether a silent client is still there.
const ALIVE: Duration = Duration::from_secs(60);

/// Holds a conversation to its end.
pub(crate) async fn converse(stream: Stream, face: Arc<Face>, mut stop: Stop) {
    let limits =
        RateLimitServiceServer::new(Service(Arc::clone(&face))).max_decoding_message_size(REQUEST_BYTES_MAX);
    let health = HealthServer::new(health::Health(Arc::clone(&face.node)));
    let router = Routes::new(limits).add_service(health).into_axum_router();
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS_MAX)
        .max_header_list_size(HEAD_BYTES_MAX)
        .keep_alive_interval(ALIVE.min(face.idle()));
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

#[derive(Debug)]
struct Service(Arc<Face>);

#[tonic::async_trait]
impl RateLimitService for Service {
    async fn should_rate_limit(
        &self,
        request: Request<RateLimitRequest>,
    ) -> Result<Response<RateLimitResponse>, Status> {
        let face = &self.0;
        let started = Instant::now();
        let answered = should_rate_limit(face, request.into_inner()).await;
        let word = match &answered {
            Ok(answer) => answer::word(answer),
            Err(status) => {
                let reason = answer::reason(status);
                face.node.metrics.listener_trouble(&face.plan.name, reason);
                reason
            }
        };
        face.node.metrics.listener_answered(&face.plan.name, word, started.elapsed());
        answered.map(Response::new)
    }
}

async fn should_rate_limit(face: &Face, request: RateLimitRequest) -> Result<RateLimitResponse, Status> {
    let place = face.place().map_err(|trouble| Status::unavailable(trouble.to_string()))?;
    let (node, now) = (Arc::clone(&face.node), face.node.now());
    let plan = node.engine.plan();
    let asked = Asked::new(&node.engine, &plan.envoy, request)?;
    let task = tokio::spawn(async move {
        let taken = asked.take(&node.engine, now).await;
        drop(place);
        taken.map(|taken| {
            let answer = answer::answer(&asked, &taken, &plan.envoy);
            asked.count(&taken, &node.metrics);
            answer
        })
    });
    match face.in_patience(task).await {
        Ok(answer) => answer.ok_or_else(|| Status::unavailable("limits cannot be counted now")),
        Err(trouble) => Err(Status::unavailable(trouble.to_string())),
    }
}
