//! Texts of which each match of a pattern has at least one: by them one pass over a line finds the patterns worth trying.

use regex_syntax::hir::{Class, Hir, HirKind};

/// Most texts of one pattern; one that needs more of them is always tried.
const TEXTS_MAX: usize = 64;
/// Most bytes of a text.
const TEXT_BYTES_MAX: usize = 64;
/// Least bytes of a text: shorter ones are in every line.
const TEXT_BYTES_MIN: usize = 2;
/// Most levels of a pattern that are looked at.
const DEPTH_MAX: usize = 100;

/// Returns texts in lower case of which each match has one, whatever its case; none if the pattern does not need any.
pub(crate) fn required_texts(pattern: &str) -> Vec<Vec<u8>> {
    let Ok(hir) = regex_syntax::parse(pattern) else { return Vec::new() };
    let mut texts = match needs(&hir, 0) {
        Need::Exactly(text) if text.len() >= TEXT_BYTES_MIN => vec![text],
        Need::OneOf(texts) => texts,
        Need::Exactly(_) | Need::Nothing => return Vec::new(),
    };
    for text in &mut texts {
        text.truncate(TEXT_BYTES_MAX);
    }
    texts.sort_unstable();
    texts.dedup();
    texts
}

/// Text that a part of a pattern needs.
enum Need {
    /// The part matches this text and no other.
    Exactly(Vec<u8>),
    /// A match of the part has one of these, each of two bytes or more.
    OneOf(Vec<Vec<u8>>),
    /// The part may match without any text that is known.
    Nothing,
}

fn needs(hir: &Hir, depth: usize) -> Need {
    if depth > DEPTH_MAX {
        return Need::Nothing;
    }
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => Need::Exactly(Vec::new()),
        HirKind::Literal(literal) => Need::Exactly(literal.0.to_ascii_lowercase()),
        HirKind::Class(class) => {
            one_letter(class).map_or(Need::Nothing, |letter| Need::Exactly(vec![letter]))
        }
        HirKind::Capture(capture) => needs(&capture.sub, depth + 1),
        HirKind::Repetition(repetition) if repetition.min >= 1 => match needs(&repetition.sub, depth + 1) {
            Need::Exactly(text) if repetition.max != Some(1) => one_of(vec![text]),
            need => need,
        },
        HirKind::Repetition(_) => Need::Nothing,
        HirKind::Concat(parts) => concatenation(parts, depth),
        HirKind::Alternation(branches) => alternation(branches, depth),
    }
}

fn one_of(texts: Vec<Vec<u8>>) -> Need {
    let is_usable = texts.iter().all(|text| text.len() >= TEXT_BYTES_MIN) && texts.len() <= TEXTS_MAX;
    if is_usable && !texts.is_empty() { Need::OneOf(texts) } else { Need::Nothing }
}

fn concatenation(parts: &[Hir], depth: usize) -> Need {
    let mut run = Vec::new();
    let mut best: Option<Vec<Vec<u8>>> = None;
    let mut is_exact = true;
    let mut offer = |texts: Vec<Vec<u8>>| {
        // Long texts are rare ones; of equals, fewer.
        let worth = |texts: &[Vec<u8>]| {
            (texts.iter().map(Vec::len).min().unwrap_or(0), std::cmp::Reverse(texts.len()))
        };
        if let Need::OneOf(texts) = one_of(texts)
            && best.as_ref().is_none_or(|best| worth(&texts) > worth(best))
        {
            best = Some(texts);
        }
    };
    for part in parts {
        match needs(part, depth + 1) {
            Need::Exactly(text) => run.extend_from_slice(&text),
            need => {
                is_exact = false;
                offer(vec![std::mem::take(&mut run)]);
                if let Need::OneOf(texts) = need {
                    offer(texts);
                }
            }
        }
    }
    if is_exact {
        return Need::Exactly(run);
    }
    offer(vec![run]);
    best.map_or(Need::Nothing, Need::OneOf)
}

fn alternation(branches: &[Hir], depth: usize) -> Need {
    let mut texts = Vec::new();
    for branch in branches {
        match needs(branch, depth + 1) {
            Need::Exactly(text) => texts.push(text),
            Need::OneOf(more) => texts.extend(more),
            Need::Nothing => return Need::Nothing,
        }
        if texts.len() > TEXTS_MAX {
            return Need::Nothing;
        }
    }
    one_of(texts)
}

/// Returns the letter in lower case, if a class is one letter in both cases.
fn one_letter(class: &Class) -> Option<u8> {
    let mut letter = None;
    let mut add = |low: u32, high: u32| {
        if low != high || low > 0x7f {
            return false;
        }
        let next = (low as u8).to_ascii_lowercase();
        letter.replace(next).is_none_or(|letter| letter == next)
    };
    let is_one = match class {
        Class::Unicode(class) => {
            class.iter().all(|range| add(u32::from(range.start()), u32::from(range.end())))
        }
        Class::Bytes(class) => {
            class.iter().all(|range| add(u32::from(range.start()), u32::from(range.end())))
        }
    };
    letter.filter(|_| is_one)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_that_a_match_must_have() {
        let check = |pattern: &str, expected: &[&str]| {
            let texts = required_texts(pattern);
            let texts: Vec<&str> =
                texts.iter().map(|text| std::str::from_utf8(text).expect("text")).collect();
            assert_eq!(texts, expected, "{pattern}");
        };
        check(r"\AFailed \S+ for (?P<user>.*) from", &["failed "]);
        check(r"(?:refused|denied) [0-9]+", &["denied", "refused"]);
        check(r"(?i)abuse", &["abu"]);
        check(r"a?b?(?:x|)", &[]);
        check(r"\d+", &[]);
        check(r"(?:ab){2,}c", &["ab"]);
        check(r"(?:one|\d)two", &["two"]);
        check(r"", &[]);
    }
}
