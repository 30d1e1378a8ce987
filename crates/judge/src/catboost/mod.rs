//! CatBoost models, scored in process.
//!
//! [`Model::from_bytes`] reads a `.cbm` file or CatBoost's JSON export. Both become one checked [`Model`]; a file
//! that is broken, hostile or beyond what is supported is a [`ModelError`] that says what, where and the mend.
//! [`Model::bind`] finds the facts that the features are named after. A row is scored by [`BoundModel::raw`] or
//! [`Model::raw`], a batch by [`Model::raw_batch`]; [`Model::probabilities`], [`Model::class`] and
//! [`Model::response`] say what the raw values mean, [`Model::contributions`] where they come from.
//!
//! Supported are numeric and categorical features: one-hot, CTRs of single features and of combinations; symmetric
//! and other trees; one or many dimensions. Text and embedding features are refused. The values are those of
//! CatBoost's own evaluator but for the order in which leaves are added up; `docs/guides/models.md` is the user's view.
//!
//! The source of what the formats and numbers mean is CatBoost's (Apache-2.0): `catboost/libs/model`.

mod bound_model;
mod cbm;
mod city_hash;
mod ctr;
mod error;
mod flatbuffer;
mod json;
mod model;
mod output;
mod raw;
mod score;
mod shap;

#[cfg(test)]
mod tests;

pub use bound_model::BoundModel;
pub use city_hash::category;
pub use error::ModelError;
pub use model::{FeatureKind, LinkFunction, Model, ModelFeature};
pub use raw::NanMode;
pub use score::{BatchShapeError, FeatureColumn, FeatureValue, ModelScratch};
pub use shap::MissingWeightsError;

/// Bounds of what a model may have. A file that is larger in one of them is refused.
pub struct ModelLimits;

impl ModelLimits {
    /// Length of a file, in bytes.
    pub const FILE_BYTES: usize = 1 << 30;
    /// Features, used or not.
    pub const FEATURES: usize = 1 << 16;
    /// Columns of bins: one for each 254 borders, categories or CTR borders of a feature, or part of that.
    pub const COLUMNS: usize = 1 << 16;
    /// Raw values of a row.
    pub const DIMENSION: usize = 4096;
    /// Levels of a symmetric tree, as in CatBoost.
    pub const DEPTH: usize = 16;
    /// Levels of a tree that is not symmetric.
    pub const NODE_DEPTH: usize = 64;
    /// Features and splits that a CTR combines; CatBoost's training makes do with fewer.
    pub const COMBINATION: usize = 64;
    /// Bins that are made of a file's CTR tables, for each byte of the file.
    pub const BINS_PER_BYTE: usize = 8;
}
