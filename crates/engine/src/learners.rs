//! Linear learners: one for each classifier with `runs`, in memory, and all of them in `learners.bin`.
//!
//! ```text
//! lesson that the ledger has taken in ─► learner ─► every minute, and at the end ─► learners.bin
//! ```
//!
//! The ledger knows what each event has taught, and a learner follows it. A crash loses its lessons of the last minute: such an
//! event is learned again when it is taught once more. Each node has its own.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use event::Key;
use judge::{ExampleLabel, LinearLearner};
use parking_lot::{Mutex, RwLock};
use plan::TrainingLabel;

use crate::directory::{Directory, DirectoryError, io_error, read_sealed};
use crate::pipeline::classifiers::TokenKeys;
use crate::pipeline::keys::PreparedEvent;

/// Largest file that is read: tens of learners.
const BYTES_MAX: u64 = 1 << 30;
/// Rounds of housekeeping between two writes.
const ROUNDS: u32 = 6;

/// The space and the number of a classifier.
type ClassifierName = (u16, u16);

/// The learners of all classifiers, as they were stored.
#[derive(Debug, Default)]
pub(crate) struct StoredLearners(BTreeMap<ClassifierName, LinearLearner>);

/// The learners of all classifiers.
#[derive(Debug, Default)]
pub(crate) struct LinearLearners {
    path: Option<PathBuf>,
    learners: RwLock<BTreeMap<ClassifierName, Arc<LinearLearner>>>,
    /// Held while the file is written.
    writing: Mutex<()>,
    is_changed: AtomicBool,
    rounds: AtomicU32,
}

impl Directory {
    /// The path of the learners.
    pub(crate) fn learners_path(&self) -> PathBuf {
        self.path().join("learners.bin")
    }

    /// Reads the learners.
    pub(crate) fn stored_learners(&self) -> Result<StoredLearners, DirectoryError> {
        let path = self.learners_path();
        let lost = "classifiers then say what their counts say, until they are taught again";
        let Some(bytes) = read_sealed(&path, BYTES_MAX, lost)? else { return Ok(StoredLearners::default()) };
        StoredLearners::decode(&bytes)
            .ok_or_else(|| DirectoryError::Damaged { path, why: format!("it has no learners in it; {lost}") })
    }
}

impl StoredLearners {
    /// Reads learners one behind the other: space, number, length and bytes of each.
    fn decode(mut bytes: &[u8]) -> Option<StoredLearners> {
        let mut learners = BTreeMap::new();
        while !bytes.is_empty() {
            let (head, rest) = bytes.split_first_chunk::<12>()?;
            let [a, b, c, d, length @ ..] = *head;
            let length = usize::try_from(u64::from_le_bytes(length)).ok()?;
            let (own, rest) = rest.split_at_checked(length)?;
            let name = (u16::from_le_bytes([a, b]), u16::from_le_bytes([c, d]));
            learners.insert(name, LinearLearner::decode(own).ok()?);
            bytes = rest;
        }
        Some(StoredLearners(learners))
    }
}

impl LinearLearners {
    /// The learners of a data directory.
    pub(crate) fn new(directory: &Directory, stored: StoredLearners) -> LinearLearners {
        let learners = stored.0.into_iter().map(|(name, learner)| (name, Arc::new(learner)));
        LinearLearners {
            path: Some(directory.learners_path()),
            learners: RwLock::new(learners.collect()),
            ..LinearLearners::default()
        }
    }

    /// Fills the columns of learners.
    pub(crate) fn fill(&self, prepared: &mut [PreparedEvent]) {
        for PreparedEvent { tokens, row, .. } in prepared {
            for (plan, tokens) in row.pipeline.classifiers.iter().zip(tokens) {
                let Some(column) = plan.columns.linear else { continue };
                let Some(tokens) = tokens else { continue };
                if let Some(odds) = self.log_odds(tokens) {
                    row.facts.set(column, odds);
                }
            }
        }
    }

    /// Returns the log-odds that a learner gives; `None` if it has not learned both classes.
    pub(crate) fn log_odds(&self, tokens: &TokenKeys) -> Option<f64> {
        let learner = self.learners.read().get(&name(&tokens.event)).map(Arc::clone)?;
        learner.log_odds(&tokens.features)
    }

    /// Learns what the ledger has taken in: an event that taught one label before teaches another now.
    pub(crate) fn teach(&self, tokens: &TokenKeys, before: TrainingLabel, now: TrainingLabel) {
        if tokens.features.is_empty() {
            return;
        }
        let learner = Arc::clone(self.learners.write().entry(name(&tokens.event)).or_default());
        let event = tokens.event.shingle.0;
        if let Some(label) = example_label(before) {
            learner.forget(event, &tokens.features, label);
        }
        if let Some(label) = example_label(now) {
            learner.learn(event, tokens.features.clone(), label);
        }
        self.is_changed.store(true, Ordering::Relaxed);
    }

    /// Learns an event that the ledger has taken in before, if the learner is behind the ledger, which has learned so many events
    /// of the label, and does not hold this one.
    pub(crate) fn catch_up(&self, tokens: &TokenKeys, label: TrainingLabel, learned: i64) {
        let Some(example) = example_label(label) else { return };
        let known = self.learners.read().get(&name(&tokens.event)).map(Arc::clone);
        let is_behind = known.is_none_or(|learner| {
            let count = i64::try_from(learner.learned()[example as usize]).unwrap_or(i64::MAX);
            count < learned && !learner.holds(tokens.event.shingle.0, example)
        });
        if is_behind {
            self.teach(tokens, TrainingLabel::Forget, label);
        }
    }

    /// Writes what has changed, in every sixth round of housekeeping.
    pub(crate) fn maintain(&self) -> Result<(), DirectoryError> {
        if self.rounds.fetch_add(1, Ordering::Relaxed) % ROUNDS != ROUNDS - 1 {
            return Ok(());
        }
        self.save()
    }

    /// Writes what has changed.
    pub(crate) fn save(&self) -> Result<(), DirectoryError> {
        let Some(path) = &self.path else { return Ok(()) };
        let _alone = self.writing.lock();
        if !self.is_changed.swap(false, Ordering::Relaxed) {
            return Ok(());
        }
        let learners = self.learners.read().clone();
        let mut bytes = Vec::new();
        for ((space, kind), learner) in learners {
            let own = learner.encode();
            bytes.extend_from_slice(&space.to_le_bytes());
            bytes.extend_from_slice(&kind.to_le_bytes());
            bytes.extend_from_slice(&(own.len() as u64).to_le_bytes());
            bytes.extend_from_slice(&own);
        }
        disk::replace(path, &disk::seal(&bytes)).map_err(|error| {
            self.is_changed.store(true, Ordering::Relaxed);
            io_error(path)(error)
        })
    }
}

fn name(event: &Key) -> ClassifierName {
    (event.space.0, event.kind.0)
}

fn example_label(label: TrainingLabel) -> Option<ExampleLabel> {
    match label {
        TrainingLabel::Bad => Some(ExampleLabel::Bad),
        TrainingLabel::Good => Some(ExampleLabel::Good),
        TrainingLabel::Forget => None,
    }
}
