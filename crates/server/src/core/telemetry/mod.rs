//! Traces and metrics for an OpenTelemetry collector (OTLP over HTTP or gRPC, protocol buffers). Off unless `[telemetry]` names one.
//!
//! ```text
//! request ─► sampled? ─┬─ no: nothing is made
//!                      └─ yes: spans of its stages ─► queue, bounded ─► each second ─► POST endpoint/v1/traces, or `Export`
//! page of metrics ─► now and then ─► POST endpoint/v1/metrics
//! ```
//!
//! A request whose caller has a trace is sampled as that is, if the caller is known: a stranger could have everything traced.
//! Of the others a share is. A collector that does not answer costs spans, and no request.

#[cfg(feature = "grpc")]
mod grpc;
mod otlp;
mod protobuf;
mod trace;

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use event::{Span, Time};
use parking_lot::Mutex;
use plan::TelemetryPlan;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::registry::Registry;
#[cfg(feature = "grpc")]
use tokio::runtime::Handle;

#[cfg(feature = "grpc")]
use self::grpc::{OtlpGrpcClient, OtlpService};
use self::otlp::TelemetryResource;
use self::trace::FinishedSpan;
use crate::core::http_client::http_client;

pub(crate) use self::trace::{RequestTrace, TraceParent};

/// Most spans that wait to be sent.
const WAITING_MAX: usize = 8192;
/// Most spans of one request to the collector.
const TOGETHER: usize = 1024;
/// The time that a collector has to answer.
const WITHIN: Duration = Duration::from_secs(5);
/// Bytes of an answer that are read.
const ANSWER_BYTES_MAX: u64 = 64 << 10;

/// Spans that wait to be sent.
#[derive(Debug)]
pub(crate) struct SpanQueue {
    waiting: Mutex<Vec<FinishedSpan>>,
    /// The last number that an id was made of.
    last: AtomicU64,
    dropped: Counter,
}

impl SpanQueue {
    /// Returns a number that no other has, and nobody guesses in advance; never zero.
    fn id(&self) -> u64 {
        // SplitMix64.
        let mut id = self.last.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
        id = (id ^ id >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        id = (id ^ id >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (id ^ id >> 31).max(1)
    }

    fn push(&self, spans: Vec<FinishedSpan>) {
        let mut waiting = self.waiting.lock();
        if waiting.len() + spans.len() > WAITING_MAX {
            self.dropped.inc_by(spans.len() as u64);
        } else {
            waiting.extend(spans);
        }
    }

    fn take(&self) -> Vec<FinishedSpan> {
        let mut waiting = self.waiting.lock();
        let count = waiting.len().min(TOGETHER);
        waiting.drain(..count).collect()
    }
}

/// A client of the collector, in its protocol.
#[derive(Debug)]
enum CollectorClient {
    Http(ureq::Agent),
    #[cfg(feature = "grpc")]
    Grpc(Box<OtlpGrpcClient>),
}

impl CollectorClient {
    fn new(plan: &TelemetryPlan) -> CollectorClient {
        #[cfg(feature = "grpc")]
        if plan.protocol == plan::TelemetryProtocol::Grpc {
            return CollectorClient::Grpc(Box::new(OtlpGrpcClient::new(plan)));
        }
        debug_assert!(
            cfg!(feature = "grpc") || plan.protocol == plan::TelemetryProtocol::Http,
            "a plan refuses what was not built"
        );
        CollectorClient::Http(http_client(None, WITHIN, false))
    }
}

/// The kind of a message to the collector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OtlpSignal {
    Traces,
    Metrics,
}

/// The sender of spans and metrics to a collector.
#[derive(Debug)]
pub(crate) struct Telemetry {
    plan: TelemetryPlan,
    queue: Arc<SpanQueue>,
    collector: CollectorClient,
    /// Numbers below this are sampled.
    threshold: u64,
    sent: Counter,
    failures: Counter,
}

impl Telemetry {
    /// Makes what settings ask for.
    pub(crate) fn new(plan: &TelemetryPlan, registry: &mut Registry) -> Telemetry {
        let (sent, failures, dropped): (Counter, Counter, Counter) = Default::default();
        let help = "Spans that the collector accepted";
        registry.register("tollhouse_telemetry_spans", help, sent.clone());
        let help = "Requests that the collector did not accept";
        registry.register("tollhouse_telemetry_failures", help, failures.clone());
        let help = "Spans dropped because the collector does not keep up";
        registry.register("tollhouse_telemetry_dropped", help, dropped.clone());
        let mut seed = [0; 8];
        // Without it ids are those of another start: traces of two starts may be taken for one.
        let _ = getrandom::fill(&mut seed);
        Telemetry {
            queue: Arc::new(SpanQueue {
                waiting: Mutex::default(),
                last: AtomicU64::new(u64::from_le_bytes(seed)),
                dropped,
            }),
            collector: CollectorClient::new(plan),
            threshold: (plan.sample.clamp(0.0, 1.0) * u64::MAX as f64) as u64,
            plan: plan.clone(),
            sent,
            failures,
        }
    }

    /// Returns true if the traces of an address count without a token.
    pub(crate) fn is_trusted(&self, peer: Option<IpAddr>) -> bool {
        peer.is_some_and(|peer| self.plan.trusted.contain(peer.to_canonical()))
    }

    /// Begins the trace of work that began then, if it is sampled: as its caller's is, where that counts.
    pub(crate) fn begin(
        &self,
        started: Instant,
        parent: Option<TraceParent>,
        now: impl FnOnce() -> Time,
    ) -> Option<Arc<RequestTrace>> {
        let is_sampled = match parent {
            Some(parent) => parent.is_sampled,
            None => self.threshold == u64::MAX || self.queue.id() < self.threshold,
        };
        is_sampled.then(|| Arc::new(RequestTrace::new(&self.queue, parent, started, now())))
    }

    /// The interval at which metrics are sent.
    pub(crate) fn interval(&self) -> Option<Span> {
        self.plan.metrics
    }

    /// Sends the metrics of a page, which count since a time. Blocks.
    pub(crate) fn send_metrics(&self, instance: &str, page: &str, since: Time, now: Time) {
        let resource = TelemetryResource::of(instance);
        self.send(OtlpSignal::Metrics, &otlp::metrics(&resource, page, nanos(since), nanos(now)));
    }

    /// Sends a message to the collector. Blocks.
    fn send(&self, signal: OtlpSignal, body: &[u8]) -> bool {
        let sent = match &self.collector {
            CollectorClient::Http(agent) => self.post(agent, signal, body).map_err(|error| error.to_string()),
            #[cfg(feature = "grpc")]
            CollectorClient::Grpc(client) => {
                let service = match signal {
                    OtlpSignal::Traces => OtlpService::Traces,
                    OtlpSignal::Metrics => OtlpService::Metrics,
                };
                let call = client.send(service, body, WITHIN, ANSWER_BYTES_MAX as usize);
                Handle::current().block_on(call).map_err(|error| error.to_string())
            }
        };
        if let Err(error) = &sent {
            self.failures.inc();
            tracing::debug!(error, endpoint = self.plan.endpoint, "the collector does not take it");
        }
        sent.is_ok()
    }

    fn post(&self, agent: &ureq::Agent, signal: OtlpSignal, body: &[u8]) -> Result<(), ureq::Error> {
        let path = match signal {
            OtlpSignal::Traces => "/v1/traces",
            OtlpSignal::Metrics => "/v1/metrics",
        };
        let url = format!("{}{path}", self.plan.endpoint.trim_end_matches('/'));
        let mut request = agent.post(&url).header("content-type", "application/x-protobuf");
        if let Some(value) = &self.plan.authorization {
            request = request.header("authorization", value);
        }
        let mut answer = request.send(body)?;
        answer.body_mut().with_config().limit(ANSWER_BYTES_MAX).read_to_vec().map(|_| ())
    }

    /// Sends the spans that wait. Blocks.
    pub(crate) fn send_spans(&self, instance: &str) {
        let resource = &TelemetryResource::of(instance);
        loop {
            let spans = self.queue.take();
            if spans.is_empty() {
                return;
            }
            if !self.send(OtlpSignal::Traces, &otlp::traces(resource, &spans)) {
                self.queue.dropped.inc_by(spans.len() as u64);
                return;
            }
            self.sent.inc_by(spans.len() as u64);
        }
    }
}

fn nanos(time: Time) -> u64 {
    u64::try_from(time.0).unwrap_or(0).saturating_mul(1000)
}
