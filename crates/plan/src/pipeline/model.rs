//! Models: their files, the facts and readings that they take, and the columns that they fill.

use catboost::{LinkFunction, Model, ModelError, ModelScratch};
use event::{Column, Facts, SchemaBuilder, Slot, Type};
use judge::{BoundModel, Mode, Scope};

use super::draft::PipelineDraft;
use super::rules::mode;
use super::scope::PlanScope;
use crate::config::{ConfigProblems, ConfigView};
use crate::entries;

/// A model, bound to the facts and readings that it takes.
#[derive(Clone, Debug)]
pub struct ModelPlan {
    /// Its name.
    pub name: String,
    /// The description of what the model says, for people.
    pub description: String,
    /// The mode, which says how seriously the model is taken.
    pub mode: Mode,
    /// The model, with the columns of its features.
    pub bound: BoundModel,
    /// The name in rules of each value that the model gives, and its column: one under the model's own name, or one for each
    /// class or target.
    outputs: Vec<(String, Slot)>,
}

/// Rows that are scored together at most: it bounds the memory for a batch of a model of many classes.
const ROWS: usize = 256;

impl ModelPlan {
    /// Returns the names in rules of the values that the model gives, as in `model('spam')`, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.outputs.iter().map(|(name, _)| name.as_str())
    }

    /// The columns of these values, in the same order.
    pub fn slots(&self) -> impl Iterator<Item = Slot> + '_ {
        self.outputs.iter().map(|(_, slot)| *slot)
    }

    /// The model itself.
    pub fn model(&self) -> &Model {
        self.bound.model()
    }

    /// Returns the model, bound to the facts and readings that it takes.
    pub fn bound(&self) -> &BoundModel {
        &self.bound
    }

    /// The column of a value.
    pub fn output(&self, name: &str) -> Option<Slot> {
        self.outputs.iter().find(|(other, _)| other == name).map(|(_, slot)| *slot)
    }

    /// Puts what the model says of each row into its columns; one that is off leaves them empty.
    pub fn fill(&self, rows: &mut [&mut Facts], scratch: &mut ModelScratch) {
        if self.mode == Mode::Off {
            return;
        }
        let dimension = self.model().dimension();
        let mut said = vec![0.0; dimension];
        for rows in rows.chunks_mut(ROWS) {
            let mut raw = vec![0.0; rows.len() * dimension];
            let read: Vec<&Facts> = rows.iter().map(|row| &**row).collect();
            // As many values as rows and dimensions, so nothing can be wrong with the shape.
            if self.bound.raw_batch(&read, scratch, &mut raw).is_err() {
                continue;
            }
            for (row, raw) in rows.iter_mut().zip(raw.chunks_exact(dimension)) {
                self.predict(raw, &mut said);
                for (slot, value) in self.slots().zip(&said) {
                    row.set(slot, *value);
                }
            }
        }
    }

    /// Turns raw values into what they mean: see `docs/guides/models.md`.
    pub fn predict(&self, raw: &[f64], said: &mut [f64]) {
        let model = self.model();
        if raw.len() > 1
            && matches!(model.link(), LinkFunction::Softmax | LinkFunction::OneVsAll | LinkFunction::Labels)
        {
            return model.probabilities(raw, said);
        }
        for (said, raw) in said.iter_mut().zip(raw) {
            *said = model.response(*raw);
        }
    }
}

impl PipelineDraft<'_> {
    /// Loads the models. What they take gets its columns, and what they say gets others behind those.
    pub(crate) fn models(&mut self, builder: &mut SchemaBuilder, problems: &mut ConfigProblems) {
        for view in entries(self.document, "model", problems) {
            // What an entry lacks, and a file that cannot be read, was told of.
            let Some(name) = view.str("name") else { continue };
            let Some(bytes) = self.document.model_file(name) else { continue };
            if self.pipeline.models.iter().any(|other| other.name == name) {
                problems.add(view.origin("name"), format!("model `{name}` is defined twice"), None);
                continue;
            }
            let bound = Model::from_bytes(bytes).map_err(|error| vec![error]);
            let bound = bound.and_then(|model| self.bind(model, builder));
            match bound {
                Ok(bound) => {
                    let outputs = outputs(name, bound.model(), view, builder, problems);
                    self.pipeline.models.push(ModelPlan {
                        name: name.to_owned(),
                        description: view.str("description").unwrap_or_default().to_owned(),
                        mode: mode(&view),
                        bound,
                        outputs,
                    });
                }
                Err(errors) => {
                    for ModelError { message, place, help } in errors {
                        problems.add(
                            view.origin("file"),
                            format!("model `{name}`: {place}: {message}"),
                            help,
                        );
                    }
                }
            }
        }
    }

    /// Finds the fact or the reading that each feature is named after.
    fn bind(&mut self, model: Model, builder: &mut SchemaBuilder) -> Result<BoundModel, Vec<ModelError>> {
        let names = PlanScope { draft: self, builder }.names(judge::NameCategory::Fact);
        let fact = |name: &str| {
            let mut scope = PlanScope { draft: self, builder };
            if let Some(fact) = scope.fact(name) {
                return Ok(fact);
            }
            if !name.contains('(') {
                return Err(None);
            }
            let (slot, kind) = judge::reading(name, &mut scope).map_err(|diagnostic| {
                let help = diagnostic.help.map(|help| format!("; {help}")).unwrap_or_default();
                Some(format!("{}{help}", diagnostic.message))
            })?;
            // One that is in force could depend on one in shadow.
            if scope.is_of_model(slot) {
                return Err(Some("a model takes nothing from another".to_owned()));
            }
            Ok((slot, kind))
        };
        BoundModel::new(model, fact, || names)
    }
}

/// A column for each value that a model gives.
fn outputs(
    name: &str,
    model: &Model,
    view: ConfigView<'_>,
    builder: &mut SchemaBuilder,
    problems: &mut ConfigProblems,
) -> Vec<(String, Slot)> {
    let names: Vec<String> = match (model.dimension(), model.classes()) {
        (1, _) => vec![name.to_owned()],
        (dimension, classes) if classes.len() == dimension => {
            classes.iter().map(|class| format!("{name}.{class}")).collect()
        }
        (dimension, _) => (0..dimension).map(|target| format!("{name}.{target}")).collect(),
    };
    let mut outputs = Vec::with_capacity(names.len());
    for output in names {
        let doc = format!("What the model `{name}` says, `model('{output}')`");
        let column = Column { name: format!("model.{output}"), kind: Type::Float, doc, journalled: true };
        match builder.add(column) {
            Ok(slot) => outputs.push((output, slot)),
            Err(error) => {
                problems.add(view.origin("name"), format!("`model.{output}`: {error}"), None);
                break;
            }
        }
    }
    outputs
}
