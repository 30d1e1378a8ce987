//! Problems of configured values: the place, the fault and the mend.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use judge::Severity;

/// A text that values were read from.
#[derive(Debug)]
pub struct ConfigSource {
    /// The kind of the text, for `--effective`.
    pub kind: SourceKind,
    /// The file's path, the preset's name, the environment variable or the flag.
    pub name: String,
    /// The whole text.
    pub text: String,
}

/// The kinds of origin, weakest first: a later one overrides an earlier one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SourceKind {
    /// Built in.
    Default,
    /// A module of presets.
    Module,
    /// A preset of the binary.
    Preset,
    /// A file.
    File,
    /// An environment variable.
    Environment,
    /// A flag of the command line.
    Flag,
}

impl fmt::Display for SourceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SourceKind::Default => "default",
            SourceKind::Module => "module",
            SourceKind::Preset => "preset",
            SourceKind::File => "file",
            SourceKind::Environment => "environment",
            SourceKind::Flag => "flag",
        })
    }
}

/// A place in a source.
#[derive(Clone, Debug)]
pub struct ConfigOrigin {
    /// The text.
    pub source: Arc<ConfigSource>,
    /// Bytes of it.
    pub range: Range<usize>,
}

impl ConfigOrigin {
    /// Line and column, both from 1, the column in characters.
    pub fn line_column(&self) -> (usize, usize) {
        let text = &self.source.text;
        let start = floor_boundary(text, self.range.start);
        let line_start = text[..start].rfind('\n').map_or(0, |newline| newline + 1);
        (text[..start].matches('\n').count() + 1, text[line_start..start].chars().count() + 1)
    }

    /// A part of this place: `inner` counts bytes from the place's start.
    pub fn within(&self, inner: Range<usize>) -> ConfigOrigin {
        let start = (self.range.start + inner.start).min(self.range.end);
        let end = (self.range.start + inner.end).clamp(start, self.range.end);
        ConfigOrigin { source: Arc::clone(&self.source), range: start..end }
    }
}

impl fmt::Display for ConfigOrigin {
    /// `file tollhouse.toml:12:9`, `preset mail:3:1`, `environment TOLLHOUSE_X`, `default`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (line, column) = self.line_column();
        match self.source.kind {
            SourceKind::Default => write!(f, "default"),
            SourceKind::Preset | SourceKind::Module | SourceKind::File => {
                write!(f, "{} {}:{line}:{column}", self.source.kind, self.source.name)
            }
            SourceKind::Environment | SourceKind::Flag => {
                write!(f, "{} {}", self.source.kind, self.source.name)
            }
        }
    }
}

/// The largest character boundary that is not beyond `index` or the text's end.
fn floor_boundary(text: &str, index: usize) -> usize {
    let mut index = index.min(text.len());
    while !text.is_char_boundary(index) {
        index -= 1;
    }
    index
}

/// One thing that is wrong, or suspicious.
#[derive(Clone, Debug)]
pub struct ConfigProblem {
    /// The severity, which says if the configuration is refused for the problem.
    pub severity: Severity,
    /// The place of the fault.
    pub origin: ConfigOrigin,
    /// The description of the problem, naming the offending piece.
    pub message: String,
    /// The help: what was expected, or the mend.
    pub help: Option<String>,
}

impl fmt::Display for ConfigProblem {
    /// The message behind file, line and column, then the line with the place marked.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let source = &self.origin.source;
        let (line, column) = self.origin.line_column();
        let what = self.severity.name();
        writeln!(f, "{}:{line}:{column}: {what}: {}", source.name, self.message)?;
        let start = floor_boundary(&source.text, self.origin.range.start);
        let line_start = source.text[..start].rfind('\n').map_or(0, |newline| newline + 1);
        let line_text = source.text[line_start..].lines().next().unwrap_or_default();
        let end = floor_boundary(&source.text, self.origin.range.end).min(line_start + line_text.len());
        let marks = source.text.get(start..end).map_or(0, |piece| piece.chars().count()).max(1);
        // A very long line is shown around the place only.
        let (shown, indent) = window(line_text, column - 1);
        writeln!(f, "{line:>5} | {shown}")?;
        write!(
            f,
            "      | {}{}",
            " ".repeat(indent),
            "^".repeat(marks.min(WIDTH_MAX.saturating_sub(indent).max(1)))
        )?;
        if let Some(help) = &self.help {
            write!(f, " {help}")?;
        }
        Ok(())
    }
}

/// Characters of a source line that are shown.
const WIDTH_MAX: usize = 160;

/// The part of a line around a column, with tabs and control characters as blanks so that the marks line up.
fn window(line: &str, column: usize) -> (String, usize) {
    let skip =
        if column > WIDTH_MAX / 2 && line.chars().count() > WIDTH_MAX { column - WIDTH_MAX / 2 } else { 0 };
    let shown =
        line.chars().skip(skip).take(WIDTH_MAX).map(|c| if c.is_control() { ' ' } else { c }).collect();
    (shown, column - skip)
}

/// All that is wrong with a configuration; never empty when it is returned as an error.
#[derive(Clone, Debug, Default)]
pub struct ConfigProblems {
    list: Vec<ConfigProblem>,
}

impl ConfigProblems {
    /// Errors that are kept, and warnings; beyond it they are only noise.
    const MAX: usize = 200;

    /// Adds an error.
    pub fn add(&mut self, origin: &ConfigOrigin, message: impl Into<String>, help: Option<String>) {
        self.push(Severity::Error, origin, message.into(), help);
    }

    /// Adds one of either kind.
    pub fn push(&mut self, severity: Severity, origin: &ConfigOrigin, message: String, help: Option<String>) {
        // Warnings leave errors their room.
        if self.list.iter().filter(|problem| problem.severity == severity).count() < ConfigProblems::MAX {
            self.list.push(ConfigProblem { severity, origin: origin.clone(), message, help });
        }
    }

    /// Adds all of others.
    pub(crate) fn extend(&mut self, others: ConfigProblems) {
        for ConfigProblem { severity, origin, message, help } in others.list {
            self.push(severity, &origin, message, help);
        }
    }

    /// The warnings, or all of it where there are errors among it; in the order of the sources.
    pub(crate) fn refuse(self) -> Result<ConfigProblems, ConfigProblems> {
        let refused = self.list.iter().any(|problem| problem.severity == Severity::Error);
        if refused { Err(self.sorted()) } else { Ok(self.sorted()) }
    }

    /// Forgets all but the first.
    pub fn truncate(&mut self, count: usize) {
        self.list.truncate(count);
    }

    /// Returns true if nothing is wrong.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Returns the problems, in the order of the sources.
    pub fn list(&self) -> &[ConfigProblem] {
        &self.list
    }

    /// In the order of the sources.
    pub(crate) fn sorted(mut self) -> ConfigProblems {
        self.list.sort_by(|a, b| {
            let place =
                |problem: &ConfigProblem| (problem.origin.source.name.clone(), problem.origin.range.start);
            place(a).cmp(&place(b))
        });
        // A candidate says again what is said of the rules that it leaves as they are.
        self.list.dedup_by(|one, other| {
            (&one.origin.source.name, &one.origin.range, &one.message)
                == (&other.origin.source.name, &other.origin.range, &other.message)
        });
        self
    }
}

impl fmt::Display for ConfigProblems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for problem in &self.list {
            writeln!(f, "{problem}")?;
        }
        let warnings = self.list.iter().filter(|problem| problem.severity == Severity::Warning).count();
        let errors = self.list.len() - warnings;
        let counted =
            |count: usize, what: &str| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
        match (errors, warnings) {
            (_, 0) => f.write_str(&counted(errors, "error")),
            (0, _) => f.write_str(&counted(warnings, "warning")),
            _ => write!(f, "{}, {}", counted(errors, "error"), counted(warnings, "warning")),
        }
    }
}

impl std::error::Error for ConfigProblems {}

/// "did you mean": the candidate nearest to a misspelt name, if any is near.
pub fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    candidates
        .into_iter()
        .map(|candidate| (strsim::damerau_levenshtein(name, candidate), candidate))
        .filter(|(distance, candidate)| {
            *distance <= 1 + candidate.chars().count().min(name.chars().count()) / 3
        })
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// `did you mean X?` with all candidates behind it, or only the candidates.
pub fn expected<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str> + Clone) -> String {
    const NAMED_MAX: usize = 24;
    let all: Vec<&str> = candidates.clone().into_iter().take(NAMED_MAX + 1).collect();
    let list =
        if all.len() > NAMED_MAX { format!("{}, ...", all[..NAMED_MAX].join(", ")) } else { all.join(", ") };
    match nearest(name, candidates) {
        Some(near) => format!("did you mean `{near}`? expected one of: {list}"),
        None if all.is_empty() => "none is defined".to_owned(),
        None => format!("expected one of: {list}"),
    }
}

/// The place of a range of a TOML string's value: exact where the string has no escapes.
pub(crate) fn inside(origin: &ConfigOrigin, value: &str, range: Range<usize>) -> ConfigOrigin {
    let raw = origin.source.text.get(origin.range.clone()).unwrap_or_default();
    match raw.find(value) {
        Some(start) => origin.within(start + range.start..start + range.end),
        None => origin.clone(),
    }
}

/// A text that no file holds, as errors name it.
pub(super) fn source(name: &str, text: &str) -> Arc<ConfigSource> {
    Arc::new(ConfigSource { kind: SourceKind::File, name: name.to_owned(), text: text.to_owned() })
}
