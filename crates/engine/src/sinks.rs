//! The sinks of a node, as far as the engine knows of them: how far each has sent the journal, which is kept in `sinks.json` of
//! the data directory, and how it goes. Who sends is elsewhere.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use event::Time;
use journal::{JournalPosition, RecordId};
use parking_lot::Mutex;
use plan::SinkPlan;

use crate::Engine;
use crate::condition::Impact;
use crate::directory::{Directory, DirectoryError, io_error, or_put_aside, read_sealed};

/// Largest file that is read.
const BYTES_MAX: u64 = 1 << 20;
const LOST: &str = "sinks then begin as new ones do";
/// The name of the condition of a node whose sinks cannot send.
const FAILING: &str = "sink-failing";
/// The number of failures in a row from which on people are told.
const FAILURES_SHOWN: u64 = 3;
/// Most bytes of a reason.
const FAULT_BYTES_MAX: usize = 500;

/// The positions of sinks by name.
pub(crate) type SinkPositions = BTreeMap<String, JournalPosition>;

impl Directory {
    fn sink_positions_path(&self) -> PathBuf {
        self.path().join("sinks.json")
    }

    /// Reads the positions of sinks.
    pub(crate) fn stored_sink_positions(&self) -> Result<SinkPositions, DirectoryError> {
        let path = self.sink_positions_path();
        let Some(bytes) = read_sealed(&path, BYTES_MAX, LOST)? else { return Ok(SinkPositions::new()) };
        let read = serde_json::from_slice(&bytes);
        read.map_err(|error| DirectoryError::Damaged { path, why: format!("{error}; {LOST}") })
    }

    /// Replaces the positions of sinks, so that a crash leaves the old ones or the new ones.
    pub(crate) fn write_sink_positions(&self, positions: &SinkPositions) -> Result<(), DirectoryError> {
        let path = self.sink_positions_path();
        let bytes = serde_json::to_vec(positions).map_err(std::io::Error::from).map_err(io_error(&path))?;
        disk::replace(&path, &disk::seal(&bytes)).map_err(io_error(&path))
    }
}

/// The sinks of a node.
#[derive(Debug, Default)]
pub struct SinkTable {
    statuses: Vec<Arc<SinkStatus>>,
    /// Held while the file is written. No request takes this lock.
    positions: Mutex<SinkPositions>,
}

impl SinkTable {
    /// Reads the positions; a damaged file is put aside, and told. Those of sinks that are not configured any more stay.
    pub(crate) fn open(
        directory: &Directory,
        plans: &[SinkPlan],
        told: &mut Vec<String>,
    ) -> Result<SinkTable, DirectoryError> {
        let positions = or_put_aside(directory.stored_sink_positions(), told)?;
        let statuses = plans.iter().map(|plan| Arc::new(SinkStatus::new(plan.clone()))).collect();
        Ok(SinkTable { statuses, positions: Mutex::new(positions) })
    }

    /// The sinks as they are configured, in that order.
    pub fn statuses(&self) -> &[Arc<SinkStatus>] {
        &self.statuses
    }

    /// The position of a sink; `None` if it is new.
    pub fn position(&self, name: &str) -> Option<JournalPosition> {
        self.positions.lock().get(name).copied()
    }
}

impl Engine {
    /// The sinks of this node.
    pub fn sinks(&self) -> &SinkTable {
        &self.sinks
    }

    /// Keeps the position of a sink: what is before it was sent. Blocks.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn keep_sink_position(&self, name: &str, position: JournalPosition) -> Result<(), DirectoryError> {
        let Some(directory) = self.directory() else { return Ok(()) };
        let mut positions = self.sinks.positions.lock();
        if positions.get(name) == Some(&position) {
            return Ok(());
        }
        let mut changed = positions.clone();
        changed.insert(name.to_owned(), position);
        let is_first = positions.is_empty();
        directory.write_sink_positions(&changed)?;
        *positions = changed;
        // From now on the file would be missed.
        if is_first { directory.note_contents() } else { Ok(()) }
    }

    /// Says of the sinks that cannot send, in the node's conditions.
    pub fn tell_of_sinks(&self) {
        let failing = self.sinks.statuses.iter().filter_map(|status| {
            let failures = status.failures_in_a_row.load(Ordering::Relaxed);
            let (_, why) = status.fault().filter(|_| failures >= FAILURES_SHOWN)?;
            Some(format!("the sink `{}`, {} records behind: {why}", status.plan.name, status.lag()))
        });
        let failing: Vec<String> = failing.collect();
        self.health().set(FAILING, Impact::Degraded, (!failing.is_empty()).then(|| failing.join("; ")));
    }
}

/// A sink as it is now, with its counts since the start.
#[derive(Debug)]
pub struct SinkStatus {
    /// The sink as it is configured.
    pub plan: SinkPlan,
    sent: AtomicU64,
    bytes: AtomicU64,
    shortened: AtomicU64,
    failures: AtomicU64,
    failures_in_a_row: AtomicU64,
    gaps: AtomicU64,
    lag: AtomicU64,
    last: Mutex<Option<RecordId>>,
    fault: Mutex<Option<(Time, String)>>,
}

impl SinkStatus {
    fn new(plan: SinkPlan) -> SinkStatus {
        SinkStatus {
            plan,
            sent: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            shortened: AtomicU64::new(0),
            failures: AtomicU64::new(0),
            failures_in_a_row: AtomicU64::new(0),
            gaps: AtomicU64::new(0),
            lag: AtomicU64::new(0),
            last: Mutex::new(None),
            fault: Mutex::new(None),
        }
    }

    /// Notes messages that the broker has.
    pub fn note_sent(&self, messages: u64, bytes: u64, shortened: u64, last: Option<RecordId>) {
        self.sent.fetch_add(messages, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.shortened.fetch_add(shortened, Ordering::Relaxed);
        self.failures_in_a_row.store(0, Ordering::Relaxed);
        if last.is_some() {
            *self.last.lock() = last;
        }
        *self.fault.lock() = None;
    }

    /// Notes that the broker does not take messages, or the journal cannot be read. Returns the failures in a row.
    pub fn note_failure(&self, now: Time, why: &str) -> u64 {
        self.failures.fetch_add(1, Ordering::Relaxed);
        let mut end = why.len().min(FAULT_BYTES_MAX);
        while !why.is_char_boundary(end) {
            end -= 1;
        }
        let mut fault = self.fault.lock();
        let since = fault.as_ref().map_or(now, |(since, _)| *since);
        *fault = Some((since, why[..end].to_owned()));
        self.failures_in_a_row.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Notes how far the sink is behind.
    pub fn note_lag(&self, lag: u64, gaps: u64) {
        self.lag.store(lag, Ordering::Relaxed);
        self.gaps.store(gaps, Ordering::Relaxed);
    }

    /// Messages that the broker has.
    pub fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    /// The bytes of these messages.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Messages that were sent without facts, being too long.
    pub fn shortened(&self) -> u64 {
        self.shortened.load(Ordering::Relaxed)
    }

    /// Attempts that failed, and are made again.
    pub fn failures(&self) -> u64 {
        self.failures.load(Ordering::Relaxed)
    }

    /// The number of times that the journal had let go of records before they were sent.
    pub fn gaps(&self) -> u64 {
        self.gaps.load(Ordering::Relaxed)
    }

    /// Records of the journal that are not sent yet, about.
    pub fn lag(&self) -> u64 {
        self.lag.load(Ordering::Relaxed)
    }

    /// The last record that was sent.
    pub fn last(&self) -> Option<RecordId> {
        *self.last.lock()
    }

    /// The reason why it cannot send, and since when.
    pub fn fault(&self) -> Option<(Time, String)> {
        self.fault.lock().clone()
    }
}
