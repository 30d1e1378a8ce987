//! Buckets as they are kept over a restart: what was poured, with the lines that records were read from.
//!
//! Records are read again from their lines, by the parsers as they are then, so nothing of their inner form is kept. What
//! belongs to scenarios that are gone, or to lines that no parser reads any more, is left out; so are records of overflows
//! that were poured again, which count all the same.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Most lines that are kept, and bytes of them. Buckets that were poured into last come first.
pub(crate) const KEPT_LINES_MAX: usize = 50_000;
pub(crate) const KEPT_BYTES_MAX: usize = 16 << 20;

/// Buckets, and what they hide.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct KeptBuckets {
    /// Lines of records.
    pub(crate) lines: Vec<KeptLine>,
    /// Buckets, by the place of their lines.
    pub(crate) buckets: Vec<KeptBucket>,
    /// Groups whose overflows are hidden.
    pub(crate) hidden: Vec<KeptBlackhole>,
}

/// A line, and the time that it meant when it was read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct KeptLine {
    pub(crate) raw: String,
    pub(crate) source: String,
    pub(crate) module: String,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) time: i64,
    pub(crate) marshaled: String,
}

/// The scenario of a bucket: the number of it among those of one name and filter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct KeptScenario {
    pub(crate) name: String,
    pub(crate) filter: String,
    pub(crate) number: usize,
}

/// A bucket.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct KeptBucket {
    pub(crate) scenario: KeptScenario,
    pub(crate) group: String,
    pub(crate) first: Option<i64>,
    pub(crate) last: i64,
    pub(crate) count: u64,
    pub(crate) room: Option<(f64, i64)>,
    pub(crate) lines: Vec<usize>,
    pub(crate) distinct: Vec<String>,
    pub(crate) guillotines: Vec<bool>,
}

/// A group whose overflows are hidden until a time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct KeptBlackhole {
    pub(crate) scenario: KeptScenario,
    pub(crate) group: String,
    pub(crate) until: i64,
}
