//! Stage 4, observe: every key's statistics are read and the event is added to them, in one batch and one step.
//! The readings, from before the event, become the last columns of the row.

use event::{Key, Shingle, Time, Value};
use judge::LimitValue;
use stats::{
    Add, Column, Ledger, LedgerError, Observation, Once, Outcome, Outcomes, Quality, Reading, Request,
};

use super::classify::{self, Known};
use super::keys::{Pair, Prepared};
use crate::limit::{AskedByRules, Limits};
use crate::plan::{KindPlan, ReadingSource};

/// An event that has been counted. It can be settled once, by value.
#[derive(Debug)]
pub(crate) struct Observed {
    pub(crate) prepared: Prepared,
    /// Readings of `prepared.keys`, then of `prepared.pairs`, then of `prepared.marks`, then of limits.
    readings: Vec<Reading>,
    /// An event of this id had been counted before; this one added nothing.
    pub(crate) duplicate: bool,
    /// The ledger could not be had: every reading is missing.
    pub(crate) failed: bool,
}

impl Observed {
    fn new(
        mut prepared: Prepared,
        asked: &AskedByRules<'_>,
        adds: bool,
        outcome: Outcome,
        failed: bool,
    ) -> Observed {
        fill(&mut prepared, asked, adds, &outcome.readings);
        Observed { prepared, readings: outcome.readings, duplicate: outcome.duplicate, failed }
    }

    /// The readings of a kind's keys.
    pub(crate) fn of_kind(&self, kind: usize) -> &[Reading] {
        self.readings.get(self.prepared.counted(kind)).unwrap_or_default()
    }

    /// The pairs of a distinct count with their readings.
    pub(crate) fn of_distinct(&self, distinct: usize) -> impl Iterator<Item = (&Pair, &Reading)> {
        let range = self.prepared.by_distinct.get(distinct).cloned().unwrap_or_default();
        let readings = self.readings.get(self.prepared.keys.len()..).unwrap_or_default();
        let pairs = self.prepared.pairs.get(range.clone()).unwrap_or_default();
        pairs.iter().zip(readings.get(range).unwrap_or_default())
    }

    /// The readings of a label's marks.
    pub(crate) fn of_label(&self, label: usize) -> &[Reading] {
        let range = self.prepared.by_label.get(label).cloned().unwrap_or_default();
        let marks = self.prepared.keys.len() + self.prepared.pairs.len();
        self.readings.get(marks + range.start..marks + range.end).unwrap_or_default()
    }

    /// Every key, and every owner of distinct values once, with what was known of it before the event.
    pub(crate) fn known(&self) -> impl Iterator<Item = (&Key, &Reading)> {
        let (of_keys, of_pairs) = self.readings.split_at(self.prepared.keys.len().min(self.readings.len()));
        self.prepared.keys.iter().zip(of_keys).chain(owners(&self.prepared.pairs, of_pairs))
    }
}

/// The owners of a run of pairs, each with the reading of its first pair: those of the others already include what
/// the event itself has added.
fn owners<'a>(pairs: &'a [Pair], readings: &'a [Reading]) -> impl Iterator<Item = (&'a Key, &'a Reading)> {
    let mut last = None;
    let pairs = pairs.iter().zip(readings);
    pairs.filter_map(move |(pair, reading)| {
        (last.replace(pair.owner) != Some(pair.owner)).then_some((&pair.owner, reading))
    })
}

/// Reads and adds. An error of the ledger is not the caller's end: readings are then missing and say so.
pub(crate) async fn observe(
    ledger: &dyn Ledger,
    prepared: Vec<Prepared>,
    limits: Option<&Limits<'_>>,
) -> (Vec<Observed>, Option<LedgerError>) {
    let asked: Vec<AskedByRules<'_>> = prepared.iter().map(|event| asked(event, limits)).collect();
    let requests: Vec<Request> =
        prepared.iter().zip(&asked).map(|(event, asked)| request(event, asked, What::Seen)).collect();
    let (prepared, outcomes, error) = ask(ledger, prepared, requests).await;
    let failed = error.is_some();
    let mut outcomes = outcomes.outcomes();
    let observed = prepared.into_iter().zip(&asked).map(|(prepared, asked)| {
        let outcome = outcomes.next().unwrap_or_else(|| {
            let count = prepared.keys.len() + prepared.pairs.len() + prepared.marks.len();
            Outcome { duplicate: false, readings: vec![Reading::missing(); count] }
        });
        Observed::new(prepared, asked, true, outcome, failed)
    });
    (observed.collect(), error)
}

/// What an event takes from limits.
fn asked<'a>(event: &Prepared, limits: Option<&Limits<'a>>) -> AskedByRules<'a> {
    let Some(limits) = limits.filter(|_| !event.row.pipeline.limits.is_empty()) else {
        return AskedByRules::default();
    };
    limits.asked(&event.row.pipeline, &event.row.facts, event.row.time)
}

/// Sends the events' requests, and behind them what classifiers want to know, as one batch. What classifiers say is
/// filled in.
async fn ask(
    ledger: &dyn Ledger,
    mut prepared: Vec<Prepared>,
    mut requests: Vec<Request>,
) -> (Vec<Prepared>, Outcomes, Option<LedgerError>) {
    let mut at = requests.len();
    for event in &prepared {
        requests.extend(event.tokens.iter().flatten().map(|tokens| tokens.look(event.row.time)));
    }
    let (outcomes, error) = match ledger.observe(&requests).await {
        Ok(outcomes) => (outcomes, None),
        Err(error) => (Outcomes::default(), Some(error)),
    };
    for Prepared { tokens, row, .. } in &mut prepared {
        for (plan, tokens) in row.pipeline.classifiers.iter().zip(tokens) {
            let Some(tokens) = tokens else { continue };
            if let Some(known) = Known::of(tokens, outcomes.readings(at)) {
                classify::fill(plan, tokens, &known, &mut row.facts);
            }
            at += 1;
        }
    }
    (prepared, outcomes, error)
}

/// Reads one event's keys and adds what is said, or fails.
pub(crate) async fn observe_one(
    ledger: &dyn Ledger,
    prepared: Prepared,
    limits: Option<&Limits<'_>>,
    what: What,
) -> Result<Observed, LedgerError> {
    let adds = matches!(what, What::Seen);
    let asked = asked(&prepared, limits);
    let requests = vec![request(&prepared, &asked, what)];
    let (mut prepared, outcomes, error) = ask(ledger, vec![prepared], requests).await;
    match (prepared.pop(), error) {
        (Some(prepared), None) => {
            let outcome = outcomes.outcomes().next().unwrap_or_default();
            Ok(Observed::new(prepared, &asked, adds, outcome, false))
        }
        (_, error) => Err(error.unwrap_or(LedgerError::Closed)),
    }
}

/// What an event adds.
pub(crate) enum What {
    /// Itself.
    Seen,
    /// Nothing.
    Nothing,
}

/// The ledger's request for an event's keys.
pub(crate) fn request(prepared: &Prepared, asked: &AskedByRules<'_>, what: What) -> Request {
    let time = prepared.row.time;
    let mut observations = Vec::with_capacity(prepared.keys.len() + prepared.pairs.len());
    for (index, plan) in prepared.row.pipeline.kinds.iter().enumerate() {
        let add = match &what {
            What::Seen if !plan.track.is_empty() => Add::Value(value(plan, prepared)),
            What::Seen => counters(plan.observe.iter().copied()),
            What::Nothing => Add::Nothing,
        };
        let keys = prepared.keys.get(prepared.counted(index)).unwrap_or_default();
        observations.extend(keys.iter().map(|key| Observation { key: *key, time, add: add.clone() }));
    }
    let pairs = |add: fn(Shingle) -> Add| {
        prepared.pairs.iter().map(move |pair| Observation { key: pair.owner, time, add: add(pair.pair) })
    };
    let marks = || prepared.marks.iter().map(|key| Observation { key: *key, time, add: Add::Nothing });
    let adds = matches!(what, What::Seen);
    let once = match what {
        What::Seen => {
            observations.extend(pairs(|pair| Add::Distinct { pair }));
            observations.extend(marks());
            prepared.once.map(|key| Once { key, time })
        }
        What::Nothing => {
            observations.extend(pairs(|_| Add::Nothing));
            observations.extend(marks());
            None
        }
    };
    observations.extend(asked.observations(adds));
    Request { once, observations }
}

/// The event's value for a kind's track.
pub(crate) fn value(plan: &KindPlan, prepared: &Prepared) -> Option<i64> {
    match prepared.row.facts.get(plan.value?)? {
        Value::Integer(integer) => Some(*integer),
        _ => None,
    }
}

pub(crate) fn counters(adds: impl Iterator<Item = (u8, u64)>) -> Add {
    let mut adds = adds.peekable();
    if adds.peek().is_none() { Add::Nothing } else { Add::Counters(adds.collect()) }
}

fn fill(prepared: &mut Prepared, asked: &AskedByRules<'_>, adds: bool, readings: &[Reading]) {
    let pipeline = &prepared.row.pipeline;
    let (of_keys, rest) = readings.split_at(prepared.keys.len().min(readings.len()));
    let (of_pairs, rest) = rest.split_at(prepared.pairs.len().min(rest.len()));
    let (of_marks, of_limits) = rest.split_at(prepared.marks.len().min(rest.len()));
    let told = asked.told(of_limits, adds, pipeline.limits.len());
    for column in &pipeline.readings {
        let value = match &column.source {
            ReadingSource::Distinct { distinct, window } => {
                let plan = pipeline.distincts.get(*distinct);
                let index = plan.and_then(|plan| plan.windows.iter().position(|other| other == window));
                let range = prepared.by_distinct.get(*distinct).cloned().unwrap_or_default();
                let pairs = prepared.pairs.get(range.clone()).unwrap_or_default();
                let readings =
                    owners(pairs, of_pairs.get(range).unwrap_or_default()).map(|(_, reading)| reading);
                index.and_then(|index| largest(readings, |reading| reading.sum(index, 0)))
            }
            ReadingSource::EstimatedDistinct { distinct } => {
                let range = prepared.by_distinct.get(*distinct).cloned().unwrap_or_default();
                estimated(of_pairs.get(range).unwrap_or_default())
            }
            ReadingSource::Marked { label } => {
                let range = prepared.by_label.get(*label).cloned().unwrap_or_default();
                marked(of_marks.get(range).unwrap_or_default(), prepared.row.time)
            }
            ReadingSource::Limit { limit, value } => {
                told.get(*limit).copied().flatten().map(|(over, left)| match value {
                    LimitValue::Over => Value::Bool(over),
                    LimitValue::Remaining => Value::Integer(i64::try_from(left).unwrap_or(i64::MAX)),
                })
            }
            ReadingSource::Estimated { kind } => {
                estimated(of_keys.get(prepared.counted(*kind)).unwrap_or_default())
            }
            ReadingSource::Count { kind, .. }
            | ReadingSource::Ratio { kind, .. }
            | ReadingSource::Track { kind, .. }
            | ReadingSource::FirstAge { kind }
            | ReadingSource::LastAge { kind } => {
                let readings = of_keys.get(prepared.counted(*kind));
                let plan = pipeline.kinds.get(*kind);
                plan.and_then(|plan| {
                    reading(plan, &column.source, readings.unwrap_or_default(), prepared.row.time)
                })
            }
        };
        if let Some(value) = value {
            prepared.row.facts.set(column.slot, value);
        }
    }
}

/// What a column says of the readings of a kind's keys; `None` where there is no key or its reading is missing.
fn reading(plan: &KindPlan, source: &ReadingSource, readings: &[Reading], time: Time) -> Option<Value> {
    let window_index = |window: &event::Span| plan.windows.iter().position(|other| other == window);
    match source {
        ReadingSource::Count { counter, window, .. } => {
            let window = window_index(window)?;
            largest(readings, |reading| reading.sum(window, *counter))
        }
        ReadingSource::Ratio { over, under, at_least, .. } => {
            let sum = |reading: &Reading, terms: &[(usize, event::Span)]| {
                terms.iter().try_fold(0u64, |sum, (counter, window)| {
                    Some(sum.saturating_add(reading.sum(window_index(window)?, *counter)))
                })
            };
            let shares = present(readings).filter_map(|reading| {
                let (over, under) = (sum(reading, over)?, sum(reading, under)?);
                Some(if under == 0 || under < *at_least { 0.0 } else { over as f64 / under as f64 })
            });
            shares.reduce(f64::max).map(Value::Float)
        }
        ReadingSource::FirstAge { .. } => {
            let ages =
                present(readings).map(|reading| reading.first.map_or(0, |first| (time - first).0.max(0)));
            ages.min().map(Value::Integer)
        }
        ReadingSource::LastAge { .. } => {
            let ages =
                present(readings).filter_map(|reading| reading.last.map(|last| (time - last).0.max(0)));
            ages.min().map(Value::Integer)
        }
        ReadingSource::Track { column, .. } => {
            let kept = plan.track.get(*column)?;
            let values = present(readings).filter_map(|reading| {
                Some(match kept.value(reading.sum(0, *column)) {
                    stats::Value::Count(count) => Value::Integer(i64::try_from(count).unwrap_or(i64::MAX)),
                    stats::Value::Integer(integer) => Value::Integer(integer?),
                    stats::Value::Real(float) => Value::Float(float),
                    stats::Value::Time(_) => return None,
                })
            });
            values.reduce(|one, other| {
                let keep = match (&one, &other) {
                    (Value::Integer(one), Value::Integer(other)) if *kept == Column::Min => one <= other,
                    (Value::Integer(one), Value::Integer(other)) => one >= other,
                    (Value::Float(one), Value::Float(other)) => one >= other,
                    _ => true,
                };
                if keep { one } else { other }
            })
        }
        ReadingSource::Distinct { .. }
        | ReadingSource::Marked { .. }
        | ReadingSource::Limit { .. }
        | ReadingSource::Estimated { .. }
        | ReadingSource::EstimatedDistinct { .. } => None,
    }
}

/// Whether one of the readings that are there is an estimate; `None` where none is there.
fn estimated(readings: &[Reading]) -> Option<Value> {
    let estimates = present(readings).map(|reading| reading.quality == Quality::Estimated);
    estimates.reduce(|one, other| one || other).map(Value::Bool)
}

/// Whether one of the marks still holds; `None` where none could be looked up.
fn marked(readings: &[Reading], time: Time) -> Option<Value> {
    let holds = present(readings).map(|reading| match Column::Max.value(reading.sum(0, 0)) {
        stats::Value::Integer(Some(until)) => until > time.0,
        _ => false,
    });
    holds.reduce(|one, other| one || other).map(Value::Bool)
}

fn present<'a>(readings: impl IntoIterator<Item = &'a Reading>) -> impl Iterator<Item = &'a Reading> {
    readings.into_iter().filter(|reading| reading.quality != Quality::Missing)
}

fn largest<'a>(
    readings: impl IntoIterator<Item = &'a Reading>,
    of: impl Fn(&Reading) -> u64,
) -> Option<Value> {
    let largest = present(readings).map(of).max()?;
    Some(Value::Integer(i64::try_from(largest).unwrap_or(i64::MAX)))
}
