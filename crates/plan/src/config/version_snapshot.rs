//! Versions of pipelines as they are kept.

use std::collections::HashMap;

/// A version as it is kept: all that its verdicts depend on.
#[derive(Clone, Debug, Default)]
pub struct VersionSnapshot {
    /// Every setting of the pipeline, as TOML.
    pub text: String,
    /// The texts of the files of sets, by the set's name.
    pub lists: HashMap<String, String>,
    /// The files of models, by the model's name.
    pub models: HashMap<String, Vec<u8>>,
}
