//! Escaping for the places of a page where values stand, and its own parts made small.

use std::borrow::Cow;

/// Returns a text for HTML, between tags and in quoted attributes.
pub(super) fn html(text: &str) -> Cow<'_, str> {
    if !text.contains(['&', '<', '>', '"', '\'']) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() + 16);
    for sign in text.chars() {
        match sign {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            _ => escaped.push(sign),
        }
    }
    Cow::Owned(escaped)
}

/// Returns JSON for a `script` element, in which no sign may end it. Outside of its strings JSON has none of them.
pub(super) fn json_in_script(json: &str) -> Cow<'_, str> {
    if !json.contains(['<', '>', '&', '\u{2028}', '\u{2029}']) {
        return Cow::Borrowed(json);
    }
    let mut escaped = String::with_capacity(json.len() + 16);
    for sign in json.chars() {
        match sign {
            '<' => escaped.push_str("\\u003c"),
            '>' => escaped.push_str("\\u003e"),
            '&' => escaped.push_str("\\u0026"),
            '\u{2028}' => escaped.push_str("\\u2028"),
            '\u{2029}' => escaped.push_str("\\u2029"),
            _ => escaped.push(sign),
        }
    }
    Cow::Owned(escaped)
}

/// Returns a string of CSS in a `style` element.
pub(super) fn css_string(text: &str) -> String {
    let mut escaped = String::from("\"");
    for sign in text.chars() {
        match sign {
            '"' | '\\' | '<' | '\n' | '\r' | '\u{c}' => {
                escaped.push_str(&format!("\\{:x} ", u32::from(sign)))
            }
            _ => escaped.push(sign),
        }
    }
    escaped.push('"');
    escaped
}

/// Returns the signs of a nonce, which stand in attributes and in a header.
pub(super) fn nonce(nonce: &str) -> String {
    nonce.chars().filter(|sign| sign.is_ascii_alphanumeric() || "+/=-_".contains(*sign)).collect()
}

/// Most characters of a value of strangers that are shown.
const SHOWN_CHARS_MAX: usize = 200;

/// Returns a value as a reader is shown it: bounded, and without signs that turn what stands around them.
pub(super) fn shown(text: &str) -> String {
    let turns = |sign: char| {
        sign.is_control()
            || matches!(sign, '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
    };
    text.chars().take(SHOWN_CHARS_MAX).map(|sign| if turns(sign) { '\u{fffd}' } else { sign }).collect()
}

/// Returns a style sheet or a script without lines of comments, indentation, and spaces beside these signs.
///
/// It knows no grammar: in what it is given comments have lines of their own, strings end on their line, and patterns have
/// neither spaces nor quotes.
pub(super) fn compact(source: &str, tight: &str) -> String {
    let mut small = String::with_capacity(source.len());
    for line in source.lines().map(str::trim) {
        if line.is_empty() || line.starts_with("//") || line.starts_with("/*") && line.ends_with("*/") {
            continue;
        }
        let mut quote = None;
        let mut signs = line.chars().peekable();
        while let Some(sign) = signs.next() {
            match quote {
                Some(open) if open == sign => quote = None,
                None if "\"'`".contains(sign) => quote = Some(sign),
                _ => {}
            }
            let beside = small.ends_with(|last| tight.contains(last))
                || signs.peek().is_some_and(|next| tight.contains(*next));
            if quote.is_some() || sign != ' ' || !beside {
                small.push(sign);
            }
        }
        small.push('\n');
    }
    small
}
