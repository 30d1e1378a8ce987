//! Entries of sets that are found in a text: at its beginning or end, anywhere, as a word, or as a regular expression.
//!
//! Thousands of entries are looked for in one pass over the text. A pass over a text with regular expressions costs
//! more, so there are fewer of them, and only the beginning of a text is searched.

use std::fmt;

use aho_corasick::{AhoCorasick, Anchored, Input, MatchKind, StartKind};
use regex::{RegexSet, RegexSetBuilder};

/// Most bytes of all entries that are looked for in texts.
pub(crate) const ENTRIES_BYTES_MAX: usize = 8 << 20;
/// Most regular expressions of a set.
pub(crate) const REGEXES_MAX: usize = 1000;
/// Most bytes of the program of all regular expressions of a set.
const PROGRAM_BYTES_MAX: usize = 4 << 20;
/// Bytes of a text in which regular expressions are looked for.
const SEARCHED_BYTES_MAX: usize = 8 << 10;
/// Longest entry, in bytes.
pub(crate) const ENTRY_BYTES_MAX: usize = 1024;

/// The way in which a text is held against the entries of a set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SetMatch {
    /// The text is an entry.
    #[default]
    Equal,
    /// The text begins with an entry.
    Prefix,
    /// The text ends with an entry.
    Suffix,
    /// An entry stands in the text.
    Contains,
    /// An entry stands in the text, with no letter or digit before and behind it.
    Word,
    /// An entry is a regular expression that matches in the text.
    Regex,
}

impl SetMatch {
    /// All ways, in the order in which they are documented.
    pub const ALL: [SetMatch; 6] = [
        SetMatch::Equal,
        SetMatch::Prefix,
        SetMatch::Suffix,
        SetMatch::Contains,
        SetMatch::Word,
        SetMatch::Regex,
    ];

    /// Returns its name in configurations.
    pub const fn name(self) -> &'static str {
        match self {
            SetMatch::Equal => "equal",
            SetMatch::Prefix => "prefix",
            SetMatch::Suffix => "suffix",
            SetMatch::Contains => "contains",
            SetMatch::Word => "word",
            SetMatch::Regex => "regex",
        }
    }
}

/// Entries that are looked for in texts, compiled.
#[derive(Clone)]
pub(crate) struct TextPatterns {
    how: SetMatch,
    program: PatternProgram,
}

#[derive(Clone)]
enum PatternProgram {
    /// Nothing is found.
    Empty,
    Words(AhoCorasick),
    Regexes(RegexSet),
}

impl fmt::Debug for TextPatterns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TextPatterns").field("how", &self.how).finish_non_exhaustive()
    }
}

impl TextPatterns {
    /// Compiles entries, each of which is no empty text.
    ///
    /// # Errors
    /// The fault of all of them together: they become too large.
    pub(crate) fn new(how: SetMatch, entries: &[String]) -> Result<TextPatterns, String> {
        let program = match how {
            _ if entries.is_empty() => PatternProgram::Empty,
            SetMatch::Regex => {
                let built = RegexSetBuilder::new(entries)
                    .size_limit(PROGRAM_BYTES_MAX)
                    .dfa_size_limit(PROGRAM_BYTES_MAX)
                    .build();
                PatternProgram::Regexes(built.map_err(|error| last_line(&error))?)
            }
            _ => {
                // What a text ends with is found from behind.
                let reversed = |entry: &String| entry.bytes().rev().collect::<Vec<u8>>();
                let builder = &mut AhoCorasick::builder();
                let builder = match how {
                    SetMatch::Prefix | SetMatch::Suffix => builder.start_kind(StartKind::Anchored),
                    _ => builder.start_kind(StartKind::Unanchored),
                };
                let builder = builder.match_kind(MatchKind::Standard);
                let built = match how {
                    SetMatch::Suffix => builder.build(entries.iter().map(reversed)),
                    _ => builder.build(entries),
                };
                PatternProgram::Words(built.map_err(|error| error.to_string())?)
            }
        };
        Ok(TextPatterns { how, program })
    }

    /// The way in which texts are held against the entries.
    pub(crate) fn how(&self) -> SetMatch {
        self.how
    }

    /// Returns whether an entry is found in a text. Linear in the text; of words, times the longest entries that end at one place.
    pub(crate) fn finds(&self, text: &str) -> bool {
        match &self.program {
            PatternProgram::Empty => false,
            PatternProgram::Regexes(regexes) => {
                regexes.is_match(&text[..text.floor_char_boundary(SEARCHED_BYTES_MAX)])
            }
            PatternProgram::Words(words) => match self.how {
                SetMatch::Prefix => words.find(Input::new(text).anchored(Anchored::Yes)).is_some(),
                SetMatch::Suffix => {
                    let mut reversed = [0; ENTRY_BYTES_MAX];
                    reversed.iter_mut().zip(text.bytes().rev()).for_each(|(to, from)| *to = from);
                    let end = &reversed[..text.len().min(ENTRY_BYTES_MAX)];
                    words.find(Input::new(end).anchored(Anchored::Yes)).is_some()
                }
                SetMatch::Word => {
                    words.find_overlapping_iter(text).any(|found| is_word(text, found.start(), found.end()))
                }
                _ => words.is_match(text),
            },
        }
    }
}

/// Returns whether no letter or digit stands before and behind a part of a text.
fn is_word(text: &str, start: usize, end: usize) -> bool {
    let before = text[..start].chars().next_back();
    let behind = text[end..].chars().next();
    ![before, behind].into_iter().flatten().any(char::is_alphanumeric)
}

/// Returns what is wrong with a regular expression, if anything is.
pub(crate) fn regex_fault(entry: &str) -> Option<String> {
    let built = regex::RegexBuilder::new(entry).size_limit(PROGRAM_BYTES_MAX).build();
    built.err().map(|error| last_line(&error))
}

/// An error's last line: those before it draw the pattern.
fn last_line(error: &regex::Error) -> String {
    let text = error.to_string();
    text.lines().last().unwrap_or_default().trim().trim_start_matches("error: ").to_owned()
}
