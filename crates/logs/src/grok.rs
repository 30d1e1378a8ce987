//! Grok: regular expressions made of named ones, such as `%{IP:source_ip} - %{USER}`.
//!
//! ```text
//! %{NAME:field} ─► library ─► one expression, its groups counted ─► search ─► fields
//! ```
//!
//! `%{NAME}` stands for the pattern of that name, in a group; with `:field` its text becomes a field. Where a field is named several
//! times, the last one in the pattern gives its text, also if another one matched, as in CrowdSec's grok. Expressions are Go's.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::go_regex::{self, GoRegexError};
use crate::required_text::required_texts;

/// Most patterns inside of one another.
const DEPTH_MAX: usize = 24;
/// Most bytes of a pattern with all that it stands for.
const EXPANDED_BYTES_MAX: usize = 256 * 1024;
/// Most bytes of a pattern's program.
const PROGRAM_BYTES_MAX: usize = 32 << 20;
/// Most patterns of a library.
const PATTERNS_MAX: usize = 20_000;

/// Text that is no grok pattern.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GrokError {
    /// A name that no pattern has.
    #[error("there is no pattern `{0}`")]
    Unknown(String),
    /// Patterns that stand for each other, or very many of them.
    #[error("the pattern becomes too large, or stands for itself")]
    TooLarge,
    /// An expression that is not taken.
    #[error(transparent)]
    Syntax(#[from] GoRegexError),
    /// A program that does not compile, or becomes too large.
    #[error("{0}")]
    Program(String),
}

/// Patterns by their names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrokLibrary {
    patterns: BTreeMap<Arc<str>, Arc<str>>,
}

impl Default for GrokLibrary {
    fn default() -> GrokLibrary {
        GrokLibrary::new()
    }
}

impl GrokLibrary {
    /// The usual patterns: numbers, words, addresses, paths, dates, levels.
    pub fn new() -> GrokLibrary {
        let mut library = GrokLibrary { patterns: BTreeMap::new() };
        library.add_file(include_str!("grok_patterns.txt"));
        library
    }

    /// Adds a pattern, unless there is one of this name. Returns false if it is not added.
    pub fn add(&mut self, name: &str, pattern: &str) -> bool {
        if self.patterns.contains_key(name) || self.patterns.len() >= PATTERNS_MAX {
            return false;
        }
        self.patterns.insert(Arc::from(name), Arc::from(pattern));
        true
    }

    /// Adds the patterns of a file: a name, blanks and a pattern in each line. Other lines are comments.
    pub fn add_file(&mut self, text: &str) {
        for line in text.lines() {
            let end = line.find(|c: char| !is_word(c)).unwrap_or(line.len());
            let (name, pattern) = line.split_at(end);
            let blanks = pattern.len() - pattern.trim_start().len();
            if !name.is_empty() && blanks > 0 && blanks < pattern.len() {
                self.add(name, pattern.trim_start());
            }
        }
    }

    /// The pattern of a name.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.patterns.get(name).map(AsRef::as_ref)
    }

    /// Compiles an expression.
    pub fn compile(&self, expression: &str) -> Result<GrokPattern, GrokError> {
        let mut left = EXPANDED_BYTES_MAX;
        let expanded = self.expand(expression, 0, &mut left)?;
        let rewritten = go_regex::rewrite(&expanded.text)?;
        let regex = regex::RegexBuilder::new(&rewritten.text)
            .size_limit(PROGRAM_BYTES_MAX)
            .dfa_size_limit(PROGRAM_BYTES_MAX)
            .nest_limit(200)
            .build()
            .map_err(|error| {
                let message = error.to_string();
                GrokError::Program(message.lines().last().unwrap_or_default().trim().to_owned())
            })?;
        debug_assert_eq!(regex.captures_len(), rewritten.groups + 1, "{expression}");
        let required = required_texts(&rewritten.text);
        let fields = expanded.fields.into_iter().map(|(name, group)| (Arc::from(name), group)).collect();
        Ok(GrokPattern { regex, has_groups: rewritten.groups > 0, fields, required })
    }

    /// Writes patterns in place of their names.
    fn expand(&self, expression: &str, depth: usize, left: &mut usize) -> Result<ExpandedGrok, GrokError> {
        if depth > DEPTH_MAX {
            return Err(GrokError::TooLarge);
        }
        *left = left.checked_sub(expression.len() + 2).ok_or(GrokError::TooLarge)?;
        let mut expanded = ExpandedGrok::default();
        let mut inner = Vec::new();
        let mut rest = expression;
        while let Some(reference) = next_reference(rest) {
            expanded.add_literal(&rest[..reference.start]);
            rest = &rest[reference.end..];
            let pattern =
                self.get(reference.name).ok_or_else(|| GrokError::Unknown(reference.name.to_owned()))?;
            let sub = self.expand(pattern, depth + 1, left)?;
            expanded.groups += 1;
            let group = expanded.groups;
            expanded.text.push('(');
            expanded.text.push_str(&sub.text);
            expanded.text.push(')');
            expanded.groups += sub.groups;
            if let Some(field) = reference.field {
                expanded.fields.insert(field.to_owned(), group);
            }
            inner.extend(sub.fields.into_iter().map(|(field, number)| (field, group + number)));
        }
        expanded.add_literal(rest);
        // A field that the pattern names itself stands above those of patterns in it.
        let own: Vec<String> = expanded.fields.keys().cloned().collect();
        for (field, group) in inner {
            if own.binary_search(&field).is_err() {
                expanded.fields.insert(field, group);
            }
        }
        Ok(expanded)
    }
}

/// A pattern with all that it stands for.
#[derive(Default)]
struct ExpandedGrok {
    text: String,
    groups: usize,
    fields: BTreeMap<String, usize>,
}

impl ExpandedGrok {
    fn add_literal(&mut self, text: &str) {
        self.groups += capturing_groups(text);
        self.text.push_str(text);
    }
}

/// `%{NAME:field}` in a text.
struct GrokReference<'t> {
    start: usize,
    end: usize,
    name: &'t str,
    field: Option<&'t str>,
}

fn is_word(character: char) -> bool {
    character.is_ascii_alphanumeric() || character == '_'
}

fn next_reference(text: &str) -> Option<GrokReference<'_>> {
    let mut from = 0;
    while let Some(found) = text[from..].find("%{") {
        let start = from + found;
        let inside = &text[start + 2..];
        from = start + 2;
        let Some(end) = inside.find(|c: char| !is_word(c) && c != ':') else { continue };
        if !inside[end..].starts_with('}') {
            continue;
        }
        let (name, field) = match inside[..end].split_once(':') {
            Some((name, field)) => (name, Some(field)),
            None => (&inside[..end], None),
        };
        if !name.is_empty() && field.is_none_or(|field| !field.is_empty() && !field.contains(':')) {
            return Some(GrokReference { start, end: start + 2 + end + 1, name, field });
        }
    }
    None
}

/// The number of groups that capture in a part of a pattern.
fn capturing_groups(text: &str) -> usize {
    let bytes = text.as_bytes();
    let (mut groups, mut at, mut in_class) = (0, 0, false);
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 1,
            b'[' if !in_class => {
                in_class = true;
                at += usize::from(bytes.get(at + 1) == Some(&b'^'));
                at += usize::from(bytes.get(at + 1) == Some(&b']'));
            }
            b'[' if bytes.get(at + 1) == Some(&b':') => {
                if let Some(end) = text[at..].find(":]") {
                    at += end + 1;
                }
            }
            b']' => in_class = false,
            b'(' if !in_class => {
                let is_plain = bytes.get(at + 1) == Some(&b'?');
                let is_named = text[at + 1..].starts_with("?P<") || text[at + 1..].starts_with("?<");
                groups += usize::from(!is_plain || is_named);
            }
            _ => {}
        }
        at += 1;
    }
    groups
}

/// A grok pattern, compiled.
#[derive(Debug)]
pub struct GrokPattern {
    regex: regex::Regex,
    has_groups: bool,
    fields: Vec<(Arc<str>, usize)>,
    required: Vec<Vec<u8>>,
}

impl GrokPattern {
    /// The program.
    pub(crate) fn regex(&self) -> &regex::Regex {
        &self.regex
    }

    /// Names of fields with the numbers of their groups.
    pub(crate) fn groups(&self) -> &[(Arc<str>, usize)] {
        &self.fields
    }

    /// Names of fields, in order.
    pub fn fields(&self) -> impl Iterator<Item = &str> {
        self.fields.iter().map(|(name, _)| name.as_ref())
    }

    /// Texts in lower case of which each match has one; none if it needs none.
    pub fn required(&self) -> &[Vec<u8>] {
        &self.required
    }

    /// Reads a text: its fields, each with its text; none if the pattern does not match, or names no field.
    pub fn read<'t>(&self, text: &'t str) -> Option<Vec<(Arc<str>, &'t str)>> {
        if !self.has_groups || self.fields.is_empty() {
            return None;
        }
        let captures = self.regex.captures(text)?;
        let fields = self.fields.iter();
        Some(
            fields
                .map(|(name, group)| {
                    (Arc::clone(name), captures.get(*group).map_or("", |found| found.as_str()))
                })
                .collect(),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_read() {
        let check = |pattern: &str, text: &str, expected: &[(&str, &str)]| {
            let mut library = GrokLibrary::new();
            library.add_file("PAIR %{WORD:key}=(x)?%{NUMBER:value}\n# a comment\nPAIRS (%{PAIR}(,|$))+");
            let pattern = library.compile(pattern).expect(pattern);
            let found = pattern.read(text).unwrap_or_default();
            let found: Vec<(&str, &str)> = found.iter().map(|(name, text)| (name.as_ref(), *text)).collect();
            assert_eq!(found, expected, "{text}");
        };
        check("^%{IP:ip} %{USER:user}$", "10.0.0.1 root", &[("ip", "10.0.0.1"), ("user", "root")]);
        check("%{IP:ip}", "from 2001:db8::1 port 1", &[("ip", "2001:db8::1")]);
        check("%{PAIRS}", "a=1,b=x2", &[("key", "b"), ("value", "2")]);
        // The outer name stands above the inner one; the last of two gives the text.
        check("%{PAIR:key}", "a=1", &[("key", "a=1"), ("value", "1")]);
        check("(%{INT:n}|n%{WORD:n})", "7", &[("n", "")]);
        check("%{WORD:word} %{NUMBER:a.b}", "a %{NUMBER:a.b}", &[("word", "a")]);
        check("%{INT}", "7", &[]);
        check(
            "%{SYSLOGTIMESTAMP:t} %{SYSLOGHOST:h} %{SYSLOGPROG}",
            "Feb 12 14:10:21 sd-1 sshd[16378]: x",
            &[("h", "sd-1"), ("pid", "16378"), ("program", "sshd"), ("t", "Feb 12 14:10:21")],
        );
        check("%{HTTPDATE:t}", "[12/Feb/2024:14:10:21 +0000]", &[("t", "12/Feb/2024:14:10:21 +0000")]);
    }

    #[test]
    fn each_usual_pattern_compiles() {
        let library = GrokLibrary::new();
        for name in library.patterns.keys() {
            library.compile(&format!("%{{{name}:field}}")).expect(name);
        }
    }

    #[test]
    fn patterns_that_stand_for_themselves_are_refused() {
        let mut library = GrokLibrary::new();
        library.add_file("LOOP a%{LOOP}\nA0 aaaaaaaa\nWIDE %{A0}");
        for level in 1..20 {
            library.add(
                &format!("A{level}"),
                &format!("%{{A{}}}%{{A{}}}%{{A{}}}", level - 1, level - 1, level - 1),
            );
        }
        for name in ["LOOP", "A19"] {
            assert_eq!(library.compile(&format!("%{{{name}}}")).err(), Some(GrokError::TooLarge), "{name}");
        }
        assert_eq!(library.compile("%{NOBODY}").err(), Some(GrokError::Unknown("NOBODY".to_owned())));
    }
}
