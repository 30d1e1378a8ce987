//! Reads a condition's text into a tree of what it says, with the place of every part.
//!
//! The syntax is CEL's and so is the parser; no other module knows that crate. What CEL has and rules have
//! not (maps, structs, null, bytes, macros) is refused here with what to write instead. No macro is
//! expanded: a rule has no loops, and `has` is a function like others.

use std::ops::Range;

use cel::common::ast::{CallExpr, Expr, IdedExpr, LiteralValue, SourceInfo, operators};

use crate::Diagnostic;
use crate::lexer::{DIAGNOSTICS_MAX, SourceToken, TERNARIES_MAX, tokens};

/// Longest accepted source of a condition.
pub(crate) const SOURCE_BYTES_MAX: usize = 16 * 1024;
/// Deepest nesting of a condition's tree. `&&` and `||` chains are one level each, other operators one a
/// piece.
pub(crate) const DEPTH_MAX: usize = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CompareOperator {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ArithmeticOperator {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
}

/// A part of a condition and where it stands.
#[derive(Clone, Debug)]
pub(crate) struct SyntaxNode {
    pub(crate) range: Range<usize>,
    pub(crate) kind: SyntaxKind,
}

#[derive(Clone, Debug)]
pub(crate) enum SyntaxKind {
    /// A dotted name.
    Name(String),
    Text(String),
    Integer(i64),
    Float(f64),
    Bool(bool),
    List(Vec<SyntaxNode>),
    Not(Box<SyntaxNode>),
    Negate(Box<SyntaxNode>),
    All(Vec<SyntaxNode>),
    Any(Vec<SyntaxNode>),
    Compare(CompareOperator, Box<(SyntaxNode, SyntaxNode)>),
    In(Box<(SyntaxNode, SyntaxNode)>),
    Arithmetic(ArithmeticOperator, Box<(SyntaxNode, SyntaxNode)>),
    If(Box<(SyntaxNode, SyntaxNode, SyntaxNode)>),
    /// A list and the place of an item.
    Index(Box<(SyntaxNode, SyntaxNode)>),
    Call(CallNode),
    /// A diagnostic has been made of it.
    Refused,
}

#[derive(Clone, Debug)]
pub(crate) struct CallNode {
    pub(crate) name: String,
    pub(crate) name_range: Range<usize>,
    pub(crate) target: Option<Box<SyntaxNode>>,
    pub(crate) args: Vec<SyntaxNode>,
}

impl SyntaxNode {
    /// The parts that it consists of, the target of a call first.
    pub(crate) fn children_mut(&mut self) -> Vec<&mut SyntaxNode> {
        match &mut self.kind {
            SyntaxKind::Name(_)
            | SyntaxKind::Text(_)
            | SyntaxKind::Integer(_)
            | SyntaxKind::Float(_)
            | SyntaxKind::Bool(_)
            | SyntaxKind::Refused => Vec::new(),
            SyntaxKind::List(parts) | SyntaxKind::All(parts) | SyntaxKind::Any(parts) => {
                parts.iter_mut().collect()
            }
            SyntaxKind::Not(operand) | SyntaxKind::Negate(operand) => vec![operand],
            SyntaxKind::Compare(_, sides)
            | SyntaxKind::In(sides)
            | SyntaxKind::Arithmetic(_, sides)
            | SyntaxKind::Index(sides) => {
                let (left, right) = &mut **sides;
                vec![left, right]
            }
            SyntaxKind::If(branches) => {
                let (test, yes, no) = &mut **branches;
                vec![test, yes, no]
            }
            SyntaxKind::Call(call) => call.target.as_deref_mut().into_iter().chain(&mut call.args).collect(),
        }
    }
}

/// The tree of `source`, and what in it has no meaning in a rule; or only diagnostics where it has no tree.
pub(crate) fn parse(source: &str) -> Result<(SyntaxNode, Vec<Diagnostic>), Vec<Diagnostic>> {
    if source.len() > SOURCE_BYTES_MAX {
        let message =
            format!("a condition is at most {SOURCE_BYTES_MAX} bytes long, this one is {}", source.len());
        return Err(vec![Diagnostic::new(message, 0..0).help("split it into several rules")]);
    }
    let tokens = tokens(source)?;
    // Tokens bound nesting already; the parser's own limit only has to be out of the way.
    let parser =
        cel::Env::default().parser().max_recursion_depth(4 * TERNARIES_MAX as u16).error_recovery_limit(4);
    let (tree, places) = parser.parse_with_source_info(source).map_err(|errors| {
        let first = errors.errors.first().map_or((1, 1), |error| error.pos);
        vec![unexpected(source, &tokens, first)]
    })?;
    let mut reader = SyntaxReader { tokens, places, found: Vec::new(), too_deep: false };
    let node = reader.node(&tree, 0);
    Ok((node, reader.found))
}

/// Says in our words what the parser stumbled over, at a line and a column that count characters from 1.
fn unexpected(source: &str, tokens: &[SourceToken], (line, column): (isize, isize)) -> Diagnostic {
    let line = usize::try_from(line - 1).unwrap_or(0);
    let column = usize::try_from(column - 1).unwrap_or(0);
    let start: usize = source.split_inclusive('\n').take(line).map(str::len).sum();
    let offset = start + source[start..].chars().take(column).map(char::len_utf8).sum::<usize>();
    let index = tokens.partition_point(|token| token.range.end <= offset);
    let previous =
        index.checked_sub(1).and_then(|index| tokens.get(index)).map(|token| &source[token.range.clone()]);
    let Some(token) = tokens.get(index) else {
        let end = tokens.last().map_or(source.len(), |token| token.range.end);
        return Diagnostic::new("the condition ends too early", end..end);
    };
    if let (Some("not" | "NOT"), Some(not)) = (previous, tokens.get(index.wrapping_sub(1))) {
        return Diagnostic::new("unexpected `not`", not.range.clone()).help("write `!`");
    }
    let text = &source[token.range.clone()];
    let help = match (previous, text) {
        (_, "and" | "AND") => Some("write `&&`"),
        (_, "or" | "OR") => Some("write `||`"),
        (_, "is") => Some("values are compared with `==`"),
        (Some("<"), ">") => Some("write `!=`"),
        (_, "then" | "else" | "unless") => Some("a choice is written `condition ? value : other`"),
        _ => None,
    };
    Diagnostic::new(format!("unexpected `{text}`"), token.range.clone()).maybe_help(help.map(str::to_owned))
}

struct SyntaxReader {
    tokens: Vec<SourceToken>,
    places: SourceInfo,
    found: Vec<Diagnostic>,
    too_deep: bool,
}

impl SyntaxReader {
    /// The index of the token that the parser keeps as the place of a part.
    fn anchor(&self, tree: &IdedExpr) -> usize {
        let start = self.places.offset_for(tree.id).map_or(0, |(start, _)| start as usize);
        self.tokens.partition_point(|token| token.range.end <= start).min(self.tokens.len() - 1)
    }

    fn token(&self, index: usize) -> Range<usize> {
        self.tokens[index.min(self.tokens.len() - 1)].range.clone()
    }

    /// From `start` to `end`, and on to the other bracket of every pair that is cut.
    fn cover(&self, start: usize, end: usize) -> Range<usize> {
        let first = self.tokens.partition_point(|token| token.range.end <= start);
        let last = self.tokens.partition_point(|token| token.range.start < end);
        let pairs = self.tokens[first..last.max(first)].iter().filter_map(|token| token.pair);
        pairs.fold(start..end, |range, pair| {
            let pair = self.token(pair);
            range.start.min(pair.start)..range.end.max(pair.end)
        })
    }

    fn refuse(&mut self, range: Range<usize>, message: impl Into<String>, help: &str) -> SyntaxNode {
        if self.found.len() < DIAGNOSTICS_MAX {
            self.found.push(Diagnostic::new(message, range.clone()).help(help));
        }
        SyntaxNode { range, kind: SyntaxKind::Refused }
    }

    fn node(&mut self, tree: &IdedExpr, depth: usize) -> SyntaxNode {
        let anchor = self.anchor(tree);
        let at = self.token(anchor);
        if depth >= DEPTH_MAX {
            if std::mem::replace(&mut self.too_deep, true) {
                return SyntaxNode { range: at, kind: SyntaxKind::Refused };
            }
            let message = format!("the condition nests more than {DEPTH_MAX} operators");
            return self.refuse(at, message, "split it into several rules");
        }
        match &tree.expr {
            Expr::Literal(literal) => self.literal(literal, anchor),
            Expr::Ident(name) if name.starts_with('.') => {
                self.refuse(at, "a name does not start with a dot", "write the fact's whole name")
            }
            Expr::Ident(name) => SyntaxNode { range: at, kind: SyntaxKind::Name(name.clone()) },
            Expr::Select(select) => {
                let operand = self.node(&select.operand, depth + 1);
                let range = self.cover(operand.range.start, self.token(anchor + 1).end);
                match operand.kind {
                    SyntaxKind::Name(name) => {
                        SyntaxNode { range, kind: SyntaxKind::Name(format!("{name}.{}", select.field)) }
                    }
                    SyntaxKind::Refused => SyntaxNode { range, kind: SyntaxKind::Refused },
                    _ => {
                        self.refuse(range, "only names have fields", "facts are dotted names: `mail.subject`")
                    }
                }
            }
            Expr::List(list) => {
                let range = self.cover(at.start, at.end);
                if !list.optional_indices.is_empty() {
                    return self.refuse(range, "rules have no optional items", "write the items without `?`");
                }
                let items = list.elements.iter().map(|item| self.node(item, depth + 1)).collect();
                SyntaxNode { range, kind: SyntaxKind::List(items) }
            }
            Expr::Call(call) => self.call(call, anchor, depth),
            Expr::Map(_) => {
                let range = self.cover(at.start, at.end);
                self.refuse(
                    range,
                    "rules have no maps",
                    "values are tested with `in` and a list: `x in ['a', 'b']`",
                )
            }
            Expr::Struct(_) => {
                let range = self.cover(at.start, at.end);
                self.refuse(range, "rules have no messages", "facts are dotted names: `mail.subject`")
            }
            Expr::Comprehension(_) | Expr::Unspecified => {
                self.refuse(at, "unexpected expression", "rules have no loops")
            }
        }
    }

    fn literal(&mut self, literal: &LiteralValue, anchor: usize) -> SyntaxNode {
        let mut range = self.token(anchor);
        let mut signed = |negative: bool| {
            if let Some(sign) = anchor.checked_sub(1).filter(|_| negative) {
                range.start = self.token(sign).start;
            }
        };
        let kind = match literal {
            LiteralValue::Boolean(truth) => SyntaxKind::Bool(*truth.inner()),
            LiteralValue::Int(integer) => {
                signed(*integer.inner() < 0);
                SyntaxKind::Integer(*integer.inner())
            }
            LiteralValue::Double(float) => {
                signed(float.inner().is_sign_negative());
                SyntaxKind::Float(*float.inner())
            }
            LiteralValue::String(text) => SyntaxKind::Text(text.inner().to_owned()),
            LiteralValue::UInt(integer) => match i64::try_from(*integer.inner()) {
                Ok(integer) => SyntaxKind::Integer(integer),
                Err(_) => {
                    return self.refuse(range, "the number is too large", "integers are signed, of 64 bits");
                }
            },
            LiteralValue::Null => {
                return self.refuse(range, "rules have no null", "ask with `has(mail.subject)`");
            }
            LiteralValue::Bytes(_) => {
                return self.refuse(range, "rules have no bytes", "write a text without `b`");
            }
        };
        SyntaxNode { range, kind }
    }

    fn call(&mut self, call: &CallExpr, anchor: usize, depth: usize) -> SyntaxNode {
        let at = self.token(anchor);
        match (call.func_name.as_str(), call.args.as_slice()) {
            (name @ (operators::LOGICAL_AND | operators::LOGICAL_OR), _) => {
                let mut parts = Vec::new();
                self.parts(call, name, depth, &mut parts);
                let start = parts.first().map_or(at.start, |part| part.range.start);
                let end = parts.last().map_or(at.end, |part| part.range.end);
                let kind = if name == operators::LOGICAL_AND { SyntaxKind::All } else { SyntaxKind::Any };
                SyntaxNode { range: self.cover(start, end), kind: kind(parts) }
            }
            (operators::LOGICAL_NOT | operators::NEGATE, [operand]) => {
                let operand = self.node(operand, depth + 1);
                let range = self.cover(at.start, operand.range.end);
                let not = call.func_name == operators::LOGICAL_NOT;
                let kind = if not { SyntaxKind::Not } else { SyntaxKind::Negate };
                SyntaxNode { range, kind: kind(Box::new(operand)) }
            }
            (operators::CONDITIONAL, [test, yes, no]) => {
                let test = self.node(test, depth + 1);
                let (yes, no) = (self.node(yes, depth + 1), self.node(no, depth + 1));
                let range = self.cover(test.range.start, no.range.end);
                SyntaxNode { range, kind: SyntaxKind::If(Box::new((test, yes, no))) }
            }
            (operators::INDEX, [operand, index]) => {
                let operand = self.node(operand, depth + 1);
                let range = self.cover(operand.range.start, at.end);
                let index = self.node(index, depth + 1);
                SyntaxNode { range, kind: SyntaxKind::Index(Box::new((operand, index))) }
            }
            (operators::OPT_INDEX, [operand, _]) => {
                let operand = self.node(operand, depth + 1);
                let range = self.cover(operand.range.start, at.end);
                let help = "an item that is not there is missing: write `mail.links[0]`";
                self.refuse(range, "rules have no optional items", help)
            }
            (operators::OPT_SELECT, [operand, _]) => {
                let operand = self.node(operand, depth + 1);
                let range = self.cover(operand.range.start, self.token(anchor + 2).end);
                let help = "a missing value is replaced with `mail.subject.or('')`";
                self.refuse(range, "rules have no optional fields", help)
            }
            (name, [left, right]) if call.target.is_none() && binary(name).is_some() => {
                let sides = Box::new((self.node(left, depth + 1), self.node(right, depth + 1)));
                let range = self.cover(sides.0.range.start, sides.1.range.end);
                let kind = match binary(name) {
                    Some(BinaryOperator::Compare(compare)) => SyntaxKind::Compare(compare, sides),
                    Some(BinaryOperator::Arithmetic(arithmetic)) => SyntaxKind::Arithmetic(arithmetic, sides),
                    Some(BinaryOperator::In) => SyntaxKind::In(sides),
                    None => SyntaxKind::Refused,
                };
                SyntaxNode { range, kind }
            }
            (name, args) => {
                let target = call.target.as_deref().map(|target| Box::new(self.node(target, depth + 1)));
                let name_range = self.token(anchor.saturating_sub(1));
                let start = target.as_ref().map_or(name_range.start, |target| target.range.start);
                let range = self.cover(start, at.end);
                if target.is_some() && matches!(name, "exists" | "all" | "exists_one" | "map" | "filter") {
                    let message = format!("rules have no loops, so no `{name}`");
                    return self.refuse(range, message, "one item is sought with `'a' in mail.links`");
                }
                let args = args.iter().map(|arg| self.node(arg, depth + 1)).collect();
                SyntaxNode {
                    range,
                    kind: SyntaxKind::Call(CallNode { name: name.to_owned(), name_range, target, args }),
                }
            }
        }
    }

    /// The parser balances `a && b && c` into a tree; a rule has them side by side.
    fn parts(&mut self, call: &CallExpr, name: &str, depth: usize, parts: &mut Vec<SyntaxNode>) {
        for arg in &call.args {
            match &arg.expr {
                Expr::Call(inner) if inner.func_name == name => self.parts(inner, name, depth, parts),
                _ => parts.push(self.node(arg, depth + 1)),
            }
        }
    }
}

enum BinaryOperator {
    Compare(CompareOperator),
    Arithmetic(ArithmeticOperator),
    In,
}

fn binary(name: &str) -> Option<BinaryOperator> {
    Some(match name {
        operators::EQUALS => BinaryOperator::Compare(CompareOperator::Equal),
        operators::NOT_EQUALS => BinaryOperator::Compare(CompareOperator::NotEqual),
        operators::LESS => BinaryOperator::Compare(CompareOperator::Less),
        operators::LESS_EQUALS => BinaryOperator::Compare(CompareOperator::LessOrEqual),
        operators::GREATER => BinaryOperator::Compare(CompareOperator::Greater),
        operators::GREATER_EQUALS => BinaryOperator::Compare(CompareOperator::GreaterOrEqual),
        operators::ADD => BinaryOperator::Arithmetic(ArithmeticOperator::Add),
        operators::SUBSTRACT => BinaryOperator::Arithmetic(ArithmeticOperator::Subtract),
        operators::MULTIPLY => BinaryOperator::Arithmetic(ArithmeticOperator::Multiply),
        operators::DIVIDE => BinaryOperator::Arithmetic(ArithmeticOperator::Divide),
        operators::MODULO => BinaryOperator::Arithmetic(ArithmeticOperator::Remainder),
        operators::IN => BinaryOperator::In,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_reaches_over_its_brackets() {
        let check = |source: &str, expected: &str| {
            let (node, found) = parse(source).unwrap();
            assert_eq!(found, []);
            assert_eq!(&source[node.range], expected);
        };
        check("  (a + b) * c  ", "(a + b) * c");
        check("a . b", "a . b");
        check("(a).b( 'é', (1) ) // x", "(a).b( 'é', (1) )");
        check("!(a && (b || c))", "!(a && (b || c))");
        check("-1.5", "-1.5");
        check("a ? b : (c)", "a ? b : (c)");
        check("x in ['a', 'b']", "x in ['a', 'b']");
    }

    #[test]
    fn chains_of_and_are_flat() {
        let source = vec!["a"; 500].join(" && ");
        let (node, found) = parse(&source).unwrap();
        assert_eq!(found, []);
        assert!(matches!(node.kind, SyntaxKind::All(parts) if parts.len() == 500));
    }
}
