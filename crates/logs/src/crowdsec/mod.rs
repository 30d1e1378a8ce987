//! CrowdSec's own files: parsers, patterns, whitelists and scenarios, run as CrowdSec runs them.
//!
//! ```text
//! line ─► record ─► parsers, stage by stage: grok, expressions, statics ─► scenarios: a bucket a source ─► overflow ─► postoverflows
//! ```
//!
//! Files are passed in as texts by their paths; nothing is read from disk here. Lines bring their time. What cannot be taken is a
//! [`CrowdsecProblem`] with its file and line. Expressions are evaluated with a bound on their steps, patterns in time linear in
//! the line; buckets, what they keep and what is put aside are bounded in number.

pub mod acquisition;
pub mod bucket;
pub mod data_files;
pub mod duration;
pub mod enrichment;
pub mod evaluation;
pub mod evaluator;
pub mod expression;
pub mod go_date;
pub mod helpers;
pub mod hub_test;
mod json_path;
pub mod kept_buckets;
pub mod node;
pub mod pipeline;
pub mod profile;
pub mod record;
pub mod scenario;
pub mod stash;
pub mod value;
mod xml;
mod yaml;

use std::collections::BTreeMap;
use std::fmt;

/// Most bytes of one file.
pub const CROWDSEC_FILE_BYTES_MAX: usize = 4 << 20;

/// Texts of files by their paths below the hub's folder, such as `parsers/s01-parse/crowdsecurity/sshd-logs.yaml`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CrowdsecFiles(pub BTreeMap<String, String>);

impl CrowdsecFiles {
    /// The text of a file.
    pub fn get(&self, path: &str) -> Option<&str> {
        self.0.get(path).map(String::as_str)
    }

    /// Paths of a folder's YAML files, in order.
    pub fn yaml<'f, 'n>(&'f self, folder: &'n str) -> impl Iterator<Item = &'f str> + use<'f, 'n> {
        self.0.keys().map(String::as_str).filter(move |path| {
            let inside = path.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'));
            inside && (path.ends_with(".yaml") || path.ends_with(".yml"))
        })
    }

    /// The path of an item that is named by its author and name, or by its path.
    pub fn find(&self, folder: &str, item: &str) -> Option<&str> {
        let path = item.strip_prefix('.').unwrap_or(item);
        let path = path.strip_prefix('/').unwrap_or(item);
        if let Some((path, _)) = self.0.get_key_value(path) {
            return Some(path);
        }
        let mut known = self.yaml(folder);
        known.find(|known| {
            let stem = known.strip_suffix(".yaml").or(known.strip_suffix(".yml")).unwrap_or(known);
            stem.strip_suffix(item).is_some_and(|before| before.ends_with('/'))
        })
    }
}

/// A part of CrowdSec's files that was not taken.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CrowdsecProblem {
    /// The file, below the hub's folder.
    pub file: String,
    /// The line, from 1; 0 if the whole file is meant.
    pub line: usize,
    /// The reason why it was not taken.
    pub message: String,
}

impl fmt::Display for CrowdsecProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.file, self.message),
            line => write!(f, "{}:{line}: {}", self.file, self.message),
        }
    }
}
