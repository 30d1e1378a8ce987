//! Lists of patterns that are looked for in requests: what scanners ask for, what attacks carry, what clients call
//! themselves.
//!
//! All plain patterns of a list make one automaton (see [`crate::text::phrase`]), which reads each byte of a text once,
//! however many there are; its regular expressions make another. Texts come in lower case.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::ops::Range;

use daachorse::DoubleArrayAhoCorasick;
use regex::{RegexBuilder, RegexSet, RegexSetBuilder};

use crate::list_file::{self, ListError};
use crate::text::character::is_alphanumeric;
use crate::web::request_traits::RecentTraits;

/// Most patterns of a list.
pub const PATTERNS_MAX: usize = 10_000;
/// Longest pattern, in bytes.
pub const PATTERN_BYTES_MAX: usize = 256;
/// Most regular expressions of a list.
pub const EXPRESSIONS_MAX: usize = 200;
/// Largest compiled form of a list's regular expressions, in bytes.
const EXPRESSION_MEMORY_BYTES_MAX: usize = 4 << 20;

/// Places of a text in which a plain pattern counts, as bits: one pattern may be listed in several ways.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct MatchPlaces(u8);

impl MatchPlaces {
    const ANYWHERE: MatchPlaces = MatchPlaces(1);
    const PREFIX: MatchPlaces = MatchPlaces(2);
    const SEGMENT: MatchPlaces = MatchPlaces(4);
    const WORD: MatchPlaces = MatchPlaces(8);

    fn has(self, place: MatchPlaces) -> bool {
        self.0 & place.0 != 0
    }

    /// Returns whether a pattern that stands at this range of a text counts there.
    fn accept(self, text: &str, range: Range<usize>) -> bool {
        let is_alone = |is_border: fn(char) -> bool| {
            text[..range.start].chars().next_back().is_none_or(is_border)
                && text[range.end..].chars().next().is_none_or(is_border)
        };
        self.has(MatchPlaces::ANYWHERE)
            || self.has(MatchPlaces::PREFIX) && range.start == 0
            || self.has(MatchPlaces::SEGMENT) && is_alone(|c| c == '/')
            || self.has(MatchPlaces::WORD) && is_alone(|c| !is_alphanumeric(c))
    }
}

/// A compiled list of patterns.
#[derive(Default)]
pub struct PatternList {
    /// Gives the number of a pattern; none where the list has no plain one.
    automaton: Option<DoubleArrayAhoCorasick<u32>>,
    /// The places of matches, by number.
    places: Vec<MatchPlaces>,
    expressions: Option<RegexSet>,
    exceptions: Vec<String>,
}

impl fmt::Debug for PatternList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let expressions = self.expressions.as_ref().map_or(0, RegexSet::len);
        write!(f, "PatternList({} plain, {expressions} regular expressions)", self.places.len())
    }
}

impl PatternList {
    /// Reads and compiles a list: a pattern a line, the way in which it is looked for and the pattern with a tab between.
    /// Empty lines and such as begin with `#` are left out.
    ///
    /// ```
    /// use content::web::pattern::PatternList;
    ///
    /// let list = PatternList::parse("# Admin pages.\nsegment\tphpmyadmin\nregex\t^/wp-[a-z]+\\.php$\n")?;
    /// assert!(list.matches("/x/phpmyadmin/") && !list.matches("/blog/phpmyadmin-tips"));
    /// assert!(list.matches("/wp-login.php"));
    /// # Ok::<(), content::list_file::ListError>(())
    /// ```
    ///
    /// # Errors
    /// The first line that is no pattern, or one pattern too many.
    pub fn parse(text: &str) -> Result<PatternList, ListError> {
        let mut plain: HashMap<String, MatchPlaces> = HashMap::new();
        let (mut expressions, mut exceptions) = (Vec::new(), Vec::new());
        let mut count = 0;
        for (from, line) in list_file::entries(text) {
            let range = from..from + line.len();
            let refuse = |message: String, help: &str| ListError {
                range: range.clone(),
                message,
                help: (!help.is_empty()).then(|| help.to_owned()),
            };
            count += 1;
            if count > PATTERNS_MAX {
                return Err(refuse(format!("a list has at most {PATTERNS_MAX} patterns"), ""));
            }
            let Some((way, pattern)) = line.split_once('\t') else {
                let help = "write a way of matching and a pattern, with a tab between";
                return Err(refuse("the line has no tab".to_owned(), help));
            };
            if pattern.is_empty() || pattern.len() > PATTERN_BYTES_MAX {
                return Err(refuse(format!("a pattern has 1 to {PATTERN_BYTES_MAX} bytes"), ""));
            }
            let place = match way.trim() {
                "anywhere" => MatchPlaces::ANYWHERE,
                "prefix" => MatchPlaces::PREFIX,
                "segment" => MatchPlaces::SEGMENT,
                "word" => MatchPlaces::WORD,
                "except" => {
                    exceptions.push(unescape(pattern).map_err(|message| refuse(message, ESCAPES))?);
                    continue;
                }
                "regex" => {
                    let alone = RegexBuilder::new(pattern)
                        .case_insensitive(true)
                        .size_limit(EXPRESSION_MEMORY_BYTES_MAX)
                        .build();
                    alone.map_err(|error| refuse(fault(&error), ""))?;
                    if expressions.len() == EXPRESSIONS_MAX {
                        let message = format!("a list has at most {EXPRESSIONS_MAX} regular expressions");
                        return Err(refuse(message, ""));
                    }
                    expressions.push(pattern);
                    continue;
                }
                _ => {
                    let shown: String = way.chars().take(40).collect();
                    let message = format!("`{}` is no way of matching", shown.escape_debug());
                    return Err(refuse(
                        message,
                        "expected one of anywhere, except, prefix, regex, segment, word",
                    ));
                }
            };
            let pattern = unescape(pattern).map_err(|message| refuse(message, ESCAPES))?;
            plain.entry(pattern).or_default().0 |= place.0;
        }
        let whole = |message: String| ListError { range: 0..0, message, help: None };
        let (patterns, places): (Vec<String>, Vec<MatchPlaces>) = plain.into_iter().unzip();
        let automaton = match patterns.is_empty() {
            true => None,
            false => Some(DoubleArrayAhoCorasick::new(patterns).map_err(|error| whole(error.to_string()))?),
        };
        let expressions = match expressions.is_empty() {
            true => None,
            false => {
                let set = RegexSetBuilder::new(expressions)
                    .case_insensitive(true)
                    .size_limit(EXPRESSION_MEMORY_BYTES_MAX)
                    .build();
                Some(set.map_err(|error| whole(fault(&error)))?)
            }
        };
        Ok(PatternList { automaton, places, expressions, exceptions })
    }

    /// Returns whether a text in lower case has any of the patterns. Linear in the text.
    pub fn matches(&self, text: &str) -> bool {
        let mut text = Cow::Borrowed(text);
        for exception in &self.exceptions {
            if text.contains(exception.as_str()) {
                text = Cow::Owned(text.replace(exception, ""));
            }
        }
        let text: &str = &text;
        let has_plain = self.automaton.as_ref().is_some_and(|automaton| {
            automaton.find_overlapping_iter(text).any(|found| {
                let places = self.places.get(found.value() as usize).copied().unwrap_or_default();
                places.accept(text, found.start()..found.end())
            })
        });
        has_plain || self.expressions.as_ref().is_some_and(|expressions| expressions.is_match(text))
    }
}

const ESCAPES: &str = "a backslash is written `\\\\`, another byte of ASCII `\\x20`";

/// The pattern that a line has, in lower case.
fn unescape(pattern: &str) -> Result<String, String> {
    let mut out = String::with_capacity(pattern.len());
    let mut rest = pattern;
    while let Some((before, after)) = rest.split_once('\\') {
        out.push_str(before);
        rest = if let Some(after) = after.strip_prefix('\\') {
            out.push('\\');
            after
        } else {
            let digits = after.strip_prefix('x').and_then(|after| after.get(..2));
            let byte = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()).filter(u8::is_ascii);
            out.push(char::from(byte.ok_or("the pattern has a backslash before something else")?));
            &after[3..]
        };
    }
    out.push_str(rest);
    Ok(out.to_ascii_lowercase())
}

/// The fault of a regular expression in one line.
fn fault(error: &regex::Error) -> String {
    match error {
        regex::Error::CompiledTooBig(_) => {
            format!("the regular expressions take more than {} MiB", EXPRESSION_MEMORY_BYTES_MAX >> 20)
        }
        error => {
            let text = error.to_string();
            let last = text.lines().last().unwrap_or_default();
            format!("the regular expression is wrong: {}", last.trim_start_matches("error: "))
        }
    }
}

/// The lists that features of requests are made by. Without patterns, no fact of theirs is true.
#[derive(Debug, Default)]
pub struct RequestPatterns {
    /// Paths that scanners ask for.
    pub probes: PatternList,
    /// Paths that only exploits and scanners ask for.
    pub exploits: PatternList,
    /// Code in path, query, agent and referer.
    pub attacks: PatternList,
    /// Paths that programs use: interfaces of known applications.
    pub interfaces: PatternList,
    /// Agents that are libraries, tools and scanners.
    pub tools: PatternList,
    /// Agents that declare themselves robots.
    pub robots: PatternList,
    /// The traits that were found by them of late.
    pub(crate) recent: RecentTraits,
}

impl RequestPatterns {
    /// The lists, each asked for by its name.
    ///
    /// # Errors
    /// The first that `list` gives.
    pub fn compile<E>(
        mut list: impl FnMut(&'static str) -> Result<PatternList, E>,
    ) -> Result<RequestPatterns, E> {
        Ok(RequestPatterns {
            probes: list("probes")?,
            exploits: list("exploits")?,
            attacks: list("attacks")?,
            interfaces: list("interfaces")?,
            tools: list("tools")?,
            robots: list("robots")?,
            recent: RecentTraits::default(),
        })
    }

    /// The lists of the presets, from their files.
    #[cfg(test)]
    pub(crate) fn of_the_presets() -> RequestPatterns {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../presets/lists");
        RequestPatterns::compile(|name| {
            let path = folder.join(name).with_extension("txt");
            PatternList::parse(&std::fs::read_to_string(path).unwrap())
        })
        .unwrap()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn patterns_are_found_as_the_line_says() {
        let check = |line: &str, found: &[&str], not_found: &[&str]| {
            let list = PatternList::parse(line).unwrap();
            for text in found {
                assert!(list.matches(text), "{line:?} in {text:?}");
            }
            for text in not_found {
                assert!(!list.matches(text), "{line:?} in {text:?}");
            }
        };
        check("anywhere\t/.ENV", &["/.env", "/x/.env.bak"], &["/env", ""]);
        check("prefix\t/cgi-bin/", &["/cgi-bin/x"], &["/x/cgi-bin/x"]);
        check("segment\t.git", &["/.git", "/x/.git/config", ".git"], &["/.github", "/x.git"]);
        check("word\tcurl", &["curl/8", "a (curl)", "curl"], &["curly", "libcurl4"]);
        check("word\tbot\nexcept\tcu-bot", &["bot", "cu-bot bot"], &["cu-bot", "robot"]);
        check("regex\t^/wp-[a-z]+\\.php$", &["/wp-login.php"], &["/x/wp-login.php"]);
        check("anywhere\t\\x20or\\x20\nanywhere\t..\\\\..", &["a or b", "..\\.."], &["for", "../.."]);
        check("# Nothing.\n\n", &[], &["", "x"]);
        // One pattern in two ways counts in both.
        check("segment\ta\nprefix\ta", &["ab", "x/a"], &["xa"]);
    }

    #[test]
    fn a_wrong_line_is_said_with_its_place() {
        let check = |text: &str, place: &str, message: &str| {
            let error = PatternList::parse(text).unwrap_err();
            assert_eq!((&text[error.range.clone()], error.to_string().as_str()), (place, message));
        };
        check("word\ta\nwords\tb\n", "words\tb", "`words` is no way of matching");
        check("word a", "word a", "the line has no tab");
        check("word\t", "word\t", "a pattern has 1 to 256 bytes");
        check("word\ta\\n", "word\ta\\n", "the pattern has a backslash before something else");
        check("word\ta\\xe4", "word\ta\\xe4", "the pattern has a backslash before something else");
        check("regex\t(a", "regex\t(a", "the regular expression is wrong: unclosed group");
        let large = "regex\t(\\pL{1000}){100}";
        check(large, large, "the regular expressions take more than 4 MiB");
        let many = "regex\ta\n".repeat(EXPRESSIONS_MAX + 1);
        check(&many, "regex\ta", "a list has at most 200 regular expressions");
        let many: String = (0..=PATTERNS_MAX).map(|number| format!("word\t{number}\n")).collect();
        check(&many, "word\t10000", "a list has at most 10000 patterns");
    }

    proptest! {
        #[test]
        fn any_text_is_a_list_or_an_error_within_it(text in "(?s)((word|segment|regex|except|prefix)\t)?.{0,40}", of in ".{0,40}") {
            match PatternList::parse(&text) {
                Ok(list) => { let _ = list.matches(&of); }
                Err(error) => prop_assert!(text.get(error.range).is_some()),
            }
        }
    }
}
