//! One key's statistic, packed in words: the same in memory and on disk.
//!
//! A cell is a run of 64-bit words in a [`Room`]. No words at all is the cell of a key that was never seen. Zero words
//! at the end mean nothing: a room may be larger than what is used of it, an image from a disk shorter than what a
//! room would have. What the words mean is said by a [`Plan`], compiled from a [`Measure`]; there is one file for each
//! kind of statistic.
//!
//! All operations form a commutative monoid: a cell is a function of the *set* of events that it has seen, whatever
//! their order and their grouping into cells that are merged. One is not so: what is taken from a bucket ([`gcra`]).
//!
//! Words from a disk are given to [`Plan::check`] once. After it has said yes no operation panics on them.

mod aggregate;
mod divisor;
mod evidence;
mod gcra;
mod head;
mod hyperloglog;
mod lanes;
mod windows;

#[cfg(test)]
mod tests;

use event::{Span, Time};

use aggregate::AggregatePlan;
use evidence::EvidencePlan;
use gcra::GcraPlan;
use head::CellHead;
pub(crate) use hyperloglog::HyperLogLogPlan;
pub(crate) use windows::WindowsPlan;

use crate::catalog::Measure;
use crate::cell_export::CellContent;
use crate::layout::{AggregateColumn, CellShape, LayoutError, WindowBuckets};
use crate::ledger::{Addition, Evidence, TimelineBucket};
use crate::limit::GcraOperation;

/// Where a cell's words live, and can grow or shrink.
pub trait CellBuffer {
    /// The words.
    fn words(&self) -> &[u64];
    /// Returns the words, to be changed.
    fn words_mut(&mut self) -> &mut [u64];
    /// Makes room for so many words or a few more. What fits keeps its content, new words are zero.
    fn resize(&mut self, words: usize);
}

impl CellBuffer for Vec<u64> {
    fn words(&self) -> &[u64] {
        self
    }

    fn words_mut(&mut self) -> &mut [u64] {
        self
    }

    fn resize(&mut self, words: usize) {
        Vec::resize(self, words, 0);
    }
}

/// Makes room, if there is not enough.
#[inline]
fn ensure(room: &mut impl CellBuffer, words: usize) {
    if room.words().len() < words {
        room.resize(words);
    }
}

/// Gives room back, if most of it is free. What is free is zero.
fn fit_down(room: &mut impl CellBuffer, words: usize) {
    if 2 * words <= room.words().len() {
        room.resize(words);
    }
}

/// The operations on the cells of one statistic. Cheap to share, costs nothing to use: no allocation and no virtual
/// call, except where said.
#[derive(Clone, Debug)]
pub struct CellPlan(CellPlanKind);

#[derive(Clone, Debug)]
enum CellPlanKind {
    /// Also exact distinct counts and marks of requests: their cells have one counter.
    Windows(WindowsPlan),
    Aggregate(AggregatePlan),
    Approx(HyperLogLogPlan),
    Evidence(EvidencePlan),
    Gcra,
}

impl CellPlan {
    /// The longest that the moment of a bucket that is refilled may lie ahead.
    pub const REFILL_MAX: Span = Span::days(366);

    /// Compiles a statistic, with the windows that it is read over.
    ///
    /// # Errors
    /// Says what does not fit and what would.
    pub fn new(measure: &Measure) -> Result<CellPlan, LayoutError> {
        measure.check()?;
        CellPlan::compile(measure, &measure.trails()?)
    }

    /// The plan of the same cells that are read over these windows.
    ///
    /// # Errors
    /// Says what does not fit and what would. No window fits a track.
    pub fn over(measure: &Measure, windows: &[Span]) -> Result<CellPlan, LayoutError> {
        measure.check()?;
        let trails: Result<Vec<_>, _> = windows.iter().map(|window| measure.trail(*window)).collect();
        CellPlan::compile(measure, &trails?)
    }

    fn compile(measure: &Measure, trails: &[WindowBuckets]) -> Result<CellPlan, LayoutError> {
        Ok(CellPlan(match measure {
            Measure::Windows(_) | Measure::Distinct { .. } | Measure::Once { .. } => {
                CellPlanKind::Windows(WindowsPlan::new(&measure.shape()?, measure.taken(), trails))
            }
            Measure::Aggregate(track) => CellPlanKind::Aggregate(AggregatePlan::new(track)),
            Measure::Evidence { keep } => CellPlanKind::Evidence(EvidencePlan::new(*keep)),
            Measure::Gcra => CellPlanKind::Gcra,
            Measure::Approx { precision, .. } => {
                CellPlanKind::Approx(HyperLogLogPlan::new(&measure.shape()?, *precision, trails))
            }
        }))
    }

    /// Values that a reading has for each window; for a track, which has no windows, all of them.
    pub fn columns(&self) -> usize {
        match &self.0 {
            CellPlanKind::Windows(plan) => plan.shown(),
            CellPlanKind::Aggregate(plan) => plan.columns().len(),
            CellPlanKind::Approx(_) => 1,
            CellPlanKind::Evidence(_) => EvidencePlan::COLUMNS,
            CellPlanKind::Gcra => GcraPlan::COLUMNS,
        }
    }

    /// Values of a reading: windows by columns.
    #[inline]
    pub fn reading(&self) -> usize {
        match &self.0 {
            CellPlanKind::Windows(plan) => plan.reading(),
            CellPlanKind::Aggregate(plan) => plan.columns().len(),
            CellPlanKind::Approx(plan) => plan.reading(),
            CellPlanKind::Evidence(_) => EvidencePlan::COLUMNS,
            CellPlanKind::Gcra => GcraPlan::COLUMNS,
        }
    }

    /// Returns what the values of a track's reading are; empty for other statistics, whose values are counts.
    pub fn aggregate_columns(&self) -> &[AggregateColumn] {
        match &self.0 {
            CellPlanKind::Aggregate(plan) => plan.columns(),
            _ => &[],
        }
    }

    /// Counts an event of a windowed statistic: adds each amount to its counter, saturating. The event is seen even
    /// if there is no amount. Counters out of range are ignored; other statistics do not change.
    #[inline]
    pub fn add(&self, room: &mut impl CellBuffer, time: Time, amounts: impl IntoIterator<Item = (u8, u64)>) {
        if let CellPlanKind::Windows(plan) = &self.0 {
            plan.add(room, time, amounts);
        }
    }

    /// Counts an event of a track, which may have a value. Other statistics do not change.
    #[inline]
    pub fn add_value(&self, room: &mut impl CellBuffer, time: Time, value: Option<i64>) {
        if let CellPlanKind::Aggregate(plan) = &self.0 {
            plan.add(room, time, value);
        }
    }

    /// [`Plan::read`], then [`Plan::add_value`], of a track's cell that has seen something and needs no more words than there
    /// are. Answers the first and the last event before. `None` if it is otherwise, or `is_gone` says so of the last event:
    /// then nothing is changed.
    #[inline(always)]
    pub(crate) fn observe_in_place(
        &self,
        words: &mut [u64],
        time: Time,
        value: Option<i64>,
        is_gone: impl FnOnce(Time) -> bool,
        out: &mut [u64],
    ) -> Option<(Time, Time)> {
        match &self.0 {
            CellPlanKind::Aggregate(plan) => plan.observe_in_place(words, time, value, is_gone, out),
            _ => None,
        }
    }

    /// Brings the greatest value of a track down to this, if it is above. Other statistics do not change.
    pub fn lower(&self, words: &mut [u64], value: i64) {
        if let CellPlanKind::Aggregate(plan) = &self.0 {
            plan.lower(words, value);
        }
    }

    /// Adds a value to an approximate distinct count, by a hash of it. The low 48 bits are used, and must be
    /// distributed like random ones. Other statistics do not change.
    #[inline]
    pub fn add_hash(&self, room: &mut impl CellBuffer, time: Time, hash: u64) {
        if let CellPlanKind::Approx(plan) = &self.0 {
            plan.add(room, time, hash);
        }
    }

    /// Adds to what a classifier has learned. Other statistics do not change.
    #[inline]
    pub fn add_evidence(&self, room: &mut impl CellBuffer, time: Time, evidence: Evidence) {
        if let CellPlanKind::Evidence(plan) = &self.0 {
            plan.add(room, time, evidence);
        }
    }

    /// Takes back so much of what a limit's cell has counted: of the bucket that `at` falls into, or else of the buckets
    /// that the window reaches as of `now`, the oldest first. Never more of a bucket than it has. Other statistics do not
    /// change. Allocates.
    pub fn give_back(&self, room: &mut impl CellBuffer, now: Time, amount: u64, at: Option<Time>) {
        if let CellPlanKind::Windows(plan) = &self.0 {
            plan.give_back(room, now, amount, at);
        }
    }

    /// Lets something happen to a bucket of [`Measure::Gcra`]. Other statistics do not change.
    #[inline]
    pub fn flow(&self, room: &mut impl CellBuffer, now: Time, flow: &GcraOperation) {
        if matches!(self.0, CellPlanKind::Gcra) {
            GcraPlan::apply(room, now, flow);
        }
    }

    /// Returns how much the values of a limit's reading say is used, see [`crate::limit::interpolated`].
    #[inline]
    pub fn used(&self, values: &[u64], now: Time, is_interpolated: bool) -> u64 {
        let value = |at: usize| values.get(at).copied().unwrap_or(0);
        match &self.0 {
            CellPlanKind::Windows(plan) if is_interpolated => plan.interpolated(value(0), value(1), now),
            _ => value(0),
        }
    }

    /// Adds what another cell of the same plan has seen.
    pub fn merge(&self, room: &mut impl CellBuffer, other: &[u64]) {
        match &self.0 {
            CellPlanKind::Windows(plan) => plan.merge(room, other),
            CellPlanKind::Aggregate(plan) => plan.merge(room, other),
            CellPlanKind::Approx(plan) => plan.merge(room, other),
            CellPlanKind::Evidence(plan) => plan.merge(room, other),
            CellPlanKind::Gcra => GcraPlan::merge(room, other),
        }
    }

    /// Fills `out`, as long as [`Plan::reading`], with what is known as of `now`: windows by columns. Values of a
    /// track are to be taken through [`Column::value`].
    #[inline]
    pub fn read(&self, words: &[u64], now: Time, out: &mut [u64]) {
        match &self.0 {
            CellPlanKind::Windows(plan) => plan.read(words, now, out),
            CellPlanKind::Aggregate(plan) => plan.read(words, now, out),
            CellPlanKind::Approx(plan) => plan.read(words, now, out),
            CellPlanKind::Evidence(plan) => plan.read(words, out),
            CellPlanKind::Gcra => GcraPlan::read(words, out),
        }
    }

    /// Puts an estimate of the number of events into the reading of a key that has no cell: into a track's count, and into
    /// the counters that `add` adds to, for each window.
    pub fn estimate(&self, events: u64, add: &Addition, out: &mut [u64]) {
        match (&self.0, add) {
            (CellPlanKind::Aggregate(plan), _) => {
                let count = plan.columns().iter().position(|column| *column == AggregateColumn::Count);
                if let Some(value) = count.and_then(|at| out.get_mut(at)) {
                    *value = events;
                }
            }
            (CellPlanKind::Windows(plan), Addition::Counters(amounts)) => {
                let shown = plan.shown();
                for (counter, amount) in amounts.iter().filter(|(counter, _)| usize::from(*counter) < shown) {
                    let values = out.iter_mut().skip(usize::from(counter)).step_by(shown);
                    values.for_each(|value| *value = amount.saturating_mul(events));
                }
            }
            _ => {}
        }
    }

    /// First and last event; `None` if nothing was seen. What a classifier has learned knows the last only.
    #[inline]
    pub fn times(&self, words: &[u64]) -> Option<(Time, Time)> {
        match &self.0 {
            CellPlanKind::Aggregate(plan) => plan.times(words),
            CellPlanKind::Evidence(plan) => plan.times(words),
            CellPlanKind::Gcra => GcraPlan::times(words),
            _ => CellHead::read(words).map(|head| (Time(head.first), Time(head.last))),
        }
    }

    /// How far behind a time the latest event of a cell lies, if it does. The moment of a bucket that is refilled may be ahead by
    /// as much as the bucket holds: it counts as ahead beyond [`Plan::REFILL_MAX`].
    pub fn ahead(&self, words: &[u64], latest: Time) -> Option<Span> {
        let allowed = if matches!(self.0, CellPlanKind::Gcra) { CellPlan::REFILL_MAX } else { Span::ZERO };
        let (_, last) = self.times(words)?;
        let far = Span(last.0.saturating_sub(latest.0));
        (far > allowed).then_some(far)
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

    /// When a cell may be forgotten: no window reaches its last event any more, and what is to be kept is over. The
    /// end of time for one that has seen nothing.
    #[inline]
    pub fn expires(&self, words: &[u64]) -> Time {
        self.last(words).map_or(Time(i64::MAX), |last| self.expires_after(last))
    }

    /// Returns when any cell with this last event expires.
    #[inline]
    pub fn expires_after(&self, last: Time) -> Time {
        match &self.0 {
            CellPlanKind::Windows(plan) => plan.expires_after(last),
            CellPlanKind::Aggregate(plan) => plan.expires_after(last),
            CellPlanKind::Approx(plan) => plan.expires_after(last),
            CellPlanKind::Evidence(plan) => plan.expires_after(last),
            CellPlanKind::Gcra => last,
        }
    }

    /// A cell is kept for at least so long after its last event.
    pub(crate) fn kept_for(&self) -> Span {
        match &self.0 {
            CellPlanKind::Windows(plan) => plan.shape().kept_for(),
            CellPlanKind::Aggregate(plan) => plan.keep(),
            CellPlanKind::Approx(plan) => plan.shape().kept_for(),
            CellPlanKind::Evidence(plan) => plan.keep(),
            CellPlanKind::Gcra => Span::ZERO,
        }
    }

    /// The number of the finest bucket or period that a time falls into; zero for a track.
    #[inline]
    pub fn bucket(&self, time: Time) -> i64 {
        match &self.0 {
            CellPlanKind::Windows(plan) => plan.bucket(time),
            CellPlanKind::Aggregate(_) | CellPlanKind::Evidence(_) | CellPlanKind::Gcra => 0,
            CellPlanKind::Approx(plan) => plan.bucket(time),
        }
    }

    /// Returns whether a bucket of the finest tier holds anything, and whether it is kept or would be: what exact distinct
    /// counts and marks of requests need to know. False and true for other statistics.
    #[inline]
    pub fn fine(&self, words: &[u64], bucket: i64) -> (bool, bool) {
        match &self.0 {
            CellPlanKind::Windows(plan) => plan.fine(words, bucket),
            _ => (false, true),
        }
    }

    /// Where a window, by its index, begins as of `now`: no event before that counts in it.
    pub fn since(&self, window: usize, now: Time) -> Option<Time> {
        match &self.0 {
            CellPlanKind::Windows(plan) => plan.since(window, now),
            CellPlanKind::Aggregate(_) | CellPlanKind::Evidence(_) | CellPlanKind::Gcra => None,
            CellPlanKind::Approx(plan) => plan.since(window, now),
        }
    }

    /// Returns whether the words, as long as they are, are a cell that all operations are safe on. To be asked once of what
    /// comes from a disk. Costs a look at every word.
    pub fn check(&self, words: &[u64]) -> bool {
        words.len() <= CellShape::WORDS_MAX
            && match &self.0 {
                CellPlanKind::Windows(plan) => plan.check(words),
                CellPlanKind::Aggregate(plan) => plan.check(words),
                CellPlanKind::Approx(plan) => plan.check(words),
                CellPlanKind::Evidence(plan) => plan.check(words),
                CellPlanKind::Gcra => GcraPlan::check(words),
            }
    }

    /// All buckets that hold anything: coarse ones and then fine ones, each oldest first. No count is in two. None for
    /// a track and for what a classifier has learned. An approximate distinct count has its estimates. Allocates.
    pub fn rows(&self, words: &[u64]) -> Vec<TimelineBucket> {
        let (shape, rows) = match &self.0 {
            CellPlanKind::Windows(plan) => (plan.shape(), plan.rows(words)),
            CellPlanKind::Aggregate(_) | CellPlanKind::Evidence(_) | CellPlanKind::Gcra => return Vec::new(),
            CellPlanKind::Approx(plan) => (plan.shape(), plan.rows(words)),
        };
        let coarse_width = shape.coarse().unwrap_or(shape.fine()).width;
        let row = |(coarse, bucket, counts): (bool, i64, Vec<u64>)| {
            let width = if coarse { coarse_width } else { shape.fine().width };
            TimelineBucket { start: Time(bucket.saturating_mul(width.0)), width, counts }
        };
        rows.into_iter().map(row).collect()
    }

    /// Returns the buckets as readings have them: without what was taken back, and buckets of which nothing is left.
    pub fn net_rows(&self, words: &[u64]) -> Vec<TimelineBucket> {
        let mut rows = self.rows(words);
        if let CellPlanKind::Windows(plan) = &self.0 {
            rows.iter_mut().for_each(|row| plan.net(&mut row.counts));
            rows.retain(|row| row.counts.iter().any(|count| *count > 0));
        }
        rows
    }

    /// All that a cell holds beside its times, spelled out; [`Plan::restore`] makes the cell of it again. `None` of what
    /// has seen nothing, but for windows, which then have no buckets. Allocates.
    pub fn content(&self, words: &[u64]) -> Option<CellContent> {
        match &self.0 {
            CellPlanKind::Windows(_) => Some(CellContent::Buckets(self.rows(words))),
            CellPlanKind::Aggregate(plan) => plan.totals(words).map(CellContent::Totals),
            CellPlanKind::Approx(plan) => Some(CellContent::Registers(plan.registers(words))),
            CellPlanKind::Evidence(plan) => plan.sums(words).map(CellContent::Evidence),
            CellPlanKind::Gcra => GcraPlan::moment(words).map(CellContent::Moment),
        }
    }

    /// The cell that has seen what is spelled out, which may come from anywhere. Words are as many as the content needs,
    /// or as many as the plan's cells have at most.
    ///
    /// # Errors
    /// Says what it cannot be.
    pub fn restore(&self, first: Time, last: Time, content: &CellContent) -> Result<Vec<u64>, &'static str> {
        if first > last {
            return Err("the first event is after the last");
        }
        let mut words = Vec::new();
        match (&self.0, content) {
            (CellPlanKind::Windows(plan), CellContent::Buckets(buckets)) => {
                plan.restore(&mut words, first, last, buckets)?;
            }
            (CellPlanKind::Aggregate(plan), CellContent::Totals(totals)) => {
                plan.restore(&mut words, first.0, last.0, totals)?;
            }
            (CellPlanKind::Approx(plan), CellContent::Registers(periods)) => {
                plan.restore(&mut words, first.0, last.0, periods)?;
            }
            (CellPlanKind::Evidence(plan), CellContent::Evidence(sums)) => plan.add(&mut words, last, *sums),
            (CellPlanKind::Gcra, CellContent::Moment(moment)) => GcraPlan::set(&mut words, *moment),
            _ => return Err("it is of another form than its definition"),
        }
        if self.check(&words) { Ok(words) } else { Err("it is no cell of its definition") }
    }

    /// Adds what a cell of another definition has seen, as far as it can be kept. Windows of `old` become windows with
    /// `sources` saying which old counter each counter was; `multiples` whether a bucket may go into a longer one.
    pub(crate) fn translate(
        &self,
        room: &mut impl CellBuffer,
        words: &[u64],
        old: &CellPlan,
        sources: &[Option<usize>],
        multiples: bool,
    ) {
        match (&self.0, &old.0) {
            (CellPlanKind::Windows(new), CellPlanKind::Windows(old)) => {
                new.translate(room, words, old, sources, multiples);
            }
            (CellPlanKind::Aggregate(new), CellPlanKind::Aggregate(old)) => new.translate(room, words, old),
            (CellPlanKind::Approx(new), CellPlanKind::Approx(old)) => new.fold(room, words, old),
            (CellPlanKind::Evidence(new), CellPlanKind::Evidence(_)) => new.merge(room, words),
            (CellPlanKind::Gcra, CellPlanKind::Gcra) => GcraPlan::merge(room, words),
            _ => {}
        }
    }

    /// The windowed form, whose rows tests look at.
    #[cfg(test)]
    fn windows(&self) -> Option<&WindowsPlan> {
        match &self.0 {
            CellPlanKind::Windows(plan) => Some(plan),
            _ => None,
        }
    }
}
