//! Cuts a condition into tokens before the CEL parser sees it.
//!
//! It is done for three reasons: bounds on length and nesting hold before a recursive parser runs, mistakes
//! in spelling are told in plain words, and the parser's anchors become whole ranges by way of the tokens
//! around them. It knows what CEL's tokens look like and nothing of what they mean.

use std::ops::Range;

use crate::Diagnostic;

/// Most tokens of a condition.
pub(crate) const TOKENS_MAX: usize = 1024;
/// Deepest nesting of brackets.
pub(crate) const BRACKETS_MAX: usize = 32;
/// Most `?` of a condition: each nests what follows it.
pub(crate) const TERNARIES_MAX: usize = 32;
/// Most diagnostics that one condition gets.
pub(crate) const DIAGNOSTICS_MAX: usize = 20;

/// Words that CEL keeps for host languages.
pub(crate) const RESERVED: [&str; 17] = [
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "namespace",
    "package",
    "return",
    "var",
    "void",
    "while",
];

/// A token: where it is and, of a bracket, the index of the other one of its pair.
#[derive(Clone, Debug)]
pub(crate) struct SourceToken {
    pub(crate) range: Range<usize>,
    pub(crate) pair: Option<usize>,
}

struct Lexer<'a> {
    source: &'a str,
    at: usize,
    tokens: Vec<SourceToken>,
    open: Vec<(usize, char)>,
    found: Vec<Diagnostic>,
}

/// The tokens of `source`, or what is wrong with their spelling, number and nesting.
pub(crate) fn tokens(source: &str) -> Result<Vec<SourceToken>, Vec<Diagnostic>> {
    let mut lexer = Lexer { source, at: 0, tokens: Vec::new(), open: Vec::new(), found: Vec::new() };
    lexer.run();
    if lexer.found.is_empty() { Ok(lexer.tokens) } else { Err(lexer.found) }
}

impl<'a> Lexer<'a> {
    fn run(&mut self) {
        let mut ternaries = 0;
        while let Some(next) = self.rest().chars().next() {
            let start = self.at;
            let rest = self.rest();
            match next {
                ' ' | '\t' | '\r' | '\n' | '\u{c}' => {
                    self.at += 1;
                    continue;
                }
                '/' if rest.starts_with("//") => {
                    self.at += rest.find('\n').unwrap_or(rest.len());
                    continue;
                }
                '\'' | '"' => self.text(0),
                '0'..='9' => self.number(),
                '.' if rest[1..].starts_with(|c: char| c.is_ascii_digit()) => self.number(),
                'a'..='z' | 'A'..='Z' | '_' => self.word(),
                _ => self.mark(next),
            }
            if self.found.len() >= DIAGNOSTICS_MAX {
                return;
            }
            self.tokens.push(SourceToken { range: start..self.at, pair: None });
            self.bracket(next, start);
            if self.tokens.len() > TOKENS_MAX {
                let message = format!("a condition has at most {TOKENS_MAX} words and signs");
                self.report(Diagnostic::new(message, start..self.at).help("split it into several rules"));
                return;
            }
            ternaries += usize::from(next == '?');
            if self.open.len() > BRACKETS_MAX || ternaries > TERNARIES_MAX {
                let message = format!("brackets and `?` nest at most {BRACKETS_MAX} deep");
                self.report(Diagnostic::new(message, start..self.at).help("split it into several rules"));
                return;
            }
        }
        for (index, open) in std::mem::take(&mut self.open) {
            let range = self.tokens[index].range.clone();
            self.report(Diagnostic::new(format!("`{open}` is never closed"), range));
        }
        if self.tokens.is_empty() && self.found.is_empty() {
            let help = "a condition that always holds is `true`";
            self.report(Diagnostic::new("the condition is empty", 0..0).help(help));
        }
    }

    fn rest(&self) -> &'a str {
        &self.source[self.at..]
    }

    fn report(&mut self, diagnostic: Diagnostic) {
        if self.found.len() < DIAGNOSTICS_MAX {
            self.found.push(diagnostic);
        }
    }

    fn bracket(&mut self, sign: char, start: usize) {
        let index = self.tokens.len() - 1;
        let opens = match sign {
            '(' | '[' | '{' => return self.open.push((index, sign)),
            ')' => '(',
            ']' => '[',
            '}' => '{',
            _ => return,
        };
        match self.open.pop() {
            Some((other, open)) if open == opens => {
                self.tokens[index].pair = Some(other);
                self.tokens[other].pair = Some(index);
            }
            Some((_, open)) => {
                self.report(Diagnostic::new(format!("`{open}` is closed by `{sign}`"), start..self.at));
            }
            None => self.report(Diagnostic::new(format!("`{sign}` closes nothing"), start..self.at)),
        }
    }

    fn mark(&mut self, next: char) {
        const TWO: [&str; 6] = ["&&", "||", "==", "!=", "<=", ">="];
        let (start, rest) = (self.at, self.rest());
        if TWO.iter().any(|sign| rest.starts_with(sign)) {
            self.at += 2;
            return;
        }
        self.at += next.len_utf8();
        let range = start..self.at;
        match next {
            '(' | ')' | '[' | ']' | '{' | '}' | '.' | ',' | ':' | '?' | '!' | '<' | '>' | '+' | '-' | '*'
            | '/' | '%' => {}
            '=' => {
                let message = "`=` is no operator";
                self.report(Diagnostic::new(message, range).help("values are compared with `==`"));
            }
            '&' | '|' => {
                let message = format!("`{next}` is no operator");
                self.report(Diagnostic::new(message, range).help(format!("write `{next}{next}`")));
            }
            '\u{2018}'..='\u{201f}' => {
                let message = format!("unexpected character `{next}`");
                self.report(Diagnostic::new(message, range).help("text stands in straight quotes: `'text'`"));
            }
            '`' => self.report(Diagnostic::new("unexpected backquote", range)),
            _ => {
                let message = format!("unexpected character `{}`", next.escape_debug());
                self.report(Diagnostic::new(message, range));
            }
        }
    }

    fn word(&mut self) {
        let start = self.at;
        let rest = self.rest();
        let length = rest.bytes().take_while(|b| b.is_ascii_alphanumeric() || *b == b'_').count();
        let word = &rest[..length];
        if matches!(word, "r" | "R" | "b" | "B" | "br" | "bR" | "Br" | "BR")
            && rest[length..].starts_with(['\'', '"'])
        {
            return self.text(length);
        }
        self.at += length;
        let after_dot = self.tokens.last().is_some_and(|token| self.source[token.range.clone()] == *".");
        if !after_dot && RESERVED.contains(&word) {
            let help =
                if word == "if" { Some("a choice is written `condition ? value : other`") } else { None };
            let message = format!("`{word}` is a reserved word");
            self.report(Diagnostic::new(message, start..self.at).maybe_help(help.map(str::to_owned)));
        }
    }

    fn number(&mut self) {
        let start = self.at;
        let bytes = self.rest().as_bytes();
        let digits = |from: usize| bytes[from..].iter().take_while(|b| b.is_ascii_digit()).count();
        let mut end = digits(0);
        let mut float = false;
        let hex = bytes.starts_with(b"0x");
        if hex {
            end = 2 + bytes[2..].iter().take_while(|b| b.is_ascii_hexdigit()).count();
        } else {
            if bytes.get(end) == Some(&b'.') && digits(end + 1) > 0 {
                float = true;
                end += 1 + digits(end + 1);
            }
            if matches!(bytes.get(end), Some(b'e' | b'E')) {
                let sign = usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
                if bytes.len() > end + 1 + sign && digits(end + 1 + sign) > 0 {
                    float = true;
                    end += 1 + sign + digits(end + 1 + sign);
                }
            }
        }
        let number = &self.rest()[..end];
        // The least integer is one further from 0 than the greatest.
        let negative = self.tokens.last().is_some_and(|token| self.source[token.range.clone()] == *"-");
        let greatest = i64::MAX.unsigned_abs() + u64::from(negative);
        let fits = if float {
            number.parse().is_ok_and(|number: f64| number.is_finite())
        } else {
            let (digits, radix) = if hex { (&number[2..], 16) } else { (number, 10) };
            u64::from_str_radix(digits, radix).is_ok_and(|number| number <= greatest)
        };
        end += usize::from(!float && matches!(bytes.get(end), Some(b'u' | b'U')));
        let tail = bytes[end..].iter().take_while(|b| b.is_ascii_alphanumeric() || **b == b'_').count();
        self.at += end + tail;
        let range = start..self.at;
        if tail > 0 {
            let whole = &self.source[range.clone()];
            let help =
                whole.parse::<event::Span>().map(|_| format!("a length of time is `duration('{whole}')`"));
            self.report(Diagnostic::new(format!("`{whole}` is no number"), range).maybe_help(help.ok()));
        } else if !fits {
            self.report(Diagnostic::new("the number does not fit in 64 bits", range));
        }
    }

    /// A text literal whose prefix has this many letters.
    fn text(&mut self, prefix: usize) {
        let start = self.at;
        let raw = self.rest()[..prefix].contains(['r', 'R']);
        let body = &self.rest().as_bytes()[prefix..];
        let quote = body[0];
        let triple = body.starts_with(&[quote; 3]);
        let mut at = if triple { 3 } else { 1 };
        loop {
            match body.get(at) {
                None => break self.unclosed(start, prefix + at),
                Some(b'\n' | b'\r') if !triple => break self.unclosed(start, prefix + at),
                Some(b'\\') if !raw => {
                    let length = escape_length(&body[at..]);
                    let from = start + prefix + at;
                    if length == 0 {
                        at += 1;
                        let to = from + 1 + self.source[from + 1..].chars().next().map_or(0, char::len_utf8);
                        let message = format!("`{}` is no escape", self.source[from..to].escape_debug());
                        let help = r"a backslash is written `\\`, or as it is in a raw text: `r'\d'`";
                        self.report(Diagnostic::new(message, from..to).help(help));
                        at += to - from - 1;
                    }
                    at += length;
                }
                Some(&byte) if byte == quote && (!triple || body[at..].starts_with(&[quote; 3])) => {
                    self.at = start + prefix + at + if triple { 3 } else { 1 };
                    break;
                }
                Some(_) => at += 1,
            }
        }
    }

    fn unclosed(&mut self, start: usize, length: usize) {
        self.at = start + length;
        self.report(Diagnostic::new("the text is never closed", start..start + length));
    }
}

/// The length of the escape sequence at the start of `body`; 0 if CEL knows no such escape.
fn escape_length(body: &[u8]) -> usize {
    let code = |digits: usize, radix: u32| {
        let hex = body.get(2..2 + digits).and_then(|hex| std::str::from_utf8(hex).ok())?;
        let plain = hex.bytes().all(|b| b.is_ascii_hexdigit());
        let code = u32::from_str_radix(hex, radix).ok().filter(|_| plain)?;
        char::from_u32(code).map(|_| 2 + digits)
    };
    match body.get(1) {
        Some(b'a' | b'b' | b'f' | b'n' | b'r' | b't' | b'v' | b'"' | b'\'' | b'\\' | b'?' | b'`') => 2,
        Some(b'x' | b'X') => code(2, 16).unwrap_or(0),
        Some(b'u') => code(4, 16).unwrap_or(0),
        Some(b'U') => code(8, 16).unwrap_or(0),
        Some(b'0'..=b'3') => code(2, 8).unwrap_or(0),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_those_of_cel() {
        let check = |source: &str, expected: &[&str]| {
            let tokens = tokens(source).unwrap();
            let texts: Vec<&str> = tokens.iter().map(|token| &source[token.range.clone()]).collect();
            assert_eq!(texts, expected, "{source}");
        };
        check("a.b>=1.5e3&&!c", &["a", ".", "b", ">=", "1.5e3", "&&", "!", "c"]);
        check("x // no\n.y()", &["x", ".", "y", "(", ")"]);
        check(
            r#"r'\d' + b"x" + '''it's''' + '\'é\u00e9'"#,
            &[r"r'\d'", "+", "b\"x\"", "+", "'''it's'''", "+", r"'\'é\u00e9'"],
        );
        check("0xFFu - .5 -5.or(1)", &["0xFFu", "-", ".5", "-", "5", ".", "or", "(", "1", ")"]);
        check("a.if", &["a", ".", "if"]);
    }

    #[test]
    fn brackets_know_their_pair() {
        let pairs: Vec<_> = tokens("(a[0])").unwrap().iter().map(|token| token.pair).collect();
        assert_eq!(pairs, [Some(5), None, Some(4), None, Some(2), Some(0)]);
    }
}
