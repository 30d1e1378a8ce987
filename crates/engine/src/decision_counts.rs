//! Decisions counted by the minute and by the hour: by action, by rule, and by what people said of them.
//!
//! They are counted where metrics are, for a batch at once, and kept in memory. `counts.bin` gets them from housekeeping and at
//! the end, so a crash loses those of the last minute. Each node has its own. They are what charts show: whoever needs exact numbers asks the journal.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use event::{Span, Time};
use judge::Action;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::Engine;
use crate::directory::{Directory, DirectoryError, io_error, read_sealed};

/// Largest file of counts that is read, and what it may become in memory.
const BYTES_MAX: u64 = 128 << 20;
/// Minutes that are kept: a day.
const MINUTES: i64 = 24 * 60;
/// Hours that are kept: 60 days.
const HOURS: i64 = 60 * 24;
/// Most names of rules of a pipeline, and of labels; what comes under others is counted by action alone.
const NAMES_MAX: usize = 8192;
/// Most pipelines.
const PIPELINES_MAX: usize = 1024;
/// Most buckets of a series.
const BUCKETS_MAX: i64 = 3000;

const MINUTE: Span = Span::seconds(60);
const HOUR: Span = Span::hours(1);

/// The decisions of a time, of one pipeline.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct CountBucket {
    actions: [u64; Action::ALL.len()],
    /// The number of times that each rule fired enforced and in shadow, by the number of its name, rising.
    rules: Vec<(u16, [u64; 2])>,
    /// Judgements that were said in this time, by the number of the class, rising.
    labels: Vec<(u16, u64)>,
}

/// The buckets of one width, by their number since 1970.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct CountRing(BTreeMap<i64, CountBucket>);

/// Names by their numbers, in the order in which they came.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(from = "Vec<String>", into = "Vec<String>")]
struct CountedNames {
    names: Vec<String>,
    numbers: HashMap<String, u16>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct PipelineCounts {
    rules: CountedNames,
    labels: CountedNames,
    minutes: CountRing,
    hours: CountRing,
}

/// The counts as they are in the file.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct StoredCounts {
    pipelines: BTreeMap<String, PipelineCounts>,
}

/// The counts of all pipelines.
#[derive(Debug, Default)]
pub(crate) struct DecisionCounts {
    path: Option<PathBuf>,
    pipelines: Mutex<BTreeMap<String, PipelineCounts>>,
    /// Held while the file is written.
    writing: Mutex<()>,
    is_changed: AtomicBool,
}

/// The decisions of a part of a series.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SeriesBucket {
    /// The beginning.
    pub start: Time,
    /// The decisions by the place of their action in [`Action::ALL`].
    pub actions: [u64; Action::ALL.len()],
    /// The number of times that each rule fired, enforced and in shadow.
    pub rules: BTreeMap<String, [u64; 2]>,
    /// Judgements that were said in this time, by their class.
    pub labels: BTreeMap<String, u64>,
}

/// Decisions over time, of one pipeline.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DecisionSeries {
    /// The pipeline.
    pub pipeline: String,
    /// The width of a bucket.
    pub width: Span,
    /// The buckets that have something, oldest first.
    pub buckets: Vec<SeriesBucket>,
}

/// A series that cannot be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SeriesError {
    /// A width that is neither whole minutes below an hour nor whole hours, or does not divide into days evenly.
    #[error("a bucket is a whole number of minutes that an hour has room for, or of hours")]
    Width,
    /// More buckets than a series has.
    #[error("it would have more than {BUCKETS_MAX} buckets: ask for a shorter time or wider buckets")]
    TooMany,
}

impl CountRing {
    /// The bucket of this number, if it is not too old to be kept.
    fn bucket(&mut self, number: i64, kept: i64) -> Option<&mut CountBucket> {
        let newest = self.0.last_key_value().map_or(number, |(newest, _)| *newest).max(number);
        while let Some(oldest) = self.0.first_entry().filter(|oldest| *oldest.key() <= newest - kept) {
            oldest.remove();
        }
        (number > newest - kept).then(|| self.0.entry(number).or_default())
    }

    /// Returns true if all that it refers to is there.
    fn is_sound(&self, kept: i64, rules: usize, labels: usize) -> bool {
        let is_known = |bucket: &CountBucket| {
            bucket.rules.is_sorted_by_key(|(rule, _)| *rule)
                && bucket.labels.is_sorted_by_key(|(label, _)| *label)
                && bucket.rules.iter().all(|(rule, _)| usize::from(*rule) < rules)
                && bucket.labels.iter().all(|(label, _)| usize::from(*label) < labels)
        };
        self.0.len() as i64 <= kept && self.0.values().all(is_known)
    }
}

impl From<Vec<String>> for CountedNames {
    fn from(names: Vec<String>) -> CountedNames {
        let numbers = names.iter().cloned().zip(0..=u16::MAX).collect();
        CountedNames { names, numbers }
    }
}

impl From<CountedNames> for Vec<String> {
    fn from(names: CountedNames) -> Vec<String> {
        names.names
    }
}

impl CountedNames {
    fn len(&self) -> usize {
        self.names.len()
    }

    fn get(&self, number: u16) -> Option<&String> {
        self.names.get(usize::from(number))
    }

    /// The number of a name, which is added if there is room.
    fn number(&mut self, name: &str) -> Option<u16> {
        if let Some(number) = self.numbers.get(name) {
            return Some(*number);
        }
        let number =
            u16::try_from(self.names.len()).ok().filter(|number| usize::from(*number) < NAMES_MAX)?;
        self.names.push(name.to_owned());
        self.numbers.insert(name.to_owned(), number);
        Some(number)
    }
}

/// The value of a number in a rising list.
fn entry<T: Default>(list: &mut Vec<(u16, T)>, number: u16) -> &mut T {
    let place = match list.binary_search_by_key(&number, |(known, _)| *known) {
        Ok(place) => place,
        Err(place) => {
            list.insert(place, (number, T::default()));
            place
        }
    };
    &mut list[place].1
}

impl PipelineCounts {
    /// Changes the buckets of a time.
    fn change(&mut self, time: Time, mut change: impl FnMut(&mut CountBucket)) {
        let number = |width: Span| time.0.div_euclid(width.0);
        if let Some(bucket) = self.minutes.bucket(number(MINUTE), MINUTES) {
            change(bucket);
        }
        if let Some(bucket) = self.hours.bucket(number(HOUR), HOURS) {
            change(bucket);
        }
    }

    fn is_sound(&self) -> bool {
        let (rules, labels) = (self.rules.len(), self.labels.len());
        rules <= NAMES_MAX
            && labels <= NAMES_MAX
            && self.minutes.is_sound(MINUTES, rules, labels)
            && self.hours.is_sound(HOURS, rules, labels)
    }
}

impl DecisionCounts {
    /// The counts of a data directory.
    pub(crate) fn new(directory: &Directory, stored: StoredCounts) -> DecisionCounts {
        DecisionCounts {
            path: Some(directory.counts_path()),
            pipelines: Mutex::new(stored.pipelines),
            ..DecisionCounts::default()
        }
    }

    fn with(&self, pipeline: &str, change: impl FnOnce(&mut PipelineCounts)) {
        let mut pipelines = self.pipelines.lock();
        let is_full = pipelines.len() >= PIPELINES_MAX;
        match pipelines.get_mut(pipeline) {
            Some(counts) => change(counts),
            None if is_full => return,
            None => change(pipelines.entry(pipeline.to_owned()).or_default()),
        }
        self.is_changed.store(true, Ordering::Relaxed);
    }

    /// Adds the decisions of a time, and the rules that fired, each with whether it was in shadow.
    pub(crate) fn add<'r>(
        &self,
        pipeline: &str,
        time: Time,
        actions: &[u64; Action::ALL.len()],
        fired: impl Iterator<Item = (&'r str, bool, u64)>,
    ) {
        self.with(pipeline, |counts| {
            let mut numbers = Vec::new();
            for (rule, is_shadow, count) in fired {
                numbers.extend(counts.rules.number(rule).map(|number| (number, is_shadow, count)));
            }
            counts.change(time, |bucket| {
                for (sum, count) in bucket.actions.iter_mut().zip(actions) {
                    *sum = sum.saturating_add(*count);
                }
                for (number, is_shadow, count) in &numbers {
                    let sum = &mut entry(&mut bucket.rules, *number)[usize::from(*is_shadow)];
                    *sum = sum.saturating_add(*count);
                }
            });
        });
    }

    /// Adds a judgement that was said at a time.
    pub(crate) fn add_label(&self, pipeline: &str, time: Time, class: &str) {
        self.with(pipeline, |counts| {
            if let Some(number) = counts.labels.number(class) {
                counts.change(time, |bucket| *entry(&mut bucket.labels, number) += 1);
            }
        });
    }

    fn series(
        &self,
        pipeline: &str,
        from: Time,
        to: Time,
        width: Span,
    ) -> Result<DecisionSeries, SeriesError> {
        let is_whole =
            |unit: Span, kept: i64| width.0 > 0 && width.0 % unit.0 == 0 && width.0 / unit.0 <= kept;
        let by_minute = width < HOUR;
        if !(by_minute && is_whole(MINUTE, 60) && HOUR.0 % width.0 == 0
            || !by_minute && is_whole(HOUR, HOURS))
        {
            return Err(SeriesError::Width);
        }
        let unit = if by_minute { MINUTE } else { HOUR };
        let (first, end) = (from.0.div_euclid(width.0), to.0.saturating_sub(1).div_euclid(width.0));
        if end.saturating_sub(first) >= BUCKETS_MAX {
            return Err(SeriesError::TooMany);
        }
        let mut series = DecisionSeries { pipeline: pipeline.to_owned(), width, buckets: Vec::new() };
        let pipelines = self.pipelines.lock();
        let Some(counts) = pipelines.get(pipeline).filter(|_| from < to) else { return Ok(series) };
        let ring = if by_minute { &counts.minutes } else { &counts.hours };
        let per = width.0 / unit.0;
        let wanted = first.saturating_mul(per)..end.saturating_add(1).saturating_mul(per);
        for (number, bucket) in ring.0.range(wanted) {
            let start = Time(number.div_euclid(per).saturating_mul(width.0));
            if series.buckets.last().is_none_or(|last| last.start != start) {
                series.buckets.push(SeriesBucket { start, ..SeriesBucket::default() });
            }
            let Some(sum) = series.buckets.last_mut() else { continue };
            for (sum, count) in sum.actions.iter_mut().zip(bucket.actions) {
                *sum = sum.saturating_add(count);
            }
            for (rule, fired) in &bucket.rules {
                let Some(name) = counts.rules.get(*rule) else { continue };
                let sums = sum.rules.entry(name.clone()).or_default();
                for (sum, count) in sums.iter_mut().zip(fired) {
                    *sum = sum.saturating_add(*count);
                }
            }
            for (label, count) in &bucket.labels {
                let Some(name) = counts.labels.get(*label) else { continue };
                let sum = sum.labels.entry(name.clone()).or_default();
                *sum = sum.saturating_add(*count);
            }
        }
        Ok(series)
    }

    /// Writes what has changed.
    pub(crate) fn save(&self) -> Result<(), DirectoryError> {
        let Some(path) = &self.path else { return Ok(()) };
        let _alone = self.writing.lock();
        if !self.is_changed.swap(false, Ordering::Relaxed) {
            return Ok(());
        }
        let stored = StoredCounts { pipelines: self.pipelines.lock().clone() };
        let written = serde_json::to_vec(&stored).map_err(std::io::Error::from);
        let written = written.and_then(|bytes| zstd::bulk::compress(&bytes, 1));
        let written = written.and_then(|bytes| disk::replace(path, &disk::seal(&bytes)));
        written.map_err(|error| {
            self.is_changed.store(true, Ordering::Relaxed);
            io_error(path)(error)
        })
    }
}

impl Directory {
    /// The path of the counts.
    fn counts_path(&self) -> PathBuf {
        self.path().join("counts.bin")
    }

    /// Reads the counts.
    pub(crate) fn stored_counts(&self) -> Result<StoredCounts, DirectoryError> {
        let path = self.counts_path();
        let lost = "counts over time start from zero; no decision is lost";
        let Some(bytes) = read_sealed(&path, BYTES_MAX, lost)? else { return Ok(StoredCounts::default()) };
        let damaged =
            |why: String| DirectoryError::Damaged { path: path.clone(), why: format!("{why}; {lost}") };
        let bytes =
            zstd::bulk::decompress(&bytes, BYTES_MAX as usize).map_err(|error| damaged(error.to_string()))?;
        let stored: StoredCounts =
            serde_json::from_slice(&bytes).map_err(|error| damaged(error.to_string()))?;
        match stored.pipelines.values().all(PipelineCounts::is_sound) {
            true => Ok(stored),
            false => Err(damaged("it refers to names that it does not have".to_owned())),
        }
    }
}

impl Engine {
    /// Decisions of a pipeline over time, of this node: from the bucket that a time is in to that before another. Minutes are
    /// kept for a day, hours for 60 days.
    ///
    /// # Errors
    /// A width that there is not, or too many buckets.
    pub fn decision_series(
        &self,
        pipeline: &str,
        from: Time,
        to: Time,
        width: Span,
    ) -> Result<DecisionSeries, SeriesError> {
        self.counts.series(pipeline, from, to, width)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stats::random::Random;

    #[test]
    fn series_are_sums_of_what_was_counted_within_their_time() {
        let mut random = Random::new(3);
        let counts = DecisionCounts::default();
        let begin = 1_700_000_000;
        let mut all = Vec::new();
        for _ in 0..3000 {
            let second = begin + random.between(0, 30 * 3600);
            let action = random.below(Action::ALL.len() as u64) as usize;
            let rule = random.one_in(2).then(|| (format!("R{}", random.below(5)), random.one_in(2)));
            let mut actions = [0; Action::ALL.len()];
            actions[action] = 1;
            let fired = rule.iter().map(|(rule, is_shadow)| (rule.as_str(), *is_shadow, 1));
            counts.add("p", Time::from_seconds(second), &actions, fired);
            all.push((second, action, rule));
        }
        let newest = all.iter().map(|(second, ..)| second / 60).max().unwrap();
        for (width, is_by_minute) in [(60, true), (300, true), (3600, false), (6 * 3600, false)] {
            let (from, to) = (begin - 7200, begin + 40 * 3600);
            let series =
                counts.series("p", Time::from_seconds(from), Time::from_seconds(to), Span::seconds(width));
            let series = series.unwrap();
            assert!(series.buckets.is_sorted_by(|one, other| one.start < other.start));
            for bucket in &series.buckets {
                let start = bucket.start.0 / 1_000_000;
                assert_eq!(start % width, 0);
                let kept = |second: i64| !is_by_minute || second / 60 > newest - MINUTES;
                let within = || {
                    all.iter().filter(|(second, ..)| (start..start + width).contains(second) && kept(*second))
                };
                // A minute goes once a newer one comes that is a day younger: nothing is counted in it any more.
                let wanted = within().count() as u64;
                assert_eq!(bucket.actions.iter().sum::<u64>(), wanted, "{width} {start}");
                for (rule, fired) in &bucket.rules {
                    for (is_shadow, fired) in [false, true].into_iter().zip(fired) {
                        let wanted = (rule.clone(), is_shadow);
                        let count =
                            within().filter(|(.., rule)| rule.as_ref() == Some(&wanted)).count() as u64;
                        assert_eq!(*fired, count);
                    }
                }
            }
        }
        let check = |width: i64, seconds: i64, expected: SeriesError| {
            let to = Time::from_seconds(begin + seconds);
            let asked = counts.series("p", Time::from_seconds(begin), to, Span::seconds(width));
            assert_eq!(asked.unwrap_err(), expected);
        };
        check(0, 60, SeriesError::Width);
        check(59, 60, SeriesError::Width);
        check(7 * 60, 60, SeriesError::Width);
        check(5400, 60, SeriesError::Width);
        check(60, 60 * (BUCKETS_MAX + 2), SeriesError::TooMany);
    }
}
