//! Linear learners: one for `runs` and one for `site_runs` of each classifier, in memory, and all of them in `learners.bin`.
//!
//! ```text
//! example that the ledger has taken in ─► learner ─► every minute, and at the end ─► learners.bin
//!                                   └─► learners.N.log, until then
//! ```
//!
//! The ledger knows what each event has taught, and a learner follows it. A killed process loses no example that was answered.
//! A power failure may lose those of the last seconds: such an event is learned again when it is taught once more. Nodes of a cluster
//! share theirs: examples are then learned in the order of a stream that all of them read.

mod shared;
mod successor;
mod training_log;
mod training_streams;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Weak};

use disk::FileDevice;
use event::Key;
use judge::{ExampleLabel, LinearLearner};
use parking_lot::{Mutex, RwLock};
use plan::{ClassifierPlan, LinearView, Pipeline, TrainingLabel};

use crate::directory::{Directory, DirectoryError, io_error, read_sealed};
use crate::pipeline::classifiers::TokenKeys;
use crate::pipeline::keys::PreparedEvent;
pub use shared::SharedModelState;
use shared::{SharedModels, learn_in_turn};
pub(crate) use successor::SuccessorModels;
pub use successor::{RelearnError, TrainingCounts};
use training_log::{
    ExampleQueue, LOG_BYTES_MAX, LOG_BYTES_MOST, StoredExamples, TrainingExample, TrainingLog,
};
pub use training_streams::{
    ExampleId, ExamplePage, ExamplePosition, ExampleReceipt, ModelSnapshot, SharedExample, SharedModelName,
    SnapshotStream, TrainingBounds, TrainingStreams,
};

/// Largest file that is read: tens of learners.
const BYTES_MAX: u64 = 1 << 30;
/// Rounds of housekeeping between two writes.
const ROUNDS: u32 = 6;

/// The name of a learner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct LearnerName {
    space: u16,
    /// The number of its classifier.
    classifier: u16,
    view: LinearView,
}

impl LearnerName {
    const BYTES: usize = 5;

    /// The names of the learners of a pipeline.
    fn all(pipeline: &Pipeline) -> impl Iterator<Item = LearnerName> {
        let space = pipeline.space.0;
        let of = move |plan: &ClassifierPlan, view| LearnerName { space, classifier: plan.kind.0, view };
        pipeline
            .classifiers
            .iter()
            .flat_map(move |plan| plan.linear.iter().map(move |linear| of(plan, linear.view)))
    }

    /// The learners of pipelines, each with its name for people: `posts/learned.linear`.
    pub(crate) fn named(pipelines: &[Arc<Pipeline>]) -> BTreeMap<LearnerName, String> {
        let of = |pipeline: &Arc<Pipeline>| {
            let columns =
                pipeline.classifiers.iter().flat_map(|plan| &plan.linear).map(|linear| linear.column);
            let names =
                columns.map(|column| format!("{}/{}", pipeline.name, pipeline.schema.column(column).name));
            LearnerName::all(pipeline).zip(names).collect::<Vec<_>>()
        };
        pipelines.iter().flat_map(of).collect()
    }

    fn new(event: &Key, view: LinearView) -> LearnerName {
        LearnerName { space: event.space.0, classifier: event.kind.0, view }
    }

    fn encode(self) -> [u8; LearnerName::BYTES] {
        let ([a, b], [c, d]) = (self.space.to_le_bytes(), self.classifier.to_le_bytes());
        let view = match self.view {
            LinearView::Content => 0,
            LinearView::Site => 1,
        };
        [a, b, c, d, view]
    }

    fn decode([a, b, c, d, view]: [u8; LearnerName::BYTES]) -> Option<LearnerName> {
        let view = *[LinearView::Content, LinearView::Site].get(usize::from(view))?;
        Some(LearnerName { space: u16::from_le_bytes([a, b]), classifier: u16::from_le_bytes([c, d]), view })
    }
}

/// The learners of all classifiers, as they were stored.
#[derive(Debug, Default)]
pub(crate) struct StoredLearners {
    /// The number of times that they were written.
    number: u64,
    learners: BTreeMap<LearnerName, StoredLearner>,
    /// The examples since.
    examples: StoredExamples,
}

/// A learner as it was stored, and its place in the stream that nodes share.
#[derive(Debug)]
struct StoredLearner {
    learner: LinearLearner,
    position: ExamplePosition,
}

type NamedLearners = BTreeMap<LearnerName, Arc<LinearLearner>>;

/// The learners of all classifiers.
#[derive(Debug, Default)]
pub(crate) struct LinearLearners {
    /// `None` where they are this node's alone.
    shared: Option<SharedModels>,
    /// `None` without a data directory.
    files: Option<LearnerFiles>,
    learners: RwLock<NamedLearners>,
    /// The learners that are made anew meanwhile, as long as somebody wants them.
    successor: RwLock<Weak<SuccessorModels>>,
    is_changed: AtomicBool,
    rounds: AtomicU32,
}

/// The files of a data directory's learners.
#[derive(Debug)]
struct LearnerFiles {
    path: PathBuf,
    log: TrainingLog,
    /// Held while the learners are written.
    writing: Mutex<()>,
}

impl Directory {
    /// The path of the learners.
    pub(crate) fn learners_path(&self) -> PathBuf {
        self.path().join("learners.bin")
    }

    /// Reads the learners, and the examples since they were written.
    pub(crate) fn stored_learners(&self) -> Result<StoredLearners, DirectoryError> {
        let path = self.learners_path();
        let lost = "classifiers then say what their counts say, until they are taught again";
        let mut stored = match read_sealed(&path, BYTES_MAX, lost)? {
            None => StoredLearners::default(),
            Some(bytes) => StoredLearners::decode(&bytes).ok_or_else(|| DirectoryError::Damaged {
                path: path.clone(),
                why: format!("it has no learners in it; {lost}"),
            })?,
        };
        stored.examples = training_log::read(&FileDevice::read_only(self.path()), stored.number)
            .map_err(io_error(&path))?;
        Ok(stored)
    }
}

impl StoredLearners {
    /// Reads how often they were written, and learners one behind the other: name, place in the
    /// stream, length and bytes of each.
    fn decode(bytes: &[u8]) -> Option<StoredLearners> {
        let (number, mut bytes) = bytes.split_first_chunk()?;
        let mut learners = BTreeMap::new();
        while !bytes.is_empty() {
            let (name, rest) = bytes.split_first_chunk::<{ LearnerName::BYTES }>()?;
            let mut place = [0; 3];
            let mut rest = rest;
            for part in &mut place {
                let (bytes, next) = rest.split_first_chunk()?;
                (*part, rest) = (u64::from_le_bytes(*bytes), next);
            }
            let [number, sender, of_sender] = place;
            let position = ExamplePosition { number, id: ExampleId { sender, number: of_sender } };
            let (length, rest) = rest.split_first_chunk()?;
            let length = usize::try_from(u64::from_le_bytes(*length)).ok()?;
            let (own, rest) = rest.split_at_checked(length)?;
            let learner = LinearLearner::decode(own).ok()?;
            learners.insert(LearnerName::decode(*name)?, StoredLearner { learner, position });
            bytes = rest;
        }
        Some(StoredLearners {
            number: u64::from_le_bytes(*number),
            learners,
            examples: StoredExamples::default(),
        })
    }

    /// Logs with examples that cannot be read, and why.
    pub(crate) fn damaged_logs(&self) -> &[(PathBuf, String)] {
        &self.examples.damaged
    }
}

impl LinearLearners {
    /// The learners of a data directory, with what was learned since they were written. Where they are shared, examples that may not be
    /// in the stream yet wait.
    ///
    /// # Errors
    /// If the directory cannot be read.
    pub(crate) fn new(
        directory: &Directory,
        stored: StoredLearners,
        is_shared: bool,
    ) -> Result<LinearLearners, DirectoryError> {
        let StoredLearners { number, learners, examples: StoredExamples { examples, .. } } = stored;
        let path = directory.learners_path();
        // Logs that are there already stay as they are until the learners are written.
        let log = FileDevice::unlocked(directory.path())
            .and_then(|device| TrainingLog::new(Arc::new(device), number))
            .map_err(io_error(&path))?;
        let positions = learners.iter().map(|(name, stored)| (*name, stored.position)).collect();
        let learners = learners.into_iter().map(|(name, stored)| (name, Arc::new(stored.learner)));
        let is_changed = AtomicBool::new(!examples.is_empty());
        let (own, shared): (Vec<TrainingExample>, Vec<TrainingExample>) =
            examples.into_iter().partition(|example| !is_shared || example.id == ExampleId::default());
        let draw = |error: getrandom::Error| io_error(&path)(std::io::Error::other(error.to_string()));
        let shared = is_shared.then(|| SharedModels::new(positions, shared)).transpose().map_err(draw)?;
        let learners = LinearLearners {
            shared,
            learners: RwLock::new(learners.collect()),
            is_changed,
            files: Some(LearnerFiles { path, log, writing: Mutex::default() }),
            ..LinearLearners::default()
        };
        own.iter().for_each(|example| learners.learn(example));
        Ok(learners)
    }

    /// Fills the columns of learners.
    pub(crate) fn fill(&self, prepared: &mut [PreparedEvent]) {
        for PreparedEvent { tokens, row, .. } in prepared {
            for (plan, tokens) in row.pipeline.classifiers.iter().zip(tokens) {
                let Some(tokens) = tokens else { continue };
                for linear in &plan.linear {
                    if let Some(odds) = self.log_odds(tokens, linear.view) {
                        row.facts.set(linear.column, odds);
                    }
                }
            }
        }
    }

    /// Returns the log-odds that a learner gives; `None` if it has not learned both classes.
    pub(crate) fn log_odds(&self, tokens: &TokenKeys, view: LinearView) -> Option<f64> {
        let (_, features) = tokens.features.iter().find(|(other, _)| *other == view)?;
        self.known(LearnerName::new(&tokens.event, view))?.log_odds(features)
    }

    fn learner(&self, name: LearnerName) -> Arc<LinearLearner> {
        Arc::clone(self.learners.write().entry(name).or_default())
    }

    fn known(&self, name: LearnerName) -> Option<Arc<LinearLearner>> {
        self.learners.read().get(&name).map(Arc::clone)
    }

    /// Learns what the ledger has taken in: an event that taught one label before teaches another now. An example is logged when
    /// this returns. One that the ledger lost in a crash, and takes in again, is not learned twice.
    pub(crate) fn teach(&self, tokens: &TokenKeys, before: TrainingLabel, now: TrainingLabel) {
        // First, so that what is learned just as they are put in the place of these is in one or the other.
        if let Some(successor) = self.successor.read().upgrade() {
            successor.follow(tokens, now);
        }
        for (view, features) in &tokens.features {
            let learner = LearnerName::new(&tokens.event, *view);
            let event = tokens.event.shingle.0;
            // Shared ones see to that in the order of their stream, which examples that wait come before.
            let is_new = || before != TrainingLabel::Forget || !self.holds(learner, event, now);
            if self.shared.is_some() || is_new() {
                let id = ExampleId::default();
                self.take(&TrainingExample { learner, id, event, before, now, features: features.clone() });
            }
        }
    }

    /// Learns an example and logs it; one that nodes share is learned once it comes in the stream.
    fn take(&self, example: &TrainingExample) {
        let Some(LearnerFiles { log, .. }) = &self.files else { return self.learn(example) };
        {
            let mut queue = log.queue.lock();
            match &self.shared {
                None => {
                    self.learn(example);
                    queue.push(example);
                }
                Some(shared) if !shared.wait(example, &mut queue) => return,
                Some(_) => {}
            }
        }
        self.is_changed.store(true, Ordering::Relaxed);
        if let Err(error) = log.write() {
            tracing::error!(%error, "training examples of linear models cannot be logged: until the next minute a killed process loses them");
        }
        // Where nobody keeps house, as in a command that learns a folder.
        if log.bytes() > LOG_BYTES_MOST
            && let Err(error) = self.save()
        {
            tracing::error!(%error, "linear models cannot be written");
        }
    }

    fn holds(&self, name: LearnerName, event: u64, label: TrainingLabel) -> bool {
        self.known(name).zip(example_label(label)).is_some_and(|(learner, label)| learner.holds(event, label))
    }

    fn learn(&self, example: &TrainingExample) {
        let TrainingExample { learner, id, event, before, now, features } = example;
        let learner = self.learner(*learner);
        if *id != ExampleId::default() {
            // Of a node that shared it: the stream may have brought it already.
            return learn_in_turn(&learner, example);
        }
        if let Some(label) = example_label(*before) {
            learner.forget(*event, features, label);
        }
        if let Some(label) = example_label(*now) {
            learner.learn(*event, features, label);
        }
    }

    /// Learns an event that the ledger has taken in before, if a learner is behind the ledger, which has learned so many events
    /// of the label, and does not hold this one. Of a classifier for each key the ledger counts a key's events, and the learner has
    /// those of all keys: there it learns what it has certainly not learned.
    pub(crate) fn catch_up(&self, tokens: &TokenKeys, label: TrainingLabel, learned: i64) {
        let Some(class) = example_label(label) else { return };
        let is_behind = |view: LinearView| {
            let name = LearnerName::new(&tokens.event, view);
            // One that lags learns what is under way without being told again.
            if self.shared.as_ref().is_some_and(|shared| !shared.is_level(name)) {
                return false;
            }
            self.known(name).is_none_or(|learner| match tokens.owner {
                None => i64::try_from(learner.learned()[class as usize]).unwrap_or(i64::MAX) < learned,
                Some(_) => learner.lacks(tokens.event.shingle.0, class),
            })
        };
        if tokens.features.iter().any(|(view, _)| is_behind(*view)) {
            self.teach(tokens, TrainingLabel::Forget, label);
        }
    }

    /// The examples of the learners that others are to take the place of, and those of the others.
    pub(crate) fn examples_of_both(&self, successor: &SuccessorModels) -> [TrainingCounts; 2] {
        let names: Vec<_> = successor.learners().learners.read().keys().copied().collect();
        [self, successor.learners()].map(|learners| learners.examples_of(names.iter().copied()))
    }

    fn examples_of(&self, names: impl Iterator<Item = LearnerName>) -> TrainingCounts {
        names.filter_map(|name| self.known(name)).fold(TrainingCounts::default(), |sum, learner| {
            let [good, bad] = learner.learned();
            TrainingCounts { good: sum.good + good, bad: sum.bad + bad }
        })
    }

    /// The examples of one of a classifier's learners.
    pub(crate) fn learned(
        &self,
        pipeline: &Pipeline,
        plan: &ClassifierPlan,
        view: LinearView,
    ) -> TrainingCounts {
        let name = LearnerName { space: pipeline.space.0, classifier: plan.kind.0, view };
        let learned = self.known(name).map(|learner| learner.learned());
        let [good, bad] = learned.unwrap_or_default();
        TrainingCounts { good, bad }
    }

    /// Learners of a pipeline's classifiers that have learned nothing yet. They learn what these learn from now on, as long as they
    /// are there and no others are begun.
    pub(crate) fn succeed(&self, pipeline: &Pipeline) -> Arc<SuccessorModels> {
        let learners = LearnerName::all(pipeline).map(|name| (name, Arc::default()));
        let learners =
            LinearLearners { learners: RwLock::new(learners.collect()), ..LinearLearners::default() };
        let successor = Arc::new(SuccessorModels::new(learners));
        *self.successor.write() = Arc::downgrade(&successor);
        successor
    }

    /// Returns true for those that learn what these learn.
    pub(crate) fn is_succeeded_by(&self, successor: &Arc<SuccessorModels>) -> bool {
        self.successor.read().ptr_eq(&Arc::downgrade(successor))
    }

    /// Puts those that were made anew in the place of learners, for all nodes that share them.
    ///
    /// # Errors
    /// If they cannot be written: the learners of this node alone are as they were, and go on learning beside the others. Of those
    /// that nodes share, some may have been replaced.
    pub(crate) fn put(
        &self,
        successor: &SuccessorModels,
        streams: Option<&dyn TrainingStreams>,
    ) -> Result<(), RelearnError> {
        let made = successor.learners().learners.read().clone();
        match self.shared.as_ref().zip(streams) {
            None => {
                self.write(made)?;
            }
            Some((shared, streams)) => {
                for (name, learner) in made {
                    self.publish(shared, streams, name, learner).map_err(RelearnError::Shared)?;
                }
                self.is_changed.store(true, Ordering::Relaxed);
                if let Err(error) = self.save() {
                    tracing::warn!(%error, "shared linear models are replaced; this node's copy of them is written later");
                }
            }
        }
        *self.successor.write() = Weak::new();
        Ok(())
    }

    /// Returns true if so many examples wait for other nodes that who teaches should send them.
    pub(crate) fn is_crowded(&self) -> bool {
        self.shared.as_ref().is_some_and(SharedModels::is_crowded)
    }

    /// The states of learners that are shared.
    pub(crate) fn shared_states(&self) -> BTreeMap<LearnerName, SharedModelState> {
        self.shared.as_ref().map(SharedModels::states).unwrap_or_default()
    }

    /// Writes what has changed, in every sixth round of housekeeping, or when the log of examples is long.
    pub(crate) fn maintain(&self) -> Result<(), DirectoryError> {
        let is_due = self.rounds.fetch_add(1, Ordering::Relaxed) % ROUNDS == ROUNDS - 1;
        let is_long = self.files.as_ref().is_some_and(|files| files.log.bytes() > LOG_BYTES_MAX);
        if is_due || is_long { self.save() } else { Ok(()) }
    }

    /// Writes what has changed.
    pub(crate) fn save(&self) -> Result<(), DirectoryError> {
        self.write(NamedLearners::new())
    }

    /// Writes what has changed, with learners that are not in use yet in the place of those that are; once they are written they are
    /// in use. What is learned meanwhile, both learn, and it stands in the log behind them.
    fn write(&self, successors: NamedLearners) -> Result<(), DirectoryError> {
        let Some(LearnerFiles { path, log, writing }) = &self.files else {
            self.learners.write().extend(successors);
            return Ok(());
        };
        // Until they are in use: else the others could be written over them.
        let _alone = writing.lock();
        if !self.is_changed.swap(false, Ordering::Relaxed) && successors.is_empty() {
            return Ok(());
        }
        let (number, learners) = log.turn(|queue| self.encode(queue, &successors));
        let bytes = [&number.to_le_bytes()[..], &learners].concat();
        // Examples that wait are in the new log before the old ones go.
        let written = log.write().and_then(|()| disk::replace(path, &disk::seal(&bytes)));
        written.map_err(|error| {
            self.is_changed.store(true, Ordering::Relaxed);
            io_error(path)(error)
        })?;
        self.learners.write().extend(successors);
        // Nobody reads the logs before that of the learners as they are now.
        if let Err(error) = log.forget_before(number) {
            tracing::warn!(%error, "old logs of examples cannot be removed, until linear models are written again");
        }
        Ok(())
    }

    /// The bytes of all learners; examples that wait for other nodes go into the log behind them.
    fn encode(&self, queue: &mut ExampleQueue, successors: &NamedLearners) -> Vec<u8> {
        let mut bytes = Vec::new();
        if let Some(shared) = &self.shared {
            shared.log_waiting(queue);
        }
        let mut learners = self.learners.read().clone();
        learners.extend(successors.iter().map(|(name, learner)| (*name, Arc::clone(learner))));
        for (name, learner) in &learners {
            let own = learner.encode();
            let position = self.shared.as_ref().map(|shared| shared.position(*name)).unwrap_or_default();
            bytes.extend_from_slice(&name.encode());
            for part in [position.number, position.id.sender, position.id.number] {
                bytes.extend_from_slice(&part.to_le_bytes());
            }
            bytes.extend_from_slice(&(own.len() as u64).to_le_bytes());
            bytes.extend_from_slice(&own);
        }
        bytes
    }
}

fn example_label(label: TrainingLabel) -> Option<ExampleLabel> {
    match label {
        TrainingLabel::Bad => Some(ExampleLabel::Bad),
        TrainingLabel::Good => Some(ExampleLabel::Good),
        TrainingLabel::Forget => None,
    }
}
