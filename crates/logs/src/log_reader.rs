//! Lines of one kind of log → events: a date is taken out, a prefix read, and the first pattern that matches says what happened.
//!
//! ```text
//! line ─► date ─► prefix ─► pattern ─┬─► event
//!                                    ├─► pending: known by its session's id, no address yet
//!                                    └─► harmless: what the pattern says is no failure
//! ```
//!
//! Lines of a session are joined by an id that the prefix or a pattern gives (`mlfid`): an address that one line has is
//! known for the next. A pattern may also span several lines. Both are fail2ban's way, whose filters are read unchanged
//! ([`fail2ban`](crate::fail2ban)). Names of groups mean what they mean there:
//!
//! | group | meaning |
//! |---|---|
//! | `ip4`, `ip6`, `dns`, `cidr` | who did it |
//! | `fid` | what is counted, if not the address |
//! | `user`, `fport`, any other | fields of the event; `alt_user_1` is `user` where that is empty |
//! | `content` (of the prefix) | the part of the line that patterns read |
//! | `mlfid` | the session that the line belongs to |
//! | `nofail`, `mlfgained`, `mlfforget` | no failure by itself; a success; the session ends |

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use event::{Span, Time};

use crate::date::DateContext;
use crate::date_detector::{DateDetector, LastDate};
use crate::grok::{GrokError, GrokLibrary};
use crate::line_pattern::{LinePattern, LinePatternError, MatchedGroups, StepLimitError};
use crate::pattern_set::PatternSet;
use crate::python_regex::LineAnchors;

/// Longest line that is read; the rest of a longer one is left out.
pub const LINE_BYTES_MAX: usize = 64 * 1024;
/// Most lines that a pattern may span.
pub const LINES_MAX: usize = 100;
/// Most sessions that are remembered.
const SESSIONS_MAX: usize = 1_000;
/// Longest time that a session is remembered without a line.
const SESSION_AGE_MAX: Span = Span::minutes(5);
/// Longest time that a date holds for lines without one.
const DATE_AGE_MAX: Span = Span::minutes(1);
/// Most bytes of a field.
const FIELD_BYTES_MAX: usize = 1024;
/// Most names of users of one session.
const USERS_MAX: usize = 100;

/// Patterns as configured: regular expressions in Python's syntax, tags such as `<HOST>` replaced.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogPatterns {
    /// The pattern that each line must match first.
    pub prefix: Option<String>,
    /// Patterns of lines that say something.
    pub patterns: Vec<String>,
    /// Grok patterns of lines that say something, searched after `patterns`.
    pub grok: Vec<String>,
    /// Texts of files with named grok patterns, beside the usual ones.
    pub grok_files: Vec<String>,
    /// Patterns of lines that are left out though one of `patterns` matches.
    pub ignored: Vec<String>,
    /// Patterns of dates; all known forms, if none.
    pub dates: Vec<String>,
    /// Most lines that a pattern spans; 0 is 1.
    pub lines: usize,
}

/// A pattern that is none.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{pattern}: {error}")]
pub struct LogPatternError {
    /// The pattern.
    pub pattern: String,
    /// The reason why it is none.
    pub error: LinePatternError,
}

/// A reader of one kind of log, compiled.
pub struct LogLineReader {
    prefix: Option<LinePattern>,
    patterns: PatternSet,
    ignored: PatternSet,
    dates: DateDetector,
    lines: usize,
}

/// An event that a line reported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogEvent {
    /// The time that the line shows; that of the last line or the present, if it shows none.
    pub time: Time,
    /// False if the line shows no date.
    pub is_dated: bool,
    /// The number of the pattern that matched.
    pub pattern: usize,
    /// The id that is counted: what a pattern names so, else the address, network or host.
    pub id: String,
    /// The address, network or name of the host.
    pub host: Option<String>,
    /// Named groups.
    pub fields: BTreeMap<Arc<str>, String>,
}

/// The meaning of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LineReading {
    /// No pattern reads it.
    Unread,
    /// A pattern of lines to leave out matched.
    Ignored,
    /// A pattern matched whose lines are no failures by themselves.
    Harmless,
    /// A pattern matched, but nobody knows yet who it was.
    Pending,
    /// An event.
    Event(Box<LogEvent>),
}

#[derive(Clone, Debug, Default)]
struct Session {
    fields: BTreeMap<Arc<str>, String>,
    users: BTreeSet<String>,
    is_pending: bool,
    seen: Time,
}

/// A line without its date.
#[derive(Clone, Debug)]
struct BufferedLine(String);

/// The memory of a source of lines: one for each source and reader.
#[derive(Debug, Default)]
pub struct LogLineState {
    last_form: LastDate,
    last_date: Option<Time>,
    lines: VecDeque<BufferedLine>,
    sessions: BTreeMap<String, Session>,
    /// Sessions by the time they were first seen.
    order: VecDeque<String>,
    /// The number of searches that took too many steps back.
    pub exceeded: u64,
}

/// Returns the usual grok patterns, and those of files.
pub fn grok_library<'t>(files: impl IntoIterator<Item = &'t str>) -> GrokLibrary {
    let mut library = GrokLibrary::new();
    files.into_iter().for_each(|text| library.add_file(text));
    library
}

impl LogLineReader {
    /// Compiles patterns.
    pub fn new(patterns: &LogPatterns) -> Result<LogLineReader, LogPatternError> {
        let lines = patterns.lines.clamp(1, LINES_MAX);
        let anchors = if lines > 1 { LineAnchors::Lines } else { LineAnchors::Text };
        let compile = |pattern: &String, anchors| {
            LinePattern::new(pattern, anchors)
                .map_err(|error| LogPatternError { pattern: pattern.clone(), error })
        };
        let ignored = patterns
            .ignored
            .iter()
            .map(|pattern| compile(pattern, LineAnchors::Text))
            .collect::<Result<Vec<_>, _>>()?;
        let mut found = patterns
            .patterns
            .iter()
            .map(|pattern| compile(pattern, anchors))
            .collect::<Result<Vec<_>, _>>()?;
        let library = grok_library(patterns.grok_files.iter().map(String::as_str));
        for pattern in &patterns.grok {
            let error = |error: GrokError| LogPatternError { pattern: pattern.clone(), error: error.into() };
            found.push(LinePattern::of_grok(&library.compile(pattern).map_err(error)?));
        }
        let dates: Vec<&str> = patterns.dates.iter().map(String::as_str).collect();
        Ok(LogLineReader {
            prefix: patterns.prefix.as_ref().map(|prefix| compile(prefix, LineAnchors::Text)).transpose()?,
            patterns: PatternSet::new(found),
            ignored: PatternSet::new(ignored),
            dates: DateDetector::new(&dates)
                .map_err(|error| LogPatternError { pattern: patterns.dates.join(", "), error })?,
            lines,
        })
    }

    /// The number of patterns of events.
    pub fn pattern_count(&self) -> usize {
        self.patterns.patterns().len()
    }

    /// The number of patterns that need steps back.
    pub fn backtracking_count(&self) -> usize {
        self.patterns.patterns().iter().filter(|pattern| !pattern.is_linear()).count()
    }

    /// The forms of dates.
    pub(crate) fn dates(&self) -> &DateDetector {
        &self.dates
    }

    /// Reads a line. Its date is looked for, unless what brought the line knows it.
    pub fn read(
        &self,
        line: &str,
        date: Option<Time>,
        context: &DateContext,
        state: &mut LogLineState,
    ) -> LineReading {
        self.read_of_record(line, BTreeMap::new(), date, context, state)
    }

    /// Reads the text of a record that has named groups beside it. Without patterns, each record that says who it was is an event.
    pub(crate) fn read_of_record(
        &self,
        line: &str,
        given: BTreeMap<Arc<str>, String>,
        date: Option<Time>,
        context: &DateContext,
        state: &mut LogLineState,
    ) -> LineReading {
        let line = truncated(line.trim_end_matches(['\r', '\n']), LINE_BYTES_MAX);
        let (text, date) = match date {
            Some(date) => (line.to_owned(), Some(date)),
            None => self.take_date(line, context, state),
        };
        if date.is_some() {
            state.last_date = date;
        }
        let is_dated = date.is_some();
        let recent = state.last_date.filter(|last| *last > context.now - DATE_AGE_MAX);
        let time = date.or(recent).unwrap_or(context.now);

        let mut text = text;
        if self.lines > 1 {
            state.lines.push_back(BufferedLine(text));
            while state.lines.len() > self.lines {
                state.lines.pop_front();
            }
            text = state.lines.iter().flat_map(|line| [line.0.as_str(), "\n"]).collect();
        } else {
            text.push('\n');
        }
        // Cheaper first: few patterns of lines to leave out are asked before many of events.
        let are_few = self.ignored.patterns().len() + 2 < self.patterns.patterns().len();
        if are_few && self.ignored.first_match(&text, &mut state.exceeded).is_some() {
            return LineReading::Ignored;
        }
        let mut fields = given;
        if self.patterns.patterns().is_empty() && !fields.is_empty() {
            return match self.ignored.first_match(&text, &mut state.exceeded) {
                Some(_) => LineReading::Ignored,
                None => self.meaning(0, fields, time, is_dated, context.now, state),
            };
        }
        let mut content = None;
        if let Some(prefix) = &self.prefix {
            // Most lines are of something else: a pass for the patterns' words costs less than the prefix.
            if self.lines == 1 && !self.patterns.may_match(&text) {
                return LineReading::Unread;
            }
            let groups = match prefix.search(&text) {
                Ok(Some(groups)) => groups,
                Ok(None) => return LineReading::Unread,
                Err(StepLimitError) => {
                    state.exceeded += 1;
                    return LineReading::Unread;
                }
            };
            add_groups(prefix, &groups, &text, &mut fields);
            if let Some(part) = fields.remove("content").filter(|part| !part.is_empty()) {
                let (start, end) = group_range(prefix, &groups, "content").unwrap_or((0, 0));
                // The field was cut short; the text is not.
                let part = if start < end { text[start..end].to_owned() } else { part };
                content = Some(part + "\n");
            }
        }
        let searched = content.as_deref().unwrap_or(&text);
        let Some((pattern, groups)) = self.patterns.first_match(searched, &mut state.exceeded) else {
            return LineReading::Unread;
        };
        let found = &self.patterns.patterns()[pattern];
        let matched = if self.lines > 1 && content.is_none() {
            Some(state.take_lines(searched, found, &groups))
        } else {
            None
        };
        if self.ignored.first_match(matched.as_deref().unwrap_or(searched), &mut state.exceeded).is_some() {
            return LineReading::Ignored;
        }
        add_groups(found, &groups, searched, &mut fields);
        self.meaning(pattern, fields, time, is_dated, context.now, state)
    }

    /// Takes the date out of a line.
    fn take_date(
        &self,
        line: &str,
        context: &DateContext,
        state: &mut LogLineState,
    ) -> (String, Option<Time>) {
        let Some(found) = self.dates.find(line, context, &mut state.last_form) else {
            return (line.to_owned(), None);
        };
        let (start, end) = found.taken;
        let mut text = String::with_capacity(line.len() + 1);
        text.push_str(&line[..start]);
        text.push_str(&line[end..]);
        (text, found.time)
    }

    /// Joins what a line says with what its session said before.
    fn meaning(
        &self,
        pattern: usize,
        fields: BTreeMap<Arc<str>, String>,
        time: Time,
        is_dated: bool,
        now: Time,
        state: &mut LogLineState,
    ) -> LineReading {
        let Some(id) = fields.get("mlfid").cloned() else {
            let is_harmless = is_set(&fields, "nofail");
            return match who(&fields) {
                Some(_) if is_harmless => LineReading::Harmless,
                Some((id, host)) => event(pattern, id, host, fields, time, is_dated),
                None => LineReading::Pending,
            };
        };
        let mut fields = fields;
        let gained = is_set(&fields, "mlfgained");
        let mut is_harmless = gained || is_set(&fields, "nofail");
        let forgets = fields.remove("mlfforget").is_some_and(|text| !text.is_empty());
        fields.remove("nofail");
        fields.remove("mlfgained");
        let user = fields.get("user").filter(|user| !user.is_empty()).cloned();
        let mut session = match state.take_session(&id, now) {
            Some(mut session) => {
                if gained {
                    session.is_pending = false;
                }
                // A line that names who did it stands for itself: no form of an earlier address may go before its own.
                if ADDRESS_FIELDS.iter().any(|name| is_set(&fields, name)) {
                    ADDRESS_FIELDS.iter().for_each(|name| _ = session.fields.remove(*name));
                }
                session.fields.append(&mut fields);
                session
            }
            None => Session { fields, ..Session::default() },
        };
        if let Some(user) = user
            && session.users.len() < USERS_MAX
        {
            session.users.insert(user);
        }
        // Failures that wait for their address, or a second name, are failures whatever this line is.
        if std::mem::take(&mut session.is_pending) || session.users.len() > 1 {
            is_harmless = false;
        }
        session.seen = now;
        let reading = match who(&session.fields) {
            _ if is_harmless => LineReading::Harmless,
            Some((id, host)) => event(pattern, id, host, session.fields.clone(), time, is_dated),
            None => {
                session.is_pending = true;
                LineReading::Pending
            }
        };
        if !forgets {
            state.keep_session(id, session);
        }
        reading
    }
}

impl LogLineState {
    /// Takes the lines of a match out of the buffer, but those that the pattern skips over, and returns their text.
    fn take_lines(&mut self, text: &str, pattern: &LinePattern, groups: &MatchedGroups) -> String {
        let (start, end) = groups.range(0).unwrap_or((0, 0));
        let first = text[..start].matches('\n').count();
        let last = text[..end.saturating_sub(1).max(start)].matches('\n').count();
        let skipped: Vec<&str> = pattern
            .names()
            .iter()
            .filter(|(_, name)| name.starts_with("skiplines"))
            .filter_map(|(group, _)| groups.range(*group))
            .flat_map(|(start, end)| text[start..end].lines())
            .collect();
        let mut matched = String::new();
        let mut kept = VecDeque::new();
        for (index, line) in self.lines.drain(..).enumerate() {
            if index < first || index > last || skipped.contains(&line.0.as_str()) {
                kept.push_back(line);
            } else {
                matched.push_str(&line.0);
                matched.push('\n');
            }
        }
        self.lines = kept;
        matched
    }

    fn take_session(&mut self, id: &str, now: Time) -> Option<Session> {
        let session = self.sessions.remove(id)?;
        self.order.retain(|known| known != id);
        (session.seen + SESSION_AGE_MAX > now).then_some(session)
    }

    fn keep_session(&mut self, id: String, session: Session) {
        while self.order.len() >= SESSIONS_MAX {
            if let Some(oldest) = self.order.pop_front() {
                self.sessions.remove(&oldest);
            }
        }
        self.order.push_back(id.clone());
        self.sessions.insert(id, session);
    }
}

/// The forms of an address in a line, of which [`who`] takes the first that there is.
const ADDRESS_FIELDS: [&str; 4] = ["ip4", "ip6", "cidr", "dns"];

fn is_set(fields: &BTreeMap<Arc<str>, String>, name: &str) -> bool {
    fields.get(name).is_some_and(|text| !text.is_empty())
}

/// Returns who is counted, and the host.
fn who(fields: &BTreeMap<Arc<str>, String>) -> Option<(String, Option<String>)> {
    let address = fields.get("ip4").or_else(|| fields.get("ip6"));
    let host = match (address, fields.get("cidr")) {
        // A network of full length is its address.
        (Some(address), Some(length)) if *length == if address.contains(':') { "128" } else { "32" } => {
            Some(address.clone())
        }
        (Some(address), Some(length)) => Some(format!("{address}/{length}")),
        (Some(address), None) => Some(address.clone()),
        (None, _) => fields.get("dns").cloned(),
    };
    let id = fields.get("fid").cloned().or_else(|| host.clone())?;
    Some((id, host))
}

fn event(
    pattern: usize,
    id: String,
    host: Option<String>,
    fields: BTreeMap<Arc<str>, String>,
    time: Time,
    is_dated: bool,
) -> LineReading {
    LineReading::Event(Box::new(LogEvent { time, is_dated, pattern, id, host, fields }))
}

fn group_range(pattern: &LinePattern, groups: &MatchedGroups, name: &str) -> Option<(usize, usize)> {
    let (group, _) = pattern.names().iter().find(|(_, known)| known.as_ref() == name)?;
    groups.range(*group)
}

/// Adds the named groups of a match. A group that took no part takes away what a prefix said.
fn add_groups(
    pattern: &LinePattern,
    groups: &MatchedGroups,
    text: &str,
    fields: &mut BTreeMap<Arc<str>, String>,
) {
    let mut alternatives: Vec<(&str, String)> = Vec::new();
    let mut parts: Vec<(&str, String)> = Vec::new();
    for (group, name) in pattern.names() {
        let value =
            groups.range(*group).map(|(start, end)| truncated(&text[start..end], FIELD_BYTES_MAX).to_owned());
        if let Some(rest) = name.strip_prefix("alt_") {
            alternatives.extend(value.map(|value| (plain_name(rest), value)));
        } else if let Some(rest) = name.strip_prefix("tuple_") {
            parts.extend(value.map(|value| (plain_name(rest), value)));
        } else if name.starts_with("skiplines") {
            continue;
        } else if let Some(value) = value {
            fields.insert(name.clone(), value);
        } else {
            fields.remove(name.as_ref());
        }
    }
    for (name, value) in alternatives {
        if !value.is_empty() && !is_set(fields, name) {
            fields.insert(Arc::from(name), value);
        }
    }
    for (name, value) in parts {
        let field = fields.entry(Arc::from(name)).or_default();
        if !field.is_empty() {
            field.push(' ');
        }
        field.push_str(&value);
    }
}

/// Returns a name without a number behind it, as groups of fail2ban's are called.
fn plain_name(name: &str) -> &str {
    let name =
        name.trim_end_matches(|character: char| character.is_ascii_digit()).strip_suffix('_').unwrap_or(name);
    match name {
        "id" => "fid",
        "port" => "fport",
        name => name,
    }
}

fn truncated(text: &str, bytes: usize) -> &str {
    let mut end = text.len().min(bytes);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::tz::TimeZone;

    fn reader(prefix: Option<&str>, patterns: &[&str], ignored: &[&str], lines: usize) -> LogLineReader {
        let owned =
            |patterns: &[&str]| patterns.iter().map(|pattern| (*pattern).to_owned()).collect::<Vec<_>>();
        let patterns = LogPatterns {
            prefix: prefix.map(str::to_owned),
            patterns: owned(patterns),
            ignored: owned(ignored),
            lines,
            ..LogPatterns::default()
        };
        LogLineReader::new(&patterns).expect("patterns")
    }

    fn read(reader: &LogLineReader, lines: &[&str]) -> Vec<String> {
        let now: Time = "2005-08-14T10:00:00Z".parse().expect("time");
        let context = DateContext { now, zone: TimeZone::UTC };
        let mut state = LogLineState::default();
        let reading = |line: &&str| match reader.read(line, None, &context, &mut state) {
            LineReading::Event(event) => format!("{} {}", event.id, event.time),
            other => format!("{other:?}"),
        };
        lines.iter().map(reading).collect()
    }

    #[test]
    fn a_line_becomes_an_event_with_its_time() {
        let reader = reader(None, &[r"^ host x: refused (?P<ip4>[\d.]+)$"], &["9$"], 1);
        let readings = read(
            &reader,
            &["Aug 14 09:00:00 host x: refused 1.2.3.4", "Aug 14 09:00:00 host x: refused 1.2.3.9", "other"],
        );
        assert_eq!(readings, ["1.2.3.4 2005-08-14T09:00:00Z", "Ignored", "Unread"]);
    }

    #[test]
    fn lines_of_a_session_are_joined() {
        let prefix = r"^(?P<mlfid> \S+ x\[\d+\]: )(?P<content>.+)$";
        let patterns = [
            "^bad password",
            r"^(?P<nofail>connect) from (?P<ip4>\S+)",
            r"^user (?P<user>\S+) failed",
            r"^refused (?P<ip6>[0-9a-f:]+)",
            r"^(?P<mlfforget>(?P<mlfgained>accepted)) (?P<user>\S+)",
        ];
        let reader = reader(Some(prefix), &patterns, &[], 1);
        let check = |lines: &[&str], expected: &[&str]| {
            let dated: Vec<String> = lines.iter().map(|line| format!("Aug 14 09:00:00 {line}")).collect();
            let dated: Vec<&str> = dated.iter().map(String::as_str).collect();
            let readings = read(&reader, &dated);
            let readings: Vec<&str> =
                readings.iter().map(|text| text.split(' ').next().unwrap_or("")).collect();
            assert_eq!(readings, expected, "{lines:?}");
        };
        check(
            &["h x[1]: connect from 1.1.1.1", "h x[1]: bad password", "h x[2]: bad password"],
            &["Harmless", "1.1.1.1", "Pending"],
        );
        // The address comes late.
        check(&["h x[1]: bad password", "h x[1]: connect from 1.1.1.1"], &["Pending", "1.1.1.1"]);
        check(
            &["h x[1]: connect from 1.1.1.1", "h x[1]: accepted me", "h x[1]: bad password"],
            &["Harmless", "Harmless", "Pending"],
        );
        // The address of a line goes before an earlier one's, in whatever form that was.
        check(
            &["h x[1]: connect from 1.1.1.1", "h x[1]: refused 2001:db8::1", "h x[1]: bad password"],
            &["Harmless", "2001:db8::1", "2001:db8::1"],
        );
        // Another name was tried before.
        check(
            &["h x[1]: connect from 1.1.1.1", "h x[1]: user a failed", "h x[1]: accepted b"],
            &["Harmless", "1.1.1.1", "1.1.1.1"],
        );
    }

    #[test]
    fn a_pattern_spans_lines_and_skips_others() {
        let pattern = r"^ (?P<id>\d+) from (?P<ip4>\S+)$\n(?P<skiplines0>(?:(?:.*\n)*?))^ (?P=id) failed$";
        let reader = reader(None, &[pattern], &[], 5);
        let dated = |line: &str| format!("2005-08-14 09:00:00 {line}");
        let lines: Vec<String> =
            ["1 from 1.1.1.1", "2 from 2.2.2.2", "1 failed", "2 failed"].map(dated).into();
        let readings = read(&reader, &lines.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(
            readings,
            ["Unread", "Unread", "1.1.1.1 2005-08-14T09:00:00Z", "2.2.2.2 2005-08-14T09:00:00Z"]
        );
    }

    #[test]
    fn sessions_are_bounded() {
        let reader = reader(None, &[r"^(?P<mlfid>\d+) no(?P<nofail>)"], &[], 1);
        let context = DateContext { now: Time::from_seconds(1_000_000_000), zone: TimeZone::UTC };
        let mut state = LogLineState::default();
        for session in 0..2 * SESSIONS_MAX {
            reader.read(&format!("{session} no"), None, &context, &mut state);
        }
        assert_eq!((state.sessions.len(), state.order.len()), (SESSIONS_MAX, SESSIONS_MAX));
    }
}
