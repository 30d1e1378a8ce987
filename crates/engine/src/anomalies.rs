//! Anomalies: what is unlike its past within the last hour, of decisions, rules and keys, and promises that are not kept.
//!
//! ```text
//! decisions by the minute ─► last hour ─┐
//! decisions by the hour   ─► the same two hours of the days before, or the hours of the day before ─► expected ± spread
//! hottest keys of a kind  ─► their hour against their own longest window
//! judged scores           ─► promises and probabilities that do not come true
//! ```
//!
//! Counts are held against what their past lets expect by one test ([`Expectation::is_exceeded`]): a count of independent events
//! has a spread of the root of what is expected (Poisson), and real traffic has more, so the larger one of that and of the spread
//! between the days counts. Beyond four of it, and by ten at least, is no chance. Rules are held against their share of the
//! decisions, so that a busy hour is one anomaly, and not one of each rule.

use std::collections::{BTreeMap, BTreeSet};

use event::{Key, Shingle, Span, Time};
use judge::Action;
use plan::{KindPlan, Pipeline};
use stats::{Addition, CancellationCheck, HottestQuery, Observation, ObserveRequest};

use crate::decision_counts::SeriesBucket;
use crate::key_timeline::KeyStatisticsError;
use crate::{Engine, SeriesError};

/// The time that is held against its past.
pub const ANOMALY_SPAN: Span = Span::hours(1);
/// Days of the past that are looked at.
const DAYS: i64 = 14;
/// Hours of the past that are looked at where there are too few days.
const HOURS: i64 = 24;
/// Stretches of the past that are enough to expect something.
const STRETCHES_MIN: usize = 3;
/// Decisions of a stretch of the past that are enough to know shares of.
const DECISIONS_MIN: u64 = 20;
/// Spreads beyond which something is no chance.
const DEVIATIONS: f64 = 4.0;
/// The least difference that is an anomaly.
const DIFFERENCE_MIN: f64 = 10.0;
/// Events within the hour from which on a key is hot.
const HOT_MIN: u64 = 50;
/// The number of times its mean hour by which a key is hot.
const HOT_TIMES: f64 = 10.0;
/// Keys of a kind that are looked at.
const HOTTEST: usize = 5;
/// Most anomalies of a sort in a pipeline.
const OF_A_SORT_MAX: usize = 20;

/// The sort of an anomaly.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AnomalySort {
    /// More or fewer decisions than usual.
    Traffic,
    /// A larger or smaller share of decisions with an action.
    Action,
    /// A rule that fires for a larger or smaller share of decisions.
    Rule,
    /// A key that has become hot.
    HotKey,
    /// A promise or a probability that does not come true.
    Drift,
}

impl AnomalySort {
    /// The name of the sort.
    pub fn name(self) -> &'static str {
        match self {
            AnomalySort::Traffic => "traffic",
            AnomalySort::Action => "action",
            AnomalySort::Rule => "rule",
            AnomalySort::HotKey => "hot_key",
            AnomalySort::Drift => "drift",
        }
    }
}

/// A thing that is unlike its past.
#[derive(Clone, Debug, PartialEq)]
pub struct Anomaly {
    /// The sort.
    pub sort: AnomalySort,
    /// The pipeline.
    pub pipeline: String,
    /// The rule, action or kind that it is about; empty for traffic.
    pub subject: String,
    /// The piece of a key, if a recent row of the journal shows it.
    pub piece: Option<String>,
    /// The count of the last hour.
    pub seen: Option<u64>,
    /// The count that the past lets expect.
    pub expected: Option<f64>,
    /// The sentence for people; of a hot key without its piece.
    pub detail: String,
}

/// The count that the past lets expect.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Expectation {
    mean: f64,
    spread: f64,
}

impl Expectation {
    /// The count to expect of so many decisions, by stretches of the past: how many decisions each had, and how many of them
    /// were so. `None` where too little is known.
    fn of_share(past: &[(u64, u64)], decisions: u64) -> Option<Expectation> {
        let known: Vec<(f64, f64)> = past
            .iter()
            .filter(|(all, _)| *all >= DECISIONS_MIN)
            .map(|(all, of)| (*all as f64, *of as f64))
            .collect();
        if known.len() < STRETCHES_MIN {
            return None;
        }
        let (all, of) = known.iter().fold((0.0, 0.0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        let (share, decisions) = (of / all, decisions as f64);
        let squares = known.iter().map(|(all, of)| (of / all - share).powi(2)).sum::<f64>();
        let between = (squares / (known.len() - 1) as f64).sqrt() * decisions;
        let mean = share * decisions;
        Some(Expectation { mean, spread: mean.sqrt().max(between) })
    }

    /// The count to expect by stretches of the past, each as long as the one that is looked at.
    fn of_counts(past: &[f64]) -> Option<Expectation> {
        if past.len() < STRETCHES_MIN || past.iter().sum::<f64>() < DECISIONS_MIN as f64 {
            return None;
        }
        let mean = past.iter().sum::<f64>() / past.len() as f64;
        let squares = past.iter().map(|count| (count - mean).powi(2)).sum::<f64>();
        let between = (squares / (past.len() - 1) as f64).sqrt();
        Some(Expectation { mean, spread: mean.sqrt().max(between) })
    }

    /// Returns true if a count is greater or smaller than chance makes it.
    fn is_exceeded(self, count: u64) -> bool {
        (count as f64 - self.mean).abs() > (DEVIATIONS * self.spread).max(DIFFERENCE_MIN)
    }

    fn compared(self, count: u64) -> &'static str {
        if count as f64 > self.mean { "more" } else { "fewer" }
    }
}

/// Sums of buckets.
#[derive(Clone, Debug, Default)]
struct HourSums {
    decisions: u64,
    actions: [u64; Action::ALL.len()],
    /// Each rule, enforced or in shadow.
    rules: BTreeMap<String, u64>,
}

impl HourSums {
    fn add(&mut self, bucket: &SeriesBucket) {
        for (sum, count) in self.actions.iter_mut().zip(bucket.actions) {
            *sum = sum.saturating_add(count);
            self.decisions = self.decisions.saturating_add(count);
        }
        for (rule, [enforced, shadow]) in &bucket.rules {
            let sum = self.rules.entry(rule.clone()).or_default();
            *sum = sum.saturating_add(*enforced).saturating_add(*shadow);
        }
    }
}

/// The last hour of a pipeline, and its past.
#[derive(Clone, Debug, Default)]
struct HourHistory {
    now: HourSums,
    /// Stretches of the past, each with the number of hours that it has.
    past: Vec<(HourSums, f64)>,
}

impl HourHistory {
    /// Lays buckets of minutes and of hours out as the last hour and its past.
    fn of(minutes: &[SeriesBucket], hours: &[SeriesBucket], now: Time) -> HourHistory {
        let mut history = HourHistory::default();
        minutes.iter().for_each(|bucket| history.now.add(bucket));
        let hour = ANOMALY_SPAN;
        let at = |ago: i64| Time((now.bucket(hour) - ago).saturating_mul(hour.0));
        let sums = |ago: &[i64]| {
            let mut sums = HourSums::default();
            let wanted: Vec<Time> = ago.iter().map(|ago| at(*ago)).collect();
            hours.iter().filter(|bucket| wanted.contains(&bucket.start)).for_each(|bucket| sums.add(bucket));
            sums
        };
        // The last hour lies in two hours of the clock.
        let days = (1..=DAYS).map(|day| (sums(&[24 * day, 24 * day + 1]), 2.0));
        history.past = days.filter(|(sums, _)| sums.decisions > 0).collect();
        if history.past.len() < STRETCHES_MIN {
            let each = (2..=HOURS).map(|ago| (sums(&[ago]), 1.0));
            history.past = each.filter(|(sums, _)| sums.decisions > 0).collect();
        }
        history
    }

    /// Returns what is unlike its past.
    fn anomalies(&self, pipeline: &str) -> Vec<Anomaly> {
        let mut found = Vec::new();
        let new = |sort, subject: &str, seen: u64, expected: f64, detail: String| Anomaly {
            sort,
            pipeline: pipeline.to_owned(),
            subject: subject.to_owned(),
            piece: None,
            seen: Some(seen),
            expected: Some(expected),
            detail,
        };
        let counts: Vec<f64> = self.past.iter().map(|(sums, hours)| sums.decisions as f64 / hours).collect();
        let decisions = self.now.decisions;
        if let Some(usual) = Expectation::of_counts(&counts).filter(|usual| usual.is_exceeded(decisions)) {
            let word = usual.compared(decisions);
            let detail = format!(
                "{decisions} decisions of `{pipeline}` within an hour, {word} than the {:.0} that are usual",
                usual.mean
            );
            found.push(new(AnomalySort::Traffic, "", decisions, usual.mean, detail));
        }
        let of_share = |count: u64, past: &dyn Fn(&HourSums) -> u64| {
            let past: Vec<(u64, u64)> =
                self.past.iter().map(|(sums, _)| (sums.decisions, past(sums))).collect();
            Expectation::of_share(&past, decisions).filter(|usual| usual.is_exceeded(count))
        };
        for (place, action) in Action::ALL.into_iter().enumerate() {
            let count = self.now.actions[place];
            if let Some(usual) = of_share(count, &|sums| sums.actions[place]) {
                let word = usual.compared(count);
                let detail = format!(
                    "`{action}` for {count} of {decisions} decisions of `{pipeline}` within an hour, {word} than the {:.0} that its \
                     share lets expect",
                    usual.mean
                );
                found.push(new(AnomalySort::Action, action.name(), count, usual.mean, detail));
            }
        }
        let names = self.past.iter().flat_map(|(sums, _)| sums.rules.keys()).chain(self.now.rules.keys());
        let names: BTreeSet<&String> = names.collect();
        let mut rules = Vec::new();
        for rule in names {
            let of = |sums: &HourSums| sums.rules.get(rule).copied().unwrap_or(0);
            let count = of(&self.now);
            if let Some(usual) = of_share(count, &of) {
                let word = usual.compared(count);
                let detail = format!(
                    "`{rule}` fired for {count} of {decisions} decisions of `{pipeline}` within an hour, {word} than the {:.0} that \
                     its share lets expect",
                    usual.mean
                );
                rules.push(new(AnomalySort::Rule, rule, count, usual.mean, detail));
            }
        }
        strongest(&mut rules);
        found.extend(rules);
        found
    }
}

/// Keeps the anomalies whose counts are furthest from what was expected, those first.
fn strongest(found: &mut Vec<Anomaly>) {
    let surprise = |of: &Anomaly| {
        let (seen, expected) = (of.seen.unwrap_or(0) as f64, of.expected.unwrap_or(0.0));
        (seen - expected).abs() / expected.max(1.0).sqrt()
    };
    found.sort_by(|one, other| surprise(other).total_cmp(&surprise(one)));
    found.truncate(OF_A_SORT_MAX);
}

/// The hour of a key that is hot, and the mean of its hours before: at least so many events, and ten times that mean.
fn is_hot(hour: u64, longest: u64, window: Span) -> Option<f64> {
    let hours = (window.0 as f64 / ANOMALY_SPAN.0 as f64 - 1.0).max(1.0);
    let mean = longest.saturating_sub(hour) as f64 / hours;
    (hour >= HOT_MIN && hour as f64 > HOT_TIMES * mean + DEVIATIONS * mean.sqrt()).then_some(mean)
}

impl Engine {
    /// The anomalies of the last hour of a pipeline, on this node. Costs what [`Engine::hottest`] costs, once for all kinds.
    ///
    /// # Errors
    /// The ledger's and the journal's.
    pub async fn anomalies(
        &self,
        pipeline: &Pipeline,
        now: Time,
        is_over: CancellationCheck<'_>,
    ) -> Result<Vec<Anomaly>, KeyStatisticsError> {
        let end = now + Span(1);
        let series = |from: Time, width: Span| -> Result<Vec<SeriesBucket>, SeriesError> {
            Ok(self.decision_series(&pipeline.name, from, end, width)?.buckets)
        };
        // Both widths are kept, and neither has too many buckets.
        let minutes = series(now - ANOMALY_SPAN + Span::minutes(1), Span::minutes(1)).unwrap_or_default();
        let hours = series(now - Span::hours(24 * DAYS + 2), ANOMALY_SPAN).unwrap_or_default();
        let history = HourHistory::of(&minutes, &hours, now);
        let mut found = history.anomalies(&pipeline.name);
        // Of a pipeline that has just begun all keys are new.
        if history.past.len() >= STRETCHES_MIN {
            let mut hot = self.hot_keys(pipeline, now, is_over).await?;
            strongest(&mut hot);
            found.extend(hot);
        }
        found.extend(self.drift_warnings(pipeline).into_iter().map(|detail| Anomaly {
            sort: AnomalySort::Drift,
            pipeline: pipeline.name.clone(),
            subject: String::new(),
            piece: None,
            seen: None,
            expected: None,
            detail,
        }));
        Ok(found)
    }

    /// The keys that have become hot, of all kinds that are counted by the hour and for a day or longer.
    async fn hot_keys(
        &self,
        pipeline: &Pipeline,
        now: Time,
        is_over: CancellationCheck<'_>,
    ) -> Result<Vec<Anomaly>, KeyStatisticsError> {
        let counted: Vec<_> = pipeline.kinds.iter().filter_map(HourlyKind::of).collect();
        let queries: Vec<HottestQuery> = counted.iter().map(|of| of.query(pipeline)).collect();
        if queries.is_empty() {
            return Ok(Vec::new());
        }
        let mut found = Vec::new();
        for (of, hottest) in counted.iter().zip(self.ledger.hottest(&queries, now, is_over).await?) {
            let busy = hottest.into_iter().filter(|(_, count)| *count >= HOT_MIN);
            let observations: Vec<_> =
                busy.map(|(key, _)| Observation { key, time: now, add: Addition::Nothing }).collect();
            if observations.is_empty() {
                continue;
            }
            let keys: Vec<Key> = observations.iter().map(|look| look.key).collect();
            let request = ObserveRequest { observations, ..ObserveRequest::default() };
            let outcomes = self.ledger.observe(&[request]).await?;
            let hot = keys.iter().zip(outcomes.readings(0).iter()).filter_map(|(key, view)| {
                let sum = |place: usize| view.sum(place, usize::from(of.counter));
                Some((key.shingle, sum(of.hour), is_hot(sum(of.hour), sum(of.whole), of.window)?))
            });
            let hot: Vec<(Shingle, u64, f64)> = hot.collect();
            let shingles: Vec<Shingle> = hot.iter().map(|(shingle, ..)| *shingle).collect();
            let pieces = self.pieces_of(pipeline, of.kind, &shingles)?;
            found.extend(hot.into_iter().zip(pieces).map(|((_, seen, mean), piece)| Anomaly {
                sort: AnomalySort::HotKey,
                pipeline: pipeline.name.clone(),
                subject: of.kind.name.clone(),
                piece,
                seen: Some(seen),
                expected: Some(mean),
                detail: format!(
                    "{seen} events within an hour under one key of `{}` in `{}`, where its hours before had {mean:.1}",
                    of.kind.name, pipeline.name
                ),
            }));
        }
        Ok(found)
    }
}

/// A kind whose events are counted by the hour and for a day or longer.
struct HourlyKind<'p> {
    kind: &'p KindPlan,
    counter: u8,
    /// The places of the hour and of the longest window among its windows.
    hour: usize,
    whole: usize,
    window: Span,
}

impl<'p> HourlyKind<'p> {
    fn of(kind: &'p KindPlan) -> Option<HourlyKind<'p>> {
        let place = |window: Span| kind.windows.iter().position(|of| *of == window);
        let window = kind.windows.iter().copied().max().filter(|longest| *longest >= Span::days(1))?;
        let counter = kind.counter("seen")?;
        Some(HourlyKind { kind, counter, hour: place(ANOMALY_SPAN)?, whole: place(window)?, window })
    }

    fn query(&self, pipeline: &Pipeline) -> HottestQuery {
        HottestQuery {
            space: pipeline.space,
            kind: self.kind.kind,
            counter: self.counter,
            window: ANOMALY_SPAN,
            since: None,
            limit: HOTTEST,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A bucket with so many accepted and rejected decisions, for the latter of which a rule fired.
    fn bucket(start: Time, accepted: u64, rejected: u64) -> SeriesBucket {
        let mut bucket = SeriesBucket { start, ..SeriesBucket::default() };
        bucket.actions[Action::Accept as usize] = accepted;
        bucket.actions[Action::Reject as usize] = rejected;
        bucket.rules.insert("PILLS".to_owned(), [rejected, 0]);
        bucket
    }

    fn found(past: &[(u64, u64)], now: (u64, u64)) -> Vec<(&'static str, String)> {
        let noon = Time::from_seconds(1_779_012_000 + 600);
        let hour = |ago: i64| Time((noon.bucket(ANOMALY_SPAN) - ago) * ANOMALY_SPAN.0);
        let days = past.iter().zip(1..).map(|((good, bad), day)| bucket(hour(24 * day), *good, *bad));
        let minutes = [bucket(noon, now.0, now.1)];
        let history = HourHistory::of(&minutes, &days.collect::<Vec<_>>(), noon);
        let anomalies = history.anomalies("mail");
        anomalies.into_iter().map(|one| (one.sort.name(), one.subject)).collect()
    }

    #[test]
    fn the_last_hour_is_held_against_the_same_hours_of_the_days_before() {
        let check = |past: &[(u64, u64)], now: (u64, u64), expected: &[(&str, &str)]| {
            let found = found(past, now);
            let found: Vec<(&str, &str)> = found.iter().map(|(sort, subject)| (*sort, &**subject)).collect();
            assert_eq!(found, expected, "{past:?} {now:?}");
        };
        // Two hours of the clock have 1,000 decisions, of which 100 are rejected.
        let steady = [(900, 100), (910, 90), (890, 110), (900, 100), (905, 95)];
        check(&steady, (450, 50), &[]);
        check(&steady, (440, 65), &[]);
        check(&steady, (400, 100), &[("action", "reject"), ("rule", "PILLS")]);
        check(&steady, (500, 0), &[("action", "reject"), ("rule", "PILLS")]);
        // Twice as much of all is one anomaly.
        check(&steady, (900, 100), &[("traffic", "")]);
        check(&steady, (45, 5), &[("traffic", "")]);
        // Where days differ much from one another, so may this one.
        let uneven = [(900, 100), (500, 500), (990, 10), (700, 300)];
        check(&uneven, (300, 200), &[]);
        // Nothing is said without a past.
        check(&steady[..2], (0, 500), &[]);
        check(&[], (0, 500), &[]);
        check(&[(3, 0), (2, 0), (4, 0)], (0, 9), &[]);
    }

    #[test]
    fn a_young_pipeline_is_held_against_its_hours() {
        let now = Time::from_seconds(1_779_012_000 + 600);
        let hour = |ago: i64| Time((now.bucket(ANOMALY_SPAN) - ago) * ANOMALY_SPAN.0);
        let hours: Vec<SeriesBucket> = (2..8).map(|ago| bucket(hour(ago), 95, 5)).collect();
        let history = HourHistory::of(&[bucket(now, 50, 50)], &hours, now);
        let sorts: Vec<_> = history.anomalies("mail").into_iter().map(|one| one.sort).collect();
        assert_eq!(sorts, [AnomalySort::Action, AnomalySort::Action, AnomalySort::Rule]);
    }

    #[test]
    fn a_key_is_hot_that_has_most_of_its_events_within_the_hour() {
        let check = |hour: u64, longest: u64, expected: bool| {
            assert_eq!(is_hot(hour, longest, Span::days(1)).is_some(), expected, "{hour} {longest}");
        };
        check(49, 49, false);
        check(50, 50, true);
        check(100, 120, true);
        check(100, 100 + 23 * 20, false);
        check(1000, 24_000, false);
        check(u64::MAX, u64::MAX, true);
        check(60, 0, true);
    }
}
