//! The outcome of an import of bans in JSON.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::Length;

/// The outcome of an import.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = BanImport)]
pub struct BanImportJson {
    /// Entries of the list.
    pub entries: usize,
    /// The entries up to which it has come: all, unless it `stopped`.
    pub passed: usize,
    /// Entries that are banned now, or would be.
    pub banned: usize,
    /// Entries that were refused.
    pub refused: usize,
    /// The first ones of these.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refusals: Vec<RefusedEntryJson>,
    /// Lines that are no entries.
    pub bad_lines: u64,
    /// The first ones of these.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bad: Vec<BadLineJson>,
    /// The first entries that are banned, or would be.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub first: Vec<ImportedEntryJson>,
    /// The reason why it stopped before the end of the list: what it had `passed` by then is done. Send it again with `from`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped: Option<String>,
    /// True if some hold on this node alone for now, as the cluster cannot be reached: other nodes hear of them later.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unshared: bool,
}

/// An entry that was refused.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = RefusedEntry)]
pub struct RefusedEntryJson {
    /// The address or network.
    pub value: String,
    /// The reason.
    pub detail: String,
}

/// A line that is no entry.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = BadLine)]
pub struct BadLineJson {
    /// Its number, from 1; of JSON that of the decision.
    pub line: u64,
    /// The mistake in it.
    pub detail: String,
}

/// An entry of a list.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = ImportedEntry)]
pub struct ImportedEntryJson {
    /// The address or network, as enforcement points get it.
    pub value: String,
    /// The time that the list gives it.
    #[serde(rename = "for", default, skip_serializing_if = "Option::is_none")]
    pub lasts: Option<Length>,
}
