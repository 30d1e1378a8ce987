//! The audit log of a node: opened, written by a thread of its own, read beside it.
//!
//! An entry is in the file before the action that it names is acknowledged. While the log cannot be written, actions that it
//! has to name are refused.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use access::TokenStore;
use access::audit::{AuditEntry, AuditError, AuditOptions, AuditPlace, AuditWriter};
use event::Time;
use parking_lot::RwLock;
use plan::AuditPlan;
use tokio::sync::oneshot;

use crate::core::problem::{HttpFailure, UNAVAILABLE};

/// Time for which a command that writes the log is waited for.
const PATIENCE: Duration = Duration::from_secs(5);
/// Bytes that are kept by a node without a data directory.
const MEMORY_BYTES: u64 = 1 << 20;

/// The audit log of a node.
#[derive(Debug)]
pub(crate) struct AuditTrail {
    place: AuditPlace,
    options: AuditOptions,
    writer: RwLock<Option<Arc<AuditWriter>>>,
    /// The number of the latest change of tokens that is in the log.
    changes: AtomicU64,
    /// The damage that was found when it was opened.
    damage: RwLock<Option<String>>,
}

impl AuditTrail {
    /// Opens the log in a directory, or without one in memory. Blocks. One that cannot be opened now is tried again by
    /// [`AuditTrail::reopen`].
    pub(crate) fn open(directory: Option<PathBuf>, plan: &AuditPlan) -> (AuditTrail, Option<String>) {
        let kept = AuditOptions { keep: plan.keep, keep_bytes: plan.keep_bytes, ..AuditOptions::default() };
        let (place, options) = match directory {
            Some(path) => (AuditPlace::directory(path), kept),
            None => {
                let bounds =
                    AuditOptions { segment_bytes: MEMORY_BYTES / 4, keep_bytes: MEMORY_BYTES, ..kept };
                (AuditPlace::memory(), bounds)
            }
        };
        let trail = AuditTrail {
            place,
            options,
            writer: RwLock::default(),
            changes: AtomicU64::new(0),
            damage: RwLock::default(),
        };
        let fault = trail.reopen();
        (trail, fault)
    }

    /// Opens the log if it is not open; returns what is wrong with it. Blocks.
    pub(crate) fn reopen(&self) -> Option<String> {
        if let Some(writer) = self.writer.read().as_ref() {
            let failing = || "the audit log cannot be written: the node's log says why".to_owned();
            return writer.is_failing().then(failing).or_else(|| self.damage.read().clone());
        }
        let begun = Instant::now();
        let log = loop {
            match self.place.open(self.options) {
                // A command writes an entry.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock && begun.elapsed() < PATIENCE => {
                    std::thread::sleep(Duration::from_millis(20));
                }
                log => break log,
            }
        };
        let damage = log.as_ref().ok().and_then(|log| log.damage().map(str::to_owned));
        let started = log.and_then(|log| {
            self.changes.store(log.changes(), Ordering::Relaxed);
            AuditWriter::start(log, |told| match told {
                Ok(head) => tracing::info!(number = head.number, chain = %head.chain, "the audit log's last line"),
                Err(error) => tracing::error!(%error, "the audit log cannot be written: actions that it names are refused"),
            })
        });
        match started {
            Ok(writer) => {
                *self.writer.write() = Some(Arc::new(writer));
                let told = |why| {
                    format!("the audit log is damaged: {why}; `tollhouse audit --verify` lists all of it")
                };
                *self.damage.write() = damage.map(told);
                self.damage.read().clone()
            }
            Err(error) => Some(format!("the audit log cannot be opened: {error}")),
        }
    }

    fn writer(&self) -> Option<Arc<AuditWriter>> {
        self.writer.read().clone()
    }

    /// Checks that the log can be written, before something is done that it has to name.
    pub(crate) fn check(&self) -> Result<(), HttpFailure> {
        match self.writer() {
            Some(writer) if !writer.is_failing() => Ok(()),
            _ => Err(unwritten()),
        }
    }

    /// Writes an entry; returns once it is in the file.
    pub(crate) async fn append(&self, entry: AuditEntry) -> Result<(), HttpFailure> {
        let Some(writer) = self.writer() else { return Err(unwritten()) };
        let (sender, receiver) = oneshot::channel();
        // Who has gone does not hear of it.
        writer.write(entry, Box::new(move |done| drop(sender.send(done))));
        match receiver.await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(AuditError::Busy | AuditError::Failed(_))) | Err(_) => Err(unwritten()),
        }
    }

    /// Writes those changes of tokens that are not in the log. Never waits.
    pub(crate) fn append_changes(&self, store: &TokenStore) {
        let Some(writer) = self.writer() else { return };
        for change in store.changes_after(self.changes.load(Ordering::Relaxed)) {
            writer.write(AuditEntry::of_change(change), Box::new(|_| ()));
        }
        self.changes.fetch_max(store.changed, Ordering::Relaxed);
    }

    /// Has what is too old forgotten.
    pub(crate) fn forget(&self, now: Time) {
        if let Some(writer) = self.writer() {
            writer.forget(now);
        }
    }

    /// Writes what waits, and ends the thread. Blocks.
    pub(crate) fn close(&self) {
        // Whoever still writes has the last one.
        drop(self.writer.write().take());
    }

    /// The place of the log, to be read.
    pub(crate) fn place(&self) -> AuditPlace {
        self.place.clone()
    }
}

fn unwritten() -> HttpFailure {
    UNAVAILABLE
        .failure("the audit log cannot be written, so nothing is done that it has to name")
        .help("the node's log says why")
}
