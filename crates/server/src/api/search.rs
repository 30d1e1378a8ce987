//! Lists of past decisions in JSON.

use std::collections::BTreeMap;

use engine::{
    CommonFact, CommonFacts, DecisionPage, DecisionSeries, DecisionStatistics, JudgedCounts, ListedDecision,
    MovedLine, ProbabilityBin, RuleStatistics,
};
use event::Time;
use journal::json_value;
use judge::Action;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{Length, Timestamp, action_schema};

/// A page of past decisions, newest first.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = DecisionPage)]
pub struct DecisionPageJson {
    /// The decisions.
    pub decisions: Vec<ListedDecisionJson>,
    /// The text to ask for the next page with, as `after`; absent at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    /// True if the search stopped before the page was full, as it had read as much as one request may: it goes on at `next`.
    /// Absent otherwise.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub partial: bool,
    /// The time before which labels of decisions were not read yet, so that their `label` may be missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub labels_from: Option<Timestamp>,
    /// The number of records that were looked at for this page.
    pub looked_at: u64,
    /// The number of stretches of the journal that were passed over because they are damaged. Absent where there are none.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub damaged: u64,
    /// The nodes whose decisions are missing, as they do not answer: `3 (mail-3)`. Absent where all do.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub absent: Vec<String>,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// A past decision, as lists have it. `GET /v1/decisions/{id}` has all of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = ListedDecision)]
pub struct ListedDecisionJson {
    /// Its id.
    pub id: String,
    /// The caller's name for the event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event_id: Option<String>,
    /// The pipeline that decided.
    pub pipeline: String,
    /// Its version at that time.
    pub version: String,
    /// The time of the event.
    pub time: Timestamp,
    /// The time of its arrival.
    pub arrival: Timestamp,
    /// An event of this id had been counted before. Absent otherwise.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub duplicate: bool,
    /// The action.
    #[schema(schema_with = action_schema)]
    pub action: Action,
    /// The score.
    pub score: f64,
    /// The probability that the event is bad, as it was said then.
    pub probability: f64,
    /// The enforced rules that fired, the weightiest first.
    pub rules: Vec<FiredRuleJson>,
    /// The rules in shadow that fired.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shadow: Vec<String>,
    /// The class of the last judgement of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// The time at which that was said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label_time: Option<Timestamp>,
    /// The facts that were asked for and have a value; of long texts the beginning.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub facts: BTreeMap<String, serde_json::Value>,
}

/// A rule that fired.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = FiredRule)]
pub struct FiredRuleJson {
    /// Its name.
    pub name: String,
    /// Its score.
    pub score: f64,
}

impl From<&ListedDecision> for ListedDecisionJson {
    fn from(listed: &ListedDecision) -> ListedDecisionJson {
        let rules = listed.rules.iter();
        let facts = listed.facts.iter();
        ListedDecisionJson {
            id: listed.id.to_string(),
            event_id: listed.event_id.clone(),
            pipeline: listed.pipeline.clone(),
            version: listed.version.clone(),
            time: Timestamp(listed.time),
            arrival: Timestamp(listed.arrival),
            duplicate: listed.duplicate,
            action: listed.action,
            score: listed.score,
            probability: listed.probability,
            rules: rules.map(|(name, score)| FiredRuleJson { name: name.clone(), score: *score }).collect(),
            shadow: listed.shadow.clone(),
            label: listed.label.as_ref().map(|(class, _)| class.to_string()),
            label_time: listed.label.as_ref().map(|(_, time)| Timestamp(*time)),
            facts: facts.map(|(name, value)| (name.clone(), json_value(value))).collect(),
        }
    }
}

impl From<&DecisionPage> for DecisionPageJson {
    fn from(page: &DecisionPage) -> DecisionPageJson {
        DecisionPageJson {
            decisions: page.decisions.iter().map(ListedDecisionJson::from).collect(),
            next: page.next.map(|id| id.to_string()),
            partial: page.is_partial,
            // An id has its time up to the millisecond.
            labels_from: page.labels_from.map(|id| Timestamp(id.time().max(Time(0)))),
            looked_at: page.looked_at,
            damaged: page.skipped.stretches,
            absent: Vec::new(),
        }
    }
}

/// Decisions by the side of their last judgement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = JudgedCounts)]
pub struct JudgedCountsJson {
    /// Decisions judged good.
    pub good: u64,
    /// Decisions judged bad.
    pub bad: u64,
    /// Decisions that nobody judged, or not to a side.
    pub unjudged: u64,
}

/// The decisions for which a rule fired.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = RuleStatistics)]
pub struct RuleStatisticsJson {
    /// The rule.
    pub rule: String,
    /// Decisions for which it fired enforced.
    pub enforced: JudgedCountsJson,
    /// Decisions for which it fired in shadow.
    pub shadow: JudgedCountsJson,
    /// Decisions other than `accept` for which no other enforced rule fired: what it alone decided.
    pub alone: JudgedCountsJson,
    /// The share of bad ones among the judged decisions for which it fired, enforced or in shadow; absent where none is judged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub precision: Option<f64>,
}

/// Decisions whose score is in a bin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = ScoreBin)]
pub struct ScoreBinJson {
    /// The lowest score of the bin.
    pub from: f64,
    /// The decisions.
    pub decisions: JudgedCountsJson,
}

/// Decisions whose probability, as it was said then, is in a bin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = ProbabilityBin)]
pub struct ProbabilityBinJson {
    /// The lowest probability of the bin.
    pub from: f64,
    /// The probability at which the next bin begins; 1 belongs to the last.
    pub to: f64,
    /// The decisions.
    pub decisions: JudgedCountsJson,
    /// The number of bad ones among the judged that their probabilities let expect. Where probabilities come true, it is near
    /// `decisions.bad`.
    pub expected: f64,
}

impl From<&ProbabilityBin> for ProbabilityBinJson {
    fn from(bin: &ProbabilityBin) -> ProbabilityBinJson {
        let ProbabilityBin { from, to, decisions, expected } = *bin;
        // Beyond a millionth it is noise of the addition's order.
        let expected = (expected * 1e6).round() / 1e6;
        ProbabilityBinJson { from, to, decisions: decisions.into(), expected }
    }
}

/// A band of a pipeline.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = BandLine)]
pub struct BandLineJson {
    /// The action.
    #[schema(schema_with = action_schema)]
    pub action: Action,
    /// The score at which the band begins now.
    pub at: f64,
}

/// A line that is moved.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = MovedLine)]
pub struct MovedLineJson {
    /// The action of the band.
    #[schema(schema_with = action_schema)]
    pub action: Action,
    /// The score at which the band begins now.
    pub at: f64,
    /// The score at which it would begin.
    pub to: f64,
    /// Decisions whose score lies between both: those that would newly reach the band if it is moved down, and that would reach
    /// it no more if it is moved up. Actions that rules set by themselves are not looked at.
    pub between: JudgedCountsJson,
}

/// Statistics of past decisions of a pipeline.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = DecisionStatistics)]
pub struct DecisionStatisticsJson {
    /// The pipeline.
    pub pipeline: String,
    /// The decisions.
    pub decisions: JudgedCountsJson,
    /// The decisions by action.
    pub actions: BTreeMap<String, u64>,
    /// The decisions by the class of their last judgement.
    pub labels: BTreeMap<String, u64>,
    /// The rules that fired, those that fired most first.
    pub rules: Vec<RuleStatisticsJson>,
    /// Decisions by score, in bins that have some, rising.
    pub scores: Vec<ScoreBinJson>,
    /// Decisions by the probability that was said of them, in bins that have some, rising.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub probabilities: Vec<ProbabilityBinJson>,
    /// The bands as they begin now, by score.
    pub bands: Vec<BandLineJson>,
    /// The line that was to be moved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub moved: Option<MovedLineJson>,
    /// The time down to which decisions were looked at, if not all that were asked for were: the newest are in it. Absent
    /// otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reached: Option<Timestamp>,
    /// The number of records that were looked at.
    pub looked_at: u64,
    /// The number of stretches of the journal that were passed over because they are damaged. Absent where there are none.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub damaged: u64,
    /// The nodes whose decisions are missing, as they do not answer: `3 (mail-3)`. Absent where all do.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub absent: Vec<String>,
}

/// The counts of actions that are not 0, by name.
fn by_action(counts: &[u64; Action::ALL.len()]) -> BTreeMap<String, u64> {
    let counts = Action::ALL.into_iter().zip(counts).filter(|(_, count)| **count > 0);
    counts.map(|(action, count)| (action.name().to_owned(), *count)).collect()
}

impl From<JudgedCounts> for JudgedCountsJson {
    fn from(JudgedCounts { good, bad, unjudged }: JudgedCounts) -> JudgedCountsJson {
        JudgedCountsJson { good, bad, unjudged }
    }
}

impl From<&RuleStatistics> for RuleStatisticsJson {
    fn from(sums: &RuleStatistics) -> RuleStatisticsJson {
        RuleStatisticsJson {
            rule: sums.rule.clone(),
            enforced: sums.enforced.into(),
            shadow: sums.shadow.into(),
            alone: sums.alone.into(),
            precision: sums.precision(),
        }
    }
}

impl From<&DecisionStatistics> for DecisionStatisticsJson {
    fn from(made: &DecisionStatistics) -> DecisionStatisticsJson {
        let scores = made.scores.iter();
        let bands = made.bands.iter();
        DecisionStatisticsJson {
            pipeline: made.pipeline.clone(),
            decisions: made.decisions.into(),
            actions: by_action(&made.actions),
            labels: made.labels.iter().map(|(class, count)| (class.to_string(), *count)).collect(),
            rules: made.rules.iter().map(RuleStatisticsJson::from).collect(),
            scores: scores
                .map(|(from, sums)| ScoreBinJson { from: *from, decisions: (*sums).into() })
                .collect(),
            probabilities: made.probabilities.iter().map(ProbabilityBinJson::from).collect(),
            bands: bands.map(|(action, at)| BandLineJson { action: *action, at: *at }).collect(),
            moved: made.moved.map(|MovedLine { action, at, to, between }| MovedLineJson {
                action,
                at,
                to,
                between: between.into(),
            }),
            reached: made.reached.map(Timestamp),
            looked_at: made.looked_at,
            damaged: made.skipped.stretches,
            absent: Vec::new(),
        }
    }
}

/// Decisions of a pipeline over time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = DecisionCounts)]
pub struct DecisionCountsJson {
    /// The pipeline.
    pub pipeline: String,
    /// The width of a bucket.
    pub width: Length,
    /// The buckets in which there is something, oldest first.
    pub buckets: Vec<CountBucketJson>,
    /// The nodes whose decisions are missing, as they do not answer: `3 (mail-3)`. Absent where all do.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub absent: Vec<String>,
}

/// Decisions of a part of the time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = CountBucket)]
pub struct CountBucketJson {
    /// The beginning.
    pub start: Timestamp,
    /// The number of decisions.
    pub decisions: u64,
    /// The decisions by action.
    pub actions: BTreeMap<String, u64>,
    /// The number of times that each rule fired enforced, if asked for.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub rules: BTreeMap<String, u64>,
    /// The number of times that each rule fired in shadow, if asked for.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub shadow: BTreeMap<String, u64>,
    /// The judgements that were said in this time, by class.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, u64>,
}

impl DecisionCountsJson {
    /// The counts, with those of the rules that `is_shown` names.
    pub fn new(series: &DecisionSeries, is_shown: impl Fn(&str) -> bool) -> DecisionCountsJson {
        let buckets = series.buckets.iter().map(|bucket| {
            let fired = |place: usize| {
                let rules = bucket.rules.iter().filter(|(rule, fired)| fired[place] > 0 && is_shown(rule));
                rules.map(|(rule, fired)| (rule.clone(), fired[place])).collect()
            };
            CountBucketJson {
                start: Timestamp(bucket.start),
                decisions: bucket.actions.iter().sum(),
                actions: by_action(&bucket.actions),
                rules: fired(0),
                shadow: fired(1),
                labels: bucket.labels.clone(),
            }
        });
        let buckets = buckets.collect();
        DecisionCountsJson {
            pipeline: series.pipeline.clone(),
            width: Length(series.width),
            buckets,
            absent: Vec::new(),
        }
    }
}

/// The facts that decisions have in common, and others before them have not.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = CommonFacts)]
pub struct CommonFactsJson {
    /// The pipeline.
    pub pipeline: String,
    /// Decisions that were looked at, the newest that fit.
    pub decisions: u64,
    /// Others from before that they were held against.
    pub others: u64,
    /// The facts, those first by which the decisions differ most from the others.
    pub facts: Vec<CommonFactJson>,
    /// True if fewer decisions were looked at than were wanted, as reading took too long.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub partial: bool,
    /// Stretches of the journal that are damaged and were passed over.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub damaged: u64,
    /// The nodes whose decisions are missing, as they do not answer: `3 (mail-3)`. Absent where all do.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub absent: Vec<String>,
}

/// A value of a fact that decisions have in common.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = CommonFact)]
pub struct CommonFactJson {
    /// The fact.
    pub fact: String,
    /// Its value; of a list an item.
    pub value: serde_json::Value,
    /// The condition of a rule that is true of events with it.
    pub condition: String,
    /// Decisions that have it.
    pub count: u64,
    /// Others from before that have it.
    pub before: u64,
}

impl From<&CommonFacts> for CommonFactsJson {
    fn from(found: &CommonFacts) -> CommonFactsJson {
        let fact = |of: &CommonFact| CommonFactJson {
            fact: of.fact.clone(),
            value: json_value(&of.value),
            condition: of.condition.clone(),
            count: of.count,
            before: of.before,
        };
        CommonFactsJson {
            pipeline: found.pipeline.clone(),
            decisions: found.decisions,
            others: found.others,
            facts: found.facts.iter().map(fact).collect(),
            partial: found.is_partial,
            damaged: found.skipped.stretches,
            absent: Vec::new(),
        }
    }
}
