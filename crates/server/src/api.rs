//! The JSON of the HTTP interface: what clients read and write, apart from what the engine holds.
//!
//! These shapes are a promise: members may be added, but none is renamed, retyped or taken away within `/v1`. Times
//! are RFC 3339 in UTC, spans are text such as `1h` or `14d`, shingles are 16 hexadecimal digits. A member that has
//! no value is left out. Counts are 64-bit and written as plain numbers.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use event::{Span, Time, Value};
use journal::json_value;
use judge::{Action, Effect};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use utoipa::ToSchema;
use utoipa::openapi::schema::{ObjectBuilder, Type};

mod limits;

pub use limits::*;

/// Implements a type that JSON writes as the text that it prints.
macro_rules! text {
    ($(#[$meta:meta])* $name:ident($inner:ty) $($format:ident)?) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ToSchema)]
        #[schema(value_type = String $(, format = $format)?)]
        pub struct $name(pub $inner);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }

        impl From<$inner> for $name {
            fn from(inner: $inner) -> $name {
                $name(inner)
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(&self.0)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<$name, D::Error> {
                let text = String::deserialize(deserializer)?;
                <$inner>::from_str(&text).map($name).map_err(de::Error::custom)
            }
        }
    };
}

text! {
    /// A point in time, RFC 3339 in UTC.
    Timestamp(Time) DateTime
}

text! {
    /// A length of time, such as `10m`, `1h` or `14d`.
    Length(Span)
}

fn action_schema() -> utoipa::openapi::schema::Object {
    ObjectBuilder::new()
        .schema_type(Type::String)
        .enum_values(Some(Action::ALL.map(Action::name)))
        .description(Some("What the caller is asked to do"))
        .build()
}

/// The decision about an event.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Decision)]
pub struct DecisionJson {
    /// Its name, for feedback and for `GET /v1/decisions/{id}`; 13 characters.
    pub id: String,
    /// The caller's name for the event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event_id: Option<String>,
    /// The pipeline that decided.
    pub pipeline: String,
    /// Its version: changes whenever something changes that verdicts depend on.
    pub version: String,
    /// The time of the event.
    pub time: Timestamp,
    /// The action that the caller is asked to take.
    #[schema(schema_with = action_schema)]
    pub action: Action,
    /// The sum of the scores of the reasons.
    pub score: f64,
    /// The next band above the score.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<NextBandJson>,
    /// An event of this id had been counted before; this one was judged, and not counted again.
    pub duplicate: bool,
    /// Statistics could not be had: the event was judged without them and not counted. Absent where all is well.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub uncounted: bool,
    /// The journal could not be written: nobody can ask for this decision later. Absent where all is well.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unlogged: bool,
    /// The reason for an event without a decision: no place was free, or the time was over. The action is then what the
    /// pipeline's `on_error` says. Absent where all is well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The rules that fired, the weightiest first.
    pub reasons: Vec<ReasonJson>,
    /// The rules in shadow that fired. They have no influence.
    pub shadow: Vec<ReasonJson>,
    /// Fields of the event that the pipeline does not know, each with the nearest that it knows; or that it has none that is known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// The next band above a score.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = NextBand)]
pub struct NextBandJson {
    /// The action that it asks for.
    #[schema(schema_with = action_schema)]
    pub action: Action,
    /// The amount that the score lacks to reach it.
    pub distance: f64,
}

/// A rule that fired.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Reason)]
pub struct ReasonJson {
    /// The rule's name.
    pub name: String,
    /// The amount that it added to the score.
    pub score: f64,
    /// The values that it saw, as one line for people.
    pub detail: String,
    /// The values that it saw, by what the rule calls them; `null` where there was none. Long texts and lists are
    /// cut.
    pub values: BTreeMap<String, serde_json::Value>,
}

impl From<&judge::Reason> for ReasonJson {
    fn from(reason: &judge::Reason) -> ReasonJson {
        ReasonJson {
            name: reason.rule.clone(),
            score: reason.score,
            detail: reason.detail.clone(),
            values: seen(&reason.values),
        }
    }
}

impl From<judge::NextBand> for NextBandJson {
    fn from(next: judge::NextBand) -> NextBandJson {
        NextBandJson { action: next.action, distance: next.distance }
    }
}

fn reasons(reasons: &[judge::Reason]) -> Vec<ReasonJson> {
    reasons.iter().map(ReasonJson::from).collect()
}

impl From<&engine::Decision> for DecisionJson {
    fn from(decision: &engine::Decision) -> DecisionJson {
        let verdict = &decision.verdict;
        DecisionJson {
            id: decision.id.to_string(),
            event_id: decision.event_id.clone(),
            pipeline: decision.pipeline.name.clone(),
            version: decision.pipeline.version.clone(),
            time: Timestamp(decision.time),
            action: verdict.action,
            score: verdict.score,
            next: verdict.next.map(NextBandJson::from),
            duplicate: decision.duplicate,
            uncounted: decision.uncounted,
            unlogged: decision.unlogged,
            error: None,
            reasons: reasons(&verdict.reasons),
            shadow: reasons(&verdict.shadow),
            warnings: Vec::new(),
        }
    }
}

/// One line of the answer to a batch, in the order of the batch's lines.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(untagged)]
pub enum BatchLine {
    /// The line's decision.
    Decision(Box<DecisionJson>),
    /// The line was not an event. Nothing was counted for it; the others are not affected.
    Error(BatchError),
}

/// A line of a batch that was not an event.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct BatchError {
    /// The line, counted from 1.
    pub line: usize,
    /// The problem with it.
    pub error: ProblemJson,
}

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
    /// The reputations of its keys, as they were before the event.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reputations: Vec<ReputationJson>,
    /// The reason for shares, closest rules and models that are missing or incomplete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unknown: Option<String>,
    /// Fields of an event that was counted or looked up which the pipeline does not know, or that it has none that it knows.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// An effect that a rule asked for. Labels and counters of an event that had been counted before stay as they are.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Effect)]
pub struct EffectJson {
    /// The rule.
    pub rule: String,
    /// The effect as rules write it.
    pub effect: String,
    /// Its first word: `set`, `lift`, `mark`, `add` or `notify`.
    pub verb: String,
    /// The action that was set or lifted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action: Option<String>,
    /// The kind whose keys were marked or counted.
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
            Effect::Set(action) | Effect::Lift(action) => {
                EffectJson { action: Some(action.to_string()), ..told }
            }
            Effect::Mark { kind, label, lasts } => EffectJson {
                kind: Some(kind.clone()),
                label: Some(label.clone()),
                lasts: Some(lasts.to_string()),
                ..told
            },
            Effect::Add { kind, counter, amount } => EffectJson {
                kind: Some(kind.clone()),
                counter: Some(counter.clone()),
                amount: Some(i64::try_from(*amount).unwrap_or(i64::MAX)),
                ..told
            },
            Effect::AddValue { kind, value, .. } => {
                EffectJson { kind: Some(kind.clone()), amount: Some(*value), ..told }
            }
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
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
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
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = ConditionPart)]
pub struct ConditionPartJson {
    /// The part as the rule has it.
    pub part: String,
    /// The value that it had; absent where it depended on something missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub was: Option<bool>,
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
            others: classifier.others,
        }
    }
}

fn seen(values: &[(String, Option<Value>)]) -> BTreeMap<String, serde_json::Value> {
    let value = |value: &Option<Value>| value.as_ref().map_or(serde_json::Value::Null, json_value);
    values.iter().map(|(name, seen)| (name.clone(), value(seen))).collect()
}

fn missing(parts: &[(String, Option<bool>)]) -> Vec<ConditionPartJson> {
    parts.iter().map(|(part, was)| ConditionPartJson { part: part.clone(), was: *was }).collect()
}

impl From<&engine::ExplainedLimit> for LimitFor {
    fn from(limit: &engine::ExplainedLimit) -> LimitFor {
        LimitFor {
            limit: limit.limit.clone(),
            when: limit.when.clone(),
            applied: limit.unmet.is_empty(),
            missing: missing(&limit.unmet),
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
            missing: missing(parts),
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
    /// `exact`, `estimated` or `missing`.
    pub quality: String,
    /// The time of the first count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first: Option<Timestamp>,
    /// The time of the latest count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<Timestamp>,
    /// Counts that are not zero, by counter and then by trailing window.
    pub counts: BTreeMap<String, BTreeMap<String, u64>>,
    /// The values that a track knows of it: `count`, `sum`, `min`, `max` and, by half-life, `decayed_1h`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub values: BTreeMap<String, serde_json::Value>,
}

fn values(values: &[(String, Value)]) -> BTreeMap<String, serde_json::Value> {
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
            reputations: explanation.reputations.iter().map(ReputationJson::from).collect(),
            unknown: explanation.unknown.map(str::to_owned),
            warnings: Vec::new(),
        }
    }
}

/// A reputation of a key, and what made it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Reputation)]
pub struct ReputationJson {
    /// The reputation.
    pub name: String,
    /// The hash of the key's piece.
    pub shingle: String,
    /// From -100 to 100; 0 is unknown.
    pub score: f64,
    /// `bad`, `suspicious`, `unknown`, `known` or `trusted`.
    pub grade: String,
    /// The weight of what outcomes said.
    pub evidence: f64,
    /// The reasons of the score.
    pub reasons: Vec<ReputationReasonJson>,
}

/// A part of a reputation's score.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = ReputationReason)]
pub struct ReputationReasonJson {
    /// The part, or another reputation.
    pub part: String,
    /// `outcome`, `verdict`, `inherited` or `included`.
    pub source: String,
    /// The amount that was counted, halved for each half-life; or the score of the other reputation.
    pub amount: f64,
    /// Points that it adds to the score, before the score's bounds.
    pub adds: f64,
}

impl From<&engine::ExplainedReputation> for ReputationJson {
    fn from(reputation: &engine::ExplainedReputation) -> ReputationJson {
        let reasons = reputation.reasons.iter().map(|reason| ReputationReasonJson {
            part: reason.part.clone(),
            source: reason.source.to_owned(),
            amount: reason.amount,
            adds: reason.adds,
        });
        ReputationJson {
            name: reputation.name.clone(),
            shingle: reputation.shingle.to_string(),
            score: reputation.score,
            grade: reputation.grade.name().to_owned(),
            evidence: reputation.evidence,
            reasons: reasons.collect(),
        }
    }
}

/// All that is kept of one key. A key that was never seen, or is forgotten, has no times and no tiers; neither has one
/// that is not admitted yet, whose quality is `estimated`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Timeline)]
pub struct TimelineJson {
    /// The pipeline.
    pub pipeline: String,
    /// The kind, or the distinct count.
    pub kind: String,
    /// The piece that was asked for, as it is hashed.
    pub piece: String,
    /// Its hash.
    pub shingle: String,
    /// `exact`, `estimated` or `missing`.
    #[serde(default = "exact")]
    pub quality: String,
    /// The time of the first count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first: Option<Timestamp>,
    /// The time of the latest count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<Timestamp>,
    /// The values that a track knows of it: `count`, `sum`, `min`, `max` and, by half-life, `decayed_1h`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub values: BTreeMap<String, serde_json::Value>,
    /// The reputations of the key, without those of what belongs to it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reputations: Vec<ReputationJson>,
    /// The counters, in the order of the configuration.
    pub counters: Vec<String>,
    /// The counts in the trailing windows that rules read, up to now.
    pub windows: Vec<WindowJson>,
    /// Its buckets by width, the coarse ones first. No count is in two.
    pub tiers: Vec<TierJson>,
}

fn exact() -> String {
    stats::Quality::Exact.to_string()
}

/// The counts in a trailing window.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Window)]
pub struct WindowJson {
    /// The length of the window.
    pub window: Length,
    /// Counts that are not zero, by counter.
    pub counts: BTreeMap<String, u64>,
}

/// The buckets of one width.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Tier)]
pub struct TierJson {
    /// The length of each bucket.
    pub width: Length,
    /// The buckets that are not empty, oldest first.
    pub buckets: Vec<BucketJson>,
}

/// The counts in a stretch of time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Bucket)]
pub struct BucketJson {
    /// The start of the bucket.
    pub start: Timestamp,
    /// Counts that are not zero, by counter.
    pub counts: BTreeMap<String, u64>,
}

impl TimelineJson {
    /// Gives the engine's answer its form.
    pub fn new(pipeline: &str, kind: &str, known: &engine::KeyTimeline) -> TimelineJson {
        let named = |counts: &[u64]| named(&known.counters, counts);
        let mut tiers: Vec<TierJson> = Vec::new();
        for bucket in known.timeline.iter().flat_map(|timeline| &timeline.buckets) {
            let entry = BucketJson { start: Timestamp(bucket.start), counts: named(&bucket.counts) };
            match tiers.iter_mut().find(|tier| tier.width.0 == bucket.width) {
                Some(tier) => tier.buckets.push(entry),
                None => tiers.push(TierJson { width: Length(bucket.width), buckets: vec![entry] }),
            }
        }
        TimelineJson {
            pipeline: pipeline.to_owned(),
            kind: kind.to_owned(),
            piece: known.piece.clone(),
            shingle: known.shingle.to_string(),
            quality: known.quality.to_string(),
            values: values(&known.values),
            reputations: known.reputations.iter().map(ReputationJson::from).collect(),
            first: known.timeline.as_ref().map(|timeline| Timestamp(timeline.first)),
            last: known.timeline.as_ref().map(|timeline| Timestamp(timeline.last)),
            counters: known.counters.clone(),
            windows: windows(&known.counters, &known.windows),
            tiers,
        }
    }
}

/// The keys that are asked for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = ReadingsRequest)]
pub struct ReadingsRequest {
    /// The pipeline; the first of the configuration if none is named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pipeline: Option<String>,
    /// The keys, at most 1000.
    pub keys: Vec<KeyNameJson>,
}

/// A key that is asked for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = KeyName)]
pub struct KeyNameJson {
    /// The kind, or the distinct count.
    pub kind: String,
    /// The value, as it stands in events; of a key of several fields the JSON array of theirs, as a text.
    pub value: String,
}

/// The counts of many keys.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Readings)]
pub struct ReadingsJson {
    /// The pipeline.
    pub pipeline: String,
    /// The keys, in the order in which they were asked for.
    pub keys: Vec<KeyStatisticsJson>,
}

/// The counts of a key. One that was never seen, or is forgotten, has no times.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = KeyStatistics)]
pub struct KeyStatisticsJson {
    /// The kind, or the distinct count.
    pub kind: String,
    /// The piece that was asked for, as it is hashed.
    pub piece: String,
    /// Its hash.
    pub shingle: String,
    /// `exact`, `estimated` or `missing`.
    pub quality: String,
    /// The time of its first event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first: Option<Timestamp>,
    /// The time of its newest event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<Timestamp>,
    /// The values that a track knows of it: `count`, `sum`, `min`, `max` and, by half-life, `decayed_1h`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub values: BTreeMap<String, serde_json::Value>,
    /// The counts in the trailing windows that rules read, up to now.
    pub windows: Vec<WindowJson>,
}

impl KeyStatisticsJson {
    /// Gives the engine's answer its form.
    pub fn new(kind: &str, known: &engine::KeyStatistics) -> KeyStatisticsJson {
        KeyStatisticsJson {
            kind: kind.to_owned(),
            piece: known.piece.clone(),
            shingle: known.shingle.to_string(),
            quality: known.quality.to_string(),
            first: known.first.map(Timestamp),
            last: known.last.map(Timestamp),
            values: values(&known.values),
            windows: windows(&known.counters, &known.windows),
        }
    }
}

/// Counts that are not zero, by counter.
fn named(counters: &[String], counts: &[u64]) -> BTreeMap<String, u64> {
    let counts = counters.iter().zip(counts).filter(|(_, count)| **count > 0);
    counts.map(|(counter, count)| (counter.clone(), *count)).collect()
}

/// Trailing windows with their counts by name.
fn windows(counters: &[String], windows: &[(Span, Vec<u64>)]) -> Vec<WindowJson> {
    let window = |(window, sums): &(Span, Vec<u64>)| WindowJson {
        window: Length(*window),
        counts: named(counters, sums),
    };
    windows.iter().map(window).collect()
}

/// The keys with the worst or the best reputations.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = RankedReputations)]
pub struct RankedReputationsJson {
    /// The pipeline.
    pub pipeline: String,
    /// The reputation.
    pub reputation: String,
    /// `worst` or `best`.
    pub order: String,
    /// Only keys of which something was counted within so long.
    pub within: Length,
    /// The keys, the worst or the best first.
    pub keys: Vec<RankedReputationJson>,
}

/// A key with its reputation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = RankedReputation)]
pub struct RankedReputationJson {
    /// Its piece, if a recent decision shows it: statistics keep hashes only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub piece: Option<String>,
    /// Its reputation; what it inherits is known where the piece is.
    #[serde(flatten)]
    pub reputation: ReputationJson,
}

impl From<&engine::RankedReputation> for RankedReputationJson {
    fn from(ranked: &engine::RankedReputation) -> RankedReputationJson {
        let reputation = ReputationJson::from(&ranked.reputation);
        RankedReputationJson { piece: ranked.piece.clone(), reputation }
    }
}

/// The keys of a kind that are hottest now.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = TopKeys)]
pub struct TopKeysJson {
    /// The pipeline.
    pub pipeline: String,
    /// The kind.
    pub kind: String,
    /// The counter that is read.
    pub counter: String,
    /// Over which trailing window.
    pub window: Length,
    /// The keys, the hottest first.
    pub keys: Vec<HotKeyJson>,
}

/// A hot key.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = HotKey)]
pub struct HotKeyJson {
    /// Its piece, if a recent decision shows it: statistics keep hashes only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub piece: Option<String>,
    /// Its hash.
    pub shingle: String,
    /// Its count.
    pub count: u64,
}

impl From<&engine::HotKey> for HotKeyJson {
    fn from(hot: &engine::HotKey) -> HotKeyJson {
        HotKeyJson { piece: hot.piece.clone(), shingle: hot.shingle.to_string(), count: hot.count }
    }
}

/// The feedback that somebody gives on a past decision.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Feedback)]
pub struct FeedbackJson {
    /// The decision.
    pub id: String,
    /// The feedback: one of the pipeline's feedback classes; `none` takes back earlier feedback.
    pub class: String,
    /// The reporter, e.g. an address; without one it is the operator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 256)]
    pub by: Option<String>,
}

/// The effect of feedback or learning.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = FeedbackOutcome)]
pub struct FeedbackOutcomeJson {
    /// The subject of the feedback: the decision's id; when learning, the event's id or else the SHA-256 of the body.
    pub id: String,
    /// The feedback class that was given.
    pub class: String,
    /// Keys whose counters went up.
    pub keys: usize,
    /// Tokens of which classifiers know something else now.
    #[serde(default)]
    pub tokens: usize,
    /// True if the same feedback had been given before, and was not counted again.
    pub duplicate: bool,
    /// The amount by which each counter went up.
    pub weight: u8,
    /// True if the feedback was more than a reporter may give in a day, and counts nothing.
    pub limited: bool,
    /// The degree to which the reporter is believed: `operator`, `new`, `trusted` or `distrusted`.
    pub standing: String,
    /// The feedback that the same reporter had given on the same before, and that was taken back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replaced: Option<String>,
    /// Warnings about learning: fields of the event that the pipeline does not know, or an event with none that it knows.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// One line of the answer to a batch of feedback, in the order of its lines.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(untagged)]
pub enum FeedbackLine {
    /// The outcome of the line.
    Outcome(FeedbackOutcomeJson),
    /// The line could not be taken in. The others are not affected.
    Error(BatchError),
}

impl FeedbackOutcomeJson {
    /// Returns the outcome of the feedback `class` on `id`.
    pub fn new(id: String, class: String, outcome: engine::FeedbackOutcome) -> FeedbackOutcomeJson {
        let engine::FeedbackOutcome { keys, tokens, duplicate, weight, limited, standing, replaced } =
            outcome;
        let standing = standing.name().to_owned();
        FeedbackOutcomeJson {
            id,
            class,
            keys,
            tokens,
            duplicate,
            weight,
            limited,
            standing,
            replaced,
            warnings: Vec::new(),
        }
    }
}

/// The effect of a mail in which mail was reported.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = MailReport)]
pub struct MailReportJson {
    /// The reporter.
    pub by: String,
    /// The feedback class; missing where a feedback report says nothing of the kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<String>,
    /// The outcome for each reported mail, by the id of its decision, or else the SHA-256 of the mail.
    pub feedback: Vec<FeedbackOutcomeJson>,
}

/// A copy of the data directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Snapshot)]
pub struct SnapshotJson {
    /// Its name in the `snapshots` of the data directory, made of the time.
    pub name: String,
}

/// The state of the node: whether it is alive or ready.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Health)]
pub struct HealthJson {
    /// `ok`, or `degraded` if the node answers although something is wrong; a node that does not answer says so by a
    /// [`Problem`].
    pub status: String,
    /// Version of the program.
    pub version: String,
    /// The conditions that are wrong now, by name; only `/readyz` gives them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<ConditionJson>,
}

/// A fault of the node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Condition)]
pub struct ConditionJson {
    /// Its name, as the metric `tollhouse_condition` has it.
    pub name: String,
    /// The description of what is wrong, where, and the mend.
    pub detail: String,
}

impl From<engine::NodeCondition> for ConditionJson {
    fn from(condition: engine::NodeCondition) -> ConditionJson {
        ConditionJson { name: condition.name.to_owned(), detail: condition.detail }
    }
}

/// The pipelines that the node runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Pipelines)]
pub struct PipelinesJson {
    /// The pipelines; the first answers where none is named.
    pub pipelines: Vec<PipelineJson>,
}

/// One stream's way from event to verdict.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Pipeline)]
pub struct PipelineJson {
    /// Its name.
    pub name: String,
    /// Changes whenever something changes that verdicts depend on.
    pub version: String,
    /// The input that it reads: `message`, `access-log` or `json`.
    pub input: String,
    /// The kinds of pieces that it counts.
    pub kinds: Vec<KindJson>,
    /// The things of which it counts distinct values.
    pub distincts: Vec<DistinctJson>,
    /// The bands of the score, ascending. Below the first is `accept`.
    pub bands: Vec<BandJson>,
    /// Its rules.
    pub rules: Vec<RuleJson>,
    /// The classes of feedback that it takes.
    pub feedback: Vec<String>,
}

impl From<&plan::Pipeline> for PipelineJson {
    fn from(pipeline: &plan::Pipeline) -> PipelineJson {
        let kinds = pipeline.kinds.iter().map(|plan| KindJson {
            name: plan.name.clone(),
            number: plan.kind.0,
            of: TextsJson::of(plan.fields.as_slice(), |field| {
                pipeline.schema.column(field.slot).name.clone()
            }),
            normalise: TextsJson::of(plan.fields.as_slice(), |field| field.normalise.to_string()),
            counters: plan.counters.as_slice().to_vec(),
            windows: plan.windows.iter().copied().map(Length).collect(),
            track: plan.aggregate_names(),
        });
        let distincts = pipeline.distincts.iter();
        let bands = pipeline.rules.bands().as_slice().iter();
        let rules = pipeline.rules.rules().iter().map(|rule| RuleJson {
            name: rule.name.clone(),
            score: rule.score,
            mode: rule.mode.name().to_owned(),
            description: rule.description.clone(),
        });
        PipelineJson {
            name: pipeline.name.clone(),
            version: pipeline.version.clone(),
            input: pipeline.input.name().to_owned(),
            kinds: kinds.collect(),
            distincts: distincts
                .map(|plan| DistinctJson {
                    name: plan.name.clone(),
                    number: plan.kind.0,
                    precision: plan.precision,
                })
                .collect(),
            bands: bands.map(|band| BandJson { at: band.at, action: band.action }).collect(),
            rules: rules.collect(),
            feedback: pipeline.feedback.keys().cloned().collect(),
        }
    }
}

/// A kind of piece.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Kind)]
pub struct KindJson {
    /// Its name.
    pub name: String,
    /// The number that is stored with its keys.
    pub number: u16,
    /// The fact that its pieces are taken from; a list of facts for keys of several.
    pub of: TextsJson,
    /// The normalisation of pieces before they are hashed, as a list where `of` is one. Networks are `network/16/48`, by the
    /// lengths of their prefixes.
    pub normalise: TextsJson,
    /// The counters of each piece; empty if nothing is counted, or if it has a track.
    pub counters: Vec<String>,
    /// The trailing windows that its readings carry.
    pub windows: Vec<Length>,
    /// The values that its track keeps: `first`, `last`, `count`, `sum`, `min`, `max` and, by half-life, `decayed_1h`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub track: Vec<String>,
}

/// A text, or a list of several.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(untagged)]
#[schema(as = Texts)]
pub enum TextsJson {
    /// One.
    One(String),
    /// Several.
    Several(Vec<String>),
}

impl TextsJson {
    fn of<T>(items: &[T], text: impl Fn(&T) -> String) -> TextsJson {
        match items {
            [item] => TextsJson::One(text(item)),
            items => TextsJson::Several(items.iter().map(text).collect()),
        }
    }
}

/// A distinct count.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Distinct)]
pub struct DistinctJson {
    /// Its name.
    pub name: String,
    /// The number that is stored with its keys.
    pub number: u16,
    /// The precision of an approximate count; an exact one has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub precision: Option<u8>,
}

/// From a score of `at` on, `action` is asked for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Band)]
pub struct BandJson {
    /// The lowest score of the band.
    pub at: f64,
    /// The action that is asked for.
    #[schema(schema_with = action_schema)]
    pub action: Action,
}

/// A rule.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Rule)]
pub struct RuleJson {
    /// Its name.
    pub name: String,
    /// The score that is added where it fires.
    pub score: f64,
    /// `enforce`, `shadow` or `off`.
    pub mode: String,
    /// The description of what it is about.
    pub description: String,
}

/// An error, as RFC 9457 writes it (`application/problem+json`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Problem)]
pub struct ProblemJson {
    /// `urn:tollhouse:problem:` and a stable word to tell problems by.
    #[serde(rename = "type")]
    pub kind: String,
    /// The kind of the problem; the same for all of one type.
    pub title: String,
    /// The HTTP status. In the lines of a batch, the one that the line alone would have got.
    pub status: u16,
    /// The description of what is wrong here, and where.
    pub detail: String,
    /// The advice on what to do about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub help: Option<String>,
    /// Every mistake in a configuration that was refused.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<DiagnosticJson>,
}

/// A mistake in a configuration, or something suspicious about it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Diagnostic)]
pub struct DiagnosticJson {
    /// `error` or `warning`.
    pub severity: String,
    /// The name of the file, without its folder; `posted rules` or `candidate` for a text that was sent.
    pub file: String,
    /// The line, counted from 1.
    pub line: usize,
    /// The column, counted from 1 in characters.
    pub column: usize,
    /// The description of what is wrong.
    pub message: String,
    /// The advice on what to do about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub help: Option<String>,
}

impl From<&plan::ConfigProblem> for DiagnosticJson {
    fn from(problem: &plan::ConfigProblem) -> DiagnosticJson {
        let (line, column) = problem.origin.line_column();
        // Where the node's files lie is for its log.
        let file = problem.origin.source.name.rsplit('/').next().unwrap_or_default().to_owned();
        DiagnosticJson {
            severity: problem.severity.name().to_owned(),
            file,
            line,
            column,
            message: problem.message.clone(),
            help: problem.help.clone(),
        }
    }
}

/// The text that stands over the file of a pipeline, and the versions that can be gone back to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Rules)]
pub struct RulesJson {
    /// The pipeline.
    pub pipeline: String,
    /// The version in force, which every decision names.
    pub version: String,
    /// True if a kept version is in force that was gone back to, and not what file and posted text say.
    pub back: bool,
    /// The text that is laid over the file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub posted: Option<String>,
    /// The version that the pipeline would have with its candidate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub candidate: Option<String>,
    /// The versions that were in force, the newest first, each once.
    pub versions: Vec<VersionJson>,
}

/// A version that can be gone back to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Version)]
pub struct VersionJson {
    /// Its name.
    pub version: String,
    /// The time at which it was last put in force; left out if that was at a start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// The origin of the change: `start`, `files`, `post`, `promote` or `back`.
    pub by: String,
}

impl From<&engine::RulesInfo> for RulesJson {
    fn from(info: &engine::RulesInfo) -> RulesJson {
        let versions = info.versions.iter().map(|version| VersionJson {
            version: version.version.clone(),
            since: version.since.map(Timestamp),
            by: version.by.clone(),
        });
        RulesJson {
            pipeline: info.pipeline.clone(),
            version: info.version.clone(),
            back: info.back,
            posted: info.posted.clone(),
            candidate: info.candidate.clone(),
            versions: versions.collect(),
        }
    }
}

/// The effect that a change of rules had, or would have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = ReloadOutcome)]
pub struct ReloadOutcomeJson {
    /// A trial run: nothing was changed.
    pub dry_run: bool,
    /// The pipelines that are judged otherwise; none if all is as it was.
    pub changes: Vec<PipelineChangeJson>,
    /// The warnings of what is suspicious about the configuration.
    pub warnings: Vec<DiagnosticJson>,
    /// Sections of the node whose settings have changed, and are heeded by a restart only.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub restart: Vec<String>,
}

/// The change in how a pipeline is judged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = PipelineChange)]
pub struct PipelineChangeJson {
    /// The pipeline.
    pub pipeline: String,
    /// Its version before; left out for a pipeline that is new.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
    /// Its version now; left out for a pipeline that is gone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// The version that it would have with its candidate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub candidate: Option<String>,
    /// Entries that are new, such as `rule.NAME` or `constants.bulk`.
    pub added: Vec<String>,
    /// Entries that are gone.
    pub removed: Vec<String>,
    /// Entries that say something else.
    pub changed: Vec<String>,
    /// Kinds that are counted from now on.
    pub counted: Vec<String>,
}

impl ReloadOutcomeJson {
    /// Returns the outcome that the engine gives of a change.
    pub fn new(reloaded: &engine::ReloadOutcome, dry_run: bool) -> ReloadOutcomeJson {
        let changes = reloaded.changes.iter().cloned().map(|change| PipelineChangeJson {
            pipeline: change.pipeline,
            before: change.before,
            after: change.after,
            candidate: change.candidate,
            added: change.added,
            removed: change.removed,
            changed: change.changed,
            counted: change.counted,
        });
        ReloadOutcomeJson {
            dry_run,
            changes: changes.collect(),
            warnings: reloaded.warnings.list().iter().map(DiagnosticJson::from).collect(),
            restart: reloaded.restart.iter().map(|section| (*section).to_owned()).collect(),
        }
    }
}

/// The version to go back to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RollbackRequest {
    /// The version, or as much of its beginning as no other has.
    pub version: String,
    /// The pipeline; the first of the configuration if none is named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pipeline: Option<String>,
}

/// The comparison of a candidate with what is enforced, since either was changed or the node was started.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Comparison)]
pub struct ComparisonJson {
    /// The pipeline.
    pub pipeline: String,
    /// The version that is enforced.
    pub version: String,
    /// The version that it would have with the candidate.
    pub candidate: String,
    /// Events that both judged.
    pub events: u64,
    /// Events for which they ask for different actions.
    pub disagreements: u64,
    /// `disagreements / events`; 0 without events.
    pub rate: f64,
    /// Events for which they ask for the same action by different scores.
    pub rescored: u64,
    /// The number of times for each pair of actions, one enforced and one that the candidate asked for: by the enforced
    /// action, then the candidate's.
    pub actions: BTreeMap<String, BTreeMap<String, u64>>,
    /// The latest events for which they disagree, the newest first.
    pub examples: Vec<DisagreementJson>,
}

/// An event for which enforced rules and candidate ask for different actions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Disagreement)]
pub struct DisagreementJson {
    /// The decision's name, for `GET /v1/decisions/{id}`.
    pub id: String,
    /// The caller's name for the event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event_id: Option<String>,
    /// The time of the event.
    pub time: Timestamp,
    /// The verdict that was enforced.
    pub enforced: ComparedVerdictJson,
    /// The verdict of the candidate.
    pub candidate: ComparedVerdictJson,
}

/// The verdict of rules on an event.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = ComparedVerdict)]
pub struct ComparedVerdictJson {
    /// The action.
    #[schema(schema_with = action_schema)]
    pub action: Action,
    /// The score.
    pub score: f64,
    /// Rules that fired, at most 32.
    pub rules: Vec<String>,
}

impl From<&engine::ComparedVerdict> for ComparedVerdictJson {
    fn from(judged: &engine::ComparedVerdict) -> ComparedVerdictJson {
        ComparedVerdictJson { action: judged.action, score: judged.score, rules: judged.rules.clone() }
    }
}

impl From<&engine::CandidateComparison> for ComparisonJson {
    fn from(comparison: &engine::CandidateComparison) -> ComparisonJson {
        let mut actions: BTreeMap<String, BTreeMap<String, u64>> = BTreeMap::new();
        for (enforced, candidate, count) in &comparison.actions {
            actions.entry(enforced.to_string()).or_default().insert(candidate.to_string(), *count);
        }
        let examples = comparison.examples.iter().map(|example| DisagreementJson {
            id: example.id.to_string(),
            event_id: example.event_id.clone(),
            time: Timestamp(example.time),
            enforced: ComparedVerdictJson::from(&example.enforced),
            candidate: ComparedVerdictJson::from(&example.candidate),
        });
        ComparisonJson {
            pipeline: comparison.pipeline.clone(),
            version: comparison.version.clone(),
            candidate: comparison.candidate.clone(),
            events: comparison.events,
            disagreements: comparison.disagreements,
            rate: comparison.disagreements as f64 / comparison.events.max(1) as f64,
            rescored: comparison.rescored,
            actions,
            examples: examples.collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use event::Shingle;
    use serde_json::json;

    use super::*;

    #[test]
    fn values_become_natural_json() {
        let check = |value: Value, expected: serde_json::Value| assert_eq!(json_value(&value), expected);
        check(Value::from("a\n"), json!("a\n"));
        check(Value::Integer(i64::MIN), json!(i64::MIN));
        check(Value::Float(0.5), json!(0.5));
        check(Value::Float(f64::NAN), json!(null));
        check(Value::Bool(true), json!(true));
        check(Value::Time(Time::from_millis(1_431_857_103_500)), json!("2015-05-17T10:05:03.5Z"));
        check(Value::Ip("2001:db8::1".parse().unwrap()), json!("2001:db8::1"));
        check(Value::Bytes(Box::new([0, 255])), json!("00ff"));
        check(Value::from(vec!["a".to_owned(), "b".to_owned()]), json!(["a", "b"]));
    }

    #[test]
    fn a_timeline_is_cut_into_its_tiers() {
        let bucket =
            |start, width, counts| stats::TimelineBucket { start: Time::from_seconds(start), width, counts };
        let timeline = stats::Timeline {
            counters: vec!["seen".to_owned(), "spam".to_owned()],
            first: Time::from_seconds(10),
            last: Time::from_seconds(86_999),
            buckets: vec![
                bucket(0, Span::days(1), vec![3, 1]),
                bucket(86_400, Span::minutes(10), vec![1, 0]),
                bucket(87_000, Span::minutes(10), vec![2, 2]),
            ],
        };
        let known = engine::KeyTimeline {
            piece: "ann@example.org".to_owned(),
            shingle: Shingle(7),
            counters: timeline.counters.clone(),
            windows: vec![(Span::hours(1), vec![2, 0])],
            values: vec![("max".to_owned(), Value::Integer(7))],
            quality: stats::Quality::Exact,
            reputations: Vec::new(),
            timeline: Some(timeline),
        };
        let written = serde_json::to_value(TimelineJson::new("mail", "from", &known)).unwrap();
        assert_eq!(
            written,
            json!({
                "pipeline": "mail",
                "kind": "from",
                "piece": "ann@example.org",
                "shingle": "0000000000000007",
                "quality": "exact",
                "values": {"max": 7},
                "first": "1970-01-01T00:00:10Z",
                "last": "1970-01-02T00:09:59Z",
                "counters": ["seen", "spam"],
                "windows": [{"window": "1h", "counts": {"seen": 2}}],
                "tiers": [
                    {"width": "1d", "buckets": [{"start": "1970-01-01T00:00:00Z", "counts": {"seen": 3, "spam": 1}}]},
                    {"width": "10m", "buckets": [
                        {"start": "1970-01-02T00:00:00Z", "counts": {"seen": 1}},
                        {"start": "1970-01-02T00:10:00Z", "counts": {"seen": 2, "spam": 2}},
                    ]},
                ],
            })
        );
        assert_eq!(
            serde_json::from_value::<TimelineJson>(written).unwrap(),
            TimelineJson::new("mail", "from", &known)
        );
    }

    #[test]
    fn both_kinds_of_batch_lines_read_back() {
        let check = |text: &str, is_error: bool| {
            let line: BatchLine = serde_json::from_str(text).unwrap();
            assert_eq!(matches!(line, BatchLine::Error(_)), is_error, "{text}");
            assert_eq!(serde_json::to_string(&line).unwrap(), text);
        };
        check(
            r#"{"id":"0000000000001","pipeline":"web","version":"00","time":"2026-05-17T10:00:00Z","action":"review","score":3.0,"next":{"action":"challenge","distance":2.0},"duplicate":false,"reasons":[{"name":"PROBE","score":3.0,"detail":"http.probe = true","values":{"http.probe":true}}],"shadow":[]}"#,
            false,
        );
        check(
            r#"{"line":7,"error":{"type":"urn:tollhouse:problem:invalid-event","title":"t","status":422,"detail":"d"}}"#,
            true,
        );
    }
}
