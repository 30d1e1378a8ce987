//! Rspamd's protocol: HTTP as `rspamc`, mail servers and delivery agents speak it, and the older `CHECK RSPAMC/1.3`
//! of Exim.
//!
//! The first word over a connection tells the two apart. What scans and what the controller does is asked for at the
//! same address; what changes or tells something needs one of the node's tokens as `Password`, if it has any.

mod answer;
mod request;
mod tally;

use std::convert::Infallible;
use std::io::Cursor;
use std::net::IpAddr;
use std::ops::Deref;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use access::{AccessScope, TokenGrant};
use axum::body::Bytes;
use axum::http::header::{ALLOW, CONNECTION, CONTENT_TYPE, HOST, ORIGIN};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode};
use content::mail::message::Envelope;
use content::text::received;
use data_encoding::HEXLOWER;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use serde_json::json;
use sha2::{Digest, Sha256};
use tokio::io::{AsyncReadExt, join, split};
use tokio::time::timeout;

use self::answer::{AnsweredMessage, RspamdResult, refused_line};
use self::request::{RspamdRefusal, RspamdRequest};
use self::tally::RspamdTally;
use crate::core::framing::{FramingFault, SharedFault, WatchedStream};
use crate::core::listener::{ListenerStream, ShutdownSignal};
use crate::core::pace::TooSlow;
use crate::core::shares::Caller;
use crate::core::telemetry::RequestTrace;
use crate::core::tokens::names_this_host;
use crate::protocol::content_encoding::{DecompressError, zstd_compressed};
use crate::protocol::mail::MailListener;
use crate::protocol::mail::answer::MailAnswer;
use crate::protocol::mail::command_reader::{CommandReadError, CommandReader};
use crate::protocol::mail::score::defers;
use crate::protocol::mail::{
    LearnError, MailMessage, MessageBody, MessageOutcome, decompressed, header, subject,
};

/// Words that requests of the older protocol begin with.
const OLDER: [&[u8]; 7] = [b"CHECK", b"SYMBOLS", b"REPORT", b"REPORT_IFSPAM", b"PROCESS", b"PING", b"SKIP"];
/// Bytes of the first word that are waited for.
const WORD_BYTES_MAX: usize = 16;
/// Bytes of an HTTP request's head, and its lines: a message may have a thousand recipients.
const HEAD_BYTES_MAX: usize = 128 << 10;
const HEADERS_MAX: usize = 2048;

/// Bytes of a message that tell it from others of the same queue's id.
const HASHED_BYTES_MAX: usize = 64 << 10;

/// A listener, and what its clients are told of it.
#[derive(Debug)]
pub(super) struct RspamdListener {
    context: MailListener,
    tally: RspamdTally,
}

impl RspamdListener {
    pub(super) fn open(context: MailListener) -> RspamdListener {
        RspamdListener { context, tally: RspamdTally::default() }
    }
}

impl Deref for RspamdListener {
    type Target = MailListener;

    fn deref(&self) -> &MailListener {
        &self.context
    }
}

/// Holds a conversation of either form.
pub(super) async fn converse(
    stream: ListenerStream,
    listener: Arc<RspamdListener>,
    mut stop: ShutdownSignal,
) {
    listener.tally.connections.fetch_add(1, Ordering::Relaxed);
    let mut reader = CommandReader::new(stream, Vec::new());
    let begun = timeout(listener.node.timeout(), async {
        tokio::select! {
            () = stop.wanted() => None,
            older = is_older(&mut reader) => older,
        }
    });
    match begun.await {
        Ok(Some(true)) => older(reader, &listener).await,
        Ok(Some(false)) => http(reader, listener, stop).await,
        // It ended, or said nothing for too long.
        Ok(None) | Err(_) => {}
    }
}

/// Reads the first word; `None` if there is none.
async fn is_older(reader: &mut CommandReader) -> Option<bool> {
    loop {
        let seen = &reader.seen()[..reader.seen().len().min(WORD_BYTES_MAX)];
        if let Some(end) = seen.iter().position(|byte| !byte.is_ascii_alphabetic() && *byte != b'_') {
            return Some(OLDER.contains(&&seen[..end]));
        }
        if seen.len() == WORD_BYTES_MAX {
            return Some(false);
        }
        if reader.more().await.ok()?.is_empty() {
            return None;
        }
    }
}

/// Serves HTTP until the client ends, or the node does between two requests.
async fn http(reader: CommandReader, listener: Arc<RspamdListener>, mut stop: ShutdownSignal) {
    let (stream, seen) = reader.into_parts();
    let client = RspamdClient { address: stream.client(), is_here: stream.is_loopback() };
    let (read, write) = split(stream);
    let found = SharedFault::default();
    let stream = TokioIo::new(WatchedStream::new(join(Cursor::new(seen).chain(read), write), found.clone()));
    let of = Arc::clone(&listener);
    let service = service_fn(move |request| {
        let (listener, fault) = (Arc::clone(&of), found.get());
        async move {
            Ok::<_, Infallible>(match fault {
                Some(fault) => misframed(fault),
                None => respond(&listener, request, client).await,
            })
        }
    });
    let served = http1::Builder::new()
        // It panics before 1970.
        .auto_date_header(false)
        .timer(TokioTimer::new())
        .header_read_timeout(listener.node.timeout())
        .max_headers(HEADERS_MAX)
        .max_header_size(HEAD_BYTES_MAX)
        .max_buf_size(HEAD_BYTES_MAX)
        // Clients of HTTP/1.0 end their side once they have asked.
        .half_close(true)
        .serve_connection(stream, service);
    let mut served = pin!(served);
    let ended = tokio::select! {
        ended = served.as_mut() => ended,
        () = stop.wanted() => {
            served.as_mut().graceful_shutdown();
            served.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, listener = listener.plan.name, "a connection ended badly");
    }
}

type RspamdResponse = Response<Full<Bytes>>;

const JSON: HeaderValue = HeaderValue::from_static("application/json");

fn answer(status: StatusCode, kind: HeaderValue, body: impl Into<Bytes>) -> RspamdResponse {
    let mut answer = Response::new(Full::new(body.into()));
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, kind);
    answer
}

/// An error as Rspamd tells it.
fn failed(status: StatusCode, why: &str) -> RspamdResponse {
    answer(status, JSON, json!({"error": why, "error_domain": "tollhouse"}).to_string())
}

/// Returns what a connection is told, as the last, on which a request can be read in two ways.
fn misframed(fault: FramingFault) -> RspamdResponse {
    let mut answer = failed(StatusCode::BAD_REQUEST, &fault.to_string());
    answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    answer
}

/// The endpoint that a URL asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RspamdEndpoint {
    /// To scan; whether the answer is of the older shape.
    Scan {
        older: bool,
    },
    Learn {
        spam: bool,
    },
    Ping,
    Stat,
    Auth,
    Metrics,
}

impl RspamdEndpoint {
    fn of(path: &str) -> Option<RspamdEndpoint> {
        Some(match path.trim_matches('/').to_ascii_lowercase().as_str() {
            "checkv2" => RspamdEndpoint::Scan { older: false },
            "check" | "symbols" | "scan" | "report" => RspamdEndpoint::Scan { older: true },
            "learnspam" => RspamdEndpoint::Learn { spam: true },
            "learnham" => RspamdEndpoint::Learn { spam: false },
            "ping" => RspamdEndpoint::Ping,
            "stat" => RspamdEndpoint::Stat,
            "auth" => RspamdEndpoint::Auth,
            "metrics" => RspamdEndpoint::Metrics,
            _ => return None,
        })
    }

    /// Returns the scope that a token needs for it; `None` where none is asked for.
    fn scope(self) -> Option<AccessScope> {
        match self {
            RspamdEndpoint::Scan { .. } | RspamdEndpoint::Ping => None,
            RspamdEndpoint::Stat | RspamdEndpoint::Auth | RspamdEndpoint::Metrics => Some(AccessScope::Read),
            RspamdEndpoint::Learn { .. } => Some(AccessScope::Teach),
        }
    }

    /// Returns its path, for traces.
    fn route(self) -> &'static str {
        match self {
            RspamdEndpoint::Scan { older: false } => "/checkv2",
            RspamdEndpoint::Scan { older: true } => "/check",
            RspamdEndpoint::Learn { spam: true } => "/learnspam",
            RspamdEndpoint::Learn { spam: false } => "/learnham",
            RspamdEndpoint::Ping => "/ping",
            RspamdEndpoint::Stat => "/stat",
            RspamdEndpoint::Auth => "/auth",
            RspamdEndpoint::Metrics => "/metrics",
        }
    }

    fn wants_message(self) -> bool {
        matches!(self, RspamdEndpoint::Scan { .. } | RspamdEndpoint::Learn { .. })
    }
}

/// The client that asks.
#[derive(Clone, Copy, Debug)]
struct RspamdClient {
    address: Option<IpAddr>,
    /// At a loopback address.
    is_here: bool,
}

async fn respond(
    listener: &RspamdListener,
    request: Request<Incoming>,
    client: RspamdClient,
) -> RspamdResponse {
    let started = Instant::now();
    let Some(what) = RspamdEndpoint::of(request.uri().path()) else {
        return failed(StatusCode::NOT_FOUND, "there is no such command");
    };
    let (parts, incoming) = request.into_parts();
    // A browser that some page makes ask here says so.
    if parts.headers.contains_key(ORIGIN) {
        return failed(StatusCode::FORBIDDEN, "pages of browsers are not answered");
    }
    // Or its own host's name leads here, by a name server that changed its mind (DNS rebinding).
    let host = parts.headers.get(HOST).map(|host| received(host.as_bytes()));
    if client.is_here && host.is_some_and(|host| !names_this_host(&host)) {
        return failed(StatusCode::FORBIDDEN, "Host: neither an address nor `localhost`");
    }
    if what.wants_message() && parts.method != Method::POST && parts.method != Method::PUT {
        let mut refused = failed(StatusCode::METHOD_NOT_ALLOWED, "send the message with POST");
        refused.headers_mut().insert(ALLOW, HeaderValue::from_static("POST"));
        return refused;
    }
    let asked = request::query(parts.uri.query().unwrap_or_default()).and_then(|()| read(&parts.headers));
    let asked = match asked {
        Ok(asked) => asked,
        Err(refused @ RspamdRefusal::File(_)) => return failed(StatusCode::FORBIDDEN, &refused.to_string()),
        Err(refused) => return failed(StatusCode::BAD_REQUEST, &refused.to_string()),
    };
    let rights = match &asked.password {
        Some(password) => {
            listener.node.rights_of(password.as_bytes(), &listener.plan.name, client.address).await
        }
        None => None,
    };
    let is_known = rights.is_some();
    let request = AuthenticatedRequest { what, asked, incoming, client, rights, started };
    let Some(trace) = listener.node.begin_trace(started, Some(&parts.headers), is_known, client.address)
    else {
        return request.answer(listener).await;
    };
    let work = Box::pin(request.answer(listener));
    let response = RequestTrace::bound(Some(Arc::clone(&trace)), work).await;
    trace.finish_http(parts.method.as_str(), what.route(), response.status().as_u16());
    response
}

/// A request that makes sense, and the rights that its password gives.
struct AuthenticatedRequest {
    what: RspamdEndpoint,
    asked: RspamdRequest,
    incoming: Incoming,
    client: RspamdClient,
    rights: Option<Arc<TokenGrant>>,
    started: Instant,
}

impl AuthenticatedRequest {
    async fn answer(self, listener: &RspamdListener) -> RspamdResponse {
        let AuthenticatedRequest { what, asked, incoming, client, rights, started } = self;
        if let Some(refused) = refusal(listener, what, rights, client.address) {
            return refused;
        }
        if !what.wants_message() {
            return respond_without_message(listener, what).await;
        }
        let stage = RequestTrace::during("body");
        let body = match timeout(listener.idle(), collected(listener, client, incoming)).await {
            Ok(Ok(body)) => body,
            Ok(Err(CollectError::Ended(error))) => {
                tracing::debug!(%error, listener = listener.plan.name, "a body could not be read");
                return closing(failed(StatusCode::BAD_REQUEST, "the message ended early"));
            }
            Ok(Err(CollectError::Slow(slow))) => {
                listener.misused(client.address, "slow-body", &slow);
                return closing(failed(StatusCode::REQUEST_TIMEOUT, &format!("the message: {slow}")));
            }
            Err(_) => {
                return closing(failed(StatusCode::REQUEST_TIMEOUT, "the message did not come in time"));
            }
        };
        let body = match plain(listener, &asked, body).await {
            Ok(body) => body,
            Err(error @ (DecompressError::TooLarge | DecompressError::TooCostly)) => {
                return failed(StatusCode::PAYLOAD_TOO_LARGE, &error.to_string());
            }
            Err(error @ DecompressError::Slow) => {
                return failed(StatusCode::SERVICE_UNAVAILABLE, &error.to_string());
            }
            Err(error @ DecompressError::Damaged) => {
                return failed(StatusCode::BAD_REQUEST, &error.to_string());
            }
        };
        if body.is_whole() && body.bytes().is_empty() {
            return failed(StatusCode::BAD_REQUEST, "there is no message");
        }
        drop(stage);
        let packed = asked.encoding;
        let mut said = match what {
            RspamdEndpoint::Learn { spam } => learn(listener, asked, body, spam).await,
            RspamdEndpoint::Scan { older } => {
                let judged = scan(listener, asked, body, started).await;
                let seconds = started.elapsed().as_secs_f64();
                answer(
                    StatusCode::OK,
                    JSON,
                    if older { judged.older_json(seconds) } else { judged.json(seconds) },
                )
            }
            _ => respond_without_message(listener, what).await,
        };
        if let Some((_, header)) = packed {
            said = zipped(said, header).await;
        }
        said
    }
}

/// Reads the headers that say something of the message.
fn read(headers: &HeaderMap) -> Result<RspamdRequest, RspamdRefusal> {
    let texts: Vec<(&str, String)> = headers
        .iter()
        .map(|(name, value)| (name.as_str(), received(value.as_bytes()).into_owned()))
        .collect();
    request::asked(texts.iter().map(|(name, value)| (*name, value.as_str())))
}

/// Returns what somebody is told who may not ask for this.
fn refusal(
    listener: &RspamdListener,
    what: RspamdEndpoint,
    rights: Option<Arc<TokenGrant>>,
    client: Option<IpAddr>,
) -> Option<RspamdResponse> {
    let scope = what.scope();
    let open = match what {
        RspamdEndpoint::Learn { .. } => listener.plan.settings.learn,
        _ => !listener.node.wants_token(),
    };
    let scope = scope.filter(|_| !open)?;
    if let Some(rights) = rights {
        if rights.has(scope) && rights.reaches(&listener.plan.settings.pipeline) {
            return None;
        }
        listener.node.unscoped(&listener.plan.name, rights.name(), client);
        let why =
            format!("the token `{}` lacks the scope `{scope}`, or is for other pipelines", rights.name());
        return Some(failed(StatusCode::FORBIDDEN, &why));
    }
    let why = if listener.node.wants_token() {
        "Unauthorized: `Password` is none of the node's tokens"
    } else {
        "learning is not enabled: set `learn = true` for this listener, or `tokens` for the node"
    };
    Some(failed(StatusCode::FORBIDDEN, why))
}

/// Answers what needs no message.
async fn respond_without_message(listener: &RspamdListener, what: RspamdEndpoint) -> RspamdResponse {
    match what {
        RspamdEndpoint::Stat | RspamdEndpoint::Auth => {
            let Ok(pipeline) = listener.node.pipeline(Some(&listener.plan.settings.pipeline)) else {
                return failed(StatusCode::SERVICE_UNAVAILABLE, "the pipeline has gone");
            };
            // What cannot be read now is told as nothing.
            let learned =
                listener.node.engine.learned(&pipeline, listener.node.now()).await.unwrap_or_default();
            let status = match what {
                RspamdEndpoint::Stat => listener.tally.stat(&pipeline.version, &learned),
                _ => listener.tally.auth(&pipeline.version, &learned),
            };
            answer(StatusCode::OK, JSON, status.to_string())
        }
        RspamdEndpoint::Metrics => match listener.node.metrics.page() {
            Ok(page) => {
                answer(StatusCode::OK, HeaderValue::from_static(crate::core::metrics::MEDIA_TYPE), page)
            }
            Err(_) => failed(StatusCode::INTERNAL_SERVER_ERROR, "the page could not be written"),
        },
        _ => answer(StatusCode::OK, HeaderValue::from_static("text/plain"), "pong\r\n"),
    }
}

/// A reason for which a body is not whole.
#[derive(Debug, thiserror::Error)]
enum CollectError {
    #[error(transparent)]
    Ended(#[from] hyper::Error),
    #[error(transparent)]
    Slow(#[from] TooSlow),
}

async fn collected(
    listener: &RspamdListener,
    client: RspamdClient,
    mut incoming: Incoming,
) -> Result<MessageBody, CollectError> {
    let mut body = listener.body(Caller::of_peer(client.address));
    while let Some(frame) = body.paced.wait(incoming.frame()).await? {
        if let Ok(data) = frame?.into_data() {
            body.paced.add(data.len());
            body.push(&data);
        }
    }
    Ok(body)
}

/// An answer after which nothing more is read.
fn closing(mut answer: RspamdResponse) -> RspamdResponse {
    answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    answer
}

async fn plain(
    listener: &RspamdListener,
    asked: &RspamdRequest,
    body: MessageBody,
) -> Result<MessageBody, DecompressError> {
    match asked.encoding {
        Some((encoding, _)) => decompressed(listener, body, encoding).await,
        None => Ok(body),
    }
}

/// The answer packed as the question was.
async fn zipped(answer: RspamdResponse, header: &'static str) -> RspamdResponse {
    let (mut parts, body) = answer.into_parts();
    // A whole body never fails.
    let Ok(body) = body.collect().await;
    let plain = body.to_bytes();
    let body = match zstd_compressed(&plain) {
        Ok(packed) => {
            let name = HeaderName::from_bytes(header.as_bytes());
            parts.headers.extend(name.map(|name| (name, HeaderValue::from_static("zstd"))));
            Bytes::from(packed)
        }
        Err(_) => plain,
    };
    Response::from_parts(parts, Full::new(body))
}

/// The message as it is judged and learned. A client that says nothing of the envelope has a stored message, whose
/// fields say what the mail server knew.
fn message(asked: RspamdRequest, body: MessageBody) -> MailMessage {
    let (wrapped, bytes) = header::unwrapped(body.bytes());
    let start = body.bytes().len() - bytes.len();
    let mut envelope = asked.envelope;
    envelope.sender = envelope.sender.or(wrapped.sender);
    if envelope.recipients.is_empty() {
        envelope.recipients = wrapped.recipients;
    }
    if envelope == (Envelope { user: envelope.user.clone(), ..Envelope::default() }) {
        envelope = Envelope { user: envelope.user, ..Envelope::from_headers(bytes) };
    }
    // A queue's ids come again: with the message's own hash one names the message.
    let id = asked.queue_id.map(|queue_id| {
        let digest = Sha256::digest(&bytes[..bytes.len().min(HASHED_BYTES_MAX)]);
        let digest: String = HEXLOWER.encode(&digest[..8]);
        format!("{queue_id}/{digest}")
    });
    MailMessage { body: body.after(start), envelope, time: None, id }
}

async fn scan(
    listener: &RspamdListener,
    asked: RspamdRequest,
    body: MessageBody,
    started: Instant,
) -> RspamdResult {
    let other = asked.settings_id.as_deref().and_then(|name| listener.by(name));
    let of = other.as_ref().unwrap_or(&listener.context);
    let bytes = body.bytes().len();
    let tag = listener.plan.settings.subject_tag.clone();
    let read = of.aside(bytes, move || (answered(body.bytes(), tag.as_deref()), message(asked, body)));
    let (answered, message) = match read.await {
        Ok((answered, message)) => (answered, Ok(message)),
        Err(late) => (AnsweredMessage::default(), Err(late)),
    };
    let recipients = message.as_ref().map(|message| message.envelope.recipients.clone()).unwrap_or_default();
    let outcome = of.decide(message).await;
    let signed_id = of.id_field_action(outcome.id(), &recipients);
    let answer = MailAnswer::of(&listener.plan, &outcome, &signed_id);
    let judged = match outcome {
        MessageOutcome::Decided(decision) => {
            RspamdResult::of(&decision, &listener.plan, answer, signed_id, answered)
        }
        MessageOutcome::FailOpen(failure) => {
            RspamdResult::undecided(true, &failure.to_string(), answer, signed_id, answered)
        }
        MessageOutcome::FailClosed(failure) => RspamdResult::undecided(
            !defers(&listener.plan),
            &failure.to_string(),
            answer,
            signed_id,
            answered,
        ),
    };
    listener.tally.scanned(&judged, started.elapsed());
    judged
}

/// The parts of a message that its answer has; `tag` goes before the subject.
fn answered(message: &[u8], tag: Option<&str>) -> AnsweredMessage {
    let subject = header::subject(message).unwrap_or_default();
    AnsweredMessage {
        id: header::message_id(message),
        tagged_subject: tag.and_then(|tag| subject::tagged_text(subject, tag)),
    }
}

async fn learn(
    listener: &RspamdListener,
    asked: RspamdRequest,
    body: MessageBody,
    spam: bool,
) -> RspamdResponse {
    let class = if spam { "spam" } else { "ham" };
    // One message is learned once, whichever queue it came through.
    let asked = RspamdRequest { queue_id: None, ..asked };
    let other = asked.settings_id.as_deref().and_then(|name| listener.by(name));
    let of = other.as_ref().unwrap_or(&listener.context);
    let message = of.aside(body.bytes().len(), move || message(asked, body)).await;
    match of.learn(message, class).await {
        Ok(outcome) if outcome.duplicate => failed(
            StatusCode::ALREADY_REPORTED,
            &format!("the message has been already learned as {class}, ignore it"),
        ),
        Ok(_) => answer(StatusCode::OK, JSON, json!({"success": true}).to_string()),
        Err(error @ LearnError::NoClass(_)) => failed(StatusCode::NOT_FOUND, &error.to_string()),
        Err(LearnError::Failure(failure)) => failed(StatusCode::SERVICE_UNAVAILABLE, &failure.to_string()),
    }
}

/// Holds the one exchange of a connection in the older protocol.
async fn older(mut reader: CommandReader, listener: &RspamdListener) {
    let started = Instant::now();
    let answer = match timeout(listener.idle(), older_request(&mut reader, listener)).await {
        Ok(Ok(LegacyRequest::Nothing)) | Err(_) => return,
        Ok(Ok(LegacyRequest::Answered(answer))) => answer,
        Ok(Ok(LegacyRequest::Message(asked, body))) => scan(listener, *asked, body, started).await.lines(),
        Ok(Err(CommandReadError::Gone(error))) => {
            tracing::debug!(%error, listener = listener.plan.name, "a request was not finished");
            return;
        }
        Ok(Err(CommandReadError::Slow(slow))) => {
            listener.misused(reader.client(), "slow-body", &slow);
            refused_line(StatusCode::REQUEST_TIMEOUT.as_u16(), &slow.to_string())
        }
        Ok(Err(error)) => refused_line(StatusCode::BAD_REQUEST.as_u16(), &error.to_string()),
    };
    if let Err(error) = reader.finish(&answer).await {
        tracing::debug!(%error, listener = listener.plan.name, "an answer was not taken");
    }
}

/// A request of the older protocol.
enum LegacyRequest {
    Nothing,
    Answered(Vec<u8>),
    Message(Box<RspamdRequest>, MessageBody),
}

async fn older_request(
    reader: &mut CommandReader,
    listener: &RspamdListener,
) -> Result<LegacyRequest, CommandReadError> {
    let line = reader.line().await?;
    let refused =
        |why: &str| Ok(LegacyRequest::Answered(refused_line(StatusCode::BAD_REQUEST.as_u16(), why)));
    if line.protocol != "RSPAMC" {
        return refused("the protocol is RSPAMC");
    }
    match line.command.as_str() {
        "SKIP" => return Ok(LegacyRequest::Nothing),
        "PING" => return Ok(LegacyRequest::Answered(b"RSPAMD/1.3 0 PONG\r\n".to_vec())),
        "PROCESS" => return refused("messages are not given back"),
        _ => {}
    }
    let headers = reader.headers().await?;
    let asked = match request::asked(headers.iter()) {
        Ok(asked) => asked,
        Err(error) => return refused(&error.to_string()),
    };
    let mut body = listener.body(Caller::of_peer(reader.client()));
    reader.body(headers.content_length()?, &mut body).await?;
    match plain(listener, &asked, body).await {
        Ok(body) => Ok(LegacyRequest::Message(Box::new(asked), body)),
        Err(error) => refused(&error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_rspamds() {
        let check = |path: &str, expected: Option<RspamdEndpoint>| {
            assert_eq!(RspamdEndpoint::of(path), expected, "{path}")
        };
        check("/checkv2", Some(RspamdEndpoint::Scan { older: false }));
        check("/Check", Some(RspamdEndpoint::Scan { older: true }));
        check("/symbols", Some(RspamdEndpoint::Scan { older: true }));
        check("/learnham", Some(RspamdEndpoint::Learn { spam: false }));
        check("/stat", Some(RspamdEndpoint::Stat));
        check("/", None);
        check("/etc/passwd", None);
    }
}
