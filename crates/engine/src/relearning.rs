//! Linear models made anew from the journal's judgements.

use std::collections::BTreeMap;
use std::sync::Arc;

use event::Time;
use journal::{Journal, JournalArchive, JournalError, Record, RecordId, SkippedData, VersionDescription};
use plan::{Pipeline, TrainingLabel};

use crate::Engine;
use crate::directory::DirectoryError;

/// Reasons for linear models that were not made anew.
#[derive(Debug, thiserror::Error)]
pub enum RelearnError {
    /// The engine has no journal.
    #[error("there is no journal to learn from")]
    NoJournal,
    /// The pipeline has no linear model.
    #[error("the pipeline `{0}` has no classifier with `runs`, and so no linear model")]
    NoModel(String),
    /// The journal.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The learners cannot be written.
    #[error(transparent)]
    Directory(#[from] DirectoryError),
    /// The models know more than the journal would teach them.
    #[error(
        "the linear models of `{pipeline}` have learned {} good and {} bad events, and the journal has only {} and {}",
        known.good, known.bad, found.good, found.bad
    )]
    KnownBetter {
        /// The pipeline.
        pipeline: String,
        /// The lessons of its models.
        known: LessonCounts,
        /// The lessons that the journal has.
        found: LessonCounts,
    },
    /// Nodes share the models, and they cannot be replaced for all of them.
    #[error("the linear models that nodes share cannot be replaced: {0}")]
    Shared(String),
    /// Somebody wished to stop.
    #[error("interrupted: the linear models are as they were")]
    Ended,
}

/// The lessons of all linear models of a pipeline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LessonCounts {
    /// Lessons of good events.
    pub good: u64,
    /// Lessons of bad events.
    pub bad: u64,
}

/// The fate of models that know more than the journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KnownModels {
    /// Models that stay: nothing is made.
    Keep,
    /// Models that are replaced.
    Replace,
}

/// The judgements that linear models were made of.
#[derive(Clone, Debug, Default)]
pub struct RelearnReport {
    /// The lessons.
    pub lessons: LessonCounts,
    /// Decisions of versions that nobody described: their facts have no names.
    pub undescribed: u64,
    /// The data that was passed over because it is damaged.
    pub skipped: SkippedData,
}

/// Blocks of the journal that were read, of both times over it.
pub type RelearnProgress<'a> = &'a mut dyn FnMut(u64);

impl Engine {
    /// Makes the linear models of a pipeline anew: each learns what the last judgement of every decision in the journal says,
    /// in the order of the decisions, and nothing else. What was learned of events that were never decided is not in the
    /// journal. Blocks; in memory are the ids of judged decisions.
    ///
    /// # Errors
    /// Then, or where `is_over` answers true, the models are as they were. Models that have learned more events of a label than
    /// the journal teaches stay, unless they are to be replaced.
    pub fn relearn(
        &self,
        pipeline: &Pipeline,
        known_models: KnownModels,
        read: RelearnProgress<'_>,
        is_over: &dyn Fn() -> bool,
    ) -> Result<RelearnReport, RelearnError> {
        let journal = self.journal.as_ref().ok_or(RelearnError::NoJournal)?;
        let archive = journal.archive()?;
        let has_model: Vec<bool> = pipeline.classifiers.iter().map(|plan| !plan.linear.is_empty()).collect();
        if !has_model.contains(&true) {
            return Err(RelearnError::NoModel(pipeline.name.clone()));
        }
        let mut relearned = RelearnReport::default();
        let judged = judgements(&archive, &mut relearned.skipped, read, is_over)?;
        let learners = self.learners.anew(pipeline);
        let mut skipped = SkippedData::default();
        let mut descriptions = KnownDescriptions::default();
        for block in archive.oldest_first() {
            if is_over() {
                return Err(RelearnError::Ended);
            }
            for (id, record) in skipped.records(block)? {
                let Record::Decision(mut row) = record else { continue };
                let Some(class) = judged.get(&id).filter(|_| row.pipeline == pipeline.name) else { continue };
                let Some(description) = descriptions.of(journal, &row.version) else {
                    relearned.undescribed += 1;
                    continue;
                };
                if self.content_keys.unseal(id, &mut row, description).is_err() {
                    relearned.undescribed += 1;
                    continue;
                }
                let tokens = self.tokens_of_row(pipeline, &row, description);
                for ((plan, tokens), has_model) in pipeline.classifiers.iter().zip(&tokens).zip(&has_model) {
                    let label = plan.training_label(class).filter(|_| *has_model);
                    let (Some(tokens), Some(label)) = (tokens, label) else { continue };
                    learners.learn_first(tokens, label);
                    match label {
                        TrainingLabel::Good => relearned.lessons.good += 1,
                        TrainingLabel::Bad => relearned.lessons.bad += 1,
                        TrainingLabel::Forget => {}
                    }
                }
            }
            read(1);
        }
        let (known, found) = (self.learners.lessons(pipeline), relearned.lessons);
        if known_models == KnownModels::Keep && (known.good > found.good || known.bad > found.bad) {
            return Err(RelearnError::KnownBetter { pipeline: pipeline.name.clone(), known, found });
        }
        self.learners.put(learners, self.lesson_register())?;
        Ok(relearned)
    }
}

/// The descriptions of versions; `None` for one that cannot be read.
#[derive(Debug, Default)]
struct KnownDescriptions(BTreeMap<String, Option<Arc<VersionDescription>>>);

impl KnownDescriptions {
    fn of(&mut self, journal: &Journal, version: &str) -> Option<&VersionDescription> {
        let known = self.0.entry(version.to_owned()).or_insert_with(|| match journal.description(version) {
            Ok(description) => Some(description),
            Err(error) => {
                tracing::warn!(%error, "the facts of a version's decisions have no names, and nothing is learned of them");
                None
            }
        });
        known.as_deref()
    }
}

/// The class of the last judgement on each decision that counted, of whatever pipeline. Signals of use judge nothing.
fn judgements(
    archive: &JournalArchive,
    skipped: &mut SkippedData,
    read: RelearnProgress<'_>,
    is_over: &dyn Fn() -> bool,
) -> Result<BTreeMap<RecordId, String>, RelearnError> {
    let mut judged: BTreeMap<RecordId, (Time, Option<String>)> = BTreeMap::new();
    for block in archive.oldest_first() {
        if is_over() {
            return Err(RelearnError::Ended);
        }
        for (_, record) in skipped.records(block)? {
            let Record::Report(report) = record else { continue };
            let Some(class) = report.label() else { continue };
            let latest = judged.entry(report.decision).or_insert((report.time, None));
            if report.time >= latest.0 {
                *latest = (report.time, class.map(str::to_owned));
            }
        }
        read(1);
    }
    Ok(judged.into_iter().filter_map(|(id, (_, class))| Some((id, class?))).collect())
}
