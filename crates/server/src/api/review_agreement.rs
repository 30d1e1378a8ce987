//! The agreement between reviewers in JSON, and the sum of what several nodes count.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use engine::{ReviewAgreement, UnequalKey, VerdictCounts, VotePairCounts, VoteTimes};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The agreement between reviewers, over the decided reviews that the queue still keeps.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = ReviewAgreement)]
pub struct ReviewAgreementJson {
    /// The number of decided reviews.
    pub reviews: u64,
    /// The number of those that were published.
    pub publish: u64,
    /// The number of those that were refused.
    pub refuse: u64,
    /// The number of those that needed a lead.
    pub escalated: u64,
    /// The number of those that were decided in time.
    pub in_time: u64,
    /// Reviewers, those with the most votes first, at most 100.
    pub reviewers: Vec<ReviewerAgreementJson>,
    /// Pairs of reviewers, those with the most shared votes first, at most 200.
    pub pairs: Vec<ReviewerPairJson>,
    /// Decided reviews by the rules that fired, those sets first of which most were decided otherwise than the rest; at most 50.
    pub rule_sets: Vec<RuleSetVerdictsJson>,
    /// Keys that were decided both ways, those first of which most were decided otherwise than the rest; at most 50.
    pub unequal: Vec<UnequalKeyJson>,
    /// True if not all was counted: in the time that there was, or as there are too many reviewers, pairs or sets of rules.
    pub partial: bool,
    /// The nodes whose reviews are missing, as they do not answer: `3 (mail-3)`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub absent: Vec<String>,
}

/// The votes of a reviewer on what is decided.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = ReviewerAgreement)]
pub struct ReviewerAgreementJson {
    /// The reviewer.
    pub by: String,
    /// The number of votes.
    pub votes: u64,
    /// The number of those that became the outcome.
    pub agreed: u64,
    /// The number of those against which it was decided.
    pub overturned: u64,
    /// The median of the seconds from the arrival of an event to the vote, to 2.5 %.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub median_seconds: Option<f64>,
    /// The number of votes by the time that they took, for another node that asked.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schema(ignore)]
    pub times: BTreeMap<u16, u64>,
}

/// The votes of two reviewers on what both voted on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = ReviewerPair)]
pub struct ReviewerPairJson {
    /// The first reviewer.
    pub first: String,
    /// The second reviewer.
    pub second: String,
    /// The number of reviews on which both voted.
    pub shared: u64,
    /// The share of them on which both voted the same; 0 to 1.
    pub agreement: f64,
    /// Cohen's kappa: 1 if they always agree, 0 if as often as by chance. Missing where it is not defined, as where all votes of
    /// both are the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kappa: Option<f64>,
    /// The number that both published.
    pub both_publish: u64,
    /// The number that only the first published.
    pub only_first: u64,
    /// The number that only the second published.
    pub only_second: u64,
    /// The number that both refused.
    pub both_refuse: u64,
}

/// The verdicts on reviews for which the same rules fired.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = RuleSetVerdicts)]
pub struct RuleSetVerdictsJson {
    /// The pipeline.
    pub pipeline: String,
    /// The rules, by name.
    pub rules: Vec<String>,
    /// The number of reviews that were published.
    pub publish: u64,
    /// The number of reviews that were refused.
    pub refuse: u64,
}

/// A key whose reviews were decided both ways on one node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = UnequalKey)]
pub struct UnequalKeyJson {
    /// The pipeline.
    pub pipeline: String,
    /// The kind of the key.
    pub kind: String,
    /// The hash of its value; `/v1/decisions/{id}` has the value.
    pub shingle: String,
    /// The number of its reviews that were published.
    pub publish: u64,
    /// The number of its reviews that were refused.
    pub refuse: u64,
    /// The id of the latest that was published.
    pub published: String,
    /// The id of the latest that was refused.
    pub refused: String,
}

/// The most entries of each list of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AgreementBounds {
    /// Reviewers.
    pub reviewers: usize,
    /// Pairs of them.
    pub pairs: usize,
    /// Sets of rules, and keys.
    pub groups: usize,
}

impl AgreementBounds {
    /// The bounds of what callers get.
    pub const ANSWER: AgreementBounds = AgreementBounds { reviewers: 100, pairs: 200, groups: 50 };
    /// The bounds of what another node gets, which adds it to its own.
    pub const NODE: AgreementBounds = AgreementBounds { reviewers: 500, pairs: 2000, groups: 500 };
}

impl ReviewAgreementJson {
    /// Returns what a node counts. `named` has the pipeline and the name of a key's kind; keys that have none any more are left out.
    pub fn new(
        of: ReviewAgreement,
        named: impl Fn(&UnequalKey) -> Option<(String, String)>,
    ) -> ReviewAgreementJson {
        let ReviewAgreement { decided, escalated, in_time, reviewers, pairs, rule_sets, unequal, is_partial } =
            of;
        let reviewers = reviewers.into_iter().map(|(by, of)| ReviewerAgreementJson {
            by,
            votes: of.agreed + of.overturned,
            agreed: of.agreed,
            overturned: of.overturned,
            median_seconds: None,
            times: of.times.buckets,
        });
        let pairs = pairs.into_iter().map(|([first, second], of)| {
            let VotePairCounts { both_publish, only_first, only_second, both_refuse } = of;
            let counts =
                ReviewerPairJson { both_publish, only_first, only_second, both_refuse, ..Default::default() };
            ReviewerPairJson { first, second, ..counts }
        });
        let rule_sets =
            rule_sets.into_iter().map(|((pipeline, rules), VerdictCounts { publish, refuse })| {
                RuleSetVerdictsJson { pipeline, rules, publish, refuse }
            });
        let unequal = unequal.iter().filter_map(|of| {
            let (pipeline, kind) = named(of)?;
            Some(UnequalKeyJson {
                pipeline,
                kind,
                shingle: of.key.shingle.to_string(),
                publish: of.counts.publish,
                refuse: of.counts.refuse,
                published: of.published.to_string(),
                refused: of.refused.to_string(),
            })
        });
        ReviewAgreementJson {
            reviews: decided.all(),
            publish: decided.publish,
            refuse: decided.refuse,
            escalated,
            in_time,
            reviewers: reviewers.collect(),
            pairs: pairs.collect(),
            rule_sets: rule_sets.collect(),
            unequal: unequal.collect(),
            partial: is_partial,
            absent: Vec::new(),
        }
    }

    /// Adds what another node counts.
    pub fn add(&mut self, other: ReviewAgreementJson) {
        let ReviewAgreementJson { reviewers, pairs, rule_sets, unequal, .. } = other;
        add(&mut self.reviews, other.reviews);
        add(&mut self.publish, other.publish);
        add(&mut self.refuse, other.refuse);
        add(&mut self.escalated, other.escalated);
        add(&mut self.in_time, other.in_time);
        self.partial |= other.partial;
        merge(
            &mut self.reviewers,
            reviewers,
            |of| of.by.clone(),
            |sum, of| {
                add(&mut sum.votes, of.votes);
                add(&mut sum.agreed, of.agreed);
                add(&mut sum.overturned, of.overturned);
                of.times.into_iter().for_each(|(time, count)| add(sum.times.entry(time).or_default(), count));
            },
        );
        merge(
            &mut self.pairs,
            pairs,
            |of| (of.first.clone(), of.second.clone()),
            |sum, of| {
                add(&mut sum.both_publish, of.both_publish);
                add(&mut sum.only_first, of.only_first);
                add(&mut sum.only_second, of.only_second);
                add(&mut sum.both_refuse, of.both_refuse);
            },
        );
        merge(
            &mut self.rule_sets,
            rule_sets,
            |of| (of.pipeline.clone(), of.rules.clone()),
            |sum, of| {
                add(&mut sum.publish, of.publish);
                add(&mut sum.refuse, of.refuse);
            },
        );
        let name = |of: &UnequalKeyJson| (of.pipeline.clone(), of.kind.clone(), of.shingle.clone());
        merge(&mut self.unequal, unequal, name, |sum, of| {
            add(&mut sum.publish, of.publish);
            add(&mut sum.refuse, of.refuse);
            // Ids sort by time.
            sum.published = std::mem::take(&mut sum.published).max(of.published);
            sum.refused = std::mem::take(&mut sum.refused).max(of.refused);
        });
    }

    /// Returns it for another node, which adds it to its own: with counts that were not cut to what callers get.
    #[must_use]
    pub fn for_node(mut self) -> ReviewAgreementJson {
        self.order();
        let AgreementBounds { reviewers, pairs, groups } = AgreementBounds::NODE;
        self.partial |=
            self.reviewers.len() > reviewers || self.pairs.len() > pairs || self.rule_sets.len() > groups;
        self.cut(AgreementBounds::NODE);
        self
    }

    /// Returns it for callers: in order, with the ratios that follow from the counts.
    #[must_use]
    pub fn for_callers(mut self) -> ReviewAgreementJson {
        for of in &mut self.reviewers {
            of.median_seconds = VoteTimes { buckets: std::mem::take(&mut of.times) }.median();
        }
        for of in &mut self.pairs {
            let ReviewerPairJson { both_publish, only_first, only_second, both_refuse, .. } = *of;
            let counts = VotePairCounts { both_publish, only_first, only_second, both_refuse };
            of.shared = counts.shared();
            of.agreement = counts.agreement().unwrap_or_default();
            of.kappa = counts.kappa();
        }
        self.order();
        self.cut(AgreementBounds::ANSWER);
        self
    }

    fn order(&mut self) {
        let shared = |of: &ReviewerPairJson| {
            VotePairCounts {
                both_publish: of.both_publish,
                only_first: of.only_first,
                only_second: of.only_second,
                both_refuse: of.both_refuse,
            }
            .shared()
        };
        self.reviewers.sort_by_cached_key(|of| (Reverse(of.votes), of.by.clone()));
        self.pairs.sort_by_cached_key(|of| (Reverse(shared(of)), of.first.clone(), of.second.clone()));
        let counts = |publish, refuse| {
            let counts = VerdictCounts { publish, refuse };
            Reverse((counts.minority(), counts.all()))
        };
        self.rule_sets
            .sort_by_cached_key(|of| (counts(of.publish, of.refuse), of.pipeline.clone(), of.rules.clone()));
        self.unequal
            .sort_by_cached_key(|of| (counts(of.publish, of.refuse), of.kind.clone(), of.shingle.clone()));
    }

    fn cut(&mut self, bounds: AgreementBounds) {
        self.reviewers.truncate(bounds.reviewers);
        self.pairs.truncate(bounds.pairs);
        self.rule_sets.truncate(bounds.groups);
        self.unequal.truncate(bounds.groups);
    }
}

fn add(sum: &mut u64, count: u64) {
    *sum = sum.saturating_add(count);
}

/// Adds entries to those of the same name.
fn merge<T, K: Ord>(own: &mut Vec<T>, others: Vec<T>, name: impl Fn(&T) -> K, add: impl Fn(&mut T, T)) {
    let mut places: BTreeMap<K, usize> =
        own.iter().enumerate().map(|(place, of)| (name(of), place)).collect();
    for other in others {
        match places.entry(name(&other)) {
            Entry::Occupied(place) => {
                if let Some(of) = own.get_mut(*place.get()) {
                    add(of, other);
                }
            }
            Entry::Vacant(place) => {
                place.insert(own.len());
                own.push(other);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(votes: u64, counts: [u64; 4], time: u16) -> ReviewAgreementJson {
        let [both_publish, only_first, only_second, both_refuse] = counts;
        let (first, second) = ("ann".to_owned(), "bob".to_owned());
        let pair = ReviewerPairJson {
            first,
            second,
            both_publish,
            only_first,
            only_second,
            both_refuse,
            ..Default::default()
        };
        let times = BTreeMap::from([(time, votes)]);
        let of_ann =
            ReviewerAgreementJson { by: "ann".to_owned(), votes, agreed: votes, times, ..Default::default() };
        let key = UnequalKeyJson {
            kind: "link".to_owned(),
            publish: votes,
            refuse: 1,
            published: format!("{votes}"),
            ..Default::default()
        };
        ReviewAgreementJson {
            reviews: votes,
            publish: votes,
            reviewers: vec![of_ann],
            pairs: vec![pair],
            unequal: vec![key],
            ..Default::default()
        }
    }

    /// Ratios of all nodes are made of their counts, and not of their ratios.
    #[test]
    fn counts_of_nodes_are_added_up() {
        let mut all = node(2, [20, 0, 0, 0], 0).for_node();
        assert_eq!(all.clone().for_callers().pairs[0].kappa, None, "one alone says nothing");
        all.add(node(5, [0, 5, 10, 15], 95).for_node());
        let all = all.for_callers();
        assert_eq!((all.reviews, all.publish, all.partial), (7, 7, false));
        let pair = &all.pairs[0];
        assert_eq!((pair.shared, pair.agreement), (50, 0.7));
        assert!((pair.kappa.unwrap() - 0.4).abs() < 1e-9, "{pair:?}");
        let ann = &all.reviewers[0];
        assert!(ann.votes == 7 && ann.times.is_empty() && ann.median_seconds.unwrap() > 90.0, "{ann:?}");
        let key = &all.unequal[0];
        assert_eq!((key.publish, key.refuse, key.published.as_str()), (7, 2, "5"));
    }

    #[test]
    fn lists_are_bounded() {
        let reviewer = |number: u64| ReviewerAgreementJson {
            by: format!("r{number}"),
            votes: number,
            ..Default::default()
        };
        let many = ReviewAgreementJson { reviewers: (0..600).map(reviewer).collect(), ..Default::default() };
        let of_node = many.clone().for_node();
        assert_eq!((of_node.reviewers.len(), of_node.partial), (500, true));
        let answer = many.for_callers();
        assert_eq!((answer.reviewers.len(), answer.reviewers[0].votes, answer.partial), (100, 599, false));
    }
}
