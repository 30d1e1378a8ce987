//! The state of a source: what was read of it, how far behind it is, and what is wrong.

use std::sync::atomic::{AtomicI64, Ordering};

use event::Time;
use parking_lot::Mutex;
use plan::SourcePlan;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// Most bytes of a reason.
const FAULT_BYTES_MAX: usize = 500;

/// A source.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct SourceLabel {
    source: String,
}

/// The counters of all sources.
pub(super) struct SourceMetrics {
    lines: Family<SourceLabel, Counter>,
    events: Family<SourceLabel, Counter>,
    unread: Family<SourceLabel, Counter>,
    bad: Family<SourceLabel, Counter>,
    dropped: Family<SourceLabel, Counter>,
    failing: Family<SourceLabel, Gauge>,
    lag: Family<SourceLabel, Gauge>,
    files: Family<SourceLabel, Gauge>,
}

impl SourceMetrics {
    pub(super) fn new(registry: &mut Registry) -> SourceMetrics {
        let metrics = SourceMetrics {
            lines: Family::default(),
            events: Family::default(),
            unread: Family::default(),
            bad: Family::default(),
            dropped: Family::default(),
            failing: Family::default(),
            lag: Family::default(),
            files: Family::default(),
        };
        let of = &metrics;
        registry.register("tollhouse_source_lines", "Lines that were read, by source", of.lines.clone());
        registry.register(
            "tollhouse_source_events",
            "Events of lines that were decided, by source",
            of.events.clone(),
        );
        registry.register(
            "tollhouse_source_unread",
            "Lines that no pattern of the pipeline reads, by source",
            of.unread.clone(),
        );
        registry.register(
            "tollhouse_source_bad",
            "Lines that are not valid events, by source",
            of.bad.clone(),
        );
        registry.register(
            "tollhouse_source_dropped",
            "Syslog lines dropped, by source: one address sent too many, or there was no room",
            of.dropped.clone(),
        );
        registry.register(
            "tollhouse_source_failing",
            "1 if a source cannot be read or its lines cannot be decided",
            of.failing.clone(),
        );
        registry.register(
            "tollhouse_source_lag_bytes",
            "Bytes of files that are not read yet, by source; for syslog, bytes that wait",
            of.lag.clone(),
        );
        registry.register("tollhouse_source_files", "Files that are open, by source", of.files.clone());
        metrics
    }
}

/// A source as it is now.
#[derive(Debug)]
pub(crate) struct SourceStatus {
    pub(crate) plan: SourcePlan,
    /// Lines that were read.
    pub(crate) lines: Counter,
    /// Events that were decided.
    pub(crate) events: Counter,
    /// Lines that no pattern reads.
    pub(crate) unread: Counter,
    /// Lines that are no events.
    pub(crate) bad: Counter,
    /// Lines that were not taken.
    pub(crate) dropped: Counter,
    /// Bytes that wait.
    pub(crate) lag: Gauge,
    /// Open files.
    pub(crate) files: Gauge,
    failing: Gauge,
    /// The arrival of the last line, in microseconds; 0 for none.
    last_line: AtomicI64,
    fault: Mutex<Option<(Time, String)>>,
    /// The last line that was no event, with its reason.
    last_bad: Mutex<Option<(Time, String)>>,
}

impl SourceStatus {
    pub(super) fn new(plan: SourcePlan, metrics: &SourceMetrics) -> SourceStatus {
        let label = SourceLabel { source: plan.name.clone() };
        SourceStatus {
            lines: metrics.lines.get_or_create_owned(&label),
            events: metrics.events.get_or_create_owned(&label),
            unread: metrics.unread.get_or_create_owned(&label),
            bad: metrics.bad.get_or_create_owned(&label),
            dropped: metrics.dropped.get_or_create_owned(&label),
            lag: metrics.lag.get_or_create_owned(&label),
            files: metrics.files.get_or_create_owned(&label),
            failing: metrics.failing.get_or_create_owned(&label),
            last_line: AtomicI64::new(0),
            fault: Mutex::new(None),
            last_bad: Mutex::new(None),
            plan,
        }
    }

    /// The arrival of the last line.
    pub(crate) fn last_line(&self) -> Option<Time> {
        Some(Time(self.last_line.load(Ordering::Relaxed))).filter(|time| time.0 != 0)
    }

    /// Counts lines that came.
    pub(crate) fn came(&self, lines: usize, now: Time) {
        self.lines.inc_by(lines as u64);
        self.last_line.store(now.0, Ordering::Relaxed);
    }

    /// Returns what is wrong now, and since when.
    pub(crate) fn fault(&self) -> Option<(Time, String)> {
        self.fault.lock().clone()
    }

    /// The last line that was no event: when, and why.
    pub(crate) fn last_bad(&self) -> Option<(Time, String)> {
        self.last_bad.lock().clone()
    }

    /// Counts a line that is no event.
    pub(crate) fn refuse(&self, now: Time, why: String) {
        self.bad.inc();
        *self.last_bad.lock() = Some((now, cut(why)));
    }

    /// Says what is wrong. One that is so for a while is logged once.
    pub(crate) fn fail(&self, now: Time, why: String) {
        let why = cut(why);
        let is_new = {
            let mut fault = self.fault.lock();
            let is_new = fault.as_ref().is_none_or(|(_, known)| *known != why);
            if is_new {
                *fault = Some((now, why.clone()));
            }
            is_new
        };
        self.failing.set(1);
        if is_new {
            tracing::warn!(source = self.plan.name, "{why}");
        }
    }

    /// Says that nothing is wrong any more.
    pub(crate) fn recover(&self) {
        let before = self.fault.lock().take();
        self.failing.set(0);
        if before.is_some() {
            tracing::info!(source = self.plan.name, "it can be read again");
        }
    }
}

fn cut(mut why: String) -> String {
    why.truncate(why.floor_char_boundary(FAULT_BYTES_MAX));
    why
}
