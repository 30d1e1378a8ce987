//! The statistics, one file each. A file has the parameters of its statistic, what an observation adds, the cell, the
//! merge, the reading, the text form and the laws. This one has the table of them, and what they have in common.
//!
//! A cell is a run of 64-bit words in a [`CellBuffer`]. No words at all is the cell of a key that was never seen. Zero
//! words at the end mean nothing: a room may be larger than what is used of it, an image from a disk shorter than what a
//! room would have. What the words mean is said by a [`CellPlan`], compiled from a [`Measure`].
//!
//! ```text
//! observe   plan.read(cell)                 ─► the reading, from before
//!           plan.change(addition, context)    ─► the change: decided, depends on nothing any more
//! apply     plan.apply(cell, change)        where the cell lies
//! merge     plan.merge(cell, other)         two histories of one key
//! ```
//!
//! Homes load, store, journal and send. None of them knows what an addition means.
//!
//! All operations form a commutative monoid: a cell is a function of the *set* of events that it has seen, whatever
//! their order and their grouping into cells that are merged. One is not so: what is taken from a bucket ([`gcra`]).
//!
//! Words from a disk are given to [`CellPlan::check`] once. After it has said yes no operation panics on them.

pub(crate) mod aggregate;
pub(crate) mod distinct;
pub(crate) mod evidence;
pub(crate) mod gcra;
pub(crate) mod hyperloglog;
pub(crate) mod last;
pub mod limit;
pub(crate) mod mark;
pub(crate) mod series;
pub(crate) mod window_take;
pub(crate) mod windows;

#[cfg(test)]
mod tests;

use event::{Key, Shingle, Span, Time};
use serde::{Deserialize, Serialize};

use crate::bytes::ByteReader;
use crate::cell::CellBuffer;
use crate::layout::{CellShape, LayoutError, Tier, WindowBuckets};
use aggregate::{AggregateLayout, AggregatePlan, AggregateTotals};
use distinct::DistinctForm;
use evidence::{Evidence, EvidenceForm, EvidencePlan};
use gcra::{GcraForm, GcraOperation, GcraPlan};
use hyperloglog::{ApproximateDistinctForm, HyperLogLogPlan, HyperLogLogRegisters};
use last::{LastValueForm, RegisterPlan};
use mark::MarkForm;
use series::BucketSeries;
use window_take::WindowTake;
use windows::{CounterAmounts, CounterSet, Layout, TimelineBucket, WindowsPlan};

/// The configuration of a statistic.
pub(crate) trait StatisticForm {
    /// The number of its form in stored definitions.
    const NUMBER: u8;

    /// The name of its form, as people read it.
    fn name(&self) -> &'static str;

    /// The names of the counters of its cells.
    fn counters(&self) -> Vec<String>;

    /// The names of the counters that its readings have: without those of what was taken back.
    fn shown(&self) -> Vec<String> {
        self.counters()
    }

    /// The counters of withdrawals, each with the one it belongs to.
    fn taken(&self) -> Vec<u8> {
        Vec::new()
    }

    /// The windows that its readings are over, in their order.
    fn windows(&self) -> &[Span] {
        &[]
    }

    /// Returns what its cells depend on.
    fn without_windows(&self) -> Self
    where
        Self: Sized;

    /// Returns whether something is decided by what is there, so that new keys have places where others find none.
    fn decides(&self) -> bool {
        false
    }

    /// Returns whether takes are taken from it.
    fn is_limit(&self) -> bool {
        false
    }

    /// Returns whether an owner's values are marked in cells of their own.
    fn has_pairs(&self) -> bool {
        false
    }

    /// Returns whether its readings are close to the truth, and no more.
    fn is_estimate(&self) -> bool {
        false
    }

    /// Returns whether the reading of a key never seen has values that are not zero.
    fn reads_unseen(&self) -> bool {
        false
    }

    /// Returns how the time of its cells is divided. Where it is not divided the shape says how long a cell is kept.
    ///
    /// # Errors
    /// Says what does not fit and what would.
    fn shape(&self) -> Result<CellShape, LayoutError>;

    /// The buckets that answer a window.
    ///
    /// # Errors
    /// Says which windows can be answered.
    fn trail(&self, window: Span) -> Result<WindowBuckets, LayoutError> {
        Err(LayoutError::Window { window, possible: "none".to_owned() })
    }

    /// Returns the windows that a reading is over.
    ///
    /// # Errors
    /// If one of them cannot be answered.
    fn trails(&self) -> Result<Vec<WindowBuckets>, LayoutError> {
        self.windows().iter().map(|window| self.trail(*window)).collect()
    }

    /// Returns how much longer a cell may be kept than is needed of it, where that saves work.
    fn slack(&self) -> Span;

    /// Checks that an addition is one of this statistic's, and fits.
    fn accepts(&self, key: &Key, add: &Addition) -> Result<(), &'static str>;

    /// Writes all that cells depend on behind what is there.
    fn encode(&self, bytes: &mut Vec<u8>);

    /// Reads what [`StatisticForm::encode`] has written.
    fn decode(reader: &mut ByteReader<'_>) -> Option<Self>
    where
        Self: Sized;
}

/// The operations on the cells of a statistic. No allocation and no virtual call, except where said.
pub(crate) trait CellOperations {
    /// The span by which the last event of a cell may be ahead of the clock.
    const AHEAD: Span = Span::ZERO;

    /// Values that a reading has for each window.
    fn columns(&self) -> usize;

    /// Values of a reading.
    fn reading(&self) -> usize {
        self.columns()
    }

    /// Fills the values of a reading.
    fn read(&self, words: &[u64], now: Time, out: &mut [u64]);

    /// Puts an estimate of the number of events into the reading of a key that has no cell.
    fn estimate(&self, _events: u64, _add: &Addition, _out: &mut [u64]) {}

    /// Adds the values of the reading of another cell of the same key, as of the same time. What no two readings tell
    /// together stays as it is.
    fn add_reading(&self, _out: &mut [u64], _other: &[u64]) {}

    /// Makes the values of a reading those of a key of which counters were cleared; returns whether any changed.
    fn clear_reading(&self, _out: &mut [u64], _counters: CounterSet) -> bool {
        false
    }

    /// Decides what an addition comes to. Additions of other statistics come to nothing.
    fn change<'a>(&self, add: &'a Addition, context: &ObservationContext<'_>) -> StatisticChange<'a>;

    /// Makes a change that was decided. Changes of other statistics do nothing.
    fn apply(&self, room: &mut impl CellBuffer, change: &StatisticChange<'_>);

    /// Adds what another cell has seen.
    fn merge(&self, room: &mut impl CellBuffer, other: &[u64]);

    /// First and last event.
    fn times(&self, words: &[u64]) -> Option<(Time, Time)>;

    /// The expiry of any cell with this last event.
    fn expires_after(&self, last: Time) -> Time;

    /// A cell is kept for at least so long after its last event.
    fn kept_for(&self) -> Span;

    /// The number of the finest bucket that a time falls into.
    fn bucket(&self, _time: Time) -> i64 {
        0
    }

    /// Returns whether a bucket of the finest tier holds anything, and whether it is kept or would be.
    fn fine(&self, _words: &[u64], _bucket: i64) -> (bool, bool) {
        (false, true)
    }

    /// The start of a window, by its index, as of `now`.
    fn since(&self, _window: usize, _now: Time) -> Option<Time> {
        None
    }

    /// Returns whether all operations are safe on these words.
    fn check(&self, words: &[u64]) -> bool;

    /// All buckets that hold anything. Allocates.
    fn rows(&self, _words: &[u64]) -> Vec<TimelineBucket> {
        Vec::new()
    }

    /// The buckets as readings have them. Allocates.
    fn net_rows(&self, words: &[u64]) -> Vec<TimelineBucket> {
        self.rows(words)
    }

    /// All that a cell holds beside its times, spelled out. Allocates.
    fn content(&self, words: &[u64]) -> Option<CellContent>;

    /// Puts what [`CellOperations::content`] has spelled out into an empty room.
    fn restore(
        &self,
        room: &mut impl CellBuffer,
        times: (Time, Time),
        content: &CellContent,
    ) -> Result<(), &'static str>;

    /// Adds what a cell of another definition has seen, as far as it can be kept. `sources` says which old counter each
    /// counter was.
    fn translate(&self, room: &mut impl CellBuffer, words: &[u64], old: &Self, sources: &[Option<usize>]);
}

/// Makes of the table of statistics the enums that hold one of them, and the calls that find its file.
macro_rules! statistics {
    ($($(#[$about:meta])* $name:ident: $form:ty, $cells:ty;)*) => {
        /// The measure of a statistic: what it keeps per key.
        #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(tag = "form", rename_all = "lowercase")]
        pub enum Measure {
            $($(#[$about])* $name($form),)*
        }

        #[derive(Clone, Debug)]
        enum CellPlanKind {
            $($name($cells),)*
        }

        impl Measure {
            /// The number and the name of its form.
            pub(crate) fn form(&self) -> (u8, &'static str) {
                match self { $(Measure::$name(form) => (<$form as StatisticForm>::NUMBER, form.name()),)* }
            }

            /// The names of the counters of its cells. An aggregate has none, it has [`AggregateLayout::columns`].
            pub fn counters(&self) -> Vec<String> {
                match self { $(Measure::$name(form) => StatisticForm::counters(form),)* }
            }

            /// The names of the counters that its readings have: without those of what was taken back.
            pub fn shown(&self) -> Vec<String> {
                match self { $(Measure::$name(form) => StatisticForm::shown(form),)* }
            }

            /// Returns the windows that its readings are over, in their order. None for a distinct count means the
            /// current period alone.
            pub fn windows(&self) -> &[Span] {
                match self { $(Measure::$name(form) => StatisticForm::windows(form),)* }
            }

            /// The measure as far as cells depend on it.
            pub(crate) fn without_windows(&self) -> Measure {
                match self { $(Measure::$name(form) => Measure::$name(form.without_windows()),)* }
            }

            /// Returns whether something is decided by what is there, so that new keys have places where others find
            /// none: limits, buckets, and aggregates of nothing but a greatest value, such as until when a label is on
            /// a key.
            pub(crate) fn decides(&self) -> bool {
                match self { $(Measure::$name(form) => form.decides(),)* }
            }

            /// Returns whether takes are taken from it.
            pub fn is_limit(&self) -> bool {
                match self { $(Measure::$name(form) => StatisticForm::is_limit(form),)* }
            }

            /// Returns whether an owner's values are marked in cells of their own: those of exact distinct counts.
            pub fn has_pairs(&self) -> bool {
                match self { $(Measure::$name(form) => form.has_pairs(),)* }
            }

            /// Returns whether its readings are close to the truth, and no more.
            pub fn is_estimate(&self) -> bool {
                match self { $(Measure::$name(form) => form.is_estimate(),)* }
            }

            /// Returns whether the reading of a key never seen has values that are not zero.
            pub fn reads_unseen(&self) -> bool {
                match self { $(Measure::$name(form) => form.reads_unseen(),)* }
            }

            /// Returns how the time of its cells is divided; pairs have the cells of their owner.
            pub(crate) fn shape(&self) -> Result<CellShape, LayoutError> {
                match self { $(Measure::$name(form) => StatisticForm::shape(form),)* }
            }

            /// The buckets that answer a window.
            pub(crate) fn trail(&self, window: Span) -> Result<WindowBuckets, LayoutError> {
                match self { $(Measure::$name(form) => StatisticForm::trail(form, window),)* }
            }

            /// Returns the windows that a reading is over.
            pub(crate) fn trails(&self) -> Result<Vec<WindowBuckets>, LayoutError> {
                match self { $(Measure::$name(form) => StatisticForm::trails(form),)* }
            }

            /// The most by which a use of a key may prolong its life beyond its need: so much time may pass until a use
            /// has to renew it.
            pub fn slack(&self) -> Span {
                match self { $(Measure::$name(form) => form.slack(),)* }
            }

            /// Checks that an addition to a key is one of this statistic's, and fits.
            #[inline]
            pub(crate) fn accepts(&self, key: &Key, add: &Addition) -> Result<(), &'static str> {
                match self { $(Measure::$name(form) => form.accepts(key, add),)* }
            }

            /// Writes all that cells depend on behind what is there, but for the form.
            pub(crate) fn encode(&self, bytes: &mut Vec<u8>) {
                match self { $(Measure::$name(form) => form.encode(bytes),)* }
            }

            /// Reads what [`Measure::encode`] has written of the form of this number.
            pub(crate) fn decode(form: u8, reader: &mut ByteReader<'_>) -> Option<Measure> {
                $(if form == <$form as StatisticForm>::NUMBER {
                    return <$form as StatisticForm>::decode(reader).map(Measure::$name);
                })*
                None
            }

            fn compile(&self, trails: &[WindowBuckets]) -> Result<CellPlan, LayoutError> {
                Ok(CellPlan(match self {
                    $(Measure::$name(form) => CellPlanKind::$name(form.cells(trails)?),)*
                }))
            }
        }

        impl CellPlan {
            /// Values that a reading has for each window; for an aggregate, which has no windows, all of them.
            pub fn columns(&self) -> usize {
                match &self.0 { $(CellPlanKind::$name(plan) => CellOperations::columns(plan),)* }
            }

            /// Values of a reading: windows by columns, and then series.
            #[inline]
            pub fn reading(&self) -> usize {
                match &self.0 { $(CellPlanKind::$name(plan) => CellOperations::reading(plan),)* }
            }

            /// Decides what an addition comes to, going by what was there before it. Additions of other statistics
            /// come to nothing.
            #[inline]
            pub fn change<'a>(&self, add: &'a Addition, context: &ObservationContext<'_>) -> StatisticChange<'a> {
                match &self.0 { $(CellPlanKind::$name(plan) => plan.change(add, context),)* }
            }

            /// Makes a change. One of another statistic does nothing.
            #[inline]
            pub fn apply(&self, room: &mut impl CellBuffer, change: &StatisticChange<'_>) {
                match &self.0 { $(CellPlanKind::$name(plan) => plan.apply(room, change),)* }
            }

            /// Adds what another cell of the same plan has seen.
            pub fn merge(&self, room: &mut impl CellBuffer, other: &[u64]) {
                match &self.0 { $(CellPlanKind::$name(plan) => CellOperations::merge(plan, room, other),)* }
            }

            /// Fills `out`, as long as [`CellPlan::reading`], with what is known as of `now`: windows by columns. Values
            /// of an aggregate are to be taken through [`aggregate::AggregateColumn::value`].
            #[inline]
            pub fn read(&self, words: &[u64], now: Time, out: &mut [u64]) {
                match &self.0 { $(CellPlanKind::$name(plan) => CellOperations::read(plan, words, now, out),)* }
            }

            /// Adds the values of the reading of another cell of the same key, as of the same time: a reading of both.
            /// Series stay as they are, as their sum-ups do not tell the buckets.
            pub(crate) fn add_reading(&self, out: &mut [u64], other: &[u64]) {
                match &self.0 { $(CellPlanKind::$name(plan) => CellOperations::add_reading(plan, out, other),)* }
            }

            /// Makes the values of a reading those of a key of which counters were cleared, and returns whether any
            /// changed. Series stay as they are, as what was added later is in their buckets, too.
            pub(crate) fn clear_reading(&self, out: &mut [u64], counters: CounterSet) -> bool {
                match &self.0 { $(CellPlanKind::$name(plan) => CellOperations::clear_reading(plan, out, counters),)* }
            }

            /// Puts an estimate of the number of events into the reading of a key that has no cell: into an aggregate's
            /// count, and into the counters that `add` adds to, for each window.
            pub fn estimate(&self, events: u64, add: &Addition, out: &mut [u64]) {
                match &self.0 { $(CellPlanKind::$name(plan) => plan.estimate(events, add, out),)* }
            }

            /// First and last event; `None` if nothing was seen. What a classifier has learned knows the last only.
            #[inline]
            pub fn times(&self, words: &[u64]) -> Option<(Time, Time)> {
                match &self.0 { $(CellPlanKind::$name(plan) => CellOperations::times(plan, words),)* }
            }

            /// Returns how far behind a time the latest event of a cell lies, if it does. The moment of a bucket that is
            /// refilled may be ahead by as much as the bucket holds: it counts as ahead beyond [`CellPlan::REFILL_MAX`].
            pub fn ahead(&self, words: &[u64], latest: Time) -> Option<Span> {
                let allowed = match &self.0 { $(CellPlanKind::$name(_) => <$cells as CellOperations>::AHEAD,)* };
                let (_, last) = self.times(words)?;
                let far = Span(last.0.saturating_sub(latest.0));
                (far > allowed).then_some(far)
            }

            /// Returns when any cell with this last event expires.
            #[inline]
            pub fn expires_after(&self, last: Time) -> Time {
                match &self.0 { $(CellPlanKind::$name(plan) => CellOperations::expires_after(plan, last),)* }
            }

            /// A cell is kept for at least so long after its last event.
            pub(crate) fn kept_for(&self) -> Span {
                match &self.0 { $(CellPlanKind::$name(plan) => plan.kept_for(),)* }
            }

            /// The number of the finest bucket or period that a time falls into; zero where time is not divided.
            #[inline]
            pub fn bucket(&self, time: Time) -> i64 {
                match &self.0 { $(CellPlanKind::$name(plan) => CellOperations::bucket(plan, time),)* }
            }

            /// Returns whether a bucket of the finest tier holds anything, and whether it is kept or would be: what
            /// exact distinct counts and marks of requests need to know. False and true for other statistics.
            #[inline]
            pub fn fine(&self, words: &[u64], bucket: i64) -> (bool, bool) {
                match &self.0 { $(CellPlanKind::$name(plan) => CellOperations::fine(plan, words, bucket),)* }
            }

            /// The start of a window, by its index, as of `now`: no event before it counts.
            pub fn since(&self, window: usize, now: Time) -> Option<Time> {
                match &self.0 { $(CellPlanKind::$name(plan) => CellOperations::since(plan, window, now),)* }
            }

            /// Returns whether the words, as long as they are, are a cell that all operations are safe on. To be asked
            /// once of what comes from a disk. Costs a look at every word.
            pub fn check(&self, words: &[u64]) -> bool {
                words.len() <= CellShape::WORDS_MAX
                    && match &self.0 { $(CellPlanKind::$name(plan) => CellOperations::check(plan, words),)* }
            }

            /// All buckets that hold anything: coarse ones and then fine ones, each oldest first. No count is in two.
            /// None where time is not divided. An approximate distinct count has its estimates. Allocates.
            pub fn rows(&self, words: &[u64]) -> Vec<TimelineBucket> {
                match &self.0 { $(CellPlanKind::$name(plan) => CellOperations::rows(plan, words),)* }
            }

            /// Returns the buckets as readings have them: without what was taken back, and buckets of which nothing is
            /// left.
            pub fn net_rows(&self, words: &[u64]) -> Vec<TimelineBucket> {
                match &self.0 { $(CellPlanKind::$name(plan) => plan.net_rows(words),)* }
            }

            /// All that a cell holds beside its times, spelled out; [`CellPlan::restore`] makes the cell of it again.
            /// `None` of what has seen nothing, but for windows, which then have no buckets. Allocates.
            pub fn content(&self, words: &[u64]) -> Option<CellContent> {
                match &self.0 { $(CellPlanKind::$name(plan) => plan.content(words),)* }
            }

            /// The cell that has seen what is spelled out, which may come from anywhere. Words are as many as the
            /// content needs, or as many as the plan's cells have at most.
            ///
            /// # Errors
            /// Says what it cannot be.
            pub fn restore(&self, first: Time, last: Time, content: &CellContent) -> Result<Vec<u64>, &'static str> {
                if first > last {
                    return Err("the first event is after the last");
                }
                let mut words = Vec::new();
                match &self.0 {
                    $(CellPlanKind::$name(plan) => CellOperations::restore(plan, &mut words, (first, last), content)?,)*
                }
                if self.check(&words) { Ok(words) } else { Err("it is no cell of its definition") }
            }

            /// Adds what a cell of another definition has seen, as far as it can be kept. Counters become those with
            /// `sources` saying which old counter each of them was.
            pub(crate) fn translate(
                &self,
                room: &mut impl CellBuffer,
                words: &[u64],
                old: &CellPlan,
                sources: &[Option<usize>],
            ) {
                match (&self.0, &old.0) {
                    $((CellPlanKind::$name(new), CellPlanKind::$name(old)) => {
                        CellOperations::translate(new, room, words, old, sources);
                    })*
                    _ => {}
                }
            }
        }
    };
}

statistics! {
    /// Counters over windows.
    Windows: Layout, WindowsPlan;
    /// First and last event, their number, and sums over their values, in a few fixed words.
    #[serde(rename = "aggregate")]
    Aggregate: AggregateLayout, AggregatePlan;
    /// The number of different values that an owner had per period, exactly.
    Distinct: DistinctForm, WindowsPlan;
    /// The number of different values that an owner had per period, about: one HyperLogLog a period.
    Approx: ApproximateDistinctForm, HyperLogLogPlan;
    /// Evidence that a classifier has learned of each key.
    Evidence: EvidenceForm, EvidencePlan;
    /// The bucket of the generic cell rate algorithm.
    Gcra: GcraForm, GcraPlan;
    /// Marks of requests that were counted, so that none is counted twice.
    Once: MarkForm, WindowsPlan;
    /// The last value of a field.
    Last: LastValueForm, RegisterPlan;
}

/// The message of a form that does not take an addition.
pub(crate) const OTHER_ADDITION: &str = "it takes another kind of addition";
/// The description of a content that is none of its definition's.
pub(crate) const OTHER_CONTENT: &str = "it is of another form than its definition";

impl Measure {
    /// Exact numbers of different values in periods, of which readings sum those of the windows.
    pub fn distinct(tier: Tier, windows: Vec<Span>) -> Measure {
        Measure::Distinct(DistinctForm { tier, windows })
    }

    /// Approximate numbers of different values.
    pub fn approx(tier: Tier, windows: Vec<Span>, precision: u8) -> Measure {
        Measure::Approx(ApproximateDistinctForm { tier, windows, precision })
    }

    /// Evidence that a classifier learns, kept for so long after it was last learned.
    pub fn evidence(keep: Span) -> Measure {
        Measure::Evidence(EvidenceForm { keep })
    }

    /// Buckets of the generic cell rate algorithm.
    pub fn gcra() -> Measure {
        Measure::Gcra(GcraForm)
    }

    /// Marks of requests, heeded within this window or a neighbouring one.
    pub fn once(window: Span) -> Measure {
        Measure::Once(MarkForm { window })
    }

    /// Returns the series that its readings sum up, in their order.
    pub fn series(&self) -> &[BucketSeries] {
        match self {
            Measure::Windows(layout) => layout.series(),
            _ => &[],
        }
    }

    /// Returns whether cells of the other hold the same: they may differ in the windows that are asked for.
    pub fn keeps_what(&self, other: &Measure) -> bool {
        self.without_windows() == other.without_windows()
    }

    /// Checks that it can be kept, and its windows answered.
    ///
    /// # Errors
    /// Says what does not fit and what would.
    pub fn check(&self) -> Result<(), LayoutError> {
        self.shape()?;
        self.trails().map(|_| ())
    }
}

/// The operations on the cells of one statistic. Cheap to share, costs nothing to use: no allocation and no virtual
/// call, except where said.
#[derive(Clone, Debug)]
pub struct CellPlan(CellPlanKind);

impl CellPlan {
    /// The longest that the moment of a bucket that is refilled may lie ahead.
    pub const REFILL_MAX: Span = <GcraPlan as CellOperations>::AHEAD;

    /// Compiles a statistic, with the windows that it is read over.
    ///
    /// # Errors
    /// Says what does not fit and what would.
    pub fn new(measure: &Measure) -> Result<CellPlan, LayoutError> {
        measure.check()?;
        measure.compile(&measure.trails()?)
    }

    /// The plan of the same cells that are read over these windows.
    ///
    /// # Errors
    /// Says what does not fit and what would. No window fits where time is not divided.
    pub fn over(measure: &Measure, windows: &[Span]) -> Result<CellPlan, LayoutError> {
        measure.check()?;
        let trails: Result<Vec<_>, _> = windows.iter().map(|window| measure.trail(*window)).collect();
        measure.without_windows().compile(&trails?)
    }

    /// [`CellPlan::read`], then what an addition comes to, of a cell that has seen something and needs no other words than there
    /// are. Answers the first and the last event before. `None` if it is otherwise, or `is_gone` says so of the last event:
    /// then nothing is changed. Most additions to keys that are seen often are of this kind: their cell is looked at once.
    #[inline(always)]
    pub(crate) fn observe_in_place(
        &self,
        words: &mut [u64],
        time: Time,
        add: &Addition,
        is_gone: impl FnOnce(Time) -> bool,
        out: &mut [u64],
    ) -> Option<(Time, Time)> {
        match (&self.0, add) {
            (CellPlanKind::Aggregate(plan), Addition::Value(value)) => {
                plan.observe_in_place(words, time, *value, is_gone, out)
            }
            (CellPlanKind::Windows(plan), Addition::Counters(amounts)) => {
                plan.observe_in_place(words, time, amounts, is_gone, out)
            }
            _ => None,
        }
    }

    /// The first event.
    #[inline]
    pub fn first(&self, words: &[u64]) -> Option<Time> {
        self.times(words).map(|times| times.0)
    }

    /// The last event.
    #[inline]
    pub fn last(&self, words: &[u64]) -> Option<Time> {
        self.times(words).map(|times| times.1)
    }

    /// The expiry of a cell: no window reaches its last event any more, and its `keep` is over. The end of time for one
    /// that has seen nothing.
    #[inline]
    pub fn expires(&self, words: &[u64]) -> Time {
        self.last(words).map_or(Time(i64::MAX), |last| self.expires_after(last))
    }
}

/// The state that was there before an addition.
#[derive(Clone, Copy, Debug)]
pub struct ObservationContext<'a> {
    /// The time of the event.
    pub time: Time,
    /// The cell's last event; `None` where there is no cell.
    pub last: Option<Time>,
    /// The values of the reading, as of [`Addition::as_of`]; none may stand for zeros.
    pub values: &'a [u64],
    /// The origin of the addition.
    pub origin: Origin,
    /// The number of times that a sketch has seen the key while it had no cell.
    pub sightings: u32,
}

/// The change that an addition comes to in one cell. It is decided: it depends on what is there no more.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum StatisticChange<'a> {
    /// Nothing, and no cell is made.
    Nothing,
    /// Amounts to counters, so many times.
    Counters(Time, &'a CounterAmounts, u32),
    /// An amount to the first counter: what a limit has let through.
    Used(Time, u64),
    /// A refund to a limit, see [`Addition::GiveBack`].
    GiveBack {
        /// The time as of which it is made.
        now: Time,
        /// The amount.
        amount: u64,
        /// The time of the take.
        taken: Option<Time>,
    },
    /// Counters that start again from zero, see [`Addition::Clear`].
    Clear(CounterSet),
    /// An event of an aggregate, and so many sightings before it that a sketch has counted.
    Value {
        /// The time of the change.
        time: Time,
        /// Its value.
        value: Option<i64>,
        /// The sightings.
        sightings: u32,
    },
    /// See [`Addition::Lower`].
    Lower(i64),
    /// Evidence that a classifier has learned.
    Evidence(Time, Evidence),
    /// A change of a bucket.
    Flow(Time, GcraOperation),
    /// A value of an approximate distinct count, by its hash.
    Hash(Time, u64),
    /// A value of an exact distinct count: it counts if its pair's mark is not there yet.
    Unique(Time, Shingle),
    /// The value of a field.
    Last(Time, &'a str),
}

/// The origin of an addition, which matters to keys without a cell behind an admission sketch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Origin {
    /// An event: each addition is a sighting of its key.
    #[default]
    Event,
    /// The verdict on an event that was sighted before: it is added to keys that have a cell.
    Verdict,
    /// The feedback on an event: the key gets a cell at once, so that nothing that is said is lost.
    Report,
    /// A look: nothing is added, and read is what an event that added this would read.
    Look,
}

impl Origin {
    /// Returns true if a key that was seen so often before this gets a cell by an addition of this origin.
    pub fn admits(self, sightings: u32, after: u32) -> bool {
        match self {
            Origin::Event => sightings.saturating_add(1) >= after,
            Origin::Verdict | Origin::Look => false,
            Origin::Report => true,
        }
    }
}

/// An addition to what is kept of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Addition {
    /// Nothing: a peek. It creates nothing either.
    Nothing,
    /// Amounts to counters of a [`Measure::Windows`].
    Counters(CounterAmounts),
    /// An event of a [`Measure::Aggregate`], with its value if it has one.
    Value(Option<i64>),
    /// Brings the greatest value of a [`Measure::Aggregate`] that has one down to this, if it is above: what was said
    /// of a key is taken back. It counts no event and makes no cell. When two ledgers are merged the greater value stays.
    Lower(i64),
    /// Evidence that a classifier has learned, to a [`Measure::Evidence`].
    Evidence(Evidence),
    /// A take from a limit of [`Measure::limit`]. It is read and counted as of the latest event if that
    /// comes after the observation's own time, see [`Addition::as_of`]: nobody dates himself out of a limit. One that costs
    /// nothing is a look.
    Take(WindowTake),
    /// A refund to a limit of [`Measure::limit`]. It makes no cell.
    GiveBack {
        /// The amount; at most what is used is given back.
        amount: u64,
        /// The time of the take: it is given back to that sub-window and no other. Without it the oldest sub-windows are
        /// first, so that the rest counts for longer rather than for less long.
        taken: Option<Time>,
    },
    /// Counters of a [`Measure::Windows`] start again from zero: of each bucket, all that is left is taken back. Only those of
    /// which something can be taken back, see [`crate::Layout`]. It counts no event and makes no cell. What is cleared is what
    /// is known where it is decided: nodes that clear at once each take back all that they know.
    Clear(CounterSet),
    /// A change of the bucket of a [`Measure::Gcra`].
    Flow(GcraOperation),
    /// A value of a [`Measure::Distinct`] or [`Measure::Approx`]; the key is the owner's.
    Distinct {
        /// [`event::Secret::pair`] of the owner and the value: it has the owner's route bits.
        pair: Shingle,
    },
    /// The value that a field has in an event, to a [`Measure::Last`]. One that is longer than
    /// [`LastValueForm::BYTES_MAX`] makes the last value unknown.
    Last(Box<str>),
}

impl Addition {
    /// Returns whether it adds anything; what does not is a look, and creates nothing.
    pub fn adds(&self) -> bool {
        !matches!(self, Addition::Nothing | Addition::Take(WindowTake { cost: 0, .. }))
    }

    /// The look that reads what this reads.
    pub fn look(&self) -> Addition {
        match self {
            Addition::Take(take) => Addition::Take(WindowTake { cost: 0, ..*take }),
            _ => Addition::Nothing,
        }
    }

    /// Returns whether it is one more event of its key.
    pub fn is_sighting(&self) -> bool {
        self.adds() && !matches!(self, Addition::Lower(_) | Addition::Clear(_))
    }

    /// Returns whether a key that has no cell gets one.
    pub fn makes_cells(&self) -> bool {
        self.is_sighting() && !matches!(self, Addition::GiveBack { .. })
    }

    /// The moment as of which it is read and added, in a cell whose latest event is at `last`: for what is taken from a
    /// limit or given back the later of both. So of two takes whose times and whose order differ neither overlooks the
    /// other, and none is dropped for being older than what the cell keeps.
    pub fn as_of(&self, time: Time, last: Option<Time>) -> Time {
        match self {
            Addition::Take(_) | Addition::GiveBack { .. } => last.map_or(time, |last| last.max(time)),
            _ => time,
        }
    }
}

/// The content of a cell beside its times.
#[derive(Clone, Debug, PartialEq)]
pub enum CellContent {
    /// The buckets of counters over windows, exact distinct counts, their pairs, and marks of requests, as in a
    /// [`crate::Timeline`].
    Buckets(Vec<TimelineBucket>),
    /// The totals of an aggregate.
    Totals(AggregateTotals),
    /// The knowledge of a classifier. Only the last time of such a cell is kept.
    Evidence(Evidence),
    /// The moment of a bucket, in nanoseconds since 1970. The cell's times are no more than that.
    Moment(i64),
    /// The registers of an approximate distinct count, of each period that has any.
    Registers(Vec<HyperLogLogRegisters>),
    /// The last value of a field, empty where it is not known. Only the last time of such a cell is kept.
    Last(String),
}
