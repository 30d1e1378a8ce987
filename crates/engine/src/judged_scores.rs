//! Scores of events that were judged, and all that is read off them: where bands begin that promise a share of false
//! positives, the probability that a score stands for, and whether both still hold.
//!
//! ```text
//! judgement of a decision, or learning ─► its score, from before it was learned ─► window of its class
//!     ─► line.ACTION, calibration.slope and .offset of the next event
//!     ─► drift: held against the lines and the curve from before it
//! ```
//!
//! Each learner has windows, a curve and a drift of its own, of what it said of the event: the sum may come true while a learner
//! that it is made of does not.
//!
//! The windows are written to `scores.json` by housekeeping and at the end, so a crash loses those of the last minute: lines
//! and curves are then those of a little older events. Each node has its own.

use std::collections::BTreeMap;
use std::iter;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use event::{Secret, Shingle, Slot, Value};
use judge::{Action, Calibration, CalibrationColumns, ClassScores, ScoreWindow};
use parking_lot::{Mutex, RwLock};
use plan::{FeedbackClass, FeedbackKind, FeedbackSide, Pipeline};
use serde::{Deserialize, Serialize};

use crate::directory::{Directory, DirectoryError, io_error, read_sealed};
use crate::drift::{CalibrationDrift, PromiseDrift};
use crate::pipeline::keys::PreparedEvent;

/// Largest file of windows that is read.
const BYTES_MAX: u64 = 256 << 20;
/// Judged events of which both counts are halved, so that the share of each class is that of the latest.
const COUNTED_MAX: f64 = 20_000.0;
/// A curve is drawn anew once this share of the scores is new.
const REDRAWN_SHARE: usize = 20;
/// Scores of a class that are held although learners knew less than half as much when they were made: enough for a promise of
/// 0.5 %.
const UNLEARNED_MAX: u64 = 200;
/// Scores of a class that are held of one learner: enough for its curve.
const LEARNER_SCORES_MAX: usize = 1_000;

/// The latest judged scores of who gives some, and the curve from them to probabilities.
#[derive(Clone, Debug, Default)]
struct CalibratedScores {
    good: ScoreWindow,
    bad: ScoreWindow,
    /// The number of times that each class came, the good one first: windows say nothing of that once they are full.
    counts: [f64; 2],
    curve: Option<Calibration>,
    /// Judgements since the curve was drawn.
    since_drawn: usize,
    drift: CalibrationDrift,
}

/// The scores that were judged in one pipeline.
#[derive(Clone, Debug, Default)]
struct PipelineScores {
    /// The scores of verdicts.
    verdicts: CalibratedScores,
    /// Events of each class that were judged in all.
    judged: [u64; 2],
    promises: BTreeMap<String, PromiseDrift>,
    /// The scores of learners, by the names of their facts.
    learners: BTreeMap<String, CalibratedScores>,
}

/// The judged scores as they are in the file: events by the hash of their names, oldest first.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct StoredScores {
    pipelines: BTreeMap<String, StoredWindows>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct StoredWindows {
    #[serde(flatten)]
    verdicts: StoredCalibration,
    judged: [u64; 2],
    promises: BTreeMap<String, PromiseDrift>,
    #[serde(default)]
    learners: BTreeMap<String, StoredCalibration>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct StoredCalibration {
    good: Vec<(u64, f64)>,
    bad: Vec<(u64, f64)>,
    counts: [f64; 2],
    calibration: CalibrationDrift,
}

/// The scores that the learners of a pipeline gave an event, by the names of their facts.
#[derive(Clone, Debug, Default)]
pub(crate) struct LearnerScores(BTreeMap<String, f64>);

impl LearnerScores {
    /// Takes them out of the facts of an event.
    pub(crate) fn of<'f>(pipeline: &Pipeline, fact: impl Fn(Slot) -> Option<&'f Value>) -> LearnerScores {
        let said = learner_facts(pipeline).filter_map(|slot| match fact(slot) {
            Some(Value::Float(score)) => Some((pipeline.schema.column(slot).name.clone(), *score)),
            _ => None,
        });
        LearnerScores(said.collect())
    }
}

/// The facts in which learners say how bad an event is: classifiers, each of their linear models, and models that say one thing.
fn learner_facts(pipeline: &Pipeline) -> impl Iterator<Item = Slot> + '_ {
    let classifiers = pipeline.classifiers.iter();
    let classifiers = classifiers.flat_map(|plan| {
        iter::once(plan.columns.score).chain(plan.linear.iter().map(|linear| linear.column))
    });
    let models = pipeline.models.iter().filter(|plan| plan.slots().count() == 1);
    classifiers.chain(models.flat_map(|plan| plan.slots()))
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
    /// Events that were judged good and are left out, as they score like bad ones and their labels look wrong.
    pub mislabelled: usize,
    /// Events that were ever judged good.
    pub judged: u64,
    /// Events judged good that this share needs: twice as many as are held where a classifier learns.
    pub needed: u64,
    /// The share of the latest events judged bad that reach the band as it begins now; `None` without any.
    pub recall: Option<f64>,
    /// The latest good events against lines from before them.
    pub drift: PromiseDrift,
}

/// The curve from scores to probabilities of a pipeline.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PipelineCalibration {
    /// The curve.
    pub curve: Calibration,
    /// True if it was drawn from judged events; else it is what is assumed of scores.
    pub is_drawn: bool,
    /// Judged events that it is drawn from, good ones first.
    pub judged: [usize; 2],
    /// The latest judged events against curves from before them.
    pub drift: CalibrationDrift,
}

/// The judged scores of all pipelines.
#[derive(Debug, Default)]
pub(crate) struct JudgedScores {
    path: Option<PathBuf>,
    pipelines: RwLock<BTreeMap<String, PipelineScores>>,
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
        let lost =
            "bands then begin at their `at`, and probabilities are assumed, until enough events are judged";
        let Some(bytes) = read_sealed(&path, BYTES_MAX, lost)? else { return Ok(StoredScores::default()) };
        serde_json::from_slice(&bytes)
            .map_err(|error| DirectoryError::Damaged { path, why: format!("{error}; {lost}") })
    }
}

impl CalibratedScores {
    fn of(stored: StoredCalibration) -> CalibratedScores {
        let StoredCalibration { good, bad, counts, calibration } = stored;
        let mut scores = CalibratedScores {
            good: good.into_iter().collect(),
            bad: bad.into_iter().collect(),
            counts: counts.map(|count| if count.is_finite() { count.max(0.0) } else { 0.0 }),
            drift: calibration,
            ..CalibratedScores::default()
        };
        scores.draw();
        scores
    }

    fn stored(&self) -> StoredCalibration {
        StoredCalibration {
            good: self.good.iter().collect(),
            bad: self.bad.iter().collect(),
            counts: self.counts,
            calibration: self.drift,
        }
    }

    fn window(&mut self, side: FeedbackSide) -> &mut ScoreWindow {
        match side {
            FeedbackSide::Good => &mut self.good,
            FeedbackSide::Bad => &mut self.bad,
        }
    }

    fn count(&mut self, side: FeedbackSide) -> &mut f64 {
        &mut self.counts[usize::from(side == FeedbackSide::Bad)]
    }

    /// Takes a score out, wherever it is.
    fn remove(&mut self, event: u64) -> Option<f64> {
        [FeedbackSide::Good, FeedbackSide::Bad].into_iter().find_map(|side| {
            let score = self.window(side).remove(event)?;
            let count = self.count(side);
            *count = (*count - 1.0).max(0.0);
            Some(score)
        })
    }

    /// Adds a score, of which at most so many of its class are held. Returns whether it is a new one.
    fn add(&mut self, side: FeedbackSide, event: u64, score: f64, held_max: usize) -> bool {
        let before = self.window(side).len();
        self.window(side).add(event, score);
        if self.window(side).len() == before && before < ScoreWindow::LENGTH_MAX {
            return false;
        }
        self.window(side).keep_latest(held_max);
        *self.count(side) += 1.0;
        if self.counts.iter().sum::<f64>() > COUNTED_MAX {
            self.counts = self.counts.map(|count| count / 2.0);
        }
        self.since_drawn += 1;
        if self.since_drawn * REDRAWN_SHARE > self.good.len() + self.bad.len() {
            self.draw();
        }
        true
    }

    /// Draws the curve through the scores as they are now.
    fn draw(&mut self) {
        fn class(window: &ScoreWindow, count: f64) -> ClassScores<'_> {
            let ascending = window.ascending();
            ClassScores { ascending, weight: count.max(1.0) / ascending.len().max(1) as f64 }
        }
        self.since_drawn = 0;
        self.curve = Calibration::fit(class(&self.good, self.counts[0]), class(&self.bad, self.counts[1]));
    }

    /// Holds a newly judged event against the curve from before it.
    fn watch(&mut self, side: FeedbackSide, score: f64) {
        if let Some(curve) = self.curve {
            self.drift.add(curve.probability(score), side == FeedbackSide::Bad);
        }
    }
}

impl PipelineScores {
    fn of(stored: StoredWindows) -> PipelineScores {
        let StoredWindows { verdicts, judged, promises, learners } = stored;
        let learners = learners.into_iter().map(|(fact, stored)| (fact, CalibratedScores::of(stored)));
        PipelineScores {
            verdicts: CalibratedScores::of(verdicts),
            judged,
            promises,
            learners: learners.collect(),
        }
    }

    fn stored(&self) -> StoredWindows {
        let learners = self.learners.iter().map(|(fact, scores)| (fact.clone(), scores.stored()));
        StoredWindows {
            verdicts: self.verdicts.stored(),
            judged: self.judged,
            promises: self.promises.clone(),
            learners: learners.collect(),
        }
    }

    fn add(&mut self, pipeline: &Pipeline, side: FeedbackSide, event: u64, score: f64) {
        // Of what was judged when learners knew next to nothing, the next event is no like: the latter half is held.
        let judged = self.judged[usize::from(side == FeedbackSide::Bad)] + 1;
        let held_max = match pipeline.classifiers.is_empty() {
            true => ScoreWindow::LENGTH_MAX,
            false => usize::try_from((judged / 2).max(UNLEARNED_MAX)).unwrap_or(usize::MAX),
        };
        if self.verdicts.add(side, event, score, held_max) {
            self.judged[usize::from(side == FeedbackSide::Bad)] = judged;
        }
    }

    /// The line of a promise, without good events whose labels look wrong: each of them would take as much as it promises.
    fn line(&self, promised: f64) -> Option<f64> {
        let CalibratedScores { good, bad, .. } = &self.verdicts;
        good.line_without(promised, good.mislabelled(bad))
    }

    /// Holds a newly judged event against the lines and the curve from before it.
    fn watch(&mut self, pipeline: &Pipeline, side: FeedbackSide, score: f64) {
        if side == FeedbackSide::Good {
            for promise in pipeline.rules.bands().promises() {
                if let Some(line) = self.line(promise.false_positives) {
                    let drift = self.promises.entry(promise.action.to_string()).or_default();
                    drift.add(promise.false_positives, score >= line);
                }
            }
        }
        self.verdicts.watch(side, score);
    }

    /// Takes in what learners said of an event, or takes it out if it is judged no more. What a learner says grows as it learns, so
    /// its windows hold the latter half, too.
    fn judge_learners(
        &mut self,
        pipeline: &Pipeline,
        side: Option<FeedbackSide>,
        event: u64,
        said: &LearnerScores,
    ) {
        let is_there =
            |fact: &str| learner_facts(pipeline).any(|slot| pipeline.schema.column(slot).name == fact);
        self.learners.retain(|fact, _| is_there(fact));
        for fact in
            said.0.keys().filter(|fact| !self.learners.contains_key(*fact)).cloned().collect::<Vec<_>>()
        {
            self.learners.insert(fact, CalibratedScores::default());
        }
        for (fact, scores) in &mut self.learners {
            let before = scores.remove(event);
            let (Some(side), Some(score)) = (side, before.or_else(|| said.0.get(fact).copied())) else {
                continue;
            };
            if before.is_none() {
                scores.watch(side, score);
            }
            let held = self.judged[usize::from(side == FeedbackSide::Bad)] / 2;
            let held = usize::try_from(held.max(UNLEARNED_MAX)).unwrap_or(usize::MAX);
            scores.add(side, event, score, held.min(LEARNER_SCORES_MAX));
        }
    }
}

impl JudgedScores {
    /// The scores of a data directory.
    pub(crate) fn new(directory: &Directory, stored: StoredScores) -> JudgedScores {
        let pipelines = stored.pipelines.into_iter().map(|(name, stored)| (name, PipelineScores::of(stored)));
        JudgedScores {
            path: Some(directory.scores_path()),
            pipelines: RwLock::new(pipelines.collect()),
            ..JudgedScores::default()
        }
    }

    /// Returns whether scores of a pipeline are held at all.
    pub(crate) fn are_held(pipeline: &Pipeline) -> bool {
        let bands = pipeline.rules.bands();
        !bands.promises().is_empty() || bands.calibration().is_some()
    }

    /// Fills the columns of lines and curves.
    pub(crate) fn fill(&self, prepared: &mut [PreparedEvent]) {
        for event in prepared {
            let pipeline = &event.row.pipeline;
            if !JudgedScores::are_held(pipeline) {
                continue;
            }
            let pipelines = self.pipelines.read();
            let Some(scores) = pipelines.get(&pipeline.name) else { continue };
            let bands = pipeline.rules.bands();
            for promise in bands.promises() {
                if let Some(line) = scores.line(promise.false_positives) {
                    event.row.facts.set(promise.line, line);
                }
            }
            if let (Some(CalibrationColumns { slope, offset }), Some(curve)) =
                (bands.calibration(), scores.verdicts.curve)
            {
                event.row.facts.set(slope, curve.slope);
                event.row.facts.set(offset, curve.offset);
            }
        }
    }

    /// Takes in what was judged of an event with this score, of which learners said that. Only judgements count, and only of those
    /// who are believed whatever others say: else a crowd of new names could move the line.
    pub(crate) fn add(
        &self,
        pipeline: &Pipeline,
        event: u64,
        class: Option<&FeedbackClass>,
        score: f64,
        said: &LearnerScores,
    ) {
        let side = class.filter(|class| class.sort == FeedbackKind::Judgement).and_then(|class| class.side);
        let is_taken_back = class.is_none_or(|class| class.sort == FeedbackKind::Retraction);
        if !JudgedScores::are_held(pipeline) || side.is_none() && !is_taken_back {
            return;
        }
        let mut pipelines = self.pipelines.write();
        let scores = pipelines.entry(pipeline.name.clone()).or_default();
        let before = scores.verdicts.remove(event);
        if let Some(side) = side {
            // What was known of the event when it was first judged is what counts.
            if before.is_none() {
                scores.watch(pipeline, side, score);
            }
            scores.add(pipeline, side, event, before.unwrap_or(score));
        }
        scores.judge_learners(pipeline, side, event, said);
        self.is_changed.store(true, Ordering::Relaxed);
    }

    /// The lines of a pipeline, in the order of its bands.
    pub(crate) fn lines(&self, pipeline: &Pipeline) -> Vec<PromisedLine> {
        let pipelines = self.pipelines.read();
        let none = PipelineScores::default();
        let scores = pipelines.get(&pipeline.name).unwrap_or(&none);
        let PipelineScores { verdicts: CalibratedScores { good, bad, .. }, promises: drifts, .. } = scores;
        let mislabelled = good.mislabelled(bad);
        let bands = pipeline.rules.bands();
        let mut lowest = f64::NEG_INFINITY;
        let mut lines = Vec::new();
        for band in bands.as_slice() {
            let promise = bands.promises().iter().find(|promise| promise.action == band.action);
            let line = promise.and_then(|promise| scores.line(promise.false_positives));
            lowest = line.unwrap_or(band.at).max(lowest);
            lines.extend(promise.map(|promise| PromisedLine {
                action: band.action,
                false_positives: promise.false_positives,
                line,
                at: lowest,
                good: good.len() - mislabelled,
                mislabelled,
                judged: scores.judged[0],
                needed: needed(pipeline, promise.false_positives),
                recall: bad.share_from(lowest),
                drift: drifts.get(band.action.name()).copied().unwrap_or_default(),
            }));
        }
        lines
    }

    /// The curve of a pipeline.
    pub(crate) fn calibration(&self, pipeline: &Pipeline) -> PipelineCalibration {
        let pipelines = self.pipelines.read();
        let none = PipelineScores::default();
        let scores = pipelines.get(&pipeline.name).unwrap_or(&none);
        let bands = pipeline.rules.bands();
        let verdicts = &scores.verdicts;
        let drawn = verdicts.curve.filter(|_| bands.calibration().is_some());
        PipelineCalibration {
            curve: drawn.unwrap_or_else(|| bands.assumed_calibration()),
            is_drawn: drawn.is_some(),
            judged: [verdicts.good.len(), verdicts.bad.len()],
            drift: verdicts.drift,
        }
    }

    /// Returns what the latest judged events say of each learner of a pipeline, by the name of its fact.
    pub(crate) fn learner_drifts(&self, pipeline: &Pipeline) -> Vec<(String, CalibrationDrift)> {
        let pipelines = self.pipelines.read();
        let Some(scores) = pipelines.get(&pipeline.name) else { return Vec::new() };
        let of = |slot| {
            let fact = &pipeline.schema.column(slot).name;
            Some((fact.clone(), scores.learners.get(fact)?.drift))
        };
        learner_facts(pipeline).filter_map(of).collect()
    }

    /// Writes what has changed.
    pub(crate) fn save(&self) -> Result<(), DirectoryError> {
        let Some(path) = &self.path else { return Ok(()) };
        let _alone = self.writing.lock();
        if !self.is_changed.swap(false, Ordering::Relaxed) {
            return Ok(());
        }
        let pipelines = {
            let pipelines = self.pipelines.read();
            pipelines.iter().map(|(name, scores)| (name.clone(), scores.stored())).collect()
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

/// Events judged good that a promise needs, as many are left out again ([`PipelineScores::add`]).
fn needed(pipeline: &Pipeline, false_positives: f64) -> u64 {
    let held = ScoreWindow::needed(false_positives) as u64;
    if pipeline.classifiers.is_empty() || held <= UNLEARNED_MAX { held } else { 2 * held }
}

/// The name of an event among judged scores.
pub(crate) fn event_name(secret: &Secret, name: &str) -> u64 {
    let Shingle(name) = secret.shingle(name.as_bytes());
    name
}
