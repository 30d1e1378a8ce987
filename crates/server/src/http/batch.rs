//! Batches of events: counted or decided, in columns (Arrow IPC) or as JSON.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::fmt::Write;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use engine::batch::{Answer, AnswerCells, AnswerColumn, Batch};
use engine::{Decision, Pipeline};
use event::Time;
use hyper::body::{Frame, SizeHint};
use serde_json::{Map, Value, json};
use tokio::runtime::Handle;

use super::decide::{BatchParams, lines};
use super::{Durability, Params};
use crate::arrow::{self, ArrowError, Judged, Limits};
use crate::deadline::Deadline;
use crate::input::{self, Form, JSON_LINES, Said};
use crate::node::{Node, blocking};
use crate::pool::Late;
use crate::problem::{Failure, INTERNAL, INVALID_BODY, Problems, TOO_LARGE};

/// Most rows of an Arrow stream, whatever `batch_max` says.
const ROWS_MAX: usize = 65_536;

/// What is done with a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    Observe,
    Decide,
}

/// Counts events and answers what is then known of their keys, row by row. Nothing is judged or logged.
///
/// The answer's columns are called `KIND.VALUE` (`user.count`, `ip.first`, `ip.quality`); what a value says includes
/// the row's event. A row without a key of a kind has no values of it.
#[utoipa::path(
    post,
    path = "/v1/batch/observe",
    tag = "decide",
    operation_id = "batch_observe",
    params(BatchParams, input::BatchHeaders),
    request_body(
        description = "An Arrow IPC stream of columns, JSON objects one a line, or an array of them; at most `batch_max` events",
        content(
            (Vec<u8> = "application/vnd.apache.arrow.stream"),
            (String = "application/x-ndjson"),
            (Vec<serde_json::Value> = "application/json"),
        ),
    ),
    responses(
        (
            status = 200,
            description = "What is known, in the form of the request, and row by row as it was sent",
            body = Vec<u8>,
            content_type = "application/vnd.apache.arrow.stream",
        ),
        Problems,
    ),
)]
pub(super) async fn observe(
    State(node): State<Arc<Node>>,
    Params(params): Params<BatchParams>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Failure> {
    answer(&node, params, &headers, body, Asked::Observe).await
}

/// Counts, judges and logs events, and answers for each row the decision and what is then known of its keys.
///
/// Beside the columns of `/v1/batch/observe` an answer has `id`, `score`, `action` and `reasons`. Each row's readings
/// include the rows before it; what hangs on verdicts is counted after the whole batch is judged.
#[utoipa::path(
    post,
    path = "/v1/batch/decide",
    tag = "decide",
    operation_id = "batch_decide",
    params(BatchParams, input::BatchHeaders),
    request_body(
        description = "As for /v1/batch/observe",
        content(
            (Vec<u8> = "application/vnd.apache.arrow.stream"),
            (String = "application/x-ndjson"),
            (Vec<serde_json::Value> = "application/json"),
        ),
    ),
    responses(
        (
            status = 200,
            description = "Decisions and what is known, in the form of the request, and row by row as it was sent",
            body = Vec<u8>,
            content_type = "application/vnd.apache.arrow.stream",
        ),
        Problems,
    ),
)]
pub(super) async fn decide(
    State(node): State<Arc<Node>>,
    Params(params): Params<BatchParams>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Failure> {
    answer(&node, params, &headers, body, Asked::Decide).await
}

async fn answer(
    node: &Arc<Node>,
    params: BatchParams,
    headers: &HeaderMap,
    body: Bytes,
    asked: Asked,
) -> Result<Response, Failure> {
    let pipeline = Arc::clone(&node.pipeline(params.pipeline.as_deref())?);
    let form = input::form(node, &pipeline, headers, input::COLUMNS)?;
    let id = input::batch_id(headers)?;
    let durability = params.durability;
    let answered = work_on(node, Brought { pipeline, form, id, body, asked, durability }).await?;
    let media = match form {
        Form::Arrow => arrow::MEDIA_TYPE,
        Form::JsonArray => input::JSON,
        _ => JSON_LINES,
    };
    Ok(([(header::CONTENT_TYPE, media)], Body::new(Parts(answered.into()))).into_response())
}

/// A body whose parts are there, of a known length.
struct Parts(VecDeque<Bytes>);

impl hyper::body::Body for Parts {
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

/// A batch as it came.
pub(crate) struct Brought {
    pub(crate) pipeline: Arc<Pipeline>,
    /// Arrow, or JSON in lines or an array.
    pub(crate) form: Form,
    /// The caller's name for it.
    pub(crate) id: Option<String>,
    pub(crate) body: Bytes,
    pub(crate) asked: Asked,
    /// What the answer waits for.
    pub(crate) durability: Option<Durability>,
}

/// Waits for a place and works on a batch; answers in the form of the request, in parts.
pub(crate) async fn work_on(node: &Arc<Node>, batch: Brought) -> Result<Vec<Bytes>, Failure> {
    // Whoever waits half of the time that there is gets an answer before the other half is over.
    let place = node.batches.enter(node.timeout() / 2).await?;
    let (node, runtime) = (Arc::clone(node), Handle::current());
    let deadline = Deadline::current();
    blocking(move || {
        let _place = place;
        let Brought { pipeline, form, id, body, asked, durability } = batch;
        let (id, arrival) = (id.as_deref(), node.now());
        let work = Work { node: &node, pipeline: &pipeline, id, arrival, asked, durability, deadline };
        runtime.block_on(async {
            match form {
                Form::Arrow => work.arrow(body).await,
                form => work.json(body, form).await.map(|json| vec![Bytes::from(json)]),
            }
        })
    })
    .await
}

/// A request that is worked on.
struct Work<'a> {
    node: &'a Node,
    pipeline: &'a Arc<Pipeline>,
    id: Option<&'a str>,
    arrival: Time,
    asked: Asked,
    durability: Option<Durability>,
    deadline: Option<Deadline>,
}

impl Work<'_> {
    /// Ends work for which nobody waits any more, as long as nothing of it is counted.
    fn in_time(&self) -> Result<(), Late> {
        if self.deadline.is_some_and(Deadline::is_over) { Err(Late) } else { Ok(()) }
    }

    async fn ask(&self, mut batch: Batch<'_>, number: usize) -> Result<Judged, Failure> {
        batch.id = self.id.map(|id| format!("{id}\0{number}"));
        let engine = &self.node.engine;
        let (decisions, answer) = match self.asked {
            Asked::Observe => (None, engine.observe_batch(self.pipeline, &batch, self.arrival).await?),
            Asked::Decide => {
                let (decisions, answer) = engine.decide_batch(self.pipeline, &batch, self.arrival).await?;
                (Some(decisions), answer)
            }
        };
        Durability::hold(self.durability, self.node, decisions.as_deref().unwrap_or_default()).await?;
        Ok((decisions, answer))
    }

    async fn arrow(&self, body: Bytes) -> Result<Vec<Bytes>, Failure> {
        let limits = Limits { rows_max: self.node.plan().batch_max.min(ROWS_MAX) };
        let records = arrow::read(body, limits).map_err(not_arrow)?;
        self.in_time()?;
        let mut answers = Vec::with_capacity(records.len().max(1));
        for (number, record) in records.iter().enumerate() {
            answers.push(self.ask(arrow::batch(record), number).await?);
        }
        if answers.is_empty() {
            answers.push(self.ask(Batch::default(), 0).await?);
        }
        arrow::write(answers).map_err(|error| {
            tracing::error!(%error, "an answer could not be written");
            INTERNAL.failure("the answer could not be written")
        })
    }

    async fn json(&self, body: Bytes, form: Form) -> Result<Vec<u8>, Failure> {
        let max = self.node.plan().batch_max;
        let parts = match form {
            Form::JsonArray => items(&body, max)?,
            _ => lines(&body, max)?,
        };
        let (mut events, mut read) = (Vec::with_capacity(parts.len()), Vec::with_capacity(parts.len()));
        for part in &parts {
            self.in_time()?;
            let engine = &self.node.engine;
            let event = Said::default().event(engine, self.pipeline, Form::Json, part, self.arrival);
            read.push(event.map(|(event, warnings)| {
                events.push(event);
                warnings
            }));
        }
        let bad = read.iter().filter(|read| read.is_err()).count();
        self.node.metrics.bad_lines.inc_by(bad as u64);
        let (decisions, answer) = self.ask(Batch::of_events(events), 0).await?;
        let mut rows = 0..answer.rows;
        let mut all = String::new();
        let is_array = form == Form::JsonArray;
        for (read, number) in read.into_iter().zip(1..) {
            let value = match read {
                Err(failure) => json!({"line": number, "error": failure.problem()}),
                Ok(warnings) => {
                    let row = rows.next().map(|row| object(&decisions, &answer, row));
                    let mut row = row.unwrap_or_default();
                    if !warnings.is_empty() {
                        row.insert("warnings".to_owned(), json!(warnings));
                    }
                    Value::Object(row)
                }
            };
            let before = match (is_array, number) {
                (true, 1) => "[",
                (true, _) => ",\n",
                (false, _) => "",
            };
            // Writing to a string cannot fail.
            let _ = write!(all, "{before}{value}{}", if is_array { "" } else { "\n" });
        }
        if is_array {
            all.push_str(if parts.is_empty() { "[]" } else { "]" });
        }
        Ok(all.into_bytes())
    }
}

fn not_arrow(error: ArrowError) -> Failure {
    let failure = match &error {
        ArrowError::Limit { .. } => TOO_LARGE.failure(error.to_string()),
        _ => INVALID_BODY.failure(error.to_string()),
    };
    match error {
        ArrowError::Limit { what: "rows", .. } => {
            failure.help("send several batches, or raise `batch_max`; none of these was counted")
        }
        _ => failure.help("nothing was counted"),
    }
}

/// A row as an object: the members are the columns that have a value in it.
fn object(decisions: &Option<Vec<Decision>>, answer: &Answer, row: usize) -> Map<String, Value> {
    let mut object = Map::new();
    if let Some(decision) = decisions.as_ref().and_then(|decisions| decisions.get(row)) {
        object.insert("id".to_owned(), json!(decision.id.to_string()));
        object.insert("score".to_owned(), json!(decision.verdict.score));
        object.insert("action".to_owned(), json!(decision.verdict.action.to_string()));
        let reasons: Vec<&str> = decision.verdict.reasons.iter().map(|reason| reason.rule.as_str()).collect();
        object.insert("reasons".to_owned(), json!(reasons));
    }
    object.insert("duplicate".to_owned(), json!(answer.duplicate.get(row).copied().unwrap_or(false)));
    for column in &answer.columns {
        if let Some(value) = cell(column, row) {
            object.insert(column.name.clone(), value);
        }
    }
    object
}

fn cell(column: &AnswerColumn, row: usize) -> Option<Value> {
    if column.present.as_ref().is_some_and(|present| !present.get(row).copied().unwrap_or(false)) {
        return None;
    }
    Some(match &column.cells {
        AnswerCells::Counts(cells) => json!(cells.get(row)?),
        AnswerCells::Integers(cells) => json!(cells.get(row)?),
        AnswerCells::Reals(cells) => json!(cells.get(row)?),
        AnswerCells::Times(cells) => json!(Time(*cells.get(row)?).to_string()),
        AnswerCells::Bools(cells) => json!(cells.get(row)?),
        AnswerCells::Qualities(cells) => json!(AnswerCells::QUALITIES.get(usize::from(*cells.get(row)?))?),
    })
}

/// Cuts a JSON array into its items, which are not looked into: whoever reads them finds what is wrong with them.
fn items(body: &Bytes, max: usize) -> Result<Vec<Bytes>, Failure> {
    let broken = || INVALID_BODY.failure("expected a JSON array of objects").help("nothing was counted");
    let (mut items, mut depth, mut start) = (Vec::new(), 0usize, 0);
    let (mut in_text, mut escaped, mut ended) = (false, false, false);
    for (at, byte) in body.iter().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_text => escaped = true,
            b'"' => in_text = !in_text,
            _ if in_text => {}
            _ if ended && !byte.is_ascii_whitespace() => return Err(broken()),
            b'[' if depth == 0 => (depth, start) = (1, at + 1),
            _ if depth == 0 && !byte.is_ascii_whitespace() => return Err(broken()),
            b'[' | b'{' => depth += 1,
            b']' | b'}' if depth > 1 => depth -= 1,
            b',' | b']' if depth == 1 => {
                let item = body.slice(start..at);
                let is_last = *byte == b']';
                if !(is_last && items.is_empty() && item.trim_ascii().is_empty()) {
                    if items.len() == max {
                        let failure = TOO_LARGE
                            .failure(format!("the batch has more than {max} events; none was counted"));
                        return Err(failure.help("send several batches, or raise `batch_max`"));
                    }
                    items.push(item);
                }
                start = at + 1;
                (depth, ended) = if is_last { (0, true) } else { (1, false) };
            }
            _ => {}
        }
    }
    if ended { Ok(items) } else { Err(broken()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(body: &'static str, expected: Option<&[&str]>) {
        let cut = items(&Bytes::from_static(body.as_bytes()), 3).ok();
        let cut = cut.map(|items| {
            items.iter().map(|item| String::from_utf8(item.to_vec()).unwrap()).collect::<Vec<_>>()
        });
        let expected = expected.map(|items| items.iter().map(|item| (*item).to_owned()).collect::<Vec<_>>());
        assert_eq!(cut, expected, "{body}");
    }

    #[test]
    fn arrays_are_cut_into_their_items() {
        check("[]", Some(&[]));
        check(" [ {\"a\":[1,2]} , {\"b\":\"],\\\"\"} ] ", Some(&[" {\"a\":[1,2]} ", " {\"b\":\"],\\\"\"} "]));
        check("[1,2,3]", Some(&["1", "2", "3"]));
        check("[1,2,3,4]", None);
        check("[1,]", Some(&["1", ""]));
        check("", None);
        check("{}", None);
        check("[1", None);
        check("[1] x", None);
        check("[\"a]", None);
        check("[][]", None);
    }
}
