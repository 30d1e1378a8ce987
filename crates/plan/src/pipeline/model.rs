//! Models, and the columns that they fill.

use catboost::{LinkFunction, Model, ModelScratch};
use event::{Facts, Slot};
use judge::{BoundModel, Mode};

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
    pub(super) outputs: Vec<(String, Slot)>,
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
