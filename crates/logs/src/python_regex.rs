//! Python's regular expressions (`re`), written over for the engines here without a change of meaning.
//!
//! ```text
//! Python's text ─► exact: what is searched
//!               └► necessary: the same without look-around and references: matches wherever `exact` does
//! ```
//!
//! Most patterns come out plain, and take time linear in the line. Those with look-around, references to groups or
//! conditions need steps back, which are bounded ([`LinePattern`](crate::line_pattern::LinePattern)); for them the
//! necessary form says first where no step is worth taking.

use std::fmt::Write;

/// Most bytes of a pattern.
pub const PATTERN_BYTES_MAX: usize = 64 * 1024;
/// Most groups around each other.
const DEPTH_MAX: usize = 60;

/// Text that is no regular expression of Python's, or one that is not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message} at character {at}")]
pub struct PythonRegexError {
    /// The place in the pattern, in characters.
    pub at: usize,
    /// The reason why it is not taken.
    pub message: String,
}

/// A pattern written over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RewrittenRegex {
    /// The pattern in the syntax of `regex`, or of `fancy-regex` if it needs steps back.
    pub exact: String,
    /// A plain pattern that matches wherever `exact` does; the same text where nothing was left out.
    pub necessary: String,
    /// True if the pattern has look-around, references to groups, conditions or atomic groups.
    pub steps_back: bool,
}

/// Meaning of `^`, as `re.MULTILINE` has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineAnchors {
    /// `^` is the beginning of the text.
    Text,
    /// `^` is the beginning of each line.
    Lines,
}

/// A group that is open.
struct OpenGroup {
    /// True if the necessary form leaves it out.
    is_left_out: bool,
    /// True once the other branch of a condition has been met; none for other groups.
    other_branch: Option<bool>,
}

struct PatternWriter {
    characters: Vec<char>,
    at: usize,
    anchors: LineAnchors,
    exact: String,
    necessary: String,
    steps_back: bool,
    open: Vec<OpenGroup>,
    /// The number of open groups that the necessary form leaves out.
    left_out: usize,
    is_verbose: bool,
}

/// Writes a pattern of Python's over. `$` stands before each line's end, as it does in Python for texts that end with one.
pub fn rewrite(pattern: &str, anchors: LineAnchors) -> Result<RewrittenRegex, PythonRegexError> {
    if pattern.len() > PATTERN_BYTES_MAX {
        return Err(PythonRegexError { at: 0, message: format!("longer than {PATTERN_BYTES_MAX} bytes") });
    }
    let mut writer = PatternWriter {
        characters: pattern.chars().collect(),
        at: 0,
        anchors,
        exact: String::with_capacity(pattern.len() + 16),
        necessary: String::with_capacity(pattern.len() + 16),
        steps_back: false,
        open: Vec::new(),
        left_out: 0,
        is_verbose: false,
    };
    writer.write()?;
    let PatternWriter { exact, necessary, steps_back, .. } = writer;
    Ok(RewrittenRegex { exact, necessary, steps_back })
}

impl PatternWriter {
    fn error<T>(&self, message: impl Into<String>) -> Result<T, PythonRegexError> {
        Err(PythonRegexError { at: self.at, message: message.into() })
    }

    fn peek(&self, ahead: usize) -> Option<char> {
        self.characters.get(self.at + ahead).copied()
    }

    fn starts_with(&self, text: &str) -> bool {
        text.chars().enumerate().all(|(index, character)| self.peek(index) == Some(character))
    }

    /// Writes into both forms.
    fn push(&mut self, text: &str) {
        self.exact.push_str(text);
        if self.left_out == 0 {
            self.necessary.push_str(text);
        }
    }

    /// Writes other texts into each form.
    fn push_each(&mut self, exact: &str, necessary: &str) {
        self.exact.push_str(exact);
        if self.left_out == 0 {
            self.necessary.push_str(necessary);
        }
    }

    fn push_literal(&mut self, character: char) {
        if self.is_verbose && (character.is_whitespace() || character == '#') {
            let mut text = String::new();
            let _ = write!(text, "\\x{{{:x}}}", u32::from(character));
            self.push(&text);
        } else {
            self.push(&regex_syntax::escape(character.encode_utf8(&mut [0; 4])));
        }
    }

    fn write(&mut self) -> Result<(), PythonRegexError> {
        while let Some(character) = self.peek(0) {
            match character {
                '\\' => self.write_escape()?,
                '[' => self.write_class()?,
                '(' => self.write_group()?,
                ')' => {
                    let Some(group) = self.open.pop() else { return self.error("an unbalanced parenthesis") };
                    self.at += 1;
                    self.close(&group);
                }
                '|' => {
                    self.at += 1;
                    if let Some(OpenGroup { other_branch: Some(is_met), .. }) = self.open.last_mut() {
                        if *is_met {
                            return self.error("a condition with more than two branches");
                        }
                        *is_met = true;
                    }
                    self.push("|");
                }
                '^' => {
                    self.at += 1;
                    self.push(if self.anchors == LineAnchors::Lines { "(?m:^)" } else { "\\A" });
                }
                '$' => {
                    self.at += 1;
                    self.push("(?m:$)");
                }
                '*' | '+' | '?' => {
                    self.at += 1;
                    let mut text = character.to_string();
                    self.write_quantifier(&mut text)?;
                }
                '{' => self.write_repetition()?,
                '.' => {
                    self.at += 1;
                    self.push(".");
                }
                '#' if self.is_verbose => {
                    while self.peek(0).is_some_and(|character| character != '\n') {
                        self.at += 1;
                    }
                }
                character if self.is_verbose && character.is_whitespace() => self.at += 1,
                character => {
                    self.at += 1;
                    self.push_literal(character);
                }
            }
        }
        if self.open.is_empty() { Ok(()) } else { self.error("a group that is not closed") }
    }

    fn close(&mut self, group: &OpenGroup) {
        match group.other_branch {
            // Where the condition does not hold, and nothing is asked for.
            Some(false) => self.push_each(")", "|)"),
            _ if group.is_left_out => {
                self.exact.push(')');
                self.left_out -= 1;
                // Something to repeat, should a quantifier follow.
                self.push_each("", "(?:)");
            }
            _ => self.push(")"),
        }
    }

    fn write_quantifier(&mut self, text: &mut String) -> Result<(), PythonRegexError> {
        match self.peek(0) {
            Some('?') => {
                self.at += 1;
                text.push('?');
                self.push(text);
            }
            // Possessive: gives nothing back.
            Some('+') => {
                self.at += 1;
                self.steps_back = true;
                let exact = format!("{text}+");
                self.push_each(&exact, text);
            }
            _ => self.push(text),
        }
        Ok(())
    }

    fn write_repetition(&mut self) -> Result<(), PythonRegexError> {
        let number = |writer: &Self, mut ahead: usize| {
            let start = ahead;
            while writer.peek(ahead).is_some_and(|character| character.is_ascii_digit()) {
                ahead += 1;
            }
            (writer.characters[writer.at + start..writer.at + ahead].iter().collect::<String>(), ahead)
        };
        let (least, mut ahead) = number(self, 1);
        let mut most = None;
        if self.peek(ahead) == Some(',') {
            let (text, after) = number(self, ahead + 1);
            most = Some(text);
            ahead = after;
        }
        if self.peek(ahead) != Some('}') || (least.is_empty() && most.is_none()) {
            // A brace that repeats nothing stands for itself.
            self.at += 1;
            self.push_literal('{');
            return Ok(());
        }
        if least.len() > 4 || most.as_ref().is_some_and(|most| most.len() > 4) {
            return self.error("a repetition of more than 9999 times");
        }
        self.at += ahead + 1;
        let least = if least.is_empty() { "0".to_owned() } else { least };
        let mut text = match most {
            None => format!("{{{least}}}"),
            Some(most) => format!("{{{least},{most}}}"),
        };
        self.write_quantifier(&mut text)
    }

    fn write_group(&mut self) -> Result<(), PythonRegexError> {
        if self.open.len() >= DEPTH_MAX {
            return self.error(format!("more than {DEPTH_MAX} groups around each other"));
        }
        let plain = OpenGroup { is_left_out: false, other_branch: None };
        if self.peek(1) != Some('?') {
            self.at += 1;
            self.push("(");
            self.open.push(plain);
            return Ok(());
        }
        for text in ["(?=", "(?!", "(?<=", "(?<!"] {
            if self.starts_with(text) {
                self.at += text.len();
                self.steps_back = true;
                self.exact.push_str(text);
                self.left_out += 1;
                self.open.push(OpenGroup { is_left_out: true, other_branch: None });
                return Ok(());
            }
        }
        if self.starts_with("(?>") {
            self.at += 3;
            self.steps_back = true;
            self.push_each("(?>", "(?:");
            self.open.push(plain);
            return Ok(());
        }
        if self.starts_with("(?#") {
            while let Some(character) = self.peek(0) {
                self.at += 1;
                if character == ')' {
                    return Ok(());
                }
            }
            return self.error("a comment that is not closed");
        }
        if self.starts_with("(?P<") {
            self.at += 4;
            let name = self.name('>')?;
            self.push(&format!("(?P<{name}>"));
            self.open.push(plain);
            return Ok(());
        }
        if self.starts_with("(?P=") {
            self.at += 4;
            let name = self.name(')')?;
            self.steps_back = true;
            self.push_each(&format!("\\k<{name}>"), "(?s:.*)");
            return Ok(());
        }
        if self.starts_with("(?(") {
            self.at += 3;
            let name = self.name(')')?;
            self.steps_back = true;
            let is_number = name.bytes().all(|byte| byte.is_ascii_digit());
            let exact = if is_number { format!("(?({name})") } else { format!("(?(<{name}>)") };
            self.push_each(&exact, "(?:");
            self.open.push(OpenGroup { is_left_out: false, other_branch: Some(false) });
            return Ok(());
        }
        self.write_flags(plain)
    }

    /// Writes `(?:`, `(?i:`, `(?-i:` or `(?i)`.
    fn write_flags(&mut self, plain: OpenGroup) -> Result<(), PythonRegexError> {
        self.at += 2;
        let mut flags = String::new();
        loop {
            let Some(character) = self.peek(0) else { return self.error("a group that is not closed") };
            self.at += 1;
            match character {
                'i' | 's' | '-' => flags.push(character),
                'x' => self.is_verbose = !flags.contains('-'),
                // Texts are Unicode here, and anchors are written out.
                'a' | 'L' | 'u' | 'm' => {
                    if character == 'm' {
                        self.anchors = LineAnchors::Lines;
                    }
                }
                ':' => {
                    let flags = flags.strip_suffix('-').unwrap_or(&flags);
                    self.push(&format!("(?{flags}:"));
                    self.open.push(plain);
                    return Ok(());
                }
                ')' => {
                    let flags = flags.strip_suffix('-').unwrap_or(&flags);
                    if !flags.is_empty() {
                        self.push(&format!("(?{flags})"));
                    }
                    return Ok(());
                }
                _ => return self.error("an unknown extension of a group"),
            }
        }
    }

    fn name(&mut self, end: char) -> Result<String, PythonRegexError> {
        let mut name = String::new();
        while let Some(character) = self.peek(0) {
            self.at += 1;
            if character == end {
                return if name.is_empty() { self.error("a group without a name") } else { Ok(name) };
            }
            if !character.is_ascii_alphanumeric() && character != '_' || name.len() > 64 {
                return self.error("a name of a group with other characters than letters, digits and `_`");
            }
            name.push(character);
        }
        self.error("a name of a group that does not end")
    }

    fn hexadecimal(&mut self, digits: usize) -> Result<char, PythonRegexError> {
        let text: String = (0..digits).map_while(|ahead| self.peek(ahead)).collect();
        let character = u32::from_str_radix(&text, 16).ok().and_then(char::from_u32);
        match character {
            Some(character) if text.chars().count() == digits && !text.starts_with('+') => {
                self.at += digits;
                Ok(character)
            }
            _ => self.error("an escape that is no character"),
        }
    }

    /// Reads an escape that stands for one character, behind its backslash.
    fn escaped_character(&mut self) -> Result<char, PythonRegexError> {
        let Some(character) = self.peek(0) else { return self.error("a backslash at the end") };
        self.at += 1;
        Ok(match character {
            'a' => '\u{7}',
            'f' => '\u{c}',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'v' => '\u{b}',
            'x' => self.hexadecimal(2)?,
            'u' => self.hexadecimal(4)?,
            'U' => self.hexadecimal(8)?,
            '0' => {
                let mut value = 0;
                for _ in 0..2 {
                    let Some(digit) = self.peek(0).and_then(|character| character.to_digit(8)) else { break };
                    self.at += 1;
                    value = value * 8 + digit;
                }
                char::from_u32(value).unwrap_or('\0')
            }
            character if character.is_ascii_alphanumeric() => {
                return self.error(format!("an unknown escape `\\{character}`"));
            }
            character => character,
        })
    }

    fn write_escape(&mut self) -> Result<(), PythonRegexError> {
        self.at += 1;
        match self.peek(0) {
            Some('A') => {
                self.at += 1;
                self.push("\\A");
            }
            Some('Z') => {
                self.at += 1;
                self.push("\\z");
            }
            Some(class @ ('b' | 'B' | 'd' | 'D' | 'w' | 'W' | 's' | 'S')) => {
                self.at += 1;
                self.push(&format!("\\{class}"));
            }
            Some('1'..='9') => {
                let mut number = String::new();
                while number.len() < 2 && self.peek(0).is_some_and(|character| character.is_ascii_digit()) {
                    number.extend(self.peek(0));
                    self.at += 1;
                }
                self.steps_back = true;
                self.push_each(&format!("(?:\\{number})"), "(?s:.*)");
            }
            _ => {
                let character = self.escaped_character()?;
                self.push_literal(character);
            }
        }
        Ok(())
    }

    /// Writes a set of characters. There are no sets inside of sets in Python, and no operations on them.
    fn write_class(&mut self) -> Result<(), PythonRegexError> {
        let mut class = "[".to_owned();
        self.at += 1;
        if self.peek(0) == Some('^') {
            self.at += 1;
            class.push('^');
        }
        let mut is_first = true;
        loop {
            let Some(character) = self.peek(0) else { return self.error("a set that is not closed") };
            if character == ']' && !is_first {
                self.at += 1;
                break;
            }
            is_first = false;
            let Some(low) = self.class_item(&mut class)? else { continue };
            if self.peek(0) == Some('-') && self.peek(1).is_some_and(|character| character != ']') {
                self.at += 1;
                let mut rest = String::new();
                let Some(high) = self.class_item(&mut rest)? else {
                    return self.error("a range without an end");
                };
                if high < low {
                    return self.error("a range that ends before it begins");
                }
                let _ = write!(class, "\\x{{{:x}}}-\\x{{{:x}}}", u32::from(low), u32::from(high));
            } else {
                push_class_character(&mut class, low);
            }
        }
        class.push(']');
        self.push(&class);
        Ok(())
    }

    /// Reads a character of a set, or writes a class that stands in it.
    fn class_item(&mut self, class: &mut String) -> Result<Option<char>, PythonRegexError> {
        let Some(character) = self.peek(0) else { return self.error("a set that is not closed") };
        self.at += 1;
        if character != '\\' {
            return Ok(Some(character));
        }
        match self.peek(0) {
            Some(letter @ ('d' | 'D' | 'w' | 'W' | 's' | 'S')) => {
                self.at += 1;
                class.push('\\');
                class.push(letter);
                Ok(None)
            }
            Some('b') => {
                self.at += 1;
                Ok(Some('\u{8}'))
            }
            _ => self.escaped_character().map(Some),
        }
    }
}

fn push_class_character(class: &mut String, character: char) {
    if character.is_alphanumeric() || character == '_' {
        class.push(character);
    } else {
        let _ = write!(class, "\\x{{{:x}}}", u32::from(character));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(pattern: &str, exact: &str, necessary: &str) {
        let rewritten = rewrite(pattern, LineAnchors::Text).expect(pattern);
        assert_eq!((rewritten.exact.as_str(), rewritten.necessary.as_str()), (exact, necessary), "{pattern}");
        assert_eq!(rewritten.steps_back, exact != necessary, "{pattern}");
        regex::Regex::new(&rewritten.necessary).expect(pattern);
        fancy_regex::Regex::new(&rewritten.exact).expect(pattern);
    }

    #[test]
    fn plain_patterns_stay_plain() {
        check(r"^a\.b$", r"\Aa\.b(?m:$)", r"\Aa\.b(?m:$)");
        check(r"a{2}{x}", r"a{2}\{x\}", r"a{2}\{x\}");
        check(r"a{,3}?b\<c\/", r"a{0,3}?b<c/", r"a{0,3}?b<c/");
        check(r"[]a[&&-]", r"[\x{5d}a\x{5b}\x{26}\x{26}\x{2d}]", r"[\x{5d}a\x{5b}\x{26}\x{26}\x{2d}]");
        check(
            r"[\w\-.^_][^a-f\d]",
            r"[\w\x{2d}\x{2e}\x{5e}_][^\x{61}-\x{66}\d]",
            r"[\w\x{2d}\x{2e}\x{5e}_][^\x{61}-\x{66}\d]",
        );
        check(r"(?iu)x(?#note)(?i:y)\Z", r"(?i)x(?i:y)\z", r"(?i)x(?i:y)\z");
        check(r"(?P<host>\d+)", r"(?P<host>\d+)", r"(?P<host>\d+)");
    }

    #[test]
    fn what_needs_steps_back_has_a_necessary_form() {
        check(r"a(?! b(c))d", r"a(?! b(c))d", r"a(?:)d");
        check(r"(?P<q>['x])(?P=q)", r"(?P<q>[\x{27}x])\k<q>", r"(?P<q>[\x{27}x])(?s:.*)");
        check(r"(?P<a>x)?(?(a)y|z)", r"(?P<a>x)?(?(<a>)y|z)", r"(?P<a>x)?(?:y|z)");
        check(r"(x)?(?(1)y)\1", r"(x)?(?(1)y)(?:\1)", r"(x)?(?:y|)(?s:.*)");
        check(r"(?>a|ab)c++", r"(?>a|ab)c++", r"(?:a|ab)c+");
    }

    #[test]
    fn what_is_no_pattern_is_refused_with_its_place() {
        let check = |pattern: &str, at: usize| {
            assert_eq!(rewrite(pattern, LineAnchors::Text).expect_err(pattern).at, at, "{pattern}");
        };
        check("a(b", 3);
        check("a)b", 1);
        check("[a", 2);
        check(r"\q", 2);
        check("[b-a]", 4);
        check("a{10000}", 1);
        check("(?P<a b>x)", 6);
        check(&"(".repeat(100), DEPTH_MAX);
    }
}
