//! Texts that expressions make: bounded, cut at a character's end, and borrowed where nothing is changed.

use std::borrow::Cow;

use regex::{NoExpand, Regex};

/// Longest text that is made, and most that is looked at of one that another is made of, in bytes.
pub(crate) const TEXT_BYTES_MAX: usize = 16 * 1024;
/// Most items that a text is split into; what follows is left out.
pub(crate) const ITEMS_MAX: usize = 1_000;

/// The part of a text that is looked at.
pub(crate) fn head(text: &str) -> &str {
    &text[..text.floor_char_boundary(TEXT_BYTES_MAX)]
}

/// Appends as much of a text as there is room for.
pub(crate) fn push(text: &mut String, more: &str) {
    let room = TEXT_BYTES_MAX.saturating_sub(text.len());
    text.push_str(&more[..more.floor_char_boundary(room)]);
    text.truncate(text.floor_char_boundary(TEXT_BYTES_MAX));
}

/// The text that `make` makes of the head of another.
pub(crate) fn map<'a>(text: Cow<'a, str>, make: impl Fn(&str) -> Cow<'_, str>) -> Cow<'a, str> {
    match text {
        Cow::Borrowed(text) => make(head(text)),
        Cow::Owned(text) => Cow::Owned(make(head(&text)).into_owned()),
    }
}

/// The text that `make` makes of another, if it makes one.
pub(crate) fn filter_map<'a>(
    text: Cow<'a, str>,
    make: impl Fn(&str) -> Option<Cow<'_, str>>,
) -> Option<Cow<'a, str>> {
    match text {
        Cow::Borrowed(text) => make(head(text)),
        Cow::Owned(text) => make(head(&text)).map(|made| Cow::Owned(made.into_owned())),
    }
}

/// The text in lower case.
pub(crate) fn lower(text: &str) -> Cow<'_, str> {
    if !text.is_ascii() {
        let lower = text.to_lowercase();
        return Cow::Owned(head(&lower).to_owned());
    }
    if text.bytes().any(|byte| byte.is_ascii_uppercase()) {
        Cow::Owned(text.to_ascii_lowercase())
    } else {
        Cow::Borrowed(text)
    }
}

/// The characters from `start` on, and before `end`; as many of them as there are.
pub(crate) fn substring(text: &str, start: usize, end: Option<usize>) -> &str {
    let place = |index: usize| text.char_indices().nth(index).map_or(text.len(), |(place, _)| place);
    let (start, end) = (place(start), end.map_or(text.len(), place));
    text.get(start..end).unwrap_or_default()
}

/// The first group of what a regular expression finds first, or all of it where it has no group.
pub(crate) fn extract<'t>(text: &'t str, regex: &Regex) -> Option<&'t str> {
    match regex.captures_len() {
        1 => regex.find(text).map(|found| found.as_str()),
        _ => Some(regex.captures(text)?.get(1)?.as_str()),
    }
}

/// The text with everything that a regular expression finds replaced.
pub(crate) fn replace<'t>(text: &'t str, regex: &Regex, by: &str) -> Cow<'t, str> {
    match regex.replace_all(text, NoExpand(by)) {
        Cow::Owned(replaced) if replaced.len() > TEXT_BYTES_MAX => Cow::Owned(head(&replaced).to_owned()),
        replaced => replaced,
    }
}
