//! Batches of events: counted or decided, in columns (Arrow IPC) or as JSON.

#[cfg(feature = "arrow")]
mod columns;

use std::fmt::Write;
use std::sync::Arc;
use std::time::Instant;

use axum::body::Bytes;
use engine::batch::{AnswerCells, AnswerColumn, BatchAnswer, EventBatch, PreparedBatch};
use engine::{Decision, DecisionStage, StageWatcher};
use event::Time;
use plan::Pipeline;
use serde_json::{Map, Value, json};
use tokio::runtime::Handle;

use crate::core::deadline::Late;
use crate::core::node::Node;
use crate::core::preparation::READ;
#[cfg(not(feature = "arrow"))]
use crate::core::problem::UNSUPPORTED_TYPE;
use crate::core::problem::{HttpFailure, INVALID_BODY, TOO_LARGE};
use crate::core::reading_pool::PooledReading;
use crate::core::telemetry::RequestTrace;
use crate::protocol::input::{BodyFormat, DurabilityParam, EventMetadata, are_whole};

/// The operation on a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BatchOperation {
    Observe,
    Decide,
}

impl BatchOperation {
    /// Its name as a method of gRPC.
    #[cfg(feature = "grpc")]
    pub(crate) fn name(self) -> &'static str {
        match self {
            BatchOperation::Observe => "Observe",
            BatchOperation::Decide => "Decide",
        }
    }
}

/// A batch as it came.
pub(crate) struct IncomingBatch {
    /// The name of the listener that it came by.
    pub(crate) listener: String,
    pub(crate) pipeline: Arc<Pipeline>,
    /// Arrow, or JSON in lines or an array.
    pub(crate) form: BodyFormat,
    /// The caller's name for it.
    pub(crate) id: Option<String>,
    pub(crate) body: Bytes,
    pub(crate) asked: BatchOperation,
    /// The durability that the answer waits for.
    pub(crate) durability: Option<DurabilityParam>,
}

/// Waits for a place and works on a batch; answers in the form of the request, in parts. All of it is read before any of
/// it is counted: the reading ends where nobody waits for it any more, and the counting does not.
pub(crate) async fn work_on(node: &Arc<Node>, batch: IncomingBatch) -> Result<Vec<Bytes>, HttpFailure> {
    // Whoever waits half of the time that there is gets an answer before the other half is over.
    let place = node.batches.enter(node.timeout() / 2).await?;
    let (at, runtime, bytes) = (Arc::clone(node), Handle::current(), batch.body.len());
    let trace = RequestTrace::current();
    let work = move |reading: PooledReading| {
        let _place = place;
        let IncomingBatch { listener, pipeline, form, id, body, asked, durability } = batch;
        let (id, arrival) = (id.as_deref(), at.now());
        let work = BatchTask {
            node: &at,
            listener: &listener,
            pipeline: &pipeline,
            id,
            arrival,
            asked,
            durability,
            runtime,
            trace,
        };
        match form {
            #[cfg(feature = "arrow")]
            BodyFormat::Arrow => work.columns(body, reading),
            #[cfg(not(feature = "arrow"))]
            BodyFormat::Arrow => {
                let missing = plan::MissingFeature(plan::BuildFeature::Arrow);
                let help = format!("{}, or send lines of JSON; nothing was counted", missing.help());
                Err(UNSUPPORTED_TYPE.failure(missing.to_string()).help(help))
            }
            form => work.json(&body, form, reading).map(|json| vec![Bytes::from(json)]),
        }
    };
    node.reading.begin(bytes, work).await?
}

/// Decisions, if events were decided, and what is then known of their keys.
type BatchOutcome = (Option<Vec<Decision>>, BatchAnswer);

/// A request that is worked on, on a thread that may block.
struct BatchTask<'a> {
    node: &'a Node,
    listener: &'a str,
    pipeline: &'a Arc<Pipeline>,
    id: Option<&'a str>,
    arrival: Time,
    asked: BatchOperation,
    durability: Option<DurabilityParam>,
    runtime: Handle,
    /// The trace of its request, if it is traced.
    trace: Option<Arc<RequestTrace>>,
}

impl BatchTask<'_> {
    /// Names a batch by its number within the request.
    fn named<'b>(&self, mut batch: EventBatch<'b>, number: usize) -> EventBatch<'b> {
        batch.id = self.id.map(|id| format!("{id}\0{number}"));
        batch
    }

    /// Reads batches and then counts all of them.
    fn ask(
        &self,
        batches: &[EventBatch<'_>],
        reading: PooledReading,
    ) -> Result<Vec<BatchOutcome>, HttpFailure> {
        let engine = &self.node.engine;
        let prepare = |batch| {
            engine.prepare_batch(self.pipeline, batch, self.arrival, &reading.cancellation).ok_or(Late)
        };
        let begun = self.trace.as_ref().map(|_| Instant::now());
        let prepared: Vec<PreparedBatch<'_>> = batches.iter().map(prepare).collect::<Result<_, Late>>()?;
        self.trace.iter().zip(begun).for_each(|(trace, begun)| trace.stage(READ, begun));
        reading.end()?;
        prepared.into_iter().map(|batch| self.runtime.block_on(self.count(batch))).collect()
    }

    async fn count(&self, batch: PreparedBatch<'_>) -> Result<BatchOutcome, HttpFailure> {
        let engine = &self.node.engine;
        let (decisions, answer) = match (self.asked, &self.trace) {
            (BatchOperation::Observe, None) => (None, engine.observe_batch(batch).await?),
            (BatchOperation::Observe, Some(trace)) => {
                trace.begins(DecisionStage::Observe);
                let observed = engine.observe_batch(batch).await;
                trace.ends(DecisionStage::Observe);
                (None, observed?)
            }
            (BatchOperation::Decide, trace) => {
                let (decisions, answer) = match self.node.decision_watcher(trace.clone(), self.listener) {
                    None => engine.decide_batch(batch).await,
                    Some(watcher) => engine.decide_batch_watched(batch, &watcher).await,
                };
                (Some(decisions), answer)
            }
        };
        let is_whole = answer.uncounted.is_empty() && decisions.as_deref().is_none_or(are_whole);
        DurabilityParam::hold(self.durability, self.node, is_whole).await?;
        Ok((decisions, answer))
    }

    fn json(&self, body: &Bytes, form: BodyFormat, reading: PooledReading) -> Result<Vec<u8>, HttpFailure> {
        let max = self.node.plan().batch_max;
        let parts = match form {
            BodyFormat::JsonArray => items(body, max)?,
            _ => lines(body, max)?,
        };
        let (mut events, mut read) = (Vec::with_capacity(parts.len()), Vec::with_capacity(parts.len()));
        // The end of the reading says whether this was cut short.
        for part in parts.iter().take_while(|_| !reading.cancellation.is_cancelled()) {
            let engine = &self.node.engine;
            let event =
                EventMetadata::default().event(engine, self.pipeline, BodyFormat::Json, part, self.arrival);
            read.push(event.map(|(event, warnings)| {
                events.push(event);
                warnings
            }));
        }
        let batch = self.named(EventBatch::of_events(events), 0);
        let Some((decisions, answer)) = self.ask(&[batch], reading)?.pop() else { return Err(Late.into()) };
        let bad = read.iter().filter(|read| read.is_err()).count();
        self.node.metrics.bad_lines.inc_by(bad as u64);
        let mut rows = 0..answer.rows;
        let mut all = String::new();
        let is_array = form == BodyFormat::JsonArray;
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

/// A row as an object: the members are the columns that have a value in it.
fn object(decisions: &Option<Vec<Decision>>, answer: &BatchAnswer, row: usize) -> Map<String, Value> {
    let mut object = Map::new();
    if let Some(decision) = decisions.as_ref().and_then(|decisions| decisions.get(row)) {
        object.insert("id".to_owned(), json!(decision.id.to_string()));
        object.insert("score".to_owned(), json!(decision.verdict.score));
        object.insert("probability".to_owned(), json!(decision.verdict.probability));
        object.insert("action".to_owned(), json!(decision.verdict.action.to_string()));
        let reasons: Vec<&str> = decision.verdict.reasons.iter().map(|reason| reason.rule.as_str()).collect();
        object.insert("reasons".to_owned(), json!(reasons));
    }
    object.insert("duplicate".to_owned(), json!(answer.duplicate.get(row).copied().unwrap_or(false)));
    if answer.uncounted.binary_search(&row).is_ok() {
        object.insert("uncounted".to_owned(), json!(true));
    }
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

/// Cuts a body into lines; the last may lack its end.
pub(crate) fn lines(body: &Bytes, max: usize) -> Result<Vec<Bytes>, HttpFailure> {
    let mut lines = Vec::new();
    let mut rest = body.clone();
    while !rest.is_empty() {
        if lines.len() == max {
            let failure = TOO_LARGE.failure(format!("the batch has more than {max} lines; none was counted"));
            return Err(failure.help("send several batches, or raise `batch_max`"));
        }
        let end = rest.iter().position(|byte| *byte == b'\n');
        let line = rest.split_to(end.map_or(rest.len(), |end| end + 1));
        lines.push(line.slice(..end.unwrap_or(line.len())));
    }
    Ok(lines)
}

/// Cuts a JSON array into its items, which are not looked into: whoever reads them finds what is wrong with them.
fn items(body: &Bytes, max: usize) -> Result<Vec<Bytes>, HttpFailure> {
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
    use std::time::Duration;

    use engine::Engine;
    use plan::{Config, Overrides, Plan};

    use super::*;
    use crate::core::deadline::{Deadline, NoAnswerReason};

    fn check(body: &'static str, expected: Option<&[&str]>) {
        let cut = items(&Bytes::from_static(body.as_bytes()), 3).ok();
        let cut = cut.map(|items| {
            items.iter().map(|item| String::from_utf8(item.to_vec()).unwrap()).collect::<Vec<_>>()
        });
        let expected = expected.map(|items| items.iter().map(|item| (*item).to_owned()).collect::<Vec<_>>());
        assert_eq!(cut, expected, "{body}");
    }

    /// A client that goes away, or whose time is over, frees the place of its batch as long as nothing of it is counted.
    #[tokio::test]
    async fn a_batch_that_nobody_waits_for_is_read_no_further() {
        let config = Config::from_preset("web", &Overrides::default());
        let plan = Plan::compile(&config).unwrap_or_else(|problems| panic!("{problems}"));
        let engine = Arc::new(Engine::ephemeral(plan).unwrap());
        let node = Arc::new(Node::new(engine, crate::Clock::of(crate::SystemClock, None)));
        let free = node.batches.free();
        for form in [BodyFormat::Json, BodyFormat::JsonArray, BodyFormat::Arrow] {
            let batch = |body| IncomingBatch {
                listener: String::new(),
                pipeline: Arc::clone(&node.pipeline(None).unwrap()),
                form,
                id: None,
                body: Bytes::from_static(body),
                asked: BatchOperation::Observe,
                durability: None,
            };
            // All readings have to wait.
            let mut held = Vec::new();
            while let Ok(place) =
                Deadline::after(Duration::from_millis(1)).cut(node.reading.enter(1)).await.flatten()
            {
                held.push(place);
            }
            let call = |patience, body| {
                let at = Arc::clone(&node);
                let batch = batch(body);
                Deadline::after(patience).run(async move { work_on(&at, batch).await })
            };
            let late = call(Duration::from_millis(1), b"").await;
            assert!(matches!(late, Err(NoAnswerReason::Late) | Ok(Err(_))), "{form:?}: {late:?}");
            tokio::select! {
                answer = call(Duration::from_secs(3600), b"") => panic!("{form:?}: {answer:?}"),
                () = async {
                    while node.batches.free() == free {
                        tokio::task::yield_now().await;
                    }
                } => {}
            }
            // Its client has gone.
            while node.batches.free() < free {
                tokio::task::yield_now().await;
            }
            drop(held);
            let body: &[u8] = if form == BodyFormat::JsonArray { b"[]" } else { b"" };
            if form != BodyFormat::Arrow {
                assert!(call(Duration::from_secs(3600), body).await.unwrap().is_ok(), "{form:?}");
            }
        }
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

    #[test]
    fn lines_keep_their_number() {
        let check = |body: &'static str, expected: Option<&[&str]>| {
            let cut = lines(&Bytes::from_static(body.as_bytes()), 3).ok();
            let cut = cut.map(|lines| {
                lines.iter().map(|line| String::from_utf8(line.to_vec()).unwrap()).collect::<Vec<_>>()
            });
            assert_eq!(
                cut.as_deref(),
                expected
                    .map(|lines| lines.iter().map(|line| (*line).to_owned()).collect::<Vec<_>>())
                    .as_deref(),
                "{body:?}"
            );
        };
        check("", Some(&[]));
        check("a", Some(&["a"]));
        check("a\n\nb\n", Some(&["a", "", "b"]));
        check("a\nb\nc", Some(&["a", "b", "c"]));
        check("a\nb\nc\nd", None);
    }
}
