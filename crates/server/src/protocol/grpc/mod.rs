//! Streams of batches: each is worked on as `POST /v1/batch/observe` and `/v1/batch/decide` do, through the same gate.
//!
//! ```text
//! stream of batches ─► one is read ─► the gate ─► worked on ─► its answer is taken ─► the next is read
//! ```
//!
//! What a client sends faster than it is worked on stays with it: HTTP/2 lets it send one window ahead. So a stream has
//! one batch and one answer in memory, and there are so many streams at most.

use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Instant;

use access::AccessScope;
use axum::body::Bytes;
use axum::http::HeaderMap;
use futures_util::Stream as Streamed;
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::time::timeout;
use tonic::metadata::MetadataMap;
use tonic::service::Routes;
use tonic::{Code, Request, Response, Status, Streaming};

use crate::core::deadline::{Deadline, NoAnswerReason};
use crate::core::grant::RequestGrant;
use crate::core::listener::{ListenerStream, ShutdownSignal};
use crate::core::listener_context::ListenerContext;
use crate::core::problem::HttpFailure;
use crate::core::reading_pool::asked_by;
use crate::core::shares::Caller;
use crate::core::telemetry::RequestTrace;
use crate::protocol::batch::{BatchOperation, IncomingBatch, work_on};
use crate::protocol::grpc_transport::proto::tollhouse::batch::v1::batch_request::Events;
use crate::protocol::grpc_transport::proto::tollhouse::batch::v1::batch_response::Answers;
use crate::protocol::grpc_transport::proto::tollhouse::batch::v1::batch_service_server::{
    BatchService, BatchServiceServer,
};
use crate::protocol::grpc_transport::proto::tollhouse::batch::v1::{BatchRequest, BatchResponse};
use crate::protocol::grpc_transport::{GrpcConnectionSettings, RpcFuture, serve};
use crate::protocol::input::{self, BodyFormat, DurabilityParam};

/// Streams of one connection at once; others wait at the client.
const STREAMS_MAX: u32 = 16;
/// Bytes of a stream that may be on their way: a batch of some thousand events, so that the next one comes while one is
/// worked on.
const WINDOW_BYTES: u32 = 1 << 20;
/// Names by which health is asked for.
const NAMES: &[&str] = &["tollhouse.batch.v1.BatchService"];
/// Bytes of a request beside its events.
const ROOM_BYTES: usize = 1 << 10;

/// A listener of streams of batches.
pub(crate) type BatchStreamContext = ListenerContext<plan::BatchStreamPlan>;

/// Holds a conversation to its end.
pub(crate) async fn converse(
    stream: ListenerStream,
    listener: Arc<BatchStreamContext>,
    stop: ShutdownSignal,
) {
    let body_max = usize::try_from(listener.node.plan().body_max).unwrap_or(usize::MAX);
    let service = BatchServiceServer::new(BatchHandler {
        listener: Arc::clone(&listener),
        client: stream.client(),
        stop: stop.clone(),
    })
    .max_decoding_message_size(body_max.saturating_add(ROOM_BYTES))
    .max_encoding_message_size(usize::MAX);
    let connection = GrpcConnectionSettings {
        streams_max: STREAMS_MAX,
        window_bytes: WINDOW_BYTES,
        // One largest batch and some of others: who sends several of those at once has several connections.
        unfinished_bytes: body_max
            .saturating_add(STREAMS_MAX as usize * ROOM_BYTES * 4)
            .saturating_add(body_max / 4),
        message_timeout: listener.node.timeout(),
        is_unary: false,
        names: NAMES,
    };
    serve(stream, Routes::new(service), connection, &listener, stop).await;
}

/// The scope that a token needs for a stream of batches.
const SCOPE: AccessScope = AccessScope::Decide;

#[derive(Clone)]
struct BatchHandler {
    listener: Arc<BatchStreamContext>,
    client: Option<IpAddr>,
    stop: ShutdownSignal,
}

type BatchResponseStream = Pin<Box<dyn Streamed<Item = Result<BatchResponse, Status>> + Send>>;

impl BatchService for BatchHandler {
    type ObserveStream = BatchResponseStream;
    type DecideStream = BatchResponseStream;

    fn observe<'s, 'f>(
        &'s self,
        request: Request<Streaming<BatchRequest>>,
    ) -> RpcFuture<'f, Response<BatchResponseStream>>
    where
        's: 'f,
        Self: 'f,
    {
        self.clone().begin(request, BatchOperation::Observe)
    }

    fn decide<'s, 'f>(
        &'s self,
        request: Request<Streaming<BatchRequest>>,
    ) -> RpcFuture<'f, Response<BatchResponseStream>>
    where
        's: 'f,
        Self: 'f,
    {
        self.clone().begin(request, BatchOperation::Decide)
    }
}

impl BatchHandler {
    /// Checks the token of a stream, where tokens are asked for.
    async fn may_ask(&self, metadata: &MetadataMap) -> Result<Arc<RequestGrant>, HttpFailure> {
        let listener = &self.listener;
        if !listener.node.wants_token() {
            return Ok(RequestGrant::of_host(self.client));
        }
        let grant = listener.node.check_token(metadata.as_ref(), &listener.plan.name, self.client).await?;
        let checked = grant.check_scope(SCOPE);
        if checked.is_err() {
            listener.node.unscoped(&listener.plan.name, grant.name(), self.client);
        }
        checked.map(|()| grant)
    }

    fn begin(
        self,
        request: Request<Streaming<BatchRequest>>,
        asked: BatchOperation,
    ) -> RpcFuture<'static, Response<BatchResponseStream>> {
        Box::pin(async move { self.answer(request, asked).await })
    }

    async fn answer(
        &self,
        request: Request<Streaming<BatchRequest>>,
        asked: BatchOperation,
    ) -> Result<Response<BatchResponseStream>, Status> {
        let node = &self.listener.node;
        let grant = self.may_ask(request.metadata()).await;
        let grant = grant.map_err(|failure| refused(&self.listener, failure))?;
        let context = node.telemetry.as_ref().map(|_| request.metadata().clone().into_headers());
        let place = Arc::clone(&node.grpc.streams).try_acquire_owned().map_err(|_| {
            node.metrics.listener_failure(&self.listener.plan.name, "overloaded");
            Status::unavailable("too many streams are open: try again a little later")
        })?;
        let (sender, receiver) = mpsc::channel(1);
        let answers = futures_util::stream::unfold(receiver, |mut receiver| async move {
            receiver.recv().await.map(|answer| (answer, receiver))
        });
        let work = BatchStreamTask {
            listener: Arc::clone(&self.listener),
            asked,
            stop: self.stop.clone(),
            grant,
            client: self.client,
            context,
            _place: place,
        };
        tokio::spawn(work.all(request.into_inner(), sender));
        Ok(Response::new(Box::pin(answers)))
    }
}

/// A stream that is worked on.
struct BatchStreamTask {
    listener: Arc<BatchStreamContext>,
    asked: BatchOperation,
    stop: ShutdownSignal,
    /// The rights that it began with.
    grant: Arc<RequestGrant>,
    client: Option<IpAddr>,
    /// The header fields that it began with, where they may name a trace.
    context: Option<HeaderMap>,
    _place: OwnedSemaphorePermit,
}

impl BatchStreamTask {
    /// Answers batches until there is none, one fails, the client has gone, or the node ends. Who hears of the end of the
    /// node has the answers to all batches that were counted.
    async fn all(
        mut self,
        mut batches: Streaming<BatchRequest>,
        answers: mpsc::Sender<Result<BatchResponse, Status>>,
    ) {
        loop {
            let idle = self.listener.idle();
            let next = tokio::select! {
                next = timeout(idle, batches.message()) => next,
                () = self.stop.wanted() => Ok(Err(Status::unavailable("the node is shutting down"))),
                () = answers.closed() => return,
            };
            let answer = match next {
                // Who has gone ends the reading of its batch; what of it is being counted goes on.
                Ok(Ok(Some(batch))) => tokio::select! {
                    answer = self.one(batch) => answer,
                    () = answers.closed() => return,
                },
                Ok(Ok(None)) => return,
                Ok(Err(status)) => Err(status),
                Err(_) => Err(Status::deadline_exceeded("no batch came for the listener's `idle` time")),
            };
            let is_last = answer.is_err();
            // Who has gone misses the answer to what was counted: with an id the batch can be sent again.
            if answers.send(answer).await.is_err() || is_last {
                return;
            }
        }
    }

    async fn one(&self, batch: BatchRequest) -> Result<BatchResponse, Status> {
        let listener = &self.listener;
        let started = Instant::now();
        let work = asked_by(Caller::Known, answer(Arc::clone(listener), batch, self.asked));
        let work = Arc::clone(&self.grant).bound(work);
        // Each batch is a span beneath the stream's caller.
        let trace = listener.node.begin_trace(started, self.context.as_ref(), true, self.client);
        let work = RequestTrace::bound(trace.clone(), work);
        let answered = match Deadline::after(listener.node.timeout()).run(work).await {
            Ok(answered) => answered.map_err(|failure| refused(listener, failure)),
            Err(NoAnswerReason::Panicked) => {
                listener.node.metrics.panics.inc();
                Err(Status::internal("the batch could not be handled: this is a defect, please report it"))
            }
            Err(NoAnswerReason::Late) => {
                let seconds = listener.node.timeout().as_secs_f64();
                let message =
                    format!("the answer was not ready after {seconds} s; the work may still be done");
                listener.node.metrics.listener_failure(&listener.plan.name, "slow");
                Err(Status::deadline_exceeded(message))
            }
        };
        if let Some(trace) = &trace {
            let code = answered.as_ref().err().map_or(0, |status| status.code() as i32);
            trace.finish_rpc(NAMES[0], self.asked.name(), &listener.plan.name, code);
        }
        let word = if answered.is_ok() { "answered" } else { "refused" };
        listener.node.metrics.listener_answered(
            &listener.plan.name,
            word,
            started.elapsed(),
            trace.as_deref(),
        );
        answered
    }
}

async fn answer(
    listener: Arc<BatchStreamContext>,
    batch: BatchRequest,
    asked: BatchOperation,
) -> Result<BatchResponse, HttpFailure> {
    let node = &listener.node;
    let BatchRequest { pipeline, id, events, sync } = batch;
    let name = if pipeline.is_empty() { &listener.plan.settings.pipeline } else { &pipeline };
    let pipeline = node.pipeline(Some(name))?;
    let id = input::checked_batch_id(&id)?;
    let durability = sync.then_some(DurabilityParam::Sync);
    let (form, body) = match events {
        Some(Events::Arrow(body)) => (BodyFormat::Arrow, body),
        Some(Events::Ndjson(body)) => (BodyFormat::Json, body),
        None => (BodyFormat::Json, Bytes::new()),
    };
    let _room = node.body_room(Caller::Known, body.len())?;
    let listener = listener.plan.name.clone();
    let answered =
        work_on(node, IncomingBatch { listener, pipeline, form, id, body, asked, durability }).await?;
    // A message is one piece.
    let answered = Bytes::from(answered.concat());
    let answers =
        if form == BodyFormat::Arrow { Answers::Arrow(answered) } else { Answers::Ndjson(answered) };
    Ok(BatchResponse { answers: Some(answers) })
}

/// A failure as a status of gRPC.
fn refused(listener: &BatchStreamContext, failure: HttpFailure) -> Status {
    let problem = failure.problem();
    let (code, reason) = match problem.status {
        401 => (Code::Unauthenticated, "unauthenticated"),
        403 => (Code::PermissionDenied, "denied"),
        404 => (Code::NotFound, "not-found"),
        413 => (Code::ResourceExhausted, "too-large"),
        408 | 503 => (Code::Unavailable, "unavailable"),
        400..=499 => (Code::InvalidArgument, "invalid"),
        _ => (Code::Internal, "internal"),
    };
    listener.node.metrics.listener_failure(&listener.plan.name, reason);
    let message = match problem.help {
        Some(help) => format!("{}: {help}", problem.detail),
        None => problem.detail,
    };
    Status::new(code, message)
}
