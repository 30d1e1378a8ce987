//! Health and metrics on a listener of their own, over HTTP/1.1: for probes and Prometheus, which then need no token and reach
//! nothing else.

use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;

use axum::Json;
use axum::http::header::{ALLOW, CONNECTION, CONTENT_TYPE, HOST};
use axum::http::{HeaderValue, Method, Request};
use axum::response::{IntoResponse, Response};
use content::text::received;
use hyper::body::{Body, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};

use crate::api::HealthJson;
use crate::core::listener::{ListenerStream, ShutdownSignal};
use crate::core::listener_context::ListenerContext;
use crate::core::metrics;
use crate::core::problem::{
    FORBIDDEN, HttpFailure, INTERNAL, METHOD_NOT_ALLOWED, NOT_FOUND, UNAVAILABLE, shown,
};
use crate::core::tokens::names_this_host;

/// Bytes of a request's head.
const HEAD_BYTES_MAX: usize = 16 << 10;

/// A listener for probes.
pub(super) type MonitoringContext = ListenerContext<()>;

/// Holds a conversation to its end.
pub(super) async fn converse(
    stream: ListenerStream,
    listener: Arc<MonitoringContext>,
    mut stop: ShutdownSignal,
) {
    let is_here = stream.is_loopback();
    let of = Arc::clone(&listener);
    let service = service_fn(move |request| {
        let listener = Arc::clone(&of);
        async move { Ok::<_, Infallible>(respond(&listener, &request, is_here).await) }
    });
    let served = http1::Builder::new()
        // It panics before 1970.
        .auto_date_header(false)
        .timer(TokioTimer::new())
        .header_read_timeout(listener.idle().min(listener.node.timeout()))
        .max_header_size(HEAD_BYTES_MAX)
        .max_buf_size(HEAD_BYTES_MAX)
        // Clients of HTTP/1.0 end their side once they have asked.
        .half_close(true)
        .serve_connection(TokioIo::new(stream), service);
    let mut served = pin!(served);
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

async fn respond(listener: &MonitoringContext, request: &Request<Incoming>, is_here: bool) -> Response {
    let is_known = matches!(*request.method(), Method::GET | Method::HEAD);
    let answer = match (request.uri().path(), is_known) {
        ("/healthz", true) => Ok(Json(HealthJson::of(Vec::new())).into_response()),
        ("/readyz", true) => match listener.node.unready() {
            None => Ok(Json(HealthJson::of(listener.node.engine.health().list())).into_response()),
            Some(why) => Err(UNAVAILABLE.failure(why)),
        },
        ("/metrics", true) => page(listener, request, is_here).await,
        ("/healthz" | "/readyz" | "/metrics", false) => {
            Err(METHOD_NOT_ALLOWED.failure(shown(request.method().as_str())).help("it takes GET and HEAD"))
        }
        (path, _) => {
            let what = format!("there is no URL `{}` on this listener", shown(path));
            Err(NOT_FOUND.failure(what).help("there are `/healthz`, `/readyz` and `/metrics`"))
        }
    };
    let mut response = answer.unwrap_or_else(IntoResponse::into_response);
    let mut set = |name, value| response.headers_mut().insert(name, HeaderValue::from_static(value));
    if !is_known {
        set(ALLOW, "GET, HEAD");
    }
    // Nobody reads a body here, so that what follows it is no request of whoever sent it.
    if !request.body().is_end_stream() {
        set(CONNECTION, "close");
    }
    response
}

/// The page of metrics. A page that a browser of this host shows must not read it by a name of its own.
async fn page(
    listener: &MonitoringContext,
    request: &Request<Incoming>,
    is_here: bool,
) -> Result<Response, HttpFailure> {
    let host = request.headers().get(HOST).map(|host| received(host.as_bytes())).unwrap_or_default();
    if is_here && !names_this_host(&host) {
        return Err(FORBIDDEN.failure("Host: neither an address nor `localhost`"));
    }
    let node = Arc::clone(&listener.node);
    let page = listener.node.pages.run(listener.node.timeout() / 2, move |_| node.metrics.page()).await?;
    let page = page.map_err(|_| INTERNAL.failure("the metrics could not be written"))?;
    Ok(([(CONTENT_TYPE, metrics::MEDIA_TYPE)], page).into_response())
}
