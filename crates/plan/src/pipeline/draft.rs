//! A pipeline in the making.

use std::sync::Arc;

use event::{Kind, Slot, Span, Table, TableIndex};
use judge::Library;
use stats::{BucketSeries, CancellationCheck, NumberRegistry, NumberedSection, RegisteredName};

use super::candidate::CandidateDraft;
use super::reputation::ReputationDraft;
use super::statistic::StatisticDraft;
use super::{KindPlan, Pipeline, ReadingColumn, ReadingSource};
use crate::RuleTestResult;
use crate::config::{ConfigOrigin, ConfigProblems, ConfigView, Document, expected};
use crate::limit::LimitPlan;

/// A pipeline in the making.
pub(crate) struct PipelineDraft<'a> {
    pub(crate) pipeline: Pipeline,
    pub(crate) limits: &'a [Arc<LimitPlan>],
    /// The numbers of all names.
    pub(crate) numbers: NumberRegistry,
    pub(crate) statistics: Table<StatisticDraft<'a>>,
    /// The statistic of each kind.
    pub(crate) statistic_of: Table<KindPlan, Option<TableIndex<StatisticDraft<'a>>>>,
    /// The columns of readings, each window named by its length.
    pub(crate) readings: Vec<(Slot, ReadingSource<Span, BucketSeries>)>,
    pub(crate) dedupe: Span,
    /// The draft of each reputation.
    pub(crate) reputations: Vec<ReputationDraft<'a>>,
    pub(crate) document: &'a Document,
    pub(crate) library: Library,
    pub(crate) tested: Vec<RuleTestResult>,
    /// The candidate that is judged beside it.
    pub(super) candidate: Option<CandidateDraft>,
    /// No column is added any more: a candidate sees what the enforced rules can see.
    pub(crate) frozen: bool,
    /// The number of bytes that regular expressions may still be compiled to.
    pub(crate) regex_bytes: usize,
    /// The check that is true if nobody waits for the pipeline any more.
    pub(crate) is_over: CancellationCheck<'a>,
}

impl PipelineDraft<'_> {
    /// Returns the number of what has a name; `None` if the name is taken, or there is no number, which is then said.
    pub(crate) fn claim(
        &mut self,
        view: ConfigView<'_>,
        name: &str,
        section: NumberedSection,
        problems: &mut ConfigProblems,
    ) -> Option<Kind> {
        let pipeline = &self.pipeline;
        let is_taken = pipeline.kinds.iter().any(|other| other.name == name)
            || pipeline.distincts.iter().any(|other| other.name == name)
            || pipeline.labels.iter().any(|other| other.name == name)
            || pipeline.classifiers.iter().any(|other| other.name == name);
        if is_taken {
            let help = "names of kinds, distinct counts, labels and classifiers are given once".to_owned();
            problems.add(view.origin("name"), format!("`{name}` is defined twice"), Some(help));
            return None;
        }
        let name = RegisteredName { space: pipeline.space, section, name: name.to_owned() };
        let number = self.numbers.allot(name);
        number.map_err(|error| problems.add(view.origin("name"), error.to_string(), None)).ok()
    }

    pub(crate) fn kind(
        &self,
        name: &str,
        origin: &ConfigOrigin,
        problems: &mut ConfigProblems,
    ) -> Option<TableIndex<KindPlan>> {
        let found = self.pipeline.kinds.position(|kind| kind.name == name);
        if found.is_none() {
            let names = self.pipeline.kinds.iter().map(|kind| kind.name.as_str());
            problems.add(origin, format!("there is no kind `{name}`"), Some(expected(name, names)));
        }
        found
    }

    /// Returns the pipeline, once its readings have all windows that any pipeline asks for.
    pub(crate) fn finish(mut self) -> Pipeline {
        let readings = std::mem::take(&mut self.readings).into_iter();
        let readings = readings
            .map(|(slot, source)| ReadingColumn { slot, source: source.compile(&self.pipeline) })
            .collect();
        let Pipeline { kinds, distincts, reputations, reports, .. } = &mut self.pipeline;
        reputations.iter_mut().for_each(|plan| plan.compile_windows(kinds, distincts));
        reports.iter_mut().for_each(|reports| reports.compile_windows());
        let mut pipeline = Pipeline { readings, ..self.pipeline };
        pipeline.candidate = self.candidate.map(|draft| Arc::new(draft.finish(&pipeline)));
        pipeline
    }
}
