//! Resolution of the names of a condition: the engine knows facts, kinds and statistics, this crate does
//! not.

use std::borrow::Cow;
use std::fmt;

use event::{Slot, Span, Type};

use crate::action::Mode;

/// A function from text to text that the engine has, and this crate has not: pure, linear in the text, and `None` where
/// the text has no such part.
pub type TextFunction = fn(&str) -> Option<Cow<'_, str>>;

/// The names that a condition may use. The engine implements it over its plan.
///
/// Asking for a reading has an effect: the engine sets aside a column of the row for it, and fills that
/// column before it judges. The same request twice should give the same slot.
pub trait Scope {
    /// The slot and type of a fact by its dotted name, e.g. `mail.subject`.
    fn fact(&self, name: &str) -> Option<(Slot, Type)>;

    /// The slot in which the engine will put a reading. The column has [`ReadingRequest::column_type`].
    fn reading(&mut self, request: &ReadingRequest<'_>) -> Result<Slot, ScopeError>;

    /// Returns whether there is a kind of this name, e.g. `from`.
    fn is_kind(&self, name: &str) -> bool;

    /// Returns whether the keys of a kind have an aggregate instead of counters.
    fn is_aggregate(&self, kind: &str) -> bool;

    /// Returns whether there is a distinct statistic of this name, e.g. `rcpts`.
    fn is_distinct(&self, name: &str) -> bool;

    /// The bytes that regular expressions may still be compiled to together; what one takes is taken off. None where
    /// whoever wrote them is not bounded.
    fn regex_bytes(&mut self) -> Option<&mut usize> {
        None
    }

    /// Returns whether compiling is to end, as nobody waits for what comes of it.
    fn is_over(&self) -> bool {
        false
    }

    /// The column that the engine puts a model's output in before rules are judged, [`Type::Float`], and how
    /// seriously it is taken. None unless the engine has models.
    fn model(&self, name: &str) -> Option<(Slot, Mode)> {
        let _ = name;
        None
    }

    /// The function from text to text of this name, one of [`TEXT_FUNCTIONS`](crate::TEXT_FUNCTIONS).
    fn text_function(&self, name: &str) -> Option<TextFunction> {
        let _ = name;
        None
    }

    /// Checks that the keys of a kind have a counter that effects can add to.
    ///
    /// # Errors
    /// [`ScopeError::Counter`], or [`ScopeError::Unavailable`] where the kind has no counters at all.
    fn counter(&self, kind: &str, counter: &str) -> Result<(), ScopeError> {
        let _ = counter;
        Err(ScopeError::Unavailable(format!("nothing is counted for the kind `{kind}`")))
    }

    /// Checks that the keys of a kind have a counter that effects can clear.
    ///
    /// # Errors
    /// As of [`Scope::counter`]; and [`ScopeError::Unavailable`] where what was added to it cannot be taken back.
    fn clears(&self, kind: &str, counter: &str) -> Result<(), ScopeError> {
        self.counter(kind, counter)
    }

    /// Returns the longest time for which a label holds on the values of a distinct count, whose latest ones are known.
    ///
    /// # Errors
    /// [`ScopeError::Unavailable`] where they are not, and [`ScopeError::Label`] where no such label is of these values.
    fn contributors(&self, distinct: &str, label: &str) -> Result<Span, ScopeError> {
        let _ = label;
        Err(ScopeError::Unavailable(format!("nothing distinct is called `{distinct}`")))
    }

    /// Checks that effects can give back to an event's keys what was taken from a limit.
    ///
    /// # Errors
    /// [`ScopeError::Unavailable`] where there is no such limit, or it has no key in this scope's events.
    fn clears_limit(&mut self, limit: &str) -> Result<(), ScopeError> {
        Err(ScopeError::Unavailable(format!("there is no limit `{limit}`")))
    }

    /// Returns whether a reading of whole numbers is of fractions in fixed point: its column has [`Type::Float`] then.
    fn is_fraction(&self, request: &ReadingRequest<'_>) -> bool {
        let _ = request;
        false
    }

    /// Checks that effects can add values to the aggregate of a kind, and returns how many decimals they can have.
    ///
    /// # Errors
    /// [`ScopeError::Unavailable`] where events alone add to it, or it has none.
    fn takes_values(&self, kind: &str) -> Result<u8, ScopeError> {
        Err(ScopeError::Unavailable(format!("events alone are added to `{kind}`")))
    }

    /// Returns the longest time for which a label holds on a key of a kind.
    ///
    /// # Errors
    /// [`ScopeError::Label`].
    fn label(&self, kind: &str, label: &str) -> Result<Span, ScopeError> {
        let _ = kind;
        Err(ScopeError::Label { name: label.to_owned(), known: Vec::new() })
    }

    /// All names of one sort, from which the nearest is offered when one is unknown.
    fn names(&self, of: NameCategory) -> Vec<String>;
}

/// A sort of names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameCategory {
    /// Facts, dotted.
    Fact,
    /// Kinds of keys.
    Kind,
    /// Distinct statistics.
    Distinct,
    /// Models.
    Model,
}

/// A request for a reading of the statistics of an event's keys, as they were before the event.
///
/// An event may have several keys of a kind (links). The engine takes the largest count, the largest ratio
/// (made per key) and the youngest age over them. It leaves the slot empty, which is missing, where the event
/// has no key of the kind or the statistic cannot be read.
///
/// Prints as rules write it (`from.seen('1h')`), which is a name for the column: equal requests print
/// equally.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ReadingRequest<'a> {
    /// A counter's sum over a window; [`Type::Integer`], not negative.
    Count {
        /// The kind.
        kind: &'a str,
        /// The counter of the kind.
        counter: &'a str,
        /// The trailing window; `None` is all that is kept.
        window: Option<Span>,
    },
    /// The numerator divided by the denominator, [`Type::Float`], not negative; 0 where the denominator is
    /// below `at_least`.
    Ratio {
        /// The kind of both.
        kind: &'a str,
        /// The dividend.
        numerator: CounterSum<'a>,
        /// The divisor.
        denominator: CounterSum<'a>,
        /// The least denominator that says something, at least 1.
        at_least: u64,
    },
    /// The way in which a counter is spread over the buckets of a window: the current one, and the whole ones before it.
    /// Over several keys the engine takes the greatest of [`BucketFunction::Max`], and the least of the others.
    Buckets {
        /// The kind.
        kind: &'a str,
        /// The counter of the kind.
        counter: &'a str,
        /// The trailing window, a multiple of the width.
        window: Span,
        /// The width of a bucket.
        width: Span,
        /// One of their values.
        value: BucketFunction,
    },
    /// The time since a key was first seen; [`Type::Integer`], microseconds, not negative. 0 for a key that was
    /// never seen before.
    FirstAge {
        /// The kind.
        kind: &'a str,
    },
    /// The time since a key was last seen before this event; [`Type::Integer`], microseconds, not negative.
    /// Missing for a key that was never seen before.
    LastAge {
        /// The kind.
        kind: &'a str,
    },
    /// A value that an aggregate keeps over all events of a key.
    Aggregate {
        /// The kind.
        kind: &'a str,
        /// The function of its values.
        value: AggregateFunction,
    },
    /// The number of distinct values; [`Type::Integer`], not negative.
    Distinct {
        /// The distinct statistic.
        name: &'a str,
        /// The trailing window.
        window: Span,
    },
    /// The value that a field had in the last event of a key; [`Type::String`], missing where none is known. Over several
    /// keys of an event the engine takes that of the latest.
    Last {
        /// The name of what is kept.
        name: &'a str,
    },
    /// The truth of a key's never having been seen, or of a value's being none of those that a distinct count has in the
    /// event's period; [`Type::Bool`]. Over several the engine says whether one of them is new.
    New {
        /// The kind, or the distinct statistic.
        name: &'a str,
    },
    /// The truth of a key's having a label that holds at the event's time; [`Type::Bool`].
    Marked {
        /// The kind.
        kind: &'a str,
        /// The label.
        label: &'a str,
    },
    /// A value of a limit for the event: over several keys of it, the strictest.
    Limit {
        /// The limit.
        name: &'a str,
        /// The part of the limit's state.
        value: LimitValue,
    },
    /// A value of a reputation: over several keys of an event, that of the worst.
    Reputation {
        /// The reputation.
        name: &'a str,
        /// One of its values.
        value: ReputationValue,
    },
    /// The truth of another reading being an estimate, for one of the keys that it is over; [`Type::Bool`], missing where
    /// that reading is.
    Estimated(Box<ReadingRequest<'a>>),
}

/// A value of a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LimitValue {
    /// True if the event is over it, or its key banned; [`Type::Bool`].
    Over,
    /// The amount that is left after the event; [`Type::Integer`], not negative.
    Remaining,
}

/// The grades of reputations, worst first.
pub const GRADES: [&str; 5] = ["bad", "suspicious", "unknown", "known", "trusted"];

/// A value of a reputation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReputationValue {
    /// The score; [`Type::Float`].
    Score,
    /// The name of the grade, one of [`GRADES`]; [`Type::String`].
    Grade,
    /// The weight of what is known; [`Type::Float`], not negative.
    Evidence,
}

impl ReputationValue {
    /// Returns the function that rules ask for it with.
    pub fn function(self) -> &'static str {
        match self {
            ReputationValue::Score => "reputation",
            ReputationValue::Grade => "grade",
            ReputationValue::Evidence => "evidence",
        }
    }
}

/// A value of an aggregate. Over several keys of an event the engine takes the largest, but the least of
/// [`AggregateFunction::Min`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AggregateFunction {
    /// The number of events; [`Type::Integer`], not negative.
    Count,
    /// The sum of their values; [`Type::Integer`].
    Sum,
    /// The least value; [`Type::Integer`], missing where there was none.
    Min,
    /// The greatest value; [`Type::Integer`], missing where there was none.
    Max,
    /// A sum in which an event counts half after each half-life; [`Type::Float`].
    Decayed(Span),
}

impl AggregateFunction {
    /// The names that rules have for them.
    pub const NAMES: [&str; 5] = ["count", "decayed", "max", "min", "sum"];
}

/// A value of a counter's buckets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BucketFunction {
    /// The greatest bucket, the current one among them; [`Type::Integer`], not negative.
    Max,
    /// The number of whole buckets that are empty; [`Type::Integer`], not negative.
    Empty,
    /// The variance of the whole buckets over their mean; [`Type::Float`], not negative, missing where all are empty.
    Dispersion,
    /// The median of the intervals between events, as far as buckets tell; a length of time, missing of fewer than two events.
    MedianInterval,
    /// The standard deviation of these intervals over their mean; [`Type::Float`], not negative, missing of fewer than three
    /// events.
    IntervalVariation,
}

impl BucketFunction {
    /// The names that rules have for them.
    pub const NAMES: [&str; 5] =
        ["dispersion", "empty_buckets", "interval_variation", "max_bucket", "median_interval"];

    /// Returns the name that rules have for it.
    pub fn name(self) -> &'static str {
        match self {
            BucketFunction::Dispersion => "dispersion",
            BucketFunction::Empty => "empty_buckets",
            BucketFunction::IntervalVariation => "interval_variation",
            BucketFunction::Max => "max_bucket",
            BucketFunction::MedianInterval => "median_interval",
        }
    }
}

/// Counters of one kind added up over one window.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CounterSum<'a> {
    /// The counters, at least one, in the order written.
    pub counters: Vec<&'a str>,
    /// The trailing window; `None` is all that is kept.
    pub window: Option<Span>,
}

impl ReadingRequest<'_> {
    /// The type of the column that holds the reading. Ages and intervals are whole microseconds.
    pub fn column_type(&self) -> Type {
        match self {
            ReadingRequest::Ratio { .. }
            | ReadingRequest::Buckets {
                value: BucketFunction::Dispersion | BucketFunction::IntervalVariation,
                ..
            }
            | ReadingRequest::Reputation {
                value: ReputationValue::Score | ReputationValue::Evidence, ..
            }
            | ReadingRequest::Aggregate { value: AggregateFunction::Decayed(_), .. } => Type::Float,
            ReadingRequest::New { .. }
            | ReadingRequest::Marked { .. }
            | ReadingRequest::Limit { value: LimitValue::Over, .. }
            | ReadingRequest::Estimated(_) => Type::Bool,
            ReadingRequest::Last { .. }
            | ReadingRequest::Reputation { value: ReputationValue::Grade, .. } => Type::String,
            _ => Type::Integer,
        }
    }

    /// Returns whether the reading can be below zero.
    pub fn is_signed(&self) -> bool {
        match self {
            ReadingRequest::Aggregate { value, .. } => *value != AggregateFunction::Count,
            ReadingRequest::Reputation { value, .. } => *value == ReputationValue::Score,
            _ => false,
        }
    }

    /// Returns whether the reading is a length of time.
    pub fn is_age(&self) -> bool {
        matches!(
            self,
            ReadingRequest::FirstAge { .. }
                | ReadingRequest::LastAge { .. }
                | ReadingRequest::Buckets { value: BucketFunction::MedianInterval, .. }
        )
    }
}

fn write_count(f: &mut fmt::Formatter<'_>, kind: &str, counter: &str, window: Option<Span>) -> fmt::Result {
    match window {
        Some(window) => write!(f, "{kind}.{counter}('{window}')"),
        None => write!(f, "{kind}.{counter}()"),
    }
}

fn write_sum(f: &mut fmt::Formatter<'_>, kind: &str, sum: &CounterSum<'_>) -> fmt::Result {
    for (index, counter) in sum.counters.iter().enumerate() {
        if index > 0 {
            f.write_str(" + ")?;
        }
        write_count(f, kind, counter, sum.window)?;
    }
    Ok(())
}

impl fmt::Display for ReadingRequest<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReadingRequest::Count { kind, counter, window } => write_count(f, kind, counter, *window),
            ReadingRequest::Ratio { kind, numerator, denominator, at_least } => {
                f.write_str("ratio(")?;
                write_sum(f, kind, numerator)?;
                f.write_str(", ")?;
                write_sum(f, kind, denominator)?;
                write!(f, ", {at_least})")
            }
            ReadingRequest::Buckets { kind, counter, window, width, value } => {
                write!(f, "{}(", value.name())?;
                write_count(f, kind, counter, Some(*window))?;
                write!(f, ", '{width}')")
            }
            ReadingRequest::FirstAge { kind } => write!(f, "{kind}.first_age()"),
            ReadingRequest::LastAge { kind } => write!(f, "{kind}.last_age()"),
            ReadingRequest::Aggregate { kind, value } => match value {
                AggregateFunction::Count => write!(f, "{kind}.count()"),
                AggregateFunction::Sum => write!(f, "{kind}.sum()"),
                AggregateFunction::Min => write!(f, "{kind}.min()"),
                AggregateFunction::Max => write!(f, "{kind}.max()"),
                AggregateFunction::Decayed(half_life) => write!(f, "{kind}.decayed('{half_life}')"),
            },
            ReadingRequest::Distinct { name, window } => write!(f, "distinct('{name}', '{window}')"),
            ReadingRequest::Last { name } => write!(f, "last('{name}')"),
            ReadingRequest::New { name } => write!(f, "is_new('{name}')"),
            ReadingRequest::Marked { kind, label } => write!(f, "{kind}.marked('{label}')"),
            ReadingRequest::Limit { name, value: LimitValue::Over } => write!(f, "over('{name}')"),
            ReadingRequest::Limit { name, value: LimitValue::Remaining } => {
                write!(f, "remaining('{name}')")
            }
            ReadingRequest::Reputation { name, value } => write!(f, "{}('{name}')", value.function()),
            ReadingRequest::Estimated(of) => write!(f, "estimated({of})"),
        }
    }
}

/// Reasons for a reading that the engine cannot give.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScopeError {
    /// The kind has no such counter.
    Counter {
        /// The counter asked for.
        name: String,
        /// The counters that it has.
        known: Vec<String>,
    },
    /// The kind has no such label.
    Label {
        /// The label asked for.
        name: String,
        /// The labels that its keys can have.
        known: Vec<String>,
    },
    /// The statistic does not keep such a window or half-life; the text says which ones it does keep.
    Window(String),
    /// The kind's statistics have no such reading at all, or there is no column left.
    Unavailable(String),
}
