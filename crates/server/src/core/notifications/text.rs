//! Text from outside in places that give some texts a meaning.

/// Returns a text as one line of so many characters at most: without control characters and those that turn the direction of text.
pub(super) fn line(text: &str, chars_max: usize) -> String {
    let is_turning = |sign: char| matches!(sign, '\u{061C}' | '\u{200E}' | '\u{200F}' | '\u{2028}'..='\u{202E}' | '\u{2066}'..='\u{2069}');
    let mut line: String = text
        .chars()
        .take(chars_max)
        .map(|sign| match sign {
            sign if sign.is_control() => ' ',
            sign if is_turning(sign) => '\u{FFFD}',
            sign => sign,
        })
        .collect();
    if text.chars().nth(chars_max).is_some() {
        line.push('…');
    }
    line
}

/// Escapes a text for Slack, so that it neither links nor calls anybody; nor does it in Mattermost, which reads Markdown.
pub(super) fn slack(text: &str) -> String {
    const CALLS: [&str; 4] = ["channel", "all", "here", "everyone"];
    let mut escaped = String::with_capacity(text.len());
    for (at, sign) in text.char_indices() {
        match sign {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            // A word joiner takes no room, and what is around it is not read as one.
            ']' => escaped.push_str("]\u{2060}"),
            '@' => {
                escaped.push('@');
                let behind = &text.as_bytes()[at + 1..];
                let is_call = |word: &&str| {
                    behind.get(..word.len()).is_some_and(|own| own.eq_ignore_ascii_case(word.as_bytes()))
                };
                if CALLS.iter().any(is_call) {
                    escaped.push('\u{2060}');
                }
            }
            sign => escaped.push(sign),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_neither_ends_nor_turns() {
        let check = |text: &str, expected: &str| assert_eq!(line(text, 8), expected, "{text:?}");
        check("a\r\nb\u{0}c", "a  b c");
        check("a\u{202E}b\u{2028}c", "a\u{FFFD}b\u{FFFD}c");
        check("12345678", "12345678");
        check("123456789", "12345678…");
        check("ööööööööö", "öööööööö…");
    }

    #[test]
    fn nobody_is_called_and_nothing_linked() {
        let check = |text: &str, expected: &str| assert_eq!(slack(text), expected, "{text:?}");
        check("<!channel> & <https://a|b>", "&lt;!channel&gt; &amp; &lt;https://a|b&gt;");
        check("@Here ann@example.org @", "@\u{2060}Here ann@example.org @");
        check("[a](https://b)", "[a]\u{2060}(https://b)");
    }
}
