//! Rules over a row: the score, what it asks for, and why.

use std::collections::HashMap;
use std::fmt;

use event::{Facts, Span, Value};
use serde::{Deserialize, Serialize};

use crate::action::{Action, Bands, Mode, Next};
use crate::condition::{Condition, Read};
use crate::scope::Scope;
use crate::{Diagnostic, compile};

/// A rule as its file has it.
#[derive(Clone, Debug, PartialEq)]
pub struct RuleSource {
    /// The name that reasons give, unique in its set.
    pub name: String,
    /// The condition.
    pub when: String,
    /// What is added to the score where the condition holds; may be negative.
    pub score: f64,
    /// For people.
    pub description: String,
    /// How seriously it is taken.
    pub mode: Mode,
}

/// A rule whose condition was checked and compiled.
#[derive(Debug)]
pub struct Rule {
    /// The name that reasons give, unique in its set.
    pub name: String,
    /// For people.
    pub description: String,
    /// What is added to the score where the condition holds; may be negative.
    pub score: f64,
    /// How seriously it is taken.
    pub mode: Mode,
    /// When it fires.
    pub condition: Condition,
}

impl Rule {
    /// Compiles a rule's condition.
    ///
    /// # Errors
    /// Those of [`compile`], about [`RuleSource::when`].
    pub fn compile(source: RuleSource, scope: &mut dyn Scope) -> Result<Rule, Vec<Diagnostic>> {
        let condition = compile(&source.when, scope)?;
        let RuleSource { name, score, description, mode, .. } = source;
        Ok(Rule { name, description, score, mode, condition })
    }
}

/// Rules that are judged together, and the bands that their score falls into.
#[derive(Debug, Default)]
pub struct RuleSet {
    rules: Vec<Rule>,
    by_name: HashMap<String, usize>,
    bands: Bands,
}

/// Why rules do not make a set. Each names the rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RuleSetError {
    /// The rule's name is empty or longer than [`RuleSet::NAME_BYTES_MAX`].
    Name(String),
    /// Two rules have this name.
    Duplicate(String),
    /// The rule's score is no finite number.
    Score(String),
    /// There are more than [`RuleSet::RULES_MAX`] rules.
    TooMany,
}

impl fmt::Display for RuleSetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RuleSetError::Name(name) => {
                let shown: String = name.chars().take(40).collect();
                write!(f, "a rule's name has 1 to {} bytes: `{shown}`", RuleSet::NAME_BYTES_MAX)
            }
            RuleSetError::Duplicate(name) => write!(f, "two rules are named `{name}`"),
            RuleSetError::Score(name) => write!(f, "the score of rule `{name}` is no finite number"),
            RuleSetError::TooMany => write!(f, "a set has at most {} rules", RuleSet::RULES_MAX),
        }
    }
}

impl std::error::Error for RuleSetError {}

impl RuleSet {
    /// Most rules of a set.
    pub const RULES_MAX: usize = 10_000;
    /// Longest name of a rule, in bytes.
    pub const NAME_BYTES_MAX: usize = 128;

    /// Puts rules together.
    pub fn new(rules: Vec<Rule>, bands: Bands) -> Result<RuleSet, RuleSetError> {
        if rules.len() > RuleSet::RULES_MAX {
            return Err(RuleSetError::TooMany);
        }
        let mut by_name = HashMap::with_capacity(rules.len());
        for (index, rule) in rules.iter().enumerate() {
            if rule.name.is_empty() || rule.name.len() > RuleSet::NAME_BYTES_MAX {
                return Err(RuleSetError::Name(rule.name.clone()));
            }
            if !rule.score.is_finite() {
                return Err(RuleSetError::Score(rule.name.clone()));
            }
            if by_name.insert(rule.name.clone(), index).is_some() {
                return Err(RuleSetError::Duplicate(rule.name.clone()));
            }
        }
        Ok(RuleSet { rules, by_name, bands })
    }

    /// The rules, in the order given.
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// The rule of this name.
    pub fn rule(&self, name: &str) -> Option<&Rule> {
        self.by_name.get(name).and_then(|index| self.rules.get(*index))
    }

    /// The bands.
    pub fn bands(&self) -> &Bands {
        &self.bands
    }

    /// Fills in the reasons' details with the values that `row` holds. The set and the row are those that
    /// [`judge`] was given; a reason whose rule is not in the set stays as it is.
    pub fn explain(&self, verdict: &mut Verdict, row: &Facts) {
        for reason in verdict.reasons.iter_mut().chain(&mut verdict.shadow) {
            let Some(rule) = self.rule(&reason.rule) else { continue };
            let reads = rule.condition.reads();
            reason.values = reads.iter().map(|read| (read.text.clone(), seen(read, row))).collect();
            let parts = reason.values.iter().zip(reads).map(|((name, value), read)| match value {
                None => format!("{name} is missing"),
                // Quoted and escaped: the sender chose it.
                Some(Value::String(text)) if matches!(row.get(read.slot), Some(Value::String(_))) => {
                    format!("{name} = {text:?}")
                }
                Some(Value::List(items)) => format!("{name} = {items:?}"),
                Some(other) => format!("{name} = {other}"),
            });
            reason.detail = parts.collect::<Vec<_>>().join(", ");
        }
    }
}

/// What was judged of one event.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// The sum of the scores of the enforced rules that fired, rounded to a millionth; always finite.
    pub score: f64,
    /// What the score asks for.
    pub action: Action,
    /// The enforced rules that fired, the weightiest first, then by name.
    pub reasons: Vec<Reason>,
    /// The rules in shadow that fired, in the same order. They have no influence.
    pub shadow: Vec<Reason>,
    /// The next band above the score.
    pub next: Option<Next>,
}

/// A rule that fired.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reason {
    /// The rule's name.
    pub rule: String,
    /// The rule's score.
    pub score: f64,
    /// The values as one line, e.g. `from.seen('1h') = 2310, mail.subject = "Cheap"`; empty until
    /// [`RuleSet::explain`].
    pub detail: String,
    /// What the rule reads and the values seen, `None` where missing: ages and the number of bytes as text,
    /// long texts and lists cut.
    /// Empty until [`RuleSet::explain`].
    pub values: Vec<(String, Option<Value>)>,
}

/// Judges a row.
///
/// Pure: the same set and row give the same verdict. Allocates only for rules that fire; the reasons' details
/// are left to [`RuleSet::explain`].
pub fn judge(set: &RuleSet, row: &Facts) -> Verdict {
    let (mut score, mut reasons, mut shadow) = (0.0f64, Vec::new(), Vec::new());
    for rule in &set.rules {
        if rule.mode == Mode::Off || !rule.condition.fires(row) {
            continue;
        }
        let reason =
            Reason { rule: rule.name.clone(), score: rule.score, detail: String::new(), values: Vec::new() };
        if rule.mode == Mode::Enforce {
            score = (score + rule.score).clamp(f64::MIN, f64::MAX);
            reasons.push(reason);
        } else {
            shadow.push(reason);
        }
    }
    let score = rounded(score);
    for fired in [&mut reasons, &mut shadow] {
        fired.sort_by(|a: &Reason, b: &Reason| {
            b.score.abs().total_cmp(&a.score.abs()).then_with(|| a.rule.cmp(&b.rule))
        });
    }
    Verdict { score, action: set.bands.action(score), reasons, shadow, next: set.bands.next(score) }
}

/// To a millionth: 0.7 + 0.1 reaches a band at 0.8, in whatever order rules are added up.
pub(crate) fn rounded(score: f64) -> f64 {
    const MILLION: f64 = 1e6;
    // From here on neighbouring floats are further apart than that.
    const COARSE: f64 = 1e9;
    if score.abs() < COARSE { (score * MILLION).round() / MILLION + 0.0 } else { score }
}

/// Longest text of a value in a reason, in characters.
const TEXT_CHARS_MAX: usize = 80;
/// Most items of a list in a reason.
const ITEMS_MAX: usize = 4;

/// A value as a reason keeps it.
fn seen(read: &Read, row: &Facts) -> Option<Value> {
    Some(match row.get(read.slot)? {
        Value::String(text) => Value::from(cut(text)),
        Value::List(items) => {
            let mut shown: Vec<String> = items.iter().take(ITEMS_MAX).map(|item| cut(item)).collect();
            if items.len() > ITEMS_MAX {
                shown.push(format!("… {} more", items.len() - ITEMS_MAX));
            }
            Value::from(shown)
        }
        Value::Bytes(bytes) => Value::from(format!("{} bytes", bytes.len())),
        Value::Integer(micros) if read.is_age => Value::from(Span(*micros).to_string()),
        other => other.clone(),
    })
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(TEXT_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
