//! Stage 4, observe: every key's statistics are read and the event is added to them, in one batch and one step.
//! The readings, from before the event, become the last columns of the row.

use std::sync::Arc;

use event::{Facts, Key, Shingle, Slot, Span, Table, TableIndex, Time, Value};
use judge::{BucketFunction, LimitValue, ReputationValue};
use stats::{
    Addition, AdditionOverlay, AggregateColumn, Catalog, DedupeMark, LastValueForm, Ledger, LedgerError,
    Observation, ObserveOutcomes, ObserveRequest, Origin, Quality, ReadingView, Readings,
};

use super::classifiers::{self, ClassifierReading};
use super::keys::{DistinctPair, PreparedEvent};
use super::reputation::{self, EventReadings};
use crate::limit::{ClearedLimits, LimitContext, RuleReading, RuleTakes};
use plan::{DistinctPlan, KindPlan, LabelPlan, Pipeline, ReadingColumn, ReadingSource, RuleLimit};

/// Events that have been counted, with what was known of their keys before. They can be settled once, by value.
#[derive(Debug)]
pub(crate) struct ObservedBatch {
    prepared: Vec<PreparedEvent>,
    /// The readings of each event: its keys, then its pairs, then its marks, then limits.
    outcomes: ObserveOutcomes,
    /// The ledger could not be had: every reading is missing.
    failed: bool,
    /// The events of which a key or a classifier's tokens could not be read, in order.
    unread: Vec<usize>,
}

/// One of them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ObservedEvent<'a> {
    pub(crate) prepared: &'a PreparedEvent,
    readings: Readings<'a>,
    /// An event of this id had been counted before; this one added nothing.
    pub(crate) duplicate: bool,
    /// True if it is not known to be counted.
    pub(crate) uncounted: bool,
    /// True if something that was asked of the ledger is missing, though perhaps not all.
    pub(crate) is_blind: bool,
}

impl ObservedBatch {
    /// Returns the number of events.
    pub(crate) fn len(&self) -> usize {
        self.prepared.len()
    }

    /// Returns true if the ledger could not be had at all.
    pub(crate) fn is_failed(&self) -> bool {
        self.failed
    }

    /// One of them, by its number.
    pub(crate) fn event(&self, at: usize) -> ObservedEvent<'_> {
        let (readings, duplicate) = (self.outcomes.readings(at), self.outcomes.duplicate(at));
        let uncounted = self.failed || self.outcomes.is_unconfirmed(at);
        let is_blind = uncounted || self.unread.binary_search(&at).is_ok();
        ObservedEvent { prepared: &self.prepared[at], readings, duplicate, uncounted, is_blind }
    }

    /// All of them, in order.
    pub(crate) fn events(&self) -> impl ExactSizeIterator<Item = ObservedEvent<'_>> {
        (0..self.len()).map(|at| self.event(at))
    }

    /// Returns the events without their readings, to be changed.
    pub(crate) fn prepared_mut(&mut self) -> &mut [PreparedEvent] {
        &mut self.prepared
    }

    /// Puts what verdicts on earlier events of the batch add into the readings and the facts of an event; answers whether
    /// there was anything for it.
    pub(crate) fn overlay(&mut self, at: usize, added: &mut AdditionOverlay, catalog: &Catalog) -> bool {
        let Some(event) = self.prepared.get_mut(at) else { return false };
        let marks = event.keys.len() + event.pairs.len();
        let keys = event.keys.iter().enumerate().chain((marks..).zip(&event.marks));
        let has_changed = added.apply(catalog, &mut self.outcomes, at, keys, event.row.time);
        if has_changed {
            let mut facts = std::mem::take(&mut event.row.facts);
            fill(&mut facts, event, None, self.outcomes.readings(at));
            event.row.facts = facts;
        }
        has_changed
    }

    /// Has an event take from limits that verdicts on earlier events of the batch cleared, and puts what is left into its facts;
    /// answers whether there was any.
    pub(crate) fn take_anew(
        &mut self,
        at: usize,
        limits: &LimitContext<'_>,
        cleared: &mut ClearedLimits,
    ) -> bool {
        let ObservedEvent { duplicate, uncounted, .. } = self.event(at);
        let Some(PreparedEvent { row, keys, pairs, marks, .. }) = self.prepared.get_mut(at) else {
            return false;
        };
        let pipeline = Arc::clone(&row.pipeline);
        let asked = limits.asked(&pipeline, &row.facts, row.arrival);
        let (_, readings) = self.outcomes.readings(at).split_at(keys.len() + pairs.len() + marks.len());
        let Some(readings) = asked.after_clearing(readings, cleared, !duplicate && !uncounted) else {
            return false;
        };
        let told = asked.results(readings, true, &pipeline.limits);
        for ReadingColumn { slot, source } in &pipeline.readings {
            if let ReadingSource::Limit { limit, value } = source {
                put_limit(&mut row.facts, *slot, *value, told[*limit]);
            }
        }
        true
    }

    /// Returns the first event.
    pub(crate) fn into_first(mut self) -> PreparedEvent {
        self.prepared.swap_remove(0)
    }

    /// Takes each event as one that was counted before.
    #[cfg(test)]
    pub(crate) fn set_duplicates(&mut self) {
        (0..self.len()).for_each(|at| self.outcomes.set_duplicate(at));
    }
}

impl<'a> ObservedEvent<'a> {
    /// The readings of a kind's keys.
    pub(crate) fn of_kind(&self, kind: TableIndex<KindPlan>) -> Readings<'a> {
        self.readings.part(self.prepared.counted(kind))
    }

    /// The pairs of a distinct count with their readings.
    pub(crate) fn of_distinct(
        &self,
        distinct: TableIndex<DistinctPlan>,
    ) -> impl Iterator<Item = (&'a DistinctPair, ReadingView<'a>)> {
        let range = self.prepared.of_distinct(distinct);
        let (_, readings) = self.readings.split_at(self.prepared.keys.len());
        let pairs = &self.prepared.pairs[range.clone()];
        pairs.iter().zip(readings.part(range).iter())
    }

    /// The readings of a label's marks.
    pub(crate) fn of_label(&self, label: TableIndex<LabelPlan>) -> Readings<'a> {
        let (_, readings) = self.readings.split_at(self.prepared.keys.len() + self.prepared.pairs.len());
        readings.part(self.prepared.of_label(label))
    }

    /// The readings of its keys and of the owners of distinct values, for reputations.
    pub(crate) fn for_reputations(&self) -> EventReadings<'a> {
        let (of_keys, rest) = self.readings.split_at(self.prepared.keys.len());
        let (of_pairs, _) = rest.split_at(self.prepared.pairs.len());
        EventReadings::new(self.prepared, of_keys, of_pairs)
    }

    /// See [`known`].
    pub(crate) fn known(&self) -> impl Iterator<Item = (&'a Key, ReadingView<'a>)> + use<'a> {
        known(&self.prepared.keys, &self.prepared.pairs, self.readings)
    }
}

/// Every key of an event, and every owner of distinct values once, with what was known of it before the event.
fn known<'a>(
    keys: &'a [Key],
    pairs: &'a [DistinctPair],
    readings: Readings<'a>,
) -> impl Iterator<Item = (&'a Key, ReadingView<'a>)> + use<'a> {
    let (of_keys, of_pairs) = readings.split_at(keys.len());
    keys.iter().zip(of_keys.iter()).chain(owners(pairs, of_pairs))
}

/// The owners of a run of pairs, each with the reading of its first pair: those of the others already include what
/// the event itself has added.
fn owners<'a>(
    pairs: &'a [DistinctPair],
    readings: Readings<'a>,
) -> impl Iterator<Item = (&'a Key, ReadingView<'a>)> + use<'a> {
    let mut last = None;
    let pairs = pairs.iter().zip(readings.iter());
    pairs.filter_map(move |(pair, reading)| {
        (last.replace(pair.owner) != Some(pair.owner)).then_some((&pair.owner, reading))
    })
}

/// Reads and adds. An error of the ledger is not the caller's end: what could not be read is then missing and says so, and
/// the last error is answered beside.
pub(crate) async fn observe(
    ledger: &dyn Ledger,
    prepared: Vec<PreparedEvent>,
    limits: Option<&LimitContext<'_>>,
) -> (ObservedBatch, Option<LedgerError>) {
    let pipelines = limited_pipelines(&prepared);
    let asked: Vec<RuleTakes<'_>> = prepared.iter().map(|event| asked(event, &pipelines, limits)).collect();
    let requests =
        prepared.iter().zip(&asked).map(|(event, asked)| request(event, asked, ObserveMode::Seen)).collect();
    ask(ledger, prepared, requests, &asked, ObserveMode::Seen).await
}

/// The pipelines of some events whose rules ask for limits, each once.
fn limited_pipelines(events: &[PreparedEvent]) -> Vec<Arc<Pipeline>> {
    let mut all: Vec<Arc<Pipeline>> = Vec::new();
    for pipeline in events.iter().map(|event| &event.row.pipeline) {
        if !pipeline.limits.is_empty() && !all.iter().any(|known| Arc::ptr_eq(known, pipeline)) {
            all.push(Arc::clone(pipeline));
        }
    }
    all
}

/// Returns what an event takes from limits, given the pipelines that have some.
fn asked<'a>(
    event: &PreparedEvent,
    pipelines: &'a [Arc<Pipeline>],
    limits: Option<&LimitContext<'a>>,
) -> RuleTakes<'a> {
    let own = pipelines.iter().find(|pipeline| Arc::ptr_eq(pipeline, &event.row.pipeline));
    let Some((limits, pipeline)) = limits.zip(own) else { return RuleTakes::default() };
    limits.asked(pipeline, &event.row.facts, event.row.arrival)
}

/// Sends the events' requests, and behind them what classifiers want to know, as one batch. What classifiers say, and what
/// readings do, is filled in.
async fn ask(
    ledger: &dyn Ledger,
    mut prepared: Vec<PreparedEvent>,
    mut requests: Vec<ObserveRequest>,
    asked: &[RuleTakes<'_>],
    what: ObserveMode,
) -> (ObservedBatch, Option<LedgerError>) {
    let mut at = requests.len();
    for event in &prepared {
        requests.extend(event.tokens.iter().flatten().map(|tokens| tokens.look(event.row.time)));
    }
    let (outcomes, error, failed) = match ledger.observe_each(&requests).await {
        Ok(outcomes) => {
            let error = outcomes.failure();
            (outcomes, error, false)
        }
        Err(error) => {
            let own = |event: &PreparedEvent| event.keys.len() + event.pairs.len() + event.marks.len();
            (ObserveOutcomes::missing(prepared.iter().map(own)), Some(error), true)
        }
    };
    let mut unread = Vec::new();
    for (number, (event, asked)) in prepared.iter_mut().zip(asked).enumerate() {
        // Limits have an `on_error` of their own.
        let own = event.keys.len() + event.pairs.len() + event.marks.len();
        let mut is_unread = !outcomes.readings(number).split_at(own).0.iter().all(|view| is_present(&view));
        let PreparedEvent { tokens, row, .. } = event;
        for (plan, tokens) in row.pipeline.classifiers.iter().zip(tokens) {
            let Some(tokens) = tokens else { continue };
            match ClassifierReading::of(tokens, outcomes.readings(at).iter()) {
                Some(known) => {
                    classifiers::fill(plan, tokens, &known, &mut row.facts);
                    tokens.known = Some(known);
                }
                None => is_unread = true,
            }
            at += 1;
        }
        if is_unread {
            unread.push(number);
        }
        let mut facts = std::mem::take(&mut event.row.facts);
        let readings = outcomes.readings(number);
        let (_, of_limits) = readings.split_at(event.keys.len() + event.pairs.len() + event.marks.len());
        let told = asked.results(of_limits.iter(), what == ObserveMode::Seen, &event.row.pipeline.limits);
        fill(&mut facts, event, Some(&told), readings);
        event.row.facts = facts;
    }
    (ObservedBatch { prepared, outcomes, failed, unread }, error)
}

/// Reads one event's keys and adds what is said, or fails.
pub(crate) async fn observe_one(
    ledger: &dyn Ledger,
    prepared: PreparedEvent,
    limits: Option<&LimitContext<'_>>,
    what: ObserveMode,
) -> Result<ObservedBatch, LedgerError> {
    let pipelines = limited_pipelines(std::slice::from_ref(&prepared));
    let asked = [asked(&prepared, &pipelines, limits)];
    let requests = vec![request(&prepared, &asked[0], what)];
    match ask(ledger, vec![prepared], requests, &asked, what).await {
        (observed, None) => Ok(observed),
        (_, Some(error)) => Err(error),
    }
}

/// The addition of an event.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum ObserveMode {
    /// Itself.
    Seen,
    /// Nothing.
    Nothing,
}

/// The ledger's request for an event's keys.
pub(crate) fn request(prepared: &PreparedEvent, asked: &RuleTakes<'_>, what: ObserveMode) -> ObserveRequest {
    let time = prepared.row.time;
    let room = prepared.keys.len() + prepared.pairs.len() + prepared.marks.len();
    let mut observations = Vec::with_capacity(room);
    for (index, plan) in prepared.row.pipeline.kinds.entries() {
        let keys = prepared.counted_keys(index);
        if keys.is_empty() {
            continue;
        }
        let keys = keys.iter();
        match what {
            ObserveMode::Seen if !plan.aggregate.is_empty() && plan.takes_events => {
                let value = value(plan, prepared);
                observations.extend(keys.map(|key| Observation {
                    key: *key,
                    time,
                    add: Addition::Value(value),
                }));
            }
            ObserveMode::Seen if plan.last.is_some() => {
                let add = last_value(plan, prepared);
                observations.extend(keys.map(|key| Observation { key: *key, time, add: add.clone() }));
            }
            // A look adds nothing either way: it says for which counters a sketch is asked.
            ObserveMode::Seen | ObserveMode::Nothing => {
                let add = counters(plan.amounts(plan.observe.iter().copied(), value(plan, prepared)));
                observations.extend(keys.map(|key| Observation { key: *key, time, add: add.clone() }));
            }
        }
    }
    let pairs = |add: fn(Shingle) -> Addition| {
        prepared.row.pipeline.distincts.entries().flat_map(move |(distinct, plan)| {
            let pairs = prepared.pairs[prepared.of_distinct(distinct)].iter();
            let is_counted = plan.members.is_none();
            pairs.map(move |pair| Observation {
                key: pair.owner,
                time,
                add: if is_counted { add(pair.pair) } else { Addition::Nothing },
            })
        })
    };
    let marks = || prepared.marks.iter().map(|key| Observation { key: *key, time, add: Addition::Nothing });
    let adds = matches!(what, ObserveMode::Seen);
    let once = match what {
        ObserveMode::Seen => {
            observations.extend(pairs(|pair| Addition::Distinct { pair }));
            observations.extend(marks());
            prepared.once.map(|key| DedupeMark { key, time })
        }
        ObserveMode::Nothing => {
            // Looks at the marks of pairs only where somebody asks whether a value is new.
            let is_asked = |column: &ReadingColumn| matches!(column.source, ReadingSource::NewValue { .. });
            let looks = prepared.row.pipeline.readings.iter().any(is_asked);
            match looks {
                true => observations.extend(pairs(|pair| Addition::Distinct { pair })),
                false => observations.extend(pairs(|_| Addition::Nothing)),
            }
            observations.extend(marks());
            None
        }
    };
    observations.extend(asked.observations(adds));
    let origin = if adds { Origin::Event } else { Origin::Look };
    ObserveRequest { once, origin, observations }
}

/// The event's value for a kind's aggregate, or its amount.
pub(crate) fn value(plan: &KindPlan, prepared: &PreparedEvent) -> Option<i64> {
    plan.units(prepared.row.facts.get(plan.value?)?)
}

/// The value that an event has of what is kept last; what is too long is not known, and need not be carried.
fn last_value(plan: &KindPlan, prepared: &PreparedEvent) -> Addition {
    match plan.last.as_ref().and_then(|last| prepared.row.facts.get(last.of)) {
        Some(Value::String(value)) if value.len() > LastValueForm::BYTES_MAX => Addition::Last("".into()),
        Some(Value::String(value)) => Addition::Last(value.clone()),
        _ => Addition::Nothing,
    }
}

pub(crate) fn counters(adds: impl Iterator<Item = (u8, u64)>) -> Addition {
    let mut adds = adds.peekable();
    if adds.peek().is_none() { Addition::Nothing } else { Addition::Counters(adds.collect()) }
}

/// Fills the columns of readings; those of limits stay as they are where nothing is told of any. A value goes straight from its
/// reading into the row: one that is moved there as a whole, where its parts were just written, is waited for.
fn fill(
    facts: &mut Facts,
    prepared: &PreparedEvent,
    told: Option<&Table<RuleLimit, Option<RuleReading>>>,
    readings: Readings<'_>,
) {
    let pipeline = &prepared.row.pipeline;
    let (of_keys, rest) = readings.split_at(prepared.keys.len());
    let (of_pairs, rest) = rest.split_at(prepared.pairs.len());
    let (of_marks, _) = rest.split_at(prepared.marks.len());
    // Columns of a kind stand together, and many kinds have no key in an event.
    let mut latest: Option<(TableIndex<KindPlan>, Readings<'_>)> = None;
    let mut of_kind = |kind| match latest {
        Some((known, readings)) if known == kind => readings,
        _ => latest.insert((kind, of_keys.part(prepared.counted(kind)))).1,
    };
    let assessed = reputation::assess_all(pipeline, &EventReadings::new(prepared, of_keys, of_pairs));
    let time = prepared.row.time;
    for ReadingColumn { slot, source } in &pipeline.readings {
        match source {
            ReadingSource::Count { kind, counter, window } => {
                let readings = of_kind(*kind);
                if readings.is_empty() {
                    continue;
                }
                let count = largest(readings.iter(), window.get(), counter.get());
                put_units(facts, *slot, count, pipeline.kinds[*kind].decimals_of(counter.get()));
            }
            ReadingSource::Ratio { kind, over, under, at_least } => {
                let plan = &pipeline.kinds[*kind];
                let at_least = *at_least as f64 * judge::whole_units(1, plan.decimals) as f64;
                let shares = present(of_kind(*kind)).map(|reading| {
                    let (over, under) = (sum(plan, reading, over), sum(plan, reading, under));
                    if under == 0.0 || under < at_least { 0.0 } else { over / under }
                });
                put(facts, *slot, shares.reduce(f64::max));
            }
            ReadingSource::Buckets { kind, series, count, value } => {
                let plan = &pipeline.kinds[*kind];
                let decimals = plan.decimals_of(usize::from(plan.series[*series].counter));
                let of = present(of_kind(*kind)).map(|reading| reading.series(series.get()));
                match value {
                    BucketFunction::Max => {
                        put_units(facts, *slot, of.map(|buckets| counted(buckets.max)).max(), decimals);
                    }
                    BucketFunction::Empty => {
                        let empty = of.map(|buckets| i64::from(count.saturating_sub(buckets.filled)));
                        put(facts, *slot, empty.min());
                    }
                    BucketFunction::Dispersion => {
                        let least = of.filter_map(|buckets| buckets.dispersion).reduce(f64::min);
                        put(facts, *slot, least.map(|units| judge::decimal_value(units, decimals)));
                    }
                    BucketFunction::MedianInterval => {
                        let least = of.filter_map(|buckets| buckets.median_halves).min();
                        let width = plan.series[*series].width.0;
                        put(facts, *slot, least.map(|halves| width.saturating_mul(i64::from(halves)) / 2));
                    }
                    BucketFunction::IntervalVariation => {
                        put(facts, *slot, of.filter_map(|buckets| buckets.variation).reduce(f64::min));
                    }
                }
            }
            ReadingSource::FirstAge { kind } => {
                let ages = present(of_kind(*kind))
                    .map(|reading| reading.first().map_or(0, |first| (time - first).0.max(0)));
                put(facts, *slot, ages.min());
            }
            ReadingSource::LastAge { kind } => {
                let ages = present(of_kind(*kind))
                    .filter_map(|reading| reading.last().map(|last| (time - last).0.max(0)));
                put(facts, *slot, ages.min());
            }
            ReadingSource::Aggregate { kind, column } => {
                let (of, kept) = (of_kind(*kind), &pipeline.kinds[*kind].aggregate[*column]);
                let (column, decimals) = (column.get(), pipeline.kinds[*kind].decimals);
                if matches!(kept, AggregateColumn::Decayed { .. }) {
                    let reals = present(of).map(|reading| f64::from_bits(reading.sum(0, column)));
                    let most = reals.reduce(f64::max);
                    put(facts, *slot, most.map(|units| judge::decimal_value(units, decimals)));
                } else {
                    let integers = present(of).filter_map(|reading| integer(*kept, reading.sum(0, column)));
                    let found = if *kept == AggregateColumn::Min { integers.min() } else { integers.max() };
                    let decimals = if *kept == AggregateColumn::Count { 0 } else { decimals };
                    put_units(facts, *slot, found, decimals);
                }
            }
            ReadingSource::Last { kind } => {
                let latest = present(of_kind(*kind)).max_by_key(|reading| reading.last());
                put(facts, *slot, latest.and_then(|reading| LastValueForm::text(reading.sums())));
            }
            ReadingSource::New { kind } => {
                put(facts, *slot, is_new(present(of_kind(*kind)), |reading| reading.last().is_none()));
            }
            ReadingSource::NewValue { distinct } => {
                let readings = of_pairs.part(prepared.of_distinct(*distinct));
                put(facts, *slot, is_new(present(readings), ReadingView::fresh));
            }
            ReadingSource::Distinct { distinct, window } => {
                let range = prepared.of_distinct(*distinct);
                let pairs = &prepared.pairs[range.clone()];
                let readings = owners(pairs, of_pairs.part(range)).map(|(_, reading)| reading);
                put(facts, *slot, largest(readings, window.get(), 0));
            }
            ReadingSource::EstimatedDistinct { distinct } => {
                put(facts, *slot, estimated(of_pairs.part(prepared.of_distinct(*distinct))));
            }
            ReadingSource::Estimated { kind } => {
                put(facts, *slot, estimated(of_kind(*kind)));
            }
            ReadingSource::Reputation { reputation, value } => {
                let Some(assessment) = assessed[reputation.get()] else { continue };
                match value {
                    ReputationValue::Score => put(facts, *slot, Some(assessment.score)),
                    ReputationValue::Grade => put(facts, *slot, Some(assessment.grade.name())),
                    ReputationValue::Evidence => put(facts, *slot, Some(assessment.evidence)),
                }
            }
            ReadingSource::Marked { label } => {
                put(facts, *slot, marked(of_marks.part(prepared.of_label(*label)), prepared.row.arrival));
            }
            ReadingSource::Limit { limit, value } => {
                put_limit(facts, *slot, *value, told.and_then(|told| told[*limit]));
            }
        }
    }
}

/// Fills a column, if there is something to be filled in.
#[inline(always)]
pub(crate) fn put(facts: &mut Facts, slot: Slot, value: Option<impl Into<Value>>) {
    if let Some(value) = value {
        facts.set(slot, value);
    }
}

/// Fills a column of a limit, if it could be read.
fn put_limit(facts: &mut Facts, slot: Slot, value: LimitValue, told: Option<RuleReading>) {
    let Some((over, left)) = told else { return };
    match value {
        LimitValue::Over => put(facts, slot, Some(over)),
        LimitValue::Remaining => put(facts, slot, left.map(counted)),
    }
}

/// Fills a column with units, or with the fraction that they are.
fn put_units(facts: &mut Facts, slot: Slot, units: Option<i64>, decimals: u8) {
    match decimals {
        0 => put(facts, slot, units),
        decimals => put(facts, slot, units.map(|units| judge::decimal_value(units as f64, decimals))),
    }
}

/// The sum of some counters, each over its window, in units of the kind's last decimal.
fn sum(plan: &KindPlan, reading: ReadingView<'_>, terms: &[(TableIndex<String>, TableIndex<Span>)]) -> f64 {
    let term = |(counter, window): &(TableIndex<String>, TableIndex<Span>)| {
        let count = reading.sum(window.get(), counter.get()) as f64;
        count * judge::whole_units(1, plan.decimals - plan.decimals_of(counter.get())) as f64
    };
    terms.iter().map(term).sum()
}

/// A count as facts have it.
fn counted(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// The word of an aggregate's column as facts have it; `None` where there is none yet, and for times, which have facts of their own.
fn integer(kept: AggregateColumn, word: u64) -> Option<i64> {
    match kept.value(word) {
        stats::AggregateValue::Count(count) => Some(counted(count)),
        stats::AggregateValue::Integer(integer) => integer,
        stats::AggregateValue::Real(_) | stats::AggregateValue::Time(_) => None,
    }
}

/// Returns true if one of the readings that are there is an estimate; `None` where none is there.
fn estimated(readings: Readings<'_>) -> Option<bool> {
    let estimates = present(readings).map(|reading| reading.quality() == Quality::Estimated);
    estimates.reduce(|one, other| one || other)
}

/// Returns true if one of the readings is of something new; `None` where none is there. What a sketch has seen, or may have seen,
/// is not new.
fn is_new<'a>(
    readings: impl Iterator<Item = ReadingView<'a>>,
    is_new: impl Fn(&ReadingView<'a>) -> bool,
) -> Option<bool> {
    let new = readings.map(|reading| reading.quality().is_counted() && is_new(&reading));
    new.reduce(|one, other| one || other)
}

/// Returns true if one of the marks still holds; `None` where none could be looked up.
fn marked(readings: Readings<'_>, time: Time) -> Option<bool> {
    let holds = present(readings).map(|reading| match AggregateColumn::Max.value(reading.sum(0, 0)) {
        stats::AggregateValue::Integer(Some(until)) => until > time.0,
        _ => false,
    });
    holds.reduce(|one, other| one || other)
}

fn is_present(reading: &ReadingView<'_>) -> bool {
    reading.quality() != Quality::Missing
}

fn present<'a>(readings: Readings<'a>) -> impl Iterator<Item = ReadingView<'a>> + use<'a> {
    readings.iter().filter(is_present)
}

/// The largest count over a window of those that are there.
fn largest<'a>(
    readings: impl Iterator<Item = ReadingView<'a>>,
    window: usize,
    counter: usize,
) -> Option<i64> {
    readings.filter(is_present).map(|reading| counted(reading.sum(window, counter))).max()
}
