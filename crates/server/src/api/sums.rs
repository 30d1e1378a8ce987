//! Sums of what several nodes say of the same time.

use std::cmp::Reverse;
use std::collections::btree_map::Entry;
use std::collections::hash_map::Entry as HashEntry;
use std::collections::{BTreeMap, HashMap};

use super::{
    CommonFactJson, CommonFactsJson, CountBucketJson, DecisionCountsJson, DecisionStatisticsJson,
    JudgedCountsJson, RelatedKeysJson, RuleImpactJson, RuleStatisticsJson,
};

impl JudgedCountsJson {
    fn add(&mut self, JudgedCountsJson { good, bad, unjudged }: JudgedCountsJson) {
        self.good += good;
        self.bad += bad;
        self.unjudged += unjudged;
    }

    fn total(&self) -> u64 {
        self.good + self.bad + self.unjudged
    }
}

fn add_counts(counts: &mut BTreeMap<String, u64>, more: BTreeMap<String, u64>) {
    for (name, count) in more {
        *counts.entry(name).or_default() += count;
    }
}

/// Adds bins to others by where they begin. All begin at the same edges, so their numbers are the same to the last bit.
fn add_bins<B: Copy>(bins: &mut Vec<B>, more: Vec<B>, from: fn(&B) -> f64, add: fn(&mut B, B)) {
    for bin in more {
        match bins.binary_search_by(|own| from(own).total_cmp(&from(&bin))) {
            Ok(place) => add(&mut bins[place], bin),
            Err(place) => bins.insert(place, bin),
        }
    }
}

impl RuleStatisticsJson {
    fn add(&mut self, RuleStatisticsJson { enforced, shadow, alone, .. }: RuleStatisticsJson) {
        self.enforced.add(enforced);
        self.shadow.add(shadow);
        self.alone.add(alone);
        let (good, bad) = (self.enforced.good + self.shadow.good, self.enforced.bad + self.shadow.bad);
        self.precision = (good + bad > 0).then(|| bad as f64 / (good + bad) as f64);
    }

    fn fired(&self) -> u64 {
        self.enforced.total() + self.shadow.total()
    }
}

impl RuleImpactJson {
    /// Most decisions of several nodes together.
    const DECISIONS_MAX: usize = 200;

    /// Adds what the rule did on another node.
    pub fn add(&mut self, other: RuleImpactJson) {
        let RuleImpactJson { hits, alone, untold, corrected, unknown, counts, labels, bans, .. } = other;
        for (own, more) in [
            (&mut self.hits, hits),
            (&mut self.alone, alone),
            (&mut self.untold, untold),
            (&mut self.corrected, corrected),
            (&mut self.unknown, unknown),
            (&mut self.counts, counts),
            (&mut self.labels, labels),
            (&mut self.bans, bans),
        ] {
            *own += more;
        }
        add_counts(&mut self.lasting, other.lasting);
        for change in other.actions {
            let mut own = self.actions.iter_mut();
            match own.find(|own| (own.action, own.without) == (change.action, change.without)) {
                Some(own) => own.decisions += change.decisions,
                None => self.actions.push(change),
            }
        }
        self.actions.sort_by_key(|change| Reverse(change.decisions));
        self.partial |= other.partial;
        self.decisions.extend(other.decisions);
        self.decisions.sort_by_key(|hit| {
            let is_alone = hit.without.is_some_and(|without| without != hit.action);
            (Reverse(is_alone), Reverse(hit.time.0))
        });
        self.decisions.truncate(RuleImpactJson::DECISIONS_MAX);
    }
}

impl RelatedKeysJson {
    /// Adds the decisions of another node. The keys are in no order then.
    pub fn add(&mut self, other: RelatedKeysJson) {
        self.decisions += other.decisions;
        self.partial |= other.partial;
        let name = |kind: &str, piece: &str| (kind.to_owned(), piece.to_owned());
        let places = self.keys.iter().enumerate().map(|(place, key)| (name(&key.kind, &key.piece), place));
        let mut places: HashMap<(String, String), usize> = places.collect();
        for key in other.keys {
            match places.entry(name(&key.kind, &key.piece)) {
                HashEntry::Occupied(place) => {
                    let own = &mut self.keys[*place.get()];
                    own.decisions += key.decisions;
                    own.good += key.good;
                    own.bad += key.bad;
                    own.first.0 = own.first.0.min(key.first.0);
                    own.last.0 = own.last.0.max(key.last.0);
                }
                HashEntry::Vacant(place) => {
                    place.insert(self.keys.len());
                    self.keys.push(key);
                }
            }
        }
    }
}

impl DecisionStatisticsJson {
    /// Adds the statistics of another node. Bands, and the line that is moved, stay as this node has them.
    pub fn add(&mut self, other: DecisionStatisticsJson) {
        self.decisions.add(other.decisions);
        add_counts(&mut self.actions, other.actions);
        add_counts(&mut self.labels, other.labels);
        for sums in other.rules {
            match self.rules.iter_mut().find(|own| own.rule == sums.rule) {
                Some(own) => own.add(sums),
                None => self.rules.push(sums),
            }
        }
        self.rules.sort_by(|one, two| two.fired().cmp(&one.fired()).then_with(|| one.rule.cmp(&two.rule)));
        add_bins(&mut self.scores, other.scores, |bin| bin.from, |own, bin| own.decisions.add(bin.decisions));
        add_bins(
            &mut self.probabilities,
            other.probabilities,
            |bin| bin.from,
            |own, bin| {
                own.decisions.add(bin.decisions);
                own.expected += bin.expected;
            },
        );
        if let (Some(own), Some(moved)) = (&mut self.moved, other.moved)
            && (own.action, own.at, own.to) == (moved.action, moved.at, moved.to)
        {
            own.between.add(moved.between);
        }
        // From then on all nodes have looked at all.
        self.reached = self.reached.into_iter().chain(other.reached).max_by_key(|time| time.0);
        self.looked_at += other.looked_at;
        self.damaged += other.damaged;
    }
}

impl CountBucketJson {
    fn add(&mut self, CountBucketJson { decisions, actions, rules, shadow, labels, .. }: CountBucketJson) {
        self.decisions += decisions;
        add_counts(&mut self.actions, actions);
        add_counts(&mut self.rules, rules);
        add_counts(&mut self.shadow, shadow);
        add_counts(&mut self.labels, labels);
    }
}

impl DecisionCountsJson {
    /// Adds what another node has counted.
    pub fn add(&mut self, other: DecisionCountsJson) {
        let all = std::mem::take(&mut self.buckets).into_iter().chain(other.buckets);
        let mut buckets = BTreeMap::new();
        for bucket in all {
            match buckets.entry(bucket.start.0) {
                Entry::Vacant(place) => drop(place.insert(bucket)),
                Entry::Occupied(mut own) => own.get_mut().add(bucket),
            }
        }
        self.buckets = buckets.into_values().collect();
    }
}

impl CommonFactsJson {
    /// Adds what decisions of another node have in common; of another pipeline, nothing. A fact that does not stand out on a node
    /// counts as if no decision there had it.
    pub fn add(&mut self, other: CommonFactsJson) {
        if self.pipeline.is_empty() {
            self.pipeline.clone_from(&other.pipeline);
        }
        self.partial |= other.partial;
        self.damaged += other.damaged;
        if self.pipeline != other.pipeline {
            return;
        }
        self.decisions += other.decisions;
        self.others += other.others;
        for fact in other.facts {
            match self.facts.iter_mut().find(|own| own.condition == fact.condition) {
                Some(own) => (own.count, own.before) = (own.count + fact.count, own.before + fact.before),
                None => self.facts.push(fact),
            }
        }
        let share = |count: u64, of: u64| count as f64 / of.max(1) as f64;
        let (decisions, others) = (self.decisions, self.others);
        self.facts.sort_by(|one, two| {
            let distance = |fact: &CommonFactJson| share(fact.count, decisions) - share(fact.before, others);
            distance(two).total_cmp(&distance(one)).then_with(|| one.condition.cmp(&two.condition))
        });
    }
}

#[cfg(test)]
mod tests {
    use event::Time;
    use judge::Action;
    use plan::{Config, Overrides, Plan};

    use super::super::{
        BandLineJson, Length, MovedLineJson, ProbabilityBinJson, RelatedKeyJson, RuleHitJson, ScoreBinJson,
        Timestamp, WithoutRuleJson,
    };
    use super::*;

    fn judged(good: u64, bad: u64, unjudged: u64) -> JudgedCountsJson {
        JudgedCountsJson { good, bad, unjudged }
    }

    fn counts(of: &[(&str, u64)]) -> BTreeMap<String, u64> {
        of.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect()
    }

    fn rule(name: &str, enforced: JudgedCountsJson, precision: Option<f64>) -> RuleStatisticsJson {
        RuleStatisticsJson { rule: name.to_owned(), enforced, precision, ..RuleStatisticsJson::default() }
    }

    #[test]
    fn statistics_of_nodes_are_added() {
        let moved = |to, between| MovedLineJson { action: Action::Reject, at: 5.0, to, between };
        let bin = |from, decisions, expected| ProbabilityBinJson { from, to: 1.0, decisions, expected };
        let mut own = DecisionStatisticsJson {
            pipeline: "mail".to_owned(),
            decisions: judged(1, 2, 3),
            actions: counts(&[("accept", 4), ("reject", 2)]),
            labels: counts(&[("spam", 2)]),
            rules: vec![rule("A", judged(0, 2, 1), Some(1.0)), rule("B", judged(1, 0, 0), Some(0.0))],
            scores: vec![ScoreBinJson { from: 0.5, decisions: judged(1, 0, 0) }],
            probabilities: vec![bin(0.9, judged(0, 2, 0), 1.9)],
            bands: vec![BandLineJson { action: Action::Reject, at: 5.0 }],
            moved: Some(moved(4.0, judged(1, 0, 0))),
            reached: None,
            looked_at: 6,
            damaged: 0,
            absent: Vec::new(),
        };
        own.add(DecisionStatisticsJson {
            pipeline: "mail".to_owned(),
            decisions: judged(10, 0, 0),
            actions: counts(&[("reject", 9), ("tag", 1)]),
            labels: counts(&[("ham", 10)]),
            rules: vec![rule("B", judged(8, 2, 0), Some(0.2)), rule("C", judged(0, 0, 1), None)],
            scores: vec![
                ScoreBinJson { from: 0.0, decisions: judged(9, 0, 0) },
                ScoreBinJson { from: 0.5, decisions: judged(1, 0, 0) },
            ],
            probabilities: vec![bin(0.0, judged(9, 0, 0), 0.5), bin(0.9, judged(1, 0, 0), 0.9)],
            moved: Some(moved(4.0, judged(0, 1, 0))),
            reached: Some(Timestamp(Time(7))),
            looked_at: 10,
            damaged: 1,
            ..DecisionStatisticsJson::default()
        });
        assert_eq!(own.decisions, judged(11, 2, 3));
        assert_eq!(own.actions, counts(&[("accept", 4), ("reject", 11), ("tag", 1)]));
        assert_eq!(own.labels, counts(&[("ham", 10), ("spam", 2)]));
        let expected = [
            rule("B", judged(9, 2, 0), Some(2.0 / 11.0)),
            rule("A", judged(0, 2, 1), Some(1.0)),
            rule("C", judged(0, 0, 1), None),
        ];
        assert_eq!(own.rules, expected);
        let scores: Vec<_> = own.scores.iter().map(|bin| (bin.from, bin.decisions.good)).collect();
        assert_eq!(scores, [(0.0, 9), (0.5, 2)]);
        assert_eq!(own.probabilities, [bin(0.0, judged(9, 0, 0), 0.5), bin(0.9, judged(1, 2, 0), 1.9 + 0.9)]);
        assert_eq!(own.moved, Some(moved(4.0, judged(1, 1, 0))));
        assert_eq!((own.reached, own.looked_at, own.damaged), (Some(Timestamp(Time(7))), 16, 1));
    }

    #[test]
    fn impacts_of_nodes_are_added() {
        let hit = |number: i64, without: Option<Action>| RuleHitJson {
            id: number.to_string(),
            time: Timestamp(Time(number)),
            event_id: None,
            version: String::new(),
            action: Action::Reject,
            without,
            corrected: false,
        };
        let change = |without, decisions| WithoutRuleJson { action: Action::Reject, without, decisions };
        let mut own = RuleImpactJson {
            hits: 3,
            alone: 1,
            counts: 2,
            lasting: counts(&[("ip", 1)]),
            actions: vec![change(Action::Reject, 2), change(Action::Tag, 1)],
            decisions: vec![hit(1, Some(Action::Tag)), hit(5, Some(Action::Reject))],
            ..RuleImpactJson::default()
        };
        own.add(RuleImpactJson {
            hits: 300,
            alone: 250,
            labels: 4,
            bans: 5,
            partial: true,
            lasting: counts(&[("ip", 1), ("user", 2)]),
            actions: vec![change(Action::Tag, 250), change(Action::Accept, 50)],
            decisions: (10..210).map(|number| hit(number, Some(Action::Tag))).collect(),
            ..RuleImpactJson::default()
        });
        assert_eq!(
            (own.hits, own.alone, own.counts, own.labels, own.bans, own.partial),
            (303, 251, 2, 4, 5, true)
        );
        assert_eq!(own.lasting, counts(&[("ip", 2), ("user", 2)]));
        let expected = [change(Action::Tag, 251), change(Action::Accept, 50), change(Action::Reject, 2)];
        assert_eq!(own.actions, expected);
        assert_eq!((own.decisions.len(), own.decisions[0].id.as_str()), (200, "209"), "the newest of them");
    }

    #[test]
    fn related_keys_of_nodes_are_added_and_the_most_shared_shown() {
        let key = |kind: &str, piece: &str, decisions, time| RelatedKeyJson {
            kind: kind.to_owned(),
            piece: piece.to_owned(),
            decisions,
            good: 1,
            bad: 0,
            first: Timestamp(Time(time)),
            last: Timestamp(Time(time + 1)),
        };
        let of = |decisions, keys| RelatedKeysJson {
            pipeline: "web".to_owned(),
            kind: "ip".to_owned(),
            piece: "192.0.2.7".to_owned(),
            decisions,
            partial: false,
            keys,
            absent: Vec::new(),
        };
        let config = Config::from_preset("web", &Overrides::default());
        let plan = Plan::compile(&config).unwrap_or_else(|problems| panic!("{problems}"));
        let pipeline = &plan.pipelines[0];
        let names: Vec<&str> = pipeline.kinds.iter().map(|plan| plan.name.as_str()).collect();
        let [first, second, ..] = names[..] else { panic!("{names:?}") };
        let mut own = of(5, vec![key(second, "a", 2, 10)]);
        own.add(of(20, (0..12).map(|number| key(second, &number.to_string(), 3, number)).collect()));
        own.add(RelatedKeysJson {
            partial: true,
            ..of(7, vec![key(second, "a", 4, 0), key(first, "b", 1, 0)])
        });
        let shown = own.shown(pipeline);
        assert_eq!((shown.decisions, shown.partial, shown.keys.len()), (32, true, 11));
        assert_eq!(shown.keys[0].piece, "b", "kinds are in the order of the configuration");
        let both = RelatedKeyJson { good: 2, first: Timestamp(Time(0)), ..key(second, "a", 6, 10) };
        assert_eq!(shown.keys[1], both);
        assert_eq!(shown.keys[2].piece, "11", "the latest of those that share as much");
    }

    #[test]
    fn facts_of_nodes_are_added_for_one_pipeline() {
        let fact = |path: &str, count, before| CommonFactJson {
            fact: "http.path".to_owned(),
            value: path.into(),
            condition: format!("http.path == '{path}'"),
            count,
            before,
        };
        let of = |pipeline: &str, decisions, others, facts| CommonFactsJson {
            pipeline: pipeline.to_owned(),
            decisions,
            others,
            facts,
            partial: false,
            damaged: 0,
            absent: Vec::new(),
        };
        // A node without decisions that fit names no pipeline.
        let mut own = of("", 0, 0, Vec::new());
        own.add(of("web", 10, 10, vec![fact("/a", 8, 0), fact("/b", 4, 1)]));
        own.add(of("mail", 99, 99, vec![fact("/a", 99, 0)]));
        own.add(CommonFactsJson { partial: true, damaged: 2, ..of("web", 30, 10, vec![fact("/b", 30, 0)]) });
        let facts = vec![fact("/b", 34, 1), fact("/a", 8, 0)];
        assert_eq!(own, CommonFactsJson { partial: true, damaged: 2, ..of("web", 40, 20, facts) });
    }

    #[test]
    fn counts_of_nodes_are_added_bucket_by_bucket() {
        let bucket = |start, decisions| CountBucketJson {
            start: Timestamp(Time(start)),
            decisions,
            actions: counts(&[("accept", decisions)]),
            rules: BTreeMap::new(),
            shadow: BTreeMap::new(),
            labels: counts(&[("spam", 1)]),
        };
        let of = |buckets| DecisionCountsJson {
            pipeline: "mail".to_owned(),
            width: Length(event::Span::minutes(1)),
            buckets,
            absent: Vec::new(),
        };
        let mut own = of(vec![bucket(60, 2), bucket(180, 3)]);
        own.add(of(vec![bucket(0, 1), bucket(60, 5), bucket(240, 7)]));
        let mut both = bucket(60, 7);
        both.labels = counts(&[("spam", 2)]);
        assert_eq!(own, of(vec![bucket(0, 1), both, bucket(180, 3), bucket(240, 7)]));
    }
}
