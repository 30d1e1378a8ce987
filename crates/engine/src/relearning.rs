//! Linear models made anew from the journal's judgements.

use std::collections::BTreeMap;
use std::sync::Arc;

use event::Time;
use journal::{Journal, JournalArchive, Record, RecordId, SkippedData, VersionDescription};
use plan::{Pipeline, TrainingLabel};

use crate::Engine;
use crate::learners::{RelearnError, SuccessorModels, TrainingCounts};
use crate::pipeline::classifiers::TokenKeys;

/// The fate of models that know more than the journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KnownModels {
    /// Models that stay: nothing is made.
    Keep,
    /// Models that are replaced.
    Replace,
}

/// The outcome of holding models against judged decisions, by the side that their log-odds are on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ModelCheck {
    /// Good decisions.
    pub good: u64,
    /// Good decisions that were taken for bad.
    pub good_wrong: u64,
    /// Bad decisions.
    pub bad: u64,
    /// Bad decisions that were taken for good.
    pub bad_wrong: u64,
}

impl ModelCheck {
    fn add(&mut self, label: TrainingLabel, odds: Option<f64>) {
        let (count, wrong, is_wrong): (&mut u64, &mut u64, fn(f64) -> bool) = match label {
            TrainingLabel::Good => (&mut self.good, &mut self.good_wrong, |odds| odds > 0.0),
            TrainingLabel::Bad => (&mut self.bad, &mut self.bad_wrong, |odds| odds <= 0.0),
            TrainingLabel::Forget => return,
        };
        let Some(odds) = odds else { return };
        *count += 1;
        *wrong += u64::from(is_wrong(odds));
    }
}

/// The judgements that linear models were made of, and how good they are.
#[derive(Clone, Debug, Default)]
pub struct RelearnReport {
    /// The examples of all new models of the pipeline.
    pub examples: TrainingCounts,
    /// The examples of those in use.
    pub known: TrainingCounts,
    /// The word of the new models on each decision of the later half, before they learned it (prequential evaluation: A. P. Dawid,
    /// Statistical theory: the prequential approach, J. R. Statist. Soc. A 147, 1984).
    pub check: ModelCheck,
    /// The word of the models in use on the same decisions. They may have learned these very ones, which speaks for them.
    pub known_check: ModelCheck,
    /// Decisions of versions that nobody described: their facts have no names.
    pub undescribed: u64,
    /// The data that was passed over because it is damaged.
    pub skipped: SkippedData,
}

/// Linear models that were made anew, beside those in use. As long as they are there they learn what those learn.
#[derive(Debug)]
pub struct RelearnedModels {
    pipeline: String,
    models: Arc<SuccessorModels>,
    /// The report on what they were made of.
    pub report: RelearnReport,
}

/// Blocks of the journal that were read, of both times over it.
pub type RelearnProgress<'a> = &'a mut dyn FnMut(u64);

impl Engine {
    /// Makes the linear models of a pipeline anew, beside those in use: each learns what the last judgement of every decision in the
    /// journal says, in the order of the decisions, and what those in use learn meanwhile, and nothing else. What was learned of
    /// events that were never decided is not in the journal; a judgement that is being taken in as this begins may be missed.
    /// Blocks; in memory are the ids of judged decisions.
    ///
    /// # Errors
    /// If the journal cannot be read, the pipeline has no model, or `is_over` answers true.
    pub fn relearn_beside(
        &self,
        pipeline: &Pipeline,
        read: RelearnProgress<'_>,
        is_over: &dyn Fn() -> bool,
    ) -> Result<RelearnedModels, RelearnError> {
        let journal = self.journal.as_ref().ok_or(RelearnError::NoJournal)?;
        let has_model: Vec<bool> = pipeline.classifiers.iter().map(|plan| !plan.linear.is_empty()).collect();
        if !has_model.contains(&true) {
            return Err(RelearnError::NoModel(pipeline.name.clone()));
        }
        // Before the journal is looked at: what is said after that they follow.
        let models = self.learners.succeed(pipeline);
        let archive = journal.archive()?;
        let mut report = RelearnReport::default();
        let judged = judgements(&archive, &mut report.skipped, read, is_over)?;
        let (mut skipped, mut met) = (SkippedData::default(), 0);
        let mut descriptions = KnownDescriptions::default();
        for block in archive.oldest_first() {
            if is_over() {
                return Err(RelearnError::Ended);
            }
            for (id, record) in skipped.records(block)? {
                let Record::Decision(mut row) = record else { continue };
                let Some(class) = judged.get(&id) else { continue };
                met += 1;
                if row.pipeline != pipeline.name {
                    continue;
                }
                let Some(description) = descriptions.of(journal, &row.version) else {
                    report.undescribed += 1;
                    continue;
                };
                if self.content_keys.unseal(id, &mut row, description).is_err() {
                    report.undescribed += 1;
                    continue;
                }
                let tokens = self.tokens_of_row(pipeline, &row, description);
                for ((plan, tokens), has_model) in pipeline.classifiers.iter().zip(&tokens).zip(&has_model) {
                    let label = plan.training_label(class).filter(|_| *has_model);
                    let (Some(tokens), Some(label)) = (tokens, label) else { continue };
                    if met * 2 > judged.len() {
                        self.compare_models(&models, tokens, label, &mut report);
                    }
                    models.teach_first(tokens, label);
                }
            }
            read(1);
        }
        [report.known, report.examples] = self.learners.examples_of_both(&models);
        Ok(RelearnedModels { pipeline: pipeline.name.clone(), models, report })
    }

    /// Notes what both models say of an event, by the first view that both know.
    fn compare_models(
        &self,
        models: &SuccessorModels,
        tokens: &TokenKeys,
        label: TrainingLabel,
        report: &mut RelearnReport,
    ) {
        let Some((view, _)) = tokens.features.first() else { return };
        report.check.add(label, models.log_odds(tokens, *view));
        report.known_check.add(label, self.learners.log_odds(tokens, *view));
    }

    /// Puts models that were made anew in the place of those in use.
    ///
    /// # Errors
    /// Then the models are as they were, and another try can succeed; of models that nodes share, some may have been replaced. Models
    /// that have learned more events of a label than the journal teaches stay, unless they are to be replaced.
    pub fn adopt_models(
        &self,
        made: &RelearnedModels,
        known_models: KnownModels,
    ) -> Result<(), RelearnError> {
        if !self.learners.is_succeeded_by(&made.models) {
            return Err(RelearnError::Superseded);
        }
        // Both have gone on learning.
        let [known, found] = self.learners.examples_of_both(&made.models);
        if known_models == KnownModels::Keep && (known.good > found.good || known.bad > found.bad) {
            return Err(RelearnError::KnownBetter { pipeline: made.pipeline.clone(), known, found });
        }
        self.learners.put(&made.models, self.training_streams())
    }

    /// Returns true if nodes share the models: a node's journal has but a part of what they were taught.
    pub fn shares_models(&self) -> bool {
        self.training_streams().is_some()
    }

    /// Makes the linear models of a pipeline anew, and puts them in the place of those in use. Blocks.
    ///
    /// # Errors
    /// Those of both; then the models are as they were.
    pub fn relearn(
        &self,
        pipeline: &Pipeline,
        known_models: KnownModels,
        read: RelearnProgress<'_>,
        is_over: &dyn Fn() -> bool,
    ) -> Result<RelearnReport, RelearnError> {
        let made = self.relearn_beside(pipeline, read, is_over)?;
        self.adopt_models(&made, known_models)?;
        Ok(made.report)
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
