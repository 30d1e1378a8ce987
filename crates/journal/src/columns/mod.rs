//! Closed segments by columns: Parquet files that other programs read as they are, with an index of our own.
//!
//! ```text
//! "PAR1"  head  column chunks and filters, group by group  index  index again  head again  Parquet's footer
//! ```
//!
//! A row is a record. What a record is by itself and every fact have a column each; what has no column is in `detail`,
//! so that each record comes back as it was. The index says where each column of each group lies and what its checksum
//! is, so that a reader checks all that it decodes and never has to believe a length; Parquet's own footer says the same
//! to others. `docs/internals/format.md` draws the bytes.

mod check;
mod cursor;
mod detail;
mod group_cache;
mod group_columns;
mod index_cache;
mod kept_pages;
mod look;
mod page_head;
mod pages;
mod read_columns;
mod reader;
mod records;
mod selection;
mod versions;
mod writer;

use std::collections::{HashMap, HashSet};

use event::{Shingle, Time, Type};
use serde::{Deserialize, Serialize};

use super::summary::{STORED_BLOCK_BYTES, SummaryHead};
use super::{ReplacedReport, VersionDescription};
use crate::id::RecordId;
use crate::visitor::FactChoice;

pub(super) use check::check;
pub(crate) use group_cache::GroupCache;
pub(crate) use index_cache::IndexCache;
pub(crate) use read_columns::ReadColumns;
pub(crate) use reader::ColumnarSegment;
pub(super) use writer::ColumnarWriter;

/// The bytes with which a file of Parquet begins.
const PARQUET: [u8; 4] = *b"PAR1";
const MAGIC: [u8; 8] = *b"TOLLJRNC";
/// Our own head.
const OWN_HEAD_BYTES: usize = 40;
/// Up to here, Parquet's four bytes included.
const HEAD_BYTES: usize = 4 + OWN_HEAD_BYTES;
/// Largest index, uncompressed.
const INDEX_BYTES_MAX: usize = 16 << 20;
/// Fewest rows of a page that others follow. It has as many times two as it takes for [`PAGE_BYTES`], and all pages of a column
/// in a group but the last have as many.
const PAGE_ROWS: usize = 256;
/// Bytes of a column's values of a page, about: to have one row, so many are decoded of each column. What takes less is one
/// page: with more of them the many columns that are mostly empty would take up more than all others.
const PAGE_BYTES: usize = 16 << 10;
/// Most rows of a group that is read.
const ROWS_MAX: usize = 1 << 16;
/// Most items of a list that has its place in a column.
const ITEMS_MAX: usize = 1 << 16;

/// The columns of every file, before those of facts.
const OWN: [(&str, Type); 21] = [
    ("id", Type::String),
    ("what", Type::String),
    ("pipeline", Type::String),
    ("version", Type::String),
    ("rules_version", Type::String),
    ("preset", Type::String),
    ("preset_version", Type::String),
    ("models", Type::String),
    ("event_id", Type::String),
    ("time", Type::Time),
    ("arrival", Type::Time),
    ("duplicate", Type::Bool),
    ("action", Type::String),
    ("score", Type::Float),
    ("probability", Type::Float),
    ("rules", Type::List),
    ("shadow_rules", Type::List),
    ("effects", Type::List),
    ("decision", Type::String),
    ("class", Type::String),
    ("detail", Type::Bytes),
];

/// Places in [`OWN`].
mod own {
    pub(super) const ID: usize = 0;
    pub(super) const WHAT: usize = 1;
    pub(super) const PIPELINE: usize = 2;
    pub(super) const VERSION: usize = 3;
    /// The first of four columns from the version's description.
    pub(super) const PROVENANCE: usize = 4;
    pub(super) const EVENT_ID: usize = 8;
    pub(super) const TIME: usize = 9;
    pub(super) const ARRIVAL: usize = 10;
    pub(super) const DUPLICATE: usize = 11;
    pub(super) const ACTION: usize = 12;
    pub(super) const SCORE: usize = 13;
    pub(super) const PROBABILITY: usize = 14;
    pub(super) const RULES: usize = 15;
    pub(super) const SHADOW: usize = 16;
    pub(super) const EFFECTS: usize = 17;
    pub(super) const DECISION: usize = 18;
    pub(super) const CLASS: usize = 19;
    pub(super) const DETAIL: usize = 20;
}

/// The format in which bytes are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ColumnsFormat {
    /// Compressed, and what is read has to fit its checksum.
    Sealed,
    /// Neither, so that a changed byte comes as far as it can: for tests and fuzzing.
    Bare,
}

/// An empty list.
const NO_EFFECTS: &[u8] = &[0];

/// The values of `what`.
const DECISION: &str = "decision";
const REPORT: &str = "report";
/// A report that is no judgement.
const SIGNAL: &str = "signal";
/// A report that counts nothing.
const UNCOUNTED: &str = "uncounted";
const REPORTS: [&str; 3] = [REPORT, SIGNAL, UNCOUNTED];

/// The columns of a file, and the facts of each version in them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct ColumnLayout {
    /// Columns of facts, behind [`OWN`]: name and type.
    facts: Vec<(String, Type)>,
    versions: Vec<VersionLayout>,
}

/// A version of a pipeline.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct VersionLayout {
    version: String,
    /// The versions of its rules, its preset's name and version, and its models, as far as they are known.
    provenance: [Option<String>; 4],
    /// The column of each fact, in the order of the facts.
    slots: Vec<Option<u32>>,
}

/// The description that a file holds of itself, for its reader.
#[derive(Debug, Default, Serialize, Deserialize)]
struct ColumnsIndex {
    layout: ColumnLayout,
    groups: Vec<RowGroup>,
    /// The heads of the groups, which are made when the index is read: searches go through those of all files.
    #[serde(skip)]
    heads: Vec<GroupHead>,
}

/// The ids, the latest arrival, the number of rows, the place and the length of a group.
#[derive(Debug)]
pub(crate) struct GroupHead {
    pub(crate) first: RecordId,
    pub(crate) last: RecordId,
    pub(crate) arrival: Time,
    pub(crate) rows: u32,
    pub(crate) at: u64,
    pub(crate) bytes: u64,
}

/// A group of rows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct RowGroup {
    /// The start of its first column.
    at: u64,
    rows: u32,
    first: RecordId,
    last: RecordId,
    /// Latest arrival, as far as the segment told.
    arrival: Time,
    /// Some of its facts are in `detail`.
    extras: bool,
    /// The length and checksum of each column; they lie one behind the other.
    chunks: Vec<(u32, u32)>,
    /// Summary by which a search passes over it; the filters lie behind the columns.
    summary: SummaryHead,
}

impl RowGroup {
    fn head(&self) -> GroupHead {
        let RowGroup { at, rows, first, last, arrival, .. } = *self;
        GroupHead { first, last, arrival, rows, at, bytes: self.bytes() }
    }

    fn bytes(&self) -> u64 {
        self.chunks.iter().map(|(length, _)| u64::from(*length)).sum()
    }

    /// The place in the file at which its filters begin.
    fn filters_at(&self) -> u64 {
        self.at + self.bytes()
    }

    /// Returns the length of its filters.
    fn filters_bytes(&self) -> u64 {
        self.summary.blocks_count() * STORED_BLOCK_BYTES as u64
    }

    /// The place in the file at which a column begins.
    fn column_at(&self, column: usize) -> u64 {
        self.at + self.chunks.iter().take(column).map(|(length, _)| u64::from(*length)).sum::<u64>()
    }
}

/// The parts of a report that have no column of their own.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct ReportDetail {
    /// The class of one that does not label its decision: `class` has only those that do.
    class: Option<String>,
    by: Option<Shingle>,
    weight: u8,
    limited: bool,
    counters: Vec<String>,
    replaced: Option<ReplacedReport>,
}

impl ColumnLayout {
    /// The layout for rows of these versions: facts of one name and type share a column, whichever pipeline has them;
    /// those of one name and other types have columns of their own. A version without a description has its facts in
    /// `detail`.
    pub(super) fn of(versions: &[(String, Option<VersionDescription>)]) -> ColumnLayout {
        let mut layout = ColumnLayout::default();
        let mut taken: HashSet<String> = OWN.iter().map(|(name, _)| (*name).to_owned()).collect();
        let mut known: HashMap<(&str, Type), u32> = HashMap::new();
        for (version, description) in versions {
            let mut slots = Vec::new();
            for column in description.iter().flat_map(|description| &description.columns) {
                if !column.journalled {
                    slots.push(None);
                    continue;
                }
                let place = *known.entry((&column.name, column.kind)).or_insert_with(|| {
                    let names = [
                        column.name.clone(),
                        format!("fact.{}", column.name),
                        format!("{}:{}", column.name, column.kind),
                    ];
                    let own = OWN.iter().any(|(name, _)| *name == column.name);
                    let wanted = if own { &names[1..] } else { &names[..] };
                    let mut name =
                        wanted.iter().find(|name| !taken.contains(*name)).unwrap_or(&names[2]).clone();
                    while !taken.insert(name.clone()) {
                        name.push('\'');
                    }
                    layout.facts.push((name, column.kind));
                    // Fewer than versions times columns.
                    (layout.facts.len() - 1) as u32
                });
                slots.push(Some(place));
            }
            let said = description.as_ref().map(provenance).unwrap_or_default();
            layout.versions.push(VersionLayout { version: version.clone(), provenance: said, slots });
        }
        layout
    }

    /// Returns true if groups of another layout have the same columns, which mean the same here.
    pub(super) fn has_all_of(&self, other: &ColumnLayout) -> bool {
        self.facts == other.facts && other.versions.iter().all(|version| self.versions.contains(version))
    }

    /// Returns true if rows with these facts need a column, or may need it.
    fn is_of(&self, column: usize, facts: FactChoice<'_>) -> bool {
        let FactChoice::Named(wanted) = facts else { return true };
        match column.checked_sub(OWN.len()).map(|fact| self.facts.get(fact)) {
            // What these say is in the version's description, and in `detail`.
            None => !(own::PROVENANCE..own::EVENT_ID).contains(&column) && column != own::EFFECTS,
            Some(None) => false,
            Some(Some((name, kind))) => {
                let mut names: Vec<&str> = vec![name];
                // As columns are named whose facts share a name with others.
                let name = name.trim_end_matches('\'');
                names.extend([Some(name), name.strip_prefix("fact.")].into_iter().flatten());
                names.extend(name.strip_suffix(&kind.to_string()).and_then(|name| name.strip_suffix(':')));
                wanted.iter().any(|wanted| names.contains(&wanted.as_str()))
            }
        }
    }

    /// Returns the number of columns.
    pub(super) fn len(&self) -> usize {
        OWN.len() + self.facts.len()
    }

    fn columns(&self) -> impl Iterator<Item = (&str, Type)> {
        OWN.into_iter().chain(self.facts.iter().map(|(name, kind)| (name.as_str(), *kind)))
    }

    fn version(&self, version: &str) -> Option<&VersionLayout> {
        self.versions.iter().find(|layout| layout.version == version)
    }
}

fn provenance(description: &VersionDescription) -> [Option<String>; 4] {
    let preset = description.preset.as_ref();
    [
        description.rules_version.clone(),
        preset.map(|(name, _)| name.clone()),
        preset.map(|(_, version)| version.clone()),
        description.models_text(),
    ]
}

#[cfg(test)]
mod tests;
