//! Bounds of a condition before any row is there: between what bounds a number lies, and whether parts
//! that must hold together can.
//!
//! Everything here errs to one side: a claim that something is always or never so is sound, for every row in which
//! the values are there; that nothing is claimed means nothing. Bounds of numbers are floats. Beyond 2^53, where
//! they would round integers, none are claimed.

use std::collections::HashMap;

use event::Slot;

use crate::expr::{
    BoolExpr, ClockPart, FloatExpr, IntExpr, IpExpr, ListExpr, LookupKey, ResultView, StrExpr,
};
use crate::syntax::CompareOperator;

/// Integers beyond are not told apart by floats.
const EXACT_MAX: f64 = 9_007_199_254_740_992.0;

/// Between what a number lies.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Interval {
    pub(crate) low: f64,
    pub(crate) high: f64,
    low_open: bool,
    high_open: bool,
    /// True if it is not 0, for a reason that the bounds do not show. Products of it may still underflow to 0.
    not_zero: bool,
}

impl Interval {
    /// Any number.
    pub(crate) const ANY: Interval = Interval {
        low: f64::NEG_INFINITY,
        high: f64::INFINITY,
        low_open: false,
        high_open: false,
        not_zero: false,
    };
    /// No number below 0.
    pub(crate) const COUNT: Interval = Interval { low: 0.0, ..Interval::ANY };

    /// Both ends included; bounds that are no numbers, or too large, are none.
    pub(crate) fn new(low: f64, high: f64) -> Interval {
        let exact = -EXACT_MAX..=EXACT_MAX;
        Interval {
            low: if exact.contains(&low) { low } else { f64::NEG_INFINITY },
            high: if exact.contains(&high) { high } else { f64::INFINITY },
            ..Interval::ANY
        }
    }

    fn point(at: f64) -> Interval {
        Interval::new(at, at)
    }

    pub(crate) fn has_zero(&self) -> bool {
        let below = self.low < 0.0 || self.low == 0.0 && !self.low_open;
        let above = self.high > 0.0 || self.high == 0.0 && !self.high_open;
        below && above && !self.not_zero
    }

    fn is_empty(&self) -> bool {
        self.low > self.high
            || self.low == self.high && (self.low_open || self.high_open || self.not_zero && self.low == 0.0)
    }

    fn meet(self, other: Interval) -> Interval {
        let (low, low_open) = match self.low.total_cmp(&other.low) {
            std::cmp::Ordering::Less => (other.low, other.low_open),
            std::cmp::Ordering::Greater => (self.low, self.low_open),
            std::cmp::Ordering::Equal => (self.low, self.low_open || other.low_open),
        };
        let (high, high_open) = match self.high.total_cmp(&other.high) {
            std::cmp::Ordering::Less => (self.high, self.high_open),
            std::cmp::Ordering::Greater => (other.high, other.high_open),
            std::cmp::Ordering::Equal => (self.high, self.high_open || other.high_open),
        };
        Interval { low, high, low_open, high_open, not_zero: self.not_zero || other.not_zero }
    }

    /// Either of them.
    fn join(self, other: Interval) -> Interval {
        let joined = Interval::new(self.low.min(other.low), self.high.max(other.high));
        Interval { not_zero: !self.has_zero() && !other.has_zero(), ..joined }
    }

    /// Only whole numbers of it.
    fn whole(self) -> Interval {
        let low = if self.low_open && self.low.fract() == 0.0 { self.low + 1.0 } else { self.low.ceil() };
        let high =
            if self.high_open && self.high.fract() == 0.0 { self.high - 1.0 } else { self.high.floor() };
        Interval { low_open: false, high_open: false, low, high, ..self }
    }

    fn plus(self, other: Interval) -> Interval {
        let (low, high) = (self.low + other.low, self.high + other.high);
        let sum = Interval::new(low, high);
        // Something above 0 stays so when nothing below 0 is added.
        let above = |one: &Interval| !one.has_zero() && one.low >= 0.0;
        let not_zero = self.low >= 0.0 && other.low >= 0.0 && (above(&self) || above(&other));
        Interval { not_zero, ..sum }
    }

    fn minus(self, other: Interval) -> Interval {
        let not_zero = other.low == 0.0 && other.high == 0.0 && !self.has_zero()
            || self.low == 0.0 && self.high == 0.0 && !other.has_zero();
        Interval { not_zero, ..Interval::new(self.low - other.high, self.high - other.low) }
    }

    fn times(self, other: Interval) -> Interval {
        let product = if self.low >= 0.0 && other.low >= 0.0 {
            // An end at infinity beside one at 0 bounds nothing.
            Interval::new(self.low * other.low, self.high * other.high)
        } else {
            Interval::ANY
        };
        Interval { not_zero: !self.has_zero() && !other.has_zero(), ..product }
    }

    fn over(self, other: Interval) -> Interval {
        if self.low >= 0.0 && other.low >= 0.0 {
            let low = if other.high.is_finite() && other.high > 0.0 { self.low / other.high } else { 0.0 };
            let high = if other.low > 0.0 { self.high / other.low } else { f64::INFINITY };
            Interval { not_zero: !self.has_zero(), ..Interval::new(low, high) }
        } else {
            Interval { not_zero: !self.has_zero(), ..Interval::ANY }
        }
    }
}

/// Returns whether a comparison can be true, and whether it can be false.
fn possible(compare: CompareOperator, left: Interval, right: Interval) -> (bool, bool) {
    let less = |a: Interval, b: Interval| a.low < b.high;
    let at_most = |a: Interval, b: Interval| a.low < b.high || a.low == b.high && !a.low_open && !b.high_open;
    let equal = !left.meet(right).is_empty();
    let unequal = !(left.low == left.high && left.low == right.low && right.low == right.high);
    match compare {
        CompareOperator::Less => (less(left, right), at_most(right, left)),
        CompareOperator::LessOrEqual => (at_most(left, right), less(right, left)),
        CompareOperator::Greater => (less(right, left), at_most(left, right)),
        CompareOperator::GreaterOrEqual => (at_most(right, left), less(left, right)),
        CompareOperator::Equal => (equal, unequal),
        CompareOperator::NotEqual => (unequal, equal),
    }
}

/// The values for which a comparison with one in `right` can hold.
fn side(compare: CompareOperator, right: Interval) -> Interval {
    match compare {
        CompareOperator::Less => Interval { high: right.high, high_open: true, ..Interval::ANY },
        CompareOperator::LessOrEqual => {
            Interval { high: right.high, high_open: right.high_open, ..Interval::ANY }
        }
        CompareOperator::Greater => Interval { low: right.low, low_open: true, ..Interval::ANY },
        CompareOperator::GreaterOrEqual => {
            Interval { low: right.low, low_open: right.low_open, ..Interval::ANY }
        }
        CompareOperator::Equal => right,
        CompareOperator::NotEqual => {
            Interval { not_zero: right.low == 0.0 && right.high == 0.0, ..Interval::ANY }
        }
    }
}

impl CompareOperator {
    /// Returns the comparison that holds where this fails.
    pub(crate) fn negated(self) -> CompareOperator {
        match self {
            CompareOperator::Equal => CompareOperator::NotEqual,
            CompareOperator::NotEqual => CompareOperator::Equal,
            CompareOperator::Less => CompareOperator::GreaterOrEqual,
            CompareOperator::LessOrEqual => CompareOperator::Greater,
            CompareOperator::Greater => CompareOperator::LessOrEqual,
            CompareOperator::GreaterOrEqual => CompareOperator::Less,
        }
    }

    /// Returns the comparison with its sides exchanged.
    pub(crate) fn mirrored(self) -> CompareOperator {
        match self {
            CompareOperator::Less => CompareOperator::Greater,
            CompareOperator::LessOrEqual => CompareOperator::GreaterOrEqual,
            CompareOperator::Greater => CompareOperator::Less,
            CompareOperator::GreaterOrEqual => CompareOperator::LessOrEqual,
            same => same,
        }
    }
}

/// Bounds of columns and groups, whatever the row.
#[derive(Clone, Debug, Default)]
pub(crate) struct ValueBounds {
    pub(crate) slots: HashMap<Slot, Interval>,
    pub(crate) groups: Vec<Interval>,
}

/// Parts that cannot hold together.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Contradiction;

/// Facts that must be so for some parts to hold.
#[derive(Clone, Debug, Default)]
pub(crate) struct KnownConstraints {
    numbers: HashMap<Slot, Interval>,
    texts: HashMap<Slot, TextConstraint>,
    truths: HashMap<TruthSubject, bool>,
    present: HashMap<Slot, bool>,
    /// True if it is left out of account whether values are there.
    values_only: bool,
}

#[derive(Clone, Debug, Default)]
struct TextConstraint {
    /// Sorted.
    one_of: Option<Vec<Box<str>>>,
    none_of: Vec<Box<str>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum TruthSubject {
    Fact(Slot),
    Fired(u32, ResultView),
}

impl KnownConstraints {
    /// The constraints of parts of which one is to fail: a part with a missing value does not fail, it is missing.
    pub(crate) fn of_values() -> KnownConstraints {
        KnownConstraints { values_only: true, ..KnownConstraints::default() }
    }

    /// Between what an integer, a time or a duration lies.
    pub(crate) fn int(&self, base: &ValueBounds, expr: &IntExpr) -> Interval {
        let both = |sides: &(IntExpr, IntExpr)| (self.int(base, &sides.0), self.int(base, &sides.1));
        match expr {
            IntExpr::Const(integer) => Interval::point(*integer as f64),
            IntExpr::Fact(slot) | IntExpr::Time(slot) => self.slot(base, *slot),
            IntExpr::Sum(sides) => {
                let (left, right) = both(sides);
                left.plus(right)
            }
            IntExpr::Difference(sides) => {
                let (left, right) = both(sides);
                left.minus(right)
            }
            IntExpr::Product(sides) => {
                let (left, right) = both(sides);
                left.times(right)
            }
            IntExpr::Remainder(sides) => {
                let (left, right) = both(sides);
                let most = (right.low.abs().max(right.high.abs()) - 1.0).max(0.0);
                Interval::new(
                    if left.low >= 0.0 { 0.0 } else { -most },
                    if left.high <= 0.0 { 0.0 } else { most },
                )
            }
            IntExpr::Chars(_) | IntExpr::Bytes(_) | IntExpr::Items(_) => Interval::COUNT,
            IntExpr::Parsed(_) | IntExpr::Seconds(_) => Interval::ANY,
            IntExpr::Whole(float) => {
                let float = self.float(base, float);
                Interval::new(float.low.trunc(), float.high.trunc())
            }
            IntExpr::Clock(of) => match of.1.part {
                ClockPart::Year => Interval::new(-9999.0, 9999.0),
                ClockPart::Month => Interval::new(0.0, 11.0),
                ClockPart::Date => Interval::new(1.0, 31.0),
                ClockPart::DayOfMonth => Interval::new(0.0, 30.0),
                ClockPart::DayOfWeek => Interval::new(0.0, 6.0),
                ClockPart::DayOfYear => Interval::new(0.0, 365.0),
                ClockPart::Hours => Interval::new(0.0, 23.0),
                ClockPart::Minutes | ClockPart::Seconds => Interval::new(0.0, 59.0),
            },
            IntExpr::If(branches) => self.int(base, &branches.1).join(self.int(base, &branches.2)),
            IntExpr::Default(sides) => {
                let (left, right) = both(sides);
                left.join(right)
            }
        }
    }

    /// Between what a float lies.
    pub(crate) fn float(&self, base: &ValueBounds, expr: &FloatExpr) -> Interval {
        let both = |sides: &(FloatExpr, FloatExpr)| (self.float(base, &sides.0), self.float(base, &sides.1));
        match expr {
            // Unlike an integer, a large float is what it is.
            FloatExpr::Const(float) => Interval { low: *float, high: *float, ..Interval::ANY },
            FloatExpr::Fact(slot) | FloatExpr::Integer(slot) => self.slot(base, *slot),
            FloatExpr::Promoted(integer) => self.int(base, integer),
            FloatExpr::Parsed(_) => Interval::ANY,
            FloatExpr::Distance(_) => Interval::COUNT,
            FloatExpr::Seconds(micros) => self.int(base, micros).over(Interval::point(1e6)),
            FloatExpr::Sum(sides) => {
                let (left, right) = both(sides);
                left.plus(right)
            }
            FloatExpr::Difference(sides) => {
                let (left, right) = both(sides);
                left.minus(right)
            }
            FloatExpr::Product(sides) => {
                let (left, right) = both(sides);
                left.times(right)
            }
            FloatExpr::Quotient(sides) => {
                let (left, right) = both(sides);
                left.over(right)
            }
            FloatExpr::Group(group, _) => base.groups.get(*group as usize).copied().unwrap_or(Interval::ANY),
            FloatExpr::If(branches) => self.float(base, &branches.1).join(self.float(base, &branches.2)),
            FloatExpr::Default(sides) => {
                let (left, right) = both(sides);
                left.join(right)
            }
        }
    }

    fn slot(&self, base: &ValueBounds, slot: Slot) -> Interval {
        let inherent = base.slots.get(&slot).copied().unwrap_or(Interval::ANY);
        self.numbers.get(&slot).map_or(inherent, |known| inherent.meet(*known))
    }

    /// Takes in that a part is true, or false. What is known is not to be used after a contradiction.
    pub(crate) fn learn(
        &mut self,
        base: &ValueBounds,
        part: &BoolExpr,
        truth: bool,
    ) -> Result<(), Contradiction> {
        match part {
            BoolExpr::Const(constant) if *constant != truth => Err(Contradiction),
            BoolExpr::Not(inner) => self.learn(base, inner, !truth),
            BoolExpr::All(parts) | BoolExpr::Any(parts) if matches!(part, BoolExpr::All(_)) == truth => {
                parts.iter().try_for_each(|part| self.learn(base, part, truth))
            }
            // One of them is true, or one of them false: each could be.
            BoolExpr::All(parts) | BoolExpr::Any(parts) => {
                let mut only: Option<KnownConstraints> = None;
                for part in parts.iter() {
                    let mut known = self.clone();
                    if known.learn(base, part, truth).is_ok() && only.replace(known).is_some() {
                        return Ok(());
                    }
                }
                *self = only.ok_or(Contradiction)?;
                Ok(())
            }
            BoolExpr::Fact(slot) => {
                self.present(*slot, true)?;
                self.truth(TruthSubject::Fact(*slot), truth)
            }
            BoolExpr::Fired(rule, view) => self.truth(TruthSubject::Fired(*rule, *view), truth),
            BoolExpr::Has(slot, _) => self.present(*slot, truth),
            BoolExpr::IntIs(compare, slot, constant) => {
                let (left, right) = (IntExpr::Fact(*slot), IntExpr::Const(*constant));
                self.ints(base, if truth { *compare } else { compare.negated() }, &left, &right)
            }
            BoolExpr::Ints(compare, left, right) => {
                self.ints(base, if truth { *compare } else { compare.negated() }, left, right)
            }
            BoolExpr::FloatIs(compare, slot, constant) => {
                let (left, right) = (FloatExpr::Fact(*slot), FloatExpr::Const(*constant));
                self.floats(base, if truth { *compare } else { compare.negated() }, &left, &right)
            }
            BoolExpr::Floats(compare, left, right) => {
                self.floats(base, if truth { *compare } else { compare.negated() }, left, right)
            }
            BoolExpr::IntIn(IntExpr::Fact(slot), of) if truth => {
                let (low, high) = (of.first(), of.last());
                let hull = Interval::new(
                    low.map_or(f64::NEG_INFINITY, |low| *low as f64),
                    high.map_or(f64::INFINITY, |high| *high as f64),
                );
                self.narrow(base, *slot, hull, true)
            }
            BoolExpr::FloatIn(FloatExpr::Fact(slot), of) if truth => {
                let (low, high) = (of.first(), of.last());
                let hull = Interval {
                    low: low.copied().unwrap_or(f64::NEG_INFINITY),
                    high: high.copied().unwrap_or(f64::INFINITY),
                    ..Interval::ANY
                };
                self.narrow(base, *slot, hull, false)
            }
            BoolExpr::Strs(CompareOperator::Equal, StrExpr::Fact(slot), StrExpr::Const(text))
            | BoolExpr::Strs(CompareOperator::Equal, StrExpr::Const(text), StrExpr::Fact(slot)) => {
                self.text(*slot, std::slice::from_ref(text), truth)
            }
            BoolExpr::Strs(CompareOperator::NotEqual, StrExpr::Fact(slot), StrExpr::Const(text))
            | BoolExpr::Strs(CompareOperator::NotEqual, StrExpr::Const(text), StrExpr::Fact(slot)) => {
                self.text(*slot, std::slice::from_ref(text), !truth)
            }
            BoolExpr::StrIn(StrExpr::Fact(slot), of) => self.text(*slot, of.texts(), truth),
            BoolExpr::Contains(_, StrExpr::Fact(slot), _)
            | BoolExpr::Matches(StrExpr::Fact(slot), _)
            | BoolExpr::IntIn(IntExpr::Fact(slot), _)
            | BoolExpr::FloatIn(FloatExpr::Fact(slot), _)
            | BoolExpr::IpIn(IpExpr::Fact(slot), _)
            | BoolExpr::IpInSet(IpExpr::Fact(slot), _)
            | BoolExpr::StrInSet(StrExpr::Fact(slot), _)
            | BoolExpr::IntInSet(IntExpr::Fact(slot), _)
            | BoolExpr::InTable(LookupKey::Str(StrExpr::Fact(slot)) | LookupKey::Ip(IpExpr::Fact(slot)), _)
            | BoolExpr::ListHas(_, ListExpr::Fact(slot))
            | BoolExpr::ListMeets(ListExpr::Fact(slot), _) => self.present(*slot, true),
            _ => Ok(()),
        }
    }

    fn ints(
        &mut self,
        base: &ValueBounds,
        compare: CompareOperator,
        left: &IntExpr,
        right: &IntExpr,
    ) -> Result<(), Contradiction> {
        let (one, other) = (self.int(base, left), self.int(base, right));
        if !possible(compare, one, other).0 {
            return Err(Contradiction);
        }
        if let IntExpr::Fact(slot) | IntExpr::Time(slot) = left {
            self.narrow(base, *slot, side(compare, other), true)?;
        }
        if let IntExpr::Fact(slot) | IntExpr::Time(slot) = right {
            self.narrow(base, *slot, side(compare.mirrored(), one), true)?;
        }
        Ok(())
    }

    fn floats(
        &mut self,
        base: &ValueBounds,
        compare: CompareOperator,
        left: &FloatExpr,
        right: &FloatExpr,
    ) -> Result<(), Contradiction> {
        let (one, other) = (self.float(base, left), self.float(base, right));
        if !possible(compare, one, other).0 {
            return Err(Contradiction);
        }
        if let FloatExpr::Fact(slot) | FloatExpr::Integer(slot) = left {
            self.narrow(base, *slot, side(compare, other), matches!(left, FloatExpr::Integer(_)))?;
        }
        if let FloatExpr::Fact(slot) | FloatExpr::Integer(slot) = right {
            let whole = matches!(right, FloatExpr::Integer(_));
            self.narrow(base, *slot, side(compare.mirrored(), one), whole)?;
        }
        Ok(())
    }

    fn narrow(
        &mut self,
        base: &ValueBounds,
        slot: Slot,
        to: Interval,
        whole: bool,
    ) -> Result<(), Contradiction> {
        self.present(slot, true)?;
        let narrowed = self.slot(base, slot).meet(to);
        let narrowed = if whole { narrowed.whole() } else { narrowed };
        self.numbers.insert(slot, narrowed);
        if narrowed.is_empty() { Err(Contradiction) } else { Ok(()) }
    }

    fn text(&mut self, slot: Slot, of: &[Box<str>], among: bool) -> Result<(), Contradiction> {
        self.present(slot, true)?;
        let texts = self.texts.entry(slot).or_default();
        if among {
            texts.one_of = Some(match texts.one_of.take() {
                Some(known) => known.into_iter().filter(|text| of.contains(text)).collect(),
                None => of.to_vec(),
            });
        } else {
            texts.none_of.extend(of.iter().cloned());
        }
        let none_of = &texts.none_of;
        let left = texts.one_of.as_ref().map(|one_of| one_of.iter().any(|text| !none_of.contains(text)));
        if left == Some(false) { Err(Contradiction) } else { Ok(()) }
    }

    fn truth(&mut self, subject: TruthSubject, truth: bool) -> Result<(), Contradiction> {
        if *self.truths.entry(subject).or_insert(truth) == truth { Ok(()) } else { Err(Contradiction) }
    }

    fn present(&mut self, slot: Slot, is: bool) -> Result<(), Contradiction> {
        let fits = self.values_only || *self.present.entry(slot).or_insert(is) == is;
        if fits { Ok(()) } else { Err(Contradiction) }
    }

    /// Takes in the bounds that something else knows of numbers.
    pub(crate) fn with_numbers_of(mut self, other: &KnownConstraints) -> KnownConstraints {
        for (slot, interval) in &other.numbers {
            self.numbers.entry(*slot).and_modify(|own| *own = own.meet(*interval)).or_insert(*interval);
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comparisons_go_by_the_ends() {
        let check = |low: f64, high: f64, compare, with: f64, expected| {
            let found = possible(compare, Interval::new(low, high), Interval::point(with));
            assert_eq!(found, expected, "{low}..{high} {compare:?} {with}");
        };
        check(0.0, 23.0, CompareOperator::Greater, 23.0, (false, true));
        check(0.0, 23.0, CompareOperator::GreaterOrEqual, 23.0, (true, true));
        check(0.0, 23.0, CompareOperator::Less, 0.0, (false, true));
        check(0.0, 23.0, CompareOperator::GreaterOrEqual, 0.0, (true, false));
        check(0.0, 23.0, CompareOperator::Equal, 24.0, (false, true));
        check(0.0, 23.0, CompareOperator::NotEqual, 24.0, (true, false));
        check(7.0, 7.0, CompareOperator::Equal, 7.0, (true, false));
        check(0.0, f64::INFINITY, CompareOperator::Less, 1e300, (true, true));
    }

    #[test]
    fn zero_is_told_from_what_is_above_it() {
        let above = Interval { low_open: true, ..Interval::COUNT };
        assert!(Interval::COUNT.has_zero() && !above.has_zero() && !Interval::new(1.0, 2.0).has_zero());
        assert!(!above.plus(Interval::COUNT).has_zero());
        assert!(above.plus(Interval::ANY).has_zero());
        assert!(above.minus(Interval::COUNT).has_zero());
        assert!(!above.times(above).has_zero() && above.times(Interval::COUNT).has_zero());
        assert!(Interval::COUNT.over(above).has_zero());
    }

    #[test]
    fn whole_numbers_close_open_ends() {
        let open = Interval { low: 1.0, high: 2.0, low_open: true, high_open: true, not_zero: false };
        assert!(open.whole().is_empty() && !open.is_empty());
        assert!(Interval::new(2.5, 2.5).whole().is_empty());
    }
}
