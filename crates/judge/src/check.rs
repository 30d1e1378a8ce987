//! Checks a condition's tree against a scope and turns it into the form that is evaluated.
//!
//! Every operand has one type, known here; integers become floats where they meet one. A part that is wrong
//! is reported once and gives `None`, and its neighbours are still checked, so that one run finds all
//! mistakes. What bounds of values say of a condition is told, too: see [`crate::bounds`].

mod call;
mod membership;
mod reading;

use std::collections::HashMap;
use std::net::IpAddr;
use std::ops::Range;

use event::{Slot, Type};

use crate::Diagnostic;
use crate::action::Mode;
use crate::bounds::{Base, Interval, Known};
use crate::condition::{Condition, Read, Reference, Share};
use crate::diagnostic::{Severity, did_you_mean};
use crate::expr::{Bool, Env, Float, Int, Ip, Str, World};
use crate::library::Library;
use crate::outline::Outline;
use crate::scope::{Names, Scope};
use crate::syntax::{Arithmetic, Compare, Node, NodeKind, parse};
use crate::token::DIAGNOSTICS_MAX;

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

/// Functions: `name(...)`.
pub(crate) const FUNCTIONS: [&str; 17] = [
    "age",
    "distinct",
    "double",
    "duration",
    "estimated",
    "group",
    "has",
    "int",
    "model",
    "over",
    "rate",
    "ratio",
    "remaining",
    "rule",
    "size",
    "timestamp",
    "trend",
];

/// Methods of values: `value.name(...)`. A counter of such a name could not be read by rules, so engines
/// refuse to configure one, as they refuse [`crate::KIND_METHODS`].
pub const VALUE_METHODS: [&str; 15] = [
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
    "matches",
    "or",
    "size",
    "startsWith",
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
pub(crate) struct Context<'a> {
    pub(crate) library: &'a Library,
    /// Of a rule: the others, and whose results it sees.
    pub(crate) siblings: Option<(&'a Siblings, World)>,
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
    compile_in(source, Context { library, siblings: None }, scope)
}

/// Checks and compiles a condition that may refer to the rules of a set.
pub(crate) fn compile_in(
    source: &str,
    context: Context<'_>,
    scope: &mut dyn Scope,
) -> Result<Condition, Vec<Diagnostic>> {
    let (node, found) = parse(source)?;
    let node = context.library.expand(node).map_err(|diagnostic| vec![diagnostic])?;
    let mut checker = Checker::new(source, context, scope, found);
    let root = match checker.check(&node) {
        Some(Expr::Bool(root)) => Some(root),
        Some(other) => {
            let message = format!("a condition is true or false, this is {}", other.kind().article());
            checker.report(Diagnostic::new(message, node.range.clone()).help(match other {
                Expr::Integer(_) | Expr::Float(_) => "compare it, as in `... > 10`",
                Expr::Duration(_) => "compare it, as in `... < duration('1d')`",
                _ => "compare it, as in `... == 'a'`",
            }));
            None
        }
        None => None,
    };
    if let Some(Bool::Const(false)) = root {
        let help = "a rule rests with `mode = \"off\"`";
        checker.report(Diagnostic::new("this is never true", node.range.clone()).help(help));
    }
    let (found, Checker { reads, refers, cost, .. }) = checker.finish(node.range.clone());
    match root {
        Some(root) if found.iter().all(|found| found.severity == Severity::Warning) => {
            let outline = Outline::of(&node, &root, source);
            Ok(Condition::new(root, outline, reads, refers, cost, found))
        }
        _ => Err(found),
    }
}

/// Checks and compiles the share of its score that a rule adds.
pub(crate) fn compile_share(
    source: &str,
    context: Context<'_>,
    scope: &mut dyn Scope,
) -> Result<Share, Vec<Diagnostic>> {
    let (node, found) = parse(source)?;
    let node = context.library.expand(node).map_err(|diagnostic| vec![diagnostic])?;
    let mut checker = Checker::new(source, context, scope, found);
    let root = match checker.check(&node).map(Expr::promoted) {
        Some(Expr::Float(root)) => Some(root),
        Some(other) => {
            let message = format!("a share is a number from 0 to 1, this is {}", other.kind().article());
            checker.report(Diagnostic::new(message, node.range.clone()).help(match other {
                Expr::Bool(_) => "put it into `when`, or choose between two numbers with `... ? 1.0 : 0.5`",
                _ => "make a number of it, as in `size(mail.subject) / 100.0`",
            }));
            None
        }
        None => None,
    };
    if let Some(Float::Const(_)) = root {
        let help = "multiply the score by it and leave `share` out";
        checker.report(Diagnostic::new("this is always the same", node.range.clone()).help(help));
    }
    let (found, Checker { reads, refers, cost, .. }) = checker.finish(node.range.clone());
    match root {
        Some(root) if found.iter().all(|found| found.severity == Severity::Warning) => {
            Ok(Share::new(root, reads, refers, cost, found))
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
    let context = Context { library: &library, siblings: None };
    operand(source, context, scope).map(|(slot, kind, _)| (slot, kind)).map_err(|found| {
        let first = found.into_iter().find(|found| found.severity == Severity::Error);
        first.unwrap_or_else(|| Diagnostic::new("this is no reading", 0..source.len()))
    })
}

/// The column that a fact or a reading is in, its type and whether it is a length of time.
pub(crate) fn operand(
    source: &str,
    context: Context<'_>,
    scope: &mut dyn Scope,
) -> Result<(Slot, Type, bool), Vec<Diagnostic>> {
    let (node, found) = parse(source)?;
    let mut checker = Checker::new(source, context, scope, found);
    let column = checker.check(&node).map(|expr| match expr {
        Expr::Duration(Int::Fact(slot)) => Some((slot, Type::Integer, true)),
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
    node: &Node,
    context: Context<'_>,
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

    /// The column that it is, where it is one and no more.
    fn column(&self) -> Option<(Slot, Type)> {
        Some(match self {
            Expr::Bool(Bool::Fact(slot)) => (*slot, Type::Bool),
            Expr::Integer(Int::Fact(slot)) | Expr::Duration(Int::Fact(slot)) => (*slot, Type::Integer),
            Expr::Float(Float::Fact(slot)) => (*slot, Type::Float),
            Expr::String(Str::Fact(slot)) => (*slot, Type::String),
            Expr::Time(Int::Time(slot)) => (*slot, Type::Time),
            Expr::Ip(Ip::Fact(slot)) => (*slot, Type::Ip),
            Expr::List(slot) => (*slot, Type::List),
            Expr::Bytes(slot) => (*slot, Type::Bytes),
            _ => return None,
        })
    }

    /// A number as a float; any other as it is.
    fn promoted(self) -> Expr {
        match self {
            Expr::Integer(integer) => Expr::Float(integer.into()),
            other => other,
        }
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

/// The way to bring two unlike types together, where it is known.
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
    match expr.eval(Env::empty()) {
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
    match expr.eval(Env::empty()) {
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

/// A division whose divisor may be zero, for all that is known so far.
struct Division {
    divisor: Float,
    range: Range<usize>,
    /// The bounds of numbers by the parts beside it.
    known: Known,
}

struct Checker<'a> {
    source: &'a str,
    context: Context<'a>,
    scope: &'a mut dyn Scope,
    found: Vec<Diagnostic>,
    reads: Vec<Read>,
    refers: Vec<(Reference, Range<usize>)>,
    base: Base,
    divisions: Vec<Division>,
    cost: u32,
    /// True if an expression is checked by itself: rules may be named that are not known yet.
    in_expression: bool,
    /// Readings are asked for their quality instead of their value.
    quality: bool,
}

impl<'a> Checker<'a> {
    fn new(
        source: &'a str,
        context: Context<'a>,
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
            base: Base { groups, ..Base::default() },
            divisions: Vec::new(),
            cost: 0,
            in_expression: false,
            quality: false,
        }
    }

    /// The rules beside this one; the inner `None` for an expression that is checked by itself.
    fn siblings(&mut self, node: &Node) -> Option<Option<(&'a Siblings, World)>> {
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

    fn mismatch<T>(&mut self, range: &Range<usize>, what: String, left: Kind, right: Kind) -> Option<T> {
        let help = mismatch_help(left, right).map(str::to_owned);
        self.report(Diagnostic::new(what, range.clone()).maybe_help(help));
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
    fn discharge(&mut self, start: usize, known: &Known) {
        let divisions = self.divisions.split_off(start);
        for mut division in divisions {
            division.known = division.known.with_numbers_of(known);
            if division.known.float(&self.base, &division.divisor).has_zero() {
                self.divisions.push(division);
            }
        }
    }

    /// A divisor that could be zero is kept in mind: it may turn out that it is not where it matters.
    fn divide_by(&mut self, divisor: Float, range: &Range<usize>) {
        let division = Division { divisor, range: range.clone(), known: Known::default() };
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

    fn check(&mut self, node: &Node) -> Option<Expr> {
        self.spend(1);
        if self.cost > COST_MAX {
            // Reported once, at the end.
            return None;
        }
        let range = &node.range;
        match &node.kind {
            NodeKind::Refused => None,
            NodeKind::Text(text) => Some(Expr::String(Str::Const(text.as_str().into()))),
            NodeKind::Integer(integer) => Some(Expr::Integer(Int::Const(*integer))),
            NodeKind::Float(float) => Some(Expr::Float(Float::Const(*float))),
            NodeKind::Bool(truth) => Some(Expr::Bool(Bool::Const(*truth))),
            NodeKind::Name(name) => self.fact(name, range),
            NodeKind::List(_) => {
                let help = "a list of constants stands to the right of `in`";
                self.fail(range, "a list has no place here", help)
            }
            NodeKind::Not(operand) => {
                let truth = self.bool(operand, "`!`")?;
                Some(Expr::Bool(Bool::Not(Box::new(truth))))
            }
            NodeKind::All(parts) => self.junction(parts, true, range),
            NodeKind::Any(parts) => self.junction(parts, false, range),
            NodeKind::Negate(operand) => {
                let checked = self.check(operand)?;
                let kind = checked.kind();
                Some(match checked {
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
                })
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
            NodeKind::Call(call) => match &call.target {
                None => self.function(call, range),
                Some(target) => self.method(call, target, range),
            },
        }
    }

    /// Lets go of the divisions from `start` on that cannot be by zero where a test is true, or false.
    fn discharge_where(&mut self, start: usize, test: &Bool, truth: bool) {
        let mut known = Known::default();
        if known.learn(&self.base, test, truth).is_ok() {
            self.discharge(start, &known);
        }
    }

    fn bool(&mut self, node: &Node, operator: &str) -> Option<Bool> {
        match self.check(node)? {
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

    /// Parts side by side, all of which (`&&`) or one of which (`||`) must hold.
    fn junction(&mut self, parts: &[Node], all: bool, range: &Range<usize>) -> Option<Expr> {
        let before = self.divisions.len();
        let operator = if all { "`&&`" } else { "`||`" };
        let checked: Vec<Option<Bool>> = parts.iter().map(|part| self.bool(part, operator)).collect();
        // A part decides unless all others are true (`&&`) or false (`||`): what that says of numbers can be
        // relied on, whichever side it stands on.
        let start = || if all { Known::default() } else { Known::of_values() };
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
        let checked: Box<[Bool]> = checked.into_iter().collect::<Option<_>>()?;
        contradicted.is_none().then_some(Expr::Bool(if all {
            Bool::All(checked)
        } else {
            Bool::Any(checked)
        }))
    }

    /// Says that `parts[index]` cannot hold (`&&`) or cannot fail (`||`) beside those before it.
    fn report_contradiction(
        &mut self,
        parts: &[Node],
        checked: &[Option<Bool>],
        index: usize,
        all: bool,
        range: &Range<usize>,
    ) {
        let (Some(Some(part)), Some(node)) = (checked.get(index), parts.get(index)) else { return };
        let fails = |known: &mut Known, other: &Bool| known.learn(&self.base, other, all).is_err();
        let start = || if all { Known::default() } else { Known::of_values() };
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

    fn fact(&mut self, name: &str, range: &Range<usize>) -> Option<Expr> {
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
            let mut names = self.scope.names(Names::Fact);
            names.extend(self.scope.names(Names::Kind));
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
            Type::String => Expr::String(Str::Fact(slot)),
            Type::Integer => Expr::Integer(Int::Fact(slot)),
            Type::Float => Expr::Float(Float::Fact(slot)),
            Type::Bool => Expr::Bool(Bool::Fact(slot)),
            Type::Time => Expr::Time(Int::Time(slot)),
            Type::Ip => Expr::Ip(Ip::Fact(slot)),
            Type::Bytes => Expr::Bytes(slot),
            Type::List => Expr::List(slot),
        };
        Some(expr)
    }

    // Operators.

    fn compare(&mut self, compare: Compare, left: Expr, right: Expr, range: &Range<usize>) -> Option<Expr> {
        let (kinds, constant) = ((left.kind(), right.kind()), left.is_constant() && right.is_constant());
        let same = left.column().is_some() && left.column() == right.column();
        let quoted =
            matches!(left, Expr::String(Str::Const(_))) || matches!(right, Expr::String(Str::Const(_)));
        let (one, other) = unify(left, right);
        let bounds = self.bounds_of(&one).into_iter().chain(self.bounds_of(&other)).collect::<Vec<_>>();
        let equality = matches!(compare, Compare::Equal | Compare::NotEqual);
        let truth = match (one, other) {
            (Expr::Integer(Int::Fact(slot)), Expr::Integer(Int::Const(constant)))
            | (Expr::Duration(Int::Fact(slot)), Expr::Duration(Int::Const(constant))) => {
                Bool::IntIs(compare, slot, constant)
            }
            (Expr::Integer(Int::Const(constant)), Expr::Integer(Int::Fact(slot)))
            | (Expr::Duration(Int::Const(constant)), Expr::Duration(Int::Fact(slot))) => {
                Bool::IntIs(compare.mirrored(), slot, constant)
            }
            (Expr::Integer(one), Expr::Integer(other))
            | (Expr::Time(one), Expr::Time(other))
            | (Expr::Duration(one), Expr::Duration(other)) => Bool::Ints(compare, one, other),
            (Expr::Float(Float::Fact(slot)), Expr::Float(Float::Const(constant))) => {
                Bool::FloatIs(compare, slot, constant)
            }
            (Expr::Float(Float::Const(constant)), Expr::Float(Float::Fact(slot))) => {
                Bool::FloatIs(compare.mirrored(), slot, constant)
            }
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
        let learn = |truth_of| Known::default().learn(&self.base, &truth, truth_of).is_ok();
        let always = match (constant, same) {
            (true, _) => truth.eval(Env::empty()),
            (_, true) => {
                Some(matches!(compare, Compare::Equal | Compare::LessOrEqual | Compare::GreaterOrEqual))
            }
            _ => match (learn(true), learn(false)) {
                (true, false) => Some(true),
                (false, true) => Some(false),
                _ => None,
            },
        };
        let Some(result) = always else { return Some(Expr::Bool(truth)) };
        let whole = [kinds.0, kinds.1].contains(&Kind::Integer) && [kinds.0, kinds.1].contains(&Kind::Float);
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
    fn bounds_of(&self, expr: &Expr) -> Option<Interval> {
        match expr {
            Expr::Integer(int) | Expr::Time(int) | Expr::Duration(int) => {
                Some(Known::default().int(&self.base, int))
            }
            Expr::Float(float) => Some(Known::default().float(&self.base, float)),
            _ => None,
        }
    }

    fn arithmetic(
        &mut self,
        operator: Arithmetic,
        left: Expr,
        right: Expr,
        range: &Range<usize>,
        divisor: &Range<usize>,
    ) -> Option<Expr> {
        use Arithmetic::{Add, Divide, Multiply, Remainder, Subtract};
        let kinds = (left.kind(), right.kind());
        let divides = matches!(operator, Divide | Remainder);
        let zero = matches!(right, Expr::Integer(Int::Const(0)))
            || matches!(right, Expr::Float(Float::Const(float)) if float == 0.0);
        if divides && zero {
            return self.fail(divisor, "division by zero", "the result would always be missing");
        }
        let by = match &right {
            Expr::Integer(integer) => Some(Float::from(integer.clone())),
            Expr::Float(float) => Some(float.clone()),
            _ => None,
        };
        let (one, other) = unify(left, right);
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
        if let Some(by) = by.filter(|_| divides) {
            self.divide_by(by, divisor);
        }
        Some(expr)
    }

    fn choice(&mut self, test: Bool, yes: Expr, no: Expr, range: &Range<usize>) -> Option<Expr> {
        let kinds = (yes.kind(), no.kind());
        Some(match unify(yes, no) {
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
        })
    }
}
