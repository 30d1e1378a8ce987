//! Texts from outside in lines of the log: short, on one line, without control characters.

use judge::Verdict;

/// Most recipients and rules that a line names.
const NAMED_MAX: usize = 10;

/// A text from outside on one line: control characters become spaces, and what is too long is cut.
pub(crate) fn on_one_line(text: &str, chars_max: usize) -> String {
    let plain = |letter: char| if letter.is_control() { ' ' } else { letter };
    let mut line: String = text.chars().take(chars_max).map(plain).collect();
    if text.chars().nth(chars_max).is_some() {
        line.push('…');
    }
    line
}

/// The rules that fired, and what each has added.
pub(crate) fn rules(verdict: &Verdict) -> String {
    let fired = verdict.reasons.iter().map(|reason| format!("{}({:.1})", reason.rule, reason.score));
    named(verdict.reasons.len(), fired)
}

/// The first of them, and how many more there are.
pub(crate) fn named(count: usize, names: impl Iterator<Item = String>) -> String {
    let mut text = names.take(NAMED_MAX).collect::<Vec<_>>().join(",");
    if count > NAMED_MAX {
        text += &format!(",+{}", count - NAMED_MAX);
    }
    text
}
