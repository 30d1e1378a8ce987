//! Counters of requests, and the page that shows them beside the engine's.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use engine::{Engine, SinkStatus};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{
    DescriptorEncoder, EncodeLabelSet, EncodeMetric, MetricEncoder, NoLabelSet, text,
};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::exemplar::HistogramWithExemplars;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;
use stats::LedgerMetric;

use crate::core::clock::Clock;
use crate::core::decision_times::{DecisionTimes, SECONDS};
use crate::core::telemetry::RequestTrace;

/// The media type of [`ServerMetrics::page`].
pub(crate) const MEDIA_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The routes of HTTP that decide on one event.
const DECIDING: [&str; 2] = ["/v1/decide", "/v1/auth/{name}"];

/// A route as it is declared, never a path as it was sent, and the answer's status.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct RequestLabel {
    route: String,
    status: u16,
}

/// A pipeline.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct PipelineLabel {
    pipeline: String,
}

/// A broker that is sent to.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct SinkLabel {
    sink: String,
}

/// A listener of a mail protocol.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ListenerLabel {
    listener: String,
}

/// The answer of a listener about a message: an action, or the outcome of one that was not decided on.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct AnswerLabel {
    listener: String,
    answer: &'static str,
}

/// The kind of failure on a listener: a refused connection, or an error on one.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ListenerFailureLabel {
    listener: String,
    reason: &'static str,
}

/// A version that pipelines judge by.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct VersionLabel {
    pipeline: String,
    role: String,
    version: String,
}

/// A band of a pipeline.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct BandLabel {
    pipeline: String,
    action: String,
}

/// A learner of a pipeline, by the fact in which it says how bad an event is.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct LearnerLabel {
    pipeline: String,
    fact: String,
}

/// A linear model that nodes share.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ModelLabel {
    model: String,
}

/// The state of a review.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct StateLabel {
    state: &'static str,
}

/// The trace of a request that a bucket of a histogram shows as an example.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct TraceLabel {
    trace_id: String,
}

/// A histogram of times, with an example of a traced request in each bucket.
type TimeHistogram = HistogramWithExemplars<TraceLabel>;

/// The kind of fault of a node.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ConditionLabel {
    name: &'static str,
}

/// The server's counters.
#[derive(Debug)]
pub(crate) struct ServerMetrics {
    registry: Registry,
    requests: Family<RequestLabel, TimeHistogram>,
    /// Requests that were refused because too many were at work.
    pub(crate) refused: Counter,
    /// Events that were answered by `on_error` of their pipeline, undecided.
    undecided: Family<PipelineLabel, Counter>,
    /// Proxies' questions that were answered by `on_error`.
    pub(crate) forward_undecided: Counter,
    /// Requests whose handling panicked.
    pub(crate) panics: Counter,
    /// Lines of batches that were no events.
    pub(crate) bad_lines: Counter,
    /// Housekeeping that failed.
    pub(crate) upkeep_failures: Counter,
    /// Open connections.
    pub(crate) connections: Gauge,
    /// Connections that were closed at once, as their address has enough.
    pub(crate) refused_connections: Counter,
    /// Wrong tokens and passwords.
    wrong_tokens: Family<ListenerLabel, Counter>,
    /// Tokens that were not accepted, by the reason.
    refused_tokens: Family<ListenerFailureLabel, Counter>,
    /// The times of decisions over all protocols.
    pub(crate) decision_times: DecisionTimes,
    listeners: ListenerMetrics,
}

/// The counters of listeners of mail protocols.
#[derive(Debug)]
struct ListenerMetrics {
    connections: Family<ListenerLabel, Gauge>,
    decisions: Family<AnswerLabel, TimeHistogram>,
    failures: Family<ListenerFailureLabel, Counter>,
    commands: Family<ListenerLabel, Counter>,
    batches: Family<ListenerLabel, Histogram>,
}

impl ServerMetrics {
    pub(crate) fn new(engine: &Arc<Engine>, clock: &Clock) -> ServerMetrics {
        let mut registry = Registry::default();
        engine.metrics().register(&mut registry);
        registry.register_collector(Box::new(EngineCollector {
            engine: Arc::clone(engine),
            clock: clock.clone(),
        }));
        let version = Info::new(vec![("version", env!("CARGO_PKG_VERSION"))]);
        registry.register("tollhouse_build", "The program", version);
        let metrics = ServerMetrics {
            requests: Family::new_with_constructor(times as fn() -> TimeHistogram),
            refused: Counter::default(),
            undecided: Family::default(),
            forward_undecided: Counter::default(),
            panics: Counter::default(),
            bad_lines: Counter::default(),
            upkeep_failures: Counter::default(),
            connections: Gauge::default(),
            refused_connections: Counter::default(),
            wrong_tokens: Family::default(),
            refused_tokens: Family::default(),
            decision_times: DecisionTimes::default(),
            listeners: ListenerMetrics {
                connections: Family::default(),
                decisions: Family::new_with_constructor(times as fn() -> TimeHistogram),
                failures: Family::default(),
                commands: Family::default(),
                batches: Family::new_with_constructor((|| Histogram::new(SECONDS)) as fn() -> Histogram),
            },
            registry,
        };
        metrics.registered()
    }

    fn registered(mut self) -> ServerMetrics {
        let registry = &mut self.registry;
        let help = "Time from a request's head to its answer, in seconds, by route and status";
        registry.register("tollhouse_http_request_seconds", help, self.requests.clone());
        registry.register(
            "tollhouse_http_refused",
            "Requests refused at `requests_max`",
            self.refused.clone(),
        );
        registry.register(
            "tollhouse_undecided",
            "Events answered by the pipeline's `on_error`, for lack of capacity or time",
            self.undecided.clone(),
        );
        registry.register(
            "tollhouse_forward_undecided",
            "Proxies' questions that were answered by `on_error`",
            self.forward_undecided.clone(),
        );
        registry.register("tollhouse_http_panics", "Requests whose handling panicked", self.panics.clone());
        registry.register(
            "tollhouse_http_bad_lines",
            "Lines of batches that are not valid events",
            self.bad_lines.clone(),
        );
        let help = "Wrong tokens and passwords, by listener; `http` is that of HTTP";
        registry.register("tollhouse_wrong_tokens", help, self.wrong_tokens.clone());
        let help = "Tokens that were not accepted, by listener and reason: `unknown` (passwords, too), `expired`, `scope`";
        registry.register("tollhouse_refused_tokens", help, self.refused_tokens.clone());
        registry.register("tollhouse_http_connections", "Open connections", self.connections.clone());
        registry.register(
            "tollhouse_http_refused_connections",
            "Connections closed at once at `client_connections_max`",
            self.refused_connections.clone(),
        );
        registry.register(
            "tollhouse_upkeep_failures",
            "Housekeeping that failed",
            self.upkeep_failures.clone(),
        );
        let of = &self.listeners;
        let listed = of.connections.clone();
        registry.register("tollhouse_listener_connections", "Open connections of a mail protocol", listed);
        let help = "Time for a decision on a message of a mail server, in seconds, by listener and answer";
        registry.register("tollhouse_listener_decision_seconds", help, of.decisions.clone());
        let help = "Refused connections, broken protocol and messages that were not decided on, by listener and reason";
        registry.register("tollhouse_listener_failures", help, of.failures.clone());
        let help = "Commands of clients of Redis, by listener";
        registry.register("tollhouse_resp_commands", help, of.commands.clone());
        let help = "Time to decide a batch of commands of a Redis client, in seconds, by listener";
        registry.register("tollhouse_resp_batch_seconds", help, of.batches.clone());
        self
    }

    /// Returns the registry, for counters of parts that a build can leave out.
    pub(crate) fn registry(&mut self) -> &mut Registry {
        &mut self.registry
    }

    /// The open connections of a listener.
    pub(crate) fn listener_connections(&self, listener: &str) -> Gauge {
        self.listeners.connections.get_or_create_owned(&ListenerLabel { listener: listener.to_owned() })
    }

    /// The commands of a listener.
    pub(crate) fn resp_commands(&self, listener: &str) -> Counter {
        self.listeners.commands.get_or_create_owned(&ListenerLabel { listener: listener.to_owned() })
    }

    /// The batches of a listener.
    pub(crate) fn resp_batches(&self, listener: &str) -> Histogram {
        self.listeners.batches.get_or_create_owned(&ListenerLabel { listener: listener.to_owned() })
    }

    /// Counts what a listener answered about a message, which may be traced.
    pub(crate) fn listener_answered(
        &self,
        listener: &str,
        answer: &'static str,
        took: Duration,
        trace: Option<&RequestTrace>,
    ) {
        self.decision_times.note(took);
        let label = AnswerLabel { listener: listener.to_owned(), answer };
        self.listeners.decisions.get_or_create(&label).observe(took.as_secs_f64(), example(trace), None);
    }

    /// Counts a wrong token or password.
    pub(crate) fn wrong_token(&self, listener: &str) {
        self.wrong_tokens.get_or_create(&ListenerLabel { listener: listener.to_owned() }).inc();
    }

    /// Counts a token that was not accepted.
    pub(crate) fn refused_token(&self, listener: &str, reason: &'static str) {
        self.refused_tokens
            .get_or_create(&ListenerFailureLabel { listener: listener.to_owned(), reason })
            .inc();
    }

    /// Counts an event that was answered by `on_error`.
    pub(crate) fn undecided(&self, pipeline: &str) {
        self.undecided.get_or_create(&PipelineLabel { pipeline: pipeline.to_owned() }).inc();
    }

    /// Counts what went wrong on a listener.
    pub(crate) fn listener_failure(&self, listener: &str, reason: &'static str) {
        self.listeners
            .failures
            .get_or_create(&ListenerFailureLabel { listener: listener.to_owned(), reason })
            .inc();
    }

    /// Counts an answered request, which may be traced.
    pub(crate) fn answered(&self, route: &str, status: u16, took: Duration, trace: Option<&RequestTrace>) {
        // Proxies ask below their route, too.
        if DECIDING
            .iter()
            .any(|of| route.strip_prefix(of).is_some_and(|rest| rest.is_empty() || rest.starts_with("/{")))
        {
            self.decision_times.note(took);
        }
        let label = RequestLabel { route: route.to_owned(), status };
        self.requests.get_or_create(&label).observe(took.as_secs_f64(), example(trace), None);
    }

    /// Everything, as OpenMetrics text.
    pub(crate) fn page(&self) -> Result<String, fmt::Error> {
        let mut page = String::new();
        text::encode(&mut page, &self.registry)?;
        Ok(page)
    }
}

fn times() -> TimeHistogram {
    HistogramWithExemplars::new(SECONDS.into_iter())
}

fn example(trace: Option<&RequestTrace>) -> Option<TraceLabel> {
    trace.map(|trace| TraceLabel { trace_id: trace.id_text() })
}

fn encode_metric(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    metric: &impl EncodeMetric,
) -> fmt::Result {
    metric.encode(encoder.encode_descriptor(name, help, None, metric.metric_type())?)
}

/// Encodes metrics whose names begin alike.
fn encode_families(
    encoder: &mut DescriptorEncoder<'_>,
    prefix: &str,
    metrics: impl IntoIterator<Item = (&'static str, &'static str, impl EncodeMetric)>,
) -> fmt::Result {
    metrics.into_iter().try_for_each(|(name, help, metric)| {
        encode_metric(encoder, &format!("{prefix}_{name}"), help, &metric)
    })
}

fn encode(encoder: &mut MetricEncoder<'_>, figure: &LedgerMetric) -> fmt::Result {
    if figure.is_sum {
        encoder.encode_counter::<NoLabelSet, _, u64>(&figure.value, None)
    } else {
        encoder.encode_gauge(&i64::try_from(figure.value).unwrap_or(i64::MAX))
    }
}

/// The collector of what ledger and journal hold, asked for when it is shown.
struct EngineCollector {
    engine: Arc<Engine>,
    clock: Clock,
}

impl fmt::Debug for EngineCollector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Holdings")
    }
}

impl EngineCollector {
    /// The bands that promise something.
    fn encode_bands(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        type GaugeFamily = Family<BandLabel, Gauge<f64, AtomicU64>>;
        let [scores, promised, held, good, recall, reached]: [GaugeFamily; 6] = Default::default();
        for pipeline in &self.engine.plan().pipelines {
            for line in self.engine.promised_lines(pipeline) {
                let label = BandLabel { pipeline: pipeline.name.clone(), action: line.action.to_string() };
                scores.get_or_create(&label).set(line.at);
                promised.get_or_create(&label).set(line.false_positives);
                held.get_or_create(&label).set(f64::from(u8::from(line.line.is_some())));
                good.get_or_create(&label).set(line.good as f64);
                if let Some(share) = line.recall {
                    recall.get_or_create(&label).set(share);
                }
                if let Some(share) = line.drift.share() {
                    reached.get_or_create(&label).set(share);
                }
            }
        }
        let gauges = [
            ("score", "Score at which a band with a promise begins", scores),
            ("promised_ratio", "Promised share of good events that reach the band", promised),
            ("promise_held", "1 if enough good events are known to hold the promise", held),
            ("good_events", "Events judged good from which the band's score is computed", good),
            ("recall_ratio", "Share of the latest events judged bad that reach the band", recall),
            (
                "reached_ratio",
                "Share of the latest good events that reached the band as it was before each of them",
                reached,
            ),
        ];
        encode_families(encoder, "tollhouse_band", gauges)
    }

    /// The linear models that nodes share.
    fn encode_models(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let [version, lag, waiting, dropped]: [Family<ModelLabel, Gauge>; 4] = Default::default();
        for (model, state) in self.engine.shared_models() {
            let label = ModelLabel { model };
            let set = |family: &Family<ModelLabel, Gauge>, value: u64| {
                family.get_or_create(&label).set(i64::try_from(value).unwrap_or(i64::MAX));
            };
            set(&version, state.version);
            set(&lag, state.head.saturating_sub(state.version));
            set(&waiting, state.waiting);
            set(&dropped, state.dropped);
        }
        let gauges = [
            (
                "version",
                "The number of the last training example of the shared stream that the linear model has learned",
                version,
            ),
            ("lag", "Training examples of that stream that the linear model has not learned yet", lag),
            (
                "waiting",
                "Training examples that this node was given and that are not in the stream yet",
                waiting,
            ),
            (
                "dropped",
                "Training examples that were dropped because too many waited: counts have them, linear models do not",
                dropped,
            ),
        ];
        encode_families(encoder, "tollhouse_shared_model", gauges)
    }

    /// The queue of reviews, and its service level.
    fn encode_reviews(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let (plan, now) = (self.engine.plan(), self.clock.now());
        let census = self.engine.reviews().census(&plan.node.review, now);
        let states = Family::<StateLabel, Gauge>::default();
        for (state, count) in engine::ReviewState::ALL.iter().zip(census.states) {
            let count = i64::try_from(count).unwrap_or(i64::MAX);
            states.get_or_create(&StateLabel { state: state.name() }).set(count);
        }
        let help = "Reviews by state";
        encode_metric(encoder, "tollhouse_reviews", help, &states)?;
        let oldest = census.oldest.map_or(0.0, |oldest| (now - oldest).as_seconds_f64().max(0.0));
        let gauge = ConstGauge::new(oldest);
        let help = "Age of the oldest review that is not decided, in seconds";
        let name = "tollhouse_reviews_oldest_seconds";
        encode_metric(encoder, name, help, &gauge)?;
        let gauge = ConstGauge::new(i64::try_from(census.overdue).unwrap_or(i64::MAX));
        let help = "Reviews that are not decided and are older than the service level";
        let name = "tollhouse_reviews_overdue";
        encode_metric(encoder, name, help, &gauge)
    }

    /// The brokers that decisions and feedback are sent to.
    fn encode_sinks(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        type Figure = fn(&SinkStatus) -> u64;
        let counters: [(&str, &str, Figure); 5] = [
            ("sent", "Messages that the broker accepted, by sink", SinkStatus::sent),
            ("sent_bytes", "Bytes of messages that the broker accepted, by sink", SinkStatus::bytes),
            (
                "shortened",
                "Messages sent without facts because they were too long, by sink",
                SinkStatus::shortened,
            ),
            ("failures", "Failed attempts to send, which are retried, by sink", SinkStatus::failures),
            (
                "gaps",
                "Times that the journal removed records before they were sent, by sink",
                SinkStatus::gaps,
            ),
        ];
        let gauges: [(&str, &str, Figure); 2] = [
            ("lag_records", "Records of the journal that are not sent yet, by sink", SinkStatus::lag),
            ("failing", "1 if a sink cannot send", |status| u64::from(status.fault().is_some())),
        ];
        let sinks = self.engine.sinks().statuses();
        let label = |status: &SinkStatus| SinkLabel { sink: status.plan.name.clone() };
        for (name, help, figure) in counters {
            let family = Family::<SinkLabel, Counter>::default();
            sinks.iter().for_each(|status| _ = family.get_or_create(&label(status)).inc_by(figure(status)));
            let name = format!("tollhouse_sink_{name}");
            encode_metric(encoder, &name, help, &family)?;
        }
        for (name, help, figure) in gauges {
            let family = Family::<SinkLabel, Gauge>::default();
            let value = |status| i64::try_from(figure(status)).unwrap_or(i64::MAX);
            sinks.iter().for_each(|status| _ = family.get_or_create(&label(status)).set(value(status)));
            let name = format!("tollhouse_sink_{name}");
            encode_metric(encoder, &name, help, &family)?;
        }
        Ok(())
    }

    /// The share of bad events among those of which each learner said something, beside the share that it predicted.
    fn encode_learner_drifts(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        type GaugeFamily = Family<LearnerLabel, Gauge<f64, AtomicU64>>;
        let [bad, expected, squared]: [GaugeFamily; 3] = Default::default();
        for pipeline in &self.engine.plan().pipelines {
            for (fact, drift) in self.engine.learner_drifts(pipeline) {
                let label = LearnerLabel { pipeline: pipeline.name.clone(), fact };
                if let Some(brier) = drift.brier() {
                    bad.get_or_create(&label).set(drift.bad / drift.judged);
                    expected.get_or_create(&label).set(drift.expected / drift.judged);
                    squared.get_or_create(&label).set(brier);
                }
            }
        }
        let gauges = [
            (
                "bad_ratio",
                "Share of the latest judged events of which the learner said something that were bad",
                bad,
            ),
            ("expected_ratio", "Share of bad events that what the learner says predicts", expected),
            (
                "brier",
                "Mean squared error of the probabilities that what the learner says stands for",
                squared,
            ),
        ];
        encode_families(encoder, "tollhouse_learner", gauges)
    }

    /// The curves from scores to probabilities that were drawn through judged events.
    fn encode_calibrations(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        type GaugeFamily = Family<PipelineLabel, Gauge<f64, AtomicU64>>;
        let [slopes, offsets, bad, expected, squared]: [GaugeFamily; 5] = Default::default();
        for pipeline in &self.engine.plan().pipelines {
            let calibration = self.engine.calibration(pipeline);
            if !calibration.is_drawn {
                continue;
            }
            let label = PipelineLabel { pipeline: pipeline.name.clone() };
            slopes.get_or_create(&label).set(calibration.curve.slope);
            offsets.get_or_create(&label).set(calibration.curve.offset);
            let drift = calibration.drift;
            if let Some(brier) = drift.brier() {
                bad.get_or_create(&label).set(drift.bad / drift.judged);
                expected.get_or_create(&label).set(drift.expected / drift.judged);
                squared.get_or_create(&label).set(brier);
            }
        }
        let gauges = [
            ("slope", "Log-odds of being bad for a point of score", slopes),
            ("offset", "Log-odds of being bad at a score of 0", offsets),
            ("bad_ratio", "Share of the latest judged events that were bad", bad),
            ("expected_ratio", "Share of bad events that the probabilities predict", expected),
            ("brier", "Mean squared error of the latest probabilities", squared),
        ];
        encode_families(encoder, "tollhouse_calibration", gauges)
    }
}

impl Collector for EngineCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let ledger = self.engine.census();
        let journal = self.engine.journal().map(|journal| journal.census()).unwrap_or_default();
        let upload = self.engine.journal().map(|journal| journal.upload_census()).unwrap_or_default();
        let gauges = [
            ("ledger_cells", "Cells in memory", ledger.cells),
            (
                "ledger_memory_bytes",
                "Memory of cells, the directory of keys and sketches",
                ledger.memory_bytes,
            ),
            ("ledger_dirty_bytes", "Bytes of cells that are not written yet", ledger.dirty_bytes),
            ("ledger_keys", "Keys, in memory or on disk alone", ledger.keys),
            ("ledger_directory_bytes", "Memory of the directory of all keys", ledger.directory_bytes),
            (
                "ledger_directory_max_bytes",
                "Bound of the directory's memory, beyond which new keys are only estimated",
                ledger.directory_max_bytes,
            ),
            ("ledger_disk_bytes", "Length of the ledger's files", ledger.disk_bytes),
            (
                "ledger_live_bytes",
                "Bytes of the ledger's files that hold the newest image of a key",
                ledger.live_bytes,
            ),
            (
                "ledger_poisoned",
                "1 if additions are refused since a write failed",
                u64::from(ledger.poisoned),
            ),
            (
                "ledger_full",
                "1 while additions are refused for lack of room, descriptors or memory",
                u64::from(ledger.full),
            ),
            (
                "journal_full",
                "1 while decisions are not logged for lack of room, descriptors or memory",
                u64::from(journal.full),
            ),
            ("journal_segments", "Files of the journal", journal.segments as u64),
            ("journal_columnar", "Files of the journal by columns", journal.columnar as u64),
            ("journal_bytes", "Length of the journal's files", journal.bytes),
            ("journal_pending_bytes", "Records that are not written yet", journal.pending_bytes as u64),
            (
                "journal_upload_waiting",
                "Segments with records that are not uploaded yet, the newest one included",
                upload.waiting,
            ),
            (
                "journal_upload_lag_seconds",
                "Age of the oldest record that is not uploaded yet, in seconds, where segments are uploaded",
                upload
                    .oldest
                    .map_or(0, |oldest| ((self.clock.now() - oldest).0 / 1_000_000).max(0).cast_unsigned()),
            ),
        ];
        let counters = [
            ("ledger_flushes", "Flushes that wrote", ledger.flushes),
            ("ledger_rewritten_bytes", "Bytes written again by merges of files", ledger.rewritten_bytes),
            (
                "ledger_unplaced",
                "Observations of keys that were estimated because there was no room for them",
                ledger.unplaced,
            ),
            ("ledger_loads", "Cells read back from disk", ledger.loads),
            ("ledger_evictions", "Cells that left memory to make room", ledger.evictions),
            ("ledger_expired", "Cells removed because no window needs them any more", ledger.expired),
            ("ledger_damaged", "Images of cells that could not be read", ledger.damaged),
            ("journal_uploads", "Segments uploaded", upload.segments),
            ("journal_upload_bytes", "Bytes uploaded", upload.bytes),
            ("journal_upload_failures", "Failed attempts to upload, which are retried", upload.failures),
            (
                "journal_upload_lost",
                "Records removed to bound the journal before they were uploaded",
                upload.lost,
            ),
        ];
        for (name, help, value) in gauges {
            let gauge = ConstGauge::new(i64::try_from(value).unwrap_or(i64::MAX));
            let name = format!("tollhouse_{name}");
            encode_metric(&mut encoder, &name, help, &gauge)?;
        }
        let versions = Family::<VersionLabel, Gauge>::default();
        for pipeline in &self.engine.plan().pipelines {
            let of = [("enforced", Some(&pipeline.version))];
            let candidate = pipeline.candidate.as_ref().map(|candidate| &candidate.version);
            for (role, version) in of.into_iter().chain([("candidate", candidate)]) {
                let Some(version) = version.cloned() else { continue };
                let label = VersionLabel { pipeline: pipeline.name.clone(), role: role.to_owned(), version };
                versions.get_or_create(&label).set(1);
            }
        }
        self.encode_bands(&mut encoder)?;
        self.encode_models(&mut encoder)?;
        self.encode_reviews(&mut encoder)?;
        self.encode_calibrations(&mut encoder)?;
        self.encode_learner_drifts(&mut encoder)?;
        self.encode_sinks(&mut encoder)?;
        let conditions = Family::<ConditionLabel, Gauge>::default();
        for condition in self.engine.health().list() {
            conditions.get_or_create(&ConditionLabel { name: condition.name }).set(1);
        }
        let help = "1 for each current condition, as in `/readyz`";
        encode_metric(&mut encoder, "tollhouse_condition", help, &conditions)?;
        let help = "The versions in force";
        encode_metric(&mut encoder, "tollhouse_rules_version", help, &versions)?;
        for (name, help, value) in counters {
            let counter = ConstCounter::new(value);
            let name = format!("tollhouse_{name}");
            encode_metric(&mut encoder, &name, help, &counter)?;
        }
        let figures = self.engine.figures();
        let mut names: Vec<&str> = figures.iter().map(|figure| figure.name).collect();
        names.sort_unstable();
        names.dedup();
        for name in names {
            let mut of_name = figures.iter().filter(|figure| figure.name == name).peekable();
            let Some(LedgerMetric { help, is_sum, .. }) = of_name.peek() else { continue };
            let kind = if *is_sum { MetricType::Counter } else { MetricType::Gauge };
            let descriptor = format!("tollhouse_cluster_{name}");
            let mut family = encoder.encode_descriptor(&descriptor, help, None, kind)?;
            for figure in of_name {
                match &figure.shard {
                    Some(shard) => encode(&mut family.encode_family(&[("shard", shard.as_str())])?, figure)?,
                    None => encode(&mut family, figure)?,
                }
            }
        }
        Ok(())
    }
}
