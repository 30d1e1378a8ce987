//! Erasure of what is known of some keys while the engine runs.
//!
//! ```text
//! order ─► erasure.json ─┬─► journal: decisions on events that had one, and feedback ─► shingles of keys of several fields
//!                        │                                                              and of marks, that name them, too
//!                        ├─► statistics of all these shingles
//!                        ├─► ban list, reviews, posted entries of the allow list, notes and searches
//!                        └─► the same in each snapshot of the data directory ─► erasure.json goes
//! ```
//!
//! The order has hashes alone. It is on disk until all is done, so that it is begun again after a crash; each part can be done
//! twice. What happens meanwhile and later is known again.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use event::{Shingle, Slot, Time};
use journal::{DecisionRow, ErasedRecords, JournalError};
use plan::{Pipeline, Plan};
use serde::{Deserialize, Serialize};
use stats::{CancellationCheck, ErasedKeys, LedgerError};

use crate::Engine;
use crate::directory::erasure::SnapshotErasure;
use crate::directory::{DirectoryError, io_error, read_sealed};
use crate::error::{PieceError, UnknownName};

/// The file of an order that is not done.
const FILE: &str = "erasure.json";
/// Largest order that is read.
const BYTES_MAX: u64 = 1 << 20;
/// Most keys of an order.
const KEYS_MAX: usize = 1000;
/// Most shingles that decisions add to an order.
const MORE_MAX: usize = 1 << 20;

/// Reasons for an order that is none.
#[derive(Debug, thiserror::Error)]
pub enum ErasureFailure {
    /// A kind that the pipeline does not have.
    #[error(transparent)]
    Unknown(#[from] UnknownName),
    /// A value of which no piece can be made.
    #[error(transparent)]
    Piece(#[from] PieceError),
    /// None, or too many.
    #[error("{0} keys: expected 1 to {KEYS_MAX}")]
    Count(usize),
    /// The journal.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The ledger.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// The data directory.
    #[error(transparent)]
    Directory(#[from] DirectoryError),
    /// The erasure was ended, and is on disk for the next start.
    #[error("the erasure was ended, and goes on at the next start")]
    Ended,
}

/// The keys that are to be erased, by their hashes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErasureOrder {
    /// The kind and the shingle of each.
    pub keys: Vec<(String, Shingle)>,
    /// The name of who ordered it.
    pub by: String,
    /// The time at which it was ordered.
    pub begun: Time,
    /// True if statistics are erased; false where another node that shares them does it.
    pub has_statistics: bool,
    /// True for a reset: statistics and bans go, decisions, reviews, notes and snapshots stay.
    #[serde(default)]
    pub is_reset: bool,
}

/// The part of an erasure that is at work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErasurePhase {
    /// Decisions and feedback.
    Journal,
    /// Statistics.
    Statistics,
    /// The ban list and the reviews.
    Lists,
    /// Snapshots in the data directory.
    Snapshots,
}

impl ErasurePhase {
    const ALL: [ErasurePhase; 4] =
        [ErasurePhase::Journal, ErasurePhase::Statistics, ErasurePhase::Lists, ErasurePhase::Snapshots];

    /// Returns its name.
    pub fn name(self) -> &'static str {
        match self {
            ErasurePhase::Journal => "journal",
            ErasurePhase::Statistics => "statistics",
            ErasurePhase::Lists => "lists",
            ErasurePhase::Snapshots => "snapshots",
        }
    }
}

/// The progress of an erasure, for those who watch.
#[derive(Debug, Default)]
pub struct ErasureProgress {
    phase: AtomicU8,
    segments: AtomicU64,
    segments_all: AtomicU64,
}

impl ErasureProgress {
    /// Returns the part that is at work.
    pub fn phase(&self) -> ErasurePhase {
        let number = usize::from(self.phase.load(Ordering::Relaxed));
        ErasurePhase::ALL.get(number).copied().unwrap_or(ErasurePhase::Lists)
    }

    /// Returns the number of the journal's segments that were looked through, and how many there are.
    pub fn segments(&self) -> (u64, u64) {
        (self.segments.load(Ordering::Relaxed), self.segments_all.load(Ordering::Relaxed))
    }

    fn enter(&self, phase: ErasurePhase) {
        self.phase.store(phase as u8, Ordering::Relaxed);
    }
}

/// The counts of what was erased.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ErasureOutcome {
    /// Keys that had statistics, and marks of distinct values.
    pub statistics: ErasedKeys,
    /// Decisions and feedback.
    pub records: ErasedRecords,
    /// Labels on the ban list.
    pub bans: u64,
    /// Items of reviews.
    pub reviews: u64,
    /// Posted entries of the allow list, notes, and saved searches.
    pub posted: u64,
    /// Files of journal and ledger that cannot be read whole, and may still have something.
    pub damaged: u64,
    /// Snapshots in the data directory.
    pub snapshots: SnapshotErasure,
}

impl Engine {
    /// Makes an order of values as events have them.
    ///
    /// # Errors
    /// [`ErasureFailure`]; then nothing has changed.
    pub fn erasure_order<'k>(
        &self,
        pipeline: &Pipeline,
        keys: impl ExactSizeIterator<Item = (&'k str, &'k str)>,
        by: &str,
        begun: Time,
    ) -> Result<ErasureOrder, ErasureFailure> {
        if !(1..=KEYS_MAX).contains(&keys.len()) {
            return Err(ErasureFailure::Count(keys.len()));
        }
        let mut named = Vec::new();
        for (kind, value) in keys {
            let plan = pipeline.kinds_and_reporters().find(|plan| plan.name == kind).ok_or_else(|| {
                let names: Vec<&str> =
                    pipeline.kinds_and_reporters().map(|plan| plan.name.as_str()).collect();
                let help = plan::expected(kind, names);
                UnknownName { what: "kind", name: kind.to_owned(), help }
            })?;
            let shingles = plan.shingles(value, &self.secret);
            if shingles.is_empty() {
                self.piece(plan, value)?;
                return Err(ErasureFailure::Count(0));
            }
            named.extend(shingles.into_iter().map(|shingle| (kind.to_owned(), shingle)));
        }
        Ok(ErasureOrder { keys: named, by: by.to_owned(), begun, has_statistics: true, is_reset: false })
    }

    /// Returns the order that was begun and is not done; of an engine in memory there is none.
    ///
    /// # Errors
    /// If the file cannot be read, or is damaged.
    pub fn pending_erasure(&self) -> Result<Option<ErasureOrder>, DirectoryError> {
        let Some(directory) = &self.directory else { return Ok(None) };
        let path = directory.path().join(FILE);
        let Some(bytes) = read_sealed(&path, BYTES_MAX, "and order the erasure again")? else {
            return Ok(None);
        };
        let order = serde_json::from_slice(&bytes);
        order.map(Some).map_err(|error| DirectoryError::Damaged { path, why: error.to_string() })
    }

    /// Notes an order, to be begun again after a crash. Blocks.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn note_erasure(&self, order: &ErasureOrder) -> Result<(), DirectoryError> {
        let Some(directory) = &self.directory else { return Ok(()) };
        let path = directory.path().join(FILE);
        let bytes = serde_json::to_vec(order).map_err(std::io::Error::from);
        bytes.and_then(|bytes| disk::replace(&path, &disk::seal(&bytes))).map_err(io_error(&path))
    }

    /// Erases all that is known of the keys of an order: decisions on events that had one with the feedback on them, statistics
    /// and marks, labels on the ban list, reviews, and what was posted about them; in the end the note of the order. A reset
    /// erases statistics, marks and labels alone. With `pretend` it only counts. It blocks, and may take long: to be awaited on
    /// a thread of its own.
    ///
    /// # Errors
    /// What cannot be read or written; [`ErasureFailure::Ended`] once `is_over`. It can be repeated.
    pub async fn erase(
        &self,
        order: &ErasureOrder,
        pretend: bool,
        progress: &ErasureProgress,
        is_over: CancellationCheck<'_>,
    ) -> Result<ErasureOutcome, ErasureFailure> {
        let mut outcome = ErasureOutcome::default();
        let shingles: HashSet<Shingle> = order.keys.iter().map(|(_, shingle)| *shingle).collect();
        let mut all = shingles.clone();
        if let Some(journal) = self.journal.as_ref().filter(|_| !order.is_reset) {
            progress.enter(ErasurePhase::Journal);
            let plan = self.plan();
            let mut more = HashSet::new();
            let mut each = |row: &DecisionRow| {
                if more.len() < MORE_MAX {
                    self.related(&plan, row, &shingles, &mut more);
                }
            };
            let mut tell = |done, all| {
                progress.segments.store(done, Ordering::Relaxed);
                progress.segments_all.store(all, Ordering::Relaxed);
            };
            let erased = journal.erase(&shingles, pretend, &mut each, &mut tell, &|| is_over())?;
            if erased.is_ended {
                return Err(ErasureFailure::Ended);
            }
            all.extend(more);
            (outcome.records, outcome.damaged) = (erased.records, erased.damaged);
        }
        if order.has_statistics {
            progress.enter(ErasurePhase::Statistics);
            outcome.statistics = match self.ledger.erase(&all, pretend, is_over).await {
                Err(LedgerError::Stopped) => return Err(ErasureFailure::Ended),
                erased => erased?,
            };
            outcome.damaged += outcome.statistics.damaged;
        }
        progress.enter(ErasurePhase::Lists);
        let is_meant = |value: &str| shingles.contains(&self.secret.shingle(value.as_bytes()));
        let path = |of: &dyn Fn(&crate::Directory) -> std::path::PathBuf| {
            self.directory.as_ref().map(of).unwrap_or_default()
        };
        if pretend {
            outcome.bans = self.ban_list.count_values(is_meant);
        } else {
            // Some are values of several fields: nobody misses what is remembered of a few minutes.
            self.contributors.clear();
            let bans = self.ban_list.erase_values(is_meant);
            outcome.bans = bans.map_err(io_error(&path(&crate::Directory::ban_list_path)))? as u64;
        }
        if order.is_reset {
            if !pretend {
                self.forget_erasure()?;
            }
            return Ok(outcome);
        }
        if pretend {
            outcome.reviews = self.reviews.count_of(&shingles);
            outcome.posted = self.count_posted_values(is_meant);
        } else {
            let reviews = self.reviews.erase(&shingles);
            outcome.reviews = reviews.map_err(io_error(&path(&|of| of.path().to_path_buf())))?;
            outcome.posted = self.erase_posted_values(is_meant)?;
        }
        outcome.posted += self.erase_searches(is_meant, pretend)?;
        progress.enter(ErasurePhase::Snapshots);
        outcome.snapshots = self.erase_snapshots(&all, pretend, is_over)?;
        if outcome.snapshots.is_ended {
            return Err(ErasureFailure::Ended);
        }
        if !pretend {
            self.forget_erasure()?;
        }
        Ok(outcome)
    }

    /// Adds the shingles that are of an event's keys and show one of these keys in another way: keys of several fields of which
    /// this is one, and marks of it as a distinct value.
    fn related(
        &self,
        plan: &Plan,
        row: &DecisionRow,
        shingles: &HashSet<Shingle>,
        more: &mut HashSet<Shingle>,
    ) {
        let pipeline = plan.pipelines.iter().find(|pipeline| pipeline.name == row.pipeline);
        for distinct in pipeline.iter().flat_map(|pipeline| pipeline.distincts.iter()) {
            for owner in row.keys.iter().filter(|key| key.kind == distinct.kind) {
                more.extend(shingles.iter().map(|value| self.secret.pair(owner.shingle, *value)));
            }
        }
        let Some(Ok(description)) = self.journal.as_ref().map(|journal| journal.description(&row.version))
        else {
            return;
        };
        let count = |kind| row.keys.iter().filter(|key| key.kind == kind).count();
        // Of several values of a field, others may be those in the keys of several fields.
        let meant = row.keys.iter().filter(|key| shingles.contains(&key.shingle) && count(key.kind) == 1);
        let kinds: Vec<_> = meant.map(|key| key.kind).collect();
        let slots: HashSet<Slot> = description
            .kinds
            .iter()
            .filter(|kind| kinds.contains(&kind.kind) && kind.further.is_empty())
            .flat_map(|kind| kind.fields().map(|(slot, _)| *slot).collect::<Vec<_>>())
            .collect();
        for kind in description.kinds.iter().filter(|kind| !kind.further.is_empty()) {
            if kind.fields().any(|(slot, _)| slots.contains(slot)) {
                more.extend(row.keys.iter().filter(|key| key.kind == kind.kind).map(|key| key.shingle));
            }
        }
    }

    /// Erases the same in the snapshots of the data directory. None is made meanwhile. With `pretend` they are only counted.
    fn erase_snapshots(
        &self,
        shingles: &HashSet<Shingle>,
        pretend: bool,
        is_over: CancellationCheck<'_>,
    ) -> Result<SnapshotErasure, DirectoryError> {
        let Some(directory) = &self.directory else { return Ok(SnapshotErasure::default()) };
        if pretend {
            let erased = directory.snapshot_names()?.len() as u64;
            return Ok(SnapshotErasure { erased, ..SnapshotErasure::default() });
        }
        let _alone = self.snapshot.lock();
        directory.erase_snapshots(shingles, is_over)
    }

    /// Removes the note of an order that is done.
    fn forget_erasure(&self) -> Result<(), DirectoryError> {
        let Some(directory) = &self.directory else { return Ok(()) };
        let path = directory.path().join(FILE);
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(io_error(&path)(error)),
            _ => Ok(()),
        }
    }
}
