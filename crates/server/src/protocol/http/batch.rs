//! The routes of batches.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use hyper::body::{Frame, SizeHint};
use utoipa::ToSchema;

use super::events::BatchParams;
use super::{HTTP, QueryParams};
use crate::core::node::Node;
use crate::core::problem::{HttpFailure, ProblemResponses};
use crate::protocol::batch::{BatchOperation, IncomingBatch, work_on};
use crate::protocol::input::{self, BodyFormat, JSON_LINES};

/// An Arrow IPC stream of columns.
#[derive(ToSchema)]
#[schema(value_type = String, format = Binary)]
#[expect(dead_code, reason = "for the description alone")]
struct ArrowStream(Vec<u8>);

/// Counts events and returns what is then known of their keys, row by row. Nothing is decided or logged.
///
/// The answer's columns are called `KIND.VALUE` (`user.count`, `ip.first`, `ip.quality`); values include the row's event. A
/// row without a key of a kind has no values of it.
#[utoipa::path(
    post,
    path = "/v1/batch/observe",
    tag = "decide",
    operation_id = "batch_observe",
    params(BatchParams, input::BatchHeaders),
    request_body(
        description = "An Arrow IPC stream of columns, JSON objects one a line, or an array of them; at most `batch_max` events",
        content(
            (ArrowStream = "application/vnd.apache.arrow.stream"),
            (String = "application/x-ndjson"),
            (Vec<serde_json::Value> = "application/json"),
        ),
    ),
    responses(
        (
            status = 200,
            description = "What is known, in the form of the request, and row by row as it was sent",
            content(
                (ArrowStream = "application/vnd.apache.arrow.stream"),
                (serde_json::Value = "application/x-ndjson"),
                (Vec<serde_json::Value> = "application/json"),
            ),
        ),
        ProblemResponses,
    ),
)]
pub(super) async fn observe(
    State(node): State<Arc<Node>>,
    QueryParams(params): QueryParams<BatchParams>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, HttpFailure> {
    answer(&node, params, &headers, body, BatchOperation::Observe).await
}

/// Decides on events, and returns each row's decision and what is then known of its keys.
///
/// Beside the columns of `/v1/batch/observe` an answer has `id`, `score`, `action` and `reasons`. Each row's readings
/// include the rows before it; what depends on verdicts is counted after the whole batch.
#[utoipa::path(
    post,
    path = "/v1/batch/decide",
    tag = "decide",
    operation_id = "batch_decide",
    params(BatchParams, input::BatchHeaders),
    request_body(
        description = "As for /v1/batch/observe",
        content(
            (ArrowStream = "application/vnd.apache.arrow.stream"),
            (String = "application/x-ndjson"),
            (Vec<serde_json::Value> = "application/json"),
        ),
    ),
    responses(
        (
            status = 200,
            description = "Decisions and what is known, in the form of the request, and row by row as it was sent",
            content(
                (ArrowStream = "application/vnd.apache.arrow.stream"),
                (serde_json::Value = "application/x-ndjson"),
                (Vec<serde_json::Value> = "application/json"),
            ),
        ),
        ProblemResponses,
    ),
)]
pub(super) async fn decide(
    State(node): State<Arc<Node>>,
    QueryParams(params): QueryParams<BatchParams>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, HttpFailure> {
    answer(&node, params, &headers, body, BatchOperation::Decide).await
}

async fn answer(
    node: &Arc<Node>,
    params: BatchParams,
    headers: &HeaderMap,
    body: Bytes,
    asked: BatchOperation,
) -> Result<Response, HttpFailure> {
    let pipeline = Arc::clone(&node.pipeline(params.pipeline.as_deref())?);
    let form = input::form(node, &pipeline, headers, input::COLUMNS)?;
    let id = input::batch_id(headers)?;
    let durability = params.durability;
    let answered = work_on(
        node,
        IncomingBatch { listener: HTTP.to_owned(), pipeline, form, id, body, asked, durability },
    )
    .await?;
    let media = match form {
        BodyFormat::Arrow => input::ARROW,
        BodyFormat::JsonArray => input::JSON,
        _ => JSON_LINES,
    };
    Ok(([(header::CONTENT_TYPE, media)], Body::new(ChunkedBody(answered.into()))).into_response())
}

/// A body whose parts are there, of a known length.
struct ChunkedBody(VecDeque<Bytes>);

impl hyper::body::Body for ChunkedBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.0.pop_front().map(|part| Ok(Frame::data(part))))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.0.iter().map(|part| part.len() as u64).sum())
    }
}
