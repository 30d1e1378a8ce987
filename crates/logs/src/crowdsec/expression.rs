//! Expressions in the language `expr`, which CrowdSec's files are written in: text → tree.
//!
//! The tree's depth and size are bounded, and so is what [evaluation](crate::crowdsec::evaluation) may spend.

use std::sync::Arc;

use crate::go_regex;

/// Most bytes of an expression.
pub const EXPR_BYTES_MAX: usize = 64 * 1024;
/// Most levels of a tree.
const DEPTH_MAX: usize = 250;
/// Most bytes of a regular expression's program.
const PROGRAM_BYTES_MAX: usize = 8 << 20;

/// Text that is no expression, or one that is not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message} at byte {at}")]
pub struct ExprSyntaxError {
    /// The place in the text, in bytes.
    pub at: usize,
    /// The reason why it is not taken.
    pub message: String,
}

/// An expression that was read.
#[derive(Clone, Debug)]
pub struct CrowdsecExpression {
    pub(crate) root: ExprNode,
}

impl CrowdsecExpression {
    /// Reads a text.
    pub fn parse(text: &str) -> Result<CrowdsecExpression, ExprSyntaxError> {
        if text.len() > EXPR_BYTES_MAX {
            return Err(ExprSyntaxError { at: 0, message: "the expression is too long".to_owned() });
        }
        let tokens = tokens(text)?;
        let mut parser = ExprParser { tokens, at: 0, depth: 0, closures: 0 };
        let root = parser.expression(0)?;
        match parser.peek() {
            ExprToken::End => Ok(CrowdsecExpression { root }),
            _ => Err(parser.error("an operator is missing")),
        }
    }

    /// Names of the functions that it calls, which are not those of the language itself.
    pub fn functions(&self) -> Vec<Arc<str>> {
        let mut names = Vec::new();
        self.root.visit(&mut |node| {
            if let ExprNode::Call { name, .. } = node {
                names.push(Arc::clone(name));
            }
        });
        names.sort();
        names.dedup();
        names
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BinaryOperator {
    Or,
    And,
    Equal,
    NotEqual,
    Less,
    Greater,
    LessOrEqual,
    GreaterOrEqual,
    In,
    Matches,
    Contains,
    StartsWith,
    EndsWith,
    Range,
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
    Power,
    Otherwise,
}

/// The element of a list that a closure is asked about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClosurePart {
    Element,
    Index,
    Accumulator,
}

#[derive(Clone, Debug)]
pub(crate) enum ExprNode {
    Nil,
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(Arc<str>),
    Regex(Arc<regex::Regex>),
    Name(Arc<str>),
    Closure(ClosurePart),
    List(Vec<ExprNode>),
    Map(Vec<(ExprNode, ExprNode)>),
    Member {
        object: Box<ExprNode>,
        name: Box<ExprNode>,
        is_optional: bool,
    },
    Slice {
        object: Box<ExprNode>,
        from: Option<Box<ExprNode>>,
        to: Option<Box<ExprNode>>,
    },
    Call {
        name: Arc<str>,
        arguments: Vec<ExprNode>,
    },
    /// A function over a list, with what is asked of each element.
    Each {
        name: Arc<str>,
        list: Box<ExprNode>,
        closure: Option<Box<ExprNode>>,
        start: Option<Box<ExprNode>>,
    },
    Method {
        object: Box<ExprNode>,
        name: Arc<str>,
        arguments: Vec<ExprNode>,
        is_optional: bool,
    },
    Not(Box<ExprNode>),
    Negate(Box<ExprNode>),
    Binary {
        operator: BinaryOperator,
        left: Box<ExprNode>,
        right: Box<ExprNode>,
    },
    Conditional {
        condition: Box<ExprNode>,
        then: Box<ExprNode>,
        otherwise: Box<ExprNode>,
    },
    Let {
        name: Arc<str>,
        value: Box<ExprNode>,
        body: Box<ExprNode>,
    },
}

impl ExprNode {
    fn visit(&self, see: &mut impl FnMut(&ExprNode)) {
        see(self);
        match self {
            ExprNode::List(items) => items.iter().for_each(|item| item.visit(see)),
            ExprNode::Map(members) => members.iter().for_each(|(name, value)| {
                name.visit(see);
                value.visit(see);
            }),
            ExprNode::Member { object, name, .. } => {
                object.visit(see);
                name.visit(see);
            }
            ExprNode::Slice { object, from, to } => {
                object.visit(see);
                from.iter().chain(to).for_each(|bound| bound.visit(see));
            }
            ExprNode::Call { arguments, .. } => arguments.iter().for_each(|argument| argument.visit(see)),
            ExprNode::Each { list, closure, start, .. } => {
                list.visit(see);
                closure.iter().chain(start).for_each(|part| part.visit(see));
            }
            ExprNode::Method { object, arguments, .. } => {
                object.visit(see);
                arguments.iter().for_each(|argument| argument.visit(see));
            }
            ExprNode::Not(inner) | ExprNode::Negate(inner) => inner.visit(see),
            ExprNode::Binary { left, right, .. } => {
                left.visit(see);
                right.visit(see);
            }
            ExprNode::Conditional { condition, then, otherwise } => {
                condition.visit(see);
                then.visit(see);
                otherwise.visit(see);
            }
            ExprNode::Let { value, body, .. } => {
                value.visit(see);
                body.visit(see);
            }
            ExprNode::Nil
            | ExprNode::Bool(_)
            | ExprNode::Int(_)
            | ExprNode::Float(_)
            | ExprNode::Text(_)
            | ExprNode::Regex(_)
            | ExprNode::Name(_)
            | ExprNode::Closure(_) => {}
        }
    }
}

/// Functions of the language that ask each element of a list.
const EACH: [&str; 16] = [
    "all",
    "any",
    "none",
    "one",
    "filter",
    "map",
    "count",
    "find",
    "findIndex",
    "findLast",
    "findLastIndex",
    "sum",
    "groupBy",
    "countBy",
    "sortBy",
    "reduce",
];

#[derive(Clone, Debug, PartialEq)]
enum ExprToken {
    Int(i64),
    Float(f64),
    Text(Arc<str>),
    /// A name, or an operator that is a word.
    Word(Arc<str>),
    Sign(&'static str),
    End,
}

/// Signs, longer ones first.
const SIGNS: [&str; 39] = [
    "??", "?.", "?:", "**", "==", "!=", "<=", ">=", "&&", "||", "..", "(", ")", "[", "]", "{", "}", ",", ";",
    ":", ".", "?", "+", "-", "*", "/", "%", "^", "<", ">", "!", "#", "|", "=", "&", "@", "$", "~", "\\",
];

fn tokens(text: &str) -> Result<Vec<(ExprToken, usize)>, ExprSyntaxError> {
    let mut tokens = Vec::new();
    let mut at = 0;
    while let Some(character) = text[at..].chars().next() {
        let rest = &text[at..];
        let error = |message: &str| ExprSyntaxError { at, message: message.to_owned() };
        if character.is_whitespace() {
            at += character.len_utf8();
        } else if rest.starts_with("//") {
            at += rest.find('\n').unwrap_or(rest.len());
        } else if rest.starts_with("/*") {
            at += rest.find("*/").ok_or_else(|| error("a comment is not closed"))? + 2;
        } else if matches!(character, '\'' | '"') {
            let (value, length) =
                quoted(rest).ok_or_else(|| error("a text is not closed, or has an unknown escape"))?;
            tokens.push((ExprToken::Text(Arc::from(value)), at));
            at += length;
        } else if character == '`' {
            let end = rest[1..].find('`').ok_or_else(|| error("a text is not closed"))?;
            tokens.push((ExprToken::Text(Arc::from(&rest[1..=end])), at));
            at += end + 2;
        } else if character.is_ascii_digit()
            || (character == '.' && rest[1..].starts_with(|c: char| c.is_ascii_digit()))
        {
            let (token, length) = number(rest).ok_or_else(|| error("this is no number"))?;
            tokens.push((token, at));
            at += length;
        } else if character.is_alphabetic() || character == '_' {
            let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
            tokens.push((ExprToken::Word(Arc::from(&rest[..end])), at));
            at += end;
        } else {
            let sign = SIGNS.iter().find(|sign| rest.starts_with(**sign));
            let sign = sign.ok_or_else(|| error("an unknown character"))?;
            tokens.push((ExprToken::Sign(sign), at));
            at += sign.len();
        }
    }
    tokens.push((ExprToken::End, text.len()));
    Ok(tokens)
}

fn quoted(text: &str) -> Option<(String, usize)> {
    let mut characters = text.char_indices();
    let (_, quote) = characters.next()?;
    let mut value = String::new();
    while let Some((at, character)) = characters.next() {
        match character {
            '\\' => {
                let (_, escaped) = characters.next()?;
                let digits = match escaped {
                    'x' => 2,
                    'u' => 4,
                    'U' => 8,
                    '0'..='7' => {
                        let mut code = escaped.to_digit(8)?;
                        for _ in 0..2 {
                            code = code * 8 + characters.next()?.1.to_digit(8)?;
                        }
                        value.push(char::from_u32(code)?);
                        continue;
                    }
                    _ => {
                        value.push(match escaped {
                            'n' => '\n',
                            't' => '\t',
                            'r' => '\r',
                            'a' => '\x07',
                            'b' => '\x08',
                            'f' => '\x0c',
                            'v' => '\x0b',
                            '\\' | '\'' | '"' | '`' => escaped,
                            _ => return None,
                        });
                        continue;
                    }
                };
                let mut code = 0u32;
                for _ in 0..digits {
                    code = code.checked_mul(16)?.checked_add(characters.next()?.1.to_digit(16)?)?;
                }
                value.push(char::from_u32(code)?);
            }
            character if character == quote => return Some((value, at + 1)),
            character => value.push(character),
        }
    }
    None
}

fn number(text: &str) -> Option<(ExprToken, usize)> {
    for (prefix, radix) in [("0x", 16), ("0b", 2), ("0o", 8)] {
        if let Some(digits) = text.strip_prefix(prefix) {
            let end = digits.find(|c: char| !c.is_ascii_hexdigit() && c != '_').unwrap_or(digits.len());
            let value = i64::from_str_radix(&digits[..end].replace('_', ""), radix).ok()?;
            return Some((ExprToken::Int(value), end + 2));
        }
    }
    let bytes = text.as_bytes();
    let mut end = 0;
    let mut is_float = false;
    while end < bytes.len() {
        match bytes[end] {
            b'0'..=b'9' | b'_' => {}
            // `1..3` is a range.
            b'.' if !is_float && bytes.get(end + 1) != Some(&b'.') => is_float = true,
            b'e' | b'E'
                if bytes
                    .get(end + 1)
                    .is_some_and(|byte| byte.is_ascii_digit() || matches!(byte, b'+' | b'-')) =>
            {
                is_float = true;
                end += 1;
            }
            _ => break,
        }
        end += 1;
    }
    let digits = text[..end].replace('_', "");
    let token =
        if is_float { ExprToken::Float(digits.parse().ok()?) } else { ExprToken::Int(digits.parse().ok()?) };
    Some((token, end))
}

/// A binary operator with its binding.
fn binary_operator(token: &ExprToken) -> Option<(BinaryOperator, u32)> {
    use BinaryOperator as B;
    let sign = match token {
        ExprToken::Sign(sign) => sign,
        ExprToken::Word(word) => word.as_ref(),
        _ => return None,
    };
    Some(match sign {
        "or" | "||" => (B::Or, 10),
        "and" | "&&" => (B::And, 15),
        "==" => (B::Equal, 20),
        "!=" => (B::NotEqual, 20),
        "<" => (B::Less, 20),
        ">" => (B::Greater, 20),
        "<=" => (B::LessOrEqual, 20),
        ">=" => (B::GreaterOrEqual, 20),
        "in" => (B::In, 20),
        "matches" => (B::Matches, 20),
        "contains" => (B::Contains, 20),
        "startsWith" => (B::StartsWith, 20),
        "endsWith" => (B::EndsWith, 20),
        ".." => (B::Range, 25),
        "+" => (B::Add, 30),
        "-" => (B::Subtract, 30),
        "*" => (B::Multiply, 60),
        "/" => (B::Divide, 60),
        "%" => (B::Remainder, 60),
        "**" | "^" => (B::Power, 100),
        "??" => (B::Otherwise, 500),
        _ => return None,
    })
}

struct ExprParser {
    tokens: Vec<(ExprToken, usize)>,
    at: usize,
    depth: usize,
    /// The number of closures that are open.
    closures: usize,
}

type ParseResult = Result<ExprNode, ExprSyntaxError>;

impl ExprParser {
    fn peek(&self) -> &ExprToken {
        self.tokens.get(self.at).map_or(&ExprToken::End, |(token, _)| token)
    }

    fn error(&self, message: &str) -> ExprSyntaxError {
        let at = self.tokens.get(self.at).or(self.tokens.last()).map_or(0, |(_, at)| *at);
        ExprSyntaxError { at, message: message.to_owned() }
    }

    fn next(&mut self) -> ExprToken {
        let token = self.peek().clone();
        self.at += 1;
        token
    }

    fn is_sign(&self, sign: &str) -> bool {
        matches!(self.peek(), ExprToken::Sign(found) if *found == sign)
    }

    fn is_word(&self, word: &str) -> bool {
        matches!(self.peek(), ExprToken::Word(found) if found.as_ref() == word)
    }

    fn take(&mut self, sign: &str) -> bool {
        let is_there = self.is_sign(sign);
        self.at += usize::from(is_there);
        is_there
    }

    fn expect(&mut self, sign: &str) -> Result<(), ExprSyntaxError> {
        if self.take(sign) { Ok(()) } else { Err(self.error(&format!("`{sign}` is missing"))) }
    }

    fn expression(&mut self, binding: u32) -> ParseResult {
        let depth = self.depth;
        self.descend()?;
        let node = self.expression_inside(binding);
        self.depth = depth;
        node
    }

    /// Counts a level of the tree. Chains are counted, too: `a + b + c` is a tree as deep as it is long.
    fn descend(&mut self) -> Result<(), ExprSyntaxError> {
        self.depth += 1;
        if self.depth > DEPTH_MAX { Err(self.error("the expression is nested too deeply")) } else { Ok(()) }
    }

    fn expression_inside(&mut self, binding: u32) -> ParseResult {
        if binding == 0 && self.is_word("let") {
            return self.variable();
        }
        if binding == 0 && self.is_word("if") {
            return self.branch();
        }
        let mut left = self.primary()?;
        loop {
            let start = self.at;
            let is_negated = self.is_word("not");
            self.at += usize::from(is_negated);
            if binding == 0 && !is_negated && self.take("|") {
                self.descend()?;
                left = self.pipe(left)?;
                continue;
            }
            let Some((operator, strength)) =
                binary_operator(self.peek()).filter(|(_, strength)| *strength >= binding)
            else {
                self.at = start;
                break;
            };
            self.descend()?;
            self.at += 1;
            let is_right = operator == BinaryOperator::Power;
            let right = self.expression(if is_right { strength } else { strength + 1 })?;
            let right = match (operator, right) {
                (BinaryOperator::Matches, ExprNode::Text(pattern)) => ExprNode::Regex(Arc::new(
                    compile_regex(&pattern).map_err(|message| self.error(&message))?,
                )),
                (_, right) => right,
            };
            left = ExprNode::Binary { operator, left: Box::new(left), right: Box::new(right) };
            if is_negated {
                left = ExprNode::Not(Box::new(left));
            }
        }
        if binding == 0 {
            left = self.conditional(left)?;
        }
        Ok(left)
    }

    fn variable(&mut self) -> ParseResult {
        self.at += 1;
        let ExprToken::Word(name) = self.next() else { return Err(self.error("a name is missing")) };
        self.expect("=")?;
        let value = Box::new(self.expression(0)?);
        self.expect(";")?;
        let body = Box::new(self.expression(0)?);
        Ok(ExprNode::Let { name, value, body })
    }

    /// Reads `if condition { ... } else { ... }`.
    fn branch(&mut self) -> ParseResult {
        self.at += 1;
        self.descend()?;
        let condition = Box::new(self.expression(0)?);
        let then = Box::new(self.block()?);
        if !self.is_word("else") {
            return Err(self.error("`else` is missing"));
        }
        self.at += 1;
        let otherwise = Box::new(if self.is_word("if") { self.branch()? } else { self.block()? });
        Ok(ExprNode::Conditional { condition, then, otherwise })
    }

    /// Reads expressions in braces, of which the last one is the value.
    fn block(&mut self) -> ParseResult {
        self.expect("{")?;
        let mut parts = vec![self.expression(0)?];
        while self.take(";") && !self.is_sign("}") {
            self.descend()?;
            parts.push(self.expression(0)?);
        }
        self.expect("}")?;
        let mut parts = parts.into_iter().rev();
        let last = parts.next().unwrap_or(ExprNode::Nil);
        Ok(parts.fold(last, |body, value| ExprNode::Let {
            name: Arc::default(),
            value: Box::new(value),
            body: Box::new(body),
        }))
    }

    fn conditional(&mut self, condition: ExprNode) -> ParseResult {
        if self.take("?:") {
            let otherwise = self.expression(0)?;
            let then = Box::new(condition.clone());
            return Ok(ExprNode::Conditional {
                condition: Box::new(condition),
                then,
                otherwise: Box::new(otherwise),
            });
        }
        if !self.take("?") {
            return Ok(condition);
        }
        let then = Box::new(self.expression(0)?);
        self.expect(":")?;
        let otherwise = Box::new(self.expression(0)?);
        Ok(ExprNode::Conditional { condition: Box::new(condition), then, otherwise })
    }

    fn pipe(&mut self, left: ExprNode) -> ParseResult {
        let ExprToken::Word(name) = self.next() else { return Err(self.error("a function is missing")) };
        self.expect("(")?;
        let call = self.call(name, Some(left))?;
        self.postfix(call)
    }

    fn primary(&mut self) -> ParseResult {
        if let ExprToken::Sign(sign @ ("!" | "-" | "+")) = *self.peek() {
            self.at += 1;
            let inner = self.expression(if sign == "!" { 50 } else { 90 })?;
            return Ok(match (sign, inner) {
                ("!", inner) => ExprNode::Not(Box::new(inner)),
                ("-", inner) => ExprNode::Negate(Box::new(inner)),
                (_, inner) => inner,
            });
        }
        if self.is_word("not") {
            self.at += 1;
            let inner = self.expression(50)?;
            return Ok(ExprNode::Not(Box::new(inner)));
        }
        let node = match self.next() {
            ExprToken::Int(number) => ExprNode::Int(number),
            ExprToken::Float(number) => ExprNode::Float(number),
            ExprToken::Text(text) => ExprNode::Text(text),
            ExprToken::Sign("(") => {
                let inner = self.expression(0)?;
                self.expect(")")?;
                inner
            }
            ExprToken::Sign("[") => ExprNode::List(self.list("]")?),
            ExprToken::Sign("{") => self.map()?,
            ExprToken::Sign("#") if self.closures > 0 => match self.peek().clone() {
                ExprToken::Word(word) if matches!(word.as_ref(), "acc" | "index") => {
                    self.at += 1;
                    let is_index = word.as_ref() == "index";
                    ExprNode::Closure(if is_index { ClosurePart::Index } else { ClosurePart::Accumulator })
                }
                _ => ExprNode::Closure(ClosurePart::Element),
            },
            // `.Name` in a closure is `#.Name`.
            ExprToken::Sign(".") if self.closures > 0 => {
                self.at -= 1;
                ExprNode::Closure(ClosurePart::Element)
            }
            ExprToken::Word(word) => match word.as_ref() {
                "true" => ExprNode::Bool(true),
                "false" => ExprNode::Bool(false),
                "nil" => ExprNode::Nil,
                _ if self.take("(") => self.call(word, None)?,
                _ => ExprNode::Name(word),
            },
            _ => {
                self.at -= 1;
                return Err(self.error("a value is missing"));
            }
        };
        self.postfix(node)
    }

    fn postfix(&mut self, mut node: ExprNode) -> ParseResult {
        let depth = self.depth;
        loop {
            self.descend()?;
            let is_optional = self.is_sign("?.");
            if is_optional || self.is_sign(".") {
                self.at += 1;
                if is_optional && self.take("[") {
                    node = self.bracket(node, true)?;
                    continue;
                }
                let ExprToken::Word(name) = self.next() else {
                    self.at -= 1;
                    return Err(self.error("a name is missing"));
                };
                node = if self.take("(") {
                    let arguments = self.list(")")?;
                    ExprNode::Method { object: Box::new(node), name, arguments, is_optional }
                } else {
                    ExprNode::Member {
                        object: Box::new(node),
                        name: Box::new(ExprNode::Text(name)),
                        is_optional,
                    }
                };
            } else if self.take("[") {
                node = self.bracket(node, false)?;
            } else {
                self.depth = depth;
                return Ok(node);
            }
        }
    }

    fn bracket(&mut self, object: ExprNode, is_optional: bool) -> ParseResult {
        let object = Box::new(object);
        let from = if self.is_sign(":") { None } else { Some(Box::new(self.expression(0)?)) };
        if self.take(":") {
            let to = if self.is_sign("]") { None } else { Some(Box::new(self.expression(0)?)) };
            self.expect("]")?;
            return Ok(ExprNode::Slice { object, from, to });
        }
        self.expect("]")?;
        let name = from.ok_or_else(|| self.error("an index is missing"))?;
        Ok(ExprNode::Member { object, name, is_optional })
    }

    fn list(&mut self, end: &str) -> Result<Vec<ExprNode>, ExprSyntaxError> {
        let mut items = Vec::new();
        while !self.take(end) {
            items.push(self.expression(0)?);
            if !self.take(",") {
                self.expect(end)?;
                break;
            }
        }
        Ok(items)
    }

    fn map(&mut self) -> ParseResult {
        let mut members = Vec::new();
        while !self.take("}") {
            let name = match self.next() {
                ExprToken::Word(name) | ExprToken::Text(name) => ExprNode::Text(name),
                ExprToken::Int(number) => ExprNode::Text(Arc::from(number.to_string())),
                ExprToken::Sign("(") => {
                    let name = self.expression(0)?;
                    self.expect(")")?;
                    name
                }
                _ => return Err(self.error("a name is missing")),
            };
            self.expect(":")?;
            members.push((name, self.expression(0)?));
            if !self.take(",") {
                self.expect("}")?;
                break;
            }
        }
        Ok(ExprNode::Map(members))
    }

    /// Reads the arguments of a function, after its `(`.
    fn call(&mut self, name: Arc<str>, first: Option<ExprNode>) -> ParseResult {
        if !EACH.contains(&name.as_ref()) {
            let mut arguments: Vec<ExprNode> = first.into_iter().collect();
            arguments.extend(self.list(")")?);
            return Ok(ExprNode::Call { name, arguments });
        }
        let list = match first {
            Some(list) => list,
            None => {
                let list = self.expression(0)?;
                self.at += usize::from(self.is_sign(","));
                list
            }
        };
        let mut closure = None;
        let mut start = None;
        if !self.is_sign(")") {
            self.closures += 1;
            let is_braced = self.take("{");
            let body = self.expression(0);
            self.closures -= 1;
            closure = Some(Box::new(body?));
            if is_braced {
                self.expect("}")?;
            }
            if self.take(",") && !self.is_sign(")") {
                start = Some(Box::new(self.expression(0)?));
            }
        }
        self.expect(")")?;
        Ok(ExprNode::Each { name, list: Box::new(list), closure, start })
    }
}

/// Compiles a regular expression of Go's.
pub(crate) fn compile_regex(pattern: &str) -> Result<regex::Regex, String> {
    let rewritten = go_regex::rewrite(pattern).map_err(|error| error.to_string())?;
    regex::RegexBuilder::new(&rewritten.text)
        .size_limit(PROGRAM_BYTES_MAX)
        .nest_limit(200)
        .build()
        .map_err(|error| error.to_string().lines().last().unwrap_or_default().trim().to_owned())
}
