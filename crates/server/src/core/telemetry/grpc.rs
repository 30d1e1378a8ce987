//! A collector that is spoken to by OTLP over gRPC: unary calls over one connection of HTTP/2, which is kept and made anew
//! when it is lost. Messages are those that go over HTTP; there is no description to compile.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::http::header::{AUTHORIZATION, CONTENT_TYPE, TE, USER_AGENT};
use axum::http::uri::{Authority, Scheme};
use axum::http::{HeaderMap, HeaderValue, Request, StatusCode, Uri};
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http2::{Builder, SendRequest};
use hyper::rt::{Read, Write};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use plan::TelemetryPlan;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio::sync::Mutex;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

/// The methods of the collector's services.
const TRACES: &str = "/opentelemetry.proto.collector.trace.v1.TraceService/Export";
const METRICS: &str = "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export";
/// The port of collectors, where the URL names none.
const PORT: u16 = 4317;
/// Bytes of an answer's header fields.
const HEAD_BYTES_MAX: u32 = 16 << 10;
/// Bytes of an answer that are on their way at once.
const WINDOW_BYTES: u32 = 64 << 10;
/// Characters of a collector's own words that are logged.
const WORDS_MAX: usize = 200;

/// A service of the collector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OtlpService {
    Traces,
    Metrics,
}

impl OtlpService {
    fn method(self) -> &'static str {
        match self {
            OtlpService::Traces => TRACES,
            OtlpService::Metrics => METRICS,
        }
    }
}

/// A reason for which a collector has not taken a message.
#[derive(Debug, thiserror::Error)]
pub(super) enum OtlpGrpcError {
    #[error("it cannot be reached: {0}")]
    Unreachable(#[from] io::Error),
    #[error("the URL of the collector names no host")]
    Url,
    #[error("the connection failed: {0}")]
    Connection(#[from] hyper::Error),
    #[error("it did not answer in time")]
    Slow,
    #[error("its answer is too long, or broke off")]
    Answer,
    #[error("it answered the status {0} of HTTP")]
    Http(StatusCode),
    #[error("it answered the status {code} of gRPC: {words}")]
    Refused { code: String, words: String },
    #[error("it answered no status of gRPC")]
    NoStatus,
}

type CollectorConnection = SendRequest<Full<Bytes>>;

/// A client of one collector.
#[derive(Debug)]
pub(super) struct OtlpGrpcClient {
    authority: Option<Authority>,
    scheme: Scheme,
    authorization: Option<HeaderValue>,
    tls: Option<Arc<ClientConfig>>,
    /// The connection of the last call, if it is still there.
    connection: Mutex<Option<CollectorConnection>>,
}

impl OtlpGrpcClient {
    /// Makes the client of a plan. It connects with its first call.
    pub(super) fn new(plan: &TelemetryPlan) -> OtlpGrpcClient {
        let uri = plan.endpoint.parse::<Uri>().unwrap_or_default();
        let scheme = uri.scheme().cloned().unwrap_or(Scheme::HTTP);
        let authorization = plan.authorization.as_ref().and_then(|value| {
            let mut value = HeaderValue::from_str(value).ok()?;
            value.set_sensitive(true);
            Some(value)
        });
        let tls = (scheme == Scheme::HTTPS).then(tls).flatten();
        OtlpGrpcClient {
            authority: uri.authority().cloned(),
            scheme,
            authorization,
            tls,
            connection: Mutex::default(),
        }
    }

    /// Hands a message to a service. All of it has to be done within the time.
    pub(super) async fn send(
        &self,
        service: OtlpService,
        message: &[u8],
        within: Duration,
        answer_bytes_max: usize,
    ) -> Result<(), OtlpGrpcError> {
        let mut known = self.connection.lock().await;
        let call = self.call(&mut known, service, message, answer_bytes_max);
        let called = timeout(within, call).await.unwrap_or(Err(OtlpGrpcError::Slow));
        // After a refusal the connection is as good as before; after all else it is not known.
        if !matches!(called, Ok(()) | Err(OtlpGrpcError::Refused { .. })) {
            *known = None;
        }
        called
    }

    async fn call(
        &self,
        known: &mut Option<CollectorConnection>,
        service: OtlpService,
        message: &[u8],
        answer_bytes_max: usize,
    ) -> Result<(), OtlpGrpcError> {
        let authority = self.authority.as_ref().ok_or(OtlpGrpcError::Url)?;
        let mut connection = match known.take().filter(|known| !known.is_closed()) {
            Some(connection) => connection,
            None => self.connect(authority).await?,
        };
        connection.ready().await?;
        let answer = connection.send_request(self.request(authority, service, message)?).await?;
        *known = Some(connection);
        let (head, body) = answer.into_parts();
        if head.status != StatusCode::OK {
            return Err(OtlpGrpcError::Http(head.status));
        }
        let body = Limited::new(body, answer_bytes_max).collect().await;
        let body = body.map_err(|_| OtlpGrpcError::Answer)?;
        // An answer without a message has its status in the head.
        outcome(body.trailers().filter(|fields| fields.contains_key("grpc-status")).unwrap_or(&head.headers))
    }

    fn request(
        &self,
        authority: &Authority,
        service: OtlpService,
        message: &[u8],
    ) -> Result<Request<Full<Bytes>>, OtlpGrpcError> {
        let uri = Uri::builder()
            .scheme(self.scheme.clone())
            .authority(authority.clone())
            .path_and_query(service.method())
            .build();
        let mut request = Request::post(uri.map_err(|_| OtlpGrpcError::Url)?);
        if let Some(headers) = request.headers_mut() {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
            headers.insert(TE, HeaderValue::from_static("trailers"));
            let agent = concat!("tollhouse/", env!("CARGO_PKG_VERSION"));
            headers.insert(USER_AGENT, HeaderValue::from_static(agent));
            headers.extend(self.authorization.clone().map(|value| (AUTHORIZATION, value)));
        }
        request.body(Full::new(Bytes::from(framed(message)))).map_err(|_| OtlpGrpcError::Url)
    }

    async fn connect(&self, authority: &Authority) -> Result<CollectorConnection, OtlpGrpcError> {
        let host = authority.host().trim_start_matches('[').trim_end_matches(']');
        let stream = TcpStream::connect((host, authority.port_u16().unwrap_or(PORT))).await?;
        stream.set_nodelay(true)?;
        if self.scheme != Scheme::HTTPS {
            return connection_over(TokioIo::new(stream)).await;
        }
        let config = self.tls.clone().ok_or(OtlpGrpcError::Url)?;
        let name = ServerName::try_from(host.to_owned()).map_err(|_| OtlpGrpcError::Url)?;
        let stream = TlsConnector::from(config).connect(name, stream).await?;
        connection_over(TokioIo::new(stream)).await
    }
}

async fn connection_over<T>(stream: T) -> Result<CollectorConnection, OtlpGrpcError>
where
    T: Read + Write + Unpin + Send + 'static,
{
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .max_header_list_size(HEAD_BYTES_MAX)
        .initial_stream_window_size(WINDOW_BYTES)
        .initial_connection_window_size(WINDOW_BYTES);
    let (connection, work) = builder.handshake(stream).await?;
    tokio::spawn(async move {
        if let Err(error) = work.await {
            tracing::debug!(%error, "the connection to the collector ended badly");
        }
    });
    Ok(connection)
}

/// The settings of TLS towards a collector: public authorities, and HTTP/2 alone.
fn tls() -> Option<Arc<ClientConfig>> {
    let mut roots = RootCertStore::empty();
    roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().ok()?;
    let mut config = builder.with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec()];
    Some(Arc::new(config))
}

/// A message as gRPC frames it: not compressed, with its length.
fn framed(message: &[u8]) -> Vec<u8> {
    let length = u32::try_from(message.len()).unwrap_or(u32::MAX);
    let mut framed = Vec::with_capacity(message.len() + 5);
    framed.push(0);
    framed.extend_from_slice(&length.to_be_bytes());
    framed.extend_from_slice(message);
    framed
}

/// Reads the status that an answer ends with.
fn outcome(fields: &HeaderMap) -> Result<(), OtlpGrpcError> {
    let text = |name: &str| {
        let value = fields.get(name).map(|value| String::from_utf8_lossy(value.as_bytes()));
        value.map(|value| value.chars().filter(|sign| !sign.is_control()).take(WORDS_MAX).collect::<String>())
    };
    match text("grpc-status") {
        Some(code) if code == "0" => Ok(()),
        Some(code) => Err(OtlpGrpcError::Refused { code, words: text("grpc-message").unwrap_or_default() }),
        None => Err(OtlpGrpcError::NoStatus),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_say_what_became_of_a_message() {
        let check = |fields: &[(&'static str, &str)], expected: &str| {
            let mut headers = HeaderMap::new();
            for (name, value) in fields {
                headers.insert(*name, HeaderValue::from_bytes(value.as_bytes()).unwrap());
            }
            let told = outcome(&headers).err().map(|error| error.to_string()).unwrap_or_default();
            assert_eq!(told, expected, "{fields:?}");
        };
        check(&[("grpc-status", "0")], "");
        check(&[], "it answered no status of gRPC");
        let words = "it answered the status 14 of gRPC: too%20much";
        check(&[("grpc-status", "14"), ("grpc-message", "too%20much")], words);
        let long = "x".repeat(300);
        let cut = format!("it answered the status 8 of gRPC: {}", "x".repeat(WORDS_MAX));
        check(&[("grpc-status", "8"), ("grpc-message", &long)], &cut);
    }

    #[test]
    fn messages_have_their_length_before_them() {
        assert_eq!(framed(b"ab"), [0, 0, 0, 0, 2, b'a', b'b']);
        assert_eq!(framed(b""), [0; 5]);
    }
}
