//! A checked condition in the form in which it is evaluated: one small tree per type, leaves that name slots.
//!
//! Evaluation is total and three-valued: `None` is missing. It allocates nothing but the texts that it makes and what
//! the regex crate caches per thread. Integers saturate; a float that is not finite is missing. Depth was bounded when
//! it was built, and a text that is made is bounded by [`TEXT_BYTES_MAX`](crate::text::TEXT_BYTES_MAX).

use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::Arc;

use event::{Facts, Slot, Time, Type, Value};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use regex::Regex;

use crate::lookup::LookupTable;
use crate::network_database::RecordPath;
use crate::place::Place;
use crate::scope::TextFunction;
use crate::set::{Networks, Set};
use crate::syntax::CompareOperator;
use crate::text::{self, ITEMS_MAX};

/// The environment of a condition: a row, and what the rules before it in their set have given.
#[derive(Clone, Copy)]
pub(crate) struct EvalEnv<'a> {
    values: &'a [Option<Value>],
    results: &'a RuleResults,
}

/// Results of the rules of a set so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct RuleResults {
    /// The bits of [`ResultView`] in which each rule fired.
    pub(crate) fired: Vec<u8>,
    /// The sum of each group's rules, within its bounds, in either view.
    pub(crate) groups: Vec<[f64; 2]>,
}

/// Rules in shadow see each other and the enforced ones; enforced rules never see those in shadow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ResultView {
    /// The results of the enforced rules.
    Live = 0,
    /// The results of those in shadow, too.
    Trial = 1,
}

impl ResultView {
    /// Its bit in [`RuleResults::fired`].
    pub(crate) const fn bit(self) -> u8 {
        1 << self as u8
    }
}

/// The results for a condition that refers to no rule.
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
    fn get(&self, slot: Slot) -> Option<&'a Value> {
        self.values.get(usize::from(slot.0))?.as_ref()
    }

    #[inline]
    fn integer(&self, slot: Slot) -> Option<i64> {
        match self.get(slot) {
            Some(Value::Integer(integer)) => Some(*integer),
            _ => None,
        }
    }

    #[inline]
    fn float(&self, slot: Slot) -> Option<f64> {
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
    /// Number of bytes.
    Bytes(Slot),
    /// Items of a list.
    Items(Box<ListExpr>),
    /// The number that a text is.
    Parsed(Box<StrExpr>),
    /// The whole seconds of a point in time or of a length of time.
    Seconds(Box<IntExpr>),
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
    /// The number that a text is.
    Parsed(Box<StrExpr>),
    /// The seconds of a point in time or of a length of time.
    Seconds(Box<IntExpr>),
    Sum(Box<(FloatExpr, FloatExpr)>),
    Difference(Box<(FloatExpr, FloatExpr)>),
    Product(Box<(FloatExpr, FloatExpr)>),
    Quotient(Box<(FloatExpr, FloatExpr)>),
    /// The kilometres between the places that two texts name.
    Distance(Box<(StrExpr, StrExpr)>),
    /// The sum that a group of rules adds to the score.
    Group(u32, ResultView),
    If(Box<(BoolExpr, FloatExpr, FloatExpr)>),
    Default(Box<(FloatExpr, FloatExpr)>),
}

#[derive(Clone, Debug)]
pub(crate) enum StrExpr {
    Const(Box<str>),
    Fact(Slot),
    Joined(Box<(StrExpr, StrExpr)>),
    Lower(Box<StrExpr>),
    /// Characters from the first number on, and before the second.
    Substring(Box<(StrExpr, IntExpr, Option<IntExpr>)>),
    /// The first group of a regular expression, or all that it finds where it has none.
    Extracted(Box<(StrExpr, Regex)>),
    /// Everything that a regular expression finds replaced by the text.
    Replaced(Box<(StrExpr, Regex, Box<str>)>),
    /// An item of a list, from the front or, where it is negative, from the back.
    Item(Box<ListExpr>, i64),
    /// All items of a list, with the text between them.
    Items(Box<ListExpr>, Box<str>),
    /// The text that a function of the engine makes of another.
    Applied(Box<StrExpr>, TextFunction),
    /// The value that a table has for a key.
    LookedUp(Box<LookupKey>, Arc<LookupTable>),
    /// The value that a network database has at a path of the record of an address.
    OfRecord(Box<(IpExpr, RecordPath)>, Arc<LookupTable>),
    /// A value as it is printed.
    Printed(Box<ValueExpr>),
    If(Box<(BoolExpr, StrExpr, StrExpr)>),
    Default(Box<(StrExpr, StrExpr)>),
}

#[derive(Clone, Debug)]
pub(crate) enum IpExpr {
    Const(IpAddr),
    Fact(Slot),
    /// The address that a text is.
    Parsed(Box<StrExpr>),
}

/// A value by which tables are searched.
#[derive(Clone, Debug)]
pub(crate) enum LookupKey {
    Str(StrExpr),
    Ip(IpExpr),
}

#[derive(Clone, Debug)]
pub(crate) enum ListExpr {
    Fact(Slot),
    /// The parts of a text between a separator.
    Split(Box<(StrExpr, Box<str>)>),
}

/// Texts of a list that a rule holds a text against.
#[derive(Clone, Debug)]
pub(crate) struct TextConstants {
    /// The texts, sorted.
    texts: Box<[Box<str>]>,
    /// The first bytes of each, in the same order: nearly all texts that are looked for are told by them, in one place of memory.
    heads: Box<[u64]>,
}

impl TextConstants {
    pub(crate) fn new(mut texts: Vec<Box<str>>) -> TextConstants {
        texts.sort_unstable();
        let heads = texts.iter().map(|text| head(text)).collect();
        TextConstants { texts: texts.into(), heads }
    }

    /// The texts, sorted.
    pub(crate) fn texts(&self) -> &[Box<str>] {
        &self.texts
    }

    fn have(&self, text: &str) -> bool {
        let head = head(text);
        let from = self.heads.partition_point(|known| *known < head);
        let alike = self.heads[from..].iter().take_while(|known| **known == head);
        alike.zip(&self.texts[from..]).any(|(_, known)| **known == *text)
    }
}

/// The first bytes of a text as a number, and zeros where it has fewer: the order of numbers is that of texts.
fn head(text: &str) -> u64 {
    match text.as_bytes() {
        [a, b, c, d, e, f, g, h, ..] => u64::from_be_bytes([*a, *b, *c, *d, *e, *f, *g, *h]),
        short => {
            short.iter().fold(0, |head, byte| head << 8 | u64::from(*byte)) << (64 - 8 * short.len()).min(63)
        }
    }
}

/// A value of any type that a column can have, but for bytes.
#[derive(Clone, Debug)]
pub(crate) enum ValueExpr {
    Bool(BoolExpr),
    Integer(IntExpr),
    Float(FloatExpr),
    String(StrExpr),
    Time(IntExpr),
    Ip(IpExpr),
    List(ListExpr),
}

/// The place of a text in another.
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
    All(Junction),
    Any(Junction),
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
    StrIn(StrExpr, TextConstants),
    IpIn(IpExpr, Networks),
    IntInSet(IntExpr, Arc<Set>),
    StrInSet(StrExpr, Arc<Set>),
    IpInSet(IpExpr, Arc<Set>),
    InTable(LookupKey, Arc<LookupTable>),
    ListHas(StrExpr, ListExpr),
    /// True if an item of a list is in a set.
    ListMeets(ListExpr, Arc<Set>),
    /// True if a rule fired.
    Fired(u32, ResultView),
    If(Box<(BoolExpr, BoolExpr, BoolExpr)>),
    Default(Box<(BoolExpr, BoolExpr)>),
}

impl IntExpr {
    pub(crate) fn eval(&self, env: &EvalEnv<'_>) -> Option<i64> {
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
            IntExpr::Seconds(micros) => Some(micros.eval(env)?.div_euclid(1_000_000)),
            // A float beyond the integers saturates.
            IntExpr::Whole(float) => Some(float.eval(env)? as i64),
            IntExpr::If(branches) => {
                if branches.0.eval(env)? {
                    branches.1.eval(env)
                } else {
                    branches.2.eval(env)
                }
            }
            IntExpr::Default(sides) => sides.0.eval(env).or_else(|| sides.1.eval(env)),
            IntExpr::Chars(_)
            | IntExpr::Bytes(_)
            | IntExpr::Items(_)
            | IntExpr::Parsed(_)
            | IntExpr::Clock(_) => self.measured(env),
        }
    }

    /// [`IntExpr::eval`] of what is read off something else. It needs room on the stack that the others do without.
    #[inline(never)]
    fn measured(&self, env: &EvalEnv<'_>) -> Option<i64> {
        match self {
            IntExpr::Chars(text) => i64::try_from(text.eval(env)?.chars().count()).ok(),
            IntExpr::Bytes(slot) => match env.get(*slot)? {
                Value::Bytes(bytes) => i64::try_from(bytes.len()).ok(),
                _ => None,
            },
            IntExpr::Items(list) => {
                let mut count = 0;
                list.each(env, &mut |_| {
                    count += 1;
                    true
                })?;
                Some(count)
            }
            IntExpr::Parsed(text) => text.eval(env)?.trim().parse().ok(),
            IntExpr::Clock(of) => of.1.at(of.0.eval(env)?),
            IntExpr::Const(_)
            | IntExpr::Fact(_)
            | IntExpr::Time(_)
            | IntExpr::Sum(_)
            | IntExpr::Difference(_)
            | IntExpr::Product(_)
            | IntExpr::Remainder(_)
            | IntExpr::Seconds(_)
            | IntExpr::Whole(_)
            | IntExpr::If(_)
            | IntExpr::Default(_) => self.eval(env),
        }
    }
}

impl FloatExpr {
    pub(crate) fn eval(&self, env: &EvalEnv<'_>) -> Option<f64> {
        match self {
            FloatExpr::Const(float) => Some(*float),
            FloatExpr::Fact(slot) => env.float(*slot),
            FloatExpr::Integer(slot) => env.integer(*slot).map(|integer| integer as f64),
            FloatExpr::Promoted(integer) => Some(integer.eval(env)? as f64),
            FloatExpr::Seconds(micros) => Some(micros.eval(env)? as f64 / 1e6),
            FloatExpr::Sum(sides) => finite(sides.0.eval(env)? + sides.1.eval(env)?),
            FloatExpr::Difference(sides) => finite(sides.0.eval(env)? - sides.1.eval(env)?),
            FloatExpr::Product(sides) => finite(sides.0.eval(env)? * sides.1.eval(env)?),
            FloatExpr::Quotient(sides) => finite(sides.0.eval(env)? / sides.1.eval(env)?),
            FloatExpr::Group(group, view) => {
                env.results.groups.get(*group as usize).map(|scores| scores[*view as usize])
            }
            FloatExpr::If(branches) => {
                if branches.0.eval(env)? {
                    branches.1.eval(env)
                } else {
                    branches.2.eval(env)
                }
            }
            FloatExpr::Default(sides) => sides.0.eval(env).or_else(|| sides.1.eval(env)),
            FloatExpr::Parsed(_) | FloatExpr::Distance(_) => self.measured(env),
        }
    }

    /// [`FloatExpr::eval`] of what texts say, see [`IntExpr::measured`].
    #[inline(never)]
    fn measured(&self, env: &EvalEnv<'_>) -> Option<f64> {
        match self {
            FloatExpr::Parsed(text) => finite(text.eval(env)?.trim().parse().ok()?),
            FloatExpr::Distance(places) => {
                let place = |text: &StrExpr| Place::parse(&text.eval(env)?);
                Some(place(&places.0)?.distance_km(place(&places.1)?))
            }
            FloatExpr::Const(_)
            | FloatExpr::Fact(_)
            | FloatExpr::Integer(_)
            | FloatExpr::Promoted(_)
            | FloatExpr::Seconds(_)
            | FloatExpr::Sum(_)
            | FloatExpr::Difference(_)
            | FloatExpr::Product(_)
            | FloatExpr::Quotient(_)
            | FloatExpr::Group(..)
            | FloatExpr::If(_)
            | FloatExpr::Default(_) => self.eval(env),
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
    #[inline(always)]
    pub(crate) fn eval<'a>(&'a self, env: &EvalEnv<'a>) -> Option<Cow<'a, str>> {
        match self {
            StrExpr::Const(text) => Some(Cow::Borrowed(text)),
            StrExpr::Fact(slot) => env.get(*slot)?.as_str().map(Cow::Borrowed),
            _ => self.made(env),
        }
    }

    /// [`StrExpr::eval`] of what makes a text, see [`IntExpr::measured`].
    #[inline(never)]
    fn made<'a>(&'a self, env: &EvalEnv<'a>) -> Option<Cow<'a, str>> {
        match self {
            StrExpr::Const(_) | StrExpr::Fact(_) => self.eval(env),
            StrExpr::Joined(sides) => {
                let (left, right) = (sides.0.eval(env)?, sides.1.eval(env)?);
                let mut joined = match left {
                    Cow::Owned(text) => text,
                    Cow::Borrowed(text) => text::head(text).to_owned(),
                };
                text::push(&mut joined, &right);
                Some(Cow::Owned(joined))
            }
            StrExpr::Lower(text) => Some(text::map(text.eval(env)?, text::lower)),
            StrExpr::Substring(of) => {
                let start = usize::try_from(of.1.eval(env)?).ok()?;
                let end = match &of.2 {
                    Some(end) => Some(usize::try_from(end.eval(env)?).ok()?),
                    None => None,
                };
                Some(text::map(of.0.eval(env)?, |text| Cow::Borrowed(text::substring(text, start, end))))
            }
            StrExpr::Extracted(of) => {
                text::filter_map(of.0.eval(env)?, |text| text::extract(text, &of.1).map(Cow::Borrowed))
            }
            StrExpr::Replaced(of) => {
                Some(text::map(of.0.eval(env)?, |text| text::replace(text, &of.1, &of.2)))
            }
            StrExpr::Item(list, index) => list.item(env, *index),
            StrExpr::Items(list, between) => {
                let (mut joined, mut is_first) = (String::new(), true);
                list.each(env, &mut |item| {
                    if !std::mem::take(&mut is_first) {
                        text::push(&mut joined, between);
                    }
                    text::push(&mut joined, item);
                    joined.len() < text::TEXT_BYTES_MAX
                })?;
                Some(Cow::Owned(joined))
            }
            StrExpr::Applied(text, function) => text::filter_map(text.eval(env)?, function),
            StrExpr::OfRecord(of, table) => table.find_in_record(of.0.eval(env)?, &of.1).map(Cow::Owned),
            StrExpr::LookedUp(key, table) => key.find(table, env).map(Cow::Borrowed),
            StrExpr::Printed(value) => Some(Cow::Owned(value.eval(env)?.to_string())),
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
    pub(crate) fn eval(&self, env: &EvalEnv<'_>) -> Option<IpAddr> {
        match self {
            IpExpr::Const(ip) => Some(*ip),
            IpExpr::Parsed(text) => match Value::from(&*text.eval(env)?).coerce(Type::Ip) {
                Some(Value::Ip(ip)) => Some(ip),
                _ => None,
            },
            IpExpr::Fact(slot) => match env.get(*slot) {
                Some(Value::Ip(ip)) => Some(ip.to_canonical()),
                _ => None,
            },
        }
    }
}

impl LookupKey {
    /// True if a table has the key.
    fn is_in(&self, table: &LookupTable, env: &EvalEnv<'_>) -> Option<bool> {
        Some(match self {
            LookupKey::Str(text) => table.find_str(&text.eval(env)?).is_some(),
            LookupKey::Ip(ip) => table.has_ip(ip.eval(env)?),
        })
    }

    /// The value that a table has for the key.
    fn find<'t>(&self, table: &'t LookupTable, env: &EvalEnv<'_>) -> Option<&'t str> {
        match self {
            LookupKey::Str(text) => table.find_str(&text.eval(env)?),
            LookupKey::Ip(ip) => table.find_ip(ip.eval(env)?),
        }
    }
}

impl ListExpr {
    /// Hands on the items, at most [`ITEMS_MAX`] of a text, until one is answered with false.
    pub(crate) fn each(&self, env: &EvalEnv<'_>, with: &mut dyn FnMut(&str) -> bool) -> Option<()> {
        match self {
            ListExpr::Fact(slot) => _ = env.get(*slot)?.as_list()?.iter().all(|item| with(item)),
            ListExpr::Split(of) => {
                let text = of.0.eval(env)?;
                _ = text::head(&text).split(&*of.1).take(ITEMS_MAX).all(with);
            }
        }
        Some(())
    }

    #[inline(always)]
    fn any(&self, env: &EvalEnv<'_>, mut test: impl FnMut(&str) -> bool) -> Option<bool> {
        if let ListExpr::Fact(slot) = self {
            return Some(env.get(*slot)?.as_list()?.iter().any(|item| test(item)));
        }
        let mut found = false;
        self.each(env, &mut |item| {
            found = test(item);
            !found
        })?;
        Some(found)
    }

    /// The item at a place, from the back where it is negative.
    fn item<'a>(&'a self, env: &EvalEnv<'a>, index: i64) -> Option<Cow<'a, str>> {
        let place = usize::try_from(if index < 0 { -1 - index } else { index }).ok()?;
        match self {
            ListExpr::Fact(slot) => {
                let items = env.get(*slot)?.as_list()?;
                let item = if index < 0 { items.iter().rev().nth(place) } else { items.get(place) };
                item.map(|item| Cow::Borrowed(&**item))
            }
            ListExpr::Split(of) => text::filter_map(of.0.eval(env)?, |text| {
                let item =
                    if index < 0 { text.rsplit(&*of.1).nth(place) } else { text.split(&*of.1).nth(place) };
                item.map(Cow::Borrowed)
            }),
        }
    }
}

impl ValueExpr {
    pub(crate) fn eval(&self, env: &EvalEnv<'_>) -> Option<Value> {
        Some(match self {
            ValueExpr::Bool(truth) => Value::Bool(truth.eval(env)?),
            ValueExpr::Integer(integer) => Value::Integer(integer.eval(env)?),
            ValueExpr::Float(float) => Value::Float(float.eval(env)?),
            ValueExpr::String(text) => Value::from(text::head(&text.eval(env)?)),
            ValueExpr::Time(micros) => Value::Time(Time(micros.eval(env)?)),
            ValueExpr::Ip(ip) => Value::from(ip.eval(env)?),
            ValueExpr::List(list) => {
                let mut items: Vec<Box<str>> = Vec::new();
                list.each(env, &mut |item| {
                    items.push(item.into());
                    true
                })?;
                Value::List(items.into())
            }
        })
    }
}

impl BoolExpr {
    /// See [`crate::UnmetPart::reached`].
    pub(crate) fn reached(&self, env: &EvalEnv<'_>) -> Option<f64> {
        let (operator, one, other) = match self {
            BoolExpr::IntIs(operator, slot, bound) => (operator, env.integer(*slot)? as f64, *bound as f64),
            BoolExpr::Ints(operator, one, other) => {
                (operator, one.eval(env)? as f64, other.eval(env)? as f64)
            }
            BoolExpr::FloatIs(operator, slot, bound) => (operator, env.float(*slot)?, *bound),
            BoolExpr::Floats(operator, one, other) => (operator, one.eval(env)?, other.eval(env)?),
            _ => return None,
        };
        let is_order = !matches!(operator, CompareOperator::Equal | CompareOperator::NotEqual);
        let (least, most) = (one.min(other), one.max(other));
        // Times are numbers, too, but no part of one another.
        let is_share = is_order && least >= 0.0 && most > 0.0 && most < 1e14;
        is_share.then(|| (least / most).min(0.99))
    }

    /// Returns whether its value is `wanted`, and stops at the first part that settles it: for this what is missing settles as
    /// much as what is otherwise.
    pub(crate) fn is(&self, env: &EvalEnv<'_>, wanted: bool) -> bool {
        match self {
            BoolExpr::Not(inner) => inner.is(env, !wanted),
            BoolExpr::All(parts) if wanted => parts.asked.iter().all(|part| part.is(env, true)),
            BoolExpr::All(parts) => parts.asked.iter().any(|part| part.is(env, false)),
            BoolExpr::Any(parts) if wanted => parts.asked.iter().any(|part| part.is(env, true)),
            BoolExpr::Any(parts) => parts.asked.iter().all(|part| part.is(env, false)),
            BoolExpr::If(branches) => match branches.0.eval(env) {
                Some(true) => branches.1.is(env, wanted),
                Some(false) => branches.2.is(env, wanted),
                None => false,
            },
            // Most are comparisons of numbers, for which a call would take as long as what it does.
            other => other.compared(env).unwrap_or_else(|| other.eval(env)) == Some(wanted),
        }
    }

    /// The value of a comparison of numbers; `None` for what is none.
    #[inline(always)]
    fn compared(&self, env: &EvalEnv<'_>) -> Option<Option<bool>> {
        Some(match self {
            BoolExpr::IntIs(compare, slot, constant) => {
                env.integer(*slot).map(|integer| compare.holds(&integer, constant))
            }
            BoolExpr::FloatIs(compare, slot, constant) => {
                env.float(*slot).map(|float| compare.holds(&float, constant))
            }
            BoolExpr::Ints(compare, left, right) => {
                left.eval(env).and_then(|left| Some(compare.holds(&left, &right.eval(env)?)))
            }
            BoolExpr::Floats(compare, left, right) => {
                left.eval(env).and_then(|left| Some(compare.holds(&left, &right.eval(env)?)))
            }
            _ => return None,
        })
    }

    pub(crate) fn eval(&self, env: &EvalEnv<'_>) -> Option<bool> {
        match self {
            BoolExpr::Const(truth) => Some(*truth),
            BoolExpr::Fact(slot) => match env.get(*slot) {
                Some(Value::Bool(truth)) => Some(*truth),
                _ => None,
            },
            BoolExpr::Has(slot, Type::Float) => Some(env.float(*slot).is_some()),
            BoolExpr::Has(slot, kind) => Some(env.get(*slot).is_some_and(|value| value.type_of() == *kind)),
            BoolExpr::Not(truth) => truth.eval(env).map(|truth| !truth),
            BoolExpr::All(parts) => parts.eval(env, false),
            BoolExpr::Any(parts) => parts.eval(env, true),
            BoolExpr::IntIs(..) | BoolExpr::FloatIs(..) | BoolExpr::Ints(..) | BoolExpr::Floats(..) => {
                self.compared(env)?
            }
            BoolExpr::Bools(compare, sides) => Some(compare.holds(&sides.0.eval(env)?, &sides.1.eval(env)?)),
            BoolExpr::Fired(rule, view) => {
                Some(env.results.fired.get(*rule as usize).is_some_and(|views| views & view.bit() != 0))
            }
            BoolExpr::If(branches) => {
                if branches.0.eval(env)? {
                    branches.1.eval(env)
                } else {
                    branches.2.eval(env)
                }
            }
            BoolExpr::Default(sides) => sides.0.eval(env).or_else(|| sides.1.eval(env)),
            _ => self.searched(env),
        }
    }

    /// [`BoolExpr::eval`] of what compares or searches texts, addresses, lists and sets, see [`IntExpr::measured`].
    #[inline(never)]
    fn searched(&self, env: &EvalEnv<'_>) -> Option<bool> {
        match self {
            BoolExpr::Strs(compare, left, right) => {
                Some(compare.holds(&*left.eval(env)?, &*right.eval(env)?))
            }
            BoolExpr::Ips(compare, left, right) => Some(compare.holds(&left.eval(env)?, &right.eval(env)?)),
            BoolExpr::Contains(place, text, sought) => {
                let (text, sought) = (text.eval(env)?, sought.eval(env)?);
                Some(match place {
                    SubstringPosition::Anywhere => text.contains(&*sought),
                    SubstringPosition::Start => text.starts_with(&*sought),
                    SubstringPosition::End => text.ends_with(&*sought),
                })
            }
            BoolExpr::Matches(text, regex) => Some(regex.is_match(&text.eval(env)?)),
            BoolExpr::IntIn(integer, of) => Some(of.binary_search(&integer.eval(env)?).is_ok()),
            BoolExpr::FloatIn(float, of) => {
                // Adding zero turns -0 into 0, which the total order tells apart.
                let float = float.eval(env)? + 0.0;
                Some(of.binary_search_by(|probe| probe.total_cmp(&float)).is_ok())
            }
            BoolExpr::StrIn(text, of) => Some(of.have(&text.eval(env)?)),
            BoolExpr::IpIn(ip, of) => Some(of.contain(ip.eval(env)?)),
            BoolExpr::IntInSet(integer, set) => Some(set.has_integer(integer.eval(env)?)),
            BoolExpr::StrInSet(text, set) => Some(set.has_str(&text.eval(env)?)),
            BoolExpr::IpInSet(ip, set) => Some(set.has_ip(ip.eval(env)?)),
            BoolExpr::InTable(key, table) => key.is_in(table, env),
            BoolExpr::ListHas(text, list) => {
                let text = text.eval(env)?;
                list.any(env, |item| *item == *text)
            }
            BoolExpr::ListMeets(list, set) => list.any(env, |item| set.has_str(item)),
            BoolExpr::Const(_)
            | BoolExpr::Fact(_)
            | BoolExpr::Has(..)
            | BoolExpr::Not(_)
            | BoolExpr::All(_)
            | BoolExpr::Any(_)
            | BoolExpr::IntIs(..)
            | BoolExpr::Ints(..)
            | BoolExpr::FloatIs(..)
            | BoolExpr::Floats(..)
            | BoolExpr::Bools(..)
            | BoolExpr::Fired(..)
            | BoolExpr::If(_)
            | BoolExpr::Default(_) => self.eval(env),
        }
    }
}

/// The parts of a conjunction or of a disjunction. They are asked in the order of what asking them costs, whatever the order
/// in the source: a rule is settled by a number before a text is searched.
#[derive(Clone, Debug)]
pub(crate) struct Junction {
    asked: Box<[BoolExpr]>,
    /// The places of the parts among those, in the order of the source.
    places: Box<[u16]>,
}

impl Junction {
    /// The parts in the order of the source, each with what asking it costs: fewer than 65,536, as the length of a source is
    /// bounded.
    pub(crate) fn new(parts: Vec<(BoolExpr, u32)>) -> Junction {
        let mut order: Vec<usize> = (0..parts.len()).collect();
        order.sort_by_key(|at| parts[*at].1);
        let mut places = vec![0; parts.len()];
        for (place, at) in order.iter().enumerate() {
            places[*at] = u16::try_from(place).expect("a source has no room for so many parts");
        }
        let mut asked: Vec<(u16, BoolExpr)> =
            places.iter().copied().zip(parts.into_iter().map(|(part, _)| part)).collect();
        asked.sort_by_key(|(place, _)| *place);
        Junction { asked: asked.into_iter().map(|(_, part)| part).collect(), places: places.into() }
    }

    /// The parts in the order of the source.
    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = &BoolExpr> {
        self.places.iter().map(|place| &self.asked[usize::from(*place)])
    }

    /// Kleene's conjunction (`decides` false) or disjunction (`decides` true): one deciding part settles it, otherwise
    /// one missing part makes it missing.
    fn eval(&self, env: &EvalEnv<'_>, decides: bool) -> Option<bool> {
        let mut missing = false;
        for part in &self.asked {
            match part.eval(env) {
                Some(truth) if truth == decides => return Some(decides),
                truth => missing |= truth.is_none(),
            }
        }
        if missing { None } else { Some(!decides) }
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_found_among_those_that_begin_alike() {
        let texts =
            ["", "a", "a\0", "ab", "abcdefgh", "abcdefgh\0", "abcdefghi", "abcdefghz", "b", "\u{10ffff}"];
        let constants = TextConstants::new(texts.iter().rev().map(|text| Box::from(*text)).collect());
        for text in texts {
            assert!(constants.have(text), "{text:?}");
        }
        for text in ["\0", "aa", "a\0\0", "abcdefg", "abcdefgh\0\0", "abcdefghj", "c", "\u{10fffe}"] {
            assert!(!constants.have(text), "{text:?}");
        }
        assert!(constants.texts().is_sorted() && constants.heads.is_sorted());
        assert!(!TextConstants::new(Vec::new()).have(""));
    }
}
