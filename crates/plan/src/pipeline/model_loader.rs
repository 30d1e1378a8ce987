//! Loading of models: their files, and the facts and readings that they take.

use catboost::{Model, ModelError};
use event::{Column, SchemaBuilder, Slot, Type};
use judge::{BoundModel, Scope};

use super::draft::PipelineDraft;
use super::model::ModelPlan;
use super::rules::mode;
use super::scope::PlanScope;
use crate::config::{ConfigProblems, ConfigView};
use crate::entries;

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
