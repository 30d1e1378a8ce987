//! One pattern of lines, with named groups and bounded work.

use std::sync::Arc;

use crate::grok::{GrokError, GrokPattern};
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
    /// Text that is no grok pattern.
    #[error(transparent)]
    Grok(#[from] GrokError),
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
    /// Linear in the text; `$` is the end of the text, before which a line's end is left out.
    Grok(regex::Regex),
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

    /// Makes a pattern of lines of a grok pattern, whose fields are its named groups.
    pub fn of_grok(pattern: &GrokPattern) -> LinePattern {
        let group = |name: &Arc<str>| match name.as_ref() {
            "ip" => Arc::from("ip4"),
            "host" => Arc::from("dns"),
            "port" => Arc::from("fport"),
            "id" => Arc::from("fid"),
            _ => Arc::clone(name),
        };
        let names = pattern.groups().iter().map(|(name, number)| (*number, group(name))).collect();
        let (program, required) = (Program::Grok(pattern.regex().clone()), pattern.required().to_vec());
        LinePattern { program, names, required }
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
        matches!(self.program, Program::Linear(_) | Program::Grok(_))
    }

    /// Texts in lower case of which each match has one; none if it needs none.
    pub(crate) fn required(&self) -> &[Vec<u8>] {
        &self.required
    }

    /// Searches a text for the first match.
    pub fn search(&self, text: &str) -> Result<Option<MatchedGroups>, StepLimitError> {
        let ranges = |captures: regex::Captures<'_>| {
            let groups = captures.iter().map(|group| group.map(|group| (group.start(), group.end())));
            MatchedGroups(groups.collect())
        };
        match &self.program {
            Program::Linear(regex) => Ok(regex.captures(text).map(ranges)),
            Program::Grok(regex) => Ok(regex.captures(text.strip_suffix('\n').unwrap_or(text)).map(ranges)),
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
    fn fields_of_grok_are_groups() {
        let library = crate::grok::GrokLibrary::new();
        let pattern =
            library.compile("^%{IP:ip}:%{INT:port} %{USER:user} (?P<x>to )?%{WORD:door}$").expect("grok");
        let pattern = LinePattern::of_grok(&pattern);
        let text = "192.0.2.7:22 ann to west\n";
        let groups = pattern.search(text).expect("steps").expect("match");
        let shown = |(number, name): &(usize, Arc<str>)| {
            let (start, end) = groups.range(*number)?;
            Some(format!("{name}={}", &text[start..end]))
        };
        let mut shown: Vec<String> = pattern.names().iter().filter_map(shown).collect();
        shown.sort();
        assert_eq!(shown, ["door=west", "fport=22", "ip4=192.0.2.7", "user=ann"]);
        assert!(pattern.is_linear());
    }

    #[test]
    fn steps_back_are_bounded() {
        let pattern = LinePattern::new(r"^(a|aa)+(?=!)\1!!$", LineAnchors::Text).expect("pattern");
        assert_eq!(pattern.search(&format!("{}!a!!", "a".repeat(60))), Err(StepLimitError));
    }
}
