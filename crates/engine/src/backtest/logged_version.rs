//! Facts logged by a former version of a pipeline, seen from the pipeline under trial.

use catboost::ModelScratch;
use event::{Facts, Slot};
use journal::{DecisionRow, VersionDescription};
use judge::RuleSelection;

use super::is_on;
use plan::Pipeline;

/// A former version.
#[derive(Debug)]
pub(super) struct LoggedVersion {
    /// The slot of the same fact in the pipeline under trial, for each of its columns.
    pub(super) wanted: Vec<Option<Slot>>,
    /// The rules that can be judged of its rows.
    pub(super) selection: RuleSelection,
    /// The derived fields that are computed anew, in order: those all of whose sources its rows have. Of the others what
    /// was logged is taken.
    derived: Vec<usize>,
    /// True for each model that can be asked.
    models: Vec<bool>,
    /// The facts that were not logged, and the rules and models that need them.
    pub(super) not_logged: Vec<(String, Vec<String>)>,
}

impl LoggedVersion {
    /// The version for rows that are judged as they are.
    pub(super) fn new(pipeline: &Pipeline, description: &VersionDescription) -> LoggedVersion {
        let mut version = LoggedVersion::with(pipeline, description, |_| true, |_| false);
        version.read_only_what_is_used(pipeline);
        version
    }

    /// The version for rows whose readings are made anew, all but the `lost` ones.
    pub(super) fn of_inputs(
        pipeline: &Pipeline,
        description: &VersionDescription,
        lost: &[Slot],
    ) -> LoggedVersion {
        // What classifiers said is taken as it was: the journal does not know all that they had learned.
        let is_stated =
            |slot: Slot| pipeline.classifiers.iter().any(|plan| plan.slots().any(|own| own == slot));
        let is_input = |slot: Slot| usize::from(slot.0) < pipeline.columns.count || is_stated(slot);
        let is_made =
            |slot: Slot| pipeline.readings.iter().any(|column| column.slot == slot) && !lost.contains(&slot);
        LoggedVersion::with(pipeline, description, is_input, is_made)
    }

    /// Columns that are taken from rows, and those that are made.
    fn with(
        pipeline: &Pipeline,
        description: &VersionDescription,
        takes: impl Fn(Slot) -> bool,
        makes: impl Fn(Slot) -> bool,
    ) -> LoggedVersion {
        let schema = &pipeline.schema;
        let mut logged: Vec<bool> = (0..).map(Slot).map(makes).take(schema.columns().len()).collect();
        let mut wanted = Vec::with_capacity(description.columns.len());
        for column in &description.columns {
            let slot = schema.slot(&column.name).filter(|slot| schema.column(*slot).kind == column.kind);
            // What models say is worked out anew.
            let slot = slot.filter(|slot| column.journalled && takes(*slot) && !is_of_model(pipeline, *slot));
            if let Some(slot) = slot {
                logged[usize::from(slot.0)] = true;
            }
            wanted.push(slot);
        }
        let fields = &pipeline.columns.derived;
        let derived = computable(pipeline, |slot| logged[usize::from(slot.0)]);
        for slot in derived.iter().flat_map(|index| fields[*index].slots()) {
            logged[usize::from(slot.0)] = true;
            wanted.iter_mut().filter(|wanted| **wanted == Some(slot)).for_each(|wanted| *wanted = None);
        }
        let mut not_logged: Vec<(String, Vec<String>)> = Vec::new();
        let mut miss = |fact: &str, who: String| match not_logged.iter_mut().find(|(name, _)| name == fact) {
            Some((_, whose)) if whose.contains(&who) => {}
            Some((_, whose)) => whose.push(who),
            None => not_logged.push((fact.to_owned(), vec![who])),
        };
        let mut models = Vec::with_capacity(pipeline.models.len());
        for model in &pipeline.models {
            let missing: Vec<Slot> =
                model.bound.slots().filter(|slot| !logged[usize::from(slot.0)]).collect();
            for slot in &missing {
                if is_on(model.mode) {
                    miss(&schema.column(*slot).name, format!("model {}", model.name));
                }
            }
            if missing.is_empty() {
                model.slots().for_each(|slot| logged[usize::from(slot.0)] = true);
            }
            models.push(missing.is_empty());
        }
        let known = |slot: Slot| logged.get(usize::from(slot.0)).copied().unwrap_or(false);
        let selection = pipeline.rules.select(|read| known(read.slot));
        for index in selection.left_out() {
            let rule = &pipeline.rules.rules()[*index];
            let unknown = rule.reads().filter(|read| !known(read.slot));
            let mut unknown = unknown.map(|read| read.text.as_str()).peekable();
            if unknown.peek().is_none() {
                miss("what other rules say", rule.name.clone());
            }
            unknown.for_each(|fact| miss(fact, rule.name.clone()));
        }
        LoggedVersion { wanted, selection, derived, models, not_logged }
    }

    /// Leaves out of what is taken from rows what nothing reads.
    fn read_only_what_is_used(&mut self, pipeline: &Pipeline) {
        let mut used = vec![false; pipeline.schema.columns().len()];
        used[usize::from(pipeline.columns.event.time.0)] = true;
        for rule in pipeline.rules.rules().iter().filter(|rule| is_on(rule.mode)) {
            rule.reads().for_each(|read| used[usize::from(read.slot.0)] = true);
        }
        for model in pipeline.models.iter().filter(|model| is_on(model.mode)) {
            model.bound.slots().for_each(|slot| used[usize::from(slot.0)] = true);
        }
        let fields = &pipeline.columns.derived;
        let mut computed = std::mem::take(&mut self.derived);
        computed.reverse();
        computed.retain(|index| {
            let is_used = fields[*index].slots().any(|slot| used[usize::from(slot.0)]);
            if is_used {
                fields[*index]
                    .expression
                    .reads()
                    .iter()
                    .for_each(|read| used[usize::from(read.slot.0)] = true);
            }
            is_used
        });
        computed.reverse();
        self.derived = computed;
        for wanted in &mut self.wanted {
            *wanted = wanted.filter(|slot| used[usize::from(slot.0)]);
        }
    }

    /// Takes what is wanted of a row.
    pub(super) fn take(&self, row: &DecisionRow, facts: &mut Facts) {
        for (value, slot) in row.facts.values().iter().zip(&self.wanted) {
            if let (Some(value), Some(slot)) = (value, slot) {
                facts.set(*slot, value.clone());
            }
        }
    }

    /// Computes the derived fields of a row whose other facts were taken.
    pub(super) fn derive(&self, pipeline: &Pipeline, facts: &mut Facts) {
        for index in &self.derived {
            pipeline.columns.derived[*index].fill(facts, pipeline.prefixes);
        }
    }

    /// Asks the models that can be asked.
    pub(super) fn score(&self, pipeline: &Pipeline, rows: &mut [&mut Facts], scratch: &mut ModelScratch) {
        for (model, can_be_asked) in pipeline.models.iter().zip(&self.models) {
            if *can_be_asked {
                model.fill(rows, scratch);
            }
        }
    }
}

/// The derived fields that can be computed where a row has some columns, in order.
pub(super) fn computable(pipeline: &Pipeline, has: impl Fn(Slot) -> bool) -> Vec<usize> {
    let fields = &pipeline.columns.derived;
    let mut known: Vec<usize> = Vec::new();
    for (index, field) in fields.iter().enumerate() {
        let is_computed =
            |slot: Slot| known.iter().any(|index| fields[*index].slots().any(|made| made == slot));
        if field.expression.reads().iter().all(|read| has(read.slot) || is_computed(read.slot)) {
            known.push(index);
        }
    }
    known
}

fn is_of_model(pipeline: &Pipeline, slot: Slot) -> bool {
    pipeline.models.iter().any(|model| model.slots().any(|other| other == slot))
}
