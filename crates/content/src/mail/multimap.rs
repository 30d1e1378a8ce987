//! Lists as the multimap module of Rspamd reads them: a key a line, perhaps a symbol and a score behind it.
//!
//! ```text
//! # a remark
//! 192.0.2.0/24                 # networks, addresses, domains, names
//! "a key with blanks"  SYMBOL
//! /cheap\s+pills/i     SYMBOL:2.5
//! ```
//!
//! (Source: <https://docs.rspamd.com/configuration/maps>, <https://docs.rspamd.com/modules/multimap>.)

/// Longest line that is read.
pub const LINE_BYTES_MAX: usize = 16 << 10;

/// The content of a line.
#[derive(Clone, Debug, PartialEq)]
pub struct MultimapEntry {
    /// The text or pattern that is sought.
    pub key: MultimapKey,
    /// The symbol that is to be added, if not the list's own.
    pub symbol: Option<String>,
    /// The factor of its weight.
    pub weight: Option<f64>,
}

/// The text or pattern that is sought.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MultimapKey {
    /// A text to be found.
    Text(String),
    /// The pattern of a regular expression, for what it finds.
    Pattern {
        /// Between the slashes, with `\/` as `/`.
        pattern: String,
        /// Letters behind the second slash.
        flags: String,
    },
}

/// Reasons to refuse a line as an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MultimapError {
    /// Longer than [`LINE_BYTES_MAX`].
    #[error("the line is too long")]
    TooLong,
    /// A quotation mark or a slash without its second.
    #[error("the key does not end")]
    Unclosed,
    /// The quotation marks or slashes are empty.
    #[error("the key is empty")]
    Empty,
}

/// Reads a line; `None` for an empty one and for a remark.
///
/// # Errors
/// If it is no entry.
pub fn line(text: &str) -> Result<Option<MultimapEntry>, MultimapError> {
    let text = text.trim();
    if text.is_empty() || text.starts_with('#') {
        return Ok(None);
    }
    if text.len() > LINE_BYTES_MAX {
        return Err(MultimapError::TooLong);
    }
    let (key, rest) = if let Some(rest) = text.strip_prefix('"') {
        let (key, rest) = delimited(rest, '"').ok_or(MultimapError::Unclosed)?;
        (MultimapKey::Text(key), rest)
    } else if let Some(rest) = text.strip_prefix('/') {
        let (pattern, rest) = delimited(rest, '/').ok_or(MultimapError::Unclosed)?;
        let end = rest.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(rest.len());
        let (flags, rest) = rest.split_at(end);
        (MultimapKey::Pattern { pattern, flags: flags.to_owned() }, rest)
    } else {
        let end = text.find(char::is_whitespace).unwrap_or(text.len());
        let (key, rest) = text.split_at(end);
        (MultimapKey::Text(key.to_owned()), rest)
    };
    if matches!(&key, MultimapKey::Text(text) | MultimapKey::Pattern { pattern: text, .. } if text.is_empty())
    {
        return Err(MultimapError::Empty);
    }
    let (symbol, weight) = value(rest);
    Ok(Some(MultimapEntry { key, symbol, weight }))
}

/// Returns the text before the next unescaped delimiter, which needs its backslash no more, and the text behind it.
fn delimited(text: &str, delimiter: char) -> Option<(String, &str)> {
    let mut inside = String::new();
    let mut chars = text.char_indices();
    while let Some((at, letter)) = chars.next() {
        if letter == delimiter {
            return Some((inside, &text[at + letter.len_utf8()..]));
        }
        if letter == '\\' {
            let (_, escaped) = chars.next()?;
            if escaped != delimiter {
                inside.push('\\');
            }
            inside.push(escaped);
        } else {
            inside.push(letter);
        }
    }
    None
}

/// Symbol and weight; a value of another form says something to people.
fn value(text: &str) -> (Option<String>, Option<f64>) {
    let text = text.split('#').next().unwrap_or_default().trim();
    let number = |text: &str| text.parse().ok().filter(|number: &f64| number.is_finite());
    if let Some(weight) = number(text) {
        return (None, Some(weight));
    }
    let (symbol, weight) = text.split_once(':').unwrap_or((text, ""));
    let is_symbol = !symbol.is_empty()
        && symbol.starts_with(|c: char| c.is_ascii_alphabetic())
        && symbol.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if is_symbol { (Some(symbol.to_owned()), number(weight.trim())) } else { (None, None) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn lines_are_keys_with_symbols_and_scores() {
        let text = |key: &str| MultimapKey::Text(key.to_owned());
        let pattern = |pattern: &str, flags: &str| MultimapKey::Pattern {
            pattern: pattern.to_owned(),
            flags: flags.to_owned(),
        };
        let check = |read: &str, key: MultimapKey, symbol: Option<&str>, weight: Option<f64>| {
            let entry = MultimapEntry { key, symbol: symbol.map(str::to_owned), weight };
            assert_eq!(line(read), Ok(Some(entry)), "{read:?}");
        };
        check(" 192.0.2.0/24  # an office", text("192.0.2.0/24"), None, None);
        check("example.org SPAMMER", text("example.org"), Some("SPAMMER"), None);
        check("joe@example.org\tSPAMMER:2.5\r", text("joe@example.org"), Some("SPAMMER"), Some(2.5));
        check("example.org 3", text("example.org"), None, Some(3.0));
        check("example.org bought it in May", text("example.org"), None, None);
        check(r#""a \"name\" of two" NAMED"#, text("a \"name\" of two"), Some("NAMED"), None);
        check(r"/^x\/\d+ #y/i  PATH:-1", pattern(r"^x/\d+ #y", "i"), Some("PATH"), Some(-1.0));
        check("/a/", pattern("a", ""), None, None);
        check("a#b", text("a#b"), None, None);
        check("a S:nan", text("a"), Some("S"), None);
    }

    #[test]
    fn what_is_no_entry_is_told() {
        for read in ["", "   ", "# remark", "\t#"] {
            assert_eq!(line(read), Ok(None), "{read:?}");
        }
        for (read, error) in [
            ("\"open", MultimapError::Unclosed),
            (r"/open\/", MultimapError::Unclosed),
            ("//i", MultimapError::Empty),
            ("\"\" S", MultimapError::Empty),
        ] {
            assert_eq!(line(read), Err(error), "{read:?}");
        }
        assert_eq!(line(&"x".repeat(LINE_BYTES_MAX + 1)), Err(MultimapError::TooLong));
    }

    proptest! {
        #[test]
        fn quoted_keys_come_back(key in "[^\\\\\n]{1,40}", symbol in "[A-Z][A-Z0-9_]{0,10}") {
            let written = format!("\"{}\" {symbol}:1.5", key.replace('"', "\\\""));
            let entry = MultimapEntry { key: MultimapKey::Text(key), symbol: Some(symbol), weight: Some(1.5) };
            prop_assert_eq!(line(&written), Ok(Some(entry)));
        }

        #[test]
        fn nothing_panics(text in "\\PC{0,200}") {
            let _ = line(&text);
        }
    }
}
