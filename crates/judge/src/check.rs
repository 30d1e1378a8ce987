//! Checks a condition's tree against a scope and turns it into the form that is evaluated.
//!
//! Every operand has one type, known here; integers become floats where they meet one. A part that is wrong
//! is reported once and gives `None`, and its neighbours are still checked, so that one run finds all
//! mistakes. What bounds of values say of a condition is told, too: see [`crate::bounds`].

mod buckets;
mod call;
mod lookup;
mod membership;
mod reading;
mod text;

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::ops::Range;

use event::{Slot, Type};

use crate::Diagnostic;
use crate::action::Mode;
use crate::bounds::{Interval, KnownConstraints, ValueBounds};
use crate::condition::{ColumnRead, Condition, RuleReference, ScoreShare};
use crate::diagnostic::{Severity, did_you_mean};
use crate::expr::{
    BoolExpr, EvalEnv, FloatExpr, IntExpr, IpExpr, Junction, ListExpr, ResultView, StrExpr, TextConstants,
    ValueExpr,
};
use crate::expression::Expression;
use crate::lexer::DIAGNOSTICS_MAX;
use crate::library::Library;
use crate::outline::ConditionOutline;
use crate::scope::{NameCategory, Scope};
use crate::syntax::{ArithmeticOperator, CompareOperator, SyntaxKind, SyntaxNode, parse};

/// Dearest accepted condition, in the unit of [`Condition::cost`].
pub(crate) const COST_MAX: u32 = 2_000;
/// The cost of seeking in a text or a list.
const COST_SEEK: u32 = 8;
/// The cost of reading a clock in a zone.
const COST_CLOCK: u32 = 32;
/// The cost of seeking the items of a list in a set.
const COST_MEET: u32 = 64;
/// The cost of a regular expression.
const COST_REGEX: u32 = 64;
/// The cost of making a text.
const COST_MAKE: u32 = 32;
/// The cost of seeking in a table, whose entries are seldom in the processor's caches.
const COST_LOOKUP: u32 = 128;
/// The cost of a function of the engine on a text.
const COST_APPLY: u32 = 128;

/// Functions: `name(...)`.
pub(crate) const FUNCTIONS: [&str; 33] = [
    "age",
    "dispersion",
    "distance",
    "distinct",
    "domain",
    "double",
    "duration",
    "empty_buckets",
    "estimated",
    "evidence",
    "grade",
    "group",
    "has",
    "int",
    "interval_variation",
    "ip",
    "is_new",
    "last",
    "lookup",
    "max_bucket",
    "median_interval",
    "model",
    "over",
    "rate",
    "ratio",
    "registrable",
    "remaining",
    "reputation",
    "rule",
    "size",
    "string",
    "timestamp",
    "trend",
];

/// Functions from text to text that a scope gives.
pub const TEXT_FUNCTIONS: [&str; 2] = ["domain", "registrable"];

/// Methods of values: `value.name(...)`. A counter of such a name could not be read by rules, so engines
/// refuse to configure one, as they refuse [`crate::KIND_METHODS`].
pub const VALUE_METHODS: [&str; 19] = [
    "contains",
    "endsWith",
    "getDate",
    "getDayOfMonth",
    "getDayOfWeek",
    "getDayOfYear",
    "getFullYear",
    "getHours",
    "getMinutes",
    "getMonth",
    "getSeconds",
    "join",
    "lower",
    "matches",
    "or",
    "size",
    "split",
    "startsWith",
    "substring",
];

/// Readings of a kind that are no counters.
pub const KIND_METHODS: [&str; 3] = ["first_age", "last_age", "marked"];

/// The rules and groups of a set, by name.
#[derive(Debug, Default)]
pub(crate) struct Siblings {
    pub(crate) rules: HashMap<String, (u32, Mode)>,
    pub(crate) groups: HashMap<String, u32>,
    /// Between what each group's score lies.
    pub(crate) bounds: Vec<Interval>,
}

/// The library and the sibling rules that a condition is compiled with.
#[derive(Clone, Copy)]
pub(crate) struct ConditionContext<'a> {
    pub(crate) library: &'a Library,
    /// The other rules beside a rule, and the results it sees.
    pub(crate) siblings: Option<(&'a Siblings, ResultView)>,
}

/// Checks and compiles a condition by itself, with what a library defines.
///
/// Columns are set aside in `scope` for what it reads, even where it is refused for another reason. Takes
/// time in the order of the source's length but for the compilation of regular expressions, which is bounded.
///
/// # Errors
/// Everything that is wrong, in the order of the source, up to 20 diagnostics, at least one of them an error: unless all
/// that is wrong is in a definition of the library, which was told when that was compiled.
pub fn compile(source: &str, library: &Library, scope: &mut dyn Scope) -> Result<Condition, Vec<Diagnostic>> {
    compile_in(source, ConditionContext { library, siblings: None }, scope)
}

/// Checks and compiles a condition that may refer to the rules of a set.
pub(crate) fn compile_in(
    source: &str,
    context: ConditionContext<'_>,
    scope: &mut dyn Scope,
) -> Result<Condition, Vec<Diagnostic>> {
    let (node, found) = parse(source)?;
    let node = context.library.expand(node).map_err(|diagnostic| vec![diagnostic])?;
    let mut checker = Checker::new(source, context, scope, found);
    let root = match checker.check(&node) {
        Some(TypedExpr::Bool(root)) => Some(root),
        Some(other) => {
            let message = format!("a condition is true or false, this is {}", other.kind().article());
            checker.report(Diagnostic::new(message, node.range.clone()).help(match other {
                TypedExpr::Integer(_) | TypedExpr::Float(_) => "compare it, as in `... > 10`",
                TypedExpr::Duration(_) => "compare it, as in `... < duration('1d')`",
                _ => "compare it, as in `... == 'a'`",
            }));
            None
        }
        None => None,
    };
    if let Some(BoolExpr::Const(false)) = root {
        let help = "a rule rests with `mode = \"off\"`";
        checker.report(Diagnostic::new("this is never true", node.range.clone()).help(help));
    }
    let (found, Checker { reads, refers, cost, .. }) = checker.finish(node.range.clone());
    match root {
        Some(root) if found.iter().all(|found| found.severity == Severity::Warning) => {
            let outline = ConditionOutline::of(&node, &root, source);
            Ok(Condition::new(root, outline, reads, refers, cost, found))
        }
        _ => Err(found),
    }
}

/// Checks and compiles the share of its score that a rule adds.
pub(crate) fn compile_share(
    source: &str,
    context: ConditionContext<'_>,
    scope: &mut dyn Scope,
) -> Result<ScoreShare, Vec<Diagnostic>> {
    let (node, found) = parse(source)?;
    let node = context.library.expand(node).map_err(|diagnostic| vec![diagnostic])?;
    let mut checker = Checker::new(source, context, scope, found);
    let root = match checker.check(&node).map(TypedExpr::promoted) {
        Some(TypedExpr::Float(root)) => Some(root),
        Some(other) => {
            let message = format!("a share is a number from 0 to 1, this is {}", other.kind().article());
            checker.report(Diagnostic::new(message, node.range.clone()).help(match other {
                TypedExpr::Bool(_) => {
                    "put it into `when`, or choose between two numbers with `... ? 1.0 : 0.5`"
                }
                _ => "make a number of it, as in `size(mail.subject) / 100.0`",
            }));
            None
        }
        None => None,
    };
    if let Some(FloatExpr::Const(_)) = root {
        let help = "multiply the score by it and leave `share` out";
        checker.report(Diagnostic::new("this is always the same", node.range.clone()).help(help));
    }
    let (found, Checker { reads, refers, cost, .. }) = checker.finish(node.range.clone());
    match root {
        Some(root) if found.iter().all(|found| found.severity == Severity::Warning) => {
            Ok(ScoreShare::new(root, reads, refers, cost, found))
        }
        _ => Err(found),
    }
}

/// Checks and compiles an expression whose value has a type, with what a library defines. An integer becomes a float
/// where one is wanted.
///
/// # Errors
/// Everything that is wrong, as [`compile`] tells it.
pub fn compile_expression(
    source: &str,
    wanted: Type,
    library: &Library,
    scope: &mut dyn Scope,
) -> Result<Expression, Vec<Diagnostic>> {
    let context = ConditionContext { library, siblings: None };
    let (node, found) = parse(source)?;
    let node = library.expand(node).map_err(|diagnostic| vec![diagnostic])?;
    let mut checker = Checker::new(source, context, scope, found);
    let root = checker.check(&node).and_then(|checked| checker.value(checked, wanted, &node.range));
    let (found, Checker { reads, cost, .. }) = checker.finish(node.range.clone());
    match root {
        Some(root) if found.iter().all(|found| found.severity == Severity::Warning) => {
            Ok(Expression::new(root, reads, cost, found))
        }
        _ => Err(found),
    }
}

/// The column of a reading written as rules write it, e.g. `from.seen('1h')`, and its type; ages are whole microseconds.
///
/// The scope sets a column aside for it, as for a reading of a condition.
///
/// # Errors
/// The first thing that is wrong with it.
pub fn reading(source: &str, scope: &mut dyn Scope) -> Result<(Slot, Type), Diagnostic> {
    let library = Library::default();
    let context = ConditionContext { library: &library, siblings: None };
    operand(source, context, scope).map(|(slot, kind, _)| (slot, kind)).map_err(|found| {
        let first = found.into_iter().find(|found| found.severity == Severity::Error);
        first.unwrap_or_else(|| Diagnostic::new("this is no reading", 0..source.len()))
    })
}

/// The column that a fact or a reading is in, its type and whether it is a length of time.
pub(crate) fn operand(
    source: &str,
    context: ConditionContext<'_>,
    scope: &mut dyn Scope,
) -> Result<(Slot, Type, bool), Vec<Diagnostic>> {
    let (node, found) = parse(source)?;
    let mut checker = Checker::new(source, context, scope, found);
    let column = checker.check(&node).map(|expr| match expr {
        TypedExpr::Duration(IntExpr::Fact(slot)) => Some((slot, Type::Integer, true)),
        expr => expr.column().map(|(slot, kind)| (slot, kind, false)),
    });
    match column {
        Some(Some(column)) if checker.found.is_empty() => Ok(column),
        Some(None) => {
            let help = "name one as rules do: `mail.subject`, `from.seen('1h')`";
            Err(vec![Diagnostic::new("this is no fact and no reading", node.range).help(help)])
        }
        _ => Err(checker.found),
    }
}

/// Checks an expression by itself, of whatever type it is.
pub(crate) fn check_expression(
    source: &str,
    node: &SyntaxNode,
    context: ConditionContext<'_>,
    scope: &mut dyn Scope,
) -> Result<(), Vec<Diagnostic>> {
    let mut checker = Checker::new(source, context, scope, Vec::new());
    checker.in_expression = true;
    checker.check(node);
    checker.report_cost(node.range.clone());
    if checker.found.is_empty() { Ok(()) } else { Err(checker.found) }
}

/// The type of an operand, as messages call it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OperandType {
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

impl OperandType {
    fn name(self) -> &'static str {
        match self {
            OperandType::Bool => "bool",
            OperandType::Integer => "integer",
            OperandType::Float => "float",
            OperandType::String => "string",
            OperandType::Time => "time",
            OperandType::Duration => "duration",
            OperandType::Ip => "ip",
            OperandType::List => "list",
            OperandType::Bytes => "bytes",
        }
    }

    fn article(self) -> String {
        match self {
            OperandType::Integer | OperandType::Ip => format!("an {}", self.name()),
            OperandType::Bytes => "bytes".to_owned(),
            _ => format!("a {}", self.name()),
        }
    }
}

enum TypedExpr {
    Bool(BoolExpr),
    Integer(IntExpr),
    Float(FloatExpr),
    String(StrExpr),
    /// Microseconds since the epoch.
    Time(IntExpr),
    /// Microseconds.
    Duration(IntExpr),
    Ip(IpExpr),
    List(ListExpr),
    Bytes(Slot),
}

impl TypedExpr {
    fn kind(&self) -> OperandType {
        match self {
            TypedExpr::Bool(_) => OperandType::Bool,
            TypedExpr::Integer(_) => OperandType::Integer,
            TypedExpr::Float(_) => OperandType::Float,
            TypedExpr::String(_) => OperandType::String,
            TypedExpr::Time(_) => OperandType::Time,
            TypedExpr::Duration(_) => OperandType::Duration,
            TypedExpr::Ip(_) => OperandType::Ip,
            TypedExpr::List(_) => OperandType::List,
            TypedExpr::Bytes(_) => OperandType::Bytes,
        }
    }

    fn is_constant(&self) -> bool {
        matches!(
            self,
            TypedExpr::Bool(BoolExpr::Const(_))
                | TypedExpr::Integer(IntExpr::Const(_))
                | TypedExpr::Time(IntExpr::Const(_))
                | TypedExpr::Duration(IntExpr::Const(_))
                | TypedExpr::Float(FloatExpr::Const(_))
                | TypedExpr::String(StrExpr::Const(_))
                | TypedExpr::Ip(IpExpr::Const(_))
        )
    }

    /// The column that it is, where it is one and no more.
    fn column(&self) -> Option<(Slot, Type)> {
        Some(match self {
            TypedExpr::Bool(BoolExpr::Fact(slot)) => (*slot, Type::Bool),
            TypedExpr::Integer(IntExpr::Fact(slot)) | TypedExpr::Duration(IntExpr::Fact(slot)) => {
                (*slot, Type::Integer)
            }
            TypedExpr::Float(FloatExpr::Fact(slot)) => (*slot, Type::Float),
            TypedExpr::String(StrExpr::Fact(slot)) => (*slot, Type::String),
            TypedExpr::Time(IntExpr::Time(slot)) => (*slot, Type::Time),
            TypedExpr::Ip(IpExpr::Fact(slot)) => (*slot, Type::Ip),
            TypedExpr::List(ListExpr::Fact(slot)) => (*slot, Type::List),
            TypedExpr::Bytes(slot) => (*slot, Type::Bytes),
            _ => return None,
        })
    }

    /// A number as a float; any other as it is.
    fn promoted(self) -> TypedExpr {
        match self {
            TypedExpr::Integer(integer) => TypedExpr::Float(integer.into()),
            other => other,
        }
    }
}

/// Makes one type of two: an integer beside a float becomes a float, a text constant beside an address
/// becomes an address where it reads as one.
fn unify(left: TypedExpr, right: TypedExpr) -> (TypedExpr, TypedExpr) {
    let ip = |expr: TypedExpr| match expr {
        TypedExpr::String(StrExpr::Const(text)) => match text.parse::<IpAddr>() {
            Ok(ip) => TypedExpr::Ip(IpExpr::Const(ip.to_canonical())),
            Err(_) => TypedExpr::String(StrExpr::Const(text)),
        },
        other => other,
    };
    match (left.kind(), right.kind()) {
        (OperandType::Integer, OperandType::Float) | (OperandType::Float, OperandType::Integer) => {
            (left.promoted(), right.promoted())
        }
        (OperandType::Ip, OperandType::String) => (left, ip(right)),
        (OperandType::String, OperandType::Ip) => (ip(left), right),
        _ => (left, right),
    }
}

/// The way to bring two unlike types together, where it is known.
fn mismatch_help(left: OperandType, right: OperandType) -> Option<&'static str> {
    let either = |kind: OperandType| left == kind || right == kind;
    if either(OperandType::Duration)
        && (either(OperandType::String) || either(OperandType::Integer) || either(OperandType::Float))
    {
        Some("a length of time is written `duration('1d')`")
    } else if either(OperandType::Time) && either(OperandType::Duration) {
        Some("`now - time` is a duration")
    } else if either(OperandType::Time) && (either(OperandType::String) || either(OperandType::Integer)) {
        Some("a point in time is written `timestamp('2026-05-17T10:05:03Z')`")
    } else if either(OperandType::Ip) && either(OperandType::String) {
        Some("an address is compared with one written out: `'192.0.2.7'`")
    } else if either(OperandType::List) && either(OperandType::String) {
        Some("an item is sought with `'a' in mail.links`")
    } else {
        None
    }
}

fn pair<T>(left: T, right: T) -> Box<(T, T)> {
    Box::new((left, right))
}

/// Evaluates what reads nothing.
fn fold(expr: IntExpr) -> IntExpr {
    let constant = match &expr {
        IntExpr::Sum(sides)
        | IntExpr::Difference(sides)
        | IntExpr::Product(sides)
        | IntExpr::Remainder(sides) => {
            matches!(**sides, (IntExpr::Const(_), IntExpr::Const(_)))
        }
        IntExpr::Chars(text) => matches!(**text, StrExpr::Const(_)),
        IntExpr::Whole(float) => matches!(**float, FloatExpr::Const(_)),
        _ => false,
    };
    match expr.eval(&EvalEnv::empty()) {
        Some(integer) if constant => IntExpr::Const(integer),
        _ => expr,
    }
}

/// Evaluates what reads nothing.
fn fold_float(expr: FloatExpr) -> FloatExpr {
    let constant = match &expr {
        FloatExpr::Sum(sides)
        | FloatExpr::Difference(sides)
        | FloatExpr::Product(sides)
        | FloatExpr::Quotient(sides) => {
            matches!(**sides, (FloatExpr::Const(_), FloatExpr::Const(_)))
        }
        _ => false,
    };
    match expr.eval(&EvalEnv::empty()) {
        Some(float) if constant => FloatExpr::Const(float),
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

/// A division whose divisor may be zero, for all that is known so far.
struct Division {
    divisor: FloatExpr,
    range: Range<usize>,
    /// The bounds of numbers by the parts beside it.
    known: KnownConstraints,
}

struct Checker<'a> {
    source: &'a str,
    context: ConditionContext<'a>,
    scope: &'a mut dyn Scope,
    found: Vec<Diagnostic>,
    reads: Vec<ColumnRead>,
    refers: Vec<(RuleReference, Range<usize>)>,
    base: ValueBounds,
    divisions: Vec<Division>,
    cost: u32,
    /// True if an expression is checked by itself: rules may be named that are not known yet.
    in_expression: bool,
    /// Readings are asked for their quality instead of their value.
    quality: bool,
    /// The columns that hold grades.
    graded: HashSet<Slot>,
}

impl<'a> Checker<'a> {
    fn new(
        source: &'a str,
        context: ConditionContext<'a>,
        scope: &'a mut dyn Scope,
        found: Vec<Diagnostic>,
    ) -> Checker<'a> {
        let groups = context.siblings.map(|(siblings, _)| siblings.bounds.clone()).unwrap_or_default();
        Checker {
            source,
            context,
            scope,
            found,
            reads: Vec::new(),
            refers: Vec::new(),
            base: ValueBounds { groups, ..ValueBounds::default() },
            divisions: Vec::new(),
            cost: 0,
            in_expression: false,
            quality: false,
            graded: HashSet::new(),
        }
    }

    /// The rules beside this one; the inner `None` for an expression that is checked by itself.
    fn siblings(&mut self, node: &SyntaxNode) -> Option<Option<(&'a Siblings, ResultView)>> {
        match self.context.siblings {
            Some(siblings) => Some(Some(siblings)),
            None if self.in_expression => Some(None),
            None => {
                let help = "only the condition of a [[rule]] can refer to rules and groups";
                self.fail(&node.range, "there are no rules to refer to here", help)
            }
        }
    }

    fn report(&mut self, diagnostic: Diagnostic) {
        // Warnings leave errors their room.
        let alike = self.found.iter().filter(|found| found.severity == diagnostic.severity);
        if alike.count() < DIAGNOSTICS_MAX {
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

    fn mismatch<T>(
        &mut self,
        range: &Range<usize>,
        what: String,
        left: OperandType,
        right: OperandType,
    ) -> Option<T> {
        let help = mismatch_help(left, right).map(str::to_owned);
        self.report(Diagnostic::new(what, range.clone()).maybe_help(help));
        None
    }

    fn spend(&mut self, cost: u32) {
        self.cost = self.cost.saturating_add(cost);
    }

    fn read(&mut self, slot: Slot, text: String, is_age: bool) {
        if !self.reads.iter().any(|read| read.slot == slot) {
            self.reads.push(ColumnRead { slot, text, is_age });
        }
    }

    /// Returns what was found, in the order of the source, once everything is checked.
    fn finish(mut self, range: Range<usize>) -> (Vec<Diagnostic>, Checker<'a>) {
        self.report_divisions();
        self.report_cost(range);
        let mut found = std::mem::take(&mut self.found);
        found.sort_by_key(|diagnostic| diagnostic.severity == Severity::Warning);
        found.truncate(DIAGNOSTICS_MAX);
        found.sort_by_key(|diagnostic| diagnostic.range.start);
        (found, self)
    }

    fn report_cost(&mut self, range: Range<usize>) {
        if self.cost > COST_MAX {
            let message = format!("the condition costs more than {COST_MAX}");
            let help = format!("split it into several rules; a regular expression costs {COST_REGEX}");
            self.report(Diagnostic::new(message, range).help(help));
        }
    }

    /// Warns of divisions by what may be zero, where nothing rules that out.
    fn report_divisions(&mut self) {
        for Division { range, .. } in std::mem::take(&mut self.divisions) {
            let message =
                "this may be zero: then the result is missing, and what depends on it does not hold";
            let help = "ask for it first, as in `b > 0 && a / b > 2`, give a value with `(a / b).or(0.0)`, or use `ratio`";
            self.report(Diagnostic::new(message, range).help(help).warning());
        }
    }

    /// Lets go of the divisions from `start` on, but for `keep` of them at the end, that cannot be by zero where
    /// something holds.
    fn discharge(&mut self, start: usize, known: &KnownConstraints) {
        let divisions = self.divisions.split_off(start);
        for mut division in divisions {
            division.known = division.known.with_numbers_of(known);
            if division.known.float(&self.base, &division.divisor).has_zero() {
                self.divisions.push(division);
            }
        }
    }

    /// A divisor that could be zero is kept in mind: it may turn out that it is not where it matters.
    fn divide_by(&mut self, divisor: FloatExpr, range: &Range<usize>) {
        let division = Division { divisor, range: range.clone(), known: KnownConstraints::default() };
        if division.known.float(&self.base, &division.divisor).has_zero() {
            self.divisions.push(division);
        }
    }

    /// The source of a part, for messages.
    fn text_of(&self, range: &Range<usize>) -> String {
        const SHOWN_MAX: usize = 40;
        let text = self.source.get(range.clone()).unwrap_or_default();
        let cut: String =
            text.chars().take(SHOWN_MAX).map(|c| if c.is_control() { ' ' } else { c }).collect();
        if cut.len() < text.len() { format!("{cut}…") } else { cut }
    }

    fn check(&mut self, node: &SyntaxNode) -> Option<TypedExpr> {
        self.spend(1);
        if self.cost > COST_MAX {
            // Reported once, at the end.
            return None;
        }
        let range = &node.range;
        match &node.kind {
            SyntaxKind::Refused => None,
            SyntaxKind::Text(text) => Some(TypedExpr::String(StrExpr::Const(text.as_str().into()))),
            SyntaxKind::Integer(integer) => Some(TypedExpr::Integer(IntExpr::Const(*integer))),
            SyntaxKind::Float(float) => Some(TypedExpr::Float(FloatExpr::Const(*float))),
            SyntaxKind::Bool(truth) => Some(TypedExpr::Bool(BoolExpr::Const(*truth))),
            SyntaxKind::Name(name) => self.fact(name, range),
            SyntaxKind::List(_) => {
                let help = "a list of constants stands to the right of `in`";
                self.fail(range, "a list has no place here", help)
            }
            SyntaxKind::Not(operand) => {
                let truth = self.bool(operand, "`!`")?;
                Some(TypedExpr::Bool(BoolExpr::Not(Box::new(truth))))
            }
            SyntaxKind::All(parts) => self.junction(parts, true, range),
            SyntaxKind::Any(parts) => self.junction(parts, false, range),
            SyntaxKind::Negate(operand) => {
                let checked = self.check(operand)?;
                let kind = checked.kind();
                Some(match checked {
                    TypedExpr::Integer(integer) => {
                        TypedExpr::Integer(fold(IntExpr::Difference(pair(IntExpr::Const(0), integer))))
                    }
                    TypedExpr::Duration(span) => {
                        TypedExpr::Duration(fold(IntExpr::Difference(pair(IntExpr::Const(0), span))))
                    }
                    TypedExpr::Float(float) => TypedExpr::Float(fold_float(FloatExpr::Difference(pair(
                        FloatExpr::Const(0.0),
                        float,
                    )))),
                    _ => {
                        let message = format!("`-` takes a number, not {}", kind.article());
                        return self.mismatch(range, message, kind, kind);
                    }
                })
            }
            SyntaxKind::Compare(compare, sides) => {
                let (left, right) = (self.check(&sides.0), self.check(&sides.1));
                self.compare(*compare, left?, right?, range)
            }
            SyntaxKind::In(sides) => self.membership(&sides.0, &sides.1, range),
            SyntaxKind::Arithmetic(operator, sides) => {
                let (left, right) = (self.check(&sides.0), self.check(&sides.1));
                self.arithmetic(*operator, left?, right?, range, &sides.1.range)
            }
            SyntaxKind::If(branches) => {
                let test = self.bool(&branches.0, "`?`");
                let before = self.divisions.len();
                let yes = self.check(&branches.1);
                let between = self.divisions.len();
                let no = self.check(&branches.2);
                // Each choice is looked at only where the test says so.
                if let Some(test) = &test {
                    let of_no = self.divisions.split_off(between);
                    self.discharge_where(before, test, true);
                    let between = self.divisions.len();
                    self.divisions.extend(of_no);
                    self.discharge_where(between, test, false);
                }
                self.choice(test?, yes?, no?, range)
            }
            SyntaxKind::Index(sides) => self.item(&sides.0, &sides.1),
            SyntaxKind::Call(call) => match &call.target {
                None => self.function(call, range),
                Some(target) => self.method(call, target, range),
            },
        }
    }

    /// Lets go of the divisions from `start` on that cannot be by zero where a test is true, or false.
    fn discharge_where(&mut self, start: usize, test: &BoolExpr, truth: bool) {
        let mut known = KnownConstraints::default();
        if known.learn(&self.base, test, truth).is_ok() {
            self.discharge(start, &known);
        }
    }

    fn bool(&mut self, node: &SyntaxNode, operator: &str) -> Option<BoolExpr> {
        match self.check(node)? {
            TypedExpr::Bool(truth) => Some(truth),
            other => {
                let message = format!("{operator} takes a bool, not {}", other.kind().article());
                let help = match other {
                    TypedExpr::Integer(_) | TypedExpr::Float(_) => "compare it, as in `... > 0`",
                    TypedExpr::String(_) => "compare it, as in `... != ''`, or ask with `has(...)`",
                    _ => "compare it, or ask with `has(...)`",
                };
                self.fail(&node.range, message, help)
            }
        }
    }

    /// Parts side by side, all of which (`&&`) or one of which (`||`) must hold.
    fn junction(&mut self, parts: &[SyntaxNode], all: bool, range: &Range<usize>) -> Option<TypedExpr> {
        let before = self.divisions.len();
        let operator = if all { "`&&`" } else { "`||`" };
        let mut costs = Vec::with_capacity(parts.len());
        let mut checked = Vec::with_capacity(parts.len());
        for part in parts {
            let spent = self.cost;
            checked.push(self.bool(part, operator));
            costs.push(self.cost - spent);
        }
        // A part decides unless all others are true (`&&`) or false (`||`): what that says of numbers can be
        // relied on, whichever side it stands on.
        let start = || if all { KnownConstraints::default() } else { KnownConstraints::of_values() };
        let mut known = start();
        let mut contradicted = None;
        for (index, part) in checked.iter().enumerate() {
            let Some(part) = part else { continue };
            if known.learn(&self.base, part, all).is_err() {
                contradicted = Some(index);
                break;
            }
        }
        match contradicted {
            None => self.discharge(before, &known),
            Some(index) => self.report_contradiction(parts, &checked, index, all, range),
        }
        let checked = checked.into_iter().zip(costs).map(|(part, cost)| Some((part?, cost)));
        let junction = Junction::new(checked.collect::<Option<_>>()?);
        contradicted.is_none().then_some(TypedExpr::Bool(if all {
            BoolExpr::All(junction)
        } else {
            BoolExpr::Any(junction)
        }))
    }

    /// Says that `parts[index]` cannot hold (`&&`) or cannot fail (`||`) beside those before it.
    fn report_contradiction(
        &mut self,
        parts: &[SyntaxNode],
        checked: &[Option<BoolExpr>],
        index: usize,
        all: bool,
        range: &Range<usize>,
    ) {
        let (Some(Some(part)), Some(node)) = (checked.get(index), parts.get(index)) else { return };
        let fails =
            |known: &mut KnownConstraints, other: &BoolExpr| known.learn(&self.base, other, all).is_err();
        let start = || if all { KnownConstraints::default() } else { KnownConstraints::of_values() };
        let alone = fails(&mut start(), part);
        let beside = checked.iter().take(index).zip(parts).find(|(other, _)| {
            let mut known = start();
            other.as_ref().is_some_and(|other| !fails(&mut known, other) && fails(&mut known, part))
        });
        let help = match beside {
            _ if alone => "no value makes it so".to_owned(),
            Some((_, other)) if all => format!("not beside `{}`", self.text_of(&other.range)),
            Some((_, other)) => {
                format!(
                    "`{}` holds wherever it does not; `has(...)` asks if there is a value",
                    self.text_of(&other.range)
                )
            }
            None if all => "not beside the parts before it".to_owned(),
            None => {
                "a part before it holds wherever it does not; `has(...)` asks if there is a value".to_owned()
            }
        };
        let (message, range) =
            if all { ("this is never true", &node.range) } else { ("this is always true", range) };
        self.report(Diagnostic::new(message, range.clone()).help(help));
    }

    // Names.

    fn fact(&mut self, name: &str, range: &Range<usize>) -> Option<TypedExpr> {
        let fact = if name == "now" { "event.time" } else { name };
        let Some((slot, kind)) = self.scope.fact(fact) else {
            if self.scope.is_kind(name) {
                let message = format!("`{name}` is a kind of keys, not a value");
                return self.fail(range, message, format!("read a counter of it: `{name}.seen('1h')`"));
            }
            if name == "now" {
                return self.fail(range, "`now` is not known here", "it is the fact `event.time`");
            }
            if self.context.library.set(name).is_some() {
                let help = format!("seek a value in it: `mail.from in {name}`");
                return self.fail(range, format!("`{name}` is a set, not a value"), help);
            }
            if self.context.library.table(name).is_some() {
                let help = format!("look a value up in it: `lookup('{name}', mail.from)`");
                return self.fail(range, format!("`{name}` is a table, not a value"), help);
            }
            let mut names = self.scope.names(NameCategory::Fact);
            names.extend(self.scope.names(NameCategory::Kind));
            names.extend(self.context.library.names().map(str::to_owned));
            names.push("now".to_owned());
            let model = name.strip_prefix("model.").filter(|model| self.scope.model(model).is_some());
            let help = match model {
                Some(model) => Some(format!("write `model('{model}')`")),
                None => did_you_mean(name, names),
            };
            self.report(Diagnostic::new(format!("unknown name `{name}`"), range.clone()).maybe_help(help));
            return None;
        };
        self.read(slot, name.to_owned(), false);
        let expr = match kind {
            Type::String => TypedExpr::String(StrExpr::Fact(slot)),
            Type::Integer => TypedExpr::Integer(IntExpr::Fact(slot)),
            Type::Float => TypedExpr::Float(FloatExpr::Fact(slot)),
            Type::Bool => TypedExpr::Bool(BoolExpr::Fact(slot)),
            Type::Time => TypedExpr::Time(IntExpr::Time(slot)),
            Type::Ip => TypedExpr::Ip(IpExpr::Fact(slot)),
            Type::Bytes => TypedExpr::Bytes(slot),
            Type::List => TypedExpr::List(ListExpr::Fact(slot)),
        };
        Some(expr)
    }

    // Operators.

    fn compare(
        &mut self,
        compare: CompareOperator,
        left: TypedExpr,
        right: TypedExpr,
        range: &Range<usize>,
    ) -> Option<TypedExpr> {
        let (kinds, constant) = ((left.kind(), right.kind()), left.is_constant() && right.is_constant());
        let same = left.column().is_some() && left.column() == right.column();
        let quoted = matches!(left, TypedExpr::String(StrExpr::Const(_)))
            || matches!(right, TypedExpr::String(StrExpr::Const(_)));
        let (one, other) = unify(left, right);
        let bounds = self.bounds_of(&one).into_iter().chain(self.bounds_of(&other)).collect::<Vec<_>>();
        let equality = matches!(compare, CompareOperator::Equal | CompareOperator::NotEqual);
        let truth = match (one, other) {
            (TypedExpr::Integer(IntExpr::Fact(slot)), TypedExpr::Integer(IntExpr::Const(constant)))
            | (TypedExpr::Duration(IntExpr::Fact(slot)), TypedExpr::Duration(IntExpr::Const(constant))) => {
                BoolExpr::IntIs(compare, slot, constant)
            }
            (TypedExpr::Integer(IntExpr::Const(constant)), TypedExpr::Integer(IntExpr::Fact(slot)))
            | (TypedExpr::Duration(IntExpr::Const(constant)), TypedExpr::Duration(IntExpr::Fact(slot))) => {
                BoolExpr::IntIs(compare.mirrored(), slot, constant)
            }
            (TypedExpr::Integer(one), TypedExpr::Integer(other))
            | (TypedExpr::Time(one), TypedExpr::Time(other))
            | (TypedExpr::Duration(one), TypedExpr::Duration(other)) => BoolExpr::Ints(compare, one, other),
            (TypedExpr::Float(FloatExpr::Fact(slot)), TypedExpr::Float(FloatExpr::Const(constant))) => {
                BoolExpr::FloatIs(compare, slot, constant)
            }
            (TypedExpr::Float(FloatExpr::Const(constant)), TypedExpr::Float(FloatExpr::Fact(slot))) => {
                BoolExpr::FloatIs(compare.mirrored(), slot, constant)
            }
            (TypedExpr::Float(one), TypedExpr::Float(other)) => BoolExpr::Floats(compare, one, other),
            (TypedExpr::String(one), TypedExpr::String(other)) => {
                self.spend(1);
                for (text, word) in [(&one, &other), (&other, &one)] {
                    if let StrExpr::Const(word) = word {
                        self.check_grades(text, [&**word], range)?;
                        if !equality && self.is_grade(text) {
                            let help =
                                "list those that are meant: `grade('account') in ['bad', 'suspicious']`";
                            return self.fail(range, "grades have no order here", help);
                        }
                    }
                }
                BoolExpr::Strs(compare, one, other)
            }
            (TypedExpr::Bool(one), TypedExpr::Bool(other)) if equality => {
                BoolExpr::Bools(compare, pair(one, other))
            }
            (TypedExpr::Ip(one), TypedExpr::Ip(other)) if equality => BoolExpr::Ips(compare, one, other),
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
                if quoted
                    && [kinds.0, kinds.1]
                        .iter()
                        .any(|kind| matches!(kind, OperandType::Integer | OperandType::Float))
                {
                    return self.fail(range, message, "a number stands without quotes");
                }
                return self.mismatch(range, message, kinds.0, kinds.1);
            }
        };
        let learn = |truth_of| KnownConstraints::default().learn(&self.base, &truth, truth_of).is_ok();
        let always = match (constant, same) {
            (true, _) => truth.eval(&EvalEnv::empty()),
            (_, true) => Some(matches!(
                compare,
                CompareOperator::Equal | CompareOperator::LessOrEqual | CompareOperator::GreaterOrEqual
            )),
            _ => match (learn(true), learn(false)) {
                (true, false) => Some(true),
                (false, true) => Some(false),
                _ => None,
            },
        };
        let Some(result) = always else { return Some(TypedExpr::Bool(truth)) };
        let whole = [kinds.0, kinds.1].contains(&OperandType::Integer)
            && [kinds.0, kinds.1].contains(&OperandType::Float);
        let help = if constant {
            "both sides are constants".to_owned()
        } else if same {
            "both sides are the same; `has(...)` asks if there is a value".to_owned()
        } else if let Some(Interval { low, high, .. }) =
            bounds.iter().find(|side| side.low < side.high && side.high.is_finite())
        {
            format!("one side is from {low} to {high}")
        } else if whole && bounds.iter().any(|side| side.low == side.high && side.low.fract() != 0.0) {
            "an integer has no fraction".to_owned()
        } else {
            "counts, sizes, ages and ratios are never below 0; `has(...)` asks if there is one".to_owned()
        };
        self.fail(range, format!("this is always {result}"), help)
    }

    /// Between what a number or a time lies.
    fn bounds_of(&self, expr: &TypedExpr) -> Option<Interval> {
        match expr {
            TypedExpr::Integer(int) | TypedExpr::Time(int) | TypedExpr::Duration(int) => {
                Some(KnownConstraints::default().int(&self.base, int))
            }
            TypedExpr::Float(float) => Some(KnownConstraints::default().float(&self.base, float)),
            _ => None,
        }
    }

    fn arithmetic(
        &mut self,
        operator: ArithmeticOperator,
        left: TypedExpr,
        right: TypedExpr,
        range: &Range<usize>,
        divisor: &Range<usize>,
    ) -> Option<TypedExpr> {
        use ArithmeticOperator::{Add, Divide, Multiply, Remainder, Subtract};
        let kinds = (left.kind(), right.kind());
        let divides = matches!(operator, Divide | Remainder);
        let zero = matches!(right, TypedExpr::Integer(IntExpr::Const(0)))
            || matches!(right, TypedExpr::Float(FloatExpr::Const(float)) if float == 0.0);
        if divides && zero {
            return self.fail(divisor, "division by zero", "the result would always be missing");
        }
        let by = match &right {
            TypedExpr::Integer(integer) => Some(FloatExpr::from(integer.clone())),
            TypedExpr::Float(float) => Some(float.clone()),
            _ => None,
        };
        let (one, other) = unify(left, right);
        let expr = match (operator, one, other) {
            // Integers divide as floats do: `spam / seen` is meant as a share, not as 0 or 1.
            (Divide, TypedExpr::Integer(one), TypedExpr::Integer(other)) => {
                TypedExpr::Float(fold_float(FloatExpr::Quotient(pair(one.into(), other.into()))))
            }
            (operator, TypedExpr::Integer(one), TypedExpr::Integer(other)) => {
                TypedExpr::Integer(fold(match operator {
                    Add => IntExpr::Sum(pair(one, other)),
                    Subtract => IntExpr::Difference(pair(one, other)),
                    Multiply => IntExpr::Product(pair(one, other)),
                    Divide | Remainder => IntExpr::Remainder(pair(one, other)),
                }))
            }
            (Add, TypedExpr::Float(one), TypedExpr::Float(other)) => {
                TypedExpr::Float(fold_float(FloatExpr::Sum(pair(one, other))))
            }
            (Subtract, TypedExpr::Float(one), TypedExpr::Float(other)) => {
                TypedExpr::Float(fold_float(FloatExpr::Difference(pair(one, other))))
            }
            (Multiply, TypedExpr::Float(one), TypedExpr::Float(other)) => {
                TypedExpr::Float(fold_float(FloatExpr::Product(pair(one, other))))
            }
            (Divide, TypedExpr::Float(one), TypedExpr::Float(other)) => {
                TypedExpr::Float(fold_float(FloatExpr::Quotient(pair(one, other))))
            }
            (Add, TypedExpr::Time(one), TypedExpr::Duration(other))
            | (Add, TypedExpr::Duration(one), TypedExpr::Time(other)) => {
                TypedExpr::Time(fold(IntExpr::Sum(pair(one, other))))
            }
            (Subtract, TypedExpr::Time(one), TypedExpr::Duration(other)) => {
                TypedExpr::Time(fold(IntExpr::Difference(pair(one, other))))
            }
            (Subtract, TypedExpr::Time(one), TypedExpr::Time(other))
            | (Subtract, TypedExpr::Duration(one), TypedExpr::Duration(other)) => {
                TypedExpr::Duration(fold(IntExpr::Difference(pair(one, other))))
            }
            (Add, TypedExpr::Duration(one), TypedExpr::Duration(other)) => {
                TypedExpr::Duration(fold(IntExpr::Sum(pair(one, other))))
            }
            (Add, TypedExpr::String(one), TypedExpr::String(other)) => {
                self.spend(COST_MAKE);
                TypedExpr::String(StrExpr::Joined(pair(one, other)))
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
        if let Some(by) = by.filter(|_| divides) {
            self.divide_by(by, divisor);
        }
        Some(expr)
    }

    fn choice(
        &mut self,
        test: BoolExpr,
        yes: TypedExpr,
        no: TypedExpr,
        range: &Range<usize>,
    ) -> Option<TypedExpr> {
        let kinds = (yes.kind(), no.kind());
        Some(match unify(yes, no) {
            (TypedExpr::Bool(yes), TypedExpr::Bool(no)) => {
                TypedExpr::Bool(BoolExpr::If(Box::new((test, yes, no))))
            }
            (TypedExpr::Integer(yes), TypedExpr::Integer(no)) => {
                TypedExpr::Integer(IntExpr::If(Box::new((test, yes, no))))
            }
            (TypedExpr::Time(yes), TypedExpr::Time(no)) => {
                TypedExpr::Time(IntExpr::If(Box::new((test, yes, no))))
            }
            (TypedExpr::Duration(yes), TypedExpr::Duration(no)) => {
                TypedExpr::Duration(IntExpr::If(Box::new((test, yes, no))))
            }
            (TypedExpr::Float(yes), TypedExpr::Float(no)) => {
                TypedExpr::Float(FloatExpr::If(Box::new((test, yes, no))))
            }
            (TypedExpr::String(yes), TypedExpr::String(no)) => {
                TypedExpr::String(StrExpr::If(Box::new((test, yes, no))))
            }
            _ if kinds.0 == kinds.1 => {
                let message = format!("`?` does not choose between values of type {}", kinds.0.name());
                return self.mismatch(range, message, kinds.0, kinds.1);
            }
            _ => {
                let message = format!("`?` chooses between {} and {}", kinds.0.article(), kinds.1.article());
                let help = "both choices have one type";
                return self.fail(range, message, help);
            }
        })
    }
}
