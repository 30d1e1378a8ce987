//! Linear models made anew from the journal's judgements.

use std::collections::BTreeMap;

use event::Time;
use journal::{JournalArchive, JournalError, Record, RecordId, SkippedData};
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
    /// Somebody wished to stop.
    #[error("interrupted: the linear models are as they were")]
    Ended,
}

/// The judgements that linear models were made of.
#[derive(Clone, Debug, Default)]
pub struct RelearnReport {
    /// Lessons of good events, of all models.
    pub good: u64,
    /// Lessons of bad events.
    pub bad: u64,
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
    /// Then, or where `is_over` answers true, the models are as they were.
    pub fn relearn(
        &self,
        pipeline: &Pipeline,
        read: RelearnProgress<'_>,
        is_over: &dyn Fn() -> bool,
    ) -> Result<RelearnReport, RelearnError> {
        let journal = self.journal.as_ref().ok_or(RelearnError::NoJournal)?;
        let archive = journal.archive()?;
        let has_model: Vec<bool> =
            pipeline.classifiers.iter().map(|plan| plan.columns.linear.is_some()).collect();
        if !has_model.contains(&true) {
            return Err(RelearnError::NoModel(pipeline.name.clone()));
        }
        let mut relearned = RelearnReport::default();
        let judged = judgements(&archive, &mut relearned.skipped, read, is_over)?;
        let learners = self.learners.anew(pipeline);
        let mut skipped = SkippedData::default();
        for block in archive.oldest_first() {
            if is_over() {
                return Err(RelearnError::Ended);
            }
            for (id, record) in skipped.records(block)? {
                let Record::Decision(row) = record else { continue };
                let Some(class) = judged.get(&id).filter(|_| row.pipeline == pipeline.name) else { continue };
                let Ok(description) = journal.description(&row.version) else {
                    relearned.undescribed += 1;
                    continue;
                };
                let tokens = self.tokens_of_row(pipeline, &row, &description);
                for ((plan, tokens), has_model) in pipeline.classifiers.iter().zip(&tokens).zip(&has_model) {
                    let label = plan.training_label(class).filter(|_| *has_model);
                    let (Some(tokens), Some(label)) = (tokens, label) else { continue };
                    learners.learn_first(tokens, label);
                    match label {
                        TrainingLabel::Good => relearned.good += 1,
                        TrainingLabel::Bad => relearned.bad += 1,
                        TrainingLabel::Forget => {}
                    }
                }
            }
            read(1);
        }
        self.learners.put(learners)?;
        Ok(relearned)
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
