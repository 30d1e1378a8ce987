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
use crate::syntax::Compare;

/// The environment of a condition: a row, and what the rules before it in their set have given.
#[derive(Clone, Copy)]
pub(crate) struct Env<'a> {
    values: &'a [Option<Value>],
    results: &'a Results,
}

/// Results of the rules of a set so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Results {
    /// For each rule the bits of [`World`] in which it fired.
    pub(crate) fired: Vec<u8>,
    /// For each group what its rules add to the score, within its bounds, in either world.
    pub(crate) groups: Vec<[f64; 2]>,
}

/// Rules in shadow see each other and the enforced ones; enforced rules never see those in shadow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum World {
    /// Of the enforced rules.
    Live = 0,
    /// Of those in shadow, too.
    Trial = 1,
}

impl World {
    /// Its bit in [`Results::fired`].
    pub(crate) const fn bit(self) -> u8 {
        1 << self as u8
    }
}

/// Of a condition that refers to no rule.
static NO_RESULTS: Results = Results { fired: Vec::new(), groups: Vec::new() };

impl<'a> Env<'a> {
    pub(crate) fn new(row: &'a Facts, results: &'a Results) -> Env<'a> {
        Env { values: row.values(), results }
    }

    /// A row by itself.
    pub(crate) fn of(row: &'a Facts) -> Env<'a> {
        Env::new(row, &NO_RESULTS)
    }

    /// Nothing: for what reads nothing.
    pub(crate) fn empty() -> Env<'static> {
        Env { values: &[], results: &NO_RESULTS }
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
    /// The part of a clock in a zone at a point in time.
    Clock(Box<(Int, Clock)>),
    If(Box<(Bool, Int, Int)>),
    Default(Box<(Int, Int)>),
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
pub(crate) struct Clock {
    pub(crate) part: ClockPart,
    pub(crate) zone: TimeZone,
}

#[derive(Clone, Debug)]
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
    /// The sum that a group of rules adds to the score.
    Group(u32, World),
    If(Box<(Bool, Float, Float)>),
    Default(Box<(Float, Float)>),
}

#[derive(Clone, Debug)]
pub(crate) enum Str {
    Const(Box<str>),
    Fact(Slot),
    If(Box<(Bool, Str, Str)>),
    Default(Box<(Str, Str)>),
}

#[derive(Clone, Debug)]
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

#[derive(Clone, Debug)]
pub(crate) enum Bool {
    Const(bool),
    Fact(Slot),
    Has(Slot, Type),
    Not(Box<Bool>),
    All(Box<[Bool]>),
    Any(Box<[Bool]>),
    /// An integer fact beside a constant: most of what rules ask.
    IntIs(Compare, Slot, i64),
    Ints(Compare, Int, Int),
    /// A float fact beside a constant.
    FloatIs(Compare, Slot, f64),
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
    IpIn(Ip, Networks),
    IntInSet(Int, Arc<Set>),
    StrInSet(Str, Arc<Set>),
    IpInSet(Ip, Arc<Set>),
    ListHas(Str, Slot),
    /// True if an item of a list is in a set.
    ListMeets(Slot, Arc<Set>),
    /// True if a rule fired.
    Fired(u32, World),
    If(Box<(Bool, Bool, Bool)>),
    Default(Box<(Bool, Bool)>),
}

impl Int {
    pub(crate) fn eval(&self, env: Env<'_>) -> Option<i64> {
        match self {
            Int::Const(integer) => Some(*integer),
            Int::Fact(slot) => env.integer(*slot),
            Int::Time(slot) => match env.get(*slot) {
                Some(Value::Time(time)) => Some(time.0),
                _ => None,
            },
            Int::Sum(sides) => Some(sides.0.eval(env)?.saturating_add(sides.1.eval(env)?)),
            Int::Difference(sides) => Some(sides.0.eval(env)?.saturating_sub(sides.1.eval(env)?)),
            Int::Product(sides) => Some(sides.0.eval(env)?.saturating_mul(sides.1.eval(env)?)),
            Int::Remainder(sides) => match (sides.0.eval(env)?, sides.1.eval(env)?) {
                (_, 0) => None,
                (left, right) => Some(left.wrapping_rem(right)),
            },
            Int::Chars(text) => i64::try_from(text.eval(env)?.chars().count()).ok(),
            Int::Items(slot) => match env.get(*slot)? {
                Value::List(items) => i64::try_from(items.len()).ok(),
                Value::Bytes(bytes) => i64::try_from(bytes.len()).ok(),
                _ => None,
            },
            // A float beyond the integers saturates.
            Int::Whole(float) => Some(float.eval(env)? as i64),
            Int::Clock(of) => of.1.at(of.0.eval(env)?),
            Int::If(branches) => {
                if branches.0.eval(env)? {
                    branches.1.eval(env)
                } else {
                    branches.2.eval(env)
                }
            }
            Int::Default(sides) => sides.0.eval(env).or_else(|| sides.1.eval(env)),
        }
    }
}

impl Float {
    pub(crate) fn eval(&self, env: Env<'_>) -> Option<f64> {
        match self {
            Float::Const(float) => Some(*float),
            Float::Fact(slot) => env.float(*slot),
            Float::Integer(slot) => env.integer(*slot).map(|integer| integer as f64),
            Float::Promoted(integer) => Some(integer.eval(env)? as f64),
            Float::Sum(sides) => finite(sides.0.eval(env)? + sides.1.eval(env)?),
            Float::Difference(sides) => finite(sides.0.eval(env)? - sides.1.eval(env)?),
            Float::Product(sides) => finite(sides.0.eval(env)? * sides.1.eval(env)?),
            Float::Quotient(sides) => finite(sides.0.eval(env)? / sides.1.eval(env)?),
            Float::Group(group, world) => {
                env.results.groups.get(*group as usize).map(|scores| scores[*world as usize])
            }
            Float::If(branches) => {
                if branches.0.eval(env)? {
                    branches.1.eval(env)
                } else {
                    branches.2.eval(env)
                }
            }
            Float::Default(sides) => sides.0.eval(env).or_else(|| sides.1.eval(env)),
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
    pub(crate) fn eval<'a>(&'a self, env: Env<'a>) -> Option<&'a str> {
        match self {
            Str::Const(text) => Some(text),
            Str::Fact(slot) => env.get(*slot)?.as_str(),
            Str::If(branches) => {
                if branches.0.eval(env)? {
                    branches.1.eval(env)
                } else {
                    branches.2.eval(env)
                }
            }
            Str::Default(sides) => sides.0.eval(env).or_else(|| sides.1.eval(env)),
        }
    }
}

impl Ip {
    fn eval(&self, env: Env<'_>) -> Option<IpAddr> {
        match self {
            Ip::Const(ip) => Some(*ip),
            Ip::Fact(slot) => match env.get(*slot) {
                Some(Value::Ip(ip)) => Some(ip.to_canonical()),
                _ => None,
            },
        }
    }
}

impl Bool {
    pub(crate) fn eval(&self, env: Env<'_>) -> Option<bool> {
        match self {
            Bool::Const(truth) => Some(*truth),
            Bool::Fact(slot) => match env.get(*slot) {
                Some(Value::Bool(truth)) => Some(*truth),
                _ => None,
            },
            Bool::Has(slot, Type::Float) => Some(env.float(*slot).is_some()),
            Bool::Has(slot, kind) => Some(env.get(*slot).is_some_and(|value| value.type_of() == *kind)),
            Bool::Not(truth) => truth.eval(env).map(|truth| !truth),
            Bool::All(parts) => junction(parts, env, false),
            Bool::Any(parts) => junction(parts, env, true),
            Bool::IntIs(compare, slot, constant) => Some(compare.holds(&env.integer(*slot)?, constant)),
            Bool::FloatIs(compare, slot, constant) => Some(compare.holds(&env.float(*slot)?, constant)),
            Bool::Ints(compare, left, right) => Some(compare.holds(&left.eval(env)?, &right.eval(env)?)),
            Bool::Floats(compare, left, right) => Some(compare.holds(&left.eval(env)?, &right.eval(env)?)),
            Bool::Strs(compare, left, right) => Some(compare.holds(left.eval(env)?, right.eval(env)?)),
            Bool::Bools(compare, sides) => Some(compare.holds(&sides.0.eval(env)?, &sides.1.eval(env)?)),
            Bool::Ips(compare, left, right) => Some(compare.holds(&left.eval(env)?, &right.eval(env)?)),
            Bool::Contains(place, text, sought) => {
                let (text, sought) = (text.eval(env)?, sought.eval(env)?);
                Some(match place {
                    Place::Anywhere => text.contains(sought),
                    Place::Start => text.starts_with(sought),
                    Place::End => text.ends_with(sought),
                })
            }
            Bool::Matches(text, regex) => Some(regex.is_match(text.eval(env)?)),
            Bool::IntIn(integer, of) => Some(of.binary_search(&integer.eval(env)?).is_ok()),
            Bool::FloatIn(float, of) => {
                // Adding zero turns -0 into 0, which the total order tells apart.
                let float = float.eval(env)? + 0.0;
                Some(of.binary_search_by(|probe| probe.total_cmp(&float)).is_ok())
            }
            Bool::StrIn(text, of) => {
                let text = text.eval(env)?;
                Some(of.binary_search_by(|probe| (**probe).cmp(text)).is_ok())
            }
            Bool::IpIn(ip, of) => Some(of.contain(ip.eval(env)?)),
            Bool::IntInSet(integer, set) => Some(set.has_integer(integer.eval(env)?)),
            Bool::StrInSet(text, set) => Some(set.has_str(text.eval(env)?)),
            Bool::IpInSet(ip, set) => Some(set.has_ip(ip.eval(env)?)),
            Bool::ListHas(text, slot) => {
                let (text, items) = (text.eval(env)?, env.get(*slot)?.as_list()?);
                Some(items.iter().any(|item| **item == *text))
            }
            Bool::ListMeets(slot, set) => {
                Some(env.get(*slot)?.as_list()?.iter().any(|item| set.has_str(item)))
            }
            Bool::Fired(rule, world) => {
                Some(env.results.fired.get(*rule as usize).is_some_and(|worlds| worlds & world.bit() != 0))
            }
            Bool::If(branches) => {
                if branches.0.eval(env)? {
                    branches.1.eval(env)
                } else {
                    branches.2.eval(env)
                }
            }
            Bool::Default(sides) => sides.0.eval(env).or_else(|| sides.1.eval(env)),
        }
    }
}

/// Kleene's conjunction (`decides` false) or disjunction (`decides` true): one deciding part settles it,
/// otherwise one missing part makes it missing.
fn junction(parts: &[Bool], env: Env<'_>, decides: bool) -> Option<bool> {
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

impl Compare {
    #[inline]
    fn holds<T: PartialOrd + ?Sized>(self, left: &T, right: &T) -> bool {
        match self {
            Compare::Equal => left == right,
            Compare::NotEqual => left != right,
            Compare::Less => left < right,
            Compare::LessOrEqual => left <= right,
            Compare::Greater => left > right,
            Compare::GreaterOrEqual => left >= right,
        }
    }
}

impl Clock {
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
