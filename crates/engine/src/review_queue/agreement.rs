//! Agreement between reviewers, over the decided items of the queue: counts, to which those of other nodes can be added.
//!
//! Two reviewers who vote by chance agree now and then, too. Cohen's kappa is how far they get from there to agreeing always: J. Cohen,
//! "A coefficient of agreement for nominal scales", Educational and Psychological Measurement 20 (1960), 37-46.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

use event::{Key, Span};
use journal::RecordId;

use super::item::{ReviewItem, ReviewVerdict};

/// Most reviewers that are told apart.
const REVIEWERS_MAX: usize = 10_000;
/// Most pairs of reviewers.
const PAIRS_MAX: usize = 50_000;
/// Most sets of rules.
const RULE_SETS_MAX: usize = 10_000;
/// Most keys with both verdicts that are kept.
const UNEQUAL_MAX: usize = 1000;
/// The ratio of the bounds of neighbouring buckets of times, which makes a median exact to 2.5 %.
const RATIO: f64 = 1.05;

/// The number of reviews that were decided each way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VerdictCounts {
    /// The number of reviews that were published.
    pub publish: u64,
    /// The number of reviews that were refused.
    pub refuse: u64,
}

impl VerdictCounts {
    /// Returns the number of all of them.
    pub fn all(self) -> u64 {
        self.publish.saturating_add(self.refuse)
    }

    /// Returns the number of those that were decided otherwise than most.
    pub fn minority(self) -> u64 {
        self.publish.min(self.refuse)
    }

    fn add(&mut self, verdict: ReviewVerdict) {
        match verdict {
            ReviewVerdict::Publish => self.publish += 1,
            ReviewVerdict::Refuse => self.refuse += 1,
        }
    }
}

/// Times from the arrival of events to votes, counted in buckets of a constant ratio as by DDSketch (C. Masson, J. Rim, H. Lee, 2019), so
/// that those of several nodes are added up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VoteTimes {
    /// The number of votes by bucket; that of number n ends at 1.05^n seconds, and 0 has all that are shorter.
    pub buckets: BTreeMap<u16, u64>,
}

impl VoteTimes {
    fn add(&mut self, time: Span) {
        let seconds = (time.0.max(0) as f64 / 1e6).max(1.0);
        let bucket = (seconds.ln() / RATIO.ln()).ceil();
        *self.buckets.entry(bucket as u16).or_default() += 1;
    }

    /// Returns the median in seconds, to 2.5 %; `None` without votes.
    pub fn median(&self) -> Option<f64> {
        let all = self.buckets.values().fold(0u64, |sum, count| sum.saturating_add(*count));
        let middle = all.div_ceil(2);
        let mut below = 0u64;
        for (bucket, count) in &self.buckets {
            below = below.saturating_add(*count);
            if *count > 0 && below >= middle {
                return Some(2.0 * RATIO.powi(i32::from(*bucket)) / (RATIO + 1.0));
            }
        }
        None
    }
}

/// The votes of one reviewer on what is decided.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReviewerRecord {
    /// Votes that became the outcome.
    pub agreed: u64,
    /// Votes against which it was decided.
    pub overturned: u64,
    /// The times from arrival to vote.
    pub times: VoteTimes,
}

/// The votes of two reviewers on what both voted on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VotePairCounts {
    /// Both publish.
    pub both_publish: u64,
    /// The first publishes, and the second refuses.
    pub only_first: u64,
    /// The second publishes, and the first refuses.
    pub only_second: u64,
    /// Both refuse.
    pub both_refuse: u64,
}

impl VotePairCounts {
    fn add(&mut self, first: ReviewVerdict, second: ReviewVerdict) {
        use ReviewVerdict::{Publish, Refuse};
        match (first, second) {
            (Publish, Publish) => self.both_publish += 1,
            (Publish, Refuse) => self.only_first += 1,
            (Refuse, Publish) => self.only_second += 1,
            (Refuse, Refuse) => self.both_refuse += 1,
        }
    }

    /// Returns the counts with the reviewers exchanged.
    fn exchanged(self) -> VotePairCounts {
        VotePairCounts { only_first: self.only_second, only_second: self.only_first, ..self }
    }

    /// Returns the number of reviews on which both voted.
    pub fn shared(self) -> u64 {
        let VotePairCounts { both_publish, only_first, only_second, both_refuse } = self;
        [only_first, only_second, both_refuse].iter().fold(both_publish, |sum, n| sum.saturating_add(*n))
    }

    /// Returns the share of them on which both voted the same; `None` without any.
    pub fn agreement(self) -> Option<f64> {
        let same = self.both_publish.saturating_add(self.both_refuse);
        (self.shared() > 0).then(|| same as f64 / self.shared() as f64)
    }

    /// Returns Cohen's kappa: 1 if they always agree, 0 if as often as by chance, less if more seldom. `None` where it is not defined:
    /// without shared votes, and where all of both are the same.
    pub fn kappa(self) -> Option<f64> {
        let all = self.shared();
        if self.both_publish == all || self.both_refuse == all {
            return None;
        }
        let of = |count: u64| count as f64 / all as f64;
        let (first, second) =
            (of(self.both_publish) + of(self.only_first), of(self.both_publish) + of(self.only_second));
        let by_chance = first * second + (1.0 - first) * (1.0 - second);
        Some((self.agreement()? - by_chance) / (1.0 - by_chance))
    }
}

/// A key that was decided both ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnequalKey {
    /// The key.
    pub key: Key,
    /// The number of its reviews by verdict.
    pub counts: VerdictCounts,
    /// The latest that was published.
    pub published: RecordId,
    /// The latest that was refused.
    pub refused: RecordId,
}

/// The agreement between reviewers, over decided items.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReviewAgreement {
    /// The number of decided items by verdict.
    pub decided: VerdictCounts,
    /// The number of those that needed a lead.
    pub escalated: u64,
    /// The number of those that were decided in time.
    pub in_time: u64,
    /// Reviewers, those with the most votes first.
    pub reviewers: Vec<(String, ReviewerRecord)>,
    /// Pairs of reviewers by name, those with the most shared votes first.
    pub pairs: Vec<([String; 2], VotePairCounts)>,
    /// Items by pipeline and the rules that fired, those that were decided least alike first.
    pub rule_sets: Vec<((String, Vec<String>), VerdictCounts)>,
    /// Keys with both verdicts, those that were decided least alike first.
    pub unequal: Vec<UnequalKey>,
    /// True if not all was counted: in the time that there was, or as there is too much.
    pub is_partial: bool,
}

/// Adds decided items up, the newest first.
#[derive(Debug, Default)]
pub(super) struct AgreementCount {
    agreement: ReviewAgreement,
    numbers: HashMap<String, usize>,
    records: Vec<ReviewerRecord>,
    pairs: HashMap<[usize; 2], VotePairCounts>,
    rule_sets: HashMap<(String, Vec<String>), VerdictCounts>,
}

impl AgreementCount {
    /// Notes that there is more than was counted.
    pub(super) fn cut_short(&mut self) {
        self.agreement.is_partial = true;
    }

    /// Adds an item; one that is not decided adds nothing.
    pub(super) fn add(&mut self, item: &ReviewItem) {
        let Some(outcome) = item.outcome else { return };
        self.agreement.decided.add(outcome.verdict);
        self.agreement.escalated += u64::from(item.escalation.is_some());
        self.agreement.in_time += u64::from(outcome.in_time);
        let mut rules = item.rules.clone();
        rules.sort_unstable();
        rules.dedup();
        match entry(&mut self.rule_sets, (item.pipeline.clone(), rules), RULE_SETS_MAX) {
            Some(counts) => counts.add(outcome.verdict),
            None => self.agreement.is_partial = true,
        }
        let mut votes: Vec<(usize, ReviewVerdict)> = Vec::with_capacity(item.votes.len());
        for vote in &item.votes {
            let next = self.records.len();
            let Some(number) = entry_or(&mut self.numbers, vote.by.clone(), REVIEWERS_MAX, next) else {
                self.agreement.is_partial = true;
                continue;
            };
            let number = *number;
            if number == next {
                self.records.push(ReviewerRecord::default());
            }
            let record = &mut self.records[number];
            if vote.verdict == outcome.verdict {
                record.agreed += 1;
            } else {
                record.overturned += 1;
            }
            record.times.add(vote.time - item.time);
            votes.push((number, vote.verdict));
        }
        votes.sort_unstable_by_key(|(number, _)| *number);
        for (place, (first, one)) in votes.iter().enumerate() {
            for (second, other) in &votes[place + 1..] {
                match entry(&mut self.pairs, [*first, *second], PAIRS_MAX) {
                    Some(counts) => counts.add(*one, *other),
                    None => self.agreement.is_partial = true,
                }
            }
        }
    }

    /// Returns the sums, with the keys that were decided both ways.
    pub(super) fn finish(self, unequal: UnequalKeys) -> ReviewAgreement {
        let AgreementCount { mut agreement, numbers, records, pairs, rule_sets } = self;
        let mut names = vec![String::new(); records.len()];
        numbers.into_iter().for_each(|(name, number)| names[number] = name);
        let named = |([first, second], counts): ([usize; 2], VotePairCounts)| {
            let (first, second) = (names[first].clone(), names[second].clone());
            if first <= second { ([first, second], counts) } else { ([second, first], counts.exchanged()) }
        };
        agreement.pairs = pairs.into_iter().map(named).collect();
        agreement.pairs.sort_by(|(one, of_one), (other, of_other)| {
            of_other.shared().cmp(&of_one.shared()).then_with(|| one.cmp(other))
        });
        agreement.reviewers = names.into_iter().zip(records).collect();
        agreement.reviewers.sort_by(|(one, of_one), (other, of_other)| {
            let votes = |record: &ReviewerRecord| record.agreed + record.overturned;
            votes(of_other).cmp(&votes(of_one)).then_with(|| one.cmp(other))
        });
        agreement.rule_sets = rule_sets.into_iter().collect();
        agreement.rule_sets.sort_by(|(one, of_one), (other, of_other)| {
            least_alike(*of_one).cmp(&least_alike(*of_other)).then_with(|| one.cmp(other))
        });
        agreement.unequal = unequal.finish();
        agreement
    }
}

/// The order in which what was decided least alike comes first.
fn least_alike(counts: VerdictCounts) -> Reverse<(u64, u64)> {
    Reverse((counts.minority(), counts.all()))
}

/// The entry of a map that has room for so many.
fn entry<K: Eq + std::hash::Hash, V: Default>(
    map: &mut HashMap<K, V>,
    key: K,
    most: usize,
) -> Option<&mut V> {
    entry_or(map, key, most, V::default())
}

fn entry_or<K: Eq + std::hash::Hash, V>(
    map: &mut HashMap<K, V>,
    key: K,
    most: usize,
    new: V,
) -> Option<&mut V> {
    if map.len() >= most {
        return map.get_mut(&key);
    }
    Some(map.entry(key).or_insert(new))
}

/// Finds keys with both verdicts among the decided items of each key, which come key by key, the oldest first.
#[derive(Debug, Default)]
pub(super) struct UnequalKeys {
    found: Vec<UnequalKey>,
    of: Option<Key>,
    counts: VerdictCounts,
    /// The latest published, and the latest refused.
    latest: [Option<RecordId>; 2],
}

impl UnequalKeys {
    /// Adds a decided item of a key.
    pub(super) fn add(&mut self, key: Key, id: RecordId, verdict: ReviewVerdict) {
        if self.of != Some(key) {
            self.take();
            self.of = Some(key);
        }
        self.counts.add(verdict);
        let [published, refused] = &mut self.latest;
        *if verdict == ReviewVerdict::Publish { published } else { refused } = Some(id);
    }

    /// Takes the key up that was added to.
    fn take(&mut self) {
        let (counts, latest) = (std::mem::take(&mut self.counts), std::mem::take(&mut self.latest));
        if let (Some(key), [Some(published), Some(refused)]) = (self.of, latest) {
            self.found.push(UnequalKey { key, counts, published, refused });
        }
        if self.found.len() >= 2 * UNEQUAL_MAX {
            self.shorten();
        }
    }

    fn shorten(&mut self) {
        self.found.sort_by_key(|found| (least_alike(found.counts), found.key));
        self.found.truncate(UNEQUAL_MAX);
    }

    fn finish(mut self) -> Vec<UnequalKey> {
        self.take();
        self.shorten();
        self.found
    }
}

#[cfg(test)]
mod tests {
    use event::{Kind, Shingle, Space, Time};
    use judge::Action;

    use super::super::item::{ReviewEscalation, ReviewOutcome, ReviewVote};
    use super::*;

    const START: Time = Time::from_seconds(1_779_012_000);

    #[test]
    fn kappa_is_as_computed_by_hand() {
        let check = |both_publish, only_first, only_second, both_refuse, expected: Option<f64>| {
            let pair = VotePairCounts { both_publish, only_first, only_second, both_refuse };
            let found = pair.kappa();
            let is_near = match (found, expected) {
                (Some(found), Some(expected)) => (found - expected).abs() < 5e-5,
                (found, expected) => found == expected,
            };
            assert!(is_near, "{pair:?}: {found:?}, not {expected:?}");
            assert_eq!(pair.exchanged().kappa().is_some(), expected.is_some(), "{pair:?}");
        };
        // The textbook's 50 proposals: observed 0.7, by chance 0.5 * 0.6 + 0.5 * 0.4 = 0.5, so 0.2 / 0.5.
        check(20, 5, 10, 15, Some(0.4));
        // The same 60 % of agreement, with other shares: (0.6 - 0.54) / 0.46 and (0.6 - 0.46) / 0.54.
        check(45, 15, 25, 15, Some(0.1304));
        check(25, 35, 5, 35, Some(0.2593));
        check(10, 0, 0, 10, Some(1.0));
        check(0, 10, 10, 0, Some(-1.0));
        check(25, 25, 25, 25, Some(0.0));
        // One of them always votes the same: no better than chance.
        check(7, 3, 0, 0, Some(0.0));
        for [a, d] in [[0, 0], [9, 0], [0, 9]] {
            check(a, 0, 0, d, None);
        }
        check(u64::MAX, u64::MAX, u64::MAX, u64::MAX, None);
    }

    fn item(id: u64, votes: &[(&str, bool, i64)], refused: bool, rules: &[&str], key: u64) -> ReviewItem {
        let verdict = |is_refused: bool| {
            if is_refused { ReviewVerdict::Refuse } else { ReviewVerdict::Publish }
        };
        let escalation = |why: &str| ReviewEscalation { by: None, time: START, why: why.to_owned() };
        let differ = votes.iter().any(|(_, vote, _)| *vote != refused);
        ReviewItem {
            id: RecordId(id),
            event_id: None,
            pipeline: "posts".to_owned(),
            space: Space(3),
            action: Action::ReviewBefore,
            time: START,
            score: 1.0,
            exposure: 1.0,
            rules: rules.iter().map(|rule| (*rule).to_owned()).collect(),
            keys: vec![(Kind(1), Shingle(key))],
            claim: None,
            escalation: differ.then(|| escalation("reviewers disagree")),
            votes: votes
                .iter()
                .map(|(by, is_refused, seconds)| ReviewVote {
                    by: (*by).to_owned(),
                    verdict: verdict(*is_refused),
                    time: START + Span::seconds(*seconds),
                })
                .collect(),
            comments: Vec::new(),
            outcome: Some(ReviewOutcome { verdict: verdict(refused), time: START, in_time: id != 1 }),
        }
    }

    #[test]
    fn votes_are_added_up() {
        let items = [
            item(1, &[("bob", true, 60), ("ann", false, 10), ("lea", true, 600)], true, &["B", "A"], 7),
            item(2, &[("ann", true, 100), ("bob", true, 61)], true, &["A", "B"], 7),
            item(3, &[("ann", false, 1000)], false, &["A", "B"], 7),
            item(4, &[("lea", false, 5)], false, &["C"], 8),
        ];
        let (mut count, mut unequal) = (AgreementCount::default(), UnequalKeys::default());
        for item in &items {
            count.add(item);
            let (kind, shingle) = item.keys[0];
            let key = Key { space: item.space, kind, shingle };
            unequal.add(key, item.id, item.outcome.unwrap().verdict);
        }
        count.add(&ReviewItem { outcome: None, ..items[0].clone() });
        let found = count.finish(unequal);
        assert_eq!(found.decided, VerdictCounts { publish: 2, refuse: 2 });
        assert_eq!((found.escalated, found.in_time, found.is_partial), (1, 3, false));
        let names: Vec<(&str, u64, u64)> =
            found.reviewers.iter().map(|(name, of)| (name.as_str(), of.agreed, of.overturned)).collect();
        assert_eq!(names, [("ann", 2, 1), ("bob", 2, 0), ("lea", 2, 0)]);
        let median = found.reviewers[0].1.times.median().unwrap();
        assert!((median - 100.0).abs() < 2.5, "{median}");
        let pairs: Vec<(&str, &str, u64)> = found
            .pairs
            .iter()
            .map(|([one, other], counts)| (one.as_str(), other.as_str(), counts.shared()))
            .collect();
        assert_eq!(pairs, [("ann", "bob", 2), ("ann", "lea", 1), ("bob", "lea", 1)]);
        let of_first = VotePairCounts { only_first: 1, both_refuse: 1, ..VotePairCounts::default() };
        assert_eq!(found.pairs[0].1, of_first, "ann published what bob refused");
        let sets: Vec<(usize, VerdictCounts)> =
            found.rule_sets.iter().map(|((_, rules), counts)| (rules.len(), *counts)).collect();
        let one = |publish, refuse| VerdictCounts { publish, refuse };
        assert_eq!(sets, [(2, one(1, 2)), (1, one(1, 0))]);
        let key = Key { space: Space(3), kind: Kind(1), shingle: Shingle(7) };
        let of_key = UnequalKey { key, counts: one(1, 2), published: RecordId(3), refused: RecordId(2) };
        assert_eq!(found.unequal, [of_key]);
    }

    #[test]
    fn medians_are_near_and_counts_bounded() {
        let mut times = VoteTimes::default();
        assert_eq!(times.median(), None);
        for seconds in [-5, 0, 3, 7200, i64::MAX / 1_000_000] {
            times.add(Span(seconds * 1_000_000));
        }
        let median = times.median().unwrap();
        assert!((median - 3.0).abs() < 0.1, "{median}");
        let mut count = AgreementCount::default();
        for number in 0..REVIEWERS_MAX as u64 + 5 {
            let (name, rule) = (format!("r{number}"), format!("R{number}"));
            count.add(&item(number, &[(name.as_str(), true, 1)], true, &[rule.as_str()], 1));
        }
        let found = count.finish(UnequalKeys::default());
        assert_eq!((found.reviewers.len(), found.rule_sets.len()), (REVIEWERS_MAX, RULE_SETS_MAX));
        assert!(found.is_partial);
        let mut unequal = UnequalKeys::default();
        for number in 0..3 * UNEQUAL_MAX as u64 {
            let key = Key { space: Space(3), kind: Kind(1), shingle: Shingle(number) };
            for (id, verdict) in ReviewVerdict::ALL.into_iter().enumerate() {
                unequal.add(key, RecordId(id as u64), verdict);
            }
            if number == 2900 {
                unequal.add(key, RecordId(9), ReviewVerdict::Refuse);
            }
        }
        let found = unequal.finish();
        assert_eq!((found.len(), found[0].key.shingle), (UNEQUAL_MAX, Shingle(2900)));
    }
}
