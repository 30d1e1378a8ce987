//! CatBoost models, read and evaluated in Rust.
//!
//! A model is trained and saved with CatBoost as ever: `model.save_model("model.cbm")`, or `format="json"` with the training
//! pool. Here it is scored without Python, without C++ and without a copy of the file in memory:
//!
//! ```
//! use catboost::{FeatureValue, Model, ModelScratch};
//!
//! # let bytes = std::fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/../../corpora/model/one_hot.cbm"))?;
//! let model = Model::from_bytes(&bytes)?;
//! let mut scratch = ModelScratch::default();
//! let row = [
//!     FeatureValue::Number(1500.0),
//!     FeatureValue::Number(0.25),
//!     FeatureValue::Missing,
//!     FeatureValue::Text("Oslo"),
//!     FeatureValue::Text("-2"),
//!     FeatureValue::Missing,
//! ];
//! let raw = model.raw(|feature| row[feature], &mut scratch).to_vec();
//! let probability = model.response(raw[0]);
//! assert!((0.0..=1.0).contains(&probability));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | to … | call |
//! |---|---|
//! | read a `.cbm` file or a JSON export | [`Model::from_bytes`] |
//! | see what a model takes | [`Model::features`] |
//! | score one row, without an allocation | [`Model::raw`] |
//! | score many: in columns, or wherever they lie | [`Model::raw_batch`], [`Model::raw_rows`] |
//! | turn raw values into predictions | [`Model::response`], [`Model::probabilities`], [`Model::class`] |
//! | see where a value comes from (SHAP) | [`Model::contributions`] |
//!
//! # Supported
//!
//! - Numeric and categorical features: one-hot, CTRs of single features and of combinations.
//! - Symmetric and other trees; one or many dimensions: regression, two classes, many classes, several labels.
//! - Text and embedding features are refused, with an error that says so.
//!
//! Values are those of CatBoost's own evaluator but for the order in which leaves are added up. A row has the same value
//! to the last bit alone and in a batch.
//!
//! # Hostile files
//!
//! A file may come from anybody. One that is broken or hostile is a [`ModelError`] that says what, where and the mend, and
//! one that is accepted can be evaluated on any row without a panic. Memory and time are bounded by a multiple of the file's
//! length ([`ModelLimits`]). There is no unsafe code, no I/O, no clock and no thread.
//!
//! The source of what the formats and numbers mean is CatBoost's (Apache-2.0): `catboost/libs/model`.

#![forbid(unsafe_code)]

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
mod scratch;
mod shap;
mod split;

#[cfg(test)]
mod tests;

pub use city_hash::category;
pub use error::ModelError;
pub use model::{FeatureKind, LinkFunction, Model, ModelFeature};
pub use raw::NanMode;
pub use score::{BatchShapeError, FeatureColumn, FeatureValue};
pub use scratch::ModelScratch;
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
