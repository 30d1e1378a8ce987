//! Lays a condition's source out in the one form that everybody's has.
//!
//! Only what has no meaning is changed: blanks, line breaks, and the quotes of texts in which either kind means the
//! same. The tokens stay, in their order, so a condition that was laid out is the condition that it was.

use std::ops::Range;

use crate::Diagnostic;
use crate::lexer::{SourceToken, tokens};
use crate::syntax::parse;

/// The indent of a line that continues another, in characters.
const INDENT: usize = 2;
/// Least width that a part is laid out in, however deep it is nested.
const WIDTH_MIN: usize = 24;

/// The source of a condition or an expression, laid out in lines of at most `width` characters where that can be:
/// on one line if it fits, else broken at `?`, `||` and `&&`, from the outermost to the innermost, and inside brackets.
/// A condition with comments keeps its lines. The same again changes nothing.
///
/// Takes time in the order of the source's length times its nesting.
///
/// # Errors
/// What keeps it from being read. Names and types are not looked at.
pub fn format(source: &str, width: usize) -> Result<String, Vec<Diagnostic>> {
    let (_, found) = parse(source)?;
    if !found.is_empty() {
        return Err(found);
    }
    let layout = SourceLayout::of(source, tokens(source)?);
    let lines = match comments(source, &layout.tokens) {
        lines if lines.iter().any(|line| line.comment.is_some()) => layout.commented(&lines),
        _ => layout.lines(0..layout.tokens.len(), width),
    };
    Ok(lines.join("\n"))
}

/// Returns the source of a condition on one line and without comments: equal for sources that are the same but for their layout. A source that
/// cannot be read is left as it is.
pub fn canonical(source: &str) -> String {
    match tokens(source) {
        Ok(tokens) => {
            let layout = SourceLayout::of(source, tokens);
            layout.line(0..layout.tokens.len())
        }
        Err(_) => source.to_owned(),
    }
}

/// The gap between two tokens.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TokenGap {
    Nothing,
    Blank,
}

/// A line of a source with comments: its tokens, and the comment at its end.
struct SourceLine<'a> {
    tokens: Range<usize>,
    comment: Option<&'a str>,
}

struct SourceLayout<'a> {
    source: &'a str,
    tokens: Vec<SourceToken>,
    /// Before each token.
    gaps: Vec<TokenGap>,
}

impl<'a> SourceLayout<'a> {
    fn of(source: &'a str, tokens: Vec<SourceToken>) -> SourceLayout<'a> {
        let mut layout = SourceLayout { source, tokens, gaps: Vec::new() };
        // Whether a value has ended before a sign, so that the sign is not its beginning.
        let mut after_value = false;
        // A sign that belongs to what follows.
        let mut unary = false;
        for index in 0..layout.tokens.len() {
            let (text, before) = (layout.text(index), index.checked_sub(1).map(|before| layout.text(before)));
            let is_word =
                text.starts_with(|c: char| c.is_ascii_alphanumeric() || "_'\".".contains(c)) && text != ".";
            let gap = match (before, text) {
                (None | Some("(" | "[" | "{" | "."), _) | (_, ")" | "]" | "}" | "." | ",") => {
                    TokenGap::Nothing
                }
                _ if unary => TokenGap::Nothing,
                // A call or an index; after an operator a bracket begins a value.
                (Some(_), "(" | "[" | "{") if after_value => TokenGap::Nothing,
                _ => TokenGap::Blank,
            };
            layout.gaps.push(gap);
            unary = text == "!" || text == "-" && !after_value;
            after_value = is_word && text != "in" || matches!(text, ")" | "]" | "}");
        }
        layout
    }

    fn text(&self, index: usize) -> &'a str {
        self.tokens.get(index).map_or("", |token| &self.source[token.range.clone()])
    }

    /// A token as it is written: a text in single quotes where they mean the same.
    fn written(&self, index: usize) -> String {
        let text = self.text(index);
        let inner = text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
        match inner {
            Some(inner) if !inner.contains(['\'', '"', '\\']) => format!("'{inner}'"),
            _ => text.to_owned(),
        }
    }

    /// Tokens on one line.
    fn line(&self, range: Range<usize>) -> String {
        let mut line = String::new();
        for index in range.clone() {
            if index > range.start && self.gaps[index] == TokenGap::Blank {
                line.push(' ');
            }
            line.push_str(&self.written(index));
        }
        line
    }

    /// Tokens on as many lines as they need.
    fn lines(&self, range: Range<usize>, width: usize) -> Vec<String> {
        let width = width.max(WIDTH_MIN);
        let line = self.line(range.clone());
        if line.chars().count() <= width {
            return vec![line];
        }
        if let Some((question, colon)) = self.choice(range.clone()) {
            let mut lines = self.lines(range.start..question, width);
            lines.extend(hang("? ", self.lines(question + 1..colon, width - INDENT)));
            lines.extend(hang(": ", self.lines(colon + 1..range.end, width - INDENT)));
            return lines;
        }
        for operator in ["||", "&&"] {
            let parts = self.split(range.clone(), operator);
            if parts.len() > 1 {
                let mut lines = Vec::new();
                for part in parts {
                    if lines.is_empty() {
                        // Lines that begin with `&&` do not stand beneath those that begin with `||`.
                        let nests = operator == "||" && self.split(part.clone(), "&&").len() > 1;
                        let first = self.lines(part, width - if nests { INDENT } else { 0 });
                        let begins = |line: &String| nests && line.starts_with("&& ");
                        let inner = first.iter().position(begins).unwrap_or(first.len());
                        lines.extend(first.into_iter().enumerate().map(|(index, line)| match index {
                            index if index < inner => line,
                            _ => format!("{:INDENT$}{line}", ""),
                        }));
                    } else {
                        let sign = format!("{operator} ");
                        lines.extend(hang(&sign, self.lines(part, width - sign.len())));
                    }
                }
                return lines;
            }
        }
        match self.brackets(range.clone()) {
            Some((open, close)) => {
                let mut lines = vec![self.line(range.start..open + 1)];
                let items = self.split(open + 1..close, ",");
                let inner = if items.len() > 1 {
                    self.fill(items, width - INDENT)
                } else {
                    self.lines(open + 1..close, width - INDENT)
                };
                lines.extend(inner.into_iter().map(|line| format!("{:INDENT$}{line}", "")));
                lines.push(self.line(close..range.end));
                lines
            }
            None => vec![line],
        }
    }

    /// Items side by side, as many on a line as fit.
    fn fill(&self, items: Vec<Range<usize>>, width: usize) -> Vec<String> {
        let mut lines: Vec<String> = Vec::new();
        let last = items.len() - 1;
        for (index, item) in items.into_iter().enumerate() {
            let mut parts = self.lines(item, width);
            if let (Some(end), true) = (parts.last_mut(), index < last) {
                end.push(',');
            }
            match (lines.last_mut(), parts.as_slice()) {
                (Some(line), [part])
                    if line.ends_with(',') && line.chars().count() + 1 + part.chars().count() <= width =>
                {
                    line.push(' ');
                    line.push_str(part);
                }
                _ => lines.extend(parts),
            }
        }
        lines
    }

    /// The first `?` outside brackets and the `:` that belongs to it.
    fn choice(&self, range: Range<usize>) -> Option<(usize, usize)> {
        let mut outside = self.outside(range);
        let question = outside.find(|index| self.text(*index) == "?")?;
        let mut open = 1;
        let colon = outside.find(|index| {
            match self.text(*index) {
                "?" => open += 1,
                ":" => open -= 1,
                _ => {}
            }
            open == 0
        })?;
        Some((question, colon))
    }

    /// The parts between operators outside brackets.
    fn split(&self, range: Range<usize>, operator: &str) -> Vec<Range<usize>> {
        let mut parts = Vec::new();
        let mut start = range.start;
        for index in self.outside(range.clone()) {
            if self.text(index) == operator {
                parts.push(start..index);
                start = index + 1;
            }
        }
        if start < range.end {
            parts.push(start..range.end);
        }
        parts
    }

    /// The longest pair of brackets that is in no other, if there is anything in it.
    fn brackets(&self, range: Range<usize>) -> Option<(usize, usize)> {
        let pairs = self.outside(range).filter_map(|index| {
            let pair = self.tokens[index].pair.filter(|pair| *pair > index + 1)?;
            Some((index, pair))
        });
        pairs.max_by_key(|(open, close)| close - open)
    }

    /// The tokens of a range that are in no bracket, brackets that open among them.
    fn outside(&self, range: Range<usize>) -> impl Iterator<Item = usize> {
        let mut next = range.start;
        std::iter::from_fn(move || {
            let index = next;
            (index < range.end).then(|| {
                next = match self.tokens[index].pair {
                    Some(pair) if pair > index => pair + 1,
                    _ => index + 1,
                };
                index
            })
        })
    }

    /// The lines of a source with comments, each indented by the brackets around it.
    fn commented(&self, lines: &[SourceLine<'_>]) -> Vec<String> {
        let mut open = 0usize;
        let mut laid_out = Vec::with_capacity(lines.len());
        for SourceLine { tokens, comment } in lines {
            let mut closed_first = 0;
            let mut depth = open;
            let mut begins = true;
            for index in tokens.clone() {
                match self.text(index) {
                    "(" | "[" | "{" => (depth, begins) = (depth + 1, false),
                    ")" | "]" | "}" => {
                        depth = depth.saturating_sub(1);
                        closed_first += usize::from(begins);
                    }
                    _ => begins = false,
                }
            }
            let indent = INDENT * open.saturating_sub(closed_first);
            open = depth;
            let (line, comment) = (self.line(tokens.clone()), comment.unwrap_or_default());
            let gap = if line.is_empty() || comment.is_empty() { "" } else { "  " };
            laid_out.push(format!("{:indent$}{line}{gap}{comment}", ""));
        }
        laid_out
    }
}

/// The lines of a source that have tokens or a comment.
fn comments<'a>(source: &'a str, tokens: &[SourceToken]) -> Vec<SourceLine<'a>> {
    let mut lines = Vec::new();
    let (mut first, mut from) = (0, 0);
    for index in 0..=tokens.len() {
        let until = tokens.get(index).map_or(source.len(), |token| token.range.start);
        // Between two tokens are only blanks, line breaks and comments.
        let gap = &source[from..until];
        let mut pieces = gap.split('\n').peekable();
        while let Some(piece) = pieces.next() {
            let comment = piece.trim();
            let comment = (!comment.is_empty()).then_some(comment);
            let ends = pieces.peek().is_some() || index == tokens.len();
            if ends && (comment.is_some() || first < index) {
                lines.push(SourceLine { tokens: first..index, comment });
                first = index;
            }
        }
        from = tokens.get(index).map_or(from, |token| token.range.end);
    }
    lines
}

/// Lines behind a sign, those after the first beneath its end.
fn hang(sign: &str, lines: Vec<String>) -> impl Iterator<Item = String> {
    let width = sign.len();
    lines.into_iter().enumerate().map(move |(index, line)| match index {
        0 => format!("{sign}{line}"),
        _ => format!("{:width$}{line}", ""),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(source: &str, width: usize, expected: &str) {
        let laid_out = format(source, width).unwrap_or_else(|found| panic!("{source}: {found:?}"));
        assert_eq!(laid_out, expected, "{source}");
        assert_eq!(format(&laid_out, width).as_deref(), Ok(expected), "the same again: {source}");
        assert_eq!(canonical(source), canonical(&laid_out));
    }

    #[test]
    fn blanks_stand_between_words_and_around_operators() {
        check("a>10&&b/(b+c)>0.99", 100, "a > 10 && b / (b + c) > 0.99");
        check(" from . seen( \"1h\" )>  1000\n&& ! x", 100, "from.seen('1h') > 1000 && !x");
        check("-a<- 1||!( b )", 100, "-a < -1 || !(b)");
        check("a- -1==b-1", 100, "a - -1 == b - 1");
        check("x in['a',\"it's\" , r'\\d']", 100, "x in ['a', \"it's\", r'\\d']");
        check("a?b:c", 100, "a ? b : c");
        check("(a ) . or(0) in[ 1,-2 ]", 100, "(a).or(0) in [1, -2]");
        check("sets.intersects( a,b)", 100, "sets.intersects(a, b)");
    }

    #[test]
    fn long_conditions_are_broken_from_outside_in() {
        check(
            "from.seen('1h') > 1000 && !mail.has_list_headers || (subject.seen('1d') > 500 && subject.first_age() < duration('1d'))",
            60,
            "from.seen('1h') > 1000 && !mail.has_list_headers\n|| (\n  subject.seen('1d') > 500\n  && subject.first_age() < duration('1d')\n)"
                .replace("\n  ", "\n     ").replace("\n)", "\n   )").as_str(),
        );
        check(
            "aaaaaaaaaa > 10 && bbbbbbbbbb > 10 || cccccccccc > 10",
            30,
            "aaaaaaaaaa > 10\n  && bbbbbbbbbb > 10\n|| cccccccccc > 10",
        );
        check(
            "mail.from in ['ann@example.org', 'bob@example.org', 'cho@example.org', 'dan@example.org']",
            50,
            "mail.from in [\n  'ann@example.org', 'bob@example.org',\n  'cho@example.org', 'dan@example.org'\n]",
        );
        check(
            "aaaaaaaaaaaaaaa ? bbbbbbbbbbbbbbbb : ccccccccccccccc ? dddddddddddddd : e",
            30,
            "aaaaaaaaaaaaaaa\n? bbbbbbbbbbbbbbbb\n: ccccccccccccccc\n  ? dddddddddddddd\n  : e",
        );
    }

    #[test]
    fn comments_keep_their_lines() {
        check(
            "// bulk\n\n a>1   // many\n&&(  b\n||c) //end",
            100,
            "// bulk\na > 1  // many\n&& (b\n  || c)  //end",
        );
        check("a // \"it's\"\n", 10, "a  // \"it's\"");
        check("a\n  // x\n  // y", 10, "a\n// x\n// y");
    }

    #[test]
    fn what_cannot_be_read_is_told() {
        assert_eq!(format("a &&", 80).unwrap_err()[0].message, "the condition ends too early");
        assert_eq!(format("a [ 0 ]", 80).unwrap(), "a[0]");
        assert_eq!(canonical("a  ='"), "a  ='");
    }
}
