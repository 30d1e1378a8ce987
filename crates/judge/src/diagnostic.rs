//! Faults of conditions, each with its place and its mend.

use std::fmt;
use std::ops::Range;

/// The severity of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// The condition is refused.
    Error,
    /// The condition is accepted, and probably not what was meant.
    Warning,
}

impl Severity {
    /// The word for it: `error` or `warning`.
    pub fn name(self) -> &'static str {
        match self {
            Severity::Error => "error",
            Severity::Warning => "warning",
        }
    }
}

/// One thing that is wrong with a condition or an effect, or suspicious about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// The severity: whether it is refused.
    pub severity: Severity,
    /// The fault, without a full stop.
    pub message: String,
    /// The range in bytes of the condition's source, on character boundaries.
    pub range: Range<usize>,
    /// The mend, without a full stop.
    pub help: Option<String>,
}

/// Longest piece of a source line that [`Diagnostic::render`] shows, in characters.
const LINE_CHARS_MAX: usize = 100;

impl Diagnostic {
    pub(crate) fn new(message: impl Into<String>, range: Range<usize>) -> Diagnostic {
        Diagnostic { severity: Severity::Error, message: message.into(), range, help: None }
    }

    pub(crate) fn warning(mut self) -> Diagnostic {
        self.severity = Severity::Warning;
        self
    }

    pub(crate) fn maybe_help(mut self, help: Option<String>) -> Diagnostic {
        self.help = help;
        self
    }

    pub(crate) fn help(mut self, help: impl Into<String>) -> Diagnostic {
        self.help = Some(help.into());
        self
    }

    /// The message, the line of `source` it is about with carets beneath, and the help:
    ///
    /// ```text
    /// unknown name `mail.subjet`
    ///   | mail.subjet == 'a'
    ///   | ^^^^^^^^^^^
    ///   = did you mean `mail.subject`?
    /// ```
    ///
    /// A warning begins with `warning: `. Of a long line only what is next to the place is shown. A range outside `source`
    /// shows no line.
    pub fn render(&self, source: &str) -> String {
        let mut out = match self.severity {
            Severity::Error => self.message.clone(),
            Severity::Warning => format!("warning: {}", self.message),
        };
        if let Some((line, carets)) = self.excerpt(source) {
            out.push_str(&format!("\n  | {line}\n  | {carets}"));
        }
        if let Some(help) = &self.help {
            out.push_str(&format!("\n  = {help}"));
        }
        out
    }

    fn excerpt(&self, source: &str) -> Option<(String, String)> {
        let (before, from) = (source.get(..self.range.start)?, source.get(self.range.start..)?);
        let marked = source.get(self.range.clone())?;
        let head = before.rsplit('\n').next().unwrap_or_default();
        let tail = from.lines().next().unwrap_or_default();
        if head.is_empty() && tail.is_empty() {
            return None;
        }
        let fits = head.chars().count() + tail.chars().count() <= LINE_CHARS_MAX;
        let skipped = if fits { 0 } else { head.chars().count().saturating_sub(LINE_CHARS_MAX / 2) };
        let head: String = head.chars().skip(skipped).collect();
        let room = LINE_CHARS_MAX.saturating_sub(head.chars().count()).max(1);
        let shown: String = tail.chars().take(room).collect();
        let line = format!(
            "{}{head}{shown}{}",
            if skipped > 0 { "…" } else { "" },
            if shown.len() < tail.len() { "…" } else { "" }
        );
        let width = marked.lines().next().unwrap_or_default().chars().count().clamp(1, room);
        let indent = head.chars().count() + usize::from(skipped > 0);
        let line = line.chars().map(|c| if c.is_control() { ' ' } else { c }).collect::<String>();
        Some((line.trim_end().to_owned(), format!("{}{}", " ".repeat(indent), "^".repeat(width))))
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        match &self.help {
            Some(help) => write!(f, " ({help})"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Diagnostic {}

/// Longest name for which a near one is sought, in bytes: beyond it the search costs more than it helps.
const NAME_BYTES_MAX: usize = 64;

/// `did you mean ...?` for the candidate nearest to `name`, if one is near.
pub(crate) fn did_you_mean<S: AsRef<str>>(
    name: &str,
    candidates: impl IntoIterator<Item = S>,
) -> Option<String> {
    if name.len() > NAME_BYTES_MAX {
        return None;
    }
    let far = name.chars().count().div_ceil(3);
    candidates
        .into_iter()
        .filter(|candidate| candidate.as_ref().len() <= NAME_BYTES_MAX)
        .map(|candidate| (strsim::osa_distance(name, candidate.as_ref()), candidate))
        .filter(|(distance, _)| *distance <= far)
        .min_by(|(a, x), (b, y)| a.cmp(b).then_with(|| x.as_ref().cmp(y.as_ref())))
        .map(|(_, candidate)| format!("did you mean `{}`?", candidate.as_ref()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn carets_stand_beneath_what_is_meant() {
        let check = |source: &str, range: Range<usize>, expected: &str| {
            assert_eq!(Diagnostic::new("m", range).render(source), expected);
        };
        check("ab > é + 1", 5..7, "m\n  | ab > é + 1\n  |      ^");
        check("a >\n\tb + c", 5..6, "m\n  |  b + c\n  |  ^");
        check("a >", 3..3, "m\n  | a >\n  |    ^");
        check("a", 7..9, "m");
        check("é", 1..2, "m");
        let long = format!("{} + {}", "a".repeat(80), "b".repeat(80));
        check(
            &long,
            83..163,
            &format!(
                "m\n  | …{} + {}…\n  | {}{}",
                "a".repeat(47),
                "b".repeat(50),
                " ".repeat(51),
                "^".repeat(50)
            ),
        );
    }

    #[test]
    fn only_near_names_are_offered() {
        let names = ["mail.subject", "mail.size"];
        assert_eq!(did_you_mean("mail.subjet", names).as_deref(), Some("did you mean `mail.subject`?"));
        assert_eq!(did_you_mean("http.status", names), None);
    }
}
