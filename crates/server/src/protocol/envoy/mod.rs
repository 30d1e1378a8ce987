//! Envoy's rate limit service v3 and its authorization service v3: gRPC over HTTP/2 without TLS, with the health service beside
//! them.
//!
//! ```text
//! request ─► asked ─► engine ─► answer
//!            descriptors → takes    takes → one status each
//! ```
//!
//! Limits are those of `[envoy]`. Where counts cannot be had the answer is `UNAVAILABLE`: Envoy's own
//! `failure_mode_deny` says what that means. Nothing a client sends is kept, but for the hashes of what is counted.
//! Authorization is in `authorization.rs`.

mod authorization;
mod request;
mod response;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use tonic::service::Routes;
use tonic::{Request, Response, Status};

use self::authorization::AuthorizationService;
use self::request::EnvoyRequest;
use crate::core::listener::{ListenerStream, ShutdownSignal};
use crate::core::listener_context::ListenerContext;
use crate::core::shares::Caller;
use crate::core::telemetry::RequestTrace;
use crate::protocol::grpc_transport::proto::envoy::service::auth::v3::authorization_server::AuthorizationServer;
use crate::protocol::grpc_transport::proto::envoy::service::ratelimit::v3::rate_limit_service_server::{
    RateLimitService, RateLimitServiceServer,
};
use crate::protocol::grpc_transport::proto::envoy::service::ratelimit::v3::{
    RateLimitRequest, RateLimitResponse,
};
use crate::protocol::grpc_transport::{GrpcConnectionSettings, RpcFuture, serve};

/// Largest request.
const REQUEST_BYTES_MAX: usize = 256 << 10;
/// Requests of one connection at once; others wait at the client.
const STREAMS_MAX: u32 = 256;
/// Bytes of a request that may be on their way: more than what Envoy sends has.
const WINDOW_BYTES: u32 = 64 << 10;
/// Bytes of all requests of a connection that are not whole yet.
const UNFINISHED_BYTES: usize = 2 << 20;
/// Names by which health is asked for: as gRPC names the service, and as the peer does.
const NAMES: &[&str] =
    &["envoy.service.ratelimit.v3.RateLimitService", "ratelimit", "envoy.service.auth.v3.Authorization"];

/// Holds a conversation to its end.
pub(crate) async fn converse(
    stream: ListenerStream,
    listener: Arc<ListenerContext<()>>,
    stop: ShutdownSignal,
) {
    let peer = stream.client();
    let limits = RateLimitServiceServer::new(EnvoyService {
        listener: Arc::clone(&listener),
        caller: Caller::of_peer(peer),
        peer,
    })
    .max_decoding_message_size(REQUEST_BYTES_MAX);
    let authorization =
        AuthorizationServer::new(AuthorizationService { listener: Arc::clone(&listener), peer })
            .max_decoding_message_size(REQUEST_BYTES_MAX);
    let connection = GrpcConnectionSettings {
        streams_max: STREAMS_MAX,
        window_bytes: WINDOW_BYTES,
        unfinished_bytes: UNFINISHED_BYTES,
        message_timeout: listener.node.timeout(),
        is_unary: true,
        names: NAMES,
    };
    serve(stream, Routes::new(limits).add_service(authorization), connection, &listener, stop).await;
}

#[derive(Clone, Debug)]
struct EnvoyService {
    listener: Arc<ListenerContext<()>>,
    caller: Caller,
    /// The address of who asks; none over a unix socket.
    peer: Option<IpAddr>,
}

impl RateLimitService for EnvoyService {
    fn should_rate_limit<'s, 'f>(
        &'s self,
        request: Request<RateLimitRequest>,
    ) -> RpcFuture<'f, Response<RateLimitResponse>>
    where
        's: 'f,
        Self: 'f,
    {
        self.clone().answer(request)
    }
}

impl EnvoyService {
    fn answer(self, request: Request<RateLimitRequest>) -> RpcFuture<'static, Response<RateLimitResponse>> {
        Box::pin(async move {
            let EnvoyService { listener, caller, peer } = self;
            let started = Instant::now();
            let trace = listener.node.begin_trace(started, Some(request.metadata().as_ref()), false, peer);
            let work = should_rate_limit(&listener, caller, request.into_inner());
            let answered = RequestTrace::bound(trace.clone(), work).await;
            if let Some(trace) = &trace {
                let code = answered.as_ref().err().map_or(0, |status| status.code() as i32);
                trace.finish_rpc(NAMES[0], "ShouldRateLimit", &listener.plan.name, code);
            }
            let word = match &answered {
                Ok(answer) => response::result_name(answer),
                Err(status) => {
                    let reason = response::reason(status);
                    listener.node.metrics.listener_failure(&listener.plan.name, reason);
                    reason
                }
            };
            listener.node.metrics.listener_answered(
                &listener.plan.name,
                word,
                started.elapsed(),
                trace.as_deref(),
            );
            answered.map(Response::new)
        })
    }
}

async fn should_rate_limit(
    listener: &ListenerContext<()>,
    caller: Caller,
    request: RateLimitRequest,
) -> Result<RateLimitResponse, Status> {
    let place = listener.place(caller).map_err(|failure| Status::unavailable(failure.to_string()))?;
    let (node, now) = (Arc::clone(&listener.node), listener.node.now());
    let plan = node.engine.plan();
    let asked = EnvoyRequest::new(&node.engine, &plan.envoy, request)?;
    let work = async move {
        let stage = RequestTrace::during("limits");
        let taken = asked.take(&node.engine, now).await;
        drop((stage, place));
        taken.map(|taken| {
            let answer = response::answer(&asked, &taken, &plan.envoy);
            asked.count(&taken, &node.grpc);
            answer
        })
    };
    match listener.within_timeout(work).await {
        Ok(answer) => answer.ok_or_else(|| Status::unavailable("limits cannot be counted now")),
        Err(failure) => Err(Status::unavailable(failure.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use engine::Engine;
    use plan::{Config, Overrides, Plan};
    use tonic::Code;

    use super::*;
    use crate::protocol::grpc_transport::proto::envoy::extensions::common::ratelimit::v3::RateLimitDescriptor;
    use crate::protocol::grpc_transport::proto::envoy::extensions::common::ratelimit::v3::rate_limit_descriptor::Entry;
    use crate::core::node::Node;

    #[tokio::test]
    async fn envoy_decides_where_counts_cannot_be_had() {
        let directory = tempfile::tempdir().unwrap();
        let main = directory.path().join("tollhouse.toml");
        let text = "preset = \"web\"\n[envoy]\nconfig = [\"a.yaml\"]\n[[listener]]\nname = \"e\"\n\
                    protocol = \"envoy\"\nlisten = \"[::1]:0\"\n";
        std::fs::write(&main, text).unwrap();
        let limits =
            "domain: a\ndescriptors:\n  - key: k\n    rate_limit: {unit: day, requests_per_unit: 1}\n";
        std::fs::write(directory.path().join("a.yaml"), limits).unwrap();
        let plan = Plan::compile(&Config::load(&main, &Overrides::default()));
        let engine =
            Arc::new(Engine::ephemeral(plan.unwrap_or_else(|problems| panic!("{problems}"))).unwrap());
        let listener = engine.plan().node.listeners[0].with(());
        let node = Arc::new(Node::new(Arc::clone(&engine), crate::Clock::of(crate::SystemClock, None)));
        let listener = Arc::new(ListenerContext::new(node, listener));
        let service = EnvoyService { listener, caller: Caller::Local, peer: None };
        let ask = |key: &str| {
            let entries = vec![Entry { key: key.to_owned(), value: "v".to_owned() }];
            let descriptors = vec![RateLimitDescriptor { entries, ..RateLimitDescriptor::default() }];
            service.should_rate_limit(Request::new(RateLimitRequest {
                domain: "a".to_owned(),
                descriptors,
                hits_addend: 0,
            }))
        };
        assert_eq!(ask("k").await.unwrap().into_inner().overall_code, 1);
        assert_eq!(ask("k").await.unwrap().into_inner().overall_code, 2);
        engine.close().unwrap();
        assert_eq!(ask("k").await.unwrap_err().code(), Code::Unavailable);
        assert_eq!(ask("other").await.unwrap().into_inner().overall_code, 1, "nothing is to be counted");
    }
}
