//! Searches in past decisions that have a name, in JSON.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The searches that have a name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Searches)]
pub struct SearchesJson {
    /// The ones of the configuration, and then those that were saved.
    pub searches: Vec<SearchJson>,
}

/// A search in past decisions that has a name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Search)]
pub struct SearchJson {
    /// Its name.
    pub name: String,
    /// The description of what it finds; the name, for one that was saved.
    pub description: String,
    /// The conditions that it asks for, by the keys of a `[[search]]`: `pipeline`, `text`, `last`, ...
    pub asks: BTreeMap<String, String>,
    /// True for one of the configuration, which cannot be removed here. Absent otherwise.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub configured: bool,
}

/// A search that is to be saved, instead of one of the same name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SearchRequest {
    /// Its name, of 1 to 100 characters.
    pub name: String,
    /// The conditions that it asks for, by the keys of a `[[search]]`: `pipeline`, `text`, `action`, `rule`, `kind` and `value`,
    /// `where`, `label`, `score_from`, `score_below`, `last`, `facts`.
    pub asks: BTreeMap<String, String>,
}
