//! A checked condition in the form in which it is evaluated: one small tree per type, leaves that name slots.
//!
//! Evaluation is total and three-valued: `None` is missing. It allocates nothing but what the regex crate
//! caches per thread. Integers saturate; a float that is not finite is missing. Depth was bounded when it was
//! built.

use std::net::IpAddr;
use std::sync::Arc;

use event::{Facts, Slot, Type, Value};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use regex::Regex;

use crate::set::{Networks, Set};
use crate::syntax::CompareOperator;

/// The environment of a condition: a row, and what the rules before it in their set have given.
#[derive(Clone, Copy)]
pub(crate) struct EvalEnv<'a> {
    values: &'a [Option<Value>],
    results: &'a RuleResults,
}

/// Results of the rules of a set so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct RuleResults {
    /// For each rule the bits of [`World`] in which it fired.
    pub(crate) fired: Vec<u8>,
    /// For each group what its rules add to the score, within its bounds, in either world.
    pub(crate) groups: Vec<[f64; 2]>,
}

/// Rules in shadow see each other and the enforced ones; enforced rules never see those in shadow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ResultView {
    /// Of the enforced rules.
    Live = 0,
    /// Of those in shadow, too.
    Trial = 1,
}

impl ResultView {
    /// Its bit in [`Results::fired`].
    pub(crate) const fn bit(self) -> u8 {
        1 << self as u8
    }
}

/// Of a condition that refers to no rule.
static NO_RESULTS: RuleResults = RuleResults { fired: Vec::new(), groups: Vec::new() };

impl<'a> EvalEnv<'a> {
    pub(crate) fn new(row: &'a Facts, results: &'a RuleResults) -> EvalEnv<'a> {
        EvalEnv { values: row.values(), results }
    }

    /// A row by itself.
    pub(crate) fn of(row: &'a Facts) -> EvalEnv<'a> {
        EvalEnv::new(row, &NO_RESULTS)
    }

    /// Nothing: for what reads nothing.
    pub(crate) fn empty() -> EvalEnv<'static> {
        EvalEnv { values: &[], results: &NO_RESULTS }
    }

    #[inline]
    fn get(self, slot: Slot) -> Option<&'a Value> {
        self.values.get(usize::from(slot.0))?.as_ref()
    }

    #[inline]
    fn integer(self, slot: Slot) -> Option<i64> {
        match self.get(slot) {
            Some(Value::Integer(integer)) => Some(*integer),
            _ => None,
        }
    }

    #[inline]
    fn float(self, slot: Slot) -> Option<f64> {
        match self.get(slot) {
            Some(Value::Float(float)) => finite(*float),
            _ => None,
        }
    }
}

/// Integers, points in time and lengths of time (both in microseconds): the checker keeps them apart.
#[derive(Clone, Debug)]
pub(crate) enum IntExpr {
    Const(i64),
    Fact(Slot),
    Time(Slot),
    Sum(Box<(IntExpr, IntExpr)>),
    Difference(Box<(IntExpr, IntExpr)>),
    Product(Box<(IntExpr, IntExpr)>),
    Remainder(Box<(IntExpr, IntExpr)>),
    /// Characters of a text.
    Chars(Box<StrExpr>),
    /// Items of a list, or bytes.
    Items(Slot),
    /// The whole part of a float.
    Whole(Box<FloatExpr>),
    /// The part of a clock in a zone at a point in time.
    Clock(Box<(IntExpr, ZonedClock)>),
    If(Box<(BoolExpr, IntExpr, IntExpr)>),
    Default(Box<(IntExpr, IntExpr)>),
}

/// A part of what a clock shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClockPart {
    Year,
    /// From 0.
    Month,
    /// Day of the month, from 1.
    Date,
    /// Day of the month, from 0.
    DayOfMonth,
    /// From 0, Sunday.
    DayOfWeek,
    /// From 0.
    DayOfYear,
    Hours,
    Minutes,
    Seconds,
}

#[derive(Clone, Debug)]
pub(crate) struct ZonedClock {
    pub(crate) part: ClockPart,
    pub(crate) zone: TimeZone,
}

#[derive(Clone, Debug)]
pub(crate) enum FloatExpr {
    Const(f64),
    Fact(Slot),
    /// An integer fact, read as a float.
    Integer(Slot),
    Promoted(Box<IntExpr>),
    Sum(Box<(FloatExpr, FloatExpr)>),
    Difference(Box<(FloatExpr, FloatExpr)>),
    Product(Box<(FloatExpr, FloatExpr)>),
    Quotient(Box<(FloatExpr, FloatExpr)>),
    /// The sum that a group of rules adds to the score.
    Group(u32, ResultView),
    If(Box<(BoolExpr, FloatExpr, FloatExpr)>),
    Default(Box<(FloatExpr, FloatExpr)>),
}

#[derive(Clone, Debug)]
pub(crate) enum StrExpr {
    Const(Box<str>),
    Fact(Slot),
    If(Box<(BoolExpr, StrExpr, StrExpr)>),
    Default(Box<(StrExpr, StrExpr)>),
}

#[derive(Clone, Debug)]
pub(crate) enum IpExpr {
    Const(IpAddr),
    Fact(Slot),
}

/// Where a text is sought in another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SubstringPosition {
    Anywhere,
    Start,
    End,
}

#[derive(Clone, Debug)]
pub(crate) enum BoolExpr {
    Const(bool),
    Fact(Slot),
    Has(Slot, Type),
    Not(Box<BoolExpr>),
    All(Box<[BoolExpr]>),
    Any(Box<[BoolExpr]>),
    /// An integer fact beside a constant: most of what rules ask.
    IntIs(CompareOperator, Slot, i64),
    Ints(CompareOperator, IntExpr, IntExpr),
    /// A float fact beside a constant.
    FloatIs(CompareOperator, Slot, f64),
    Floats(CompareOperator, FloatExpr, FloatExpr),
    Strs(CompareOperator, StrExpr, StrExpr),
    Bools(CompareOperator, Box<(BoolExpr, BoolExpr)>),
    Ips(CompareOperator, IpExpr, IpExpr),
    Contains(SubstringPosition, StrExpr, StrExpr),
    Matches(StrExpr, Box<Regex>),
    /// The constants are sorted.
    IntIn(IntExpr, Box<[i64]>),
    /// The constants are sorted by their total order.
    FloatIn(FloatExpr, Box<[f64]>),
    /// The constants are sorted.
    StrIn(StrExpr, Box<[Box<str>]>),
    IpIn(IpExpr, Networks),
    IntInSet(IntExpr, Arc<Set>),
    StrInSet(StrExpr, Arc<Set>),
    IpInSet(IpExpr, Arc<Set>),
    ListHas(StrExpr, Slot),
    /// True if an item of a list is in a set.
    ListMeets(Slot, Arc<Set>),
    /// True if a rule fired.
    Fired(u32, ResultView),
    If(Box<(BoolExpr, BoolExpr, BoolExpr)>),
    Default(Box<(BoolExpr, BoolExpr)>),
}

impl IntExpr {
    pub(crate) fn eval(&self, env: EvalEnv<'_>) -> Option<i64> {
        match self {
            IntExpr::Const(integer) => Some(*integer),
            IntExpr::Fact(slot) => env.integer(*slot),
            IntExpr::Time(slot) => match env.get(*slot) {
                Some(Value::Time(time)) => Some(time.0),
                _ => None,
            },
            IntExpr::Sum(sides) => Some(sides.0.eval(env)?.saturating_add(sides.1.eval(env)?)),
            IntExpr::Difference(sides) => Some(sides.0.eval(env)?.saturating_sub(sides.1.eval(env)?)),
            IntExpr::Product(sides) => Some(sides.0.eval(env)?.saturating_mul(sides.1.eval(env)?)),
            IntExpr::Remainder(sides) => match (sides.0.eval(env)?, sides.1.eval(env)?) {
                (_, 0) => None,
                (left, right) => Some(left.wrapping_rem(right)),
            },
            IntExpr::Chars(text) => i64::try_from(text.eval(env)?.chars().count()).ok(),
            IntExpr::Items(slot) => match env.get(*slot)? {
                Value::List(items) => i64::try_from(items.len()).ok(),
                Value::Bytes(bytes) => i64::try_from(bytes.len()).ok(),
                _ => None,
            },
            // A float beyond the integers saturates.
            IntExpr::Whole(float) => Some(float.eval(env)? as i64),
            IntExpr::Clock(of) => of.1.at(of.0.eval(env)?),
            IntExpr::If(branches) => {
                if branches.0.eval(env)? {
                    branches.1.eval(env)
                } else {
                    branches.2.eval(env)
                }
            }
            IntExpr::Default(sides) => sides.0.eval(env).or_else(|| sides.1.eval(env)),
        }
    }
}

impl FloatExpr {
    pub(crate) fn eval(&self, env: EvalEnv<'_>) -> Option<f64> {
        match self {
            FloatExpr::Const(float) => Some(*float),
            FloatExpr::Fact(slot) => env.float(*slot),
            FloatExpr::Integer(slot) => env.integer(*slot).map(|integer| integer as f64),
            FloatExpr::Promoted(integer) => Some(integer.eval(env)? as f64),
            FloatExpr::Sum(sides) => finite(sides.0.eval(env)? + sides.1.eval(env)?),
            FloatExpr::Difference(sides) => finite(sides.0.eval(env)? - sides.1.eval(env)?),
            FloatExpr::Product(sides) => finite(sides.0.eval(env)? * sides.1.eval(env)?),
            FloatExpr::Quotient(sides) => finite(sides.0.eval(env)? / sides.1.eval(env)?),
            FloatExpr::Group(group, world) => {
                env.results.groups.get(*group as usize).map(|scores| scores[*world as usize])
            }
            FloatExpr::If(branches) => {
                if branches.0.eval(env)? {
                    branches.1.eval(env)
                } else {
                    branches.2.eval(env)
                }
            }
            FloatExpr::Default(sides) => sides.0.eval(env).or_else(|| sides.1.eval(env)),
        }
    }
}

impl From<IntExpr> for FloatExpr {
    fn from(integer: IntExpr) -> FloatExpr {
        match integer {
            IntExpr::Const(integer) => FloatExpr::Const(integer as f64),
            IntExpr::Fact(slot) => FloatExpr::Integer(slot),
            other => FloatExpr::Promoted(Box::new(other)),
        }
    }
}

impl StrExpr {
    pub(crate) fn eval<'a>(&'a self, env: EvalEnv<'a>) -> Option<&'a str> {
        match self {
            StrExpr::Const(text) => Some(text),
            StrExpr::Fact(slot) => env.get(*slot)?.as_str(),
            StrExpr::If(branches) => {
                if branches.0.eval(env)? {
                    branches.1.eval(env)
                } else {
                    branches.2.eval(env)
                }
            }
            StrExpr::Default(sides) => sides.0.eval(env).or_else(|| sides.1.eval(env)),
        }
    }
}

impl IpExpr {
    fn eval(&self, env: EvalEnv<'_>) -> Option<IpAddr> {
        match self {
            IpExpr::Const(ip) => Some(*ip),
            IpExpr::Fact(slot) => match env.get(*slot) {
                Some(Value::Ip(ip)) => Some(ip.to_canonical()),
                _ => None,
            },
        }
    }
}

impl BoolExpr {
    pub(crate) fn eval(&self, env: EvalEnv<'_>) -> Option<bool> {
        match self {
            BoolExpr::Const(truth) => Some(*truth),
            BoolExpr::Fact(slot) => match env.get(*slot) {
                Some(Value::Bool(truth)) => Some(*truth),
                _ => None,
            },
            BoolExpr::Has(slot, Type::Float) => Some(env.float(*slot).is_some()),
            BoolExpr::Has(slot, kind) => Some(env.get(*slot).is_some_and(|value| value.type_of() == *kind)),
            BoolExpr::Not(truth) => truth.eval(env).map(|truth| !truth),
            BoolExpr::All(parts) => junction(parts, env, false),
            BoolExpr::Any(parts) => junction(parts, env, true),
            BoolExpr::IntIs(compare, slot, constant) => Some(compare.holds(&env.integer(*slot)?, constant)),
            BoolExpr::FloatIs(compare, slot, constant) => Some(compare.holds(&env.float(*slot)?, constant)),
            BoolExpr::Ints(compare, left, right) => Some(compare.holds(&left.eval(env)?, &right.eval(env)?)),
            BoolExpr::Floats(compare, left, right) => {
                Some(compare.holds(&left.eval(env)?, &right.eval(env)?))
            }
            BoolExpr::Strs(compare, left, right) => Some(compare.holds(left.eval(env)?, right.eval(env)?)),
            BoolExpr::Bools(compare, sides) => Some(compare.holds(&sides.0.eval(env)?, &sides.1.eval(env)?)),
            BoolExpr::Ips(compare, left, right) => Some(compare.holds(&left.eval(env)?, &right.eval(env)?)),
            BoolExpr::Contains(place, text, sought) => {
                let (text, sought) = (text.eval(env)?, sought.eval(env)?);
                Some(match place {
                    SubstringPosition::Anywhere => text.contains(sought),
                    SubstringPosition::Start => text.starts_with(sought),
                    SubstringPosition::End => text.ends_with(sought),
                })
            }
            BoolExpr::Matches(text, regex) => Some(regex.is_match(text.eval(env)?)),
            BoolExpr::IntIn(integer, of) => Some(of.binary_search(&integer.eval(env)?).is_ok()),
            BoolExpr::FloatIn(float, of) => {
                // Adding zero turns -0 into 0, which the total order tells apart.
                let float = float.eval(env)? + 0.0;
                Some(of.binary_search_by(|probe| probe.total_cmp(&float)).is_ok())
            }
            BoolExpr::StrIn(text, of) => {
                let text = text.eval(env)?;
                Some(of.binary_search_by(|probe| (**probe).cmp(text)).is_ok())
            }
            BoolExpr::IpIn(ip, of) => Some(of.contain(ip.eval(env)?)),
            BoolExpr::IntInSet(integer, set) => Some(set.has_integer(integer.eval(env)?)),
            BoolExpr::StrInSet(text, set) => Some(set.has_str(text.eval(env)?)),
            BoolExpr::IpInSet(ip, set) => Some(set.has_ip(ip.eval(env)?)),
            BoolExpr::ListHas(text, slot) => {
                let (text, items) = (text.eval(env)?, env.get(*slot)?.as_list()?);
                Some(items.iter().any(|item| **item == *text))
            }
            BoolExpr::ListMeets(slot, set) => {
                Some(env.get(*slot)?.as_list()?.iter().any(|item| set.has_str(item)))
            }
            BoolExpr::Fired(rule, world) => {
                Some(env.results.fired.get(*rule as usize).is_some_and(|worlds| worlds & world.bit() != 0))
            }
            BoolExpr::If(branches) => {
                if branches.0.eval(env)? {
                    branches.1.eval(env)
                } else {
                    branches.2.eval(env)
                }
            }
            BoolExpr::Default(sides) => sides.0.eval(env).or_else(|| sides.1.eval(env)),
        }
    }
}

/// Kleene's conjunction (`decides` false) or disjunction (`decides` true): one deciding part settles it,
/// otherwise one missing part makes it missing.
fn junction(parts: &[BoolExpr], env: EvalEnv<'_>, decides: bool) -> Option<bool> {
    let mut missing = false;
    for part in parts {
        match part.eval(env) {
            Some(truth) if truth == decides => return Some(decides),
            Some(_) => {}
            None => missing = true,
        }
    }
    if missing { None } else { Some(!decides) }
}

/// Division by zero and overflow are missing.
fn finite(float: f64) -> Option<f64> {
    float.is_finite().then_some(float)
}

impl CompareOperator {
    #[inline]
    fn holds<T: PartialOrd + ?Sized>(self, left: &T, right: &T) -> bool {
        match self {
            CompareOperator::Equal => left == right,
            CompareOperator::NotEqual => left != right,
            CompareOperator::Less => left < right,
            CompareOperator::LessOrEqual => left <= right,
            CompareOperator::Greater => left > right,
            CompareOperator::GreaterOrEqual => left >= right,
        }
    }
}

impl ZonedClock {
    /// Returns what it shows; `None` beyond the year 9999, where no calendar is agreed on.
    pub(crate) fn at(&self, micros: i64) -> Option<i64> {
        let shown = self.zone.to_datetime(Timestamp::from_microsecond(micros).ok()?);
        Some(match self.part {
            ClockPart::Year => i64::from(shown.year()),
            ClockPart::Month => i64::from(shown.month()) - 1,
            ClockPart::Date => i64::from(shown.day()),
            ClockPart::DayOfMonth => i64::from(shown.day()) - 1,
            ClockPart::DayOfWeek => i64::from(shown.weekday().to_sunday_zero_offset()),
            ClockPart::DayOfYear => i64::from(shown.day_of_year()) - 1,
            ClockPart::Hours => i64::from(shown.hour()),
            ClockPart::Minutes => i64::from(shown.minute()),
            ClockPart::Seconds => i64::from(shown.second()),
        })
    }
}
