//! Checks a condition's tree against a scope and turns it into the form that is evaluated.
//!
//! Every operand has one type, known here; integers become floats where they meet one. A part that is wrong
//! is reported once and gives `None`, and its neighbours are still checked, so that one run finds all
//! mistakes.

use std::net::IpAddr;
use std::ops::Range;

use event::{Facts, Slot, Span, Time, Type};
use regex::RegexBuilder;

use crate::Diagnostic;
use crate::condition::{Condition, Read};
use crate::diagnostic::did_you_mean;
use crate::expr::{Bool, Float, Int, Ip, Place, Str};
use crate::scope::{CounterSum, Names, ReadingRequest, Scope, ScopeError, TrackValue};
use crate::syntax::{Arithmetic, Call, Compare, Node, NodeKind, parse};
use crate::token::DIAGNOSTICS_MAX;

/// Dearest accepted condition, in the unit of [`Condition::cost`].
const COST_MAX: u32 = 2_000;
/// What seeking in a text or a list is taken to cost.
const COST_SEEK: u32 = 8;
/// What a regular expression is taken to cost.
const COST_REGEX: u32 = 64;
/// Largest compiled regular expression, and largest cache of its lazy automaton, in bytes each.
const REGEX_BYTES_MAX: usize = 1 << 18;

/// Functions: `name(...)`.
const FUNCTIONS: [&str; 8] = ["distinct", "double", "duration", "has", "int", "ratio", "size", "timestamp"];

/// Methods of values: `value.name(...)`. A counter of such a name could not be read by rules, so engines
/// refuse to configure one, as they refuse `first_age` and `last_age`.
pub const VALUE_METHODS: [&str; 6] = ["contains", "endsWith", "matches", "or", "size", "startsWith"];

/// Checks and compiles a condition.
///
/// Columns are set aside in `scope` for what it reads, even where it is refused for another reason. Takes
/// time in the order of the source's length but for the compilation of regular expressions, which is bounded.
///
/// # Errors
/// Everything that is wrong, in the order of the source, up to 20 diagnostics; never an empty list.
pub fn compile(source: &str, scope: &mut dyn Scope) -> Result<Condition, Vec<Diagnostic>> {
    let (node, found) = parse(source)?;
    let mut checker = Checker { scope, found, reads: Vec::new(), cost: 0 };
    let root = match checker.check(&node) {
        Some(Checked { expr: Expr::Bool(root), .. }) => Some(root),
        Some(other) => {
            let message = format!("a condition is true or false, this is {}", other.expr.kind().article());
            checker.report(Diagnostic::new(message, node.range.clone()).help(match other.expr {
                Expr::Integer(_) | Expr::Float(_) => "compare it, as in `... > 10`",
                Expr::Duration(_) => "compare it, as in `... < duration('1d')`",
                _ => "compare it, as in `... == 'a'`",
            }));
            None
        }
        None => None,
    };
    if checker.cost > COST_MAX {
        let message = format!("the condition costs {}, at most {COST_MAX} is accepted", checker.cost);
        let help = format!("split it into several rules; a regular expression costs {COST_REGEX}");
        checker.report(Diagnostic::new(message, node.range).help(help));
    }
    let Checker { mut found, reads, cost, .. } = checker;
    match root {
        Some(root) if found.is_empty() => Ok(Condition::new(root, reads, cost)),
        _ => {
            found.sort_by_key(|diagnostic| diagnostic.range.start);
            found.truncate(DIAGNOSTICS_MAX);
            Err(found)
        }
    }
}

/// The type of an operand, as messages call it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Bool,
    Integer,
    Float,
    String,
    Time,
    Duration,
    Ip,
    List,
    Bytes,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::Bool => "bool",
            Kind::Integer => "integer",
            Kind::Float => "float",
            Kind::String => "string",
            Kind::Time => "time",
            Kind::Duration => "duration",
            Kind::Ip => "ip",
            Kind::List => "list",
            Kind::Bytes => "bytes",
        }
    }

    fn article(self) -> String {
        match self {
            Kind::Integer | Kind::Ip => format!("an {}", self.name()),
            Kind::Bytes => "bytes".to_owned(),
            _ => format!("a {}", self.name()),
        }
    }
}

enum Expr {
    Bool(Bool),
    Integer(Int),
    Float(Float),
    String(Str),
    /// Microseconds since the epoch.
    Time(Int),
    /// Microseconds.
    Duration(Int),
    Ip(Ip),
    List(Slot),
    Bytes(Slot),
}

impl Expr {
    fn kind(&self) -> Kind {
        match self {
            Expr::Bool(_) => Kind::Bool,
            Expr::Integer(_) => Kind::Integer,
            Expr::Float(_) => Kind::Float,
            Expr::String(_) => Kind::String,
            Expr::Time(_) => Kind::Time,
            Expr::Duration(_) => Kind::Duration,
            Expr::Ip(_) => Kind::Ip,
            Expr::List(_) => Kind::List,
            Expr::Bytes(_) => Kind::Bytes,
        }
    }

    fn is_constant(&self) -> bool {
        matches!(
            self,
            Expr::Bool(Bool::Const(_))
                | Expr::Integer(Int::Const(_))
                | Expr::Time(Int::Const(_))
                | Expr::Duration(Int::Const(_))
                | Expr::Float(Float::Const(_))
                | Expr::String(Str::Const(_))
                | Expr::Ip(Ip::Const(_))
        )
    }

    /// A number as a float; any other as it is.
    fn promoted(self) -> Expr {
        match self {
            Expr::Integer(integer) => Expr::Float(integer.into()),
            other => other,
        }
    }
}

/// An operand, and between what bounds its value lies where it is a number or a length of time.
struct Checked {
    expr: Expr,
    low: f64,
    high: f64,
}

impl From<Expr> for Checked {
    fn from(expr: Expr) -> Checked {
        let (low, high) = match &expr {
            // Beyond 2^53 the bounds would be rounded: none are claimed.
            Expr::Integer(Int::Const(integer)) | Expr::Duration(Int::Const(integer))
                if integer.unsigned_abs() <= 1 << 53 =>
            {
                (*integer as f64, *integer as f64)
            }
            Expr::Float(Float::Const(float)) => (*float, *float),
            _ => (f64::NEG_INFINITY, f64::INFINITY),
        };
        Checked { expr, low, high }
    }
}

impl Checked {
    /// A constant has its own bounds.
    fn within(expr: Expr, low: f64, high: f64) -> Checked {
        if expr.is_constant() { Checked::from(expr) } else { Checked { expr, low, high } }
    }
}

/// Makes one type of two: an integer beside a float becomes a float, a text constant beside an address
/// becomes an address where it reads as one.
fn unify(left: Expr, right: Expr) -> (Expr, Expr) {
    let ip = |expr: Expr| match expr {
        Expr::String(Str::Const(text)) => match text.parse::<IpAddr>() {
            Ok(ip) => Expr::Ip(Ip::Const(ip.to_canonical())),
            Err(_) => Expr::String(Str::Const(text)),
        },
        other => other,
    };
    match (left.kind(), right.kind()) {
        (Kind::Integer, Kind::Float) | (Kind::Float, Kind::Integer) => (left.promoted(), right.promoted()),
        (Kind::Ip, Kind::String) => (left, ip(right)),
        (Kind::String, Kind::Ip) => (ip(left), right),
        _ => (left, right),
    }
}

/// How to bring two unlike types together, where it is known.
fn mismatch_help(left: Kind, right: Kind) -> Option<&'static str> {
    let either = |kind: Kind| left == kind || right == kind;
    if either(Kind::Duration) && (either(Kind::String) || either(Kind::Integer) || either(Kind::Float)) {
        Some("a length of time is written `duration('1d')`")
    } else if either(Kind::Time) && either(Kind::Duration) {
        Some("`now - time` is a duration")
    } else if either(Kind::Time) && (either(Kind::String) || either(Kind::Integer)) {
        Some("a point in time is written `timestamp('2026-05-17T10:05:03Z')`")
    } else if either(Kind::Ip) && either(Kind::String) {
        Some("an address is compared with one written out: `'192.0.2.7'`")
    } else if either(Kind::List) && either(Kind::String) {
        Some("an item is sought with `'a' in mail.links`")
    } else {
        None
    }
}

/// What a comparison always gives, if the bounds of its sides say so.
fn always(compare: Compare, left: &Checked, right: &Checked) -> Option<bool> {
    let (below, above) = (left.high < right.low, left.low > right.high);
    let (not_above, not_below) = (left.high <= right.low, left.low >= right.high);
    let (holds, fails) = match compare {
        Compare::Less => (below, not_below),
        Compare::LessOrEqual => (not_above, above),
        Compare::Greater => (above, not_above),
        Compare::GreaterOrEqual => (not_below, below),
        Compare::Equal => (false, below || above),
        Compare::NotEqual => (below || above, false),
    };
    if holds {
        Some(true)
    } else if fails {
        Some(false)
    } else {
        None
    }
}

fn pair<T>(left: T, right: T) -> Box<(T, T)> {
    Box::new((left, right))
}

/// Evaluates what reads nothing.
fn fold(expr: Int) -> Int {
    let constant = match &expr {
        Int::Sum(sides) | Int::Difference(sides) | Int::Product(sides) | Int::Remainder(sides) => {
            matches!(**sides, (Int::Const(_), Int::Const(_)))
        }
        Int::Chars(text) => matches!(**text, Str::Const(_)),
        Int::Whole(float) => matches!(**float, Float::Const(_)),
        _ => false,
    };
    match expr.eval(&Facts::default()) {
        Some(integer) if constant => Int::Const(integer),
        _ => expr,
    }
}

/// Evaluates what reads nothing.
fn fold_float(expr: Float) -> Float {
    let constant = match &expr {
        Float::Sum(sides) | Float::Difference(sides) | Float::Product(sides) | Float::Quotient(sides) => {
            matches!(**sides, (Float::Const(_), Float::Const(_)))
        }
        _ => false,
    };
    match expr.eval(&Facts::default()) {
        Some(float) if constant => Float::Const(float),
        _ => expr,
    }
}

fn counted(count: usize, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

/// The first few names in backticks.
fn listed(names: &[String]) -> String {
    const SHOWN: usize = 8;
    let shown: Vec<String> = names.iter().take(SHOWN).map(|name| format!("`{name}`")).collect();
    format!("{}{}", shown.join(", "), if names.len() > SHOWN { ", ..." } else { "" })
}

struct Checker<'a> {
    scope: &'a mut dyn Scope,
    found: Vec<Diagnostic>,
    reads: Vec<Read>,
    cost: u32,
}

impl Checker<'_> {
    fn report(&mut self, diagnostic: Diagnostic) {
        if self.found.len() < DIAGNOSTICS_MAX {
            self.found.push(diagnostic);
        }
    }

    fn fail<T>(
        &mut self,
        range: &Range<usize>,
        message: impl Into<String>,
        help: impl Into<String>,
    ) -> Option<T> {
        self.report(Diagnostic::new(message, range.clone()).help(help));
        None
    }

    fn mismatch<T>(&mut self, range: &Range<usize>, what: String, left: Kind, right: Kind) -> Option<T> {
        let help = mismatch_help(left, right).map(str::to_owned);
        self.report(Diagnostic { message: what, range: range.clone(), help });
        None
    }

    fn spend(&mut self, cost: u32) {
        self.cost = self.cost.saturating_add(cost);
    }

    fn read(&mut self, slot: Slot, text: String, is_age: bool) {
        if !self.reads.iter().any(|read| read.slot == slot) {
            self.reads.push(Read { slot, text, is_age });
        }
    }

    fn check(&mut self, node: &Node) -> Option<Checked> {
        self.spend(1);
        let range = &node.range;
        match &node.kind {
            NodeKind::Refused => None,
            NodeKind::Text(text) => Some(Expr::String(Str::Const(text.as_str().into())).into()),
            NodeKind::Integer(integer) => Some(Expr::Integer(Int::Const(*integer)).into()),
            NodeKind::Float(float) => Some(Expr::Float(Float::Const(*float)).into()),
            NodeKind::Bool(truth) => Some(Expr::Bool(Bool::Const(*truth)).into()),
            NodeKind::Name(name) => self.fact(name, range),
            NodeKind::List(_) => {
                let help = "a list of constants stands to the right of `in`";
                self.fail(range, "a list has no place here", help)
            }
            NodeKind::Not(operand) => {
                let truth = self.bool(operand, "`!`")?;
                Some(Expr::Bool(Bool::Not(Box::new(truth))).into())
            }
            NodeKind::All(parts) => Some(Expr::Bool(Bool::All(self.bools(parts, "`&&`")?)).into()),
            NodeKind::Any(parts) => Some(Expr::Bool(Bool::Any(self.bools(parts, "`||`")?)).into()),
            NodeKind::Negate(operand) => {
                let checked = self.check(operand)?;
                let kind = checked.expr.kind();
                let expr = match checked.expr {
                    Expr::Integer(integer) => {
                        Expr::Integer(fold(Int::Difference(pair(Int::Const(0), integer))))
                    }
                    Expr::Duration(span) => Expr::Duration(fold(Int::Difference(pair(Int::Const(0), span)))),
                    Expr::Float(float) => {
                        Expr::Float(fold_float(Float::Difference(pair(Float::Const(0.0), float))))
                    }
                    _ => {
                        let message = format!("`-` takes a number, not {}", kind.article());
                        return self.mismatch(range, message, kind, kind);
                    }
                };
                Some(Checked { expr, low: -checked.high, high: -checked.low })
            }
            NodeKind::Compare(compare, sides) => {
                let (left, right) = (self.check(&sides.0), self.check(&sides.1));
                self.compare(*compare, left?, right?, range)
            }
            NodeKind::In(sides) => self.membership(&sides.0, &sides.1, range),
            NodeKind::Arithmetic(operator, sides) => {
                let (left, right) = (self.check(&sides.0), self.check(&sides.1));
                self.arithmetic(*operator, left?, right?, range, &sides.1.range)
            }
            NodeKind::If(branches) => {
                let test = self.bool(&branches.0, "`?`");
                let (yes, no) = (self.check(&branches.1), self.check(&branches.2));
                self.choice(test?, yes?, no?, range)
            }
            NodeKind::Call(call) => match &call.target {
                None => self.function(call, range),
                Some(target) => self.method(call, target, range),
            },
        }
    }

    fn bool(&mut self, node: &Node, operator: &str) -> Option<Bool> {
        match self.check(node)?.expr {
            Expr::Bool(truth) => Some(truth),
            other => {
                let message = format!("{operator} takes a bool, not {}", other.kind().article());
                let help = match other {
                    Expr::Integer(_) | Expr::Float(_) => "compare it, as in `... > 0`",
                    Expr::String(_) => "compare it, as in `... != ''`, or ask with `has(...)`",
                    _ => "compare it, or ask with `has(...)`",
                };
                self.fail(&node.range, message, help)
            }
        }
    }

    fn bools(&mut self, parts: &[Node], operator: &str) -> Option<Box<[Bool]>> {
        let checked: Vec<Option<Bool>> = parts.iter().map(|part| self.bool(part, operator)).collect();
        checked.into_iter().collect()
    }

    // Names.

    fn fact(&mut self, name: &str, range: &Range<usize>) -> Option<Checked> {
        let fact = if name == "now" { "event.time" } else { name };
        let Some((slot, kind)) = self.scope.fact(fact) else {
            if self.scope.is_kind(name) {
                let message = format!("`{name}` is a kind of keys, not a value");
                return self.fail(range, message, format!("read a counter of it: `{name}.seen('1h')`"));
            }
            if name == "now" {
                return self.fail(range, "`now` is not known here", "it is the fact `event.time`");
            }
            let mut names = self.scope.names(Names::Fact);
            names.extend(self.scope.names(Names::Kind));
            names.push("now".to_owned());
            let help = did_you_mean(name, names);
            self.report(Diagnostic { message: format!("unknown name `{name}`"), range: range.clone(), help });
            return None;
        };
        self.read(slot, name.to_owned(), false);
        let expr = match kind {
            Type::String => Expr::String(Str::Fact(slot)),
            Type::Integer => Expr::Integer(Int::Fact(slot)),
            Type::Float => Expr::Float(Float::Fact(slot)),
            Type::Bool => Expr::Bool(Bool::Fact(slot)),
            Type::Time => Expr::Time(Int::Time(slot)),
            Type::Ip => Expr::Ip(Ip::Fact(slot)),
            Type::Bytes => Expr::Bytes(slot),
            Type::List => Expr::List(slot),
        };
        Some(expr.into())
    }

    // Operators.

    fn compare(
        &mut self,
        compare: Compare,
        left: Checked,
        right: Checked,
        range: &Range<usize>,
    ) -> Option<Checked> {
        let (kinds, constant) =
            ((left.expr.kind(), right.expr.kind()), left.expr.is_constant() && right.expr.is_constant());
        let bounds = always(compare, &left, &right);
        let quoted = matches!(left.expr, Expr::String(Str::Const(_)))
            || matches!(right.expr, Expr::String(Str::Const(_)));
        let (one, other) = unify(left.expr, right.expr);
        let equality = matches!(compare, Compare::Equal | Compare::NotEqual);
        let truth = match (one, other) {
            (Expr::Integer(one), Expr::Integer(other))
            | (Expr::Time(one), Expr::Time(other))
            | (Expr::Duration(one), Expr::Duration(other)) => Bool::Ints(compare, one, other),
            (Expr::Float(one), Expr::Float(other)) => Bool::Floats(compare, one, other),
            (Expr::String(one), Expr::String(other)) => {
                self.spend(1);
                Bool::Strs(compare, one, other)
            }
            (Expr::Bool(one), Expr::Bool(other)) if equality => Bool::Bools(compare, pair(one, other)),
            (Expr::Ip(one), Expr::Ip(other)) if equality => Bool::Ips(compare, one, other),
            _ if kinds.0 == kinds.1 => {
                let name = kinds.0.name();
                let message = if equality {
                    format!("values of type {name} are not compared")
                } else {
                    format!("values of type {name} have no order")
                };
                return self.mismatch(range, message, kinds.0, kinds.1);
            }
            _ => {
                let message = format!("{} is not compared with {}", kinds.0.article(), kinds.1.article());
                if quoted && [kinds.0, kinds.1].iter().any(|kind| matches!(kind, Kind::Integer | Kind::Float))
                {
                    return self.fail(range, message, "a number stands without quotes");
                }
                return self.mismatch(range, message, kinds.0, kinds.1);
            }
        };
        let always = if constant { truth.eval(&Facts::default()) } else { bounds };
        match always {
            None => Some(Expr::Bool(truth).into()),
            Some(result) => {
                let help = if constant {
                    "both sides are constants".to_owned()
                } else {
                    "counts, sizes, ages and ratios are never below 0; `has(...)` asks if there is one"
                        .to_owned()
                };
                let message = format!("this is always {result}");
                self.fail(range, message, help)
            }
        }
    }

    fn arithmetic(
        &mut self,
        operator: Arithmetic,
        left: Checked,
        right: Checked,
        range: &Range<usize>,
        divisor: &Range<usize>,
    ) -> Option<Checked> {
        use Arithmetic::{Add, Divide, Multiply, Remainder, Subtract};
        let kinds = (left.expr.kind(), right.expr.kind());
        let divides = matches!(operator, Divide | Remainder);
        let zero = matches!(right.expr, Expr::Integer(Int::Const(0)))
            || matches!(right.expr, Expr::Float(Float::Const(float)) if float == 0.0);
        if divides && zero {
            return self.fail(divisor, "division by zero", "the result would always be missing");
        }
        let (low, high) = match operator {
            Add => (left.low + right.low, left.high + right.high),
            Multiply if left.low >= 0.0 && right.low >= 0.0 => (0.0, f64::INFINITY),
            Divide if left.low >= 0.0 && right.low >= 0.0 => (0.0, f64::INFINITY),
            _ => (f64::NEG_INFINITY, f64::INFINITY),
        };
        let (one, other) = unify(left.expr, right.expr);
        let expr = match (operator, one, other) {
            // Integers divide as floats do: `spam / seen` is meant as a share, not as 0 or 1.
            (Divide, Expr::Integer(one), Expr::Integer(other)) => {
                Expr::Float(fold_float(Float::Quotient(pair(one.into(), other.into()))))
            }
            (operator, Expr::Integer(one), Expr::Integer(other)) => Expr::Integer(fold(match operator {
                Add => Int::Sum(pair(one, other)),
                Subtract => Int::Difference(pair(one, other)),
                Multiply => Int::Product(pair(one, other)),
                Divide | Remainder => Int::Remainder(pair(one, other)),
            })),
            (Add, Expr::Float(one), Expr::Float(other)) => {
                Expr::Float(fold_float(Float::Sum(pair(one, other))))
            }
            (Subtract, Expr::Float(one), Expr::Float(other)) => {
                Expr::Float(fold_float(Float::Difference(pair(one, other))))
            }
            (Multiply, Expr::Float(one), Expr::Float(other)) => {
                Expr::Float(fold_float(Float::Product(pair(one, other))))
            }
            (Divide, Expr::Float(one), Expr::Float(other)) => {
                Expr::Float(fold_float(Float::Quotient(pair(one, other))))
            }
            (Add, Expr::Time(one), Expr::Duration(other)) | (Add, Expr::Duration(one), Expr::Time(other)) => {
                Expr::Time(fold(Int::Sum(pair(one, other))))
            }
            (Subtract, Expr::Time(one), Expr::Duration(other)) => {
                Expr::Time(fold(Int::Difference(pair(one, other))))
            }
            (Subtract, Expr::Time(one), Expr::Time(other))
            | (Subtract, Expr::Duration(one), Expr::Duration(other)) => {
                Expr::Duration(fold(Int::Difference(pair(one, other))))
            }
            (Add, Expr::Duration(one), Expr::Duration(other)) => {
                Expr::Duration(fold(Int::Sum(pair(one, other))))
            }
            (Add, Expr::String(_), Expr::String(_)) => {
                let help = "test each with `==`, `contains`, `startsWith` or `endsWith`";
                return self.fail(range, "rules do not join texts", help);
            }
            _ => {
                let sign = match operator {
                    Add => '+',
                    Subtract => '-',
                    Multiply => '*',
                    Divide => '/',
                    Remainder => '%',
                };
                let message =
                    format!("`{sign}` does not take {} and {}", kinds.0.article(), kinds.1.article());
                return self.mismatch(range, message, kinds.0, kinds.1);
            }
        };
        Some(Checked::within(expr, low, high))
    }

    fn choice(&mut self, test: Bool, yes: Checked, no: Checked, range: &Range<usize>) -> Option<Checked> {
        let kinds = (yes.expr.kind(), no.expr.kind());
        let (low, high) = (yes.low.min(no.low), yes.high.max(no.high));
        let expr = match unify(yes.expr, no.expr) {
            (Expr::Bool(yes), Expr::Bool(no)) => Expr::Bool(Bool::If(Box::new((test, yes, no)))),
            (Expr::Integer(yes), Expr::Integer(no)) => Expr::Integer(Int::If(Box::new((test, yes, no)))),
            (Expr::Time(yes), Expr::Time(no)) => Expr::Time(Int::If(Box::new((test, yes, no)))),
            (Expr::Duration(yes), Expr::Duration(no)) => Expr::Duration(Int::If(Box::new((test, yes, no)))),
            (Expr::Float(yes), Expr::Float(no)) => Expr::Float(Float::If(Box::new((test, yes, no)))),
            (Expr::String(yes), Expr::String(no)) => Expr::String(Str::If(Box::new((test, yes, no)))),
            _ if kinds.0 == kinds.1 => {
                let message = format!("`?` does not choose between values of type {}", kinds.0.name());
                return self.mismatch(range, message, kinds.0, kinds.1);
            }
            _ => {
                let message = format!("`?` chooses between {} and {}", kinds.0.article(), kinds.1.article());
                let help = "both choices have one type";
                return self.fail(range, message, help);
            }
        };
        Some(Checked { expr, low, high })
    }

    fn membership(&mut self, item: &Node, list: &Node, range: &Range<usize>) -> Option<Checked> {
        let found = self.check(item);
        let NodeKind::List(constants) = &list.kind else {
            let list_checked = self.check(list)?;
            let found = found?;
            self.spend(COST_SEEK);
            return match (found.expr, list_checked.expr) {
                (Expr::String(text), Expr::List(slot)) => Some(Expr::Bool(Bool::ListHas(text, slot)).into()),
                (other, Expr::List(_)) => {
                    let message = format!("a list holds strings, not {}", other.kind().article());
                    self.mismatch(&item.range, message, other.kind(), other.kind())
                }
                (_, Expr::String(_)) => {
                    let help = "a text is searched with `text.contains('a')`";
                    self.fail(&list.range, "`in` takes a list, not a string", help)
                }
                (_, other) => {
                    let message = format!("`in` takes a list, not {}", other.kind().article());
                    self.fail(&list.range, message, "write `x in ['a', 'b']`")
                }
            };
        };
        let constants: Vec<_> = constants.iter().map(|node| (node, self.check(node))).collect();
        let found = found?;
        self.spend(COST_SEEK);
        if constants.is_empty() {
            return self.fail(range, "this is always false", "the list is empty");
        }
        let wanted = found.expr.kind();
        if !matches!(wanted, Kind::String | Kind::Integer | Kind::Float | Kind::Ip) {
            let message = format!("`in` does not seek {}", wanted.article());
            return self.fail(&item.range, message, "it seeks strings, numbers and addresses");
        }
        let (mut strings, mut integers, mut floats, mut ips) =
            (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let mut wrong = false;
        for (node, constant) in constants {
            let Some(constant) = constant else {
                wrong = true;
                continue;
            };
            let kind = constant.expr.kind();
            match (wanted, constant.expr) {
                (Kind::String, Expr::String(Str::Const(text))) => strings.push(text),
                (Kind::Ip, Expr::String(Str::Const(text))) if text.parse::<IpAddr>().is_ok() => {
                    ips.extend(text.parse::<IpAddr>().map(|ip| ip.to_canonical()));
                }
                (Kind::Integer | Kind::Float, Expr::Integer(Int::Const(integer))) => {
                    integers.push(integer);
                    floats.push(integer as f64 + 0.0);
                }
                (Kind::Integer | Kind::Float, Expr::Float(Float::Const(float))) => floats.push(float + 0.0),
                (_, expr) if !expr.is_constant() => {
                    wrong = true;
                    self.report(
                        Diagnostic::new("the list holds something that is no constant", node.range.clone())
                            .help("compare with it by `==`"),
                    );
                }
                _ => {
                    wrong = true;
                    let message = format!("{} is sought, this is {}", wanted.article(), kind.article());
                    self.mismatch::<()>(&node.range, message, wanted, kind);
                }
            }
        }
        if wrong {
            return None;
        }
        strings.sort_unstable();
        integers.sort_unstable();
        floats.sort_unstable_by(f64::total_cmp);
        ips.sort_unstable();
        let truth = match found.expr {
            Expr::String(text) => Bool::StrIn(text, strings.into()),
            Expr::Ip(ip) => Bool::IpIn(ip, ips.into()),
            Expr::Integer(integer) if integers.len() == floats.len() => Bool::IntIn(integer, integers.into()),
            Expr::Integer(integer) => Bool::FloatIn(integer.into(), floats.into()),
            Expr::Float(float) => Bool::FloatIn(float, floats.into()),
            // Other types were refused above.
            _ => return None,
        };
        Some(Expr::Bool(truth).into())
    }

    // Functions.

    fn function(&mut self, call: &Call, range: &Range<usize>) -> Option<Checked> {
        match (call.name.as_str(), call.args.as_slice()) {
            ("has", [of]) => self.has(of),
            ("size", [of]) => {
                let checked = self.check(of)?;
                self.size(checked, &of.range)
            }
            ("duration", [text]) => {
                let span = self.span(text, "duration('1d')")?;
                Some(Expr::Duration(Int::Const(span.0)).into())
            }
            ("timestamp", [text]) => {
                let NodeKind::Text(written) = &text.kind else {
                    let help = "write it out: `timestamp('2026-05-17T10:05:03Z')`";
                    return self.fail(&text.range, "a point in time is a text in quotes", help);
                };
                match written.parse::<Time>() {
                    Ok(time) => Some(Expr::Time(Int::Const(time.0)).into()),
                    Err(error) => {
                        self.fail(&text.range, format!("`{written}` is no point in time"), error.to_string())
                    }
                }
            }
            ("double", [of]) => {
                let checked = self.check(of)?;
                match checked.expr.promoted() {
                    expr @ Expr::Float(_) => Some(Checked::within(expr, checked.low, checked.high)),
                    other => {
                        let message = format!("`double` takes a number, not {}", other.kind().article());
                        self.mismatch(&of.range, message, other.kind(), other.kind())
                    }
                }
            }
            ("int", [of]) => {
                let checked = self.check(of)?;
                match checked.expr {
                    Expr::Integer(_) => Some(checked),
                    Expr::Float(float) => {
                        Some(Checked::from(Expr::Integer(fold(Int::Whole(Box::new(float))))))
                    }
                    other => {
                        let message = format!("`int` takes a number, not {}", other.kind().article());
                        self.mismatch(&of.range, message, other.kind(), other.kind())
                    }
                }
            }
            ("distinct", [name, window]) => self.distinct(name, window, range),
            ("ratio", [numerator, denominator]) => self.ratio(numerator, denominator, None, range),
            ("ratio", [numerator, denominator, at_least]) => {
                self.ratio(numerator, denominator, Some(at_least), range)
            }
            (name, args) => {
                let usage = match name {
                    "has" => "has(mail.subject)",
                    "size" => "size(mail.links)",
                    "duration" => "duration('1d')",
                    "timestamp" => "timestamp('2026-05-17T10:05:03Z')",
                    "double" => "double(mail.size)",
                    "int" => "int(mail.score)",
                    "distinct" => "distinct('rcpts', '1d')",
                    "ratio" => "ratio(from.spam('1d'), from.seen('1d'), 20)",
                    _ => return self.unknown_function(call),
                };
                let message = format!("`{name}` does not take {}", counted(args.len(), "argument"));
                self.fail(range, message, format!("write it as in `{usage}`"))
            }
        }
    }

    fn unknown_function(&mut self, call: &Call) -> Option<Checked> {
        let help = if VALUE_METHODS.contains(&call.name.as_str()) {
            Some(format!("it follows a value and a dot: `mail.subject.{}(...)`", call.name))
        } else {
            did_you_mean(&call.name, FUNCTIONS)
        };
        let message = format!("unknown function `{}`", call.name);
        self.report(Diagnostic { message, range: call.name_range.clone(), help });
        None
    }

    fn has(&mut self, of: &Node) -> Option<Checked> {
        let truth = match self.check(of)?.expr {
            Expr::Bool(Bool::Fact(slot)) => Bool::Has(slot, Type::Bool),
            Expr::Integer(Int::Fact(slot)) | Expr::Duration(Int::Fact(slot)) => {
                Bool::Has(slot, Type::Integer)
            }
            Expr::Float(Float::Fact(slot)) => Bool::Has(slot, Type::Float),
            Expr::String(Str::Fact(slot)) => Bool::Has(slot, Type::String),
            Expr::Time(Int::Time(slot)) => Bool::Has(slot, Type::Time),
            Expr::Ip(Ip::Fact(slot)) => Bool::Has(slot, Type::Ip),
            Expr::List(slot) => Bool::Has(slot, Type::List),
            Expr::Bytes(slot) => Bool::Has(slot, Type::Bytes),
            _ => {
                let help = "write it as in `has(mail.subject)` or `has(from.seen('1h'))`";
                return self.fail(&of.range, "`has` takes a fact or a reading", help);
            }
        };
        Some(Expr::Bool(truth).into())
    }

    fn size(&mut self, of: Checked, range: &Range<usize>) -> Option<Checked> {
        let size = match of.expr {
            Expr::String(text) => {
                self.spend(COST_SEEK);
                fold(Int::Chars(Box::new(text)))
            }
            Expr::List(slot) | Expr::Bytes(slot) => Int::Items(slot),
            other => {
                let message = format!("{} has no size", other.kind().article());
                return self.fail(range, message, "texts, lists and bytes have one");
            }
        };
        Some(Checked::within(Expr::Integer(size), 0.0, f64::INFINITY))
    }

    fn span(&mut self, node: &Node, usage: &str) -> Option<Span> {
        let NodeKind::Text(text) = &node.kind else {
            let help = format!("write it out: `{usage}`");
            return self.fail(&node.range, "a length of time is a text in quotes", help);
        };
        match text.parse::<Span>() {
            Ok(span) => Some(span),
            Err(error) => self.fail(&node.range, format!("`{text}` is no length of time"), error.to_string()),
        }
    }

    // Methods of values.

    fn method(&mut self, call: &Call, target: &Node, range: &Range<usize>) -> Option<Checked> {
        if !VALUE_METHODS.contains(&call.name.as_str()) {
            return self.counter_method(call, target, range);
        }
        let (checked, args) = (self.check(target), call.args.as_slice());
        match (call.name.as_str(), args) {
            ("size", []) => self.size(checked?, &target.range),
            ("or", [default]) => {
                let default = self.check(default);
                self.default(checked?, default?, range)
            }
            ("matches", [pattern]) => {
                let regex = self.regex(pattern);
                let text = self.text(checked?, &target.range, "matches")?;
                Some(Expr::Bool(Bool::Matches(text, Box::new(regex?))).into())
            }
            (name @ ("contains" | "startsWith" | "endsWith"), [sought]) => {
                self.spend(COST_SEEK);
                let place = match name {
                    "startsWith" => Place::Start,
                    "endsWith" => Place::End,
                    _ => Place::Anywhere,
                };
                let sought_checked = self.check(sought);
                let text = self.text(checked?, &target.range, name);
                let sought = self.text(sought_checked?, &sought.range, name);
                Some(Expr::Bool(Bool::Contains(place, text?, sought?)).into())
            }
            (name, args) => {
                let usage = match name {
                    "size" => "mail.links.size()",
                    "or" => "mail.subject.or('')",
                    "matches" => r"mail.subject.matches(r'^re:\s')",
                    "contains" => "mail.subject.contains('a')",
                    "startsWith" => "mail.subject.startsWith('a')",
                    _ => "mail.subject.endsWith('a')",
                };
                let message = format!("`{name}` does not take {}", counted(args.len(), "argument"));
                self.fail(range, message, format!("write it as in `{usage}`"))
            }
        }
    }

    fn text(&mut self, checked: Checked, range: &Range<usize>, method: &str) -> Option<Str> {
        match checked.expr {
            Expr::String(text) => Some(text),
            Expr::List(_) => {
                let message = format!("`{method}` takes a string, not a list");
                self.fail(range, message, "an item is sought with `'a' in mail.links`")
            }
            other => {
                let message = format!("`{method}` takes a string, not {}", other.kind().article());
                self.mismatch(range, message, other.kind(), other.kind())
            }
        }
    }

    fn default(&mut self, value: Checked, default: Checked, range: &Range<usize>) -> Option<Checked> {
        let kinds = (value.expr.kind(), default.expr.kind());
        let (low, high) = (value.low.min(default.low), value.high.max(default.high));
        let expr = match unify(value.expr, default.expr) {
            (Expr::Bool(value), Expr::Bool(default)) => Expr::Bool(Bool::Default(pair(value, default))),
            (Expr::Integer(value), Expr::Integer(default)) => {
                Expr::Integer(Int::Default(pair(value, default)))
            }
            (Expr::Time(value), Expr::Time(default)) => Expr::Time(Int::Default(pair(value, default))),
            (Expr::Duration(value), Expr::Duration(default)) => {
                Expr::Duration(Int::Default(pair(value, default)))
            }
            (Expr::Float(value), Expr::Float(default)) => Expr::Float(Float::Default(pair(value, default))),
            (Expr::String(value), Expr::String(default)) => Expr::String(Str::Default(pair(value, default))),
            _ if kinds.0 == kinds.1 || kinds.0 == Kind::Ip => {
                let message = format!("`or` does not replace values of type {}", kinds.0.name());
                return self.fail(range, message, "ask with `has(...)`");
            }
            _ => {
                let message = format!("`or` replaces {} with {}", kinds.0.article(), kinds.1.article());
                return self.mismatch(range, message, kinds.0, kinds.1);
            }
        };
        Some(Checked { expr, low, high })
    }

    fn regex(&mut self, pattern: &Node) -> Option<regex::Regex> {
        self.spend(COST_REGEX);
        let NodeKind::Text(text) = &pattern.kind else {
            let help = r"write it out: `.matches(r'^re:\s')`";
            return self.fail(&pattern.range, "a regular expression is a text in quotes", help);
        };
        if self.cost > COST_MAX {
            return None;
        }
        let built = RegexBuilder::new(text)
            .size_limit(REGEX_BYTES_MAX)
            .dfa_size_limit(REGEX_BYTES_MAX)
            .nest_limit(50)
            .build();
        match built {
            Ok(regex) => Some(regex),
            Err(regex::Error::CompiledTooBig(_)) => {
                let help = r"repeat less, or use `[0-9]` and `(?-u:\w)` instead of Unicode classes";
                self.fail(&pattern.range, "the regular expression is too large", help)
            }
            Err(error) => {
                let text = error.to_string();
                let reason = text.rsplit("error: ").next().unwrap_or_default().trim().to_owned();
                self.fail(&pattern.range, "the regular expression cannot be read", reason)
            }
        }
    }

    // Readings.

    fn counter_method(&mut self, call: &Call, target: &Node, range: &Range<usize>) -> Option<Checked> {
        let NodeKind::Name(name) = &target.kind else {
            self.check(target)?;
            return self.unknown_method(call);
        };
        if self.scope.is_kind(name) {
            let request = match (call.name.as_str(), call.args.as_slice()) {
                ("first_age", []) => ReadingRequest::FirstAge { kind: name },
                ("last_age", []) => ReadingRequest::LastAge { kind: name },
                ("first_age" | "last_age", _) => {
                    let message = format!("`{}` takes no argument", call.name);
                    return self.fail(range, message, format!("write `{name}.{}()`", call.name));
                }
                (value, args) if self.scope.is_track(name) => {
                    let value = self.track_value(value, name, args, call, range)?;
                    ReadingRequest::Track { kind: name, value }
                }
                (counter, args) => {
                    let window = self.window(counter, name, args, range)?;
                    ReadingRequest::Count { kind: name, counter, window }
                }
            };
            return self.reading(&request, range, &[(&call.name, &call.name_range)], call.args.first());
        }
        if self.scope.fact(name).is_some() {
            return self.unknown_method(call);
        }
        let help = did_you_mean(name, self.scope.names(Names::Kind));
        self.report(Diagnostic {
            message: format!("unknown kind `{name}`"),
            range: target.range.clone(),
            help,
        });
        None
    }

    fn track_value(
        &mut self,
        value: &str,
        kind: &str,
        args: &[Node],
        call: &Call,
        range: &Range<usize>,
    ) -> Option<TrackValue> {
        let value = match (value, args) {
            ("count", []) => TrackValue::Count,
            ("sum", []) => TrackValue::Sum,
            ("min", []) => TrackValue::Min,
            ("max", []) => TrackValue::Max,
            ("decayed", [half_life]) => {
                let span = self.span(half_life, &format!("{kind}.decayed('1h')"))?;
                if span <= Span::ZERO {
                    let help = "write it as in `'1h'`";
                    return self.fail(&half_life.range, "a half-life is longer than 0", help);
                }
                TrackValue::Decayed(span)
            }
            ("decayed", _) => {
                let message = format!("`decayed` takes one half-life, not {}", args.len());
                return self.fail(range, message, format!("write it as in `{kind}.decayed('1h')`"));
            }
            (name, _) if TrackValue::NAMES.contains(&name) => {
                let message = format!("`{name}` takes no argument");
                let help = format!("a track has no windows: write `{kind}.{name}()`");
                return self.fail(range, message, help);
            }
            (name, _) => {
                let names = TrackValue::NAMES.map(str::to_owned);
                let help = did_you_mean(name, &names).unwrap_or_else(|| format!("it has {}", listed(&names)));
                let message = format!("`{kind}` has a track and no counter `{name}`");
                return self.fail(&call.name_range, message, help);
            }
        };
        Some(value)
    }

    fn unknown_method(&mut self, call: &Call) -> Option<Checked> {
        let lower = ["lower", "lowerascii", "tolower", "tolowercase", "upperascii", "upper"];
        let help = if lower.contains(&call.name.to_ascii_lowercase().as_str()) {
            Some("letters of either case match with `.matches('(?i)...')`".to_owned())
        } else if matches!(call.name.as_str(), "first_age" | "last_age") {
            Some("ages are read of kinds, not of facts".to_owned())
        } else {
            did_you_mean(&call.name, VALUE_METHODS)
        };
        let message = format!("unknown method `{}`", call.name);
        self.report(Diagnostic { message, range: call.name_range.clone(), help });
        None
    }

    /// The window among the arguments of a counter; the outer `None` where it was reported.
    fn window(
        &mut self,
        counter: &str,
        kind: &str,
        args: &[Node],
        range: &Range<usize>,
    ) -> Option<Option<Span>> {
        match args {
            [] => Some(None),
            [window] => {
                let span = self.span(window, &format!("{kind}.{counter}('1h')"))?;
                if span <= Span::ZERO {
                    return self.fail(&window.range, "a window is longer than 0", "write it as in `'1h'`");
                }
                Some(Some(span))
            }
            _ => {
                let message = format!("a counter takes one window, not {}", args.len());
                self.fail(range, message, format!("write it as in `{kind}.{counter}('1h')`"))
            }
        }
    }

    fn reading(
        &mut self,
        request: &ReadingRequest<'_>,
        range: &Range<usize>,
        counters: &[(&str, &Range<usize>)],
        window: Option<&Node>,
    ) -> Option<Checked> {
        let slot = match self.scope.reading(request) {
            Ok(slot) => slot,
            Err(ScopeError::Counter { name: counter, known }) => {
                let help = did_you_mean(&counter, &known)
                    .or_else(|| (!known.is_empty()).then(|| format!("it has {}", listed(&known))));
                let message = format!("unknown counter `{counter}`");
                let written = counters.iter().find(|(name, _)| *name == counter);
                let range = written.map_or(range, |(_, range)| range);
                self.report(Diagnostic { message, range: range.clone(), help });
                return None;
            }
            Err(ScopeError::Window(message)) => {
                let range = window.map_or(range, |window| &window.range);
                self.report(Diagnostic::new(message, range.clone()));
                return None;
            }
            Err(ScopeError::Unavailable(message)) => {
                self.report(Diagnostic::new(message, range.clone()));
                return None;
            }
        };
        self.read(slot, request.to_string(), request.is_age());
        let expr = match request.column_type() {
            _ if request.is_age() => Expr::Duration(Int::Fact(slot)),
            Type::Float => Expr::Float(Float::Fact(slot)),
            _ => Expr::Integer(Int::Fact(slot)),
        };
        let least = if request.is_signed() { f64::NEG_INFINITY } else { 0.0 };
        Some(Checked::within(expr, least, f64::INFINITY))
    }

    fn distinct(&mut self, name: &Node, window: &Node, range: &Range<usize>) -> Option<Checked> {
        let span = self.span(window, "distinct('rcpts', '1d')");
        let NodeKind::Text(text) = &name.kind else {
            let help = "write it as in `distinct('rcpts', '1d')`";
            return self.fail(&name.range, "a distinct statistic is named in quotes", help);
        };
        if !self.scope.is_distinct(text) {
            let help = did_you_mean(text, self.scope.names(Names::Distinct));
            let message = format!("unknown distinct statistic `{text}`");
            self.report(Diagnostic { message, range: name.range.clone(), help });
            return None;
        }
        let span = span?;
        if span <= Span::ZERO {
            return self.fail(&window.range, "a window is longer than 0", "write it as in `'1h'`");
        }
        let request = ReadingRequest::Distinct { name: text, window: span };
        self.reading(&request, range, &[], Some(window))
    }

    fn ratio(
        &mut self,
        numerator: &Node,
        denominator: &Node,
        at_least: Option<&Node>,
        range: &Range<usize>,
    ) -> Option<Checked> {
        let at_least = match at_least.map(|node| (&node.kind, &node.range)) {
            None => Some(1),
            Some((NodeKind::Integer(at_least @ 1..), _)) => Some(at_least.unsigned_abs()),
            Some((_, range)) => {
                let help = "below it the ratio is 0: `ratio(from.spam('1d'), from.seen('1d'), 20)`";
                self.fail(range, "the least denominator is a whole number from 1", help)
            }
        };
        let mut written = Vec::new();
        let (above, below) =
            (self.counters(numerator, &mut written), self.counters(denominator, &mut written));
        let ((kind, numerator), (other, denominator)) = (above?, below?);
        if kind != other {
            let message = format!("`ratio` divides counters of one kind, not of `{kind}` by `{other}`");
            return self.fail(range, message, "divide what is unlike with `/`");
        }
        let request = ReadingRequest::Ratio { kind, numerator, denominator, at_least: at_least? };
        self.reading(&request, range, &written, None)
    }

    /// The kind and the counters of a sum such as `link.spam('1d') + link.complaint('1d')`.
    /// Where each counter is written is added to `written`.
    fn counters<'n>(
        &mut self,
        node: &'n Node,
        written: &mut Vec<(&'n str, &'n Range<usize>)>,
    ) -> Option<(&'n str, CounterSum<'n>)> {
        self.spend(1);
        match &node.kind {
            NodeKind::Refused => None,
            NodeKind::Arithmetic(Arithmetic::Add, sides) => {
                let (left, right) = (self.counters(&sides.0, written), self.counters(&sides.1, written));
                let ((kind, mut sum), (other, more)) = (left?, right?);
                if kind != other || sum.window != more.window {
                    let message = "`ratio` adds counters of one kind over one window";
                    return self.fail(&node.range, message, "what differs is added up outside of `ratio`");
                }
                sum.counters.extend(more.counters);
                Some((kind, sum))
            }
            NodeKind::Call(Call { name: counter, target: Some(target), args, name_range }) => {
                let NodeKind::Name(kind) = &target.kind else {
                    return self.no_counter(&node.range);
                };
                if VALUE_METHODS.contains(&counter.as_str())
                    || matches!(counter.as_str(), "first_age" | "last_age")
                {
                    return self.no_counter(&node.range);
                }
                if !self.scope.is_kind(kind) {
                    let help = did_you_mean(kind, self.scope.names(Names::Kind));
                    let message = format!("unknown kind `{kind}`");
                    self.report(Diagnostic { message, range: target.range.clone(), help });
                    return None;
                }
                if self.scope.is_track(kind) {
                    let message = format!("`ratio` takes counters, and `{kind}` has a track");
                    let help = format!("divide its values with `/`: `{kind}.sum() / {kind}.count()`");
                    return self.fail(&node.range, message, help);
                }
                let window = self.window(counter, kind, args, &node.range)?;
                written.push((counter, name_range));
                Some((kind, CounterSum { counters: vec![counter], window }))
            }
            _ => self.no_counter(&node.range),
        }
    }

    fn no_counter<T>(&mut self, range: &Range<usize>) -> Option<T> {
        let help = "divide other numbers with `/`; a ratio is `ratio(from.spam('1d'), from.seen('1d'), 20)`";
        self.fail(range, "`ratio` takes counters of a kind", help)
    }
}
