//! Lines by promise: where the bands begin that promise a share of false positives.
//!
//! ```text
//! judgement of a decision, or learning ─► its score, from before it was learned ─► window of its class ─► line.ACTION of the next event
//! ```
//!
//! The windows are written to `scores.json` by housekeeping and at the end, so a crash loses those of the last minute: the
//! lines are then those of a little older events. Each node has its own.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use event::{Secret, Shingle};
use judge::{Action, ScoreWindow};
use parking_lot::{Mutex, RwLock};
use plan::{FeedbackClass, FeedbackKind, FeedbackSide, Pipeline};
use serde::{Deserialize, Serialize};

use crate::directory::{Directory, DirectoryError, io_error, read_sealed};
use crate::pipeline::keys::PreparedEvent;

/// Largest file of windows that is read.
const BYTES_MAX: u64 = 256 << 20;

/// The scores that were judged in one pipeline.
#[derive(Clone, Debug, Default)]
struct JudgedScores {
    good: ScoreWindow,
    bad: ScoreWindow,
}

/// The judged scores as they are in the file: events by the hash of their names, oldest first.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct StoredScores {
    pipelines: BTreeMap<String, StoredWindows>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct StoredWindows {
    good: Vec<(u64, f64)>,
    bad: Vec<(u64, f64)>,
}

/// The line of a band that promises a share of false positives.
#[derive(Clone, Debug, PartialEq)]
pub struct PromisedLine {
    /// The action of the band.
    pub action: Action,
    /// The promised share of good events.
    pub false_positives: f64,
    /// The score from which the promise holds; `None` as long as too few good events are known, and the band begins at its
    /// `at`.
    pub line: Option<f64>,
    /// The score at which the band begins now.
    pub at: f64,
    /// Good events that the line is drawn from.
    pub good: usize,
    /// Good events that are needed for this share.
    pub needed: usize,
    /// The share of the latest events judged bad that reach the band as it begins now; `None` without any.
    pub recall: Option<f64>,
}

/// The judged scores of all pipelines.
#[derive(Debug, Default)]
pub(crate) struct PromisedLines {
    path: Option<PathBuf>,
    pipelines: RwLock<BTreeMap<String, JudgedScores>>,
    /// Held while the file is written.
    writing: Mutex<()>,
    is_changed: AtomicBool,
}

impl Directory {
    /// The path of the judged scores.
    pub(crate) fn scores_path(&self) -> PathBuf {
        self.path().join("scores.json")
    }

    /// Reads the judged scores.
    pub(crate) fn stored_scores(&self) -> Result<StoredScores, DirectoryError> {
        let path = self.scores_path();
        let lost = "bands then begin at their `at` until enough events are judged good";
        let Some(bytes) = read_sealed(&path, BYTES_MAX, lost)? else { return Ok(StoredScores::default()) };
        serde_json::from_slice(&bytes)
            .map_err(|error| DirectoryError::Damaged { path, why: format!("{error}; {lost}") })
    }
}

impl PromisedLines {
    /// The lines of a data directory.
    pub(crate) fn new(directory: &Directory, stored: StoredScores) -> PromisedLines {
        let pipelines = stored.pipelines.into_iter().map(|(pipeline, StoredWindows { good, bad })| {
            (pipeline, JudgedScores { good: good.into_iter().collect(), bad: bad.into_iter().collect() })
        });
        PromisedLines {
            path: Some(directory.scores_path()),
            pipelines: RwLock::new(pipelines.collect()),
            ..PromisedLines::default()
        }
    }

    /// Fills the columns of the lines.
    pub(crate) fn fill(&self, prepared: &mut [PreparedEvent]) {
        for event in prepared {
            let promises = event.row.pipeline.rules.bands().promises();
            if promises.is_empty() {
                continue;
            }
            let pipelines = self.pipelines.read();
            let Some(scores) = pipelines.get(&event.row.pipeline.name) else { continue };
            for promise in promises {
                if let Some(line) = scores.good.line(promise.false_positives) {
                    event.row.facts.set(promise.line, line);
                }
            }
        }
    }

    /// Takes in what was judged of an event with this score. Only judgements count, and only of those who are believed whatever
    /// others say: else a crowd of new names could move the line.
    pub(crate) fn add(&self, pipeline: &Pipeline, event: u64, class: Option<&FeedbackClass>, score: f64) {
        let side = class.filter(|class| class.sort == FeedbackKind::Judgement).and_then(|class| class.side);
        let is_taken_back = class.is_none_or(|class| class.sort == FeedbackKind::Retraction);
        if pipeline.rules.bands().promises().is_empty() || side.is_none() && !is_taken_back {
            return;
        }
        let mut pipelines = self.pipelines.write();
        let scores = pipelines.entry(pipeline.name.clone()).or_default();
        let JudgedScores { good, bad } = scores;
        let before = match side {
            Some(FeedbackSide::Good) => bad.remove(event),
            Some(FeedbackSide::Bad) => good.remove(event),
            None => good.remove(event).or_else(|| bad.remove(event)),
        };
        // What was known of the event when it was first judged is what counts.
        let score = before.unwrap_or(score);
        match side {
            Some(FeedbackSide::Good) => good.add(event, score),
            Some(FeedbackSide::Bad) => bad.add(event, score),
            None => {}
        }
        self.is_changed.store(true, Ordering::Relaxed);
    }

    /// The lines of a pipeline, in the order of its bands.
    pub(crate) fn of(&self, pipeline: &Pipeline) -> Vec<PromisedLine> {
        let pipelines = self.pipelines.read();
        let none = JudgedScores::default();
        let JudgedScores { good, bad } = pipelines.get(&pipeline.name).unwrap_or(&none);
        let bands = pipeline.rules.bands();
        let mut lowest = f64::NEG_INFINITY;
        let mut lines = Vec::new();
        for band in bands.as_slice() {
            let promise = bands.promises().iter().find(|promise| promise.action == band.action);
            let line = promise.and_then(|promise| good.line(promise.false_positives));
            lowest = line.unwrap_or(band.at).max(lowest);
            lines.extend(promise.map(|promise| PromisedLine {
                action: band.action,
                false_positives: promise.false_positives,
                line,
                at: lowest,
                good: good.len(),
                needed: ScoreWindow::needed(promise.false_positives),
                recall: bad.share_from(lowest),
            }));
        }
        lines
    }

    /// Writes what has changed.
    pub(crate) fn save(&self) -> Result<(), DirectoryError> {
        let Some(path) = &self.path else { return Ok(()) };
        let _alone = self.writing.lock();
        if !self.is_changed.swap(false, Ordering::Relaxed) {
            return Ok(());
        }
        let stored = |scores: &JudgedScores| StoredWindows {
            good: scores.good.iter().collect(),
            bad: scores.bad.iter().collect(),
        };
        let pipelines = {
            let pipelines = self.pipelines.read();
            pipelines.iter().map(|(name, scores)| (name.clone(), stored(scores))).collect()
        };
        let stored = StoredScores { pipelines };
        let written = serde_json::to_vec(&stored).map_err(std::io::Error::from);
        let written = written.and_then(|bytes| disk::replace(path, &disk::seal(&bytes)));
        written.map_err(|error| {
            self.is_changed.store(true, Ordering::Relaxed);
            io_error(path)(error)
        })
    }
}

/// The name of an event among judged scores.
pub(crate) fn event_name(secret: &Secret, name: &str) -> u64 {
    let Shingle(name) = secret.shingle(name.as_bytes());
    name
}
