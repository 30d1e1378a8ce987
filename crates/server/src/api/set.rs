//! Sets that conditions seek values in, in JSON.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The sets of a pipeline.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Sets)]
pub struct SetsJson {
    /// The pipeline.
    pub pipeline: String,
    /// Its sets, in the order of the configuration.
    pub sets: Vec<SetJson>,
}

/// A set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Set)]
pub struct SetJson {
    /// Its name, by which conditions call it.
    pub name: String,
    /// The type of its entries: `string`, `domain`, `integer` or `ip`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The number of its different entries; of networks, the number of ranges that are left when neighbours are joined.
    pub entries: usize,
}

/// A page of the entries of a set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = SetEntries)]
pub struct SetEntriesJson {
    /// The set.
    #[serde(flatten)]
    pub set: SetJson,
    /// The entries, in their order.
    pub page: Vec<String>,
    /// The value of `from` for the next page, if there may be more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<usize>,
    /// True if the value that was asked for is in the set: a subdomain of an entry, or an address of a network, too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub found: Option<bool>,
}
