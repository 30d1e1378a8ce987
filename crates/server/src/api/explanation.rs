//! Explanations of decisions in JSON.

use std::collections::BTreeMap;

use event::Value;
use journal::json_value;
use judge::{Action, Effect};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::decision::{reasons, seen};
use super::{BandJson, NextBandJson, ReasonJson, ReputationJson, Timestamp, action_schema};

/// A past decision with everything that it was made of, or an event that was only counted or looked up; the latter
/// has no id, no action and no score.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Explanation)]
pub struct ExplanationJson {
    /// The decision's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The caller's name for the event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event_id: Option<String>,
    /// The pipeline.
    pub pipeline: String,
    /// Its version at that time.
    pub version: String,
    /// The time of the event.
    pub time: Timestamp,
    /// The time of its arrival.
    pub arrival: Timestamp,
    /// An event of this id had been counted before.
    pub duplicate: bool,
    /// The action that the caller was asked to take.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = action_schema)]
    pub action: Option<Action>,
    /// The sum of the scores of the reasons.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub score: Option<f64>,
    /// The probability that the event is bad, as it was said then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probability: Option<f64>,
    /// The next band above the score.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<NextBandJson>,
    /// The rules that fired, the weightiest first.
    pub reasons: Vec<ReasonJson>,
    /// The rules in shadow that fired.
    pub shadow: Vec<ReasonJson>,
    /// The effects that enforced rules asked for beside their scores, in the order of the rules.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub effects: Vec<EffectJson>,
    /// The description of what each of these rules is about.
    pub rules: BTreeMap<String, String>,
    /// The facts that have a value, by name; readings are among them.
    pub facts: BTreeMap<String, serde_json::Value>,
    /// The keys, with what was known of them before the event.
    pub keys: Vec<KeyReadingJson>,
    /// The amount that each of the reasons adds to the score, by the rule's name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub shares: BTreeMap<String, RuleShareJson>,
    /// Rules that did not fire, those to which the least was missing first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub closest: Vec<NearMissJson>,
    /// The limits that are for some events only, and whether for this one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub limits: Vec<LimitFor>,
    /// The outputs of models, and what moved them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub models: Vec<ModelOutputJson>,
    /// The knowledge that classifiers have by now of the event's tokens.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub classifiers: Vec<ClassifierOutputJson>,
    /// The bands that promise a share of false positives, as they begin now: of how many judged events, and what they find. Where
    /// they began for the event the facts `line.ACTION` say; without them, by default.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bands: Vec<BandJson>,
    /// The reputations of its keys, as they were before the event.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reputations: Vec<ReputationJson>,
    /// The challenge that it asked for, and how this node's challenges for the same reason fare.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub challenge: Option<ChallengeTallyJson>,
    /// The reason for shares, closest rules and models that are missing or incomplete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unknown: Option<String>,
    /// The names of facts that are left out, as the token lacks the scope `read-content`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub withheld: Vec<String>,
    /// Fields of an event that was counted or looked up which the pipeline does not know, or that it has none that it knows.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// A challenge that was asked for, and what came of those that the same rule has asked for since the node was started.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = ChallengeTally)]
pub struct ChallengeTallyJson {
    /// The rule that asked for it; empty where it was no rule.
    pub rule: String,
    /// The work that was asked for, in thousands of iterations of SHA-256.
    pub units: f64,
    /// Challenges of this rule that were issued.
    pub issued: u64,
    /// Challenges that came back solved.
    pub solved: u64,
    /// Challenges that came back with a wrong solution. The others were given up, or are still worked on.
    pub unsolved: u64,
    /// The mean number of seconds from issue to solution.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean_seconds: Option<f64>,
}

impl From<&engine::ExplainedChallenge> for ChallengeTallyJson {
    fn from(explained: &engine::ExplainedChallenge) -> ChallengeTallyJson {
        let engine::ChallengeTally { issued, solved, unsolved, mean_seconds } = explained.tally;
        let (rule, units) = (explained.rule.clone(), explained.units);
        ChallengeTallyJson { rule, units, issued, solved, unsolved, mean_seconds }
    }
}

/// An effect that a rule asked for. Labels and counters of an event that had been counted before stay as they are.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Effect)]
pub struct EffectJson {
    /// The rule.
    pub rule: String,
    /// The effect as rules write it.
    pub effect: String,
    /// Its first word: `set`, `lift`, `mark`, `add`, `clear` or `notify`.
    pub verb: String,
    /// The action that was set or lifted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action: Option<String>,
    /// The kind whose keys were marked, counted or cleared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// The label.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// The time for which it holds, from the event's time on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lasts: Option<String>,
    /// The counter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counter: Option<String>,
    /// The amount by which it went up, or that was added to the aggregate of the keys.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub amount: Option<i64>,
    /// The distinct count whose latest values were marked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub distinct: Option<String>,
    /// The limit that was cleared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<String>,
    /// The one who was notified.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub whom: Option<String>,
}

impl From<&judge::Consequence> for EffectJson {
    fn from(due: &judge::Consequence) -> EffectJson {
        let effect = due.effect.to_string();
        let verb = effect.split(' ').next().unwrap_or_default().to_owned();
        let told = EffectJson { rule: due.rule.clone(), effect, verb, ..EffectJson::default() };
        match &due.effect {
            Effect::Set(action) | Effect::SetUnless { action, .. } | Effect::Lift(action) => {
                EffectJson { action: Some(action.to_string()), ..told }
            }
            Effect::Mark { kind, label, lasts } => EffectJson {
                kind: Some(kind.clone()),
                label: Some(label.clone()),
                lasts: Some(lasts.to_string()),
                ..told
            },
            Effect::MarkBetween { kind, label, least, most } => EffectJson {
                kind: Some(kind.clone()),
                label: Some(label.clone()),
                lasts: Some(format!("{least} to {most}")),
                ..told
            },
            Effect::Add { kind, counter, amount } => EffectJson {
                kind: Some(kind.clone()),
                counter: Some(counter.clone()),
                amount: Some(i64::try_from(*amount).unwrap_or(i64::MAX)),
                ..told
            },
            Effect::Clear { kind, counter } => {
                EffectJson { kind: Some(kind.clone()), counter: Some(counter.clone()), ..told }
            }
            Effect::AddValue { kind, value, .. } | Effect::AddShare { kind, value, .. } => {
                EffectJson { kind: Some(kind.clone()), amount: Some(*value), ..told }
            }
            Effect::MarkContributors { distinct, label, lasts } => EffectJson {
                distinct: Some(distinct.clone()),
                label: Some(label.clone()),
                lasts: Some(lasts.to_string()),
                ..told
            },
            Effect::ClearLimit(limit) => EffectJson { limit: Some(limit.clone()), ..told },
            Effect::Notify(whom) => EffectJson { whom: Some(whom.clone()), ..told },
        }
    }
}

/// The part that a rule adds to the score of a decision.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = RuleShare)]
pub struct RuleShareJson {
    /// Its score, less what the bounds of its group take from it.
    pub counts: f64,
    /// The absolute value over the sum of those of all reasons; 0 to 1.
    pub share: f64,
}

/// A rule that did not fire.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = NearMiss)]
pub struct NearMissJson {
    /// Its name.
    pub name: String,
    /// `enforce` or `shadow`.
    pub mode: String,
    /// Its own score.
    pub score: f64,
    /// The fewest parts of its condition that would have to be otherwise.
    pub missing: Vec<ConditionPartJson>,
    /// The values that it saw, as one line for people.
    pub detail: String,
    /// The values that it saw, by what the rule calls them; `null` where there was none. Long texts and lists are
    /// cut.
    pub values: BTreeMap<String, serde_json::Value>,
    /// The score that there would have been had it fired and all else been the same.
    pub score_with: f64,
    /// The action that the caller would have been asked to take.
    #[schema(schema_with = action_schema)]
    pub action_with: Action,
}

/// A limit that is for some events only.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct LimitFor {
    /// Its name.
    pub limit: String,
    /// The condition under which events take from it.
    pub when: String,
    /// True if the limit applied to this event. If not, the limit took nothing, and rules read it as not over.
    pub applied: bool,
    /// The fewest parts of the condition that would have to be otherwise for it to apply.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<ConditionPartJson>,
}

/// A part of a condition.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = ConditionPart)]
pub struct ConditionPartJson {
    /// The part as the rule has it.
    pub part: String,
    /// The value that it had; absent where it depended on something missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub was: Option<bool>,
    /// The smaller of two compared numbers as a share of the larger: 0.9 for a count of 90 that would have to be 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reached: Option<f64>,
}

/// The output of a model for an event.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = ModelOutput)]
pub struct ModelOutputJson {
    /// The name that rules use for it: the model, or the class or target that it gave most to.
    pub name: String,
    /// The output of the model.
    pub output: f64,
    /// The raw value that this is made of: `expected`, the contributions and `others` together.
    pub raw: f64,
    /// The raw value that is expected of no event in particular.
    pub expected: f64,
    /// The features that moved it most, first the one that did most.
    pub contributions: Vec<Contribution>,
    /// The amount that all other features added.
    pub others: f64,
}

/// The contribution of a feature to a model's raw value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Contribution {
    /// The fact or reading.
    pub feature: String,
    /// Its value; `null` where there was none.
    pub value: serde_json::Value,
    /// The amount that it added: an exact Shapley value.
    pub adds: f64,
}

/// The knowledge that a classifier has of an event's tokens now, which need not be what it knew when it was asked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = ClassifierOutput)]
pub struct ClassifierOutputJson {
    /// Its name.
    pub name: String,
    /// The probability that it gives now.
    pub probability: f64,
    /// The tokens that move it most, first the one that does most.
    pub tokens: Vec<TokenEvidenceJson>,
    /// The log-odds that its linear model of contents gives now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub linear: Option<f64>,
    /// The log-odds that its linear model of this site gives now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub site: Option<f64>,
    /// The amount that all other tokens add to the log-odds.
    pub others: f64,
}

/// The knowledge that a classifier has of a token.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = TokenEvidence)]
pub struct TokenEvidenceJson {
    /// The token: what it is of, how it was cut, and what was cut.
    pub token: String,
    /// Bad events that had it.
    pub bad: i64,
    /// Good events that had it.
    pub good: i64,
    /// The amount that it adds to the log-odds.
    pub adds: f64,
}

impl From<&engine::ExplainedClassifier> for ClassifierOutputJson {
    fn from(classifier: &engine::ExplainedClassifier) -> ClassifierOutputJson {
        let tokens = classifier.tokens.iter().map(|token| TokenEvidenceJson {
            token: token.token.clone(),
            bad: token.bad,
            good: token.good,
            adds: token.adds,
        });
        ClassifierOutputJson {
            name: classifier.name.clone(),
            probability: classifier.probability,
            tokens: tokens.collect(),
            linear: classifier.linear,
            site: classifier.site,
            others: classifier.others,
        }
    }
}

impl From<&judge::UnmetPart> for ConditionPartJson {
    fn from(judge::UnmetPart { part, was, reached }: &judge::UnmetPart) -> ConditionPartJson {
        ConditionPartJson { part: part.clone(), was: *was, reached: *reached }
    }
}

impl From<&engine::ExplainedLimit> for LimitFor {
    fn from(limit: &engine::ExplainedLimit) -> LimitFor {
        LimitFor {
            limit: limit.limit.clone(),
            when: limit.when.clone(),
            applied: limit.unmet.is_empty(),
            missing: limit.unmet.iter().map(ConditionPartJson::from).collect(),
        }
    }
}

impl From<&engine::ExplainedNearMiss> for NearMissJson {
    fn from(close: &engine::ExplainedNearMiss) -> NearMissJson {
        let judge::NearMiss { parts, detail, values, score, action, .. } = &close.miss;
        NearMissJson {
            name: close.rule.clone(),
            mode: close.mode.to_string(),
            score: close.score,
            missing: parts.iter().map(ConditionPartJson::from).collect(),
            detail: detail.clone(),
            values: seen(values),
            score_with: *score,
            action_with: *action,
        }
    }
}

impl From<&engine::ExplainedModel> for ModelOutputJson {
    fn from(model: &engine::ExplainedModel) -> ModelOutputJson {
        let contributions = model.contributions.iter().map(|(feature, value, adds)| Contribution {
            feature: feature.clone(),
            value: value.as_ref().map_or(serde_json::Value::Null, json_value),
            adds: *adds,
        });
        ModelOutputJson {
            name: model.name.clone(),
            output: model.output,
            raw: model.raw,
            expected: model.expected,
            contributions: contributions.collect(),
            others: model.others,
        }
    }
}

fn shares(explanation: &engine::Explanation) -> BTreeMap<String, RuleShareJson> {
    let (Some(verdict), Some(counted)) = (&explanation.verdict, &explanation.counted) else {
        return BTreeMap::new();
    };
    let all: f64 = counted.iter().map(|counts| counts.abs()).sum();
    let share = |counts: f64| if all == 0.0 { 0.0 } else { counts.abs() / all };
    let shares = verdict.reasons.iter().zip(counted);
    shares
        .map(|(reason, counts)| {
            (reason.rule.clone(), RuleShareJson { counts: *counts, share: share(*counts) })
        })
        .collect()
}

/// A key and what was known of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = KeyReading)]
pub struct KeyReadingJson {
    /// The kind, or the distinct count.
    pub kind: String,
    /// The piece as it is hashed, where it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub piece: Option<String>,
    /// Its hash.
    pub shingle: String,
    /// `exact`; `lagging`, if it may lack what other nodes of a cluster added within `[cluster] stale`; `estimated` or
    /// `missing`.
    pub quality: String,
    /// The time of the first count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first: Option<Timestamp>,
    /// The time of the latest count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<Timestamp>,
    /// Counts that are not zero, by counter and then by trailing window.
    pub counts: BTreeMap<String, BTreeMap<String, u64>>,
    /// The values that an aggregate knows of it: `count`, `sum`, `min`, `max` and, by half-life, `decayed_1h`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub values: BTreeMap<String, serde_json::Value>,
}

pub(super) fn values(values: &[(String, Value)]) -> BTreeMap<String, serde_json::Value> {
    values.iter().map(|(name, value)| (name.clone(), json_value(value))).collect()
}

impl From<&engine::ExplainedKey> for KeyReadingJson {
    fn from(key: &engine::ExplainedKey) -> KeyReadingJson {
        let mut counts: BTreeMap<String, BTreeMap<String, u64>> = BTreeMap::new();
        for (counter, window, count) in &key.counts {
            counts.entry(counter.clone()).or_default().insert(window.to_string(), *count);
        }
        KeyReadingJson {
            kind: key.kind.clone(),
            piece: key.piece.clone(),
            shingle: key.shingle.to_string(),
            quality: key.quality.to_string(),
            first: key.first.map(Timestamp),
            last: key.last.map(Timestamp),
            counts,
            values: values(&key.values),
        }
    }
}

impl From<&engine::Explanation> for ExplanationJson {
    fn from(explanation: &engine::Explanation) -> ExplanationJson {
        let verdict = explanation.verdict.as_ref();
        ExplanationJson {
            id: explanation.id.map(|id| id.to_string()),
            event_id: explanation.event_id.clone(),
            pipeline: explanation.pipeline.clone(),
            version: explanation.version.clone(),
            time: Timestamp(explanation.time),
            arrival: Timestamp(explanation.arrival),
            duplicate: explanation.duplicate,
            action: verdict.map(|verdict| verdict.action),
            score: verdict.map(|verdict| verdict.score),
            probability: verdict.map(|verdict| verdict.probability),
            next: verdict.and_then(|verdict| verdict.next).map(NextBandJson::from),
            reasons: verdict.map_or_else(Vec::new, |verdict| reasons(&verdict.reasons)),
            shadow: verdict.map_or_else(Vec::new, |verdict| reasons(&verdict.shadow)),
            effects: verdict
                .map_or_else(Vec::new, |verdict| verdict.effects.iter().map(EffectJson::from).collect()),
            rules: explanation.descriptions.iter().map(|(name, text)| (name.clone(), text.clone())).collect(),
            facts: explanation.facts.iter().map(|(name, value)| (name.clone(), json_value(value))).collect(),
            keys: explanation.keys.iter().map(KeyReadingJson::from).collect(),
            shares: shares(explanation),
            closest: explanation.closest.iter().map(NearMissJson::from).collect(),
            limits: explanation.limits.iter().map(LimitFor::from).collect(),
            models: explanation.models.iter().map(ModelOutputJson::from).collect(),
            classifiers: explanation.classifiers.iter().map(ClassifierOutputJson::from).collect(),
            bands: explanation.lines.iter().map(BandJson::from).collect(),
            reputations: explanation.reputations.iter().map(ReputationJson::from).collect(),
            challenge: explanation.challenge.as_ref().map(ChallengeTallyJson::from),
            unknown: explanation.unknown.clone(),
            withheld: Vec::new(),
            warnings: Vec::new(),
        }
    }
}

/// Returns true if a value says nothing of an event's texts: a number, true or false, or none.
fn is_measure(value: &serde_json::Value) -> bool {
    value.is_number() || value.is_boolean() || value.is_null()
}

impl ExplanationJson {
    /// Leaves out what the event says: facts, pieces of keys, values and tokens that are texts or lists. Numbers stay, and so do
    /// rules, scores and hashes of keys. That is no list of what is private, which a new fact could be missing from: all texts
    /// go.
    pub(crate) fn withhold_content(&mut self) {
        let facts = std::mem::take(&mut self.facts);
        let (shown, withheld): (BTreeMap<_, _>, BTreeMap<_, _>) =
            facts.into_iter().partition(|(_, value)| is_measure(value));
        self.facts = shown;
        self.withheld = withheld.into_keys().collect();
        for key in &mut self.keys {
            key.piece = None;
            key.values.retain(|_, value| is_measure(value));
        }
        for reason in self.reasons.iter_mut().chain(&mut self.shadow) {
            reason.detail.clear();
            reason.values.retain(|_, value| is_measure(value));
        }
        for close in &mut self.closest {
            close.detail.clear();
            close.values.retain(|_, value| is_measure(value));
        }
        for model in &mut self.models {
            for contribution in model.contributions.iter_mut().filter(|one| !is_measure(&one.value)) {
                contribution.value = serde_json::Value::Null;
            }
        }
        for classifier in &mut self.classifiers {
            classifier.tokens.clear();
        }
    }
}
