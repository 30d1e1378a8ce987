//! A checked condition in the form in which it is evaluated: one small tree per type, leaves that name slots.
//!
//! Evaluation is total and three-valued: `None` is missing. It allocates nothing but what the regex crate
//! caches per thread. Integers saturate; a float that is not finite is missing. Depth was bounded when it was
//! built.

use std::cmp::Ordering;
use std::net::IpAddr;

use event::{Facts, Slot, Type, Value};
use regex::Regex;

use crate::syntax::Compare;

/// Integers, points in time and lengths of time (both in microseconds): the checker keeps them apart.
#[derive(Debug)]
pub(crate) enum Int {
    Const(i64),
    Fact(Slot),
    Time(Slot),
    Sum(Box<(Int, Int)>),
    Difference(Box<(Int, Int)>),
    Product(Box<(Int, Int)>),
    Remainder(Box<(Int, Int)>),
    /// Characters of a text.
    Chars(Box<Str>),
    /// Items of a list, or bytes.
    Items(Slot),
    /// The whole part of a float.
    Whole(Box<Float>),
    If(Box<(Bool, Int, Int)>),
    Default(Box<(Int, Int)>),
}

#[derive(Debug)]
pub(crate) enum Float {
    Const(f64),
    Fact(Slot),
    /// An integer fact, read as a float.
    Integer(Slot),
    Promoted(Box<Int>),
    Sum(Box<(Float, Float)>),
    Difference(Box<(Float, Float)>),
    Product(Box<(Float, Float)>),
    Quotient(Box<(Float, Float)>),
    If(Box<(Bool, Float, Float)>),
    Default(Box<(Float, Float)>),
}

#[derive(Debug)]
pub(crate) enum Str {
    Const(Box<str>),
    Fact(Slot),
    If(Box<(Bool, Str, Str)>),
    Default(Box<(Str, Str)>),
}

#[derive(Debug)]
pub(crate) enum Ip {
    Const(IpAddr),
    Fact(Slot),
}

/// Where a text is sought in another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Anywhere,
    Start,
    End,
}

#[derive(Debug)]
pub(crate) enum Bool {
    Const(bool),
    Fact(Slot),
    Has(Slot, Type),
    Not(Box<Bool>),
    All(Box<[Bool]>),
    Any(Box<[Bool]>),
    Ints(Compare, Int, Int),
    Floats(Compare, Float, Float),
    Strs(Compare, Str, Str),
    Bools(Compare, Box<(Bool, Bool)>),
    Ips(Compare, Ip, Ip),
    Contains(Place, Str, Str),
    Matches(Str, Box<Regex>),
    /// The constants are sorted.
    IntIn(Int, Box<[i64]>),
    /// The constants are sorted by their total order.
    FloatIn(Float, Box<[f64]>),
    /// The constants are sorted.
    StrIn(Str, Box<[Box<str>]>),
    /// The constants are sorted.
    IpIn(Ip, Box<[IpAddr]>),
    ListHas(Str, Slot),
    If(Box<(Bool, Bool, Bool)>),
    Default(Box<(Bool, Bool)>),
}

impl Int {
    pub(crate) fn eval(&self, row: &Facts) -> Option<i64> {
        match self {
            Int::Const(integer) => Some(*integer),
            Int::Fact(slot) => integer(row, *slot),
            Int::Time(slot) => match row.get(*slot) {
                Some(Value::Time(time)) => Some(time.0),
                _ => None,
            },
            Int::Sum(sides) => Some(sides.0.eval(row)?.saturating_add(sides.1.eval(row)?)),
            Int::Difference(sides) => Some(sides.0.eval(row)?.saturating_sub(sides.1.eval(row)?)),
            Int::Product(sides) => Some(sides.0.eval(row)?.saturating_mul(sides.1.eval(row)?)),
            Int::Remainder(sides) => match (sides.0.eval(row)?, sides.1.eval(row)?) {
                (_, 0) => None,
                (left, right) => Some(left.wrapping_rem(right)),
            },
            Int::Chars(text) => i64::try_from(text.eval(row)?.chars().count()).ok(),
            Int::Items(slot) => match row.get(*slot)? {
                Value::List(items) => i64::try_from(items.len()).ok(),
                Value::Bytes(bytes) => i64::try_from(bytes.len()).ok(),
                _ => None,
            },
            // A float beyond the integers saturates.
            Int::Whole(float) => Some(float.eval(row)? as i64),
            Int::If(branches) => {
                if branches.0.eval(row)? {
                    branches.1.eval(row)
                } else {
                    branches.2.eval(row)
                }
            }
            Int::Default(sides) => sides.0.eval(row).or_else(|| sides.1.eval(row)),
        }
    }
}

impl Float {
    pub(crate) fn eval(&self, row: &Facts) -> Option<f64> {
        match self {
            Float::Const(float) => Some(*float),
            Float::Fact(slot) => float(row, *slot),
            Float::Integer(slot) => integer(row, *slot).map(|integer| integer as f64),
            Float::Promoted(integer) => Some(integer.eval(row)? as f64),
            Float::Sum(sides) => finite(sides.0.eval(row)? + sides.1.eval(row)?),
            Float::Difference(sides) => finite(sides.0.eval(row)? - sides.1.eval(row)?),
            Float::Product(sides) => finite(sides.0.eval(row)? * sides.1.eval(row)?),
            Float::Quotient(sides) => finite(sides.0.eval(row)? / sides.1.eval(row)?),
            Float::If(branches) => {
                if branches.0.eval(row)? {
                    branches.1.eval(row)
                } else {
                    branches.2.eval(row)
                }
            }
            Float::Default(sides) => sides.0.eval(row).or_else(|| sides.1.eval(row)),
        }
    }
}

impl From<Int> for Float {
    fn from(integer: Int) -> Float {
        match integer {
            Int::Const(integer) => Float::Const(integer as f64),
            Int::Fact(slot) => Float::Integer(slot),
            other => Float::Promoted(Box::new(other)),
        }
    }
}

impl Str {
    pub(crate) fn eval<'a>(&'a self, row: &'a Facts) -> Option<&'a str> {
        match self {
            Str::Const(text) => Some(text),
            Str::Fact(slot) => row.get(*slot)?.as_str(),
            Str::If(branches) => {
                if branches.0.eval(row)? {
                    branches.1.eval(row)
                } else {
                    branches.2.eval(row)
                }
            }
            Str::Default(sides) => sides.0.eval(row).or_else(|| sides.1.eval(row)),
        }
    }
}

impl Ip {
    fn eval(&self, row: &Facts) -> Option<IpAddr> {
        match self {
            Ip::Const(ip) => Some(*ip),
            Ip::Fact(slot) => match row.get(*slot) {
                Some(Value::Ip(ip)) => Some(ip.to_canonical()),
                _ => None,
            },
        }
    }
}

impl Bool {
    pub(crate) fn eval(&self, row: &Facts) -> Option<bool> {
        match self {
            Bool::Const(truth) => Some(*truth),
            Bool::Fact(slot) => match row.get(*slot) {
                Some(Value::Bool(truth)) => Some(*truth),
                _ => None,
            },
            Bool::Has(slot, Type::Float) => Some(float(row, *slot).is_some()),
            Bool::Has(slot, kind) => Some(row.get(*slot).is_some_and(|value| value.type_of() == *kind)),
            Bool::Not(truth) => truth.eval(row).map(|truth| !truth),
            Bool::All(parts) => junction(parts, row, false),
            Bool::Any(parts) => junction(parts, row, true),
            Bool::Ints(compare, left, right) => Some(compare.holds(left.eval(row)?.cmp(&right.eval(row)?))),
            Bool::Floats(compare, left, right) => {
                Some(compare.holds(left.eval(row)?.partial_cmp(&right.eval(row)?)?))
            }
            Bool::Strs(compare, left, right) => Some(compare.holds(left.eval(row)?.cmp(right.eval(row)?))),
            Bool::Bools(compare, sides) => Some(compare.holds(sides.0.eval(row)?.cmp(&sides.1.eval(row)?))),
            Bool::Ips(compare, left, right) => Some(compare.holds(left.eval(row)?.cmp(&right.eval(row)?))),
            Bool::Contains(place, text, sought) => {
                let (text, sought) = (text.eval(row)?, sought.eval(row)?);
                Some(match place {
                    Place::Anywhere => text.contains(sought),
                    Place::Start => text.starts_with(sought),
                    Place::End => text.ends_with(sought),
                })
            }
            Bool::Matches(text, regex) => Some(regex.is_match(text.eval(row)?)),
            Bool::IntIn(integer, of) => Some(of.binary_search(&integer.eval(row)?).is_ok()),
            Bool::FloatIn(float, of) => {
                // Adding zero turns -0 into 0, which the total order tells apart.
                let float = float.eval(row)? + 0.0;
                Some(of.binary_search_by(|probe| probe.total_cmp(&float)).is_ok())
            }
            Bool::StrIn(text, of) => {
                let text = text.eval(row)?;
                Some(of.binary_search_by(|probe| (**probe).cmp(text)).is_ok())
            }
            Bool::IpIn(ip, of) => Some(of.binary_search(&ip.eval(row)?).is_ok()),
            Bool::ListHas(text, slot) => {
                let (text, items) = (text.eval(row)?, row.get(*slot)?.as_list()?);
                Some(items.iter().any(|item| **item == *text))
            }
            Bool::If(branches) => {
                if branches.0.eval(row)? {
                    branches.1.eval(row)
                } else {
                    branches.2.eval(row)
                }
            }
            Bool::Default(sides) => sides.0.eval(row).or_else(|| sides.1.eval(row)),
        }
    }
}

/// Kleene's conjunction (`decides` false) or disjunction (`decides` true): one deciding part settles it,
/// otherwise one missing part makes it missing.
fn junction(parts: &[Bool], row: &Facts, decides: bool) -> Option<bool> {
    let mut missing = false;
    for part in parts {
        match part.eval(row) {
            Some(truth) if truth == decides => return Some(decides),
            Some(_) => {}
            None => missing = true,
        }
    }
    if missing { None } else { Some(!decides) }
}

fn integer(row: &Facts, slot: Slot) -> Option<i64> {
    match row.get(slot) {
        Some(Value::Integer(integer)) => Some(*integer),
        _ => None,
    }
}

fn float(row: &Facts, slot: Slot) -> Option<f64> {
    match row.get(slot) {
        Some(Value::Float(float)) => finite(*float),
        _ => None,
    }
}

/// Division by zero and overflow are missing.
fn finite(float: f64) -> Option<f64> {
    float.is_finite().then_some(float)
}

impl Compare {
    fn holds(self, ordering: Ordering) -> bool {
        match self {
            Compare::Equal => ordering.is_eq(),
            Compare::NotEqual => ordering.is_ne(),
            Compare::Less => ordering.is_lt(),
            Compare::LessOrEqual => ordering.is_le(),
            Compare::Greater => ordering.is_gt(),
            Compare::GreaterOrEqual => ordering.is_ge(),
        }
    }
}
