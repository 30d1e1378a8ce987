//! Patterns of dates: regular expressions with the fields of `strptime` (`%Y-%m-%d %H:%M:%S`), as fail2ban's
//! `datepattern` writes them.
//!
//! ```text
//! ^\[%d/%b/%Y %H:%M:%S\]   fields, anchored by the pattern itself
//! {^LN-BEG}%ExY%Exm%Exd    two characters that are no letters may stand before it
//! EPOCH                    seconds since 1970, at the line's start, in brackets or in `audit(…:1)`
//! TAI64N                   `@4000000050d7c9a01d4c3b24`
//! {UNB}…, **…**            found inside of words, too
//! {NONE}                   lines have no date
//! ```
//!
//! The first group is what a date takes out of a line.

use event::Time;

use crate::date::{DateContext, DateParts, KnownTime, month, zone_offset};
use crate::line_pattern::{LinePattern, LinePatternError, MatchedGroups};
use crate::python_regex::LineAnchors;

/// The mark that stands for a date known by itself.
const DATE_MARK: &str = "{DATE}";
/// The mark for "at the line's start".
pub(crate) const LINE_START_MARK: &str = "{^LN-BEG}";
/// The mark for "also inside of words".
const UNBOUND_MARK: &str = "{UNB}";
/// A place that is not inside of a word.
const WORD_EDGE: &str = r"(?:(?-u:\b{start-half})|(?-u:\b{end-half}))";

/// Reading of the first group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reading {
    Fields,
    /// Seconds since 1970 with a fraction, in this group.
    Epoch(usize),
    /// Seconds, milliseconds or microseconds since 1970 by the number of digits, in this group.
    LongEpoch(usize),
    Tai64n,
    /// No date at all.
    Nothing,
}

enum Search {
    /// In the syntax of `regex`.
    Linear(regex::Regex),
    /// With references or look-around of the user's.
    Bounded(Box<LinePattern>),
}

/// A pattern of dates, compiled.
pub struct DatePattern {
    search: Search,
    reading: Reading,
    is_anchored: bool,
    /// The group of each field, by its letter.
    fields: Vec<(char, usize)>,
}

/// A date that was found in a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FoundDate {
    /// The byte where the pattern's match begins.
    pub start: usize,
    /// The byte behind the pattern's match.
    pub end: usize,
    /// The bytes of the date itself, which leave the line.
    pub taken: (usize, usize),
    /// The time; `None` if the text is no date after all.
    pub time: Option<Time>,
}

/// Returns the regular expression of a field of `strptime`, each digit as ASCII has it.
fn field(name: &str) -> Option<&'static str> {
    Some(match name {
        "Y" => r"(?P<Y>[0-9]{4})",
        "ExY" => r"(?P<Y>20[0-9]{2})",
        "y" | "Exy" => r"(?P<y>[0-9]{2})",
        "m" => r"(?P<m>1[0-2]|0?[1-9])",
        "Exm" => r"(?P<m>1[0-2]|0[1-9])",
        "d" => r"(?P<d>3[01]|[12][0-9]|[0 ]?[1-9])",
        "Exd" => r"(?P<d>3[01]|[12][0-9]|0[1-9])",
        "H" => r"(?P<H>2[0-3]|[01]?[0-9])",
        "ExH" => r"(?P<H>2[0-3]|[01][0-9])",
        "k" => r" ?(?P<H>[0-2]?[0-9])",
        "Exk" => r" ?(?P<H>2[0-3]|[01]?[0-9])",
        "I" => r"(?P<I>1[0-2]|0[1-9]|[1-9])",
        "l" | "Exl" => r" ?(?P<I>1[0-2]|0?[0-9])",
        "M" => r"(?P<M>[0-5]?[0-9])",
        "ExM" => r"(?P<M>[0-5][0-9])",
        "S" => r"(?P<S>6[01]|[0-5]?[0-9])",
        "ExS" => r"(?P<S>6[01]|[0-5][0-9])",
        // Python reads six digits; Go, Java and container runtimes write nine, with the zone behind them.
        "f" => r"(?P<f>[0-9]{1,9})",
        "p" => r"(?P<p>[aApP][mM])",
        "j" => r"(?P<j>36[0-6]|3[0-5][0-9]|[12][0-9][0-9]|0[1-9][0-9]|00[1-9]|[1-9][0-9]|0[1-9]|[1-9])",
        "w" => r"(?P<w>[0-6])",
        "U" => r"(?P<U>5[0-3]|[0-4]?[0-9])",
        "W" => r"(?P<W>5[0-3]|[0-4]?[0-9])",
        "a" => r"(?P<a>mon|tue|wed|thu|fri|sat|sun)",
        "A" => r"(?P<A>monday|tuesday|wednesday|thursday|friday|saturday|sunday)",
        "b" => r"(?P<b>jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)",
        "B" => {
            r"(?P<B>january|february|march|april|may|june|july|august|september|october|november|december)"
        }
        "Z" => r"(?P<Z>[A-Z]{3,5}|Z)",
        "ExZ" => r"(?P<Z>[A-Z](?:[A-Z]{2,4})?)",
        "z" => r"(?P<z>Z|UTC|GMT|[+\-][01][0-9](?::?[0-9]{2})?)",
        "Exz" => r"(?P<z>(?:[A-Z](?:[A-Z]{2,4})?)?[+\-][01][0-9](?::?[0-9]{2})?|[A-Z](?:[A-Z]{2,4})?)",
        "T" | "X" => r"(?P<H>2[0-3]|[01]?[0-9]):(?P<M>[0-5]?[0-9]):(?P<S>6[01]|[0-5]?[0-9])",
        "%" => "%",
        _ => return None,
    })
}

/// Writes the regular expression of a pattern with fields.
fn with_fields(pattern: &str) -> String {
    let mut regex = String::with_capacity(pattern.len() * 4);
    let mut rest = pattern;
    while let Some(at) = rest.find('%') {
        regex.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        let is_exact = rest.starts_with("Ex") && rest.len() > 2 && rest.is_char_boundary(3);
        let exact = is_exact.then(|| &rest[..3]).and_then(|name| Some((3, field(name)?)));
        let plain = rest.chars().next().and_then(|letter| {
            let length = letter.len_utf8();
            Some((length, field(&rest[..length])?))
        });
        match exact.or(plain) {
            Some((length, text)) => {
                regex.push_str(text);
                rest = &rest[length..];
            }
            None => regex.push('%'),
        }
    }
    regex.push_str(rest);
    regex
}

/// Returns true if a pattern has a field of letters, whose case is not minded.
fn has_letters(pattern: &str) -> bool {
    ["%a", "%A", "%b", "%B", "%p"].iter().any(|field| pattern.contains(field))
}

/// Returns true if a pattern has a group that is numbered and has no name.
fn has_plain_group(regex: &str) -> bool {
    let bytes = regex.as_bytes();
    let mut is_escaped = false;
    let mut in_class = false;
    for (index, &byte) in bytes.iter().enumerate() {
        if is_escaped {
            is_escaped = false;
            continue;
        }
        match byte {
            b'\\' => is_escaped = true,
            b'[' => in_class = true,
            b']' => in_class = false,
            b'(' if !in_class && bytes.get(index + 1) != Some(&b'?') => return true,
            _ => {}
        }
    }
    false
}

/// Text before a pattern's own beginning: opening parentheses and flags.
fn without_openings(regex: &str) -> &str {
    let mut rest = regex;
    loop {
        let next = rest.strip_prefix("(?:").or_else(|| rest.strip_prefix("(?i)"));
        match next.or_else(|| rest.strip_prefix('(').filter(|rest| !rest.starts_with('?'))) {
            Some(next) => rest = next,
            None => return rest,
        }
    }
}

impl DatePattern {
    /// Compiles a pattern as fail2ban's `datepattern` has it, but for [`LINE_START_MARK`] by itself and `{DATE}`,
    /// which stand for several ([`DateDetector`](crate::date_detector::DateDetector)).
    pub fn new(pattern: &str) -> Result<DatePattern, LinePatternError> {
        let mut rest = pattern.trim();
        let mut is_bound = true;
        let mut at_start = false;
        loop {
            if let Some(next) = rest.strip_prefix(UNBOUND_MARK) {
                (rest, is_bound) = (next, false);
            } else if let Some(next) = rest.strip_prefix(LINE_START_MARK) {
                (rest, at_start) = (next, true);
            } else {
                break;
            }
        }
        if rest.eq_ignore_ascii_case("{NONE}") {
            return DatePattern::compile("^()", Reading::Nothing, true);
        }
        let name = if rest.contains('%') { rest.to_owned() } else { rest.to_ascii_uppercase() };
        match name.as_str() {
            "EPOCH" | "LEPOCH" | "^EPOCH" | "^LEPOCH" => {
                return DatePattern::epoch(at_start || name.starts_with('^'), name.ends_with("LEPOCH"));
            }
            "TAI64N" | "^TAI64N" => {
                let start = if at_start || name.starts_with('^') { r"^(?:\W{0,2})?" } else { "" };
                let regex = format!("{start}(@[0-9a-f]{{24}}){WORD_EDGE}");
                return DatePattern::compile(&regex, Reading::Tai64n, !start.is_empty());
            }
            _ => {}
        }
        for (mark, is_long) in [("{EPOCH}", false), ("{LEPOCH}", true)] {
            if let Some(at) = rest.to_ascii_uppercase().find(mark) {
                let (before, after) = (&rest[..at], &rest[at + mark.len()..]);
                let group = 2 + before.matches('(').count()
                    - before.matches("(?").count()
                    - before.matches("\\(").count();
                let regex = format!("({before}({}){after})", epoch_regex(is_long));
                let reading = if is_long { Reading::LongEpoch(group) } else { Reading::Epoch(group) };
                return DatePattern::bounded(&regex, rest, is_bound, at_start, reading);
            }
        }
        DatePattern::bounded(&with_fields(rest), rest, is_bound, at_start, Reading::Fields)
    }

    /// Compiles a pattern in which another one, known by itself, stands for `{DATE}`.
    pub(crate) fn around(pattern: &str, date: &str) -> Result<DatePattern, LinePatternError> {
        let date = date.trim_start_matches(LINE_START_MARK).trim_start_matches(UNBOUND_MARK);
        let mut text = pattern.to_owned();
        while let Some(at) = text.to_ascii_uppercase().find(DATE_MARK) {
            text.replace_range(at..at + DATE_MARK.len(), date);
            // A date has no mark in it, so this ends; hostile patterns are as long as they are.
            if text.len() > crate::python_regex::PATTERN_BYTES_MAX {
                break;
            }
        }
        DatePattern::new(&text)
    }

    /// Returns true if `{DATE}` stands in a pattern.
    pub(crate) fn has_date_mark(pattern: &str) -> bool {
        pattern.to_ascii_uppercase().contains(DATE_MARK)
    }

    fn epoch(at_start: bool, is_long: bool) -> Result<DatePattern, LinePatternError> {
        let seconds = epoch_regex(is_long);
        let (regex, group) = if at_start {
            (format!(r"^(?:\W{{0,2}})?({seconds}){WORD_EDGE}"), 1)
        } else {
            // One group each, of which the one that matched counts.
            (
                format!(
                    r"^(?P<e>{seconds}){WORD_EDGE}|^\[(?P<f>{seconds})\]|\baudit\((?P<g>{seconds}):\d+\)"
                ),
                0,
            )
        };
        let reading = if is_long { Reading::LongEpoch(group) } else { Reading::Epoch(group) };
        DatePattern::compile(&regex, reading, at_start)
    }

    /// Compiles a regular expression with edges of words around it, unless it has its own.
    fn bounded(
        regex: &str,
        pattern: &str,
        is_bound: bool,
        at_start: bool,
        reading: Reading,
    ) -> Result<DatePattern, LinePatternError> {
        let (mut regex, flags) = match regex.strip_prefix("(?i)").or_else(|| regex.strip_prefix("(?iu)")) {
            Some(rest) => (rest.to_owned(), "(?i)"),
            None => (regex.to_owned(), if has_letters(pattern) { "(?i)" } else { "" }),
        };
        let beginning = without_openings(&regex);
        let has_beginning = beginning.starts_with('^') || beginning.starts_with("**");
        let is_anchored =
            at_start || beginning.starts_with('^') || regex.ends_with('$') && !regex.ends_with("\\$");
        let has_end = ["$", "$)", "\\b", "\\s", "**", "**)"].iter().any(|end| regex.ends_with(end))
            && !regex.ends_with("\\$")
            && !regex.ends_with("\\**");
        if !has_plain_group(&regex) {
            let inner = regex.strip_prefix('^').unwrap_or(&regex);
            let start = if inner.len() < regex.len() { "^" } else { "" };
            let (inner, end) = match inner.strip_suffix('$').filter(|inner| !inner.ends_with('\\')) {
                Some(inner) => (inner, "$"),
                None => (inner, ""),
            };
            regex = format!("{start}({inner}){end}");
        }
        regex = regex.replace("**", "");
        if is_bound && !has_beginning {
            let start = if at_start { r"^(?:\W{0,2})?" } else { WORD_EDGE };
            regex.insert_str(0, start);
        }
        if is_bound && !has_end {
            regex.push_str(WORD_EDGE);
        }
        DatePattern::compile(&format!("{flags}{regex}"), reading, is_anchored)
    }

    fn compile(regex: &str, reading: Reading, is_anchored: bool) -> Result<DatePattern, LinePatternError> {
        // Edges of words are no syntax of Python's, so they are written in after the pattern was written over.
        let placeholder = "\u{e000}";
        let pythonic = regex.replace(WORD_EDGE, placeholder);
        let rewritten = crate::python_regex::rewrite(&pythonic, LineAnchors::Text)?;
        let search = if rewritten.steps_back {
            let edge = r"(?:(?<!\w)|(?!\w))";
            Search::Bounded(Box::new(LinePattern::new(&regex.replace(WORD_EDGE, edge), LineAnchors::Text)?))
        } else {
            let regex = rewritten.exact.replace(placeholder, WORD_EDGE);
            let regex = regex::RegexBuilder::new(&regex).size_limit(4 << 20).build();
            Search::Linear(regex.map_err(|error| LinePatternError::Program(error.to_string()))?)
        };
        let letter = |name: &str| name.chars().next().filter(|_| name.len() == 1);
        let fields = match &search {
            Search::Linear(regex) => {
                let names = regex.capture_names().enumerate();
                names.filter_map(|(group, name)| Some((letter(name?)?, group))).collect()
            }
            Search::Bounded(pattern) => {
                pattern.names().iter().filter_map(|(group, name)| Some((letter(name)?, *group))).collect()
            }
        };
        Ok(DatePattern { search, reading, is_anchored, fields })
    }

    /// Returns true if the pattern matches at a line's start or end only.
    pub fn is_anchored(&self) -> bool {
        self.is_anchored
    }

    /// Searches a line for a date.
    pub(crate) fn find(&self, line: &str, context: &DateContext, last: &mut KnownTime) -> Option<FoundDate> {
        match &self.search {
            Search::Linear(regex) => {
                let captures = regex.captures(line)?;
                self.found(line, (context, last), |group| {
                    captures.get(group).map(|group| (group.start(), group.end()))
                })
            }
            Search::Bounded(pattern) => {
                let groups: MatchedGroups = pattern.search(line).ok()??;
                self.found(line, (context, last), |group| groups.range(group))
            }
        }
    }

    fn found(
        &self,
        line: &str,
        (context, last): (&DateContext, &mut KnownTime),
        range: impl Fn(usize) -> Option<(usize, usize)>,
    ) -> Option<FoundDate> {
        let (start, end) = range(0)?;
        let text = |group: usize| range(group).map(|(start, end)| &line[start..end]);
        let (taken, time) = match self.reading {
            Reading::Fields => (range(1).unwrap_or((start, end)), self.time((context, last), text)),
            Reading::Nothing => ((start, start), None),
            Reading::Epoch(0) | Reading::LongEpoch(0) => {
                let taken = (1..=3).find_map(&range)?;
                (taken, seconds(&line[taken.0..taken.1], matches!(self.reading, Reading::LongEpoch(_))))
            }
            Reading::Epoch(group) => (range(1)?, seconds(text(group)?, false)),
            Reading::LongEpoch(group) => (range(1)?, seconds(text(group)?, true)),
            Reading::Tai64n => {
                // Behind `@4`: seconds with 2^62 added, then nanoseconds.
                let taken = range(1)?;
                let digits = line.get(taken.0 + 2..taken.0 + 17)?;
                (taken, i64::from_str_radix(digits, 16).ok().map(Time::from_seconds))
            }
        };
        // A pattern may match nothing where lines need no date.
        Some(FoundDate { start, end, taken, time: time.filter(|_| taken.0 < taken.1) })
    }

    fn time<'l>(
        &self,
        (context, last): (&DateContext, &mut KnownTime),
        text: impl Fn(usize) -> Option<&'l str>,
    ) -> Option<Time> {
        let mut parts = DateParts::default();
        let mut is_afternoon = None;
        let mut hour_of_half = None;
        for &(letter, group) in &self.fields {
            let Some(text) = text(group) else { continue };
            let number = || text.trim().parse::<i16>().ok();
            let small = || text.trim().parse::<i8>().ok();
            match letter {
                'Y' => parts.year = Some(number()?),
                'y' => parts.year = Some(2000 + number()?),
                'm' => parts.month = Some(small()?),
                'b' | 'B' => parts.month = Some(month(text)?),
                'd' => parts.day = Some(small()?),
                'j' => parts.day_of_year = Some(number()?),
                'H' => parts.hour = small()?,
                'I' => hour_of_half = Some(small()?),
                'p' => is_afternoon = Some(text.starts_with(['p', 'P'])),
                'M' => parts.minute = small()?,
                'S' => parts.second = small()?,
                'z' | 'Z' => parts.offset = Some(zone_offset(text)?),
                'f' => parts.microsecond = microseconds(text),
                _ => {}
            }
        }
        if let Some(hour) = hour_of_half {
            parts.hour = hour % 12 + if is_afternoon == Some(true) { 12 } else { 0 };
        }
        last.of(parts, context)
    }
}

fn epoch_regex(is_long: bool) -> &'static str {
    if is_long {
        r"[0-9]{10,11}(?:[0-9]{3}(?:\.[0-9]{1,6}|[0-9]{3})?)?"
    } else {
        r"[0-9]{10,11}\b(?:\.[0-9]{3,6})?"
    }
}

/// Reads seconds since 1970; of long ones, milliseconds and microseconds by their length.
fn seconds(text: &str, is_long: bool) -> Option<Time> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let whole: i64 = whole.parse().ok()?;
    let digits = text.len();
    let (unit, whole) = match (is_long, digits) {
        (true, 16..) if fraction.is_empty() => (1, whole),
        (true, 13..) => (1000, whole.checked_mul(1000)?),
        _ => (1_000_000, whole.checked_mul(1_000_000)?),
    };
    Some(Time(whole.checked_add(i64::from(microseconds(fraction)) * unit / 1_000_000)?))
}

/// Reads digits behind a second's point; those after the sixth are less than a microsecond.
fn microseconds(fraction: &str) -> i32 {
    // A user's own group may match what is no digit.
    let digit = |index| match fraction.as_bytes().get(index) {
        Some(digit @ b'0'..=b'9') => i32::from(digit - b'0'),
        _ => 0,
    };
    (0..6).fold(0, |micros, index| micros * 10 + digit(index))
}
