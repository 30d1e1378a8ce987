//! Go's regular expressions (RE2), written over for the engine here without a change of meaning.
//!
//! Both engines take time linear in the text and prefer the leftmost match, so that little differs: in Go `\d`, `\w`, `\s` and
//! `\b` mean ASCII, `[` and `&&` are plain characters inside of a class, `{` is one where no count follows, and `\<` is no border
//! of a word. Names of groups are left out: grok counts groups.

/// Most bytes of a pattern.
pub const GO_REGEX_BYTES_MAX: usize = 256 * 1024;
/// Most groups around each other.
const DEPTH_MAX: usize = 100;

/// Text that is no regular expression of Go's, or one that is not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message} at byte {at}")]
pub struct GoRegexError {
    /// The place in the pattern, in bytes.
    pub at: usize,
    /// The reason why it is not taken.
    pub message: &'static str,
}

/// A pattern written over, and the number of its groups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GoRegex {
    /// The pattern in the syntax of `regex`.
    pub text: String,
    /// The number of groups that capture.
    pub groups: usize,
}

/// Writes a pattern of Go's over.
pub fn rewrite(pattern: &str) -> Result<GoRegex, GoRegexError> {
    if pattern.len() > GO_REGEX_BYTES_MAX {
        return Err(GoRegexError { at: 0, message: "the pattern is too long" });
    }
    let mut writer = GoRegexWriter {
        pattern,
        at: 0,
        text: String::with_capacity(pattern.len() + 16),
        groups: 0,
        depth: 0,
    };
    writer.write()?;
    Ok(GoRegex { text: writer.text, groups: writer.groups })
}

struct GoRegexWriter<'p> {
    pattern: &'p str,
    at: usize,
    text: String,
    groups: usize,
    depth: usize,
}

impl GoRegexWriter<'_> {
    fn error(&self, message: &'static str) -> GoRegexError {
        GoRegexError { at: self.at, message }
    }

    fn rest(&self) -> &str {
        &self.pattern[self.at..]
    }

    fn next(&mut self) -> Option<char> {
        let next = self.rest().chars().next()?;
        self.at += next.len_utf8();
        Some(next)
    }

    fn write(&mut self) -> Result<(), GoRegexError> {
        while let Some(character) = self.next() {
            match character {
                '\\' => self.escape(false)?,
                '[' => self.class()?,
                '(' => self.group()?,
                ')' => {
                    self.depth =
                        self.depth.checked_sub(1).ok_or_else(|| self.error("a `)` without its `(`"))?;
                    self.text.push(')');
                }
                '{' if !is_count(self.rest()) => self.text.push_str(r"\{"),
                '}' if !self.closes_count() => self.text.push_str(r"\}"),
                character => self.text.push(character),
            }
        }
        match self.depth {
            0 => Ok(()),
            _ => Err(self.error("a group is not closed")),
        }
    }

    /// Returns true if the `}` just read ends a count.
    fn closes_count(&self) -> bool {
        let before = &self.pattern[..self.at - 1];
        let digits = before.trim_end_matches(|c: char| c.is_ascii_digit() || c == ',');
        digits.ends_with('{') && is_count(&self.pattern[digits.len()..])
    }

    fn group(&mut self) -> Result<(), GoRegexError> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(self.error("groups are nested too deeply"));
        }
        self.text.push('(');
        if !self.rest().starts_with('?') {
            self.groups += 1;
            return Ok(());
        }
        let named = self.rest().strip_prefix("?P<").or_else(|| self.rest().strip_prefix("?<"));
        if let Some(name) = named.filter(|name| !name.starts_with(['=', '!'])) {
            let end = name.find('>').ok_or_else(|| self.error("a name of a group is not closed"))?;
            self.at += self.rest().len() - name.len() + end + 1;
            self.groups += 1;
            return Ok(());
        }
        let end = self.rest()[1..].find([':', ')']).ok_or_else(|| self.error("flags are not closed"))?;
        let flags = &self.pattern[self.at..=self.at + end];
        if !flags[1..].chars().all(|flag| "imsU-".contains(flag)) {
            return Err(self.error("look-around and other groups of Perl are not taken"));
        }
        self.text.push_str(flags);
        self.at += flags.len();
        Ok(())
    }

    /// Writes what follows a backslash.
    fn escape(&mut self, in_class: bool) -> Result<(), GoRegexError> {
        let Some(character) = self.next() else { return Err(self.error("a backslash ends the pattern")) };
        let (open, close) = if in_class { ("", "") } else { ("[", "]") };
        match character {
            'd' => self.text.push_str(&format!("{open}0-9{close}")),
            'w' => self.text.push_str(&format!("{open}0-9A-Za-z_{close}")),
            's' => self.text.push_str(&format!(r"{open}\t\n\x0C\r {close}")),
            'D' => self.text.push_str("[^0-9]"),
            'W' => self.text.push_str("[^0-9A-Za-z_]"),
            'S' => self.text.push_str(r"[^\t\n\x0C\r ]"),
            'b' if !in_class => self.text.push_str(r"(?-u:\b)"),
            'B' if !in_class => self.text.push_str(r"\B"),
            'Q' if !in_class => {
                let end = self.rest().find(r"\E").unwrap_or(self.rest().len());
                let literal = regex_syntax::escape(&self.rest()[..end]);
                self.text.push_str(&literal);
                self.at = (self.at + end + 2).min(self.pattern.len());
            }
            'A' | 'z' if !in_class => self.text.extend(['\\', character]),
            'a' | 'f' | 't' | 'n' | 'r' | 'v' | 'x' | 'p' | 'P' => self.text.extend(['\\', character]),
            '0'..='7' => {
                let mut value = character.to_digit(8).unwrap_or_default();
                for _ in 0..2 {
                    let Some(digit) = self.rest().chars().next().and_then(|digit| digit.to_digit(8)) else {
                        break;
                    };
                    value = value * 8 + digit;
                    self.at += 1;
                }
                self.text.push_str(&format!(r"\x{{{value:X}}}"));
            }
            '<' | '>' => self.text.push(character),
            character if character.is_ascii_alphanumeric() => {
                return Err(self.error("an escape that is not known"));
            }
            character if character.is_ascii() => self.text.extend(['\\', character]),
            character => self.text.push(character),
        }
        Ok(())
    }

    fn class(&mut self) -> Result<(), GoRegexError> {
        self.text.push('[');
        if self.rest().starts_with('^') {
            self.at += 1;
            self.text.push('^');
        }
        let mut is_first = true;
        while is_first || !self.rest().starts_with(']') {
            is_first = false;
            if self.rest().starts_with("[:")
                && let Some(end) = self.rest().find(":]")
            {
                let end = self.at + end + 2;
                self.text.push_str(&self.pattern[self.at..end]);
                self.at = end;
                continue;
            }
            let is_single = self.class_item()?;
            if is_single && self.rest().starts_with('-') && !self.rest().starts_with("-]") {
                self.at += 1;
                self.text.push('-');
                if !self.class_item()? {
                    return Err(self.error("a range ends with a class"));
                }
            }
        }
        self.at += 1;
        self.text.push(']');
        Ok(())
    }

    /// Writes one character of a class, or a class of an escape; returns true for a character.
    fn class_item(&mut self) -> Result<bool, GoRegexError> {
        match self.next() {
            None => return Err(self.error("a class is not closed")),
            Some('\\') => {
                let is_single = !self.rest().starts_with(['d', 'D', 'w', 'W', 's', 'S', 'p', 'P']);
                self.escape(true)?;
                return Ok(is_single);
            }
            Some(character @ ('[' | ']' | '&' | '~' | '^' | '-')) => self.text.extend(['\\', character]),
            Some(character) => self.text.push(character),
        }
        Ok(true)
    }
}

/// Returns true if a text begins with `n}`, `n,}` or `n,m}`.
fn is_count(text: &str) -> bool {
    let Some((count, _)) = text.split_once('}') else { return false };
    let (least, most) = count.split_once(',').unwrap_or((count, ""));
    !least.is_empty() && [least, most].iter().all(|number| number.bytes().all(|byte| byte.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_mean_what_they_mean_in_go() {
        let check = |pattern: &str, text: &str, expected: Option<&str>| {
            let rewritten = rewrite(pattern).expect(pattern);
            let regex = regex::Regex::new(&rewritten.text).expect(&rewritten.text);
            assert_eq!(regex.captures_len(), rewritten.groups + 1, "{pattern}");
            assert_eq!(regex.find(text).map(|found| found.as_str()), expected, "{pattern} in {text}");
        };
        check(r"\d+", "٣ 3", Some("3"));
        check(r"[\w.-]+", "é a-b.c", Some("a-b.c"));
        check(r"[^[\]]+", "[x]", Some("x"));
        check(r"[[:alpha:]]+\b", "1ab!", Some("ab"));
        check(r"a{,2}{x}", "a{,2}{x}", Some("a{,2}{x}"));
        check(r"\<(?P<n>b)\>{2}", "<b>>", Some("<b>>"));
        check(r"(?i:A)(b|c){1,2}", "aBb abb", Some("abb"));
        check(r"[$.+!*'(){},~:;=@#%&_\-]*$", "a&&~--", Some("&&~--"));
        check(r"\Qa.b\E.", "a.bc", Some("a.bc"));
        check(r#"[a-z\"--/]+"#, "a\"./", Some("a\""));
        check(r"[\x21-\x5a\x5c]+", " A\\", Some("A\\"));
        check(r"[]a]+", "]a", Some("]a"));
    }

    #[test]
    fn what_is_not_taken_is_an_error() {
        for pattern in ["(a", "a)", "[a", r"\", "(?=a)", "(?<!a)", r"\y"] {
            assert!(rewrite(pattern).is_err(), "{pattern}");
        }
    }
}
