//! A model's features by the names of facts.

use std::io::Write;

use catboost::{
    BatchShapeError, FeatureKind, FeatureValue, MissingWeightsError, Model, ModelError, ModelScratch,
    category,
};
use event::{Facts, Slot, Type, Value};

use crate::diagnostic::did_you_mean;

/// A model that knows the slot of each of its features, and so reads rows of facts.
#[derive(Clone, Debug)]
pub struct BoundModel {
    model: Model,
    /// The slot of each feature; none for those that no tree looks at.
    slots: Vec<Option<Slot>>,
}

/// Features without a fact that are named one by one.
const NAMED: usize = 20;

fn misfit(name: &str, feature: FeatureKind, fact: Type) -> Option<ModelError> {
    let (word, fits, takes) = match feature {
        FeatureKind::Numeric(_) => {
            let fits = matches!(fact, Type::Integer | Type::Float | Type::Bool);
            ("numeric", fits, "integer, float or bool")
        }
        FeatureKind::Categorical => {
            let fits = matches!(fact, Type::String | Type::Integer | Type::Bool | Type::Ip);
            ("categorical", fits, "string, integer, bool or ip")
        }
    };
    let error = || {
        let message = format!("the feature is {word}, and the fact of its name is of type {fact}");
        ModelError::new(format!("feature `{name}`"), message).help(format!("it takes a fact of type {takes}"))
    };
    (!fits).then(error)
}

impl BoundModel {
    /// Binds a model: finds the fact of each feature that is used, by its name.
    ///
    /// `fact` gives the slot and type of the fact of a name, or what is wrong with the name, if it knows; else the
    /// nearest of `names` is offered. Every feature that has no fact, or one of a type that it cannot take, is an error:
    /// numeric features take integers, floats and bools (0 and 1), categorical ones strings, integers, bools
    /// (`0` and `1`) and addresses.
    pub fn new(
        model: Model,
        mut fact: impl FnMut(&str) -> Result<(Slot, Type), Option<String>>,
        names: impl FnOnce() -> Vec<String>,
    ) -> Result<BoundModel, Vec<ModelError>> {
        let mut slots = Vec::with_capacity(model.features().len());
        let (mut errors, mut unknown) = (Vec::new(), Vec::new());
        for feature in model.features() {
            if !feature.used {
                slots.push(None);
                continue;
            }
            match fact(&feature.name) {
                Ok((slot, kind)) => {
                    slots.push(Some(slot));
                    errors.extend(misfit(&feature.name, feature.kind, kind));
                }
                Err(why) => unknown.push((&feature.name, why)),
            }
        }
        if !unknown.is_empty() {
            // Near names are dear to find, and a file may ask for any number of facts.
            let names = names();
            let unnamed = unknown.len().saturating_sub(NAMED);
            errors.extend(unknown.into_iter().take(NAMED).map(|(name, why)| {
                let error = ModelError::new(format!("feature `{name}`"), "nobody fills a fact of this name");
                match why.or_else(|| did_you_mean(name, &names)) {
                    Some(help) => error.help(help),
                    None => error,
                }
            }));
            if unnamed > 0 {
                let message = format!("nobody fills {unnamed} further ones either");
                errors.push(ModelError::new("features", message));
            }
        }
        if errors.is_empty() { Ok(BoundModel { model, slots }) } else { Err(errors) }
    }

    /// The model.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// The slots that the model reads.
    pub fn slots(&self) -> impl Iterator<Item = Slot> + '_ {
        self.slots.iter().flatten().copied()
    }

    /// The raw values of a row of facts: see [`Model::raw`]. A missing fact is NaN, or the empty text.
    pub fn raw<'s>(&self, facts: &Facts, scratch: &'s mut ModelScratch) -> &'s [f64] {
        self.model.raw(|feature| self.input(feature, facts), scratch)
    }

    /// The raw values of rows of facts, [`Model::dimension`] a row: the same as row by row, faster.
    pub fn raw_batch(
        &self,
        facts: &[&Facts],
        scratch: &mut ModelScratch,
        out: &mut [f64],
    ) -> Result<(), BatchShapeError> {
        self.model.raw_rows(facts.len(), |feature, row| self.input(feature, facts[row]), scratch, out)
    }

    /// The contributions of the features to a row's raw values: see [`Model::contributions`].
    pub fn contributions<'s>(
        &self,
        facts: &Facts,
        scratch: &'s mut ModelScratch,
    ) -> Result<&'s [f64], MissingWeightsError> {
        self.model.contributions(|feature| self.input(feature, facts), scratch)
    }

    fn input<'f>(&self, feature: usize, facts: &'f Facts) -> FeatureValue<'f> {
        let Some(value) = self.slots.get(feature).copied().flatten().and_then(|slot| facts.get(slot)) else {
            return FeatureValue::Missing;
        };
        match (self.model.features()[feature].kind, value) {
            (FeatureKind::Numeric(_), Value::Integer(integer)) => FeatureValue::Number(*integer as f32),
            (FeatureKind::Numeric(_), Value::Float(float)) => FeatureValue::Number(*float as f32),
            (FeatureKind::Numeric(_), Value::Bool(truth)) => {
                FeatureValue::Number(f32::from(u8::from(*truth)))
            }
            (FeatureKind::Categorical, Value::String(text)) => FeatureValue::Text(text),
            (FeatureKind::Categorical, Value::Integer(integer)) => printed(format_args!("{integer}")),
            (FeatureKind::Categorical, Value::Bool(truth)) => {
                FeatureValue::Text(if *truth { "1" } else { "0" })
            }
            (FeatureKind::Categorical, Value::Ip(ip)) => printed(format_args!("{ip}")),
            _ => FeatureValue::Missing,
        }
    }
}

/// The category of a short text that is not written down anywhere.
fn printed(text: std::fmt::Arguments<'_>) -> FeatureValue<'static> {
    // The longest is an address: 45 bytes.
    let mut buffer = [0; 64];
    let mut rest = &mut buffer[..];
    let written = rest.write_fmt(text).map_or(0, |()| 64 - rest.len());
    FeatureValue::Category(category(&buffer[..written]))
}
