//! The facts that decisions have in common and others have not: the same path, the same client, the same link of a wave.
//!
//! The newest decisions that fit a filter are held against as many of the same pipeline from before its time. A fact whose value
//! is much more frequent among the former is one that a rule may name, and comes with the condition that says so.

use std::collections::HashMap;

use event::Value;
use journal::{ReadBudget, RecordId, SkippedData};

use super::{DecisionFilter, DecisionQuery, DecisionSearchError, FactSelection, ListedDecision};
use crate::Engine;

/// Decisions on either side.
const SAMPLE: usize = 500;
/// Facts that are told, at most.
const FACTS_MAX: usize = 30;
/// The least share of the decisions that have a value in common.
const SHARE: f64 = 0.2;
/// The least factor by which a value is more frequent than before.
const LIFT: f64 = 2.0;
/// Items of a list that are looked at.
const ITEMS_MAX: usize = 64;
/// The longest text of a value, in bytes: a condition with more of it reads badly, and says hardly more.
const TEXT_BYTES_MAX: usize = 200;

/// A value of a fact that decisions have in common.
#[derive(Clone, Debug, PartialEq)]
pub struct CommonFact {
    /// The fact.
    pub fact: String,
    /// Its value; of a list an item.
    pub value: Value,
    /// The condition of a rule that is true of events with it.
    pub condition: String,
    /// Decisions that have it.
    pub count: u64,
    /// Others from before that have it.
    pub before: u64,
}

/// The facts that decisions have in common.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CommonFacts {
    /// The pipeline.
    pub pipeline: String,
    /// Decisions that were looked at.
    pub decisions: u64,
    /// Others from before that they were held against.
    pub others: u64,
    /// The facts, those first by which the decisions differ most from the others.
    pub facts: Vec<CommonFact>,
    /// True if fewer decisions were looked at than there are and were wanted, as reading took too long.
    pub is_partial: bool,
    /// The data that was passed over because it is damaged.
    pub skipped: SkippedData,
}

impl Engine {
    /// Returns the facts that the newest decisions which fit a filter have in common, and others of the pipeline before its time have
    /// not. Blocks.
    ///
    /// # Errors
    /// If the filter cannot be searched for, or the journal cannot be read.
    pub fn common_facts(
        &self,
        filter: DecisionFilter,
        budget: &mut ReadBudget<'_>,
    ) -> Result<CommonFacts, DecisionSearchError> {
        let from = filter.from;
        let query =
            DecisionQuery { filter, facts: FactSelection::All, limit: SAMPLE, ..DecisionQuery::default() };
        let found = self.search_decisions(&query, budget)?;
        let Some(newest) = found.decisions.first() else {
            return Ok(CommonFacts {
                is_partial: found.is_partial,
                skipped: found.skipped,
                ..CommonFacts::default()
            });
        };
        // One pipeline at a time: others have other facts.
        let pipeline = query.filter.pipeline.clone().unwrap_or_else(|| newest.pipeline.clone());
        let these: Vec<&ListedDecision> =
            found.decisions.iter().filter(|one| one.pipeline == pipeline).collect();
        let oldest = these.last().map_or(RecordId(0), |one| one.id);
        let below = from.map_or(oldest, |from| oldest.min(RecordId::first_of(from)));
        let before = DecisionQuery {
            filter: DecisionFilter { pipeline: Some(pipeline.clone()), ..DecisionFilter::default() },
            below: Some(below),
            ..query
        };
        let before = self.search_decisions(&before, budget)?;
        let mut skipped = found.skipped.clone();
        skipped.stretches += before.skipped.stretches;
        skipped.bytes += before.skipped.bytes;
        skipped.records += before.skipped.records;
        let (decisions, others) = (these.len(), before.decisions.len());
        let facts =
            telling(&counted(these.into_iter()), &counted(before.decisions.iter()), [decisions, others]);
        Ok(CommonFacts {
            pipeline,
            decisions: decisions as u64,
            others: others as u64,
            facts,
            is_partial: found.is_partial || before.is_partial,
            skipped,
        })
    }
}

/// Counts the conditions that hold of decisions, each once for a decision.
fn counted<'d>(
    decisions: impl Iterator<Item = &'d ListedDecision>,
) -> HashMap<String, (u64, &'d str, Value)> {
    let mut counts: HashMap<String, (u64, &str, Value)> = HashMap::new();
    for (name, value) in decisions.flat_map(|one| &one.facts) {
        for (condition, value) in fact_conditions(name, value) {
            counts.entry(condition).or_insert_with(|| (0, name.as_str(), value)).0 += 1;
        }
    }
    counts
}

/// Returns the conditions of a rule that are true of an event because of a fact, each with the value that it names: one, or one for
/// each item of a list; none for a reading, as others than this event have other ones, and for values that hardly two events share.
pub fn fact_conditions(name: &str, value: &Value) -> Vec<(String, Value)> {
    if name.contains('(') {
        return Vec::new();
    }
    let Value::List(items) = value else {
        return condition(name, value).map(|condition| (condition, value.clone())).into_iter().collect();
    };
    let mut seen: Vec<&str> = Vec::new();
    for item in items.iter().take(ITEMS_MAX) {
        if !seen.contains(&&**item) && item.len() <= TEXT_BYTES_MAX {
            seen.push(item);
        }
    }
    let conditions = seen.into_iter().map(|item| (format!("{} in {name}", quoted(item)), Value::from(item)));
    conditions.collect()
}

/// Returns the condition that a fact has a value; `None` for values that hardly two events share.
fn condition(name: &str, value: &Value) -> Option<String> {
    match value {
        // Of a longer one the beginning is known.
        Value::String(text) if text.len() <= TEXT_BYTES_MAX => Some(format!("{name} == {}", quoted(text))),
        Value::Integer(number) => Some(format!("{name} == {number}")),
        Value::Bool(true) => Some(name.to_owned()),
        Value::Bool(false) => Some(format!("!{name}")),
        Value::Ip(address) => Some(format!("{name} == ip('{address}')")),
        _ => None,
    }
}

/// Returns a text as conditions have it.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("'");
    for letter in text.chars() {
        match letter {
            '\'' | '\\' => quoted.extend(['\\', letter]),
            letter if letter.is_control() => quoted.push_str(&format!("\\u{:04x}", u32::from(letter))),
            letter => quoted.push(letter),
        }
    }
    quoted.push('\'');
    quoted
}

/// The values that are much more frequent among decisions than among others.
fn telling(
    these: &HashMap<String, (u64, &str, Value)>,
    before: &HashMap<String, (u64, &str, Value)>,
    [decisions, others]: [usize; 2],
) -> Vec<CommonFact> {
    let share = |count: u64, of: usize| if of == 0 { 0.0 } else { count as f64 / of as f64 };
    let mut facts: Vec<(f64, CommonFact)> = these
        .iter()
        .filter_map(|(condition, (count, fact, value))| {
            let known = before.get(condition).map_or(0, |(count, ..)| *count);
            let (is, was) = (share(*count, decisions), share(known, others));
            let fact = CommonFact {
                fact: (*fact).to_owned(),
                value: value.clone(),
                condition: condition.clone(),
                count: *count,
                before: known,
            };
            (is >= SHARE && is >= LIFT * was).then_some((is - was, fact))
        })
        .collect();
    facts.sort_by(|(one, first), (other, second)| {
        other.total_cmp(one).then_with(|| first.condition.cmp(&second.condition))
    });
    facts.truncate(FACTS_MAX);
    facts.into_iter().map(|(_, fact)| fact).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_quoted_as_conditions_have_them() {
        let check = |text: &str, expected: &str| assert_eq!(quoted(text), expected);
        check("/shop", "'/shop'");
        check("it's a \\", r"'it\'s a \\'");
        check("a\nb", r"'a\u000ab'");
    }
}
