//! The [`Ledger`] trait: reading and adding statistics, whatever their home.

use std::collections::HashSet;
use std::fmt;
use std::future::Future;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;

use event::{Key, Kind, Shingle, Space, Span, Time};
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use crate::catalog::{Catalog, CatalogError, Statistic};
use crate::kind::series::BucketSummary;
use crate::kind::windows::TimelineBucket;
use crate::kind::{Addition, Measure, Origin};
use crate::layout::LayoutError;

/// A question that long work asks now and then: whether nobody waits for it any more.
pub type CancellationCheck<'a> = &'a (dyn Fn() -> bool + Sync);

/// The answer of a ledger's awaited methods: a future that any runtime, or none, can drive.
pub type LedgerFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, LedgerError>> + Send + 'a>>;

/// A look at one key, and what is added to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Observation {
    /// The key.
    pub key: Key,
    /// The event's time: the reading is as of it, the addition lands in its bucket.
    pub time: Time,
    /// The addition.
    pub add: Addition,
}

impl Statistic {
    /// Checks that an observation fits it.
    ///
    /// # Errors
    /// [`LedgerError::Unfit`] says what does not.
    #[inline]
    pub fn check(&self, Observation { key, add, .. }: &Observation) -> Result<(), LedgerError> {
        self.measure.accepts(key, add).map_err(|why| self.unfit(why))
    }

    /// Checks that its cells are marks of requests.
    ///
    /// # Errors
    /// [`LedgerError::Unfit`] if not.
    pub fn check_mark(&self) -> Result<(), LedgerError> {
        if matches!(self.measure, Measure::Once(_)) {
            return Ok(());
        }
        Err(self.unfit("it holds no marks of requests"))
    }

    fn unfit(&self, why: &str) -> LedgerError {
        LedgerError::Unfit { statistic: self.name.clone(), why: why.to_owned() }
    }
}

/// A mark that a request leaves, so that it is counted once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DedupeMark {
    /// A key of a [`crate::Measure::Once`] kind; its shingle is that of the request's id. Such keys cannot be
    /// observed, their [`Ledger::timeline`] can be read.
    pub key: Key,
    /// The event's time.
    pub time: Time,
}

/// Observations that belong together, usually those of one event. Its additions and its mark are kept or lost
/// together in a crash.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObserveRequest {
    /// A mark of the request: if it is known already, nothing is added; readings are answered all the same.
    pub once: Option<DedupeMark>,
    /// The origin of its additions, which matters to statistics with a sketch in front.
    pub origin: Origin,
    /// In order; a later observation of a key sees what an earlier one added.
    pub observations: Vec<Observation>,
}

impl ObserveRequest {
    /// Most observations of one request.
    pub const OBSERVATIONS_MAX: usize = 4096;

    /// Returns whether it may add anything.
    pub fn adds(&self) -> bool {
        let adds = || self.observations.iter().any(|observation| observation.add.adds());
        self.once.is_some() || self.origin != Origin::Look && adds()
    }
}

/// The answer to a [`ObserveRequest`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObserveOutcome {
    /// The request's mark was there already: nothing was added.
    pub duplicate: bool,
    /// One per observation, in its order.
    pub readings: Vec<Reading>,
}

/// The answers to a batch of [`ObserveRequest`]s, in three flat lists however many keys there are.
#[derive(Clone, Debug, Default)]
pub struct ObserveOutcomes {
    /// The end of each request's readings, and whether it was a duplicate.
    pub(crate) requests: Vec<(u32, bool)>,
    pub(crate) readings: Vec<PackedReading>,
    pub(crate) values: Vec<u64>,
    /// The requests of which it is not known whether they count, and the reason for the last of them.
    unconfirmed: Option<(Vec<bool>, Arc<str>)>,
}

/// A reading whose values lie in a list with those of others.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PackedReading {
    pub(crate) first: i64,
    pub(crate) last: i64,
    pub(crate) start: u32,
    pub(crate) width: u16,
    pub(crate) columns: u8,
    pub(crate) quality: Quality,
    pub(crate) fresh: bool,
}

impl PackedReading {
    /// The reading of an unknown key.
    pub(crate) const NEW: PackedReading = PackedReading {
        first: i64::MAX,
        last: i64::MIN,
        start: 0,
        width: 0,
        columns: 0,
        quality: Quality::Exact,
        fresh: false,
    };
}

/// A reading but for its values, as a home tells it.
#[derive(Clone, Copy, Debug)]
pub struct ReadingHead {
    /// The quality: how far it can be trusted.
    pub quality: Quality,
    /// The key's first and last event.
    pub times: Option<(Time, Time)>,
    /// See [`Reading::fresh`].
    pub fresh: bool,
    /// Values that it has for each window, see [`crate::Plan::columns`].
    pub columns: u8,
}

impl ObserveOutcomes {
    /// Answers in which nothing is known of any key, to requests of so many observations each: for homes to fill in.
    pub fn blank(observations: impl IntoIterator<Item = usize>) -> ObserveOutcomes {
        let mut outcomes = ObserveOutcomes::default();
        let mut end = 0;
        for count in observations {
            end += count;
            outcomes.requests.push((end as u32, false));
        }
        outcomes.readings.resize(end, PackedReading::NEW);
        outcomes
    }

    /// Answers in which every key's statistics are missing, to requests of so many observations each.
    pub fn missing(observations: impl IntoIterator<Item = usize>) -> ObserveOutcomes {
        let mut outcomes = ObserveOutcomes::blank(observations);
        outcomes.readings.fill(PackedReading { quality: Quality::Missing, ..PackedReading::NEW });
        outcomes
    }

    /// Says that a request's mark was there already.
    pub fn set_duplicate(&mut self, request: usize) {
        if let Some((_, duplicate)) = self.requests.get_mut(request) {
            *duplicate = true;
        }
    }

    /// Says that it is not known whether a request counts. None of its additions was made by now.
    pub fn set_unconfirmed(&mut self, request: usize, why: Arc<str>) {
        let count = self.requests.len();
        let (unconfirmed, last) = self.unconfirmed.get_or_insert_with(|| (vec![false; count], why.clone()));
        if let Some(unconfirmed) = unconfirmed.get_mut(request) {
            *unconfirmed = true;
        }
        *last = why;
    }

    /// Tells a reading, by its place among all of them. The values may be none, which are all zero.
    pub fn set_reading(&mut self, reading: usize, told: ReadingHead, values: &[u64]) {
        let Some(brief) = self.readings.get_mut(reading) else { return };
        let (first, last) = told.times.map_or((i64::MAX, i64::MIN), |(first, last)| (first.0, last.0));
        *brief = PackedReading {
            first,
            last,
            start: self.values.len() as u32,
            width: values.len() as u16,
            columns: told.columns,
            quality: told.quality,
            fresh: told.fresh,
        };
        self.values.extend_from_slice(values);
    }

    /// Returns the number of requests that were answered.
    pub fn len(&self) -> usize {
        self.requests.len()
    }

    /// Returns whether there was no request.
    pub fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }

    /// Returns whether a request's mark was there already, so that nothing was added.
    pub fn duplicate(&self, request: usize) -> bool {
        self.requests.get(request).is_some_and(|(_, duplicate)| *duplicate)
    }

    /// Returns whether it is not known if a request counts: see [`Ledger::observe_each`].
    pub fn is_unconfirmed(&self, request: usize) -> bool {
        let unconfirmed = self.unconfirmed.as_ref().and_then(|(unconfirmed, _)| unconfirmed.get(request));
        unconfirmed.is_some_and(|unconfirmed| *unconfirmed)
    }

    /// Returns the reason why it is not known of some request whether it counts, if there is such a request.
    pub fn failure(&self) -> Option<LedgerError> {
        self.unconfirmed.as_ref().map(|(_, why)| LedgerError::Unreachable { why: why.clone() })
    }

    /// The readings of a request, one per observation.
    pub fn readings(&self, request: usize) -> Readings<'_> {
        let end = self.requests.get(request).map_or(0, |(end, _)| *end as usize);
        let start = request.checked_sub(1).and_then(|before| self.requests.get(before));
        let start = start.map_or(0, |(end, _)| *end as usize).min(end);
        Readings { briefs: &self.readings[start..end], values: &self.values }
    }

    /// A reading by its number among those of all requests.
    #[inline]
    pub fn reading(&self, at: usize) -> Option<ReadingView<'_>> {
        self.readings.get(at).map(|brief| ReadingView { brief, values: &self.values })
    }

    /// Every so manieth reading, from one on.
    #[inline]
    pub fn every(&self, step: usize, first: usize) -> impl Iterator<Item = ReadingView<'_>> {
        let readings = self.readings.get(first..).unwrap_or_default();
        readings.iter().step_by(step.max(1)).map(|brief| ReadingView { brief, values: &self.values })
    }

    /// The readings of all requests, one behind the other.
    pub fn all(&self) -> impl ExactSizeIterator<Item = ReadingView<'_>> + Clone {
        self.readings.iter().map(|brief| ReadingView { brief, values: &self.values })
    }

    /// Each request's outcome as a value of its own.
    pub fn outcomes(&self) -> impl ExactSizeIterator<Item = ObserveOutcome> + '_ {
        (0..self.len()).map(|request| ObserveOutcome {
            duplicate: self.duplicate(request),
            readings: self.readings(request).iter().map(|view| view.to_reading()).collect(),
        })
    }
}

/// Some of the readings inside [`ObserveOutcomes`], in their order.
#[derive(Clone, Copy, Debug, Default)]
pub struct Readings<'a> {
    briefs: &'a [PackedReading],
    values: &'a [u64],
}

impl<'a> Readings<'a> {
    /// Returns how many there are.
    pub fn len(&self) -> usize {
        self.briefs.len()
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.briefs.is_empty()
    }

    /// The first one.
    #[inline]
    pub fn first(&self) -> Option<ReadingView<'a>> {
        self.briefs.first().map(|brief| ReadingView { brief, values: self.values })
    }

    /// All of them.
    #[inline]
    pub fn iter(&self) -> impl ExactSizeIterator<Item = ReadingView<'a>> + Clone + use<'a> {
        let values = self.values;
        self.briefs.iter().map(move |brief| ReadingView { brief, values })
    }

    /// A part of them; none if there are not so many.
    #[inline]
    pub fn part(&self, range: Range<usize>) -> Readings<'a> {
        Readings { briefs: self.briefs.get(range).unwrap_or_default(), values: self.values }
    }

    /// The first `count` readings, or all if there are fewer, and the rest.
    #[inline]
    pub fn split_at(&self, count: usize) -> (Readings<'a>, Readings<'a>) {
        let (one, other) = self.briefs.split_at(count.min(self.briefs.len()));
        (Readings { briefs: one, ..*self }, Readings { briefs: other, ..*self })
    }
}

/// A [`Reading`] inside [`ObserveOutcomes`].
#[derive(Clone, Copy, Debug)]
pub struct ReadingView<'a> {
    brief: &'a PackedReading,
    values: &'a [u64],
}

impl<'a> ReadingView<'a> {
    /// Returns how far it can be trusted.
    #[inline]
    pub fn quality(&self) -> Quality {
        self.brief.quality
    }

    /// The key's first event.
    #[inline]
    pub fn first(&self) -> Option<Time> {
        (self.brief.first <= self.brief.last).then_some(Time(self.brief.first))
    }

    /// The key's last event.
    #[inline]
    pub fn last(&self) -> Option<Time> {
        (self.brief.first <= self.brief.last).then_some(Time(self.brief.last))
    }

    /// See [`Reading::fresh`].
    #[inline]
    pub fn fresh(&self) -> bool {
        self.brief.fresh
    }

    /// See [`Reading::sum`].
    #[inline]
    pub fn sum(&self, window: usize, column: usize) -> u64 {
        sum(self.sums(), self.brief.columns, window, column)
    }

    /// The sum-up of a series, by its number in the statistic's definition.
    pub fn series(&self, series: usize) -> BucketSummary {
        BucketSummary::read(self.sums(), series)
    }

    /// Returns the number of counters that each window has.
    #[inline]
    pub fn counters(&self) -> u8 {
        self.brief.columns
    }

    /// See [`Reading::sums`].
    #[inline]
    pub fn sums(&self) -> &'a [u64] {
        let start = self.brief.start as usize;
        self.values.get(start..start + usize::from(self.brief.width)).unwrap_or_default()
    }

    /// The reading as a value of its own.
    pub fn to_reading(&self) -> Reading {
        Reading {
            quality: self.quality(),
            first: self.first(),
            last: self.last(),
            fresh: self.fresh(),
            counters: self.brief.columns,
            sums: ReadingSums::from_slice(self.sums()),
        }
    }
}

#[inline]
fn sum(values: &[u64], columns: u8, window: usize, column: usize) -> u64 {
    if column >= usize::from(columns) {
        return 0;
    }
    values.get(window * usize::from(columns) + column).copied().unwrap_or(0)
}

/// The quality of a reading: how far it can be trusted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Quality {
    /// All that was counted and is kept.
    #[default]
    Exact,
    /// From a sketch: close to the truth.
    Estimated,
    /// The stored cell could not be read: the reading holds at most later additions.
    Missing,
    /// All that was counted here, and what others had counted when a home that many nodes share was last asked: what they have
    /// counted since may lack.
    Lagging,
}

impl Quality {
    /// Returns true if it is of what was counted, and is neither missing nor an estimate.
    pub fn is_counted(self) -> bool {
        matches!(self, Quality::Exact | Quality::Lagging)
    }
}

/// A statistic's values for one key, as they were before the observation's own addition.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Reading {
    /// The quality: how far it can be trusted.
    pub quality: Quality,
    /// The key's first event.
    pub first: Option<Time>,
    /// The key's last event.
    pub last: Option<Time>,
    /// True if the pair had not been seen in the time's period, for [`Addition::Distinct`]. False for a pair that comes
    /// so late that its period is forgotten.
    pub fresh: bool,
    pub(crate) counters: u8,
    /// Windows by counters, and then series; empty for a key without counts.
    #[serde(with = "sums")]
    pub(crate) sums: ReadingSums,
}

/// A few of them lie beside the rest: events have many readings, most of them short.
pub(crate) type ReadingSums = SmallVec<[u64; 4]>;

/// Sums as sequences of numbers.
mod sums {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use super::ReadingSums;

    pub(super) fn serialize<S: Serializer>(sums: &ReadingSums, serializer: S) -> Result<S::Ok, S::Error> {
        sums.as_slice().serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ReadingSums, D::Error> {
        Vec::deserialize(deserializer).map(ReadingSums::from_vec)
    }
}

impl Reading {
    /// The reading of a key whose statistics cannot be had.
    pub fn missing() -> Reading {
        Reading { quality: Quality::Missing, ..Reading::default() }
    }

    /// A reading of these parts: first and last time, whether the pair was new, and the sums of so many counters, window
    /// by window.
    pub fn of(
        quality: Quality,
        (first, last): (Option<Time>, Option<Time>),
        fresh: bool,
        counters: u8,
        sums: &[u64],
    ) -> Reading {
        Reading { quality, first, last, fresh, counters, sums: ReadingSums::from_slice(sums) }
    }

    /// Returns the number of counters that each window has.
    pub fn counters(&self) -> u8 {
        self.counters
    }

    /// The sums, window by window, and then what series say; empty for a key without counts.
    pub fn sums(&self) -> &[u64] {
        &self.sums
    }

    /// The sum of a counter over a window, both by their index in the statistic's definition; 0 where nothing was
    /// counted. A statistic of fixed columns has one window, see [`crate::AggregateLayout`].
    pub fn sum(&self, window: usize, counter: usize) -> u64 {
        sum(&self.sums, self.counters, window, counter)
    }
}

impl PartialEq for Reading {
    /// Readings are equal if nobody could tell them apart.
    fn eq(&self, other: &Reading) -> bool {
        let parts = |reading: &Reading| (reading.quality, reading.first, reading.last, reading.fresh);
        let longest = self.sums.len().max(other.sums.len());
        let sum = |reading: &Reading, at: usize| reading.sums.get(at).copied().unwrap_or(0);
        parts(self) == parts(other) && (0..longest).all(|at| sum(self, at) == sum(other, at))
    }
}

impl Eq for Reading {}

/// All that is kept of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timeline {
    /// Names of the counters.
    pub counters: Vec<String>,
    /// First event.
    pub first: Time,
    /// Last event.
    pub last: Time,
    /// Buckets that hold anything: folded coarse ones and then fine ones, each oldest first. No count is in two.
    pub buckets: Vec<TimelineBucket>,
}

/// Figures of what a ledger holds and has done since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LedgerCensus {
    /// Cells in memory.
    pub cells: u64,
    /// Memory of cells and of the directory of all keys.
    pub memory_bytes: u64,
    /// The part of it that is not written yet.
    pub dirty_bytes: u64,
    /// Keys, in memory or on disk alone.
    pub keys: u64,
    /// The part of the memory that is the directory.
    pub directory_bytes: u64,
    /// The most that the directory may be; 0 if it has no bound of its own. A new key is only estimated then, until it was seen a few
    /// times and one that was there has expired. An eighth more is kept for keys of limits and labels.
    pub directory_max_bytes: u64,
    /// Observations of keys that found no place in the directory, and were estimated.
    pub unplaced: u64,
    /// Length of the files.
    pub disk_bytes: u64,
    /// The part of it that is the newest image of a key.
    pub live_bytes: u64,
    /// Bytes of images that merges have written again.
    pub rewritten_bytes: u64,
    /// Flushes that wrote.
    pub flushes: u64,
    /// Cells read back from disk.
    pub loads: u64,
    /// Cells that left memory to make room. Without a disk they are lost.
    pub evictions: u64,
    /// Cells that were let go because no window reaches them any more.
    pub expired: u64,
    /// Images that could not be read.
    pub damaged: u64,
    /// The disk is full, or no descriptor or memory is left for a file: nothing is added for now.
    pub full: bool,
    /// A write failed: nothing is added any more.
    pub poisoned: bool,
}

/// Reasons for a ledger without an answer.
#[derive(Debug, thiserror::Error)]
pub enum LedgerError {
    /// The catalog has no statistic for the kind.
    #[error("no statistic is configured for kind {} of space {}", kind.0, space.0)]
    Unknown {
        /// The space of the kind.
        space: Space,
        /// The kind of the statistic.
        kind: Kind,
    },
    /// The addition does not fit the kind's statistic.
    #[error("statistic `{statistic}`: {why}")]
    Unfit {
        /// Its name.
        statistic: String,
        /// The reason why it does not fit.
        why: String,
    },
    /// A window that the statistic cannot answer.
    #[error(transparent)]
    Window(#[from] LayoutError),
    /// Nobody waited for the answer any more.
    #[error("the call was ended, as its time was over or its caller had gone")]
    Stopped,
    /// More observations in one request than [`ObserveRequest::OBSERVATIONS_MAX`].
    #[error("a request of {0} observations is too large: at most {max}", max = ObserveRequest::OBSERVATIONS_MAX)]
    TooLarge(usize),
    /// A write or sync failed, so that later additions could be lost: none is taken until the ledger is reopened.
    #[error("additions are refused since a write failed: {why}")]
    Poisoned {
        /// The failure.
        why: Arc<str>,
    },
    /// The device lacks room, descriptors or memory. Readings are answered; additions are taken again when there is some.
    #[error("additions are refused for now: {why}")]
    Full {
        /// The device's answer.
        why: Arc<str>,
    },
    /// The cluster did not say in time whether a request's mark was there. Nothing of that request was added, nor of
    /// those without a mark that were sent with it: all of them may be sent again. Or it did not say whether something
    /// was given back to an exact limit, or set: that may have been done.
    #[error("the cluster did not answer in time: {why}")]
    Unreachable {
        /// The fault that came instead of an answer.
        why: Arc<str>,
    },
    /// Its keys were made with another secret.
    #[error(
        "the ledger was counted under another secret, so that none of its keys would be found: restore the `secret` that belongs to it"
    )]
    Secret,
    /// The ledger was closed.
    #[error("the ledger is closed")]
    Closed,
    /// The catalog does not fit what is stored.
    #[error(transparent)]
    Catalog(#[from] CatalogError),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] store::StoreError),
    /// The system refused a thread.
    #[error("the flusher could not be started: {0}")]
    Thread(std::io::Error),
}

/// The report of what [`Ledger::erase`] took away.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ErasedKeys {
    /// Keys that had statistics.
    pub keys: u64,
    /// Marks of exact distinct counts, of these keys as owners and as values.
    pub marks: u64,
    /// Files that cannot be read whole, and may still have images of them.
    pub damaged: u64,
}

/// A figure of a home's own work, for metrics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LedgerMetric {
    /// Its name, of lower-case letters and `_`.
    pub name: &'static str,
    /// The text that explains it.
    pub help: &'static str,
    /// True if it only ever goes up.
    pub is_sum: bool,
    /// The shard that it is of, if it is of one.
    pub shard: Option<String>,
    /// The value.
    pub value: u64,
}

/// The keys of a kind that are asked for by their largest counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HottestQuery {
    /// The space of the keys.
    pub space: Space,
    /// The kind of the keys.
    pub kind: Kind,
    /// The counter of which the sums are compared.
    pub counter: u8,
    /// The trailing window of the sums. A bucket of the generic cell rate algorithm has none: in place of its sums stand the
    /// nanoseconds by which its moments are ahead.
    pub window: Span,
    /// Only keys of which nothing is known from before.
    pub since: Option<Time>,
    /// Most keys of the answer.
    pub limit: usize,
}

/// A home of statistics. Every home passes one conformance suite.
pub trait Ledger: Send + Sync {
    /// Answers readings and adds; answers only when what was added is as durable as configured. Readings of one
    /// request are not isolated from requests of other callers.
    ///
    /// Requests of a batch fail one by one: where it is not known whether a request counts, it is *unconfirmed*, and the
    /// others are answered and added. What was read is answered for all. An unconfirmed request with [`ObserveRequest::once`] is
    /// counted later, once, unless another with its mark was or is quicker; one without a mark is not.
    ///
    /// # Errors
    /// Requests that do not fit the catalog are refused before anything is added. After an error of the store some
    /// of the requests may have been added: with [`ObserveRequest::once`] they can be sent again.
    fn observe_each<'a>(&'a self, requests: &'a [ObserveRequest]) -> LedgerFuture<'a, ObserveOutcomes>;

    /// Answers and adds as [`Ledger::observe_each`] does, for who goes on only if all requests are confirmed.
    ///
    /// # Errors
    /// Those of [`Ledger::observe_each`], and if a request is unconfirmed. The others may have been added.
    fn observe<'a>(&'a self, requests: &'a [ObserveRequest]) -> LedgerFuture<'a, ObserveOutcomes> {
        Box::pin(async move {
            let outcomes = self.observe_each(requests).await?;
            outcomes.failure().map_or(Ok(outcomes), Err)
        })
    }

    /// All buckets of a key; `None` if nothing is kept of it.
    ///
    /// # Errors
    /// For a kind without statistic, or the store's.
    fn timeline<'a>(&'a self, key: Key) -> LedgerFuture<'a, Option<Timeline>>;

    /// The keys with the largest sums of a counter over a trailing window, of each query; largest first, keys without
    /// counts left out. For people: it goes through every cell, once for all queries, and reads those that are not in
    /// memory. It asks `is_over` now and then whether to go on.
    ///
    /// # Errors
    /// For a kind without statistic, a window that it cannot answer, and [`LedgerError::Stopped`].
    fn hottest<'a>(
        &'a self,
        queries: &'a [HottestQuery],
        now: Time,
        is_over: CancellationCheck<'a>,
    ) -> LedgerFuture<'a, Vec<Vec<(Key, u64)>>>;

    /// Replaces the catalog between two requests. Cells are translated when they are next used: counters by name,
    /// buckets into the finest tier whose width is a multiple of theirs; counters that are gone and buckets that fit
    /// nowhere are dropped. Distinct counts and marks survive only while their period stays the same.
    ///
    /// # Errors
    /// [`LedgerError::Catalog`] if a kind number would change its meaning; the store's. The old catalog then stays.
    fn set_catalog(&self, catalog: Catalog) -> Result<(), LedgerError>;

    /// Takes away all that is kept of keys of some shingles, whatever their kind and space, marks of distinct values of these
    /// shingles among them, while requests go on: what is added meanwhile begins anew. Admission forgets that it has sighted
    /// them. With `pretend` they are only counted. May take long, and blocks. It asks `is_over` now and then whether to go on;
    /// ended, or after a crash, it is to be begun again.
    ///
    /// # Errors
    /// [`LedgerError::Stopped`]; the store's, or what keeps the cluster from answering.
    fn erase<'a>(
        &'a self,
        shingles: &'a HashSet<Shingle>,
        pretend: bool,
        is_over: CancellationCheck<'a>,
    ) -> LedgerFuture<'a, ErasedKeys>;

    /// Writes what is dirty, lets go of what has expired at `now`, and tidies the disk a little. To be called on an
    /// interval, from a thread that may block. What has expired is gone even if a later `now` is earlier.
    ///
    /// # Errors
    /// If poisoned, or the store's.
    fn maintain(&self, now: Time) -> Result<(), LedgerError>;

    /// Answers once all that was added by requests that were answered before is on disk and synced, whatever the
    /// durability. Who waits at the same time shares one sync.
    ///
    /// # Errors
    /// If poisoned or full, or the store's.
    fn sync(&self) -> LedgerFuture<'_, ()>;

    /// Writes and syncs everything; nothing can be added afterwards.
    ///
    /// # Errors
    /// If poisoned, or the store's.
    fn close(&self) -> Result<(), LedgerError>;

    /// Returns what the ledger holds and has done.
    fn census(&self) -> LedgerCensus;

    /// Returns what only ledgers of its kind have to say of themselves.
    fn figures(&self) -> Vec<LedgerMetric> {
        Vec::new()
    }
}

impl fmt::Display for Quality {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Quality::Exact => "exact",
            Quality::Estimated => "estimated",
            Quality::Missing => "missing",
            Quality::Lagging => "lagging",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readings_are_parted_and_none_is_where_there_are_fewer() {
        let outcomes = ObserveOutcomes::missing([2, 0, 3]);
        assert_eq!((outcomes.len(), outcomes.all().len()), (3, 5));
        let readings = outcomes.readings(2);
        assert_eq!(
            (readings.len(), outcomes.readings(1).is_empty(), outcomes.readings(3).len()),
            (3, true, 0)
        );
        assert!(readings.iter().all(|view| view.to_reading() == Reading::missing()));
        let (two, one) = readings.split_at(2);
        assert_eq!((two.len(), one.len()), (2, 1));
        assert_eq!((readings.split_at(9).0.len(), readings.split_at(9).1.len()), (3, 0));
        assert_eq!((readings.part(1..3).len(), readings.part(2..4).len()), (2, 0));
        assert_eq!(
            (one.first().map(|view| view.quality()), Readings::default().first().is_none()),
            (Some(Quality::Missing), true)
        );
    }

    #[test]
    fn requests_are_unconfirmed_one_by_one() {
        let mut outcomes = ObserveOutcomes::blank([2, 0, 3]);
        assert!(outcomes.failure().is_none());
        outcomes.set_unconfirmed(1, "away".into());
        outcomes.set_unconfirmed(9, "gone".into());
        assert_eq!([0, 1, 2, 9].map(|at| outcomes.is_unconfirmed(at)), [false, true, false, false]);
        assert!(outcomes.failure().is_some_and(|failure| failure.to_string().contains("gone")));
        assert_eq!(outcomes.readings(2).len(), 3);
    }
}
