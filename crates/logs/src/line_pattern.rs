//! One pattern of lines, with named groups and bounded work.

use std::sync::Arc;

use crate::python_regex::{LineAnchors, PythonRegexError, rewrite};
use crate::required_text::required_texts;

/// Most bytes of a pattern's program.
const PROGRAM_BYTES_MAX: usize = 8 << 20;
/// Most steps back that a pattern may take in one line.
pub const STEPS_BACK_MAX: usize = 100_000;

/// Text that is no pattern.
#[derive(Clone, Debug, thiserror::Error)]
pub enum LinePatternError {
    /// Text that is no regular expression of Python's.
    #[error(transparent)]
    Syntax(#[from] PythonRegexError),
    /// A program that does not compile, or becomes too large.
    #[error("{0}")]
    Program(String),
}

/// A search that took more than [`STEPS_BACK_MAX`] steps back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a pattern took more than {STEPS_BACK_MAX} steps back")]
pub struct StepLimitError;

enum Program {
    /// Linear in the text.
    Linear(regex::Regex),
    /// With steps back, after the plain form has matched.
    Backtracking { exact: Box<fancy_regex::Regex>, necessary: regex::Regex },
}

/// A pattern of lines in Python's syntax, compiled.
pub struct LinePattern {
    program: Program,
    /// Names of groups, by number.
    names: Vec<(usize, Arc<str>)>,
    required: Vec<Vec<u8>>,
}

/// The groups of a match, as ranges of bytes of the text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MatchedGroups(Vec<Option<(usize, usize)>>);

impl MatchedGroups {
    /// The range of a group; of the whole match, if it is 0.
    pub fn range(&self, group: usize) -> Option<(usize, usize)> {
        self.0.get(group).copied().flatten()
    }
}

impl LinePattern {
    /// Compiles a pattern in Python's syntax.
    pub fn new(pattern: &str, anchors: LineAnchors) -> Result<LinePattern, LinePatternError> {
        let rewritten = rewrite(pattern, anchors)?;
        let linear = |pattern: &str| {
            regex::RegexBuilder::new(pattern)
                .size_limit(PROGRAM_BYTES_MAX)
                .nest_limit(150)
                .build()
                .map_err(|error| LinePatternError::Program(last_line(&error.to_string())))
        };
        let necessary = linear(&rewritten.necessary)?;
        let mut names: Vec<(usize, Arc<str>)> = Vec::new();
        let program = if rewritten.steps_back {
            let exact = fancy_regex::RegexBuilder::new(&rewritten.exact)
                .backtrack_limit(STEPS_BACK_MAX)
                .delegate_size_limit(PROGRAM_BYTES_MAX)
                .build()
                .map_err(|error| LinePatternError::Program(last_line(&error.to_string())))?;
            let groups = exact.capture_names().enumerate();
            names.extend(groups.filter_map(|(group, name)| Some((group, Arc::from(name?)))));
            Program::Backtracking { exact: Box::new(exact), necessary }
        } else {
            let groups = necessary.capture_names().enumerate();
            names.extend(groups.filter_map(|(group, name)| Some((group, Arc::from(name?)))));
            Program::Linear(necessary)
        };
        Ok(LinePattern { program, names, required: required_texts(&rewritten.necessary) })
    }

    /// Names of groups with their numbers.
    pub fn names(&self) -> &[(usize, Arc<str>)] {
        &self.names
    }

    /// Returns true if a group has this name.
    pub fn has_group(&self, name: &str) -> bool {
        self.names.iter().any(|(_, known)| known.as_ref() == name)
    }

    /// Returns true if the pattern takes time linear in the text, and no steps back.
    pub fn is_linear(&self) -> bool {
        matches!(self.program, Program::Linear(_))
    }

    /// Texts in lower case of which each match has one; none if it needs none.
    pub(crate) fn required(&self) -> &[Vec<u8>] {
        &self.required
    }

    /// Searches a text for the first match.
    pub fn search(&self, text: &str) -> Result<Option<MatchedGroups>, StepLimitError> {
        match &self.program {
            Program::Linear(regex) => Ok(regex.captures(text).map(|captures| {
                MatchedGroups(
                    captures.iter().map(|group| group.map(|group| (group.start(), group.end()))).collect(),
                )
            })),
            Program::Backtracking { exact, necessary } => {
                if !necessary.is_match(text) {
                    return Ok(None);
                }
                let captures = exact.captures(text).map_err(|_| StepLimitError)?;
                Ok(captures.map(|captures| {
                    MatchedGroups(
                        captures
                            .iter()
                            .map(|group| group.map(|group| (group.start(), group.end())))
                            .collect(),
                    )
                }))
            }
        }
    }
}

/// Returns an error's last line: those before it draw the pattern.
fn last_line(message: &str) -> String {
    message.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_found_with_and_without_steps_back() {
        let check = |pattern: &str, text: &str, group: &str, expected: Option<&str>| {
            let pattern = LinePattern::new(pattern, LineAnchors::Text).expect(pattern);
            let number = pattern.names().iter().find(|(_, name)| name.as_ref() == group).expect("group").0;
            let groups = pattern.search(text).expect("steps");
            let found = groups.and_then(|groups| groups.range(number)).map(|(start, end)| &text[start..end]);
            assert_eq!(found, expected, "{text}");
        };
        let conditional =
            r"^Failed for (?P<invalid>invalid )?(?P<user>\S+|(?(invalid).*?|[^:]+)) from (?P<ip>\S+)$";
        check(conditional, "Failed for invalid a b from ::1\n", "user", Some("a b"));
        check(conditional, "Failed for a from ::1\n", "ip", Some("::1"));
        check(conditional, "failed for a from ::1\n", "ip", None);
        check(r"^(?P<a>\w+) (?!no)", "yes no\n", "a", None);
        check(r"(?P<a>x+)$", "axx\n", "a", Some("xx"));
    }

    #[test]
    fn steps_back_are_bounded() {
        let pattern = LinePattern::new(r"^(a|aa)+(?=!)\1!!$", LineAnchors::Text).expect("pattern");
        assert_eq!(pattern.search(&format!("{}!a!!", "a".repeat(60))), Err(StepLimitError));
    }
}
