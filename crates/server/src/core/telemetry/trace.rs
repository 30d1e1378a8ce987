//! The trace of one request, message or batch: where it comes from (W3C Trace Context), and a span for it and for each stage.

use std::sync::Arc;
use std::time::Instant;

use axum::http::HeaderMap;
use engine::{DecisionStage, StageWatcher};
use event::Time;
use parking_lot::Mutex;

use super::SpanQueue;

tokio::task_local! {
    static CURRENT: Arc<RequestTrace>;
}

/// Most spans of a request: a batch has stages for each of its parts.
const SPANS_MAX: usize = 64;

/// The context that a caller has sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TraceParent {
    pub(crate) trace: u128,
    pub(crate) span: u64,
    pub(crate) is_sampled: bool,
}

impl TraceParent {
    /// Reads the field `traceparent`; `None` where there is none, or it is none of version 00 or a later one.
    pub(crate) fn of(headers: &HeaderMap) -> Option<TraceParent> {
        let mut fields = headers.get_all("traceparent").iter();
        let field = fields.next()?.to_str().ok()?;
        fields.next().is_none().then(|| TraceParent::parse(field)).flatten()
    }

    fn parse(field: &str) -> Option<TraceParent> {
        let is_hex = |text: &str, length: usize| {
            text.len() == length && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
        };
        let mut parts = field.split('-');
        let (version, trace, span, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
        let is_whole = is_hex(version, 2) && is_hex(trace, 32) && is_hex(span, 16) && is_hex(flags, 2);
        // Later versions may have more behind; the first has not, and `ff` is none.
        if !is_whole || version == "ff" || version == "00" && parts.next().is_some() {
            return None;
        }
        let parent = TraceParent {
            trace: u128::from_str_radix(trace, 16).ok()?,
            span: u64::from_str_radix(span, 16).ok()?,
            is_sampled: u8::from_str_radix(flags, 16).ok()? & 1 == 1,
        };
        (parent.trace != 0 && parent.span != 0).then_some(parent)
    }
}

/// The kind of a span, by its number in OTLP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SpanKind {
    Internal = 1,
    Server = 2,
}

/// A span that is at its end, with times in nanoseconds since 1970.
#[derive(Clone, Debug)]
pub(crate) struct FinishedSpan {
    pub(crate) trace: u128,
    pub(crate) id: u64,
    pub(crate) parent: Option<u64>,
    pub(crate) name: String,
    pub(crate) kind: SpanKind,
    pub(crate) begun: u64,
    pub(crate) ended: u64,
    pub(crate) attributes: Vec<(&'static str, String)>,
    pub(crate) has_failed: bool,
}

/// A request that is traced.
#[derive(Debug)]
pub(crate) struct RequestTrace {
    queue: Arc<SpanQueue>,
    trace: u128,
    id: u64,
    parent: Option<u64>,
    begun: Instant,
    /// The time at which it began, by the node's clock.
    time: Time,
    state: Mutex<TraceState>,
}

#[derive(Debug, Default)]
struct TraceState {
    spans: Vec<FinishedSpan>,
    /// The beginnings of the stages that are at work.
    stages: [Option<Instant>; DecisionStage::COUNT],
}

impl RequestTrace {
    /// Makes the trace of work that began then; `now` is the node's time at this moment.
    pub(super) fn new(
        queue: &Arc<SpanQueue>,
        parent: Option<TraceParent>,
        started: Instant,
        now: Time,
    ) -> RequestTrace {
        let passed = i64::try_from(started.elapsed().as_micros()).unwrap_or(i64::MAX);
        let trace =
            parent.map_or_else(|| u128::from(queue.id()) << 64 | u128::from(queue.id()), |of| of.trace);
        RequestTrace {
            queue: Arc::clone(queue),
            trace,
            id: queue.id(),
            parent: parent.map(|parent| parent.span),
            begun: started,
            time: Time(now.0.saturating_sub(passed)),
            state: Mutex::default(),
        }
    }

    /// Returns the trace of the request that is being worked on, if it is traced.
    pub(crate) fn current() -> Option<Arc<RequestTrace>> {
        CURRENT.try_with(Arc::clone).ok()
    }

    /// Returns the trace's id, as collectors show it.
    pub(crate) fn id_text(&self) -> String {
        format!("{:032x}", self.trace)
    }

    /// Does the work of a request, as that of a trace if it has one.
    pub(crate) async fn bound<T>(trace: Option<Arc<RequestTrace>>, work: impl Future<Output = T>) -> T {
        match trace {
            Some(trace) => CURRENT.scope(trace, work).await,
            None => work.await,
        }
    }

    fn nanos(&self, at: Instant) -> u64 {
        let passed = at.saturating_duration_since(self.begun).as_nanos();
        let begun = u64::try_from(self.time.0).unwrap_or(0).saturating_mul(1000);
        begun.saturating_add(u64::try_from(passed).unwrap_or(u64::MAX))
    }

    /// Notes a stage that began then and is at its end.
    pub(crate) fn stage(&self, name: &'static str, begun: Instant) {
        let span = FinishedSpan {
            trace: self.trace,
            id: self.queue.id(),
            parent: Some(self.id),
            name: name.to_owned(),
            kind: SpanKind::Internal,
            begun: self.nanos(begun),
            ended: self.nanos(Instant::now()),
            attributes: Vec::new(),
            has_failed: false,
        };
        let mut state = self.state.lock();
        if state.spans.len() < SPANS_MAX {
            state.spans.push(span);
        }
    }

    /// Notes a stage from its beginning on; the guard is dropped at its end.
    pub(crate) fn during(name: &'static str) -> Option<StageGuard> {
        RequestTrace::current().map(|trace| StageGuard { trace, name, begun: Instant::now() })
    }

    /// Hands all spans on, that of a request over HTTP among them.
    pub(crate) fn finish_http(&self, method: &str, route: &str, status: u16) {
        let attributes = vec![
            ("http.request.method", method.to_owned()),
            ("http.route", route.to_owned()),
            ("http.response.status_code", status.to_string()),
        ];
        self.finish(format!("{method} {route}"), attributes, status >= 500);
    }

    /// Hands all spans on, that of work on a listener among them, and what it was answered.
    pub(crate) fn finish_listener(&self, name: &str, listener: &str, answer: &str, has_failed: bool) {
        let attributes =
            vec![("tollhouse.listener", listener.to_owned()), ("tollhouse.answer", answer.to_owned())];
        self.finish(name.to_owned(), attributes, has_failed);
    }

    /// Hands all spans on, that of a call over gRPC among them, with its status code.
    #[cfg(feature = "grpc")]
    pub(crate) fn finish_rpc(&self, service: &str, method: &str, listener: &str, code: i32) {
        // The codes that are the server's own fault, as OpenTelemetry's conventions have them.
        const FAULTS: [i32; 6] = [2, 4, 12, 13, 14, 15];
        let attributes = vec![
            ("rpc.system", "grpc".to_owned()),
            ("rpc.service", service.to_owned()),
            ("rpc.method", method.to_owned()),
            ("rpc.grpc.status_code", code.to_string()),
            ("tollhouse.listener", listener.to_owned()),
        ];
        self.finish(format!("{service}/{method}"), attributes, FAULTS.contains(&code));
    }

    fn finish(&self, name: String, attributes: Vec<(&'static str, String)>, has_failed: bool) {
        let mut spans = std::mem::take(&mut self.state.lock().spans);
        spans.push(FinishedSpan {
            trace: self.trace,
            id: self.id,
            parent: self.parent,
            name,
            kind: SpanKind::Server,
            begun: self.nanos(self.begun),
            ended: self.nanos(Instant::now()),
            attributes,
            has_failed,
        });
        self.queue.push(spans);
    }
}

/// A stage that is at work; its span ends when this is dropped.
#[derive(Debug)]
pub(crate) struct StageGuard {
    trace: Arc<RequestTrace>,
    name: &'static str,
    begun: Instant,
}

impl Drop for StageGuard {
    fn drop(&mut self) {
        self.trace.stage(self.name, self.begun);
    }
}

impl StageWatcher for RequestTrace {
    fn begins(&self, stage: DecisionStage) {
        self.state.lock().stages[stage as usize] = Some(Instant::now());
    }

    fn ends(&self, stage: DecisionStage) {
        let begun = self.state.lock().stages[stage as usize].take();
        begun.into_iter().for_each(|begun| self.stage(stage.name(), begun));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contexts_are_read_as_the_recommendation_says() {
        let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
        let (span, zero) = ("00f067aa0ba902b7", "0000000000000000");
        let expected = |is_sampled| {
            let trace = 0x4bf9_2f35_77b3_4da6_a3ce_929d_0e0e_4736;
            Some(TraceParent { trace, span: 0x00f0_67aa_0ba9_02b7, is_sampled })
        };
        for (field, parent) in [
            (format!("00-{trace}-{span}-01"), expected(true)),
            (format!("00-{trace}-{span}-00"), expected(false)),
            (format!("cc-{trace}-{span}-03-what-comes"), expected(true)),
            (format!("00-{trace}-{span}-01-more"), None),
            (format!("ff-{trace}-{span}-01"), None),
            (format!("00-{}-{span}-01", "0".repeat(32)), None),
            (format!("00-{trace}-{zero}-01"), None),
            (format!("00-{}-{span}-01", trace.to_uppercase()), None),
            (format!("00-{trace}-{span}"), None),
            (format!("00-{trace}-{span}-1"), None),
            (format!("00-+{}-{span}-01", &trace[1..]), None),
            (String::new(), None),
            ("ä".to_owned(), None),
        ] {
            assert_eq!(TraceParent::parse(&field), parent, "{field}");
        }
    }
}
