//! Files that parsers and scenarios look into: lists of texts, of regular expressions, and of words with their meaning.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use crate::crowdsec::enrichment::CrowdsecEnrichment;
use crate::crowdsec::expression::compile_regex;
use crate::crowdsec::value::ExprValue;

/// Most bytes of one file.
pub const DATA_FILE_BYTES_MAX: usize = 16 << 20;
/// Most lines of one file.
const LINES_MAX: usize = 500_000;

/// A file, read as each function wants it when one asks.
#[derive(Debug, Default)]
struct DataFile {
    lines: Vec<Arc<str>>,
    list: OnceLock<ExprValue>,
    regexes: OnceLock<Vec<regex::Regex>>,
    entries: OnceLock<Vec<DataFileEntry>>,
}

/// A line of JSON that says what a text means.
#[derive(Debug)]
enum DataFileEntry {
    Equals { pattern: String, tag: Arc<str> },
    Contains { pattern: String, tag: Arc<str> },
    Regex { pattern: Box<regex::Regex>, tag: Arc<str> },
}

/// Files by the names that configurations call them.
#[derive(Debug, Default)]
pub struct CrowdsecDataFiles {
    /// Databases of addresses, and who knows their names.
    pub enrichment: CrowdsecEnrichment,
    files: BTreeMap<Arc<str>, DataFile>,
}

impl CrowdsecDataFiles {
    /// Adds the text of a file.
    pub fn add(&mut self, name: &str, text: &str) {
        let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).take(LINES_MAX);
        let file = DataFile { lines: lines.map(Arc::from).collect(), ..DataFile::default() };
        self.files.insert(Arc::from(name), file);
    }

    /// Returns true if there is a file of this name.
    pub fn has(&self, name: &str) -> bool {
        self.files.contains_key(name)
    }

    /// The lines of a file, as a list.
    pub(crate) fn list(&self, name: &str) -> ExprValue {
        let Some(file) = self.files.get(name) else { return ExprValue::List(Arc::default()) };
        let list =
            || ExprValue::List(Arc::new(file.lines.iter().map(Arc::clone).map(ExprValue::Text).collect()));
        file.list.get_or_init(list).clone()
    }

    /// Returns true if an expression of a file matches a text.
    pub(crate) fn matches(&self, name: &str, text: &str) -> bool {
        let Some(file) = self.files.get(name) else { return false };
        let compile = || file.lines.iter().filter_map(|line| compile_regex(line).ok()).collect();
        file.regexes.get_or_init(compile).iter().any(|regex| regex.is_match(text))
    }

    /// The number of lines of a file.
    pub(crate) fn length(&self, name: &str) -> usize {
        self.files.get(name).map_or(0, |file| file.lines.len())
    }

    /// The meaning that a file of JSON lines has for a text; empty if it has none.
    pub(crate) fn look_up(&self, name: &str, text: &str) -> Arc<str> {
        let Some(file) = self.files.get(name) else { return Arc::default() };
        let entries = file.entries.get_or_init(|| file.lines.iter().filter_map(|line| entry(line)).collect());
        let found = entries.iter().find_map(|entry| match entry {
            DataFileEntry::Equals { pattern, tag } => (text == pattern).then_some(tag),
            DataFileEntry::Contains { pattern, tag } => text.contains(pattern.as_str()).then_some(tag),
            DataFileEntry::Regex { pattern, tag } => pattern.is_match(text).then_some(tag),
        });
        found.map(Arc::clone).unwrap_or_default()
    }
}

fn entry(line: &str) -> Option<DataFileEntry> {
    let json: serde_json::Value = serde_json::from_str(line).ok()?;
    let text = |name: &str| json.get(name).and_then(serde_json::Value::as_str);
    let pattern = text("pattern")?.to_owned();
    let tag = Arc::from(text("tag")?);
    Some(match text("type")? {
        "equals" => DataFileEntry::Equals { pattern, tag },
        "contains" => DataFileEntry::Contains { pattern, tag },
        "regex" => DataFileEntry::Regex { pattern: Box::new(compile_regex(&pattern).ok()?), tag },
        _ => return None,
    })
}
