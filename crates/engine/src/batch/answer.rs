//! Readings of the keys of a counted batch, as columns.

use std::ops::Range;

use event::{Span, TableIndex, Time};
use stats::{AggregateColumn as Kept, DecayWeight, ObserveOutcomes, Quality, ReadingView};

use super::keys::{BatchKeys, ObservationSource, sources};
use crate::pipeline::observe::{ObservedBatch, ObservedEvent, value};
use plan::{KindPlan, Pipeline};

/// Rows whose columns are filled together: their readings stay in the processor's caches from one column to the next.
const TILE: usize = 128;

/// The answer to a batch: all that is known after its events, row by row.
#[derive(Clone, Debug, PartialEq)]
pub struct BatchAnswer {
    /// The number of events.
    pub rows: usize,
    /// True for each event that had been counted before.
    pub duplicate: Vec<bool>,
    /// The rows of events that are not known to be counted, in order. With a name they are counted later, once.
    pub uncounted: Vec<usize>,
    /// Named `KIND.VALUE`, kind by kind in the order of the configuration, then distinct counts and labels.
    pub columns: Vec<AnswerColumn>,
}

/// One value of one kind of key.
#[derive(Clone, Debug, PartialEq)]
pub struct AnswerColumn {
    /// Its name: `user.count`, `ip.seen_1h`, `rcpts.distinct_1d`, `user.quality`.
    pub name: String,
    /// A value for each row; where there is none, something.
    pub cells: AnswerCells,
    /// The rows that have a value; all of them if there is no list. An event without a key of the kind has none.
    pub present: Option<Vec<bool>>,
}

/// Values of one type.
#[derive(Clone, Debug, PartialEq)]
pub enum AnswerCells {
    /// Counts.
    Counts(Vec<u64>),
    /// Sums, least and greatest values.
    Integers(Vec<i64>),
    /// Decayed sums.
    Reals(Vec<f64>),
    /// Microseconds since 1970.
    Times(Vec<i64>),
    /// True for each cell with a label that holds.
    Bools(Vec<bool>),
    /// The trust that the values of a kind deserve: an index of [`AnswerCells::QUALITIES`].
    Qualities(Vec<u8>),
}

impl AnswerCells {
    /// The names of qualities, the best first.
    pub const QUALITIES: [&'static str; 4] = ["exact", "lagging", "estimated", "missing"];

    /// The place of a quality among them.
    fn place(quality: Quality) -> u8 {
        match quality {
            Quality::Exact => 0,
            Quality::Lagging => 1,
            Quality::Estimated => 2,
            Quality::Missing => 3,
        }
    }
}

/// The part of a reading that a column gives.
#[derive(Clone, Copy, Debug)]
enum AnswerColumnKind {
    First,
    Last,
    Count(TableIndex<Kept>),
    Sum(TableIndex<Kept>),
    Min(TableIndex<Kept>),
    Max(TableIndex<Kept>),
    Decayed { column: TableIndex<Kept>, half_life: Span, counts: bool },
    Counter { window: TableIndex<Span>, counter: TableIndex<String>, adds: u64, is_amount: bool },
    Distinct { window: TableIndex<Span>, is_exact: bool },
    Marked,
    Quality { is_approx: bool },
}

/// One value of a row.
#[derive(Clone, Copy, Debug)]
enum AnswerValue {
    Count(u64),
    Integer(i64),
    Real(f64),
    Time(i64),
    Bool(bool),
    Quality(u8),
}

/// The addition of an event to the statistic that a reading is of.
#[derive(Clone, Copy)]
struct EventAddition {
    time: Time,
    /// To an aggregate, or to counters of amounts.
    value: Option<i64>,
    /// To a distinct count: how many values were new.
    fresh: u64,
    /// False for an event that had been counted before, or is not known to be counted.
    counts: bool,
}

impl EventAddition {
    /// Returns what an event adds that is no value and no pair.
    fn by(observed: &ObservedEvent<'_>) -> EventAddition {
        let time = observed.prepared.row.time;
        EventAddition { time, value: None, fresh: 0, counts: !observed.duplicate && !observed.uncounted }
    }

    /// Returns what an event adds to a kind.
    fn to(plan: &KindPlan, observed: &ObservedEvent<'_>) -> EventAddition {
        let added = EventAddition::by(observed);
        let value = value(plan, observed.prepared);
        EventAddition { value, counts: added.counts && plan.takes_events, ..added }
    }
}

/// Fills one column with what `$what` says of rows. A column has one variant of words, so that which it is, is asked once
/// and not for each row.
macro_rules! fill {
    ($what:expr, $column:expr, $cells:ident, $word:ident, $rows:expr) => {{
        let (what, present) = ($what, &mut $column.present);
        let (start, rows) = ($cells.len(), $rows);
        $cells.extend(rows.zip(start..).map(|(row, at)| {
            match row.and_then(|(seen, added)| what.after(seen, added)) {
                Some(AnswerValue::$word(value)) => value,
                _ => {
                    absent(present, at);
                    Default::default()
                }
            }
        }));
    }};
}

/// The one that there is, or what both are together.
#[inline(always)]
fn either<T>(one: Option<T>, other: Option<T>, both: impl FnOnce(T, T) -> T) -> Option<T> {
    match (one, other) {
        (Some(one), Some(other)) => Some(both(one, other)),
        (one, None) => one,
        (None, other) => other,
    }
}

/// Notes that a row has no value.
#[cold]
fn absent(present: &mut Option<Vec<bool>>, row: usize) {
    let present = present.get_or_insert_default();
    present.resize(row, true);
    present.push(false);
}

impl AnswerColumnKind {
    /// Fills a column with what it says of some rows.
    fn fill<'v>(
        &self,
        column: &mut AnswerColumn,
        rows: impl Iterator<Item = Option<(ReadingView<'v>, EventAddition)>>,
    ) {
        match (*self, &mut column.cells) {
            (AnswerColumnKind::First, AnswerCells::Times(cells)) => {
                fill!(AnswerColumnKind::First, column, cells, Time, rows)
            }
            (AnswerColumnKind::Last, AnswerCells::Times(cells)) => {
                fill!(AnswerColumnKind::Last, column, cells, Time, rows)
            }
            (AnswerColumnKind::Count(at), AnswerCells::Counts(cells)) => {
                fill!(AnswerColumnKind::Count(at), column, cells, Count, rows);
            }
            (AnswerColumnKind::Quality { is_approx }, AnswerCells::Qualities(cells)) => {
                fill!(AnswerColumnKind::Quality { is_approx }, column, cells, Quality, rows);
            }
            (
                AnswerColumnKind::Counter { window, counter, adds, is_amount: false },
                AnswerCells::Counts(cells),
            ) => {
                let what = AnswerColumnKind::Counter { window, counter, adds, is_amount: false };
                fill!(what, column, cells, Count, rows);
            }
            (what, AnswerCells::Counts(cells)) => fill!(what, column, cells, Count, rows),
            (what, AnswerCells::Times(cells)) => fill!(what, column, cells, Time, rows),
            (what, AnswerCells::Qualities(cells)) => fill!(what, column, cells, Quality, rows),
            (what, AnswerCells::Integers(cells)) => fill!(what, column, cells, Integer, rows),
            (what, AnswerCells::Reals(cells)) => fill!(what, column, cells, Real, rows),
            (what, AnswerCells::Bools(cells)) => fill!(what, column, cells, Bool, rows),
        }
    }

    /// Returns what it says after the event; `None` where that is not known.
    #[inline(always)]
    fn after(&self, seen: ReadingView<'_>, added: EventAddition) -> Option<AnswerValue> {
        let quality = seen.quality();
        if quality == Quality::Missing {
            let word = AnswerValue::Quality(AnswerCells::place(quality));
            return matches!(self, AnswerColumnKind::Quality { .. }).then_some(word);
        }
        let one = u64::from(added.counts);
        let integer = |column: TableIndex<Kept>, kept: Kept| match kept.value(seen.sum(0, column.get())) {
            stats::AggregateValue::Integer(integer) => integer,
            _ => None,
        };
        let value = added.value.filter(|_| added.counts);
        Some(match self {
            AnswerColumnKind::First => {
                // When a key that is not admitted yet came first, nobody knows.
                let own = (added.counts && quality.is_counted()).then_some(added.time);
                AnswerValue::Time(either(seen.first(), own, Time::min)?.0)
            }
            AnswerColumnKind::Last => {
                let own = added.counts.then_some(added.time);
                AnswerValue::Time(either(seen.last(), own, Time::max)?.0)
            }
            AnswerColumnKind::Count(column) => {
                AnswerValue::Count(seen.sum(0, column.get()).saturating_add(one))
            }
            AnswerColumnKind::Sum(column) => {
                let before = integer(*column, Kept::Sum).unwrap_or(0);
                AnswerValue::Integer(before.saturating_add(value.unwrap_or(0)))
            }
            AnswerColumnKind::Min(column) => {
                AnswerValue::Integer(either(integer(*column, Kept::Min), value, i64::min)?)
            }
            AnswerColumnKind::Max(column) => {
                AnswerValue::Integer(either(integer(*column, Kept::Max), value, i64::max)?)
            }
            AnswerColumnKind::Decayed { column, half_life, counts } => {
                let before = f64::from_bits(seen.sum(0, column.get()));
                let weight = if *counts { one as f64 } else { value.unwrap_or(0) as f64 };
                // A sum is as of the key's last event, or as of this one if that is later.
                let late = seen.last().map_or(0, |last| (last - added.time).0.max(0));
                AnswerValue::Real(before + weight * (-(late as f64) / half_life.0 as f64).exp2())
            }
            AnswerColumnKind::Counter { window, counter, adds, is_amount } => {
                let own = match (added.counts, is_amount) {
                    (false, _) => 0,
                    (true, false) => *adds,
                    (true, true) => adds.saturating_mul(plan::amount(value)),
                };
                AnswerValue::Count(seen.sum(window.get(), counter.get()).saturating_add(own))
            }
            AnswerColumnKind::Distinct { window, is_exact: true } => {
                AnswerValue::Count(seen.sum(window.get(), 0).saturating_add(if added.counts {
                    added.fresh
                } else {
                    0
                }))
            }
            // Whether the value was new is not known; that there is one is.
            AnswerColumnKind::Distinct { window, is_exact: false } => {
                AnswerValue::Count(seen.sum(window.get(), 0).max(one))
            }
            AnswerColumnKind::Marked => match Kept::Max.value(seen.sum(0, 0)) {
                stats::AggregateValue::Integer(Some(until)) => AnswerValue::Bool(until > added.time.0),
                _ => AnswerValue::Bool(false),
            },
            AnswerColumnKind::Quality { is_approx } => {
                let quality = if *is_approx { Quality::Estimated } else { quality };
                AnswerValue::Quality(AnswerCells::place(quality))
            }
        })
    }

    /// The values of several keys of a kind in one event, combined as rules see them.
    fn of_both(&self, one: AnswerValue, other: AnswerValue) -> AnswerValue {
        match (one, other) {
            (AnswerValue::Count(one), AnswerValue::Count(other)) => AnswerValue::Count(one.max(other)),
            (AnswerValue::Integer(one), AnswerValue::Integer(other))
                if matches!(self, AnswerColumnKind::Min(_)) =>
            {
                AnswerValue::Integer(one.min(other))
            }
            (AnswerValue::Integer(one), AnswerValue::Integer(other)) => AnswerValue::Integer(one.max(other)),
            (AnswerValue::Real(one), AnswerValue::Real(other)) => AnswerValue::Real(one.max(other)),
            // The youngest key, and the one seen most recently.
            (AnswerValue::Time(one), AnswerValue::Time(other)) => AnswerValue::Time(one.max(other)),
            (AnswerValue::Bool(one), AnswerValue::Bool(other)) => AnswerValue::Bool(one || other),
            (AnswerValue::Quality(one), AnswerValue::Quality(other)) => AnswerValue::Quality(one.max(other)),
            (one, _) => one,
        }
    }

    fn cells(&self, rows: usize) -> AnswerCells {
        match self {
            AnswerColumnKind::First | AnswerColumnKind::Last => AnswerCells::Times(Vec::with_capacity(rows)),
            AnswerColumnKind::Count(_)
            | AnswerColumnKind::Counter { .. }
            | AnswerColumnKind::Distinct { .. } => AnswerCells::Counts(Vec::with_capacity(rows)),
            AnswerColumnKind::Sum(_) | AnswerColumnKind::Min(_) | AnswerColumnKind::Max(_) => {
                AnswerCells::Integers(Vec::with_capacity(rows))
            }
            AnswerColumnKind::Decayed { .. } => AnswerCells::Reals(Vec::with_capacity(rows)),
            AnswerColumnKind::Marked => AnswerCells::Bools(Vec::with_capacity(rows)),
            AnswerColumnKind::Quality { .. } => AnswerCells::Qualities(Vec::with_capacity(rows)),
        }
    }
}

impl AnswerColumn {
    #[inline]
    fn push(&mut self, word: Option<AnswerValue>) {
        let length = match (&mut self.cells, word) {
            (AnswerCells::Counts(cells), Some(AnswerValue::Count(count))) => return cells.push(count),
            (AnswerCells::Times(cells), Some(AnswerValue::Time(micros))) => return cells.push(micros),
            (AnswerCells::Qualities(cells), Some(AnswerValue::Quality(quality))) => {
                return cells.push(quality);
            }
            (AnswerCells::Integers(cells), Some(AnswerValue::Integer(integer))) => {
                return cells.push(integer);
            }
            (AnswerCells::Reals(cells), Some(AnswerValue::Real(real))) => return cells.push(real),
            (AnswerCells::Bools(cells), Some(AnswerValue::Bool(truth))) => return cells.push(truth),
            (AnswerCells::Counts(cells), _) => extended(cells),
            (AnswerCells::Times(cells) | AnswerCells::Integers(cells), _) => extended(cells),
            (AnswerCells::Qualities(cells), _) => extended(cells),
            (AnswerCells::Reals(cells), _) => extended(cells),
            (AnswerCells::Bools(cells), _) => extended(cells),
        };
        absent(&mut self.present, length - 1);
    }
}

/// Fills in what the columns of a source say of one event.
fn of_row(
    columns: &mut [(AnswerColumn, AnswerColumnKind)],
    pipeline: &Pipeline,
    source: ObservationSource,
    observed: &ObservedEvent<'_>,
) {
    let added = EventAddition::by(observed);
    match source {
        ObservationSource::Kind(at) => {
            let added = EventAddition::to(&pipeline.kinds[at], observed);
            let seen = observed.of_kind(at).iter();
            of_all(columns, seen.map(|reading| (reading, added)));
        }
        ObservationSource::Distinct(at) => {
            let mut owners: Vec<(event::Key, ReadingView<'_>, EventAddition)> = Vec::new();
            for (pair, reading) in observed.of_distinct(at) {
                let fresh = u64::from(reading.fresh());
                match owners.last_mut() {
                    // The readings of the owner's other values have what the event itself added.
                    Some((owner, _, added)) if *owner == pair.owner => added.fresh += fresh,
                    _ => owners.push((pair.owner, reading, EventAddition { fresh, ..added })),
                }
            }
            of_all(columns, owners.iter().map(|(_, reading, added)| (*reading, *added)));
        }
        ObservationSource::Label(at) => {
            of_all(columns, observed.of_label(at).iter().map(|reading| (reading, added)))
        }
    }
}

/// Fills in what columns say of one event's readings of a kind.
fn of_all<'r>(
    columns: &mut [(AnswerColumn, AnswerColumnKind)],
    seen: impl Iterator<Item = (ReadingView<'r>, EventAddition)> + Clone,
) {
    for (column, what) in columns {
        let words = seen.clone().filter_map(|(reading, added)| what.after(reading, added));
        column.push(words.reduce(|one, other| what.of_both(one, other)));
    }
}

/// The starts of the rows' readings.
fn starts(
    keyed: &BatchKeys<'_>,
    groups: &[(ObservationSource, Range<usize>)],
    rows: Range<usize>,
) -> Vec<u32> {
    let mut next = 0;
    let start = |row| {
        let start = next;
        next += groups.iter().filter(|(source, _)| keyed.has(*source, row)).count() as u32;
        start
    };
    rows.map(start).collect()
}

/// Adds a value that stands for none, and answers how many there are.
fn extended<T: Default>(cells: &mut Vec<T>) -> usize {
    cells.push(T::default());
    cells.len()
}

/// The columns of an answer in the making.
pub(super) struct BatchAnswerBuilder<'a> {
    pipeline: &'a Pipeline,
    rows: usize,
    duplicate: Vec<bool>,
    uncounted: Vec<usize>,
    columns: Vec<(AnswerColumn, AnswerColumnKind)>,
    /// The columns of each source.
    groups: Vec<(ObservationSource, Range<usize>)>,
}

impl<'a> BatchAnswerBuilder<'a> {
    pub(super) fn new(pipeline: &'a Pipeline, rows: usize) -> BatchAnswerBuilder<'a> {
        let mut answers = BatchAnswerBuilder {
            pipeline,
            rows,
            duplicate: Vec::with_capacity(rows),
            uncounted: Vec::new(),
            columns: Vec::new(),
            groups: Vec::new(),
        };
        for source in sources(pipeline) {
            let start = answers.columns.len();
            let mut add = |name: String, what: AnswerColumnKind| {
                let column = AnswerColumn { name, cells: what.cells(rows), present: None };
                answers.columns.push((column, what));
            };
            match source {
                ObservationSource::Kind(at) => of_kind(&pipeline.kinds[at], &mut add),
                ObservationSource::Distinct(at) => {
                    let plan = &pipeline.distincts[at];
                    let is_exact = plan.precision.is_none();
                    for (window, span) in plan.windows.entries() {
                        let name = format!("{}.distinct_{span}", plan.name);
                        add(name, AnswerColumnKind::Distinct { window, is_exact });
                    }
                    add(format!("{}.quality", plan.name), AnswerColumnKind::Quality { is_approx: !is_exact });
                }
                ObservationSource::Label(at) => {
                    let plan = &pipeline.labels[at];
                    add(
                        format!("{}.marked_{}", pipeline.kinds[plan.of].name, plan.name),
                        AnswerColumnKind::Marked,
                    );
                }
            }
            let range = start..answers.columns.len();
            answers.groups.push((source, range));
        }
        answers
    }

    /// Takes the readings of some rows, which were asked for in requests that end before these rows.
    pub(super) fn add(
        &mut self,
        keyed: &BatchKeys<'_>,
        first: usize,
        ends: &[usize],
        outcomes: &ObserveOutcomes,
    ) {
        let last = ends.last().copied().unwrap_or(first);
        // Rows that add nothing now.
        let mut idle = Vec::with_capacity(last - first);
        for (request, end) in ends.iter().enumerate() {
            let (is_duplicate, is_unconfirmed) =
                (outcomes.duplicate(request), outcomes.is_unconfirmed(request));
            if is_unconfirmed {
                self.uncounted.extend(first + idle.len()..*end);
            }
            self.duplicate.resize(*end, is_duplicate);
            idle.resize(*end - first, is_duplicate || is_unconfirmed);
        }
        let width = self.groups.len();
        // Where the readings of each row begin, if not each has all of them.
        let is_full = outcomes.all().len() == (last - first) * width;
        let starts: Vec<u32> = if is_full { Vec::new() } else { starts(keyed, &self.groups, first..last) };
        let mut row = first;
        while row < last {
            let rows = row..last.min(row + TILE);
            for (number, (source, range)) in self.groups.iter().enumerate() {
                let columns = &mut self.columns[range.clone()];
                let takes_events = match source {
                    ObservationSource::Kind(at) => self.pipeline.kinds[*at].takes_events,
                    _ => true,
                };
                if is_full {
                    let values = match source {
                        ObservationSource::Kind(at) => keyed.values(*at),
                        _ => None,
                    };
                    for (column, what) in columns {
                        let seen = outcomes.every(width, (rows.start - first) * width + number);
                        let idle = &idle[rows.start - first..rows.end - first];
                        let about = keyed.times(rows.clone()).iter().zip(idle);
                        let seen = seen.zip(about).zip(rows.clone()).map(|((seen, (time, is_idle)), row)| {
                            let value = values.and_then(|values| values.get(row));
                            let fresh = u64::from(seen.fresh());
                            let counts = takes_events && !is_idle;
                            Some((seen, EventAddition { time: *time, value, fresh, counts }))
                        });
                        what.fill(column, seen);
                    }
                    continue;
                }
                let seen = |row: usize| {
                    let start = keyed.has(*source, row).then(|| starts.get(row - first)).flatten()?;
                    let before = self.groups[..number].iter();
                    let before = before.filter(|(source, _)| keyed.has(*source, row)).count();
                    let seen = outcomes.reading(*start as usize + before)?;
                    let value = match source {
                        ObservationSource::Kind(at) => keyed.values(*at).and_then(|values| values.get(row)),
                        _ => None,
                    };
                    let counts = takes_events && !idle[row - first];
                    let time = keyed.time(row);
                    Some((seen, EventAddition { time, value, fresh: u64::from(seen.fresh()), counts }))
                };
                for (column, what) in columns {
                    what.fill(column, rows.clone().map(seen));
                }
            }
            row = rows.end;
        }
    }

    /// Takes the readings of events that were counted row by row.
    pub(super) fn add_observed(&mut self, all: &ObservedBatch) {
        let all: Vec<ObservedEvent<'_>> = all.events().collect();
        let rows = self.duplicate.len()..;
        self.uncounted.extend(rows.zip(&all).filter(|(_, observed)| observed.uncounted).map(|(row, _)| row));
        self.duplicate.extend(all.iter().map(|observed| observed.duplicate));
        let mut seen: Vec<Option<(ReadingView<'_>, EventAddition)>> = Vec::with_capacity(all.len());
        for (source, range) in &self.groups {
            let columns = &mut self.columns[range.clone()];
            let kind = match source {
                ObservationSource::Kind(at) => Some(*at),
                _ => None,
            };
            match kind.filter(|at| all.iter().all(|observed| observed.of_kind(*at).len() <= 1)) {
                Some(at) => {
                    let plan = &self.pipeline.kinds[at];
                    seen.clear();
                    seen.extend(all.iter().map(|observed| {
                        Some((observed.of_kind(at).first()?, EventAddition::to(plan, observed)))
                    }));
                    columns.iter_mut().for_each(|(column, what)| what.fill(column, seen.iter().copied()));
                }
                None => {
                    all.iter().for_each(|observed| of_row(columns, self.pipeline, *source, observed));
                }
            }
        }
    }

    /// The columns with what was taken so far.
    pub(super) fn finish(self) -> BatchAnswer {
        let mut columns: Vec<AnswerColumn> = self.columns.into_iter().map(|(column, _)| column).collect();
        for column in &mut columns {
            if let Some(present) = &mut column.present {
                present.resize(self.rows, true);
            }
        }
        BatchAnswer { rows: self.rows, duplicate: self.duplicate, uncounted: self.uncounted, columns }
    }
}

fn of_kind(plan: &KindPlan, add: &mut impl FnMut(String, AnswerColumnKind)) {
    // Columns are numbers as of after the event. A last value is a text, and afterwards the event's own.
    if plan.last.is_some() {
        return;
    }
    let name = |value: &str| format!("{}.{value}", plan.name);
    add(name("first"), AnswerColumnKind::First);
    add(name("last"), AnswerColumnKind::Last);
    for (at, kept) in plan.aggregate.entries() {
        let what = match kept {
            Kept::First | Kept::Last => continue,
            Kept::Count => AnswerColumnKind::Count(at),
            Kept::Sum => AnswerColumnKind::Sum(at),
            Kept::Min => AnswerColumnKind::Min(at),
            Kept::Max => AnswerColumnKind::Max(at),
            Kept::Decayed { half_life, weight } => AnswerColumnKind::Decayed {
                column: at,
                half_life: *half_life,
                counts: *weight == DecayWeight::One,
            },
        };
        add(name(&plan::aggregate::name(kept)), what);
    }
    for (counter, counted) in plan.counters.entries() {
        let adds =
            plan.observe.iter().filter(|(of, _)| usize::from(*of) == counter.get()).map(|(_, by)| *by).sum();
        let is_amount = plan.amounts.iter().any(|amount| usize::from(*amount) == counter.get());
        for (window, span) in plan.windows.entries() {
            let what = AnswerColumnKind::Counter { window, counter, adds, is_amount };
            add(name(&format!("{counted}_{span}")), what);
        }
    }
    add(name("quality"), AnswerColumnKind::Quality { is_approx: false });
}

/// Returns what is known after events that were counted row by row.
pub(super) fn of_observed(pipeline: &Pipeline, observed: &ObservedBatch) -> BatchAnswer {
    let mut answers = BatchAnswerBuilder::new(pipeline, observed.len());
    answers.add_observed(observed);
    answers.finish()
}
