//! Stage 4, observe: every key's statistics are read and the event is added to them, in one batch and one step.
//! The readings, from before the event, become the last columns of the row.

use event::{Facts, Time, Value};
use stats::{Add, Ledger, LedgerError, Observation, Once, Outcome, Quality, Reading, Request};

use super::keys::Prepared;
use crate::plan::{KindPlan, Pipeline, ReadingSource};

/// An event that has been counted. It can be settled once, by value.
#[derive(Debug)]
pub(crate) struct Observed {
    pub(crate) prepared: Prepared,
    /// Readings of `prepared.keys`, then of `prepared.pairs`.
    pub(crate) readings: Vec<Reading>,
    /// An event of this id had been counted before; this one added nothing.
    pub(crate) duplicate: bool,
    /// The ledger could not be had: every reading is missing.
    pub(crate) failed: bool,
}

/// Reads and adds. An error of the ledger is not the caller's end: readings are then missing and say so.
pub(crate) async fn observe(
    ledger: &dyn Ledger,
    prepared: Vec<Prepared>,
) -> (Vec<Observed>, Option<LedgerError>) {
    let requests: Vec<Request> = prepared.iter().map(|event| request(event, What::Seen)).collect();
    let (outcomes, error) = match ledger.observe(&requests).await {
        Ok(outcomes) => (outcomes, None),
        Err(error) => (Vec::new(), Some(error)),
    };
    let failed = error.is_some();
    let mut outcomes = outcomes.into_iter();
    let observed = prepared.into_iter().map(|mut prepared| {
        let count = prepared.keys.len() + prepared.pairs.len();
        let outcome = outcomes
            .next()
            .unwrap_or_else(|| Outcome { duplicate: false, readings: vec![Reading::missing(); count] });
        fill(&mut prepared, &outcome.readings);
        Observed { prepared, readings: outcome.readings, duplicate: outcome.duplicate, failed }
    });
    (observed.collect(), error)
}

/// Reads without adding: what is known of the event's keys now.
pub(crate) async fn peek(ledger: &dyn Ledger, mut prepared: Prepared) -> Result<Observed, LedgerError> {
    let outcomes = ledger.observe(&[request(&prepared, What::Nothing)]).await?;
    let readings = outcomes.into_iter().next().map(|outcome| outcome.readings).unwrap_or_default();
    fill(&mut prepared, &readings);
    Ok(Observed { prepared, readings, duplicate: false, failed: false })
}

/// What an event adds.
pub(crate) enum What<'a> {
    /// Itself.
    Seen,
    /// Nothing.
    Nothing,
    /// What was said about it: these counters, and nothing distinct.
    Said { counters: &'a [String], once: Once },
}

/// The ledger's request for an event's keys.
pub(crate) fn request(prepared: &Prepared, what: What<'_>) -> Request {
    let time = prepared.time;
    let mut observations = Vec::with_capacity(prepared.keys.len() + prepared.pairs.len());
    for (plan, range) in prepared.pipeline.kinds.iter().zip(&prepared.by_kind) {
        let add = match &what {
            What::Seen => counters(plan.observe.iter().copied()),
            What::Nothing => Add::Nothing,
            What::Said { counters: names, .. } => named(plan, names),
        };
        let keys = prepared.keys.get(range.clone()).unwrap_or_default();
        observations.extend(keys.iter().map(|key| Observation { key: *key, time, add: add.clone() }));
    }
    let distinct = matches!(what, What::Seen);
    observations.extend(prepared.pairs.iter().map(|pair| Observation {
        key: pair.owner,
        time,
        add: if distinct { Add::Distinct { pair: pair.pair } } else { Add::Nothing },
    }));
    let once = match what {
        What::Seen => prepared.once.map(|key| Once { key, time }),
        What::Nothing => None,
        What::Said { once, .. } => Some(once),
    };
    Request { once, observations }
}

/// One more of each of these counters.
pub(crate) fn named(plan: &KindPlan, names: &[String]) -> Add {
    counters(names.iter().filter_map(|name| Some((plan.counter(name)?, 1))))
}

pub(crate) fn counters(adds: impl Iterator<Item = (u8, u64)>) -> Add {
    let mut adds = adds.peekable();
    if adds.peek().is_none() { Add::Nothing } else { Add::Counters(adds.collect()) }
}

fn fill(prepared: &mut Prepared, readings: &[Reading]) {
    let pipeline = &prepared.pipeline;
    let (of_keys, of_pairs) = readings.split_at(prepared.keys.len().min(readings.len()));
    for column in &pipeline.readings {
        let value = match &column.source {
            ReadingSource::Distinct { distinct, window } => {
                let plan = pipeline.distincts.get(*distinct);
                let index = plan.and_then(|plan| plan.windows.iter().position(|other| other == window));
                let readings =
                    prepared.by_distinct.get(*distinct).and_then(|range| of_pairs.get(range.clone()));
                index.and_then(|index| largest(readings.unwrap_or_default(), |reading| reading.sum(index, 0)))
            }
            ReadingSource::Count { kind, .. }
            | ReadingSource::Ratio { kind, .. }
            | ReadingSource::FirstAge { kind }
            | ReadingSource::LastAge { kind } => {
                let readings = prepared.by_kind.get(*kind).and_then(|range| of_keys.get(range.clone()));
                let plan = pipeline.kinds.get(*kind);
                plan.and_then(|plan| {
                    reading(plan, &column.source, readings.unwrap_or_default(), prepared.time)
                })
            }
        };
        if let Some(value) = value {
            prepared.facts.set(column.slot, value);
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
        ReadingSource::Distinct { .. } => None,
    }
}

fn present(readings: &[Reading]) -> impl Iterator<Item = &Reading> {
    readings.iter().filter(|reading| reading.quality != Quality::Missing)
}

fn largest(readings: &[Reading], of: impl Fn(&Reading) -> u64) -> Option<Value> {
    let largest = present(readings).map(of).max()?;
    Some(Value::Integer(i64::try_from(largest).unwrap_or(i64::MAX)))
}

/// The facts that the journal keeps.
pub(crate) fn journalled(pipeline: &Pipeline, mut facts: Facts) -> Facts {
    for (column, slot) in pipeline.schema.columns().iter().zip(0..) {
        if !column.journalled {
            facts.clear(event::Slot(slot));
        }
    }
    facts
}
